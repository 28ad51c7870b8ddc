/* nan.c: finds casts from a float to its bits (BITCAST) that need not treat NaN
 * specially, and marks them with TN_BITCAST_ANY_NAN.
 *
 * In the kernel language all NaNs have the same bits. To ensure that, a cast to
 * bits takes two more instructions. They can be left out under two conditions.
 * First, the value is NaN only if the function's argument is NaN. Second, if
 * the argument is NaN, the function's result does not depend on the NaN's bits.
 * For most functions that extract the sign, exponent or mantissa from the bits
 * of their one argument, both conditions can be proved. */
#include <math.h>
#include <string.h>

#include <base/memory.h>
#include <kernel/ssa.h>

/* Returns whether it is known that a float value is NaN only if the function's
 * argument is NaN. */
static bool nan_of_argument(const tn_kernel_fn *fn, uint32_t value);

static bool is_float(unsigned dtype)
{
    return dtype == TN_F32 || dtype == TN_F64;
}

static double constant(const tn_kernel_ins *ins)
{
    tn_number none = {0};
    return tn__kernel_eval(ins, none, none, none, TN_DTYPE_NONE).f;
}

static bool is_finite_const(const tn_kernel_fn *fn, uint32_t value)
{
    const tn_kernel_ins *ins = &fn->ins[value];
    return ins->op == TN_K_CONST && isfinite(constant(ins));
}

static uint32_t magnitude(const tn_kernel_fn *fn, uint32_t value)
{
    const tn_kernel_ins *ins = &fn->ins[value];
    bool sign = ins->op == TN_K_NEG || ins->op == TN_K_ABS;
    return sign ? magnitude(fn, ins->a) : value;
}

/* Returns whether a SELECT is where(c < y, c, y) with a constant c and y = |x|,
 * where y is NaN only if the function's argument is NaN. It clamps y to at most
 * c. */
static bool is_clamp(const tn_kernel_fn *fn, const tn_kernel_ins *select)
{
    const tn_kernel_ins *less = &fn->ins[select->a];
    return less->op == TN_K_LT && less->a == select->b &&
           less->b == select->c && fn->ins[select->b].op == TN_K_CONST &&
           fn->ins[select->c].op == TN_K_ABS &&
           nan_of_argument(fn, select->c);
}

/* Returns the largest value of from_bits(min(y & 0x7fffffff, c)), which is the
 * float whose bits are c. Returns INFINITY for other instructions. */
static double bound_of_bits(const tn_kernel_fn *fn, const tn_kernel_ins *least)
{
    if (least->op != TN_K_MIN || least->dtype != TN_I32)
        return INFINITY;
    const tn_kernel_ins *c = &fn->ins[least->b], *y = &fn->ins[least->a];
    if (c->op != TN_K_CONST || y->op != TN_K_AND ||
        fn->ins[y->b].op != TN_K_CONST || fn->ins[y->b].imm.i != INT32_MAX)
        return INFINITY;
    uint32_t word = (uint32_t)c->imm.i;
    float most;
    memcpy(&most, &word, sizeof most);
    return most >= 0 ? (double)most : INFINITY;
}

/* Returns an upper bound for the magnitude of a float value if the argument is
 * not NaN. An example is a polynomial of a value that was clamped. Returns
 * INFINITY if no bound is known. */
static double bound(const tn_kernel_fn *fn, uint32_t value)
{
    const tn_kernel_ins *ins = &fn->ins[value];
    double a, b, most = INFINITY;
    switch (ins->op) {
    case TN_K_CONST:
        most = fabs(constant(ins));
        break;
    case TN_K_NEG:
    case TN_K_ABS:
        most = bound(fn, ins->a);
        break;
    case TN_K_BITCAST:
        most = bound_of_bits(fn, &fn->ins[ins->a]);
        break;
    case TN_K_SELECT:
        a = bound(fn, ins->b);
        b = is_clamp(fn, ins) ? a : bound(fn, ins->c);
        most = a < b ? b : a;
        break;
    case TN_K_ADD:
    case TN_K_SUB:
        most = bound(fn, ins->a) + bound(fn, ins->b);
        break;
    case TN_K_MUL:
    case TN_K_FMA:
        a = bound(fn, ins->a);
        most = a * (ins->a == ins->b ? a : bound(fn, ins->b));
        if (ins->op == TN_K_FMA)
            most += bound(fn, ins->c);
        break;
    default:
        break;
    }
    /* The bound is a sum or product that was rounded. So it is trusted only if
     * it is far below the maximum of float32. */
    return is_float(ins->dtype) && most < 1e30 ? most : INFINITY;
}

/* Returns whether it is known that a * b is NaN only if the function's argument
 * is NaN. For that, the product must never be 0 * inf. */
static bool is_product_nan_of_argument(const tn_kernel_fn *fn, uint32_t a,
                                       uint32_t b)
{
    const tn_kernel_ins *ins = fn->ins;
    if (is_finite_const(fn, a) && constant(&ins[a]) != 0)
        return nan_of_argument(fn, b);
    if (is_finite_const(fn, b) && constant(&ins[b]) != 0)
        return nan_of_argument(fn, a);
    return magnitude(fn, a) == magnitude(fn, b) && nan_of_argument(fn, a);
}

