/* Makes deliberate mistakes in calls of the CUDA driver. The simulated driver
 * must detect each one and name it, and must report nothing for the correct
 * version. test_bugs_kernels.c has mistakes in kernels. */
#include <sys/wait.h>
#include <unistd.h>

#include "bugs.h"

/* Launches a kernel that reads or writes the block on this stream. */
static tn_cu_result launch(const char *body, tn_cu_stream on)
{
    tn_cu_module module;
    tn_cu_pointer zero = 0;
    void *parameters[] = {&block, &block, &blank, &zero};
    tn_cu_function f = kernel_of(body, &module);
    return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, on, parameters, NULL);
}
#define WRITES "st.global.u32 [%rd1+32], 1;"

static tn_cu_result free_twice(bool right)
{
    tn_cu_pointer p;
    MUST(cuMemAlloc_v2(&p, 8));
    tn_cu_result error = cuMemFree_v2(p);
    return right ? error : cuMemFree_v2(p);
}

static tn_cu_result free_middle(bool right)
{
    tn_cu_pointer p;
    MUST(cuMemAlloc_v2(&p, 8));
    tn_cu_result error = cuMemFree_v2(right ? p : p + 4);
    if (!right)
        MUST(cuMemFree_v2(p));
    return error;
}

static tn_cu_result copy_to_freed(bool right)
{
    MUST(cuMemcpyHtoDAsync_v2(right ? block : freed, eight, 8, stream));
    return end(stream);
}

static tn_cu_result copy_too_much_in(bool right)
{
    static char many[65];
    MUST(cuMemcpyHtoDAsync_v2(block, many, right ? 64 : 65, stream));
    return end(stream);
}

static tn_cu_result copy_too_much_out(bool right)
{
    static char many[72];
    MUST(cuMemcpyDtoHAsync_v2(many, block, right ? 64 : 72, stream));
    return end(stream);
}

static tn_cu_result copy_too_much_on(bool right)
{
    MUST(cuMemcpyDtoDAsync_v2(blank, block, right ? 64 : 72, stream));
    return end(stream);
}

static tn_cu_result fill_too_much(bool right)
{
    MUST(cuMemsetD8Async(block, 0, right ? 64 : 256, stream));
    return end(stream);
}

static tn_cu_result rectangle(size_t pitch, size_t rows)
{
    const tn_cu_rectangle r = {.src_type = TN_CU_HOST,
                               .src_host = eight,
                               .src_pitch = 8,
                               .dst_type = TN_CU_DEVICE,
                               .dst_device = block,
                               .dst_pitch = pitch,
                               .width = 8,
                               .height = rows};
    tn_cu_result error = cuMemcpy2DAsync_v2(&r, stream);
    return error ? error : end(stream);
}

static tn_cu_result rectangle_overlaps(bool right)
{
    return rectangle(right ? 8 : 4, 4);
}

static tn_cu_result rectangle_too_long(bool right)
{
    return rectangle(16, right ? 4 : 5);
}

static tn_cu_result sides_swapped(bool right)
{
    void *host = (void *)(uintptr_t)block;
    tn_cu_result error =
        right ? cuMemcpyHtoDAsync_v2(block, eight, 8, stream)
              : cuMemcpyHtoDAsync_v2((uintptr_t)eight, host, 8, stream);
    return error ? error : end(stream);
}

static tn_cu_result host_is_null(bool right)
{
    tn_cu_result error =
        cuMemcpyDtoHAsync_v2(right ? eight : NULL, block, 8, stream);
    return error ? error : end(stream);
}

static tn_cu_result copy_across(bool right)
{
    tn_cu_result error =
        cuMemcpyDtoDAsync_v2(right ? blank : remote, block, 8, stream);
    return error ? error : end(stream);
}

