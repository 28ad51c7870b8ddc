/* cpu_host.c: the core's services, which all files here call. */
#include "cpu.h"

const tn_host *tn__cpu_host;
