/* test_metric.c: tests metrics that are updated batch by batch. The expected
 * numbers were computed with PyTorch from the formulas of scikit-learn and
 * torchmetrics. */
#include <tenon/tenon.h>

#include "../tap.h"

static const float scores[] = {.1f,  .7f, .2f, .5f, .3f, .2f, .2f,
                               .2f,  .6f, .3f, .4f, .3f, .9f, .05f,
                               .05f, .1f, .2f, .7f, .2f, .5f, .3f};
static const int64_t classes[] = {1, 0, 2, 2, 1, 0, 1};
static const double auroc_scores[] = {.1, .4, .35, .8, .4, .6, .35, .9};
static const int64_t auroc_labels[] = {0, 0, 1, 1, 1, 0, 0, 1};
static const double r2_target[] = {3, -.5, 2, 7, 1, 4, 8, 2};
static const double r2_guess[] = {2.5, 0, 2, 8, 1.5, 3, 7, 2.5};

/* Updates metric with p and y, divided into batches of 1, 2, ... rows, and
 * returns its value. */
static double streamed(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    int64_t count = tn_tensor_size(p, 0), size = 1;
    for (int64_t at = 0; at < count; at += size++) {
        tn_scope *scope = tn_scope_open();
        int64_t n = at + size < count ? size : count - at;
        tn_metric_update(metric, tn_narrow(p, 0, at, n),
                         y ? tn_narrow(y, 0, at, n) : NULL);
        tn_scope_close(scope);
    }
    return tn_metric_value(metric);
}

