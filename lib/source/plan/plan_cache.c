/* plan_cache.c: decides whether the work-items that share a row first copy the
 * row to local memory (row_cache.c). */
#include <base/error.h>
#include <source/plan/class.h>

/* Number of work-items of a work-group whose rows are in local memory, unless a
 * row needs more. With rows of 4096 floats, 13 such work-groups fit into a
 * multiprocessor with 228 KiB. */
#define CACHED_GROUP 64

uint32_t tn__cache_candidates(const tn_program *program)
{
    uint32_t before = 0, cached = 0;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        const tn_kernel_stage *stage = &program->stage[s];
        uint32_t loads = 0;
        for (uint32_t at = stage->elem_first;
             at < stage->elem_first + stage->elem_count; at++) {
            const tn_kernel_ins *ins = &program->ins[program->order[at]];
            if (ins->op != TN_K_LOAD)
                continue;
            const tn_kernel_operand *operand = &program->operand[ins->imm.i];
            if (operand->access == TN_OPERAND_READ &&
                operand->level == TN_LEVEL_ELEM && operand->index_count == 0)
                loads |= 1u << ins->imm.i;
        }
        cached |= before & loads;
        before |= loads;
    }
    return cached;
}

void tn__cache_choose(tn__launch_class *class, const tn_program *program,
                      const tn_target *target, int64_t length)
{
    const uint32_t cached = program->stage_count > 1
                                ? tn__cache_candidates(program) : 0;
    const uint32_t room = target->local_bytes / 4 * 3;
    uint32_t slots = 1, bytes = 0, group = class->group;
    while ((int64_t)slots * TN_CHUNK < length)
        slots *= 2;
    for (uint32_t k = 0; k < program->operand_count; k++)
        if (cached >> k & 1)
            bytes += TN__CACHED_CHUNK *
                     (uint32_t)tn_dtype_bytes(
                         (tn_dtype)program->operand[k].dtype);
    if (!cached || slots * TN_LANES > group || slots * bytes > room)
        return;
    while (group > CACHED_GROUP && group > slots * TN_LANES)
        group /= 2;
    while (group / TN_LANES * bytes > room)
        group /= 2;
    class->cached = true;
    class->slots = slots;
    class->group = group;
}
