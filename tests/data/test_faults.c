/* test_faults.c: every allocation of data sets and loaders fails in turn. Each
 * failure must return an error and leak nothing, and no worker may wait
 * forever. */
#include <base/memory.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "tap.h"

enum { SAMPLES = 9 };

static void loop(tn_loader *loader)
{
    double sum = 0;
    TN_EACH_BATCH(batch, loader)
        sum += tn_item(tn_sum(batch.x));
    (void)sum;
}

static tn_dataset *rows(void)
{
    return tn_dataset_from_tensors(tn_ones(tn_dims(SAMPLES, 2)), NULL);
}

static void parts(void)
{
    tn_dataset *sets[] = {rows(), rows()}, *part[2], *train, *test;
    tn_dataset *all = tn_error() ? NULL : tn_dataset_concat(sets, 2);
    if (tn_dataset_random_split(all, (double[]){0.5, 0.5}, 2, 1, part) < 0 ||
        tn_dataset_k_fold(part[0], 3, 1, &train, &test, .shuffle = true) < 0)
        return;
    loop(tn_loader_new(all, .batch_size = 4, .shuffle = true));
    loop(tn_loader_new(train, .batch_size = 4));
}

static void buckets(void)
{
    const int64_t lengths[SAMPLES] = {3, 1, 2};
    loop(tn_loader_new(rows(), .batch_size = 4, .shuffle = true,
                       .lengths = lengths, .length_count = SAMPLES,
                       .collate = tn_collate_pad));
}

static tn_status begin(void *context, uint64_t epoch)
{
    (void)epoch;
    *(int *)context = 0;
    return TN_OK;
}

static int next(void *context, tn_tensor **fields)
{
    if ((*(int *)context)++ == SAMPLES)
        return 0;
    fields[0] = tn_ones(tn_dims(2));
    return fields[0] ? 1 : tn_error_code();
}

static void stream_of(int workers)
{
    static int at;
    static const tn_stream_class type = {sizeof type, begin, next, NULL};
    loop(tn_loader_new(tn_dataset_from_stream(&type, &at), .batch_size = 2,
                       .workers = workers));
}

static void stream(void)
{
    stream_of(0);
}

/* Workers allocate in any order, so the n-th allocation is not the same one in
 * each run; over many runs each fails. */
static void stream_of_workers(void)
{
    stream_of(3);
}

static tn_status run(void (*body)(void))
{
    tn_scope *scope = tn_scope_open();
    if (!tn_error())
        body();
    tn_status status = tn_error_code();
    tn_scope_close(scope);
    return status;
}

static void test_failing(const char *name, void (*body)(void), bool one_thread)
{
    is_int(run(body), TN_OK, "%s: works%s%s", name, tn_error() ? ": " : "",
           tn_error() ? tn_error() : "");
    tn_error_clear();
    int failures = 0, wrong = 0, left = 0;
    for (int n = 1; n < 2000; n++) {
        int64_t before = tn__memory_count(), objects = tn_scope_count();
        tn__memory_fail_at(n);
        tn_status status = run(body);
        bool reached = status < 0 || tn__memory_count() - before >= n;
        tn__memory_fail_at(0);
        tn_error_clear();
        if (!reached)
            break;
        failures++;
        wrong += status != TN_ERR_MEMORY;
        left += tn_scope_count() != objects;
    }
    ok(failures > 0, "%s: %d allocations were made to fail", name, failures);
    /* If a worker thread cannot start, the loader works without it. */
    ok(wrong == 0 || !one_thread, "%s: %d gave no error", name, wrong);
    is_int(left, 0, "%s: none left an object behind", name);
    int64_t live = tn__memory_live();
    is_int(run(body), TN_OK, "%s: works again", name);
    for (int i = 0; i < 30; i++)
        run(body);
    /* Threads exchange blocks of freed objects between their pools, which may
     * need another block occasionally. */
    const int64_t more = tn__memory_live() - live;
    ok(one_thread ? more == 0 : more < 15,
       "%s: 31 runs leave %d allocations", name, (int)more);
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    alarm(100); /* ends the test if a worker waits forever */
    test_failing("parts", parts, true);
    test_failing("buckets", buckets, true);
    test_failing("a stream", stream, true);
    test_failing("a stream with workers", stream_of_workers, false);
    return done_testing();
}
