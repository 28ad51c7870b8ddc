/* fourier.c: Fourier transforms of real tensors (PyTorch's fft.rfft, fft.irfft
 * and stft).
 *
 * A transform of length n = r1 * r2 * ... is one matrix product for each factor
 * (radix) r, with the r x r matrix of the roots of unity. Between two products,
 * the numbers are multiplied by the twiddle factors. So a transform uses only
 * matrix products, kernels and copies, which every device has. If n has a prime
 * factor above MOST_RADIX, Bluestein's algorithm gives the transform as a
 * convolution.
 *
 * Complex tensors have the shape (..., 2, m): the real parts are before the
 * imaginary parts. So kernels and products read long contiguous rows. */
#include <base/memory.h>
#include <math.h>
#include <ops/engine/native.h>
#include <stdarg.h>

/* Above MOST_RADIX, a product with this radix takes more time than Bluestein's
 * algorithm. Up to about GOOD_RADIX, one product takes less time than several
 * products with smaller radices. */
enum { MOST_RADIX = 128, GOOD_RADIX = 64 };

/* Returns x with the `count` sizes that follow, each of type int64_t. */
static __attribute__((noinline)) tn_tensor *shaped(tn_tensor *x, int count, ...)
{
    tn_dims_list list = {.count = count};
    va_list dims;
    va_start(dims, count);
    for (int d = 0; d < count; d++)
        list.dim[d] = va_arg(dims, int64_t);
    va_end(dims);
    return tn_reshape(x, list);
}

/* Adds `before` zeros at the beginning of the last dimension of x. Then
 * truncates or zero-pads the dimension to `size` elements. */
static __attribute__((noinline)) tn_tensor *padded(tn_tensor *x, int64_t before,
                                                   int64_t size)
{
    int64_t more = x ? size - before - x->shape[x->ndim - 1] : 0;
    return before || more ? tn_constant_pad_nd(x, tn_dims(before, more), 0) : x;
}

/* ---- tables -------------------------------------------------------------- */

/* Returns the n pairs exp(-2 pi i k / n) or, with back, their conjugates. The
 * caller frees them. Angles are reduced to an eighth of a turn, so that the
 * roots 1, -i, -1 and i are exact. */
static double *roots(int64_t n, bool back)
{
    double *root = tn__alloc_many(n, 2 * sizeof *root);
    for (int64_t k = 0; root && k < n; k++) {
        int64_t quarter = (4 * k + n / 2) / n;
        double angle = acos(0) * (double)(4 * k - quarter * n) / (double)n;
        double re = cos(angle), im = -sin(angle);
        for (; quarter > 0; quarter--) {
            double was = re;
            re = im;
            im = -was;
        }
        root[2 * k] = re;
        root[2 * k + 1] = back ? -im : im;
    }
    return root;
}

/* Frees the table, and returns its `count` numbers as a tensor with the dtype
 * and device of x. Returns NULL if table or x is NULL. */
static tn_tensor *uploaded(double *table, int64_t count, const tn_tensor *x)
{
    if (!table || !x) {
        tn__free(table);
        return NULL;
    }
    float *narrow = (float *)table;
    for (int64_t k = 0; k < count && x->dtype == TN_F32; k++)
        narrow[k] = (float)table[k];
    tn_tensor *out = tn__number_table(table, x->dtype, x->dtype, tn_dims(count),
                                      x->storage->device);
    tn__free(table);
    return out;
}

/* Makes the matrix of a short transform of length r, by which rows are
 * multiplied. A row has `planes` planes, the real parts and then the imaginary
 * parts, of `in` numbers each. The other r - in numbers of a plane are 0 and
 * not stored. The product has the first `out` frequencies: pairs if parts is 2,
 * real parts if it is 1. root[] has the roots of unity: pair k * step is root k
 * of order r. */
