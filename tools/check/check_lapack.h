/* check_lapack.h: a case of the extension "lapack", by what factors are: their product,
 * and that they are triangles or orthogonal. */
#ifndef TN_CHECK_LAPACK_H
#define TN_CHECK_LAPACK_H

#include "operand.h"

/* TN_OK, or what the extension declines with; *wrong: how many elements, or
 * bytes beside them, are not as they should be. */
tn_status lapack_case(const tn_lapack_extension *lapack, int64_t *wrong);

#endif
