/* recurrent.c: RNN, GRU and LSTM. Long sequences run in one call of Tenon's
 * layer. Step by step run the features that the layer does not have (peepholes,
 * sequence lengths, other activations, ...), and short sequences: for these,
 * copying the weights to the layer's order of gates would take longer than the
 * steps. */
#include <onnx/ops/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- activations --------------------------------------------------------- */

typedef struct activation {
    const char *name;
    int parameters;        /* how many of alpha and beta the function uses: 0 to
                              2 */
    double alpha, beta;
    tn_tensor *(*call)(tn_tensor *x, double alpha, double beta);
} activation;

static tn_tensor *relu(tn_tensor *x, double a, double b)
{
    (void)a, (void)b;
    return tn_relu(x);
}
static tn_tensor *tanh_of(tn_tensor *x, double a, double b)
{
    (void)a, (void)b;
    return tn_tanh(x);
}
static tn_tensor *sigmoid(tn_tensor *x, double a, double b)
{
    (void)a, (void)b;
    return tn_sigmoid(x);
}
static tn_tensor *affine(tn_tensor *x, double a, double b)
{
    return tn_add_scalar(tn_mul_scalar(x, a), b);
}
static tn_tensor *leaky_relu(tn_tensor *x, double a, double b)
{
    (void)b;
    return tn_leaky_relu(x, .negative_slope = a);
}
static tn_tensor *thresholded_relu(tn_tensor *x, double a, double b)
{
    (void)b;
    return tn_where(tn_gt_scalar(x, a), x, tn_zeros_like(x));
}
static tn_tensor *scaled_tanh(tn_tensor *x, double a, double b)
{
    return tn_mul_scalar(tn_tanh(tn_mul_scalar(x, b)), a);
}
static tn_tensor *hard_sigmoid(tn_tensor *x, double a, double b)
{
    return tn_clamp_scalars(affine(x, a, b), 0.0, 1.0);
}
static tn_tensor *elu(tn_tensor *x, double a, double b)
{
    (void)b;
    return tn_elu(x, .alpha = a);
}
static tn_tensor *softsign(tn_tensor *x, double a, double b)
{
    (void)a, (void)b;
    return tn_softsign(x);
}
static tn_tensor *softplus(tn_tensor *x, double a, double b)
{
    (void)a, (void)b;
    return tn_softplus_with(x, NULL);
}

static const activation known[] = {
    {"Sigmoid", 0, 0, 0, sigmoid},
    {"Tanh", 0, 0, 0, tanh_of},
    {"Relu", 0, 0, 0, relu},
    {"Affine", 2, 1, 0, affine},
    {"LeakyRelu", 1, 0.01, 0, leaky_relu},
    {"ThresholdedRelu", 1, 1, 0, thresholded_relu},
    {"ScaledTanh", 2, 1, 1, scaled_tanh},
    {"HardSigmoid", 2, 0.2, 0.5, hard_sigmoid},
    {"Elu", 1, 1, 0, elu},
    {"Softsign", 0, 0, 0, softsign},
    {"Softplus", 0, 0, 0, softplus},
};
enum { KNOWN = sizeof known / sizeof *known };

static tn_tensor *apply(const activation *a, tn_tensor *x)
{
    return a->call(x, a->alpha, a->beta);
}

/* ---- what the three have in common --------------------------------------- */

/* The first attributes of all three rows, in this order. Attributes of a single
 * operator follow. */
enum { ALPHA, BETA, ACTIVATIONS, CLIP, DIRECTION, HIDDEN, LAYOUT, EXTRA };

typedef struct layer {
    tn__onnx_call *c;
    int gates, directions;
    bool first_reversed; /* whether direction is "reverse" */
    bool batch_first;
    double clip;         /* 0: none */
    int64_t hidden, time, batch;
    activation act[6];   /* three for each direction */
    bool plain;          /* whether the activations are the default ones without
                            clip */
    tn_tensor *x;        /* (time, batch, in) */
    tn_tensor *lengths;  /* (batch, 1) or NULL */
} layer;

