/* thread.c: the pool of threads.
 *
 * One job at a time: body over [0, count). Its caller works too; a thread that
 * calls while another's job runs, or from within a job, works alone, so that
 * nothing ever waits for a pool that waits for it.
 *
 * Workers wait for a job first by looking at a counter (a wake-up by the
 * kernel costs some 50 us, more than many a job), then asleep. A worker counts
 * itself inside before it looks for the job, and the caller, who owns the job's
 * memory, closes the job before it looks for workers inside: one of them sees
 * the other. No lock is on the way of who is awake: its second
 * taker would go to sleep.
 *
 * Each thread has a share of the parts, the same in every job of as many, and
 * helps with others' when its own is done: what a job wrote is often what the
 * next one reads, and lies in the caches of who wrote it.
 */
#include <base/thread.h>
#include <base/context.h>
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/platform.h>
#include <base/timeline.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MAX_THREADS 1024
#define SHARES 16  /* of more threads some have one together */
#define LINE 64 /* bytes of a cache's line, which no two threads write */
#define SPIN 2000 /* looks before sleep: some 20-60 us on what we measured */
/* Where each thread has a processor. A step of training has serial stretches of
 * 20 to 100 us: with SPIN alone the worker slept 74 times of 391 in a step of
 * the character GPT (two threads, Zen 5). */
#define LOOK_US 300
#define LOOKS 100 /* of them from one look at the clock to the next */

/* Parts [next, end) are still to be done. */
typedef struct share {
    _Alignas(LINE) _Atomic int64_t next;
    int64_t end;
} share;

typedef struct job {
    share share[SHARES];
    int share_count;
    void (*body)(void *context, int64_t i);
    void *context;
    int64_t count;
    tn__error error; /* the first that a worker recorded; guarded by lock */
} job;

/* Held by whoever runs a job or changes the number of threads. */
static tn__lock use = TN__LOCK_INIT;
/* Guards all below but the atomics, and who goes to sleep. */
static tn__lock lock = TN__LOCK_INIT;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static _Atomic(job *) open_job; /* NULL: none that a worker may enter */
static _Atomic uint64_t jobs;   /* opened since start */
static _Atomic int inside;      /* workers in the job */
static _Atomic int sleeping;    /* workers asleep, or about to be */
static _Atomic bool waiting;    /* the caller, for `inside` to be 0 */
static bool looks_long;         /* has each thread a processor? */
static _Atomic bool quit;
static pthread_t *worker;      /* owned */
static int worker_count;

static _Atomic int wanted; /* threads, the caller included; 0: not known */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* The child of a fork has the memory of the pool and none of its threads. */
static void after_fork(void)
{
    pthread_cond_init(&wake, NULL);
    pthread_cond_init(&idle, NULL);
    atomic_store(&open_job, NULL);
    atomic_store(&inside, 0);
    atomic_store(&sleeping, 0);
    atomic_store(&waiting, false);
    atomic_store(&quit, false);
    tn__free(worker);
    worker = NULL;
    worker_count = 0;
}

static void fork_watch(void)
{
    pthread_atfork(NULL, NULL, after_fork);
}

/* The caller is number 0. */
static void run_parts(job *j, int number)
{
    for (int k = 0; k < j->share_count; k++) {
        share *s = &j->share[(number + k) % j->share_count];
        int64_t i = atomic_load_explicit(&s->next, memory_order_relaxed);
        while (i < s->end && (i = atomic_fetch_add_explicit(
                                  &s->next, 1, memory_order_relaxed)) < s->end)
            j->body(j->context, i);
    }
}

static void share_out(job *j, int threads)
{
    int count = threads < SHARES ? threads : SHARES;
    j->share_count = j->count < count ? (int)j->count : count;
    int64_t each = j->count / j->share_count;
    int64_t more = j->count % j->share_count; /* shares have one part more */
    int64_t at = 0;
    for (int k = 0; k < j->share_count; k++) {
        atomic_init(&j->share[k].next, at);
        at += each + (k < more);
        j->share[k].end = at;
    }
}

/* Waits for another job than number `seen`, awake at first; its number. */
static uint64_t next_job(uint64_t seen)
{
    double begin = 0;
    for (int i = 1; atomic_load_explicit(&jobs, memory_order_relaxed) == seen;
         i++) {
        tn__cpu_relax();
        if (i < SPIN || i % LOOKS)
            continue;
        double now = looks_long ? tn__timeline_now() : 0;
        if (i == SPIN)
            begin = now;
        if (!looks_long || now - begin > LOOK_US)
            break;
        sched_yield(); /* whoever else wants this processor goes first */
    }
    if (atomic_load(&jobs) == seen) {
        tn__lock_take(&lock);
        atomic_fetch_add(&sleeping, 1);
        while (atomic_load(&jobs) == seen)
            tn__lock_wait(&lock, &wake);
        atomic_fetch_sub(&sleeping, 1);
        tn__lock_give(&lock);
    }
    return atomic_load(&jobs);
}

