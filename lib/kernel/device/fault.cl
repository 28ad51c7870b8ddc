/* fault.cl: index faults. A work-item keeps its first one (the lowest
 * position; of those at one position the one that comes first in the
 * program's order) and adds it to the queue's buffer when it ends, if no
 * earlier launch on the queue failed: the host takes the lowest of the list,
 * which has room for every work-item.
 *
 * The buffer: the number of the launch that failed (0: none), how many records
 * there are, then the records, of five 64-bit words each. */
typedef struct {
    tk_i64 position; /* -1: none */
    tk_i64 index, extent;
    tk_i32 order;    /* where in the program */
    tk_i32 operand;  /* operand * 4 + which of its indices */
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

TK_FN void tk_fault_tell(TK_G tk_u32 *buffer, tk_fault f, tk_i64 tag,
                         tk_i64 launch, tk_i64 room)
{
    if (f.position < 0)
        return;
    tk_u32 first = tk_swap_if(buffer, 0u, (tk_u32)launch);
    if (first != 0u && first != (tk_u32)launch)
        return;
    tk_u32 i = tk_take_one(buffer + 1);
    if (i >= (tk_u32)room)
        return;
    TK_G tk_i64 *record = (TK_G tk_i64 *)buffer + 1 + 5 * (tk_i64)i;
    record[0] = tag;
    record[1] = f.position;
    record[2] = f.index;
    record[3] = f.extent;
    record[4] = (tk_i64)f.order << 32 | (tk_i64)f.operand;
}
