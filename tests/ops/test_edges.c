/* Edge cases have PyTorch's results on every device, and are errors where
 * PyTorch raises. */
#include <string.h>
#include <tap.h>
#include <tenon/tenon.h>

static void refused(const void *result, tn_status code, const char *message)
{
    ok(!result, "refused: %s", message);
    is_str(tn_error(), message, "the message is as expected");
    is_int(tn_error_code(), code, "the error has the expected code");
    tn_error_clear();
}

static tn_tensor *reals(int count, const float *x)
{
    return tn_tensor_from_array(x, TN_F32, tn_dims(count));
}
#define REALS(...)                                                             \
    reals((int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)),               \
          (const float[]){__VA_ARGS__})

static tn_tensor *wholes(int count, const int64_t *x)
{
    return tn_tensor_from_array(x, TN_I64, tn_dims(count));
}
#define WHOLES(...)                                                            \
    wholes((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),          \
           (const int64_t[]){__VA_ARGS__})

/* Checks the elements of x in row-major order. */
static void is_floats(tn_tensor *x, int count, const float *want,
                      const char *what)
{
    float got[64] = {0};
    bool same = tn_tensor_numel(x) == count &&
                tn_tensor_to_array(tn_detach(x), got,
                                   (size_t)count * sizeof *got) == TN_OK;
    for (int i = 0; i < count && same; i++)
        same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
    if (!ok(same, "%s", what))
        for (int i = 0; i < count; i++)
            note("element %d is %g, not %g", i, (double)got[i],
                 (double)want[i]);
    tn_error_clear();
}

static void is_ints(tn_tensor *x, int count, const int64_t *want,
                    const char *what)
{
    int64_t got[64] = {0};
    bool same =
        tn_tensor_numel(x) == count &&
        tn_tensor_to_array(x, got, (size_t)count * sizeof *got) == TN_OK &&
        memcmp(got, want, (size_t)count * sizeof *got) == 0;
    if (!ok(same, "%s", what))
        for (int i = 0; i < count; i++)
            note("element %d is %lld, not %lld", i, (long long)got[i],
                 (long long)want[i]);
    tn_error_clear();
}

/* ---- pooling windows with padding only ----------------------------------- */

/* Compares values and indices with PyTorch 2.15's, but not gradients: for such
 * windows PyTorch writes the gradient outside of the input (pytorch#114216).
 * The right gradient is 0 everywhere. */
static void test_pools(void)
{
    const float dead[] = {-INFINITY, -INFINITY}, none[9] = {0};
    tn_tensor *x = tn_requires_grad(
        tn_reshape(tn_arange(1, 10, 1, .dtype = TN_F32), tn_dims(1, 1, 1, 9)));
    tn_tensor *index = NULL;
    tn_tensor *y = tn_max_pool2d_with_indices(x, tn_dims(3), &index,
                                              .stride = 6, .padding = 1,
                                              .dilation = 2, .ceil_mode = true);
    is_floats(y, 2, dead, "max_pool2d of windows in padding alone is -inf");
    is_ints(index, 2, (const int64_t[]){10, 14},
            "at their first tap behind the "
            "edge");
    tn_backward(tn_sum(y));
    is_floats(tn_tensor_grad(x), 9, none, "no gradient flows from there");
    is_floats(tn_max_pool2d(tn_detach(x), tn_dims(3), .stride = 6, .padding = 1,
                            .dilation = 2, .ceil_mode = true),
              2, dead, "it is -inf without indices, too");
    is_floats(tn_max_pool3d(tn_unsqueeze(tn_detach(x), 2), tn_dims(3),
                            .stride = 6, .padding = 1, .dilation = 2,
                            .ceil_mode = true),
              2, dead, "and in a volume");
    /* windows at columns -1 and 3, then 0 and 4 of 3: one has padding only */
    tn_tensor *z =
        tn_requires_grad(tn_reshape(REALS(1, 2, 3), tn_dims(1, 1, 3)));
    y = tn_max_pool1d(z, tn_dims(2), .stride = 1, .padding = 1, .dilation = 4);
    is_floats(y, 1, dead, "max_pool1d is -inf there");
    tn_backward(tn_sum(y));
    is_floats(tn_tensor_grad(z), 3, none, "without a gradient");
    /* one window overlaps the image, the next does not */
    tn_tensor *w =
        tn_requires_grad(tn_reshape(REALS(1, 2, 3, 4), tn_dims(1, 1, 2, 2)));
    y = tn_max_pool2d_with_indices(w, tn_dims(2), &index, .stride = 1,
                                   .padding = 1, .dilation = 3);
    is_floats(y, 1, dead, "taps at -1 and 2 of 2 miss it");
    is_ints(index, 1, (const int64_t[]){6}, "the index is row 2, column 2");
    tn_tensor *v = tn_requires_grad(
        tn_reshape(tn_arange(1, 11, 1, .dtype = TN_F32), tn_dims(1, 1, 2, 5)));
    y = tn_max_pool2d_with_indices(v, tn_dims(2), &index, .stride = 1,
                                   .padding = 1, .dilation = 3,
                                   .ceil_mode = true);
    is_floats(y, 4, (const float[]){-INFINITY, -INFINITY, -INFINITY, -INFINITY},
              "rows -1 and 2 of 2 miss it in each column");
    tn_backward(tn_sum(y));
    is_floats(tn_tensor_grad(v), 10, (const float[10]){0}, "and give nothing");
    /* all elements of the window are -inf: the index is that of the first one
     * that is not padding */
    y = tn_max_pool2d_with_indices(
        tn_full(tn_dims(1, 2, 2), -INFINITY, .dtype = TN_F32), tn_dims(2),
        &index, .stride = 2, .padding = 1);
    is_ints(index, 4, (const int64_t[]){0, 1, 2, 3},
            "of -inf alone the first element within is chosen");
}

