/* row_product.c: products c = a b in which the columns of b are contiguous, as
 * the rows of a layer's weight are. simd/routines_rows.c has the loops. It
 * defines the order of the sums, which is the same for one row of a and for
 * many.
 *
 * A task computes some columns of c for some rows. Before the product, a is
 * converted to float32. The loops convert b. After the product, the sums are
 * converted to the dtype of c. */
#include <stdatomic.h>

#include "row_product.h"

enum {
    ROWS = 128, /* rows of a that a task multiplies */
    /* The columns of c that a task computes are a multiple of GROUP. A task
     * reads at least TASK_BYTES bytes of b, or computes at least TASK_WORK
     * products. */
    LEAST = 64, /* for a smaller k, tiles are faster (float_product.c) */
    GROUP = 12, /* a multiple of TILE_B in routines_rows.c */
    TASK_BYTES = 1 << 18,
    TASK_WORK = 1 << 20,
    HALF_WORK = 1 << 22 /* Replaces TASK_WORK if c has a half type. Results are
                           then converted, and converting 12 of them takes as
                           long as converting 48. */
};

typedef struct product {
    const tn_cpu_routines *routines;
    const tn_matmul_args *m;
    const void *a; /* float32, or bfloat16 in a relaxed product */
    int64_t a_row;
    const char *b;
    char *c;
    int64_t b_row, c_row, bytes; /* rows in elements; bytes of an element of b
                                    and c */
    int64_t each, columns; /* columns of c that a task computes; number of tasks
                              along the columns */
    tn_cpu_rows *rows;
    tn_cpu_bf16_rows *relaxed; /* NULL if the product is not relaxed */
    tn_cpu_epilogue *then; /* a launch over c, or NULL */
    atomic_bool failed;
} product;

static bool is_half(uint32_t dtype)
{
    return dtype == TN_F16 || dtype == TN_BF16;
}

bool tn__cpu_row_product_takes(const tn_matmul_args *m)
{
    return m->batch_ndim == 0 && m->m > 0 && m->n > 1 && m->k >= LEAST &&
           (m->c.dtype == TN_F32 || is_half(m->c.dtype)) && m->alpha == 1 &&
           m->beta == 0 && m->b.stride[0] == 1 && m->b.stride[1] >= m->k &&
           m->c.stride[1] == 1;
}

static void task(void *context, int64_t number)
{
    product *p = context;
    const int64_t k = p->m->k;
    const int64_t j = number % p->columns * p->each;
    const int64_t i = number / p->columns * ROWS;
    const int64_t n = j + 2 * p->each > p->m->n ? p->m->n - j : p->each;
    const int64_t m = tn__cpu_min(ROWS, p->m->m - i);
    const bool half = is_half(p->m->c.dtype);
    char *const c = p->c + (i * p->c_row + j) * p->bytes;
    float *out = half ? tn__cpu_scratch((size_t)(m * n) * 4)
                      : (float *)(void *)c;
    if (!out) {
        atomic_store(&p->failed, true);
        return;
    }
    unsigned fpu = tn__cpu_fpu_set();
    const char *b = p->b + j * p->b_row * p->bytes;
    const int64_t out_row = half ? n : p->c_row;
    if (p->relaxed)
        p->relaxed(m, n, k, (const uint16_t *)p->a + i * p->a_row, p->a_row, b,
                   p->b_row, out, out_row);
    else
        p->rows(m, n, k, (const float *)p->a + i * p->a_row, p->a_row, b,
                p->b_row, out, out_row);
    for (int64_t r = 0; half && r < m; r++)
        p->routines->store[p->m->c.dtype](c + r * p->c_row * p->bytes,
                                          out + r * n, 1, n);
    if (p->then && tn__cpu_epilogue_part(p->then, i / ROWS, 1)) {
        const int64_t from[2] = {i, 0}, end[2] = {i + m, p->m->n};
        tn__cpu_epilogue_run(p->then, from, end);
    }
    tn__cpu_fpu_restore(fpu);
}

