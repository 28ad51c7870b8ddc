/* eval.c: computes one scalar instruction. It is the table TN_KERNEL_MAP of
 * plugin_program.h as C code. The interpreter and constant folding both use it,
 * so folded constants are bit-identical to computed values.
 *
 * A float32 value is stored as a double, which is exact. An operation that
 * rounds is computed in float. A 32-bit integer is stored sign-extended to 64
 * bits and is wrapped after each instruction. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include <kernel/narrow_float.h>
#include <kernel/kernel.h>
#include <kernel/philox.h>

static tn_number number_f(double f)
{
    return (tn_number){.f = f};
}

static tn_number number_i(int64_t i)
{
    return (tn_number){.i = i};
}

/* Wraps i to the range of a register type: I32, I64 or BOOL. */
static tn_number wrap(int64_t i, tn_dtype dtype)
{
    switch (dtype) {
    case TN_BOOL:
        return number_i(i != 0);
    case TN_I32:
        return number_i((int32_t)(uint32_t)i);
    default:
        return number_i(i);
    }
}

static bool is_float(tn_dtype dtype)
{
    return dtype == TN_F32 || dtype == TN_F64;
}

/* ---- conversions ------------------------------------------------------- */

/* Truncates x, clamps it to [low, high], and maps NaN to 0. Both comparisons
 * are exact, since -2^31, 2^31, -2^63 and 2^63 are doubles. */
static int64_t saturate(double x, int64_t low, int64_t high)
{
    if (isnan(x))
        return 0;
    if (x < (double)low)
        return low;
    if (x >= (double)high) /* as a double, the largest int64 is 2^63 */
        return high;
    return (int64_t)x;
}

static tn_number cast(tn_number a, tn_dtype from, tn_dtype to)
{
    if (to == TN_BOOL)
        return number_i(is_float(from) ? a.f != 0 : a.i != 0);
    if (is_float(from)) {
        switch (to) {
        case TN_F32:
            return number_f((float)a.f);
        case TN_F64:
            return a;
        case TN_I32:
            return number_i(saturate(a.f, INT32_MIN, INT32_MAX));
        default:
            return number_i(saturate(a.f, INT64_MIN, INT64_MAX));
        }
    }
    switch (to) {
    case TN_F32:
        return number_f((float)a.i); /* converts directly to float; to double
                                      * first would round twice */
    case TN_F64:
        return number_f((double)a.i);
    default:
        return wrap(a.i, to);
    }
}

/* Reinterprets the bits of a float as an integer, or of an integer as a float.
 * Any NaN gives the bits of the positive quiet NaN, because processors differ
 * in the bits of the NaNs that they compute. */
static tn_number bitcast(tn_number a, tn_dtype to)
{
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
    switch (to) {
    case TN_I32:
        f32 = isnan(a.f) ? NAN : (float)a.f;
        memcpy(&i32, &f32, sizeof i32);
        return number_i(isnan(a.f) ? 0x7fc00000 : i32);
    case TN_I64:
        memcpy(&i64, &a.f, sizeof i64);
        return number_i(isnan(a.f) ? 0x7ff8000000000000 : i64);
    case TN_F32:
        i32 = (int32_t)a.i;
        memcpy(&f32, &i32, sizeof f32);
        return number_f(f32);
    default:
        memcpy(&f64, &a.i, sizeof f64);
        return number_f(f64);
    }
}

static tn_number narrow(tn_number a, tn_dtype to)
{
    switch (to) {
    case TN_F16:
    case TN_BF16:
    case TN_F8E4M3:
    case TN_F8E5M2:
        return number_f(
            tn__narrow_decode(to, tn__narrow_encode(to, (float)a.f)));
    case TN_I16:
        return number_i((int16_t)(uint16_t)a.i);
    case TN_I8:
        return number_i((int8_t)(uint8_t)a.i);
    case TN_U8:
        return number_i((uint8_t)a.i);
    default: /* values of all other dtypes are stored as they are */
        return a;
    }
}

/* ---- arithmetic -------------------------------------------------------- */

/* Returns the smaller of x and y, where -0 is less than +0. Returns NaN if x or
 * y is NaN. */
static double lesser(double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return signbit(x) ? x : y;
    return x < y ? x : y;
}

static double greater(double x, double y)
{
    if (isnan(x) || isnan(y))
        return NAN;
    if (x == y)
        return signbit(x) ? y : x;
    return x > y ? x : y;
}

/* Computes an operation on floats. Operations that round are computed in float
 * if `single` is set, else in double. All other operations have the same result
 * in both types; that includes fmod, which is exact. */
static double eval_float(unsigned op, bool single, double x, double y, double z)
{
    float xs = (float)x, ys = (float)y, zs = (float)z;
    switch (op) {
    case TN_K_ADD:
        return single ? (double)(xs + ys) : x + y;
    case TN_K_SUB:
        return single ? (double)(xs - ys) : x - y;
    case TN_K_MUL:
        return single ? (double)(xs * ys) : x * y;
    case TN_K_DIV:
        return single ? (double)(xs / ys) : x / y;
    case TN_K_FMA:
        return single ? (double)fmaf(xs, ys, zs) : fma(x, y, z);
    case TN_K_SQRT:
        return single ? (double)sqrtf(xs) : sqrt(x);
    case TN_K_REM:
        return fmod(x, y);
    case TN_K_NEG:
        return -x;
    case TN_K_ABS:
        return fabs(x);
    case TN_K_MIN:
        return lesser(x, y);
    case TN_K_MAX:
        return greater(x, y);
    case TN_K_FLOOR:
        return floor(x);
    case TN_K_CEIL:
        return ceil(x);
    case TN_K_TRUNC:
        return trunc(x);
    default:
        assert(op == TN_K_RINT);
        return rint(x);
    }
}

