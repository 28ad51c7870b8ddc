/* float_product.c: the matrix product c = alpha a b + beta c of floats, on one
 * thread, or on all threads for large matrices. a is m x k, b is k x n.
 *
 * b is packed into panels. A panel has DEPTH rows and as many columns as two
 * vectors hold, and stays in L1. The tile loops of convolution (conv_loops.inc)
 * multiply some rows of a by a panel and keep the sums in registers. Rows of a
 * are read in place, or packed into strips of STRIP rows if many panels would
 * read rows that are in different memory pages. Every element of c is a sum of
 * partial sums of DEPTH products each, in order of increasing k. So its bits
 * depend neither on how the product is cut into tiles nor on the other rows and
 * columns.
 *
 * Because (a b)^T = b^T a^T, either operand can be packed into panels: the code
 * chooses the one that moves less data. A product of one row or one column with
 * contiguous operands needs no panels. It consists of dot products, whose sums
 * run along the lanes of a vector, so its bits differ from those of a larger
 * product. */
#include "float_product.h"

#include <string.h>

#include "../cpu_device.h"
#include "../simd/routines.h"

enum {
    LINE = 64,
    PANEL = 2 * 64,       /* largest number of bytes in a row of a panel */
    DEPTH = TN_CPU_DEPTH, /* rows of a panel, which has 24 KiB */
    GROUP = 4,            /* number of panels packed at a time */
    BLOCK = 128,          /* rows of c whose pointers and sums are stored */
    STRIP = 8,            /* number of rows of a that are packed together */
    /* b is read in place, not packed, in any of three cases:
     * - c has at most DIRECT_ROWS rows;
     * - b has at most DIRECT_BYTES bytes and so stays in L1;
     * - c has at most DIRECT_STRIDED_ROWS rows, and the rows of b are spread
     *   over many cache sets. */
    DIRECT_ROWS = 16,
    DIRECT_BYTES = 32768,
    DIRECT_STRIDED_ROWS = 64,
    /* A matrix a with contiguous rows is packed if these are FAR_ROW_BYTES or
     * more apart and b has at least FAR_COLUMNS columns that use them. A matrix
     * a with contiguous columns is packed if DEPTH columns exceed L1. */
    FAR_ROW_BYTES = 4096,
    FAR_COLUMNS = 256,
    /* c is prefetched if it has more bytes than this, because L2 does not hold
     * it. */
    PREFETCH_BYTES = 4194304,
    /* Large products are cut into blocks of SHARED rows and columns of c. A
     * slab is DEPTH rows of k. At a time, threads pack MIN_SLABS slabs (6 MB of
     * floats), or as many as fill SLAB_BYTES. A task packs PIECE rows of a.
     * Blocks are cut into tiles of TILE rows and columns. If these are fewer
     * than MIN_TILES, tiles are halved, but not below MIN_TILE rows and
     * columns: gradients of weights have few rows and columns and a large
     * k. */
    SHARED = 2048,
    MIN_SLABS = 2,
    SLAB_BYTES = 1048576,
    PIECE = 128,
    TILE = BLOCK,
    MIN_TILE = 32,
    MIN_TILES = 8
};

typedef struct job {
    tn_cpu_product p;
    const tn_cpu_conv_routines *tiles;
    const tn_cpu_product_routines *loops;
    tn_cpu_transpose *transpose;
    int64_t bytes;        /* bytes of an element */
    int64_t whole;        /* number of columns of a full panel */
    int64_t first, depth; /* the current range of k: [first, first + depth) */
    /* The packed operands. a is NULL if it is read in place. */
    char *a, *panels;
    /* b is read in place, except for a panel whose last vector is partial. */
    bool in_place;
    /* at[q]: offset in elements of element q of a row of a. */
    int64_t at[DEPTH];
    /* row[i]: address of row i of a, in the current block of rows. */
    const void *row[BLOCK];
    _Alignas(64) char sums[PANEL * BLOCK], transposed[PANEL * BLOCK];
} job;

static char *element(const job *g, const tn_cpu_matrix *x, int64_t i,
                     int64_t j)
{
    return x->memory + (i * x->row + j * x->column) * g->bytes;
}

