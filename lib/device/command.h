/* command.h: a recorded command: made by recorder.c, run by replay.c. */
#ifndef TN_LIB_DEVICE_COMMAND_H
#define TN_LIB_DEVICE_COMMAND_H

#include <device/recorder.h>

struct tn__command {
    tn__command *next;
    const char *what;
    int kind;
    /* Number, from 1 on, of the random draw whose seed and call are the
     * command's parameters draw_at and draw_at + 1, or those of an attention;
     * 0: none. */
    size_t draw;
    uint32_t draw_at;
    const tn_program *program; /* of a launch, as is `built` */
    tn_built *built;
    union {
        tn_launch launch; /* its arrays follow the command in memory */
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

/* Consecutive commands, from first up to but without `end`, that the device has
 * captured. */
struct tn__segment {
    tn__segment *next;
    const tn__command *first, *end;
    tn_recorded *recorded; /* owned */
};

#endif
