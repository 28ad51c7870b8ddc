/* instructions.cl: the instructions of the kernel language (TN_KERNEL_MAP in
 * <tenon/plugin_program.h>). Each is a function tk_<instruction>_<result type>
 * that is defined for every input. An instruction for which C's operator is
 * defined for every input is printed as that operator and has no function
 * here. */

#define TK_COMPARISON(T)                                                      \
    TK_FN tk_bool tk_eq_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return x == y;                                                        \
    }                                                                         \
    TK_FN tk_bool tk_ne_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return x != y;                                                        \
    }                                                                         \
    TK_FN tk_bool tk_lt_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return x < y;                                                         \
    }                                                                         \
    TK_FN tk_bool tk_le_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return x <= y;                                                        \
    }
#define TK_BITWISE(T)                                                         \
    TK_FN tk_##T tk_and_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return x & y;                                                         \
    }                                                                         \
    TK_FN tk_##T tk_or_##T(tk_##T x, tk_##T y)                                \
    {                                                                         \
        return x | y;                                                         \
    }                                                                         \
    TK_FN tk_##T tk_xor_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return x ^ y;                                                         \
    }
TK_COMPARISON(f32)
#ifdef TK_F64
TK_COMPARISON(f64)
#endif
TK_COMPARISON(i32)
TK_COMPARISON(i64)
TK_COMPARISON(bool)
TK_BITWISE(i32)
TK_BITWISE(i64)
TK_BITWISE(bool)

/* ---- integers: in C, overflow and wide shifts are undefined -------------- */

