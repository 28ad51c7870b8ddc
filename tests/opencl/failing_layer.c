/* A layer between the OpenCL loader and a driver, for tests: with
 * TN_TEST_FAIL="clFinish -5" that function always returns that error. A
 * function that returns an object returns NULL. The layer also counts
 * references: layer_live returns the number of live references to objects of a
 * kind. */
#include <CL/cl_layer.h>

#include <stdlib.h>
#include <string.h>

static cl_icd_dispatch table, driver;

/* Number of references of each kind that the caller has not released. */
enum { MEMORY, EVENTS, KERNELS, PROGRAMS, QUEUES, CONTEXTS, MAPPED, KINDS };
static _Atomic long live[KINDS];

__attribute__((visibility("default"))) long layer_live(int kind);
long layer_live(int kind)
{
    return live[kind];
}

/* Returns the error for the function of this name; 0 if it should work. */
static cl_int failure(const char *name)
{
    const char *wanted = getenv("TN_TEST_FAIL");
    size_t length = strlen(name);
    return wanted && strncmp(wanted, name, length) == 0 &&
                   wanted[length] == ' '
               ? atoi(wanted + length)
               : 0;
}

/* Macros that wrap functions of two forms: functions that return their error
 * code (RETURNS), and functions that return an object and store the error
 * code. */
#define RETURNS(name, declared, passed)                                       \
    static cl_int CL_API_CALL failing_##name declared                         \
    {                                                                         \
        cl_int error = failure("cl" #name);                                   \
        return error ? error : driver.cl##name passed;                        \
    }
#define MAKES(type, name, kind, declared, passed)                             \
    static type CL_API_CALL failing_##name declared                           \
    {                                                                         \
        cl_int error = failure("cl" #name);                                   \
        type made = error ? NULL : driver.cl##name passed;                    \
        if (error && out)                                                     \
            *out = error;                                                     \
        live[kind] += made != NULL;                                           \
        return made;                                                          \
    }
/* Wraps the functions that retain and release an object. */
#define COUNTS(type, name, kind)                                              \
    static cl_int CL_API_CALL counted_Retain##name(type object)               \
    {                                                                         \
        live[kind]++;                                                         \
        return driver.clRetain##name(object);                                 \
    }                                                                         \
    static cl_int CL_API_CALL counted_Release##name(type object)              \
    {                                                                         \
        live[kind]--;                                                         \
        return driver.clRelease##name(object);                                \
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
RETURNS(EnqueueFillBuffer,
        (cl_command_queue queue, cl_mem memory, const void *pattern,
         size_t pattern_bytes, size_t offset, size_t bytes, cl_uint count,
         const cl_event *events, cl_event *event),
        (queue, memory, pattern, pattern_bytes, offset, bytes, count, events,
         event))
MAKES(cl_context, CreateContext, CONTEXTS,
      (const cl_context_properties *properties, cl_uint count,
       const cl_device_id *devices,
       void(CL_CALLBACK *says)(const char *, const void *, size_t, void *),
       void *context, cl_int *out),
      (properties, count, devices, says, context, out))
MAKES(cl_mem, CreateBuffer, MEMORY,
      (cl_context context, cl_mem_flags flags, size_t bytes, void *host,
       cl_int *out),
      (context, flags, bytes, host, out))
MAKES(void *, EnqueueMapBuffer, MAPPED,
      (cl_command_queue queue, cl_mem memory, cl_bool wait, cl_map_flags flags,
       size_t offset, size_t bytes, cl_uint count, const cl_event *events,
       cl_event *event, cl_int *out),
      (queue, memory, wait, flags, offset, bytes, count, events, event, out))
MAKES(cl_command_queue, CreateCommandQueue, QUEUES,
      (cl_context context, cl_device_id device,
       cl_command_queue_properties properties, cl_int *out),
      (context, device, properties, out))
MAKES(cl_program, CreateProgramWithSource, PROGRAMS,
      (cl_context context, cl_uint count, const char **text,
       const size_t *bytes, cl_int *out),
      (context, count, text, bytes, out))
MAKES(cl_kernel, CreateKernel, KERNELS,
      (cl_program program, const char *name, cl_int *out),
      (program, name, out))
MAKES(cl_program, CreateProgramWithBinary, PROGRAMS,
      (cl_context context, cl_uint count, const cl_device_id *devices,
       const size_t *bytes, const unsigned char **binaries, cl_int *states,
       cl_int *out),
      (context, count, devices, bytes, binaries, states, out))
COUNTS(cl_mem, MemObject, MEMORY)
COUNTS(cl_event, Event, EVENTS)
COUNTS(cl_kernel, Kernel, KERNELS)
COUNTS(cl_program, Program, PROGRAMS)
COUNTS(cl_command_queue, CommandQueue, QUEUES)
COUNTS(cl_context, Context, CONTEXTS)

static cl_int CL_API_CALL counted_Marker(cl_command_queue queue, cl_uint count,
                                         const cl_event *events,
                                         cl_event *event)
{
    cl_int error =
        driver.clEnqueueMarkerWithWaitList(queue, count, events, event);
    live[EVENTS] += !error && event;
    return error;
}

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
    table.clEnqueueFillBuffer = failing_EnqueueFillBuffer;
    table.clCreateContext = failing_CreateContext;
    table.clCreateBuffer = failing_CreateBuffer;
    table.clEnqueueMapBuffer = failing_EnqueueMapBuffer;
    table.clCreateProgramWithBinary = failing_CreateProgramWithBinary;
    table.clCreateProgramWithSource = failing_CreateProgramWithSource;
    table.clCreateCommandQueue = failing_CreateCommandQueue;
    table.clCreateKernel = failing_CreateKernel;
    table.clEnqueueMarkerWithWaitList = counted_Marker;
#define COUNTED(name)                                                         \
    table.clRetain##name = counted_Retain##name;                              \
    table.clRelease##name = counted_Release##name
    COUNTED(MemObject);
    COUNTED(Event);
    COUNTED(Kernel);
    COUNTED(Program);
    COUNTED(CommandQueue);
    COUNTED(Context);
    *out_entries = sizeof table / sizeof table.clGetPlatformIDs;
    *out_table = &table;
    return CL_SUCCESS;
}
