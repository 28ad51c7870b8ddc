/* fault.cl: reports indices that are out of range (faults). A work-item
 * remembers its first fault. This is the fault at the element with the lowest
 * row-major index. If an element has several faults, it is the fault of the
 * instruction that comes first in the program. At the end, each work-group
 * appends the first fault of its work-items to a buffer of the queue, unless an
 * earlier launch on the queue has already failed. The host reports the fault
 * with the lowest index. The buffer has space for one fault of each work-group.
 *
 * The buffer begins with two 32-bit numbers: the sequence number of the launch
 * that failed (0 if none) and the number of faults. Then come the faults, five
 * 64-bit words each. */
typedef struct {
    tk_i64 position; /* row-major index of the element; -1 if there is no
                      * fault */
    tk_i64 index, extent;
    tk_i32 order;    /* index of the instruction in the program's list */
    tk_i32 operand;  /* 4 * (index of the operand) + (which of its indices) */
} tk_fault;

TK_FN tk_fault tk_fault_none(void)
{
    tk_fault f;
    f.position = -1;
    f.index = f.extent = 0;
    f.order = f.operand = 0;
    return f;
}

TK_FN tk_fault tk_fault_at(tk_fault f, tk_i64 position, tk_i32 order,
                           tk_i32 operand, tk_i64 index, tk_i64 extent)
{
    if (f.position < 0 || position < f.position ||
        (position == f.position && order < f.order)) {
        f.position = position;
        f.order = order;
        f.operand = operand;
        f.index = index;
        f.extent = extent;
    }
    return f;
}

/* Returns the first of two faults: the fault at the element with the lower
 * row-major index or, at the same element, the fault of the earlier
 * instruction. */
TK_FN tk_fault tk_fault_first(tk_fault f, tk_fault g)
{
    return g.position < 0 ? f
                          : tk_fault_at(f, g.position, g.order, g.operand,
                                        g.index, g.extent);
}

/* Reports a fault at the end of a kernel, which all work-items of a work-group
 * must reach. If any work-item has a fault, the work-items take turns to
 * compare their faults with the first fault found so far. */
#define TK_FAULT_REPORT(buffer, fault, tag, launch, room)                     \
    TK_SHARED(tk_fault, fault_of_group, 1);                                   \
    TK_SHARED(tk_u32, faults_of_group, 1);                                    \
    if (TK_LOCAL == 0) {                                                      \
        fault_of_group[0] = tk_fault_none();                                  \
        faults_of_group[0] = 0;                                               \
    }                                                                         \
    TK_BARRIER();                                                             \
    if (fault.position >= 0)                                                  \
        tk_local_increment(faults_of_group);                                  \
    TK_BARRIER();                                                             \
    const tk_i32 turns = faults_of_group[0] != 0 ? TK_GROUP_SIZE : 0;         \
    for (tk_i32 turn = 0; turn < turns; turn++) {                             \
        if (TK_LOCAL == turn)                                                 \
            fault_of_group[0] = tk_fault_first(fault_of_group[0], fault);     \
        TK_BARRIER();                                                         \
    }                                                                         \
    if (TK_LOCAL == 0)                                                        \
        tk_fault_report(buffer, fault_of_group[0], tag, launch, room);

TK_FN void tk_fault_report(TK_G tk_u32 *buffer, tk_fault f, tk_i64 tag,
                         tk_i64 launch, tk_i64 room)
{
    if (f.position < 0)
        return;
    tk_u32 first = tk_compare_exchange(buffer, 0u, (tk_u32)launch);
    if (first != 0u && first != (tk_u32)launch)
        return;
    tk_u32 i = tk_fetch_increment(buffer + 1);
    if (i >= (tk_u32)room)
        return;
    TK_G tk_i64 *record = (TK_G tk_i64 *)buffer + 1 + 5 * (tk_i64)i;
    record[0] = tag;
    record[1] = f.position;
    record[2] = f.index;
    record[3] = f.extent;
    record[4] = (tk_i64)f.order << 32 | (tk_i64)f.operand;
}
