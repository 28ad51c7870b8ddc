/* <tenon/vision.h>: boxes and regions of images.
 *
 * The functions have the names and formulas of torchvision.ops.
 *
 *     tn_tensor *keep = tn_nms(boxes, scores, 0.5);
 *     boxes = tn_index_select(boxes, 0, keep);
 *     tn_tensor *crops = tn_roi_align(features, boxes, 7, 7,
 *                                     .spatial_scale = 1.0 / 16,
 *                                     .sampling_ratio = 2, .aligned = true);
 *
 * A box is x1, y1, x2, y2 with x1 <= x2 and y1 <= y2, unless a format says
 * otherwise. Boxes are a tensor (..., 4). Formats:
 *
 *   "xyxy"    x1, y1, x2, y2
 *   "xywh"    x1, y1, width, height
 *   "cxcywh"  x of the center, y of the center, width, height
 *
 * Boxes are not checked: a box with x2 < x1 has a negative width, and NaN gives
 * NaN, as in torchvision. An empty list of boxes, (0, 4), is allowed
 * everywhere.
 *
 * Unless a function says otherwise: the open scope owns the result, the tensors
 * of a call are on one device, boxes may have any dtype but bool and f8, and
 * the functions are differentiable in all floating-point tensors. float16 and
 * bfloat16 boxes are computed, and results returned, in float32. The functions
 * return NULL with TN_ERR_SHAPE, TN_ERR_DTYPE or TN_ERR_DEVICE if a tensor does
 * not fit, TN_ERR_ARGUMENT if a number or a string is not allowed, or
 * TN_ERR_MEMORY.
 *
 * While an error is pending (error.h), functions that return a status do
 * nothing and return TN_ERR_STATE. Others work as usual, and the first error
 * stays.
 *
 * For the mean IoU of segmentations see tn_metric_mean_iou in
 * <tenon/metric.h>.
 *
 * Link with `pkg-config --libs tenon-media`.
 *
 * Threads: Any thread may call these functions. A tn_mean_ap belongs to one thread
 * at a time.
 */
#ifndef TENON_VISION_H
#define TENON_VISION_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- choosing boxes ------------------------------------------------------ */

/* Non-maximum suppression: goes through the boxes by descending score, and
 * removes each box whose IoU with a box selected before is greater than
 * iou_threshold.
 *
 *   boxes    (N, 4) floating-point
 *   scores   (N) floating-point; equal scores keep the order of the boxes; NaN
 *            is greater than all numbers
 *   returns  (K) int64: the indices of the selected boxes, by descending score,
 *            on the device of boxes
 *
 * Runs on the host: boxes and scores are transferred from a device, and the
 * result to it. Uses O(N) memory. No gradient. Source: torchvision.ops.nms. */
TN_API tn_tensor *tn_nms(tn_tensor *boxes, tn_tensor *scores,
                         double iou_threshold);
/* The same, where a box is compared to boxes of its own class only.
 *
 *   idxs     (N) integer: the class of each box
 *
 * Boxes keep their coordinates: torchvision moves the classes apart for up to
 * 1000 boxes, which rounds the coordinates.
 * Source: torchvision.ops.batched_nms. */
TN_API tn_tensor *tn_batched_nms(tn_tensor *boxes, tn_tensor *scores,
                                 tn_tensor *idxs, double iou_threshold);

/* Returns the indices of the boxes (N, 4) whose width and height are at least
 * min_size: (K) int64. Waits for the device. No gradient.
 * Source: torchvision.ops.remove_small_boxes. */
TN_API tn_tensor *tn_remove_small_boxes(tn_tensor *boxes, double min_size);

/* Clamps x to [0, width] and y to [0, height]. boxes (..., 4). The result has
 * the dtype of boxes. Source: torchvision.ops.clip_boxes_to_image. */
TN_API tn_tensor *tn_clip_boxes_to_image(tn_tensor *boxes, int64_t height,
                                         int64_t width);

/* Returns the smallest boxes around the nonzero elements of masks.
 *
 *   masks    (N, H, W) any dtype
 *   returns  (N, 4) float32: the smallest and largest column and row; zeros for
 *            a mask without nonzero elements
 *
 * No gradient. Source: torchvision.ops.masks_to_boxes. */
TN_API tn_tensor *tn_masks_to_boxes(tn_tensor *masks);

