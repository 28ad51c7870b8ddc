/* batch.c: generates the texts of several requests at once. While a request
 * runs, it uses one sequence of the cache. Its tokens remain readable until the
 * batch is freed.
 *
 * A request reuses the keys and values of another request, its source: the one
 * with the longest common prefix of tokens. If the source has ended, the new
 * request continues its sequence in place. If the source runs, the new request
 * waits until the shared keys and values are computed, and copies them. */
#include <lm/generate/kv_cache.h>
#include <lm/generate/sample.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>

typedef struct request {
    tn__lm_sampler sampler;
    int64_t *prompt;           /* owned */
    int64_t prompt_count, fed; /* fed: number of tokens of prompt and generated
                                  text in the cache */
    int64_t *ids;              /* owned; the generated tokens, with room for
                                  max_tokens */
    double *logprobs;          /* owned */
    int64_t count, most;
    int sequence; /* index of its sequence in the cache; -1: none */
    int64_t cached;         /* tokens of the prompt that were reused, not
                               computed */
    struct request *source; /* a running request; this one waits until its first
                               `shared` tokens are computed. NULL if it does not
                               wait */
    int64_t shared;
    int end;      /* TN_LM_RUNNING ... */
} request;

struct tn_lm_batch {
    tn_object object;
    tn_lm *lm;          /* kept */
    tn_lm_cache *cache; /* kept */
    request **request;  /* owned array of owned requests */
    request **user; /* owned array: for each sequence of the cache, the request
                       (lent) that used it last, or NULL */
    int count, running, most;
    int64_t block;
    bool reuse;
    bool stepping; /* a callback of tn_lm_batch_step is running */
};

static void request_free(request *r)
{
    if (!r)
        return;
    tn__lm_sampler_fini(&r->sampler);
    free(r->prompt);
    free(r->ids);
    free(r->logprobs);
    free(r);
}

static void release(void *object)
{
    tn_lm_batch *batch = object;
    for (int i = 0; i < batch->count; i++)
        request_free(batch->request[i]);
    free(batch->request);
    free(batch->user);
    tn_drop(batch->cache);
    tn_drop(batch->lm);
}

static const tn_object_class batch_class = {.size = sizeof batch_class,
                                            .name = "batch of requests",
                                            .bytes = sizeof(tn_lm_batch),
                                            .release = release};

TN_OPTIONS_TYPE(tn_lm_batch_new, "lm_batch_new", "lm, sequences",
                TN_LM_BATCH_NEW_OPTIONS_LIST)

tn_lm_batch *tn_lm_batch_new_with(tn_lm *lm, int sequences,
                                  const tn_lm_batch_new_options *options)
{
    static const char call[] = "lm_batch_new";
    tn_lm_batch_new_options o;
    if (tn_options_take(tn_lm_batch_new_type(), &o, options) < 0)
        return NULL;
    if (o.block < 1) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "block",
                                 "block is %" PRId64 "; expected at least 1",
                                 o.block);
        return NULL;
    }
    tn_lm_cache *cache = tn_lm_cache_new(lm, sequences, .dtype = o.cache_dtype);
    if (!cache) {
        tn_error_rename("lm_cache_new", call, NULL);
        return NULL;
    }
    tn_lm_batch *batch = tn_object_new(&batch_class, 0);
    if (!batch)
        return NULL;
    batch->lm = tn_keep(lm);
    batch->cache = tn_keep(cache);
    batch->most = sequences;
    batch->block = o.block;
    batch->reuse = o.reuse;
    batch->user = calloc((size_t)sequences, sizeof *batch->user);
    if (batch->user)
        return batch;
    tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    return NULL;
}

/* ---- tokens that requests share ------------------------------------------ */

/* A request waits for another one only to reuse at least this many tokens. For
 * fewer tokens, waiting takes longer than computing them. */
enum { LEAST_WAIT = 16 };

