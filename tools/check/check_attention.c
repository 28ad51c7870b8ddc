/* check_attention.c: computes attention and its gradient by plain loops in
 * double precision, as reference for the extension "attention". */
#include "check_attention.h"

#include <math.h>
#include <string.h>

#include "kernel/philox.h"

/* One row of the score matrix: the scores of query i with all keys, in head h
 * of batch element b. */
typedef struct row {
    const tn_attention_args *args;
    operand *const *o;
    int64_t b, h, i;
    double score[OPERAND_POINTS];
} row;

static int64_t line_of(const row *r)
{
    return (r->b * r->args->heads + r->h) * r->args->queries + r->i;
}

/* Returns the row of operands k and v that holds key j of this head. Several
 * query heads may share one head of k and v. */
static int64_t key_of(const row *r, int64_t j)
{
    const tn_attention_args *a = r->args;
    int64_t head = r->h / (a->heads / a->kv_heads);
    return (r->b * a->kv_heads + head) * a->keys + j;
}

static double dot(const operand *x, int64_t at, const operand *y,
                  int64_t other, int64_t count)
{
    double sum = 0;
    for (int64_t e = 0; e < count; e++)
        sum += x->value[at * count + e].f * y->value[other * count + e].f;
    return sum;
}

static double size_of_dot(const operand *x, int64_t at, const operand *y,
                          int64_t other, int64_t count)
{
    double sum = 0;
    for (int64_t e = 0; e < count; e++)
        sum += fabs(x->value[at * count + e].f *
                    y->value[other * count + e].f);
    return sum;
}

static void fill_scores(row *r)
{
    const tn_attention_args *a = r->args;
    const operand *mask = r->o[ATTENTION_MASK];
    for (int64_t j = 0; j < a->keys; j++) {
        double s = a->scale * dot(r->o[ATTENTION_Q], line_of(r),
                                  r->o[ATTENTION_K], key_of(r, j),
                                  a->features);
        tn_number m = mask ? mask->value[line_of(r) * a->keys + j]
                           : (tn_number){.f = 0};
        if (mask && mask->view.dtype != TN_BOOL)
            s += m.f;
        if ((mask && mask->view.dtype == TN_BOOL && !m.i) ||
            (a->flags & TN_ATTENTION_CAUSAL && j > r->i))
            s = -INFINITY;
        r->score[j] = s;
    }
}

static double log_sum_exp(const row *r)
{
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < r->args->keys; j++)
        most = fmax(most, r->score[j]);
    if (isinf(most))
        return most;
    for (int64_t j = 0; j < r->args->keys; j++)
        sum += exp(r->score[j] - most);
    return most + log(sum);
}

static double weight(const row *r, double lse, int64_t j)
{
    return isinf(lse) ? 0 : exp(r->score[j] - lse);
}

static double dropped(const row *r, double x, int64_t j)
{
    const tn_attention_args *a = r->args;
    uint64_t element = (uint64_t)(line_of(r) * a->keys + j);
    float bits = (float)(tn__philox(element >> 2, (uint64_t)a->call,
                                    (uint64_t)a->seed, element & 3) >> 8) *
                 0x1p-24f;
    if (a->dropout <= 0)
        return x;
    return bits < (float)a->dropout ? 0 : x / (1 - (double)(float)a->dropout);
}

/* Returns the relative rounding error of a 16-bit float dtype, 0 for others. */
static double unit(tn_dtype dtype)
{
    return dtype == TN_F16 ? 0x1p-10 : dtype == TN_BF16 ? 0x1p-7 : 0;
}

/* Sets the expected value at index `at` to sum, and its tolerance. `size` is
 * the sum of the absolute values of the terms of sum. The tolerance is the
 * error bound of `terms` + 16 roundings of each term. */
