/* team.c: chooses how many work-items share a row, and how many rows a
 * work-group has, from strides and extents alone. */
#include <source/plan/class.h>
#include <source/plan/launch_space.h>

/* Returns the number of chunks of TN_CHUNK elements that a team (the work-items
 * that share a row) reduces at once. It is at most the number of chunks of a
 * row, since more work-items would have nothing to reduce. Exception: if there
 * are so few rows that work-groups of several teams would leave the device
 * idle, teams are larger, because stages without a reduction use all their
 * work-items. (A row of 4096 elements has work for 64 of 256 work-items in a
 * reduction.) */
static uint32_t team_slots(const tn_target *target, uint32_t group,
                           int64_t count, int64_t length)
{
    const uint32_t most = group / TN_LANES;
    uint32_t slots = 1;
    if (length <= TN_CHUNK)
        return slots;
    while (slots < most &&
           ((int64_t)slots * TN_CHUNK < length ||
            count * slots < tn__target_max_groups(target) * most))
        slots *= 2;
    return slots;
}

/* COLUMNS is the number of columns whose elements fill a memory transaction (32
 * float32 are 128 bytes). With fewer than LEAST_COLUMNS columns, strided loads
 * are fast enough because of the cache. */
#define COLUMNS 32
#define LEAST_COLUMNS 4
#define COLUMN_LANES 4
/* A row of at most SHORT elements belongs to a single work-item, since a team
 * would execute more barriers than the row has elements. This requires that the
 * program has at most BRIEF instructions. */
#define SHORT 32
#define BRIEF 64

/* Returns whether memory is contiguous from row to row and not along a row, as
 * for sums over the columns of a matrix. */
static bool find_columns(const tn_program *program,
                         const tn__launch_space *outer,
                         const tn__launch_space *row)
{
    bool across = false;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_kernel_operand *operand = &program->operand[k];
        if (operand->access == TN_OPERAND_OFFSET ||
            operand->level == TN_LEVEL_ROW || operand->index_count > 0)
            continue;
        const int64_t along = row->stride[k][row->ndim - 1];
        if (along == 1)
            return false;
        across = across ||
                 (along != 0 && outer->stride[k][outer->ndim - 1] == 1);
    }
    return across && row->count > 1 &&
           outer->extent[outer->ndim - 1] >= LEAST_COLUMNS;
}

/* Returns the number of chunks of TN_CHUNK elements that a team (the work-items
 * that share a row) reduces at once if memory is contiguous from row to row. A
 * work-group has at least COLUMNS rows, if there are so many, and more if the
 * rows have few chunks. */
static uint32_t column_slots(uint32_t group, int64_t columns, int64_t length)
{
    uint32_t most = group * COLUMN_LANES / TN_LANES, slots = 1;
    for (uint32_t side = 1; side < COLUMNS && side < columns; side *= 2)
        most /= 2;
    while (slots < most && (int64_t)slots * TN_CHUNK < length)
        slots *= 2;
    return slots;
}

/* Returns whether the program is so short that its instructions can be printed
 * once for each element that a work-item processes at once. */
static bool is_brief(const tn_program *program)
{
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (program->ins[i].op == TN_K_LOOP)
            return false;
    return program->order_count <= BRIEF && program->fn_count <= 2;
}

void tn__launch_class_set_team(tn__launch_class *class,
                               const tn_program *program,
                               const tn_target *target,
                               const tn__launch_space *outer,
                               const tn__launch_space *row)
{
    if (row->count <= SHORT && is_brief(program)) {
        class->lanes = TN_LANES;
        class->slots = 1;
    } else if (find_columns(program, outer, row)) {
        class->lanes = COLUMN_LANES;
        class->slots = column_slots(
            class->group, outer->extent[outer->ndim - 1], row->count);
    } else {
        class->slots =
            team_slots(target, class->group, outer->count, row->count);
        tn__cache_choose(class, program, target, row->count);
    }
}

void tn__launch_class_shrink_groups(tn__launch_class *class,
                                    const tn_target *target, int64_t count)
{
    const uint32_t team = tn__launch_class_team(class);
    while (class->group > 64 && class->group > 8 * team &&
           tn__divide_up(count, class->group / team) < target->units)
        class->group /= 2;
}
