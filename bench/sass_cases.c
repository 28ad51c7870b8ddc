/* sass_cases.c: makes the calls whose kernel instructions bench/sass.py counts.
 * They run on the driver of tests/sim/counting.c, which counts.
 *
 *     bench/sass_cases [CASE...] [-CASE...]    runs all cases, or those listed;
 *                                              -CASE excludes a case
 *
 * Each case runs once before it is counted. Work that only the first call does
 * is therefore not counted. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "models.h"

/* The tensors of most cases have the shape (ROWS, COLUMNS), as in bench/cuda.c.
 * `ids` is a permutation of the rows. `at` has column indices for LINES
 * rows. */
enum { ROWS = 16384, COLUMNS = 4096, LINES = 2048, IMAGES = 64 };
static tn_tensor *a, *b, *row, *half, *other_half, *half_row, *brain, *ids, *at;
static tn_tensor *images, *labels, *places, *packed;

#define CASE(name, ...)                                                       \
    static void name(void)                                                    \
    {                                                                         \
        TN_NO_GRAD { __VA_ARGS__; }                                           \
    }
CASE(copy, tn_clone(a))
CASE(add, tn_add(a, b))
CASE(scale, tn_mul_scalar(a, 2))
CASE(exponential, tn_exp(a))
CASE(gelu, tn_gelu(a))
CASE(add_row, tn_add(a, row))
CASE(to_half, tn_to_dtype(a, TN_F16))
CASE(sum_all, tn_sum(a))
CASE(sum_rows, tn_sum(a, .dim = 1))
CASE(sum_columns, tn_sum(a, .dim = 0))
CASE(softmax, tn_softmax(a, 1))
CASE(softmax_long, tn_softmax(tn_reshape(a, tn_dims(4, ROWS / 4 * COLUMNS)), 1))
CASE(log_softmax, tn_log_softmax(a, 1))
CASE(layer_norm, tn_layer_norm(a, tn_dims(COLUMNS), row, row))
CASE(transpose, tn_contiguous(tn_transpose(a, 0, 1)))
CASE(cumsum_rows, tn_cumsum(a, 1))
CASE(sort_all, tn_sort(tn_reshape(a, tn_dims(-1)), 0, false, &places))
CASE(sort_rows, tn_sort(tn_reshape(a, tn_dims(-1, 1024)), 1, false, &places))
CASE(first_of_all,
     tn_topk(tn_reshape(a, tn_dims(-1)), 100, 0, true, true, &places))
CASE(index_select, tn_index_select(a, 0, ids))
CASE(index_add, tn_index_add(a, 0, ids, b))
CASE(scatter_add,
     tn_scatter_add(tn_narrow(a, 0, 0, LINES), 1, at, tn_narrow(b, 0, 0, LINES)))
CASE(add_half, tn_add(half, other_half))
CASE(gelu_brain, tn_gelu(brain))
CASE(softmax_half, tn_softmax(half, 1))
CASE(layer_norm_half, tn_layer_norm(half, tn_dims(COLUMNS), half_row, half_row))
CASE(dropout, tn_dropout(a, 0.1, true))
CASE(max_pool, tn_max_pool2d(images, tn_dims(3), .stride = 2,
                             .padding = 1))

/* Products with weights in quantised blocks, for 1, 4 or 128 rows. */
#define BLOCKS(name, format, rows)                                            \
    static void name(void)                                                    \
    {                                                                         \
        tn_quantized_linear(tn_narrow(a, 0, 0, rows), packed, format, NULL);  \
    }
BLOCKS(blocks_q4_0, "Q4_0", 1)
BLOCKS(blocks_q8_0, "Q8_0", 1)
BLOCKS(blocks_q4_k, "Q4_K", 1)
BLOCKS(blocks_q6_k, "Q6_K", 1)
BLOCKS(blocks_few, "Q4_0", 4)
BLOCKS(blocks_many, "Q4_0", 128)
BLOCKS(blocks_many_k, "Q4_K", 128)

static void open_blocks(int64_t bytes)
{
    packed = tn_zeros(tn_dims(ROWS, bytes), .dtype = TN_U8);
}
static void open_q4(void)
{
    open_blocks(COLUMNS / 32 * 18);
}
static void open_q8_0(void)
{
    open_blocks(COLUMNS / 32 * 34);
}
static void open_q6_k(void)
{
    open_blocks(COLUMNS / 256 * 210);
}

static void dequantize(void)
{
    tn_dequantize_blocks(packed, "Q4_K");
}

static void embedding_back(void)
{
    tn_tensor *gradient, *weight = tn_requires_grad(tn_detach(a));
    tn_grad(tn_embedding(ids, weight), &weight, 1, &gradient, .gradient = b);
}

static void layer_norm_back(void)
{
    tn_tensor *gradient[3];
    tn_tensor *in[] = {tn_requires_grad(tn_detach(a)),
                       tn_requires_grad(tn_detach(row)),
                       tn_requires_grad(tn_detach(row))};
    tn_grad(tn_layer_norm(in[0], tn_dims(COLUMNS), in[1], in[2]), in, 3,
            gradient, .gradient = b);
}

