/* <tenon/metric.h>: metrics, collected over the batches of an epoch.
 *
 *     tn_metric *accuracy = tn_metric_accuracy();
 *     tn_metric *f1 = tn_metric_f1(10, .average = "macro");
 *     TN_NO_GRAD {
 *         TN_EACH_BATCH(batch, loader) {
 *             tn_tensor *out = tn_forward(net, batch.x);
 *             tn_metric_update(accuracy, out, batch.y);
 *             tn_metric_update(f1, out, batch.y);
 *         }
 *     }
 *     printf("%.3f %.3f\n", tn_metric_value(accuracy), tn_metric_value(f1));
 *     tn_metric_reset(accuracy);
 *
 * An update adds to tensors on the device of its arguments and does not wait
 * for the device; tn_metric_value waits. Updates record no gradient and ignore
 * autocast. The formulas are those of scikit-learn and torchmetrics.
 *
 * Threads: A metric belongs to one thread at a time.
 */
#ifndef TENON_METRIC_H
#define TENON_METRIC_H

#include <tenon/options.h>
#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_metric tn_metric;

/* Adds a batch. The arguments of classification metrics are
 *
 *   prediction  one of:
 *               (N, C, ...) floating-point: scores; the class with the largest
 *               score is predicted
 *               (N, ...) integer: predicted classes
 *               (N, ...) floating-point: probabilities of class 1
 *   target      (N, ...), an integer dtype or bool: classes from 0
 *
 * tn_metric_auroc, tn_metric_r2, tn_metric_mean and tn_metric_running_mean
 * describe their own arguments. On failure the metric is unchanged. Fails with
 * TN_ERR_STATE while an error is pending, TN_ERR_SHAPE or TN_ERR_DTYPE if the
 * arguments do not fit, TN_ERR_DEVICE if the batches are on several devices,
 * TN_ERR_INDEX for a class that is out of range (an asynchronous device may
 * report it later), and TN_ERR_MEMORY if memory runs out. */
TN_API tn_status tn_metric_update(tn_metric *metric, tn_tensor *prediction,
                                  tn_tensor *target);

/* Returns the metric of all batches since the last reset. Waits for the device.
 * Returns NAN on failure, with TN_ERR_STATE if there were no samples or the
 * metric is tn_metric_confusion, whose value is a matrix, or TN_ERR_MEMORY if
 * memory runs out. */
TN_API double tn_metric_value(tn_metric *metric);

/* Returns the confusion matrix of a metric that has classes: (classes, classes)
 * int64 on the metric's device. Row i, column j counts the samples of class i
 * that were predicted as class j. The open scope owns the result. Returns NULL
 * with TN_ERR_ARGUMENT for a metric without classes, with TN_ERR_STATE before
 * the first update. */
TN_API tn_tensor *tn_metric_matrix(tn_metric *metric);

/* Removes all batches from the metric. */
TN_API tn_status tn_metric_reset(tn_metric *metric);

/* Returns the metric's name, such as "accuracy" or "f1". Returns NULL if metric
 * is NULL. */
TN_API const char *tn_metric_name(const tn_metric *metric);

/* ---- the metrics ---------------------------------------------------------
 * Each call returns a metric owned by the open scope. It returns NULL with
 * TN_ERR_ARGUMENT if an option is out of range, with TN_ERR_MEMORY if memory
 * runs out. */

/* Options of tn_metric_accuracy:
 *
 *   top_k         a prediction is right if the target is among the k classes
 *                 with the largest scores
 *   threshold     a probability above it predicts class 1
 *   ignore_index  samples with this target are left out; may be negative */
#define TN_METRIC_ACCURACY_OPTIONS_LIST(X)                                    \
    X(int64_t, top_k, 1)                                                      \
    X(double, threshold, 0.5)                                                 \
    X(int64_t, ignore_index, TN_NONE_INT)
TN_OPTIONS_STRUCT(tn_metric_accuracy, TN_METRIC_ACCURACY_OPTIONS_LIST);
#define TN_METRIC_ACCURACY_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_metric_accuracy, TN_METRIC_ACCURACY_OPTIONS_LIST)
/* The fraction of samples whose prediction is right. */
TN_API tn_metric *
tn_metric_accuracy_with(const tn_metric_accuracy_options *options);

/* Options of tn_metric_precision, tn_metric_recall and tn_metric_f1:
 *
 *   average  "binary": the value of class 1, for 2 classes
 *            "micro": the formula is applied to tp, fp and fn, each summed over
 *            all classes
 *            "macro": the mean of the values of all classes that occur in a
 *            target or a prediction
 *            NULL: "binary" for 2 classes, else "macro"
 *   threshold, ignore_index  as for tn_metric_accuracy
 * A ratio 0 / 0 is 0. */
#define TN_METRIC_CLASSES_OPTIONS_LIST(X)                                     \
    X(const char *, average, NULL)                                            \
    X(double, threshold, 0.5)                                                 \
    X(int64_t, ignore_index, TN_NONE_INT)
