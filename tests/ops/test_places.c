/* test_places.c: compares histograms, order statistics and sums along a
 * dimension with plain loops in float64, for every size up to some tens, with
 * odd sizes halved, values at edges of bins, windows beyond the border, and
 * strided elements. */
#include <math.h>
#include <string.h>
#include <tap.h>
#include <tenon/tenon.h>

enum { MOST = 2048 };

static int64_t read(tn_tensor *x, double *value)
{
    size_t bytes = x ? (size_t)tn_tensor_numel(x) * sizeof *value : 0;
    if (!x || tn_tensor_numel(x) > MOST ||
        tn_tensor_to_array(tn_to_dtype(tn_detach(x), TN_F64), value, bytes) < 0)
        return -1;
    return tn_tensor_numel(x);
}

/* Returns the first position at which x differs from want by more than
 * `within`, relative to want; -1 if there is none. */
static int64_t differs(tn_tensor *x, const double *want, int64_t count,
                       double within)
{
    static double got[MOST];
    if (read(x, got) != count)
        return count;
    for (int64_t i = 0; i < count; i++)
        if (!(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])) ||
              fabs(got[i] - want[i]) <= within * fabs(want[i])))
            return i;
    return -1;
}

static double some(int64_t i)
{
    return (double)(i * 7919 % 1009) / 37 - 12;
}

static tn_tensor *numbers(int64_t count, double step, tn_dtype dtype)
{
    double value[MOST];
    for (int64_t i = 0; i < count; i++)
        value[i] = some(i) + step * (double)i;
    return tn_to_dtype(tn_tensor_from_array(value, TN_F64, tn_dims(count)),
                       dtype);
}

/* ---- cumulative log-sum-exp ---------------------------------------------- */

static double log_add(double a, double b)
{
    double most = fmax(a, b);
    return isinf(most) ? most : most + log1p(exp(-fabs(a - b)));
}

/* step: difference of adjacent elements in a row. With a step of 50, exp
 * overflows. */
static void test_logcumsumexp(tn_dtype dtype, double step, double within)
{
    int64_t wrong = 0;
    for (int64_t size = 1; size <= 67; size++)
        for (int dim = 0; dim < 2; dim++) {
            double x[MOST], want[MOST];
            tn_tensor *rows = tn_reshape(numbers(3 * size, step, dtype),
                                         tn_dims(3, size));
            read(rows, x);
            for (int64_t i = 0; i < 3 * size; i++)
                want[i] = i % size ? log_add(want[i - 1], x[i]) : x[i];
            tn_tensor *y = dim ? tn_logcumsumexp(rows, 1)
                               : tn_t(tn_logcumsumexp(tn_t(rows), 0));
            wrong += differs(y, want, 3 * size, within) >= 0;
        }
    ok(wrong == 0, "logcumsumexp in %s, rising by %g: sizes 1 to 67",
       tn_dtype_name(dtype), step);
}

/* ---- positions of nonzero elements --------------------------------------- */

static void test_nonzero(tn_dtype dtype)
{
    int64_t wrong = 0;
    for (int64_t rows = 0; rows <= 9; rows++)
        for (int64_t columns = 1; columns <= 9; columns++) {
            double want[MOST] = {0};
            int64_t count = 0, all = rows * columns;
            tn_tensor *x = tn_to_dtype(
                tn_lt_scalar(tn_reshape(numbers(all, 0, TN_F32),
                                        tn_dims(rows, columns)), 2), dtype);
            for (int64_t j = 0; j < columns; j++)
                for (int64_t i = 0; i < rows; i++)
                    if (some(i * columns + j) < 2) {
                        want[count++] = (double)j;
                        want[count++] = (double)i;
                    }
            wrong += differs(tn_argwhere(tn_t(x)), want, count, 0) >= 0;
            /* fewer rows than requested, and more */
            int64_t some_rows = count / 4, more = count / 2 + 2;
            wrong += differs(tn_nonzero_static(tn_t(x), some_rows), want,
                             2 * some_rows, 0) >= 0;
            for (int64_t i = count; i < 2 * more; i++)
                want[i] = -7;
            wrong += differs(tn_nonzero_static(tn_t(x), more, .fill_value = -7),
                             want, 2 * more, 0) >= 0;
        }
    ok(wrong == 0, "nonzero of turned matrices of %s, whole and in part",
       tn_dtype_name(dtype));
}