static void cross_entropy_back(void)
{
    tn_tensor *gradient, *scores = tn_requires_grad(tn_detach(a));
    tn_grad(tn_cross_entropy(scores, labels), &scores, 1, &gradient);
}

/* ---- training steps ------------------------------------------------------ */

static tn_module *net, *lstm;
static tn_optim *optim;
static tn_tensor *x, *y;

static void learn(tn_tensor *out)
{
    tn_tensor *loss = tn_cross_entropy(out, y);
    tn_optim_zero_grad(optim);
    tn_backward(loss);
    tn_optim_step(optim);
}

static tn_tensor *numbers(int64_t below, tn_dims_list shape);

static void open_gpt2(void)
{
    enum { TEXTS = 8, LENGTH = 1024, LAYERS = 12 };
    x = numbers(BENCH_GPT2_WORDS, tn_dims(TEXTS, LENGTH));
    y = numbers(BENCH_GPT2_WORDS, tn_dims(TEXTS * LENGTH));
    net = bench_gpt2(LAYERS, LENGTH);
    optim = tn_optim_adamw(tn_parameters(net), .lr = 3e-4);
}

static void step_gpt2(void)
{
    tn_tensor *loss;
    tn_optim_zero_grad(optim);
    TN_AUTOCAST(TN_BF16) {
        tn_tensor *out = tn_forward(net, x);
        loss = tn_cross_entropy(tn_flatten(out, .start_dim = 0, .end_dim = 1), y);
    }
    tn_backward(loss);
    tn_optim_step(optim);
}

static void open_resnet50(void)
{
    x = tn_zeros(tn_dims(32, 3, 224, 224));
    y = numbers(1000, tn_dims(32));
    net = bench_resnet50();
    optim = tn_optim_sgd(tn_parameters(net), .lr = 0.1, .momentum = 0.9,
                         .weight_decay = 1e-4);
}

static void step_resnet50(void)
{
    learn(tn_forward(net, x));
}

/* Prepares an LSTM: 32 sequences of 64 steps, 256 features and 512 hidden
 * features. */
static void open_lstm(void)
{
    x = tn_zeros(tn_dims(32, 64, 256));
    y = numbers(10, tn_dims(32));
    lstm = tn_nn_lstm(256, 512, .batch_first = true);
    tn_module *head = tn_nn_linear(512, 10);
    net = tn_nn_sequential(lstm, head);
    optim = tn_optim_adam(tn_parameters(net), .lr = 1e-3);
}

static void step_lstm(void)
{
    tn_tensor *out = tn_select(tn_forward(lstm, x), 1, -1);
    learn(tn_linear(out, tn_module_parameter(net, "1.weight"),
                    tn_module_parameter(net, "1.bias")));
}

/* ---- the table ----------------------------------------------------------- */

/* `least` is the minimum of reads and writes, in multiples of `elements`
 * floats. It is unknown for a training step. */
static const struct work {
    const char *name;
    void (*call)(void), (*open)(void);
    double least, elements; /* 0 means ROWS * COLUMNS elements */
} works[] = {
    {"clone", copy, NULL, 2, 0},
    {"add", add, NULL, 3, 0},
    {"mul_scalar", scale, NULL, 2, 0},
    {"exp", exponential, NULL, 2, 0},
    {"gelu", gelu, NULL, 2, 0},
    {"add row", add_row, NULL, 2, 0},
    {"to float16", to_half, NULL, 1.5, 0},
    {"sum", sum_all, NULL, 1, 0},
    {"sum rows", sum_rows, NULL, 1, 0},
    {"sum columns", sum_columns, NULL, 1, 0},
    {"softmax", softmax, NULL, 2, 0},
    {"log_softmax", log_softmax, NULL, 2, 0},
    {"layer_norm", layer_norm, NULL, 2, 0},
    {"transpose", transpose, NULL, 2, 0},
    {"cumsum rows", cumsum_rows, NULL, 2, 0},
    {"softmax of 4 rows", softmax_long, NULL, 2, 0},
    {"sort of all", sort_all, NULL, 4, 0},
    {"sort of rows of 1024", sort_rows, NULL, 4, 0},
    {"topk 100 of all", first_of_all, NULL, 1, 0},
    {"index_select", index_select, NULL, 2, 0},
    {"index_add", index_add, NULL, 5, 0},
    {"embedding, back", embedding_back, NULL, 6, 0},
    {"scatter_add", scatter_add, NULL, 7, (double)LINES * COLUMNS},
    {"add float16", add_half, NULL, 1.5, 0},
    {"gelu bfloat16", gelu_brain, NULL, 1, 0},
    {"softmax float16", softmax_half, NULL, 1, 0},
    {"layer_norm float16", layer_norm_half, NULL, 1, 0},
    {"layer_norm, back", layer_norm_back, NULL, 5, 0},
    {"cross_entropy, back", cross_entropy_back, NULL, 2, 0},
    {"dropout", dropout, NULL, 2, 0},
    {"max_pool2d", max_pool, NULL, 1.25, (double)IMAGES * 64 * 112 * 112},
    {"blocks Q4_0", blocks_q4_0, open_q4, 18 / 128., 0},
    {"blocks Q8_0", blocks_q8_0, open_q8_0, 34 / 128., 0},
    {"blocks Q4_K", blocks_q4_k, open_q4, 18 / 128., 0},
    {"blocks Q6_K", blocks_q6_k, open_q6_k, 210 / 1024., 0},
    {"blocks Q4_0, 4 rows", blocks_few, open_q4, 18 / 128., 0},
    {"blocks Q4_0, 128 rows", blocks_many, open_q4, 18 / 128., 0},
    {"blocks Q4_K, 128 rows", blocks_many_k, open_q4, 18 / 128., 0},
    {"dequantize Q4_K", dequantize, open_q4, 1 + 18 / 128., 0},
    {"step of GPT-2", step_gpt2, open_gpt2, 0, 0},
    {"step of ResNet-50", step_resnet50, open_resnet50, 0, 0},
    {"step of an LSTM", step_lstm, open_lstm, 0, 0},
};
enum { WORKS = sizeof works / sizeof *works };

