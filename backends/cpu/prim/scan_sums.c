/* scan_sums.c: cumsum of floats, in the order of summation that
 * plugin_primitives.h fixes (tn_scan_args).
 *
 * A line is one sequence of elements along the scanned dimension. It is cut
 * into chunks of TN_CHUNK elements, and prefix sums are computed within each
 * chunk. The last of these is called the chunk's final element. Then the sum of
 * the final elements of all earlier chunks is added to every element of the
 * chunk. The final elements are themselves summed in blocks of TN_LANES. */
#include <string.h>

#include "scan_sums.h"

/* Sequences whose elements of equal index are contiguous are computed together.
 * Their number is rounded up to a multiple of this, which is a multiple of the
 * vector length in every instruction set. */
#define ROW_STEP 16

/* State of the second step: the prefix sums of the final elements of the chunks
 * of a line. of[] has the final elements of the current block of TN_LANES
 * chunks, sums[] their prefix sums. `last` is the last prefix sum of the
 * previous block. */
typedef struct finals {
    int64_t count;
    /* arrays of double, or of float in the same memory */
    double of[TN_LANES], sums[TN_LANES], last;
} finals;

/* Adds the final element of a chunk (in of[]). Returns the sum of the final
 * elements of all earlier chunks, which is added to the elements of the next
 * chunk. */
static const void *next_before(const scan_work *w, finals *f, int64_t bytes)
{
    double unused;
    int64_t place = f->count % TN_LANES;
    w->sum(f->sums, f->of, place + 1, f->count < TN_LANES ? NULL : &f->last,
           &unused, 0);
    char *before = (char *)f->sums + place * bytes;
    if (place == TN_LANES - 1)
        memcpy(&f->last, before, (size_t)bytes);
    f->count++;
    return before;
}

/* Computes the prefix sums of one line (sequence along the scanned dimension),
 * chunk by chunk. in and out are the addresses of the line's first elements. If
 * the dtype is narrow or the elements are strided, a chunk is first copied to
 * contiguous memory. */
static void sum_line(const scan_work *w, const char *in, char *out)
{
    const tn_scan_args *s = w->s;
    double block[TN_CHUNK];
    finals f;
    int64_t count = s->extent[s->ndim - 1];
    int64_t in_step = s->in.stride[s->ndim - 1];
    int64_t out_step = s->out.stride[s->ndim - 1];
    int64_t bytes = s->in.dtype == TN_F64 ? 8 : 4;
    int64_t in_bytes = tn__cpu_dtype_bytes[s->in.dtype];
    int64_t out_bytes = tn__cpu_dtype_bytes[s->out.dtype];
    bool reads = in_step == 1 && in_bytes == bytes;
    bool writes = out_step == 1 && out_bytes == bytes;
    const void *before = NULL;
    f.count = 0;
    for (int64_t k = 0; k < count; k += TN_CHUNK) {
        int64_t n = tn__cpu_min(TN_CHUNK, count - k);
        const char *from = in + k * in_step * in_bytes;
        char *to = out + k * out_step * out_bytes;
        if (!reads)
            w->routines->load[s->in.dtype](block, from, in_step, n);
        w->sum(writes ? (void *)to : block, reads ? (const void *)from : block,
               n, before, (char *)f.of + f.count % TN_LANES * bytes,
               writes && w->streams);
        if (!writes)
            w->routines->store[s->out.dtype](to, block, out_step, n);
        if (k + n < count)
            before = next_before(w, &f, bytes);
    }
}

void tn__cpu_scan_sum_lines(const scan_work *w, int64_t first, int64_t end)
{
    const tn_scan_args *s = w->s;
    int64_t in_bytes = tn__cpu_dtype_bytes[s->in.dtype];
    int64_t out_bytes = tn__cpu_dtype_bytes[s->out.dtype];
    uint32_t d = s->ndim > 1 ? s->ndim - 2 : 0;
    const char *in =
        s->in.buffer->memory + line_offset(s, &s->in, first) * in_bytes;
    char *out =
        s->out.buffer->memory + line_offset(s, &s->out, first) * out_bytes;
    for (int64_t i = 0; i < end - first; i++)
        sum_line(w, in + i * s->in.stride[d] * in_bytes,
                 out + i * s->out.stride[d] * out_bytes);
}

/* ---- adjacent lines: a row of elements takes the role of an element ------ */

/* Lines (sequences to scan) whose elements of equal index are contiguous, as
 * rows: row k holds element k of all lines. A temporary row has `wide`
 * elements: `lines` rounded up to ROW_STEP. */
typedef struct rows {
    /* lines is the number of lines, wide the number of elements of a temporary
     * row. bytes is the size of an element. */
    int64_t lines, wide, bytes;
    /* Temporary rows. All elements of `none` are -0.0. `low` and `high` hold
     * partial sums. `unused` receives results that are not needed. */
    char *none, *low, *high, *unused;
} rows;