#define TK_INTEGER(T, U, width)                                               \
    TK_FN tk_##T tk_add_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return (tk_##T)((tk_##U)x + (tk_##U)y);                               \
    }                                                                         \
    TK_FN tk_##T tk_sub_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return (tk_##T)((tk_##U)x - (tk_##U)y);                               \
    }                                                                         \
    TK_FN tk_##T tk_mul_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return (tk_##T)((tk_##U)x * (tk_##U)y);                               \
    }                                                                         \
    TK_FN tk_##T tk_neg_##T(tk_##T x)                                         \
    {                                                                         \
        return (tk_##T)(0 - (tk_##U)x);                                       \
    }                                                                         \
    TK_FN tk_##T tk_abs_##T(tk_##T x)                                         \
    {                                                                         \
        return x < 0 ? tk_neg_##T(x) : x;                                     \
    }                                                                         \
    /* y == -1 is separate: MIN / -1 overflows, which may trap */             \
    TK_FN tk_##T tk_div_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return y == 0 ? 0 : y == -1 ? tk_neg_##T(x) : x / y;                  \
    }                                                                         \
    TK_FN tk_##T tk_rem_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return y == 0 || y == -1 ? 0 : x % y;                                 \
    }                                                                         \
    TK_FN tk_##T tk_min_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return x < y ? x : y;                                                 \
    }                                                                         \
    TK_FN tk_##T tk_max_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return x > y ? x : y;                                                 \
    }                                                                         \
    TK_FN tk_##T tk_shl_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return y >= 0 && y < width ? (tk_##T)((tk_##U)x << y) : 0;            \
    }                                                                         \
    TK_FN tk_##T tk_shr_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        return y >= 0 && y < width ? x >> y : x < 0 ? -1 : 0;                 \
    }                                                                         \
    TK_FN tk_##T tk_shrl_##T(tk_##T x, tk_##T y)                              \
    {                                                                         \
        return y >= 0 && y < width ? (tk_##T)((tk_##U)x >> y) : 0;            \
    }
TK_INTEGER(i32, u32, 32)
TK_INTEGER(i64, u64, 64)

TK_FN tk_i32 tk_mulhi_i32(tk_i32 x, tk_i32 y)
{
    return (tk_i32)(tk_u32)((tk_u64)(tk_u32)x * (tk_u32)y >> 32);
}

/* Philox4x32-10, the random number generator. Source: Salmon, Moraes, Dror,
 * Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
TK_FN tk_i32 tk_philox_i32(tk_i64 element, tk_i64 key, tk_i64 call)
{
    tk_u64 counter = (tk_u64)element >> 2;
    tk_u32 x0 = (tk_u32)counter, x1 = (tk_u32)(counter >> 32);
    tk_u32 x2 = (tk_u32)(tk_u64)call, x3 = (tk_u32)((tk_u64)call >> 32);
    tk_u32 k0 = (tk_u32)(tk_u64)key, k1 = (tk_u32)((tk_u64)key >> 32);
    for (tk_i32 round = 0; round < 10; round++) {
        tk_u64 p0 = (tk_u64)0xD2511F53u * x0;
        tk_u64 p1 = (tk_u64)0xCD9E8D57u * x2;
        x0 = (tk_u32)(p1 >> 32) ^ x1 ^ k0;
        x1 = (tk_u32)p1;
        x2 = (tk_u32)(p0 >> 32) ^ x3 ^ k1;
        x3 = (tk_u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    tk_i32 word = (tk_i32)(element & 3);
    return (tk_i32)(word < 2 ? (word == 0 ? x0 : x1) : (word == 2 ? x2 : x3));
}

/* ---- bool ---------------------------------------------------------------- */

TK_FN tk_bool tk_add_bool(tk_bool x, tk_bool y)
{
    return x || y;
}

TK_FN tk_bool tk_mul_bool(tk_bool x, tk_bool y)
{
    return x && y;
}

TK_FN tk_bool tk_max_bool(tk_bool x, tk_bool y)
{
    return x || y;
}

TK_FN tk_bool tk_min_bool(tk_bool x, tk_bool y)
{
    return x && y;
}

/* ---- floats -------------------------------------------------------------- */

/* The smaller and the larger of two numbers, where -0 < +0. If the numbers
 * compare equal, they differ at most in the sign of zero. Then the bitwise "or"
 * has the sign of the smaller, and the bitwise "and" the sign of the larger. */
#ifdef TK_ORDERED_ZEROS
#define TK_LESSER(T, x, y) tk_lesser_##T((x), (y))
#define TK_GREATER(T, x, y) tk_greater_##T((x), (y))
#else
#define TK_LESSER(T, x, y)                                                    \
    x == y  ? tk_of_bits_##T(tk_bits_##T(x) | tk_bits_##T(y))                 \
    : x < y ? x                                                               \
            : y
#define TK_GREATER(T, x, y)                                                   \
    x == y  ? tk_of_bits_##T(tk_bits_##T(x) & tk_bits_##T(y))                 \
    : x > y ? x                                                               \
            : y
#endif

/* Defines the functions for the float type T. I is the integer type of the same
 * size, SIGN has only the sign bit set, and NAN_BITS are the bits of every NaN
 * result. */
#define TK_FLOAT(T, I, SIGN, NAN_BITS)                                        \
    TK_FN tk_bool tk_isnan_##T(tk_##T x)                                      \
    {                                                                         \
        return x != x;                                                        \
    }                                                                         \
    TK_FN tk_##T tk_neg_##T(tk_##T x)                                         \
    {                                                                         \
        return tk_of_bits_##T(tk_bits_##T(x) ^ SIGN);                         \
    }                                                                         \
    TK_FN tk_##T tk_abs_##T(tk_##T x)                                         \
    {                                                                         \
        return tk_of_bits_##T(tk_bits_##T(x) & ~SIGN);                        \
    }                                                                         \
    TK_FN tk_##T tk_min_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        tk_##T z = TK_LESSER(T, x, y);                                        \
        return x != x || y != y ? tk_of_bits_##T(NAN_BITS) : z;               \
    }                                                                         \
    TK_FN tk_##T tk_max_##T(tk_##T x, tk_##T y)                               \
    {                                                                         \
        tk_##T z = TK_GREATER(T, x, y);                                       \
        return x != x || y != y ? tk_of_bits_##T(NAN_BITS) : z;               \
    }                                                                         \
    TK_FN tk_##I tk_bitcast_##I(tk_##T x)                                     \
    {                                                                         \
        return x != x ? NAN_BITS : tk_bits_##T(x);                            \
    }                                                                         \
    TK_FN tk_##T tk_bitcast_##T(tk_##I x)                                     \
    {                                                                         \
        return tk_of_bits_##T(x);                                             \
    }                                                                         \
    /* The bounds are exact in f32 and f64. NaN fails both comparisons. */    \
    TK_FN tk_i32 tk_i32_of_##T(tk_##T x)                                      \
    {                                                                         \
        if (!(x >= -2147483648.0f))                                           \
            return x != x ? 0 : -2147483647 - 1;                              \
        return x < 2147483648.0f ? (tk_i32)x : 2147483647;                    \
    }                                                                         \
    TK_FN tk_i64 tk_i64_of_##T(tk_##T x)                                      \
    {                                                                         \
        const tk_i64 most = (tk_i64)0x7fffffffffffffff;                       \
        if (!(x >= -9223372036854775808.0f))                                  \
            return x != x ? 0 : -most - 1;                                    \
        return x < 9223372036854775808.0f ? (tk_i64)x : most;                 \
    }
