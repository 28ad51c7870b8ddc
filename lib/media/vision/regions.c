/* regions.c: roi_align and roi_pool.
 *
 * The host computes which pixels a cell reads, and with which weights: a sparse
 * matrix of cells by pixels. The device multiplies it by the pixels, four terms
 * at a time (sparse.c). The gradient is the product with the transposed matrix,
 * so it is as fast, deterministic, and differentiable itself. */
#include <base/library_lock.h>
#include <media/vision/boxes.h>
#include <media/vision/sparse.h>

#include <math.h>
#include <stdlib.h>

TN_OPTIONS_TYPE(tn_roi_align, "roi_align", "input, boxes, height, width",
                TN_ROI_ALIGN_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_roi_pool, "roi_pool", "input, boxes, height, width",
                TN_ROI_POOL_OPTIONS_LIST)

/* What a call computes. */
typedef struct job {
    const double *region;       /* (count, 5) */
    int64_t count;
    int64_t images, channels, size[2]; /* of the input: N, C, H and W */
    int64_t out[2];             /* rows and columns of a result */
    double scale;
    int64_t ratio;
    bool aligned;
    bool single; /* positions are rounded to float32, as torchvision does */
} job;

/* A block of regions ends when it has so many terms, which need 100 MB. One
 * region may have more, but not more than MOST_OF_REGION. */
enum { MOST_TERMS = 1 << 22, MOST_OF_REGION = 1 << 26 };

/* ---- roi_align: the terms of a region ------------------------------------ */

static double rounded(const job *j, double x)
{
    return j->single ? (double)(float)x : x;
}

/* The pixels that the cells of a region read along one dimension. Cell c reads
 * pixel[start[c]] ... pixel[start[c + 1] - 1]. */
typedef struct axis {
    int64_t start[4097];
    int64_t *pixel;
    double *weight;
    int64_t room, most; /* the largest number of pixels of a cell */
} axis;

/* Adds a pixel to the cell that begins at `from`, or adds to its weight. */
static bool add_pixel(axis *a, int64_t from, int64_t *count, int64_t pixel,
                      double weight)
{
    for (int64_t i = *count - 1; i >= from && i >= *count - 2; i--)
        if (a->pixel[i] == pixel) {
            a->weight[i] += weight;
            return true;
        }
    if (*count == a->room) {
        const int64_t room = 2 * a->room + 64;
        int64_t *pixels = realloc(a->pixel, (size_t)room * sizeof *pixels);
        if (pixels)
            a->pixel = pixels;
        double *weights = realloc(a->weight, (size_t)room * sizeof *weights);
        if (weights)
            a->weight = weights;
        if (!pixels || !weights)
            return false;
        a->room = room;
    }
    a->pixel[*count] = pixel;
    a->weight[(*count)++] = weight;
    return true;
}

/* Returns the number of samples in a cell of region r along dimension i (0:
 * rows), and the start and the size of a cell. */
static double place(const job *j, const double *r, int i, double *start,
                    double *bin)
{
    const double shift = j->aligned ? 0.5 : 0;
    const double scale = rounded(j, j->scale);
    *start = rounded(j, rounded(j, rounded(j, r[2 - i]) * scale) - shift);
    const double end =
        rounded(j, rounded(j, rounded(j, r[4 - i]) * scale) - shift);
    double length = rounded(j, end - *start);
    if (!j->aligned)
        length = fmax(length, 1);
    *bin = rounded(j, length / (double)j->out[i]);
    return j->ratio > 0 ? (double)j->ratio : fmax(ceil(*bin), 0);
}

/* Fills *a for region r along dimension i. samples: in a cell. */
static bool fill_axis(const job *j, const double *r, int i, axis *a)
{
    double start, bin;
    const double samples = place(j, r, i, &start, &bin);
    const int64_t size = j->size[i];
    int64_t n = 0;
    a->most = 0;
    for (int64_t cell = 0; cell < j->out[i]; cell++) {
        a->start[cell] = n;
        const double from = rounded(j, start + rounded(j, (double)cell * bin));
        for (int64_t s = 0; (double)s < samples; s++) {
            double x = rounded(
                j, from + rounded(j, rounded(j, ((double)s + 0.5) * bin) /
                                         samples));
            if (x < -1 || x > (double)size)
                continue;
            x = fmax(x, 0);
            int64_t at = (int64_t)x;
            double high = rounded(j, x - (double)at);
            if (at >= size - 1) {
                at = size - 1;
                high = 0;
            }
            if (!add_pixel(a, a->start[cell], &n, at,
                           rounded(j, 1 - high) / samples) ||
                (high > 0 && !add_pixel(a, a->start[cell], &n, at + 1,
                                        high / samples)))
                return false;
        }
        if (n - a->start[cell] > a->most)
            a->most = n - a->start[cell];
    }
    a->start[j->out[i]] = n;
    return true;
}

