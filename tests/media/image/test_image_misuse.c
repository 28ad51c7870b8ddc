/* test_image_misuse.c: calls each function with mistakes that a user may make:
 * NULL, another dtype, another shape, a number out of range, a file in another
 * format. */
#include <tenon/autograd.h>
#include <tenon/image.h>
#include <tenon/ops.h>
#include <tenon/transform.h>

#include "golden.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- all transforms; all arguments but the image are valid -------------- */

static const double mean[] = {0.5, 0.5, 0.5}, deviation[] = {0.5, 0.5, 0.5};

#define CALLS(X)                                                              \
    X("image_resize", true, tn_image_resize(x, 4, 5))                         \
    X("image_resize_shorter", true, tn_image_resize_shorter(x, 4))            \
    X("image_crop", false, tn_image_crop(x, 0, 0, 2, 2))                      \
    X("image_center_crop", false, tn_image_center_crop(x, 2, 2))              \
    X("image_resized_crop", true,                                             \
      tn_image_resized_crop(x, tn_dims(0, 0, 2, 2), 3, 3))                    \
    X("image_pad", false, tn_image_pad(x, 1, 1, 1, 1))                        \
    X("image_flip", false, tn_image_flip(x))                                  \
    X("image_flip_vertical", false, tn_image_flip_vertical(x))                \
    X("image_rotate", true, tn_image_rotate(x, 10))                           \
    X("image_affine", true, tn_image_affine(x, .degrees = 10))                \
    X("image_adjust_brightness", true, tn_image_adjust_brightness(x, 0.5))    \
    X("image_adjust_contrast", true, tn_image_adjust_contrast(x, 0.5))        \
    X("image_adjust_saturation", true, tn_image_adjust_saturation(x, 0.5))    \
    X("image_adjust_hue", true, tn_image_adjust_hue(x, 0.25))                 \
    X("image_grayscale", true, tn_image_grayscale(x, 1))                      \
    X("image_to_float", true, tn_image_to_float(x))                           \
    X("image_normalize", true, tn_image_normalize(x, mean, deviation, 3))     \
    X("image_prepare", true, tn_image_prepare(x, .resize = 8, .crop = 4))     \
    X("image_random_flip", false, tn_image_random_flip(x))                    \
    X("image_random_flip_vertical", false, tn_image_random_flip_vertical(x))  \
    X("image_random_crop", false, tn_image_random_crop(x, 2, 2))              \
    X("image_random_resized_crop", true,                                      \
      tn_image_random_resized_crop(x, 2, 2))                                  \
    X("image_random_affine", true, tn_image_random_affine(x, .degrees = 5))   \
    X("image_color_jitter", true, tn_image_color_jitter(x, .contrast = 0.5))  \
    X("image_random_erasing", true, tn_image_random_erasing(x))

#define ENUM(call_name, typed, call) typed,

/* Runs row i on x. */
static tn_tensor *call(int i, tn_tensor *x)
{
    int k = 0;
#define CASE(call_name, typed, call)                                          \
    if (i == k++)                                                             \
        return call;
    CALLS(CASE)
    return NULL;
}
#define NAME(call_name, typed, call) call_name,
static const char *const names[] = {CALLS(NAME)};
static const bool is_typed[] = {CALLS(ENUM)};
enum { CALL_COUNT = sizeof names / sizeof *names };

static void check(int i, tn_tensor *x, tn_status code, const char *text,
                  const char *what)
{
    char describe[96], begin[64];
    snprintf(describe, sizeof describe, "%s of %s", names[i], what);
    snprintf(begin, sizeof begin, "%s: ", names[i]);
    const bool failed = !call(i, x);
    const char *message = tn_error();
    ok(message && strncmp(message, begin, strlen(begin)) == 0,
       "%s: the message names the call", describe);
    if (message && strncmp(message, begin, strlen(begin)) != 0)
        printf("# %s\n", message);
    is_refused(failed, code, text, describe);
}

