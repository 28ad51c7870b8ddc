/* open_gguf.c: reads the vocabulary of a GGUF file. The kinds of vocabularies
 * are those of llama.cpp: "gpt2" is byte-level BPE, "llama" is SentencePiece's
 * BPE by scores, "bert" is WordPiece. */
#include <lm/tokenizer/patterns.h>
#include <lm/tokenizer/pipeline.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/gguf.h>

/* Values of tokenizer.ggml.token_type. */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

#define KEY(name) "tokenizer.ggml." name

typedef struct vocab_file {
    tn_gguf *gguf;
    const tn_gguf_bytes *token;
    int64_t *type; /* NULL: all tokens are NORMAL */
    int32_t count;
} vocab_file;

static bool has(const vocab_file *f, const char *key)
{
    return tn_gguf_kind_of(f->gguf, key) != TN_GGUF_NONE;
}

static bool flag(const vocab_file *f, const char *key, bool otherwise)
{
    int64_t value = otherwise;
    return has(f, key) && tn_gguf_ints(f->gguf, key, &value, 1) < 0
               ? otherwise
               : value != 0;
}

static bool refuse(tn__reader *reader, const char *key, const char *why)
{
    reader->key = key;
    return tn__refuse(reader, TN_ERR_FORMAT, "%s", why);
}

static bool read_tokens(tn_tokenizer *t, tn__reader *reader, vocab_file *f)
{
    const int64_t count = tn_gguf_length(f->gguf, KEY("tokens"));
    f->token = tn_gguf_texts(f->gguf, KEY("tokens"));
    if (!f->token)
        return false;
    if (count < 1 || count >= TN__MOST_IDS)
        return refuse(reader, KEY("tokens"), "has no tokens, or too many");
    f->count = (int32_t)count;
    if (has(f, KEY("token_type"))) {
        f->type = tn__own_array(&t->arena, (size_t)count, sizeof *f->type);
        if (!f->type ||
            tn_gguf_ints(f->gguf, KEY("token_type"), f->type, count) < 0)
            return false;
    }
    if (!tn__vocab_init(&t->model.vocab, &t->arena, f->count))
        return false;
    for (int32_t i = 0; i < f->count; i++) {
        /* must be copied, because the file is closed after reading */
        char *text = tn__own_text(&t->arena, f->token[i].text,
                                    f->token[i].bytes);
        if (!text || f->token[i].bytes > UINT32_MAX)
            return false;
        tn__vocab_add(&t->model.vocab, i, text, f->token[i].bytes);
    }
    return true;
}

/* Adds control, unknown and user-defined tokens to the added tokens, which are
 * searched in the original text. */
static bool read_added(tn_tokenizer *t, tn__reader *reader,
                       const vocab_file *f)
{
    size_t count = 0;
    for (int32_t i = 0; f->type && i < f->count; i++)
        count += f->type[i] == CONTROL || f->type[i] == USER_DEFINED ||
                 f->type[i] == UNKNOWN;
    t->added = tn__own_array(&t->arena, count + 1, sizeof *t->added);
    if (!t->added)
        return false;
    for (int32_t i = 0; f->type && i < f->count; i++) {
        const bool control = f->type[i] == CONTROL || f->type[i] == UNKNOWN;
        const tn__token *token = &t->model.vocab.token[i];
        if ((!control && f->type[i] != USER_DEFINED) || !token->bytes)
            continue;
        if (token->bytes > TN__MOST_ADDED)
            return refuse(reader, KEY("tokens"),
                          "a special token is too long");
        tn__added *a = &t->added[t->added_count++];
        a->content = token->text;
        a->content_bytes = token->bytes;
        a->special = control;
    }
    return tn__added_index(t);
}

static bool role(tn_tokenizer *t, tn__reader *reader, const vocab_file *f,
                 const char *key, int i)
{
    int64_t id = -1;
    if (!has(f, key))
        return true;
    if (tn_gguf_ints(f->gguf, key, &id, 1) < 0)
        return false;
    if (id == UINT32_MAX) /* written for "none" */
        return true;
    if (id < 0 || id >= f->count)
        return refuse(reader, key, "is not the id of a token");
    t->role[i] = (int32_t)id;
    return true;
}

static bool read_roles(tn_tokenizer *t, tn__reader *reader,
                       const vocab_file *f)
{
    static const struct {
        const char *key;
        int role;
    } table[] = {
        {KEY("bos_token_id"), TN__BOS},     {KEY("eos_token_id"), TN__EOS},
        {KEY("unknown_token_id"), TN__UNK}, {KEY("padding_token_id"), TN__PAD},
        {KEY("seperator_token_id"), TN__SEP}, {KEY("cls_token_id"), TN__CLS},
        {KEY("mask_token_id"), TN__MASK},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!role(t, reader, f, table[i].key, table[i].role))
            return false;
    return true;
}

