/* sequence.c: measures attention, recurrent layers, transformer blocks, and
 * einsum. */
#include "bench.h"

enum { HEAD = 32, HEADS = 4 };

/* size[] is the batch size and the number of time steps. Queries, keys and
 * values have 4 heads of 32 features. */
static void open_heads(bench_state *s)
{
    tn_dims_list dims = tn_dims(s->size[0], HEADS, s->size[1], HEAD);
    s->a = tn_requires_grad(tn_rand(dims));
    s->b = tn_requires_grad(tn_rand(dims));
    s->c = tn_requires_grad(tn_rand(dims));
}

/* size[] is the batch size, the number of time steps and of features. */
static void open_steps(bench_state *s)
{
    s->a =
        tn_requires_grad(tn_rand(tn_dims(s->size[0], s->size[1], s->size[2])));
}

#define OPEN_NET(name, ...)                                                   \
    static void open_##name(bench_state *s)                                   \
    {                                                                         \
        open_steps(s);                                                        \
        s->net = __VA_ARGS__;                                                 \
    }
OPEN_NET(rnn, tn_nn_rnn(s->size[2], s->size[2], .batch_first = true))
OPEN_NET(gru, tn_nn_gru(s->size[2], s->size[2], .batch_first = true))
OPEN_NET(lstm, tn_nn_lstm(s->size[2], s->size[2], .batch_first = true))
OPEN_NET(lstm2, tn_nn_lstm(s->size[2], s->size[2], .batch_first = true,
                           .num_layers = 2, .bidirectional = true))
OPEN_NET(encoder, tn_nn_transformer_encoder_layer(
                      s->size[2], HEADS, .dim_feedforward = 4 * s->size[2],
                      .batch_first = true, .dropout = false))

/* size[] is the batch size, and the numbers of rows and columns of square
 * matrices. */
static void open_squares(bench_state *s)
{
    tn_dims_list dims = tn_dims(s->size[0], s->size[1], s->size[1]);
    s->a = tn_rand(dims);
    s->b = tn_rand(dims);
}

/* size[] is the number of points and of features. */
static void open_points(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], s->size[1]));
    s->b = tn_rand(tn_dims(s->size[0], s->size[1]));
}

static tn_tensor *attend(bench_state *s, bool causal)
{
    return tn_scaled_dot_product_attention(s->a, s->b, s->c, NULL,
                                           .is_causal = causal);
}

static tn_tensor *contract(bench_state *s, const char *equation)
{
    return tn_einsum(equation, (tn_tensor *[]){s->a, s->b}, 2);
}

/* Computes the gradients of a network's parameters. */
static void net(bench_state *s)
{
    TN_NO_GRAD
    tn_forward(s->net, s->a);
}

static void net_back(bench_state *s)
{
    tn_tensor *out = tn_forward(s->net, s->a);
    tn_module_zero_grad(s->net);
    tn_tensor_set_grad(s->a, NULL);
    tn_backward(out, .gradient = tn_ones_like(out));
}

BENCH_BOTH(attention, attend(s, false))
BENCH_BOTH(causal, attend(s, true))
BENCH_CALL(einsum_batch, contract(s, "bij,bjk->bik"))
BENCH_CALL(einsum_outer, contract(s, "bij,bkj->bik"))
BENCH_CALL(einsum_trace, contract(s, "bij,bij->b"))
BENCH_CALL(tensordot, tn_tensordot(s->a, s->b, tn_dims(1, 2, 1, 2)))
BENCH_CALL(cdist, tn_cdist(s->a, s->b))
BENCH_CALL(cdist_l1, tn_cdist(s->a, s->b, .p = 1))

/* Two products forward and four for the gradients. A causal mask halves the
 * work of each. */
#define ATTENTION(name, n, time, part)                                        \
    {#name, {n, time}, open_heads, name,                                      \
     BENCH_FLOPS(4. * (part) * (n) * HEADS * HEAD * (time) * (time)), 0},     \
    {#name "_back", {n, time}, open_heads, name##_back,                       \
     BENCH_FLOPS(12. * (part) * (n) * HEADS * HEAD * (time) * (time)), 0}
/* `weights` is the number of weights of a network. Each needs one multiply-add
 * per step and sample in the forward pass, and one for each of the two
 * gradients. */
#define NET(name, n, time, c, weights)                                        \
    {#name, {n, time, c}, open_##name, net,                                   \
     BENCH_FLOPS(2. * (n) * (time) * (weights)), 0},                          \
    {#name "_back", {n, time, c}, open_##name, net_back,                      \
     BENCH_FLOPS(6. * (n) * (time) * (weights)), 0}

static const bench_work work[] = {
    ATTENTION(attention, 16, 128, 1),
    ATTENTION(attention, 1, 1024, 1),
    ATTENTION(causal, 16, 128, 0.5),
    ATTENTION(causal, 1, 1024, 0.5),
    NET(rnn, 32, 32, 128, 2 * 128 * 128),
    NET(gru, 32, 32, 128, 3 * 2 * 128 * 128),
    NET(lstm, 32, 32, 128, 4 * 2 * 128 * 128),
    /* both layers have two directions; the second layer reads both outputs of
     * the first */
    NET(lstm2, 32, 32, 64, 2 * 4 * 64 * ((64 + 64) + (128 + 64))),
    /* weights of the feed-forward network and of the attention */
    NET(encoder, 16, 128, 128, 12 * 128 * 128 + 2 * 128 * 128),
    {"einsum_batch",
     {32, 128},
     open_squares,
     einsum_batch,
     BENCH_FLOPS(2. * 32 * 128 * 128 * 128),
     0},
    {"einsum_outer",
     {32, 128},
     open_squares,
     einsum_outer,
     BENCH_FLOPS(2. * 32 * 128 * 128 * 128),
     0},
    {"einsum_trace",
     {32, 128},
     open_squares,
     einsum_trace,
     BENCH_READ(2 * 32 * 128 * 128),
     0},
    {"tensordot",
     {32, 128},
     open_squares,
     tensordot,
     BENCH_FLOPS(2. * 32 * 32 * 128 * 128),
     0},
    {"cdist",
     {1024, 64},
     open_points,
     cdist,
     BENCH_FLOPS(2. * 1024 * 1024 * 64),
     0},
    {"cdist_l1",
     {512, 64},
     open_points,
     cdist_l1,
     BENCH_MOVE(2 * 512 * 64, 512 * 512),
     0},
    {.name = NULL},
};
const bench_group bench_sequence = {"sequence", work};
