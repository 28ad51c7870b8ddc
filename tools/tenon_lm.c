/* tenon_lm.c: the commands `tenon lm info` and `tenon embed`, and functions
 * that the commands for language models share. */
#include "tenon_lm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

int lm_complain(void)
{
    fprintf(stderr, "tenon: %s\n", tn_error() ? tn_error() : "failed");
    tn_error_clear();
    return 1;
}

/* ---- arguments ----------------------------------------------------------- */

int64_t lm_read_ids(const char *text, int64_t **ids)
{
    const char *list = text;
    int64_t count = 0;
    *ids = malloc((strlen(text) + 1) * sizeof **ids);
    for (text += strspn(text, ", \t"); *ids && *text;
         text += strspn(text, ", \t")) {
        char *end;
        errno = 0;
        const long long id = strtoll(text, &end, 10);
        if (end == text || errno || !strchr(", \t", *end)) {
            count = 0;
            break;
        }
        (*ids)[count++] = id;
        text = end;
    }
    if (count)
        return count;
    fprintf(stderr, "tenon: '%s' is not a list of token ids\n", list);
    return -1;
}

static bool set_option(const lm_option *o, const char *value)
{
    char *end = NULL;
    errno = 0;
    if (o->text) {
        *o->text = value;
        return true;
    }
    if (o->real)
        *o->real = strtod(value, &end);
    else
        *o->whole = strtoll(value, &end, 10);
    return end != value && !*end && !errno;
}

int lm_read_options(int count, char **argument, const lm_option *table)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        const lm_option *o = table;
        if (strcmp(argument[i], "--") == 0) {
            for (i++; i < count; i++)
                argument[kept++] = argument[i];
            break;
        }
        if (argument[i][0] != '-' || !argument[i][1]) {
            argument[kept++] = argument[i];
            continue;
        }
        while (o->name && strcmp(o->name, argument[i]) != 0)
            o++;
        if (!o->name)
            return -1;
        if (o->flag)
            *o->flag = true;
        else if (++i >= count || !set_option(o, argument[i]))
            return -1;
    }
    return kept;
}

tn_lm *lm_open(const char *path, const char *dtype, bool relaxed)
{
    tn_lm_open_options o = TN_LM_OPEN_OPTIONS;
    o.dtype = dtype ? tn_dtype_from_name(dtype) : TN_DTYPE_NONE;
    if (dtype && !o.dtype) {
        fprintf(stderr, "tenon: unknown dtype '%s': use float32, float16 or "
                        "bfloat16\n",
                dtype);
        tn_error_clear();
        return NULL;
    }
    o.relaxed = relaxed;
    tn_lm *lm = tn_lm_open_with(path, &o);
    if (!lm)
        lm_complain();
    return lm;
}

/* ---- tenon lm info ------------------------------------------------------- */

static void line(const char *name, int64_t value)
{
    if (value)
        printf("%-14s%" PRId64 "\n", name, value);
}

static void print_tokenizer(const char *path)
{
    static const char *const roles[] = {"bos", "eos", "pad"};
    tn_tokenizer *t = tn_tokenizer_open(path);
    if (!t) {
        printf("%-14snone (%s)\n", "tokenizer", tn_error());
        tn_error_clear();
        return;
    }
    printf("%-14s%" PRId64 " tokens", "tokenizer", tn_tokenizer_vocab_size(t));
    for (int i = 0; i < 3; i++) {
        const int64_t id = tn_tokenizer_special_id(t, roles[i]);
        if (id >= 0)
            printf(", %s %" PRId64 " %s", roles[i], id,
                   tn_tokenizer_token(t, id, NULL));
    }
    puts(tn_tokenizer_chat_template(t) ? ", a chat template" : "");
}

