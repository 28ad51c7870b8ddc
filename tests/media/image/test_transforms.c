/* test_transforms.c: compares transforms with torchvision's results, and fused
 * transforms with separate ones; checks the possible results of random ones. */
#include <tenon/image.h>
#include <tenon/ops.h>
#include <tenon/random.h>
#include <tenon/transform.h>

#include "golden.h"

static tn_safetensors *golden;

static const double mean[] = {0.485, 0.456, 0.406};
static const double deviation[] = {0.229, 0.224, 0.225};

/* ---- against torchvision ------------------------------------------------------
 * The name of a golden tensor is that of a row, numbers or modes, and the dtype
 * of the input: "resize.bilinear.1.7.9.u8". */

typedef struct arguments {
    char text[6][32]; /* behind the row's name */
    double number[6];
} arguments;

static tn_tensor *resize(tn_tensor *x, const arguments *a)
{
    return tn_image_resize(x, (int64_t)a->number[2], (int64_t)a->number[3],
                           .mode = a->text[0], .antialias = a->number[1] != 0);
}
static tn_tensor *shorter(tn_tensor *x, const arguments *a)
{
    return a->number[1] != 0
               ? tn_image_resize_shorter(x, (int64_t)a->number[0],
                                         .max_size = (int64_t)a->number[1])
               : tn_image_resize_shorter(x, (int64_t)a->number[0]);
}
static tn_tensor *center_crop(tn_tensor *x, const arguments *a)
{
    return tn_image_center_crop(x, (int64_t)a->number[0],
                                (int64_t)a->number[1]);
}
static tn_tensor *crop(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_crop(x, -3, 5, 12, 30);
}
static tn_tensor *resized_crop(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_resized_crop(x, tn_dims(4, 6, 11, 15), 8, 9);
}
static tn_tensor *pad(tn_tensor *x, const arguments *a)
{
    return tn_image_pad(x, 3, 5, 7, 2, .mode = a->text[0]);
}
static tn_tensor *flip(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_flip(x);
}
static tn_tensor *flip_vertical(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_flip_vertical(x);
}
static tn_tensor *rotate(tn_tensor *x, const arguments *a)
{
    return tn_image_rotate(x, a->number[0], .mode = a->text[1],
                           .expand = a->number[2] != 0);
}
static tn_tensor *rotate_center(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_rotate(x, 25.5, .mode = "bilinear", .center_x = 4,
                           .center_y = 7.5);
}
static tn_tensor *rotate_fill(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_rotate(x, 25.5, .fill = 1);
}
static tn_tensor *affine(tn_tensor *x, const arguments *a)
{
    return tn_image_affine(x, .degrees = 17.3, .translate_x = 2.4,
                           .translate_y = -3.1, .scale = 1.27, .shear_x = 9,
                           .shear_y = -4.5, .mode = a->text[0]);
}
static tn_tensor *affine_center(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_affine(x, .degrees = -40.2, .translate_x = 1.3,
                           .translate_y = 2.2, .scale = 0.61, .shear_x = 3,
                           .mode = "bilinear", .center_x = 3, .center_y = 15.5);
}
static tn_tensor *brightness(tn_tensor *x, const arguments *a)
{
    return tn_image_adjust_brightness(x, a->number[0]);
}
static tn_tensor *contrast(tn_tensor *x, const arguments *a)
{
    return tn_image_adjust_contrast(x, a->number[0]);
}
static tn_tensor *saturation(tn_tensor *x, const arguments *a)
{
    return tn_image_adjust_saturation(x, a->number[0]);
}
static tn_tensor *hue(tn_tensor *x, const arguments *a)
{
    return tn_image_adjust_hue(x, a->number[0]);
}
static tn_tensor *grayscale(tn_tensor *x, const arguments *a)
{
    return tn_image_grayscale(x, (int)a->number[0]);
}
static tn_tensor *to_float(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_to_float(x);
}
static tn_tensor *normalize(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_normalize(x, mean, deviation, 3);
}
static tn_tensor *prepare(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_prepare(x, .resize = 14, .crop = 11);
}

/* The batch of the script: the image and its flips, cropped. */
static tn_tensor *batch_of(tn_tensor *x)
{
    tn_tensor *all[] = {x, tn_image_flip(x), tn_image_flip_vertical(x)};
    return tn_image_crop(tn_stack(all, 3, 0), 0, 0, 6, 7);
}
static tn_tensor *grid(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_grid(batch_of(x), .columns = 2, .padding = 3,
                         .pad_value = 1);
}
static tn_tensor *grid_grey(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_grid(tn_narrow(batch_of(x), 1, 0, 1));
}
static tn_tensor *stretched(tn_tensor *x)
{
    return tn_sub_scalar(tn_mul_scalar(batch_of(x), 3), 1);
}
static tn_tensor *grid_normalize(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_grid(stretched(x), .columns = 2, .normalize = true);
}
static tn_tensor *grid_each(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_grid(stretched(x), .columns = 2, .normalize = true,
                         .each = true);
}
static tn_tensor *grid_range(tn_tensor *x, const arguments *a)
{
    (void)a;
    return tn_image_grid(stretched(x), .columns = 2, .normalize = true,
                         .low = -0.5, .high = 1.5);
}

