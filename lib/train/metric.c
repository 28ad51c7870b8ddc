/* metric.c: metrics over many batches.
 *
 * A metric consists of sums over samples, held in tensors on the samples'
 * device, and a function that computes the value from them on the host. For
 * floating sums, a second tensor holds the accumulated rounding errors
 * (compensated summation), because not every device has float64. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autocast.h>
#include <tenon/autograd.h>
#include <tenon/metric.h>
#include <tenon/ops.h>

/* Indices of a metric's state tensors. The headings of the metrics below say
 * what SUM holds. */
enum { SUM, ERRORS, CENTRE, STATES };
enum { MAX_CLASSES = 4096, MAX_WINDOW = 1 << 20 };

typedef struct metric_kind metric_kind;
struct tn_metric {
    tn_object object;
    const metric_kind *kind;
    int64_t classes, top_k, window, ignore_index;
    double threshold;
    char average;             /* 'b' binary, 'i' micro, 'a' macro */
    tn_device *device;        /* device of the first update; NULL before it */
    tn_tensor *state[STATES]; /* references; NULL before the first update */
    int64_t count;            /* number of samples or updates */
    struct pair {
        tn_tensor *score, *label; /* counted reference */
    } * pair;
    size_t pair_count, pair_room;
};

struct metric_kind {
    const char *name;
    bool (*update)(tn_metric *metric, tn_tensor *p, tn_tensor *y);
    double (*value)(tn_metric *metric);
    bool needs_target, has_classes;
};

