/* The errors, and which operations still work, when a call of the OpenCL driver
 * fails. A layer of the OpenCL loader (failing_layer.c) makes it fail after a
 * given time. Each scenario runs in a process of its own, whose output is
 * compared. */
#include <dlfcn.h>
#include <limits.h>

#include "ops/outside.h"
#include "plugins/folder.h"
#include "tap.h"

#include <tenon/tenon.h>

static const char
    *failing; /* name of the call that fails in this scenario, and the error */

static void fail_from_now_on(void)
{
    setenv("TN_TEST_FAIL", failing, 1);
}

static void fail_no_more(void)
{
    unsetenv("TN_TEST_FAIL");
}

/* Prints the error message without the device's name. */
static void print_error(void)
{
    const char *error = tn_error() ? tn_error() : "no error";
    const char *name = strstr(error, "opencl:0: ");
    const char *after = name ? strstr(name, "): ") : NULL;
    if (name && after)
        printf("%.*s%s", (int)(name - error), error, after + 3);
    else
        printf("%s", error);
    tn_error_clear();
}

/* ---- scenarios ----------------------------------------------------------- */

static void print_open(void)
{
    fail_from_now_on();
    tn_device *device = tn_device_open("opencl");
    printf("%s", device ? tn_device_name(device) : tn_error());
}

static tn_tensor *ready(void)
{
    tn_device_set(tn_device_open("opencl"));
    tn_tensor *x = tn_exp(tn_ones(tn_dims(5)));
    tn_device_synchronize(NULL);
    return x;
}

static void print_launch(void)
{
    tn_tensor *x = ready();
    fail_from_now_on();
    tn_exp(x);
    print_error();
}

static void print_again(void)
{
    print_launch();
    fail_no_more();
    printf("; then %.0f", tn_item(tn_sum(tn_ones(tn_dims(7)))));
}

/* If the launch of an in-place operator fails, the tensor does not change and
 * no graph is recorded. */
static void print_in_place(void)
{
    ready();
    tn_tensor *x = tn_requires_grad(tn_ones(tn_dims(3)));
    tn_tensor *h = tn_mul_scalar(x, 2);
    tn_tensor *y = tn_mul(h, h);
    tn_device_synchronize(NULL);
    fail_from_now_on();
    tn_mul_(h, h);
    print_error();
    fail_no_more();
    tn_backward(tn_sum(y));
    tn_tensor *gradient = tn_tensor_grad(x);
    printf("; then %g %g", tn_item(tn_sum(h)),
           gradient ? tn_item(tn_sum(gradient)) : -1);
}

static void print_faults(void)
{
    ready();
    outside_not_emptied(fail_from_now_on, fail_no_more, print_error);
}

/* Prints the references of each kind that a step leaves in the driver. */
static void print_references(void)
{
    enum { KINDS = 6, WARM = 3, STEPS = 10 };
    long (*live)(int) = NULL, before[KINDS] = {0}, fewest = LONG_MAX;
    ready();
    void *layer = dlopen(getenv("OPENCL_LAYERS"), RTLD_NOW | RTLD_NOLOAD);
    *(void **)&live = layer ? dlsym(layer, "layer_live") : NULL;
    for (int step = 0; live && step < WARM + STEPS; step++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *x = tn_requires_grad(tn_ones(tn_dims(300, 700)));
        tn_backward(tn_sum(tn_cumsum(tn_exp(tn_matmul(x, tn_t(x))), 0)));
        tn_item(tn_sum(tn_tensor_grad(x)));
        tn_loader *loader = tn_loader_new(
            tn_dataset_from_tensors(tn_ones(tn_dims(8, 3), .device =
                                                tn_device_open("cpu")), NULL),
            .batch_size = 2, .workers = 1, .device = tn_device_current());
        TN_EACH_BATCH(batch, loader)
            tn_item(tn_sum(batch.x));
        tn_scope_close(scope);
        tn_cache_empty(NULL);
        for (int kind = 0; kind < KINDS; kind++) {
            long now = live(kind);
            if (step < WARM)
                before[kind] = now;
            else if (now != before[kind])
                printf("step %d: kind %d has %ld, not %ld; ", step, kind, now,
                       before[kind]);
            if (kind != 1 && now < fewest) /* kind 1 is events, which may be
                                            * freed early */
                fewest = now;
        }
    }
    printf("%s", fewest > 0 && fewest < LONG_MAX ? "all alive, no more" : "none");
}

