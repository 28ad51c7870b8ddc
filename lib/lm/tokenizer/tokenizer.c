/* tokenizer.c: opens a tokenizer from a file or a folder, and looks up tokens
 * of its vocabulary. */
#include <lm/tokenizer/pipeline.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void release(void *object)
{
    tn_tokenizer *t = object;
    tn__cache_free(t->model.cache);
    tn__own_free(&t->arena);
    free(t->file);
}

const tn_object_class tn__tokenizer_class = {
    .size = sizeof tn__tokenizer_class,
    .name = "tokenizer",
    .bytes = sizeof(tn_tokenizer),
    .release = release};

/* ---- files --------------------------------------------------------------- */

/* Reads a file to memory from malloc, which has room for one more byte. If the
 * file does not exist and `optional` is true, returns NULL without an error. */
static char *read_file(const char *path, bool optional, size_t *bytes)
{
    /* O_NONBLOCK: opening a FIFO must not wait */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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
                                            : "is not a regular file");
        goto end;
    }
    const size_t size = (size_t)about.st_size;
    text = tn__take_large(size + 1);
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
    tn_tokenizer *t = scope ? tn_object_new(&tn__tokenizer_class, 0) : NULL;
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

/* ---- the vocabulary ------------------------------------------------------ */

/* Returns the tokenizer, or NULL if the argument is none. */
static const tn_tokenizer *known(const tn_tokenizer *tokenizer)
{
    return tn_object_is(tokenizer, &tn__tokenizer_class) ? tokenizer : NULL;
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
