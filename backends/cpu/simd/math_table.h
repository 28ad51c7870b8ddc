/* math_table.h: the tables of mathematical functions. Their C code is generated
 * at build time from the definitions in lib/kernel/math, and compiled once for
 * each instruction set (math_table.c). Results are bit-identical to the
 * definitions. */
#ifndef TN_CPU_MATH_TABLE_H
#define TN_CPU_MATH_TABLE_H

#include "routines.h"

#define TN_CPU_MATH(isa)                                                      \
    extern const tn_cpu_math_entry tn__cpu_math__##isa[];                     \
    extern const uint32_t tn__cpu_math_count__##isa;
TN_CPU_MATH(generic)
TN_CPU_MATH(v3)
TN_CPU_MATH(v4)

#endif
