/* A driver that aborts when it is probed. */
#include <stdlib.h>

void *clGetExtensionFunctionAddress(const char *name)
{
    (void)name;
    abort();
}
