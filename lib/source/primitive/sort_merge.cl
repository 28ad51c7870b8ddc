/* sort_merge.cl: sorts a line of any length by a merge sort in one work-item
 * (TK_CHUNKED). Only positions are moved, between two arrays in scratch
 * memory. */
TK_KERNEL tn_sort(TK_SORT_ARGUMENTS)
{
    const tk_idx length = TK_LENGTH;
    TK_G tk_idx *sorted = (TK_G tk_idx *)scratch + TK_GROUP * 2 * length;
    TK_G tk_idx *merged = sorted + length;
    for (tk_idx line = TK_GROUP; line < TK_LINES; line += TK_GROUPS) {
        TK_SORT_LINE(line)
        for (tk_idx i = 0; i < length; i++)
            sorted[i] = i;
        for (tk_idx width = 1; width < length; width *= 2) {
            for (tk_idx start = 0; start < length; start += 2 * width) {
                const tk_idx middle =
                    start + width < length ? start + width : length;
                const tk_idx end =
                    middle + width < length ? middle + width : length;
                tk_idx left = start, right = middle;
                tk_keys x = TK_KEY(sorted[left]), y = 0;
                if (right < end)
                    y = TK_KEY(sorted[right]);
                for (tk_idx to = start; to < end; to++) {
                    if (left < middle && (right == end || x <= y)) {
                        merged[to] = sorted[left++];
                        if (left < middle)
                            x = TK_KEY(sorted[left]);
                    } else {
                        merged[to] = sorted[right++];
                        if (right < end)
                            y = TK_KEY(sorted[right]);
                    }
                }
            }
            TK_G tk_idx *const kept = sorted;
            sorted = merged;
            merged = kept;
        }
        for (tk_idx i = 0; i < TK_END_RANK; i++) {
            const tk_idx self = sorted[i];
            TK_STORE_RANK(i, self)
        }
    }
}
