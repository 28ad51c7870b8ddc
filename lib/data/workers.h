/* workers.h: threads that prefetch batches. */
#ifndef TN_LIB_DATA_WORKERS_H
#define TN_LIB_DATA_WORKERS_H

#include <tenon/data.h>

typedef struct tn__team tn__team;

/* Makes batch k: stores its fields, owned by the open scope, in fields[].
 * Returns their number, or a negative status with the error recorded. Several
 * threads call it at the same time. */
typedef int (*tn__batch_maker)(void *context, int64_t k, tn_tensor **fields);

/* Starts count threads that make the batches [begin, end) in advance, at most
 * tn__team_ahead(count) of them. With ends_at_empty, a batch of 0 fields is the
 * last one. The threads use the caller's current device and
 * gradient mode. context must remain valid until tn__team_stop. Returns NULL
 * with TN_ERR_MEMORY if memory runs out, and NULL without an error if no thread
 * can be started. */
tn__team *tn__team_start(int count, int64_t begin, int64_t end,
                         bool ends_at_empty, tn__batch_maker make,
                         void *context);

/* Returns the maximum number of batches that `count` threads make before they
 * are taken. */
int64_t tn__team_ahead(int count);

/* Waits for the next batch in order and stores its fields, owned by the open
 * scope, in fields[]. If making it failed, the error is recorded in this
 * thread. */
int tn__team_take(tn__team *team, tn_tensor **fields);

/* Ends the threads after their current batches and releases batches that were
 * not taken. NULL is allowed. */
void tn__team_stop(tn__team *team);

#endif
