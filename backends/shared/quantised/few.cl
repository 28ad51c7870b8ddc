/* few.cl: multiplies TK_TOKENS rows of the input by 8 rows of the weight, 64
 * units at a time. Each work-item multiplies some of the units. Then, for each
 * result, one work-item adds the products of the units in their order. */
#define TK_ROWS 8
#define TK_CHUNK 64
#define TK_RESULTS (TK_ROWS * TK_TOKENS)
TK_KERNEL tn_quantised(TK_ARGUMENTS)
{
    TK_SHARED(tk_quad, blocks, TK_ROWS * TK_PITCH);
    /* for each result and unit: the product of the unit or, where a block has
     * several units, its integer sums */
    TK_SHARED(tk_u32, value, TK_RESULTS * (TK_CHUNK + 1));
#if TK_IS_K && TK_HAS_MIN
    TK_SHARED(tk_i32, minus, TK_RESULTS * (TK_CHUNK + 1));
#endif
    const tk_i32 tiles = (TK_N + TK_ROWS - 1) / TK_ROWS;
    const tk_i32 row = (tk_i32)(TK_GROUP % tiles) * TK_ROWS;
    const tk_i32 rows = TK_N - row < TK_ROWS ? TK_N - row : TK_ROWS;
    const tk_i32 token = (tk_i32)(TK_GROUP / tiles) * TK_TOKENS;
    const tk_i32 u = TK_LOCAL % TK_CHUNK;
    const tk_i32 my_row = TK_LOCAL % TK_ROWS, my_token = TK_LOCAL / TK_ROWS;
    const bool has_result = my_token < TK_TOKENS && my_row < rows &&
                            token + my_token < TK_M;
    tk_f32 sum = 0;
    for (tk_i32 unit = 0; unit < TK_ROW_UNITS; unit += TK_CHUNK) {
        const tk_i32 rest = TK_ROW_UNITS - unit;
        const tk_i32 units = rest < TK_CHUNK ? rest : TK_CHUNK;
        TK_BARRIER();
        tk_stage(blocks, b, TK_PLACE(row, unit), TK_B_ROW, TK_B_END, rows,
                 TK_UNIT_BYTES(units), TK_PITCH);
        TK_BARRIER();
        if (u < units) {
            tk_u32 r[TK_TOKENS][TK_RECORD];
#pragma unroll
            for (tk_i32 t = 0; t < TK_TOKENS; t++) {
                const tk_i32 from = token + t < TK_M ? token + t : TK_M - 1;
                TK_G const tk_quad *record =
                    (TK_G const tk_quad *)(rounded +
                                           ((tk_i64)from * TK_ROW_UNITS +
                                            unit + u) * TK_RECORD);
#pragma unroll
                for (tk_i32 i = 0; i < TK_RECORD / 4; i++) {
                    const tk_quad quad = record[i];
#pragma unroll
                    for (tk_i32 k = 0; k < 4; k++)
                        r[t][4 * i + k] = quad.w[k];
                }
            }
#pragma unroll
            for (tk_i32 i = 0; i < TK_ROWS / 2; i++) {
                const tk_i32 j = TK_LOCAL / TK_CHUNK + 2 * i;
                if (j >= rows)
                    break;
                const tk_block block = TK_STAGED(j, u);
                tk_u32 q[8];
                tk_i32 first, second, min;
                tk_unpack(block, u % TK_UNITS, q);
                tk_scales(block, u % TK_UNITS, &first, &second, &min);
#pragma unroll
                for (tk_i32 t = 0; t < TK_TOKENS; t++) {
                    tk_i32 part[2] = {0, 0};
#pragma unroll
                    for (tk_i32 i = 0; i < TK_PARTS; i++)
                        part[i] = -TK_ZERO * (tk_i32)r[t][TK_SUM(i)];
#pragma unroll
                    for (tk_i32 i = 0; i < 8; i++)
                        part[i * TK_PARTS / 8] = tk_dot4(
                            q[i], r[t][i], part[i * TK_PARTS / 8]);
                    const tk_i32 dot = first * part[0] + second * part[1];
                    const tk_i32 at = (t * TK_ROWS + j) * (TK_CHUNK + 1) + u;
#if TK_IS_K
                    value[at] = (tk_u32)dot;
#if TK_HAS_MIN
                    minus[at] = min * (tk_i32)r[t][11];
#endif
#else
                    value[at] = (tk_u32)tk_bits_f32(tk_block_value(
                        TK_D(block), TK_HAS_MIN ? TK_E(block) : 0,
                        tk_of_bits_f32(r[t][8]), dot, (tk_i32)r[t][11]));
#endif
                }
            }
        }
        TK_BARRIER();
        if (has_result) {
            const tk_i32 at = TK_LOCAL * (TK_CHUNK + 1);
#if TK_IS_K
            TK_G const tk_u32 *scale =
                rounded + ((tk_i64)(token + my_token) * TK_ROW_UNITS + unit) *
                              TK_RECORD + 8;
            for (tk_i32 i = 0; i < units; i += TK_UNITS) {
                const tk_block block = TK_STAGED(my_row, i);
                tk_i32 dot = 0, less = 0;
#pragma unroll
                for (tk_i32 k = 0; k < TK_UNITS; k++) {
                    dot += (tk_i32)value[at + i + k];
#if TK_HAS_MIN
                    less += minus[at + i + k];
#endif
                }
                sum = tk_add_f32(
                    sum, tk_block_value(
                             TK_D(block), TK_HAS_MIN ? TK_E(block) : 0,
                             tk_of_bits_f32(scale[i * TK_RECORD]), dot, less));
            }
#else
#pragma unroll 8
            for (tk_i32 i = 0; i < units; i++)
                sum = tk_add_f32(sum, tk_of_bits_f32(value[at + i]));
#endif
        }
    }
    if (has_result)
        c[TK_C + (token + my_token) * TK_C_ROW + row + my_row] = sum;
}
