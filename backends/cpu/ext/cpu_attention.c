/* cpu_attention.c: the extension `attention`: scaled_dot_product_attention and
 * its gradient, for float32 without dropout.
 *
 * A block of queries is multiplied with one block of keys after the other. The
 * scores (products of queries and keys) stay in L1 until the next product uses
 * them, as in FlashAttention (arXiv:2205.14135). Keys, and for the gradient
 * values, are transposed once for all queries of a task. Blocks that a causal
 * mask masks out completely are skipped. The divisor of each row's softmax is
 * accumulated over the blocks, and the division comes last. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "../cpu.h"
#include "../cpu_device.h"
#include "../prim/float_product.h"

enum {
    /* number of queries in a block. Their 32 x 256 scores have 32 KiB. */
    QUERIES = 32,
    /* number of keys in a block */
    KEYS = 256,
    /* The number of queries of a forward task. Keys are transposed once for all
     * of them. */
    TASK_ROWS = 1024,
    FULL = 1 << 30 /* means "all keys of a block are visible" */
};

typedef struct attention {
    const tn_attention_args *args;
    const tn_cpu_routines *routines;
    int64_t parts; /* number of tasks that compute the queries of one head
                    * forward */
    atomic_int failed;
} attention;

/* A matrix of one head (queries, keys, ...) with contiguous rows. row is the
 * stride between rows in elements. */
typedef struct matrix {
    float *at;
    int64_t row;
} matrix;

static matrix head_of(const tn_strided *x, int64_t b, int64_t h)
{
    float *at = (float *)(void *)tn__cpu_at(x->buffer, x->offset, 4);
    return (matrix){at + b * x->stride[0] + h * x->stride[1], x->stride[2]};
}

static matrix rows_from(matrix x, int64_t row)
{
    return (matrix){x.at + row * x.row, x.row};
}

/* A matrix with strides of rows and columns in elements. */
typedef struct operand {
    const float *at;
    int64_t row, column;
} operand;

static operand plain(matrix x)
{
    return (operand){x.at, x.row, 1};
}

static operand transpose_of(matrix x)
{
    return (operand){x.at, 1, x.row};
}

/* The sizes of a product of an m x k and a k x n matrix. */
typedef struct sizes {
    int64_t m, n, k;
} sizes;

/* Computes c = alpha a b, or c += alpha a b if `adds` is set. Returns false if
 * out of memory. */
static bool multiply(const attention *t, sizes size, operand a, operand b,
                     matrix c, double alpha, bool adds)
{
    const tn_cpu_product p = {.routines = t->routines,
                              .type = CPU_F32,
                              .m = size.m,
                              .n = size.n,
                              .k = size.k,
                              .a = {(char *)(uintptr_t)a.at, a.row, a.column},
                              .b = {(char *)(uintptr_t)b.at, b.row, b.column},
                              .c = {(char *)c.at, c.row, 1},
                              .alpha = alpha,
                              .beta = adds};
    return tn__cpu_multiply(&p);
}

/* Transposes the rows of x into to[block][feature][KEYS], KEYS rows at a
 * time. */
static void transpose_keys(const attention *t, float *to, matrix x,
                           int64_t keys, int64_t features)
{
    for (int64_t j = 0; j < keys; j += KEYS)
        t->routines->transpose[4](to + j * features, KEYS, x.at + j * x.row,
                                  x.row, tn__cpu_min(KEYS, keys - j), features,
                                  0);
}

/* Returns the block of transposed keys that begins at key j. */
static matrix transposed_block(float *transposed, int64_t j, int64_t features)
{
    return (matrix){transposed + j * features, KEYS};
}

static int64_t keys_to_whole(int64_t keys)
{
    return (keys + KEYS - 1) / KEYS * KEYS;
}

/* Returns the number of keys to which at least one query before `end`
 * attends. */
static int64_t keys_before(const tn_attention_args *a, int64_t end)
{
    return a->flags & TN_ATTENTION_CAUSAL ? tn__cpu_min(end, a->keys)
                                          : a->keys;
}

/* Returns how many keys with an index of at least j query i may attend to. The
 * result may be negative, or larger than the number of keys. */
