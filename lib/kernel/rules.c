/* rules.c: the derivative of each instruction, written in the kernel language.
 * The gradient of the result with respect to a value is called the value's
 * cotangent. A rule says for each operand what the instruction adds to the
 * operand's cotangent. It is written in terms of the operands a, b, c, the
 * result y and the cotangent g of the result. Instructions that are not listed
 * have derivative 0. Mathematical functions have their derivatives in
 * lib/kernel/math (items `d`).
 *
 * The rules select with where() instead of multiplying by 0, since 0 * inf is
 * NaN. */
#include <kernel/parse.h>
#include <kernel/type.h>

#include <string.h>

#include <base/memory.h>

typedef struct rule {
    uint8_t op, kind; /* kind is TN_REDUCE_... for a REDUCE, else 0 */
    const char *text[3];
} rule;

static const rule rules[] = {
    {TN_K_SELECT, 0, {NULL, "where(a, g, 0)", "where(a, 0, g)"}},
    {TN_K_ADD, 0, {"g", "g"}},
    {TN_K_SUB, 0, {"g", "-g"}},
    {TN_K_MUL, 0, {"g * b", "g * a"}},
    {TN_K_DIV, 0, {"g / b", "-(g / b * y)"}},
    /* The quotient is (a - y) / b, which is an integer up to rounding errors. a
     * / b itself might be rounded to the next integer. */
    {TN_K_REM, 0, {"g", "-(g * rint((a - y) / b))"}},
    {TN_K_FMA, 0, {"g * b", "g * a", "g"}},
    {TN_K_NEG, 0, {"-g"}},
    {TN_K_ABS, 0, {"where(a < 0, -g, where(a > 0, g, 0))"}},
    /* If the operands are equal, each gets half of the gradient, as in
     * torch.maximum. */
    {TN_K_MIN,
     0,
     {"where(a == b, g / 2, where(a > b, 0, g))",
      "where(a == b, g / 2, where(b > a, 0, g))"}},
    {TN_K_MAX,
     0,
     {"where(a == b, g / 2, where(a < b, 0, g))",
      "where(a == b, g / 2, where(b < a, 0, g))"}},
    {TN_K_SQRT, 0, {"g / (2 * y)"}},
    {TN_K_CAST, 0, {"g"}},
    {TN_K_NARROW, 0, {"g"}},
    {TN_K_REDUCE, TN_REDUCE_SUM, {"g"}},
    /* The derivative with respect to an element is the product of the other
     * elements. If exactly one element is 0, only its derivative is not 0. A
     * term t that is 0, but whose own derivative is not 0, is written as t -
     * stop(t), so that the gradient of the gradient is right. */
    {TN_K_REDUCE,
     TN_REDUCE_PROD,
     {"let zero = a == 0; let zeros = rsum(zero);"
      "let others = rprod(where(zero, 1, a));"
      "let pair = g * others * (rsum(where(zero, a, 0)) - a);"
      "let part = g * y / where(zero, 1, a);"
      "where(zero, where(zeros == 1, g * others,"
      "      where((zeros == 2) & (pair == 0), pair - stop(pair), 0)),"
      "      where(zeros == 0, part,"
      "            where((zeros == 1) & (part == 0), part - stop(part), 0)))"}},
    /* A NaN counts as both maximum and minimum. Equal elements share the
     * gradient equally. */
    {TN_K_REDUCE,
     TN_REDUCE_MAX,
     {"let best = (a == y) | (a != a);"
      "where(best, g / like(rsum(best), g), 0)"}},
    {TN_K_REDUCE,
     TN_REDUCE_MIN,
     {"let best = (a == y) | (a != a);"
      "where(best, g / like(rsum(best), g), 0)"}},
};

static const char *rule_text(const tn_kernel_ins *ins, int k)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].op == ins->op &&
            (ins->op != TN_K_REDUCE || rules[i].kind == ins->sub))
            return rules[i].text[k];
    return NULL;
}

