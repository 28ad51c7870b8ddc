/* cpu_launch.c: runs a built program over an iteration space.
 *
 * The space is cut into groups of rows (without reductions: runs of elements),
 * groups into tasks, by shape alone. A group whose rows fit a block is "kept":
 * all stages run over it, each value computed once. Longer rows are streamed
 * in blocks, stage by stage. Where neighbouring rows lie side by side in
 * memory (a sum over the first dimension) a group is a set of columns. A few
 * very long rows are split into segments of whole chunks (split_rows.c). */
#include <stdlib.h>
#include <string.h>

#include "../cpu.h"
#include "task.h"

#define TASK_WORK 32768   /* elements; about 10 us of simple work */
#define TAPS_WORK 262144  /* of those that are little work each (taps_blocks.c) */
#define KEPT_BYTES 131072 /* of a group's slots: well within an L2 */
#define LONG_ROW 64    /* elements from which operations go row by row */
#define SHORT_ROW 32   /* elements; at 64 rows by lanes are faster again */
#define LEAST_COLUMNS 16 /* rows side by side that are worth it */
#define MOST_TASKS 512
#define STREAM_TASKS 64 /* at the end of a task what is stored must be there */
#define BLOCK_BYTES 24576 /* of a block's slots: half an L1 */
#define IN_PLACE_BLOCK 1024 /* elements: half an L1 with what lies in memory */
#define NATIVE_BLOCK 4096 /* elements: machine code has values in registers */
#define NATIVE_ALONE 16384 /* where it has all of them: a block costs 60 ns */
#define ROWS_BYTES 98304 /* of whole rows' slots: an operation takes long enough
                            for what goes before it; layer_norm of 2048 x 512
                            took 0.37 ms with half an L1, 0.28 so (Zen 5) */
#define NATIVE_ROWS 4 /* times as many for machine code, of whose slots most are
                         memory: less is around it. layer_norm of 2048 x 512 164
                         to 145 us, with its gradients 558 to 505 (Zen 5) */
#define FOLD_BLOCK 32768  /* elements, where rows are folded as they lie */
/* What is asked for before an operation. A program of one stage reads on and
 * on, and the processor guesses what: a little asked for beside that took
 * batch_norm of 16 x 64 x 56 x 56 from 0.68 to 1.2 ms (Zen 5). While stages go
 * over rows in L1 memory would be idle: with 384, layer_norm of 4096 x 1024
 * took 2.6 ms in place of 4.8, group_norm with its gradients 13.5 in place of
 * 16 (Sapphire Rapids). With 512, softmax of 4096 x 4096 6.6 ms in place of 8.4
 * with 384, log_softmax of 4096 x 1024 1.73 and 2.1 (Zen 5; 768 and 1024 gain no
 * more, and group_norm loses). */
#define STAGED_BYTES 512
#define PAST_BYTES 128 /* likewise, and sent off on the way past the caches */
#define AHEAD_FROM 131072 /* elements: more than an L2 has beside others */
#define AGAIN 65536 /* elements of a row that an L2 still has after a stage */
#define LATER_BYTES 32768 /* of results on their way past the caches */

void tn__cpu_plan_fault(cpu_plan *plan, uint32_t operand, uint32_t dim,
                        int64_t index, int64_t position)
{
    while (atomic_flag_test_and_set_explicit(&plan->fault_lock,
                                             memory_order_acquire))
        ;
    if (plan->fault.code == TN_OK || position < plan->fault.position)
        plan->fault = (tn_fault){
            .size = sizeof plan->fault,
            .code = TN_ERR_INDEX,
            .tag = plan->launch->tag,
            .operand = operand,
            .dim = dim,
            .index = index,
            .extent = plan->launch->operand[operand].index_extent[dim],
            .position = position,
        };
    atomic_flag_clear_explicit(&plan->fault_lock, memory_order_release);
}

/* ---- views ------------------------------------------------------------- */

static void plan_views(cpu_plan *plan)
{
    const tn_built *built = plan->built;
    const tn_launch *launch = plan->launch;
    uint32_t outer = launch->outer_ndim, ndim = outer + launch->row_ndim;
    for (uint32_t k = 0; k < built->operand_count; k++) {
        const int64_t *stride = launch->operand[k].stride;
        cpu_view *view = &plan->view[k];
        tn__cpu_view_init(view, &built->operand[k], &launch->operand[k]);
        if (built->has_rows) /* a copy would wait for what was just stored */
            tn__cpu_view_init(&plan->row_view[k], &built->operand[k],
                              &launch->operand[k]);
        for (uint32_t d = 0; d < ndim; d++)
            tn__cpu_view_push(view, launch->extent[d], stride[d]);
        for (uint32_t d = 0; built->has_rows && d < outer; d++)
            tn__cpu_view_push(&plan->row_view[k], launch->extent[d],
                              stride[d]);
    }
}

static bool same_points(const cpu_view *a, const cpu_view *b)
{
    bool same = a->ndim == b->ndim && a->dtype == b->dtype;
    for (uint32_t d = 0; same && d < a->ndim; d++)
        same = a->extent[d] == b->extent[d] && a->stride[d] == b->stride[d];
    return same;
}

