/* language.c: measures the speed and memory of language models, and compares
 * them with llama.cpp and transformers. The programs run in turns, so that all
 * see the same load of the machine.
 *
 *     bench/language [OPTION]... MODEL
 *
 * MODEL is a Hugging Face folder or a GGUF file.
 *
 *   --threads N     compute with N threads; default: 1
 *   --rounds N      report the fastest of N rounds; default: 5
 *   --dtype NAME    convert the weights to float32, float16 or bfloat16
 *   --relaxed       products with bfloat16 weights are relaxed
 *   --llama FILE    path of llama-bench; default: $TENON_BENCH_LLAMA
 *   --gguf FILE     the file for llama-bench if MODEL is a folder
 *   --torch FOLDER  the folder for transformers if MODEL is a GGUF file
 *   --only NAME     run one workload: prompt, generate or embed
 *   --busy          measure processor time instead of elapsed time, without
 *                   llama.cpp and transformers; for a machine that is in use
 *
 * $TENON_BENCH_PYTHON is the Python program (default: python3). If llama.cpp or
 * transformers, or its file, is missing, its columns are empty.
 *
 * A decoder has two workloads. "prompt" processes 128 tokens at once.
 * "generate" generates 64 tokens, one at a time, from an empty cache, and takes
 * the most likely token each time. An encoder has two batches of tokens, 1 x 16
 * and 32 x 32.
 *
 * A separate process then opens the model and generates one token after a
 * prompt of one token. Its line has two numbers. The first is the time from the
 * call of tn_lm_open to that token, minus the time of a token when everything
 * is in memory. The second is the resident memory without the weights and the
 * cache. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/lm.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { PROMPT = 128, GENERATE = 64, MOST_ROUNDS = 100 };

typedef struct settings {
    const char *program, *model, *dtype, *llama, *gguf, *torch, *only;
    int threads, rounds;
    bool once, relaxed;
} settings;

static clockid_t watch = CLOCK_MONOTONIC;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(watch, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Prints the pending error, if there is one, and exits. */
static void check(void)
{
    if (!tn_error())
        return;
    fprintf(stderr, "bench/language: %s\n", tn_error());
    exit(1);
}

static tn_lm *open_model(const settings *s)
{
    tn_dtype dtype = TN_DTYPE_NONE;
    if (s->dtype)
        dtype = strcmp(s->dtype, "float32") == 0    ? TN_F32
                : strcmp(s->dtype, "float16") == 0  ? TN_F16
                : strcmp(s->dtype, "bfloat16") == 0 ? TN_BF16
                                                    : TN_DTYPE_NONE;
    if (s->dtype && dtype == TN_DTYPE_NONE) {
        fprintf(stderr, "bench/language: --dtype %s: expected float32, float16 "
                        "or bfloat16\n", s->dtype);
        exit(1);
    }
    tn_lm *lm = tn_lm_open(s->model, .dtype = dtype, .relaxed = s->relaxed);
    check();
    return lm;
}

/* ---- workloads ----------------------------------------------------------- */

/* The token ids of all workloads. They are small, so that every vocabulary has
 * them. */
static int64_t ids[1024];

/* Runs a prompt and fills the cache with it. size is {tokens}. */
static void prompt(tn_lm *lm, const int64_t *size)
{
    tn_lm_cache *cache = tn_lm_cache_new(lm, 1);
    tn_lm_tokens tokens = {.sequence = 0, .ids = ids, .count = size[0]};
    tn_lm_cache_begin(cache, 0, size[0], size[0]);
    tn_lm_decode(cache, &tokens, 1);
    tn_device_synchronize(NULL);
}

static void generate(tn_lm *lm, const int64_t *size)
{
    tn_lm_generate(lm, ids, 1, .max_tokens = size[0], .ignore_eos = true);
}

/* Embeds a batch of texts. size is {sequences, tokens of each}. */
static void embed(tn_lm *lm, const int64_t *size)
{
    const int64_t *text[64];
    int64_t length[64];
    for (int64_t i = 0; i < size[0]; i++) {
        text[i] = ids + i;
        length[i] = size[1];
    }
    tn_lm_embed(lm, text, length, (int)size[0]);
    tn_device_synchronize(NULL);
}

/* language.py uses the same names of workloads. `flag` is the option of
 * llama-bench that sets the number of tokens. */
static const struct workload {
    const char *name, *flag;
    int64_t size[3];
    void (*call)(tn_lm *lm, const int64_t *size);
    bool encoder;
} workloads[] = {
    {"prompt", "-p", {PROMPT}, prompt, false},
    {"generate", "-n", {GENERATE}, generate, false},
    {"embed", NULL, {1, 16}, embed, true},
    {"embed", NULL, {32, 32}, embed, true},
};
typedef struct workload workload;

/* Returns the number of tokens that one call processes. */
static double tokens_of(const workload *w)
{
    return (double)(w->size[0] * (w->size[1] ? w->size[1] : 1));
}

/* ---- the sides: each returns the seconds of one call, or -1 -------------- */

