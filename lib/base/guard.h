/* guard.h: how a kernel reports a value that it must not use, such as a divisor
 * of 0 or a probability outside [0, 1]. The kernel reports an index out of
 * range (an index fault), with the special index and extent defined below. The
 * code that launches the kernel recognises them and writes another message. */
#ifndef TN_BASE_GUARD_H
#define TN_BASE_GUARD_H

#include <stdint.h>

/* The extent in an index fault that reports a bad value. No tensor dimension
 * has this extent, so the fault cannot be mistaken for a real index out of
 * range. */
#define TN__GUARD_EXTENT INT64_MAX
/* The index in an index fault that reports a bad value. It says what was wrong:
 * a divisor of 0, a value outside [0, 1], or a value below 0. */
enum { TN__GUARD_ZERO = -1, TN__GUARD_FRACTION = -2, TN__GUARD_NEGATIVE = -3 };

/* Returns what was wrong with the value, as a phrase for a message. */
static inline const char *tn__guard_text(int64_t guard)
{
    return guard == TN__GUARD_ZERO       ? "0"
           : guard == TN__GUARD_NEGATIVE ? "negative"
                                         : "outside [0, 1]";
}

#endif