bool tn__passes_gradient(const tn_kernel_ins *ins, int k,
                         tn_dtype operand_dtype)
{
    if (!tn__is_float(operand_dtype) || !tn__is_float(ins->dtype))
        return false;
    if (ins->op == TN_K_CAST && ins->dtype == operand_dtype)
        return false; /* a CAST to the operand's own type is stop(x), which has
                       * no gradient */
    return ins->op == TN_K_CALL || ins->op == TN_K_CARRY || rule_text(ins, k);
}

static bool from_text(tn__ssa *ssa, const char *text, const uint32_t a[3],
                      uint32_t y, uint32_t g, uint32_t *out)
{
    static const char *const names[5] = {"a", "b", "c", "y", "g"};
    const uint32_t id[5] = {a[0], a[1], a[2], y, g};
    tn__arena arena = {0};
    tn__parser parser;
    tn__parser_init(&parser, text, "rules", &arena);
    tn__value slot[16] = {{0}};
    for (uint32_t i = 0; i < 5; i++) {
        parser.binding[parser.binding_count++] =
            (tn__binding){.name = names[i], .slot = i};
        if (id[i] != TN_NONE)
            slot[i] = (tn__value){id[i], tn__ssa_dtype(ssa, id[i]), false};
    }
    parser.slot_count = 5;
    tn__typer typer = {.ssa = ssa,
                       .where = "rules",
                       .slot = slot,
                       .real = tn__ssa_dtype(ssa, g)};
    tn__value value;
    const tn__node *node =
        tn__parser_advance(&parser) ? tn__parse_expr(&parser) : NULL;
    bool good = node && tn__type_value(&typer, node, &value);
    if (good)
        *out = value.id;
    tn__arena_release(&arena);
    return good && !ssa->failed;
}

bool tn__logistic_complement(tn__ssa *ssa, bool is_exp2, uint32_t z,
                             uint32_t *out)
{
    const uint32_t a[3] = {z, TN_NONE, TN_NONE};
    return from_text(ssa, is_exp2 ? "1 / (1 + exp2(-a))" : "1 / (1 + exp(-a))",
                     a, TN_NONE, z, out);
}

bool tn__logistic_gradient(tn__ssa *ssa, bool is_exp2, uint32_t z, uint32_t y,
                           uint32_t g, uint32_t *out)
{
    const uint32_t a[3] = {z, TN_NONE, TN_NONE};
    return from_text(ssa,
                     is_exp2
                         ? "-(g * (y / (1 + exp2(-a)) * 0.6931471805599453))"
                         : "-(g * (y / (1 + exp(-a))))",
                     a, y, g, out);
}

static bool from_function(tn__ssa *ssa, const tn_kernel_ins *ins, int k,
                          const uint32_t a[3], uint32_t y, uint32_t g,
                          uint32_t *out)
{
    const char *name = tn__math_fn_at((int)ins->imm.i)->name;
    const tn__math_item *item = tn__math_d_of((uint32_t)ins->imm.i);
    if (!item || item->none & 1u << k) {
        tn__fail(
            TN_ERR_UNSUPPORTED,
            "%s has no derivative with respect to its argument %d: write a "
            "gradient by hand",
            name, k);
        return false;
    }
    uint32_t values[4] = {a[0], a[1], a[2], TN_NONE}, d;
    values[item->arg_count] = y;
    if (!tn__math_type_d(ssa, item, k, values, &d) || ssa->failed)
        return false;
    if (ssa->ins[d].op == TN_K_CONST && ssa->ins[d].imm.f == 0)
        *out = TN_NONE; /* the derivative is zero */
    else
        *out = tn__ssa_op(ssa, TN_K_MUL, tn__ssa_dtype(ssa, g), g, d, TN_NONE);
    return !ssa->failed;
}

bool tn__derivative(tn__ssa *ssa, const tn_kernel_ins *ins, int k,
                    const uint32_t a[3], uint32_t y, uint32_t g, uint32_t *out)
{
    if (ssa->failed)
        return false;
    if (ins->op == TN_K_CALL) {
        if (!from_function(ssa, ins, k, a, y, g, out))
            return false;
    } else if (!from_text(ssa, rule_text(ins, k), a, y, g, out)) {
        return false;
    }
    /* The result is converted to the operand's type. */
    if (*out != TN_NONE)
        *out = tn__ssa_cast(ssa, *out, tn__ssa_dtype(ssa, a[k]));
    return true;
}