/* ---- Cholesky ----------------------------------------------------------- */

static void check_cholesky(const char *what, tn_tensor *a, int info)
{
    tn_tensor *made[2] = {NULL};
    for (int f64 = 0; f64 < 2; f64++) {
        tn_tensor *x = f64 ? tn_to_dtype(a, TN_F64) : a;
        made[0] = tn_linalg_cholesky_ex(x, &made[1]);
        is_int(tn_item_int(made[1]), info, "cholesky_ex of %s: info", what);
        ok(!tn_linalg_cholesky(x) && tn_error_code() == TN_ERR_ARGUMENT,
           "cholesky of %s is refused", what);
        tn_error_clear();
    }
}

static void test_cholesky(void)
{
    const tn_dims_list two = tn_dims(2, 2);
    check_cholesky("NaN", tn_full(two, NAN, .dtype = TN_F32), 1);
    check_cholesky("inf", tn_full(two, INFINITY, .dtype = TN_F32), 1);
    check_cholesky("((1, 0), (0, NaN))", tn_reshape(REALS(1, 0, 0, NAN), two),
                   2);
    check_cholesky("((1, 0), (NaN, 1))", tn_reshape(REALS(1, 0, NAN, 1), two),
                   2);
    check_cholesky("((NaN, 0), (0, 1))", tn_reshape(REALS(NAN, 0, 0, 1), two),
                   1);
    check_cholesky("((1, 2), (2, 1))", tn_reshape(REALS(1, 2, 2, 1), two), 2);
    tn_tensor *info = NULL;
    tn_linalg_cholesky_ex(
        tn_stack((tn_tensor *[]){tn_eye(2), tn_full(two, NAN, .dtype = TN_F32)},
                 2, 0),
        &info);
    is_ints(tn_to_dtype(info, TN_I64), 2, (const int64_t[]){0, 1},
            "each matrix of a batch has its own info");
    ok(tn_linalg_cholesky(tn_eye(3)) && !tn_error(),
       "the identity has a factor");
    tn_error_clear();
}

/* ---- errors -------------------------------------------------------------- */