/* Reads a result before waiting for it, so the host sees old data each time. */
static tn_cu_result no_wait(bool right)
{
    uint64_t seven = 7, out = 0;
    MUST(cuMemcpyHtoDAsync_v2(block, &seven, 8, stream));
    seven = 8; /* a copy from pageable memory has already read its source */
    MUST(cuMemcpyDtoHAsync_v2(&out, block, 8, stream));
    if (right)
        MUST(end(stream));
    tn_cu_result error = out == 7 ? 0 : SIM_FOUND;
    MUST(end(stream));
    return error;
}

static tn_cu_result pinned_changed(bool right)
{
    uint64_t *pinned;
    MUST(cuMemHostAlloc((void **)&pinned, 8, 0));
    *pinned = 7;
    MUST(cuMemcpyHtoDAsync_v2(block, pinned, 8, stream));
    if (right)
        MUST(end(stream));
    *pinned = 8;
    tn_cu_result error = end(stream);
    sim_mend();
    MUST(cuMemFreeHost(pinned));
    return error;
}

static tn_cu_result pinned_freed(bool right)
{
    uint64_t *pinned;
    MUST(cuMemHostAlloc((void **)&pinned, 8, 0));
    *pinned = 7;
    MUST(cuMemcpyHtoDAsync_v2(block, pinned, 8, stream));
    if (right)
        MUST(end(stream));
    tn_cu_result error = cuMemFreeHost(pinned);
    MUST(end(stream));
    if (!right)
        MUST(cuMemFreeHost(pinned));
    return error;
}

static tn_cu_result pinned_of_another(bool right)
{
    void *pinned;
    MUST(cuMemHostAlloc(&pinned, 8, 0));
    tn_cu_result error = cuMemFreeHost(right ? pinned : eight);
    if (!right)
        MUST(cuMemFreeHost(pinned));
    return error;
}

/* Uses the block on two streams; if right, an event orders the two uses. */
static tn_cu_result ordered(bool right, tn_cu_result (*one)(tn_cu_stream),
                            tn_cu_result (*two)(tn_cu_stream))
{
    tn_cu_event event;
    MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    MUST(one(stream));
    MUST(cuEventRecord(event, stream));
    if (right)
        MUST(cuStreamWaitEvent(other, event, 0));
    MUST(two(other));
    tn_cu_result error = end(other);
    if (!error)
        error = end(stream);
    sim_mend();
    MUST(cuEventDestroy_v2(event));
    return error;
}

static tn_cu_result writes(tn_cu_stream on)
{
    return launch(WRITES, on);
}

static tn_cu_result reads(tn_cu_stream on)
{
    return cuMemcpyDtoHAsync_v2(eight, block, 64, on);
}

static tn_cu_result copies_in(tn_cu_stream on)
{
    return cuMemcpyHtoDAsync_v2(block, eight, 64, on);
}

static tn_cu_result read_unordered(bool right)
{
    return ordered(right, writes, reads);
}

static tn_cu_result write_unordered(bool right)
{
    return ordered(right, reads, writes);
}

static tn_cu_result writes_unordered(bool right)
{
    return ordered(right, writes, writes);
}

static tn_cu_result input_unordered(bool right)
{
    return ordered(right, copies_in, writes);
}

/* Records an event before the work that it should follow. */
static tn_cu_result recorded_early(bool right)
{
    tn_cu_event event;
    MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    if (!right)
        MUST(cuEventRecord(event, stream));
    MUST(writes(stream));
    if (right)
        MUST(cuEventRecord(event, stream));
    MUST(cuStreamWaitEvent(other, event, 0));
    MUST(reads(other));
    tn_cu_result error = end(other);
    if (!error)
        error = end(stream);
    sim_mend();
    MUST(cuEventDestroy_v2(event));
    return error;
}

/* Waits for an event, then uses the result of work that was submitted after the
 * event's record. */
static tn_cu_result recorded_once(bool right)
{
    tn_cu_event event;
    MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    tn_cu_result error = 0;
    for (int i = 0; i < 2 && !error; i++) {
        MUST(writes(stream));
        if (!i || right)
            MUST(cuEventRecord(event, stream));
        MUST(cuStreamWaitEvent(other, event, 0));
        MUST(reads(other));
        error = end(other);
        if (!error && i)
            error = end(stream);
        else if (!error && right) /* orders the next write after the read */
            MUST(end(other));
    }
    sim_mend();
    MUST(cuEventDestroy_v2(event));
    return error;
}