TK_FLOAT(f32, i32, (-2147483647 - 1), 0x7fc00000)
#ifdef TK_F64
TK_FLOAT(f64, i64, (-(tk_i64)0x7fffffffffffffff - 1),
         (tk_i64)0x7ff8000000000000)
#endif

/* Correctly rounded x / y and sqrt(x). Dividing as doubles and rounding to
 * float gives the correct result, because a double has 53 bits and 53 >= 2 * 24
 * + 2. */
#if defined(TK_EXACT_DIVIDE)
#define tk_div_f32(x, y) tk_device_divide((x), (y))
#define tk_sqrt_f32(x) tk_device_sqrt(x)
#elif defined(TK_F64)
#define tk_div_f32(x, y) ((tk_f32)((tk_f64)(x) / (tk_f64)(y)))
#define tk_sqrt_f32(x) ((tk_f32)tk_sqrt_f64((tk_f64)(x)))
#else
/* Returns the significand of a finite number above 0, with its leading one in
 * bit 23. `magnitude` has the number's bits. Sets *e to the biased exponent. */
TK_FN tk_u32 tk_unpack_f32(tk_u32 magnitude, tk_i32 *e)
{
    tk_u32 m = magnitude & 0x7fffffu;
    *e = (tk_i32)(magnitude >> 23);
    if (*e == 0)
        *e = 1;
    else
        return m | 0x800000u;
    for (; m < 0x800000u; m <<= 1)
        (*e)--;
    return m;
}

/* Returns m * 2^(e - 127 - 23 - 26) rounded to nearest even. m must be in
 * [2^49, 2^51). Its lowest bit is set if the exact value has further bits
 * below. */
TK_FN tk_f32 tk_pack_f32(tk_u32 sign, tk_u64 m, tk_i32 e)
{
    if (m >= (tk_u64)1 << 50) {
        m = m >> 1 | (m & 1);
        e++;
    }
    /* bits to drop; a subnormal result has fewer bits left */
    tk_i32 drop = 26 + (e < 1 ? 1 - e : 0);
    if (drop > 62)
        drop = 62;
    tk_u64 kept = m >> drop, rest = m & (((tk_u64)1 << drop) - 1);
    tk_u64 middle = (tk_u64)1 << (drop - 1);
    if (rest > middle || (rest == middle && (kept & 1)))
        kept++;
    tk_u64 bits = kept;
    if (e >= 1)
        bits += (tk_u64)(e - 1) << 23;
    if (bits > 0x7f800000u)
        bits = 0x7f800000u;
    return tk_of_bits_f32(sign | (tk_u32)bits);
}

TK_FN tk_f32 tk_div_f32(tk_f32 x, tk_f32 y)
{
    tk_u32 a = (tk_u32)tk_bits_f32(x), b = (tk_u32)tk_bits_f32(y);
    tk_u32 sign = (a ^ b) & 0x80000000u;
    a &= 0x7fffffffu;
    b &= 0x7fffffffu;
    if (a > 0x7f800000u || b > 0x7f800000u || (a == 0 && b == 0) ||
        (a == 0x7f800000u && b == 0x7f800000u))
        return tk_of_bits_f32(0x7fc00000);
    if (a == 0 || b == 0x7f800000u)
        return tk_of_bits_f32(sign);
    if (b == 0 || a == 0x7f800000u)
        return tk_of_bits_f32(sign | 0x7f800000u);
    tk_i32 ea, eb;
    tk_u64 ma = tk_unpack_f32(a, &ea), mb = tk_unpack_f32(b, &eb);
    if (ma < mb) { /* so that the quotient is in [1, 2) */
        ma <<= 1;
        ea--;
    }
    tk_u64 q = (ma << 37) / mb;           /* q is in [2^37, 2^38) */
    tk_u64 r = (ma << 37) - q * mb;
    return tk_pack_f32(sign, q << 12 | (r != 0 ? 1 : 0), ea - eb + 127);
}

