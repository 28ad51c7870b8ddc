/* The cpu plugin's attention loops equal the decomposition into separate
 * operators: results, first and second derivatives, for sizes below and above
 * the block size. The bits do not depend on the number of threads, and the
 * score matrix is never stored in memory. */
#include <tap.h>
#include <tenon/tenon.h>

#include <math.h>

typedef struct sizes {
    int64_t batch, heads, kv_heads, queries, keys, features, values;
    bool causal;
    double size; /* magnitude of queries; large ones give scores of a wide
                  * range */
    int mask;    /* 0: none; 1: bool; 2: float, added; 3: bool, one value for
                  * each query */
} sizes;

static const sizes all[] = {
    {2, 2, 2, 64, 128, 32, 32, false, 1, 0},
    {2, 2, 2, 70, 70, 16, 16, true, 1, 0},
    {1, 4, 2, 33, 165, 20, 24, false, 1, 0},
    {1, 4, 1, 150, 150, 7, 40, true, 1, 0},
    {1, 2, 1, 200, 300, 33, 1, true, 1, 0},
    {1, 2, 2, 300, 129, 1, 5, true, 30, 0},
    {1, 1, 1, 1, 140, 64, 64, false, 1, 0},
    {1, 1, 1, 140, 1, 64, 64, true, 1, 0},
    {3, 1, 1, 130, 400, 8, 12, false, 100, 0},
    {1, 1, 1, 1100, 1100, 4, 4, true, 1, 0},
    {2, 4, 2, 70, 600, 16, 8, false, 1, 1},
    {2, 4, 2, 70, 300, 16, 8, true, 1, 1},
    {1, 4, 4, 130, 270, 8, 16, false, 1, 2},
    {1, 2, 1, 40, 40, 8, 16, true, 1, 3},
};

typedef struct results {
    tn_tensor *y, *g[3], *again[3];
} results;

static tn_tensor *some(int64_t batch, int64_t heads, int64_t length,
                       int64_t size, double by)
{
    tn_tensor *x = tn_randn(tn_dims(batch, length, heads, size));
    return tn_requires_grad(
        tn_transpose(tn_mul_scalar(x, by), 1,
                     2)); /* the strides of heads that are split from a
                           * projection */
}

/* The first query attends to no key, the last query to the last keys only. */
static tn_tensor *mask_of(const sizes *s)
{
    tn_tensor *place =
        tn_unsqueeze(tn_arange(0, (double)s->queries, 1), 1);
    if (s->mask == 0)
        return NULL;
    if (s->mask == 2)
        return tn_transpose(tn_randn(tn_dims(s->heads, s->keys, 1)), 1, 2);
    if (s->mask == 3)
        return tn_gt_scalar(place, 0);
    tn_tensor *some_keys =
        tn_gt_scalar(tn_rand(tn_dims(s->queries, s->keys)), 0.5);
    tn_tensor *far = tn_gt_scalar(tn_arange(0, (double)s->keys, 1), 280);
    tn_tensor *shown = tn_logical_and(some_keys, tn_gt_scalar(place, 0));
    return tn_logical_and(
        shown, tn_logical_or(
                   far, tn_lt_scalar(place, (double)s->queries - 1)));
}

/* Computes attention with the extension, or without it if `without` names
 * it. */
static results run(const sizes *s, const char *without, bool twice)
{
    results r = {NULL, {NULL}, {NULL}};
    tn_device_mask(NULL, without);
    tn_manual_seed(7);
    tn_tensor *in[] = {
        some(s->batch, s->heads, s->queries, s->features, s->size),
        some(s->batch, s->kv_heads, s->keys, s->features, 1),
        some(s->batch, s->kv_heads, s->keys, s->values, 1)};
    tn_tensor *mask = mask_of(s);
    if (s->mask == 1 && s->causal)
        mask = tn_logical_and(
            mask, tn_tril(tn_ones(tn_dims(s->queries, s->keys),
                                  .dtype = TN_BOOL)));
    tn_tensor *g = tn_randn(
        tn_dims(s->batch, s->heads, s->values, s->queries));
    r.y = tn_scaled_dot_product_attention(in[0], in[1], in[2], mask,
                                          .is_causal = s->causal && !mask,
                                          .enable_gqa = true);
    tn_grad(r.y, in, 3, r.g, .gradient = tn_transpose(g, 2, 3),
            .create_graph = twice);
    if (twice) {
        tn_tensor *sum = tn_sum(tn_mul(r.g[0], r.g[0]));
        sum = tn_add(sum, tn_sum(tn_mul(r.g[1], r.g[1])));
        sum = tn_add(sum, tn_sum(tn_mul(r.g[2], r.g[2])));
        tn_grad(sum, in, 3, r.again);
    }
    tn_device_mask(NULL, NULL);
    return r;
}

