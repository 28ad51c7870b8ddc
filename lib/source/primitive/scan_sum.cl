/* scan_sum.cl: cumulative sums of floats in the order that
 * <tenon/plugin_primitives.h> fixes. Each line (the elements that are summed)
 * belongs to one work-item. A line consists of chunks of 1024 elements, and a
 * chunk of 64 blocks of 16. A block is scanned by scan_block.cl. The blocks of
 * a chunk are added in rising order. The sums of chunks are combined pairwise,
 * as a binary counter carries: if bit j of the number of chunks is set, tree[j]
 * is the sum of 2^j chunks. It has the same argument words as scan.cl. */
TK_KERNEL tn_scan(TK_G const TK_STORED *in, TK_G TK_STORED *out, TK_WORDS)
{
    const tk_idx lines = (tk_idx)TK_WORD(0), length = (tk_idx)TK_OWN(0);
    const tk_idx in_step = (tk_idx)TK_OWN(1), out_step = (tk_idx)TK_OWN(2);
    for (tk_idx line = TK_FIRST; line < lines; line += TK_ITEMS) {
        TK_POINT_OFFSET(from, 0, line)
        TK_POINT_OFFSET(to, 1, line)
        TK_VALUE carry = 0, before = 0, last = 0, tree[4];
        for (tk_i32 level = 0; level < 4; level++)
            tree[level] = 0;
        for (tk_idx start = 0; start < length; start += 16) {
            const tk_i32 n =
                (tk_i32)(length - start < 16 ? length - start : 16);
            TK_VALUE x[16];
            for (tk_i32 j = 0; j < 16; j++)
                x[j] = TK_FROM(in[from + (j < n ? j : 0) * in_step]);
            TK_SCAN_BLOCK
            for (tk_i32 j = 0; j < 16; j++) {
                x[j] = start % 1024 != 0 ? TK_COMBINE(carry, x[j]) : x[j];
                if (j < n)
                    out[to + j * out_step] = TK_TO(
                        start >= 1024 ? TK_COMBINE(before, x[j]) : x[j]);
            }
            carry = x[15];
            from += 16 * in_step;
            to += 16 * out_step;
            if (start % 1024 != 1008)
                continue;
            const tk_idx chunk = start / 1024;
            TK_VALUE fold = carry;
            tk_bool meets = 1; /* true while all lower bits of `chunk` are set:
                                * then the sum at this level is combined with
                                * the next one */
            for (tk_i32 level = 0; level < 4; level++) {
                const tk_bool is_set = (chunk >> level & 1) != 0;
                if (meets && !is_set) {
                    tree[level] = before = fold;
                    for (tk_i32 above = level + 1; above < 4; above++)
                        before = (chunk >> above & 1) != 0
                                     ? TK_COMBINE(tree[above], before) : before;
                    meets = 0;
                }
                if (meets)
                    before = fold = TK_COMBINE(tree[level], fold);
            }
            before = chunk >= 16 ? TK_COMBINE(last, before) : before;
            last = chunk % 16 == 15 ? before : last;
        }
    }
}
