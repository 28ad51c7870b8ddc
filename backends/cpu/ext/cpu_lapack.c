/* cpu_lapack.c: the extension `lapack`: factorisations (Cholesky, LU, QR, eigh,
 * SVD) and solvers for batches of small matrices.
 *
 * LAPACK factors matrices one after another, and each is too small to fill
 * vectors. Here a task interleaves as many matrices as a vector has lanes,
 * factors all of them at once (routines_lapack.c) and copies the results
 * back. */
#include <stdatomic.h>
#include <string.h>

#include "../cpu_device.h"

enum {
    /* Minimum number of matrices in a batch. LAPACK is faster for fewer
     * matrices. A vector with more lanes needs at least as many matrices as
     * lanes. */
    MIN_BATCH = 4,
    /* maximum number of right-hand sides */
    MAX_SIDES = 64
};

typedef struct batch {
    const tn_lapack_args *args;
    tn_cpu_lapack *run;
    tn_cpu_transpose *transpose;
    /* bytes is the size of an element, lanes the number of lanes of a
     * vector. */
    int64_t bytes, lanes;
    atomic_int failed;
} batch;

/* An operand of a batch of matrices. A line is a row or a column of a matrix,
 * whichever is contiguous. Each matrix has `lines` lines of `length` elements,
 * and the beginnings of two lines are `step` elements apart.
 * lanes[element][lane] is the interleaved copy: lane l has matrix l. */
typedef struct operand {
    const tn_strided *x;
    int64_t lines, length, step;
    char *lanes;
    /* strides of a matrix's rows and columns in lanes[], in vectors */
    int64_t row, column;
} operand;

/* Describes an operand whose rows or columns are contiguous. */
static operand operand_of(const tn_strided *x, int64_t rows, int64_t columns)
{
    if (x->stride[2] == 1)
        return (operand){x, columns, rows, x->stride[1], NULL, 1, rows};
    return (operand){x, rows, columns, x->stride[2], NULL, columns, 1};
}

/* Copies `count` matrices, beginning with matrix `first`, from the tensor to
 * o->lanes, or the other way if `back` is set. Lanes without a matrix get a
 * copy of matrix `first`. */
static void move_lanes(const batch *t, const operand *o, int64_t first,
                       int64_t count, bool back)
{
    const bool dense = o->step == o->length || o->lines == 1;
    const int64_t lines = dense ? 1 : o->lines;
    const int64_t length = dense ? o->lines * o->length : o->length;
    const int64_t each = o->x->stride[0], lanes = t->lanes;
    char *at = tn__cpu_at(o->x->buffer, o->x->offset + first * each,
                          (size_t)t->bytes);
    for (int64_t i = 0; i < lines; i++) {
        char *line = at + i * o->step * t->bytes;
        char *in = o->lanes + i * length * lanes * t->bytes;
        if (back)
            t->transpose(line, each, in, lanes, length, count, 0);
        else
            t->transpose(in, lanes, line, each, count, length, 0);
        for (int64_t k = 0; k < length && !back && count < lanes; k++)
            for (int64_t l = count; l < lanes; l++)
                memcpy(in + (k * lanes + l) * t->bytes,
                       in + k * lanes * t->bytes, (size_t)t->bytes);
    }
}

/* Integers of a batch (pivots or info): `width` integers for each matrix. The
 * integers in the tensor are larger by `by` than those in the interleaved copy,
 * because LAPACK counts pivots from 1. */
typedef struct ints {
    const tn_strided *x;
    int64_t width;
    int32_t by;
    int32_t *in; /* the interleaved copy, in[i][lane] */
} ints;

/* Copies the integers of `count` matrices, beginning with matrix `first`, from
 * the tensor to n->in, or the other way if `back` is set. */
static void move_ints(const batch *t, const ints *n, int64_t first,
                      int64_t count, bool back)
{
    for (int64_t k = 0; k < t->lanes; k++) {
        const int64_t from = first + (k < count ? k : 0);
        int32_t *at = (int32_t *)(void *)tn__cpu_at(
            n->x->buffer, n->x->offset + from * n->x->stride[0], 4);
        for (int64_t i = 0; i < n->width && (!back || k < count); i++)
            if (back)
                at[i] = n->in[i * t->lanes + k] + n->by;
            else
                n->in[i * t->lanes + k] = at[i] - n->by;
    }
}

/* Sets *reads and *writes to bit masks of the operands that the computation
 * reads and writes. Bits 0, 1 and 2 are operands a, b and c. */
static void operands_of(const tn_lapack_args *args, unsigned *reads,
                        unsigned *writes)
{
    const bool vectors = args->flags & TN_LAPACK_VECTORS;
    *reads = *writes = 1;
    switch (args->kind) {
    case TN_LAPACK_SOLVE:
    case TN_LAPACK_TRIANGLE:
        *reads = 1 | 2;
        *writes = 2;
        break;
    case TN_LAPACK_QR:
        *writes = args->sides ? 1 | 2 : 1;
        break;
    case TN_LAPACK_EIGH:
        *writes = vectors ? 1 : 0;
        break;
    case TN_LAPACK_SVD:
        *writes = vectors ? 2 | 4 : 0;
        break;
    default:
        break;
    }
}

/* Computes group `number` of the batch. A group has as many matrices as a
 * vector has lanes. Returns false if out of memory. */
