/* source.h: prints programs and primitives (matrix products, scans, sorts,
 * scatters, convolutions) as kernel source in OpenCL C, CUDA C or C, and plans
 * their launches, for devices that compile source. The functions implement the
 * entries plan_..., print and fault_read of the host table (the functions that
 * the core offers to plugins), which <tenon/plugin.h> documents.
 *
 * A kernel is used for all launches of the same class (plan/class.h).
 * Dimensions are merged if the strides of all operands allow it. The extents,
 * strides and offsets that remain, and the parameters, are passed to the kernel
 * as argument words. */
#ifndef TN_LIB_SOURCE_SOURCE_H
#define TN_LIB_SOURCE_SOURCE_H

#include <stdbool.h>
#include <tenon/plugin.h>

tn_status tn__plan_program(const tn_target *target, const tn_program *program,
                           const tn_launch *launch, tn_plan *plan);
tn_status tn__plan_matmul(const tn_target *target, const tn_matmul_args *m,
                          tn_plan *plan);
tn_status tn__plan_scatter(const tn_target *target, const tn_scatter_args *s,
                           tn_plan *plan);
tn_status tn__plan_scan(const tn_target *target, const tn_scan_args *s,
                        tn_plan *plan);
tn_status tn__plan_sort(const tn_target *target, const tn_sort_args *s,
                        tn_plan *plan);
tn_status tn__plan_attention(const tn_target *target,
                             const tn_attention_args *a, tn_plan *plan);
tn_status tn__plan_conv(const tn_target *target, const tn_conv_args *v,
                        tn_plan *plan);
tn_status tn__print(const tn_target *target, const tn_program *program,
                    const tn_plan *plan, tn_source *source);
void tn__print_free(tn_source *source);
tn_status tn__fault_read(const void *buffer, uint32_t fault_room,
                         tn_fault *fault);

/* A host table (functions that the core offers to plugins) in which the entries
 * for kernel source are set. */
extern const tn_host tn__source_host;

#endif
