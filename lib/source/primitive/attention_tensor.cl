/* attention_tensor.cl: attention on tensor cores, in CUDA C for compute
 * capability 8.0 and later, for float16 and bfloat16 (TK_BF16). Each warp has
 * 16 of the 64 rows of a tile and multiplies with mma.m16n8k16. The registers
 * that have the result of one product are laid out as an operand of the next
 * product, so scores stay in registers. Tiles are loaded with cp.async.
 *
 * Of a 16 x 8 result, lane t has rows t / 4 and t / 4 + 8 and columns 2 * (t %
 * 4) and 2 * (t % 4) + 1. In local memory, a row of 16-bit numbers consists of
 * units of 16 bytes. They are permuted by the index of the row (XOR swizzle),
 * so that the units that ldmatrix reads together are in different banks. */
#define TK_WARPS 4
#define TK_UNITS(size) ((size) / 8)
#define TK_SWIZZLED(size) (TK_UNITS(size) < 8 ? TK_UNITS(size) : 8)
#define TK_UNIT(size, row, unit)                                              \
    ((row) * TK_UNITS(size) +                                                 \
     ((unit) ^ ((row) / (8 / TK_SWIZZLED(size)) % TK_SWIZZLED(size))))

TK_FN unsigned tk_shared_at(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* Copies 16 bytes, or zeros if not `wanted`, to local memory. */
TK_FN void tk_copy_unit(uint4 *to, const void *from, bool wanted)
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

TK_FN void tk_load_four(unsigned r[4], const uint4 *unit)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, "
                 "[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(tk_shared_at(unit))
                 : "memory");
}

TK_FN void tk_load_transposed(unsigned r[4], const uint4 *unit)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, "
                 "%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(tk_shared_at(unit))
                 : "memory");
}

#ifdef TK_BF16
#define TK_MMA_TYPE "bf16"
#else
#define TK_MMA_TYPE "f16"
#endif

/* sum += a * b for a 16 x 16 matrix a and a 16 x 8 matrix b. */
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

/* Returns x of the lane whose index differs from this lane's in `bit`. */
TK_FN float tk_other_lane(float x, int bit)
{
    unsigned y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;"
                 : "=r"(y)
                 : "r"((unsigned)tk_bits_f32(x)), "r"(bit));
    return tk_of_bits_f32(y);
}

/* Loads rows from first up to first + rows of operand o into local memory. */
#ifdef TK_ALIGNED
#define TK_LOAD(to, from, o, base, first, rows, count, padded, size)          \
    _Pragma("unroll") for (int at = TK_LOCAL;                                 \
                           at < (rows) * TK_UNITS(padded);                    \
                           at += 32 * TK_WARPS)                               \
    {                                                                         \
        const int row = at / TK_UNITS(padded), unit = at % TK_UNITS(padded);  \
        const bool is = (first) + row < (count) && unit * 8 < (size);         \
        tk_copy_unit(&to[TK_UNIT(padded, row, unit)],                         \
                      &from[is ? (base) + ((first) + row) * TK_STRIDE(o, 2) + \
                                     unit * 8                                 \
                               : (base)],                                     \
                      is);                                                    \
    }                                                                         \
    tk_copies_commit();
#else
#define TK_LOAD(to, from, o, base, first, rows, count, padded, size)          \
    for (int at = TK_LOCAL; at < (rows) * TK_UNITS(padded);                   \
         at += 32 * TK_WARPS) {                                               \
        const int row = at / TK_UNITS(padded), unit = at % TK_UNITS(padded);  \
        unsigned word[4];                                                     \
        _Pragma("unroll") for (int e = 0; e < 8; e++)                         \
        {                                                                     \
            const int column = unit * 8 + e;                                  \
            const unsigned half =                                             \
                (first) + row < (count) && column < (size)                    \
                    ? from[(base) + ((first) + row) * TK_STRIDE(o, 2) +       \
                           column * TK_STRIDE(o, 3)]                          \
                    : 0;                                                      \
            word[e / 2] = e % 2 ? word[e / 2] | half << 16 : half;            \
        }                                                                     \
        to[TK_UNIT(padded, row, unit)] =                                      \
            make_uint4(word[0], word[1], word[2], word[3]);                   \
    }