static bool is_idle(const tn_lm_batch *batch, int sequence)
{
    const request *user = batch->user[sequence];
    return !user || user->end != TN_LM_RUNNING;
}

/* Returns how many tokens at the beginning of a prompt can be reused from
 * `other`. These are tokens in the cache or, if other runs, tokens of its
 * prompt that will be. The last token of the prompt is always computed, because
 * its logits are needed. */
static int64_t common_tokens(const request *other, const int64_t *ids,
                             int64_t count)
{
    int64_t most = other->fed, i = 0;
    if (other->end == TN_LM_RUNNING && most < other->prompt_count)
        most = other->prompt_count;
    most = most < count - 1 ? most : count - 1;
    while (i < most && ids[i] == (i < other->prompt_count
                                      ? other->prompt[i]
                                      : other->ids[i - other->prompt_count]))
        i++;
    return i;
}

/* Returns the sequence that shares the longest prefix with a prompt, and stores
 * its length in *shared. Prefers an idle sequence to a running one of equal
 * length. Returns -1 if no sequence shares a token. */
static int find_source(const tn_lm_batch *batch, const int64_t *ids,
                       int64_t count, int64_t *shared)
{
    int best = -1;
    *shared = 0;
    for (int i = 0; batch->reuse && i < batch->most; i++) {
        const request *user = batch->user[i];
        if (!user)
            continue;
        const int64_t n = common_tokens(user, ids, count);
        if (!n || n < *shared ||
            (n == *shared && best >= 0 && !is_idle(batch, i)) ||
            (user->fed < n && n < LEAST_WAIT) ||
            !tn__lm_cache_fits(batch->cache, i, n, count))
            continue;
        best = i;
        *shared = n;
    }
    return best;
}

/* Returns an idle sequence: an empty one if there is one, else the sequence of
 * the oldest request. Returns -1 if all are in use. This cannot happen when a
 * request joins. */
static int idle_sequence(const tn_lm_batch *batch)
{
    for (int i = 0; i < batch->most; i++)
        if (!batch->user[i])
            return i;
    for (int k = 0; k < batch->count; k++)
        for (int i = 0; i < batch->most; i++)
            if (batch->user[i] == batch->request[k] && is_idle(batch, i))
                return i;
    return -1;
}

static int64_t positions_of(const request *r)
{
    return r->prompt_count + r->most - 1;
}

/* Copies the keys and values that a waiting request shares with its source, as
 * far as the source has computed them. If memory runs out, the request computes
 * its whole prompt itself. */
static void copy_shared(tn_lm_batch *batch, request *r, int from)
{
    const request *source = r->source;
    const int64_t n = r->shared < source->fed ? r->shared : source->fed;
    r->source = NULL;
    if (!n || tn_error())
        return;
    if (tn_lm_cache_fork(batch->cache, r->sequence, from, n, positions_of(r),
                         r->prompt_count) == TN_OK)
        r->fed = r->cached = n;
    else
        tn_error_clear();
}

/* Ends the wait of requests whose source is r, if r has computed the tokens
 * they share. If r ends, ends the wait of all of them. */
static void release_waiting(tn_lm_batch *batch, const request *r, bool ends)
{
    for (int i = 0; i < batch->most; i++) {
        request *other = batch->user[i];
        if (other && other->end == TN_LM_RUNNING && other->source == r &&
            (ends || r->fed >= other->shared))
            copy_shared(batch, other, r->sequence);
    }
}

/* ---- joining and leaving ------------------------------------------------- */

static void leave(tn_lm_batch *batch, request *r, int why)
{
    release_waiting(batch, r, true);
    r->end = why;
    r->source = NULL;
    tn__lm_sampler_fini(&r->sampler);
    if (!batch->reuse || !r->fed) {
        tn_lm_cache_end(batch->cache, r->sequence);
        batch->user[r->sequence] = NULL;
    }
    r->sequence = -1;
    batch->running--;
}

