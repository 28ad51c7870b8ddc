/* board.c: the processes of this machine: who lives, and the verdict that ends
 * the job.
 *
 * MPI does not say that a process has ended: with shared memory it does not see
 * it, and with TCP it waits for minutes. As in plugins/local, a robust mutex
 * says it, which a thread of the process holds. */
#include "engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const tn_comm_host *engine_host;
pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t engine_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

size_t engine_board_bytes(int32_t seats)
{
    return sizeof(engine_board) + (size_t)seats * sizeof(engine_slot);
}

bool engine_board_init(engine_board *board, int32_t seats)
{
    memset(board, 0, engine_board_bytes(seats));
    pthread_mutexattr_t shared;
    bool good = !pthread_mutexattr_init(&shared) &&
                !pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) &&
                !pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    for (int32_t r = 0; good && r < seats; r++)
        good = !pthread_mutex_init(&board->slot[r].life, &shared);
    pthread_mutexattr_destroy(&shared);
    return good;
}

/* ---- the heart ------------------------------------------------------------ */

static engine_slot *own_slot(engine_job *job)
{
    return &job->board->slot[job->seat[job->rank]];
}

/* Holds the slot's mutex and writes heartbeats until it is told to stop. It also
 * answers the notes of ranks that ask where this process is, because a process
 * that computes does not call the engine. */
static void *beat(void *context)
{
    engine_job *job = context;
    engine_slot *slot = own_slot(job);
    pthread_mutex_lock(&slot->life);
    atomic_store(&slot->beat_ns, engine_now());
    atomic_store(&job->started, 1);
    while (!atomic_load(&job->stop)) {
        struct timespec wait = {.tv_nsec = ENGINE_BEAT_MS * 1000000L};
        syscall(SYS_futex, &job->stop, FUTEX_WAIT_PRIVATE, 0, &wait, NULL, 0);
        atomic_store(&slot->beat_ns, engine_now());
        /* Whoever holds the lock answers notes itself. */
        if (job->serve && !atomic_load(&job->stop) &&
            !pthread_mutex_trylock(&engine_lock)) {
            job->serve(job);
            pthread_mutex_unlock(&engine_lock);
        }
    }
    pthread_mutex_unlock(&slot->life);
    return NULL;
}

bool engine_heart_start(engine_job *job)
{
    atomic_store(&job->stop, 0);
    atomic_store(&job->started, 0);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&job->heart, NULL, beat, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        engine_host->fail(TN_ERR_MEMORY, "mpi: cannot start a thread: %s",
                          strerror(error));
        return false;
    }
    job->beats = true;
    while (!atomic_load(&job->started))
        sched_yield();
    return true;
}

void engine_heart_stop(engine_job *job)
{
    if (!job->beats)
        return;
    atomic_store(&job->stop, 1);
    syscall(SYS_futex, &job->stop, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pthread_join(job->heart, NULL);
    job->beats = false;
}

uint32_t engine_slot_life(engine_slot *slot, bool own)
{
    if (atomic_load(&slot->closed))
        return TN_COMM_CLOSED;
    if (own || !atomic_load(&slot->process))
        return TN_COMM_ALIVE;
    if (atomic_load(&slot->gone))
        return TN_COMM_GONE;
    /* EOWNERDEAD gives us the mutex. Unlocked as it is, all later calls of any
     * process get ENOTRECOVERABLE, or EBUSY while another rank asks: the flag
     * keeps the answer from changing. */
    int got = pthread_mutex_trylock(&slot->life);
    if (got == EOWNERDEAD || got == ENOTRECOVERABLE)
        atomic_store(&slot->gone, 1);
    if (got == 0 || got == EOWNERDEAD)
        pthread_mutex_unlock(&slot->life);
    if (got == 0) /* it has just closed, or is about to */
        return atomic_load(&slot->closed) ? TN_COMM_CLOSED : TN_COMM_ALIVE;
    return atomic_load(&slot->gone) ? TN_COMM_GONE : TN_COMM_ALIVE;
}

uint32_t engine_life(engine_job *job, int32_t rank)
{
    if (atomic_load(&job->left[rank]))
        return TN_COMM_CLOSED;
    return job->seat[rank] < 0
               ? TN_COMM_ALIVE
               : engine_slot_life(&job->board->slot[job->seat[rank]],
                                  rank == job->rank);
}

/* ---- the verdict ---------------------------------------------------------- */

bool engine_has_verdict(const engine_job *job)
{
    return atomic_load_explicit(&job->board->verdict, memory_order_relaxed) !=
           ENGINE_NO_VERDICT;
}

bool engine_judge(engine_job *job, tn_status code, const char *text)
{
    engine_board *board = job->board;
    uint32_t none = ENGINE_NO_VERDICT;
    if (!atomic_compare_exchange_strong(&board->verdict, &none,
                                        ENGINE_VERDICT_WRITTEN))
        return false;
    board->verdict_code = code;
    snprintf(board->verdict_text, sizeof board->verdict_text, "%s", text);
    atomic_store(&board->verdict, ENGINE_VERDICT);
    return true;
}
