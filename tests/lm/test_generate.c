/* test_generate.c: tests that a request gets identical bits alone and in a
 * batch, for any block size of prompt tokens and any number of threads, that
 * sampling follows its options, and that wrong arguments are rejected. */
#include <tap.h>
#include <tenon/lm.h>
#include <tenon/tenon.h>

static char folder[4096];

static tn_lm *open_model(const char *name, tn_dtype dtype)
{
    const char *source = getenv("top_srcdir");
    snprintf(folder, sizeof folder, "%s/tests/lm/data/%s",
             source ? source : ".", name);
    tn_lm *lm = dtype ? tn_lm_open(folder, .dtype = dtype) : tn_lm_open(folder);
    if (!lm)
        bail_out("%s", tn_error());
    return lm;
}

/* Makes a prompt that differs for each request. */
static void fill_prompt(int64_t *ids, int64_t count, int64_t which)
{
    for (int64_t i = 0; i < count; i++)
        ids[i] = 2 + (i * i * 7 + i * 13 + which * 29) % 62;
}

/* ---- one arithmetic ------------------------------------------------------ */

enum { REQUESTS = 5, TOKENS = 24, LONGEST = 150 };
static const int64_t lengths[REQUESTS] = {1, 7, 64, 65, 100};

typedef struct text {
    int64_t ids[TOKENS];
    double logprobs[TOKENS];
} text;

static void generate_alone(tn_lm *lm, int which, int64_t block, text *out)
{
    int64_t prompt[LONGEST];
    tn_scope *scope = tn_scope_open();
    fill_prompt(prompt, lengths[which], which);
    tn_lm_result *result =
        tn_lm_generate(lm, prompt, lengths[which], .max_tokens = TOKENS,
                       .temperature = which % 2, .seed = (uint64_t)which,
                       .top_p = 0.95, .ignore_eos = true, .block = block);
    if (!result)
        bail_out("%s", tn_error());
    memcpy(out->ids, tn_lm_result_ids(result, 0), sizeof out->ids);
    memcpy(out->logprobs, tn_lm_result_logprobs(result, 0),
           sizeof out->logprobs);
    tn_scope_close(scope);
}

/* Adds the requests to a batch one after another, each one `apart` steps after
 * the previous one, and generates them together. */
static void generate_together(tn_lm *lm, int apart, int64_t block, text *out)
{
    int64_t prompt[LONGEST];
    tn_scope *scope = tn_scope_open();
    tn_lm_batch *batch = tn_lm_batch_new(lm, REQUESTS, .block = block);
    int joined = 0, step = 0, running = 1;
    while (joined < REQUESTS || running > 0) {
        while (joined < REQUESTS && step >= joined * apart) {
            fill_prompt(prompt, lengths[joined], joined);
            if (tn_lm_batch_add(batch, prompt, lengths[joined],
                                .max_tokens = TOKENS, .temperature = joined % 2,
                                .seed = (uint64_t)joined, .top_p = 0.95,
                                .ignore_eos = true) != joined)
                bail_out("%s", tn_error());
            joined++;
        }
        running = tn_lm_batch_step(batch);
        if (running < 0)
            bail_out("%s", tn_error());
        step++;
    }
    for (int i = 0; i < REQUESTS; i++) {
        memcpy(out[i].ids, tn_lm_batch_ids(batch, i), sizeof out->ids);
        memcpy(out[i].logprobs, tn_lm_batch_logprobs(batch, i),
               sizeof out->logprobs);
    }
    tn_scope_close(scope);
}