static void test_distributions(void)
{
    tn_tensor *zero = tn_zeros(tn_dims(2));
    refused(tn_normal(zero, REALS(1, -1)), TN_ERR_ARGUMENT,
            "normal: std is negative at position (1,)");
    refused(tn_normal_scalar(zero, -1), TN_ERR_ARGUMENT,
            "normal: std is -1; expected at least 0");
    refused(tn_normal_scalar(zero, NAN), TN_ERR_ARGUMENT,
            "normal: std is nan; expected at least 0");
    is_floats(tn_normal(zero, REALS(0, 0)), 2, (const float[]){0, 0},
              "a std of 0 gives the mean");
    refused(tn_gaussian_nll_loss(zero, zero, REALS(1, -1)), TN_ERR_ARGUMENT,
            "gaussian_nll_loss: var is negative at position (1,)");
    ok(isnan(tn_item(tn_gaussian_nll_loss(zero, zero, REALS(1, NAN)))),
       "a var of NaN gives NaN");
}

static void test_weights(void)
{
    tn_tensor *x =
        tn_reshape(tn_arange(0, 6, 1, .dtype = TN_F32), tn_dims(2, 3));
    refused(tn_cov(x, .fweights = WHOLES(1, -1, 1)), TN_ERR_ARGUMENT,
            "cov: fweights has -1; expected at least 0");
    refused(tn_cov(x, .aweights = REALS(1, -1, 1)), TN_ERR_ARGUMENT,
            "cov: aweights has -1; expected at least 0");
    refused(tn_cov(x, .aweights = REALS(1, NAN, 1)), TN_ERR_ARGUMENT,
            "cov: aweights has nan; expected at least 0");
    refused(tn_cov(x, .fweights = WHOLES(0, 0, 0)), TN_ERR_ARGUMENT,
            "cov: the weights add up to 0; expected a sum above 0");
    ok(tn_cov(x, .fweights = WHOLES(1, 0, 2)) && !tn_error(), "0 is a weight");
    refused(tn_cosine_similarity(x, x, .eps = -1), TN_ERR_ARGUMENT,
            "cosine_similarity: eps is -1; expected at least 0");
    refused(
        tn_batch_norm(x, NULL, NULL, NULL, NULL, .training = true, .eps = -1),
        TN_ERR_ARGUMENT,
        "batch_norm: eps is -1; expected more than 0 while training");
}

static void test_ranges(void)
{
    tn_tensor *x = REALS(1, 2, 3);
    refused(tn_histc(x, .bins = 3, .min = -INFINITY, .max = INFINITY),
            TN_ERR_ARGUMENT,
            "histc: min is -inf and max inf; expected finite numbers");
    refused(tn_histc(x, .bins = 3, .min = NAN, .max = 2), TN_ERR_ARGUMENT,
            "histc: min is nan and max 2; expected finite numbers");
    refused(tn_histc(REALS(1, INFINITY), .bins = 3), TN_ERR_ARGUMENT,
            "histc: input has values from 1 to inf; give a finite range");
    is_floats(
        tn_histc(REALS(1, INFINITY, NAN), .bins = 3, .min = 0.5, .max = 2), 3,
        (const float[]){0, 1, 0},
        "what is outside of a range is not "
        "counted, NaN neither");
    refused(tn_quantile(x, REALS(0.5f, NAN)), TN_ERR_ARGUMENT,
            "quantile: q is outside [0, 1] at position (1,)");
    refused(tn_quantile(x, REALS(1.5f)), TN_ERR_ARGUMENT,
            "quantile: q is outside [0, 1] at position (0,)");
    refused(tn_nanquantile(x, REALS(-1)), TN_ERR_ARGUMENT,
            "nanquantile: q is outside [0, 1] at position (0,)");
    is_floats(tn_quantile(x, REALS(0, 1)), 2, (const float[]){1, 3},
              "0 and 1 are parts");
    tn_tensor *q = tn_requires_grad(REALS(0.25f));
    tn_backward(tn_sum(tn_quantile(x, q)));
    is_floats(tn_tensor_grad(q), 1, (const float[]){2},
              "q has its gradient, the slope");
}

