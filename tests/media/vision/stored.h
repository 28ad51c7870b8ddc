/* stored.h: results of torchvision and torchaudio, and inputs from a formula.
 *
 * A file of results is a gzipped sequence of records: a line "name dtype
 * sizes...", and the elements. stored.py writes it. The inputs of both sides
 * come from noise(), so that they need not be stored. */
#ifndef TN_TESTS_STORED_H
#define TN_TESTS_STORED_H

#include <tap.h>

#include <tenon/tenon.h>

static char *stored_data;
static size_t stored_bytes;

/* Reads tests/media/<path>. */
static inline void stored_open(const char *path)
{
    char full[4096];
    const char *top = getenv("top_srcdir");
    void *data;
    snprintf(full, sizeof full, "%s/tests/media/%s", top ? top : ".", path);
    if (tn_file_read(full, "stored", &data, &stored_bytes) < 0)
        bail_out("%s", tn_error());
    stored_data = data;
}

/* Returns the tensor of that name, on the current device. */
static inline tn_tensor *stored(const char *name)
{
    for (size_t at = 0; at < stored_bytes;) {
        char line[200], type[20], *end = memchr(stored_data + at, '\n',
                                                stored_bytes - at);
        if (!end || end - (stored_data + at) >= (long)sizeof line)
            break;
        const size_t length = (size_t)(end - (stored_data + at));
        memcpy(line, stored_data + at, length);
        line[length] = 0;
        char key[100];
        int used = 0;
        if (sscanf(line, "%99s %19s%n", key, type, &used) != 2)
            break;
        tn_dims_list shape = {0, {0}};
        int64_t numel = 1;
        for (char *p = line + used; *p; shape.count++) {
            shape.dim[shape.count] = strtoll(p, &p, 10);
            numel *= shape.dim[shape.count];
        }
        const tn_dtype dtype = tn_dtype_from_name(type);
        at += length + 1;
        if (strcmp(key, name) == 0)
            return tn_tensor_from_array(stored_data + at, dtype, shape);
        at += (size_t)numel * (size_t)tn_dtype_bytes(dtype);
    }
    bail_out("no stored result %s", name);
}

/* Number i of a sequence: low to high, in steps of 2^-24 of the range. */
static inline double noise_at(uint32_t i, uint32_t seed, double low,
                              double high)
{
    uint32_t x = i * 2654435761u + seed * 2246822519u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    x *= 3266489917u;
    x ^= x >> 16;
    return low + (high - low) * (x >> 8) / 16777216.0;
}

/* Returns a tensor of noise on the current device. */
static inline tn_tensor *noise(tn_dims_list shape, uint32_t seed, double low,
                               double high, tn_dtype dtype)
{
    int64_t n = 1;
    for (int d = 0; d < shape.count; d++)
        n *= shape.dim[d];
    double *x = malloc(((size_t)n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = noise_at((uint32_t)i, seed, low, high);
    tn_tensor *out = tn_to_dtype(tn_tensor_from_array(x, TN_F64, shape), dtype);
    free(x);
    return out;
}

/* Checks that x equals the stored tensor within tolerance * (|want| + mean
 * |want|); NaN equals NaN. */
static inline bool close_to(tn_tensor *x, tn_tensor *want, double tolerance,
                            const char *what)
{
    if (!x || !want) {
        ok(false, "%s", what);
        note("%s", tn_error() ? tn_error() : "no tensor, and no error");
        tn_error_clear();
        return false;
    }
    const int64_t n = tn_tensor_numel(want);
    bool same = tn_tensor_ndim(x) == tn_tensor_ndim(want);
    for (int d = 0; same && d < tn_tensor_ndim(x); d++)
        same = tn_tensor_size(x, d) == tn_tensor_size(want, d);
    if (!same) {
        ok(false, "%s", what);
        note("the shapes differ: %lld and %lld elements",
             (long long)tn_tensor_numel(x), (long long)n);
        return false;
    }
    double *a = malloc(((size_t)n + 1) * sizeof *a),
           *b = malloc(((size_t)n + 1) * sizeof *b), mean = 0, worst = 0;
    if (tn_tensor_to_array(tn_to_dtype(x, TN_F64), a, (size_t)n * 8) < 0 ||
        tn_tensor_to_array(tn_to_dtype(want, TN_F64), b, (size_t)n * 8) < 0)
        bail_out("%s", tn_error());
    int64_t count = 0, at = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(b[i])) {
            mean += fabs(b[i]);
            count++;
        }
    mean /= (double)(count ? count : 1);
    for (int64_t i = 0; i < n; i++) {
        const bool equal = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
        const double off = equal ? 0
                                 : fabs(a[i] - b[i]) / (fabs(b[i]) + mean);
        if (!(off <= worst)) {
            worst = isnan(off) ? INFINITY : off;
            at = i;
        }
    }
    const bool fine = ok(worst <= tolerance, "%s", what);
    if (!fine)
        note("element %lld is %.9g, want %.9g (%g relative)", (long long)at,
             a[at], b[at], worst);
    free(a);
    free(b);
    return fine;
}

/* Checks that the call failed with the code and a message that contains the
 * text, and clears the error. */
static inline bool refused(bool failed, tn_status code, const char *text,
                           const char *what)
{
    const bool fine = failed && tn_error() && tn_error_code() == code &&
                      strstr(tn_error(), text);
    ok(fine, "%s", what);
    if (!fine)
        note("%s %d: %s", failed ? "failed" : "succeeded", tn_error_code(),
             tn_error() ? tn_error() : "no error");
    tn_error_clear();
    return fine;
}

/* Returns the gradient of sum(y * weights) with respect to x. weights: noise
 * of seed 99. */
static inline tn_tensor *gradient(tn_tensor *y, tn_tensor *x)
{
    if (!y)
        return NULL;
    tn_tensor *grad = NULL;
    tn_dims_list shape = {tn_tensor_ndim(y), {0}};
    for (int d = 0; d < shape.count; d++)
        shape.dim[d] = tn_tensor_size(y, d);
    tn_tensor *w = noise(shape, 99, -1, 1, tn_tensor_dtype(y));
    if (tn_backward(tn_sum(tn_mul(y, w))) >= 0)
        grad = tn_tensor_grad(x);
    return grad;
}

#endif
