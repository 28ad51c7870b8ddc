/* template_value.c: the values of chat templates: numbers, strings, lists,
 * dictionaries. Makes, reads and compares them. */
#include <lm/template/template.h>

#include <string.h>

typedef tn__jinja_value value;

/* ---- making values ------------------------------------------------------- */

const value tn__jinja_none = {.kind = TN__JINJA_NONE};
const value tn__jinja_true = {.kind = TN__JINJA_BOOL, .truth = true};
const value tn__jinja_false = {.kind = TN__JINJA_BOOL, .truth = false};

const value *tn__jinja_bool(bool truth)
{
    return truth ? &tn__jinja_true : &tn__jinja_false;
}

value *tn__jinja_new(tn__jinja *j, tn__jinja_kind kind)
{
    value *v = tn__jinja_allocate(j, 1, sizeof *v);
    v->kind = kind;
    return v;
}

const value *tn__jinja_int(tn__jinja *j, int64_t integer)
{
    value *v = tn__jinja_new(j, TN__JINJA_INT);
    v->integer = integer;
    return v;
}

const value *tn__jinja_real(tn__jinja *j, double real)
{
    value *v = tn__jinja_new(j, TN__JINJA_REAL);
    v->real = real;
    return v;
}

const value *tn__jinja_text_of(tn__jinja *j, const char *text, size_t bytes)
{
    value *v = tn__jinja_new(j, TN__JINJA_TEXT);
    char *copy = tn__jinja_allocate(j, bytes + 1, 1);
    if (bytes)
        memcpy(copy, text, bytes);
    v->text = copy;
    v->bytes = bytes;
    return v;
}

const value *tn__jinja_undefined(tn__jinja *j, const char *what)
{
    value *v = tn__jinja_new(j, TN__JINJA_UNDEFINED);
    v->text = what;
    return v;
}

value *tn__jinja_list(tn__jinja *j)
{
    return tn__jinja_new(j, TN__JINJA_LIST);
}

value *tn__jinja_dict(tn__jinja *j)
{
    return tn__jinja_new(j, TN__JINJA_DICT);
}

static void grow(tn__jinja *j, value *v)
{
    const size_t room = 2 * v->room + 4;
    const value **more = tn__jinja_allocate(j, room, sizeof *more);
    if (v->count)
        memcpy(more, v->item, v->count * sizeof *more);
    v->item = more;
    if (v->kind != TN__JINJA_LIST) {
        more = tn__jinja_allocate(j, room, sizeof *more);
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

/* ---- comparing ----------------------------------------------------------- */

const char *tn__jinja_kind_name(const value *v)
{
    static const char *const names[] = {
        "an undefined value", "none",         "a boolean", "an integer",
        "a float",            "a string",       "a list",    "a dictionary",
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
        tn__jinja_fail(j, TN_ERR_ARGUMENT, "%s and %s cannot be compared",
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
            tn__jinja_fail(j, TN_ERR_ARGUMENT, "the operator in searches a "
                           "string for a string, not for %s",
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

/* ---- items --------------------------------------------------------------- */

/* Decodes the character at text[*i] of a valid UTF-8 text. */
uint32_t tn__jinja_character(const char *text, size_t bytes, size_t *i)
{
    const unsigned char c = (unsigned char)text[(*i)++];
    int more = c < 0xc0 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t code = more ? c & (0x3fu >> more) : c;
    while (more-- && *i < bytes)
        code = code << 6 | ((unsigned char)text[(*i)++] & 0x3fu);
    return code;
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
            tn__jinja_character(v->text, v->bytes, &i);
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
