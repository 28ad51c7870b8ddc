/* random_library.h: the kernel language's own functions in a random case. */
#ifndef TN_CHECK_RANDOM_LIBRARY_H
#define TN_CHECK_RANDOM_LIBRARY_H

#include "random_program.h"
#include "random_source.h"

/* Adds `wanted` random functions of the language, and those they call, before
 * the case's own functions. Returns how many were added. */
uint32_t random_library_add(random_source *r, random_case *c, uint32_t wanted);

/* Does the language's function of this index, or one that it calls, contain a
 * loop? On the numbers of a random case, such as -1e30, a loop runs up to its
 * bound, a million iterations for each element. So random cases do not call
 * these functions; loops have cases of their own. */
bool random_library_loops(int number);

/* Appends the language's function of this index to the *count functions of the
 * case, after those it calls. Returns its index there, or TN_NONE if there is
 * no space or it contains a loop. */
uint32_t random_library_put(random_case *c, int number, uint32_t *count);

#endif
