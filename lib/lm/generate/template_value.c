/* template_value.c: the values of chat templates: numbers, texts, lists,
 * dictionaries. It prints and compares them, and reads them from JSON. */
#include <lm/generate/template.h>


#include <inttypes.h>
#include <json/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/base.h>

typedef tn__jinja_value value;

/* ---- memory and limits --------------------------------------------------- */

struct tn__jinja_block {
    struct tn__jinja_block *next;
    size_t used, room;
    max_align_t memory[];
};

void tn__jinja_fail(tn__jinja *j, tn_status code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    j->code = code;
    vsnprintf(j->message, sizeof j->message, format, arguments);
    va_end(arguments);
    longjmp(j->failed, 1);
}

void *tn__jinja_take(tn__jinja *j, size_t count, size_t bytes)
{
    struct tn__jinja_block *b = j->blocks;
    if (count > TN__JINJA_MOST_MEMORY / bytes)
        tn__jinja_fail(j, TN_ERR_MEMORY, "it needs more than %d MiB",
                       TN__JINJA_MOST_MEMORY >> 20);
    size_t need = count * bytes;
    need = (need + sizeof(max_align_t) - 1) / sizeof(max_align_t) *
           sizeof(max_align_t);
    if (!b || b->room - b->used < need) {
        const size_t room = need > 65536 ? need : 65536;
        if (room > TN__JINJA_MOST_MEMORY - j->memory)
            tn__jinja_fail(j, TN_ERR_MEMORY, "it needs more than %d MiB",
                           TN__JINJA_MOST_MEMORY >> 20);
        b = malloc(sizeof *b + room);
        if (!b)
            tn__jinja_fail(j, TN_ERR_MEMORY, "out of memory");
        *b = (struct tn__jinja_block){j->blocks, 0, room};
        j->blocks = b;
        j->memory += room;
    }
    void *memory = (char *)b->memory + b->used;
    b->used += need;
    return memset(memory, 0, need);
}

void tn__jinja_free(tn__jinja *j)
{
    while (j->blocks) {
        struct tn__jinja_block *next = j->blocks->next;
        free(j->blocks);
        j->blocks = next;
    }
}

void tn__jinja_step(tn__jinja *j, size_t count)
{
    if (count > (size_t)(TN__JINJA_MOST_STEPS - j->steps))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED, "it takes more than %d steps",
                       TN__JINJA_MOST_STEPS);
    j->steps += (int64_t)count;
}

void tn__jinja_enter(tn__jinja *j)
{
    if (++j->depth > TN__JINJA_MOST_DEPTH)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED, "it is nested more than %d deep",
                       TN__JINJA_MOST_DEPTH);
}

void tn__jinja_leave(tn__jinja *j)
{
    j->depth--;
}

/* ---- making values ------------------------------------------------------- */

const value tn__jinja_none = {.kind = TN__JINJA_NONE};
const value tn__jinja_true = {.kind = TN__JINJA_BOOL, .truth = true};
const value tn__jinja_false = {.kind = TN__JINJA_BOOL, .truth = false};

const value *tn__jinja_bool(bool truth)
{
    return truth ? &tn__jinja_true : &tn__jinja_false;
}

static value *new_value(tn__jinja *j, tn__jinja_kind kind)
{
    value *v = tn__jinja_take(j, 1, sizeof *v);
    v->kind = kind;
    return v;
}

const value *tn__jinja_int(tn__jinja *j, int64_t integer)
{
    value *v = new_value(j, TN__JINJA_INT);
    v->integer = integer;
    return v;
}

const value *tn__jinja_real(tn__jinja *j, double real)
{
    value *v = new_value(j, TN__JINJA_REAL);
    v->real = real;
    return v;
}

const value *tn__jinja_text_of(tn__jinja *j, const char *text, size_t bytes)
{
    value *v = new_value(j, TN__JINJA_TEXT);
    char *copy = tn__jinja_take(j, bytes + 1, 1);
    if (bytes)
        memcpy(copy, text, bytes);
    v->text = copy;
    v->bytes = bytes;
    return v;
}

