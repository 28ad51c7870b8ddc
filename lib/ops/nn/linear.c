/* linear.c: computes input @ weight^T + bias (PyTorch's linear), and optionally
 * relu or gelu of it.
 *
 * If the device has the extension "product", one call of the device computes
 * all of it, and also stores the data for the gradient of the activation. If
 * the device declines, other operators compute the same. In this file, `words`
 * is the activation as flags: TN_PRODUCT_RELU, TN_PRODUCT_GELU,
 * TN_PRODUCT_GELU_TANH, or 0 for none. */
#include <device/device.h>
#include <ops/engine/native.h>
#include <device/work.h>

static tn_status fail_sizes(const char *name, const tn_tensor *x,
                            const tn_tensor *w)
{
    char first[TN__SHAPE_TEXT], second[TN__SHAPE_TEXT];
    return tn__fail(TN_ERR_SHAPE, "%s: the last sizes differ: {input} %s x "
                    "{weight} %s", name,
                    tn__shape_text(first, x->ndim, x->shape),
                    tn__shape_text(second, w->ndim, w->shape));
}

static tn_status check(const char *name, const tn_tensor *x,
                       const tn_tensor *w, const tn_tensor *b)
{
    char first[TN__SHAPE_TEXT], second[TN__SHAPE_TEXT];
    if (w->ndim < 1 || w->ndim > 2 || x->ndim < 1 ||
        x->shape[x->ndim - 1] != w->shape[w->ndim - 1])
        return fail_sizes(name, x, w);
    int64_t biases = b && b->ndim ? b->shape[b->ndim - 1] : 1;
    if (w->ndim == 2 && biases != 1 && biases != w->shape[0])
        return tn__fail(TN_ERR_SHAPE, "%s: {bias} has shape %s; expected one "
                        "number for each output feature, the first size of "
                        "{weight} %s", name,
                        tn__shape_text(first, b->ndim, b->shape),
                        tn__shape_text(second, w->ndim, w->shape));
    return TN_OK;
}

/* ---- computed by other operators ----------------------------------------- */

static bool is_half(const tn_tensor *x)
{
    return tn_dtype_bytes(x->dtype) == 2 && tn_dtype_is_floating(x->dtype);
}

/* Returns the transpose of w. tn_t is avoided for matrices because it is a
 * composite, which costs one more call. */
static tn_tensor *transposed(tn_tensor *w)
{
    return w->ndim == 2 ? tn_transpose(w, 0, 1) : tn_t(w);
}

static tn_tensor *plain(tn_tensor *x, tn_tensor *w, tn_tensor *b)
{
    if (b && b->dtype == x->dtype && is_half(b)) {
        const tn_value value[] = {tn__value_tensor(x),
                                  tn__value_tensor(transposed(w)),
                                  tn__value_tensor(b)};
        return tn__row(TN__OP_ID_MATMUL_ADD, value, 3);
    }
    tn_tensor *y = tn_matmul(x, transposed(w));
    if (!b)
        return y;
    tn_tensor *sum = tn_add(y, b);
    tn_drop(y);
    return sum;
}

/* Applies the activation that `words` (TN_PRODUCT_... flags) names to x. */
static tn_tensor *activated(tn_tensor *x, uint32_t words)
{
    return words == TN_PRODUCT_RELU   ? tn_relu(x)
           : words == TN_PRODUCT_GELU ? tn_gelu(x)
           : words                    ? tn_gelu(x, .approximate = "tanh")
                                      : x;
}

/* Computes product, bias and activation by operators. One kernel adds the bias
 * and applies the activation after the product, except in two cases. With half
 * types the product adds the bias, so that the sum is rounded once. For gelu by
 * tanh there is no such kernel. */
