/* select.c: operators whose options choose among several kernels, as
 * rounding_mode does in div. A select function replaces call->op by another
 * operator of the table, and the values if necessary, before a kernel is looked
 * up. So the gradient is recorded for the operator that runs. */
#include <base/error.h>
#include <ops/table.h>
#include <string.h>

static tn_status run_row(tn__call *call, int id)
{
    /* The arguments of the selected operator are the first arguments of the
     * selecting one. */
    call->op = &tn__op_table[id];
    return tn__run_kernel(call);
}

static bool is_half(const tn_value *v)
{
    return v->kind == TN_VALUE_TENSOR &&
           (v->of.tensor->dtype == TN_F16 || v->of.tensor->dtype == TN_BF16);
}

/* Rejects the integer 0 as divisor of integers. Argument 0 is the dividend,
 * argument 1 the divisor. If the divisor is a tensor, its elements are checked
 * when the kernel reads them. */
static tn_status check_divisor(const tn__call *call)
{
    const tn_tensor *x = call->value[0].of.tensor;
    const tn_value *y = &call->value[1];
    if (y->kind == TN_VALUE_TENSOR || y->count == TN_SCALAR_FLOAT ||
        y->of.i != 0 || tn_dtype_is_floating(x->dtype) || x->numel == 0)
        return TN_OK;
    return tn__fail(TN_ERR_ARGUMENT, "%s: division by zero: {other} is 0",
                    call->op->name);
}

tn_status tn__select_divisor(tn__call *call)
{
    tn_status status = check_divisor(call);
    return status < 0 ? status : tn__run_kernel(call);
}

/* Rejects a negative std. If std is a tensor, its elements are checked when the
 * kernel reads them. */
tn_status tn__select_normal(tn__call *call)
{
    const tn_value *std = &call->value[TN__ARG_NORMAL_STD];
    double number = std->kind == TN_VALUE_NUMBER
                        ? tn__call_float(call, TN__ARG_NORMAL_STD)
                        : 0;
    if (!(number >= 0))
        return tn__fail(TN_ERR_ARGUMENT, "normal: {std} is %g; expected 0 or "
                        "greater", number);
    return tn__run_kernel(call);
}

tn_status tn__select_cosine(tn__call *call)
{
    double eps = tn__call_float(call, TN__ARG_COSINE_SIMILARITY_EPS);
    if (!(eps >= 0))
        return tn__fail(TN_ERR_ARGUMENT, "cosine_similarity: {eps} is %g; "
                        "expected 0 or greater", eps);
    return tn__run_kernel(call);
}

tn_status tn__select_div(tn__call *call)
{
    bool inplace = call->op->inplace;
    /* PyTorch treats a divisor of one element as a number. */
    bool half = is_half(&call->value[TN__ARG_DIV_INPUT]) &&
                is_half(&call->value[TN__ARG_DIV_OTHER]) &&
                call->value[TN__ARG_DIV_OTHER].of.tensor->numel != 1;
    if (!tn__call_has(call, TN__ARG_DIV_ROUNDING_MODE))
        return tn__run_kernel(call);
    tn_status status = check_divisor(call);
    if (status < 0)
        return status;
    const char *mode = call->value[TN__ARG_DIV_ROUNDING_MODE].of.string;
    if (strcmp(mode, "trunc") == 0 && half)
        return run_row(call, inplace ? TN__OP_ID_DIV_TRUNC_HALF_
                                     : TN__OP_ID_DIV_TRUNC_HALF);
    if (strcmp(mode, "trunc") == 0)
        return run_row(call, inplace ? TN__OP_ID_DIV_TRUNC_
                                     : TN__OP_ID_DIV_TRUNC);
    if (strcmp(mode, "floor") == 0)
        return run_row(call, inplace ? TN__OP_ID_FLOOR_DIVIDE_
                                     : TN__OP_ID_FLOOR_DIVIDE);
    return tn__fail(TN_ERR_ARGUMENT,
                    "div: {rounding_mode} \"%s\" is neither \"trunc\" nor "
                    "\"floor\"", mode);
}

