/* words.h: parses calls of operators that are written as strings, for tests of
 * derivatives. A word describes one argument; gradient_samples.def documents
 * its syntax. */
#ifndef TN_TESTS_AUTOGRAD_WORDS_H
#define TN_TESTS_AUTOGRAD_WORDS_H

#include <ops/engine/ops.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include "tap.h"

/* A call; gradient_samples.def documents the fields. */
struct sample {
    const char *op, *arguments;
};

/* ---- arguments from words ----------------------------------------------- */

#define ROOM 8
#define MOST_NUMBERS 512 /* in a tensor */
struct call {
    const tn_op *op;
    bool in_place;
    tn_value value[TN__OP_MAX_ARGS];
    int count;
    tn_dims_list dims[TN__OP_MAX_ARGS];
    char text[TN__OP_MAX_ARGS][16];
    double floats[ROOM];
    tn_tensor *whole[ROOM];
    tn_tensor *leaf[ROOM]; /* inputs of gradcheck, in order */
    int leaf_count;
    int leaf_of[TN__OP_MAX_ARGS]; /* index of the argument's (first) leaf; -1 if
                                   * it is not a leaf */
    char kind[TN__OP_MAX_ARGS];   /* the word's kind letter; the letters S and L
                                   * modify it */
    int output;
    uint64_t state;
    /* By default leaves hold random float64 numbers. If a test sets these
     * fields, all tensors are float32, and fill provides the leaves' values. */
    tn_dtype dtype;
    const void *context;
    double (*fill)(const struct call *call, int leaf, int64_t i, int64_t count,
                   double drawn);
};

/* Returns a pseudo-random number in [low, high): Knuth's MMIX generator. */
static double draw(struct call *call, double low, double high)
{
    call->state = call->state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(call->state >> 11) * 0x1p-53;
}