/* Does an output begin where an input does? Then it is the same memory, by
 * contract, and loads must not be taken from it after stores. */
static void find_overlap(cpu_plan *plan)
{
    const tn_built *built = plan->built;
    plan->in_place = plan->overlap = false;
    for (uint32_t w = 0; w < built->operand_count; w++)
        for (uint32_t r = 0; built->operand[w].access == TN_OPERAND_WRITE &&
                             r < built->operand_count;
             r++) {
            const cpu_view *from = &plan->view[r], *to = &plan->view[w];
            if (built->operand[r].access != TN_OPERAND_READ ||
                from->base != to->base)
                continue;
            plan->in_place = true;
            if ((built->late[w] >> r & 1) || !same_points(from, to))
                plan->overlap = true;
        }
}

/* Is so much written that a cache would not hold it for the next reader? Then
 * it need not go through there; a line that is to be overwritten would even be
 * read first. Half as much is enough where stages over rows leave memory idle:
 * layer_norm of 4096 x 1024 took 1.28 ms in place of 1.60; and where machine
 * code stores so as it goes: batch_norm_eval of 16 x 64 x 56 x 56 0.35 ms in
 * place of 0.43, group_norm with its gradients 1.95 of 2.55; a quarter where
 * both are so: relu(batch_norm) of 8 x 64 x 56 x 56 with its gradients 1.42 ms
 * in place of 1.87, softmax of 2048 x 1024 0.54 of 0.72 (Zen 5). */
static bool wants_stream(const cpu_plan *plan)
{
    const tn_built *built = plan->built;
    int64_t bytes = 0;
    int64_t part = (built->kept.stage_count > 1 ? 2 : 1) *
                   (built->kept.segment_count > 0 ? 2 : 1);
    for (uint32_t k = 0; k < built->operand_count; k++)
        if (built->operand[k].access == TN_OPERAND_WRITE &&
            built->operand[k].level == TN_LEVEL_ELEM)
            bytes += plan->view[k].bytes;
    return plan->routines->stream && !plan->in_place &&
           bytes * plan->row_count * plan->row_length >=
               built->stream_bytes / part;
}

/* Is more at hand than an L2 has? Then memory is asked for what comes next. Not
 * where vectors pass in halves and one stage updates in place: there the
 * processor guesses all streams, and long blocks without requests are best.
 * Four tensors of 4 MiB by SGD with momentum 2.45 ms with them and 1.8 without,
 * by Adam 3.8 and 2.5; but softmax of 4096 x 4096 7.5 and 9.6 (Zen 4). */
static bool asks_ahead(const cpu_plan *plan)
{
    bool guessed = plan->routines->halves && plan->in_place &&
                   plan->built->kept.stage_count == 1;
    return !guessed && plan->row_count * plan->row_length >= AHEAD_FROM;
}

/* Room for the results that go past the caches beside later work: for those of
 * a group's last stage, or of the block before. */
static void plan_later(cpu_plan *plan)
{
    int64_t blocks = 2, bytes = 0;
    for (uint32_t k = 0; k < plan->built->operand_count; k++)
        if (plan->built->operand[k].access == TN_OPERAND_WRITE &&
            plan->view[k].bytes > bytes)
            bytes = plan->view[k].bytes;
    if (plan->code->stage_count > 1)
        blocks = plan->kept ? 1
                            : (plan->row_length + plan->block - 1) / plan->block;
    plan->later_bytes = bytes * plan->block;
    blocks = tn__cpu_min(blocks, LATER_BYTES / plan->later_bytes);
    plan->laters = (uint32_t)tn__cpu_min(blocks, TN_CPU_LATER);
    plan->later_bytes = plan->laters > 0 ? plan->later_bytes : 0;
}

/* ---- cutting the space ------------------------------------------------- */

/* How many neighbouring rows are one dimension for every operand. */
static int64_t neighbours(const cpu_plan *plan)
{
    const tn_launch *launch = plan->launch;
    int64_t extent = 1;
    uint32_t d = launch->outer_ndim;
    while (d > 0 && launch->extent[d - 1] == 1)
        d--;
    if (d == 0)
        return 1;
    uint32_t inner = d - 1;
    extent = launch->extent[inner];
    while (d-- > 1) {
        for (uint32_t k = 0; k < plan->built->operand_count; k++) {
            const int64_t *stride = launch->operand[k].stride;
            if (stride[d - 1] != stride[inner] * extent)
                return extent;
        }
        extent *= launch->extent[d - 1];
    }
    return extent;
}

/* Do neighbouring rows lie closer together than a row's elements, for most of
 * what is read? What is the same for all rows, or along one, is little memory:
 * it decides where nothing else does. */
