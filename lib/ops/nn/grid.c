/* grid.c: samples images and volumes at the positions of a grid (PyTorch's
 * grid_sample), and makes grids from affine maps (affine_grid). Positions,
 * weights and gradients are those of PyTorch
 * (aten/src/ATen/native/GridSampler.h).
 *
 * A sample is a weighted sum of elements near its position. A tap is one term
 * of this sum: the index of an element and its weight. The taps are made for
 * each axis in turn, as tensors index[N][T][P] and weight[N][T][P], where T is
 * the number of taps and P the number of positions per image. The taps of all
 * axes are then combined: their weights are multiplied. */
#include <ops/engine/native.h>

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };
enum { MOST_AXES = 3 };
static const int taps_of[] = {[BILINEAR] = 2, [NEAREST] = 1, [BICUBIC] = 4};

typedef struct sampling {
    int mode, padding;
    bool align_corners;
    tn_tensor *x, *grid; /* x has the shape (N, C, sizes of the image), grid has
                            (N, sizes of the output, axes) */
    int axes;            /* 2 for images, 3 for volumes */
    int64_t places;      /* P, the number of positions per image */
} sampling;

/* ---- the taps along one axis --------------------------------------------- */

static tn_tensor *binary(int row, tn_tensor *a, tn_tensor *b)
{
    const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b)};
    return a && b ? tn__row(row, value, 2) : NULL;
}

/* Returns the positions `at` along an axis of this size, with those outside of
 * the image moved into it as the padding mode says. */
static tn_tensor *pad(const sampling *s, tn_tensor *at, int64_t size)
{
    double low = s->align_corners ? 0 : -0.5;
    double span = s->align_corners ? (double)size - 1 : (double)size;
    if (at && s->padding == REFLECTION && span > 0) {
        const tn_value value[] = {tn__value_tensor(at), tn__value_float(low),
                                  tn__value_float(span)};
        at = tn__row(TN__OP_ID_GRID_REFLECT, value, 3);
    }
    if (!at || s->padding == ZEROS)
        return at;
    const tn_value value[] = {tn__value_tensor(at),
                              tn__value_float((double)size - 1)};
    return tn__row(TN__OP_ID_GRID_CLIP, value, 2);
}

/* Returns coordinate k of all positions of the grid, converted from [-1, 1] to
 * elements of an axis of this size. The shape is (N, 1, P). */
static tn_tensor *places(const sampling *s, int k, int64_t size)
{
    bool align = s->align_corners;
    tn_tensor *at = tn_reshape(tn_select(s->grid, -1, k),
                               tn_dims(s->x->shape[0], 1, s->places));
    if (!at)
        return NULL;
    const tn_value value[] = {
        tn__value_tensor(at),
        tn__value_float(align ? (double)(size - 1) / 2 : (double)size / 2),
        tn__value_float(align ? 0 : 0.5)};
    return tn__row(TN__OP_ID_GRID_PLACE, value, 3);
}

/* Returns the indices of the taps along axis k, as index[N][T][P], and sets
 * *weight to their weights, as weight[N][T][P]. For BICUBIC the padding mode is
 * applied to each tap, for the other modes to the position. */
static tn_tensor *taps(const sampling *s, int k, int64_t size,
                       tn_tensor **weight)
{
    tn_tensor *at = places(s, k, size);
    if (s->mode != BICUBIC)
        at = pad(s, at, size);
    if (s->mode == NEAREST) {
        *weight = NULL;
        return at ? tn_round(tn_detach(at)) : NULL;
    }
    int count = taps_of[s->mode], before = count / 2 - 1;
    tn_tensor *t = tn_reshape(
        tn_arange(-before, count - before, 1, .dtype = s->x->dtype,
                  .device = s->x->storage->device),
        tn_dims(count, 1));
    tn_tensor *tap = binary(TN__OP_ID_GRID_TAP, at, t);
    *weight = binary(s->mode == BICUBIC ? TN__OP_ID_GRID_CUBIC
                                        : TN__OP_ID_GRID_LINEAR, at, tap);
    return *weight && s->mode == BICUBIC ? pad(s, tap, size)
           : *weight                     ? tap
                                         : NULL;
}

