/* attention_mma.cl: attention_forward.cl by tensor cores: CUDA C, compute
 * capability 8.0 and later, float16 and bfloat16 (TK_BF16). A warp has 16
 * queries of 64: they stay in registers as operands of mma.m16n8k16, and so do
 * scores, whose layout as a result is that of an operand for the next product.
 * Keys and values come by cp.async, each while the other is at work.
 *
 * Lane t has of a 16 x 8 result rows t / 4 and t / 4 + 8, columns 2 (t % 4) and
 * the next. In local memory a row of halves is cut into pieces of 16 bytes,
 * which change places with the row's number so that those that ldmatrix reads at
 * once lie in different banks. */
#define TK_WARPS 4
#define TK_PIECES(size) ((size) / 8)
#define TK_FEW(size) (TK_PIECES(size) < 8 ? TK_PIECES(size) : 8)
#define TK_PIECE(size, row, piece)                                            \
    ((row) * TK_PIECES(size) +                                                \
     ((piece) ^ ((row) / (8 / TK_FEW(size)) % TK_FEW(size))))

TK_FN unsigned tk_shared_at(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* 16 bytes; zeros where it is not wanted */
TK_FN void tk_copy_piece(uint4 *to, const void *from, bool wanted)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     tk_shared_at(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(wanted ? 16 : 0)
                 : "memory");
}

TK_FN void tk_copies_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

TK_FN void tk_copies_wait(void)
{
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

TK_FN void tk_load_four(unsigned r[4], const uint4 *piece)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, "
                 "[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(tk_shared_at(piece))
                 : "memory");
}

TK_FN void tk_load_turned(unsigned r[4], const uint4 *piece)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, "
                 "%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(tk_shared_at(piece))
                 : "memory");
}

#ifdef TK_BF16
#define TK_MMA_TYPE "bf16"
#else
#define TK_MMA_TYPE "f16"
#endif