/* Lists about as long as the rows in which ranks are counted. None, all, some,
 * or only the last elements are nonzero. */
static void test_long_lists(void)
{
    static const int64_t sizes[] = {0, 1, 2, 1023, 1024, 1025, 2047, 2048};
    int64_t wrong = 0;
    for (size_t k = 0; k < 4 * (sizeof sizes / sizeof *sizes); k++) {
        static double mask[MOST], want[MOST + 2], part[MOST];
        int64_t size = sizes[k / 4], count = 0;
        for (int64_t i = 0; i < size; i++) {
            mask[i] = k % 4 == 0 ? 0 : k % 4 == 1 ? 1
                      : k % 4 == 2 ? i == size - 1 : some(i) < 2;
            part[i] = -some(i);
            if (mask[i] != 0)
                want[count++] = (double)i;
        }
        tn_tensor *x = tn_tensor_from_array(mask, TN_F64, tn_dims(size));
        tn_tensor *is = tn_ne_scalar(x, 0);
        tn_tensor *some_of =
            tn_tensor_from_array(part, TN_F64, tn_dims(size));
        want[count] = want[count + 1] = -1;
        wrong += differs(tn_reshape(tn_argwhere(is), tn_dims(-1)), want, count,
                         0) >= 0;
        if (count + 2 <= MOST)
            wrong += differs(tn_reshape(tn_nonzero_static(is, count + 2),
                                        tn_dims(-1)),
                             want, count + 2, 0) >= 0;
        for (int64_t i = 0, from = 0; i < size; i++)
            want[i] = mask[i] != 0 ? part[from++] : mask[i];
        wrong += differs(tn_masked_scatter(x, is, some_of), want, size, 0) >= 0;
    }
    ok(wrong == 0, "argwhere, nonzero_static and masked_scatter of long lists: "
                   "%d", (int)wrong);
}

/* ---- histograms ---------------------------------------------------------- */

/* Here the steps of histc are separate operators, each of which rounds to the
 * dtype. */
static void test_histc(tn_dtype dtype)
{
    static const double edges[] = {-4, -1, -.75, -.5, 0, .25, .5, .75, 1.5, 2,
                                   2.25, 1.9999, 2.0001, 99, INFINITY,
                                   -INFINITY, NAN};
    int64_t wrong = 0, count = 300 + sizeof edges / sizeof *edges;
    tn_tensor *part[] = {
        tn_tensor_from_array(edges, TN_F64, tn_dims(count - 300)),
        tn_div_scalar(numbers(300, 0, TN_F64), 7.3)};
    tn_tensor *x = tn_to_dtype(tn_cat(part, 2, 0), dtype);
    double v[MOST], at[MOST];
    read(x, v);
    for (int64_t bins = 1; bins <= 130; bins++) {
        double want[MOST] = {0};
        read(tn_div_scalar(tn_mul_scalar(tn_add_scalar(x, 1), bins), 3), at);
        for (int64_t i = 0; i < count; i++)
            if (v[i] >= -1 && v[i] <= 2)
                want[at[i] < (double)bins ? (int64_t)at[i] : bins - 1]++;
        wrong += differs(tn_histc(x, .bins = bins, .min = -1, .max = 2), want,
                         bins, 0) >= 0;
    }
    ok(wrong == 0, "histc of %s: 1 to 130 bins, edges and values outside",
       tn_dtype_name(dtype));
}

/* ---- pooling windows along a line ---------------------------------------- */

static int64_t windows_of(int64_t size, int64_t kernel, int64_t stride,
                          int64_t pad, int64_t dilation, bool up)
{
    int64_t room = size + 2 * pad - dilation * (kernel - 1) - 1;
    int64_t count = (room + (up ? stride - 1 : 0)) / stride + 1;
    return count - (up && (count - 1) * stride >= size + pad);
}

/* unseen: incremented if a window contains no element, so that there is no
 * maximum. */