static void check_classes(void)
{
    tn_tensor *p = tn_tensor_from_array(scores, TN_F32, tn_dims(7, 3));
    tn_tensor *y = tn_tensor_from_array(classes, TN_I64, tn_dims(7));
    const struct {
        tn_metric *metric;
        double want;
    } rows[] = {
        {tn_metric_accuracy(), 4.0 / 7},
        {tn_metric_accuracy(.top_k = 2), 5.0 / 7},
        {tn_metric_precision(3), 5.0 / 9},
        {tn_metric_recall(3), 5.0 / 9},
        {tn_metric_f1(3, .average = "macro"), 5.0 / 9},
        {tn_metric_f1(3, .average = "micro"), 4.0 / 7},
        {tn_metric_mean_iou(3), 0.38888889},
        {tn_metric_f1(5, .average = "macro"), 5.0 / 9},
        {tn_metric_accuracy(.ignore_index = 2), 3.0 / 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_tensor *input = i == 7 ? tn_argmax(p, .dim = 1) : p;
        is_double_near(streamed(rows[i].metric, input, y), rows[i].want, 1e-7,
                       "%s of batches (row %zu)",
                       tn_metric_name(rows[i].metric), i);
        tn_metric_reset(rows[i].metric);
        is_double_near(streamed(rows[i].metric, input, y), rows[i].want, 1e-7,
                       "and again after a reset");
    }
    tn_metric *confusion = tn_metric_confusion(3);
    streamed(confusion, p, y);
    is_int(tn_error_code(), TN_ERR_STATE, "a confusion matrix is no number");
    tn_error_clear();
    int64_t got[9], want[] = {1, 0, 1, 1, 2, 0, 0, 1, 1};
    tn_tensor_to_array(tn_metric_matrix(confusion), got, sizeof got);
    ok(memcmp(got, want, sizeof got) == 0, "the confusion matrix is right");

    tn_metric *ignoring = tn_metric_confusion(3, .ignore_index = -1);
    const int64_t odd[] = {1, -1, -1, 2};
    tn_metric_update(ignoring, tn_narrow(p, 0, 0, 4),
                     tn_tensor_from_array(odd, TN_I64, tn_dims(4)));
    is_int(tn_item_int(tn_sum(tn_metric_matrix(ignoring))), 2,
           "ignored samples are not counted");
}

static void check_binary(void)
{
    tn_tensor *p = tn_tensor_from_array(auroc_scores, TN_F64, tn_dims(8));
    tn_tensor *y = tn_tensor_from_array(auroc_labels, TN_I64, tn_dims(8));
    is_double_near(streamed(tn_metric_auroc(), p, y), 0.75, 1e-12, "auroc");
    is_double_near(streamed(tn_metric_precision(2), p, y), 2.0 / 3, 1e-12,
                   "binary precision of probabilities");
    is_double_near(streamed(tn_metric_recall(2), p, y), 0.5, 1e-12,
                   "binary recall");
    is_double_near(streamed(tn_metric_f1(2), p, y), 4.0 / 7, 1e-12,
                   "binary f1");
    is_double_near(streamed(tn_metric_accuracy(.threshold = 0.85), p, y),
                   5.0 / 8, 1e-12, "a threshold is used");
}

static void check_numbers(void)
{
    tn_tensor *p = tn_tensor_from_array(r2_guess, TN_F64, tn_dims(4, 2));
    tn_tensor *y = tn_tensor_from_array(r2_target, TN_F64, tn_dims(4, 2));
    is_double_near(streamed(tn_metric_r2(), p, y), 0.9327300635396587, 1e-12,
                   "r2 of two outputs");
    is_double_near(
        streamed(tn_metric_r2(), tn_select(p, 1, 0), tn_select(y, 1, 0)),
        0.9482758620689655, 1e-12, "r2 of one output");
    /* In float32, squares of the targets near 1e8 have errors of 8. */
    tn_tensor *far = tn_add_scalar(tn_select(y, 1, 0), 1e4);
    tn_tensor *near = tn_add_scalar(tn_select(p, 1, 0), 1e4);
    is_double_near(streamed(tn_metric_r2(), tn_to_dtype(near, TN_F32),
                            tn_to_dtype(far, TN_F32)),
                   0.9482758620689655, 1e-6,
                   "r2 of targets far from 0 in float32");

    is_double_near(streamed(tn_metric_mean(), p, NULL), 3.3125, 1e-12,
                   "mean of all elements");
    const double w[] = {1, 0, 0, 0, 0, 3, 0, 0};
    tn_tensor *weight = tn_tensor_from_array(w, TN_F64, tn_dims(4, 2));
    is_double_near(streamed(tn_metric_mean(), p, weight), (2.5 + 9) / 4, 1e-12,
                   "weighted mean");
    is_double_near(streamed(tn_metric_running_mean(2), p, NULL),
                   ((2 + 8 + 1.5 + 3) / 4 + (7 + 2.5) / 2) / 2, 1e-12,
                   "mean of the last two updates");
    tn_metric *mean = tn_metric_mean();
    tn_tensor *tenth = tn_full(tn_dims(1), 0.1, .dtype = TN_F32);
    for (int i = 0; i < 20000; i++) {
        tn_scope *scope = tn_scope_open();
        tn_metric_update(mean, tenth, NULL);
        tn_scope_close(scope);
    }
    is_double_near(tn_metric_value(mean), (double)0.1f, 1e-8,
                   "rounding errors of float32 do not add up");
}

#define REFUSED(call, want, text)                                              \
    do {                                                                       \
        (void)(call);                                                          \
        is_int(tn_error_code(), want, "refused: %s",                           \
               tn_error() ? tn_error() : "nothing");                           \
        ok(tn_error() && strstr(tn_error(), text), "the message says \"%s\"",  \
           text);                                                              \
        tn_error_clear();                                                      \
    } while (0)

static void check_mistakes(void)
{
    tn_tensor *p = tn_tensor_from_array(scores, TN_F32, tn_dims(7, 3));
    tn_tensor *y = tn_tensor_from_array(classes, TN_I64, tn_dims(7));
    tn_metric *f1 = tn_metric_f1(3);
    REFUSED(tn_metric_value(f1), TN_ERR_STATE, "f1: no samples");
    REFUSED(tn_metric_update(f1, p, NULL), TN_ERR_ARGUMENT, "target is NULL");
    REFUSED(tn_metric_update(f1, p, p), TN_ERR_DTYPE, "must be integers");
    REFUSED(tn_metric_update(f1, p, tn_narrow(y, 0, 0, 3)), TN_ERR_SHAPE,
            "scores (N, C, ...)");
    REFUSED(tn_metric_update(f1, tn_narrow(p, 1, 0, 2), y), TN_ERR_SHAPE,
            "scores of 2 classes, the metric has 3");
    REFUSED(tn_metric_update(f1, p, tn_add_scalar(y, 1)), TN_ERR_INDEX,
            "f1: scatter_add");
    REFUSED(tn_metric_update(f1, tn_add_scalar(y, 2), y), TN_ERR_INDEX,
            "scatter_add");
    REFUSED(tn_metric_value(f1), TN_ERR_STATE, "no samples");
    REFUSED(tn_metric_update(tn_metric_accuracy(.top_k = 4), p, y),
            TN_ERR_SHAPE, "top_k 4");
    REFUSED(tn_metric_matrix(tn_metric_accuracy()), TN_ERR_ARGUMENT,
            "tn_metric_confusion");
    REFUSED(tn_metric_matrix(f1), TN_ERR_STATE, "no samples");
    REFUSED(tn_metric_accuracy(.top_k = 0), TN_ERR_ARGUMENT, "top_k");
    REFUSED(tn_metric_f1(1), TN_ERR_ARGUMENT, "classes");
    REFUSED(tn_metric_f1(3, .average = "binary"), TN_ERR_ARGUMENT,
            "needs 2 classes");
    REFUSED(tn_metric_f1(3, .average = "mean"), TN_ERR_ARGUMENT, "average");
    REFUSED(tn_metric_running_mean(0), TN_ERR_ARGUMENT, "window");
    tn_metric *auroc = tn_metric_auroc();
    tn_metric_update(auroc, tn_ones(tn_dims(2)),
                     tn_ones(tn_dims(2), .dtype = TN_I64));
    REFUSED(tn_metric_value(auroc), TN_ERR_STATE, "all 2 targets are 1");
    tn_metric_update(auroc, tn_full(tn_dims(1), NAN),
                     tn_zeros(tn_dims(1), .dtype = TN_I64));
    REFUSED(tn_metric_value(auroc), TN_ERR_ARGUMENT, "score nan");
    tn_metric *r2 = tn_metric_r2();
    tn_metric_update(r2, tn_ones(tn_dims(1)), tn_ones(tn_dims(1)));
    REFUSED(tn_metric_value(r2), TN_ERR_STATE, "at least 2");
    REFUSED(
        tn_metric_update(r2, tn_ones(tn_dims(2, 2)), tn_ones(tn_dims(2, 2))),
        TN_ERR_SHAPE, "2 outputs, earlier ones 1");
    REFUSED(tn_metric_update(tn_metric_running_mean(3), tn_ones(tn_dims(1)), y),
            TN_ERR_ARGUMENT, "give NULL");
    bool plain = strncmp(tn_device_name(tn_device_current()), "ref", 3) == 0;
    tn_tensor *there = tn_to(p, tn_device_open(plain ? "cpu" : "reference"));
    tn_metric_update(f1, p, y);
    REFUSED(tn_metric_update(f1, there, y), TN_ERR_DEVICE, "tn_to()");
    is_double_near(tn_metric_value(f1), 5.0 / 9, 1e-7,
                   "failed updates changed nothing");
}

int main(void)
{
    check_classes();
    check_binary();
    check_numbers();
    check_mistakes();
    int64_t before = tn_scope_count();
    tn_metric *metric = tn_metric_auroc();
    tn_metric_update(metric, tn_ones(tn_dims(2)),
                     tn_ones(tn_dims(2), .dtype = TN_I64));
    is_int(tn_scope_count(), before + 3, "an update leaves no object behind");
    is_str(tn_error(), NULL, "no error is left");
    return done_testing();
}