static void same_bits_everywhere(const char *name, tn_dtype dtype)
{
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = open_model(name, dtype);
    static text want[REQUESTS], got[REQUESTS];
    const int threads = tn_num_threads();
    const char *kind = dtype ? tn_dtype_name(dtype) : "float32";
    for (int i = 0; i < REQUESTS; i++)
        generate_alone(lm, i, 512, &want[i]);
    static const int64_t blocks[] = {1, 3, 64, 100};
    for (size_t b = 0; b < 4; b++) {
        for (int i = 0; i < REQUESTS; i++)
            generate_alone(lm, i, blocks[b], &got[i]);
        ok(memcmp(got, want, sizeof got) == 0,
           "%s %s: prompts in blocks of %d tokens", name, kind, (int)blocks[b]);
    }
    static const int counts[] = {1, 2, 7};
    for (int t = 0; t < 3; t++) {
        tn_set_num_threads(counts[t]);
        generate_together(lm, t * 3, t ? 50 : 512, got);
        ok(memcmp(got, want, sizeof got) == 0,
           "%s %s: alone and in a batch, %d threads", name, kind, counts[t]);
    }
    tn_set_num_threads(threads);
    tn_scope_close(scope);
}

#define REFUSED(call, words)                                                   \
    do {                                                                       \
        bool failed = !(call);                                                 \
        const char *why = tn_error() ? tn_error() : "no error";                \
        ok(failed &&strstr(why, words), "refused: %s", why);                   \
        tn_error_clear();                                                      \
    } while (0)

/* ---- beginnings that requests share -------------------------------------- */

/* Runs a request and compares it with the same request alone. If cached is not
 * negative, it is the expected number of reused tokens. */
static void same_as_alone(tn_lm *lm, tn_lm_batch *batch, const int64_t *ids,
                          int64_t count, int64_t cached, const char *what)
{
    tn_lm_result *alone = tn_lm_generate(lm, ids, count, .max_tokens = 9,
                                         .temperature = 1, .seed = 4,
                                         .ignore_eos = true);
    int r = tn_lm_batch_add(batch, ids, count, .max_tokens = 9,
                            .temperature = 1, .seed = 4, .ignore_eos = true);
    while (r >= 0 && tn_lm_batch_step(batch) > 0)
        ;
    const double *got = tn_lm_batch_logprobs(batch, r);
    ok(alone && got &&
           !memcmp(got, tn_lm_result_logprobs(alone, 0), 9 * sizeof *got) &&
           !memcmp(tn_lm_batch_ids(batch, r), tn_lm_result_ids(alone, 0),
                   9 * sizeof(int64_t)),
       "%s: the bits of the request alone", what);
    if (cached >= 0)
        is_int(tn_lm_batch_cached(batch, r), cached, "%s: %d tokens are reused",
               what, (int)cached);
}

/* Runs a chat of several turns. Each prompt is the previous prompt, its answer,
 * and more tokens. */
static void turns(const char *name, bool counts)
{
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = open_model(name, TN_DTYPE_NONE);
    tn_lm_batch *batch = tn_lm_batch_new(lm, 1);
    tn_lm_batch *forgets = tn_lm_batch_new(lm, 1, .reuse = false);
    int64_t ids[LONGEST] = {0}, count = 11;
    fill_prompt(ids, LONGEST, 5);
    char what[64];
    int64_t held = 0; /* number of cached tokens: all but the last one, which
                       * has not been an input */
    for (int turn = 0; turn < 4; turn++) {
        snprintf(what, sizeof what, "%s, turn %d", name, turn + 1);
        same_as_alone(lm, batch, ids, count, counts ? held : -1, what);
        memcpy(ids + count, tn_lm_batch_ids(batch, turn), 9 * sizeof *ids);
        held = count + 8;
        count += 9 + 7 * turn;
    }
    ids[20] = ids[20] == 3 ? 4 : 3;
    same_as_alone(lm, batch, ids, 60, counts ? 20 : -1, "a token differs");
    same_as_alone(lm, batch, ids, 60, counts ? 59 : -1, "the same prompt");
    same_as_alone(lm, batch, ids, 33, counts ? 32 : -1, "its beginning");
    same_as_alone(lm, batch, ids + 1, 40, 0, "another text");
    same_as_alone(lm, forgets, ids, 40, 0, "without reuse");
    same_as_alone(lm, forgets, ids, 40, 0, "without reuse, again");
    ok(!tn_error(), "%s: without an error", name);
    tn_scope_close(scope);
}

/* Runs several requests at once whose prompts begin with the same tokens, in
 * blocks of a few tokens. */
