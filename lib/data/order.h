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

/* A tree over count weights: tree has tn__order_tree_size(count) doubles. */
int64_t tn__order_tree_size(int64_t count);
/* The same without replacement: count of the `bound` numbers, of which as many
 * at least have a weight above 0. Sums are made anew, never subtracted from,
 * so that what has been drawn weighs exactly 0. */
void tn__order_draw_distinct(int64_t *order, int64_t count,
                             const double *weights, int64_t bound, double *tree,
                             uint64_t seed, uint64_t epoch);

/* Leaves in order[0 .. own) places rank, rank + replicas ... of order[0 ..
 * count), which goes on with its beginning; it has room for own * replicas. */
void tn__order_shard(int64_t *order, int64_t count, int64_t own, int replicas,
                     int rank);

/* A seed for what the samples of one batch draw themselves. */
uint64_t tn__order_batch_seed(int64_t batch, uint64_t seed, uint64_t epoch);

#endif