/* ---- indices, made by the host, because this driver computes no results
 * ---- */

static uint64_t state = 1;
static uint64_t random_below(uint64_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
}

static int64_t *room(int64_t count)
{
    int64_t *made = malloc((size_t)count * sizeof *made);
    if (!made) {
        fputs("sass_cases: out of memory\n", stderr);
        exit(1);
    }
    return made;
}

static tn_tensor *numbers(int64_t below, tn_dims_list shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape.count; d++)
        count *= shape.dim[d];
    int64_t *number = room(count);
    for (int64_t i = 0; i < count; i++)
        number[i] = (int64_t)random_below((uint64_t)below);
    tn_tensor *made = tn_tensor_from_array(number, TN_I64, shape);
    free(number);
    return made;
}

static tn_tensor *permutation(int64_t count)
{
    int64_t *number = room(count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t k = (int64_t)random_below((uint64_t)i + 1);
        number[i] = number[k];
        number[k] = i;
    }
    tn_tensor *made = tn_tensor_from_array(number, TN_I64, tn_dims(count));
    free(number);
    return made;
}

/* ---- */

static void (*begin)(const char *name, double elements, double least);

static bool fails(void)
{
    if (!tn_device_synchronize(NULL) && !tn_error())
        return false;
    fprintf(stderr, "sass_cases: %s\n", tn_error());
    return true;
}

static bool run(const struct work *w)
{
    const double elements = w->elements > 0 ? w->elements : (double)ROWS * COLUMNS;
    bool failed = false;
    /* Empties the cache of buffers. Otherwise earlier cases would determine in
     * which block of memory a buffer is, and the counts would depend on
     * them. */
    tn_cache_empty(NULL);
    tn_scope *outer = tn_scope_open();
    begin("before", 0, 0);
    if (w->open)
        w->open();
    for (int counted = 0; counted < 2 && !failed; counted++) {
        tn_scope *scope = tn_scope_open();
        begin(counted ? w->name : "before", elements, 4 * elements * w->least);
        w->call();
        failed = fails();
        tn_scope_close(scope);
    }
    begin("after", 0, 0);
    tn_scope_close(outer);
    return !failed;
}

static void open_all(void)
{
    a = tn_zeros(tn_dims(ROWS, COLUMNS));
    b = tn_zeros(tn_dims(ROWS, COLUMNS));
    row = tn_zeros(tn_dims(COLUMNS));
    half = tn_to_dtype(a, TN_F16);
    other_half = tn_to_dtype(b, TN_F16);
    half_row = tn_to_dtype(row, TN_F16);
    brain = tn_to_dtype(a, TN_BF16);
    images = tn_zeros(tn_dims(IMAGES, 64, 112, 112));
    ids = permutation(ROWS);
    at = numbers(COLUMNS, tn_dims(LINES, COLUMNS));
    labels = numbers(COLUMNS, tn_dims(ROWS));
}

static bool is_wanted(const char *name, char **argv)
{
    bool named = false, any = false;
    for (char **argument = argv + 1; *argument; argument++) {
        if (**argument == '-' && strcmp(*argument + 1, name) == 0)
            return false;
        any = any || **argument != '-';
        named = named || strcmp(*argument, name) == 0;
    }
    return named || !any;
}

int main(int argc, char **argv)
{
    (void)argc;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = driver ? dlsym(driver, "sass_case") : NULL;
    if (!found) {
        fprintf(stderr, "sass_cases: this driver does not count instructions; "
                        "run bench/sass.py instead\n");
        return 1;
    }
    memcpy(&begin, &found, sizeof begin);
    tn_device *device = tn_device_open("cuda:0");
    if (!device || tn_device_set(device))
        return fprintf(stderr, "sass_cases: %s\n", tn_error()), 1;
    begin("before", 0, 0);
    tn_scope *scope = tn_scope_open();
    open_all();
    bool failed = fails();
    for (int i = 0; i < WORKS && !failed; i++) {
        failed = is_wanted(works[i].name, argv) && !run(&works[i]);
    }
    tn_scope_close(scope);
    return failed;
}
