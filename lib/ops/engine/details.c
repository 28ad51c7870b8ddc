/* details.c: fills in the details of an error besides its message
 * (tn_error_info) when the error leaves a call. The code that failed has marked
 * the names of arguments in the message, as "{input}" (tn__fail). This file
 * matches these names with the values of the call.
 *
 * An error may arise in an inner operator, one that the called operator uses.
 * The error is then rewritten as an error of the called operator. Each tensor
 * that the message names is looked up among the arguments of the outer call. If
 * all are found, the message gets the names of those arguments. If one is not
 * found, because it is an intermediate tensor, the message keeps the names of
 * the inner operator's arguments, and starts with the name of the called
 * operator. */
#include <base/context.h>
#include <base/error.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/ops.h>
#include <ops/engine/register.h>
#include <stdio.h>
#include <string.h>
#include <tenon/ops.h>

/* ---- the tensors of a call ----------------------------------------------- */

/* Returns the tensors of a value and sets *count to their number. The value is
 * as the caller gave it, so a list may be NULL and the kind may be wrong. */
static tn_tensor *const *tensors_of(const tn_value *v, int *count)
{
    if (v->kind == TN_VALUE_TENSOR) {
        *count = 1;
        return &v->of.tensor;
    }
    *count = v->kind == TN_VALUE_TENSORS && v->of.tensors ? v->count : 0;
    return v->of.tensors;
}

/* Adds the tensors of the call to facts, in order, as many as fit. The tensor
 * at fault is argument `fault`, or element `index` of that argument if it is a
 * list. If the tensor at fault does not fit, it replaces the last tensor. */
static void add_tensors(tn__error_facts *facts, const tn_op *op,
                        const tn_value *value, int count, int fault, int index)
{
    facts->tensor_count = 0;
    for (int i = 0; i < count && i < op->arg_count; i++) {
        int many;
        tn_tensor *const *list = tensors_of(&value[i], &many);
        for (int k = 0; k < many; k++) {
            if (!tn__tensor_is_live(list[k]))
                continue;
            if (facts->tensor_count == TN_ERROR_TENSORS && i == fault &&
                k == index)
                facts->tensor_count--;
            if (facts->tensor_count < TN_ERROR_TENSORS)
                tn__error_add_tensor(facts, op->arg[i].name,
                                     value[i].kind == TN_VALUE_TENSORS ? k
                                                                       : -1,
                                     list[k]);
        }
    }
}

static int argument_called(const tn_op *op, const char *name)
{
    for (int i = 0; i < op->arg_count; i++)
        if (strcmp(op->arg[i].name, name) == 0)
            return i;
    return -1;
}

/* Returns the index of the argument at fault, or -1 if it is unknown. It is the
 * argument that the failing code marked as at fault. If op does not have this
 * argument, because the code serves several operators, it is the first marked
 * argument that op has. Sets *index to the element at fault if the argument is
 * a list, else to -1. */
static int argument_at_fault(const tn__error_facts *facts, const tn_op *op,
                             int *index)
{
    const tn__error_mark *mark = tn__error_argument();
    int at = mark ? argument_called(op, mark->name) : -1;
    for (int m = 0; m < facts->mark_count && at < 0; m++) {
        mark = &facts->mark[m];
        at = argument_called(op, mark->name);
    }
    *index = at >= 0 ? mark->index : -1;
    return at;
}

/* Fills in the fields of *facts that describe the operator, the tensors of the
 * call and the argument at fault. */
static void describe(tn__error_facts *facts, const tn_op *op,
                     const tn_value *value, int count)
{
    int index, fault = argument_at_fault(facts, op, &index);
    facts->op = op->name;
    facts->is_row = op->inner;
    facts->argument = fault >= 0 ? op->arg[fault].name : NULL;
    facts->odd = -1;
    add_tensors(facts, op, value, count, fault, index);
    for (int t = facts->tensor_count; fault >= 0 && t-- > 0;)
        if (facts->tensor[t].argument == facts->argument &&
            (index < 0 || facts->tensor[t].index == index))
            facts->odd = t;
}

/* ---- errors of inner operators ------------------------------------------- */

/* Returns whether x is the tensor `of`, or another view with the same storage,
 * shape and dtype. */
