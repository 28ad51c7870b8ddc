/* training.c: measures one training step: forward, loss, gradients and update.
 * The data are random and in memory, so loading is not measured.
 *
 * The limit counts only the multiply-adds of matrix products and convolutions,
 * forward and backward. The gradient of the first layer's input is not needed
 * and not counted. */
#include "bench.h"
#include "models.h"

static void open_labels(bench_state *s, int64_t batch)
{
    s->b = tn_randint(0, 10, tn_dims(batch), .dtype = TN_I64);
}

static void learn(bench_state *s, tn_tensor *out)
{
    s->loss = tn_cross_entropy(out, s->b);
    tn_optim_zero_grad(s->optim);
    tn_backward(s->loss);
    tn_optim_step(s->optim);
}

static void step(bench_state *s)
{
    learn(s, tn_forward(s->net, s->a));
}

static void open_cnn(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], 1, 8, 8));
    open_labels(s, s->size[0]);
    s->net = bench_cnn();
    s->optim =
        tn_optim_sgd(tn_parameters(s->net), .lr = 0.03, .momentum = 0.9);
}

static void open_cnn28(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], 1, 28, 28));
    open_labels(s, s->size[0]);
    s->net = bench_cnn28();
    s->optim =
        tn_optim_sgd(tn_parameters(s->net), .lr = 0.01, .momentum = 0.9);
}

static void open_mlp(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], 784));
    open_labels(s, s->size[0]);
    s->net = bench_mlp();
    s->optim = tn_optim_sgd(tn_parameters(s->net), .lr = 0.01);
}

/* Prepares an LSTM that reads digits row by row: 8 steps of 8 pixels. */
static void open_lstm(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], 8, 8));
    open_labels(s, s->size[0]);
    s->part[0] = tn_nn_lstm(8, 64, .batch_first = true);
    s->part[1] = tn_nn_linear(64, 10);
    s->net = tn_nn_sequential(s->part[0], s->part[1]);
    s->optim = tn_optim_adam(tn_parameters(s->net), .lr = 1e-3);
}

static void step_lstm(bench_state *s)
{
    tn_tensor *out = tn_forward(s->part[0], s->a);
    learn(s, tn_forward(s->part[1], tn_select(out, 1, -1)));
}

/* size[] is the number of images (3 x 32 x 32). */
static void open_resnet20(bench_state *s)
{
    s->a = tn_rand(tn_dims(s->size[0], 3, 32, 32));
    open_labels(s, s->size[0]);
    s->net = bench_resnet20();
    s->optim = tn_optim_sgd(tn_parameters(s->net), .lr = 0.1, .momentum = 0.9,
                            .weight_decay = 1e-4);
}

/* size[] is the number of texts, and the number of tokens of each. */
static void open_text(bench_state *s, int64_t vocabulary)
{
    tn_dims_list dims = tn_dims(s->size[0], s->size[1]);
    s->a = tn_randint(0, vocabulary, dims, .dtype = TN_I64);
    s->b = tn_randint(0, vocabulary, tn_dims(s->size[0] * s->size[1]),
                      .dtype = TN_I64);
}

/* The vocabulary is the characters of Shakespeare's works. */
static void open_gpt(bench_state *s)
{
    enum { VOCABULARY = 65 };
    open_text(s, VOCABULARY);
    s->net = bench_gpt(VOCABULARY);
    s->optim = tn_optim_adamw(tn_parameters(s->net), .lr = 1e-3);
}

static void step_gpt(bench_state *s)
{
    learn(s,
          tn_flatten(tn_forward(s->net, s->a), .start_dim = 0, .end_dim = 1));
}

/* size[] is the number of texts, the number of tokens of each, and the number
 * of layers. */
static void open_gpt2(bench_state *s)
{
    open_text(s, BENCH_GPT2_WORDS);
    s->net = bench_gpt2(s->size[2], s->size[1]);
    s->optim = tn_optim_adamw(tn_parameters(s->net), .lr = 3e-4);
}

static void step_gpt2_bf16(bench_state *s)
{
    tn_optim_zero_grad(s->optim);
    TN_AUTOCAST(TN_BF16) {
        tn_tensor *out = tn_forward(s->net, s->a);
        out = tn_flatten(out, .start_dim = 0, .end_dim = 1);
        s->loss = tn_cross_entropy(out, s->b);
    }
    tn_backward(s->loss);
    tn_optim_step(s->optim);
}

/* Multiply-adds for each sample of both convolutions and both linear layers. */
#define CNN_FLOPS                                                             \
    (2. * (BENCH_3X3 * (64 * 9 * 16 * 2 + 16 * 144 * 32 * 3) +                \
           (128 * 64 + 640) * 3))
#define CNN28_FLOPS                                                           \
    (2. * (BENCH_3X3 * (676 * 9 * 32 * 2 + 576 * 288 * 64 * 3) +              \
           (9216 * 128 + 1280) * 3))
#define MLP_FLOPS (2. * (784 * 128 * 2 + 1280 * 3))
#define LSTM_FLOPS (2. * (8 * (8 * 256 * 2 + 64 * 256 * 3) + 640 * 3))

/* Millions of multiply-adds for each image: 0.44 in the first convolution,
 * whose input needs no gradient, 14.16, 12.98 and 12.98 in the stages, 0.26 in
 * the shortcuts. Two of the stages begin with a stride of two, so the limit is
 * slightly too low. */
#define RESNET20_FLOPS                                                        \
    (2. * (BENCH_3X3 * (2 * 0.44e6 + 3 * 40.12e6) + 3 * 0.26e6))
/* Multiply-adds for each character: 12 W^2 in each of 4 layers of W = 128
 * features, attention to half of 128 positions on average, and the head. */
#define GPT_FLOPS (6. * (4 * (12 * 128 * 128 + 2 * 128 * 64) + 65 * 128))
/* The same for each token of GPT-2: 12 layers of 768 features, and attention to
 * half of 1024 positions on average. */
#define GPT2_FLOPS                                                            \
    (6. * (12 * (12 * 768 * 768 + 2 * 768 * 512) + 50257 * 768))

static const bench_work work[] = {
    {"cnn", {32}, open_cnn, step, BENCH_FLOPS(32 * CNN_FLOPS),
     0},
    {"cnn28", {64}, open_cnn28, step, BENCH_FLOPS(64 * CNN28_FLOPS),
     0},
    {"mlp", {64}, open_mlp, step, BENCH_FLOPS(64 * MLP_FLOPS),
     0},
    {"lstm", {32}, open_lstm, step_lstm, BENCH_FLOPS(32 * LSTM_FLOPS),
     0},
    {"resnet20", {32}, open_resnet20, step, BENCH_FLOPS(32 * RESNET20_FLOPS),
     0},
    {"gpt", {16, 128}, open_gpt, step_gpt, BENCH_FLOPS(16 * 128 * GPT_FLOPS),
     0},
    {.name = NULL},
};
const bench_group bench_training = {"training", work};

/* Training under autocast to bfloat16, and in float32. */
static const bench_work large[] = {
    {"gpt2", {8, 1024, 12}, open_gpt2, step_gpt2_bf16, BENCH_FLOPS(8 * 1024 * GPT2_FLOPS),
     0},
    {"gpt2_f32", {4, 1024, 12}, open_gpt2, step_gpt, BENCH_FLOPS(4 * 1024 * GPT2_FLOPS),
     0},
    {.name = NULL},
};
const bench_group bench_large = {"large", large};
