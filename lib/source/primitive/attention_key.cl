/* attention_key.cl: the gradients of keys and values. A work-group has a tile
 * of keys and loops over the queries of all heads that attend to them. `means`
 * was written by attention_query.cl, which ran before. */
TK_KERNEL tn_attention(TK_G const TK_STORED *q, TK_G const TK_STORED *k,
                       TK_G const TK_STORED *v, TK_G const TK_MASKED *mask,
                       TK_G const TK_STORED *out, TK_G const tk_f32 *lse,
                       TK_G const TK_STORED *g, TK_G TK_STORED *dq,
                       TK_G TK_STORED *dk, TK_G TK_STORED *dv,
                       TK_G const tk_f32 *means, TK_WORDS)
{
    TK_SHARED(tk_f32, queries, TK_ROWS * TK_PITCH(TK_SIZE));
    TK_SHARED(tk_f32, gradients, TK_ROWS * TK_PITCH(TK_VALUES));
    TK_SHARED(tk_f32, keys, TK_KEYS * TK_PITCH(TK_SIZE));
    TK_SHARED(tk_f32, values, TK_KEYS * TK_PITCH(TK_VALUES));
    TK_SHARED(tk_f32, ds, TK_ROWS * TK_PITCH(TK_KEYS));
    TK_SHARED(tk_f32, weights, TK_ROWS * TK_PITCH(TK_KEYS));
    TK_SHARED(tk_f32, logsumexp, TK_ROWS);
    TK_SHARED(tk_f32, mean, TK_ROWS);
    const tk_i32 y = TK_LOCAL / TK_SIDE, x = TK_LOCAL % TK_SIDE;
    const tk_idx blocks = (TK_KEY_COUNT + TK_KEYS - 1) / TK_KEYS;
    /* number of heads of k */
    const tk_idx key_heads = TK_HEADS / TK_GROUP_HEADS;
    const tk_f32 scale = tk_mul_f32(TK_SCALE, TK_LOG2E);
    (void)out;
    (void)dq;
    for (tk_idx tile = TK_GROUP; tile < TK_TILES; tile += TK_GROUPS) {
        const tk_idx line = tile / blocks;
        const tk_idx start = tile % blocks * TK_KEYS;
        const tk_idx batch = line / key_heads, own = line % key_heads;
        const tk_idx at_k = TK_BASE(TK_K, batch, own);
        const tk_idx at_v = TK_BASE(TK_V, batch, own);
        const tk_idx at_dk = TK_BASE(TK_DK, batch, own);
        const tk_idx at_dv = TK_BASE(TK_DV, batch, own);
        tk_f32 by_k[TK_KEYS / TK_SIDE][TK_SIZE / TK_SIDE];
        tk_f32 by_v[TK_KEYS / TK_SIDE][TK_VALUES / TK_SIDE];
        TK_ZERO(by_k, TK_KEYS / TK_SIDE, TK_SIZE / TK_SIDE)
        TK_ZERO(by_v, TK_KEYS / TK_SIDE, TK_VALUES / TK_SIDE)
        TK_LOAD_ROWS(keys, k, TK_K, at_k, start, TK_KEYS, TK_KEY_COUNT, TK_SIZE,
                 TK_FEATURE_COUNT)
        TK_LOAD_ROWS(values, v, TK_V, at_v, start, TK_KEYS, TK_KEY_COUNT,
                 TK_VALUES, TK_VALUE_COUNT)
        tk_idx from = 0;
#ifdef TK_CAUSAL
        /* earlier queries do not attend to these keys */
        from = start / TK_ROWS * TK_ROWS;
#endif
        for (tk_idx head = own * TK_GROUP_HEADS;
             head < (own + 1) * TK_GROUP_HEADS; head++) {
            const tk_idx at_q = TK_BASE(TK_Q, batch, head);
            const tk_idx at_g = TK_BASE(TK_GRADIENT, batch, head);
            const tk_idx at_mask = TK_BASE(TK_MASK, batch, head);
            const tk_i64 lines =
                ((tk_i64)batch * TK_HEADS + head) * TK_WORD(3);
            for (tk_idx first = from; first < TK_QUERY_COUNT;
                 first += TK_ROWS) {
                TK_LOAD_ROWS(queries, q, TK_Q, at_q, first, TK_ROWS,
                         TK_QUERY_COUNT, TK_SIZE, TK_FEATURE_COUNT)
                TK_LOAD_ROWS(gradients, g, TK_GRADIENT, at_g, first, TK_ROWS,
                         TK_QUERY_COUNT, TK_VALUES, TK_VALUE_COUNT)
                if (TK_LOCAL < TK_ROWS) {
                    const tk_idx row = first + TK_LOCAL;
                    logsumexp[TK_LOCAL] = TK_LOGSUMEXP(lines, row);
                    mean[TK_LOCAL] =
                        row < TK_QUERY_COUNT ? means[lines + row] : 0.0f;
                }
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
                        const tk_i32 row = y + TK_SIDE * i;
                        const tk_i32 key = x + TK_SIDE * j;
                        const tk_i32 at = row * TK_PITCH(TK_KEYS) + key;
                        const tk_f32 p = tk_attention_exp2(
                            TK_SCORE(score[i][j], first + row, start + key) -
                            logsumexp[row]);
                        const tk_f32 d = TK_DROP(dp[i][j], lines,
                                                 first + row, start + key);
                        ds[at] = p * (d - mean[row]);
                        weights[at] =
                            TK_DROP(p, lines, first + row, start + key);
                    }
                TK_BARRIER();
                TK_PRODUCTS(by_v, TK_KEYS / TK_SIDE, TK_VALUES / TK_SIDE,
                         weights, 1, TK_PITCH(TK_KEYS), TK_ROWS, gradients,
                         TK_VALUES)
                TK_PRODUCTS(by_k, TK_KEYS / TK_SIDE, TK_SIZE / TK_SIDE, ds, 1,
                         TK_PITCH(TK_KEYS), TK_ROWS, queries, TK_SIZE)
                TK_BARRIER();
            }
        }
        for (tk_i32 i = 0; i < TK_KEYS / TK_SIDE; i++) {
            const tk_idx key = start + y + TK_SIDE * i;
            if (key >= TK_KEY_COUNT)
                continue;
            for (tk_i32 j = 0; j < TK_SIZE / TK_SIDE; j++)
                if (x + TK_SIDE * j < TK_FEATURE_COUNT)
                    dk[at_dk + key * TK_STRIDE(TK_DK, 2) +
                       (x + TK_SIDE * j) * TK_STRIDE(TK_DK, 3)] =
                        TK_TO(by_k[i][j] * TK_SCALE);
            for (tk_i32 j = 0; j < TK_VALUES / TK_SIDE; j++)
                if (x + TK_SIDE * j < TK_VALUE_COUNT)
                    dv[at_dv + key * TK_STRIDE(TK_DV, 2) +
                       (x + TK_SIDE * j) * TK_STRIDE(TK_DV, 3)] =
                        TK_TO(by_v[i][j]);
        }
        TK_BARRIER();
    }
}
