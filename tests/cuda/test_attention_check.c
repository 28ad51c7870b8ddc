/* Tests attention_check.c, which compares cuDNN's attention with the plugin's
 * kernels before it is used. In this test, functions of this file replace cuDNN
 * and the plugin's kernels. cuDNN's function is not used if it differs by more
 * than rounding or cannot run, and each class of shapes is tried once. Device
 * memory is host memory here. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../backends/cuda/cudnn.h"
#include "../tap.h"

/* ---- replacements for the rest of the plugin ----------------------------- */

tn_cuda_driver tn__cu;
tn_dnn tn__dnn;
bool tn__cuda_forked;
static char said[512];
static const char *missing; /* reason why there is no cuDNN; NULL: there is
                             * cuDNN */
static int live, asked, own_runs;

static void log_line(int level, const char *format, ...)
{
    va_list args;
    (void)level;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
}

/* A persistent cache of one entry. */
static char kept_key[512];
static uint64_t kept_bytes, kept_value_bytes;
static unsigned char kept_value[64];

static uint32_t cache_read(const void *key, uint64_t key_bytes,
                           uint32_t (*take)(void *context, const void *value,
                                            uint64_t value_bytes),
                           void *context)
{
    return kept_bytes == key_bytes && !memcmp(kept_key, key, key_bytes)
               ? take(context, kept_value, kept_value_bytes)
               : 0;
}

static void cache_write(const void *key, uint64_t key_bytes, const void *value,
                        uint64_t value_bytes)
{
    memcpy(kept_key, key, kept_bytes = key_bytes);
    memcpy(kept_value, value, kept_value_bytes = value_bytes);
}

static const tn_host host = {.size = sizeof host, .log = log_line,
                             .cache_read = cache_read,
                             .cache_write = cache_write};
const tn_host *tn__host = &host;

static bool alloc_fails;

static tn_cu_result alloc(tn_cu_pointer *pointer, size_t bytes)
{
    void *memory = alloc_fails ? NULL : malloc(bytes);
    live += memory != NULL;
    *pointer = (uintptr_t)memory;
    return memory ? 0 : TN_CU_OUT_OF_MEMORY;
}

static tn_cu_result release(tn_cu_pointer pointer)
{
    live--;
    free((void *)(uintptr_t)pointer);
    return 0;
}

static tn_cu_result to_device(tn_cu_pointer dst, const void *src, size_t bytes,
                              tn_cu_stream stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)dst, src, bytes);
    return 0;
}

static tn_cu_result to_host(void *dst, tn_cu_pointer src, size_t bytes,
                            tn_cu_stream stream)
{
    (void)stream;
    memcpy(dst, (const void *)(uintptr_t)src, bytes);
    return 0;
}

static tn_cu_result stream_sync(tn_cu_stream stream)
{
    (void)stream;
    return 0;
}

static size_t version(void)
{
    return 91900;
}

const char *tn__cuda_open(tn_cuda_library which)
{
    (void)which;
    return missing;
}

/* ---- attention functions ------------------------------------------------- */

/* Instead of attention, copies the elements of q, repeated, to a result. Both
 * functions read through the strides of the arguments, so their results are the
 * same. */
static void copy_numbers(const tn_strided *to, const tn_strided *from,
                         int64_t count, int64_t of)
{
    const uint16_t *x = tn__cuda_address(from, 0);
    if (!to->buffer)
        return;
    for (int64_t i = 0; i < count; i++) {
        if (to->dtype == TN_F32)
            ((float *)tn__cuda_address(to, 0))[i] = (float)(x[i % of] & 255) / 64;
        else
            ((uint16_t *)tn__cuda_address(to, 0))[i] = x[i % of];
    }
}

