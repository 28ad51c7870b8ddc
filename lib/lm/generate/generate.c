/* generate.c: generates one or several samples for one prompt, and scores
 * texts. */
#include <lm/generate/kv_cache.h>
#include <lm/generate/sample.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

struct tn_lm_result {
    tn_object object;
    tn_lm_batch *batch; /* kept; contains the generated tokens */
    int count;
    int *order; /* owned; indices of the requests, best first */
};

static void release(void *object)
{
    tn_lm_result *result = object;
    free(result->order);
    tn_drop(result->batch);
}

static const tn_object_class result_class = {.size = sizeof result_class,
                                             .name = "generated text",
                                             .bytes = sizeof(tn_lm_result),
                                             .release = release};

TN_OPTIONS_TYPE(tn_lm_generate, "lm_generate", "lm, ids, count",
                TN_LM_GENERATE_OPTIONS_LIST)

/* Returns the options of the request for sample i. */
static tn_lm_batch_add_options options_of(const tn_lm_generate_options *o,
                                          int i)
{
    tn_lm_batch_add_options one = TN_LM_BATCH_ADD_OPTIONS;
#define COPY(type, name, fallback) one.name = o->name;
    TN_LM_REQUEST_ROWS(COPY)
#undef COPY
    one.seed += (uint64_t)i;
    return one;
}

static double mean_logprob(const tn_lm_batch *batch, int i)
{
    const double *logprob = tn_lm_batch_logprobs(batch, i);
    const int64_t count = tn_lm_batch_length(batch, i);
    double sum = 0;
    for (int64_t t = 0; t < count; t++)
        sum += logprob[t];
    return count ? sum / (double)count : -INFINITY;
}

/* Sorts the samples by their mean log-probability. Equal ones keep their
 * order. */
static void sort_samples(tn_lm_result *result, int samples)
{
    for (int i = 0; i < samples; i++) {
        const double mean = mean_logprob(result->batch, i);
        int at = i;
        for (; at > 0 &&
               mean_logprob(result->batch, result->order[at - 1]) < mean;
             at--)
            result->order[at] = result->order[at - 1];
        result->order[at] = i;
    }
}

static bool run_samples(tn_lm_batch *batch, const int64_t *ids, int64_t count,
                        const tn_lm_generate_options *o)
{
    for (int i = 0; i < o->samples; i++) {
        const tn_lm_batch_add_options one = options_of(o, i);
        if (tn_lm_batch_add_with(batch, ids, count, &one) < 0) {
            tn_error_rename("lm_batch_add", "lm_generate", NULL);
            return false;
        }
    }
    int running;
    while ((running = tn_lm_batch_step(batch)) > 0)
        ;
    if (running < 0)
        tn_error_rename("lm_batch_step", "lm_generate", NULL);
    return running == 0;
}

tn_lm_result *tn_lm_generate_with(tn_lm *lm, const int64_t *ids, int64_t count,
                                  const tn_lm_generate_options *options)
{
    static const char call[] = "lm_generate";
    tn_lm_generate_options o;
    if (tn_options_take(tn_lm_generate_type(), &o, options) < 0)
        return NULL;
    if (o.samples < 1 || o.samples > 65536 || o.best < 0 ||
        o.best > o.samples) {
        tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, o.best > o.samples ? "best" : "samples",
            "%d samples, the best %d: expected 1 to 65536 samples, and no more "
            "of them to return",
            o.samples, o.best);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_lm_batch *batch = tn_lm_batch_new(lm, o.samples, .block = o.block,
                                         .cache_dtype = o.cache_dtype);
    if (!batch)
        tn_error_rename("lm_batch_new", call, NULL);
    tn_lm_result *result = NULL;
    if (batch && run_samples(batch, ids, count, &o))
        result = tn_object_new(&result_class, 0);
    if (result) {
        tn__lm_batch_trim(batch);
        result->batch = tn_keep(batch);
        result->count = o.best ? o.best : o.samples;
        result->order = malloc((size_t)o.samples * sizeof *result->order);
        if (result->order)
            sort_samples(result, o.samples);
        else
            tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                     "out of memory");
    }
    return tn_scope_result(scope, tn_error() ? NULL : result);
}

