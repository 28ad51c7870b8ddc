/* tile.c: cuts elementwise work on operands of different layouts, such as a +
 * b.T, into tiles. If the innermost dimension were processed from end to end,
 * each element of the transposed operand would come from another cache line,
 * and that line would be evicted before its next element is needed. Therefore a
 * group is a tile of two dimensions: the innermost dimension, and the dimension
 * along which the transposed operand is contiguous. */
#include <stdlib.h>

#include "plan.h"

/* Largest number of elements of a tile along the dimension in which the
 * transposed operand is contiguous: two cache lines of f32. */
#define TILE 32
/* Tiles are used if the two dimensions have at least this many elements in
 * all. */
#define TILE_FROM 4096

/* Looks for a transposed operand: its stride is not 0, 1 or -1 along the
 * innermost dimension, and 1 along another dimension. Returns that other
 * dimension, or NONE if there is no transposed operand. */
static uint32_t dense_dimension(const cpu_plan *plan, uint32_t inner)
{
    const tn_launch *launch = plan->launch;
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const int64_t *stride = launch->operand[k].stride;
        if (plan->built->operand[k].access == TN_OPERAND_OFFSET ||
            llabs(stride[inner]) <= 1)
            continue;
        for (uint32_t d = inner; d-- > 0;)
            if (llabs(stride[d]) == 1 && launch->extent[d] > 1)
                return d;
    }
    return TN_CPU_NONE;
}

/* Returns the number of tiles along dimension d. */
static int64_t tiles_along(const cpu_plan *plan, uint32_t d)
{
    int64_t tile = d == plan->tile.dim[0]   ? plan->tile.extent[0]
                   : d == plan->tile.dim[1] ? plan->tile.extent[1]
                                            : 1;
    return (plan->launch->extent[d] + tile - 1) / tile;
}

bool tn__cpu_cut_tiles(cpu_plan *plan)
{
    const tn_launch *launch = plan->launch;
    uint32_t ndim = launch->outer_ndim + launch->row_ndim, inner = ndim;
    while (inner > 0 && launch->extent[inner - 1] == 1)
        inner--;
    if (inner-- < 2)
        return false;
    uint32_t across = dense_dimension(plan, inner);
    if (across == TN_CPU_NONE ||
        launch->extent[across] * launch->extent[inner] < TILE_FROM)
        return false;
    plan->tile.dim[0] = across;
    plan->tile.dim[1] = inner;
    plan->tile.extent[0] = tn__cpu_min(TILE, launch->extent[across]);
    plan->tile.extent[1] =
        tn__cpu_min(plan->block / plan->tile.extent[0], launch->extent[inner]);
    plan->groups.count = 1;
    for (uint32_t d = 0; d < ndim; d++)
        plan->groups.count *= tiles_along(plan, d);
    return true;
}

void tn__cpu_task_tile(cpu_task *task, int64_t group)
{
    const cpu_plan *plan = task->plan;
    const tn_launch *launch = plan->launch;
    uint32_t ndim = launch->outer_ndim + launch->row_ndim;
    int64_t point[2 * TN_MAX_NDIM] = {0}, extent[2] = {1, 1};
    int64_t size = 1, tiles = tiles_along(plan, plan->tile.dim[0]);
    /* Consecutive tiles follow the dimension in which the transposed operand is
     * contiguous, so that each tile continues where the last one ended. */
    point[plan->tile.dim[0]] = group % tiles * plan->tile.extent[0];
    group /= tiles;
    task->tile.at = 0;
    for (uint32_t d = ndim; d-- > 0; size *= launch->extent[d]) {
        int side = d == plan->tile.dim[0] ? 0 : d == plan->tile.dim[1] ? 1 : 2;
        if (side != 0) {
            tiles = tiles_along(plan, d);
            point[d] = group % tiles * (side == 1 ? plan->tile.extent[1] : 1);
            group /= tiles;
        }
        task->tile.at += point[d] * size;
        if (side < 2) {
            extent[side] = tn__cpu_min(plan->tile.extent[side],
                                       launch->extent[d] - point[d]);
            task->tile.step[side] = size;
        }
    }
    task->tile.width = extent[1];
    for (uint32_t k = 0; k < plan->built->operand_count; k++) {
        const int64_t *stride = launch->operand[k].stride;
        cpu_view *view = &task->own_view[k];
        tn__cpu_view_init(view, &plan->built->operand[k],
                          &launch->operand[k]);
        int64_t offset = 0;
        for (uint32_t d = 0; d < ndim; d++)
            offset += point[d] * stride[d];
        tn__cpu_view_move(view, offset);
        for (int side = 0; side < 2; side++)
            tn__cpu_view_push(view, extent[side],
                              stride[plan->tile.dim[side]]);
    }
    task->view = task->own_view;
    task->block.at = 0;
    task->block.count = extent[0] * extent[1];
}
