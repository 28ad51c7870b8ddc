/* simplify.c: folds constants, and simplifies instructions by identities that
 * leave results bit-identical (all NaNs count as equal).
 *
 * x + 0 is not replaced by x, since -0 + 0 is +0. But x + -0 and x - 0 are
 * replaced by x. x * 0 is not replaced by 0, since inf * 0 is NaN. */
#include <base/fpu.h>
#include <kernel/ssa.h>

static bool is_float(tn_dtype dtype)
{
    return dtype == TN_F32 || dtype == TN_F64;
}

static const tn_kernel_ins *at(const tn__ssa *ssa, uint32_t v)
{
    return &ssa->ins[v];
}

/* Returns whether v is a constant that equals `number`, of any type. -0 and 0
 * are different. */
static bool is_number(const tn__ssa *ssa, uint32_t v, double number)
{
    const tn_kernel_ins *ins = at(ssa, v);
    if (ins->op != TN_K_CONST)
        return false;
    if (!is_float(ins->dtype))
        return ins->imm.i == (int64_t)number;
    tn_number bits = {.f = number};
    return ins->imm.i == bits.i;
}

static bool foldable(int op)
{
    switch (op) {
    case TN_K_CONST:
    case TN_K_PARAM:
    case TN_K_ARG:
    case TN_K_LOAD:
    case TN_K_OFFSET:
    case TN_K_ROWLEN:
    case TN_K_STORE:
    case TN_K_CALL:
    case TN_K_REDUCE:
    case TN_K_LOOP:
    case TN_K_CARRY:
    case TN_K_WHILE:
    case TN_K_ENDLOOP:
        return false;
    default:
        return true;
    }
}

static bool fold(const tn__ssa *ssa, tn_kernel_ins *ins)
{
    tn_number value[3] = {{0}};
    const uint32_t operand[3] = {ins->a, ins->b, ins->c};
    if (!foldable(ins->op))
        return false;
    for (int i = 0; i < 3; i++) {
        if (operand[i] == TN_NONE)
            continue;
        if (at(ssa, operand[i])->op != TN_K_CONST)
            return false;
        value[i].i = at(ssa, operand[i])->imm.i;
    }
    /* Constants are folded in the floating-point state in which programs
     * run. */
    tn__fpu_state before = tn__fpu_set();
    tn_number result = tn__kernel_eval(ins, value[0], value[1], value[2],
                                       at(ssa, ins->a)->dtype);
    tn__fpu_restore(before);
    *ins = (tn_kernel_ins){.op = TN_K_CONST,
                           .dtype = ins->dtype,
                           .a = TN_NONE,
                           .b = TN_NONE,
                           .c = TN_NONE,
                           .imm.i = result.i};
    return true;
}

static bool commutes(int op)
{
    switch (op) {
    case TN_K_ADD:
    case TN_K_MUL:
    case TN_K_MIN:
    case TN_K_MAX:
    case TN_K_EQ:
    case TN_K_NE:
    case TN_K_AND:
    case TN_K_OR:
    case TN_K_XOR:
    case TN_K_MULHI:
        return true;
    default:
        return false;
    }
}

/* Orders the operands of a commutative operation, so that equal values are
 * recognised. A constant becomes the right operand. Without a constant, the
 * value that was computed first becomes the left operand. */
static void order_operands(const tn__ssa *ssa, tn_kernel_ins *ins)
{
    bool left = at(ssa, ins->a)->op == TN_K_CONST;
    bool right = at(ssa, ins->b)->op == TN_K_CONST;
    if (left == right ? ins->a > ins->b : left) {
        uint32_t a = ins->a;
        ins->a = ins->b;
        ins->b = a;
    }
}

static bool is_neg(const tn__ssa *ssa, uint32_t v)
{
    return at(ssa, v)->op == TN_K_NEG;
}

/* Returns the operand of v, which is a NEG. */
static uint32_t negated(const tn__ssa *ssa, uint32_t v)
{
    return at(ssa, v)->a;
}

static void rewrite(tn_kernel_ins *ins, int op, uint32_t a, uint32_t b)
{
    ins->op = (uint8_t)op;
    ins->a = a;
    ins->b = b;
}

static bool simplify_sum(const tn__ssa *ssa, tn_kernel_ins *ins, uint32_t *same)
{
    double nothing = is_float(ins->dtype) && ins->op == TN_K_ADD ? -0.0 : 0.0;
    *same = ins->a;
    if (is_number(ssa, ins->b, nothing))
        return true;
    if (ins->dtype == TN_BOOL)
        return ins->a == ins->b; /* x | x is x */
    if (is_neg(ssa, ins->b))
        rewrite(ins, ins->op == TN_K_ADD ? TN_K_SUB : TN_K_ADD, ins->a,
                negated(ssa, ins->b));
    else if (ins->op == TN_K_ADD && is_neg(ssa, ins->a))
        rewrite(ins, TN_K_SUB, ins->b, negated(ssa, ins->a));
    return false;
}

