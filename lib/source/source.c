/* source.c: prints the kernel source of programs and primitives, and fills the
 * entries of the host table (the functions that the core offers to plugins)
 * that plan and print. These functions check the sizes of the plugin's
 * structs. */
#include <base/error.h>
#include <base/fpu.h>
#include <base/memory.h>
#include <base/platform.h>
#include <source/program/printer.h>

tn_status tn__print(const tn_target *target, const tn_program *program,
                    const tn_plan *plan, tn_source *source)
{
    /* Constants in the kernel source are rounded in the standard floating-point
     * state, whatever the calling thread has set, because the source is cached
     * for all threads. */
    tn__fpu_state before = tn__fpu_set();
    tn_status status = program
                           ? tn__print_program(target, program, plan, source)
                           : tn__print_primitive(target, plan, source);
    tn__fpu_restore(before);
    return status;
}

void tn__print_free(tn_source *source)
{
    tn__free((char *)source->text);
    source->text = NULL;
}

/* ---- the host table ---------------------------------------------------- */

/* Checks that the field `size` of a plugin's struct is at least the size of the
 * struct in version 1.0. A plugin that has not set it must fail, because the
 * library could not tell which fields the plugin's struct has. */
static tn_status check(const char *call, const char *type, uint32_t size,
                       uint32_t least)
{
    if (TN__LIKELY(size >= least))
        return TN_OK;
    return tn__fail(TN_ERR_ARGUMENT,
                    "%s: %s.size is %u; expected at least %u; set it to "
                    "sizeof(%s)",
                    call, type, size, least, type);
}

static tn_status check_plan(const char *call, const tn_target *target,
                            const tn_plan *plan)
{
    tn_status status =
        check(call, "tn_target", target->size, TN_TARGET_SIZE_1_0);
    return status ? status
                  : check(call, "tn_plan", plan->size, TN_PLAN_SIZE_1_0);
}

static tn_status plan_program(const tn_target *target,
                              const tn_program *program,
                              const tn_launch *launch, tn_plan *plan)
{
    static const char call[] = "plan_program";
    tn_status status = check_plan(call, target, plan);
    if (!status)
        status = check(call, "tn_program", program->size, TN_PROGRAM_SIZE_1_0);
    if (!status)
        status = check(call, "tn_launch", launch->size, TN_LAUNCH_SIZE_1_0);
    return status ? status : tn__plan_program(target, program, launch, plan);
}

/* Records an error if the arguments have a kind or flag that this version does
 * not support. */
static tn_status check_known(const char *call, int is_known)
{
    return is_known ? TN_OK
                    : tn__fail(TN_ERR_UNSUPPORTED,
                               "%s: a kind or a flag is unknown to this "
                               "version of Tenon",
                               call);
}
/* tn_matmul_args has no kinds or flags, so it is always known. */
#define tn_matmul_is_known(args) true

#define PLAN(function, planner, name, NAME)                                   \
    static tn_status function(const tn_target *target,                        \
                              const tn_##name##_args *args, tn_plan *plan)    \
    {                                                                         \
        static const char call[] = #function;                                 \
        tn_status status = check_plan(call, target, plan);                    \
        if (!status)                                                          \
            status = check(call, "tn_" #name "_args", args->size,             \
                           TN_##NAME##_ARGS_SIZE_1_0);                        \
        if (!status)                                                          \
            status = check_known(call, tn_##name##_is_known(args));           \
        return status ? status : planner(target, args, plan);                 \
    }
PLAN(plan_matmul, tn__plan_matmul, matmul, MATMUL)
PLAN(plan_scatter, tn__plan_scatter, scatter, SCATTER)
PLAN(plan_scan, tn__plan_scan, scan, SCAN)
PLAN(plan_sort, tn__plan_sort, sort, SORT)
PLAN(plan_attention, tn__plan_attention, attention, ATTENTION)
PLAN(plan_conv, tn__plan_conv, conv, CONV)

static tn_status print(const tn_target *target, const tn_program *program,
                       const tn_plan *plan, tn_source *source)
{
    static const char call[] = "print";
    tn_status status = check_plan(call, target, plan);
    if (!status)
        status = check(call, "tn_source", source->size, TN_SOURCE_SIZE_1_0);
    return status ? status : tn__print(target, program, plan, source);
}

static tn_status print_text(const tn_target *target, const tn_plan *plan,
                            const char *kernel, const char *text,
                            tn_source *source)
{
    static const char call[] = "print_text";
    tn_status status = check_plan(call, target, plan);
    if (!status)
        status = check(call, "tn_source", source->size, TN_SOURCE_SIZE_1_0);
    if (status)
        return status;
    tn__text all = {.data = NULL};
    const bool in_buffer = plan->flags & TN_PLAN_WORDS_IN_BUFFER;
    tn__source_head(&all, target, false, in_buffer, plan->argument_bytes / 8);
    tn__text_add(&all, "#define TK_WORDS %s\n%s",
                 tn__source_parameters(target, in_buffer), text);
    source->kernel = tn__source_entry(&all, target, plan, in_buffer, kernel);
    source->text_bytes = all.length;
    source->text = tn__text_finish(&all);
    return source->text ? TN_OK : TN_ERR_MEMORY;
}

const tn_host tn__source_host = {
    .size = sizeof tn__source_host,
    .plan_program = plan_program,
    .plan_matmul = plan_matmul,
    .plan_scatter = plan_scatter,
    .plan_scan = plan_scan,
    .plan_sort = plan_sort,
    .print = print,
    .print_free = tn__print_free,
    .fault_read = tn__fault_read,
    .plan_attention = plan_attention,
    .plan_conv = plan_conv,
    .print_text = print_text,
};
