/* cuda_error.c: errors of the driver as the core's: their status, their text. */
#include "cuda.h"

/* The device is lost to the process after these: "any further CUDA work will
 * return the same error" (cuda.h of CUDA 13.0), but where another reason is
 * given. All other errors are those of one call: the next one may work. */
static const tn_cu_result losses[] = {
    TN_CU_FORKED,
    TN_CU_DEINITIALIZED,        /* the driver is shutting down */
    TN_CU_INVALID_CONTEXT,      /* somebody destroyed the device's context */
    TN_CU_CONTEXT_IS_DESTROYED, /* likewise, by cuDevicePrimaryCtxReset */
    TN_CU_ECC_UNCORRECTABLE,    /* what memory holds is wrong from then on */
    TN_CU_NVLINK_UNCORRECTABLE, /* so is what came from another GPU */
    TN_CU_CONTAINED,            /* of either, known to be this process's */
    TN_CU_ILLEGAL_ADDRESS,      /* faults of a kernel, to INVALID_PC */
    TN_CU_LAUNCH_TIMEOUT,
    TN_CU_ASSERT, /* "the context cannot be used anymore" */
    TN_CU_HARDWARE_STACK_ERROR,
    TN_CU_ILLEGAL_INSTRUCTION,
    TN_CU_MISALIGNED_ADDRESS,
    TN_CU_INVALID_ADDRESS_SPACE,
    TN_CU_INVALID_PC,
    TN_CU_LAUNCH_FAILED,         /* a fault that has no code of its own */
    TN_CU_TENSOR_MEMORY_LEAK,    /* a kernel of sm_100 ended with some */
    TN_CU_MPS_CLIENT_TERMINATED, /* by its server */
    TN_CU_EXTERNAL_DEVICE,       /* one that shares memory or semaphores */
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

/* Work that was accepted has failed. Its tag is known where there was one
 * piece of it. */
tn_status tn__cuda_fail_deferred(tn_queue *queue, tn_cu_result error,
                                 tn_fault *fault)
{
    tn__pending_fault(&queue->pending, status_of(error), fault);
    return report(
        queue->device, "cuStreamSynchronize", error,
        queue->pending.count > 1
            ? "; with TENON_CUDA_BLOCKING=1 the operator that did it is named"
            : "");
}
