/* encode.c: encodes a text, a pair of texts, or a batch of texts to ids. */
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

struct tn_encoding {
    tn_object object;
    int64_t count;
    int64_t *id, *type;
    int64_t (*offset)[2];
    uint8_t *special;
};

static void release(void *object)
{
    tn_encoding *e = object;
    free(e->id);
    free(e->type);
    free(e->offset);
    free(e->special);
}

static const tn_object_class encoding_class = {.size = sizeof encoding_class,
                                               .name = "encoding",
                                               .bytes = sizeof(tn_encoding),
                                               .release = release};

/* ---- one text ------------------------------------------------------------ */

/* Copies the text to the work's buffer. Bytes that are not valid UTF-8 are
 * replaced by U+FFFD. */
static bool take_text(tn__work *work, const char *text, size_t bytes)
{
    const unsigned char *from = (const unsigned char *)text;
    tn__buffer *out = &work->text;
    if (!tn__buffer_reserve(work, out, bytes))
        return false;
    for (size_t at = 0; at < bytes;) {
        const size_t begin = at;
        while (at < bytes && from[at] < 0x80)
            at++;
        if (at > begin) {
            if (!tn__buffer_reserve(work, out, at - begin))
                return false;
            memcpy(out->bytes + out->count, from + begin, at - begin);
            for (size_t i = begin; work->offsets && i < at; i++)
                out->origin[out->count + i - begin] =
                    (tn__origin){(uint32_t)i, (uint32_t)i + 1};
            out->count += at - begin;
            continue;
        }
        const int32_t c = tn__utf8_read(from, bytes, &at);
        const tn__origin origin = {(uint32_t)begin, (uint32_t)at};
        if (!(c >= 0 ? tn__buffer_add(work, out, from + begin, at - begin,
                                      origin)
                     : tn__buffer_add(work, out, "\xef\xbf\xbd", 3, origin)))
            return false;
    }
    return true;
}

static bool encode(const tn_tokenizer *t, tn__work *work, const char *text,
                size_t bytes, bool parse_special)
{
    work->offsets |= t->needs_origin;
    if (!tn__work_begin(work) || !take_text(work, text, bytes))
        return false;
    if (work->text.count &&
        !tn__pieces_add(&work->pieces, 0, work->text.count, -1))
        return false;
    if (!tn__added_split(t, work, &t->raw_trie, parse_special) ||
        !tn__steps_run(&t->normalizer, work) ||
        !tn__added_split(t, work, &t->normal_trie, parse_special) ||
        !tn__steps_run(&t->pretokenizer, work))
        return false;
    for (size_t i = 0; i < work->pieces.count; i++) {
        const tn__piece *piece = &work->pieces.piece[i];
        if (!(piece->id < 0
                  ? tn__model_run(&t->model, work, piece)
                  : tn__work_add_id(work, piece->id, piece->begin,
                                    piece->end)))
            return false;
    }
    return true;
}

/* Returns the length of the white space character at text[at], or 0 if there is
 * none. U+0120 counts because byte-level tokens use it for a space. The
 * post-processor ByteLevel excludes white space at the ends of a token from the
 * token's offsets. */
static size_t space_at(const tn_tokenizer *t, const unsigned char *text,
                       size_t at, size_t end)
{
    size_t next = at;
    const int32_t c = at < end ? tn__utf8_take(text, &next) : 'x';
    return c == 0x120 || tn__set_has(t->space_set, c) ? next - at : 0;
}

static void trim_offset(const tn_tokenizer *t, const tn__work *work, size_t i,
                        int64_t offset[2])
{
    const unsigned char *text = work->text.bytes;
    const tn__piece *span = &work->span[i];
    int64_t before = 0, after = 0;
    size_t at = span->begin, n;
    while ((n = space_at(t, text, at, span->end))) {
        before++;
        at += n;
    }
    for (at = span->end; at > span->begin; after++) {
        const size_t last = tn__utf8_before(text, at);
        if (!space_at(t, text, last, at))
            break;
        at = last;
    }
    if (before == 1 && t->trim_prefix_space && (i == 0 || offset[0] == 0))
        before = 0;
    if (before)
        offset[0] = offset[0] + before < offset[1] ? offset[0] + before
                                                   : offset[1];
    if (after && offset[1] >= after)
        offset[1] = offset[1] - after > offset[0] ? offset[1] - after
                                                  : offset[0];
}

static void span_offset(const tn_tokenizer *t, const tn__work *work, size_t i,
                        int64_t offset[2])
{
    const tn__piece *span = &work->span[i];
    if (span->begin == span->end || !work->offsets) {
        offset[0] = offset[1] = 0;
        return;
    }
    offset[0] = work->text.origin[span->begin].from;
    offset[1] = work->text.origin[span->end - 1].to;
    if (t->trim_offsets)
        trim_offset(t, work, i, offset);
}

