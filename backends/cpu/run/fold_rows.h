/* fold_rows.h: reductions of rows, in the order of summation that
 * plugin_program.h fixes: element k of a row belongs to chunk k / TN_CHUNK and
 * lane k % TN_LANES, and a binary tree combines the results of the chunks.
 * Columns are rows whose elements of equal index are contiguous in memory. */
#ifndef TN_CPU_FOLD_ROWS_H
#define TN_CPU_FOLD_ROWS_H

#include "../program/code.h"

/* The state of one reduction over one row, or over `rows` columns at once,
 * which are stored as x[element][column]. */
typedef struct cpu_fold {
    const cpu_reduce *reduce;
    const tn_cpu_routines *routines;
    /* The number of chunks whose results are in the tree. For ARGMAX and
     * ARGMIN, 0 if `tree` and `place` hold no result yet, else positive. */
    int64_t chunks;
    /* For columns: how many elements of the current chunk have been combined
     * into lanes[]. */
    int64_t open;
    int64_t ahead; /* prefetch distance of the routines in bytes */
    char *lanes;   /* for columns: lanes[lane][row], partial results of the
                      current chunk */
    /* tree[level][row]: the result of 2^level chunks. For ARGMAX and ARGMIN:
     * tree[row], the largest or smallest value so far. */
    char *tree;
    int64_t *place; /* for ARGMAX and ARGMIN: place[row], the index of that
                     * value */
} cpu_fold;

/* Returns the bytes that the states of all reductions of a compiled program
 * need. */
size_t tn__cpu_fold_bytes(const cpu_code *code, int64_t rows, bool columns);
/* Initialises fold[], the states of all reductions of `code`. memory has
 * tn__cpu_fold_bytes bytes. ahead is the prefetch distance in bytes. */
void tn__cpu_fold_place(cpu_fold *fold, const cpu_code *code,
                        const tn_cpu_routines *routines, int64_t rows,
                        bool columns, int64_t ahead, char *memory);
/* Begins the reduction of a new row, or of new columns. */
void tn__cpu_fold_begin(cpu_fold *fold);
/* Reduces `count` more elements of the row, or of each column. The first of
 * them has index k. k is a multiple of TN_CHUNK, or of TN_LANES for columns.
 * step is the stride between the elements of a column, in elements. */
void tn__cpu_fold_block(cpu_fold *fold, const void *x, int64_t step, int64_t k,
                        int64_t count, int64_t rows, bool columns);
/* Adds `count` more products of two factors to a sum over one row. */
void tn__cpu_fold_products(cpu_fold *fold, const tn_cpu_factor *factor,
                           int64_t count);
/* Sums the products of two factors over whole rows. Writes out[row]. */
void tn__cpu_fold_product_rows(cpu_fold *fold, const tn_cpu_factor *factor,
                               int64_t rows, int64_t length, void *out);
/* Adds `count` more products of each column to the sums of the columns. */
void tn__cpu_fold_column_products(cpu_fold *fold,
                                  tn_cpu_column_products products,
                                  int64_t count, int64_t rows);
/* Adds value[chunk][row], the results of the next chunks of each row, to the
 * tree. Overwrites value. */
void tn__cpu_fold_push(cpu_fold *fold, int64_t rows, void *value,
                       int64_t chunks);
#define TN_CPU_FOLD_BATCH 64 /* largest number of chunks of one call */
/* Adds part_value[row], the results of the next segment of long rows, to the
 * tree. A segment is a part of a row that one thread reduces (split_rows.c).
 * All segments but the last have the same number of chunks, a power of two, so
 * the result is the same as that of one pass. For ARGMAX and ARGMIN, part->tree
 * and part->place hold the values and indices. */
void tn__cpu_fold_join(cpu_fold *fold, const cpu_fold *part, char *part_value,
                       int64_t rows);
/* Writes the results of the reduction to out[row]. */
void tn__cpu_fold_end(cpu_fold *fold, int64_t rows, void *out);
/* Reduces whole rows x[row][element], or whole columns x[element][row] with the
 * stride `step` between elements. Writes out[row]. */
void tn__cpu_fold_rows(cpu_fold *fold, const void *x, int64_t step,
                       int64_t rows, int64_t length, bool columns, void *out);

#endif