static int64_t visible_keys(const tn_attention_args *a, int64_t i, int64_t j)
{
    return a->flags & TN_ATTENTION_CAUSAL ? i + 1 - j : FULL;
}

/* A block of queries: [i, i + rows) of one head and one element of the
 * batch. */
typedef struct query_block {
    int64_t batch, head, i, rows;
} query_block;

/* If there is a mask, applies it to s, the scores of a block of queries and of
 * keys [j, j + width). */
static void mask(const attention *t, const query_block *q, int64_t j,
                 int64_t width, matrix s)
{
    const tn_strided *x = &t->args->mask;
    const bool is_bool = x->dtype == TN_BOOL;
    if (!x->buffer)
        return;
    for (int64_t r = 0; r < q->rows; r++) {
        const int64_t at = x->offset + q->batch * x->stride[0] +
                           q->head * x->stride[1] + (q->i + r) * x->stride[2] +
                           j * x->stride[3];
        t->routines->attention->apply_mask(
            s.at + r * s.row, tn__cpu_at(x->buffer, at, is_bool ? 1 : 4),
            x->stride[3], is_bool, width);
    }
}

/* ---- forward ------------------------------------------------------------- */

/* Computes out and lse for queries [i, i + rows) of head h in element b of the
 * batch. lse is the logarithm of the sum of exponentials of each row of scores.
 * transposed has the transposed keys, and scores is scratch memory. Returns
 * false if out of memory. */
static bool forward_block(const attention *t, int64_t b, int64_t h, int64_t i,
                          int64_t rows, float *transposed, float *scores)
{
    const tn_attention_args *a = t->args;
    const int64_t of = h / (a->heads / a->kv_heads);
    const matrix q = rows_from(head_of(&a->q, b, h), i);
    const matrix v = head_of(&a->v, b, of);
    const matrix out = rows_from(head_of(&a->out, b, h), i);
    const matrix s = {scores, KEYS};
    const int64_t end = keys_before(a, i + rows);
    float most[QUERIES], sum[QUERIES];
    for (int64_t r = 0; r < rows; r++) {
        most[r] = -INFINITY;
        sum[r] = 0;
    }
    for (int64_t j = 0; j < end; j += KEYS) {
        const int64_t width = tn__cpu_min(KEYS, end - j);
        if (!multiply(t, (sizes){rows, width, a->features}, plain(q),
                      plain(transposed_block(transposed, j, a->features)), s,
                      a->scale, false))
            return false;
        mask(t, &(query_block){b, h, i, rows}, j, width, s);
        t->routines->attention->softmax_block(
            &(tn_cpu_scores){s.at, KEYS, rows, width, visible_keys(a, i, j)},
            most, sum, out.at,
            out.row, j ? a->values : 0);
        if (!multiply(t, (sizes){rows, a->values, width}, plain(s),
                      plain(rows_from(v, j)), out, 1, j > 0))
            return false;
    }
    t->routines->attention->normalize(out.at, out.row, rows, a->values, sum);
    float *lse = (float *)(void *)tn__cpu_at(a->lse.buffer, a->lse.offset, 4) +
                 (b * a->heads + h) * a->queries + i;
    for (int64_t r = 0; r < rows; r++)
        lse[r] = most[r] + (sum[r] == 1 ? 0 : logf(sum[r]));
    return true;
}

/* Computes a forward task: up to TASK_ROWS queries of one head. Returns false
 * if out of memory. */
static bool forward(const attention *t, int64_t task)
{
    const tn_attention_args *a = t->args;
    const int64_t h = task / t->parts % a->heads;
    const int64_t b = task / t->parts / a->heads;
    const int64_t first = task % t->parts * TASK_ROWS;
    const int64_t last = tn__cpu_min(first + TASK_ROWS, a->queries);
    const int64_t keys = keys_before(a, last);
    const int64_t whole = keys_to_whole(keys) * a->features;
    float *memory =
        tn__cpu_memory_acquire((size_t)(whole + QUERIES * KEYS) * 4);
    bool fine = memory != NULL;
    if (fine)
        transpose_keys(t, memory,
                       head_of(&a->k, b, h / (a->heads / a->kv_heads)), keys,
                       a->features);
    for (int64_t i = first; fine && i < last; i += QUERIES)
        fine = forward_block(t, b, h, i, tn__cpu_min(QUERIES, last - i), memory,
                             memory + whole);
    tn__cpu_memory_release(memory);
    return fine;
}

