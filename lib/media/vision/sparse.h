/* sparse.h: a sparse matrix on the host, and its products on a device. */
#ifndef TN_MEDIA_SPARSE_H
#define TN_MEDIA_SPARSE_H

#include <tenon/ops.h>

/* Row r has the terms start[r] ... start[r + 1] - 1: a column and a weight. */
typedef struct tn__sparse {
    int64_t rows, *start, *column;
    double *weight;
    int64_t open;           /* terms of the row that is not ended yet */
    int64_t row_room, room; /* allocated rows and terms */
} tn__sparse;

/* Makes an empty matrix. To empty it again, set rows to 0. These return false,
 * without an error, if memory runs out. */
bool tn__sparse_init(tn__sparse *m);
/* Adds a term to the row that is not ended yet. */
bool tn__sparse_add(tn__sparse *m, int64_t column, double weight);
bool tn__sparse_end_row(tn__sparse *m);
void tn__sparse_fini(tn__sparse *m);
/* Makes out the transpose of m, which has that many columns. Sets an error if
 * memory runs out. */
bool tn__sparse_transpose(const tn__sparse *m, int64_t columns,
                          tn__sparse *out);

/* Returns the product of m and x (columns, C): (rows, C). */
tn_tensor *tn__sparse_multiply(const tn__sparse *m, tn_tensor *x);
/* Computes the maximum of the elements of x in the columns of each row, and its
 * column: out[0] and out[1], (rows, C). Of equal elements the first counts. NaN
 * is skipped. The maximum of nothing is 0, its column -1. Returns false with an
 * error. */
bool tn__sparse_max(const tn__sparse *m, tn_tensor *x, tn_tensor *out[2]);

#endif
