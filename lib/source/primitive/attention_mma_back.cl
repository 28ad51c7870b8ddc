/* attention_mma_back.cl: the backward pass of attention on tensor cores, with
 * the macros of attention_tensor.cl. It computes the gradient of the queries
 * or, with TK_BACK_KEY, of the keys and values.
 *
 * Both kernels have the same structure. A work-group has 64 rows of two
 * operands: queries and output gradients or, with TK_BACK_KEY, keys and values.
 * It loops over tiles of the other two operands. Products of its own rows with
 * the other rows are the scores and the gradients of the weights. From the
 * scores and the gradients of the weights, the gradients of the scores are
 * computed. The product of these gradients with the other rows is added to the
 * gradient of its own rows. */
#define TK_MINE 64
#ifdef TK_BACK_KEY
#define TK_OTHERS TK_ROWS
#define TK_MINE_COUNT TK_KEY_COUNT
#define TK_OTHER_COUNT TK_QUERY_COUNT
#else
#define TK_OTHERS TK_KEYS
#define TK_MINE_COUNT TK_QUERY_COUNT
#define TK_OTHER_COUNT TK_KEY_COUNT
#endif

extern "C" __global__ void __launch_bounds__(32 * TK_WARPS)
    tn_attention(const TK_STORED *q, const TK_STORED *k, const TK_STORED *v,
                 const TK_MASKED *mask, const TK_STORED *out,
                 const tk_f32 *lse, const TK_STORED *g, TK_STORED *dq,
                 TK_STORED *dk, TK_STORED *dv, tk_f32 *means, TK_WORDS)
{
    __shared__ __align__(16) uint4 mine[TK_MINE * TK_UNITS(TK_SIZE)];
    __shared__ __align__(16) uint4 my_values[TK_MINE * TK_UNITS(TK_VALUES)];
    __shared__ __align__(16) uint4 others[TK_OTHERS * TK_UNITS(TK_SIZE)];
    __shared__
        __align__(16) uint4 their_values[TK_OTHERS * TK_UNITS(TK_VALUES)];
    const int lane = TK_LOCAL % 32, warp = TK_LOCAL / 32;
    const tk_idx blocks = (TK_MINE_COUNT + TK_MINE - 1) / TK_MINE;
    const float scale = tk_mul_f32(TK_SCALE, TK_LOG2E);
    for (tk_idx tile = TK_GROUP; tile < TK_TILES; tile += TK_GROUPS) {
        const tk_idx line = tile / blocks;
        float sum[TK_SIZE / 8][4];
        TK_CLEAR(sum, TK_SIZE / 8)
#ifdef TK_BACK_KEY
        /* number of heads of k */
        const tk_idx key_heads = TK_HEADS / TK_GROUP_HEADS;
        const tk_idx first = tile % blocks * TK_MINE;
        const tk_idx batch = line / key_heads, own = line % key_heads;
        float by_v[TK_VALUES / 8][4];
        TK_CLEAR(by_v, TK_VALUES / 8)
        TK_LOAD(mine, k, TK_K, TK_BASE(TK_K, batch, own), first, TK_MINE,
                TK_KEY_COUNT, TK_SIZE, TK_FEATURE_COUNT)
        TK_LOAD(my_values, v, TK_V, TK_BASE(TK_V, batch, own), first, TK_MINE,
                TK_KEY_COUNT, TK_VALUES, TK_VALUE_COUNT)
        tk_idx from = 0, end = TK_QUERY_COUNT;
#ifdef TK_CAUSAL
        /* Earlier queries do not attend to these keys. */
        from = first / TK_OTHERS * TK_OTHERS;
#endif
#else
        const tk_idx first = (blocks - 1 - tile % blocks) * TK_MINE;
        const tk_idx batch = line / TK_HEADS;
        TK_LOAD(mine, q, TK_Q, TK_BASE(TK_Q, batch, line % TK_HEADS), first,
                TK_MINE, TK_QUERY_COUNT, TK_SIZE, TK_FEATURE_COUNT)
        TK_LOAD(my_values, g, TK_GRADIENT,
                TK_BASE(TK_GRADIENT, batch, line % TK_HEADS), first, TK_MINE,
                TK_QUERY_COUNT, TK_VALUES, TK_VALUE_COUNT)
        tk_idx from = 0, end = TK_KEY_COUNT;
#ifdef TK_CAUSAL
        if (end > first + TK_MINE)
            end = first + TK_MINE;
#endif
        /* element [0] is for row `row`, element [1] for row + 8 */
        float logsumexp[2], mean[2] = {0.0f, 0.0f};
#endif
        const tk_idx row = first + 16 * warp + lane / 4;
#ifdef TK_BACK_KEY
        for (tk_idx head = own * TK_GROUP_HEADS;
             head < (own + 1) * TK_GROUP_HEADS; head++) {
#else
        {
            const tk_idx head = line % TK_HEADS;
#endif
            const tk_idx at_g = TK_BASE(TK_GRADIENT, batch, head);
            const tk_idx at_mask = TK_BASE(TK_MASK, batch, head);
            const tk_i64 lines =
                ((tk_i64)batch * TK_HEADS + head) * TK_WORD(3);
#ifdef TK_BACK_KEY
            const tk_idx at_q = TK_BASE(TK_Q, batch, head);
#else
            const tk_idx at_k = TK_BASE(TK_K, batch, head / TK_GROUP_HEADS);
            const tk_idx at_v = TK_BASE(TK_V, batch, head / TK_GROUP_HEADS);
            const tk_idx at_out = TK_BASE(TK_OUT, batch, head);
            /* one row after the other; all lanes of the warp work on each */
            for (int r = 0; r < 16; r++) {
                const tk_idx i = first + 16 * warp + r;
                float part = 0.0f;
                for (int e = lane; i < TK_QUERY_COUNT && e < TK_VALUE_COUNT;
                     e += 32)
                    part = tk_fma_f32(
                        TK_FROM(out[at_out + i * TK_STRIDE(TK_OUT, 2) +
                                    e * TK_STRIDE(TK_OUT, 3)]),
                        TK_FROM(g[at_g + i * TK_STRIDE(TK_GRADIENT, 2) +
                                  e * TK_STRIDE(TK_GRADIENT, 3)]),
                        part);
                for (int bit = 16; bit > 0; bit /= 2)
                    part += tk_other_lane(part, bit);
                if (lane == 0 && i < TK_QUERY_COUNT)
                    means[lines + i] = part;
                mean[0] = r == lane / 4 ? part : mean[0];
                mean[1] = r == lane / 4 + 8 ? part : mean[1];
            }
            logsumexp[0] = TK_LOGSUMEXP(lines, row);
            logsumexp[1] = TK_LOGSUMEXP(lines, row + 8);
#endif
            for (tk_idx start = from; start < end; start += TK_OTHERS) {
                float score[TK_OTHERS / 8][4], dp[TK_OTHERS / 8][4];
#ifdef TK_BACK_KEY
                TK_LOAD(others, q, TK_Q, at_q, start, TK_OTHERS,
                        TK_QUERY_COUNT, TK_SIZE, TK_FEATURE_COUNT)
                TK_LOAD(their_values, g, TK_GRADIENT, at_g, start, TK_OTHERS,
                        TK_QUERY_COUNT, TK_VALUES, TK_VALUE_COUNT)
#else
                TK_LOAD(others, k, TK_K, at_k, start, TK_OTHERS, TK_KEY_COUNT,
                        TK_SIZE, TK_FEATURE_COUNT)
                TK_LOAD(their_values, v, TK_V, at_v, start, TK_OTHERS,
                        TK_KEY_COUNT, TK_VALUES, TK_VALUE_COUNT)
#endif
                tk_copies_wait();
                TK_BARRIER();
                TK_CLEAR(score, TK_OTHERS / 8)
                TK_CLEAR(dp, TK_OTHERS / 8)
                TK_MULTIPLY_ROWS(score, TK_OTHERS / 8, mine, others, TK_SIZE)
                TK_MULTIPLY_ROWS(dp, TK_OTHERS / 8, my_values, their_values,
                                 TK_VALUES)
                /* true if no score of the tile is masked */
                tk_bool all = start + TK_OTHERS <= TK_OTHER_COUNT &&
                              first + TK_MINE <= TK_MINE_COUNT;
#if defined TK_IS_HIDDEN || defined TK_MASK_VALUE
                all = false;
#elif defined TK_CAUSAL && defined TK_BACK_KEY
                all = all && first + TK_MINE <= start + 1;
#elif defined TK_CAUSAL
                all = all && start + TK_OTHERS <= first + 1;
#endif
#pragma unroll
                for (int n = 0; n < TK_OTHERS / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        const tk_idx my = row + i / 2 * 8;
                        const tk_idx their =
                            start + 8 * n + lane % 4 * 2 + i % 2;
#ifdef TK_BACK_KEY
                        const tk_idx query = their, key = my;
                        const float w = TK_LOGSUMEXP(lines, query);
                        const float m = query < TK_QUERY_COUNT
                                            ? means[lines + query]
                                            : 0.0f;
#else
                        const tk_idx query = my, key = their;
                        const float w = logsumexp[i / 2], m = mean[i / 2];
#endif
                        const float p = tk_attention_exp2(
                            (all ? score[n][i] * scale
                                 : TK_SCORE(score[n][i], query, key)) -
                            w);
                        const float d =
                            TK_DROP(dp[n][i], lines, query, key);
                        dp[n][i] = p * (d - m);
                        score[n][i] = TK_DROP(p, lines, query, key);
                    }
                TK_MULTIPLY_WEIGHTS(sum, dp, TK_OTHERS / 8, others, TK_SIZE)
#ifdef TK_BACK_KEY
                TK_MULTIPLY_WEIGHTS(by_v, score, TK_OTHERS / 8, their_values,
                                    TK_VALUES)
#endif
                TK_BARRIER();
            }
        }
        tk_copies_wait(); /* needed if the loop had no iteration, and so did not
                           * wait for the copies */
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const tk_idx i = row + 8 * h;
            if (i >= TK_MINE_COUNT)
                continue;
#ifdef TK_BACK_KEY
            TK_STORED *to = dk + TK_BASE(TK_DK, batch, own) +
                            i * TK_STRIDE(TK_DK, 2);
            TK_STORED *to_v = dv + TK_BASE(TK_DV, batch, own) +
                              i * TK_STRIDE(TK_DV, 2);
#pragma unroll
            for (int n = 0; n < TK_VALUES / 8; n++)
                TK_STORE_PAIR(to_v, TK_DV, 8 * n + lane % 4 * 2, TK_VALUE_COUNT,
                       by_v[n][2 * h], by_v[n][2 * h + 1])
#define TK_MADE TK_DK
#else
            TK_STORED *to = dq + TK_BASE(TK_DQ, batch, line % TK_HEADS) +
                            i * TK_STRIDE(TK_DQ, 2);
#define TK_MADE TK_DQ
#endif
#pragma unroll
            for (int n = 0; n < TK_SIZE / 8; n++)
                TK_STORE_PAIR(to, TK_MADE, 8 * n + lane % 4 * 2,
                              TK_FEATURE_COUNT, sum[n][2 * h] * TK_SCALE,
                              sum[n][2 * h + 1] * TK_SCALE)
        }
        TK_BARRIER();
    }
}
