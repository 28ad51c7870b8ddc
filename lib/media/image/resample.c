/* resample.c: resizes planes: a pass over columns, then one over rows.
 *
 * Only rows and columns that the wanted part of the result depends on are
 * computed. Rows of the first pass are stored in a ring buffer, so that they
 * are in the cache when the second pass reads them. */
#include <media/image/resample.h>

#include <stdlib.h>
#include <string.h>

/* A row of elements of the second pass is computed in blocks of this many,
 * whose sums stay in registers. */
#define BLOCK 32

static uint8_t clamp_u8(int32_t x)
{
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* ---- columns: one row of the image -------------------------------------- */

/* Computes `count` elements of a row. taps is a constant where this function is
 * inlined. */
static inline __attribute__((always_inline)) void
columns_u8_taps(const uint8_t *in, uint8_t *out, const int64_t *first,
                const int16_t *weight, int64_t count, int64_t taps, int shift)
{
    for (int64_t i = 0; i < count; i++, weight += taps) {
        const uint8_t *s = in + first[i];
        int32_t sum = 1 << (shift - 1);
        for (int64_t k = 0; k < taps; k++)
            sum += s[k] * weight[k];
        out[i] = clamp_u8(sum >> shift);
    }
}

static void columns_u8(const tn__axis *axis, int64_t begin, int64_t count,
                       const void *in, void *out)
{
    const int64_t *first = axis->first + begin;
    const int16_t *weight = axis->fixed + begin * axis->taps;
    switch (axis->taps) {
    case 1:
        for (int64_t i = 0; i < count; i++)
            ((uint8_t *)out)[i] = ((const uint8_t *)in)[first[i]];
        break;
    case 2:
        columns_u8_taps(in, out, first, weight, count, 2, axis->shift);
        break;
    case 3:
        columns_u8_taps(in, out, first, weight, count, 3, axis->shift);
        break;
    case 4:
        columns_u8_taps(in, out, first, weight, count, 4, axis->shift);
        break;
    case 5:
        columns_u8_taps(in, out, first, weight, count, 5, axis->shift);
        break;
    default:
        columns_u8_taps(in, out, first, weight, count, axis->taps,
                        axis->shift);
    }
}

static void columns_f32(const tn__axis *axis, int64_t begin, int64_t count,
                        const void *in, void *out)
{
    const float *weight = axis->real + begin * axis->taps;
    for (int64_t i = 0; i < count; i++, weight += axis->taps) {
        const float *s = (const float *)in + axis->first[begin + i];
        float sum = 0;
        for (int64_t k = 0; k < axis->taps; k++)
            sum += s[k] * weight[k];
        ((float *)out)[i] = sum;
    }
}

/* ---- rows: one row of the result from `taps` rows ----------------------- */

static void rows_u8(const tn__axis *axis, int64_t row, const void *const *in,
                    void *out, int64_t width)
{
    const int16_t *weight = axis->fixed + row * axis->taps;
    uint8_t *to = out;
    for (int64_t x = 0; x < width; x += BLOCK) {
        const int64_t count = width - x < BLOCK ? width - x : BLOCK;
        int32_t sum[BLOCK];
        for (int i = 0; i < BLOCK; i++)
            sum[i] = 1 << (axis->shift - 1);
        for (int64_t k = 0; k < axis->taps; k++) {
            const uint8_t *s = (const uint8_t *)in[k] + x;
            const int32_t w = weight[k];
            for (int i = 0; i < BLOCK; i++) /* rows are padded to blocks */
                sum[i] += s[i] * w;
        }
        for (int64_t i = 0; i < count; i++)
            to[x + i] = clamp_u8(sum[i] >> axis->shift);
    }
}

static void rows_f32(const tn__axis *axis, int64_t row, const void *const *in,
                     void *out, int64_t width)
{
    const float *weight = axis->real + row * axis->taps;
    float *to = out;
    for (int64_t x = 0; x < width; x += BLOCK) {
        const int64_t count = width - x < BLOCK ? width - x : BLOCK;
        float sum[BLOCK] = {0};
        for (int64_t k = 0; k < axis->taps; k++) {
            const float *s = (const float *)in[k] + x;
            for (int i = 0; i < BLOCK; i++)
                sum[i] += s[i] * weight[k];
        }
        memcpy(to + x, sum, (size_t)count * sizeof *sum);
    }
}

/* ---- both --------------------------------------------------------------- */

typedef struct pass {
    const tn__axis *x, *y;
    const tn__window *part;
    int64_t in_width;
    size_t bytes;
    bool floating, same_columns, same_rows; /* same: an axis is unchanged */
    size_t stride;   /* bytes of a row of the ring */
    char *ring;      /* y->taps rows, and one for the result's alignment */
    int64_t *held;   /* the row of the input in each row of the ring, or -1 */
    const void **in; /* the taps of a row */
} pass;

/* Returns row `row` of the input, with its columns interpolated. */
static const void *row_of(const pass *p, const char *plane, int64_t row)
{
    const int64_t slot = row % p->y->taps;
    char *at = p->ring + (size_t)slot * p->stride;
    if (p->held[slot] == row)
        return at;
    const char *from = plane + (size_t)(row * p->in_width) * p->bytes;
    if (p->same_columns)
        memcpy(at, from + (size_t)p->part->left * p->bytes,
               (size_t)p->part->width * p->bytes);
    else if (p->floating)
        columns_f32(p->x, p->part->left, p->part->width, from, at);
    else
        columns_u8(p->x, p->part->left, p->part->width, from, at);
    p->held[slot] = row;
    return at;
}

static void resample_plane(const pass *p, const char *plane, char *out)
{
    const int64_t taps = p->y->taps, width = p->part->width;
    for (int64_t k = 0; k < taps; k++)
        p->held[k] = -1;
    for (int64_t i = 0; i < p->part->height; i++) {
        const int64_t row = p->part->top + i;
        char *to = out + (size_t)(i * width) * p->bytes;
        if (p->same_rows || taps == 1) {
            const int64_t only = p->same_rows ? row : p->y->first[row];
            memcpy(to, row_of(p, plane, only), (size_t)width * p->bytes);
            continue;
        }
        for (int64_t k = 0; k < taps; k++)
            p->in[k] = row_of(p, plane, p->y->first[row] + k);
        if (p->floating)
            rows_f32(p->y, row, p->in, to, width);
        else
            rows_u8(p->y, row, p->in, to, width);
    }
}

bool tn__resample(const tn__pixels *image, const tn__window *from,
                  const tn__axis *y, const tn__axis *x, const tn__window *part,
                  const tn__pixels *out, const char *call)
{
    pass p = {.x = x,
              .y = y,
              .part = part,
              .in_width = image->w,
              .bytes = image->bytes,
              .floating = image->dtype == TN_F32,
              .same_columns = x->in == x->out,
              .same_rows = y->in == y->out};
    p.stride = ((size_t)part->width + BLOCK) * p.bytes;
    p.ring = calloc((size_t)y->taps, p.stride);
    p.held = malloc((size_t)y->taps * sizeof *p.held);
    p.in = malloc((size_t)y->taps * sizeof *p.in);
    const bool has = p.ring && p.held && p.in;
    const size_t corner =
        (size_t)(from->top * image->w + from->left) * image->bytes;
    for (int64_t i = 0; has && i < image->n * image->c; i++)
        resample_plane(&p, tn__plane(image, i) + corner,
                       tn__plane_out(out, i));
    if (!has)
        tn_error_set(TN_ERR_MEMORY, "%s: out of memory", call);
    free(p.ring);
    free(p.held);
    free(p.in);
    return has;
}
