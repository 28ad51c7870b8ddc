/* test_vision_calls.c: wrong arguments of the functions of <tenon/vision.h>. */
#include "stored.h"

#include <tenon/vision.h>

static tn_tensor *boxes, *scores, *image, *rois, *ints;

/* Calls with one tensor, for the checks that all of them share. */
typedef tn_tensor *(*unary)(tn_tensor *x);
static tn_tensor *nms(tn_tensor *x) { return tn_nms(x, scores, 0.5); }
static tn_tensor *nms2(tn_tensor *x) { return tn_nms(boxes, x, 0.5); }
static tn_tensor *batched(tn_tensor *x)
{
    return tn_batched_nms(x, scores, ints, 0.5);
}
static tn_tensor *batched3(tn_tensor *x)
{
    return tn_batched_nms(boxes, scores, x, 0.5);
}
static tn_tensor *small(tn_tensor *x) { return tn_remove_small_boxes(x, 1); }
static tn_tensor *clip(tn_tensor *x)
{
    return tn_clip_boxes_to_image(x, 10, 10);
}
static tn_tensor *convert(tn_tensor *x)
{
    return tn_box_convert(x, "xyxy", "xywh");
}
static tn_tensor *area(tn_tensor *x) { return tn_box_area(x); }
static tn_tensor *iou(tn_tensor *x) { return tn_box_iou(x, boxes); }
static tn_tensor *iou2(tn_tensor *x) { return tn_box_iou(boxes, x); }
static tn_tensor *giou(tn_tensor *x)
{
    return tn_generalized_box_iou(x, boxes);
}
static tn_tensor *diou(tn_tensor *x) { return tn_distance_box_iou(x, boxes); }
static tn_tensor *ciou(tn_tensor *x) { return tn_complete_box_iou(boxes, x); }
static tn_tensor *gloss(tn_tensor *x)
{
    return tn_generalized_box_iou_loss(x, boxes);
}
static tn_tensor *dloss(tn_tensor *x)
{
    return tn_distance_box_iou_loss(boxes, x);
}
static tn_tensor *closs(tn_tensor *x)
{
    return tn_complete_box_iou_loss(x, boxes);
}
static tn_tensor *focal(tn_tensor *x)
{
    return tn_sigmoid_focal_loss(x, scores);
}
static tn_tensor *focal2(tn_tensor *x)
{
    return tn_sigmoid_focal_loss(scores, x);
}
static tn_tensor *align(tn_tensor *x) { return tn_roi_align(x, rois, 2, 2); }
static tn_tensor *align2(tn_tensor *x) { return tn_roi_align(image, x, 2, 2); }
static tn_tensor *pool(tn_tensor *x) { return tn_roi_pool(x, rois, 2, 2); }
static tn_tensor *pool2(tn_tensor *x) { return tn_roi_pool(image, x, 2, 2); }
static tn_tensor *encode(tn_tensor *x)
{
    return tn_box_encode(x, boxes, NULL);
}
static tn_tensor *encode2(tn_tensor *x)
{
    return tn_box_encode(boxes, x, NULL);
}
static tn_tensor *decode(tn_tensor *x)
{
    return tn_box_decode(x, boxes, NULL);
}
static tn_tensor *decode2(tn_tensor *x)
{
    return tn_box_decode(boxes, x, NULL);
}
static tn_tensor *masks(tn_tensor *x) { return tn_masks_to_boxes(x); }

/* Columns: the call, the argument, whether it accepts floating-point numbers,
 * and whether it accepts integers. */
static const struct row {
    const char *call, *argument;
    unary f;
    bool floating, whole;
} rows[] = {
    {"nms", "boxes", nms, true, false},
    {"nms", "scores", nms2, true, false},
    {"batched_nms", "boxes", batched, true, false},
    {"batched_nms", "idxs", batched3, false, true},
    {"remove_small_boxes", "boxes", small, true, true},
    {"clip_boxes_to_image", "boxes", clip, true, true},
    {"box_convert", "boxes", convert, true, true},
    {"box_area", "boxes", area, true, true},
    {"box_iou", "boxes1", iou, true, true},
    {"box_iou", "boxes2", iou2, true, true},
    {"generalized_box_iou", "boxes1", giou, true, true},
    {"distance_box_iou", "boxes1", diou, true, true},
    {"complete_box_iou", "boxes2", ciou, true, true},
    {"generalized_box_iou_loss", "boxes1", gloss, true, true},
    {"distance_box_iou_loss", "boxes2", dloss, true, true},
    {"complete_box_iou_loss", "boxes1", closs, true, true},
    {"sigmoid_focal_loss", "inputs", focal, true, false},
    {"sigmoid_focal_loss", "targets", focal2, true, false},
    {"roi_align", "input", align, true, false},
    {"roi_align", "boxes", align2, true, true},
    {"roi_pool", "input", pool, true, false},
    {"roi_pool", "boxes", pool2, true, true},
    {"box_encode", "boxes", encode, true, false},
    {"box_encode", "proposals", encode2, true, false},
    {"box_decode", "codes", decode, true, false},
    {"box_decode", "proposals", decode2, true, true},
    {"masks_to_boxes", "masks", masks, true, true},
};

