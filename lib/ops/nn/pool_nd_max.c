/* pool_nd_max.c: max pooling in one and three dimensions, and adaptive max
 * pooling (PyTorch's max_pool1d, max_pool3d, adaptive_max_pool1d to 3d), by
 * max_pool2d or one dimension after the other. */
#include <base/memory.h>
#include <math.h>
#include <ops/nn/pool_nd.h>

/* Makes a table (window_taps.h) of the elements of each window along axis a. A
 * window that has fewer elements than others lists its first element several
 * times. */
static tn_status fill_window_taps(const tn__windows *w, int a, tn__taps *taps)
{
    int64_t in = w->in[a], step = w->dilation[a];
    int64_t within = (in - 1) / step + 1; /* the maximum number of elements of a
                                           * window that are within the input */
    int64_t reach = w->kernel[a] < within ? w->kernel[a] : within;
    tn_status status = tn__taps_new(taps, in, w->out[a], reach);
    for (int64_t i = 0; i < w->out[a] && status >= 0; i++) {
        int64_t start = i * w->stride[a] - w->pad[a];
        int64_t before = start < 0 ? (step - 1 - start) / step : 0;
        int64_t first = start + before * step;
        if (before >= w->kernel[a] || first >= in) { /* the window is padding
                                                        alone */
            first = 0;
            before = w->kernel[a];
        }
        for (int64_t k = 0; k < reach; k++) {
            int64_t at = first + k * step;
            bool there = before + k < w->kernel[a] && at < in;
            tn__taps_set(taps, i, (int)k, there ? at : first, 1);
        }
    }
    return status;
}

/* Computes the maximum of each window by tables: first along the last
 * dimension, then along the dimension before it, and so on. The first of
 * several equal elements is chosen in each dimension, so the result is the
 * first one in row-major order. `even` is true if the windows are adaptive. */
static tn_status max_by_tables(tn_tensor *x, const tn__windows *w, bool even,
                               tn_tensor **values, tn_tensor **indices)
{
    tn_tensor *index = NULL;
    int64_t below = 1; /* product of the input sizes of the later axes */
    for (int a = w->axes - 1; a >= 0; a--) {
        int dim = x->ndim - w->axes + a;
        tn__taps taps = {0};
        tn_tensor *place;
        tn_status status = tn__taps_check_memory(x, dim, w->out[a]);
        if (status >= 0)
            status = even ? tn__windows_even_taps(w, a, false, &taps)
                          : fill_window_taps(w, a, &taps);
        if (status >= 0)
            status = tn__taps_max(x, dim, &taps, &x, &place);
        tn__taps_free(&taps);
        if (status < 0)
            return status;
        index = index ? tn_add(tn_gather(index, dim, place),
                               tn_mul_scalar(place, below))
                      : place;
        if (!index)
            return tn_error_code();
        below *= w->in[a];
    }
    *values = x;
    *indices = index;
    return TN_OK;
}

/* Sets the results of windows that consist of padding alone, as in PyTorch. The
 * value is the minimum of the dtype. The index is that of the window's first
 * position that is not before the start of the input. */
static tn_status fill_padding_windows(const tn__windows *w, tn_tensor **values,
                                      tn_tensor **indices)
{
    tn_dtype dtype = (*values)->dtype;
    tn_device *device = (*values)->storage->device;
    tn_tensor *gone = NULL, *first = NULL;
    for (int a = 0; a < w->axes; a++) {
        tn_dims_list along = {w->axes, {1, 1, 1}};
        along.dim[a] = w->out[a];
        int64_t *list = tn__alloc_many(w->out[a], sizeof *list);
        if (!list)
            return TN_ERR_MEMORY;
        for (int64_t i = 0; i < w->out[a]; i++)
            list[i] = tn__windows_first_tap(w, a, i);
        tn_tensor *tap =
            tn__number_table(list, TN_I64, TN_I64, along, device);
        tn__free(list);
        tn_tensor *behind = tn_ge_scalar(tap, tn_scalar_int(w->in[a]));
        gone = a ? tn_logical_or(gone, behind) : behind;
        first = a ? tn_add(tn_mul_scalar(first, tn_scalar_int(w->in[a])), tap)
                  : tap;
    }
    double least = tn_dtype_is_floating(dtype) ? -INFINITY
                   : dtype == TN_U8            ? 0
                       : -ldexp(1, 8 * (int)tn_dtype_bytes(dtype) - 1);
    *values = tn_masked_fill_scalar(*values, gone, least);
    *indices = tn_where(gone, first, *indices);
    return *values && *indices ? TN_OK : tn_error_code();
}

/* Computes the maximum of each window by max_pool2d. `up` is passed on as
 * ceil_mode, with which windows may extend beyond the end. */
