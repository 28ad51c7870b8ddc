/* order.h: makes orders of samples (arrays of sample indices). They depend only
 * on a seed and an epoch, so they are the same on every machine. */
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

/* Fills order[0, count) with independent draws of indices i < bound, where i
 * has the weight sums[i] - sums[i - 1]. sums are prefix sums: 0 or more,
 * ascending, the last one above 0. */
void tn__order_draw_weighted(int64_t *order, int64_t count, const double *sums,
                             int64_t bound, uint64_t seed, uint64_t epoch);

/* Returns the number of doubles in a tree for tn__order_draw_distinct with
 * count weights. */
int64_t tn__order_tree_size(int64_t count);
/* Draws count of `bound` indices without replacement, in proportion to their
 * weights. At least count weights are above 0. tree is working space for a
 * binary tree of sums of weights. The sums on the path of a drawn index are
 * added up again after each draw. Subtracting its weight instead could leave a
 * small remainder instead of 0. */
void tn__order_draw_distinct(int64_t *order, int64_t count,
                             const double *weights, int64_t bound, double *tree,
                             uint64_t seed, uint64_t epoch);

/* A sample to be put into a batch of similar lengths. */
typedef struct tn__order_length {
    int64_t length, at, sample; /* at: position before sorting */
} tn__order_length;
/* Sorts each `run` consecutive samples of order[0, count) by descending length;
 * samples of equal length keep their order. space has `run` elements. If mix is
 * true, batches of `unit` samples are shuffled afterwards; an incomplete batch
 * at the end stays there. */
void tn__order_bucket(int64_t *order, int64_t count, const int64_t *lengths,
                      int64_t run, int64_t unit, bool mix,
                      tn__order_length *space, uint64_t seed, uint64_t epoch);

/* Returns the seed for the random numbers that the samples of one batch
 * draw. */
uint64_t tn__order_batch_seed(int64_t batch, uint64_t seed, uint64_t epoch);

#endif