static void *work(void *number)
{
    tn__me.in_job = true; /* whatever runs here is part of a job */
    uint64_t seen = 0;
    while (!atomic_load(&quit)) {
        atomic_fetch_add(&inside, 1);
        job *j = atomic_load(&open_job);
        if (j)
            run_parts(j, (int)(intptr_t)number);
        if (j && tn__error_pending()) {
            tn__error error = {0};
            tn__error_take(&error);
            tn__lock_take(&lock);
            if (!j->error.code)
                j->error = error;
            tn__lock_give(&lock);
        }
        if (atomic_fetch_sub(&inside, 1) == 1 && atomic_load(&waiting)) {
            tn__lock_take(&lock);
            pthread_cond_signal(&idle);
            tn__lock_give(&lock);
        }
        seen = next_job(seen);
    }
    return NULL;
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
    atomic_store(&quit, true);
    atomic_fetch_add(&jobs, 1);
    tn__lock_take(&lock);
    pthread_cond_broadcast(&wake);
    tn__lock_give(&lock);
    for (int i = 0; i < worker_count; i++)
        pthread_join(worker[i], NULL);
    atomic_store(&quit, false);
    worker_count = 0;
    tn__free(worker);
    worker = NULL;
}

/* Starts what is missing of `count` workers. Under `use`. Fewer is no error:
 * the caller alone can do all the work. */
static void workers_start(int count)
{
    pthread_once(&fork_once, fork_watch);
    if (count < 1)
        return;
    tn__error before;
    tn__error_hide(&before);
    worker = tn__alloc_many(count, sizeof *worker);
    tn__error_restore(&before);
    if (!worker)
        return;
    looks_long = count < tn__processor_count();
    /* The program's signals are for the program's threads. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (worker_count < count &&
           !pthread_create(&worker[worker_count], NULL, work,
                           (void *)(intptr_t)(worker_count + 1)))
        worker_count++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (worker_count < count)
        tn__log(1, "only %d of %d threads could be started", worker_count + 1,
                count + 1);
}

/* Nobody enters any more; waits until nobody is inside. */
static void job_close(void)
{
    atomic_store(&open_job, NULL);
    for (int i = 0; i < SPIN && atomic_load(&inside); i++)
        tn__cpu_relax();
    if (!atomic_load(&inside))
        return;
    tn__lock_take(&lock);
    atomic_store(&waiting, true);
    while (atomic_load(&inside))
        tn__lock_wait(&lock, &idle);
    atomic_store(&waiting, false);
    tn__lock_give(&lock);
}

static void job_open(job *j)
{
    atomic_store(&open_job, j);
    atomic_fetch_add(&jobs, 1);
    int asleep = atomic_load(&sleeping);
    if (!asleep)
        return;
    tn__lock_take(&lock);
    if (j->count - 1 >= asleep)
        pthread_cond_broadcast(&wake);
    else
        for (int64_t i = 1; i < j->count; i++)
            pthread_cond_signal(&wake);
    tn__lock_give(&lock);
}

void tn__parallel_for(int64_t count, void (*body)(void *context, int64_t i),
                      void *context)
{
    int threads = count > 1 && !tn__me.in_job ? count_wanted() : 1;
    if (threads < 2 || !tn__lock_try(&use)) {
        for (int64_t i = 0; i < count; i++)
            body(context, i);
        return;
    }
    if (!worker) /* the number may have changed before we had `use` */
        workers_start(count_wanted() - 1);
    job j;
    j.body = body;
    j.context = context;
    j.count = count;
    j.error.code = TN_OK;
    share_out(&j, worker_count + 1);
    tn__me.in_job = true;
    job_open(&j);
    run_parts(&j, 0);
    job_close();
    tn__me.in_job = false;
    tn__lock_give(&use);
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
    if (tn__me.in_job)
        return tn__fail(TN_ERR_STATE, "set_num_threads: not from within "
                                      "parallel work");
    tn__lock_take(&use);
    workers_stop();
    atomic_store(&wanted, count);
    tn__lock_give(&use);
    return TN_OK;
}

/* A process that ends leaves no thread for the leak checkers to find. Not
 * while a job runs: who calls exit() then does not wait for it. */
__attribute__((destructor)) static void at_exit(void)
{
    if (tn__me.in_job || !tn__lock_try(&use))
        return;
    workers_stop();
    tn__lock_give(&use);
}
