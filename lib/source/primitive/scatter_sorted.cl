/* scatter_sorted.cl: stores elements at indices, and combines elements with the
 * same destination. The indices have been sorted (print_sort.c). A line of
 * indices is used for TK_WIDTH neighbouring lines of dst and src, its columns.
 * A team of work-items finds the first index of each destination and processes
 * all elements of that destination, in their order. Each work-item has TK_EACH
 * columns. TK_COMBINE(old, x) is the value that is stored. TK_POSITION, the
 * type of a position in a line, is defined before this text.
 *
 * The sort compares only as many low digits as valid indices have. So an index
 * out of range may lie between equal valid indices. Therefore each index is
 * compared in full with the destination. */
#define TK_COUNT ((tk_idx)TK_OWN(0)) /* length of a line of indices */
#define TK_SRC_STRIDE ((tk_idx)TK_OWN(1))
#define TK_DST_STRIDE ((tk_idx)TK_OWN(2))
#define TK_EXTENT TK_OWN(3)
#define TK_DIGITS ((tk_u64)TK_OWN(4)) /* mask of the bits of an index that were
                                       * sorted by */
#define TK_FIRST_LINE ((tk_idx)TK_OWN(5))
#define TK_LINES ((tk_idx)TK_OWN(6))
#define TK_WIDTH ((tk_idx)TK_OWN(7))
#define TK_TEAM ((tk_i32)TK_OWN(8)) /* work-items of a team, a power of two */
#define TK_POSITION_STRIDE TK_OWN(9)
#define TK_INDEX_OF(key) ((tk_i64)((key) ^ (tk_u64)1 << 63))

TK_KERNEL tn_scatter(TK_G TK_STORED *dst, TK_G const TK_STORED *src,
                     TK_G const tk_u64 *scratch, TK_G tk_u32 *faults, TK_WORDS)
{
    tk_u64 found[TK_AHEAD];
    tk_idx to[TK_EACH], from[TK_EACH];
    TK_STORED sum[TK_EACH], x[TK_AHEAD * TK_EACH];
    tk_bool is_there[TK_EACH];
    const tk_i32 lane = TK_LOCAL % TK_TEAM, own = TK_LOCAL / TK_TEAM;
    const tk_i32 teams = TK_GROUP_SIZE / TK_TEAM;
    const tk_idx tiles = (TK_WIDTH + TK_EACH * TK_TEAM - 1) /
                         (TK_EACH * TK_TEAM);
    const tk_idx tasks = TK_LINES * TK_COUNT * tiles;
    tk_i64 wrong = -1, wrong_index = 0; /* lowest row-major index of an element
                                         * whose index is out of range; -1 if
                                         * none */
    for (tk_idx task = TK_GROUP * teams + own; task < tasks;
         task += TK_GROUPS * teams) {
        const tk_idx tile = task % tiles, line = task / tiles / TK_COUNT;
        const tk_idx first = task / tiles % TK_COUNT;
        TK_G const tk_u64 *const keys =
            scratch + TK_OWN(10) + line * TK_COUNT;
        TK_G const TK_POSITION *const line_positions =
            (TK_G const TK_POSITION *)(scratch + TK_OWN(11)) + line * TK_COUNT;
        const tk_u64 digits = keys[first] & TK_DIGITS;
        if (first > 0 && (keys[first - 1] & TK_DIGITS) == digits)
            continue;
        const tk_bool is_inside = digits < (tk_u64)TK_EXTENT;
        for (tk_i32 k = 0; k < TK_EACH; k++) {
            const tk_idx column = (tile * TK_EACH + k) * TK_TEAM + lane;
            is_there[k] = column < TK_WIDTH && is_inside;
            const tk_idx point = (TK_FIRST_LINE + line) * TK_WIDTH +
                                 (is_there[k] ? column : 0);
            TK_POINT_OFFSET(at, 0, point)
            TK_POINT_OFFSET(begin, 2, point)
            to[k] = is_inside ? at + (tk_idx)digits * TK_DST_STRIDE : 0;
            from[k] = begin;
        }
        for (tk_i32 k = 0; k < TK_EACH; k++)
            if (is_there[k])
                sum[k] = dst[to[k]];
        tk_i32 count = TK_AHEAD;
        for (tk_idx next = first; count == TK_AHEAD; next += TK_AHEAD) {
            for (tk_i32 i = 0; i < TK_AHEAD; i++)
                found[i] = next + i < TK_COUNT ? keys[next + i] : ~digits;
            count = 0;
            for (tk_i32 i = 0; i < TK_AHEAD; i++)
                count += count == i && (found[i] & TK_DIGITS) == digits;
            for (tk_i32 i = 0; i < TK_AHEAD; i++) {
                const tk_idx src_offset =
                    i < count ? (tk_idx)line_positions[next + i] * TK_SRC_STRIDE
                              : 0;
                for (tk_i32 k = 0; k < TK_EACH; k++)
                    if (i < count && is_there[k])
                        x[i * TK_EACH + k] = src[from[k] + src_offset];
            }
            for (tk_i32 i = 0; i < TK_AHEAD; i++) {
                if (i >= count)
                    continue;
                if (is_inside && TK_INDEX_OF(found[i]) == (tk_i64)digits) {
                    for (tk_i32 k = 0; k < TK_EACH; k++)
                        if (is_there[k])
                            sum[k] = TK_TO(TK_COMBINE(
                                TK_FROM(sum[k]),
                                TK_FROM(x[i * TK_EACH + k])));
                } else if (lane == 0 && tile == 0) {
                    TK_POINT_OFFSET(position, 3,
                                    (TK_FIRST_LINE + line) * TK_WIDTH)
                    const tk_i64 here =
                        (tk_i64)position +
                        (tk_i64)line_positions[next + i] * TK_POSITION_STRIDE;
                    if (wrong < 0 || here < wrong) {
                        wrong = here;
                        wrong_index = TK_INDEX_OF(found[i]);
                    }
                }
            }
        }
        for (tk_i32 k = 0; k < TK_EACH; k++)
            if (is_there[k])
                dst[to[k]] = sum[k];
    }
    tk_fault fault = tk_fault_none();
    if (wrong >= 0)
        fault = tk_fault_at(fault, wrong, 0, 0, wrong_index, TK_EXTENT);
    TK_FAULT_REPORT(faults, fault, TK_OWN(12), TK_OWN(13), TK_OWN(14))
}
