/* attention_device.c: scaled dot-product attention and its gradient, computed
 * by the device if it has the extension `attention`. The device never stores
 * all scores (as in FlashAttention). */
#include <ops/nn/attention.h>

#include <ops/engine/native.h>
#include <ops/random/random.h>
#include <device/work.h>

/* Describes x as a strided tensor (batch, heads, length, size). Dimensions that
 * x lacks get size 1. */
static tn_strided four(const tn_tensor *x)
{
    tn_strided view = {.buffer = tn__tensor_buffer(x),
                       .offset = tn__tensor_buffer_offset(x),
                       .dtype = x->dtype, .ndim = 4};
    for (int d = 0; d < x->ndim; d++)
        view.stride[4 - x->ndim + d] = x->stride[d];
    return view;
}

/* Returns the size of x along dim, which is negative and counts from the end.
 * Returns 1 if x has no such dimension. */
static int64_t size_of(const tn_tensor *x, int dim)
{
    return x->ndim + dim >= 0 ? x->shape[x->ndim + dim] : 1;
}

/* Describes mask in args. Returns false if the mask does not broadcast to the
 * scores, requires a gradient, or has a dtype that devices do not support. */
static bool take_mask(tn_attention_args *args, const tn_tensor *mask, int ndim)
{
    const int64_t shape[] = {args->batch, args->heads, args->queries,
                             args->keys};
    if (mask->ndim > ndim || tn__tensor_tracks(mask) ||
        (mask->dtype != TN_BOOL && mask->dtype != TN_F32 &&
         mask->dtype != args->q.dtype))
        return false;
    args->mask = four(mask);
    for (int d = 0; d < mask->ndim; d++) {
        const int at = 4 - mask->ndim + d;
        if (mask->shape[d] != 1 && mask->shape[d] != shape[at])
            return false;
        if (mask->shape[d] == 1)
            args->mask.stride[at] = 0;
    }
    return true;
}

/* Describes the query q, the key k, the value v and the mask in args. Returns
 * false if their shapes or dtypes do not fit. */
static bool describe(const tn_tensor *q, const tn_tensor *k,
                     const tn_tensor *v, const tn_tensor *mask,
                     tn_attention_args *args)
{
    if (q->dtype != k->dtype || q->dtype != v->dtype || q->ndim > 4 ||
        q->ndim != k->ndim || q->ndim != v->ndim || q->ndim < 2 ||
        q->numel == 0 || k->numel == 0 || v->numel == 0)
        return false;
    *args = (tn_attention_args){
        .size = sizeof *args, .batch = size_of(q, -4), .heads = size_of(q, -3),
        .kv_heads = size_of(k, -3), .queries = size_of(q, -2),
        .keys = size_of(k, -2), .features = size_of(q, -1),
        .values = size_of(v, -1), .q = four(q), .k = four(k), .v = four(v)};
    if (args->heads % args->kv_heads || size_of(k, -4) != args->batch ||
        size_of(v, -4) != args->batch || size_of(v, -3) != args->kv_heads ||
        size_of(v, -2) != args->keys || size_of(k, -1) != args->features)
        return false;
    return !mask || take_mask(args, mask, q->ndim);
}

tn_tensor *tn__attention_widen(tn_tensor *x, const tn_tensor *q,
                               bool shares_heads)
{
    tn_dims_list shape = {q->ndim, {0}};
    const int more = q->ndim - x->ndim, batch = q->ndim - 2 - shares_heads;
    bool differs = more > 0;
    if (!atomic_load_explicit(&q->storage->device->attention,
                              memory_order_acquire) ||
        more < 0 || (more > 0 && x->ndim < 2 + shares_heads))
        return x;
    for (int d = 0; d < q->ndim; d++) {
        int64_t own = d < more ? 1 : x->shape[d - more];
        shape.dim[d] = d < batch ? q->shape[d] : own;
        if (own != shape.dim[d] && own != 1)
            return x;
        differs |= own != shape.dim[d];
    }
    return differs ? tn_expand(x, shape) : x;
}

static tn_status refuse(const tn__call *call)
{
    const tn_tensor *x = tn__call_tensor(call, 0);
    char text[TN__SHAPE_TEXT];
    return tn__fail(TN_ERR_SHAPE, "%s: {%s} is %s of shape %s, which does not "
                    "fit the other tensors: call "
                    "scaled_dot_product_attention, which calls this operator",
                    call->op->name, call->op->arg[0].name,
                    tn_dtype_name(x->dtype),
                    tn__shape_text(text, x->ndim, x->shape));
}

bool tn__attention_fits(const tn__attention *a, const tn_tensor *q,
                        const tn_tensor *k, const tn_tensor *v)
{
    tn_device *device = q->storage->device;
    tn_attention_args args;
    if (!atomic_load_explicit(&device->attention, memory_order_acquire) ||
        !describe(q, k, v, a->mask, &args) || a->dropout < 0 ||
        a->dropout > 1 || (!a->shares_heads && args.heads != args.kv_heads))
        return false;
    args.dropout = a->dropout;
    args.flags = a->is_causal ? TN_ATTENTION_CAUSAL : 0;
    return tn__device_attention_fits(device, &args);
}