int tenon_lm(int count, char **argument)
{
    if (count != 2 || strcmp(argument[0], "info") != 0)
        return 2;
    tn_lm_sizes s = {.size = sizeof s};
    tn_lm *lm = tn_lm_open(argument[1]);
    if (!lm || tn_lm_info(lm, &s) < 0)
        return lm_complain();
    const bool in_blocks =
        s.weight_bytes < s.parameters * (int64_t)tn_dtype_bytes(s.dtype);
    printf("%-14s%s, %s\n", "family", s.family,
           s.is_encoder ? "an encoder" : "a decoder");
    line("layers", s.layers);
    line("hidden", s.hidden);
    line("inner", s.inner);
    line("heads", s.heads);
    line("kv heads", s.kv_heads);
    line("head size", s.head_dim);
    line("experts", s.experts);
    line("vocabulary", s.vocabulary);
    line("positions", s.positions);
    line("parameters", s.parameters);
    printf("%-14s%.1f MB, %s%s\n", "weights", (double)s.weight_bytes * 1e-6,
           in_blocks ? "blocks and " : "", tn_dtype_name(s.dtype));
    if (s.cache_bytes)
        printf("%-14s%.1f MB for 1000 tokens\n", "cache",
               (double)s.cache_bytes * 1e-3);
    print_tokenizer(argument[1]);
    return 0;
}

/* ---- tenon embed --------------------------------------------------------- */

static int print_embedding(tn_lm *lm, const int64_t *ids, int64_t length,
                           const tn_lm_embed_options *o)
{
    tn_tensor *x =
        tn_to_dtype(tn_lm_embed_with(lm, &ids, &length, 1, o), TN_F32);
    const int64_t size = tn_tensor_numel(x);
    float *values = malloc((size_t)size * sizeof *values + 1);
    if (!x || !values ||
        tn_tensor_to_array(x, values, (size_t)size * sizeof *values) < 0) {
        free(values);
        return lm_complain();
    }
    for (int64_t j = 0; j < size; j++)
        printf("%s%.7g", j ? " " : "", (double)values[j]);
    printf("\n");
    free(values);
    return 0;
}

static int embed_ids(tn_lm *lm, const char *text, const tn_lm_embed_options *o)
{
    int64_t *ids;
    const int64_t length = lm_read_ids(text, &ids);
    const int status = length < 1 || print_embedding(lm, ids, length, o);
    free(ids);
    return status;
}

/* Prints the embedding of a text. As in sentence-transformers, a text that is
 * longer than the model allows is truncated. */
static int embed_text(tn_lm *lm, tn_tokenizer *t, const char *text,
                      const tn_lm_embed_options *o)
{
    tn_lm_sizes s = {.size = sizeof s};
    tn_lm_info(lm, &s);
    tn_encoding *e = tn_tokenizer_encode(
        t, text, .max_count = s.positions ? s.positions : TN_NONE_INT);
    return e ? print_embedding(lm, tn_encoding_ids(e), tn_encoding_count(e), o)
             : lm_complain();
}

int tenon_embed(int count, char **argument)
{
    const char *pooling = NULL, *tokenizer = NULL, *dtype = NULL;
    bool ids = false, relaxed = false;
    const lm_option options[] = {{"--pooling", .text = &pooling},
                                 {"--tokenizer", .text = &tokenizer},
                                 {"--dtype", .text = &dtype},
                                 {"--relaxed", .flag = &relaxed},
                                 {"--ids", .flag = &ids},
                                 {.name = NULL}};
    count = lm_read_options(count, argument, options);
    if (count < 2 || (ids && tokenizer))
        return 2;
    tn_lm_embed_options o = TN_LM_EMBED_OPTIONS;
    o.pooling = pooling;
    tn_lm *lm = lm_open(argument[0], dtype, relaxed);
    if (!lm)
        return 1;
    tn_tokenizer *t =
        ids ? NULL : tn_tokenizer_open(tokenizer ? tokenizer : argument[0]);
    if (!ids && !t)
        return lm_complain();
    int status = 0;
    for (int i = 1; !status && i < count; i++) {
        tn_scope *scope = tn_scope_open();
        status = ids ? embed_ids(lm, argument[i], &o)
                     : embed_text(lm, t, argument[i], &o);
        tn_scope_close(scope);
    }
    return status;
}
