/* The errors that a program gets when a call of the driver fails in an
 * operator, and which operations still work after it. Each scenario runs in a
 * process of its own, whose output is compared. */
#include <tenon/tenon.h>

#include "../ops/outside.h"
#include "on_sim.h"

static void (*sim_fail)(const char *name, long n, int error);

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_PTX = 218,
    ILLEGAL_ADDRESS = 700,
    OUT_OF_RESOURCES = 701,
    MEMORY_LEAK = 721,
    LAUNCH_FAILED = 719
};

static const char
    *failing; /* name of the call that fails in this scenario, and the error */
static int failing_with;

static void fail_next(void)
{
    sim_fail(failing, 0, failing_with);
}

static void fail_no_more(void)
{
    sim_fail(NULL, -1, 0);
}

/* Prints the error message without the device's name. */
static void print_error(void)
{
    const char *error = tn_error() ? tn_error() : "no error";
    const char *name = strstr(error, "cuda:0: ");
    const char *after = name ? strstr(name, "(sm_75): ") : NULL;
    if (name && after)
        printf("%.*s%s", (int)(name - error), error, after + 9);
    else
        printf("%s", error);
    tn_error_clear();
}

static void print_seven(void)
{
    double sum = tn_item(tn_sum(tn_ones(tn_dims(7))));
    if (tn_error())
        printf("; then ");
    else
        printf("; then %.0f", sum);
    if (tn_error())
        print_error();
}

static tn_tensor *ready(void)
{
    tn_log_set(NULL, NULL);
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *x = tn_exp(tn_ones(tn_dims(5)));
    tn_item(tn_sum(tn_ones(tn_dims(7))));
    tn_device_synchronize(NULL);
    return x;
}

/* ---- scenarios ----------------------------------------------------------- */

static void print_open(void)
{
    tn_log_set(NULL, NULL);
    fail_next();
    tn_device *device = tn_device_open("cuda");
    printf("%s", device ? "no error" : tn_error());
    tn_error_clear();
    printf("; then %s", tn_device_open("cuda") ? "open" : tn_error());
}

static void print_launch(void)
{
    tn_tensor *x = ready();
    fail_next();
    tn_exp(x);
    print_error();
    print_seven();
}

static void print_new_kernel(void)
{
    tn_tensor *x = ready();
    fail_next();
    tn_atan(x);
    print_error();
    tn_scope *scope = tn_scope_open();
    tn_tensor *y = tn_atan(tn_zeros(tn_dims(5)));
    printf("; then %.0f", tn_item(tn_sum(y)));
    tn_scope_close(scope);
}

static void print_to_host(void)
{
    float out[5];
    tn_tensor *x = ready();
    fail_next();
    tn_tensor_to_array(x, out, sizeof out);
    print_error();
    print_seven();
}

static void print_sync(void)
{
    tn_tensor *x = ready();
    tn_tensor *y = tn_exp(x);
    fail_next();
    tn_device_synchronize(NULL);
    print_error();
    print_seven();
    (void)y;
}

static void print_sync_of_two(void)
{
    tn_tensor *x = ready();
    tn_tensor *y = tn_exp(tn_exp(x));
    fail_next();
    tn_device_synchronize(NULL);
    print_error();
    (void)y;
}

static void print_lost(void)
{
    print_launch();
    tn_device_set(tn_device_open("cpu"));
    print_seven();
}

/* Allocates more than the cached memory, so that the driver is called. */
static void print_memory(void)
{
    ready();
    sim_fail("cuMemAlloc_v2", 0, OUT_OF_MEMORY);
    tn_tensor *large = tn_empty(tn_dims(64 << 20));
    printf("%s", large ? "there" : "not there");
    print_seven();
}

/* Leaves 160 of 256 MiB cached in blocks that are too small for the next
 * allocation. */
static void print_retry(void)
{
    ready();
    tn_scope *scope = tn_scope_open();
    for (int i = 0; i < 5; i++)
        tn_zeros(tn_dims(8 << 20));
    tn_scope_close(scope);
    tn_tensor *large = tn_zeros(tn_dims(40 << 20));
    printf("%s", large ? "there" : tn_error());
    tn_error_clear();
    tn_tensor *more = tn_zeros(tn_dims(40 << 20));
    const char *error = tn_error() ? tn_error() : "no error";
    printf("; then %s, %.*s", more ? "there" : "not there",
           (int)strcspn(error, ","), error);
    tn_error_clear();
    print_seven();
}

static void print_faults(void)
{
    ready();
    outside_not_emptied(fail_next, fail_no_more, print_error);
}

/* ---- expected output ----------------------------------------------------- */

