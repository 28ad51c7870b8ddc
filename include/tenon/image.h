/* <tenon/image.h>: image files as tensors, and data sets of images.
 *
 * PNG and JPEG files are read and written. The format of a file is recognised
 * by its contents, not by its name.
 *
 *     tn_tensor *cat = tn_image_load("cat.jpg", .channels = 3);
 *     tn_tensor *x = tn_image_prepare(cat);        // transform.h
 *     tn_image_save("cat.png", cat);
 *
 * An image is a tensor (C, H, W): C is 1 (grey), 2 (grey, alpha), 3 (red,
 * green, blue) or 4 (red, green, blue, alpha). It is uint8 with values 0 ..
 * 255, or float32 with values 0 .. 1. A batch is (N, C, H, W).
 *
 * Images that are loaded are on the device "cpu", whatever the current device
 * is, because the transforms run there. A loader copies batches to another
 * device (.device); a single image needs tn_to.
 *
 * libpng and libjpeg are optional. If Tenon was built without the one that is
 * needed, calls fail with TN_ERR_UNSUPPORTED and name its Debian package.
 *
 * While an error is pending (error.h), functions that return a status do
 * nothing and return TN_ERR_STATE. Others work as usual, and the first error
 * stays.
 *
 * Threads: Any thread may call these functions. A tn_image_folder does not
 * change, so threads may share it. Link with `pkg-config --libs tenon-media`.
 */
#ifndef TENON_IMAGE_H
#define TENON_IMAGE_H

#include <tenon/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading --------------------------------------------------------------
 * These formats are read: PNG (1 to 16 bits, grey, palette, colour, alpha or a
 * transparent colour, interlaced) and JPEG (baseline and progressive, grey and
 * colour). Gamma and colour profiles are ignored, as in torchvision. CMYK JPEG
 * files and other formats (GIF, WebP, BMP, TIFF ...) are rejected
 * (TN_ERR_FORMAT), and the message names the format. Truncated or damaged files
 * are rejected too: there is no partial result. */

/* Options of tn_image_load and tn_image_decode:
 *
 *   channels    1, 2, 3 or 4; 0: as in the file. A palette counts as 3, or 4
 *               with transparency. Colour becomes grey by 0.299 R + 0.587 G +
 *               0.114 B; the grey of a JPEG file is its stored luma, as with
 *               torchvision's ImageReadMode.GRAY. Alpha that the file lacks is
 *               opaque; alpha that is not wanted is dropped, without blending
 *   hwc         returns (H, W, C) instead of (C, H, W)
 *   dtype       TN_U8: 0 .. 255; samples of 16 bits lose their low byte.
 *               TN_I32: the file's values; 0 .. 65535 if it has 16 bits, else
 *               0 .. 255. TN_F32: 0 .. 1
 *   exif        rotates and mirrors the image by its EXIF orientation
 *   min_side    0, or the shorter side in pixels that is needed. A JPEG file is
 *               then decoded at 1/2, 1/4 or 1/8 of its size, which is faster,
 *               if the shorter side stays at least this long. No effect on PNG */
#define TN_IMAGE_LOAD_OPTIONS_LIST(X)                                         \
    X(int, channels, 0)                                                       \
    X(bool, hwc, false)                                                       \
    X(tn_dtype, dtype, TN_U8)                                                 \
    X(bool, exif, true)                                                       \
    X(int64_t, min_side, 0)
TN_OPTIONS_STRUCT(tn_image_load, TN_IMAGE_LOAD_OPTIONS_LIST);
#define TN_IMAGE_LOAD_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_image_load, TN_IMAGE_LOAD_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_image_decode, TN_IMAGE_LOAD_OPTIONS_LIST);
#define TN_IMAGE_DECODE_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_image_decode, TN_IMAGE_LOAD_OPTIONS_LIST)

/* Loads an image file, or decodes one in memory. The tensor is contiguous and
 * on the device "cpu"; the open scope owns it. Returns NULL with TN_ERR_IO if
 * the file cannot be read, TN_ERR_FORMAT if it is not a valid image, or if its
 * pixels would take more than tn_unpack_limit bytes, TN_ERR_UNSUPPORTED without
 * the library for its format, or TN_ERR_MEMORY. */
TN_API tn_tensor *tn_image_load_with(const char *path,
                                     const tn_image_load_options *options);
TN_API tn_tensor *tn_image_decode_with(const void *data, size_t bytes,
                                       const tn_image_decode_options *options);

