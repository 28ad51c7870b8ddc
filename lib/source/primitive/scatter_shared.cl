/* scatter_shared.cl: stores elements at indices, and combines elements with the
 * same destination. A line is the elements along the dimension of the scatter.
 * A work-group has a line, and holds the corresponding line of dst in local
 * memory. It processes TK_CHUNK elements of the line at once, in rounds. In a
 * round, each element that is not done writes its index by an atomic minimum to
 * slot[destination % TK_SLOTS]. An element that finds its own index there is
 * the first of its destination, and is stored. The others are left for the next
 * round. TK_COMBINE(old, x) is the value that is stored. These macros are
 * defined before it:
 *   TK_SIZE   number of work-items of a work-group
 *   TK_EACH   number of elements that a work-item processes at once
 *   TK_ROOM   largest number of elements of a line of dst
 *   TK_SLOTS  number of slots, a power of two
 * The argument words are those of scatter.cl. */
#define TK_EXTENT TK_OWN(4)
#define TK_CHUNK (TK_EACH * TK_SIZE)
#define TK_NONE 0xffffffffu

TK_KERNEL tn_scatter(TK_G TK_STORED *dst, TK_G const tk_i64 *index,
                     TK_G const TK_STORED *src, TK_G tk_u32 *faults, TK_WORDS)
{
    TK_SHARED(TK_STORED, dst_line, TK_ROOM);
    TK_SHARED(tk_u32, slot, TK_SLOTS);
    TK_SHARED(tk_u32, left, 2);
    /* The first TK_SIZE numbers are the row-major indices of elements whose
     * index is out of range. The others are these invalid indices. */
    TK_SHARED(tk_i64, wrong, 2 * TK_SIZE);
    tk_i32 to[TK_EACH]; /* destination of each element; -1 if it is done */
    TK_STORED x[TK_EACH];
    tk_bool is_first[TK_EACH];
    const tk_idx lines = (tk_idx)TK_WORD(0), length = (tk_idx)TK_OWN(0);
    const tk_i32 extent = (tk_i32)TK_EXTENT;
    wrong[TK_LOCAL] = -1;
    for (tk_i32 i = TK_LOCAL; i < TK_SLOTS; i += TK_SIZE)
        slot[i] = TK_NONE;
    if (TK_LOCAL < 2)
        left[TK_LOCAL] = 0;
    for (tk_idx line = TK_GROUP; line < lines; line += TK_GROUPS) {
        TK_POINT_OFFSET(begin, 0, line)
        TK_POINT_OFFSET(at, 1, line)
        TK_POINT_OFFSET(from, 2, line)
        for (tk_i32 i = TK_LOCAL; i < extent; i += TK_SIZE)
            dst_line[i] = dst[begin + i * (tk_idx)TK_OWN(3)];
        TK_BARRIER();
        for (tk_idx start = 0; start < length; start += TK_CHUNK) {
            for (tk_i32 k = 0; k < TK_EACH; k++) {
                const tk_idx p = start + k * TK_SIZE + TK_LOCAL;
                to[k] = -1;
                if (p >= length)
                    continue;
                const tk_i64 i = index[at + p * (tk_idx)TK_OWN(1)];
                if (i >= 0 && i < TK_EXTENT) {
                    to[k] = (tk_i32)i;
                    x[k] = src[from + p * (tk_idx)TK_OWN(2)];
                } else {
                    TK_POINT_OFFSET(position, 3, line)
                    const tk_i64 here = (tk_i64)position + p * TK_OWN(5);
                    if (wrong[TK_LOCAL] < 0 || here < wrong[TK_LOCAL]) {
                        wrong[TK_LOCAL] = here;
                        wrong[TK_SIZE + TK_LOCAL] = i;
                    }
                }
            }
            tk_i32 turn = 0;
            tk_bool goes_on = true;
            while (goes_on) {
                for (tk_i32 k = 0; k < TK_EACH; k++)
                    if (to[k] >= 0)
                        tk_local_min(&slot[to[k] & (TK_SLOTS - 1)],
                                      (tk_u32)(k * TK_SIZE + TK_LOCAL));
                if (TK_LOCAL == 0)
                    left[1 - turn] = 0;
                TK_BARRIER();
                tk_bool waits = false;
                for (tk_i32 k = 0; k < TK_EACH; k++) {
                    is_first[k] = to[k] >= 0 &&
                                  slot[to[k] & (TK_SLOTS - 1)] ==
                                      (tk_u32)(k * TK_SIZE + TK_LOCAL);
                    waits = waits || (to[k] >= 0 && !is_first[k]);
                }
                if (waits)
                    tk_local_increment(&left[turn]);
                TK_BARRIER();
                for (tk_i32 k = 0; k < TK_EACH; k++)
                    if (is_first[k]) {
                        dst_line[to[k]] = TK_TO(TK_COMBINE(
                            TK_FROM(dst_line[to[k]]), TK_FROM(x[k])));
                        slot[to[k] & (TK_SLOTS - 1)] = TK_NONE;
                        to[k] = -1;
                    }
                goes_on = left[turn] > 0;
                turn = 1 - turn;
                TK_BARRIER();
            }
        }
        for (tk_i32 i = TK_LOCAL; i < extent; i += TK_SIZE)
            dst[begin + i * (tk_idx)TK_OWN(3)] = dst_line[i];
        TK_BARRIER();
    }
    tk_fault fault = tk_fault_none();
    if (wrong[TK_LOCAL] >= 0)
        fault = tk_fault_at(fault, wrong[TK_LOCAL], 0, 0,
                            wrong[TK_SIZE + TK_LOCAL], TK_EXTENT);
    TK_FAULT_REPORT(faults, fault, TK_OWN(6), TK_OWN(7), TK_OWN(8))
}