static bool wants_columns(const cpu_plan *plan)
{
    const tn_launch *launch = plan->launch;
    int votes = 0;
    uint32_t inner = launch->outer_ndim, element;
    element = inner + launch->row_ndim;
    while (inner > 0 && launch->extent[inner - 1] == 1)
        inner--;
    while (element > launch->outer_ndim && launch->extent[element - 1] == 1)
        element--;
    if (inner == 0 || element == launch->outer_ndim)
        return false;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const tn_kernel_operand *operand = &plan->built->operand[k];
        if (operand->access != TN_OPERAND_READ ||
            operand->level != TN_LEVEL_ELEM)
            continue;
        int64_t along = llabs(launch->operand[k].stride[element - 1]);
        int64_t across = llabs(launch->operand[k].stride[inner - 1]);
        int weight = along != 0 && across != 0 ? TN_CPU_MAX_OPERANDS : 1;
        if (along != across)
            votes += across != 0 && across < along ? weight : -weight;
    }
    return votes > 0;
}

/* Bytes of an element's slots. */
static int64_t slot_bytes(const cpu_code *code, bool whole)
{
    int64_t each = code->elem_bytes + (whole ? code->group_bytes : 0);
    return each > 0 ? each : 1;
}

/* Elements of a block of code, so that its slots stay in L1. */
static int64_t block_size(const cpu_code *code, bool whole)
{
    int64_t count = BLOCK_BYTES / slot_bytes(code, whole) / 256 * 256;
    return count < 256 ? 256 : count > 4096 ? 4096 : count;
}

int64_t tn__cpu_block_size(const cpu_code *code)
{
    return block_size(code, false);
}

/* Whole chunks of a row that is too long to be kept. Where stages follow each
 * other, what starts an operation weighs more than that its slots are in L2:
 * group_norm of 16 x 64 x 56 x 56 took 1.23 ms in blocks of 1024 elements, 0.97
 * of 4096 (Zen 5; 8192: 1.05). */
static int64_t streamed_block(const cpu_code *code)
{
    int64_t bytes = code->stage_count > 1 ? ROWS_BYTES : BLOCK_BYTES;
    int64_t count = bytes / slot_bytes(code, true) / TN_CHUNK * TN_CHUNK;
    return count < TN_CHUNK ? TN_CHUNK : count > 4096 ? 4096 : count;
}

/* Points without a step for any operand. */
static int64_t shortest_run(const cpu_plan *plan)
{
    int64_t run = plan->row_count * plan->row_length;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const cpu_view *view = &plan->view[k];
        if (view->ndim > 1)
            run = tn__cpu_min(run, view->extent[view->ndim - 1]);
    }
    return run;
}

/* Machine code goes over several short runs at once, line by line: what there is
 * to do around a block took as long as batch_norm_eval of 16 x 64 x 56 x 56, run
 * by run. False: it does not. */
static bool join_runs(cpu_plan *plan)
{
    enum { MOST = 32768 };
    const cpu_code *code = plan->code;
    int64_t runs = plan->row_count * plan->row_length / plan->run;
    int64_t lines = tn__cpu_min(MOST / plan->run, runs);
    bool able = code->segment_count > 0 && plan->run_blocks == 1 && lines > 1;
    while (able && runs % lines != 0)
        lines--;
    for (uint32_t i = 0; able && i < code->op_count; i++)
        able = code->op[i].code != CPU_LOAD || code->op[i].a == TN_CPU_NONE;
    for (uint32_t k = 0; able && k < plan->built->operand_count; k++) {
        const cpu_view *view = &plan->view[k];
        if (view->ndim < 2)
            continue;
        able = view->extent[view->ndim - 1] == plan->run;
        while (able && view->extent[view->ndim - 2] % lines != 0)
            lines--;
    }
    if (!able || lines < 2)
        return false;
    plan->line = plan->run;
    plan->run *= lines;
    plan->block = plan->run;
    return true;
}

/* Blocks that lie within a run are read where they are, also the rows of an
 * operand that is broadcast; so a run is cut into blocks of like length. */
static void cut_runs(cpu_plan *plan)
{
    plan->line = 0;
    int64_t total = plan->row_count * plan->row_length;
    plan->run = shortest_run(plan);
    plan->run_blocks = (plan->run + plan->block - 1) / plan->block;
    if (plan->run < LONG_ROW || !join_runs(plan)) {
        if (plan->run < TN_CPU_LEAST_RUN)
            plan->run = total;
        plan->run_blocks = (plan->run + plan->block - 1) / plan->block;
        if (plan->run < total)
            plan->block = tn__cpu_min(
                plan->block, (plan->run + plan->run_blocks * 16 - 1) /
                                 plan->run_blocks / 16 * 16);
    }
    plan->group_count = total / plan->run * plan->run_blocks;
}

/* A task's, where there is more work for each element; and where there are
 * several functions. */
static void fewer_groups(cpu_plan *plan)
{
    enum { MORE = 16, MUCH = 40 };
    if (plan->code->work > MORE)
        plan->groups_per_task = (plan->groups_per_task + 3) / 4;
    if (plan->code->work > MUCH)
        plan->groups_per_task = (plan->groups_per_task + 3) / 4;
}

