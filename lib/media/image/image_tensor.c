/* image_tensor.c: the elements of image tensors, and checks of arguments. */
#include <media/image/image_tensor.h>

#include <stdio.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

tn_device *tn__image_device(void)
{
    static tn_device *device; /* lives until the process ends */
    tn_device *known = __atomic_load_n(&device, __ATOMIC_ACQUIRE);
    if (!known) {
        known = tn_device_open("cpu");
        __atomic_store_n(&device, known, __ATOMIC_RELEASE);
    }
    return known;
}

static bool check_dtype(const tn_tensor *image, const tn_given *given,
                        const char *call, bool any_dtype)
{
    const tn_dtype dtype = tn_tensor_dtype(image);
    if (any_dtype ? dtype > TN_DTYPE_NONE && dtype <= TN_BOOL
                  : dtype == TN_U8 || dtype == TN_F32)
        return true;
    tn_error_refuse(TN_ERR_DTYPE, call, given, 1,
                    "image is %s; images are uint8 or float32",
                    tn_dtype_name(dtype));
    return false;
}

bool tn__pixels_open(tn__pixels *out, tn_tensor *image, const char *call,
                     bool any_dtype)
{
    const tn_given given[] = {{"image", image}};
    if (!tn_object_check_kind(image, "tensor", call, "image") ||
        !check_dtype(image, given, call, any_dtype))
        return false;
    const int ndim = tn_tensor_ndim(image);
    const int64_t *shape = tn_tensor_shape(image);
    bool sizes = ndim == 3 || ndim == 4;
    for (int i = 0; sizes && i < ndim; i++)
        sizes = shape[i] > 0;
    if (!sizes) {
        tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                        "image has %d dimensions%s; expected (C, H, W) or (N, "
                        "C, H, W) with sizes of at least 1",
                        ndim, ndim == 3 || ndim == 4 ? " and no elements" : "");
        return false;
    }
    if (shape[ndim - 2] > TN__IMAGE_MAX_SIDE ||
        shape[ndim - 1] > TN__IMAGE_MAX_SIDE) {
        tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                        "image is %lld x %lld; expected at most %lld",
                        (long long)shape[ndim - 2], (long long)shape[ndim - 1],
                        (long long)TN__IMAGE_MAX_SIDE);
        return false;
    }
    if (tn_grad_mode() && tn_tensor_requires_grad(image)) {
        tn_error_refuse(TN_ERR_UNSUPPORTED, call, given, 1,
                        "image requires a gradient, but transforms are not "
                        "differentiable: use tn_detach");
        return false;
    }
    const bool pending = tn_error() != NULL;
    tn_tensor *flat = tn_contiguous(image);
    out->data = flat ? tn_tensor_data(flat) : NULL;
    if (!out->data) {
        /* Replaces the message of tensor_data, since the program called a
         * transform. */
        if (!pending && tn_error_code() == TN_ERR_DEVICE) {
            tn_error_clear();
            tn_error_refuse(TN_ERR_DEVICE, call, given, 1,
                            "image is on %s, whose memory the CPU cannot use: "
                            "use tn_to",
                            tn_device_name(tn_tensor_device(image)));
        }
        return false;
    }
    out->tensor = flat;
    out->dtype = tn_tensor_dtype(flat);
    out->bytes = tn_dtype_bytes(out->dtype);
    out->ndim = ndim;
    out->n = ndim == 4 ? shape[0] : 1;
    out->c = shape[ndim - 3];
    out->h = shape[ndim - 2];
    out->w = shape[ndim - 1];
    return true;
}

bool tn__pixels_new(tn__pixels *out, const tn__pixels *like, int64_t c,
                    int64_t h, int64_t w, tn_dtype dtype)
{
    const int64_t shape[] = {like->n, c, h, w};
    *out = (tn__pixels){.dtype = dtype,
                        .bytes = tn_dtype_bytes(dtype),
                        .ndim = like->ndim,
                        .n = like->n,
                        .c = c,
                        .h = h,
                        .w = w};
    out->tensor =
        tn_empty(tn_dims_from_array(shape + 4 - like->ndim, like->ndim),
                 .dtype = dtype, .device = tn_tensor_device(like->tensor));
    out->data = out->tensor ? tn_tensor_data(out->tensor) : NULL;
    return out->data != NULL;
}

tn_tensor *tn__pixels_copy(const tn__pixels *image)
{
    tn__pixels out;
    if (!tn__pixels_new(&out, image, image->c, image->h, image->w,
                        image->dtype))
        return NULL;
    memcpy(out.data, image->data,
           (size_t)tn_tensor_numel(image->tensor) * image->bytes);
    return out.tensor;
}

bool tn__check_range(const char *call, const char *argument, double value,
                     double low, double high)
{
    if (value >= low && value <= high)
        return true;
    char text[64];
    if (high > 1e300)
        tn_format(text, sizeof text, "%g or more", low);
    else
        tn_format(text, sizeof text, "%g to %g", low, high);
    char given[32];
    tn_format(given, sizeof given, "%g", value);
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                             "%s is %s; expected %s", argument, given, text);
    return false;
}

bool tn__check_sides(const char *call, int64_t height, int64_t width)
{
    const bool tall = height < 1 || height > TN__IMAGE_MAX_SIDE;
    if (!tall && width >= 1 && width <= TN__IMAGE_MAX_SIDE)
        return true;
    tn_error_refuse_argument(
        TN_ERR_ARGUMENT, call, tall ? "height" : "width",
        "%s is %lld; expected 1 to %lld", tall ? "height" : "width",
        (long long)(tall ? height : width), (long long)TN__IMAGE_MAX_SIDE);
    return false;
}

int tn__check_name(const char *call, const char *argument, const char *text,
                   const char *const *names)
{
    char list[96] = "";
    size_t used = 0;
    for (int i = 0; names[i]; i++) {
        if (text && strcmp(text, names[i]) == 0)
            return i;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used,
                                     "%s\"%s\"", i ? ", " : "", names[i]);
    }
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                             "%s is \"%.40s\"; expected one of %s", argument,
                             text ? text : "NULL", list);
    return -1;
}
