/* models.c: the networks of models.h. */
#include "models.h"

tn_module *bench_mlp(void)
{
    return tn_nn_sequential(tn_nn_linear(784, 128), tn_nn_relu(),
                            tn_nn_linear(128, 10));
}

tn_module *bench_cnn(void)
{
    return tn_nn_sequential(
        tn_nn_conv2d(1, 16, 3, .padding = 1), tn_nn_relu(), tn_nn_max_pool2d(2),
        tn_nn_conv2d(16, 32, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2), tn_nn_flatten(), tn_nn_linear(128, 64),
        tn_nn_relu(), tn_nn_linear(64, 10));
}

tn_module *bench_cnn28(void)
{
    return tn_nn_sequential(
        tn_nn_conv2d(1, 32, 3), tn_nn_relu(), tn_nn_conv2d(32, 64, 3),
        tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(),
        tn_nn_linear(9216, 128), tn_nn_relu(), tn_nn_linear(128, 10));
}

/* ---- ResNet-20 ----------------------------------------------------------- */

/* Computes relu(body(x) + shortcut(x)). If shortcut is NULL, adds x itself. */
struct block {
    tn_module base;
    tn_module *body, *shortcut;
};

static tn_tensor *block_forward(tn_module *self, tn_tensor *x)
{
    struct block *block = (struct block *)self;
    tn_tensor *same = block->shortcut ? tn_forward(block->shortcut, x) : x;
    return tn_relu(tn_add(tn_forward(block->body, x), same));
}

static const tn_module_class block_class = {.size = sizeof block_class,
                                            .name = "Block",
                                            .bytes = sizeof(struct block),
                                            .forward = block_forward};

static tn_module *conv(int64_t in, int64_t out, int64_t size, int64_t stride)
{
    return tn_nn_conv2d(in, out, size, .stride = stride, .padding = size / 2,
                        .bias = false);
}

/* Makes a block. body's result has `out` channels, its input `in`. */
static tn_module *block_of(tn_module *body, int64_t in, int64_t out,
                           int64_t stride)
{
    struct block *block = tn_module_new(&block_class);
    if (!block)
        return NULL;
    block->body = tn_module_add(&block->base, "body", body);
    if (in != out)
        block->shortcut =
            tn_module_add(&block->base, "shortcut",
                          tn_nn_sequential(conv(in, out, 1, stride),
                                           tn_nn_batch_norm2d(out)));
    return &block->base;
}

static tn_module *block_new(int64_t in, int64_t out, int64_t stride)
{
    return block_of(
        tn_nn_sequential(conv(in, out, 3, stride), tn_nn_batch_norm2d(out),
                         tn_nn_relu(), conv(out, out, 3, 1),
                         tn_nn_batch_norm2d(out)),
        in, out, stride);
}

static tn_module *bottleneck_new(int64_t in, int64_t width, int64_t stride)
{
    return block_of(
        tn_nn_sequential(conv(in, width, 1, 1), tn_nn_batch_norm2d(width),
                         tn_nn_relu(), conv(width, width, 3, stride),
                         tn_nn_batch_norm2d(width), tn_nn_relu(),
                         conv(width, 4 * width, 1, 1),
                         tn_nn_batch_norm2d(4 * width)),
        in, 4 * width, stride);
}

tn_module *bench_resnet50(void)
{
    static const int stages[] = {3, 4, 6, 3};
    enum { BLOCKS = 16 };
    tn_module *blocks[BLOCKS];
    int64_t in = 64;
    for (int stage = 0, b = 0; stage < 4; stage++)
        for (int i = 0; i < stages[stage]; i++, b++) {
            const int64_t width = (int64_t)64 << stage;
            blocks[b] = bottleneck_new(in, width, i || !stage ? 1 : 2);
            in = 4 * width;
        }
    return tn_nn_sequential(
        conv(3, 64, 7, 2), tn_nn_batch_norm2d(64), tn_nn_relu(),
        tn_nn_max_pool2d(3, .stride = 2, .padding = 1),
        tn_nn_sequential_with(blocks, BLOCKS), tn_nn_adaptive_avg_pool2d(1, 1),
        tn_nn_flatten(), tn_nn_linear(2048, 1000));
}

