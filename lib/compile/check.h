/* check.h: runs a program and the function beside each other. */
#ifndef TN_LIB_COMPILE_CHECK_H
#define TN_LIB_COMPILE_CHECK_H

#include <compile/program.h>

/* Replays the program, then restores all memory that it wrote and the random
 * generator, captures a call of the function, and compares the work, the outputs
 * and the written memory of both, bit by bit. `reference` is an earlier capture
 * with the work of the program. The results are those of the function. A
 * difference is TN_ERR_STATE, and names the first work that differs, or the output
 * or the operator that wrote last. */
tn_status tn__check_replay(const char *name, tn__replayed *program,
                           const tn__capture *reference, tn_compile_fn fn, void *context,
                           tn_tensor *const *in, int in_count, tn_tensor **out,
                           int out_count);

#endif
