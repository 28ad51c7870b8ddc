/* test_workers.c: batches that worker threads prefetch equal those without
 * workers, however a loop ends and wherever it starts. */
#include <tenon/tenon.h>

#include <base/memory.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"

enum { COUNT = 203, BATCH = 8, BATCHES = 26, WIDTH = 5 };

/* A sample draws random numbers, and takes a different time for each i. */
static int get(void *context, int64_t i, tn_tensor **fields)
{
    (void)context;
    tn_tensor *x = tn_randn(tn_dims(WIDTH));
    for (int64_t k = 0; k < i % 7; k++)
        x = tn_add(x, tn_rand(tn_dims(WIDTH)));
    fields[0] = x;
    fields[1] = tn_full(TN_SCALAR, (double)i, .dtype = TN_I64);
    return x && fields[1] ? 2 : tn_error_code();
}

static tn_dataset *noise(void)
{
    static const tn_dataset_class type = {sizeof type, COUNT, get, NULL};
    return tn_dataset_new(&type, NULL);
}

typedef struct seen {
    int64_t samples;
    float x[COUNT * WIDTH];
    int64_t y[COUNT];
} seen;

static bool same(const seen *a, const seen *b)
{
    return a->samples == b->samples &&
           memcmp(a->x, b->x, (size_t)a->samples * WIDTH * 4) == 0 &&
           memcmp(a->y, b->y, (size_t)a->samples * 8) == 0;
}

/* Appends the remaining batches of an epoch. */
static void look(tn_loader *loader, seen *s)
{
    TN_EACH_BATCH(batch, loader) {
        tn_tensor_to_array(batch.x, s->x + s->samples * WIDTH,
                           (size_t)batch.count * WIDTH * 4);
        tn_tensor_to_array(batch.y, s->y + s->samples,
                           (size_t)batch.count * 8);
        s->samples += batch.count;
    }
}

static void test_same(void)
{
    static seen first, second;
    first.samples = second.samples = 0;
    tn_loader *plain = tn_loader_new(noise(), .batch_size = BATCH,
                                     .shuffle = true, .seed = 3);
    look(plain, &first);
    look(plain, &second);
    is_int(first.samples, COUNT, "without workers every sample comes");
    ok(!same(&first, &second), "epochs differ");
    static const int workers[] = {1, 2, 3, 8, 100};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        static seen one, two;
        one.samples = two.samples = 0;
        tn_loader *loader =
            tn_loader_new(noise(), .batch_size = BATCH, .shuffle = true,
                          .seed = 3, .workers = workers[i]);
        look(loader, &one);
        look(loader, &two);
        ok(same(&one, &first) && same(&two, &second),
           "with %d: the same batches, bit for bit, random numbers too",
           workers[i]);
    }
    tn_manual_seed(9);
    tn_rng_state before = tn_rng_snapshot();
    look(plain, &(seen){0});
    tn_rng_state after = tn_rng_snapshot();
    ok(before.seed == after.seed && before.call == after.call,
       "random numbers of samples do not advance the caller's stream");
}

/* Rows of a tensor are views of one storage that several threads use. */
static void test_rows(void)
{
    tn_tensor *x = tn_randn(tn_dims(COUNT, WIDTH));
    tn_tensor *y = tn_arange(0, COUNT, 1, .dtype = TN_I64);
    tn_dataset *set = tn_dataset_from_tensors(x, y);
    static seen plain, ahead;
    plain.samples = ahead.samples = 0;
    look(tn_loader_new(set, .batch_size = BATCH), &plain);
    look(tn_loader_new(set, .batch_size = BATCH, .workers = 3), &ahead);
    ok(plain.samples == COUNT && same(&plain, &ahead),
       "views on a tensor's rows are handed over");
    tn_tensor *kept = NULL;
    tn_loader *loader = tn_loader_new(set, .batch_size = BATCH, .workers = 2);
    TN_EACH_BATCH(batch, loader)
        if (batch.index == 1)
            kept = tn_keep(batch.y);
    ok(tn_tensor_size(kept, 0) == BATCH &&
           tn_item_int(tn_select(kept, 0, 0)) == BATCH,
       "a batch that is kept outlives the loop");
    tn_drop(kept);
}

/* ---- loops that stop early ----------------------------------------------- */

static int leave(tn_loader *loader)
{
    TN_EACH_BATCH(batch, loader)
        if (batch.index == 2)
            return (int)batch.count;
    return 0;
}

