/* A driver that aborts when it is looked at. */
#include <stdlib.h>

void *clGetExtensionFunctionAddress(const char *name)
{
    (void)name;
    abort();
}