/* ---- geometry ------------------------------------------------------------ */

/* Converts boxes (..., 4) from one format to another. The result has the dtype
 * of boxes. Source: torchvision.ops.box_convert. */
TN_API tn_tensor *tn_box_convert(tn_tensor *boxes, const char *in_fmt,
                                 const char *out_fmt);

/* Option of tn_box_area and tn_box_iou:
 *   fmt   the format of the boxes */
#define TN_BOX_AREA_OPTIONS_LIST(X) X(const char *, fmt, "xyxy")
TN_OPTIONS_STRUCT(tn_box_area, TN_BOX_AREA_OPTIONS_LIST);
#define TN_BOX_AREA_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_box_area, TN_BOX_AREA_OPTIONS_LIST)
/* Returns the areas (...) of boxes (..., 4): int32 or int64 for integers.
 * Source: torchvision.ops.box_area. */
TN_API tn_tensor *tn_box_area_with(tn_tensor *boxes,
                                   const tn_box_area_options *options);

/* The next four compare each of N boxes with each of M boxes.
 *
 *   boxes1   (..., N, 4)
 *   boxes2   (..., M, 4) of the same dtype; the leading dimensions broadcast
 *   returns  (..., N, M) floating-point
 *
 * With I the area of the intersection, U the area of the union, C the smallest
 * box around both, d the distance of the centers and c the diagonal of C:
 *
 *   tn_box_iou              I / U
 *   tn_generalized_box_iou  I / U - (area(C) - U) / area(C)
 *   tn_distance_box_iou     I / U - d^2 / (c^2 + eps)
 *   tn_complete_box_iou     tn_distance_box_iou - alpha v, with
 *                           v = 4 / pi^2 (atan(w1 / h1) - atan(w2 / h2))^2 and
 *                           alpha = v / (1 - I / U + v + eps), which is a
 *                           constant for gradients
 *
 * 0 / 0 is NaN: two boxes without area have no IoU. Sources:
 * torchvision.ops, arXiv:1902.09630, arXiv:1911.08287. */
TN_OPTIONS_STRUCT(tn_box_iou, TN_BOX_AREA_OPTIONS_LIST);
#define TN_BOX_IOU_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_box_iou, TN_BOX_AREA_OPTIONS_LIST)
TN_API tn_tensor *tn_box_iou_with(tn_tensor *boxes1, tn_tensor *boxes2,
                                  const tn_box_iou_options *options);
TN_API tn_tensor *tn_generalized_box_iou(tn_tensor *boxes1,
                                         tn_tensor *boxes2);
#define TN_DISTANCE_BOX_IOU_OPTIONS_LIST(X) X(double, eps, 1e-7)
TN_OPTIONS_STRUCT(tn_distance_box_iou, TN_DISTANCE_BOX_IOU_OPTIONS_LIST);
#define TN_DISTANCE_BOX_IOU_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_distance_box_iou, TN_DISTANCE_BOX_IOU_OPTIONS_LIST)
TN_API tn_tensor *
tn_distance_box_iou_with(tn_tensor *boxes1, tn_tensor *boxes2,
                         const tn_distance_box_iou_options *options);
TN_OPTIONS_STRUCT(tn_complete_box_iou, TN_DISTANCE_BOX_IOU_OPTIONS_LIST);
#define TN_COMPLETE_BOX_IOU_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_complete_box_iou, TN_DISTANCE_BOX_IOU_OPTIONS_LIST)
TN_API tn_tensor *
tn_complete_box_iou_with(tn_tensor *boxes1, tn_tensor *boxes2,
                         const tn_complete_box_iou_options *options);

/* ---- losses -------------------------------------------------------------- */

/* Options of the losses of boxes:
 *   reduction  "none", "mean" or "sum"; "mean" of no boxes is 0
 *   eps        is added to divisors */
#define TN_BOX_IOU_LOSS_OPTIONS_LIST(X)                                       \
    X(const char *, reduction, "none")                                        \
    X(double, eps, 1e-7)
TN_OPTIONS_STRUCT(tn_generalized_box_iou_loss, TN_BOX_IOU_LOSS_OPTIONS_LIST);
#define TN_GENERALIZED_BOX_IOU_LOSS_OPTIONS                                   \
    TN_OPTIONS_DEFAULTS(tn_generalized_box_iou_loss,                          \
                        TN_BOX_IOU_LOSS_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_distance_box_iou_loss, TN_BOX_IOU_LOSS_OPTIONS_LIST);