/* Measures the time between two events created with these flags. The second one
 * is recorded and waited for if the arguments say so. */
static tn_cu_result elapsed(unsigned flags, bool records, bool waits)
{
    tn_cu_event from, to;
    float milliseconds = -1;
    MUST(cuEventCreate(&from, 0));
    MUST(cuEventCreate(&to, flags));
    MUST(cuEventRecord(from, stream));
    MUST(writes(stream));
    if (records)
        MUST(cuEventRecord(to, stream));
    if (waits)
        MUST(end(stream));
    tn_cu_result error = cuEventElapsedTime(&milliseconds, from, to);
    MUST(end(stream));
    MUST(cuEventDestroy_v2(from));
    MUST(cuEventDestroy_v2(to));
    return !error && milliseconds < 0 ? SIM_FOUND : error;
}

static tn_cu_result time_of_none(bool right)
{
    return elapsed(right ? 0 : TN_CU_NO_TIMING, true, true);
}

static tn_cu_result time_not_recorded(bool right)
{
    return elapsed(0, right, true);
}

static tn_cu_result time_not_done(bool right)
{
    return elapsed(0, true, right);
}

/* Returns a graph that was captured from `count` launches that write to p. */
static tn_cu_graph graph_of(tn_cu_pointer p, int count)
{
    tn_cu_module module;
    tn_cu_graph graph;
    tn_cu_pointer zero = 0;
    void *parameters[] = {&p, &block, &blank, &zero};
    tn_cu_function f = kernel_of("", &module);
    MUST(cuStreamBeginCapture_v2(stream, 2));
    for (int i = 0; i < count; i++)
        MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    MUST(cuStreamEndCapture(stream, &graph));
    return graph;
}

/* Runs a graph whose kernel writes to memory that has been freed. The correct
 * version makes a new graph for other memory. */
static tn_cu_result graph_of_old(bool right)
{
    tn_cu_pointer old;
    tn_cu_graph_exec exec;
    void *node;
    int result;
    MUST(cuMemAlloc_v2(&old, 8));
    tn_cu_graph first = graph_of(old, 1), second_one = graph_of(block, 1);
    MUST(cuGraphInstantiateWithFlags(&exec, first, 0));
    MUST(cuGraphLaunch(exec, stream));
    if (right)
        MUST(cuGraphExecUpdate(exec, second_one, &node, &result));
    MUST(cuMemFree_v2(old)); /* waits for the submitted launch */
    MUST(cuGraphLaunch(exec, stream));
    tn_cu_result error = end(stream);
    sim_mend();
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(first));
    MUST(cuGraphDestroy(second_one));
    return error;
}

/* Updates a graph with another topology, which is error 910 without a report:
 * the caller of an update must handle that error. */
static tn_cu_result graph_of_another_form(bool right)
{
    tn_cu_graph_exec exec;
    void *node = &exec;
    int result = -1;
    tn_cu_graph one = graph_of(block, 1);
    tn_cu_graph other_one = graph_of(blank, right ? 1 : 2);
    MUST(cuGraphInstantiateWithFlags(&exec, one, 0));
    tn_cu_result error = cuGraphExecUpdate(exec, other_one, &node, &result);
    if (node || result != (right ? 0 : 2)) /* 2: the topology has changed */
        error = SIM_FOUND;
    MUST(cuGraphLaunch(exec, stream)); /* runs the old graph, or the updated
                                        * one */
    MUST(end(stream));
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(one));
    MUST(cuGraphDestroy(other_one));
    return error;
}

