/* A libcuda.so.1 without a GPU, for test_dnn.c. It exports each function that
 * cuDNN looks up, reports that there is no device, and accepts any compiled
 * kernel. */

#define NO_DEVICE 100 /* CUDA_ERROR_NO_DEVICE */

#define SEEN __attribute__((visibility("default")))

/* test_dnn.c looks this symbol up to recognise this driver. */
SEEN extern const int tn_accepting_driver;
const int tn_accepting_driver = 1;

#define ABSENT(name)                                                          \
    SEEN int name(void);                                                      \
    int name(void)                                                            \
    {                                                                         \
        return NO_DEVICE;                                                     \
    }
ABSENT(cuInit)
ABSENT(cuDriverGetVersion)
ABSENT(cuDeviceGetCount)
ABSENT(cuDeviceGet)
ABSENT(cuGetErrorName)
ABSENT(cuGetErrorString)
ABSENT(cuCtxGetCurrent)
ABSENT(cuCtxGetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuStreamGetCtx)
ABSENT(cuLibraryLoadFromFile)
ABSENT(cuLinkCreate)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkDestroy)
ABSENT(cuLaunchKernel)
ABSENT(cuLaunchKernelEx)
ABSENT(cuLaunchCooperativeKernel)
ABSENT(cuTensorMapEncodeIm2col)
ABSENT(cuTensorMapEncodeTiled)

SEEN int cuLibraryLoadData(void **library);
int cuLibraryLoadData(void **library)
{
    *library = (void *)library;
    return 0;
}

SEEN int cuModuleLoadData(void **module);
int cuModuleLoadData(void **module)
{
    *module = (void *)module;
    return 0;
}

SEEN int cuModuleGetFunction(void **function);
int cuModuleGetFunction(void **function)
{
    *function = (void *)function;
    return 0;
}

SEEN int cuModuleUnload(void *module);
int cuModuleUnload(void *module)
{
    (void)module;
    return 0;
}

SEEN int cuLibraryGetKernel(void **kernel);
int cuLibraryGetKernel(void **kernel)
{
    *kernel = (void *)kernel;
    return 0;
}

SEEN int cuLibraryUnload(void *library);
int cuLibraryUnload(void *library)
{
    (void)library;
    return 0;
}

SEEN int cuKernelSetAttribute(int attribute);
int cuKernelSetAttribute(int attribute)
{
    (void)attribute;
    return 0;
}

SEEN int cuKernelGetAttribute(int *value);
int cuKernelGetAttribute(int *value)
{
    *value = 0;
    return 0;
}

SEEN int cuOccupancyMaxPotentialClusterSize(int *size);
int cuOccupancyMaxPotentialClusterSize(int *size)
{
    *size = 8;
    return 0;
}
