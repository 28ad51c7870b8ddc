/* test_vision.c: results and gradients equal to torchvision's (make_vision.py),
 * gradients against finite differences, and odd boxes. */
#include "stored.h"

#include <tenon/vision.h>

static tn_tensor *boxes_of(int64_t n, uint32_t seed, double span, double size)
{
    tn_tensor *at = noise(tn_dims(n, 2), seed, 0, span, TN_F64);
    tn_tensor *to = tn_add(at, noise(tn_dims(n, 2), seed + 1, 0.5, size,
                                     TN_F64));
    return tn_to_dtype(tn_cat((tn_tensor *[]){at, to}, 2, 1), TN_F32);
}

static tn_tensor *leaf(tn_tensor *x)
{
    return tn_requires_grad(tn_clone(x));
}

/* Checks a result and its gradients for a and b: name, name_grad_a and
 * name_grad_b. */
static void check_pair(const char *name, tn_tensor *y, tn_tensor *a,
                       tn_tensor *b)
{
    char text[64];
    close_to(y, stored(name), 1e-5, name);
    tn_tensor *ga = gradient(y, a);
    snprintf(text, sizeof text, "%s_grad_a", name);
    close_to(ga, stored(text), 1e-4, text);
    snprintf(text, sizeof text, "%s_grad_b", name);
    close_to(tn_tensor_grad(b), stored(text), 1e-4, text);
}

static void check_iou(void)
{
    TN_SCOPE(scope) {
        tn_tensor *a = boxes_of(37, 1, 100, 60), *b = boxes_of(23, 3, 100, 60);
        tn_tensor *x = leaf(a), *y = leaf(b);
        check_pair("iou", tn_box_iou(x, y), x, y);
        x = leaf(a), y = leaf(b);
        check_pair("giou", tn_generalized_box_iou(x, y), x, y);
        x = leaf(a), y = leaf(b);
        check_pair("diou", tn_distance_box_iou(x, y), x, y);
        x = leaf(a), y = leaf(b);
        check_pair("ciou", tn_complete_box_iou(x, y), x, y);

        tn_tensor *p = tn_to_dtype(a, TN_I32), *q = tn_to_dtype(b, TN_I32);
        close_to(tn_box_iou(p, q), stored("iou_int"), 1e-6, "of int32 boxes");
        close_to(tn_generalized_box_iou(p, q), stored("giou_int"), 1e-6,
                 "generalized, of int32 boxes");
        close_to(tn_distance_box_iou(p, q), stored("diou_int"), 1e-6,
                 "distance, of int32 boxes");
        close_to(tn_complete_box_iou(p, q), stored("ciou_int"), 1e-5,
                 "complete, of int32 boxes");
        p = tn_to_dtype(p, TN_I16), q = tn_to_dtype(q, TN_I16);
        close_to(tn_box_iou(p, q), stored("iou_int"), 1e-6,
                 "int16 boxes do not overflow");
        tn_tensor *half = tn_to_dtype(a, TN_F16);
        close_to(tn_box_iou(half, half),
                 tn_box_iou(tn_to_dtype(half, TN_F32),
                            tn_to_dtype(half, TN_F32)),
                 0, "half boxes are computed in float32");
        close_to(tn_box_iou(tn_reshape(tn_narrow(a, 0, 0, 10),
                                       tn_dims(2, 5, 4)),
                            tn_reshape(tn_narrow(b, 0, 0, 14),
                                       tn_dims(2, 7, 4))),
                 stored("iou_batch"), 1e-6, "of batches of boxes");
        close_to(tn_box_iou(tn_box_convert(a, "xyxy", "cxcywh"),
                            tn_box_convert(b, "xyxy", "cxcywh"),
                            .fmt = "cxcywh"),
                 stored("iou_cxcywh"), 1e-5, "of boxes in another format");
        const float odd[] = {0, 0, 0, 0, 5, 5, 1, 1, NAN, 0, 1, 1, 0, 0, 10,
                             10};
        tn_tensor *o = tn_tensor_from_array(odd, TN_F32, tn_dims(4, 4));
        close_to(tn_box_iou(o, o), stored("iou_odd"), 1e-6,
                 "empty, inverted and NaN boxes");
        close_to(tn_generalized_box_iou(o, o), stored("giou_odd"), 1e-6,
                 "the same, generalized");
        tn_tensor *none = tn_zeros(tn_dims(0, 4));
        tn_tensor *y0 = tn_box_iou(none, a);
        ok(y0 && tn_tensor_size(y0, 0) == 0 && tn_tensor_size(y0, 1) == 37,
           "no boxes give (0, 37)");
    }
}