static tn_tensor *roots_matrix(const double *root, int64_t step, int64_t r,
                               int64_t planes, int64_t in, int64_t out,
                               int64_t parts, const tn_tensor *x)
{
    const int64_t rows = planes * in, columns = out * parts;
    double *table = tn__alloc_many(rows * columns, sizeof *table);
    for (int64_t i = 0; table && i < rows * columns; i++) {
        int64_t row = i / columns, column = i % columns, part = column % parts;
        const double *w =
            root + row % in * (column / parts) % r * step * 2;
        table[i] = row < in ? w[part] : part ? w[0] : -w[1];
    }
    return shaped(uploaded(table, rows * columns, x), 2, rows, columns);
}

/* ---- transforms ---------------------------------------------------------- */

/* Returns the complex product of z and f, which are broadcast. */
static tn_tensor *product(tn_tensor *z, tn_tensor *f)
{
    static tn__formula text = TN__FORMULA(
        "dft(a, b, c, d) = (a * c - b * d, a * d + b * c)");
    tn_tensor *in[] = {tn_select(z, -2, 0), tn_select(z, -2, 1),
                       tn_select(f, -2, 0), tn_select(f, -2, 1)};
    if (!in[1] || !in[3])
        return NULL;
    const tn_dtype type = z->dtype, dtype[] = {type, type, type, type};
    const tn__kernel *kernel = tn__formula_kernel(&text, dtype);
    return kernel && tn__apply_kernel(kernel, in, NULL, NULL, 0,
                                      tn__op_outer("dft"), in) >= 0
               ? tn_stack(in, 2, -2)
               : NULL;
}

/* Returns the first radix for the length n, or 0 if no factor is at most
 * MOST_RADIX. Computes the smallest number of products m, and returns the
 * divisor nearest to the m-th root of n. */
static int64_t first_radix(int64_t n)
{
    double products = ceil(log((double)n) / log(GOOD_RADIX));
    double aim = pow((double)n, 1 / products), nearest = INFINITY;
    int64_t radix = 0;
    for (int64_t d = 2; d <= MOST_RADIX; d++) {
        double ratio = (double)d > aim ? (double)d / aim : aim / (double)d;
        if (n % d == 0 && ratio < nearest) {
            nearest = ratio;
            radix = d;
        }
    }
    return radix;
}

static bool has_small_factors(int64_t n)
{
    while (n > 1) {
        int64_t r = first_radix(n);
        if (!r)
            return false;
        n /= r;
    }
    return true;
}

/* Returns the transforms of length n of z (rows, planes, elements). z has one
 * plane of real numbers, or two planes, the real and the imaginary parts. If a
 * plane has fewer than n elements, the missing ones are 0. If back is true, the
 * exponents are positive. The result is (rows, parts, n), where parts is 2, or
 * 1 for the real parts alone. If half is true, only the first frequencies, at
 * least n / 2 + 1, are computed.
 *
 * Element q + left * p of a row is z[.., p, q]. The product over p gives z[..,
 * t, 2, q], where q is an element of the transforms of length `left` of the
 * rows t. At the end, frequency t1 + r1 * (t2 + r2 * ...) is z[row, t1, t2,
 * ..]. */