#define TN_DISTANCE_BOX_IOU_LOSS_OPTIONS                                      \
    TN_OPTIONS_DEFAULTS(tn_distance_box_iou_loss, TN_BOX_IOU_LOSS_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_complete_box_iou_loss, TN_BOX_IOU_LOSS_OPTIONS_LIST);
#define TN_COMPLETE_BOX_IOU_LOSS_OPTIONS                                      \
    TN_OPTIONS_DEFAULTS(tn_complete_box_iou_loss, TN_BOX_IOU_LOSS_OPTIONS_LIST)
/* 1 minus the generalized, distance or complete IoU of box i of boxes1 and box
 * i of boxes2, both (..., 4). Boxes that do not overlap have intersection 0,
 * and eps is added to every divisor but the heights. Returns (...), or a scalar
 * with a reduction. Source: torchvision.ops. */
TN_API tn_tensor *tn_generalized_box_iou_loss_with(
    tn_tensor *boxes1, tn_tensor *boxes2,
    const tn_generalized_box_iou_loss_options *options);
TN_API tn_tensor *
tn_distance_box_iou_loss_with(tn_tensor *boxes1, tn_tensor *boxes2,
                              const tn_distance_box_iou_loss_options *options);
TN_API tn_tensor *
tn_complete_box_iou_loss_with(tn_tensor *boxes1, tn_tensor *boxes2,
                              const tn_complete_box_iou_loss_options *options);

/* Options of tn_sigmoid_focal_loss:
 *   alpha      weight of the positive samples, 0 to 1; the negative ones have
 *              the weight 1 - alpha. -1: no weights
 *   gamma      exponent of 1 - p, at least 0; p is the probability of the target
 *   reduction  "none", "mean" or "sum" */
#define TN_SIGMOID_FOCAL_LOSS_OPTIONS_LIST(X)                                 \
    X(double, alpha, 0.25)                                                    \
    X(double, gamma, 2)                                                       \
    X(const char *, reduction, "none")
TN_OPTIONS_STRUCT(tn_sigmoid_focal_loss, TN_SIGMOID_FOCAL_LOSS_OPTIONS_LIST);
#define TN_SIGMOID_FOCAL_LOSS_OPTIONS                                         \
    TN_OPTIONS_DEFAULTS(tn_sigmoid_focal_loss,                                \
                        TN_SIGMOID_FOCAL_LOSS_OPTIONS_LIST)
/* The focal loss of logits: -alpha_t (1 - p)^gamma log(p).
 *
 *   inputs   (...) floating-point
 *   targets  (...) of the shape and dtype of inputs: 0 or 1
 *
 * Sources: torchvision.ops.sigmoid_focal_loss, arXiv:1708.02002. */
TN_API tn_tensor *
tn_sigmoid_focal_loss_with(tn_tensor *inputs, tn_tensor *targets,
                           const tn_sigmoid_focal_loss_options *options);

/* ---- regions of images ----------------------------------------------------
 * Each region is cut from its image and resampled to height x width cells.
 *
 *   input    (N, C, H, W) float32, float64, float16 or bfloat16
 *   boxes    (K, 5): the index of the image, x1, y1, x2, y2; any dtype of boxes
 *   height, width   of the result, 1 to 4096
 *   returns  (K, C, height, width), dtype and device of input
 *
 * Coordinates are multiplied by spatial_scale, such as 1.0 / 16 for features
 * with a stride of 16. Differentiable in input, not in boxes. Boxes that are on
 * a device are transferred to the host. Fails with TN_ERR_INDEX if the index of
 * an image is out of range, TN_ERR_ARGUMENT if a coordinate is not finite or a
 * box reads more than 2^26 pixels (four for each sample of tn_roi_align). */

/* Options of tn_roi_align:
 *   sampling_ratio  samples in each direction of a cell; 0 or less: the size of
 *                   a cell in pixels, rounded up
 *   aligned         true: pixel i has its center at i + 0.5. false: at i, and
 *                   boxes have at least the size 1 */
#define TN_ROI_ALIGN_OPTIONS_LIST(X)                                          \
    X(double, spatial_scale, 1)                                               \
    X(int64_t, sampling_ratio, -1)                                            \
    X(bool, aligned, false)
