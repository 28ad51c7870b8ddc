/* tokenizer.c: the functions of <tenon/tokenizer.h>. */
#include <lm/tokenizer/pipeline.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/ops.h>
#include <unistd.h>

/* ---- objects ------------------------------------------------------------- */

struct tn_encoding {
    tn_object object;
    int64_t count;
    int64_t *id, *type;
    int64_t (*offset)[2];
    uint8_t *special;
};

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

static void tokenizer_release(void *object)
{
    tn_tokenizer *t = object;
    tn__cache_free(t->model.cache);
    tn__own_free(&t->arena);
    free(t->file);
}

static void encoding_release(void *object)
{
    tn_encoding *e = object;
    free(e->id);
    free(e->type);
    free(e->offset);
    free(e->special);
}

static void detokenizer_release(void *object)
{
    tn_detokenizer *d = object;
    tn__work_free(&d->work);
    free(d->id);
    free(d->text);
    tn_drop(d->tokenizer);
}

static const tn_object_class tokenizer_class = {.size = sizeof tokenizer_class,
                                                .name = "tokenizer",
                                                .bytes = sizeof(tn_tokenizer),
                                                .release = tokenizer_release};
static const tn_object_class encoding_class = {.size = sizeof encoding_class,
                                               .name = "encoding",
                                               .bytes = sizeof(tn_encoding),
                                               .release = encoding_release};
static const tn_object_class detokenizer_class = {
    .size = sizeof detokenizer_class,
    .name = "detokenizer",
    .bytes = sizeof(tn_detokenizer),
    .release = detokenizer_release};
static const tn_object_class text_class = {.size = sizeof text_class,
                                           .name = "decoded text",
                                           .bytes = sizeof(tn_object)};

/* ---- files --------------------------------------------------------------- */

/* Reads a file to memory from malloc, which has room for one more byte. If the
 * file does not exist and `optional` is true, returns NULL without an error. */
static char *read_file(const char *path, bool optional, size_t *bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    char *text = NULL;
    if (fd < 0 || fstat(fd, &about) < 0) {
        if (!optional || errno != ENOENT)
            tn_error_set(TN_ERR_IO, "tokenizer_open: %s: %s", path,
                         strerror(errno));
        goto end;
    }
    if (!S_ISREG(about.st_mode) || about.st_size >= (1 << 30)) {
        tn_error_set(TN_ERR_IO, "tokenizer_open: %s: %s", path,
                     S_ISREG(about.st_mode) ? "the file is larger than 1 GiB"
                                            : "is no regular file");
        goto end;
    }
    const size_t size = (size_t)about.st_size;
    text = malloc(size + 1);
    if (!text) {
        tn_error_set(TN_ERR_MEMORY, "tokenizer_open: %s: %zu bytes of memory "
                     "are not available", path, size + 1);
        goto end;
    }
    size_t done = 0;
    while (done < size) {
        const ssize_t n = read(fd, text + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            tn_error_set(TN_ERR_IO, "tokenizer_open: %s: %s", path,
                         n < 0 ? strerror(errno) : "the file became shorter");
            free(text);
            text = NULL;
            goto end;
        }
        done += (size_t)n;
    }
    text[size] = '\0';
    *bytes = size;
end:
    if (fd >= 0)
        close(fd);
    return text;
}

static bool ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), k = strlen(end);
    return n >= k && strcmp(path + n - k, end) == 0;
}

static const char *const role_name[] = {"bos", "eos", "pad", "unk",
                                        "sep", "cls", "mask"};

/* Reads the special tokens and the chat template from a JSON file in the same
 * folder as tokenizer.json. A token is written "bos_token": "<s>" or
 * {"content": "<s>"}. */