static tn_tensor *by_operators(tn_tensor *x, tn_tensor *w, tn_tensor *b,
                               uint32_t words)
{
    int row = words == TN_PRODUCT_RELU   ? TN__OP_ID_ADD_RELU
              : words == TN_PRODUCT_GELU ? TN__OP_ID_ADD_GELU
                                         : -1;
    bool together = row >= 0 && b && b->dtype == x->dtype && !is_half(b);
    tn_tensor *z = plain(x, w, together ? NULL : b);
    if (!z || !words)
        return z;
    const tn_value value[] = {tn__value_tensor(z), tn__value_tensor(b)};
    tn_tensor *y = together ? tn__row(row, value, 2) : activated(z, words);
    tn_drop(z);
    return y;
}

/* ---- computed by the device ---------------------------------------------- */

static tn_strided matrix(const tn_tensor *x, int64_t down, int64_t across)
{
    return (tn_strided){.buffer = tn__tensor_buffer(x),
                        .offset = tn__tensor_buffer_offset(x),
                        .dtype = x->dtype, .ndim = 2,
                        .stride = {down, across}};
}

static tn_strided vector(const tn_tensor *x)
{
    tn_strided view = matrix(x, x->stride[0], 0);
    view.ndim = 1;
    return view;
}

/* Describes x (..., size) in *view as one matrix (rows, size). Returns false if
 * the strides of x do not allow it. */
static bool as_rows(const tn_tensor *x, tn_strided *view, int64_t *rows)
{
    const int last = x->ndim - 1;
    int64_t stride = x->shape[last];
    *rows = 1;
    for (int d = last; d-- > 0;) {
        if (x->shape[d] != 1 && *rows == 1)
            stride = x->stride[d];
        else if (x->shape[d] != 1 && x->stride[d] != *rows * stride)
            return false;
        *rows *= x->shape[d];
    }
    *view = matrix(x, stride, x->stride[last]);
    return true;
}

static bool has_product(const tn_tensor *x)
{
    return atomic_load_explicit(&x->storage->device->product,
                                memory_order_relaxed) &&
           (x->dtype == TN_F32 || is_half(x));
}

/* Returns whether the device may compute a product of these operands. This is
 * checked because a program can call the operators of this file by name, with
 * any operands. */
static bool fits_product(const tn_tensor *x, const tn_tensor *w,
                         const tn_tensor *b)
{
    tn_strided view;
    int64_t rows;
    return has_product(x) && w->ndim == 2 && w->dtype == x->dtype &&
           x->numel && w->numel && x->ndim > 0 &&
           x->shape[x->ndim - 1] == w->shape[1] && as_rows(x, &view, &rows) &&
           (!b || (b->dtype == x->dtype && b->ndim == 1 &&
                   b->shape[0] == w->shape[0]));
}

static tn_tensor *result_like(const tn_tensor *x, int64_t last, tn_dtype dtype,
                              const char *name)
{
    int64_t shape[TN_MAX_NDIM];
    memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
    shape[x->ndim - 1] = last;
    return tn__tensor_new(x->storage->device, dtype, x->ndim, shape, name);
}

/* Makes the tensor in which the device stores the data for the derivative of
 * the activation. For relu it has one bit for each element of out. For gelu it
 * is a tensor like out. */
static tn_tensor *aux_for(const tn_tensor *out, uint32_t words, int64_t rows,
                          const char *name)
{
    const int64_t n = out->shape[out->ndim - 1];
    const int64_t bits[] = {rows, TN_PRODUCT_MASK(n)};
    return words & TN_PRODUCT_RELU
               ? tn__tensor_new(out->storage->device, TN_U8, 2, bits, name)
               : result_like(out, n, out->dtype, name);
}

/* Computes the outputs of the call by the device. Returns TN_ERR_UNSUPPORTED,
 * without an error recorded, if the device declines. */
