/* workers.h: threads that prefetch batches. */
#ifndef TN_LIB_DATA_WORKERS_H
#define TN_LIB_DATA_WORKERS_H

/* This code runs once for each batch, around operators.
 * gcc's -Os makes it a seventh smaller. */
#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include <tenon/data.h>

typedef struct tn__team tn__team;

/* Makes the fields of batch k, owned by the open scope. Returns their number,
 * or a negative status with the error recorded. Runs in several threads at
 * once. */
typedef int (*tn__batch_maker)(void *context, int64_t k, tn_tensor **fields);

/* Starts threads that make the batches [begin, end), a bounded number ahead.
 * They use the caller's current device and gradient mode. context must remain
 * valid until tn__team_stop. NULL with TN_ERR_MEMORY; NULL without an error if
 * no thread can be started. */
tn__team *tn__team_start(int count, int64_t begin, int64_t end,
                         tn__batch_maker make, void *context);

/* Greatest number of batches that are made and not yet taken. */
int64_t tn__team_ahead(int count);

/* The next batch in order. Its fields are owned by the open scope; a failure of
 * its maker is recorded in this thread. */
int tn__team_take(tn__team *team, tn_tensor **fields);

/* Ends the threads after their current batches and releases batches that were
 * not taken. NULL is allowed. */
void tn__team_stop(tn__team *team);

#endif
