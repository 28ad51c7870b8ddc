/* round.cl: rounds the input of a product to records. A work-item rounds 4
 * elements, and a work-group 16 units. */
#define TK_BLOCK_ITEMS (8 * TK_UNITS)
TK_KERNEL tn_quantised(TK_ARGUMENTS)
{
    TK_SHARED(tk_u32, most, TK_ITEMS);
    TK_SHARED(tk_i32, sums, TK_ITEMS);
    const tk_i64 quad = (tk_i64)TK_GROUP * TK_ITEMS + TK_LOCAL;
    const tk_i64 row = quad / (8 * TK_ROW_UNITS);
    const bool is_inside = row < TK_M;
    tk_f32 x[4];
    tk_u32 top = 0, packed = 0;
    tk_i32 sum = 0;
    for (tk_i32 i = 0; i < 4; i++) {
        x[i] = is_inside ? a[TK_A + row * TK_A_ROW +
                             quad % (8 * TK_ROW_UNITS) * 4 + i]
                         : 0;
        /* compares magnitudes as integers, so that NaN is larger than
         * infinity */
        const tk_u32 bits = (tk_u32)tk_bits_f32(x[i]) & 0x7fffffffu;
        top = bits > top ? bits : top;
    }
    most[TK_LOCAL] = top;
    for (tk_i32 step = TK_BLOCK_ITEMS / 2; step > 0; step /= 2) {
        TK_BARRIER();
        if (TK_LOCAL % TK_BLOCK_ITEMS < step &&
            most[TK_LOCAL + step] > most[TK_LOCAL])
            most[TK_LOCAL] = most[TK_LOCAL + step];
    }
    TK_BARRIER();
    top = most[TK_LOCAL - TK_LOCAL % TK_BLOCK_ITEMS];
    const bool is_finite = top < 0x7f800000u;
    tk_f32 scale = 0;
    if (top && is_finite) {
        const tk_f32 size = tk_of_bits_f32(top);
        const tk_f32 by = size < 0x1p-100f ? 0x1p100f : 1;
        const tk_f32 inverse = tk_div_f32(127.0f, tk_mul_f32(size, by));
        scale = tk_div_f32(size, 127.0f);
        for (tk_i32 i = 0; i < 4; i++) {
            const tk_i32 r = (tk_i32)tk_rint_f32(
                tk_mul_f32(tk_mul_f32(x[i], by), inverse));
            packed |= ((tk_u32)r & 255u) << 8 * i;
            sum += r;
        }
    }
    sums[TK_LOCAL] = sum;
    TK_BARRIER();
    if (!is_inside)
        return;
    TK_G tk_u32 *record = rounded + quad / 8 * TK_RECORD;
    const tk_i32 item = TK_LOCAL % 8;
    record[item] = packed;
    if (item == 0) {
        record[8] = is_finite ? (tk_u32)tk_bits_f32(scale) : 0x7fc00000u;
        sum = 0;
        for (tk_i32 h = 0; h < 2; h++) {
            const tk_i32 at = TK_LOCAL + 4 * h;
            const tk_i32 part =
                sums[at] + sums[at + 1] + sums[at + 2] + sums[at + 3];
            record[9 + h] = (tk_u32)part;
            sum += part;
        }
        record[11] = (tk_u32)sum;
    }
}
