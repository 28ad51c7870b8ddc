/* workers.c: threads that prefetch batches.
 *
 * Batches are stored in a ring of slots: batch k uses slot k % slot_count,
 * whichever worker makes it. Workers take batch indices in ascending order, and
 * the caller takes batches in ascending order. A worker waits until the caller
 * has emptied the slot. So the order is the same as without workers, and there
 * are at most as many batches in memory as slots.
 *
 * A worker makes a batch in a scope of its thread, takes references to the
 * fields and closes the scope. The caller's scope then adopts the fields. */
#include <data/workers.h>

#include <base/context.h>
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <pthread.h>
#include <signal.h>
#include <tenon/autograd.h>
#include <unistd.h>

/* for each worker, one batch being made and one that is ready */
enum { SLOTS_PER_WORKER = 2 };

typedef struct slot {
    bool full;
    int count; /* number of fields, 0 for a batch without samples, or a negative
                  status if making the batch failed */
    tn_tensor *field[TN_MAX_FIELDS]; /* counted reference */
    tn__error error;
} slot;

struct tn__team {
    tn__batch_maker make;
    void *context;
    tn_device *device;
    tn__modes modes;
    bool ends_at_empty; /* a batch of 0 fields is the last one */
    pid_t process;    /* process of the threads: a forked child has none */

    tn__lock lock; /* guards the fields below, except slots that a worker is
                      filling */
    pthread_cond_t filled, freed;
    int64_t next;     /* next batch for a worker */
    int64_t taken;    /* next batch for the caller */
    int64_t end;
    bool quit;
    slot *slot;       /* owned; batch k uses slot k % slot_count */
    int64_t slot_count;
    pthread_t *thread; /* owned */
    int thread_count;
};

int64_t tn__team_ahead(int count)
{
    return (int64_t)count * SLOTS_PER_WORKER;
}

static void fill_slot(tn__team *team, int64_t k, slot *s)
{
    tn_scope *scope = tn_scope_open();
    /* make is called even if no scope could be opened. It then fails, because
     * an error is pending, and a stream continues without this batch. */
    s->count = team->make(team->context, k, s->field);
    for (int f = 0; f < s->count; f++)
        tn_keep(s->field[f]);
    tn__error_take(&s->error);
    tn_scope_close(scope);
}

static void *work(void *argument)
{
    tn__team *team = argument;
    tn_device_set(team->device);
    tn__me.modes = team->modes;
    tn__lock_take(&team->lock);
    for (;;) {
        while (!team->quit && team->next < team->end &&
               team->next >= team->taken + team->slot_count)
            tn__lock_wait(&team->lock, &team->freed);
        if (team->quit || team->next >= team->end)
            break;
        int64_t k = team->next++;
        slot *s = &team->slot[k % team->slot_count];
        tn__lock_give(&team->lock);
        fill_slot(team, k, s);
        tn__lock_take(&team->lock);
        s->full = true;
        if (s->count < 0 || (s->count == 0 && team->ends_at_empty))
            team->end = team->next; /* the caller stops at this batch */
        pthread_cond_signal(&team->filled);
    }
    tn__lock_give(&team->lock);
    return NULL;
}

static void team_free(tn__team *team)
{
    tn__free(team->slot);
    tn__free(team->thread);
    tn__free(team);
}

static void start_threads(tn__team *team, int count)
{
    /* Block signals in the workers, so that the program's threads handle
     * them. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (team->thread_count < count &&
           pthread_create(&team->thread[team->thread_count], NULL, work,
                          team) == 0)
        team->thread_count++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (team->thread_count < count)
        tn__log(1, "batch_begin: only %d of %d worker threads could be "
                   "started: loading goes on without the others",
                team->thread_count, count);
}

tn__team *tn__team_start(int count, int64_t begin, int64_t end,
                         bool ends_at_empty, tn__batch_maker make,
                         void *context)
{
    tn_device *device = tn_device_current();
    tn__team *team = device ? tn__calloc(1, sizeof *team) : NULL;
    if (!team)
        return NULL;
    if (count > end - begin)
        count = (int)(end - begin);
    team->make = make;
    team->context = context;
    team->ends_at_empty = ends_at_empty;
    team->device = device;
    team->modes = tn__me.modes;
    team->process = getpid();
    team->next = team->taken = begin;
    team->end = end;
    team->slot_count = tn__team_ahead(count);
    team->slot = tn__calloc((size_t)team->slot_count, sizeof *team->slot);
    team->thread = tn__calloc((size_t)count, sizeof *team->thread);
    if (!team->slot || !team->thread) {
        team_free(team);
        return NULL;
    }
    tn__lock_init(&team->lock);
    pthread_cond_init(&team->filled, NULL);
    pthread_cond_init(&team->freed, NULL);
    start_threads(team, count);
    if (!team->thread_count) {
        tn__team_stop(team);
        return NULL;
    }
    return team;
}

int tn__team_take(tn__team *team, tn_tensor **fields)
{
    if (team->process != getpid())
        return tn__fail(TN_ERR_STATE, "batch_next: fork does not copy the "
                                      "worker threads: begin a new loop");
    tn__lock_take(&team->lock);
    slot *s = &team->slot[team->taken % team->slot_count];
    while (!s->full)
        tn__lock_wait(&team->lock, &team->filled);
    int count = s->count;
    tn__error error = s->error;
    for (int f = 0; f < count; f++)
        fields[f] = s->field[f];
    s->full = false;
    team->taken++;
    pthread_cond_broadcast(&team->freed);
    tn__lock_give(&team->lock);

    if (count < 0) {
        error.facts.running = NULL; /* the field points to the worker's call,
                                     * which has ended */
        tn__error_put(&error);
        return error.code;
    }
    bool adopted = true;
    for (int f = 0; f < count; f++)
        adopted = tn_scope_adopt(fields[f]) && adopted;
    return adopted ? count : tn_error_code();
}

void tn__team_stop(tn__team *team)
{
    if (!team || team->process != getpid())
        return;
    tn__lock_take(&team->lock);
    team->quit = true;
    pthread_cond_broadcast(&team->freed);
    tn__lock_give(&team->lock);
    for (int i = 0; i < team->thread_count; i++)
        pthread_join(team->thread[i], NULL);
    for (int64_t i = 0; i < team->slot_count; i++) {
        for (int f = 0; team->slot[i].full && f < team->slot[i].count; f++)
            tn_drop(team->slot[i].field[f]);
    }
    tn__lock_destroy(&team->lock);
    pthread_cond_destroy(&team->filled);
    pthread_cond_destroy(&team->freed);
    team_free(team);
}
