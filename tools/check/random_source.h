/* random_source.h: random numbers that depend only on the seed, among them the
 * corner cases of every type; properties of dtypes. */
#ifndef TN_CHECK_RANDOM_SOURCE_H
#define TN_CHECK_RANDOM_SOURCE_H

#include <stdbool.h>
#include <tenon/types.h>

typedef struct random_source {
    uint64_t state;
} random_source;

uint64_t random_bits(random_source *r);
uint32_t random_below(random_source *r, uint32_t n); /* 0 .. n - 1 */
bool random_chance(random_source *r, uint32_t percent);
int64_t random_between(random_source *r, int64_t low, int64_t high);
/* Tame ones are small and finite; others may be anything. */
double random_float(random_source *r, bool tame);
int64_t random_int(random_source *r, bool tame);
/* The i-th corner case, cyclically. */
double random_float_corner(uint64_t i);
int64_t random_int_corner(uint64_t i);
enum { RANDOM_CORNERS = 36 }; /* at least as many as there are of either */

/* Of a register type: is it F32 or F64? */
bool random_is_float(tn_dtype dtype);
/* Of a storage type. */
tn_dtype random_register_type(tn_dtype dtype);
size_t random_dtype_bytes(tn_dtype dtype);
/* "F32": as in TN_F32. */
const char *random_dtype_name(tn_dtype dtype);

#endif