static void forks(const char *name, int64_t block, int removed)
{
    enum { COUNT = 5 };
    static const int64_t count[COUNT] = {90, 90, 40, 70, 12};
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = open_model(name, TN_DTYPE_NONE);
    tn_lm_batch *batch = tn_lm_batch_new(lm, COUNT, .block = block);
    int64_t ids[COUNT][LONGEST];
    for (int i = 0; i < COUNT; i++) {
        fill_prompt(ids[i], LONGEST, 6);
        if (i == 3)
            ids[i][50] = 1; /* shares 50 tokens with the first request */
        tn_lm_batch_add(batch, ids[i], count[i], .max_tokens = 9,
                        .temperature = 1, .seed = 4, .ignore_eos = true);
    }
    for (int step = 0; step < 3; step++)
        tn_lm_batch_step(batch);
    if (removed >= 0)
        tn_lm_batch_remove(batch, removed);
    while (tn_lm_batch_step(batch) > 0)
        ;
    bool same = true;
    for (int i = 0; i < COUNT; i++) {
        tn_lm_result *alone = tn_lm_generate(
            lm, ids[i], count[i], .max_tokens = 9, .temperature = 1, .seed = 4,
            .ignore_eos = true);
        same = same && alone &&
               (i == removed ||
                !memcmp(tn_lm_batch_logprobs(batch, i),
                        tn_lm_result_logprobs(alone, 0), 9 * sizeof(double)));
    }
    ok(same && !tn_error(),
       "%s in blocks of %d: five that begin alike have the bits of each alone%s",
       name, (int)block, removed < 0 ? "" : ", though one is removed");
    static const int64_t cached[COUNT] = {0, 89, 39, 50, 0};
    for (int i = 0; removed < 0 && i < COUNT; i++)
        is_int(tn_lm_batch_cached(batch, i), cached[i], "request %d reuses %d",
               i, (int)cached[i]);
    tn_scope_close(scope);
}

/* Draws several samples of one prompt, whose keys and values are computed once.
 * In each step the callback of the first sample is called first. All samples
 * equal those of separate requests. */
static void samples_share(void)
{
    tn_lm *lm = open_model("llama", TN_DTYPE_NONE);
    int64_t ids[100];
    fill_prompt(ids, 100, 8);
    tn_lm_result *all =
        tn_lm_generate(lm, ids, 100, .samples = 4, .max_tokens = 6,
                       .temperature = 1, .seed = 20, .ignore_eos = true);
    int found = 0;
    for (uint64_t seed = 20; seed < 24; seed++) {
        tn_lm_result *one =
            tn_lm_generate(lm, ids, 100, .max_tokens = 6, .temperature = 1,
                           .seed = seed, .ignore_eos = true);
        for (int i = 0; i < 4; i++)
            if (!memcmp(tn_lm_result_logprobs(one, 0),
                        tn_lm_result_logprobs(all, i), 6 * sizeof(double))) {
                found++;
                break;
            }
    }
    is_int(found, 4, "four samples of a prompt have the bits of each alone");
}

