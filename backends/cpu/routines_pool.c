/* routines_pool.c: the loops of pooling (pool.c): one element of all windows of
 * a plane at a time. */
#include <string.h>

#include "routines.h"
#include "vector.h"

#define T float
#define BITS int32_t
#define VEC vec_f32
#define LOOSE loose_f32
#define EVENS TN_CPU_EVENS_F32
#define HALF half_f32
#define HALF_EVENS TN_CPU_HALF_EVENS_F32
#define NAME(x) x##_f32
#include "pool_loops.inc"
#undef T
#undef BITS
#undef VEC
#undef LOOSE
#undef EVENS
#undef HALF
#undef HALF_EVENS
#undef NAME

#define T double
#define BITS int64_t
#define VEC vec_f64
#define LOOSE loose_f64
#define EVENS TN_CPU_EVENS_F64
#define HALF half_f64
#define HALF_EVENS TN_CPU_HALF_EVENS_F64
#define NAME(x) x##_f64
#include "pool_loops.inc"

void TN_CPU_NAME(tn__cpu_pool)(tn_cpu_routines *table)
{
    static const tn_cpu_pool_routines f32 = {pool_greater_f32, pool_copy_f32,
                                             pool_divide_f32,
                                             pool_mean_f32, pool_share_f32,
                                             pool_scatter_f32};
    static const tn_cpu_pool_routines f64 = {pool_greater_f64, pool_copy_f64,
                                             pool_divide_f64,
                                             pool_mean_f64, pool_share_f64,
                                             pool_scatter_f64};
    table->pool[CPU_F32] = &f32;
    table->pool[CPU_F64] = &f64;
}
