/* common.cl: what the kernels of the extension "quantised-product" share: the
 * block formats of GGUF files, in the dialect of lib/source/platform.cl.
 * <tenon/plugin_extensions.h> defines the arithmetic to the bit. quantised.c
 * plans the launches.
 *
 * A unit is 32 consecutive elements of a row: a block of most formats, an
 * eighth of a block of Q4_K, Q5_K and Q6_K. Integers are packed, four to a
 * word. The elements of a weight are unpacked without their offset TK_ZERO: a
 * sum of products begins with -TK_ZERO times the sum of the input's integers.
 *
 * Each kernel has work-groups of TK_ITEMS work-items and these arguments:
 *   a, b, c    the input, the weight, the result
 *   rounded    the rounded input, in scratch memory: for each unit TK_RECORD
 *              words, which are 8 words of integers, the block's scale, and
 *              the sums of integers 0 to 15, of 16 to 31, and of all
 * These macros are defined before this file:
 *   TK_FORMAT   code of the format in GGUF files
 *   TK_BYTES    bytes of a block
 *   TK_UNITS    units of a block
 *   TK_TOKENS   in few.cl, rows of the input that a work-group multiplies
 * The kernel follows it: round.cl, few.cl, many.cl or numbers.cl. */
#define TK_ITEMS 128
#define TK_RECORD 12

#define TK_M ((tk_i32)TK_WORD(0))
#define TK_N ((tk_i32)TK_WORD(1))
#define TK_ROW_UNITS ((tk_i32)TK_WORD(2)) /* units of a row */
/* Offset and distance of rows: a and c count elements, b counts bytes. */
#define TK_A TK_WORD(3)
#define TK_A_ROW TK_WORD(4)
#define TK_B TK_WORD(5)
#define TK_B_ROW TK_WORD(6)
#define TK_B_END TK_WORD(7) /* offset of the byte after the last one of b */
#define TK_C TK_WORD(8)
#define TK_C_ROW TK_WORD(9)

typedef struct __attribute__((aligned(16))) { tk_u32 w[4]; } tk_quad;

/* ---- the formats --------------------------------------------------------- */

#define TK_Q4_0 2
#define TK_Q4_1 3
#define TK_Q5_0 6
#define TK_Q5_1 7
#define TK_Q8_0 8
#define TK_Q4_K 12
#define TK_Q5_K 13
#define TK_Q6_K 14

#define TK_IS_K (TK_UNITS > 1)
#define TK_HAS_MIN                                                            \
    (TK_FORMAT == TK_Q4_1 || TK_FORMAT == TK_Q5_1 || TK_FORMAT == TK_Q4_K ||  \
     TK_FORMAT == TK_Q5_K)
#define TK_ZERO                                                               \
    (TK_FORMAT == TK_Q4_0   ? 8                                               \
     : TK_FORMAT == TK_Q5_0 ? 16                                              \
     : TK_FORMAT == TK_Q6_K ? 32                                              \
                            : 0)
/* The parts of a unit that have different scales. TK_SUM is the index in a
 * record of the word with the sum of the integers of a part. */
#define TK_PARTS (TK_FORMAT == TK_Q6_K ? 2 : 1)
#define TK_SUM(part) (TK_PARTS == 2 ? 9 + (part) : 11)
#define TK_NIBBLES 0x0f0f0f0fu

/* A block in local memory. If the size of a block is not a multiple of 4 bytes,
 * every second block begins in the middle of a word. */
typedef struct {
    TK_S const tk_u32 *word;
    tk_i32 odd; /* 1 if the block begins in the middle of a word, else 0 */
} tk_block;

/* TK_HALF is the 16-bit half of a word, and TK_AT the word, that begins at an
 * even byte of a block. */
#if TK_BYTES % 4 == 0
#define TK_HALF(block, byte)                                                  \
    ((block).word[(byte) / 4] >> 8 * ((byte) & 2) & 0xffffu)
#define TK_AT(block, byte) ((block).word[(byte) / 4])
#else
#define TK_HALF(block, byte)                                                  \
    ((block).word[((byte) / 2 + (block).odd) / 2] >>                         \
         16 * (((byte) / 2 + (block).odd) & 1) &                             \
     0xffffu)
#define TK_AT(block, byte)                                                    \
    tk_joined((block).word + ((byte) / 2 + (block).odd) / 2,                 \
              ((byte) / 2 + (block).odd) & 1)

/* Returns the word that begins at word[0], or in the middle of word[0]. In both
 * cases it reads word[1], so the kernels copy one word more than a row has. */
TK_FN tk_u32 tk_joined(TK_S const tk_u32 *word, tk_i32 in_middle)
{
#ifdef __CUDACC__
    return __byte_perm(word[0], word[1], in_middle ? 0x5432 : 0x3210);
#else
    return in_middle ? word[0] >> 16 | word[1] << 16 : word[0];
#endif
}
#endif
#define TK_BYTE(block, byte) (TK_HALF(block, byte) >> 8 * ((byte) & 1) & 255u)

