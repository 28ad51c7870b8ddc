/* print_c.h: prints functions of the kernel language as C, for plugins that
 * compile them ahead of time. */
#ifndef TN_LIB_KERNEL_PRINT_C_H
#define TN_LIB_KERNEL_PRINT_C_H

#include <kernel/kernel.h>

/* Returns C11 source that defines the function. For a function with the name
 * "exp_f32" it has:
 *
 *     FN float exp_f32(float a0)
 *     RUN void run_exp_f32(void *out, const void *a, const void *b,
 *                          const void *c, int64_t n)
 *
 * exp_f32 computes one value. run_exp_f32 computes out[i] for n values, in a
 * loop that the compiler can vectorize. It is printed only if with_run is set.
 * `out` must not overlap an argument. If the source is compiled without
 * contraction to fma, its results are bit-identical to those of
 * tn__kernel_eval. Functions that `fn` calls have to be printed before it.
 *
 * The source uses <math.h>, <stdint.h>, and four macros. FN and RUN expand to
 * "static inline" and "static" with attributes. EACH(i, n) is the head of the
 * loop. WHOLE (math_table.c) computes the last values, which do not fill a
 * vector, and returns how many values are before them. Everything else that it
 * uses is in backends/cpu/simd/math_ops.h.
 *
 * The caller frees the string with tn__free. If memory runs out, records an
 * error and returns NULL. If the body has a NARROW, PHILOX or ROWLEN
 * instruction, which no function has so far, records TN_ERR_UNSUPPORTED and
 * returns NULL. */
char *tn__fn_print_c(const tn_kernel_fn *fn, bool with_run);

#endif
