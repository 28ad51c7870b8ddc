/* reduction.c: reduces a row to one value, adding one element after the other.
 * reduction.h describes the order. */
#include <math.h>

#include <kernel/reduction.h>
#include <kernel/kernel.h>

static tn_number combine(unsigned kind, tn_dtype dtype, tn_number a,
                         tn_number b)
{
    static const uint8_t op[] = {
        [TN_REDUCE_SUM] = TN_K_ADD,
        [TN_REDUCE_PROD] = TN_K_MUL,
        [TN_REDUCE_MAX] = TN_K_MAX,
        [TN_REDUCE_MIN] = TN_K_MIN,
    };
    tn_kernel_ins ins = {.op = op[kind], .dtype = (uint8_t)dtype};
    return tn__kernel_eval(&ins, a, b, (tn_number){.i = 0}, dtype);
}

/* Combines the partial results (lanes) of the current chunk to one value. Only
 * the first `present` of them have elements. */
static tn_number reduce_lanes(tn__reduction *f, unsigned kind, tn_dtype dtype,
                              int64_t present)
{
    for (int half = TN_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half && i + half < present; i++)
            f->lane[i] = combine(kind, dtype, f->lane[i], f->lane[i + half]);
    return f->lane[0];
}

static void add_ordered(tn__reduction *f, unsigned kind, tn_dtype dtype,
                        tn_number x)
{
    int64_t in_chunk = f->count++ % TN_CHUNK;
    int lane = (int)(in_chunk % TN_LANES);
    f->lane[lane] =
        in_chunk < TN_LANES ? x : combine(kind, dtype, f->lane[lane], x);
    if (in_chunk < TN_CHUNK - 1)
        return;
    tn_number sum = reduce_lanes(f, kind, dtype, TN_LANES);
    int level = 0;
    for (; f->chunks >> level & 1; level++)
        sum = combine(kind, dtype, f->tree[level], sum);
    f->tree[level] = sum;
    f->chunks++;
}

static tn_number result_ordered(tn__reduction *f, unsigned kind, tn_dtype dtype)
{
    int64_t in_chunk = f->count % TN_CHUNK;
    bool any = in_chunk > 0;
    tn_number sum = {.i = 0};
    if (any)
        sum = reduce_lanes(f, kind, dtype,
                           in_chunk < TN_LANES ? in_chunk : TN_LANES);
    /* tree[level] is the result of earlier chunks, so it is the left
     * operand. */
    for (int level = 0; f->chunks >> level; level++)
        if (f->chunks >> level & 1) {
            sum = any ? combine(kind, dtype, f->tree[level], sum)
                      : f->tree[level];
            any = true;
        }
    return sum;
}

static bool is_nan(tn_number x, tn_dtype dtype)
{
    return (dtype == TN_F32 || dtype == TN_F64) && isnan(x.f);
}

/* Returns whether x replaces the best value so far. It must be strictly better,
 * so that the first of several equal values is returned. -0 and +0 are equal
 * here, as in PyTorch's argmax. NaN is better than everything but another
 * NaN. */
static bool is_better(unsigned kind, tn_dtype dtype, tn_number x,
                      tn_number best)
{
    if (is_nan(x, dtype) || is_nan(best, dtype))
        return !is_nan(best, dtype);
    tn_kernel_ins less = {.op = TN_K_LT, .dtype = TN_BOOL};
    tn_number none = {.i = 0};
    return kind == TN_REDUCE_ARGMAX
               ? tn__kernel_eval(&less, best, x, none, dtype).i
               : tn__kernel_eval(&less, x, best, none, dtype).i;
}

void tn__reduction_add(tn__reduction *f, unsigned kind, tn_dtype dtype,
                       tn_number x)
{
    if (kind == TN_REDUCE_SUM || kind == TN_REDUCE_PROD) {
        add_ordered(f, kind, dtype, x);
        return;
    }
    if (f->count == 0) {
        f->best = x;
    } else if (kind == TN_REDUCE_MAX || kind == TN_REDUCE_MIN) {
        f->best = combine(kind, dtype, f->best, x);
    } else if (is_better(kind, dtype, x, f->best)) {
        f->best = x;
        f->best_at = f->count;
    }
    f->count++;
}

/* Returns the result of reducing an empty row. */
static tn_number empty_result(unsigned kind, tn_dtype dtype)
{
    bool is_float = dtype == TN_F32 || dtype == TN_F64;
    switch (kind) {
    case TN_REDUCE_PROD:
        return is_float ? (tn_number){.f = 1} : (tn_number){.i = 1};
    case TN_REDUCE_MAX:
        if (is_float)
            return (tn_number){.f = -INFINITY};
        return (tn_number){.i = dtype == TN_BOOL  ? 0
                                : dtype == TN_I32 ? INT32_MIN
                                                  : INT64_MIN};
    case TN_REDUCE_MIN:
        if (is_float)
            return (tn_number){.f = INFINITY};
        return (tn_number){.i = dtype == TN_BOOL  ? 1
                                : dtype == TN_I32 ? INT32_MAX
                                                  : INT64_MAX};
    default: /* SUM, ARGMAX and ARGMIN */
        return is_float ? (tn_number){.f = 0} : (tn_number){.i = 0};
    }
}

void tn__reduction_init(tn__reduction *f)
{
    f->count = f->chunks = f->best_at = 0;
}

tn_number tn__reduction_result(tn__reduction *f, unsigned kind, tn_dtype dtype)
{
    if (f->count == 0)
        return empty_result(kind, dtype);
    switch (kind) {
    case TN_REDUCE_SUM:
    case TN_REDUCE_PROD:
        return result_ordered(f, kind, dtype);
    case TN_REDUCE_MAX:
    case TN_REDUCE_MIN:
        return f->best;
    default:
        return (tn_number){.i = f->best_at};
    }
}
