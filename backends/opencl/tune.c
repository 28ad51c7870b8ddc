/* tune.c: chooses how many work-items a work-group has and how many work-groups
 * run on a compute unit, for programs on devices other than CPUs.
 *
 * The best choice differs between devices and changes the time by 10 to 20 %.
 * Therefore a few variants are measured with the first large launch over
 * elements, and again with the first large launch over rows. All later launches
 * of that kind use the fastest variant. Results do not depend on the variant.
 * Only a launch that can be repeated is measured: it must not overwrite its
 * operands, and must have no index that could be out of range. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

/* Each variant has a number of work-items in a work-group, and a factor by
 * which the number of work-groups is multiplied. The first variant is the
 * default. */
static const struct {
    uint32_t items, times;
} variants[TN_OPENCL_VARIANTS] = {{256, 1}, {128, 2}, {64, 4}, {256, 4}};

/* Minimum number of elements of a launch that is measured. Such a launch takes
 * longer than its submission. */
enum { LARGE = 1 << 20 };
enum { ROUNDS = 3 };
/* A variant replaces the best variant so far only if its time is less than this
 * fraction of the best time, so that noise does not decide. */
static const double BETTER = 0.95;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tn__opencl_tune_init(tn_plugin_device *device)
{
    const char *option = tn__host->option("tune");
    const tn_target plain = device->targets[0];
    const bool chunked = plain.flags & TN_TARGET_CHUNKED;
    for (int w = 0; w < TN_OPENCL_VARIANTS && !chunked; w++) {
        tn_target *target = &device->targets[w];
        *target = plain;
        if (target->group_limit > variants[w].items)
            target->group_limit = variants[w].items;
        target->units *= variants[w].times;
    }
    const int fixed = option ? atoi(option) : chunked ? 0 : -1;
    const bool known = fixed >= 0 && fixed < TN_OPENCL_VARIANTS && !chunked;
    for (int kind = 0; kind < TN_OPENCL_KINDS; kind++)
        atomic_init(&device->variant[kind], (uint8_t)(known     ? 1 + fixed
                                                      : chunked ? 1
                                                                : 0));
}

static bool is_repeatable(const tn_program *program, const tn_launch *launch)
{
    for (uint32_t w = 0; w < program->operand_count; w++) {
        if (program->operand[w].index_count)
            return false;
        for (uint32_t r = 0; r < program->operand_count; r++)
            if (program->operand[w].access == TN_OPERAND_WRITE &&
                program->operand[r].access == TN_OPERAND_READ &&
                launch->operand[w].buffer == launch->operand[r].buffer)
                return false;
    }
    return true;
}

static bool is_large(const tn_launch *launch)
{
    int64_t count = 1;
    for (uint32_t d = 0; d < launch->outer_ndim + launch->row_ndim; d++)
        count *= launch->extent[d];
    return count >= LARGE;
}

typedef struct repeat {
    tn_built *built;
    const tn_launch *launch;
} repeat;

static tn_status work(tn_queue *queue, void *context, uint8_t variant)
{
    const repeat *r = context;
    return tn__opencl_launch_for(queue, &queue->device->targets[variant - 1],
                                 r->built, r->launch);
}

/* Measures all variants and returns 1 + the index of the fastest. */
static uint8_t measure(tn_queue *queue, repeat *r, tn_status *status)
{
    double least[TN_OPENCL_VARIANTS];
    uint8_t best = 1;
    for (uint8_t variant = 1; variant <= TN_OPENCL_VARIANTS && !*status;
         variant++)
        for (int round = -1; round < ROUNDS && !*status; round++) {
            double time = tn__opencl_time(queue, work, r, variant, status);
            /* In round -1 the kernel is compiled. Therefore the time of round 0
             * replaces the time of round -1. */
            if (round <= 0 || time < least[variant - 1])
                least[variant - 1] = time;
        }
    for (uint8_t variant = 2; variant <= TN_OPENCL_VARIANTS && !*status;
         variant++)
        if (least[variant - 1] < least[best - 1] * BETTER)
            best = variant;
    if (!*status)
        tn__host->log(3,
                      "opencl: measured launches of %s: groups of %u "
                      "in %.3f ms, of %u in %.3f ms",
                      r->launch->row_ndim ? "rows" : "elements",
                      variants[0].items, 1e3 * least[0],
                      variants[best - 1].items, 1e3 * least[best - 1]);
    return best;
}

/* Returns 1 + the index of the variant for this kind of launch. Reads it from
 * the disk cache, or measures it if the cache does not have it. If measuring
 * fails, sets *status. */
static uint8_t choice_find(tn_queue *queue, repeat *r, int kind,
                           tn_status *status)
{
    const tn_plugin_device *device = queue->device;
    const char *what = kind ? "ways 1, rows" : "ways 1, elements";
    uint8_t variant = tn__opencl_choice_load(device, what, TN_OPENCL_VARIANTS);
    if (!variant) {
        variant = measure(queue, r, status);
        if (!*status)
            tn__opencl_choice_store(device, what, variant);
    }
    return variant;
}

static tn_status tune(tn_queue *queue, const tn_program *program,
                      tn_built *built, const tn_launch *launch,
                      const tn_target **out)
{
    const int kind = launch->row_ndim > 0;
    tn_status status = TN_OK;
    _Atomic uint8_t *known = &queue->device->variant[kind];
    uint8_t variant = atomic_load_explicit(known, memory_order_relaxed);
    if (!variant && is_large(launch) && is_repeatable(program, launch)) {
        repeat r = {built, launch};
        pthread_mutex_lock(&lock);
        variant = atomic_load_explicit(known, memory_order_relaxed);
        if (!variant)
            variant = choice_find(queue, &r, kind, &status);
        if (!status)
            atomic_store_explicit(known, variant, memory_order_relaxed);
        pthread_mutex_unlock(&lock);
    }
    *out = &queue->device->targets[variant && !status ? variant - 1 : 0];
    return status;
}

tn_status tn__opencl_launch(tn_queue *queue, tn_built *built,
                            const tn_launch *launch)
{
    const tn_target *target;
    tn_status status = tune(queue, built->program, built, launch, &target);
    return status ? status
                  : tn__opencl_launch_for(queue, target, built, launch);
}
