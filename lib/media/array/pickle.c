/* pickle.c: the stack machine of pickles.
 *
 * Source: Lib/pickletools.py of Python 3.13. Instructions of protocols 0 and 1
 * that torch.save does not write, and those that run code (INST, OBJ, EXT,
 * NEWOBJ_EX), are rejected by name. */
#include <media/array/pickle.h>

#include <stdlib.h>
#include <string.h>

static bool malformed(tn__pickle *pickle, const char *why)
{
    tn__pickle_fail(pickle, TN_ERR_FORMAT, "the pickle is malformed: %s", why);
    return false;
}

/* Makes room for one more element. */
static bool grow(tn__pickle *pickle, void *array, size_t count, size_t *room,
                 size_t bytes)
{
    void *old, *larger;
    if (count < *room)
        return true;
    memcpy(&old, array, sizeof old);
    const size_t more = *room ? 2 * *room : 64;
    larger = realloc(old, more * bytes);
    if (!larger)
        return tn__array_no_memory(pickle->call), false;
    memcpy(array, &larger, sizeof larger);
    *room = more;
    return true;
}

/* ---- the stack ------------------------------------------------------------ */

static bool push(tn__pickle *pickle, tn__pickle_value *value)
{
    if (!value)
        return false;
    if (pickle->stack_count >= TN__PICKLE_MOST_STACK)
        return malformed(pickle, "its stack is too deep");
    if (!grow(pickle, &pickle->stack, pickle->stack_count, &pickle->stack_room,
              sizeof *pickle->stack))
        return false;
    pickle->stack[pickle->stack_count++] = value;
    return true;
}

/* Pops a value above the last mark. */
static tn__pickle_value *pop(tn__pickle *pickle)
{
    const size_t floor =
        pickle->mark_count ? pickle->mark[pickle->mark_count - 1] : 0;
    if (pickle->stack_count <= floor)
        return malformed(pickle, "its stack is empty"), NULL;
    return pickle->stack[--pickle->stack_count];
}

static tn__pickle_value *top(tn__pickle *pickle)
{
    tn__pickle_value *value = pop(pickle);
    pickle->stack_count += value != NULL;
    return value;
}

static bool push_mark(tn__pickle *pickle)
{
    if (pickle->mark_count >= TN__PICKLE_MOST_STACK)
        return malformed(pickle, "its stack is too deep");
    if (!grow(pickle, &pickle->mark, pickle->mark_count, &pickle->mark_room,
              sizeof *pickle->mark))
        return false;
    pickle->mark[pickle->mark_count++] = pickle->stack_count;
    return true;
}

/* Pops the values above the last mark, and the mark. They stay readable at
 * *out_values until the next push. */
static bool pop_mark(tn__pickle *pickle, tn__pickle_value ***out_values,
                     size_t *out_count)
{
    if (!pickle->mark_count)
        return malformed(pickle, "it has no mark");
    const size_t from = pickle->mark[--pickle->mark_count];
    *out_values = pickle->stack ? pickle->stack + from : NULL;
    *out_count = pickle->stack_count - from;
    pickle->stack_count = from;
    return true;
}

/* ---- arguments of instructions -------------------------------------------- */

static bool take(tn__pickle *pickle, size_t bytes, const uint8_t **out)
{
    if ((size_t)(pickle->end - pickle->p) < bytes)
        return malformed(pickle, "it is truncated");
    *out = pickle->p;
    pickle->p += bytes;
    return true;
}

static bool number(tn__pickle *pickle, int bytes, uint64_t *out)
{
    const uint8_t *p;
    if (!take(pickle, (size_t)bytes, &p))
        return false;
    *out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        *out = *out << 8 | p[i];
    return true;
}

/* Reads a length, stored in length_bytes bytes, and then as many bytes. */
static bool counted(tn__pickle *pickle, int length_bytes, const uint8_t **out,
                    size_t *out_bytes)
{
    uint64_t bytes;
    if (!number(pickle, length_bytes, &bytes))
        return false;
    if (bytes > (uint64_t)(pickle->end - pickle->p))
        return malformed(pickle, "it is truncated");
    *out_bytes = (size_t)bytes;
    return take(pickle, (size_t)bytes, out);
}

/* Text up to a newline. */
static bool line(tn__pickle *pickle, const char **out, size_t *out_bytes)
{
    const uint8_t *end =
        memchr(pickle->p, '\n', (size_t)(pickle->end - pickle->p));
    if (!end)
        return malformed(pickle, "it is truncated");
    *out = (const char *)pickle->p;
    *out_bytes = (size_t)(end - pickle->p);
    pickle->p = end + 1;
    return true;
}

/* ---- values --------------------------------------------------------------- */

