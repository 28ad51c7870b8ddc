/* bind.c: converts PyTorch's positional and named arguments to those of an
 * operator of the table. */
#include "sample.h"

#include <stdlib.h>
#include <string.h>

bool sample_is_tensor(const json_t *value)
{
    return json_object_get(value, "tensor") != NULL;
}

static void collect_tensors(sample *s, const json_t *value)
{
    if (sample_is_tensor(value) && s->count < MOST_TENSORS) {
        tn_tensor *x = golden_tensor(
            s->file, json_string_value(json_object_get(value, "tensor")),
            json_object_get(value, "stride"));
        s->from[s->count] = value;
        s->tensor[s->count++] = s->layout ? s->layout(x) : x;
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            collect_tensors(s, json_array_get(value, i));
    }
}

static tn_tensor *made(const sample *s, const json_t *value)
{
    for (int i = 0; i < s->count; i++) {
        if (s->from[i] == value)
            return s->tensor[i];
    }
    return NULL;
}

/* ---- one argument -------------------------------------------------------- */

static bool takes(const tn_op_arg *arg, int kind)
{
    return arg->kinds & 1u << kind;
}

static double float_of(const json_t *value)
{
    const char *text = json_string_value(json_object_get(value, "float"));
    return text ? strtod(text, NULL) : json_number_value(value);
}

static bool is_float(const json_t *value)
{
    return json_is_real(value) || json_object_get(value, "float");
}

/* Concatenates a list of lists of sizes for one argument. */
static bool bind_pair(const json_t *value, const tn_op_arg *arg, bound *b,
                      int i)
{
    b->dims[i].count = 0;
    for (size_t k = 0; k < json_array_size(value); k++) {
        const json_t *list = json_array_get(value, k);
        for (size_t n = 0; n < json_array_size(list); n++) {
            const json_t *size = json_array_get(list, n);
            if (!json_is_integer(size) || b->dims[i].count == TN_MAX_NDIM)
                return false;
            b->dims[i].dim[b->dims[i].count++] = json_integer_value(size);
        }
    }
    b->value[i].kind = TN_VALUE_DIMS;
    b->value[i].of.dims = &b->dims[i];
    return takes(arg, TN_VALUE_DIMS);
}

static bool bind_list(const sample *s, const json_t *value,
                      const tn_op_arg *arg, bound *b, int i)
{
    tn_value *out = &b->value[i];
    size_t count = json_array_size(value);
    const json_t *first = json_array_get(value, 0);
    if (count > MOST_TENSORS)
        return false;
    if (first && sample_is_tensor(first)) {
        if (!takes(arg, TN_VALUE_TENSORS))
            return false;
        for (size_t k = 0; k < count; k++)
            b->list[i][k] = made(s, json_array_get(value, k));
        out->kind = TN_VALUE_TENSORS;
        out->of.tensors = b->list[i];
        out->count = (int32_t)count;
        return true;
    }
    if (json_is_array(first))
        return bind_pair(value, arg, b, i);
    bool whole = count <= TN_MAX_NDIM; /* sizes may be None */
    for (size_t k = 0; k < count; k++)
        whole = whole && (json_is_integer(json_array_get(value, k)) ||
                          json_is_null(json_array_get(value, k)));
    if (whole && takes(arg, TN_VALUE_DIMS)) {
        b->dims[i].count = (int32_t)count;
        for (size_t k = 0; k < count; k++) {
            const json_t *size = json_array_get(value, k);
            b->dims[i].dim[k] =
                json_is_null(size) ? TN_NONE_INT : json_integer_value(size);
        }
        out->kind = TN_VALUE_DIMS;
        out->of.dims = &b->dims[i];
        return true;
    }
    if (takes(arg, TN_VALUE_TENSOR)) { /* lengths are a list in PyTorch and a
                                        * tensor in Tenon */
        int64_t whole_number[MOST_TENSORS];
        for (size_t k = 0; k < count; k++) {
            if (!json_is_integer(json_array_get(value, k)))
                return false;
            whole_number[k] = json_integer_value(json_array_get(value, k));
        }
        out->kind = TN_VALUE_TENSOR;
        out->of.tensor = tn_tensor_from_array(whole_number, TN_I64,
                                              tn_dims((int64_t)count));
        return out->of.tensor != NULL;
    }
    if (!takes(arg, TN_VALUE_FLOATS))
        return false;
    for (size_t k = 0; k < count; k++)
        b->floats[i][k] = float_of(json_array_get(value, k));
    out->kind = TN_VALUE_FLOATS;
    out->of.floats = b->floats[i];
    out->count = (int32_t)count;
    return true;
}