static void test_indices(void)
{
    tn_tensor *none = tn_zeros(tn_dims(4, 0));
    refused(tn_embedding(WHOLES(0, 51), none), TN_ERR_INDEX,
            "embedding: input 51 at position (1,) is outside [0, 4)");
    refused(tn_embedding(WHOLES(0), tn_zeros(tn_dims(0, 3))), TN_ERR_INDEX,
            "embedding: input 0 at position (0,) is outside [0, 0)");
    refused(tn_embedding(WHOLES(0), tn_zeros(tn_dims(0, 0))), TN_ERR_INDEX,
            "embedding: input 0 at position (0,) is outside [0, 0)");
    refused(tn_index_select(none, 0, WHOLES(51)), TN_ERR_INDEX,
            "index_select: index 51 at position (0,) is outside [0, 4)");
    ok(tn_index_select(none, 0, WHOLES(3)) && !tn_error(),
       "an index within is none the worse for empty slices");
    refused(tn_embedding_bag(WHOLES(0, 1, 2), tn_eye(3), WHOLES(0, 2, 1),
                             .mode = "sum"),
            TN_ERR_ARGUMENT,
            "embedding_bag: offsets decrease by 1 after index 1; expected each "
            "to be at least the offset before it");
    ok(tn_embedding_bag(WHOLES(0, 1, 2), tn_eye(3), WHOLES(0, 2, 2),
                        .mode = "sum") &&
           !tn_error(),
       "empty bags are none");
    refused(tn_multilabel_margin_loss(tn_ones(tn_dims(3)), WHOLES(0, -5, 1)),
            TN_ERR_INDEX,
            "multilabel_margin_loss: target -5 at position (1,) "
            "is outside [-1, 3)");
    refused(tn_multilabel_margin_loss(tn_ones(tn_dims(3)), WHOLES(0, -1, 7)),
            TN_ERR_INDEX,
            "multilabel_margin_loss: target 7 at position (2,) is "
            "outside [-1, 3)");
    is_floats(tn_multilabel_margin_loss(tn_ones(tn_dims(3)), WHOLES(0, -1, 1)),
              1, (const float[]){2.0f / 3}, "labels end before the first -1");
    tn_tensor *x = tn_ones(tn_dims(1, 1, 4));
    refused(
        tn_adaptive_avg_pool1d(x, tn_dims(-1)), TN_ERR_ARGUMENT,
        "adaptive_avg_pool1d: output_size -1 is negative; TN_NONE_INT keeps "
        "a size");
    is_floats(tn_adaptive_avg_pool1d(x, tn_dims(TN_NONE_INT)), 4,
              (const float[]){1, 1, 1, 1}, "TN_NONE_INT keeps a size");
}

/* Along a dimension without elements, unbind has no results, and nothing may be
 * recorded for gradients. (valgrind and sanitizers check this.) */
static void test_no_parts(void)
{
    tn_tensor *part[4] = {NULL};
    tn_tensor *x = tn_requires_grad(tn_zeros(tn_dims(2, 0, 3)));
    const tn_value value[] = {{.kind = TN_VALUE_TENSOR, .of.tensor = x},
                              {.kind = TN_VALUE_INT, .of.i = 1},
                              {.kind = TN_VALUE_INT, .of.i = 2}};
    is_int(tn_op_call(tn_op_find("apart"), value, 3, part, 4), 0,
           "apart gives no parts of nothing");
    is_int(tn_unbind(x, 1, part, 4), 0, "unbind, too");
    tn_tensor *z = tn_requires_grad(tn_ones(tn_dims(2, 4)));
    tn_backward(tn_sum(tn_unfold(z, 0, 0, 1)));
    is_floats(tn_tensor_grad(z), 8, (const float[8]){0},
              "windows of no element give no gradient");
    z = tn_requires_grad(tn_ones(tn_dims(2, 4)));
    const tn_value cut[] = {{.kind = TN_VALUE_TENSOR, .of.tensor = z},
                            {.kind = TN_VALUE_INT, .of.i = -1},
                            {.kind = TN_VALUE_INT, .of.i = 3}};
    is_int(tn_op_call(tn_op_find("apart"), cut, 3, part, 4), 2,
           "apart counts dimensions from the end");
    tn_backward(tn_sum(part[1]));
    is_floats(tn_tensor_grad(z), 8, (const float[]){0, 0, 0, 1, 0, 0, 0, 1},
              "and so does its gradient");
    part[0] = NULL;
    ok(!part[0] && !tn_error(), "and no error");
}