static bool read_activations(layer *l, const char *const *defaults, int each)
{
    tn__onnx_call *c = l->c;
    const tn__onnx_attr *names = c->attr[ACTIVATIONS], *alpha = c->attr[ALPHA],
                        *beta = c->attr[BETA];
    const int count = each * l->directions;
    int alphas = 0, betas = 0;
    if (names && names->count != count) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "attribute \"activations\" has %lld names; expected %d",
                        (long long)names->count, count);
        return false;
    }
    l->plain = true;
    for (int i = 0; i < count; i++) {
        const char *name = names ? names->strings[i] : defaults[i % each];
        l->plain = l->plain && strcmp(name, defaults[i % each]) == 0;
        int k = 0;
        while (k < KNOWN && strcmp(known[k].name, name) != 0)
            k++;
        if (k == KNOWN) {
            tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                            "activation \"%.40s\" is not supported", name);
            return false;
        }
        activation *a = &l->act[i / each * 3 + i % each];
        *a = known[k];
        if (a->parameters > 0 && alpha && alphas < alpha->count)
            a->alpha = (double)alpha->floats[alphas++];
        if (a->parameters > 1 && beta && betas < beta->count)
            a->beta = (double)beta->floats[betas++];
    }
    return true;
}

/* Reads sequence_lens. The host waits for them, to check them. */
static bool read_lengths(layer *l)
{
    tn_tensor *x = l->c->x[4];
    const bool fits = tn_tensor_numel(x) == l->batch;
    const int64_t least = fits && l->batch ? tn_item_int(tn_amin(x)) : 0;
    const int64_t most = fits && l->batch ? tn_item_int(tn_amax(x)) : 0;
    if (tn_error())
        return false;
    if (!fits || least < 0 || most > l->time) {
        tn__onnx_refuse(l->c, TN_ERR_ARGUMENT,
                        "sequence_lens has %lld numbers from %lld to %lld; "
                        "expected %lld from 0 to %lld (the length of X)",
                        (long long)tn_tensor_numel(x), (long long)least,
                        (long long)most, (long long)l->batch,
                        (long long)l->time);
        return false;
    }
    l->lengths = tn_reshape(x, tn_dims(l->batch, 1));
    return l->lengths != NULL;
}

static bool layer_init(layer *l, tn__onnx_call *c, int gates,
                       const char *const *defaults, int each)
{
    const char *direction = tn__onnx_string(c, DIRECTION);
    const bool both = strcmp(direction, "bidirectional") == 0;
    *l = (layer){.c = c, .gates = gates, .directions = both ? 2 : 1};
    l->first_reversed = strcmp(direction, "reverse") == 0;
    l->batch_first = tn__onnx_int(c, LAYOUT) != 0;
    if (!both && !l->first_reversed && strcmp(direction, "forward") != 0) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "direction is \"%.40s\"; it must be forward, reverse "
                        "or bidirectional",
                        direction);
        return false;
    }
    if (tn_tensor_ndim(c->x[0]) != 3 || tn_tensor_ndim(c->x[1]) != 3 ||
        tn_tensor_ndim(c->x[2]) != 3 ||
        tn_tensor_size(c->x[1], 0) != l->directions) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "X, W and R must have 3 dimensions, and W and R one "
                        "matrix for each direction");
        return false;
    }
    l->hidden = tn_tensor_size(c->x[2], 2);
    l->clip = c->attr[CLIP] ? (double)c->attr[CLIP]->f : 0;
    l->x = l->batch_first ? tn_transpose(c->x[0], 0, 1) : c->x[0];
    l->time = tn_tensor_size(l->x, 0);
    l->batch = tn_tensor_size(l->x, 1);
    if (tn__onnx_has(c, 4) && !read_lengths(l))
        return false;
    const bool fine = read_activations(l, defaults, each);
    l->plain = l->plain && l->clip == 0 && !l->lengths;
    return fine;
}