/* Calls tn_lm_cache_fork directly. */
static void fork_calls(void)
{
    tn_lm *lm = open_model("llama", TN_DTYPE_NONE);
    tn_lm_cache *cache = tn_lm_cache_new(lm, 3);
    int64_t ids[LONGEST];
    fill_prompt(ids, LONGEST, 9);
    float a[64], b[64];
    tn_lm_tokens t = {0, ids, 80, false};
    tn_lm_cache_begin(cache, 0, 90, 80);
    tn_lm_decode(cache, &t, 1);
    t.ids += 80, t.count = 1;
    tn_tensor_to_array(tn_lm_decode(cache, &t, 1), a, sizeof a);
    is_int(tn_lm_cache_fork(cache, 1, 0, 80, 140, 80), TN_OK,
           "a sequence continues the beginning of another");
    t.sequence = 1;
    tn_tensor_to_array(tn_lm_decode(cache, &t, 1), b, sizeof b);
    ok(!memcmp(a, b, sizeof a), "with the same bits");
    is_int(tn_lm_cache_fork(cache, 1, 1, 70, 80, 75), TN_OK,
           "or its own, with less room");
    is_int(tn_lm_cache_length(cache, 1), 70, "it holds that many tokens");
    t.ids = ids + 70, t.count = 10;
    ok(tn_lm_decode(cache, &t, 1) != NULL, "ten fit");
    REFUSED(tn_lm_decode(cache, &t, 1), "80 of 80");
    REFUSED(tn_lm_cache_fork(cache, 1, 2, 3, 9, 9) == TN_OK, "has not begun");
    REFUSED(tn_lm_cache_fork(cache, 1, 0, 82, 90, 90) == TN_OK, "holds 81");
    REFUSED(tn_lm_cache_fork(cache, 1, 0, 50, 40, 40) == TN_OK, "room for 40");
    REFUSED(tn_lm_cache_fork(cache, 1, 0, 50, 90, 40) == TN_OK,
            "at least the length, 50");
    REFUSED(tn_lm_cache_fork(cache, 1, 3, 1, 9, 9) == TN_OK, "0 to 2");
    REFUSED(tn_lm_cache_fork(cache, 9, 0, 1, 9, 9) == TN_OK, "0 to 2");
    REFUSED(tn_lm_cache_fork(cache, 1, 0, 1, 0, 0) == TN_OK,
            "the model allows 1");
    is_int(tn_lm_cache_length(cache, 1), 80, "which changes nothing");
    tn_lm *scaled = open_model("rope_longrope", TN_DTYPE_NONE);
    cache = tn_lm_cache_new(scaled, 2);
    tn_lm_cache_begin(cache, 0, 140, 5);
    t = (tn_lm_tokens){0, ids, 5, false};
    tn_lm_decode(cache, &t, 1);
    REFUSED(tn_lm_cache_fork(cache, 1, 0, 5, 140, 100) == TN_OK, "scaled");
}

static void scores_and_embeddings(void)
{
    tn_lm *lm = open_model("llama", TN_DTYPE_NONE);
    int64_t ids[LONGEST];
    fill_prompt(ids, LONGEST, 3);
    static double all[LONGEST], part[LONGEST];
    double perplexity = tn_lm_score(lm, ids, 120, all);
    tn_lm_score(lm, ids, 31, part);
    ok(memcmp(all, part, 30 * sizeof *all) == 0,
       "the score of a text's beginning has the same bits");
    double sum = 0;
    for (int i = 0; i < 119; i++)
        sum += all[i];
    is_double_near(perplexity, exp(-sum / 119), 1e-12,
                   "the perplexity is the mean's");
    /* compares with the result of tn_forward */
    tn_tensor *x = tn_tensor_from_array(ids, TN_I64, tn_dims(120));
    tn_tensor *loss =
        tn_cross_entropy(tn_narrow(tn_forward(tn_lm_module(lm), x), 0, 0, 119),
                         tn_narrow(x, 0, 1, 119));
    is_double_near(log(perplexity), tn_item(loss), 1e-5,
                   "and exp(cross entropy)");

    tn_lm *bert = open_model("bert", TN_DTYPE_NONE);
    const int64_t *texts[] = {ids, ids + 5, ids + 9};
    int64_t counts[] = {1, 30, 100};
    tn_tensor *three = tn_lm_embed(bert, texts, counts, 3);
    for (int i = 0; i < 3; i++) {
        float a[32], b[32];
        tn_tensor_to_array(tn_contiguous(tn_select(three, 0, i)), a, sizeof a);
        tn_tensor_to_array(tn_lm_embed(bert, texts + i, counts + i, 1), b,
                           sizeof b);
        ok(memcmp(a, b, sizeof a) == 0,
           "a text of %d tokens has the same embedding alone", (int)counts[i]);
    }
    ok(!tn_error(), "without an error");
}

/* ---- options ------------------------------------------------------------- */

