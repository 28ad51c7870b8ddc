/* numbers.cl: dequantises. A work-group has 64 units of a row. First each
 * work-item unpacks one unit to local memory. Then neighbouring work-items
 * write neighbouring elements, so that stores are coalesced. */
#define TK_CHUNK 64
TK_KERNEL tn_quantised(TK_G const tk_u32 *b, TK_G tk_f32 *c, TK_WORDS)
{
    TK_SHARED(tk_quad, blocks, TK_PITCH);
    TK_SHARED(tk_u32, integers, TK_CHUNK * 9); /* a pitch of 9 words avoids bank
                                                  conflicts */
    TK_SHARED(tk_f32, scale, TK_CHUNK * 3);    /* for each unit: the scales of
                                                  both halves, and the min */
    const tk_i32 chunks = (TK_ROW_UNITS + TK_CHUNK - 1) / TK_CHUNK;
    const tk_i32 row = (tk_i32)(TK_GROUP / chunks);
    const tk_i32 unit = (tk_i32)(TK_GROUP % chunks) * TK_CHUNK;
    const tk_i32 rest = TK_ROW_UNITS - unit;
    const tk_i32 units = rest < TK_CHUNK ? rest : TK_CHUNK;
    const tk_i32 u = TK_LOCAL;
    tk_stage(blocks, b, TK_PLACE(row, unit), 0, TK_B_END, 1,
             TK_UNIT_BYTES(units), TK_PITCH);
    TK_BARRIER();
    if (u < units) {
        const tk_block block = TK_STAGED(0, u);
        tk_u32 q[8];
        tk_i32 first, second, min;
        tk_unpack(block, u % TK_UNITS, q);
        tk_scales(block, u % TK_UNITS, &first, &second, &min);
        for (tk_i32 i = 0; i < 8; i++)
            integers[u * 9 + i] = q[i];
        scale[u * 3] = tk_mul_f32(TK_D(block), (tk_f32)first);
        scale[u * 3 + 1] = tk_mul_f32(TK_D(block), (tk_f32)second);
        scale[u * 3 + 2] =
            TK_HAS_MIN ? tk_mul_f32(TK_E(block), (tk_f32)min) : 0;
    }
    TK_BARRIER();
    const tk_i32 lane = TK_LOCAL % 32;
    TK_G tk_f32 *out = c + TK_C + row * TK_C_ROW + (tk_i64)unit * 32 + lane;
#pragma unroll 4
    for (tk_i32 i = TK_LOCAL / 32; i < units; i += TK_ITEMS / 32) {
        const tk_u32 byte = integers[i * 9 + lane / 4] >> 8 * (lane % 4);
        const tk_i32 q = (tk_i32)(tk_i8)byte - TK_ZERO;
        tk_f32 x = tk_mul_f32(scale[i * 3 + lane / 16], (tk_f32)q);
        if (TK_HAS_MIN) /* not otherwise: adding 0 would change -0 to 0 */
            x = tk_add_f32(x, scale[i * 3 + 2]);
        out[i * 32] = x;
    }
}
