/* upload.h: batches on their way to a device. */
#ifndef TN_LIB_DATA_UPLOAD_H
#define TN_LIB_DATA_UPLOAD_H

#include <stdint.h>
#include <tenon/data.h>

typedef struct tn__upload tn__upload;

/* For batches of which at most `ahead` are made and not taken. NULL with an
 * error: TN_ERR_MEMORY. */
tn__upload *tn__upload_new(tn_device *device, int64_t ahead);
void tn__upload_free(tn__upload *upload);

/* Batch k's fields on the device instead, owned by the open scope; count is
 * returned, or a negative status. Any thread, each with its own k. */
int tn__upload_send(tn__upload *upload, int64_t k, tn_tensor **fields,
                    int count);
/* Batch k is taken: what the device is given now comes after its arrival. All
 * work on the batch before has been given. */
tn_status tn__upload_taken(tn__upload *upload, int64_t k);
/* Numbers begin anew; no batch is used any more. */
tn_status tn__upload_restart(tn__upload *upload);

#endif