/* Adds the cells of a region to m, as rows. */
static bool add_region(const job *j, const double *r, const axis a[2],
                       tn__sparse *m)
{
    const int64_t image = (int64_t)r[0] * j->size[0] * j->size[1];
    for (int64_t y = 0; y < j->out[0]; y++)
        for (int64_t x = 0; x < j->out[1]; x++) {
            for (int64_t p = a[0].start[y]; p < a[0].start[y + 1]; p++)
                for (int64_t q = a[1].start[x]; q < a[1].start[x + 1]; q++)
                    if (!tn__sparse_add(m, image +
                                               a[0].pixel[p] * j->size[1] +
                                               a[1].pixel[q],
                                        a[0].weight[p] * a[1].weight[q]))
                        return false;
            if (!tn__sparse_end_row(m))
                return false;
        }
    return true;
}

/* Fills m with the cells of regions from `first`, until it has MOST_TERMS
 * terms. Returns the index of the next region, or -1 with an error. */
static int64_t fill(const job *j, int64_t first, axis *a, tn__sparse *m)
{
    int64_t i = first;
    m->rows = 0;
    for (; i < j->count && (i == first || m->start[m->rows] < MOST_TERMS); i++)
        if (!fill_axis(j, j->region + 5 * i, 0, &a[0]) ||
            !fill_axis(j, j->region + 5 * i, 1, &a[1]) ||
            !add_region(j, j->region + 5 * i, a, m)) {
            tn_error_set(TN_ERR_MEMORY, "roi_align: out of memory");
            return -1;
        }
    return i;
}

/* Computes the cells (count * rows * columns, C) of x, pixels (N * H * W, C);
 * or, transposed, pixels of cells. */
static tn_tensor *multiply(const job *j, tn_tensor *x, bool transposed)
{
    const int64_t cells = j->out[0] * j->out[1],
                  pixels = j->images * j->size[0] * j->size[1];
    axis *a = calloc(2, sizeof *a);
    tn__sparse m = {0}, back = {0};
    tn_tensor *out = NULL, *part = NULL;
    bool fine = a && tn__sparse_init(&m) && tn__sparse_init(&back);
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "roi_align: out of memory");
    for (int64_t first = 0, next; fine && first < j->count; first = next) {
        next = fill(j, first, a, &m);
        if (next < 0 || (transposed && !tn__sparse_transpose(&m, pixels,
                                                             &back))) {
            fine = false;
            break;
        }
        tn_tensor *from = transposed
                              ? tn_narrow(x, 0, first * cells,
                                          (next - first) * cells)
                              : x;
        part = tn__sparse_multiply(transposed ? &back : &m, from);
        out = !out ? part
              : transposed
                  ? tn_add(out, part)
                  : tn_cat((tn_tensor *[]){out, part}, 2, 0);
        fine = out != NULL;
    }
    if (fine && !out)
        out = tn_zeros(tn_dims(transposed ? pixels : 0, tn_tensor_size(x, 1)),
                       .dtype = tn_tensor_dtype(x),
                       .device = tn_tensor_device(x));
    tn__sparse_fini(&m);
    tn__sparse_fini(&back);
    if (a) {
        free(a[0].pixel);
        free(a[0].weight);
        free(a[1].pixel);
        free(a[1].weight);
    }
    free(a);
    return fine ? out : NULL;
}

/* ---- roi_align: the operator ---------------------------------------------- */

/* With transposed = false, x is (N, C, H, W) and the result (K, C, height,
 * width). With transposed = true, it is the other way round. */
static const char signature[] =
    "media_roi_align(x, boxes, images: int, rows: int, columns: int, "
    "height: int, width: int, scale: float, ratio: int, aligned: bool, "
    "transposed: bool)";
