/* Tests how work is submitted to a device: programs are built once, errors of
 * asynchronous work are reported later, and copies. */
#include "base/error.h"
#include "base/memory.h"
#include "device/device.h"
#include "device/work.h"
#include "plugins/folder.h"
#include "tap.h"

static void is_error(tn_status code, const char *want, const char *name)
{
    is_int(tn_error_code(), code, "%s: %s", name, tn_status_name(code));
    is_str(tn_error(), want, "%s is reported", name);
    tn_error_clear();
}

static void test_built(tn_device *device)
{
    static tn_program programs[1000];
    static tn_built *built[1000];
    for (int i = 0; i < 1000; i++)
        built[i] = tn__device_built(device, &programs[i]);
    bool same = true;
    for (int i = 0; i < 1000; i++)
        same &= built[i] && tn__device_built(device, &programs[i]) == built[i];
    ok(same, "a program is built once");
    static const tn_kernel_ins ins[99];
    tn_program wrong = {.ins_count = 99, .ins = ins};
    ok(!tn__device_built(device, &wrong), "a build may fail");
    char text[128];
    snprintf(text, sizeof text,
             "program_build: %s: 99 instructions are too many",
             tn_device_name(device));
    is_error(TN_ERR_BUILD, text, "a failed build");
}

static tn_status launch(tn_device *device, int64_t what, const char *name,
                        tn_fault *fault)
{
    static tn_program program;
    tn_number param = {.i = what};
    tn_launch l = {.size = sizeof l, .param = &param};
    return tn__device_launch(device, &program,
                             tn__device_built(device, &program), &l,
                             name, NULL, fault);
}

static void test_synchronous(tn_device *device)
{
    tn_fault fault = {.size = sizeof fault};
    is_int(launch(device, 0, "add", &fault), TN_OK, "a launch succeeds");
    is_int(launch(device, 1, "take", &fault), TN_ERR_INDEX,
           "an index fault is reported at once");
    ok(fault.code == TN_ERR_INDEX && fault.dim == 1 && fault.index == -7 &&
           fault.extent == 5 && fault.position == 42,
       "with its details");
    ok(!tn_error(), "no message is pending: the caller writes it");
    is_int(tn_device_synchronize(device), TN_OK, "and it is reported once");
    is_int(launch(device, 2, "exp", &fault), TN_ERR_DEVICE_LOST, "a failure");
    is_error(TN_ERR_DEVICE_LOST, "exp: fake:0: the fake gave up", "a failure");
    is_int(launch(device, 3, "log", &fault), TN_ERR_INTERNAL,
           "a failure without words");
    is_error(TN_ERR_INTERNAL,
             "log: fake:0 failed with ERR_INTERNAL, and its plugin gave no reason: "
             "report this to its author",
             "a failure without words");
    tn_error_set(TN_ERR_IO, "first");
    is_int(launch(device, 2, "exp", &fault), TN_ERR_DEVICE_LOST,
           "a failure while an error is pending");
    is_int(launch(device, 1, "take", &fault), TN_ERR_INDEX, "a fault then");
    is_error(TN_ERR_IO, "first", "the first error");
    tn_matmul_args matmul = {.size = sizeof matmul};
    is_int(tn__device_work(device, TN__WORK_MATMUL, &matmul, "linear", NULL,
                           NULL), TN_ERR_UNSUPPORTED,
           "a matmul may fail");
    is_error(TN_ERR_UNSUPPORTED, "linear: fake:0: the fake has no matmul",
             "a matmul");
    tn_scatter_args scatter = {.size = sizeof scatter};
    tn__device_work(device, TN__WORK_SCATTER, &scatter, "index_add", NULL,
                    &fault);
    is_error(TN_ERR_UNSUPPORTED, "index_add: fake:0: the fake has no scatter",
             "a scatter");
    tn_scan_args scan = {.size = sizeof scan};
    is_int(tn__device_work(device, TN__WORK_SCAN, &scan, "cumsum", NULL, NULL), TN_OK, "a scan");
    tn_sort_args sort = {.size = sizeof sort};
    tn__device_work(device, TN__WORK_SORT, &sort, "topk", NULL, NULL);
    is_error(TN_ERR_UNSUPPORTED,
             "topk: fake:0 failed with ERR_UNSUPPORTED, and its plugin gave no "
             "reason: report this to its author",
             "a sort");
}