const value *tn__jinja_undefined(tn__jinja *j, const char *what)
{
    value *v = new_value(j, TN__JINJA_UNDEFINED);
    v->text = what;
    return v;
}

value *tn__jinja_list(tn__jinja *j)
{
    return new_value(j, TN__JINJA_LIST);
}

value *tn__jinja_dict(tn__jinja *j)
{
    return new_value(j, TN__JINJA_DICT);
}

static void grow(tn__jinja *j, value *v)
{
    const size_t room = 2 * v->room + 4;
    const value **more = tn__jinja_take(j, room, sizeof *more);
    if (v->count)
        memcpy(more, v->item, v->count * sizeof *more);
    v->item = more;
    if (v->kind != TN__JINJA_LIST) {
        more = tn__jinja_take(j, room, sizeof *more);
        if (v->count)
            memcpy(more, v->key, v->count * sizeof *more);
        v->key = more;
    }
    v->room = room;
}

void tn__jinja_append(tn__jinja *j, value *list, const value *item)
{
    tn__jinja_step(j, 1);
    if (list->count == list->room)
        grow(j, list);
    list->item[list->count++] = item;
}

void tn__jinja_set(tn__jinja *j, value *dict, const value *key,
                   const value *item)
{
    tn__jinja_step(j, dict->count + 1);
    for (size_t i = 0; i < dict->count; i++)
        if (tn__jinja_equal(j, dict->key[i], key)) {
            dict->item[i] = item;
            return;
        }
    if (dict->count == dict->room)
        grow(j, dict);
    dict->key[dict->count] = key;
    dict->item[dict->count++] = item;
}

void tn__jinja_set_name(tn__jinja *j, value *dict, const char *key,
                        const value *item)
{
    tn__jinja_set(j, dict, tn__jinja_text_of(j, key, strlen(key)), item);
}

const value *tn__jinja_get(tn__jinja *j, const value *dict, const value *key)
{
    tn__jinja_step(j, dict->count);
    for (size_t i = 0; i < dict->count; i++)
        if (tn__jinja_equal(j, dict->key[i], key))
            return dict->item[i];
    return NULL;
}

const value *tn__jinja_get_name(const value *dict, const char *key)
{
    for (size_t i = 0; i < dict->count; i++)
        if (tn__jinja_is_text(dict->key[i], key))
            return dict->item[i];
    return NULL;
}

/* ---- texts --------------------------------------------------------------- */

void tn__jinja_add(tn__jinja *j, tn__jinja_text *to, const char *text,
                   size_t bytes)
{
    if (bytes > TN__JINJA_MOST_OUTPUT - to->bytes)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED, "a text is longer than %d MiB",
                       TN__JINJA_MOST_OUTPUT >> 20);
    if (to->room - to->bytes <= bytes) {
        const size_t room = 2 * to->room + bytes + 64;
        char *more = tn__jinja_take(j, room, 1);
        if (to->bytes)
            memcpy(more, to->text, to->bytes);
        to->text = more;
        to->room = room;
    }
    if (bytes)
        memcpy(to->text + to->bytes, text, bytes);
    to->bytes += bytes;
    to->text[to->bytes] = '\0';
}

static void add_word(tn__jinja *j, tn__jinja_text *to, const char *word)
{
    tn__jinja_add(j, to, word, strlen(word));
}

const value *tn__jinja_text_end(tn__jinja *j, tn__jinja_text *text)
{
    value *v = new_value(j, TN__JINJA_TEXT);
    v->text = text->text ? text->text : "";
    v->bytes = text->bytes;
    return v;
}

/* Appends a number as Python prints it: with the fewest digits that read back
 * as the same number. */
