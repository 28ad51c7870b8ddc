/* npy_header.c: parses and writes the headers of .npy files.
 *
 * The header is a dict of Python, {'descr': '<f4', 'fortran_order': False,
 * 'shape': (3, 4), }. The parser accepts this form alone; nothing is
 * evaluated. */
#include <media/array/npy_header.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tensor.h>

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

static tn_status malformed(const char *what, const char *call,
                           const char *why, uint64_t at)
{
    return tn_error_refuse_argument(TN_ERR_FORMAT, call, NULL,
                                    "%s: not a valid .npy file: %s at byte "
                                    "%llu",
                                    what, why, (unsigned long long)at);
}

uint64_t tn__npy_header_bytes(const uint8_t *prefix, size_t have,
                              uint64_t total, const char *what,
                              const char *call)
{
    if (have < 10 || memcmp(prefix, magic, sizeof magic) != 0)
        return malformed(what, call, "no header that begins with \\x93NUMPY",
                         0),
               0;
    const int version = prefix[6];
    if (version < 1 || version > 3 || prefix[7] != 0)
        return tn_error_refuse_argument(
                   TN_ERR_UNSUPPORTED, call, NULL,
                   "%s: header version %d.%d; expected 1.0, 2.0 or 3.0", what,
                   version, prefix[7]),
               0;
    uint64_t bytes = prefix[8] | (uint64_t)prefix[9] << 8, start = 10;
    if (version > 1) {
        if (have < TN__NPY_PREFIX)
            return malformed(what, call, "a truncated header", have), 0;
        bytes |= (uint64_t)prefix[10] << 16 | (uint64_t)prefix[11] << 24;
        start = 12;
    }
    if (bytes > total - start || bytes > TN__NPY_MOST_HEADER)
        return tn_error_refuse_argument(
                   TN_ERR_FORMAT, call, NULL,
                   "%s: not a valid .npy file: a header of %" PRIu64
                   " bytes in a file of %" PRIu64,
                   what, bytes, total),
               0;
    return start + bytes;
}

/* ---- the literal ---------------------------------------------------------- */

typedef struct parser {
    const uint8_t *data, *p, *end;
    const char *what, *call;
    const char *mistake; /* the first mistake, or NULL */
} parser;

static bool wrong(parser *r, const char *mistake)
{
    if (!r->mistake)
        r->mistake = mistake;
    return false;
}

static void skip_blanks(parser *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t'))
        r->p++;
}

static bool take(parser *r, char c)
{
    skip_blanks(r);
    if (r->p == r->end || *r->p != (uint8_t)c)
        return false;
    r->p++;
    return true;
}

static bool need(parser *r, char c, const char *mistake)
{
    return take(r, c) || wrong(r, mistake);
}

static bool take_word(parser *r, const char *word)
{
    const size_t bytes = strlen(word);
    skip_blanks(r);
    if ((size_t)(r->end - r->p) < bytes || memcmp(r->p, word, bytes) != 0)
        return false;
    r->p += bytes;
    return true;
}

/* Parses a string in quotes, of at most room - 1 printable ASCII characters. */
static bool text(parser *r, char *out, size_t room)
{
    skip_blanks(r);
    if (r->p == r->end || (*r->p != '\'' && *r->p != '"'))
        return wrong(r, "expected a string in quotes");
    const uint8_t quote = *r->p++;
    size_t n = 0;
    for (; r->p < r->end && *r->p != quote; r->p++) {
        if (*r->p < ' ' || *r->p > '~' || *r->p == '\\')
            return wrong(r, "a character that cannot be part of a dtype");
        if (n + 1 < room)
            out[n++] = (char)*r->p;
    }
    out[n] = 0;
    return r->p++ < r->end || wrong(r, "a string has no closing quote");
}

static bool size(parser *r, int64_t *out)
{
    int64_t n = 0;
    bool digits = false;
    skip_blanks(r);
    for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
        digits = true;
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, *r->p - '0', &n))
            return wrong(r, "a size is above 2^63 - 1");
    }
    if (digits && r->p < r->end && *r->p == 'L') /* NumPy on Python 2 */
        r->p++;
    *out = n;
    return digits || wrong(r, "expected a size");
}

/* (), (3,) or (3, 4). Sizes beyond TN_MAX_NDIM are counted only. */
static bool shape(parser *r, tn__npy_header *header)
{
    int n = 0;
    bool comma = true;
    if (!need(r, '(', "no tuple"))
        return false;
    while (!take(r, ')')) {
        int64_t dim;
        if (!comma || !size(r, &dim))
            return wrong(r, "expected a comma");
        if (n < TN_MAX_NDIM)
            header->shape[n] = dim;
        n++;
        comma = take(r, ',');
    }
    header->ndim = n;
    return n != 1 || comma || wrong(r, "the shape is not a tuple");
}

/* ---- dtypes --------------------------------------------------------------- */

/* The kinds of NumPy's dtypes: the letter, bytes of an element, Tenon's dtype,
 * the conversion. */