static void check_losses(void)
{
    TN_SCOPE(scope) {
        tn_tensor *a = tn_narrow(boxes_of(37, 1, 100, 60), 0, 0, 23),
                  *b = boxes_of(23, 3, 100, 60);
        tn_tensor *x = leaf(a), *y = leaf(b);
        check_pair("giou_loss", tn_generalized_box_iou_loss(x, y), x, y);
        x = leaf(a), y = leaf(b);
        check_pair("diou_loss", tn_distance_box_iou_loss(x, y), x, y);
        x = leaf(a), y = leaf(b);
        check_pair("ciou_loss", tn_complete_box_iou_loss(x, y), x, y);
        close_to(tn_generalized_box_iou_loss(a, b, .reduction = "mean"),
                 stored("giou_loss_mean"), 1e-5, "mean of the losses");
        close_to(tn_distance_box_iou_loss(a, b, .reduction = "sum"),
                 stored("diou_loss_sum"), 1e-5, "sum of the losses");
        close_to(tn_complete_box_iou_loss(a, b, .reduction = "mean"),
                 stored("ciou_loss_mean"), 1e-5, "mean, complete");
        tn_tensor *none = tn_zeros(tn_dims(0, 4));
        is_int((int64_t)tn_item(tn_complete_box_iou_loss(
                   none, none, .reduction = "mean")),
               0, "the mean of no boxes is 0");
        const double alpha[] = {0.25, -1, 0.6}, gamma[] = {2, 1.5, 0};
        for (int i = 0; i < 3; i++) {
            char name[32];
            tn_tensor *in = leaf(noise(tn_dims(5, 7), 11, -6, 6, TN_F32));
            tn_tensor *t = tn_to_dtype(
                tn_gt_scalar(noise(tn_dims(5, 7), 12, 0, 1, TN_F32), 0.5),
                TN_F32);
            tn_tensor *out = tn_sigmoid_focal_loss(in, t, .alpha = alpha[i],
                                                   .gamma = gamma[i]);
            snprintf(name, sizeof name, "focal%d", i);
            close_to(out, stored(name), 1e-5, name);
            snprintf(name, sizeof name, "focal%d_grad", i);
            close_to(gradient(out, in), stored(name), 1e-4, name);
        }
    }
}

