/* error.c: the pending error of each thread, as a message and as data.
 *
 * A thread allocates storage for the message and the data at its first error,
 * and reuses it for later errors. If the allocation fails, only the error code
 * is recorded. The path of the module is stored apart from the text, because
 * code that rewords an error would otherwise repeat the path. */
#include <base/context.h>
#include <base/error.h>
#include <base/plain.h>
#include <base/platform.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tn__error_storage {
    char words[TN__ERROR_BYTES];
    tn__error_facts facts;
    /* The fields below are the results of tn_error and tn_error_info. */
    char message[TN__ERROR_BYTES + 640]; /* front, module path and `words` */
    tn_error_details details;
    tn_error_tensor tensor[TN_ERROR_TENSORS];
    const tn_error_tensor *list[TN_ERROR_TENSORS];
    char who[64], argument[sizeof((tn__error_mark *)0)->name];
};

/* Returns the text of an error for which no storage could be allocated: a
 * sentence for its code. */
static const char *plain_words(void)
{
    switch (tn__me.pending) {
#define WORDS_OF(name, value, text)                                           \
    case value:                                                               \
        return text;
        TN_STATUS_MAP(WORDS_OF)
#undef WORDS_OF
    default:
        return "unknown";
    }
}

/* Returns the storage of the pending error. Returns NULL if no error is
 * pending, or if memory for it ran out. */
static struct tn__error_storage *stored(void)
{
    return tn__me.pending ? tn__me.error : NULL;
}

/* ---- the text of an error ------------------------------------------------*/

const char *tn_error(void)
{
    if (!tn__me.pending)
        return NULL;
    if (!tn__me.error)
        return plain_words();
    const char *path = tn_path_text(tn__me.error->facts.path);
    snprintf(tn__me.error->message, sizeof tn__me.error->message, "%s%s%s%s",
             tn__me.error->facts.front, path, *path ? ": " : "",
             tn__me.error->words);
    return tn__me.error->message;
}

tn_status tn_error_code(void)
{
    return tn__me.pending;
}

void tn_error_clear(void)
{
    tn__me.pending = TN_OK;
}

bool tn__error_pending(void)
{
    return tn__me.pending != TN_OK;
}

const char *tn__error_words(void)
{
    return !tn__me.pending ? "" : tn__me.error ? tn__me.error->words : plain_words();
}

/* Replaces line breaks by blanks. A message must be one line, but the text may
 * quote user input. */
static void one_line(char *text)
{
    for (; *text; text++)
        if (*text == '\n' || *text == '\r')
            *text = ' ';
}

/* While a text is printed, these bytes replace the characters that delimit
 * argument names in a format (see tn__fail): OPEN replaces "{", CLOSE "}",
 * SHOWN the ":" in between, and FAULT the "!" after "{". */
enum { OPEN = 1, CLOSE, SHOWN, FAULT };

/* Returns whether this brace begins the name of an argument, as in "{input}". A
 * brace of quoted C code, as in "{.dim = 1}" or "{...}", does not. */
static bool is_mark(const char *brace)
{
    const char *c = brace + 1 + (brace[1] == '!');
    bool named = *c == '%' || *c == '_' || (*c >= 'a' && *c <= 'z') ||
                 (*c >= 'A' && *c <= 'Z');
    return named && c[strcspn(c, "}{=,")] == '}';
}

/* Copies the format, with the bytes OPEN to FAULT in place of the braces around
 * argument names. Returns how many names are marked. Returns 0 also if the copy
 * does not fit into `out`; the library's own formats always fit. */
static int mark_format(char *out, size_t room, const char *format)
{
    int count = 0;
    bool inside = false;
    size_t n = 0;
    for (const char *c = format; *c; c++) {
        if (n + 1 >= room)
            return 0;
        if (*c == '{' && is_mark(c)) {
            out[n++] = OPEN;
            inside = true;
            count++;
        } else if (inside && *c == '}') {
            out[n++] = CLOSE;
            inside = false;
        } else if (inside && *c == '!') {
            out[n++] = FAULT;
        } else {
            out[n++] = inside && *c == ':' ? (char)SHOWN : *c;
        }
    }
    out[n] = 0;
    return count;
}

