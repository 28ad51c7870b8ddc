/* measure.c: measures the time of different implementations of the same work,
 * and stores the chosen one in the disk cache, for this device and driver
 * version. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "opencl.h"

static uint32_t load_choice(void *context, const void *value, uint64_t bytes)
{
    if (bytes != 1)
        return 0;
    memcpy(context, value, 1);
    return 1;
}

/* Returns the key of a choice in the disk cache. The key contains the driver's
 * version, so that a new driver is measured again. */
static char *key_of(const tn_plugin_device *device, const char *what,
                    size_t *bytes)
{
    char head[TN_OPENCL_HEAD];
    tn__opencl_cache_head(device, head, sizeof head);
    return tn__cache_key(head, what, strlen(what), bytes);
}

uint8_t tn__opencl_choice_load(const tn_plugin_device *device, const char *what,
                               uint8_t most)
{
    size_t bytes = 0;
    uint8_t choice = 0;
    char *key = key_of(device, what, &bytes);
    bool known = key && tn__host->cache_read(key, bytes, load_choice, &choice);
    free(key);
    return known && choice <= most ? choice : 0;
}

void tn__opencl_choice_store(const tn_plugin_device *device, const char *what,
                             uint8_t choice)
{
    size_t bytes = 0;
    char *key = key_of(device, what, &bytes);
    if (key)
        tn__host->cache_write(key, bytes, &choice, 1);
    free(key);
}

double tn__opencl_time(tn_queue *queue, tn_opencl_work *work, void *context,
                       uint8_t variant, tn_status *status)
{
    struct timespec begun, done;
    cl_int error = cl.Finish(queue->queue);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    *status = error ? TN_OK : work(queue, context, variant);
    if (!error && !*status)
        error = cl.Finish(queue->queue);
    clock_gettime(CLOCK_MONOTONIC, &done);
    if (error)
        *status = tn__opencl_fail(queue->device, "clFinish", error);
    return (double)(done.tv_sec - begun.tv_sec) +
           1e-9 * (double)(done.tv_nsec - begun.tv_nsec);
}