/* An update in place reads more streams than the processor guesses: what the
 * next block reads is asked for evenly between the operations, and all of it.
 * Four tensors of 4 MiB by SGD with momentum, eight operations on blocks of 4
 * KiB: 1.4 ms so, 3.0 with half as much, 1.5 with twice and 1.7 with nothing;
 * by Adam, seventeen: 2.6, 4.7, 3.4 and 4.4. Two streams are guessed: SGD
 * without momentum 0.8 ms, and 1.0 where they are asked for (Zen 5). */
static int64_t even_piece(const cpu_plan *plan)
{
    enum { LINE = 64, GUESSED = 2 };
    int64_t streams = 0, operations = plan->code->stage[0].elem.count;
    for (uint32_t k = 0; k < plan->built->operand_count; k++)
        streams += plan->built->operand[k].access == TN_OPERAND_READ;
    if (streams <= GUESSED || operations == 0)
        return 0;
    return (plan->block * 4 / operations + LINE - 1) / LINE * LINE;
}

static void cut_elements(cpu_plan *plan, cpu_hoist *hoist)
{
    plan->code = &plan->built->kept;
    plan->kept = true;
    plan->group_rows = 1;
    plan->block = block_size(plan->code, false);
    if (plan->code->segment_count > 0)
        plan->block = tn__cpu_native_takes_lines(plan->code) ? NATIVE_ALONE
                                                             : NATIVE_BLOCK;
    if (plan->in_place && plan->ahead && plan->block > IN_PLACE_BLOCK)
        plan->block = IN_PLACE_BLOCK;
    if (!tn__cpu_cut_shared(plan, hoist)) {
        plan->tiled = tn__cpu_cut_tiles(plan);
        if (!plan->tiled)
            cut_runs(plan);
    }
    plan->taps = tn__cpu_taps_shared(plan);
    plan->groups_per_task =
        (plan->taps ? TAPS_WORK : TASK_WORK) /
        (plan->tiled ? plan->tile[0] * plan->tile[1] : plan->block);
    fewer_groups(plan);
}

/* Short rows that are not one dimension, such as the windows of a pooling: a
 * group takes the last dimensions whole, as many as fit `most` rows. */
static void take_box(cpu_plan *plan, int64_t most)
{
    const tn_launch *launch = plan->launch;
    uint32_t first = launch->outer_ndim;
    int64_t rows = 1;
    while (first > 0 && rows * launch->extent[first - 1] <= most)
        rows *= launch->extent[--first];
    if (rows < LEAST_COLUMNS)
        return;
    plan->columns = true;
    plan->box_first = first;
    plan->column_extent = rows;
}

/* Are all operands read by reductions alone, and lie one row after the other?
 * A group is then all the larger: memory is read without a stop. */
static bool folds_flat(const cpu_plan *plan, const cpu_code *code)
{
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const tn_kernel_operand *operand = &plan->built->operand[k];
        const cpu_view *view = &plan->view[k];
        if (operand->access == TN_OPERAND_READ &&
            operand->level == TN_LEVEL_ELEM &&
            (view->ndim != 1 || view->stride[0] != 1 ||
             !tn__cpu_is_as_stored(view->dtype)))
            return false;
    }
    return code->folds_loads && !plan->overlap;
}

/* Is all that it reads folded where it lies, of columns line by line? */
static bool folds_lines(const cpu_plan *plan, const cpu_code *code)
{
    for (uint32_t k = 0; k < plan->built->operand_count; k++)
        if (plan->built->operand[k].access == TN_OPERAND_READ &&
            plan->built->operand[k].level == TN_LEVEL_ELEM &&
            !tn__cpu_is_as_stored(plan->view[k].dtype))
            return code->folds_loads;
    return code->folds_loads || (code->folds_lines && !plan->overlap);
}

/* Of a group's slots. What is on its way past the caches lies in blocks of a
 * group, which are to be few. */
static int64_t rows_bytes(const cpu_plan *plan)
{
    bool many = plan->built->kept.segment_count > 0 && !plan->stream;
    return many ? NATIVE_ROWS * ROWS_BYTES : ROWS_BYTES;
}

/* How many neighbouring rows of an operand lie so that a block of them can be
 * left in memory: the same one again and again, or one behind the other. */
static int64_t rows_that_lie(const cpu_view *view, int64_t length)
{
    uint32_t last = view->ndim - 1;
    if (view->ndim < 2 || view->stride[last] != 1)
        return 0;
    if (view->extent[last] > length)
        return view->extent[last] / length;
    return view->stride[last - 1] == 0 ? view->extent[last - 1] : 0;
}

/* Groups end where these do, if that leaves enough to do. cdist of 512 rows of
 * 64 each, p = 1, took 2,460 us with a copy of both sides for each pair. */
static int64_t end_where_rows_do(const cpu_plan *plan, int64_t rows,
                                 int64_t length)
{
    enum { ENOUGH = 1024 };
    int64_t least = plan->row_count;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        int64_t lie = plan->built->operand[k].level == TN_LEVEL_ELEM
                          ? rows_that_lie(&plan->view[k], length)
                          : 0;
        if (lie * length >= ENOUGH && lie < least)
            least = lie;
    }
    int64_t pieces = (least + rows - 1) / rows;
    return least < plan->row_count && least % pieces == 0 ? least / pieces
                                                          : rows;
}

