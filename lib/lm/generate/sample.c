/* sample.c: chooses a token from logits, on the host, in double. */
#include <base/nearest.h>
#include <lm/generate/sample.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensor.h>

/* ---- sums of exponentials ------------------------------------------------ */

/* Each token needs the exponential of every logit, for its log-probability: on
 * Zen 5, 32,000 of them take 19 us with 64-byte vectors, 83 with 16-byte ones,
 * and 150 by exp of libm. The compiler makes the loops for several instruction
 * sets, of which the best is chosen when the library is loaded. The vectors
 * have the same lanes and the same operations in all sets, and so the same
 * bits. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) &&        \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define EACH_SET __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EACH_SET
#endif
enum { LANES = 8 };
typedef double lanes __attribute__((vector_size(64)));
typedef int64_t lanes_i64 __attribute__((vector_size(64)));
typedef float lanes_f32 __attribute__((vector_size(32)));
typedef int32_t lanes_i32 __attribute__((vector_size(32)));

/* Replaces x by exp(x), with a relative error of at most 5e-16, for x from
 * -INFINITY to 0, and NaN for NaN. Below -700 the result is 0. exp(x) = 2^n
 * exp(r), where n is the integer nearest to x / log(2), and exp(r) is a Taylor
 * polynomial: |r| is at most log(2) / 2, and r^14 / 14! is 4e-18. The
 * polynomial is evaluated by Estrin's scheme, whose operations depend less on
 * each other than Horner's. */
static inline __attribute__((always_inline)) void exp_of(lanes *at)
{
    const lanes_i64 large = ~(*at < -700.0);
    const lanes x = (lanes)((lanes_i64)*at & large);
    /* adding 1.5 * 2^52 rounds to an integer, which is in the lowest bits */
    const lanes moved = x * 0x1.71547652b82fep0 + 0x1.8p52;
    const lanes n = moved - 0x1.8p52;
    /* log(2) in two parts, of which the first has 32 bits */
    const lanes r = x - n * 0x1.62e42feep-1 - n * 0x1.a39ef35793c76p-33;
    const lanes r2 = r * r, r4 = r2 * r2;
    const lanes a = (1.0 + r) + r2 * (0.5 + r * (1. / 6));
    const lanes b =
        (1. / 24 + r * (1. / 120)) + r2 * (1. / 720 + r * (1. / 5040));
    const lanes c = (1. / 40320 + r * (1. / 362880)) +
                    r2 * (1. / 3628800 + r * (1. / 39916800));
    const lanes d = 1. / 479001600 + r * (1. / 6227020800);
    const lanes y = (a + r4 * b) + r4 * r4 * (c + r4 * d);
    const lanes_i64 power = (lanes_i64)moved << 52;
    *at = (lanes)(((lanes_i64)y + power) & large);
}

/* Returns the sum of `count` lanes, in order. */
static inline __attribute__((always_inline)) double sum_of(const lanes *v,
                                                           int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (*v)[i];
    return sum;
}

/* Replaces each x[i] by exp((x[i] - largest) / temperature). Returns their
 * sum. */
EACH_SET static double exponentials(double *x, int64_t count, double largest,
                                    double temperature)
{
    lanes sum = {0}, v;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        v = (v - largest) / temperature;
        exp_of(&v);
        memcpy(x + i, &v, sizeof v);
        sum += v;
    }
    double all = sum_of(&sum, LANES);
    if (i < count) {
        const size_t bytes = (size_t)(count - i) * sizeof *x;
        v = (lanes){0};
        memcpy(&v, x + i, bytes);
        v = (v - largest) / temperature;
        exp_of(&v);
        memcpy(x + i, &v, bytes);
        all += sum_of(&v, count - i);
    }
    return all;
}

/* Returns the sum of exp(logits[i] - largest). */
EACH_SET static double sum_exponentials(const float *logits, int64_t count,
                                        float largest)
{
    lanes sum = {0}, v;
    int64_t i = 0;
    lanes_f32 some = {0};
    for (; i + LANES <= count; i += LANES) {
        memcpy(&some, logits + i, sizeof some);
        v = __builtin_convertvector(some, lanes) - (double)largest;
        exp_of(&v);
        sum += v;
    }
    double all = sum_of(&sum, LANES);
    if (i < count) {
        memcpy(&some, logits + i, (size_t)(count - i) * sizeof *logits);
        v = __builtin_convertvector(some, lanes) - (double)largest;
        exp_of(&v);
        all += sum_of(&v, count - i);
    }
    return all;
}