static bool bind_number(const json_t *value, const tn_op_arg *arg, bound *b,
                        int i)
{
    tn_value *out = &b->value[i];
    bool real = is_float(value), boolean = json_is_boolean(value);
    int64_t whole = boolean ? json_is_true(value) : json_integer_value(value);
    if (takes(arg, TN_VALUE_NUMBER)) {
        out->kind = TN_VALUE_NUMBER;
        out->count = real      ? TN_SCALAR_FLOAT
                     : boolean ? TN_SCALAR_BOOL
                               : TN_SCALAR_INT;
        if (real)
            out->of.f = float_of(value);
        else
            out->of.i = whole;
    } else if (boolean && takes(arg, TN_VALUE_BOOL)) {
        out->kind = TN_VALUE_BOOL;
        out->of.i = whole;
    } else if (!real && !boolean && takes(arg, TN_VALUE_INT)) {
        out->kind = TN_VALUE_INT;
        out->of.i = whole;
    } else if (!boolean && takes(arg, TN_VALUE_FLOAT)) {
        out->kind = TN_VALUE_FLOAT;
        out->of.f = float_of(value);
    } else if (!real && !boolean && takes(arg, TN_VALUE_DIMS)) {
        b->dims[i].count = 1;
        b->dims[i].dim[0] = whole;
        out->kind = TN_VALUE_DIMS;
        out->of.dims = &b->dims[i];
    } else {
        return false;
    }
    return true;
}

/* If the first argument of div, add and some others is a number, PyTorch
 * converts it to a 0-d tensor of the dtype of the other operand's category. */
static bool bind_first(const sample *s, const json_t *value, bound *b)
{
    bool real = is_float(value);
    tn_dtype dtype = real                     ? TN_F32
                     : json_is_boolean(value) ? TN_BOOL
                                              : TN_I64;
    for (int k = 0; k < s->count; k++) {
        tn_dtype other = tn_tensor_dtype(s->tensor[k]);
        if (other != TN_BOOL && dtype != TN_BOOL &&
            tn_dtype_is_floating(other) == real)
            dtype = other;
    }
    b->value[0].kind = TN_VALUE_TENSOR;
    b->value[0].of.tensor =
        tn_scalar_tensor(real ? float_of(value)
                         : json_is_boolean(value)
                             ? (double)json_is_true(value)
                             : (double)json_integer_value(value),
                         .dtype = dtype);
    return b->value[0].of.tensor != NULL;
}

/* Converts one JSON value to argument i. Returns false if the operator does not
 * accept it. */
static bool bind(const sample *s, const json_t *value, const tn_op_arg *arg,
                 bound *b, int i)
{
    tn_value *out = &b->value[i];
    if (json_is_null(value)) {
        out->kind = TN_VALUE_NONE;
        return arg->optional || arg->fallback;
    }
    if (sample_is_tensor(value)) {
        out->kind = TN_VALUE_TENSOR;
        out->of.tensor = made(s, value);
        return takes(arg, TN_VALUE_TENSOR);
    }
    if (json_is_array(value))
        return bind_list(s, value, arg, b, i);
    if (json_is_string(value)) {
        out->kind = TN_VALUE_STRING;
        out->of.string = json_string_value(value);
        return takes(arg, TN_VALUE_STRING);
    }
    const json_t *dtype = json_object_get(value, "dtype");
    if (dtype) {
        out->kind = TN_VALUE_DTYPE;
        out->of.i = tn_dtype_from_name(json_string_value(dtype));
        return takes(arg, TN_VALUE_DTYPE) && out->of.i;
    }
    return bind_number(value, arg, b, i) ||
           (i == 0 && takes(arg, TN_VALUE_TENSOR) &&
            bind_first(s, value, b));
}

/* meshgrid(x, y) and meshgrid([x, y]) are the same call: if the argument
 * accepts only lists, the following tensors are its elements. Returns how many
 * were used. */