static void cut_rows(cpu_plan *plan)
{
    const cpu_code *kept = &plan->built->kept;
    int64_t length = plan->row_length > 0 ? plan->row_length : 1;
    plan->run = length;
    plan->column_extent = neighbours(plan);
    /* Rows too short for their lanes are better folded side by side, even if
     * they lie one after the other. */
    bool is_short = length > 1 && length <= SHORT_ROW;
    int64_t most = block_size(kept, true) / length;
    plan->columns = is_short ? plan->column_extent >= 64
                             : wants_columns(plan) && plan->column_extent >= 4;
    plan->box_first = plan->launch->outer_ndim;
    if (is_short && !plan->columns)
        take_box(plan, most < LEAST_COLUMNS ? LEAST_COLUMNS : most);
    /* With one stage nothing is computed twice by streaming. */
    bool flat = !plan->columns && folds_flat(plan, kept);
    int64_t each = kept->group_bytes + 1;
    if (plan->columns) /* their blocks are whole groups */
        each += kept->elem_bytes;
    most = kept->stage_count > 1 ? KEPT_BYTES / each
           : flat                ? FOLD_BLOCK
                                 : 1024;
    int64_t least_rows = plan->columns ? LEAST_COLUMNS : 1;
    bool fits = length * least_rows <= most;
    int64_t rows = flat            ? FOLD_BLOCK
                   : plan->columns ? block_size(kept, true)
                                   : rows_bytes(plan) / slot_bytes(kept, true);
    rows /= length;
    plan->line = tn__cpu_row_lines(plan, shortest_run(plan));
    plan->past_lines = plan->line > 0 && tn__cpu_lines_go_past(plan);
    fits = fits && plan->line == 0;
    plan->code = fits             ? kept
                 : plan->line > 0 ? tn__cpu_lined_code(plan->built)
                                  : &plan->built->streamed;
    plan->kept = fits && (plan->columns || rows > 0);
    if (plan->kept && !plan->columns)
        rows = end_where_rows_do(plan, rows, length);
    if (plan->kept)
        plan->group_rows = rows < least_rows ? least_rows : rows;
    else
        plan->group_rows =
            !plan->columns ? 1 : folds_lines(plan, plan->code) ? 1024 : 256;
    int64_t across = plan->columns ? plan->column_extent : plan->row_count;
    plan->group_rows = tn__cpu_min(plan->group_rows, across);
    plan->group_count =
        (across + plan->group_rows - 1) / plan->group_rows *
        (plan->columns ? plan->row_count / plan->column_extent : 1);
    if (plan->kept) {
        plan->block = plan->group_rows * length;
    } else if (plan->columns) {
        int64_t steps = (folds_lines(plan, plan->code) ? 65536 : 2048) /
                        plan->group_rows / TN_LANES;
        plan->block = plan->group_rows * TN_LANES * (steps < 1 ? 1 : steps);
    } else {
        plan->block = flat ? 4 * FOLD_BLOCK : streamed_block(plan->code);
        int64_t run = shortest_run(plan), most_run = 2 * plan->block;
        if (run >= TN_CPU_LEAST_RUN && length % run == 0)
            plan->run = run;
        if (plan->run < length && plan->run <= most_run)
            plan->block = (plan->run + TN_CHUNK - 1) / TN_CHUNK * TN_CHUNK;
    }
    plan->groups_per_task = TASK_WORK / (plan->group_rows * length);
    fewer_groups(plan);
    if (plan->groups_per_task < plan->group_count / MOST_TASKS)
        plan->groups_per_task = plan->group_count / MOST_TASKS;
}

/* ---- tasks ------------------------------------------------------------- */

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* By how many bytes folds ask for memory. Sums of rows that the last cache has
 * took 40.5 us of 4 MiB with 6 KiB and 41 to 43 with 12 to 24, 82 and 84 to 88
 * of 8; of 16 MiB, which it has some of, 212 and 184 to 192, of 32 638 and 601
 * to 615 (Zen 5). Where 64 bytes pass in halves the processor asks early enough
 * itself, and more is in its way: sums of 4 MiB from the last cache took 46 us
 * with nothing asked for or what comes next, and 47 to 57 with 1 KiB to 12
 * (Zen 4). Where stages follow they ask themselves, and what they read again
 * would leave the first cache. */
static int64_t fold_ahead(const cpu_plan *plan)
{
    enum { NEXT = 128, NEAR = 6144, FAR = 16384, MUCH = 12 << 20 };
    int64_t bytes = 0;
    for (uint32_t k = 0; k < plan->built->operand_count; k++)
        if (plan->built->operand[k].access == TN_OPERAND_READ)
            bytes += plan->view[k].bytes;
    return plan->code->stage_count > 1                         ? 0
           : plan->routines->halves                            ? NEXT
           : bytes * plan->row_count * plan->row_length > MUCH ? FAR
                                                               : NEAR;
}

