/* check_lapack.h: checks the extension "lapack", which factors matrices. A
 * factorisation may not be unique, so the check tests its properties: the
 * product of the factors is the matrix, and factors are triangular or
 * orthogonal. */
#ifndef TN_CHECK_LAPACK_H
#define TN_CHECK_LAPACK_H

#include "operand.h"

/* Runs one random case. Adds to *wrong the number of elements that are wrong
 * and of bytes outside the result that were overwritten. Returns TN_OK, or the
 * status with which the extension declined the call. */
tn_status lapack_case(const tn_lapack_extension *lapack, int64_t *wrong);

#endif