static void forget(tn_metric *metric)
{
    for (int i = 0; i < STATES; i++) {
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

#define REFUSE(code, argument, ...)                                            \
    (tn_error_refuse_argument(code, "metric_update", argument, __VA_ARGS__),   \
     false)
#define NO_VALUE(code, ...)                                                    \
    (tn_error_refuse_argument(code, "metric_value", "metric", __VA_ARGS__),    \
     (double)NAN)

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
static bool has_scores(const tn_tensor *p, const tn_tensor *y)
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

static bool check_classes(const tn_tensor *p, const tn_tensor *y)
{
    if (tn_dtype_is_floating(tn_tensor_dtype(y)))
        return REFUSE(TN_ERR_DTYPE, "target",
                      "target is %s: classes must be integers",
                      tn_dtype_name(tn_tensor_dtype(y)));
    if (!has_scores(p, y) && !same_shape(p, y))
        return REFUSE(TN_ERR_SHAPE, "prediction",
                      "prediction has %d dimensions, target %d: expected "
                      "scores (N, C, ...) with a target (N, ...), or two "
                      "equal shapes",
                      tn_tensor_ndim(p), tn_tensor_ndim(y));
    return true;
}

static bool check_equal(const tn_tensor *p, const tn_tensor *y)
{
    if (!tn_dtype_is_floating(tn_tensor_dtype(p)))
        return REFUSE(TN_ERR_DTYPE, "prediction",
                      "prediction is %s: expected a floating dtype",
                      tn_dtype_name(tn_tensor_dtype(p)));
    if (y && !same_shape(p, y))
        return REFUSE(TN_ERR_SHAPE, "prediction",
                      "prediction and target differ in shape: expected two "
                      "equal shapes");
    return true;
}

/* Returns the predicted classes, shaped as y. */
static tn_tensor *predicted(const tn_metric *metric, tn_tensor *p,
                            const tn_tensor *y)
{
    if (has_scores(p, y))
        return tn_argmax(p, .dim = 1);
    if (tn_dtype_is_floating(tn_tensor_dtype(p)))
        p = tn_gt_scalar(p, metric->threshold);
    return tn_to_dtype(p, TN_I64);
}

static tn_tensor *flat(tn_tensor *x)
{
    return tn_reshape(x, tn_dims(-1));
}

/* Returns (sum of a, sum of b) as a vector. */
static tn_tensor *two_sums(tn_tensor *a, tn_tensor *b)
{
    return tn_stack((tn_tensor *[]){tn_sum(a), tn_sum(b)}, 2, 0);
}

/* ---- state --------------------------------------------------------------- */

/* Replaces a state tensor. */
static bool put(tn_metric *metric, int which, tn_tensor *x)
{
    if (!x)
        return false;
    tn_keep(x);
    tn_drop(metric->state[which]);
    metric->state[which] = x;
    return true;
}

static tn_tensor *zeros(const tn_metric *metric, int64_t count, tn_dtype dtype)
{
    return tn_zeros(tn_dims(count), .dtype = dtype, .device = metric->device);
}

/* Converts types narrower than float32 to float32. */
static tn_tensor *widened(tn_tensor *x)
{
    return tn_tensor_dtype(x) == TN_F64 ? x : tn_to_dtype(x, TN_F32);
}

/* Adds x to SUM, and the rounding errors of that addition to ERRORS (Neumaier's
 * summation; the errors are computed by Knuth's TwoSum). */
static bool add(tn_metric *metric, tn_tensor *x)
{
    tn_tensor *sum = metric->state[SUM];
    if (!sum)
        return x && put(metric, ERRORS, tn_zeros_like(x)) &&
               put(metric, SUM, tn_clone(x));
    tn_tensor *total = tn_add(sum, x), *part = tn_sub(total, sum);
    tn_tensor *lost = tn_add(tn_sub(sum, tn_sub(total, part)), tn_sub(x, part));
    tn_tensor *errors = tn_add(metric->state[ERRORS], lost);
    return total && errors && put(metric, ERRORS, errors) &&
           put(metric, SUM, total);
}

/* Copies the elements of x to the host. Returns memory that the caller
 * frees. */
static double *read(tn_tensor *x)
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
static double *read_sum(tn_metric *metric)
{
    double *sum = read(metric->state[SUM]);
    double *errors = sum ? read(metric->state[ERRORS]) : NULL;
    for (int64_t i = 0; errors && i < tn_tensor_numel(metric->state[SUM]); i++)
        sum[i] += errors[i];
    if (!errors) {
        free(sum);
        return NULL;
    }
    free(errors);
    return sum;
}

/* ---- accuracy: SUM is (right, counted), int64 ---------------------------- */

static tn_tensor *right_ones(const tn_metric *metric, tn_tensor *p,
                             tn_tensor *y)
{
    if (metric->top_k == 1)
        return tn_eq(predicted(metric, p, y), y);
    tn_tensor *best = NULL;
    tn_topk(p, metric->top_k, 1, true, false, &best);
    return tn_any(tn_eq(best, tn_unsqueeze(y, 1)), .dim = 1);
}

static bool accuracy_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!check_classes(p, y))
        return false;
    if (metric->top_k > 1 &&
        (!has_scores(p, y) || tn_tensor_size(p, 1) < metric->top_k))
        return REFUSE(TN_ERR_SHAPE, "prediction",
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
    tn_tensor *now = two_sums(right, counted), *sum = metric->state[SUM];
    return put(metric, SUM, sum ? tn_add(sum, now) : now);
}

static double accuracy_value(tn_metric *metric)
{
    double *sum = read(metric->state[SUM]);
    double value = !sum         ? NAN
                   : sum[1] > 0 ? sum[0] / sum[1]
                                : NO_VALUE(TN_ERR_STATE, "no samples");
    free(sum);
    return value;
}

/* ---- classes: SUM is the confusion matrix, (classes^2), int64 ------------ */

/* Returns a bool tensor, true where x is not a class. The caller replaces these
 * elements by -1, which scatter_add reports as out of range. */
static tn_tensor *out_of_range(const tn_metric *metric, tn_tensor *x)
{
    return tn_logical_or(tn_lt_scalar(x, 0), tn_ge_scalar(x, metric->classes));
}

static bool classes_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!check_classes(p, y))
        return false;
    if (has_scores(p, y) && tn_tensor_size(p, 1) != metric->classes)
        return REFUSE(TN_ERR_SHAPE, "prediction",
                      "prediction has scores of %lld classes, the metric has "
                      "%lld classes",
                      (long long)tn_tensor_size(p, 1),
                      (long long)metric->classes);
    y = tn_to_dtype(y, TN_I64);
    p = predicted(metric, p, y);
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
    tn_tensor *sum = metric->state[SUM];
    if (!sum)
        sum = zeros(metric, metric->classes * metric->classes, TN_I64);
    return put(metric, SUM, tn_scatter_add(sum, 0, flat(at), flat(one)));
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
        return NO_VALUE(TN_ERR_STATE, "no samples");
    return metric->average == 'i' ? of(sum) : total / seen;
}

