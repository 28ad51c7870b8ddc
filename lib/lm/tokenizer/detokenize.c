/* detokenize.c: converts ids to text, all at once or one id after another.
 * decode.c has the decoders that a tokenizer consists of. */
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>

/* ---- all at once --------------------------------------------------------- */

static const tn_object_class text_class = {.size = sizeof text_class,
                                           .name = "decoded text",
                                           .bytes = sizeof(tn_object)};

TN_OPTIONS_TYPE(tn_tokenizer_decode, "tokenizer_decode",
                "tokenizer, ids, count", TN_TOKENIZER_DECODE_OPTIONS_LIST)
const char *
tn_tokenizer_decode_with(tn_tokenizer *tokenizer, const int64_t *ids,
                         int64_t count,
                         const tn_tokenizer_decode_options *options)
{
    tn_tokenizer_decode_options o;
    if (!tn_object_check(tokenizer, &tn__tokenizer_class, "tokenizer_decode",
                         "tokenizer") ||
        tn_options_take(tn_tokenizer_decode_type(), &o, options) < 0)
        return NULL;
    if (count < 0 || (!ids && count)) {
        tn_error_set(TN_ERR_ARGUMENT, count < 0
                                          ? "tokenizer_decode: count is %lld, "
                                            "below 0"
                                          : "tokenizer_decode: ids is NULL",
                     (long long)count);
        return NULL;
    }
    tn__work work = {0};
    char *text = NULL;
    if (tn__decode(tokenizer, &work, ids, (size_t)count, o.special)) {
        tn_object *object = tn_object_new(&text_class, work.text.count + 1);
        if (object) {
            text = (char *)(object + 1);
            if (work.text.count)
                memcpy(text, work.text.bytes, work.text.count);
            text[work.text.count] = '\0';
            if (o.out_bytes)
                *o.out_bytes = (int64_t)work.text.count;
        }
    }
    tn__work_free(&work);
    return text;
}

/* ---- one id after another ------------------------------------------------ */

struct tn_detokenizer {
    tn_object object;
    tn_tokenizer *tokenizer; /* kept */
    bool special;
    tn__work work;
    /* The ids whose text is not yet complete. They follow an id whose text was
     * complete, because the text of a token can depend on whether it is the
     * first. */
    int64_t *id;
    size_t count, room;
    size_t shown;   /* bytes of their decoded text that have been returned */
    int64_t first;  /* an id whose text is complete by itself */
    size_t first_bytes; /* length of its text; 0: no such id so far */
    char *text;     /* the last text returned */
    size_t text_room;
};

static void release(void *object)
{
    tn_detokenizer *d = object;
    tn__work_free(&d->work);
    free(d->id);
    free(d->text);
    tn_drop(d->tokenizer);
}

static const tn_object_class detokenizer_class = {
    .size = sizeof detokenizer_class,
    .name = "detokenizer",
    .bytes = sizeof(tn_detokenizer),
    .release = release};

TN_OPTIONS_TYPE(tn_detokenizer_new, "detokenizer_new", "tokenizer",
                TN_DETOKENIZER_NEW_OPTIONS_LIST)
tn_detokenizer *
tn_detokenizer_new_with(tn_tokenizer *tokenizer,
                        const tn_detokenizer_new_options *options)
{
    tn_detokenizer_new_options o;
    if (!tn_object_check(tokenizer, &tn__tokenizer_class, "detokenizer_new",
                         "tokenizer") ||
        tn_options_take(tn_detokenizer_new_type(), &o, options) < 0)
        return NULL;
    tn_detokenizer *d = tn_object_new(&detokenizer_class, 0);
    if (d) {
        d->tokenizer = tn_keep(tokenizer);
        d->special = o.special;
        /* Regular expressions need valid UTF-8, so with one in the decoder the
         * invalid bytes become U+FFFD. A U+FFFD at the end then means an
         * incomplete character. */
        d->work.raw = !tokenizer->decoder_has_regex;
    }
    return d;
}

