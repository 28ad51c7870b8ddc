/* metric_kinds.c: accuracy, the coefficient of determination, and means. */
#include <stdlib.h>
#include <train/metric_kind.h>

enum { MAX_WINDOW = 1 << 20 };

/* ---- accuracy: SUM is (right, counted), int64 ---------------------------- */

static tn_tensor *right_ones(const tn_metric *metric, tn_tensor *p,
                             tn_tensor *y)
{
    if (metric->top_k == 1)
        return tn_eq(tn__metric_predicted(metric, p, y), y);
    tn_tensor *best = NULL;
    tn_topk(p, metric->top_k, 1, true, false, &best);
    return tn_any(tn_eq(best, tn_unsqueeze(y, 1)), .dim = 1);
}

static bool accuracy_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!tn__metric_check_classes(p, y))
        return false;
    if (metric->top_k > 1 &&
        (!tn__metric_has_scores(p, y) || tn_tensor_size(p, 1) < metric->top_k))
        return TN__METRIC_REFUSE(
            TN_ERR_SHAPE, "prediction",
            "top_k %lld needs scores (N, C, ...) of at least %lld "
            "classes",
            (long long)metric->top_k, (long long)metric->top_k);
    y = tn_to_dtype(y, TN_I64);
    tn_tensor *right = right_ones(metric, p, y), *counted;
    if (metric->ignore_index != TN_NONE_INT) {
        counted = tn_ne_scalar(y, metric->ignore_index);
        right = tn_logical_and(right, counted);
    } else {
        counted = tn_ones_like(right);
    }
    tn_tensor *now = tn__metric_two_sums(right, counted),
              *sum = metric->state[TN__METRIC_SUM];
    return tn__metric_put(metric, TN__METRIC_SUM, sum ? tn_add(sum, now) : now);
}

static double accuracy_value(tn_metric *metric)
{
    double *sum = tn__metric_read(metric->state[TN__METRIC_SUM]);
    double value = !sum ? NAN
                   : sum[1] > 0
                       ? sum[0] / sum[1]
                       : TN__METRIC_NO_VALUE(TN_ERR_STATE, "no samples");
    free(sum);
    return value;
}

TN_OPTIONS_TYPE(tn_metric_accuracy, "metric_accuracy", "",
                TN_METRIC_ACCURACY_OPTIONS_LIST)

tn_metric *tn_metric_accuracy_with(const tn_metric_accuracy_options *options)
{
    static const tn__metric_kind kind = {"accuracy", accuracy_update,
                                         accuracy_value, true, false};
    tn_metric_accuracy_options o;
    if (tn_options_take(tn_metric_accuracy_type(), &o, options) < 0)
        return NULL;
    if (o.top_k < 1)
        return tn__metric_refuse_number("metric_accuracy", "top_k", o.top_k,
                                        "at least 1");
    tn_metric *metric = tn__metric_make(&kind);
    if (metric) {
        metric->top_k = o.top_k;
        metric->threshold = o.threshold;
        metric->ignore_index = o.ignore_index;
    }
    return metric;
}

/* ---- r2 -------------------------------------------------------------------
 * CENTRE (K) is the mean target of the first batch. It is subtracted from all
 * targets to avoid cancellation. SUM (3, K) holds the sums of the squared
 * errors, of the shifted targets and of their squares. */

static bool r2_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!tn__metric_check_equal(p, y))
        return false;
    int ndim = tn_tensor_ndim(p);
    if ((ndim != 1 && ndim != 2) || tn_tensor_size(p, 0) < 1 ||
        tn_tensor_size(p, -1) < 1)
        return TN__METRIC_REFUSE(
            TN_ERR_SHAPE, "prediction",
            "prediction has %d dimensions: expected (N) or (N, "
            "outputs) with at least one element",
            ndim);
    p = tn__metric_widened(ndim == 1 ? tn_unsqueeze(p, 1) : p);
    y = tn__metric_widened(ndim == 1 ? tn_unsqueeze(y, 1) : y);
    tn_tensor *sum = metric->state[TN__METRIC_SUM];
    if (sum && tn_tensor_size(sum, 1) != tn_tensor_size(p, 1))
        return TN__METRIC_REFUSE(
            TN_ERR_SHAPE, "prediction",
            "prediction has %lld outputs, earlier ones %lld",
            (long long)tn_tensor_size(p, 1), (long long)tn_tensor_size(sum, 1));
    if (!sum &&
        !tn__metric_put(metric, TN__METRIC_CENTRE, tn_mean(y, .dim = 0)))
        return false;
    tn_tensor *shifted = tn_sub(y, metric->state[TN__METRIC_CENTRE]);
    tn_tensor *part[] = {tn_square(tn_sub(y, p)), shifted, tn_square(shifted)};
    if (!tn__metric_add(metric, tn_sum(tn_stack(part, 3, 0), .dim = 1)))
        return false;
    metric->count += tn_tensor_size(p, 0);
    return true;
}

