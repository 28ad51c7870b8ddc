/* Linear layers whose bias, activation and gradients are computed within the
 * matrix products (the plugin's extension "product"). Checks which epilogues
 * are requested, and that results equal those of separate operators. */
#include "on_sim.h"

#include <math.h>

static tn_dtype dtype;
static const char *activation;
static bool without_bias, seen; /* seen: the program also reads the tensor
                                 * between the layers */
static char asked[256];         /* requested epilogues of each shape, in the
                                 * order of their first use; a plain product has
                                 * 0 */

static void listen(int level, const char *line, void *context)
{
    const char *at = strstr(line, "epilogue ");
    (void)level, (void)context;
    if (at && strstr(line, "computes"))
        snprintf(asked + strlen(asked), sizeof asked - strlen(asked), " %d",
                 atoi(at + strlen("epilogue ")));
}

static tn_tensor *numbers(uint64_t salt, double scale, tn_dims_list shape)
{
    tn_manual_seed(salt);
    return tn_requires_grad(tn_detach(tn_to_dtype(
        tn_mul_scalar(tn_sub_scalar(tn_rand(shape), 0.5), scale), dtype)));
}

enum { RESULTS = 7 };

/* Runs two layers forward and backward; copies the output and the gradients to
 * the cpu. */
static void learn(tn_tensor *result[RESULTS])
{
    tn_tensor *leaf[] = {numbers(1, 4, tn_dims(5, 6, 16)),
                         numbers(2, 1, tn_dims(24, 16)),
                         numbers(3, 1, tn_dims(24)),
                         numbers(4, 1, tn_dims(8, 24)),
                         numbers(5, 1, tn_dims(8))};
    tn_tensor *hidden = tn_linear_activation(
        leaf[0], leaf[1], without_bias ? NULL : leaf[2],
        .activation = activation);
    if (seen)
        tn_tensor_retain_grad(hidden);
    tn_tensor *out = tn_linear(hidden, leaf[3], without_bias ? NULL : leaf[4]);
    tn_backward(tn_sum(tn_mul(tn_to_dtype(out, TN_F32),
                              tn_to_dtype(out, TN_F32))));
    result[0] = out;
    for (int i = 0; i < 5; i++)
        result[1 + i] = tn_tensor_grad(leaf[i]);
    result[6] = seen ? tn_tensor_grad(hidden) : NULL;
    for (int i = 0; i < RESULTS; i++)
        if (result[i])
            result[i] = tn_keep(tn_to_dtype(
                tn_to(tn_detach(result[i]), tn_device_open("cpu")), TN_F64));
}

static double apart(tn_tensor *x, tn_tensor *y)
{
    tn_scope *scope = tn_scope_open();
    double size = tn_item(tn_max(tn_abs(y)));
    double most = tn_item(tn_max(tn_abs(tn_sub(x, y))));
    tn_scope_close(scope);
    return most / (size + 1e-30);
}

/* Prints the number of wrong results and the requested epilogues, such as "0
 * wrong; 134 4 136 512". */
static void print_learned(void)
{
    const double tolerance = dtype == TN_F32   ? 1e-5
                             : dtype == TN_F16 ? 4e-3
                                               : 3e-2;
    tn_tensor *plain[RESULTS], *fused[RESULTS];
    int wrong = 0;
    tn_log_set(listen, NULL);
    tn_device *device = tn_device_open("cuda");
    tn_device_set(device);
    tn_device_mask(device, "product");
    learn(plain);
    if (strspn(asked, " 0") != strlen(asked))
        note("masked, but asked for %s", asked);
    *asked = '\0';
    tn_device_mask(device, NULL);
    learn(fused);
    for (int i = 0; i < RESULTS; i++) {
        bool bad = !fused[i] != !plain[i] ||
                   (fused[i] && !(apart(fused[i], plain[i]) < tolerance));
        if (bad)
            note("result %d is %g apart", i,
                 fused[i] && plain[i] ? apart(fused[i], plain[i]) : NAN);
        wrong += bad;
    }
    printf("%d wrong;%s%s%s", wrong, asked, tn_error() ? "; " : "",
           tn_error() ? tn_error() : "");
}

static void expect(const char *want, const char *text)
{
    is_str(in_child(print_learned), want, "%s, %s%s: %s", tn_dtype_name(dtype),
           activation, without_bias ? ", no bias" : "", text);
}

/* Computes the gradient for a tensor between the layers that the program
 * passes, and the gradient of a gradient. */
