/* guard.h: what a kernel that asks whether it may go on tells by a fault: words
 * between the kernel language, which asks, and who runs it. */
#ifndef TN_BASE_GUARD_H
#define TN_BASE_GUARD_H

#include <stdint.h>

/* The index extent of the operand that is read there: no tensor has it, so its
 * fault cannot be taken for another. */
#define TN__GUARD_EXTENT INT64_MAX
/* The index, which says what is wrong: a divisor is 0, a number is outside
 * [0, 1], or below 0. */
enum { TN__GUARD_ZERO = -1, TN__GUARD_FRACTION = -2, TN__GUARD_NEGATIVE = -3 };

/* "0", of which `what` is the operand, or what else may not be. */
static inline const char *tn__guard_text(int64_t guard)
{
    return guard == TN__GUARD_ZERO       ? "0"
           : guard == TN__GUARD_NEGATIVE ? "negative"
                                         : "outside [0, 1]";
}

#endif
