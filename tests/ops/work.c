/* work.c: counts work by wrapping a plugin's functions; see work.h. */
#include "work.h"

#include <device/device.h>
#include <math.h>

static double work;

enum { MOST_DEVICES = 2, TERMS = 16 };
static struct watched {
    const tn_plugin *plugin;
    const tn_conv_extension *conv;
    const tn_pool_extension *pool;
    tn_plugin counting;
    tn_conv_extension counting_conv;
    tn_pool_extension counting_pool;
} watched[MOST_DEVICES];

static double points(const int64_t *extent, uint32_t count)
{
    double all = 1;
    for (uint32_t d = 0; d < count; d++)
        all *= (double)extent[d];
    return all;
}

/* Each device needs its own wrappers, because a queue does not name its
 * device. */
#define COUNTING(i)                                                           \
    static tn_status launch_##i(tn_queue *queue, tn_built *built,             \
                                const tn_launch *launch)                      \
    {                                                                         \
        work += points(launch->extent, launch->outer_ndim + launch->row_ndim); \
        return watched[i].plugin->launch(queue, built, launch);               \
    }                                                                         \
    static tn_status matmul_##i(tn_queue *queue, const tn_matmul_args *args)  \
    {                                                                         \
        work += points(args->batch, args->batch_ndim) * (double)args->m *     \
                (double)args->n * (1 + (double)args->k / TERMS);              \
        return watched[i].plugin->matmul(queue, args);                        \
    }                                                                         \
    static tn_status scatter_##i(tn_queue *queue,                             \
                                 const tn_scatter_args *args)                 \
    {                                                                         \
        work += points(args->extent, args->ndim);                             \
        return watched[i].plugin->scatter(queue, args);                       \
    }                                                                         \
    static tn_status scan_##i(tn_queue *queue, const tn_scan_args *args)      \
    {                                                                         \
        work += points(args->extent, args->ndim);                             \
        return watched[i].plugin->scan(queue, args);                          \
    }                                                                         \
    static tn_status sort_##i(tn_queue *queue, const tn_sort_args *args)      \
    {                                                                         \
        double row = args->ndim ? (double)args->extent[args->ndim - 1] : 1;   \
        work += points(args->extent, args->ndim) * (1 + log2(row + 1));       \
        return watched[i].plugin->sort(queue, args);                          \
    }                                                                         \
    static tn_status copy_##i(tn_queue *queue, const tn_copy_args *args)      \
    {                                                                         \
        work += (double)args->bytes * (double)args->rows / 4;                 \
        return watched[i].plugin->copy(queue, args);                          \
    }                                                                         \
    static tn_status conv_##i(tn_queue *queue, const tn_conv_args *args)      \
    {                                                                         \
        work += (double)args->count * (double)args->out_channels *            \
                points(args->out_size, 2) *                                   \
                (1 + (double)(args->in_channels / args->groups) *             \
                         points(args->kernel, 2) / TERMS);                    \
        return watched[i].conv->run(queue, args);                             \
    }                                                                         \
    static tn_status pool_##i(tn_queue *queue, const tn_pool_args *args)      \
    {                                                                         \
        work += (double)args->count * (double)args->channels *                \
                (points(args->in_size, 2) +                                   \
                 points(args->out_size, 2) * points(args->kernel, 2));        \
        return watched[i].pool->run(queue, args);                             \
    }
COUNTING(0)
COUNTING(1)

static const struct functions {
    tn_status (*launch)(tn_queue *, tn_built *, const tn_launch *);
    tn_status (*matmul)(tn_queue *, const tn_matmul_args *);
    tn_status (*scatter)(tn_queue *, const tn_scatter_args *);
    tn_status (*scan)(tn_queue *, const tn_scan_args *);
    tn_status (*sort)(tn_queue *, const tn_sort_args *);
    tn_status (*copy)(tn_queue *, const tn_copy_args *);
    tn_status (*conv)(tn_queue *, const tn_conv_args *);
    tn_status (*pool)(tn_queue *, const tn_pool_args *);
} functions[MOST_DEVICES] = {
    {launch_0, matmul_0, scatter_0, scan_0, sort_0, copy_0, conv_0, pool_0},
    {launch_1, matmul_1, scatter_1, scan_1, sort_1, copy_1, conv_1, pool_1},
};

void work_watch(tn_device *device)
{
    static int count;
    struct watched *w = &watched[count];
    const struct functions *f = &functions[count++];
    w->plugin = device->plugin;
    w->counting = *device->plugin;
    w->counting.launch = f->launch;
    w->counting.matmul = f->matmul;
    w->counting.scatter = f->scatter;
    w->counting.scan = f->scan;
    w->counting.sort = f->sort;
    w->counting.copy = f->copy;
    device->plugin = &w->counting;
    w->conv = atomic_load(&device->conv);
    if (w->conv) {
        w->counting_conv = *w->conv;
        w->counting_conv.run = f->conv;
        atomic_store(&device->conv, &w->counting_conv);
    }
    w->pool = atomic_load(&device->pool);
    if (w->pool) {
        w->counting_pool = *w->pool;
        w->counting_pool.run = f->pool;
        atomic_store(&device->pool, &w->counting_pool);
    }
}

double work_take(void)
{
    double done = work;
    work = 0;
    return done;
}
