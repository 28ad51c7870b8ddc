/* taps_blocks.c: sums of a few loads by an index, each times a weight, as an
 * interpolation is along one dimension. Blocks that share indices (hoist.c)
 * share weights too: what the first of them finds becomes a table, of each tap
 * for each vector of points where its elements begin, which of those a point
 * takes and the weights; in all others a vector of results is made in registers
 * at once, and nothing lies in memory between a tap and the next. Sums that are
 * short rows are written out as a program of that kind. */
#include <string.h>

#include "../run/task.h"

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

typedef struct tap_operands {
    uint32_t in, index, weight, flags; /* of the load by an index */
} tap_operands;

/* where(w == 0, 0, x[i] * w) */
static bool read_tap(const tn_program *program, uint32_t n, tap_operands *tap)
{
    const tn_kernel_ins *all = program->ins, *select = &all[n];
    if (select->op != TN_K_SELECT)
        return false;
    const tn_kernel_ins *is_zero = &all[select->a], *zero = &all[select->b];
    const tn_kernel_ins *product = &all[select->c];
    if (is_zero->op != TN_K_EQ || is_zero->b != select->b ||
        zero->op != TN_K_CONST || zero->imm.i != 0 ||
        product->op != TN_K_MUL)
        return false;
    uint32_t w = is_zero->a, x = product->a == w ? product->b : product->a;
    if (product->a != w && product->b != w)
        return false;
    const tn_kernel_ins *weight = plain_load(program, w), *value = &all[x];
    const tn_kernel_ins *index =
        value->op == TN_K_LOAD ? plain_load(program, value->a) : NULL;
    if (!weight || !index || value->b != TN_NONE || value->c != TN_NONE)
        return false;
    *tap = (tap_operands){(uint32_t)value->imm.i, (uint32_t)index->imm.i,
                          (uint32_t)weight->imm.i, value->sub};
    return program->operand[tap->in].dtype == TN_F32 &&
           program->operand[tap->weight].dtype == TN_F32;
}

static bool add_tap(tn_built *built, const tn_program *program, uint32_t n)
{
    cpu_taps *taps = &built->taps;
    tap_operands tap;
    if (taps->count == TN_CPU_TAPS || !read_tap(program, n, &tap) ||
        (taps->count > 0 && taps->in != tap.in))
        return false;
    const cpu_code *code = &built->hoisted;
    const cpu_op *from = find_load(code, tap.index, TN_CPU_NONE);
    const cpu_op *load = from ? find_load(code, tap.in, from->out) : NULL;
    const cpu_op *weigh = find_load(code, tap.weight, TN_CPU_NONE);
    if (!load || !weigh)
        return false;
    taps->in = tap.in;
    taps->index[taps->count] = tap.index;
    taps->weight[taps->count] = tap.weight;
    taps->load[taps->count] = (uint32_t)(load - code->op);
    taps->weigh[taps->count++] = (uint32_t)(weigh - code->op);
    return true;
}

/* How many additions stand above each other in value n; more than `most` if
 * there are more. */
static int depth_of(const tn_program *program, uint32_t n, int most)
{
    const tn_kernel_ins *ins = &program->ins[n];
    if (ins->op != TN_K_ADD || most < 0)
        return 0;
    const int a = depth_of(program, ins->a, most - 1);
    const int b = depth_of(program, ins->b, most - 1);
    return 1 + (a > b ? a : b);
}

/* The taps that value n is the sum of, in a tree of so many additions above
 * each other whose first leaf that is. */
static bool add_taps(tn_built *built, const tn_program *program, uint32_t n,
                     int leaf, int depth)
{
    const tn_kernel_ins *ins = &program->ins[n];
    if (ins->dtype != TN_F32)
        return false;
    if (ins->op == TN_K_SELECT) {
        built->taps.leaves |= 1u << leaf;
        return add_tap(built, program, n);
    }
    return ins->op == TN_K_ADD &&
           add_taps(built, program, ins->a, leaf, depth - 1) &&
           add_taps(built, program, ins->b, leaf + (1 << (depth - 1)),
                    depth - 1);
}

/* A row is a sum of taps? */
static void read_row(tn_built *built, const tn_program *program,
                     const tn_kernel_ins *sum, uint32_t out)
{
    tap_operands tap;
    if (sum->op != TN_K_REDUCE || sum->sub != TN_REDUCE_SUM ||
        sum->dtype != TN_F32 || program->param_count > 0 ||
        !read_tap(program, sum->a, &tap))
        return;
    built->row_taps = (cpu_row_taps){.is_row = true, .in = tap.in,
                                     .index = tap.index, .out = out,
                                     .weight = tap.weight,
                                     .flags = tap.flags};
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
    if (stores != 1 || built->routines->tap_points == 0 ||
        store->b != TN_NONE ||
        program->operand[store->imm.i].dtype != TN_F32)
        return;
    if (built->has_rows)
        read_row(built, program, &program->ins[store->a],
                 (uint32_t)store->imm.i);
    if (built->hoisted.op_count == 0)
        return;
    built->taps.out = (uint32_t)store->imm.i;
    built->taps.depth = depth_of(program, store->a, TN_CPU_TAP_DEPTH);
    if (built->taps.depth > TN_CPU_TAP_DEPTH ||
        !add_taps(built, program, store->a, 0, built->taps.depth))
        built->taps.count = 0;
}

