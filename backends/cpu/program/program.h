/* program.h: a program (a fused kernel) that is compiled for this device and
 * ready to launch. */
#ifndef TN_CPU_PROGRAM_H
#define TN_CPU_PROGRAM_H

#include "../paths/paths.h"
#include "code.h"

struct tn_built {
    const tn_cpu_routines *routines;
    /* Results of at least this many bytes use non-temporal stores. */
    int64_t stream_bytes;
    tn_kernel_operand *operand;
    /* read_after_write[k]: bits of the operands that are read after operand k
     * is written. */
    uint32_t *read_after_write;
    uint32_t operand_count;
    bool has_rows; /* the program has several stages, a reduction or a row
                      part */
    /* Compiled code, chosen by the launch's shapes (cut_plan.c):
     * - kept: a block is a whole group of rows. Each value is computed once.
     * - streamed: for rows that are too long for kept. A block is a piece of a
     *   row, and every stage computes again what it needs.
     * - by_subrows: like streamed, but machine code, for rows that consist of
     *   contiguous subrows (subrows.c). May be empty.
     * - hoisted: for elementwise programs with loads by an index whose blocks
     *   share indices (hoist.c). May be empty. */
    cpu_code kept;
    cpu_code streamed;
    cpu_code by_subrows;
    cpu_code hoisted;
    /* What the shortcuts stored when they recognised the program. */
    cpu_direct direct;
    cpu_indexed_copy indexed_copy;
    cpu_taps taps;
    cpu_row_taps row_taps;
    cpu_copy copy;
    cpu_take take;
    /* The shortcuts that recognise the program, then NULL. */
    const cpu_path *path[CPU_PATHS + 1];
};

/* Compiles the program (build_program.c). Does not look for shortcuts:
 * tn__cpu_paths_find does. */
tn_status tn__cpu_build(const tn_plugin_device *device,
                        const tn_program *program, tn_built **built);
void tn__cpu_built_free(tn_built *built); /* ignores NULL */

#endif
