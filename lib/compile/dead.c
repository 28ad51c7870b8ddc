/* dead.c: finds the steps whose results nothing reads: from the last step to the
 * first, a step is needed if it writes an output, an external value or an input,
 * or memory that a needed later step reads. Steps that can fail by an index stay,
 * since the error is an effect. */
#include <compile/window.h>

#include <base/memory.h>
#include <device/work.h>

static bool can_fail(const tn__step *step)
{
    if (step->command->kind == TN__WORK_SCATTER)
        return true;
    if (step->command->kind != TN__WORK_LAUNCH)
        return false;
    const tn_program *program = step->command->program;
    for (uint32_t k = 0; k < program->operand_count; k++)
        if (program->operand[k].index_count)
            return true;
    return false;
}

bool tn__find_dead(const tn__capture *c, bool *dead)
{
    /* read[v]: the range of value v that a needed later step reads. */
    struct range {
        int64_t low, high;
    } *read = tn__calloc(c->value_count + 1, sizeof *read);
    if (!read)
        return false;
    for (size_t s = c->step_count; s-- > 0;) {
        const tn__step *step = &c->step[s];
        bool needed =
            !step->removed && (can_fail(step) || !step->use_count);
        for (uint32_t u = 0; u < step->use_count && !needed; u++) {
            const tn__use *use = &c->use[step->first_use + u];
            const struct range *r = &read[use->value];
            needed = use->access.writes &&
                     (c->value[use->value].kind != TN__VALUE_TEMPORARY ||
                      (use->access.low < r->high && r->low < use->access.high));
        }
        dead[s] = !needed;
        for (uint32_t u = 0; u < step->use_count && needed; u++) {
            const tn__use *use = &c->use[step->first_use + u];
            struct range *r = &read[use->value];
            if (!use->access.reads)
                continue;
            if (r->low == r->high)
                *r = (struct range){use->access.low, use->access.high};
            r->low = use->access.low < r->low ? use->access.low : r->low;
            r->high = use->access.high > r->high ? use->access.high : r->high;
        }
    }
    tn__free(read);
    return true;
}