static bool pools(int64_t size, int64_t kernel, int64_t stride, int64_t pad,
                  int64_t dilation, bool up, int64_t *unseen)
{
    double x[MOST], want[MOST], at[MOST], back[MOST] = {0};
    tn_tensor *line = tn_requires_grad(tn_detach(
        tn_reshape(numbers(2 * size, 0, TN_F32), tn_dims(1, 2, size))));
    read(line, x);
    int64_t count = windows_of(size, kernel, stride, pad, dilation, up);
    for (int64_t i = 0; i < 2 * count; i++) {
        int64_t row = i / count, first = i % count * stride - pad;
        want[i] = -INFINITY;
        for (int64_t k = first; k <= first + (kernel - 1) * dilation;
             k += dilation)
            if (k >= 0 && k < size && x[row * size + k] > want[i]) {
                want[i] = x[row * size + k];
                at[i] = (double)k;
            }
        if (isinf(want[i])) {
            (*unseen)++;
            return true;
        }
        back[row * size + (int64_t)at[i]] += (double)(i + 1);
    }
    tn_tensor *index = NULL;
    tn_tensor *y = tn_max_pool1d_with_indices(
        line, tn_dims(kernel), &index, .stride = stride, .padding = pad,
        .dilation = dilation, .ceil_mode = up);
    tn_tensor *g = NULL;
    if (y)
        tn_grad(y, &line, 1, &g,
                .gradient = tn_reshape_as(
                    tn_arange(1, (double)(2 * count + 1), 1), y));
    return differs(y, want, 2 * count, 0) < 0 &&
           differs(index, at, 2 * count, 0) < 0 &&
           differs(g, back, 2 * size, 0) < 0;
}

static void test_max_pool1d(void)
{
    int64_t wrong = 0, calls = 0, unseen = 0;
    for (int64_t size = 1; size <= 23; size++)
        for (int64_t kernel = 1; kernel <= 5; kernel++)
            for (int64_t stride = 1; stride <= 3; stride++)
                for (int64_t pad = 0; pad <= kernel / 2; pad++)
                    for (int64_t dilation = 1; dilation <= 2; dilation++) {
                        if (dilation * (kernel - 1) + 1 > size + 2 * pad)
                            continue;
                        tn_scope *scope = tn_scope_open();
                        wrong += !pools(size, kernel, stride, pad, dilation,
                                        calls % 2, &unseen);
                        calls++;
                        tn_error_clear();
                        tn_scope_close(scope);
                    }
    note("%lld ways with a window of padding alone are not compared",
         (long long)unseen);
    ok(wrong == 0 && calls > 500 && unseen < 10,
       "max_pool1d, its indices and its gradient: %lld ways",
       (long long)(calls - unseen));
}

/* ---- strided elements ---------------------------------------------------- */

static void test_strides(tn_dtype dtype)
{
    size_t element = tn_dtype_bytes(dtype);
    unsigned char bytes[64 * 8], got[64 * 8], want[64 * 8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(dtype == TN_BOOL ? i % 3 == 0 : i * 37 + 1);
    tn_tensor *flat = tn_tensor_from_array(bytes, dtype, tn_dims(64));
    const int64_t shape[] = {3, 2, 4}, stride[] = {2, 29, 7};
    tn_tensor *view = tn_as_strided(flat, tn_dims(3, 2, 4), tn_dims(2, 29, 7),
                                    .storage_offset = 5);
    unsigned char *to = want;
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t j = 0; j < shape[1]; j++)
            for (int64_t k = 0; k < shape[2]; k++, to += element)
                memcpy(to, bytes + element * (size_t)(5 + i * stride[0] +
                                                      j * stride[1] +
                                                      k * stride[2]), element);
    bool same = tn_tensor_to_array(view, got, 24 * element) >= 0 &&
                memcmp(got, want, 24 * element) == 0;
    /* written back in reverse order, and read again */
    for (size_t i = 0; i < 24; i++)
        memcpy(got + i * element, want + (23 - i) * element, element);
    same = same && tn_tensor_set_array(view, got, 24 * element) >= 0 &&
           tn_tensor_to_array(view, want, 24 * element) >= 0 &&
           memcmp(got, want, 24 * element) == 0;
    /* elements outside the view do not change */
    unsigned char after[64 * 8];
    same = same && tn_tensor_to_array(flat, after, 64 * element) >= 0;
    for (int64_t i = 0; i < 64 && same; i++) {
        bool seen = false;
        for (int64_t k = 0; k < 24; k++)
            seen = seen || i == 5 + k / 8 * 2 + k / 4 % 2 * 29 + k % 4 * 7;
        same = seen || memcmp(after + (size_t)i * element,
                              bytes + (size_t)i * element, element) == 0;
    }
    ok(same, "strided elements of %s, read and written", tn_dtype_name(dtype));
}

