/* routines_conv.c: the loops of convolution (cpu_conv.c): tiles of a product whose
 * left side is read through offsets, by channels or by pixels, and what lays its
 * operands out. */
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
#define WITH_LINES NULL, 0, NULL
#else
#define BY_LINES
#define WITH_LINES lines_f32, line_f32, spans_f32
#endif
#if defined(BY_LINES) && defined(TN_CPU_EVENS)
#define BY_PLANES
#define WITH_PLANES sweep_f32, cross_f32
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
#undef BY_LINES
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
        lanes_f32, strip_f32, tiles_f32, WITH_LINES, WITH_PLANES, slide_f32,
        meet_f32, gather_f32, join_f32};
    static const tn_cpu_conv_routines f64 = {
        lanes_f64, strip_f64, tiles_f64, NULL, 0, NULL, NULL, NULL, slide_f64,
        meet_f64, gather_f64, join_f64};
    table->conv[CPU_F32] = &f32;
    table->conv[CPU_F64] = &f64;
}
