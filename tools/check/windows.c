/* windows.c: computes convolution and pooling by plain loops, as reference for
 * the extensions "conv" and "pool". */
#include "windows.h"

#include <math.h>
#include <string.h>

/* ---- convolution -------------------------------------------------------- */

/* For each element of the result: the sum of products (sum), the sum of their
 * absolute values (size), and the number of products (terms). */
static double sum[OPERAND_POINTS], size[OPERAND_POINTS];
static int64_t terms[OPERAND_POINTS];

static void add_term(int64_t to, double x)
{
    sum[to] += x;
    size[to] += fabs(x);
    terms[to]++;
}

/* Sets *at to the position, along axis a of the image, of element k of window
 * i. Returns false if that position is outside the image. */
static bool meets(const tn_conv_args *args, int a, int64_t i, int64_t k,
                  int64_t *at)
{
    *at = i * args->stride[a] + k * args->dilation[a] - args->pad[a];
    return *at >= 0 && *at < args->in_size[a];
}

/* Adds all products of the convolution of image n with filter o. */
static void filter_image(const tn_conv_args *args, int64_t n, int64_t o,
                         const operand *in, const operand *weight,
                         const operand *out)
{
    int64_t each = args->in_channels / args->groups;
    int64_t first = o / (args->out_channels / args->groups) * each;
    int64_t y, x;
    for (int64_t i = 0; i < args->out_size[0]; i++)
        for (int64_t j = 0; j < args->out_size[1]; j++)
            for (int64_t c = 0; c < each; c++)
                for (int64_t k = 0; k < args->kernel[0]; k++)
                    for (int64_t l = 0; l < args->kernel[1]; l++) {
                        if (!meets(args, 0, i, k, &y) ||
                            !meets(args, 1, j, l, &x))
                            continue;
                        int64_t p = ((n * args->in_channels + first + c) *
                                         args->in_size[0] +
                                     y) *
                                        args->in_size[1] +
                                    x;
                        int64_t w = ((o * each + c) * args->kernel[0] + k) *
                                        args->kernel[1] +
                                    l;
                        int64_t q =
                            ((n * args->out_channels + o) * args->out_size[0] +
                             i) *
                                args->out_size[1] +
                            j;
                        double a = in->value[p].f, b = weight->value[w].f;
                        double g = out->value[q].f;
                        if (args->kind == TN_CONV_FORWARD)
                            add_term(q, a * b);
                        else if (args->kind == TN_CONV_INPUT)
                            add_term(p, g * b);
                        else
                            add_term(w, g * a);
                    }
}

/* Returns the tolerance of sum[i], whose terms may be added in any order: for
 * each term, one unit in the last place of the sum of absolute values (Higham
 * 2002, section 4.2, proves half of that), plus one unit in the last place of
 * the result for storing it. */
static double allowed(tn_dtype dtype, int64_t i)
{
    double by_sum = (double)(terms[i] + 2) * size[i] *
                    (dtype == TN_F64 ? 0x1p-52 : 0x1p-23);
    double by_store = dtype == TN_F16    ? fabs(sum[i]) * 0x1p-10 + 0x1p-24
                      : dtype == TN_BF16 ? fabs(sum[i]) * 0x1p-7
                                         : 0;
    return by_sum + by_store;
}

void windows_conv(const tn_conv_args *args, operand *in, operand *weight,
                  operand *out, const operand *bias)
{
    operand *to = args->kind == TN_CONV_FORWARD ? out
                  : args->kind == TN_CONV_INPUT ? in
                                                : weight;
    memset(sum, 0, sizeof sum);
    memset(size, 0, sizeof size);
    memset(terms, 0, sizeof terms);
    for (int64_t n = 0; n < args->count; n++)
        for (int64_t o = 0; o < args->out_channels; o++)
            filter_image(args, n, o, in, weight, out);
    int64_t area = args->out_size[0] * args->out_size[1];
    for (int64_t i = 0; bias && i < to->count; i++)
        add_term(i, bias->value[i / area % args->out_channels].f);
    for (int64_t i = 0; i < to->count; i++) {
        to->value[i] =
            operand_rounded(to->view.dtype, (tn_number){.f = sum[i]});
        to->tolerance[i] = allowed(to->view.dtype, i);
    }
}

/* ---- pooling ------------------------------------------------------------ */

/* Sums `count` numbers in the order that plugin.h defines for a reduction
 * within one chunk. */
static tn_number sum_row(tn_dtype dtype, const tn_number *x, int64_t count)
{
    tn_number lane[TN_LANES] = {{.i = 0}};
    for (int64_t k = 0; k < count; k++)
        lane[k % TN_LANES] =
            k < TN_LANES
                ? x[k]
                : operand_fold(TN_REDUCE_SUM, dtype, lane[k % TN_LANES], x[k]);
    for (int64_t half = TN_LANES / 2; half > 0; half /= 2)
        for (int64_t i = 0; i < half && i + half < count; i++)
            lane[i] =
                operand_fold(TN_REDUCE_SUM, dtype, lane[i], lane[i + half]);
    return lane[0];
}

/* Returns the index of element (y, x) of a plane in row-major order, or -1 if
 * it is outside the plane. */
static int64_t in_plane(const tn_pool_args *args, int64_t plane, int64_t y,
                        int64_t x)
{
    return y < 0 || y >= args->in_size[0] || x < 0 || x >= args->in_size[1]
               ? -1
               : (plane * args->in_size[0] + y) * args->in_size[1] + x;
}