static bool read_config(tn_tokenizer *t, const char *path)
{
    size_t bytes = 0;
    char *text = read_file(path, true, &bytes);
    if (!text)
        return !tn_error();
    tn__json json = {.take = malloc, .give = free};
    const tn__json_value *root = tn__json_read(&json, text, bytes);
    bool good = root != NULL;
    if (!good)
        tn_error_set(*json.error ? TN_ERR_FORMAT : TN_ERR_MEMORY,
                     "tokenizer_open: %s: line %zu, column %zu: %s", path,
                     json.line, json.column,
                     *json.error ? json.error : "out of memory");
    for (int i = 0; good && i < TN__ROLE_COUNT; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s_token", role_name[i]);
        const tn__json_value *v = tn__json_get(root, name);
        const char *token = tn__json_text(
            tn__json_is(v, TN__JSON_OBJECT) ? tn__json_get(v, "content") : v);
        if (token && t->role[i] < 0)
            t->role[i] = (int32_t)tn_tokenizer_id(t, token);
    }
    const tn__json_value *chat = good ? tn__json_get(root, "chat_template")
                                      : NULL;
    if (tn__json_is(chat, TN__JSON_LIST)) { /* several by name */
        const tn__json_value *list = chat;
        chat = NULL;
        TN__JSON_EACH(v, list)
        {
            const char *name = tn__json_text(tn__json_get(v, "name"));
            if (name && strcmp(name, "default") == 0)
                chat = tn__json_get(v, "template");
        }
    }
    if (good && !t->chat_template && tn__json_text(chat))
        good = (t->chat_template = tn__own_text(&t->arena, chat->text,
                                                  chat->bytes)) != NULL;
    tn__json_free(&json);
    free(text);
    return good;
}

/* Reads the optional files in the folder of tokenizer.json. */
static bool read_beside(tn_tokenizer *t, const char *folder)
{
    char path[4200];
    size_t bytes = 0;
    static const char *const name[] = {"tokenizer_config.json",
                                       "special_tokens_map.json"};
    if (snprintf(path, sizeof path, "%s/chat_template.jinja", folder) >=
        (int)sizeof path)
        return tn_error_set(TN_ERR_ARGUMENT, "tokenizer_open: the path is "
                            "too long"), false;
    char *text = read_file(path, true, &bytes);
    if (text) {
        t->chat_template = tn__own_text(&t->arena, text, bytes);
        free(text);
    }
    if (tn_error())
        return false;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, name[i]);
        if (!read_config(t, path))
            return false;
    }
    return true;
}

static bool open_json(tn_tokenizer *t, tn__reader *reader, bool folder)
{
    char path[4096];
    size_t bytes = 0;
    if (snprintf(path, sizeof path, "%s%s", t->path,
                 folder ? "/tokenizer.json" : "") >= (int)sizeof path)
        return tn_error_set(TN_ERR_ARGUMENT, "tokenizer_open: the path is "
                            "too long"), false;
    reader->path = path;
    char *text = read_file(path, false, &bytes);
    t->file = text;
    if (!text || !tn__open_json(t, reader, text, bytes))
        return false;
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return read_beside(t, slash ? path : ".");
}

TN_OPTIONS_TYPE(tn_tokenizer_open, "tokenizer_open", "path",
                TN_TOKENIZER_OPEN_OPTIONS_LIST)
tn_tokenizer *tn_tokenizer_open_with(const char *path,
                                     const tn_tokenizer_open_options *options)
{
    tn_tokenizer_open_options o;
    if (tn_options_take(tn_tokenizer_open_type(), &o, options) < 0)
        return NULL;
    if (!path) {
        tn_error_set(TN_ERR_ARGUMENT, "tokenizer_open: path is NULL");
        return NULL;
    }
    struct stat about;
    if (stat(path, &about) < 0) {
        tn_error_set(TN_ERR_IO, "tokenizer_open: %s: %s", path,
                     strerror(errno));
        return NULL;
    }
    if (tn_error_code() != TN_OK)
        return NULL;
    const bool folder = S_ISDIR(about.st_mode);
    const bool json = folder || ends_in(path, ".json");
    const bool gguf = !json && ends_in(path, ".gguf");
    const tn_option_need need[] = {
        {"pattern", !json && !gguf, "for a file that has one",
         "open a tiktoken file"}};
    if (tn_options_check_needs(tn_tokenizer_open_type(), &o, need, 1) < 0)
        return NULL;
    tn_scope *scope = tn_scope_open();
    tn_tokenizer *t = scope ? tn_object_new(&tokenizer_class, 0) : NULL;
    if (!t) {
        tn_scope_close(scope);
        return NULL;
    }
    t->most_ids = INT64_MAX;
    t->model.unk = -1;
    for (int i = 0; i < TN__ROLE_COUNT; i++)
        t->role[i] = -1;
    tn__reader reader = {.arena = &t->arena, .path = path};
    t->path = tn__own_text(&t->arena, path, strlen(path));
    bool good = t->path != NULL;
    if (good && json) {
        good = open_json(t, &reader, folder);
    } else if (good && gguf) {
        good = tn__open_gguf(t, &reader);
    } else if (good) {
        size_t bytes = 0;
        char *text = read_file(path, false, &bytes);
        t->file = text;
        good = text &&
               tn__open_tiktoken(t, &reader, text, bytes, o.pattern);
    }
    return tn_scope_result(scope, good ? t : NULL);
}

