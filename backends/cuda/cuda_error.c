/* cuda_error.c: converts errors of the driver to a Tenon status and a
 * message. */
#include "cuda.h"

/* Errors after which the process can no longer use the device. After most of
 * them, "any further CUDA work will return the same error" (cuda.h of CUDA
 * 13.0). The comments give the reasons for the others. All errors that are not
 * in this list concern one call only. */
static const tn_cu_result losses[] = {
    TN_CU_FORKED,
    TN_CU_DEINITIALIZED,        /* the driver is shutting down */
    TN_CU_INVALID_CONTEXT,      /* other code destroyed the context */
    TN_CU_CONTEXT_IS_DESTROYED, /* other code called cuDevicePrimaryCtxReset */
    TN_CU_ECC_UNCORRECTABLE,    /* memory may hold wrong values */
    TN_CU_NVLINK_UNCORRECTABLE, /* data from another GPU may be wrong */
    /* an uncorrectable memory or NVLink error that affects only this process */
    TN_CU_CONTAINED,
    /* From here to TN_CU_INVALID_PC: a kernel caused the error. */
    TN_CU_ILLEGAL_ADDRESS,
    TN_CU_LAUNCH_TIMEOUT,
    TN_CU_ASSERT, /* cuda.h: "the context cannot be used anymore" */
    TN_CU_HARDWARE_STACK_ERROR,
    TN_CU_ILLEGAL_INSTRUCTION,
    TN_CU_MISALIGNED_ADDRESS,
    TN_CU_INVALID_ADDRESS_SPACE,
    TN_CU_INVALID_PC,
    TN_CU_LAUNCH_FAILED,         /* a kernel caused an error without a code */
    TN_CU_TENSOR_MEMORY_LEAK,    /* a kernel on a Blackwell GPU (sm_100) did not
                                  * free its tensor memory */
    TN_CU_MPS_CLIENT_TERMINATED, /* the MPS server ended this client */
    TN_CU_EXTERNAL_DEVICE,       /* an external device that shares memory or
                                    semaphores reported an error */
};

static tn_status status_of(tn_cu_result error)
{
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
        if (losses[i] == error)
            return TN_ERR_DEVICE_LOST;
    return error == TN_CU_OUT_OF_MEMORY ? TN_ERR_MEMORY : TN_ERR_INTERNAL;
}

static tn_status report(const tn_plugin_device *device, const char *what,
                        tn_cu_result error, const char *remedy)
{
    tn_status status = status_of(error);
    if (error == TN_CU_FORKED)
        return tn__host->fail(status, "%s: " TN_CUDA_FORKED,
                              device->listed->info.name);
    return tn__host->fail(status, "%s: %s: %s%s%s", device->listed->info.name,
                          what, tn__cuda_error_name(error),
                          status == TN_ERR_DEVICE_LOST
                              ? "; the device is lost to this process"
                              : "",
                          remedy);
}

tn_status tn__cuda_check(const tn_plugin_device *device, const char *what,
                         tn_cu_result error)
{
    return error ? report(device, what, error, "") : TN_OK;
}

/* Records a failure of work that was submitted earlier, and sets *fault. The
 * message names the operator only if exactly one piece of work was pending. */
tn_status tn__cuda_fail_deferred(tn_queue *queue, tn_cu_result error,
                                 tn_fault *fault)
{
    tn__pending_fault(&queue->pending, status_of(error), fault);
    return report(queue->device, "cuStreamSynchronize", error,
                  queue->pending.count > 1
                      ? "; TENON_CUDA_BLOCKING=1 names the operator that failed"
                      : "");
}
