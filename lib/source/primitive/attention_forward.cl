/* attention_forward.cl: the forward pass of attention. A work-group has a tile
 * of queries and loops over the tiles of keys. For each tile it computes the
 * scores, updates each row's maximum, and computes the weights relative to the
 * maximum. When a maximum rises, the sums so far are scaled down (online
 * softmax). */
#define TK_WIDEST (TK_SIZE > TK_VALUES ? TK_SIZE : TK_VALUES)

TK_KERNEL tn_attention(TK_G const TK_STORED *q, TK_G const TK_STORED *k,
                       TK_G const TK_STORED *v, TK_G const TK_MASKED *mask,
                       TK_G TK_STORED *out, TK_G tk_f32 *lse, TK_WORDS)
{
    TK_SHARED(tk_f32, queries, TK_ROWS * TK_PITCH(TK_SIZE));
    TK_SHARED(tk_f32, others, TK_KEYS * TK_PITCH(TK_WIDEST));
    TK_SHARED(tk_f32, scores, TK_ROWS * TK_PITCH(TK_KEYS));
    TK_SHARED(tk_f32, top, TK_ROWS);
    TK_SHARED(tk_f32, rescale, TK_ROWS);
    const tk_i32 y = TK_LOCAL / TK_SIDE, x = TK_LOCAL % TK_SIDE;
    const tk_idx blocks = (TK_QUERY_COUNT + TK_ROWS - 1) / TK_ROWS;
    const tk_f32 scale = tk_mul_f32(TK_SCALE, TK_LOG2E);
    for (tk_idx tile = TK_GROUP; tile < TK_TILES; tile += TK_GROUPS) {
        /* begins with the last queries: if TK_CAUSAL, they have the most
         * keys */
        const tk_idx line = tile / blocks;
        const tk_idx first = (blocks - 1 - tile % blocks) * TK_ROWS;
        const tk_idx batch = line / TK_HEADS, head = line % TK_HEADS;
        const tk_idx at_q = TK_BASE(TK_Q, batch, head);
        const tk_idx at_k = TK_BASE(TK_K, batch, head / TK_GROUP_HEADS);
        const tk_idx at_v = TK_BASE(TK_V, batch, head / TK_GROUP_HEADS);
        const tk_idx at_mask = TK_BASE(TK_MASK, batch, head);
        const tk_idx at_out = TK_BASE(TK_OUT, batch, head);
        const tk_i64 lines = (tk_i64)line * TK_WORD(3);
        tk_idx end = TK_KEY_COUNT;
#ifdef TK_CAUSAL
        if (end > first + TK_ROWS)
            end = first + TK_ROWS;
#endif
        tk_f32 sum[TK_ROWS / TK_SIDE][TK_VALUES / TK_SIDE];
        tk_f32 whole[TK_ROWS / TK_SIDE];
        TK_ZERO(sum, TK_ROWS / TK_SIDE, TK_VALUES / TK_SIDE)
        for (tk_i32 i = 0; i < TK_ROWS / TK_SIDE; i++)
            whole[i] = 0.0f;
        TK_LOAD_ROWS(queries, q, TK_Q, at_q, first, TK_ROWS, TK_QUERY_COUNT,
                 TK_SIZE, TK_FEATURE_COUNT)
        if (TK_LOCAL < TK_ROWS)
            top[TK_LOCAL] = TK_MINUS_INF;
        for (tk_idx start = 0; start < end; start += TK_KEYS) {
            TK_LOAD_ROWS(others, k, TK_K, at_k, start, TK_KEYS, TK_KEY_COUNT,
                     TK_SIZE, TK_FEATURE_COUNT)
            TK_BARRIER();
            tk_f32 score[TK_ROWS / TK_SIDE][TK_KEYS / TK_SIDE];
            TK_ZERO(score, TK_ROWS / TK_SIDE, TK_KEYS / TK_SIDE)
            TK_DOTS(score, TK_ROWS / TK_SIDE, TK_KEYS / TK_SIDE, queries,
                    others, TK_SIZE)
            for (tk_i32 i = 0; i < TK_ROWS / TK_SIDE; i++)
                for (tk_i32 j = 0; j < TK_KEYS / TK_SIDE; j++) {
                    const tk_i32 row = y + TK_SIDE * i, key = x + TK_SIDE * j;
                    score[i][j] =
                        TK_SCORE(score[i][j], first + row, start + key);
                    scores[row * TK_PITCH(TK_KEYS) + key] = score[i][j];
                }
            TK_BARRIER();
            TK_LOAD_ROWS(others, v, TK_V, at_v, start, TK_KEYS, TK_KEY_COUNT,
                     TK_VALUES, TK_VALUE_COUNT)
            if (TK_LOCAL < TK_ROWS) {
                const tk_f32 before = top[TK_LOCAL];
                tk_f32 maximum = before;
                for (tk_i32 j = 0; j < TK_KEYS; j++) {
                    const tk_f32 s = scores[TK_LOCAL * TK_PITCH(TK_KEYS) + j];
                    maximum = s > maximum ? s : maximum;
                }
                top[TK_LOCAL] = maximum;
                rescale[TK_LOCAL] =
                    before == maximum ? 1.0f
                                      : tk_attention_exp2(before - maximum);
            }
            TK_BARRIER();
            for (tk_i32 i = 0; i < TK_ROWS / TK_SIDE; i++) {
                const tk_i32 row = y + TK_SIDE * i;
                const tk_f32 maximum =
                    top[row] == TK_MINUS_INF ? 0.0f : top[row];
                whole[i] *= rescale[row];
                for (tk_i32 j = 0; j < TK_VALUES / TK_SIDE; j++)
                    sum[i][j] *= rescale[row];
                for (tk_i32 j = 0; j < TK_KEYS / TK_SIDE; j++) {
                    const tk_i32 key = x + TK_SIDE * j;
                    const tk_f32 w = tk_attention_exp2(score[i][j] - maximum);
                    whole[i] += w;
                    scores[row * TK_PITCH(TK_KEYS) + key] =
                        TK_DROP(w, lines, first + row, start + key);
                }
            }
            TK_BARRIER();
            TK_PRODUCTS(sum, TK_ROWS / TK_SIDE, TK_VALUES / TK_SIDE, scores,
                     TK_PITCH(TK_KEYS), 1, TK_KEYS, others, TK_VALUES)
            TK_BARRIER();
        }
        /* Adds up the weights of each row. Each work-item of the row has
         * already summed a part of the row. */
        for (tk_i32 i = 0; i < TK_ROWS / TK_SIDE; i++)
            scores[(y + TK_SIDE * i) * TK_PITCH(TK_KEYS) + x] = whole[i];
        TK_BARRIER();
        if (TK_LOCAL < TK_ROWS) {
            tk_f32 all = 0.0f;
            for (tk_i32 j = 0; j < TK_SIDE; j++)
                all += scores[TK_LOCAL * TK_PITCH(TK_KEYS) + j];
            const tk_f32 maximum = top[TK_LOCAL];
            const tk_bool none = maximum == TK_MINUS_INF;
            rescale[TK_LOCAL] = none ? 0.0f : 1.0f / all;
            if (first + TK_LOCAL < TK_QUERY_COUNT)
                lse[TK_OFFSET(TK_LSE) + lines + first + TK_LOCAL] =
                    none ? TK_MINUS_INF
                         : tk_fma_f32(maximum, TK_LN2, tk_attention_log(all));
        }
        TK_BARRIER();
        for (tk_i32 i = 0; i < TK_ROWS / TK_SIDE; i++)
            for (tk_i32 j = 0; j < TK_VALUES / TK_SIDE; j++) {
                const tk_i32 row = y + TK_SIDE * i, e = x + TK_SIDE * j;
                if (first + row < TK_QUERY_COUNT && e < TK_VALUE_COUNT)
                    out[at_out + (first + row) * TK_STRIDE(TK_OUT, 2) +
                        e * TK_STRIDE(TK_OUT, 3)] =
                        TK_TO(sum[i][j] * rescale[row]);
            }
        TK_BARRIER();
    }
}
