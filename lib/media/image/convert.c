/* convert.c: conversion to floating point, and normalisation. */
#include <media/image/convert.h>
#include <base/nearest.h>

#include <tenon/transform.h>

/* Computes 256 results for the values of uint8, so that a pixel costs one
 * load. */
static void normalize_u8(const uint8_t *in, float *out, int64_t count,
                         float mean, float deviation)
{
    float table[256];
    for (int i = 0; i < 256; i++)
        table[i] = ((float)i / 255.0f - mean) / deviation;
    for (int64_t i = 0; i < count; i++)
        out[i] = table[in[i]];
}

static void normalize_f32(const float *in, float *out, int64_t count,
                          float mean, float deviation)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = (in[i] - mean) / deviation;
}

void tn__normalize(const tn__pixels *image, const tn__pixels *out,
                   const double *mean, const double *deviation)
{
    TN__ROUND_NEAREST;
    const int64_t count = image->h * image->w;
    for (int64_t i = 0; i < image->n * image->c; i++) {
        const void *from = tn__plane(image, i);
        float *to = (float *)tn__plane_out(out, i);
        const float m = (float)mean[i % image->c];
        const float d = (float)deviation[i % image->c];
        if (image->dtype == TN_U8)
            normalize_u8(from, to, count, m, d);
        else
            normalize_f32(from, to, count, m, d);
    }
}

bool tn__check_normalize(const tn__pixels *image, const double *mean,
                         const double *deviation, int count, const char *call)
{
    const tn_given given[] = {{"image", image->tensor}};
    const char *missing = !mean ? "mean" : !deviation ? "deviation" : NULL;
    if (missing) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, missing, "%s is NULL",
                                 missing);
        return false;
    }
    if (count != image->c) {
        tn_error_refuse(TN_ERR_SHAPE, call, given, 1,
                        "image has %lld channels, but there are %d means",
                        (long long)image->c, count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        if ((float)deviation[i] != 0 && deviation[i] == deviation[i])
            continue;
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "deviation",
                                 "deviation[%d] is %g; expected a number that "
                                 "is not 0 in float32",
                                 i, deviation[i]);
        return false;
    }
    return true;
}

tn_tensor *tn_image_normalize(tn_tensor *image, const double *mean,
                              const double *deviation, int count)
{
    const char *call = "image_normalize";
    tn__pixels in, out;
    if (!tn__pixels_open(&in, image, call, false) ||
        !tn__check_normalize(&in, mean, deviation, count, call) ||
        !tn__pixels_new(&out, &in, in.c, in.h, in.w, TN_F32))
        return NULL;
    tn__normalize(&in, &out, mean, deviation);
    return out.tensor;
}

tn_tensor *tn_image_to_float(tn_tensor *image)
{
    TN__ROUND_NEAREST;
    tn__pixels in, out;
    if (!tn__pixels_open(&in, image, "image_to_float", false))
        return NULL;
    if (in.dtype == TN_F32)
        return tn__pixels_copy(&in);
    if (!tn__pixels_new(&out, &in, in.c, in.h, in.w, TN_F32))
        return NULL;
    normalize_u8(in.data, out.data, in.n * in.c * in.h * in.w, 0, 1);
    return out.tensor;
}
