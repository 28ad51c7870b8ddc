/* tenon_lm.c: language models on the command line. Texts are lists of token ids,
 * separated by commas or blanks. */
#include "tenon_lm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>
#include <tenon/ops.h>

static int complain(void)
{
    fprintf(stderr, "tenon: %s\n", tn_error() ? tn_error() : "failed");
    return 1;
}

/* ---- arguments ----------------------------------------------------------- */

/* Reads the ids in text. Returns their number, or -1 if it is not a list of
 * numbers. *ids is memory that the caller frees. */
static int64_t read_ids(const char *text, int64_t **ids)
{
    int64_t count = 0;
    *ids = malloc((strlen(text) + 1) * sizeof **ids);
    if (!*ids)
        return -1;
    for (text += strspn(text, ", \t"); *text; text += strspn(text, ", \t")) {
        char *end;
        errno = 0;
        long long id = strtoll(text, &end, 10);
        if (end == text || errno || !strchr(", \t", *end))
            return -1;
        (*ids)[count++] = id;
        text = end;
    }
    return count;
}

/* An option of a command, and where its value goes. */
typedef struct option {
    const char *name;
    double *real; /* one of the three is set */
    int64_t *whole;
    const char **text;
} option;

static bool set_option(const option *o, const char *value)
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

/* Reads options with values up to the first other argument. Returns the number
 * of arguments read, or -1 for an unknown option or a wrong value. */
static int read_options(int count, char **argument, const option *options)
{
    int at = 0;
    while (at < count && argument[at][0] == '-' && argument[at][1]) {
        const option *o = options;
        while (o->name && strcmp(o->name, argument[at]) != 0)
            o++;
        if (!o->name || at + 1 >= count || !set_option(o, argument[at + 1]))
            return -1;
        at += 2;
    }
    return at;
}

/* ---- tenon lm info ------------------------------------------------------- */

static void line(const char *name, int64_t value)
{
    if (value)
        printf("%-14s%" PRId64 "\n", name, value);
}

int tenon_lm(int count, char **argument)
{
    if (count != 2 || strcmp(argument[0], "info") != 0)
        return 2;
    tn_lm_sizes s = {.size = sizeof s};
    tn_lm *lm = tn_lm_open(argument[1]);
    if (!lm || tn_lm_info(lm, &s) < 0)
        return complain();
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
    printf("%-14s%.1f MB, %s\n", "weights", (double)s.weight_bytes * 1e-6,
           tn_dtype_name(s.dtype));
    if (s.cache_bytes)
        printf("%-14s%.1f MB for 1000 tokens\n", "cache",
               (double)s.cache_bytes * 1e-3);
    return 0;
}

/* ---- tenon generate ------------------------------------------------------ */

static bool print_token(const tn_lm_token *token, void *context)
{
    (void)context;
    printf("%s%" PRId64, token->index ? " " : "", token->id);
    fflush(stdout);
    return true;
}

int tenon_generate(int count, char **argument)
{
    int64_t seed = 0, *ids = NULL;
    tn_lm_generate_options o = TN_LM_GENERATE_OPTIONS;
    const option options[] = {{"-n", .whole = &o.max_tokens},
                              {"--temperature", .real = &o.temperature},
                              {"--top-k", .whole = &o.top_k},
                              {"--top-p", .real = &o.top_p},
                              {"--min-p", .real = &o.min_p},
                              {"--seed", .whole = &seed},
                              {0}};
    const int read = read_options(count, argument, options);
    if (read < 0 || count - read != 2)
        return 2;
    const int64_t length = read_ids(argument[read + 1], &ids);
    if (length < 1) {
        free(ids);
        fprintf(stderr, "tenon: '%s' is not a list of token ids\n",
                argument[read + 1]);
        return 1;
    }
    o.seed = (uint64_t)seed;
    o.on_token = print_token;
    tn_lm *lm = tn_lm_open(argument[read]);
    tn_lm_result *result = tn_lm_generate_with(lm, ids, length, &o);
    free(ids);
    if (!result)
        return complain();
    return printf("\n") < 0;
}

/* ---- tenon embed --------------------------------------------------------- */

int tenon_embed(int count, char **argument)
{
    const char *pooling = NULL;
    int64_t *ids = NULL;
    const option options[] = {{"--pooling", .text = &pooling}, {0}};
    const int read = read_options(count, argument, options);
    if (read < 0 || count - read < 2)
        return 2;
    tn_lm_embed_options o = TN_LM_EMBED_OPTIONS;
    o.pooling = pooling;
    tn_lm *lm = tn_lm_open(argument[read]);
    for (int i = read + 1; lm && i < count; i++) {
        const int64_t length = read_ids(argument[i], &ids);
        if (length < 1) {
            fprintf(stderr, "tenon: '%s' is not a list of token ids\n",
                    argument[i]);
            free(ids);
            return 1;
        }
        tn_tensor *x = tn_to_dtype(
            tn_lm_embed_with(lm, (const int64_t *[]){ids}, &length, 1, &o),
            TN_F32);
        free(ids);
        const int64_t size = tn_tensor_numel(x);
        float *values = malloc((size_t)size * sizeof *values + 1);
        if (!x || !values ||
            tn_tensor_to_array(x, values, (size_t)size * sizeof *values) < 0) {
            free(values);
            return complain();
        }
        for (int64_t j = 0; j < size; j++)
            printf("%s%.7g", j ? " " : "", (double)values[j]);
        printf("\n");
        free(values);
    }
    return lm ? 0 : complain();
}