bool tn__cpu_task_init(cpu_task *task, cpu_plan *plan)
{
    const cpu_code *code = plan->code;
    size_t slots = code->slot_count + 1u;
    size_t block = round_up((size_t)plan->block);
    size_t group = round_up((size_t)(plan->group_rows * plan->row_length));
    group = code->group_bytes > 0 ? group : 0;
    size_t rows = round_up((size_t)plan->group_rows);
    size_t folds = code->reduce_count;
    size_t views =
        plan->columns || plan->tiled || plan->hoist
            ? plan->built->operand_count
            : 0;
    size_t fold_bytes =
        tn__cpu_fold_bytes(code, plan->group_rows, plan->columns);
    size_t later_bytes = round_up((size_t)plan->later_bytes);
    size_t taps_bytes = round_up(tn__cpu_taps_bytes(plan));
    size_t chunks = folds > 0 && plan->line > 0 ? TN_CPU_CHUNKS_BYTES : 0;

    char *memory = tn__cpu_scratch(
        round_up(5 * slots * sizeof(char *)) +
        round_up(folds * sizeof(cpu_fold)) +
        round_up(views * sizeof(cpu_view)) + 8 * block +
        block * code->elem_bytes + group * code->group_bytes +
        rows * code->row_bytes + round_up(fold_bytes) +
        plan->laters * later_bytes + taps_bytes + chunks);
    if (!memory) {
        atomic_store(&plan->failed, TN_ERR_MEMORY);
        return false;
    }
    *task = (cpu_task){.plan = plan, .code = code,
                       .routines = plan->routines, .view = plan->view,
                       .columns = plan->columns, .rows = 1,
                       .later_slot = TN_CPU_NONE, .box_outer = -1};
    task->slot = (char **)memory;
    task->home = task->slot + slots;
    task->past = task->home + slots;
    task->base = task->past + slots;
    task->step = (int64_t *)(task->base + slots);
    memory += round_up(5 * slots * sizeof(char *));
    task->fold = (cpu_fold *)memory;
    memory += round_up(folds * sizeof(cpu_fold));
    if (views > 0)
        task->own_view = (cpu_view *)memory;
    memory += round_up(views * sizeof(cpu_view));
    task->temporary = memory;
    memory += 8 * block;
    task->chunks = memory;
    memory += chunks;
    tn__cpu_taps_place(task, memory);
    memory += taps_bytes;
    char *elem = memory, *whole = elem + block * code->elem_bytes;
    char *row = whole + group * code->group_bytes;
    char *fold = row + rows * code->row_bytes;
    if (folds > 0)
        tn__cpu_fold_place(task->fold, code, plan->group_rows, plan->columns,
                           fold_ahead(plan), fold);
    for (uint32_t i = 0; i < plan->laters; i++)
        task->later[i].room = fold + round_up(fold_bytes) + i * later_bytes;
    if (plan->shared_rows)
        row = plan->shared_rows;
    for (uint32_t s = 0; s < code->slot_count; s++) {
        const cpu_slot *slot = &code->slot[s];
        char *at = NULL;
        if (slot->space == CPU_CONSTANT)
            at = (char *)code->constant + slot->offset;
        else if (slot->space == CPU_UNIFORM)
            at = plan->uniform + slot->offset;
        else if (slot->space == CPU_ROW)
            at = row + slot->offset * rows;
        else if (slot->space == CPU_ELEM)
            at = elem + slot->offset * block;
        else if (slot->space == CPU_GROUP)
            at = whole + slot->offset * group;
        task->slot[s] = task->home[s] = task->base[s] = at;
        task->past[s] = NULL;
    }
    return true;
}

void tn__cpu_task_group(cpu_task *task, int64_t group)
{
    cpu_plan *plan = task->plan;
    if (!plan->columns) {
        task->first_row = group * plan->group_rows;
        task->rows =
            tn__cpu_min(plan->group_rows, plan->row_count - task->first_row);
        task->by_rows = task->rows == 1 || plan->row_length >= LONG_ROW;
        task->group_at = task->first_row * plan->row_length;
        task->group_count = task->rows * plan->row_length;
        return;
    }
    int64_t tiles =
        (plan->column_extent + plan->group_rows - 1) / plan->group_rows;
    int64_t column = group % tiles * plan->group_rows;
    task->rows = tn__cpu_min(plan->group_rows, plan->column_extent - column);
    task->by_lines = task->rows >= LONG_ROW;
    task->first_row = group / tiles * plan->column_extent + column;
    task->group_at = 0;
    task->group_count = task->rows * plan->row_length;

    const tn_launch *launch = plan->launch;
    uint32_t outer = launch->outer_ndim, inner = outer;
    while (inner > 0 && launch->extent[inner - 1] == 1)
        inner--;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const int64_t *stride = launch->operand[k].stride;
        cpu_view *view = &task->own_view[k];
        tn__cpu_view_init(view, &plan->built->operand[k],
                          &launch->operand[k]);
        int64_t left = task->first_row, offset = 0;
        for (uint32_t d = outer; d-- > 0; left /= launch->extent[d])
            offset += left % launch->extent[d] * stride[d];
        tn__cpu_view_move(view, offset);
        for (uint32_t d = outer; d < outer + launch->row_ndim; d++)
            tn__cpu_view_push(view, launch->extent[d], stride[d]);
        for (uint32_t d = plan->box_first; d < outer; d++)
            tn__cpu_view_push(view, launch->extent[d], stride[d]);
        if (plan->box_first == outer)
            tn__cpu_view_push(view, task->rows, stride[inner - 1]);
    }
    task->view = task->own_view;
}

