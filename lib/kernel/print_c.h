/* print_c.h: functions of the language as C, for backends that compile them
 * before the user's machine is known. */
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
 * The second, left out without with_run, computes out[i] for n values in a loop
 * that a compiler can turn into vectors; out overlaps nothing. Bits are those of tn__kernel_eval, if
 * compiled without contraction. Functions that fn calls have to be printed
 * before it. What the text uses besides <math.h>, <stdint.h>, FN, EACH(i, n)
 * (the head of that loop) and WHOLE (math_table.c: computes the last values, and
 * gives the count of the others, which is one of whole vectors) is in
 * backends/cpu/simd/math_ops.h.
 *
 * Free the text with tn__free. NULL, with the error recorded, where memory runs
 * out or the body holds what no function needs so far (NARROW, PHILOX,
 * ROWLEN: TN_ERR_UNSUPPORTED). */
char *tn__fn_print_c(const tn_kernel_fn *fn, bool with_run);

#endif
