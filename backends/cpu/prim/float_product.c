/* float_product.c: the matrix product c = alpha a b + beta c of floats, on one
 * thread. a is m x k, b is k x n. shared_product.c divides large products among
 * all threads.
 *
 * b is packed into panels. A panel has DEPTH rows and as many columns as two
 * vectors hold, and stays in L1. The tile loops of convolution (conv_loops.inc)
 * multiply some rows of a by a panel and keep the sums in registers. Rows of a
 * are read in place, or packed into strips of STRIP rows if many panels would
 * read rows that are in different memory pages. Every element of c is a sum of
 * partial sums of DEPTH products each, in order of increasing k. So results are
 * bit-identical however the product is cut into tiles, and do not depend on the
 * other rows and columns.
 *
 * Because (a b)^T = b^T a^T, either operand can be packed into panels: the code
 * chooses the one that moves less data. Products of one row or one column need
 * no panels. If b is contiguous along k, they are dot products, whose sums run
 * along the lanes of a vector, so their bits differ from those of a larger
 * product. If b has contiguous rows, the sums are those of the tiles.
 *
 * row_product.c computes most products of float32 in which b is contiguous
 * along k. */
#include <string.h>

#include "product_job.h"

enum {
    /* b is read in place, not packed, in any of three cases:
     * - c has at most DIRECT_ROWS rows;
     * - b has at most DIRECT_BYTES bytes and so stays in L1;
     * - c has at most DIRECT_STRIDED_ROWS rows, and the rows of b are spread
     *   over many cache sets. */
    DIRECT_ROWS = 16,
    DIRECT_BYTES = 32768,
    DIRECT_STRIDED_ROWS = 64,
    /* Minimum k for which a product of one row is computed as dot products.
     * With a smaller k its sums are those of the tiles. */
    DOTS_LEAST = 64,
    /* c is prefetched if it has more bytes than this, because L2 does not hold
     * it. */
    PREFETCH_BYTES = 4194304
};

static inline void copy(char *to, const char *from, int64_t bytes)
{
    int64_t i = 0;
    for (; i + LINE <= bytes; i += LINE)
        memcpy(to + i, from + i, LINE);
    if (i < bytes)
        memcpy(to + i, from + i, (size_t)(bytes - i));
}

/* Packs columns [j, j + width) of b as a panel, padded with zeros to whole
 * vectors. */
static void pack_panel(const job *g, char *panel, int64_t j, int64_t width)
{
    const tn_cpu_matrix *b = &g->p.b;
    int64_t row = vectors_of(g, width) * g->tiles->lanes;
    int64_t line = row * g->bytes, step = b->row * g->bytes;
    const char *from = element(g, b, g->first, j);
    if (width < row)
        memset(panel, 0, (size_t)(g->depth * line));
    if (b->column == 1)
        for (int64_t i = 0; i < g->depth; i++)
            copy(panel + i * line, from + i * step, width * g->bytes);
    else
        g->transpose(panel, row, from, b->column, width, g->depth, 0);
}

void tn__cpu_product_pack_b(const job *g, int64_t j, int64_t width)
{
    int64_t size = g->depth * g->whole * g->bytes;
    if (g->p.b.column != 1 || width < GROUP * g->whole) {
        for (int64_t q = 0; q < width; q += g->whole)
            pack_panel(g, g->panels + q / g->whole * size, j + q,
                       tn__cpu_min(g->whole, width - q));
        return;
    }
    int64_t line = g->whole * g->bytes;
    for (int64_t i = 0; i < g->depth; i++) {
        const char *from = element(g, &g->p.b, g->first + i, j);
        for (int64_t q = 0; q < GROUP; q++)
            copy(g->panels + q * size + i * line, from + q * line, line);
    }
}

/* Copies one column of a, whose elements are contiguous at `from`, to the
 * packed strips (STRIP rows of a each). */
static void spread_strips(const job *g, char *to, const char *from,
                          int64_t strips)
{
    const int64_t next = strip_bytes(g, g->depth);
    if (g->bytes == 4)
        for (int64_t s = 0; s < strips; s++)
            memcpy(to + s * next, from + s * STRIP * 4, STRIP * 4);
    else
        for (int64_t s = 0; s < strips; s++)
            memcpy(to + s * next, from + s * STRIP * 8, STRIP * 8);
}

/* Packs a matrix a with contiguous rows into strips of STRIP rows. Transposes
 * as many rows at a time as a vector has elements. */
