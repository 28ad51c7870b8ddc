/* file.c: reads and writes image files: the calls of <tenon/image.h>, which
 * find the format in a table. */
#include <media/image/formats.h>
#include <media/image/raster.h>
#include <media/result.h>

#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>

/* ---- reading ------------------------------------------------------------ */

/* Where the data comes from, for error messages: the path of a file, or NULL
 * for memory. */
typedef struct origin {
    const char *call, *path;
} origin;

static tn_status refuse(const origin *from, tn_status code, const tn__why *why)
{
    if (from->path)
        return tn_error_refuse_argument(code, from->call, "path", "%s: %s",
                                        from->path, why->text);
    return tn_error_refuse_argument(code, from->call, "data", "data: %s",
                                    why->text);
}

static tn_tensor *decode(const void *data, size_t bytes, const origin *from,
                         const tn_image_load_options *o)
{
    tn__why why;
    tn_status status = TN_OK;
    tn__raster raster;
    const tn__request request = {
        .grey = o->channels == 1 || o->channels == 2,
        .keep16 = o->dtype != TN_U8,
        .min_side = o->min_side,
        .channels = o->channels,
        .dtype_bytes = tn_dtype_bytes(o->dtype),
    };
    const tn__image_format *format = tn__format_of(data, bytes, &status, &why);
    if (format)
        status = format->decode(data, bytes, &request, &raster, &why);
    if (status < 0)
        return refuse(from, status, &why), NULL;
    const tn__layout layout = {
        .channels = o->channels ? o->channels : raster.channels,
        .hwc = o->hwc,
        .dtype = o->dtype,
        .orientation = o->exif ? raster.orientation : 1,
    };
    tn_tensor *image = tn__raster_to_tensor(&raster, &layout);
    free(raster.data);
    return image;
}

static bool check_options(const char *call, const tn_image_load_options *o)
{
    if (o->channels < 0 || o->channels > 4)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "channels",
                                 ".channels is %d; expected 1, 2, 3 or 4, or 0 "
                                 "for the channels of the file",
                                 o->channels);
    else if (o->dtype != TN_U8 && o->dtype != TN_I32 && o->dtype != TN_F32)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "dtype",
                                 ".dtype is %s; expected uint8, int32 or "
                                 "float32",
                                 tn_dtype_name(o->dtype));
    else if (o->min_side < 0)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "min_side",
                                 ".min_side is %lld; expected at least 0",
                                 (long long)o->min_side);
    else
        return true;
    return false;
}

/* Refuses NULL. */
static bool check_pointer(const void *pointer, const char *call,
                          const char *argument)
{
    if (!pointer)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument, "%s is NULL",
                                 argument);
    return pointer != NULL;
}

TN_OPTIONS_TYPE(tn_image_load, "image_load", "path", TN_IMAGE_LOAD_OPTIONS_LIST)
tn_tensor *tn_image_load_with(const char *path,
                              const tn_image_load_options *options)
{
    const origin from = {"image_load", path};
    tn_image_load_options o;
    void *data;
    size_t bytes;
    if (tn_options_take(tn_image_load_type(), &o, options) < 0 ||
        !check_options(from.call, &o) ||
        tn_file_read(path, from.call, &data, &bytes) < 0)
        return NULL;
    tn_tensor *image = decode(data, bytes, &from, &o);
    free(data);
    return image;
}

TN_OPTIONS_TYPE(tn_image_decode, "image_decode", "data, bytes",
                TN_IMAGE_LOAD_OPTIONS_LIST)
tn_tensor *tn_image_decode_with(const void *data, size_t bytes,
                                const tn_image_decode_options *options)
{
    const origin from = {"image_decode", NULL};
    tn_image_decode_options own;
    if (tn_options_take(tn_image_decode_type(), &own, options) < 0)
        return NULL;
    const tn_image_load_options o = {.channels = own.channels,
                                     .hwc = own.hwc,
                                     .dtype = own.dtype,
                                     .exif = own.exif,
                                     .min_side = own.min_side};
    if (!check_options(from.call, &o) ||
        !check_pointer(data, from.call, "data"))
        return NULL;
    return decode(data, bytes, &from, &o);
}

static tn_status read_info(const void *data, size_t bytes, const origin *from,
                           tn_image_info *out)
{
    tn__why why;
    tn_status status = TN_OK;
    tn_image_info info = {0};
    const tn__image_format *format = tn__format_of(data, bytes, &status, &why);
    if (format)
        status = format->info(data, bytes, &info, &why);
    if (status < 0)
        return refuse(from, status, &why);
    tn__result_store(out, &info);
    return TN_OK;
}

static tn_status check_info(const tn_image_info *out, const char *call)
{
    if (tn_error())
        return TN_ERR_STATE;
    return tn__result_check(out, "tn_image_info", sizeof *out, call,
                            "out_info");
}

