/* gpt_cache.c: a GPT with a cache of the keys and values of past tokens, so
 * that each step processes only the new token.
 *
 *     gpt_cache TEXT [STEPS]                 gpt_cache shakespeare.txt 500
 *
 * It learns the characters of a text, then generates text with the cache and
 * without it. Both must be the same text. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

enum { LAYERS = 3, HEADS = 4, WIDTH = 96, CONTEXT = 128, BATCH = 8 };

/* A transformer block: attention and a feed-forward network, each with a
 * residual connection. */
struct block {
    tn_module base;
    tn_module *norm1, *qkv, *projection, *norm2, *feed;
    tn_tensor *keys, *values; /* (1, HEADS, CONTEXT, WIDTH / HEADS), or NULL */
    int64_t seen;             /* number of tokens in keys and values */
};

static tn_tensor *block_forward(tn_module *self, tn_tensor *x)
{
    struct block *block = (struct block *)self;
    int64_t n = tn_tensor_size(x, 0), t = tn_tensor_size(x, 1);
    tn_tensor *qkv = tn_forward(block->qkv, tn_forward(block->norm1, x));
    qkv = tn_permute(tn_reshape(qkv, tn_dims(n, t, 3, HEADS, -1)),
                     tn_dims(2, 0, 3, 1, 4));
    tn_tensor *q = tn_select(qkv, 0, 0);
    tn_tensor *k = tn_select(qkv, 0, 1);
    tn_tensor *v = tn_select(qkv, 0, 2);
    if (block->keys) {
        tn_copy_(tn_narrow(block->keys, 2, block->seen, t), k);
        tn_copy_(tn_narrow(block->values, 2, block->seen, t), v);
        block->seen += t;
        k = tn_narrow(block->keys, 2, 0, block->seen);
        v = tn_narrow(block->values, 2, 0, block->seen);
    }
    tn_tensor *y =
        tn_scaled_dot_product_attention(q, k, v, NULL, .is_causal = t > 1);
    y = tn_reshape(tn_transpose(y, 1, 2), tn_dims(n, t, WIDTH));
    x = tn_add(x, tn_forward(block->projection, y));
    return tn_add(x, tn_forward(block->feed, tn_forward(block->norm2, x)));
}

static const tn_module_class block_class =
    TN_MODULE_CLASS(struct block, "Block", .forward = block_forward);

static tn_module *block_new(void)
{
    struct block *block = tn_module_new(&block_class);
    TN_MODULE_ADD(block, norm1, tn_nn_layer_norm(tn_dims(WIDTH)));
    TN_MODULE_ADD(block, qkv, tn_nn_linear(WIDTH, 3 * WIDTH));
    TN_MODULE_ADD(block, projection, tn_nn_linear(WIDTH, WIDTH));
    TN_MODULE_ADD(block, norm2, tn_nn_layer_norm(tn_dims(WIDTH)));
    TN_MODULE_ADD(block, feed,
                  tn_nn_sequential(tn_nn_linear(WIDTH, 4 * WIDTH), tn_nn_gelu(),
                                   tn_nn_linear(4 * WIDTH, WIDTH)));
    return (tn_module *)block;
}

/* Maps token ids (N, T) to scores of the next id (N, T, vocabulary). */
struct gpt {
    tn_module base;
    tn_module *token, *place, *blocks, *norm, *head;
    int64_t seen; /* number of tokens in the cache */
    bool cached;
};

static tn_tensor *gpt_forward(tn_module *self, tn_tensor *ids)
{
    struct gpt *gpt = (struct gpt *)self;
    int64_t t = tn_tensor_size(ids, 1);
    tn_tensor *places = tn_arange(gpt->seen, gpt->seen + t, 1);
    if (gpt->cached)
        gpt->seen += t;
    tn_tensor *x =
        tn_add(tn_forward(gpt->token, ids), tn_forward(gpt->place, places));
    x = tn_forward(gpt->blocks, x);
    return tn_forward(gpt->head, tn_forward(gpt->norm, x));
}

static const tn_module_class gpt_class =
    TN_MODULE_CLASS(struct gpt, "GPT", .forward = gpt_forward);

