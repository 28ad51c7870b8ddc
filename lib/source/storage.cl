/* storage.cl: the storage types of elements, with conversions to and from
 * register types (NARROW, LOAD and STORE of <tenon/plugin_program.h>). A narrow
 * float type (f16, bf16, f8) is described by the width of its mantissa, the
 * exponent of its smallest normal number, and the codes at the top of its
 * range. A code is the bit pattern of a value. The conversions use only integer
 * operations. */

TK_FN tk_u32 tk_encode(tk_f32 x, tk_i32 mantissa, tk_i32 least, tk_u32 sign,
                       tk_u32 finite, tk_u32 infinity, tk_u32 overflow,
                       tk_u32 nan)
{
    tk_u32 bits = (tk_u32)tk_bits_f32(x), magnitude = bits & 0x7fffffffu;
    tk_u32 minus = bits >> 31 ? sign : 0u;
    tk_i32 field = (tk_i32)(magnitude >> 23);
    tk_i32 exponent = field == 0 ? -126 : field - 127;
    tk_u32 significand =
        (magnitude & 0x7fffffu) | (field == 0 ? 0u : 0x800000u);

    /* Subnormal numbers of the narrow type all have the same spacing, so they
     * are shifted further to the right. With a shift of 25, everything is
     * rounded to 0. */
    tk_i32 above = exponent - least;
    tk_i32 shift = 23 - mantissa + (above < 0 ? -above : 0);
    shift = shift > 25 ? 25 : shift;
    tk_u32 kept = significand >> shift, middle = 1u << (shift - 1);
    tk_u32 rest = significand & ((1u << shift) - 1u);
    kept += rest > middle || (rest == middle && (kept & 1u) != 0u) ? 1u : 0u;
    /* If the result is a normal number, the leading one of `kept` is the lowest
     * bit of the code's exponent field, so the field is 1 before `above` is
     * added. If rounding carries to the next power of two, the field becomes
     * one greater. */
    tk_u32 code = kept + (above > 0 ? (tk_u32)above << mantissa : 0u);
    code = code > finite ? overflow : code;
    code = magnitude == 0x7f800000u ? infinity : code;
    return minus | (magnitude > 0x7f800000u ? nan : code);
}

/* A normal number has the same fields as an f32, except for the bias of the
 * exponent. */
TK_FN tk_f32 tk_decode(tk_u32 code, tk_i32 mantissa, tk_i32 least, tk_u32 sign,
                       tk_u32 finite, tk_u32 infinity, tk_f32 unit)
{
    tk_u32 magnitude = code & (sign - 1u);
    tk_u32 bits = (magnitude << (23 - mantissa)) +
                  ((tk_u32)(126 + least) << 23);
    if (magnitude < 1u << mantissa)
        bits = (tk_u32)tk_bits_f32((tk_f32)(tk_i32)magnitude * unit);
    bits = magnitude > finite ? 0x7f800000u : bits;
    bits = magnitude > infinity ? 0x7fc00000u : bits;
    return tk_of_bits_f32(bits | ((code & sign) != 0u ? 0x80000000u : 0u));
}

#ifdef TK_HALVES
TK_FN tk_u32 tk_encode_f16(tk_f32 x)
{
    tk_u32 sign = (tk_u32)tk_bits_f32(x) >> 16 & 0x8000u;
    return x != x ? sign | 0x7e00u : tk_half_of_f32(x);
}

TK_FN tk_f32 tk_decode_f16(tk_u32 code)
{
    tk_f32 x = tk_f32_of_half(code);
    return x != x ? tk_of_bits_f32((code & 0x8000u) << 16 | 0x7fc00000u) : x;
}
#else
#define tk_encode_f16(x)                                                      \
    tk_encode((x), 10, -14, 0x8000u, 0x7bffu, 0x7c00u, 0x7c00u, 0x7e00u)
#define tk_decode_f16(code)                                                   \
    tk_decode((code), 10, -14, 0x8000u, 0x7bffu, 0x7c00u, 0x1p-24f)
