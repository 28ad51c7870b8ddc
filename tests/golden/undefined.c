/* undefined.c: looks up results that a sample does not fully determine, such as
 * the index of one of several equal elements; undefined.def lists them with
 * reasons. */
#include "golden.h"

#include <string.h>

static const struct {
    const char *op, *variant, *argument, *reason;
} no_samples[] = {
#define SAMPLE(op, variant, argument, reason) {op, variant, argument, reason},
#define INDEX(op, output, reason)
#define GRADIENT(op, input, reason)
#include "undefined.def"
#undef SAMPLE
#undef INDEX
#undef GRADIENT
};

static const struct {
    bool gradient;
    const char *op;
    int number;
    const char *reason;
} no_values[] = {
#define SAMPLE(op, variant, argument, reason)
#define INDEX(op, output, reason) {false, op, output, reason},
#define GRADIENT(op, input, reason) {true, op, input, reason},
#include "undefined.def"
#undef SAMPLE
#undef INDEX
#undef GRADIENT
};

const char *undefined_sample(const char *op, const json_t *json)
{
    const char *variant =
        json_string_value(json_object_get(json, "variant"));
    const json_t *kwargs = json_object_get(json, "kwargs");
    for (size_t i = 0; i < sizeof no_samples / sizeof *no_samples; i++) {
        const json_t *value =
            json_object_get(kwargs, no_samples[i].argument);
        if ((no_samples[i].op && strcmp(no_samples[i].op, op) != 0) ||
            (no_samples[i].variant &&
             (!variant || strcmp(no_samples[i].variant, variant) != 0)) ||
            !value || json_is_null(value) ||
            (json_is_real(value) && json_real_value(value) == 0))
            continue;
        return no_samples[i].reason;
    }
    return NULL;
}

static const char *find_value(bool gradient, const char *op, int number)
{
    for (size_t i = 0; i < sizeof no_values / sizeof *no_values; i++)
        if (no_values[i].gradient == gradient &&
            no_values[i].number == number && strcmp(no_values[i].op, op) == 0)
            return no_values[i].reason;
    return NULL;
}

const char *undefined_gradient(const char *op, int input)
{
    return find_value(true, op, input);
}

const char *undefined_index(const char *op, const json_t *json, int output)
{
    const json_t *kwargs = json_object_get(json, "kwargs");
    return json_is_true(json_object_get(kwargs, "stable"))
               ? NULL
               : find_value(false, op, output);
}

/* Returns index with size 1 along dim, as gather requires. */
static tn_tensor *with_dim(tn_tensor *index, tn_tensor *input, int64_t dim)
{
    return tn_tensor_ndim(index) == tn_tensor_ndim(input)
               ? index
               : tn_unsqueeze(index, dim);
}

tn_tensor *over_equals(tn_tensor *input, int64_t dim, tn_tensor *g)
{
    tn_tensor *x = tn_detach(input);
    if (tn_tensor_ndim(x) == 0)
        return g;
    x = tn_transpose(x, dim, -1);
    tn_tensor *same = tn_to_dtype(
        tn_eq(tn_unsqueeze(x, -1), tn_unsqueeze(x, -2)), tn_tensor_dtype(g));
    g = tn_unsqueeze(tn_transpose(g, dim, -1), -1);
    return tn_squeeze(tn_matmul(same, g), .dim = -1);
}

bool names_an_equal(tn_tensor *input, int64_t dim, tn_tensor *index,
                    tn_tensor *want, char *text, size_t room)
{
    if (tn_tensor_dtype(index) != tn_tensor_dtype(want) ||
        tn_tensor_numel(index) != tn_tensor_numel(want))
        return false;
    input = tn_detach(input);
    return golden_equal(
        tn_reshape_as(tn_gather(input, dim, with_dim(index, input, dim)), want),
        tn_reshape_as(tn_gather(input, dim, with_dim(want, input, dim)), want),
        (tolerance){0, 0}, text, room);
}