/* Gives a request a sequence, and reuses what the cache has of its prompt. */
static bool join(tn_lm_batch *batch, request *r, const char *call)
{
    tn_lm_cache *cache = batch->cache;
    int64_t shared;
    const int source = find_source(batch, r->prompt, r->prompt_count, &shared);
    const bool idle = source >= 0 && is_idle(batch, source);
    const int sequence = idle ? source : idle_sequence(batch);
    const bool ready = source >= 0 && batch->user[source]->fed >= shared;
    if (!idle) {
        tn_lm_cache_end(cache, sequence);
        batch->user[sequence] = NULL;
    }
    const tn_status status =
        ready ? tn_lm_cache_fork(cache, sequence, source, shared,
                                 positions_of(r), r->prompt_count)
              : tn_lm_cache_begin(cache, sequence, positions_of(r),
                                  r->prompt_count);
    if (status < 0) {
        tn_error_rename(ready ? "lm_cache_fork" : "lm_cache_begin", call,
                        "count");
        return false;
    }
    if (ready) {
        r->fed = r->cached = shared;
    } else if (source >= 0) {
        r->source = batch->user[source];
        r->shared = shared;
    }
    r->sequence = sequence;
    batch->user[sequence] = r;
    batch->running++;
    return true;
}

/* Returns how many tokens can be generated after a prompt: `wanted`, or as many
 * as there are learned positions. The last generated token needs no position,
 * because it is not fed back. */
static int64_t most_tokens(const tn_lm *lm, int64_t prompt, int64_t wanted)
{
    const tn__lm_spec *s = &lm->spec;
    const int64_t room =
        s->position_rows ? s->positions - prompt + 1 : INT32_MAX;
    return wanted < room ? wanted : room;
}

static request *request_new(tn_lm_batch *batch, const int64_t *ids,
                            int64_t count, const tn_lm_batch_add_options *o,
                            const char *call)
{
    request *r = calloc(1, sizeof *r);
    if (!r) {
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
        return NULL;
    }
    r->sequence = -1;
    r->most = most_tokens(batch->lm, count, o->max_tokens);
    if (tn__lm_sampler_init(&r->sampler, o, batch->lm->spec.vocab, ids, count,
                            call)) {
        r->prompt = malloc((size_t)count * sizeof *r->prompt);
        r->ids = malloc((size_t)r->most * sizeof *r->ids);
        r->logprobs = malloc((size_t)r->most * sizeof *r->logprobs);
        if (r->prompt && r->ids && r->logprobs) {
            memcpy(r->prompt, ids, (size_t)count * sizeof *ids);
            r->prompt_count = count;
            return r;
        }
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    }
    request_free(r);
    return NULL;
}

TN_OPTIONS_TYPE(tn_lm_batch_add, "lm_batch_add", "batch, ids, count",
                TN_LM_BATCH_ADD_OPTIONS_LIST)

static bool check_prompt(const tn_lm *lm, const int64_t *ids, int64_t count,
                         const char *call)
{
    const tn__lm_spec *s = &lm->spec;
    if (!tn__lm_check_ids(lm, ids, count, call))
        return false;
    if (!s->position_rows || count <= s->positions)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "count",
                             "count is %" PRId64 " tokens; the model has "
                             "%" PRId64 " positions",
                             count, s->positions);
    return false;
}