static tn_status max_of_images(tn_tensor *x, const tn__windows *w, bool up,
                               tn_tensor **values, tn_tensor **indices)
{
    tn__image_pass pass[2];
    int count = tn__windows_plan(x, w, pass);
    /* Several passes are computed in float32, since the gradients of half types
     * would be rounded in each pass. */
    bool half = count > 1 && tn_dtype_bytes(x->dtype) < 4;
    tn_tensor *y = half ? tn_to_dtype(x, TN_F32) : x, *index = NULL;
    for (int k = 0; k < count; k++) {
        tn_tensor *at = NULL;
        y = tn_reshape(y, pass[k].shape);
        y = indices ? tn_max_pool2d_with_indices(
                          y, pass[k].kernel, &at,
                          .strides = tn__marked(pass[k].stride),
                          .paddings = tn__marked(pass[k].pad),
                          .dilations = tn__marked(pass[k].dilation),
                          .ceil_mode = up)
                    : tn_max_pool2d(y, pass[k].kernel,
                                    .strides = tn__marked(pass[k].stride),
                                    .paddings = tn__marked(pass[k].pad),
                                    .dilations = tn__marked(pass[k].dilation),
                                    .ceil_mode = up);
        if (!y)
            return tn_error_code();
        if (!indices || k == 0) {
            index = at;
            continue;
        }
        /* `depth` is the slice that holds the maximum, and `inner` the index of
         * the maximum within the slice. */
        int64_t lead = pass[k].shape.dim[0], slice = pass[k].shape.dim[3];
        at = tn_reshape(at, tn_dims(lead, -1));
        tn_tensor *inner =
            tn_gather(tn_reshape(index, tn_dims(lead, -1)), 1, at);
        tn_tensor *depth =
            tn_div_scalar(at, slice, .rounding_mode = "floor");
        index = tn_add(inner, tn_mul_scalar(depth, w->in[1] * w->in[2]));
    }
    *values = tn__windows_shape(half ? tn_to_dtype(y, x->dtype) : y, x, w);
    if (indices)
        *indices = tn__windows_shape(index, x, w);
    return *values ? TN_OK : tn_error_code();
}

static tn_status give_max(tn__call *call, tn_tensor *x, tn__windows *w,
                          bool even, bool up, bool with_indices)
{
    tn_tensor *values = NULL, *indices = NULL;
    bool regular =
        (!even || tn__windows_make_regular(w)) && tn__windows_suit_images(x, w);
    tn_status status =
        regular ? max_of_images(x, w, up, &values,
                                with_indices ? &indices : NULL)
                : max_by_tables(x, w, even, &values, &indices);
    if (status >= 0 && !regular && !even && tn__windows_all_padding(w))
        status = fill_padding_windows(w, &values, &indices);
    if (status >= 0)
        status = tn__give(call, values);
    return status >= 0 && with_indices ? tn__give(call, indices) : status;
}

static tn_status max_pool(tn__call *call, int axes, bool with_indices)
{
    enum {
        kernel_size = TN__ARG_MAX_POOL3D_KERNEL_SIZE,
        stride = TN__ARG_MAX_POOL3D_STRIDE,
        padding = TN__ARG_MAX_POOL3D_PADDING,
        dilation = TN__ARG_MAX_POOL3D_DILATION,
        ceil_mode = TN__ARG_MAX_POOL3D_CEIL_MODE
    };
    static const int args[] = {kernel_size, stride, padding, dilation};
    tn_tensor *x = tn__call_tensor(call, 0);
    tn__windows w;
    tn_status status = tn__windows_read(call, x, axes, args, ceil_mode, &w);
    if (status < 0)
        return status;
    return give_max(call, x, &w, false, tn__call_int(call, ceil_mode),
                    with_indices);
}

tn_status tn__run_max_pool1d(tn__call *call)
{
    return max_pool(call, 1,
                    tn__call_int(call, TN__ARG_MAX_POOL1D_RETURN_INDICES));
}

tn_status tn__run_max_pool3d(tn__call *call)
{
    return max_pool(call, 3,
                    tn__call_int(call, TN__ARG_MAX_POOL3D_RETURN_INDICES));
}

tn_status tn__run_max_pool1d_with_indices(tn__call *call)
{
    return max_pool(call, 1, true);
}

tn_status tn__run_max_pool3d_with_indices(tn__call *call)
{
    return max_pool(call, 3, true);
}

tn_status tn__run_adaptive_max_pool(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    tn__windows w;
    tn_status status = tn__windows_read_adaptive(call, x, &w);
    if (status < 0)
        return status;
    return give_max(
        call, x, &w, true, false,
        tn__call_int(call, TN__ARG_ADAPTIVE_MAX_POOL2D_RETURN_INDICES));
}