static bool count_tokens(const tn_lm_token *token, void *context)
{
    int64_t *counted = context;
    if (token->index != *counted)
        *counted = -1000;
    return ++*counted < 4;
}

static void options(void)
{
    tn_lm *lm = open_model("smollm", TN_DTYPE_NONE);
    int64_t prompt[8];
    fill_prompt(prompt, 8, 1);
    tn_lm_result *plain =
        tn_lm_generate(lm, prompt, 8, .max_tokens = 10, .ignore_eos = true);
    const int64_t *ids = tn_lm_result_ids(plain, 0);
    is_int(tn_lm_result_length(plain, 0), 10, "max_tokens");
    is_int(tn_lm_result_end(plain, 0), TN_LM_LENGTH, "ends by its length");
    const double *logprobs = tn_lm_result_logprobs(plain, 0);
    ok(logprobs[0] < 0 && logprobs[0] > -10, "with log-probabilities");

    tn_lm_result *r =
        tn_lm_generate(lm, prompt, 8, .max_tokens = 10, .eos = ids[2]);
    int64_t first = 0;
    while (ids[first] != ids[2])
        first++;
    is_int(tn_lm_result_length(r, 0), first + 1, "eos ends the text");
    is_int(tn_lm_result_end(r, 0), TN_LM_EOS, "and says so");

    const int64_t pair[] = {ids[3], ids[4]};
    r = tn_lm_generate(lm, prompt, 8, .max_tokens = 10, .ignore_eos = true,
                       .stop = (tn_lm_stop[]){{pair, 2}}, .stop_count = 1);
    is_int(tn_lm_result_end(r, 0), TN_LM_STOPPED, "a stop sequence ends it");
    int64_t length = tn_lm_result_length(r, 0);
    ok(length <= 5 && tn_lm_result_ids(r, 0)[length - 1] == pair[1],
       "and stays in the text");

    r = tn_lm_generate(lm, prompt, 8, .max_tokens = 10, .ignore_eos = true,
                       .bias = (tn_lm_bias[]){{ids[0], -INFINITY}},
                       .bias_count = 1);
    bool seen = false;
    for (int i = 0; i < 10; i++)
        seen = seen || tn_lm_result_ids(r, 0)[i] == ids[0];
    ok(!seen, "a bias of -INFINITY forbids a token");
    r = tn_lm_generate(lm, prompt, 8, .max_tokens = 10, .ignore_eos = true,
                       .bias = (tn_lm_bias[]){{5, 1e6}}, .bias_count = 1);
    is_int(tn_lm_result_ids(r, 0)[9], 5, "a large one forces it");

    r = tn_lm_generate(lm, prompt, 8, .max_tokens = 60, .ignore_eos = true,
                       .presence_penalty = 1e6);
    int times[64] = {0};
    for (int i = 0; i < 60; i++)
        times[tn_lm_result_ids(r, 0)[i]]++;
    int most = 0;
    for (int i = 0; i < 64; i++)
        most = times[i] > most ? times[i] : most;
    is_int(most, 1, "a large presence penalty: no token twice");
    r = tn_lm_generate(lm, prompt, 8, .max_tokens = 4, .ignore_eos = true,
                       .repetition_penalty = 1e9);
    seen = false;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++)
            seen = seen || tn_lm_result_ids(r, 0)[i] == prompt[j];
    ok(r && !seen, "a large repetition penalty: none of the prompt");

    int64_t counted = 0;
    r = tn_lm_generate(lm, prompt, 8, .max_tokens = 10, .ignore_eos = true,
                       .on_token = count_tokens, .context = &counted);
    is_int(counted, 4, "the callback sees each token");
    is_int(tn_lm_result_end(r, 0), TN_LM_CANCELLED, "and ends the text");

    r = tn_lm_generate(lm, prompt, 8, .max_tokens = 6, .ignore_eos = true,
                       .samples = 5, .best = 3, .temperature = 1.5, .seed = 7);
    is_int(tn_lm_result_count(r), 3, "the three best of five");
    double mean[3] = {0};
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < 6; t++)
            mean[i] += tn_lm_result_logprobs(r, i)[t];
    ok(mean[0] >= mean[1] && mean[1] >= mean[2], "in falling order");
    ok(!tn_error(), "without an error");
}

