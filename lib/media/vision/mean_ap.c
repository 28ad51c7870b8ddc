/* mean_ap.c: mean average precision, as COCO's evaluation computes it.
 *
 * Each image is copied to the host. The result matches detections with true
 * boxes for each class, image, size and threshold, then sorts all detections of
 * a class by score. */
#include <base/nearest.h>
#include <media/result.h>
#include <media/vision/boxes.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

TN_OPTIONS_TYPE(tn_mean_ap_new, "mean_ap_new", "", TN_MEAN_AP_NEW_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_mean_ap_update, "mean_ap_update",
                "metric, boxes, scores, labels, true_boxes, true_labels",
                TN_MEAN_AP_UPDATE_OPTIONS_LIST)

/* A detection, or a true box. */
typedef struct entry {
    double box[4], area, score;
    int64_t image, class;
    bool is_crowd;
} entry;

typedef struct list {
    entry *at;
    int64_t count, room;
} list;

struct tn_mean_ap {
    tn_object object;
    tn_mean_ap_new_options options;
    list found, truth;
    int64_t images;
};

static void release(void *object)
{
    tn_mean_ap *m = object;
    free(m->found.at);
    free(m->truth.at);
}

static const tn_object_class class_of_metric = {
    .size = sizeof(tn_object_class), .name = "mean_ap",
    .bytes = sizeof(tn_mean_ap), .release = release};

tn_mean_ap *tn_mean_ap_new_with(const tn_mean_ap_new_options *options)
{
    const char *call = "mean_ap_new";
    tn_mean_ap_new_options o;
    if (tn_options_take(tn_mean_ap_new_type(), &o, options) < 0)
        return NULL;
    if (!tn_is_none_float(o.iou_threshold) &&
        !(o.iou_threshold > 0 && o.iou_threshold <= 1)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "iou_threshold",
                                 "iou_threshold is %g; expected more than 0 "
                                 "and at most 1",
                                 o.iou_threshold);
        return NULL;
    }
    if (o.points < 0 || o.points == 1 || o.points > 100000) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "points",
                                 "points is %d; expected 0, or 2 to 100000",
                                 o.points);
        return NULL;
    }
    if (o.max_detections < 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "max_detections",
                                 "max_detections is %lld; expected at least 1",
                                 (long long)o.max_detections);
        return NULL;
    }
    tn_mean_ap *m = tn_object_new(&class_of_metric, 0);
    if (m)
        m->options = o;
    return m;
}

/* ---- updates ---------------------------------------------------------------- */

static bool are_finite(const char *name, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, "mean_ap_update", name,
                                     "element %lld of %s is not finite",
                                     (long long)i, name);
            return false;
        }
    return true;
}

static bool reserve(list *l, int64_t more)
{
    if (l->count + more <= l->room)
        return true;
    const int64_t room = 2 * (l->count + more);
    entry *at = realloc(l->at, (size_t)room * sizeof *at);
    if (!at) {
        tn_error_set(TN_ERR_MEMORY, "mean_ap_update: out of memory");
        return false;
    }
    l->at = at;
    l->room = room;
    return true;
}

