/* compare.c: decides whether two tensors are equal within a tolerance. */
#include "golden.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Operators with one or a few roundings, for which PyTorch's tight float32
 * tolerance applies. All others (transcendental functions, reductions,
 * products) have a wider tolerance. */
static const char *const plain[] = {
    "abs", "add", "addcdiv", "addcmul", "ceil", "clamp", "clamp_max",
    "clamp_min", "copysign", "deg2rad", "div", "fill", "floor", "fmax",
    "fmin", "frac", "full", "hypot", "lerp", "maximum", "minimum", "mul",
    "nan_to_num", "neg", "nn.functional.hardtanh", "nn.functional.relu",
    "nn.functional.relu6", "positive", "rad2deg", "reciprocal", "relu",
    "round", "rsqrt", "rsub", "sign", "sqrt", "square", "sub", "true_divide",
    "trunc", "where", NULL};

/* Operators for which PyTorch's own result differs from the exact result by
 * this much, each with the reason. */
static const struct {
    const char *op;
    tn_dtype dtype;
    tolerance within;
} looser[] = {
#define LOOSER(op, dtype, relative, absolute, reason)                         \
    {op, dtype, {relative, absolute}},
#define BY_FLOAT64(op, reason)
#include "looser.def"
#undef BY_FLOAT64
#undef LOOSER
    {NULL, 0, {0, 0}},
};

