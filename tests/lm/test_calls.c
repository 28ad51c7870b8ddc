/* test_calls.c: calls every public function of lm.h, tokenizer.h and chat.h
 * with NULL, with an object of another kind, and with numbers at the ends of
 * their types. Nothing may crash. If a call must fail, its error begins with
 * the function's name. */
#include <tap.h>
#include <tenon/chat.h>
#include <tenon/lm.h>
#include <tenon/tenon.h>
#include <tenon/tokenizer.h>

static const int64_t sizes[] = {
    INT64_MIN, INT32_MIN, -1, 0, INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MAX};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Checks that a call has failed: an error is pending that begins with the
 * call's name. */
static void failed(const char *call, bool fails)
{
    const char *error = tn_error();
    bool named = error && strncmp(error, call, strlen(call)) == 0;
    ok(fails && named, "%s fails: %s", call, error ? error : "no error");
    tn_error_clear();
}
#define FAILS(name, call) failed(name, !(call))
#define FAILS_STATUS(name, call) failed(name, (call) < 0)

static void nulls(tn_lm *lm)
{
    int64_t ids[] = {3, 4, 5}, lengths[] = {3};
    const int64_t *texts[] = {ids}, *no_text[] = {NULL};
    tn_tensor *x = tn_tensor_from_array(ids, TN_I64, tn_dims(3));
    tn_tensor *out[3];
    tn_lm_cache *cache = tn_lm_cache_new(lm, 1);
    tn_lm_batch *batch = tn_lm_batch_new(lm, 1);
    tn_lm *odd = (tn_lm *)x;
    FAILS("lm_open", tn_lm_open_with(NULL, NULL));
    ok(!tn_lm_module(NULL) && !tn_error(), "lm_module(NULL) is NULL");
    FAILS("lm_module", tn_lm_module(odd));
    FAILS_STATUS("lm_hidden_states", tn_lm_hidden_states(NULL, x, out, 3));
    FAILS_STATUS("lm_hidden_states", tn_lm_hidden_states(lm, NULL, out, 3));
    FAILS_STATUS("lm_hidden_states", tn_lm_hidden_states(lm, x, NULL, 3));
    FAILS_STATUS("lm_hidden_states", tn_lm_hidden_states(lm, x, out, 2));
    FAILS_STATUS("lm_save", tn_lm_save(NULL, "x"));
    FAILS_STATUS("lm_save", tn_lm_save(lm, NULL));
    FAILS_STATUS("lm_info", tn_lm_info(NULL, NULL));
    FAILS_STATUS("lm_info", tn_lm_info(lm, NULL));
    FAILS("lm_cache_new", tn_lm_cache_new_with(NULL, 1, NULL));
    FAILS("lm_cache_new", tn_lm_cache_new_with(odd, 1, NULL));
    FAILS_STATUS("lm_cache_begin", tn_lm_cache_begin(NULL, 0, 1, 1));
    FAILS_STATUS("lm_cache_end", tn_lm_cache_end(NULL, 0));
    FAILS_STATUS("lm_cache_cut", tn_lm_cache_cut(NULL, 0, 0));
    FAILS_STATUS("lm_cache_fork", tn_lm_cache_fork(NULL, 0, 0, 0, 1, 1));
    ok(tn_lm_cache_length(NULL, 0) == 0 && !tn_error(), "lm_cache_length");
    FAILS("lm_decode", tn_lm_decode(NULL, NULL, 0));
    FAILS("lm_decode", tn_lm_decode(cache, NULL, 1));
    tn_lm_cache_begin(cache, 0, 4, 3);
    FAILS("lm_decode",
          tn_lm_decode(cache, &(tn_lm_tokens){0, NULL, 2, false}, 1));
    FAILS("lm_batch_new", tn_lm_batch_new_with(NULL, 1, NULL));
    FAILS_STATUS("lm_batch_add", tn_lm_batch_add_with(NULL, ids, 3, NULL));
    FAILS_STATUS("lm_batch_add", tn_lm_batch_add_with(batch, NULL, 3, NULL));
    FAILS_STATUS("lm_batch_step", tn_lm_batch_step(NULL));
    FAILS_STATUS("lm_batch_remove", tn_lm_batch_remove(NULL, 0));
    ok(!tn_lm_batch_ids(NULL, 0) && !tn_lm_batch_logprobs(NULL, 0) &&
           !tn_lm_batch_length(NULL, 0) && !tn_lm_batch_cached(NULL, 0) && !tn_lm_batch_end(NULL, 0) &&
           !tn_lm_batch_ids(batch, 0) && !tn_error(),
       "attributes of a batch");
    FAILS("lm_generate", tn_lm_generate_with(NULL, ids, 3, NULL));
    FAILS("lm_generate", tn_lm_generate_with(lm, NULL, 3, NULL));
    ok(!tn_lm_result_count(NULL) && !tn_lm_result_ids(NULL, 0) &&
           !tn_lm_result_logprobs(NULL, 0) && !tn_lm_result_length(NULL, 0) &&
           !tn_lm_result_end(NULL, 0) && !tn_error(),
       "attributes of a result");
    failed("lm_score", isnan(tn_lm_score(NULL, ids, 3, NULL)));
    failed("lm_score", isnan(tn_lm_score(lm, NULL, 3, NULL)));
    FAILS("lm_embed", tn_lm_embed_with(NULL, texts, lengths, 1, NULL));
    FAILS("lm_embed", tn_lm_embed_with(lm, NULL, lengths, 1, NULL));
    FAILS("lm_embed", tn_lm_embed_with(lm, no_text, lengths, 1, NULL));
    FAILS("lm_embed", tn_lm_embed_with(lm, texts, NULL, 1, NULL));
    FAILS("lm_embed", tn_lm_embed(lm, texts, lengths, 1, .pooling = "sum"));
    FAILS("lm_embed", tn_lm_embed(lm, texts, lengths, 1, .normalize = 2));
    FAILS("lm_rotary", tn_lm_rotary(8, .scaling = NULL));
    tn_lm_generate_options options;
    is_int(tn_options_init("lm_generate", &options, sizeof options), TN_OK,
           "options_init knows the options of this library");
    ok(options.max_tokens == 128 && options.top_p == 1, "with their defaults");
    is_int(tn_options_init("sum", &(tn_sum_options){0}, sizeof(tn_sum_options)),
           TN_OK, "and those of libtenon");
}