static int64_t vectors_of(const job *g, int64_t columns)
{
    return (columns + g->tiles->lanes - 1) / g->tiles->lanes;
}

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

/* Packs the panels of columns [j, j + width) of b, at most GROUP of them. Full
 * panels are packed together, row by row: their rows are adjacent in a row of
 * b, while consecutive rows of b may be in different memory pages. */
static void pack_group(const job *g, int64_t j, int64_t width)
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

/* Returns the bytes of a strip, which has STRIP rows of a, packed as
 * strip[column][row]. After each strip follows a cache line of padding. Without
 * it, the same column of many strips would map to the same set of L1. */
static int64_t strip_bytes(const job *g, int64_t depth)
{
    return depth * STRIP * g->bytes + LINE;
}

static char *strip_of(const job *g, int64_t row)
{
    return g->a + row / STRIP * strip_bytes(g, g->depth);
}

/* Copies one column of a, contiguous at `from`, to `strips` strips. */
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

/* Packs a matrix a with contiguous rows into strips. Transposes as many rows at
 * a time as a vector has elements. */
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

/* Packs the current range of a's columns into strips. If columns of a are
 * contiguous, reads them column by column. */
static void pack_a(job *g)
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

/* Points g->row[] at rows [i, i + rows) of a. */
static void point_rows(job *g, int64_t i, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++)
        g->row[r] = g->a ? strip_of(g, i + r) + (i + r) % STRIP * g->bytes
                         : element(g, &g->p.a, i + r, g->first);
}

/* Adds the products of the current range of k to rows [i, i + rows) and columns
 * [j, j + width) of c. g->row[] must point to these rows of a. */
static void run_block(job *g, const char *panel, int64_t panel_row, int64_t i,
                      int64_t rows, int64_t j, int64_t width)
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

/* Adds the products of the current range of k to columns [j, j + width) of
 * c. */
static void run_group(job *g, int64_t j, int64_t width)
{
    const int64_t size = g->depth * g->whole * g->bytes;
    if (!g->in_place)
        pack_group(g, j, width);
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
                point_rows(g, i, rows);
            run_block(g, panel, row, i, rows, j + q, columns);
        }
    }
}

/* Returns whether b is read in place in a product with m rows. */
static bool in_place(const job *g, const tn_cpu_matrix *b, int64_t m)
{
    const int64_t row = b->row * g->bytes;
    return b->column == 1 &&
           (m <= DIRECT_ROWS || g->p.k * row <= DIRECT_BYTES ||
            (m <= DIRECT_STRIDED_ROWS &&
             (row % FAR_ROW_BYTES || g->whole * g->bytes > LINE)));
}

/* Returns the estimated cost of transposing n rows into vectors. Full squares
 * are transposed in registers; the remaining rows are copied element by
 * element. */
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

/* Chooses strides that count as contiguous for dimensions of one element, which
 * may have any stride. */
static void plain_strides(tn_cpu_matrix *x, int64_t rows, int64_t columns)
{
    if (columns == 1)
        x->column = 1;
    else if (rows == 1 && x->column != 1)
        x->row = 1;
}

/* Computes a product of one row or one column as dot products. Returns false,
 * with c unchanged, if the operands are not contiguous. */
