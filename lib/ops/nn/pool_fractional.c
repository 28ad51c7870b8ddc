/* pool_fractional.c: pooling with windows at random positions (PyTorch's
 * fractional_max_pool2d and 3d; Graham, "Fractional Max-Pooling",
 * arXiv:1412.6071).
 *
 * A plane is one channel of one item of the batch. A random number in [0, 1)
 * for each plane and dimension determines where the windows begin: at steps of
 * (size - window) / (windows - 1), rounded down. The last window ends where the
 * plane ends. As in PyTorch, the first random number of a plane is for the last
 * dimension in 2d, but for the first in 3d. The result is a gather of the
 * largest elements, so the gradient is that of gather. */
#include <ops/engine/native.h>

typedef struct fraction {
    int count; /* the number of pooled dimensions, 2 or 3 */
    int64_t planes, in[3], window[3], out[3];
} fraction;

static tn_status fail_list(const char *name, const char *arg, int found,
                           int wanted)
{
    return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} has %d numbers; expected %d, "
                    "or one for all", name, arg, found, wanted);
}

/* Sets f->out to the sizes of the output: output_size, or output_ratio times
 * the sizes of the input. `size` is the index of the argument output_size. */
static tn_status find_out(const tn__call *call, int size, fraction *f)
{
    const char *name = call->op->name;
    const tn_value *given = &call->value[size], *ratio = given + 1;
    bool by_size = given->kind == TN_VALUE_DIMS && given->of.dims->count > 0;
    if (!by_size && ratio->kind != TN_VALUE_FLOATS)
        return tn__fail(TN_ERR_ARGUMENT, "%s: neither {output_size} nor "
                        "{output_ratio} is given: give one of them", name);
    int count = by_size ? given->of.dims->count : ratio->count;
    if (count != 1 && count != f->count)
        return fail_list(name, by_size ? "output_size" : "output_ratio", count,
                         f->count);
    for (int a = 0; a < f->count; a++) {
        int at = count == 1 ? 0 : a;
        if (by_size) {
            f->out[a] = given->of.dims->dim[at];
            continue;
        }
        double part = ratio->of.floats[at];
        if (!(part > 0 && part < 1))
            return tn__fail(TN_ERR_ARGUMENT, "%s: {output_ratio} %g is outside "
                            "(0, 1)", name, part);
        f->out[a] = (int64_t)((double)f->in[a] * part);
    }
    return TN_OK;
}

static tn_status take(const tn__call *call, const tn_tensor *x, fraction *f)
{
    const char *name = call->op->name;
    const tn_dims_list *window = call->value[1].of.dims;
    char text[TN__SHAPE_TEXT];
    if (x->ndim != f->count + 1 && x->ndim != f->count + 2)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s; expected (N, "
                        "C, ...) or (C, ...) with %d dimensions to pool after "
                        "C", name, tn__shape_text(text, x->ndim, x->shape),
                        f->count);
    if (window->count != 1 && window->count != f->count)
        return fail_list(name, "kernel_size", window->count, f->count);
    f->planes = 1;
    for (int d = 0; d < x->ndim - f->count; d++)
        f->planes *= x->shape[d];
    for (int a = 0; a < f->count; a++) {
        f->in[a] = x->shape[x->ndim - f->count + a];
        f->window[a] = window->dim[window->count == 1 ? 0 : a];
    }
    if (find_out(call, 2, f) < 0)
        return tn_error_code();
    for (int a = 0; a < f->count; a++)
        if (f->window[a] < 1 || f->out[a] < 1 ||
            f->window[a] - 1 > f->in[a] - f->out[a])
            return tn__fail(TN_ERR_SHAPE, "%s: %lld windows of size %lld do "
                            "not fit into a dimension of size %lld: expected a "
                            "count and a size of at least 1, and count + size "
                            "- 1 of at most the dimension", name,
                            (long long)f->out[a], (long long)f->window[a],
                            (long long)f->in[a]);
    return TN_OK;
}

/* Returns the random numbers as (planes, count): those in argument arg, of
 * shape (N, C, count), or new ones if it is absent. For half types they are
 * float32. */
static tn_tensor *samples_of(const tn__call *call, tn_tensor *x, int arg,
                             const fraction *f)
{
    tn_dtype dtype = x->dtype == TN_F64 ? TN_F64 : TN_F32;
    tn_device *device = x->storage->device;
    if (!tn__call_has(call, arg))
        return tn_rand(tn_dims(f->planes, f->count), .dtype = dtype,
                       .device = device);
    tn_tensor *given = tn__call_tensor(call, arg);
    char text[TN__SHAPE_TEXT];
    if (given->ndim != 3 || given->shape[2] != f->count ||
        given->shape[0] * given->shape[1] != f->planes ||
        !tn_dtype_is_floating(given->dtype)) {
        tn__fail(TN_ERR_SHAPE, "%s: {random_samples} has shape %s and dtype "
                 "%s; expected %d floating-point numbers for each of the N * C "
                 "= %lld planes, as (N, C, %d)", call->op->name,
                 tn__shape_text(text, given->ndim, given->shape),
                 tn_dtype_name(given->dtype), f->count, (long long)f->planes,
                 f->count);
        return NULL;
    }
    return tn_to_dtype(tn_reshape(tn_detach(given),
                                  tn_dims(f->planes, f->count)),
                       dtype);
}

