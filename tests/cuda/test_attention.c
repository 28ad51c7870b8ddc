/* The CUDA plugin's attention kernels, on the simulated driver, equal the
 * decomposition into separate operators: results, first and second derivatives.
 * Dropout drops the same elements, and the score matrix is never stored in
 * memory. */
#include "../tap.h"
#include "on_sim.h"

typedef struct sizes {
    tn_dtype dtype;
    int64_t batch, heads, kv_heads, queries, keys, features, values;
    bool causal;
    int mask; /* 0: none; 1: bool; 2: float, added */
    double dropout;
} sizes;

static const sizes all[] = {
    {TN_F32, 2, 2, 2, 70, 70, 16, 16, true, 0, 0},
    {TN_F32, 1, 4, 2, 33, 65, 20, 24, false, 1, 0},
    {TN_F32, 1, 2, 1, 40, 37, 64, 40, false, 2, 0.25},
    {TN_F32, 1, 1, 1, 34, 50, 100, 128, true, 0, 0.5},
    {TN_F16, 1, 2, 2, 66, 70, 32, 32, true, 0, 0},
    {TN_BF16, 1, 4, 2, 20, 70, 64, 64, false, 1, 0.25},
    {TN_F16, 1, 1, 1, 70, 150, 128, 128, false, 2, 0},
    {TN_BF16, 1, 2, 2, 130, 130, 64, 16, true, 0, 0.5},
    {TN_F16, 1, 2, 1, 70, 66, 20, 12, true, 0, 0},
};

static tn_tensor *some(const sizes *s, int64_t heads, int64_t length,
                       int64_t size)
{
    tn_tensor *x = tn_randn(tn_dims(s->batch, heads, length, size));
    return tn_requires_grad(tn_to_dtype(x, s->dtype));
}

typedef struct results {
    tn_tensor *y, *g[3], *again[3];
} results;

/* Computes attention with the extension or without it. If `twice` is set, also
 * the gradients of a sum of the gradients. */
static results run(const sizes *s, const char *mask_of, bool twice)
{
    results r;
    tn_tensor *in[3], *mask = NULL;
    tn_device_mask(NULL, mask_of);
    tn_manual_seed(7);
    in[0] = some(s, s->heads, s->queries, s->features);
    in[1] = some(s, s->kv_heads, s->keys, s->features);
    in[2] = some(s, s->kv_heads, s->keys, s->values);
    tn_tensor *g = tn_randn(
        tn_dims(s->batch, s->heads, s->queries, s->values));
    g = tn_to_dtype(g, s->dtype);
    if (s->mask == 1) /* the first query attends to no key */
        mask = tn_logical_and(
            tn_gt_scalar(tn_rand(tn_dims(s->queries, s->keys)), 0.5),
            tn_unsqueeze(
                tn_gt_scalar(tn_arange(0, (double)s->queries, 1), 0), 1));
    else if (s->mask == 2)
        mask = tn_randn(tn_dims(s->heads, 1, s->keys));
    r.y = tn_scaled_dot_product_attention(
        in[0], in[1], in[2], mask, .is_causal = s->causal,
        .dropout_p = s->dropout, .enable_gqa = true);
    tn_grad(r.y, in, 3, r.g, .gradient = g, .create_graph = twice);
    if (twice) {
        tn_tensor *sum = tn_sum(tn_mul(r.g[0], r.g[0]));
        sum = tn_add(sum, tn_sum(tn_mul(r.g[1], r.g[1])));
        sum = tn_add(sum, tn_sum(tn_mul(r.g[2], r.g[2])));
        tn_grad(sum, in, 3, r.again);
    }
    tn_device_mask(NULL, NULL);
    return r;
}

/* The tolerance covers rounding of sums and of half types. The decomposition
 * rounds results to the half type once; the kernel also rounds the weights. */