int tn_lm_batch_add_with(tn_lm_batch *batch, const int64_t *ids, int64_t count,
                         const tn_lm_batch_add_options *options)
{
    static const char call[] = "lm_batch_add";
    tn_lm_batch_add_options o;
    if (tn_options_take(tn_lm_batch_add_type(), &o, options) < 0 ||
        !tn_object_check(batch, &batch_class, call, "batch") || tn_error() ||
        !check_prompt(batch->lm, ids, count, call))
        return tn_error_code();
    if (batch->running == batch->most)
        return tn_error_refuse_argument(
            TN_ERR_STATE, call, "batch",
            "the batch is full: %d requests are running; wait until one ends",
            batch->running);
    request **list =
        realloc(batch->request, ((size_t)batch->count + 1) * sizeof *list);
    if (!list)
        return tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL,
                                        "out of memory");
    batch->request = list;
    request *r = request_new(batch, ids, count, &o, call);
    if (!r)
        return tn_error_code();
    if (!join(batch, r, call)) {
        request_free(r);
        return tn_error_code();
    }
    batch->request[batch->count] = r;
    return batch->count++;
}

void tn__lm_batch_trim(tn_lm_batch *batch)
{
    for (int i = 0; i < batch->most; i++)
        if (is_idle(batch, i)) {
            tn_lm_cache_end(batch->cache, i);
            batch->user[i] = NULL;
        }
}

static request *request_of(const tn_lm_batch *batch, int i, const char *call)
{
    return batch && tn_object_check(batch, &batch_class, call, "batch") &&
                   i >= 0 && i < batch->count
               ? batch->request[i]
               : NULL;
}

tn_status tn_lm_batch_remove(tn_lm_batch *batch, int i)
{
    static const char call[] = "lm_batch_remove";
    if (!tn_object_check(batch, &batch_class, call, "batch"))
        return tn_error_code();
    request *r = request_of(batch, i, call);
    if (!r)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "request",
                                        "request is %d; the batch has had %d "
                                        "requests, numbered from 0",
                                        i, batch->count);
    if (r->end == TN_LM_RUNNING)
        leave(batch, r, TN_LM_CANCELLED);
    return TN_OK;
}

/* ---- a step -------------------------------------------------------------- */

/* Fills list with the tokens that each running request feeds to the model, and
 * owner with these requests. In total, at most `block` tokens of prompts are
 * fed; requests for which none are left wait for the next step. */
static int fill_list(tn_lm_batch *batch, tn_lm_tokens *list, request **owner)
{
    int64_t left = batch->block;
    int count = 0;
    for (int i = 0; i < batch->count; i++) {
        request *r = batch->request[i];
        if (r->end != TN_LM_RUNNING || r->source)
            continue;
        const int64_t waiting = r->prompt_count - r->fed;
        tn_lm_tokens t = {r->sequence, r->ids + r->count - 1, 1, false};
        if (waiting > 0) {
            t.ids = r->prompt + r->fed;
            t.count = waiting < left ? waiting : left;
            left -= t.count;
        }
        if (t.count < 1)
            continue;
        owner[count] = r;
        list[count++] = t;
    }
    return count;
}

static bool is_eos(const tn_lm_batch *batch, const request *r, int64_t id)
{
    const tn_lm_batch_add_options *o = &r->sampler.o;
    if (o->ignore_eos)
        return false;
    if (o->eos != TN_NONE_INT)
        return id == o->eos;
    for (int i = 0; i < batch->lm->eos_count; i++)
        if (batch->lm->eos[i] == id)
            return true;
    return false;
}

static int index_of(const tn_lm_batch *batch, const request *r)
{
    int i = 0;
    while (batch->request[i] != r)
        i++;
    return i;
}

/* Samples a token, appends it to a request, and ends the request if a condition
 * for its end is met. */