/* The properties of an image from the header of its file. Set size =
 * sizeof(tn_image_info) first. */
typedef struct tn_image_info {
    size_t size;          /* sizeof(tn_image_info) */
    const char *format;   /* "png" or "jpeg": a string constant */
    int64_t width, height;/* as stored, before the orientation is applied */
    int32_t channels;     /* what tn_image_load returns for .channels = 0 */
    int32_t bits;         /* per sample, or per index of a palette: 1 .. 16 */
    int32_t orientation;  /* EXIF orientation 1 .. 8; 1 if there is none */
    int32_t has_palette;  /* 1 for a PNG file with a palette, else 0 */
} tn_image_info;

/* Reads the header of an image without decoding its pixels, and fills the first
 * out_info->size bytes of *out_info. Fails like tn_image_load, and with
 * TN_ERR_ARGUMENT if out_info->size is invalid. */
TN_API tn_status tn_image_info_load(const char *path, tn_image_info *out_info);
TN_API tn_status tn_image_info_decode(const void *data, size_t bytes,
                                      tn_image_info *out_info);

/* ---- writing ------------------------------------------------------------ */

/* Options of tn_image_save and tn_image_encode:
 *
 *   quality      of JPEG, 1 .. 100
 *   compression  of PNG, 0 (none) .. 9 (smallest)
 *   hwc          the image is (H, W, C) */
#define TN_IMAGE_SAVE_OPTIONS_LIST(X)                                         \
    X(int, quality, 90)                                                       \
    X(int, compression, 6)                                                    \
    X(bool, hwc, false)
TN_OPTIONS_STRUCT(tn_image_save, TN_IMAGE_SAVE_OPTIONS_LIST);
#define TN_IMAGE_SAVE_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_image_save, TN_IMAGE_SAVE_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_image_encode, TN_IMAGE_SAVE_OPTIONS_LIST);
#define TN_IMAGE_ENCODE_OPTIONS                                               \
    TN_OPTIONS_DEFAULTS(tn_image_encode, TN_IMAGE_SAVE_OPTIONS_LIST)

/* Writes an image (C, H, W) or (H, W) on any device to a file whose name ends
 * in .png, .jpg or .jpeg. A file that exists is replaced atomically (io.h).
 * uint8 is written as it is. float32 is multiplied by 255, rounded, and
 * clamped to 0 .. 255; NaN is rejected. int32 is written to PNG with 16 bits;
 * values outside of 0 .. 65535 are rejected (TN_ERR_ARGUMENT). JPEG takes 1 or
 * 3 channels. Fails with TN_ERR_ARGUMENT for another extension, TN_ERR_SHAPE or
 * TN_ERR_DTYPE if the tensor is not an image, TN_ERR_IO if the file cannot be
 * written, TN_ERR_UNSUPPORTED without the library, or TN_ERR_MEMORY. */
TN_API tn_status tn_image_save_with(const char *path, const tn_tensor *image,
                                    const tn_image_save_options *options);
/* Like tn_image_save, but to memory from malloc, which you free. format is
 * "png" or "jpeg". Stores the memory in *out_data and its size in *out_bytes;
 * after a failure both are unchanged. */
TN_API tn_status tn_image_encode_with(const tn_tensor *image,
                                      const char *format, void **out_data,
                                      size_t *out_bytes,
                                      const tn_image_encode_options *options);

/* Options of tn_image_grid:
 *
 *   columns    images in a row, 1 or more
 *   padding    pixels between images and around them, 0 or more
 *   pad_value  value of these pixels
 *   normalize  maps low .. high of float images to 0 .. 1 and clamps
 *   low, high  by default the minimum and maximum of the batch
 *   each       takes the minimum and maximum of each image instead */
#define TN_IMAGE_GRID_OPTIONS_LIST(X)                                         \
    X(int64_t, columns, 8)                                                    \
    X(int64_t, padding, 2)                                                    \
    X(double, pad_value, 0)                                                   \
    X(bool, normalize, false)                                                 \
    X(double, low, TN_NONE_FLOAT)                                             \
    X(double, high, TN_NONE_FLOAT)                                            \
    X(bool, each, false)
TN_OPTIONS_STRUCT(tn_image_grid, TN_IMAGE_GRID_OPTIONS_LIST);
#define TN_IMAGE_GRID_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_image_grid, TN_IMAGE_GRID_OPTIONS_LIST)