#endif
#define tk_encode_f8e4m3(x)                                                   \
    tk_encode((x), 3, -6, 0x80u, 0x7eu, 0x7eu, 0x7eu, 0x7fu)
#define tk_decode_f8e4m3(code)                                                \
    tk_decode((code), 3, -6, 0x80u, 0x7eu, 0x7eu, 0x1p-9f)
#define tk_encode_f8e5m2(x)                                                   \
    tk_encode((x), 2, -14, 0x80u, 0x7bu, 0x7cu, 0x7bu, 0x7eu)
#define tk_decode_f8e5m2(code)                                                \
    tk_decode((code), 2, -14, 0x80u, 0x7bu, 0x7cu, 0x1p-16f)

TK_FN tk_u32 tk_encode_bf16(tk_f32 x)
{
    tk_u32 bits = (tk_u32)tk_bits_f32(x);
    tk_u32 rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return x != x ? (bits >> 16 & 0x8000u) | 0x7fc0u : rounded;
}

#define tk_decode_bf16(code) tk_of_bits_f32((tk_u32)(code) << 16)

#define tk_narrow_f16(x) tk_decode_f16(tk_encode_f16(x))
#define tk_narrow_bf16(x) tk_decode_bf16(tk_encode_bf16(x))
#define tk_narrow_f8e4m3(x) tk_decode_f8e4m3(tk_encode_f8e4m3(x))
#define tk_narrow_f8e5m2(x) tk_decode_f8e5m2(tk_encode_f8e5m2(x))
#define tk_narrow_i16(x) ((tk_i32)(tk_i16)(x))
#define tk_narrow_i8(x) ((tk_i32)(tk_i8)(x))
#define tk_narrow_u8(x) ((x) & 255)

/* tk_s_<dtype> is the storage type of a dtype. The functions below convert it
 * to and from its register type. */
typedef tk_f32 tk_s_f32;
typedef tk_u16 tk_s_f16;
typedef tk_u16 tk_s_bf16;
typedef tk_u8 tk_s_f8e4m3;
typedef tk_u8 tk_s_f8e5m2;
typedef tk_i64 tk_s_i64;
typedef tk_i32 tk_s_i32;
typedef tk_i16 tk_s_i16;
typedef tk_i8 tk_s_i8;
typedef tk_u8 tk_s_u8;
typedef tk_u8 tk_s_bool;
#define tk_from_f32(s) (s)
#define tk_from_f16(s) tk_decode_f16((tk_u32)(s))
#define tk_from_bf16(s) tk_decode_bf16(s)
#define tk_from_f8e4m3(s) tk_decode_f8e4m3((tk_u32)(s))
#define tk_from_f8e5m2(s) tk_decode_f8e5m2((tk_u32)(s))
#define tk_from_i64(s) (s)
#define tk_from_i32(s) (s)
#define tk_from_i16(s) ((tk_i32)(s))
#define tk_from_i8(s) ((tk_i32)(s))
#define tk_from_u8(s) ((tk_i32)(s))
#define tk_from_bool(s) ((s) != 0)
#define tk_to_f32(x) (x)
#define tk_to_f16(x) ((tk_u16)tk_encode_f16(x))
#define tk_to_bf16(x) ((tk_u16)tk_encode_bf16(x))
#define tk_to_f8e4m3(x) ((tk_u8)tk_encode_f8e4m3(x))
#define tk_to_f8e5m2(x) ((tk_u8)tk_encode_f8e5m2(x))
#define tk_to_i64(x) (x)
#define tk_to_i32(x) (x)
#define tk_to_i16(x) ((tk_i16)(x))
#define tk_to_i8(x) ((tk_i8)(x))
#define tk_to_u8(x) ((tk_u8)(x))
#define tk_to_bool(x) ((tk_u8)((x) ? 1 : 0))
#ifdef TK_F64
typedef tk_f64 tk_s_f64;
#define tk_from_f64(s) (s)
#define tk_to_f64(x) (x)
#endif
