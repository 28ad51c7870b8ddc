/* test_images.c: reads and writes image files, and tests which files are
 * rejected.
 * */
#include <tenon/image.h>
#include <tenon/ops.h>

#include "golden.h"

#include <dirent.h>
#include <unistd.h>

static tn_safetensors *pixels;

/* ---- reading ------------------------------------------------------------ */

static void test_pixels(void)
{
    for (int i = 0; i < tn_safetensors_count(pixels); i++) {
        const char *name = tn_safetensors_name(pixels, i);
        char file[128];
        snprintf(file, sizeof file, "files/%s", name);
        char *deep = strstr(file, ".16");
        TN_SCOPE(scope) {
            if (deep) {
                *deep = 0;
                is_golden(tn_image_load(golden_path(file), .hwc = true,
                                        .dtype = TN_I32),
                          pixels, name, 0);
            } else {
                is_golden(tn_image_load(golden_path(file), .hwc = true), pixels,
                          name, strstr(name, ".jpg") ? 1 : 0);
            }
        }
    }
}

static void test_layouts(void)
{
    TN_SCOPE(scope) {
        const char *path = golden_path("files/png-rgba-16.png");
        tn_tensor *hwc = tn_image_load(path, .hwc = true);
        tn_tensor *chw = tn_image_load(path);
        ok(same_tensor(chw, tn_contiguous(tn_permute(hwc, tn_dims(2, 0, 1)))),
           "(C, H, W) has the pixels of (H, W, C)");
        ok(chw && tn_tensor_is_contiguous(chw), "the tensor is contiguous");
        is_str(tn_device_name(tn_tensor_device(chw)), "cpu:0",
               "images are on the CPU");
        tn_tensor *deep = tn_image_load(path, .dtype = TN_I32);
        tn_tensor *real = tn_image_load(path, .dtype = TN_F32);
        ok(same_tensor(tn_to_dtype(tn_div(tn_to_dtype(deep, TN_I32),
                                          tn_full(TN_SCALAR, 256, .dtype = TN_I32,
                                                  .device = tn_tensor_device(deep)),
                                          .rounding_mode = "floor"),
                                   TN_U8),
                       chw),
           "uint8 is the high byte of 16 bits");
        const double most = tn_item(tn_max(tn_abs(tn_sub(
            real, tn_div(tn_to_dtype(deep, TN_F32),
                         tn_full(TN_SCALAR, 65535, .dtype = TN_F32,
                                 .device = tn_tensor_device(deep)))))));
        ok(most < 1e-6, "float32 is the value over 65535");
    }
    ok(!tn_error(), "without an error: %s", tn_error() ? tn_error() : "");
    tn_error_clear();
}

static void test_channels(void)
{
    static const char *const files[] = {
        "files/png-grey-8.png", "files/png-greyalpha-8.png",
        "files/png-rgb-8.png", "files/png-rgba-8.png"};
    for (int from = 1; from <= 4; from++)
        for (int to = 1; to <= 4; to++)
            TN_SCOPE(scope) {
                tn_tensor *own =
                    tn_image_load(golden_path(files[from - 1]), .hwc = true);
                tn_tensor *x = tn_image_load(golden_path(files[from - 1]),
                                             .channels = to, .hwc = true);
                unsigned char a[13 * 11 * 4], b[13 * 11 * 4];
                tn_tensor_to_array(own, a, (size_t)tn_tensor_numel(own));
                tn_tensor_to_array(x, b, (size_t)tn_tensor_numel(x));
                int wrong = tn_tensor_size(x, 2) != to;
                for (int i = 0; i < 13 * 11; i++) {
                    const unsigned char *p = a + i * from, *q = b + i * to;
                    const double grey =
                        from >= 3 ? 0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2]
                                  : p[0];
                    if (to <= 2)
                        wrong += fabs(q[0] - grey) > 0.51;
                    for (int c = 0; to >= 3 && c < 3; c++)
                        wrong += q[c] != p[from >= 3 ? c : 0];
                    if (to % 2 == 0)
                        wrong += q[to - 1] != (from % 2 ? 255 : p[from - 1]);
                }
                is_int(wrong, 0, "%d channels from %d", to, from);
            }
    TN_SCOPE(scope) {
        tn_tensor *grey = tn_image_load(golden_path("files/jpeg-444.jpg"),
                                        .channels = 1);
        is_int(tn_tensor_size(grey, 0), 1, "a colour JPEG is read as grey");
    }
}