/* Returns the start of each window along dimension a, as int64 (planes,
 * out[a]). */
static tn_tensor *starts(const fraction *f, tn_tensor *samples, int a)
{
    int64_t last = f->in[a] - f->window[a], count = f->out[a];
    tn_device *device = samples->storage->device;
    tn_tensor *end = tn_full(tn_dims(f->planes, 1), last, .dtype = TN_I64,
                             .device = device);
    if (count == 1)
        return end;
    tn_tensor *u = tn_select(samples, 1, f->count == 2 ? 1 - a : a);
    tn_tensor *sample = tn_unsqueeze(u, 1);
    tn_tensor *i = tn_arange(0, count - 1, 1, .dtype = samples->dtype,
                             .device = device);
    /* As in PyTorch, the step is divided in the dtype of the random numbers. */
    tn_tensor *step = tn_div_scalar(tn_full(TN_SCALAR, (double)last,
                                            .dtype = samples->dtype,
                                            .device = device), count - 1);
    tn_tensor *at = tn_sub(
        tn_to_dtype(tn_mul(tn_add(i, sample), step), TN_I64),
        tn_to_dtype(tn_mul(sample, step), TN_I64));
    /* The caller may have given random numbers outside of [0, 1). The clamp
     * keeps their windows within the plane. */
    tn_tensor *all[] = {tn_clamp_scalars(at, 0, last), end};
    return tn_cat(all, 2, 1);
}

/* Returns the indices in the plane of the elements of each window, of shape
 * (planes, window[0], window[1], ..., out[0], out[1], ...). Elements at the
 * same position in their windows are adjacent. */
static tn_tensor *places(const fraction *f, tn_tensor *samples)
{
    tn_tensor *sum = NULL;
    for (int a = 0; a < f->count; a++) {
        tn_tensor *begin = starts(f, samples, a);
        tn_tensor *along = tn_arange(0, f->window[a], 1, .dtype = TN_I64,
                                     .device = samples->storage->device);
        /* begin + along as (planes, window, out), then with the dimensions of
         * size 1 between them in which the other axes vary */
        tn_tensor *at =
            tn_add(tn_unsqueeze(begin, 1), tn_reshape(along, tn_dims(-1, 1)));
        tn_dims_list shape = {1 + 2 * f->count, {f->planes}};
        for (int k = 0; k < f->count; k++) {
            shape.dim[1 + k] = k == a ? f->window[a] : 1;
            shape.dim[1 + f->count + k] = k == a ? f->out[a] : 1;
        }
        at = tn_reshape(at, shape);
        sum = a ? tn_add(tn_mul_scalar(sum, f->in[a]), at) : at;
    }
    return sum;
}

/* Returns the indices in the plane of the largest element of each window, of
 * shape (planes, windows). */
static tn_tensor *greatest(const fraction *f, tn_tensor *plane,
                           tn_tensor *samples, int64_t windows, int64_t each)
{
    tn_tensor *index = tn_reshape(places(f, samples),
                                  tn_dims(f->planes, each * windows));
    tn_tensor *inside = tn_reshape(tn_gather(tn_detach(plane), 1, index),
                                   tn_dims(f->planes, each, windows));
    tn_tensor *which = NULL;
    if (!tn_max_dim(inside, 1, &which))
        return NULL;
    index = tn_reshape(index, tn_dims(f->planes, each, windows));
    return tn_select(tn_gather(index, 1, tn_unsqueeze(which, 1)), 1, 0);
}

static tn_status run(tn__call *call, int count)
{
    enum { RETURN_INDICES = 4, SAMPLES };
    tn_tensor *x = tn__call_tensor(call, 0);
    fraction f = {.count = count};
    if (take(call, x, &f) < 0)
        return tn_error_code();
    int64_t elements = 1, windows = 1, each = 1;
    tn_dims_list shape = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        shape.dim[d] = x->shape[d];
    for (int a = 0; a < count; a++) {
        elements *= f.in[a];
        windows *= f.out[a];
        each *= f.window[a];
        shape.dim[x->ndim - count + a] = f.out[a];
    }
    tn_tensor *samples = samples_of(call, x, SAMPLES, &f);
    tn_tensor *plane = tn_reshape(x, tn_dims(f.planes, elements));
    tn_tensor *at =
        samples ? greatest(&f, plane, samples, windows, each) : NULL;
    tn_status status =
        tn__give(call, tn_reshape(tn_gather(plane, 1, at), shape));
    if (status < 0 || !tn__call_int(call, RETURN_INDICES))
        return status;
    return tn__give(call, tn_reshape(at, shape));
}

tn_status tn__run_fractional_max_pool2d(tn__call *call)
{
    return run(call, 2);
}

tn_status tn__run_fractional_max_pool3d(tn__call *call)
{
    return run(call, 3);
}