static void run_group_kept(cpu_task *task)
{
    const cpu_plan *plan = task->plan;
    task->at = task->group_at;
    task->count = task->group_count;
    for (uint32_t s = 0; s < plan->code->stage_count; s++) {
        const cpu_stage *stage = &plan->code->stage[s];
        if (task->count > 0)
            tn__cpu_run_part(task, stage->elem, CPU_ELEM);
        else
            for (uint32_t i = 0; i < stage->reduce_count; i++) {
                const cpu_reduce *reduce =
                    &plan->code->reduce[stage->reduce_first + i];
                cpu_fold *fold = &task->fold[stage->reduce_first + i];
                tn__cpu_fold_begin(fold);
                tn__cpu_fold_end(fold, reduce, plan->routines, task->rows,
                                 task->slot[reduce->out]);
            }
        tn__cpu_run_part(task, stage->row, CPU_ROW);
    }
}

/* Can what is left of a streamed row from k on go by lines? Folds take cut
 * ones; what is on its way past the caches has blocks of its own, unless it
 * goes as it is made. */
static int64_t lines_at(const cpu_plan *plan, const cpu_stage *stage, int64_t k,
                        int64_t end)
{
    bool able = stage->reduce_count > 0 ||
                ((!plan->stream || plan->past_lines) && plan->line > 0 &&
                 k % plan->line == 0 && end - k >= plan->line);
    return able ? plan->line : 0;
}

void tn__cpu_task_stream(cpu_task *task, const cpu_stage *stage,
                         int64_t first, int64_t end)
{
    const cpu_plan *plan = task->plan;
    int64_t step = plan->columns ? plan->block / plan->group_rows
                                 : plan->block;
    /* Folds go chunk by chunk; the others take what has a value for each
     * channel, say, channel by channel. */
    int64_t run = stage->reduce_count > 0 ? end : plan->run;
    int64_t pieces = (run + step - 1) / step;
    if (run < plan->row_length && stage->reduce_count == 0)
        step = ((run + pieces - 1) / pieces + 15) / 16 * 16;
    task->again = stage != plan->code->stage && plan->row_length < AGAIN;
    for (uint32_t i = 0; i < stage->reduce_count; i++)
        tn__cpu_fold_begin(&task->fold[stage->reduce_first + i]);
    for (int64_t k = first, n; k < end && stage->elem.count > 0; k += n) {
        n = tn__cpu_min(step, tn__cpu_min(end, (k / run + 1) * run) - k);
        task->line = lines_at(plan, stage, k, end);
        if (task->line > 0)
            n = stage->reduce_count > 0 ? end - k
                                        : (end - k) / task->line * task->line;
        task->first_elem = k;
        task->at = task->group_at + k * task->rows;
        task->count = n * task->rows;
        tn__cpu_run_part(task, stage->elem, CPU_ELEM);
    }
    task->line = 0;
}

static void run_group_streamed(cpu_task *task)
{
    const cpu_plan *plan = task->plan;
    for (uint32_t s = 0; s < plan->code->stage_count; s++) {
        const cpu_stage *stage = &plan->code->stage[s];
        tn__cpu_task_stream(task, stage, 0, plan->row_length);
        for (uint32_t i = 0; i < stage->reduce_count; i++) {
            uint32_t number = stage->reduce_first + i;
            const cpu_reduce *reduce = &plan->code->reduce[number];
            tn__cpu_fold_end(&task->fold[number], reduce, plan->routines,
                             task->rows, task->slot[reduce->out]);
        }
        tn__cpu_run_part(task, stage->row, CPU_ROW);
    }
}

static void run_task(void *context, int64_t i)
{
    cpu_plan *plan = context;
    cpu_task task;
    unsigned fpu = tn__cpu_fpu_set();
    if (tn__cpu_task_init(&task, plan)) {
        int64_t first = i * plan->groups_per_task;
        int64_t end =
            tn__cpu_min(first + plan->groups_per_task, plan->group_count);
        for (int64_t g = first; g < end; g++) {
            if (plan->tiled || plan->hoist) {
                (plan->hoist ? tn__cpu_task_shared : tn__cpu_task_tile)(&task,
                                                                        g);
                if (!plan->taps || !tn__cpu_run_taps(&task))
                    tn__cpu_run_part(&task, plan->code->stage[0].elem,
                                     CPU_ELEM);
                continue;
            }
            if (!plan->built->has_rows) {
                int64_t in_run = g % plan->run_blocks * plan->block;
                task.at = g / plan->run_blocks * plan->run + in_run;
                task.count = tn__cpu_min(plan->block, plan->run - in_run);
                if (plan->line > 0) {
                    task.columns = task.by_lines = true;
                    task.rows = plan->line;
                }
                tn__cpu_run_part(&task, plan->code->stage[0].elem, CPU_ELEM);
                continue;
            }
            tn__cpu_task_group(&task, g);
            if (plan->kept)
                run_group_kept(&task);
            else
                run_group_streamed(&task);
        }
        tn__cpu_run_end(&task);
    }
    tn__cpu_fpu_restore(fpu);
}