static bool run_dots(const job *g)
{
    const tn_cpu_product *p = &g->p;
    if (!p->alone || p->a.column != 1 || p->b.row != 1 || p->k < g->whole)
        return false;
    if (p->m == 1)
        g->loops->dots(p->n, p->k, p->a.memory, p->b.memory, p->b.column,
                           p->c.memory, p->c.column, p->alpha, p->beta);
    else
        g->loops->dots(p->m, p->k, p->b.memory, p->a.memory, p->a.row,
                           p->c.memory, p->c.row, p->alpha, p->beta);
    return true;
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

/* Returns whether the rows of a are so far apart that packing them pays if n
 * columns use them. Closer rows are read as fast in place. */
static bool is_far(const job *g, int64_t n)
{
    return n >= FAR_COLUMNS && g->p.a.row * g->bytes >= FAR_ROW_BYTES;
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

/* Initialises the job for product p. */
static void open_job(job *g, const tn_cpu_product *p)
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

/* Transposes the whole product if packing is then cheaper. */
static void choose_panels(job *g)
{
    const tn_cpu_product *p = &g->p;
    tn_cpu_matrix b = transpose(p->a), c = transpose(p->c);
    if (cost(g, &b, &c, p->n, p->m) < cost(g, &p->b, &p->c, p->m, p->n))
        transpose_all(g);
}

static void set_column_offsets(job *g, int64_t step)
{
    for (int64_t q = 0; q < tn__cpu_min(g->p.k, DEPTH); q++)
        g->at[q] = q * step;
}

bool tn__cpu_multiply(const tn_cpu_product *p)
{
    job g;
    open_job(&g, p);
    if (p->k == 0) {
        store_zero_product(&g);
        return true;
    }
    if (run_dots(&g))
        return true;
    choose_panels(&g);
    if (!find_memory(&g))
        return false;
    set_column_offsets(&g, g.a ? STRIP : g.p.a.column);
    for (g.first = 0; g.first < p->k; g.first += DEPTH) {
        g.depth = tn__cpu_min(DEPTH, p->k - g.first);
        if (g.a)
            pack_a(&g);
        for (int64_t j = 0; j < g.p.n; j += GROUP * g.whole)
            run_group(&g, j, tn__cpu_min(GROUP * g.whole, g.p.n - j));
    }
    return true;
}

/* ---- products on all threads --------------------------------------------- */

/* A block of c, and the range of k whose products are being added to it.
 * Threads pack the operands of the range once, and all tiles use the packed
 * copies. a is read in place if its rows are close together or few columns use
 * them. */
typedef struct shared {
    /* The product for the block; its k is that of the whole product. */
    tn_cpu_product p;
    /* The range of k begins at `first` and has k_slabs slabs of DEPTH rows
     * each. */
    int64_t first, k_slabs;
    int64_t row_pieces, tile_m, tile_n, tiles_n;
    int64_t a_bytes, b_bytes; /* bytes of a packed slab of a and of b */
    char *a, *b; /* packed operands; a is NULL if it is read in place */
} shared;

/* Makes slab number `slab` the job's current range of k. A slab is DEPTH rows
 * of k. */
static void point_slab(job *g, const shared *s, int64_t slab)
{
    g->first = s->first + slab * DEPTH;
    g->depth = tn__cpu_min(DEPTH, g->p.k - g->first);
    g->a = s->a ? s->a + slab * s->a_bytes : NULL;
    g->panels = s->b + slab * s->b_bytes;
}

/* Packs PIECE rows of a, or GROUP panels of b, for one slab. i is the number of
 * the task. */
static void pack_piece(void *context, int64_t i)
{
    const shared *s = context;
    const int64_t piece = i / s->k_slabs;
    job g;
    open_job(&g, &s->p);
    point_slab(&g, s, i % s->k_slabs);
    if (piece < s->row_pieces) {
        const int64_t row = piece * PIECE;
        g.a = strip_of(&g, row);
        g.p.a.memory = element(&g, &g.p.a, row, 0);
        g.p.m = tn__cpu_min(PIECE, g.p.m - row);
        pack_a(&g);
    } else {
        const int64_t width = GROUP * g.whole;
        const int64_t j = (piece - s->row_pieces) * width;
        g.panels += j * g.depth * g.bytes;
        pack_group(&g, j, tn__cpu_min(width, g.p.n - j));
    }
}

/* Computes tile i of a block. */
static void run_shared(void *context, int64_t i)
{
    const shared *s = context;
    const int64_t row = i / s->tiles_n * s->tile_m;
    const int64_t column = i % s->tiles_n * s->tile_n;
    job g;
    unsigned fpu = tn__cpu_fpu_set();
    open_job(&g, &s->p);
    set_column_offsets(&g, s->a ? STRIP : g.p.a.column);
    const int64_t rows = tn__cpu_min(row + s->tile_m, g.p.m);
    const int64_t columns = tn__cpu_min(column + s->tile_n, g.p.n);
    for (int64_t slab = 0; slab < s->k_slabs; slab++) {
        point_slab(&g, s, slab);
        point_rows(&g, row, rows - row);
        for (int64_t j = column; j < columns; j += g.whole) {
            const int64_t width = tn__cpu_min(g.whole, columns - j);
            run_block(&g, g.panels + j * g.depth * g.bytes,
                      vectors_of(&g, width) * g.tiles->lanes, row, rows - row,
                      j, width);
        }
    }
    tn__cpu_fpu_restore(fpu);
}

/* Chooses the size of tiles and returns their number. Halves the columns of a
 * tile before its rows, because a panel serves all rows of a tile. */
static int64_t cut_tiles(shared *s)
{
    s->tile_m = s->tile_n = TILE;
    for (;;) {
        s->tiles_n = (s->p.n + s->tile_n - 1) / s->tile_n;
        int64_t tiles = (s->p.m + s->tile_m - 1) / s->tile_m * s->tiles_n;
        int64_t *side = s->tile_n > MIN_TILE ? &s->tile_n : &s->tile_m;
        if (tiles >= MIN_TILES || *side == MIN_TILE)
            return tiles;
        *side /= 2;
    }
}

/* Computes the block of c that begins at row i and column j, for all of k. */
static void share_block(shared *s, const job *g, int64_t i, int64_t j,
                        int64_t k_slabs)
{
    s->p = g->p;
    s->p.a.memory = element(g, &g->p.a, i, 0);
    s->p.b.memory = element(g, &g->p.b, 0, j);
    s->p.c.memory = element(g, &g->p.c, i, j);
    s->p.m = tn__cpu_min(SHARED, g->p.m - i);
    s->p.n = tn__cpu_min(SHARED, g->p.n - j);
    s->row_pieces = s->a ? (s->p.m + PIECE - 1) / PIECE : 0;
    const int64_t width = GROUP * g->whole;
    const int64_t pieces = s->row_pieces + (s->p.n + width - 1) / width;
    const int64_t tiles = cut_tiles(s);
    for (s->first = 0; s->first < s->p.k; s->first += k_slabs * DEPTH) {
        s->k_slabs =
            (tn__cpu_min(k_slabs * DEPTH, s->p.k - s->first) + DEPTH - 1) /
            DEPTH;
        tn__cpu_host->parallel_for(pieces * s->k_slabs, pack_piece, s);
        tn__cpu_host->parallel_for(tiles, run_shared, s);
    }
}

bool tn__cpu_multiply_shared(const tn_cpu_product *p)
{
    job g;
    shared s;
    open_job(&g, p);
    choose_panels(&g);
    const int64_t m = tn__cpu_min(g.p.m, SHARED);
    const int64_t n = tn__cpu_min(g.p.n, SHARED);
    const int64_t depth = tn__cpu_min(p->k, DEPTH);
    const bool packs_a = g.p.a.column != 1 || is_far(&g, n);
    s.a_bytes = packs_a ? (m / STRIP + 1) * strip_bytes(&g, depth) : 0;
    s.b_bytes = vectors_of(&g, n) * g.tiles->lanes * depth * g.bytes;
    s.b_bytes = (s.b_bytes + LINE - 1) / LINE * LINE;
    int64_t k_slabs = SLAB_BYTES / (s.a_bytes + s.b_bytes);
    k_slabs = tn__cpu_min((p->k + DEPTH - 1) / DEPTH,
                          k_slabs > MIN_SLABS ? k_slabs : MIN_SLABS);
    s.b = tn__cpu_scratch((size_t)(k_slabs * (s.a_bytes + s.b_bytes)));
    if (!s.b)
        return false;
    s.a = packs_a ? s.b + k_slabs * s.b_bytes : NULL;
    for (int64_t j = 0; j < g.p.n; j += SHARED)
        for (int64_t i = 0; i < g.p.m; i += SHARED)
            share_block(&s, &g, i, j, k_slabs);
    return true;
}