static void check_choosing(void)
{
    TN_SCOPE(scope) {
        tn_tensor *m = boxes_of(2000, 21, 200, 60);
        tn_tensor *scores = tn_div_scalar(
            tn_floor(noise(tn_dims(2000), 23, 0, 64, TN_F32)), 64);
        tn_tensor *idxs = tn_to_dtype(
            tn_floor(noise(tn_dims(2000), 24, 0, 7, TN_F32)), TN_I64);
        close_to(tn_nms(m, scores, 0.1), stored("nms1"), 0,
                 "nms at 0.1, with equal scores");
        close_to(tn_nms(m, scores, 0.5), stored("nms5"), 0, "nms at 0.5");
        close_to(tn_nms(m, scores, 0.7), stored("nms7"), 0, "nms at 0.7");
        close_to(tn_nms(tn_to_dtype(m, TN_F64), tn_to_dtype(scores, TN_F64),
                        0.5),
                 stored("nms_double"), 0, "nms of float64");
        close_to(tn_batched_nms(m, scores, idxs, 0.4), stored("batched_nms"),
                 0, "batched nms");
        close_to(tn_batched_nms(m, scores, tn_to_dtype(idxs, TN_U8), 0.4),
                 stored("batched_nms"), 0, "batched nms with uint8 classes");
        const float some[] = {0, 0, 0, 0, 5, 5, 1, 1, NAN, 0, 1, 1, 0, 0, 10,
                              10};
        tn_tensor *odd = tn_tensor_from_array(some, TN_F32, tn_dims(4, 4));
        tn_tensor *wild = tn_cat(
            (tn_tensor *[]){odd, boxes_of(37, 1, 100, 60),
                            tn_add_scalar(odd, 3)},
            3, 0);
        close_to(tn_nms(wild, noise(tn_dims(45), 25, 0, 1, TN_F32), 0.3),
                 stored("nms_odd"), 0, "nms of empty, inverted and NaN boxes");
        tn_tensor *none = tn_nms(tn_zeros(tn_dims(0, 4)), tn_zeros(tn_dims(0)),
                                 0.5);
        ok(none && tn_tensor_numel(none) == 0 &&
               tn_tensor_dtype(none) == TN_I64,
           "nms of no boxes");
        tn_tensor *one = tn_nms(tn_ones(tn_dims(1, 4)), tn_ones(tn_dims(1)),
                                0.5);
        ok(one && tn_tensor_numel(one) == 1 && tn_item_int(one) == 0,
           "nms of one box");
        ok(tn_tensor_device(one) == tn_device_current(),
           "the result is on the device of boxes");
        const float rank[] = {1, NAN, 2};
        tn_tensor *three = tn_mul_scalar(
            tn_reshape(tn_arange(0, 12, 1, .dtype = TN_F32), tn_dims(3, 4)),
            100);
        int64_t first[3];
        tn_tensor *kept = tn_nms(
            three, tn_tensor_from_array(rank, TN_F32, tn_dims(3)), 0.5);
        ok(tn_tensor_to_array(kept, first, sizeof first) == TN_OK &&
               first[0] == 1 && first[1] == 2 && first[2] == 0,
           "a NaN score is the greatest");

        tn_tensor *a = boxes_of(37, 1, 100, 60);
        close_to(tn_remove_small_boxes(m, 30), stored("small"), 0,
                 "remove_small_boxes");
        close_to(tn_clip_boxes_to_image(tn_add_scalar(a, -20), 70, 50),
                 stored("clip"), 1e-6, "clip_boxes_to_image");
        const int8_t low[] = {-5, 100, 120, 127}, clipped[] = {0, 100, 120,
                                                               127};
        int8_t got[4];
        tn_tensor *i8 = tn_clip_boxes_to_image(
            tn_tensor_from_array(low, TN_I8, tn_dims(1, 4)), 1000, 1ll << 40);
        ok(tn_tensor_to_array(i8, got, 4) == TN_OK &&
               memcmp(got, clipped, 4) == 0,
           "an image larger than the dtype's range");
        static const char *const format[] = {"xyxy", "xywh", "cxcywh"};
        for (int i = 0; i < 9; i++) {
            char name[64];
            snprintf(name, sizeof name, "convert_%s_%s", format[i / 3],
                     format[i % 3]);
            close_to(tn_box_convert(a, format[i / 3], format[i % 3]),
                     stored(name), 1e-6, name);
        }
        close_to(tn_box_area(a), stored("area"), 1e-6, "box_area");
        close_to(tn_box_area(tn_box_convert(a, "xyxy", "cxcywh"),
                             .fmt = "cxcywh"),
                 stored("area"), 1e-5, "box_area of cxcywh");
        tn_tensor *masks = tn_gt_scalar(
            noise(tn_dims(5, 9, 11), 31, 0, 1, TN_F32), 0.93);
        const float which[] = {1, 1, 0, 1, 1};
        masks = tn_mul(tn_to_dtype(masks, TN_F32),
                       tn_tensor_from_array(which, TN_F32, tn_dims(5, 1, 1)));
        close_to(tn_masks_to_boxes(masks), stored("masks"), 0,
                 "masks_to_boxes");
        close_to(tn_masks_to_boxes(tn_to_dtype(masks, TN_BOOL)),
                 stored("masks"), 0, "of bool masks");
    }
}

static tn_tensor *regions(void)
{
    const float more[] = {0, -30, -20, -10, -5, 1, 60, 60, 100, 90, 0, 9, 9, 3,
                          3, 1, 0, 0, 0, 0, 0, 0, 0, 68, 52};
    tn_tensor *image = tn_floor(noise(tn_dims(12, 1), 42, 0, 2, TN_F32));
    tn_tensor *r = tn_cat((tn_tensor *[]){image, boxes_of(12, 43, 40, 50)}, 2,
                          1);
    return tn_cat((tn_tensor *[]){r, tn_tensor_from_array(more, TN_F32,
                                                          tn_dims(5, 5))},
                  2, 0);
}

static tn_tensor *every_second(tn_tensor *x)
{
    const int64_t half = (tn_tensor_size(x, 1) + 1) / 2;
    tn_tensor *at = tn_mul_scalar(tn_arange(0, half, 1, .dtype = TN_I64), 2);
    return tn_index_select(x, 1, at);
}

static tn_tensor *align_of_image(tn_tensor *x, void *context)
{
    return tn_roi_align(x, context, 2, 3, .spatial_scale = 0.25,
                        .aligned = true);
}

