/* random_library.h: the kernel language's own functions in a random case. */
#ifndef TN_CHECK_RANDOM_LIBRARY_H
#define TN_CHECK_RANDOM_LIBRARY_H

#include "random_program.h"
#include "random_source.h"

/* Puts `wanted` random functions of the language, and those they call, in
 * front of the case's functions. Returns how many stand there. */
uint32_t random_library_add(random_source *r, random_case *c, uint32_t wanted);

/* Does the language's function of this number, or one that it calls, hold a
 * loop? On the numbers of a random case (-1e30, say) such a loop goes on for as
 * long as its bound allows, a million rounds an element: these functions stay
 * out of random cases. Loops have cases of their own. */
bool random_library_loops(int number);

/* Puts the language's function of this number behind the *count that stand in
 * the case, after those it calls. Returns where it stands, or TN_NONE if there
 * is no room, or it holds a loop. */
uint32_t random_library_put(random_case *c, int number, uint32_t *count);

#endif