static void check_rows(void)
{
    tn_device *other = tn_device_open("reference");
    if (other == tn_device_current())
        other = tn_device_open("cpu");
    if (!other)
        bail_out("%s", tn_error());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        char text[100];
        TN_SCOPE(scope) {
            snprintf(text, sizeof text, "%s: %s is NULL", r->call,
                     r->argument);
            refused(!r->f(NULL), TN_ERR_ARGUMENT, text, text);
            snprintf(text, sizeof text, "%s: %s has ", r->call, r->argument);
            if (r->f != masks)
                refused(!r->f(tn_zeros(tn_dims(5, 4), .dtype = TN_BOOL)),
                        TN_ERR_DTYPE, text, "bool is rejected");
            if (!r->floating)
                refused(!r->f(tn_zeros(tn_dims(5))), TN_ERR_DTYPE, text,
                        "floating numbers are rejected");
            if (!r->whole)
                refused(!r->f(tn_zeros(tn_dims(5, 4), .dtype = TN_I64)),
                        TN_ERR_DTYPE, text, "integers are rejected");
            const tn_dtype dtype = r->floating ? TN_F32 : TN_I64;
            snprintf(text, sizeof text, "%s: ", r->call);
            refused(!r->f(tn_zeros(tn_dims(3, 3, 3, 3, 7), .dtype = dtype)),
                    TN_ERR_SHAPE, text, "a wrong shape is rejected");
            tn_tensor *moved = NULL;
            if (r->f != masks && r->f != small && r->f != clip &&
                r->f != convert && r->f != area)
                moved = tn_to(tn_zeros(tn_dims(5, 4), .dtype = dtype), other);
            if (!moved)
                continue;
            if (r->f == nms2 || r->f == batched3 || r->f == focal ||
                r->f == focal2)
                moved = tn_select(moved, 1, 0);
            else if (r->f == align || r->f == pool)
                moved = tn_to(image, other);
            else if (r->f == align2 || r->f == pool2)
                moved = tn_to(rois, other);
            snprintf(text, sizeof text, "but");
            refused(!r->f(moved), TN_ERR_DEVICE, text,
                    "another device is rejected");
        }
    }
}

