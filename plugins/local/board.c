/* board.c: the processes of a job: who lives, and the verdict that ends it.
 *
 * Whether a process lives is read from a robust mutex that one of its threads
 * holds: the kernel marks it when the process ends in any way. A process id
 * would be reused, and a zombie, whose parent has not waited yet, still has
 * one. */
#include "local.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t local_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static size_t board_bytes(int32_t count)
{
    return sizeof(local_board) + (size_t)count * sizeof(local_slot);
}

/* ---- the heart ----------------------------------------------------------- */

/* Holds the slot's mutex and writes heartbeats until it is told to stop. A
 * process that is stopped (SIGSTOP) keeps the mutex, and is seen by its
 * silence. */
static void *beat(void *context)
{
    local_job *job = context;
    local_slot *slot = &job->board->slot[job->rank];
    pthread_mutex_lock(&slot->life);
    atomic_store(&slot->beat_ns, local_now());
    atomic_store(&job->started, 1);
    while (!atomic_load(&job->stop)) {
        struct timespec wait = {.tv_nsec = LOCAL_BEAT_MS * 1000000L};
        syscall(SYS_futex, &job->stop, FUTEX_WAIT_PRIVATE, 0, &wait, NULL, 0);
        atomic_store(&slot->beat_ns, local_now());
    }
    pthread_mutex_unlock(&slot->life);
    return NULL;
}

static bool heart_start(local_job *job)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&job->heart, NULL, beat, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        local_host->fail(TN_ERR_MEMORY, "local: cannot start a thread: %s",
                         strerror(error));
        return false;
    }
    job->beats = true;
    while (!atomic_load(&job->started))
        sched_yield();
    return true;
}

