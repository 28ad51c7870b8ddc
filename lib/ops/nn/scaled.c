/* scaled.c: products of float8 matrices with scales (PyTorch's _scaled_mm). The
 * elements of a matrix were brought into the range of float8 by a scale.
 *
 * If the device has the extension "product" and supports float8, it multiplies
 * the matrices. The scales stay in the device's memory, so the host does not
 * wait for their values. Otherwise the product is computed in float32, in which
 * each float8 number and each product of two of them is exact. */
#include <device/device.h>
#include <ops/engine/native.h>
#include <device/work.h>

static const char name[] = "scaled_mm";

static tn_status check_matrices(const tn_tensor *a, const tn_tensor *b)
{
    char first[TN__SHAPE_TEXT], second[TN__SHAPE_TEXT];
    const tn_tensor *each[] = {a, b};
    for (int i = 0; i < 2; i++)
        if (!tn_dtype_is_floating(each[i]->dtype) ||
            tn_dtype_bytes(each[i]->dtype) != 1)
            return tn__fail(TN_ERR_DTYPE, "%s: {%s} is %s; expected float8: "
                            "use tn_mm for other dtypes", name,
                            i ? "mat2" : "input",
                            tn_dtype_name(each[i]->dtype));
    if (a->ndim != 2 || b->ndim != 2 || a->shape[1] != b->shape[0])
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s and {mat2} "
                        "%s; expected (n, k) and (k, m)", name,
                        tn__shape_text(first, a->ndim, a->shape),
                        tn__shape_text(second, b->ndim, b->shape));
    return TN_OK;
}

/* Checks the argument `which`, a scale. A scale is one number, or one number
 * for each row or each column of the product. */
static tn_status check_scale(const char *which, const tn_tensor *scale,
                             int64_t rows, int64_t columns)
{
    char text[TN__SHAPE_TEXT];
    if (scale->dtype != TN_F32)
        return tn__fail(TN_ERR_DTYPE, "%s: {%s} is %s; convert it to float32 "
                        "with tn_to_dtype", name, which,
                        tn_dtype_name(scale->dtype));
    if (scale->numel == 1 || (scale->ndim == 2 && scale->shape[0] == rows &&
                              scale->shape[1] == columns))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} %s is neither one number nor "
                    "(%lld, %lld)", name, which,
                    tn__shape_text(text, scale->ndim, scale->shape),
                    (long long)rows, (long long)columns);
}

static tn_strided view_of(const tn_tensor *x)
{
    tn_strided view = {.buffer = tn__tensor_buffer(x),
                       .offset = tn__tensor_buffer_offset(x),
                       .dtype = x->dtype, .ndim = (uint32_t)x->ndim};
    for (int d = 0; d < x->ndim; d++)
        view.stride[d] = x->stride[d];
    return view;
}

static tn_status by_device(tn_tensor *const x[4], tn_tensor *bias,
                           tn_tensor *out)
{
    const int64_t *m = x[0]->shape, *n = x[1]->shape;
    tn_product_args args = {.size = sizeof args, .m = m[0], .n = n[1],
                            .k = m[1], .alpha = 1};
    if (x[2]->numel != 1 || x[3]->numel != 1 || !x[0]->numel || !x[1]->numel ||
        out->dtype == TN_F64 || tn_dtype_bytes(out->dtype) == 1 ||
        (bias && (bias->dtype != out->dtype || bias->ndim != 1)))
        return TN_ERR_UNSUPPORTED;
    args.a = view_of(x[0]);
    args.b = view_of(x[1]);
    args.c = view_of(out);
    args.scale_a = view_of(x[2]);
    args.scale_b = view_of(x[3]);
    if (bias) {
        args.bias = view_of(bias);
        args.epilogue = TN_PRODUCT_BIAS;
    }
    return tn__device_work(out->storage->device, TN__WORK_PRODUCT, &args, name,
                           NULL, NULL);
}

static tn_status by_operators(tn_tensor *const x[4], tn_tensor *bias,
                              tn_tensor *out)
{
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_tensor *y = tn_matmul(tn_to_dtype(x[0], TN_F32),
                             tn_to_dtype(x[1], TN_F32));
    for (int i = 2; i < 4; i++)
        y = tn_mul(y, x[i]->numel == 1 ? tn_reshape(x[i], TN_SCALAR) : x[i]);
    if (bias)
        y = tn_add(y, tn_to_dtype(bias, TN_F32));
    tn_status status = y ? tn__copy_into(out, y, name) : tn_error_code();
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_scaled_mm(tn__call *call)
{
    tn_tensor *const x[4] = {tn__call_tensor(call, TN__ARG_SCALED_MM_INPUT),
                             tn__call_tensor(call, TN__ARG_SCALED_MM_MAT2),
                             tn__call_tensor(call, TN__ARG_SCALED_MM_SCALE_A),
                             tn__call_tensor(call, TN__ARG_SCALED_MM_SCALE_B)};
    tn_tensor *bias = tn__call_tensor(call, TN__ARG_SCALED_MM_BIAS);
    char text[TN__SHAPE_TEXT];
    tn_dtype dtype = tn__call_has(call, TN__ARG_SCALED_MM_OUT_DTYPE)
                         ? (tn_dtype)tn__call_int(call,
                                                  TN__ARG_SCALED_MM_OUT_DTYPE)
                         : x[0]->dtype;
    tn_status status = check_matrices(x[0], x[1]);
    if (status < 0)
        return status;
    const int64_t shape[] = {x[0]->shape[0], x[1]->shape[1]};
    status = check_scale("scale_a", x[2], shape[0], 1);
    if (status >= 0)
        status = check_scale("scale_b", x[3], 1, shape[1]);
    if (status < 0)
        return status;
    if (!tn_dtype_is_floating(dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {out_dtype} is %s; expected a "
                        "floating-point dtype", name, tn_dtype_name(dtype));
    if (bias && (bias->ndim != 1 || bias->shape[0] != shape[1]))
        return tn__fail(TN_ERR_SHAPE, "%s: {bias} has shape %s; expected "
                        "(%lld,)", name,
                        tn__shape_text(text, bias->ndim, bias->shape),
                        (long long)shape[1]);
    if (bias && (!tn_dtype_is_floating(bias->dtype) || bias->dtype == TN_F64))
        return tn__fail(TN_ERR_DTYPE, "%s: {bias} is %s; convert it to float32 "
                        "or {out_dtype} with tn_to_dtype", name,
                        tn_dtype_name(bias->dtype));
    tn_tensor *out =
        tn__tensor_new(x[0]->storage->device, dtype, 2, shape, name);
    if (tn__give(call, out) < 0)
        return tn_error_code();
    status = by_device(x, bias, out);
    return status == TN_ERR_UNSUPPORTED ? by_operators(x, bias, out) : status;
}