/* ---- encoding ------------------------------------------------------------ */

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
    if (!tn_object_check(tokenizer, &tokenizer_class, "tokenizer_encode",
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
    if (!tn_object_check(tokenizer, &tokenizer_class, "tokenizer_batch",
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

/* ---- decoding ------------------------------------------------------------ */

TN_OPTIONS_TYPE(tn_tokenizer_decode, "tokenizer_decode",
                "tokenizer, ids, count", TN_TOKENIZER_DECODE_OPTIONS_LIST)
const char *
tn_tokenizer_decode_with(tn_tokenizer *tokenizer, const int64_t *ids,
                         int64_t count,
                         const tn_tokenizer_decode_options *options)
{
    tn_tokenizer_decode_options o;
    if (!tn_object_check(tokenizer, &tokenizer_class, "tokenizer_decode",
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

TN_OPTIONS_TYPE(tn_detokenizer_new, "detokenizer_new", "tokenizer",
                TN_DETOKENIZER_NEW_OPTIONS_LIST)
tn_detokenizer *
tn_detokenizer_new_with(tn_tokenizer *tokenizer,
                        const tn_detokenizer_new_options *options)
{
    tn_detokenizer_new_options o;
    if (!tn_object_check(tokenizer, &tokenizer_class, "detokenizer_new",
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

/* ---- the vocabulary ------------------------------------------------------ */

static const tn_tokenizer *known(const tn_tokenizer *tokenizer)
{
    return tn_object_is(tokenizer, &tokenizer_class) ? tokenizer : NULL;
}

int64_t tn_tokenizer_vocab_size(const tn_tokenizer *tokenizer)
{
    return known(tokenizer) ? tokenizer->id_end : 0;
}

int64_t tn_tokenizer_id(const tn_tokenizer *tokenizer, const char *token)
{
    const tn_tokenizer *t = known(tokenizer);
    if (!t || !token)
        return -1;
    const size_t bytes = strlen(token);
    const int32_t added = tn__vocab_find(&t->added_vocab, token, bytes);
    return added >= 0 ? t->added[added].id
                      : tn__vocab_find(&t->model.vocab, token, bytes);
}

const char *tn_tokenizer_token(const tn_tokenizer *tokenizer, int64_t id,
                               int64_t *out_bytes)
{
    const tn_tokenizer *t = known(tokenizer);
    if (!t || id < 0 || id >= t->id_end)
        return NULL;
    const tn__added *a = t->added_of[id] >= 0 ? &t->added[t->added_of[id]]
                                              : NULL;
    const tn__token *m =
        id < t->model.vocab.id_end ? &t->model.vocab.token[id] : NULL;
    if (!a && !(m && m->text))
        return NULL;
    if (out_bytes)
        *out_bytes = (int64_t)(a ? a->content_bytes : m->bytes);
    return a ? a->content : m->text;
}

bool tn_tokenizer_is_special(const tn_tokenizer *tokenizer, int64_t id)
{
    const tn_tokenizer *t = known(tokenizer);
    return t && id >= 0 && id < t->id_end && t->added_of[id] >= 0 &&
           t->added[t->added_of[id]].special;
}

int64_t tn_tokenizer_special_id(const tn_tokenizer *tokenizer,
                                const char *role)
{
    const tn_tokenizer *t = known(tokenizer);
    for (int i = 0; t && role && i < TN__ROLE_COUNT; i++)
        if (strcmp(role, role_name[i]) == 0)
            return t->role[i];
    return -1;
}

const char *tn_tokenizer_chat_template(const tn_tokenizer *tokenizer)
{
    return known(tokenizer) ? tokenizer->chat_template : NULL;
}
