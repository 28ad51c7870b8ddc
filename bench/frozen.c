/* frozen.c: a separate program: networks for inference, eager and frozen
 * (tn_freeze).
 *
 *     bench/frozen [--rounds N] [--only ROW] [--cpu]
 *     python bench/frozen.py       # beside ONNX Runtime and OpenVINO
 *
 * Eager and frozen calls take turns. A line has the median time of each in
 * milliseconds, the median of their ratios, the time that tn_freeze takes, and
 * the memory of prepared weights, constants and temporary tensors. With --cpu
 * the times are processor time, for a machine that others use. `--serve ROW` is
 * for frozen.py: it reads a number of calls from each line of its input and
 * prints the seconds of a frozen call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "models.h"

enum { MOST_ROUNDS = 101 };

/* ---- networks ------------------------------------------------------------ */

static tn_module *layer(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                        int64_t groups, bool relu)
{
    tn_module *conv =
        tn_nn_conv2d(in, out, kernel, .stride = stride, .padding = kernel / 2,
                     .groups = groups, .bias = false);
    return relu ? tn_nn_sequential(conv, tn_nn_batch_norm2d(out),
                                   tn_nn_relu6())
                : tn_nn_sequential(conv, tn_nn_batch_norm2d(out));
}

typedef struct inverted {
    tn_module base;
    tn_module *body;
} inverted;

static tn_tensor *inverted_forward(tn_module *self, tn_tensor *x)
{
    return tn_add(tn_forward(((inverted *)self)->body, x), x);
}

static const tn_module_class inverted_class = {
    .size = sizeof inverted_class, .name = "InvertedResidual",
    .bytes = sizeof(inverted), .forward = inverted_forward};

static tn_module *inverted_new(int64_t in, int64_t out, int64_t times,
                               int64_t stride)
{
    const int64_t wide = in * times;
    tn_module *body = tn_nn_sequential();
    if (times > 1)
        tn_module_append(body, layer(in, wide, 1, 1, 1, true));
    tn_module_append(body, layer(wide, wide, 3, stride, wide, true));
    tn_module_append(body, layer(wide, out, 1, 1, 1, false));
    if (stride != 1 || in != out)
        return body;
    inverted *block = tn_module_new(&inverted_class);
    block->body = block ? tn_module_add(&block->base, "body", body) : NULL;
    return block ? &block->base : NULL;
}

