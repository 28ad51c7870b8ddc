/* many.cl: multiplies 32 rows of the input by 64 rows of the weight. A
 * work-item has 4 x 4 results, and adds the blocks to them in order. It first
 * copies the blocks of 8 units to local memory. Then it unpacks 2 units at a
 * time to records like those of the input: 8 words of integers, d, e, the two
 * scales of the unit, and its min. */
#define TK_ROWS 64
#define TK_TOKENS 32
#define TK_CHUNK 8
#define TK_SIDE 4
TK_KERNEL tn_quantised(TK_ARGUMENTS)
{
    TK_SHARED(tk_quad, blocks, TK_ROWS * TK_PITCH);
    TK_SHARED(tk_quad, weights, 2 * TK_ROWS * TK_RECORD / 4);
    TK_SHARED(tk_quad, inputs, 2 * TK_TOKENS * TK_RECORD / 4);
    const tk_i32 tiles = (TK_N + TK_ROWS - 1) / TK_ROWS;
    const tk_i32 row = (tk_i32)(TK_GROUP % tiles) * TK_ROWS;
    const tk_i32 rows = TK_N - row < TK_ROWS ? TK_N - row : TK_ROWS;
    const tk_i32 token = (tk_i32)(TK_GROUP / tiles) * TK_TOKENS;
    const tk_i32 my_row = TK_LOCAL % (TK_ROWS / TK_SIDE);
    const tk_i32 my_token = TK_LOCAL / (TK_ROWS / TK_SIDE);
    tk_f32 sum[TK_SIDE][TK_SIDE];
#if TK_IS_K
    tk_i32 dots[TK_SIDE][TK_SIDE], minus[TK_SIDE][TK_SIDE];
#endif
#pragma unroll
    for (tk_i32 j = 0; j < TK_SIDE; j++)
#pragma unroll
        for (tk_i32 t = 0; t < TK_SIDE; t++) {
            sum[j][t] = 0;
#if TK_IS_K
            dots[j][t] = minus[j][t] = 0;
#endif
        }
    for (tk_i32 unit = 0; unit < TK_ROW_UNITS; unit++) {
        const tk_i32 rest = TK_ROW_UNITS - unit;
        if (unit % TK_CHUNK == 0) {
            TK_BARRIER();
            tk_stage(blocks, b, TK_PLACE(row, unit), TK_B_ROW, TK_B_END, rows,
                     TK_UNIT_BYTES(rest < TK_CHUNK ? rest : TK_CHUNK),
                     TK_PITCH);
        }
        if (unit % 2 == 0) {
            TK_BARRIER();
            const tk_i32 j = TK_LOCAL % TK_ROWS, h = TK_LOCAL / TK_ROWS;
            TK_S tk_quad *record = weights + (h * TK_ROWS + j) * 3;
            tk_u32 q[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            tk_quad last = {{0, 0, 0, 0}};
            if (j < rows && h < rest) {
                const tk_i32 u = unit % TK_CHUNK + h;
                const tk_block block = TK_STAGED(j, u);
                tk_i32 first, second, min;
                tk_unpack(block, u % TK_UNITS, q);
                tk_scales(block, u % TK_UNITS, &first, &second, &min);
                last.w[0] = (tk_u32)tk_bits_f32(TK_D(block));
                last.w[1] = TK_HAS_MIN ? (tk_u32)tk_bits_f32(TK_E(block)) : 0u;
                last.w[2] = ((tk_u32)first & 0xffffu) | (tk_u32)second << 16;
                last.w[3] = (tk_u32)min;
            }
#pragma unroll
            for (tk_i32 i = 0; i < 2; i++) {
                tk_quad quad;
#pragma unroll
                for (tk_i32 k = 0; k < 4; k++)
                    quad.w[k] = q[4 * i + k];
                record[i] = quad;
            }
            record[2] = last;
            for (tk_i32 i = TK_LOCAL; i < 2 * TK_TOKENS * 3; i += TK_ITEMS) {
                const tk_i32 t = i / 6, part = i % 6;
                tk_quad quad = {{0, 0, 0, 0}};
                if (token + t < TK_M && part / 3 < rest)
                    quad = ((TK_G const tk_quad *)
                                rounded)[((tk_i64)(token + t) * TK_ROW_UNITS +
                                          unit) * 3 + part];
                inputs[(part / 3 * TK_TOKENS + t) * 3 + part % 3] = quad;
            }
            TK_BARRIER();
        }
        TK_S const tk_quad *w =
            weights + (unit % 2 * TK_ROWS + my_row) * 3;
        TK_S const tk_quad *x = inputs + (unit % 2 * TK_TOKENS + my_token) * 3;
        tk_quad by[TK_SIDE]; /* for each token: its scale and sums in the
                                record */
        tk_i32 part[2][TK_SIDE][TK_SIDE];
#pragma unroll
        for (tk_i32 t = 0; t < TK_SIDE; t++) {
            by[t] = x[t * (TK_TOKENS / TK_SIDE) * 3 + 2];
#pragma unroll
            for (tk_i32 j = 0; j < TK_SIDE; j++)
#pragma unroll
                for (tk_i32 i = 0; i < 2; i++)
                    part[i][j][t] =
                        i < TK_PARTS
                            ? -TK_ZERO * (tk_i32)by[t].w[TK_SUM(i) - 8]
                            : 0;
        }
#pragma unroll
        for (tk_i32 h = 0; h < 2; h++) {
            tk_quad q[TK_SIDE], r[TK_SIDE];
#pragma unroll
            for (tk_i32 i = 0; i < TK_SIDE; i++) {
                q[i] = w[i * (TK_ROWS / TK_SIDE) * 3 + h];
                r[i] = x[i * (TK_TOKENS / TK_SIDE) * 3 + h];
            }
#pragma unroll
            for (tk_i32 j = 0; j < TK_SIDE; j++)
#pragma unroll
                for (tk_i32 t = 0; t < TK_SIDE; t++)
#pragma unroll
                    for (tk_i32 k = 0; k < 4; k++)
                        part[h * TK_PARTS / 2][j][t] =
                            tk_dot4(q[j].w[k], r[t].w[k],
                                    part[h * TK_PARTS / 2][j][t]);
        }
        const bool ends = unit % TK_UNITS == TK_UNITS - 1;
#pragma unroll
        for (tk_i32 j = 0; j < TK_SIDE; j++) {
            const tk_quad of = w[j * (TK_ROWS / TK_SIDE) * 3 + 2];
            const tk_f32 d = tk_of_bits_f32(of.w[0]);
            const tk_f32 e = tk_of_bits_f32(of.w[1]);
            const tk_i32 first = (tk_i32)(tk_i16)of.w[2];
            const tk_i32 second = (tk_i32)of.w[2] >> 16;
#pragma unroll
            for (tk_i32 t = 0; t < TK_SIDE; t++) {
                const tk_f32 s = tk_of_bits_f32(by[t].w[0]);
                const tk_i32 all = (tk_i32)by[t].w[3];
#if TK_IS_K
                dots[j][t] += first * part[0][j][t];
                if (TK_PARTS == 2)
                    dots[j][t] += second * part[1][j][t];
                minus[j][t] += (tk_i32)of.w[3] * all;
                if (ends) {
                    sum[j][t] = tk_add_f32(
                        sum[j][t],
                        tk_block_value(d, e, s, dots[j][t], minus[j][t]));
                    dots[j][t] = minus[j][t] = 0;
                }
#else
                sum[j][t] = tk_add_f32(
                    sum[j][t], tk_block_value(d, e, s, part[0][j][t], all));
#endif
            }
        }
    }
#pragma unroll
    for (tk_i32 t = 0; t < TK_SIDE; t++)
#pragma unroll
        for (tk_i32 j = 0; j < TK_SIDE; j++) {
            const tk_i32 to = token + my_token + t * (TK_TOKENS / TK_SIDE);
            const tk_i32 at = row + my_row + j * (TK_ROWS / TK_SIDE);
            if (to < TK_M && at < TK_N)
                c[TK_C + to * TK_C_ROW + at] = sum[j][t];
        }
}