enum { X, BOXES, IMAGES, ROWS, COLUMNS, HEIGHT, WIDTH, SCALE, RATIO, ALIGNED,
       TRANSPOSED, ARGUMENTS };

static tn_tensor *run(tn_op_context *call, tn_tensor *x, tn_tensor *boxes,
                      bool transposed)
{
    int64_t number[ARGUMENTS];
    for (int i = IMAGES; i < ARGUMENTS; i++)
        number[i] = tn_op_context_value(call, i).of.i;
    double *region = tn__box_read(boxes);
    if (!region)
        return NULL;
    const job j = {
        .region = region, .count = tn_tensor_size(boxes, 0),
        .images = number[IMAGES], .channels = tn_tensor_size(x, 1),
        .size = {number[ROWS], number[COLUMNS]},
        .out = {number[HEIGHT], number[WIDTH]},
        .scale = tn_op_context_value(call, SCALE).of.f,
        .ratio = number[RATIO], .aligned = number[ALIGNED],
        .single = tn_tensor_dtype(x) != TN_F64};
    const int64_t n = transposed ? j.images : j.count,
                  *size = transposed ? j.size : j.out;
    /* the channels become the last dimension, along which devices read
     * consecutive elements */
    tn_tensor *y = tn_contiguous(tn_permute(x, tn_dims(0, 2, 3, 1)));
    y = multiply(&j, tn_reshape(y, tn_dims(tn_tensor_numel(x) / j.channels,
                                           j.channels)),
                 transposed);
    free(region);
    y = tn_reshape(y, tn_dims(n, size[0], size[1], j.channels));
    return tn_contiguous(tn_permute(y, tn_dims(0, 3, 1, 2)));
}

static tn_status align_forward(tn_op_context *call, tn_tensor **out)
{
    tn_tensor *boxes = tn_op_context_tensor(call, BOXES);
    const bool transposed = tn_op_context_value(call, TRANSPOSED).of.i;
    tn_op_context_save(call, boxes);
    out[0] = run(call, tn_op_context_tensor(call, X), boxes, transposed);
    return out[0] ? TN_OK : tn_error_code();
}

static tn_status call_align(const tn_value *values, tn_tensor **out);

static tn_status align_backward(tn_op_context *call, tn_tensor *const *grad,
                                tn_tensor **out)
{
    tn_tensor *boxes = tn_op_context_saved(call, 0);
    if (!grad[0] || !boxes)
        return boxes ? TN_OK : tn_error_code();
    tn_value value[ARGUMENTS];
    for (int i = 0; i < ARGUMENTS; i++)
        value[i] = tn_op_context_value(call, i);
    value[X] = (tn_value){.kind = TN_VALUE_TENSOR, .of.tensor = grad[0]};
    value[BOXES] = (tn_value){.kind = TN_VALUE_TENSOR, .of.tensor = boxes};
    value[TRANSPOSED].of.i = !value[TRANSPOSED].of.i;
    return call_align(value, out);
}

/* ---- roi_pool: the operator ------------------------------------------------ */

static const char pool_signature[] =
    "media_roi_pool(x, boxes, height: int, width: int, scale: float) -> y, at";
enum { POOL_X, POOL_BOXES, POOL_HEIGHT, POOL_WIDTH, POOL_SCALE };

/* Adds the pixels of all cells of a region to m. */
static bool add_pool(const job *j, const double *r, tn__sparse *m)
{
    int64_t start[2];
    double bin[2];
    for (int i = 0; i < 2; i++) {
        const double scale = rounded(j, j->scale);
        start[i] = (int64_t)round(rounded(j, rounded(j, r[2 - i]) * scale));
        const int64_t end =
            (int64_t)round(rounded(j, rounded(j, r[4 - i]) * scale));
        const int64_t length = end - start[i] + 1 > 1 ? end - start[i] + 1 : 1;
        bin[i] = rounded(j, (double)length / (double)j->out[i]);
    }
    const int64_t image = (int64_t)r[0] * j->size[0] * j->size[1];
    for (int64_t cell = 0; cell < j->out[0] * j->out[1]; cell++) {
        int64_t low[2], high[2];
        for (int i = 0; i < 2; i++) {
            const double c = (double)(i ? cell % j->out[1] : cell / j->out[1]);
            const double size = (double)j->size[i], from = (double)start[i];
            low[i] = (int64_t)fmin(
                fmax(floor(rounded(j, c * bin[i])) + from, 0), size);
            high[i] = (int64_t)fmin(
                fmax(ceil(rounded(j, (c + 1) * bin[i])) + from, 0), size);
        }
        for (int64_t y = low[0]; y < high[0]; y++)
            for (int64_t x = low[1]; x < high[1]; x++)
                if (!tn__sparse_add(m, image + y * j->size[1] + x, 1))
                    return false;
        if (!tn__sparse_end_row(m))
            return false;
    }
    return true;
}

