/* npy_save.c: writes tensors as .npy files. */
#include <media/array/npy.h>

#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>
#include <tenon/npy.h>

TN_OPTIONS_TYPE(tn_npy_save, "npy_save", "path, x", TN_NPY_SAVE_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_npy_save_memory, "npy_save_memory",
                "x, out_data, out_bytes", TN_NPY_SAVE_OPTIONS_LIST)

/* Replaces row-major elements by the same in column-major order. */
static tn_status make_fortran(tn__npy_image *image, const tn_tensor *x,
                              size_t item, const char *call)
{
    void *ordered = tn__array_alloc(image->data_bytes, call);
    if (!ordered)
        return TN_ERR_MEMORY;
    tn__array_reorder(image->data, ordered, tn_tensor_shape(x),
                      tn_tensor_ndim(x), item, false);
    free(image->data);
    image->data = ordered;
    return TN_OK;
}

tn_status tn__npy_image_of(tn__npy_image *image, const tn_tensor *x,
                           bool fortran, int version, const char *call)
{
    const size_t item = tn_dtype_bytes(tn_tensor_dtype(x));
    image->data_bytes = (size_t)tn_tensor_numel(x) * item;
    image->header_bytes =
        tn__npy_header_write(image->header, x, fortran, version);
    image->data = tn__array_alloc(image->data_bytes, call);
    if (!image->data)
        return TN_ERR_MEMORY;
    tn_status status = tn_tensor_to_array(x, image->data, image->data_bytes);
    if (status == TN_OK && fortran && tn_tensor_ndim(x) > 1)
        status = make_fortran(image, x, item, call);
    if (status == TN_OK && !tn__array_is_little_endian())
        tn__array_swap(image->data, image->data_bytes / item, (unsigned)item);
    if (status < 0) {
        free(image->data);
        image->data = NULL;
    }
    return status;
}

static tn_status check(const tn_tensor *x, int version, const char *call)
{
    if (!tn_object_check_kind(x, "tensor", call, "x"))
        return tn_error_code();
    if (version < 1 || version > 3)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "version",
                                        "version is %d; expected 1, 2 or 3",
                                        version);
    return TN_OK;
}

static tn_status produce(void *context, tn_file *file)
{
    tn__npy_image *image = context;
    tn_status status = tn_file_write(file, image->header, image->header_bytes);
    return status < 0 ? status
                      : tn_file_write(file, image->data, image->data_bytes);
}

tn_status tn_npy_save_with(const char *path, const tn_tensor *x,
                           const tn_npy_save_options *options)
{
    static const char call[] = "npy_save";
    tn_npy_save_options o;
    tn__npy_image image;
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_npy_save_type(), &o, options) < 0 ||
        check(x, o.version, call) < 0)
        return tn_error_code();
    if (!path)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        "path is NULL");
    tn_status status =
        tn__npy_image_of(&image, x, o.fortran_order, o.version, call);
    if (status < 0)
        return status;
    status = tn_file_replace(path, call, produce, &image);
    free(image.data);
    return status;
}

tn_status
tn_npy_save_memory_with(const tn_tensor *x, void **out_data, size_t *out_bytes,
                        const tn_npy_save_memory_options *options)
{
    static const char call[] = "npy_save_memory";
    tn_npy_save_memory_options o;
    tn__npy_image image;
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_npy_save_memory_type(), &o, options) < 0 ||
        check(x, o.version, call) < 0)
        return tn_error_code();
    if (!out_data || !out_bytes)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, out_data ? "out_bytes" : "out_data",
            "%s is NULL", out_data ? "out_bytes" : "out_data");
    tn_status status =
        tn__npy_image_of(&image, x, o.fortran_order, o.version, call);
    if (status < 0)
        return status;
    const size_t bytes = image.header_bytes + image.data_bytes;
    uint8_t *memory = malloc(bytes);
    if (!memory) {
        free(image.data);
        return tn__array_no_memory(call);
    }
    memcpy(memory, image.header, image.header_bytes);
    memcpy(memory + image.header_bytes, image.data, image.data_bytes);
    free(image.data);
    *out_data = memory;
    *out_bytes = bytes;
    return TN_OK;
}