static double classes_value(tn_metric *metric, double (*of)(counts))
{
    double *matrix = read(metric->state[SUM]);
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
static double confusion_value(tn_metric *metric)
{
    (void)metric;
    return NO_VALUE(TN_ERR_STATE,
                    "a confusion matrix is no number: read it with "
                    "tn_metric_matrix()");
}

/* ---- auroc: pair[] holds all scores and targets -------------------------- */

static bool auroc_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!check_classes(p, y) || !check_equal(p, y))
        return false;
    if (metric->pair_count == metric->pair_room) {
        size_t room = metric->pair_room ? metric->pair_room * 2 : 16;
        struct pair *pair = realloc(metric->pair, room * sizeof *pair);
        if (!pair)
            return REFUSE(TN_ERR_MEMORY, NULL, "out of memory");
        metric->pair = pair;
        metric->pair_room = room;
    }
    p = tn_clone(widened(p));
    y = tn_clone(tn_to_dtype(y, TN_I64));
    if (!p || !y)
        return false;
    metric->pair[metric->pair_count++] = (struct pair){tn_keep(p), tn_keep(y)};
    return true;
}

typedef struct sample {
    double score;
    bool positive;
} sample;

static int by_score(const void *a, const void *b)
{
    double x = ((const sample *)a)->score, y = ((const sample *)b)->score;
    return (x > y) - (x < y);
}

/* Returns the area under the ROC curve: Mann and Whitney's U divided by the
 * number of pairs of a positive and a negative sample. Equal scores count one
 * half. */
static double area(sample *s, size_t count)
{
    qsort(s, count, sizeof *s, by_score);
    double below = 0, wins = 0, positives = 0; /* below: samples of class 0 with
                                                  lower scores */
    for (size_t i = 0, end; i < count; i = end) {
        double here[2] = {0};
        for (end = i; end < count && s[end].score == s[i].score; end++)
            here[s[end].positive]++;
        wins += here[1] * (below + here[0] / 2);
        below += here[0];
        positives += here[1];
    }
    if (below == 0 || positives == 0)
        return NO_VALUE(TN_ERR_STATE,
                        "auroc: all %zu targets are %d: samples "
                        "of both classes are needed",
                        count, positives > 0);
    return wins / (below * positives);
}

/* Appends the scores and labels of one update to the samples. */
static bool append(sample *s, size_t *count, const struct pair *pair)
{
    double *score = read(pair->score),
           *label = score ? read(pair->label) : NULL;
    bool good = label != NULL;
    for (int64_t i = 0; good && i < tn_tensor_numel(pair->score); i++) {
        good = !isnan(score[i]) && (label[i] == 0 || label[i] == 1);
        if (!good)
            tn_error_refuse_argument(
                TN_ERR_ARGUMENT, "metric_value", "metric",
                "auroc: a sample has score %g and target %g: expected a "
                "number, and 0 or 1",
                score[i], label[i]);
        else
            s[(*count)++] = (sample){score[i], label[i] == 1};
    }
    free(score);
    free(label);
    return good;
}

static double auroc_value(tn_metric *metric)
{
    size_t total = 0, count = 0;
    for (size_t i = 0; i < metric->pair_count; i++)
        total += (size_t)tn_tensor_numel(metric->pair[i].score);
    sample *s = malloc(total * sizeof *s + 1);
    if (!s)
        return NO_VALUE(TN_ERR_MEMORY, "out of memory");
    bool good = true;
    for (size_t i = 0; i < metric->pair_count && good; i++)
        good = append(s, &count, &metric->pair[i]);
    double value = good ? area(s, count) : NAN;
    free(s);
    return value;
}

/* ---- r2 -------------------------------------------------------------------
 * CENTRE (K) is the mean target of the first batch. It is subtracted from all
 * targets to avoid cancellation. SUM (3, K) holds the sums of the squared
 * errors, of the shifted targets and of their squares. */

