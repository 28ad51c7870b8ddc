/* resize.c: the transforms that resize. */
#include <base/nearest.h>
#include <media/image/convert.h>
#include <media/image/resample.h>

#include <tenon/image.h>
#include <tenon/transform.h>

static const char *const modes[] = {"nearest", "nearest-exact", "bilinear",
                                    "bicubic", NULL};

/* Resizes the box `from` of an image to height x width pixels, and stores only
 * the window `part` of the result. */
typedef struct job {
    const char *call;
    tn__pixels image;
    tn__window from;
    int64_t height, width; /* of the whole result */
    tn__window part;
} job;

static bool open_job(job *j, tn_tensor *image, const char *call)
{
    *j = (job){.call = call};
    if (!tn__pixels_open(&j->image, image, call, false))
        return false;
    j->from = (tn__window){0, 0, j->image.h, j->image.w};
    return true;
}

/* Computes the part of the result. Returns false with the error set. */
static bool run(const job *j, const char *mode, bool antialias, tn__pixels *out)
{
    TN__ROUND_NEAREST;
    const int m = tn__check_name(j->call, "mode", mode, modes);
    if (m < 0 || !tn__pixels_new(out, &j->image, j->image.c, j->part.height,
                                 j->part.width, j->image.dtype))
        return false;
    tn__axis y = {0}, x = {0};
    const bool done =
        tn__axis_make(&y, j->from.height, j->height, (tn__mode)m, antialias,
                      j->call) &&
        tn__axis_make(&x, j->from.width, j->width, (tn__mode)m, antialias,
                      j->call) &&
        tn__resample(&j->image, &j->from, &y, &x, &j->part, out, j->call);
    tn__axis_free(&y);
    tn__axis_free(&x);
    return done;
}

static tn_tensor *resize(job *j, int64_t height, int64_t width,
                         const char *mode, bool antialias)
{
    tn__pixels out;
    if (!tn__check_sides(j->call, height, width))
        return NULL;
    j->height = height;
    j->width = width;
    j->part = (tn__window){0, 0, height, width};
    return run(j, mode, antialias, &out) ? out.tensor : NULL;
}

TN_OPTIONS_TYPE(tn_image_resize, "image_resize", "image, height, width",
                TN_IMAGE_RESIZE_OPTIONS_LIST)
tn_tensor *tn_image_resize_with(tn_tensor *image, int64_t height, int64_t width,
                                const tn_image_resize_options *options)
{
    tn_image_resize_options o;
    job j;
    if (tn_options_take(tn_image_resize_type(), &o, options) < 0 ||
        !open_job(&j, image, "image_resize"))
        return NULL;
    return resize(&j, height, width, o.mode, o.antialias);
}

void tn__shorter_size(int64_t height, int64_t width, int64_t side,
                      int64_t max_size, int64_t *out_height, int64_t *out_width)
{
    TN__ROUND_NEAREST;
    const bool tall = height > width;
    const int64_t shorter = tall ? width : height;
    const int64_t longer = tall ? height : width;
    int64_t s = side, l = (int64_t)((double)side * (double)longer /
                                    (double)shorter);
    if (max_size > 0 && l > max_size) {
        s = (int64_t)((double)max_size * (double)s / (double)l);
        l = max_size;
    }
    *out_height = tall ? l : s;
    *out_width = tall ? s : l;
}

TN_OPTIONS_TYPE(tn_image_resize_shorter, "image_resize_shorter", "image, side",
                TN_IMAGE_RESIZE_SHORTER_OPTIONS_LIST)
tn_tensor *
tn_image_resize_shorter_with(tn_tensor *image, int64_t side,
                             const tn_image_resize_shorter_options *options)
{
    const char *call = "image_resize_shorter";
    tn_image_resize_shorter_options o;
    job j;
    int64_t height, width;
    if (tn_options_take(tn_image_resize_shorter_type(), &o, options) < 0 ||
        !open_job(&j, image, call) ||
        !tn__check_range(call, "side", (double)side, 1,
                         (double)TN__IMAGE_MAX_SIDE))
        return NULL;
    const bool limited = o.max_size != TN_NONE_INT;
    if (limited && o.max_size <= side)
        return tn_error_refuse_argument(
                   TN_ERR_ARGUMENT, call, "max_size",
                   ".max_size is %lld, but the shorter side is %lld; expected "
                   "more",
                   (long long)o.max_size, (long long)side),
               NULL;
    tn__shorter_size(j.image.h, j.image.w, side, limited ? o.max_size : 0,
                     &height, &width);
    return resize(&j, height, width, o.mode, o.antialias);
}

