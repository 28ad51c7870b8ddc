/* loader_options.h: reads and checks the options of tn_loader_new. */
#ifndef TN_LIB_DATA_LOADER_OPTIONS_H
#define TN_LIB_DATA_LOADER_OPTIONS_H

#include <tenon/data.h>

/* Stores the options of a loader of set in *all, with the defaults of those that
 * were not given, and checks them. Returns TN_OK, or the status of the error
 * that it has recorded. */
tn_status tn__loader_options_take(const tn_dataset *set,
                                  const tn_loader_new_options *options,
                                  tn_loader_new_options *all);

#endif
