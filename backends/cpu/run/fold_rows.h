/* fold_rows.h: reductions of rows, in the order that plugin.h fixes. */
#ifndef TN_CPU_FOLD_ROWS_H
#define TN_CPU_FOLD_ROWS_H

#include "../program/code.h"

/* The state of one reduction over one row, or over `rows` columns at once. */
typedef struct cpu_fold {
    const cpu_reduce *reduce;
    const tn_cpu_routines *routines;
    int64_t chunks; /* chunks in tree; for ARGMAX and ARGMIN: elements */
    int64_t open;   /* columns: elements of the current chunk that are in
                       lanes */
    int64_t ahead;  /* bytes by which the routines prefetch their input */
    char *lanes;    /* columns: TN_LANES x rows values */
    char *tree;     /* levels x rows values; ARGMAX, ARGMIN: the best values */
    int64_t *place; /* rows; ARGMAX, ARGMIN: indices */
} cpu_fold;

/* Bytes that the states of all reductions of code need. */
size_t tn__cpu_fold_bytes(const cpu_code *code, int64_t rows, bool columns);
/* Assigns memory of that many bytes to the states. ahead: the prefetch distance
 * of all, in bytes. */
void tn__cpu_fold_place(cpu_fold *fold, const cpu_code *code,
                        const tn_cpu_routines *routines, int64_t rows,
                        bool columns, int64_t ahead, char *memory);
void tn__cpu_fold_begin(cpu_fold *fold);
/* Adds one block of each row: elements from k on (a multiple of TN_CHUNK, for
 * columns of TN_LANES). step: stride between elements of a column. */
void tn__cpu_fold_block(cpu_fold *fold, const void *x, int64_t step, int64_t k,
                        int64_t count, int64_t rows, bool columns);
/* Sums of products of two factors: a block of one row, and whole rows. */
void tn__cpu_fold_products(cpu_fold *fold, const tn_cpu_factor *factor,
                           int64_t count);
void tn__cpu_fold_product_rows(cpu_fold *fold, const tn_cpu_factor *factor,
                               int64_t rows, int64_t length, void *out);
/* Adds one block of columns of products. */
void tn__cpu_fold_column_products(cpu_fold *fold,
                                  tn_cpu_column_products products,
                                  int64_t count, int64_t rows);
/* Adds the partial results of the rows' next chunks: those of one chunk for all
 * rows, then of the next. Overwrites value. */
void tn__cpu_fold_push(cpu_fold *fold, int64_t rows, void *value,
                       int64_t chunks);
#define TN_CPU_FOLD_BATCH 64 /* most chunks of one call */
/* Adds the result of an aligned power of two of chunks. */
void tn__cpu_fold_join(cpu_fold *fold, const cpu_fold *part, char *part_value,
                       int64_t rows);
/* Writes the results, one for each row. */
void tn__cpu_fold_end(cpu_fold *fold, int64_t rows, void *out);
/* Reduces whole rows: x holds rows x length elements. */
void tn__cpu_fold_rows(cpu_fold *fold, const void *x, int64_t step,
                       int64_t rows, int64_t length, bool columns, void *out);

#endif
