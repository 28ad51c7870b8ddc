/* type_builtin.c: gives types to operators and built-in functions of the kernel
 * language, and appends their instructions. */
#include <assert.h>

#include <base/guard.h>
#include <kernel/type.h>

static const char *name_of(const tn__value *value)
{
    if (value->weak)
        return tn__is_float(value->dtype) ? "a number" : "a whole number";
    return tn_dtype_name(value->dtype);
}

static bool check_integers(tn__typer *typer, const tn__node *node,
                           const tn__value *arg, int count, bool with_bool,
                           const char *what)
{
    for (int i = 0; i < count; i++)
        if (!tn__is_integer(arg[i].dtype) &&
            !(with_bool && arg[i].dtype == TN_BOOL))
            return tn__type_fail(typer, node, "%s takes integers%s, not %s",
                                 what, with_bool ? " or bool" : "",
                                 name_of(&arg[i]));
    return true;
}

/* Types an operation on values, which are converted to their common type. If
 * `real` is set, the operation needs floats, so integers become floats. */
static bool type_operator(tn__typer *typer, int op, const tn__value *arg,
                          int count, bool real, tn__value *out)
{
    tn__common_type m = tn__type_common(typer, arg, count);
    if (real && !tn__is_float(m.dtype)) {
        if (!m.weak) {
            m = tn__common_type_of(TN_F32);
        } else {
            m.dtype = m.type = TN_F64;
            for (int i = 0; i < count; i++)
                if (!tn__ssa_is_const(typer->ssa, arg[i].id))
                    m.dtype = m.type = typer->real;
        }
    }
    uint32_t id[3] = {TN_NONE, TN_NONE, TN_NONE};
    for (int i = 0; i < count; i++)
        id[i] = tn__type_to_common(typer, &arg[i], &m);
    uint32_t result = tn__ssa_op(typer->ssa, op, m.type, id[0], id[1], id[2]);
    *out = tn__type_result(typer, &m, result);
    return true;
}

static bool type_operator_no_bool(tn__typer *typer, const tn__node *node,
                                  const char *what, int op,
                                  const tn__value *arg, int count,
                                  tn__value *out)
{
    tn__common_type m = tn__type_common(typer, arg, count);
    if (m.dtype == TN_BOOL)
        return tn__type_fail(typer, node, "%s is not defined for bool", what);
    return type_operator(typer, op, arg, count, false, out);
}

static tn__value bool_value(uint32_t id)
{
    return (tn__value){id, TN_BOOL, false};
}

static bool type_comparison(tn__typer *typer, int op, const tn__value *x,
                            const tn__value *y, tn__value *out)
{
    const tn__value both[2] = {*x, *y};
    tn__common_type m = tn__type_common(typer, both, 2);
    /* The two calls must not be arguments of one call. Compilers evaluate
     * arguments in different orders, and the order determines the kernel's
     * key. */
    uint32_t a = tn__type_to_common(typer, x, &m);
    uint32_t b = tn__type_to_common(typer, y, &m);
    *out = bool_value(tn__ssa_op(typer->ssa, op, TN_BOOL, a, b, TN_NONE));
    return true;
}

static bool type_shift(tn__typer *typer, const tn__node *node, const char *what,
                       int op, const tn__value *arg, tn__value *out)
{
    if (!check_integers(typer, node, arg, 2, false, what))
        return false;
    tn__common_type m = tn__type_common(typer, arg, 2);
    uint32_t x = tn__type_to_common(typer, &arg[0], &m);
    uint32_t by = tn__type_to_common(typer, &arg[1], &m);
    /* A narrow signed integer is sign-extended in its register. So a logical
     * shift first clears the bits above the integer's width. */
    if (op == TN_K_SHRL && (m.dtype == TN_I8 || m.dtype == TN_I16))
        x = tn__ssa_op(typer->ssa, TN_K_AND, TN_I32, x,
                       tn__ssa_integer(typer->ssa, TN_I32,
                                       m.dtype == TN_I8 ? 0xff : 0xffff),
                       TN_NONE);
    *out = tn__type_result(typer, &m,
                           tn__ssa_op(typer->ssa, op, m.type, x, by, TN_NONE));
    return true;
}

