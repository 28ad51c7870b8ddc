/* command.h: one recorded piece of work, which recorder.c makes and replay.c
 * runs. */
#ifndef TN_LIB_DEVICE_COMMAND_H
#define TN_LIB_DEVICE_COMMAND_H

#include <device/recorder.h>

struct tn__command {
    tn__command *next;
    const char *what;
    int kind;
    /* Number, from 1 on, of the random draw that the command uses; 0 if none. A
     * launch has the draw's seed and call number as parameters draw_at and
     * draw_at + 1. An attention has them in its arguments. */
    size_t draw;
    uint32_t draw_at;
    const tn_program *program; /* program and built are set for a launch */
    tn_built *built;
    union {
        tn_launch launch; /* the launch's arrays follow the command in memory */
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

/* A segment: consecutive commands, from `first` up to but not including `end`,
 * that the device has captured. */
struct tn__segment {
    tn__segment *next;
    const tn__command *first, *end;
    tn_recorded *recorded; /* owned */
};

#endif