static int64_t place(const tn_pool_args *args, int a, int64_t i, int64_t k)
{
    return i * args->stride[a] + k * args->dilation[a] - args->pad[a];
}

static void max_window(const tn_pool_args *args, int64_t plane, int64_t i,
                       int64_t j, const operand *in, operand *out,
                       operand *index)
{
    int64_t q = (plane * args->out_size[0] + i) * args->out_size[1] + j;
    int64_t area = args->in_size[0] * args->in_size[1], best = -1;
    for (int64_t k = 0; k < args->kernel[0]; k++)
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            int64_t p = in_plane(args, plane, place(args, 0, i, k),
                                 place(args, 1, j, l));
            if (p < 0)
                continue;
            tn_number x = in->value[p];
            bool takes = best < 0 || (!isnan(in->value[best].f) &&
                                      (isnan(x.f) || x.f > in->value[best].f));
            out->value[q] = best < 0
                                ? x
                                : operand_fold(TN_REDUCE_MAX, out->view.dtype,
                                               out->value[q], x);
            best = takes ? p : best;
        }
    if (args->kind == TN_POOL_MAX)
        index->value[q].i = best % area;
}

/* Returns how many elements of window i along axis a count for the divisor of
 * average pooling. */
static int64_t counted(const tn_pool_args *args, int a, int64_t i)
{
    int64_t pad = args->count_pad ? args->pad[a] : 0;
    int64_t start = place(args, a, i, 0), end = start + args->kernel[a];
    int64_t low = -pad, high = args->in_size[a] + pad;
    return (end < high ? end : high) - (start > low ? start : low);
}

static tn_number divided(const tn_pool_args *args, tn_dtype dtype, tn_number x,
                         int64_t i, int64_t j)
{
    int64_t by = args->divisor ? args->divisor
                               : counted(args, 0, i) * counted(args, 1, j);
    return operand_rounded(
        dtype, operand_eval(TN_K_DIV, dtype, x, (tn_number){.f = (double)by}));
}

enum { MOST_AREA = 64 };

static void avg_window(const tn_pool_args *args, int64_t plane, int64_t i,
                       int64_t j, const operand *in, operand *out)
{
    tn_number row[MOST_AREA];
    int64_t count = 0;
    for (int64_t k = 0; k < args->kernel[0]; k++)
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            int64_t p = in_plane(args, plane, place(args, 0, i, k),
                                 place(args, 1, j, l));
            row[count++] = p < 0 ? (tn_number){.f = 0} : in->value[p];
        }
    tn_dtype dtype = out->view.dtype;
    out->value[(plane * args->out_size[0] + i) * args->out_size[1] + j] =
        divided(args, dtype, sum_row(dtype, row, count), i, j);
}

/* Returns the index of the window along axis a whose element k is at position
 * `at`, or -1 if there is none. */
static int64_t window_at(const tn_pool_args *args, int a, int64_t at, int64_t k)
{
    int64_t from = at + args->pad[a] - k, i = from / args->stride[a];
    return from < 0 || from % args->stride[a] || i >= args->out_size[a] ? -1
                                                                        : i;
}

static void avg_element(const tn_pool_args *args, int64_t plane, int64_t y,
                        int64_t x, operand *in, const operand *out)
{
    tn_number row[MOST_AREA];
    tn_dtype dtype = in->view.dtype;
    int64_t count = 0;
    for (int64_t k = 0; k < args->kernel[0]; k++)
        for (int64_t l = 0; l < args->kernel[1]; l++) {
            int64_t i = window_at(args, 0, y, k), j = window_at(args, 1, x, l);
            int64_t q = (plane * args->out_size[0] + i) * args->out_size[1] + j;
            row[count++] = i < 0 || j < 0
                               ? (tn_number){.f = 0}
                               : divided(args, dtype, out->value[q], i, j);
        }
    in->value[in_plane(args, plane, y, x)] =
        operand_rounded(dtype, sum_row(dtype, row, count));
}

static void max_back_plane(const tn_pool_args *args, int64_t plane, operand *in,
                           const operand *out, const operand *index)
{
    int64_t area = args->in_size[0] * args->in_size[1];
    int64_t windows = args->out_size[0] * args->out_size[1];
    for (int64_t p = 0; p < area; p++)
        in->value[plane * area + p] = (tn_number){.f = 0};
    for (int64_t q = plane * windows; q < (plane + 1) * windows; q++) {
        tn_number *to = &in->value[plane * area + index->value[q].i];
        *to = operand_rounded(
            in->view.dtype,
            operand_fold(TN_REDUCE_SUM, in->view.dtype, *to, out->value[q]));
    }
}

void windows_pool(const tn_pool_args *args, operand *in, operand *out,
                  operand *index)
{
    bool back = args->kind == TN_POOL_AVG_BACK;
    const int64_t *over = back ? args->in_size : args->out_size;
    for (int64_t plane = 0; plane < args->count * args->channels; plane++) {
        if (args->kind == TN_POOL_MAX_BACK) {
            max_back_plane(args, plane, in, out, index);
            continue;
        }
        for (int64_t i = 0; i < over[0]; i++)
            for (int64_t j = 0; j < over[1]; j++) {
                if (args->kind == TN_POOL_MAX || args->kind == TN_POOL_GREATEST)
                    max_window(args, plane, i, j, in, out, index);
                else if (back)
                    avg_element(args, plane, i, j, in, out);
                else
                    avg_window(args, plane, i, j, in, out);
            }
    }
}