static bool type_bitwise(tn__typer *typer, const tn__node *node,
                         const char *what, int op, const tn__value *arg,
                         tn__value *out)
{
    return check_integers(typer, node, arg, 2, true, what) &&
           type_operator(typer, op, arg, 2, false, out);
}

bool tn__type_binary(tn__typer *typer, const tn__node *node, int sign,
                     const tn__value arg[2], tn__value *out)
{
    uint32_t a, b;
    int op;
    switch (sign) {
    case '+':
        return type_operator(typer, TN_K_ADD, arg, 2, false, out);
    case '-':
        return type_operator_no_bool(typer, node, "'-'", TN_K_SUB, arg, 2, out);
    case '*':
        return type_operator(typer, TN_K_MUL, arg, 2, false, out);
    case '/':
        return type_operator(typer, TN_K_DIV, arg, 2, true, out);
    case '%':
        return type_operator_no_bool(typer, node, "'%'", TN_K_REM, arg, 2, out);
    case '&':
        return type_bitwise(typer, node, "'&'", TN_K_AND, arg, out);
    case '|':
        return type_bitwise(typer, node, "'|'", TN_K_OR, arg, out);
    case '^':
        return type_bitwise(typer, node, "'^'", TN_K_XOR, arg, out);
    case '<':
        return type_comparison(typer, TN_K_LT, &arg[0], &arg[1], out);
    case '>':
        return type_comparison(typer, TN_K_LT, &arg[1], &arg[0], out);
    case TN__PAIR('<', '='):
        return type_comparison(typer, TN_K_LE, &arg[0], &arg[1], out);
    case TN__PAIR('>', '='):
        return type_comparison(typer, TN_K_LE, &arg[1], &arg[0], out);
    case TN__PAIR('=', '='):
        return type_comparison(typer, TN_K_EQ, &arg[0], &arg[1], out);
    case TN__PAIR('!', '='):
        return type_comparison(typer, TN_K_NE, &arg[0], &arg[1], out);
    case TN__PAIR('<', '<'):
        return type_shift(typer, node, "'<<'", TN_K_SHL, arg, out);
    case TN__PAIR('>', '>'):
        return type_shift(typer, node, "'>>'", TN_K_SHR, arg, out);
    default: /* && and || */
        a = tn__type_bool(typer, &arg[0]);
        b = tn__type_bool(typer, &arg[1]);
        op = sign == TN__PAIR('&', '&') ? TN_K_AND : TN_K_OR;
        *out = bool_value(tn__ssa_op(typer->ssa, op, TN_BOOL, a, b, TN_NONE));
        return true;
    }
}

bool tn__type_unary(tn__typer *typer, const tn__node *node, int sign,
                    tn__value arg, tn__value *out)
{
    if (sign == '-')
        return type_operator_no_bool(typer, node, "'-'", TN_K_NEG, &arg, 1,
                                     out);
    if (sign == '~')
        return check_integers(typer, node, &arg, 1, true, "'~'") &&
               type_operator(typer, TN_K_NOT, &arg, 1, false, out);
    *out = bool_value(tn__ssa_op(typer->ssa, TN_K_NOT, TN_BOOL,
                                 tn__type_bool(typer, &arg), TN_NONE, TN_NONE));
    return true;
}

/* ---- built-in functions ------------------------------------------------ */

/* Types where(arg[0], arg[1], arg[2]). `hint` becomes the field `sub` of the
 * SELECT: 0 or TN_SELECT_WEIGHTED. */
