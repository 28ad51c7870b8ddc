/* signal.c: Fourier transforms, windows and mel filters. A complex tensor has a
 * last dimension of size 2, as the results of tn_fft_rfft have. */
#include <onnx/ops/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* ---- transforms ---------------------------------------------------------- */

/* Returns the spectrum of real frames (..., n): (..., rows, 2). The second half
 * of all n rows is the conjugate of the first half, reversed. */
static tn_tensor *spectrum(tn_tensor *x, int64_t rows)
{
    tn_tensor *half = tn_fft_rfft(x);
    const int64_t have = half ? tn_tensor_size(half, -2) : rows;
    if (rows <= have)
        return half;
    const int dim = tn_tensor_ndim(half) - 2;
    static const float signs[] = {1, -1};
    tn_tensor *sign =
        tn_to_dtype(tn_tensor_from_array(signs, TN_F32, tn_dims(2)),
                    tn_tensor_dtype(half));
    tn_tensor *rest = tn_mul(
        tn_flip(tn_narrow(half, dim, 1, rows - have), tn_dims(dim)), sign);
    return tn_cat((tn_tensor *[]){half, rest}, 2, dim);
}

/* Transforms frames (..., n) with a real part and an imaginary part, which is
 * NULL if it is 0. Returns (..., rows, 2). The transform F of re + i im is
 * F(re) + i F(im), and its inverse is the conjugate of F(re - i im) / n. */
static tn_tensor *transform(tn_tensor *re, tn_tensor *im, int64_t rows,
                            bool inverse)
{
    const int64_t n = tn_tensor_size(re, -1);
    tn_tensor *y = spectrum(re, rows);
    const int last = tn_tensor_ndim(re);
    if (im || inverse) {
        tn_tensor *other = im ? spectrum(im, rows) : NULL;
        tn_tensor *a = tn_select(y, last, 0), *b = tn_select(y, last, 1);
        if (inverse)
            b = tn_neg(b);
        if (im) {
            tn_tensor *p = tn_select(other, last, 0),
                      *q = tn_select(other, last, 1);
            a = inverse ? tn_add(a, q) : tn_sub(a, q);
            b = tn_add(b, p);
        }
        y = tn_stack((tn_tensor *[]){a, b}, 2, -1);
    }
    return inverse ? tn_div_scalar(y, (double)n) : y;
}

/* Makes the dimension have n elements: cuts it, or adds zeros at the end. */
static tn_tensor *fit(tn_tensor *x, int64_t n)
{
    const int64_t have = tn_tensor_size(x, -1);
    if (have > n)
        return tn_narrow(x, tn_tensor_ndim(x) - 1, 0, n);
    return have < n ? tn_pad(x, tn_dims(0, n - have)) : x;
}

/* DFT of x (batch, ..., 1 or 2) along an axis. With onesided, a real input
 * gives the first half of the result, and the inverse of a half is real (opset
 * 20). */
static void dft(tn__onnx_call *c, int64_t axis, bool inverse, bool onesided)
{
    tn_tensor *x = c->x[0];
    const int ndim = tn_tensor_ndim(x);
    int64_t length = 0;
    if (ndim < 2 ||
        (tn_tensor_size(x, -1) != 1 && tn_tensor_size(x, -1) != 2)) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "the last dimension of the input must have size 1 "
                        "(real) or 2 (complex)");
        return;
    }
    if (axis == -1 || axis == ndim - 1 ||
        (axis = tn__onnx_axis(c, axis, ndim)) < 0) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "axis must not be the last dimension, which has the "
                        "real and imaginary parts");
        return;
    }
    const int have_length = tn__onnx_ints(c, 1, &length, 1);
    if (have_length < 0)
        return;
    tn_tensor *re = tn_movedim(tn_select(x, ndim - 1, 0), tn_dims(axis),
                               tn_dims(-1));
    tn_tensor *im = tn_tensor_size(x, -1) == 2
                        ? tn_movedim(tn_select(x, ndim - 1, 1), tn_dims(axis),
                                     tn_dims(-1))
                        : NULL;
    const int64_t n = have_length ? length
                      : onesided && inverse ? 2 * (tn_tensor_size(re, -1) - 1)
                                            : tn_tensor_size(re, -1);
    if (n < 1) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "dft_length is %lld; it must be "
                        "positive",
                        (long long)n);
        return;
    }
    tn_tensor *y;
    if (onesided && inverse) {
        re = fit(re, n / 2 + 1);
        im = im ? fit(im, n / 2 + 1) : tn_zeros_like(re);
        y = tn_fft_irfft(tn_stack((tn_tensor *[]){re, im}, 2, -1), .n = n);
        y = tn_unsqueeze(y, -1);
    } else {
        y = transform(fit(re, n), im ? fit(im, n) : NULL,
                      onesided ? n / 2 + 1 : n, inverse);
    }
    c->y[0] = tn_movedim(y, tn_dims(-2), tn_dims(axis));
}