static void is_near(tn_tensor *got, tn_tensor *want, const sizes *s,
                    const char *what)
{
    double unit = s->dtype == TN_F32   ? 0x1p-18
                  : s->dtype == TN_F16 ? 0x1p-9
                                       : 0x1p-6;
    tn_tensor *scale = tn_max(tn_abs(want));
    tn_tensor *apart =
        tn_max(tn_abs(tn_sub(tn_to_dtype(got, TN_F32),
                             tn_to_dtype(want, TN_F32))));
    double by = tn_item(apart), size = tn_item(scale);
    ok(by <= unit * (1 + size), "%s: %g apart of %g%s%s", what, by, size,
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
}

static void check(const sizes *s, bool twice)
{
    static const char *const names[] = {"query", "key", "value"};
    tn_scope *scope = tn_scope_open();
    note("%s (%d, %d of %d, %d x %d, %d, %d)%s, mask %d, dropout %g",
         tn_dtype_name(s->dtype), (int)s->batch, (int)s->kv_heads,
         (int)s->heads, (int)s->queries, (int)s->keys, (int)s->features,
         (int)s->values, s->causal ? " causal" : "", s->mask, s->dropout);
    results got = run(s, NULL, twice), want = run(s, "attention", twice);
    is_near(got.y, want.y, s, "the result");
    for (int i = 0; i < 3; i++)
        is_near(got.g[i], want.g[i], s, names[i]);
    for (int i = 0; twice && i < 3; i++)
        is_near(got.again[i], want.again[i], s, "the gradient's gradient");
    tn_scope_close(scope);
}

/* Queries differ for each batch and head, keys for each batch, and all share
 * the values. Broadcast operands are read in place, and their gradients are
 * summed. */
static void check_broadcast(bool shares_heads)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *in[] = {tn_requires_grad(tn_randn(tn_dims(3, 4, 9, 8))),
                       tn_requires_grad(tn_randn(shares_heads
                                                     ? tn_dims(1, 2, 11, 8)
                                                     : tn_dims(3, 1, 11, 8))),
                       tn_requires_grad(tn_randn(shares_heads
                                                     ? tn_dims(2, 11, 5)
                                                     : tn_dims(11, 5)))};
    tn_tensor *mask = tn_randn(tn_dims(4, 9, 11)), *got[4], *want[4];
    int64_t bytes[2];
    for (int way = 0; way < 2; way++) {
        tn_tensor **to = way ? want : got;
        tn_memory_stats before = {.size = sizeof before}, after = before;
        tn_device_mask(NULL, way ? "attention" : NULL);
        tn_memory(tn_device_current(), &before);
        to[3] = tn_scaled_dot_product_attention(in[0], in[1], in[2], mask,
                                                .enable_gqa = shares_heads);
        tn_memory(tn_device_current(), &after);
        bytes[way] = after.allocated_bytes - before.allocated_bytes;
        tn_grad(tn_sum(tn_mul(to[3], to[3])), in, 3, to);
    }
    tn_device_mask(NULL, NULL);
    ok(bytes[0] < bytes[1] / 2, "%lld bytes are kept, not %lld: no weights",
       (long long)bytes[0], (long long)bytes[1]);
    for (int i = 0; i < 4; i++)
        ok(tn_item(tn_allclose(got[i], want[i], .rtol = 1e-4, .atol = 1e-5)) == 1,
           "%s %d of broadcast batches%s%s", i < 3 ? "gradient" : "result", i,
           tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_scope_close(scope);
}

static void check_masked_between(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_requires_grad(tn_randn(tn_dims(2, 5, 4))), *got, *want;
    tn_tensor *y = tn_scaled_dot_product_attention(x, x, x, NULL);
    tn_grad(y, &x, 1, &want, .gradient = tn_ones_like(y), .retain_graph = true);
    tn_device_mask(NULL, "attention");
    tn_grad(y, &x, 1, &got, .gradient = tn_ones_like(y));
    tn_device_mask(NULL, NULL);
    ok(tn_item(tn_allclose(got, want, .rtol = 1e-5, .atol = 1e-5)) == 1,
       "a device whose attention fails uses operators for the gradient%s",
       tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_scope_close(scope);
}

/* Operators without a public C function can be called by name. */
static void check_by_name(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_zeros(tn_dims(1, 1, 1, 1, 2, 3)), *out[3];
    const tn_op *op = tn_op_find("attention_forward");
    tn_value value[] = {
        {TN_VALUE_TENSOR, 0, {.tensor = x}},
        {TN_VALUE_TENSOR, 0, {.tensor = x}},
        {TN_VALUE_TENSOR, 0, {.tensor = x}},
        {TN_VALUE_NONE, 0, {.i = 0}},
        {TN_VALUE_FLOAT, 0, {.f = 0}},
        {TN_VALUE_BOOL, 0, {.i = 0}},
        {TN_VALUE_FLOAT, 0, {.f = 1}},
        {TN_VALUE_INT, 0, {.i = 0}},
        {TN_VALUE_INT, 0, {.i = 0}},
    };
    ok(op && tn_op_call(op, value, 9, out, 3) == TN_ERR_SHAPE,
       "six dimensions are refused");
    tn_error_clear();
    x = tn_requires_grad(tn_zeros(tn_dims(2, 3)));
    for (int i = 0; i < 3; i++)
        value[i].of.tensor = x;
    ok(op && tn_op_call(op, value, 9, out, 3) == 2 &&
           tn_backward(tn_sum(out[1])) == TN_ERR_UNSUPPORTED,
       "and a gradient of the logsumexp");
    tn_error_clear();
    tn_scope_close(scope);
}

/* Scores would take 4 MiB, which the peak of allocated memory would show.
 * Operands are not contiguous. */
static void check_memory(void)
{
    tn_device *device = tn_device_current();
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = tn_transpose(tn_randn(tn_dims(1, 1024, 1, 4)), 1, 2);
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_memory_reset_peak(device);
    tn_memory(device, &before);
    tn_tensor *y = tn_scaled_dot_product_attention(x, x, x, NULL);
    tn_memory(device, &after);
    int64_t more = after.peak_bytes - before.peak_bytes;
    tn_device_mask(NULL, "attention");
    tn_tensor *want = tn_scaled_dot_product_attention(x, x, x, NULL);
    tn_device_mask(NULL, NULL);
    ok(more > 0 && more < 65536, "1024 queries of as many keys take %lld bytes",
       (long long)more);
    ok(tn_item(tn_allclose(y, want, .rtol = 1e-5, .atol = 1e-6)) == 1, "and are right");
    tn_scope_close(scope);
}

typedef struct step {
    tn_tensor *x, *y;
} step;

static tn_tensor *dropping(tn_tensor *x)
{
    return tn_scaled_dot_product_attention(x, x, x, NULL, .dropout_p = 0.5);
}

static tn_status run_step(void *context)
{
    step *s = context;
    return tn_copy_(s->y, dropping(s->x)) ? TN_OK : tn_error_code();
}

/* A replayed graph draws new random numbers. */
static void check_replay(void)
{
    tn_scope *scope = tn_scope_open();
    step s = {tn_randn(tn_dims(2, 8, 4)), tn_zeros(tn_dims(2, 8, 4))};
    tn_tensor *want[3];
    tn_rng_restore((tn_rng_state){3, 0});
    for (int i = 0; i < 3; i++)
        want[i] = dropping(s.x);
    tn_rng_restore((tn_rng_state){3, 0});
    tn_graph *graph = tn_graph_record(run_step, &s);
    for (int i = 0; i < 3; i++) {
        if (i)
            tn_graph_replay(graph);
        ok(tn_item(tn_all(tn_eq(s.y, want[i]))) == 1,
           "step %d drops as the call does%s%s", i, tn_error() ? ": " : "",
           tn_error() ? tn_error() : "");
        tn_error_clear();
    }
    tn_scope_close(scope);
}

int main(int argc, char **argv)
{
    (void)argc;
    plan_later();
    on_any_driver(argv);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    tn_device_set(tn_device_open("cuda"));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(&all[i], false);
    const sizes small = {TN_F32, 1, 2, 1, 5, 7, 4, 3, false, 0, 0.25};
    const sizes causal = {TN_F32, 1, 2, 2, 6, 6, 4, 4, true, 0, 0};
    check(&small, true);
    check(&causal, true);
    check_broadcast(false);
    check_broadcast(true);
    check_masked_between();
    check_by_name();
    check_memory();
    check_replay();
    return done_testing();
}