static const struct type {
    char kind;
    unsigned item;
    tn_dtype dtype;
    tn__array_widen widen;
} types[] = {
    {'b', 1, TN_BOOL, TN__ARRAY_AS_IS}, {'i', 1, TN_I8, TN__ARRAY_AS_IS},
    {'i', 2, TN_I16, TN__ARRAY_AS_IS},  {'i', 4, TN_I32, TN__ARRAY_AS_IS},
    {'i', 8, TN_I64, TN__ARRAY_AS_IS},  {'u', 1, TN_U8, TN__ARRAY_AS_IS},
    {'u', 2, TN_I32, TN__ARRAY_U16},    {'u', 4, TN_I64, TN__ARRAY_U32},
    {'u', 8, TN_I64, TN__ARRAY_U64},    {'f', 1, TN_F8E5M2, TN__ARRAY_AS_IS},
    {'f', 2, TN_F16, TN__ARRAY_AS_IS},  {'f', 4, TN_F32, TN__ARRAY_AS_IS},
    {'f', 8, TN_F64, TN__ARRAY_AS_IS},
};

static const struct rejected {
    char kind;
    const char *name, *mend;
} rejected[] = {
    {'c', "a complex dtype", "save real and imaginary parts"},
    {'S', "byte strings", "save numbers"},
    {'a', "byte strings", "save numbers"},
    {'U', "text", "save numbers"},
    {'O', "Python objects, which are pickled", "save numbers"},
    {'M', "datetime64", "save x.astype('int64')"},
    {'m', "timedelta64", "save x.astype('int64')"},
    {'f', "a longdouble", "save x.astype('float64')"},
};

static tn_status raw_bytes(tn__npy_header *header, const char *descr,
                           unsigned item, tn_dtype view, const char *call)
{
    if (!view)
        return tn_error_refuse_argument(
            TN_ERR_DTYPE, call, "view",
            "%s: dtype '%s' is raw bytes: say what they are, such as "
            ".view = %s", header->elements.what, descr,
            item == 1 ? "TN_F8E4M3" : "TN_BF16");
    if (tn_dtype_bytes(view) != item)
        return tn_error_refuse_argument(
            TN_ERR_DTYPE, call, "view",
            "%s: dtype '%s' has elements of %u bytes, .view = %s of %d",
            header->elements.what, descr, item, tn_dtype_name(view),
            (int)tn_dtype_bytes(view));
    header->elements.dtype = view;
    header->elements.item = item;
    return TN_OK;
}

static tn_status dtype_of(tn__npy_header *header, const char *descr,
                          tn_dtype view, const char *call)
{
    const char order = strchr("<>|=", descr[0]) ? descr[0] : '=';
    const char *p = descr + (descr[0] && strchr("<>|=", descr[0]) ? 1 : 0);
    const char kind = *p;
    unsigned item = 0;
    tn__array_elements *elements = &header->elements;
    for (p += kind != 0; *p >= '0' && *p <= '9' && item < 1u << 20; p++)
        item = item * 10 + (unsigned)(*p - '0');
    const char *rest = p;
    elements->swapped = item > 1 && order == (tn__array_is_little_endian()
                                                  ? '>' : '<');
    if (view && (kind != 'V' || *rest))
        return tn_error_refuse_argument(
            TN_ERR_DTYPE, call, "view",
            "%s: dtype '%s' already determines the type of the elements: leave "
            ".view out",
            elements->what, descr);
    if (kind == 'V' && !*rest && item)
        return raw_bytes(header, descr, item, view, call);
    for (size_t i = 0; !*rest && i < sizeof types / sizeof *types; i++)
        if (types[i].kind == kind && types[i].item == item) {
            elements->dtype = types[i].dtype;
            elements->item = item;
            elements->widen = types[i].widen;
            return TN_OK;
        }
    for (size_t i = 0; i < sizeof rejected / sizeof *rejected; i++)
        if (rejected[i].kind == kind)
            return tn_error_refuse_argument(
                TN_ERR_DTYPE, call, NULL,
                "%s: dtype '%s' is %s, which Tenon does not read: %s",
                elements->what, descr, rejected[i].name, rejected[i].mend);
    return tn_error_refuse_argument(TN_ERR_DTYPE, call, NULL,
                                    "%s: unknown dtype '%s'", elements->what,
                                    descr);
}

/* ---- the header ----------------------------------------------------------- */

/* Parses the dict. Sets *structured if descr is not a string. */
static bool literal(parser *r, tn__npy_header *header, char *descr,
                    size_t room, bool *structured)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    bool comma = true;
    if (!need(r, '{', "no dict"))
        return false;
    while (!take(r, '}')) {
        char key[16];
        if (!comma)
            return wrong(r, "expected a comma");
        if (!text(r, key, sizeof key) || !need(r, ':', "no colon"))
            return false;
        int which = strcmp(key, "descr") == 0           ? DESCR
                    : strcmp(key, "fortran_order") == 0 ? ORDER
                    : strcmp(key, "shape") == 0         ? SHAPE
                                                        : 0;
        if (!which || seen & which)
            return wrong(r, which ? "a key is given twice"
                                 : "the key is unknown");
        seen |= which;
        if (which == DESCR) {
            skip_blanks(r);
            if (r->p < r->end && *r->p == '[')
                return *structured = true, false;
            if (!text(r, descr, room))
                return false;
        } else if (which == ORDER) {
            header->fortran = take_word(r, "True");
            if (!header->fortran && !take_word(r, "False"))
                return wrong(r, "expected True or False");
        } else if (!shape(r, header)) {
            return false;
        }
        comma = take(r, ',');
    }
    skip_blanks(r);
    if (seen != ALL)
        return wrong(r, "a key is missing");
    return r->p == r->end || wrong(r, "unexpected characters after the dict");
}

