/* row_product.h: products whose operands are both contiguous along k, such as
 * x W^T in a layer (row_product.c). */
#ifndef TN_CPU_ROW_PRODUCT_H
#define TN_CPU_ROW_PRODUCT_H

#include "../epilogue.h"

/* Returns whether tn__cpu_row_product computes m. The answer depends on b and
 * c, but not on the number of rows of a, so that the result of a row is
 * bit-identical in each product. */
bool tn__cpu_row_product_takes(const tn_matmul_args *m);
/* Runs `then`, which may be NULL, for each part of c. Dimension `columns` of its
 * result is the columns of c, and those before it are the rows. */
tn_status tn__cpu_row_product(const tn_cpu_routines *routines,
                              const tn_matmul_args *m, tn_cpu_epilogue *then,
                              uint32_t columns);

#endif
