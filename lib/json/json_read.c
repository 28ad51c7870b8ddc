/* json_read.c: parses JSON, which may come from untrusted sources.
 *
 * Escape sequences in strings are replaced in place, because the result is
 * never longer. The terminating NUL takes the place of the closing quote or of
 * a character before it. */
#include <json/json.h>

#include <base/plain.h>
#include <base/utf8.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Each block has room for twice as many values as the one before it, up to
 * MOST_VALUES. */
enum { LEAST_VALUES = 256, MOST_VALUES = 1 << 16, FEW_MEMBERS = 8,
       TOGETHER = 16 /* number of names whose slots in a hash table are
                        prefetched together */ };

typedef struct tn__json_block {
    struct tn__json_block *next;
    size_t count, room;
    tn__json_value value[];
} tn__json_block;

typedef struct reader {
    tn__json *json;
    char *text;
    size_t bytes, at;
    size_t line, line_begin;
    int depth;
    /* The lists and objects that are not closed yet, the innermost one last,
     * and the last value of each. */
    struct {
        tn__json_value *in, *last;
    } open[TN__JSON_MOST_DEPTH];
} reader;

static bool fail_at(reader *r, size_t at, const char *why)
{
    tn__plain_print(r->json->error, sizeof r->json->error, "%s", why);
    r->json->line = r->line;
    r->json->column = at - r->line_begin + 1;
    return false;
}

static bool fail(reader *r, const char *why)
{
    return fail_at(r, r->at, why);
}

/* Allocates a value. Returns NULL if memory runs out. */
static tn__json_value *value_new(tn__json *json)
{
    tn__json_block *block = json->blocks;
    if (!block || block->count == block->room) {
        const size_t room = !block                      ? LEAST_VALUES
                            : block->room < MOST_VALUES ? 2 * block->room
                                                        : MOST_VALUES;
        block = json->take(sizeof *block + room * sizeof *block->value);
        if (!block)
            return NULL;
        block->next = json->blocks;
        block->count = 0;
        block->room = room;
        json->blocks = block;
    }
    tn__json_value *v = &block->value[block->count++];
    memset(v, 0, sizeof *v);
    return v;
}

/* ---- strings ------------------------------------------------------------- */

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Returns the value of the four hexadecimal digits at `at`, or -1 if they are
 * invalid. */
static int32_t hex_at(const reader *r, size_t at)
{
    int32_t code = 0;
    if (r->bytes - at < 4)
        return -1;
    for (size_t i = 0; i < 4; i++) {
        const int digit = digit_of(r->text[at + i]);
        if (digit < 0)
            return -1;
        code = code << 4 | digit;
    }
    return code;
}

/* Reads a \u escape, whose first digit is at r->at. If it is the first half of
 * a surrogate pair, also reads the second. Writes the character as UTF-8 at
 * *to. */
static bool read_code(reader *r, size_t *to)
{
    const size_t begin = r->at - 2;
    int32_t code = hex_at(r, r->at);
    if (code < 0)
        return fail_at(r, begin, "\\u needs four hexadecimal digits");
    r->at += 4;
    if (code >= 0xd800 && code < 0xe000) {
        const bool pair = code < 0xdc00 && r->bytes - r->at >= 6 &&
                          r->text[r->at] == '\\' && r->text[r->at + 1] == 'u';
        const int32_t low = pair ? hex_at(r, r->at + 2) : -1;
        if (low < 0xdc00 || low >= 0xe000)
            return fail_at(r, begin, "unpaired surrogate in \\u");
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
        r->at += 6;
    }
    *to += tn__utf8_put(r->text + *to, code);
    return true;
}

