/* cuda_driver.h: declares the functions, types and constants of the CUDA driver
 * and of the run-time compiler NVRTC. Both libraries are opened when they are
 * first needed. Nothing is linked, and the build needs no CUDA toolkit.
 *
 * The types are those of the driver's ABI (cuda.h and nvrtc.h of CUDA 11.4 and
 * later). NVIDIA does not change that ABI: a changed function gets a new symbol
 * (cuMemAlloc_v2). tests/cuda/declarations.c compares the types with a
 * toolkit's headers, if there are any. */
#ifndef TN_CUDA_DRIVER_H
#define TN_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int tn_cu_result; /* CUresult; 0 is success */
typedef int tn_cu_device;
typedef unsigned long long tn_cu_pointer; /* CUdeviceptr */
typedef struct CUctx_st *tn_cu_context;
typedef struct CUmod_st *tn_cu_module;
typedef struct CUfunc_st *tn_cu_function;
typedef struct CUstream_st *tn_cu_stream;
typedef struct CUevent_st *tn_cu_event;
typedef struct CUgraph_st *tn_cu_graph;
typedef struct CUgraphExec_st *tn_cu_graph_exec;
typedef struct CUgraphNode_st *tn_cu_graph_node;

typedef struct tn_cu_uuid {
    char bytes[16];
} tn_cu_uuid;

enum { TN_CU_HOST = 1, TN_CU_DEVICE = 2 }; /* values of CUmemorytype */

/* The struct CUDA_MEMCPY2D, which describes a copy of `height` rows of `width`
 * bytes. */
typedef struct tn_cu_rectangle {
    size_t src_x, src_y;
    int src_type;
    const void *src_host;
    tn_cu_pointer src_device;
    void *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    int dst_type;
    void *dst_host;
    tn_cu_pointer dst_device;
    void *dst_array;
    size_t dst_pitch;
    size_t width, height;
} tn_cu_rectangle;

/* The struct CUDA_KERNEL_NODE_PARAMS_v1: the arguments of cuLaunchKernel. */
typedef struct tn_cu_kernel_node {
    tn_cu_function function;
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void **parameters, **extra;
} tn_cu_kernel_node;

/* The CUresult values that this plugin distinguishes. cuda_error.c lists the
 * errors after which a device is lost. */
enum { TN_CU_INVALID_VALUE = 1, TN_CU_OUT_OF_MEMORY = 2,
       TN_CU_NOT_INITIALIZED = 3, TN_CU_DEINITIALIZED = 4,
       TN_CU_STUB_LIBRARY = 34, TN_CU_NO_DEVICE = 100,
       TN_CU_INVALID_CONTEXT = 201, TN_CU_NO_BINARY = 209,
       TN_CU_ECC_UNCORRECTABLE = 214, TN_CU_INVALID_PTX = 218,
       TN_CU_NVLINK_UNCORRECTABLE = 220, TN_CU_UNSUPPORTED_PTX = 222,
       TN_CU_CONTAINED = 226, TN_CU_NOT_FOUND = 500, TN_CU_NOT_READY = 600,
       TN_CU_ILLEGAL_ADDRESS = 700, TN_CU_LAUNCH_TIMEOUT = 702,
       TN_CU_CONTEXT_IS_DESTROYED = 709, TN_CU_ASSERT = 710,
       TN_CU_HARDWARE_STACK_ERROR = 714, TN_CU_ILLEGAL_INSTRUCTION = 715,
       TN_CU_MISALIGNED_ADDRESS = 716, TN_CU_INVALID_ADDRESS_SPACE = 717,
       TN_CU_INVALID_PC = 718, TN_CU_LAUNCH_FAILED = 719,
       TN_CU_TENSOR_MEMORY_LEAK = 721, TN_CU_MPS_CLIENT_TERMINATED = 810,
       TN_CU_UPDATE_FAILURE = 910, TN_CU_EXTERNAL_DEVICE = 911,
       /* The plugin's own code for calls in a forked process whose parent had
        * initialised the driver. */
       TN_CU_FORKED = -1 };

/* Values of CUdevice_attribute. */
enum { TN_CU_MAX_THREADS_PER_BLOCK = 1, TN_CU_SHARED_PER_BLOCK = 8,
       TN_CU_MULTIPROCESSORS = 16, TN_CU_INTEGRATED = 18,
       TN_CU_COMPUTE_MODE = 20, /* 2 is "prohibited" */ TN_CU_PCI_BUS = 33,
       TN_CU_PCI_DEVICE = 34, TN_CU_PCI_DOMAIN = 50, TN_CU_MAJOR = 75,
       TN_CU_MINOR = 76 };

/* The flags CU_STREAM_NON_BLOCKING and CU_EVENT_DISABLE_TIMING. */
enum { TN_CU_NON_BLOCKING = 1, TN_CU_NO_TIMING = 2 };

/* The functions of the driver, each as X(name of the field, symbol,
 * parameters). */
