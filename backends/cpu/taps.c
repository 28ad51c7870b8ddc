/* taps.c: sums of a few loads by an index, each times a weight, as an
 * interpolation is along one dimension. Blocks that share indices (hoist.c)
 * share weights too: what the first of them finds becomes a table, of each tap
 * for each vector of points where its elements begin, which of those a point
 * takes and the weights; in all others a vector of results is made in registers
 * at once, and nothing lies in memory between a tap and the next. */
#include <string.h>

#include "task.h"

#define TABLE_BYTES 24576 /* half an L1 */
#define MOST_POINTS 2048

/* ---- programs ------------------------------------------------------------ */

static const cpu_op *find_load(const cpu_code *code, uint32_t operand,
                               uint32_t index)
{
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        if (op->code == CPU_LOAD && op->index == operand && op->a == index &&
            op->early && code->slot[op->out].space == CPU_ELEM)
            return op;
    }
    return NULL;
}

static const tn_kernel_ins *plain_load(const tn_program *program, uint32_t n)
{
    const tn_kernel_ins *ins = n == TN_NONE ? NULL : &program->ins[n];
    return ins && ins->op == TN_K_LOAD && ins->a == TN_NONE ? ins : NULL;
}

/* where(w == 0, 0, x[i] * w) */
static bool add_tap(tn_built *built, const tn_program *program,
                    const tn_kernel_ins *select)
{
    cpu_taps *taps = &built->taps;
    const tn_kernel_ins *all = program->ins, *is_zero = &all[select->a];
    const tn_kernel_ins *zero = &all[select->b], *product = &all[select->c];
    if (taps->count == TN_CPU_TAPS || is_zero->op != TN_K_EQ ||
        is_zero->b != select->b || zero->op != TN_K_CONST ||
        zero->imm.i != 0 || product->op != TN_K_MUL)
        return false;
    uint32_t w = is_zero->a, x = product->a == w ? product->b : product->a;
    if (product->a != w && product->b != w)
        return false;
    const tn_kernel_ins *weight = plain_load(program, w), *value = &all[x];
    const tn_kernel_ins *index =
        value->op == TN_K_LOAD ? plain_load(program, value->a) : NULL;
    if (!weight || !index || value->b != TN_NONE || value->c != TN_NONE)
        return false;
    uint32_t in = (uint32_t)value->imm.i, at = (uint32_t)weight->imm.i;
    if (program->operand[in].dtype != TN_F32 ||
        program->operand[at].dtype != TN_F32 ||
        (taps->count > 0 && taps->in != in))
        return false;
    const cpu_code *code = &built->hoisted;
    const cpu_op *from = find_load(code, (uint32_t)index->imm.i, TN_CPU_NONE);
    const cpu_op *load = from ? find_load(code, in, from->out) : NULL;
    const cpu_op *weigh = find_load(code, at, TN_CPU_NONE);
    if (!load || !weigh)
        return false;
    taps->in = in;
    taps->load[taps->count] = (uint32_t)(load - code->op);
    taps->weigh[taps->count++] = (uint32_t)(weigh - code->op);
    return true;
}

/* The taps that value n is the sum of; returns the first of them, -1 if it is
 * none such. */
static int add_taps(tn_built *built, const tn_program *program, uint32_t n)
{
    const tn_kernel_ins *ins = &program->ins[n];
    cpu_taps *taps = &built->taps;
    if (ins->dtype != TN_F32)
        return -1;
    if (ins->op == TN_K_SELECT)
        return add_tap(built, program, ins) ? (int)taps->count - 1 : -1;
    if (ins->op != TN_K_ADD)
        return -1;
    int first = add_taps(built, program, ins->a);
    int second = first < 0 ? -1 : add_taps(built, program, ins->b);
    if (second < 0)
        return -1;
    taps->join[taps->joins][0] = (uint8_t)first;
    taps->join[taps->joins++][1] = (uint8_t)second;
    return first;
}

void tn__cpu_taps_init(tn_built *built, const tn_program *program)
{
    const tn_kernel_ins *store = NULL;
    uint32_t stores = 0;
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (program->ins[i].op == TN_K_STORE) {
            store = &program->ins[i];
            stores++;
        }
    if (built->hoisted.op_count == 0 || stores != 1 ||
        built->routines->tap_points == 0 || store->b != TN_NONE ||
        program->operand[store->imm.i].dtype != TN_F32)
        return;
    built->taps.out = (uint32_t)store->imm.i;
    if (add_taps(built, program, store->a) < 0)
        built->taps.count = 0;
}

/* ---- launches ------------------------------------------------------------ */

int64_t tn__cpu_taps_block(const tn_built *built)
{
    int64_t each = built->taps.count * (int64_t)sizeof(tn_cpu_tap);
    int64_t points = TABLE_BYTES / each * built->routines->tap_points;
    return tn__cpu_min(points / 256 * 256, MOST_POINTS);
}

