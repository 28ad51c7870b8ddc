/* regions.c: RoiAlign and MaxRoiPool, which resample regions of images to one
 * size. The host computes the positions of the samples. The device reads pixels
 * by index, so gradients reach the images, but not the regions. */
#include <onnx/ops/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- RoiAlign ------------------------------------------------------------ */

typedef struct align {
    int64_t rows, columns, ratio; /* sizes of a result; ratio: samples in each
                                     dimension of a cell, 0: by its size */
    double scale;
    bool half_pixel, takes_max;
} align;

/* Finds the two pixels next to position x in a dimension, and their weights.
 * The weights are 0 if x is outside the image. */
static void neighbours(double x, int64_t size, int64_t *at, double *weight)
{
    const bool inside = x >= -1 && x <= (double)size;
    x = inside ? fmax(x, 0) : 0;
    at[0] = (int64_t)x;
    if (at[0] >= size - 1) {
        at[0] = size - 1;
        x = (double)at[0];
    }
    at[1] = at[0] + 1 < size ? at[0] + 1 : at[0];
    weight[1] = inside ? x - (double)at[0] : 0;
    weight[0] = inside ? 1 - weight[1] : 0;
}

/* Resamples one region of an image (C, H, W) to (C, rows, columns). */
static tn_tensor *align_one(tn__onnx_call *c, const align *a, tn_tensor *image,
                            const double *region)
{
    const int64_t channels = tn_tensor_size(image, 0);
    const int64_t size[2] = {tn_tensor_size(image, 1),
                             tn_tensor_size(image, 2)};
    const int64_t out[2] = {a->rows, a->columns};
    double start[2], bin[2];
    int64_t grid[2];
    for (int i = 0; i < 2; i++) { /* a region is x1, y1, x2, y2 */
        const double shift = a->half_pixel ? 0.5 : 0;
        start[i] = region[1 - i] * a->scale - shift;
        double length = region[3 - i] * a->scale - shift - start[i];
        if (!a->half_pixel)
            length = fmax(length, 1);
        bin[i] = length / (double)out[i];
        const double cells = a->ratio > 0 ? (double)a->ratio : ceil(bin[i]);
        if (!(cells < 4096) || !(fabs(start[i]) < 1e9)) {
            tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                            "a region begins at %g and has %g samples in a "
                            "cell; these must be below 1e9 and 4096",
                            start[i], cells);
            return NULL;
        }
        grid[i] = cells < 0 ? 0 : (int64_t)cells;
    }
    const int64_t samples = grid[0] * grid[1], taps = 4 * samples,
                  cells = a->rows * a->columns;
    if (!samples)
        return tn_zeros(tn_dims(channels, a->rows, a->columns),
                        .dtype = tn_tensor_dtype(image), .device = c->device);
    if (cells > (1 << 28) / taps) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "a result has %lld cells of %lld samples, which is too "
                        "many",
                        (long long)cells, (long long)samples);
        return NULL;
    }
    if (!tn__onnx_fits(c, 2 * cells * taps))
        return NULL;
    int64_t *index = malloc((size_t)(cells * taps) * sizeof *index), n = 0;
    double *weight = malloc((size_t)(cells * taps) * sizeof *weight);
    for (int64_t cell = 0; cell < cells && index && weight; cell++)
        for (int64_t s = 0; s < samples; s++) {
            const int64_t place[2] = {cell / a->columns, cell % a->columns},
                          sample[2] = {s / grid[1], s % grid[1]};
            int64_t at[2][2];
            double w[2][2];
            for (int i = 0; i < 2; i++)
                neighbours(start[i] + (double)place[i] * bin[i] +
                               ((double)sample[i] + 0.5) * bin[i] /
                                   (double)grid[i],
                           size[i], at[i], w[i]);
            for (int k = 0; k < 4; k++, n++) {
                index[n] = at[0][k / 2] * size[1] + at[1][k % 2];
                weight[n] = w[0][k / 2] * w[1][k % 2];
            }
        }
    tn_tensor *y = NULL;
    if (index && weight) {
        tn_tensor *at = tn_tensor_from_array(index, TN_I64, tn_dims(n));
        tn_tensor *w = tn_to_dtype(
            tn_tensor_from_array(weight, TN_F64, tn_dims(cells, taps)),
            tn_tensor_dtype(image));
        y = tn_index_select(tn_flatten(image, .start_dim = 1), 1, at);
        y = tn_mul(tn_reshape(y, tn_dims(channels, cells, taps)), w);
        y = a->takes_max ? tn_amax(y, .dim = 2)
                         : tn_div_scalar(tn_sum(y, .dim = 2), (double)samples);
        y = tn_reshape(y, tn_dims(channels, a->rows, a->columns));
    } else {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
    }
    free(index);
    free(weight);
    return y;
}

