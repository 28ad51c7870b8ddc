/* fold_rows.h: reductions of rows, in the order of summation that plugin.h
 * fixes: element k of a row belongs to chunk k / TN_CHUNK and lane
 * k % TN_LANES, and a binary tree combines the chunks. */
#ifndef TN_CPU_FOLD_ROWS_H
#define TN_CPU_FOLD_ROWS_H

#include "../program/code.h"

/* The state of one reduction over one row, or over `rows` columns at once. A
 * column's element k follows element k of the column before in memory. */
typedef struct cpu_fold {
    const cpu_reduce *reduce;
    const tn_cpu_routines *routines;
    /* Number of chunks in tree. ARGMAX and ARGMIN: 0 while tree and place hold
     * no result, then positive. */
    int64_t chunks;
    /* Columns: number of elements of the current chunk that are in lanes. */
    int64_t open;
    int64_t ahead; /* bytes by which the routines prefetch their input */
    char *lanes;   /* columns: partial results lanes[lane][row] of a chunk */
    /* tree[level][row]: the result of 2^level chunks. ARGMAX and ARGMIN:
     * tree[row], the best value so far. */
    char *tree;
    int64_t *place; /* ARGMAX and ARGMIN: place[row], index of that value */
} cpu_fold;

/* Returns how many bytes the states of all reductions of code need. */
size_t tn__cpu_fold_bytes(const cpu_code *code, int64_t rows, bool columns);
/* Initialises the states with memory of tn__cpu_fold_bytes bytes. ahead: their
 * prefetch distance in bytes. */
void tn__cpu_fold_place(cpu_fold *fold, const cpu_code *code,
                        const tn_cpu_routines *routines, int64_t rows,
                        bool columns, int64_t ahead, char *memory);
/* Begins a new row, or new columns. */
void tn__cpu_fold_begin(cpu_fold *fold);
/* Adds `count` elements, from index k on, of the row or of each column. k is a
 * multiple of TN_CHUNK, or of TN_LANES for columns. step: stride between the
 * elements of a column. */
void tn__cpu_fold_block(cpu_fold *fold, const void *x, int64_t step, int64_t k,
                        int64_t count, int64_t rows, bool columns);
/* Adds `count` products of two factors to a sum over one row. */
void tn__cpu_fold_products(cpu_fold *fold, const tn_cpu_factor *factor,
                           int64_t count);
/* Sums the products of two factors over whole rows. Writes out[row]. */
void tn__cpu_fold_product_rows(cpu_fold *fold, const tn_cpu_factor *factor,
                               int64_t rows, int64_t length, void *out);
/* Adds `count` products of each column to sums over columns. */
void tn__cpu_fold_column_products(cpu_fold *fold,
                                  tn_cpu_column_products products,
                                  int64_t count, int64_t rows);
/* Adds the results value[chunk][row] of the rows' next chunks. Overwrites
 * value. */
void tn__cpu_fold_push(cpu_fold *fold, int64_t rows, void *value,
                       int64_t chunks);
#define TN_CPU_FOLD_BATCH 64 /* most chunks of one call of fold_push */
/* Adds the results part_value[row] of the next segment of the rows
 * (split_rows.c). All segments have the same power of two of chunks (the last
 * one may have fewer), so the result is the same as that of one pass. ARGMAX
 * and ARGMIN: part->tree and part->place hold the values and indices. */
void tn__cpu_fold_join(cpu_fold *fold, const cpu_fold *part, char *part_value,
                       int64_t rows);
/* Writes the results out[row]. */
void tn__cpu_fold_end(cpu_fold *fold, int64_t rows, void *out);
/* Reduces whole rows x[row][element], or whole columns x[element][row] with the
 * stride `step` between elements. Writes out[row]. */
void tn__cpu_fold_rows(cpu_fold *fold, const void *x, int64_t step,
                       int64_t rows, int64_t length, bool columns, void *out);

#endif
