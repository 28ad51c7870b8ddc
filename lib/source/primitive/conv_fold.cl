/* conv_fold.cl: the last launch of a convolution's gradient whose sum was
 * divided into 16 partial sums, called lanes, in a tile each (conv.cl). For
 * each element of c, it adds lane i and lane i + 8, then i and i + 4, and so
 * on. */
TK_KERNEL tn_conv(TK_G const TK_STORED *a, TK_G const TK_STORED *b,
                  TK_G TK_STORED *c, TK_EXTRA_BUFFERS TK_WORDS)
{
    (void)a;
    (void)b;
    const tk_idx count = (tk_idx)TK_WORD(0) * TK_M * TK_N;
    for (tk_idx at = TK_FIRST; at < count; at += TK_ITEMS) {
        TK_VALUE x[16];
        for (tk_i32 lane = 0; lane < 16; lane++)
            x[lane] = lane < TK_SHARES ? scratch[lane * count + at]
                                       : -(TK_VALUE)0;
        for (tk_i32 left = 8; left > 0; left /= 2)
            for (tk_i32 lane = 0; lane < left; lane++)
                x[lane] = TK_PLUS(x[lane], x[lane + left]);
        TK_POINT_OFFSET(at_c, 2, at / TK_N / TK_M)
        const tk_digits d = TK_J_DIGITS(at % TK_N);
        c[at_c + TK_AT_DIGITS(d, 35) + at / TK_N % TK_M * (tk_idx)TK_OWN(34)] =
            TK_TO(x[0]);
    }
}
