/* print_attention.c: plans and prints the extension "attention"
 * (scaled_dot_product_attention), as in Dao, "FlashAttention-2",
 * arXiv:2307.08691: a tile of queries loops over all tiles of keys, and scores
 * exist only in local memory. The backward pass has two kernels: one for the
 * gradient of the queries, one for the gradients of keys and values. So each
 * sum is written by a single work-group and has a fixed order. */
#include <stdlib.h>
#include <string.h>

#include <base/error.h>
#include <base/fpu.h>
#include <source/text_head.h>
#include <source/plan/launch_space.h>
#include <kernel/program_hash.h>

enum { FORWARD, BACK_QUERY, BACK_KEY };
enum { MASK_NONE, MASK_BOOL, MASK_SAME, MASK_F32 };
enum { Q, K, V, MASK, OUT, LSE, G, DQ, DK, DV, OPERANDS };

/* The fields that are packed into tn_plan.variant. */
typedef struct variant {
    unsigned part, dtype, mask;
    unsigned size, values; /* length of a row of q and k, and of a row of v, in
                            * local memory; both are powers of two */
    bool causal, drops, is_wide, in_buffer;
    bool mma;     /* true if the kernel uses tensor cores */
    bool aligned; /* true if mma is set and each row of q, k, v and out consists
                   * of aligned units of 16 bytes */
} variant;

static uint64_t pack(const variant *v)
{
    return (uint64_t)TN__PLAN_ATTENTION | (uint64_t)v->part << 4 |
           (uint64_t)v->dtype << 6 | (uint64_t)v->mask << 10 |
           (uint64_t)v->causal << 12 | (uint64_t)v->drops << 13 |
           (uint64_t)v->is_wide << 14 | (uint64_t)v->in_buffer << 15 |
           (uint64_t)v->size << 16 | (uint64_t)v->values << 24 |
           (uint64_t)v->mma << 32 | (uint64_t)v->aligned << 33;
}

static variant unpack(uint64_t word)
{
    return (variant){.part = word >> 4 & 3,
                     .dtype = word >> 6 & 15,
                     .mask = word >> 10 & 3,
                     .causal = word >> 12 & 1,
                     .drops = word >> 13 & 1,
                     .is_wide = word >> 14 & 1,
                     .in_buffer = word >> 15 & 1,
                     .size = word >> 16 & 255,
                     .values = word >> 24 & 255,
                     .mma = word >> 32 & 1,
                     .aligned = word >> 33 & 1};
}

/* ---- tiles ------------------------------------------------------------- */

#define SIDE 16 /* a work-group has SIDE x SIDE work-items */
#define MMA_GROUP 128 /* number of work-items of a work-group in
                       * attention_mma.cl */
#define LONGEST 128

/* Return the number of rows in a tile of queries and in a tile of keys. The
 * tiles are as large as fits into 48 KiB of local memory. */
static int64_t tile_queries(const variant *v)
{
    bool is_long = v->size > 64 || v->values > 64;
    if (v->mma)
        return v->part == BACK_KEY && is_long ? 32 : 64;
    return v->part == FORWARD ? (is_long ? 32 : 64) : is_long ? 16 : 32;
}

static int64_t tile_keys(const variant *v)
{
    bool is_long = v->size > 64 || v->values > 64;
    if (v->mma)
        return v->part == BACK_QUERY && is_long ? 32 : 64;
    return v->part == FORWARD || !is_long ? 32 : 16;
}

/* Returns the smallest power of two that is at least `size` and at least SIDE.
 * So every work-item has elements. */
static unsigned padded(int64_t size)
{
    unsigned to = SIDE;
    while (to < size)
        to *= 2;
    return to;
}

/* ---- plans ------------------------------------------------------------- */

static tn_status check(const tn_target *target, const tn_attention_args *a)
{
    if (target->flags & TN_TARGET_CHUNKED)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "attention: the device does not run work-items in "
                        "groups (TN_TARGET_CHUNKED)");
    if (a->q.dtype != TN_F32 && a->q.dtype != TN_F16 && a->q.dtype != TN_BF16)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "attention: dtype is %s; expected float32, float16 or "
                        "bfloat16",
                        tn_dtype_name((tn_dtype)a->q.dtype));
    if (a->features > LONGEST || a->values > LONGEST)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "attention: rows have %lld and %lld elements; expected "
                        "at most %d",
                        (long long)a->features, (long long)a->values, LONGEST);
    return TN_OK;
}

