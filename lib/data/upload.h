/* upload.h: copies batches to a device while it computes. */
#ifndef TN_LIB_DATA_UPLOAD_H
#define TN_LIB_DATA_UPLOAD_H

/* This code runs once for each batch, around copies.
 * gcc's -Os makes it a seventh smaller. */
#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include <stdint.h>
#include <tenon/data.h>

typedef struct tn__upload tn__upload;

/* At most `ahead` batches are made and not yet taken. NULL with an error:
 * TN_ERR_MEMORY. */
tn__upload *tn__upload_new(tn_device *device, int64_t ahead);
void tn__upload_free(tn__upload *upload);

/* Replaces batch k's fields by copies on the device, owned by the open scope.
 * Returns count or a negative status. Callable from any thread, each with
 * another k. */
int tn__upload_send(tn__upload *upload, int64_t k, tn_tensor **fields,
                    int count);
/* Batch k is taken: work that is submitted to the device from now on waits for
 * its arrival. All work on the batch before has been submitted. */
tn_status tn__upload_taken(tn__upload *upload, int64_t k);
/* Batch numbers start again; no earlier batch is in use. */
tn_status tn__upload_restart(tn__upload *upload);

#endif
