/* blame.c: what an error tells besides its words: filled in from the call when
 * the error leaves it, so that no place that fails needs to do it.
 *
 * An error that arose in an operator of which the called one is made is told
 * of that one, at each step outwards: its tensors are looked for among the
 * arguments, and where all that the words name are there the words get those
 * names. Where one is not, something made on the way, the words stay those of
 * the operator inside, behind the called one's name. */
#include <base/error.h>
#include <ops/mistakes.h>
#include <ops/ops.h>
#include <ops/register.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

/* ---- which argument --------------------------------------------------------- */

static bool is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

static int argument_called(const tn_op *op, const char *name, size_t length)
{
    for (int i = 0; i < op->arg_count; i++)
        if (strncmp(op->arg[i].name, name, length) == 0 &&
            !op->arg[i].name[length])
            return i;
    return -1;
}

/* The first argument that the words name, and its number in brackets, if any:
 * "input is int64", "tensors[1] (3,)". A dim is one of dims. -1 if none is
 * named. */
static int named_argument(const tn_op *op, const char *words, int *index)
{
    int dims = -1;
    *index = -1;
    if (strncmp(words, op->name, strlen(op->name)) == 0)
        words += strlen(op->name);
    while (*words) {
        size_t length = 0;
        while (is_word(words[length]))
            length++;
        int i = length ? argument_called(op, words, length) : -1;
        if (i >= 0) {
            if (words[length] == '[')
                *index = (int)strtol(words + length + 1, NULL, 10);
            return i;
        }
        if (length == 3 && memcmp(words, "dim", 3) == 0)
            dims = argument_called(op, "dims", 4);
        words += length ? length : 1;
    }
    return dims;
}

/* ---- the tensors ------------------------------------------------------------ */

/* Values as the caller gave them: lists may be NULL, kinds wrong. */
static tn_tensor *const *tensors_of(const tn_value *v, int *count)
{
    if (v->kind == TN_VALUE_TENSOR) {
        *count = 1;
        return &v->of.tensor;
    }
    *count = v->kind == TN_VALUE_TENSORS && v->of.tensors ? v->count : 0;
    return v->of.tensors;
}

/* As many as there is room for, in order; of a list that is longer the one
 * that the words name takes the last place. */
