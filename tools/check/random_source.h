/* random_source.h: generates random numbers that depend only on the seed. They
 * include special values such as infinities and the limits of each dtype. */
#ifndef TN_CHECK_RANDOM_SOURCE_H
#define TN_CHECK_RANDOM_SOURCE_H

#include <stdbool.h>
#include <tenon/types.h>

typedef struct random_source {
    uint64_t state;
} random_source;

uint64_t random_bits(random_source *r);
uint32_t random_below(random_source *r, uint32_t n); /* in [0, n) */
bool random_chance(random_source *r, uint32_t percent);
int64_t random_between(random_source *r, int64_t low, int64_t high);
/* Return a random number. Tame numbers are small and finite; others may have
 * any value. */
double random_float(random_source *r, bool tame);
int64_t random_int(random_source *r, bool tame);
/* Return the i-th special value. Indices beyond the last one start again at the
 * first. */
double random_float_corner(uint64_t i);
int64_t random_int_corner(uint64_t i);
enum { RANDOM_CORNERS = 36 }; /* not less than the number of special values of
                                 either type */

/* Returns whether a register type is F32 or F64. */
bool random_is_float(tn_dtype dtype);
/* Returns the register type that elements of dtype are loaded to. */
tn_dtype random_register_type(tn_dtype dtype);
/* Returns the size of an element in memory. */
size_t random_dtype_bytes(tn_dtype dtype);
/* Returns the name of a dtype, for example "F32" for TN_F32. */
const char *random_dtype_name(tn_dtype dtype);

#endif