static size_t bind_loose_tensors(const sample *s, const json_t *args,
                                 size_t from, const tn_op_arg *arg, bound *b,
                                 int i)
{
    size_t count = 0, given = json_array_size(args);
    if (!takes(arg, TN_VALUE_TENSORS) || takes(arg, TN_VALUE_TENSOR))
        return 0;
    while (from + count < given && count < MOST_TENSORS &&
           sample_is_tensor(json_array_get(args, from + count))) {
        b->list[i][count] = made(s, json_array_get(args, from + count));
        count++;
    }
    b->value[i].kind = TN_VALUE_TENSORS;
    b->value[i].of.tensors = b->list[i];
    b->value[i].count = (int32_t)count;
    return count;
}

/* x.permute(1, 0) and x.permute([1, 0]) are the same call: the trailing sizes
 * belong to the last dims argument. */
static bool bind_loose_dims(const json_t *args, size_t from,
                            const tn_op_arg *arg, bound *b, int i)
{
    size_t count = json_array_size(args) - from;
    if (!takes(arg, TN_VALUE_DIMS) || count > TN_MAX_NDIM)
        return false;
    for (size_t k = 0; k < count; k++) {
        const json_t *size = json_array_get(args, from + k);
        if (!json_is_integer(size))
            return false;
        b->dims[i].dim[k] = json_integer_value(size);
    }
    b->dims[i].count = (int32_t)count;
    b->value[i].kind = TN_VALUE_DIMS;
    b->value[i].of.dims = &b->dims[i];
    return true;
}

int sample_find_arg(const tn_op *op, const char *name)
{
    for (int i = 0; i < tn_op_arg_count(op); i++) {
        if (strcmp(tn_op_arg_at(op, i)->name, name) == 0)
            return i;
    }
    return -1;
}

/* The first value of a sample is the operator's main tensor, which is not the
 * first argument of these functions in PyTorch: value k of the sample is
 * argument at[k]. */
static const struct {
    const char *op;
    int count, at[3];
} orders[] = {
    {"where", 3, {1, 0, 2}},                  /* input, condition, other */
    {"nn.functional.embedding", 2, {1, 0, 2}}, /* weight, input */
    {"nn.functional.embedding_bag", 2, {1, 0, 2}},
    {"polygamma", 2, {1, 0}},         /* n, input */
    {"special.polygamma", 2, {1, 0}},
    {"einsum", 2, {1, 0}},                     /* equation, operands */
};

static int place_of(const char *name, int k)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i].op, name) == 0 && k < orders[i].count)
            return orders[i].at[k];
    return k;
}

bool sample_bind(const sample *s, const tn_op *op, const char *op_name,
                     bound *b)
{
    int count = tn_op_arg_count(op), next = 0;
    if (count > MOST_ARGS)
        return false;
    memset(b->value, 0, sizeof b->value);
    bool given[MOST_ARGS] = {false};
    const json_t *args = json_object_get(s->json, "args");
    size_t positional = json_array_size(args);
    for (size_t k = 0; k < positional; k++) {
        int i = place_of(op_name, next++);
        if (i >= count)
            return false;
        const tn_op_arg *arg = tn_op_arg_at(op, i);
        given[i] = true;
        if ((int)positional > count && bind_loose_dims(args, k, arg, b, i))
            break;
        size_t tensors = sample_is_tensor(json_array_get(args, k))
                             ? bind_loose_tensors(s, args, k, arg, b, i)
                             : 0;
        if (tensors)
            k += tensors - 1;
        else if (!bind(s, json_array_get(args, k), arg, b, i))
            return false;
    }
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(s->json, "kwargs"), name, value) {
        int i = sample_find_arg(op, name);
        if (i < 0 || given[i] || !bind(s, value, tn_op_arg_at(op, i), b, i))
            return false;
        given[i] = true;
    }
    for (int i = 0; i < count; i++) {
        const tn_op_arg *arg = tn_op_arg_at(op, i);
        if (!given[i] && !arg->optional && !arg->fallback)
            return false;
    }
    return true;
}

void sample_make_tensors(sample *s)
{
    const json_t *args = json_object_get(s->json, "args");
    for (size_t i = 0; i < json_array_size(args); i++)
        collect_tensors(s, json_array_get(args, i));
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(s->json, "kwargs"), key, value)
        collect_tensors(s, value);
}
