/* command.h: a command of recorded work, between recorder.c and replay.c. */
#ifndef TN_LIB_DEVICE_COMMAND_H
#define TN_LIB_DEVICE_COMMAND_H

#include <device/recorder.h>

struct tn__command {
    tn__command *next;
    const char *what;
    int kind;
    /* Number of the draw, from 1 on, whose seed and call are its parameters
     * draw_at and the next, or those of an attention; 0: none. */
    size_t draw;
    uint32_t draw_at;
    const tn_program *program; /* of a launch, as the rest of this line */
    tn_built *built;
    union {
        tn_launch launch; /* its arrays follow the command */
        tn_matmul_args matmul;
        tn_scatter_args scatter;
        tn_scan_args scan;
        tn_sort_args sort;
        tn_conv_args conv;
        tn_pool_args pool;
        tn_attention_args attention;
        tn_product_args product;
        tn_lapack_args lapack;
        tn_copy_args copy;
    } args;
};

/* Neighbouring commands that the device has recorded: those before `end`. */
struct tn__segment {
    tn__segment *next;
    const tn__command *first, *end;
    tn_recorded *recorded; /* owned */
};

#endif
