/* cuda_attention.c: computes scaled_dot_product_attention and its gradient by
 * cuDNN.
 *
 * Attention is described as a graph of operations, in the same order as in
 * NVIDIA's cudnn-frontend. cuDNN 9 recognises this graph and runs one kernel.
 * For the gradient only engines with a fixed order of summation are used.
 * Tenon's own kernels compute attention with dropout, attention that cuDNN does
 * not support, and attention for which attention_check.c finds cuDNN wrong. */
#include <math.h>
#include <string.h>

#include "cuda.h"
#include "cudnn.h"

/* The oldest version of cuDNN that is used, 9.16.0. Earlier versions need
 * explicit sequence lengths for the gradient if the number of keys is not a
 * multiple of 128, and some compute wrong results. */
#define OLDEST 91600

#define ALIGN 16

/* Ids of the graph's tensors. Tensors from Q to ONE have an address. Tensors
 * with an id of at least FIRST_VIRTUAL are virtual: they exist only within the
 * graph. */
enum { Q = 1, K, V, MASK, OUT, G, DQ, DK, DV, LSE, SUMS, SCALE, MINUS_INF, ONE,
       FIRST_VIRTUAL };

/* The properties of an attention on which its plan (cuDNN's prepared engine)
 * depends. The struct has no padding, because its bytes are compared. */
typedef struct shape {
    int64_t size[LSE][4], stride[LSE][4]; /* indexed by tensor, Q to DV */
    /* extents of the score matrices, and of a tensor with one element for each
     * row of scores */
    int64_t all[4], row[4];
    uint32_t kind, type, mask_type, causal;
} shape;
_Static_assert(sizeof(shape) % sizeof(uint64_t) == 0, "hashed by words");

/* ---- the graph ----------------------------------------------------------- */

typedef tn_dnn_descriptor tensor;

typedef struct builder {
    tn_dnn_graph *g;
    const shape *s;
    int64_t id; /* id of the next virtual tensor */
    tensor scale;
} builder;

static void contiguous_strides(const int64_t *size, int64_t *stride)
{
    stride[3] = 1;
    for (int d = 3; d-- > 0;)
        stride[d] = stride[d + 1] * size[d + 1];
}

static tensor virtual_tensor(builder *b, uint32_t type, const int64_t *size)
{
    int64_t stride[4];
    contiguous_strides(size, stride);
    return tn__dnn_tensor(b->g, (int)type, size, stride, b->id++, ALIGN,
                          TN_DNN_VIRTUAL);
}

/* Describes one of the tensors Q to DV, or its transpose. */
static tensor stored_tensor(builder *b, int id, bool transposed)
{
    const int64_t *n = b->s->size[id], *m = b->s->stride[id];
    const int64_t size[] = {n[0], n[1], n[2 + transposed], n[3 - transposed]};
    const int64_t stride[] = {m[0], m[1], m[2 + transposed], m[3 - transposed]};
    return tn__dnn_tensor(b->g,
                          (int)(id == MASK ? b->s->mask_type : b->s->type),
                          size, stride, id, ALIGN, TN_DNN_STORED);
}

/* Describes a float32 tensor: LSE, SUMS, or one of the scalars SCALE, MINUS_INF
 * and ONE, which are passed by value. */
static tensor float_tensor(builder *b, int id)
{
    static const int64_t one[] = {1, 1, 1, 1};
    const int64_t *size = id >= SCALE ? one : b->s->row;
    int64_t stride[4];
    contiguous_strides(size, stride);
    return tn__dnn_tensor(b->g, TN_DNN_FLOAT, size, stride, id, ALIGN,
                          size == one ? TN_DNN_BY_VALUE : TN_DNN_STORED);
}

/* The kinds of operation. For each kind the table has the operation's type in
 * cuDNN, and the type and attribute names of its description. LAYOUT has no
 * description. */
