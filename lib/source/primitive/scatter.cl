/* scatter.cl: stores elements at indices, and combines elements with the same
 * destination (scatter_add and others). A line is the elements along the
 * dimension of the scatter; only elements of one line can have the same
 * destination. Each line belongs to one work-item, which stores its elements in
 * rising order. TK_COMBINE(old, x) is the value that is stored.
 *
 * Its own argument words TK_OWN(i) are: the length of a line; the strides along
 * it of index, src and dst; the extent of dst; the stride of the row-major
 * index; tag, launch and room of fault reports. Operand 3 has the row-major
 * index of the first element of each line. */
TK_KERNEL tn_scatter(TK_G TK_STORED *dst, TK_G const tk_i64 *index,
                     TK_G const TK_STORED *src, TK_G tk_u32 *faults, TK_WORDS)
{
    const tk_idx lines = (tk_idx)TK_WORD(0), length = (tk_idx)TK_OWN(0);
    tk_fault fault = tk_fault_none();
    for (tk_idx line = TK_FIRST; line < lines; line += TK_ITEMS) {
        TK_POINT_OFFSET(to, 0, line)
        TK_POINT_OFFSET(at, 1, line)
        TK_POINT_OFFSET(from, 2, line)
        for (tk_idx k = 0; k < length; k++) {
            const tk_i64 i = index[at];
            if (i < 0 || i >= TK_OWN(4)) {
                TK_POINT_OFFSET(position, 3, line)
                fault = tk_fault_at(fault, (tk_i64)position + k * TK_OWN(5), 0,
                                    0, i, TK_OWN(4));
            } else {
                const tk_idx q = to + (tk_idx)i * (tk_idx)TK_OWN(3);
                const TK_VALUE x = TK_FROM(src[from]);
                dst[q] = TK_TO(TK_COMBINE(TK_FROM(dst[q]), x));
            }
            at += (tk_idx)TK_OWN(1);
            from += (tk_idx)TK_OWN(2);
        }
    }
    TK_FAULT_REPORT(faults, fault, TK_OWN(6), TK_OWN(7), TK_OWN(8))
}
