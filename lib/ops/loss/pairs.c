/* pairs.c: distances and cross products of vectors (PyTorch's cdist, normalize,
 * cross and others), and losses that compare pairs of classes
 * (multi_margin_loss, multilabel_margin_loss). */
#include <ops/loss/loss.h>
#include <ops/engine/native.h>

static tn_tensor *norm_of(tn_tensor *x, double p, int64_t dim, bool keepdim)
{
    return tn_vector_norm(x, .ord = p, .dim = dim,
                          .keepdim = keepdim);
}

/* Divides x by its p-norm along dim. Half types take the same steps as in
 * PyTorch: the norm is rounded to the half type, and under autocast it is
 * computed in a wider dtype than the division. */
tn_status tn__run_normalize(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_NORMALIZE_INPUT);
    int64_t dim = tn__call_int(call, TN__ARG_NORMALIZE_DIM);
    double p = tn__call_float(call, TN__ARG_NORMALIZE_P);
    const tn_dims_list dims = tn_dims(dim);
    if (p == 2 && x->ndim > 0 && tn_dtype_bytes(x->dtype) >= 4) {
        const tn_value value[] = {tn__value_tensor(x), tn__value_dims(&dims),
                                  call->value[TN__ARG_NORMALIZE_EPS]};
        return tn__give(call, tn__row(TN__OP_ID_NORMALIZE_EUCLID, value, 3));
    }
    tn_tensor *norm = norm_of(x, p, dim, true);
    return tn__give(
        call, tn_div(x, tn_clamp_min_scalar(
                            norm, tn__call_float(call, TN__ARG_NORMALIZE_EPS))));
}

/* ---- distances ----------------------------------------------------------- */

/* Returns the Euclidean distances of the rows of a and b by one matrix product.
 * |a - b|^2 = |a|^2 + |b|^2 - 2 a b is the scalar product of the vectors (-2 a,
 * |a|^2, 1) and (b, 1, |b|^2). For almost equal rows the terms cancel and
 * digits are lost, as in PyTorch. The vectors of b are columns: the product of
 * (1024, 66) and (66, 1024) takes 1.1 ms with AVX2, and 2.1 ms if they are rows
 * (Zen 5, 2026-11). */
static tn_tensor *euclid_by_product(tn_tensor *a, tn_tensor *b)
{
    const tn_dims_list last = tn_dims(-1);
    tn_tensor *a2 =
        tn_sum(tn_square(a), .dims = tn__marked(last), .keepdim = true);
    tn_tensor *b2 =
        tn_sum(tn_square(b), .dims = tn__marked(last), .keepdim = true);
    b2 = tn_transpose(b2, -2, -1);
    tn_tensor *left[] = {tn_mul_scalar(a, -2), a2,
                         a2 ? tn_ones_like(a2) : NULL};
    tn_tensor *right[] = {tn_transpose(b, -2, -1),
                          b2 ? tn_ones_like(b2) : NULL, b2};
    tn_tensor *square = tn_matmul(tn_cat(left, 3, -1), tn_cat(right, 3, -2));
    const tn_value value[] = {tn__value_tensor(square)};
    return square ? tn__row(TN__OP_ID_ROOT_ABOVE_ZERO, value, 1) : NULL;
}

/* Returns whether distances are computed by a matrix product. As in PyTorch,
 * they are if mode requests it, or if mode allows it and a or b has more than
 * 25 rows. */
static bool by_product(const tn_tensor *a, const tn_tensor *b, double p,
                       const char *mode)
{
    enum { FEW = 25 };
    bool many = a->shape[a->ndim - 2] > FEW || b->shape[b->ndim - 2] > FEW;
    bool asked = strcmp(mode, "use_mm_for_euclid_dist") == 0;
    return p == 2 && (asked || (many && strncmp(mode, "use_mm", 6) == 0));
}