enum { POINT, REDUCE, PRODUCT, LAYOUT };
static const struct {
    int op, description, mode, mode_type, compute, desc, x, other, y;
} operations[] = {
    [POINT] = {TN_DNN_OP_POINT, TN_DNN_POINT, TN_DNN_POINT_MODE,
               TN_DNN_IS_POINT_MODE, TN_DNN_POINT_COMPUTE, TN_DNN_POINT_DESC,
               TN_DNN_POINT_X, TN_DNN_POINT_B, TN_DNN_POINT_Y},
    [REDUCE] = {TN_DNN_OP_REDUCE, TN_DNN_REDUCE, TN_DNN_REDUCE_MODE,
                TN_DNN_IS_REDUCE_MODE, TN_DNN_REDUCE_COMPUTE,
                TN_DNN_REDUCE_DESC, TN_DNN_REDUCE_X, 0, TN_DNN_REDUCE_Y},
    [PRODUCT] = {TN_DNN_OP_PRODUCT, TN_DNN_PRODUCT, 0, 0,
                 TN_DNN_PRODUCT_COMPUTE, TN_DNN_PRODUCT_DESC,
                 TN_DNN_PRODUCT_A, TN_DNN_PRODUCT_B, TN_DNN_PRODUCT_C},
    [LAYOUT] = {TN_DNN_OP_RESHAPE, 0, 0, 0, 0, 0, TN_DNN_RESHAPE_X, 0,
                TN_DNN_RESHAPE_Y}};

/* Modes of pointwise operations that return the row or column index of each
 * element. The axis is in the upper 16 bits. */
enum { ROW = TN_DNN_INDEX | 2 << 16, COLUMN = TN_DNN_INDEX | 3 << 16 };

/* Appends y = operation(x, other) to the graph and returns y. If `condition` is
 * not NULL, y = condition ? x : other for each element. */
static tensor op(builder *b, int kind, int mode, tensor x, tensor other,
                 tensor condition, tensor y)
{
    const int64_t axis = mode >> 16;
    tensor description = NULL;
    if (operations[kind].desc) {
        description = tn__dnn_begin(b->g, operations[kind].description);
        tn__dnn_set_int(
            b->g, description, operations[kind].compute, TN_DNN_IS_DATA_TYPE,
            mode == TN_DNN_GREATER_EQUAL ? TN_DNN_BOOLEAN : TN_DNN_FLOAT);
        if (operations[kind].mode_type)
            tn__dnn_set_int(b->g, description, operations[kind].mode,
                            operations[kind].mode_type, mode & 0xffff);
        if (axis)
            tn__dnn_set(b->g, description, TN_DNN_POINT_AXIS, TN_DNN_IS_INT64,
                        1, &axis);
        tn__dnn_end(b->g, description);
    }
    tensor op = tn__dnn_begin(b->g, operations[kind].op);
    if (description)
        tn__dnn_set_descriptor(b->g, op, operations[kind].desc, description);
    tn__dnn_set_descriptor(b->g, op, operations[kind].x, x);
    if (other)
        tn__dnn_set_descriptor(b->g, op, operations[kind].other, other);
    if (condition)
        tn__dnn_set_descriptor(b->g, op, TN_DNN_POINT_T, condition);
    tn__dnn_set_descriptor(b->g, op, operations[kind].y, y);
    tn__dnn_end_op(b->g, op);
    return y;
}

/* Appends a pointwise operation on tensors with the extents of the scores. */
static tensor point(builder *b, int mode, tensor x, tensor other)
{
    return op(b, POINT, mode, x, other, NULL,
              virtual_tensor(b, TN_DNN_FLOAT, b->s->all));
}

/* Appends the operations Q K^T * scale + mask. */
static tensor scores(builder *b, tensor q, tensor keys)
{
    tensor x = op(b, PRODUCT, 0, q, keys, NULL,
                  virtual_tensor(b, TN_DNN_FLOAT, b->s->all));
    x = point(b, TN_DNN_MUL, x, b->scale);
    return b->s->mask_type
               ? point(b, TN_DNN_ADD, x, stored_tensor(b, MASK, false))
               : x;
}

/* Appends the causal mask to the graph: replaces x[...][i][j] by minus infinity
 * if key j is after query i. */
