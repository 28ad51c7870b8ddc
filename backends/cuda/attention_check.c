/* attention_check.c: checks that cuDNN's attention gives the results of Tenon's
 * own kernels, because some versions of cuDNN compute wrong results.
 *
 * Attentions with the same dtype, mask and number of features form a class. The
 * check runs once for each class, before cuDNN is first used for it. cuDNN and
 * Tenon's own kernels compute a small attention of random numbers, and the
 * results are compared. Tenon's disk cache stores the outcome for this GPU,
 * driver and version of cuDNN. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "cudnn.h"

/* A class of attentions: all properties on which the accuracy of cuDNN's
 * results may depend. */
typedef struct class {
    /* mask is the dtype of the mask, or 0 if there is none */
    uint32_t kind, dtype, is_causal, mask;
    /* bit 0 is set if all batch elements share the mask, bit 1 if all heads
     * share it */
    uint32_t shared;
    /* 1 if several query heads share a head of keys and values, else 0 */
    uint32_t is_grouped;
    uint32_t features, values;
} class;

#define CLASSES 32
struct tn_cuda_checks {
    /* number of classes checked so far, of which the last CLASSES are stored */
    uint32_t count;
    class entry[CLASSES];
    bool is_right[CLASSES];
};

static class class_of(const tn_attention_args *a)
{
    class c = {.kind = a->kind, .dtype = a->q.dtype,
               .is_causal = a->flags & TN_ATTENTION_CAUSAL,
               .is_grouped = a->heads != a->kv_heads,
               .features = (uint32_t)a->features,
               .values = (uint32_t)a->values};
    if (a->mask.buffer) {
        c.mask = a->mask.dtype;
        c.shared = (uint32_t)(a->mask.stride[0] == 0) |
                   (uint32_t)(a->mask.stride[1] == 0) << 1;
    }
    return c;
}

/* ---- a small attention --------------------------------------------------- */

/* QUERIES and KEYS are not multiples of a kernel's tile size. There are more
 * queries than keys, so that with a causal mask the last queries still attend
 * to all keys. */
enum { HEADS = 2, QUERIES = 200, KEYS = 136 };
/* The tensors of an attention, and how many there are. */
enum { Q, K, V, MASK, G, OUT, LSE, DQ, DK, DV, SIDES };
/* The two computations that are compared: Tenon's own kernels and cuDNN. */
enum { OWN, DNN, BOTH };

typedef struct trial {
    tn_attention_args args[BOTH];
    tn_buffer buffer[BOTH]; /* one buffer with all tensors of OWN, and one with
                               those of DNN */
    /* number of elements of each tensor, 0 if the tensor does not exist */
    int64_t count[SIDES];
    uint64_t begin[SIDES], bytes; /* offset of each tensor in its buffer, and
                                     size of a buffer, in bytes */
    unsigned char *image[BOTH];   /* owned: copies of the buffers on the host */
    uint32_t random;
} trial;

static tn_strided *side_of(tn_attention_args *a, int side)
{
    tn_strided *const sides[SIDES] = {
        [Q] = &a->q, [K] = &a->k, [V] = &a->v, [MASK] = &a->mask, [G] = &a->g,
        [OUT] = &a->out, [LSE] = &a->lse, [DQ] = &a->dq, [DK] = &a->dk,
        [DV] = &a->dv};
    return sides[side];
}

static uint64_t bytes_of(uint32_t dtype)
{
    return dtype == TN_F32 ? 4 : 2; /* other dtypes do not occur */
}

/* Adds a tensor to the buffers of OWN and DNN, at the same offset. */
static void tensor_add(trial *t, int side, uint32_t dtype, int64_t heads,
                       int64_t length, int64_t width)
{
    const uint64_t bytes = bytes_of(dtype);
    t->begin[side] = t->bytes;
    t->count[side] = heads * length * width;
    t->bytes += ((uint64_t)t->count[side] * bytes + 255) / 256 * 256;
    for (int w = 0; w < BOTH; w++)
        *side_of(&t->args[w], side) = (tn_strided){
            .buffer = &t->buffer[w],
            .offset = (int64_t)(t->begin[side] / bytes),
            .dtype = dtype, .ndim = side == LSE ? 3 : 4,
            .stride = {heads * length * width, length * width, width,
                       side == LSE ? 0 : 1}};
}

