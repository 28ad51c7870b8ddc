/* metric_classes.c: metrics that are computed from the confusion matrix. SUM is
 * that matrix, (classes^2), int64. */
#include <stdlib.h>
#include <string.h>
#include <train/metric_kind.h>

enum { MAX_CLASSES = 4096 };

static tn_tensor *flat(tn_tensor *x)
{
    return tn_reshape(x, tn_dims(-1));
}

/* Returns a bool tensor, true where x is not a class. The caller replaces these
 * elements by -1, which scatter_add reports as out of range. */
static tn_tensor *out_of_range(const tn_metric *metric, tn_tensor *x)
{
    return tn_logical_or(tn_lt_scalar(x, 0), tn_ge_scalar(x, metric->classes));
}

static bool classes_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!tn__metric_check_classes(p, y))
        return false;
    if (tn__metric_has_scores(p, y) && tn_tensor_size(p, 1) != metric->classes)
        return TN__METRIC_REFUSE(
            TN_ERR_SHAPE, "prediction",
            "prediction has scores of %lld classes, the metric has "
            "%lld classes",
            (long long)tn_tensor_size(p, 1), (long long)metric->classes);
    y = tn_to_dtype(y, TN_I64);
    p = tn__metric_predicted(metric, p, y);
    tn_tensor *at = tn_add(tn_mul_scalar(y, metric->classes), p);
    at = tn_masked_fill_scalar(
        at, tn_logical_or(out_of_range(metric, p), out_of_range(metric, y)),
        -1);
    tn_tensor *one = tn_ones_like(at);
    if (metric->ignore_index != TN_NONE_INT) {
        tn_tensor *ignored = tn_eq_scalar(y, metric->ignore_index);
        at = tn_masked_fill_scalar(at, ignored, 0);
        one = tn_masked_fill_scalar(one, ignored, 0);
    }
    tn_tensor *sum = metric->state[TN__METRIC_SUM];
    if (!sum)
        sum =
            tn__metric_zeros(metric, metric->classes * metric->classes, TN_I64);
    return tn__metric_put(metric, TN__METRIC_SUM,
                          tn_scatter_add(sum, 0, flat(at), flat(one)));
}

/* The true positives, false positives and false negatives of one class. */
typedef struct counts {
    double tp, fp, fn;
} counts;

static counts class_counts(const double *matrix, int64_t classes, int64_t k)
{
    counts c = {.tp = matrix[k * classes + k]};
    for (int64_t i = 0; i < classes; i++) {
        c.fp += i == k ? 0 : matrix[i * classes + k];
        c.fn += i == k ? 0 : matrix[k * classes + i];
    }
    return c;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}
static double precision_of(counts c)
{
    return ratio(c.tp, c.tp + c.fp);
}
static double recall_of(counts c)
{
    return ratio(c.tp, c.tp + c.fn);
}
static double f1_of(counts c)
{
    return ratio(2 * c.tp, 2 * c.tp + c.fp + c.fn);
}
static double iou_of(counts c)
{
    return ratio(c.tp, c.tp + c.fp + c.fn);
}

static double averaged(const tn_metric *metric, const double *matrix,
                       double (*of)(counts))
{
    counts sum = {0};
    double total = 0, seen = 0;
    for (int64_t k = 0; k < metric->classes; k++) {
        counts c = class_counts(matrix, metric->classes, k);
        if (metric->average == 'b' && k == 1)
            return of(c);
        sum.tp += c.tp;
        sum.fp += c.fp;
        sum.fn += c.fn;
        if (c.tp + c.fp + c.fn > 0) {
            total += of(c);
            seen++;
        }
    }
    if (seen == 0)
        return TN__METRIC_NO_VALUE(TN_ERR_STATE, "no samples");
    return metric->average == 'i' ? of(sum) : total / seen;
}

static double classes_value(tn_metric *metric, double (*of)(counts))
{
    double *matrix = tn__metric_read(metric->state[TN__METRIC_SUM]);
    double value = matrix ? averaged(metric, matrix, of) : NAN;
    free(matrix);
    return value;
}
static double precision_value(tn_metric *metric)
{
    return classes_value(metric, precision_of);
}
static double recall_value(tn_metric *metric)
{
    return classes_value(metric, recall_of);
}
static double f1_value(tn_metric *metric)
{
    return classes_value(metric, f1_of);
}
static double iou_value(tn_metric *metric)
{
    return classes_value(metric, iou_of);
}
static tn_metric *make_classes(const tn__metric_kind *kind, const char *call,
                               int64_t classes, const char *average,
                               double threshold, int64_t ignore_index)
{
    if (classes < 2 || classes > MAX_CLASSES)
        return tn__metric_refuse_number(call, "classes", classes, "2 to 4096");
    if (!average)
        average = classes == 2 ? "binary" : "macro";
    bool binary = strcmp(average, "binary") == 0,
         micro = strcmp(average, "micro") == 0;
    if (!binary && !micro && strcmp(average, "macro") != 0)
        return tn_error_refuse_argument(
                   TN_ERR_ARGUMENT, call, "average",
                   "average is \"%.60s\"; expected \"binary\", \"micro\" or "
                   "\"macro\"", average),
               NULL;
    if (binary && classes != 2)
        return tn__metric_refuse(
            call, "average",
            "average is \"binary\", which needs 2 classes; expected \"macro\" "
            "or \"micro\" for more");
    tn_metric *metric = tn__metric_make(kind);
    if (metric) {
        metric->classes = classes;
        metric->average = binary ? 'b' : micro ? 'i' : 'a';
        metric->threshold = threshold;
        metric->ignore_index = ignore_index;
    }
    return metric;
}

#define CLASSES(function, value, list, chosen)                                 \
    TN_OPTIONS_TYPE(tn_metric_##function, "metric_" #function, "classes",      \
                    list)                                                      \
    tn_metric *tn_metric_##function##_with(                                    \
        int64_t classes, const tn_metric_##function##_options *options)        \
    {                                                                          \
        static const tn__metric_kind kind = {#function, classes_update, value, \
                                             true, true};                      \
        tn_metric_##function##_options o;                                      \
        if (tn_options_take(tn_metric_##function##_type(), &o, options) < 0)   \
            return NULL;                                                       \
        return make_classes(&kind, "metric_" #function, classes, chosen,       \
                            o.threshold, o.ignore_index);                      \
    }
CLASSES(precision, precision_value, TN_METRIC_CLASSES_OPTIONS_LIST, o.average)
CLASSES(recall, recall_value, TN_METRIC_CLASSES_OPTIONS_LIST, o.average)
CLASSES(f1, f1_value, TN_METRIC_CLASSES_OPTIONS_LIST, o.average)
CLASSES(confusion, NULL, TN_METRIC_CONFUSION_OPTIONS_LIST, "macro")
CLASSES(mean_iou, iou_value, TN_METRIC_CONFUSION_OPTIONS_LIST, "macro")
