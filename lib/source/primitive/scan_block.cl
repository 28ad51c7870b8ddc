/* scan_block.cl: scan of a block of 16 elements by halves, in x[16] and, with
 * TK_INDEX, place[16]. */
#ifdef TK_INDEX
#define TK_TAKE(j, from)                                                      \
    place[j] = TK_TAKES(x[j], x[from]) ? place[j] : place[from];
#else
#define TK_TAKE(j, from)
#endif
#define TK_BY_HALVES                                                          \
    for (tk_i32 h = 1; h < 16; h *= 2)                                        \
        for (tk_i32 j = 0; j < 16; j++)                                       \
            if ((j & h) != 0) {                                               \
                const tk_i32 low = (j & ~(2 * h - 1)) + h - 1;                \
                TK_TAKE(j, low)                                               \
                x[j] = TK_FOLD(x[low], x[j]);                                 \
            }
