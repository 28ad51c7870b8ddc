/* scan.cl: inclusive scan along the last dimension, one work-item per line, in
 * rising order. TK_FOLD combines. With TK_INDEX it also writes the index of the
 * running maximum or minimum; TK_TAKES(x, best) says whether x replaces it.
 * Arguments of its own: length; the strides of in, out and index. */
TK_KERNEL tn_scan(TK_G const TK_STORED *in, TK_G TK_STORED *out,
#ifdef TK_INDEX
                  TK_G tk_i64 *index,
#endif
                  TK_WORDS)
{
    const tk_idx lines = (tk_idx)TK_WORD(0), length = (tk_idx)TK_OWN(0);
    for (tk_idx line = TK_FIRST; line < lines; line += TK_ITEMS) {
        TK_PLACE(from, 0, line)
        TK_PLACE(to, 1, line)
        TK_VALUE fold = TK_FROM(in[from]);
#ifdef TK_INDEX
        TK_PLACE(at, 2, line)
        tk_idx best = 0;
#endif
        for (tk_idx k = 0; k < length; k++) {
            const TK_VALUE x = TK_FROM(in[from]);
#ifdef TK_INDEX
            best = TK_TAKES(x, fold) ? k : best;
            index[at] = best;
            at += (tk_idx)TK_OWN(3);
#endif
            fold = k > 0 ? TK_FOLD(fold, x) : x;
            out[to] = TK_TO(fold);
            from += (tk_idx)TK_OWN(1);
            to += (tk_idx)TK_OWN(2);
        }
    }
}