typedef struct powers {
    tn_tensor *x;
    int times;
} powers;

static tn_status square(void *context)
{
    powers *p = context;
    for (int i = 0; i < p->times; i++)
        tn_copy_(p->x, tn_mul(p->x, p->x));
    return TN_OK;
}

/* If a new graph cannot be created, the old one is updated. Prints the calls of
 * a replay, and its result. */
static void print_update(void)
{
    ready();
    powers old = {tn_full(tn_dims(3), 1.5), 2};
    powers p = {tn_full(tn_dims(900), 1.25), 2};
    tn_graph *graph = tn_graph_record(square, &old);
    tn_graph_replay(graph);
    for (int i = 0; i < 2; i++, p.times++) {
        fail_next();
        tn_graph_update(graph, square, &p);
        tn_copy_(p.x, tn_full(tn_dims(900), 2));
        tn_graph_replay(graph);
        printf("%s%d of %d calls, %.0f", i ? "; " : "",
               (int)tn_graph_calls(graph), (int)tn_graph_count(graph),
               tn_item(tn_select(p.x, 0, 899)));
    }
    sim_fail(NULL, -1, 0);
    print_error();
}

static const char *scene(const char *name, int error, void (*body)(void))
{
    failing = name;
    failing_with = error;
    return in_child(body);
}

static void test_opening(void)
{
    is_str(scene("cuDevicePrimaryCtxRetain", OUT_OF_MEMORY, print_open),
           "device_open: cuda: Simulated GPU 0 (sm_75): "
           "cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY; then open",
           "a device that gives no context, and does when asked again");
    is_str(scene("cuStreamCreate", OUT_OF_MEMORY, print_open),
           "device_open: cuda: Simulated GPU 0 (sm_75): "
           "cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY; then open",
           "or no stream");
}

static void test_work(void)
{
    is_str(scene("cuLaunchKernel", OUT_OF_MEMORY, print_launch),
           "exp: cuLaunchKernel: CUDA_ERROR_OUT_OF_MEMORY; then 7",
           "a launch without memory is its operator's error, and the device is "
           "of use after it");
    is_str(scene("cuLaunchKernel", 9999, print_launch),
           "exp: cuLaunchKernel: CUDA error 9999; then 7",
           "an error that only its driver knows");
    is_str(scene("cuLaunchKernel", OUT_OF_RESOURCES, print_launch),
           "exp: cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES; then 7",
           "not every error from 700 on loses the context");
    is_str(scene("cuLaunchKernel", MEMORY_LEAK, print_launch),
           "exp: cuLaunchKernel: CUDA_ERROR_TENSOR_MEMORY_LEAK; the device is "
           "lost to this process; then ones: cuCtxSetCurrent: "
           "CUDA_ERROR_TENSOR_MEMORY_LEAK; the device is lost to this process",
           "CUDA_ERROR_TENSOR_MEMORY_LEAK loses the context");
    is_str(scene("cuCtxSetCurrent", INVALID_VALUE, print_launch),
           "exp: cuCtxSetCurrent: CUDA_ERROR_INVALID_VALUE; then 7",
           "a context that cannot be made current");
    is_str(scene("cuMemsetD8Async", OUT_OF_MEMORY, print_faults),
           "ERR_INDEX: index_select: memory for a launch: "
           "CUDA_ERROR_OUT_OF_MEMORY; then 1",
           "a list of faults that cannot be cleared hides no fault and blames "
           "no operator");
    const char *cache = getenv("TENON_CACHE_DIR");
    char *kept = strdup(cache ? cache : "off");
    setenv("TENON_CACHE_DIR", "off", 1); /* with a cache the plugin would
                                          * compile the kernel again */
    is_str(scene("cuModuleLoadData", INVALID_PTX, print_new_kernel),
           "atan: cuModuleLoadData: CUDA_ERROR_INVALID_PTX; then 0",
           "a kernel that the driver does not take, and then does");
    is_str(scene("cuModuleGetFunction", OUT_OF_MEMORY, print_new_kernel),
           "atan: cuModuleGetFunction: CUDA_ERROR_OUT_OF_MEMORY; then 0",
           "likewise where its function is looked for");
    setenv("TENON_CACHE_DIR", kept, 1);
    free(kept);
    is_str(scene("cuMemcpyDtoHAsync_v2", INVALID_VALUE, print_to_host),
           "copy to the host: a copy: CUDA_ERROR_INVALID_VALUE; then 7",
           "a copy that is refused");
    is_str(
        scene("cuStreamSynchronize", ILLEGAL_ADDRESS, print_sync),
        "exp: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS; the device is "
        "lost to this process; then ones: cuCtxSetCurrent: "
        "CUDA_ERROR_ILLEGAL_ADDRESS; the device is lost to this process",
        "asynchronous failures name their operator; the device stays lost, and "
        "the process lives");
    const char *text =
        scene("cuStreamSynchronize", LAUNCH_FAILED, print_sync_of_two);
    ok(strstr(text, "CUDA_ERROR_LAUNCH_FAILED; the device is lost to this "
                    "process; TENON_CUDA_BLOCKING=1 names the operator that "
                    "failed"),
       "of several, how to learn which: %s", text);
    setenv("TENON_CUDA_BLOCKING", "1", 1);
    text = scene("cuStreamSynchronize", LAUNCH_FAILED, print_launch);
    ok(strstr(text, "exp: ") == text && strstr(text, "the device is lost"),
       "which the next call reports: %s", text);
    unsetenv("TENON_CUDA_BLOCKING");
    text = scene("cuLaunchKernel", LAUNCH_FAILED, print_lost);
    ok(strstr(text, "exp: cuLaunchKernel: CUDA_ERROR_LAUNCH_FAILED") == text &&
           strlen(text) > 8 && !strcmp(text + strlen(text) - 8, "; then 7"),
       "a lost device leaves the cpu: %s", text);
}