static tn__step *add(tn_tokenizer *t, tn__steps *steps,
                     bool (*run)(const tn__step *step, tn__work *work))
{
    tn__step *step = tn__steps_add(&t->arena, steps);
    if (step)
        step->run = run;
    return step;
}

/* Appends a replacement of text by content. */
static bool add_replace(tn_tokenizer *t, tn__steps *steps,
                        bool (*run)(const tn__step *step, tn__work *work),
                        const char *text, const char *content)
{
    tn__step *step = add(t, steps, run);
    if (!step)
        return false;
    step->text = text;
    step->text_bytes = strlen(text);
    step->content = content;
    step->content_bytes = strlen(content);
    return true;
}

#define SPACE "\xe2\x96\x81" /* U+2581, by which SentencePiece represents a
                                space */

/* ---- the kinds ----------------------------------------------------------- */

static bool read_merges(tn_tokenizer *t, tn__reader *reader,
                        const vocab_file *f)
{
    const int64_t count = tn_gguf_length(f->gguf, KEY("merges"));
    const tn_gguf_bytes *merge = tn_gguf_texts(f->gguf, KEY("merges"));
    char *both = NULL;
    size_t room = 0;
    if (!merge || !tn__merges_init(&t->model, &t->arena, (size_t)count))
        return false;
    for (int64_t i = 0; i < count; i++) {
        const char *text = merge[i].text;
        const size_t bytes = merge[i].bytes;
        /* search from the second character, because tokens in Gemma's files may
         * begin with a blank */
        const char *space =
            bytes > 1 ? memchr(text + 1, ' ', bytes - 1) : NULL;
        int32_t id[3] = {-1, -1, -1};
        if (space && tn__array_grow(&both, &room, bytes, 1)) {
            const size_t left = (size_t)(space - text);
            memcpy(both, text, left);
            memcpy(both + left, space + 1, bytes - left - 1);
            id[0] = tn__vocab_find(&t->model.vocab, both, left);
            id[1] = tn__vocab_find(&t->model.vocab, both + left,
                                   bytes - left - 1);
            id[2] = tn__vocab_find(&t->model.vocab, both, bytes - 1);
        }
        if (id[0] < 0 || id[1] < 0 || id[2] < 0) {
            free(both);
            reader->key = KEY("merges");
            return tn__refuse(reader, TN_ERR_FORMAT, "merge %lld: expected "
                              "two tokens whose concatenation is a token",
                              (long long)i);
        }
        tn__merges_add(&t->model, id[0], id[1], (uint32_t)i, id[2]);
    }
    free(both);
    return true;
}

static bool add_pattern(tn_tokenizer *t, tn__reader *reader,
                        const vocab_file *f, bool *add_bos)
{
    const char *pre = has(f, KEY("pre")) ? tn_gguf_text(f->gguf, KEY("pre"))
                                         : "gpt-2";
    if (!pre)
        return false;
    const tn__pattern *pattern =
        tn__pattern_find(strcmp(pre, "default") ? pre : "gpt-2");
    reader->key = KEY("pre");
    if (!pattern)
        return tn__refuse(reader, TN_ERR_FORMAT, "the pre-tokenizer \"%.60s\" "
                          "is unknown", pre);
    t->model.whole_words = pattern->whole_words;
    *add_bos = pattern->add_bos;
    return tn__patterns_add(reader, pattern, &t->pretokenizer);
}

static bool read_gpt2(tn_tokenizer *t, tn__reader *reader, vocab_file *f,
                      bool *add_bos)
{
    t->model.kind = TN__BPE;
    return read_merges(t, reader, f) &&
           add_pattern(t, reader, f, add_bos) &&
           add(t, &t->pretokenizer, tn__step_byte_level) &&
           add(t, &t->decoder, tn__step_decode_byte_level);
}