static tn_status by_device(tn__call *call, tn_tensor *x, tn_tensor *w,
                           tn_tensor *b, uint32_t words)
{
    const char *name = tn__op_outer("linear");
    if (!fits_product(x, w, b))
        return TN_ERR_UNSUPPORTED;
    const int64_t n = w->shape[0];
    tn_product_args args = {.size = sizeof args, .epilogue = words, .n = n,
                            .k = w->shape[1], .alpha = 1};
    as_rows(x, &args.a, &args.m);
    tn_tensor *out = result_like(x, n, x->dtype, name), *aux = NULL;
    if (out && words & TN_PRODUCT_KEEP)
        aux = aux_for(out, words, args.m, name);
    tn_status status = tn_error_code();
    if (out && (aux || !(words & TN_PRODUCT_KEEP))) {
        args.b = matrix(w, w->stride[1], w->stride[0]);
        args.c = matrix(out, n, 1);
        if (b) {
            args.bias = vector(b);
            args.epilogue |= TN_PRODUCT_BIAS;
        }
        if (aux)
            args.aux = matrix(aux, aux->shape[aux->ndim - 1], 1);
        status = tn__device_work(x->storage->device, TN__WORK_PRODUCT, &args,
                                 name, NULL, NULL);
    }
    if (status) {
        tn__unref(out);
        tn__unref(aux);
        return status;
    }
    tn__give(call, out);
    return aux ? tn__give(call, aux) : TN_OK;
}

static bool is_recorded(const tn_tensor *x, const tn_tensor *w,
                        const tn_tensor *b)
{
    return tn__hooks.recording && tn__hooks.recording() &&
           (tn__tensor_tracks(x) || tn__tensor_tracks(w) ||
            (b && tn__tensor_tracks(b)));
}

/* Runs the operators linear_product, linear_relu and linear_gelu. */
static tn_status run_row(tn__call *call, uint32_t words)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINEAR_PRODUCT_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_LINEAR_PRODUCT_WEIGHT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_LINEAR_PRODUCT_BIAS);
    bool keeps = words && is_recorded(x, w, b);
    tn_status status =
        by_device(call, x, w, b, keeps ? words | TN_PRODUCT_KEEP : words);
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn__call inner = {.out = (tn_tensor *[2]){NULL, NULL}};
    status = words ? by_device(&inner, x, w, b, 0) : TN_ERR_UNSUPPORTED;
    tn_tensor *z = status == TN_ERR_UNSUPPORTED ? plain(x, w, b)
                   : status                     ? NULL
                                : tn__scope_own(inner.out[0]);
    tn_tensor *y = activated(z, words);
    if (y)
        call->out[call->out_count++] = tn__ref(y);
    if (y && keeps && words != TN_PRODUCT_RELU)
        call->out[call->out_count++] = tn__ref(z);
    tn_scope_close(scope);
    return y ? TN_OK : tn_error_code();
}

tn_status tn__run_linear_product(tn__call *call)
{
    return run_row(call, 0);
}

tn_status tn__run_linear_relu(tn__call *call)
{
    return run_row(call, TN_PRODUCT_RELU);
}

tn_status tn__run_linear_gelu(tn__call *call)
{
    return run_row(call, tn__call_int(call, TN__ARG_LINEAR_GELU_TANH)
                             ? TN_PRODUCT_GELU_TANH
                             : TN_PRODUCT_GELU);
}

/* ---- gradients ----------------------------------------------------------- */

static tn_status refuse(const tn__call *call, const tn_tensor *g,
                        const char *other, const tn_tensor *x)
{
    char first[TN__SHAPE_TEXT], second[TN__SHAPE_TEXT];
    return tn__fail(TN_ERR_SHAPE, "%s: {g} is %s of shape %s and {%s} is %s "
                    "of shape %s, which do not fit each other: call linear, "
                    "whose gradient calls this operator", call->op->name,
                    tn_dtype_name(g->dtype),
                    tn__shape_text(first, g->ndim, g->shape), other,
                    tn_dtype_name(x->dtype),
                    tn__shape_text(second, x->ndim, x->shape));
}

