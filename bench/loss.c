/* loss.c: measures loss functions with the gradient of the prediction. */
#include "bench.h"

/* size[] is the number of samples and of features. b has the targets. */
static void open_values(bench_state *s)
{
    s->a = tn_requires_grad(tn_rand(tn_dims(s->size[0], s->size[1])));
    s->b = tn_rand(tn_dims(s->size[0], s->size[1]));
    s->c = tn_rand(tn_dims(s->size[0], s->size[1]));
}

static void open_classes(bench_state *s)
{
    open_values(s);
    s->b = tn_randint(0, s->size[1], tn_dims(s->size[0]), .dtype = TN_I64);
}

/* Makes b: 1 or -1 for each element (open_signs) or for each sample. */
static void open_signs(bench_state *s)
{
    open_values(s);
    s->b = tn_sub_scalar(tn_mul_scalar(tn_round(s->b), 2), 1);
}

static void open_pairs(bench_state *s)
{
    open_values(s);
    s->c = tn_ones(tn_dims(s->size[0]));
}

#define LOSS(name, ...)                                                       \
    static void name(bench_state *s)                                          \
    {                                                                         \
        bench_gradients(s, __VA_ARGS__);                                      \
    }
LOSS(cross_entropy, tn_cross_entropy(s->a, s->b))
LOSS(smoothed, tn_cross_entropy(s->a, s->b, .label_smoothing = 0.1))
LOSS(soft_labels, tn_cross_entropy(s->a, s->b))
LOSS(nll, tn_nll_loss(s->a, s->b))
LOSS(mse, tn_mse_loss(s->a, s->b))
LOSS(l1, tn_l1_loss(s->a, s->b))
LOSS(smooth_l1, tn_smooth_l1_loss(s->a, s->b))
LOSS(huber, tn_huber_loss(s->a, s->b))
LOSS(bce, tn_binary_cross_entropy(s->a, s->b, NULL))
LOSS(bce_logits, tn_binary_cross_entropy_with_logits(s->a, s->b, NULL))
LOSS(kl_div, tn_kl_div(s->a, s->b, .reduction = "batchmean"))
LOSS(gaussian_nll, tn_gaussian_nll_loss(s->a, s->b, s->c))
LOSS(poisson_nll, tn_poisson_nll_loss(s->a, s->b))
LOSS(soft_margin, tn_soft_margin_loss(s->a, s->b))
LOSS(hinge_embedding, tn_hinge_embedding_loss(s->a, s->b))
LOSS(multi_margin, tn_multi_margin_loss(s->a, s->b))
LOSS(multilabel_soft_margin, tn_multilabel_soft_margin_loss(s->a, s->b, NULL))
LOSS(cosine_embedding, tn_cosine_embedding_loss(s->a, s->b, s->c))
LOSS(triplet_margin, tn_triplet_margin_loss(s->a, s->b, s->c))

/* The minimum work: reads `reads` matrices once and writes one matrix, the
 * gradient. The loss itself needs no further memory accesses. */
#define OF(name, open, reads)                                                 \
    {#name, {1024, 1000}, open, name,                                         \
     BENCH_MOVE((reads) * 1024 * 1000, 1024 * 1000), 0}

static const bench_work work[] = {
    OF(cross_entropy, open_classes, 1),
    OF(smoothed, open_classes, 1),
    OF(soft_labels, open_values, 2),
    /* reads one element of each row, which an int64 class selects */
    {"nll",
     {1024, 1000},
     open_classes,
     nll,
     BENCH_MOVE(3 * 1024, 1024 * 1000),
     0},
    OF(mse, open_values, 2),
    OF(l1, open_values, 2),
    OF(smooth_l1, open_values, 2),
    OF(huber, open_values, 2),
    OF(bce, open_values, 2),
    OF(bce_logits, open_values, 2),
    OF(kl_div, open_values, 2),
    OF(gaussian_nll, open_values, 3),
    OF(poisson_nll, open_values, 2),
    OF(soft_margin, open_signs, 2),
    OF(hinge_embedding, open_signs, 2),
    OF(multi_margin, open_classes, 1),
    OF(multilabel_soft_margin, open_values, 2),
    OF(cosine_embedding, open_pairs, 2),
    OF(triplet_margin, open_values, 3),
    {.name = NULL},
};
const bench_group bench_loss = {"loss", work};