static void test_images(void)
{
    for (int i = 0; i < CALL_COUNT; i++)
        TN_SCOPE(scope) {
            tn_tensor *good = tn_zeros(tn_dims(3, 6, 7), .dtype = TN_U8);
            ok(call(i, good) != NULL, "%s accepts an image", names[i]);
            if (tn_error())
                printf("# %s\n", tn_error());
            tn_error_clear();
            check(i, NULL, TN_ERR_ARGUMENT, "image is NULL", "NULL");
            check(i, tn_select(tn_select(good, 0, 0), 0, 0), TN_ERR_SHAPE,
                  "expected (C, H, W)", "one dimension");
            check(i, tn_zeros(tn_dims(3, 0, 7), .dtype = TN_U8), TN_ERR_SHAPE,
                  "at least 1", "no rows");
            check(i, tn_zeros(tn_dims(1, 1, 3, 6, 7)), TN_ERR_SHAPE,
                  "5 dimensions", "five dimensions");
            if (is_typed[i])
                check(i, tn_to_dtype(good, TN_F64), TN_ERR_DTYPE, "float64",
                      "float64");
            tn_tensor *leaf =
                tn_requires_grad(tn_zeros(tn_dims(3, 6, 7)));
            check(i, leaf, TN_ERR_UNSUPPORTED, "tn_detach", "a parameter");
            TN_NO_GRAD
                ok(call(i, leaf) != NULL, "%s accepts it without gradients",
                   names[i]);
            for (int k = 0; k < 3; k++) {
                const double values[] = {(double)NAN, (double)INFINITY, -1e30};
                ok(call(i, tn_full(tn_dims(3, 6, 7), values[k])) != NULL,
                   "%s accepts %g", names[i], values[k]);
            }
            /* An earlier error stays. */
            tn_error_set(TN_ERR_IO, "the first error");
            ok(!call(i, NULL) && !strcmp(tn_error(), "the first error"),
               "%s of NULL keeps the first error", names[i]);
            tn_error_clear();
        }
}

/* ---- numbers out of range ----------------------------------------------- */

