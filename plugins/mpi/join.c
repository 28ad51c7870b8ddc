/* join.c: MPI, the communicators and the board of a job, and the end of MPI.
 *
 * What waits for other processes (MPI_Init, and the collectives that make the
 * communicators) runs in a thread, which is left alone if a rank does not come:
 * MPI has no timeouts. */
#include "engine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- whether it can -------------------------------------------------------- */

static bool has(const char *name)
{
    const char *text = secure_getenv(name);
    return text && *text;
}

tn_status engine_probe(const tn_comm_place *place)
{
    if (place->device[0])
        return engine_host->fail(TN_ERR_UNSUPPORTED, "mpi: moves host memory, not "
                                 "that of %s: move tensors by tn_to, or give "
                                 ".staging = true", place->device);
    if (place->count > LOCAL_MOST_SOURCES)
        return engine_host->fail(TN_ERR_UNSUPPORTED,
                                 "mpi: %d ranks: expected at most %d",
                                 (int)place->count, (int)LOCAL_MOST_SOURCES);
#ifdef OPEN_MPI
    if (has("OMPI_COMM_WORLD_SIZE") || has("PMIX_RANK"))
        return TN_OK;
    return engine_host->fail(
        TN_ERR_UNSUPPORTED, "mpi: Open MPI's mpirun did not start this process "
        "(OMPI_COMM_WORLD_SIZE and PMIX_RANK are not set)%s",
        has("SLURM_PROCID") ? ": give srun the option --mpi=pmix" : "");
#else
    if (has("PMI_RANK") || has("PMI_FD") || has("PMI_PORT"))
        return TN_OK;
    return engine_host->fail(
        TN_ERR_UNSUPPORTED, "mpi: MPICH's mpirun did not start this process "
        "(PMI_RANK is not set)%s",
        has("SLURM_PROCID") ? ": give srun the option --mpi=pmi2" : "");
#endif
}

/* ---- the end of MPI --------------------------------------------------------- */

static engine_job *last;     /* the open job, or the one that was left last */
static bool open_now;        /* it is open */
static bool owns;            /* MPI was initialised here */
static bool spoiled;         /* a job failed: ranks may be missing */
static pid_t owner;