static void print_asked(void)
{
    double out[2][2];
    for (int masked = 0; masked < 2; masked++) {
        tn_scope *scope = tn_scope_open();
        tn_device *device = tn_device_open("cuda");
        tn_device_set(device);
        tn_device_mask(device, masked ? "product" : NULL);
        tn_tensor *x = numbers(1, 4, tn_dims(5, 16));
        tn_tensor *w1 = numbers(2, 1, tn_dims(24, 16));
        tn_tensor *w2 = numbers(4, 1, tn_dims(8, 24));
        tn_tensor *hidden =
            tn_linear_activation(x, w1, NULL, .activation = activation);
        tn_tensor *loss = tn_sum(tn_pow_scalar(tn_linear(hidden, w2, NULL), 2));
        tn_tensor *g[1], *gg[1];
        tn_grad(loss, &hidden, 1, g, .retain_graph = true);
        out[masked][0] = tn_item(tn_sum(tn_pow_scalar(g[0], 2)));
        tn_grad(loss, &x, 1, g, .create_graph = true);
        tn_grad(tn_sum(tn_pow_scalar(g[0], 2)), &w1, 1, gg);
        out[masked][1] = tn_item(tn_sum(tn_pow_scalar(gg[0], 2)));
        tn_scope_close(scope);
    }
    for (int i = 0; i < 2; i++)
        printf("%s ", fabs(out[0][i] - out[1][i]) < 1e-4 * fabs(out[1][i])
                          ? "same" : "other");
    printf("%s", tn_error() ? tn_error() : "");
}

/* A network of modules uses the same epilogues, unless a hook needs the tensors
 * between. */
static tn_tensor *look(tn_module *module, tn_tensor *input, tn_tensor *output,
                       void *context)
{
    (void)module, (void)input, (void)output, (void)context;
    return NULL;
}

static void print_modules(void)
{
    tn_log_set(listen, NULL);
    tn_device_set(tn_device_open("cuda"));
    tn_module *first = tn_nn_linear(16, 32), *bend = tn_nn_relu();
    tn_module *net = tn_nn_sequential(first, bend, tn_nn_linear(32, 8),
                                      tn_nn_gelu_tanh());
    tn_tensor *x = tn_rand(tn_dims(4, 16));
    TN_NO_GRAD
        tn_forward(net, x);
    printf("%s;", asked);
    *asked = '\0';
    tn_module_register_forward_hook(bend, look, NULL);
    TN_NO_GRAD
        tn_forward(net, x);
    printf("%s%s", asked, tn_error() ? tn_error() : "");
}

/* Returns small integers as float8, for products with scales. */
static tn_tensor *codes(int64_t rows, int64_t columns, int64_t turn,
                        tn_dtype of)
{
    tn_tensor *x = tn_arange(0, rows * columns, 1);
    x = tn_sub_scalar(tn_remainder_scalar(x, (double)turn), (double)(turn / 2));
    return tn_to_dtype(tn_reshape(x, tn_dims(rows, columns)), of);
}

/* Returns whether the product on this device equals the product on the cpu. */
static int same_scaled(int64_t n, tn_dtype of, bool rows, bool biased,
                       tn_dtype out)
{
    tn_tensor *at[2];
    static const char *const devices[] = {"cpu", "cuda"};
    for (int i = 0; i < 2; i++) {
        tn_device_set(tn_device_open(devices[i]));
        tn_tensor *a = codes(16, 32, 13, TN_F8E4M3);
        tn_tensor *b = codes(n, 32, 7, of);
        tn_tensor *bias = biased ? tn_to_dtype(tn_arange(0, n, 1), out)
                                 : NULL;
        b = rows ? tn_contiguous(tn_t(b)) : tn_t(b);
        at[i] = tn_scaled_mm(a, b, tn_full(TN_SCALAR, 0.5),
                             tn_full(TN_SCALAR, 3.0), bias, .out_dtype = out);
        at[i] = tn_to_dtype(tn_to(at[i], tn_device_open("cpu")), TN_F32);
    }
    tn_device_set(tn_device_open("cpu"));
    return tn_item(tn_max(tn_abs(tn_sub(at[0], at[1])))) == 0;
}

static void print_scaled(void)
{
    tn_log_set(listen, NULL);
    int same = same_scaled(16, TN_F8E5M2, false, false, TN_F32);
    same += same_scaled(16, TN_F8E4M3, false, true, TN_BF16);
    same += same_scaled(16, TN_F8E4M3, false, true, TN_F16);
    printf("%d same:%s", same, asked);
    *asked = '\0';
    same = same_scaled(16, TN_F8E5M2, true, false, TN_F32);
    same += same_scaled(17, TN_F8E5M2, false, false, TN_F32);
    same += same_scaled(16, TN_F8E5M2, false, false, TN_F8E4M3);
    printf("; %d same:%s%s", same, asked, tn_error() ? tn_error() : "");
}

/* Tests biases aligned to 256 bytes, to 16, and to less. The algorithm for the
 * first alignment is not valid for the second, and the third bias is added by a
 * separate operator. */
static void print_aligned(void)
{
    tn_log_set(listen, NULL);
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *x = tn_ones(tn_dims(16, 16)), *w = tn_ones(tn_dims(16, 16));
    tn_tensor *all = tn_ones(tn_dims(64));
    const int64_t at[] = {0, 4, 1};
    for (int i = 0; i < 3; i++) {
        tn_tensor *y = tn_linear(x, w, tn_narrow(all, 0, at[i], 16));
        printf("%g ", tn_item(tn_max(y)));
    }
    printf("%s%s", asked, tn_error() ? tn_error() : "");
}

