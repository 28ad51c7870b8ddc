/* program.h: a program built for this device. */
#ifndef TN_CPU_PROGRAM_H
#define TN_CPU_PROGRAM_H

#include "../paths/paths.h"
#include "code.h"

struct tn_built {
    const tn_cpu_routines *routines;
    int64_t stream_bytes; /* the device's */
    tn_kernel_operand *operand;
    uint32_t *read_after_write; /* of each operand that is written: bits of the
                                   operands that are read after it is written */
    uint32_t operand_count;
    bool has_rows;       /* more than one stage, a reduction or a row part */
    cpu_code kept;       /* each value is computed once for a group */
    cpu_code streamed;   /* for rows that are too long for that: computed once
                            for each stage */
    cpu_code by_subrows; /* the same with machine code, for rows that consist of
                            subrows (subrows.c); may be empty */
    cpu_code hoisted;    /* elementwise code with loads by an index, whose
                            blocks share indices; may be empty */
    cpu_direct direct;
    cpu_indexed_copy indexed_copy;
    cpu_taps taps;
    cpu_row_taps row_taps;
    cpu_copy copy;
    cpu_take take;
    const cpu_path *path[CPU_PATHS + 1]; /* the shortcuts that recognise the
                                            program, then NULL */
};

/* Compiles the program (build_program.c). Its shortcuts are found later. */
tn_status tn__cpu_build(const tn_plugin_device *device,
                        const tn_program *program, tn_built **built);
void tn__cpu_built_free(tn_built *built); /* NULL is ignored */

#endif