/* Returns block i of an array of blocks that begins at a word. */
TK_FN tk_block tk_block_at(TK_S const tk_u32 *word, tk_i32 i)
{
    const tk_i32 place = i * (TK_BYTES / 2);
    tk_block block = {word + place / 2, place & 1};
    return block;
}

#if TK_FORMAT == TK_Q6_K
#define TK_D(block) tk_decode_f16(TK_HALF(block, 208))
#else
#define TK_D(block) tk_decode_f16(TK_HALF(block, 0))
#endif
#if TK_IS_K
#define TK_E(block) (-tk_decode_f16(TK_HALF(block, 2)))
#else
#define TK_E(block) tk_decode_f16(TK_HALF(block, 2))
#endif

/* Moves bit j of x to bit 4 of byte j, for j = 0 to 3. */
#define TK_FIFTH(x) (((x) & 15u) * 0x00204081u & 0x01010101u) << 4

/* Writes the 8 words of integers of unit p of a block to q[0], q[1], ... */
#if TK_FORMAT == TK_Q8_0
#define TK_UNPACK_FIRST
#define TK_UNPACK(i) TK_AT(block, 2 + 4 * (i))
#elif TK_FORMAT == TK_Q4_0 || TK_FORMAT == TK_Q4_1
#define TK_UNPACK_FIRST
#define TK_UNPACK(i)                                                          \
    (TK_AT(block, TK_BYTES - 16 + 4 * ((i) & 3)) >> ((i) & 4) & TK_NIBBLES)
#elif TK_FORMAT == TK_Q5_0 || TK_FORMAT == TK_Q5_1
#define TK_UNPACK_FIRST const tk_u32 high = TK_AT(block, TK_BYTES - 20);
#define TK_UNPACK(i)                                                          \
    ((TK_AT(block, TK_BYTES - 16 + 4 * ((i) & 3)) >> ((i) & 4) &              \
      TK_NIBBLES) |                                                           \
     TK_FIFTH(high >> 4 * (i)))
#elif TK_FORMAT == TK_Q4_K
#define TK_UNPACK_FIRST const tk_i32 at = 16 + p / 2 * 32, shift = p % 2 * 4;
#define TK_UNPACK(i) (TK_AT(block, at + 4 * (i)) >> shift & TK_NIBBLES)
#elif TK_FORMAT == TK_Q5_K
#define TK_UNPACK_FIRST const tk_i32 at = 48 + p / 2 * 32, shift = p % 2 * 4;
#define TK_UNPACK(i)                                                          \
    ((TK_AT(block, at + 4 * (i)) >> shift & TK_NIBBLES) |                     \
     (TK_AT(block, 16 + 4 * (i)) >> p & 0x01010101u) << 4)
#else
#define TK_UNPACK_FIRST                                                       \
    const tk_i32 low = p / 4 * 64 + p % 2 * 32, high = 128 + p / 4 * 32;      \
    const tk_i32 shift = p % 4 / 2 * 4, pair = p % 4 * 2;
#define TK_UNPACK(i)                                                          \
    ((TK_AT(block, low + 4 * (i)) >> shift & TK_NIBBLES) |                    \
     (TK_AT(block, high + 4 * (i)) >> pair & 0x03030303u) << 4)
#endif

TK_FN void tk_unpack(tk_block block, tk_i32 p, tk_u32 *q)
{
    TK_UNPACK_FIRST
    (void)p;
#pragma unroll
    for (tk_i32 i = 0; i < 8; i++)
        q[i] = TK_UNPACK(i);
}

/* Stores the integer scales of the two halves of unit p, and its min. */
TK_FN void tk_scales(tk_block block, tk_i32 p, tk_i32 *first, tk_i32 *second,
                     tk_i32 *min)
{
#if TK_FORMAT == TK_Q6_K
    const tk_u32 pair = TK_HALF(block, 192 + 2 * p);
    *first = (tk_i32)(tk_i8)pair;
    *second = (tk_i32)(tk_i8)(pair >> 8);
    *min = 0;
#elif TK_IS_K
    const tk_i32 i = p & 3;
    const tk_u32 x = TK_BYTE(block, 4 + i), y = TK_BYTE(block, 8 + i);
    const tk_u32 z = TK_BYTE(block, 12 + i);
    *first = *second = (tk_i32)(p < 4 ? x & 63u : (z & 15u) | x >> 6 << 4);
    *min = (tk_i32)(p < 4 ? y & 63u : z >> 4 | y >> 6 << 4);
#else
    (void)block, (void)p;
    *first = *second = 1;
    *min = TK_HAS_MIN;
#endif
}

/* ---- arithmetic ---------------------------------------------------------- */