static bool is_whole(const struct tn__error_tensor *x,
                     const struct tn__error_tensor *of)
{
    return x->of == of->of ||
           (x->storage == of->storage && x->dtype == of->dtype &&
            tn__shape_equal(x->ndim, x->shape, of->ndim, of->shape));
}

/* Returns the index in to->tensor of the tensor x, or of a tensor that x is a
 * view of. Returns -1 if there is none. Sets *whole to whether x is that whole
 * tensor, not a part of it. If the tensor was given for several arguments, the
 * argument with the same name as x is preferred, else the first. */
static int find_tensor(const tn__error_facts *to,
                       const struct tn__error_tensor *x, bool *whole)
{
    int found = -1, best = 0;
    for (int t = 0; t < to->tensor_count; t++) {
        const struct tn__error_tensor *y = &to->tensor[t];
        int same = is_whole(x, y) ? 4 : y->storage == x->storage ? 2 : 0;
        if (same && strcmp(y->argument, x->argument) == 0)
            same++;
        if (same > best) {
            best = same;
            found = t;
        }
    }
    *whole = best >= 4;
    return found;
}

/* Returns the index in to->tensor of the tensor from which the inner operator's
 * tensor at fault comes, or -1. This is the tensor at fault itself, or the only
 * tensor from which it can have been computed. Sets *whole to whether it is the
 * whole tensor at fault, not a part of it. */
static int find_origin(const tn__error_facts *to, const tn__error_facts *inner,
                       bool *whole)
{
    const struct tn__error_tensor *x = &inner->tensor[inner->odd];
    int at = find_tensor(to, x, whole);
    if (at >= 0 || to->tensor_count <= 1)
        return at >= 0 ? at : to->tensor_count - 1;
    if (tn_error_code() == TN_ERR_DTYPE)
        for (int t = to->tensor_count; t-- > 0;)
            if (to->tensor[t].dtype == x->dtype)
                at = t;
    return at;
}

/* Returns the index in the list of facts of the tensor that the m-th argument
 * name in the message refers to, or -1. */
static int marked_tensor(const tn__error_facts *facts, int m)
{
    const tn__error_mark *mark = &facts->mark[m];
    for (int t = 0; t < facts->tensor_count; t++)
        if (strcmp(facts->tensor[t].argument, mark->name) == 0 &&
            (mark->index < 0 || mark->index == facts->tensor[t].index))
            return t;
    return -1;
}

/* Replaces the argument names in the message, which are those of the inner call
 * `from`, by those of the outer call `to`. Returns false, without a change, if
 * a tensor that the message names is not an argument of the outer call. If the
 * message names no tensor, all tensors of `from` must be arguments of `to`. */
static bool translate(const tn__error_facts *from, const tn__error_facts *to)
{
    bool all = true, named = false, whole;
    int at[TN__ERROR_MARKS];
    for (int t = 0; t < from->tensor_count; t++) {
        find_tensor(to, &from->tensor[t], &whole);
        all = all && whole;
    }
    for (int m = 0; m < from->mark_count; m++) {
        int t = marked_tensor(from, m);
        at[m] = t < 0 ? -1 : find_tensor(to, &from->tensor[t], &whole);
        if (t >= 0 && !whole)
            return false;
        named = named || t >= 0;
    }
    for (int m = 0; m < from->mark_count; m++)
        if (at[m] >= 0)
            tn__error_rename(m, to->tensor[at[m]].argument,
                             to->tensor[at[m]].index);
    return named || all;
}

/* Turns the error that an inner operator has reported into an error of this
 * call. The message and the tensors become those of this call as far as
 * possible. Returns whether the tensor at fault is an argument of this call,
 * and not a part of an argument or computed from one. */