static void transpose_strips(job *g)
{
    const tn_cpu_matrix *a = &g->p.a;
    const int64_t wide = g->tiles->lanes > STRIP ? g->tiles->lanes : STRIP;
    const int64_t line = STRIP * g->bytes, m = g->p.m;
    for (int64_t i = 0; i < m; i += wide) {
        char *to = strip_of(g, i);
        const int64_t rows = tn__cpu_min(wide, m - i);
        if (rows <= STRIP) {
            g->transpose(to, STRIP, element(g, a, i, g->first), a->row, rows,
                         g->depth, 0);
            continue;
        }
        for (int64_t q = 0; q < g->depth; q += BLOCK) {
            const int64_t columns = tn__cpu_min(BLOCK, g->depth - q);
            g->transpose(g->transposed, wide, element(g, a, i, g->first + q),
                         a->row, rows, columns, 0);
            for (int64_t j = 0; j < columns; j++)
                spread_strips(g, to + (q + j) * line,
                              g->transposed + j * wide * g->bytes,
                              (rows + STRIP - 1) / STRIP);
        }
    }
}

void tn__cpu_product_pack_a(job *g)
{
    const tn_cpu_matrix *a = &g->p.a;
    const int64_t line = STRIP * g->bytes, strips = g->p.m / STRIP;
    if (a->column == 1) {
        transpose_strips(g);
        return;
    }
    for (int64_t q = 0; q < g->depth; q++) {
        const char *from = element(g, a, 0, g->first + q);
        spread_strips(g, g->a + q * line, from, strips);
        if (g->p.m % STRIP)
            memcpy(strip_of(g, g->p.m) + q * line, from + strips * line,
                   (size_t)(g->p.m % STRIP * g->bytes));
    }
}

/* Stores g->sums to rows [i, i + rows) and columns [j, j + width) of c, plus
 * beta times the previous c. `row` is the stride between rows of the sums. */
static void store(job *g, int64_t i, int64_t j, int64_t rows, int64_t width,
                  int64_t row, double beta)
{
    const tn_cpu_matrix *c = &g->p.c;
    char *to = element(g, c, i, j);
    if (c->column == 1) {
        g->loops->store(to, c->row, g->sums, row, rows, width, beta);
    } else if (beta == 0) {
        g->transpose(to, c->column, g->sums, row, rows, width, 0);
    } else {
        g->transpose(g->transposed, BLOCK, g->sums, row, rows, width, 0);
        g->loops->store(to, c->column, g->transposed, BLOCK, width, rows, beta);
    }
}

/* Computes a product with k = 0: c = beta * c. a and b have no elements. */
static void store_zero_product(job *g)
{
    const tn_cpu_product *p = &g->p;
    memset(g->sums, 0, sizeof g->sums);
    for (int64_t i = 0; i < p->m; i += BLOCK)
        for (int64_t j = 0; j < p->n; j += g->whole)
            store(g, i, j, tn__cpu_min(BLOCK, p->m - i),
                  tn__cpu_min(g->whole, p->n - j), g->whole, p->beta);
}

void tn__cpu_product_point_rows(job *g, int64_t i, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++)
        g->row[r] = g->a ? strip_of(g, i + r) + (i + r) % STRIP * g->bytes
                         : element(g, &g->p.a, i + r, g->first);
}

void tn__cpu_product_run_block(job *g, const char *panel, int64_t panel_row,
                               int64_t i, int64_t rows, int64_t j,
                               int64_t width)
{
    int64_t vectors = vectors_of(g, width), row = vectors * g->tiles->lanes;
    double beta = g->first > 0 ? 1 : g->p.beta;
    if (width == row && g->p.c.column == 1 && (beta == 0 || beta == 1)) {
        const int how = (beta != 0 ? TN_CPU_TILE_ADD : 0) |
                        (g->p.m * g->p.c.row * g->bytes > PREFETCH_BYTES
                             ? TN_CPU_TILE_PREFETCH
                             : 0);
        g->tiles->tiles(rows, vectors, g->depth, g->row, g->at, panel,
                        panel_row, element(g, &g->p.c, i, j), g->p.c.row,
                        g->p.alpha, how);
    } else {
        g->tiles->tiles(rows, vectors, g->depth, g->row, g->at, panel,
                        panel_row, g->sums, row, g->p.alpha, 0);
        store(g, i, j, rows, width, row, beta);
    }
}