tn_status tn__run_cdist(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_CDIST_X1);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_CDIST_X2);
    double p = tn__call_float(call, TN__ARG_CDIST_P);
    const char *mode = call->value[TN__ARG_CDIST_COMPUTE_MODE].of.string;
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT];
    if (a->ndim < 2 || b->ndim < 2 ||
        a->shape[a->ndim - 1] != b->shape[b->ndim - 1])
        return tn__fail(TN_ERR_SHAPE,
                        "cdist: {x1} has shape %s and {x2} %s; expected (..., "
                        "P, M) and (..., R, M)",
                        tn__shape_text(s, a->ndim, a->shape),
                        tn__shape_text(t, b->ndim, b->shape));
    if (!(p >= 0))
        return tn__fail(TN_ERR_ARGUMENT, "cdist: {p} %g is below 0", p);
    if (strncmp(mode, "use_mm_for_euclid_dist", 22) != 0 &&
        strcmp(mode, "donot_use_mm_for_euclid_dist") != 0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "cdist: {compute_mode} \"%s\" is neither \"use_mm_for_"
                        "euclid_dist_if_necessary\" nor \"use_mm_for_euclid_"
                        "dist\" nor \"donot_use_mm_for_euclid_dist\"",
                        mode);
    if (by_product(a, b, p, mode))
        return tn__give(call, euclid_by_product(a, b));
    a = tn_unsqueeze(a, -2);
    b = tn_unsqueeze(b, -3);
    if (p == 1 && a && b) {
        const tn_dims_list last = tn_dims(-1);
        const tn_value value[] = {tn__value_tensor(a), tn__value_tensor(b),
                                  tn__value_dims(&last),
                                  tn__value_bool(false)};
        return tn__give(call, tn__row(TN__OP_ID_DISTANCE_SUM, value, 4));
    }
    return tn__give(call, norm_of(tn_sub(a, b), p, -1, false));
}

tn_status tn__run_pdist(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_PDIST_INPUT);
    double p = tn__call_float(call, TN__ARG_PDIST_P);
    char text[TN__SHAPE_TEXT];
    if (x->ndim != 2)
        return tn__fail(TN_ERR_SHAPE, "pdist: {input} has shape %s; expected "
                        "(N, M)", tn__shape_text(text, x->ndim, x->shape));
    if (!(p >= 0))
        return tn__fail(TN_ERR_ARGUMENT, "pdist: {p} %g is below 0", p);
    int64_t n = x->shape[0];
    tn_tensor *at =
        tn_triu_indices(n, n, 1, .device = x->storage->device);
    tn_tensor *d = tn_sub(tn_index_select(x, 0, tn_select(at, 0, 0)),
                          tn_index_select(x, 0, tn_select(at, 0, 1)));
    return tn__give(call, norm_of(d, p, -1, false));
}

/* ---- cross products ------------------------------------------------------ */

static tn_status give_cross(tn__call *call, tn_tensor *a, tn_tensor *b,
                            int64_t dim)
{
    const char *name = call->op->name;
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT];
    tn_dims_list along = tn_dims(dim);
    int ndim = a->ndim;
    if (ndim != b->ndim)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} %s and {other} %s differ in "
                        "their number of dimensions", name,
                        tn__shape_text(s, a->ndim, a->shape),
                        tn__shape_text(t, b->ndim, b->shape));
    if (dim < -ndim || dim >= ndim)
        return tn__fail_dim(name, "dim", dim, ndim);
    int64_t d = dim < 0 ? dim + ndim : dim;
    if (a->shape[d] != 3 || b->shape[d] != 3)
        return tn__fail(TN_ERR_SHAPE, "%s: {dim} is %lld, but {input} %s and "
                        "{other} %s must both have size 3 there", name,
                        (long long)dim, tn__shape_text(s, a->ndim, a->shape),
                        tn__shape_text(t, b->ndim, b->shape));
    /* The cross product is c[i] = a[i + 1] * b[i + 2] - a[i + 2] * b[i + 1],
     * with indices modulo 3. */
    tn_tensor *left = tn_mul(tn_roll(a, tn_dims(-1), along),
                             tn_roll(b, tn_dims(-2), along));
    tn_tensor *right = tn_mul(tn_roll(a, tn_dims(-2), along),
                              tn_roll(b, tn_dims(-1), along));
    return tn__give(call, tn_sub(left, right));
}

