/* tokens.c: compares tokenizers with the results of the original libraries.
 *
 *     tests/lm/tokens [--zoo FOLDER] FOLDER...
 *
 * A folder holds cases of two forms:
 *   texts.json   a list of texts, and for each tokenizer a file <name>.json with
 *                "source", "ids", "decoded" and perhaps "offsets". The tokenizer
 *                at the path "source", in the folder or in the --zoo folder,
 *                must give these ids for the texts, without special tokens, and
 *                these texts for the ids, also when it decodes the ids one after
 *                another.
 *   X.gguf.inp   texts between lines of __ggml_vocab_test__, and X.gguf.out with
 *                a line of ids for each. X.gguf must give these ids, with special
 *                tokens neither added nor parsed (llama.cpp's
 *                test-tokenizer-0).
 *
 * Prints a TAP line for each tokenizer and text. A missing tokenizer is
 * skipped, with a message. */
#include <dirent.h>
#include <json/json.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <tenon/tokenizer.h>

#include "tap.h"

static char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    char *text = NULL;
    size_t room = 0, n = 0, got;
    do {
        text = realloc(text, room += 65536);
        if (!text)
            abort();
        got = fread(text + n, 1, room - 1 - n, file);
        n += got;
    } while (got);
    fclose(file);
    text[n] = '\0';
    *bytes = n;
    return text;
}

typedef struct json_file {
    tn__json json;
    char *text;
} json_file;

static const tn__json_value *read_json(const char *path, json_file *file)
{
    size_t bytes;
    file->text = read_whole(path, &bytes);
    file->json = (tn__json){.take = malloc, .give = free};
    return file->text ? tn__json_read(&file->json, file->text, bytes) : NULL;
}

static void free_json(json_file *file)
{
    tn__json_free(&file->json);
    free(file->text);
}

static bool is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

static bool same_ids(tn_encoding *e, const tn__json_value *want)
{
    int64_t i = 0;
    const int64_t n = tn_encoding_count(e);
    TN__JSON_EACH(v, want)
    {
        if (i >= n || tn_encoding_ids(e)[i] != v->integer) {
            printf("# id %" PRId64 " of %" PRId64 ": got %d, want %" PRId64
                   "\n", i, n, i < n ? (int)tn_encoding_ids(e)[i] : -1,
                   v->integer);
            return false;
        }
        i++;
    }
    if (i != n)
        printf("# got %" PRId64 " ids, want %" PRId64 "\n", n, i);
    return i == n;
}

static bool same_text(const char *what, const char *got, size_t got_bytes,
                      const tn__json_value *want)
{
    if (got && got_bytes == want->bytes &&
        memcmp(got, want->text, got_bytes) == 0)
        return true;
    printf("# %s: got  \"%.*s\"\n# want \"%.*s\"\n", what, (int)got_bytes,
           got ? got : "", (int)want->bytes, want->text);
    return false;
}

/* Decodes the ids one after another, as for streaming. */
static char *stream(tn_tokenizer *t, const tn__json_value *ids, size_t *bytes)
{
    tn_detokenizer *d = tn_detokenizer_new(t);
    char *text = calloc(1, 1);
    size_t n = 0;
    TN__JSON_EACH(v, ids)
    {
        const char *more = tn_detokenizer_add(d, v->integer);
        const size_t k = more ? strlen(more) : 0;
        text = realloc(text, n + k + 1);
        memcpy(text + n, more ? more : "", k + 1);
        n += k;
    }
    const char *rest = tn_detokenizer_end(d);
    const size_t k = rest ? strlen(rest) : 0;
    text = realloc(text, n + k + 1);
    memcpy(text + n, rest ? rest : "", k + 1);
    *bytes = n + k;
    return text;
}

static bool has_zero(const tn__json_value *text)
{
    return strlen(text->text) != text->bytes;
}

/* Compares offsets, which count characters as in Python. If a token has only a
 * part of a character's bytes, its offsets include the whole character. */