/* MobileNetV2 (arXiv:1801.04381, table 2). */
static tn_module *mobilenet(void)
{
    static const int64_t stage[7][4] = {
        {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2},
        {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    tn_module *net = tn_nn_sequential(layer(3, 32, 3, 2, 1, true));
    int64_t in = 32;
    for (int s = 0; s < 7; s++)
        for (int64_t i = 0; i < stage[s][2]; i++) {
            tn_module_append(net, inverted_new(in, stage[s][1], stage[s][0],
                                               i ? 1 : stage[s][3]));
            in = stage[s][1];
        }
    tn_module_append(net, layer(320, 1280, 1, 1, 1, true));
    tn_module_append(net, tn_nn_adaptive_avg_pool2d(1, 1));
    tn_module_append(net, tn_nn_flatten());
    return tn_module_append(net, tn_nn_linear(1280, 1000)) ? net : NULL;
}

static tn_module *encoder(int64_t features, int64_t heads, int layers)
{
    return tn_nn_transformer_encoder(
        features, heads, layers, .dim_feedforward = 4 * features,
        .activation = "gelu", .dropout = 0, .batch_first = true);
}

static tn_module *bert(void) { return encoder(768, 12, 12); }
static tn_module *minilm(void) { return encoder(384, 12, 6); }

/* frozen.py has the same rows. */
static const struct row {
    const char *name;
    tn_module *(*make)(void);
    int64_t size[4]; /* of the input; a size of 0 ends it */
} rows[] = {
    {"resnet50-1", bench_resnet50, {1, 3, 224, 224}},
    {"resnet50-8", bench_resnet50, {8, 3, 224, 224}},
    {"mobilenetv2-1", mobilenet, {1, 3, 224, 224}},
    {"mobilenetv2-8", mobilenet, {8, 3, 224, 224}},
    {"bert-1x128", bert, {1, 128, 768}},
    {"minilm-1x128", minilm, {1, 128, 384}},
    {"minilm-8x64", minilm, {8, 64, 384}},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- measurement --------------------------------------------------------- */

static bool of_processor; /* --cpu */

static double now(void)
{
    struct timespec t;
    clock_gettime(of_processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC,
                  &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *value, int count)
{
    qsort(value, (size_t)count, sizeof *value, by_value);
    return count % 2 ? value[count / 2]
                     : (value[count / 2 - 1] + value[count / 2]) / 2;
}

typedef struct subject {
    tn_module *net;
    tn_tensor *x;
    tn_compiled *frozen;
    double freezing; /* seconds of tn_freeze */
} subject;

static subject make(const struct row *row)
{
    int ndim = 0;
    while (ndim < 4 && row->size[ndim])
        ndim++;
    subject s = {.net = row->make()};
    tn_module_eval(s.net);
    s.x = tn_randn(tn_dims_from_array(row->size, ndim));
    TN_NO_GRAD tn_forward(s.net, s.x); /* compiles kernels */
    const double begin = now();
    s.frozen = tn_freeze(s.net, s.x);
    tn_device_synchronize(NULL);
    s.freezing = now() - begin;
    return s;
}

static double call(const subject *s, bool frozen)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *x = s->x, *y;
    const double begin = now();
    if (frozen)
        tn_compiled_run(s->frozen, &x, 1, &y, 1);
    else
        TN_NO_GRAD tn_forward(s->net, x);
    tn_device_synchronize(NULL);
    const double seconds = now() - begin;
    tn_scope_close(scope);
    return seconds;
}

static void print_row(const struct row *row, int rounds)
{
    double eager[MOST_ROUNDS], frozen[MOST_ROUNDS], ratio[MOST_ROUNDS];
    tn_scope *scope = tn_scope_open();
    const subject s = make(row);
    for (int r = -2; r < rounds && !tn_error(); r++) {
        const double e = call(&s, false), f = call(&s, true);
        if (r < 0)
            continue;
        eager[r] = e;
        frozen[r] = f;
        ratio[r] = e / f;
    }
    tn_compiled_counts counts = {.size = sizeof counts};
    tn_compiled_read_counts(s.frozen, &counts);
    if (tn_error())
        fprintf(stderr, "%s: %s\n", row->name, tn_error());
    else
        printf("%-14s %9.2f %9.2f %7.2f %9.0f %9.1f %9.1f %7.1f\n", row->name,
               1e3 * median(eager, rounds), 1e3 * median(frozen, rounds),
               median(ratio, rounds), 1e3 * s.freezing,
               (double)counts.prepared_bytes / 1e6,
               (double)counts.constant_bytes / 1e6,
               (double)counts.arena_bytes / 1e6);
    fflush(stdout);
    tn_scope_close(scope);
}

static int serve(const char *name)
{
    char line[64];
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        const subject s = make(&rows[i]);
        while (!tn_error() && fgets(line, sizeof line, stdin)) {
            const long calls = strtol(line, NULL, 10);
            double seconds = 0;
            for (long k = 0; k < calls; k++)
                seconds += call(&s, true);
            printf("%.9f\n", calls > 0 ? seconds / (double)calls : 0);
            fflush(stdout);
        }
        if (tn_error())
            fprintf(stderr, "%s: %s\n", name, tn_error());
        return tn_error() != NULL;
    }
    fprintf(stderr, "frozen: no row is called %s\n", name);
    return 2;
}

int main(int count, char **argument)
{
    const char *only = NULL, *served = NULL;
    int rounds = 11;
    for (int i = 1; i < count; i++) {
        if (strcmp(argument[i], "--cpu") == 0) {
            of_processor = true;
        } else if (strcmp(argument[i], "--rounds") == 0 && i + 1 < count) {
            rounds = atoi(argument[++i]);
        } else if (strcmp(argument[i], "--only") == 0 && i + 1 < count) {
            only = argument[++i];
        } else if (strcmp(argument[i], "--serve") == 0 && i + 1 < count) {
            served = argument[++i];
        } else {
            rounds = 0;
            break;
        }
    }
    if (rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: frozen [--rounds N] [--only ROW] [--cpu]\n");
        return 2;
    }
    tn_manual_seed(1);
    tn_scope *scope = tn_scope_open();
    if (served) {
        const int status = serve(served);
        tn_scope_close(scope);
        return status;
    }
    printf("%-14s %9s %9s %7s %9s %9s %9s %7s\n", "ms", "eager", "frozen",
           "ratio", "freezing", "prepared", "constant", "arena");
    for (int i = 0; i < ROWS; i++)
        if (!only || strcmp(only, rows[i].name) == 0)
            print_row(&rows[i], rounds);
    tn_scope_close(scope);
    return 0;
}
