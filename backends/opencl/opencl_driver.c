/* opencl_driver.c: opens libOpenCL.so.1, names its errors, and saves and
 * restores signal handlers. */
#include "opencl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

tn_opencl_driver cl;
static char why_not[256];

static void driver_open(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *text = dlerror();
        snprintf(why_not, sizeof why_not, "%s",
                 text ? text : "libOpenCL.so.1 cannot be opened");
        return;
    }
    void *symbol;
    /* dlsym returns an object pointer. ISO C does not allow converting it to a
     * function pointer, but POSIX guarantees that copying its bytes works. */
#define FIND(name)                                                            \
    if ((symbol = dlsym(library, "cl" #name))) {                              \
        memcpy(&cl.name, &symbol, sizeof symbol);                             \
    } else {                                                                  \
        snprintf(why_not, sizeof why_not,                                     \
                 "libOpenCL.so.1 has no cl" #name                             \
                 ": it is older than OpenCL 1.2");                            \
        return;                                                               \
    }
    TN_OPENCL_DRIVER_MAP(FIND)
#undef FIND
}

const char *tn__opencl_driver_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, driver_open);
    return why_not[0] ? why_not : NULL;
}

const char *tn__opencl_error_name(cl_int error)
{
    static const struct {
        cl_int code;
        const char *name;
    } names[] = {
#define NAME(code) {code, #code},
        NAME(CL_DEVICE_NOT_FOUND)
        NAME(CL_DEVICE_NOT_AVAILABLE)
        NAME(CL_COMPILER_NOT_AVAILABLE)
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
        NAME(CL_OUT_OF_RESOURCES)
        NAME(CL_OUT_OF_HOST_MEMORY)
        NAME(CL_MEM_COPY_OVERLAP)
        NAME(CL_BUILD_PROGRAM_FAILURE)
        NAME(CL_MAP_FAILURE)
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET)
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        NAME(CL_INVALID_VALUE)
        NAME(CL_INVALID_DEVICE)
        NAME(CL_INVALID_CONTEXT)
        NAME(CL_INVALID_COMMAND_QUEUE)
        NAME(CL_INVALID_MEM_OBJECT)
        NAME(CL_INVALID_BINARY)
        NAME(CL_INVALID_BUILD_OPTIONS)
        NAME(CL_INVALID_PROGRAM)
        NAME(CL_INVALID_PROGRAM_EXECUTABLE)
        NAME(CL_INVALID_KERNEL_NAME)
        NAME(CL_INVALID_KERNEL)
        NAME(CL_INVALID_ARG_INDEX)
        NAME(CL_INVALID_ARG_VALUE)
        NAME(CL_INVALID_ARG_SIZE)
        NAME(CL_INVALID_KERNEL_ARGS)
        NAME(CL_INVALID_WORK_GROUP_SIZE)
        NAME(CL_INVALID_WORK_ITEM_SIZE)
        NAME(CL_INVALID_GLOBAL_WORK_SIZE)
        NAME(CL_INVALID_EVENT)
        NAME(CL_INVALID_OPERATION)
        NAME(CL_INVALID_BUFFER_SIZE)
        {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
#undef NAME
    };
    static _Thread_local char number[32];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == error)
            return names[i].name;
    snprintf(number, sizeof number, "OpenCL error %d", (int)error);
    return number;
}

void tn__opencl_signals_save(tn_opencl_signals *signals)
{
    for (int i = 1; i < 32; i++)
        if (sigaction(i, NULL, &signals->action[i]))
            signals->action[i].sa_handler = SIG_ERR;
}

void tn__opencl_signals_restore(const tn_opencl_signals *signals)
{
    struct sigaction now;
    for (int i = 1; i < 32; i++)
        if (signals->action[i].sa_handler != SIG_ERR &&
            !sigaction(i, NULL, &now) &&
            now.sa_handler != signals->action[i].sa_handler)
            sigaction(i, &signals->action[i], NULL);
}
