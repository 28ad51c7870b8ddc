/* Tests that batches which the loader copies to a device equal those that it
 * leaves on the cpu, with and without workers, whether the program holds them
 * (tn_keep) or not, and however a loop ends. The device is that of
 * TENON_DEVICE. */
#include <tenon/tenon.h>

#include "../tap.h"

enum { COUNT = 90, WIDTH = 40, BATCH = 8, EPOCHS = 3 };

static tn_device *cpu, *device;

static tn_dataset *numbers(void)
{
    static float x[COUNT * WIDTH];
    static int64_t y[COUNT];
    for (int i = 0; i < COUNT * WIDTH; i++)
        x[i] = sinf((float)i);
    for (int i = 0; i < COUNT; i++)
        y[i] = i;
    tn_device_set(cpu);
    tn_dataset *set = tn_dataset_from_tensors(
        tn_tensor_from_array(x, TN_F32, tn_dims(COUNT, WIDTH)),
        tn_tensor_from_array(y, TN_I64, tn_dims(COUNT)));
    tn_device_set(device);
    return set;
}

/* Submits work on a batch and returns its sum; nothing waits for the result. */
static tn_tensor *look(tn_batch *batch)
{
    tn_tensor *x = tn_to(batch->x, device), *y = tn_to(batch->y, device);
    for (int i = 0; i < 3; i++)
        x = tn_add(tn_mul_scalar(x, 0.5), x);
    tn_mul_scalar_(batch->x, 0); /* the batch belongs to the caller, who may
                                  * change it */
    return tn_keep(tn_add(tn_sum(x),
                          tn_mul_scalar(tn_to_dtype(tn_sum(y), TN_F32), 3)));
}

static bool is_there(const tn_batch *batch)
{
    return tn_tensor_device(batch->x) == device &&
           tn_tensor_device(batch->y) == device;
}

typedef struct seen {
    double sum[EPOCHS * (COUNT / BATCH + 1)];
    int count, elsewhere;
} seen;

static seen run(int workers, bool there, int64_t leave_at)
{
    seen s = {.count = 0};
    tn_tensor *sum[EPOCHS * (COUNT / BATCH + 1)];
    tn_scope *scope = tn_scope_open();
    tn_loader *loader = tn_loader_new(numbers(), .batch_size = BATCH,
                                      .shuffle = true, .seed = 3,
                                      .workers = workers,
                                      .device = there ? device : NULL);
    for (int e = 0; e < EPOCHS; e++)
        TN_EACH_BATCH(batch, loader) {
            s.elsewhere += there && !is_there(&batch);
            sum[s.count++] = look(&batch);
            if (e == 1 && batch.index == leave_at)
                break;
        }
    for (int i = 0; i < s.count; i++) {
        s.sum[i] = tn_item(sum[i]);
        tn_drop(sum[i]);
    }
    tn_scope_close(scope);
    if (tn_error())
        note("%s", tn_error());
    return s;
}

static bool same(const seen *a, const seen *b)
{
    return a->count == b->count && !a->elsewhere && !b->elsewhere &&
           memcmp(a->sum, b->sum, sizeof *a->sum * (size_t)a->count) == 0;
}

static void test_same(void)
{
    const seen plain = run(0, false, -1), left = run(0, false, 4);
    ok(plain.sum[0] != plain.sum[1], "batches differ");
    for (int workers = 0; workers <= 3; workers++) {
        seen there = run(workers, true, -1), some = run(workers, true, 4);
        ok(same(&plain, &there), "%d workers: batches on %s are those that "
           "stay", workers, tn_device_name(device));
        ok(same(&left, &some), "%d workers: also after a loop that is left",
           workers);
    }
}

static void test_kept(void)
{
    tn_tensor *kept[COUNT / BATCH + 1];
    int count = 0;
    tn_scope *scope = tn_scope_open();
    tn_loader *loader = tn_loader_new(numbers(), .batch_size = BATCH,
                                      .workers = 2, .device = device);
    TN_EACH_BATCH(batch, loader)
        kept[count++] = tn_keep(batch.y);
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        double first = tn_item(tn_select(kept[i], 0, 0));
        wrong += first != i * BATCH;
        tn_drop(kept[i]);
    }
    is_int(wrong, 0, "tensors that are kept stay as they are");
    tn_scope_close(scope);
    is_str(tn_error(), NULL, "without an error");
}

static int64_t allocated(void)
{
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(device, &stats);
    return stats.allocated_bytes;
}

int main(void)
{
    plan_later();
    device = tn_device_current();
    cpu = tn_device_open("cpu");
    if (!device || !cpu)
        bail_out("%s", tn_error());
    note("device %s", tn_device_name(device));
    int64_t before = allocated();
    test_same();
    test_kept();
    is_int(allocated(), before, "all memory comes back");
    return done_testing();
}