/* ---- backward ------------------------------------------------------------ */

/* Scratch memory of a task of the backward pass (one head). */
typedef struct workspace {
    float *keys, *values; /* transposed keys and values of the head */
    /* scores[QUERIES][KEYS], and their gradient flow[QUERIES][KEYS] */
    float *scores, *flow;
    /* a contiguous copy of a block of g, the gradient of the loss in `out` */
    float *g;
} workspace;

/* Returns rows [i, i + rows) of g, the gradient of out, as a matrix with
 * contiguous rows. If rows are not contiguous, copies them to m->g. */
static matrix gradient_of(const attention *t, int64_t b, int64_t h, int64_t i,
                          int64_t rows, const workspace *m)
{
    const tn_strided *g = &t->args->g;
    const int64_t values = t->args->values;
    const matrix x = rows_from(head_of(g, b, h), i);
    if (g->stride[3] == 1)
        return x;
    for (int64_t r = 0; r < rows; r++)
        t->routines->load[TN_F32](m->g + r * values, x.at + r * x.row,
                                  g->stride[3], values);
    return (matrix){m->g, values};
}

/* Computes dq for queries [i, i + rows) of head h in element b of the batch,
 * and adds the contributions of these queries to dk and dv. Returns false if
 * out of memory. */
static bool backward_block(const attention *t, int64_t b, int64_t h, int64_t i,
                           int64_t rows, const workspace *m)
{
    const tn_attention_args *a = t->args;
    const int64_t of = h / (a->heads / a->kv_heads);
    const matrix q = rows_from(head_of(&a->q, b, h), i);
    const matrix out = rows_from(head_of(&a->out, b, h), i);
    const matrix dq = rows_from(head_of(&a->dq, b, h), i);
    const matrix k = head_of(&a->k, b, of), dk = head_of(&a->dk, b, of);
    const matrix dv = head_of(&a->dv, b, of);
    const matrix g = gradient_of(t, b, h, i, rows, m);
    const matrix s = {m->scores, KEYS}, d = {m->flow, KEYS};
    const int64_t end = keys_before(a, i + rows);
    const float *lse =
        (float *)(void *)tn__cpu_at(a->lse.buffer, a->lse.offset, 4) +
        (b * a->heads + h) * a->queries + i;
    float mean[QUERIES];
    bool fine = true;
    t->routines->attention->row_dots(g.at, g.row, out.at, out.row, rows,
                                     a->values, mean);
    for (int64_t j = 0; fine && j < end; j += KEYS) {
        const int64_t width = tn__cpu_min(KEYS, end - j);
        fine = multiply(t, (sizes){rows, width, a->features}, plain(q),
                        plain(transposed_block(m->keys, j, a->features)), s,
                        a->scale, false) &&
               multiply(t, (sizes){rows, width, a->values}, plain(g),
                        plain(transposed_block(m->values, j, a->values)), d, 1,
                        false);
        if (!fine)
            break;
        mask(t, &(query_block){b, h, i, rows}, j, width, s);
        t->routines->attention->softmax_backward(
            &(tn_cpu_scores){s.at, KEYS, rows, width, visible_keys(a, i, j)},
            d.at, lse, mean);
        fine = multiply(t, (sizes){width, a->values, rows}, transpose_of(s),
                        plain(g), rows_from(dv, j), 1, true) &&
               multiply(t, (sizes){width, a->features, rows}, transpose_of(d),
                        plain(q), rows_from(dk, j), a->scale, true) &&
               multiply(t, (sizes){rows, a->features, width}, plain(d),
                        plain(rows_from(k, j)), dq, a->scale, j > 0);
    }
    return fine;
}

static void clear(matrix x, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        memset(x.at + i * x.row, 0, (size_t)columns * 4);
}

/* Computes the gradients of keys and values of one head, and of the queries of
 * all heads that use these keys. Returns false if out of memory. */
