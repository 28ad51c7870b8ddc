/* cuda_conv.c: the extension "conv": computes conv2d and its gradients by
 * cuDNN, with graphs of one operation.
 *
 * Two kinds of cuDNN's engines are excluded: those whose sums change from run
 * to run, and those that round the operands to a shorter dtype. Tenon's own
 * kernel (conv.cl) computes convolutions that cuDNN does not support, and all
 * convolutions if cuDNN is not installed. */
#include <string.h>

#include "cuda.h"
#include "cudnn.h"

#define WORKSPACE (256ull << 20) /* maximum size of a workspace in bytes */

enum { IN, WEIGHT, OUT, SIDES };

/* The properties of a convolution on which its plan (cuDNN's prepared engine)
 * depends. The struct has no padding, because its bytes are compared. */
typedef struct shape {
    int64_t size[SIDES][4], stride[SIDES][4];
    int64_t step[2], dilation[2], before[2], padding_after[2];
    uint32_t kind, dtype;
    uint16_t align[SIDES], tf32;
} shape;

static const struct {
    uint8_t bytes, type;
} kinds[TN_DTYPE_END] = {[TN_F64] = {8, TN_DNN_DOUBLE},
                         [TN_F32] = {4, TN_DNN_FLOAT},
                         [TN_F16] = {2, TN_DNN_HALF},
                         [TN_BF16] = {2, TN_DNN_BF16}};

/* ---- the graph ----------------------------------------------------------- */

static tn_dnn_descriptor conv_make(tn_dnn_graph *g, const shape *s)
{
    const int64_t ndim = 2;
    tn_dnn_descriptor conv = tn__dnn_begin(g, TN_DNN_CONV);
    tn__dnn_set_int(g, conv, TN_DNN_CONV_COMPUTE, TN_DNN_IS_DATA_TYPE,
                    s->dtype == TN_F64 ? TN_DNN_DOUBLE : TN_DNN_FLOAT);
    tn__dnn_set_int(g, conv, TN_DNN_CONV_MODE, TN_DNN_IS_CONV_MODE,
                    TN_DNN_CROSS_CORRELATION);
    tn__dnn_set(g, conv, TN_DNN_CONV_NDIM, TN_DNN_IS_INT64, 1, &ndim);
    tn__dnn_set(g, conv, TN_DNN_CONV_DILATIONS, TN_DNN_IS_INT64, 2,
                s->dilation);
    tn__dnn_set(g, conv, TN_DNN_CONV_STRIDES, TN_DNN_IS_INT64, 2, s->step);
    tn__dnn_set(g, conv, TN_DNN_CONV_PAD_BEFORE, TN_DNN_IS_INT64, 2, s->before);
    tn__dnn_set(g, conv, TN_DNN_CONV_PAD_AFTER, TN_DNN_IS_INT64, 2,
                s->padding_after);
    tn__dnn_end(g, conv);
    return conv;
}

/* For each kind of convolution, the type of cuDNN's operation and the names of
 * the operation's attributes. */
static const struct {
    const char *name;
    int type, alpha, beta, conv, side[SIDES];
} operations[] = {
    [TN_CONV_FORWARD] = {"convolution", TN_DNN_OP_FORWARD,
                         TN_DNN_FORWARD_ALPHA, TN_DNN_FORWARD_BETA,
                         TN_DNN_FORWARD_CONV,
                         {TN_DNN_FORWARD_X, TN_DNN_FORWARD_W,
                          TN_DNN_FORWARD_Y}},
    [TN_CONV_INPUT] = {"gradient of images", TN_DNN_OP_INPUT,
                       TN_DNN_INPUT_ALPHA, TN_DNN_INPUT_BETA,
                       TN_DNN_INPUT_CONV,
                       {TN_DNN_INPUT_DX, TN_DNN_INPUT_W, TN_DNN_INPUT_DY}},
    [TN_CONV_WEIGHT] = {"gradient of weights", TN_DNN_OP_WEIGHT,
                        TN_DNN_WEIGHT_ALPHA, TN_DNN_WEIGHT_BETA,
                        TN_DNN_WEIGHT_CONV,
                        {TN_DNN_WEIGHT_X, TN_DNN_WEIGHT_DW,
                         TN_DNN_WEIGHT_DY}}};