static void print_sync(void)
{
    tn_tensor *x = ready();
    tn_tensor *y = tn_exp(x);
    fail_from_now_on();
    tn_device_synchronize(NULL);
    print_error();
    (void)y;
}

static void print_sync_of_two(void)
{
    tn_tensor *x = ready();
    tn_tensor *y = tn_exp(tn_exp(x));
    fail_from_now_on();
    tn_device_synchronize(NULL);
    print_error();
    (void)y;
}

/* Allocates more than the cached memory, so that the driver is called. */
static void print_memory(void)
{
    ready();
    fail_from_now_on();
    tn_empty(tn_dims(64 << 20));
    const char *error = tn_error() ? tn_error() : "no error";
    printf("%.*s", (int)strcspn(error, ","), error);
    tn_error_clear();
    fail_no_more();
    printf("; then %.0f", tn_item(tn_sum(tn_ones(tn_dims(7)))));
}

/* Batches use host memory that the driver maps, so a failure to map it must be
 * reported. */
static void print_batches(void)
{
    tn_tensor *x = tn_arange(0.0, 24.0, 1.0);
    ready();
    tn_loader *loader = tn_loader_new(
        tn_dataset_from_tensors(tn_reshape(x, tn_dims(8, 3)), NULL),
        .batch_size = 2, .workers = 1, .device = tn_device_open("opencl"));
    fail_from_now_on();
    int batches = 0;
    TN_EACH_BATCH(batch, loader)
        batches++;
    printf("%d: ", batches);
    print_error();
    fail_no_more();
    double sum = 0;
    TN_EACH_BATCH(batch, loader)
        sum += tn_item(tn_sum(batch.x));
    printf("; then %.0f", sum);
}

static void print_compiled(void)
{
    fail_from_now_on();
    tn_device_set(tn_device_open("opencl"));
    double value = tn_item(tn_sum(tn_ones(tn_dims(5))));
    printf("%.0f %s", value, tn_programs_compiled() ? "compiled" : "read");
}

/* ---- expected output ----------------------------------------------------- */

static const char *scene(const char *what, void (*body)(void))
{
    failing = what;
    return in_child(body);
}

static void test_opening(void)
{
    const char *text = scene("clGetDeviceIDs -30", print_open);
    ok(strstr(text, "device_open: opencl: platform ") &&
           strstr(text, ": clGetDeviceIDs: CL_INVALID_VALUE"),
       "a platform that lists no devices: %s", text);
    text = scene("clCreateContext -6", print_open);
    ok(strstr(text, "device_open: opencl: ") &&
           strstr(text, ": clCreateContext: CL_OUT_OF_HOST_MEMORY"),
       "a device that gives no context: %s", text);
}

