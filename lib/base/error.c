/* error.c: the first failure of each thread, in words and as data.
 *
 * Both lie in thread-local memory, so that recording "out of memory" allocates
 * nothing. The words and the path are kept apart: code that words a failure
 * anew must not tell the path twice. */
#include <base/error.h>
#include <base/platform.h>

#include <stdio.h>
#include <string.h>

/* Read by every operator that may leave an argument out. */
static TN__HOT_TLS tn_status pending;

static _Thread_local struct {
    char words[TN__ERROR_BYTES];
    tn__error_facts facts;
    char message[TN__ERROR_BYTES + 512]; /* path and words, when asked for */
    tn_error_details details;            /* the same */
    tn_error_tensor tensor[TN_ERROR_TENSORS];
    const tn_error_tensor *list[TN_ERROR_TENSORS];
} error;

/* ---- words ------------------------------------------------------------------ */

const char *tn_error(void)
{
    if (!pending)
        return NULL;
    const char *path = tn_path_text(error.facts.path);
    snprintf(error.message, sizeof error.message, "%s%s%s", path,
             *path ? ": " : "", error.words);
    return error.message;
}

tn_status tn_error_code(void)
{
    return pending;
}

void tn_error_clear(void)
{
    pending = TN_OK;
}

bool tn__error_pending(void)
{
    return pending != TN_OK;
}

const char *tn__error_words(void)
{
    return pending ? error.words : "";
}

/* A text may quote what a user wrote; a message is one line. */
static void one_line(char *text)
{
    for (; *text; text++)
        if (*text == '\n' || *text == '\r')
            *text = ' ';
}

tn_status tn__fail_va(tn_status code, const char *format, va_list args)
{
    if (pending)
        return code;
    int length = vsnprintf(error.words, sizeof error.words, format, args);
    if (length < 0)
        snprintf(error.words, sizeof error.words, "%s", tn_status_name(code));
    else if ((size_t)length >= sizeof error.words)
        memcpy(error.words + sizeof error.words - 4, "...", 4);
    one_line(error.words);
    memset(&error.facts, 0, sizeof error.facts);
    error.facts.doing = tn__here.doing;
    error.facts.path = tn__here.path;
    error.facts.odd = -1;
    pending = code ? code : TN_ERR_INTERNAL;
    return code;
}

tn_status tn__fail(tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tn__fail_va(code, format, args);
    va_end(args);
    return code;
}

void *tn__fail_null(tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tn__fail_va(code, format, args);
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

tn_status tn__fail_outside(tn__error_index index, const char *format, ...)
{
    bool first = !pending;
    va_list args;
    va_start(args, format);
    tn__fail_va(TN_ERR_INDEX, format, args);
    va_end(args);
    if (first)
        error.facts.index = index;
    return TN_ERR_INDEX;
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

bool tn__error_speaks_of(const char *name)
{
    size_t length = strlen(name);
    return pending && strncmp(error.words, name, length) == 0 &&
           error.words[length] == ':';
}

void tn__error_put_before(const char *format, ...)
{
    char front[256];
    if (!pending)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(front, sizeof front - 2, format, args);
    va_end(args);
    strcat(front, ": ");
    one_line(front);
    size_t more = strlen(front), length = strlen(error.words) + 1;
    if (length + more > sizeof error.words) {
        length = sizeof error.words - more;
        memcpy(error.words + length - 4, "...", 4);
    }
    memmove(error.words + more, error.words, length);
    memcpy(error.words, front, more);
}

void tn__error_reword(const char *format, ...)
{
    char words[TN__ERROR_BYTES];
    if (!pending)
        return;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(words, sizeof words, format, args);
    va_end(args);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof words)
        memcpy(words + sizeof words - 4, "...", 4);
    one_line(words);
    memcpy(error.words, words, sizeof words);
}

/* ---- set aside -------------------------------------------------------------- */

void tn__error_take(tn__error *out)
{
    out->code = pending;
    out->text[0] = 0;
    if (pending) {
        memcpy(out->text, error.words, sizeof error.words);
        out->facts = error.facts;
    }
    pending = TN_OK;
}

void tn__error_put(const tn__error *from)
{
    pending = from->code;
    if (pending) {
        memcpy(error.words, from->text, sizeof error.words);
        error.facts = from->facts;
    }
}

/* ---- data ------------------------------------------------------------------- */

tn__error_facts *tn__error_within(const tn__doing *doing)
{
    return pending && error.facts.doing == doing ? &error.facts : NULL;
}

static void show_tensor(int i)
{
    const struct tn__error_tensor *from = &error.facts.tensor[i];
    tn_error_tensor *to = &error.tensor[i];
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
    error.list[i] = to;
}

const tn_error_details *tn_error_info(void)
{
    if (!pending)
        return NULL;
    const tn__error_facts *facts = &error.facts;
    error.details = (tn_error_details){.size = sizeof error.details,
                                       .code = pending,
                                       .message = tn_error(),
                                       .path = tn_path_text(facts->path),
                                       .called = facts->called,
                                       .op = facts->op,
                                       .argument = facts->argument,
                                       .tensor_count = facts->tensor_count,
                                       .tensor = error.list,
                                       .odd = facts->odd,
                                       .has_index = facts->index.given != 0,
                                       .index = facts->index.value,
                                       .index_low = facts->index.low,
                                       .index_bound = facts->index.bound,
                                       .position_ndim = facts->index.ndim,
                                       .cause = facts->cause};
    memcpy(error.details.position, facts->index.position,
           sizeof error.details.position);
    for (int i = 0; i < facts->tensor_count; i++)
        show_tensor(i);
    return &error.details;
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