static void describe(tn_dnn_graph *g, const void *key)
{
    const shape *s = key;
    const bool wide = s->dtype == TN_F64;
    const float single[] = {1, 0};
    const double both[] = {1, 0};
    const int type = wide ? TN_DNN_IS_DOUBLE : TN_DNN_IS_FLOAT;
    tn_dnn_descriptor side[SIDES];
    for (int i = IN; i < SIDES; i++)
        side[i] = tn__dnn_tensor(g, kinds[s->dtype].type, s->size[i],
                                 s->stride[i], i + 1, s->align[i],
                                 TN_DNN_STORED);
    tn_dnn_descriptor conv = conv_make(g, s);
    tn_dnn_descriptor op = tn__dnn_begin(g, operations[s->kind].type);
    for (int i = IN; i < SIDES; i++)
        tn__dnn_set_descriptor(g, op, operations[s->kind].side[i], side[i]);
    tn__dnn_set_descriptor(g, op, operations[s->kind].conv, conv);
    tn__dnn_set(g, op, operations[s->kind].alpha, type, 1,
                wide ? (const void *)&both[0] : &single[0]);
    tn__dnn_set(g, op, operations[s->kind].beta, type, 1,
                wide ? (const void *)&both[1] : &single[1]);
    tn__dnn_end_op(g, op);
}

/* ---- a convolution ------------------------------------------------------- */

/* Returns the padding at the end of an axis. That is the padding at the
 * beginning if it gives the right number of outputs, because more engines
 * support equal paddings. Otherwise it is the number of elements that the last
 * window has beyond the input. */
static int64_t padding_after(const tn_conv_args *args, int axis)
{
    const int64_t reach = args->dilation[axis] * (args->kernel[axis] - 1) + 1;
    const int64_t step = args->stride[axis], pad = args->pad[axis];
    const int64_t behind = args->in_size[axis] + pad - reach;
    const int64_t last = (args->out_size[axis] - 1) * step;
    if (behind + pad >= last && behind + pad < last + step)
        return pad;
    return last > behind ? last - behind : 0;
}

/* Sets the strides of a tensor that is contiguous in the order (N, C, H, W) or
 * (N, H, W, C). The stride of a dimension of extent 1 is computed, not taken
 * from the view. Returns false for all other layouts, because engines accept
 * them but compute wrong results (seen with cuDNN 9.19 on an H200). */
static bool packed_strides(int64_t stride[4], const int64_t size[4],
                           const int64_t given[4])
{
    static const int order[][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}};
    for (int o = 0; o < 2; o++) {
        int64_t step = 1;
        bool same = true;
        for (int i = 4; i-- > 0;) {
            const int d = order[o][i];
            same = same && (size[d] == 1 || given[d] == step);
            stride[d] = step;
            step *= size[d];
        }
        if (same)
            return true;
    }
    return false;
}

/* Sets *out for a convolution. Returns false if the strides of a tensor are not
 * supported. */
static bool shape_of(const tn_plugin_device *device, const tn_conv_args *args,
                     shape *out)
{
    const tn_strided *const side[] = {&args->in, &args->weight, &args->out};
    bool packed = true;
    shape s = {.size = {{args->count, args->in_channels},
                        {args->out_channels, args->in_channels / args->groups},
                        {args->count, args->out_channels}},
               .kind = args->kind, .dtype = args->in.dtype,
               .tf32 = device->tf32};
    for (int a = 0; a < 2; a++) {
        s.size[IN][2 + a] = args->in_size[a];
        s.size[WEIGHT][2 + a] = args->kernel[a];
        s.size[OUT][2 + a] = args->out_size[a];
        s.step[a] = args->stride[a];
        s.dilation[a] = args->dilation[a];
        s.before[a] = args->pad[a];
        s.padding_after[a] = padding_after(args, a);
    }
    for (int i = IN; i < SIDES; i++) {
        const uintptr_t at = 16 | (uintptr_t)tn__cuda_address(side[i], 0);
        packed =
            packed && packed_strides(s.stride[i], s.size[i], side[i]->stride);
        s.align[i] = (uint16_t)(at & (0 - at));
    }
    *out = s;
    return packed;
}

