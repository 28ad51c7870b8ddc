/* If NVIDIA's cuDNN is installed, checks that it accepts the graphs that conv.c
 * and attention.c describe. No GPU is needed: since version 9.8 its heuristics
 * and plans work from a description of a GPU. It chooses engines and compiles
 * their kernels; the replacement driver accepting_driver.c accepts these. The
 * last call, which would run them, is intercepted. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../backends/cuda/cudnn.h"
#include "../tap.h"
#include <tenon/tensor.h>

/* NVIDIA's libraries never free what they load. AddressSanitizer reads these
 * options in addition to ASAN_OPTIONS. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* ---- replacements for the rest of the plugin ----------------------------- */

tn_cuda_driver tn__cu;
tn_dnn tn__dnn;
static tn_dnn library; /* NVIDIA's functions */
static char said[512];
static int engines; /* number of engines offered for the last graph */
static int made;    /* number of descriptors created, except those for runs */

static tn_status fail(tn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    return status;
}

static void log_line(int level, const char *format, ...)
{
    va_list args;
    (void)level;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
}

static const tn_host host = {.size = sizeof host, .fail = fail, .log = log_line};
const tn_host *tn__host = &host;

bool tn__cuda_forked;

static tn_cu_result context_get(tn_cu_context *context)
{
    *context = NULL;
    return 0;
}

static tn_cu_result context_set(tn_cu_context context)
{
    (void)context;
    return 0;
}

tn_status tn__refuse_unknown(const char *call)
{
    (void)call;
    return TN_ERR_UNSUPPORTED;
}

tn_status tn__cuda_check(const tn_plugin_device *device, const char *what,
                        tn_cu_result error)
{
    (void)device;
    return fail(TN_ERR_INTERNAL, "%s: %d", what, error);
}

tn_cu_result tn__cuda_scratch_ready(tn_queue *queue, uint64_t bytes)
{
    queue->scratch = 1 << 20;
    queue->scratch_bytes = bytes;
    return 0;
}

tn_status tn__cuda_queue_submitted(tn_queue *queue, uint64_t tag)
{
    (void)queue;
    (void)tag;
    return TN_OK;
}

static bool is_accurate(tn_queue *queue, const tn_attention_args *a)
{
    (void)queue;
    (void)a;
    return false;
}

static tn_status by_cudnn(tn_queue *queue, const tn_attention_args *a)
{
    return tn__cuda_attention_cudnn(queue, a, is_accurate);
}

bool tn__cuda_has_cublaslt(tn_plugin_device *device)
{
    (void)device;
    return false;
}

tn_status tn__cuda_conv_own(tn_queue *queue, const tn_conv_args *args)
{
    (void)queue;
    (void)args;
    return fail(TN_ERR_UNSUPPORTED, "the own kernel is asked");
}

const char *tn__cuda_open(tn_cuda_library which)
{
    (void)which;
    return NULL;
}

/* ---- a GPU that only a description defines ------------------------------- */

/* Values of CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR and CUDNN_TYPE_CHAR, and of the
 * attributes DEVICEPROP_JSON_REPRESENTATION, ENGINEHEUR_DEVICEPROP,
 * EXECUTION_PLAN_DEVICEPROP and ENGINE_DEVICEPROP. */
enum { GPU = 38, IS_CHAR = 24, GPU_TEXT = 2702, HEUR_GPU = 204,
       PLAN_GPU = 407, ENGINE_GPU = 1307 };

typedef struct gpu {
    const char *name;
    int version, units, shared;
} gpu;

static const gpu gpus[] = {{"NVIDIA A100", 800, 108, 166912},
                           {"NVIDIA H200", 900, 132, 232448},
                           {"NVIDIA B200", 1000, 148, 232448}};
static tn_dnn_descriptor description;

