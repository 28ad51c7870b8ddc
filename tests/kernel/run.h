/* run.h: runs a kernel with the interpreter on rows of float64 numbers. */
#ifndef TN_TESTS_KERNEL_RUN_H
#define TN_TESTS_KERNEL_RUN_H

#include <tenon/base.h>

#include "kernel/kernel.h"

enum { ROWS = 3, LENGTH = 5, CELLS = ROWS * LENGTH };

/* Runs the kernel on ROWS rows of LENGTH elements. data[k] is the memory of
 * operand k (inputs, then outputs) in its dtype. An operand of level ELEM has
 * CELLS values, and one of level ROW has ROWS values. For an offset operand
 * data[k] is NULL, and its values are the indices of the elements. */
static inline tn_status run_kernel(const tn__kernel *kernel, void *const *data,
                                   const tn_number *param)
{
    static const int64_t extent[2] = {ROWS, LENGTH};
    static const int64_t elem[2] = {LENGTH, 1}, row[2] = {1, 0};
    static const int64_t index_stride[3] = {1, 1, 1};
    static const int64_t index_extent[3] = {LENGTH, LENGTH, LENGTH};
    const tn_program *program = tn__kernel_program(kernel);
    tn_launch_operand operand[2 * TN__KERNEL_MAX_INPUTS];
    if (!program)
        return tn_error_code();
    for (uint32_t i = 0; i < program->operand_count; i++) {
        bool indexed = program->operand[i].index_count > 0;
        operand[i] = (tn_launch_operand){
            .stride = program->operand[i].level == TN_LEVEL_ROW ? row : elem,
            .index_stride = index_stride,
            .index_extent = index_extent};
        static const int64_t base[2] = {LENGTH, 0};
        if (indexed)
            operand[i].stride = base;
    }
    tn_launch launch = {.size = sizeof launch,
                        .outer_ndim = 1,
                        .row_ndim = 1,
                        .extent = extent,
                        .operand = operand,
                        .param = param};
    tn_fault fault = {.size = sizeof fault};
    return tn__interpret(program, &launch, data, &fault);
}

#endif
