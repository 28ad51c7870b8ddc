/* Compiled functions: a replay gives the same bits as the function, for other
 * inputs, shapes and modes, on the device of TENON_DEVICE; and what a replay would
 * get wrong is an error. */
#include <tenon/tenon.h>

#include "../tap.h"

/* ---- comparison ---------------------------------------------------------- */

/* Returns whether two tensors have equal dtypes, shapes and bytes. */
static bool same_bits(tn_tensor *x, tn_tensor *y)
{
    bool same = tn_tensor_dtype(x) == tn_tensor_dtype(y) &&
                tn_tensor_ndim(x) == tn_tensor_ndim(y);
    for (int d = 0; same && d < tn_tensor_ndim(x); d++)
        same = tn_tensor_size(x, d) == tn_tensor_size(y, d);
    if (!same)
        return false;
    const size_t bytes =
        (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    same = a && b && tn_tensor_to_array(x, a, bytes) >= 0 &&
           tn_tensor_to_array(y, b, bytes) >= 0 &&
           memcmp(a, b, bytes) == 0;
    free(a);
    free(b);
    return same;
}

static tn_compiled_counts counts_of(const tn_compiled *c)
{
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(c, &counts);
    return counts;
}

/* Calls fn itself and its compiled form six times with new random inputs of these
 * shapes, and checks that the bits are the same. */
static tn_compiled *check_same(const char *name, tn_compile_fn fn, void *context,
                               tn_compiled *compiled, int in_count,
                               const tn_dims_list *shape, int out_count)
{
    if (!compiled)
        compiled = tn_compile(fn, context, .name = name);
    bool same = true;
    for (int round = 0; round < 6 && same && !tn_error(); round++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *in[8], *want[8] = {NULL}, *got[8] = {NULL};
        for (int i = 0; i < in_count; i++)
            in[i] = tn_randn(shape[i]);
        TN_NO_GRAD {
            const tn_rng_state random = tn_rng_snapshot();
            fn(in, in_count, want, out_count, context);
            tn_rng_restore(random);
            tn_compiled_run(compiled, in, in_count, got, out_count);
        }
        for (int o = 0; o < out_count && same && !tn_error(); o++)
            same = same_bits(want[o], got[o]);
        tn_scope_close(scope);
    }
    ok(same && !tn_error(), "%s: a replay has the same bits%s%s", name,
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
    tn_error_clear();
    return compiled;
}

/* ---- functions ------------------------------------------------------------ */

static tn_status chain(tn_tensor *const *in, int in_count, tn_tensor **out,
                       int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *x = in[0], *y = in[1], *z = tn_add(x, y);
    for (int i = 0; i < 4; i++)
        z = tn_sub(tn_relu(tn_add_scalar(tn_mul(z, y), 0.5)), x);
    out[0] = tn_tanh(tn_mul(tn_sigmoid(z), x));
    return TN_OK;
}

static tn_status broadcast(tn_tensor *const *in, int in_count, tn_tensor **out,
                           int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *h = tn_mul_scalar(tn_add(in[0], in[1]), 2);
    out[0] = tn_softmax(tn_gelu(h), -1);
    out[1] = tn_add(h, in[1]);
    return TN_OK;
}

static tn_status in_place(tn_tensor *const *in, int in_count, tn_tensor **out,
                          int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    tn_tensor *z = tn_mul_scalar(in[0], 3), *row = tn_select(z, 0, 1);
    tn_add_(z, in[1]);
    tn_relu_(row);
    tn_mul_(z, z);
    out[0] = tn_add(z, row);
    out[1] = tn_transpose(z, 0, 1);
    out[2] = in[0];
    out[3] = row;
    return TN_OK;
}

static tn_status network(tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count, void *context)
{
    (void)in_count, (void)out_count;
    out[0] = tn_forward(context, in[0]);
    return TN_OK;
}

static tn_status random_numbers(tn_tensor *const *in, int in_count,
                                tn_tensor **out, int out_count, void *context)
{
    (void)in_count, (void)out_count, (void)context;
    out[0] = tn_mul(tn_dropout(in[0], 0.4, true), tn_rand_like(in[0]));
    out[1] = tn_dropout(out[0], 0.1, true);
    return TN_OK;
}

static void check_functions(void)
{
    tn_scope *scope = tn_scope_open();
    const tn_dims_list flat[] = {tn_dims(1000), tn_dims(1000)};
    tn_compiled *c = check_same("chain", chain, NULL, NULL, 2, flat, 1);
    if (getenv("TENON_TEST_VERBOSE"))
        printf("%s\n", tn_compiled_text(c) ? tn_compiled_text(c) : tn_error());
    tn_compiled_counts counts = counts_of(c);
    ok(counts.captures == 2 && counts.replays == 4 && counts.plans == 1,
       "two captures make a program: %lld, %lld", (long long)counts.captures,
       (long long)counts.replays);
    ok(counts.recorded == 20 && counts.launches == 1 && counts.arena_bytes == 0,
       "20 launches become one: %lld become %lld",
       (long long)counts.recorded, (long long)counts.launches);
    const tn_dims_list wide[] = {tn_dims(7, 50), tn_dims(7, 50)};
    check_same("chain of another shape", chain, NULL, c, 2, wide, 1);
    const tn_dims_list rows[] = {tn_dims(5, 33), tn_dims(33)};
    check_same("broadcast", broadcast, NULL, NULL, 2, rows, 2);
    const tn_dims_list square[] = {tn_dims(9, 9), tn_dims(9, 9)};
    check_same("in place", in_place, NULL, NULL, 2, square, 4);
    check_same("random numbers", random_numbers, NULL, NULL, 1, wide, 2);
    tn_module *net = tn_nn_sequential(
        tn_nn_conv2d(1, 4, 3, .padding = 1), tn_nn_batch_norm2d(4),
        tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_dropout(0.3), tn_nn_linear(64, 12), tn_nn_layer_norm(tn_dims(12)),
        tn_nn_gelu(), tn_nn_linear(12, 10), tn_nn_softmax(-1));
    const tn_dims_list image[] = {tn_dims(6, 1, 8, 8)};
    c = check_same("network", network, net, NULL, 1, image, 1);
    if (getenv("TENON_TEST_VERBOSE"))
        printf("%s\n", tn_compiled_text(c) ? tn_compiled_text(c) : tn_error());
    tn_scope_close(scope);
}

int main(void)
{
    plan_later();
    check_functions();
    return done_testing();
}