static void dft_17(tn__onnx_call *c)
{
    dft(c, tn__onnx_int(c, 0), tn__onnx_int(c, 1) != 0,
        tn__onnx_int(c, 2) != 0);
}
static void dft_20(tn__onnx_call *c)
{
    int64_t axis = -2;
    if (tn__onnx_ints(c, 2, &axis, 1) >= 0)
        dft(c, axis, tn__onnx_int(c, 0) != 0, tn__onnx_int(c, 1) != 0);
}

/* Cuts a signal into frames, multiplies them by a window, and transforms
 * them. */
static void stft(tn__onnx_call *c)
{
    tn_tensor *x = c->x[0], *window = tn__onnx_x(c, 2);
    int64_t step, length = 0;
    if (tn__onnx_ints(c, 1, &step, 1) != 1)
        return;
    const int given = tn__onnx_ints(c, 3, &length, 1);
    if (given < 0)
        return;
    if (!given)
        length = window ? tn_tensor_numel(window) : 0;
    const bool onesided = tn__onnx_int(c, 0) != 0;
    const bool is_complex =
        tn_tensor_ndim(x) == 3 && tn_tensor_size(x, -1) == 2;
    if (tn_tensor_ndim(x) == 2)
        x = tn_unsqueeze(x, 2);
    if (length < 1 || step < 1 || tn_tensor_ndim(x) != 3 ||
        tn_tensor_size(x, 1) < length ||
        (window && tn_tensor_numel(window) != length)) {
        tn__onnx_refuse(c, TN_ERR_SHAPE,
                        "frame_length is %lld and frame_step %lld; both must "
                        "be positive, the signal must have a frame, and the "
                        "window the length of a frame",
                        (long long)length, (long long)step);
        return;
    }
    tn_tensor *part[2] = {NULL};
    for (int i = 0; i < 1 + is_complex; i++) {
        part[i] = tn_unfold(tn_select(x, 2, i), 1, length, step);
        if (window)
            part[i] = tn_mul(part[i], window);
    }
    c->y[0] = transform(part[0], part[1],
                        onesided && !is_complex ? length / 2 + 1 : length,
                        false);
}

/* ---- windows ------------------------------------------------------------- */

/* Computes a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n). n is the size, or the
 * size minus 1 if `periodic` is 0. */
static void window(tn__onnx_call *c, double a0, double a1, double a2)
{
    int64_t size;
    const int64_t type = tn__onnx_int(c, 0);
    if (tn__onnx_ints(c, 0, &size, 1) != 1)
        return;
    const tn_dtype dtype =
        tn__onnx_type_of(type > 0 && type < 1000 ? (int)type : 0).dtype;
    if (!dtype || size < 0 || size > INT32_MAX) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "size is %lld and output_datatype %lld; the size must "
                        "be 0 to 2^31 - 1, and the dtype must be supported",
                        (long long)size, (long long)type);
        return;
    }
    if (!tn__onnx_may_make(c, tn_dims(size)) || !tn__onnx_fits(c, size))
        return;
    double *x = malloc(((size_t)size + 1) * sizeof *x);
    if (!x) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
        return;
    }
    const double n = (double)(tn__onnx_int(c, 1) ? size : size - 1);
    for (int64_t i = 0; i < size; i++) {
        const double angle = n > 0 ? 2 * pi * (double)i / n : 0;
        x[i] = a0 - a1 * cos(angle) + a2 * cos(2 * angle);
    }
    tn_tensor *y = tn_tensor_from_array(x, TN_F64, tn_dims(size));
    free(x);
    c->y[0] = tn_to_dtype(y, dtype);
    c->y_type[0] = (int)type;
}
static void blackman(tn__onnx_call *c) { window(c, 0.42, 0.5, 0.08); }
static void hann(tn__onnx_call *c) { window(c, 0.5, 0.5, 0); }
static void hamming(tn__onnx_call *c)
{
    window(c, 25.0 / 46.0, 1 - 25.0 / 46.0, 0);
}

