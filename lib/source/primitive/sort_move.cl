/* sort_move.cl: the third launch for a digit of a radix sort. It moves each
 * element to its new index, which is after all elements with lower digits, and
 * after the elements with the same digit that came before it. A work-group
 * first sorts by the digit as many elements as its local memory holds, so that
 * neighbouring work-items store to neighbouring addresses. */
#define TK_NIBBLE(slot) (TK_DIGIT(staged[slot]) >> shift & 15)
#define TK_TARGET(type, to, line, at)                                         \
    ((TK_G type *)(scratch + (to)))[(line) * TK_END_RANK + (at)]

TK_KERNEL tn_sort(TK_SORT_ARGUMENTS)
{
    TK_SORT_SHARED
    TK_SHARED(tk_idx, rank_of, 256);
    TK_SHARED(tk_idx, found, 2);
    const tk_i32 room = TK_EACH * TK_SIZE;
    /* `counter` is not in use between steps of the sort */
    TK_S tk_u8 *const digit = (TK_S tk_u8 *)counter;
    for (tk_idx task = TK_GROUP; task < TK_LINES * TK_BLOCKS;
         task += TK_GROUPS) {
        const tk_idx line = task / TK_BLOCKS, block = task % TK_BLOCKS;
        const tk_idx behind = (block + 1) * TK_BLOCK;
        const tk_idx end = behind < TK_COUNT ? behind : TK_COUNT;
        TK_SORT_LINE(line)
        TK_FIND_LAST(line)
        for (tk_i32 d = TK_LOCAL; d < 256; d += TK_SIZE)
            rank_of[d] = TK_TOTALS[(TK_KNOWN * TK_LINES + line) * 256 + d];
        TK_BARRIER();
        TK_PREFIX_SUMS(rank_of, tk_idx, TK_UNPADDED, 256 / TK_SIZE, 0)
        for (tk_i32 d = TK_LOCAL; d < 256; d += TK_SIZE)
            rank_of[d] += TK_TABLE[(line * 256 + d) * TK_BLOCKS + block];
        for (tk_idx start = block * TK_BLOCK; start < end; start += room) {
            const tk_i32 count =
                (tk_i32)(end - start < room ? end - start : room);
            for (tk_i32 i = TK_LOCAL; i < room; i += TK_SIZE) {
                staged[i] = i < count ? TK_SOURCE_KEY(line, start + i)
                                    : ~(tk_keys)0;
                order[TK_PAD(i)] = (tk_u16)i;
            }
            TK_BARRIER();
            for (tk_i32 shift = 0; shift < 8; shift += 4) {
                TK_RADIX_ROUND(TK_EACH, TK_NIBBLE)
            }
            for (tk_i32 i = TK_LOCAL; i < count; i += TK_SIZE)
                digit[i] = (tk_u8)TK_DIGIT(staged[order[TK_PAD(i)]]);
            TK_BARRIER();
            for (tk_i32 i = TK_LOCAL; i < count; i += TK_SIZE)
                if (i == 0 || digit[i - 1] != digit[i])
                    rank_of[digit[i]] -= i;
            TK_BARRIER();
            if (TK_TO_KEYS >= 0) {
                for (tk_i32 i = TK_LOCAL; i < count; i += TK_SIZE) {
                    const tk_idx at = rank_of[digit[i]] + i;
                    if (at < TK_END_RANK)
                        TK_TARGET(tk_keys, TK_TO_KEYS, line, at) =
                            (tk_keys)staged[order[TK_PAD(i)]];
                }
                TK_BARRIER();
            }
            for (tk_i32 i = TK_LOCAL; i < count; i += TK_SIZE)
                staged[i] = (TK_STAGED)TK_SOURCE_POSITION(line, start + i);
            TK_BARRIER();
            for (tk_i32 i = TK_LOCAL; i < count; i += TK_SIZE) {
                const tk_idx at = rank_of[digit[i]] + i;
                const tk_idx self = (tk_idx)staged[order[TK_PAD(i)]];
                if (at < TK_FIRST_RANK || at >= TK_END_RANK)
                    continue;
                if (TK_TO_KEYS >= 0) {
                    TK_TARGET(tk_idx, TK_TO_POSITIONS, line, at) = self;
                } else {
                    TK_STORE_RANK(at, self)
                }
            }
            TK_BARRIER();
            for (tk_i32 i = TK_LOCAL; i < count; i += TK_SIZE)
                if (i + 1 == count || digit[i + 1] != digit[i])
                    rank_of[digit[i]] += i + 1;
            TK_BARRIER();
        }
    }
}