static tensor causal(builder *b, tensor x)
{
    const int64_t *all = b->s->all;
    if (!b->s->causal)
        return x;
    tensor row =
        op(b, POINT, ROW, x, NULL, NULL, virtual_tensor(b, TN_DNN_INT32, all));
    tensor column = op(b, POINT, COLUMN, x, NULL, NULL,
                       virtual_tensor(b, TN_DNN_INT32, all));
    tensor is_visible = op(b, POINT, TN_DNN_GREATER_EQUAL, row, column, NULL,
                           virtual_tensor(b, TN_DNN_BOOLEAN, all));
    return op(b, POINT, TN_DNN_SELECT, x, float_tensor(b, MINUS_INF),
              is_visible, virtual_tensor(b, TN_DNN_FLOAT, all));
}

static void forward(builder *b)
{
    const shape *s = b->s;
    tensor x = causal(
        b, scores(b, stored_tensor(b, Q, false), stored_tensor(b, K, true)));
    tensor most = op(b, REDUCE, TN_DNN_MAX, x, NULL, NULL,
                     virtual_tensor(b, TN_DNN_FLOAT, s->row));
    x = point(b, TN_DNN_EXP, point(b, TN_DNN_SUB, x, most), NULL);
    tensor sum = op(b, REDUCE, TN_DNN_SUM, x, NULL, NULL,
                    virtual_tensor(b, TN_DNN_FLOAT, s->row));
    tensor log = op(b, POINT, TN_DNN_LOG, sum, NULL, NULL,
                    virtual_tensor(b, TN_DNN_FLOAT, s->row));
    op(b, POINT, TN_DNN_ADD, most, log, NULL, float_tensor(b, LSE));
    x = op(b, POINT, TN_DNN_DIV, x, sum, NULL,
           virtual_tensor(b, s->type, s->all));
    op(b, PRODUCT, 0, x, stored_tensor(b, V, false), NULL,
       stored_tensor(b, OUT, false));
}

/* Appends transpose(x) * other, the gradient of the keys or the values. It is
 * summed over all query heads that share a head of keys and values. */
static void shared_gradient(builder *b, tensor x, tensor other, int id)
{
    const int64_t *all = b->s->all, *of = b->s->size[id];
    const int64_t size[] = {all[0], all[1], all[3], all[2]};
    const int64_t stride[] = {all[1] * all[2] * all[3], all[2] * all[3], 1,
                              all[3]};
    const int64_t each[] = {all[0], all[1], all[3], of[3]};
    tensor y = stored_tensor(b, id, false);
    x = op(b, LAYOUT, 0, x, NULL, NULL,
           tn__dnn_tensor(b->g, (int)b->s->type, size, stride, b->id++, ALIGN,
                          TN_DNN_VIRTUAL));
    if (of[1] == all[1]) {
        op(b, PRODUCT, 0, x, other, NULL, y);
        return;
    }
    x = op(b, PRODUCT, 0, x, other, NULL, virtual_tensor(b, b->s->type, each));
    op(b, REDUCE, TN_DNN_SUM, x, NULL, NULL, y);
}

/* Appends the operations of the gradient. The tensor SUMS contains the row sums
 * of g * out. It is in scratch memory, before the workspace. */
static void backward(builder *b)
{
    const shape *s = b->s;
    tensor g = stored_tensor(b, G, false), q = stored_tensor(b, Q, false);
    tensor keys = stored_tensor(b, K, true);
    tensor x = op(b, POINT, TN_DNN_MUL, g, stored_tensor(b, OUT, false), NULL,
                  virtual_tensor(b, TN_DNN_FLOAT, s->size[G]));
    x = op(b, REDUCE, TN_DNN_SUM, x, NULL, NULL,
           virtual_tensor(b, TN_DNN_FLOAT, s->row));
    tensor sums = op(b, POINT, TN_DNN_MUL, x, float_tensor(b, ONE), NULL,
                     float_tensor(b, SUMS));
    x = point(b, TN_DNN_SUB, scores(b, q, keys), float_tensor(b, LSE));
    tensor w = point(b, TN_DNN_EXP, causal(b, x), NULL);
    shared_gradient(b, w, g, DV);
    x = op(b, PRODUCT, 0, g, stored_tensor(b, V, true), NULL,
           virtual_tensor(b, TN_DNN_FLOAT, s->all));
    x = point(b, TN_DNN_SUB, x, sums);
    x = point(b, TN_DNN_MUL, point(b, TN_DNN_MUL, x, w), b->scale);
    shared_gradient(b, x, q, DK);
    keys = op(b, LAYOUT, 0, keys, NULL, NULL,
              tn__dnn_tensor(b->g, (int)s->type, s->size[K], s->stride[K],
                             b->id++, ALIGN, TN_DNN_VIRTUAL));
    op(b, PRODUCT, 0, x, keys, NULL, stored_tensor(b, DQ, false));
}