/* Returns whether the box is within the image, and stores it in *out. */
static bool take_box(const job *j, tn_dims_list box, tn__window *out)
{
    const int64_t *d = box.dim;
    const bool four = box.count == 4;
    if (four && d[0] >= 0 && d[1] >= 0 && d[2] >= 1 && d[3] >= 1 &&
        d[2] <= j->image.h && d[3] <= j->image.w &&
        d[0] <= j->image.h - d[2] && d[1] <= j->image.w - d[3]) {
        *out = (tn__window){d[0], d[1], d[2], d[3]};
        return true;
    }
    if (!four)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, j->call, "box",
                                 "box has %d numbers; expected top, left, "
                                 "height, width",
                                 box.count);
    else
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, j->call, "box",
            "box of %lld x %lld at (%lld, %lld) is not within the image of "
            "%lld x %lld",
            (long long)d[2], (long long)d[3], (long long)d[0], (long long)d[1],
            (long long)j->image.h, (long long)j->image.w);
    return false;
}

TN_OPTIONS_TYPE(tn_image_resized_crop, "image_resized_crop",
                "image, box, height, width", TN_IMAGE_RESIZE_OPTIONS_LIST)
tn_tensor *
tn_image_resized_crop_with(tn_tensor *image, tn_dims_list box, int64_t height,
                           int64_t width,
                           const tn_image_resized_crop_options *options)
{
    tn_image_resized_crop_options o;
    job j;
    if (tn_options_take(tn_image_resized_crop_type(), &o, options) < 0 ||
        !open_job(&j, image, "image_resized_crop") ||
        !take_box(&j, box, &j.from))
        return NULL;
    return resize(&j, height, width, o.mode, o.antialias);
}

/* ---- for classifiers ---------------------------------------------------- */

static const double imagenet_mean[] = {0.485, 0.456, 0.406};
static const double imagenet_deviation[] = {0.229, 0.224, 0.225};

/* If a crop is larger than the resized image, the result has borders. This case
 * is left to the separate transforms. */
static tn_tensor *prepare_larger(tn_tensor *image,
                                 const tn_image_prepare_options *o,
                                 const double *mean, const double *deviation)
{
    tn_tensor *x = tn_image_resize_shorter(image, o->resize, .mode = o->mode,
                                           .antialias = o->antialias);
    return tn_image_normalize(tn_image_center_crop(x, o->crop, o->crop), mean,
                              deviation, 3);
}

TN_OPTIONS_TYPE(tn_image_prepare, "image_prepare", "image",
                TN_IMAGE_PREPARE_OPTIONS_LIST)
tn_tensor *tn_image_prepare_with(tn_tensor *image,
                                 const tn_image_prepare_options *options)
{
    const char *call = "image_prepare";
    tn_image_prepare_options o;
    job j;
    if (tn_options_take(tn_image_prepare_type(), &o, options) < 0 ||
        !open_job(&j, image, call) ||
        !tn__check_range(call, "resize", (double)o.resize, 1,
                         (double)TN__IMAGE_MAX_SIDE) ||
        !tn__check_range(call, "crop", (double)o.crop, 1,
                         (double)TN__IMAGE_MAX_SIDE))
        return NULL;
    const double *mean = o.mean ? o.mean : imagenet_mean;
    const double *deviation = o.deviation ? o.deviation : imagenet_deviation;
    if (!tn__check_normalize(&j.image, mean, deviation, 3, call))
        return NULL;
    tn__shorter_size(j.image.h, j.image.w, o.resize, 0, &j.height, &j.width);
    if (!tn__check_sides(call, j.height, j.width))
        return NULL;
    if (o.crop > j.height || o.crop > j.width)
        return prepare_larger(image, &o, mean, deviation);
    j.part = (tn__window){tn__centre(j.height, o.crop),
                          tn__centre(j.width, o.crop), o.crop, o.crop};
    tn__pixels small, out;
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return NULL;
    out.tensor = NULL;
    if (run(&j, o.mode, o.antialias, &small) &&
        tn__pixels_new(&out, &small, 3, o.crop, o.crop, TN_F32))
        tn__normalize(&small, &out, mean, deviation);
    return tn_scope_result(scope, out.tensor);
}