/* Reads one marked argument name that begins after an OPEN byte at `text`.
 * Stores it in *mark and writes the visible part to *to. Returns the end of the
 * marked name. */
static const char *read_mark(const char *text, char **to, const char *words,
                             tn__error_mark *mark)
{
    size_t n = 0;
    *mark = (tn__error_mark){.index = -1, .at = (short)(*to - words)};
    if (*text == FAULT) {
        mark->is_at_fault = true;
        text++;
    }
    const char *name = text;
    while (*text && *text != CLOSE && *text != SHOWN)
        text++;
    const char *end = text;
    for (; name + n < end && name[n] != '[' && n + 1 < sizeof mark->name; n++)
        mark->name[n] = name[n];
    if (name + n < end && name[n] == '[')
        mark->index = (int)strtol(name + n + 1, NULL, 10);
    if (*text == SHOWN)
        for (name = ++text; *text && *text != CLOSE; text++)
            ;
    mark->length = (short)(text - name);
    memmove(*to, name, (size_t)mark->length);
    *to += mark->length;
    return *text ? text + 1 : text;
}

/* Removes the bytes OPEN to FAULT from `words` and stores the marked argument
 * names in `facts`. `expected` is the number of names marked in the format. If
 * `words` has more OPEN bytes, a printed value contained such a byte. Then the
 * bytes are removed but no names are stored. */
static void take_marks(char *words, tn__error_facts *facts, int expected)
{
    int found = 0;
    for (const char *c = words; *c; c++)
        found += *c == OPEN;
    char *to = words;
    facts->mark_count = 0;
    for (const char *c = words; *c;) {
        tn__error_mark mark;
        if (*c == OPEN && found <= expected) {
            c = read_mark(c + 1, &to, words, &mark);
            if (facts->mark_count < TN__ERROR_MARKS)
                facts->mark[facts->mark_count++] = mark;
        } else if (*c >= OPEN && *c <= FAULT) {
            c++;
        } else {
            *to++ = *c++;
        }
    }
    *to = 0;
}

/* Returns the length of the function's name with which the printed text will
 * begin ("function: problem"); 0 if it will not begin with a name. */
static int name_length(const char *format, va_list args)
{
    int n = 0;
    if (strncmp(format, "%s: ", 4) == 0) {
        const char *name = va_arg(args, const char *);
        return name ? (int)strlen(name) : 0;
    }
    while (format[n] == '_' || (format[n] >= '0' && format[n] <= '9') ||
           (format[n] >= 'a' && format[n] <= 'z') ||
           (format[n] >= 'A' && format[n] <= 'Z'))
        n++;
    return format[n] == ':' && format[n + 1] == ' ' ? n : 0;
}

/* Prints an error's text into `words` and stores the length of the function's
 * name in `facts`. If with_marks is set, stores the marked argument names
 * too. */
static void write_words(char words[TN__ERROR_BYTES], tn__error_facts *facts,
                        bool with_marks, const char *format, va_list args)
{
    char own[640];
    int expected = with_marks && strchr(format, '{')
                       ? mark_format(own, sizeof own, format) : 0;
    va_list again;
    va_copy(again, args);
    facts->who = name_length(format, again);
    va_end(again);
    int length = tn__plain_vprint(words, TN__ERROR_BYTES, expected ? own : format,
                           args);
    if (length < 0)
        words[0] = 0;
    else if (length >= TN__ERROR_BYTES)
        memcpy(words + TN__ERROR_BYTES - 4, "...", 4);
    one_line(words);
    take_marks(words, facts, expected);
    if (facts->who >= (int)strlen(words))
        facts->who = 0;
}