/* Truncates a pair to `most` ids, including the special ones: sets count[] to
 * the number of ids of each text that remain. The longer text is truncated
 * first, as by "longest_first" of Hugging Face's tokenizers. */
static void cut(const tn__template *template, size_t count[2], int64_t most)
{
    int64_t special = 0;
    for (size_t i = 0; i < template->count; i++)
        special += template->item[i].id >= 0;
    int64_t left = most > special ? most - special : 0;
    if ((int64_t)(count[0] + count[1]) <= left)
        return;
    const size_t room = (size_t)left;
    const size_t less = count[0] < count[1] ? count[0] : count[1];
    const int longer = count[1] > count[0];
    if (2 * less >= room) {
        count[0] = room - room / 2;
        count[1] = room / 2;
        if (longer) {
            count[0] = room / 2;
            count[1] = room - room / 2;
        }
    } else {
        count[longer] = room - less;
    }
}

static const tn__template plain_single = {
    (tn__template_item[]){{-1, 0}}, 1};
static const tn__template plain_pair = {
    (tn__template_item[]){{-1, 0}, {-2, 1}}, 2};

static tn_encoding *encoding_new(const tn_tokenizer *t, const tn__work work[2],
                                 bool pair, bool special, int64_t most)
{
    const tn__template *template = special ? (pair ? &t->pair : &t->single)
                                           : (pair ? &plain_pair
                                                   : &plain_single);
    size_t used[2] = {work[0].id_count, pair ? work[1].id_count : 0};
    if (most != TN_NONE_INT)
        cut(template, used, most);
    size_t count = 0;
    for (size_t i = 0; i < template->count; i++)
        count += template->item[i].id >= 0 ? 1
                                           : used[-1 - template->item[i].id];
    tn_encoding *e = tn_object_new(&encoding_class, 0);
    if (!e)
        return NULL;
    e->id = malloc((count + 1) * sizeof *e->id);
    e->type = malloc((count + 1) * sizeof *e->type);
    e->offset = malloc((count + 1) * sizeof *e->offset);
    e->special = malloc(count + 1);
    if (!e->id || !e->type || !e->offset || !e->special) {
        tn_error_set(TN_ERR_MEMORY, "tokenizer_encode: out of memory for %zu "
                     "ids", count);
        return NULL;
    }
    size_t n = 0;
    for (size_t i = 0; i < template->count; i++) {
        const tn__template_item *item = &template->item[i];
        if (item->id >= 0) {
            e->id[n] = item->id;
            e->type[n] = item->type;
            e->offset[n][0] = e->offset[n][1] = 0;
            e->special[n++] = 1;
            continue;
        }
        const tn__work *w = &work[-1 - item->id];
        for (size_t k = 0; k < used[-1 - item->id]; k++) {
            e->id[n] = w->id[k];
            e->type[n] = item->type;
            span_offset(t, w, k, e->offset[n]);
            e->special[n++] = 0;
        }
    }
    e->count = (int64_t)n;
    return e;
}

TN_OPTIONS_TYPE(tn_tokenizer_encode, "tokenizer_encode", "tokenizer, text",
                TN_TOKENIZER_ENCODE_OPTIONS_LIST)
tn_encoding *
tn_tokenizer_encode_with(tn_tokenizer *tokenizer, const char *text,
                         const tn_tokenizer_encode_options *options)
{
    tn_tokenizer_encode_options o;
    if (!tn_object_check(tokenizer, &tn__tokenizer_class, "tokenizer_encode",
                         "tokenizer") ||
        tn_options_take(tn_tokenizer_encode_type(), &o, options) < 0)
        return NULL;
    if (!text && o.bytes != 0) {
        tn_error_set(TN_ERR_ARGUMENT, "tokenizer_encode: text is NULL");
        return NULL;
    }
    if (o.bytes != TN_NONE_INT && o.bytes < 0) {
        tn_error_set(TN_ERR_ARGUMENT, "tokenizer_encode: .bytes is %lld, "
                     "below 0", (long long)o.bytes);
        return NULL;
    }
    if (o.max_count != TN_NONE_INT && o.max_count < 0) {
        tn_error_set(TN_ERR_ARGUMENT, "tokenizer_encode: .max_count is %lld, "
                     "below 0", (long long)o.max_count);
        return NULL;
    }
    const size_t bytes =
        o.bytes == TN_NONE_INT ? strlen(text) : (size_t)o.bytes;
    tn__work work[2] = {{.offsets = true}, {.offsets = true}};
    tn_scope *scope = tn_scope_open();
    tn_encoding *e = NULL;
    if (scope &&
        encode(tokenizer, &work[0], text, bytes, o.parse_special) &&
        (!o.pair || encode(tokenizer, &work[1], o.pair, strlen(o.pair),
                               o.parse_special)))
        e = encoding_new(tokenizer, work, o.pair != NULL, o.special,
                         o.max_count);
    tn__work_free(&work[0]);
    tn__work_free(&work[1]);
    return tn_scope_result(scope, e);
}