/* Returns whether the operator of the layer's gradient accepts the arguments g,
 * weight, aux, kept and words. */
static int takes_back(tn_tensor *const x[4], uint32_t words)
{
    tn_value value[5] = {{TN_VALUE_NONE, 0, {.i = 0}}};
    tn_tensor *out;
    for (int i = 0; i < 4; i++)
        value[i] = (tn_value){TN_VALUE_TENSOR, 0, {.tensor = x[i]}};
    value[4] = (tn_value){TN_VALUE_INT, 0, {.i = words}};
    int got = tn_op_call(tn_op_find("linear_back"), value, 5, &out, 1);
    tn_error_clear();
    return got == 1;
}

/* Operators without a public C function can be called by name; they must reject
 * tensors with fewer elements than the product would read. */
static void print_by_name(void)
{
    enum { RELU = 2, GELU_TANH = 8 };
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *number = tn_full(TN_SCALAR, 1.0);
    tn_tensor *x = tn_ones(tn_dims(2, 16)), *few = tn_ones(tn_dims(1, 16));
    tn_tensor *w = tn_ones(tn_dims(8, 16)), *long_w = tn_ones(tn_dims(8, 32));
    tn_tensor *g = tn_ones(tn_dims(2, 8));
    tn_tensor *mask = tn_zeros(tn_dims(2, 16), .dtype = TN_U8);
    tn_tensor *row[][2] = {{x, w}, {x, long_w}, {number, w}};
    for (int i = 0; i < 3; i++) {
        printf("%d", tn_call("linear_product", row[i][0], row[i][1], NULL) !=
                         NULL);
        tn_error_clear();
        printf("%d ", tn_call("linear_relu", row[i][0], row[i][1], NULL) !=
                          NULL);
        tn_error_clear();
    }
    tn_tensor *pair[][2] = {{g, x}, {g, few}, {number, x}, {g, number}};
    for (int i = 0; i < 4; i++) {
        printf("%d", tn_call("linear_weight", pair[i][0], pair[i][1]) != NULL);
        tn_error_clear();
    }
    tn_tensor *back[][4] = {{g, w, x, x},       {g, w, few, x},
                            {g, w, few, few},   {g, long_w, x, x},
                            {number, w, x, x},  {g, number, x, x},
                            {g, w, number, x}};
    printf(" %d", takes_back((tn_tensor *[]){g, w, mask, x}, RELU));
    for (size_t i = 0; i < sizeof back / sizeof *back; i++)
        printf("%d%d", takes_back(back[i], GELU_TANH),
               takes_back(back[i], RELU));
    tn_device_synchronize(NULL);
    printf("%s%s", tn_error() ? "; " : "", tn_error() ? tn_error() : "");
}

static void print_not_a_number(void)
{
    tn_device_set(tn_device_open("cuda"));
    tn_tensor *x = tn_full(tn_dims(16, 16), NAN), *w = tn_ones(tn_dims(16, 16));
    tn_tensor *y = tn_linear_activation(x, w, NULL);
    printf("%d", isnan(tn_item(tn_max(y))));
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"float32", "float16", "bfloat16"};
    (void)argc;
    plan_later();
    on_any_driver(argv);
    if (!on_sim_ready(in_child(on_sim_print_reason)))
        return done_testing();
    setenv("TENON_LOG", "3", 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dtype = tn_dtype_from_name(names[i]);
        activation = "relu";
        expect("0 wrong; 134 4 136 512 512", "one product each way and side");
        activation = "gelu_tanh";
        expect("0 wrong; 164 4 192 512 512", "one product each way and side");
        activation = "gelu";
        expect("0 wrong; 4 4 512 512", "cuBLASLt's is the other gelu");
    }
    dtype = TN_F32;
    activation = "relu";
    seen = true;
    expect("0 wrong; 134 4 512 512", "a gradient between that is retained");
    seen = false;
    without_bias = true;
    /* gradients of the weights use the same algorithm as without a bias */
    expect("0 wrong; 130 1 136", "without a bias");
    is_str(in_child(print_asked), "same same ",
           "gradients of given tensors, and gradients of gradients");
    activation = "gelu_tanh";
    is_str(in_child(print_asked), "same same ", "of gelu, too");
    is_str(in_child(print_modules), " 6 36; 4",
           "layers in a row are one product each, unless a hook is between");
    is_str(in_child(print_scaled), "3 same: 1 4 4; 3 same: 0 0",
           "float8 with scales uses cuBLASLt if rows are contiguous and a "
           "multiple of sixteen; otherwise float32 is multiplied");
    is_str(in_child(print_aligned), "17 17 17  4 4 0",
           "a choice of algorithm also holds for biases of other strides");
    is_str(in_child(print_by_name), "11 00 00 1000 110000000000000",
           "rows called by name refuse tensors that are not linear's");
    is_str(in_child(print_not_a_number), "1", "relu keeps NaN");
    return done_testing();
}
