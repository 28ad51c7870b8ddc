/* scan_block.cl: the scan of a block of 16 elements in x[16]. It combines
 * neighbours first, then pairs, and so on, in log2(16) steps. With TK_INDEX, it
 * also updates the indices position[16]. */
#ifdef TK_INDEX
#define TK_COMBINE_INDEX(j, from)                                             \
    position[j] = TK_REPLACES(x[j], x[from]) ? position[j] : position[from];
#else
#define TK_COMBINE_INDEX(j, from)
#endif
#define TK_SCAN_BLOCK                                                         \
    for (tk_i32 h = 1; h < 16; h *= 2)                                        \
        for (tk_i32 j = 0; j < 16; j++)                                       \
            if ((j & h) != 0) {                                               \
                const tk_i32 low = (j & ~(2 * h - 1)) + h - 1;                \
                TK_COMBINE_INDEX(j, low)                                      \
                x[j] = TK_COMBINE(x[low], x[j]);                              \
            }