TK_FN tk_f32 tk_sqrt_f32(tk_f32 x)
{
    tk_u32 a = (tk_u32)tk_bits_f32(x);
    if ((a & 0x7fffffffu) == 0 || a == 0x7f800000u)
        return x;
    if (a > 0x7f800000u)
        return tk_of_bits_f32(0x7fc00000);
    tk_i32 e;
    tk_u64 m = tk_unpack_f32(a, &e);
    e -= 127;
    if (e & 1) {
        m <<= 1;
        e--;
    }
    m <<= 37; /* m is now in [2^60, 2^62), so the root has 31 bits */
    tk_u64 root = 0;
    for (tk_u64 bit = (tk_u64)1 << 30; bit != 0; bit >>= 1)
        if ((root | bit) * (root | bit) <= m)
            root |= bit;
    tk_u64 more = root * root != m ? 1 : 0;
    return tk_pack_f32(0, root << 19 | more, e / 2 + 127);
}
#endif

/* Returns x - y * trunc(x / y) exactly. Computes the remainder of the
 * significands by long division, with as many bits per step as fit into a
 * 64-bit word. */
TK_FN tk_f32 tk_rem_f32(tk_f32 x, tk_f32 y)
{
    tk_u32 a = (tk_u32)tk_bits_f32(x) & 0x7fffffffu;
    tk_u32 b = (tk_u32)tk_bits_f32(y) & 0x7fffffffu;
    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0)
        return tk_of_bits_f32(0x7fc00000);
    if (a < b)
        return x;
    tk_i32 ea = (tk_i32)(a >> 23), eb = (tk_i32)(b >> 23);
    tk_u64 ma = a & 0x7fffffu, mb = b & 0x7fffffu;
    ma |= ea > 0 ? 0x800000u : 0;
    mb |= eb > 0 ? 0x800000u : 0;
    ea = ea > 0 ? ea : 1;
    eb = eb > 0 ? eb : 1;
    ma %= mb;
    for (tk_i32 left = ea - eb; left > 0 && ma != 0; left -= 40)
        ma = (ma << (left < 40 ? left : 40)) % mb;
    /* The remainder is ma * 2^(eb - 127 - 23). Normalise it. */
    tk_i32 e = eb;
    for (; ma != 0 && ma < 0x800000u && e > 1; e--)
        ma <<= 1;
    tk_u32 bits = (tk_u32)ma;
    if (ma >= 0x800000u)
        bits += (tk_u32)(e - 1) << 23;
    return tk_of_bits_f32(bits | ((tk_u32)tk_bits_f32(x) & 0x80000000u));
}

#ifdef TK_F64
TK_FN tk_f64 tk_rem_f64(tk_f64 x, tk_f64 y)
{
    const tk_u64 one = (tk_u64)1 << 52, sign = (tk_u64)1 << 63;
    const tk_u64 infinity = (tk_u64)0x7ff << 52;
    tk_u64 a = (tk_u64)tk_bits_f64(x) & ~sign;
    tk_u64 b = (tk_u64)tk_bits_f64(y) & ~sign;
    if (a >= infinity || b > infinity || b == 0)
        return tk_of_bits_f64((tk_i64)0x7ff8000000000000);
    if (a < b)
        return x;
    tk_i32 ea = (tk_i32)(a >> 52), eb = (tk_i32)(b >> 52);
    tk_u64 ma = a & (one - 1), mb = b & (one - 1);
    ma |= ea > 0 ? one : 0;
    mb |= eb > 0 ? one : 0;
    ea = ea > 0 ? ea : 1;
    eb = eb > 0 ? eb : 1;
    ma %= mb;
    for (tk_i32 left = ea - eb; left > 0 && ma != 0; left -= 11)
        ma = (ma << (left < 11 ? left : 11)) % mb;
    tk_i32 e = eb;
    for (; ma != 0 && ma < one && e > 1; e--)
        ma <<= 1;
    if (ma >= one)
        ma += (tk_u64)(e - 1) << 52;
    return tk_of_bits_f64(ma | ((tk_u64)tk_bits_f64(x) & sign));
}
#endif