/* ---- random integers ----------------------------------------------------- */

static void test_randint(void)
{
    enum { COUNT = 2000 };
    static int64_t x[COUNT];
    static const struct {
        int64_t low, high;
    } of[] = {{INT64_MIN, INT64_MAX},
              {0, INT64_MAX},
              {-(INT64_C(1) << 62), INT64_C(1) << 62},
              {-(INT64_C(1) << 62) - 7, INT64_C(1) << 62},
              {INT64_MIN, INT64_MIN + (INT64_C(3) << 60)}};
    tn_manual_seed(1);
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        tn_tensor *drawn = tn_randint(of[k].low, of[k].high, tn_dims(COUNT));
        tn_tensor_to_array(drawn, x, sizeof x);
        double low = (double)of[k].low, width = (double)of[k].high - low;
        int parts[4] = {0}, odd = 0;
        bool within = drawn != NULL;
        for (int i = 0; i < COUNT && within; i++) {
            within = x[i] >= of[k].low && x[i] < of[k].high;
            int part = (int)(4 * (((double)x[i] - low) / width));
            parts[part < 4 ? part : 3]++;
            odd += x[i] & 1;
        }
        ok(within, "randint of [%lld, %lld) is in that range",
           (long long)of[k].low, (long long)of[k].high);
        /* 500 of each are expected; the standard deviation is 19, and five of
         * them are 97. */
        ok(abs(parts[0] - 500) < 97 && abs(parts[1] - 500) < 97 &&
               abs(parts[2] - 500) < 97 && abs(parts[3] - 500) < 97 &&
               abs(odd - 1000) < 112,
           "evenly: %d %d %d %d, odd %d", parts[0], parts[1], parts[2],
           parts[3], odd);
    }
    refused(tn_arange(-INFINITY, -1, -INFINITY), TN_ERR_ARGUMENT,
            "arange: start is -inf and end -1; expected finite numbers");
    refused(tn_randint(5, 5, tn_dims(2)), TN_ERR_ARGUMENT,
            "randint: low is 5 and high 5; expected low below high");
    refused(tn_randint(INT64_MAX, INT64_MIN, tn_dims(2)), TN_ERR_ARGUMENT,
            "randint: low is 9223372036854775807 and high "
            "-9223372036854775808; expected low below high");
    refused(tn_randint(-200, 300, tn_dims(2), .dtype = TN_I8), TN_ERR_ARGUMENT,
            "randint: the integers in [-200, 300) do not all fit into dtype "
            "int8, [-128, 127]");
    ok(tn_randint(-128, 128, tn_dims(2), .dtype = TN_I8) &&
           tn_randint(0, 256, tn_dims(2), .dtype = TN_U8) &&
           tn_randint(0, 2, tn_dims(2), .dtype = TN_BOOL) && !tn_error(),
       "all of a dtype's numbers can be drawn");
    refused(
        tn_bincount(WHOLES(INT64_MAX)), TN_ERR_ARGUMENT,
        "bincount: input has the value 9223372036854775807; the result, one "
        "element for each integer up to it, would be too large");
}

/* ---- losses with shapes that only broadcast ------------------------------ */

static char warning[400];
static int warnings;

static void note_line(int level, const char *line, void *context)
{
    (void)context;
    if (level == 1 && strstr(line, "so they are broadcast")) {
        snprintf(warning, sizeof warning, "%s", line);
        warnings++;
    }
}

static void test_warnings(void)
{
    tn_tensor *x = tn_ones(tn_dims(7, 1)), *y = tn_ones(tn_dims(7));
    static int more; /* so that each round has other shapes */
    y = tn_ones(tn_dims(7 + ++more));
    warnings = 0;
    tn_log_set(note_line, NULL);
    for (int i = 0; i < 3; i++)
        tn_mse_loss(x, y);
    is_int(warnings, 1, "mse_loss warns once");
    char want[200];
    snprintf(
        want, sizeof want,
        "mse_loss: input has shape (7, 1) and target (%d,), so they are "
        "broadcast, which is often a mistake: tn_reshape one of them, or "
        "tn_expand it if this is intended",
        7 + more);
    is_str(warning, want, "with both shapes");
    tn_l1_loss(x, y);
    tn_smooth_l1_loss(x, y);
    tn_huber_loss(x, y);
    tn_soft_margin_loss(x, y);
    tn_binary_cross_entropy_with_logits(x, y, NULL);
    is_int(warnings, 6, "and each of its like");
    tn_mse_loss(x, x);
    is_int(warnings, 6, "equal shapes are passed over in silence");
    tn_log_set(NULL, NULL);
    ok(!tn_error(), "a warning is no error");
}