/* Each call either works or fails with an error; the next call works. */
static void numbers(tn_lm *lm)
{
    int64_t ids[] = {3, 4, 5};
    const int64_t *texts[] = {ids};
    tn_lm_cache *cache = tn_lm_cache_new(lm, 2);
    tn_lm_batch *batch = tn_lm_batch_new(lm, 1);
    int silent = 0;
#define TRY(works)                                                             \
    do {                                                                       \
        silent += !(works) != (tn_error() != NULL);                            \
        tn_error_clear();                                                      \
    } while (0)
    for (int i = 0; i < SIZES; i++) {
        const int64_t n = sizes[i];
        const int few = n < INT32_MIN   ? INT32_MIN
                        : n > INT32_MAX ? INT32_MAX
                                        : (int)n;
        tn_scope *scope = tn_scope_open();
        TRY(tn_lm_cache_new(lm, few));
        TRY(tn_lm_cache_begin(cache, few, 3, 3) == TN_OK);
        TRY(tn_lm_cache_begin(cache, 0, n < 0 ? n : n % 1000, 0) == TN_OK);
        TRY(tn_lm_cache_begin(cache, 0, 3, n) == TN_OK);
        TRY(tn_lm_cache_end(cache, few) == TN_OK);
        TRY(tn_lm_cache_cut(cache, 0, n) == TN_OK);
        TRY(tn_lm_cache_begin(cache, 0, 3, 3) == TN_OK);
        TRY(tn_lm_cache_fork(cache, few, 0, 0, 3, 3) == TN_OK);
        TRY(tn_lm_cache_fork(cache, 1, few, 0, 3, 3) == TN_OK);
        TRY(tn_lm_cache_fork(cache, 1, 0, n, 3, 3) == TN_OK);
        TRY(tn_lm_cache_fork(cache, 1, 0, 0, n < 0 ? n : n % 1000, 0) == TN_OK);
        TRY(tn_lm_cache_fork(cache, 1, 0, 0, 3, n) == TN_OK);
        if (n < 1) {
            TRY(tn_lm_decode(cache, &(tn_lm_tokens){0, ids, n, false}, 1));
            TRY(tn_lm_generate(lm, ids, n));
            TRY(tn_lm_batch_add(batch, ids, n) >= 0);
            TRY(!isnan(tn_lm_score(lm, ids, n, NULL)));
            TRY(tn_lm_embed(lm, texts, &n, 1));
            TRY(tn_lm_embed(lm, texts, (int64_t[]){3}, few));
        }
        TRY(tn_lm_decode(cache, &(tn_lm_tokens){few, ids, 1, false}, 1));
        TRY(tn_lm_decode(cache, &(tn_lm_tokens){0, &n, 1, false}, 1));
        TRY(tn_lm_batch_new(lm, few));
        TRY(tn_lm_batch_new(lm, 1, .block = n));
        TRY(tn_lm_batch_remove(batch, few) == TN_OK);
        TRY(tn_lm_generate(lm, &n, 1, .max_tokens = 1));
        TRY(tn_lm_generate(lm, ids, 3, .max_tokens = 2, .top_k = n));
        TRY(tn_lm_generate(lm, ids, 3, .max_tokens = 2, .eos = n ? n : 1));
        if (n < 1) {
            TRY(tn_lm_generate(lm, ids, 3, .max_tokens = n));
            TRY(tn_lm_generate(lm, ids, 3, .max_tokens = 1, .samples = few));
        }
        TRY(tn_lm_generate(lm, ids, 3, .max_tokens = 1, .best = few));
        TRY(tn_lm_rms_norm(n < INT32_MAX ? n : 0));
        TRY(tn_lm_rotary(n));
        TRY(tn_lm_attention(n < INT32_MAX ? n : 7, 3));
        TRY(tn_lm_attention(32, n));
        TRY(tn_lm_attention(32, 4, .kv_heads = n));
        TRY(tn_lm_attention(32, 4, .window = n));
        TRY(tn_lm_attention(32, 4, .head_dim = n == INT32_MAX ? -1 : n));
        TRY(tn_lm_mlp(n < INT32_MAX ? n : 0, 4));
        TRY(tn_lm_mlp(4, n < INT32_MAX ? n : 0));
        TRY(tn_lm_experts(4, 4, few < 100 ? few : 0, 1));
        TRY(tn_lm_experts(4, 4, 2, few));
        tn_scope_close(scope);
    }
    is_int(silent, 0, "a call fails if and only if it records an error");
    ok(tn_lm_generate(lm, ids, 3, .max_tokens = 2) != NULL,
       "the next call works");
}

