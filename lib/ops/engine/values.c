/* values.c: checks the values of a call and converts them to the kinds that the
 * arguments take. Also has the functions that read values of several kinds. */
#include <base/error.h>
#include <math.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/ops.h>
#include <string.h>

double tn__call_float(const tn__call *call, int i)
{
    const tn_value *v = &call->value[i];
    bool whole = v->kind == TN_VALUE_INT || v->kind == TN_VALUE_BOOL ||
                 (v->kind == TN_VALUE_NUMBER && v->count != TN_SCALAR_FLOAT);
    return whole ? (double)v->of.i : v->of.f;
}

__attribute__((cold)) tn_status
tn__check_limits(const char *name, const char *argument,
                 const tn_value *number, tn_dtype dtype)
{
    int64_t low, high;
    if (number->count == TN_SCALAR_LATE || /* rejected when the kernel runs */
        !tn__int_limits(dtype, &low, &high))
        return TN_OK;
    const bool is_float = number->count == TN_SCALAR_FLOAT;
    const double x = is_float ? number->of.f : (double)number->of.i;
    if ((dtype == TN_I64 && !is_float) ||
        (trunc(x) >= (double)low && trunc(x) < (double)high + 1))
        return TN_OK;
    const char *shown = strchr(argument, ':');
    return tn__fail(TN_ERR_ARGUMENT,
                    "%s: {%.*s:%s} is %.16g, but %s holds only %lld to %lld",
                    name, shown ? (int)(shown - argument) : 40,
                    argument, shown ? shown + 1 : argument, x,
                    tn_dtype_name(dtype), (long long)low, (long long)high);
}

int tn__call_dim(const tn__call *call, int i, int ndim)
{
    int64_t given = call->value[i].of.i;
    int dim = tn__shape_dim(ndim, given);
    if (dim < 0)
        tn__fail_dim(call->op->name, call->op->arg[i].name, given, ndim);
    return dim;
}

tn_value tn__value_number_of(double x)
{
    if (x == floor(x) && fabs(x) < 0x1p53)
        return (tn_value){TN_VALUE_NUMBER, TN_SCALAR_INT, {.i = (int64_t)x}};
    return (tn_value){TN_VALUE_NUMBER, TN_SCALAR_FLOAT, {.f = x}};
}

/* Converts *v to one of the kinds whose bits are set in `kinds`. Returns false
 * if that is not possible. If *v becomes a list, *dims is the memory for it. */
static bool convert(tn_value *v, uint32_t kinds, tn_dims_list *dims)
{
    if (kinds >> v->kind & 1)
        return true;
    bool whole = v->kind == TN_VALUE_INT || v->kind == TN_VALUE_BOOL ||
                 (v->kind == TN_VALUE_NUMBER && v->count != TN_SCALAR_FLOAT);
    bool number = whole || v->kind == TN_VALUE_FLOAT ||
                  v->kind == TN_VALUE_NUMBER;
    if (kinds >> TN_VALUE_NUMBER & 1 && number) {
        v->count = v->kind == TN_VALUE_FLOAT ? TN_SCALAR_FLOAT
                   : v->kind == TN_VALUE_BOOL ? TN_SCALAR_BOOL
                                              : TN_SCALAR_INT;
        v->kind = TN_VALUE_NUMBER;
        return true;
    }
    if (kinds >> TN_VALUE_DIMS & 1 && whole) {
        dims->count = 1;
        dims->dim[0] = v->of.i;
        *v = tn__value_dims(dims);
        return true;
    }
    if (kinds >> TN_VALUE_INT & 1) {
        if (whole) {
            *v = tn__value_int(v->of.i);
            return true;
        }
        if (v->kind == TN_VALUE_DIMS && v->of.dims->count == 1) {
            *v = tn__value_int(v->of.dims->dim[0]);
            return true;
        }
    }
    if (kinds >> TN_VALUE_FLOAT & 1 && number) {
        *v = tn__value_float(whole ? (double)v->of.i : v->of.f);
        return true;
    }
    if (kinds >> TN_VALUE_BOOL & 1 && whole) {
        *v = tn__value_bool(v->of.i != 0);
        return true;
    }
    return false;
}

