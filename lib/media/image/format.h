/* format.h: image files in memory: the table of formats, and the result of a
 * decoder. Decoders do not depend on paths or tensors. */
#ifndef TN_MEDIA_IMAGE_FORMAT_H
#define TN_MEDIA_IMAGE_FORMAT_H

#include <tenon/image.h>

/* The message of an error, without the call and the path. */
typedef struct tn__why {
    char text[200];
} tn__why;
/* Writes the message and returns code. */
tn_status tn__because(tn__why *why, tn_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The options of a decoder. */
typedef struct tn__request {
    bool grey;        /* colour is not needed */
    bool keep16;      /* samples of 16 bits are wanted */
    int64_t min_side; /* see tn_image_load */
    /* About the tensor that will be made, to check the memory limit: its number
     * of channels (0: as in the file), and the bytes of an element. */
    int channels;
    size_t dtype_bytes;
} tn__request;

/* Decoded pixels: height rows of width pixels of `channels` samples. */
typedef struct tn__raster {
    int64_t width, height;
    int channels, bits; /* bits of a sample: 8, or 16 in the host's order */
    int orientation;    /* 1 .. 8 */
    void *data;         /* from malloc; freed by the caller */
} tn__raster;

/* Memory that grows while a file is encoded. */
typedef struct tn__growing {
    unsigned char *data;
    size_t count, room;
} tn__growing;
/* Appends bytes. Returns false if memory runs out. */
bool tn__growing_add(tn__growing *out, const void *data, size_t count);

typedef struct tn__image_format {
    const char *name;       /* as in tn_image_info: "png" */
    const char *title;      /* in messages: "PNG" */
    const char *package;    /* Debian's package of its library */
    const char *extensions[3];
    unsigned char magic[8];
    size_t magic_bytes;
    /* NULL without the library. After a failure raster->data is NULL. */
    tn_status (*info)(const void *data, size_t bytes, tn_image_info *out,
                      tn__why *why);
    tn_status (*decode)(const void *data, size_t bytes,
                        const tn__request *request, tn__raster *out,
                        tn__why *why);
    /* image has rows of width * channels samples; bits is 8, or 16. level is
     * the quality or the compression. The caller frees out->data. */
    tn_status (*encode)(const tn__raster *image, int level, tn__growing *out,
                        tn__why *why);
} tn__image_format;

extern const tn__image_format tn__image_png, tn__image_jpeg;

/* Returns the bytes of a pixel of the tensor, if the file has `channels`. */
size_t tn__tensor_pixel(const tn__request *request, int channels);
/* Returns an error if an image of these sizes needs more memory than
 * tn_unpack_limit. bytes_per_pixel counts all buffers of the image's size, and
 * bytes_per_column those of a few rows. */
tn_status tn__check_memory(int64_t width, int64_t height,
                           size_t bytes_per_pixel, size_t bytes_per_column,
                           tn__why *why);

/* Returns the orientation in a TIFF structure, 1 if there is none or it is
 * malformed. */
int tn__exif_orientation(const unsigned char *data, size_t bytes);

#endif