/* ---- tokenizers and chats ------------------------------------------------ */

static void tokenizers(const char *path)
{
    tn_tokenizer *t = tn_tokenizer_open(path);
    tn_tokenizer *odd = (tn_tokenizer *)tn_ones(tn_dims(1));
    const char *texts[] = {"a", NULL};
    const tn_chat_message message = {"user", "hello", NULL};
    const int64_t ids[] = {1, 2};
    int64_t bytes;
    int silent = 0;
    if (!t)
        bail_out("%s", tn_error());
    FAILS("tokenizer_open", tn_tokenizer_open(NULL));
    FAILS("tokenizer_encode", tn_tokenizer_encode(NULL, "a"));
    FAILS("tokenizer_encode", tn_tokenizer_encode(odd, "a"));
    FAILS("tokenizer_encode", tn_tokenizer_encode(t, NULL));
    FAILS("tokenizer_batch", tn_tokenizer_batch(NULL, texts, 1));
    FAILS("tokenizer_batch", tn_tokenizer_batch(t, NULL, 1));
    FAILS("tokenizer_batch", tn_tokenizer_batch(t, texts, 2));
    FAILS("tokenizer_decode", tn_tokenizer_decode(NULL, ids, 2));
    FAILS("tokenizer_decode", tn_tokenizer_decode(t, NULL, 2));
    FAILS("detokenizer_new", tn_detokenizer_new(NULL));
    FAILS("detokenizer_new", tn_detokenizer_new(odd));
    FAILS("detokenizer_add", tn_detokenizer_add(NULL, 1));
    FAILS("detokenizer_end", tn_detokenizer_end(NULL));
    FAILS("chat_render", tn_chat_render(NULL, &message, 1));
    FAILS("chat_render", tn_chat_render(odd, &message, 1));
    FAILS("chat_render", tn_chat_render(t, NULL, 1, .jinja = "x"));
    ok(!tn_encoding_count(NULL) && !tn_encoding_ids(NULL) &&
           !tn_encoding_offsets(NULL) && !tn_encoding_types(NULL) &&
           !tn_encoding_special(NULL) && !tn_tokenizer_vocab_size(NULL) &&
           tn_tokenizer_id(NULL, "a") == -1 && tn_tokenizer_id(t, NULL) == -1 &&
           !tn_tokenizer_token(NULL, 0, &bytes) &&
           !tn_tokenizer_is_special(NULL, 0) &&
           tn_tokenizer_special_id(NULL, "bos") == -1 &&
           tn_tokenizer_special_id(t, NULL) == -1 &&
           !tn_tokenizer_chat_template(NULL) && !tn_error(),
       "what cannot fail returns nothing for NULL");
    for (int i = 0; i < SIZES; i++) {
        const int64_t n = sizes[i];
        tn_scope *scope = tn_scope_open();
        if (n < 1) {
            TRY(tn_tokenizer_encode(t, "a", .bytes = n));
            TRY(tn_tokenizer_batch(t, texts, n));
            TRY(tn_tokenizer_decode(t, ids, n));
            TRY(tn_chat_render(t, &message, n, .jinja = "x"));
        }
        TRY(tn_tokenizer_encode(t, "a b c", .max_count = n));
        TRY(tn_tokenizer_batch(t, texts, 1, .max_count = n));
        TRY(tn_tokenizer_decode(t, &n, 1));
        TRY(tn_detokenizer_add(tn_detokenizer_new(t), n));
        TRY(tn_chat_render(t, &message, 1, .jinja = "{{ strftime_now('%Y') }}",
                           .now = n));
        (void)tn_tokenizer_token(t, n, &bytes);
        (void)tn_tokenizer_is_special(t, n);
        is_int(tn_error_code(), 0, "no error for the id %lld", (long long)n);
        tn_scope_close(scope);
    }
    is_int(silent, 0, "a call fails if and only if it records an error");
    ok(tn_tokenizer_encode(t, "a") != NULL, "the next call works");
}

int main(void)
{
    char folder[4096];
    const char *source = getenv("top_srcdir"), *build = getenv("top_builddir");
    plan_later();
    snprintf(folder, sizeof folder, "%s/tests/lm/data/smollm",
             source ? source : ".");
    tn_lm *lm = tn_lm_open(folder);
    if (!lm)
        bail_out("%s", tn_error());
    nulls(lm);
    snprintf(folder, sizeof folder,
             "%s/tests/lm/tokenizers/tok/trained-bpe-gpt2.json",
             build ? build : ".");
    tokenizers(folder);
    numbers(lm);
    return done_testing();
}
