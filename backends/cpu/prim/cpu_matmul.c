/* cpu_matmul.c: batched matrix products c = alpha a b + beta c (the primitive
 * matmul), where a is m x k, b is k x n and c is m x n.
 *
 * A product whose b is contiguous along k, such as x W^T in a layer, is
 * computed by row_product.c.
 *
 * In others c is cut into tiles. One thread computes each tile, by
 * float_product.c for floats and by routines_gemm.c for integers. The order in
 * which an element's products are summed depends only on k and the strides.
 * Therefore results are bit-identical for any number of threads, and do not
 * depend on the other rows and columns. The exception is a product of only one
 * row or one column, which may have its own order (float_product.c). k is not
 * cut, so a product with few rows and columns uses few threads.
 *
 * Half types, and matrices of floats without a unit stride, are first copied to
 * contiguous memory as f32 or f64 ("packed"). Large products of floats pack
 * their operands once for all tiles. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu_device.h"
#include "../epilogue.h"
#include "float_product.h"
#include "row_product.h"

/* Largest m * n * k of a tile, about 10 us of work. A tile of the minimum size
 * (see below) may have more. */
#define TILE_WORK 1048576
/* The minimum size of a tile, so that each packed operand is read for many rows
 * and columns. It is 64 rows and 64 columns, 128 in products of more than
 * MIDDLE_WORK multiply-adds, and 256 in products of more than LARGE_WORK. In
 * products of more than 8 * LARGE_WORK it is 512 columns. */
#define MIDDLE_WORK 33554432
#define LARGE_WORK 134217728
/* A product is large if it has at least this many multiply-adds and c has at
 * least SHARED_SIDE rows and columns. Large products pack their operands once
 * for all tiles. */
#define SHARED_WORK 8388608
#define SHARED_SIDE 64      /* minimum number of rows and columns of a large
                             * product */
/* The large products of a batch run one after another, each on all threads, if
 * each c has at least this many elements, which is enough work for all threads.
 */
#define SHARED_BATCH 262144
#define TASK_WORK 262144 /* minimum m * n * k of a task */
/* Minimum number of elements that a packing task copies. */
#define PACK_ELEMENTS 16384

/* A matrix of the product (a, b or c), in place or packed to contiguous memory,
 * and its stride from batch to batch in elements. */
typedef struct side {
    tn_cpu_matrix of;
    int64_t batch_stride[TN_MAX_NDIM];
} side;

typedef struct product {
    const tn_matmul_args *m;
    const tn_cpu_routines *routines;
    side a, b, c;
    unsigned type;     /* register type of the computation (CPU_F32 ...) */
    uint32_t dtype;    /* dtype of the tensors */
    size_t bytes;      /* bytes of a value of register type `type` */
    int64_t batches, tile_m, tile_n, tiles_m, tiles_n;
    int64_t tiles, tiles_per_task;
    tn_cpu_epilogue *then; /* a launch over the result, or NULL */
    bool launches;         /* whether the tiles run it */
    uint64_t alpha, beta; /* alpha and beta of a product of integers */
    atomic_bool failed;   /* set if a task found no memory */
} product;

/* Returns the offset of a batch's matrix, in elements. */
static int64_t batch_offset(const product *p, const side *s, int64_t batch)
{
    int64_t offset = 0;
    for (uint32_t d = p->m->batch_ndim; d-- > 0;) {
        offset += batch % p->m->batch[d] * s->batch_stride[d];
        batch /= p->m->batch[d];
    }
    return offset;
}

/* Returns the part of one batch's matrix that begins at element (row,
 * column). */
static tn_cpu_matrix part(const product *p, const side *s, int64_t batch,
                          int64_t row, int64_t column)
{
    tn_cpu_matrix x = s->of;
    x.memory += (batch_offset(p, s, batch) + row * x.row + column * x.column) *
                (int64_t)p->bytes;
    return x;
}

static bool is_float(const product *p)
{
    return p->type == CPU_F32 || p->type == CPU_F64;
}

/* Returns the product for a tile of c: m rows beginning with `row` and n
 * columns beginning with `column`. */
static tn_cpu_product cut(const product *p, int64_t batch, int64_t row,
                          int64_t column, int64_t m, int64_t n)
{
    return (tn_cpu_product){
        p->routines, p->type, m, n, p->m->k,
        part(p, &p->a, batch, row, 0), part(p, &p->b, batch, 0, column),
        part(p, &p->c, batch, row, column), p->m->alpha, p->m->beta,
        p->m->m == 1 || p->m->n == 1};
}

/* A block of the result, for which the launch runs, is some rows of all batches as
 * one sequence of rows. `launches` says whether the launch runs for `blocks` of
 * them, each of which is computed in some parts. */