static void put(operand *o, int64_t at, double sum, double size,
                int64_t terms)
{
    o->value[at] = operand_rounded(o->view.dtype, (tn_number){.f = sum});
    o->tolerance[at] = (double)(terms + 16) * 0x1p-22 * size +
                       unit(o->view.dtype) * (size + fabs(sum)) +
                       (o->view.dtype == TN_F16 ? 0x1p-24 : 0x1p-120);
}

/* Calls the function `does` for each row of the score matrix, in order. */
static void each_row(const tn_attention_args *args, operand *const *o,
                     void (*does)(row *r))
{
    static row r;
    r.args = args;
    r.o = o;
    for (r.b = 0; r.b < args->batch; r.b++)
        for (r.h = 0; r.h < args->heads; r.h++)
            for (r.i = 0; r.i < args->queries; r.i++) {
                fill_scores(&r);
                does(&r);
            }
}

static void forward_row(row *r)
{
    const tn_attention_args *a = r->args;
    double lse = log_sum_exp(r);
    const int64_t line = line_of(r), terms = a->features + a->keys;
    for (int64_t e = 0; e < a->values; e++) {
        double sum = 0, size = 0;
        for (int64_t j = 0; j < a->keys; j++) {
            double x = dropped(r, weight(r, lse, j), j) *
                       r->o[ATTENTION_V]->value[key_of(r, j) * a->values + e].f;
            sum += x;
            size += fabs(x);
        }
        put(r->o[ATTENTION_OUT], line * a->values + e, sum, size, terms);
    }
    put(r->o[ATTENTION_LSE], line, lse, isinf(lse) ? 0 : fabs(lse) + 8, terms);
}

void attention_forward(const tn_attention_args *args, operand *const *o)
{
    each_row(args, o, forward_row);
}

/* The expected dq, dk and dv, and the sums of the absolute values of their
 * terms, from which the tolerance follows. */
static double sum[3][OPERAND_POINTS], size[3][OPERAND_POINTS];

static void add(int of, int64_t at, double x, double its_size)
{
    sum[of][at] += x;
    size[of][at] += fabs(its_size);
}

static void backward_row(row *r)
{
    const tn_attention_args *a = r->args;
    const operand *q = r->o[ATTENTION_Q], *k = r->o[ATTENTION_K];
    const operand *v = r->o[ATTENTION_V], *g = r->o[ATTENTION_G];
    const operand *out = r->o[ATTENTION_OUT];
    const int64_t line = line_of(r);
    double lse = r->o[ATTENTION_LSE]->value[line].f;
    double mean = dot(out, line, g, line, a->values);
    double mean_size = size_of_dot(out, line, g, line, a->values);
    for (int64_t j = 0; j < a->keys; j++) {
        const int64_t key = key_of(r, j);
        double p = weight(r, lse, j);
        double d = dropped(r, dot(g, line, v, key, a->values), j);
        double d_size = dropped(r, size_of_dot(g, line, v, key, a->values), j);
        double s = p * (d - mean) * a->scale;
        double s_size = p * (d_size + mean_size) * a->scale;
        for (int64_t e = 0; e < a->features; e++) {
            double x = k->value[key * a->features + e].f;
            add(0, line * a->features + e, s * x, s_size * x);
            x = q->value[line * a->features + e].f;
            add(1, key * a->features + e, s * x, s_size * x);
        }
        p = dropped(r, p, j);
        for (int64_t e = 0; e < a->values; e++) {
            double x = p * g->value[line * a->values + e].f;
            add(2, key * a->values + e, x, x);
        }
    }
}

void attention_backward(const tn_attention_args *args, operand *const *o)
{
    memset(sum, 0, sizeof sum);
    memset(size, 0, sizeof size);
    each_row(args, o, backward_row);
    for (int of = 0; of < 3; of++) {
        operand *to = o[ATTENTION_DQ + of];
        for (int64_t i = 0; i < to->count; i++)
            put(to, i, sum[of][i], size[of][i],
                args->features + args->values + args->keys + args->queries);
    }
}
