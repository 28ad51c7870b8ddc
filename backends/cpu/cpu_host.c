/* cpu_host.c: the pointer to the core's services, which all files of the plugin
 * use. */
#include "cpu.h"

const tn_host *tn__cpu_host;
