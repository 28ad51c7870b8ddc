/* attention.cl: what the kernels of attention share. These macros are defined
 * before it:
 *   TK_STORED, TK_FROM, TK_TO  dtype of all operands except mask and lse, and
 *                       conversions to and from f32
 *   TK_SIZE, TK_VALUES  length of a row of q and k, and of a row of v, padded
 *                       with zeros
 *   TK_ROWS, TK_KEYS    number of queries, and of keys, in a tile
 *   TK_SIDE             a work-group has TK_SIDE * TK_SIDE work-items
 *   TK_MASKED           dtype of the mask
 *   TK_IS_HIDDEN(m) or TK_MASK_VALUE(m)  one of them if there is a mask:
 *                       whether m masks a key, or what m adds to the score
 *   TK_CAUSAL, TK_DROPS if attention is causal, and if it has dropout
 * Scores are multiplied by log2(e), so that a weight is exp2 of a score.
 * Work-item (y, x) computes element [y + TK_SIDE * i][x + TK_SIDE * j] of a
 * tile, for all i and j. */
#define TK_TILES ((tk_idx)TK_WORD(0))
#define TK_HEADS ((tk_idx)TK_WORD(1))
#define TK_GROUP_HEADS ((tk_idx)TK_WORD(2)) /* heads of q for each head of k */
#define TK_QUERY_COUNT ((tk_idx)TK_WORD(3))
#define TK_KEY_COUNT ((tk_idx)TK_WORD(4))
#define TK_FEATURE_COUNT ((tk_i32)TK_WORD(5))
#define TK_VALUE_COUNT ((tk_i32)TK_WORD(6))
#define TK_SCALE tk_of_bits_f32(TK_WORD(7))
#define TK_DROPOUT tk_of_bits_f32(TK_WORD(8))
#define TK_SEED TK_WORD(9)
#define TK_CALL TK_WORD(10)
/* The offset, and the stride of dimension d, of operand o. */
#define TK_OFFSET(o) ((tk_idx)TK_WORD(11 + 5 * (o)))
#define TK_STRIDE(o, d) ((tk_idx)TK_WORD(12 + 5 * (o) + (d)))
#define TK_BASE(o, b, h)                                                      \
    (TK_OFFSET(o) + (b) * TK_STRIDE(o, 0) + (h) * TK_STRIDE(o, 1))