static void test_info(void)
{
    tn_image_info info = {.size = sizeof info};
    is_int(tn_image_info_load(golden_path("files/png-palette-trns.png"), &info),
           TN_OK, "the header of a palette image is read");
    is_str(info.format, "png", "its format");
    is_int(info.channels, 4, "a palette with transparency has 4 channels");
    is_int(info.has_palette, 1, "it has a palette");
    is_int(info.width, 7, "its width");
    is_int(info.height, 5, "its height");
    is_int(tn_image_info_load(golden_path("files/png-grey-4.png"), &info),
           TN_OK, "the header of a grey image");
    is_int(info.bits, 4, "it has 4 bits");
    is_int(tn_image_info_load(golden_path("files/jpeg-exif6.jpg"), &info),
           TN_OK, "the header of a JPEG file");
    is_int(info.orientation, 6, "its orientation");
    is_int(info.width, 14, "the width is that of the file");
    is_int(tn_image_info_load(golden_path("files/png-exif8-after.png"), &info),
           TN_OK, "EXIF data behind the pixels");
    is_int(info.orientation, 8, "is found");
    TN_SCOPE(scope) {
        tn_tensor *x = tn_image_load(golden_path("files/jpeg-exif6.jpg"));
        is_int(tn_tensor_size(x, 1), 14, "the image is turned");
        x = tn_image_load(golden_path("files/jpeg-exif6.jpg"), .exif = false);
        is_int(tn_tensor_size(x, 1), 9, "unless .exif is false");
    }
}

static uint32_t crc_of(const unsigned char *data, size_t bytes)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* Tests the chunk eXIf with orientation 6 behind the six bytes with which EXIF
 * data begins in a JPEG file. */
static void test_exif_head(void)
{
    static const unsigned char chunk[] =
        "\0\0\0\x20" "eXIf" "Exif\0\0" "MM\0*\0\0\0\x08" "\0\x01"
        "\x01\x12\0\x03\0\0\0\x01\0\x06\0\0" "\0\0\0\0";
    enum { HEAD = 33, CHUNK = sizeof chunk - 1 }; /* HEAD: magic and IHDR */
    TN_SCOPE(scope) {
        void *png = NULL;
        size_t bytes = 0;
        tn_image_encode(tn_zeros(tn_dims(1, 2, 5), .dtype = TN_U8), "png",
                        &png, &bytes);
        unsigned char *file = malloc(bytes + CHUNK + 4);
        if (!png || !file)
            bail_out("no PNG file: %s", tn_error());
        const uint32_t crc = crc_of(chunk + 4, CHUNK - 4);
        memcpy(file, png, HEAD);
        memcpy(file + HEAD, chunk, CHUNK);
        for (int i = 0; i < 4; i++)
            file[HEAD + CHUNK + i] = (unsigned char)(crc >> (24 - 8 * i));
        memcpy(file + HEAD + CHUNK + 4, (char *)png + HEAD, bytes - HEAD);
        tn_tensor *x = tn_image_decode(file, bytes + CHUNK + 4);
        ok(x && tn_tensor_size(x, 1) == 5 && tn_tensor_size(x, 2) == 2,
           "EXIF data of PNG with the head of JPEG is read: %s",
           tn_error() ? tn_error() : "no error");
        free(file);
        free(png);
    }
}