tn_module *bench_resnet20(void)
{
    return tn_nn_sequential(
        conv(3, 16, 3, 1), tn_nn_batch_norm2d(16), tn_nn_relu(),
        block_new(16, 16, 1), block_new(16, 16, 1), block_new(16, 16, 1),
        block_new(16, 32, 2), block_new(32, 32, 1), block_new(32, 32, 1),
        block_new(32, 64, 2), block_new(64, 64, 1), block_new(64, 64, 1),
        tn_nn_adaptive_avg_pool2d(1, 1), tn_nn_flatten(), tn_nn_linear(64, 10));
}

/* ---- a character model --------------------------------------------------- */

enum { LAYERS = 4, HEADS = 4, WIDTH = 128, CONTEXT = 128 };

struct gpt {
    tn_module base;
    tn_module *token, *place, *blocks, *head;
};

static tn_tensor *gpt_forward(tn_module *self, tn_tensor *ids)
{
    struct gpt *gpt = (struct gpt *)self;
    tn_tensor *places = tn_arange(0, tn_tensor_size(ids, 1), 1,
                                  .device = tn_tensor_device(ids));
    tn_tensor *x =
        tn_add(tn_forward(gpt->token, ids), tn_forward(gpt->place, places));
    x = tn_nn_transformer_encoder_forward(gpt->blocks, x, .is_causal = true);
    return tn_forward(gpt->head, x);
}

static const tn_module_class gpt_class = {.size = sizeof gpt_class,
                                          .name = "GPT",
                                          .bytes = sizeof(struct gpt),
                                          .forward = gpt_forward};

tn_module *bench_gpt(int64_t vocabulary)
{
    struct gpt *gpt = tn_module_new(&gpt_class);
    if (!gpt)
        return NULL;
    gpt->token =
        tn_module_add(&gpt->base, "token", tn_nn_embedding(vocabulary, WIDTH));
    gpt->place =
        tn_module_add(&gpt->base, "place", tn_nn_embedding(CONTEXT, WIDTH));
    gpt->blocks = tn_module_add(
        &gpt->base, "blocks",
        tn_nn_transformer_encoder(
            WIDTH, HEADS, LAYERS, .dim_feedforward = 4 * WIDTH,
            .activation = "gelu", .dropout = false, .batch_first = true,
            .norm_first = true, .final_norm = true));
    gpt->head =
        tn_module_add(&gpt->base, "head", tn_nn_linear(WIDTH, vocabulary));
    return gpt->head ? &gpt->base : NULL;
}

/* ---- GPT-2 --------------------------------------------------------------- */

struct gpt2_block {
    tn_module base;
    int64_t heads;
    tn_module *norm1, *qkv, *out, *norm2, *mlp;
};

static tn_tensor *gpt2_block_forward(tn_module *self, tn_tensor *x)
{
    struct gpt2_block *block = (struct gpt2_block *)self;
    tn_tensor *part[3] = {NULL};
    tn_tensor *qkv = tn_forward(block->qkv, tn_forward(block->norm1, x));
    /* splits (N, T, 3 * heads * 64) into queries, keys and values of shape (N,
     * heads, T, 64) */
    qkv = tn_unflatten(qkv, 2, tn_dims(3, block->heads, BENCH_GPT2_HEAD));
    tn_unbind(tn_permute(qkv, tn_dims(2, 0, 3, 1, 4)), 0, part, 3);
    tn_tensor *y = tn_scaled_dot_product_attention(part[0], part[1], part[2],
                                                   NULL, .is_causal = true);
    y = tn_flatten(tn_transpose(y, 1, 2), .start_dim = 2);
    x = tn_add(x, tn_forward(block->out, y));
    return tn_add(x, tn_forward(block->mlp, tn_forward(block->norm2, x)));
}

