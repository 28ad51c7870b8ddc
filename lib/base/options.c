/* options.c: finds out which options (optional arguments) a call sets, and
 * checks their values.
 *
 * A macro passes the options of a call as a string of their source text, such
 * as ".dim = 1, .keepdim = true", besides the struct with the values. An option
 * that is not in this string has its default, so an option can be set to 0. A
 * comma within brackets or quotes is part of a value. Parsing takes some
 * nanoseconds per character, so the result is cached. The cache compares the
 * characters of the string, not its address: after a library was unloaded,
 * another string may be at the same address. */
#include <base/error.h>
#include <base/memory.h>
#include <base/options.h>
#include <base/state.h>

#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ----------------------------------------------------------- */

/* Strings that a message quotes are cut off after this many characters. */
enum { SHOWN = 60 };

static int shown_length(size_t length)
{
    return (int)(length < SHOWN ? length : SHOWN);
}

static void refuse_unnamed(const tn_options_type *type, const char *piece,
                           size_t length)
{
    tn__fail(TN_ERR_ARGUMENT,
             "%s: \"%.*s\" is not an option: write options by name, as in "
             "tn_%s(%s%s.%s = %.*s)", type->name, shown_length(length), piece,
             type->name, type->arguments, *type->arguments ? ", " : "",
             type->option[0].name, shown_length(length), piece);
}

static void refuse_unknown(const tn_options_type *type, const char *name,
                           size_t length)
{
    tn__text names = {0};
    for (int i = 0; i < type->option_count; i++)
        tn__text_add(&names, "%s.%s", i ? ", " : "", type->option[i].name);
    char *list = tn__text_finish(&names);
    tn__fail(TN_ERR_ARGUMENT, "%s: there is no option .{%.*s}; expected %s",
             type->name, shown_length(length), name, list ? list : "others");
    tn__free(list);
}

/* ---- parsing ------------------------------------------------------------ */

static int find_option(const tn_options_type *type, const char *name,
                       size_t length)
{
    for (int i = 0; i < type->option_count; i++)
        if (strncmp(type->option[i].name, name, length) == 0 &&
            !type->option[i].name[length])
            return i;
    return -1;
}

static void refuse_uncounted(const tn_options_type *type, int i)
{
    tn__fail(TN_ERR_ARGUMENT,
             "%s: parts of .{%s} are given without its count: "
             "write .%s = tn_dims(...)",
             type->name, type->option[i].name, type->option[i].name);
}

static const char *skip_quoted(const char *s)
{
    char quote = *s++;
    while (*s && *s != quote)
        s += s[0] == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : s;
}

static const char *skip_blank(const char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    return s;
}

/* Returns the end of the option that begins at s: the next comma outside
 * brackets and quotes, or the end of the string. */
static const char *piece_end(const char *s)
{
    int depth = 0;
    while (*s && (depth > 0 || *s != ',')) {
        if (*s == '"' || *s == '\'') {
            s = skip_quoted(s);
            continue;
        }
        depth += *s == '(' || *s == '[' || *s == '{';
        depth -= *s == ')' || *s == ']' || *s == '}';
        s++;
    }
    return s;
}

static size_t word_length(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return 0;
    size_t n = 1;
    while (isalnum((unsigned char)s[n]) || s[n] == '_')
        n++;
    return n;
}

/* The options that a call's string of options sets. Each field is a set of
 * bits; bit i is for option i. given: the options that are set, at least in
 * part. parts: those of which a part is set, as in ".dims.dim[0] = 1". counted:
 * the lists whose count is set. */
typedef struct reading {
    uint64_t given, counted, parts;
} reading;

/* Skips the rest of a designator, such as ".dim[0]" in ".dims.dim[0]". Returns
 * its end. */
static const char *skip_part(const char *at, const char *end)
{
    while (*at == '.' || *at == '[') {
        if (*at == '[') {
            while (at < end && *at != ']')
                at++;
            at = skip_blank(at + (at < end));
        } else {
            at = skip_blank(at + 1);
            at = skip_blank(at + word_length(at));
        }
    }
    return at;
}

/* Parses one option: ".name = value", or ".name.part = value" and ".name[0] =
 * value", which set only a part of the option. Records an error and returns
 * false for anything else. */
