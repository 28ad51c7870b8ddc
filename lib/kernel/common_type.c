/* common_type.c: finds the common dtype of several operands (type promotion, as
 * torch.result_type), and converts values to it. */
#include <kernel/type.h>

#include <base/plain.h>

bool tn__type_fail(const tn__typer *typer, const tn__node *at,
                   const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    tn__plain_vprint(text, sizeof text, format, args);
    va_end(args);
    tn__fail(TN_ERR_DTYPE, "%s:%d:%d: %s", typer->where, at->line, at->column,
             text);
    return false;
}

/* ---- dtypes ------------------------------------------------------------ */

bool tn__is_float(tn_dtype dtype)
{
    tn_dtype type = tn__register_type(dtype);
    return type == TN_F32 || type == TN_F64;
}

bool tn__is_integer(tn_dtype dtype)
{
    tn_dtype type = tn__register_type(dtype);
    return type == TN_I32 || type == TN_I64;
}

static bool is_narrow_integer(tn_dtype dtype)
{
    return dtype == TN_I8 || dtype == TN_I16 || dtype == TN_U8;
}

tn__common_type tn__common_type_of(tn_dtype dtype)
{
    return (tn__common_type){dtype, tn__register_type(dtype), false};
}

/* Returns the dtype to which a and b promote. Typed values promote as PyTorch's
 * tensors with dimensions do. A weak value (a literal, or a parameter without a
 * type) takes the dtype of the other value, unless it is of a higher kind: a
 * weak float makes an integer float32, and a weak integer makes a bool int64.
 * float8 does not promote with another dtype. After an error, typing continues
 * with an arbitrary dtype, because no kernel is made in the end. */
static tn_dtype promote(const tn__typer *typer, tn_dtype a, tn_dtype b)
{
    tn_dtype both = tn_dtype_promote(a, b);
    if (both)
        return both;
    tn__type_fail(typer, typer->at,
                  "%s and %s have no common dtype: convert one, as by f32()",
                  tn_dtype_name(a), tn_dtype_name(b));
    typer->ssa->failed = true;
    return a;
}

tn__common_type tn__type_common(const tn__typer *typer, const tn__value *value,
                                int count)
{
    tn_dtype strong = TN_DTYPE_NONE;
    bool weak_float = false, weak_integer = false, constant = true;
    for (int i = 0; i < count; i++) {
        if (!tn__ssa_is_const(typer->ssa, value[i].id))
            constant = false;
        if (value[i].weak && tn__is_float(value[i].dtype))
            weak_float = true;
        else if (value[i].weak)
            weak_integer = true;
        else
            strong = strong ? promote(typer, strong, value[i].dtype)
                            : value[i].dtype;
    }
    if (strong) {
        if (weak_float && !tn__is_float(strong))
            strong = TN_F32;
        else if (weak_integer && strong == TN_BOOL)
            strong = TN_I64;
        return tn__common_type_of(strong);
    }
    tn_dtype dtype = !weak_float ? TN_I64 : constant ? TN_F64 : typer->real;
    return (tn__common_type){dtype, dtype, true};
}

uint32_t tn__type_to_common(tn__typer *typer, const tn__value *value,
                            const tn__common_type *common)
{
    uint32_t id = tn__ssa_cast(typer->ssa, value->id, common->type);
    /* A promoted value fits into the narrow integer. A literal or parameter
     * that does not fit wraps. */
    if (value->weak && is_narrow_integer(common->dtype))
        id = tn__ssa_narrow(typer->ssa, id, common->dtype);
    return id;
}

tn__value tn__type_result(tn__typer *typer, const tn__common_type *common,
                          uint32_t id)
{
    if (is_narrow_integer(common->dtype))
        id = tn__ssa_narrow(typer->ssa, id, common->dtype);
    return (tn__value){id, common->dtype, common->weak};
}

tn__value tn__type_strong(tn__typer *typer, tn__value value)
{
    if (value.weak) {
        value.dtype = tn__is_float(value.dtype) ? typer->real : TN_I64;
        value.id = tn__ssa_cast(typer->ssa, value.id, value.dtype);
        value.weak = false;
    }
    return value;
}

tn__value tn__type_convert(tn__typer *typer, tn__value value, tn_dtype dtype)
{
    if (value.dtype == dtype && !value.weak)
        return value;
    uint32_t id = tn__ssa_cast(typer->ssa, value.id, tn__register_type(dtype));
    bool fits = value.dtype == TN_BOOL ||
                (dtype == TN_I16 && is_narrow_integer(value.dtype));
    if (!fits)
        id = tn__ssa_narrow(typer->ssa, id, dtype);
    return (tn__value){id, dtype, false};
}

uint32_t tn__type_bool(tn__typer *typer, const tn__value *value)
{
    return tn__ssa_cast(typer->ssa, value->id, TN_BOOL);
}
