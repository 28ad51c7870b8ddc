/* cut_plan.c: decides how a launch is cut into groups and tasks. The cut
 * depends on the shape alone, so results do not depend on the number of
 * threads.
 *
 * A group is a set of rows, or of elements if the program has no reductions. If
 * a group's rows fit a block, each value is computed once for all stages: the
 * rows are "kept". Longer rows are "streamed": each stage passes over the row
 * block by block. If the elements of adjacent rows are contiguous in memory (as
 * in a sum over the first dimension), a group is a set of columns. A few very
 * long rows are split among threads (split_rows.c). A run is a sequence of
 * points along which every operand has one stride. */
#include <stdlib.h>

#include "../jit/native_run.h"
#include "../paths/taps.h"
#include "plan.h"
#include "tuning.h"

/* ---- views --------------------------------------------------------------- */

/* Initialises two views of each operand: view[], over all elements, and
 * row_view[], over rows. */
static void plan_views(cpu_plan *plan)
{
    const tn_built *built = plan->built;
    const tn_launch *launch = plan->launch;
    uint32_t outer = launch->outer_ndim, ndim = outer + launch->row_ndim;
    for (uint32_t k = 0; k < built->operand_count; k++) {
        const int64_t *stride = launch->operand[k].stride;
        cpu_view *view = &plan->view[k];
        tn__cpu_view_init(view, &built->operand[k], &launch->operand[k]);
        if (built->has_rows) /* Initialised a second time. A copy of *view would
                              * wait until its stores, which have just been
                              * issued, are complete. */
            tn__cpu_view_init(&plan->row_view[k], &built->operand[k],
                              &launch->operand[k]);
        for (uint32_t d = 0; d < ndim; d++)
            tn__cpu_view_push(view, launch->extent[d], stride[d]);
        for (uint32_t d = 0; built->has_rows && d < outer; d++)
            tn__cpu_view_push(&plan->row_view[k], launch->extent[d],
                              stride[d]);
    }
}

/* Returns whether two views have the same elements in the same order. */
static bool same_points(const cpu_view *a, const cpu_view *b)
{
    bool same = a->ndim == b->ndim && a->dtype == b->dtype;
    for (uint32_t d = 0; same && d < a->ndim; d++)
        same = a->extent[d] == b->extent[d] && a->stride[d] == b->stride[d];
    return same;
}

/* Sets in_place if an output begins at the address of an input: the two are
 * then the same memory. Scalars per row, which are few, do not count. Sets overlap
 * if the program reads that input after it writes the output. Loads must then copy.
 * Scalars per row are not read after they are written if their loads copy, which
 * `copied` says. */
static void find_overlap(cpu_plan *plan)
{
    const tn_built *built = plan->built;
    plan->in_place = plan->overlap = false;
    plan->copied = 0;
    for (uint32_t w = 0; w < built->operand_count; w++)
        for (uint32_t r = 0; built->operand[w].access == TN_OPERAND_WRITE &&
                             r < built->operand_count;
             r++) {
            const cpu_view *from = &plan->view[r], *to = &plan->view[w];
            if (built->operand[r].access != TN_OPERAND_READ ||
                from->base != to->base)
                continue;
            /* An element that each row reads, such as a bias that an optimizer
             * updates, is stored after the row. */
            const bool stores_rows =
                built->has_rows && built->operand[w].level == TN_LEVEL_ROW;
            plan->in_place |= !stores_rows;
            if (!same_points(from, to))
                plan->overlap = true;
            else if (stores_rows && built->operand[r].level == TN_LEVEL_ROW) {
                if (built->row_read_after_write[w] >> r & 1)
                    plan->overlap = true;
                else
                    plan->copied |= UINT32_C(1) << r;
            } else if (built->read_after_write[w] >> r & 1)
                plan->overlap = true;
        }
}