static void describe(trial *t, const class *c)
{
    const int64_t kv = c->is_grouped ? 1 : HEADS;
    for (int w = 0; w < BOTH; w++)
        t->args[w] = (tn_attention_args){
            .size = sizeof *t->args, .kind = c->kind,
            .flags = c->is_causal ? TN_ATTENTION_CAUSAL : 0, .batch = 1,
            .heads = HEADS, .kv_heads = kv, .queries = QUERIES, .keys = KEYS,
            .features = c->features, .values = c->values,
            .scale = 1 / sqrt((double)c->features)};
    tensor_add(t, Q, c->dtype, HEADS, QUERIES, c->features);
    tensor_add(t, K, c->dtype, kv, KEYS, c->features);
    tensor_add(t, V, c->dtype, kv, KEYS, c->values);
    tensor_add(t, OUT, c->dtype, HEADS, QUERIES, c->values);
    tensor_add(t, LSE, TN_F32, HEADS, QUERIES, 1);
    if (c->mask)
        tensor_add(t, MASK, c->mask, c->shared & 2 ? 1 : HEADS, QUERIES, KEYS);
    for (int w = 0; w < BOTH && c->mask; w++)
        for (int d = 0; d < 2; d++)
            if (c->shared >> d & 1)
                t->args[w].mask.stride[d] = 0;
    if (c->kind != TN_ATTENTION_BACKWARD)
        return;
    tensor_add(t, G, c->dtype, HEADS, QUERIES, c->values);
    tensor_add(t, DQ, c->dtype, HEADS, QUERIES, c->features);
    tensor_add(t, DK, c->dtype, kv, KEYS, c->features);
    tensor_add(t, DV, c->dtype, kv, KEYS, c->values);
}

/* ---- random numbers ------------------------------------------------------ */

/* Returns the bits of a float with random sign, exponent and fraction, whose
 * magnitude is between 1/8 and 2. */
static uint32_t random_bits(trial *t, uint32_t dtype)
{
    t->random ^= t->random << 13; /* xorshift generator: G. Marsaglia, "Xorshift
                                     RNGs" (2003) */
    t->random ^= t->random >> 17;
    t->random ^= t->random << 5;
    const uint32_t r = t->random, sign = r >> 31, power = r >> 8 & 3;
    if (dtype == TN_F16)
        return sign << 15 | (12 + power) << 10 | (r >> 12 & 0x3ff);
    const uint32_t bf16 = sign << 15 | (124 + power) << 7 | (r >> 12 & 0x7f);
    return dtype == TN_F32 ? bf16 << 16 : bf16;
}

static void fill(trial *t, int side)
{
    const uint32_t dtype = side_of(t->args, side)->dtype;
    for (int64_t i = 0; i < t->count[side]; i++) {
        const uint32_t bits = random_bits(t, dtype);
        const uint16_t half = (uint16_t)bits;
        unsigned char *at = t->image[OWN] + t->begin[side];
        memcpy(at + (uint64_t)i * bytes_of(dtype),
               dtype == TN_F32 ? (const void *)&bits : &half, bytes_of(dtype));
    }
}

