/* image.c: sampling of images, and detection of objects. */
#include <onnx/ops/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sampling ------------------------------------------------------------ */

/* Opset 20 renamed the modes. */
static void grid_sample(tn__onnx_call *c)
{
    const char *mode = tn__onnx_string(c, 1);
    if (strcmp(mode, "linear") == 0)
        mode = "bilinear";
    else if (strcmp(mode, "cubic") == 0)
        mode = "bicubic";
    c->y[0] = tn_grid_sample(c->x[0], c->x[1], .mode = mode,
                             .padding_mode = tn__onnx_string(c, 2),
                             .align_corners = tn__onnx_int(c, 0) != 0);
}

static void affine_grid(tn__onnx_call *c)
{
    tn_dims_list size;
    if (tn__onnx_dims(c, -1, 1, &size) && tn__onnx_may_make(c, size))
        c->y[0] = tn_affine_grid(c->x[0], size,
                                 .align_corners = tn__onnx_int(c, 0) != 0);
}

/* Returns element i of a list attribute, or `fallback` if it is left out. */
static int64_t number(const tn__onnx_attr *a, int64_t i, int64_t fallback)
{
    return a && i < a->count ? a->ints[i] : fallback;
}

/* Sums columns (N, C * block, L) into images: blocks that overlap add up. */
static void col2im(tn__onnx_call *c)
{
    enum { DILATIONS, PADS, STRIDES };
    tn_tensor *x = c->x[0];
    tn_dims_list image, block;
    if (!tn__onnx_dims(c, -1, 1, &image) || !tn__onnx_dims(c, -1, 2, &block))
        return;
    const int n = image.count;
    int64_t padded[TN_MAX_NDIM], count[TN_MAX_NDIM], cells = 1, taps = 1,
                                                     at = 1;
    bool fine = n >= 1 && n == block.count && n <= TN_MAX_NDIM - 2 &&
                tn_tensor_ndim(x) == 3;
    for (int i = 0; i < n && fine; i++) {
        const int64_t dilation = number(c->attr[DILATIONS], i, 1),
                      stride = number(c->attr[STRIDES], i, 1),
                      before = number(c->attr[PADS], i, 0),
                      after = number(c->attr[PADS], i + n, 0);
        fine = image.dim[i] > 0 && image.dim[i] < INT32_MAX &&
               block.dim[i] > 0 && block.dim[i] < INT32_MAX && dilation > 0 &&
               dilation < INT32_MAX && stride > 0 && before >= 0 &&
               before < INT32_MAX && after >= 0 && after < INT32_MAX;
        if (!fine)
            break;
        padded[i] = image.dim[i] + before + after;
        count[i] = (padded[i] - (block.dim[i] - 1) * dilation - 1) / stride + 1;
        fine = count[i] > 0 &&
               !__builtin_mul_overflow(cells, count[i], &cells) &&
               !__builtin_mul_overflow(taps, block.dim[i], &taps) &&
               !__builtin_mul_overflow(at, padded[i], &at);
    }
    if (!fine || tn_tensor_size(x, 2) != cells || tn_tensor_size(x, 1) % taps) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the shape of the input does not match %lld blocks of "
                        "%lld elements in the image",
                        (long long)cells, (long long)taps);
        return;
    }
    /* for each element of each block, its index in the padded image */
    if (!tn__onnx_fits(c, taps * cells))
        return;
    int64_t *index = malloc((size_t)(taps * cells) * sizeof *index);
    if (!index) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
        return;
    }
    for (int64_t k = 0; k < taps; k++)
        for (int64_t l = 0; l < cells; l++) {
            int64_t tap = k, cell = l, place = 0, step = 1;
            for (int i = n - 1; i >= 0; i--) {
                place +=
                    step *
                    (cell % count[i] * number(c->attr[STRIDES], i, 1) +
                     tap % block.dim[i] * number(c->attr[DILATIONS], i, 1));
                step *= padded[i];
                cell /= count[i];
                tap /= block.dim[i];
            }
            index[k * cells + l] = place;
        }
    tn_tensor *places =
        tn_tensor_from_array(index, TN_I64, tn_dims(taps * cells));
    free(index);
    const int64_t batch = tn_tensor_size(x, 0),
                  channels = tn_tensor_size(x, 1) / taps;
    tn_tensor *y = tn_index_add(
        tn_zeros(tn_dims(batch * channels, at), .dtype = tn_tensor_dtype(x),
                 .device = c->device),
        1, places, tn_reshape(x, tn_dims(batch * channels, taps * cells)));
    tn_dims_list to = tn__onnx_blank(n + 2);
    to.dim[0] = batch;
    to.dim[1] = channels;
    for (int i = 0; i < n; i++)
        to.dim[i + 2] = padded[i];
    y = tn_reshape(y, to);
    for (int i = 0; i < n; i++)
        y = tn_narrow(y, i + 2, number(c->attr[PADS], i, 0), image.dim[i]);
    c->y[0] = y;
}