static bool same_offsets(tn_encoding *e, const tn__json_value *text,
                         const tn__json_value *want)
{
    int64_t i = 0;
    TN__JSON_EACH(v, want)
    {
        const int64_t *got = tn_encoding_offsets(e) + 2 * i++;
        int64_t character[2] = {0, 0};
        for (int k = 0; k < 2; k++)
            for (int64_t at = 0; at < got[k]; at++)
                character[k] += ((unsigned char)text->text[at] & 0xc0) != 0x80;
        if (character[0] != tn__json_at(v, 0)->integer ||
            character[1] != tn__json_at(v, 1)->integer) {
            printf("# token %" PRId64 ": got %" PRId64 " to %" PRId64
                   ", want %" PRId64 " to %" PRId64 "\n", i - 1, character[0],
                   character[1], tn__json_at(v, 0)->integer,
                   tn__json_at(v, 1)->integer);
            return false;
        }
    }
    return true;
}

static void check_case(tn_tokenizer *t, const char *name, int i,
                       const tn__json_value *text, const tn__json_value *ids,
                       const tn__json_value *decoded,
                       const tn__json_value *offsets)
{
    tn_scope *scope = tn_scope_open();
    tn_encoding *e = tn_tokenizer_encode(t, text->text,
                                         .bytes = (int64_t)text->bytes,
                                         .special = false);
    bool good = e && same_ids(e, ids);
    if (good && offsets)
        good = same_offsets(e, text, offsets);
    if (e && decoded) {
        int64_t *id = malloc((ids->count + 1) * sizeof *id);
        int64_t n = 0, bytes = 0;
        TN__JSON_EACH(v, ids)
            id[n++] = v->integer;
        const char *back = tn_tokenizer_decode(t, id, n, .out_bytes = &bytes);
        good &= same_text("decoded", back, (size_t)bytes, decoded);
        free(id);
        size_t streamed;
        char *live = stream(t, ids, &streamed);
        if (!has_zero(decoded)) /* streaming returns strings that end at a NUL,
                                 * so texts with NUL are not compared */
            good &= same_text("streamed", live, streamed, decoded);
        free(live);
    }
    if (tn_error())
        printf("# %s\n", tn_error());
    tn_error_clear();
    ok(good, "%s: text %d", name, i);
    tn_scope_close(scope);
}

static void check_golden(const char *folder, const char *zoo, const char *file,
                         const tn__json_value *texts)
{
    char path[4096], source_path[4096];
    json_file json;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    const tn__json_value *golden = read_json(path, &json);
    const char *source = tn__json_text(tn__json_get(golden, "source"));
    if (!source) {
        free_json(&json);
        return;
    }
    if (!tn__json_is(tn__json_get(golden, "texts"), TN__JSON_LIST) && !texts) {
        ok(false, "%s: there are no texts", file);
        free_json(&json);
        return;
    }
    if (tn__json_is(tn__json_get(golden, "texts"), TN__JSON_LIST))
        texts = tn__json_get(golden, "texts");
    snprintf(source_path, sizeof source_path, "%s/%s", *source == '/' ? "" : folder, source);
    if (!is_there(source_path) && zoo)
        snprintf(source_path, sizeof source_path, "%s/%s", zoo, source);
    if (!is_there(source_path)) {
        snprintf(path, sizeof path, "%.1000s: %.1000s is not here", file,
                 source);
        skip(1, path);
        free_json(&json);
        return;
    }
    tn_scope *scope = tn_scope_open();
    const char *pattern = tn__json_text(tn__json_get(golden, "pattern"));
    tn_tokenizer *t = pattern
                          ? tn_tokenizer_open(source_path, .pattern = pattern)
                          : tn_tokenizer_open(source_path);
    ok(t != NULL, "%s: opens %s", file, source);
    if (!t)
        printf("# %s\n", tn_error());
    tn_error_clear();
    const tn__json_value *ids = tn__json_first(tn__json_get(golden, "ids"));
    const tn__json_value *decoded =
        tn__json_first(tn__json_get(golden, "decoded"));
    const tn__json_value *offsets =
        tn__json_first(tn__json_get(golden, "offsets"));
    int i = 0;
    TN__JSON_EACH(text, texts)
    {
        if (t && ids)
            check_case(t, file, i, text, ids, decoded, offsets);
        i++;
        ids = ids ? ids->next : NULL;
        decoded = decoded ? decoded->next : NULL;
        offsets = offsets ? offsets->next : NULL;
    }
    tn_scope_close(scope);
    free_json(&json);
}

