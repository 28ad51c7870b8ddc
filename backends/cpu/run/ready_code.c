/* ready_code.c: small launches of compiled programs are often one call of
 * machine code. Preparing that call by blocks (block.c) takes ten times as long
 * as the call itself for a few elements, so it is done once. */
#include "ready_code.h"

#include <stdlib.h>

#include "../jit/native_run.h"

/* Where a pointer of the call comes from: an operand of the launch, or memory
 * that never moves. */
typedef struct source {
    uint32_t operand; /* TN_CPU_NONE: `fixed` is set */
    uint8_t bytes;    /* size of the operand's elements */
    char *fixed;
} source;

struct cpu_ready_code {
    cpu_native_run *run;
    uint32_t count; /* number of pointers */
    source from[TN_CPU_NATIVE_POINTERS];
    cpu_native_call call; /* allocated only up to call.at[count] */
};

/* Returns how an operand is laid out: 1 for adjacent elements, 0 for one value,
 * -1 for anything else. */
static int layout_of(const cpu_view *view, int64_t count)
{
    if (view->ndim == 0)
        return count == 1;
    if (view->ndim > 1)
        return -1;
    return view->stride[0] == 1 ? 1 : view->stride[0] == 0 ? 0 : -1;
}

/* Returns the operation of the part that writes (LOAD) or reads (STORE) a slot,
 * or NULL if there is none or more than one. */
static const cpu_op *find_op(const cpu_code *code, unsigned what,
                             uint32_t slot)
{
    const cpu_part part = code->stage[0].elem;
    const cpu_op *found = NULL;
    for (uint32_t i = 0; i < part.count; i++) {
        const cpu_op *op = &code->op[part.first + i];
        if (op->code != what || (what == CPU_LOAD ? op->out : op->a) != slot)
            continue;
        if (found)
            return NULL;
        found = op;
    }
    return found;
}

/* Returns the only segment of the program, if the program consists of it and of
 * loads and stores in place. */
static cpu_segment *only_segment(const cpu_code *code)
{
    const cpu_part part = code->stage[0].elem;
    cpu_segment *segment = NULL;
    uint32_t stores = 0;
    for (uint32_t i = 0; i < part.count; i++) {
        const cpu_op *op = &code->op[part.first + i];
        if (op->code == CPU_NATIVE && !segment)
            segment = code->segment[op->index];
        else if (op->code == CPU_STORE && (op->flags & STORE_DIRECT))
            stores++;
        else if (op->code != CPU_NOP &&
                 !(op->code == CPU_LOAD && op->a == TN_CPU_NONE &&
                   op->b == TN_CPU_NONE && op->c == TN_CPU_NONE))
            return NULL;
    }
    return segment && segment->native.fold_count == 0 &&
                   segment->native.result_count == stores
               ? segment
               : NULL;
}

/* Sets pointer i to an operand of the segment. Sets its bit of *single if it is
 * one value. */
static bool add_operand(cpu_ready_code *r, uint32_t i, const cpu_plan *plan,
                        const cpu_task *scalars,
                        const cpu_native_operand *operand, int64_t count,
                        uint32_t *single)
{
    if (operand->wide == TN_CPU_NONE) {
        r->from[i] = (source){TN_CPU_NONE, 0, scalars->slot[operand->narrow]};
        *single |= 1u << i;
        r->call.next[i] = 0;
        return r->from[i].fixed != NULL;
    }
    const cpu_op *load = find_op(plan->code, CPU_LOAD, operand->wide);
    const cpu_view *view = load ? &plan->view[load->index] : NULL;
    const int layout = view ? layout_of(view, count) : -1;
    if (layout < 0 || !tn__cpu_is_as_stored(view->dtype) ||
        (layout == 0 && !(load->flags & LOAD_SINGLE)))
        return false;
    r->from[i] = (source){load->index, view->bytes, NULL};
    *single |= (uint32_t)(layout == 0) << i;
    r->call.next[i] = layout * count * operand->bytes;
    return true;
}

static bool add_result(cpu_ready_code *r, uint32_t i, const cpu_plan *plan,
                       uint32_t slot, int64_t count)
{
    const cpu_op *store = find_op(plan->code, CPU_STORE, slot);
    const cpu_view *view = store ? &plan->view[store->index] : NULL;
    if (!view || layout_of(view, count) != 1 ||
        !tn__cpu_is_as_stored(view->dtype))
        return false;
    r->from[i] = (source){store->index, view->bytes, NULL};
    r->call.next[i] = count * view->bytes;
    return true;
}

cpu_ready_code *tn__cpu_ready_code_make(const cpu_plan *plan,
                                        const cpu_task *scalars)
{
    const int64_t count = plan->row_count * plan->row_length;
    if (plan->built->has_rows || plan->tiled || plan->hoist || plan->taps ||
        plan->overlap || plan->subrow > 0 || plan->groups.count != 1 ||
        plan->traffic.stream || plan->traffic.ahead)
        return NULL;
    cpu_segment *s = only_segment(plan->code);
    if (!s)
        return NULL;
    const uint32_t operands = s->native.operand_count;
    const uint32_t pointers = operands + s->native.result_count;
    cpu_ready_code *r =
        malloc(offsetof(cpu_ready_code, call.at) + pointers * sizeof(char *));
    if (!r)
        return NULL;
    uint32_t single = 0;
    bool able = true;
    for (uint32_t i = 0; i < operands && able; i++)
        able = add_operand(r, i, plan, scalars, &s->operand[i], count, &single);
    for (uint32_t i = operands; i < pointers && able; i++)
        able = add_result(r, i, plan, s->result[i - operands], count);
    r->run = able ? tn__cpu_native_get(&s->native,
                                       (cpu_native_options){.single = single,
                                                            .copies = 1})
                  : NULL;
    if (!r->run) {
        free(r);
        return NULL;
    }
    r->count = pointers;
    r->call.n = count;
    r->call.prefetch = NULL;
    r->call.prefetch_next = 0;
    return r;
}

void tn__cpu_ready_code_run(cpu_ready_code *r, const tn_launch *launch)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const source *from = &r->from[i];
        const tn_launch_operand *operand = &launch->operand[from->operand];
        r->call.at[i] = from->operand == TN_CPU_NONE
                            ? from->fixed
                            : operand->buffer->memory +
                                  operand->offset * from->bytes;
    }
    r->call.lines = 1;
    r->run(&r->call);
}
