/* device_list.c: lists the devices of a driver once in each process. */
#include "shared.h"

tn_status tn__device_list_count(tn_device_list *list, uint32_t *count)
{
    pthread_once(&list->once, list->fill);
    *count = list->count;
    if (!list->count)
        tn__host->fail(TN_ERR_NO_DEVICE, "%s", list->error);
    return TN_OK;
}

bool tn__device_list_has(tn_device_list *list, uint32_t i)
{
    uint32_t count;
    tn__device_list_count(list, &count);
    if (i < count)
        return true;
    tn__host->fail(TN_ERR_ARGUMENT,
                   "device %u does not exist: the number of devices is %u", i,
                   count);
    return false;
}

void tn__device_info_copy(const tn_device_info *from, tn_device_info *out)
{
    tn_device_info full = *from;
    full.size = sizeof full;
    tn_struct_copy(out, &full);
}