static void test_batches(void)
{
    static const char *const what[][2] = {
        {"clCreateBuffer -4", "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
        {"clEnqueueMapBuffer -12", "CL_MAP_FAILURE"},
    };
    for (int i = 0; i < 2; i++) {
        const char *text = scene(what[i][0], print_batches);
        ok(strncmp(text, "0: ", 3) == 0 && strstr(text, what[i][1]) &&
               strstr(text, "; then 276"),
           "a batch that finds no memory is an error, and the next epoch comes: "
           "%s", text);
    }
}

static void test_work(void)
{
    is_str(scene("clEnqueueNDRangeKernel -4", print_again),
           "exp: clEnqueueNDRangeKernel: CL_MEM_OBJECT_ALLOCATION_FAILURE; "
           "then 7",
           "a launch without memory is its operator's error, and the device is "
           "of use after it");
    is_str(
        scene("clEnqueueNDRangeKernel -2", print_launch),
        "exp: clEnqueueNDRangeKernel: CL_DEVICE_NOT_AVAILABLE; the device is "
        "lost to this process",
        "a lost device");
    is_str(scene("clEnqueueNDRangeKernel -9999", print_launch),
           "exp: clEnqueueNDRangeKernel: OpenCL error -9999",
           "an error that only its driver knows");
    is_str(scene("clFinish -14", print_sync),
           "exp: clFinish: CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST; the "
           "device is lost to this process",
           "work that failed late, by its operator's name");
    const char *text = scene("clFinish -5", print_sync_of_two);
    ok(strstr(text, "CL_OUT_OF_RESOURCES; the device is lost to this process; "
                    "TENON_OPENCL_BLOCKING=1 names the operator that failed"),
       "of several, how to learn which: %s", text);
    setenv("TENON_OPENCL_BLOCKING", "1", 1);
    text = scene("clFinish -5", print_launch);
    ok(strstr(text, "exp: ") == text && strstr(text, "the device is lost"),
       "which the next call reports: %s", text);
    unsetenv("TENON_OPENCL_BLOCKING");
    is_str(scene("clCreateBuffer -61", print_memory),
           "empty: out of memory on opencl:0: 256.00 MiB requested; "
           "then 7",
           "memory that runs out, and the device is of use after it");
}

static void test_left(void)
{
    is_str(scene("clEnqueueNDRangeKernel -4", print_in_place),
           "mul_: clEnqueueNDRangeKernel: CL_MEM_OBJECT_ALLOCATION_FAILURE; "
           "then 6 24",
           "a launch in place that fails leaves value and gradient alone");
    is_str(scene("clEnqueueFillBuffer -4", print_faults),
           "ERR_INDEX: index_select: clSetKernelArg: "
           "CL_MEM_OBJECT_ALLOCATION_FAILURE; then 1",
           "a list of faults that cannot be cleared hides no fault and blames "
           "no operator");
    is_str(scene("none 0", print_references), "all alive, no more",
           "a step leaves no reference behind in the driver");
}

static void test_binaries(void)
{
    is_str(scene("clGetProgramInfo -30", print_compiled), "5 compiled",
           "a driver that gives no binary computes");
    is_str(scene("clGetProgramInfo -30", print_compiled), "5 compiled",
           "and compiles each time");
    is_str(scene("none 0", print_compiled), "5 compiled", "one that does");
    is_str(scene("none 0", print_compiled), "5 read", "compiles once");
    is_str(scene("clCreateProgramWithBinary -42", print_compiled),
           "5 compiled", "a binary that the driver refuses is made again");
    is_str(scene("none 0", print_compiled), "5 read", "and kept");
}

int main(void)
{
    const char *build = getenv("top_builddir"), *temporary = getenv("TMPDIR");
    char path[600], scratch[512], command[600];
    plan_later();
    tn_log_set(NULL, NULL);
    const char *available = scene("none 0", print_open);
    if (strcmp(available, "opencl:0")) {
        note("%s", available);
        skip(1, "no OpenCL device here");
        return done_testing();
    }
    snprintf(path, sizeof path, "%s/.libs/failing_layer.so",
             build ? build : ".");
    setenv("OPENCL_LAYERS", path, 1);
    if (!strcmp(scene("clCreateContext -6", print_open), "opencl:0")) {
        skip(1, "this loader of OpenCL knows no layers");
        return done_testing();
    }
    snprintf(scratch, sizeof scratch, "%s/tenon-failures.XXXXXX",
             temporary ? temporary : "/tmp");
    if (!mkdtemp(scratch))
        bail_out("mkdtemp");
    test_opening();
    test_work();
    test_left();
    test_batches();
    setenv("TENON_CACHE_DIR", scratch, 1);
    test_binaries();
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    if (system(command))
        bail_out("rm");
    return done_testing();
}