TN_OPTIONS_STRUCT(tn_roi_align, TN_ROI_ALIGN_OPTIONS_LIST);
#define TN_ROI_ALIGN_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_roi_align, TN_ROI_ALIGN_OPTIONS_LIST)
/* Each cell is the mean of samples that are interpolated between four pixels. A
 * sample more than a pixel outside of the image is 0.
 * Sources: torchvision.ops.roi_align, arXiv:1703.06870. */
TN_API tn_tensor *tn_roi_align_with(tn_tensor *input, tn_tensor *boxes,
                                    int64_t height, int64_t width,
                                    const tn_roi_align_options *options);

#define TN_ROI_POOL_OPTIONS_LIST(X) X(double, spatial_scale, 1)
TN_OPTIONS_STRUCT(tn_roi_pool, TN_ROI_POOL_OPTIONS_LIST);
#define TN_ROI_POOL_OPTIONS                                                   \
    TN_OPTIONS_DEFAULTS(tn_roi_pool, TN_ROI_POOL_OPTIONS_LIST)
/* Each cell is the maximum of its pixels; of equal pixels the first gets the
 * gradient. A cell without pixels is 0.
 * Sources: torchvision.ops.roi_pool, arXiv:1504.08083. */
TN_API tn_tensor *tn_roi_pool_with(tn_tensor *input, tn_tensor *boxes,
                                   int64_t height, int64_t width,
                                   const tn_roi_pool_options *options);

/* ---- anchors and codes ---------------------------------------------------- */

/* Options of tn_anchors:
 *   ratios, ratio_count  heights divided by widths; NULL: 0.5, 1 and 2
 *   stride, strides      distance of neighbouring cells in pixels of the image;
 *                        strides = tn_dims(vertical, horizontal)
 *   dtype, device        of the result; device NULL: the current device */
#define TN_ANCHORS_OPTIONS_LIST(X)                                            \
    X(const double *, ratios, NULL)                                           \
    X(int, ratio_count, 0)                                                    \
    X(int64_t, stride, 1)                                                     \
    X(tn_dims_list, strides, TN_NONE_DIMS)                                    \
    X(tn_dtype, dtype, TN_F32)                                                \
    X(tn_device *, device, NULL)
TN_OPTIONS_STRUCT(tn_anchors, TN_ANCHORS_OPTIONS_LIST);
#define TN_ANCHORS_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_anchors, TN_ANCHORS_OPTIONS_LIST)
/* Returns the anchors of a feature map of rows x columns cells: boxes of all
 * sizes and ratios around the upper left corner of each cell, rounded to
 * integer coordinates.
 *
 *   sizes, size_count  square roots of the areas, in pixels
 *   returns            (rows * columns * ratio_count * size_count, 4), the
 *                      sizes varying fastest, then the ratios, then the columns
 *
 * For several feature maps, call it for each and concatenate the results.
 * Source: torchvision's AnchorGenerator. */
TN_API tn_tensor *tn_anchors_with(int64_t rows, int64_t columns,
                                  const double *sizes, int size_count,
                                  const tn_anchors_options *options);

/* Codes boxes relative to others (anchors, proposals): with centers x, y and
 * sizes w, h of boxes and xa, ya, wa, ha of proposals
 *
 *     wx (x - xa) / wa, wy (y - ya) / ha, ww log(w / wa), wh log(h / ha)
 *
 *   boxes, proposals  (N, 4) floating-point, of one dtype
 *   weights           wx, wy, ww, wh; NULL: all 1
 *   returns           (N, 4)
 *
 * Source: torchvision's BoxCoder, arXiv:1311.2524. */
TN_API tn_tensor *tn_box_encode(tn_tensor *boxes, tn_tensor *proposals,
                                const double *weights);

#define TN_BOX_DECODE_OPTIONS_LIST(X) X(double, clip, 4.135166556742356)
TN_OPTIONS_STRUCT(tn_box_decode, TN_BOX_DECODE_OPTIONS_LIST);
#define TN_BOX_DECODE_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_box_decode, TN_BOX_DECODE_OPTIONS_LIST)
/* The inverse of tn_box_encode. The third and fourth elements of a code,
 * divided by their weights, are clamped to at most .clip, log(1000 / 16) by
 * default.
 *
 *   codes      (N, 4 C) floating-point: C codes for each proposal
 *   proposals  (N, 4), converted to the dtype of codes
 *   returns    (N, 4 C) */
