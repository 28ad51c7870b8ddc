/* guard.h: what a kernel that asks whether it may go on tells by a fault: words
 * between the kernel language, which asks, and who runs it. */
#ifndef TN_BASE_GUARD_H
#define TN_BASE_GUARD_H

#include <stdint.h>

/* The index extent of the operand that is read there: no tensor has it, so its
 * fault cannot be taken for another. */
#define TN__GUARD_EXTENT INT64_MAX
/* The index, which says what is wrong: a divisor is 0, a number is outside
 * [0, 1]. */
enum { TN__GUARD_ZERO = -1, TN__GUARD_FRACTION = -2 };

#endif