static bool read_piece(const tn_options_type *type, const char *s,
                       const char *end, reading *to)
{
    size_t length = (size_t)(end - s);
    while (length && isspace((unsigned char)s[length - 1]))
        length--;
    const char *name = *s == '.' ? skip_blank(s + 1) : s;
    size_t name_length = *s == '.' ? word_length(name) : 0;
    const char *part = skip_blank(name + name_length);
    const char *at = skip_part(part, end);
    if (!name_length || at >= end || at[0] != '=' || at[1] == '=') {
        refuse_unnamed(type, s, length);
        return false;
    }
    int i = find_option(type, name, name_length);
    if (i < 0) {
        refuse_unknown(type, name, name_length);
        return false;
    }
    uint64_t bit = UINT64_C(1) << i;
    if (to->given & bit && at == part) {
        tn__fail(TN_ERR_ARGUMENT, "%s: .{%s} is given twice", type->name,
                 type->option[i].name);
        return false;
    }
    to->given |= bit;
    if (at > part && *part == '.') {
        const char *word = skip_blank(part + 1);
        bool count = word_length(word) == 5 && strncmp(word, "count", 5) == 0;
        to->counted |= count ? bit : 0;
        to->parts |= bit;
    }
    return true;
}

/* Finds the options that a string sets. Bit i of *given is set if option i is
 * set, and bit i of *parts if only a part of it is. */
static bool read_text(const tn_options_type *type, const char *text,
                      uint64_t *given, uint64_t *parts)
{
    reading all = {0};
    for (const char *s = skip_blank(text); *s; s = skip_blank(s)) {
        const char *end = piece_end(s);
        if (!read_piece(type, s, end, &all))
            return false;
        s = *end ? end + 1 : end;
    }
    for (int i = 0; i < type->option_count; i++)
        if ((all.parts & ~all.counted) >> i & 1 &&
            type->option[i].kind == TN_OPTION_LIST) {
            refuse_uncounted(type, i);
            return false;
        }
    *given = all.given;
    *parts = all.parts;
    return true;
}

/* ---- cache -------------------------------------------------------------- */

/* An entry of the cache, which is a hash table: a string and the options that
 * it sets. Entries are written once and never removed, so threads read them
 * without a lock. A string is stored in one of TRIES entries; if all of them
 * are occupied, the string is parsed at each call. */
typedef struct known_text {
    const tn_options_type *type;
    uint64_t given;  /* bit i is set if the string sets option i */
    uint64_t parts;  /* bit i is set if the string sets a part of option i, as
                      * in ".dims.dim[0] = 1" */
    uint32_t end;    /* end of the last of the set options in the struct of
                      * options, in bytes */
    bool has_checks; /* true if one of the set options has to be checked (its
                      * kind is not TN_OPTION_PLAIN) */
    char text[];
} known_text;

enum { PLACES = 2048, TRIES = 4 };
static _Atomic(known_text *) known[PLACES];