static void compute(const tn_attention_args *a)
{
    const int64_t rows = a->heads * a->queries, of = rows * a->features;
    if (a->kind == TN_ATTENTION_FORWARD) {
        copy_numbers(&a->out, &a->q, rows * a->values, of);
        copy_numbers(&a->lse, &a->q, rows, of);
        return;
    }
    copy_numbers(&a->dq, &a->out, rows * a->features, rows * a->values);
    copy_numbers(&a->dk, &a->k, a->kv_heads * a->keys * a->features,
                 a->kv_heads * a->keys * a->features);
    copy_numbers(&a->dv, &a->v, a->kv_heads * a->keys * a->values,
                 a->kv_heads * a->keys * a->values);
}

tn_status tn__cuda_attention_own(tn_queue *queue, const tn_attention_args *a)
{
    (void)queue;
    own_runs++;
    compute(a);
    return TN_OK;
}

/* The error that cuDNN's function makes: an element of the result with this
 * index gets these bits. */
static int wrong_side; /* 0: none; 1 out; 2 lse; 3 dq; 4 dk; 5 dv */
static uint32_t wrong_bits;
static const char *declined;

tn_status tn__cuda_attention_try(tn_queue *queue, const tn_attention_args *a,
                                 const char **why)
{
    const tn_strided *const sides[] = {NULL,   &a->out, &a->lse,
                                       &a->dq, &a->dk,  &a->dv};
    (void)queue;
    asked++;
    *why = declined;
    if (declined)
        return TN_ERR_UNSUPPORTED;
    compute(a);
    const tn_strided *x = sides[wrong_side];
    if (x && x->dtype == TN_F32)
        ((uint32_t *)tn__cuda_address(x, 0))[17] = wrong_bits;
    else if (x)
        ((uint16_t *)tn__cuda_address(x, 0))[17] = (uint16_t)wrong_bits;
    return TN_OK;
}

/* ---- calls and their results --------------------------------------------- */

static tn_cuda_listed listed = {.info = {.name = "GPU"}};
static tn_plugin_device device = {.listed = &listed, .driver_version = 13000};
static tn_buffer memory;

static tn_attention_args problem(tn_dtype dtype, uint32_t kind)
{
    return (tn_attention_args){
        .size = sizeof(tn_attention_args), .kind = kind, .batch = 3,
        .heads = 4, .kv_heads = 4, .queries = 1000, .keys = 1000,
        .features = 64, .values = 32, .q = {.dtype = dtype}};
}

/* Returns whether cuDNN's attention is accepted in its first check, on a new
 * queue with an empty cache. */
static bool fresh(const tn_attention_args *a)
{
    tn_queue queue = {.device = &device,
                      .pending = {.last_tag = 7, .count = 2}};
    kept_bytes = 0;
    bool right = tn__cuda_attention_is_accurate(&queue, a);
    tn__cuda_checks_free(queue.checks);
    if (queue.pending.last_tag != 7 || queue.pending.count != 2 || live)
        ok(false, "the queue is as it was: %d allocations", live);
    return right;
}

