/* cpu_pool.c: the extension `pool`: max_pool2d, avg_pool2d and their gradients.
 *
 * A plane (one channel of one image) is computed a band of rows at a time.
 * Within a band, the outer loops go over the elements of the window and the
 * inner loops over all windows. The windows that have a given element within
 * the image form a rectangle, so the inner loops need no test. The elements of
 * a window are summed in the fixed order of a reduction (plugin_program.h), so
 * results are bit-identical to those of the primitives. */
#include <stdlib.h>

#include "../cpu_device.h"
#include "cpu_pool.h"

enum {
    /* number of elements that one task reads: about 10 us of work */
    TASK_WORK = 65536,
    /* Maximum number of elements of a window for means: a window must be one
     * chunk in the order of summation of plugin_program.h. */
    MAX_AREA = 1024,
};

static void run_task(void *context, int64_t i)
{
    static bool (*const of[])(const pooling *, int64_t) = {
        tn__cpu_pool_max, tn__cpu_pool_max_backward, tn__cpu_pool_mean,
        tn__cpu_pool_mean_backward, tn__cpu_pool_max_only};
    pooling *p = context;
    int64_t end = tn__cpu_min((i + 1) * p->planes_per_task, p->planes);
    unsigned fpu = tn__cpu_fpu_set();
    int64_t plane = i * p->planes_per_task;
    if (p->args->kind == TN_POOL_AVG &&
        tn__cpu_pool_mean_planes(p, plane, end))
        plane = end;
    for (; plane < end; plane++)
        if (!of[p->args->kind](p, plane))
            atomic_store(&p->failed, 1);
    tn__cpu_fpu_restore(fpu);
}

/* The divisor of a window is the product of two factors, one for each axis.
 * Stores the factors of axis a: the number of the window's elements along this
 * axis within the image, or within image and padding if count_pad. If the
 * caller gives a divisor, axis 0 has that divisor and axis 1 has 1. */
static void count_elements(const tn_pool_args *args, int a, int64_t *count)
{
    int64_t pad = args->pad[a], low = args->count_pad ? -pad : 0;
    int64_t high = args->in_size[a] + (args->count_pad ? pad : 0);
    for (int64_t i = 0; i < args->out_size[a]; i++) {
        int64_t start = i * args->stride[a] - pad;
        int64_t end = tn__cpu_min(start + args->kernel[a], high);
        count[i] = args->divisor ? (a == 0 ? args->divisor : 1)
                                 : end - pool_max_i64(start, low);
    }
}

static tn_status declined(const char *why)
{
    return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "pool: %s", why);
}

static tn_status run(tn_queue *queue, const tn_pool_args *args)
{
    bool back =
        args->kind == TN_POOL_MAX_BACK || args->kind == TN_POOL_AVG_BACK;
    bool indexed = args->kind == TN_POOL_MAX || args->kind == TN_POOL_MAX_BACK;
    bool max = indexed || args->kind == TN_POOL_GREATEST;
    int64_t area = args->kernel[0] * args->kernel[1];
    if (!tn_pool_is_known(args))
        return tn__cpu_unknown("pool");
    if (args->in.dtype != TN_F32 && args->in.dtype != TN_F64)
        return declined("the dtype must be float32 or float64");
    if (!max && area > MAX_AREA)
        return declined("means of more than 1024 elements are not supported");
    if (args->in_size[0] * args->in_size[1] > INT32_MAX)
        return declined("planes of 2^31 elements are not supported");
    if (args->in.stride[3] != 1 ||
        !pool_is_contiguous(&args->out, args->out_size) ||
        (back && !pool_is_contiguous(&args->in, args->in_size)) ||
        (indexed && !pool_is_contiguous(&args->index, args->out_size)))
        return declined("rows must be contiguous");
    unsigned type = args->in.dtype == TN_F32 ? CPU_F32 : CPU_F64;
    atomic_int outside = 0;
    pooling p = {.args = args, .routines = queue->routines->pool[type],
                 .outside = &outside,
                 .more = queue->routines->conv[type],
                 .all = queue->routines,
                 .bytes = type == CPU_F32 ? 4 : 8,
                 .type = type,
                 .planes = args->count * args->channels};
    static const float lowest_f32 = -__builtin_inff();
    static const double lowest_f64 = -__builtin_inf();
    p.lowest = type == CPU_F32 ? (const void *)&lowest_f32 : &lowest_f64;
    int64_t rows = args->out_size[0], columns = args->out_size[1];
    p.band = tn__cpu_min(
        pool_max_i64(
            POOL_BAND / (max ? 1 : tn__cpu_pool_lane_count(args)) / columns, 1),
        rows);
    int64_t work = pool_max_i64(args->in_size[0] * args->in_size[1],
                                rows * columns * area);
    p.planes_per_task = TASK_WORK / work + 1;
    size_t table = 0;
    if (args->kind == TN_POOL_MAX)
        table = (size_t)((p.band + 1) * columns) * sizeof *p.place;
    else if (!max)
        table = (size_t)(rows + columns) * sizeof *p.count[0];
    void *owned = table > 0 ? malloc(table) : NULL;
    if (table > 0 && !owned)
        return tn__cpu_host->fail(TN_ERR_MEMORY, "pool: out of memory");
    if (args->kind == TN_POOL_MAX) {
        p.place = owned;
        p.first = p.place + p.band * columns;
        tn__cpu_pool_find_places(&p);
    } else if (!max) {
        p.count[0] = owned;
        p.count[1] = p.count[0] + rows;
        for (int a = 0; a < 2; a++)
            count_elements(args, a, p.count[a]);
    }
    int64_t tasks = (p.planes + p.planes_per_task - 1) / p.planes_per_task;
    if (tasks == 1)
        run_task(&p, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_task, &p);
    free(owned);
    /* If this extension declines, the core uses its primitives, which report
     * the index. */
    if (atomic_load(&outside))
        return declined("an index is outside its plane");
    return atomic_load(&p.failed)
               ? tn__cpu_host->fail(TN_ERR_MEMORY, "pool: out of memory")
               : TN_OK;
}

const tn_pool_extension tn__cpu_pool_extension = {
    .size = sizeof(tn_pool_extension), .run = run};
