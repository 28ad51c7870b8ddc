/* checkpoint_parts.h: shared by saving and loading a checkpoint: the names in
 * the file, and the checks of a call. A part is one of the objects of a
 * checkpoint: module, optimizer, averages, loader, schedule, scaler. */
#ifndef TN_LIB_TRAIN_CHECKPOINT_PARTS_H
#define TN_LIB_TRAIN_CHECKPOINT_PARTS_H

#include <tenon/checkpoint.h>

/* Prefixes of the names of tensors. */
#define TN__MODULE_PREFIX "module."
#define TN__OPTIM_PREFIX "optim."
#define TN__AVERAGE_PREFIX "average."
/* Keys of the texts. */
#define TN__LOADER_KEY "loader"
#define TN__POSITION_KEY "loader.position"
#define TN__SCHEDULE_KEY "schedule"
#define TN__SCALER_KEY "scaler"
#define TN__AVERAGE_KEY "average.updates"
#define TN__VALUES_KEY "values"

enum { TN__CHECKPOINT_VALUES = 6 }; /* maximum number of values */

/* Checks the arguments of a call, and copies the caller's struct to *c. The
 * struct may be of an older and thus shorter version; missing fields are NULL
 * or 0. */
tn_status tn__checkpoint_check(const char *call, const char *path,
                               const tn_checkpoint *theirs, tn_checkpoint *c);

#endif
