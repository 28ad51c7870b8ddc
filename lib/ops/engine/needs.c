/* needs.c: checks the lines "needs" and "bounds" that operators have in the
 * table.
 *
 * "needs norm_type: max_norm" says that the option norm_type has an effect only
 * if max_norm is given. A value other than the default is an error if it has no
 * effect, so that nothing that a caller writes is ignored. Writing the default
 * is allowed.
 *
 * "bounds lambd: >= 0" and "bounds mode: = sum|mean|max" reject a number or a
 * word that PyTorch rejects. All lines "bounds" are checked before the lines
 * "needs". */
#include <base/options.h>
#include <base/plain.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/ops.h>

#include <stdio.h>
#include <string.h>

/* Returns whether two values of the same argument are equal. */
static bool is_same(const tn_value *a, const tn_value *b)
{
    if (a->kind != b->kind || a->kind == TN_VALUE_NONE)
        return a->kind == b->kind;
    switch (a->kind) {
    case TN_VALUE_NUMBER:
        if (a->count != b->count)
            return (a->count == TN_SCALAR_FLOAT ? a->of.f : (double)a->of.i) ==
                   (b->count == TN_SCALAR_FLOAT ? b->of.f : (double)b->of.i);
        return a->count == TN_SCALAR_FLOAT ? a->of.f == b->of.f
                                           : a->of.i == b->of.i;
    case TN_VALUE_FLOAT:
        return a->of.f == b->of.f;
    case TN_VALUE_INT:
    case TN_VALUE_BOOL:
    case TN_VALUE_DTYPE:
        return a->of.i == b->of.i;
    case TN_VALUE_STRING:
        return strcmp(a->of.string, b->of.string) == 0;
    default: /* tensors and lists have no default other than none */
        return false;
    }
}

/* Returns whether v, a string or a bool, is one of the words, which are
 * separated by |. */
static bool is_one_of(const tn_value *v, const char *words)
{
    const char *text = v->kind == TN_VALUE_STRING ? v->of.string
                       : v->of.i                  ? "true"
                                                  : "false";
    size_t length = strlen(text);
    for (const char *w = words; w; w = strchr(w, '|')) {
        w += *w == '|';
        if (strncmp(w, text, length) == 0 && (!w[length] || w[length] == '|'))
            return true;
    }
    return false;
}

/* Returns whether an argument is given. An empty list counts as absent, as
 * size=[] does in PyTorch. */
static bool is_given(const tn_value *v)
{
    return v->kind != TN_VALUE_NONE &&
           !(v->kind == TN_VALUE_DIMS && v->of.dims->count == 0);
}

static double number_of(const tn_value *v)
{
    bool whole = v->kind == TN_VALUE_INT ||
                 (v->kind == TN_VALUE_NUMBER && v->count != TN_SCALAR_FLOAT);
    return whole ? (double)v->of.i : v->of.f;
}

/* Returns whether the option meets its line `bounds`. As in PyTorch's checks,
 * NaN passes <= and != and fails > and >=. */
static bool is_within(const tn__op_need *need, const tn_value *value)
{
    if (need->how == TN__NEED_WORD)
        return is_one_of(&value[need->option], need->value);
    double bound =
        need->other >= 0 ? number_of(&value[need->other]) : need->bound;
    double x = number_of(&value[need->option]);
    return need->how == TN__NEED_ABOVE      ? x > bound
           : need->how == TN__NEED_AT_LEAST ? x >= bound
           : need->how == TN__NEED_AT_MOST  ? !(x > bound)
                                            : x != bound;
}

static bool is_met(const tn__op_need *need, const tn_value *value)
{
    const tn_value *other = &value[need->other];
    return need->how == TN__NEED_VALUE   ? is_one_of(other, need->value)
           : need->how == TN__NEED_GIVEN ? is_given(other)
                                         : !is_given(other);
}

/* Writes the words "linear|bilinear|bicubic" to text as "linear, bilinear or
 * bicubic". */
static const char *listed(char text[96], const char *words)
{
    const char *last = strrchr(words, '|');
    size_t n = 0;
    for (const char *w = words; *w && n + 5 < 96; w++) {
        const char *between = w == last ? " or " : ", ";
        if (*w == '|')
            n += (size_t)snprintf(text + n, 96 - n, "%s", between);
        else
            text[n++] = *w;
    }
    text[n] = 0;
    return text;
}

static tn_status refuse(const tn_op *op, const tn__op_need *need)
{
    const char *other = op->arg[need->other].name;
    char why[160], mend[160], words[96];
    if (need->how == TN__NEED_ABSENT)
        return tn__fail(TN_ERR_ARGUMENT,
                        "%s: both .{%s} and %s are given: give one of them",
                        op->name, op->arg[need->option].name, other);
    if (need->how == TN__NEED_VALUE) {
        snprintf(why, sizeof why, "unless %s is %s", other,
                 listed(words, need->value));
        snprintf(mend, sizeof mend, "change %s", other);
    } else {
        snprintf(why, sizeof why, "without %s", other);
        snprintf(mend, sizeof mend, "give %s", other);
    }
    return tn__options_refuse_need(
        op->name,
        &(tn_option_need){op->arg[need->option].name, false, why, mend});
}

/* Reports a value outside of its bounds: "softshrink: lambd is -1; it must be
 * at least 0", "embedding_bag: mode is "mx"; it must be sum, mean or max". */
static tn_status refuse_value(const tn_op *op, const tn__op_need *need,
                               const tn_value *value)
{
    char bound[96];
    if (need->how == TN__NEED_WORD)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is \"%s\"; it must be %s",
                        op->name, op->arg[need->option].name,
                        value[need->option].of.string,
                        listed(bound, need->value));
    if (need->other >= 0)
        tn__plain_print(bound, sizeof bound, "%s, which is %g",
                 op->arg[need->other].name, number_of(&value[need->other]));
    else
        tn__plain_print(bound, sizeof bound, "%g", need->bound);
    return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is %g; it must %s %s", op->name,
                    op->arg[need->option].name,
                    number_of(&value[need->option]),
                    need->how == TN__NEED_ABOVE      ? "be above"
                    : need->how == TN__NEED_AT_LEAST ? "be at least"
                    : need->how == TN__NEED_AT_MOST  ? "be at most"
                                                     : "not be",
                    bound);
}

tn_status tn__check_needs(const tn_op *op, const tn_value *value)
{
    for (int k = 0; k < op->need_count; k++) {
        const tn__op_need *need = &op->rare->need[k];
        if (need->how >= TN__NEED_ABOVE) {
            if (value[need->option].kind != TN_VALUE_NONE &&
                !is_within(need, value))
                return refuse_value(op, need, value);
            continue;
        }
        if (!is_met(need, value) &&
            !is_same(&value[need->option], &op->fallback[need->option]))
            return refuse(op, need);
    }
    return TN_OK;
}