static void add_real(tn__jinja *j, tn__jinja_text *to, double x, bool json)
{
    char digits[40], out[64];
    if (x != x || x - x != 0) {
        add_word(j, to, x != x  ? (json ? "NaN" : "nan")
                        : x > 0 ? (json ? "Infinity" : "inf")
                                : (json ? "-Infinity" : "-inf"));
        return;
    }
    for (int precision = 0; precision < 17; precision++) {
        tn_format(digits, sizeof digits, "%.*e", precision, x);
        if (tn__json_parse_real(digits, NULL) == x)
            break;
    }
    const int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) {
        add_word(j, to, digits);
        return;
    }
    const int mantissa = (int)(strchr(digits, 'e') - digits) -
                         (x < 0 || digits[0] == '-') - 1;
    int places = mantissa > 0 ? mantissa - 1 - exponent : -exponent;
    tn_format(out, sizeof out, "%.*f", places < 1 ? 1 : places, x);
    add_word(j, to, out);
}

/* Appends a text as Python's repr prints it. */
static void add_quoted(tn__jinja *j, tn__jinja_text *to, const value *v)
{
    const bool twice = memchr(v->text, '\'', v->bytes) &&
                       !memchr(v->text, '"', v->bytes);
    const char quote = twice ? '"' : '\'';
    tn__jinja_add(j, to, &quote, 1);
    for (size_t i = 0; i < v->bytes; i++) {
        const unsigned char c = (unsigned char)v->text[i];
        char escaped[8];
        if (c == '\\' || c == (unsigned char)quote)
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(escaped, sizeof escaped, "\\%c",
                     c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < ' ' || c == 0x7f)
            snprintf(escaped, sizeof escaped, "\\x%02x", c);
        else
            snprintf(escaped, sizeof escaped, "%c", c);
        add_word(j, to, escaped);
    }
    tn__jinja_add(j, to, &quote, 1);
}

void tn__jinja_add_value(tn__jinja *j, tn__jinja_text *to, const value *v,
                         bool quoted)
{
    char number[32];
    tn__jinja_step(j, 1);
    switch (v->kind) {
    case TN__JINJA_UNDEFINED:
        add_word(j, to, quoted ? "Undefined" : "");
        break;
    case TN__JINJA_NONE:
        add_word(j, to, "None");
        break;
    case TN__JINJA_BOOL:
        add_word(j, to, v->truth ? "True" : "False");
        break;
    case TN__JINJA_INT:
        snprintf(number, sizeof number, "%" PRId64, v->integer);
        add_word(j, to, number);
        break;
    case TN__JINJA_REAL:
        add_real(j, to, v->real, false);
        break;
    case TN__JINJA_TEXT:
        if (quoted)
            add_quoted(j, to, v);
        else
            tn__jinja_add(j, to, v->text, v->bytes);
        break;
    case TN__JINJA_LIST:
    case TN__JINJA_DICT:
        tn__jinja_enter(j);
        add_word(j, to, v->is_tuple                ? "("
                        : v->kind == TN__JINJA_LIST ? "["
                                                    : "{");
        for (size_t i = 0; i < v->count; i++) {
            add_word(j, to, i ? ", " : "");
            if (v->kind == TN__JINJA_DICT) {
                tn__jinja_add_value(j, to, v->key[i], true);
                add_word(j, to, ": ");
            }
            tn__jinja_add_value(j, to, v->item[i], true);
        }
        add_word(j, to, v->is_tuple ? (v->count == 1 ? ",)" : ")")
                        : v->kind == TN__JINJA_LIST ? "]"
                                                    : "}");
        tn__jinja_leave(j);
        break;
    default:
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s cannot be printed",
                       tn__jinja_kind_name(v));
    }
}

const value *tn__jinja_string(tn__jinja *j, const value *v)
{
    tn__jinja_text text = {0};
    if (v->kind == TN__JINJA_TEXT)
        return v;
    tn__jinja_add_value(j, &text, v, false);
    return tn__jinja_text_end(j, &text);
}

/* ---- JSON ---------------------------------------------------------------- */

/* Decodes the character at text[*i] of a valid UTF-8 text. */
static uint32_t character(const char *text, size_t bytes, size_t *i)
{
    const unsigned char c = (unsigned char)text[(*i)++];
    int more = c < 0xc0 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t code = more ? c & (0x3fu >> more) : c;
    while (more-- && *i < bytes)
        code = code << 6 | ((unsigned char)text[(*i)++] & 0x3fu);
    return code;
}

