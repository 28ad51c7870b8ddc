/* conv.c: the extension "conv" by cuDNN's graphs of one operation: a
 * convolution, or one of its adjoints. cuDNN's own heuristics say which engine
 * takes a shape; the plan is kept by the queue, as algorithms are in product.c.
 * Engines whose sums change from run to run, or that round what they multiply,
 * are left out.
 * What cuDNN has no engine for is the core's own kernel's (conv.cl), as is all
 * where the library is missing. */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "cudnn.h"

#define PLANS 256               /* a power of two */
#define CONFIGS 16              /* engines that are tried, by each heuristic */
#define WORKSPACE (256ll << 20) /* bytes; more is not taken */

enum { IN, WEIGHT, OUT, SIDES };

/* All that a plan depends on, without gaps: bytes are compared. */
typedef struct shape {
    int64_t size[SIDES][4], stride[SIDES][4];
    int64_t step[2], dilation[2], before[2], behind[2];
    uint32_t kind, dtype;
    uint16_t align[SIDES], tf32;
} shape;

typedef struct plan {
    shape of;
    bool usable; /* else cuDNN has no engine for it */
    /* Owned: sides, convolution, operation, graph; then what was chosen. */
    tn_dnn_descriptor made[SIDES + 3], config, plan;
    int64_t workspace_bytes;
} plan;

struct tn_cuda_plans {
    tn_dnn_handle handle; /* owned */
    plan *slot[PLANS];    /* owned; the latest ones of their hashes */
};

static const struct {
    uint8_t bytes, type;
} kinds[TN_DTYPE_END] = {[TN_F64] = {8, TN_DNN_DOUBLE},
                         [TN_F32] = {4, TN_DNN_FLOAT},
                         [TN_F16] = {2, TN_DNN_HALF},
                         [TN_BF16] = {2, TN_DNN_BF16}};

/* ---- descriptors -------------------------------------------------------- */

static void drop(tn_dnn_descriptor *descriptor)
{
    if (*descriptor)
        tn__dnn.destroy(*descriptor);
    *descriptor = NULL;
}

/* An attribute, unless one before it was refused. */
static void set(tn_dnn_status *e, tn_dnn_descriptor descriptor, int name,
                int type, int64_t count, const void *elements)
{
    if (!*e)
        *e = tn__dnn.set(descriptor, name, type, count, elements);
}

static void create(tn_dnn_status *e, int type, tn_dnn_descriptor *out)
{
    if (!*e)
        *e = tn__dnn.create(type, out);
}

static void finalize(tn_dnn_status *e, tn_dnn_descriptor descriptor)
{
    if (!*e)
        *e = tn__dnn.finalize(descriptor);
}

static void side_make(tn_dnn_status *e, const shape *s, int i,
                      tn_dnn_descriptor *out)
{
    const int64_t id = i + 1, align = s->align[i];
    const int type = kinds[s->dtype].type;
    create(e, TN_DNN_TENSOR, out);
    set(e, *out, TN_DNN_TENSOR_DTYPE, TN_DNN_IS_DATA_TYPE, 1, &type);
    set(e, *out, TN_DNN_TENSOR_SIZES, TN_DNN_IS_INT64, 4, s->size[i]);
    set(e, *out, TN_DNN_TENSOR_STRIDES, TN_DNN_IS_INT64, 4, s->stride[i]);
    set(e, *out, TN_DNN_TENSOR_ID, TN_DNN_IS_INT64, 1, &id);
    set(e, *out, TN_DNN_TENSOR_ALIGN, TN_DNN_IS_INT64, 1, &align);
    finalize(e, *out);
}

static void conv_make(tn_dnn_status *e, const shape *s, tn_dnn_descriptor *out)
{
    const int mode = TN_DNN_CROSS_CORRELATION;
    const int compute = s->dtype == TN_F64 ? TN_DNN_DOUBLE : TN_DNN_FLOAT;
    const int64_t ndim = 2;
    create(e, TN_DNN_CONV, out);
    set(e, *out, TN_DNN_CONV_COMPUTE, TN_DNN_IS_DATA_TYPE, 1, &compute);
    set(e, *out, TN_DNN_CONV_MODE, TN_DNN_IS_CONV_MODE, 1, &mode);
    set(e, *out, TN_DNN_CONV_NDIM, TN_DNN_IS_INT64, 1, &ndim);
    set(e, *out, TN_DNN_CONV_DILATIONS, TN_DNN_IS_INT64, 2, s->dilation);
    set(e, *out, TN_DNN_CONV_STRIDES, TN_DNN_IS_INT64, 2, s->step);
    set(e, *out, TN_DNN_CONV_BEFORE, TN_DNN_IS_INT64, 2, s->before);
    set(e, *out, TN_DNN_CONV_BEHIND, TN_DNN_IS_INT64, 2, s->behind);
    finalize(e, *out);
}

