/* command.h: a command, which is one recorded call of a plugin (a launch, a
 * copy or other work) with its arguments. recorder.c makes commands and
 * replay.c runs them. */
#ifndef TN_LIB_DEVICE_COMMAND_H
#define TN_LIB_DEVICE_COMMAND_H

#include <device/recorder.h>

struct tn__command {
    tn__command *next;
    /* If the command is a list of launches, the next launch of the list, owned.
     * Launches of a list do not depend on each other. */
    tn__command *with;
    tn_launch_list *prepared; /* owned: the command and those of `with`, as the
                               * plugin prepared them; NULL if it has not */
    const char *what;
    const tn_path *path; /* of the module that was running, for traces and
                          * errors; NULL outside of modules */
    int kind;
    /* If the command uses random numbers, `draw` is 1 plus the index, in the
     * record's array `draws`, of the random draw (seed and call number) that it
     * uses; else 0. A launch has seed and call number as its parameters draw_at
     * and draw_at + 1. An attention has them in its arguments. */
    size_t draw;
    uint32_t draw_at;
    /* Parameters of a launch that each replay reads again from a number of the
     * program (tn_late_number). */
    struct tn__late_param late[TN__LATE_MAX];
    uint32_t late_count;
    /* A launch that reads the result of this command and that the same call of
     * the plugin does (extension "epilogue"), or NULL; owned. `epilogue` has the
     * arguments of that call, which point to this command and to `after`. */
    tn__command *after;
    tn_epilogue_args epilogue;
    bool moves; /* true if the operands have other memory in each replay */
    bool alone; /* true if the device cannot change the command in a captured
                 * segment, although it changes from replay to replay */
    const tn_program *program; /* program and built are set if the command is a
                                * launch */
    tn_built *built;
    union {
        /* The arrays that the launch points to are stored after the command,
         * in the same allocation. */
        tn_launch launch;
        tn_matmul_args matmul;
        tn_scatter_args scatter;
        tn_scan_args scan;
        tn_sort_args sort;
        tn_conv_args conv;
        tn_pool_args pool;
        tn_attention_args attention;
        tn_product_args product;
        tn_lapack_args lapack;
        tn_quantised_product_args quantised_product;
        tn_copy_args copy;
    } args;
};

/* Gives a command the launch `after`, which it takes over. `kind` is the kind of
 * the command (TN_EPILOGUE_...), the result is operand `operand` of the launch,
 * and dimension d of the launch is a part of dimension of[d] of the result. */
void tn__command_join(tn__command *command, tn__command *after, uint32_t kind,
                      uint32_t operand, const uint8_t of[TN_MAX_NDIM]);
/* Submits a command with `after`: as one call, or, if the plugin declines it, as
 * two. The result is that of tn__device_work. */
tn_status tn__device_epilogue(tn_device *device, tn__command *command,
                              tn_fault *fault);

/* A segment is a run of consecutive commands that the device has captured, so
 * that one call replays them (as a CUDA graph). It has the commands from
 * `first` up to but not including `end`. */
struct tn__segment {
    tn__segment *next;
    tn__command *first, *end;
    bool varies; /* true if some commands change from replay to replay */
    bool broken; /* true if the device could not change it: then the commands
                  * are submitted one by one */
    tn_recorded *recorded; /* handle of the captured work, owned */
};

#endif