TN_OPTIONS_STRUCT(tn_metric_precision, TN_METRIC_CLASSES_OPTIONS_LIST);
#define TN_METRIC_PRECISION_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_metric_precision, TN_METRIC_CLASSES_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_metric_recall, TN_METRIC_CLASSES_OPTIONS_LIST);
#define TN_METRIC_RECALL_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_metric_recall, TN_METRIC_CLASSES_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_metric_f1, TN_METRIC_CLASSES_OPTIONS_LIST);
#define TN_METRIC_F1_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_metric_f1, TN_METRIC_CLASSES_OPTIONS_LIST)
/* With tp, fp and fn the true positives, false positives and false negatives of
 * a class: precision tp / (tp + fp), recall tp / (tp + fn), F1 2 tp / (2 tp +
 * fp + fn). classes: 2 to 4096. */
TN_API tn_metric *
tn_metric_precision_with(int64_t classes,
                         const tn_metric_precision_options *options);
TN_API tn_metric *
tn_metric_recall_with(int64_t classes,
                      const tn_metric_recall_options *options);
TN_API tn_metric *tn_metric_f1_with(int64_t classes,
                                    const tn_metric_f1_options *options);

#define TN_METRIC_CONFUSION_OPTIONS_LIST(X)                                   \
    X(double, threshold, 0.5)                                                 \
    X(int64_t, ignore_index, TN_NONE_INT)
TN_OPTIONS_STRUCT(tn_metric_confusion, TN_METRIC_CONFUSION_OPTIONS_LIST);
#define TN_METRIC_CONFUSION_OPTIONS                                           \
    TN_OPTIONS_DEFAULTS(tn_metric_confusion, TN_METRIC_CONFUSION_OPTIONS_LIST)
TN_OPTIONS_STRUCT(tn_metric_mean_iou, TN_METRIC_CONFUSION_OPTIONS_LIST);
#define TN_METRIC_MEAN_IOU_OPTIONS                                            \
    TN_OPTIONS_DEFAULTS(tn_metric_mean_iou, TN_METRIC_CONFUSION_OPTIONS_LIST)
/* A metric that counts the confusion matrix only, for tn_metric_matrix. */
TN_API tn_metric *
tn_metric_confusion_with(int64_t classes,
                         const tn_metric_confusion_options *options);
/* The mean intersection over union of segmentations: tp / (tp + fp + fn),
 * averaged over the classes that are in a target or a prediction. */
TN_API tn_metric *
tn_metric_mean_iou_with(int64_t classes,
                        const tn_metric_mean_iou_options *options);

/* The area under the ROC curve: the probability that a sample of class 1 has a
 * larger score than a sample of class 0, where equal scores count as one half.
 * prediction: floating-point scores, shaped as target. target: 0 or 1. The
 * value is exact, so the metric stores all scores and targets. tn_metric_value
 * fails with TN_ERR_STATE if a class has no sample, with TN_ERR_ARGUMENT if a
 * score is NaN or a target is neither 0 nor 1. */
TN_API tn_metric *tn_metric_auroc(void);

/* The coefficient of determination, 1 - sum((y - p)^2) / sum((y - mean(y))^2),
 * for predictions p and targets y. prediction and target: floating-point, both
 * (N) or (N, outputs). The value is the mean over the outputs. If all targets
 * are equal, it is 1 if all predictions are exact, else 0. tn_metric_value
 * fails with TN_ERR_STATE for fewer than 2 samples. */
TN_API tn_metric *tn_metric_r2(void);

/* The mean of all elements of prediction in all updates, for losses.
 * prediction: a floating-point tensor of any shape. target: NULL, or weights
 * shaped as prediction, for the weighted mean. */
TN_API tn_metric *tn_metric_mean(void);

/* The mean over the last `window` updates (1 to 2^20) of the mean of
 * prediction. target: NULL. */
TN_API tn_metric *tn_metric_running_mean(int64_t window);

#ifndef __cplusplus
#define tn_metric_accuracy(...) TN_CALL_0(tn_metric_accuracy, __VA_ARGS__)
#define tn_metric_precision(...) TN_CALL_1(tn_metric_precision, __VA_ARGS__, )
#define tn_metric_recall(...) TN_CALL_1(tn_metric_recall, __VA_ARGS__, )
#define tn_metric_f1(...) TN_CALL_1(tn_metric_f1, __VA_ARGS__, )
#define tn_metric_confusion(...) TN_CALL_1(tn_metric_confusion, __VA_ARGS__, )
#define tn_metric_mean_iou(...) TN_CALL_1(tn_metric_mean_iou, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_0(tn_metric *, tn_metric_accuracy)
TN_OVERLOAD_1(tn_metric *, tn_metric_precision, int64_t)
TN_OVERLOAD_1(tn_metric *, tn_metric_recall, int64_t)
TN_OVERLOAD_1(tn_metric *, tn_metric_f1, int64_t)
TN_OVERLOAD_1(tn_metric *, tn_metric_confusion, int64_t)
TN_OVERLOAD_1(tn_metric *, tn_metric_mean_iou, int64_t)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