static const char *read_dims(const char *at, tn_dims_list *dims)
{
    dims->count = 0;
    while (*at == '-' || (*at >= '0' && *at <= '9')) {
        char *end;
        dims->dim[dims->count++] = strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return at;
}

static tn_tensor *make_tensor(struct call *call, char kind,
                              const tn_dims_list *shape, int64_t bound)
{
    double number[MOST_NUMBERS];
    int64_t whole[MOST_NUMBERS];
    unsigned char mask[MOST_NUMBERS];
    int64_t numel = 1;
    for (int d = 0; d < shape->count; d++)
        numel *= shape->dim[d];
    if (numel > MOST_NUMBERS)
        bail_out("%s: a tensor of more than %d elements", call->op->name,
                 MOST_NUMBERS);
    for (int64_t i = 0; i < numel; i++) {
        number[i] = kind == 'p' || kind == 'k' ? draw(call, 0.5, 2)
                    : kind == 'u' ? draw(call, 0.1, 0.9)
                    : kind == 'g' ? draw(call, 1.2, 3)
                    : kind == 'o' ? 1
                                  : draw(call, -2, 2);
        whole[i] = i % (bound ? bound : 1);
        mask[i] = i % 3 != 1;
    }
    if (kind == 'x')
        return tn_tensor_from_array(whole, TN_I64, *shape);
    if (kind == 'I') {
        int32_t along[MOST_NUMBERS];
        int64_t last = shape->count ? shape->dim[shape->count - 1] : 1;
        for (int64_t i = 0; i < numel; i++)
            along[i] = (int32_t)(i % last + 1);
        return tn_tensor_from_array(along, TN_I32, *shape);
    }
    if (kind == 'm')
        return tn_tensor_from_array(mask, TN_BOOL, *shape);
    bool fixed = strchr("cok", kind) != NULL;
    for (int64_t i = 0; call->fill && i < numel; i++)
        number[i] = (float)(fixed ? number[i]
                                  : call->fill(call, call->leaf_count, i, numel,
                                               number[i]));
    tn_tensor *x = tn_tensor_from_array(number, TN_F64, *shape);
    if (call->fill && call->dtype != TN_F64)
        x = tn_to_dtype(x, call->dtype);
    return fixed ? x : tn_requires_grad(x);
}

static void read_tensor(struct call *call, const char *word, tn_value *value)
{
    tn_dims_list shape;
    const char *at = read_dims(word + 1, &shape);
    int64_t bound = *at == '<' ? strtoll(at + 1, NULL, 10) : 0;
    *value = tn__value_tensor(make_tensor(call, word[0], &shape, bound));
    if (strchr("tpugSLN", word[0])) {
        call->leaf_of[call->count] = call->leaf_count;
        call->leaf[call->leaf_count++] = value->of.tensor;
    }
}

static void read_list(struct call *call, const char *word, tn_value *value)
{
    int first = call->leaf_count;
    for (const char *at = word; *at == 'T' || *at == ';';) {
        tn_dims_list shape;
        at = read_dims(at + 1, &shape);
        call->leaf[call->leaf_count] = make_tensor(call, 't', &shape, 0);
        call->leaf_count++;
    }
    call->leaf_of[call->count] = first;
    *value = tn__value_tensors(&call->leaf[first], call->leaf_count - first);
}

static void read_whole_list(struct call *call, const char *word,
                            tn_value *value)
{
    int count = 0;
    for (const char *at = word; *at == 'X' || *at == ';';) {
        tn_dims_list shape;
        char *end;
        at = read_dims(at + 1, &shape);
        call->whole[count++] =
            make_tensor(call, 'x', &shape, strtoll(at + 1, &end, 10));
        at = end;
    }
    *value = tn__value_tensors(call->whole, count);
}

static void read_floats(struct call *call, const char *word, tn_value *value)
{
    int count = 0;
    for (const char *at = word; *at == 'F' || *at == ',';) {
        char *end;
        call->floats[count++] = strtod(at + 1, &end);
        at = end;
    }
    *value = tn__value_floats(call->floats, count);
}

static void read_word(struct call *call, const char *word)
{
    int i = call->count;
    tn_value *value = &call->value[i];
    call->leaf_of[i] = -1;
    call->kind[i] = word[0];
    switch (word[0]) {
    case 'S': case 'L': case 'N': case 'I': case 't': case 'p': case 'u': case 'g':
    case 'c': case 'k': case 'o': case 'x': case 'm':
        read_tensor(call, word, value);
        break;
    case 'T':
        read_list(call, word, value);
        break;
    case 'X':
        read_whole_list(call, word, value);
        break;
    case 'F':
        read_floats(call, word, value);
        break;
    case 'i':
        *value = tn__value_int(strtoll(word + 1, NULL, 10));
        break;
    case 'n':
        *value = tn__value_number(tn_num(strtoll(word + 1, NULL, 10)));
        break;
    case 'f':
        *value = tn__value_float(strtod(word + 1, NULL));
        break;
    case 'q':
        *value = tn__value_number(tn_num(strtod(word + 1, NULL)));
        break;
    case 'd':
        read_dims(word + 1, &call->dims[i]);
        *value = tn__value_dims(&call->dims[i]);
        break;
    case 's':
        snprintf(call->text[i], sizeof call->text[i], "%s", word + 1);
        *value = tn__value_string(call->text[i]);
        break;
    case 'b':
        *value = tn__value_bool(word[1] == '1');
        break;
    case 'y':
        *value = tn__value_dtype(TN_F64);
        break;
    case 'D':
        *value = tn__value_device(tn_device_current());
        break;
    default:
        *value = tn__value_none();
    }
    call->count++;
}

/* Finds the operator by its C name. tn_op_find is not used, because
 * tn_op_find("max") may return another operator of that name. */
static const tn_op *find_row(const char *name)
{
    for (int i = 0; i < tn_op_count(); i++)
        if (strcmp(tn_op_name(tn_op_at(i)), name) == 0)
            return tn_op_at(i);
    return NULL;
}

/* Parses the sample into call; keeps dtype, fill and context. */
static void read_call(struct call *call, const struct sample *sample)
{
    struct call fresh = {.state = 99, .dtype = call->dtype, .fill = call->fill,
                         .context = call->context};
    *call = fresh;
    char name[64];
    snprintf(name, sizeof name, "%s", sample->op);
    char *space = strchr(name, ' ');
    if (space) {
        *space = '\0';
        call->output = atoi(space + 1);
    }
    call->op = find_row(name);
    char words[128];
    snprintf(words, sizeof words, "%s", sample->arguments);
    char *save = NULL;
    for (char *word = strtok_r(words, " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        read_word(call, word);
}

/* Returns a matrix derived from x for an operator that accepts only certain
 * matrices, such as positive definite ones. */
static tn_tensor *derived(tn_tensor *x, char kind)
{
    if (kind == 'N')
        return tn_log_softmax(x, -1);
    if (kind != 'S' && kind != 'L')
        return x;
    tn_tensor *one = tn_eye(tn_tensor_size(x, -1), .dtype = tn_tensor_dtype(x));
    return kind == 'S'
               ? tn_add(tn_matmul(x, tn_transpose(x, -1, -2)), one)
               : tn_add(tn_tril(x), tn_mul_scalar(one, 2));
}

static tn_tensor *run(tn_tensor *const *inputs, int count, void *context)
{
    (void)count;
    const struct call *call = context;
    tn_value value[TN__OP_MAX_ARGS];
    tn_tensor *out[TN__OP_MAX_OUTPUTS];
    for (int i = 0; i < call->count; i++) {
        value[i] = call->value[i];
        if (call->leaf_of[i] < 0)
            continue;
        if (value[i].kind == TN_VALUE_TENSORS)
            value[i].of.tensors = inputs + call->leaf_of[i];
        else
            value[i].of.tensor =
                derived(inputs[call->leaf_of[i]], call->kind[i]);
    }
    if (call->in_place)
        value[0].of.tensor = tn_clone(value[0].of.tensor);
    tn_manual_seed(3); /* so that each call draws the same random numbers */
    return tn_op_call(call->op, value, call->count, out, TN__OP_MAX_OUTPUTS) <
                   0
               ? NULL
               : out[call->output];
}

#endif