/* ---- results ------------------------------------------------------------- */

int tn_lm_result_count(const tn_lm_result *result)
{
    return result && tn_object_check(result, &result_class, "lm_result_count",
                                     "result")
               ? result->count
               : 0;
}

/* Returns the index of the request for result i, or -1. */
static int request_of(const tn_lm_result *result, int i, const char *call)
{
    return result && tn_object_check(result, &result_class, call, "result") &&
                   i >= 0 && i < result->count
               ? result->order[i]
               : -1;
}

const int64_t *tn_lm_result_ids(const tn_lm_result *result, int i)
{
    const int at = request_of(result, i, "lm_result_ids");
    return at < 0 ? NULL : tn_lm_batch_ids(result->batch, at);
}

const double *tn_lm_result_logprobs(const tn_lm_result *result, int i)
{
    const int at = request_of(result, i, "lm_result_logprobs");
    return at < 0 ? NULL : tn_lm_batch_logprobs(result->batch, at);
}

int64_t tn_lm_result_length(const tn_lm_result *result, int i)
{
    const int at = request_of(result, i, "lm_result_length");
    return at < 0 ? 0 : tn_lm_batch_length(result->batch, at);
}

int tn_lm_result_end(const tn_lm_result *result, int i)
{
    const int at = request_of(result, i, "lm_result_end");
    return at < 0 ? TN_LM_RUNNING : tn_lm_batch_end(result->batch, at);
}

/* ---- the score of a text ------------------------------------------------- */

/* Maximum bytes of logits that are computed at a time. */
enum { SCORE_BYTES = 8 << 20 };

/* Computes the log-probabilities of the tokens that follow ids[from] to
 * ids[from + count - 1]. */
static bool score_block(tn_lm_cache *cache, const int64_t *ids, int64_t from,
                        int64_t count, float *row, double *out, double *sum)
{
    const int64_t vocab = cache->lm->spec.vocab;
    const tn_lm_tokens list = {0, ids + from, count, true};
    tn_tensor *logits = tn__lm_in_dtype(tn_lm_decode(cache, &list, 1), TN_F32);
    if (!logits || tn_tensor_to_array(
                       logits, row, (size_t)(count * vocab) * sizeof *row) < 0)
        return false;
    for (int64_t i = 0; i < count; i++) {
        const float *x = row + i * vocab;
        const double p =
            (double)x[ids[from + i + 1]] - tn__lm_log_sum(x, vocab);
        if (out)
            out[from + i] = p;
        *sum += p;
    }
    return true;
}

double tn_lm_score(tn_lm *lm, const int64_t *ids, int64_t count, double *out)
{
    static const char call[] = "lm_score";
    if (!tn__lm_is_model(lm, call) || tn_error() ||
        !tn__lm_check_ids(lm, ids, count, call))
        return NAN;
    if (count < 2) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "count",
                                 "count is %" PRId64 "; expected at least two "
                                 "tokens", count);
        return NAN;
    }
    const int64_t vocab = lm->spec.vocab;
    int64_t block = SCORE_BYTES / 4 / vocab;
    block = block < 1 ? 1 : block > 512 ? 512 : block;
    tn_scope *scope = tn_scope_open();
    tn_lm_cache *cache = tn_lm_cache_new(lm, 1);
    tn_error_rename("lm_cache_new", call, NULL);
    float *row = malloc((size_t)(block * vocab) * sizeof *row);
    bool fine = cache && row;
    if (cache && !row)
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    if (fine && tn_lm_cache_begin(cache, 0, count - 1, count - 1) < 0) {
        tn_error_rename("lm_cache_begin", call, "count");
        fine = false;
    }
    double sum = 0;
    for (int64_t at = 0; fine && at < count - 1; at += block) {
        tn_scope *step = tn_scope_open();
        fine = score_block(cache, ids, at,
                           block < count - 1 - at ? block : count - 1 - at, row,
                           out, &sum);
        tn_scope_close(step);
    }
    free(row);
    tn_scope_close(scope);
    return fine ? exp(-sum / (double)(count - 1)) : NAN;
}