static const tn_module_class gpt2_block_class = {
    .size = sizeof gpt2_block_class,
    .name = "GPT2Block",
    .bytes = sizeof(struct gpt2_block),
    .forward = gpt2_block_forward};

static tn_module *gpt2_block_new(int64_t heads)
{
    int64_t width = heads * BENCH_GPT2_HEAD;
    struct gpt2_block *block = tn_module_new(&gpt2_block_class);
    if (!block)
        return NULL;
    block->heads = heads;
    block->norm1 =
        tn_module_add(&block->base, "norm1", tn_nn_layer_norm(tn_dims(width)));
    block->qkv =
        tn_module_add(&block->base, "qkv", tn_nn_linear(width, 3 * width));
    block->out = tn_module_add(&block->base, "out", tn_nn_linear(width, width));
    block->norm2 =
        tn_module_add(&block->base, "norm2", tn_nn_layer_norm(tn_dims(width)));
    block->mlp = tn_module_add(
        &block->base, "mlp",
        tn_nn_sequential(tn_nn_linear(width, 4 * width), tn_nn_gelu_tanh(),
                         tn_nn_linear(4 * width, width)));
    return block->mlp ? &block->base : NULL;
}

struct gpt2 {
    tn_module base;
    tn_module *token, *place, *blocks, *norm;
    tn_tensor *words; /* the weight of `token`, which is also the output
                       * embedding */
};

static tn_tensor *gpt2_forward(tn_module *self, tn_tensor *ids)
{
    struct gpt2 *gpt = (struct gpt2 *)self;
    tn_tensor *places = tn_arange(0, tn_tensor_size(ids, 1), 1,
                                  .device = tn_tensor_device(ids));
    tn_tensor *x =
        tn_add(tn_forward(gpt->token, ids), tn_forward(gpt->place, places));
    x = tn_forward(gpt->norm, tn_forward(gpt->blocks, x));
    return tn_linear(x, gpt->words, NULL);
}

static const tn_module_class gpt2_class = {.size = sizeof gpt2_class,
                                           .name = "GPT2",
                                           .bytes = sizeof(struct gpt2),
                                           .forward = gpt2_forward};

tn_module *bench_gpt2(int64_t layers, int64_t length)
{
    int64_t width = layers * BENCH_GPT2_HEAD;
    enum { MOST = 64 };
    tn_module *block[MOST];
    struct gpt2 *gpt = tn_module_new(&gpt2_class);
    if (!gpt)
        return NULL;
    layers = layers < MOST ? layers : MOST;
    for (int64_t i = 0; i < layers; i++)
        block[i] = gpt2_block_new(layers);
    gpt->token = tn_module_add(&gpt->base, "token",
                               tn_nn_embedding(BENCH_GPT2_WORDS, width));
    gpt->place =
        tn_module_add(&gpt->base, "place", tn_nn_embedding(length, width));
    gpt->blocks = tn_module_add(&gpt->base, "blocks",
                                tn_nn_sequential_with(block, (int)layers));
    gpt->norm =
        tn_module_add(&gpt->base, "norm", tn_nn_layer_norm(tn_dims(width)));
    gpt->words = tn_module_parameter(&gpt->base, "token.weight");
    /* Initialises the embeddings as GPT-2 does. With a standard deviation of 1
     * they would dominate the sum of the residual connections, and the blocks
     * would contribute little. */
    TN_NO_GRAD {
        tn_mul_scalar_(gpt->words, 0.02);
        tn_mul_scalar_(tn_module_parameter(&gpt->base, "place.weight"), 0.02);
    }
    return gpt->norm ? &gpt->base : NULL;
}
