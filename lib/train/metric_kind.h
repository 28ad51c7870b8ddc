/* metric_kind.h: what a kind of metric consists of, and what the kinds share.
 *
 * A metric consists of sums over samples, held in tensors on the samples'
 * device, and a function that computes the value from them on the host. For
 * floating-point sums, a second tensor holds the accumulated rounding errors
 * (compensated summation), because not every device has float64. */
#ifndef TN_LIB_TRAIN_METRIC_KIND_H
#define TN_LIB_TRAIN_METRIC_KIND_H

#include <math.h>
#include <tenon/metric.h>
#include <tenon/ops.h>

/* Indices of a metric's state tensors. The headings of the kinds say what SUM
 * holds. */
enum {
    TN__METRIC_SUM,
    TN__METRIC_ERRORS,
    TN__METRIC_CENTRE,
    TN__METRIC_STATES
};

typedef struct tn__metric_kind tn__metric_kind;
struct tn_metric {
    tn_object object;
    const tn__metric_kind *kind;
    int64_t classes, top_k, window, ignore_index;
    double threshold;
    char average;      /* 'b' binary, 'i' micro, 'a' macro */
    tn_device *device; /* device of the first update; NULL before it */
    /* Counted references, NULL before the first update. */
    tn_tensor *state[TN__METRIC_STATES];
    int64_t count; /* number of samples or updates */
    struct pair {
        tn_tensor *score, *label; /* counted reference */
    } * pair;
    size_t pair_count, pair_room;
};

struct tn__metric_kind {
    const char *name;
    bool (*update)(tn_metric *metric, tn_tensor *p, tn_tensor *y);
    double (*value)(tn_metric *metric); /* NULL if there is none */
    bool needs_target, has_classes;
};

/* Return false and NAN after recording an error of tn_metric_update and
 * tn_metric_value. */
#define TN__METRIC_REFUSE(code, argument, ...)                                 \
    (tn_error_refuse_argument(code, "metric_update", argument, __VA_ARGS__),   \
     false)
#define TN__METRIC_NO_VALUE(code, ...)                                         \
    (tn_error_refuse_argument(code, "metric_value", "metric", __VA_ARGS__),    \
     (double)NAN)

/* Returns whether p is (N, C, ...) and y is (N, ...). */
bool tn__metric_has_scores(const tn_tensor *p, const tn_tensor *y);
/* Check that p and y fit a metric of classes, or a metric of floating-point
 * values of equal shapes. */
bool tn__metric_check_classes(const tn_tensor *p, const tn_tensor *y);
bool tn__metric_check_equal(const tn_tensor *p, const tn_tensor *y);
/* Returns the predicted classes, shaped as y. */
tn_tensor *tn__metric_predicted(const tn_metric *metric, tn_tensor *p,
                                const tn_tensor *y);
/* Returns (sum of a, sum of b) as a vector. */
tn_tensor *tn__metric_two_sums(tn_tensor *a, tn_tensor *b);

/* Replaces a state tensor. */
bool tn__metric_put(tn_metric *metric, int which, tn_tensor *x);
tn_tensor *tn__metric_zeros(const tn_metric *metric, int64_t count,
                            tn_dtype dtype);
/* Converts types narrower than float32 to float32. */
tn_tensor *tn__metric_widened(tn_tensor *x);
/* Adds x to SUM, and the rounding errors of that addition to ERRORS. */
bool tn__metric_add(tn_metric *metric, tn_tensor *x);
/* Copy the elements of x, and SUM + ERRORS, to the host. Return memory that the
 * caller frees. */
double *tn__metric_read(tn_tensor *x);
double *tn__metric_read_sum(tn_metric *metric);

/* Makes a metric of a kind with default options. */
tn_metric *tn__metric_make(const tn__metric_kind *kind);
/* Records an error of the maker `call`. Returns NULL. */
tn_metric *tn__metric_refuse(const char *call, const char *argument,
                             const char *why);
tn_metric *tn__metric_refuse_number(const char *call, const char *argument,
                                    int64_t value, const char *expected);

#endif