/* Returns whether op is one of the names, which are separated by spaces. */
static bool is_among(const char *names, const char *op)
{
    size_t length = strlen(op);
    for (const char *at = names; (at = strstr(at, op)); at += length)
        if ((at == names || at[-1] == ' ') &&
            (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static bool is_in(const char *const *names, const char *op)
{
    int i = 0;
    while (names[i] && !is_among(names[i], op))
        i++;
    return names[i] != NULL;
}

/* Returns whether looser.def allows PyTorch's result any distance from the
 * float64 result. */
static bool is_far(const char *op)
{
    static const char *const names[] = {
#define LOOSER(op, dtype, relative, absolute, reason)
#define BY_FLOAT64(op, reason) op,
#include "looser.def"
#undef BY_FLOAT64
#undef LOOSER
        NULL};
    return is_in(names, op);
}

tolerance tolerance_for(const char *op, tn_dtype dtype)
{
    for (int i = 0; looser[i].op; i++) {
        if (is_among(looser[i].op, op) && looser[i].dtype == dtype)
            return looser[i].within;
    }
    switch (dtype) {
    case TN_F64:
        return (tolerance){1e-7, 1e-9};
    case TN_F16:
        return (tolerance){2e-3, 1e-3};
    case TN_BF16:
        return (tolerance){1.6e-2, 1e-2};
    case TN_F32:
        for (int i = 0; plain[i]; i++) {
            if (strcmp(plain[i], op) == 0)
                return (tolerance){1.3e-6, 1e-5};
        }
        return (tolerance){1e-4, 1e-5};
    default:
        return (tolerance){0, 0};
    }
}

static bool values_equal(double got, double want, tolerance within)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    if (isinf(got) || isinf(want))
        return got == want;
    return fabs(got - want) <= within.absolute + within.relative * fabs(want);
}

/* Returns x's values as float64, or as int64 for integers, in memory that the
 * caller frees. */
static void *values(tn_tensor *x, tn_dtype as)
{
    size_t bytes = (size_t)tn_tensor_numel(x) * 8;
    void *out = malloc(bytes ? bytes : 1);
    tn_tensor *wide = tn_to_dtype(x, as);
    if (!out || !wide || tn_tensor_to_array(wide, out, bytes) < 0) {
        free(out);
        return NULL;
    }
    return out;
}

static bool same_shape(tn_tensor *a, tn_tensor *b)
{
    if (tn_tensor_ndim(a) != tn_tensor_ndim(b))
        return false;
    for (int i = 0; i < tn_tensor_ndim(a); i++) {
        if (tn_tensor_shape(a)[i] != tn_tensor_shape(b)[i])
            return false;
    }
    return true;
}

static void describe(tn_tensor *x, char *text, size_t room)
{
    size_t at = (size_t)snprintf(text, room, "%s (",
                                 tn_dtype_name(tn_tensor_dtype(x)));
    for (int i = 0; i < tn_tensor_ndim(x) && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s%lld", i ? ", " : "",
                               (long long)tn_tensor_shape(x)[i]);
    if (at < room)
        snprintf(text + at, room - at, ")");
}

bool golden_equal(tn_tensor *got, tn_tensor *want, tolerance within,
                  char *text, size_t room)
{
    if (!got) {
        snprintf(text, room, "%s", tn_error() ? tn_error() : "no result");
        return false;
    }
    if (!same_shape(got, want) ||
        tn_tensor_dtype(got) != tn_tensor_dtype(want)) {
        char a[160], b[160];
        describe(got, a, sizeof a);
        describe(want, b, sizeof b);
        snprintf(text, room, "%s instead of %s", a, b);
        return false;
    }
    bool floating = tn_dtype_is_floating(tn_tensor_dtype(want));
    tn_dtype as = floating ? TN_F64 : TN_I64;
    void *g = values(got, as), *w = values(want, as);
    bool equal = g && w;
    if (!equal)
        snprintf(text, room, "%s", tn_error() ? tn_error() : "no memory");
    for (int64_t i = 0; equal && i < tn_tensor_numel(want); i++) {
        if (floating) {
            double x = ((double *)g)[i], y = ((double *)w)[i];
            equal = values_equal(x, y, within);
            if (!equal)
                snprintf(text, room, "element %lld is %.9g, wanted %.9g",
                         (long long)i, x, y);
        } else {
            int64_t x = ((int64_t *)g)[i], y = ((int64_t *)w)[i];
            equal = x == y;
            if (!equal)
                snprintf(text, room, "element %lld is %lld, wanted %lld",
                         (long long)i, (long long)x, (long long)y);
        }
    }
    free(g);
    free(w);
    return equal;
}

/* Returns whether got is within two steps of the dtype at this magnitude, or
 * within the error of a float32 sum that cancels, which depends on the largest
 * element. */
static bool near_rounded(double got, double wide, tn_dtype dtype, double most)
{
    int digits = dtype == TN_F16 ? 11 : dtype == TN_BF16 ? 8 : 24, exponent;
    if (isnan(got) || isnan(wide) || isinf(got) || isinf(wide))
        return (isnan(got) && isnan(wide)) || got == wide ||
               (isinf(got) && fabs(wide) > 65504 && (got > 0) == (wide > 0));
    frexp(wide, &exponent);
    if (dtype == TN_F16 && exponent < -13)
        exponent = -13;
    return fabs(got - wide) <= ldexp(2, exponent - digits) + 1e-6 * most;
}

bool golden_rounds(tn_tensor *got, tn_tensor *wide, char *text, size_t room)
{
    if (!got || !wide || !same_shape(got, wide)) {
        snprintf(text, room, "%s", tn_error() ? tn_error() : "another shape");
        return false;
    }
    double *g = values(got, TN_F64), *w = values(wide, TN_F64), most = 0;
    bool near = g && w;
    int64_t count = tn_tensor_numel(wide);
    for (int64_t i = 0; near && i < count; i++)
        most = isfinite(w[i]) ? fmax(most, fabs(w[i])) : most;
    for (int64_t i = 0; near && i < count; i++) {
        near = near_rounded(g[i], w[i], tn_tensor_dtype(got), most);
        if (!near)
            snprintf(text, room, "element %lld is %.9g, in float64 %.9g",
                     (long long)i, g[i], w[i]);
    }
    free(g);
    free(w);
    return near;
}

/* Returns the spacing of the dtype's numbers at this magnitude. */
static double step_at(double magnitude, tn_dtype dtype)
{
    int exponent;
    frexp(magnitude, &exponent);
    return ldexp(1, exponent - (dtype == TN_F16    ? 11
                                : dtype == TN_BF16 ? 8
                                                   : 24));
}

/* Returns the largest distance between elements of x and exact that are finite
 * in both. Stores the largest magnitude of exact in *most. */
static double farthest(const double *x, const double *exact, int64_t count,
                       double *most)
{
    double far = 0;
    *most = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i]) && isfinite(exact[i])) {
            far = fmax(far, fabs(x[i] - exact[i]));
            *most = fmax(*most, fabs(exact[i]));
        }
    return far;
}

/* Returns the largest change of elements of wide, the exact result, when inputs
 * change by a rounding error. */
static double farthest_moved(tn_tensor *const *nudged, int nudges,
                             tn_tensor *wide, const double *exact)
{
    double far = 0, most;
    for (int k = 0; k < nudges; k++) {
        double *x = nudged[k] && same_shape(nudged[k], wide)
                        ? values(tn_detach(nudged[k]), TN_F64)
                        : NULL;
        if (x)
            far = fmax(far, farthest(x, exact, tn_tensor_numel(wide), &most));
        free(x);
    }
    return far;
}

/* Compares an element with the exact one, because it is not within the
 * tolerance of PyTorch's element. allowed: the largest allowed distance for
 * float32; unsure: that for a half type, if the rounding of its inputs matters
 * more than two steps. */
static bool is_beside(double got, double exact, tn_dtype dtype,
                      tolerance within, double allowed, double unsure,
                      double most)
{
    if (tn_dtype_bytes(dtype) < 4 || !isfinite(got) || !isfinite(exact))
        return near_rounded(got, exact, dtype, most) ||
               values_equal(got, exact, tolerance_for("sum", TN_F32)) ||
               fabs(got - exact) <= unsure;
    return fabs(got - exact) <= allowed || values_equal(got, exact, within);
}