/* ---- the taps of all axes combined --------------------------------------- */

/* Combines the taps of the earlier axes, in *index and *weight, with the taps
 * of one more axis, whose indices are `tap` and whose weights are `own`. The
 * new index is row-major: *index * size + tap. */
static tn_status join(const sampling *s, tn_tensor **index,
                      tn_tensor **weight, tn_tensor *tap, tn_tensor *own,
                      int64_t size)
{
    int64_t n = s->x->shape[0], count = *index ? (*index)->shape[1] : 1;
    int64_t width = tap->shape[1];
    const tn_dims_list outer = tn_dims(n, count, 1, s->places);
    const tn_dims_list inner = tn_dims(n, 1, width, s->places);
    const tn_dims_list both = tn_dims(n, count * width, s->places);
    tn_tensor *number = *index ? tn_reshape(*index, outer) : NULL;
    tap = tn_reshape(tap, inner);
    if (!tap || (*index && !number))
        return tn_error_code();
    const tn_value value[] = {number ? tn__value_tensor(number)
                                     : tn__value_number(tn_num(0)),
                              tn__value_tensor(tap), tn__value_int(size)};
    *index = tn_reshape(tn__row(TN__OP_ID_GRID_NUMBER, value, 3), both);
    if (own && *weight)
        own = tn_reshape(tn_mul(tn_reshape(*weight, outer),
                                tn_reshape(own, inner)), both);
    *weight = own;
    return *index ? TN_OK : tn_error_code();
}

static tn_tensor *sampled(const sampling *s)
{
    const tn_tensor *x = s->x;
    tn_tensor *index = NULL, *weight = NULL;
    int64_t elements = 1;
    for (int a = 0; a < s->axes; a++) {
        int64_t size = x->shape[2 + a];
        tn_tensor *own, *tap = taps(s, s->axes - 1 - a, size, &own);
        if (!tap || join(s, &index, &weight, tap, own, size) < 0)
            return NULL;
        elements *= size;
    }
    if (s->mode == NEAREST && index)
        weight = tn_ones_like(index, .dtype = x->dtype);
    tn_tensor *flat = tn_reshape(s->x, tn_dims(x->shape[0], x->shape[1],
                                               elements));
    if (!flat || !weight)
        return NULL;
    const tn_value value[] = {tn__value_tensor(flat), tn__value_tensor(index),
                              tn__value_tensor(weight)};
    tn_dims_list shape = {x->ndim, {x->shape[0], x->shape[1]}};
    for (int a = 0; a < s->axes; a++)
        shape.dim[2 + a] = s->grid->shape[1 + a];
    return tn_reshape(tn__row(TN__OP_ID_TAP_SUM, value, 3), shape);
}

/* ---- checks of arguments ------------------------------------------------- */

static tn_status check(const tn__call *call, sampling *s)
{
    const char *name = call->op->name;
    const tn_tensor *x = s->x, *grid = s->grid;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_status status = tn__check_same_dtype(name, x, "input", grid, "grid");
    if (status < 0)
        return status;
    if (!tn_dtype_is_floating(x->dtype))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s; expected a "
                        "floating-point dtype; convert it with tn_to_dtype",
                        name,
                        tn_dtype_name(x->dtype));
    bool only_2d = call->op->id == TN__OP_ID_GRID_SAMPLER_2D;
    bool only_3d = call->op->id == TN__OP_ID_GRID_SAMPLER_3D;
    s->axes = x->ndim - 2;
    bool fits = s->axes >= (only_3d ? 3 : 2) && s->axes <= (only_2d ? 2 : 3) &&
                grid->ndim == x->ndim && grid->shape[0] == x->shape[0] &&
                grid->shape[grid->ndim - 1] == s->axes;
    for (int k = 0; k < s->axes && fits; k++)
        fits = x->shape[2 + k] > 0;
    if (!fits)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s and {grid} %s; expected "
                        "%s, sizes of {input} above 0", name,
                        tn__shape_text(a, x->ndim, x->shape),
                        tn__shape_text(b, grid->ndim, grid->shape),
                        only_2d   ? "(N, C, H, W) and (N, h, w, 2)"
                        : only_3d ? "(N, C, D, H, W) and (N, d, h, w, 3)"
                                  : "(N, C, H, W) and (N, h, w, 2), or (N, C, "
                                    "D, H, W) and (N, d, h, w, 3)");
    s->places = tn__shape_numel(s->axes, grid->shape + 1);
    return TN_OK;
}