/* ---- detection ----------------------------------------------------------- */

typedef struct box {
    float low[2], high[2];
} box;

/* A box is given as two opposite corners in any order, or as centre and
 * size. */
static box read_box(const float *p, bool centred)
{
    box b;
    for (int i = 0; i < 2; i++) {
        const float first = centred ? p[i] - p[i + 2] / 2 : p[i],
                    second = centred ? p[i] + p[i + 2] / 2 : p[i + 2];
        b.low[i] = fminf(first, second);
        b.high[i] = fmaxf(first, second);
    }
    return b;
}

static float area(const box *b)
{
    return (b->high[0] - b->low[0]) * (b->high[1] - b->low[1]);
}

/* Returns whether the intersection of a and b is more than `part` of their
 * union. */
static bool overlap(const box *a, const box *b, float part)
{
    float common = 1;
    for (int i = 0; i < 2; i++) {
        const float side =
            fminf(a->high[i], b->high[i]) - fmaxf(a->low[i], b->low[i]);
        if (side <= 0)
            return false;
        common *= side;
    }
    const float all = area(a) + area(b) - common;
    return all > 0 && common > part * all;
}

typedef struct candidate {
    float score;
    int64_t box;
} candidate;

static int by_score(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->box < y->box ? -1 : x->box > y->box;
}

/* Stores the boxes of one class by decreasing score, without those that overlap
 * a box of higher score. Stores at most `most` numbers in out and returns how
 * many. */
static int64_t suppress(const box *boxes, const float *score, int64_t count,
                        int64_t most, float part, const double *least,
                        candidate *list, int64_t *out)
{
    int64_t n = 0, kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (!least || (double)score[i] > *least)
            list[n++] = (candidate){score[i], i};
    if (n)
        qsort(list, (size_t)n, sizeof *list, by_score);
    for (int64_t i = 0; i < n && kept < most; i++) {
        bool hidden = false;
        for (int64_t j = 0; j < kept && !hidden; j++)
            hidden = overlap(&boxes[list[i].box], &boxes[out[j]], part);
        if (!hidden)
            out[kept++] = list[i].box;
    }
    return kept;
}