static unsigned mask_kind(const tn_attention_args *a)
{
    if (!a->mask.buffer)
        return MASK_NONE;
    if (a->mask.dtype == TN_BOOL)
        return MASK_BOOL;
    return a->mask.dtype == a->q.dtype ? MASK_SAME : MASK_F32;
}

static uint64_t float_word(double x)
{
    float single = tn__fpu_single(x);
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}

/* Writes the argument words of each operand: its offset and its strides.
 * Returns whether 32-bit indices are enough. */
static bool fill_operand_words(const tn_attention_args *a, uint64_t *word)
{
    const tn_strided *const operand[OPERANDS] = {
        &a->q, &a->k, &a->v, &a->mask, &a->out, &a->lse, &a->g,
        &a->dq, &a->dk, &a->dv};
    const int64_t heads[] = {a->heads, a->kv_heads};
    const int64_t length[] = {a->queries, a->keys};
    const int64_t size[] = {a->features, a->values, a->keys};
    static const struct {
        unsigned char heads, length, size;
    } of[OPERANDS] = {{0, 0, 0}, {1, 1, 0}, {1, 1, 1}, {0, 0, 2}, {0, 0, 1},
                      {0, 0, 1}, {0, 0, 1}, {0, 0, 0}, {1, 1, 0}, {1, 1, 1}};
    bool narrow = a->batch * a->heads * (a->queries + 64) < TN__NARROW_LIMIT &&
                  a->keys < TN__NARROW_LIMIT;
    for (int o = 0; o < OPERANDS; o++) {
        const int64_t extent[] = {a->batch, heads[of[o].heads],
                                  length[of[o].length], size[of[o].size]};
        const tn_strided *s = operand[o];
        *word++ = (uint64_t)s->offset;
        for (int d = 0; d < 4; d++)
            *word++ = (uint64_t)s->stride[d];
        if (o != LSE && s->buffer &&
            llabs(s->offset) + tn__strides_reach(extent, s->stride, 4) >=
                TN__NARROW_LIMIT)
            narrow = false;
    }
    return narrow;
}

static bool is_aligned(const tn_strided *s, int64_t size)
{
    return s->stride[3] == 1 && size % 8 == 0 && s->offset % 8 == 0 &&
           s->stride[0] % 8 == 0 && s->stride[1] % 8 == 0 &&
           s->stride[2] % 8 == 0;
}

tn_status tn__plan_attention(const tn_target *target,
                             const tn_attention_args *a, tn_plan *plan)
{
    tn_status status = check(target, a);
    if (status)
        return status;
    bool back = a->kind == TN_ATTENTION_BACKWARD;
    variant v = {.part = back ? BACK_QUERY + plan->step : FORWARD,
                 .dtype = a->q.dtype,
                 .mask = mask_kind(a),
                 .size = padded(a->features),
                 .values = padded(a->values),
                 .causal = a->flags & TN_ATTENTION_CAUSAL,
                 .drops = a->dropout > 0};
    v.mma = a->q.dtype != TN_F32 && target->flags & TN_TARGET_MMA;
    v.aligned = v.mma && is_aligned(&a->q, a->features) &&
                is_aligned(&a->k, a->features) &&
                is_aligned(&a->v, a->values) &&
                is_aligned(&a->out, a->values) &&
                (!back || (is_aligned(&a->g, a->values) &&
                           is_aligned(&a->dq, a->features) &&
                           is_aligned(&a->dk, a->features) &&
                           is_aligned(&a->dv, a->values)));
    tn_buffer *const buffer[] = {a->q.buffer,   a->k.buffer,  a->v.buffer,
                                 a->mask.buffer, a->out.buffer, a->lse.buffer,
                                 a->g.buffer,   a->dq.buffer, a->dk.buffer,
                                 a->dv.buffer};
    int64_t tiles =
        v.part == BACK_KEY
            ? tn__divide_up(a->keys, tile_keys(&v)) * a->batch * a->kv_heads
            : tn__divide_up(a->queries, tile_queries(&v)) * a->batch * a->heads;
    const uint64_t head[] = {
        (uint64_t)tiles, (uint64_t)a->heads,
        (uint64_t)(a->heads / a->kv_heads), (uint64_t)a->queries,
        (uint64_t)a->keys, (uint64_t)a->features, (uint64_t)a->values,
        float_word(a->scale), float_word(a->dropout), (uint64_t)a->seed,
        (uint64_t)a->call};
    enum { HEAD = sizeof head / sizeof *head };
    memcpy(plan->argument, head, sizeof head);
    v.is_wide = !fill_operand_words(a, plan->argument + HEAD);
    plan->step_count = back ? 2 : 1;
    plan->buffer_count = back ? OPERANDS : LSE + 1;
    memcpy(plan->buffer, buffer, plan->buffer_count * sizeof *buffer);
    plan->argument_bytes = 8 * (HEAD + 5 * OPERANDS);
    v.in_buffer = plan->argument_bytes + 8 * (plan->buffer_count + 2) >
                  target->argument_room;
    plan->flags = (v.in_buffer ? TN_PLAN_WORDS_IN_BUFFER : 0) |
                  (back ? TN_PLAN_SCRATCH : 0);
    plan->scratch_bytes =
        back ? 4 * (uint64_t)(a->batch * a->heads * a->queries) : 0;
    plan->group_count = (uint64_t)tn__min_i64(tiles, INT32_MAX);
    plan->group_size = v.mma ? MMA_GROUP : SIDE * SIDE;
    plan->variant = pack(&v);
    plan->key[0] = 0x6174746e; /* ASCII "attn", so that the key differs from
                                * those of programs and primitives */
    plan->key[1] = 0;
    tn__hash_word(plan->key, plan->variant);
    tn__hash_word(plan->key, target->flags);
    tn__hash_finish(plan->key);
    return TN_OK;
}

