/* nms.c: selects boxes. Suppression is sequential: whether a box is kept
 * depends on all boxes that were kept before it. So it runs on the host, where
 * it compares each box to the kept ones in blocks, and needs no matrix of all
 * pairs. */
#include <base/nearest.h>
#include <media/vision/boxes.h>

#include <math.h>
#include <stdlib.h>

/* Defines a function that tells whether a box overlaps one of `count` kept
 * boxes by more than `most`. kept has five rows of `room` elements: x1, y1, x2,
 * y2, area. The order of operations is torchvision's, so that boxes at the threshold
 * are decided alike. A block has a constant length for the compiler to
 * vectorise. */
#define DEFINE_OVERLAPS(name, real)                                           \
    static bool name(const real *kept, int64_t room, int64_t count,           \
                     const real box[5], real most)                            \
    {                                                                         \
        enum { BLOCK = 32 };                                                  \
        const real *x1 = kept, *y1 = x1 + room, *x2 = y1 + room,              \
                   *y2 = x2 + room, *areas = y2 + room;                       \
        for (int64_t from = 0; from < count; from += BLOCK) {                 \
            int over[BLOCK], any = 0;                                         \
            for (int k = 0; k < BLOCK; k++) {                                 \
                const int64_t j = from + k;                                   \
                const real left = x1[j] < box[0] ? box[0] : x1[j];            \
                const real top = y1[j] < box[1] ? box[1] : y1[j];             \
                const real right = box[2] < x2[j] ? box[2] : x2[j];           \
                const real bottom = box[3] < y2[j] ? box[3] : y2[j];          \
                const real width = right - left, height = bottom - top;       \
                const real w = 0 < width ? width : 0;                         \
                const real h = 0 < height ? height : 0;                       \
                const real inter = w * h;                                     \
                over[k] = inter / (areas[j] + box[4] - inter) > most;         \
            }                                                                 \
            const int64_t left = count - from;                                \
            for (int k = 0; k < BLOCK; k++)                                   \
                any |= over[k] & (k < left);                                  \
            if (any)                                                          \
                return true;                                                  \
        }                                                                     \
        return false;                                                         \
    }
DEFINE_OVERLAPS(overlaps_f32, float)
DEFINE_OVERLAPS(overlaps_f64, double)

/* Returns the largest float r that is not above x. Then a float is above x if
 * and only if it is above r. */
static float round_down(double x)
{
    const float f = (float)x;
    return (double)f > x ? nextafterf(f, -INFINITY) : f;
}

/* Goes through `count` boxes in the given order. Sets keep[i] for each box i
 * that is kept. kept: room for 5 (count + 32) numbers of 8 bytes. */
static void suppress(const double *boxes, bool single, const int64_t *order,
                     int64_t count, double threshold, void *kept, bool *keep)
{
    const int64_t room = count + 32;
    const float most = round_down(threshold);
    float *f = kept;
    double *d = kept;
    int64_t n = 0;
    for (int64_t i = 0; i < 5 * room; i++)
        if (single)
            f[i] = 0;
        else
            d[i] = 0;
    for (int64_t i = 0; i < count; i++) {
        const double *b = boxes + 4 * order[i];
        if (single) {
            float box[5] = {(float)b[0], (float)b[1], (float)b[2], (float)b[3]};
            box[4] = (box[2] - box[0]) * (box[3] - box[1]);
            if (overlaps_f32(f, room, n, box, most))
                continue;
            for (int k = 0; k < 5; k++)
                f[k * room + n] = box[k];
        } else {
            double box[5] = {b[0], b[1], b[2], b[3]};
            box[4] = (box[2] - box[0]) * (box[3] - box[1]);
            if (overlaps_f64(d, room, n, box, threshold))
                continue;
            for (int k = 0; k < 5; k++)
                d[k * room + n] = box[k];
        }
        keep[order[i]] = true;
        n++;
    }
}

/* Sorts the boxes, which are in `order` by score, by class; boxes of a class
 * stay in order. */
