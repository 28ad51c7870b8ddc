/* cpu_programs.h: the functions of the plugin's table that build and launch
 * programs. */
#ifndef TN_CPU_PROGRAMS_H
#define TN_CPU_PROGRAMS_H

#include "cpu.h"

tn_status tn__cpu_program_build(tn_plugin_device *device,
                                const tn_program *program, tn_built **built);
void tn__cpu_program_free(tn_plugin_device *device, tn_built *built);
tn_status tn__cpu_launch(tn_queue *queue, tn_built *built,
                         const tn_launch *launch);

#endif
