/* lines.c: operations whose operands are not all blocks of the same length: one
 * value for each row, one row or one value for all, lines of columns where they
 * lie; and chains of operations, which take any of these. */
#include "cpu.h"

/* Is one of its operands one value for the whole block? */
static bool has_single(const cpu_task *t, const cpu_op *op)
{
    const uint32_t slot[3] = {op->a, op->b, op->c};
    for (unsigned i = 0; op->lent && i < 3; i++)
        if (op->lent >> i & 1 && t->step[slot[i]] == TN_CPU_ONE_VALUE)
            return true;
    return false;
}

/* Does one of its operands lie otherwise than as a block of columns? */
static bool reads_lines(const cpu_task *t, const cpu_op *op)
{
    const uint32_t slot[3] = {op->a, op->b, op->c};
    for (unsigned i = 0; op->lent && i < 3; i++)
        if (op->lent >> i & 1 && t->step[slot[i]] != t->rows)
            return true;
    return false;
}

/* How an operation goes: row by row where rows are long or few, of columns line
 * by line. */
typedef struct lines {
    int64_t count, length;
} lines;

static lines find_lines(const cpu_task *t)
{
    int64_t count = t->by_rows    ? t->rows
                    : t->by_lines ? t->count / t->rows
                                  : 1;
    return (lines){count, t->count / count};
}

/* Operand i of an operation, in the first of its lines: where it is, whether it
 * is one value for each line, and bytes from there to the next line's. */
typedef struct source {
    const char *at;
    int64_t step;
    bool one;
} source;

static source find_source(const cpu_task *t, const cpu_op *op, unsigned i,
                          const lines *l)
{
    uint32_t slot = i == 0 ? op->a : i == 1 ? op->b : op->c;
    bool row = t->by_rows && (op->row >> i & 1);
    bool one = (op->scalar >> i & 1) || row;
    int64_t step = row ? 1 : one ? 0 : l->length;
    if (row) {
        slot = op->narrow[i];
    } else if (op->lent >> i & 1) {
        bool each = t->step[slot] == TN_CPU_ONE_EACH;
        one = each || t->step[slot] == TN_CPU_ONE_VALUE;
        step = each ? 1 : one ? 0 : t->step[slot];
    }
    return (source){t->slot[slot], step * t->code->slot[slot].bytes, one};
}

/* Row by row, with operands that have one value for each, or one row, or one
 * value, for all; of columns line by line. */
static void run_by_rows(cpu_task *t, const cpu_op *op)
{
    lines l = find_lines(t);
    size_t out_bytes = t->code->slot[op->out].bytes;
    source in[3];
    unsigned scalar = 0;
    for (unsigned i = 0; i < 3; i++) {
        in[i] = find_source(t, op, i, &l);
        scalar |= (unsigned)in[i].one << i;
    }
    /* No routine takes both, but those that take all. */
    bool is_both = (scalar & 3) == 3 && op->allowed != 7;
    char *out = t->slot[op->out];
    unsigned type = t->code->slot[op->a].bytes == 8 ? CPU_F64 : CPU_F32;
    for (int64_t r = 0; r < l.count; r++) {
        const char *a = in[0].at;
        if (is_both) {
            t->routines->fill[type](t->temporary, a, NULL, NULL, l.length, 0);
            a = t->temporary;
        }
        op->run(out, a, in[1].at, in[2].at, l.length,
                is_both ? scalar & ~1u : scalar);
        out += (size_t)l.length * out_bytes;
        for (unsigned i = 0; i < 3; i++)
            in[i].at += in[i].step;
    }
}

/* Does an operation read what is not a block as long as that it makes? */
static bool needs_lines(const cpu_task *t, const cpu_op *op)
{
    return (t->by_rows && (op->row | op->lent)) ||
           (t->by_lines && reads_lines(t, op));
}

bool tn__cpu_run_lines(cpu_task *t, const cpu_op *op)
{
    if (!has_single(t, op) && !needs_lines(t, op))
        return false;
    run_by_rows(t, op);
    return true;
}

/* ---- chains ------------------------------------------------------------ */

/* Is what a step reads or writes memory that goes on without a gap, more than a
 * cache has? */
static bool is_far(const cpu_task *t, const cpu_step *step, const char *at)
{
    if (step->memory == CPU_NO_MEMORY || !t->plan->ask || t->plan->in_place)
        return false;
    const cpu_view *view = &t->view[step->memory];
    bool goes_on = view->ndim == 1 && view->stride[0] == 1 && at >= view->base &&
                   at < view->base + view->extent[0] * view->bytes;
    return goes_on && (step->kind == CPU_STEP_OPERAND
                           ? !t->again
                           : !t->plan->stream);
}

void tn__cpu_run_chain(cpu_task *t, const cpu_op *op)
{
    tn_cpu_step step[TN_CPU_STEPS];
    const cpu_step *from = t->code->step + op->index;
    lines l = {1, t->count};
    for (unsigned k = 0; k < op->chain; k++)
        if (needs_lines(t, op + k)) {
            l = find_lines(t);
            break;
        }
    unsigned count = 0;
    for (unsigned k = 0; k < op->steps; k++) {
        const cpu_op *of = op + from[k].op;
        tn_cpu_step *to = &step[count++];
        *to = (tn_cpu_step){.code = from[k].code,
                            .kind = TN_CPU_STEP_SCRATCH,
                            .scratch = from[k].operand,
                            .mask = from[k].mask};
        if (from[k].kind == CPU_STEP_OPERAND) {
            source in = find_source(t, of, from[k].operand, &l);
            to->at = in.at;
            to->row = in.step;
            to->kind = in.one ? TN_CPU_STEP_ONE : TN_CPU_STEP_EACH;
        } else if (from[k].kind == CPU_STEP_RESULT) {
            to->at = t->slot[of->out];
            to->row = l.length * t->code->slot[of->out].bytes;
            to->kind = TN_CPU_STEP_EACH;
        }
        if (is_far(t, &from[k], to->at)) {
            step[count] = *to;
            step[count++].code = TN_CPU_STEP_ASK;
        }
    }
    t->routines->chain(step, l.count, l.length);
}
