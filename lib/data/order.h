/* order.h: orders of samples that depend on a seed and an epoch alone. */
#ifndef TN_LIB_DATA_ORDER_H
#define TN_LIB_DATA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* Fills order[0, count) with a permutation of 0 .. count - 1, drawn by Philox
 * from (seed, epoch). */
void tn__order_shuffle(int64_t *order, int64_t count, uint64_t seed,
                       uint64_t epoch);

/* Fills order[0, count) with independent draws from [0, bound); bound is at
 * least 1. */
void tn__order_draw(int64_t *order, int64_t count, int64_t bound,
                    uint64_t seed, uint64_t epoch);

/* The same with weights: number i has weight sums[i] - sums[i - 1]. sums are
 * not negative, do not fall, and end above 0. */
void tn__order_draw_weighted(int64_t *order, int64_t count, const double *sums,
                             int64_t bound, uint64_t seed, uint64_t epoch);

/* Number of doubles in a tree over count weights. */
int64_t tn__order_tree_size(int64_t count);
/* The same without replacement: draws count of `bound` numbers, of which at
 * least count have a weight above 0. The sums in tree are recomputed after each
 * draw, never subtracted from, so that a drawn number has weight exactly 0. */
void tn__order_draw_distinct(int64_t *order, int64_t count,
                             const double *weights, int64_t bound, double *tree,
                             uint64_t seed, uint64_t epoch);

/* A sample to be put into a batch of similar lengths. */
typedef struct tn__order_length {
    int64_t length, at, sample; /* at: the position before */
} tn__order_length;
/* Sorts each run of `run` numbers of order[0, count) by descending length, and
 * keeps the order of equal ones. space has `run` elements. If mix, units of
 * `unit` numbers are shuffled afterwards; one at the end that is not full stays
 * there. */
void tn__order_bucket(int64_t *order, int64_t count, const int64_t *lengths,
                      int64_t run, int64_t unit, bool mix,
                      tn__order_length *space, uint64_t seed, uint64_t epoch);

/* Selects one replica's share: order[0, own) becomes elements rank, rank +
 * replicas ... of order[0, count), which is extended by its own beginning.
 * order has space for own * replicas elements. */
void tn__order_shard(int64_t *order, int64_t count, int64_t own, int replicas,
                     int rank);

/* The seed for random numbers that the samples of one batch draw. */
uint64_t tn__order_batch_seed(int64_t batch, uint64_t seed, uint64_t epoch);

#endif