static bool r2_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!check_equal(p, y))
        return false;
    int ndim = tn_tensor_ndim(p);
    if ((ndim != 1 && ndim != 2) || tn_tensor_size(p, 0) < 1 ||
        tn_tensor_size(p, -1) < 1)
        return REFUSE(TN_ERR_SHAPE, "prediction",
                      "prediction has %d dimensions: expected (N) or (N, "
                      "outputs) with at least one element",
                      ndim);
    p = widened(ndim == 1 ? tn_unsqueeze(p, 1) : p);
    y = widened(ndim == 1 ? tn_unsqueeze(y, 1) : y);
    tn_tensor *sum = metric->state[SUM];
    if (sum && tn_tensor_size(sum, 1) != tn_tensor_size(p, 1))
        return REFUSE(TN_ERR_SHAPE, "prediction",
                      "prediction has %lld outputs, earlier ones %lld",
                      (long long)tn_tensor_size(p, 1),
                      (long long)tn_tensor_size(sum, 1));
    if (!sum && !put(metric, CENTRE, tn_mean(y, .dim = 0)))
        return false;
    tn_tensor *shifted = tn_sub(y, metric->state[CENTRE]);
    tn_tensor *part[] = {tn_square(tn_sub(y, p)), shifted, tn_square(shifted)};
    if (!add(metric, tn_sum(tn_stack(part, 3, 0), .dim = 1)))
        return false;
    metric->count += tn_tensor_size(p, 0);
    return true;
}

static double r2_value(tn_metric *metric)
{
    if (metric->count < 2)
        return NO_VALUE(TN_ERR_STATE, "r2: %lld samples; at least 2 are needed",
                        (long long)metric->count);
    double *sum = read_sum(metric), value = 0, n = (double)metric->count;
    int64_t outputs = tn_tensor_size(metric->state[SUM], 1);
    for (int64_t k = 0; sum && k < outputs; k++) {
        double error = sum[k], mean = sum[outputs + k] / n;
        double spread = sum[2 * outputs + k] - n * mean * mean;
        value += spread > 0 ? 1 - error / spread : error > 0 ? 0 : 1;
    }
    bool good = sum != NULL;
    free(sum);
    return good ? value / (double)outputs : NAN;
}

/* ---- mean: SUM is (sum of weighted values, sum of weights) --------------- */

static bool mean_update(tn_metric *metric, tn_tensor *p, tn_tensor *weight)
{
    if (!check_equal(p, weight))
        return false;
    p = widened(p);
    weight = weight ? tn_to_dtype(weight, tn_tensor_dtype(p)) : tn_ones_like(p);
    return add(metric, two_sums(tn_mul(p, weight), weight));
}

static double mean_value(tn_metric *metric)
{
    double *sum = read_sum(metric);
    double value = !sum ? NAN
                   : sum[1] != 0
                       ? sum[0] / sum[1]
                       : NO_VALUE(TN_ERR_STATE, "mean: the weights' sum is 0");
    free(sum);
    return value;
}

/* ---- running mean: SUM is a ring buffer of `window` means ---------------- */

static bool running_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (y)
        return REFUSE(TN_ERR_ARGUMENT, "target",
                      "a running mean has no target: give NULL");
    if (!check_equal(p, NULL))
        return false;
    p = widened(p);
    if (!metric->state[SUM] &&
        !put(metric, SUM, zeros(metric, metric->window, tn_tensor_dtype(p))))
        return false;
    if (!tn_copy_(
            tn_select(metric->state[SUM], 0, metric->count % metric->window),
            tn_mean(p)))
        return false;
    metric->count++;
    return true;
}