static void roi_align(tn__onnx_call *c)
{
    enum { MODE, ROWS, COLUMNS, RATIO, SCALE, WHERE };
    tn_tensor *x = c->x[0];
    const bool is_new = c->node->row->since >= 16;
    const align a = {
        .rows = tn__onnx_int(c, ROWS), .columns = tn__onnx_int(c, COLUMNS),
        .ratio = tn__onnx_int(c, RATIO), .scale = tn__onnx_float(c, SCALE),
        .takes_max = strcmp(tn__onnx_string(c, MODE), "max") == 0,
        .half_pixel =
            is_new && strcmp(tn__onnx_string(c, WHERE), "half_pixel") == 0};
    const int64_t n = tn_tensor_ndim(c->x[1]) == 2 ? tn_tensor_size(c->x[1], 0)
                                                   : -1;
    if (tn_tensor_ndim(x) != 4 || n < 0 || n > 1 << 20 ||
        tn_tensor_size(c->x[1], 1) != 4 || tn_tensor_numel(c->x[2]) != n ||
        a.rows < 1 || a.columns < 1 || a.rows > 1 << 14 ||
        a.columns > 1 << 14 || tn_tensor_numel(x) == 0) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "X must have the shape (N, C, H, W), rois (n, 4) and "
                        "batch_indices (n), and output sizes must be 1 to "
                        "16384");
        return;
    }
    double *region = malloc(((size_t)n * 4 + 1) * sizeof *region);
    int64_t *image = malloc(((size_t)n + 1) * sizeof *image);
    tn_tensor **y = calloc((size_t)n + 1, sizeof *y);
    bool fine = region && image && y;
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
    fine = fine && tn__onnx_floats(c, 1, region, (int)n * 4) >= 0 &&
           tn__onnx_ints(c, 2, image, (int)n) >= 0;
    for (int64_t i = 0; i < n && fine; i++) {
        if (image[i] < 0 || image[i] >= tn_tensor_size(x, 0)) {
            tn__onnx_refuse(c, TN_ERR_INDEX,
                            "batch_indices[%lld] is %lld, but X has no such "
                            "image",
                            (long long)i, (long long)image[i]);
            fine = false;
            break;
        }
        y[i] = align_one(c, &a, tn_select(x, 0, image[i]), region + 4 * i);
        fine = y[i] != NULL;
    }
    if (fine)
        c->y[0] = n ? tn_stack(y, (int)n, 0)
                    : tn_empty(tn_dims(0, tn_tensor_size(x, 1), a.rows,
                                       a.columns),
                               .dtype = tn_tensor_dtype(x),
                               .device = c->device);
    free(region);
    free(image);
    free(y);
}

/* ---- MaxRoiPool ---------------------------------------------------------- */

/* Finds the pixels [*from, *to) of cell i of `cells` in a region that begins at
 * pixel `first` and has `length` pixels, in an image of `size` pixels. */
static void cell_range(int64_t i, int64_t cells, int64_t first, int64_t length,
                       int64_t size, int64_t *from, int64_t *to)
{
    const double bin = (double)length / (double)cells;
    const int64_t low = first + (int64_t)floor((double)i * bin),
                  high = first + (int64_t)ceil((double)(i + 1) * bin);
    *from = low < 0 ? 0 : low > size ? size : low;
    *to = high < 0 ? 0 : high > size ? size : high;
}

/* Pools one region of an image (C, H, W) to (C, out[0], out[1]). An element of
 * the result is the largest pixel of its cell, or 0 if the cell contains no
 * pixel. */