/* By kind: the operation's type, and the names of what it is given. */
static const struct {
    int type, alpha, beta, conv, side[SIDES];
} operations[] = {
    [TN_CONV_FORWARD] = {TN_DNN_OP_FORWARD, TN_DNN_FORWARD_ALPHA,
                         TN_DNN_FORWARD_BETA, TN_DNN_FORWARD_CONV,
                         {TN_DNN_FORWARD_X, TN_DNN_FORWARD_W,
                          TN_DNN_FORWARD_Y}},
    [TN_CONV_INPUT] = {TN_DNN_OP_INPUT, TN_DNN_INPUT_ALPHA, TN_DNN_INPUT_BETA,
                       TN_DNN_INPUT_CONV,
                       {TN_DNN_INPUT_DX, TN_DNN_INPUT_W, TN_DNN_INPUT_DY}},
    [TN_CONV_WEIGHT] = {TN_DNN_OP_WEIGHT, TN_DNN_WEIGHT_ALPHA,
                        TN_DNN_WEIGHT_BETA, TN_DNN_WEIGHT_CONV,
                        {TN_DNN_WEIGHT_X, TN_DNN_WEIGHT_DW,
                         TN_DNN_WEIGHT_DY}}};

/* made: the sides and the convolution, then this. */
static void operation_make(tn_dnn_status *e, const shape *s,
                           tn_dnn_descriptor *made)
{
    tn_dnn_descriptor *out = &made[SIDES + 1];
    const bool wide = s->dtype == TN_F64;
    const float single[] = {1, 0};
    const double both[] = {1, 0};
    const int type = wide ? TN_DNN_IS_DOUBLE : TN_DNN_IS_FLOAT;
    create(e, operations[s->kind].type, out);
    for (int i = IN; i < SIDES; i++)
        set(e, *out, operations[s->kind].side[i], TN_DNN_IS_DESCRIPTOR, 1,
            &made[i]);
    set(e, *out, operations[s->kind].conv, TN_DNN_IS_DESCRIPTOR, 1,
        &made[SIDES]);
    set(e, *out, operations[s->kind].alpha, type, 1,
        wide ? (const void *)&both[0] : &single[0]);
    set(e, *out, operations[s->kind].beta, type, 1,
        wide ? (const void *)&both[1] : &single[1]);
    finalize(e, *out);
}

/* ---- engines ------------------------------------------------------------ */

/* Does it keep the promises of plugin.h, for this dtype? */
static bool is_exact(const shape *s, tn_dnn_descriptor config)
{
    int note[TN_DNN_NOTES];
    int64_t count = 0;
    bool bad = false;
    tn_dnn_descriptor engine = NULL;
    tn_dnn_status e = 0;
    create(&e, TN_DNN_ENGINE, &engine);
    if (!e)
        e = tn__dnn.get(config, TN_DNN_CONFIG_ENGINE, TN_DNN_IS_DESCRIPTOR, 1,
                        &count, &engine);
    if (!e)
        e = tn__dnn.get(engine, TN_DNN_ENGINE_NOTES, TN_DNN_IS_NOTE,
                        TN_DNN_NOTES, &count, note);
    for (int64_t i = 0; i < count && i < TN_DNN_NOTES && !e; i++)
        bad = bad || note[i] == TN_DNN_NONDETERMINISTIC ||
              note[i] == TN_DNN_REDUCED_SUMS ||
              (!s->tf32 && (note[i] == TN_DNN_DOWN_CONVERTS ||
                            (note[i] == TN_DNN_TENSOR_CORE &&
                             s->dtype == TN_F32)));
    drop(&engine);
    return !e && !bad;
}

/* Takes config for the plan, if it goes. */
static bool take(plan *p, tn_dnn_handle handle, tn_dnn_descriptor config)
{
    int64_t count = 0;
    tn_dnn_status e = 0;
    if (!is_exact(&p->of, config))
        return false;
    create(&e, TN_DNN_PLAN, &p->plan);
    set(&e, p->plan, TN_DNN_PLAN_HANDLE, TN_DNN_IS_HANDLE, 1, &handle);
    set(&e, p->plan, TN_DNN_PLAN_CONFIG, TN_DNN_IS_DESCRIPTOR, 1, &config);
    finalize(&e, p->plan);
    if (!e)
        e = tn__dnn.get(p->plan, TN_DNN_PLAN_WORKSPACE, TN_DNN_IS_INT64, 1,
                        &count, &p->workspace_bytes);
    if (!e && p->workspace_bytes <= WORKSPACE)
        return true;
    drop(&p->plan);
    return false;
}