/* Returns whether results use non-temporal stores, which do not read a cache
 * line before they overwrite it. Such stores are faster if the results have at
 * least stream_bytes bytes, so that no cache would hold them for the next
 * reader.
 * - In a program of several stages half of stream_bytes is enough, because
 *   memory would idle during stages that do not store.
 * - In machine code half is enough, because it stores while it computes.
 * - If both hold, a quarter is enough: softmax of 2048 x 1024 takes 0.54 ms
 *   instead of 0.72 (Zen 5, 2026-11). */
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

/* Returns whether each block prefetches the next one. Prefetching is faster if
 * the launch has more data than an L2 holds. Some processor families are faster
 * without prefetches in programs of one stage that update in place. */
static bool wants_prefetch(const cpu_plan *plan)
{
    bool useless = !plan->routines->family->prefetches_in_place &&
                   plan->in_place && plan->built->kept.stage_count == 1;
    return !useless &&
           plan->row_count * plan->row_length >= TN_CPU_PREFETCH_FROM;
}

/* Chooses the number and size of the buffers for results whose stores are
 * deferred. In a program of one stage the buffers hold the results of the
 * previous block. The stores of these results are issued while the next block
 * is computed. In a program of several stages they hold the results of a
 * group's last stage. */
static void plan_stream_blocks(cpu_plan *plan)
{
    int64_t blocks = 2, bytes = 0;
    for (uint32_t k = 0; k < plan->built->operand_count; k++)
        if (plan->built->operand[k].access == TN_OPERAND_WRITE &&
            plan->view[k].bytes > bytes)
            bytes = plan->view[k].bytes;
    if (plan->code->stage_count > 1)
        blocks =
            plan->kept ? 1 : (plan->row_length + plan->block - 1) / plan->block;
    plan->traffic.block_bytes = bytes * plan->block;
    blocks = tn__cpu_min(blocks,
                         TN_CPU_STREAM_BLOCK_BYTES / plan->traffic.block_bytes);
    plan->traffic.blocks = (uint32_t)tn__cpu_min(blocks, TN_CPU_STREAM_BLOCKS);
    plan->traffic.block_bytes =
        plan->traffic.blocks > 0 ? plan->traffic.block_bytes : 0;
}

/* ---- cutting the space --------------------------------------------------- */

/* Returns the number of consecutive rows that have one stride from row to row
 * in every operand. It is the extent of those innermost outer dimensions that
 * can be merged to one. */
static int64_t adjacent_rows(const cpu_plan *plan)
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

/* Returns whether rows are processed as columns. Each input counts for columns
 * if its stride between adjacent rows is smaller than its stride between a
 * row's elements. Inputs with a stride of 0 have little memory, so they decide
 * only if no other input does. */
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

/* Returns the block size, a multiple of TN_CHUNK elements, for rows that are
 * too long for one block. In programs of several stages the values of a block
 * may exceed L1 and stay in L2, because smaller blocks would mean more calls of
 * routines. group_norm of 16 x 64 x 56 x 56 takes 1.23 ms in blocks of 1024
 * elements, 0.97 ms in blocks of 4096 and 1.05 ms in blocks of 8192 (Zen 5,
 * 2026-11). */
static int64_t streamed_block(const cpu_code *code)
{
    int64_t bytes =
        code->stage_count > 1 ? TN_CPU_ROWS_BYTES : TN_CPU_BLOCK_BYTES;
    int64_t count =
        bytes / tn__cpu_slot_bytes(code, true) / TN_CHUNK * TN_CHUNK;
    return count < TN_CHUNK ? TN_CHUNK : count > 4096 ? 4096 : count;
}

/* Returns the length, in elements, of the shortest contiguous run: a sequence
 * of points along which an operand has one stride. */
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

/* Machine code can process several contiguous runs (sequences of points in
 * which every operand has one stride) in one call. Puts several short runs into
 * one block, as its rows. Returns false if the operands do not allow it. In
 * batch_norm_eval of 16 x 64 x 56 x 56 a run has so few elements that starting
 * a block takes as long as computing a run. */
