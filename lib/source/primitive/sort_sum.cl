/* sort_sum.cl: the second launch for a digit of a radix sort. For each line and
 * each value of the digit, it computes the prefix sums of the counts over the
 * blocks, and their total. One work-item adds up to TK_FEW_BLOCKS blocks; if
 * there are more, a work-group does. */
TK_KERNEL tn_sort(TK_SORT_ARGUMENTS)
{
    TK_SHARED(tk_idx, sums, 2 * TK_SIZE);
    TK_SHARED(tk_idx, part, TK_SIZE);
    TK_G tk_idx *const totals = TK_TOTALS + TK_KNOWN * TK_LINES * 256;
    const tk_idx rows = TK_LINES * 256, blocks = TK_BLOCKS;
    tk_idx total;
    (void)in;
    (void)out;
    (void)index;
    if (blocks <= TK_FEW_BLOCKS) {
        for (tk_idx row = TK_FIRST; row < rows; row += TK_ITEMS) {
            TK_G tk_idx *const table = TK_TABLE + row * blocks;
            tk_idx before = 0;
            for (tk_idx block = 0; block < blocks; block++) {
                const tk_idx own = table[block];
                table[block] = before;
                before += own;
            }
            totals[row] = before;
        }
    } else {
        for (tk_idx row = TK_GROUP; row < rows; row += TK_GROUPS) {
            TK_G tk_idx *const table = TK_TABLE + row * blocks;
            tk_idx before = 0;
            for (tk_idx start = 0; start < blocks; start += TK_SIZE) {
                const tk_idx block = start + TK_LOCAL;
                part[TK_LOCAL] = block < blocks ? table[block] : 0;
                TK_PREFIX_SUMS(part, tk_idx, TK_UNPADDED, 1, before)
                if (block < blocks)
                    table[block] = part[TK_LOCAL];
                before += total;
            }
            if (TK_LOCAL == 0)
                totals[row] = before;
        }
    }
}