static const struct {
    const char *name;
    tn_tensor *(*make)(tn_tensor *x, const arguments *a);
} rows[] = {
    {"resize", resize},
    {"shorter", shorter},
    {"center_crop", center_crop},
    {"crop", crop},
    {"resized_crop", resized_crop},
    {"pad", pad},
    {"flip", flip},
    {"flip_vertical", flip_vertical},
    {"rotate", rotate},
    {"rotate_center", rotate_center},
    {"rotate_fill", rotate_fill},
    {"affine", affine},
    {"affine_center", affine_center},
    {"brightness", brightness},
    {"contrast", contrast},
    {"saturation", saturation},
    {"hue", hue},
    {"grayscale", grayscale},
    {"to_float", to_float},
    {"normalize", normalize},
    {"prepare", prepare},
    {"grid", grid},
    {"grid_grey", grid_grey},
    {"grid_normalize", grid_normalize},
    {"grid_each", grid_each},
    {"grid_range", grid_range},
};

/* Splits "rotate.-71.5.nearest.1.u8". The first argument of some rows is a
 * number with a fraction. */
static void split(const char *name, char *row, char *input, arguments *a)
{
    char text[128];
    snprintf(text, sizeof text, "%s", name);
    char *last = strrchr(text, '.');
    snprintf(input, 8, "%.7s", last + 1);
    *last = 0;
    char *at = strchr(text, '.');
    memset(a, 0, sizeof *a);
    if (at)
        *at++ = 0;
    snprintf(row, 32, "%.31s", text);
    const bool real = strcmp(row, "rotate") == 0 || strcmp(row, "hue") == 0 ||
                      strcmp(row, "brightness") == 0 ||
                      strcmp(row, "contrast") == 0 ||
                      strcmp(row, "saturation") == 0;
    for (int i = 0; at && i < 6; i++) {
        char *end = strchr(at, '.');
        if (real && i == 0) {
            strtod(at, &end);
            end = end[-1] == '.' ? end - 1 : *end ? end : NULL;
        }
        if (end)
            *end = 0;
        snprintf(a->text[i], sizeof a->text[i], "%.31s", at);
        a->number[i] = strtod(at, NULL);
        at = end ? end + 1 : NULL;
    }
}

static void test_golden(tn_tensor *u8, tn_tensor *f32)
{
    int used[sizeof rows / sizeof *rows] = {0};
    for (int i = 0; i < tn_safetensors_count(golden); i++) {
        const char *name = tn_safetensors_name(golden, i);
        if (!strcmp(name, "u8") || !strcmp(name, "f32"))
            continue;
        char row[32], input[8];
        arguments a;
        split(name, row, input, &a);
        bool found = false;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            if (strcmp(rows[r].name, row) != 0)
                continue;
            found = true;
            used[r]++;
            TN_SCOPE(scope) {
                tn_tensor *x = rows[r].make(input[0] == 'u' ? u8 : f32, &a);
                is_golden(x, golden, name,
                          tn_tensor_dtype(x) == TN_U8 ? 1 : 1e-5);
            }
        }
        if (!found)
            ok(false, "there is a row for %s", name);
    }
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        ok(used[r] > 0, "there are golden tensors for %s", rows[r].name);
}

/* ---- fused against separate --------------------------------------------- */

static void test_prepare(tn_tensor *u8, tn_tensor *f32)
{
    static const int64_t sizes[][2] = {{14, 11}, {17, 17}, {30, 3},
                                       {9, 20},  {5, 5},   {40, 52}};
    static const char *const modes[] = {"nearest", "bilinear", "bicubic"};
    tn_tensor *inputs[] = {u8, f32};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int m = 0; m < 3; m++)
                TN_SCOPE(scope) {
                    const int64_t side = sizes[i][0], c = sizes[i][1];
                    tn_tensor *x = tn_image_resize_shorter(
                        inputs[k], side, .mode = modes[m]);
                    x = tn_image_normalize(tn_image_center_crop(x, c, c), mean,
                                           deviation, 3);
                    ok(same_tensor(tn_image_prepare(inputs[k], .resize = side,
                                                    .crop = c,
                                                    .mode = modes[m]),
                                   x),
                       "prepare %lld, %lld, %s has the bits of its parts",
                       (long long)side, (long long)c, modes[m]);
                }
    TN_SCOPE(scope) {
        tn_tensor *both[] = {u8, tn_image_flip(u8)};
        tn_tensor *x = tn_image_prepare(tn_stack(both, 2, 0), .resize = 14,
                                        .crop = 11);
        ok(same_tensor(tn_select(x, 0, 1),
                       tn_image_prepare(both[1], .resize = 14, .crop = 11)),
           "a batch gives the bits of its images");
        tn_tensor *turned = tn_permute(
            tn_contiguous(tn_permute(u8, tn_dims(1, 2, 0))), tn_dims(2, 0, 1));
        ok(!tn_tensor_is_contiguous(turned) &&
               same_tensor(tn_image_resize(turned, 8, 8),
                           tn_image_resize(u8, 8, 8)),
           "a strided image gives the bits of a contiguous one");
    }
}