/* Compares the frequency of each token in many draws with its probability. */
static void distribution(void)
{
    enum { DRAWS = 4000 };
    tn_lm *lm = open_model("llama", TN_DTYPE_NONE);
    int64_t prompt[4];
    fill_prompt(prompt, 4, 2);
    tn_tensor *logits = NULL;
    TN_NO_GRAD
    {
        logits = tn_forward(tn_lm_module(lm),
                            tn_tensor_from_array(prompt, TN_I64, tn_dims(4)));
    }
    double p[64], top[64];
    float row[64];
    tn_tensor_to_array(tn_contiguous(tn_select(logits, 0, 3)), row, sizeof row);
    double sum = 0;
    for (int i = 0; i < 64; i++)
        sum += p[i] = exp(row[i]);
    int share[3][64] = {{0}};
    for (int i = 0; i < DRAWS; i++) {
        tn_scope *scope = tn_scope_open();
        uint64_t seed = (uint64_t)i;
        tn_lm_batch *b = tn_lm_batch_new(lm, 3);
        tn_lm_batch_add(b, prompt, 4, .max_tokens = 1, .temperature = 1,
                        .seed = seed, .ignore_eos = true);
        tn_lm_batch_add(b, prompt, 4, .max_tokens = 1, .temperature = 1,
                        .seed = seed, .top_k = 3, .ignore_eos = true);
        tn_lm_batch_add(b, prompt, 4, .max_tokens = 1, .temperature = 1,
                        .seed = seed, .min_p = 0.5, .ignore_eos = true);
        tn_lm_batch_step(b);
        for (int k = 0; k < 3; k++)
            share[k][tn_lm_batch_ids(b, k)[0]]++;
        tn_scope_close(scope);
    }
    double worst = 0, largest = 0;
    for (int i = 0; i < 64; i++) {
        double d = fabs(share[0][i] / (double)DRAWS - p[i] / sum);
        worst = d > worst ? d : worst;
        largest = p[i] > largest ? p[i] : largest;
        top[i] = p[i];
    }
    /* 4000 draws: the standard deviation of a share is at most 0.008 */
    ok(worst < 0.032, "temperature 1 draws by the probabilities (%.3f)", worst);
    int kinds = 0, wrong = 0;
    for (int i = 0; i < 64; i++) {
        int better = 0;
        for (int j = 0; j < 64; j++)
            better += top[j] > top[i];
        kinds += share[1][i] > 0;
        wrong += share[1][i] > 0 && better >= 3;
        wrong += share[2][i] > 0 && p[i] < 0.5 * largest;
    }
    ok(kinds == 3 && wrong == 0, "top_k 3 and min_p 0.5 draw no other tokens");
}

/* ---- what is refused ----------------------------------------------------- */