static bool simplify_product(tn__ssa *ssa, tn_kernel_ins *ins, uint32_t *same)
{
    *same = ins->a;
    if (is_number(ssa, ins->b, 1))
        return true;
    if (!is_float(ins->dtype) && is_number(ssa, ins->b, 0)) {
        *same = ins->b;
        return true;
    }
    if (ins->dtype == TN_BOOL)
        return ins->a == ins->b; /* x & x is x */
    if (is_number(ssa, ins->b, -1))
        rewrite(ins, TN_K_NEG, ins->a, TN_NONE);
    else if (is_neg(ssa, ins->a) && is_neg(ssa, ins->b))
        rewrite(ins, TN_K_MUL, negated(ssa, ins->a), negated(ssa, ins->b));
    return false;
}

static bool simplify_bits(const tn__ssa *ssa, tn_kernel_ins *ins,
                          uint32_t *same)
{
    bool or = ins->op == TN_K_OR;
    *same = ins->a;
    if (ins->a == ins->b)
        return true;
    double ones = ins->dtype == TN_BOOL ? 1 : -1;
    if (is_number(ssa, ins->b, or ? 0 : ones))
        return true;
    *same = ins->b;
    return is_number(ssa, ins->b, or ? ones : 0);
}

/* Returns whether rounding v to dtype changes nothing, because v was loaded
 * from a tensor of that dtype or has been rounded to it already. */
static bool is_narrow(const tn__ssa *ssa, uint32_t v, tn_dtype dtype)
{
    const tn_kernel_ins *ins = at(ssa, v);
    return (ins->op == TN_K_LOAD && ssa->input[ins->imm.i].dtype == dtype) ||
           (ins->op == TN_K_NARROW && ins->sub == dtype);
}

static bool simplify_select(const tn__ssa *ssa, tn_kernel_ins *ins,
                            uint32_t *same)
{
    *same = ins->b;
    if (ins->b == ins->c)
        return true;
    const tn_kernel_ins *condition = at(ssa, ins->a);
    if (condition->op == TN_K_CONST) {
        *same = condition->imm.i ? ins->b : ins->c;
        return true;
    }
    if (condition->op == TN_K_NOT) {
        uint32_t b = ins->b;
        ins->a = condition->a;
        ins->b = ins->c;
        ins->c = b;
    }
    if (ins->dtype == TN_BOOL && is_number(ssa, ins->b, 1) &&
        is_number(ssa, ins->c, 0)) {
        *same = ins->a;
        return true;
    }
    return false;
}

/* Returns whether v is a constant, or a select whose results are constants,
 * with at most `depth` nested selects. Without the limit, selects that share
 * operands would be visited exponentially often. */
static bool is_choice(const tn__ssa *ssa, uint32_t v, int depth)
{
    const tn_kernel_ins *ins = at(ssa, v);
    return ins->op == TN_K_CONST ||
           (ins->op == TN_K_SELECT && depth > 0 &&
            is_choice(ssa, ins->b, depth - 1) &&
            is_choice(ssa, ins->c, depth - 1));
}

/* Simplifies a cast of a select of constants, such as where(c, 1, -1) converted
 * to float. Converting the constants saves the conversion of each element. */
static bool simplify_cast(tn__ssa *ssa, tn_kernel_ins *ins, uint32_t *same)
{
    enum { DEEPEST = 3 };
    const tn_kernel_ins from = *at(ssa, ins->a);
    if (from.op != TN_K_SELECT || !is_choice(ssa, ins->a, DEEPEST))
        return false;
    ins->op = TN_K_SELECT;
    ins->a = from.a;
    ins->b = tn__ssa_op(ssa, TN_K_CAST, ins->dtype, from.b, TN_NONE, TN_NONE);
    ins->c = tn__ssa_op(ssa, TN_K_CAST, ins->dtype, from.c, TN_NONE, TN_NONE);
    return simplify_select(ssa, ins, same);
}

bool tn__ssa_simplify(tn__ssa *ssa, tn_kernel_ins *ins, uint32_t *same)
{
    if (fold(ssa, ins))
        return false; /* ins is a constant now; the caller finds an equal one or
                       * appends it */
    if (commutes(ins->op))
        order_operands(ssa, ins);
    switch (ins->op) {
    case TN_K_ADD:
    case TN_K_SUB:
        return simplify_sum(ssa, ins, same);
    case TN_K_MUL:
        return simplify_product(ssa, ins, same);
    case TN_K_DIV:
        *same = ins->a;
        return is_number(ssa, ins->b, 1);
    case TN_K_NEG:
    case TN_K_NOT:
        *same = at(ssa, ins->a)->a;
        return at(ssa, ins->a)->op == ins->op;
    case TN_K_ABS:
        if (is_neg(ssa, ins->a))
            ins->a = negated(ssa, ins->a);
        *same = ins->a;
        return at(ssa, ins->a)->op == TN_K_ABS;
    case TN_K_MIN:
    case TN_K_MAX:
        *same = ins->a;
        return ins->a == ins->b;
    case TN_K_AND:
    case TN_K_OR:
        return simplify_bits(ssa, ins, same);
    case TN_K_SHL:
    case TN_K_SHR:
    case TN_K_SHRL:
        *same = ins->a;
        return is_number(ssa, ins->b, 0);
    case TN_K_NARROW:
        *same = ins->a;
        return is_narrow(ssa, ins->a, ins->sub);
    case TN_K_CAST:
        return simplify_cast(ssa, ins, same);
    case TN_K_SELECT:
        return simplify_select(ssa, ins, same);
    default:
        return false;
    }
}