tn_tensor *tn__attention_run(const tn__attention *a, tn_tensor *q,
                             tn_tensor *k, tn_tensor *v)
{
    tn_rng_state drawn = {0, 0};
    if (a->dropout > 0)
        drawn = tn__random_draw();
    const tn_value value[] = {
        tn__value_tensor(q),
        tn__value_tensor(k),
        tn__value_tensor(v),
        tn__value_optional(a->mask),
        tn__value_float(a->dropout),
        tn__value_bool(a->is_causal),
        tn__value_float(a->scale),
        tn__value_int((int64_t)drawn.seed),
        tn__value_int((int64_t)drawn.call)};
    return tn__op_run_outputs(&tn__op_table[TN__OP_ID_ATTENTION_FORWARD],
                              value, 9, NULL, 0);
}

/* Reads the arguments, beginning with index `at`, into args: dropout,
 * is_causal, scale, and seed and call of the random generator. */
static void take_numbers(const tn__call *call, int at, tn_attention_args *args)
{
    args->dropout = tn__call_float(call, at);
    args->flags = tn__call_int(call, at + 1) ? TN_ATTENTION_CAUSAL : 0;
    args->scale = tn__call_float(call, at + 2);
    args->seed = tn__call_int(call, at + 3);
    args->call = tn__call_int(call, at + 4);
}

tn_status tn__run_attention_forward(tn__call *call)
{
    const tn_tensor *q = tn__call_tensor(call, 0);
    tn_attention_args args;
    int64_t shape[4];
    if (!describe(q, tn__call_tensor(call, 1), tn__call_tensor(call, 2),
                  tn__call_tensor(call, 3), &args))
        return refuse(call);
    for (int d = 0; d < q->ndim; d++)
        shape[d] = d == q->ndim - 1 ? args.values : q->shape[d];
    tn_device *device = q->storage->device;
    tn_tensor *out =
        tn__tensor_new(device, q->dtype, q->ndim, shape, call->op->name);
    if (tn__give(call, out) < 0)
        return tn_error_code();
    tn_tensor *lse =
        tn__tensor_new(device, TN_F32, q->ndim - 1, shape, call->op->name);
    if (tn__give(call, lse) < 0)
        return tn_error_code();
    args.kind = TN_ATTENTION_FORWARD;
    args.out = four(out);
    args.lse = (tn_strided){.buffer = tn__tensor_buffer(lse),
                            .offset = tn__tensor_buffer_offset(lse),
                            .dtype = TN_F32};
    take_numbers(call, 4, &args);
    return tn__device_work(device, TN__WORK_ATTENTION, &args,
                           "scaled_dot_product_attention", NULL, NULL);
}

/* Returns whether x has the shape and dtype of the result of attention. */
static bool is_result(const tn_attention_args *args, const tn_tensor *x,
                      const tn_tensor *query)
{
    return x->dtype == query->dtype && x->ndim == query->ndim &&
           size_of(x, -4) == args->batch && size_of(x, -3) == args->heads &&
           size_of(x, -2) == args->queries && size_of(x, -1) == args->values;
}

/* Computes the gradients with respect to query, key and value. The tensor
 * arguments are, in order: g, query, key, value, out, logsumexp and
 * attn_mask. */
tn_status tn__run_attention_backward(tn__call *call)
{
    tn_tensor *in[7];
    for (int i = 0; i < 7; i++)
        in[i] = tn__call_tensor(call, i);
    tn_attention_args args;
    if (!describe(in[1], in[2], in[3], in[6], &args) ||
        !is_result(&args, in[0], in[1]) || !is_result(&args, in[4], in[1]) ||
        in[5]->dtype != TN_F32 || !tn_tensor_is_contiguous(in[5]) ||
        in[5]->numel != args.batch * args.heads * args.queries)
        return refuse(call);
    tn_strided *const made[] = {&args.dq, &args.dk, &args.dv};
    tn_device *device = in[0]->storage->device;
    for (int i = 0; i < 3; i++) {
        tn_tensor *x = in[1 + i];
        tn_tensor *out = tn__tensor_new(device, x->dtype, x->ndim, x->shape,
                                        call->op->name);
        if (tn__give(call, out) < 0)
            return tn_error_code();
        *made[i] = four(out);
    }
    args.kind = TN_ATTENTION_BACKWARD;
    args.g = four(in[0]);
    args.out = four(in[4]);
    args.lse = (tn_strided){.buffer = tn__tensor_buffer(in[5]),
                            .offset = tn__tensor_buffer_offset(in[5]),
                            .dtype = TN_F32};
    take_numbers(call, 7, &args);
    return tn__device_work(device, TN__WORK_ATTENTION, &args,
                           "scaled_dot_product_attention", NULL, NULL);
}
