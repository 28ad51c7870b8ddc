/* test_mean_ap.c: tests that mean average precision equals that of
 * pycocotools. */
#include "stored.h"

#include <tenon/vision.h>

/* Adds image i of the data set of make_vision.py. */
static tn_status add_image(tn_mean_ap *m, int i)
{
    enum { MOST = 16 };
    double truth[MOST * 4], found[MOST * 4], score[MOST], area[MOST];
    int64_t class[MOST], guess[MOST], crowd[MOST] = {0};
    const int n = i % 6, k = i * 7 % 11;
    for (int j = 0; j < 4 * n; j++) {
        const uint32_t seed = 100 + 4 * (uint32_t)i,
                       at = (uint32_t)(j / 4 * 2 + j % 2);
        truth[j] = noise_at(at, seed, 0, 300);
        if (j % 4 >= 2)
            truth[j] += noise_at(at, seed + 1, 0.5, 150);
        truth[j] = (double)(float)truth[j];
    }
    for (int j = 0; j < n; j++) {
        const double *b = truth + 4 * j;
        class[j] = 1 + (int64_t)noise_at((uint32_t)j, 1000 + (uint32_t)i, 0, 3);
        area[j] = (b[2] - b[0]) * (b[3] - b[1]) * (i % 2 ? 0.7 : 1);
        crowd[j] = i % 5 == 4 && j == 0;
    }
    for (int j = 0; j < k; j++) {
        const int64_t g =
            (int64_t)noise_at((uint32_t)j, 5000 + (uint32_t)i, 0, 4);
        guess[j] = n && g < 3 ? class[j % n] : 1 + g % 3;
        score[j] = noise_at((uint32_t)j, 4000 + (uint32_t)i, 0, 1);
        for (int c = 0; c < 4; c++) {
            const uint32_t at = (uint32_t)(j * 2 + c % 2);
            const uint32_t seed = 3000 + (uint32_t)i;
            double x = n ? truth[4 * (j % n) + c] +
                               noise_at((uint32_t)(4 * j + c),
                                        2000 + (uint32_t)i, -15, 15)
                         : noise_at(at, seed, 0, 100) +
                               (c >= 2 ? noise_at(at, seed + 1, 0.5, 60) : 0);
            found[4 * j + c] = (double)(float)x;
        }
    }
    tn_status status = TN_OK;
    TN_SCOPE(scope) {
        tn_tensor *t = tn_tensor_from_array(truth, TN_F64, tn_dims(n, 4));
        status = tn_mean_ap_update(
            m, tn_tensor_from_array(found, TN_F64, tn_dims(k, 4)),
            tn_tensor_from_array(score, TN_F64, tn_dims(k)),
            tn_tensor_from_array(guess, TN_I64, tn_dims(k)), t,
            tn_tensor_from_array(class, TN_I64, tn_dims(n)),
            .crowd = tn_tensor_from_array(crowd, TN_I64, tn_dims(n)),
            .area = tn_tensor_from_array(area, TN_F64, tn_dims(n)));
    }
    return status;
}

static void fill(tn_mean_ap *m)
{
    for (int i = 0; i < 15; i++)
        if (add_image(m, i) < 0)
            bail_out("%s", tn_error());
}

static void check_coco(void)
{
    tn_mean_ap *m = tn_mean_ap_new();
    tn_mean_ap_result r = {.size = sizeof r};
    refused(tn_mean_ap_compute(m, &r) < 0, TN_ERR_STATE, "no image",
            "there is no result without images");
    fill(m);
    ok(tn_mean_ap_compute(m, &r) == TN_OK, "a result");
    tn_tensor *got = tn_tensor_from_array(&r.ap, TN_F64, tn_dims(12));
    close_to(got, stored("map"), 1e-6, "the 12 numbers of COCO");
    tn_tensor *each = tn_mean_ap_classes(m);
    ok(each && tn_tensor_size(each, 0) == 3, "three classes");
    close_to(tn_select(each, 1, 1), stored("map_classes"), 1e-6,
             "the average precision of each class");
    tn_mean_ap_result again = {.size = offsetof(tn_mean_ap_result, ap75)};
    again.ap75 = 7;
    ok(tn_mean_ap_compute(m, &again) == TN_OK && again.ap == r.ap &&
           again.ap75 == 7,
       "a shorter struct gets what it has room for");
    ok(tn_mean_ap_reset(m) == TN_OK, "reset");
    refused(tn_mean_ap_compute(m, &r) < 0, TN_ERR_STATE, "no image",
            "removes the images");
    fill(m);
    ok(tn_mean_ap_compute(m, &again) == TN_OK && again.ap == r.ap,
       "and the metric can be used again");
}

