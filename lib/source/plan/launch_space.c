/* launch_space.c: merges the dimensions of a launch, and reads the fault buffer
 * on the host. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <source/plan/launch_space.h>
#include <kernel/kernel.h>

static bool merges(const tn__launch_space *s, const tn_launch *launch,
                   uint32_t operands, uint32_t d)
{
    for (uint32_t k = 0; k < operands; k++)
        if (s->stride[k][s->ndim - 1] !=
            launch->operand[k].stride[d] * launch->extent[d])
            return false;
    return true;
}

/* Appends dimension d of the launch as the new innermost dimension. Merges it
 * with the previous one if the strides of all operands allow it. */
static void push(tn__launch_space *s, const tn_launch *launch,
                 uint32_t operands, uint32_t d)
{
    int64_t extent = launch->extent[d];
    s->count *= extent;
    if (extent == 1)
        return;
    if (s->ndim > 0 && merges(s, launch, operands, d))
        s->ndim--;
    else
        s->extent[s->ndim] = 1;
    s->extent[s->ndim] *= extent;
    for (uint32_t k = 0; k < operands; k++)
        s->stride[k][s->ndim] = launch->operand[k].stride[d];
    s->ndim++;
}

void tn__launch_space_init(tn__launch_space *s, const tn_launch *launch,
                           uint32_t operands, uint32_t first, uint32_t end)
{
    s->ndim = 0;
    s->count = 1;
    for (uint32_t d = first; d < end; d++)
        push(s, launch, operands, d);
    if (s->ndim > 0)
        return;
    /* There are no dimensions. Use one of extent 1, since the printed kernel
     * needs at least one. */
    s->ndim = 1;
    s->extent[0] = 1;
    for (uint32_t k = 0; k < operands; k++)
        s->stride[k][0] = 1;
}

static void move(int64_t *number, uint32_t from, uint32_t to)
{
    const int64_t moved = number[from];
    for (; from < to; from++)
        number[from] = number[from + 1];
    for (; from > to; from--)
        number[from] = number[from - 1];
    number[to] = moved;
}

void tn__launch_space_move(tn__launch_space *s, uint32_t operands,
                           uint32_t from, uint32_t to)
{
    move(s->extent, from, to);
    for (uint32_t k = 0; k < operands; k++)
        move(s->stride[k], from, to);
}

int64_t tn__strides_reach(const int64_t *extent, const int64_t *stride,
                          uint32_t ndim)
{
    int64_t reach = 0;
    for (uint32_t d = 0; d < ndim; d++)
        if (extent[d] > 0)
            reach += (extent[d] - 1) * llabs(stride[d]);
    return reach;
}

/* Returns at most 256. Kernels use a few tens of registers for each work-item,
 * so larger work-groups are not faster. */
uint32_t tn__target_group(const tn_target *target)
{
    uint32_t group = 256;
    while (group > target->group_limit && group > 16)
        group /= 2;
    return group;
}

/* ---- faults ------------------------------------------------------------ */

void tn__fault_words(uint64_t word[3], const tn_target *target, uint64_t tag)
{
    static _Atomic uint32_t launches;
    uint32_t launch;
    do
        launch = ++launches;
    while (launch == 0); /* 0 means that no launch has failed */
    word[0] = tag;
    word[1] = launch;
    word[2] = target->fault_room;
}

tn_status tn__fault_read(const void *buffer, uint32_t fault_room,
                         tn_fault *fault)
{
    uint32_t head[2];
    memcpy(head, buffer, sizeof head);
    if (head[0] == 0)
        return TN_OK;
    const char *at = (const char *)buffer + sizeof head;
    int64_t lowest[5] = {0};
    for (uint32_t i = 0; i < head[1] && i < fault_room; i++) {
        int64_t record[5];
        memcpy(record, at + i * sizeof record, sizeof record);
        if (i == 0 || record[1] < lowest[1] ||
            (record[1] == lowest[1] && record[4] < lowest[4]))
            memcpy(lowest, record, sizeof record);
    }
    const tn_fault found = {
        .size = sizeof found,
        .code = TN_ERR_INDEX,
        .tag = (uint64_t)lowest[0],
        .operand = (uint32_t)(lowest[4] & 0xffffffff) / 4,
        .dim = (uint32_t)(lowest[4] & 3),
        .index = lowest[2],
        .extent = lowest[3],
        .position = lowest[1],
    };
    if (fault)
        tn__fault_fill(fault, &found);
    return TN_ERR_INDEX;
}