static void check_regions(void)
{
    TN_SCOPE(scope) {
        tn_tensor *image = noise(tn_dims(2, 3, 13, 17), 41, -1, 1, TN_F32);
        tn_tensor *rois = regions();
        const int ratio[] = {2, -1, 0, 5};
        for (int i = 0; i < 8; i++) {
            char name[64];
            tn_tensor *x = leaf(image);
            tn_tensor *y = tn_roi_align(x, rois, 5, 4, .spatial_scale = 0.25,
                                        .sampling_ratio = ratio[i / 2],
                                        .aligned = i % 2);
            snprintf(name, sizeof name, "roi_align_%d_%d", ratio[i / 2],
                     i % 2);
            close_to(y ? every_second(y) : NULL, stored(name), 1e-5, name);
            tn_tensor *g = gradient(y, x);
            strcat(name, "_grad");
            close_to(g ? tn_narrow(g, 1, 0, 2) : NULL, stored(name), 1e-4,
                     name);
        }
        tn_tensor *y = tn_roi_align(image, rois, 3, 3, .spatial_scale = 0.9);
        close_to(y ? tn_narrow(y, 1, 0, 1) : NULL, stored("roi_align_large"),
                 1e-5, "roi_align with many samples");
        tn_tensor *d = tn_roi_align(tn_to_dtype(image, TN_F64), rois, 3, 3,
                                    .spatial_scale = 0.9);
        ok(d && tn_tensor_dtype(d) == TN_F64, "float64 stays float64");
        tn_tensor *x = leaf(image);
        y = tn_roi_pool(x, rois, 5, 4, .spatial_scale = 0.25);
        close_to(y, stored("roi_pool"), 0, "roi_pool");
        close_to(gradient(y, x), stored("roi_pool_grad"), 1e-5,
                 "roi_pool_grad");
        tn_tensor *h = tn_roi_pool(tn_to_dtype(image, TN_F16), rois, 5, 4);
        ok(h && tn_tensor_dtype(h) == TN_F16, "float16 stays float16");
        y = tn_roi_align(image, tn_zeros(tn_dims(0, 5)), 2, 2);
        ok(y && tn_tensor_size(y, 0) == 0 && tn_tensor_size(y, 1) == 3,
           "no regions give (0, C, height, width)");
        y = tn_roi_pool(image, tn_zeros(tn_dims(0, 5)), 2, 2);
        ok(y && tn_tensor_size(y, 0) == 0, "no regions of roi_pool");

        /* second derivatives: the gradient is linear in the weights */
        tn_tensor *v = leaf(tn_to_dtype(tn_narrow(image, 1, 0, 1), TN_F64));
        tn_tensor *z = align_of_image(v, rois);
        tn_tensor *g[1] = {NULL};
        tn_status status = tn_grad(tn_sum(tn_mul(z, z)), (tn_tensor *[]){v}, 1,
                                   g, .create_graph = true);
        ok(status >= 0 && tn_backward(tn_sum(tn_mul(g[0], g[0]))) >= 0 &&
               tn_tensor_grad(v),
           "roi_align has second derivatives");
        /* sum(g^2) is quadratic in v, so half of v . its gradient is the sum */
        const double sum = tn_item(tn_sum(tn_mul(g[0], g[0])));
        const double dot = tn_item(tn_sum(tn_mul(v, tn_tensor_grad(v))));
        ok(fabs(dot / 2 - sum) < 1e-9 * sum, "and they are right");
        tn_error_clear();
    }
}

/* More terms than are computed at once (2^22): the results equal those of two
 * calls with half of the regions. */
static void check_many_regions(void)
{
    enum { COUNT = 1200 };
    TN_SCOPE(scope) {
        tn_tensor *image = noise(tn_dims(1, 1, 64, 64), 81, -1, 1, TN_F32);
        tn_tensor *at = noise(tn_dims(COUNT, 2), 82, -2, 2, TN_F32);
        tn_tensor *r = tn_cat(
            (tn_tensor *[]){tn_zeros(tn_dims(COUNT, 1)), at,
                            tn_add_scalar(at, 63)},
            3, 1);
        for (int pool = 0; pool < 2; pool++) {
            tn_tensor *y[3], *g[3];
            for (int i = 0; i < 3; i++) {
                tn_tensor *x = leaf(image);
                tn_tensor *some = i ? tn_narrow(r, 0, (i - 1) * COUNT / 2,
                                                COUNT / 2)
                                    : r;
                y[i] = pool ? tn_roi_pool(x, some, 7, 7)
                            : tn_roi_align(x, some, 7, 7);
                if (tn_backward(tn_sum(y[i])) < 0)
                    bail_out("%s", tn_error());
                g[i] = tn_tensor_grad(x);
            }
            close_to(y[0], tn_cat(y + 1, 2, 0), 0,
                     pool ? "roi_pool of many regions"
                          : "roi_align of many regions");
            close_to(g[0], tn_add(g[1], g[2]), 1e-5, "and the gradient");
        }
    }
}