static bool group(const int64_t *class, const int64_t *order, int64_t n,
                  int64_t *out)
{
    struct entry {
        int64_t class, place;
    } *all = malloc(((size_t)n + 1) * 2 * sizeof *all), *from = all,
      *to = all + n;
    if (!all) {
        tn_error_set(TN_ERR_MEMORY, "batched_nms: out of memory");
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        all[i] = (struct entry){class[order[i]], order[i]};
    for (int64_t width = 1; width < n; width *= 2) { /* a merge sort */
        for (int64_t low = 0; low < n; low += 2 * width) {
            const int64_t middle = low + width < n ? low + width : n;
            const int64_t high = middle + width < n ? middle + width : n;
            for (int64_t i = low, j = middle, k = low; k < high; k++)
                to[k] = i < middle &&
                                (j >= high || from[i].class <= from[j].class)
                            ? from[i++]
                            : from[j++];
        }
        struct entry *swap = from;
        from = to;
        to = swap;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = from[i].place;
    free(all);
    return true;
}

static tn_tensor *nms(const char *call, tn_tensor *boxes, tn_tensor *scores,
                      tn_tensor *idxs, double threshold)
{
    TN__ROUND_NEAREST;
    const tn__box_rule rule[] = {{"boxes", boxes, TN__FLOATING, 2, 4},
                                 {"scores", scores, TN__FLOATING, 1, -1},
                                 {"idxs", idxs, TN__INTEGER, 1, -1}};
    const bool batched = call[0] == 'b';
    if (!tn__box_check(call, rule, batched ? 3 : 2))
        return NULL;
    const int64_t n = tn_tensor_size(boxes, 0);
    for (int i = 1; i < (batched ? 3 : 2); i++)
        if (tn_tensor_size(rule[i].tensor, 0) != n) {
            const tn_given given[] = {{rule[i].argument, rule[i].tensor},
                                      {"boxes", boxes}};
            tn_error_refuse(TN_ERR_SHAPE, call, given, 2,
                            "%s has %lld elements, but there are %lld boxes",
                            rule[i].argument,
                            (long long)tn_tensor_size(rule[i].tensor, 0),
                            (long long)n);
            return NULL;
        }
    if (isnan(threshold)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "iou_threshold",
                                 "iou_threshold is NaN");
        return NULL;
    }
    const size_t room = (size_t)n + 32;
    double *b = tn__box_read(boxes), *s = b ? tn__box_read(scores) : NULL;
    int64_t *class = s && batched ? tn__box_read_int(idxs) : NULL;
    int64_t *order = malloc(room * sizeof *order),
            *grouped = malloc(room * sizeof *grouped);
    void *kept = malloc(5 * room * sizeof(double));
    bool *keep = calloc(room, sizeof *keep);
    tn_tensor *out = NULL;
    if (!order || !grouped || !kept || !keep)
        tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
    else if (s && (class || !batched) && tn__box_order(s, n, order) &&
             (!batched || group(class, order, n, grouped))) {
        const bool single = tn_tensor_dtype(boxes) != TN_F64;
        const int64_t *list = batched ? grouped : order;
        for (int64_t from = 0, to; from < n; from = to) {
            for (to = from + 1;
                 to < n && (!batched || class[list[to]] == class[list[from]]);
                 to++)
                ;
            suppress(b, single, list + from, to - from, threshold, kept, keep);
        }
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++)
            if (keep[order[i]])
                grouped[count++] = order[i];
        out = tn__box_tensor(grouped, TN_I64, tn_dims(count),
                             tn_tensor_device(boxes));
    }
    free(b);
    free(s);
    free(class);
    free(order);
    free(grouped);
    free(kept);
    free(keep);
    return out;
}

tn_tensor *tn_nms(tn_tensor *boxes, tn_tensor *scores, double iou_threshold)
{
    return nms("nms", boxes, scores, NULL, iou_threshold);
}

tn_tensor *tn_batched_nms(tn_tensor *boxes, tn_tensor *scores, tn_tensor *idxs,
                          double iou_threshold)
{
    return nms("batched_nms", boxes, scores, idxs, iou_threshold);
}