static bool backward(const attention *t, int64_t task)
{
    const tn_attention_args *a = t->args;
    const int64_t of = task % a->kv_heads, b = task / a->kv_heads;
    const int64_t each = a->heads / a->kv_heads;
    const int64_t whole = keys_to_whole(a->keys);
    const int64_t k_size = whole * a->features, v_size = whole * a->values;
    float *memory = tn__cpu_memory_acquire(
        (size_t)(k_size + v_size + QUERIES * (2 * KEYS + a->values)) * 4);
    if (!memory)
        return false;
    workspace m = {.keys = memory, .values = memory + k_size};
    m.scores = m.values + v_size;
    m.flow = m.scores + QUERIES * KEYS;
    m.g = m.flow + QUERIES * KEYS;
    transpose_keys(t, m.keys, head_of(&a->k, b, of), a->keys, a->features);
    transpose_keys(t, m.values, head_of(&a->v, b, of), a->keys, a->values);
    clear(head_of(&a->dk, b, of), a->keys, a->features);
    clear(head_of(&a->dv, b, of), a->keys, a->values);
    bool fine = true;
    for (int64_t h = of * each; fine && h < (of + 1) * each; h++)
        for (int64_t i = 0; fine && i < a->queries; i += QUERIES)
            fine = backward_block(t, b, h, i,
                                  tn__cpu_min(QUERIES, a->queries - i), &m);
    tn__cpu_memory_release(memory);
    return fine;
}

/* ---- the call ------------------------------------------------------------ */

static tn_status declined(const char *why)
{
    return tn__cpu_host->fail(TN_ERR_UNSUPPORTED, "attention: %s", why);
}

static bool is_contiguous(const tn_strided *x)
{
    return x->stride[3] == 1;
}

static tn_status check(const tn_attention_args *a)
{
    if (!tn_attention_is_known(a))
        return tn__cpu_unknown("attention");
    if (a->q.dtype != TN_F32)
        return declined("the dtype must be float32");
    if (a->dropout > 0)
        return declined("dropout is not supported");
    if (a->mask.buffer && a->mask.dtype != TN_BOOL && a->mask.dtype != TN_F32)
        return declined("the mask must be bool or float32");
    if (!is_contiguous(&a->q) || !is_contiguous(&a->k) || !is_contiguous(&a->v))
        return declined("features of q, k and v must be contiguous");
    return TN_OK;
}

static tn_status fits(tn_plugin_device *device, const tn_attention_args *args)
{
    (void)device;
    return check(args);
}

static void run_forward(void *context, int64_t task)
{
    attention *t = context;
    unsigned fpu = tn__cpu_fpu_set();
    if (!forward(t, task))
        atomic_store(&t->failed, 1);
    tn__cpu_fpu_restore(fpu);
}

static void run_backward(void *context, int64_t task)
{
    attention *t = context;
    unsigned fpu = tn__cpu_fpu_set();
    if (!backward(t, task))
        atomic_store(&t->failed, 1);
    tn__cpu_fpu_restore(fpu);
}

static tn_status run(tn_queue *queue, const tn_attention_args *args)
{
    const bool is_backward = args->kind == TN_ATTENTION_BACKWARD;
    tn_status status = check(args);
    if (status < 0)
        return status;
    if (!is_contiguous(&args->out) ||
        (is_backward &&
         (!is_contiguous(&args->dq) || !is_contiguous(&args->dk) ||
          !is_contiguous(&args->dv))))
        return declined("features of results must be contiguous");
    attention t = {.args = args, .routines = queue->routines,
                   .parts = (args->queries + TASK_ROWS - 1) / TASK_ROWS};
    atomic_init(&t.failed, 0);
    if (is_backward)
        tn__cpu_host->parallel_for(args->batch * args->kv_heads, run_backward,
                                   &t);
    else
        tn__cpu_host->parallel_for(args->batch * args->heads * t.parts,
                                   run_forward, &t);
    return atomic_load(&t.failed)
               ? tn__cpu_host->fail(TN_ERR_MEMORY, "attention: out of memory "
                                                   "for a block of scores")
               : TN_OK;
}

const tn_attention_extension tn__cpu_attention_extension = {
    .size = sizeof(tn_attention_extension), .fits = fits, .run = run};