/* Returns the part of input i for direction d, or NULL. */
static tn_tensor *of_direction(const layer *l, int i, int d)
{
    return tn__onnx_has(l->c, i) ? tn_select(l->c->x[i], 0, d) : NULL;
}

/* Returns the initial state of direction d: input i, or zeros (batch,
 * hidden). */
static tn_tensor *first_state(const layer *l, int i, int d)
{
    if (tn__onnx_has(l->c, i))
        return tn_select(l->c->x[i], l->batch_first ? 1 : 0, d);
    return tn_zeros(tn_dims(l->batch, l->hidden),
                    .dtype = tn_tensor_dtype(l->x), .device = l->c->device);
}

static tn_tensor *clip(const layer *l, tn_tensor *x)
{
    return l->clip > 0 ? tn_clamp_scalars(x, -l->clip, l->clip) : x;
}

/* Returns gate k of a tensor (batch, gates * hidden). */
static tn_tensor *gate(const layer *l, tn_tensor *all, int k)
{
    return tn_narrow(all, 1, k * l->hidden, l->hidden);
}

/* Returns a matrix or bias with its gates in another order, or NULL for no
 * bias. */
static tn_tensor *reorder(const layer *l, tn_tensor *w, const int *order)
{
    tn_tensor *part[4] = {NULL};
    if (!w)
        return NULL;
    for (int i = 0; i < l->gates; i++)
        part[i] = tn_narrow(w, 0, order[i] * l->hidden, l->hidden);
    return tn_cat(part, l->gates, 0);
}

/* Stores the two biases of direction d: that of the input and that of the
 * state. */
static void biases(const layer *l, int d, tn_tensor **in, tn_tensor **state)
{
    const int64_t n = l->gates * l->hidden;
    tn_tensor *b = of_direction(l, 3, d);
    *in = b ? tn_narrow(b, 0, 0, n) : NULL;
    *state = b ? tn_narrow(b, 0, n, n) : NULL;
}

/* The state of one direction, which each step changes. */
typedef struct state {
    tn_tensor *h, *cell;
} state;
typedef state (*step_function)(const layer *l, int d, tn_tensor *in, state s,
                      tn_tensor *r, tn_tensor *r_bias, tn_tensor *peephole);

/* Runs direction d step by step. Returns the results (time, batch, hidden). */
static tn_tensor *run_steps(const layer *l, int d, step_function step, state *s,
                            bool bias_with_input, tn_tensor *peephole)
{
    const bool reverse = d == 1 || l->first_reversed;
    tn_tensor *b_in, *b_state, *w = of_direction(l, 1, d),
              *r = of_direction(l, 2, d);
    biases(l, d, &b_in, &b_state);
    if (b_in && bias_with_input) {
        b_in = tn_add(b_in, b_state);
        b_state = NULL;
    }
    tn_tensor *in = tn_linear(l->x, w, b_in);
    tn_tensor **out = malloc(((size_t)l->time + 1) * sizeof *out);
    if (!out) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
        return NULL;
    }
    for (int64_t i = 0; i < l->time; i++) {
        const int64_t t = reverse ? l->time - 1 - i : i;
        state next = step(l, d, tn_select(in, 0, t), *s, r, b_state, peephole);
        out[t] = next.h;
        if (l->lengths) { /* after the end of a sequence, its state does not
                             change */
            tn_tensor *inside = tn_gt_scalar(l->lengths, t);
            out[t] = tn_where(inside, next.h, tn_zeros_like(next.h));
            next.h = tn_where(inside, next.h, s->h);
            if (next.cell)
                next.cell = tn_where(inside, next.cell, s->cell);
        }
        *s = next;
    }
    tn_tensor *y = l->time ? tn_stack(out, (int)l->time, 0)
                           : tn_empty(tn_dims(0, l->batch, l->hidden),
                                      .dtype = tn_tensor_dtype(l->x),
                                      .device = l->c->device);
    free(out);
    return y;
}