tn_status tn__select_nextafter(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_NEXTAFTER_INPUT);
    tn_tensor *y = tn__call_tensor(call, TN__ARG_NEXTAFTER_OTHER);
    bool inplace = call->op->inplace;
    if (x->dtype != y->dtype)
        return tn__fail(TN_ERR_DTYPE, "nextafter: {input} is %s, {other} is "
                        "%s; convert one with tn_to_dtype",
                        tn_dtype_name(x->dtype), tn_dtype_name(y->dtype));
    if (x->dtype == TN_BF16)
        return run_row(call, inplace ? TN__OP_ID_NEXTAFTER_BF16_
                                     : TN__OP_ID_NEXTAFTER_BF16);
    if (x->dtype == TN_F16)
        return run_row(call, inplace ? TN__OP_ID_NEXTAFTER_F16_
                                     : TN__OP_ID_NEXTAFTER_F16);
    return tn__run_kernel(call);
}

tn_status tn__select_gelu(tn__call *call)
{
    const char *mode = call->value[TN__ARG_GELU_APPROXIMATE].of.string;
    if (strcmp(mode, "none") == 0)
        return tn__run_kernel(call);
    if (strcmp(mode, "tanh") == 0)
        return run_row(call, TN__OP_ID_GELU_TANH);
    return tn__fail(TN_ERR_ARGUMENT,
                    "gelu: {approximate} \"%s\" is neither \"none\" nor "
                    "\"tanh\"", mode);
}

tn_status tn__select_pow(tn__call *call)
{
    const tn_value *base = &call->value[TN__ARG_POW_INPUT];
    const tn_value *exponent = &call->value[TN__ARG_POW_EXPONENT];
    bool whole_base = base->kind == TN_VALUE_TENSOR
                          ? !tn_dtype_is_floating(base->of.tensor->dtype)
                          : base->count != TN_SCALAR_FLOAT;
    bool whole_exponent =
        exponent->kind == TN_VALUE_TENSOR
            ? !tn_dtype_is_floating(exponent->of.tensor->dtype)
            : exponent->count != TN_SCALAR_FLOAT;
    if (!whole_base || !whole_exponent)
        return tn__run_kernel(call);
    if (exponent->kind == TN_VALUE_NUMBER && exponent->of.i < 0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "pow: {exponent} %lld is negative and {input} has "
                        "whole numbers; convert {input} to a floating dtype "
                        "with tn_to_dtype",
                        (long long)exponent->of.i);
    return run_row(call, TN__OP_ID_POW_INT);
}

tn_status tn__select_mean(tn__call *call)
{
    const tn_tensor *x = tn__call_tensor(call, TN__ARG_MEAN_INPUT);
    tn_dtype dtype = tn__call_has(call, TN__ARG_MEAN_DTYPE)
                         ? (tn_dtype)tn__call_int(call, TN__ARG_MEAN_DTYPE)
                         : x->dtype;
    if (!tn_dtype_is_floating(dtype))
        return tn__fail(TN_ERR_DTYPE,
                        "mean: {input} is %s; give a floating .dtype or "
                        "convert it with tn_to_dtype",
                        tn_dtype_name(dtype));
    return tn__run_kernel(call);
}

static bool is_u8(const tn__call *call)
{
    return call->value[0].of.tensor->dtype == TN_U8;
}

tn_status tn__select_all(tn__call *call)
{
    return is_u8(call) ? run_row(call, TN__OP_ID_ALL_U8)
                       : tn__run_kernel(call);
}

tn_status tn__select_any(tn__call *call)
{
    return is_u8(call) ? run_row(call, TN__OP_ID_ANY_U8)
                       : tn__run_kernel(call);
}

/* Runs fill, masked_fill, threshold and where, whose numbers become numbers of
 * the dtype of a tensor. This is the first argument but for where, whose first
 * one is a mask, and whose result is floating if a number is. */
tn_status tn__select_stored(tn__call *call)
{
    const tn_op *op = call->op;
    const tn_value *v = call->value, *like = v;
    const bool is_where = op->mask == 1;
    if (is_where)
        like += v[1].kind == TN_VALUE_TENSOR ? 1 : 2;
    for (int i = 1; i < op->arg_count && like->kind == TN_VALUE_TENSOR; i++)
        if (!(is_where && v[i].count == TN_SCALAR_FLOAT) &&
            tn__check_fits(op->name, op->arg[i].name, &v[i],
                           like->of.tensor->dtype) < 0)
            return TN_ERR_ARGUMENT;
    return tn__run_kernel(call);
}

