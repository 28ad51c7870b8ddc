/* workers.h: threads that make batches ahead of their use. */
#ifndef TN_LIB_DATA_WORKERS_H
#define TN_LIB_DATA_WORKERS_H

#include <tenon/data.h>

typedef struct tn__team tn__team;

/* Makes the fields of batch k, owned by the open scope; how many, or a negative
 * status with the error recorded. Runs in several threads at once. */
typedef int (*tn__batch_maker)(void *context, int64_t k, tn_tensor **fields);

/* Starts threads that make the batches [begin, end), a bounded number ahead.
 * They have the caller's current device and gradient mode. context must stay
 * until tn__team_stop. NULL with TN_ERR_MEMORY; NULL without an error where no
 * thread is to be had. */
tn__team *tn__team_start(int count, int64_t begin, int64_t end,
                         tn__batch_maker make, void *context);

/* Batches that are made and not taken, at most. */
int64_t tn__team_ahead(int count);

/* The next batch, in order, as its maker made it: fields are owned by the open
 * scope, and a failure is recorded in this thread. */
int tn__team_take(tn__team *team, tn_tensor **fields);

/* Ends the threads once each is done with its batch, and drops what nobody
 * took. NULL is welcome. */
void tn__team_stop(tn__team *team);

#endif