static double ours(tn_lm *lm, const workload *w)
{
    tn_scope *scope = tn_scope_open();
    const double start = seconds();
    w->call(lm, w->size);
    const double took = seconds() - start;
    check();
    tn_scope_close(scope);
    return took;
}

/* Quotes a string for the shell. */
static void quote(char *to, size_t room, const char *text)
{
    size_t used = 0;
    to[used++] = '\'';
    for (; *text && used + 6 < room; text++)
        if (*text == '\'')
            used += (size_t)snprintf(to + used, room - used, "'\\''");
        else
            to[used++] = *text;
    to[used++] = '\'';
    to[used] = 0;
}

static double llama(const settings *s, const workload *w)
{
    char program[1024], model[1024], command[4096], line[8192];
    if (!s->llama || !s->gguf || !w->flag)
        return -1;
    quote(program, sizeof program, s->llama);
    quote(model, sizeof model, s->gguf);
    /* llama-bench runs only one workload if the size of the other one is 0 */
    snprintf(command, sizeof command,
             "%s -m %s %s 0 %s %" PRId64 " -t %d -r 1 -o jsonl 2>/dev/null",
             program, model, strcmp(w->flag, "-p") == 0 ? "-n" : "-p", w->flag,
             w->size[0], s->threads);
    FILE *pipe = popen(command, "r");
    double speed = -1;
    while (pipe && fgets(line, sizeof line, pipe)) {
        const char *at = strstr(line, "\"avg_ts\": ");
        if (at)
            speed = strtod(at + 10, NULL);
    }
    if (pipe)
        pclose(pipe);
    return speed > 0 ? tokens_of(w) / speed : -1;
}

static double torch(bench_peer *peer, const workload *w)
{
    bench_work work = {.name = w->name};
    memcpy(work.size, w->size, sizeof work.size);
    if (!peer || !bench_peer_open(peer, "language", &work))
        return -1;
    return 1e-9 * bench_peer_sample(peer, 1);
}

/* ---- the table ----------------------------------------------------------- */

static int ascending(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

enum { OURS, LLAMA, TORCH, SIDES };

static void print_speed(const workload *w, double took)
{
    if (took < 0)
        printf(" %10s", "-");
    else if (w->encoder)
        printf(" %7.2f ms", 1e3 * took);
    else
        printf(" %10.1f", tokens_of(w) / took);
}

/* Runs a workload alternately here and in the peer, and prints a line: the
 * fastest call of each, and the median over the rounds of the ratio of their
 * times. Returns our fastest time. */
static double measure(const settings *s, tn_lm *lm, bench_peer *peer,
                      const workload *w)
{
    double best[SIDES] = {-1, -1, -1}, ratio[SIDES][MOST_ROUNDS];
    ours(lm, w); /* a first call to warm up, as in language.py and
                    llama-bench */
    for (int i = 0; i < s->rounds; i++) {
        const double took[SIDES] = {ours(lm, w), llama(s, w), torch(peer, w)};
        for (int side = 0; side < SIDES; side++) {
            ratio[side][i] = took[side] / took[OURS];
            if (took[side] >= 0 && (best[side] < 0 || took[side] < best[side]))
                best[side] = took[side];
        }
    }
    char name[64];
    if (w->encoder)
        snprintf(name, sizeof name, "%s %" PRId64 " x %" PRId64, w->name,
                 w->size[0], w->size[1]);
    else
        snprintf(name, sizeof name, "%s %" PRId64, w->name, w->size[0]);
    printf("%-14s %2d", name, s->threads);
    for (int side = 0; side < SIDES; side++) {
        print_speed(w, best[side]);
        qsort(ratio[side], (size_t)s->rounds, sizeof **ratio, ascending);
        if (side != OURS && best[side] >= 0)
            printf(" %5.2f x", ratio[side][s->rounds / 2]);
        else if (side != OURS)
            printf(" %7s", "");
    }
    printf("\n");
    fflush(stdout);
    return best[OURS];
}

/* ---- the first token ----------------------------------------------------- */

/* Returns the resident memory of the process in bytes. */
static double resident(void)
{
    long all = 0, here = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    const bool read = fscanf(file, "%ld %ld", &all, &here) == 2;
    fclose(file);
    return read ? (double)here * (double)sysconf(_SC_PAGESIZE) : 0;
}

/* Runs in a process of its own. Prints the seconds to the first token, the
 * seconds for each further token, and the resident bytes in addition to weights
 * and cache. */
static int first_token(const settings *s)
{
    static const int64_t one[3] = {1};
    tn_scope *scope = tn_scope_open();
    const double start = seconds();
    tn_lm *lm = open_model(s);
    generate(lm, one);
    check();
    const double first = seconds() - start;
    double token = 1e9;
    for (int i = 0; i < 5; i++) {
        const double begin = seconds();
        generate(lm, one);
        const double took = seconds() - begin;
        token = took < token ? took : token;
    }
    tn_lm_sizes sizes = {.size = sizeof sizes};
    tn_lm_info(lm, &sizes);
    const int64_t many[3] = {GENERATE};
    generate(lm, many);
    check();
    printf("%.6f %.6f %.0f\n", first, token,
           resident() - (double)sizes.weight_bytes -
               (double)(GENERATE * sizes.cache_bytes));
    tn_scope_close(scope);
    return 0;
}

static void print_first_token(const settings *s)
{
    char program[1024], model[1024], command[4096];
    double first = -1, token = 0, bytes = 0;
    quote(program, sizeof program, s->program);
    quote(model, sizeof model, s->model);
    snprintf(command, sizeof command, "%s --once --threads %d %s%s%s %s", program,
             s->threads, s->relaxed ? "--relaxed " : "", s->dtype ? "--dtype " : "", s->dtype ? s->dtype : "",
             model);
    for (int i = 0; i < 3; i++) {
        double t[3];
        FILE *pipe = popen(command, "r");
        if (!pipe)
            return;
        const bool read = fscanf(pipe, "%lf %lf %lf", &t[0], &t[1], &t[2]) == 3;
        pclose(pipe);
        if (read && (first < 0 || t[0] - t[1] < first - token)) {
            first = t[0];
            token = t[1];
            bytes = t[2];
        }
    }
    if (first >= 0)
        printf("first token    %2d  %.1f ms, and %.1f ms for the token itself; "
               "%.1f MB in addition to weights and cache\n", s->threads,
               1e3 * (first - token), 1e3 * token, 1e-6 * bytes);
}

/* ---- the command line ---------------------------------------------------- */

static int usage(void)
{
    fprintf(stderr, "usage: language [--threads N] [--rounds N] [--dtype NAME] [--relaxed] "
                    "[--llama FILE] [--gguf FILE] [--torch FOLDER] "
                    "[--only NAME] [--busy] MODEL\n");
    return 1;
}

static bool is_gguf(const char *path)
{
    const size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".gguf") == 0;
}