/* ---- random ones -------------------------------------------------------- */

typedef tn_tensor *random_function(tn_tensor *x);

static tn_tensor *random_crop(tn_tensor *x)
{
    return tn_image_random_crop(x, 12, 13, .padding = 2);
}
static tn_tensor *random_resized_crop(tn_tensor *x)
{
    return tn_image_random_resized_crop(x, 12, 13);
}
static tn_tensor *random_affine(tn_tensor *x)
{
    return tn_image_random_affine(x, .degrees = 30, .translate_x = 0.2,
                                  .translate_y = 0.1, .scale_min = 0.7,
                                  .scale_max = 1.3, .shear = 10);
}
static tn_tensor *color_jitter(tn_tensor *x)
{
    return tn_image_color_jitter(x, .brightness = 0.4, .contrast = 0.4,
                                 .saturation = 0.4, .hue = 0.1);
}
static tn_tensor *random_erasing(tn_tensor *x)
{
    return tn_image_random_erasing(x, .p = 1);
}

static const struct {
    const char *name;
    random_function *make;
} randoms[] = {
    {"random_flip", tn_image_random_flip},
    {"random_flip_vertical", tn_image_random_flip_vertical},
    {"random_crop", random_crop},
    {"random_resized_crop", random_resized_crop},
    {"random_affine", random_affine},
    {"color_jitter", color_jitter},
    {"random_erasing", random_erasing},
};

static void test_seeds(tn_tensor *u8)
{
    for (size_t i = 0; i < sizeof randoms / sizeof *randoms; i++) {
        int different = 0, repeated = 0;
        for (uint64_t seed = 0; seed < 20; seed++)
            TN_SCOPE(scope) {
                tn_manual_seed(seed);
                tn_tensor *a = randoms[i].make(u8);
                const tn_rng_state after = tn_rng_snapshot();
                tn_tensor *b = randoms[i].make(u8);
                different += !same_tensor(a, b);
                tn_manual_seed(seed);
                repeated += same_tensor(randoms[i].make(u8), a);
                tn_rng_restore(after);
                repeated += same_tensor(randoms[i].make(u8), b);
            }
        is_int(repeated, 40, "%s repeats with the seed", randoms[i].name);
        ok(different >= 5, "%s differs between calls (%d of 20)",
           randoms[i].name, different);
    }
}

static void test_distributions(tn_tensor *u8)
{
    /* Two images: the value of a pixel is its column in one, its row in the
     * other. */
    unsigned char column[40 * 50], row[40 * 50];
    for (int i = 0; i < 40 * 50; i++) {
        column[i] = (unsigned char)(i % 50);
        row[i] = (unsigned char)(i / 50);
    }
    tn_manual_seed(3);
    int flips = 0, seen_x[51] = {0}, wrong = 0, erased = 0;
    double area = 0;
    for (int i = 0; i < 2000; i++)
        TN_SCOPE(scope) {
            tn_tensor *x = tn_tensor_from_array(column, TN_U8,
                                                tn_dims(1, 40, 50));
            unsigned char first[40 * 50];
            tn_tensor_to_array(tn_image_random_flip(x), first, sizeof first);
            flips += first[0] == 49;
            tn_tensor_to_array(tn_image_random_crop(x, 40, 41), first, 40 * 41);
            seen_x[first[0]]++;
            tn_tensor *y = tn_image_random_resized_crop(
                x, 1, 50, .mode = "nearest", .scale_min = 0.3);
            tn_tensor_to_array(y, first, 50);
            const int width = first[49] - first[0] + 1;
            wrong += width < 16 || width > 50; /* The smallest width is sqrt(0.3
                                                  * 2000 * 3 / 4) = 21. The
                                                  bound 16 leaves room for
                                                  rounding. */
            y = tn_image_random_erasing(
                tn_tensor_from_array(row, TN_U8, tn_dims(1, 40, 50)), .p = 0.25,
                .value = 200);
            tn_tensor_to_array(y, first, sizeof first);
            int count = 0;
            for (int k = 0; k < 40 * 50; k++)
                count += first[k] == 200;
            erased += count > 0;
            area += count / 2000.0;
        }
    /* 4 standard deviations: sqrt(2000 / 4) * 4 = 90. */
    ok(abs(flips - 1000) < 90, "half of the images are flipped (%d)", flips);
    int least = 2000;
    for (int i = 0; i < 10; i++)
        least = seen_x[i] < least ? seen_x[i] : least;
    ok(least > 120, "all places are cropped (the rarest %d times)", least);
    is_int(wrong, 0, "boxes have the widths that are allowed");
    ok(abs(erased - 500) < 78, "a quarter is erased (%d)", erased);
    ok(area / erased > 0.1 && area / erased < 0.25,
       "by the areas that are allowed (%.3f on average)", area / erased);
    TN_SCOPE(scope) {
        tn_tensor *same = tn_image_color_jitter(u8);
        ok(same_tensor(same, u8), "a jitter of 0 changes nothing");
        same = tn_image_random_affine(u8);
        ok(same_tensor(same, u8), "an affine transform of 0 changes nothing");
        same = tn_image_random_crop(u8, 17, 22);
        ok(same_tensor(same, u8), "a crop of the whole image changes nothing");
    }
}