/* Returns the index in names[] of the string in argument arg. Returns -1, with
 * the error recorded, if names[] does not have it. */
static int find(const tn__call *call, int arg, const char *const *names)
{
    const char *text = call->value[arg].of.string;
    for (int k = 0; k < 3; k++)
        if (strcmp(text, names[k]) == 0)
            return k;
    return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} \"%s\" is none of \"%s\", "
                    "\"%s\" and \"%s\"", call->op->name,
                    call->op->arg[arg].name,
                    text, names[0], names[1], names[2]);
}

tn_status tn__run_grid_sample(tn__call *call)
{
    static const char *const modes[] = {"bilinear", "nearest", "bicubic"};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    sampling s = {
        .mode = find(call, TN__ARG_GRID_SAMPLE_MODE, modes),
        .padding = find(call, TN__ARG_GRID_SAMPLE_PADDING_MODE, paddings),
        .align_corners = tn__call_int(call, TN__ARG_GRID_SAMPLE_ALIGN_CORNERS),
        .x = tn__call_tensor(call, TN__ARG_GRID_SAMPLE_INPUT),
        .grid = tn__call_tensor(call, TN__ARG_GRID_SAMPLE_GRID)};
    if (s.mode < 0 || s.padding < 0 || check(call, &s) < 0)
        return tn_error_code();
    return tn__give(call, sampled(&s));
}

tn_status tn__run_grid_sampler(tn__call *call)
{
    int64_t mode =
        tn__call_int(call, TN__ARG_GRID_SAMPLER_INTERPOLATION_MODE);
    int64_t padding = tn__call_int(call, TN__ARG_GRID_SAMPLER_PADDING_MODE);
    if (mode < BILINEAR || mode > BICUBIC || padding < ZEROS ||
        padding > REFLECTION)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {interpolation_mode} is %lld "
                        "and {padding_mode} %lld; expected 0, 1 or 2 for each",
                        call->op->name, (long long)mode, (long long)padding);
    sampling s = {
        .mode = (int)mode,
        .padding = (int)padding,
        .align_corners =
            tn__call_int(call, TN__ARG_GRID_SAMPLER_ALIGN_CORNERS),
        .x = tn__call_tensor(call, TN__ARG_GRID_SAMPLER_INPUT),
        .grid = tn__call_tensor(call, TN__ARG_GRID_SAMPLER_GRID)};
    if (check(call, &s) < 0)
        return tn_error_code();
    return tn__give(call, sampled(&s));
}

/* ---- affine_grid --------------------------------------------------------- */

/* Returns the coordinates of `size` elements evenly spaced in [-1, 1], as a
 * tensor (size, 1, ..., 1) followed by `behind` dimensions of size 1. */
static tn_tensor *coordinates(const tn_tensor *like, int64_t size,
                              int behind, bool align_corners)
{
    tn_dims_list shape = {behind + 1, {size}};
    for (int d = 1; d <= behind; d++)
        shape.dim[d] = 1;
    double reach = size < 2 ? 0
                   : align_corners
                       ? 1
                       : (double)(size - 1) / (double)size;
    return tn_reshape(tn_linspace(-reach, reach, size, .dtype = like->dtype,
                                  .device = like->storage->device), shape);
}

