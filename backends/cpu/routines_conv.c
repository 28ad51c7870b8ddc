/* routines_conv.c: the loops of convolution (conv.c): tiles of a product whose
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
#define NAME(x) x##_f32
#ifdef TN_CPU_PLAIN
#define WITH_LINES NULL, 0, NULL
#else
#define BY_LINES
#define WITH_LINES lines_f32, line_f32, spans_f32
#endif
#include "conv_loops.inc"
#undef BY_LINES
#undef T
#undef VEC
#undef LOOSE
#undef BITS
#undef MADD
#undef NAME

#define T double
#define VEC vec_f64
#define LOOSE loose_f64
#define BITS vec_i64
#define MADD TN_CPU_FMA_F64
#define NAME(x) x##_f64
#include "conv_loops.inc"

void TN_CPU_NAME(tn__cpu_conv)(tn_cpu_routines *table)
{
    static const tn_cpu_conv_routines f32 = {
        lanes_f32, strip_f32, tiles_f32, WITH_LINES, slide_f32,
        meet_f32, gather_f32, spread_f32, join_f32};
    static const tn_cpu_conv_routines f64 = {
        lanes_f64, strip_f64, tiles_f64, NULL, 0, NULL, slide_f64,
        meet_f64, gather_f64, spread_f64, join_f64};
    table->conv[CPU_F32] = &f32;
    table->conv[CPU_F64] = &f64;
}