/* ---- layers and optimizers ---------------------------------------------- */

static void test_batch_norm(void)
{
    tn_module *norm = tn_nn_batch_norm1d(1, .cumulative = true);
    tn_forward(norm, tn_reshape(REALS(0, 0), tn_dims(2, 1)));
    ok(!tn_forward(norm, tn_zeros(tn_dims(1, 1))), "one value is refused");
    tn_error_clear();
    ok(!tn_forward(norm, tn_ones(tn_dims(2, 1), .dtype = TN_I64)),
       "and whole numbers");
    tn_error_clear();
    tn_forward(norm, tn_reshape(REALS(6, 6), tn_dims(2, 1)));
    is_int(tn_item_int(tn_module_buffer(norm, "num_batches_tracked")), 2,
           "a batch that was refused is not counted");
    is_floats(tn_module_buffer(norm, "running_mean"), 1, (const float[]){3},
              "so that the cumulative mean is that of the others");
    norm = tn_nn_instance_norm1d(2, .track_running_stats = true);
    ok(!tn_forward(norm, tn_ones(tn_dims(1, 2, 1))), "instance norm, too");
    tn_error_clear();
    is_int(tn_item_int(tn_module_buffer(norm, "num_batches_tracked")), 0,
           "counts no batch that was refused");
}

static void test_scaler(void)
{
    tn_tensor *w = tn_requires_grad(tn_ones(tn_dims(1)));
    tn_optim *optim = tn_optim_sgd(tn_parameters_from(&w, 1), .lr = 1);
    refused(tn_grad_scaler_new(.init_scale = 1e-320), TN_ERR_ARGUMENT,
            "grad_scaler_new: the scale is 9.99989e-321; expected 1.17549e-38 "
            "to 3.40282e+38, where the scale and its reciprocal are both "
            "float32");
    tn_grad_scaler *scaler = tn_grad_scaler_new(.init_scale = 1);
    for (int i = 0; i < 300; i++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor_set_grad(w, tn_full(tn_dims(1), INFINITY));
        tn_grad_scaler_step(scaler, optim);
        tn_grad_scaler_update(scaler);
        tn_scope_close(scope);
    }
    ok(tn_grad_scaler_factor(scaler) == (double)0x1p-126f,
       "after 300 overflows the scale is 2^-126, and not 0: %g",
       tn_grad_scaler_factor(scaler));
    tn_tensor_set_grad(w, tn_full(tn_dims(1), 0x1p-126));
    is_int(tn_grad_scaler_step(scaler, optim), 1, "with which a step is made");
    is_floats(w, 1, (const float[]){0}, "by a gradient of 1");
    tn_error_clear();
    scaler = tn_grad_scaler_new(.init_scale = 1e-30);
    tn_tensor_set_grad(w, tn_full(tn_dims(1), 1e20));
    is_int(tn_grad_scaler_step(scaler, optim), 0,
           "a gradient that is infinite once it is unscaled makes no step");
    is_floats(w, 1, (const float[]){0}, "and changes nothing");
}

static void fetch(tn_tensor *x, void *out, size_t bytes)
{
    ok(x && tn_tensor_to_array(x, out, bytes) == TN_OK, "there is a result%s%s",
       tn_error() ? ": " : "", tn_error() ? tn_error() : "");
}

/* Tests edge cases in which results were once wrong. PyTorch's samples do not
 * contain them. */