static void test_late(tn_device *device)
{
    tn_fault fault = {.size = sizeof fault};
    is_int(launch(device, 0, "add", &fault), TN_OK, "work is given");
    is_int(launch(device, 1, "take", &fault), TN_OK, "a fault comes later");
    is_int(launch(device, 0, "mul", &fault), TN_OK, "more work");
    is_int(tn_device_synchronize(device), TN_ERR_INDEX, "a wait reports it");
    is_error(TN_ERR_INDEX,
             "take: index -7 is outside of [0, 5) (reported by "
             "device_synchronize when it waited for longer:0)",
             "a late fault");
    is_int(tn_device_synchronize(device), TN_OK, "once");
    launch(device, 2, "exp", &fault);
    for (int i = 0; i < 100; i++)
        launch(device, 0, "add", &fault);
    /* tn_cache_empty waits for the device, too, but cannot report an error. */
    tn_cache_empty(device);
    ok(!tn_error(), "emptying the cache reports nothing");
    is_int(tn_device_synchronize(device), TN_ERR_DEVICE_LOST,
           "but loses nothing");
    is_error(TN_ERR_DEVICE_LOST, "exp: longer:0: the fake gave up",
             "a late failure");
    launch(device, 2, "exp", &fault);
    for (int i = 0; i < 5000; i++)
        launch(device, 0, "add", &fault);
    tn_device_synchronize(device);
    is_error(TN_ERR_DEVICE_LOST,
             "device_synchronize: longer:0: the fake gave up",
             "a failure whose name is forgotten");
}

static void test_copies(tn_device *seen, tn_device *hidden)
{
    enum { BYTES = 9 << 20 };
    unsigned char *in = malloc(BYTES), *out = calloc(1, BYTES);
    for (int i = 0; i < BYTES; i++)
        in[i] = (unsigned char)(i * 7 + (i >> 12));
    tn_device *device[2] = {seen, hidden};
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            tn__block *from = tn__block_alloc(device[a], BYTES);
            tn__block *to = tn__block_alloc(device[b], BYTES);
            memset(out, 0, BYTES);
            tn_status status =
                tn__device_copy_in(device[a], from, 16, in, BYTES - 16);
            status |= tn__device_copy(device[b], to, 32, device[a], from, 16,
                                      BYTES - 32);
            status |= tn__device_copy_out(device[b], out, to, 32, BYTES - 32);
            ok(!status && !memcmp(in, out, BYTES - 32), "%s to %s",
               tn_device_name(device[a]), tn_device_name(device[b]));
            status = tn__device_copy(device[b], to, 0, device[a], from, 0, 0);
            is_int(status, TN_OK, "nothing, too");
            tn__block_free(from);
            tn__block_free(to);
        }
    free(in);
    free(out);
}

int main(void)
{
    plan_later();
    folder_start();
    folder_add("all", "fake", "fake", NULL);
    folder_add("all", "longer", "longer", NULL);
    folder_add("all", "needy", "needy", NULL);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/all", folder_root);
    setenv("TENON_PLUGIN_PATH", path, 1);
    setenv("TENON_LONGER_HIDDEN", "1", 1);
    setenv("TENON_LONGER_ASYNC", "1", 1);
    setenv("TENON_NEEDY_HIDDEN", "1", 1);
    tn_device *fake = tn_device_open("fake");
    tn_device *late = tn_device_open("longer");
    tn_device *hidden = tn_device_open("needy");
    if (!fake || !late || !hidden)
        bail_out("%s", tn_error());
    test_built(fake);
    test_built(late);
    test_synchronous(fake);
    test_late(late);
    test_copies(fake, late);
    test_copies(hidden, late);
    int64_t runs = tn_host_runs();
    tn__host_run_begin("a test");
    is_int(tn_host_runs(), runs + 1, "runs on the host are counted");
    folder_end();
    return done_testing();
}