static void test_exits(void)
{
    tn_scope *scope = tn_scope_open();
    tn_loader *loader = tn_loader_new(noise(), .batch_size = BATCH,
                                      .shuffle = true, .workers = 3);
    int64_t owned = tn_scope_count();
    TN_EACH_BATCH(batch, loader)
        if (batch.index == 3)
            break;
    is_int(tn_scope_count(), owned, "break leaves nothing in the scope");
    is_int(leave(loader), BATCH, "return leaves the loop");
    static seen rest, plain;
    rest.samples = plain.samples = 0;
    look(loader, &rest);
    tn_loader *other =
        tn_loader_new(noise(), .batch_size = BATCH, .shuffle = true);
    leave(other);
    leave(other);
    look(other, &plain);
    ok(same(&rest, &plain), "the next loop has an epoch of its own");

    int bodies = 0;
    TN_EACH_BATCH(batch, loader) {
        if (bodies++ == 0) {
            tn_drop(loader);
            ok(batch.loader == loader, "a loader may be dropped in its loop");
        }
    }
    is_int(bodies, BATCHES, "which runs to its end");

    loader = tn_loader_new(noise(), .batch_size = BATCH, .workers = 2);
    tn_batch outer = tn_batch_begin(loader);
    ok(tn_batch_next(&outer), "a loop begins");
    TN_EACH_BATCH(batch, loader)
        if (batch.index == 1)
            break;
    ok(!tn_batch_next(&outer), "a second one ends it");
    is_str(tn_error(),
           "batch_next: another loop over the loader has begun, "
           "which ended this one",
           "and it is reported");
    is_int(tn_error_code(), TN_ERR_STATE, "as a matter of state");
    tn_error_clear();
    ok(!tn_batch_next(&outer), "a loop that has ended stays ended");
    ok(!tn_error(), "without an error");
    tn_batch older = {.size = 8};
    ok(!tn_batch_next(&older), "a batch that is too small");
    is_str(tn_error(), "batch_next: batch's size is 8: begin with "
                       "tn_batch_begin()", "is refused");
    is_str(tn_error_info()->argument, "batch", "by its name");
    tn_error_clear();

    bodies = 0;
    TN_EACH_BATCH(batch, loader) {
        bodies++;
        tn_error_set(TN_ERR_ARGUMENT, "enough");
    }
    is_int(bodies, 1, "an error of the body ends the loop");
    tn_error_clear();
    tn_scope_close(scope);
}

/* After fork, a child has a copy of the workers' memory but no worker
 * threads. */
