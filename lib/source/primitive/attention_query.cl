/* attention_query.cl: the gradient of the queries. Let p[i][j] be the weight of
 * query i and key j, and d[i][j] its gradient. The gradient of the score is
 * p[i][j] * (d[i][j] - sum over j of p[i][j] * d[i][j]). That sum equals the
 * dot product of row i of the output and row i of its gradient. It is also
 * written to `means`, for attention_key.cl. */
TK_KERNEL tn_attention(TK_G const TK_STORED *q, TK_G const TK_STORED *k,
                       TK_G const TK_STORED *v, TK_G const TK_MASKED *mask,
                       TK_G const TK_STORED *out, TK_G const tk_f32 *lse,
                       TK_G const TK_STORED *g, TK_G TK_STORED *dq,
                       TK_G TK_STORED *dk, TK_G TK_STORED *dv,
                       TK_G tk_f32 *means, TK_WORDS)
{
    TK_SHARED(tk_f32, queries, TK_ROWS * TK_PITCH(TK_SIZE));
    TK_SHARED(tk_f32, gradients, TK_ROWS * TK_PITCH(TK_VALUES));
    TK_SHARED(tk_f32, keys, TK_KEYS * TK_PITCH(TK_SIZE));
    TK_SHARED(tk_f32, values, TK_KEYS * TK_PITCH(TK_VALUES));
    TK_SHARED(tk_f32, ds, TK_ROWS * TK_PITCH(TK_KEYS));
    TK_SHARED(tk_f32, logsumexp, TK_ROWS);
    TK_SHARED(tk_f32, mean, TK_ROWS);
    const tk_i32 y = TK_LOCAL / TK_SIDE, x = TK_LOCAL % TK_SIDE;
    const tk_idx blocks = (TK_QUERY_COUNT + TK_ROWS - 1) / TK_ROWS;
    const tk_f32 scale = tk_mul_f32(TK_SCALE, TK_LOG2E);
    (void)dk;
    (void)dv;
    for (tk_idx tile = TK_GROUP; tile < TK_TILES; tile += TK_GROUPS) {
        const tk_idx line = tile / blocks;
        const tk_idx first = (blocks - 1 - tile % blocks) * TK_ROWS;
        const tk_idx batch = line / TK_HEADS, head = line % TK_HEADS;
        const tk_idx at_q = TK_BASE(TK_Q, batch, head);
        const tk_idx at_k = TK_BASE(TK_K, batch, head / TK_GROUP_HEADS);
        const tk_idx at_v = TK_BASE(TK_V, batch, head / TK_GROUP_HEADS);
        const tk_idx at_mask = TK_BASE(TK_MASK, batch, head);
        const tk_idx at_out = TK_BASE(TK_OUT, batch, head);
        const tk_idx at_g = TK_BASE(TK_GRADIENT, batch, head);
        const tk_idx at_dq = TK_BASE(TK_DQ, batch, head);
        const tk_i64 lines = (tk_i64)line * TK_WORD(3);
        tk_idx end = TK_KEY_COUNT;
#ifdef TK_CAUSAL
        if (end > first + TK_ROWS)
            end = first + TK_ROWS;
#endif
        tk_f32 sum[TK_ROWS / TK_SIDE][TK_SIZE / TK_SIDE];
        TK_ZERO(sum, TK_ROWS / TK_SIDE, TK_SIZE / TK_SIDE)
        TK_LOAD_ROWS(queries, q, TK_Q, at_q, first, TK_ROWS, TK_QUERY_COUNT,
                 TK_SIZE, TK_FEATURE_COUNT)
        TK_LOAD_ROWS(gradients, g, TK_GRADIENT, at_g, first, TK_ROWS,
                 TK_QUERY_COUNT, TK_VALUES, TK_VALUE_COUNT)
        TK_BARRIER();
        if (TK_LOCAL < TK_ROWS) {
            const tk_idx row = first + TK_LOCAL;
            tk_f32 part = 0.0f;
            if (row < TK_QUERY_COUNT) {
                for (tk_i32 e = 0; e < TK_VALUE_COUNT; e++)
                    part = tk_fma_f32(
                        TK_FROM(out[at_out + row * TK_STRIDE(TK_OUT, 2) +
                                    e * TK_STRIDE(TK_OUT, 3)]),
                        gradients[TK_LOCAL * TK_PITCH(TK_VALUES) + e], part);
                means[lines + row] = part;
            }
            mean[TK_LOCAL] = part;
            logsumexp[TK_LOCAL] = TK_LOGSUMEXP(lines, row);
        }
        for (tk_idx start = 0; start < end; start += TK_KEYS) {
            TK_LOAD_ROWS(keys, k, TK_K, at_k, start, TK_KEYS, TK_KEY_COUNT,
                     TK_SIZE, TK_FEATURE_COUNT)
            TK_LOAD_ROWS(values, v, TK_V, at_v, start, TK_KEYS, TK_KEY_COUNT,
                     TK_VALUES, TK_VALUE_COUNT)
            TK_BARRIER();
            tk_f32 score[TK_ROWS / TK_SIDE][TK_KEYS / TK_SIDE];
            tk_f32 dp[TK_ROWS / TK_SIDE][TK_KEYS / TK_SIDE];
            TK_ZERO(score, TK_ROWS / TK_SIDE, TK_KEYS / TK_SIDE)
            TK_ZERO(dp, TK_ROWS / TK_SIDE, TK_KEYS / TK_SIDE)
            TK_DOTS(score, TK_ROWS / TK_SIDE, TK_KEYS / TK_SIDE, queries,
                    keys, TK_SIZE)
            TK_DOTS(dp, TK_ROWS / TK_SIDE, TK_KEYS / TK_SIDE, gradients,
                    values, TK_VALUES)
            for (tk_i32 i = 0; i < TK_ROWS / TK_SIDE; i++)
                for (tk_i32 j = 0; j < TK_KEYS / TK_SIDE; j++) {
                    const tk_i32 row = y + TK_SIDE * i, key = x + TK_SIDE * j;
                    const tk_f32 p = tk_attention_exp2(
                        TK_SCORE(score[i][j], first + row, start + key) -
                        logsumexp[row]);
                    const tk_f32 d =
                        TK_DROP(dp[i][j], lines, first + row, start + key);
                    ds[row * TK_PITCH(TK_KEYS) + key] = p * (d - mean[row]);
                }
            TK_BARRIER();
            TK_PRODUCTS(sum, TK_ROWS / TK_SIDE, TK_SIZE / TK_SIDE, ds,
                     TK_PITCH(TK_KEYS), 1, TK_KEYS, keys, TK_SIZE)
            TK_BARRIER();
        }
        for (tk_i32 i = 0; i < TK_ROWS / TK_SIDE; i++)
            for (tk_i32 j = 0; j < TK_SIZE / TK_SIDE; j++) {
                const tk_i32 row = y + TK_SIDE * i, e = x + TK_SIDE * j;
                if (first + row < TK_QUERY_COUNT && e < TK_FEATURE_COUNT)
                    dq[at_dq + (first + row) * TK_STRIDE(TK_DQ, 2) +
                       e * TK_STRIDE(TK_DQ, 3)] = TK_TO(sum[i][j] * TK_SCALE);
            }
    }
}