static bool describe_gpu(const gpu *g)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"deviceName\":\"%s\",\"cudaDeviceId\":0,\"deviceVer\":%d,"
             "\"multiProcessorCount\":%d,\"driverVer\":13000,"
             "\"maxSharedMemoryPerBlockOptin\":%d,\"totalGlobalMem\":%lld,"
             "\"maxGridSize\":[2147483647,65535,65535],"
             "\"maxBlockSize\":[1024,1024,64],\"isTccDriver\":0,"
             "\"l2CacheSize\":52428800,\"maxCtasPerSM\":32,"
             "\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"
             "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
             "\"memClockRateKHz\":2619000,\"pciDeviceId\":9040,"
             "\"regsPerBlock\":65536,\"reservedSharedMemoryPerBlock\":1024,"
             "\"smClockRateKHz\":1785000,\"supportCoopLaunch\":1,"
             "\"warpSize\":32,\"memoryBusWidth\":5120,\"smCountOrigin\":1,"
             "\"oversizedSharedMemoryPerBlock\":0}",
             g->name, g->version, g->units, g->shared, 80ll << 30);
    tn_dnn_status e = library.create(GPU, &description);
    if (!e)
        e = library.set(description, GPU_TEXT, IS_CHAR,
                        (int64_t)strlen(text) + 1, text);
    return !e && !library.finalize(description);
}

static int
    ran; /* number of tensors that the last plan received; -1: it did not run */

static tn_dnn_status handle_create(tn_dnn_handle *handle)
{
    *handle = (tn_dnn_handle)(void *)&description;
    return 0;
}

static tn_dnn_status handle_destroy(tn_dnn_handle handle)
{
    (void)handle;
    return 0;
}

static tn_dnn_status stream_set(tn_dnn_handle handle, tn_cu_stream stream)
{
    (void)handle;
    (void)stream;
    return 0;
}

/* Passes the described GPU to cuDNN instead of the handle, which would require
 * a real GPU. */
static tn_dnn_status set(tn_dnn_descriptor descriptor, int name, int type,
                         int64_t count, const void *elements)
{
    if (name == TN_DNN_GRAPH_HANDLE)
        return 0;
    if (name == TN_DNN_PLAN_HANDLE)
        return library.set(descriptor, PLAN_GPU, TN_DNN_IS_DESCRIPTOR, 1,
                           &description);
    if (name == TN_DNN_PACK_IDS)
        ran = (int)count;
    tn_dnn_status e = library.set(descriptor, name, type, count, elements);
    return !e && name == TN_DNN_HEUR_GRAPH
               ? library.set(descriptor, HEUR_GPU, TN_DNN_IS_DESCRIPTOR, 1,
                             &description)
               : e;
}

static tn_dnn_status create(int type, tn_dnn_descriptor *descriptor)
{
    made += type != TN_DNN_PACK;
    return library.create(type, descriptor);
}

static tn_dnn_status get(tn_dnn_descriptor descriptor, int name, int type,
                         int64_t wanted, int64_t *count, void *elements)
{
    tn_dnn_status e =
        library.get(descriptor, name, type, wanted, count, elements);
    if (name == TN_DNN_HEUR_RESULTS)
        engines += e ? 0 : (int)*count;
    return e;
}

static tn_dnn_status execute(tn_dnn_handle handle, tn_dnn_descriptor plan,
                             tn_dnn_descriptor pack)
{
    (void)handle;
    return plan && pack ? 0 : 1;
}

