/* raster.h: between rasters, as files have them, and tensors. */
#ifndef TN_MEDIA_IMAGE_RASTER_H
#define TN_MEDIA_IMAGE_RASTER_H

#include <media/image/format.h>

/* How a tensor is made of a raster; the options of tn_image_load. */
typedef struct tn__layout {
    int channels; /* 1 .. 4 */
    bool hwc;
    tn_dtype dtype; /* TN_U8, TN_I32 or TN_F32 */
    int orientation;
} tn__layout;
/* Makes the tensor, on the device of images. Returns NULL with the error set.
 * */
tn_tensor *tn__raster_to_tensor(const tn__raster *raster,
                                const tn__layout *layout);

/* Converts an image tensor on any device to a raster of 8 or 16 bits. The
 * caller frees out->data. Error messages name the function `call` and its
 * argument `image`. */
tn_status tn__raster_from_tensor(tn__raster *out, const tn_tensor *image,
                                 bool hwc, const char *call);

#endif