/* Returns whether x is contiguous, has the dtype of `rows`, and has its shape
 * except that the last size is `last`. */
static bool is_result(const tn_tensor *x, const tn_tensor *rows, int64_t last)
{
    const int at = rows->ndim - 1;
    return x->dtype == rows->dtype && x->ndim == rows->ndim &&
           tn__shape_equal(at, x->shape, at, rows->shape) &&
           x->shape[at] == last && tn_tensor_is_contiguous(x);
}

/* Returns whether x has the dtype and shape of the tensor that aux_for makes
 * for the backward pass. */
static bool is_aux(const tn_tensor *x, const tn_tensor *kept, uint32_t words)
{
    const int64_t n = kept->shape[kept->ndim - 1];
    return words == TN_PRODUCT_RELU
               ? x->dtype == TN_U8 && x->ndim == 2 &&
                     x->shape[0] * n == kept->numel &&
                     x->shape[1] == TN_PRODUCT_MASK(n) &&
                     tn_tensor_is_contiguous(x)
               : (words == TN_PRODUCT_GELU || words == TN_PRODUCT_GELU_TANH) &&
                     is_result(x, kept, n);
}

/* Computes the gradient with respect to the input, g @ weight, times the
 * derivative of the activation that made the input. */
tn_status tn__run_linear_back(tn__call *call)
{
    tn_tensor *g = tn__call_tensor(call, TN__ARG_LINEAR_BACK_G);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_LINEAR_BACK_WEIGHT);
    tn_tensor *aux = tn__call_tensor(call, TN__ARG_LINEAR_BACK_AUX);
    tn_tensor *kept = tn__call_tensor(call, TN__ARG_LINEAR_BACK_KEPT);
    uint32_t words = (uint32_t)tn__call_int(call, TN__ARG_LINEAR_BACK_WORDS);
    if (g->ndim < 1 || w->ndim != 2 || g->dtype != w->dtype ||
        g->shape[g->ndim - 1] != w->shape[0] ||
        !is_result(kept, g, w->shape[1]) || !is_aux(aux, kept, words))
        return refuse(call, g, "weight", w);
    const char *name = tn__op_outer("linear");
    tn_product_args args = {.size = sizeof args,
                            .epilogue = words | TN_PRODUCT_BACK,
                            .n = w->shape[1], .k = w->shape[0], .alpha = 1};
    tn_tensor *out = result_like(g, args.n, g->dtype, name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_status status = TN_ERR_UNSUPPORTED;
    if (as_rows(g, &args.a, &args.m)) {
        args.b = matrix(w, w->stride[0], w->stride[1]);
        args.c = matrix(out, args.n, 1);
        args.aux = matrix(aux, aux->shape[aux->ndim - 1], 1);
        status = tn__device_work(g->storage->device, TN__WORK_PRODUCT, &args,
                                 name, NULL, NULL);
    }
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    tn_scope *scope = tn_scope_open();
    const tn_value value[] = {tn__value_tensor(tn_matmul(g, w)),
                              tn__value_tensor(kept)};
    tn_tensor *back = tn__row(words == TN_PRODUCT_RELU   ? TN__OP_ID_RELU_BACK
                              : words == TN_PRODUCT_GELU ? TN__OP_ID_GELU_BACK
                                                : TN__OP_ID_GELU_TANH_BACK,
                              value, 2);
    status = back ? tn__copy_into(out, back, name) : tn_error_code();
    tn_scope_close(scope);
    return status;
}

/* Computes the gradient with respect to the weight, g^T @ input, and the
 * gradient with respect to the bias, the sums of the columns of g. */
