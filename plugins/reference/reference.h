/* reference.h: types and functions that the files of this plugin share. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* The core's table, given to tenon_plugin_v1. */
extern const tn_host *reference_host;

struct tn_buffer {
    unsigned char *data; /* owned: host memory */
};

/* ---- numbers.c: one element of any dtype --------------------------------- */

/* A number of any dtype is a tn_number: floats of every width are in .f,
 * exactly; all other dtypes are in .i. */
bool reference_is_float(tn_dtype dtype);
size_t reference_bytes(tn_dtype dtype);
tn_number reference_load(const tn_strided *view, int64_t at);
void reference_store(const tn_strided *view, int64_t at, tn_number x);
/* Returns x + y, x * y, max or min, for kind TN_REDUCE_SUM, PROD, MAX or MIN.
 * It is computed in double for f64, in float for other floats, and in wrapping
 * integers otherwise. */
tn_number reference_combine(unsigned kind, tn_dtype dtype, tn_number x,
                            tn_number y);

/* Returns the index in memory of the element at this point of a view. */
int64_t reference_offset(const tn_strided *view, const int64_t *point,
                         uint32_t ndim);
/* Moves to the next point in row-major order. Returns false after the last
 * point. */
bool reference_next(int64_t *point, const int64_t *extent, uint32_t ndim);
int64_t reference_numel(const int64_t *extent, uint32_t ndim);

/* ---- the primitives ------------------------------------------------------ */

tn_status reference_matmul(const tn_matmul_args *matmul);
/* Returns TN_ERR_INDEX, with *fault filled, if an index is out of range. */
tn_status reference_scatter(const tn_scatter_args *scatter, tn_fault *fault);
tn_status reference_scan(const tn_scan_args *scan);
tn_status reference_sort(const tn_sort_args *sort);

#endif