/* Arguments of the tasks that copy a to contiguous float32, or bfloat16 in a
 * relaxed product. */
typedef struct copying {
    const product *p;
    void *to;
} copying;

static void copy_row(void *context, int64_t i)
{
    const copying *s = context;
    const tn_strided *a = &s->p->m->a;
    const int64_t k = s->p->m->k;
    const void *from = tn__cpu_at(a->buffer, a->offset + i * a->stride[0],
                                  (size_t)s->p->bytes);
    if (s->p->relaxed) {
        for (int64_t j = 0; j < k; j++)
            ((uint16_t *)s->to)[i * k + j] =
                ((const uint16_t *)from)[j * a->stride[1]];
        return;
    }
    unsigned fpu = tn__cpu_fpu_set();
    s->p->routines->load[a->dtype]((float *)s->to + i * k, from, a->stride[1],
                                   k);
    tn__cpu_fpu_restore(fpu);
}

static void cut(product *p)
{
    const tn_matmul_args *m = p->m;
    const int64_t rows = tn__cpu_min(m->m, ROWS), line = m->k * p->bytes;
    const int64_t least = p->bytes == 2 ? HALF_WORK : TASK_WORK;
    int64_t each = least / (rows * m->k);
    if (each * line < TASK_BYTES && rows < GROUP)
        each = TASK_BYTES / line;
    p->each = (each / GROUP + 1) * GROUP;
    p->columns = m->n < p->each ? 1 : m->n / p->each; /* the last task has the
                                                         rest, too */
}

tn_status tn__cpu_row_product(const tn_cpu_routines *routines,
                              const tn_matmul_args *m, tn_cpu_epilogue *then,
                              uint32_t columns)
{
    product p = {.routines = routines, .m = m, .a_row = m->a.stride[0],
                 .b_row = m->b.stride[1], .c_row = m->c.stride[0],
                 .bytes = is_half(m->c.dtype) ? 2 : 4,
                 .rows = routines->rows[m->b.dtype]};
    if (m->flags & TN_MATMUL_RELAXED && m->b.dtype == TN_BF16)
        p.relaxed = routines->bf16_rows;
    atomic_init(&p.failed, false);
    p.b = tn__cpu_at(m->b.buffer, m->b.offset, (size_t)p.bytes);
    p.c = tn__cpu_at(m->c.buffer, m->c.offset, (size_t)p.bytes);
    char *copy = NULL;
    if ((is_half(m->a.dtype) && !p.relaxed) || m->a.stride[1] != 1) {
        copy = tn__cpu_memory_acquire((size_t)(m->m * m->k) * 4);
        if (!copy)
            return tn__cpu_host->fail(TN_ERR_MEMORY,
                                      "matmul: out of memory for a copy of "
                                      "(%lld, %lld)",
                                      (long long)m->m, (long long)m->k);
        copying s = {&p, copy};
        tn__cpu_host->parallel_for(m->m, copy_row, &s);
        p.a = s.to;
        p.a_row = m->k;
    } else {
        p.a = tn__cpu_at(m->a.buffer, m->a.offset, (size_t)p.bytes);
    }
    cut(&p);
    const tn_cpu_epilogue_cut blocks = {.blocks = (m->m + ROWS - 1) / ROWS,
                                        .parts = p.columns, .ranges = 2,
                                        .first = {0, columns}, .whole = 1};
    p.then = tn__cpu_epilogue_take(then, &blocks) ? then : NULL;
    tn__cpu_host->parallel_for(blocks.blocks * p.columns, task, &p);
    tn__cpu_memory_release(copy);
    return atomic_load(&p.failed)
               ? tn__cpu_host->fail(TN_ERR_MEMORY,
                                    "matmul: out of memory for a task")
               : TN_OK;
}