int64_t tn_encoding_count(const tn_encoding *encoding)
{
    return tn_object_is(encoding, &encoding_class) ? encoding->count : 0;
}

const int64_t *tn_encoding_ids(const tn_encoding *encoding)
{
    return tn_object_is(encoding, &encoding_class) ? encoding->id : NULL;
}

const int64_t *tn_encoding_offsets(const tn_encoding *encoding)
{
    return tn_object_is(encoding, &encoding_class) ? encoding->offset[0]
                                                   : NULL;
}

const int64_t *tn_encoding_types(const tn_encoding *encoding)
{
    return tn_object_is(encoding, &encoding_class) ? encoding->type : NULL;
}

const uint8_t *tn_encoding_special(const tn_encoding *encoding)
{
    return tn_object_is(encoding, &encoding_class) ? encoding->special : NULL;
}

/* Copies the encodings to the rows of ids, with padding, and sets mask to 1 for
 * ids and 0 for padding. */
static void fill_batch(const tn_tokenizer *t, tn_encoding *const *row,
                       int64_t count, int64_t longest, int64_t *ids,
                       int64_t *mask)
{
    const int64_t pad = t->role[TN__PAD] >= 0 ? t->role[TN__PAD] : t->pad_id;
    for (int64_t i = 0; i < count; i++) {
        const int64_t n = row[i]->count;
        const int64_t begin = t->pad_left ? longest - n : 0;
        for (int64_t k = 0; k < longest; k++) {
            const bool real = k >= begin && k < begin + n;
            ids[i * longest + k] = real ? row[i]->id[k - begin] : pad;
            mask[i * longest + k] = real;
        }
    }
}

TN_OPTIONS_TYPE(tn_tokenizer_batch, "tokenizer_batch",
                "tokenizer, texts, count", TN_TOKENIZER_BATCH_OPTIONS_LIST)
tn_tensor *
tn_tokenizer_batch_with(tn_tokenizer *tokenizer, const char *const *texts,
                        int64_t count,
                        const tn_tokenizer_batch_options *options)
{
    tn_tokenizer_batch_options o;
    if (!tn_object_check(tokenizer, &tn__tokenizer_class, "tokenizer_batch",
                         "tokenizer") ||
        tn_options_take(tn_tokenizer_batch_type(), &o, options) < 0)
        return NULL;
    if (count < 1 || !texts || count > INT32_MAX) {
        tn_error_set(TN_ERR_ARGUMENT, texts ? "tokenizer_batch: count is %lld:"
                     " it must be from 1 to 2147483647"
                                            : "tokenizer_batch: texts is NULL",
                     (long long)count);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_encoding **row = calloc((size_t)count, sizeof *row);
    tn_tensor *ids = NULL, *mask = NULL;
    int64_t *buffer = NULL, longest = 0;
    bool good = scope && row;
    for (int64_t i = 0; good && i < count; i++) {
        if (!texts[i]) {
            tn_error_set(TN_ERR_ARGUMENT, "tokenizer_batch: texts[%lld] is "
                         "NULL", (long long)i);
            good = false;
            break;
        }
        row[i] = tn_tokenizer_encode(tokenizer, texts[i], .special = o.special,
                                     .parse_special = o.parse_special,
                                     .max_count = o.max_count);
        good = row[i] != NULL;
        if (good && row[i]->count > longest)
            longest = row[i]->count;
    }
    if (good) {
        const size_t numel = (size_t)count * (size_t)longest;
        buffer = malloc((2 * numel + 1) * sizeof *buffer);
        if (buffer) {
            fill_batch(tokenizer, row, count, longest, buffer,
                       buffer + numel);
            ids = tn_tensor_from_array(buffer, TN_I64,
                                       tn_dims(count, longest));
            mask = o.out_mask
                       ? tn_tensor_from_array(buffer + numel, TN_I64,
                                              tn_dims(count, longest))
                       : NULL;
        }
    }
    if (good && !buffer)
        tn_error_set(TN_ERR_MEMORY, "tokenizer_batch: out of memory for %lld "
                     "ids", (long long)(count * longest));
    else if (!row)
        tn_error_set(TN_ERR_MEMORY, "tokenizer_batch: out of memory for %lld "
                     "texts", (long long)count);
    free(buffer);
    free(row);
    if (!ids || (o.out_mask && !mask)) {
        tn_scope_close(scope);
        return NULL;
    }
    tn_keep(mask);
    tn_scope_result(scope, ids);
    if (mask)
        *o.out_mask = tn_scope_adopt(mask);
    return ids;
}
