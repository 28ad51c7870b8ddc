/* metric.c: the public calls on metrics, and code that the kinds of metrics
 * share. */
#include <inttypes.h>
#include <stdlib.h>
#include <tenon/autocast.h>
#include <tenon/autograd.h>
#include <train/metric_kind.h>

static void forget(tn_metric *metric)
{
    for (int i = 0; i < TN__METRIC_STATES; i++) {
        tn_drop(metric->state[i]);
        metric->state[i] = NULL;
    }
    for (size_t i = 0; i < metric->pair_count; i++) {
        tn_drop(metric->pair[i].score);
        tn_drop(metric->pair[i].label);
    }
    metric->pair_count = 0;
    metric->count = 0;
    metric->device = NULL;
}

static void metric_release(void *object)
{
    tn_metric *metric = object;
    forget(metric);
    free(metric->pair);
}

static const tn_object_class metric_class = {sizeof metric_class, "metric",
                                             sizeof(tn_metric), metric_release};

/* ---- shapes and dtypes --------------------------------------------------- */

static bool same_shape(const tn_tensor *a, const tn_tensor *b)
{
    if (tn_tensor_ndim(a) != tn_tensor_ndim(b))
        return false;
    for (int i = 0; i < tn_tensor_ndim(a); i++)
        if (tn_tensor_size(a, i) != tn_tensor_size(b, i))
            return false;
    return true;
}

/* Returns whether p is (N, C, ...) and y is (N, ...). */
bool tn__metric_has_scores(const tn_tensor *p, const tn_tensor *y)
{
    int ndim = tn_tensor_ndim(p);
    if (ndim < 2 || tn_tensor_ndim(y) != ndim - 1 ||
        !tn_dtype_is_floating(tn_tensor_dtype(p)))
        return false;
    for (int i = 0; i < ndim - 1; i++)
        if (tn_tensor_size(y, i) != tn_tensor_size(p, i ? i + 1 : 0))
            return false;
    return true;
}

bool tn__metric_check_classes(const tn_tensor *p, const tn_tensor *y)
{
    if (tn_dtype_is_floating(tn_tensor_dtype(y)))
        return TN__METRIC_REFUSE(TN_ERR_DTYPE, "target",
                                 "target is %s: classes must be integers",
                                 tn_dtype_name(tn_tensor_dtype(y)));
    if (!tn__metric_has_scores(p, y) && !same_shape(p, y))
        return TN__METRIC_REFUSE(
            TN_ERR_SHAPE, "prediction",
            "prediction has %d dimensions, target %d: expected "
            "scores (N, C, ...) with a target (N, ...), or two "
            "equal shapes",
            tn_tensor_ndim(p), tn_tensor_ndim(y));
    return true;
}

bool tn__metric_check_equal(const tn_tensor *p, const tn_tensor *y)
{
    if (!tn_dtype_is_floating(tn_tensor_dtype(p)))
        return TN__METRIC_REFUSE(TN_ERR_DTYPE, "prediction",
                                 "prediction is %s: expected a floating-point "
                                 "dtype",
                                 tn_dtype_name(tn_tensor_dtype(p)));
    if (y && !same_shape(p, y))
        return TN__METRIC_REFUSE(
            TN_ERR_SHAPE, "prediction",
            "prediction and target differ in shape: expected two "
            "equal shapes");
    return true;
}

/* Returns the predicted classes, shaped as y. */
tn_tensor *tn__metric_predicted(const tn_metric *metric, tn_tensor *p,
                                const tn_tensor *y)
{
    if (tn__metric_has_scores(p, y))
        return tn_argmax(p, .dim = 1);
    if (tn_dtype_is_floating(tn_tensor_dtype(p)))
        p = tn_gt_scalar(p, metric->threshold);
    return tn_to_dtype(p, TN_I64);
}