static bool type_select(tn__typer *typer, uint8_t hint, const tn__value *arg,
                        tn__value *out)
{
    uint32_t condition = tn__type_bool(typer, &arg[0]);
    tn__common_type m = tn__type_common(typer, &arg[1], 2);
    if (m.weak && tn__is_float(m.dtype) &&
        !tn__ssa_is_const(typer->ssa, condition))
        m.dtype = m.type = typer->real; /* the result is not a constant, so it
                                         * has the kernel's float type, not
                                         * F64 */
    uint32_t b = tn__type_to_common(typer, &arg[1], &m);
    uint32_t c = tn__type_to_common(typer, &arg[2], &m);
    const tn_kernel_ins select = {.op = TN_K_SELECT,
                                  .dtype = (uint8_t)m.type,
                                  .sub = hint,
                                  .a = condition,
                                  .b = b,
                                  .c = c};
    *out = (tn__value){tn__ssa_add(typer->ssa, select), m.dtype, m.weak};
    return true;
}

/* Types weighted(x, w), whose value is where(w == 0, 0, x * w). */
static bool type_weighted(tn__typer *typer, const tn__value arg[2],
                          tn__value *out)
{
    tn__ssa *ssa = typer->ssa;
    const tn__value zero = {tn__ssa_integer(ssa, TN_I64, 0), TN_I64, true};
    tn__value part[3] = {[1] = zero};
    if (!type_comparison(typer, TN_K_EQ, &arg[1], &zero, &part[0]) ||
        !type_operator(typer, TN_K_MUL, arg, 2, false, &part[2]))
        return false;
    return type_select(typer, TN_SELECT_WEIGHTED, part, out);
}

static bool type_bits(tn__typer *typer, const tn__node *node, tn__value arg,
                      tn__value *out)
{
    if (!tn__is_float(arg.dtype))
        return tn__type_fail(typer, node, "bits takes a float, not %s",
                             name_of(&arg));
    arg = tn__type_strong(typer, arg);
    tn_dtype type = tn__register_type(arg.dtype) == TN_F64 ? TN_I64 : TN_I32;
    *out = (tn__value){
        tn__ssa_op(typer->ssa, TN_K_BITCAST, type, arg.id, TN_NONE, TN_NONE),
        type, false};
    return true;
}

static bool type_from_bits(tn__typer *typer, const tn__node *node,
                           tn__value arg, tn__value *out)
{
    tn_dtype type = arg.dtype;
    if (arg.weak && type == TN_I64)
        type = typer->real == TN_F64 ? TN_I64 : TN_I32;
    else if (type != TN_I32 && type != TN_I64)
        return tn__type_fail(typer, node,
                             "from_bits takes int32 or int64, "
                             "not %s",
                             name_of(&arg));
    arg.id = tn__ssa_cast(typer->ssa, arg.id, type);
    tn_dtype real = type == TN_I64 ? TN_F64 : TN_F32;
    *out = (tn__value){
        tn__ssa_op(typer->ssa, TN_K_BITCAST, real, arg.id, TN_NONE, TN_NONE),
        real, false};
    return true;
}

static bool type_float(tn__typer *typer, tn__value arg, tn__value *out)
{
    if (tn__is_float(arg.dtype)) {
        *out = arg;
    } else if (arg.weak) {
        bool constant = tn__ssa_is_const(typer->ssa, arg.id);
        tn_dtype type = constant ? TN_F64 : typer->real;
        *out = (tn__value){tn__ssa_cast(typer->ssa, arg.id, type), type, true};
    } else {
        *out = tn__type_convert(typer, arg, typer->real);
    }
    return true;
}

static bool type_random(tn__typer *typer, const tn__node *node,
                        const tn__value *arg, tn__value *out)
{
    uint32_t id[3];
    if (!check_integers(typer, node, arg, 3, false, "random"))
        return false;
    for (int i = 0; i < 3; i++)
        id[i] = tn__ssa_cast(typer->ssa, arg[i].id, TN_I64);
    *out = (tn__value){
        tn__ssa_op(typer->ssa, TN_K_PHILOX, TN_I32, id[0], id[1], id[2]),
        TN_I32, false};
    return true;
}

