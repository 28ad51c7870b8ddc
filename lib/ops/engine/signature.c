/* signature.c: parses "name(a, b?, n: int = 1; eps: float = 0) -> y, z".
 *
 * This parser is for operators that a program registers. The signatures of the
 * table are read by generate.awk when Tenon is built. The parser works on a
 * copy of the text and ends each word with a NUL that it writes into the copy.
 * It stores the character that the NUL has replaced until it reads this
 * character. */
#include <base/error.h>
#include <base/memory.h>
#include <base/plain.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <ops/engine/signature.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *whole; /* the caller's text, for messages */
    char *text, *at;   /* the start of the copy, and the next character */
    char end;          /* the character at `at` that a NUL has replaced, or 0 if
                          none is replaced */
} reader;

static tn_status complain(const reader *r, const char *wanted)
{
    return tn__fail(TN_ERR_FORMAT, "op_register: \"%s\": column %d: %s",
                    r->whole, (int)(r->at - r->text) + 1, wanted);
}

/* Skips blanks and returns the next character without consuming it. */
static char look(reader *r)
{
    while ((r->end ? r->end : *r->at) == ' ') {
        r->end = 0;
        r->at++;
    }
    return r->end ? r->end : *r->at;
}

static bool take(reader *r, char c)
{
    if (look(r) != c)
        return false;
    r->end = 0;
    r->at++;
    return true;
}

/* Ends the word before `at` with a NUL. */
static void end_word(reader *r)
{
    r->end = *r->at;
    *r->at = '\0';
}

static const char *name(reader *r)
{
    if (!isalpha((unsigned char)look(r)))
        return NULL;
    char *start = r->at;
    *start = r->end ? r->end : *start;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    end_word(r);
    return start;
}

/* ---- kinds and defaults of arguments ------------------------------------- */

