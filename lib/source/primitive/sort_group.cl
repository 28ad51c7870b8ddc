/* sort_group.cl: sorts lines of at most TK_EACH * TK_SIZE elements, one in each
 * work-group, by a radix sort in local memory with four bits per step. */
#define TK_NIBBLE(slot) (staged[slot] >> shift & 15u)

TK_KERNEL tn_sort(TK_SORT_ARGUMENTS)
{
    TK_SORT_SHARED
    const tk_i32 count = (tk_i32)TK_COUNT;
    const tk_i32 each = (count + TK_SIZE - 1) / TK_SIZE;
    for (tk_idx line = TK_GROUP; line < TK_LINES; line += TK_GROUPS) {
        TK_SORT_LINE(line)
        for (tk_i32 i = TK_LOCAL; i < each * TK_SIZE; i += TK_SIZE) {
            staged[i] = i < count ? TK_SOURCE_KEY(line, i) : ~(tk_keys)0;
            order[TK_PAD(i)] = (tk_u16)i;
        }
        TK_BARRIER();
        for (tk_i32 shift = 0; shift < TK_BITS; shift += 4) {
            TK_RADIX_ROUND(each, TK_NIBBLE)
        }
        for (tk_i32 i = (tk_i32)TK_FIRST_RANK + TK_LOCAL; i < TK_END_RANK;
             i += TK_SIZE) {
            const tk_idx slot = order[TK_PAD(i)];
            const tk_idx self = TK_SOURCE_POSITION(line, slot);
            TK_STORE_RANK(i, self)
        }
        TK_BARRIER();
    }
}
