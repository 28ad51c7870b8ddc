/* cpu_pool_windows.c: finds the windows of which a given element is within the
 * image, and decides whether windows are wide. */
#include "cpu_pool.h"

bool tn__cpu_pool_windows_inside(const tn_pool_args *args, int a, int64_t k,
                                 int64_t low, int64_t high, window_range *r)
{
    int64_t step = args->stride[a];
    r->at = k * args->dilation[a] - args->pad[a];
    int64_t begin = r->at < 0 ? (-r->at + step - 1) / step : 0;
    int64_t room = args->in_size[a] - 1 - r->at;
    int64_t last = room < 0 ? -1 : room / step;
    r->first = pool_max_i64(low, begin);
    r->end = tn__cpu_min(high, last + 1);
    return r->first < r->end;
}

bool tn__cpu_pool_has_wide_windows(const pooling *p)
{
    const tn_pool_args *args = p->args;
    const int64_t *kernel = args->kernel, *windows = args->out_size;
    return p->type == CPU_F32 && kernel[1] >= TN_CPU_WIDE &&
           args->stride[1] == kernel[1] &&
           windows[1] * kernel[1] >= TN_CPU_WIDE_LEAST &&
           args->dilation[0] == 1 && args->dilation[1] == 1 &&
           args->pad[0] == 0 && args->pad[1] == 0 &&
           windows[1] * kernel[1] <= args->in_size[1] &&
           (windows[0] - 1) * args->stride[0] + kernel[0] <=
               args->in_size[0];
}