static double r2_value(tn_metric *metric)
{
    if (metric->count < 2)
        return TN__METRIC_NO_VALUE(TN_ERR_STATE,
                                   "r2: %lld samples; at least 2 are needed",
                                   (long long)metric->count);
    double *sum = tn__metric_read_sum(metric), value = 0,
           n = (double)metric->count;
    int64_t outputs = tn_tensor_size(metric->state[TN__METRIC_SUM], 1);
    for (int64_t k = 0; sum && k < outputs; k++) {
        double error = sum[k], mean = sum[outputs + k] / n;
        double spread = sum[2 * outputs + k] - n * mean * mean;
        value += spread > 0 ? 1 - error / spread : error > 0 ? 0 : 1;
    }
    bool good = sum != NULL;
    free(sum);
    return good ? value / (double)outputs : NAN;
}

tn_metric *tn_metric_r2(void)
{
    static const tn__metric_kind kind = {"r2", r2_update, r2_value, true,
                                         false};
    return tn__metric_make(&kind);
}

/* ---- mean: SUM is (sum of weighted values, sum of weights) --------------- */

static bool mean_update(tn_metric *metric, tn_tensor *p, tn_tensor *weight)
{
    if (!tn__metric_check_equal(p, weight))
        return false;
    p = tn__metric_widened(p);
    weight = weight ? tn_to_dtype(weight, tn_tensor_dtype(p)) : tn_ones_like(p);
    return tn__metric_add(metric,
                          tn__metric_two_sums(tn_mul(p, weight), weight));
}

static double mean_value(tn_metric *metric)
{
    double *sum = tn__metric_read_sum(metric);
    double value =
        !sum ? NAN
        : sum[1] != 0
            ? sum[0] / sum[1]
            : TN__METRIC_NO_VALUE(TN_ERR_STATE, "mean: the weights' sum is 0");
    free(sum);
    return value;
}

tn_metric *tn_metric_mean(void)
{
    static const tn__metric_kind kind = {"mean", mean_update, mean_value, false,
                                         false};
    return tn__metric_make(&kind);
}

/* ---- running mean: SUM is a ring buffer of `window` means ---------------- */

static bool running_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (y)
        return TN__METRIC_REFUSE(TN_ERR_ARGUMENT, "target",
                                 "a running mean has no target: give NULL");
    if (!tn__metric_check_equal(p, NULL))
        return false;
    p = tn__metric_widened(p);
    if (!metric->state[TN__METRIC_SUM] &&
        !tn__metric_put(
            metric, TN__METRIC_SUM,
            tn__metric_zeros(metric, metric->window, tn_tensor_dtype(p))))
        return false;
    if (!tn_copy_(tn_select(metric->state[TN__METRIC_SUM], 0,
                            metric->count % metric->window),
                  tn_mean(p)))
        return false;
    metric->count++;
    return true;
}

static double running_value(tn_metric *metric)
{
    double *ring = tn__metric_read(metric->state[TN__METRIC_SUM]), total = 0;
    int64_t count =
        metric->count < metric->window ? metric->count : metric->window;
    for (int64_t i = 0; ring && i < count; i++)
        total += ring[i];
    bool good = ring != NULL;
    free(ring);
    return good ? total / (double)count : NAN;
}

tn_metric *tn_metric_running_mean(int64_t window)
{
    static const tn__metric_kind kind = {"running_mean", running_update,
                                         running_value, false, false};
    if (window < 1 || window > MAX_WINDOW)
        return tn__metric_refuse_number("metric_running_mean", "window", window,
                                        "1 to 1048576");
    tn_metric *metric = tn__metric_make(&kind);
    if (metric)
        metric->window = window;
    return metric;
}