static void add_json_text(tn__jinja *j, tn__jinja_text *to, const value *v,
                          bool ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", out[] = "\"\\nrtbf";
    add_word(j, to, "\"");
    for (size_t i = 0; i < v->bytes;) {
        const size_t begin = i;
        const uint32_t c = character(v->text, v->bytes, &i);
        const char *known =
            c && c < 0x80 ? memchr(from, (int)c, sizeof from - 1) : NULL;
        char escaped[16] = {'\\', known ? out[known - from] : '\0'};
        if (c >= 0x10000 && ascii)
            snprintf(escaped, sizeof escaped, "\\u%04x\\u%04x",
                     (unsigned)(0xd800 + ((c - 0x10000) >> 10)),
                     (unsigned)(0xdc00 + (c & 0x3ff)));
        else if (!known && (c < ' ' || (ascii && c >= 0x7f)))
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)c);
        if (known || c < ' ' || (ascii && c >= 0x7f))
            add_word(j, to, escaped);
        else
            tn__jinja_add(j, to, v->text + begin, i - begin);
    }
    add_word(j, to, "\"");
}

static void add_line(tn__jinja *j, tn__jinja_text *to, int indent, int level)
{
    if (indent < 0)
        return;
    add_word(j, to, "\n");
    for (int i = 0; i < indent * level; i++)
        add_word(j, to, " ");
}

static void sort_keys(tn__jinja *j, const value *v, size_t *order)
{
    for (size_t i = 0; i < v->count; i++) {
        size_t at = i;
        for (; at && tn__jinja_order(j, v->key[order[at - 1]], v->key[i]) > 0;
             at--)
            order[at] = order[at - 1];
        order[at] = i;
        tn__jinja_step(j, i - at + 1);
    }
}

static void add_json_members(tn__jinja *j, tn__jinja_text *to, const value *v,
                             int indent, int level, bool sorted, bool ascii)
{
    const bool dict = v->kind == TN__JINJA_DICT;
    size_t *order = tn__jinja_take(j, v->count + 1, sizeof *order);
    for (size_t i = 0; i < v->count; i++)
        order[i] = i;
    if (dict && sorted)
        sort_keys(j, v, order);
    add_word(j, to, dict ? "{" : "[");
    for (size_t n = 0; n < v->count; n++) {
        const size_t i = order[n];
        add_word(j, to, !n ? "" : indent < 0 ? ", " : ",");
        add_line(j, to, indent, level + 1);
        if (dict) {
            if (v->key[i]->kind == TN__JINJA_TEXT) {
                add_json_text(j, to, v->key[i], ascii);
            } else {
                tn__jinja_text key = {0};
                tn__jinja_add_json(j, &key, v->key[i], -1, 0, false, ascii);
                add_json_text(j, to, tn__jinja_text_end(j, &key), ascii);
            }
            add_word(j, to, ": ");
        }
        tn__jinja_add_json(j, to, v->item[i], indent, level + 1, sorted, ascii);
    }
    if (v->count)
        add_line(j, to, indent, level);
    add_word(j, to, dict ? "}" : "]");
}

void tn__jinja_add_json(tn__jinja *j, tn__jinja_text *to, const value *v,
                        int indent, int level, bool sorted, bool ascii)
{
    tn__jinja_step(j, 1);
    tn__jinja_enter(j);
    if (v->kind == TN__JINJA_TEXT)
        add_json_text(j, to, v, ascii);
    else if (v->kind == TN__JINJA_NONE)
        add_word(j, to, "null");
    else if (v->kind == TN__JINJA_BOOL)
        add_word(j, to, v->truth ? "true" : "false");
    else if (v->kind == TN__JINJA_INT)
        tn__jinja_add_value(j, to, v, false);
    else if (v->kind == TN__JINJA_REAL)
        add_real(j, to, v->real, true);
    else if (v->kind == TN__JINJA_LIST || v->kind == TN__JINJA_DICT)
        add_json_members(j, to, v, indent, level, sorted, ascii);
    else
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s cannot be written as JSON",
                       tn__jinja_kind_name(v));
    tn__jinja_leave(j);
}

