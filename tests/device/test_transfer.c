/* Tests batches that are copied to a device which has events but no pinned host
 * memory. The copies run on a second queue and read pageable memory. */
#include <tenon/tenon.h>

#include "device/transfer.h"
#include "plugins/folder.h"
#include "tap.h"

static void test_copies(tn_device *device)
{
    tn__transfer *transfer = tn__transfer_open(device);
    if (!ok(transfer, "events are enough for a queue of copies"))
        return;
    tn__transfer *another = tn__transfer_open(device);
    ok(another && transfer != another, "another has one of its own");
    tn__transfer_close(another);
    tn__block *block = tn__block_alloc(device, 64);
    char *memory = tn__transfer_memory(transfer, 64), got[64] = "";
    tn_event *after = tn__transfer_event(transfer);
    tn_event *done = tn__transfer_event(transfer);
    ok(memory && after && done, "memory and events are there");
    memset(memory, 'x', 64);
    const tn__upload_copy copy = {block, 0, 64, memory};
    is_int(tn__transfer_mark(transfer, after), TN_OK, "the device is marked");
    is_int(tn__transfer_copy(transfer, &copy, 1, after, done), TN_OK,
           "a copy is given");
    is_int(tn__transfer_await(transfer, done), TN_OK, "the device waits");
    is_int(tn__device_copy_out(device, got, block, 0, 64), TN_OK,
           "and is read");
    ok(memcmp(got, memory, 64) == 0, "the copied elements are there");
    is_int(tn__transfer_sync(transfer), TN_OK, "the copies are waited for");
    tn__transfer_memory_free(transfer, memory);
    tn__transfer_memory_free(transfer, NULL);
    tn__transfer_event_close(transfer, after);
    tn__transfer_event_close(transfer, done);
    tn__transfer_close(transfer);
    tn__block_free(block);
}

static void test_loader(tn_device *device)
{
    int64_t value[60], want = 0, got[20];
    for (int i = 0; i < 60; i++)
        value[i] = i * i;
    tn_device_set(tn_device_open("reference"));
    tn_tensor *x = tn_tensor_from_array(value, TN_I64, tn_dims(60));
    tn_loader *loader = tn_loader_new(tn_dataset_from_tensors(x, x),
                                      .batch_size = 20, .workers = 1,
                                      .device = device);
    for (int epoch = 0; epoch < 2; epoch++) {
        want = 0;
        TN_EACH_BATCH(batch, loader) {
            bool same = tn_tensor_to_array(batch.x, got, sizeof got) >= 0 &&
                        memcmp(got, value + want, sizeof got) == 0;
            ok(same, "batch %d of epoch %d arrives", (int)want / 20, epoch);
            want += 20;
        }
    }
    is_int(want, 60, "all of them");
    ok(!tn_error(), "without an error");
}

int main(void)
{
    char path[PATH_MAX];
    const char *built = getenv("TENON_PLUGIN_PATH");
    plan_later();
    folder_start();
    folder_add("all", "fake", "fake", NULL);
    snprintf(path, sizeof path, "%s/all:%s", folder_root, built ? built : "");
    setenv("TENON_PLUGIN_PATH", path, 1);
    setenv("TENON_FAKE_ASYNC", "1", 1);
    setenv("TENON_FAKE_HIDDEN", "1", 1);
    setenv("TENON_FAKE_EVENTS", "1", 1);
    tn_device *device = tn_device_open("fake");
    if (ok(device, "the device is open")) {
        test_copies(device);
        test_loader(device);
    }
    folder_end();
    return done_testing();
}