/* ---- launches ------------------------------------------------------------ */

int64_t tn__cpu_taps_block(const tn_built *built)
{
    int64_t each = built->taps.count * (int64_t)sizeof(tn_cpu_tap);
    int64_t points = TABLE_BYTES / each * built->routines->tap_points;
    return points < 256 ? 256 : tn__cpu_min(points / 256 * 256, MOST_POINTS);
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

/* Where a tap has no weight it is nowhere. */
int64_t tn__cpu_tap_near(const cpu_tap_lists *lists, int64_t at, int64_t n,
                         int64_t most)
{
    int64_t low = INT64_MAX, high = INT64_MIN, i = 0;
    for (; i < n; i++) {
        for (int t = 0; t < lists->count; t++) {
            const int64_t x = lists->where[t][at + i];
            if (x == TN_CPU_OUTSIDE)
                return i;
            if (lists->weight[t][(at + i) * lists->step[t]] == 0)
                continue;
            low = tn__cpu_min(low, x);
            high = x > high ? x : high;
        }
        if (high > low && high - low >= most)
            break;
    }
    return i;
}

void tn__cpu_tap_fill(tn_cpu_tap *tap, const cpu_tap_lists *lists, int64_t at,
                      int64_t n)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int t = 0; t < lists->count; t++)
        for (int64_t i = at; i < at + n; i++)
            if (lists->weight[t][i * lists->step[t]] != 0) {
                low = tn__cpu_min(low, lists->where[t][i]);
                high = lists->where[t][i] > high ? lists->where[t][i] : high;
            }
    if (low > high) /* none has */
        low = high = lists->where[0][at];
    for (int t = 0; t < lists->count; t++, tap++) {
        *tap = (tn_cpu_tap){.low = low, .points = n,
                            .there = (uint32_t)(high - low) + 1};
        for (int64_t i = 0; i < n; i++) {
            tap->weight[i] = lists->weight[t][(at + i) * lists->step[t]];
            if (tap->weight[i] != 0)
                tap->at[i] = (uint8_t)(lists->where[t][at + i] - low);
        }
    }
}

/* The table of blocks like the one at hand: whole ones, and shorter ones at the
 * end of a dimension, have one each. No entries if there is none. */
