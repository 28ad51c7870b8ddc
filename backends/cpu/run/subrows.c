/* subrows.c: decides whether long rows are processed subrow by subrow. Subrows
 * are the contiguous pieces of which a row consists: in batch_norm the row of
 * channel c consists of the planes x[n][c] of all images n. Machine code
 * processes several subrows in one call, without copying them. */
#include "../jit/native_run.h"
#include "plan.h"

/* Rows of fewer elements are not processed subrow by subrow, because the
 * overhead would be too large. */
#define MIN_SUBROW_ROW_LENGTH 4096

const cpu_code *tn__cpu_subrow_code(const tn_built *built)
{
    return built->by_subrows.stage_count > 0 ? &built->by_subrows
                                             : &built->streamed;
}

/* Returns whether only stages without reductions read the operand. */
static bool is_read_by_maps_only(const cpu_code *code, uint32_t operand)
{
    for (uint32_t s = 0; s < code->stage_count; s++) {
        cpu_part part = code->stage[s].elem;
        for (uint32_t i = part.first; i < part.first + part.count; i++)
            if (code->stage[s].reduce_count > 0 &&
                code->op[i].code == CPU_LOAD && code->op[i].index == operand)
                return false;
    }
    return true;
}

/* Returns whether each row of the operand consists of contiguous parts
 * (subrows) of `run` elements each. An input may also be one scalar for the
 * whole row, or, if no stage with reductions reads it, one scalar per subrow.
 */
static bool is_in_subrows(const cpu_plan *plan, uint32_t operand, int64_t run)
{
    const cpu_view *view = &plan->view[operand];
    const int64_t length = plan->row_length;
    uint32_t last = view->ndim - 1;
    bool read = plan->built->operand[operand].access == TN_OPERAND_READ;
    if (view->ndim == 0)
        return read;
    if (view->ndim == 1 && view->stride[0] == 1)
        return true;
    if (view->stride[last] == 0 && view->extent[last] % length == 0)
        return read;
    if (view->ndim == 1 || view->extent[last] != run ||
        view->extent[last - 1] % (length / run) != 0)
        return false;
    if (view->stride[last] == 1)
        return true;
    return view->stride[last] == 0 && view->stride[last - 1] == 1 && read &&
           is_read_by_maps_only(tn__cpu_subrow_code(plan->built), operand);
}

/* Returns the length of the subrows that JIT-compiled code reduces, or 0 if
 * precompiled routines reduce the rows. Routines are as fast if a row is a single
 * subrow. So the result is 0 for such rows if the program has operations that call
 * routines. */
int64_t tn__cpu_subrow_length(const cpu_plan *plan, int64_t run)
{
    const tn_built *built = plan->built;
    int64_t length = plan->row_length;
    if (plan->overlap || plan->columns || run < TN_CPU_MIN_RUN ||
        length < MIN_SUBROW_ROW_LENGTH || length % run != 0 ||
        (run == length && built->by_subrows.stage_count > 0) ||
        !tn__cpu_native_takes_subrows(tn__cpu_subrow_code(built)))
        return 0;
    for (uint32_t k = 0; k < built->operand_count; k++)
        if (built->operand[k].level != TN_LEVEL_ROW &&
            (!tn__cpu_is_as_stored(plan->view[k].dtype) ||
             !is_in_subrows(plan, k, run)))
            return 0;
    return run;
}

/* Returns whether every row and subrow of the results begins at a vector
 * boundary, which non-temporal stores require. */
bool tn__cpu_subrows_can_stream(const cpu_plan *plan)
{
    enum { VECTOR_BYTES = 64 };
    uint64_t any = 0;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const cpu_view *view = &plan->view[k];
        if (plan->built->operand[k].access != TN_OPERAND_WRITE ||
            plan->built->operand[k].level != TN_LEVEL_ELEM)
            continue;
        any |= (uintptr_t)view->base;
        any |= (uint64_t)(view->ndim < 2 ? plan->subrow : 0) * view->bytes;
        for (uint32_t d = 0; d + 1 < view->ndim; d++)
            any |= (uint64_t)view->stride[d] * view->bytes;
    }
    return plan->traffic.stream && any % VECTOR_BYTES == 0;
}