static void test_numbers(void)
{
    tn_tensor *x = tn_zeros(tn_dims(3, 6, 7), .dtype = TN_U8);
    tn_tensor *f = tn_zeros(tn_dims(3, 6, 7));
    tn_tensor *four = tn_zeros(tn_dims(4, 6, 7));
    const double none[] = {0, 0, 0};
#define BAD(code, text, what) is_refused(!(what), code, text, #what)
#define RANGE(text, what) BAD(TN_ERR_ARGUMENT, text, what)
    RANGE("height is 0", tn_image_resize(x, 0, 5));
    RANGE("width is -1", tn_image_resize(x, 5, -1));
    RANGE("width is 9223372036854775807", tn_image_resize(x, 5, INT64_MAX));
    RANGE("mode is \"cubic\"; expected one of \"nearest\"",
          tn_image_resize(x, 5, 5, .mode = "cubic"));
    RANGE("mode", tn_image_resize(x, 5, 5, .mode = NULL));
    RANGE("side is 0", tn_image_resize_shorter(x, 0));
    RANGE("max_size is 4", tn_image_resize_shorter(x, 4, .max_size = 4));
    RANGE("height is", tn_image_crop(x, 0, 0, 0, 1));
    RANGE("top is", tn_image_crop(x, INT64_MIN, 0, 1, 1));
    RANGE("left is", tn_image_crop(x, 0, INT64_MAX, 1, 1));
    RANGE("width is", tn_image_center_crop(x, 1, 0));
    RANGE("is not within", tn_image_resized_crop(x, tn_dims(0, 0, 7, 7), 2, 2));
    RANGE("is not within", tn_image_resized_crop(x, tn_dims(-1, 0, 2, 2), 2, 2));
    RANGE("is not within",
          tn_image_resized_crop(x, tn_dims(INT64_MAX, 0, 2, 2), 2, 2));
    RANGE("top, left, height, width",
          tn_image_resized_crop(x, tn_dims(0, 0), 2, 2));
    RANGE("left is -1", tn_image_pad(x, -1, 0, 0, 0));
    RANGE("bottom is", tn_image_pad(x, 0, 0, 0, INT64_MAX));
    RANGE("top is 6; expected 0 to 5",
          tn_image_pad(x, 0, 6, 0, 0, .mode = "reflect"));
    RANGE("right is 8; expected 0 to 7",
          tn_image_pad(x, 0, 0, 8, 0, .mode = "symmetric"));
    RANGE("fill is 300", tn_image_pad(x, 1, 0, 0, 0, .fill = 300));
    RANGE("fill is 0.5", tn_image_pad(x, 1, 0, 0, 0, .fill = 0.5));
    RANGE(".fill has no effect",
          tn_image_pad(x, 1, 0, 0, 0, .fill = 3, .mode = "edge"));
    RANGE("degrees is nan", tn_image_rotate(x, NAN));
    RANGE("fill is -1", tn_image_rotate(x, 3, .fill = -1));
    RANGE("mode", tn_image_rotate(x, 3, .mode = "bicubic"));
    RANGE("center_x is inf", tn_image_rotate(x, 3, .center_x = INFINITY));
    RANGE("scale is 0", tn_image_affine(x, .scale = 0));
    RANGE("shear_x is 90", tn_image_affine(x, .shear_x = 90));
    RANGE("translate_y is", tn_image_affine(x, .translate_y = 1e300));
    RANGE("factor is -0.1", tn_image_adjust_brightness(x, -0.1));
    RANGE("factor is nan", tn_image_adjust_contrast(x, NAN));
    RANGE("factor is -1", tn_image_adjust_saturation(x, -1));
    RANGE("shift is 0.6", tn_image_adjust_hue(x, 0.6));
    RANGE("channels is 2", tn_image_grayscale(x, 2));
    BAD(TN_ERR_SHAPE, "4 channels", tn_image_adjust_hue(four, 0.1));
    BAD(TN_ERR_SHAPE, "4 channels, but there are 3",
        tn_image_normalize(four, mean, deviation, 3));
    RANGE("deviation[0] is 0", tn_image_normalize(f, mean, none, 3));
    RANGE("mean is NULL", tn_image_normalize(f, NULL, deviation, 3));
    RANGE("deviation is NULL", tn_image_normalize(f, mean, NULL, 3));
    BAD(TN_ERR_SHAPE, "4 channels", tn_image_prepare(four));
    RANGE("crop is 0", tn_image_prepare(x, .crop = 0));
    RANGE("resize is -4", tn_image_prepare(x, .resize = -4));
    RANGE("mode", tn_image_prepare(x, .mode = "area"));
    BAD(TN_ERR_SHAPE, "give a larger .padding", tn_image_random_crop(x, 8, 7));
    RANGE("padding is -1", tn_image_random_crop(x, 2, 2, .padding = -1));
    RANGE("image_random_crop: mode",
          tn_image_random_crop(x, 2, 2, .mode = "wrap"));
    RANGE("scale_min is 0", tn_image_random_resized_crop(x, 2, 2, .scale_min = 0));
    RANGE("scale_max is 0.01",
          tn_image_random_resized_crop(x, 2, 2, .scale_max = 0.01));
    RANGE("ratio_max is 0.1",
          tn_image_random_resized_crop(x, 2, 2, .ratio_max = 0.1));
    RANGE("image_random_resized_crop: height",
          tn_image_random_resized_crop(x, 0, 2));
    RANGE("degrees is -1", tn_image_random_affine(x, .degrees = -1));
    RANGE("translate_x is 2", tn_image_random_affine(x, .translate_x = 2));
    RANGE("scale_max is 0.5", tn_image_random_affine(x, .scale_max = 0.5));
    RANGE("image_random_affine: fill", tn_image_random_affine(x, .fill = 256));
    RANGE("brightness is -1", tn_image_color_jitter(x, .brightness = -1));
    RANGE("hue is 0.7", tn_image_color_jitter(x, .hue = 0.7));
    BAD(TN_ERR_SHAPE, "image_color_jitter: ",
        tn_image_color_jitter(four, .hue = 0.2));
    RANGE("p is 2", tn_image_random_erasing(x, .p = 2));
    RANGE("value is 256", tn_image_random_erasing(x, .value = 256));

    tn_tensor *batch = tn_zeros(tn_dims(2, 3, 6, 7));
    RANGE("batch is NULL", tn_image_grid(NULL));
    BAD(TN_ERR_SHAPE, "3 dimensions", tn_image_grid(f));
    BAD(TN_ERR_SHAPE, "at least one", tn_image_grid(tn_zeros(tn_dims(0, 3, 6, 7))));
    BAD(TN_ERR_DTYPE, "int64",
        tn_image_grid(tn_zeros(tn_dims(2, 3, 6, 7), .dtype = TN_I64)));
    RANGE("columns is 0", tn_image_grid(batch, .columns = 0));
    RANGE("padding is -1", tn_image_grid(batch, .padding = -1));
    RANGE(".low has no effect", tn_image_grid(batch, .low = 1));
    BAD(TN_ERR_DTYPE, "tn_image_to_float",
        tn_image_grid(tn_to_dtype(batch, TN_U8), .normalize = true));
    RANGE("pad_value is 300",
          tn_image_grid(tn_to_dtype(batch, TN_U8), .pad_value = 300));
}

/* ---- files -------------------------------------------------------------- */

