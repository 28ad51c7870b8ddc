/* take.c: copies by one index: gather, index_select, embedding. If the index is
 * the same for a whole contiguous row, as in embedding, each row is one copy.
 * Otherwise elements are gathered one by one. */
#include <string.h>

#include "../program/program.h"
#include "../run/view.h"

#define TASK_ELEMENTS 32768 /* number of output elements that one task copies */
/* number of indices that are first checked and then gathered */
#define BLOCK 256
/* number of elements that are gathered between two prefetches */
#define GROUP 16
#define AHEAD 1536 /* prefetch distance of the index, in elements */
#define LINE 64    /* bytes of a cache line */

/* Returns whether the program is a LOAD of an index, a LOAD by this index, and
 * a STORE of the loaded value. Sets built->take. */
static bool recognise(tn_built *built, const tn_program *program)
{
    const tn_kernel_ins *index = NULL, *load = NULL, *store = NULL;
    uint32_t number = TN_NONE;
    if (built->has_rows || program->ins_count != 3)
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        const tn_kernel_ins *ins = &program->ins[i];
        if (ins->op == TN_K_STORE) {
            store = ins;
        } else if (ins->op == TN_K_LOAD && ins->a == TN_NONE) {
            index = ins;
            number = i;
        } else if (ins->op == TN_K_LOAD) {
            load = ins;
        }
    }
    if (!index || !load || !store || index->b != TN_NONE ||
        index->c != TN_NONE || load->a != number || load->b != TN_NONE ||
        load->c != TN_NONE)
        return false;
    uint8_t dtype = program->operand[load->imm.i].dtype;
    built->take = (cpu_take){.in = (uint32_t)load->imm.i,
                             .index = (uint32_t)index->imm.i,
                             .out = (uint32_t)store->imm.i,
                             .zero = load->sub & TN_LOAD_ZERO};
    /* A load of a bool changes every value but 0 to 1, so bits may change. */
    return dtype == program->operand[store->imm.i].dtype && dtype != TN_BOOL &&
           program->operand[index->imm.i].dtype == TN_I64;
}

/* A dimension. in, index and out are the strides of the source, the index and
 * the output, in elements. */
typedef struct dimension {
    int64_t extent, in, index, out;
} dimension;

typedef struct take {
    const tn_built *built;
    const tn_launch *launch;
    const char *in;
    const int64_t *index;
    char *out;
    /* bytes is the element size. The index selects from one dimension of the
     * source: step is the stride of that dimension in elements, extent its
     * extent. */
    int64_t bytes, step, extent;
    dimension dim[TN_MAX_NDIM * 2];
    uint32_t ndim; /* number of dimensions, at least 1 */
    /* The last dimension is cut into `blocks` blocks of `block` elements. A
     * piece is one such block of one row. */
    int64_t blocks, block;
    /* pieces is the number of all pieces. per_task is the number of pieces that
     * one task copies. */
    int64_t pieces, per_task;
    /* by_rows: whether the index is the same for a whole row, so that each row
     * is one copy. stream: whether to use non-temporal stores. */
    bool by_rows, stream;
    atomic_flag lock;
    tn_fault fault; /* the first index out of range */
} take;

/* Records an index that is out of range, unless such an index reads 0
 * (take.zero). */
static void raise_fault(take *t, int64_t index, int64_t position)
{
    if (t->built->take.zero)
        return;
    while (atomic_flag_test_and_set_explicit(&t->lock, memory_order_acquire))
        ;
    if (t->fault.code == TN_OK || position < t->fault.position)
        t->fault = (tn_fault){.size = sizeof t->fault,
                              .code = TN_ERR_INDEX,
                              .tag = t->launch->tag,
                              .operand = t->built->take.in,
                              .index = index,
                              .extent = t->extent,
                              .position = position};
    atomic_flag_clear_explicit(&t->lock, memory_order_release);
}

/* Where a piece begins: its offsets in the source, the index and the output,
 * and its row-major index in the launch, all in elements. */
typedef struct place {
    int64_t in, index, out, position;
    /* Memory that the next piece reads, or NULL. It is prefetched by software,
     * because hardware cannot predict which elements are read. */
    const char *next;
    int64_t next_bytes;
} place;

/* Copies n elements of a row, all of which have the same index. */
static void take_row(take *t, place p, int64_t n)
{
    int64_t at = t->index[p.index];
    char *to = t->out + p.out * t->bytes;
    size_t bytes = (size_t)(n * t->bytes);
    if ((uint64_t)at >= (uint64_t)t->extent) {
        memset(to, 0, bytes);
        raise_fault(t, at, p.position);
        return;
    }
    const char *from = t->in + (p.in + at * t->step) * t->bytes;
    if (t->stream)
        t->built->routines->stream(to, from, (int64_t)bytes, 0);
    else
        memcpy(to, from, bytes);
}

/* Gathers a piece: n elements of a row. If the indices are contiguous, BLOCK of
 * them are checked together, and the elements are then gathered without checks.
 * In between, the source of the next piece is prefetched a little at a time,
 * since a core can wait for only a few cache lines at once. */