static void heart_stop(local_job *job)
{
    if (!job->beats)
        return;
    atomic_store(&job->stop, 1);
    syscall(SYS_futex, &job->stop, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    pthread_join(job->heart, NULL);
    job->beats = false;
}

uint32_t local_job_life(local_job *job, int32_t rank)
{
    local_slot *slot = &job->board->slot[rank];
    if (atomic_load(&slot->closed))
        return TN_COMM_CLOSED;
    if (rank == job->rank || !atomic_load(&slot->process))
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

/* ---- the verdict ---------------------------------------------------------- */

bool local_job_has_verdict(const local_job *job)
{
    return atomic_load_explicit(&job->board->verdict, memory_order_relaxed) !=
           LOCAL_NO_VERDICT;
}

void local_job_judge(local_job *job, tn_status code, const char *text)
{
    local_board *board = job->board;
    uint32_t none = LOCAL_NO_VERDICT;
    if (!atomic_compare_exchange_strong(&board->verdict, &none,
                                        LOCAL_VERDICT_WRITTEN))
        return;
    board->verdict_code = code;
    snprintf(board->verdict_text, sizeof board->verdict_text, "%s", text);
    atomic_store(&board->verdict, LOCAL_VERDICT);
}

/* ---- joining -------------------------------------------------------------- */

/* Writes why waiting makes no sense any more. Returns false if it does. */
static bool hopeless(local_job *job, const int32_t *member, int32_t count,
                     uint64_t deadline, const char *what, char *text, size_t room)
{
    for (int32_t i = 0; i < count; i++) {
        const int32_t r = member ? member[i] : i;
        uint32_t life = local_job_life(job, r);
        if (life == TN_COMM_ALIVE)
            continue;
        snprintf(text, room, "%s: rank %d (process %lld) %s", what, (int)r,
                 (long long)atomic_load(&job->board->slot[r].process),
                 life == TN_COMM_GONE ? "has ended" : "has left the job");
        return true;
    }
    if (local_now() < deadline)
        return false;
    char missing[128] = "";
    size_t used = 0;
    for (int32_t r = 0; r < job->count && used < sizeof missing - 8; r++)
        if (!atomic_load(&job->board->slot[r].process))
            used += (size_t)snprintf(missing + used, sizeof missing - used,
                                     "%s%d", used ? ", " : "", (int)r);
    snprintf(text, room, "%s: waited %.1f s%s%s; all ranks must be on this "
             "machine (%s)", what, (double)job->timeout_ns * 1e-9,
             used ? "; these ranks did not join: " : "", missing,
             job->board->host);
    return true;
}

bool local_job_patience(local_job *job, const int32_t *member, int32_t count,
                        uint64_t deadline, const char *what)
{
    char text[512];
    if (!local_job_has_verdict(job)) {
        if (!hopeless(job, member, count, deadline, what, text, sizeof text)) {
            sleep_ms(1);
            return true;
        }
        local_job_judge(job, TN_ERR_STATE, text);
    }
    for (int i = 0; i < 200 && atomic_load(&job->board->verdict) !=
                                   LOCAL_VERDICT; i++)
        sleep_ms(1);
    local_host->fail(TN_ERR_STATE, "local: %s", job->board->verdict_text);
    return false;
}

static bool board_init(local_board *board, int32_t count)
{
    pthread_mutexattr_t shared;
    bool good = !pthread_mutexattr_init(&shared) &&
                !pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) &&
                !pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    for (int32_t r = 0; good && r < count; r++)
        good = !pthread_mutex_init(&board->slot[r].life, &shared);
    pthread_mutexattr_destroy(&shared);
    board->count = count;
    gethostname(board->host, sizeof board->host - 1);
    return good;
}

/* Whether rank 0, which made the board, still lives: a board of a job that was
 * killed while it started has the same name as ours. */
static bool board_is_stale(local_job *job)
{
    int32_t rank = job->rank;
    job->rank = -1;
    bool stale = local_job_life(job, 0) != TN_COMM_ALIVE;
    job->rank = rank;
    return stale;
}

static bool board_make(local_job *job)
{
    local_board *old = local_segment_try(job->name, &job->bytes);
    if (old) {
        job->board = old;
        bool stale = board_is_stale(job);
        local_segment_unmap(old, job->bytes);
        job->board = NULL;
        if (!stale) {
            local_host->fail(TN_ERR_STATE, "local: a job %s runs already on this "
                             "machine; give each job a name of its own "
                             "(TENON_JOB)", job->name + 1);
            return false;
        }
    }
    local_segment_remove(job->name);
    job->bytes = board_bytes(job->count);
    job->board = local_segment_make(job->name, job->bytes);
    if (!job->board)
        return false;
    if (!board_init(job->board, job->count)) {
        local_host->fail(TN_ERR_UNSUPPORTED,
                         "local: no robust mutexes on this system");
        return false;
    }
    return true;
}

static bool board_find(local_job *job, uint64_t deadline)
{
    for (;;) {
        job->board = local_segment_try(job->name, &job->bytes);
        if (job->board && !board_is_stale(job))
            break;
        if (job->board)
            local_segment_unmap(job->board, job->bytes);
        job->board = NULL;
        if (local_now() > deadline) {
            local_host->fail(TN_ERR_STATE,
                             "local: rank 0 of job %s did not appear on this "
                             "machine within %.1f s",
                             job->name + 1, (double)job->timeout_ns * 1e-9);
            return false;
        }
        sleep_ms(1);
    }
    if (job->board->count == job->count)
        return true;
    local_host->fail(TN_ERR_ARGUMENT, "local: rank %d expects %d processes, "
                     "rank 0 %d", (int)job->rank, (int)job->count,
                     (int)job->board->count);
    return false;
}

local_job *local_job_open(const tn_comm_place *place)
{
    local_job *job = calloc(1, sizeof *job);
    if (!job) {
        local_host->fail(TN_ERR_MEMORY, "local: no memory");
        return NULL;
    }
    job->rank = place->rank;
    job->count = place->count;
    job->timeout_ns = place->timeout_ns;
    job->references = 1;
    snprintf(job->name, sizeof job->name, "/tenon-%u-%s", (unsigned)geteuid(),
             place->job);
    const uint64_t deadline = local_now() + place->timeout_ns;
    if (!(job->rank == 0 ? board_make(job) : board_find(job, deadline)))
        goto fail;
    local_slot *slot = &job->board->slot[job->rank];
    int64_t nobody = 0;
    if (!atomic_compare_exchange_strong(&slot->process, &nobody, -1)) {
        local_host->fail(TN_ERR_ARGUMENT, "local: two processes have rank %d: "
                         "%lld and %lld", (int)job->rank, (long long)nobody,
                         (long long)getpid());
        goto fail;
    }
    if (!heart_start(job))
        goto fail;
    atomic_store(&slot->process, getpid());
    atomic_store(&job->board->ready, LOCAL_READY);
    atomic_fetch_add(&job->board->joined, 1);
    bool waits = true;
    while (atomic_load(&job->board->joined) < job->count && waits)
        waits = local_job_patience(job, NULL, job->count, deadline,
                                   "joining the job");
    if (job->rank == 0)
        local_segment_remove(job->name);
    if (waits)
        return job;
fail:
    local_job_drop(job);
    return NULL;
}

void local_job_drop(local_job *job)
{
    if (--job->references > 0)
        return;
    if (job->beats)
        atomic_store(&job->board->slot[job->rank].closed, 1);
    heart_stop(job);
    if (job->board)
        local_segment_unmap(job->board, job->bytes);
    free(job);
}