static tn_status pool_forward(tn_op_context *call, tn_tensor **out)
{
    tn_tensor *x = tn_op_context_tensor(call, POOL_X),
              *boxes = tn_op_context_tensor(call, POOL_BOXES);
    double *region = tn__box_read(boxes);
    tn__sparse m = {0};
    if (!region || !tn__sparse_init(&m)) {
        free(region);
        return tn_error_set(TN_ERR_MEMORY, "roi_pool: out of memory");
    }
    const job j = {
        .region = region, .count = tn_tensor_size(boxes, 0),
        .images = tn_tensor_size(x, 0), .channels = tn_tensor_size(x, 1),
        .size = {tn_tensor_size(x, 2), tn_tensor_size(x, 3)},
        .out = {tn_op_context_value(call, POOL_HEIGHT).of.i,
                tn_op_context_value(call, POOL_WIDTH).of.i},
        .scale = tn_op_context_value(call, POOL_SCALE).of.f,
        .single = tn_tensor_dtype(x) != TN_F64};
    tn_tensor *flat = tn_contiguous(tn_permute(x, tn_dims(0, 2, 3, 1)));
    flat = tn_reshape(flat, tn_dims(tn_tensor_numel(x) / j.channels,
                                    j.channels));
    tn_tensor *y = NULL, *at = NULL;
    bool fine = true;
    for (int64_t i = 0; i < j.count && fine;) {
        m.rows = 0;
        do {
            fine = add_pool(&j, region + 5 * i, &m);
            i++;
        } while (fine && i < j.count && m.start[m.rows] < MOST_TERMS);
        if (!fine) {
            tn_error_set(TN_ERR_MEMORY, "roi_pool: out of memory");
            break;
        }
        tn_tensor *part[2] = {NULL};
        fine = tn__sparse_max(&m, flat, part);
        y = y ? tn_cat((tn_tensor *[]){y, part[0]}, 2, 0) : part[0];
        at = at ? tn_cat((tn_tensor *[]){at, part[1]}, 2, 0) : part[1];
    }
    tn__sparse_fini(&m);
    free(region);
    if (!fine)
        return tn_error_code();
    const tn_dims_list shape = tn_dims(j.count, j.out[0], j.out[1],
                                       j.channels);
    tn_device *device = tn_tensor_device(x);
    out[0] = y ? tn_contiguous(tn_permute(tn_reshape(y, shape),
                                          tn_dims(0, 3, 1, 2)))
               : tn_zeros(tn_dims(0, j.channels, j.out[0], j.out[1]),
                          .dtype = tn_tensor_dtype(x), .device = device);
    out[1] = y ? at
               : tn_zeros(tn_dims(0, j.channels), .dtype = TN_I64,
                          .device = device);
    tn_op_context_save(call, out[1]);
    int64_t *size = tn_op_context_data(call);
    for (int d = 0; d < 4; d++)
        size[d] = tn_tensor_size(x, d);
    return out[0] && out[1] ? TN_OK : tn_error_code();
}

/* Adds each gradient to the pixel that was the maximum of its cell. */
static tn_status pool_backward(tn_op_context *call, tn_tensor *const *grad,
                               tn_tensor **out)
{
    tn_tensor *at = tn_op_context_saved(call, 0);
    const int64_t *size = tn_op_context_data(call);
    if (!grad[0] || !at)
        return at ? TN_OK : tn_error_code();
    tn_tensor *g = tn_reshape(tn_permute(grad[0], tn_dims(0, 2, 3, 1)),
                              tn_dims(-1, size[1]));
    tn_tensor *is_empty = tn_lt_scalar(at, 0);
    g = tn_masked_fill_scalar(g, is_empty, 0);
    tn_tensor *zeros = tn_zeros(tn_dims(size[0] * size[2] * size[3], size[1]),
                                .dtype = tn_tensor_dtype(g),
                                .device = tn_tensor_device(g));
    tn_tensor *sum = tn_scatter_add(zeros, 0, tn_clamp_min_scalar(at, 0), g);
    sum = tn_reshape(sum, tn_dims(size[0], size[2], size[3], size[1]));
    out[0] = tn_permute(sum, tn_dims(0, 3, 1, 2));
    return out[0] ? TN_OK : tn_error_code();
}

