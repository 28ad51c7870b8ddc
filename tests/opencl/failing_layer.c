/* A layer between the OpenCL loader and a driver, for the test: with
 * TN_TEST_FAIL="clFinish -5" that function returns that error from now on.
 * One that returns an object gives NULL. */
#include <CL/cl_layer.h>

#include <stdlib.h>
#include <string.h>

static cl_icd_dispatch table, driver;

/* What the function named is to return; 0: it works. */
static cl_int failure(const char *name)
{
    const char *wanted = getenv("TN_TEST_FAIL");
    size_t length = strlen(name);
    return wanted && strncmp(wanted, name, length) == 0 &&
                   wanted[length] == ' '
               ? atoi(wanted + length)
               : 0;
}

/* A function whose result is its error, and one that points to it. */
#define RETURNS(name, declared, passed)                                       \
    static cl_int CL_API_CALL failing_##name declared                         \
    {                                                                         \
        cl_int error = failure("cl" #name);                                   \
        return error ? error : driver.cl##name passed;                        \
    }
#define MAKES(type, name, declared, passed)                                   \
    static type CL_API_CALL failing_##name declared                           \
    {                                                                         \
        cl_int error = failure("cl" #name);                                   \
        if (!error)                                                           \
            return driver.cl##name passed;                                    \
        if (out)                                                              \
            *out = error;                                                     \
        return NULL;                                                          \
    }

RETURNS(GetDeviceIDs,
        (cl_platform_id platform, cl_device_type type, cl_uint room,
         cl_device_id *devices, cl_uint *count),
        (platform, type, room, devices, count))
RETURNS(Finish, (cl_command_queue queue), (queue))
RETURNS(GetProgramInfo,
        (cl_program program, cl_program_info what, size_t bytes, void *value,
         size_t *needed),
        (program, what, bytes, value, needed))
RETURNS(EnqueueNDRangeKernel,
        (cl_command_queue queue, cl_kernel kernel, cl_uint ndim,
         const size_t *offset, const size_t *global, const size_t *local,
         cl_uint count, const cl_event *events, cl_event *event),
        (queue, kernel, ndim, offset, global, local, count, events, event))
MAKES(cl_context, CreateContext,
      (const cl_context_properties *properties, cl_uint count,
       const cl_device_id *devices,
       void(CL_CALLBACK *says)(const char *, const void *, size_t, void *),
       void *context, cl_int *out),
      (properties, count, devices, says, context, out))
MAKES(cl_mem, CreateBuffer,
      (cl_context context, cl_mem_flags flags, size_t bytes, void *host,
       cl_int *out),
      (context, flags, bytes, host, out))
MAKES(void *, EnqueueMapBuffer,
      (cl_command_queue queue, cl_mem memory, cl_bool wait, cl_map_flags flags,
       size_t offset, size_t bytes, cl_uint count, const cl_event *events,
       cl_event *event, cl_int *out),
      (queue, memory, wait, flags, offset, bytes, count, events, event, out))
MAKES(cl_program, CreateProgramWithBinary,
      (cl_context context, cl_uint count, const cl_device_id *devices,
       const size_t *bytes, const unsigned char **binaries, cl_int *states,
       cl_int *out),
      (context, count, devices, bytes, binaries, states, out))

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what,
                                               size_t bytes, void *value,
                                               size_t *needed)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (what != CL_LAYER_API_VERSION || (value && bytes < sizeof version))
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, &version, sizeof version);
    if (needed)
        *needed = sizeof version;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint entries,
                                            const cl_icd_dispatch *below,
                                            cl_uint *out_entries,
                                            const cl_icd_dispatch **out_table)
{
    if (entries < sizeof table / sizeof table.clGetPlatformIDs)
        return CL_INVALID_VALUE;
    driver = table = *below;
    table.clGetDeviceIDs = failing_GetDeviceIDs;
    table.clFinish = failing_Finish;
    table.clGetProgramInfo = failing_GetProgramInfo;
    table.clEnqueueNDRangeKernel = failing_EnqueueNDRangeKernel;
    table.clCreateContext = failing_CreateContext;
    table.clCreateBuffer = failing_CreateBuffer;
    table.clEnqueueMapBuffer = failing_EnqueueMapBuffer;
    table.clCreateProgramWithBinary = failing_CreateProgramWithBinary;
    *out_entries = sizeof table / sizeof table.clGetPlatformIDs;
    *out_table = &table;
    return CL_SUCCESS;
}