/* Arranges a batch of images (N, C, H, W), uint8 or float32, on any device, as
 * one image on the device "cpu". Images with one channel become grey images of
 * three. The open scope owns the result. Returns NULL with TN_ERR_SHAPE,
 * TN_ERR_DTYPE or TN_ERR_ARGUMENT. Source: torchvision.utils.make_grid (which
 * omits the padding around a single image).
 *
 *     tn_image_save("mistakes.png", tn_image_grid(batch, .columns = 10)); */
TN_API tn_tensor *tn_image_grid_with(const tn_tensor *batch,
                                     const tn_image_grid_options *options);

/* ---- data sets -------------------------------------------------------------
 * A transform makes a sample's image from the image in the file, (C, H, W),
 * uint8, on the device "cpu". It returns a tensor that the open scope owns, or
 * NULL with the error set. A loader's workers call it from several threads at
 * once. Random transforms use the thread's generator, which a loader sets from
 * its seed, the epoch and the batch; so the images do not depend on the number
 * of workers.
 *
 *     static tn_tensor *augment(tn_tensor *image, void *context)
 *     {
 *         image = tn_image_random_resized_crop(image, 224, 224);
 *         image = tn_image_random_flip(image);
 *         return tn_image_normalize(image, mean, deviation, 3);
 *     }
 *     tn_image_folder *folder = tn_image_folder_open("flowers/train");
 *     tn_dataset *set = tn_dataset_from_image_folder(folder,
 *                                                    .transform = augment);
 */
typedef tn_tensor *(*tn_image_transform)(tn_tensor *image, void *context);

/* A list of images from a folder that has a folder for each class, as in
 * "train/cat/7.jpg". Source: torchvision.datasets.ImageFolder. */
typedef struct tn_image_folder tn_image_folder;

/* Lists a folder. The names of its folders, sorted by strcmp, are the classes
 * 0, 1, ... The images of a class are the files in its folder and all folders
 * below, sorted by path, whose names end in .png, .jpg or .jpeg, in any case.
 * Names that begin with a dot are ignored. Symbolic links are followed. Files
 * are not opened. The open scope owns the result. Returns NULL with TN_ERR_IO
 * if a folder cannot be read, TN_ERR_FORMAT if there is no class, or a class
 * without an image, or folders are nested deeper than 32, or TN_ERR_MEMORY. */
TN_API tn_image_folder *tn_image_folder_open(const char *path);
/* Return the number of images and of classes. 0 for NULL. Cannot fail. */
TN_API int64_t tn_image_folder_count(const tn_image_folder *folder);
TN_API int64_t tn_image_folder_class_count(const tn_image_folder *folder);
/* Return the name of class i, and the path and the class of image i; NULL, or
 * -1, if i is out of range. The strings are valid while folder lives. Cannot
 * fail. */
TN_API const char *tn_image_folder_class_name(const tn_image_folder *folder,
                                              int64_t i);
TN_API const char *tn_image_folder_path(const tn_image_folder *folder,
                                        int64_t i);
TN_API int64_t tn_image_folder_label(const tn_image_folder *folder, int64_t i);

/* Options of data sets of images:
 *
 *   transform  makes the image of a sample; NULL: the image as it was read
 *   context    its second argument
 *
 * of tn_dataset_from_image_folder:
 *
 *   channels   of images, as in tn_image_load
 *   min_side   as in tn_image_load */
#define TN_DATASET_FROM_IMAGE_FOLDER_OPTIONS_LIST(X)                          \
    X(tn_image_transform, transform, NULL)                                    \
    X(void *, context, NULL)                                                  \
    X(int, channels, 3)                                                       \
    X(int64_t, min_side, 0)
TN_OPTIONS_STRUCT(tn_dataset_from_image_folder,
                  TN_DATASET_FROM_IMAGE_FOLDER_OPTIONS_LIST);
#define TN_DATASET_FROM_IMAGE_FOLDER_OPTIONS                                  \
    TN_OPTIONS_DEFAULTS(tn_dataset_from_image_folder,                         \
                        TN_DATASET_FROM_IMAGE_FOLDER_OPTIONS_LIST)

/* A data set whose sample i is x = image i, y = its class (int64), decoded when
 * a batch is made. Without a transform, images must have equal sizes. Holds a
 * reference to folder. The open scope owns the result. The error of an image
 * that cannot be decoded names its file. */
TN_API tn_dataset *tn_dataset_from_image_folder_with(
    tn_image_folder *folder,
    const tn_dataset_from_image_folder_options *options);