/* sum += a b */
TK_FN void tk_mma(float sum[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TK_MMA_TYPE "." TK_MMA_TYPE
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

TK_FN unsigned tk_halves(float low, float high)
{
    unsigned both;
    asm("cvt.rn." TK_MMA_TYPE "x2.f32 %0, %1, %2;"
        : "=r"(both)
        : "f"(high), "f"(low));
    return both;
}

/* x of the lane whose number differs by `bit` */
TK_FN float tk_other_lane(float x, int bit)
{
    unsigned y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;"
                 : "=r"(y)
                 : "r"((unsigned)tk_bits_f32(x)), "r"(bit));
    return tk_of_bits_f32(y);
}

/* Rows [first, first + TK_KEYS) of operand o into local memory. */
#ifdef TK_ALIGNED
#define TK_TAKE(to, from, o, base, first, count, padded, size)                \
    _Pragma("unroll") for (int at = TK_LOCAL;                                 \
                           at < TK_KEYS * TK_PIECES(padded);                  \
                           at += 32 * TK_WARPS)                               \
    {                                                                         \
        const int row = at / TK_PIECES(padded), piece = at % TK_PIECES(padded); \
        const bool is = (first) + row < (count) && piece * 8 < (size);        \
        tk_copy_piece(&to[TK_PIECE(padded, row, piece)],                      \
                      &from[is ? (base) + ((first) + row) * TK_STRIDE(o, 2) + \
                                     piece * 8                                \
                               : (base)],                                     \
                      is);                                                    \
    }                                                                         \
    tk_copies_commit();
#else
#define TK_TAKE(to, from, o, base, first, count, padded, size)                \
    for (int at = TK_LOCAL; at < TK_KEYS * TK_PIECES(padded);                 \
         at += 32 * TK_WARPS) {                                               \
        const int row = at / TK_PIECES(padded), piece = at % TK_PIECES(padded); \
        unsigned word[4];                                                     \
        _Pragma("unroll") for (int e = 0; e < 8; e++)                         \
        {                                                                     \
            const int column = piece * 8 + e;                                 \
            const unsigned half =                                             \
                (first) + row < (count) && column < (size)                    \
                    ? from[(base) + ((first) + row) * TK_STRIDE(o, 2) +       \
                           column * TK_STRIDE(o, 3)]                          \
                    : 0;                                                      \
            word[e / 2] = e % 2 ? word[e / 2] | half << 16 : half;            \
        }                                                                     \
        to[TK_PIECE(padded, row, piece)] =                                    \
            make_uint4(word[0], word[1], word[2], word[3]);                   \
    }
#endif

extern "C" __global__ void __launch_bounds__(32 * TK_WARPS)
    tn_attention(const TK_STORED *q, const TK_STORED *k, const TK_STORED *v,
                 const TK_MASKED *mask, TK_STORED *out, tk_f32 *lse, TK_WORDS)
{
    /* queries first, where keys come later */
    __shared__ __align__(16) uint4 keys[TK_KEYS * TK_PIECES(TK_SIZE)];
    __shared__ __align__(16) uint4 values[TK_KEYS * TK_PIECES(TK_VALUES)];
    const int lane = TK_LOCAL % 32, warp = TK_LOCAL / 32;
    const int matrix = lane / 8, line_in = lane % 8; /* for ldmatrix */
    const tk_idx blocks = (TK_QUERY_COUNT + TK_ROWS - 1) / TK_ROWS;
    const float scale = tk_mul_f32(TK_SCALE, TK_LOG2E);
    for (tk_idx tile = TK_GROUP; tile < TK_TILES; tile += TK_GROUPS) {
        const tk_idx line = tile / blocks;
        const tk_idx first = (blocks - 1 - tile % blocks) * TK_ROWS;
        const tk_idx batch = line / TK_HEADS, head = line % TK_HEADS;
        const tk_idx at_q = TK_BASE(TK_Q, batch, head);
        const tk_idx at_k = TK_BASE(TK_K, batch, head / TK_SHARERS);
        const tk_idx at_v = TK_BASE(TK_V, batch, head / TK_SHARERS);
        const tk_idx at_mask = TK_BASE(TK_MASK, batch, head);
        const tk_idx at_out = TK_BASE(TK_OUT, batch, head);
        const tk_i64 lines = (tk_i64)line * TK_WORD(3);
        const tk_idx row = first + 16 * warp + lane / 4; /* and row + 8 */
        tk_idx end = TK_KEY_COUNT;
#ifdef TK_CAUSAL
        if (end > first + TK_ROWS)
            end = first + TK_ROWS;
#endif
        unsigned query[TK_SIZE / 16][4];
        float sum[TK_VALUES / 8][4];
        float most[2] = {TK_NOTHING, TK_NOTHING}, whole[2] = {0.0f, 0.0f};
#pragma unroll
        for (int n = 0; n < TK_VALUES / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[n][i] = 0.0f;
        TK_TAKE(keys, q, TK_Q, at_q, first, TK_QUERY_COUNT, TK_SIZE,
                TK_FEATURE_COUNT)
        tk_copies_wait();
        TK_BARRIER();
#pragma unroll
        for (int e = 0; e < TK_SIZE / 16; e++)
            tk_load_four(query[e],
                         &keys[TK_PIECE(TK_SIZE,
                                        16 * warp + matrix % 2 * 8 + line_in,
                                        2 * e + matrix / 2)]);
        TK_BARRIER();
        TK_TAKE(keys, k, TK_K, at_k, 0, TK_KEY_COUNT, TK_SIZE,
                TK_FEATURE_COUNT)
        for (tk_idx start = 0; start < end; start += TK_KEYS) {
            float score[TK_KEYS / 8][4];
            tk_copies_wait();
            TK_BARRIER();
            TK_TAKE(values, v, TK_V, at_v, start, TK_KEY_COUNT, TK_VALUES,
                    TK_VALUE_COUNT)
#pragma unroll
            for (int n = 0; n < TK_KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    score[n][i] = 0.0f;
#pragma unroll
            for (int e = 0; e < TK_SIZE / 16; e++)
#pragma unroll
                for (int n = 0; n < TK_KEYS / 8; n += 2) {
                    unsigned b[4];
                    tk_load_four(
                        b, &keys[TK_PIECE(TK_SIZE,
                                          8 * n + matrix / 2 * 8 + line_in,
                                          2 * e + matrix % 2)]);
                    tk_mma(score[n], query[e], b[0], b[1]);
                    tk_mma(score[n + 1], query[e], b[2], b[3]);
                }
            tk_bool all = start + TK_KEYS <= TK_KEY_COUNT;
#ifdef TK_CAUSAL
            all = all && start + TK_KEYS <= first + 1;
#endif
#if defined TK_HIDES || defined TK_ADDS
            all = false;
#endif
            float before[2] = {most[0], most[1]}, base[2], down[2];
#pragma unroll
            for (int n = 0; n < TK_KEYS / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const tk_idx key = start + 8 * n + lane % 4 * 2 + i % 2;
                    score[n][i] =
                        all ? score[n][i] * scale
                            : TK_SCORE(score[n][i], row + i / 2 * 8, key);
                    most[i / 2] = score[n][i] > most[i / 2] ? score[n][i]
                                                            : most[i / 2];
                }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                /* four lanes have parts of a row */
                most[h] = fmaxf(most[h], tk_other_lane(most[h], 1));
                most[h] = fmaxf(most[h], tk_other_lane(most[h], 2));
                base[h] = most[h] == TK_NOTHING ? 0.0f : most[h];
                down[h] = before[h] == most[h]
                              ? 1.0f
                              : tk_attention_exp2(before[h] - most[h]);
                whole[h] *= down[h];
            }
#pragma unroll
            for (int n = 0; n < TK_VALUES / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[n][i] *= down[i / 2];
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
                TK_TAKE(keys, k, TK_K, at_k, start + TK_KEYS, TK_KEY_COUNT,
                        TK_SIZE, TK_FEATURE_COUNT)
            }
#pragma unroll
            for (int j = 0; j < TK_KEYS / 16; j++) {
                const unsigned a[4] = {
                    tk_halves(score[2 * j][0], score[2 * j][1]),
                    tk_halves(score[2 * j][2], score[2 * j][3]),
                    tk_halves(score[2 * j + 1][0], score[2 * j + 1][1]),
                    tk_halves(score[2 * j + 1][2], score[2 * j + 1][3])};
#pragma unroll
                for (int n = 0; n < TK_VALUES / 8; n += 2) {
                    unsigned b[4];
                    tk_load_turned(
                        b, &values[TK_PIECE(TK_VALUES,
                                            16 * j + matrix % 2 * 8 + line_in,
                                            n + matrix / 2)]);
                    tk_mma(sum[n], a, b[0], b[1]);
                    tk_mma(sum[n + 1], a, b[2], b[3]);
                }
            }
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const tk_idx i = row + 8 * h;
            whole[h] += tk_other_lane(whole[h], 1);
            whole[h] += tk_other_lane(whole[h], 2);
            const tk_bool none = most[h] == TK_NOTHING;
            const float part = none ? 0.0f : 1.0f / whole[h];
            if (i >= TK_QUERY_COUNT)
                continue;
            if (lane % 4 == 0)
                lse[TK_OFFSET(TK_LSE) + lines + i] =
                    none ? TK_NOTHING
                         : tk_fma_f32(most[h], TK_LN2,
                                      tk_attention_log(whole[h]));
            TK_STORED *to = out + at_out + i * TK_STRIDE(TK_OUT, 2);
#pragma unroll
            for (int n = 0; n < TK_VALUES / 8; n++) {
                const int e = 8 * n + lane % 4 * 2;
                const unsigned both = tk_halves(sum[n][2 * h] * part,
                                                sum[n][2 * h + 1] * part);
#ifdef TK_ALIGNED
                if (e < TK_VALUE_COUNT)
                    *(unsigned *)(to + e) = both;
#else
                if (e < TK_VALUE_COUNT)
                    to[e * TK_STRIDE(TK_OUT, 3)] = (TK_STORED)both;
                if (e + 1 < TK_VALUE_COUNT)
                    to[(e + 1) * TK_STRIDE(TK_OUT, 3)] =
                        (TK_STORED)(both >> 16);
#endif
            }
        }
        TK_BARRIER();
    }
}
