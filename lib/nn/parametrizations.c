/* parametrizations.c: weight normalisation, spectral normalisation and
 * orthogonal matrices, as in torch.nn.utils.parametrizations. */
#include <nn/init.h>
#include <nn/tree.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/nn.h>
#include <tenon/ops.h>

/* Returns the current value of a parameter. Either the open scope owns it or it
 * is a tensor of the module. Errors name the function `what`. */
static tn_tensor *present_value(tn_module *any, const char *name,
                                const char *what)
{
    const tn_module *module = tn_error() ? NULL : tn__nn_module(any, what);
    if (!module || !tn__nn_not_null(name, what, "name"))
        return NULL;
    const tn__nn_entry *entry = tn__nn_tensor_entry(module, name, what);
    tn_tensor *value = NULL;
    TN_NO_GRAD
    {
        value = entry ? tn__nn_value_of(entry) : NULL;
    }
    return value;
}

/* Registers a parametrization that was made in `scope`, and closes the scope.
 * Returns module, or NULL on failure. */
static void *finish(tn_scope *scope, tn_module *module, const char *name,
                    tn_module *parametrization, bool unsafe, const char *what)
{
    void *made = parametrization
                     ? tn_module_register_parametrization(
                           module, name, parametrization, .unsafe = unsafe)
                     : NULL;
    if (!made)
        tn_error_rename("module_register_parametrization", what, NULL);
    tn_scope_close(scope);
    return made;
}

static bool check_dim(int64_t dim, int64_t low, int ndim, const char *what)
{
    if (dim >= low && dim < ndim)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "dim",
                             "dim %" PRId64 " is outside [%" PRId64 ", %d)",
                             dim, low, ndim);
    return false;
}

/* ---- weight normalisation ------------------------------------------------ */

typedef struct weight_norm {
    tn_module base;
    int64_t dim;
} weight_norm;

static void weight_norm_forward(tn_module *self, tn_tensor *const *in,
                                int in_count, tn_tensor **out, int out_count)
{
    (void)in_count, (void)out_count;
    out[0] = tn_weight_norm(in[1], in[0], .dim = ((weight_norm *)self)->dim);
}

static tn_status weight_norm_inverse(tn_module *self, tn_tensor *value,
                                     tn_tensor **out)
{
    const int64_t dim = ((weight_norm *)self)->dim;
    tn_dims_list others = TN_SCALAR;
    for (int d = 0; d < tn_tensor_ndim(value); d++)
        if (d != dim)
            others.dim[others.count++] = d;
    out[0] = dim < 0 ? tn_vector_norm(value)
             : others.count
                 ? tn_vector_norm(value, .dims = others, .keepdim = true)
                 : tn_abs(value);
    out[1] = value;
    return out[0] ? TN_OK : tn_error_code();
}

TN_OPTIONS_TYPE(tn_nn_weight_norm, "nn_weight_norm", "module, name",
                TN_NN_WEIGHT_NORM_OPTIONS_LIST)

void *tn_nn_weight_norm_with(tn_module *module, const char *name,
                             const tn_nn_weight_norm_options *options)
{
    static const char what[] = "nn_weight_norm";
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "_WeightNorm",
                                         .bytes = sizeof(weight_norm),
                                         .forward_list = weight_norm_forward,
                                         .signature = "g, v -> weight",
                                         .right_inverse = weight_norm_inverse};
    tn_nn_weight_norm_options o;
    if (tn_options_take(tn_nn_weight_norm_type(), &o, options) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *value = present_value(module, name, what);
    weight_norm *w = value && check_dim(o.dim, -1, tn_tensor_ndim(value), what)
                         ? tn_module_new(&type)
                         : NULL;
    if (w)
        w->dim = o.dim;
    return finish(scope, module, name, (tn_module *)w, true, what);
}

/* ---- spectral normalisation ---------------------------------------------- */

/* Limit of power iterations in a forward, so that it ends in a reasonable
 * time. */
