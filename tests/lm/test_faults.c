/* test_faults.c: makes each allocation fail in turn, while models and
 * tokenizers are opened, and texts are encoded, rendered, generated and saved.
 * The call must report TN_ERR_MEMORY and leak nothing, and the next call must
 * work. */
#include "../fault_sweep.h"

#include <tenon/chat.h>
#include <tenon/gguf.h>
#include <tenon/lm.h>
#include <unistd.h>

static char folder[4096], file[4096], words[4096], vocabulary[4096];
static char saved[] = "/tmp/tenon-lm-faults-XXXXXX";
static tn_lm *lm, *bert;
static tn_tokenizer *tokenizer;
static const int64_t ids[] = {3, 4, 5, 6, 7};

static bool try_open(void)
{
    return tn_lm_open(folder);
}

static bool try_open_gguf(void)
{
    return tn_lm_open(file);
}

static bool try_open_f32(void)
{
    return tn_lm_open(file, .dtype = TN_F32);
}

static bool try_tokenizer(void)
{
    return tn_tokenizer_open(words);
}

static bool try_tokenizer_gguf(void)
{
    return tn_tokenizer_open(vocabulary);
}

static bool try_encode(void)
{
    tn_encoding *e = tn_tokenizer_encode(
        tokenizer, "Hello w\xc3\xb6rld, <s>\xff it's 2026", .pair = "yes");
    tn_detokenizer *d = tn_detokenizer_new(tokenizer);
    if (!e || !d)
        return false;
    for (int64_t i = 0; i < tn_encoding_count(e); i++)
        if (!tn_detokenizer_add(d, tn_encoding_ids(e)[i]))
            return false;
    return tn_detokenizer_end(d) &&
           tn_tokenizer_decode(tokenizer, tn_encoding_ids(e),
                               tn_encoding_count(e));
}

static bool try_render(void)
{
    static const tn_chat_message chat[] = {
        {"user", " Hello ", NULL},
        {"assistant", NULL, "{\"tool_calls\": [{\"name\": \"f\", \"x\": 1.5}]}"}};
    return tn_chat_render(
        tokenizer, chat, 2, .tools = "[{\"a\": [1, {}]}]",
        .variables = "{\"b\": true}",
        .jinja = "{% macro m(a) %}{{ caller() }}{% endmacro %}"
                 "{% for m in messages %}{{ loop.index }}{{ m | tojson }}"
                 "{{ '%s' % (m.role | upper,) }}{% endfor %}"
                 "{% call m(1) %}x{% endcall %}{{ strftime_now('%Y') }}");
}

static bool try_generate(void)
{
    return tn_lm_generate(lm, ids, 5, .max_tokens = 2, .samples = 2, .best = 1,
                          .temperature = 1, .top_p = 0.9, .ignore_eos = true,
                          .stop = (tn_lm_stop[]){{ids, 2}}, .stop_count = 1);
}

static bool try_batch(void)
{
    tn_lm_batch *batch = tn_lm_batch_new(lm, 2);
    for (int i = 0; i < 2; i++) {
        if (tn_lm_batch_add(batch, ids, 4, .max_tokens = 2,
                            .ignore_eos = true) < 0)
            return false;
        while (tn_lm_batch_step(batch) > 0)
            ;
    }
    return !tn_error();
}

static bool try_fork(void)
{
    tn_lm_cache *cache = tn_lm_cache_new(lm, 2);
    return tn_lm_cache_begin(cache, 0, 8, 4) == TN_OK &&
           tn_lm_decode(cache, &(tn_lm_tokens){0, ids, 4, true}, 1) &&
           tn_lm_cache_fork(cache, 1, 0, 3, 90, 4) == TN_OK &&
           tn_lm_cache_cut(cache, 1, 2) == TN_OK;
}

static bool try_score(void)
{
    return !isnan(tn_lm_score(lm, ids, 4, NULL));
}

static bool try_embed(void)
{
    const int64_t *texts[] = {ids, ids + 1}, lengths[] = {3, 2};
    return tn_lm_embed(bert, texts, lengths, 2);
}

static bool try_save(void)
{
    return tn_lm_save(lm, saved) == TN_OK;
}

int main(void)
{
    const char *source = getenv("top_srcdir"), *build = getenv("top_builddir");
    if (!MALLOC_FAULTS)
        return printf("1..0 # SKIP malloc cannot be made to fail here\n") < 0;
    source = source ? source : ".";
    build = build ? build : ".";
    snprintf(folder, sizeof folder, "%s/tests/lm/data/llama", source);
    snprintf(file, sizeof file, "%s/tests/lm/data/tiny-llama-f32.gguf", source);
    snprintf(words, sizeof words,
             "%s/tests/lm/tokenizers/tok/trained-bpe-llama3.json", build);
    snprintf(vocabulary, sizeof vocabulary,
             "%s/tests/lm/tokenizers/vocab/ggml-vocab-llama-spm.gguf", build);
    tn_set_num_threads(1);
    tn_scope *scope = tn_scope_open();
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/lm/data/bert", source);
    lm = tn_lm_open(folder);
    bert = tn_lm_open(path);
    tokenizer = tn_tokenizer_open(words);
    if (!lm || !bert || !tokenizer || !mkdtemp(saved))
        bail_out("%s", tn_error() ? tn_error() : "no folder");
    fails_in_turn(try_render, "render");
    fails_in_turn(try_tokenizer, "tokenizer_open");
    fails_in_turn(try_encode, "encode and decode");
    fails_in_turn(try_open, "lm_open");
    fails_in_turn(try_open_gguf, "lm_open of a GGUF file");
    fails_in_turn(try_open_f32, "lm_open of a GGUF file as float32");
    fails_in_turn(try_tokenizer_gguf, "tokenizer_open of a GGUF file");
    fails_in_turn(try_generate, "generate");
    fails_in_turn(try_batch, "batch");
    fails_in_turn(try_fork, "cache");
    fails_in_turn(try_score, "score");
    fails_in_turn(try_embed, "embed");
    fails_in_turn(try_save, "save");
    tn_scope_close(scope);
    return done_testing();
}
