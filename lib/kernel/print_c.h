/* print_c.h: prints functions of the language as C, for backends that compile
 * them ahead of time. */
#ifndef TN_LIB_KERNEL_PRINT_C_H
#define TN_LIB_KERNEL_PRINT_C_H

#include <kernel/kernel.h>

/* C11 text that defines, for fn "exp_f32",
 *
 *     FN float exp_f32(float a0)           one value; FN is the including
 *                                          file's "static inline"
 *     static void run_exp_f32(void *out, const void *a, const void *b,
 *                             const void *c, int64_t n)
 *
 * The second function exists if with_run is set. It computes out[i] for n
 * values in a loop that the compiler can vectorize; out overlaps no argument.
 * The bits are those of tn__kernel_eval if the text is compiled without
 * contraction. Functions that fn calls have to be printed before it.
 *
 * The text uses <math.h>, <stdint.h>, FN, EACH(i, n) (the head of the loop) and
 * WHOLE (math_table.c: computes the last values and returns the number of
 * values in whole vectors). backends/cpu/simd/math_ops.h defines everything
 * else.
 *
 * Free the text with tn__free. NULL with the error recorded if memory runs out,
 * or if the body has an instruction that no function uses so far (NARROW,
 * PHILOX, ROWLEN: TN_ERR_UNSUPPORTED). */
char *tn__fn_print_c(const tn_kernel_fn *fn, bool with_run);

#endif