enum { MOST_STEPS = 10000 };

typedef struct spectral_norm {
    tn_module base;
    tn_tensor *u, *v; /* buffers; NULL for a 1-d tensor */
    int64_t dim, steps;
    double eps;
} spectral_norm;

/* Returns x as a matrix whose rows are the slices along dim. */
static tn_tensor *as_matrix(const spectral_norm *s, tn_tensor *x)
{
    tn_dims_list order = tn_dims(s->dim);
    for (int d = 0; d < tn_tensor_ndim(x); d++)
        if (d != s->dim)
            order.dim[order.count++] = d;
    return tn_flatten(s->dim ? tn_permute(x, order) : x, .start_dim = 1);
}

static tn_tensor *normalize(const spectral_norm *s, tn_tensor *x)
{
    return tn_normalize(x, .dim = 0, .eps = s->eps);
}

/* Runs `steps` power iterations. They are not recorded for gradients. */
static bool iterate(const spectral_norm *s, tn_tensor *matrix, int64_t steps)
{
    TN_NO_GRAD_HERE;
    for (int64_t i = 0; i < steps && !tn_error(); i++) {
        tn_copy_(s->u, normalize(s, tn_mv(matrix, s->v)));
        tn_copy_(s->v, normalize(s, tn_mv(tn_transpose(matrix, 0, 1), s->u)));
    }
    return !tn_error();
}

static tn_tensor *spectral_forward(tn_module *self, tn_tensor *input)
{
    const spectral_norm *s = (spectral_norm *)self;
    if (!s->u)
        return normalize(s, input);
    tn_tensor *matrix = as_matrix(s, input);
    if (self->training && !iterate(s, matrix, s->steps))
        return NULL;
    /* copies, because the next forward changes u and v in place */
    tn_tensor *u = tn_clone(s->u), *v = tn_clone(s->v);
    return tn_div(input, tn_dot(u, tn_mv(matrix, v)));
}

static tn_status same_value(tn_module *self, tn_tensor *value, tn_tensor **out)
{
    (void)self;
    out[0] = value;
    return TN_OK;
}

/* Returns a random vector of norm 1 for dimension d of the matrix. */
static tn_tensor *random_unit(const spectral_norm *s, const tn_tensor *matrix,
                              int d)
{
    return normalize(s, tn_randn(tn_dims(tn_tensor_size(matrix, d)),
                                 .dtype = tn_tensor_dtype(matrix),
                                 .device = tn_tensor_device(matrix)));
}

static bool add_vectors(spectral_norm *s, tn_tensor *value)
{
    TN_NO_GRAD_HERE;
    tn_tensor *matrix = as_matrix(s, value);
    if (!matrix)
        return false;
    s->u = tn_module_add_buffer(&s->base, "_u", random_unit(s, matrix, 0));
    s->v = tn_module_add_buffer(&s->base, "_v", random_unit(s, matrix, 1));
    return s->u && s->v && iterate(s, matrix, 15);
}

TN_OPTIONS_TYPE(tn_nn_spectral_norm, "nn_spectral_norm", "module, name",
                TN_NN_SPECTRAL_NORM_OPTIONS_LIST)

void *tn_nn_spectral_norm_with(tn_module *module, const char *name,
                               const tn_nn_spectral_norm_options *options)
{
    static const char what[] = "nn_spectral_norm";
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "_SpectralNorm",
                                         .bytes = sizeof(spectral_norm),
                                         .forward = spectral_forward,
                                         .right_inverse = same_value};
    tn_nn_spectral_norm_options o;
    if (tn_options_take(tn_nn_spectral_norm_type(), &o, options) < 0 ||
        !tn__nn_check_eps(o.eps, what, "eps"))
        return NULL;
    if (o.n_power_iterations < 1 || o.n_power_iterations > MOST_STEPS) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "n_power_iterations",
                                 "n_power_iterations is %" PRId64
                                 "; expected 1 to %d",
                                 o.n_power_iterations, MOST_STEPS);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_tensor *value = present_value(module, name, what);
    int ndim = tn_tensor_ndim(value);
    if (value && o.dim == TN_NONE_INT) /* rows are input channels */
        o.dim = strncmp(module->type->name, "ConvTranspose", 13) == 0;
    spectral_norm *s = value && check_dim(o.dim, -ndim, ndim, what)
                           ? tn_module_new(&type)
                           : NULL;
    if (s) {
        s->dim = o.dim + (o.dim < 0 ? ndim : 0);
        s->steps = o.n_power_iterations;
        s->eps = o.eps;
        if (ndim > 1 && !add_vectors(s, value))
            s = NULL;
    }
    return finish(scope, module, name, (tn_module *)s, false, what);
}