static void describe(tn_dnn_graph *graph, const void *key)
{
    builder b = {.g = graph, .s = key, .id = FIRST_VIRTUAL};
    b.scale = float_tensor(&b, SCALE);
    (b.s->kind == TN_ATTENTION_FORWARD ? forward : backward)(&b);
}

/* ---- what is supported --------------------------------------------------- */

/* Sets extents and strides of tensor x in s. Returns false if cuDNN does not
 * support the layout: rows must be contiguous, and each must begin at a
 * multiple of ALIGN bytes. If the mask is broadcast over the batch or the
 * heads, its extent there is 1. */
static bool side_fit(shape *s, int id, const tn_strided *x, int64_t heads,
                     int64_t length, int64_t width)
{
    const int64_t of[] = {s->all[0], heads, length, width};
    const int64_t whole = x->dtype == TN_F32 ? 4 : 8;
    int64_t *size = s->size[id], *stride = s->stride[id];
    bool fits =
        (uintptr_t)tn__cuda_address(x, 0) % ALIGN == 0 && x->stride[3] == 1;
    for (int d = 0; d < 4; d++)
        size[d] = id == MASK && d < 2 && x->stride[d] == 0 ? 1 : of[d];
    contiguous_strides(size, stride);
    for (int d = 0; d < 4; d++) {
        if (size[d] > 1)
            stride[d] = x->stride[d];
        fits = fits && stride[d] > 0 && (d == 3 || stride[d] % whole == 0);
    }
    return fits;
}

static bool shape_of(const tn_attention_args *a, shape *s)
{
    const bool back = a->kind == TN_ATTENTION_BACKWARD;
    *s = (shape){.all = {a->batch, a->heads, a->queries, a->keys},
                 .row = {a->batch, a->heads, a->queries, 1}, .kind = a->kind,
                 .type = a->q.dtype == TN_F16 ? TN_DNN_HALF : TN_DNN_BF16,
                 .causal = a->flags & TN_ATTENTION_CAUSAL};
    if ((a->q.dtype != TN_F16 && a->q.dtype != TN_BF16) || a->dropout > 0 ||
        a->features % 8 || a->values % 8 || (a->queries == 1 && a->keys == 1))
        return false;
    if (a->mask.buffer) {
        s->mask_type = a->mask.dtype == TN_F32 ? TN_DNN_FLOAT : s->type;
        if (a->mask.dtype == TN_BOOL ||
            !side_fit(s, MASK, &a->mask, a->heads, a->queries, a->keys))
            return false;
    }
    return (uintptr_t)tn__cuda_address(&a->lse, 0) % ALIGN == 0 &&
           side_fit(s, Q, &a->q, a->heads, a->queries, a->features) &&
           side_fit(s, K, &a->k, a->kv_heads, a->keys, a->features) &&
           side_fit(s, V, &a->v, a->kv_heads, a->keys, a->values) &&
           side_fit(s, OUT, &a->out, a->heads, a->queries, a->values) &&
           (!back ||
            (side_fit(s, G, &a->g, a->heads, a->queries, a->values) &&
             side_fit(s, DQ, &a->dq, a->heads, a->queries, a->features) &&
             side_fit(s, DK, &a->dk, a->kv_heads, a->keys, a->features) &&
             side_fit(s, DV, &a->dv, a->kv_heads, a->keys, a->values)));
}

