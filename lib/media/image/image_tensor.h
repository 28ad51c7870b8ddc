/* image_tensor.h: images in memory of the CPU, which all files of this folder share. */
#ifndef TN_MEDIA_IMAGE_IMAGE_TENSOR_H
#define TN_MEDIA_IMAGE_IMAGE_TENSOR_H

#include <tenon/options.h>
#include <tenon/tensor.h>

/* The largest height and width of a transform's result. Products of two sizes
 * and an element's bytes fit into int64_t. */
#define TN__IMAGE_MAX_SIDE ((int64_t)1 << 28)

/* The elements of an image tensor: n images of c contiguous planes, h x w. */
typedef struct tn__pixels {
    tn_tensor *tensor; /* contiguous; owned by the open scope */
    void *data;
    tn_dtype dtype;
    size_t bytes;      /* of an element */
    int ndim;          /* 3: (C, H, W), 4: (N, C, H, W) */
    int64_t n, c, h, w;
} tn__pixels;

/* Returns the device of images, "cpu", or NULL with the error set. */
tn_device *tn__image_device(void);

/* Checks the argument `image` of a transform, and fills *out. With any_dtype,
 * all dtypes of fixed size are accepted, else uint8 and float32. Returns false
 * with the error set. */
bool tn__pixels_open(tn__pixels *out, tn_tensor *image, const char *call,
                     bool any_dtype);
/* Makes a result with the dimensions of `like`, but other sizes and dtype.
 * Returns false with the error set. */
bool tn__pixels_new(tn__pixels *out, const tn__pixels *like, int64_t c,
                    int64_t h, int64_t w, tn_dtype dtype);
/* Returns a copy of image: the result of a transform that changes nothing. */
tn_tensor *tn__pixels_copy(const tn__pixels *image);

/* Checks that value is low .. high. Returns false with the error set. */
bool tn__check_range(const char *call, const char *argument, double value,
                     double low, double high);
/* Checks the size of a result: 1 .. TN__IMAGE_MAX_SIDE. */
bool tn__check_sides(const char *call, int64_t height, int64_t width);
/* Returns the index of text in names, which end with NULL. If names does not
 * contain text, returns -1 with an error that lists the names. */
int tn__check_name(const char *call, const char *argument, const char *text,
                   const char *const *names);

static inline const char *tn__plane(const tn__pixels *image, int64_t i)
{
    return (const char *)image->data +
           (size_t)(i * image->h * image->w) * image->bytes;
}

static inline char *tn__plane_out(const tn__pixels *image, int64_t i)
{
    return (char *)image->data +
           (size_t)(i * image->h * image->w) * image->bytes;
}

#endif