/* Replaces a bound beyond the numbers of an integer dtype by the nearest of
 * them, since the kernel would wrap it. Rejects a bound that every number of the
 * dtype is beyond. arg is the number of the bound's argument. */
static tn_status fit_bound(const tn__call *call, int arg, bool is_min,
                           tn_value *number)
{
    const tn_dtype dtype = call->value[0].of.tensor->dtype;
    int64_t *bound = &number->of.i, low, high;
    if (number->count != TN_SCALAR_INT || !tn__int_limits(dtype, &low, &high))
        return TN_OK;
    if (is_min ? *bound > high : *bound < low)
        return tn__check_fits(call->op->name, call->op->arg[arg].name, number,
                              dtype);
    *bound = *bound < low ? low : *bound > high ? high : *bound;
    return TN_OK;
}

/* Runs operator `id` with fitting bounds. A call has a minimum, a maximum, or
 * first a minimum and then a maximum. */
static tn_status run_fitting(tn__call *call, const tn_value *value,
                             bool has_min, int id)
{
    const tn_value *given = call->value;
    tn_value fitting[3] = {value[0], value[1]};
    for (int i = 1; i < call->op->arg_count; i++) {
        fitting[i] = value[i];
        if (fit_bound(call, i, i == 1 && has_min, &fitting[i]) < 0)
            return TN_ERR_ARGUMENT;
    }
    call->value = fitting;
    const tn_status status = run_row(call, id);
    call->value = given;
    return status;
}

/* Runs clamp_min and clamp_max. Their gradient where an element equals the
 * bound depends on the kind of the bound. If it is a tensor, input and bound
 * each get half of the gradient. If it is a number, input gets no gradient
 * there, so an operator with this gradient is selected. */
static tn_status select_clamp(tn__call *call, bool is_min, int by_number,
                              int inplace)
{
    if (call->value[1].kind == TN_VALUE_TENSOR)
        return tn__run_kernel(call);
    return run_fitting(call, call->value, is_min,
                       call->op->inplace ? inplace : by_number);
}

tn_status tn__select_clamp_min(tn__call *call)
{
    return select_clamp(call, true, TN__OP_ID_CLAMP_MIN_NUMBER,
                        TN__OP_ID_CLAMP_MIN_NUMBER_);
}

tn_status tn__select_clamp_max(tn__call *call)
{
    return select_clamp(call, false, TN__OP_ID_CLAMP_MAX_NUMBER,
                        TN__OP_ID_CLAMP_MAX_NUMBER_);
}

/* Runs softmax and log_softmax. An integer input is rejected unless a floating
 * dtype is given. */
tn_status tn__select_softmax(tn__call *call)
{
    const tn_tensor *x = call->value[TN__ARG_SOFTMAX_INPUT].of.tensor;
    if (call->value[TN__ARG_SOFTMAX_DTYPE].kind == TN_VALUE_NONE &&
        !tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE,
                        "%s: {input} is %s; give a floating .dtype or convert "
                        "it with tn_to_dtype", call->op->name,
                        tn_dtype_name(x->dtype));
    return tn__run_kernel(call);
}

tn_status tn__select_hardtanh(tn__call *call)
{
    const tn_tensor *x = call->value[TN__ARG_HARDTANH_INPUT].of.tensor;
    if (tn_dtype_is_floating(x->dtype))
        return tn__run_kernel(call);
    /* as in PyTorch, which does not clamp to positive numbers here */
    if (x->dtype == TN_U8 &&
        tn__check_fits("hardtanh", "min_val",
                       &call->value[TN__ARG_HARDTANH_MIN_VAL], TN_U8) < 0)
        return TN_ERR_ARGUMENT;
    tn_value whole[3];
    memcpy(whole, call->value, sizeof whole);
    for (int i = 1; i < 3; i++)
        if (whole[i].count == TN_SCALAR_FLOAT)
            whole[i] = tn__value_number(tn_num(
                whole[i].of.f >= 0x1p63    ? INT64_MAX
                : whole[i].of.f <= -0x1p63 ? INT64_MIN
                                           : (int64_t)whole[i].of.f));
    return run_fitting(call, whole, true, TN__OP_ID_HARDTANH);
}