/* ---- orthogonal matrices ------------------------------------------------- */

enum map { MATRIX_EXP, CAYLEY, HOUSEHOLDER, MAPS };
static const char *const map_names[] = {"matrix_exp", "cayley", "householder"};

typedef struct orthogonal {
    tn_module base;
    enum map map;
    int64_t rows, columns;
    bool trivial;      /* use_trivialization */
    tn_tensor *origin; /* the buffer `base`, or NULL */
} orthogonal;

static tn_tensor *identity(const tn_tensor *like, int64_t n, int64_t m)
{
    return tn_eye(n, .m = m, .dtype = tn_tensor_dtype(like),
                  .device = tn_tensor_device(like));
}

/* Returns x, transposed if it has fewer rows than columns. */
static tn_tensor *tall(tn_tensor *x)
{
    bool wide = tn_tensor_size(x, -2) < tn_tensor_size(x, -1);
    return wide ? tn_transpose(x, -2, -1) : x;
}

static tn_tensor *diagonal_row(tn_tensor *x)
{
    return tn_unsqueeze(tn_diagonal(x, .dim1 = -2, .dim2 = -1), -2);
}

/* Maps x (..., n, k) to matrices with orthonormal columns by the exponential or
 * the Cayley transform of a skew-symmetric matrix (n, n). */
static tn_tensor *map_skew(enum map map, tn_tensor *x)
{
    int64_t n = tn_tensor_size(x, -2), k = tn_tensor_size(x, -1);
    const int last = tn_tensor_ndim(x) - 1;
    x = tn_tril(x);
    if (n != k) {
        tn_dims_list sides = tn_dims(0, n - k);
        x = tn_pad(x, sides);
    }
    tn_tensor *a = tn_sub(x, tn_transpose(x, -2, -1)), *q;
    if (map == MATRIX_EXP) {
        q = tn_linalg_matrix_exp(a);
    } else {
        tn_tensor *id = identity(x, n, n), *half = tn_mul_scalar(a, 0.5);
        q = tn_linalg_solve(tn_sub(id, half), tn_add(id, half));
    }
    return n == k ? q : tn_narrow(q, last, 0, k);
}

/* The diagonal of x holds the signs of the columns. It gets no gradient. */
static tn_tensor *map_reflections(tn_tensor *x)
{
    tn_tensor *a = tn_tril(x, .diagonal = -1);
    tn_tensor *tau = tn_add_scalar(tn_sum(tn_mul(a, a), .dim = -2), 1);
    tn_tensor *q =
        tn_linalg_householder_product(a, tn_mul_scalar(tn_reciprocal(tau), 2));
    tn_tensor *sign = tn_trunc(tn_detach(diagonal_row(x)));
    return tn_mul(q, sign);
}

static tn_tensor *orthogonal_forward(tn_module *self, tn_tensor *input)
{
    const orthogonal *o = (orthogonal *)self;
    tn_tensor *x = tall(input);
    tn_tensor *q = o->map == HOUSEHOLDER ? map_reflections(x)
                                         : map_skew(o->map, x);
    if (o->trivial)
        q = tn_matmul(o->origin, q);
    return x == input ? q : tn_transpose(q, -2, -1);
}