static tn_tensor *dft(tn_tensor *z, int64_t n, bool back, bool half,
                      int64_t parts)
{
    if (!z)
        return NULL;
    const int64_t rows = z->shape[0];
    double *root = roots(n, back), *table;
    if (!root)
        return NULL;
    tn_dims_list size = {.count = 1, .dim = {rows}}, order = {.count = 1};
    int64_t many = rows, left = n, count = n;
    do {
        const int64_t r = left > 1 ? first_radix(left) : 1;
        const int64_t step = n / left, planes = z->shape[1];
        left /= r;
        const int64_t in = (z->shape[2] + left - 1) / left;
        const int64_t out = half && left == 1 ? r / 2 + 1 : r;
        tn_tensor *w = roots_matrix(root, n / r, r, planes, in, out,
                                    left > 1 ? 2 : parts, z);
        z = padded(z, 0, in * left);
        size.dim[size.count++] = out;
        if (left == 1) {
            count = n / r * out;
            z = tn_matmul(shaped(z, 2, many, planes * in), w);
            break;
        }
        z = tn_matmul(tn_transpose(w, 0, 1),
                      shaped(z, 3, many, planes * in, left));
        table = tn__alloc_many(r * left, 2 * sizeof *table);
        for (int64_t i = 0; table && i < 2 * r * left; i++)
            table[i] = root[i / (2 * left) * (i % left) * step * 2 +
                            i / left % 2];
        z = product(shaped(z, 4, many, r, (int64_t)2, left),
                    shaped(uploaded(table, 2 * r * left, w), 3, r, (int64_t)2,
                           left));
        many *= r;
        z = shaped(z, 3, many, (int64_t)2, left);
    } while (z && size.count < TN_MAX_NDIM);
    tn__free(root);
    const int last = size.count;
    size.dim[size.count++] = parts;
    order.dim[last] = last;
    for (order.count = 1; order.count < last; order.count++)
        order.dim[order.count] = last - order.count;
    order.count++;
    z = tn_permute(tn_reshape(z, size), order);
    return tn_transpose(shaped(z, 3, rows, count, parts), 1, 2);
}

/* Makes the chirp c[j] = exp(-pi i j^2 / n). With `size`, makes the filter of
 * this size instead, with conj(c[j]) / size at j and at size - j. */
static tn_tensor *chirp(int64_t n, int64_t size, bool back, const tn_tensor *x)
{
    const int64_t room = size ? size : n;
    double *root = roots(2 * n, back != !!size);
    double *table = tn__calloc((size_t)room, 2 * sizeof *table);
    if (!root || !table) {
        tn__free(root);
        tn__free(table);
        return NULL;
    }
    int64_t square = 0; /* j * j modulo 2 * n */
    for (int64_t j = 0; j < n; j++) {
        for (int part = 0; part < 2; part++) {
            double *at = table + part * room;
            at[j] = root[2 * square + part] / (size ? (double)size : 1);
            if (size && j)
                at[size - j] = at[j];
        }
        square = (square + 2 * j + 1) % (2 * n);
    }
    tn__free(root);
    return shaped(uploaded(table, 2 * room, x), 3, (int64_t)1, (int64_t)2,
                  room);
}

/* Computes the transform of z (rows, 2, n) by a convolution with the chirp,
 * since j * k = (j^2 + k^2 - (k - j)^2) / 2: Bluestein, "A linear filtering
 * approach to the computation of discrete Fourier transform", 1970. */
static tn_tensor *by_convolution(tn_tensor *z, int64_t n, bool back)
{
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    tn_tensor *c = chirp(n, 0, back, z);
    tn_tensor *filter = dft(chirp(n, m, back, z), m, false, false, 2);
    z = dft(padded(product(z, c), 0, m), m, false, false, 2);
    z = dft(product(z, filter), m, true, false, 2);
    return product(tn_narrow(z, 2, 0, n), c);
}

/* Transforms x (rows, 1, n) to (rows, bins, 2). If back is true, transforms x
 * (rows, 2, bins) to (rows, n). */
static tn_tensor *transform(tn_tensor *x, int64_t n, int64_t bins, bool back)
{
    if (has_small_factors(n)) {
        x = dft(x, n, back, !back && bins < n, 2 - back);
    } else {
        x = padded(x, 0, back ? n : 2 * n);
        x = x ? by_convolution(shaped(x, 3, x->shape[0], (int64_t)2, n), n,
                               back)
              : NULL;
    }
    return tn_contiguous(back ? tn_select(x, 1, 0)
                              : tn_transpose(tn_narrow(x, 2, 0, bins), 1, 2));
}

