/* source.h: programs and primitives as source for devices that compile it,
 * and their launches: what the host table's plan_..., print and fault_read
 * are (<tenon/plugin.h> has the convention).
 *
 * A text serves every launch of its class: dimensions are merged where all
 * operands allow it, and what is left of extents, strides, offsets and
 * parameters are numbers in the argument words. */
#ifndef TN_LIB_KERNEL_DEVICE_H
#define TN_LIB_KERNEL_DEVICE_H

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

/* All of them, where a host table has them. */
extern const tn_host tn__device_source;

#endif