static bool read_escape(reader *r, size_t *to)
{
    static const char name[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (r->at + 1 >= r->bytes)
        return fail(r, "unterminated string");
    const char c = r->text[r->at + 1];
    const char *found = c ? strchr(name, c) : NULL;
    if (!found && c != 'u')
        return fail(r, "invalid escape");
    r->at += 2;
    if (!found)
        return read_code(r, to);
    r->text[(*to)++] = means[found - name];
    return true;
}

/* Returns the position of the first byte from `at` on that is neither plain
 * ASCII nor in a character of two bytes. */
static size_t skip_plain(const reader *r, size_t at)
{
    const unsigned char *text = (const unsigned char *)r->text;
    for (; at < r->bytes; at++) {
        const unsigned char c = text[at];
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        if (c < 0x80)
            continue;
        if (c < 0xc2 || c >= 0xe0 || at + 1 == r->bytes ||
            (text[at + 1] & 0xc0) != 0x80)
            break;
        at++;
    }
    return at;
}

/* Reads the string whose opening quote is at r->at. */
static bool read_text(reader *r, const char **text, size_t *bytes)
{
    const size_t begin = r->at + 1;
    size_t to = begin;
    r->at = begin;
    for (;;) {
        const size_t from = r->at;
        r->at = skip_plain(r, from);
        const unsigned char c =
            r->at < r->bytes ? (unsigned char)r->text[r->at] : 0;
        if (c >= 0x80 &&
            tn__utf8_next((const unsigned char *)r->text, r->bytes, &r->at) ==
                TN__NOT_UTF8)
            return fail(r, "bytes that are not UTF-8");
        if (to != from) /* equal until the first escape */
            memmove(r->text + to, r->text + from, r->at - from);
        to += r->at - from;
        if (c >= 0x80)
            continue;
        if (r->at == r->bytes)
            return fail_at(r, begin - 1, "unterminated string");
        if (c == '"')
            break;
        if (c < 0x20)
            return fail(r, "control character in a string: write it as "
                           "\\u00..");
        if (!read_escape(r, &to))
            return false;
    }
    r->text[to] = '\0'; /* the text is not longer than its escaped form, so this
                           overwrites the closing quote or a character before
                           it */
    r->at++;
    *text = r->text + begin;
    *bytes = to - begin;
    return true;
}

/* ---- numbers and literals ------------------------------------------------ */

static bool is_digit(const reader *r, size_t at)
{
    return at < r->bytes && r->text[at] >= '0' && r->text[at] <= '9';
}

static size_t skip_digits(const reader *r, size_t at)
{
    while (is_digit(r, at))
        at++;
    return at;
}

/* Returns the position after the number at r->at, or 0 if the number is
 * invalid. Sets *whole to whether it has neither point nor exponent. */
static size_t number_end(const reader *r, bool *whole)
{
    size_t at = r->at + (r->text[r->at] == '-');
    if (!is_digit(r, at))
        return 0;
    at = r->text[at] == '0' ? at + 1 : skip_digits(r, at);
    *whole = true;
    if (at < r->bytes && r->text[at] == '.') {
        *whole = false;
        if (!is_digit(r, ++at))
            return 0;
        at = skip_digits(r, at);
    }
    if (at < r->bytes && (r->text[at] | 0x20) == 'e') {
        *whole = false;
        at++;
        at += at < r->bytes && (r->text[at] == '+' || r->text[at] == '-');
        if (!is_digit(r, at))
            return 0;
        at = skip_digits(r, at);
    }
    return at;
}

/* Converts an integer. Returns false if it does not fit in int64_t. */
static bool read_integer(const char *text, size_t bytes, int64_t *out)
{
    const bool negative = *text == '-';
    int64_t value = 0;
    for (size_t i = negative; i < bytes; i++) {
        const int digit = text[i] - '0';
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

static bool read_number(reader *r, tn__json_value *v)
{
    bool whole;
    const size_t begin = r->at, end = number_end(r, &whole);
    if (!end)
        return fail(r, "invalid number");
    r->at = end;
    v->kind = TN__JSON_INTEGER;
    if (whole && read_integer(r->text + begin, end - begin, &v->integer))
        return true;
    const char behind = r->text[end]; /* the character after the number, which
                                         may be the byte after the whole
                                         text */
    r->text[end] = '\0';
    v->kind = TN__JSON_REAL;
    v->real = tn__read_double(r->text + begin, NULL);
    r->text[end] = behind;
    return isfinite(v->real) ||
           fail_at(r, begin, "number out of the range of a double");
}

static bool read_word(reader *r, tn__json_value *v)
{
    static const struct {
        const char *text;
        tn__json_kind kind;
    } word[] = {{"null", TN__JSON_NULL},
                {"false", TN__JSON_FALSE},
                {"true", TN__JSON_TRUE}};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        const size_t length = strlen(word[i].text);
        if (r->bytes - r->at >= length &&
            memcmp(r->text + r->at, word[i].text, length) == 0) {
            v->kind = word[i].kind;
            r->at += length;
            return true;
        }
    }
    return fail(r, "expected a value");
}

/* ---- lists and objects --------------------------------------------------- */

static int compare_keys(const void *left, const void *right)
{
    const tn__json_value *a = *(const tn__json_value *const *)left;
    const tn__json_value *b = *(const tn__json_value *const *)right;
    if (a->key_bytes != b->key_bytes)
        return a->key_bytes < b->key_bytes ? -1 : 1;
    return memcmp(a->key, b->key, a->key_bytes);
}

/* Finds a member of an object whose name occurs twice, by sorting the names.
 * Returns false if memory runs out. */
static bool sort_twice(const reader *r, const tn__json_value *object,
                       const tn__json_value **twice)
{
    const tn__json_value **sorted =
        r->json->take(object->count * sizeof *sorted);
    if (!sorted)
        return false;
    size_t n = 0;
    TN__JSON_EACH(member, object)
        sorted[n++] = member;
    qsort(sorted, n, sizeof *sorted, compare_keys);
    for (size_t i = 1; i < n && !*twice; i++)
        *twice = compare_keys(&sorted[i - 1], &sorted[i]) ? NULL : sorted[i];
    r->json->give(sorted);
    return true;
}

static uint64_t hash_key(const tn__json_value *member)
{
    uint64_t h = member->key_bytes + 1, part;
    for (size_t i = 0; i < member->key_bytes; i += sizeof part) {
        const size_t rest = member->key_bytes - i;
        part = 0;
        memcpy(&part, member->key + i, rest < 8 ? rest : 8);
        h = (h ^ part) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

/* Finds the same member as sort_twice, but with a hash table, because a
 * vocabulary may have 128000 names. If the names were chosen so that their
 * hashes collide, calls sort_twice. Returns false if memory runs out. */
static bool find_twice(const reader *r, const tn__json_value *object,
                       const tn__json_value **twice)
{
    typedef struct entry {
        uint64_t hash;
        const tn__json_value *member;
    } entry;
    size_t slots = 16;
    while (slots < object->count * 2)
        slots *= 2;
    entry *table = r->json->take(slots * sizeof *table);
    if (!table)
        return false;
    memset(table, 0, slots * sizeof *table);
    uint64_t hash[TOGETHER];
    size_t probes = 0, i = 0;
    TN__JSON_EACH(member, object)
    {
        const tn__json_value *later = member;
        for (int k = 0; i % TOGETHER == 0 && later && k < TOGETHER;
             k++, later = later->next) {
            hash[k] = hash_key(later);
            __builtin_prefetch(&table[hash[k] & (slots - 1)], 1);
        }
        const uint64_t own = hash[i++ % TOGETHER];
        entry *e = &table[own & (slots - 1)];
        for (; e->member && !*twice; probes++) {
            if (e->hash == own && compare_keys(&e->member, &member) == 0)
                *twice = member;
            if (++e == table + slots)
                e = table;
        }
        if (*twice || probes > 16 * object->count)
            break;
        *e = (entry){own, member};
    }
    r->json->give(table);
    return *twice || probes <= 16 * object->count ||
           sort_twice(r, object, twice);
}

/* Checks that the names of an object's members are distinct. Is called at the
 * end of the object. */
static bool check_keys(reader *r, const tn__json_value *object)
{
    const tn__json_value *twice = NULL;
    if (object->count > FEW_MEMBERS) {
        if (!find_twice(r, object, &twice))
            return false;
    } else {
        TN__JSON_EACH(a, object)
            for (const tn__json_value *b = a->next; b && !twice; b = b->next)
                twice = compare_keys(&a, &b) ? NULL : b;
    }
    if (!twice)
        return true;
    int shown = 0; /* how many bytes of the name the message shows, without
                      cutting a UTF-8 character */
    for (int i = 0; i <= 40 && (size_t)i <= twice->key_bytes; i++)
        if ((twice->key[i] & 0xc0) != 0x80)
            shown = i;
    fail(r, "");
    tn__plain_print(r->json->error, sizeof r->json->error,
                    "the object that ends here has the name \"%.*s\" twice",
                    shown, twice->key);
    return false;
}

static void skip_space(reader *r)
{
    for (; r->at < r->bytes; r->at++) {
        const char c = r->text[r->at];
        if (c == '\n') {
            r->line++;
            r->line_begin = r->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

static char peek(const reader *r)
{
    return r->at < r->bytes ? r->text[r->at] : '\0';
}

static bool read_key(reader *r, tn__json_value *v)
{
    if (peek(r) != '"')
        return fail(r, "expected a name in quotes");
    if (!read_text(r, &v->key, &v->key_bytes))
        return false;
    skip_space(r);
    if (peek(r) != ':')
        return fail(r, "expected \":\"");
    r->at++;
    skip_space(r);
    return true;
}

/* Reads the value at r->at. If it is a list or an object, reads only its
 * opening bracket. */
static bool read_value(reader *r, tn__json_value *v)
{
    const char c = peek(r);
    if (r->at == r->bytes)
        return fail(r, "expected a value, found the end");
    if (c == '"') {
        v->kind = TN__JSON_TEXT;
        return read_text(r, &v->text, &v->bytes);
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(r, v);
    if (c != '[' && c != '{')
        return read_word(r, v);
    if (r->depth == TN__JSON_MOST_DEPTH)
        return fail(r, "lists and objects nested deeper than 512");
    v->kind = c == '[' ? TN__JSON_LIST : TN__JSON_OBJECT;
    r->open[r->depth].in = v;
    r->open[r->depth++].last = NULL;
    r->at++;
    return true;
}

/* Reads the next value of the innermost open list or object. */
static bool read_child(reader *r)
{
    tn__json_value *in = r->open[r->depth - 1].in;
    tn__json_value *last = r->open[r->depth - 1].last;
    tn__json_value *v = value_new(r->json);
    if (!v)
        return false;
    if (last)
        last->next = v;
    else
        in->first = v;
    in->count++;
    r->open[r->depth - 1].last = v;
    return (in->kind == TN__JSON_LIST || read_key(r, v)) && read_value(r, v);
}

/* Reads what follows a value or an opening bracket: the next value, or the end
 * of the list or object. */
static bool read_on(reader *r)
{
    const tn__json_value *in = r->open[r->depth - 1].in;
    const bool list = in->kind == TN__JSON_LIST;
    skip_space(r);
    if (peek(r) == (list ? ']' : '}')) {
        if (!list && !check_keys(r, in))
            return false;
        r->at++;
        r->depth--;
        return true;
    }
    if (r->at == r->bytes)
        return fail(r, list ? "the list does not end"
                            : "the object does not end");
    if (in->count) {
        if (peek(r) != ',')
            return fail(r, list ? "expected \",\" or \"]\""
                                : "expected \",\" or \"}\"");
        r->at++;
        skip_space(r);
    }
    return read_child(r);
}

const tn__json_value *tn__json_read(tn__json *json, char *text, size_t bytes)
{
    reader r = {.json = json, .text = text, .bytes = bytes, .line = 1};
    *json->error = '\0';
    json->blocks = NULL;
    tn__json_value *root = value_new(json);
    skip_space(&r);
    bool good = root && read_value(&r, root);
    while (good && r.depth)
        good = read_on(&r);
    skip_space(&r);
    if (good && r.at < bytes)
        good = fail(&r, "unexpected characters after the value");
    return good ? root : NULL;
}

void tn__json_free(tn__json *json)
{
    while (json->blocks) {
        tn__json_block *next = json->blocks->next;
        json->give(json->blocks);
        json->blocks = next;
    }
}

/* ---- access -------------------------------------------------------------- */

const tn__json_value *tn__json_first(const tn__json_value *in)
{
    return in && in->kind >= TN__JSON_LIST ? in->first : NULL;
}

const tn__json_value *tn__json_get(const tn__json_value *object,
                                   const char *key)
{
    const size_t bytes = strlen(key);
    if (tn__json_is(object, TN__JSON_OBJECT))
        TN__JSON_EACH(member, object)
            if (member->key_bytes == bytes &&
                memcmp(member->key, key, bytes) == 0)
                return member;
    return NULL;
}

const tn__json_value *tn__json_at(const tn__json_value *list, size_t i)
{
    const tn__json_value *v =
        tn__json_is(list, TN__JSON_LIST) ? list->first : NULL;
    while (v && i--)
        v = v->next;
    return v;
}

const char *tn__json_text(const tn__json_value *value)
{
    return tn__json_is(value, TN__JSON_TEXT) &&
                   strlen(value->text) == value->bytes
               ? value->text
               : NULL;
}

double tn__json_parse_real(const char *text, char **end)
{
    return tn__read_double(text, end);
}

bool tn__json_is(const tn__json_value *value, tn__json_kind kind)
{
    return value && value->kind == kind;
}

bool tn__json_real(const tn__json_value *value, double *out)
{
    if (tn__json_is(value, TN__JSON_INTEGER))
        *out = (double)value->integer;
    else if (tn__json_is(value, TN__JSON_REAL))
        *out = value->real;
    else
        return false;
    return true;
}