tn_status tn__run_dft_real(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_DFT_REAL_INPUT);
    const int64_t n = tn__call_int(call, TN__ARG_DFT_REAL_N);
    const int64_t bins = tn__call_int(call, TN__ARG_DFT_REAL_BINS);
    const bool back = tn__call_int(call, TN__ARG_DFT_REAL_BACK);
    const int lead = x->ndim - 1 - back;
    char text[TN__SHAPE_TEXT];
    if (n < 1 || (bins != n && bins != n / 2 + 1) || lead < 0 ||
        x->shape[x->ndim - 1] != (back ? bins : n) ||
        (back && x->shape[lead] != 2) ||
        (x->dtype != TN_F32 && x->dtype != TN_F64))
        return tn__fail(TN_ERR_DTYPE, "%s: {input} is %s of shape %s; expected "
                        "float32 or float64, and {n} %lld elements",
                        tn__op_outer("dft"), tn_dtype_name(x->dtype),
                        tn__shape_text(text, x->ndim, x->shape), (long long)n);
    tn_dims_list shape = {.count = lead, .dim = {0}};
    int64_t rows = 1;
    for (int d = 0; d < lead; d++)
        rows *= shape.dim[d] = x->shape[d];
    if (!back) {
        shape.dim[shape.count++] = bins;
        shape.dim[shape.count++] = 2;
    } else {
        shape.dim[shape.count++] = n;
    }
    tn_scope *scope = tn_scope_open();
    /* A view may have more elements than fit in memory. tn_contiguous reports
     * this before a transform begins. */
    x = shaped(tn_contiguous(x), 3, rows, (int64_t)(1 + back), back ? bins : n);
    x = rows ? transform(x, n, bins, back) : x;
    x = tn_reshape(x, shape);
    if (!back)
        x = tn_transpose(x, lead, lead + 1);
    x = scope ? tn__ref(x) : NULL;
    tn_scope_close(scope);
    return tn__give(call, x);
}

/* ---- operators ----------------------------------------------------------- */

/* Calls the operator dft_real. */
static tn_tensor *dft_real(tn_tensor *x, int64_t n, int64_t bins, bool back)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_int(n),
                              tn__value_int(bins), tn__value_bool(back)};
    return x ? tn__row(TN__OP_ID_DFT_REAL, value, 4) : NULL;
}

/* Returns the first `bins` frequencies of the rows of x (..., n), multiplied by
 * scale, as pairs. */
static tn_tensor *frequencies(tn_tensor *x, int64_t n, int64_t bins,
                              double scale)
{
    x = dft_real(x, n, bins, false);
    return tn_transpose(scale == 1 ? x : tn_mul_scalar(x, scale), -2, -1);
}

/* Runs fft_rfft or, with back, fft_irfft, which have the same arguments. A bool
 * or integer tensor becomes float32. */
static tn_status along_dim(tn__call *call, bool back)
{
    enum { INPUT, N, DIM, NORM };
    tn_tensor *x = call->value[INPUT].of.tensor;
    const int last = x->ndim - 1 - back;
    const char norm = call->value[NORM].of.string[0];
    char text[TN__SHAPE_TEXT];
    if (last < 0 || (back && x->shape[last + 1] != 2))
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has shape %s; expected %s",
                        call->op->name, tn__shape_text(text, x->ndim, x->shape),
                        back ? "(..., size, 2), pairs of real and imaginary "
                               "parts" : "at least one dimension");
    const int dim = tn__call_dim(call, DIM, last + 1);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    const int64_t size = x->shape[dim];
    const int64_t n = tn__call_has(call, N) ? tn__call_int(call, N)
                      : back                ? 2 * (size - 1)
                                            : size;
    if (n < 1)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has %lld elements along "
                        "{dim} %d; pass {n}, the number of real elements",
                        call->op->name, (long long)size, dim);
    const int64_t bins = n / 2 + 1;
    const double scale = norm == 'o'                    ? 1 / sqrt((double)n)
                         : norm == (back ? 'b' : 'f') ? 1 / (double)n
                                                        : 1;
    if (!tn_dtype_is_floating(x->dtype))
        x = tn_to_dtype(x, TN_F32);
    x = tn_transpose(x, dim, last);
    if (back) {
        /* The input has only the frequencies 0 to n / 2. Each of them except 0
         * and n / 2 occurs a second time, as its conjugate, so its weight is
         * doubled. */
        x = padded(tn_transpose(x, -2, -1), 0, bins);
        double *weight = x ? tn__alloc_many(bins, sizeof *weight) : NULL;
        for (int64_t k = 0; weight && k < bins; k++)
            weight[k] = 2 * k % n ? 2 * scale : scale;
        x = dft_real(x ? tn_mul(x, uploaded(weight, bins, x)) : NULL, n, bins,
                     true);
    } else {
        x = frequencies(padded(x, 0, n), n, bins, scale);
    }
    return tn__give(call, tn_transpose(x, dim, last));
}