static float number(const trial *t, int which, int side, int64_t i)
{
    const uint32_t dtype = side_of((tn_attention_args *)t->args, side)->dtype;
    const unsigned char *at = t->image[which] + t->begin[side];
    uint32_t bits = 0;
    uint16_t half;
    float x;
    if (dtype == TN_F32) {
        memcpy(&bits, at + 4 * i, sizeof bits);
    } else {
        memcpy(&half, at + 2 * i, sizeof half);
        bits = (uint32_t)half << 16; /* bfloat16: the upper half of a float */
    }
    if (dtype == TN_F16) {
        const int power = half >> 10 & 31, fraction = half & 0x3ff;
        x = power == 31 ? (fraction ? NAN : INFINITY)
            : power     ? ldexpf((float)(1024 + fraction), power - 25)
                        : ldexpf((float)fraction, -24);
        return half >> 15 ? -x : x;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the largest difference between the values of OWN and DNN in a tensor,
 * divided by the largest difference that rounding can explain. A result above 1
 * means that cuDNN is wrong. tests/cuda/test_dnn_attention.c uses the same
 * measure. */
static double error_of(const trial *t, int side)
{
    const double unit = t->args[OWN].q.dtype == TN_F16 ? 0x1p-9 : 0x1p-6;
    double most = 0, size = 0;
    for (int64_t i = 0; i < t->count[side]; i++) {
        const double own = (double)number(t, OWN, side, i);
        const double dnn = (double)number(t, DNN, side, i);
        if (!isfinite(own) || !isfinite(dnn))
            return INFINITY;
        most = fmax(most, fabs(own - dnn));
        size = fmax(size, fabs(own));
    }
    return most / (unit * (1 + size));
}

/* ---- the trial ----------------------------------------------------------- */

static void release(trial *t)
{
    for (int w = 0; w < BOTH; w++) {
        if (t->buffer[w].pointer)
            tn__cu.free(t->buffer[w].pointer);
        free(t->image[w]);
    }
}

/* Fills the input tensors with random numbers and copies them to the buffers of
 * OWN and DNN, on the queue's stream. */
static tn_cu_result begin(tn_queue *queue, trial *t)
{
    tn_cu_result error = 0;
    for (int side = Q; side <= G; side++)
        fill(t, side);
    for (int w = 0; w < BOTH && !error; w++) {
        t->buffer[w].device = queue->device;
        error = tn__cu.alloc(&t->buffer[w].pointer, (size_t)t->bytes);
        if (!error)
            error = tn__cu.to_device(t->buffer[w].pointer, t->image[OWN],
                                     (size_t)t->bytes, queue->stream);
    }
    return error ? error : tn__cu.stream_sync(queue->stream);
}

/* Computes the attention with Tenon's own kernels and with cuDNN. For gradients
 * both use the forward results of Tenon's own kernels. */
static tn_status compute(tn_queue *queue, trial *t, const char **why)
{
    tn_status status = TN_OK;
    for (int w = 0; w < BOTH && !status; w++) {
        tn_attention_args forward = t->args[w];
        forward.kind = TN_ATTENTION_FORWARD;
        if (w == OWN || t->args[w].kind == TN_ATTENTION_BACKWARD)
            status = tn__cuda_attention_own(queue, &forward);
    }
    if (!status && t->args[OWN].kind == TN_ATTENTION_BACKWARD)
        status = tn__cuda_attention_own(queue, &t->args[OWN]);
    if (status)
        *why = "Tenon's own kernels failed in the comparison with cuDNN";
    return status ? status
                  : tn__cuda_attention_try(queue, &t->args[DNN], why);
}

static tn_cu_result fetch(tn_queue *queue, trial *t)
{
    tn_cu_result error = 0;
    for (int w = 0; w < BOTH && !error; w++)
        error = tn__cu.to_host(t->image[w], t->buffer[w].pointer,
                               (size_t)t->bytes, queue->stream);
    return error ? error : tn__cu.stream_sync(queue->stream);
}

/* Runs the comparison for a class. Returns the largest error_of() of its
 * tensors. If cuDNN cannot compute the class, sets *why to the reason,
 * otherwise to NULL. */
static double try_class(tn_queue *queue, const class *c, const char **why)
{
    trial t = {.random = 2463534242u};
    double most = INFINITY;
    describe(&t, c);
    for (int w = 0; w < BOTH; w++)
        t.image[w] = calloc(1, (size_t)t.bytes);
    *why = "out of memory for the comparison with cuDNN";
    if (t.image[OWN] && t.image[DNN] && !begin(queue, &t) &&
        !compute(queue, &t, why)) {
        *why = "the results of the comparison cannot be read";
        if (!fetch(queue, &t)) {
            *why = NULL;
            most = 0;
            for (int side = c->kind == TN_ATTENTION_BACKWARD ? DQ : OUT;
                 side < SIDES; side++)
                most = fmax(most, error_of(&t, side));
        }
    }
    release(&t);
    return most;
}

/* ---- the result ---------------------------------------------------------- */

/* Writes the name of a class to out, such as "gradient of attention of float16,
 * causal, 64 and 64 features". */
static void name_of(const class *c, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s of %s%s%s%s%s, %u and %u features",
             c->kind == TN_ATTENTION_BACKWARD ? "gradient of attention"
                                              : "attention",
             c->dtype == TN_F16 ? "float16" : "bfloat16",
             c->is_causal ? ", causal" : "",
             !c->mask            ? ""
             : c->mask == TN_F32 ? ", a mask of float32"
                                 : ", a mask",
             c->shared & 2 ? " for all heads" : "",
             c->is_grouped ? ", shared keys" : "", c->features, c->values);
}

static uint32_t load_error(void *context, const void *value, uint64_t bytes)
{
    memcpy(context, value, sizeof(double));
    return bytes == sizeof(double);
}

/* Returns whether cuDNN is accurate for the class. Reads the outcome from the
 * disk cache, or runs the comparison if the cache does not have it. */
static bool class_check(tn_queue *queue, const class *c)
{
    char name[128], key[512];
    const char *why = tn__cuda_open(TN_CUDA_DNN);
    double most = INFINITY;
    name_of(c, name, sizeof name);
    if (why) {
        tn__host->log(3, "cuda: %s uses Tenon's own kernels: %s", name, why);
        return false;
    }
    int length = snprintf(key, sizeof key, "cuda attention 1\n%s %d %zu\n%s %u",
                          queue->device->listed->info.name,
                          queue->device->driver_version,
                          tn__dnn.version(), name, c->shared);
    const bool caches = tn__cache_exists();
    const bool known = caches && tn__host->cache_read(key, (uint64_t)length,
                                                      load_error, &most);
    if (!known)
        most = try_class(queue, c, &why);
    if (!known && !why && caches)
        tn__host->cache_write(key, (uint64_t)length, &most, sizeof most);
    if (why)
        tn__host->log(2, "cuda: %s uses Tenon's own kernels: %s", name, why);
    else
        tn__host->log(most <= 1 ? 3 : 1,
                      "cuda: %s uses %s: cuDNN's error is %.2g times the "
                      "allowed error%s",
                      name, most <= 1 ? "cuDNN" : "Tenon's own kernels", most,
                      known ? ", from the disk cache" : "");
    return most <= 1;
}

bool tn__cuda_attention_is_accurate(tn_queue *queue, const tn_attention_args *a)
{
    const class c = class_of(a);
    tn_cuda_checks *checks = queue->checks;
    const uint32_t count = checks ? checks->count : 0;
    for (uint32_t i = 0; i < count && i < CLASSES; i++)
        if (memcmp(&checks->entry[i], &c, sizeof c) == 0)
            return checks->is_right[i];
    if (queue->capture) { /* a check cannot run during a capture. Normally it
                             has run before, because the core runs work once
                             before it captures the work */
        tn__host->log(2, "cuda: a captured attention uses Tenon's own "
                         "kernels, because cuDNN was not checked before the "
                         "capture");
        return false;
    }
    if (!checks)
        checks = queue->checks = calloc(1, sizeof *checks);
    if (!checks)
        return false;
    /* The comparison waits for all earlier work of the queue, but must not
     * clear the faults of that work, which the next sync reports. */
    const tn_pending pending = queue->pending;
    const bool right = class_check(queue, &c);
    queue->pending.last_tag = pending.last_tag;
    queue->pending.count = pending.count;
    const uint32_t at = checks->count++ % CLASSES;
    checks->entry[at] = c;
    checks->is_right[at] = right;
    return right;
}

void tn__cuda_checks_free(tn_cuda_checks *checks)
{
    free(checks);
}
