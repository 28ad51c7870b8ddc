/* opencl_launch.c: launches Tenon's own kernels.
 *
 * A piece of work consists of one or several steps. The core plans each step:
 * which kernel runs, with how many work-groups and which arguments (plugin.h,
 * "Programs and primitives as source"). run_steps executes the plan of each
 * step, for programs as well as for primitives and extensions. */
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

/* ---- kernels ------------------------------------------------------------- */

static size_t slot_of(const tn_plugin_device *device, const uint64_t key[2])
{
    size_t mask = device->kernel_capacity - 1, i = (size_t)key[0] & mask;
    while (device->kernels[i].program &&
           (device->kernels[i].key[0] != key[0] ||
            device->kernels[i].key[1] != key[1]))
        i = (i + 1) & mask;
    return i;
}

/* Finds a kernel in the device's table. Returns NULL if the table does not have
 * it. The caller holds the device's lock. */
static cl_kernel kernel_find(const tn_plugin_device *device,
                             const uint64_t key[2])
{
    return device->kernel_capacity
               ? device->kernels[slot_of(device, key)].kernel
               : NULL;
}

static bool kernels_grow(tn_plugin_device *device)
{
    tn_opencl_kernel *old = device->kernels;
    size_t old_capacity = device->kernel_capacity;
    if (device->kernel_count * 2 < old_capacity)
        return true;
    size_t capacity = old_capacity ? old_capacity * 2 : 64;
    tn_opencl_kernel *grown = calloc(capacity, sizeof *grown);
    if (!grown)
        return false;
    device->kernels = grown;
    device->kernel_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].program)
            grown[slot_of(device, old[i].key)] = old[i];
    free(old);
    return true;
}

void tn__opencl_kernels_release(tn_plugin_device *device)
{
    for (size_t i = 0; i < device->kernel_capacity; i++)
        if (device->kernels[i].program) {
            cl.ReleaseKernel(device->kernels[i].kernel);
            cl.ReleaseProgram(device->kernels[i].program);
        }
    free(device->kernels);
    device->kernels = NULL;
}

/* Prints the source of a plan's kernel, builds the kernel and stores it in the
 * device's table. The caller holds the device's lock, so that each kernel is
 * built only once. */
static tn_status kernel_make(tn_plugin_device *device,
                             const tn_target *target,
                             const tn_program *program, const tn_plan *plan)
{
    tn_source source = {.size = sizeof source};
    cl_program built = NULL;
    cl_int error = CL_SUCCESS;
    if (!kernels_grow(device))
        return tn__host->fail(TN_ERR_MEMORY, "out of host memory for a kernel");
    tn_status status = tn__print_plan(target, program, plan, &source);
    if (status)
        return status;
    tn_opencl_kernel *k = &device->kernels[slot_of(device, plan->key)];
    status = tn__opencl_compile(device, &source, &built);
    if (!status) {
        k->kernel = cl.CreateKernel(built, source.kernel, &error);
        if (error) {
            status = tn__opencl_fail(device, "clCreateKernel", error);
            cl.ReleaseProgram(built);
        }
    }
    if (!status) {
        k->program = built;
        memcpy(k->key, plan->key, sizeof k->key);
        device->kernel_count++;
    }
    tn__host->print_free(&source);
    return status;
}

/* ---- arguments ----------------------------------------------------------- */

/* Ensures that queue->scratch has at least `bytes` bytes. The work of a queue
 * runs in order, so all of it can use the same scratch buffer. If the buffer is
 * too small, it is released. The driver frees it when the work that uses it is
 * complete. */
static cl_int scratch_ready(tn_queue *queue, uint64_t bytes)
{
    cl_int error = CL_SUCCESS;
    if (queue->scratch_bytes >= bytes)
        return CL_SUCCESS;
    if (queue->scratch)
        cl.ReleaseMemObject(queue->scratch);
    queue->scratch_bytes = 0;
    queue->scratch = cl.CreateBuffer(queue->device->context, CL_MEM_READ_WRITE,
                                     (size_t)bytes, NULL, &error);
    if (!error)
        queue->scratch_bytes = bytes;
    return error;
}

static cl_int set_memory(cl_kernel kernel, cl_uint *i, cl_mem memory)
{
    return cl.SetKernelArg(kernel, (*i)++, sizeof memory, &memory);
}

/* Passes the arguments of a plan to the kernel: by value, or in a new buffer if
 * they are too long. The buffer is stored in *words. */
static cl_int set_words(tn_queue *queue, cl_kernel kernel, cl_uint *i,
                        const tn_plan *plan, cl_mem *words)
{
    cl_int error = CL_SUCCESS;
    if (!(plan->flags & TN_PLAN_WORDS_IN_BUFFER))
        return cl.SetKernelArg(kernel, (*i)++, plan->argument_bytes,
                               plan->argument);
    /* The cast is safe, because the driver only reads the arguments. */
    *words = cl.CreateBuffer(queue->device->context,
                             CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                             plan->argument_bytes,
                             (void *)(uintptr_t)plan->argument, &error);
    return error ? error : set_memory(kernel, i, *words);
}