static tn_status check_sizes(tn__npy_header *header, uint64_t total,
                             const char *call)
{
    const char *what = header->elements.what;
    if (header->ndim > TN_MAX_NDIM)
        return tn_error_refuse_argument(
            TN_ERR_SHAPE, call, NULL,
            "%s: %d dimensions; a tensor has at most %d", what, header->ndim,
            TN_MAX_NDIM);
    uint64_t bytes;
    if (!tn__array_numel(header->shape, header->ndim, &header->numel) ||
        __builtin_mul_overflow((uint64_t)header->numel, header->elements.item,
                               &bytes))
        return malformed(what, call, "a shape with too many elements",
                         header->at);
    header->bytes = bytes;
    if (bytes != total - header->at)
        return tn_error_refuse_argument(
            TN_ERR_FORMAT, call, NULL,
            "%s: the header describes %llu bytes of elements, but %llu follow "
            "it%s", what, (unsigned long long)bytes,
            (unsigned long long)(total - header->at),
            bytes < total - header->at
                ? ": a file with several arrays must be split"
                : "");
    return TN_OK;
}

tn_status tn__npy_header_parse(tn__npy_header *header, const uint8_t *data,
                               uint64_t header_bytes, uint64_t total,
                               tn_dtype view, const char *what,
                               const char *call)
{
    const unsigned start = data[6] == 1 ? 10 : 12;
    parser r = {data, data + start, data + header_bytes, what, call, NULL};
    char descr[32] = "";
    bool structured = false;
    *header = (tn__npy_header){.at = header_bytes, .elements.what = what};
    if (view && !tn_dtype_bytes(view))
        return tn_error_refuse_argument(TN_ERR_DTYPE, call, "view",
                                        "view is %u, which is not a dtype",
                                        (unsigned)view);
    if (!literal(&r, header, descr, sizeof descr, &structured)) {
        if (structured)
            return tn_error_refuse_argument(
                TN_ERR_DTYPE, call, NULL,
                "%s: structured dtypes are not supported: save the fields as "
                "separate arrays",
                what);
        return malformed(what, call, r.mistake ? r.mistake : "a mistake",
                         (uint64_t)(r.p - r.data));
    }
    tn_status status = dtype_of(header, descr, view, call);
    return status < 0 ? status : check_sizes(header, total, call);
}

/* ---- writing -------------------------------------------------------------- */

/* The codes under which Tenon's dtypes are written. '|': one byte. */
static const char *descr_of(tn_dtype dtype)
{
    static const struct {
        tn_dtype dtype;
        const char *descr;
    } rows[] = {
        {TN_F32, "<f4"},  {TN_F64, "<f8"},    {TN_F16, "<f2"},
        {TN_BF16, "<V2"}, {TN_F8E4M3, "|V1"}, {TN_F8E5M2, "|V1"},
        {TN_I64, "<i8"},  {TN_I32, "<i4"},    {TN_I16, "<i2"},
        {TN_I8, "|i1"},   {TN_U8, "|u1"},     {TN_BOOL, "|b1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].dtype == dtype)
            return rows[i].descr;
    return "|V1";
}

size_t tn__npy_header_write(uint8_t *out, const tn_tensor *x, bool fortran,
                            int version)
{
    const size_t start = version == 1 ? 10 : 12;
    char *text_at = (char *)out + start;
    const size_t room = TN__NPY_WRITE_ROOM - start;
    const int ndim = tn_tensor_ndim(x);
    size_t n = (size_t)snprintf(
        text_at, room, "{'descr': '%s', 'fortran_order': %s, 'shape': (",
        descr_of(tn_tensor_dtype(x)), fortran ? "True" : "False");
    for (int d = 0; d < ndim; d++)
        n += (size_t)snprintf(text_at + n, room - n, d ? ", %" PRId64
                                                       : "%" PRId64,
                              tn_tensor_shape(x)[d]);
    n += (size_t)snprintf(text_at + n, room - n, ndim == 1 ? ",), }"
                                                           : "), }");
    size_t total = (start + n + 1 + 63) / 64 * 64;
    memset(text_at + n, ' ', total - start - n - 1);
    out[total - 1] = '\n';
    memcpy(out, magic, sizeof magic);
    out[6] = (uint8_t)version;
    out[7] = 0;
    for (size_t i = 8; i < start; i++)
        out[i] = (uint8_t)((total - start) >> 8 * (i - 8));
    return total;
}