static bool type_mulhi(tn__typer *typer, const tn__node *node,
                       const tn__value *arg, tn__value *out)
{
    uint32_t id[2];
    for (int i = 0; i < 2; i++) {
        if (!check_integers(typer, node, &arg[i], 1, false, "mulhi"))
            return false;
        if (!arg[i].weak && arg[i].dtype == TN_I64)
            return tn__type_fail(typer, node,
                                 "mulhi takes integers of at "
                                 "most 32 bits, not int64");
        id[i] = tn__ssa_cast(typer->ssa, arg[i].id, TN_I32);
    }
    *out = (tn__value){
        tn__ssa_op(typer->ssa, TN_K_MULHI, TN_I32, id[0], id[1], TN_NONE),
        TN_I32, false};
    return true;
}

/* Returns whether v is an element of an input. Only inputs are guarded:
 * parameters are checked by the operator before it runs the kernel. */
static bool is_input(const tn__ssa *ssa, uint32_t v)
{
    return !ssa->failed && ssa->ins[v].op == TN_K_LOAD &&
           ssa->ins[v].a == TN_NONE;
}

/* Loads input v again with an index that is 0, or `guard` where `bad` is true.
 * `guard` is a constant of base/guard.h that says what is wrong with the value.
 * That constant is not a valid index, so the load reports an index out of
 * range. */
static uint32_t add_guard(tn__ssa *ssa, uint32_t v, uint32_t bad, int64_t guard)
{
    tn_kernel_ins load = ssa->ins[v];
    load.a = tn__ssa_op(ssa, TN_K_SELECT, TN_I64, bad,
                        tn__ssa_integer(ssa, TN_I64, guard),
                        tn__ssa_integer(ssa, TN_I64, 0));
    load.sub |= TN__LOAD_GUARD;
    return tn__ssa_add(ssa, load);
}

/* Types divisor(y, x), whose value is y. For integers, a value y of 0 is
 * reported as a fault, since x will be divided by y. */
static bool type_divisor(tn__typer *typer, const tn__value *arg, tn__value *out)
{
    tn__ssa *ssa = typer->ssa;
    uint32_t y = arg[0].id;
    *out = arg[0];
    if (!is_input(ssa, y) || tn__is_float(tn__type_common(typer, arg, 2).dtype))
        return true;
    uint32_t zero = tn__ssa_integer(ssa, ssa->ins[y].dtype, 0);
    uint32_t is_zero = tn__ssa_op(ssa, TN_K_EQ, TN_BOOL, y, zero, TN_NONE);
    out->id = add_guard(ssa, y, is_zero, TN__GUARD_ZERO);
    return true;
}

/* Types fraction(x), whose value is x. A float outside [0, 1], or NaN, is
 * reported as a fault. */
static bool type_fraction(tn__typer *typer, tn__value arg, tn__value *out)
{
    tn__ssa *ssa = typer->ssa;
    uint32_t x = arg.id;
    *out = arg;
    if (!is_input(ssa, x) || !tn__is_float(arg.dtype))
        return true;
    tn_dtype type = ssa->ins[x].dtype;
    uint32_t above = tn__ssa_op(ssa, TN_K_LE, TN_BOOL,
                                tn__ssa_const(ssa, type, 0), x, TN_NONE);
    uint32_t below = tn__ssa_op(ssa, TN_K_LE, TN_BOOL, x,
                                tn__ssa_const(ssa, type, 1), TN_NONE);
    uint32_t within =
        tn__ssa_op(ssa, TN_K_AND, TN_BOOL, above, below, TN_NONE);
    uint32_t bad =
        tn__ssa_op(ssa, TN_K_NOT, TN_BOOL, within, TN_NONE, TN_NONE);
    out->id = add_guard(ssa, x, bad, TN__GUARD_FRACTION);
    return true;
}

/* Types nonnegative(x), whose value is x. A value below 0 is reported as a
 * fault; NaN is not. */