static void test_verdicts(void)
{
    static const struct {
        const char *name;
        tn_dtype dtype;
        uint32_t kind;
        int side;
        uint32_t bits;
        bool right;
    } cases[] = {
        {"the same numbers", TN_F16, 0, 0, 0, true},
        {"the same numbers, bfloat16", TN_BF16, 0, 0, 0, true},
        {"the same gradients", TN_F16, 1, 0, 0, true},
        {"a result of 1000", TN_F16, 0, 1, 0x63d0, false},
        {"a result that is no number", TN_F16, 0, 1, 0x7e00, false},
        {"an infinite one", TN_BF16, 0, 1, 0x7f80, false},
        {"a sum of a row that is 3e38", TN_BF16, 0, 2, 0x7f61b1e6, false},
        {"a sum that is no number", TN_F16, 0, 2, 0x7fc00000, false},
        {"a gradient of queries that is 5", TN_BF16, 1, 3, 0x40a0, false},
        {"of keys", TN_BF16, 1, 4, 0x40a0, false},
        {"of values", TN_F16, 1, 5, 0x4500, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_attention_args a = problem(cases[i].dtype, cases[i].kind);
        wrong_side = cases[i].side;
        wrong_bits = cases[i].bits;
        ok(fresh(&a) == cases[i].right &&
               strstr(said, cases[i].right ? " uses cuDNN: "
                                           : " uses Tenon's own kernels: "),
           "%s: %s", cases[i].name, said);
    }
    wrong_side = 0;
}

static void test_names(void)
{
    tn_attention_args a = problem(TN_BF16, TN_ATTENTION_BACKWARD);
    a.flags = TN_ATTENTION_CAUSAL;
    a.kv_heads = 2;
    a.mask = (tn_strided){.buffer = &memory, .dtype = TN_F32,
                          .stride = {0, 0, 1000, 1}};
    ok(fresh(&a) && strstr(said, "gradient of attention of bfloat16, causal, a "
                                 "mask of float32 for all heads, shared keys, "
                                 "64 and 32 features uses cuDNN"),
       "the log says of what: %s", said);
    declined = "cuDNN has no engine";
    ok(!fresh(&a) &&
           strstr(said, "uses Tenon's own kernels: cuDNN has no engine"),
       "and why not: %s", said);
    declined = NULL;
    alloc_fails = true;
    ok(!fresh(&a) && strstr(said, "out of memory"), "or that: %s", said);
    alloc_fails = false;
    missing = "cuDNN is not found";
    own_runs = 0;
    ok(!fresh(&a) && strstr(said, missing) && !own_runs,
       "without cuDNN nothing is tried: %s", said);
    missing = NULL;
}

static void test_once(void)
{
    tn_queue queue = {.device = &device}, other = {.device = &device};
    tn_attention_args a = problem(TN_F16, TN_ATTENTION_FORWARD);
    kept_bytes = 0;
    asked = 0;
    bool first = tn__cuda_attention_is_accurate(&queue, &a);
    a.batch = a.queries = 5;
    bool second = tn__cuda_attention_is_accurate(&queue, &a);
    ok(first && second && asked == 1, "a class is tried once");
    ok(tn__cuda_attention_is_accurate(&other, &a) && asked == 1 &&
           strstr(said, "from the disk cache"),
       "for another queue the cache knows it: %s", said);
    listed.info.name[0] = 'X';
    tn_queue third = {.device = &device};
    ok(tn__cuda_attention_is_accurate(&third, &a) && asked == 2,
       "for another GPU it is tried again");
    listed.info.name[0] = 'G';
    tn_attention_args b = a;
    for (int i = 0; i < 40; i++) { /* more classes than the plugin stores */
        b.features = 8 * (1 + i % 16);
        b.values = 8 * (1 + i / 16);
        tn__cuda_attention_is_accurate(&queue, &b);
    }
    ok(tn__cuda_attention_is_accurate(&queue, &a) && asked == 43,
       "what is forgotten is tried again: %d", asked);
    queue.capture = (tn_recorded *)(void *)&memory;
    bool known = tn__cuda_attention_is_accurate(&queue, &a);
    a.flags = TN_ATTENTION_CAUSAL;
    ok(known && !tn__cuda_attention_is_accurate(&queue, &a) && asked == 43,
       "while the queue captures nothing is tried: %s", said);
    queue.capture = NULL;
    ok(tn__cuda_attention_is_accurate(&queue, &a) && asked == 44,
       "and after that it is");
    tn__cuda_checks_free(queue.checks);
    tn__cuda_checks_free(other.checks);
    tn__cuda_checks_free(third.checks);
}

int main(void)
{
    plan_later();
    tn__cu.alloc = alloc;
    tn__cu.free = release;
    tn__cu.to_device = to_device;
    tn__cu.to_host = to_host;
    tn__cu.stream_sync = stream_sync;
    tn__dnn.version = version;
    test_verdicts();
    test_names();
    test_once();
    is_int(live, 0, "all memory is given back");
    return done_testing();
}