/* The scaled image is close to the mean over blocks. */
static void test_min_side(void)
{
    TN_SCOPE(scope) {
        tn_tensor *y = tn_arange(0, 256, 1, .dtype = TN_F32);
        tn_tensor *smooth = tn_to(
            tn_to_dtype(tn_expand(tn_reshape(y, tn_dims(1, 1, 256)),
                                        tn_dims(3, 160, 256)),
                        TN_U8),
            tn_device_open("cpu"));
        void *data = NULL;
        size_t bytes = 0;
        is_int(tn_image_encode(smooth, "jpeg", &data, &bytes), TN_OK,
               "a JPEG file is made");
        static const int64_t sides[][2] = {{0, 160},  {161, 160}, {160, 160},
                                           {81, 160}, {80, 80},   {40, 40},
                                           {21, 40},  {20, 20},   {1, 20}};
        for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
            tn_tensor *x = tn_image_decode(data, bytes, .min_side = sides[i][0]);
            is_int(tn_tensor_size(x, 1), sides[i][1],
                   ".min_side = %lld decodes %lld rows", (long long)sides[i][0],
                   (long long)sides[i][1]);
        }
        tn_tensor *x = tn_image_decode(data, bytes, .min_side = 20);
        unsigned char row[3 * 20 * 32];
        tn_tensor_to_array(x, row, sizeof row);
        ok(abs(row[16] - 132) <= 3, "a scaled pixel is the mean of its block");
        free(data);
    }
}

/* ---- writing ------------------------------------------------------------ */

static void test_writing(void)
{
    static const char *const files[] = {
        "files/png-grey-8.png", "files/png-greyalpha-8.png",
        "files/png-rgb-8.png", "files/png-rgba-8.png"};
    for (int i = 0; i < 4; i++)
        TN_SCOPE(scope) {
            tn_tensor *x = tn_image_load(golden_path(files[i]));
            tn_tensor *deep = tn_image_load(golden_path(files[i]),
                                            .dtype = TN_I32);
            tn_tensor *real = tn_image_load(golden_path(files[i]),
                                            .dtype = TN_F32);
            is_int(tn_image_save("image-test.png", x), TN_OK,
                   "%d channels are saved", i + 1);
            ok(same_tensor(tn_image_load("image-test.png"), x),
               "and read again");
            tn_image_save("image-test.png", real, .compression = 9);
            ok(same_tensor(tn_image_load("image-test.png"), x),
               "float32 gives the same file");
            tn_image_save("image-test.png", deep);
            ok(same_tensor(tn_image_load("image-test.png", .dtype = TN_I32),
                           deep),
               "int32 keeps 16 bits");
            tn_tensor *hwc = tn_image_load(golden_path(files[i]), .hwc = true);
            tn_image_save("image-test.PNG", hwc, .hwc = true);
            ok(same_tensor(tn_image_load("image-test.PNG"), x),
               "(H, W, C) is saved with .hwc");
        }
    unlink("image-test.PNG");
    TN_SCOPE(scope) {
        tn_tensor *x = tn_image_load(golden_path("files/png-rgb-8.png"));
        void *small = NULL, *large = NULL;
        size_t small_bytes = 0, large_bytes = 0;
        is_int(tn_image_encode(x, "jpeg", &small, &small_bytes, .quality = 5),
               TN_OK, "a JPEG file of low quality");
        is_int(tn_image_encode(x, "jpeg", &large, &large_bytes, .quality = 100),
               TN_OK, "and of the best");
        ok(small_bytes < large_bytes, "the first is smaller");
        tn_tensor *y = tn_image_decode(large, large_bytes);
        const double far = tn_item(tn_max(tn_abs(tn_sub(
            tn_to_dtype(x, TN_F32), tn_to_dtype(y, TN_F32)))));
        ok(far < 40, "the best is close to the image (%g)", far);
        free(small);
        free(large);
        tn_tensor *rows = tn_select(x, 0, 0);
        is_int(tn_image_save("image-test.jpeg", rows), TN_OK,
               "(H, W) is saved as grey");
        is_int(tn_tensor_size(tn_image_load("image-test.jpeg"), 0), 1,
               "with one channel");
        const float outside[] = {-1, 0.5f, 2, 1};
        tn_image_save("image-test.png", tn_tensor_from_array(
                                            outside, TN_F32, tn_dims(1, 2, 2)));
        unsigned char got[4];
        tn_tensor_to_array(tn_image_load("image-test.png"), got, 4);
        ok(got[0] == 0 && got[1] == 128 && got[2] == 255 && got[3] == 255,
           "float32 is clamped and rounded");
    }
    ok(!tn_error(), "without an error: %s", tn_error() ? tn_error() : "");
    tn_error_clear();
    unlink("image-test.png");
    unlink("image-test.jpeg");
}