#endif

/* Load an operand of a product from a tile in local memory. TK_LEFT loads 16
 * rows as the left operand. TK_COLUMNS loads 16 rows as columns of the right
 * operand. TK_RIGHT loads 16 rows as rows of the right operand. `unit` is the
 * first of the two units of each row. */
#define TK_LEFT(a, tile, size, row, unit)                                     \
    tk_load_four(a, &tile[TK_UNIT(size, (row) + lane % 16,                    \
                                   (unit) + lane / 16)]);
#define TK_COLUMNS(b, tile, size, row, unit)                                  \
    tk_load_four(b, &tile[TK_UNIT(size, (row) + lane / 16 * 8 + lane % 8,     \
                                   (unit) + lane / 8 % 2)]);
#define TK_RIGHT(b, tile, size, row, unit)                                    \
    tk_load_transposed(b, &tile[TK_UNIT(size, (row) + lane % 16,              \
                                     (unit) + lane / 16)]);

/* Adds to sum[many] the products of the warp's 16 rows of tile `left` with the
 * rows of `tile`. */
#define TK_MULTIPLY_ROWS(sum, many, left, tile, size)                         \
    _Pragma("unroll") for (int e = 0; e < (size) / 16; e++)                   \
    {                                                                         \
        unsigned a[4], b[4];                                                  \
        TK_LEFT(a, left, size, 16 * warp, 2 * e)                              \
        _Pragma("unroll") for (int n = 0; n < (many); n += 2)                 \
        {                                                                     \
            TK_COLUMNS(b, tile, size, 8 * n, 2 * e)                           \
            tk_mma(sum[n], a, b[0], b[1]);                                    \
            tk_mma(sum[n + 1], a, b[2], b[3]);                                \
        }                                                                     \
    }

/* Adds to `sum` the product of the weights (`many` blocks of 8 columns) and the
 * rows of a tile. */
#define TK_MULTIPLY_WEIGHTS(sum, weights, many, tile, size)                   \
    _Pragma("unroll") for (int j = 0; j < (many) / 2; j++)                    \
    {                                                                         \
        const unsigned a[4] = {                                               \
            tk_halves(weights[2 * j][0], weights[2 * j][1]),                  \
            tk_halves(weights[2 * j][2], weights[2 * j][3]),                  \
            tk_halves(weights[2 * j + 1][0], weights[2 * j + 1][1]),          \
            tk_halves(weights[2 * j + 1][2], weights[2 * j + 1][3])};         \
        _Pragma("unroll") for (int n = 0; n < (size) / 8; n += 2)             \
        {                                                                     \
            unsigned b[4];                                                    \
            TK_RIGHT(b, tile, size, 16 * j, n)                                \
            tk_mma(sum[n], a, b[0], b[1]);                                    \
            tk_mma(sum[n + 1], a, b[2], b[3]);                                \
        }                                                                     \
    }

#define TK_CLEAR(sum, many)                                                   \
    _Pragma("unroll") for (int n = 0; n < (many); n++)                        \
        _Pragma("unroll") for (int i = 0; i < 4; i++) sum[n][i] = 0.0f;

/* Stores two 16-bit numbers at columns e and e + 1 of a row. */
#ifdef TK_ALIGNED
#define TK_STORE_PAIR(row_at, o, e, size, low, high)                          \
    if ((e) < (size))                                                         \
        *(unsigned *)((row_at) + (e)) = tk_halves(low, high);
#else
#define TK_STORE_PAIR(row_at, o, e, size, low, high)                          \
    {                                                                         \
        const unsigned both = tk_halves(low, high);                           \
        if ((e) < (size))                                                     \
            (row_at)[(e) * TK_STRIDE(o, 3)] = (TK_STORED)both;                \
        if ((e) + 1 < (size))                                                 \
            (row_at)[((e) + 1) * TK_STRIDE(o, 3)] = (TK_STORED)(both >> 16);  \
    }
#endif