/* Updates a graph that has a fill instead of a kernel. */
static tn_cu_result graph_of_another_kind(bool right)
{
    tn_cu_graph_exec exec;
    tn_cu_graph fill;
    void *node = NULL;
    int result = -1;
    tn_cu_graph one = graph_of(block, 1);
    MUST(cuStreamBeginCapture_v2(stream, 2));
    if (right)
        MUST(writes(stream));
    else
        MUST(cuMemsetD8Async(block, 0, 8, stream));
    MUST(cuStreamEndCapture(stream, &fill));
    MUST(cuGraphInstantiateWithFlags(&exec, one, 0));
    tn_cu_result error = cuGraphExecUpdate(exec, fill, &node, &result);
    /* 3: the type of a node has changed */
    if (!node != right || result != (right ? 0 : 3))
        error = SIM_FOUND;
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(one));
    MUST(cuGraphDestroy(fill));
    return error;
}

static tn_cu_result no_context(bool right)
{
    MUST(cuCtxSetCurrent(right ? context : NULL));
    tn_cu_result error = cuMemcpyHtoDAsync_v2(block, eight, 8, stream);
    MUST(cuCtxSetCurrent(context));
    MUST(end(stream));
    return error;
}

static tn_cu_result wrong_context(bool right)
{
    tn_cu_module module;
    tn_cu_pointer zero = 0;
    void *parameters[] = {&block, &block, &blank, &zero};
    tn_cu_function f = kernel_of(WRITES, &module);
    MUST(cuCtxSetCurrent(right ? context : second));
    tn_cu_result error =
        cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
    MUST(cuCtxSetCurrent(context));
    MUST(end(stream));
    MUST(cuModuleUnload(module));
    return error;
}

static tn_cu_result wrong_stream(bool right)
{
    tn_cu_result error = launch(WRITES, right ? stream : far);
    return error ? error : end(stream);
}

static tn_cu_result wrong_event(bool right)
{
    tn_cu_event event;
    MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    tn_cu_result error = cuEventRecord(event, right ? stream : far);
    MUST(cuEventDestroy_v2(event));
    MUST(end(stream));
    return error;
}

static tn_cu_result default_stream(bool right)
{
    tn_cu_result error =
        cuMemcpyHtoDAsync_v2(block, eight, 8, right ? stream : NULL);
    return error ? error : end(stream);
}

static tn_cu_result stream_gone(bool right)
{
    tn_cu_stream s;
    MUST(cuStreamCreate(&s, TN_CU_NON_BLOCKING));
    if (!right)
        MUST(cuStreamDestroy_v2(s));
    tn_cu_result error = cuMemcpyHtoDAsync_v2(block, eight, 8, s);
    if (right)
        MUST(end(s));
    if (right)
        MUST(cuStreamDestroy_v2(s));
    return error;
}

static tn_cu_result event_gone(bool right)
{
    tn_cu_event event;
    MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    if (!right)
        MUST(cuEventDestroy_v2(event));
    tn_cu_result error = cuEventRecord(event, stream);
    if (right)
        MUST(cuEventDestroy_v2(event));
    MUST(end(stream));
    return error;
}

static tn_cu_result event_gone_twice(bool right)
{
    tn_cu_event event;
    MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    tn_cu_result error = cuEventDestroy_v2(event);
    return right ? error : cuEventDestroy_v2(event);
}

static tn_cu_result another_kind(bool right)
{
    tn_cu_event event;
    MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    tn_cu_result error =
        cuStreamSynchronize(right ? stream : (tn_cu_stream)(void *)event);
    MUST(cuEventDestroy_v2(event));
    return error;
}

/* Launches a kernel and unloads its module, in either order. */
static tn_cu_result module_gone(bool right)
{
    tn_cu_module module;
    tn_cu_pointer zero = 0;
    void *parameters[] = {&block, &block, &blank, &zero};
    tn_cu_function f = kernel_of(WRITES, &module);
    if (!right)
        MUST(cuModuleUnload(module));
    tn_cu_result error =
        cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
    MUST(end(stream));
    if (right)
        MUST(cuModuleUnload(module));
    return error;
}