static bool read_options(settings *s, int argc, char **argv)
{
    const struct {
        const char *name;
        const char **text;
        int *number;
    } options[] = {{"--threads", NULL, &s->threads},
                   {"--rounds", NULL, &s->rounds},
                   {"--dtype", &s->dtype, NULL},
                   {"--llama", &s->llama, NULL},
                   {"--gguf", &s->gguf, NULL},
                   {"--torch", &s->torch, NULL},
                   {"--only", &s->only, NULL}};
    for (int i = 1; i < argc; i++) {
        bool found = strcmp(argv[i], "--once") == 0;
        if (found)
            s->once = true;
        if (strcmp(argv[i], "--relaxed") == 0)
            found = s->relaxed = true;
        if (strcmp(argv[i], "--busy") == 0) {
            found = true;
            watch = CLOCK_PROCESS_CPUTIME_ID;
        }
        for (size_t o = 0; !found && o < sizeof options / sizeof *options; o++)
            if (strcmp(argv[i], options[o].name) == 0 && i + 1 < argc) {
                found = true;
                i++;
                if (options[o].text)
                    *options[o].text = argv[i];
                else
                    *options[o].number = atoi(argv[i]);
            }
        if (!found && (s->model || argv[i][0] == '-'))
            return false;
        if (!found)
            s->model = argv[i];
    }
    if (!s->model || s->threads < 1 || s->rounds < 1 || s->rounds > MOST_ROUNDS)
        return false;
    if (watch != CLOCK_MONOTONIC)
        s->llama = s->torch = NULL;
    else if (is_gguf(s->model))
        s->gguf = s->model;
    else
        s->torch = s->model;
    return true;
}

int main(int argc, char **argv)
{
    settings s = {.program = argv[0], .threads = 1, .rounds = 5,
                  .llama = getenv("TENON_BENCH_LLAMA")};
    if (!read_options(&s, argc, argv))
        return usage();
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        ids[i] = 10 + (int64_t)(i * 7919 % 977);
    tn_set_num_threads(s.threads);
    check();
    if (s.once)
        return first_token(&s);
    tn_scope *scope = tn_scope_open();
    tn_lm *lm = open_model(&s);
    tn_lm_sizes sizes = {.size = sizeof sizes};
    tn_lm_info(lm, &sizes);
    const char *python = getenv("TENON_BENCH_PYTHON");
    bench_peer *peer =
        s.torch ? bench_peer_start(python ? python : "python3",
                                   BENCH_FOLDER "/language.py", s.torch,
                                   s.threads, s.dtype ? s.dtype : "", true)
                : NULL;
    printf("%s: %s, %.1f MB of weights\n", s.model, sizes.family,
           1e-6 * (double)sizes.weight_bytes);
    printf("%-14s %2s %10s %10s %7s %10s %7s   (%s)\n", "", "th", "Tenon",
           "llama.cpp", "", "PyTorch", "",
           sizes.is_encoder ? "a call" : "tokens/s");
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
        if (workloads[i].encoder == sizes.is_encoder &&
            (!s.only || strcmp(s.only, workloads[i].name) == 0))
            measure(&s, lm, peer, &workloads[i]);
    bench_peer_stop(peer);
    tn_scope_close(scope);
    if (!sizes.is_encoder && !s.only)
        print_first_token(&s);
    return 0;
}
