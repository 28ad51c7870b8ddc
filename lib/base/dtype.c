/* dtype.c: names, sizes and type promotion of the dtypes, and the library's
 * version. */
#include <base/context.h>
#include <tenon/base.h>

#include <string.h>
#include <strings.h>

#ifndef TENON_VERSION
#define TENON_VERSION "0.1.0"
#endif

const char *tn_version(void)
{
    return TENON_VERSION;
}

int tn_version_number(void)
{
    return TN_VERSION_NUMBER;
}

static const struct {
    const char *name, *alias;
    size_t bytes;
    char kind;
} table[TN_DTYPE_END] = {
#define ROW(name, code, text, bytes, kind, reg)                               \
    [code] = {text, #name, bytes, kind},
    TN_DTYPE_MAP(ROW)
#undef ROW
};

static bool is_dtype(tn_dtype dtype)
{
    return dtype < TN_DTYPE_END && table[dtype].name;
}

const char *tn_dtype_name(tn_dtype dtype)
{
    return is_dtype(dtype) ? table[dtype].name : "none";
}

/* Further names that PyTorch has for dtypes, such as "float" and "half". */
static const struct {
    const char *name;
    tn_dtype dtype;
} synonyms[] = {
    {"float", TN_F32}, {"double", TN_F64}, {"half", TN_F16},
    {"long", TN_I64}, {"int", TN_I32},    {"short", TN_I16},
};

tn_dtype tn_dtype_from_name(const char *name)
{
    if (!name)
        return TN_DTYPE_NONE;
    for (tn_dtype i = 1; i < TN_DTYPE_END; i++)
        if (!strcmp(name, table[i].name) || !strcasecmp(name, table[i].alias))
            return i;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (!strcmp(name, synonyms[i].name))
            return synonyms[i].dtype;
    return TN_DTYPE_NONE;
}

size_t tn_dtype_bytes(tn_dtype dtype)
{
    return is_dtype(dtype) ? table[dtype].bytes : 0;
}

bool tn_dtype_is_floating(tn_dtype dtype)
{
    return is_dtype(dtype) && table[dtype].kind == 'f';
}

static bool is_float8(tn_dtype dtype)
{
    return dtype == TN_F8E4M3 || dtype == TN_F8E5M2;
}

/* Returns the result type of two dtypes, as torch.promote_types. A
 * floating-point type takes precedence over an integer type, and an integer
 * type over bool. Of two floating-point types, or two integer types, the wider
 * takes precedence. If two types have the same size (f16 and bf16, u8 and i8),
 * neither of them can represent all values of the other, so the result is a
 * wider type. */
tn_dtype tn_dtype_promote(tn_dtype a, tn_dtype b)
{
    if (!is_dtype(a) || !is_dtype(b))
        return TN_DTYPE_NONE;
    if (a == b)
        return a;
    if (is_float8(a) || is_float8(b))
        return TN_DTYPE_NONE;
    if (a == TN_BOOL || b == TN_BOOL)
        return a == TN_BOOL ? b : a;
    bool fa = tn_dtype_is_floating(a), fb = tn_dtype_is_floating(b);
    if (fa != fb)
        return fa ? a : b;
    size_t na = table[a].bytes, nb = table[b].bytes;
    if (na != nb)
        return na > nb ? a : b;
    return fa ? TN_F32 : TN_I16; /* f16 with bf16 gives f32; u8 with i8 gives
                                  * i16 */
}

tn_dtype tn_default_dtype(void)
{
    return tn__me.modes.dtype ? tn__me.modes.dtype : TN_F32;
}

tn_status tn_default_dtype_set(tn_dtype dtype)
{
    if (!tn_dtype_is_floating(dtype) || is_float8(dtype))
        return tn_error_set(TN_ERR_DTYPE,
                            "default_dtype_set: dtype is %s; expected "
                            "float32, float64, float16 or bfloat16",
                            tn_dtype_name(dtype));
    tn__me.modes.dtype = (uint8_t)dtype;
    return TN_OK;
}