static bool type_nonnegative(tn__typer *typer, tn__value arg, tn__value *out)
{
    tn__ssa *ssa = typer->ssa;
    uint32_t x = arg.id;
    *out = arg;
    if (!is_input(ssa, x))
        return true;
    tn_dtype type = ssa->ins[x].dtype;
    uint32_t zero = tn__is_float(type) ? tn__ssa_const(ssa, type, 0)
                                       : tn__ssa_integer(ssa, type, 0);
    uint32_t bad = tn__ssa_op(ssa, TN_K_LT, TN_BOOL, x, zero, TN_NONE);
    out->id = add_guard(ssa, x, bad, TN__GUARD_NEGATIVE);
    return true;
}

static uint32_t row_length(tn__ssa *ssa)
{
    return tn__ssa_op(ssa, TN_K_ROWLEN, TN_I64, TN_NONE, TN_NONE, TN_NONE);
}

static bool type_reduce(tn__typer *typer, const tn__node *node,
                        enum tn__builtin builtin, tn__value arg, tn__value *out)
{
    static const uint8_t kinds[] = {[TN__BUILTIN_rsum] = TN_REDUCE_SUM,
                                    [TN__BUILTIN_rprod] = TN_REDUCE_PROD,
                                    [TN__BUILTIN_rmax] = TN_REDUCE_MAX,
                                    [TN__BUILTIN_rmin] = TN_REDUCE_MIN,
                                    [TN__BUILTIN_rmean] = TN_REDUCE_SUM,
                                    [TN__BUILTIN_rargmax] = TN_REDUCE_ARGMAX,
                                    [TN__BUILTIN_rargmin] = TN_REDUCE_ARGMIN,
                                    [TN__BUILTIN_rany] = TN_REDUCE_MAX,
                                    [TN__BUILTIN_rall] = TN_REDUCE_MIN};
    tn__ssa *ssa = typer->ssa;
    if (typer->in_loop || typer->in_fn)
        return tn__type_fail(typer, node, "%s cannot be used inside a %s",
                             node->name, typer->in_fn ? "fn" : "loop");
    arg = tn__type_strong(typer, arg);
    if (builtin == TN__BUILTIN_rany || builtin == TN__BUILTIN_rall)
        arg = bool_value(tn__type_bool(typer, &arg));
    else if (builtin == TN__BUILTIN_rmean && !tn__is_float(arg.dtype))
        arg = tn__type_convert(typer, arg, TN_F32);
    else if ((builtin == TN__BUILTIN_rsum || builtin == TN__BUILTIN_rprod) &&
             !tn__is_float(arg.dtype))
        arg = tn__type_convert(typer, arg, TN_I64);
    uint32_t id = tn__ssa_reduce(ssa, kinds[builtin], arg.id);
    if (builtin == TN__BUILTIN_rmean) {
        tn_dtype type = tn__register_type(arg.dtype);
        id = tn__ssa_op(ssa, TN_K_DIV, type, id,
                        tn__ssa_cast(ssa, row_length(ssa), type), TN_NONE);
    }
    bool place =
        builtin == TN__BUILTIN_rargmax || builtin == TN__BUILTIN_rargmin;
    *out = (tn__value){id, place ? TN_I64 : arg.dtype, false};
    return true;
}

/* Types floor, ceil, trunc and rint. Integers and bools stay as they are. */
static bool type_round(tn__typer *typer, int op, const tn__value *arg,
                       tn__value *out)
{
    *out = *arg;
    return !tn__is_float(arg->dtype) ||
           type_operator(typer, op, arg, 1, false, out);
}

static bool type_fma(tn__typer *typer, const tn__node *node,
                     const tn__value *arg, tn__value *out)
{
    if (tn__is_float(tn__type_common(typer, arg, 3).dtype))
        return type_operator(typer, TN_K_FMA, arg, 3, false, out);
    tn__value both[2] = {{0}, arg[2]};
    return tn__type_binary(typer, node, '*', arg, &both[0]) &&
           tn__type_binary(typer, node, '+', both, out);
}

