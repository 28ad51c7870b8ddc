/* guard.h: how a kernel reports a value that it must not use (a zero divisor, a
 * probability outside [0, 1]). The kernel makes an index fault with the index
 * and extent below, which the code that launches the kernel recognises. */
#ifndef TN_BASE_GUARD_H
#define TN_BASE_GUARD_H

#include <stdint.h>

/* The index extent in such a fault. No tensor has this extent, so the fault
 * differs from real index faults. */
#define TN__GUARD_EXTENT INT64_MAX
/* The index in such a fault is the reason: ZERO is a divisor of 0, FRACTION a
 * value outside [0, 1], NEGATIVE a value below 0. */
enum { TN__GUARD_ZERO = -1, TN__GUARD_FRACTION = -2, TN__GUARD_NEGATIVE = -3 };

/* Returns the reason as text. */
static inline const char *tn__guard_text(int64_t guard)
{
    return guard == TN__GUARD_ZERO       ? "0"
           : guard == TN__GUARD_NEGATIVE ? "negative"
                                         : "outside [0, 1]";
}

#endif