static bool merge_runs(cpu_plan *plan)
{
    enum { MOST = 32768 };
    const cpu_code *code = plan->code;
    int64_t runs = plan->row_count * plan->row_length / plan->run.length;
    int64_t lines = tn__cpu_min(MOST / plan->run.length, runs);
    bool able = code->segment_count > 0 && plan->run.blocks == 1 && lines > 1;
    while (able && runs % lines != 0)
        lines--;
    for (uint32_t i = 0; able && i < code->op_count; i++)
        able = code->op[i].code != CPU_LOAD || code->op[i].a == TN_CPU_NONE;
    for (uint32_t k = 0; able && k < plan->built->operand_count; k++) {
        const cpu_view *view = &plan->view[k];
        if (view->ndim < 2)
            continue;
        able = view->extent[view->ndim - 1] == plan->run.length;
        while (able && view->extent[view->ndim - 2] % lines != 0)
            lines--;
    }
    if (!able || lines < 2)
        return false;
    plan->subrow = plan->run.length;
    plan->run.length *= lines;
    plan->block = plan->run.length;
    return true;
}

/* Cuts each run (a sequence of points in which every operand has one stride)
 * into blocks of about the same length. No block crosses the end of a run, so
 * blocks can read operands in place. */
static void cut_runs(cpu_plan *plan)
{
    plan->subrow = 0;
    int64_t total = plan->row_count * plan->row_length;
    plan->run.length = shortest_run(plan);
    plan->run.blocks = (plan->run.length + plan->block - 1) / plan->block;
    if (plan->run.length < TN_CPU_LONG_ROW || !merge_runs(plan)) {
        if (plan->run.length < TN_CPU_MIN_RUN)
            plan->run.length = total;
        plan->run.blocks = (plan->run.length + plan->block - 1) / plan->block;
        if (plan->run.length < total)
            plan->block = tn__cpu_min(
                plan->block, (plan->run.length + plan->run.blocks * 16 - 1) /
                                 plan->run.blocks / 16 * 16);
    }
    plan->groups.count = total / plan->run.length * plan->run.blocks;
}

/* Tasks should take similar times. Makes tasks four times smaller if computing
 * an element is much work, and sixteen times smaller if it is very much, such
 * as several mathematical functions. */
static void shrink_tasks(cpu_plan *plan)
{
    enum { MORE = 16, MUCH = 40 };
    if (plan->code->work > MORE)
        plan->groups.per_task = (plan->groups.per_task + 3) / 4;
    if (plan->code->work > MUCH)
        plan->groups.per_task = (plan->groups.per_task + 3) / 4;
}

/* Returns whether an in-place update reads more arrays than the hardware
 * prefetcher follows. Operands that are broadcast stay in the cache. */
static bool reads_many_arrays(const cpu_plan *plan)
{
    enum { GUESSED = 2 };
    int arrays = 0;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const cpu_view *view = &plan->view[k];
        bool whole = plan->built->operand[k].access == TN_OPERAND_READ;
        for (uint32_t d = 0; d < view->ndim && whole; d++)
            whole = view->stride[d] != 0;
        arrays += whole;
    }
    return arrays > GUESSED;
}

/* Returns how many bytes to prefetch before each operation of an in-place
 * update that reads many arrays. The whole next block is prefetched, in equal
 * parts before each operation. Adam on four tensors of 4 MiB takes 2.6 ms with as many bytes
 * as returned here, 4.7 ms with half as many, 3.4 ms with twice as many and 4.4
 * ms with none (Zen 5, 2026-11). The hardware prefetcher follows two arrays, so
 * updates of two need no prefetches. */
static int64_t even_prefetch(const cpu_plan *plan)
{
    enum { LINE = 64 };
    const int64_t operations = plan->code->stage[0].elem.count;
    if (!reads_many_arrays(plan) || operations == 0)
        return 0;
    return (plan->block * 4 / operations + LINE - 1) / LINE * LINE;
}