static bool nan_of_argument(const tn_kernel_fn *fn, uint32_t value)
{
    const tn_kernel_ins *ins = &fn->ins[value];
    if (bound(fn, value) < INFINITY)
        return true;
    switch (ins->op) {
    case TN_K_ARG:
        return is_float(ins->dtype);
    case TN_K_CONST:
        return !isnan(constant(ins));
    case TN_K_NEG:
    case TN_K_ABS:
        return nan_of_argument(fn, ins->a);
    case TN_K_CAST:
        return is_float(fn->ins[ins->a].dtype) &&
               nan_of_argument(fn, ins->a);
    case TN_K_SELECT:
        return nan_of_argument(fn, ins->b) &&
               nan_of_argument(fn, ins->c);
    case TN_K_ADD:
    case TN_K_SUB:
        return (is_finite_const(fn, ins->b) && nan_of_argument(fn, ins->a)) ||
               (is_finite_const(fn, ins->a) && nan_of_argument(fn, ins->b));
    case TN_K_MUL:
        return is_product_nan_of_argument(fn, ins->a, ins->b);
    case TN_K_FMA:
        return is_finite_const(fn, ins->c) &&
               is_product_nan_of_argument(fn, ins->a, ins->b);
    default:
        return false;
    }
}

/* What is known about a value if the function's argument is NaN: it is NaN; it
 * is the bits of a NaN; it is false; it is true; it has the same value for all
 * NaNs; or it depends on the NaN's bits. */
typedef enum nan_state {
    IS_NAN,
    NAN_BITS,
    IS_FALSE,
    IS_TRUE,
    SAME,
    BITS_VARY
} nan_state;

/* Returns whether a value is x & mask. If `sign` is set, the mask is the sign
 * bit, else all other bits. */
static bool masked(const tn_kernel_fn *fn, uint32_t value, bool sign)
{
    const tn_kernel_ins *ins = &fn->ins[value];
    int64_t least = ins->dtype == TN_I64 ? INT64_MIN : INT32_MIN;
    int64_t mask = sign ? least : -(least + 1);
    return ins->op == TN_K_AND && fn->ins[ins->b].op == TN_K_CONST &&
           fn->ins[ins->b].imm.i == mask;
}

/* Returns whether a value, which is a & b or a | b, still is the bits of a NaN,
 * though perhaps with another sign. */
static bool keeps_nan(const tn_kernel_fn *fn, const nan_state *state,
                      uint32_t value)
{
    const tn_kernel_ins *ins = &fn->ins[value];
    if (ins->op == TN_K_AND)
        return state[ins->a] == NAN_BITS && masked(fn, value, false);
    return (state[ins->a] == NAN_BITS && masked(fn, ins->b, true)) ||
           (state[ins->b] == NAN_BITS && masked(fn, ins->a, true));
}

static nan_state nan_state_of(const tn_kernel_fn *fn, const nan_state *state,
                              uint32_t value)
{
    const tn_kernel_ins *ins = &fn->ins[value];
    bool varies = false, nan = false;
    const uint32_t read[] = {ins->a, ins->b, ins->c};
    for (int k = 0; ins->op != TN_K_CONST && ins->op != TN_K_ARG && k < 3; k++)
        if (read[k] != TN_NONE) {
            varies |= state[read[k]] == BITS_VARY || state[read[k]] == NAN_BITS;
            nan |= state[read[k]] == IS_NAN;
        }
    nan_state plain = varies ? BITS_VARY : SAME;
    switch (ins->op) {
    case TN_K_ARG:
        return IS_NAN;
    case TN_K_BITCAST:
        return nan ? NAN_BITS : state[ins->a] == NAN_BITS ? IS_NAN : plain;
    case TN_K_SELECT:
        if (state[ins->a] == IS_FALSE || state[ins->a] == IS_TRUE)
            return state[state[ins->a] == IS_TRUE ? ins->b : ins->c];
        return nan ? BITS_VARY : plain;
    case TN_K_EQ:
    case TN_K_LT:
    case TN_K_LE:
        return nan ? IS_FALSE : plain;
    case TN_K_NE:
        return nan ? IS_TRUE : plain;
    case TN_K_AND:
        if (keeps_nan(fn, state, value))
            return NAN_BITS;
        return state[ins->a] == IS_FALSE || state[ins->b] == IS_FALSE ? IS_FALSE
                                                                      : plain;
    case TN_K_OR:
        if (keeps_nan(fn, state, value))
            return NAN_BITS;
        return state[ins->a] == IS_TRUE || state[ins->b] == IS_TRUE ? IS_TRUE
                                                                    : plain;
    case TN_K_CAST:
    case TN_K_NEG:
    case TN_K_ABS:
    case TN_K_ADD:
    case TN_K_SUB:
    case TN_K_MUL:
    case TN_K_DIV:
    case TN_K_FMA:
    case TN_K_SQRT:
        return nan && is_float(ins->dtype) ? IS_NAN : plain;
    default:
        return plain;
    }
}

/* Returns whether the function's result is known to be the same for all NaNs as
 * its argument. Sets state[i] for each instruction i. */
static bool ignores_nan_bits(const tn_kernel_fn *fn, nan_state *state)
{
    if (fn->arg_count != 1 || !is_float(fn->arg_dtype[0]))
        return false;
    for (uint32_t i = 0; i < fn->ins_count; i++) {
        if (fn->ins[i].op == TN_K_LOOP)
            return false;
        state[i] = nan_state_of(fn, state, i);
    }
    return state[fn->result] != BITS_VARY && state[fn->result] != NAN_BITS;
}

bool tn__fn_mark_nans(const tn_kernel_fn *fn, tn_kernel_ins *ins)
{
    nan_state *state = tn__alloc(fn->ins_count * sizeof *state);
    if (!state)
        return false;
    bool vary = ignores_nan_bits(fn, state);
    for (uint32_t i = 0; vary && i < fn->ins_count; i++)
        if (ins[i].op == TN_K_BITCAST && !is_float(ins[i].dtype) &&
            nan_of_argument(fn, ins[i].a))
            ins[i].sub = TN_BITCAST_ANY_NAN;
    tn__free(state);
    return true;
}