/* ---- damaged files ------------------------------------------------------ */

static const struct {
    const char *file, *text;
    tn_status code;
} bad[] = {
    {"truncated.jpg", "truncated", TN_ERR_FORMAT},
    {"truncated-progressive.jpg", "truncated", TN_ERR_FORMAT},
    {"no-end.jpg", "truncated", TN_ERR_FORMAT},
    {"cmyk.jpg", "CMYK", TN_ERR_FORMAT},
    {"truncated.png", "truncated", TN_ERR_FORMAT},
    {"no-end.png", "truncated", TN_ERR_FORMAT},
    {"crc.png", "damaged", TN_ERR_FORMAT},
    {"other.gif", "GIF is not supported", TN_ERR_FORMAT},
    {"other.bmp", "BMP is not supported", TN_ERR_FORMAT},
    {"other.tif", "TIFF is not supported", TN_ERR_FORMAT},
    {"other.webp", "WebP is not supported", TN_ERR_FORMAT},
    {"huge.png", "tn_unpack_limit_set", TN_ERR_FORMAT},
    {"huge.jpg", "tn_unpack_limit_set", TN_ERR_FORMAT},
};

static void test_bad(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char file[64];
        snprintf(file, sizeof file, "bad/%s", bad[i].file);
        const bool failed = !tn_image_load(golden_path(file));
        ok(tn_error() && strstr(tn_error(), bad[i].file),
           "the message names %s", bad[i].file);
        is_refused(failed, bad[i].code, bad[i].text, bad[i].file);
    }
}

/* Decodes each prefix of a file, and the file with each byte changed. The limit
 * bounds the memory that a changed size can request. */
static void test_each_byte(const char *name)
{
    void *data;
    size_t bytes;
    if (tn_file_read(golden_path(name), "test", &data, &bytes) < 0)
        bail_out("%s", tn_error());
    int wrong = 0;
    for (size_t n = 0; n < bytes; n++) {
        /* A separate copy, so that a sanitizer detects a read past the end. */
        unsigned char *part = malloc(n ? n : 1);
        memcpy(part, data, n);
        TN_SCOPE(scope)
            wrong += tn_image_decode(part, n) != NULL;
        wrong += !tn_error() || strchr(tn_error(), '\n');
        tn_error_clear();
        tn_image_info info = {.size = sizeof info};
        tn_image_info_decode(part, n, &info);
        tn_error_clear();
        free(part);
    }
    is_int(wrong, 0, "%s is refused when truncated at each byte", name);
    tn_unpack_limit_set(1 << 24);
    int silent = 0;
    for (size_t n = 0; n < bytes; n++)
        for (int bit = 0; bit < 8; bit += 3) {
            ((unsigned char *)data)[n] ^= (unsigned char)(1 << bit);
            TN_SCOPE(scope)
                silent += !tn_image_decode(data, bytes) == !tn_error();
            tn_error_clear();
            ((unsigned char *)data)[n] ^= (unsigned char)(1 << bit);
        }
    tn_unpack_limit_set(1 << 30);
    is_int(silent, 0, "%s with changed bits gives an image or an error", name);
    free(data);
}

int main(void)
{
    plan_later();
    if (!has_libraries())
        return done_testing();
    pixels = tn_safetensors_open(golden_path("pixels.safetensors"));
    if (!pixels)
        bail_out("%s", tn_error());
    test_pixels();
    test_layouts();
    test_channels();
    test_info();
    test_exif_head();
    test_min_side();
    test_writing();
    test_bad();
    test_each_byte("files/png-rgb-8-interlaced.png");
    test_each_byte("files/png-palette-trns.png");
    test_each_byte("files/jpeg-420.jpg");
    test_each_byte("files/jpeg-444-progressive.jpg");
    return done_testing();
}