tn_status tn__values_check(const tn_op *op, const tn_value *values, int count)
{
    if (count < 0 || (count && !values))
        return tn__fail(TN_ERR_ARGUMENT, "%s: values is NULL, count %d",
                        op->name, count);
    for (int i = 0; i < count && i < op->arg_count; i++) {
        const tn_value *v = &values[i];
        bool list = v->kind == TN_VALUE_TENSORS || v->kind == TN_VALUE_FLOATS;
        bool pointed = list ? v->count > 0
                            : v->kind == TN_VALUE_DIMS ||
                                  v->kind == TN_VALUE_STRING ||
                                  v->kind == TN_VALUE_DEVICE;
        if (v->kind < TN_VALUE_NONE || v->kind > TN_VALUE_DEVICE)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s}: %d is not a kind of "
                            "value",
                            op->name, op->arg[i].name, (int)v->kind);
        if (v->kind == TN_VALUE_NUMBER && v->count != TN_SCALAR_LATE &&
            (v->count < TN_SCALAR_INT || v->count > TN_SCALAR_BOOL))
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s}: %d is not a kind of "
                            "number", op->name, op->arg[i].name, (int)v->count);
        if (list && v->count < 0)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} has a count of %d; "
                            "expected at least 0", op->name, op->arg[i].name,
                            (int)v->count);
        if (pointed && !v->of.dims)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is NULL", op->name,
                            op->arg[i].name);
    }
    return TN_OK;
}

/* Checks a late number (tn_late_number): only kernels read it again at each
 * replay, and a bound is checked once. */
static tn_status check_late(const tn_op *op, int arg, const tn_value *v)
{
    if (!v->of.i)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is tn_late_number(NULL)",
                        op->name, op->arg[arg].name);
    return op->sort == TN__OP_KERNEL && !op->need_count && !op->creates
               ? TN_OK
               : tn__fail_late(op, arg);
}

/* Checks the value of one argument and converts it to a kind that the argument
 * takes. */
static tn_status normalise_one(const tn_op *op, int i, tn_value *v,
                               tn_dims_list *dims)
{
    const tn_op_arg *arg = &op->arg[i];
    if (v->kind == TN_VALUE_NONE) {
        *v = op->fallback[i];
        if (v->kind != TN_VALUE_NONE)
            return TN_OK;
        /* While an error is pending, an absent value may be the NULL of a
         * function that failed. It must not count as left out. */
        if (arg->optional)
            return tn__error_pending() ? tn__fail_left_out(op, i) : TN_OK;
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is missing", op->name,
                        arg->name);
    }
    if (v->kind == TN_VALUE_TENSOR && !v->of.tensor)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is NULL", op->name,
                        arg->name);
    if (v->kind == TN_VALUE_NUMBER && v->count == TN_SCALAR_LATE)
        return arg->kinds & (1u << TN_VALUE_NUMBER | 1u << TN_VALUE_FLOAT)
                   ? check_late(op, i, v)
                   : tn__fail_late(op, i);
    if (!convert(v, arg->kinds, dims))
        return tn__fail_kind(op, i, v);
    if (v->kind == TN_VALUE_DIMS &&
        (v->of.dims->count < 0 || v->of.dims->count > TN_MAX_NDIM))
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} has %d sizes; at most %d",
                        op->name, arg->name, v->of.dims->count, TN_MAX_NDIM);
    if (v->kind == TN_VALUE_DTYPE && !tn_dtype_bytes((tn_dtype)v->of.i))
        return tn__fail(TN_ERR_DTYPE, "%s: {%s}: %lld is not a dtype", op->name,
                        arg->name, (long long)v->of.i);
    if (v->kind == TN_VALUE_TENSORS && v->count > 0 && !v->of.tensors)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is NULL", op->name,
                        arg->name);
    if (v->kind == TN_VALUE_TENSORS)
        for (int k = 0; k < v->count; k++)
            if (!v->of.tensors[k])
                return tn__fail(TN_ERR_ARGUMENT, "%s: {%s[%d]} is NULL",
                                op->name, arg->name, k);
    return TN_OK;
}

static tn_status refuse_count(const tn_op *op, int count)
{
    const char *signature = tn_op_signature(op);
    if (!signature)
        return tn_error_code();
    return tn__fail(TN_ERR_ARGUMENT, "%s: %d arguments are given; expected "
                    "%d: %s", op->name, count, op->arg_count, signature);
}

tn_status tn__values_normalise(const tn_op *op, const tn_value *given,
                               int count, tn_value *value, tn_dims_list *dims)
{
    if (count > op->arg_count)
        return refuse_count(op, count);
    for (int i = 0; i < op->arg_count; i++) {
        value[i] = i < count ? given[i] : tn__value_none();
        tn_status status = normalise_one(op, i, &value[i], &dims[i]);
        if (status < 0)
            return status;
    }
    return TN_OK;
}