/* Returns (sum of a, sum of b) as a vector. */
tn_tensor *tn__metric_two_sums(tn_tensor *a, tn_tensor *b)
{
    return tn_stack((tn_tensor *[]){tn_sum(a), tn_sum(b)}, 2, 0);
}

/* ---- state --------------------------------------------------------------- */

/* Replaces a state tensor. */
bool tn__metric_put(tn_metric *metric, int which, tn_tensor *x)
{
    if (!x)
        return false;
    tn_keep(x);
    tn_drop(metric->state[which]);
    metric->state[which] = x;
    return true;
}

tn_tensor *tn__metric_zeros(const tn_metric *metric, int64_t count,
                            tn_dtype dtype)
{
    return tn_zeros(tn_dims(count), .dtype = dtype, .device = metric->device);
}

/* Converts types narrower than float32 to float32. */
tn_tensor *tn__metric_widened(tn_tensor *x)
{
    return tn_tensor_dtype(x) == TN_F64 ? x : tn_to_dtype(x, TN_F32);
}

/* Adds x to SUM, and the rounding errors of that addition to ERRORS (Neumaier's
 * summation; the errors are computed by Knuth's TwoSum). */
bool tn__metric_add(tn_metric *metric, tn_tensor *x)
{
    tn_tensor *sum = metric->state[TN__METRIC_SUM];
    if (!sum)
        return x &&
               tn__metric_put(metric, TN__METRIC_ERRORS, tn_zeros_like(x)) &&
               tn__metric_put(metric, TN__METRIC_SUM, tn_clone(x));
    tn_tensor *total = tn_add(sum, x), *part = tn_sub(total, sum);
    tn_tensor *lost = tn_add(tn_sub(sum, tn_sub(total, part)), tn_sub(x, part));
    tn_tensor *errors = tn_add(metric->state[TN__METRIC_ERRORS], lost);
    return total && errors &&
           tn__metric_put(metric, TN__METRIC_ERRORS, errors) &&
           tn__metric_put(metric, TN__METRIC_SUM, total);
}

/* Copies the elements of x to the host. Returns memory that the caller
 * frees. */
double *tn__metric_read(tn_tensor *x)
{
    int64_t count = x ? tn_tensor_numel(x) : 0;
    bool wide = tn_tensor_dtype(x) != TN_F32; /* a type of 8 bytes: float64 or
                                                 int64 */
    size_t bytes = (size_t)count * (wide ? sizeof(double) : sizeof(float));
    double *out = malloc((size_t)count * sizeof *out + 1);
    void *raw = malloc(bytes + 1);
    if (!out || !raw)
        tn_error_set(TN_ERR_MEMORY, "metric_value: out of memory");
    if (!x || !out || !raw || tn_tensor_to_array(x, raw, bytes) < 0) {
        free(out);
        free(raw);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = !wide                          ? (double)((float *)raw)[i]
                 : tn_tensor_dtype(x) == TN_F64 ? ((double *)raw)[i]
                                                : (double)((int64_t *)raw)[i];
    free(raw);
    return out;
}

/* Returns SUM + ERRORS on the host, in memory that the caller frees. */
double *tn__metric_read_sum(tn_metric *metric)
{
    double *sum = tn__metric_read(metric->state[TN__METRIC_SUM]);
    double *errors =
        sum ? tn__metric_read(metric->state[TN__METRIC_ERRORS]) : NULL;
    for (int64_t i = 0;
         errors && i < tn_tensor_numel(metric->state[TN__METRIC_SUM]); i++)
        sum[i] += errors[i];
    if (!errors) {
        free(sum);
        return NULL;
    }
    free(errors);
    return sum;
}

/* ---- calls --------------------------------------------------------------- */

static bool is_metric(const tn_metric *metric, const char *call)
{
    return tn_object_check(metric, &metric_class, call, "metric");
}

static bool check_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!tn_object_check_kind(p, "tensor", "metric_update", "prediction") ||
        ((y || metric->kind->needs_target) &&
         !tn_object_check_kind(y, "tensor", "metric_update", "target")))
        return false;
    tn_device *device = metric->device ? metric->device : tn_tensor_device(p);
    tn_tensor *odd = tn_tensor_device(p) != device        ? p
                     : y && tn_tensor_device(y) != device ? y
                                                          : NULL;
    if (odd)
        return TN__METRIC_REFUSE(
            TN_ERR_DEVICE, odd == p ? "prediction" : "target",
            "%s is on %s, the metric on %s: move it with tn_to()",
            odd == p ? "prediction" : "target",
            tn_device_name(tn_tensor_device(odd)), tn_device_name(device));
    return true;
}

