/* An OpenCL driver that aborts when the OpenCL loader probes it. */
#include <stdlib.h>

void *clGetExtensionFunctionAddress(const char *name)
{
    (void)name;
    abort();
}
