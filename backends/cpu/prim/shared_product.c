/* shared_product.c: large float products on all threads. The threads first pack
 * the operands, then compute tiles of c. */
#include "product_job.h"

enum {
    /* Large products are cut as follows:
     * - A block has SHARED rows and columns of c. Blocks are computed one after
     *   the other, each by all threads.
     * - A slab is DEPTH rows of k. Threads pack the operands for MIN_SLABS
     *   slabs at a time (6 MB of floats), or for as many slabs as fill
     *   SLAB_BYTES. A task packs PIECE rows of a or GROUP panels of b.
     * - A tile has TILE rows and columns of a block, and is one task. If there
     *   are fewer than MIN_TILES tiles, they are halved, but not below MIN_TILE
     *   rows and columns. This happens in gradients of weights, which have few
     *   rows and columns and a large k. */
    SHARED = TN_CPU_SHARED,
    MIN_SLABS = 2,
    SLAB_BYTES = 1048576,
    PIECE = 128,
    TILE = BLOCK,
    MIN_TILE = 32,
    MIN_TILES = 8
};

/* A block of c, and the range of k whose products are being added to it.
 * Threads pack the operands of the range once, and all tiles use the packed
 * copies. a is read in place if its rows are close together or few columns use
 * them. */
typedef struct shared {
    /* The product for the block; k is the k of the whole product. */
    tn_cpu_product p;
    /* The range of k begins at `first` and has k_slabs slabs of DEPTH rows
     * each. */
    int64_t first, k_slabs;
    int64_t row_pieces, tile_m, tile_n, tiles_n;
    int64_t a_bytes, b_bytes; /* bytes of a packed slab (DEPTH rows of k) of a
                               * and of b */
    /* A launch over the result, or NULL. It runs for a line of tiles as soon as
     * left[line], the number of tiles that are not finished, is 0. A line is a row
     * of tiles, or, if the product is turned, so that its rows are the columns of
     * the result, a column of them. */
    tn_cpu_epilogue *then;
    atomic_int left[SHARED / MIN_TILE];
    bool turned;
    int64_t row; /* the row of the result that is row or column 0 of the
                  * block */
    char *a, *b; /* packed operands; a is NULL if it is read in place */
} shared;

/* Sets the job's current range of k to slab `slab`, which is DEPTH rows of
 * k. */
static void point_slab(job *g, const shared *s, int64_t slab)
{
    g->first = s->first + slab * DEPTH;
    g->depth = tn__cpu_min(DEPTH, g->p.k - g->first);
    g->a = s->a ? s->a + slab * s->a_bytes : NULL;
    g->panels = s->b + slab * s->b_bytes;
}

/* Packs PIECE rows of a, or GROUP panels of b, for one slab (DEPTH rows of k).
 * i is the index of the task. */
static void pack_piece(void *context, int64_t i)
{
    const shared *s = context;
    const int64_t piece = i / s->k_slabs;
    job g;
    tn__cpu_product_open(&g, &s->p);
    point_slab(&g, s, i % s->k_slabs);
    if (piece < s->row_pieces) {
        const int64_t row = piece * PIECE;
        g.a = strip_of(&g, row);
        g.p.a.memory = element(&g, &g.p.a, row, 0);
        g.p.m = tn__cpu_min(PIECE, g.p.m - row);
        tn__cpu_product_pack_a(&g);
    } else {
        const int64_t width = GROUP * g.whole;
        const int64_t j = (piece - s->row_pieces) * width;
        g.panels += j * g.depth * g.bytes;
        tn__cpu_product_pack_b(&g, j, tn__cpu_min(width, g.p.n - j));
    }
}

/* Runs the launch if the tile at this row and column is the last one of its
 * line. */
static void finish_tile(shared *s, int64_t row, int64_t column)
{
    const int64_t first = s->turned ? column : row;
    const int64_t side = s->turned ? s->tile_n : s->tile_m;
    const int64_t rows = s->turned ? s->p.n : s->p.m;
    if (atomic_fetch_sub(&s->left[first / side], 1) > 1)
        return;
    const int64_t from[2] = {s->row + first, 0};
    const int64_t end[2] = {s->row + tn__cpu_min(first + side, rows),
                            s->turned ? s->p.m : s->p.n};
    tn__cpu_epilogue_run(s->then, from, end);
}

/* Computes tile i of a block. */
static void run_shared(void *context, int64_t i)
{
    shared *s = context;
    const int64_t row = i / s->tiles_n * s->tile_m;
    const int64_t column = i % s->tiles_n * s->tile_n;
    job g;
    unsigned fpu = tn__cpu_fpu_set();
    tn__cpu_product_open(&g, &s->p);
    tn__cpu_product_set_offsets(&g, s->a ? STRIP : g.p.a.column);
    const int64_t rows = tn__cpu_min(row + s->tile_m, g.p.m);
    const int64_t columns = tn__cpu_min(column + s->tile_n, g.p.n);
    for (int64_t slab = 0; slab < s->k_slabs; slab++) {
        point_slab(&g, s, slab);
        tn__cpu_product_point_rows(&g, row, rows - row);
        for (int64_t j = column; j < columns; j += g.whole) {
            const int64_t width = tn__cpu_min(g.whole, columns - j);
            tn__cpu_product_run_block(&g, g.panels + j * g.depth * g.bytes,
                      vectors_of(&g, width) * g.tiles->lanes, row, rows - row,
                      j, width);
        }
    }
    if (s->then && s->first + s->k_slabs * DEPTH >= g.p.k)
        finish_tile(s, row, column);
    tn__cpu_fpu_restore(fpu);
}

/* Chooses the size of tiles and returns their number. Halves the columns of a
 * tile before its rows, because a panel of b is read for all rows of a tile. */
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
    const int64_t of_line = s->turned ? tiles / s->tiles_n : s->tiles_n;
    for (int64_t line = 0; line < SHARED / MIN_TILE; line++)
        atomic_init(&s->left[line], (int)of_line);
    for (s->first = 0; s->first < s->p.k; s->first += k_slabs * DEPTH) {
        s->k_slabs =
            (tn__cpu_min(k_slabs * DEPTH, s->p.k - s->first) + DEPTH - 1) /
            DEPTH;
        tn__cpu_host->parallel_for(pieces * s->k_slabs, pack_piece, s);
        tn__cpu_host->parallel_for(tiles, run_shared, s);
    }
}

bool tn__cpu_multiply_shared(const tn_cpu_product *p, tn_cpu_epilogue *then,
                             int64_t row)
{
    job g;
    shared s;
    s.then = then;
    tn__cpu_product_open(&g, p);
    tn__cpu_product_choose_panels(&g);
    s.turned = g.p.c.row != p->c.row;
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
    const size_t bytes = (size_t)(k_slabs * (s.a_bytes + s.b_bytes));
    /* The launch uses the scratch memory. */
    s.b = then ? tn__cpu_memory_acquire(bytes) : tn__cpu_scratch(bytes);
    if (!s.b)
        return false;
    s.a = packs_a ? s.b + k_slabs * s.b_bytes : NULL;
    for (int64_t j = 0; j < g.p.n; j += SHARED)
        for (int64_t i = 0; i < g.p.m; i += SHARED) {
            s.row = row + (s.turned ? j : i);
            share_block(&s, &g, i, j, k_slabs);
        }
    if (then)
        tn__cpu_memory_release(s.b);
    return true;
}