/* The tolerance covers rounding of sums relative to the largest element; for
 * large scores also that of the scores and of their logsumexp, which becomes a
 * relative error of the weights. */
static void is_near(tn_tensor *got, tn_tensor *want, const sizes *s,
                    const char *what)
{
    const double unit = 0x1p-18 * (1 + s->size / 30);
    double by = tn_item(tn_max(tn_abs(tn_sub(got, want))));
    double size = tn_item(tn_max(tn_abs(want)));
    ok(by <= unit * (1 + size), "%s: %g apart of %g%s%s", what, by, size,
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
}

static void check(const sizes *s, bool twice)
{
    static const char *const names[] = {"query", "key", "value"};
    tn_scope *scope = tn_scope_open();
    note("(%d, %d of %d, %d x %d, %d, %d)%s, queries of %g, mask %d", (int)s->batch,
         (int)s->kv_heads, (int)s->heads, (int)s->queries, (int)s->keys,
         (int)s->features, (int)s->values, s->causal ? " causal" : "",
         s->size, s->mask);
    results got = run(s, NULL, twice), want = run(s, "attention", twice);
    is_near(got.y, want.y, s, "the result");
    for (int i = 0; i < 3; i++)
        is_near(got.g[i], want.g[i], s, names[i]);
    for (int i = 0; twice && i < 3; i++)
        is_near(got.again[i], want.again[i], s, "the gradient's gradient");
    tn_scope_close(scope);
}

static bool are_equal(tn_tensor *a, tn_tensor *b)
{
    return tn_item(tn_max(tn_abs(tn_sub(a, b)))) == 0;
}

static void check_threads(const sizes *s)
{
    tn_scope *scope = tn_scope_open();
    tn_set_num_threads(1);
    results one = run(s, NULL, false);
    tn_set_num_threads(3);
    results three = run(s, NULL, false);
    ok(are_equal(one.y, three.y) && are_equal(one.g[0], three.g[0]) &&
           are_equal(one.g[1], three.g[1]) && are_equal(one.g[2], three.g[2]),
       "the same bits by one thread and by three");
    tn_scope_close(scope);
}

/* A NaN in a query affects only the gradients of values that the query attends
 * to, not others in the same SIMD vector. (In gradients of keys, 0 times NaN is
 * NaN.) */
static void check_hidden(void)
{
    enum { LENGTH = 40, SIZE = 3, QUERY = 5 };
    tn_scope *scope = tn_scope_open();
    float told[LENGTH * SIZE];
    tn_tensor *x = tn_randn(tn_dims(1, 1, LENGTH, SIZE)), *g;
    tn_tensor *values = tn_requires_grad(tn_clone(x)), *q = tn_clone(x);
    tn_fill_scalar_(tn_select(q, 2, QUERY), NAN);
    tn_grad(tn_sum(tn_scaled_dot_product_attention(q, x, values, NULL,
                                                   .is_causal = true)),
            &values, 1, &g);
    int wrong = 0;
    tn_tensor_to_array(tn_contiguous(g), told, sizeof told);
    for (int k = 0; k < LENGTH * SIZE; k++)
        wrong += isnan(told[k]) != (k / SIZE <= QUERY);
    ok(wrong == 0 && !tn_error(),
       "a query's NaN is in the gradients of %d values, %d wrong", QUERY + 1,
       wrong);
    tn_scope_close(scope);
}

/* A score matrix would need 4 MiB, which the peak of allocated memory would
 * show. */
static void check_memory(void)
{
    tn_device *device = tn_device_current();
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_randn(tn_dims(1, 1, 1024, 4));
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory_reset_peak(device);
    tn_memory(device, &before);
    tn_scaled_dot_product_attention(x, x, x, NULL);
    tn_memory(device, &after);
    int64_t more = after.peak_bytes - before.peak_bytes;
    ok(more > 0 && more < 65536, "1024 queries of as many keys take %lld bytes",
       (long long)more);
    tn_scope_close(scope);
}

int main(void)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(&all[i], false);
    for (size_t i = 0; i < 3; i++)
        check(&all[i], true);
    check_threads(&all[9]);
    check_threads(&all[3]);
    check_hidden();
    check_memory();
    return done_testing();
}