static bool launches(const product *p, int64_t blocks, int64_t parts)
{
    const uint32_t column = p->m->batch_ndim + 1;
    const tn_cpu_epilogue_cut cut = {.blocks = blocks, .parts = parts,
                                     .ranges = 2, .first = {0, column},
                                     .whole = 1};
    return p->then && p->m->c.stride[column] == 1 &&
           tn__cpu_epilogue_take(p->then, &cut);
}

static void launch_rows(const product *p, int64_t first, int64_t end)
{
    const int64_t from[2] = {first, 0}, to[2] = {end, p->m->n};
    tn__cpu_epilogue_run(p->then, from, to);
}

static void run_tile(product *p, int64_t i)
{
    int64_t column = i % p->tiles_n * p->tile_n;
    int64_t row = i / p->tiles_n % p->tiles_m * p->tile_m;
    int64_t batch = i / p->tiles_n / p->tiles_m;
    tn_cpu_product t = cut(p, batch, row, column,
                           tn__cpu_min(p->tile_m, p->m->m - row),
                           tn__cpu_min(p->tile_n, p->m->n - column));
    if (!is_float(p))
        p->routines->gemm[p->type](t.m, t.n, t.k, t.a.memory, t.a.row,
                                   t.a.column, t.b.memory, t.b.row, t.b.column,
                                   t.c.memory, t.c.row, t.c.column, &p->alpha,
                                   &p->beta);
    else if (!tn__cpu_multiply(&t))
        atomic_store(&p->failed, true);
    if (p->launches && p->tiles != p->batches &&
        tn__cpu_epilogue_part(p->then, i / p->tiles_n, 1))
        launch_rows(p, batch * p->m->m + row, batch * p->m->m + row + t.m);
}

static void run_task(void *context, int64_t i)
{
    product *p = context;
    int64_t first = i * p->tiles_per_task;
    int64_t end = tn__cpu_min(first + p->tiles_per_task, p->tiles);
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t tile = first; tile < end; tile++)
        run_tile(p, tile);
    /* If each tile is a whole matrix, a block is all of a task. */
    if (p->launches && p->tiles == p->batches)
        launch_rows(p, first * p->m->m, end * p->m->m);
    tn__cpu_fpu_restore(fpu);
}

/* Cuts c into tiles of about TILE_WORK multiply-adds. */
static void cut_tiles(product *p)
{
    int64_t m = p->m->m, n = p->m->n, k = p->m->k > 0 ? p->m->k : 1;
    double work = (double)m * (double)n * (double)k;
    int64_t least_m = work > LARGE_WORK ? 256 : work > MIDDLE_WORK ? 128 : 64;
    int64_t least_n = work > 8.0 * LARGE_WORK ? 512 : least_m;
    p->tile_m = m;
    /* First cuts c into an upper and a lower half, because a later elementwise
     * operation on c is distributed over threads in the same halves. */
    if (p->batches == 1 && work > TILE_WORK && m >= 2 * least_m)
        p->tile_m = ((m + 1) / 2 + 15) & ~(int64_t)15;
    p->tile_n = n;
    while ((double)p->tile_m * (double)p->tile_n * (double)k > TILE_WORK &&
           (p->tile_m > least_m || p->tile_n > least_n)) {
        if (p->tile_m * least_n > p->tile_n * least_m)
            p->tile_m = ((p->tile_m + 1) / 2 + 15) & ~(int64_t)15;
        else
            p->tile_n = ((p->tile_n + 1) / 2 + 31) & ~(int64_t)31;
    }
    p->tiles_m = (m + p->tile_m - 1) / p->tile_m;
    p->tiles_n = (n + p->tile_n - 1) / p->tile_n;
    p->tiles = p->batches * p->tiles_m * p->tiles_n;
    /* If products are small, a task computes many of a batch. */
    p->tiles_per_task = TASK_WORK / (p->tile_m * p->tile_n * k) + 1;
}

/* Returns whether the product is large enough to pack its operands once for all
 * tiles. */
static bool is_shared(const product *p)
{
    const double m = (double)p->m->m, n = (double)p->m->n;
    return is_float(p) && p->m->m >= SHARED_SIDE && p->m->n >= SHARED_SIDE &&
           m * n * (double)p->m->k >= SHARED_WORK &&
           (p->batches == 1 || m * n >= SHARED_BATCH);
}

/* Computes the result. If it is then not yet in the memory of the view
 * (`stored`), the launch cannot run for parts of it. */