tn_status tn_metric_update(tn_metric *metric, tn_tensor *prediction,
                           tn_tensor *target)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!is_metric(metric, "metric_update"))
        return tn_error_code();
    const tn_path *path =
        tn_path_enter(tn_path_join(tn_path_current(), metric->kind->name));
    tn_scope *scope = tn_scope_open();
    if (scope && check_update(metric, prediction, target)) {
        bool first = !metric->device;
        metric->device = tn_tensor_device(prediction);
        TN_NO_GRAD
        {
            TN_AUTOCAST(TN_DTYPE_NONE)
            {
                if (!metric->kind->update(metric, prediction, target) && first)
                    forget(metric);
            }
        }
    }
    tn_scope_close(scope);
    tn_path_enter(path);
    return tn_error_code();
}

double tn_metric_value(tn_metric *metric)
{
    if (tn_error() || !is_metric(metric, "metric_value"))
        return NAN;
    if (!metric->kind->value)
        return TN__METRIC_NO_VALUE(TN_ERR_STATE,
                                   "a confusion matrix is not a number: read "
                                   "it with tn_metric_matrix()");
    if (!metric->device)
        return TN__METRIC_NO_VALUE(TN_ERR_STATE,
                                   "%s: no samples: call tn_metric_update() "
                                   "first",
                                   metric->kind->name);
    tn_scope *scope = tn_scope_open();
    double value = scope ? metric->kind->value(metric) : NAN;
    tn_scope_close(scope);
    return value;
}

tn_tensor *tn_metric_matrix(tn_metric *metric)
{
    if (tn_error() || !is_metric(metric, "metric_matrix"))
        return NULL;
    if (!metric->kind->has_classes || !metric->state[TN__METRIC_SUM]) {
        tn_error_refuse_argument(
            metric->kind->has_classes ? TN_ERR_STATE : TN_ERR_ARGUMENT,
            "metric_matrix", "metric",
            metric->kind->has_classes
                ? "%s: no samples: call tn_metric_update() first"
                : "%s has no classes: make a tn_metric_confusion()",
            metric->kind->name);
        return NULL;
    }
    return tn_clone(tn_reshape(metric->state[TN__METRIC_SUM],
                               tn_dims(metric->classes, metric->classes)));
}

tn_status tn_metric_reset(tn_metric *metric)
{
    if (!is_metric(metric, "metric_reset"))
        return tn_error_code();
    forget(metric);
    return TN_OK;
}

const char *tn_metric_name(const tn_metric *metric)
{
    return metric && is_metric(metric, "metric_name") ? metric->kind->name
                                                      : NULL;
}

/* ---- making -------------------------------------------------------------- */

tn_metric *tn__metric_make(const tn__metric_kind *kind)
{
    tn_metric *metric = tn_object_new(&metric_class, 0);
    if (metric) {
        metric->kind = kind;
        metric->ignore_index = TN_NONE_INT;
        metric->threshold = 0.5;
        metric->top_k = 1;
    }
    return metric;
}

tn_metric *tn__metric_refuse(const char *call, const char *argument,
                             const char *why)
{
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument, "%s", why);
    return NULL;
}

tn_metric *tn__metric_refuse_number(const char *call, const char *argument,
                                    int64_t value, const char *expected)
{
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                             "%s is %" PRId64 "; expected %s", argument, value,
                             expected);
    return NULL;
}