/* Returns sum plus the products of the four signed bytes of q with those of
 * r. */
TK_FN tk_i32 tk_dot4(tk_u32 q, tk_u32 r, tk_i32 sum)
{
#ifdef __CUDACC__
    return __dp4a((tk_i32)q, (tk_i32)r, sum);
#else
    return sum + (tk_i32)(tk_i8)q * (tk_i32)(tk_i8)r +
           (tk_i32)(tk_i8)(q >> 8) * (tk_i32)(tk_i8)(r >> 8) +
           (tk_i32)(tk_i8)(q >> 16) * (tk_i32)(tk_i8)(r >> 16) +
           (tk_i32)(tk_i8)(q >> 24) * (tk_i32)(tk_i8)(r >> 24);
#endif
}

/* Returns the value that a block adds to a result. */
TK_FN tk_f32 tk_block_value(tk_f32 d, tk_f32 e, tk_f32 s, tk_i32 dot,
                            tk_i32 minus)
{
    tk_f32 value = tk_mul_f32(tk_mul_f32(d, s), (tk_f32)dot);
    if (TK_HAS_MIN)
        value =
            tk_add_f32(value, tk_mul_f32(tk_mul_f32(e, s), (tk_f32)minus));
    return value;
}

/* ---- reading b ----------------------------------------------------------- */

/* Returns the four bytes of b at an offset, which need not be aligned. Bytes at
 * `end` and after it are not read; they count as 0. */
TK_FN tk_u32 tk_bytes_at(TK_G const tk_u32 *b, tk_i64 at, tk_i64 end)
{
    const tk_i64 word = at >> 2;
    const tk_i32 shift = (tk_i32)(at & 3) * 8;
    if ((word + (shift ? 2 : 1)) * 4 <= end)
        return shift ? b[word] >> shift | b[word + 1] << (32 - shift) : b[word];
    TK_G const tk_u8 *byte = (TK_G const tk_u8 *)b;
    tk_u32 x = 0;
    for (tk_i32 i = 0; i < 4 && at + i < end; i++)
        x |= (tk_u32)byte[at + i] << 8 * i;
    return x;
}

/* Copies rows of b to local memory. 16 work-items copy a row. `first` is the
 * offset of the first row in b. Each row gets four bytes more than row_bytes.
 * Bytes at `end` and after it are 0. A row of local memory has `pitch` quads.
 * The fast path needs rows that begin at multiples of 16 bytes, as those of
 * most weights do. */
#define TK_TEAM 16
TK_FN void tk_stage(TK_S tk_quad *to, TK_G const tk_u32 *b, tk_i64 first,
                    tk_i64 row_step, tk_i64 end, tk_i32 rows, tk_i32 row_bytes,
                    tk_i32 pitch)
{
    const tk_i32 quads = (row_bytes + 4 + 15) / 16;
    for (tk_i32 r = TK_LOCAL / TK_TEAM; r < rows; r += TK_ITEMS / TK_TEAM) {
        const tk_i64 at = first + r * row_step;
        const tk_i64 left = (end - at) >> 4;
        const tk_i32 whole = at & 15 ? 0 : left < quads ? (tk_i32)left : quads;
        TK_G const tk_quad *from = (TK_G const tk_quad *)b + (at >> 4);
        TK_S tk_quad *row = to + r * pitch;
        tk_i32 i = TK_LOCAL % TK_TEAM;
#pragma unroll 4
        for (; i < whole; i += TK_TEAM)
            row[i] = from[i];
        for (; i < quads; i += TK_TEAM) {
            tk_quad quad;
            for (tk_i32 k = 0; k < 4; k++)
                quad.w[k] = tk_bytes_at(b, at + 16 * i + 4 * k, end);
            row[i] = quad;
        }
    }
}

/* TK_PLACE is the offset in b of unit `unit` of row `row`. TK_UNIT_BYTES is the
 * size of `units` units. */
#define TK_PLACE(row, unit)                                                   \
    (TK_B + (row) * TK_B_ROW + (tk_i64)((unit) / TK_UNITS) * TK_BYTES)
#define TK_UNIT_BYTES(units) ((units) / TK_UNITS * TK_BYTES)

/* ---- what the kernels share ---------------------------------------------- */

#define TK_ARGUMENTS                                                          \
    TK_G const tk_f32 *a, TK_G const tk_u32 *b, TK_G tk_f32 *c,               \
        TK_G tk_u32 *rounded, TK_WORDS
/* quads that a chunk of a row takes in local memory, with four bytes more */
#define TK_PITCH ((TK_UNIT_BYTES(TK_CHUNK) + 4 + 15) / 16)
/* the block of unit u of row r in local memory */
#define TK_STAGED(r, u) tk_block_at(blocks[(r) * TK_PITCH].w, (u) / TK_UNITS)
