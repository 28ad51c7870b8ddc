/* scan.cl: an inclusive scan along the last dimension, in which each line (the
 * elements that are scanned together) belongs to one work-item. It combines
 * elements in rising order by TK_COMBINE. With TK_INDEX, it also writes the
 * index of the maximum or minimum so far; TK_REPLACES(x, best) says whether x
 * replaces it. Its own argument words TK_OWN(i) are: the length of a line; the
 * strides of in, out and index. */
TK_KERNEL tn_scan(TK_G const TK_STORED *in, TK_G TK_STORED *out,
#ifdef TK_INDEX
                  TK_G tk_i64 *index,
#endif
                  TK_WORDS)
{
    const tk_idx lines = (tk_idx)TK_WORD(0), length = (tk_idx)TK_OWN(0);
    for (tk_idx line = TK_FIRST; line < lines; line += TK_ITEMS) {
        TK_POINT_OFFSET(from, 0, line)
        TK_POINT_OFFSET(to, 1, line)
        TK_VALUE fold = TK_FROM(in[from]);
#ifdef TK_INDEX
        TK_POINT_OFFSET(at, 2, line)
        tk_idx best = 0;
#endif
        for (tk_idx k = 0; k < length; k++) {
            const TK_VALUE x = TK_FROM(in[from]);
#ifdef TK_INDEX
            best = TK_REPLACES(x, fold) ? k : best;
            index[at] = best;
            at += (tk_idx)TK_OWN(3);
#endif
            fold = k > 0 ? TK_COMBINE(fold, x) : x;
            out[to] = TK_TO(fold);
            from += (tk_idx)TK_OWN(1);
            to += (tk_idx)TK_OWN(2);
        }
    }
}