double golden_greatest(tn_tensor *x)
{
    int64_t count = tn_tensor_numel(x);
    double most = 0, *value = values(tn_detach(x), TN_F64);
    for (int64_t i = 0; value && i < count; i++)
        most = isfinite(value[i]) ? fmax(most, fabs(value[i])) : most;
    free(value);
    return most;
}

/* PyTorch computes in the narrow dtype and rounds after each step, so its
 * result may be several steps away from the float64 result. (A step is the
 * spacing of the dtype's numbers at the largest magnitude of inputs and
 * outputs.) An element of our result that is not within the tolerance of
 * PyTorch's element is therefore compared with the float64 result. `moved` is
 * the largest change of the float64 result when its inputs are rounded once
 * more.
 *
 * An element of a half type passes if it is within two steps of the float64
 * element, or within float32's tolerance of it, or no farther from it than both
 * `moved` and PyTorch's farthest element.
 *
 * An element of float32 (or of float64, if another input is narrower) passes if
 * it is within the tolerance of the float64 element, or no farther from it than
 * twice PyTorch's farthest element, or no farther than `moved`, up to 64 steps.
 *
 * If PyTorch's result is more than 64 steps and more than 16 times `moved`
 * away, this is no rounding error, and the sample fails unless looser.def lists
 * the operator. */
bool golden_beside(const char *op, tn_tensor *got, tn_tensor *want,
                   tn_tensor *wide, tn_tensor *const *nudged, int nudges,
                   double greatest, char *text, size_t room)
{
    if (!got || !want || !wide || !same_shape(got, wide) ||
        !same_shape(want, wide) ||
        tn_tensor_dtype(got) != tn_tensor_dtype(want)) {
        snprintf(text, room, "%s",
                 tn_error() ? tn_error() : "another shape or dtype");
        return false;
    }
    tn_dtype dtype = tn_tensor_dtype(got);
    tolerance within = tolerance_for(op, dtype);
    int64_t count = tn_tensor_numel(wide);
    double *g = values(got, TN_F64), *w = values(want, TN_F64),
           *exact = values(wide, TN_F64), most = 0;
    bool near = g && w && exact;
    double theirs = near ? farthest(w, exact, count, &most) : 0;
    double most_steps = 64 * step_at(fmax(most, greatest), dtype);
    double moved = near ? farthest_moved(nudged, nudges, wide, exact) : 0;
    if (near && !is_far(op) && theirs > fmax(most_steps, 16 * moved)) {
        snprintf(text, room, "PyTorch's farthest element is %.3g from that in "
                 "float64, where the greatest is %.9g and rounded inputs move "
                 "it by %.3g", theirs, most, moved);
        near = false;
    }
    double allowed = fmax(2 * theirs, fmin(moved, most_steps));
    for (int64_t i = 0; near && i < count; i++) {
        near = values_equal(g[i], w[i], within) ||
               is_beside(g[i], exact[i], dtype, within, allowed,
                         fmin(theirs, moved), most);
        if (!near)
            snprintf(text, room,
                     "element %lld is %.9g, in float64 %.9g, from which "
                     "PyTorch's farthest element is %.3g away and rounded "
                     "inputs move it by %.3g",
                     (long long)i, g[i], exact[i], theirs, moved);
    }
    free(g);
    free(w);
    free(exact);
    return near;
}

bool golden_is_narrow(const tn_tensor *x)
{
    return tn_dtype_is_floating(tn_tensor_dtype(x)) &&
           tn_tensor_dtype(x) != TN_F64;
}

tn_tensor *golden_widened(tn_tensor *x)
{
    return golden_is_narrow(x) ? tn_to_dtype(tn_detach(x), TN_F64) : x;
}

tn_tensor *golden_nudged(tn_tensor *x)
{
    static uint64_t state = 1;
    if (!golden_is_narrow(x))
        return x;
    tn_dtype dtype = tn_tensor_dtype(x);
    double by = ldexp(1, dtype == TN_F16 ? -11 : dtype == TN_BF16 ? -8 : -24);
    double *value = values(tn_detach(x), TN_F64);
    if (!value)
        return NULL;
    for (int64_t i = 0; i < tn_tensor_numel(x); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        value[i] *= state >> 63 ? 1 + by : 1 - by;
    }
    tn_dims_list shape = {tn_tensor_ndim(x), {0}};
    for (int d = 0; d < shape.count; d++)
        shape.dim[d] = tn_tensor_shape(x)[d];
    tn_tensor *out = tn_tensor_from_array(value, TN_F64, shape);
    free(value);
    return out;
}