static void test_memory(void)
{
    is_str(scene(NULL, 0, print_memory), "there; then 7",
           "memory that is not available at first is requested again");
    setenv("TENON_SIM_MEMORY", "0x10000000", 1);
    is_str(scene(NULL, 0, print_retry),
           "there; then not there, zeros: out of memory on cuda:0: 160.00 MiB "
           "requested; then 7",
           "cached memory is released first; a request that still does not fit "
           "is an error, and the device is usable after it");
    unsetenv("TENON_SIM_MEMORY");
}

/* Prints how many exp operators a trace has, and how many of them have a time
 * on the device. */
static void count_traced(const char *path)
{
    char line[2048];
    int pieces = 0, operators = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        pieces += strstr(line, "\"cat\":\"device\"") != NULL;
        operators += strstr(line, "\"exp\",\"cat\":\"op\"") != NULL;
    }
    if (file)
        fclose(file);
    printf("%d of %d", pieces, operators);
}

/* Traces work while events cannot be created. */
static void print_traced(void)
{
    char path[64];
    snprintf(path, sizeof path, "test_failures.%ld.json", (long)getpid());
    tn_tensor *x = ready();
    tn_trace_start(path);
    fail_next();
    for (int i = 0; i < 3; i++)
        tn_exp(x);
    tn_device_synchronize(NULL);
    tn_trace_stop();
    sim_fail(NULL, -1, 0);
    count_traced(path);
    tn_trace_start(path); /* the events of a second trace can be created */
    tn_exp(x);
    tn_trace_stop();
    printf(", then ");
    count_traced(path);
    remove(path);
    printf(": ");
    print_error();
}

static void test_trace(void)
{
    is_str(scene("none", 0, print_traced), "3 of 3, then 1 of 1: no error",
           "a trace has the device's time of each operator");
    is_str(scene("cuEventCreate", OUT_OF_MEMORY, print_traced),
           "0 of 3, then 1 of 1: no error",
           "where there are no events it does without, and says nothing");
    is_str(scene("cuEventRecord", INVALID_VALUE, print_traced),
           "0 of 3, then 1 of 1: no error", "nor where they cannot be recorded");
    is_str(scene("cuEventElapsedTime", INVALID_VALUE, print_traced),
           "2 of 3, then 1 of 1: no error",
           "a time that the driver does not report is left out");
}

static void test_graph(void)
{
    is_str(scene("cuGraphInstantiateWithFlags", OUT_OF_MEMORY, print_update),
           "1 of 4 calls, 16; 6 of 6 calls, 256no error",
           "a graph of the same form is updated and not made anew; for another "
           "form it is, and where that fails the work is given piece by piece");
    is_str(scene("cuGraphExecUpdate", INVALID_VALUE, print_update),
           "1 of 4 calls, 16; 1 of 6 calls, 256no error",
           "a graph that the driver cannot update is made anew");
}

static void print_late(void)
{
    tn_log_set(NULL, NULL);
    late_print("cuda");
}

int main(int argc, char **argv)
{
    (void)argc;
    plan_later();
    on_sim(argv);
    on_sim_find("sim_fail", &sim_fail);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    test_opening();
    test_work();
    test_memory();
    test_graph();
    test_trace();
    is_str(in_child(print_late), "all",
           "indices outside are reported with argument, value, position, shape "
           "and range as they were passed");
    return done_testing();
}