/* Returns the factor Q of x = QR, with signs chosen such that the diagonal of R
 * is nonnegative. */
static tn_tensor *make_orthogonal(tn_tensor *x, tn_tensor **r)
{
    tn_tensor *q = tn_linalg_qr(x, r);
    return tn_mul(q, tn_sign(diagonal_row(*r)));
}

static bool is_orthogonal(tn_tensor *q)
{
    int64_t n = tn_tensor_size(q, -2), k = tn_tensor_size(q, -1);
    double eps = tn_tensor_dtype(q) == TN_F64 ? 0x1p-52 : 0x1p-23;
    tn_tensor *product = tn_matmul(tn_transpose(q, -2, -1), q);
    tn_tensor *same =
        tn_allclose(product, tn_expand_as(identity(q, k, k), product),
                    .atol = 10 * (double)n * eps);
    return same && tn_item_int(same) != 0;
}

/* Returns an original from which map_reflections computes Q of x = QR: below
 * the diagonal the vectors of its reflections, on the diagonal the signs, above
 * it R (which is not used, but LAPACK's geqrf leaves it there).
 *
 * Q - S = V U for the factor Q of a QR decomposition with reflections, with
 * signs S that make the pivots large (G. Ballard et al., Reconstructing
 * Householder vectors from tall-skinny QR, 2015), so V is a factor L of an LU
 * decomposition. */
static tn_tensor *reflections_of(tn_tensor *x)
{
    int64_t n = tn_tensor_size(x, -2), k = tn_tensor_size(x, -1);
    tn_tensor *r = NULL, *q = tn_to_dtype(make_orthogonal(x, &r), TN_F64);
    int64_t count = n > 0 && k > 0 ? tn_tensor_numel(q) / (n * k) : 0;
    size_t bytes = (size_t)tn_tensor_numel(q) * sizeof(double);
    static const tn_object_class room_class = {sizeof room_class, "matrices",
                                               sizeof(tn_object), NULL};
    tn_object *room = q ? tn_object_new(&room_class, bytes) : NULL;
    double *a = room ? (double *)(room + 1) : NULL;
    if (!a || tn_tensor_to_array(q, a, bytes) < 0)
        return NULL;
    for (int64_t i = 0; i < count; i++, a += n * k)
        for (int64_t c = 0; c < k; c++) {
            double at = a[c * k + c], sign = at >= 0 ? -1 : 1;
            for (int64_t l = c + 1; l < n; l++) {
                double v = a[l * k + c] / (at - sign);
                a[l * k + c] = v;
                for (int64_t j = c + 1; j < k; j++)
                    a[l * k + j] -= v * a[c * k + j];
            }
            a[c * k + c] = sign;
        }
    tn_dims_list shape =
        tn_dims_from_array(tn_tensor_shape(q), tn_tensor_ndim(q));
    q = tn_to_dtype(tn_tril(tn_tensor_from_array(room + 1, TN_F64, shape)),
                    tn_tensor_dtype(x));
    r = tn_pad(tn_triu(r, .diagonal = 1), tn_dims(0, 0, 0, n - k));
    return tn_add(tn_to(q, tn_tensor_device(x)), r);
}

