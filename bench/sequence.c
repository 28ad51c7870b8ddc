/* sequence.c: attention, recurrent layers, transformer blocks, and products
 * named by their indices. */
#include "bench.h"

enum { HEAD = 32, HEADS = 4 };

/* size: batch, time. Queries, keys and values of 4 heads of 32 features. */
static void open_heads(bench_state *s)
{
    tn_dims_list dims = tn_dims(s->size[0], HEADS, s->size[1], HEAD);
    s->a = tn_requires_grad(tn_rand(dims));
    s->b = tn_requires_grad(tn_rand(dims));
    s->c = tn_requires_grad(tn_rand(dims));
}

/* size: batch, time, features. */
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
                      .batch_first = true, .no_dropout = true))

/* size: batch and the sides of square matrices */
static void open_squares(bench_state *s)
{
    tn_dims_list dims = tn_dims(s->size[0], s->size[1], s->size[1]);
    s->a = tn_rand(dims);
    s->b = tn_rand(dims);
}

/* size: points, features */
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

/* The gradients of a net go to its parameters. */
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

#define BOTH(name, open, ...)                                                 \
    {#name, {__VA_ARGS__}, open, name, BENCH_NO_BOUND, 0, 0},                 \
    {#name "_back", {__VA_ARGS__}, open, name##_back, BENCH_NO_BOUND, 0, 0}
#define NET(name, ...)                                                        \
    {#name, {__VA_ARGS__}, open_##name, net, BENCH_NO_BOUND, 0, 0},           \
    {#name "_back", {__VA_ARGS__}, open_##name, net_back, BENCH_NO_BOUND, 0,  \
     0}
#define ALONE(name, open, ...)                                                \
    {#name, {__VA_ARGS__}, open, name, BENCH_NO_BOUND, 0, 0}

static const bench_work work[] = {
    BOTH(attention, open_heads, 16, 128),
    BOTH(attention, open_heads, 1, 1024),
    BOTH(causal, open_heads, 16, 128),
    BOTH(causal, open_heads, 1, 1024),
    NET(rnn, 32, 32, 128),
    NET(gru, 32, 32, 128),
    NET(lstm, 32, 32, 128),
    NET(lstm2, 32, 32, 64),
    NET(encoder, 16, 128, 128),
    ALONE(einsum_batch, open_squares, 32, 128),
    ALONE(einsum_outer, open_squares, 32, 128),
    ALONE(einsum_trace, open_squares, 32, 128),
    ALONE(tensordot, open_squares, 32, 128),
    ALONE(cdist, open_points, 1024, 64),
    ALONE(cdist_l1, open_points, 512, 64),
    {.name = NULL},
};
const bench_group bench_sequence = {"sequence", work};