/* ---- registration --------------------------------------------------------- */

static const tn_op *align_op, *pool_op;

/* Registers both operators at the first call. */
static bool are_registered(void)
{
    tn__library_lock();
    if (!align_op)
        align_op = tn_op_register(&(tn_op_rule){
            .size = sizeof(tn_op_rule), .signature = signature,
            .doc = "roi_align, or its gradient",
            .forward = align_forward, .backward = align_backward});
    if (!pool_op)
        pool_op = tn_op_register(&(tn_op_rule){
            .size = sizeof(tn_op_rule), .signature = pool_signature,
            .doc = "roi_pool, and the pixels that are maxima",
            .forward = pool_forward, .backward = pool_backward,
            .bytes = 4 * sizeof(int64_t)});
    const bool fine = align_op && pool_op;
    tn__library_unlock();
    return fine;
}

static tn_status call_align(const tn_value *values, tn_tensor **out)
{
    const int count = tn_op_call(align_op, values, ARGUMENTS, out, 1);
    return count < 0 ? count : TN_OK;
}

/* ---- checks ---------------------------------------------------------------- */

static tn_status refuse_box(const char *call, tn_tensor *boxes, int64_t i,
                            const char *what, double value)
{
    const tn_given given = {"boxes", boxes};
    return tn_error_refuse(TN_ERR_ARGUMENT, call, &given, 1,
                           "boxes[%lld] %s %g", (long long)i, what, value);
}

/* Checks the boxes: each has an image, finite numbers, and not too many samples
 * or pixels. */
static tn_status check_regions(const char *call, tn_tensor *boxes,
                               const job *j)
{
    const bool pools = call[4] == 'p';
    const tn_given given = {"boxes", boxes};
    for (int64_t i = 0; i < j->count; i++) {
        const double *r = j->region + 5 * i;
        for (int k = 0; k < 5; k++)
            if (!(fabs(r[k] * (k ? j->scale : 1)) < 1e9))
                return refuse_box(call, boxes, i,
                                  "has a number that is not finite or too "
                                  "large:", r[k]);
        if (r[0] != floor(r[0]))
            return refuse_box(call, boxes, i,
                              "has an image index that is not an integer:",
                              r[0]);
        if (r[0] < 0 || r[0] >= (double)j->images)
            return tn_error_refuse(TN_ERR_INDEX, call, &given, 1,
                                   "boxes[%lld] is in image %g, but there are "
                                   "%lld images",
                                   (long long)i, r[0], (long long)j->images);
        /* An upper bound of the number of terms. roi_align has four terms for each
         * sample, roi_pool one for each pixel of a cell. */
        double start, bin, terms = pools ? 1 : 4;
        for (int k = 0; k < 2; k++) {
            const double cells = (double)j->out[k];
            const double samples = place(j, r, k, &start, &bin);
            terms *= pools ? fmin(fabs(bin) * cells, (double)j->size[k]) +
                                 2 * cells
                           : samples * cells;
        }
        if (terms > MOST_OF_REGION)
            return refuse_box(call, boxes, i,
                              "has an output that reads more than 2^26 pixels:",
                              terms);
    }
    return TN_OK;
}