static bool append(tn_lm_batch *batch, request *r, const float *logits)
{
    double logprob;
    const int64_t id = tn__lm_sample(&r->sampler, logits, &logprob);
    const tn_lm_batch_add_options *o = &r->sampler.o;
    if (id < 0) {
        tn_error_refuse_argument(
            TN_ERR_STATE, "lm_batch_step", NULL,
            "request %d: the logits are not finite, or bias "
            "forbids every token",
            index_of(batch, r));
        return false;
    }
    r->ids[r->count] = id;
    r->logprobs[r->count++] = logprob;
    const tn_lm_token token = {index_of(batch, r), id, r->count - 1, logprob};
    const bool more = !o->on_token || o->on_token(&token, o->context);
    if (r->end != TN_LM_RUNNING) /* the callback removed it */
        return true;
    if (is_eos(batch, r, id))
        leave(batch, r, TN_LM_EOS);
    else if (tn__lm_stops(&r->sampler, r->ids, r->count))
        leave(batch, r, TN_LM_STOPPED);
    else if (!more)
        leave(batch, r, TN_LM_CANCELLED);
    else if (r->count == r->most)
        leave(batch, r, TN_LM_LENGTH);
    return true;
}

/* Runs the model and appends the new tokens. */
static bool run(tn_lm_batch *batch, const tn_lm_tokens *list,
                request *const *owner, int count)
{
    const size_t vocab = (size_t)batch->lm->spec.vocab;
    tn_tensor *logits = tn_lm_decode(batch->cache, list, count);
    if (!logits) {
        tn_error_rename("lm_decode", "lm_batch_step", NULL);
        return false;
    }
    logits = tn__lm_in_dtype(logits, TN_F32);
    float *row = malloc((size_t)count * vocab * sizeof *row);
    if (!row)
        tn_error_refuse_argument(TN_ERR_MEMORY, "lm_batch_step", NULL,
                                 "out of memory");
    bool fine =
        row && tn_tensor_to_array(logits, row,
                                  (size_t)count * vocab * sizeof *row) == TN_OK;
    for (int i = 0; fine && i < count; i++) {
        owner[i]->fed += list[i].count;
        release_waiting(batch, owner[i], false);
    }
    for (int i = 0; fine && i < count; i++)
        if (owner[i]->end == TN_LM_RUNNING &&
            owner[i]->fed >= owner[i]->prompt_count)
            fine = append(batch, owner[i], row + (size_t)i * vocab);
    free(row);
    return fine;
}

int tn_lm_batch_step(tn_lm_batch *batch)
{
    static const char call[] = "lm_batch_step";
    if (!tn_object_check(batch, &batch_class, call, "batch") || tn_error())
        return tn_error_code();
    if (batch->stepping)
        return tn_error_refuse_argument(TN_ERR_STATE, call, "batch",
                                        "a callback of a step is running");
    if (!batch->running)
        return 0;
    const size_t room = (size_t)batch->running;
    tn_lm_tokens *list = calloc(room, sizeof *list);
    request **owner = calloc(room, sizeof *owner);
    bool fine = list && owner;
    if (!fine)
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
    batch->stepping = true;
    tn_scope *scope = tn_scope_open();
    fine = fine && run(batch, list, owner, fill_list(batch, list, owner));
    tn_scope_close(scope);
    batch->stepping = false;
    free(list);
    free(owner);
    return fine ? batch->running : (int)tn_error_code();
}

/* ---- results ------------------------------------------------------------- */

const int64_t *tn_lm_batch_ids(const tn_lm_batch *batch, int i)
{
    const request *r = request_of(batch, i, "lm_batch_ids");
    return r ? r->ids : NULL;
}

const double *tn_lm_batch_logprobs(const tn_lm_batch *batch, int i)
{
    const request *r = request_of(batch, i, "lm_batch_logprobs");
    return r ? r->logprobs : NULL;
}

int64_t tn_lm_batch_cached(const tn_lm_batch *batch, int i)
{
    const request *r = request_of(batch, i, "lm_batch_cached");
    return r ? r->cached : 0;
}

int64_t tn_lm_batch_length(const tn_lm_batch *batch, int i)
{
    const request *r = request_of(batch, i, "lm_batch_length");
    return r ? r->count : 0;
}

int tn_lm_batch_end(const tn_lm_batch *batch, int i)
{
    const request *r = request_of(batch, i, "lm_batch_end");
    return r ? r->end : TN_LM_RUNNING;
}
