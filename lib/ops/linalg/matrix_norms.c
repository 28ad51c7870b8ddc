/* matrix_norms.c: norms and condition numbers of matrices (PyTorch's
 * linalg.norm, linalg.matrix_norm, linalg.cond), by sums of absolute values or
 * by singular values. */
#include <math.h>
#include <ops/engine/native.h>

/* The kind of a norm: a numeric order, or the name "fro" or "nuc". */
enum { BY_NUMBER, FROBENIUS, NUCLEAR };

/* The options of a norm. `order` is only used if kind is BY_NUMBER. */
typedef struct norm {
    int kind;
    double order;
    tn_value dim, keepdim, dtype;
} norm;

static tn_status find_name(const tn__call *call, int arg, norm *n)
{
    const char *name = call->value[arg].of.string;
    n->kind = strcmp(name, "fro") == 0   ? FROBENIUS
              : strcmp(name, "nuc") == 0 ? NUCLEAR
                                         : BY_NUMBER;
    if (n->kind == BY_NUMBER)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {%s:norm} \"%s\" is neither "
                        "\"fro\" nor \"nuc\"", call->op->name,
                        call->op->arg[arg].name, name);
    return TN_OK;
}

static tn_tensor *vector_norm(tn_tensor *x, double order, tn_value dim,
                              tn_value keepdim, tn_value dtype)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_float(order), dim,
                              keepdim, dtype};
    return tn__row(TN__OP_ID_VECTOR_NORM, value, 5);
}

/* Sets dims[] to the two dimensions of the matrices: those in the argument dim,
 * or by default the last two. */
static tn_status find_dims(const tn__call *call, const tn_tensor *x,
                           const norm *n, int dims[2])
{
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    tn_dims_list list = tn_dims(-2, -1);
    if (n->dim.kind == TN_VALUE_DIMS)
        list = *n->dim.of.dims;
    for (int k = 0; k < 2 && list.count == 2; k++)
        dims[k] = x->ndim ? tn__shape_dim(x->ndim, list.dim[k]) : -1;
    if (list.count == 2 && dims[0] >= 0 && dims[1] >= 0 && dims[0] != dims[1])
        return TN_OK;
    return tn__fail(TN_ERR_ARGUMENT, "%s: {dim} is %s; expected two different "
                    "dimensions of {input}, which has shape %s", call->op->name,
                    tn__shape_text(a, list.count, list.dim),
                    tn__shape_text(b, x->ndim, x->shape));
}

/* Returns y with the two reduced dimensions as dimensions of size 1 if keepdim
 * is true, else y itself. */
static tn_tensor *keep(tn_tensor *y, const int dims[2], bool keepdim)
{
    int low = dims[0] < dims[1] ? dims[0] : dims[1];
    int high = dims[0] < dims[1] ? dims[1] : dims[0];
    return y && keepdim ? tn_unsqueeze(tn_unsqueeze(y, low), high) : y;
}

/* Returns the maximum along a dimension, or 0 if the dimension has size 0. */
static tn_tensor *max_along(tn_tensor *x, int dim)
{
    return tn_tensor_size(x, dim) ? tn_amax(x, .dim = dim)
                                  : tn_sum(x, .dim = dim);
}

/* Returns a norm of order 1, -1, inf or -inf: sums of absolute values along one
 * dimension, then the maximum or minimum along the other. */
static tn_tensor *of_sums(tn_tensor *x, double order, const int dims[2],
                          bool keepdim)
{
    bool columns = fabs(order) == 1;
    int summed = columns ? dims[0] : dims[1];
    int other = columns ? dims[1] : dims[0];
    int then = other - (other > summed);
    tn_tensor *sums = vector_norm(
        x, 1, tn__value_dims(&(tn_dims_list){1, {summed}}),
        tn__value_bool(false), tn__value_none());
    if (!sums)
        return NULL;
    tn_tensor *y = order > 0 ? max_along(sums, then)
                             : tn_amin(sums, .dim = then);
    return keep(y, dims, keepdim);
}

static tn_tensor *of_singular_values(tn_tensor *x, const norm *n,
                                     const int dims[2], bool keepdim)
{
    tn_tensor *s =
        tn_linalg_svdvals(tn_movedim(x, tn_dims(dims[0], dims[1]),
                                     tn_dims(-2, -1)));
    if (!s)
        return NULL;
    tn_tensor *y = n->kind == NUCLEAR ? tn_sum(s, .dim = -1)
                   : n->order > 0     ? max_along(s, -1)
                                      : tn_amin(s, .dim = -1);
    return keep(y, dims, keepdim);
}

static tn_tensor *matrix_norm(const tn__call *call, tn_tensor *x,
                              const norm *n)
{
    int dims[2] = {0, 1};
    bool keepdim = n->keepdim.of.i;
    if (find_dims(call, x, n, dims) < 0)
        return NULL;
    if (n->kind == FROBENIUS) {
        const tn_dims_list both = tn_dims(dims[0], dims[1]);
        return vector_norm(x, 2, tn__value_dims(&both), n->keepdim, n->dtype);
    }
    if (n->dtype.kind == TN_VALUE_DTYPE)
        x = tn_to_dtype(x, (tn_dtype)n->dtype.of.i);
    if (!x)
        return NULL;
    double order = fabs(n->order);
    if (n->kind == NUCLEAR || order == 2)
        return of_singular_values(x, n, dims, keepdim);
    if (order == 1 || order == INFINITY)
        return of_sums(x, n->order, dims, keepdim);
    tn__fail(TN_ERR_ARGUMENT, "%s: no matrix norm has order %g; expected 1, 2, "
             "inf or their negatives", call->op->name, n->order);
    return NULL;
}

/* ---- matrix_norm and norm ------------------------------------------------ */