static struct gpt *gpt_new(int vocabulary)
{
    struct gpt *gpt = tn_module_new(&gpt_class);
    if (!gpt)
        return NULL;
    tn_module *self = &gpt->base;
    TN_MODULE_ADD(gpt, token, tn_nn_embedding(vocabulary, WIDTH));
    TN_MODULE_ADD(gpt, place, tn_nn_embedding(CONTEXT, WIDTH));
    TN_MODULE_ADD(gpt, blocks, tn_nn_sequential());
    for (int i = 0; i < LAYERS; i++)
        tn_module_append(gpt->blocks, block_new());
    TN_MODULE_ADD(gpt, norm, tn_nn_layer_norm(tn_dims(WIDTH)));
    TN_MODULE_ADD(gpt, head, tn_nn_linear(WIDTH, vocabulary));
    tn_init_normal(tn_module_parameter(self, "token.weight"), .std = 0.02);
    tn_init_normal(tn_module_parameter(self, "place.weight"), .std = 0.02);
    return gpt;
}

/* Enables the cache and empties it, or disables it. */
static void gpt_set_cache(struct gpt *gpt, bool on)
{
    gpt->seen = 0;
    gpt->cached = on;
    for (int i = 0; i < LAYERS; i++) {
        struct block *block =
            (struct block *)tn_module_child_at(gpt->blocks, i);
        tn_dims_list shape = tn_dims(1, HEADS, CONTEXT, WIDTH / HEADS);
        block->seen = 0;
        block->keys = on ? tn_zeros(shape) : NULL;
        block->values = on ? tn_zeros(shape) : NULL;
    }
}

/* Continues ids (1, T) by `count` sampled ids. With the cache, each step
 * computes only the newest id. */
static tn_tensor *generate(struct gpt *gpt, tn_tensor *ids, int count,
                           bool cached)
{
    tn_scope *whole = tn_scope_open();
    TN_NO_GRAD_HERE;
    tn_manual_seed(2);
    gpt_set_cache(gpt, cached);
    tn_tensor *x = ids;
    for (int i = 0; i < count && !tn_error(); i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *scores = tn_select(tn_forward(&gpt->base, x), 1, -1);
        tn_tensor *next = tn_multinomial(tn_softmax(scores, -1), 1);
        ids = tn_cat((tn_tensor *[]){ids, next}, 2, 1);
        x = cached ? next : ids;
        tn_scope_carry(scope, &ids, &x);
        tn_scope_close(scope);
    }
    gpt_set_cache(gpt, false);
    return tn_scope_result(whole, ids);
}

static void train(tn_module *net, tn_loader *loader)
{
    tn_optim *opt = tn_optim_adamw(tn_parameters(net), .lr = 3e-3);
    TN_EACH_BATCH(batch, loader) {
        tn_tensor *scores = tn_forward(net, batch.x);
        tn_tensor *loss = tn_cross_entropy(tn_flatten(scores, .end_dim = 1),
                                           tn_flatten(batch.y));
        tn_optim_zero_grad(opt);
        tn_backward(loss);
        tn_clip_grad_norm(tn_parameters(net), 1.0);
        tn_optim_step(opt);
        if ((batch.index + 1) % 20 == 0)
            printf("step %lld: loss %.4f\n", (long long)batch.index + 1,
                   tn_item(loss));
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return fprintf(stderr, "usage: gpt_cache TEXT [STEPS]\n"), 2;
    int steps = argc > 2 ? atoi(argv[2]) : 200;
    tn_manual_seed(1);
    tn_text *text = tn_text_load(argv[1]);
    tn_loader *loader =
        tn_loader_new(tn_dataset_from_text(text, CONTEXT), .batch_size = BATCH,
                      .shuffle = true, .sample_count = (int64_t)steps * BATCH);
    struct gpt *gpt = gpt_new(tn_text_vocabulary(text));
    if (tn_error())
        return fprintf(stderr, "gpt_cache: %s\n", tn_error()), 1;
    train(&gpt->base, loader);

    tn_module_eval(&gpt->base);
    tn_tensor *prompt = tn_narrow(tn_text_ids(text), 0, 0, 8);
    tn_tensor *ids[2];
    for (int cached = 0; cached < 2; cached++) {
        double seconds = 0;
        tn_mark *start = tn_mark_set(NULL);
        ids[cached] =
            generate(gpt, tn_unsqueeze(prompt, 0), CONTEXT - 8, cached != 0);
        tn_mark_elapsed(start, tn_mark_set(NULL), &seconds);
        if (!tn_error())
            printf("%s cache: %.2f s\n", cached ? "with" : "without", seconds);
    }
    char *written = tn_text_decode(text, ids[1]);
    if (tn_error())
        return fprintf(stderr, "gpt_cache: %s\n", tn_error()), 1;
    printf("----\n%s\n----\n", written);
    free(written);
    if (tn_item(tn_equal(ids[0], ids[1])) == 0)
        return fprintf(stderr, "gpt_cache: the cached text differs\n"), 1;
    printf("the same text without the cache\n");
}
