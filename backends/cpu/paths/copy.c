/* copy.c: copies between operands of any strides, such as contiguous, expand,
 * cat (one copy for each input) and the copy of a transposed matrix. The
 * dimensions are sorted by the output's strides and merged. After that there
 * are three cases: contiguous rows, rows that repeat one element, and a
 * transposed matrix. */
#include <stdlib.h>
#include <string.h>

#include "../program/program.h"
#include "../run/view.h"

#define TASK_BYTES (256 << 10) /* bytes of output that one task writes */
/* Minimum length, in elements, of an output row that repeats one element. If
 * rows are shorter, the general code in run/ runs the copy. */
#define MIN_REPEAT 256
/* Length in elements of the strips into which output rows are cut if the source
 * is transposed. */
#define STRIP 256

/* Returns whether the program consists of a LOAD without an index and a STORE
 * of the loaded value. Stores the operand indices in built->copy. */
static bool recognise(tn_built *built, const tn_program *program)
{
    const tn_kernel_ins *load = NULL, *store = NULL;
    if (built->has_rows || program->ins_count != 2)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const tn_kernel_ins *ins = &program->ins[i];
        load = ins->op == TN_K_LOAD ? ins : load;
        store = ins->op == TN_K_STORE ? ins : store;
    }
    if (!load || !store || load->a != TN_NONE || load->b != TN_NONE ||
        load->c != TN_NONE)
        return false;
    uint8_t dtype = program->operand[load->imm.i].dtype;
    built->copy = (cpu_copy){(uint32_t)load->imm.i, (uint32_t)store->imm.i};
    /* A load of a bool changes every value but 0 to 1, so bits may change. */
    return dtype == program->operand[store->imm.i].dtype && dtype != TN_BOOL;
}

/* A dimension of the copy: its extent, and the strides of the source (in) and
 * the output (out) in elements. */
typedef struct dimension {
    int64_t extent, in, out;
} dimension;

typedef struct copy {
    const tn_cpu_routines *routines;
    char *out;
    const char *in;
    int64_t bytes; /* element size in bytes */
    dimension dim[TN_MAX_NDIM * 2];
    /* Number of dimensions, at least 1. The output is contiguous along the last
     * one. */
    uint32_t ndim;
    /* The dimension along which the source is contiguous, or ndim if that is
     * the last dimension. */
    uint32_t across;
    /* The last dimension is cut into `strips` strips of `strip` elements.
     * Dimension `across` is cut into `bands` bands of `band` elements. A piece
     * is one strip of one band at one index of the other dimensions. */
    int64_t strips, strip;
    int64_t bands, band;
    /* tasks is the number of all pieces. per_task is the number of pieces that
     * one task copies. */
    int64_t tasks, per_task;
    bool stream; /* whether to use non-temporal stores */
    /* Non-temporal copies prefetch their source this many bytes ahead. */
    int64_t prefetch_distance;
    /* The routine that repeats one element along a row, or NULL if rows are
     * copied. */
    tn_cpu_run *fill;
} copy;

/* Sorts the dimensions by falling strides of the output. Merges adjacent
 * dimensions where the strides allow it. */
static void order_dimensions(copy *c, const tn_launch *launch,
                             const int64_t *in, const int64_t *out)
{
    c->ndim = 0;
    for (uint32_t d = 0; d < launch->outer_ndim + launch->row_ndim; d++) {
        dimension x = {launch->extent[d], in[d], out[d]};
        if (x.extent == 1)
            continue;
        uint32_t at = c->ndim++;
        for (; at > 0 && llabs(c->dim[at - 1].out) < llabs(x.out); at--)
            c->dim[at] = c->dim[at - 1];
        c->dim[at] = x;
    }
    if (c->ndim == 0)
        c->dim[c->ndim++] = (dimension){1, 1, 1};
    uint32_t last = 0;
    for (uint32_t d = 1; d < c->ndim; d++) {
        dimension *outer = &c->dim[last], *x = &c->dim[d];
        if (outer->in == x->in * x->extent &&
            outer->out == x->out * x->extent) {
            outer->extent *= x->extent;
            outer->in = x->in;
            outer->out = x->out;
        } else {
            c->dim[++last] = *x;
        }
    }
    c->ndim = last + 1;
}

