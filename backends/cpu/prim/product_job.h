/* product_job.h: a float product, or a tile of one, while a thread computes it.
 * float_product.c defines the functions, and shared_product.c runs them on all
 * threads. */
#ifndef TN_CPU_PRODUCT_JOB_H
#define TN_CPU_PRODUCT_JOB_H

#include "float_product.h"

enum {
    LINE = 64,
    PANEL = 2 * 64,       /* largest number of bytes in a row of a panel (some
                           * packed columns of b) */
    DEPTH = TN_CPU_DEPTH, /* number of rows of a panel (24 KiB) */
    GROUP = 4,            /* number of panels packed at a time */
    BLOCK = 128,          /* number of rows of c that are computed at a time */
    STRIP = 8,            /* number of rows of a in a strip,
                           * the unit of packing */
    /* Matrix a is packed in two cases. With contiguous rows, it is packed if
     * its rows are FAR_ROW_BYTES or more apart and at least FAR_COLUMNS columns
     * of b use them. With contiguous columns, it is packed if DEPTH columns
     * exceed L1. */
    FAR_ROW_BYTES = 4096,
    FAR_COLUMNS = 256
};

typedef struct job {
    tn_cpu_product p;
    const tn_cpu_conv_routines *tiles;
    const tn_cpu_product_routines *loops;
    tn_cpu_transpose *transpose;
    int64_t bytes;        /* bytes of an element */
    int64_t whole;        /* number of columns of a full panel of b */
    int64_t first, depth; /* the current range of k: [first, first + depth) */
    /* The packed operands. `a` is NULL if a is read in place, not packed. */
    char *a, *panels;
    /* Whether b is read in place. A panel whose last vector is partial is
     * packed nevertheless. */
    bool in_place;
    /* at[q]: the offset of element q in a row of a, in elements */
    int64_t at[DEPTH];
    /* row[i]: the address of row i of a in the current block of rows */
    const void *row[BLOCK];
    _Alignas(64) char sums[PANEL * BLOCK], transposed[PANEL * BLOCK];
} job;

static inline char *element(const job *g, const tn_cpu_matrix *x, int64_t i,
                            int64_t j)
{
    return x->memory + (i * x->row + j * x->column) * g->bytes;
}

static inline int64_t vectors_of(const job *g, int64_t columns)
{
    return (columns + g->tiles->lanes - 1) / g->tiles->lanes;
}

/* Returns the bytes of a strip, which has STRIP rows of a, packed as
 * strip[column][row]. After each strip follows a cache line of padding. Without
 * it, the same column of many strips would map to the same set of L1, and they
 * would evict each other. */
static inline int64_t strip_bytes(const job *g, int64_t depth)
{
    return depth * STRIP * g->bytes + LINE;
}

static inline char *strip_of(const job *g, int64_t row)
{
    return g->a + row / STRIP * strip_bytes(g, g->depth);
}

/* Returns whether the rows of a are so far apart that packing them saves time
 * if n columns of b are multiplied with them. Closer rows are read as fast in
 * place. */
static inline bool is_far(const job *g, int64_t n)
{
    return n >= FAR_COLUMNS && g->p.a.row * g->bytes >= FAR_ROW_BYTES;
}

/* Initialises *g for computing product p. */
void tn__cpu_product_open(job *g, const tn_cpu_product *p);
/* Replaces the product by c^T = b^T a^T if that makes packing cheaper. */
void tn__cpu_product_choose_panels(job *g);
/* Sets g->at[q] = q * step. step is the offset from one element of a row of a
 * to the next. */
void tn__cpu_product_set_offsets(job *g, int64_t step);
/* Packs a's columns of the current range of k into strips of STRIP rows. If
 * columns of a are contiguous, reads them column by column. */
void tn__cpu_product_pack_a(job *g);
/* Packs the panels of columns [j, j + width) of b, at most GROUP of them. Full
 * panels are packed together, row by row, because their rows are adjacent in a
 * row of b, while consecutive rows of b may be in different memory pages. */
void tn__cpu_product_pack_b(const job *g, int64_t j, int64_t width);
/* Points g->row[] at rows [i, i + rows) of a. */
void tn__cpu_product_point_rows(job *g, int64_t i, int64_t rows);
/* Adds the products of the current range of k (g->first, g->depth) to rows [i,
 * i + rows) and columns [j, j + width) of c. g->row[] must point to these rows
 * of a. */
void tn__cpu_product_run_block(job *g, const char *panel, int64_t panel_row,
                               int64_t i, int64_t rows, int64_t j,
                               int64_t width);

#endif
