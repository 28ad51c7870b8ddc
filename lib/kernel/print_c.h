/* print_c.h: prints functions of the kernel language as C, for backends that
 * compile them ahead of time. */
#ifndef TN_LIB_KERNEL_PRINT_C_H
#define TN_LIB_KERNEL_PRINT_C_H

#include <kernel/kernel.h>

/* Returns C11 text that defines these functions, for fn "exp_f32":
 *
 *     FN float exp_f32(float a0)
 *     RUN void run_exp_f32(void *out, const void *a, const void *b,
 *                          const void *c, int64_t n)
 *
 * exp_f32 computes one value. run_exp_f32 is printed only if with_run is set.
 * It computes out[i] for n values in a loop that the compiler can vectorize;
 * out overlaps no argument. The bits are those of tn__kernel_eval if the text
 * is compiled without contraction. Functions that fn calls have to be printed
 * before it.
 *
 * The text uses <math.h>, <stdint.h>, and four macros. FN and RUN stand for
 * "static inline" and "static" with attributes. EACH(i, n) is the head of the
 * loop. WHOLE (math_table.c) computes the last values and returns the number of
 * values in whole vectors. backends/cpu/simd/math_ops.h defines everything
 * else.
 *
 * Free the text with tn__free. Returns NULL with the error recorded if memory
 * runs out. Returns NULL with TN_ERR_UNSUPPORTED if the body has a NARROW,
 * PHILOX or ROWLEN instruction; so far no function has one. */
char *tn__fn_print_c(const tn_kernel_fn *fn, bool with_run);

#endif
