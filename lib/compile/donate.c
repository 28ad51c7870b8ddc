/* donate.c: stores outputs in the memory of donated inputs (tn_compile's option
 * `donate`). What is chosen here depends on the order of the commands alone. Whether
 * the memory of an input is large enough is known at each replay (program.c). */
#include <compile/donate.h>

#include <device/work.h>

#include <string.h>

void tn__span_note(tn__command_span *span, const tn__captured_value *v, size_t at,
                   const tn__entry *entry, const tn__command *command)
{
    if (!span->used)
        span->first = at;
    if (!span->used || (v->kind == TN__VALUE_INPUT && at >= span->last)) {
        span->entry = entry;
        span->command = command;
    }
    span->used = true;
    span->last = at;
}

/* Returns the operand of a launch that is access i of its entry. */
static const tn_launch_operand *operand_of(const tn__command *command,
                                           const tn__entry *entry, uint32_t i,
                                           const tn_kernel_operand **kind)
{
    for (uint32_t k = 0; k < command->program->operand_count; k++)
        if (&command->args.launch.operand[k].buffer ==
            (tn_buffer *const *)entry->use[i].access.buffer) {
            *kind = &command->program->operand[k];
            return &command->args.launch.operand[k];
        }
    return NULL;
}

/* Returns whether a launch uses the elements of values v and o in the same way: it
 * reads v and writes o at the same place at each element of its space. */
static bool uses_alike(const tn__capture *c, const tn__command *command,
                       const tn__entry *entry, uint32_t v, uint32_t o)
{
    const tn_launch *launch = &command->args.launch;
    const size_t ndim = launch->outer_ndim + launch->row_ndim;
    const tn_launch_operand *first = NULL;
    const tn_kernel_operand *kind_of_first = NULL, *kind = NULL;
    int64_t from_of_first = 0;
    for (uint32_t i = 0; i < entry->use_count; i++) {
        const uint32_t value = entry->use[i].value;
        if (value != v && value != o)
            continue;
        const tn_launch_operand *x = operand_of(command, entry, i, &kind);
        /* Two results in one place would overwrite each other. */
        if (!x || kind->index_count ||
            (value == v && entry->use[i].access.writes))
            return false;
        const int64_t from =
            x->offset * entry->use[i].access.unit - c->value[value].origin;
        if (first &&
            (from != from_of_first || kind->level != kind_of_first->level ||
             tn_dtype_bytes((tn_dtype)kind->dtype) !=
                 tn_dtype_bytes((tn_dtype)kind_of_first->dtype) ||
             memcmp(x->stride, first->stride, ndim * sizeof *x->stride) != 0))
            return false;
        if (!first) {
            first = x;
            kind_of_first = kind;
            from_of_first = from;
        }
    }
    return true;
}

static bool can_replace(const tn__capture *c, const tn__command_span *span,
                        uint32_t v, uint32_t o)
{
    const tn__command_span *in = &span[v], *out = &span[o];
    if (!out->used || c->value[o].bytes > c->value[v].bytes)
        return false;
    if (!in->used || in->last < out->first)
        return true;
    return in->last == out->first && in->command &&
           in->command == out->command &&
           in->command->kind == TN__WORK_LAUNCH && !in->command->after &&
           uses_alike(c, in->command, in->entry, v, o);
}

/* Returns whether an output is a view of the value. */
static bool is_output(const tn__capture *c, uint32_t v)
{
    for (size_t o = 0; o < c->output_count; o++)
        if (c->output[o].value == v)
            return true;
    return false;
}

void tn__donate(tn__replayed *p, const tn__command_span *span,
                uint64_t donated)
{
    const tn__capture *c = p->capture;
    for (uint32_t v = 0; v < c->value_count; v++) {
        const tn__captured_value *in = &c->value[v];
        if (in->kind != TN__VALUE_INPUT || !(donated >> in->index & 1) ||
            is_output(c, v))
            continue;
        for (size_t i = 0; i < p->output_count; i++)
            if (!p->donor[i] && can_replace(c, span, v, p->outputs[i])) {
                p->donor[i] = in->index + 1;
                break;
            }
    }
}
