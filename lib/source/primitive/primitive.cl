/* primitive.cl: what the .cl files of the primitives (matrix products, scans,
 * sorts, scatters, convolutions) share. The outer space is the iteration space
 * of all dimensions except the one along which the primitive works. These
 * macros are defined before it:
 *   TK_NDIM          number of dimensions of the outer space, after merging
 *   TK_STORED        dtype of the elements
 *   TK_VALUE         type in which they are computed
 *   TK_FROM, TK_TO   conversions from TK_STORED to TK_VALUE, and back
 *   TK_CHUNKED       one work-item does the work of a work-group
 *
 * The argument words are: [0] the number of points of the outer space; [1] to
 * [TK_NDIM] its extents; for each operand, its offset and TK_NDIM strides; then
 * the primitive's own arguments TK_OWN(0), TK_OWN(1) and so on. */
#define TK_OWN(i) TK_WORD(1 + TK_NDIM + TK_OPERANDS * (1 + TK_NDIM) + (i))

/* Declares the variable `place`, the offset of operand o at the point with
 * row-major index p of the outer space. */
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