/* Returns the largest of the logits that are not NaN, or -INFINITY. */
EACH_SET static float largest_of(const float *logits, int64_t count)
{
    lanes_f32 most, v;
    for (int l = 0; l < LANES; l++)
        most[l] = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        memcpy(&v, logits + i, sizeof v);
        const lanes_i32 above = v > most;
        most = (lanes_f32)(((lanes_i32)v & above) |
                           ((lanes_i32)most & ~above));
    }
    float largest = -INFINITY;
    for (int l = 0; l < LANES; l++)
        largest = most[l] > largest ? most[l] : largest;
    for (; i < count; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    return largest;
}

double tn__lm_log_sum(const float *logits, int64_t count)
{
    TN__ROUND_NEAREST;
    const float largest = largest_of(logits, count);
    return (double)largest + log(sum_exponentials(logits, count, largest));
}

/* ---- options ------------------------------------------------------------- */

static bool refuse(const char *call, const char *argument, const char *why)
{
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument, ".%s: %s",
                             argument, why);
    return false;
}

/* Returns `fine`. If it is false, also records the error that option `argument`
 * has the value x. */
static bool check_number(const char *call, const char *argument, double x,
                         bool fine, const char *expected)
{
    if (!fine)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                                 ".%s is %.15g; expected %s", argument, x,
                                 expected);
    return fine;
}

static bool is_token(int64_t id, int64_t vocab)
{
    return id >= 0 && id < vocab;
}

static bool check_lists(const tn_lm_batch_add_options *o, int64_t vocab,
                        const char *call)
{
    if (o->bias_count < 0 || (o->bias_count && !o->bias))
        return refuse(call, "bias", "expected both bias and bias_count, or "
                      "neither");
    for (int i = 0; i < o->bias_count; i++)
        if (!is_token(o->bias[i].id, vocab) || isnan(o->bias[i].value) ||
            o->bias[i].value == INFINITY)
            return tn_error_refuse_argument(
                       TN_ERR_ARGUMENT, call, "bias",
                       ".bias[%d] is token %" PRId64 " with value %g; expected "
                       "a token below %" PRId64 ", and a finite value or "
                       "-INFINITY", i, (int64_t)o->bias[i].id,
                       (double)o->bias[i].value, vocab),
                   false;
    if (o->stop_count < 0 || (o->stop_count && !o->stop))
        return refuse(call, "stop", "expected both stop and stop_count, or "
                      "neither");
    for (int i = 0; i < o->stop_count; i++)
        if (!o->stop[i].ids || o->stop[i].count < 1)
            return tn_error_refuse_argument(
                       TN_ERR_ARGUMENT, call, "stop",
                       ".stop[%d] is empty; expected at least one token", i),
                   false;
    return true;
}

static bool check(const tn_lm_batch_add_options *o, int64_t vocab,
                  const char *call)
{
    if (!check_number(call, "max_tokens", (double)o->max_tokens,
                      o->max_tokens >= 1 && o->max_tokens <= INT32_MAX,
                      "1 to 2147483647") ||
        !check_number(call, "temperature", o->temperature,
                      o->temperature >= 0 && isfinite(o->temperature),
                      "a finite number of at least 0") ||
        !check_number(call, "top_k", (double)o->top_k, o->top_k >= 0,
                      "at least 0, which means no limit") ||
        !check_number(call, "top_p", o->top_p, o->top_p > 0 && o->top_p <= 1,
                      "a number above 0, at most 1") ||
        !check_number(call, "min_p", o->min_p, o->min_p >= 0 && o->min_p <= 1,
                      "a number from 0 to 1") ||
        !check_number(call, "repetition_penalty", o->repetition_penalty,
                      o->repetition_penalty > 0 &&
                          isfinite(o->repetition_penalty),
                      "a finite number above 0") ||
        !check_number(call, "presence_penalty", o->presence_penalty,
                      isfinite(o->presence_penalty), "a finite number") ||
        !check_number(call, "frequency_penalty", o->frequency_penalty,
                      isfinite(o->frequency_penalty), "a finite number"))
        return false;
    if (o->eos != TN_NONE_INT && !is_token(o->eos, vocab))
        return tn_error_refuse_argument(
                   TN_ERR_ARGUMENT, call, "eos",
                   ".eos is token %" PRId64 "; the vocabulary has %" PRId64
                   " tokens", o->eos, vocab),
               false;
    if (o->eos != TN_NONE_INT && o->ignore_eos)
        return refuse(call, "ignore_eos", "give either eos or ignore_eos, not "
                      "both");
    return check_lists(o, vocab, call);
}

