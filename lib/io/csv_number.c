/* csv_number.c: converts a cell to a number of a dtype. A number that an
 * integer dtype cannot represent, or that is outside the range of a float
 * dtype, is an error. Digits beyond the precision of a float dtype are rounded,
 * as in C. */
#include <base/plain.h>
#include <io/csv.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The range of each dtype. For integers it is [least, most]. For floats,
 * numbers with a magnitude of at least `overflow` would round to infinity or,
 * in float8_e4m3, to NaN. */
static const struct {
    tn_dtype dtype;
    int64_t least, most; /* least and most are 0 for floats */
    double overflow;
} range[] = {
    {TN_I64, INT64_MIN, INT64_MAX, 0}, {TN_I32, INT32_MIN, INT32_MAX, 0},
    {TN_I16, INT16_MIN, INT16_MAX, 0}, {TN_I8, INT8_MIN, INT8_MAX, 0},
    {TN_U8, 0, UINT8_MAX, 0},          {TN_BOOL, 0, 1, 0},
    {TN_F64, 0, 0, INFINITY},          {TN_F32, 0, 0, INFINITY},
    {TN_F16, 0, 0, 65520},             {TN_BF16, 0, 0, 0x1.ffp127},
    {TN_F8E4M3, 0, 0, 464},            {TN_F8E5M2, 0, 0, 61440},
};

static int range_of(tn_dtype dtype)
{
    for (int i = 0; i < (int)(sizeof range / sizeof *range); i++)
        if (range[i].dtype == dtype)
            return i;
    return -1;
}

bool tn__csv_fits(int64_t integer, tn_dtype dtype)
{
    int i = range_of(dtype);
    if (range[i].most)
        return integer >= range[i].least && integer <= range[i].most;
    /* A float with p bits of significand represents all integers up to 2^p, but
     * not all larger ones. */
    int digits = dtype == TN_F64    ? 53
                 : dtype == TN_F32  ? 24
                 : dtype == TN_F16  ? 11
                 : dtype == TN_BF16 ? 8
                 : dtype == TN_F8E4M3 ? 4
                                      : 3;
    return integer <= (int64_t)1 << digits;
}

static bool bad(char problem[TN__CSV_PROBLEM], const char *text,
                const char *what, tn_dtype dtype)
{
    snprintf(problem, TN__CSV_PROBLEM, "%s%s: \"%.60s\"", what,
             dtype ? tn_dtype_name(dtype) : "", text);
    return false;
}

/* Returns whether a number that ends at `end` is the whole string, apart from
 * blanks after it. */
static bool is_end(const char *end, const char *text, size_t count)
{
    if (end == text)
        return false;
    while (*end == ' ' || *end == '\t')
        end++;
    return end == text + count;
}

bool tn__csv_parse(tn__csv_number *out, const char *text, size_t count,
                   tn_dtype dtype, char problem[TN__CSV_PROBLEM])
{
    int in = range_of(dtype);
    bool integer = range[in].most != 0;
    char *end;
    if (integer) {
        errno = 0;
        out->integer = strtoll(text, &end, 10);
        if (is_end(end, text, count))
            return (errno != ERANGE && out->integer >= range[in].least &&
                    out->integer <= range[in].most) ||
                   bad(problem, text, "outside the range of ", dtype);
    }
    errno = 0;
    /* A float32 is parsed directly, because parsing it as float64 first would
     * round twice. */
    double value = dtype == TN_F32 ? (double)tn__read_float(text, &end)
                                   : tn__read_double(text, &end);
    bool too_large = errno == ERANGE && isinf(value);
    if (!is_end(end, text, count)) {
        bad(problem, text, "not a number", TN_DTYPE_NONE);
        bool word = (*text | 32) >= 'a' && (*text | 32) <= 'z';
        size_t used = strlen(problem);
        if (word)
            snprintf(problem + used, TN__CSV_PROBLEM - used,
                     ": .skip_rows skips a header, .category reads a column "
                     "of texts");
        return false;
    }
    if (!integer) {
        out->number = value;
        return (!too_large &&
                (isinf(value) || !(fabs(value) >= range[in].overflow))) ||
               bad(problem, text, "beyond the range of ", dtype);
    }
    /* "1e3" and "2.0" are accepted as integers. Magnitudes of 2^53 or more are
     * not, because the float64 may have been rounded. */
    if (value != trunc(value))
        return bad(problem, text, "not a value of ", dtype);
    if (!(fabs(value) < 0x1p53) || value < (double)range[in].least ||
        value > (double)range[in].most)
        return bad(problem, text, "outside the range of ", dtype);
    out->integer = (int64_t)value;
    return true;
}
