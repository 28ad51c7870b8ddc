/* math_table.c: the mathematical functions for one instruction set. Their C
 * is printed when the library is built (build-aux/print_math.c); this file
 * gives it its surroundings and the table. */
#include "isa.h"
#include "math_ops.h"
#include "math_table.h"

/* Of a loop that is skipped, the values that only its inside uses remain. */
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "math_routines.inc"

const tn_cpu_math_entry TN_CPU_NAME(tn__cpu_math)[] = {TN_CPU_MATH_ROWS};
const uint32_t TN_CPU_NAME(tn__cpu_math_count) =
    sizeof TN_CPU_NAME(tn__cpu_math) / sizeof *TN_CPU_NAME(tn__cpu_math);