static const value *from_json(tn__jinja *j, const tn__json_value *from)
{
    const value *out = &tn__jinja_none;
    tn__jinja_enter(j);
    if (from->kind == TN__JSON_TRUE || from->kind == TN__JSON_FALSE)
        out = tn__jinja_bool(from->kind == TN__JSON_TRUE);
    else if (from->kind == TN__JSON_INTEGER)
        out = tn__jinja_int(j, from->integer);
    else if (from->kind == TN__JSON_REAL)
        out = tn__jinja_real(j, from->real);
    else if (from->kind == TN__JSON_TEXT)
        out = tn__jinja_text_of(j, from->text, from->bytes);
    if (from->kind == TN__JSON_LIST || from->kind == TN__JSON_OBJECT) {
        const bool list = from->kind == TN__JSON_LIST;
        value *all = list ? tn__jinja_list(j) : tn__jinja_dict(j);
        TN__JSON_EACH(member, from)
        {
            const value *item = from_json(j, member);
            if (list)
                tn__jinja_append(j, all, item);
            else
                tn__jinja_set(j, all,
                              tn__jinja_text_of(j, member->key,
                                                member->key_bytes),
                              item);
        }
        out = all;
    }
    tn__jinja_leave(j);
    return out;
}

/* The context whose arena the JSON parser allocates from. An error leaves by
 * longjmp, so only the arena can free the memory of the parser. */
static _Thread_local tn__jinja *taker;

static void *take(size_t bytes)
{
    return tn__jinja_take(taker, bytes, 1);
}

static void give(void *memory)
{
    (void)memory;
}

const value *tn__jinja_from_json(tn__jinja *j, const char *text,
                                 const char *what)
{
    const size_t bytes = strlen(text);
    char *copy = tn__jinja_take(j, bytes + 2, 1);
    memcpy(copy, text, bytes);
    tn__json json = {.take = take, .give = give};
    taker = j;
    const tn__json_value *root = tn__json_read(&json, copy, bytes);
    if (!root)
        tn__jinja_fail(j, TN_ERR_ARGUMENT,
                       "%s is no JSON: line %zu, column %zu: %s", what,
                       json.line, json.column, json.error);
    return from_json(j, root);
}

/* ---- comparing ----------------------------------------------------------- */

const char *tn__jinja_kind_name(const value *v)
{
    static const char *const names[] = {
        "an undefined value", "none",         "a boolean", "an integer",
        "a float",            "a text",       "a list",    "a dictionary",
        "a namespace",        "a method",     "a macro",   "a function",
        "a loop"};
    return names[v->kind];
}

bool tn__jinja_is_number(const value *v)
{
    return v->kind == TN__JINJA_BOOL || v->kind == TN__JINJA_INT ||
           v->kind == TN__JINJA_REAL;
}

bool tn__jinja_is_text(const value *v, const char *text)
{
    return v->kind == TN__JINJA_TEXT && v->bytes == strlen(text) &&
           memcmp(v->text, text, v->bytes) == 0;
}

double tn__jinja_number(const value *v)
{
    return v->kind == TN__JINJA_REAL  ? v->real
           : v->kind == TN__JINJA_INT ? (double)v->integer
                                      : v->truth;
}

bool tn__jinja_truth(const value *v)
{
    switch (v->kind) {
    case TN__JINJA_UNDEFINED:
    case TN__JINJA_NONE:
        return false;
    case TN__JINJA_TEXT:
        return v->bytes > 0;
    case TN__JINJA_LIST:
    case TN__JINJA_DICT:
        return v->count > 0;
    case TN__JINJA_INT:
        return v->integer != 0;
    case TN__JINJA_BOOL:
    case TN__JINJA_REAL:
        return tn__jinja_number(v) != 0;
    default:
        return true;
    }
}

