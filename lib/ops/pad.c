/* pad.c: more elements before and after, by a number or by input's own. */
#include <base/memory.h>
#include <ops/native.h>

/* pad lists (before, after) for the last dimension, then the one before it. */
static int64_t before(const tn_dims_list *pad, int ndim, int d)
{
    int k = 2 * (ndim - 1 - d);
    return k < pad->count ? pad->dim[k] : 0;
}

static int64_t after(const tn_dims_list *pad, int ndim, int d)
{
    int k = 2 * (ndim - 1 - d) + 1;
    return k < pad->count ? pad->dim[k] : 0;
}

static tn_status check_pad(const tn__call *call, const tn_tensor *x,
                           const tn_dims_list *pad, tn__shape *shape)
{
    const char *name = tn__op_outer(call->op->name);
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (pad->count % 2 || pad->count > 2 * x->ndim)
        return tn__fail(TN_ERR_ARGUMENT, "%s: pad %s for input %s: two numbers "
                        "for each of its last dimensions are wanted", name,
                        tn__shape_text(a, pad->count, pad->dim),
                        tn__shape_text(b, x->ndim, x->shape));
    shape->ndim = x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        int64_t low = before(pad, x->ndim, d), high = after(pad, x->ndim, d);
        bool told =
            !__builtin_add_overflow(x->shape[d], low, &shape->dim[d]) &&
            !__builtin_add_overflow(shape->dim[d], high, &shape->dim[d]);
        if (!told || shape->dim[d] < 0)
            return tn__fail(TN_ERR_SHAPE, "%s: pad %s leaves less than nothing "
                            "of dimension %d of input %s", name,
                            tn__shape_text(a, pad->count, pad->dim), d,
                            tn__shape_text(b, x->ndim, x->shape));
    }
    return TN_OK;
}

/* The part of x that lies `skip` elements in, where that is positive. */
static void cut(tn_tensor *part, const tn_tensor *x, int d, int64_t skip,
                int64_t size)
{
    if (skip > 0)
        part->offset += skip * x->stride[d];
    part->shape[d] = size;
}

static void same_view(tn_tensor *part, const tn_tensor *x)
{
    part->storage = x->storage;
    part->dtype = x->dtype;
    part->ndim = x->ndim;
    part->offset = x->offset;
    for (int d = 0; d < x->ndim; d++)
        part->stride[d] = x->stride[d];
}

tn_status tn__run_constant_pad_nd(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_CONSTANT_PAD_ND_INPUT);
    const tn_dims_list *pad =
        call->value[TN__ARG_CONSTANT_PAD_ND_PAD].of.dims;
    const char *name = tn__op_outer("constant_pad_nd");
    tn__shape shape;
    tn_status status = check_pad(call, x, pad, &shape);
    if (status < 0)
        return status;
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, shape.ndim,
                                    shape.dim, name);
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    tn_tensor from, to;
    same_view(&from, x);
    same_view(&to, out);
    bool whole = true, empty = false;
    for (int d = 0; d < x->ndim; d++) {
        int64_t low = before(pad, x->ndim, d), high = after(pad, x->ndim, d);
        int64_t size =
            x->shape[d] + (low < 0 ? low : 0) + (high < 0 ? high : 0);
        cut(&from, x, d, -low, size);
        cut(&to, out, d, low, size);
        whole = whole && low <= 0 && high <= 0;
        empty = empty || size <= 0;
    }
    if (!whole)
        status = tn__fill(out,
                          tn__call_float(call, TN__ARG_CONSTANT_PAD_ND_VALUE),
                          name);
    return status < 0 || empty ? status : tn__copy_into(&to, &from, name);
}

/* ---- input's own elements ------------------------------------------------- */

enum { CONSTANT, REFLECT, REPLICATE, CIRCULAR, MODES };
static const char *const mode_names[MODES] = {"constant", "reflect",
                                              "replicate", "circular"};

/* Which of n elements stands at place i, counted from element 0. Circular goes
 * round what is left of them where pad is negative, as PyTorch does. */
static int64_t source(int mode, int64_t i, int64_t n, int64_t low,
                      int64_t high)
{
    if (mode == REFLECT)
        return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
    if (mode == REPLICATE)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    int64_t first = low < 0 ? -low : 0;
    int64_t left = n - first + (high < 0 ? high : 0);
    return first + ((i - first) % left + left) % left;
}

static tn_tensor *padded_dim(tn_tensor *x, int mode, int d, int64_t low,
                             int64_t high)
{
    int64_t n = x->shape[d], size = n + low + high;
    int64_t least = mode == REFLECT ? n - 1 : mode == CIRCULAR ? n : INT64_MAX;
    if (low > least || high > least || (n < 1 && size > 0)) {
        tn__fail(TN_ERR_SHAPE, "pad: (%lld, %lld) of mode %s is more than "
                 "dimension %d of size %lld has", (long long)low,
                 (long long)high, mode_names[mode], d, (long long)n);
        return NULL;
    }
    int64_t *from = tn__alloc((size_t)(size + 1) * sizeof *from);
    if (!from)
        return NULL;
    for (int64_t i = 0; i < size; i++)
        from[i] = source(mode, i - low, n, low, high);
    tn_tensor *index = tn_to(
        tn_tensor_from_array(from, TN_I64, tn_dims(size)), x->storage->device);
    tn__free(from);
    return index ? tn_index_select(x, d, index) : NULL;
}

tn_status tn__run_pad(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PAD_INPUT);
    const tn_dims_list *pad = call->value[TN__ARG_PAD_PAD].of.dims;
    const char *text = call->value[TN__ARG_PAD_MODE].of.string;
    double value = tn__call_float(call, TN__ARG_PAD_VALUE);
    int mode = CONSTANT;
    while (mode < MODES && strcmp(mode_names[mode], text) != 0)
        mode++;
    if (mode == MODES)
        return tn__fail(TN_ERR_ARGUMENT, "pad: mode \"%s\" is none of "
                        "constant, reflect, replicate, circular", text);
    tn__shape shape;
    tn_status status = check_pad(call, x, pad, &shape);
    if (status < 0)
        return status;
    if (mode == CONSTANT)
        return tn__give(call, tn_constant_pad_nd(x, *pad, value));
    /* Gradients of half types add up along one dimension after the other. */
    bool half = tn_dtype_is_floating(x->dtype) && tn_dtype_bytes(x->dtype) == 2;
    tn_dtype dtype = x->dtype;
    x = half && pad->count > 2 ? tn_to_dtype(x, TN_F32) : x;
    for (int d = 0; x && d < x->ndim; d++) {
        int64_t low = before(pad, x->ndim, d), high = after(pad, x->ndim, d);
        if (low || high)
            x = padded_dim(x, mode, d, low, high);
    }
    x = x && x->dtype != dtype ? tn_to_dtype(x, dtype) : x;
    return tn__give(call, x && x == tn__call_tensor(call, 0) ? tn_clone(x) : x);
}