bool tn__type_builtin(tn__typer *typer, const tn__node *node,
                      enum tn__builtin builtin, const tn__value *arg,
                      tn__value *out)
{
    switch (builtin) {
    case TN__BUILTIN_where:
        return type_select(typer, 0, arg, out);
    case TN__BUILTIN_weighted:
        return type_weighted(typer, arg, out);
    case TN__BUILTIN_min:
        return type_operator(typer, TN_K_MIN, arg, 2, false, out);
    case TN__BUILTIN_max:
        return type_operator(typer, TN_K_MAX, arg, 2, false, out);
    case TN__BUILTIN_abs:
        *out = arg[0];
        return arg[0].dtype == TN_BOOL ||
               type_operator(typer, TN_K_ABS, arg, 1, false, out);
    case TN__BUILTIN_neg:
        return type_operator_no_bool(typer, node, "neg", TN_K_NEG, arg, 1, out);
    case TN__BUILTIN_floor:
        return type_round(typer, TN_K_FLOOR, arg, out);
    case TN__BUILTIN_ceil:
        return type_round(typer, TN_K_CEIL, arg, out);
    case TN__BUILTIN_trunc:
        return type_round(typer, TN_K_TRUNC, arg, out);
    case TN__BUILTIN_rint:
        return type_round(typer, TN_K_RINT, arg, out);
    case TN__BUILTIN_sqrt:
        return type_operator(typer, TN_K_SQRT, arg, 1, true, out);
    case TN__BUILTIN_fma:
        return type_fma(typer, node, arg, out);
    case TN__BUILTIN_div:
        return type_operator_no_bool(typer, node, "div", TN_K_DIV, arg, 2, out);
    case TN__BUILTIN_rem:
        return type_operator_no_bool(typer, node, "rem", TN_K_REM, arg, 2, out);
    case TN__BUILTIN_shl:
        return type_shift(typer, node, "shl", TN_K_SHL, arg, out);
    case TN__BUILTIN_shr:
        return type_shift(typer, node, "shr", TN_K_SHR, arg, out);
    case TN__BUILTIN_shrl:
        return type_shift(typer, node, "shrl", TN_K_SHRL, arg, out);
    case TN__BUILTIN_mulhi:
        return type_mulhi(typer, node, arg, out);
    case TN__BUILTIN_bits:
        return type_bits(typer, node, arg[0], out);
    case TN__BUILTIN_from_bits:
        return type_from_bits(typer, node, arg[0], out);
#define CONVERSION(builtin, dtype)                                             \
    case TN__BUILTIN_##builtin:                                                \
        *out = tn__type_convert(typer, arg[0], dtype);                         \
        return true;
        CONVERSION(f32, TN_F32)
        CONVERSION(f64, TN_F64)
        CONVERSION(f16, TN_F16)
        CONVERSION(bf16, TN_BF16)
        CONVERSION(f8e4m3, TN_F8E4M3)
        CONVERSION(f8e5m2, TN_F8E5M2)
        CONVERSION(i64, TN_I64)
        CONVERSION(i32, TN_I32)
        CONVERSION(i16, TN_I16)
        CONVERSION(i8, TN_I8)
        CONVERSION(u8, TN_U8)
        CONVERSION(bool, TN_BOOL)
        CONVERSION(like, tn__type_strong(typer, arg[1]).dtype)
#undef CONVERSION
    case TN__BUILTIN_float:
        return type_float(typer, arg[0], out);
    case TN__BUILTIN_divisor:
        return type_divisor(typer, arg, out);
    case TN__BUILTIN_fraction:
        return type_fraction(typer, arg[0], out);
    case TN__BUILTIN_nonnegative:
        return type_nonnegative(typer, arg[0], out);
    case TN__BUILTIN_random:
        return type_random(typer, node, arg, out);
    case TN__BUILTIN_rlen:
        if (typer->in_fn)
            return tn__type_fail(typer, node,
                                 "rlen cannot be used inside a fn");
        *out = (tn__value){row_length(typer->ssa), TN_I64, false};
        return true;
    case TN__BUILTIN_stop:
        *out = arg[0];
        out->id = tn__ssa_stop(typer->ssa, arg[0].id);
        return true;
    default:
        return type_reduce(typer, node, builtin, arg[0], out);
    }
}