#define TK_Q 0
#define TK_K 1
#define TK_V 2
#define TK_MASK 3
#define TK_OUT 4
#define TK_LSE 5
#define TK_GRADIENT 6
#define TK_DQ 7
#define TK_DK 8
#define TK_DV 9

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#define tk_attention_exp2(x) exp2(x)
#define tk_attention_log(x) log(x)
#else
TK_FN tk_f32 tk_attention_exp2(tk_f32 x)
{
    /* 2^x in a single instruction, which flushes results below 2^-126 to 0. */
    tk_f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#define tk_attention_log(x) logf(x)
#endif

#define TK_LOG2E 1.44269504f
#define TK_LN2 0.693147181f
#define TK_MINUS_INF (-tk_infinity())
TK_FN tk_f32 tk_infinity(void)
{
    return tk_of_bits_f32(0x7f800000);
}

/* In local memory, rows are padded by one element, so that the elements of a
 * column are in different banks. */
#define TK_PITCH(size) ((size) + 1)

/* Loads rows from first up to first + rows of operand o into the local array
 * `to`. The operand's first row is at offset base. Rows with an index of at
 * least `count` and elements with an index of at least `size` become zeros. */
#define TK_LOAD_ROWS(to, from, o, base, first, rows, count, padded, size)     \
    for (tk_i32 at = TK_LOCAL; at < (rows) * (padded);                        \
         at += TK_SIDE * TK_SIDE) {                                           \
        const tk_i32 i = at / (padded), e = at % (padded);                    \
        to[i * TK_PITCH(padded) + e] =                                        \
            (first) + i < (count) && e < (size)                               \
                ? TK_FROM(from[(base) + ((first) + i) * TK_STRIDE(o, 2) +     \
                               e * TK_STRIDE(o, 3)])                          \
                : 0.0f;                                                       \
    }

/* For all i and j, adds to sum[i][j] the dot product of row i of a and row j of
 * b, both of `padded` elements. */
#define TK_DOTS(sum, many_i, many_j, a, b, padded)                            \
    for (tk_i32 e = 0; e < (padded); e++)                                     \
        for (tk_i32 i = 0; i < (many_i); i++)                                 \
            for (tk_i32 j = 0; j < (many_j); j++)                             \
                sum[i][j] = tk_fma_f32(                                       \
                    a[(y + TK_SIDE * i) * TK_PITCH(padded) + e],              \
                    b[(x + TK_SIDE * j) * TK_PITCH(padded) + e], sum[i][j]);

/* For all i and j, adds to sum[i][j] the product of row i of the weights a and
 * column j of b. With step_i and step_k, a can be read transposed. */
#define TK_PRODUCTS(sum, many_i, many_j, a, step_i, step_k, many_k, b, padded) \
    for (tk_i32 k = 0; k < (many_k); k++)                                     \
        for (tk_i32 i = 0; i < (many_i); i++)                                 \
            for (tk_i32 j = 0; j < (many_j); j++)                             \
                sum[i][j] = tk_fma_f32(                                       \
                    a[(y + TK_SIDE * i) * (step_i) + k * (step_k)],           \
                    b[k * TK_PITCH(padded) + x + TK_SIDE * j], sum[i][j]);

#define TK_ZERO(sum, many_i, many_j)                                          \
    for (tk_i32 i = 0; i < (many_i); i++)                                     \
        for (tk_i32 j = 0; j < (many_j); j++)                                 \
            sum[i][j] = 0.0f;

/* Returns the score of query i and key j from their dot product. It is minus
 * infinity if the key is masked. */
TK_FN tk_f32 tk_score(tk_f32 dot, tk_f32 scale, TK_G const TK_MASKED *mask,
                      tk_idx at, tk_idx i, tk_idx j, tk_idx queries,
                      tk_idx keys)
{
    tk_f32 score = tk_mul_f32(dot, scale);
    tk_bool seen = i < queries && j < keys;
#ifdef TK_CAUSAL
    seen = seen && j <= i;
#endif
#if defined TK_IS_HIDDEN
    seen = seen && !TK_IS_HIDDEN(mask[seen ? at : 0]);
#elif defined TK_MASK_VALUE
    if (seen)
        score = tk_fma_f32(TK_MASK_VALUE(mask[at]), TK_LOG2E, score);
#else
    (void)mask;
    (void)at;
#endif
    return seen ? score : TK_MINUS_INF;
}
#define TK_SCORE(dot, i, j)                                                   \
    tk_score((dot), scale, mask,                                              \
             at_mask + (i) * TK_STRIDE(TK_MASK, 2) +                          \
                 (j) * TK_STRIDE(TK_MASK, 3),                                 \
             (i), (j), TK_QUERY_COUNT, TK_KEY_COUNT)

/* The weight x after dropout, for key j of query i of a head. `lines` is the
 * number of query rows before this head, in all batches. */
#ifdef TK_DROPS
#define TK_DROP(x, lines, i, j)                                               \
    ((tk_f32)((tk_u32)tk_philox_i32(                                          \
                  ((tk_i64)(lines) + (i)) * TK_WORD(4) + (j), TK_SEED,        \
                  TK_CALL) >>                                                 \
              8) * 0x1p-24f <                                                 \
             TK_DROPOUT                                                       \
         ? 0.0f                                                               \
         : (x) / (1.0f - TK_DROPOUT))
#else
#define TK_DROP(x, lines, i, j) (x)
#endif

/* The logsumexp of a row, which is subtracted from its scores. It is infinity,
 * so that all weights are 0, if the row attends to no key or is beyond the last
 * row. */
#define TK_LOGSUMEXP(lines, row)                                              \
    ((row) < TK_QUERY_COUNT && lse[TK_OFFSET(TK_LSE) + (lines) + (row)] !=    \
                                   TK_MINUS_INF                               \
         ? tk_mul_f32(lse[TK_OFFSET(TK_LSE) + (lines) + (row)], TK_LOG2E)     \
         : tk_infinity())