tn_status tn_mean_ap_update_with(tn_mean_ap *metric, tn_tensor *boxes,
                                 tn_tensor *scores, tn_tensor *labels,
                                 tn_tensor *true_boxes, tn_tensor *true_labels,
                                 const tn_mean_ap_update_options *options)
{
    enum { BOXES, SCORES, LABELS, TRUE_BOXES, TRUE_LABELS, AREA, CROWD, ALL };
    const char *call = "mean_ap_update";
    tn_mean_ap_update_options o;
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check(metric, &class_of_metric, call, "metric") ||
        tn_options_take(tn_mean_ap_update_type(), &o, options) < 0)
        return tn_error_code();
    const tn__box_rule rule[ALL] = {
        {"boxes", boxes, TN__ANY_NUMBER, 2, 4},
        {"scores", scores, TN__FLOATING, 1, -1},
        {"labels", labels, TN__INTEGER, 1, -1},
        {"true_boxes", true_boxes, TN__ANY_NUMBER, 2, 4},
        {"true_labels", true_labels, TN__INTEGER, 1, -1},
        {"area", o.area, TN__ANY_NUMBER, 1, -1}};
    for (int i = 0; i <= AREA; i++) {
        if (i == AREA && !o.area)
            break;
        if (!tn__box_check(call, &rule[i], 1))
            return tn_error_code();
        const int of = i < TRUE_BOXES ? BOXES : TRUE_BOXES;
        const int64_t want = tn_tensor_size(rule[of].tensor, 0),
                      have = tn_tensor_size(rule[i].tensor, 0);
        const tn_given given[] = {{rule[i].argument, rule[i].tensor},
                                  {rule[of].argument, rule[of].tensor}};
        if (have != want)
            return tn_error_refuse(TN_ERR_SHAPE, call, given, 2,
                                   "%s has %lld elements, but %s has %lld rows",
                                   rule[i].argument, (long long)have,
                                   rule[of].argument, (long long)want);
    }
    const int64_t n = tn_tensor_size(boxes, 0), m = tn_tensor_size(true_boxes,
                                                                   0);
    if (o.crowd &&
        (!tn_object_check_kind(o.crowd, "tensor", call, "crowd") ||
         tn_tensor_ndim(o.crowd) != 1 || tn_tensor_size(o.crowd, 0) != m)) {
        const tn_given given = {"crowd", o.crowd};
        return tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                               "crowd must have one element for each of the "
                               "%lld true boxes",
                               (long long)m);
    }
    double *b = tn__box_read(boxes), *s = b ? tn__box_read(scores) : NULL,
           *t = s ? tn__box_read(true_boxes) : NULL,
           *area = t && o.area ? tn__box_read(o.area) : NULL,
           *crowd = t && o.crowd ? tn__box_read(o.crowd) : NULL;
    int64_t *class = t ? tn__box_read_int(labels) : NULL,
            *true_class = class ? tn__box_read_int(true_labels) : NULL;
    const bool fine =
        true_class && (area || !o.area) && (crowd || !o.crowd) &&
        are_finite("boxes", b, 4 * n) && are_finite("scores", s, n) &&
        are_finite("true_boxes", t, 4 * m) &&
        (!area || are_finite("area", area, m)) && reserve(&metric->found, n) &&
        reserve(&metric->truth, m);
    for (int64_t i = 0; i < n + m && fine; i++) {
        const bool is_true = i >= n;
        const int64_t k = is_true ? i - n : i;
        list *l = is_true ? &metric->truth : &metric->found;
        entry *e = &l->at[l->count++];
        *e = (entry){.image = metric->images,
                     .class = is_true ? true_class[k] : class[k],
                     .score = is_true ? 0 : s[k],
                     .is_crowd = is_true && crowd && crowd[k] != 0};
        memcpy(e->box, (is_true ? t : b) + 4 * k, sizeof e->box);
        e->area = is_true && area ? area[k]
                                  : (e->box[2] - e->box[0]) *
                                        (e->box[3] - e->box[1]);
    }
    metric->images += fine;
    free(b);
    free(s);
    free(t);
    free(area);
    free(crowd);
    free(class);
    free(true_class);
    return fine ? TN_OK : tn_error_code();
}

tn_status tn_mean_ap_reset(tn_mean_ap *metric)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check(metric, &class_of_metric, "mean_ap_reset", "metric"))
        return tn_error_code();
    metric->found.count = metric->truth.count = metric->images = 0;
    return TN_OK;
}

/* ---- the curve of a class ---------------------------------------------------- */

enum { THRESHOLDS = 10, SIZES = 4, DETECTIONS = 3 };