static tn_dnn_status run(tn_queue *queue, const tn_dnn_plan *plan,
                         const tn_attention_args *a)
{
    const bool back = a->kind == TN_ATTENTION_BACKWARD;
    float scale = tn__cuda_to_float(a->scale), minus_inf = -INFINITY, one = 1;
    const tn_strided *const side[LSE + 1] = {
        [Q] = &a->q, [K] = &a->k, [V] = &a->v, [MASK] = &a->mask,
        [OUT] = &a->out, [LSE] = &a->lse, [G] = &a->g, [DQ] = &a->dq,
        [DK] = &a->dk, [DV] = &a->dv};
    void *at[FIRST_VIRTUAL] = {
        [SUMS] = back ? (void *)(uintptr_t)queue->scratch : NULL,
        [SCALE] = &scale,
        [ONE] = back ? &one : NULL,
        [MINUS_INF] = a->flags & TN_ATTENTION_CAUSAL ? &minus_inf : NULL};
    int64_t id[FIRST_VIRTUAL], count = 0;
    for (int i = Q; i < FIRST_VIRTUAL; i++) {
        if (i <= LSE && side[i]->buffer && (back || i < G || i == LSE))
            at[i] = tn__cuda_address(side[i], 0);
        if (!at[i])
            continue;
        at[count] = at[i];
        id[count++] = i;
    }
    return tn__dnn_plan_run(queue, plan, count, id, at);
}

/* Returns the plan (cuDNN's prepared engine) for shape s of this attention. */
static const tn_dnn_plan *plan_of(tn_queue *queue, const shape *s,
                                  const tn_attention_args *a, const char **why)
{
    const bool back = a->kind == TN_ATTENTION_BACKWARD;
    const uint64_t rows = (uint64_t)(a->batch * a->heads * a->queries);
    const tn_dnn_problem problem = {
        .key = s,
        .bytes = sizeof *s,
        .describe = describe,
        .min_version = OLDEST,
        .refused_notes =
            1u << TN_DNN_NONDETERMINISTIC | 1u << TN_DNN_REDUCED_SUMS,
        .scratch_bytes = back ? (rows * 4 + 255) / 256 * 256 : 0,
        .name = back ? "gradient of attention" : "attention",
        .size = s->size[Q],
        /* Deterministic engines compute partial sums of gradients in their
         * workspace. It takes 0.5 to 1 GiB in the benchmarks of bench/cuda. */
        .workspace_limit = queue->device->listed->info.memory_total / 16};
    return tn__dnn_plan(queue, &problem, why);
}

/* Sets *s and returns whether cuDNN may compute this attention. On Blackwell
 * GPUs and later it does not compute gradients, because cuDNN's heuristics
 * recommend no deterministic engine there. */
static bool is_supported(const tn_queue *queue, const tn_attention_args *a,
                         shape *s)
{
    return shape_of(a, s) && (a->kind != TN_ATTENTION_BACKWARD ||
                              queue->device->listed->major < 10);
}

tn_status tn__cuda_attention_try(tn_queue *queue, const tn_attention_args *a,
                                 const char **why)
{
    shape s;
    *why = "cuDNN does not support this attention";
    if (!is_supported(queue, a, &s))
        return TN_ERR_UNSUPPORTED;
    const tn_dnn_plan *plan = plan_of(queue, &s, a, why);
    if (!plan)
        return TN_ERR_UNSUPPORTED;
    *why = "cudnnBackendExecute fails";
    return run(queue, plan, a) ? TN_ERR_UNSUPPORTED : TN_OK;
}

tn_status tn__cuda_attention_cudnn(tn_queue *queue, const tn_attention_args *a,
                                  tn_cuda_is_accurate *is_accurate)
{
    const char *why; /* cudnn.c logs the reason */
    shape s;
    const tn_plugin_device *device = queue->device;
    if (device->own_attention || !is_supported(queue, a, &s))
        return TN_ERR_UNSUPPORTED;
    TN_CUDA_ENTER(device);
    if (entered.error)
        return tn__cuda_check(device, "cuCtxSetCurrent", entered.error);
    /* is_accurate is called before plan_of: it makes a plan for its comparison,
     * which might evict the plan that plan_of returns from the cache. */
    if (!device->dnn_attention && !is_accurate(queue, a))
        return TN_ERR_UNSUPPORTED;
    const tn_dnn_plan *plan = plan_of(queue, &s, a, &why);
    if (!plan)
        return TN_ERR_UNSUPPORTED;
    tn_dnn_status e = run(queue, plan, a);
    return e ? tn__dnn_failed(queue, e)
             : tn__cuda_queue_submitted(queue, a->tag);
}
