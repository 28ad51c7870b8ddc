/* check_quantised.h: runs a random case of the extension
 * "quantised-product". */
#ifndef TN_CHECK_QUANTISED_H
#define TN_CHECK_QUANTISED_H

#include <tenon/plugin.h>

/* Returns the status of the call. Sets *wrong to the number of elements that
 * differ from the plain definition. */
tn_status quantised_case(const tn_quantised_product_extension *product,
                         int64_t *wrong);

#endif