static bool compare_float(unsigned op, double x, double y)
{
    switch (op) {
    case TN_K_EQ:
        return x == y;
    case TN_K_NE:
        return x != y;
    case TN_K_LT:
        return x < y;
    default:
        return x <= y;
    }
}

static bool compare_int(unsigned op, int64_t x, int64_t y)
{
    switch (op) {
    case TN_K_EQ:
        return x == y;
    case TN_K_NE:
        return x != y;
    case TN_K_LT:
        return x < y;
    default:
        return x <= y;
    }
}

static int64_t divide(int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    if (y == -1) /* INT64_MIN / -1 overflows in C, so x is negated, which
                  * wraps */
        return (int64_t)(0 - (uint64_t)x);
    return x / y;
}

static int64_t shift(unsigned op, int64_t x, int64_t y, int width)
{
    bool inside = y >= 0 && y < width;
    switch (op) {
    case TN_K_SHL:
        return inside ? (int64_t)((uint64_t)x << y) : 0;
    case TN_K_SHR: /* C does not define >> of a negative number, but all
                      compilers of Tenon shift in the sign bit */
        return inside ? x >> y : x < 0 ? -1 : 0;
    default:
        if (!inside)
            return 0;
        return (int64_t)((width == 32 ? (uint32_t)x : (uint64_t)x) >> y);
    }
}

/* Computes an operation on I32 or I64; the caller wraps the result. Arithmetic
 * is done with unsigned integers, for which C defines that they wrap. */
static int64_t eval_int(unsigned op, int width, int64_t x, int64_t y)
{
    uint64_t ux = (uint64_t)x, uy = (uint64_t)y;
    switch (op) {
    case TN_K_ADD:
        return (int64_t)(ux + uy);
    case TN_K_SUB:
        return (int64_t)(ux - uy);
    case TN_K_MUL:
        return (int64_t)(ux * uy);
    case TN_K_DIV:
        return divide(x, y);
    case TN_K_REM:
        return y == 0 || y == -1 ? 0 : x % y;
    case TN_K_NEG:
        return (int64_t)(0 - ux);
    case TN_K_ABS:
        return x < 0 ? (int64_t)(0 - ux) : x;
    case TN_K_MIN:
        return x < y ? x : y;
    case TN_K_MAX:
        return x > y ? x : y;
    case TN_K_AND:
        return x & y;
    case TN_K_OR:
        return x | y;
    case TN_K_XOR:
        return x ^ y;
    case TN_K_NOT:
        return ~x;
    case TN_K_MULHI:
        return (int64_t)((uint64_t)(uint32_t)x * (uint32_t)y >> 32);
    default:
        assert(op == TN_K_SHL || op == TN_K_SHR || op == TN_K_SHRL);
        return shift(op, x, y, width);
    }
}

static bool eval_bool(unsigned op, bool x, bool y)
{
    switch (op) {
    case TN_K_ADD:
    case TN_K_MAX:
    case TN_K_OR:
        return x || y;
    case TN_K_MUL:
    case TN_K_MIN:
    case TN_K_AND:
        return x && y;
    case TN_K_XOR:
        return x != y;
    default:
        assert(op == TN_K_NOT);
        return !x;
    }
}

tn_number tn__kernel_eval(const tn_kernel_ins *ins, tn_number a, tn_number b,
                          tn_number c, tn_dtype a_dtype)
{
    switch (ins->op) {
    case TN_K_CONST:
        if (is_float(ins->dtype))
            return cast(number_f(ins->imm.f), TN_F64, ins->dtype);
        return wrap(ins->imm.i, ins->dtype);
    case TN_K_CAST:
        return cast(a, a_dtype, ins->dtype);
    case TN_K_BITCAST:
        return bitcast(a, ins->dtype);
    case TN_K_NARROW:
        return narrow(a, ins->sub);
    case TN_K_SELECT:
        return a.i ? b : c;
    case TN_K_EQ:
    case TN_K_NE:
    case TN_K_LT:
    case TN_K_LE:
        return number_i(is_float(a_dtype) ? compare_float(ins->op, a.f, b.f)
                                          : compare_int(ins->op, a.i, b.i));
    case TN_K_PHILOX:
        return number_i((int32_t)tn__philox((uint64_t)a.i >> 2, (uint64_t)c.i,
                                            (uint64_t)b.i, a.i & 3));
    default:
        break;
    }
    switch (ins->dtype) {
    case TN_F32:
        return number_f(eval_float(ins->op, true, a.f, b.f, c.f));
    case TN_F64:
        return number_f(eval_float(ins->op, false, a.f, b.f, c.f));
    case TN_BOOL:
        return number_i(eval_bool(ins->op, a.i, b.i));
    default:
        return wrap(eval_int(ins->op, ins->dtype == TN_I32 ? 32 : 64, a.i, b.i),
                    ins->dtype);
    }
}
