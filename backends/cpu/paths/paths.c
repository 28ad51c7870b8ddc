/* paths.c: the table of shortcuts for simple programs (paths.h), in the order
 * in which a launch tries them. */
#include "paths.h"

#include "../program/program.h"

static const cpu_path *const paths[CPU_PATHS] = {
    &tn__cpu_path_direct, &tn__cpu_path_copy,     &tn__cpu_path_indexed_copy,
    &tn__cpu_path_take,   &tn__cpu_path_row_taps, &tn__cpu_path_taps_along};

void tn__cpu_paths_find(tn_built *built, const tn_program *program)
{
    int found = 0;
    for (int p = 0; p < CPU_PATHS; p++)
        if (paths[p]->recognise(built, program))
            built->path[found++] = paths[p];
    built->path[found] = NULL;
}