static void check_voc(void)
{
    double voc[2];
    tn_mean_ap_result r = {.size = sizeof r};
    if (tn_tensor_to_array(tn_to_dtype(stored("map_voc"), TN_F64), voc,
                           sizeof voc) < 0)
        bail_out("%s", tn_error());
    for (int i = 0; i < 2; i++) {
        tn_mean_ap *m = tn_mean_ap_new(.iou_threshold = 0.5,
                                       .points = i ? 11 : 0,
                                       .max_detections = INT64_MAX);
        fill(m);
        ok(tn_mean_ap_compute(m, &r) == TN_OK &&
               fabs(r.ap - voc[i]) < 1e-6 && r.ap50 == r.ap && r.ap75 == -1,
           "%s at IoU 0.5", i ? "eleven points" : "the area under the curve");
        note("%g, want %g", r.ap, voc[i]);
    }
}

static void check_simple(void)
{
    const float boxes[] = {0, 0, 10, 10, 20, 20, 40, 40};
    const int64_t labels[] = {3, 3};
    tn_tensor *b = tn_tensor_from_array(boxes, TN_F32, tn_dims(2, 4)),
              *l = tn_tensor_from_array(labels, TN_I64, tn_dims(2)),
              *s = tn_ones(tn_dims(2));
    tn_mean_ap *m = tn_mean_ap_new();
    tn_mean_ap_result r = {.size = sizeof r};
    ok(tn_mean_ap_update(m, b, s, l, b, l) == TN_OK &&
           tn_mean_ap_compute(m, &r) == TN_OK && fabs(r.ap - 1) < 1e-12 &&
           r.ap_large == -1 && r.ar1 == 0.5,
       "perfect detections have the precision 1");
    tn_tensor *none = tn_zeros(tn_dims(0, 4)), *no = tn_zeros(tn_dims(0)),
              *nolabel = tn_zeros(tn_dims(0), .dtype = TN_I64);
    m = tn_mean_ap_new();
    ok(tn_mean_ap_update(m, none, no, nolabel, none, nolabel) == TN_OK &&
           tn_mean_ap_compute(m, &r) == TN_OK && r.ap == -1 && r.ar == -1,
       "an image without boxes has no precision");
    ok(tn_mean_ap_update(m, b, s, l, none, nolabel) == TN_OK &&
           tn_mean_ap_compute(m, &r) == TN_OK && r.ap == -1,
       "nor has one with detections only");
    ok(tn_mean_ap_update(m, none, no, nolabel, b, l) == TN_OK &&
           tn_mean_ap_compute(m, &r) == TN_OK && r.ap == 0 && r.ar == 0,
       "boxes that are not found have the precision 0");

    refused(tn_mean_ap_update(NULL, b, s, l, b, l) < 0, TN_ERR_ARGUMENT,
            "metric", "no metric");
    refused(tn_mean_ap_update(m, NULL, s, l, b, l) < 0, TN_ERR_ARGUMENT,
            "boxes is NULL", "no boxes");
    refused(tn_mean_ap_update(m, b, tn_ones(tn_dims(3)), l, b, l) < 0,
            TN_ERR_SHAPE, "scores has 3 elements", "too many scores");
    refused(tn_mean_ap_update(m, b, s, s, b, l) < 0, TN_ERR_DTYPE,
            "labels has dtype float32", "floating labels");
    refused(tn_mean_ap_update(m, b, s, l, b, l, .crowd = tn_ones(tn_dims(3))) <
                0,
            TN_ERR_SHAPE, "crowd", "too many crowds");
    refused(tn_mean_ap_update(m, tn_full_like(b, NAN), s, l, b, l) < 0,
            TN_ERR_ARGUMENT, "not finite", "NaN");
    refused(tn_mean_ap_compute(m, NULL) < 0, TN_ERR_ARGUMENT, "out",
            "no result");
    refused(tn_mean_ap_compute(NULL, &r) < 0, TN_ERR_ARGUMENT, "metric",
            "no metric to compute");
    refused(!tn_mean_ap_classes(NULL), TN_ERR_ARGUMENT, "metric",
            "no metric with classes");
    refused(tn_mean_ap_reset(NULL) < 0, TN_ERR_ARGUMENT, "metric",
            "no metric to reset");
    refused(!tn_mean_ap_new(.iou_threshold = 0), TN_ERR_ARGUMENT,
            "iou_threshold", "a threshold of 0");
    refused(!tn_mean_ap_new(.points = -1), TN_ERR_ARGUMENT, "points",
            "a negative number of points");
    refused(!tn_mean_ap_new(.max_detections = 0), TN_ERR_ARGUMENT,
            "max_detections", "no detections");
    const double before = r.ap;
    ok(tn_mean_ap_compute(m, &r) == TN_OK && r.ap == before,
       "refused images change nothing");
}

int main(void)
{
    plan_later();
    stored_open("vision/data/vision.gz");
    TN_SCOPE(scope) check_coco();
    TN_SCOPE(scope) check_voc();
    TN_SCOPE(scope) check_simple();
    return done_testing();
}