static bool group(const batch *t, int64_t number)
{
    const tn_lapack_args *args = t->args;
    const uint32_t kind = args->kind;
    const bool solve = kind == TN_LAPACK_SOLVE, lu = kind == TN_LAPACK_LU;
    const bool right = kind == TN_LAPACK_TRIANGLE;
    const int64_t first = number * t->lanes, vector = t->lanes * t->bytes;
    const int64_t count = tn__cpu_min(t->lanes, args->batch - first);
    const int64_t m = args->m, n = args->n, sides = args->sides;
    const int64_t least = tn__cpu_min(m, n);
    unsigned reads, writes;
    operands_of(args, &reads, &writes);
    operand all[] = {operand_of(&args->a, m, n),
                     operand_of(&args->b, right ? sides : m, right ? n : sides),
                     operand_of(&args->c, n, n)};
    int64_t vectors = n + n * n;
    for (int i = 0; i < 3; i++)
        vectors += (reads | writes) >> i & 1 ? all[i].lines * all[i].length : 0;
    char *memory = tn__cpu_memory_acquire(
        (size_t)(vectors * vector + (least + 1) * t->lanes * 4));
    if (!memory)
        return false;
    tn_cpu_lapack_work w = {.kind = kind, .flags = args->flags, .m = (int)m,
                            .n = (int)n, .sides = (int)sides,
                            .values = memory, .room = memory + n * vector};
    tn_cpu_lanes *const view[] = {&w.a, &w.b, &w.c};
    char *at = memory + (n + n * n) * vector;
    for (int i = 0; i < 3; i++) {
        if (!((reads | writes) >> i & 1))
            continue;
        all[i].lanes = at;
        *view[i] = (tn_cpu_lanes){at, all[i].row, all[i].column};
        at += all[i].lines * all[i].length * vector;
        if (reads >> i & 1)
            move_lanes(t, &all[i], first, count, false);
    }
    w.info = (int32_t *)(void *)at;
    w.pivots = w.info + t->lanes;
    if (solve)
        move_ints(t, &(ints){&args->pivots, least, 1, w.pivots}, first, count,
                  false);
    t->run(&w);
    for (int i = 0; i < 3; i++)
        if (writes >> i & 1)
            move_lanes(t, &all[i], first, count, true);
    if (kind >= TN_LAPACK_EIGH)
        move_lanes(t, &(operand){&args->values, 1, n, n, w.values, 0, 0}, first,
                   count, true);
    if (lu)
        move_ints(t, &(ints){&args->pivots, least, 1, w.pivots}, first, count,
                  true);
    if (!solve && !right)
        move_ints(t, &(ints){&args->info, 1, 0, w.info}, first, count, true);
    tn__cpu_memory_release(memory);
    return true;
}

static void run_group(void *context, int64_t number)
{
    batch *t = context;
    unsigned fpu = tn__cpu_fpu_set();
    if (!group(t, number))
        atomic_store(&t->failed, 1);
    tn__cpu_fpu_restore(fpu);
}

/* ---- the call ------------------------------------------------------------ */

static tn_status declined(const char *why)
{
    return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "lapack: %s", why);
}

static tn_status fits(tn_plugin_device *device)
{
    return device->routines->lapack[CPU_F32]
               ? TN_OK
               : declined("the instruction set generic has no loops for "
                          "matrices");
}

static tn_status takes(tn_plugin_device *device, const tn_lapack_args *args)
{
    const unsigned type = args->a.dtype == TN_F32 ? CPU_F32 : CPU_F64;
    if (args->batch < MIN_BATCH ||
        args->batch < device->routines->lapack_lanes[type])
        return declined("so few matrices are faster one at a time");
    if (args->m > TN_CPU_LAPACK_MOST || args->n > TN_CPU_LAPACK_MOST ||
        args->sides > MAX_SIDES)
        return declined("the limits are 32 rows and columns and 64 "
                        "right-hand sides");
    if (args->kind >= TN_LAPACK_EIGH && type == CPU_F64 && args->m > 16)
        return declined("EIGH and SVD of more than 16 rows of float64 are "
                        "faster one at a time");
    return TN_OK;
}

static tn_status run(tn_queue *queue, const tn_lapack_args *args)
{
    const bool single = args->a.dtype == TN_F32;
    const unsigned type = single ? CPU_F32 : CPU_F64;
    const int64_t bytes = single ? 4 : 8;
    if (!tn_lapack_is_known(args))
        return tn__cpu_unknown("lapack");
    batch t = {.args = args,
               .bytes = bytes,
               .run = queue->routines->lapack[type],
               .transpose = queue->routines->transpose[bytes],
               .lanes = queue->routines->lapack_lanes[type]};
    atomic_init(&t.failed, 0);
    tn__cpu_host->parallel_for((args->batch + t.lanes - 1) / t.lanes,
                               run_group, &t);
    return atomic_load(&t.failed)
               ? tn__cpu_host->fail(TN_ERR_MEMORY, "lapack: out of memory for "
                                                   "a group of matrices")
               : TN_OK;
}

const tn_lapack_extension tn__cpu_lapack_extension = {
    .size = sizeof(tn_lapack_extension),
    .flags = TN_LAPACK_BY_ROWS,
    .fits = fits,
    .run = run,
    .takes = takes};
