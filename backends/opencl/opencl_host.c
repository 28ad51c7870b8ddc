/* opencl_host.c: allocates host memory for fast copies. It is the memory of an
 * OpenCL buffer that stays mapped. For a GPU such memory is page-locked. */
#include <stdlib.h>

#include "opencl.h"

struct tn_opencl_mapped {
    cl_mem memory; /* owned */
    void *at;
    tn_opencl_mapped *next; /* owned */
};

tn_status tn__opencl_host_alloc(tn_plugin_device *device, uint64_t bytes,
                                void **memory)
{
    const size_t size = bytes ? (size_t)bytes : 1;
    cl_int error = CL_OUT_OF_HOST_MEMORY;
    tn_opencl_mapped *made = calloc(1, sizeof *made);
    if (made)
        made->memory = cl.CreateBuffer(
            device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size,
            NULL, &error);
    if (!error)
        made->at = cl.EnqueueMapBuffer(device->queue, made->memory, CL_TRUE,
                                       CL_MAP_READ | CL_MAP_WRITE, 0, size, 0,
                                       NULL, NULL, &error);
    if (error) {
        if (made && made->memory)
            cl.ReleaseMemObject(made->memory);
        free(made);
        return tn__opencl_fail(device, "host memory for copies", error);
    }
    pthread_mutex_lock(&device->lock);
    made->next = device->mapped;
    device->mapped = made;
    pthread_mutex_unlock(&device->lock);
    *memory = made->at;
    return TN_OK;
}

void tn__opencl_host_free(tn_plugin_device *device, void *memory)
{
    tn_opencl_mapped *found = NULL;
    pthread_mutex_lock(&device->lock);
    for (tn_opencl_mapped **m = &device->mapped; *m && !found;)
        if ((*m)->at == memory) {
            found = *m;
            *m = found->next;
        } else {
            m = &(*m)->next;
        }
    pthread_mutex_unlock(&device->lock);
    if (!found)
        return;
    cl.EnqueueUnmapMemObject(device->queue, found->memory, memory, 0, NULL,
                             NULL);
    cl.Finish(device->queue);
    cl.ReleaseMemObject(found->memory);
    free(found);
}
