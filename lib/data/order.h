/* order.h: orders of samples that depend on a seed and nothing else. */
#ifndef TN_LIB_DATA_ORDER_H
#define TN_LIB_DATA_ORDER_H

#include <stdint.h>

/* Fills order[0 .. count) with a permutation of 0 .. count - 1 drawn by Philox
 * from (seed, epoch). */
void tn__order_shuffle(int64_t *order, int64_t count, uint64_t seed,
                       uint64_t epoch);

/* Fills order[0 .. count) with numbers in [0, bound), each drawn anew; bound is
 * at least 1. */
void tn__order_draw(int64_t *order, int64_t count, int64_t bound,
                    uint64_t seed, uint64_t epoch);

/* The same, number i with the weight sums[i] - sums[i - 1]: sums rise from at
 * least 0 to more than 0. */
void tn__order_draw_weighted(int64_t *order, int64_t count, const double *sums,
                             int64_t bound, uint64_t seed, uint64_t epoch);

/* A seed for what the samples of one batch draw themselves. */
uint64_t tn__order_batch_seed(int64_t batch, uint64_t seed, uint64_t epoch);

#endif