static uint32_t kind_of(const char *word)
{
    static const struct {
        const char *word;
        int kind;
    } kinds[] = {
        {"tensor", TN_VALUE_TENSOR}, {"number", TN_VALUE_NUMBER},
        {"int", TN_VALUE_INT},       {"float", TN_VALUE_FLOAT},
        {"bool", TN_VALUE_BOOL},     {"dims", TN_VALUE_DIMS},
        {"string", TN_VALUE_STRING}, {"dtype", TN_VALUE_DTYPE},
        {"device", TN_VALUE_DEVICE},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (word && strcmp(word, kinds[i].word) == 0)
            return 1u << kinds[i].kind;
    return 0;
}

static tn_status read_kinds(reader *r, tn_op_arg *arg)
{
    arg->kinds = 1u << TN_VALUE_TENSOR;
    if (!take(r, ':'))
        return TN_OK;
    arg->kinds = 0;
    do {
        uint32_t kind = kind_of(name(r));
        if (!kind)
            return complain(r, "expected a kind: tensor, number, int, float, "
                               "bool, dims, string, dtype or device");
        arg->kinds |= kind;
    } while (take(r, '|'));
    return TN_OK;
}

static const char *read_text(reader *r)
{
    char *start = r->at;
    while (*r->at && *r->at != '"')
        r->at++;
    if (!*r->at)
        return NULL;
    *r->at++ = '\0';
    return start;
}

/* Reads a default that is a number and converts it to a kind that the argument
 * takes. */
static tn_status read_number(reader *r, tn_op_arg *arg, tn_value *v,
                             tn_dims_list *dims)
{
    char first = look(r), *start = r->at, *end;
    if (!isdigit((unsigned char)first) && first != '-')
        return complain(r, "a default is a number, true, false or a \"text\"");
    double number = tn__read_double(start, &end);
    const size_t length = (size_t)(end - start), sign = first == '-';
    const bool whole = strspn(start + sign, "0123456789") == length - sign;
    errno = 0;
    const int64_t integer = whole ? strtoll(start, NULL, 10) : 0;
    r->at = end;
    if (errno && arg->kinds & (1u << TN_VALUE_DIMS | 1u << TN_VALUE_INT |
                               1u << TN_VALUE_NUMBER))
        return complain(r, "the default is outside the range of int64");
    if (isinf(number) && isdigit((unsigned char)start[sign]))
        return complain(r, "the default is outside the range of float64");
    end_word(r);
    arg->fallback = start;
    if (arg->kinds >> TN_VALUE_DIMS & 1 && whole) {
        *dims = (tn_dims_list){1, {integer}};
        *v = tn__value_dims(dims);
    } else if (arg->kinds >> TN_VALUE_INT & 1 && whole) {
        *v = tn__value_int(integer);
    } else if (arg->kinds >> TN_VALUE_NUMBER & 1) {
        *v = tn__value_number(whole ? tn_scalar_int(integer)
                                    : tn_scalar_float(number));
    } else if (arg->kinds >> TN_VALUE_FLOAT & 1) {
        *v = tn__value_float(number);
    } else {
        return complain(r, "the argument takes no such number");
    }
    return TN_OK;
}

static tn_status read_default(reader *r, tn_op_arg *arg, tn_value *v,
                              tn_dims_list *dims)
{
    if (take(r, '"')) {
        arg->fallback = read_text(r);
        *v = tn__value_string(arg->fallback);
    } else if (isalpha((unsigned char)look(r))) {
        arg->fallback = name(r);
        bool yes = strcmp(arg->fallback, "true") == 0;
        if (!yes && strcmp(arg->fallback, "false") != 0)
            return complain(r, "a default is a number, true, false or a "
                               "\"text\"");
        *v = tn__value_bool(yes);
    } else {
        return read_number(r, arg, v, dims);
    }
    if (!arg->fallback || !(arg->kinds >> v->kind & 1))
        return complain(r, "the default is of no kind that the argument "
                           "takes");
    return TN_OK;
}

/* ---- the whole signature ------------------------------------------------- */

static tn_status read_argument(reader *r, tn__signature *s, bool keyword)
{
    if (s->arg_count == TN__OP_MAX_ARGS)
        return complain(r, "there are more than 24 arguments");
    int i = s->arg_count;
    tn_op_arg *arg = &s->arg[i];
    arg->size = sizeof *arg;
    arg->name = name(r);
    if (!arg->name)
        return complain(r, "expected the name of an argument");
    for (int k = 0; k < i; k++)
        if (strcmp(arg->name, s->arg[k].name) == 0)
            return complain(r, "this name is given twice");
    arg->optional = take(r, '?');
    arg->keyword = keyword;
    tn_status status = read_kinds(r, arg);
    if (status >= 0 && take(r, '='))
        status = read_default(r, arg, &s->fallback[i], &s->dims[i]);
    bool plain = arg->kinds >> TN_VALUE_TENSOR & 1 && !arg->optional &&
                 !keyword;
    if (plain && s->tensor_count == i)
        s->tensor_count++;
    s->arg_count++;
    return status;
}

static tn_status read_all(reader *r, tn__signature *s)
{
    s->name = name(r);
    if (!s->name || !take(r, '('))
        return complain(r, "a signature is name(arguments)");
    bool keyword = take(r, ';');
    tn_status status = TN_OK;
    while (look(r) != ')') {
        status = read_argument(r, s, keyword);
        if (status < 0)
            return status;
        if (!keyword && take(r, ';'))
            keyword = true;
        else if (!take(r, ',') && look(r) != ')')
            return complain(r, "expected a comma or ')'");
    }
    take(r, ')');
    s->out_count = 1;
    if (take(r, '-')) {
        if (!take(r, '>') || !name(r))
            return complain(r, "the names of the results follow a '->'");
        while (take(r, ',')) {
            if (!name(r) || s->out_count == TN__OP_MAX_OUTPUTS)
                return complain(r, "expected the name of a result; there are "
                                   "at most 64");
            s->out_count++;
        }
    }
    return look(r) ? complain(r, "the signature ends here") : TN_OK;
}

tn_status tn__signature_parse(const char *text, tn__signature *out)
{
    memset(out, 0, sizeof *out);
    out->text = tn__strdup(text);
    if (!out->text)
        return TN_ERR_MEMORY;
    reader r = {.whole = text, .text = out->text, .at = out->text};
    tn_status status = read_all(&r, out);
    if (status < 0) {
        tn__free(out->text);
        out->text = NULL;
    }
    return status;
}
