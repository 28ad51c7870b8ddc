/* thread.c: the thread pool, which runs the iterations of a loop in parallel.
 *
 * The pool runs one job at a time. A job calls a function `body` for all i of
 * [0, count). The thread that starts a job runs iterations too. If another job
 * is running, or the thread is itself inside a job, it runs all iterations
 * alone. So no deadlock is possible.
 *
 * Idle workers first spin on a counter, and sleep only after some time: waking
 * a thread takes about 50 us, longer than many jobs. A worker increments
 * `inside` before it reads open_job. The caller, whose stack holds the job,
 * clears open_job before it reads `inside`. So either the worker sees that the
 * job is closed, or the caller sees that a worker is inside and waits for it.
 * Threads that are awake take no lock, since a contended lock would put them to
 * sleep.
 *
 * The iterations are divided into contiguous shares, which are the same in each
 * job with the same count. Each thread begins with its own share and then helps
 * with the others. A job often reads what the previous job wrote. With the same
 * shares, that data is in the cache of the same processor. */
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
/* Largest number of shares of a job. With more threads than this, some threads
 * begin with the same share. */
#define SHARES 16
#define LINE 64   /* size of a cache line in bytes; each share has a cache line
                   * of its own */
#define SPIN 2000 /* number of times a worker reads the counter before it
                   * sleeps; 20 to 60 us as measured */
/* How long a worker spins before it sleeps, in microseconds, if each thread has
 * a processor. The parts of a training step that run on one thread take 20 to
 * 100 us, so a worker should not fall asleep during such a part. */
#define SPIN_US 300
#define SPINS_PER_CLOCK 100 /* number of reads of the counter for each read of
                             * the clock */

/* A share of the iterations of a job. The iterations from `next` up to but not
 * including `end` are not started yet. */
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
    tn__error error; /* first error that a worker recorded; `lock` guards it */
} job;

/* Held while a job runs or the number of threads changes. */
static tn__lock use = TN__LOCK_INIT;
/* Guards the variables below, except atomic ones. A worker also holds it while
 * it goes to sleep. */
static tn__lock lock = TN__LOCK_INIT;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static _Atomic(job *) open_job; /* the job in which workers can take part; NULL
                                 * if there is none */
static _Atomic uint64_t jobs;   /* number of jobs that were started */
static _Atomic int inside; /* number of workers that take part in the job */
static _Atomic int sleeping; /* number of workers that sleep or are about to */
static _Atomic bool waiting;    /* true while the caller waits until `inside` is
                                 * 0 */
static bool spins_long;         /* true if workers spin for SPIN_US, because
                                 * each thread has a processor */
static _Atomic bool quit;
static pthread_t *worker;      /* owned array of worker threads */
static int worker_count;

static _Atomic int wanted; /* number of threads, including the caller's; 0 until
                            * it is set */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* Resets the pool in the child of a fork, in which the worker threads do not
 * exist. */
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

/* Runs iterations of a job as the thread with index `number`; the thread that
 * started the job has index 0. Begins with the thread's own share. */
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
    /* number of shares (ranges of iterations) with each + 1 iterations */
    int64_t more = j->count % j->share_count;
    int64_t at = 0;
    for (int k = 0; k < j->share_count; k++) {
        atomic_init(&j->share[k].next, at);
        at += each + (k < more);
        j->share[k].end = at;
    }
}

/* Waits until a job after number `seen` has started: first spins, then sleeps.
 * Returns the new job's number. */
static uint64_t next_job(uint64_t seen)
{
    double begin = 0;
    for (int i = 1; atomic_load_explicit(&jobs, memory_order_relaxed) == seen;
         i++) {
        tn__cpu_relax();
        if (i < SPIN || i % SPINS_PER_CLOCK)
            continue;
        double now = spins_long ? tn__timeline_now() : 0;
        if (i == SPIN)
            begin = now;
        if (!spins_long || now - begin > SPIN_US)
            break;
        sched_yield(); /* let other threads use this processor */
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
    tn__me.in_job = true; /* a nested tn__parallel_for on this thread must not
                           * start a job */
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
    /* If another thread has called tn_set_num_threads in the meantime, the
     * number that it set is used. */
    return atomic_compare_exchange_strong(&wanted, &none, count) ? count
                                                                 : none;
}

/* Ends all worker threads. The caller holds the lock `use`. */
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

/* Starts worker threads until there are `count`. The caller holds the lock
 * `use`. Starting fewer is not an error, since the caller can do all the
 * work. */
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
    spins_long = count < tn__processor_count();
    /* Workers block all signals, so that signals are delivered to the program's
     * own threads. */
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

/* Closes the job, so that no worker can begin to take part, and waits until all
 * workers have left it. */
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
    /* If the number of threads was changed before `use` was taken, the workers
     * have ended. */
    if (!worker)
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
                        "set_num_threads: count is %d; expected 1 to %d",
                        count, MAX_THREADS);
    if (tn__me.in_job)
        return tn__fail(TN_ERR_STATE, "set_num_threads: called within "
                                      "parallel work: call it before");
    tn__lock_take(&use);
    workers_stop();
    atomic_store(&wanted, count);
    tn__lock_give(&use);
    return TN_OK;
}

/* Ends the workers at exit, so that leak checkers find no memory of theirs.
 * Does nothing while a job runs, since exit() must not wait for it. */
__attribute__((destructor)) static void at_exit(void)
{
    if (tn__me.in_job || !tn__lock_try(&use))
        return;
    workers_stop();
    tn__lock_give(&use);
}