static void test_fork(void)
{
    tn_loader *loader = tn_loader_new(noise(), .batch_size = BATCH,
                                      .workers = 2);
    tn_batch batch = tn_batch_begin(loader);
    tn_batch_next(&batch);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool more = tn_batch_next(&batch);
        bool told = tn_error() && strcmp(tn_error(),
                                         "batch_next: fork does not copy the "
                                         "worker threads: begin a new loop") == 0;
        _exit(!more && told ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    is_int(status, 0, "a child that continues its parent's loop gets an error");
    ok(tn_batch_next(&batch), "the parent's loop continues");
    tn_batch_end(&batch);
}

/* ---- errors ------------------------------------------------------------- */

static _Atomic int fetched, released;

static int torn(void *context, int64_t i, tn_tensor **fields)
{
    atomic_fetch_add(&fetched, 1);
    if (i == *(int64_t *)context)
        return tn_error_set(TN_ERR_IO, "sample %lld is torn", (long long)i);
    fields[0] = tn_full(tn_dims(2), (double)i);
    if (*(int64_t *)context == -2) /* this operator fails */
        fields[0] = tn_matmul(tn_ones(tn_dims(2, 3)), tn_ones(tn_dims(2, 3)));
    return fields[0] ? 1 : tn_error_code();
}

static void give_back(void *context)
{
    (void)context;
    atomic_fetch_add(&released, 1);
}

static void test_errors(void)
{
    static int64_t bad = 42;
    static const tn_dataset_class type = {sizeof type, 10000, torn, give_back};
    tn_scope *scope = tn_scope_open();
    tn_loader *loader = tn_loader_new(tn_dataset_new(&type, &bad),
                                      .batch_size = 4, .workers = 3);
    int bodies = 0;
    TN_EACH_BATCH(batch, loader) {
        is_int(batch.index, bodies++, "a batch before the torn one");
        ok(!tn_error(), "comes without an error");
    }
    is_int(bodies, 10, "ten batches come before the eleventh is torn");
    is_str(tn_error(), "dataset_batch: sample 42: sample 42 is torn",
           "whose error the caller gets at that batch");
    is_int(tn_error_code(), TN_ERR_IO, "with its code");
    tn_error_clear();
    ok(atomic_load(&fetched) < 100, "and workers do not run on without end");
    bad = -1;
    bodies = 0;
    TN_EACH_BATCH(batch, loader)
        if (++bodies == 50)
            break;
    is_int(bodies, 50, "the loader can be used again");
    bad = -2;
    bodies = 0;
    TN_EACH_BATCH(batch, loader)
        bodies++;
    const tn_error_details *info = tn_error_info();
    is_int(bodies, 0, "an operator's error in a worker ends it");
    is_str(info->op, "matmul", "with its data: the operator");
    is_int(info->tensor_count, 2, "and its tensors");
    tn_error_clear();
    tn_scope_close(scope);
    is_int(atomic_load(&released), 1, "the set is given back once");
}

/* ---- resuming in the middle of an epoch ---------------------------------- */

/* Another loader, with another number of workers, continues a run that was
 * stopped after `done` batches of its second epoch. */
static void test_resume(int done, int workers)
{
    static seen whole, parts;
    whole.samples = parts.samples = 0;
    tn_loader *loader = tn_loader_new(noise(), .batch_size = BATCH,
                                      .shuffle = true, .seed = 11,
                                      .workers = workers);
    leave(loader);
    look(loader, &whole);
    tn_loader *first = tn_loader_new(noise(), .batch_size = BATCH,
                                     .shuffle = true, .seed = 11);
    leave(first);
    tn_loader_state state = tn_loader_snapshot(first);
    is_int((int64_t)state.epoch, 1, "after a loop comes the next epoch");
    is_int(state.batch, 0, "from its start");
    TN_EACH_BATCH(batch, first) {
        if (batch.index == done)
            break;
        tn_tensor_to_array(batch.x, parts.x + parts.samples * WIDTH,
                           (size_t)batch.count * WIDTH * 4);
        tn_tensor_to_array(batch.y, parts.y + parts.samples,
                           (size_t)batch.count * 8);
        parts.samples += batch.count;
        state = tn_loader_snapshot(first);
    }
    is_int(state.batch, done, "after %d batches comes batch %d", done, done);
    tn_loader *second = tn_loader_new(noise(), .batch_size = BATCH,
                                      .shuffle = true, .workers = workers);
    is_int(tn_loader_restore(second, state), TN_OK,
           "another loader restores it");
    look(second, &parts);
    ok(same(&parts, &whole), "and sees the rest, bit for bit");
    is_int((int64_t)tn_loader_snapshot(second).epoch, 2,
           "then its third epoch begins");
}

static void refused(tn_loader *loader, tn_loader_state state,
                    const char *message)
{
    tn_loader_state before = tn_loader_snapshot(loader);
    ok(tn_loader_restore(loader, state) < 0, "refused: %s", message);
    is_str(tn_error(), message, "and the message says so");
    tn_error_clear();
    tn_loader_state after = tn_loader_snapshot(loader);
    ok(memcmp(&before, &after, sizeof before) == 0, "nothing is changed");
}

static void test_mistakes(void)
{
    tn_loader *loader = tn_loader_new(noise(), .batch_size = BATCH);
    tn_loader_state state = tn_loader_snapshot(loader);
    state.batch = BATCHES + 1;
    refused(loader, state, "loader_restore: batch 27 is outside the "
                           "epoch's [0, 26]");
    state.batch = -1;
    refused(loader, state, "loader_restore: batch -1 is outside the "
                           "epoch's [0, 26]");
    state = tn_loader_snapshot(tn_loader_new(noise(), .batch_size = 5));
    refused(loader, state, "loader_restore: the state is of 203 samples in "
                           "batches of 5, but the loader has 203 in batches of "
                           "8; expected the same");
    state = tn_loader_snapshot(loader);
    TN_EACH_BATCH(batch, loader)
        if (batch.index == 0)
            refused(loader, state, "loader_restore: a loop over the loader is "
                                   "running: end it first");
    ok(tn_loader_restore(NULL, state) < 0, "no loader is refused");
    is_str(tn_error(), "loader_restore: loader is NULL", "and is reported");
    tn_error_clear();
    ok(!tn_loader_new(noise(), .workers = -1), "fewer than none are refused");
    is_str(tn_error(), "loader_new: workers is -1; expected 0 to 256",
           "and the message says so");
    tn_error_clear();
}

/* ---- several loaders at once -------------------------------------------- */

static void *look_alone(void *argument)
{
    tn_scope *scope = tn_scope_open();
    look(tn_loader_new(noise(), .batch_size = BATCH, .shuffle = true,
                       .seed = 5, .workers = 2),
         argument);
    tn_scope_close(scope);
    return NULL;
}

static void test_side_by_side(void)
{
    enum { LOADERS = 4 };
    static seen plain, together[LOADERS];
    plain.samples = 0;
    look(tn_loader_new(noise(), .batch_size = BATCH, .shuffle = true,
                       .seed = 5), &plain);
    pthread_t thread[LOADERS];
    for (int i = 0; i < LOADERS; i++) {
        together[i].samples = 0;
        if (pthread_create(&thread[i], NULL, look_alone, &together[i]) != 0)
            bail_out("no thread to be had");
    }
    bool all = true;
    for (int i = 0; i < LOADERS; i++) {
        pthread_join(thread[i], NULL);
        all = all && same(&together[i], &plain);
    }
    ok(all, "four threads, each with a loader of two workers, see the same");
}

int main(void)
{
    plan_later();
    for (int round = 0; round < 2; round++) { /* the second round allocates
                                               * nothing that is made once */
        tn_cache_empty(NULL);
        int64_t live = tn__memory_live();
        tn_scope *scope = tn_scope_open();
        test_same();
        test_rows();
        test_exits();
        test_resume(9, 2);
        test_resume(0, 0);
        test_resume(BATCHES - 1, 3);
        test_mistakes();
        test_side_by_side();
        tn_scope_close(scope);
        tn_cache_empty(NULL);
        if (round == 1)
            is_int(tn__memory_live(), live, "and nothing of it is left");
    }
    test_fork();
    test_errors();
    return done_testing();
}
