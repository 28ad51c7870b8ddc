/* layers.c: measures a step of each layer of torch.nn in training mode: the
 * forward pass, and the gradients of the inputs and of the parameters. The
 * workloads are the rows of layers.tsv.
 *
 * A row describes each input as KIND:SHAPE or KIND:SHAPE:N with a number N.
 * These kinds of input get a gradient:
 *
 *   normal       normally distributed       positive     in [0.1, 1.1)
 *   probability  in [0.05, 0.95)            log_softmax  log-probabilities
 *   packed       normal (batch, time, features), packed with lengths that fall
 *                from `time` to half of it
 *   same         the first input again
 *
 * These kinds get none:
 *
 *   uniform      in [0, 1)                  softmax      probabilities
 *   signs        1 or -1                    bits         0 or 1
 *   index        int64 in [0, N)            words        int64 in [1, N)
 *   full         int64, all N               labels       five classes, then -1
 *   unpool       the indices of the maxima of a max pooling with windows of
 *   2 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <golden/layer.h>

#include "table.h"

/* The layer and the inputs of the current workload. */
static struct {
    const layer *kind;
    tn_tensor *in[LAYER_MOST], *gradient;
    int64_t *lengths; /* lengths of packed sequences, or NULL if the input is
                       * not packed */
    bool is_lstm;
} now;

/* ---- inputs -------------------------------------------------------------- */

static tn_tensor *scaled(tn_dims_list dims, double low, double high)
{
    return tn_add_scalar(tn_mul_scalar(tn_rand(dims), high - low), low);
}

static tn_tensor *whole(tn_dims_list dims, int64_t low, int64_t high)
{
    return tn_randint(low, high, dims, .dtype = TN_I64);
}

static tn_tensor *labels(tn_dims_list dims)
{
    enum { LABELS = 5 };
    tn_tensor *x = tn_full(dims, -1, .dtype = TN_I64);
    tn_tensor *some = tn_narrow(x, 1, 0, LABELS);
    tn_copy_(some, tn_arange(0, LABELS, 1, .dtype = TN_I64));
    return x;
}

static tn_tensor *maxima(tn_dims_list dims)
{
    tn_tensor *index = NULL;
    const int planes = dims.count - 2;
    for (int i = 2; i < dims.count; i++)
        dims.dim[i] *= 2;
    tn_module *module = planes == 1   ? tn_nn_max_pool1d(2)
                        : planes == 2 ? tn_nn_max_pool2d(2)
                                      : tn_nn_max_pool3d(2);
    tn_nn_pool_forward(module, tn_randn(dims), &index);
    return index;
}

static int64_t *falling_lengths(int64_t count, int64_t times)
{
    int64_t *length = malloc((size_t)count * sizeof *length);
    for (int64_t i = 0; length && i < count; i++)
        length[i] = times - i * (times / 2) / count;
    return length;
}

static tn_dims_list read_shape(const char *text, int64_t *number)
{
    tn_dims_list dims = {0, {0}};
    char *end = (char *)text;
    do {
        text = end + (*end == 'x');
        dims.dim[dims.count++] = strtoll(text, &end, 10);
    } while (*end == 'x' && dims.count < TN_MAX_NDIM);
    *number = *end == ':' ? strtoll(end + 1, NULL, 10) : 0;
    return dims;
}

/* Returns the input that a string such as "normal:16,64" describes, or NULL if
 * its kind is unknown. */
static tn_tensor *input(const char *text)
{
    char kind[32];
    int64_t n;
    snprintf(kind, sizeof kind, "%.*s", (int)strcspn(text, ": "), text);
    if (strcmp(kind, "same") == 0)
        return now.in[0];
    tn_dims_list dims = read_shape(text + strcspn(text, ":") + 1, &n);
#define IS(name) (strcmp(kind, #name) == 0)
    if (IS(packed))
        now.lengths = falling_lengths(dims.dim[0], dims.dim[1]);
    tn_tensor *x = IS(normal) || IS(packed) ? tn_randn(dims)
                   : IS(positive)           ? scaled(dims, 0.1, 1.1)
                   : IS(probability)        ? scaled(dims, 0.05, 0.95)
                   : IS(log_softmax) ? tn_log_softmax(tn_randn(dims), -1)
                                     : NULL;
    if (x)
        return tn_requires_grad(x);
    return IS(uniform)   ? tn_rand(dims)
           : IS(softmax) ? tn_softmax(tn_randn(dims), -1)
           : IS(signs)
               ? tn_sub_scalar(tn_mul_scalar(tn_round(tn_rand(dims)), 2), 1)
           : IS(bits)   ? tn_round(tn_rand(dims))
           : IS(index)  ? whole(dims, 0, n)
           : IS(words)  ? whole(dims, 1, n)
           : IS(full)   ? whole(dims, n, n + 1)
           : IS(labels) ? labels(dims)
           : IS(unpool) ? maxima(dims)
                        : NULL;
#undef IS
}

/* ---- a step -------------------------------------------------------------- */

static tn_tensor *forward_packed(tn_module *net)
{
    const int64_t count = tn_tensor_shape(now.in[0])[0];
    tn_packed *x = tn_pack_padded_sequence(now.in[0], now.lengths, count,
                                           .batch_first = true);
    x = now.is_lstm ? tn_nn_lstm_forward_packed(net, x, NULL, NULL, NULL, NULL)
                    : tn_nn_rnn_forward_packed(net, x, NULL, NULL);
    return tn_pad_packed_sequence(x, .batch_first = true);
}

static tn_tensor *forward(tn_module *net)
{
    tn_tensor *out[LAYER_MOST] = {NULL};
    if (now.lengths)
        return forward_packed(net);
    if (!now.kind->run)
        return tn_forward(net, now.in[0]);
    now.kind->run(net, now.in, out);
    return out[0];
}

static void step(bench_state *s)
{
    tn_tensor *out = forward(s->net);
    tn_module_zero_grad(s->net);
    for (int i = 0; now.in[i]; i++)
        tn_tensor_set_grad(now.in[i], NULL);
    tn_backward(out, .gradient = now.gradient);
}

static void open(bench_state *s);
static bench_table table = {.file = "layers.tsv", .open = open, .call = step};
const bench_group bench_layer = {"layer", table.work};

bool bench_layers_read(const char *folder)
{
    return bench_table_read(&table, folder);
}

static void refuse(const bench_row *row, const char *what)
{
    tn_error_set(TN_ERR_ARGUMENT, "%s: %s: there is no %s", table.file,
                 row->name, what);
}

static void open(bench_state *s)
{
    const bench_row *row = bench_table_row(&table, s->name);
    free(now.lengths);
    memset(&now, 0, sizeof now);
    now.kind = layer_find(row->kind);
    now.is_lstm = strcmp(row->kind, "LSTM") == 0;
    s->net = now.kind ? now.kind->make(row->arguments) : NULL;
    if (!s->net) {
        refuse(row, "such layer");
        return;
    }
    const char *text = row->rest;
    for (int i = 0; i < LAYER_MOST - 1 && *text; i++) {
        now.in[i] = input(text);
        if (!now.in[i]) {
            refuse(row, "such kind of input");
            return;
        }
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    tn_module_train(s->net, true);
    TN_NO_GRAD
    now.gradient = tn_randn_like(forward(s->net));
}
