/* reference.h: types and functions that the files of this plugin share. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* The function table of the core (libtenon), which it passed to
 * tenon_plugin_v1. */
extern const tn_host *reference_host;

struct tn_buffer {
    unsigned char *data; /* owned: host memory */
};

/* ---- numbers.c: one element of any dtype --------------------------------- */

/* A number of any dtype is stored in a tn_number. Floats of every width are in
 * its field f, all other numbers in its field i. */
bool reference_is_float(tn_dtype dtype);
size_t reference_bytes(tn_dtype dtype);
tn_number reference_load(const tn_strided *view, int64_t at);
void reference_store(const tn_strided *view, int64_t at, tn_number x);
/* Returns x + y, x * y, max(x, y) or min(x, y), depending on kind, which is
 * TN_REDUCE_SUM, PROD, MAX or MIN. Computes in double for f64, in float for
 * other floats, and in wrapping 64-bit integers for all other dtypes. */
tn_number reference_combine(unsigned kind, tn_dtype dtype, tn_number x,
                            tn_number y);

/* Returns the offset in memory of the element with the indices point[0], ...,
 * point[ndim - 1], in elements. */
int64_t reference_offset(const tn_strided *view, const int64_t *point,
                         uint32_t ndim);
/* Advances the indices point[] to the next element in row-major order. Returns
 * false after the last element. */
bool reference_next(int64_t *point, const int64_t *extent, uint32_t ndim);
int64_t reference_numel(const int64_t *extent, uint32_t ndim);

/* ---- the primitives ------------------------------------------------------ */

tn_status reference_matmul(const tn_matmul_args *matmul);
/* If an index is out of range, reference_scatter fills *fault and returns
 * TN_ERR_INDEX. */
tn_status reference_scatter(const tn_scatter_args *scatter, tn_fault *fault);
tn_status reference_scan(const tn_scan_args *scan);
tn_status reference_sort(const tn_sort_args *sort);

#endif