/* ---- consecutive indices ------------------------------------------------- */

/* Selects rows of x by a list of indices with long and short runs of
 * consecutive indices, of every length. Rows of x are contiguous, have a stride
 * of 2, or negative strides. */
static void test_runs(tn_dtype dtype)
{
    enum { ROWS = 17, WIDTH = 60 };
    int64_t wrong = 0;
    tn_tensor *flat = tn_reshape(numbers(ROWS * WIDTH, 0, dtype),
                                 tn_dims(ROWS, WIDTH));
    tn_tensor *const from[] = {
        flat, tn_slice(flat, 1, 0, WIDTH, 2),
        tn_flip(tn_narrow(flat, 1, 3, 50), tn_dims(1))};
    static double all[MOST];
    for (int k = 0; k < 3; k++) {
        const int64_t width = tn_tensor_shape(from[k])[1];
        if (read(tn_contiguous(from[k]), all) != ROWS * width)
            wrong++;
        for (int64_t length = 1; length <= width; length++) {
            int64_t index[100], count = 0;
            for (int64_t at = 0; count < 90; at = (at * 31 + 17) % width) {
                index[count++] = at;
                for (int64_t i = 0; i < length && count < 90 && i < width; i++)
                    index[count++] = i;
            }
            double want[ROWS * 100];
            for (int64_t i = 0; i < ROWS * count; i++)
                want[i] = all[i / count * width + index[i % count]];
            tn_tensor *at = tn_tensor_from_array(index, TN_I64, tn_dims(count));
            wrong += differs(tn_index_select(from[k], 1, at), want,
                             ROWS * count, 0) >= 0;
        }
    }
    ok(wrong == 0, "rows of %s by one list of indices: %d wrong",
       tn_dtype_name(dtype), (int)wrong);
}

/* Tests negative indices into a dimension with more elements than the index
 * dtype can count. */
static void test_from_end(void)
{
    tn_tensor *last = tn_to_dtype(tn_full(tn_dims(1), -1), TN_I8);
    double value = 299;
    is_int(differs(tn_take(tn_arange(0, 300, 1), last), &value, 1, 0), -1,
           "the last of 300 elements by an int8");
}

/* ---- unique numbers ------------------------------------------------------ */

static bool holds(tn_tensor *x, const int64_t *want, int64_t count)
{
    int64_t got[MOST];
    return x && tn_tensor_numel(x) == count &&
           tn_tensor_to_array(tn_to_dtype(x, TN_I64), got,
                              (size_t)count * sizeof *got) >= 0 &&
           memcmp(got, want, (size_t)count * sizeof *got) == 0;
}

/* Tests the numbers low, low + step, ...; each list lacks a different one.
 * Dense numbers are counted, others are sorted. */