tn_status tn__run_linalg_cross(tn__call *call)
{
    return give_cross(call, tn__call_tensor(call, TN__ARG_LINALG_CROSS_INPUT),
                      tn__call_tensor(call, TN__ARG_LINALG_CROSS_OTHER),
                      tn__call_int(call, TN__ARG_LINALG_CROSS_DIM));
}

tn_status tn__run_cross(tn__call *call)
{
    tn_tensor *a = tn__call_tensor(call, TN__ARG_CROSS_INPUT);
    tn_tensor *b = tn__call_tensor(call, TN__ARG_CROSS_OTHER);
    if (tn__call_has(call, TN__ARG_CROSS_DIM))
        return give_cross(call, a, b, tn__call_int(call, TN__ARG_CROSS_DIM));
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] == 3)
            return give_cross(call, a, b, d);
    char text[TN__SHAPE_TEXT];
    return tn__fail(TN_ERR_SHAPE, "cross: {input} has shape %s; expected a "
                    "dimension of size 3",
                    tn__shape_text(text, a->ndim, a->shape));
}

/* ---- margin losses ------------------------------------------------------- */

static tn_status fail_classes(tn__call *call, const tn_tensor *x,
                              const tn_tensor *target, const char *wanted)
{
    char s[TN__SHAPE_TEXT], t[TN__SHAPE_TEXT];
    return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s and {target} %s; "
                    "expected %s", call->op->name,
                    tn__shape_text(s, x->ndim, x->shape),
                    tn__shape_text(t, target->ndim, target->shape), wanted);
}

tn_status tn__run_margin_rows(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_MARGIN_ROWS_INPUT);
    tn_tensor *target = tn__call_tensor(call, TN__ARG_MARGIN_ROWS_TARGET);
    if (x->ndim != 2 || target->ndim != 1 || target->shape[0] != x->shape[0])
        return fail_classes(call, x, target, "(N, C) and (N)");
    tn_scope *scope = tn_scope_open();
    tn_tensor *at = scope ? tn_unsqueeze(target, 1) : NULL;
    tn_tensor *own = at ? tn_gather(x, 1, at) : NULL;
    tn_status status = tn_error_code();
    if (own) {
        const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(own),
                                  tn__value_tensor(at), tn__value_int(1),
                                  call->value[TN__ARG_MARGIN_ROWS_MARGIN]};
        int row = tn__call_int(call, TN__ARG_MARGIN_ROWS_P) == 2
                      ? TN__OP_ID_MARGIN_SQUARES
                      : TN__OP_ID_MARGIN_SUM;
        status = tn__give(call, tn__ref(tn__row(row, value, 5)));
    }
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_multi_margin_loss(tn__call *call)
{
    enum { INPUT, TARGET, P, MARGIN, WEIGHT, REDUCTION };
    tn_tensor *x = tn__call_tensor(call, INPUT);
    tn_tensor *target = tn__call_tensor(call, TARGET);
    tn_tensor *weight = tn__call_tensor(call, WEIGHT);
    int64_t p = tn__call_int(call, P), count = x->ndim == 2 ? x->shape[0] : 1;
    int64_t classes = x->ndim ? x->shape[x->ndim - 1] : 1;
    tn__reduction reduction;
    if (!tn__find_reduction(call, REDUCTION, &reduction))
        return TN_ERR_ARGUMENT;
    if (p != 1 && p != 2)
        return tn__fail(TN_ERR_ARGUMENT,
                        "multi_margin_loss: {p} %lld is neither 1 nor 2",
                        (long long)p);
    if (x->ndim > 2 || target->ndim > 1 || target->numel != count || !classes)
        return fail_classes(call, x, target, "(N, C) and (N)");
    if (weight && (weight->ndim > 1 || weight->numel != classes))
        return tn__fail(TN_ERR_SHAPE,
                        "multi_margin_loss: {weight} has %lld elements, not "
                        "one for each of %lld classes",
                        (long long)weight->numel, (long long)classes);
    const tn_value value[] = {
        tn__value_tensor(tn_reshape(x, tn_dims(count, classes))),
        tn__value_tensor(tn_reshape(target, tn_dims(count))),
        call->value[MARGIN], call->value[P]};
    if (!value[0].of.tensor || !value[1].of.tensor)
        return tn_error_code();
    tn_tensor *loss = tn_div_scalar(
        tn__row(TN__OP_ID_MARGIN_ROWS, value, 4), (double)classes);
    if (weight)
        loss = tn_mul(loss,
                      tn_reshape(tn_take(weight, target), tn_dims(count)));
    if (x->ndim < 2) /* the loss of a single sample has the shape of target */
        loss = tn_reshape(loss, (tn_dims_list){target->ndim, {1}});
    return tn__give(call, tn__reduce(loss, reduction));
}