tn_status tn__run_linalg_matrix_norm(tn__call *call)
{
    norm n = {BY_NUMBER, tn__call_float(call, TN__ARG_LINALG_MATRIX_NORM_ORD),
              call->value[TN__ARG_LINALG_MATRIX_NORM_DIM],
              call->value[TN__ARG_LINALG_MATRIX_NORM_KEEPDIM],
              call->value[TN__ARG_LINALG_MATRIX_NORM_DTYPE]};
    return tn__give(call, matrix_norm(call, tn__call_tensor(call, 0), &n));
}

tn_status tn__run_linalg_matrix_norm_by(tn__call *call)
{
    norm n = {.dim = call->value[TN__ARG_LINALG_MATRIX_NORM_BY_DIM],
              .keepdim = call->value[TN__ARG_LINALG_MATRIX_NORM_BY_KEEPDIM],
              .dtype = call->value[TN__ARG_LINALG_MATRIX_NORM_BY_DTYPE]};
    if (find_name(call, TN__ARG_LINALG_MATRIX_NORM_BY_ORD, &n) < 0)
        return tn_error_code();
    return tn__give(call, matrix_norm(call, tn__call_tensor(call, 0), &n));
}

/* Computes PyTorch's linalg.norm. Without an order, the tensor counts as one
 * vector of all its elements. With an order, a matrix norm is computed if dim
 * has two dimensions, or if dim is absent and the input is 2-d. */
tn_status tn__run_linalg_norm(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_NORM_A);
    bool ordered = tn__call_has(call, TN__ARG_LINALG_NORM_ORD);
    norm n = {BY_NUMBER,
              ordered ? tn__call_float(call, TN__ARG_LINALG_NORM_ORD) : 2,
              call->value[TN__ARG_LINALG_NORM_DIM],
              call->value[TN__ARG_LINALG_NORM_KEEPDIM],
              call->value[TN__ARG_LINALG_NORM_DTYPE]};
    bool dims = n.dim.kind == TN_VALUE_DIMS;
    bool matrices =
        ordered && (dims ? n.dim.of.dims->count == 2 : x->ndim == 2);
    if (ordered && !dims && x->ndim > 2)
        return tn__fail(TN_ERR_SHAPE, "linalg_norm: {ord} is given for a "
                        "tensor of %d dimensions: give one or two dimensions "
                        "as {dim}", x->ndim);
    return tn__give(call, matrices
                              ? matrix_norm(call, x, &n)
                              : vector_norm(x, n.order, n.dim, n.keepdim,
                                            n.dtype));
}

tn_status tn__run_linalg_norm_by(tn__call *call)
{
    norm n = {.dim = call->value[TN__ARG_LINALG_NORM_BY_DIM],
              .keepdim = call->value[TN__ARG_LINALG_NORM_BY_KEEPDIM],
              .dtype = call->value[TN__ARG_LINALG_NORM_BY_DTYPE]};
    if (find_name(call, TN__ARG_LINALG_NORM_BY_ORD, &n) < 0)
        return tn_error_code();
    return tn__give(call, matrix_norm(call, tn__call_tensor(call, 0), &n));
}

tn_status tn__run_norm(tn__call *call)
{
    return tn__give(
        call, vector_norm(tn__call_tensor(call, TN__ARG_NORM_INPUT),
                          tn__call_float(call, TN__ARG_NORM_P),
                          call->value[TN__ARG_NORM_DIM],
                          call->value[TN__ARG_NORM_KEEPDIM],
                          call->value[TN__ARG_NORM_DTYPE]));
}

/* Computes torch.norm with a named order. "fro" is the square root of the sum
 * of squares, for any number of dimensions. */
tn_status tn__run_norm_by(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_NORM_BY_INPUT);
    norm n = {.dim = call->value[TN__ARG_NORM_BY_DIM],
              .keepdim = call->value[TN__ARG_NORM_BY_KEEPDIM],
              .dtype = call->value[TN__ARG_NORM_BY_DTYPE]};
    if (find_name(call, TN__ARG_NORM_BY_P, &n) < 0)
        return tn_error_code();
    return tn__give(call, n.kind == NUCLEAR
                              ? matrix_norm(call, x, &n)
                              : vector_norm(x, 2, n.dim, n.keepdim, n.dtype));
}

/* ---- linalg.cond --------------------------------------------------------- */

static tn_status condition(tn__call *call, norm n)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_LINALG_COND_A);
    char text[TN__SHAPE_TEXT];
    n.dim = n.dtype = tn__value_none();
    n.keepdim = tn__value_bool(false);
    if (n.kind == BY_NUMBER && fabs(n.order) == 2) {
        norm least = n;
        least.order = -n.order;
        return tn__give(call, tn_div(matrix_norm(call, x, &n),
                                     matrix_norm(call, x, &least)));
    }
    if (x->ndim < 2 || x->shape[x->ndim - 1] != x->shape[x->ndim - 2])
        return tn__fail(TN_ERR_SHAPE, "linalg_cond: {A} has shape %s; "
                        "expected square matrices, which this norm requires",
                        tn__shape_text(text, x->ndim, x->shape));
    tn_tensor *inverse = tn_linalg_inv(x);
    return tn__give(call, inverse ? tn_mul(matrix_norm(call, x, &n),
                                           matrix_norm(call, inverse, &n))
                                  : NULL);
}

tn_status tn__run_linalg_cond(tn__call *call)
{
    return condition(call,
                     (norm){.order = tn__call_float(call,
                                                    TN__ARG_LINALG_COND_P)});
}

tn_status tn__run_linalg_cond_by(tn__call *call)
{
    norm n = {0};
    if (find_name(call, TN__ARG_LINALG_COND_BY_P, &n) < 0)
        return tn_error_code();
    return condition(call, n);
}