static void fill_table(cpu_task *task, cpu_tap_table *table)
{
    const cpu_taps *taps = &task->plan->built->taps;
    const int64_t points = task->routines->tap_points;
    const int64_t most = most_entries(task->plan);
    cpu_tap_lists lists = {.count = (int)taps->count};
    table->outer = task->box_outer;
    table->entries = 0;
    for (uint32_t t = 0; t < taps->count; t++) {
        const uint32_t slot = task->code->op[taps->weigh[t]].out;
        lists.where[t] = (const int64_t *)
            task->slot[task->code->op[taps->load[t]].where];
        lists.weight[t] = (const float *)task->slot[slot];
        lists.step[t] = task->step[slot] != TN_CPU_ONE_VALUE;
    }
    int64_t entries = 0;
    for (int64_t at = 0, n; at < task->count; at += n, entries++) {
        n = tn__cpu_min(points, task->count - at);
        n = tn__cpu_tap_near(&lists, at, n, 2 * points);
        if (n == 0 || entries == most)
            return;
        tn__cpu_tap_fill(table->tap + entries * lists.count, &lists, at, n);
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
    const tn_cpu_tap_rows row = {.out = (float *)(void *)to,
                                 .in = (const float *)(const void *)
                                     task->view[taps->in].base,
                                 .count = 1, .n = task->count};
    task->routines->taps(&row, table->tap, table->entries, taps->depth,
                         taps->leaves);
    if (to != out)
        task->routines->stream(out, to, task->count * (int64_t)sizeof(float),
                               0);
    return true;
}

/* ---- rows ---------------------------------------------------------------- */

/* The program of one output whose row has `count` taps: these written out, added
 * in the order of a row's lanes. */
static tn_status build_written(const tn_built *built, int count,
                               tn_built **written)
{
    enum { EACH = 6, MOST = 2 + 7 * TN_CPU_TAPS };
    tn_kernel_ins ins[MOST] = {{.op = TN_K_CONST, .dtype = TN_F32,
                                .a = TN_NONE, .b = TN_NONE, .c = TN_NONE}};
    tn_kernel_operand operand[2 + 2 * TN_CPU_TAPS];
    uint32_t order[MOST], lane[TN_CPU_TAPS], n = 1;
    operand[0] = built->operand[built->row_taps.in];
    operand[2 * count + 1] = built->operand[built->row_taps.out];
    operand[2 * count + 1].level = TN_LEVEL_ELEM;
#define ADD(code, type, x, y, z, number)                                      \
    ins[n++] = (tn_kernel_ins){.op = (code), .dtype = (type),                 \
                               .level = TN_LEVEL_ELEM, .a = (x), .b = (y),    \
                               .c = (z), .imm.i = (number)}
    for (int t = 0; t < count; t++) {
        operand[2 * t + 1] = built->operand[built->row_taps.index];
        operand[2 * t + 2] = built->operand[built->row_taps.weight];
        const uint32_t i = n, w = n + 1, zero = n + 2, x = n + 3, y = n + 4;
        ADD(TN_K_LOAD, TN_I64, TN_NONE, TN_NONE, TN_NONE, 2 * t + 1);
        ADD(TN_K_LOAD, TN_F32, TN_NONE, TN_NONE, TN_NONE, 2 * t + 2);
        ADD(TN_K_EQ, TN_BOOL, w, 0, TN_NONE, 0);
        ADD(TN_K_LOAD, TN_F32, i, TN_NONE, TN_NONE, 0);
        ins[x].sub = (uint8_t)built->row_taps.flags;
        ADD(TN_K_MUL, TN_F32, w, x, TN_NONE, 0);
        lane[t] = n;
        ADD(TN_K_SELECT, TN_F32, zero, 0, y, 0);
    }
    for (int half = TN_LANES / 2; half > 0; half /= 2)
        for (int t = 0; t < half && t + half < count; t++) {
            ADD(TN_K_ADD, TN_F32, lane[t], lane[t + half], TN_NONE, 0);
            lane[t] = n - 1;
        }
    ADD(TN_K_STORE, TN_F32, lane[0], TN_NONE, TN_NONE, 2 * count + 1);
#undef ADD
    for (uint32_t k = 0; k < n; k++)
        order[k] = k;
    const tn_kernel_stage stage = {.elem_first = 1, .elem_count = n - 1,
                                   .row_first = n};
    const tn_program program = {.size = sizeof program, .ins_count = n,
                                .operand_count = 2 + 2 * (uint32_t)count,
                                .stage_count = 1, .order_count = n,
                                .uniform_count = 1, .ins = ins,
                                .operand = operand, .stage = &stage,
                                .order = order};
    tn_plugin_device device = {.routines = built->routines,
                               .stream_bytes = built->stream_bytes};
    return tn__cpu_program_build(&device, &program, written);
}

static tn_status find_written(tn_built *built, int count, tn_built **written)
{
    _Atomic(tn_built *) *at = &built->row_taps.written[count];
    *written = atomic_load(at);
    if (*written)
        return TN_OK;
    tn_built *made, *none = NULL;
    tn_status status = build_written(built, count, &made);
    if (status == TN_OK && !atomic_compare_exchange_strong(at, &none, made)) {
        tn__cpu_program_free(NULL, made); /* another thread was first */
        made = none;
    }
    *written = status == TN_OK ? made : NULL;
    return status;
}

/* All of them, of one outer dimension at most: who goes row by row finds which
 * is outside. */
static bool all_inside(const tn_launch *launch, const tn_launch_operand *at,
                       uint32_t row, int64_t extent)
{
    uint32_t own = row;
    for (uint32_t d = 0; d < launch->outer_ndim; d++)
        if (launch->extent[d] > 1 && at->stride[d] != 0) {
            if (own != row)
                return false;
            own = d;
        }
    const int64_t lines = own == row ? 1 : launch->extent[own];
    const int64_t *index =
        (const int64_t *)tn__cpu_at(at->buffer, at->offset, 8);
    for (int64_t i = 0; i < lines; i++, index += at->stride[own])
        for (int64_t t = 0; t < launch->extent[row]; t++)
            if ((uint64_t)index[t * at->stride[row]] >= (uint64_t)extent)
                return false;
    return true;
}

bool tn__cpu_launch_row_taps(tn_built *built, const tn_launch *launch,
                             tn_status *status)
{
    const cpu_row_taps *taps = &built->row_taps;
    const uint32_t outer = launch->outer_ndim;
    const int64_t *extent = launch->extent;
    const tn_launch_operand *in = &launch->operand[taps->in];
    const tn_launch_operand *index = &launch->operand[taps->index];
    if (launch->row_ndim != 1 || extent[outer] < 1 ||
        extent[outer] > TN_CPU_TAPS || in->stride[outer] != 0 ||
        tn__cpu_product(extent, outer) < TN_CPU_LEAST_POINTS ||
        !all_inside(launch, index, outer, in->index_extent[0]))
        return false;
    const int count = (int)extent[outer];
    tn_launch_operand operand[2 + 2 * TN_CPU_TAPS];
    operand[0] = *in;
    for (int t = 0; t < count; t++) {
        tn_launch_operand *at = &operand[2 * t + 1], *weight = at + 1;
        *at = *index;
        at->offset += t * at->stride[outer];
        *weight = launch->operand[taps->weight];
        weight->offset += t * weight->stride[outer];
    }
    operand[2 * count + 1] = launch->operand[taps->out];
    tn_launch written = {.size = sizeof written};
    tn_struct_copy(&written, launch);
    written.row_ndim = 0;
    written.operand = operand;
    tn_built *program;
    *status = find_written(built, count, &program);
    if (*status == TN_OK)
        *status = tn__cpu_launch(NULL, program, &written);
    return true;
}