/* Returns the length of the text without an incomplete character at its end. */
static size_t complete_bytes(const unsigned char *text, size_t count)
{
    size_t at = count;
    for (int i = 0; i < 4 && at; i++)
        if ((text[--at] & 0xc0) != 0x80)
            break;
    if (at == count || text[at] < 0xc2 || text[at] > 0xf4 ||
        at + tn__utf8_length(text[at]) <= count)
        return count;
    size_t next = at; /* is the last character incomplete, or invalid? */
    return tn__utf8_read(text, count, &next) < 0 && next < count ? count : at;
}

/* Returns text[from, to), in which bytes that are not valid UTF-8 are replaced
 * by U+FFFD. */
static const char *show(tn_detokenizer *d, size_t from, size_t to)
{
    const unsigned char *text = d->work.text.bytes;
    size_t n = 0;
    if (!tn__array_grow(&d->text, &d->text_room, (to - from) * 3 + 1, 1))
        return NULL;
    for (size_t at = from; at < to;) {
        const int32_t c = tn__utf8_read(text, to, &at);
        n += tn__utf8_write((unsigned char *)d->text + n,
                            c < 0 ? 0xfffd : c);
    }
    d->text[n] = '\0';
    return d->text;
}

/* Called when the text of all ids is complete: discards the ids, so that the
 * next call need not decode them again (long texts would take quadratic time).
 * Keeps one id that has a text of its own, so that the next id is not the
 * first. */
static bool anchor(tn_detokenizer *d, int64_t id)
{
    if (!tn__decode(d->tokenizer, &d->work, &id, 1, d->special))
        return false;
    const unsigned char *text = d->work.text.bytes;
    const size_t count = d->work.text.count;
    bool valid = count > 0;
    for (size_t at = 0; valid && at < count;)
        valid = tn__utf8_read(text, count, &at) >= 0;
    if (valid) {
        d->first = id;
        d->first_bytes = count;
    }
    if (d->first_bytes) {
        d->id[0] = d->first;
        d->count = 1;
        d->shown = d->first_bytes;
    }
    return true;
}

const char *tn_detokenizer_add(tn_detokenizer *detokenizer, int64_t id)
{
    if (!tn_object_check(detokenizer, &detokenizer_class, "detokenizer_add",
                         "detokenizer"))
        return NULL;
    tn_detokenizer *d = detokenizer;
    if (!tn__array_grow(&d->id, &d->room, d->count + 1, sizeof *d->id))
        return NULL;
    d->id[d->count++] = id;
    if (!tn__decode(d->tokenizer, &d->work, d->id, d->count, d->special)) {
        d->count--;
        return NULL;
    }
    const unsigned char *text = d->work.text.bytes;
    const size_t all = d->work.text.count;
    size_t end = complete_bytes(text, all);
    if (!d->work.raw && all >= 3 && memcmp(text + all - 3, "\xef\xbf\xbd",
                                           3) == 0)
        end = d->shown;
    if (end <= d->shown)
        end = d->shown < all ? d->shown : all;
    const char *shown = show(d, d->shown < end ? d->shown : end, end);
    if (!shown)
        return NULL;
    d->shown = end;
    if (end == all && !anchor(d, id))
        return NULL;
    return shown;
}

const char *tn_detokenizer_end(tn_detokenizer *detokenizer)
{
    if (!tn_object_check(detokenizer, &detokenizer_class, "detokenizer_end",
                         "detokenizer"))
        return NULL;
    tn_detokenizer *d = detokenizer;
    if (!tn__decode(d->tokenizer, &d->work, d->id, d->count, d->special))
        return NULL;
    const size_t all = d->work.text.count;
    const char *shown = show(d, d->shown < all ? d->shown : all, all);
    d->count = d->shown = d->first_bytes = 0;
    return shown;
}