static bool read_llama(tn_tokenizer *t, tn__reader *reader, vocab_file *f,
                       bool *add_bos)
{
    const bool prefix = flag(f, KEY("add_space_prefix"), true);
    double *score = calloc((size_t)f->count, sizeof *score);
    bool good = score && tn_gguf_length(f->gguf, KEY("scores")) == f->count;
    if (!score)
        tn_error_set(TN_ERR_MEMORY, "tokenizer_open: out of memory");
    else if (!good)
        refuse(reader, KEY("scores"), "must have one score for each token");
    good = good &&
           tn_gguf_reals(f->gguf, KEY("scores"), score, f->count) == TN_OK;
    for (int32_t i = 0; good && i < f->count; i++)
        t->model.vocab.token[i].score = (float)score[i];
    free(score);
    t->model.kind = TN__SCORES;
    t->model.byte_fallback = true;
    *add_bos = true;
    if (!good)
        return false;
    if (prefix) {
        tn__step *step = add(t, &t->normalizer, tn__step_prepend);
        if (!step)
            return false;
        step->text = SPACE;
        step->text_bytes = 3;
    }
    if (!add_replace(t, &t->normalizer, tn__step_replace, " ", SPACE) ||
        !add_replace(t, &t->decoder, tn__step_decode_replace, SPACE, " ") ||
        !add(t, &t->decoder, tn__step_decode_byte_fallback) ||
        !add(t, &t->decoder, tn__step_decode_join))
        return false;
    if (prefix) {
        tn__step *step = add(t, &t->decoder, tn__step_decode_strip);
        if (!step)
            return false;
        step->text = " ";
        step->text_bytes = 1;
        step->number[0] = 1;
    }
    return true;
}

/* In these files a word's first token begins with SPACE and the other tokens
 * have no prefix (in tokenizer.json, the other tokens begin with "##"). */
static bool read_bert(tn_tokenizer *t, tn__reader *reader, vocab_file *f,
                      bool *add_bos)
{
    (void)f;
    t->model.kind = TN__WORDPIECE;
    t->model.most_chars = INT64_MAX;
    *add_bos = true;
    if (!tn__steps_bert(reader, &t->normalizer, &t->pretokenizer))
        return false;
    tn__step *step = add(t, &t->pretokenizer, tn__step_prepend);
    if (!step)
        return false;
    step->text = SPACE;
    step->text_bytes = 3;
    if (!add_replace(t, &t->decoder, tn__step_decode_replace, SPACE, " ") ||
        !add(t, &t->decoder, tn__step_decode_join) ||
        !(step = add(t, &t->decoder, tn__step_decode_strip)))
        return false;
    step->text = " ";
    step->text_bytes = 1;
    step->number[0] = 1;
    return true;
}

static const struct {
    const char *name;
    bool (*read)(tn_tokenizer *t, tn__reader *reader, vocab_file *f,
                 bool *add_bos);
} kind_table[] = {
    {"gpt2", read_gpt2},
    {"llama", read_llama},
    {"bert", read_bert},
};

static bool read_template(tn_tokenizer *t, const vocab_file *f, bool bert,
                          bool add_bos)
{
    const int begin = bert ? TN__CLS : TN__BOS, end = bert ? TN__SEP : TN__EOS;
    const bool first = flag(f, KEY("add_bos_token"), add_bos);
    const bool last = flag(f, KEY("add_eos_token"), bert);
    /* older files define only the separator, and [CLS] as bos_token_id */
    int32_t bos = first ? t->role[begin] : -1;
    int32_t eos = last ? t->role[end] : -1;
    if (first && bos < 0)
        bos = t->role[TN__BOS];
    if (last && eos < 0)
        eos = t->role[TN__EOS];
    return tn__template_around(t, bos, eos);
}

bool tn__open_gguf(tn_tokenizer *t, tn__reader *reader)
{
    tn_scope *scope = tn_scope_open();
    vocab_file f = {.gguf = scope ? tn_gguf_open(reader->path) : NULL};
    const char *model = f.gguf ? tn_gguf_text(f.gguf, KEY("model")) : NULL;
    bool good = model && read_tokens(t, reader, &f) &&
                read_roles(t, reader, &f);
    bool add_bos = false, known = false;
    for (size_t i = 0; good && i < sizeof kind_table / sizeof *kind_table; i++)
        if (strcmp(kind_table[i].name, model) == 0) {
            known = true;
            good = kind_table[i].read(t, reader, &f, &add_bos);
        }
    if (good && !known) {
        reader->key = KEY("model");
        good = tn__refuse(reader, TN_ERR_FORMAT, "the vocabulary's kind "
                          "\"%.60s\" is not supported", model);
    }
    t->has_decoder = true;
    if (good) {
        t->model.unk = t->role[TN__UNK];
        for (int32_t i = 0; f.type && i < f.count && t->model.unk < 0; i++)
            if (f.type[i] == UNKNOWN)
                t->model.unk = i;
        good = tn__model_index(&t->model, &t->arena) &&
               read_added(t, reader, &f) &&
               read_template(t, &f, t->model.kind == TN__WORDPIECE, add_bos);
    }
    if (good && has(&f, "tokenizer.chat_template")) {
        const char *chat = tn_gguf_text(f.gguf, "tokenizer.chat_template");
        good = chat && (t->chat_template = tn__own_text(
                            &t->arena, chat, strlen(chat)));
    }
    tn_scope_close(scope);
    return good && !tn_error(); /* a flag that is not a number has set an
                                   error */
}
