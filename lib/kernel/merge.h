/* merge.h: one kernel that does the work of several over one iteration space
 * (fusion). lib/compile decides which kernels are merged. */
#ifndef TN_LIB_KERNEL_MERGE_H
#define TN_LIB_KERNEL_MERGE_H

#include <kernel/kernel.h>

enum { TN__MERGE_MAX_PARTS = 32 };

/* The number in tn__merge_part.input of a value that output `output` of part
 * `part` is. */
#define TN__MERGE_FROM(part, output)                                          \
    (~((part) * TN__KERNEL_MAX_OUTPUTS + (output)))

/* A kernel of a merge. input[i] says what the kernel's input i is: the input of
 * the merged kernel with index input[i], or, if negative, an output of an earlier
 * part (TN__MERGE_FROM). An input that the kernel reads by index or through a guard
 * is not an output of an earlier part. param[i] is the index of the merged
 * kernel's parameter that is the kernel's parameter i. If per_row is true, the kernel
 * has no rows, and runs once for each row of the merged kernel: its inputs and
 * outputs have one value per row there. */
typedef struct tn__merge_part {
    const tn__kernel *kernel;
    bool per_row;
    int input[TN__KERNEL_MAX_INPUTS];
    int param[TN__KERNEL_MAX_PARAMS];
} tn__merge_part;

typedef struct tn__merge {
    int part_count, input_count, output_count, param_count;
    tn__merge_part part[TN__MERGE_MAX_PARTS];
    /* Which outputs of which parts are the outputs of the merged kernel. */
    struct {
        int part, output;
    } output[TN__KERNEL_MAX_OUTPUTS];
} tn__merge;

/* Returns the kernel that runs the parts in their order, for each element. Each
 * different merge is made once. Returns NULL without an error if an input is used
 * with two dtypes or levels, or a parameter with two types. Returns NULL with
 * TN_ERR_MEMORY if memory runs out. */
const tn__kernel *tn__kernel_merge(const tn__merge *merge);

#endif