/* The areas of each size: all, small, medium, large. */
static const double area_range[SIZES][2] = {
    {0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};

/* The detections and true boxes of one class. The detections of an image are
 * adjacent, by descending score. rank: the index of a detection in this order
 * within its image. */
typedef struct group {
    const entry **found, **truth;
    int64_t *rank;
    int64_t found_count, truth_count;
    int64_t *order;   /* the detections by descending score */
    bool *hit, *skip; /* of each detection: matched a true box; is ignored */
    bool *taken, *ignored; /* of each true box */
} group;

typedef struct sums {
    double ap[THRESHOLDS][SIZES], ar[THRESHOLDS][SIZES][DETECTIONS];
    int64_t classes[SIZES]; /* those with a true box of this size */
} sums;

static double overlap(const entry *d, const entry *t)
{
    const double w = fmin(d->box[2], t->box[2]) - fmax(d->box[0], t->box[0]);
    const double h = fmin(d->box[3], t->box[3]) - fmax(d->box[1], t->box[1]);
    if (w <= 0 || h <= 0)
        return 0;
    const double own = (d->box[2] - d->box[0]) * (d->box[3] - d->box[1]);
    const double other = (t->box[2] - t->box[0]) * (t->box[3] - t->box[1]);
    return w * h / (t->is_crowd ? own : own + other - w * h);
}

static bool is_outside(double area, int size)
{
    return area < area_range[size][0] || area > area_range[size][1];
}

/* Matches the detections [d, d_end) of an image with its true boxes [t, t_end),
 * those first that are not ignored. */
static void match(group *g, int64_t d, int64_t d_end, int64_t t, int64_t t_end,
                  double threshold, int size)
{
    for (; d < d_end; d++) {
        double best = fmin(threshold, 1 - 1e-10);
        int64_t at = -1;
        for (int pass = 0; pass < 2 && at < 0; pass++)
            for (int64_t k = t; k < t_end; k++) {
                if (g->ignored[k] != pass ||
                    (g->taken[k] && !g->truth[k]->is_crowd))
                    continue;
                const double iou = overlap(g->found[d], g->truth[k]);
                if (iou < best)
                    continue;
                best = iou;
                at = k;
            }
        g->hit[d] = at >= 0;
        g->skip[d] = at >= 0 ? g->ignored[at]
                             : is_outside(g->found[d]->area, size);
        if (at >= 0)
            g->taken[at] = true;
    }
}

/* Averages the precision (of `n` detections by descending score) over recalls.
 * The precision becomes monotone: the largest at this or a greater recall. */
static double average(double *precision, const double *recall, int64_t n,
                      int points)
{
    double sum = 0, before = 0;
    for (int64_t i = n - 1; i > 0; i--)
        precision[i - 1] = fmax(precision[i - 1], precision[i]);
    if (points == 0) {
        for (int64_t i = 0; i < n; i++) {
            sum += (recall[i] - before) * precision[i];
            before = recall[i];
        }
        return sum;
    }
    int64_t i = 0;
    const double step = 1.0 / (points - 1);
    for (int p = 0; p < points; p++) {
        const double want = p == points - 1 ? 1 : p * step;
        while (i < n && recall[i] < want)
            i++;
        sum += i < n ? precision[i] : 0;
    }
    return sum / points;
}

/* Adds the class to the sums. Returns the sum of its average precisions over
 * the thresholds, for all sizes, in *out_ap, or -1 if it has no true box. */
static bool add_class(const tn_mean_ap *m, group *g, const double *threshold,
                      int count, sums *s, double *out_ap)
{
    const int64_t bound[DETECTIONS] = {1, 10, m->options.max_detections};
    double *precision = malloc(((size_t)g->found_count + 1) * 2 *
                               sizeof *precision),
           *recall = precision + g->found_count + 1;
    if (!precision) {
        tn_error_set(TN_ERR_MEMORY, "mean_ap_compute: out of memory");
        return false;
    }
    *out_ap = -1;
    for (int size = 0; size < SIZES; size++) {
        int64_t positives = 0;
        for (int64_t k = 0; k < g->truth_count; k++) {
            g->ignored[k] = g->truth[k]->is_crowd ||
                            is_outside(g->truth[k]->area, size);
            positives += !g->ignored[k];
        }
        if (positives == 0)
            continue;
        s->classes[size]++;
        for (int i = 0; i < count; i++) {
            memset(g->taken, 0, (size_t)g->truth_count);
            for (int64_t d = 0, d_end, t = 0, t_end; d < g->found_count;
                 d = d_end, t = t_end) {
                const int64_t image = g->found[d]->image;
                for (d_end = d;
                     d_end < g->found_count && g->found[d_end]->image == image;
                     d_end++)
                    ;
                for (; t < g->truth_count && g->truth[t]->image < image; t++)
                    ;
                for (t_end = t;
                     t_end < g->truth_count && g->truth[t_end]->image == image;
                     t_end++)
                    ;
                const int64_t most = m->options.max_detections;
                match(g, d, d_end - d > most ? d + most : d_end, t, t_end,
                      threshold[i], size);
            }
            for (int b = 0; b < DETECTIONS; b++) {
                int64_t hits = 0, misses = 0, n = 0;
                for (int64_t k = 0; k < g->found_count; k++) {
                    const int64_t d = g->order[k];
                    if (g->rank[d] >= bound[b] ||
                        g->rank[d] >= m->options.max_detections)
                        continue;
                    if (!g->skip[d])
                        *(g->hit[d] ? &hits : &misses) += 1;
                    recall[n] = (double)hits / (double)positives;
                    precision[n++] = (double)hits /
                                     ((double)(hits + misses) + 0x1p-52);
                }
                s->ar[i][size][b] += n ? recall[n - 1] : 0;
                if (b < DETECTIONS - 1)
                    continue;
                const double ap = average(precision, recall, n,
                                          m->options.points);
                s->ap[i][size] += ap;
                if (size == 0)
                    *out_ap = (i ? *out_ap : 0) + ap;
            }
        }
    }
    free(precision);
    return true;
}

/* ---- all classes --------------------------------------------------------------- */

/* Orders by class, then image, then descending score, then position. */
static int compare(const void *a, const void *b)
{
    const entry *x = *(const entry *const *)a, *y = *(const entry *const *)b;
    if (x->class != y->class)
        return x->class < y->class ? -1 : 1;
    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x < y ? -1 : x > y;
}

static const entry **sorted(const list *l)
{
    const entry **out = malloc(((size_t)l->count + 1) * sizeof *out);
    for (int64_t i = 0; i < l->count && out; i++)
        out[i] = &l->at[i];
    if (out && l->count > 0)
        qsort(out, (size_t)l->count, sizeof *out, compare);
    return out;
}

/* Fills the order of the detections of a class, and their ranks. */
static bool order_class(group *g)
{
    double *score = malloc(((size_t)g->found_count + 1) * sizeof *score);
    bool fine = score != NULL;
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "mean_ap_compute: out of memory");
    for (int64_t i = 0; i < g->found_count && fine; i++) {
        score[i] = g->found[i]->score;
        g->rank[i] = i && g->found[i]->image == g->found[i - 1]->image
                         ? g->rank[i - 1] + 1
                         : 0;
    }
    fine = fine && tn__box_order(score, g->found_count, g->order);
    free(score);
    return fine;
}

