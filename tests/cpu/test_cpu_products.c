/* Tests products so large that their operands are packed once for all tiles.
 * The results are bit-identical to the same products computed a few rows at a
 * time, which are not packed. Layouts have gaps, strides and NaN as in
 * test_cpu_primitives.c. */
#include <math.h>

#include "cpu_plugin.h"

enum { ROWS = 61 }; /* rows computed at a time: too few to be packed */

typedef struct product_case {
    int64_t batch, m, n, k;
    int layout; /* bits 0 to 2: a, b, c is transposed; 8: rows have gaps; 16:
                 * all columns have a stride of 2 */
    double alpha, beta;
} product_case;

/* Products of 8 million multiply-adds or more, which are packed. Blocks have
 * 2048 rows or columns and 384 of k. With few rows and columns, blocks have
 * more of k, and tiles are smaller. */
static const product_case products[] = {
    {1, 300, 280, 130, 0, 1, 0},   {1, 260, 270, 300, 7, 1, 0},
    {2, 130, 331, 200, 8, 2, 3},   {1, 2100, 70, 64, 1, 1, 1},
    {1, 70, 2100, 64, 4, 1, 0},    {1, 2061, 2053, 3, 2, 1, 0},
    {1, 150, 140, 601, 2, -1, 1},  {1, 133, 129, 1201, 3, 1, 0.5},
    {1, 300, 301, 100, 31, 1, 0},  {2, 530, 517, 64, 6, 1, 0},
    {1, 64, 2048, 65, 5, 0.25, 1}, {1, 513, 300, 385, 12, 1, 0},
    {1, 128, 128, 2048, 3, 1, 0},  {1, 65, 130, 2099, 2, 1, 1},
    {1, 67, 512, 1100, 1, 2, 0}};

static int64_t lay_out(tn_strided *view, int64_t batch, int64_t rows,
                       int64_t columns, bool transposed, int layout)
{
    const int64_t step = layout & 16 ? 2 : 1, gap = layout & 8 ? 3 : 0;
    const int64_t inner = transposed ? rows : columns;
    const int64_t outer = transposed ? columns : rows;
    const int64_t pitch = inner * step + gap;
    view->ndim = 3;
    view->offset = 2;
    view->stride[0] = outer * pitch;
    view->stride[transposed ? 2 : 1] = pitch;
    view->stride[transposed ? 1 : 2] = step;
    return 2 + batch * outer * pitch + 1;
}

static void fill(void *memory, tn_dtype dtype, int64_t elements, bool nan)
{
    for (int64_t i = 0; i < elements; i++) {
        const double x = nan ? NAN : (double)(random_below(2000) - 1000) / 7;
        if (dtype == TN_F64)
            ((double *)memory)[i] = x;
        else
            ((float *)memory)[i] = (float)x;
    }
}