static tn_tensor *pool_one(tn__onnx_call *c, tn_tensor *image,
                           const double *region, double scale,
                           const int64_t *out)
{
    const int64_t size[2] = {tn_tensor_size(image, 1),
                             tn_tensor_size(image, 2)};
    int64_t first[2], length[2], most[2] = {1, 1}, from[2], to[2];
    for (int i = 0; i < 2; i++) { /* a region is image, x1, y1, x2, y2 */
        const double low = round(region[2 - i] * scale),
                     high = round(region[4 - i] * scale);
        if (!(fabs(low) < 1e9) || !(fabs(high) < 1e9)) {
            tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                            "a region reaches from %g to %g pixels; both must "
                            "be between -1e9 and 1e9",
                            low, high);
            return NULL;
        }
        first[i] = (int64_t)low;
        length[i] = high < low ? 1 : (int64_t)(high - low) + 1;
        for (int64_t k = 0; k < out[i]; k++) {
            cell_range(k, out[i], first[i], length[i], size[i], from, to);
            most[i] = *to - *from > most[i] ? *to - *from : most[i];
        }
    }
    const int64_t cells = out[0] * out[1], taps = most[0] * most[1];
    if (cells > (1 << 28) / taps) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "a result has %lld cells of %lld pixels, which is too "
                        "many",
                        (long long)cells, (long long)taps);
        return NULL;
    }
    if (!tn__onnx_fits(c, 2 * cells * taps))
        return NULL;
    int64_t *index = malloc((size_t)(cells * taps) * sizeof *index);
    float *inside = malloc((size_t)cells * sizeof *inside);
    tn_tensor *y = NULL;
    for (int64_t cell = 0; cell < cells && index && inside; cell++) {
        cell_range(cell / out[1], out[0], first[0], length[0], size[0],
                   &from[0], &to[0]);
        cell_range(cell % out[1], out[1], first[1], length[1], size[1],
                   &from[1], &to[1]);
        const bool any = to[0] > from[0] && to[1] > from[1];
        inside[cell] = any;
        for (int64_t k = 0; k < taps; k++) {
            /* a smaller cell repeats its last row and column */
            int64_t at[2] = {k / most[1], k % most[1]};
            for (int i = 0; i < 2; i++)
                at[i] = from[i] + at[i] < to[i] ? from[i] + at[i] : to[i] - 1;
            index[cell * taps + k] = any ? at[0] * size[1] + at[1] : 0;
        }
    }
    if (index && inside) {
        tn_tensor *at = tn_tensor_from_array(index, TN_I64,
                                             tn_dims(cells * taps));
        tn_tensor *any = tn_ne_scalar(
            tn_tensor_from_array(inside, TN_F32, tn_dims(cells)), 0);
        const int64_t channels = tn_tensor_size(image, 0);
        y = tn_index_select(tn_flatten(image, .start_dim = 1), 1, at);
        y = tn_amax(tn_reshape(y, tn_dims(channels, cells, taps)), .dim = 2);
        y = tn_where(any, y, tn_zeros_like(y));
        y = tn_reshape(y, tn_dims(channels, out[0], out[1]));
    } else {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
    }
    free(index);
    free(inside);
    return y;
}

static void max_roi_pool(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0];
    const tn__onnx_attr *shape = c->attr[0];
    const int64_t n = tn_tensor_ndim(c->x[1]) == 2 ? tn_tensor_size(c->x[1], 0)
                                                   : -1;
    if (tn_tensor_ndim(x) != 4 || tn_tensor_numel(x) == 0 || n < 0 ||
        n > 1 << 20 || tn_tensor_size(c->x[1], 1) != 5 || shape->count != 2 ||
        shape->ints[0] < 1 || shape->ints[0] > 1 << 14 || shape->ints[1] < 1 ||
        shape->ints[1] > 1 << 14) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "X must have the shape (N, C, H, W), rois (n, 5), and "
                        "pooled_shape two sizes of 1 to 16384");
        return;
    }
    double *region = malloc(((size_t)n * 5 + 1) * sizeof *region);
    tn_tensor **y = calloc((size_t)n + 1, sizeof *y);
    bool fine = region && y;
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
    fine = fine && tn__onnx_floats(c, 1, region, (int)n * 5) >= 0;
    for (int64_t i = 0; i < n && fine; i++) {
        const double image = region[5 * i];
        if (!(image >= 0 && image < (double)tn_tensor_size(x, 0))) {
            tn__onnx_refuse(c, TN_ERR_INDEX,
                            "rois[%lld][0] is %g, but X has %lld images",
                            (long long)i, image,
                            (long long)tn_tensor_size(x, 0));
            fine = false;
            break;
        }
        y[i] = pool_one(c, tn_select(x, 0, (int64_t)image), region + 5 * i,
                        tn__onnx_float(c, 1), shape->ints);
        fine = y[i] != NULL;
    }
    if (fine)
        c->y[0] = n ? tn_stack(y, (int)n, 0)
                    : tn_empty(tn_dims(0, tn_tensor_size(x, 1), shape->ints[0],
                                       shape->ints[1]),
                               .dtype = tn_tensor_dtype(x),
                               .device = c->device);
    free(region);
    free(y);
}

/* ---- rows ---------------------------------------------------------------- */

#define ROI "mode:string=avg output_height:int=1 output_width:int=1 "          \
            "sampling_ratio:int=0 spatial_scale:float=1"
static const tn__onnx_op rows[] = {
    {.name = "RoiAlign", .since = 10, .until = 15, .min_in = 3, .max_in = 3,
     .max_out = 1, .attributes = ROI, .run = roi_align, .grows = true},
    {.name = "RoiAlign", .since = 16, .min_in = 3, .max_in = 3, .max_out = 1,
     .attributes = ROI " coordinate_transformation_mode:string=half_pixel",
     .run = roi_align, .grows = true},
    {.name = "MaxRoiPool", .since = 1, .min_in = 2, .max_in = 2, .max_out = 1,
     .attributes = "pooled_shape:ints! spatial_scale:float=1",
     .run = max_roi_pool, .grows = true},
};
const tn__onnx_family tn__onnx_regions = TN__ONNX_FAMILY(rows);