/* Computes the sums of all classes. If each is not NULL, stores a pair (label,
 * sum of average precisions) for each class in it, and the number of classes in
 * *out_classes. each has room for one pair per box. */
static tn_status compute(const tn_mean_ap *m, const double *threshold,
                         int count, sums *s, double *each,
                         int64_t *out_classes)
{
    const size_t n = (size_t)m->found.count + 1, k = (size_t)m->truth.count + 1;
    const entry **found = sorted(&m->found), **truth = sorted(&m->truth);
    group g = {.rank = malloc(n * sizeof *g.rank),
               .order = malloc(n * sizeof *g.order),
               .hit = calloc(n, 1), .skip = calloc(n, 1),
               .taken = calloc(k, 1), .ignored = calloc(k, 1)};
    bool fine = found && truth && g.rank && g.order && g.hit && g.skip &&
                g.taken && g.ignored;
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "mean_ap_compute: out of memory");
    int64_t f = 0, t = 0, classes = 0;
    while (fine && (f < m->found.count || t < m->truth.count)) {
        const int64_t class =
            f < m->found.count &&
                    (t >= m->truth.count ||
                     found[f]->class < truth[t]->class)
                ? found[f]->class
                : truth[t]->class;
        g.found = found + f;
        g.truth = truth + t;
        for (; f < m->found.count && found[f]->class == class; f++)
            ;
        for (; t < m->truth.count && truth[t]->class == class; t++)
            ;
        g.found_count = found + f - g.found;
        g.truth_count = truth + t - g.truth;
        double ap;
        fine = order_class(&g) &&
               add_class(m, &g, threshold, count, s, &ap);
        if (fine && each) {
            each[2 * classes] = (double)class;
            each[2 * classes + 1] = ap;
        }
        classes++;
    }
    *out_classes = classes;
    free(found);
    free(truth);
    free(g.rank);
    free(g.order);
    free(g.hit);
    free(g.skip);
    free(g.taken);
    free(g.ignored);
    return fine ? TN_OK : tn_error_code();
}

/* Stores the thresholds of m, and returns their number. COCO's are those of
 * numpy.linspace(0.5, 0.95, 10). */
