/* blame.c: what an error tells besides its words: filled in from the call when
 * the error leaves it, so that no place that fails needs to do it.
 *
 * An error speaks of the operator with whose name its words begin; where it
 * arose in one that the program did not call, the words get the name of the
 * one it did. */
#include <base/error.h>
#include <ops/mistakes.h>
#include <ops/ops.h>
#include <stdlib.h>
#include <string.h>

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
 * "input is int64", "tensors[1] (3,)". -1 if none is named. */
static int named_argument(const tn_op *op, const char *words, int *index)
{
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
        words += length ? length : 1;
    }
    return -1;
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

static void add_tensor(tn__error_facts *facts, const char *argument, int index,
                       const tn_tensor *x)
{
    struct tn__error_tensor *to = &facts->tensor[facts->tensor_count++];
    to->argument = argument;
    to->index = index;
    to->dtype = x->dtype;
    to->ndim = x->ndim;
    memcpy(to->shape, x->shape, x->ndim * sizeof x->shape[0]);
    to->device = x->storage->device->name;
    to->made_by = x->made_by;
    to->made_in = x->made_in;
}

static void add_tensors(tn__error_facts *facts, const tn_op *op,
                        const tn_value *value, int count)
{
    facts->tensor_count = 0;
    for (int i = 0; i < count && i < op->arg_count; i++) {
        int many;
        tn_tensor *const *list = tensors_of(&value[i], &many);
        for (int k = 0; k < many; k++)
            if (tn__tensor_is_live(list[k]) &&
                facts->tensor_count < TN_ERROR_TENSORS)
                add_tensor(facts, op->arg[i].name,
                           value[i].kind == TN_VALUE_TENSORS ? k : -1,
                           list[k]);
    }
}

/* On several devices, the first that is not where the first one is is odd: the
 * words name them all. */
static int odd_device(const tn__error_facts *facts)
{
    for (int t = 1; t < facts->tensor_count; t++)
        if (strcmp(facts->tensor[t].device, facts->tensor[0].device) != 0)
            return t;
    return -1;
}

static void describe(tn__error_facts *facts, const tn_op *op,
                     const tn_value *value, int count)
{
    facts->op = op->name;
    facts->odd = -1;
    add_tensors(facts, op, value, count);
    if (tn_error_code() == TN_ERR_DEVICE &&
        (facts->odd = odd_device(facts)) >= 0) {
        facts->argument = facts->tensor[facts->odd].argument;
        return;
    }
    int index;
    int named = named_argument(op, tn__error_words(), &index);
    facts->argument = named >= 0 ? op->arg[named].name : NULL;
    for (int t = facts->tensor_count; named >= 0 && t-- > 0;)
        if (facts->tensor[t].argument == facts->argument &&
            (index < 0 || facts->tensor[t].index == index))
            facts->odd = t;
}

void tn__blame(const tn__call *call, const tn_value *value, int count)
{
    const tn_op *op = call->op;
    tn__error_facts *facts = tn__error_within(&call->doing);
    if (!facts)
        return;
    /* Not op's: another row may have taken the place of the one called. */
    const char *name = call->doing.name;
    if (!facts->op || tn__error_speaks_of(name))
        describe(facts, op, value, count);
    facts->doing = call->doing.outer;
    facts->called = name;
    if (!facts->doing && !tn__error_speaks_of(name))
        tn__error_put_before("%s", name);
}