/* Stacks the directions and stores the results: all outputs, the last h and the
 * last cell state. */
static void put(const layer *l, tn_tensor **y, const state *last)
{
    tn__onnx_call *c = l->c;
    const int n = l->directions, at = l->batch_first ? 1 : 0;
    tn_tensor *h[2] = {last[0].h, last[1].h},
              *cell[2] = {last[0].cell, last[1].cell};
    if (tn__onnx_wants(c, 0)) {
        tn_tensor *all = tn_stack(y, n, 1); /* (time, directions, batch, h) */
        c->y[0] = l->batch_first ? tn_permute(all, tn_dims(2, 0, 1, 3)) : all;
    }
    if (tn__onnx_wants(c, 1))
        c->y[1] = tn_stack(h, n, at);
    if (tn__onnx_wants(c, 2))
        c->y[2] = tn_stack(cell, n, at);
}

/* The smallest number of steps for which Tenon's layer is called. */
enum { LONG = 8 };

/* ---- LSTM: gates i, o, f, c ---------------------------------------------- */

static state lstm_step(const layer *l, int d, tn_tensor *in, state s,
                       tn_tensor *r, tn_tensor *r_bias, tn_tensor *p)
{
    const activation *f = &l->act[3 * d], *g = f + 1, *h = f + 2;
    tn_tensor *all = tn_add(in, tn_linear(s.h, r, r_bias));
    tn_tensor *gi = gate(l, all, 0), *go = gate(l, all, 1),
              *gf = gate(l, all, 2), *gc = gate(l, all, 3);
    if (p) {
        gi = tn_add(gi, tn_mul(tn_narrow(p, 0, 0, l->hidden), s.cell));
        gf = tn_add(gf, tn_mul(tn_narrow(p, 0, 2 * l->hidden, l->hidden),
                               s.cell));
    }
    tn_tensor *input = apply(f, clip(l, gi));
    tn_tensor *forget = tn__onnx_int(l->c, EXTRA)
                            ? tn_rsub_scalar(input, 1)
                            : apply(f, clip(l, gf));
    tn_tensor *cell = tn_add(tn_mul(forget, s.cell),
                             tn_mul(input, apply(g, clip(l, gc))));
    if (p)
        go = tn_add(go, tn_mul(tn_narrow(p, 0, l->hidden, l->hidden), cell));
    return (state){tn_mul(apply(f, clip(l, go)), apply(h, cell)), cell};
}

/* The gates in Tenon's order: i, f, g, o. */
static const int lstm_order[] = {0, 2, 3, 1};

static void lstm(tn__onnx_call *c)
{
    static const char *const defaults[] = {"Sigmoid", "Tanh", "Tanh"};
    const int *order = lstm_order;
    /* whether W and R have Tenon's order already */
    const bool ordered = tn__onnx_prepared(c, 0) != NULL;
    layer l;
    tn_tensor *y[2] = {NULL};
    state last[2] = {{NULL, NULL}};
    if (!layer_init(&l, c, 4, defaults, 3))
        return;
    for (int d = 0; d < l.directions; d++) {
        state *s = &last[d];
        tn_tensor *p = of_direction(&l, 7, d), *b_in, *b_state;
        *s = (state){first_state(&l, 5, d), first_state(&l, 6, d)};
        if (!ordered && (!l.plain || p || tn__onnx_int(c, EXTRA) ||
                         l.time < LONG)) {
            y[d] = run_steps(&l, d, lstm_step, s, true, p);
            continue;
        }
        biases(&l, d, &b_in, &b_state);
        tn_tensor *w = of_direction(&l, 1, d), *r = of_direction(&l, 2, d);
        y[d] = tn_lstm_layer(
            l.x, s->h, s->cell, ordered ? w : reorder(&l, w, order),
            ordered ? r : reorder(&l, r, order), reorder(&l, b_in, order),
            reorder(&l, b_state, order), &s->h, &s->cell,
            .reverse = d == 1 || l.first_reversed);
    }
    put(&l, y, last);
}