TN_API tn_tensor *tn_box_decode_with(tn_tensor *codes, tn_tensor *proposals,
                                     const double *weights,
                                     const tn_box_decode_options *options);

/* ---- mean average precision -----------------------------------------------
 *
 *     tn_mean_ap *metric = tn_mean_ap_new();
 *     for (each image)
 *         tn_mean_ap_update(metric, boxes, scores, labels, true_boxes, true_labels);
 *     tn_mean_ap_result r = {.size = sizeof r};
 *     if (tn_mean_ap_compute(metric, &r) == TN_OK)
 *         printf("AP %.3f, AP50 %.3f\n", r.ap, r.ap50);
 *
 * By default the result is that of COCO. For Pascal VOC:
 *
 *     tn_mean_ap *metric = tn_mean_ap_new(.iou_threshold = 0.5, .points = 0,
 *                              .max_detections = INT64_MAX);
 */
typedef struct tn_mean_ap tn_mean_ap;

/* Options of tn_mean_ap_new:
 *   iou_threshold   the only threshold, greater than 0 and at most 1. None: the
 *                   ten thresholds 0.5, 0.55 ... 0.95
 *   points          number of recalls from 0 to 1 over which the precision is
 *                   averaged: 101 (COCO) or 11 (VOC 2007). 0: the area under
 *                   the curve (VOC 2010)
 *   max_detections  detections that count for each image and class, those with
 *                   the largest scores */
#define TN_MEAN_AP_NEW_OPTIONS_LIST(X)                                            \
    X(double, iou_threshold, TN_NONE_FLOAT)                                   \
    X(int, points, 101)                                                       \
    X(int64_t, max_detections, 100)
TN_OPTIONS_STRUCT(tn_mean_ap_new, TN_MEAN_AP_NEW_OPTIONS_LIST);
#define TN_MEAN_AP_NEW_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_mean_ap_new, TN_MEAN_AP_NEW_OPTIONS_LIST)
/* Makes an empty metric, which the open scope owns. Returns NULL with
 * TN_ERR_ARGUMENT or TN_ERR_MEMORY. */
TN_API tn_mean_ap *tn_mean_ap_new_with(const tn_mean_ap_new_options *options);

/* Options of tn_mean_ap_update, for the true boxes of the image:
 *   crowd   (M) any dtype: nonzero marks a crowd. Detections in a crowd are
 *           ignored. NULL: none
 *   area    (M) floating-point: the areas by which boxes are small, medium or
 *           large (COCO: the areas of segmentations). NULL: the areas of the
 *           boxes */
#define TN_MEAN_AP_UPDATE_OPTIONS_LIST(X)                                         \
    X(tn_tensor *, crowd, NULL)                                               \
    X(tn_tensor *, area, NULL)
TN_OPTIONS_STRUCT(tn_mean_ap_update, TN_MEAN_AP_UPDATE_OPTIONS_LIST);
#define TN_MEAN_AP_UPDATE_OPTIONS                                                 \
    TN_OPTIONS_DEFAULTS(tn_mean_ap_update, TN_MEAN_AP_UPDATE_OPTIONS_LIST)
/* Adds an image: N detections and M true boxes.
 *
 *   boxes (N, 4), scores (N) floating-point, labels (N) integer
 *   true_boxes (M, 4), true_labels (M) integer
 *
 * N and M may be 0. The tensors may be on any devices, and are copied to the
 * host. Fails with TN_ERR_SHAPE or TN_ERR_DTYPE, TN_ERR_ARGUMENT if a number is
 * not finite, or TN_ERR_MEMORY. On failure the metric is unchanged. */
TN_API tn_status tn_mean_ap_update_with(tn_mean_ap *metric, tn_tensor *boxes,
                                    tn_tensor *scores, tn_tensor *labels,
                                    tn_tensor *true_boxes,
                                    tn_tensor *true_labels,
                                    const tn_mean_ap_update_options *options);

/* Averages over the classes that have true boxes. A value is -1 if it does not
 * exist: there is no true box (of this size), or the metric does not have this
 * threshold. */
