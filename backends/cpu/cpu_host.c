/* cpu_host.c: the services of the core, which all files here call. */
#include "cpu.h"

const tn_host *tn__cpu_host;