static cl_int set_arguments(tn_queue *queue, cl_kernel kernel,
                            const tn_plan *plan, cl_mem *words)
{
    cl_int error = CL_SUCCESS;
    cl_uint i = 0;
    for (uint32_t b = 0; b < plan->buffer_count && !error; b++)
        error = set_memory(kernel, &i,
                           plan->buffer[b] ? plan->buffer[b]->memory : NULL);
    if (!error && plan->flags & TN_PLAN_SCRATCH)
        if (!(error = scratch_ready(queue, plan->scratch_bytes)))
            error = set_memory(kernel, &i, queue->scratch);
    if (!error && plan->flags & TN_PLAN_FAULTS)
        if (!(error =
                  tn__faults_ready(&tn__opencl_faults, queue, &queue->pending)))
            error = set_memory(kernel, &i, queue->faults);
    return error ? error : set_words(queue, kernel, &i, plan, words);
}

/* ---- a step -------------------------------------------------------------- */

static tn_status run(tn_queue *queue, const tn_target *target,
                     const tn_program *program, tn_plan *plan)
{
    tn_plugin_device *device = queue->device;
    const size_t local = plan->group_size;
    const size_t global = (size_t)plan->group_count * local;
    const char *what = "clSetKernelArg";
    cl_mem words = NULL;
    tn_status status = TN_OK;
    tn_opencl_signals signals;
    pthread_mutex_lock(&device->lock);
    cl_kernel kernel = kernel_find(device, plan->key);
    bool is_new = !kernel; /* for a new kernel, signal handlers are saved here
                              and restored after the launch, because some
                              drivers compile at the first launch */
    if (is_new) {
        tn__opencl_signals_save(&signals);
        status = kernel_make(device, target, program, plan);
        kernel = status ? NULL : kernel_find(device, plan->key);
    }
    cl_int error = CL_SUCCESS;
    if (kernel)
        error = set_arguments(queue, kernel, plan, &words);
    if (kernel && !error) {
        what = "clEnqueueNDRangeKernel";
        error = cl.EnqueueNDRangeKernel(queue->queue, kernel, 1, NULL, &global,
                                        &local, 0, NULL, NULL);
    }
    if (is_new)
        tn__opencl_signals_restore(&signals);
    pthread_mutex_unlock(&device->lock);
    if (words)
        cl.ReleaseMemObject(words);
    return error ? tn__opencl_fail(device, what, error) : status;
}

static tn_status run_steps(tn_queue *queue, const tn_target *target,
                           tn_plan_next *next, const tn_program *program,
                           const void *args, uint64_t tag)
{
    tn_status status = tn__run_steps(queue, target, next, program, args, run);
    return status ? status : tn__opencl_queue_submitted(queue, tag);
}

/* ---- the five primitives ------------------------------------------------- */

/* Builds a program. Its kernels depend on the launches, for example on whether
 * operands are contiguous, so nothing can be compiled yet. */
tn_status tn__opencl_program_build(tn_plugin_device *device,
                                   const tn_program *program, tn_built **out)
{
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (program->ins[i].dtype == TN_F64 &&
            !(device->targets[0].flags & TN_TARGET_F64))
            return tn__host->fail(TN_ERR_UNSUPPORTED,
                                  "%s has no double precision",
                                  device->listed->info.name);
    tn_built *built = malloc(sizeof *built);
    if (!built)
        return tn__host->fail(TN_ERR_MEMORY,
                              "out of host memory for a program");
    built->program = program;
    *out = built;
    return TN_OK;
}

void tn__opencl_program_free(tn_plugin_device *device, tn_built *built)
{
    (void)device; /* kernels are not freed: equal programs reuse them */
    free(built);
}

tn_status tn__opencl_launch_for(tn_queue *queue, const tn_target *target,
                                tn_built *built, const tn_launch *launch)
{
    return run_steps(queue, target, tn__next_program, built->program, launch,
                     launch->tag);
}

tn_status tn__opencl_matmul_own(tn_queue *queue, const tn_matmul_args *args)
{
    return run_steps(queue, queue->device->targets, tn__next_matmul, NULL, args,
                     args->tag);
}

#define PRIMITIVE(function, next, arguments)                                  \
    tn_status function(tn_queue *queue, const arguments *args)                \
    {                                                                         \
        return run_steps(queue, queue->device->targets, next, NULL, args,     \
                         args->tag);                                          \
    }
PRIMITIVE(tn__opencl_scatter, tn__next_scatter, tn_scatter_args)
PRIMITIVE(tn__opencl_scan, tn__next_scan, tn_scan_args)
PRIMITIVE(tn__opencl_sort, tn__next_sort, tn_sort_args)
/* The core runs these extensions in the same way as primitives. */
PRIMITIVE(tn__opencl_conv, tn__next_conv, tn_conv_args)
PRIMITIVE(tn__opencl_quantised_product, tn__next_quantised,
          tn_quantised_product_args)

/* ---- a launch over the result of other work -------------------------------- */

static const tn_epilogue_calls calls = {
    .matmul = tn__opencl_matmul, .conv = tn__opencl_conv,
    .quantised_product = tn__opencl_quantised_product,
    .launch = tn__opencl_launch};

tn_status tn__opencl_epilogue_takes(tn_plugin_device *device, uint32_t kind)
{
    (void)device;
    return tn__epilogue_takes(&calls, kind);
}

tn_status tn__opencl_epilogue(tn_queue *queue, const tn_epilogue_args *args)
{
    return tn__epilogue_run(queue, args, &calls);
}