/* A point is one combination of coordinates of the dimensions other than the
 * last one and `across`. This struct has the coordinates of a point and its
 * offsets in the source and the output. Going to the next point increments
 * them, because divisions would take half as long as the copy of a short
 * row. */
typedef struct position {
    int64_t at[TN_MAX_NDIM * 2], in, out;
} position;

/* Sets the position to the coordinates whose row-major index is `point`. */
static void position_begin(position *p, const copy *c, int64_t point)
{
    p->in = p->out = 0;
    for (uint32_t d = c->ndim - 1; d-- > 0;) {
        if (d == c->across)
            continue;
        p->at[d] = point % c->dim[d].extent;
        p->in += p->at[d] * c->dim[d].in;
        p->out += p->at[d] * c->dim[d].out;
        point /= c->dim[d].extent;
    }
}

/* Advances the innermost index of the position by `steps`, at most to the end
 * of its dimension, where the next dimension is advanced. */
static void position_advance(position *p, const copy *c, int64_t steps)
{
    for (uint32_t d = c->ndim - 1; d-- > 0; steps = 1) {
        const dimension *x = &c->dim[d];
        if (d == c->across)
            continue;
        p->in += x->in * steps;
        p->out += x->out * steps;
        if ((p->at[d] += steps) < x->extent)
            break;
        p->at[d] = 0;
        p->in -= x->extent * x->in;
        p->out -= x->extent * x->out;
    }
}

/* Copies one piece: one strip of one band (struct copy) at the coordinates p of
 * the other dimensions. */
static void copy_piece(const copy *c, const position *p, int64_t piece)
{
    const dimension *last = &c->dim[c->ndim - 1];
    int64_t band = piece % c->bands * c->band;
    int64_t first = piece / c->bands * c->strip;
    int64_t count = tn__cpu_min(c->strip, last->extent - first);
    int64_t in = p->in + first * last->in, out = p->out + first;
    const dimension *across = c->across < c->ndim ? &c->dim[c->across] : NULL;
    if (across) {
        in += band;
        out += band * across->out;
    }
    char *to = c->out + out * c->bytes;
    const char *from = c->in + in * c->bytes;
    if (across)
        c->routines->transpose[c->bytes](
            to, across->out, from, last->in, count,
            tn__cpu_min(c->band, across->extent - band), c->stream);
    else if (c->fill)
        c->fill(to, from, from, from, count, 0);
    else if (c->stream)
        c->routines->stream(to, from, count * c->bytes, c->prefetch_distance);
    else
        memmove(to, from, (size_t)(count * c->bytes));
}

/* Copies up to `most` rows. A row is the whole last dimension, and the rows
 * follow each other along the second last dimension. Stops at the end of that
 * dimension. Returns the number of rows copied. */
static int64_t copy_rows(const copy *c, const position *p, int64_t most)
{
    const int64_t bytes = c->dim[c->ndim - 1].extent * c->bytes;
    const dimension *inner = &c->dim[c->ndim - 2];
    const int64_t rows =
        tn__cpu_min(most, inner->extent - p->at[c->ndim - 2]);
    char *to = c->out + p->out * c->bytes;
    const char *from = c->in + p->in * c->bytes;
    int64_t to_step = inner->out * c->bytes;
    int64_t from_step = inner->in * c->bytes;
    const int64_t prefetch_distance =
        (c->prefetch_distance + bytes - 1) / bytes * from_step;
    if (!c->stream)
        c->routines->copy_rows(to, to_step, from, from_step, rows, bytes);
    else
        for (int64_t k = 0; k < rows; k++, to += to_step, from += from_step)
            c->routines->stream(to, from, bytes, prefetch_distance);
    return rows;
}

/* Copies the pieces of task i. A piece is one strip of one band (struct
 * copy). */
static void run_pieces(void *context, int64_t i)
{
    const copy *c = context;
    const int64_t each = c->strips * c->bands;
    int64_t piece = i * c->per_task;
    int64_t end = tn__cpu_min(piece + c->per_task, c->tasks);
    position p;
    position_begin(&p, c, piece / each);
    if (c->ndim > 1 && c->across == c->ndim && each == 1 && !c->fill)
        for (int64_t rows; piece < end; piece += rows) {
            rows = copy_rows(c, &p, end - piece);
            position_advance(&p, c, rows);
        }
    else
        for (int64_t k = piece % each; piece < end; piece++) {
            copy_piece(c, &p, k);
            if (++k == each) {
                position_advance(&p, c, 1);
                k = 0;
            }
        }
    if (c->stream)
        c->routines->fence();
}