static void run_tiles(product *p, bool stored)
{
    if (is_shared(p)) {
        /* A block is a row of tiles. */
        tn_cpu_epilogue *const then =
            stored && p->m->n <= TN_CPU_SHARED &&
                    launches(p, p->batches * ((p->m->m + 127) / 128),
                             1)
                ? p->then
                : NULL;
        for (int64_t i = 0; i < p->batches; i++) {
            tn_cpu_product whole = cut(p, i, 0, 0, p->m->m, p->m->n);
            if (!tn__cpu_multiply_shared(&whole, then, i * p->m->m))
                p->failed = true;
        }
        return;
    }
    cut_tiles(p);
    int64_t tasks = (p->tiles + p->tiles_per_task - 1) / p->tiles_per_task;
    p->launches =
        stored && (p->tiles == p->batches
                       ? launches(p, tasks, 1)
                       : launches(p, p->tiles / p->tiles_n, p->tiles_n));
    if (tasks == 1)
        run_task(p, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_task, p);
}

/* ---- packing ------------------------------------------------------------- */

/* Copies the matrices of a view to contiguous memory, or back, one line at a
 * time. A line is a row, or a column if columns have the smaller stride. */
typedef struct packing {
    const product *p;
    const tn_strided *view;
    /* The number of lines of a matrix, and of elements of a line. */
    int64_t runs, run;
    /* The view's strides in elements, from line to line and within a line. */
    int64_t next, step;
    /* The number of lines that a task copies. */
    int64_t per_task;
    char *memory; /* the packed copy: memory[batch][line][element] */
    bool back;    /* true copies from memory to the view */
    bool launches; /* whether the launch over the result follows; a line is
                    * then a row of c */
} packing;

static void pack_run(const packing *k, int64_t i)
{
    const product *p = k->p;
    const tn_strided *view = k->view;
    int64_t bytes = tn__cpu_dtype_bytes[view->dtype], batch = i / k->runs;
    int64_t offset = view->offset + i % k->runs * k->next;
    for (uint32_t d = p->m->batch_ndim; d-- > 0;) {
        offset += batch % p->m->batch[d] * view->stride[d];
        batch /= p->m->batch[d];
    }
    char *outside = view->buffer->memory + offset * bytes;
    char *inside = k->memory + i * k->run * (int64_t)p->bytes;
    if (k->back)
        p->routines->store[view->dtype](outside, inside, k->step, k->run);
    else
        p->routines->load[view->dtype](inside, outside, k->step, k->run);
}

static void pack_task(void *context, int64_t task)
{
    const packing *k = context;
    int64_t count = k->p->batches * k->runs, first = task * k->per_task;
    unsigned fpu = tn__cpu_fpu_set();
    for (int64_t i = first; i < count && i < first + k->per_task; i++)
        pack_run(k, i);
    if (k->launches)
        launch_rows(k->p, first, tn__cpu_min(count, first + k->per_task));
    tn__cpu_fpu_restore(fpu);
}

/* Returns whether the stride between the elements of a column is smaller than
 * the stride between the elements of a row. */
static bool by_columns(const product *p, const tn_strided *view)
{
    return llabs(view->stride[p->m->batch_ndim]) <
           llabs(view->stride[p->m->batch_ndim + 1]);
}

static void pack(const product *p, const tn_strided *view, int64_t rows,
                 int64_t columns, char *memory, bool back)
{
    const int64_t *stride = view->stride + p->m->batch_ndim;
    bool turned = by_columns(p, view);
    packing k = {p, view, .memory = memory, .back = back};
    k.runs = turned ? columns : rows;
    k.run = turned ? rows : columns;
    k.next = stride[turned];
    k.step = stride[!turned];
    k.per_task = PACK_ELEMENTS / (k.run + 1) + 1;
    int64_t tasks = (p->batches * k.runs + k.per_task - 1) / k.per_task;
    k.launches = back && !turned && launches(p, tasks, 1);
    if (tasks == 1)
        pack_task(&k, 0);
    else
        tn__cpu_host->parallel_for(tasks, pack_task, &k);
}

/* Describes a matrix of the product in *s: in the view's memory if the product
 * can read it in place. Otherwise allocates a packed matrix and stores its
 * memory in *owned, which the caller frees. With `load`, copies the view's
 * elements to it. Returns false if out of memory. */
