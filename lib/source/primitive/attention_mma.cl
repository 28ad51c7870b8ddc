/* attention_mma.cl: the forward pass of attention (attention_forward.cl) on
 * tensor cores, with the macros of attention_tensor.cl. The queries stay in
 * registers. The next keys are loaded while values are multiplied, and the next
 * values while keys are multiplied. */
extern "C" __global__ void __launch_bounds__(32 * TK_WARPS)
    tn_attention(const TK_STORED *q, const TK_STORED *k, const TK_STORED *v,
                 const TK_MASKED *mask, TK_STORED *out, tk_f32 *lse, TK_WORDS)
{
    /* `keys` first has the queries, then tiles of keys */
    __shared__ __align__(16) uint4 keys[TK_KEYS * TK_UNITS(TK_SIZE)];
    __shared__ __align__(16) uint4 values[TK_KEYS * TK_UNITS(TK_VALUES)];
    const int lane = TK_LOCAL % 32, warp = TK_LOCAL / 32;
    const tk_idx blocks = (TK_QUERY_COUNT + TK_ROWS - 1) / TK_ROWS;
    const float scale = tk_mul_f32(TK_SCALE, TK_LOG2E);
    for (tk_idx tile = TK_GROUP; tile < TK_TILES; tile += TK_GROUPS) {
        const tk_idx line = tile / blocks;
        const tk_idx first = (blocks - 1 - tile % blocks) * TK_ROWS;
        const tk_idx batch = line / TK_HEADS, head = line % TK_HEADS;
        const tk_idx at_q = TK_BASE(TK_Q, batch, head);
        const tk_idx at_k = TK_BASE(TK_K, batch, head / TK_GROUP_HEADS);
        const tk_idx at_v = TK_BASE(TK_V, batch, head / TK_GROUP_HEADS);
        const tk_idx at_mask = TK_BASE(TK_MASK, batch, head);
        const tk_idx at_out = TK_BASE(TK_OUT, batch, head);
        const tk_i64 lines = (tk_i64)line * TK_WORD(3);
        /* of the result, this lane has rows `row` and row + 8 */
        const tk_idx row = first + 16 * warp + lane / 4;
        tk_idx end = TK_KEY_COUNT;
#ifdef TK_CAUSAL
        if (end > first + TK_ROWS)
            end = first + TK_ROWS;
#endif
        unsigned query[TK_SIZE / 16][4];
        float sum[TK_VALUES / 8][4];
        float maximum[2] = {TK_MINUS_INF, TK_MINUS_INF};
        float whole[2] = {0.0f, 0.0f};
        TK_CLEAR(sum, TK_VALUES / 8)
        TK_LOAD(keys, q, TK_Q, at_q, first, TK_ROWS, TK_QUERY_COUNT, TK_SIZE,
                TK_FEATURE_COUNT)
        tk_copies_wait();
        TK_BARRIER();
#pragma unroll
        for (int e = 0; e < TK_SIZE / 16; e++)
            TK_LEFT(query[e], keys, TK_SIZE, 16 * warp, 2 * e)
        TK_BARRIER();
        TK_LOAD(keys, k, TK_K, at_k, 0, TK_KEYS, TK_KEY_COUNT, TK_SIZE,
                TK_FEATURE_COUNT)
        for (tk_idx start = 0; start < end; start += TK_KEYS) {
            float score[TK_KEYS / 8][4];
            tk_copies_wait();
            TK_BARRIER();
            TK_LOAD(values, v, TK_V, at_v, start, TK_KEYS, TK_KEY_COUNT,
                    TK_VALUES, TK_VALUE_COUNT)
            TK_CLEAR(score, TK_KEYS / 8)
#pragma unroll
            for (int e = 0; e < TK_SIZE / 16; e++)
#pragma unroll
                for (int n = 0; n < TK_KEYS / 8; n += 2) {
                    unsigned b[4];
                    TK_COLUMNS(b, keys, TK_SIZE, 8 * n, 2 * e)
                    tk_mma(score[n], query[e], b[0], b[1]);
                    tk_mma(score[n + 1], query[e], b[2], b[3]);
                }
            tk_bool all = start + TK_KEYS <= TK_KEY_COUNT;
#ifdef TK_CAUSAL
            all = all && start + TK_KEYS <= first + 1;
#endif
#if defined TK_IS_HIDDEN || defined TK_MASK_VALUE
            all = false;
#endif
            float before[2] = {maximum[0], maximum[1]}, base[2], rescale[2];
#pragma unroll
            for (int n = 0; n < TK_KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const tk_idx key = start + 8 * n + lane % 4 * 2 + i % 2;
                    score[n][i] =
                        all ? score[n][i] * scale
                            : TK_SCORE(score[n][i], row + i / 2 * 8, key);
                    maximum[i / 2] = score[n][i] > maximum[i / 2] ? score[n][i]
                                                            : maximum[i / 2];
                }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                /* A row's scores are in four lanes. Take the maximum of all
                 * four. */
                maximum[h] = fmaxf(maximum[h], tk_other_lane(maximum[h], 1));
                maximum[h] = fmaxf(maximum[h], tk_other_lane(maximum[h], 2));
                base[h] = maximum[h] == TK_MINUS_INF ? 0.0f : maximum[h];
                rescale[h] = before[h] == maximum[h]
                              ? 1.0f
                              : tk_attention_exp2(before[h] - maximum[h]);
                whole[h] *= rescale[h];
            }
#pragma unroll
            for (int n = 0; n < TK_VALUES / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[n][i] *= rescale[i / 2];
#pragma unroll
            for (int n = 0; n < TK_KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float w =
                        tk_attention_exp2(score[n][i] - base[i / 2]);
                    whole[i / 2] += w;
                    score[n][i] =
                        TK_DROP(w, lines, row + i / 2 * 8,
                                start + 8 * n + lane % 4 * 2 + i % 2);
                }
            tk_copies_wait();
            TK_BARRIER();
            if (start + TK_KEYS < end) {
                TK_LOAD(keys, k, TK_K, at_k, start + TK_KEYS, TK_KEYS,
                        TK_KEY_COUNT, TK_SIZE, TK_FEATURE_COUNT)
            }
            TK_MULTIPLY_WEIGHTS(sum, score, TK_KEYS / 8, values, TK_VALUES)
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const tk_idx i = row + 8 * h;
            whole[h] += tk_other_lane(whole[h], 1);
            whole[h] += tk_other_lane(whole[h], 2);
            const tk_bool none = maximum[h] == TK_MINUS_INF;
            const float part = none ? 0.0f : 1.0f / whole[h];
            if (i >= TK_QUERY_COUNT)
                continue;
            if (lane % 4 == 0)
                lse[TK_OFFSET(TK_LSE) + lines + i] =
                    none ? TK_MINUS_INF
                         : tk_fma_f32(maximum[h], TK_LN2,
                                      tk_attention_log(whole[h]));
            TK_STORED *to = out + at_out + i * TK_STRIDE(TK_OUT, 2);
#pragma unroll
            for (int n = 0; n < TK_VALUES / 8; n++)
                TK_STORE_PAIR(to, TK_OUT, 8 * n + lane % 4 * 2, TK_VALUE_COUNT,
                       sum[n][2 * h] * part, sum[n][2 * h + 1] * part)
        }
        TK_BARRIER();
    }
}
