/* sort_count.cl: the first launch for a digit of a radix sort. It computes a
 * histogram of the digit for each block, as table[line][value][block]. A digit
 * often has the same value in most keys. So neighbouring work-items count in
 * different copies of the histogram, to avoid conflicts. */
#define TK_COPIES 8
#define TK_AHEAD 4

TK_KERNEL tn_sort(TK_SORT_ARGUMENTS)
{
    TK_SHARED(tk_u32, counter, 256 * TK_COPIES);
    TK_SHARED(tk_idx, sums, 2 * TK_SIZE);
    TK_SHARED(tk_idx, rank_of, 256);
    TK_SHARED(tk_idx, found, 2);
    tk_idx total;
    (void)out;
    (void)index;
    for (tk_idx task = TK_GROUP; task < TK_LINES * TK_BLOCKS;
         task += TK_GROUPS) {
        const tk_idx line = task / TK_BLOCKS, block = task % TK_BLOCKS;
        const tk_idx behind = (block + 1) * TK_BLOCK;
        const tk_idx end = behind < TK_COUNT ? behind : TK_COUNT;
        TK_POINT_OFFSET(line_in, 0, TK_FIRST_LINE + line)
        TK_FIND_LAST(line)
        for (tk_i32 i = TK_LOCAL; i < 256 * TK_COPIES; i += TK_SIZE)
            counter[i] = 0;
        TK_BARRIER();
        for (tk_idx i = block * TK_BLOCK + TK_LOCAL; i < end;
             i += TK_AHEAD * TK_SIZE) {
            tk_keys key[TK_AHEAD];
            for (tk_i32 k = 0; k < TK_AHEAD; k++)
                key[k] = i + k * TK_SIZE < end
                             ? TK_SOURCE_KEY(line, i + k * TK_SIZE)
                             : 0;
            for (tk_i32 k = 0; k < TK_AHEAD; k++)
                if (i + k * TK_SIZE < end &&
                    (TK_MODE != TK_WITH_PREFIX ||
                     key[k] >> TK_SHIFT >> 8 == last))
                    tk_local_increment(&counter[TK_DIGIT(key[k]) * TK_COPIES +
                                          TK_LOCAL % TK_COPIES]);
        }
        TK_BARRIER();
        for (tk_i32 d = TK_LOCAL; d < 256; d += TK_SIZE) {
            tk_idx sum = 0;
            for (tk_i32 k = 0; k < TK_COPIES; k++)
                sum += (tk_idx)counter[d * TK_COPIES + k];
            TK_TABLE[(line * 256 + d) * TK_BLOCKS + block] = sum;
        }
        TK_BARRIER();
    }
}