static tn_status record(tn_status code, bool with_marks, const char *format,
                        va_list args)
{
    if (tn__me.pending)
        return code;
    tn__me.pending = code ? code : TN_ERR_INTERNAL;
    struct tn__error_storage *room = tn__me.error;
    if (TN__UNLIKELY(!room))
        room = tn__context_alloc(&tn__me.error, sizeof *room);
    if (!room)
        return code;
    memset(&tn__me.error->facts, 0, sizeof tn__me.error->facts);
    write_words(tn__me.error->words, &tn__me.error->facts, with_marks, format, args);
    if (!*tn__me.error->words)
        snprintf(tn__me.error->words, sizeof tn__me.error->words, "%s", tn_status_name(code));
    tn__me.error->facts.running = tn__me.location.running;
    tn__me.error->facts.path = tn__me.location.path;
    tn__me.error->facts.odd = -1;
    return code;
}

/* Calls the error handler for the pending error, unless it was called for this
 * error before. */
static void report(void)
{
    if (!tn__me.pending || !tn__handler_is_active())
        return;
    if (stored() && tn__me.error->facts.reported)
        return;
    if (stored())
        tn__me.error->facts.reported = true;
    tn__handler_call(tn__me.pending, tn_error());
}

static tn_status fail(tn_status code, bool with_marks, const char *format,
                      va_list args)
{
    if (tn__me.pending)
        return code;
    record(code, with_marks, format, args);
    report();
    return code;
}

tn_status tn__fail_va(tn_status code, const char *format, va_list args)
{
    return fail(code, false, format, args);
}

tn_status tn__fail(tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(code, true, format, args);
    va_end(args);
    return code;
}

tn_status tn__fail_marked(tn_status code, const char *who, const char *text)
{
    char own[TN__ERROR_BYTES];
    if (tn__me.pending)
        return code;
    int expected = mark_format(own, sizeof own, text);
    tn__handler_mute();
    tn__fail(code, "%s: ", who);
    tn__handler_unmute();
    if (!stored()) {
        report();
        return code;
    }
    char *at = tn__me.error->words + strlen(tn__me.error->words);
    snprintf(at, (size_t)(tn__me.error->words + sizeof tn__me.error->words - at), "%s",
             expected ? own : text);
    one_line(at);
    tn__me.error->facts.who = (int)strlen(who);
    take_marks(tn__me.error->words, &tn__me.error->facts, expected);
    report();
    return code;
}

void *tn__fail_null(tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(code, true, format, args);
    va_end(args);
    return NULL;
}

tn__error_index tn__error_index_in(int64_t value, int64_t low, int64_t bound,
                                   int64_t number, int ndim,
                                   const int64_t *shape)
{
    tn__error_index index = {TN__INDEX_GIVEN, value, low, bound, ndim, {0}};
    for (int d = ndim - 1; d >= 0 && shape[d] > 0; d--) {
        index.position[d] = number % shape[d];
        number /= shape[d];
    }
    return index;
}

tn_status tn__fail_outside(tn_status code, tn__error_index index,
                           const char *format, ...)
{
    const bool first = !tn__me.pending;
    va_list args;
    va_start(args, format);
    if (first)
        record(code, true, format, args);
    va_end(args);
    if (first && stored())
        tn__me.error->facts.index = index;
    if (first)
        report();
    return code;
}

tn_status tn_error_set(tn_status code, const char *format, ...)
{
    if (!format)
        return tn__fail(code, "%s", tn_status_name(code));
    va_list args;
    va_start(args, format);
    tn__fail_va(code, format, args);
    va_end(args);
    return code;
}

void tn_error_prefix(const char *format, ...)
{
    if (!stored() || !format)
        return;
    char *front = tn__me.error->facts.front, text[sizeof tn__me.error->facts.front];
    va_list args;
    va_start(args, format);
    tn__plain_vprint(text, sizeof text - 2, format, args);
    va_end(args);
    one_line(text);
    strcat(text, ": ");
    size_t length = strlen(text), room = sizeof text - 1 - length;
    size_t kept = strlen(front) < room ? strlen(front) : room;
    memcpy(text + length, front, kept);
    text[length + kept] = '\0';
    strcpy(front, text);
}