/* Cuts an elementwise launch in one of three ways: into blocks that share
 * indices (hoist.c), into tiles (tile.c), or into blocks of contiguous runs. */
static void cut_elements(cpu_plan *plan, cpu_hoist *hoist)
{
    plan->code = &plan->built->kept;
    plan->kept = true;
    plan->groups.rows = 1;
    plan->block = tn__cpu_block_size(plan->code, false);
    if (plan->code->segment_count > 0)
        plan->block = tn__cpu_native_takes_subrows(plan->code)
                          ? TN_CPU_NATIVE_ALONE
                          : TN_CPU_NATIVE_BLOCK;
    if (plan->in_place && plan->traffic.ahead &&
        plan->block > TN_CPU_IN_PLACE_BLOCK && reads_many_arrays(plan))
        plan->block = TN_CPU_IN_PLACE_BLOCK;
    if (!tn__cpu_cut_shared(plan, hoist)) {
        plan->tiled = tn__cpu_cut_tiles(plan);
        if (!plan->tiled)
            cut_runs(plan);
    }
    plan->taps = tn__cpu_taps_shared(plan);
    plan->groups.per_task =
        (plan->taps ? TN_CPU_TAPS_WORK : TN_CPU_TASK_WORK) /
        (plan->tiled ? plan->tile.extent[0] * plan->tile.extent[1]
                     : plan->block);
    shrink_tasks(plan);
}

/* Sets the box of a launch with columns (struct cpu_plan): all points of the
 * innermost outer dimensions, as many dimensions as together have at most
 * `most` points. A group of columns is then cut from the box. This is for short
 * rows whose outer dimensions do not merge, such as pooling windows. Does
 * nothing if the box would have few rows. */
static void take_box(cpu_plan *plan, int64_t most)
{
    const tn_launch *launch = plan->launch;
    uint32_t first = launch->outer_ndim;
    int64_t rows = 1;
    while (first > 0 && rows * launch->extent[first - 1] <= most)
        rows *= launch->extent[--first];
    if (rows < TN_CPU_LEAST_COLUMNS)
        return;
    plan->columns = true;
    plan->groups.box_first = first;
    plan->groups.column_extent = rows;
}

/* Returns whether the program only reduces its operands and all operands are
 * contiguous. Groups may then be large, since they need no memory for
 * values. */
static bool reduces_contiguous(const cpu_plan *plan, const cpu_code *code)
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

/* Returns whether columns are reduced without storing intermediate values. This
 * is so if the program only loads and reduces, or if its reductions read the
 * factors of products from the tensors' memory. Groups and blocks may then be
 * larger. */
static bool folds_columns(const cpu_plan *plan, const cpu_code *code)
{
    for (uint32_t k = 0; k < plan->built->operand_count; k++)
        if (plan->built->operand[k].access == TN_OPERAND_READ &&
            plan->built->operand[k].level == TN_LEVEL_ELEM &&
            !tn__cpu_is_as_stored(plan->view[k].dtype))
            return code->folds_loads;
    return code->folds_loads || (code->folds_columns && !plan->overlap);
}

/* Returns the largest number of bytes that the values of a group of rows may
 * take. With deferred stores it is small, because the group's results wait in
 * buffers. */
static int64_t rows_bytes(const cpu_plan *plan)
{
    bool many = plan->built->kept.segment_count > 0 && !plan->traffic.stream;
    return many ? TN_CPU_NATIVE_ROWS * TN_CPU_ROWS_BYTES : TN_CPU_ROWS_BYTES;
}

/* Returns how many adjacent rows of an operand can be read in place as one
 * block, because they are contiguous or the same row. */