/* Returns a mask with one bit for each note (property of an engine) that would
 * violate a guarantee of plugin.h. */
static unsigned refused_notes(const shape *s)
{
    unsigned notes = 1u << TN_DNN_NONDETERMINISTIC | 1u << TN_DNN_REDUCED_SUMS;
    if (!s->tf32)
        notes |= 1u << TN_DNN_DOWN_CONVERTS;
    if (!s->tf32 && s->dtype == TN_F32)
        notes |= 1u << TN_DNN_TENSOR_CORE;
    return notes;
}

_Static_assert(sizeof(shape) % sizeof(uint64_t) == 0, "hashed by words");

/* If cuDNN cannot compute a convolution of 16-bit floats, there are two other
 * ways: Tenon's own kernel, which does not use tensor cores, and im2col with a
 * matrix product by cuBLASLt, which writes and reads the columns. Tenon's own
 * kernel is used for at most this many filters. The limit is estimated, not
 * measured. Writing and reading 4 bytes for each column element takes about 1
 * ps at an H200's memory bandwidth. Tenon's own kernel (some 25 TFLOP/s) takes
 * 0.08 ps for each column element and filter. */
#define FEW_FILTERS 16

static bool prefers_columns(tn_plugin_device *device, const tn_conv_args *args)
{
    return kinds[args->in.dtype].bytes == 2 &&
           device->target.flags & TN_TARGET_MMA &&
           args->out_channels / args->groups > FEW_FILTERS &&
           tn__cuda_has_cublaslt(device);
}

static tn_status run(tn_queue *queue, const tn_conv_args *args)
{
    static const int64_t id[SIDES] = {IN + 1, WEIGHT + 1, OUT + 1};
    tn_plugin_device *device = queue->device;
    const char *why =
        "cuDNN is not used for this dtype, or an option excludes it";
    const tn_dnn_plan *plan = NULL;
    if (!tn_conv_is_known(args))
        return tn__refuse_unknown("conv");
    TN_CUDA_ENTER(device);
    if (entered.error)
        return tn__cuda_check(device, "cuCtxSetCurrent", entered.error);
    if (!device->own_products && kinds[args->in.dtype].bytes) {
        shape s;
        const bool packed = shape_of(device, args, &s);
        const tn_dnn_problem problem = {.key = &s,
                                        .bytes = sizeof s,
                                        .describe = describe,
                                        .refused_notes = refused_notes(&s),
                                        .name = operations[s.kind].name,
                                        .size = s.size[IN],
                                        .workspace_limit = WORKSPACE};
        why = "a tensor is neither contiguous nor channels-last";
        if (packed)
            plan = tn__dnn_plan(queue, &problem, &why);
    }
    if (plan && !args->bias.buffer) {
        void *const pointer[SIDES] = {tn__cuda_address(&args->in, 0),
                                      tn__cuda_address(&args->weight, 0),
                                      tn__cuda_address(&args->out, 0)};
        tn_dnn_status e = tn__dnn_plan_run(queue, plan, SIDES, id, pointer);
        return e ? tn__dnn_failed(queue, e)
                 : tn__cuda_queue_submitted(queue, args->tag);
    }
    /* If the call has a bias, the core calls again without the bias after this
     * error, and adds the bias itself. */
    return plan || prefers_columns(device, args) ||
                   !TN_HAS(tn_host, tn__host, plan_conv)
               ? tn__host->fail(TN_ERR_UNSUPPORTED, "%s",
                                plan ? "cuDNN cannot add the bias" : why)
               : tn__cuda_conv_own(queue, args);
}

const tn_conv_extension tn__cuda_conv = {.size = sizeof tn__cuda_conv,
                                         .run = run};
