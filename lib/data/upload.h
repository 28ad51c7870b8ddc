/* upload.h: copies batches to a device while it computes. */
#ifndef TN_LIB_DATA_UPLOAD_H
#define TN_LIB_DATA_UPLOAD_H

#include <stdint.h>
#include <tenon/data.h>

typedef struct tn__upload tn__upload;

/* Makes an uploader for a loader in which at most `ahead` batches are made and
 * not yet taken. Returns NULL with TN_ERR_MEMORY recorded if memory runs
 * out. */
tn__upload *tn__upload_new(tn_device *device, int64_t ahead);
void tn__upload_free(tn__upload *upload);

/* Replaces batch k's fields by copies on the device, owned by the open scope.
 * Returns count or a negative status. Threads may call it at the same time for
 * different k. */
int tn__upload_send(tn__upload *upload, int64_t k, tn_tensor **fields,
                    int count);
/* Called when the loop takes batch k, after all work on the batch before has
 * been submitted. Work that is submitted to the device afterwards waits until
 * batch k has arrived. */
tn_status tn__upload_taken(tn__upload *upload, int64_t k);
/* Called before batch indices start again at 0, when no earlier batch is in
 * use. */
tn_status tn__upload_restart(tn__upload *upload);

#endif
