/* event_image.c: an image as an event. */
#include <media/run/event_file.h>

#include <stdlib.h>
#include <tenon/image.h>
#include <tenon/ops.h>

static const char call[] = "events_image";

static tn_status check_image(tn_tensor *image)
{
    const tn_given given = {"image", image};
    if (!tn_object_check_kind(image, "tensor", call, "image"))
        return tn_error_code();
    const int64_t channels = tn_tensor_size(image, 0);
    if (tn_tensor_ndim(image) != 3 ||
        (channels != 1 && channels != 3 && channels != 4) ||
        tn_tensor_numel(image) == 0)
        return tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                               "image must have the shape (channels, height, "
                               "width) with 1, 3 or 4 channels");
    if (tn_tensor_dtype(image) != TN_U8 &&
        !tn_dtype_is_floating(tn_tensor_dtype(image)))
        return tn_error_refuse(TN_ERR_DTYPE, call, &given, 1,
                               "image is %s; expected uint8, or a "
                               "floating-point dtype with values from 0 to 1",
                               tn_dtype_name(tn_tensor_dtype(image)));
    return TN_OK;
}

tn_status tn_events_image(tn_events *events, const char *tag, tn_tensor *image,
                          int64_t step)
{
    tn_status status = tn__events_check(events, call, tag, step);
    if (status == TN_OK)
        status = check_image(image);
    if (status < 0)
        return status;
    void *png = NULL;
    size_t bytes = 0;
    tn_scope *scope = tn_scope_open();
    tn_tensor *plain = tn_tensor_dtype(image) == TN_U8
                           ? image
                           : tn_to_dtype(image, TN_F32);
    status = tn_image_encode(plain, "png", &png, &bytes);
    tn_error_rename("image_encode", call, "image");
    tn_scope_close(scope);
    if (status < 0)
        return status;
    tn__message m = {0}, inner = {0};
    tn__message_text(&m, VALUE_TAG, tag);
    tn__message_whole(&inner, IMAGE_HEIGHT, (uint64_t)tn_tensor_size(image, 1));
    tn__message_whole(&inner, IMAGE_WIDTH, (uint64_t)tn_tensor_size(image, 2));
    tn__message_whole(&inner, IMAGE_COLORSPACE,
                      (uint64_t)tn_tensor_size(image, 0));
    tn__message_bytes(&inner, IMAGE_ENCODED, png, bytes);
    tn__message_put(&m, VALUE_IMAGE, &inner);
    free(png);
    return tn__events_append(events, call, step, &m);
}