static void test_files(void)
{
    tn_image_info info = {.size = sizeof info};
    mkfifo("misuse.fifo", 0666);
    FILE *f = fopen("misuse-empty.png", "wb");
    fclose(f);
    f = fopen("misuse-text.jpg", "wb");
    fputs("hello\n", f);
    fclose(f);
    static const struct {
        const char *path, *text;
        tn_status code;
    } bad[] = {
        {NULL, "path is NULL", TN_ERR_ARGUMENT},
        {"misuse-none.png", "misuse-none.png", TN_ERR_IO},
        {"misuse.fifo", "misuse.fifo", TN_ERR_IO},
        {".", ".", TN_ERR_IO},
        {"misuse-empty.png", "misuse-empty.png: it is empty", TN_ERR_FORMAT},
        {"misuse-text.jpg", "neither PNG nor JPEG: it begins with 68 65",
         TN_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = bad[i].path ? bad[i].path : "NULL";
        is_refused(!tn_image_load(bad[i].path), bad[i].code, bad[i].text, path);
        is_refused(tn_image_info_load(bad[i].path, &info) < 0, bad[i].code,
                   bad[i].text, path);
    }
    unlink("misuse.fifo");
    unlink("misuse-empty.png");
    unlink("misuse-text.jpg");
    ok(info.width == 0 && !info.format, "a failure stores nothing");
    const char *good = golden_path("files/png-rgb-8.png");
    RANGE(".channels is 5", tn_image_load(good, .channels = 5));
    RANGE(".channels is -1", tn_image_decode("x", 1, .channels = -1));
    RANGE(".dtype is float64", tn_image_load(good, .dtype = TN_F64));
    RANGE(".min_side is -1", tn_image_load(good, .min_side = -1));
    RANGE("data is NULL", tn_image_decode(NULL, 5));
    BAD(TN_ERR_FORMAT, "it is empty", tn_image_decode("", 0));
    BAD(TN_ERR_FORMAT, "truncated", tn_image_decode("\x89PN", 3));
    is_refused(tn_image_info_load(good, NULL) < 0, TN_ERR_ARGUMENT,
               "out_info is NULL", "no place for the info");
    is_refused(tn_image_info_decode(NULL, 3, &info) < 0, TN_ERR_ARGUMENT,
               "data is NULL", "no data");
    info.size = 0;
    is_refused(tn_image_info_load(good, &info) < 0, TN_ERR_ARGUMENT,
               "sizeof(tn_image_info)", "an info without its size");
    struct {
        tn_image_info info;
        char after[8];
    } older = {.info = {.size = offsetof(tn_image_info, channels)}};
    older.info.channels = 77;
    is_int(tn_image_info_load(good, &older.info), TN_OK, "an older struct");
    ok(older.info.width == 11 && older.info.channels == 77,
       "is filled as far as it goes");
    tn_unpack_limit_set(100);
    BAD(TN_ERR_FORMAT, "more than the limit of 100: raise tn_unpack_limit_set",
        tn_image_load(good));
    /* 13 rows of 11 pixels: one byte in the file, four float32 in the tensor;
     * and two rows of libpng with at most 8 bytes per pixel */
    const char *grey = golden_path("files/png-grey-8.png");
    tn_unpack_limit_set(13 * 11 * 17 + 2 * 11 * 8);
    ok(tn_image_load(grey, .channels = 4, .dtype = TN_F32) != NULL,
       "the limit counts the pixels, the tensor and rows of libpng");
    tn_unpack_limit_set(13 * 11 * 17 + 2 * 11 * 8 - 1);
    BAD(TN_ERR_FORMAT, "would take 2607 bytes",
        tn_image_load(grey, .channels = 4, .dtype = TN_F32));
    tn_unpack_limit_set(1 << 30);
}

static void test_saving(void)
{
    tn_tensor *x = tn_zeros(tn_dims(3, 6, 7), .dtype = TN_U8);
    void *data = NULL;
    size_t bytes = 7;
#define SAVE(code, text, what) is_refused((what) < 0, code, text, #what)
    SAVE(TN_ERR_ARGUMENT, "path is NULL", tn_image_save(NULL, x));
    SAVE(TN_ERR_ARGUMENT, "image is NULL", tn_image_save("m.png", NULL));
    SAVE(TN_ERR_ARGUMENT, "must end in .png", tn_image_save("m.gif", x));
    SAVE(TN_ERR_ARGUMENT, "must end in .png", tn_image_save("png", x));
    SAVE(TN_ERR_IO, "none/m.png", tn_image_save("none/m.png", x));
    SAVE(TN_ERR_ARGUMENT, ".quality is 0",
         tn_image_save("m.jpg", x, .quality = 0));
    SAVE(TN_ERR_ARGUMENT, ".compression is 10",
         tn_image_save("m.png", x, .compression = 10));
    SAVE(TN_ERR_ARGUMENT, ".quality has no effect for PNG",
         tn_image_save("m.png", x, .quality = 50));
    SAVE(TN_ERR_ARGUMENT, ".compression has no effect for JPEG",
         tn_image_save("m.jpg", x, .compression = 1));
    SAVE(TN_ERR_SHAPE, "5 channels",
         tn_image_save("m.png", tn_zeros(tn_dims(5, 6, 7))));
    SAVE(TN_ERR_SHAPE, "tn_image_grid",
         tn_image_save("m.png", tn_zeros(tn_dims(1, 3, 6, 7))));
    SAVE(TN_ERR_SHAPE, "7 channels",
         tn_image_save("m.png", x, .hwc = true));
    SAVE(TN_ERR_SHAPE, "at least one pixel",
         tn_image_save("m.png", tn_zeros(tn_dims(3, 0, 7))));
    SAVE(TN_ERR_SHAPE, "4 channels; JPEG has 1 or 3",
         tn_image_save("m.jpg", tn_zeros(tn_dims(4, 6, 7))));
    SAVE(TN_ERR_DTYPE, "float64",
         tn_image_save("m.png", tn_zeros(tn_dims(3, 6, 7), .dtype = TN_F64)));
    SAVE(TN_ERR_DTYPE, "16 bits",
         tn_image_save("m.jpg", tn_zeros(tn_dims(3, 6, 7), .dtype = TN_I32)));
    SAVE(TN_ERR_ARGUMENT, "outside 0 to 65535",
         tn_image_save("m.png", tn_sub_scalar(tn_zeros(tn_dims(3, 6, 7),
                                                       .dtype = TN_I32), 1)));
    SAVE(TN_ERR_ARGUMENT, "has a NaN",
         tn_image_save("m.png", tn_full(tn_dims(3, 6, 7), (double)NAN)));
    ok(access("m.png", F_OK) && access("m.jpg", F_OK),
       "nothing was written");
    SAVE(TN_ERR_ARGUMENT, "format is NULL",
         tn_image_encode(x, NULL, &data, &bytes));
    SAVE(TN_ERR_ARGUMENT, "expected \"png\" or \"jpeg\"",
         tn_image_encode(x, "jpg", &data, &bytes));
    SAVE(TN_ERR_ARGUMENT, "out_data is NULL",
         tn_image_encode(x, "png", NULL, &bytes));
    SAVE(TN_ERR_ARGUMENT, "out_bytes is NULL",
         tn_image_encode(x, "png", &data, NULL));
    SAVE(TN_ERR_ARGUMENT, "image is NULL",
         tn_image_encode(NULL, "png", &data, &bytes));
    ok(!data && bytes == 7, "a failure stores nothing");
    int64_t big[] = {1, 1, 70000};
    SAVE(TN_ERR_SHAPE, "JPEG has at most",
         tn_image_save("m.jpg", tn_zeros(tn_dims_from_array(big, 3))));
}

/* ---- another device ----------------------------------------------------- */

/* Transforms need memory that the CPU can use. Writing and grids do not. */
static void test_device(tn_device *device)
{
    tn_tensor *host = tn_full(tn_dims(3, 6, 7), 5, .dtype = TN_U8);
    tn_tensor *x = tn_to(host, device);
    const bool shared = tn_tensor_data(x) != NULL;
    tn_error_clear();
    for (int i = 0; i < CALL_COUNT; i++) {
        if (shared)
            ok(call(i, x) != NULL, "%s accepts memory of %s", names[i],
               tn_device_name(device));
        else
            is_refused(!call(i, x), TN_ERR_DEVICE, "tn_to", names[i]);
    }
    ok(same_tensor(tn_image_grid(tn_unsqueeze(x, 0), .padding = 0), host),
       "a grid is made of a batch on %s", tn_device_name(device));
    if (tn_error())
        printf("# %s\n", tn_error());
    tn_error_clear();
    void *data = NULL;
    size_t bytes;
    if (!has_libraries())
        return;
    ok(tn_image_encode(x, "png", &data, &bytes) == TN_OK &&
           same_tensor(tn_image_decode(data, bytes), host),
       "an image on %s is written", tn_device_name(device));
    free(data);
}

int main(void)
{
    plan_later();
    tn_device *device = tn_device_current();
    tn_device_set(tn_device_open("cpu"));
    test_device(device);
    test_images();
    test_numbers();
    if (has_libraries()) {
        test_files();
        test_saving();
    }
    ok(tn_image_folder_count(NULL) == 0 &&
           tn_image_folder_class_count(NULL) == 0 &&
           !tn_image_folder_class_name(NULL, 0) &&
           !tn_image_folder_path(NULL, 0) &&
           tn_image_folder_label(NULL, 0) == -1 && !tn_error(),
       "attributes of NULL record no error");
    return done_testing();
}