static tn_status orthogonal_inverse(tn_module *self, tn_tensor *value,
                                    tn_tensor **out)
{
    orthogonal *o = (orthogonal *)self;
    if (tn_tensor_size(value, -2) != o->rows ||
        tn_tensor_size(value, -1) != o->columns) {
        char text[TN__NN_SHAPE_TEXT];
        return tn_error_refuse(TN_ERR_SHAPE, self->type->name,
                               &(tn_given){"value", value}, 1,
                               "value %s: expected matrices (%" PRId64
                               ", %" PRId64 ")",
                               tn__nn_shape_text(text, value), o->rows,
                               o->columns);
    }
    tn_tensor *q = tall(value), *r = NULL;
    int64_t n = tn_tensor_size(q, -2), k = tn_tensor_size(q, -1);
    if (!o->trivial) {
        /* The other maps have no inverse in closed form. */
        if (o->map == HOUSEHOLDER) {
            out[0] = reflections_of(q);
            out[0] = q == value ? out[0] : tn_transpose(out[0], -2, -1);
        }
        return tn_error_code();
    }
    if (n != k) { /* extend the columns to an orthogonal square matrix */
        tn_dims_list shape =
            tn_dims_from_array(tn_tensor_shape(q), tn_tensor_ndim(q));
        shape.dim[shape.count - 1] = n - k;
        tn_tensor *more = tn_randn(shape, .dtype = tn_tensor_dtype(q),
                                   .device = tn_tensor_device(q));
        q = make_orthogonal(
            tn_cat((tn_tensor *[]){q, more}, 2, tn_tensor_ndim(q) - 1), &r);
    } else {
        q = is_orthogonal(q) ? tn_clone(q) : make_orthogonal(q, &r);
    }
    if (!q)
        return tn_error_code();
    if (!o->origin)
        o->origin = tn_module_add_buffer(self, "base", tn_contiguous(q));
    else if (tn_tensor_set_data(o->origin, q) < 0)
        return tn_error_code();
    tn_tensor *id = identity(value, tn_tensor_size(value, -2),
                             tn_tensor_size(value, -1));
    out[0] = tn_neg(tn_expand_as(id, value));
    return o->origin && out[0] ? TN_OK : tn_error_code();
}

TN_OPTIONS_TYPE(tn_nn_orthogonal, "nn_orthogonal", "module, name",
                TN_NN_ORTHOGONAL_OPTIONS_LIST)

void *tn_nn_orthogonal_with(tn_module *module, const char *name,
                            const tn_nn_orthogonal_options *options)
{
    static const char what[] = "nn_orthogonal";
    static const tn_module_class type = {.size = sizeof type,
                                         .name = "_Orthogonal",
                                         .bytes = sizeof(orthogonal),
                                         .forward = orthogonal_forward,
                                         .right_inverse = orthogonal_inverse};
    tn_nn_orthogonal_options o;
    if (tn_options_take(tn_nn_orthogonal_type(), &o, options) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tensor *value = present_value(module, name, what);
    orthogonal *made = NULL;
    int map = 0;
    if (!o.orthogonal_map && value)
        o.orthogonal_map = tn_tensor_ndim(value) > 1 &&
                                   tn_tensor_size(value, -2) ==
                                       tn_tensor_size(value, -1)
                               ? map_names[MATRIX_EXP]
                               : map_names[HOUSEHOLDER];
    while (value && map < MAPS && strcmp(map_names[map], o.orthogonal_map) != 0)
        map++;
    if (!value)
        ;
    else if (tn_tensor_ndim(value) < 2)
        tn_error_refuse(TN_ERR_SHAPE, what, &(tn_given){"name", value}, 1,
                        "\"%s\" has %d dimension%s; expected a matrix or a "
                        "batch of matrices",
                        name, tn_tensor_ndim(value),
                        tn_tensor_ndim(value) == 1 ? "" : "s");
    else if (map == MAPS)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "orthogonal_map",
                                 "orthogonal_map \"%s\" is none of matrix_exp, "
                                 "cayley, householder",
                                 o.orthogonal_map);
    else if (o.use_trivialization && tn_module_is_parametrized(module, name))
        tn_error_refuse_argument(TN_ERR_ARGUMENT, what, "use_trivialization",
                                 "\"%s\" is parametrized already: pass "
                                 "use_trivialization = false",
                                 name);
    else
        made = tn_module_new(&type);
    if (made) {
        made->map = (enum map)map;
        made->rows = tn_tensor_size(value, -2);
        made->columns = tn_tensor_size(value, -1);
        made->trivial = o.use_trivialization;
    }
    return finish(scope, module, name, (tn_module *)made, true, what);
}