#define TN_CUDA_DRIVER_MAP(X)                                                 \
    X(init, cuInit, (unsigned flags))                                         \
    X(version, cuDriverGetVersion, (int *version))                            \
    X(error_name, cuGetErrorName, (tn_cu_result error, const char **name))    \
    X(error_text, cuGetErrorString, (tn_cu_result error, const char **text))  \
    X(device_count, cuDeviceGetCount, (int *count))                           \
    X(device_get, cuDeviceGet, (tn_cu_device *device, int ordinal))           \
    X(device_name, cuDeviceGetName,                                           \
      (char *name, int room, tn_cu_device device))                            \
    /* For a MIG instance, cuDeviceGetUuid returns the UUID of its GPU, and   \
     * cuDeviceGetUuid_v2 the UUID of the instance. */                        \
    X(gpu_uuid, cuDeviceGetUuid, (tn_cu_uuid *uuid, tn_cu_device device))     \
    X(device_uuid, cuDeviceGetUuid_v2,                                        \
      (tn_cu_uuid *uuid, tn_cu_device device))                                \
    X(device_memory, cuDeviceTotalMem_v2,                                     \
      (size_t *bytes, tn_cu_device device))                                   \
    X(device_attribute, cuDeviceGetAttribute,                                 \
      (int *value, int attribute, tn_cu_device device))                       \
    X(context_retain, cuDevicePrimaryCtxRetain,                               \
      (tn_cu_context *context, tn_cu_device device))                          \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (tn_cu_device device))   \
    X(context_get, cuCtxGetCurrent, (tn_cu_context *context))                 \
    X(context_set, cuCtxSetCurrent, (tn_cu_context context))                  \
    X(memory_info, cuMemGetInfo_v2, (size_t *left, size_t *total))            \
    X(alloc, cuMemAlloc_v2, (tn_cu_pointer *pointer, size_t bytes))           \
    X(free, cuMemFree_v2, (tn_cu_pointer pointer))                            \
    X(host_alloc, cuMemHostAlloc,                                             \
      (void **out, size_t bytes, unsigned flags))                             \
    X(host_free, cuMemFreeHost, (void *pointer))                              \
    X(to_device, cuMemcpyHtoDAsync_v2,                                        \
      (tn_cu_pointer dst, const void *src, size_t bytes,                      \
       tn_cu_stream stream))                                                  \
    X(to_host, cuMemcpyDtoHAsync_v2,                                          \
      (void *dst, tn_cu_pointer src, size_t bytes, tn_cu_stream stream))      \
    X(on_device, cuMemcpyDtoDAsync_v2,                                        \
      (tn_cu_pointer dst, tn_cu_pointer src, size_t bytes,                    \
       tn_cu_stream stream))                                                  \
    X(from_peer, cuMemcpyPeerAsync,                                           \
      (tn_cu_pointer dst, tn_cu_context dst_context, tn_cu_pointer src,       \
       tn_cu_context src_context, size_t bytes, tn_cu_stream stream))         \
    X(peer_enable, cuCtxEnablePeerAccess,                                     \
      (tn_cu_context peer, unsigned flags))                                   \
    X(copy_rectangle, cuMemcpy2DAsync_v2,                                     \
      (const tn_cu_rectangle *rectangle, tn_cu_stream stream))                \
    X(fill, cuMemsetD8Async,                                                  \
      (tn_cu_pointer pointer, unsigned char value, size_t bytes,              \
       tn_cu_stream stream))                                                  \
    X(stream_create, cuStreamCreate, (tn_cu_stream *stream, unsigned flags))  \
    X(stream_destroy, cuStreamDestroy_v2, (tn_cu_stream stream))              \
    X(stream_sync, cuStreamSynchronize, (tn_cu_stream stream))                \
    X(stream_wait, cuStreamWaitEvent,                                         \
      (tn_cu_stream stream, tn_cu_event event, unsigned flags))               \
    X(event_create, cuEventCreate, (tn_cu_event *event, unsigned flags))      \
    X(event_destroy, cuEventDestroy_v2, (tn_cu_event event))                  \
    X(event_record, cuEventRecord, (tn_cu_event event, tn_cu_stream stream))  \
    X(event_query, cuEventQuery, (tn_cu_event event))                         \
    X(event_elapsed, cuEventElapsedTime,                                      \
      (float *milliseconds, tn_cu_event from, tn_cu_event to))                \
    X(capture_begin, cuStreamBeginCapture_v2,                                 \
      (tn_cu_stream stream, int mode))                                        \
    X(capture_end, cuStreamEndCapture,                                        \
      (tn_cu_stream stream, tn_cu_graph *graph))                              \
    /* *nodes are those on which the next captured node depends: the last one. \
     */                                                                       \
    X(capture_info, cuStreamGetCaptureInfo_v2,                                \
      (tn_cu_stream stream, int *status, unsigned long long *id,              \
       tn_cu_graph *graph, const tn_cu_graph_node **nodes, size_t *count))    \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                         \
      (tn_cu_graph_exec *exec, tn_cu_graph graph, unsigned long long flags))  \
    /* CUDA 12 adds a function with other parameters and the suffix _v2. It   \
     * still has this one, which CUDA 11 has too. */                          \
    X(graph_update, cuGraphExecUpdate,                                        \
      (tn_cu_graph_exec exec, tn_cu_graph graph, void **node, int *result))   \
    /* Without the suffix _v2, which CUDA 12 adds for a longer struct. */        \
    X(graph_set_kernel, cuGraphExecKernelNodeSetParams,                       \
      (tn_cu_graph_exec exec, tn_cu_graph_node node,                          \
       const tn_cu_kernel_node *launch))                                      \
    X(graph_launch, cuGraphLaunch,                                            \
      (tn_cu_graph_exec exec, tn_cu_stream stream))                           \
    X(graph_destroy, cuGraphDestroy, (tn_cu_graph graph))                     \
    X(graph_exec_destroy, cuGraphExecDestroy, (tn_cu_graph_exec exec))        \
    X(module_load, cuModuleLoadData,                                          \
      (tn_cu_module *module, const void *image))                              \
    X(module_unload, cuModuleUnload, (tn_cu_module module))                   \
    X(module_function, cuModuleGetFunction,                                   \
      (tn_cu_function *function, tn_cu_module module, const char *name))      \
    X(launch, cuLaunchKernel,                                                 \
      (tn_cu_function function, unsigned grid_x, unsigned grid_y,             \
       unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
       unsigned shared_bytes, tn_cu_stream stream, void **parameters,         \
       void **extra))