/* `lines` may not be a multiple of ROW_STEP. Computes the last elements of four
 * rows in a copy that is padded to ROW_STEP elements. */
static void end_rows(const scan_work *w, const rows *r, void *const *out,
                     const void *const *in, const tn_cpu_scan_kept *kept)
{
    const int64_t at = r->lines / ROW_STEP * ROW_STEP * r->bytes;
    const size_t left = (size_t)(r->lines * r->bytes - at);
    double part[4][ROW_STEP] = {{0}};
    const void *from[4];
    void *to[4];
    for (int i = 0; i < 4; i++)
        from[i] = to[i] = memcpy(part[i], (const char *)in[i] + at, left);
    w->sum_rows(to, from,
                &(tn_cpu_scan_kept){(const char *)kept->low + at,
                                    (const char *)kept->high + at,
                                    (const char *)kept->carry + at,
                                    (const char *)kept->first + at,
                                    (char *)kept->keep + at, kept->whole, 0, 0},
                ROW_STEP);
    for (int i = 0; i < 4; i++)
        memcpy((char *)out[i] + at, part[i], left);
}

/* n rows in memory (row k has element k of all sequences), and the strides
 * between rows in bytes. */
typedef struct row_span {
    char *out;
    const char *in;
    int64_t out_step, in_step, n;
} row_span;

/* Computes the prefix sums over the rows of a span, in blocks, and adds row
 * `before` to all of them. If the number of rows is a multiple of TN_LANES,
 * stores in final the last prefix sum without `before`. */
static void sum_rows(const scan_work *w, const rows *r, const row_span *s,
                     const char *before, char *final)
{
    memcpy(final, r->none, (size_t)(r->wide * r->bytes));
    for (int64_t k = 0; k < s->n; k += 4) {
        const int part = (int)(k / 4 % 4);
        const void *from[4];
        void *to[4];
        for (int i = 0; i < 4; i++) {
            bool there = k + i < s->n;
            from[i] = there ? s->in + (k + i) * s->in_step : r->none;
            to[i] = there ? s->out + (k + i) * s->out_step : r->unused;
        }
        const tn_cpu_scan_kept kept = {part & 1 ? r->low : r->none,
                                       part & 2 ? r->high : r->none,
                                       final,
                                       before,
                                       part == 1   ? r->high
                                       : part == 3 ? final
                                                   : r->low,
                                       part == 3,
                                       4 * s->in_step,
                                       4 * s->out_step};
        w->sum_rows(to, from, &kept, r->lines / ROW_STEP * ROW_STEP);
        if (r->lines < r->wide)
            end_rows(w, r, to, from, &kept);
    }
}

void tn__cpu_scan_sum_columns(const scan_work *w, int64_t first, int64_t end)
{
    const tn_scan_args *s = w->s;
    const uint32_t last = s->ndim - 1;
    const int64_t bytes = tn__cpu_dtype_bytes[s->in.dtype];
    const int64_t count = s->extent[last];
    const int64_t in_step = s->in.stride[last] * bytes;
    const int64_t out_step = s->out.stride[last] * bytes;
    rows r = {.lines = end - first, .bytes = bytes};
    r.wide = (r.lines + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
    const int64_t row = r.wide * bytes;
    r.none = tn__cpu_scratch((size_t)((2 * TN_LANES + 6) * row));
    if (!r.none) {
        tn__cpu_scan_sum_lines(w, first, end);
        return;
    }
    r.low = r.none + row;
    r.high = r.low + row;
    r.unused = r.high + row;
    char *of = r.unused + row, *sums = of + TN_LANES * row;
    char *last_sum = sums + TN_LANES * row, *spare = last_sum + row;
    const char *in =
        s->in.buffer->memory + line_offset(s, &s->in, first) * bytes;
    char *out =
        s->out.buffer->memory + line_offset(s, &s->out, first) * bytes;
    const char *before = r.none;
    int64_t place = 0;
    for (int64_t i = 0; i < r.wide; i++)
        memcpy(r.none + i * bytes,
               bytes == 8 ? (const void *)&(double){-0.0} : &(float){-0.0f},
               (size_t)bytes);
    for (int64_t k = 0; k < count; k += TN_CHUNK) {
        const row_span chunk = {out + k * out_step, in + k * in_step, out_step,
                                in_step, tn__cpu_min(TN_CHUNK, count - k)};
        sum_rows(w, &r, &chunk, before, of + place * row);
        if (k + TN_CHUNK >= count)
            break;
        const row_span ends = {sums, of, row, row, place + 1};
        sum_rows(w, &r, &ends, k < TN_LANES * TN_CHUNK ? r.none : last_sum,
                 spare);
        before = sums + place * row;
        if (place == TN_LANES - 1)
            memcpy(last_sum, before, (size_t)row);
        place = (place + 1) % TN_LANES;
    }
}