static bool push_int(tn__pickle *pickle, int64_t integer)
{
    tn__pickle_value *value = tn__pickle_new(pickle, TN__PICKLE_INT);
    if (value)
        value->integer = integer;
    return push(pickle, value);
}

static bool push_bool(tn__pickle *pickle, bool on)
{
    tn__pickle_value *value = tn__pickle_new(pickle, TN__PICKLE_BOOL);
    if (value)
        value->integer = on;
    return push(pickle, value);
}

static bool push_long(tn__pickle *pickle, int length_bytes)
{
    const uint8_t *p;
    size_t bytes;
    if (!counted(pickle, length_bytes, &p, &bytes))
        return false;
    if (bytes > 8)
        return push(pickle, tn__pickle_new_text(pickle, TN__PICKLE_LONG, p,
                                                bytes));
    uint64_t n = bytes && p[bytes - 1] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = bytes; i > 0; i--)
        n = n << 8 | p[i - 1];
    return push_int(pickle, (int64_t)n);
}

/* Pushes a double, which has 8 bytes in big-endian order. */
static bool push_real(tn__pickle *pickle)
{
    const uint8_t *p;
    uint64_t bits = 0;
    if (!take(pickle, 8, &p))
        return false;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    tn__pickle_value *value = tn__pickle_new(pickle, TN__PICKLE_REAL);
    if (value)
        memcpy(&value->real, &bits, 8);
    return push(pickle, value);
}

static bool push_text(tn__pickle *pickle, tn__pickle_kind kind,
                      int length_bytes)
{
    const uint8_t *p;
    size_t bytes;
    return counted(pickle, length_bytes, &p, &bytes) &&
           push(pickle, tn__pickle_new_text(pickle, kind, p, bytes));
}

static tn__pickle_value *list_of(tn__pickle *pickle, tn__pickle_kind kind,
                                 tn__pickle_value *const *items, size_t count)
{
    tn__pickle_value *value = tn__pickle_new(pickle, kind);
    if (!value || !count)
        return value;
    value->item = tn__pickle_alloc(pickle, count, sizeof *value->item);
    if (!value->item)
        return NULL;
    memcpy(value->item, items, count * sizeof *items);
    value->count = value->room = count;
    return value;
}

static bool push_tuple(tn__pickle *pickle, size_t count)
{
    tn__pickle_value *items[3];
    for (size_t i = count; i > 0; i--)
        if (!(items[i - 1] = pop(pickle)))
            return false;
    return push(pickle, list_of(pickle, TN__PICKLE_TUPLE, items, count));
}

static bool push_marked(tn__pickle *pickle, tn__pickle_kind kind)
{
    tn__pickle_value **items;
    size_t count;
    return pop_mark(pickle, &items, &count) &&
           push(pickle, list_of(pickle, kind, items, count));
}

/* Appends items to a list or, as pairs of key and value, to a dict. */
static bool extend(tn__pickle *pickle, tn__pickle_value *to,
                   tn__pickle_kind kind, tn__pickle_value *const *items,
                   size_t count)
{
    if (!to)
        return false;
    if (to->kind != kind)
        return malformed(pickle, kind == TN__PICKLE_DICT
                                     ? "items are added to a value that is not "
                                       "a dict"
                                     : "items are added to a value that is not "
                                       "a list");
    if (kind == TN__PICKLE_DICT && count % 2)
        return malformed(pickle, "a key without a value");
    if (to->room - to->count < count) {
        const size_t room = 2 * to->room + count;
        tn__pickle_value **larger =
            tn__pickle_alloc(pickle, room, sizeof *larger);
        if (!larger)
            return false;
        if (to->count)
            memcpy(larger, to->item, to->count * sizeof *larger);
        to->item = larger;
        to->room = room;
    }
    if (count)
        memcpy(to->item + to->count, items, count * sizeof *items);
    to->count += count;
    return true;
}

static bool extend_marked(tn__pickle *pickle, tn__pickle_kind kind)
{
    tn__pickle_value **items;
    size_t count;
    return pop_mark(pickle, &items, &count) &&
           extend(pickle, top(pickle), kind, items, count);
}

static bool extend_popped(tn__pickle *pickle, tn__pickle_kind kind)
{
    tn__pickle_value *items[2];
    const size_t count = kind == TN__PICKLE_DICT ? 2 : 1;
    for (size_t i = count; i > 0; i--)
        if (!(items[i - 1] = pop(pickle)))
            return false;
    return extend(pickle, top(pickle), kind, items, count);
}

/* ---- memo ----------------------------------------------------------------- */

/* CPython numbers the memo from 0, so an index is less than the bytes of the
 * pickle. This bounds the memory of the memo. */
