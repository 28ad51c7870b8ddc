/* primitive.cl: what the texts of the primitives share. Before them stand
 *   TK_NDIM        dimensions of the outer space, after merging
 *   TK_STORED      what memory holds; TK_VALUE the type it is computed in
 *   TK_FROM, TK_TO between the two
 *   TK_CHUNKED     where one work-item does what else a group does
 *
 * Words: [0] points of the outer space, [1] ... [TK_NDIM] its extents, then
 * for each operand its offset and TK_NDIM strides, then the primitive's own,
 * TK_OWN(0) .... */
#define TK_OWN(i) TK_WORD(1 + TK_NDIM + TK_OPERANDS * (1 + TK_NDIM) + (i))

/* Where operand o lies at point number p of the outer space. */
#define TK_PLACE(place, o, p)                                                 \
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