static void test_near_edges(void)
{
    int16_t pooled[4] = {0};
    const int16_t low[] = {INT16_MIN, INT16_MIN, -5, INT16_MIN};
    float zero[2] = {5, 5};
    int64_t place[5] = {0};
    double values[100];
    fetch(tn_add_scalar(REALS(-0.0f, -0.0f), 0), zero, sizeof zero);
    ok(zero[0] == 0 && !signbit(zero[0]) && !signbit(zero[1]),
       "-0 + 0 is +0");
    tn_tensor *x = tn_reshape(tn_tensor_from_array(low, TN_I16, tn_dims(4)),
                              tn_dims(1, 2, 2));
    fetch(tn_max_pool2d(x, tn_dims(2, 2), .padding = 1), pooled,
                   sizeof pooled);
    ok(pooled[0] == INT16_MIN && pooled[1] == INT16_MIN && pooled[2] == -5 &&
           pooled[3] == INT16_MIN,
       "padding of int16 is less than any number, or as small");
    for (int i = 0; i < 100; i++)
        values[i] = i % 3;
    tn_tensor *places = NULL;
    tn_topk(tn_tensor_from_array(values, TN_F64, tn_dims(100)), 5, -1, true,
            true, &places);
    fetch(places, place, sizeof place);
    ok(place[0] == 2 && place[1] == 5 && place[2] == 8 && place[3] == 11 &&
           place[4] == 14,
       "equals of float64 keep their order in topk");
    x = tn_unflatten(tn_zeros(tn_dims(0)), 0, tn_dims(0, -1));
    ok(!x && tn_error(), "unflatten does not guess beside a 0: %s",
       tn_error() ? tn_error() : "(a result)");
    tn_error_clear();
}

/* A convolution processes images in batches; for this many images the last
 * batch is smaller. */
static void test_steps(void)
{
    tn_tensor *x = tn_rand(tn_dims(5, 64, 32, 32));
    tn_tensor *w = tn_rand(tn_dims(2, 64, 3, 3));
    tn_tensor *all = tn_conv2d(x, w, NULL, .padding = 1);
    for (int i = 0; i < 5; i++) {
        tn_tensor *one = tn_conv2d(tn_narrow(x, 0, i, 1), w, NULL,
                                   .padding = 1);
        ok(tn_item(tn_allclose(tn_narrow(all, 0, i, 1), one, .rtol = 1e-4,
                               .atol = 1e-4)) == 1,
           "image %d of a convolution of five is that of one", i);
    }
    x = tn_rand(tn_dims(5, 7, 128));
    tn_tensor *mean = tn_arange(0, 7, 1, .dtype = TN_F32);
    tn_tensor *var = tn_add_scalar(mean, 1);
    tn_tensor *want = tn_div(
        tn_sub(x, tn_reshape(mean, tn_dims(7, 1))),
        tn_sqrt(tn_add_scalar(tn_reshape(var, tn_dims(7, 1)), 1e-5)));
    ok(tn_item(tn_allclose(tn_batch_norm(x, mean, var, NULL, NULL,
                                         .training = false),
                           want, .rtol = 1e-5, .atol = 1e-5)) == 1,
       "batch_norm by its running statistics");
}

/* brief: runs only the tests of kernels and primitives of the device. The other
 * tests consist of many operators, each of which takes an OpenCL compiler
 * 0.3 s. */
static void test_all(tn_device *device, bool brief)
{
    tn_device_set(device);
    note("on %s", tn_device_name(device));
    test_pools();
    test_cholesky();
    test_distributions();
    test_randint();
    if (brief)
        return;
    test_indices();
    test_weights();
    test_ranges();
    test_no_parts();
    test_warnings();
    test_batch_norm();
    test_near_edges();
    test_steps();
    test_scaler();
}

int main(void)
{
    plan_later();
    static const char *const names[] = {"reference", "cpu", "opencl"};
    /* makes the device synchronous, because errors are checked right after the
     * call */
    setenv("TENON_OPENCL_BLOCKING", "1", 0);
    tn_device *own = tn_device_current();
    if (!own)
        bail_out("%s", tn_error());
    test_all(own, false);
    for (int i = 0; i < 3; i++) {
        tn_device *device = tn_device_open(names[i]);
        if (!device)
            skip(1, tn_error());
        else if (device != own)
            test_all(device, strcmp(names[i], "opencl") == 0);
        tn_error_clear();
    }
    return done_testing();
}