static void doze(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* After a failure, mpirun ends the other ranks as soon as one ends. So each waits
 * a little until all have reported it. */
static void linger(void)
{
    const uint64_t end = engine_now() + 1000000000u;
    for (int32_t r = 0; last && r < last->seats && engine_now() < end;) {
        engine_slot *slot = &last->board->slot[r];
        const uint64_t beat = atomic_load(&slot->beat_ns), now = engine_now();
        if (r == last->seat[last->rank] || atomic_load(&slot->closed) ||
            atomic_load(&slot->gone) ||
            (now > beat && now - beat > 5 * ENGINE_BEAT_MS * 1000000u))
            r++;
        else
            doze();
    }
}

/* Waits until all ranks of this machine have left. Returns false if one has failed
 * instead: MPI_Finalize would wait for it for ever. */
static bool all_left(void)
{
    for (int32_t r = 0; last && r < last->seats;) {
        const bool own = r == last->seat[last->rank];
        uint32_t life = engine_slot_life(&last->board->slot[r], own);
        if (life == TN_COMM_GONE || engine_has_verdict(last))
            return false;
        if (own || life == TN_COMM_CLOSED)
            r++;
        else
            doze();
    }
    return !last || !engine_has_verdict(last);
}

/* MPI_Finalize waits for the other ranks, and so is called when the process
 * ends: close does not wait. */
static void at_exit(void)
{
    if (getpid() != owner)
        return; /* a child of fork */
    if (open_now) { /* the process ends without having left */
        engine_heart_stop(last);
        atomic_store(&last->board->slot[last->seat[last->rank]].gone, 1);
        spoiled = true;
    }
    int done = 0;
    MPI_Finalized(&done);
    if (spoiled || !all_left()) {
        linger();
    } else if (!done && owns) {
        if (last)
            engine_drain(last);
        MPI_Finalize();
    }
}

/* ---- joining ---------------------------------------------------------------- */

typedef struct joining {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    int references;
    engine_job *job;
    int32_t rank, count;
    char failure[512]; /* "" if it went well */
} joining;

static void say(joining *j, const char *call, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(error, text, &length);
    snprintf(j->failure, sizeof j->failure, "%s: %.400s", call, text);
}
#define MPI_TRY(j, call)                                                      \
    do {                                                                      \
        int error = call;                                                     \
        if (error) {                                                          \
            say(j, #call, error);                                             \
            return;                                                           \
        }                                                                     \
    } while (0)

/* MPI sets handlers that print; the program's are put back. */
static int init(int *level)
{
    struct sigaction before[32], now;
    for (int i = 1; i < 32; i++)
        sigaction(i, NULL, &before[i]);
    int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, level);
    for (int i = 1; i < 32; i++)
        if (i != SIGKILL && i != SIGSTOP && !sigaction(i, NULL, &now) &&
            (now.sa_handler != before[i].sa_handler ||
             now.sa_flags != before[i].sa_flags))
            sigaction(i, &before[i], NULL);
    return error;
}

static void start_mpi(joining *j, int *level)
{
    int begun = 0, over = 0;
    MPI_Finalized(&over);
    MPI_Initialized(&begun);
    if (over) {
        snprintf(j->failure, sizeof j->failure,
                 "this process has called MPI_Finalize");
        return;
    }
    if (begun) {
        MPI_TRY(j, MPI_Query_thread(level));
    } else {
        MPI_TRY(j, init(level));
        owns = true;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    if (!owner) {
        owner = getpid();
        atexit(at_exit);
    }
    if (*level < MPI_THREAD_SERIALIZED)
        snprintf(j->failure, sizeof j->failure,
                 "MPI allows calls from one thread only: call MPI_Init_thread "
                 "with MPI_THREAD_SERIALIZED, or leave it to this engine");
}

/* The board is in memory that MPI shares between the processes of this machine. */
static void make_board(joining *j)
{
    engine_job *job = j->job;
    MPI_TRY(j, MPI_Comm_split_type(job->data, MPI_COMM_TYPE_SHARED, job->rank,
                                   MPI_INFO_NULL, &job->host));
    int here, seats, unit, *list = malloc((size_t)job->count * 2 * sizeof *list);
    MPI_TRY(j, MPI_Comm_rank(job->host, &here));
    MPI_TRY(j, MPI_Comm_size(job->host, &seats));
    job->seats = seats;
    job->several = seats < job->count;
    void *base;
    MPI_Aint bytes = here ? 0 : (MPI_Aint)engine_board_bytes(seats);
    MPI_TRY(j, MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, job->host, &base,
                                       &job->window));
    MPI_TRY(j, MPI_Win_shared_query(job->window, 0, &bytes, &unit, &base));
    job->board = base;
    if (here == 0 && !engine_board_init(job->board, seats)) {
        snprintf(j->failure, sizeof j->failure,
                 "no robust mutexes on this system");
        MPI_Abort(job->data, 1);
    }
    MPI_TRY(j, MPI_Barrier(job->host));
    MPI_Group all, some;
    MPI_TRY(j, MPI_Comm_group(job->data, &all));
    MPI_TRY(j, MPI_Comm_group(job->host, &some));
    for (int32_t r = 0; list && r < job->count; r++)
        list[r] = r;
    if (!list) {
        snprintf(j->failure, sizeof j->failure, "no memory");
        return;
    }
    MPI_TRY(j, MPI_Group_translate_ranks(all, job->count, list, some,
                                         list + job->count));
    for (int32_t r = 0; r < job->count; r++)
        job->seat[r] = list[job->count + r] == MPI_UNDEFINED
                           ? -1 : list[job->count + r];
    MPI_Group_free(&all);
    MPI_Group_free(&some);
    free(list);
}

static void join_all(joining *j)
{
    engine_job *job = j->job;
    int level, rank, count, *most, found;
    start_mpi(j, &level);
    if (j->failure[0])
        return;
    MPI_TRY(j, MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI_TRY(j, MPI_Comm_size(MPI_COMM_WORLD, &count));
    if (rank != job->rank || count != job->count) {
        snprintf(j->failure, sizeof j->failure,
                 "MPI says rank %d of %d%s", rank, count,
                 count == 1 ? ": was the program started by the mpirun of "
                              "another MPI?" : "");
        return;
    }
    MPI_TRY(j, MPI_Comm_dup(MPI_COMM_WORLD, &job->data));
    MPI_TRY(j, MPI_Comm_dup(MPI_COMM_WORLD, &job->notes));
    MPI_Comm_set_errhandler(job->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(job->notes, MPI_ERRORS_RETURN);
    MPI_TRY(j, MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found));
    job->comms_end = ((uint32_t)(found ? *most : 32767) + 1) / ENGINE_TAGS;
    make_board(j);
    if (j->failure[0])
        return;
    job->crowded = job->seats > sysconf(_SC_NPROCESSORS_ONLN);
    gethostname(job->machine, sizeof job->machine - 1);
    job->serve = owns || level == MPI_THREAD_MULTIPLE ? engine_hear : NULL;
    engine_listen(job);
    if (!engine_heart_start(job)) {
        snprintf(j->failure, sizeof j->failure, "cannot start a thread");
        return;
    }
    atomic_store(&job->board->slot[job->seat[job->rank]].process, getpid());
    MPI_TRY(j, MPI_Barrier(job->data));
}

static void let_go(joining *j)
{
    if (--j->references)
        return;
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->changed);
    free(j);
}

static void *join_thread(void *context)
{
    joining *j = context;
    /* The heart must not call MPI meanwhile. */
    pthread_mutex_lock(&engine_lock);
    join_all(j);
    pthread_mutex_unlock(&engine_lock);
    pthread_mutex_lock(&j->lock);
    j->done = true;
    pthread_cond_signal(&j->changed);
    const bool alone = j->references == 1;
    if (!alone)
        j->references--;
    pthread_mutex_unlock(&j->lock);
    if (alone)
        let_go(j);
    return NULL;
}

static void job_free(engine_job *job)
{
    if (!job || job->outgoing) /* MPI reads them until it ends */
        return;
    free(job->seat);
    free(job->left);
    free(job->life);
    free(job->sent);
    free(job->note);
    free(job);
}

static engine_job *job_new(const tn_comm_place *place)
{
    engine_job *job = calloc(1, sizeof *job);
    const size_t n = (size_t)place->count;
    if (job) {
        job->rank = place->rank;
        job->count = place->count;
        job->timeout_ns = place->timeout_ns;
        job->seat = calloc(n, sizeof *job->seat);
        job->left = calloc(n, sizeof *job->left);
        job->life = calloc(n, sizeof *job->life);
        job->sent = calloc(n, 3 * sizeof *job->sent);
        if (job->seat && job->left && job->life && job->sent &&
            engine_listen_room(job))
            return job;
        job_free(job);
    }
    engine_host->fail(TN_ERR_MEMORY, "mpi: no memory");
    return NULL;
}

engine_job *engine_join(const tn_comm_place *place)
{
    engine_job *job = open_now ? NULL : job_new(place);
    joining *j = job ? calloc(1, sizeof *j) : NULL;
    if (open_now)
        engine_host->fail(TN_ERR_STATE, "mpi: this process has joined a job");
    if (!j)
        return NULL;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->changed, &clock);
    pthread_condattr_destroy(&clock);
    j->job = job;
    j->references = 2;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, join_thread, j);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        engine_host->fail(TN_ERR_MEMORY, "mpi: cannot start a thread: %s",
                          strerror(error));
        return NULL;
    }
    pthread_detach(thread);
    const uint64_t end = engine_now() + place->timeout_ns;
    struct timespec until = {.tv_sec = (time_t)(end / 1000000000u),
                             .tv_nsec = (long)(end % 1000000000u)};
    pthread_mutex_lock(&j->lock);
    while (!j->done && pthread_cond_timedwait(&j->changed, &j->lock, &until) !=
                           ETIMEDOUT)
        ;
    if (!j->done) {
        spoiled = true;
        engine_host->fail(TN_ERR_STATE, "mpi: waited %.1f s for the other ranks to "
                          "join (MPI_Init)", (double)place->timeout_ns * 1e-9);
        job = NULL;
    } else if (j->failure[0]) {
        spoiled = true;
        engine_host->fail(TN_ERR_STATE, "mpi: %s", j->failure);
        job = NULL;
    }
    const bool alone = j->references == 1;
    if (!alone)
        j->references--;
    pthread_mutex_unlock(&j->lock);
    if (alone)
        let_go(j);
    if (job) {
        job_free(last);
        last = job;
        open_now = true;
    }
    return job;
}

/* The communicators and the window stay: to free them is a collective. */
void engine_leave(engine_job *job)
{
    spoiled = spoiled || engine_has_verdict(job) || job->mute;
    engine_heart_stop(job);
    engine_tell_left(job);
    atomic_store(&job->board->slot[job->seat[job->rank]].closed, 1);
    open_now = false;
    if (job->mute || job->incoming == MPI_REQUEST_NULL)
        return;
    MPI_Status status;
    int cancelled = 0;
    MPI_Cancel(&job->incoming);
    MPI_Wait(&job->incoming, &status);
    MPI_Test_cancelled(&status, &cancelled);
    if (!cancelled)
        job->sent[job->count + status.MPI_SOURCE]++;
}
