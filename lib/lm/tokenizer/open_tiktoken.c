/* open_tiktoken.c: reads tiktoken's files. Each line has a token in base64 and
 * its rank, which is also its id. */
#include <lm/tokenizer/patterns.h>
#include <lm/tokenizer/pipeline.h>

#include <stdlib.h>
#include <string.h>

typedef struct line {
    char *text; /* decoded in place */
    size_t bytes;
    int32_t rank;
} line;

/* Reads a line. Returns false if it is not a token and a rank. */
static bool read_line(char *text, size_t bytes, line *out)
{
    const char *space = memchr(text, ' ', bytes);
    int64_t rank = 0;
    if (!space || space + 1 == text + bytes)
        return false;
    for (const char *c = space + 1; c < text + bytes; c++) {
        if (*c < '0' || *c > '9' || rank >= TN__MOST_IDS)
            return false;
        rank = rank * 10 + (*c - '0');
    }
    /* decoding in place is safe, because three bytes are written for each four
     * that were read */
    const int64_t n =
        tn__base64(text, (size_t)(space - text), (unsigned char *)text);
    *out = (line){text, (size_t)n, (int32_t)rank};
    return n >= 1 && rank < TN__MOST_IDS;
}

/* Copies the name of the encoding from the name of the file, as in
 * "cl100k_base.tiktoken". */
static void stem_of(const char *path, char out[64])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t bytes = strcspn(name, ".");
    if (bytes > 63)
        bytes = 63;
    memcpy(out, name, bytes);
    out[bytes] = '\0';
}

bool tn__patterns_add(const tn__reader *reader, const tn__pattern *pattern,
                      tn__steps *steps)
{
    for (int i = 0; i < TN__MOST_PATTERNS && pattern->regex[i]; i++) {
        tn__step *step = tn__steps_add(reader->arena, steps);
        if (!step || !tn__compile(reader, pattern->regex[i],
                                  strlen(pattern->regex[i]), &step->regex))
            return false;
        step->run = tn__step_split_regex;
        step->behavior = TN__ISOLATED;
    }
    return true;
}

static bool add_specials(tn_tokenizer *t, const char *encoding)
{
    const tn__known_special *table = tn__known_special_table;
    size_t count = 0;
    while (table[count].encoding)
        count++;
    t->added = tn__own_array(&t->arena, count, sizeof *t->added);
    if (!t->added)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(table[i].encoding, encoding))
            continue;
        tn__added *a = &t->added[t->added_count++];
        a->content = table[i].token;
        a->content_bytes = strlen(a->content);
        a->special = true;
        a->id = table[i].id;
    }
    return true;
}

bool tn__open_tiktoken(tn_tokenizer *t, tn__reader *reader, char *text,
                       size_t bytes, const char *pattern)
{
    char stem[64];
    stem_of(reader->path, stem);
    const char *name = pattern ? pattern : stem;
    const tn__pattern *known = tn__pattern_find(name);
    if (!known && !pattern)
        return tn__refuse(reader, TN_ERR_ARGUMENT, "the file has no pattern "
                          "for splitting text, and \"%.40s\" is not a known "
                          "one: give .pattern", stem);
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    line *all = malloc((lines + 1) * sizeof *all);
    if (!all) {
        tn_error_set(TN_ERR_MEMORY, "tokenizer_open: out of memory for %zu "
                     "tokens", lines);
        return false;
    }
    size_t count = 0, at = 0;
    int32_t id_end = 0;
    bool good = true;
    for (size_t n = 1; good && at < bytes; n++) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - text) - at : bytes - at;
        char *begin = text + at;
        at += length + 1;
        if (length && begin[length - 1] == '\r')
            length--;
        if (!length)
            continue;
        good = read_line(begin, length, &all[count]) ||
               tn__refuse(reader, TN_ERR_FORMAT, "line %zu is not a token in "
                          "base64 and its rank", n);
        if (good && all[count].rank >= id_end)
            id_end = all[count].rank + 1;
        count += good;
    }
    if (good && !count)
        good = tn__refuse(reader, TN_ERR_FORMAT, "the file has no tokens");
    good = good && tn__vocab_init(&t->model.vocab, &t->arena, id_end);
    for (size_t i = 0; good && i < count; i++)
        tn__vocab_add(&t->model.vocab, all[i].rank, all[i].text,
                      all[i].bytes);
    free(all);
    t->model.kind = TN__RANKS;
    t->model.whole_words = true;
    if (!good || !tn__model_index(&t->model, &t->arena))
        return false;
    for (int b = 0; b < 256; b++)
        if (t->model.byte_id[b] < 0)
            return tn__refuse(reader, TN_ERR_FORMAT,
                              "the byte 0x%02x is not a token", b);
    if (known) {
        good = tn__patterns_add(reader, known, &t->pretokenizer);
    } else {
        tn__step *step = tn__steps_add(&t->arena, &t->pretokenizer);
        good = step &&
               tn__compile(reader, pattern, strlen(pattern), &step->regex);
        if (good) {
            step->run = tn__step_split_regex;
            step->behavior = TN__ISOLATED;
        }
    }
    tn__step *join = tn__steps_add(&t->arena, &t->decoder);
    if (!good || !join)
        return false;
    join->run = tn__step_decode_join;
    t->has_decoder = true;
    return add_specials(t, name) && tn__added_index(t) &&
           tn__template_plain(t);
}