static double running_value(tn_metric *metric)
{
    double *ring = read(metric->state[SUM]), total = 0;
    int64_t count =
        metric->count < metric->window ? metric->count : metric->window;
    for (int64_t i = 0; ring && i < count; i++)
        total += ring[i];
    bool good = ring != NULL;
    free(ring);
    return good ? total / (double)count : NAN;
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
        return REFUSE(TN_ERR_DEVICE, odd == p ? "prediction" : "target",
                      "%s is on %s, the metric on %s: move it with tn_to()",
                      odd == p ? "prediction" : "target",
                      tn_device_name(tn_tensor_device(odd)),
                      tn_device_name(device));
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
    if (!metric->device && metric->kind->value != confusion_value)
        return NO_VALUE(TN_ERR_STATE,
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
    if (!metric->kind->has_classes || !metric->state[SUM]) {
        tn_error_refuse_argument(
            metric->kind->has_classes ? TN_ERR_STATE : TN_ERR_ARGUMENT,
            "metric_matrix", "metric",
            metric->kind->has_classes
                ? "%s: no samples: call tn_metric_update() first"
                : "%s has no classes: make a tn_metric_confusion()",
            metric->kind->name);
        return NULL;
    }
    return tn_clone(tn_reshape(metric->state[SUM],
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

/* ---- makers -------------------------------------------------------------- */

static tn_metric *make(const metric_kind *kind)
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

static tn_metric *refuse(const char *call, const char *argument,
                         const char *why)
{
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument, "%s", why);
    return NULL;
}

TN_OPTIONS_TYPE(tn_metric_accuracy, "metric_accuracy", "",
                TN_METRIC_ACCURACY_OPTIONS_LIST)

tn_metric *tn_metric_accuracy_with(const tn_metric_accuracy_options *options)
{
    static const metric_kind kind = {"accuracy", accuracy_update,
                                     accuracy_value, true, false};
    tn_metric_accuracy_options o;
    if (tn_options_take(tn_metric_accuracy_type(), &o, options) < 0)
        return NULL;
    if (o.top_k < 1)
        return refuse("metric_accuracy", "top_k", "top_k must be at least 1");
    tn_metric *metric = make(&kind);
    if (metric) {
        metric->top_k = o.top_k;
        metric->threshold = o.threshold;
        metric->ignore_index = o.ignore_index;
    }
    return metric;
}

static tn_metric *make_classes(const metric_kind *kind, const char *call,
                               int64_t classes, const char *average,
                               double threshold, int64_t ignore_index)
{
    if (classes < 2 || classes > MAX_CLASSES)
        return refuse(call, "classes", "classes must be 2 to 4096");
    if (!average)
        average = classes == 2 ? "binary" : "macro";
    bool binary = strcmp(average, "binary") == 0,
         micro = strcmp(average, "micro") == 0;
    if (!binary && !micro && strcmp(average, "macro") != 0)
        return refuse(call, "average",
                      "average must be \"binary\", \"micro\" or \"macro\"");
    if (binary && classes != 2)
        return refuse(call, "average",
                      "average \"binary\" needs 2 classes: give \"macro\" or "
                      "\"micro\"");
    tn_metric *metric = make(kind);
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
        static const metric_kind kind = {#function, classes_update, value,     \
                                         true, true};                          \
        tn_metric_##function##_options o;                                      \
        if (tn_options_take(tn_metric_##function##_type(), &o, options) < 0)   \
            return NULL;                                                       \
        return make_classes(&kind, "metric_" #function, classes, chosen,       \
                            o.threshold, o.ignore_index);                      \
    }
CLASSES(precision, precision_value, TN_METRIC_CLASSES_OPTIONS_LIST, o.average)
CLASSES(recall, recall_value, TN_METRIC_CLASSES_OPTIONS_LIST, o.average)
CLASSES(f1, f1_value, TN_METRIC_CLASSES_OPTIONS_LIST, o.average)
CLASSES(confusion, confusion_value, TN_METRIC_CONFUSION_OPTIONS_LIST, "macro")
CLASSES(mean_iou, iou_value, TN_METRIC_CONFUSION_OPTIONS_LIST, "macro")

tn_metric *tn_metric_auroc(void)
{
    static const metric_kind kind = {"auroc", auroc_update, auroc_value, true,
                                     false};
    return make(&kind);
}

tn_metric *tn_metric_r2(void)
{
    static const metric_kind kind = {"r2", r2_update, r2_value, true, false};
    return make(&kind);
}

tn_metric *tn_metric_mean(void)
{
    static const metric_kind kind = {"mean", mean_update, mean_value, false,
                                     false};
    return make(&kind);
}

tn_metric *tn_metric_running_mean(int64_t window)
{
    static const metric_kind kind = {"running_mean", running_update,
                                     running_value, false, false};
    if (window < 1 || window > MAX_WINDOW)
        return refuse("metric_running_mean", "window",
                      "window must be 1 to 1048576");
    tn_metric *metric = make(&kind);
    if (metric)
        metric->window = window;
    return metric;
}