/* DynamicQuantizeLSTM of com.microsoft: the matrices are int8 or uint8,
 * transposed, with scales. ONNX Runtime also rounds inputs and states to 8
 * bits, so that it can multiply integers. Here they are not rounded, which is
 * nearer to the float model. */
static tn_tensor *dequantized(tn_tensor *w, tn_tensor *scale, tn_tensor *zero)
{
    if (tn_tensor_ndim(scale) == 1)
        scale = tn_reshape(scale, tn_dims(tn_tensor_numel(scale), 1, 1));
    else
        scale = tn_unsqueeze(scale, 1); /* one scale for each column */
    w = tn_to_dtype(w, TN_F32);
    if (zero) {
        zero = tn_to_dtype(zero, TN_F32);
        w = tn_sub(w,
                   tn_tensor_ndim(zero) == 1
                       ? tn_reshape(zero, tn_dims(tn_tensor_numel(zero), 1, 1))
                       : tn_unsqueeze(zero, 1));
    }
    return tn_transpose(tn_mul(w, scale), 1, 2);
}

/* Dequantises the matrices and puts their gates in Tenon's order, unless the
 * node has features that run step by step, in ONNX's order. */
static void prepare_quantized(tn__onnx_call *c, tn_tensor **out)
{
    if (c->attr[ACTIVATIONS] || c->attr[CLIP] || tn__onnx_int(c, EXTRA) ||
        c->node->in[4] >= 0 || c->node->in[7] >= 0 ||
        tn_tensor_ndim(c->x[1]) != 3 || tn_tensor_ndim(c->x[2]) != 3)
        return;
    for (int i = 0; i < 2; i++) {
        tn_tensor *w = dequantized(c->x[1 + i], c->x[8 + 2 * i],
                                   tn__onnx_x(c, 9 + 2 * i));
        tn_tensor *part[4];
        const int64_t hidden = tn_tensor_size(w, 1) / 4;
        for (int k = 0; k < 4; k++)
            part[k] = tn_narrow(w, 1, lstm_order[k] * hidden, hidden);
        out[i] = tn_cat(part, 4, 1);
    }
}

static void dynamic_quantize_lstm(tn__onnx_call *c)
{
    tn_tensor *x[8];
    for (int i = 0; i < 8; i++)
        x[i] = tn__onnx_x(c, i);
    for (int i = 0; i < 2; i++)
        x[1 + i] = tn__onnx_prepared(c, i)
                       ? tn__onnx_prepared(c, i)
                       : dequantized(x[1 + i], c->x[8 + 2 * i],
                                     tn__onnx_x(c, 9 + 2 * i));
    tn__onnx_call own = *c;
    own.x = x;
    own.in_count = 8;
    lstm(&own);
}

/* ---- GRU: gates z, r, h -------------------------------------------------- */

static state gru_step(const layer *l, int d, tn_tensor *in, state s,
                      tn_tensor *r, tn_tensor *r_bias, tn_tensor *unused)
{
    (void)unused;
    const activation *f = &l->act[3 * d], *g = f + 1;
    const int64_t n = l->hidden;
    tn_tensor *zr = tn_linear(s.h, tn_narrow(r, 0, 0, 2 * n),
                              r_bias ? tn_narrow(r_bias, 0, 0, 2 * n) : NULL);
    tn_tensor *z = apply(f, clip(l, tn_add(gate(l, in, 0), gate(l, zr, 0))));
    tn_tensor *reset =
        apply(f, clip(l, tn_add(gate(l, in, 1), gate(l, zr, 1))));
    tn_tensor *r_h = tn_narrow(r, 0, 2 * n, n),
              *b_h = r_bias ? tn_narrow(r_bias, 0, 2 * n, n) : NULL;
    tn_tensor *own = tn__onnx_int(l->c, EXTRA)
                         ? tn_mul(reset, tn_linear(s.h, r_h, b_h))
                         : tn_linear(tn_mul(reset, s.h), r_h, b_h);
    tn_tensor *hidden = apply(g, clip(l, tn_add(gate(l, in, 2), own)));
    return (state){tn_add(tn_mul(tn_rsub_scalar(z, 1), hidden),
                          tn_mul(z, s.h)),
                   NULL};
}

