/* cuda_launch.c: launches Tenon's own kernels.
 *
 * A piece of work consists of one or several steps. The core plans each step:
 * which kernel runs, with how many thread blocks and which arguments (plugin.h,
 * "Programs and primitives as source"). run_steps executes the plan of each
 * step, for programs as well as for primitives and extensions. */
#include "cuda.h"

/* ---- a step -------------------------------------------------------------- */

static tn_status run(tn_queue *queue, const tn_target *target,
                     const tn_program *program, tn_plan *plan)
{
    (void)target; /* `target` is always &device->target */
    tn_plugin_device *device = queue->device;
    void *parameters[TN_PLAN_BUFFERS + 3];
    tn_cu_pointer nothing = 0, words = 0;
    tn_cu_function function;
    const char *what = "memory for a launch";
    size_t count = 0;
    tn_cu_result error = 0;
    tn_status status = tn__cuda_kernel(device, program, plan, &function);
    if (status)
        return status;
    for (uint32_t b = 0; b < plan->buffer_count; b++)
        parameters[count++] =
            plan->buffer[b] ? &plan->buffer[b]->pointer : &nothing;
    if (plan->flags & TN_PLAN_SCRATCH) {
        error = tn__cuda_scratch_ready(queue, plan->scratch_bytes);
        parameters[count++] = &queue->scratch;
    }
    if (!error && plan->flags & TN_PLAN_FAULTS) {
        error = tn__cuda_faults_ready(queue);
        parameters[count++] = &queue->faults;
    }
    if (!error && plan->flags & TN_PLAN_WORDS_IN_BUFFER) {
        error = tn__cuda_words_ready(queue, plan, &words);
        parameters[count++] = &words;
    } else {
        parameters[count++] = plan->argument;
    }
    if (!error) {
        what = "cuLaunchKernel";
        error = tn__cu.launch(function, (unsigned)plan->group_count, 1, 1,
                              plan->group_size, 1, 1, 0, queue->stream,
                              parameters, NULL);
    }
    return tn__cuda_check(device, what, error);
}

static tn_status run_steps(tn_queue *queue, tn_plan_next *next,
                           const tn_program *program, const void *args,
                           uint64_t tag)
{
    TN_CUDA_ENTER(queue->device);
    tn_status status =
        tn__cuda_check(queue->device, "cuCtxSetCurrent", entered.error);
    if (!status)
        status = tn__run_steps(queue, &queue->device->target, next, program,
                               args, run);
    return status ? status : tn__cuda_queue_submitted(queue, tag);
}

/* ---- the five primitives ------------------------------------------------- */

/* Builds a program. Its kernels depend on the launches, for example on whether
 * operands are contiguous, so nothing can be compiled yet. Returns the program
 * itself as the built form. This is possible because the core frees the built
 * form before the program. */
tn_status tn__cuda_program_build(tn_plugin_device *device,
                                 const tn_program *program, tn_built **out)
{
    (void)device;
    *out = (tn_built *)(uintptr_t)program;
    return TN_OK;
}

void tn__cuda_program_free(tn_plugin_device *device, tn_built *built)
{
    (void)device; /* nothing is freed: equal programs reuse the kernels */
    (void)built;
}

tn_status tn__cuda_launch(tn_queue *queue, tn_built *built,
                          const tn_launch *launch)
{
    return run_steps(queue, tn__next_program, (const tn_program *)built, launch,
                     launch->tag);
}

#define PRIMITIVE(function, next, arguments)                                  \
    tn_status function(tn_queue *queue, const arguments *args)                \
    {                                                                         \
        return run_steps(queue, next, NULL, args, args->tag);                 \
    }
PRIMITIVE(tn__cuda_scatter, tn__next_scatter, tn_scatter_args)
PRIMITIVE(tn__cuda_scan, tn__next_scan, tn_scan_args)
PRIMITIVE(tn__cuda_sort, tn__next_sort, tn_sort_args)

/* ---- attention, convolutions --------------------------------------------- */

tn_status tn__cuda_attention_own(tn_queue *queue,
                                 const tn_attention_args *args)
{
    return run_steps(queue, tn__next_attention, NULL, args, args->tag);
}

tn_status tn__cuda_conv_own(tn_queue *queue, const tn_conv_args *args)
{
    return run_steps(queue, tn__next_conv, NULL, args, args->tag);
}

/* ---- products with weights in blocks ------------------------------------- */

static tn_status quantised_takes(tn_plugin_device *device, uint32_t format)
{
    return tn__quantised_takes(&device->target, format);
}

static tn_status quantised_run(tn_queue *queue,
                               const tn_quantised_product_args *args)
{
    return run_steps(queue, tn__next_quantised, NULL, args, args->tag);
}

const tn_quantised_product_extension tn__cuda_quantised = {
    .size = sizeof tn__cuda_quantised,
    .takes = quantised_takes,
    .run = quantised_run};

/* ---- matrix products ----------------------------------------------------- */

tn_status tn__cuda_matmul(tn_queue *queue, const tn_matmul_args *args)
{
    tn_status status = tn__cuda_product(queue, args);
    return status == TN_ERR_UNSUPPORTED
               ? run_steps(queue, tn__next_matmul, NULL, args, args->tag)
               : status;
}

/* ---- a launch over the result of other work -------------------------------- */

static tn_epilogue_calls calls(void)
{
    return (tn_epilogue_calls){
        .matmul = tn__cuda_matmul, .conv = tn__cuda_conv.run,
        .product = tn__cuda_product_extension.run,
        .attention = tn__cuda_attention.run,
        .quantised_product = tn__cuda_quantised.run,
        .launch = tn__cuda_launch};
}

static tn_status epilogue_takes(tn_plugin_device *device, uint32_t kind)
{
    const tn_epilogue_calls own = calls();
    (void)device;
    return tn__epilogue_takes(&own, kind);
}

static tn_status epilogue_run(tn_queue *queue, const tn_epilogue_args *args)
{
    const tn_epilogue_calls own = calls();
    return tn__epilogue_run(queue, args, &own);
}

const tn_epilogue_extension tn__cuda_epilogue = {
    .size = sizeof tn__cuda_epilogue,
    .takes = epilogue_takes,
    .run = epilogue_run};
