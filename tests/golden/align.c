/* align.c: some results are not unique, such as the signs of singular vectors.
 * Converts them into the equivalent results of the sample, for the operators in
 * free.def. */
#include "golden.h"

#include <string.h>

static const struct {
    const char *op;
    int output, axis, second, second_axis;
} vectors[] = {
#define FREE_VECTORS(op, output, axis, second, second_axis)                   \
    {op, output, axis, second, second_axis},
#include "free.def"
#undef FREE_VECTORS
};

/* Transposes x if the vectors are its rows (axis -1), so that they are columns;
 * a second call undoes this. */
static tn_tensor *columns(tn_tensor *x, int axis)
{
    return axis == -1 ? tn_transpose(x, -1, -2) : x;
}

/* Transforms the columns from `from` to `to` of got into those of want, by
 * the given signs or, if signs is NULL, by a rotation in the space that they
 * span. */
static tn_tensor *turned_part(tn_tensor *got, tn_tensor *want, int64_t from,
                              int64_t to, tn_tensor *signs)
{
    tn_tensor *part = tn_narrow(got, -1, from, to - from);
    tn_tensor *goal = tn_to_dtype(tn_narrow(want, -1, from, to - from),
                                  tn_tensor_dtype(got));
    if (signs)
        return tn_mul(part, signs);
    return tn_matmul(part, tn_matmul(tn_transpose(tn_detach(part), -1, -2),
                                     goal));
}

static tn_tensor *signs_of(tn_tensor *got, tn_tensor *want, int64_t count)
{
    tn_tensor *along =
        tn_sum(tn_mul(tn_narrow(tn_detach(got), -1, 0, count),
                      tn_narrow(want, -1, 0, count)),
               .dim = -2, .keepdim = true);
    return tn_where_scalars(tn_lt_scalar(along, 0), -1, 1);
}

static tn_tensor *turned(tn_tensor *got, tn_tensor *want, int axis,
                         int64_t count, tn_tensor *signs)
{
    got = columns(got, axis);
    want = columns(want, axis);
    int64_t all = tn_tensor_size(got, -1);
    tn_tensor *first = turned_part(got, want, 0, count, signs);
    if (all > count)
        first = tn_cat(((tn_tensor *[]){first, turned_part(got, want, count,
                                                           all, NULL)}),
                       2, -1);
    return columns(first, axis);
}

static bool same_shape(tn_tensor *a, tn_tensor *b)
{
    return tn_tensor_ndim(a) == tn_tensor_ndim(b) &&
           memcmp(tn_tensor_shape(a), tn_tensor_shape(b),
                  (size_t)tn_tensor_ndim(a) * sizeof(int64_t)) == 0;
}

void golden_align(tn_safetensors *file, const char *op, const json_t *json,
                  tn_tensor **out, int count)
{
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++) {
        int which[] = {vectors[k].output, vectors[k].second};
        int axis[] = {vectors[k].axis, vectors[k].second_axis};
        tn_tensor *want[2] = {NULL, NULL};
        int64_t common = INT64_MAX;
        if (strcmp(vectors[k].op, op) != 0)
            continue;
        for (int i = 0; i < 2 && which[i] >= 0; i++) {
            if (which[i] >= count)
                return;
            want[i] = tn_safetensors_tensor(
                file, json_string_value(json_array_get(
                          json_object_get(json, "outs"), (size_t)which[i])));
            if (!want[i] || !same_shape(want[i], out[which[i]]))
                return; /* the comparison will report the difference */
            int64_t size =
                tn_tensor_size(columns(want[i], axis[i]), -1);
            common = size < common ? size : common;
        }
        if (tn_tensor_numel(out[which[0]]) == 0)
            return;
        tn_tensor *signs = signs_of(columns(out[which[0]], axis[0]),
                                    columns(want[0], axis[0]), common);
        for (int i = 0; i < 2 && which[i] >= 0; i++)
            if (tn_tensor_numel(out[which[i]]))
                out[which[i]] =
                    turned(out[which[i]], want[i], axis[i], common, signs);
    }
}