/* Returns the number of bytes from the first to the last element that the copy
 * writes. This includes gaps, because other launches will write them: in cat,
 * the copy of each input spans about the whole output. */
static int64_t written_span(const copy *c)
{
    int64_t last = 1;
    for (uint32_t d = 0; d < c->ndim; d++)
        last += (c->dim[d].extent - 1) * llabs(c->dim[d].out);
    return last * c->bytes;
}

static bool launch_copy(tn_built *built, const tn_launch *launch,
                        tn_status *status)
{
    (void)status;
    const tn_launch_operand *to = &launch->operand[built->copy.out];
    const tn_launch_operand *from = &launch->operand[built->copy.in];
    copy c = {.routines = built->routines,
              .prefetch_distance = built->routines->family->copy_ahead};
    int64_t total =
        tn__cpu_numel(launch->extent, launch->outer_ndim + launch->row_ndim);
    if (total == 0)
        return true;
    order_dimensions(&c, launch, from->stride, to->stride);
    const dimension *last = &c.dim[c.ndim - 1];
    c.across = c.ndim;
    if (last->out != 1)
        return false;
    for (uint32_t d = 0; last->in != 1 && d + 1 < c.ndim; d++)
        if (c.dim[d].in == 1)
            c.across = d;
    c.bytes = tn__cpu_dtype_bytes[built->operand[built->copy.out].dtype];
    bool repeats = last->in == 0 && last->extent >= MIN_REPEAT;
    if (repeats && c.bytes != 2) {
        c.fill = tn__cpu_fill_for(c.routines, c.bytes, last->extent);
        c.across = c.ndim;
    }
    if (last->in != 1 && !c.fill && (last->in == 0 || c.across == c.ndim))
        return false;
    c.out = tn__cpu_at(to->buffer, to->offset, (size_t)c.bytes);
    c.in = tn__cpu_at(from->buffer, from->offset, (size_t)c.bytes);
    /* Non-temporal stores are faster if the output has at least half of
     * stream_bytes: copying scattered rows of 16 MiB in all takes 2.5 ms by
     * ordinary and 1.3 ms by non-temporal stores (Zen 4, 1 thread, 2026-11).
     * Results that are read again soon (TN_LAUNCH_SOON) stay in the caches if
     * they are smaller than stream_bytes. */
    c.stream = c.in != c.out &&
               (c.across < c.ndim ? total * c.bytes : written_span(&c)) >=
                   built->stream_bytes /
                       (c.fill || launch->flags & TN_LAUNCH_SOON ? 1 : 2);
    if (c.stream && c.fill)
        return false;
    int64_t piece = c.across < c.ndim ? STRIP : TASK_BYTES / c.bytes;
    c.strip = tn__cpu_min(piece, last->extent);
    c.strips = (last->extent + c.strip - 1) / c.strip;
    int64_t each = c.strip * c.bytes;
    c.bands = c.band = 1;
    if (c.across < c.ndim) {
        int64_t extent = c.dim[c.across].extent;
        /* A band has so many rows that each piece (strip of a band) has about
         * TASK_BYTES. */
        c.band = (TASK_BYTES / each / 64 + 1) * 64;
        c.bands = (extent + c.band - 1) / c.band;
        each *= tn__cpu_min(c.band, extent);
    }
    c.tasks = c.strips * c.bands;
    for (uint32_t d = 0; d + 1 < c.ndim; d++)
        if (d != c.across)
            c.tasks *= c.dim[d].extent;
    c.per_task = TASK_BYTES / each > 0 ? TASK_BYTES / each : 1;
    int64_t tasks = (c.tasks + c.per_task - 1) / c.per_task;
    if (tasks == 1)
        run_pieces(&c, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_pieces, &c);
    return true;
}

const cpu_path tn__cpu_path_copy = {
    .name = "copy", .recognise = recognise, .launch = launch_copy};
