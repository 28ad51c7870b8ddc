/* sort_few.cl: sorts short lines, several in each work-group. Each work-item
 * has an element and counts how many elements come before it; that number is
 * the element's rank. */
TK_KERNEL tn_sort(TK_SORT_ARGUMENTS)
{
    TK_SHARED(tk_keys, keys, TK_SIZE);
    const tk_i32 length = (tk_i32)TK_LENGTH, at_once = TK_SIZE / length;
    const tk_i32 own = TK_LOCAL / length, i = TK_LOCAL % length;
    (void)scratch;
    for (tk_idx first = TK_GROUP * at_once; first < TK_LINES;
         first += TK_GROUPS * at_once) {
        const tk_idx line = first + own;
        const tk_bool is_there = own < at_once && line < TK_LINES;
        TK_SORT_LINE(is_there ? line : 0)
        const tk_keys key = is_there ? TK_KEY(i) : 0;
        keys[TK_LOCAL] = key;
        TK_BARRIER();
        if (is_there) {
            tk_i32 before = 0;
            for (tk_i32 k = 0; k < length; k++) {
                const tk_keys other = keys[own * length + k];
                before += other < key || (other == key && k < i) ? 1 : 0;
            }
            if (before < TK_END_RANK) {
                TK_STORE_RANK(before, i)
            }
        }
        TK_BARRIER();
    }
}