tn_status tn_image_info_load(const char *path, tn_image_info *out_info)
{
    const origin from = {"image_info_load", path};
    void *data;
    size_t bytes;
    tn_status status = check_info(out_info, from.call);
    if (status == TN_OK)
        status = tn_file_read(path, from.call, &data, &bytes);
    if (status < 0)
        return status;
    status = read_info(data, bytes, &from, out_info);
    free(data);
    return status;
}

tn_status tn_image_info_decode(const void *data, size_t bytes,
                               tn_image_info *out_info)
{
    const origin from = {"image_info_decode", NULL};
    const tn_status status = check_info(out_info, from.call);
    if (status < 0)
        return status;
    return check_pointer(data, from.call, "data")
               ? read_info(data, bytes, &from, out_info)
               : TN_ERR_ARGUMENT;
}

/* ---- writing ------------------------------------------------------------ */

static tn_status encode(const tn__image_format *format, const tn_tensor *image,
                        const tn_image_save_options *o, const char *call,
                        tn__growing *out)
{
    const tn_given given[] = {{"image", image}};
    const bool png = format == &tn__image_png;
    const int level = png ? o->compression : o->quality;
    const char *option = png ? "compression" : "quality";
    if (!png && (level < 1 || level > 100))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, option,
                                        ".quality is %d; expected 1 to 100",
                                        level);
    if (png && (level < 0 || level > 9))
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, option,
                                        ".compression is %d; expected 0 to 9",
                                        level);
    if (!format->encode)
        return tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, call, NULL,
            "%s needs a library that Tenon was built without (Debian: %s)",
            format->title, format->package);
    tn__raster raster;
    tn__why why;
    tn_status status = tn__raster_from_tensor(&raster, image, o->hwc, call);
    if (status < 0)
        return status;
    if (raster.bits == 16 && !png)
        status = tn_error_refuse(TN_ERR_DTYPE, call, given, 1,
                                 "image is int32, which is saved as 16 bits, "
                                 "but JPEG has only 8: use PNG, or uint8");
    else if ((status = format->encode(&raster, level, out, &why)) < 0)
        status = tn_error_refuse(status, call, given, 1, "%s", why.text);
    free(raster.data);
    if (status < 0) {
        free(out->data);
        *out = (tn__growing){0};
    }
    return status;
}

/* Finds an option that the call gives and that is for another format than the
 * file's. */
static tn_status check_needs(const tn_options_type *type, const void *own,
                             bool png)
{
    const tn_option_need need[] = {
        {"quality", !png, "for PNG, which has no loss", "write JPEG"},
        {"compression", png, "for JPEG", "write PNG"}};
    return tn_options_check_needs(type, own, need, 2);
}

static tn_status put(void *context, tn_file *file)
{
    const tn__growing *data = context;
    return tn_file_write(file, data->data, data->count);
}

TN_OPTIONS_TYPE(tn_image_save, "image_save", "path, image",
                TN_IMAGE_SAVE_OPTIONS_LIST)
tn_status tn_image_save_with(const char *path, const tn_tensor *image,
                             const tn_image_save_options *options)
{
    const char *call = "image_save";
    tn_image_save_options o;
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_image_save_type(), &o, options) < 0 ||
        !check_pointer(path, call, "path"))
        return tn_error_code();
    const tn__image_format *format = tn__format_of_path(path);
    if (!format)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path",
                                        "%s: the name must end in .png, .jpg "
                                        "or .jpeg",
                                        path);
    tn__growing data = {0};
    tn_status status =
        check_needs(tn_image_save_type(), &o, format == &tn__image_png);
    if (status == TN_OK)
        status = encode(format, image, &o, call, &data);
    if (status == TN_OK)
        status = tn_file_replace(path, call, put, &data);
    free(data.data);
    return status;
}

TN_OPTIONS_TYPE(tn_image_encode, "image_encode",
                "image, format, out_data, out_bytes",
                TN_IMAGE_SAVE_OPTIONS_LIST)
tn_status tn_image_encode_with(const tn_tensor *image, const char *format,
                               void **out_data, size_t *out_bytes,
                               const tn_image_encode_options *options)
{
    const char *call = "image_encode";
    tn_image_encode_options own;
    if (tn_error())
        return TN_ERR_STATE;
    if (tn_options_take(tn_image_encode_type(), &own, options) < 0 ||
        !check_pointer(format, call, "format") ||
        !check_pointer(out_data, call, "out_data") ||
        !check_pointer(out_bytes, call, "out_bytes"))
        return tn_error_code();
    const tn__image_format *found = tn__format_of_name(format);
    if (!found)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "format",
                                        "format is \"%.40s\"; expected "
                                        "\"png\" or \"jpeg\"",
                                        format);
    const tn_image_save_options o = {
        .quality = own.quality, .compression = own.compression, .hwc = own.hwc};
    tn__growing data = {0};
    tn_status status =
        check_needs(tn_image_encode_type(), &own, found == &tn__image_png);
    if (status == TN_OK)
        status = encode(found, image, &o, call, &data);
    if (status < 0)
        return status;
    *out_data = data.data;
    *out_bytes = data.count;
    return TN_OK;
}