static void check_numbers(void)
{
    TN_SCOPE(scope) {
        refused(!tn_nms(boxes, scores, NAN), TN_ERR_ARGUMENT, "NaN",
                "a threshold that is NaN");
        refused(!tn_nms(boxes, tn_zeros(tn_dims(4)), 0.5), TN_ERR_SHAPE,
                "scores has 4 elements, but there are 5 boxes",
                "too few scores");
        refused(!tn_batched_nms(boxes, scores, tn_zeros(tn_dims(6),
                                                        .dtype = TN_I64),
                                0.5),
                TN_ERR_SHAPE, "idxs has 6 elements", "too many classes");
        refused(!tn_clip_boxes_to_image(boxes, -1, 5), TN_ERR_ARGUMENT,
                "height is -1", "a negative height");
        refused(!tn_box_convert(boxes, "xyxy", "yxyx"), TN_ERR_ARGUMENT,
                "out_fmt is \"yxyx\"", "an unknown format");
        refused(!tn_box_convert(boxes, NULL, "xyxy"), TN_ERR_ARGUMENT,
                "in_fmt", "no format");
        refused(!tn_box_area(boxes, .fmt = "ltrb"), TN_ERR_ARGUMENT, "fmt",
                "an unknown format of areas");
        refused(!tn_box_iou(boxes, tn_zeros(tn_dims(2, 4), .dtype = TN_F64)),
                TN_ERR_DTYPE, "float64", "boxes of two dtypes");
        refused(!tn_box_iou(boxes, tn_zeros(tn_dims(4))), TN_ERR_SHAPE,
                "tn_unsqueeze", "a box that is no list");
        refused(!tn_distance_box_iou(boxes, boxes, .eps = -1), TN_ERR_ARGUMENT,
                "eps", "a negative eps");
        refused(!tn_complete_box_iou_loss(boxes, boxes, .reduction = "max"),
                TN_ERR_ARGUMENT, "reduction is \"max\"",
                "an unknown reduction");
        refused(!tn_generalized_box_iou_loss(boxes, tn_zeros(tn_dims(3, 4))),
                TN_ERR_SHAPE, "different shapes", "unequal numbers of boxes");
        refused(!tn_sigmoid_focal_loss(scores, scores, .alpha = 2),
                TN_ERR_ARGUMENT, "alpha is 2", "alpha above 1");
        refused(!tn_sigmoid_focal_loss(scores, scores, .gamma = -1),
                TN_ERR_ARGUMENT, "gamma is -1", "a negative gamma");
        refused(!tn_roi_align(image, rois, 0, 2), TN_ERR_ARGUMENT,
                "height is 0", "no rows");
        refused(!tn_roi_align(image, rois, 2, 5000), TN_ERR_ARGUMENT,
                "width is 5000", "too many columns");
        refused(!tn_roi_align(image, rois, 2, 2, .spatial_scale = -1),
                TN_ERR_ARGUMENT, "spatial_scale", "a negative scale");
        refused(!tn_roi_align(image, rois, 4096, 4096, .sampling_ratio = 9),
                TN_ERR_ARGUMENT, "more than 2^26 pixels", "too many samples");
        refused(!tn_roi_pool(image, rois, 4096, 4096), TN_ERR_ARGUMENT,
                "more than 2^26 pixels", "too many cells");
        const float wrong[][5] = {{2, 0, 0, 1, 1}, {-1, 0, 0, 1, 1},
                                  {0.5f, 0, 0, 1, 1}, {0, NAN, 0, 1, 1},
                                  {0, 0, 0, INFINITY, 1}};
        for (int i = 0; i < 5; i++) {
            tn_tensor *r = tn_tensor_from_array(wrong[i], TN_F32,
                                                tn_dims(1, 5));
            refused(!tn_roi_align(image, r, 2, 2),
                    i < 2 ? TN_ERR_INDEX : TN_ERR_ARGUMENT, "boxes[0]",
                    "a region that is not in an image");
            refused(!tn_roi_pool(image, r, 2, 2),
                    i < 2 ? TN_ERR_INDEX : TN_ERR_ARGUMENT, "boxes[0]",
                    "the same for roi_pool");
        }
        refused(!tn_roi_pool(tn_zeros(tn_dims(1, 3, 0, 5)), rois, 2, 2),
                TN_ERR_SHAPE, "no pixels", "an image without pixels");
        const double sizes[] = {1, -2};
        refused(!tn_anchors(2, 2, NULL, 1), TN_ERR_ARGUMENT, "sizes is NULL",
                "no sizes");
        refused(!tn_anchors(2, 2, sizes, 0), TN_ERR_ARGUMENT, "sizes",
                "an empty list of sizes");
        refused(!tn_anchors(2, 2, sizes, 2), TN_ERR_ARGUMENT, "sizes[1] is -2",
                "a negative size");
        refused(!tn_anchors(-2, 2, sizes, 1), TN_ERR_ARGUMENT, "rows",
                "negative rows");
        refused(!tn_anchors(2, INT64_MAX, sizes, 1), TN_ERR_ARGUMENT,
                "columns", "too many columns");
        refused(!tn_anchors(2, 2, sizes, 1, .stride = 0), TN_ERR_ARGUMENT,
                "stride", "a stride of 0");
        refused(!tn_anchors(2, 2, sizes, 1, .ratio_count = 2), TN_ERR_ARGUMENT,
                "ratios is NULL", "ratios that are missing");
        refused(!tn_anchors(2, 2, sizes, 1, .dtype = TN_I64), TN_ERR_DTYPE,
                "int64", "integer anchors");
        const double zero[] = {1, 1, 0, 1};
        refused(!tn_box_encode(boxes, boxes, zero), TN_ERR_ARGUMENT,
                "weights[2] is 0", "a weight of 0");
        refused(!tn_box_encode(boxes, tn_zeros(tn_dims(2, 4)), NULL),
                TN_ERR_SHAPE, "5 rows, but there are 2 proposals",
                "too few proposals");
        refused(!tn_box_decode(tn_zeros(tn_dims(5, 6)), boxes, NULL),
                TN_ERR_SHAPE, "multiple of 4", "codes of 6 columns");
        refused(!tn_box_decode(boxes, boxes, NULL, .clip = NAN),
                TN_ERR_ARGUMENT, "clip", "clip is NaN");
        ok(tn_nms(boxes, scores, 0.5) != NULL, "the next call works");
    }
}

int main(void)
{
    plan_later();
    boxes = tn_rand(tn_dims(5, 4));
    scores = tn_rand(tn_dims(5));
    ints = tn_zeros(tn_dims(5), .dtype = TN_I64);
    image = tn_rand(tn_dims(2, 3, 8, 8));
    rois = tn_zeros(tn_dims(4, 5));
    check_rows();
    check_numbers();
    return done_testing();
}