/* Entries of a table: most, for offsets may be too far apart for whole vectors
 * (in lines of 24, they are for one in two). More are not worth it. */
static int64_t most_entries(const cpu_plan *plan)
{
    return 3 * (plan->block / plan->routines->tap_points + 1);
}

size_t tn__cpu_taps_bytes(const cpu_plan *plan)
{
    return plan->taps ? 2 * (size_t)most_entries(plan) *
                            plan->built->taps.count * sizeof(tn_cpu_tap)
                      : 0;
}

bool tn__cpu_taps_shared(const cpu_plan *plan)
{
    const cpu_taps *taps = &plan->built->taps;
    bool shared = plan->hoist && taps->count > 0 && !plan->in_place;
    for (uint32_t t = 0; shared && t < taps->count; t++)
        shared = plan->hoist->skip[taps->load[t]] == CPU_PLACED &&
                 plan->hoist->skip[taps->weigh[t]] == CPU_KNOWN;
    return shared;
}

/* How many of n offsets, from the first on, are within `most` elements. */
static int64_t count_near(const int64_t *where, int64_t n, int64_t most)
{
    int64_t low = where[0], high = where[0], i = 0;
    for (; i < n && where[i] != TN_CPU_OUTSIDE; i++) {
        low = tn__cpu_min(low, where[i]);
        high = where[i] > high ? where[i] : high;
        if (high - low >= most)
            break;
    }
    return i;
}

/* A tap's entry for n points, whose offsets and weights these are. */
static void fill_tap(tn_cpu_tap *tap, const int64_t *where,
                     const float *weight, int64_t step, int64_t n)
{
    int64_t high = where[0];
    *tap = (tn_cpu_tap){.points = n, .low = high};
    for (int64_t i = 0; i < n; i++) {
        tap->low = tn__cpu_min(tap->low, where[i]);
        high = where[i] > high ? where[i] : high;
        tap->weight[i] = weight[i * step];
    }
    tap->there = (uint32_t)(high - tap->low) + 1;
    for (int64_t i = 0; i < n; i++)
        tap->at[i] = (uint8_t)(where[i] - tap->low);
}

/* The table of blocks like the one at hand: whole ones, and shorter ones at the
 * end of a dimension, have one each. No entries if there is none. */
static void fill_table(cpu_task *task, cpu_tap_table *table)
{
    const cpu_taps *taps = &task->plan->built->taps;
    const int64_t points = task->routines->tap_points;
    const int64_t most = most_entries(task->plan);
    const int64_t *where[TN_CPU_TAPS];
    table->outer = task->box_outer;
    table->entries = 0;
    for (uint32_t t = 0; t < taps->count; t++)
        where[t] = (const int64_t *)
            task->slot[task->code->op[taps->load[t]].where];
    tn_cpu_tap *tap = table->tap;
    int64_t entries = 0;
    for (int64_t at = 0, n; at < task->count; at += n, entries++) {
        n = tn__cpu_min(points, task->count - at);
        for (uint32_t t = 0; t < taps->count; t++)
            n = count_near(where[t] + at, n, 2 * points);
        if (n == 0 || entries == most)
            return;
        for (uint32_t t = 0; t < taps->count; t++) {
            uint32_t slot = task->code->op[taps->weigh[t]].out;
            int64_t step = task->step[slot] != TN_CPU_ONE_VALUE;
            fill_tap(tap++, where[t] + at,
                     (const float *)task->slot[slot] + at * step, step, n);
        }
    }
    table->entries = entries;
}

void tn__cpu_taps_place(cpu_task *task, void *memory)
{
    if (!task->plan->taps)
        return;
    int64_t each =
        most_entries(task->plan) * task->plan->built->taps.count;
    for (int i = 0; i < 2; i++)
        task->taps[i] = (cpu_tap_table){.tap = (tn_cpu_tap *)memory + i * each,
                                        .outer = -1};
}

bool tn__cpu_run_taps(cpu_task *task)
{
    const cpu_taps *taps = &task->plan->built->taps;
    cpu_tap_table *table = &task->taps[task->count < task->plan->block];
    if (!task->skip) /* the first block finds what is shared */
        return false;
    if (table->outer != task->box_outer)
        fill_table(task, table);
    char *out = tn__cpu_view_flat(&task->view[taps->out], 0, task->count);
    if (!out || table->entries == 0)
        return false;
    char *to = task->plan->stream ? task->temporary : out;
    task->routines->taps(to, task->view[taps->in].base, table->tap,
                         table->entries, (int)taps->count, taps->join,
                         task->count);
    if (to != out)
        task->routines->stream(out, to, task->count * (int64_t)sizeof(float));
    return true;
}