/* The first that goes of those which a heuristic names. */
static bool choose(plan *p, tn_dnn_handle handle, int mode)
{
    tn_dnn_descriptor heuristic = NULL, config[CONFIGS] = {NULL};
    int64_t count = 0;
    tn_dnn_status e = 0;
    create(&e, TN_DNN_HEUR, &heuristic);
    set(&e, heuristic, TN_DNN_HEUR_GRAPH, TN_DNN_IS_DESCRIPTOR, 1,
        &p->made[SIDES + 2]);
    set(&e, heuristic, TN_DNN_HEUR_MODE, TN_DNN_IS_HEUR_MODE, 1, &mode);
    finalize(&e, heuristic);
    for (int i = 0; i < CONFIGS; i++)
        create(&e, TN_DNN_CONFIG, &config[i]);
    if (!e)
        e = tn__dnn.get(heuristic, TN_DNN_HEUR_RESULTS, TN_DNN_IS_DESCRIPTOR,
                        CONFIGS, &count, config);
    for (int64_t i = 0; i < count && i < CONFIGS && !e && !p->config; i++)
        if (take(p, handle, config[i])) {
            p->config = config[i];
            config[i] = NULL;
        }
    for (int i = 0; i < CONFIGS; i++)
        drop(&config[i]);
    drop(&heuristic);
    return p->config != NULL;
}

static void plan_free(plan *p)
{
    if (!p)
        return;
    drop(&p->plan);
    drop(&p->config);
    for (int i = SIDES + 3; i-- > 0;)
        drop(&p->made[i]);
    free(p);
}

/* NULL: no memory. */
static plan *plan_make(tn_dnn_handle handle, const shape *s)
{
    plan *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    tn_dnn_descriptor *graph = &p->made[SIDES + 2];
    tn_dnn_status e = 0;
    p->of = *s;
    for (int i = IN; i < SIDES; i++)
        side_make(&e, s, i, &p->made[i]);
    conv_make(&e, s, &p->made[SIDES]);
    operation_make(&e, s, p->made);
    create(&e, TN_DNN_GRAPH, graph);
    set(&e, *graph, TN_DNN_GRAPH_HANDLE, TN_DNN_IS_HANDLE, 1, &handle);
    set(&e, *graph, TN_DNN_GRAPH_OPS, TN_DNN_IS_DESCRIPTOR, 1,
        &p->made[SIDES + 1]);
    finalize(&e, *graph);
    p->usable = !e && (choose(p, handle, TN_DNN_HEUR_A) ||
                       choose(p, handle, TN_DNN_HEUR_FALLBACK));
    tn__cuda_host->log(3, "cuda: cuDNN %s convolution %d of %lld x %lld x %lld "
                       "x %lld, dtype %d (status %d)",
                       p->usable ? "takes" : "has no", (int)s->kind,
                       (long long)s->size[IN][0], (long long)s->size[IN][1],
                       (long long)s->size[IN][2], (long long)s->size[IN][3],
                       (int)s->dtype, e);
    return p;
}

/* ---- what is kept ------------------------------------------------------- */

void tn__cuda_plans_free(tn_cuda_plans *plans)
{
    for (size_t i = 0; plans && i < PLANS; i++)
        plan_free(plans->slot[i]);
    if (plans && plans->handle)
        tn__dnn.handle_destroy(plans->handle);
    free(plans);
}

/* The queue's, with a handle for its stream; NULL with *why set. */
static tn_cuda_plans *plans_of(tn_queue *queue, const char **why)
{
    if (queue->plans || (*why = tn__cuda_dnn_open()))
        return queue->plans;
    *why = "no memory for cuDNN's plans";
    tn_cuda_plans *plans = calloc(1, sizeof *plans);
    if (!plans)
        return NULL;
    tn_dnn_status e = tn__dnn.handle_create(&plans->handle);
    if (e)
        plans->handle = NULL;
    else
        e = tn__dnn.stream_set(plans->handle, queue->stream);
    if (e) {
        *why = "cudnnCreate fails: is the driver older than the library?";
        tn__cuda_plans_free(plans);
        return NULL;
    }
    return queue->plans = plans;
}

static const plan *plan_of(tn_cuda_plans *plans, const shape *s)
{
    plan **slot =
        &plans->slot[tn__cuda_hash(s, sizeof *s) & (PLANS - 1)];
    if (!*slot || memcmp(&(*slot)->of, s, sizeof *s) != 0) {
        plan_free(*slot);
        *slot = plan_make(plans->handle, s);
    }
    return *slot && (*slot)->usable ? *slot : NULL;
}
_Static_assert(sizeof(shape) % sizeof(uint64_t) == 0, "hashed by words");

/* ---- a convolution ------------------------------------------------------ */

static void *place(const tn_strided *x)
{
    return (void *)(uintptr_t)(x->buffer->pointer +
                               (uint64_t)x->offset * kinds[x->dtype].bytes);
}

