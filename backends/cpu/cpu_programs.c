/* cpu_programs.c: compiles a program and finds its shortcuts (paths/). A launch
 * uses the first shortcut that accepts it. If none does, the program runs by
 * blocks (run/). */
#include "cpu_programs.h"

#include "run/plan.h"

tn_status tn__cpu_program_build(tn_plugin_device *device,
                                const tn_program *program, tn_built **built)
{
    tn_status status = tn__cpu_build(device, program, built);
    if (status == TN_OK)
        tn__cpu_paths_find(*built, program);
    return status;
}

void tn__cpu_program_free(tn_plugin_device *device, tn_built *built)
{
    (void)device;
    tn__cpu_built_free(built);
}

tn_status tn__cpu_launch(tn_queue *queue, tn_built *built,
                         const tn_launch *launch)
{
    (void)queue;
    tn_status status = TN_OK;
    for (const cpu_path *const *path = built->path; *path; path++)
        if ((*path)->launch(built, launch, &status))
            return status;
    return tn__cpu_run(built, launch);
}