static uint64_t place_of(const tn_options_type *type, const char *text)
{
    uint64_t key = (uint64_t)(uintptr_t)text ^ (uint64_t)(uintptr_t)type << 20;
    return key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

static const known_text *find_known(const tn_options_type *type,
                                    const char *text)
{
    uint64_t place = place_of(type, text);
    for (int i = 0; i < TRIES; i++) {
        const known_text *entry = atomic_load_explicit(
            &known[(place + (uint64_t)i) % PLACES], memory_order_acquire);
        if (!entry)
            break;
        if (entry->type == type && strcmp(entry->text, text) == 0)
            return entry;
    }
    return NULL;
}

static void remember(const known_text *new, const char *text)
{
    uint64_t place = place_of(new->type, text);
    for (int i = 0; i < TRIES; i++) {
        _Atomic(known_text *) *at = &known[(place + (uint64_t)i) % PLACES];
        if (atomic_load_explicit(at, memory_order_relaxed))
            continue;
        size_t bytes = strlen(text) + 1;
        known_text *entry = tn__memory_take(sizeof *entry + bytes, false);
        if (!entry)
            return;
        *entry = *new;
        memcpy(entry->text, text, bytes);
        known_text *none = NULL;
        if (!atomic_compare_exchange_strong_explicit(
                at, &none, entry, memory_order_release, memory_order_relaxed))
            free(entry);
        return;
    }
}

/* Parses a string that is not in the cache. Records an error and returns false
 * if it is invalid. */
static bool read_new(const tn_options_type *type, const char *text,
                     known_text *new)
{
    *new = (known_text){.type = type};
    if (!read_text(type, text, &new->given, &new->parts))
        return false;
    for (int i = 0; new->given >> i; i++) {
        const tn_option *o = &type->option[i];
        if (!(new->given >> i & 1))
            continue;
        uint32_t end = (uint32_t)o->offset + o->bytes;
        new->end = end > new->end ? end : new->end;
        new->has_checks |= o->kind != TN_OPTION_PLAIN;
    }
    remember(new, text);
    return true;
}

/* ---- checks and copies -------------------------------------------------- */

static bool is_default(const tn_options_type *type, int i, const void *own)
{
    const tn_option *o = &type->option[i];
    const char *at = (const char *)own + o->offset;
    const char *fallback = (const char *)type->defaults + o->offset;
    if (o->kind == TN_OPTION_LIST) /* a list has padding bytes, so memcmp cannot
                                    * compare it */
        return ((const tn_dims_list *)(const void *)at)->count < 0;
    if (memcmp(at, fallback, o->bytes) == 0)
        return true;
    /* Two equal strings may have different addresses. */
    if (o->kind == TN_OPTION_STRING) {
        const char *a, *b;
        memcpy(&a, at, sizeof a);
        memcpy(&b, fallback, sizeof b);
        return a && b && strcmp(a, b) == 0;
    }
    /* -0 must compare equal to 0. */
    if (o->kind == TN_OPTION_NUMBER) {
        double a, b;
        memcpy(&a, at, sizeof a);
        memcpy(&b, fallback, sizeof b);
        return a == b;
    }
    return false;
}

/* Returns whether option i is the list variant of the option before it, as
 * `dims` is of `dim`. */
static bool is_list_of_last(const tn_options_type *type, int i)
{
    if (!i || type->option[i].kind != TN_OPTION_LIST)
        return false;
    const char *one = type->option[i - 1].name, *all = type->option[i].name;
    size_t length = strlen(one);
    return strncmp(one, all, length) == 0 && strcmp(all + length, "s") == 0;
}

/* Returns whether option i is the rule variant of option `other`, as
 * `padding_rule` is of `padding` and `paddings`. */
static bool is_rule_of(const tn_options_type *type, int i, int other)
{
    const char *rule = type->option[i].name, *name = type->option[other].name;
    size_t length = strlen(rule), own = length - 5;
    return length > 5 && strcmp(rule + own, "_rule") == 0 &&
           strncmp(rule, name, own) == 0 &&
           (!name[own] || strcmp(name + own, "s") == 0);
}

static bool refuse_both(const tn_options_type *type, int i, int k)
{
    tn__fail(TN_ERR_ARGUMENT, "%s: give .{%s} or .{%s}, not both", type->name,
             type->option[i].name, type->option[k].name);
    return false;
}

static bool check_string(const tn_options_type *type, int i, const void *own,
                         uint64_t given)
{
    const char *string;
    memcpy(&string, (const char *)own + type->option[i].offset, sizeof string);
    if (!string && !is_default(type, i, own)) {
        tn__fail(TN_ERR_ARGUMENT, "%s: .{%s} is NULL", type->name,
                 type->option[i].name);
        return false;
    }
    for (int k = i - 1; string && k >= 0 && k >= i - 2; k--)
        if (given >> k & 1 && !is_default(type, k, own) &&
            is_rule_of(type, i, k))
            return refuse_both(type, k, i);
    return true;
}

/* Records an error for a list that was given as a plain number in C, or as a
 * plain brace list in C++. Either would set the list's count, not its
 * elements. */
static bool refuse_bare(const tn_options_type *type, int i)
{
    const char *name = type->option[i].name;
    if (is_list_of_last(type, i))
        tn__fail(TN_ERR_ARGUMENT,
                 "%s: .{%s} is a list: write .%s = "
                 "tn_dims(...), or .%s for one number",
                 type->name, name, name, type->option[i - 1].name);
    else
        tn__fail(TN_ERR_ARGUMENT,
                 "%s: .{%s} is a list: write .%s = tn_dims(...)", type->name,
                 name, name);
    return false;
}

static bool check_list(const tn_options_type *type, int i, const void *own,
                       uint64_t given, uint64_t parts)
{
    const tn_dims_list *list = (const void *)((const char *)own +
                                              type->option[i].offset);
    if (list->count > TN_MAX_NDIM || list->count < -1) {
        tn__fail(TN_ERR_ARGUMENT,
                 "%s: .{%s} has %d elements; expected at most %d",
                 type->name, type->option[i].name, list->count, TN_MAX_NDIM);
        return false;
    }
    if (list->count >= 0 && list->dim[TN_MAX_NDIM] != TN_DIMS_MARK &&
        !(parts >> i & 1))
        return refuse_bare(type, i);
    /* The names are compared last because that takes longest. */
    return list->count < 0 || i == 0 || !(given >> (i - 1) & 1) ||
           is_default(type, i - 1, own) || !is_list_of_last(type, i) ||
           refuse_both(type, i - 1, i);
}

/* Checks that an option is not "none" (TN_NONE_INT, or the NaN that means
 * "none"), unless "none" is its default. */
static bool check_none(const tn_options_type *type, int i, const void *own)
{
    const tn_option *o = &type->option[i];
    const char *at = (const char *)own + o->offset;
    int64_t whole = 0;
    double number = 0;
    if (o->kind == TN_OPTION_WHOLE)
        memcpy(&whole, at, sizeof whole);
    else
        memcpy(&number, at, sizeof number);
    if ((whole != TN_NONE_INT && !tn_is_none_float(number)) ||
        is_default(type, i, own))
        return true;
    tn__fail(TN_ERR_ARGUMENT,
             "%s: .{%s} cannot be none: leave it out for its "
             "default",
             type->name, o->name);
    return false;
}

/* Checks the values of options: a required string is not NULL, "none" is given
 * only where it is allowed, and no two options set the same thing. Bit i of
 * `given` is set if option i is to be checked. Bit i of `parts` is set if the
 * program wrote the fields of list i itself. */
static bool check_values(const tn_options_type *type, const void *own,
                         uint64_t given, uint64_t parts)
{
    uint64_t left = given;
    for (int i = 0; i < type->option_count && left; i++, left >>= 1) {
        if (!(left & 1) || type->option[i].kind == TN_OPTION_PLAIN)
            continue;
        int kind = type->option[i].kind;
        if (kind == TN_OPTION_STRING  ? !check_string(type, i, own, given)
            : kind == TN_OPTION_LIST ? !check_list(type, i, own, given, parts)
                                     : !check_none(type, i, own))
            return false;
    }
    return true;
}

/* Copies the options whose bits are set in `given` from the struct `theirs` to
 * the struct `own`. */
static void copy_given(const tn_options_type *type, char *own,
                       const char *theirs, uint64_t given)
{
    for (const tn_option *o = type->option; given; o++, given >>= 1) {
        if (!(given & 1))
            continue;
        if (o->bytes == 8) /* memcpy of a constant size is inlined */
            memcpy(own + o->offset, theirs + o->offset, 8);
        else if (o->bytes == sizeof(tn_dims_list))
            memcpy(own + o->offset, theirs + o->offset, sizeof(tn_dims_list));
        else if (o->bytes == 1)
            own[o->offset] = theirs[o->offset];
        else
            memcpy(own + o->offset, theirs + o->offset, o->bytes);
    }
}

/* Returns the options that lie completely within the first `bytes` bytes of the
 * struct. Bit i is for option i. */
static uint64_t within(const tn_options_type *type, size_t bytes)
{
    uint64_t given = 0;
    for (int i = 0; i < type->option_count; i++)
        if ((size_t)type->option[i].offset + type->option[i].bytes <= bytes)
            given |= UINT64_C(1) << i;
    return given;
}

/* Completes options that were passed as a struct without a string. All options
 * in the struct count as set. */
static const void *resolve_whole(const tn_options_type *type,
                                 const tn__options_head *head, void *room)
{
    if (head->size > type->bytes)
        return tn__fail_null(
            TN_ERR_ARGUMENT,
            "%s: the options have %zu bytes, but this libtenon is older than "
            "the header and has only %zu: load the libtenon of the header",
            type->name, head->size, type->bytes);
    if (head->size == type->bytes)
        return check_values(type, head, UINT64_MAX, 0) ? head : NULL;
    uint64_t given = within(type, head->size);
    memcpy(room, type->defaults, type->bytes);
    copy_given(type, room, (const char *)head, given);
    return check_values(type, room, given, 0) ? room : NULL;
}

const void *tn__options_resolve(const tn_options_type *type,
                                const void *options, void *room)
{
    const tn__options_head *head = options;
    if (!head->given || head->size < sizeof *head)
        return tn__fail_null(
            TN_ERR_ARGUMENT,
            "%s: the options are not initialised: begin with the call's "
            "TN_..._OPTIONS, or tn_options_init(\"%s\", &options, sizeof "
            "options)", type->name, type->name);
    if (head->given[0] == '*' && !head->given[1])
        return resolve_whole(type, head, room);
    known_text new;
    const known_text *text = find_known(type, head->given);
    if (TN__UNLIKELY(!text)) {
        if (!read_new(type, head->given, &new))
            return NULL;
        text = &new;
    }
    if (TN__UNLIKELY(text->end > head->size))
        return tn__fail_null(
            TN_ERR_ARGUMENT,
            "%s: an option lies beyond the %zu bytes of the struct: set "
            "its size with tn_options_init()", type->name, head->size);
    memcpy(room, type->defaults, type->bytes);
    copy_given(type, room, options, text->given);
    bool good = !text->has_checks ||
                check_values(type, room, text->given, text->parts);
    return good ? room : NULL;
}

tn_status tn_options_take(const tn_options_type *type, void *own,
                          const void *options)
{
    if (!type || !own)
        return tn__fail(TN_ERR_ARGUMENT, "options_take: {%s} is NULL",
                        type ? "own" : "type");
    const void *all = tn__options_of(type, options, own);
    if (!all)
        return TN_ERR_ARGUMENT;
    if (all != own)
        memcpy(own, all, type->bytes);
    return TN_OK;
}

/* ---- options that only have an effect together with others --------------- */

tn_status tn__options_refuse_need(const char *call, const tn_option_need *need)
{
    return tn__fail(TN_ERR_ARGUMENT,
                    "%s: .{%s} has no effect %s: %s, or leave .%s out", call,
                    need->option, need->why, need->mend, need->option);
}

tn_status tn_options_check_needs(const tn_options_type *type, const void *own,
                                 const tn_option_need *need, int count)
{
    if (!type || !own || (!need && count > 0))
        return tn__fail(TN_ERR_ARGUMENT, "options_check_needs: {%s} is NULL",
                        !type  ? "type"
                        : !own ? "own"
                               : "need");
    for (int k = 0; k < count; k++) {
        const char *name = need[k].option;
        int i = name ? find_option(type, name, strlen(name)) : -1;
        if (i < 0)
            return tn__fail(TN_ERR_ARGUMENT,
                            "options_check_needs: {need}[%d]: %s has no option "
                            ".%s",
                            k, type->name, name ? name : "(NULL)");
        if (!need[k].met && !is_default(type, i, own))
            return tn__options_refuse_need(type->name, &need[k]);
    }
    return TN_OK;
}

/* ---- finding a struct of options by its name ----------------------------- */

/* Start and end of the section of the program in which TN_OPTIONS_LISTED puts
 * pointers to option types. The symbols are weak, since a test program may have
 * no such section. */
extern const tn_options_type *const __start_tn_options[]
    __attribute__((weak, visibility("hidden")));
extern const tn_options_type *const __stop_tn_options[]
    __attribute__((weak, visibility("hidden")));

static _Atomic(tn_options_list *) lists; /* of other libraries */

void tn_options_add_list(tn_options_list *list)
{
    if (!list)
        return;
    list->next = atomic_load(&lists);
    while (!atomic_compare_exchange_weak(&lists, &list->next, list))
        ;
}

static const tn_options_type *find_type(const char *name)
{
    const tn_options_list own = {__start_tn_options, __stop_tn_options,
                                 atomic_load(&lists)};
    for (const tn_options_list *l = &own; l; l = l->next)
        for (const tn_options_type *const *t = l->first; t < l->end; t++)
            if (strcmp((*t)->name, name) == 0)
                return *t;
    return NULL;
}

tn_status tn_options_init(const char *name, void *options, size_t bytes)
{
    if (!name || !options)
        return tn__fail(TN_ERR_ARGUMENT, "options_init: {%s} is NULL",
                        name ? "options" : "name");
    const tn_options_type *type = find_type(name);
    if (!type)
        return tn__fail(TN_ERR_ARGUMENT,
                        "options_init: no call \"%s\" has options; names are "
                        "as in \"sum\", \"nn_conv2d\", \"optim_adam\"", name);
    if (bytes < sizeof(tn__options_head) || bytes > type->bytes)
        return tn__fail(TN_ERR_ARGUMENT,
                        "options_init: bytes is %zu; expected %zu to %zu for "
                        "%s", bytes, sizeof(tn__options_head), type->bytes,
                        name);
    memcpy(options, type->defaults, bytes);
    ((tn__options_head *)options)->size = bytes;
    return TN_OK;
}