/* ---- other dtypes, sizes ------------------------------------------------ */

static void test_dtypes(tn_tensor *u8)
{
    static const tn_dtype dtypes[] = {TN_F64, TN_F16, TN_I64, TN_I32,
                                      TN_I16, TN_I8,  TN_BOOL};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        TN_SCOPE(scope) {
            tn_tensor *x = tn_to_dtype(u8, dtypes[i]);
            ok(same_tensor(tn_image_flip(x),
                           tn_to_dtype(tn_image_flip(u8), dtypes[i])) &&
                   same_tensor(tn_image_crop(x, 2, -2, 5, 60),
                               tn_to_dtype(tn_image_crop(u8, 2, -2, 5, 60),
                                           dtypes[i])) &&
                   same_tensor(
                       tn_image_pad(x, 1, 2, 3, 4, .mode = "reflect"),
                       tn_to_dtype(tn_image_pad(u8, 1, 2, 3, 4,
                                                .mode = "reflect"),
                                   dtypes[i])),
               "%s is cropped, padded and flipped", tn_dtype_name(dtypes[i]));
        }
    TN_SCOPE(scope) {
        tn_tensor *one = tn_image_crop(u8, 3, 3, 1, 1);
        static const char *const modes[] = {"nearest", "nearest-exact",
                                            "bilinear", "bicubic"};
        for (int m = 0; m < 4; m++)
            for (int antialias = 0; antialias < 2; antialias++) {
                tn_tensor *x = tn_image_resize(one, 5, 4, .mode = modes[m],
                                               .antialias = antialias);
                ok(same_tensor(x, tn_contiguous(
                                      tn_expand(one, tn_dims(3, 5, 4)))),
                   "one pixel is spread by %s", modes[m]);
            }
        ok(tn_image_crop(u8, 100, 100, 2, 2) != NULL,
           "a crop outside of the image is 0");
    }
    ok(!tn_error(), "without an error: %s", tn_error() ? tn_error() : "");
    tn_error_clear();
}

/* The sizes are torchvision's. In float64, the corners of the second one are
 * just below integers, and the result would be a row larger. */
static void test_expanded_size(void)
{
    tn_tensor *x = tn_zeros(tn_dims(1, 61, 47), .dtype = TN_U8);
    tn_tensor *y = tn_image_rotate(x, 90, .expand = true);
    is_int(tn_tensor_size(y, 1), 47, "a quarter turn exchanges the sides");
    y = tn_image_rotate(x, 90, .expand = true, .center_x = 5, .center_y = 7);
    is_int(tn_tensor_size(y, 1), 47, "about another centre, too");
    is_int(tn_tensor_size(y, 2), 61, "in both directions");
}

int main(void)
{
    plan_later();
    tn_device_set(tn_device_open("cpu"));
    golden = tn_safetensors_open(golden_path("transforms.safetensors"));
    tn_tensor *u8 = tn_safetensors_tensor(golden, "u8");
    tn_tensor *f32 = tn_safetensors_tensor(golden, "f32");
    if (!u8 || !f32)
        bail_out("%s", tn_error());
    test_golden(u8, f32);
    test_prepare(u8, f32);
    test_seeds(u8);
    test_distributions(u8);
    test_dtypes(u8);
    test_expanded_size();
    return done_testing();
}
