/* boxes.c: checks, copies and orders that the files of this folder share. */
#include <media/vision/boxes.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has_kind(tn_dtype dtype, int kind)
{
    switch (dtype) {
    case TN_F32:
    case TN_F64:
    case TN_F16:
    case TN_BF16:
        return kind != TN__INTEGER;
    case TN_I64:
    case TN_I32:
    case TN_I16:
    case TN_I8:
    case TN_U8:
        return kind != TN__FLOATING;
    default:
        return false;
    }
}

static const char *const kind_text[] = {
    [TN__ANY_NUMBER] = ("a floating-point or integer dtype, but not bool or "
                        "float8"),
    [TN__FLOATING] = "float32, float64, float16 or bfloat16",
    [TN__INTEGER] = "an integer dtype"};

/* Writes a shape as "(3, 4)". */
static const char *shape_text(const tn_tensor *x, char text[160])
{
    int n = snprintf(text, 160, "(");
    for (int d = 0; d < tn_tensor_ndim(x) && n < 130; d++)
        n += snprintf(text + n, 160 - (size_t)n, "%s%lld", d ? ", " : "",
                      (long long)tn_tensor_size(x, d));
    snprintf(text + n, 160 - (size_t)n, "%s)",
             tn_tensor_ndim(x) == 1 ? "," : "");
    return text;
}

bool tn__box_check(const char *call, const tn__box_rule *rule, int count)
{
    char shape[160], want[64];
    for (int i = 0; i < count; i++) {
        const tn__box_rule *r = &rule[i];
        if (!tn_object_check_kind(r->tensor, "tensor", call, r->argument))
            return false;
        const tn_given given = {r->argument, r->tensor};
        const tn_dtype dtype = tn_tensor_dtype(r->tensor);
        if (!has_kind(dtype, r->kind)) {
            tn_error_refuse(TN_ERR_DTYPE, call, &given, 1,
                            "%s has dtype %s; expected %s", r->argument,
                            tn_dtype_name(dtype), kind_text[r->kind]);
            return false;
        }
        const int ndim = tn_tensor_ndim(r->tensor);
        if ((r->ndim == -2 || (r->ndim < 0 ? ndim >= 1 : ndim == r->ndim)) &&
            (r->last < 0 || tn_tensor_size(r->tensor, -1) == r->last))
            continue;
        if (r->last >= 0)
            snprintf(want, sizeof want, r->ndim < 0 ? "(..., %lld)"
                                                    : "(N, %lld)",
                     (long long)r->last);
        else
            snprintf(want, sizeof want, "%d dimension%s", r->ndim,
                     r->ndim == 1 ? "" : "s");
        tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                        "%s has the shape %s; expected %s", r->argument,
                        shape_text(r->tensor, shape), want);
        return false;
    }
    for (int i = 1; i < count; i++) {
        tn_device *a = tn_tensor_device(rule[0].tensor),
                  *b = tn_tensor_device(rule[i].tensor);
        if (a == b)
            continue;
        const tn_given given[] = {{rule[i].argument, rule[i].tensor},
                                  {rule[0].argument, rule[0].tensor}};
        tn_error_refuse(TN_ERR_DEVICE, call, given, 2,
                        "%s is on %s, but %s is on %s; move one with tn_to",
                        rule[i].argument, tn_device_name(b), rule[0].argument,
                        tn_device_name(a));
        return false;
    }
    return true;
}

tn_tensor *tn__box_upcast(tn_tensor *x)
{
    switch (tn_tensor_dtype(x)) {
    case TN_F16:
    case TN_BF16:
        return tn_to_dtype(x, TN_F32);
    case TN_I16:
    case TN_I8:
    case TN_U8:
        return tn_to_dtype(x, TN_I32);
    default:
        return x;
    }
}

static void *read_as(tn_tensor *x, tn_dtype dtype)
{
    const size_t bytes = (size_t)tn_tensor_numel(x) * 8;
    void *out = malloc(bytes ? bytes : 8);
    if (!out)
        return tn_error_set(TN_ERR_MEMORY, "boxes: out of memory"), NULL;
    tn_status status = TN_OK;
    TN_NO_GRAD
        TN_SCOPE(scope)
            status = tn_tensor_to_array(tn_to_dtype(x, dtype), out, bytes);
    if (status < 0) {
        free(out);
        return NULL;
    }
    return out;
}

double *tn__box_read(tn_tensor *x)
{
    return read_as(x, TN_F64);
}

int64_t *tn__box_read_int(tn_tensor *x)
{
    return read_as(x, TN_I64);
}

tn_tensor *tn__box_tensor(const void *data, tn_dtype dtype, tn_dims_list shape,
                          tn_device *device)
{
    tn_tensor *x = tn_tensor_from_array(data, dtype, shape);
    return x && tn_tensor_device(x) != device ? tn_to(x, device) : x;
}

/* Returns whether score a precedes score b in descending order. a is the
 * earlier one in the input, so it also precedes an equal b. NaN counts as the
 * largest score. */
static bool comes_first(double a, double b)
{
    return isnan(a) || !(b > a || isnan(b));
}

bool tn__box_order(const double *score, int64_t n, int64_t *out)
{
    int64_t *other = malloc(((size_t)n + 1) * sizeof *other), *from = out,
            *to = other;
    if (!other) {
        tn_error_set(TN_ERR_MEMORY, "boxes: out of memory");
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = i;
    for (int64_t width = 1; width < n; width *= 2) { /* a merge sort */
        for (int64_t low = 0; low < n; low += 2 * width) {
            const int64_t middle = low + width < n ? low + width : n;
            const int64_t high = middle + width < n ? middle + width : n;
            for (int64_t i = low, j = middle, k = low; k < high; k++)
                to[k] = i < middle &&
                                (j >= high || comes_first(score[from[i]],
                                                          score[from[j]]))
                            ? from[i++]
                            : from[j++];
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != out)
        memcpy(out, from, (size_t)n * sizeof *out);
    free(other);
    return true;
}

tn_tensor *tn__box_apply(const char *text, const tn_op **op,
                         tn_tensor *const *in, const double *numbers)
{
    return tn_op_define_once(text, op) ? tn_op_apply(*op, in, numbers) : NULL;
}

bool tn__box_reduction_is_known(const char *call, const char *reduction)
{
    if (strcmp(reduction, "none") == 0 || strcmp(reduction, "mean") == 0 ||
        strcmp(reduction, "sum") == 0)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "reduction",
                             "reduction is \"%s\"; expected \"none\", \"mean\" "
                             "or \"sum\"",
                             reduction);
    return false;
}

tn_tensor *tn__box_reduce(const char *call, tn_tensor *x,
                          const char *reduction)
{
    if (!tn__box_reduction_is_known(call, reduction))
        return NULL;
    if (strcmp(reduction, "none") == 0)
        return x;
    return strcmp(reduction, "mean") == 0 && tn_tensor_numel(x) > 0
               ? tn_mean(x)
               : tn_sum(x);
}