typedef struct tn_cuda_driver {
#define TN_CUDA_FIELD(field, symbol, parameters)                              \
    tn_cu_result(*field) parameters;
    TN_CUDA_DRIVER_MAP(TN_CUDA_FIELD)
} tn_cuda_driver;

extern tn_cuda_driver tn__cu;

/* The libraries that the plugin opens. The functions of each are in a struct of
 * pointers: tn__cu, tn__nvrtc, tn__lt (cublaslt.h), tn__dnn (cudnn.h) and
 * tn__solver (cusolver.h). */
typedef enum tn_cuda_library {
    TN_CUDA_DRIVER, /* opening it also calls cuInit */
    TN_CUDA_NVRTC, TN_CUDA_LT, TN_CUDA_DNN, TN_CUDA_SOLVER
} tn_cuda_library;

/* Opens the library and sets its struct of pointers. Returns NULL on success,
 * otherwise the reason why opening failed. */
const char *tn__cuda_open(tn_cuda_library which);

/* Whether the process was forked from one that had called cuInit. The driver
 * rejects every call in such a process. */
extern bool tn__cuda_forked;
/* The error message of calls in a process that was forked in this way. */
#define TN_CUDA_FORKED                                                        \
    "the process was forked after CUDA was initialised; open devices in the " \
    "child only, or start it with exec"

/* Returns the name of an error, such as "CUDA_ERROR_OUT_OF_MEMORY". */
const char *tn__cuda_error_name(tn_cu_result error);

/* ---- NVRTC --------------------------------------------------------------- */

typedef int tn_nvrtc_result;
typedef struct _nvrtcProgram *tn_nvrtc_program;

#define TN_NVRTC_MAP(X)                                                       \
    X(version, nvrtcVersion, (int *major, int *minor))                        \
    X(arch_count, nvrtcGetNumSupportedArchs, (int *count))                    \
    X(archs, nvrtcGetSupportedArchs, (int *archs))                            \
    X(create, nvrtcCreateProgram,                                             \
      (tn_nvrtc_program *program, const char *text, const char *name,         \
       int headers, const char *const *header,                                \
       const char *const *header_name))                                       \
    X(compile, nvrtcCompileProgram,                                           \
      (tn_nvrtc_program program, int options, const char *const *option))     \
    X(log_size, nvrtcGetProgramLogSize,                                       \
      (tn_nvrtc_program program, size_t *bytes))                              \
    X(log, nvrtcGetProgramLog, (tn_nvrtc_program program, char *log))         \
    X(ptx_size, nvrtcGetPTXSize, (tn_nvrtc_program program, size_t *bytes))   \
    X(ptx, nvrtcGetPTX, (tn_nvrtc_program program, char *ptx))                \
    X(cubin_size, nvrtcGetCUBINSize,                                          \
      (tn_nvrtc_program program, size_t *bytes))                              \
    X(cubin, nvrtcGetCUBIN, (tn_nvrtc_program program, char *cubin))          \
    X(destroy, nvrtcDestroyProgram, (tn_nvrtc_program *program))

typedef struct tn_nvrtc {
#define TN_NVRTC_FIELD(field, symbol, parameters)                             \
    tn_nvrtc_result(*field) parameters;
    TN_NVRTC_MAP(TN_NVRTC_FIELD)
} tn_nvrtc;

extern tn_nvrtc tn__nvrtc;

#endif