static int sign(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int64_t whole(const value *v)
{
    return v->kind == TN__JINJA_INT ? v->integer : v->truth;
}

static int order_numbers(const value *a, const value *b)
{
    if (a->kind != TN__JINJA_REAL && b->kind != TN__JINJA_REAL)
        return sign(whole(a), whole(b));
    const double x = tn__jinja_number(a), y = tn__jinja_number(b);
    return (x > y) - (x < y);
}

bool tn__jinja_equal(tn__jinja *j, const value *a, const value *b)
{
    tn__jinja_step(j, 1);
    if (a == b)
        return true;
    if (tn__jinja_is_number(a) && tn__jinja_is_number(b))
        return order_numbers(a, b) == 0 && tn__jinja_number(a) ==
                                               tn__jinja_number(a);
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case TN__JINJA_UNDEFINED:
    case TN__JINJA_NONE:
        return true;
    case TN__JINJA_TEXT:
        return a->bytes == b->bytes &&
               memcmp(a->text, b->text, a->bytes) == 0;
    case TN__JINJA_LIST:
    case TN__JINJA_DICT:
        break;
    default:
        return false;
    }
    bool same = a->count == b->count && a->is_tuple == b->is_tuple;
    tn__jinja_enter(j);
    for (size_t i = 0; same && i < a->count; i++) {
        const value *other = a->kind == TN__JINJA_LIST
                                 ? b->item[i]
                                 : tn__jinja_get(j, b, a->key[i]);
        same = other && tn__jinja_equal(j, a->item[i], other);
    }
    tn__jinja_leave(j);
    return same;
}

int tn__jinja_order(tn__jinja *j, const value *a, const value *b)
{
    if (tn__jinja_is_number(a) && tn__jinja_is_number(b))
        return order_numbers(a, b);
    if (a->kind != TN__JINJA_TEXT || b->kind != TN__JINJA_TEXT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s and %s have no order",
                       tn__jinja_kind_name(a), tn__jinja_kind_name(b));
    const size_t less = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int first = memcmp(a->text, b->text, less);
    return first ? first : sign((int64_t)a->bytes, (int64_t)b->bytes);
}

bool tn__jinja_in(tn__jinja *j, const value *item, const value *all)
{
    if (all->kind == TN__JINJA_DICT)
        return tn__jinja_get(j, all, item) != NULL;
    if (all->kind == TN__JINJA_TEXT) {
        if (item->kind != TN__JINJA_TEXT)
            tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s cannot be in a text",
                           tn__jinja_kind_name(item));
        tn__jinja_step(j, all->bytes / 64);
        return memmem(all->text, all->bytes, item->text, item->bytes) != NULL;
    }
    const value *list = tn__jinja_items(j, all);
    for (size_t i = 0; i < list->count; i++)
        if (tn__jinja_equal(j, list->item[i], item))
            return true;
    return false;
}

const value *tn__jinja_items(tn__jinja *j, const value *v)
{
    if (v->kind == TN__JINJA_LIST)
        return v;
    value *list = tn__jinja_list(j);
    if (v->kind == TN__JINJA_DICT)
        for (size_t i = 0; i < v->count; i++)
            tn__jinja_append(j, list, v->key[i]);
    else if (v->kind == TN__JINJA_TEXT)
        for (size_t i = 0; i < v->bytes;) {
            const size_t begin = i;
            character(v->text, v->bytes, &i);
            tn__jinja_append(j, list,
                             tn__jinja_text_of(j, v->text + begin, i - begin));
        }
    else if (v->kind != TN__JINJA_UNDEFINED)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s has no items",
                       tn__jinja_kind_name(v));
    return list;
}

int64_t tn__jinja_length(tn__jinja *j, const value *v)
{
    if (v->kind == TN__JINJA_LIST || v->kind == TN__JINJA_DICT)
        return (int64_t)v->count;
    if (v->kind == TN__JINJA_UNDEFINED)
        return 0;
    if (v->kind != TN__JINJA_TEXT)
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s has no length",
                       tn__jinja_kind_name(v));
    int64_t count = 0;
    tn__jinja_step(j, v->bytes / 64);
    for (size_t i = 0; i < v->bytes; i++)
        count += ((unsigned char)v->text[i] & 0xc0) != 0x80;
    return count;
}