/* Compares the gradient of a function of float64 boxes to differences. */
static void check_differences(const char *what,
                              tn_tensor *(*f)(tn_tensor *x, tn_tensor *y))
{
    TN_SCOPE(scope) {
        tn_tensor *a = tn_to_dtype(boxes_of(4, 61, 10, 20), TN_F64);
        tn_tensor *b = tn_to_dtype(boxes_of(4, 63, 10, 20), TN_F64);
        tn_tensor *x = leaf(a);
        double g[16], v[16];
        if (tn_backward(tn_sum(f(x, b))) < 0 ||
            tn_tensor_to_array(tn_tensor_grad(x), g, sizeof g) < 0 ||
            tn_tensor_to_array(a, v, sizeof v) < 0)
            bail_out("%s", tn_error());
        double worst = 0;
        for (int i = 0; i < 16; i++) {
            double y[2], old = v[i];
            for (int k = 0; k < 2; k++) {
                v[i] = old + (k ? 1e-5 : -1e-5);
                y[k] = tn_item(tn_sum(
                    f(tn_tensor_from_array(v, TN_F64, tn_dims(4, 4)), b)));
            }
            v[i] = old;
            worst = fmax(worst, fabs((y[1] - y[0]) / 2e-5 - g[i]));
        }
        if (!ok(worst < 1e-6, "%s: gradient and differences agree", what))
            note("%g", worst);
    }
}

static tn_tensor *iou(tn_tensor *a, tn_tensor *b) { return tn_box_iou(a, b); }
static tn_tensor *loss(tn_tensor *a, tn_tensor *b)
{
    return tn_distance_box_iou_loss(a, b);
}
static tn_tensor *encode(tn_tensor *a, tn_tensor *b)
{
    return tn_box_encode(a, b, NULL);
}

static void check_codes(void)
{
    TN_SCOPE(scope) {
        const double two[] = {32, 64}, ratios[] = {1, 3}, one[] = {100.5};
        close_to(tn_anchors(3, 4, two, 2, .strides = tn_dims(16, 8)),
                 stored("anchors0"), 0, "anchors");
        close_to(tn_anchors(2, 2, one, 1, .ratios = ratios, .ratio_count = 2,
                            .stride = 32),
                 stored("anchors1"), 0, "anchors with other ratios");
        const double weights[] = {10, 10, 5, 5};
        tn_tensor *x = leaf(tn_narrow(boxes_of(37, 1, 100, 60), 0, 0, 23)),
                  *p = leaf(boxes_of(23, 3, 100, 60));
        tn_tensor *code = tn_box_encode(x, p, weights);
        close_to(code, stored("encode"), 1e-5, "box_encode");
        close_to(gradient(code, x), stored("encode_grad"), 1e-4,
                 "its gradient");
        close_to(tn_tensor_grad(p), stored("encode_grad_p"), 1e-4,
                 "and that of the proposals");
        p = leaf(boxes_of(23, 3, 100, 60));
        tn_tensor *codes = leaf(noise(tn_dims(23, 8), 51, -8, 30, TN_F32));
        tn_tensor *out = tn_box_decode(codes, p, weights);
        close_to(out, stored("decode"), 1e-5, "box_decode");
        close_to(gradient(out, codes), stored("decode_grad"), 1e-4,
                 "its gradient");
        close_to(tn_tensor_grad(p), stored("decode_grad_p"), 1e-4,
                 "and that of the proposals");
        tn_tensor *a = boxes_of(9, 71, 50, 50);
        tn_tensor *q = boxes_of(9, 73, 50, 50);
        close_to(tn_box_decode(tn_box_encode(a, q, NULL), q, NULL), a, 1e-5,
                 "box_decode is the inverse of box_encode");
        tn_tensor *none = tn_box_decode(tn_zeros(tn_dims(0, 8)),
                                        tn_zeros(tn_dims(0, 4)), NULL);
        ok(none && tn_tensor_size(none, 1) == 8, "no codes");
    }
}

int main(void)
{
    plan_later();
    stored_open("vision/data/vision.gz");
    check_iou();
    check_losses();
    check_choosing();
    check_regions();
    check_many_regions();
    check_codes();
    check_differences("box_iou", iou);
    check_differences("distance_box_iou_loss", loss);
    check_differences("box_encode", encode);
    return done_testing();
}
