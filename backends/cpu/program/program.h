/* program.h: a program (a fused kernel) that is compiled for this device and
 * ready to launch. */
#ifndef TN_CPU_PROGRAM_H
#define TN_CPU_PROGRAM_H

#include "../paths/paths.h"
#include "code.h"

struct tn_built {
    const tn_cpu_routines *routines;
    /* Results of at least this many bytes are written by non-temporal
     * stores. */
    int64_t stream_bytes;
    tn_kernel_operand *operand;
    /* read_after_write[k]: a bit mask of the operands (tensors) that the
     * program still reads after it has written an element of operand k. */
    uint32_t *read_after_write;
    /* row_read_after_write[k]: the same for scalars per row. A load of them always
     * copies then. Other elements are never loaded after the store. */
    uint32_t *row_read_after_write;
    uint32_t operand_count;
    bool has_rows; /* the program has several stages (passes over the rows), a
                    * reduction or scalars per row */
    /* The compiled forms. The shapes of a launch decide which of them runs
     * (cut_plan.c).
     * - kept: a block is a whole group of rows. Each value is computed once.
     * - streamed: for rows that are too long for `kept`. A block is a piece of
     *   a row, and every stage computes all values that it needs.
     * - by_subrows: a second `streamed` form in machine code, for rows that
     *   consist of contiguous pieces, the subrows (subrows.c). May be empty.
     * - hoisted: for elementwise programs with loads by an index. Blocks with
     *   equal indices share the values computed from the indices (hoist.c). May
     *   be empty. */
    cpu_code kept;
    cpu_code streamed;
    cpu_code by_subrows;
    cpu_code hoisted;
    /* What each shortcut (a file of paths/) found out about the program when it
     * recognised it. Its launches use it. */
    cpu_direct direct;
    cpu_indexed_copy indexed_copy;
    cpu_taps taps;
    cpu_row_taps row_taps;
    cpu_copy copy;
    cpu_take take;
    /* The shortcuts that recognise the program, ended by NULL. */
    const cpu_path *path[CPU_PATHS + 1];
};

/* Compiles the program (build_program.c). Does not look for shortcuts:
 * tn__cpu_paths_find does. */
tn_status tn__cpu_build(const tn_plugin_device *device,
                        const tn_program *program, tn_built **built);
void tn__cpu_built_free(tn_built *built); /* ignores NULL */

#endif
