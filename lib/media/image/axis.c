/* axis.c: the weights of interpolation along one axis. They equal those of
 * PyTorch's interpolate with align_corners = false. With antialias they equal
 * Pillow's: if the result is smaller than the input, the filter is stretched by
 * in / out. */
#include <media/image/resample.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Keys' cubic with parameter a, for |x| < 2. As in PyTorch, a is -0.5 with
 * antialias (Pillow's value) and -0.75 without (OpenCV's value). */
static double cubic(double x, double a)
{
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double filter(tn__mode mode, double x)
{
    if (mode == TN__BICUBIC)
        return cubic(x, -0.5);
    return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The input elements start .. end - 1 that element i of the result covers. */
typedef struct range {
    int64_t start, end;
    double centre, stretch;
} range;

static range range_of(const tn__axis *axis, int64_t i, tn__mode mode)
{
    const double scale = (double)axis->in / (double)axis->out;
    range r = {.centre = scale * ((double)i + 0.5),
               .stretch = scale > 1 ? scale : 1};
    const double support = (mode == TN__BICUBIC ? 2 : 1) * r.stretch;
    r.start = clamp((int64_t)(r.centre - support + 0.5), 0, axis->in - 1);
    r.end = clamp((int64_t)(r.centre + support + 0.5), r.start + 1, axis->in);
    return r;
}

/* Returns the largest number of taps (input elements with their weights) of an
 * output element. */
static int64_t count_taps(const tn__axis *axis, tn__mode mode, bool antialias)
{
    if (mode == TN__NEAREST || mode == TN__NEAREST_EXACT)
        return 1;
    if (!antialias)
        return mode == TN__BICUBIC ? 4 : 2;
    int64_t most = 1;
    for (int64_t i = 0; i < axis->out; i++) {
        const range r = range_of(axis, i, mode);
        most = r.end - r.start > most ? r.end - r.start : most;
    }
    return most;
}

/* Moves a window of `count` weights at `start`, which may reach over the ends
 * of the axis, into it: weights outside are added to the nearest element. */
static void put(tn__axis *axis, int64_t i, int64_t start, int64_t count,
                const double *weight, double *row)
{
    const int64_t first = clamp(start, 0, axis->in - axis->taps);
    axis->first[i] = first;
    memset(row, 0, (size_t)axis->taps * sizeof *row);
    for (int64_t k = 0; k < count; k++)
        row[clamp(start + k, 0, axis->in - 1) - first] += weight[k];
}

static void weigh_antialias(tn__axis *axis, int64_t i, tn__mode mode,
                            double *weight, double *row)
{
    const range r = range_of(axis, i, mode);
    const int64_t count = r.end - r.start;
    double total = 0;
    for (int64_t k = 0; k < count; k++) {
        weight[k] =
            filter(mode, ((double)(r.start + k) - r.centre + 0.5) / r.stretch);
        total += weight[k];
    }
    for (int64_t k = 0; k < count && total != 0; k++)
        weight[k] /= total;
    put(axis, i, r.start, count, weight, row);
}

static void weigh_points(tn__axis *axis, int64_t i, tn__mode mode, double *row)
{
    const double scale = (double)axis->in / (double)axis->out;
    double weight[4], at = scale * ((double)i + 0.5) - 0.5;
    if (mode == TN__BICUBIC) {
        const double start = floor(at), t = at - start;
        for (int k = 0; k < 4; k++)
            weight[k] = cubic(t + 1 - k, -0.75);
        put(axis, i, (int64_t)start - 1, 4, weight, row);
        return;
    }
    at = at < 0 ? 0 : at;
    const double start = floor(at);
    weight[0] = 1 - (at - start);
    weight[1] = at - start;
    put(axis, i, (int64_t)start, 2, weight, row);
}

/* The index is computed in float32, as PyTorch does. */
static void weigh_nearest(tn__axis *axis, int64_t i, bool exact, double *row)
{
    const float scale = (float)axis->in / (float)axis->out;
    const float at = ((float)i + (exact ? 0.5f : 0.0f)) * scale;
    axis->first[i] = clamp((int64_t)floorf(at), 0, axis->in - 1);
    row[0] = 1;
}

/* Makes weights of 16 bits with as many bits of fraction as the largest one
 * leaves; PyTorch's rule. */
static void make_fixed(tn__axis *axis, const double *weight, int64_t count)
{
    double largest = 0;
    for (int64_t k = 0; k < count; k++)
        largest = weight[k] > largest ? weight[k] : largest;
    axis->shift = 0;
    while (axis->shift < 22 &&
           (int)(0.5 + largest * (1 << (axis->shift + 1))) < 1 << 15)
        axis->shift++;
    for (int64_t k = 0; k < count; k++) {
        const double w = weight[k] * (1 << axis->shift);
        axis->fixed[k] = (int16_t)(w < 0 ? w - 0.5 : w + 0.5);
        axis->real[k] = (float)weight[k];
    }
}

bool tn__axis_make(tn__axis *axis, int64_t in, int64_t out, tn__mode mode,
                   bool antialias, const char *call)
{
    *axis = (tn__axis){.in = in, .out = out};
    const int64_t taps = count_taps(axis, mode, antialias);
    axis->taps = taps < in ? taps : in;
    const size_t count = (size_t)(out * axis->taps);
    double *weight = malloc((count + (size_t)taps) * sizeof *weight);
    axis->first = malloc((size_t)out * sizeof *axis->first +
                         count * (sizeof *axis->real + sizeof *axis->fixed));
    if (!weight || !axis->first) {
        free(weight);
        tn__axis_free(axis);
        tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
        return false;
    }
    axis->real = (float *)(axis->first + out);
    axis->fixed = (int16_t *)(axis->real + count);
    for (int64_t i = 0; i < out; i++) {
        double *row = weight + i * axis->taps;
        if (mode == TN__NEAREST || mode == TN__NEAREST_EXACT)
            weigh_nearest(axis, i, mode == TN__NEAREST_EXACT, row);
        else if (antialias)
            weigh_antialias(axis, i, mode, weight + count, row);
        else
            weigh_points(axis, i, mode, row);
    }
    make_fixed(axis, weight, (int64_t)count);
    free(weight);
    return true;
}

void tn__axis_free(tn__axis *axis)
{
    free(axis->first);
    *axis = (tn__axis){0};
}