static bool copy_stops(tn__lm_sampler *s, const tn_lm_batch_add_options *o)
{
    size_t all = 0, at = 0;
    for (int i = 0; i < o->stop_count; i++)
        all += (size_t)o->stop[i].count;
    s->stop = malloc((all + 1) * sizeof *s->stop);
    s->stop_length =
        malloc(((size_t)o->stop_count + 1) * sizeof *s->stop_length);
    if (!s->stop || !s->stop_length)
        return false;
    for (int i = 0; i < o->stop_count; i++) {
        const size_t length = (size_t)o->stop[i].count;
        memcpy(s->stop + at, o->stop[i].ids, length * sizeof *s->stop);
        s->stop_length[i] = o->stop[i].count;
        at += length;
    }
    return true;
}

bool tn__lm_sampler_init(tn__lm_sampler *s,
                         const tn_lm_batch_add_options *options, int64_t vocab,
                         const int64_t *prompt, int64_t count, const char *call)
{
    *s = (tn__lm_sampler){
        .o = *options, .vocab = vocab, .random = options->seed};
    if (!check(options, vocab, call))
        return false;
    const size_t n = (size_t)vocab;
    s->made = calloc(n, sizeof *s->made);
    s->prompted = calloc(n, sizeof *s->prompted);
    s->logit = malloc(n * sizeof *s->logit);
    s->heap = malloc(n * sizeof *s->heap);
    s->bias = malloc(((size_t)options->bias_count + 1) * sizeof *s->bias);
    if (!s->made || !s->prompted || !s->logit || !s->heap || !s->bias ||
        !copy_stops(s, options)) {
        tn_error_refuse_argument(TN_ERR_MEMORY, call, NULL, "out of memory");
        return false;
    }
    if (options->bias_count)
        memcpy(s->bias, options->bias,
               (size_t)options->bias_count * sizeof *s->bias);
    for (int64_t i = 0; i < count; i++)
        s->prompted[prompt[i]] = true;
    return true;
}

void tn__lm_sampler_fini(tn__lm_sampler *s)
{
    free(s->made);
    free(s->prompted);
    free(s->logit);
    free(s->heap);
    free(s->bias);
    free(s->stop);
    free(s->stop_length);
    const tn_lm_batch_add_options o = s->o;
    *s = (tn__lm_sampler){.o = o};
}

bool tn__lm_stops(const tn__lm_sampler *s, const int64_t *ids, int64_t count)
{
    const int64_t *stop = s->stop;
    for (int i = 0; i < s->o.stop_count; stop += s->stop_length[i++]) {
        const int64_t length = s->stop_length[i];
        if (length <= count && memcmp(ids + count - length, stop,
                                      (size_t)length * sizeof *ids) == 0)
            return true;
    }
    return false;
}

/* ---- drawing ------------------------------------------------------------- */

/* Returns a random number in [0, 1). Source: splitmix64, S. Vigna, public
 * domain. */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* Sets s->logit to the logits after bias and penalties. */
