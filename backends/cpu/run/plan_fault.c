/* plan_fault.c: records an index that is out of range. Any thread may call
 * it. */
#include "plan.h"

void tn__cpu_plan_fault(cpu_plan *plan, uint32_t operand, uint32_t dim,
                        int64_t index, int64_t position)
{
    while (atomic_flag_test_and_set_explicit(&plan->fault.lock,
                                             memory_order_acquire))
        ;
    if (plan->fault.first.code == TN_OK ||
        position < plan->fault.first.position)
        plan->fault.first = (tn_fault){
            .size = sizeof plan->fault.first,
            .code = TN_ERR_INDEX,
            .tag = plan->launch->tag,
            .operand = operand,
            .dim = dim,
            .index = index,
            .extent = plan->launch->operand[operand].index_extent[dim],
            .position = position,
        };
    atomic_flag_clear_explicit(&plan->fault.lock, memory_order_release);
}