static void test_unique(tn_dtype dtype, int64_t low, uint64_t step)
{
    enum { KINDS = 29 };
    int64_t wrong = 0;
    for (int64_t count = 1; count < 200; count += 9) {
        int64_t value[200], there[KINDS], group[200], times[KINDS] = {0};
        int64_t rank[KINDS], kinds = 0;
        for (int64_t i = 0; i < count; i++) {
            group[i] = i * 11 % KINDS == count % KINDS ? 3 : i * 11 % KINDS;
            times[group[i]]++;
            value[i] = (int64_t)((uint64_t)low + (uint64_t)group[i] * step);
        }
        for (int64_t k = 0; k < KINDS; k++) {
            rank[k] = kinds;
            if (times[k] == 0)
                continue;
            there[kinds] = (int64_t)((uint64_t)low + (uint64_t)k * step);
            times[kinds++] = times[k];
        }
        for (int64_t i = 0; i < count; i++)
            group[i] = rank[group[i]];
        tn_tensor *out[3] = {NULL}, *x = tn_to_dtype(
            tn_tensor_from_array(value, TN_I64, tn_dims(count, 1)), dtype);
        wrong += tn_unique(x, true, true, true, out, 3) != 3 ||
                 tn_tensor_dtype(out[0]) != dtype ||
                 tn_tensor_ndim(out[1]) != 2 ||
                 !holds(out[0], there, kinds) || !holds(out[1], group, count) ||
                 !holds(out[2], times, kinds);
    }
    is_int(wrong, 0, "unique numbers of dtype %d from %lld on, %llu apart",
           (int)dtype, (long long)low, (unsigned long long)step);
}

/* The range of the numbers is INT64_MAX, the largest that int64 can
 * represent. */
static void test_unique_ends(void)
{
    const int64_t want[2] = {0, INT64_MAX};
    int64_t value[100];
    for (int64_t i = 0; i < 100; i++)
        value[i] = want[i % 3 == 0];
    tn_tensor *out[1] = {NULL};
    tn_unique(tn_tensor_from_array(value, TN_I64, tn_dims(100)), true, false,
              false, out, 1);
    ok(holds(out[0], want, 2), "unique of 0 and INT64_MAX");
}

/* The squares and cubes of the elements exceed the range of float32. */
static void test_normalize(void)
{
    const float data[2] = {3e13f, 4e13f}, up[2] = {1, 0};
    const double want[2] = {1.28e-14, -9.6e-15};
    tn_tensor *x = tn_requires_grad(
                  tn_tensor_from_array(data, TN_F32, tn_dims(1, 2))),
              *slope = NULL;
    tn_grad(tn_normalize(x), &x, 1, &slope,
            .gradient = tn_tensor_from_array(up, TN_F32, tn_dims(1, 2)));
    is_int(differs(slope, want, 2, 1e-5), -1,
           "the gradient of normalize where a norm is large");
}

/* ---- gather with rows of indices ----------------------------------------- */

/* Returns whether an error with this text is reported by the call or the next
 * wait; clears it. */
static bool tells(const char *part)
{
    tn_device_synchronize(tn_device_current());
    const bool told = tn_error() && strstr(tn_error(), part);
    if (!told)
        note("%s", tn_error() ? tn_error() : "no error");
    tn_error_clear();
    return told;
}

/* A row has several blocks of indices; then one index in the last block is out
 * of range. */
static void test_gather(void)
{
    enum { ROWS = 3, COLUMNS = 600 };
    static double x[ROWS * COLUMNS], want[2][ROWS * COLUMNS];
    int64_t at[ROWS * COLUMNS];
    tn_tensor *rows = tn_reshape(numbers(ROWS * COLUMNS, 0, TN_F64),
                                 tn_dims(ROWS, COLUMNS));
    read(rows, x);
    memcpy(want[1], x, sizeof x);
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        at[i] = i * 7919 % 1009 % COLUMNS;
        want[0][i] = x[i / COLUMNS * COLUMNS + at[i]];
        want[1][i / COLUMNS * COLUMNS + at[i]] += x[i];
    }
    tn_tensor *index =
        tn_tensor_from_array(at, TN_I64, tn_dims(ROWS, COLUMNS));
    ok(differs(tn_gather(rows, 1, index), want[0], ROWS * COLUMNS, 0) < 0,
       "gather of rows of 600");
    ok(differs(tn_scatter_add(rows, 1, index, rows), want[1], ROWS * COLUMNS,
               0) < 0, "scatter_add of rows of 600");
    at[COLUMNS + 590] = at[2 * COLUMNS + 3] = COLUMNS;
    index = tn_tensor_from_array(at, TN_I64, tn_dims(ROWS, COLUMNS));
    tn_gather(rows, 1, index);
    ok(tells("index 600 at position (1, 590)"),
       "the first index out of range is reported");
    tn_scatter_add(rows, 1, index, rows);
    ok(tells("index 600 at position (1, 590)"), "in scatter_add, too");
}