static bool prepare(product *p, side *s, const tn_strided *view, int64_t rows,
                    int64_t columns, bool load, char **owned)
{
    static char nothing;
    uint32_t nb = p->m->batch_ndim;
    bool converts = tn__cpu_dtype_bytes[p->dtype] != p->bytes;
    int64_t row = view->stride[nb], column = view->stride[nb + 1];
    /* k is 0, so the view may have no memory. */
    if (rows == 0 || columns == 0) {
        *s = (side){{&nothing, 0, 0}, {0}};
        return true;
    }
    s->of = (tn_cpu_matrix){tn__cpu_at(view->buffer, view->offset, p->bytes),
                            row, column};
    memcpy(s->batch_stride, view->stride, nb * sizeof *view->stride);
    if (!converts && (!is_float(p) || row == 1 || column == 1 || rows == 1 ||
                      columns == 1))
        return true;
    size_t count = (size_t)(p->batches * rows * columns);
    *owned = aligned_alloc(TN_CPU_ALIGN, (count * p->bytes + 63) & ~(size_t)63);
    if (!*owned)
        return false;
    s->of = by_columns(p, view) ? (tn_cpu_matrix){*owned, 1, rows}
                                : (tn_cpu_matrix){*owned, columns, 1};
    int64_t stride = rows * columns;
    for (uint32_t d = nb; d-- > 0; stride *= p->m->batch[d])
        s->batch_stride[d] = stride;
    if (load)
        pack(p, view, rows, columns, *owned, false);
    return true;
}

/* Sets the fields of p that do not depend on packing. Returns false if c has no
 * elements. */
static bool set_up(product *p, const tn_matmul_args *m)
{
    p->dtype = m->c.dtype;
    p->type = tn__cpu_register_type[p->dtype];
    p->bytes = tn__cpu_type_bytes[p->type];
    if (!is_float(p)) {
        tn__cpu_number_store(&p->alpha, p->type,
                             (tn_number){.i = (int64_t)m->alpha});
        tn__cpu_number_store(&p->beta, p->type,
                             (tn_number){.i = (int64_t)m->beta});
    }
    p->batches = tn__cpu_numel(m->batch, m->batch_ndim);
    return p->batches > 0 && m->m > 0 && m->n > 0;
}

/* Merges the batch dimensions along which b is the same into the rows of a and
 * c. The matrices of such a batch become one matrix with more rows. */
static void join_batches(tn_matmul_args *m)
{
    while (m->batch_ndim > 0) {
        const uint32_t d = m->batch_ndim - 1;
        int64_t *a = m->a.stride + d, *b = m->b.stride + d;
        int64_t *c = m->c.stride + d;
        if (m->batch[d] != 1 &&
            (b[0] != 0 ||
             (m->m != 1 && (a[0] != m->m * a[1] || c[0] != m->m * c[1]))))
            return;
        if (m->batch[d] != 1 && m->m == 1) {
            a[1] = a[0];
            c[1] = c[0];
        }
        m->m *= m->batch[d];
        memmove(a, a + 1, 2 * sizeof *a);
        memmove(b, b + 1, 2 * sizeof *b);
        memmove(c, c + 1, 2 * sizeof *c);
        m->batch_ndim--;
    }
}

static tn_status multiply(tn_queue *queue, const tn_matmul_args *m,
                          tn_cpu_epilogue *then)
{
    product p; /* set_up, prepare and cut_tiles set the other fields */
    p.m = m;
    p.then = then;
    p.routines = queue->routines;
    atomic_init(&p.failed, false);
    char *owned[3] = {NULL, NULL, NULL};
    if (!set_up(&p, m))
        return TN_OK;
    bool ready =
        prepare(&p, &p.a, &m->a, m->m, m->k, true, &owned[0]) &&
        prepare(&p, &p.b, &m->b, m->k, m->n, true, &owned[1]) &&
        prepare(&p, &p.c, &m->c, m->m, m->n, m->beta != 0, &owned[2]);
    if (ready)
        run_tiles(&p, !owned[2]);
    ready = ready && !atomic_load(&p.failed);
    if (ready && owned[2])
        pack(&p, &m->c, m->m, m->n, owned[2], true);
    for (int i = 0; i < 3; i++)
        free(owned[i]);
    return ready ? TN_OK
                 : tn__cpu_host->fail(TN_ERR_MEMORY,
                                      "matmul: out of memory for packed "
                                      "copies of (%lld, %lld, %lld)",
                                      (long long)m->m, (long long)m->n,
                                      (long long)m->k);
}

tn_status tn__cpu_matmul_then(tn_queue *queue, const tn_matmul_args *args,
                              tn_cpu_epilogue *then)
{
    tn_matmul_args joined;
    joined.size = sizeof joined;
    tn_struct_copy(&joined, args);
    join_batches(&joined);
    if (tn__cpu_row_product_takes(&joined))
        return tn__cpu_row_product(queue->routines, &joined, then,
                                   args->batch_ndim + 1);
    return multiply(queue, args, then);
}

tn_status tn__cpu_matmul(tn_queue *queue, const tn_matmul_args *args)
{
    return tn__cpu_matmul_then(queue, args, NULL);
}
