/* anchors.c: anchors, and boxes coded relative to them. */
#include <base/nearest.h>
#include <media/vision/boxes.h>

#include <math.h>
#include <stdlib.h>

TN_OPTIONS_TYPE(tn_anchors, "anchors", "rows, columns, sizes, size_count",
                TN_ANCHORS_OPTIONS_LIST)
TN_OPTIONS_TYPE(tn_box_decode, "box_decode", "codes, proposals, weights",
                TN_BOX_DECODE_OPTIONS_LIST)

/* ---- anchors --------------------------------------------------------------- */

/* Checks that all numbers are positive and finite. */
static bool are_positive(const char *name, const double *x, int count)
{
    if (count < 1 || count > 4096) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "anchors", name,
                                 "there are %d %s; expected 1 to 4096", count,
                                 name);
        return false;
    }
    for (int i = 0; i < count; i++)
        if (!(x[i] > 0) || isinf(x[i])) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, "anchors", name,
                                     "%s[%d] is %g; expected a positive number",
                                     name, i, x[i]);
            return false;
        }
    return true;
}

static bool check_anchors(int64_t rows, int64_t columns, const double *sizes,
                          int size_count, tn_anchors_options *o)
{
    static const double usual[] = {0.5, 1, 2};
    const char *call = "anchors";
    if (!sizes) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "sizes",
                                 "sizes is NULL");
        return false;
    }
    if (o->ratio_count != 0 && !o->ratios) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "ratios",
                                 "ratio_count is %d, but ratios is NULL",
                                 o->ratio_count);
        return false;
    }
    if (!o->ratios) {
        o->ratios = usual;
        o->ratio_count = 3;
    }
    if (!are_positive("sizes", sizes, size_count) ||
        !are_positive("ratios", o->ratios, o->ratio_count))
        return false;
    if (o->strides.count < 0)
        o->strides = tn_dims(o->stride, o->stride);
    if (o->strides.count != 2 || o->strides.dim[0] < 1 ||
        o->strides.dim[1] < 1 || o->strides.dim[0] > 1 << 24 ||
        o->strides.dim[1] > 1 << 24) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "strides",
                                 "strides must be two numbers of 1 to 2^24, "
                                 "vertical and horizontal");
        return false;
    }
    if (o->dtype != TN_F32 && o->dtype != TN_F64 && o->dtype != TN_F16 &&
        o->dtype != TN_BF16) {
        tn_error_refuse_argument(TN_ERR_DTYPE, call, "dtype",
                                 "dtype is %s; expected float32, float64, "
                                 "float16 or bfloat16",
                                 tn_dtype_name(o->dtype));
        return false;
    }
    const int64_t bound = 1 << 24, each = (int64_t)size_count * o->ratio_count;
    if (rows < 0 || columns < 0 || rows > bound || columns > bound ||
        rows * columns > (1ll << 40) / each) {
        const char *wrong = rows < 0 || rows > bound ? "rows" : "columns";
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, wrong,
                                 "rows is %lld and columns %lld; expected 0 "
                                 "to 2^24 each, and at most 2^40 anchors",
                                 (long long)rows, (long long)columns);
        return false;
    }
    return true;
}

tn_tensor *tn_anchors_with(int64_t rows, int64_t columns, const double *sizes,
                           int size_count, const tn_anchors_options *options)
{
    TN__ROUND_NEAREST;
    tn_anchors_options o;
    if (tn_options_take(tn_anchors_type(), &o, options) < 0 ||
        !check_anchors(rows, columns, sizes, size_count, &o))
        return NULL;
    tn_device *device = o.device ? o.device : tn_device_current();
    if (!device)
        return NULL;
    const int64_t each = (int64_t)size_count * o.ratio_count;
    double *cell = malloc((size_t)each * 4 * sizeof *cell);
    if (!cell)
        return tn_error_set(TN_ERR_MEMORY, "anchors: out of memory"), NULL;
    for (int64_t i = 0; i < each; i++) {
        /* float32, as torchvision, decides how halves are rounded */
        const float high = sqrtf((float)o.ratios[i / size_count]);
        const float wide = 1 / high, size = (float)sizes[i % size_count];
        for (int k = 0; k < 2; k++) {
            const float half = (k ? high : wide) * size / 2;
            cell[4 * i + k] = rintf(-half);
            cell[4 * i + 2 + k] = rintf(half);
        }
    }
    tn_scope *scope = tn_scope_open();
    tn_tensor *base = tn_to_dtype(
        tn__box_tensor(cell, TN_F64, tn_dims(each, 4), device), o.dtype);
    free(cell);
    tn_tensor *shift[2];
    const int64_t count[2] = {rows, columns};
    for (int k = 0; k < 2; k++)
        shift[k] = tn_expand(
            tn_reshape(tn_mul_scalar(tn_arange(0, count[k], 1, .dtype = o.dtype,
                                               .device = device),
                                     (double)o.strides.dim[k]),
                       k ? tn_dims(1, columns) : tn_dims(rows, 1)),
            tn_dims(rows, columns));
    tn_tensor *grid = tn_stack(
        (tn_tensor *[]){shift[1], shift[0], shift[1], shift[0]}, 4, -1);
    tn_tensor *all = tn_add(tn_reshape(grid, tn_dims(rows, columns, 1, 4)),
                            base);
    return tn_scope_result(scope, tn_reshape(all, tn_dims(rows * columns * each,
                                                          4)));
}