static void adjust(tn__lm_sampler *s, const float *logits)
{
    const tn_lm_batch_add_options *o = &s->o;
    for (int64_t i = 0; i < s->vocab; i++)
        s->logit[i] = (double)logits[i];
    for (int i = 0; i < o->bias_count; i++)
        s->logit[s->bias[i].id] += s->bias[i].value;
    if (o->repetition_penalty == 1 && o->presence_penalty == 0 &&
        o->frequency_penalty == 0)
        return;
    for (int64_t i = 0; i < s->vocab; i++) {
        double *x = &s->logit[i];
        if (s->made[i] || s->prompted[i])
            *x = *x > 0 ? *x / o->repetition_penalty
                        : *x * o->repetition_penalty;
        if (s->made[i])
            *x -= o->presence_penalty + o->frequency_penalty * s->made[i];
    }
}

/* Returns whether token a precedes token b: the more likely token does, or if
 * both are equally likely, the one with the smaller id. */
static bool before(const tn__lm_sampler *s, int32_t a, int32_t b)
{
    return s->logit[a] > s->logit[b] || (s->logit[a] == s->logit[b] && a < b);
}

static void sink(tn__lm_sampler *s, int64_t at, int64_t count)
{
    int32_t *heap = s->heap, moved = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(s, heap[child + 1], heap[child]))
            child++;
        if (!before(s, heap[child], moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

static int64_t most_likely(const tn__lm_sampler *s)
{
    int64_t best = 0;
    for (int64_t i = 1; i < s->vocab; i++)
        if (s->logit[i] > s->logit[best])
            best = i;
    return best;
}

/* Moves the most likely tokens from the heap to its end, one after another,
 * until top_k, top_p or min_p excludes the rest. Returns their number. s->logit
 * contains unnormalised probabilities, whose sum is `total`. */
static int64_t keep_likeliest(tn__lm_sampler *s, double total, double *kept)
{
    const tn_lm_batch_add_options *o = &s->o;
    const int64_t n = s->vocab, most = o->top_k && o->top_k < n ? o->top_k : n;
    int64_t count = 0, cut = 0;
    double largest = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        s->heap[i] = (int32_t)i;
    for (int64_t i = n / 2; i-- > 0;)
        sink(s, i, n);
    /* With top_k, top_p is relative to the sum over the top_k tokens, which
     * must be known first. */
    for (double seen = 0; count < most; count++) {
        const int32_t next = s->heap[0];
        const double p = s->logit[next];
        if (count == 0)
            largest = p;
        if (p < o->min_p * largest || (!o->top_k && seen >= o->top_p * total))
            break;
        s->heap[0] = s->heap[n - 1 - count];
        s->heap[n - 1 - count] = next;
        sink(s, 0, n - 1 - count);
        seen += p;
        if (o->top_k)
            total = count == 0 ? p : total + p;
    }
    for (; cut < count && (cut == 0 || sum < o->top_p * total); cut++)
        sum += s->logit[s->heap[n - 1 - cut]];
    *kept = sum;
    return cut;
}

static int64_t draw_token(tn__lm_sampler *s)
{
    const tn_lm_batch_add_options *o = &s->o;
    const double largest = s->logit[most_likely(s)];
    const double total =
        exponentials(s->logit, s->vocab, largest, o->temperature);
    int64_t last = 0;
    if (!o->top_k && o->top_p == 1 && o->min_p == 0) {
        double at = draw(&s->random) * total;
        for (int64_t i = 0; i < s->vocab; i++) {
            if (s->logit[i] > 0)
                last = i;
            if ((at -= s->logit[i]) < 0)
                break;
        }
        return last;
    }
    double kept;
    const int64_t count = keep_likeliest(s, total, &kept);
    double at = draw(&s->random) * kept;
    for (int64_t i = 0; i < count; i++) {
        last = s->heap[s->vocab - 1 - i];
        if ((at -= s->logit[last]) < 0)
            break;
    }
    return last;
}

int64_t tn__lm_sample(tn__lm_sampler *s, const float *logits, double *logprob)
{
    TN__ROUND_NEAREST;
    const double sum = tn__lm_log_sum(logits, s->vocab);
    adjust(s, logits);
    int64_t id = most_likely(s);
    if (!isfinite(sum) || !isfinite(s->logit[id]))
        return -1;
    if (s->o.temperature > 0)
        id = draw_token(s);
    *logprob = (double)logits[id] - sum;
    s->made[id]++;
    return id;
}