static void add_tensors(tn__error_facts *facts, const tn_op *op,
                        const tn_value *value, int count, int named, int index)
{
    facts->tensor_count = 0;
    for (int i = 0; i < count && i < op->arg_count; i++) {
        int many;
        tn_tensor *const *list = tensors_of(&value[i], &many);
        for (int k = 0; k < many; k++) {
            if (!tn__tensor_is_live(list[k]))
                continue;
            if (facts->tensor_count == TN_ERROR_TENSORS && i == named &&
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

/* On several devices, the first that is not where the others are to be is odd,
 * as in tn__fail_devices: the words name them all. */
static int odd_device(const tn__error_facts *facts)
{
    int home = 0;
    while (home < facts->tensor_count && !facts->tensor[home].requires_grad)
        home++;
    home = home < facts->tensor_count ? home : 0;
    for (int t = 0; t < facts->tensor_count; t++)
        if (strcmp(facts->tensor[t].device, facts->tensor[home].device) != 0)
            return t;
    return -1;
}

/* The call's tensors, and the argument that the words name. */
static void describe(tn__error_facts *facts, const tn_op *op,
                     const tn_value *value, int count)
{
    int index, named = named_argument(op, tn__error_words(), &index);
    facts->op = op->name;
    facts->is_row = op->inner;
    facts->argument = named >= 0 ? op->arg[named].name : NULL;
    facts->odd = -1;
    add_tensors(facts, op, value, count, named, index);
    for (int t = facts->tensor_count; named >= 0 && t-- > 0;)
        if (facts->tensor[t].argument == facts->argument &&
            (index < 0 || facts->tensor[t].index == index))
            facts->odd = t;
    tn_status code = tn_error_code();
    if (named < 0 && facts->tensor_count == 1 &&
        (code == TN_ERR_SHAPE || code == TN_ERR_DTYPE)) { /* what else */
        facts->odd = 0;
        facts->argument = facts->tensor[0].argument;
    }
    int elsewhere = code == TN_ERR_DEVICE ? odd_device(facts) : -1;
    if (elsewhere >= 0) {
        facts->odd = elsewhere;
        facts->argument = facts->tensor[elsewhere].argument;
    }
}

const char *tn__op_outer(const char *name)
{
    for (const tn__doing *d = tn__here.doing; d; d = d->outer) {
        /* It lies first in its call. */
        if (tn__op_rule(((const tn__call *)(const void *)d)->op))
            break;
        name = d->name;
    }
    return name;
}

/* ---- of the operator around -------------------------------------------------- */

/* Is it the tensor itself, or one that looks the same on its memory? */
static bool is_whole(const struct tn__error_tensor *x,
                     const struct tn__error_tensor *of)
{
    return x->of == of->of ||
           (x->storage == of->storage && x->dtype == of->dtype &&
            tn__shape_equal(x->ndim, x->shape, of->ndim, of->shape));
}

/* Which tensor of `to` this one is, or is a view of; -1: none. whole: nothing
 * else than that tensor as it was given. One that was given several times is
 * that of the same name, else the first. */
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

/* Where the tensor at fault inside came from: it itself, or what it was made of
 * where only one can be that. */
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

/* The words without the name that they begin with. */
static const char *behind_name(const char *words, const char *name)
{
    size_t length = strlen(name);
    return strncmp(words, name, length) == 0 && words[length] == ':'
               ? words + length + 2
               : words;
}

/* Which of the tensors the word names: "input", or "tensors" of "tensors[1]";
 * -1: none. length becomes that of all that names it. */
static int tensor_called(const tn__error_facts *facts, const char *word,
                         size_t *length)
{
    char *end = NULL;
    long index = -1;
    if (word[*length] == '[')
        index = strtol(word + *length + 1, &end, 10);
    for (int t = 0; t < facts->tensor_count; t++) {
        const struct tn__error_tensor *x = &facts->tensor[t];
        if (strncmp(x->argument, word, *length) != 0 ||
            x->argument[*length] || (index >= 0 && index != x->index))
            continue;
        if (index >= 0 && *end == ']')
            *length = (size_t)(end - word) + 1;
        return t;
    }
    return -1;
}

/* The words about `from` in the names of `to`. False where one that they name
 * is no argument there, or where they name none and not all are. */
static bool translate(tn__text *out, const char *words,
                      const tn__error_facts *from, const tn__error_facts *to)
{
    bool all = true, named = false, whole;
    for (int t = 0; t < from->tensor_count; t++) {
        find_tensor(to, &from->tensor[t], &whole);
        all = all && whole;
    }
    while (*words) {
        size_t length = 0;
        while (is_word(words[length]))
            length++;
        int t = length ? tensor_called(from, words, &length) : -1;
        length = length ? length : 1;
        if (t < 0) {
            tn__text_add_bytes(out, words, length);
        } else {
            int at = find_tensor(to, &from->tensor[t], &whole);
            if (!whole)
                return false;
            named = true;
            tn__text_add(out, "%s", to->tensor[at].argument);
            if (to->tensor[at].index >= 0)
                tn__text_add(out, "[%d]", to->tensor[at].index);
        }
        words += length;
    }
    return (named || all) && out->data;
}

/* An operator inside of this one has told the error: its words and tensors
 * become, as far as they can, those of this call. Returns whether the tensor at
 * fault is an argument as it was given. */
static bool adopt(tn__error_facts *facts, const char *name, const tn_op *op,
                  const tn_value *value, int count)
{
    tn__error_facts inner = *facts;
    const char *words = tn__error_words();
    const char *outermost = tn__op_outer(name);
    bool outer_words = !inner.foreign && tn__error_speaks_of(outermost);
    const char *body = behind_name(words, outer_words ? outermost : inner.op);
    tn__text text = {0};
    bool whole = false;
    add_tensors(facts, op, value, count, -1, 0);
    /* The body of a program's own operator is the program's: it knows what
     * that called. */
    bool own = !inner.foreign && !tn__op_rule(op) && body != words &&
               translate(&text, body, &inner, facts);
    if (own)
        tn__error_reword("%s: %s", outer_words ? outermost : name, text.data);
    else if (inner.is_row && body != words && !outer_words)
        tn__error_reword("%s: %s", name, body); /* nobody knows its name */
    else if (!inner.foreign && !inner.is_row && !outer_words)
        facts->cause = inner.op;
    tn__text_release(&text);
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

/* ---- indices ------------------------------------------------------------------ */

/* The number of x's first element that is v; -1 if none is. */
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

/* A kernel tells where in its own space it met an index; the caller knows the
 * tensor that he gave. The value is looked for there. */
static void tell_index(tn__error_facts *facts, const char *name,
                       const tn_op *op, const tn_value *value, int count)
{
    char text[TN__SHAPE_TEXT], which[16] = "";
    tn__error before;
    tn__error_index at = facts->index;
    int i = 0, k = -1, many = 0;
    int64_t found = -1;
    tn__error_take(&before);
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
    tn__error_put(&before);
    if (found < 0)
        return;
    facts->index = at;
    facts->foreign = false;
    if (value[i - 1].kind == TN_VALUE_TENSORS)
        snprintf(which, sizeof which, "[%d]", k - 1);
    tn__error_reword("%s: %s%s %lld at position %s is outside [%lld, %lld)",
                     name, op->arg[i - 1].name, which, (long long)at.value,
                     tn__shape_text(text, at.ndim, at.position),
                     (long long)at.low, (long long)at.bound);
    describe(facts, op, value, count);
}

void tn__blame(const tn__call *call, const tn_value *value, int count)
{
    const tn_op *op = call->op;
    tn__error_facts *facts = tn__error_within(&call->doing);
    if (!facts)
        return;
    /* Not op's: another row may have taken the place of the one called. */
    const char *name = call->doing.name;
    if (call->told >= 0) {
        char what[120];
        snprintf(what, sizeof what, "%s: %s", op->name,
                 op->arg[call->told].name);
        tn__tell_indices(call, what, value[call->told].of.tensor,
                         call->told_low, call->told_bound);
    }
    bool first = !facts->op, whole = first;
    if (first)
        describe(facts, op, value, count);
    else
        whole = adopt(facts, name, op, value, count);
    if (facts->index.given && facts->index.ndim > 0 &&
        (facts->index.given == TN__INDEX_IN_SPACE || !(whole || tn__op_rule(op))))
        tell_index(facts, name, op, value, count);
    facts->op = name;
    facts->doing = call->doing.outer;
    facts->called = name;
    if (!facts->doing && !tn__error_speaks_of(name))
        tn__error_put_before("%s", name);
}