#define TAKE(name, T)                                                         \
    static void name(take *t, place p, int64_t n)                             \
    {                                                                         \
        const dimension d = t->dim[t->ndim - 1];                              \
        const int64_t step = t->step;                                         \
        const uint64_t extent = (uint64_t)t->extent;                          \
        const T *in = (const T *)t->in + p.in;                                \
        const int64_t *index = t->index + p.index;                            \
        T *out = (T *)t->out + p.out, block[BLOCK];                           \
        int64_t k = 0, share = p.next ? p.next_bytes * GROUP / n : 0;         \
        bool plain = step == 1 && d.in == 0 && d.index == 1 && d.out == 1;    \
        for (int64_t m; plain && k + GROUP <= n; k += m) {                    \
            m = tn__cpu_min(BLOCK, (n - k) / GROUP * GROUP);                  \
            T *to = t->stream ? block : out + k;                              \
            if (t->built->routines->outside(index + k, t->extent, m))         \
                break;                                                        \
            for (int64_t i = 0; i < m; i += GROUP) {                          \
                const int64_t *from = index + k + i;                          \
                tn__cpu_prefetch(from + AHEAD, GROUP * 8);                    \
                if (share)                                                    \
                    tn__cpu_prefetch(p.next + (k + i) / GROUP * share, share);\
                _Pragma("GCC unroll 4") for (int64_t j = 0; j < GROUP; j++)   \
                    to[i + j] = in[from[j]];                                  \
            }                                                                 \
            if (t->stream)                                                    \
                t->built->routines->stream((char *)(out + k), block,          \
                                           m *(int64_t)sizeof(T), 0);         \
        }                                                                     \
        for (int64_t i = k; i < n; i++) {                                     \
            int64_t at = index[i * d.index];                                  \
            bool inside = (uint64_t)at < extent;                              \
            out[i * d.out] = inside ? in[i * d.in + at * step] : 0;           \
            if (!inside)                                                      \
                raise_fault(t, at, p.position + i);                           \
        }                                                                     \
    }
TAKE(take_1, uint8_t)
TAKE(take_2, uint16_t)
TAKE(take_4, uint32_t)
TAKE(take_8, uint64_t)

/* Copies or gathers a piece: n elements of a row. */
static void take_one(take *t, place p, int64_t n)
{
    if (t->by_rows)
        take_row(t, p, n);
    else if (t->bytes == 4)
        take_4(t, p, n);
    else if (t->bytes == 8)
        take_8(t, p, n);
    else if (t->bytes == 2)
        take_2(t, p, n);
    else
        take_1(t, p, n);
}

/* Prefetches the beginning of the source row of output row `row`. Source rows
 * are in any order, so hardware does not prefetch them. */