static int64_t contiguous_rows(const cpu_view *view, int64_t length)
{
    uint32_t last = view->ndim - 1;
    if (view->ndim < 2 || view->stride[last] != 1)
        return 0;
    if (view->extent[last] > length)
        return view->extent[last] / length;
    return view->stride[last - 1] == 0 ? view->extent[last - 1] : 0;
}

/* Returns the number of rows of a group, at most `rows`. Chooses it so that a
 * group ends where the contiguous rows of an operand end. The group then reads
 * the operand in place. Returns `rows` if groups would become too small.
 * Without this, cdist of 512 rows of 64 elements, p = 1, would take 2,460 us,
 * because it would copy both operands for each pair of rows. */
static int64_t align_to_contiguous_rows(const cpu_plan *plan, int64_t rows,
                                        int64_t length)
{
    enum { ENOUGH = 1024 };
    int64_t least = plan->row_count;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        int64_t contiguous = plan->built->operand[k].level == TN_LEVEL_ELEM
                                 ? contiguous_rows(&plan->view[k], length)
                                 : 0;
        if (contiguous * length >= ENOUGH && contiguous < least)
            least = contiguous;
    }
    int64_t pieces = (least + rows - 1) / rows;
    return least < plan->row_count && least % pieces == 0 ? least / pieces
                                                          : rows;
}

/* Returns whether columns are streamed although they fit a block. A "kept"
 * block of columns is a copy of the operands, since later stages read it.
 * Streamed columns are read in place, in each stage again. That is faster if no
 * stage then computes much again, such as a function. batch_norm of 256 x 1024
 * with its gradients takes 306 us streamed and 414 us kept, softmax of 64
 * columns with its gradient 1.53 ms and 1.34 ms (Zen 5, 2026-11). */
static bool reads_columns_again(const cpu_plan *plan)
{
    enum { FEW = 4 };
    return plan->built->kept.stage_count > 1 &&
           plan->groups.column_extent >= TN_CPU_LONG_ROW &&
           plan->built->streamed.work <= plan->built->kept.work + FEW;
}

/* Cuts a launch of a program with reductions or several stages into groups of
 * rows. */