static void test_runs_outside(void)
{
    int64_t index[40];
    tn_tensor *x = tn_ones(tn_dims(17, 40));
    for (int64_t i = 0; i < 40; i++)
        index[i] = i;
    index[39] = 40;
    tn_index_select(x, 1, tn_tensor_from_array(index, TN_I64, tn_dims(40)));
    ok(tells("index 40"), "an index behind the last one, after a run");
}

/* ---- quantiles ----------------------------------------------------------- */

/* quantile with a number selects elements, with a list it sorts; both must give
 * identical bits. Compares values and gradients; some rows contain NaN. */
static void test_quantile(tn_dtype dtype)
{
    static const double parts[] = {0, .1, .25, .5, .7, .9, .999, 1};
    static const char *const ways[] = {"linear", "lower", "higher", "nearest",
                                       "midpoint"};
    int64_t wrong = 0;
    for (int i = 0; i < 40; i++) {
        const int64_t size = 1 + 13 * i % 300;
        double x[MOST], from[MOST], back[2][MOST];
        tn_tensor *some_rows = numbers(4 * size, 0, dtype);
        read(some_rows, x);
        for (int64_t k = 0; k < size; k += 5)
            x[size + k] = NAN;
        tn_tensor *q = tn_full(tn_dims(1), parts[i % 8], .dtype = dtype);
        tn_tensor *value[2];
        for (int k = 0; k < 2; k++) {
            tn_tensor *rows = tn_to_dtype(
                tn_tensor_from_array(x, TN_F64, tn_dims(4, size)), dtype);
            tn_tensor_set_requires_grad(rows, true);
            value[k] = k ? tn_quantile(rows, q, .dim = 1,
                                       .interpolation = ways[i / 8])
                         : tn_quantile_scalar(rows, parts[i % 8],
                                              .dim = 1,
                                              .interpolation = ways[i / 8]);
            value[k] = tn_reshape(value[k], tn_dims(4));
            tn_backward(tn_sum(value[k]));
            wrong += read(tn_tensor_grad(rows), back[k]) != 4 * size;
        }
        read(value[1], from);
        wrong += differs(value[0], from, 4, 0) >= 0 ||
                 memcmp(back[0], back[1], (size_t)(4 * size) * 8) != 0;
    }
    ok(wrong == 0, "quantiles in %s by a number are those by a list, and so are "
       "gradients", tn_dtype_name(dtype));
}

int main(void)
{
    plan_later();
    tn_scope *scope = tn_scope_open();
    test_logcumsumexp(TN_F64, 0, 1e-13);
    test_logcumsumexp(TN_F64, 50, 1e-13);
    test_logcumsumexp(TN_F32, 0, 6e-8);
    test_logcumsumexp(TN_F32, 50, 6e-8);
    test_logcumsumexp(TN_BF16, 3, 1.0 / 256);
    test_nonzero(TN_BOOL);
    test_nonzero(TN_F32);
    test_nonzero(TN_I64);
    test_long_lists();
    test_gather();
    test_quantile(TN_F32);
    test_quantile(TN_F64);
    test_histc(TN_F16);
    test_histc(TN_BF16);
    test_histc(TN_F32);
    test_histc(TN_F64);
    test_max_pool1d();
    static const tn_dtype sizes[] = {TN_BOOL, TN_U8, TN_I16, TN_BF16,
                                     TN_F32,  TN_I32, TN_F64, TN_I64};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        test_strides(sizes[i]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i] != TN_U8)
            test_runs(sizes[i]);
    test_unique(TN_I64, 0, 1);
    test_unique(TN_I64, -7, 3);
    test_unique(TN_I64, INT64_MAX - 80, 2);
    test_unique(TN_I64, INT64_MIN, UINT64_C(1) << 59);
    test_unique(TN_I32, INT32_MIN, 5);
    test_unique(TN_I8, -128, 7);
    test_unique(TN_U8, 100, 1);
    test_unique(TN_F32, -3, 1);
    test_unique_ends();
    test_from_end();
    test_normalize();
    test_runs_outside();
    if (tn_error())
        note("%s", tn_error());
    tn_scope_close(scope);
    return done_testing();
}