tn_status tn__run_affine_grid(tn__call *call)
{
    tn_tensor *theta = tn__call_tensor(call, TN__ARG_AFFINE_GRID_THETA);
    const tn_dims_list *size = call->value[TN__ARG_AFFINE_GRID_SIZE].of.dims;
    bool align = tn__call_int(call, TN__ARG_AFFINE_GRID_ALIGN_CORNERS);
    int axes = size->count - 2;
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    bool fits = axes >= 2 && axes <= MOST_AXES && theta->ndim == 3 &&
                theta->shape[0] == size->dim[0] && theta->shape[1] == axes &&
                theta->shape[2] == axes + 1;
    for (int d = 0; d < size->count && fits; d++)
        fits = size->dim[d] > 0;
    if (!fits || !tn_dtype_is_floating(theta->dtype))
        return tn__fail(fits ? TN_ERR_DTYPE : TN_ERR_SHAPE, "affine_grid: "
                        "{theta} %s of %s for {size} %s; expected a "
                        "floating-point (N, 2, 3) for (N, C, H, W), or (N, 3, "
                        "4) for (N, C, D, H, W)",
                        tn__shape_text(a, theta->ndim, theta->shape),
                        tn_dtype_name(theta->dtype),
                        tn__shape_text(b, size->count, size->dim));
    /* The position is the last column of theta plus the sum over k of column k
     * times coordinate k. A column is reshaped to (N, 1, ..., 1, axes). */
    tn_dims_list column = {axes + 2, {size->dim[0], 1, 1, 1, 1}};
    column.dim[axes + 1] = axes;
    tn_tensor *sum = tn_reshape(tn_select(theta, -1, axes), column);
    for (int k = axes - 1; k >= 0 && sum; k--)
        sum = tn_add(sum, tn_mul(tn_reshape(tn_select(theta, -1, k), column),
                                 coordinates(theta, size->dim[1 + axes - k],
                                             k + 1, align)));
    return tn__give(call, sum);
}

/* ---- the operators that sum taps ----------------------------------------- */

/* Checks the shapes and dtypes of the tensors of a sum of taps. `across` is the
 * size that dimension 1 of factor must have, or -1 if it must be that of
 * index. */
static tn_status check_taps(const char *name, const tn_tensor *x,
                            const tn_tensor *index, const tn_tensor *factor,
                            int64_t across)
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT], c[TN__SHAPE_TEXT];
    bool fits = x->ndim == 3 && index->ndim == 3 && factor->ndim == 3 &&
                index->dtype == TN_I64 && factor->dtype == x->dtype;
    const int64_t n = fits ? x->shape[0] : 0;
    if (fits && index->shape[0] == n && factor->shape[0] == n &&
        factor->shape[1] == (across < 0 ? index->shape[1] : across) &&
        factor->shape[2] == index->shape[2])
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE, "%s: {input} %s of %s, {index} %s of %s and "
                    "{factor:factors} %s of %s do not fit: expected 3 "
                    "dimensions each, the same first size, an int64 {index}, "
                    "and factors of the dtype of {input}", tn__op_outer(name),
                    tn__shape_text(a, x->ndim, x->shape),
                    tn_dtype_name(x->dtype),
                    tn__shape_text(b, index->ndim, index->shape),
                    tn_dtype_name(index->dtype),
                    tn__shape_text(c, factor->ndim, factor->shape),
                    tn_dtype_name(factor->dtype));
}

static tn_tensor *new_out(tn__call *call, const tn_tensor *x, int64_t n,
                          int64_t middle, int64_t places)
{
    const int64_t shape[] = {n, middle, places};
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, 3, shape,
                                    tn__op_outer(call->op->name));
    if (out)
        call->out[call->out_count++] = out;
    return out;
}

static void begin(tn__space *space, const tn_tensor *out)
{
    *space = (tn__space){.outer_ndim = 3};
    for (int d = 0; d < 3; d++)
        space->extent[d] = out->shape[d];
}

static tn__operand *add(tn__space *space, tn_tensor *x)
{
    tn__operand *at = tn__space_add_bare(space, x);
    for (int d = 0; d < 3; d++)
        at->stride[d] = x->stride[d];
    return at;
}