static int thresholds(const tn_mean_ap *m, double out[THRESHOLDS])
{
    out[0] = m->options.iou_threshold;
    if (!tn_is_none_float(out[0]))
        return 1;
    for (int i = 0; i < THRESHOLDS; i++)
        out[i] = i == THRESHOLDS - 1 ? 0.95 : 0.5 + i * ((0.95 - 0.5) / 9);
    return THRESHOLDS;
}

/* Returns the mean over thresholds [from, to), or -1 if there is no class. */
static double mean(const double *sum, int64_t stride, int from, int to,
                   int64_t classes)
{
    double total = 0;
    for (int i = from; i < to; i++)
        total += sum[i * stride];
    return classes > 0 && to > from
               ? total / ((double)classes * (double)(to - from))
               : -1;
}

/* Returns the index of the threshold t, or `count` if there is none. */
static int find(const double *threshold, int count, double t)
{
    int i = 0;
    while (i < count && fabs(threshold[i] - t) > 1e-9)
        i++;
    return i;
}

static tn_status check_images(const tn_mean_ap *m, const char *call)
{
    if (!tn_object_check(m, &class_of_metric, call, "metric"))
        return tn_error_code();
    return m->images > 0 ? TN_OK
                         : tn_error_refuse_argument(
                               TN_ERR_STATE, call, "metric",
                               "no image was added: call tn_mean_ap_update "
                               "first");
}

tn_status tn_mean_ap_compute(tn_mean_ap *metric, tn_mean_ap_result *out_result)
{
    TN__ROUND_NEAREST;
    const char *call = "mean_ap_compute";
    if (tn_error())
        return TN_ERR_STATE;
    tn_status status = check_images(metric, call);
    if (status == TN_OK)
        status = tn__result_check(out_result, "tn_mean_ap_result",
                                  sizeof *out_result, call, "out_result");
    if (status < 0)
        return status;
    double threshold[THRESHOLDS];
    const int count = thresholds(metric, threshold);
    sums s = {0};
    int64_t classes;
    status = compute(metric, threshold, count, &s, NULL, &classes);
    if (status < 0)
        return status;
    double ap[SIZES], ar[SIZES], ar_of[DETECTIONS], at[2];
    for (int i = 0; i < SIZES; i++) {
        ap[i] = mean(&s.ap[0][i], SIZES, 0, count, s.classes[i]);
        ar[i] = mean(&s.ar[0][i][DETECTIONS - 1], SIZES * DETECTIONS, 0, count,
                     s.classes[i]);
    }
    for (int b = 0; b < DETECTIONS; b++)
        ar_of[b] = mean(&s.ar[0][0][b], SIZES * DETECTIONS, 0, count,
                        s.classes[0]);
    for (int i = 0; i < 2; i++) {
        const int k = find(threshold, count, i ? 0.75 : 0.5);
        at[i] = mean(&s.ap[0][0], SIZES, k, k + (k < count), s.classes[0]);
    }
    const tn_mean_ap_result result = {
        .ap = ap[0], .ap50 = at[0], .ap75 = at[1],
        .ap_small = ap[1], .ap_medium = ap[2], .ap_large = ap[3],
        .ar1 = ar_of[0], .ar10 = ar_of[1], .ar = ar_of[2],
        .ar_small = ar[1], .ar_medium = ar[2], .ar_large = ar[3]};
    tn__result_store(out_result, &result);
    return TN_OK;
}

tn_tensor *tn_mean_ap_classes(tn_mean_ap *metric)
{
    TN__ROUND_NEAREST;
    if (check_images(metric, "mean_ap_classes") < 0)
        return NULL;
    double threshold[THRESHOLDS];
    const int count = thresholds(metric, threshold);
    const int64_t most = metric->found.count + metric->truth.count;
    double *each = malloc(((size_t)most + 1) * 2 * sizeof *each);
    if (!each) {
        tn_error_set(TN_ERR_MEMORY, "mean_ap_classes: out of memory");
        return NULL;
    }
    sums s = {0};
    int64_t classes = 0;
    tn_tensor *out = NULL;
    if (compute(metric, threshold, count, &s, each, &classes) >= 0) {
        for (int64_t i = 0; i < classes; i++)
            if (each[2 * i + 1] >= 0)
                each[2 * i + 1] /= count;
        out = tn_tensor_from_array(each, TN_F64, tn_dims(classes, 2));
    }
    free(each);
    return out;
}