/* Computes columns [j, j + width) of c for the current range of k (a part of
 * the sum): adds to them the products a[i][k] * b[k][j] of that range. */
static void run_group(job *g, int64_t j, int64_t width)
{
    const int64_t size = g->depth * g->whole * g->bytes;
    if (!g->in_place)
        tn__cpu_product_pack_b(g, j, width);
    for (int64_t q = 0; q < width; q += g->whole) {
        int64_t columns = tn__cpu_min(g->whole, width - q);
        int64_t row = vectors_of(g, columns) * g->tiles->lanes;
        const char *panel = g->panels;
        if (!g->in_place) {
            panel += q / g->whole * size;
        } else if (columns < row) {
            pack_panel(g, g->panels, j + q, columns);
        } else {
            panel = element(g, &g->p.b, g->first, j + q);
            row = g->p.b.row;
        }
        for (int64_t i = 0; i < g->p.m; i += BLOCK) {
            const int64_t rows = tn__cpu_min(BLOCK, g->p.m - i);
            if (q == 0 || g->p.m > BLOCK)
                tn__cpu_product_point_rows(g, i, rows);
            tn__cpu_product_run_block(g, panel, row, i, rows, j + q, columns);
        }
    }
}

/* Returns whether a product with m rows reads b in place, without packing. */
static bool in_place(const job *g, const tn_cpu_matrix *b, int64_t m)
{
    const int64_t row = b->row * g->bytes;
    return b->column == 1 &&
           (m <= DIRECT_ROWS || g->p.k * row <= DIRECT_BYTES ||
            (m <= DIRECT_STRIDED_ROWS &&
             (row % FAR_ROW_BYTES || g->whole * g->bytes > LINE)));
}

/* Returns the estimated cost of transposing n rows into vectors. Squares with
 * as many rows as a vector has elements are transposed in registers. The
 * remaining rows are copied element by element. */
static double transpose_cost(const job *g, int64_t n)
{
    int64_t rest = n % g->tiles->lanes;
    return 2 * (double)(n - rest) + 6 * (double)rest;
}

/* Returns the estimated cost, in quarters of a cycle, of a product that packs
 * b, an operand of n columns. The terms are the multiply-adds, the packing of
 * panels, and the transposition of sums if the rows of c are not contiguous. */
static double cost(const job *g, const tn_cpu_matrix *b,
                   const tn_cpu_matrix *c, int64_t m, int64_t n)
{
    double k = (double)g->p.k, height = (double)m, passes = 1;
    double panels = transpose_cost(g, n), turns = 0;
    if (b->column == 1)
        panels = in_place(g, b, m) ? 0 : (double)n / 2;
    if (c->column != 1)
        turns = transpose_cost(g, n);
    if (k > DEPTH)
        passes = k / DEPTH;
    return 2 * (double)vectors_of(g, n) * height * k + panels * k +
           turns * height * passes;
}

static tn_cpu_matrix transpose(tn_cpu_matrix x)
{
    return (tn_cpu_matrix){x.memory, x.column, x.row};
}

/* If a dimension has one element, its stride does not matter. Sets it so that
 * rows or columns pass the tests for contiguity. */
static void plain_strides(tn_cpu_matrix *x, int64_t rows, int64_t columns)
{
    if (columns == 1)
        x->column = 1;
    else if (rows == 1 && x->column != 1)
        x->row = 1;
}

/* Computes a product of one row or one column as dot products. Returns false,
 * with c unchanged, if the product has other shapes or its operands are not
 * contiguous. */
static bool run_dots(const job *g)
{
    const tn_cpu_product *p = &g->p;
    if (!p->alone || p->a.column != 1 || p->b.row != 1 || p->k < g->whole ||
        p->k < DOTS_LEAST)
        return false;
    if (p->m == 1)
        g->loops->dots(p->n, p->k, p->a.memory, p->b.memory, p->b.column,
                           p->c.memory, p->c.column, p->alpha, p->beta);
    else
        g->loops->dots(p->m, p->k, p->b.memory, p->a.memory, p->a.row,
                           p->c.memory, p->c.row, p->alpha, p->beta);
    return true;
}

/* Computes a product of one row of a and a b with contiguous rows, which are
 * read in the order of memory. Results are bit-identical to those of the tiles.
 * Returns false, with c unchanged, for other products or if out of memory. */
