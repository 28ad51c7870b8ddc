/* test_attention.c: compares scaled_dot_product_attention, which works by
 * blocks of queries and heads, with its definition over all of them. */
#include <math.h>
#include <tap.h>
#include <tenon/tenon.h>

typedef struct sizes {
    int64_t queries, keys;
    bool causal;
    int64_t mask_rows; /* 0: no mask */
    bool mask_is_bool;
    bool shared; /* broadcast operands: the same keys for a whole batch, values
                  * without a batch dimension, one mask for all heads */
    bool apart;  /* the mask has a stride of 2 */
} sizes;

static tn_tensor *written_out(tn_tensor *q, tn_tensor *k, tn_tensor *v,
                              const sizes *s, tn_tensor *mask)
{
    tn_tensor *scores = tn_mul_scalar(
        tn_matmul(q, tn_transpose(k, -2, -1)),
        1 / sqrt((double)tn_tensor_size(q, -1)));
    tn_tensor *one = tn_ones(tn_dims(s->queries, s->keys), .dtype = TN_BOOL);
    if (s->causal)
        scores = tn_masked_fill_scalar(
            scores, tn_logical_not(tn_tril(one)), -INFINITY);
    if (mask)
        scores = s->mask_is_bool
                     ? tn_masked_fill_scalar(scores, tn_logical_not(mask),
                                             -INFINITY)
                     : tn_add(scores, mask);
    return tn_matmul(tn_softmax(scores, -1), v);
}

static void is_near(tn_tensor *got, tn_tensor *want, const char *what)
{
    ok(tn_item(tn_allclose(got, want, .rtol = 1e-10, .atol = 1e-12)) == 1, "%s%s%s", what,
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
}

static void check(const sizes *s)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *in[3], *got[3], *want[3], *mask = NULL;
    for (int i = 0; i < 3; i++) {
        tn_dims_list dims =
            tn_dims(i && s->shared ? 1 : 2, 3, i ? s->keys : s->queries,
                    i < 2 ? 4 : 5);
        in[i] = tn_randn(dims, .dtype = TN_F64);
        if (i == 2 && s->shared)
            in[i] = tn_select(in[i], 0, 0);
        in[i] = tn_requires_grad(tn_clone(in[i]));
    }
    if (s->mask_rows && s->mask_is_bool) { /* so that each query attends to the
                                            * first key */
        mask = tn_gt_scalar(tn_rand(tn_dims(s->mask_rows, s->keys)), 0.5);
        mask = tn_logical_or(
            mask, tn_eq_scalar(tn_arange(0, (double)s->keys, 1), 0));
    } else if (s->mask_rows) {
        mask = tn_randn(tn_dims(s->mask_rows, s->keys), .dtype = TN_F64);
    }
    if (mask && s->shared) {
        tn_tensor *two[] = {mask, tn_flip(mask, tn_dims(-2))};
        mask = tn_unsqueeze(tn_stack(two, 2, 0), 1);
    }
    if (mask && s->apart) { /* gives the mask a stride of 2 */
        tn_tensor *other = s->mask_is_bool ? tn_logical_not(mask) : tn_neg(mask);
        tn_tensor *two[] = {mask, other};
        mask = tn_select(tn_stack(two, 2, -1), -1, 0);
    }
    tn_tensor *y = tn_scaled_dot_product_attention(in[0], in[1], in[2], mask,
                                                   .is_causal = s->causal);
    tn_tensor *all = written_out(in[0], in[1], in[2], s, mask);
    note("%d queries, %d keys%s, mask of %d", (int)s->queries, (int)s->keys,
         s->causal ? ", causal" : "", (int)s->mask_rows);
    is_near(y, all, "the result");
    tn_tensor *g = tn_randn_like(all);
    tn_grad(y, in, 3, got, .gradient = g);
    tn_grad(all, in, 3, want, .gradient = g);
    is_near(got[0], want[0], "the gradient in query");
    is_near(got[1], want[1], "in key");
    is_near(got[2], want[2], "in value");
    tn_scope_close(scope);
}

/* A query that attends to one key gives it weight 1. The gradient of the score
 * is exactly 0, without a rounding error of the sum over values. */
static void check_one_key(void)
{
    const tn_dims_list many = tn_dims(1, 2, 8, 300);
    tn_tensor *in[3], *slope[3];
    for (int i = 0; i < 3; i++)
        in[i] = tn_requires_grad(tn_randn(many));
    tn_tensor *y = tn_scaled_dot_product_attention(in[0], in[1], in[2], NULL,
                                                   .is_causal = true);
    tn_grad(y, in, 3, slope, .gradient = tn_randn(many));
    ok(tn_item(tn_sum(tn_abs(tn_select(slope[0], 2, 0)))) == 0,
       "one key: no gradient in its query");
}

/* The score matrix of 16 MiB is never stored as a whole. */
static void check_memory(void)
{
    tn_device *device = tn_device_current();
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_randn(tn_dims(2048, 8));
    tn_memory_reset_peak(device);
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory(device, &before);
    tn_scaled_dot_product_attention(x, x, x, NULL);
    tn_memory(device, &after);
    int64_t more = after.peak_bytes - before.peak_bytes;
    ok(more > 0 && more < 8 << 20, "2048 queries of 2048 keys take %lld bytes",
       (long long)more);
    tn_scope_close(scope);
}

int main(void)
{
    static const sizes all[] = {
        {1, 1, true, 0, false, false, false},
        {128, 128, true, 0, false, false, false},
        {129, 129, true, 0, false, false, false},
        {300, 300, true, 0, false, false, false},
        {300, 140, true, 0, false, false, false},
        {140, 300, true, 0, false, false, false},
        {300, 70, false, 0, false, false, false},
        {300, 70, false, 300, false, false, false},
        {300, 70, false, 300, true, false, false},
        {300, 70, false, 1, true, false, false},
        {9000, 3, true, 0, false, false, false},
        {200, 500, false, 200, false, false, false},
        {200, 500, true, 0, false, true, false},
        {200, 500, false, 200, true, true, false},
        {60, 900, false, 1, false, true, false},
        {150, 300, false, 150, true, false, true},
        {150, 300, false, 150, false, false, true},
    };
    plan_later();
    tn_manual_seed(1);
    if (!tn_device_current())
        bail_out("%s", tn_error());
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(&all[i]);
    check_one_key();
    check_memory();
    tn_tensor *none = tn_zeros(tn_dims(2, 0, 4)), *k = tn_zeros(tn_dims(2, 3, 4));
    tn_tensor *y = tn_scaled_dot_product_attention(none, k, k, NULL);
    ok(y && tn_tensor_size(y, 1) == 0 && tn_tensor_size(y, 2) == 4,
       "of no queries");
    return done_testing();
}
