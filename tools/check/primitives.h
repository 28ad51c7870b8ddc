/* primitives.h: checks a plugin's primitives matmul, scatter, scan and sort on
 * operands with random shapes, strides and dtypes. The results are compared
 * with the results of plain loops. */
#ifndef TN_CHECK_PRIMITIVES_H
#define TN_CHECK_PRIMITIVES_H

#include "by_hand.h"

enum {
    PRIMITIVE_SCAN,
    PRIMITIVE_SORT,
    PRIMITIVE_SCATTER,
    PRIMITIVE_MATMUL,
    PRIMITIVE_COUNT
};
extern const char *const primitive_names[PRIMITIVE_COUNT];

/* Runs the random case that the seed determines. If the device's result is
 * wrong, writes the reason to why, which has `room` bytes, and returns false.
 * Must not be called from several threads at the same time. */
bool primitive_case(const by_hand *h, int primitive, uint64_t seed, char *why,
                    size_t room);

#endif