static tn_cu_result module_in_use(bool right)
{
    tn_cu_module module;
    tn_cu_pointer zero = 0;
    void *parameters[] = {&block, &block, &blank, &zero};
    tn_cu_function f = kernel_of(WRITES, &module);
    MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    if (right)
        MUST(end(stream));
    tn_cu_result error = cuModuleUnload(module);
    sim_mend();
    return error;
}

/* Launches a kernel with this many thread blocks of this many threads. */
static tn_cu_result launch_of(unsigned groups, unsigned threads,
                              unsigned shared, bool whole)
{
    tn_cu_module module;
    tn_cu_pointer zero = 0;
    void *parameters[] = {&block, &block, &blank, whole ? &zero : NULL};
    tn_cu_function f = kernel_of("", &module);
    tn_cu_result error = cuLaunchKernel(f, groups, 1, 1, threads, 1, 1, shared,
                                        stream, parameters, NULL);
    MUST(end(stream));
    MUST(cuModuleUnload(module));
    return error;
}

static tn_cu_result too_many_threads(bool right)
{
    return launch_of(1, right ? 1024 : 1025, 0, true);
}

static tn_cu_result no_groups(bool right)
{
    return launch_of(right ? 1 : 0, 1, 0, true);
}

static tn_cu_result no_parameter(bool right)
{
    return launch_of(1, 1, 0, right);
}

/* Loads a module with one kernel that has this parameter, this directive before
 * its body, and this body. */
static tn_cu_result module_of(const char *parameter, const char *bound,
                              const char *body, unsigned threads)
{
    char text[1024];
    tn_cu_module module;
    tn_cu_function f;
    static char value[8192];
    void *parameters[] = {value};
    snprintf(text, sizeof text,
             ".version 8.0\n.target sm_75\n.address_size 64\n"
             ".visible .entry f(.param .align 8 .b8 p[%s])\n%s\n"
             "{\n.reg .b32 %%r<4>;\n%s\nret;\n}\n",
             parameter, bound, body);
    tn_cu_result error = cuModuleLoadData(&module, text);
    if (error)
        return error;
    MUST(cuModuleGetFunction(&f, module, "f"));
    error = cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, stream, parameters,
                           NULL);
    MUST(end(stream));
    MUST(cuModuleUnload(module));
    return error;
}

static tn_cu_result too_many_for_it(bool right)
{
    return module_of("8", ".maxntid 128, 1, 1", "", right ? 128 : 256);
}

static tn_cu_result parameters_too_long(bool right)
{
    return module_of(right ? "4096" : "4104", "", "", 1);
}

static tn_cu_result shared_too_long(bool right)
{
    return module_of("8", "",
                     right ? ".shared .align 4 .b8 s[49152];"
                           : ".shared .align 4 .b8 s[49153];",
                     1);
}

static tn_cu_result unknown_instruction(bool right)
{
    return module_of("8", "", right ? "mov.b32 %r1, 1;" : "wmma.load %r1, 1;",
                     1);
}

static tn_cu_result label_nowhere(bool right)
{
    return module_of("8", "", right ? "bra $out;$out:" : "bra $out;", 1);
}

static tn_cu_result no_such_kernel(bool right)
{
    tn_cu_module module;
    tn_cu_function f;
    kernel_of("", &module);
    tn_cu_result error = cuModuleGetFunction(&f, module, right ? "f" : "g");
    MUST(cuModuleUnload(module));
    return error;
}

/* Closes device 1 while one object on it still exists. */
static tn_cu_result leaves(bool right, int what)
{
    tn_cu_context again;
    tn_cu_pointer p = 0;
    tn_cu_event event = NULL;
    tn_cu_module module = NULL;
    MUST(cuCtxSetCurrent(second));
    if (what == 0)
        MUST(cuMemAlloc_v2(&p, 8));
    if (what == 1)
        MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    if (what == 2)
        kernel_of("", &module);
    if (right && p)
        MUST(cuMemFree_v2(p));
    if (right && event)
        MUST(cuEventDestroy_v2(event));
    if (right && module)
        MUST(cuModuleUnload(module));
    if (right || what != 3)
        MUST(cuStreamDestroy_v2(far));
    MUST(cuMemFree_v2(remote));
    MUST(cuDevicePrimaryCtxRelease_v2(1));
    MUST(cuDevicePrimaryCtxRetain(&again, 1));
    MUST(cuStreamCreate(&far, TN_CU_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&remote, 64));
    if (!right && p)
        MUST(cuMemFree_v2(p));
    MUST(cuCtxSetCurrent(context));
    return 0;
}