static bool put(tn__pickle *pickle, uint64_t i)
{
    tn__pickle_value *value = top(pickle);
    if (!value)
        return false;
    if (i >= (uint64_t)(pickle->end - pickle->start))
        return malformed(pickle, "an index of the memo is too large");
    while (i >= pickle->memo_room) {
        const size_t was = pickle->memo_room;
        if (!grow(pickle, &pickle->memo, was, &pickle->memo_room,
                  sizeof *pickle->memo))
            return false;
        memset(pickle->memo + was, 0,
               (pickle->memo_room - was) * sizeof *pickle->memo);
    }
    pickle->memo[i] = value;
    return true;
}

static bool put_next(tn__pickle *pickle, size_t *next)
{
    return put(pickle, (*next)++);
}

static bool get(tn__pickle *pickle, uint64_t i)
{
    if (i >= pickle->memo_room || !pickle->memo[i])
        return malformed(pickle, "an index of the memo that has no value");
    return push(pickle, pickle->memo[i]);
}

/* ---- names and calls ------------------------------------------------------ */

static bool push_global(tn__pickle *pickle)
{
    const char *module, *name;
    size_t module_bytes, name_bytes;
    return line(pickle, &module, &module_bytes) &&
           line(pickle, &name, &name_bytes) &&
           push(pickle, tn__pickle_find(pickle, module, module_bytes, name,
                                        name_bytes));
}

static bool push_stack_global(tn__pickle *pickle)
{
    const tn__pickle_value *name = pop(pickle);
    const tn__pickle_value *module = name ? pop(pickle) : NULL;
    if (!module)
        return false;
    if (name->kind != TN__PICKLE_TEXT || module->kind != TN__PICKLE_TEXT)
        return malformed(pickle, "a name is not a string");
    return push(pickle, tn__pickle_find(pickle, module->text, module->bytes,
                                        name->text, name->bytes));
}

static bool call(tn__pickle *pickle, bool with_new)
{
    const tn__pickle_value *arguments = pop(pickle);
    const tn__pickle_value *called = arguments ? pop(pickle) : NULL;
    return called && push(pickle, tn__pickle_call(pickle, called, arguments,
                                                  with_new));
}

/* Attributes of an OrderedDict, such as the versions that state_dict() adds, are
 * dropped. A dtype of NumPy gets its byte order. BUILD calls __setstate__ of
 * other objects, so it is rejected. */
static bool build(tn__pickle *pickle)
{
    const tn__pickle_value *state = pop(pickle);
    tn__pickle_value *to = state ? top(pickle) : NULL;
    if (!to)
        return false;
    if (to->kind == TN__PICKLE_NUMPY_DTYPE)
        return tn__pickle_numpy_state(pickle, to, state);
    if (to->kind == TN__PICKLE_DICT && to->attributes &&
        state->kind == TN__PICKLE_DICT)
        return true;
    return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                           "the pickle has instruction BUILD for an object "
                           "that is not an OrderedDict, which would call "
                           "__setstate__");
}

static bool persistent(tn__pickle *pickle)
{
    const tn__pickle_value *id = pop(pickle);
    return id && push(pickle, tn__pickle_persistent(pickle, id));
}

/* ---- instructions --------------------------------------------------------- */

/* Instructions that are rejected, by their names in pickletools. */
static const struct refused {
    uint8_t code;
    const char *name;
} refused[] = {
    {'I', "INT"},     {'L', "LONG"},   {'S', "STRING"},  {'V', "UNICODE"},
    {'F', "FLOAT"},   {'P', "PERSID"}, {'i', "INST"},    {'o', "OBJ"},
    {0x82, "EXT1"},   {0x83, "EXT2"},  {0x84, "EXT4"},   {0x92, "NEWOBJ_EX"},
    {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
};

static bool refuse(tn__pickle *pickle, uint8_t code)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].code == code)
            return tn__pickle_fail(pickle, TN_ERR_UNSUPPORTED,
                                   "the pickle has instruction %s, which a "
                                   "state_dict does not need", refused[i].name);
    return tn__pickle_fail(pickle, TN_ERR_FORMAT, "unknown instruction 0x%02x",
                           code);
}

static bool skip(tn__pickle *pickle, size_t bytes)
{
    const uint8_t *p;
    return take(pickle, bytes, &p);
}

static bool numbered(tn__pickle *pickle, int bytes,
                     bool (*act)(tn__pickle *pickle, uint64_t i))
{
    uint64_t i;
    return number(pickle, bytes, &i) && act(pickle, i);
}

static bool push_number(tn__pickle *pickle, int bytes)
{
    uint64_t n;
    return number(pickle, bytes, &n) &&
           push_int(pickle, bytes == 4 ? (int32_t)(uint32_t)n : (int64_t)n);
}

