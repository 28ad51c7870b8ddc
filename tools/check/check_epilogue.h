/* check_epilogue.h: a random case of the extension "epilogue". */
#ifndef TN_CHECK_EPILOGUE_H
#define TN_CHECK_EPILOGUE_H

#include <tenon/plugin.h>

/* Runs a random product and a launch that reads its result, first as two calls of
 * the plugin and then as one call of the extension. Returns the extension's
 * status. Stores in *wrong how many elements differ. */
tn_status epilogue_case(const tn_epilogue_extension *epilogue, int64_t *wrong);

#endif