static void gru(tn__onnx_call *c)
{
    static const char *const defaults[] = {"Sigmoid", "Tanh"};
    static const int order[] = {1, 0, 2}; /* gates in Tenon's order: r, z, n */
    layer l;
    tn_tensor *y[2] = {NULL};
    state last[2] = {{NULL, NULL}};
    if (!layer_init(&l, c, 3, defaults, 2))
        return;
    for (int d = 0; d < l.directions; d++) {
        state *s = &last[d];
        tn_tensor *b_in, *b_state;
        *s = (state){first_state(&l, 5, d), NULL};
        if (!l.plain || !tn__onnx_int(c, EXTRA) || l.time < LONG) {
            y[d] = run_steps(&l, d, gru_step, s, false, NULL);
            continue;
        }
        biases(&l, d, &b_in, &b_state);
        y[d] =
            tn_gru_layer(l.x, s->h, reorder(&l, of_direction(&l, 1, d), order),
                         reorder(&l, of_direction(&l, 2, d), order),
                         reorder(&l, b_in, order), reorder(&l, b_state, order),
                         &s->h, .reverse = d == 1 || l.first_reversed);
    }
    put(&l, y, last);
}

/* ---- RNN ----------------------------------------------------------------- */

static state rnn_step(const layer *l, int d, tn_tensor *in, state s,
                      tn_tensor *r, tn_tensor *r_bias, tn_tensor *unused)
{
    (void)unused;
    tn_tensor *all = tn_add(in, tn_linear(s.h, r, r_bias));
    return (state){apply(&l->act[3 * d], clip(l, all)), NULL};
}

static void rnn(tn__onnx_call *c)
{
    static const char *const defaults[] = {"Tanh"};
    layer l;
    tn_tensor *y[2] = {NULL};
    state last[2] = {{NULL, NULL}};
    if (!layer_init(&l, c, 1, defaults, 1))
        return;
    for (int d = 0; d < l.directions; d++) {
        last[d] = (state){first_state(&l, 5, d), NULL};
        y[d] = run_steps(&l, d, rnn_step, &last[d], true, NULL);
    }
    put(&l, y, last);
}

/* ---- rows ---------------------------------------------------------------- */

#define COMMON "activation_alpha:floats activation_beta:floats "               \
               "activations:strings clip:float direction:string=forward "     \
               "hidden_size:int layout:int=0"
static const tn__onnx_op rows[] = {
    {.name = "LSTM", .since = 7, .min_in = 3, .max_in = 8, .max_out = 3,
     .attributes = COMMON " input_forget:int=0", .run = lstm},
    {.domain = "com.microsoft", .name = "DynamicQuantizeLSTM", .since = 1,
     .min_in = 12, .max_in = 12, .max_out = 3,
     .optional = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7,
     .attributes = "activation_alpha:floats activation_beta:floats "
                   "activations:strings clip:float direction:string=forward "
                   "hidden_size:int layout:int=0 input_forget:int=0",
     .run = dynamic_quantize_lstm, .constant = 1 << 8 | 1 << 10,
     .prepare = prepare_quantized,
     .prepares = 1 << 1 | 1 << 2 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11},
    {.name = "GRU", .since = 7, .min_in = 3, .max_in = 6, .max_out = 2,
     .attributes = COMMON " linear_before_reset:int=0", .run = gru},
    {.name = "RNN", .since = 7, .min_in = 3, .max_in = 6, .max_out = 2,
     .attributes = COMMON, .run = rnn},
};
const tn__onnx_family tn__onnx_recurrent = TN__ONNX_FAMILY(rows);