/* Triangular filters between neighbouring frequencies of the mel scale. */
static void mel_weights(tn__onnx_call *c)
{
    int64_t bins, length, rate;
    double low, high;
    const int64_t type = tn__onnx_int(c, 0);
    const tn_dtype dtype =
        tn__onnx_type_of(type > 0 && type < 1000 ? (int)type : 0).dtype;
    if (tn__onnx_ints(c, 0, &bins, 1) != 1 ||
        tn__onnx_ints(c, 1, &length, 1) != 1 ||
        tn__onnx_ints(c, 2, &rate, 1) != 1 ||
        tn__onnx_floats(c, 3, &low, 1) != 1 ||
        tn__onnx_floats(c, 4, &high, 1) != 1)
        return;
    if (!dtype || bins < 1 || bins > 1 << 16 || length < 1 ||
        length > 1 << 24 || rate < 1 || bins * (length / 2 + 1) > 1 << 26) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "num_mel_bins is %lld, dft_length %lld and sample_rate "
                        "%lld; expected 1 to 2^16, 1 to 2^24 and at least 1, a "
                        "matrix of at most 2^26 elements, and a supported "
                        "output_datatype",
                        (long long)bins, (long long)length, (long long)rate);
        return;
    }
    const int64_t rows = length / 2 + 1;
    if (!tn__onnx_may_make(c, tn_dims(rows, bins)) ||
        !tn__onnx_fits(c, rows * bins))
        return;
    double *w = calloc((size_t)(rows * bins), sizeof *w);
    int64_t *edge = calloc((size_t)bins + 2, sizeof *edge);
    const double from = 2595 * log10(1 + low / 700),
                 to = 2595 * log10(1 + high / 700);
    for (int64_t i = 0; i < bins + 2 && edge; i++) {
        const double mel = from + (double)i * (to - from) / (double)(bins + 2);
        const double hertz = 700 * (pow(10, mel / 2595) - 1);
        edge[i] = (int64_t)floor((double)(length + 1) * hertz / (double)rate);
        edge[i] = edge[i] < 0 ? 0 : edge[i] > rows ? rows : edge[i];
    }
    for (int64_t i = 0; i < bins && w && edge; i++) {
        const int64_t a = edge[i], b = edge[i + 1], d = edge[i + 2];
        if (a == b && b < rows)
            w[b * bins + i] = 1;
        for (int64_t j = a; j <= b && a != b && j < rows; j++)
            w[j * bins + i] = (double)(j - a) / (double)(b - a);
        for (int64_t j = b; j < d && b != d; j++)
            w[j * bins + i] = (double)(d - j) / (double)(d - b);
    }
    if (w && edge)
        c->y[0] = tn_to_dtype(
            tn_tensor_from_array(w, TN_F64, tn_dims(rows, bins)), dtype);
    else
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
    c->y_type[0] = (int)type;
    free(w);
    free(edge);
}

/* ---- rows ---------------------------------------------------------------- */

#define WINDOW(label, function)                                                \
    {.name = label, .since = 17, .min_in = 1, .max_in = 1, .max_out = 1,       \
     .attributes = "output_datatype:int=1 periodic:int=1", .run = function,    \
     .host = 1}
static const tn__onnx_op rows[] = {
    {.name = "DFT", .since = 17, .until = 19, .min_in = 1, .max_in = 2,
     .max_out = 1, .attributes = "axis:int=1 inverse:int=0 onesided:int=0",
     .run = dft_17, .host = 2,
     .grows = true},
    {.name = "DFT", .since = 20, .min_in = 1, .max_in = 3, .max_out = 1,
     .attributes = "inverse:int=0 onesided:int=0", .run = dft_20, .host = 6,
     .grows = true},
    {.name = "STFT", .since = 17, .min_in = 2, .max_in = 4, .max_out = 1,
     .attributes = "onesided:int=1", .run = stft, .host = 10,
     .grows = true},
    WINDOW("BlackmanWindow", blackman),
    WINDOW("HannWindow", hann),
    WINDOW("HammingWindow", hamming),
    {.name = "MelWeightMatrix", .since = 17, .min_in = 5, .max_in = 5,
     .max_out = 1, .attributes = "output_datatype:int=1", .run = mel_weights,
     .host = 31},
};
const tn__onnx_family tn__onnx_signal = TN__ONNX_FAMILY(rows);