static bool find(void *file, const char *symbol, void *out)
{
    void *found = dlsym(file, symbol);
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

/* Loads cuDNN. Returns false if it or one of its functions is missing, or if it
 * is too old. */
static bool open_library(void)
{
    const char *asked = getenv("TENON_CUDA_CUDNN");
    void *file = dlopen(asked ? asked : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    bool all = file && find(file, "cudnnGetVersion", &library.version);
#define FIND(field, symbol, parameters)                                       \
    all = all && find(file, #symbol, &library.field);
    TN_DNN_MAP(FIND)
#undef FIND
    tn__cu.context_get = context_get;
    tn__cu.context_set = context_set;
    tn__dnn = library;
    tn__dnn.handle_create = handle_create;
    tn__dnn.handle_destroy = handle_destroy;
    tn__dnn.stream_set = stream_set;
    tn__dnn.create = create;
    tn__dnn.set = set;
    tn__dnn.get = get;
    tn__dnn.execute = execute;
    return all && library.version() >= 91600; /* the oldest version that
                                               * attention.c accepts */
}

/* ---- attention ---------------------------------------------------------- */

static tn_cuda_listed listed;
static tn_plugin_device device = {.listed = &listed, .dnn_attention = true};
static tn_buffer memory = {.device = &device, .pointer = 1 << 24};

typedef struct sizes {
    tn_dtype dtype;
    int64_t batch, heads, kv_heads, queries, keys, features, values;
    bool causal;
    int mask; /* 0: none; 1: shared by all heads; 2: one for each head; 3:
               * float32 */
} sizes;

static const sizes attentions[] = {
    {TN_F16, 2, 4, 4, 128, 128, 64, 64, false, 0},
    {TN_BF16, 8, 12, 12, 1024, 1024, 64, 64, true, 0},
    {TN_BF16, 1, 8, 2, 200, 136, 128, 128, true, 0},
    {TN_F16, 1, 2, 2, 130, 72, 40, 16, false, 0},
    {TN_F16, 2, 4, 4, 128, 192, 64, 64, false, 1},
    {TN_BF16, 2, 4, 2, 70, 72, 32, 32, true, 2},
    {TN_BF16, 2, 4, 4, 96, 128, 64, 64, true, 3},
    /* the shapes of bench/cuda, whose gradients need 0.5 and 1 GiB of
     * workspace */
    {TN_BF16, 16, 16, 16, 1024, 1024, 64, 64, true, 0},
    {TN_F16, 2, 16, 16, 4096, 4096, 128, 128, true, 0},
};

static tn_strided view(tn_dtype dtype, int64_t heads, int64_t length,
                       int64_t size)
{
    return (tn_strided){.buffer = &memory, .dtype = dtype, .ndim = 4,
                        .stride = {heads * length * size, length * size, size,
                                   1}};
}

static tn_attention_args attention_of(const sizes *s, uint32_t kind)
{
    tn_strided row = view(s->dtype, s->heads, s->queries, s->features);
    tn_strided key = view(s->dtype, s->kv_heads, s->keys, s->features);
    tn_strided value = view(s->dtype, s->kv_heads, s->keys, s->values);
    tn_strided out = view(s->dtype, s->heads, s->queries, s->values);
    tn_attention_args a = {
        .size = sizeof a, .kind = kind,
        .flags = s->causal ? TN_ATTENTION_CAUSAL : 0, .batch = s->batch,
        .heads = s->heads, .kv_heads = s->kv_heads, .queries = s->queries,
        .keys = s->keys, .features = s->features, .values = s->values,
        .scale = 0.125, .q = row, .k = key, .v = value, .out = out,
        .lse = {.buffer = &memory, .dtype = TN_F32}};
    if (s->mask) {
        a.mask = view(s->mask == 3 ? TN_F32 : s->dtype,
                      s->mask == 2 ? s->heads : 1, s->queries, s->keys);
        a.mask.stride[0] = 0;
        if (s->mask != 2)
            a.mask.stride[1] = 0;
    }
    if (kind == TN_ATTENTION_BACKWARD) {
        a.g = out;
        a.dq = row;
        a.dk = key;
        a.dv = value;
    }
    return a;
}

/* The second call uses the cached plan. */
static void check_attention(tn_queue *queue, const gpu *g, const sizes *s)
{
    for (uint32_t kind = 0; kind < 2; kind++) {
        const bool back = kind == TN_ATTENTION_BACKWARD;
        const tn_attention_args a = attention_of(s, kind);
        const int tensors = (back ? 12 : 6) + s->causal + (s->mask > 0);
        const bool declined = back && g->version >= 1000;
        ran = -1;
        engines = 0;
        tn_status status = by_cudnn(queue, &a);
        ok(declined ? status == TN_ERR_UNSUPPORTED && ran < 0
                    : status == TN_OK && ran == tensors,
           "%s: %s of %s (%d, %d of %d, %d x %d, %d, %d)%s, mask %d, is %s: "
           "status %d, %d engines, %d tensors: %s",
           g->name, back ? "gradient" : "attention", tn_dtype_name(s->dtype),
           (int)s->batch, (int)s->kv_heads, (int)s->heads, (int)s->queries,
           (int)s->keys, (int)s->features, (int)s->values,
           s->causal ? " causal" : "", s->mask,
           declined ? "the own kernels'" : "taken", status, engines, ran, said);
        made = 0;
        if (!declined && by_cudnn(queue, &a) == TN_OK)
            ok(made == 0, "%s: and its plan is kept", g->name);
    }
}

/* Tests calls for which cuDNN is not used, or must not be used. */
static void check_declined(tn_queue *queue)
{
    tn_attention_args a = attention_of(&attentions[0], TN_ATTENTION_FORWARD);
    tn_attention_args other = a;
    tn_strided mask = view(TN_F16, 1, a.queries, a.keys);
    ran = -1;
#define DECLINED(what)                                                        \
    ok(by_cudnn(queue, &other) == TN_ERR_UNSUPPORTED && ran < 0,              \
       what);                                                                 \
    other = a
    other.dropout = 0.5;
    DECLINED("dropout is the own kernels'");
    other.q.dtype = TN_F32;
    DECLINED("so is float32");
    other.features = 20;
    DECLINED("so are rows of 20 elements");
    other.q.offset = 4;
    DECLINED("so is what begins at 8 bytes");
    other.k.stride[2] = 68;
    DECLINED("so are rows that do");
    other.k.stride[1] = 0;
    DECLINED("so are keys of one head that are expanded");
    other.mask = mask;
    other.mask.dtype = TN_BOOL;
    DECLINED("so is a mask of bools");
    other.mask = mask;
    other.mask.stride[2] = 0;
    DECLINED("so is one that all queries share");
    other.queries = other.keys = 1;
    DECLINED("so is one query of one key");
    device.own_attention = true;
    DECLINED("so is everything where somebody asked for them");
    device.own_attention = false;
    device.dnn_attention = false;
    DECLINED("and what has turned out to be wrong");
    device.dnn_attention = true;
    queue->capture = (tn_recorded *)(void *)&memory;
    other.batch = 3;
    DECLINED("while the queue captures no plan is made");
    queue->capture = NULL;
#undef DECLINED
}

/* ---- convolutions ------------------------------------------------------- */

typedef struct conv {
    tn_dtype dtype;
    int64_t count, in, out, groups, size, kernel, stride, dilation, pad;
    bool by_channel; /* channels-last layout: the channels of a pixel are
                      * adjacent */
} conv;

static const conv convs[] = {
    {TN_F32, 8, 16, 32, 1, 28, 3, 1, 1, 1, false},
    {TN_F16, 8, 16, 32, 1, 28, 3, 2, 1, 1, true},
    {TN_BF16, 8, 64, 64, 1, 28, 3, 1, 2, 2, true},
    {TN_F32, 4, 8, 8, 8, 16, 5, 1, 1, 2, false},
    {TN_F64, 2, 3, 4, 1, 12, 3, 1, 1, 0, false},
};

static tn_strided planes(const conv *c, int64_t channels, int64_t size)
{
    tn_strided x = view(c->dtype, channels, size, size);
    if (c->by_channel) {
        x.stride[1] = 1;
        x.stride[2] = size * channels;
        x.stride[3] = channels;
    }
    return x;
}

static void check_conv(tn_queue *queue, const gpu *g, const conv *c)
{
    static const char *const names[] = {"convolution", "gradient of images",
                                        "gradient of weights"};
    const int64_t reach = c->dilation * (c->kernel - 1) + 1;
    const int64_t out = (c->size + 2 * c->pad - reach) / c->stride + 1;
    for (uint32_t kind = 0; kind < 3; kind++) {
        tn_conv_args a = {
            .size = sizeof a, .kind = kind, .count = c->count,
            .in_channels = c->in, .out_channels = c->out,
            .groups = c->groups, .in_size = {c->size, c->size},
            .kernel = {c->kernel, c->kernel}, .out_size = {out, out},
            .stride = {c->stride, c->stride},
            .dilation = {c->dilation, c->dilation}, .pad = {c->pad, c->pad},
            .in = planes(c, c->in, c->size),
            .weight = planes(c, c->in / c->groups, c->kernel),
            .out = planes(c, c->out, out)};
        ran = -1;
        engines = 0;
        tn_status status = tn__cuda_conv.run(queue, &a);
        ok(status == TN_OK && ran == 3,
           "%s: %s of %s (%d, %d to %d by %d, %d x %d, %d x %d)%s: status %d, "
           "%d engines: %s",
           g->name, names[kind], tn_dtype_name(c->dtype), (int)c->count,
           (int)c->in, (int)c->out, (int)c->groups, (int)c->size,
           (int)c->size, (int)c->kernel, (int)c->kernel,
           c->by_channel ? ", channels last" : "", status, engines, said);
        a.bias = a.out;
        ok(tn__cuda_conv.run(queue, &a) == TN_ERR_UNSUPPORTED &&
               strcmp(said, "cuDNN cannot add the bias") == 0,
           "%s: with a bias it is asked again", g->name);
    }
}

/* Restarts the program with the accepting driver, and with library paths to the
 * folders of cuDNN (for the plugin) and NVRTC (for cuDNN). */
static void on_accepting_driver(char **argv)
{
    const char *build = getenv("top_builddir"), *now = getenv("LD_LIBRARY_PATH");
    const char *libs = getenv("TENON_CUDA_LIBS");
    char path[8192];
    if (getenv("TN_TEST_TOLD"))
        return;
    snprintf(path, sizeof path, "%s/tests/sim/accepting%s%s%s%s:%s/lib64",
             build ? build : ".", now ? ":" : "", now ? now : "",
             libs ? ":" : "", libs ? libs : "", TENON_CUDA_FOLDER);
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("TN_TEST_TOLD", "1", 1);
    execv("/proc/self/exe", argv);
    bail_out("the program does not start again");
}

/* Returns whether the loaded driver is accepting_driver.c. A real driver would
 * not load kernels compiled for another GPU. */
static bool is_accepting(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return driver && dlsym(driver, "tn_accepting_driver");
}

int main(int argc, char **argv)
{
    (void)argc;
    plan_later();
    on_accepting_driver(argv);
    if (!is_accepting()) {
        skip(1, "libcuda.so.1 is a driver of NVIDIA's, which takes kernels of "
                "its own GPU alone: tests/sim/accepting is not in this tree");
        return done_testing();
    }
    if (!open_library()) {
        skip(1, "no cuDNN of 9.16 or later is installed");
        return done_testing();
    }
    note("cuDNN %zu", library.version());
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        tn_queue queue = {.device = &device};
        listed.major = gpus[i].version / 100;
        listed.info.memory_total = 80ull << 30;
        if (!ok(describe_gpu(&gpus[i]), "cuDNN accepts %s", gpus[i].name))
            continue;
        for (size_t k = 0; k < sizeof attentions / sizeof *attentions; k++)
            check_attention(&queue, &gpus[i], &attentions[k]);
        for (size_t k = 0; k < sizeof convs / sizeof *convs; k++)
            check_conv(&queue, &gpus[i], &convs[k]);
        check_declined(&queue);
        tn__cuda_plans_free(queue.plans);
        library.destroy(description);
    }
    return done_testing();
}