static void refusals(void)
{
    tn_lm *lm = open_model("gpt2", TN_DTYPE_NONE);
    tn_lm *bert = open_model("bert", TN_DTYPE_NONE);
    int64_t ids[200];
    fill_prompt(ids, 200, 0);
    const int64_t bad[] = {3, 64};
    REFUSED(tn_lm_generate(lm, NULL, 3), "ids");
    REFUSED(tn_lm_generate(lm, ids, 0), "at least one token");
    REFUSED(tn_lm_generate(lm, bad, 2), "ids[1] is 64");
    REFUSED(tn_lm_generate(lm, ids, 200), "128 positions");
    REFUSED(tn_lm_generate(lm, ids, 5, .top_p = 0), "top_p");
    REFUSED(tn_lm_generate(lm, ids, 5, .temperature = -1), "temperature");
    REFUSED(tn_lm_generate(lm, ids, 5, .max_tokens = 0), "max_tokens");
    REFUSED(tn_lm_generate(lm, ids, 5, .eos = 64), "eos");
    REFUSED(tn_lm_generate(lm, ids, 5, .samples = 2, .best = 3), "best");
    REFUSED(tn_lm_generate(lm, ids, 5, .stop_count = 1), "stop");
    REFUSED(tn_lm_generate(lm, ids, 5, .cache_dtype = TN_I64), "int64");
    REFUSED(tn_lm_generate(bert, ids, 5), "encoder");
    tn_module_train(tn_lm_module(lm), true);
    REFUSED(tn_lm_generate(lm, ids, 5), "tn_module_eval");
    tn_module_eval(tn_lm_module(lm));
    tn_lm_cache *cache = tn_lm_cache_new(lm, 2);
    tn_lm_tokens t = {0, ids, 5, false};
    REFUSED(tn_lm_decode(cache, &t, 1), "has not begun");
    is_int(tn_lm_cache_begin(cache, 0, 8, 5), TN_OK, "a sequence begins");
    const tn_lm_tokens twice[] = {t, t};
    REFUSED(tn_lm_decode(cache, twice, 2), "listed twice");
    ok(tn_lm_decode(cache, &t, 1) != NULL, "five tokens fit");
    REFUSED(tn_lm_decode(cache, &t, 1), "5 of 8");
    is_int(tn_lm_cache_length(cache, 0), 5, "the length stays");
    REFUSED(tn_lm_cache_begin(cache, 2, 8, 5) == TN_OK, "sequences 0 to 1");
    REFUSED(tn_lm_cache_begin(cache, 1, 129, 5) == TN_OK, "1 to 128");
    REFUSED(tn_lm_cache_cut(cache, 0, 6) == TN_OK, "5 tokens of sequence 0");
    tn_lm_batch *batch = tn_lm_batch_new(lm, 1);
    is_int(tn_lm_batch_add(batch, ids, 5), 0, "the first request");
    REFUSED(tn_lm_batch_add(batch, ids, 5) >= 0, "full");
    REFUSED(tn_lm_batch_remove(batch, 3) == TN_OK, "request is 3");
    is_int(tn_lm_batch_remove(batch, 0), TN_OK, "a request leaves");
    is_int(tn_lm_batch_end(batch, 0), TN_LM_CANCELLED, "as cancelled");
    is_int(tn_lm_batch_add(batch, ids, 5, .max_tokens = 2), 1,
           "another takes its place");
    ok(isnan(tn_lm_score(lm, ids, 1, NULL)), "one token has no score");
    tn_error_clear();
    /* a cache that is truncated gives identical bits when it continues */
    float a[64], b[64];
    t.ids = ids + 5;
    t.count = 2;
    tn_tensor_to_array(tn_lm_decode(cache, &t, 1), a, sizeof a);
    tn_lm_cache_cut(cache, 0, 5);
    tn_tensor_to_array(tn_lm_decode(cache, &t, 1), b, sizeof b);
    ok(memcmp(a, b, sizeof a) == 0, "a sequence that was cut goes on");
}

int main(void)
{
    /* Only with this variable do opencl and cuda give identical bits alone and
     * in a batch. */
    setenv("TENON_DETERMINISTIC", "1", 1);
    plan_later();
    static const char *const names[] = {"llama", "mistral",       "gemma3",
                                        "gpt2",  "rope_longrope", "qwen3_moe",
                                        "phi3",  "gptneox"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        same_bits_everywhere(names[i], TN_DTYPE_NONE);
    same_bits_everywhere("llama", TN_F16);
    same_bits_everywhere("llama", TN_BF16);
    turns("llama", true);
    turns("mistral", true);
    turns("gpt2", true);
    turns("qwen3_moe", true);
    /* keys depend on the length of the prompt, so the number of reused tokens
     * is not checked */
    turns("rope_longrope", false);
    turns("rope_dynamic", false);
    for (int block = 7; block < 600; block += 50 * block) {
        forks("llama", block, -1);
        forks("gemma3", block, -1);
        for (int removed = 0; removed < 3; removed++)
            forks("llama", block, removed);
    }
    samples_share();
    fork_calls();
    scores_and_embeddings();
    options();
    distribution();
    refusals();
    return done_testing();
}
