/* opencl_driver.h: pointers to the functions of libOpenCL. The library is
 * opened when it is first needed and not linked. The list below names each
 * function that the plugin uses. */
#ifndef TN_OPENCL_DRIVER_H
#define TN_OPENCL_DRIVER_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#define TN_OPENCL_DRIVER_MAP(X)                                               \
    X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo)     \
    X(CreateContext) X(ReleaseContext)                                        \
    X(CreateCommandQueue) X(ReleaseCommandQueue) X(Flush) X(Finish)           \
    X(CreateBuffer) X(ReleaseMemObject) X(EnqueueMigrateMemObjects)           \
    X(EnqueueReadBuffer) X(EnqueueWriteBuffer) X(EnqueueCopyBuffer)           \
    X(EnqueueReadBufferRect) X(EnqueueWriteBufferRect)                        \
    X(EnqueueCopyBufferRect) X(EnqueueFillBuffer)                             \
    X(EnqueueMapBuffer) X(EnqueueUnmapMemObject)                              \
    X(EnqueueMarkerWithWaitList) X(EnqueueBarrierWithWaitList)                \
    X(GetEventInfo) X(ReleaseEvent)                                           \
    X(CreateProgramWithSource) X(CreateProgramWithBinary) X(BuildProgram)     \
    X(GetProgramInfo) X(GetProgramBuildInfo) X(ReleaseProgram)                \
    X(CreateKernel) X(ReleaseKernel) X(SetKernelArg)                          \
    X(GetKernelWorkGroupInfo) X(EnqueueNDRangeKernel)

/* The functions of libOpenCL: cl.Finish points to clFinish, and so on. */
typedef struct tn_opencl_driver {
#define TN_OPENCL_DRIVER_FIELD(name) __typeof__(&cl##name) name;
    TN_OPENCL_DRIVER_MAP(TN_OPENCL_DRIVER_FIELD)
#undef TN_OPENCL_DRIVER_FIELD
} tn_opencl_driver;

extern tn_opencl_driver cl;

/* Opens libOpenCL and sets the function pointers in `cl`. Returns NULL on
 * success, otherwise the reason why opening failed. */
const char *tn__opencl_driver_open(void);

/* Returns the name of an error, such as "CL_OUT_OF_RESOURCES". */
const char *tn__opencl_error_name(cl_int error);

#endif