/* Padding behind an axis: as before it where that gives as many places, which
 * more engines take; else what the last place reaches over. */
static int64_t behind(const tn_conv_args *args, int axis)
{
    const int64_t reach = args->dilation[axis] * (args->kernel[axis] - 1) + 1;
    const int64_t step = args->stride[axis], pad = args->pad[axis];
    const int64_t room = args->in_size[axis] + pad - reach;
    const int64_t last = (args->out_size[axis] - 1) * step;
    if (room + pad >= last && room + pad < last + step)
        return pad;
    return last > room ? last - room : 0;
}

static shape shape_of(const tn_plugin_device *device, const tn_conv_args *args)
{
    const tn_strided *const side[] = {&args->in, &args->weight, &args->out};
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
        s.behind[a] = behind(args, a);
    }
    for (int i = IN; i < SIDES; i++) {
        const uintptr_t at = 16 | (uintptr_t)place(side[i]);
        memcpy(s.stride[i], side[i]->stride, sizeof s.stride[i]);
        s.align[i] = (uint16_t)(at & (0 - at));
    }
    return s;
}

static tn_dnn_status execute(tn_queue *queue, const plan *p,
                             const tn_conv_args *args)
{
    static const int64_t id[SIDES] = {IN + 1, WEIGHT + 1, OUT + 1};
    void *const pointer[SIDES] = {place(&args->in), place(&args->weight),
                                  place(&args->out)};
    void *const workspace = (void *)(uintptr_t)queue->scratch;
    tn_dnn_descriptor pack = NULL;
    tn_dnn_status e = 0;
    create(&e, TN_DNN_PACK, &pack);
    set(&e, pack, TN_DNN_PACK_IDS, TN_DNN_IS_INT64, SIDES, id);
    set(&e, pack, TN_DNN_PACK_POINTERS, TN_DNN_IS_POINTER, SIDES, pointer);
    set(&e, pack, TN_DNN_PACK_WORKSPACE, TN_DNN_IS_POINTER, 1, &workspace);
    finalize(&e, pack);
    if (!e)
        e = tn__dnn.execute(queue->plans->handle, p->plan, pack);
    drop(&pack);
    return e;
}

/* *why is set where it is not for cuDNN, TN_ERR_UNSUPPORTED. */
static tn_status by_library(tn_queue *queue, const tn_conv_args *args,
                            const char **why)
{
    tn_plugin_device *device = queue->device;
    tn_cuda_plans *plans = NULL;
    const plan *p = NULL;
    *why = "sums of the core's own order";
    if (!device->own_products && kinds[args->in.dtype].bytes) {
        tn_cu_result error = tn__cuda_enter(device);
        if (error)
            return tn__cuda_fail(device, "cuCtxSetCurrent", error);
        plans = plans_of(queue, why);
    }
    if (plans && args->bias.buffer) {
        *why = "a bias";
    } else if (plans) {
        const shape s = shape_of(device, args);
        p = plan_of(plans, &s);
        *why = p ? "no memory for its workspace" : "cuDNN has no engine";
    }
    if (!p || tn__cuda_scratch(queue, (uint64_t)p->workspace_bytes))
        return TN_ERR_UNSUPPORTED;
    tn_dnn_status e = execute(queue, p, args);
    return e ? tn__cuda_host->fail(TN_ERR_INTERNAL,
                                   "%s: cudnnBackendExecute: status %d",
                                   device->listed->info.name, e)
             : tn__cuda_queue_given(queue, args->tag);
}

/* The core's kernel multiplies half types without tensor cores, which cuBLASLt
 * has: then writing columns and reading them again (4 bytes an element: 1 ps of
 * an H200's memory) is less than so many multiplications of each element by the
 * slower of the two (some 25 TFLOP/s: 0.08 ps). Computed, not measured. */
#define FEW_FILTERS 16

static bool is_for_columns(tn_plugin_device *device, const tn_conv_args *args)
{
    return kinds[args->in.dtype].bytes == 2 &&
           device->target.flags & TN_TARGET_MMA &&
           args->out_channels / args->groups > FEW_FILTERS &&
           tn__cuda_product_has(device);
}

static tn_status run(tn_queue *queue, const tn_conv_args *args)
{
    const char *why;
    tn_status status = by_library(queue, args, &why);
    if (status != TN_ERR_UNSUPPORTED)
        return status;
    /* With a bias, the core asks once more without it. */
    return is_for_columns(queue->device, args) ||
                   (queue->plans && args->bias.buffer) ||
                   !TN_HAS(tn_host, tn__cuda_host, plan_conv)
               ? tn__cuda_host->fail(status, "%s", why)
               : tn__cuda_conv_own(queue, args);
}

const tn_conv_extension tn__cuda_conv = {.size = sizeof tn__cuda_conv,
                                         .run = run};