static void cut_rows(cpu_plan *plan)
{
    const cpu_code *kept = &plan->built->kept;
    int64_t length = plan->row_length > 0 ? plan->row_length : 1;
    plan->run.length = length;
    plan->groups.column_extent = adjacent_rows(plan);
    /* A short row does not fill the lanes of a vector. Therefore many short
     * rows are reduced at once, as columns, even if each row is contiguous. */
    bool is_short = length > 1 && length <= TN_CPU_SHORT_ROW;
    int64_t most = tn__cpu_block_size(kept, true) / length;
    plan->columns =
        is_short ? plan->groups.column_extent >= 64
                 : wants_columns(plan) && plan->groups.column_extent >= 4;
    plan->groups.box_first = plan->launch->outer_ndim;
    if (is_short && !plan->columns)
        take_box(plan,
                 most < TN_CPU_LEAST_COLUMNS ? TN_CPU_LEAST_COLUMNS : most);
    bool flat = !plan->columns && reduces_contiguous(plan, kept);
    int64_t each = kept->group_bytes + 1;
    if (plan->columns) /* a block of columns is a whole group */
        each += kept->elem_bytes;
    /* Rows of more than `most` elements are processed block by block, once for
     * each stage (streamed). In a program of one stage the limit is low,
     * because nothing is then computed twice. */
    most = kept->stage_count > 1 ? TN_CPU_KEPT_BYTES / each
           : flat                ? TN_CPU_FOLD_BLOCK
                                 : 1024;
    int64_t least_rows = plan->columns ? TN_CPU_LEAST_COLUMNS : 1;
    bool fits = length * least_rows <= most &&
                !(plan->columns && !is_short && reads_columns_again(plan));
    int64_t rows = flat ? TN_CPU_FOLD_BLOCK
                   : plan->columns && is_short
                       ? tn__cpu_block_size(kept, true)
                       : rows_bytes(plan) / tn__cpu_slot_bytes(kept, true);
    rows /= length;
    if (plan->columns && !is_short && rows > TN_CPU_LONG_ROW)
        rows -= rows % TN_CPU_LONG_ROW; /* a multiple of the vector length,
                                         * since a vector holds the same element
                                         * of adjacent rows */
    plan->subrow = tn__cpu_subrow_length(plan, shortest_run(plan));
    plan->traffic.stream_subrows =
        plan->subrow > 0 && tn__cpu_subrows_can_stream(plan);
    fits = fits && plan->subrow == 0;
    plan->code = fits               ? kept
                 : plan->subrow > 0 ? tn__cpu_subrow_code(plan->built)
                                    : &plan->built->streamed;
    plan->kept = fits && (plan->columns || rows > 0);
    if (plan->kept && !plan->columns)
        rows = align_to_contiguous_rows(plan, rows, length);
    if (plan->kept)
        plan->groups.rows = rows < least_rows ? least_rows : rows;
    else
        plan->groups.rows = !plan->columns                    ? 1
                            : folds_columns(plan, plan->code) ? 1024
                                                              : 256;
    int64_t across =
        plan->columns ? plan->groups.column_extent : plan->row_count;
    plan->groups.rows = tn__cpu_min(plan->groups.rows, across);
    plan->groups.count =
        (across + plan->groups.rows - 1) / plan->groups.rows *
        (plan->columns ? plan->row_count / plan->groups.column_extent : 1);
    if (plan->kept) {
        plan->block = plan->groups.rows * length;
    } else if (plan->columns) {
        int64_t steps = (folds_columns(plan, plan->code) ? 65536 : 2048) /
                        plan->groups.rows / TN_LANES;
        plan->block = plan->groups.rows * TN_LANES * (steps < 1 ? 1 : steps);
    } else {
        plan->block = flat ? 4 * TN_CPU_FOLD_BLOCK : streamed_block(plan->code);
        int64_t run = shortest_run(plan), most_run = 2 * plan->block;
        if (run >= TN_CPU_MIN_RUN && length % run == 0)
            plan->run.length = run;
        if (plan->run.length < length && plan->run.length <= most_run)
            plan->block =
                (plan->run.length + TN_CHUNK - 1) / TN_CHUNK * TN_CHUNK;
    }
    plan->groups.per_task = TN_CPU_TASK_WORK / (plan->groups.rows * length);
    shrink_tasks(plan);
    if (plan->groups.per_task < plan->groups.count / TN_CPU_MOST_TASKS)
        plan->groups.per_task = plan->groups.count / TN_CPU_MOST_TASKS;
}

void tn__cpu_plan_cut(cpu_plan *plan, cpu_hoist *hoist)
{
    const tn_built *built = plan->built;
    atomic_init(&plan->failed, TN_OK);
    atomic_flag_clear(&plan->fault.lock);
    plan->fault.first.code = TN_OK;
    plan_views(plan);
    find_overlap(plan);
    plan->traffic.stream = wants_stream(plan);
    plan->traffic.ahead = wants_prefetch(plan);
    if (built->has_rows)
        cut_rows(plan);
    else
        cut_elements(plan, hoist);
    plan->traffic.bytes_per_op =
        plan->code->stage_count > 1 ? TN_CPU_STAGED_BYTES
        : plan->in_place            ? even_prefetch(plan)
        : plan->traffic.stream      ? TN_CPU_STREAM_STEP_BYTES
                                    : 0;
    plan->traffic.blocks = 0;
    plan->traffic.block_bytes = 0;
    if (plan->traffic.stream) {
        plan_stream_blocks(plan);
        if (plan->groups.per_task < plan->groups.count / TN_CPU_STREAM_TASKS)
            plan->groups.per_task = plan->groups.count / TN_CPU_STREAM_TASKS;
    }
}
