/* order.c: makes orders of samples: shuffled, drawn, weighted or sorted by
 * length. They depend only on a seed and an epoch, since all random numbers are
 * Philox blocks of (draw, epoch, seed). */
#include <data/order.h>

#include <stdlib.h>

#include <kernel/philox.h>

/* Returns 64 random bits for draw i: 32-bit words `word` and `word` + 1 of its
 * Philox block. */
static uint64_t bits(int64_t i, uint64_t seed, uint64_t epoch, unsigned word)
{
    uint64_t low = tn__philox((uint64_t)i, epoch, seed, word);
    uint64_t high = tn__philox((uint64_t)i, epoch, seed, word + 1);
    return high << 32 | low;
}

/* Returns a random number in [0, bound) for draw i: the high half of the
 * product of 64 random bits and bound. Its bias is at most bound / 2^64. */
static int64_t draw(int64_t i, int64_t bound, uint64_t seed, uint64_t epoch)
{
    __extension__ typedef unsigned __int128 wide;
    return (int64_t)((wide)bits(i, seed, epoch, 0) * (uint64_t)bound >> 64);
}

/* Shuffles an order by the method of Fisher and Yates. It starts from the
 * identity, so that the order of an epoch does not depend on earlier epochs. */
void tn__order_shuffle(int64_t *order, int64_t count, uint64_t seed,
                       uint64_t epoch)
{
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j = draw(i, i + 1, seed, epoch);
        int64_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

void tn__order_draw(int64_t *order, int64_t count, int64_t bound,
                    uint64_t seed, uint64_t epoch)
{
    for (int64_t i = 0; i < count; i++)
        order[i] = draw(i, bound, seed, epoch);
}

/* Returns the first index whose prefix sum is greater than `mark`, by binary
 * search. `mark` is below the last sum. An index of weight 0 is never returned.
 */
static int64_t find_above(const double *sums, int64_t count, double mark)
{
    int64_t low = 0, high = count - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sums[middle] > mark)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void tn__order_draw_weighted(int64_t *order, int64_t count, const double *sums,
                             int64_t bound, uint64_t seed, uint64_t epoch)
{
    for (int64_t i = 0; i < count; i++) {
        /* part has 53 random bits, which fit a double exactly. It is below 1,
         * so part * (the last sum) is below the last sum. */
        double part = (double)(bits(i, seed, epoch, 0) >> 11) * 0x1p-53;
        order[i] = find_above(sums, bound, part * sums[bound - 1]);
    }
}

/* Returns the smallest power of 2 that is at least count. */
static int64_t leaves_of(int64_t count)
{
    int64_t leaves = 1;
    while (leaves < count)
        leaves *= 2;
    return leaves;
}

int64_t tn__order_tree_size(int64_t count)
{
    return 2 * leaves_of(count);
}

void tn__order_draw_distinct(int64_t *order, int64_t count,
                             const double *weights, int64_t bound, double *tree,
                             uint64_t seed, uint64_t epoch)
{
    int64_t leaves = leaves_of(bound);
    for (int64_t i = 0; i < leaves; i++)
        tree[leaves + i] = i < bound ? weights[i] : 0;
    for (int64_t i = leaves - 1; i > 0; i--)
        tree[i] = tree[2 * i] + tree[2 * i + 1];
    for (int64_t i = 0; i < count; i++) {
        double mark = (double)(bits(i, seed, epoch, 0) >> 11) * 0x1p-53;
        int64_t at = 1;
        for (mark *= tree[1]; at < leaves;) {
            at *= 2;
            /* Because of rounding, the descent could otherwise enter a subtree
             * of weight 0. */
            bool right = tree[at] > 0 ? mark >= tree[at] && tree[at + 1] > 0
                                      : true;
            mark -= right ? tree[at] : 0;
            at += right;
        }
        order[i] = at - leaves;
        for (tree[at] = 0; at > 1; at /= 2)
            tree[at / 2] = tree[at & ~INT64_C(1)] + tree[at | 1];
    }
}

static int longer_first(const void *a, const void *b)
{
    const tn__order_length *x = a, *y = b;
    return x->length != y->length ? (x->length < y->length) -
                                        (x->length > y->length)
                                  : (x->at > y->at) - (x->at < y->at);
}

void tn__order_bucket(int64_t *order, int64_t count, const int64_t *lengths,
                      int64_t run, int64_t unit, bool mix,
                      tn__order_length *space, uint64_t seed, uint64_t epoch)
{
    for (int64_t begin = 0; begin < count; begin += run) {
        const int64_t n = count - begin < run ? count - begin : run;
        for (int64_t i = 0; i < n; i++)
            space[i] = (tn__order_length){lengths[order[begin + i]], i,
                                          order[begin + i]};
        qsort(space, (size_t)n, sizeof *space, longer_first);
        for (int64_t i = 0; i < n; i++)
            order[begin + i] = space[i].sample;
    }
    /* These draws use counters of at least 2^62, so they share none with the
     * order of samples. */
    const int64_t apart = INT64_C(1) << 62;
    for (int64_t i = count / unit - 1; mix && i > 0; i--) {
        const int64_t j = draw(apart + i, i + 1, seed, epoch);
        for (int64_t k = 0; k < unit && i != j; k++) {
            const int64_t other = order[j * unit + k];
            order[j * unit + k] = order[i * unit + k];
            order[i * unit + k] = other;
        }
    }
}

uint64_t tn__order_batch_seed(int64_t batch, uint64_t seed, uint64_t epoch)
{
    /* words 0 and 1 of a block are used for orders, words 2 and 3 for batch
     * seeds */
    return bits(batch, seed, epoch, 2);
}