/* Returns target as (count, classes), where the labels of a row end before its
 * first -1. Reports labels outside of [-1, classes). */
static tn_tensor *true_labels(tn__call *call, tn_tensor *target, int64_t count,
                              int64_t classes)
{
    enum { TARGET = TN__ARG_MULTILABEL_MARGIN_LOSS_TARGET };
    if (tn_dtype_is_floating(target->dtype) || target->dtype == TN_BOOL)
        return tn__fail(TN_ERR_DTYPE, "multilabel_margin_loss: {target} is "
                        "%s; convert it to int64 with tn_to_dtype",
                        tn_dtype_name(target->dtype)), NULL;
    tn__call_set_indices(call, TARGET, -1, classes);
    tn_tensor *all = tn_arange(-1, classes, 1, .dtype = TN_I64,
                               .device = target->storage->device);
    tn_tensor *labels = tn_gather(
        all, 0, tn_add_scalar(tn_to_dtype(tn_reshape(target, tn_dims(-1)),
                                          TN_I64), 1));
    if (!labels)
        tn__report_indices(call, "multilabel_margin_loss", "target", target, -1,
                           classes);
    return labels ? tn_reshape(labels, tn_dims(count, classes)) : NULL;
}

tn_status tn__run_multilabel_margin_loss(tn__call *call)
{
    tn_tensor *x =
        tn__call_tensor(call, TN__ARG_MULTILABEL_MARGIN_LOSS_INPUT);
    tn_tensor *target =
        tn__call_tensor(call, TN__ARG_MULTILABEL_MARGIN_LOSS_TARGET);
    tn__reduction reduction;
    if (!tn__find_reduction(call, TN__ARG_MULTILABEL_MARGIN_LOSS_REDUCTION,
                            &reduction))
        return TN_ERR_ARGUMENT;
    int64_t classes = x->ndim ? x->shape[x->ndim - 1] : 1;
    int64_t count = x->ndim == 2 ? x->shape[0] : 1;
    if (x->ndim > 2 || !classes ||
        !tn__shape_equal(x->ndim, x->shape, target->ndim, target->shape))
        return fail_classes(call, x, target, "(N, C) twice");
    tn_tensor *rows = tn_reshape(x, tn_dims(count, classes));
    tn_tensor *labels = true_labels(call, target, count, classes);
    if (!labels)
        return tn_error_code();
    /* valid is 1 for the labels before the first -1, else 0. at is the label
     * where valid is 1, else 0. */
    tn_tensor *valid = tn_cumprod(
        tn_to_dtype(tn_ge_scalar(labels, 0), TN_I64), 1);
    tn_tensor *at = tn_mul(labels, valid);
    tn_tensor *is_target = tn_gt_scalar(
        tn_scatter_add(tn_zeros_like(valid), 1, at, valid), 0);
    /* z[n][j][i] = max(0, 1 + rows[n][i] - rows[n][at[n][j]]) */
    tn_tensor *own = tn_unsqueeze(tn_gather(rows, 1, at), 2);
    tn_tensor *z = tn_clamp_min_scalar(
        tn_add_scalar(tn_sub(tn_unsqueeze(rows, 1), own), 1), 0);
    tn_tensor *counts = tn_logical_and(
        tn_unsqueeze(tn_gt_scalar(valid, 0), 2),
        tn_unsqueeze(tn_logical_not(is_target), 1));
    tn_tensor *loss = tn_div_scalar(
        tn_sum(tn_mul(z, counts), .dims = tn_dims(1, 2)), (double)classes);
    if (x->ndim < 2)
        loss = tn_reshape(loss, (tn_dims_list){0});
    return tn__give(call, tn__reduce(loss, reduction));
}