tn_tensor *tn_remove_small_boxes(tn_tensor *boxes, double min_size)
{
    const char *call = "remove_small_boxes";
    const tn__box_rule rule = {"boxes", boxes, TN__ANY_NUMBER, 2, 4};
    if (!tn__box_check(call, &rule, 1))
        return NULL;
    if (isnan(min_size)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "min_size",
                                 "min_size is NaN");
        return NULL;
    }
    tn_tensor *b[4], *at = NULL;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD
        if (tn_unbind(tn__box_upcast(boxes), -1, b, 4) == 4) {
            tn_tensor *wide = tn_ge_scalar(tn_sub(b[2], b[0]), min_size);
            tn_tensor *high = tn_ge_scalar(tn_sub(b[3], b[1]), min_size);
            tn_tensor *found = NULL;
            tn_nonzero(tn_logical_and(wide, high), &found, 1);
            at = found ? tn_reshape(found, tn_dims(-1)) : NULL;
        }
    return tn_scope_result(scope, at);
}

/* Returns bound, or the largest number of an integer dtype if that is smaller:
 * a larger bound changes nothing, but would wrap around in this dtype. */
static int64_t fit_bound(int64_t bound, tn_dtype dtype)
{
    const int64_t most = dtype == TN_I8    ? INT8_MAX
                         : dtype == TN_U8  ? UINT8_MAX
                         : dtype == TN_I16 ? INT16_MAX
                         : dtype == TN_I32 ? INT32_MAX
                                           : INT64_MAX;
    return bound < most ? bound : most;
}

tn_tensor *tn_clip_boxes_to_image(tn_tensor *boxes, int64_t height,
                                  int64_t width)
{
    const char *call = "clip_boxes_to_image";
    const tn__box_rule rule = {"boxes", boxes, TN__ANY_NUMBER, -1, 4};
    if (!tn__box_check(call, &rule, 1))
        return NULL;
    if (height < 0 || width < 0) {
        const char *wrong = height < 0 ? "height" : "width";
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, wrong,
                                 "%s is %lld; expected at least 0", wrong,
                                 (long long)(height < 0 ? height : width));
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_tensor *b[4], *out = NULL;
    if (tn_unbind(boxes, -1, b, 4) == 4) {
        for (int i = 0; i < 4; i++)
            b[i] = tn_clamp_scalars(
                b[i], 0, fit_bound(i % 2 ? height : width,
                                   tn_tensor_dtype(boxes)));
        out = tn_stack(b, 4, -1);
    }
    return tn_scope_result(scope, out);
}

/* Returns the smallest and the largest number of a nonzero element in each row
 * of any (N, size), or 0 if there is none. */
static void ends(tn_tensor *any, tn_tensor **out_first, tn_tensor **out_last)
{
    tn_tensor *mark = tn_to_dtype(any, TN_F32);
    const int64_t size = tn_tensor_size(any, 1);
    *out_first = tn_to_dtype(tn_argmax(mark, .dim = 1), TN_F32);
    tn_tensor *back = tn_to_dtype(
        tn_argmax(tn_flip(mark, tn_dims(1)), .dim = 1), TN_F32);
    tn_tensor *last = tn_sub(tn_full_like(back, (double)(size - 1)), back);
    *out_last = tn_mul(last, tn_amax(mark, .dim = 1));
}

tn_tensor *tn_masks_to_boxes(tn_tensor *masks)
{
    const char *call = "masks_to_boxes";
    if (!tn_object_check_kind(masks, "tensor", call, "masks"))
        return NULL;
    const tn_given given = {"masks", masks};
    if (tn_tensor_ndim(masks) != 3) {
        tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                        "masks has %d dimensions; expected (N, H, W)",
                        tn_tensor_ndim(masks));
        return NULL;
    }
    if (tn_tensor_numel(masks) == 0)
        return tn_zeros(tn_dims(tn_tensor_size(masks, 0), 4),
                        .device = tn_tensor_device(masks));
    tn_scope *scope = tn_scope_open();
    tn_tensor *x[2], *y[2], *out = NULL;
    TN_NO_GRAD {
        ends(tn_any(masks, .dim = 1), &x[0], &x[1]);
        ends(tn_any(masks, .dim = 2), &y[0], &y[1]);
        out = tn_stack((tn_tensor *[]){x[0], y[0], x[1], y[1]}, 4, 1);
    }
    return tn_scope_result(scope, out);
}