/* ---- llama.cpp's cases --------------------------------------------------- */

static const char separator[] = "\n__ggml_vocab_test__\n";

static void check_vocab(const char *folder, const char *inp)
{
    char path[4096];
    size_t bytes, out_bytes;
    const int stem = (int)strlen(inp) - 4;
    snprintf(path, sizeof path, "%s/%s", folder, inp);
    char *texts = read_whole(path, &bytes);
    snprintf(path, sizeof path, "%s/%.*s.out", folder, stem, inp);
    char *out = read_whole(path, &out_bytes);
    snprintf(path, sizeof path, "%s/%.*s", folder, stem, inp);
    if (!is_there(path) || !texts || !out) {
        snprintf(path, sizeof path, "%.*s is not here", stem, inp);
        skip(1, path);
        free(texts);
        free(out);
        return;
    }
    tn_scope *scope = tn_scope_open();
    tn_tokenizer *t = tn_tokenizer_open(path);
    ok(t != NULL, "opens %.*s", stem, inp);
    if (!t)
        printf("# %s\n", tn_error());
    tn_error_clear();
    char *line = out, *text = texts;
    for (int i = 0; t && text; i++) {
        char *end = strstr(text, separator);
        const size_t length = end ? (size_t)(end - text) : strlen(text);
        char *line_end = strchr(line, '\n');
        if (line_end)
            *line_end = '\0';
        tn_encoding *e = tn_tokenizer_encode(t, text, .bytes = (int64_t)length,
                                             .special = false,
                                             .parse_special = false);
        bool good = e != NULL;
        int64_t n = 0;
        for (char *at = line; good; n++) {
            char *next;
            const long id = strtol(at, &next, 10);
            if (next == at)
                break;
            at = next;
            good = n < tn_encoding_count(e) && tn_encoding_ids(e)[n] == id;
            if (!good)
                printf("# id %" PRId64 ": got %d, want %ld\n", n,
                       n < tn_encoding_count(e) ? (int)tn_encoding_ids(e)[n]
                                                : -1,
                       id);
        }
        ok(good && n == tn_encoding_count(e), "%.*s: text %d", stem, inp, i);
        if (tn_error())
            printf("# %s\n", tn_error());
        tn_error_clear();
        line = line_end ? line_end + 1 : line + strlen(line);
        text = end ? end + strlen(separator) : NULL;
    }
    tn_scope_close(scope);
    free(texts);
    free(out);
}

static int is_case(const struct dirent *entry)
{
    const size_t n = strlen(entry->d_name);
    return (n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0 &&
            strcmp(entry->d_name, "texts.json")) ||
           (n > 9 && strcmp(entry->d_name + n - 9, ".gguf.inp") == 0);
}

static void check_folder(const char *folder, const char *zoo)
{
    struct dirent **entry;
    char path[4096];
    json_file json;
    snprintf(path, sizeof path, "%s/texts.json", folder);
    const tn__json_value *texts = read_json(path, &json);
    const int count = scandir(folder, &entry, is_case, alphasort);
    ok(count >= 0, "%s is a folder", folder);
    for (int i = 0; i < count; i++) {
        const char *name = entry[i]->d_name;
        if (name[strlen(name) - 1] == 'p')
            check_vocab(folder, name);
        else
            check_golden(folder, zoo, name, texts);
        free(entry[i]);
    }
    if (count >= 0)
        free(entry);
    free_json(&json);
}

int main(int count, char **argument)
{
    const char *zoo = NULL, *top = getenv("top_builddir");
    char own[4096];
    plan_later();
    int folders = 0;
    for (int i = 1; i < count; i++)
        if (strcmp(argument[i], "--zoo") == 0 && i + 1 < count)
            zoo = argument[++i];
        else {
            check_folder(argument[i], zoo);
            folders++;
        }
    if (!folders) { /* no arguments, as in `make check` */
        snprintf(own, sizeof own, "%s/tests/lm/tokenizers/tok", top ? top : ".");
        check_folder(own, NULL);
        snprintf(own, sizeof own, "%s/tests/lm/tokenizers/vocab", top ? top : ".");
        check_folder(own, NULL);
    }
    return done_testing();
}
