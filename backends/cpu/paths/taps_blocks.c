/* taps_blocks.c: weighted sums of a few elements, as in grid_sample and
 * interpolate. A tap is one term of such a sum: an input element times a
 * weight. A point is one result.
 *
 * Blocks that share indices (hoist.c) share the weights too. The first of these
 * blocks makes a table with an entry for each vector of points. For each tap,
 * the entry says where in the input the vector's elements begin, which of them
 * each point reads, and with which weight. The later blocks compute a vector of
 * points at a time, in registers. */
#include <string.h>

#include "taps.h"

/* largest size of a block's table in bytes: about half an L1 */
#define TABLE_BYTES 24576
#define MAX_POINTS 2048 /* largest number of points (results) of a block */

int64_t tn__cpu_taps_block(const tn_built *built)
{
    int64_t each = built->taps.count * (int64_t)sizeof(tn_cpu_tap);
    int64_t points = TABLE_BYTES / each * built->routines->tap_points;
    return points < 256 ? 256 : tn__cpu_min(points / 256 * 256, MAX_POINTS);
}

/* Returns how many entries a table of terms may have: three for each vector of
 * results. With more entries a table is slower than no table. A vector needs
 * more than one entry if the input offsets of its results are far apart, as at
 * the end of a row. */
static int64_t max_entries(const cpu_plan *plan)
{
    return 3 * (plan->block / plan->routines->tap_points + 1);
}

size_t tn__cpu_taps_bytes(const cpu_plan *plan)
{
    return plan->taps ? 2 * (size_t)max_entries(plan) *
                            plan->built->taps.count * sizeof(tn_cpu_tap)
                      : 0;
}

bool tn__cpu_taps_shared(const cpu_plan *plan)
{
    const cpu_taps *taps = &plan->built->taps;
    bool shared = plan->hoist && taps->count > 0 && !plan->in_place;
    for (uint32_t t = 0; shared && t < taps->count; t++)
        shared = plan->hoist->skip[taps->load[t]] == CPU_PLACED &&
                 plan->hoist->skip[taps->weight_load[t]] == CPU_KNOWN;
    return shared;
}

/* A term whose weight is 0 reads nothing, so its offset is ignored. */
int64_t tn__cpu_tap_span(const cpu_tap_lists *lists, int64_t at, int64_t n,
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
    if (low > high) /* no offset was found, since all weights are 0 */
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

/* Makes the table of terms (taps) for blocks of the current size. All whole
 * blocks use one table. The shorter blocks at the end of a dimension use
 * another. The number of entries stays 0 if an index is out of range, or if
 * there would be too many entries. */
static void fill_table(cpu_task *task, cpu_tap_table *table)
{
    const cpu_taps *taps = &task->plan->built->taps;
    const int64_t points = task->routines->tap_points;
    const int64_t most = max_entries(task->plan);
    cpu_tap_lists lists = {.count = (int)taps->count};
    table->outer = task->shared.outer;
    table->entries = 0;
    for (uint32_t t = 0; t < taps->count; t++) {
        const uint32_t slot = task->code->op[taps->weight_load[t]].out;
        lists.where[t] = (const int64_t *)
            task->slot[task->code->op[taps->load[t]].where];
        lists.weight[t] = (const float *)task->slot[slot];
        lists.step[t] = task->step[slot] != TN_CPU_ONE_VALUE;
    }
    int64_t entries = 0;
    for (int64_t at = 0, n; at < task->block.count; at += n, entries++) {
        n = tn__cpu_min(points, task->block.count - at);
        n = tn__cpu_tap_span(&lists, at, n, 2 * points);
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
    int64_t each = max_entries(task->plan) * task->plan->built->taps.count;
    for (int i = 0; i < 2; i++)
        task->taps[i] = (cpu_tap_table){.tap = (tn_cpu_tap *)memory + i * each,
                                        .outer = -1};
}

bool tn__cpu_run_taps(cpu_task *task)
{
    const cpu_taps *taps = &task->plan->built->taps;
    cpu_tap_table *table = &task->taps[task->block.count < task->plan->block];
    if (!task->shared.skip) /* the first block computes indices and weights */
        return false;
    if (table->outer != task->shared.outer)
        fill_table(task, table);
    char *out = tn__cpu_view_flat(&task->view[taps->out], 0, task->block.count);
    if (!out || table->entries == 0)
        return false;
    char *to = task->plan->traffic.stream ? task->temporary : out;
    const tn_cpu_tap_rows row = {
        .out = (float *)(void *)to,
        .in = (const float *)(const void *)task->view[taps->in].base,
        .count = 1,
        .n = task->block.count};
    task->routines->taps(&row, table->tap, table->entries, taps->depth,
                         taps->leaves);
    if (to != out)
        task->routines->stream(out, to,
                               task->block.count * (int64_t)sizeof(float), 0);
    return true;
}