static void prefetch_row(const take *t, int64_t row)
{
    enum { MOST = 8 * LINE };
    int64_t at = t->index[row * t->dim[0].index];
    if ((uint64_t)at >= (uint64_t)t->extent)
        return;
    const char *from = t->in + (row * t->dim[0].in + at * t->step) * t->bytes;
    int64_t bytes = tn__cpu_min(t->block * t->bytes, MOST);
    for (int64_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch(from + i, 0, 2);
}

/* Copies elements [first, first + n) of `count` rows, beginning with row `row`.
 * Coordinates are incremented from row to row, because divisions would take
 * long if rows are short. */
static void take_rows(take *t, int64_t row, int64_t count, int64_t first,
                      int64_t n)
{
    enum { ROWS_AHEAD = 4, NEAR = 16 << 10 };
    const bool prefetches = t->by_rows && t->ndim == 2 && t->blocks == 1;
    const dimension *last = &t->dim[t->ndim - 1];
    int64_t at[TN_MAX_NDIM * 2] = {0}, number = row;
    place p = {.in = first * last->in, .index = first * last->index,
               .out = first * last->out,
               .position = row * last->extent + first};
    for (uint32_t d = t->ndim - 1; d-- > 0;) {
        const dimension *x = &t->dim[d];
        at[d] = d > 0 ? row % x->extent : row;
        p.in += at[d] * x->in;
        p.index += at[d] * x->index;
        p.out += at[d] * x->out;
        row = d > 0 ? row / x->extent : 0;
    }
    const dimension *rows = &t->dim[t->ndim > 1 ? t->ndim - 2 : 0];
    if (!t->by_rows && t->ndim > 1 && rows->in != 0 && t->step == 1 &&
        t->blocks == 1 && t->extent * t->bytes <= tn__cpu_min(NEAR, n * LINE))
        p.next_bytes = t->extent * t->bytes;
    for (; count > 0; count--, number++) {
        if (prefetches && count > ROWS_AHEAD)
            prefetch_row(t, number + ROWS_AHEAD);
        p.next = count > 1 && p.next_bytes > 0
                     ? t->in + (p.in + rows->in) * t->bytes
                     : NULL;
        take_one(t, p, n);
        p.position += last->extent;
        for (uint32_t d = t->ndim - 1; d-- > 0;) {
            const dimension *x = &t->dim[d];
            p.in += x->in;
            p.index += x->index;
            p.out += x->out;
            if (++at[d] < x->extent)
                break;
            at[d] = 0;
            p.in -= x->extent * x->in;
            p.index -= x->extent * x->index;
            p.out -= x->extent * x->out;
        }
    }
}

/* Computes the pieces (parts of rows) of task i. */
static void run_pieces(void *context, int64_t i)
{
    take *t = context;
    int64_t extent = t->dim[t->ndim - 1].extent;
    int64_t first = i * t->per_task;
    int64_t end = tn__cpu_min(first + t->per_task, t->pieces);
    if (t->blocks == 1)
        take_rows(t, first, end - first, 0, extent);
    for (int64_t k = first; k < end && t->blocks > 1; k++) {
        int64_t at = k % t->blocks * t->block;
        take_rows(t, k / t->blocks, 1, at,
                  tn__cpu_min(t->block, extent - at));
    }
    if (t->stream)
        t->built->routines->fence();
}

/* Merges adjacent dimensions where the strides of all operands allow it.
 * Returns the number of elements. */
static int64_t merge_dimensions(take *t)
{
    const tn_launch *l = t->launch;
    const int64_t *in = l->operand[t->built->take.in].stride;
    const int64_t *index = l->operand[t->built->take.index].stride;
    const int64_t *out = l->operand[t->built->take.out].stride;
    int64_t total = 1;
    t->ndim = 0;
    for (uint32_t d = 0; d < l->outer_ndim + l->row_ndim; d++) {
        dimension x = {l->extent[d], in[d], index[d], out[d]};
        dimension *o = &t->dim[t->ndim ? t->ndim - 1 : 0];
        total *= x.extent;
        if (x.extent == 1)
            continue;
        if (t->ndim > 0 && o->in == x.in * x.extent &&
            o->index == x.index * x.extent && o->out == x.out * x.extent)
            *o = (dimension){o->extent * x.extent, x.in, x.index, x.out};
        else
            t->dim[t->ndim++] = x;
    }
    if (t->ndim == 0)
        t->dim[t->ndim++] = (dimension){1, 0, 0, 1};
    return total;
}

/* Returns the number of different elements of the index. Dimensions along which
 * the index is broadcast are not counted. */
static int64_t distinct_indices(const take *t)
{
    int64_t own = 1;
    for (uint32_t d = 0; d < t->ndim; d++)
        own *= t->dim[d].index != 0 ? t->dim[d].extent : 1;
    return own;
}

/* Returns whether many rows have the same indices. The launch is then faster in
 * blocks that share indices (hoist.c), because these check each index once. */
static bool shares_indices(const take *t, int64_t total)
{
    return t->dim[t->ndim - 1].index != 0 && total / distinct_indices(t) >= 16;
}

static bool launch_take(tn_built *built, const tn_launch *launch,
                        tn_status *status)
{
    const tn_launch_operand *from = &launch->operand[built->take.in];
    const tn_launch_operand *at = &launch->operand[built->take.index];
    const tn_launch_operand *to = &launch->operand[built->take.out];
    take t = {.built = built, .launch = launch, .lock = ATOMIC_FLAG_INIT};
    int64_t total = merge_dimensions(&t);
    if (total == 0)
        return true;
    const dimension *last = &t.dim[t.ndim - 1];
    t.bytes = tn__cpu_dtype_bytes[built->operand[built->take.out].dtype];
    t.in = tn__cpu_at(from->buffer, from->offset, (size_t)t.bytes);
    t.index = (const int64_t *)tn__cpu_at(at->buffer, at->offset, 8);
    t.out = tn__cpu_at(to->buffer, to->offset, (size_t)t.bytes);
    t.step = from->index_stride[0];
    t.extent = from->index_extent[0];
    if (shares_indices(&t, total))
        return false;
    t.by_rows = last->in == 1 && last->index == 0 && last->out == 1;
    /* Random reads leave memory idle. Therefore non-temporal stores are faster
     * for results of at least half of stream_bytes: index_select of 4096 x 1024
     * takes 0.58 ms instead of 0.88 (Zen 5, 2026-11). */
    t.stream = last->out == 1 && total * t.bytes >= built->stream_bytes / 2;
    t.block = tn__cpu_min(TASK_ELEMENTS, last->extent);
    t.blocks = (last->extent + t.block - 1) / t.block;
    t.pieces = total / last->extent * t.blocks;
    t.per_task = TASK_ELEMENTS / t.block;
    int64_t tasks = (t.pieces + t.per_task - 1) / t.per_task;
    if (tasks == 1)
        run_pieces(&t, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_pieces, &t);
    if (t.fault.code != TN_OK)
        *status = tn__cpu_fault_raise(&t.fault);
    return true;
}

const cpu_path tn__cpu_path_take = {
    .name = "take", .recognise = recognise, .launch = launch_take};
