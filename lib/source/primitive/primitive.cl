/* primitive.cl: what the texts of the primitives share. Defined before it:
 *   TK_NDIM        merged dimensions of the outer space
 *   TK_STORED      the storage type; TK_VALUE the type of the computation
 *   TK_FROM, TK_TO conversions between the two
 *   TK_CHUNKED     one work-item does the work of a work-group
 *
 * Argument words: [0] points of the outer space; [1] ... [TK_NDIM] its extents;
 * for each operand its offset and TK_NDIM strides; then the primitive's own
 * arguments TK_OWN(0) ... */
#define TK_OWN(i) TK_WORD(1 + TK_NDIM + TK_OPERANDS * (1 + TK_NDIM) + (i))

/* The offset `place` of operand o at point number p of the outer space. */
#define TK_POINT_OFFSET(place, o, p)                                          \
    tk_idx place = (tk_idx)TK_WORD(1 + TK_NDIM + (o) * (1 + TK_NDIM));        \
    {                                                                         \
        tk_idx rest = (p);                                                    \
        for (tk_i32 d = TK_NDIM - 1; d > 0; d--) {                            \
            const tk_idx extent = (tk_idx)TK_WORD(1 + d);                     \
            place += rest % extent *                                          \
                     (tk_idx)TK_WORD(2 + TK_NDIM + (o) * (1 + TK_NDIM) + d);  \
            rest /= extent;                                                   \
        }                                                                     \
        place += rest *                                                       \
                 (tk_idx)TK_WORD(2 + TK_NDIM + (o) * (1 + TK_NDIM));          \
    }
#define TK_FIRST (TK_GROUP * TK_GROUP_SIZE + TK_LOCAL)
#define TK_ITEMS (TK_GROUPS * TK_GROUP_SIZE)