bool tn__error_is_from(const char *name)
{
    size_t length = strlen(name);
    return stored() && length && (size_t)tn__me.error->facts.who == length &&
           memcmp(tn__me.error->words, name, length) == 0;
}

/* Replaces `length` bytes of the pending error's text, starting at byte `at`,
 * by `text`. Adjusts the stored positions of the argument names that come later
 * in the text. */
static void replace(int at, int length, const char *text)
{
    int more = (int)strlen(text), whole = (int)strlen(tn__me.error->words);
    int kept = whole - at - length;
    if (at + more > (int)sizeof tn__me.error->words - 4)
        return;
    if (at + more + kept > (int)sizeof tn__me.error->words - 1) {
        kept = (int)sizeof tn__me.error->words - 1 - at - more;
        memcpy(tn__me.error->words + at + length + kept - 3, "...", 3);
    }
    memmove(tn__me.error->words + at + more, tn__me.error->words + at + length, (size_t)kept);
    memcpy(tn__me.error->words + at, text, (size_t)more);
    tn__me.error->words[at + more + kept] = 0;
    for (int m = 0; m < tn__me.error->facts.mark_count; m++)
        if (tn__me.error->facts.mark[m].at >= at + length)
            tn__me.error->facts.mark[m].at += (short)(more - length);
}

void tn__error_prefix(const char *format, ...)
{
    char front[256];
    if (!stored())
        return;
    va_list args;
    va_start(args, format);
    tn__plain_vprint(front, sizeof front - 2, format, args);
    va_end(args);
    one_line(front);
    /* The function's name ends at the first ": ", as in "recompute: when
     * ...". */
    const char *end = strstr(front, ": ");
    tn__me.error->facts.who = (int)(end ? (size_t)(end - front) : strlen(front));
    strcat(front, ": ");
    replace(0, 0, front);
}

void tn__error_attribute(const char *name)
{
    if (!stored() || !tn__me.error->facts.who)
        return;
    replace(0, tn__me.error->facts.who, name);
    tn__me.error->facts.who = (int)strlen(name);
}

const tn__error_mark *tn__error_argument(void)
{
    if (!stored())
        return NULL;
    const tn__error_facts *facts = &tn__me.error->facts;
    for (int m = 0; m < facts->mark_count; m++)
        if (facts->mark[m].is_at_fault)
            return &facts->mark[m];
    return facts->mark_count ? &facts->mark[0] : NULL;
}

void tn__error_rename(int m, const char *argument, int index)
{
    tn__error_mark *mark = &tn__me.error->facts.mark[m];
    char shown[sizeof mark->name + 16];
    snprintf(mark->name, sizeof mark->name, "%s", argument);
    mark->index = index;
    if (!mark->length)
        return;
    snprintf(shown, sizeof shown, index >= 0 ? "%s[%d]" : "%s", mark->name,
             index);
    replace(mark->at, mark->length, shown);
    mark->length = (short)strlen(shown);
}

void tn__error_reword(const char *format, ...)
{
    char words[TN__ERROR_BYTES];
    if (!stored())
        return;
    va_list args;
    va_start(args, format);
    write_words(words, &tn__me.error->facts, true, format, args);
    va_end(args);
    memcpy(tn__me.error->words, words, sizeof words);
}

/* ---- saving and restoring the pending error ------------------------------ */

void tn__error_take(tn__error *out)
{
    out->code = tn__me.pending;
    out->text[0] = 0;
    if (stored()) {
        memcpy(out->text, tn__me.error->words, sizeof tn__me.error->words);
        out->facts = tn__me.error->facts;
    } else if (tn__me.pending) {
        snprintf(out->text, sizeof out->text, "%s", plain_words());
        out->facts = (tn__error_facts){.odd = -1};
    }
    tn__me.pending = TN_OK;
}