static bool product_is_right(tn_dtype dtype, const product_case *p)
{
    tn_matmul_args m = {.size = sizeof m, .batch_ndim = 1,
                        .batch = {p->batch}, .m = p->m, .n = p->n, .k = p->k,
                        .alpha = p->alpha, .beta = p->beta};
    tn_strided *views[3] = {&m.a, &m.b, &m.c};
    const int64_t rows[3] = {p->m, p->k, p->m};
    const int64_t columns[3] = {p->k, p->n, p->n};
    size_t bytes = 0;
    void *memory[3];
    for (int v = 0; v < 3; v++) {
        const int64_t elements =
            lay_out(views[v], p->batch, rows[v], columns[v], p->layout >> v & 1,
                    p->layout);
        bytes = (size_t)elements * (dtype == TN_F64 ? 8 : 4);
        views[v]->dtype = dtype;
        views[v]->buffer = buffer_new(bytes, &memory[v]);
        fill(memory[v], dtype, elements, v == 2 && p->beta == 0);
    }
    char *before = malloc(bytes), *whole = malloc(bytes);
    if (!before || !whole)
        bail_out("out of memory");
    memcpy(before, memory[2], bytes);
    if (cpu->matmul(queue, &m) != TN_OK)
        bail_out("%s", failure);
    memcpy(whole, memory[2], bytes);
    memcpy(memory[2], before, bytes);
    for (int64_t i = 0; i < p->m; i += ROWS) {
        tn_matmul_args few = m;
        few.m = p->m - i < ROWS ? p->m - i : ROWS;
        few.a.offset += i * m.a.stride[1];
        few.c.offset += i * m.c.stride[1];
        if (cpu->matmul(queue, &few) != TN_OK)
            bail_out("%s", failure);
    }
    const bool same = memcmp(whole, memory[2], bytes) == 0 &&
                      memcmp(whole, before, bytes) != 0;
    if (!same)
        note("dtype %u, batch %d of (%d, %d, %d), layout %d", dtype,
             (int)p->batch, (int)p->m, (int)p->n, (int)p->k, p->layout);
    free(before);
    free(whole);
    for (int v = 0; v < 3; v++)
        buffer_drop(views[v]->buffer);
    return same;
}

/* Multiplies a row with n long columns that are contiguous. Several columns
 * computed at a time must equal one at a time. Both add to the output. */
static bool row_is_right(tn_dtype dtype, int64_t n, int64_t k)
{
    const size_t size = dtype == TN_F64 ? 8 : 4;
    tn_matmul_args m = {.size = sizeof m, .m = 1, .n = n, .k = k, .alpha = 2,
                        .beta = -3};
    tn_strided *views[3] = {&m.a, &m.b, &m.c};
    const int64_t elements[3] = {k, n * (k + 5), 2 * n};
    const int64_t stride[3][2] = {{k, 1}, {1, k + 5}, {1, 1}};
    void *memory[3];
    for (int v = 0; v < 3; v++) {
        *views[v] = (tn_strided){
            .buffer = buffer_new((size_t)elements[v] * size, &memory[v]),
            .dtype = dtype, .ndim = 2,
            .stride = {stride[v][0], stride[v][1]}};
        fill(memory[v], dtype, elements[v], false);
    }
    char *one = (char *)memory[2] + (size_t)n * size;
    memcpy(one, memory[2], (size_t)n * size);
    if (cpu->matmul(queue, &m) != TN_OK)
        bail_out("%s", failure);
    m.n = 1;
    m.c.offset = n;
    for (int64_t j = 0; j < n; j++, m.b.offset += k + 5, m.c.offset++)
        if (cpu->matmul(queue, &m) != TN_OK)
            bail_out("%s", failure);
    const bool same = memcmp(memory[2], one, (size_t)n * size) == 0;
    for (int v = 0; v < 3; v++)
        buffer_drop(views[v]->buffer);
    return same;
}

int main(void)
{
    static const char *const isas[] = {"generic", "v3", "v4"};
    plan_later();
    random_state = 5;
    plugin_load();
    for (int i = 0; i < 3; i++) {
        if (!plugin_open(isas[i])) {
            skip(1, failure);
            continue;
        }
        for (int threads = 1; threads <= 7; threads += 3) {
            bool right = true;
            tn_set_num_threads(threads);
            for (size_t p = 0; p < sizeof products / sizeof *products; p++)
                right = product_is_right(p % 3 == 2 ? TN_F64 : TN_F32,
                                         &products[p]) && right;
            ok(right, "%s, %d threads: large products as %d rows at a time",
               isas[i], threads, ROWS);
        }
        bool right = true;
        for (int64_t n = 1; n < 12; n++)
            for (int64_t k = 2047; k < 9000; k += 2049)
                right = row_is_right(n % 2 ? TN_F32 : TN_F64, n, k) && right;
        ok(right, "%s: a long row times columns as one by one", isas[i]);
        plugin_close();
    }
    return done_testing();
}