/* ---- codes ------------------------------------------------------------------ */

static const double ones[4] = {1, 1, 1, 1};

static bool check_weights(const char *call, const double **weights)
{
    if (!*weights)
        *weights = ones;
    for (int i = 0; i < 4; i++)
        if (!isfinite((*weights)[i]) || (*weights)[i] == 0) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "weights",
                                     "weights[%d] is %g; expected a finite "
                                     "number other than 0",
                                     i, (*weights)[i]);
            return false;
        }
    return true;
}

/* Checks that there is a proposal for each row of x. */
static bool check_rows(const char *call, const char *name, tn_tensor *x,
                       tn_tensor *proposals)
{
    if (tn_tensor_size(x, 0) == tn_tensor_size(proposals, 0))
        return true;
    const tn_given given[] = {{"proposals", proposals}, {name, x}};
    tn_error_refuse(TN_ERR_SHAPE, call, given, 2,
                    "%s has %lld rows, but there are %lld proposals", name,
                    (long long)tn_tensor_size(x, 0),
                    (long long)tn_tensor_size(proposals, 0));
    return false;
}

/* Splits boxes (N, 4) into x, y of the centers and widths and heights, (N, 1).
 */
static bool centers(tn_tensor *boxes, tn_tensor *out[4])
{
    tn_tensor *b[4];
    if (tn_split(boxes, 1, 1, b, 4) != 4)
        return false;
    for (int k = 0; k < 2; k++) {
        out[2 + k] = tn_sub(b[2 + k], b[k]);
        out[k] = tn_add(b[k], tn_mul_scalar(out[2 + k], 0.5));
    }
    return true;
}

tn_tensor *tn_box_encode(tn_tensor *boxes, tn_tensor *proposals,
                         const double *weights)
{
    const char *call = "box_encode";
    const tn__box_rule rule[] = {{"boxes", boxes, TN__FLOATING, 2, 4},
                                 {"proposals", proposals, TN__FLOATING, 2, 4}};
    if (!tn__box_check(call, rule, 2) ||
        !check_rows(call, "boxes", boxes, proposals) ||
        !check_weights(call, &weights))
        return NULL;
    if (tn_tensor_dtype(boxes) != tn_tensor_dtype(proposals)) {
        const tn_given given[] = {{"proposals", proposals}, {"boxes", boxes}};
        tn_error_refuse(TN_ERR_DTYPE, call, given, 2,
                        "boxes and proposals have different dtypes");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_tensor *b[4], *p[4], *code[4], *out = NULL;
    if (centers(tn__box_upcast(boxes), b) &&
        centers(tn__box_upcast(proposals), p)) {
        for (int k = 0; k < 2; k++) {
            code[k] = tn_div(tn_mul_scalar(tn_sub(b[k], p[k]), weights[k]),
                             p[2 + k]);
            code[2 + k] = tn_mul_scalar(tn_log(tn_div(b[2 + k], p[2 + k])),
                                        weights[2 + k]);
        }
        out = tn_cat(code, 4, 1);
    }
    return tn_scope_result(scope, out);
}

tn_tensor *tn_box_decode_with(tn_tensor *codes, tn_tensor *proposals,
                              const double *weights,
                              const tn_box_decode_options *options)
{
    const char *call = "box_decode";
    tn_box_decode_options o;
    const tn__box_rule rule[] = {
        {"codes", codes, TN__FLOATING, 2, -1},
        {"proposals", proposals, TN__ANY_NUMBER, 2, 4}};
    if (tn_options_take(tn_box_decode_type(), &o, options) < 0 ||
        !tn__box_check(call, rule, 2) ||
        !check_rows(call, "codes", codes, proposals) ||
        !check_weights(call, &weights))
        return NULL;
    const int64_t n = tn_tensor_size(codes, 0), width = tn_tensor_size(codes,
                                                                       1);
    if (width % 4 != 0) {
        const tn_given given = {"codes", codes};
        tn_error_refuse(TN_ERR_SHAPE, call, &given, 1,
                        "codes has %lld columns; expected a multiple of 4",
                        (long long)width);
        return NULL;
    }
    if (isnan(o.clip)) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "clip", "clip is NaN");
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    codes = tn__box_upcast(codes);
    tn_tensor *p[4], *code[4], *corner[4], *out = NULL;
    if (centers(tn_to_dtype(proposals, tn_tensor_dtype(codes)), p) &&
        tn_unbind(tn_reshape(codes, tn_dims(n, width / 4, 4)), -1, code, 4) ==
            4) {
        for (int k = 0; k < 2; k++) {
            tn_tensor *at = tn_div_scalar(code[k], weights[k]);
            tn_tensor *size = tn_div_scalar(code[2 + k], weights[2 + k]);
            at = tn_add(tn_mul(at, p[2 + k]), p[k]);
            size = tn_mul(tn_exp(tn_clamp_max_scalar(size, o.clip)), p[2 + k]);
            tn_tensor *half = tn_mul_scalar(size, 0.5);
            corner[k] = tn_sub(at, half);
            corner[2 + k] = tn_add(at, half);
        }
        out = tn_reshape(tn_stack(corner, 4, -1), tn_dims(n, width));
    }
    return tn_scope_result(scope, out);
}
