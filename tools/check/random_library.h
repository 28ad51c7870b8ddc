/* random_library.h: adds functions of the kernel language's library, such as
 * erf, to random programs. */
#ifndef TN_CHECK_RANDOM_LIBRARY_H
#define TN_CHECK_RANDOM_LIBRARY_H

#include "random_program.h"
#include "random_source.h"

/* Adds `wanted` random library functions, and the functions that they call, in
 * front of the program's own functions. Returns how many were added. */
uint32_t random_library_add(random_source *r, random_case *c, uint32_t wanted);

/* Returns whether the library function with index `number`, or a function that
 * it calls, contains a loop. Random programs do not call such functions: for
 * arguments such as -1e30 a loop would run a million iterations for each
 * element. one_loop_case tests loops. */
bool random_library_loops(int number);

/* Appends the library function with index `number` to the *count functions of
 * the program, after the functions that it calls. Returns its index in the
 * program. Returns TN_NONE if there is no space left or if it contains a
 * loop. */
uint32_t random_library_put(random_case *c, int number, uint32_t *count);

#endif