static bool run_row(const job *g)
{
    const tn_cpu_product *p = &g->p;
    if (!g->loops->add_rows || p->m != 1 || p->b.column != 1 ||
        p->c.column != 1 || p->alpha != 1 || p->beta != 0)
        return false;
    void *sums = tn__cpu_scratch((size_t)(p->n * g->bytes));
    for (int64_t first = 0; sums && first < p->k; first += DEPTH) {
        g->loops->add_rows(p->n, tn__cpu_min(DEPTH, p->k - first),
                           element(g, &p->a, 0, first), p->a.column,
                           element(g, &p->b, first, 0), p->b.row, sums);
        g->loops->store(p->c.memory, p->n, sums, p->n, 1, p->n, first > 0);
    }
    return sums != NULL;
}

/* Replaces the product c = a b by c^T = b^T a^T. */
static void transpose_all(job *g)
{
    tn_cpu_product *p = &g->p;
    tn_cpu_matrix a = transpose(p->b), b = transpose(p->a);
    int64_t m = p->n;
    p->c = transpose(p->c);
    p->a = a;
    p->b = b;
    p->n = p->m;
    p->m = m;
}

/* Decides which operands are packed, and gets scratch memory for the packed
 * copies. Returns false if out of memory. */
static bool find_memory(job *g)
{
    const tn_cpu_product *p = &g->p;
    const int64_t depth = tn__cpu_min(p->k, DEPTH), lanes = g->tiles->lanes;
    bool packs_a =
        p->a.column == 1
            ? is_far(g, p->n)
            : p->n > lanes && depth * p->a.column * g->bytes > DIRECT_BYTES;
    g->in_place = in_place(g, &p->b, p->m);
    int64_t columns = tn__cpu_min(vectors_of(g, p->n) * lanes,
                                  GROUP * g->whole);
    if (g->in_place)
        columns = p->n % lanes ? g->whole : 0;
    int64_t b_bytes = (columns * depth * g->bytes + LINE - 1) / LINE * LINE;
    int64_t a_bytes =
        packs_a ? (p->m / STRIP + 1) * strip_bytes(g, depth) : 0;
    g->a = g->panels = NULL;
    if (a_bytes + b_bytes == 0)
        return true;
    g->panels = tn__cpu_scratch((size_t)(a_bytes + b_bytes));
    if (packs_a && g->panels)
        g->a = g->panels + b_bytes;
    return g->panels != NULL;
}

void tn__cpu_product_open(job *g, const tn_cpu_product *p)
{
    g->p = *p;
    g->tiles = p->routines->conv[p->type];
    g->loops = p->routines->product[p->type];
    g->bytes = p->type == CPU_F32 ? 4 : 8;
    g->transpose = p->routines->transpose[g->bytes];
    g->whole = 2 * g->tiles->lanes;
    if (p->type == CPU_F32) {
        g->p.alpha = tn__cpu_round_f32(p->alpha);
        g->p.beta = tn__cpu_round_f32(p->beta);
    }
    plain_strides(&g->p.a, p->m, p->k);
    plain_strides(&g->p.b, p->k, p->n);
    plain_strides(&g->p.c, p->m, p->n);
}

void tn__cpu_product_choose_panels(job *g)
{
    const tn_cpu_product *p = &g->p;
    tn_cpu_matrix b = transpose(p->a), c = transpose(p->c);
    if (cost(g, &b, &c, p->n, p->m) < cost(g, &p->b, &p->c, p->m, p->n))
        transpose_all(g);
}

void tn__cpu_product_set_offsets(job *g, int64_t step)
{
    for (int64_t q = 0; q < tn__cpu_min(g->p.k, DEPTH); q++)
        g->at[q] = q * step;
}

bool tn__cpu_multiply(const tn_cpu_product *p)
{
    job g;
    tn__cpu_product_open(&g, p);
    if (p->k == 0) {
        store_zero_product(&g);
        return true;
    }
    if (run_dots(&g) || run_row(&g))
        return true;
    tn__cpu_product_choose_panels(&g);
    if (!find_memory(&g))
        return false;
    tn__cpu_product_set_offsets(&g, g.a ? STRIP : g.p.a.column);
    for (g.first = 0; g.first < p->k; g.first += DEPTH) {
        g.depth = tn__cpu_min(DEPTH, p->k - g.first);
        if (g.a)
            tn__cpu_product_pack_a(&g);
        for (int64_t j = 0; j < g.p.n; j += GROUP * g.whole)
            run_group(&g, j, tn__cpu_min(GROUP * g.whole, g.p.n - j));
    }
    return true;
}
