/* check_lapack.h: checks a case of the extension "lapack" by the properties of
 * factors: their product, and that they are triangular or orthogonal. */
#ifndef TN_CHECK_LAPACK_H
#define TN_CHECK_LAPACK_H

#include "operand.h"

/* Returns TN_OK, or the status with which the extension declines. *wrong: how
 * many elements, or bytes beside them, are wrong. */
tn_status lapack_case(const tn_lapack_extension *lapack, int64_t *wrong);

#endif