static tn_cu_result leaves_memory(bool right)
{
    return leaves(right, 0);
}

static tn_cu_result leaves_event(bool right)
{
    return leaves(right, 1);
}

static tn_cu_result leaves_module(bool right)
{
    return leaves(right, 2);
}

static tn_cu_result leaves_stream(bool right)
{
    return leaves(right, 3);
}

static tn_cu_result released_twice(bool right)
{
    tn_cu_context third;
    MUST(cuDevicePrimaryCtxRetain(&third, 2));
    tn_cu_result error = cuDevicePrimaryCtxRelease_v2(2);
    return right ? error : cuDevicePrimaryCtxRelease_v2(2);
}

static tn_cu_result goes_on_after_a_fault(bool right)
{
    MUST(cuMemcpyHtoDAsync_v2(right ? block : freed, eight, 8, stream));
    cuStreamSynchronize(stream);
    return cuMemcpyHtoDAsync_v2(block, eight, 8, stream);
}

#define FOUND(f, error, says) {#f, f, error, says}
static const struct {
    const char *name;
    tn_cu_result (*scene)(bool right);
    tn_cu_result error;
    const char *says; /* expected report; NULL: only the error is checked */
} scenes[] = {
    FOUND(free_twice, TN_CU_INVALID_VALUE, "free already"),
    FOUND(free_middle, TN_CU_INVALID_VALUE, "no allocation's beginning"),
    FOUND(copy_to_freed, TN_CU_ILLEGAL_ADDRESS, "in a freed block"),
    FOUND(copy_too_much_in, TN_CU_ILLEGAL_ADDRESS, "a copy's write of 65"),
    FOUND(copy_too_much_out, TN_CU_ILLEGAL_ADDRESS, "a copy's read of 72"),
    FOUND(copy_too_much_on, TN_CU_ILLEGAL_ADDRESS, "a copy's read of 72"),
    FOUND(fill_too_much, TN_CU_ILLEGAL_ADDRESS, "a fill of 256"),
    FOUND(rectangle_overlaps, TN_CU_INVALID_VALUE, "rows of 8 bytes every"),
    FOUND(rectangle_too_long, TN_CU_ILLEGAL_ADDRESS, "at 64 in a block"),
    FOUND(sides_swapped, TN_CU_INVALID_VALUE, "is device memory"),
    FOUND(host_is_null, TN_CU_INVALID_VALUE, "is nothing"),
    FOUND(copy_across, TN_CU_INVALID_VALUE, "from device 0 to device 1"),
    FOUND(no_wait, SIM_FOUND, NULL),
    FOUND(pinned_changed, SIM_FOUND, "the host has changed 8 bytes"),
    FOUND(pinned_freed, TN_CU_INVALID_VALUE, "of which a copy waits"),
    FOUND(pinned_of_another, TN_CU_INVALID_VALUE, "no page-locked memory"),
    FOUND(read_unordered, SIM_FOUND, "has no order with a"),
    FOUND(write_unordered, SIM_FOUND, "has no order with a"),
    FOUND(writes_unordered, SIM_FOUND, "has no order with a"),
    FOUND(input_unordered, SIM_FOUND, "has no order with a"),
    FOUND(recorded_early, SIM_FOUND, "has no order with a"),
    FOUND(recorded_once, SIM_FOUND, "has no order with a"),
    FOUND(time_of_none, SIM_INVALID_HANDLE, "was made to have none"),
    FOUND(time_not_recorded, SIM_INVALID_HANDLE, "was never recorded"),
    FOUND(time_not_done, TN_CU_NOT_READY, NULL),
    FOUND(graph_of_old, TN_CU_ILLEGAL_ADDRESS, "in a freed block"),
    FOUND(graph_of_another_form, TN_CU_UPDATE_FAILURE, NULL),
    FOUND(graph_of_another_kind, TN_CU_UPDATE_FAILURE, NULL),
    FOUND(no_context, TN_CU_INVALID_CONTEXT, "without a current context"),
    FOUND(wrong_context, SIM_INVALID_HANDLE, "of device 0 is used on device 1"),
    FOUND(wrong_stream, SIM_INVALID_HANDLE, "of device 1 is used on device 0"),
    FOUND(wrong_event, SIM_INVALID_HANDLE, "recorded on a stream of device 1"),
    FOUND(default_stream, SIM_INVALID_HANDLE, "the default stream"),
    FOUND(stream_gone, SIM_INVALID_HANDLE, "a stream is used after its end"),
    FOUND(event_gone, SIM_INVALID_HANDLE, "a event is used after its end"),
    FOUND(event_gone_twice, SIM_INVALID_HANDLE, "used after its end"),
    FOUND(another_kind, SIM_INVALID_HANDLE, "what is no stream"),
    FOUND(module_gone, SIM_INVALID_HANDLE, "a module is used after its end"),
    FOUND(module_in_use, SIM_FOUND, "of which a launch waits"),
    FOUND(too_many_threads, TN_CU_INVALID_VALUE, "groups of 1025"),
    FOUND(no_groups, TN_CU_INVALID_VALUE, "a launch of 0 x 1 x 1"),
    FOUND(no_parameter, TN_CU_INVALID_VALUE, "without its parameter 3"),
    FOUND(too_many_for_it, TN_CU_INVALID_VALUE, "a kernel made for 128"),
    FOUND(parameters_too_long, TN_CU_INVALID_VALUE, "4104 bytes"),
    FOUND(shared_too_long, TN_CU_INVALID_PTX, "more than 49152 bytes"),
    FOUND(unknown_instruction, TN_CU_INVALID_PTX, "does not know: 'wmma"),
    FOUND(label_nowhere, TN_CU_INVALID_PTX, "a label that is nowhere"),
    FOUND(no_such_kernel, TN_CU_NOT_FOUND, NULL),
    FOUND(leaves_memory, 0, "closed with 1 allocations left"),
    FOUND(leaves_event, 0, "closed with a event left"),
    FOUND(leaves_module, 0, "closed with a module left"),
    FOUND(leaves_stream, 0, "closed with a stream left"),
    FOUND(released_twice, TN_CU_INVALID_CONTEXT, "that is not retained"),
    FOUND(goes_on_after_a_fault, TN_CU_ILLEGAL_ADDRESS, "in a freed block"),
};

static void test_scenes(void)
{
    char said[4096];
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        begin();
        tn_cu_result error = scenes[i].scene(false);
        ok(is_found(error, scenes[i].error, scenes[i].says, said,
                    sizeof said),
           "%s: error %d: %s", scenes[i].name, error, said);
        begin();
        error = scenes[i].scene(true);
        ok(is_found(error, 0, NULL, said, sizeof said),
           "and done right: %d %s", error, said);
    }
}

/* The mistake kills the process, so it runs in a child. */
static void test_host_reads(void)
{
    int status = 0;
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer may have installed its own
                                   * handler */
        _exit(*(const volatile char *)(uintptr_t)block);
    }
    ok(child > 0 && waitpid(child, &status, 0) == child &&
           WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
       "the host reads device memory: it dies");
}

int main(void)
{
    plan_later();
    setenv("TENON_SIM_DEVICES", "3", 1);
    unsetenv("TENON_SIM_SEED");
    is_int(cuMemAlloc_v2(&block, 8), TN_CU_NOT_INITIALIZED,
           "a call before cuInit");
    open_all();
    note("%zu bugs", sizeof scenes / sizeof *scenes + 2);
    test_scenes();
    test_host_reads();
    return done_testing();
}