/* Checks the arguments that both calls have. Returns false with an error. */
static bool check(const char *call, tn_tensor *input, tn_tensor *boxes,
                  job *j)
{
    const tn__box_rule rule[] = {{"input", input, TN__FLOATING, 4, -1},
                                 {"boxes", boxes, TN__ANY_NUMBER, 2, 5}};
    if (!tn__box_check(call, rule, 2))
        return false;
    for (int i = 0; i < 2; i++)
        if (j->out[i] < 1 || j->out[i] > 4096) {
            const char *name = i ? "width" : "height";
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, name,
                                     "%s is %lld; expected 1 to 4096", name,
                                     (long long)j->out[i]);
            return false;
        }
    if (!(j->scale > 0) || isinf(j->scale)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "spatial_scale",
                                 "spatial_scale is %g; expected a positive "
                                 "number",
                                 j->scale);
        return false;
    }
    j->images = tn_tensor_size(input, 0);
    j->channels = tn_tensor_size(input, 1);
    j->size[0] = tn_tensor_size(input, 2);
    j->size[1] = tn_tensor_size(input, 3);
    j->single = tn_tensor_dtype(input) != TN_F64;
    j->count = tn_tensor_size(boxes, 0);
    if (j->channels < 1 || j->size[0] < 1 || j->size[1] < 1) {
        const tn_given given = {"input", input};
        tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                        "input has no channels or no pixels");
        return false;
    }
    double *region = tn__box_read(boxes);
    if (!region)
        return false;
    j->region = region;
    const tn_status status = check_regions(call, boxes, j);
    free(region);
    return status >= 0;
}

tn_tensor *tn_roi_align_with(tn_tensor *input, tn_tensor *boxes,
                             int64_t height, int64_t width,
                             const tn_roi_align_options *options)
{
    tn_roi_align_options o;
    if (tn_options_take(tn_roi_align_type(), &o, options) < 0)
        return NULL;
    job j = {.out = {height, width}, .scale = o.spatial_scale,
             .ratio = o.sampling_ratio, .aligned = o.aligned};
    if (!check("roi_align", input, boxes, &j) || !are_registered())
        return NULL;
    const tn_dtype dtype = tn_tensor_dtype(input);
    tn_scope *scope = tn_scope_open();
    const tn_value value[ARGUMENTS] = {
        [X] = {.kind = TN_VALUE_TENSOR, .of.tensor = tn__box_upcast(input)},
        [BOXES] = {.kind = TN_VALUE_TENSOR, .of.tensor = tn_detach(boxes)},
        [IMAGES] = {.kind = TN_VALUE_INT, .of.i = j.images},
        [ROWS] = {.kind = TN_VALUE_INT, .of.i = j.size[0]},
        [COLUMNS] = {.kind = TN_VALUE_INT, .of.i = j.size[1]},
        [HEIGHT] = {.kind = TN_VALUE_INT, .of.i = height},
        [WIDTH] = {.kind = TN_VALUE_INT, .of.i = width},
        [SCALE] = {.kind = TN_VALUE_FLOAT, .of.f = o.spatial_scale},
        [RATIO] = {.kind = TN_VALUE_INT, .of.i = o.sampling_ratio},
        [ALIGNED] = {.kind = TN_VALUE_BOOL, .of.i = o.aligned},
        [TRANSPOSED] = {.kind = TN_VALUE_BOOL, .of.i = 0}};
    tn_tensor *out = NULL;
    const bool pending = tn_error() != NULL;
    call_align(value, &out);
    if (!pending)
        tn_error_rename("media_roi_align", "roi_align", NULL);
    return tn_scope_result(scope, tn_to_dtype(out, dtype));
}

tn_tensor *tn_roi_pool_with(tn_tensor *input, tn_tensor *boxes, int64_t height,
                            int64_t width, const tn_roi_pool_options *options)
{
    tn_roi_pool_options o;
    if (tn_options_take(tn_roi_pool_type(), &o, options) < 0)
        return NULL;
    job j = {.out = {height, width}, .scale = o.spatial_scale, .ratio = 1};
    if (!check("roi_pool", input, boxes, &j) || !are_registered())
        return NULL;
    const tn_dtype dtype = tn_tensor_dtype(input);
    tn_scope *scope = tn_scope_open();
    const tn_value value[] = {
        {.kind = TN_VALUE_TENSOR, .of.tensor = tn__box_upcast(input)},
        {.kind = TN_VALUE_TENSOR, .of.tensor = tn_detach(boxes)},
        {.kind = TN_VALUE_INT, .of.i = height},
        {.kind = TN_VALUE_INT, .of.i = width},
        {.kind = TN_VALUE_FLOAT, .of.f = o.spatial_scale}};
    tn_tensor *out[2] = {NULL};
    const bool pending = tn_error() != NULL;
    tn_op_call(pool_op, value, 5, out, 2);
    if (!pending)
        tn_error_rename("media_roi_pool", "roi_pool", NULL);
    return tn_scope_result(scope, tn_to_dtype(out[0], dtype));
}