static bool adopt(tn__error_facts *facts, const char *name, const tn_op *op,
                  const tn_value *value, int count)
{
    tn__error_facts inner = *facts;
    if (tn__op_rule(op) && strcmp(inner.op, name) == 0)
        return true; /* the operator's own forward has called tn_error_refuse */
    const char *outermost = tn__op_outer(name);
    bool outer_words = !inner.foreign && tn__error_is_from(outermost);
    bool speaks = outer_words || tn__error_is_from(inner.op);
    bool whole = false;
    add_tensors(facts, op, value, count, -1, 0);
    /* If the program registered this call's operator in C, the message keeps
     * the name of the inner operator, since the program's own code calls that
     * operator. */
    bool own = !inner.foreign && !tn__op_rule(op) && speaks &&
               translate(&inner, facts);
    if (own)
        tn__error_attribute(outer_words ? outermost : name);
    else if (inner.is_row && speaks && !outer_words)
        tn__error_attribute(name); /* hides the inner operator, which users did
                                      not call */
    else if (!inner.foreign && !inner.is_row && !outer_words)
        facts->cause = inner.op;
    facts->argument = NULL;
    facts->odd = -1;
    if (own || outer_words)
        describe(facts, op, value, count);
    facts->op = op->name;
    facts->is_row = op->inner;
    facts->foreign = !own && !outer_words;
    int at = inner.odd >= 0 ? find_origin(facts, &inner, &whole) : -1;
    if (at >= 0) {
        facts->odd = at;
        facts->argument = facts->tensor[at].argument;
    }
    return whole;
}

/* ---- positions of wrong indices ------------------------------------------ */

/* Returns the row-major index of the first element of x that equals v, or
 * -1. */
static int64_t find_number(tn_tensor *x, int64_t v)
{
    int64_t at = -1;
    if (!x->numel || tn_dtype_is_floating(x->dtype) || x->dtype == TN_BOOL)
        return -1;
    tn_tensor *flat = tn_reshape(x, tn_dims(-1));
    tn_tensor *same = tn_to_dtype(tn_eq_scalar(flat, v), TN_U8);
    if (tn_item_int(tn_max(same)) == 1)
        at = tn_item_int(tn_argmax(same));
    return at >= 0 && tn_item_int(tn_select(flat, 0, at)) == v ? at : -1;
}

/* Rewrites an index error with the position of the index in the tensor that the
 * caller gave. A kernel reports the position in its own iteration space, which
 * means nothing to the caller. So the value is looked up in the call's
 * tensors. */
static void report_index(tn__error_facts *facts, const char *name,
                         const tn_op *op, const tn_value *value, int count)
{
    char text[TN__SHAPE_TEXT], which[16] = "";
    tn__error before;
    tn__error_index at = facts->index;
    int i = 0, k = -1, many = 0;
    int64_t found = -1;
    tn__error_hide(&before);
    tn_scope *scope = tn_scope_open();
    for (; scope && i < count && i < op->arg_count && found < 0; i++) {
        tn_tensor *const *list = tensors_of(&value[i], &many);
        for (k = 0; k < many && found < 0; k++)
            if (tn__tensor_is_live(list[k]) &&
                (found = find_number(list[k], at.value)) >= 0)
                at = tn__error_index_in(at.value, at.low, at.bound, found,
                                        list[k]->ndim, list[k]->shape);
    }
    tn_scope_close(scope);
    tn__error_restore(&before);
    if (found < 0)
        return;
    facts->index = at;
    facts->foreign = false;
    if (value[i - 1].kind == TN_VALUE_TENSORS)
        snprintf(which, sizeof which, "[%d]", k - 1);
    tn__error_reword("%s: {%s%s} %lld at position %s is outside [%lld, %lld)",
                     name, op->arg[i - 1].name, which, (long long)at.value,
                     tn__shape_text(text, at.ndim, at.position),
                     (long long)at.low, (long long)at.bound);
    describe(facts, op, value, count);
}

void tn__call_failed(const tn__call *call, const tn_value *value, int count)
{
    const tn_op *op = call->op;
    tn__error_facts *facts = tn__error_within(&call->running);
    if (!facts)
        return;
    /* call->op may be another operator than the one called, because a select
     * function may have replaced it (select.c). */
    const char *name = call->running.name;
    if (call->index_arg >= 0)
        tn__report_indices(call, op->name, op->arg[call->index_arg].name,
                           value[call->index_arg].of.tensor, call->index_low,
                           call->index_bound);
    bool first = !facts->op, whole = first;
    if (first)
        describe(facts, op, value, count);
    else
        whole = adopt(facts, name, op, value, count);
    if (facts->index.given && facts->index.ndim > 0 &&
        (facts->index.given == TN__INDEX_IN_SPACE || !(whole || tn__op_rule(op))))
        report_index(facts, name, op, value, count);
    facts->op = name;
    facts->running = call->running.outer;
    facts->called = name;
    if (!facts->running && !tn__error_is_from(name))
        tn__error_prefix("%s", name);
}