tn_status tn__run_fft_rfft(tn__call *call)
{
    return along_dim(call, false);
}

tn_status tn__run_fft_irfft(tn__call *call)
{
    return along_dim(call, true);
}

tn_status tn__run_stft(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_STFT_INPUT);
    tn_tensor *window = tn__call_tensor(call, TN__ARG_STFT_WINDOW);
    const int64_t n = tn__call_int(call, TN__ARG_STFT_N_FFT);
    const int64_t hop = tn__call_has(call, TN__ARG_STFT_HOP_LENGTH)
                            ? tn__call_int(call, TN__ARG_STFT_HOP_LENGTH)
                            : n / 4;
    const int64_t width = tn__call_has(call, TN__ARG_STFT_WIN_LENGTH)
                              ? tn__call_int(call, TN__ARG_STFT_WIN_LENGTH)
                              : n;
    const int64_t edge = tn__call_int(call, TN__ARG_STFT_CENTER) ? n / 2 : 0;
    const int64_t least = edge ? edge + 1 : n;
    const bool batched = x->ndim == 2;
    char text[TN__SHAPE_TEXT];
    if (hop < 1)
        return tn__fail(TN_ERR_ARGUMENT, "stft: the default of {hop_length}, "
                                         "{n_fft} %lld // 4, is 0; pass "
                                         "{hop_length}", (long long)n);
    if (x->ndim != 1 + batched || x->shape[batched] < least)
        return tn__fail(TN_ERR_SHAPE, "stft: {input} has shape %s; expected "
                        "(L) or (B, L) with L of at least %lld",
                        tn__shape_text(text, x->ndim, x->shape),
                        (long long)least);
    if (window && (window->ndim != 1 || window->shape[0] != width))
        return tn__fail(TN_ERR_SHAPE, "stft: {window} has shape %s; expected "
                        "(%lld)", tn__shape_text(text, window->ndim,
                                                 window->shape),
                        (long long)width);
    x = batched ? x : tn_unsqueeze(x, 0);
    if (edge)
        x = tn_pad(x, tn_dims(edge, edge),
                   .mode = call->value[TN__ARG_STFT_PAD_MODE].of.string);
    x = tn_unfold(x, 1, n, hop);
    if (width < n)
        window = padded(window ? window : tn_new_ones(x, tn_dims(width)),
                        (n - width) / 2, n);
    if (window || width < n)
        x = tn_mul(x, window);
    x = frequencies(x, n, tn__call_int(call, TN__ARG_STFT_ONESIDED) ? n / 2 + 1
                                                                    : n,
                    tn__call_int(call, TN__ARG_STFT_NORMALIZED)
                        ? 1 / sqrt((double)n) : 1);
    x = tn_transpose(x, 1, 2);
    return tn__give(call, batched ? x : tn_select(x, 0, 0));
}