void tn__error_put(const tn__error *from)
{
    tn__me.pending = from->code;
    if (!from->code)
        return;
    if (!tn__me.error)
        tn__context_alloc(&tn__me.error, sizeof *tn__me.error);
    if (tn__me.error) {
        memcpy(tn__me.error->words, from->text, sizeof tn__me.error->words);
        tn__me.error->facts = from->facts;
    }
    report();
}

void tn__error_hide(tn__error *before)
{
    tn__error_take(before);
    tn__handler_mute();
}

void tn__error_restore(const tn__error *before)
{
    tn__error_put(before);
    tn__handler_unmute();
}

/* ---- data ---------------------------------------------------------------- */

tn__error_facts *tn__error_within(const tn__running_op *running)
{
    return stored() && tn__me.error->facts.running == running
               ? &tn__me.error->facts
               : NULL;
}

static void show_tensor(int i)
{
    const struct tn__error_tensor *from = &tn__me.error->facts.tensor[i];
    tn_error_tensor *to = &tn__me.error->tensor[i];
    *to = (tn_error_tensor){.size = sizeof *to,
                            .argument = from->argument,
                            .index = from->index,
                            .dtype = from->dtype,
                            .ndim = from->ndim,
                            .device = from->device,
                            .made_by = from->made_by ? from->made_by : "",
                            .made_in = tn_path_text(from->made_in)};
    for (int d = 0; d < from->ndim; d++)
        to->shape[d] = from->shape[d];
    tn__me.error->list[i] = to;
}

/* Returns the details of an error for which no storage could be allocated. */
static const tn_error_details *plain_details(void)
{
    static const tn_error_details details[] = {
#define DETAILS_OF(name, value, text)                                         \
    {.size = sizeof(tn_error_details), .code = value, .message = text,        \
     .path = "", .odd = -1},
        TN_STATUS_MAP(DETAILS_OF)
#undef DETAILS_OF
    };
    size_t i = 0;
    while (i + 1 < sizeof details / sizeof *details &&
           details[i].code != tn__me.pending)
        i++;
    return &details[i];
}

const tn_error_details *tn_error_info(void)
{
    if (!tn__me.pending)
        return NULL;
    if (!stored())
        return plain_details();
    const tn__error_facts *facts = &tn__me.error->facts;
    const tn__error_mark *mark = tn__error_argument();
    bool own = !facts->op && mark; /* true if the failed function is not an
                                    * operator */
    if (own) {
        snprintf(tn__me.error->who, sizeof tn__me.error->who, "%.*s", facts->who,
                 tn__me.error->words);
        snprintf(tn__me.error->argument, sizeof tn__me.error->argument, "%s", mark->name);
    }
    tn__me.error->details = (tn_error_details){.size = sizeof tn__me.error->details,
                                       .code = tn__me.pending,
                                       .message = tn_error(),
                                       .path = tn_path_text(facts->path),
                                       .called = own ? tn__me.error->who
                                                     : facts->called,
                                       .op = own ? tn__me.error->who : facts->op,
                                       .argument = own ? tn__me.error->argument
                                                       : facts->argument,
                                       .tensor_count = facts->tensor_count,
                                       .tensor = tn__me.error->list,
                                       .odd = facts->odd,
                                       .has_index = facts->index.given != 0,
                                       .index = facts->index.value,
                                       .index_low = facts->index.low,
                                       .index_bound = facts->index.bound,
                                       .position_ndim = facts->index.ndim,
                                       .cause = facts->cause};
    memcpy(tn__me.error->details.position, facts->index.position,
           sizeof tn__me.error->details.position);
    for (int i = 0; i < facts->tensor_count; i++)
        show_tensor(i);
    return &tn__me.error->details;
}

const char *tn_status_name(tn_status code)
{
    switch (code) {
#define NAME_OF(name, value, text)                                            \
    case value:                                                               \
        return #name;
        TN_STATUS_MAP(NAME_OF)
#undef NAME_OF
    default:
        return "unknown";
    }
}