/* Runs one instruction. */
static bool step(tn__pickle *pickle, uint8_t code, size_t *memo_next)
{
    tn__pickle_value **items;
    size_t count;
    switch (code) {
    case 0x80: return skip(pickle, 1); /* PROTO */
    case 0x95: return skip(pickle, 8); /* FRAME */
    case '(': return push_mark(pickle);
    case '0': return pop(pickle) != NULL;
    case '1': return pop_mark(pickle, &items, &count);
    case '2': return push(pickle, top(pickle)); /* DUP */
    case 'N': return push(pickle, tn__pickle_new(pickle, TN__PICKLE_NONE));
    case 0x88: return push_bool(pickle, true);
    case 0x89: return push_bool(pickle, false);
    case 'J': return push_number(pickle, 4);
    case 'K': return push_number(pickle, 1);
    case 'M': return push_number(pickle, 2);
    case 0x8a: return push_long(pickle, 1);
    case 0x8b: return push_long(pickle, 4);
    case 'G': return push_real(pickle);
    case 'T': return push_text(pickle, TN__PICKLE_TEXT, 4); /* BINSTRING */
    case 'U': return push_text(pickle, TN__PICKLE_TEXT, 1);
    case 'X': return push_text(pickle, TN__PICKLE_TEXT, 4); /* BINUNICODE */
    case 0x8c: return push_text(pickle, TN__PICKLE_TEXT, 1);
    case 0x8d: return push_text(pickle, TN__PICKLE_TEXT, 8);
    case 'B': return push_text(pickle, TN__PICKLE_BYTES, 4); /* BINBYTES */
    case 'C': return push_text(pickle, TN__PICKLE_BYTES, 1);
    case 0x8e: return push_text(pickle, TN__PICKLE_BYTES, 8);
    case 0x96: return push_text(pickle, TN__PICKLE_BYTES, 8); /* BYTEARRAY8 */
    case ')': return push_tuple(pickle, 0);
    case 0x85: return push_tuple(pickle, 1);
    case 0x86: return push_tuple(pickle, 2);
    case 0x87: return push_tuple(pickle, 3);
    case 't': return push_marked(pickle, TN__PICKLE_TUPLE);
    case ']': return push(pickle, tn__pickle_new(pickle, TN__PICKLE_LIST));
    case 'l': return push_marked(pickle, TN__PICKLE_LIST);
    case 0x8f: return push(pickle, tn__pickle_new(pickle, TN__PICKLE_LIST));
    case 0x91: return push_marked(pickle, TN__PICKLE_LIST); /* FROZENSET */
    case 'a': return extend_popped(pickle, TN__PICKLE_LIST);
    case 'e': return extend_marked(pickle, TN__PICKLE_LIST);
    case 0x90: return extend_marked(pickle, TN__PICKLE_LIST); /* ADDITEMS */
    case '}': return push(pickle, tn__pickle_new(pickle, TN__PICKLE_DICT));
    case 's': return extend_popped(pickle, TN__PICKLE_DICT);
    case 'u': return extend_marked(pickle, TN__PICKLE_DICT);
    case 'q': return numbered(pickle, 1, put);
    case 'r': return numbered(pickle, 4, put);
    case 0x94: return put_next(pickle, memo_next); /* MEMOIZE */
    case 'h': return numbered(pickle, 1, get);
    case 'j': return numbered(pickle, 4, get);
    case 'c': return push_global(pickle);
    case 0x93: return push_stack_global(pickle);
    case 'R': return call(pickle, false);
    case 0x81: return call(pickle, true); /* NEWOBJ */
    case 'b': return build(pickle);
    case 'Q': return persistent(pickle);
    default: return refuse(pickle, code);
    }
}

tn__pickle_value *tn__pickle_run(tn__pickle *pickle, const uint8_t **p,
                                 const uint8_t *end)
{
    size_t memo_next = 0;
    tn__pickle_value *result = NULL;
    bool runs = true;
    if (!pickle->most_bytes) {
        const uint64_t most =
            TN__PICKLE_MOST_RATIO * (uint64_t)(end - *p) + (1 << 20);
        pickle->most_bytes =
            most < TN__PICKLE_MOST_MEMORY ? most : TN__PICKLE_MOST_MEMORY;
    }
    pickle->start = pickle->p = *p;
    pickle->end = end;
    pickle->stack_count = pickle->mark_count = 0;
    if (pickle->memo)
        memset(pickle->memo, 0, pickle->memo_room * sizeof *pickle->memo);
    while (runs && pickle->p < end && *pickle->p != '.')
        runs = step(pickle, *pickle->p++, &memo_next);
    if (runs && pickle->p == end)
        malformed(pickle, "it is truncated");
    else if (runs)
        result = pop(pickle);
    if (result && (pickle->stack_count || pickle->mark_count))
        result = (malformed(pickle, "values are left on its stack"), NULL);
    *p = pickle->p + (result != NULL);
    pickle->start = pickle->p = NULL;
    return result;
}