/* ---- the launch -------------------------------------------------------- */

static tn_status run_plan(cpu_plan *plan)
{
    char small[4096], *big = NULL;
    size_t slots = plan->code->slot_count + 1u;
    size_t bytes = slots * sizeof(char *) + plan->code->uniform_bytes;
    if (bytes > sizeof small && !(big = malloc(bytes)))
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "launch: out of memory for %zu bytes", bytes);
    char *memory = big ? big : small;
    plan->uniform = memory + slots * sizeof(char *);
    cpu_task task = {.plan = plan, .code = plan->code,
                     .routines = plan->routines, .rows = 1,
                     .slot = (char **)memory, .home = (char **)memory};
    for (uint32_t s = 0; s < plan->code->slot_count; s++) {
        const cpu_slot *slot = &plan->code->slot[s];
        char *at = NULL; /* rows and elements: not in this part */
        if (slot->space == CPU_CONSTANT)
            at = (char *)plan->code->constant + slot->offset;
        else if (slot->space == CPU_UNIFORM)
            at = plan->uniform + slot->offset;
        task.slot[s] = at;
    }
    tn__cpu_run_part(&task, plan->code->uniform, CPU_UNIFORM);

    if (plan->groups_per_task < 1)
        plan->groups_per_task = 1;
    int64_t tasks = (plan->group_count + plan->groups_per_task - 1) /
                    plan->groups_per_task;
    if (tn__cpu_wants_split(plan))
        tn__cpu_run_split(plan);
    else if (tasks == 1)
        run_task(plan, 0);
    else
        tn__cpu_host->parallel_for(tasks, run_task, plan);
    free(big);
    if (atomic_load(&plan->failed))
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "launch: no memory for a thread's blocks, "
                                  "or to run code in");
    return plan->fault.code == TN_OK ? TN_OK
                                     : tn__cpu_fault_raise(&plan->fault);
}

tn_status tn__cpu_launch(tn_queue *queue, tn_built *built,
                         const tn_launch *launch)
{
    (void)queue;
    if (built->direct.run && tn__cpu_launch_direct(built, launch))
        return TN_OK;
    if (built->is_copy && tn__cpu_launch_copy(built, launch))
        return TN_OK;
    if (built->runs.count && tn__cpu_launch_runs(built, launch))
        return TN_OK;
    tn_status taken;
    if (built->is_take && tn__cpu_launch_take(built, launch, &taken))
        return taken;
    if (built->row_taps.is_row &&
        tn__cpu_launch_row_taps(built, launch, &taken))
        return taken;
    if (built->taps.count && tn__cpu_launch_taps_along(built, launch))
        return TN_OK;
    cpu_plan plan;
    cpu_hoist hoist;
    plan.built = built;
    plan.launch = launch;
    plan.routines = built->routines;
    plan.shared_rows = NULL;
    plan.hoist = NULL;
    plan.columns = plan.tiled = plan.taps = false;
    plan.column_extent = 1;
    plan.row_count = tn__cpu_product(launch->extent, launch->outer_ndim);
    plan.row_length = tn__cpu_product(launch->extent + launch->outer_ndim,
                                      launch->row_ndim);
    if (plan.row_count == 0 || (!built->has_rows && plan.row_length == 0))
        return TN_OK;
    atomic_init(&plan.failed, TN_OK);
    atomic_flag_clear(&plan.fault_lock);
    plan.fault.code = TN_OK;
    plan_views(&plan);
    find_overlap(&plan);
    plan.stream = wants_stream(&plan);
    plan.ahead = asks_ahead(&plan);
    if (built->has_rows)
        cut_rows(&plan);
    else
        cut_elements(&plan, &hoist);
    plan.piece = plan.code->stage_count > 1 ? STAGED_BYTES
                 : plan.in_place            ? even_piece(&plan)
                 : plan.stream              ? PAST_BYTES
                                            : 0;
    plan.laters = 0;
    plan.later_bytes = 0;
    if (plan.stream) {
        plan_later(&plan);
        if (plan.groups_per_task < plan.group_count / STREAM_TASKS)
            plan.groups_per_task = plan.group_count / STREAM_TASKS;
    }
    unsigned fpu = tn__cpu_fpu_set();
    tn_status status = run_plan(&plan);
    tn__cpu_fpu_restore(fpu);
    return status;
}
