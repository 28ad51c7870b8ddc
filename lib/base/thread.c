/* thread.c: the pool of threads.
 *
 * One job at a time: body over [0, count). Its caller works too; a thread that
 * calls while another's job runs, or from within a job, works alone, so that
 * nothing ever waits for a pool that waits for it.
 *
 * Workers wait for a job first by looking at a counter (a wake-up by the
 * kernel costs some 50 us, more than many a job), then asleep. They enter and
 * leave a job under the lock, so that the caller, who owns the job's memory,
 * knows when nobody is inside any more; the parts themselves are handed out by
 * an atomic counter, in rising order.
 */
#include "base/thread.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MAX_THREADS 1024
#define SPIN 2000 /* looks before sleep: some 20-60 us on what we measured */

typedef struct job {
    void (*body)(void *context, int64_t i);
    void *context;
    int64_t count;
    _Atomic int64_t next;
    tn__error error; /* the first that a worker recorded; guarded by lock */
} job;

/* Held by whoever runs a job or changes the number of threads. */
static pthread_mutex_t use = PTHREAD_MUTEX_INITIALIZER;
/* Guards all below; the two atomics may be read without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static job *open_job;          /* NULL: none that a worker may enter */
static _Atomic uint64_t jobs;  /* opened since start */
static _Atomic int inside;     /* workers in the job */
static int sleeping;           /* workers asleep */
static bool quit;
static pthread_t *worker;      /* owned */
static int worker_count;

static _Atomic int wanted; /* threads, the caller included; 0: not known */
static TN__HOT_TLS bool in_job;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* The child of a fork has the memory of the pool and none of its threads. */
static void after_fork(void)
{
    pthread_mutex_init(&use, NULL);
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&wake, NULL);
    pthread_cond_init(&idle, NULL);
    open_job = NULL;
    atomic_store(&inside, 0);
    sleeping = 0;
    quit = false;
    tn__free(worker);
    worker = NULL;
    worker_count = 0;
}

static void fork_watch(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

static void run_parts(job *j)
{
    int64_t i;
    while ((i = atomic_fetch_add_explicit(&j->next, 1,
                                          memory_order_relaxed)) < j->count)
        j->body(j->context, i);
}

static void *work(void *unused)
{
    (void)unused;
    in_job = true; /* whatever runs here is part of a job */
    uint64_t seen = 0;
    for (;;) {
        for (int i = 0; i < SPIN && atomic_load_explicit(
                                        &jobs, memory_order_relaxed) == seen;
             i++)
            tn__cpu_relax();
        pthread_mutex_lock(&lock);
        while (!quit && atomic_load(&jobs) == seen) {
            sleeping++;
            pthread_cond_wait(&wake, &lock);
            sleeping--;
        }
        seen = atomic_load(&jobs);
        job *j = open_job;
        if (quit) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        if (j)
            atomic_fetch_add(&inside, 1);
        pthread_mutex_unlock(&lock);
        if (!j)
            continue;
        run_parts(j);
        tn__error error = {0};
        if (tn__error_pending())
            tn__error_take(&error);
        pthread_mutex_lock(&lock);
        if (error.code && !j->error.code)
            j->error = error;
        if (atomic_fetch_sub(&inside, 1) == 1)
            pthread_cond_signal(&idle);
        pthread_mutex_unlock(&lock);
    }
}

static int count_wanted(void)
{
    int count = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (count)
        return count;
    count = tn__processor_count();
    if (count > MAX_THREADS)
        count = MAX_THREADS;
    const char *text = tn__env("TENON_NUM_THREADS");
    if (text) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end != text && !*end && value >= 1 && value <= MAX_THREADS)
            count = (int)value;
        else
            tn__log(1,
                    "TENON_NUM_THREADS=%s is not a number from 1 to %d: using "
                    "%d threads",
                    text, MAX_THREADS, count);
    }
    int none = 0;
    /* tn_set_num_threads may have come first: it wins. */
    return atomic_compare_exchange_strong(&wanted, &none, count) ? count
                                                                 : none;
}

/* Ends all workers. Under `use`. */
static void workers_stop(void)
{
    pthread_mutex_lock(&lock);
    quit = true;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < worker_count; i++)
        pthread_join(worker[i], NULL);
    quit = false;
    worker_count = 0;
    tn__free(worker);
    worker = NULL;
}

/* Starts what is missing of `count` workers. Under `use`. Fewer is no error:
 * the caller alone can do all the work. */
static void workers_start(int count)
{
    pthread_once(&fork_once, fork_watch);
    tn__error before;
    tn__error_take(&before);
    worker = tn__alloc((size_t)count * sizeof *worker);
    tn__error_put(&before);
    if (!worker)
        return;
    /* The program's signals are for the program's threads. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (worker_count < count &&
           !pthread_create(&worker[worker_count], NULL, work, NULL))
        worker_count++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (worker_count < count)
        tn__log(1, "only %d of %d threads could be started", worker_count + 1,
                count + 1);
}

/* Nobody enters any more; waits until nobody is inside. */
static void job_close(void)
{
    pthread_mutex_lock(&lock);
    open_job = NULL;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < SPIN && atomic_load_explicit(
                                    &inside, memory_order_relaxed);
         i++)
        tn__cpu_relax();
    pthread_mutex_lock(&lock);
    while (atomic_load(&inside))
        pthread_cond_wait(&idle, &lock);
    pthread_mutex_unlock(&lock);
}

static void job_open(job *j)
{
    pthread_mutex_lock(&lock);
    open_job = j;
    atomic_fetch_add(&jobs, 1);
    if (sleeping) {
        if (j->count - 1 >= sleeping)
            pthread_cond_broadcast(&wake);
        else
            for (int64_t i = 1; i < j->count; i++)
                pthread_cond_signal(&wake);
    }
    pthread_mutex_unlock(&lock);
}

void tn__parallel_for(int64_t count, void (*body)(void *context, int64_t i),
                      void *context)
{
    int threads = count > 1 && !in_job ? count_wanted() : 1;
    if (threads < 2 || pthread_mutex_trylock(&use)) {
        for (int64_t i = 0; i < count; i++)
            body(context, i);
        return;
    }
    if (!worker)
        workers_start(threads - 1);
    job j = {.body = body, .context = context, .count = count};
    in_job = true;
    job_open(&j);
    run_parts(&j);
    job_close();
    in_job = false;
    pthread_mutex_unlock(&use);
    if (j.error.code)
        tn__fail(j.error.code, "%s", j.error.text);
}

int tn_num_threads(void)
{
    return count_wanted();
}

tn_status tn_set_num_threads(int count)
{
    if (count < 1 || count > MAX_THREADS)
        return tn__fail(TN_ERR_ARGUMENT,
                        "set_num_threads: %d is not from 1 to %d", count,
                        MAX_THREADS);
    if (in_job)
        return tn__fail(TN_ERR_STATE, "set_num_threads: not from within "
                                      "parallel work");
    pthread_mutex_lock(&use);
    workers_stop();
    atomic_store(&wanted, count);
    pthread_mutex_unlock(&use);
    return TN_OK;
}

/* A process that ends leaves no thread for the leak checkers to find. Not
 * while a job runs: who calls exit() then does not wait for it. */
__attribute__((destructor)) static void at_exit(void)
{
    if (in_job || pthread_mutex_trylock(&use))
        return;
    workers_stop();
    pthread_mutex_unlock(&use);
}