typedef struct tn_mean_ap_result {
    size_t size;        /* sizeof(tn_mean_ap_result) */
    double ap;          /* average precision, all thresholds and sizes */
    double ap50, ap75;  /* at the IoU thresholds 0.5 and 0.75 */
    double ap_small, ap_medium, ap_large; /* areas up to 32^2, to 96^2, above */
    double ar1, ar10;   /* average recall with 1 and 10 detections per image */
    double ar;          /* and with max_detections */
    double ar_small, ar_medium, ar_large;
} tn_mean_ap_result;

/* Computes the result of all images so far, and fills the first
 * out_result->size bytes of *out_result. Set out_result->size =
 * sizeof(tn_mean_ap_result) first.
 * Fails with TN_ERR_ARGUMENT if out_result is NULL or its size is invalid,
 * TN_ERR_STATE if there was no image, or TN_ERR_MEMORY.
 * Source: pycocotools' COCOeval. */
TN_API tn_status tn_mean_ap_compute(tn_mean_ap *metric,
                                    tn_mean_ap_result *out_result);

/* Returns the average precision of each class in the order of labels: (K, 2)
 * float64 on the current device, with the label and its average precision at
 * all thresholds, or -1 if the class has no true box. Returns NULL like
 * tn_mean_ap_compute. */
TN_API tn_tensor *tn_mean_ap_classes(tn_mean_ap *metric);

/* Removes all images. */
TN_API tn_status tn_mean_ap_reset(tn_mean_ap *metric);

#ifndef __cplusplus
#define tn_box_area(...) TN_CALL_1(tn_box_area, __VA_ARGS__, )
#define tn_box_iou(...) TN_CALL_2(tn_box_iou, __VA_ARGS__, )
#define tn_distance_box_iou(...) TN_CALL_2(tn_distance_box_iou, __VA_ARGS__, )
#define tn_complete_box_iou(...) TN_CALL_2(tn_complete_box_iou, __VA_ARGS__, )
#define tn_generalized_box_iou_loss(...)                                      \
    TN_CALL_2(tn_generalized_box_iou_loss, __VA_ARGS__, )
#define tn_distance_box_iou_loss(...)                                         \
    TN_CALL_2(tn_distance_box_iou_loss, __VA_ARGS__, )
#define tn_complete_box_iou_loss(...)                                         \
    TN_CALL_2(tn_complete_box_iou_loss, __VA_ARGS__, )
#define tn_sigmoid_focal_loss(...)                                            \
    TN_CALL_2(tn_sigmoid_focal_loss, __VA_ARGS__, )
#define tn_roi_align(...) TN_CALL_4(tn_roi_align, __VA_ARGS__, )
#define tn_roi_pool(...) TN_CALL_4(tn_roi_pool, __VA_ARGS__, )
#define tn_anchors(...) TN_CALL_4(tn_anchors, __VA_ARGS__, )
#define tn_box_decode(...) TN_CALL_3(tn_box_decode, __VA_ARGS__, )
#define tn_mean_ap_new(...) TN_CALL_0(tn_mean_ap_new, __VA_ARGS__)
#define tn_mean_ap_update(...) TN_CALL_6(tn_mean_ap_update, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_tensor *, tn_box_area, tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_box_iou, tn_tensor *, tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_distance_box_iou, tn_tensor *, tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_complete_box_iou, tn_tensor *, tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_generalized_box_iou_loss, tn_tensor *,
              tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_distance_box_iou_loss, tn_tensor *, tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_complete_box_iou_loss, tn_tensor *, tn_tensor *)
TN_OVERLOAD_2(tn_tensor *, tn_sigmoid_focal_loss, tn_tensor *, tn_tensor *)
TN_OVERLOAD_4(tn_tensor *, tn_roi_align, tn_tensor *, tn_tensor *, int64_t,
              int64_t)
TN_OVERLOAD_4(tn_tensor *, tn_roi_pool, tn_tensor *, tn_tensor *, int64_t,
              int64_t)
TN_OVERLOAD_4(tn_tensor *, tn_anchors, int64_t, int64_t, const double *, int)
TN_OVERLOAD_3(tn_tensor *, tn_box_decode, tn_tensor *, tn_tensor *,
              const double *)
TN_OVERLOAD_0(tn_mean_ap *, tn_mean_ap_new)
TN_OVERLOAD_6(tn_status, tn_mean_ap_update, tn_mean_ap *, tn_tensor *, tn_tensor *,
              tn_tensor *, tn_tensor *, tn_tensor *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