tn_status tn__run_linear_weight(tn__call *call)
{
    tn_tensor *g = tn__call_tensor(call, TN__ARG_LINEAR_WEIGHT_G);
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINEAR_WEIGHT_INPUT);
    const char *name = tn__op_outer("linear");
    if (x->ndim < 1 || g->ndim != x->ndim || g->dtype != x->dtype ||
        !tn__shape_equal(x->ndim - 1, g->shape, x->ndim - 1, x->shape))
        return refuse(call, g, "input", x);
    const int64_t shape[] = {g->shape[g->ndim - 1], x->shape[x->ndim - 1]};
    tn_product_args args = {.size = sizeof args, .epilogue = TN_PRODUCT_SUMS,
                            .m = shape[0], .n = shape[1], .alpha = 1};
    for (int o = 0; o < 2; o++)
        if (tn__give(call, tn__tensor_new(x->storage->device, x->dtype, 2 - o,
                                          shape, name)) < 0)
            return tn_error_code();
    tn_status status = TN_ERR_UNSUPPORTED;
    if (as_rows(g, &args.a, &args.k) && as_rows(x, &args.b, &args.k)) {
        args.a = matrix(g, args.a.stride[1], args.a.stride[0]);
        args.c = matrix(call->out[0], shape[1], 1);
        args.bias = vector(call->out[1]);
        status = tn__device_work(x->storage->device, TN__WORK_PRODUCT, &args,
                                 name, NULL, NULL);
    }
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    tn_scope *scope = tn_scope_open();
    tn_tensor *rows = tn_reshape(g, tn_dims(-1, shape[0]));
    tn_tensor *w = tn_matmul(tn_t(rows),
                             tn_reshape(x, tn_dims(-1, shape[1])));
    tn_tensor *sums = tn_sum(rows, .dim = 0);
    status = w && sums ? tn__copy_into(call->out[0], w, name)
                       : tn_error_code();
    if (!status)
        status = tn__copy_into(call->out[1], sums, name);
    tn_scope_close(scope);
    return status;
}

/* ---- linear, with and without an activation ------------------------------ */

static tn_tensor *linear(tn_tensor *x, tn_tensor *w, tn_tensor *b,
                         uint32_t words)
{
    if (!fits_product(x, w, b))
        return by_operators(x, w, b, words);
    const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(w),
                              b ? tn__value_tensor(b)
                                : (tn_value){.kind = TN_VALUE_NONE},
                              tn__value_bool(words == TN_PRODUCT_GELU_TANH)};
    return !words                     ? tn__row(TN__OP_ID_LINEAR_PRODUCT, value, 3)
           : words == TN_PRODUCT_RELU ? tn__row(TN__OP_ID_LINEAR_RELU, value, 3)
                                      : tn__row(TN__OP_ID_LINEAR_GELU, value, 4);
}

tn_status tn__run_linear(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINEAR_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_LINEAR_WEIGHT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_LINEAR_BIAS);
    tn_status status = check(call->op->name, x, w, b);
    return status < 0 ? status : tn__give(call, linear(x, w, b, 0));
}

tn_status tn__run_linear_activation(tn__call *call)
{
    static const struct {
        const char *name;
        uint32_t words;
    } known[] = {{"relu", TN_PRODUCT_RELU},
                 {"gelu", TN_PRODUCT_GELU},
                 {"gelu_tanh", TN_PRODUCT_GELU_TANH}};
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINEAR_ACTIVATION_INPUT);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_LINEAR_ACTIVATION_WEIGHT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_LINEAR_ACTIVATION_BIAS);
    const char *name =
        call->value[TN__ARG_LINEAR_ACTIVATION_ACTIVATION].of.string;
    tn_status status = check(call->op->name, x, w, b);
    for (size_t i = 0; i < sizeof known / sizeof *known && !status; i++)
        if (strcmp(name, known[i].name) == 0)
            return tn__give(call, linear(x, w, b, known[i].words));
    return status ? status
                  : tn__fail(TN_ERR_ARGUMENT, "linear_activation: {activation} "
                             "\"%s\" is none of \"relu\", \"gelu\" and "
                             "\"gelu_tanh\"", name);
}
