/* scan_line.cl: the scan of a line (the elements that are scanned together)
 * that has only a few chunks of 1024 elements, which is read and written once.
 * A work-group has a line. Each of the TK_CHUNKS chunks belongs to 64 of its
 * work-items. The operations and their order are the same as in the three
 * launches of scan_team.cl. It has the same argument words as scan.cl. */
#define TK_TEAM 64
#define TK_AT(i) ((i) + (i) / 16) /* padded, so that blocks begin in different
                                   * banks of local memory */

TK_KERNEL tn_scan(TK_G const TK_STORED *in, TK_G TK_STORED *out, TK_WORDS)
{
    TK_SHARED(TK_VALUE, element, TK_CHUNKS * TK_AT(1024));
    /* last elements of the blocks of 16 elements,
     * after the scan of each block */
    TK_SHARED(TK_VALUE, final, TK_CHUNKS * TK_TEAM);
    TK_SHARED(TK_VALUE, total, 16); /* last elements of the chunks of 1024
                                     * elements, after the scan of each chunk */
    const tk_idx lines = (tk_idx)TK_WORD(0), length = (tk_idx)TK_OWN(0);
    const tk_i32 chunk = TK_LOCAL / TK_TEAM, item = TK_LOCAL % TK_TEAM;
    const tk_i32 here = chunk * TK_AT(1024), blocks = chunk * TK_TEAM;
    const tk_idx start = chunk * 1024, left = length - start;
    const tk_i32 n = (tk_i32)(left < 0 ? 0 : left < 1024 ? left : 1024);
    for (tk_idx line = TK_GROUP; line < lines; line += TK_GROUPS) {
        TK_POINT_OFFSET(from, 0, line)
        TK_POINT_OFFSET(to, 1, line)
#pragma unroll 8
        for (tk_i32 i = item; i < n; i += TK_TEAM)
            element[here + TK_AT(i)] =
                TK_FROM(in[from + (start + i) * (tk_idx)TK_OWN(1)]);
        TK_BARRIER();
        const tk_i32 rest = n - item * 16, size = rest < 16 ? rest : 16;
        if (size > 0) {
            const tk_i32 block = here + TK_AT(item * 16);
            TK_VALUE x[16];
            for (tk_i32 j = 0; j < 16; j++)
                x[j] = element[block + (j < size ? j : 0)];
            TK_SCAN_BLOCK
            for (tk_i32 j = 0; j < 16; j++)
                if (j < size)
                    element[block + j] = x[j];
            final[blocks + item] = element[block + size - 1];
        }
        TK_BARRIER();
        if (item == 0 && n > 0) {
            TK_VALUE fold = final[blocks];
#pragma unroll 16
            for (tk_i32 b = 1; b < (n + 15) / 16; b++) {
                fold = TK_COMBINE(fold, final[blocks + b]);
                final[blocks + b] = fold;
            }
            total[chunk] = fold;
        }
        TK_BARRIER();
        if (TK_LOCAL == 0) {
            TK_VALUE x[16];
            const tk_i32 chunks = (tk_i32)((length + 1023) / 1024);
            for (tk_i32 j = 0; j < 16; j++)
                x[j] = total[j < chunks ? j : 0];
            TK_SCAN_BLOCK
            for (tk_i32 j = 0; j < TK_CHUNKS; j++)
                total[j] = x[j];
        }
        TK_BARRIER();
#pragma unroll 8
        for (tk_i32 i = item; i < n; i += TK_TEAM) {
            TK_VALUE x = element[here + TK_AT(i)];
            if (i >= 16)
                x = TK_COMBINE(final[blocks + i / 16 - 1], x);
            if (chunk > 0)
                x = TK_COMBINE(total[chunk - 1], x);
            out[to + (start + i) * (tk_idx)TK_OWN(2)] = TK_TO(x);
        }
        TK_BARRIER();
    }
}
