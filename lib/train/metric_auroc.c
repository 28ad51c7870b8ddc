/* metric_auroc.c: the area under the ROC curve. pair[] holds all scores and
 * targets, because the area depends on their order. */
#include <stdlib.h>
#include <train/metric_kind.h>

static bool auroc_update(tn_metric *metric, tn_tensor *p, tn_tensor *y)
{
    if (!tn__metric_check_classes(p, y) || !tn__metric_check_equal(p, y))
        return false;
    if (metric->pair_count == metric->pair_room) {
        size_t room = metric->pair_room ? metric->pair_room * 2 : 16;
        struct pair *pair = realloc(metric->pair, room * sizeof *pair);
        if (!pair)
            return TN__METRIC_REFUSE(TN_ERR_MEMORY, NULL, "out of memory");
        metric->pair = pair;
        metric->pair_room = room;
    }
    p = tn_clone(tn__metric_widened(p));
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
        return TN__METRIC_NO_VALUE(TN_ERR_STATE,
                                   "auroc: all %zu targets are %d: samples "
                                   "of both classes are needed",
                                   count, positives > 0);
    return wins / (below * positives);
}

/* Appends the scores and labels of one update to the samples. */
static bool append(sample *s, size_t *count, const struct pair *pair)
{
    double *score = tn__metric_read(pair->score),
           *label = score ? tn__metric_read(pair->label) : NULL;
    bool good = label != NULL;
    for (int64_t i = 0; good && i < tn_tensor_numel(pair->score); i++) {
        good = !isnan(score[i]) && (label[i] == 0 || label[i] == 1);
        if (!good)
            tn_error_refuse_argument(
                TN_ERR_ARGUMENT, "metric_value", "metric",
                "auroc: a sample has score %g and target %g; expected no NaN, "
                "and target 0 or 1",
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
        return TN__METRIC_NO_VALUE(TN_ERR_MEMORY, "out of memory");
    bool good = true;
    for (size_t i = 0; i < metric->pair_count && good; i++)
        good = append(s, &count, &metric->pair[i]);
    double value = good ? area(s, count) : NAN;
    free(s);
    return value;
}

tn_metric *tn_metric_auroc(void)
{
    static const tn__metric_kind kind = {"auroc", auroc_update, auroc_value,
                                         true, false};
    return tn__metric_make(&kind);
}