/* The digits of MNIST, or a set with the same files (FashionMNIST, KMNIST),
 * from the files train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k-...
 * if train is false) in folder, which may have the ending .gz. Sample i is x
 * (1, 28, 28), uint8, and y, int64. All images are kept in memory. The open
 * scope owns the result. Returns NULL with TN_ERR_IO if a file cannot be read,
 * or TN_ERR_FORMAT if it is not such a file. */
#define TN_DATASET_MNIST_OPTIONS_LIST(X)                                      \
    X(tn_image_transform, transform, NULL)                                    \
    X(void *, context, NULL)
TN_OPTIONS_STRUCT(tn_dataset_mnist, TN_DATASET_MNIST_OPTIONS_LIST);
#define TN_DATASET_MNIST_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_dataset_mnist, TN_DATASET_MNIST_OPTIONS_LIST)
TN_API tn_dataset *tn_dataset_mnist_with(const char *folder, bool train,
                                         const tn_dataset_mnist_options *options);

/* The images of CIFAR-10 from the binary files data_batch_1.bin ..
 * data_batch_5.bin, or test_batch.bin if train is false, or of CIFAR-100 from
 * train.bin, or test.bin. They may have the ending .gz. x is (3, 32, 32),
 * uint8; y is the class, int64: for CIFAR-100 one of the 100 fine classes, or
 * with .coarse one of the 20 coarse ones. Otherwise like tn_dataset_mnist. */
TN_OPTIONS_STRUCT(tn_dataset_cifar10, TN_DATASET_MNIST_OPTIONS_LIST);
#define TN_DATASET_CIFAR10_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_dataset_cifar10, TN_DATASET_MNIST_OPTIONS_LIST)
TN_API tn_dataset *
tn_dataset_cifar10_with(const char *folder, bool train,
                        const tn_dataset_cifar10_options *options);

#define TN_DATASET_CIFAR100_OPTIONS_LIST(X)                                   \
    X(tn_image_transform, transform, NULL)                                    \
    X(void *, context, NULL)                                                  \
    X(bool, coarse, false)
TN_OPTIONS_STRUCT(tn_dataset_cifar100, TN_DATASET_CIFAR100_OPTIONS_LIST);
#define TN_DATASET_CIFAR100_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_dataset_cifar100, TN_DATASET_CIFAR100_OPTIONS_LIST)
TN_API tn_dataset *
tn_dataset_cifar100_with(const char *folder, bool train,
                         const tn_dataset_cifar100_options *options);

#ifndef __cplusplus
#define tn_image_load(...) TN_CALL_1(tn_image_load, __VA_ARGS__, )
#define tn_image_decode(...) TN_CALL_2(tn_image_decode, __VA_ARGS__, )
#define tn_image_save(...) TN_CALL_2(tn_image_save, __VA_ARGS__, )
#define tn_image_encode(...) TN_CALL_4(tn_image_encode, __VA_ARGS__, )
#define tn_image_grid(...) TN_CALL_1(tn_image_grid, __VA_ARGS__, )
#define tn_dataset_from_image_folder(...)                                     \
    TN_CALL_1(tn_dataset_from_image_folder, __VA_ARGS__, )
#define tn_dataset_mnist(...) TN_CALL_2(tn_dataset_mnist, __VA_ARGS__, )
#define tn_dataset_cifar10(...) TN_CALL_2(tn_dataset_cifar10, __VA_ARGS__, )
#define tn_dataset_cifar100(...) TN_CALL_2(tn_dataset_cifar100, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_tensor *, tn_image_load, const char *)
TN_OVERLOAD_2(tn_tensor *, tn_image_decode, const void *, size_t)
TN_OVERLOAD_2(tn_status, tn_image_save, const char *, const tn_tensor *)
TN_OVERLOAD_4(tn_status, tn_image_encode, const tn_tensor *, const char *,
              void **, size_t *)
TN_OVERLOAD_1(tn_tensor *, tn_image_grid, const tn_tensor *)
TN_OVERLOAD_1(tn_dataset *, tn_dataset_from_image_folder, tn_image_folder *)
TN_OVERLOAD_2(tn_dataset *, tn_dataset_mnist, const char *, bool)
TN_OVERLOAD_2(tn_dataset *, tn_dataset_cifar10, const char *, bool)
TN_OVERLOAD_2(tn_dataset *, tn_dataset_cifar100, const char *, bool)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
