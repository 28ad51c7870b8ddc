/* routines_conv.c: the loops of convolution (cpu_conv.c). The main loop is the
 * tile of a matrix product whose left operand is not a matrix in memory: a
 * table of offsets says where its elements are. The lanes of a vector are
 * channels or pixels. Other loops copy the operands to the layout that it
 * needs. */
#include <stdbool.h>
#include <string.h>

#include "routines.h"
#include "vector_ops.h"

#define T float
#define VEC vec_f32
#define LOOSE loose_f32
#define BITS vec_i32
#define MADD TN_CPU_FMA_F32
#define SUM TN_CPU_SUM_F32
#define NAME(x) x##_f32
#ifdef TN_CPU_PLAIN
#define WITH_ROWS NULL, 0, NULL
#else
#define BY_ROWS
#define WITH_ROWS filter_rows_f32, min_columns_f32, correlate_rows_f32
#endif
#if defined(BY_ROWS) && defined(TN_CPU_EVENS)
#define BY_PLANES
#define WITH_PLANES filter_plane_f32, correlate_plane_f32
#if TN_CPU_VECTOR == 64
#define SHIFT_1(a, b)                                                         \
    __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,  \
                            14, 15, 16)
#define SHIFT_2(a, b)                                                         \
    __builtin_shufflevector(a, b, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, \
                            15, 16, 17)
#elif TN_CPU_VECTOR == 32
#define SHIFT_1(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4, 5, 6, 7, 8)
#define SHIFT_2(a, b) __builtin_shufflevector(a, b, 2, 3, 4, 5, 6, 7, 8, 9)
#else
#define SHIFT_1(a, b) __builtin_shufflevector(a, b, 1, 2, 3, 4)
#define SHIFT_2(a, b) __builtin_shufflevector(a, b, 2, 3, 4, 5)
#endif
#else
#define WITH_PLANES NULL, NULL
#endif
#include "conv_loops.inc"
#undef BY_ROWS
#undef BY_PLANES
#undef T
#undef VEC
#undef LOOSE
#undef BITS
#undef MADD
#undef SUM
#undef NAME

#define T double
#define VEC vec_f64
#define LOOSE loose_f64
#define BITS vec_i64
#define MADD TN_CPU_FMA_F64
#define SUM TN_CPU_SUM_F64
#define NAME(x) x##_f64
#include "conv_loops.inc"

void TN_CPU_NAME(tn__cpu_conv)(tn_cpu_routines *table)
{
    static const tn_cpu_conv_routines f32 = {
        lanes_f32,           strip_f32,   tiles_f32,
        WITH_ROWS,           WITH_PLANES, filter_strip_f32,
        correlate_strip_f32, gather_f32,  add_to_f32};
    static const tn_cpu_conv_routines f64 = {lanes_f64,
                                             strip_f64,
                                             tiles_f64,
                                             NULL,
                                             0,
                                             NULL,
                                             NULL,
                                             NULL,
                                             filter_strip_f64,
                                             correlate_strip_f64,
                                             gather_f64,
                                             add_to_f64};
    table->conv[CPU_F32] = &f32;
    table->conv[CPU_F64] = &f64;
}