static tn_status launch(tn__call *call, tn__formula *formula,
                        tn__space *space, tn_tensor *out, int64_t count)
{
    tn_dtype dtype[TN__KERNEL_MAX_INPUTS];
    for (int k = 0; k < space->operand_count; k++)
        dtype[k] = space->operand[k].tensor->dtype;
    const tn__kernel *kernel = tn__formula_kernel(formula, dtype);
    if (!kernel)
        return tn_error_code();
    add(space, out);
    const tn_number param = {.i = count};
    return tn__kernel_launch(out->storage->device, kernel, space, &param,
                             tn__op_outer(call->op->name));
}

/* tap_sum launches one kernel for each group of four taps, and one for each
 * remaining tap. All launches but the first add to the result. */
#define TAP(n) "where(i" #n " < 0, 0, x[i" #n "; 0] * w" #n ")"
#define ONE TAP(0)
#define FOUR TAP(0) " + " TAP(1) " + " TAP(2) " + " TAP(3)
#define ONE_NAMES "(x, i0, w0"
#define FOUR_NAMES "(x, i0, w0, i1, w1, i2, w2, i3, w3"
tn_status tn__run_tap_sum(tn__call *call)
{
    static tn__formula first[] = {
        TN__FORMULA("tap_sum" ONE_NAMES ") = " ONE),
        TN__FORMULA("tap_sum" FOUR_NAMES ") = " FOUR)};
    static tn__formula further[] = {
        TN__FORMULA("tap_sum" ONE_NAMES ", sum) = sum + " ONE),
        TN__FORMULA("tap_sum" FOUR_NAMES ", sum) = sum + " FOUR)};
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TAP_SUM_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_TAP_SUM_INDEX);
    tn_tensor *w = tn__call_tensor(call, TN__ARG_TAP_SUM_WEIGHT);
    tn_status status = check_taps("tap_sum", x, index, w, -1);
    if (status < 0)
        return status;
    const int64_t count = index->shape[1];
    tn_tensor *out =
        new_out(call, x, x->shape[0], x->shape[1], index->shape[2]);
    if (!out)
        return tn_error_code();
    if (count == 0)
        return tn__fill(out, 0, tn__op_outer("tap_sum"));
    for (int64_t t = 0; t < count && status >= 0;) {
        bool four = count - t >= 4;
        tn__space space;
        begin(&space, out);
        tn__operand *from = add(&space, x);
        from->stride[2] = 0;
        from->index_stride[0] = x->stride[2];
        from->index_extent[0] = x->shape[2];
        for (int64_t end = t + (four ? 4 : 1), k = t; k < end; k++)
            for (int table = 0; table < 2; table++) {
                tn__operand *at = add(&space, table ? w : index);
                at->offset = k * at->stride[1];
                at->stride[1] = 0;
            }
        if (t > 0)
            add(&space, out);
        status = launch(call, t > 0 ? &further[four] : &first[four], &space,
                        out, 0);
        t += four ? 4 : 1;
    }
    return status;
}

tn_status tn__run_tap_dots(tn__call *call)
{
    static tn__formula dots = TN__FORMULA(
        "tap_dots(x, i, g; channels: i64) = loop(c < channels; s = like(0, g))"
        "(s + where(i < 0, 0, x[c, i; 0] * g[c]))");
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TAP_DOTS_INPUT);
    tn_tensor *index = tn__call_tensor(call, TN__ARG_TAP_DOTS_INDEX);
    tn_tensor *g = tn__call_tensor(call, TN__ARG_TAP_DOTS_G);
    const int64_t count = x->ndim == 3 ? x->shape[1] : 0;
    tn_status status = check_taps("tap_dots", x, index, g, count);
    if (status < 0)
        return status;
    tn_tensor *out =
        new_out(call, x, x->shape[0], index->shape[1], index->shape[2]);
    if (!out)
        return tn_error_code();
    tn__space space;
    begin(&space, out);
    tn__operand *from = add(&space, x);
    for (int k = 0; k < 2; k++) {
        from->stride[1 + k] = 0;
        from->index_stride[k] = x->stride[1 + k];
        from->index_extent[k] = x->shape[1 + k];
    }
    add(&space, index);
    tn__operand *factor = add(&space, g);
    factor->stride[1] = 0;
    factor->index_stride[0] = g->stride[1];
    factor->index_extent[0] = count;
    return launch(call, &dots, &space, out, count);
}