/* Runs on the host, since each choice depends on the previous ones. */
static void non_max_suppression(tn__onnx_call *c)
{
    const tn_tensor *b = c->x[0], *s = c->x[1];
    int64_t most = 0;
    double part = 0, least;
    c->reads = true;
    if (tn_tensor_ndim(b) != 3 || tn_tensor_size(b, 2) != 4 ||
        tn_tensor_ndim(s) != 3 ||
        tn_tensor_size(s, 0) != tn_tensor_size(b, 0) ||
        tn_tensor_size(s, 2) != tn_tensor_size(b, 1)) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "boxes must have the shape (batch, n, 4), and scores "
                        "(batch, classes, n)");
        return;
    }
    const int given = tn__onnx_floats(c, 4, &least, 1);
    if (given < 0 || tn__onnx_ints(c, 2, &most, 1) < 0 ||
        tn__onnx_floats(c, 3, &part, 1) < 0)
        return;
    const int64_t batch = tn_tensor_size(b, 0), n = tn_tensor_size(b, 1),
                  classes = tn_tensor_size(s, 1);
    most = most < 0 ? 0 : most > n ? n : most;
    /* Checks the size of the lists below. If each term is in the allowed range,
     * the sum cannot overflow. */
    const int64_t corners = tn_tensor_numel(b), scores = tn_tensor_numel(s);
    if (!tn__onnx_fits(c, corners) || !tn__onnx_fits(c, scores) ||
        !tn__onnx_fits(c, n) || !tn__onnx_fits(c, corners + 4 * scores + 6 * n))
        return;
    const size_t room = (size_t)(batch * classes * most) + 1;
    float *corner = malloc((size_t)(batch * n * 4 + 1) * sizeof *corner);
    float *score = malloc((size_t)(batch * classes * n + 1) * sizeof *score);
    box *boxes = malloc((size_t)(n + 1) * sizeof *boxes);
    candidate *all = malloc((size_t)(n + 1) * sizeof *all);
    int64_t *kept = malloc((size_t)(most + 1) * sizeof *kept);
    int64_t *out = malloc(room * 3 * sizeof *out), count = 0;
    bool fine = corner && score && boxes && all && kept && out;
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
    fine =
        fine &&
        tn_tensor_to_array(tn_to_dtype(c->x[0], TN_F32), corner,
                           (size_t)(batch * n * 4) * sizeof *corner) == TN_OK &&
        tn_tensor_to_array(tn_to_dtype(c->x[1], TN_F32), score,
                           (size_t)(batch * classes * n) * sizeof *score) ==
            TN_OK;
    for (int64_t i = 0; i < batch && fine; i++) {
        for (int64_t k = 0; k < n; k++)
            boxes[k] = read_box(corner + (i * n + k) * 4,
                                tn__onnx_int(c, 0) != 0);
        for (int64_t j = 0; j < classes; j++) {
            const int64_t found =
                suppress(boxes, score + (i * classes + j) * n, n, most,
                         (float)part, given ? &least : NULL, all, kept);
            for (int64_t k = 0; k < found; k++, count++) {
                out[3 * count] = i;
                out[3 * count + 1] = j;
                out[3 * count + 2] = kept[k];
            }
        }
    }
    if (fine)
        c->y[0] = tn_tensor_from_array(out, TN_I64, tn_dims(count, 3));
    c->y_type[0] = TN__ONNX_INT64;
    free(corner);
    free(score);
    free(boxes);
    free(all);
    free(kept);
    free(out);
}

static const tn__onnx_op rows[] = {
    {.name = "GridSample", .since = 16, .until = 19, .min_in = 2, .max_in = 2,
     .max_out = 1,
     .attributes = "align_corners:int=0 mode:string=bilinear "
                   "padding_mode:string=zeros",
     .run = grid_sample},
    {.name = "GridSample", .since = 20, .min_in = 2, .max_in = 2, .max_out = 1,
     .attributes = "align_corners:int=0 mode:string=linear "
                   "padding_mode:string=zeros",
     .run = grid_sample},
    {.name = "AffineGrid", .since = 20, .min_in = 2, .max_in = 2, .max_out = 1,
     .attributes = "align_corners:int=0", .run = affine_grid, .host = 2},
    {.name = "Col2Im", .since = 18, .min_in = 3, .max_in = 3, .max_out = 1,
     .attributes = "dilations:ints pads:ints strides:ints", .run = col2im,
     .host = 6, .grows = true},
    {.name = "NonMaxSuppression", .since = 10, .min_in = 2, .max_in = 5,
     .max_out = 1, .attributes = "center_point_box:int=0",
     .run = non_max_suppression, .host = 28, .by_data = true},
};
const tn__onnx_family tn__onnx_image = TN__ONNX_FAMILY(rows);
