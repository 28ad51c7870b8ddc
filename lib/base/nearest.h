/* nearest.h: rounds host arithmetic to nearest, whatever rounding mode the
 * program has set. Needs <fenv.h> alone, so that rooms that include only public
 * headers may include it, too. */
#ifndef TN_LIB_BASE_NEAREST_H
#define TN_LIB_BASE_NEAREST_H

#include <fenv.h>

static inline int tn__nearest_begin(void)
{
    const int before = fegetround();
    if (before != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    return before;
}

static inline void tn__nearest_end(const int *before)
{
    if (*before != FE_TONEAREST)
        fesetround(*before);
}

/* A declaration. From here to the end of the block, arithmetic rounds to
 * nearest; every way out of the block restores the program's mode. */
#define TN__ROUND_NEAREST                                                     \
    __attribute__((cleanup(tn__nearest_end), unused)) const int tn__before =  \
        tn__nearest_begin()

#endif