/* ---- printing ------------------------------------------------------------ */

tn_status tn__print_attention(const tn_target *target, const tn_plan *plan,
                              tn_source *source)
{
    static const char *const part[] = {"attention_forward.cl",
                                       "attention_query.cl",
                                       "attention_key.cl"};
    variant v = unpack(plan->variant);
    const char *stored = tn__source_dtype(v.dtype);
    const char *mask = v.mask == MASK_BOOL  ? "bool"
                       : v.mask == MASK_F32 ? "f32"
                                            : stored;
    tn__text text = {.data = NULL};
    tn__source_head(&text, target, v.is_wide, v.in_buffer,
                    plan->argument_bytes / 8);
    tn__text_add(&text,
                 "#define TK_WORDS %s words\n#define TK_STORED tk_s_%s\n"
                 "#define TK_FROM(s) tk_from_%s(s)\n"
                 "#define TK_TO(x) tk_to_%s(x)\n"
                 "#define TK_SIZE %u\n#define TK_VALUES %u\n"
                 "#define TK_ROWS %d\n#define TK_KEYS %d\n"
                 "#define TK_SIDE %d\n#define TK_MASKED tk_s_%s\n",
                 v.in_buffer ? "TK_G const tk_i64 *" : "tk_words", stored,
                 stored, stored, v.size, v.values, (int)tile_queries(&v),
                 (int)tile_keys(&v), SIDE, mask);
    if (v.mask == MASK_BOOL)
        tn__text_add(&text, "#define TK_IS_HIDDEN(m) ((m) == 0)\n");
    else if (v.mask != MASK_NONE)
        tn__text_add(&text, "#define TK_MASK_VALUE(m) tk_from_%s(m)\n", mask);
    if (v.causal)
        tn__text_add(&text, "#define TK_CAUSAL 1\n");
    if (v.drops)
        tn__text_add(&text, "#define TK_DROPS 1\n");
    if (v.aligned)
        tn__text_add(&text, "#define TK_ALIGNED 1\n");
    if (v.dtype == TN_BF16)
        tn__text_add(&text, "#define TK_BF16 1\n");
    if (v.part == BACK_KEY)
        tn__text_add(&text, "#define TK_BACK_KEY 1\n");
    tn__text_add(&text, "%s%s%s", tn__source_text("attention.cl"),
                 v.mma ? tn__source_text("attention_tensor.cl") : "",
                 tn__source_text(!v.mma ? part[v.part]
                                 : v.part == FORWARD
                                     ? "attention_mma.cl"
                                     : "attention_mma_back.cl"));
    source->text_bytes = text.length;
    source->text = tn__text_finish(&text);
    source->kernel = "tn_attention";
    return source->text ? TN_OK : TN_ERR_MEMORY;
}
