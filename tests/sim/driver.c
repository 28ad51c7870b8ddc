/* driver.c: the driver's interface. Work on a stream is kept until something
 * forces it to run: a sync, an event waited for, a free. So what forgets to
 * wait sees old data, every time. One lock guards everything. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MOST_DEVICES 8
#define EXPORT __attribute__((visibility("default")))

struct CUctx_st {
    int device;
    int retained;
};
struct CUmod_st {
    ptx_module *module; /* owned */
};
struct CUfunc_st {
    const ptx_kernel *kernel;
    struct CUfunc_st *older; /* owned, like all of them, by the process */
};

typedef struct work {
    struct work *next;
    enum { COPY_IN, COPY_OUT, COPY_ON, FILL, LAUNCH, CALL, RECORD, WAIT } kind;
    tn_cu_pointer dst, src;
    void *host;   /* COPY_OUT: where to; COPY_IN: owned copy; CALL: owned, what
                     the function is given */
    sim_function *call;
    size_t bytes;
    int value;
    ptx_launch launch; /* its parameters are owned */
    struct CUevent_st *event;
    uint64_t mark; /* of the event, when it was recorded or waited for */
} work;

struct CUstream_st {
    work *first, **last;
    struct CUstream_st *next;
};
struct CUevent_st {
    struct CUstream_st *stream; /* NULL: never recorded */
    uint64_t recorded, done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open;
static int device_count = 1;
static struct CUctx_st contexts[MOST_DEVICES];
static struct CUstream_st *streams;
static struct CUfunc_st *functions;
static tn_cu_result sticky; /* after a fault, what every call returns */
static _Thread_local struct CUctx_st *current;
static char said[2048];

/* Failures on demand: the n-th call from now returns this. */
static long fail_in = -1;
static tn_cu_result fail_with;

void sim_say(const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    size_t length = strlen(said);
    snprintf(said + length, sizeof said - length, "%s\n", line);
    if (getenv("TENON_SIM_SAY"))
        fprintf(stderr, "simulated driver: %s\n", line);
}

/* ---- for tests ---------------------------------------------------------- */

/* What was said since the last call, in the caller's room. */
EXPORT void sim_said(char *out, size_t room);
void sim_said(char *out, size_t room)
{
    pthread_mutex_lock(&lock);
    snprintf(out, room, "%s", said);
    said[0] = 0;
    pthread_mutex_unlock(&lock);
}

/* The n-th call from now on (0: the next) returns error. */
EXPORT void sim_fail(long n, tn_cu_result error);
void sim_fail(long n, tn_cu_result error)
{
    pthread_mutex_lock(&lock);
    fail_in = n;
    fail_with = error;
    pthread_mutex_unlock(&lock);
}

/* Has that call come? */
EXPORT int sim_failed(void);
int sim_failed(void)
{
    pthread_mutex_lock(&lock);
    int came = fail_in < 0;
    pthread_mutex_unlock(&lock);
    return came;
}

/* A device without a fault again. */
EXPORT void sim_mend(void);
void sim_mend(void)
{
    pthread_mutex_lock(&lock);
    sticky = 0;
    pthread_mutex_unlock(&lock);
}

EXPORT size_t sim_live(void);
size_t sim_live(void)
{
    return sim_memory_live();
}

/* ---- entering a call ---------------------------------------------------- */

/* Locks; what the call returns at once, or 0. */
static tn_cu_result enter(bool needs_context)
{
    pthread_mutex_lock(&lock);
    if (fail_in >= 0 && fail_in-- == 0)
        return fail_with;
    if (!is_open)
        return 3; /* CUDA_ERROR_NOT_INITIALIZED */
    if (needs_context && (!current || !current->retained)) {
        sim_say("a call without a current context");
        return TN_CU_INVALID_CONTEXT;
    }
    return needs_context ? sticky : 0;
}

static tn_cu_result leave(tn_cu_result result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

#define ENTER(needs_context)                                                  \
    do {                                                                      \
        tn_cu_result refused = enter(needs_context);                          \
        if (refused)                                                          \
            return leave(refused);                                            \
    } while (0)

/* ---- streams ------------------------------------------------------------ */

static void run_stream(struct CUstream_st *stream, const struct CUevent_st *to,
                       uint64_t mark);

static void work_free(work *w)
{
    if (w->kind == COPY_IN || w->kind == CALL)
        free(w->host);
    if (w->kind == LAUNCH)
        free(w->launch.parameters);
    free(w);
}

static tn_cu_result run_copy(const work *w)
{
    void *dst = w->host, *src = w->host;
    if (w->kind != COPY_OUT)
        dst = sim_memory_at(w->dst, w->bytes, "a copy's write");
    if (w->kind != COPY_IN && w->kind != FILL)
        src = sim_memory_at(w->src, w->bytes, "a copy's read");
    if (!dst || (!src && w->kind != FILL))
        return TN_CU_ILLEGAL_ADDRESS;
    if (w->kind == FILL)
        memset(dst, w->value, w->bytes);
    else
        memmove(dst, src, w->bytes);
    return 0;
}

static void run_work(work *w)
{
    tn_cu_result error = 0;
    switch (w->kind) {
    case LAUNCH:
        error = ptx_run(&w->launch);
        break;
    case CALL:
        error = w->call(w->host);
        break;
    case RECORD:
        if (w->event && w->event->done < w->mark)
            w->event->done = w->mark;
        break;
    case WAIT:
        if (w->event && w->event->done < w->mark)
            run_stream(w->event->stream, w->event, w->mark);
        break;
    default:
        error = run_copy(w);
        break;
    }
    if (error && !sticky)
        sticky = error;
}

/* All of it, or up to where an event is done. */
static void run_stream(struct CUstream_st *stream, const struct CUevent_st *to,
                       uint64_t mark)
{
    while (stream && stream->first && !sticky && (!to || to->done < mark)) {
        work *w = stream->first;
        stream->first = w->next;
        if (!stream->first)
            stream->last = &stream->first;
        run_work(w);
        work_free(w);
    }
}

static void run_all(void)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        run_stream(s, NULL, 0);
}

/* Gives work to a stream; it is copied. */
static tn_cu_result give(struct CUstream_st *stream, const work *like)
{
    work *w = stream ? malloc(sizeof *w) : NULL;
    if (!w)
        return stream ? TN_CU_OUT_OF_MEMORY : TN_CU_INVALID_VALUE;
    *w = *like;
    w->next = NULL;
    *stream->last = w;
    stream->last = &w->next;
    return 0;
}

/* ---- for the simulated libraries ---------------------------------------- */

tn_cu_result sim_call(tn_cu_stream stream, sim_function *call,
                      const void *context, size_t bytes)
{
    ENTER(true);
    work w = {.kind = CALL, .call = call, .host = malloc(bytes + 1)};
    if (!w.host)
        return leave(TN_CU_OUT_OF_MEMORY);
    memcpy(w.host, context, bytes);
    tn_cu_result error = give(stream, &w);
    if (error)
        free(w.host);
    return leave(error);
}

void *sim_reach(tn_cu_pointer at, size_t bytes, const char *what)
{
    return sim_memory_at(at, bytes, what);
}

void sim_library_says(const char *text)
{
    pthread_mutex_lock(&lock);
    sim_say("%s", text);
    pthread_mutex_unlock(&lock);
}

/* ---- the driver and its devices ----------------------------------------- */

EXPORT tn_cu_result cuInit(unsigned flags);
tn_cu_result cuInit(unsigned flags)
{
    pthread_mutex_lock(&lock);
    const char *count = getenv("TENON_SIM_DEVICES");
    const char *fails = getenv("TENON_SIM_INIT");
    if (count && atoi(count) >= 0 && atoi(count) <= MOST_DEVICES)
        device_count = atoi(count);
    for (int i = 0; i < device_count; i++)
        contexts[i].device = i;
    is_open = !fails;
    return leave(flags ? TN_CU_INVALID_VALUE : fails ? atoi(fails) : 0);
}

EXPORT tn_cu_result cuDriverGetVersion(int *version);
tn_cu_result cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

static const struct {
    tn_cu_result error;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {TN_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {TN_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {TN_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE",
     "no CUDA-capable device is detected"},
    {TN_CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT",
     "invalid device context"},
    {TN_CU_INVALID_PTX, "CUDA_ERROR_INVALID_PTX",
     "a PTX JIT compilation failed"},
    {TN_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {TN_CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {TN_CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {TN_CU_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS",
     "misaligned address"},
    {TN_CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED",
     "unspecified launch failure"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

EXPORT tn_cu_result cuGetErrorName(tn_cu_result error, const char **name);
tn_cu_result cuGetErrorName(tn_cu_result error, const char **name)
{
    *name = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            *name = errors[i].name;
    return *name ? 0 : TN_CU_INVALID_VALUE;
}

EXPORT tn_cu_result cuGetErrorString(tn_cu_result error, const char **text);
tn_cu_result cuGetErrorString(tn_cu_result error, const char **text)
{
    *text = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            *text = errors[i].text;
    return *text ? 0 : TN_CU_INVALID_VALUE;
}

EXPORT tn_cu_result cuDeviceGetCount(int *count);
tn_cu_result cuDeviceGetCount(int *count)
{
    ENTER(false);
    *count = device_count;
    return leave(0);
}

EXPORT tn_cu_result cuDeviceGet(tn_cu_device *device, int ordinal);
tn_cu_result cuDeviceGet(tn_cu_device *device, int ordinal)
{
    ENTER(false);
    *device = ordinal;
    return leave(ordinal < 0 || ordinal >= device_count ? 101 : 0);
}

EXPORT tn_cu_result cuDeviceGetName(char *name, int room, tn_cu_device device);
tn_cu_result cuDeviceGetName(char *name, int room, tn_cu_device device)
{
    ENTER(false);
    snprintf(name, (size_t)room, "Simulated GPU %d", device);
    return leave(0);
}

EXPORT tn_cu_result cuDeviceGetUuid(tn_cu_uuid *uuid, tn_cu_device device);
tn_cu_result cuDeviceGetUuid(tn_cu_uuid *uuid, tn_cu_device device)
{
    ENTER(false);
    memset(uuid, 0x5a, sizeof *uuid);
    uuid->bytes[15] = (char)device;
    return leave(0);
}

EXPORT tn_cu_result cuDeviceTotalMem_v2(size_t *bytes, tn_cu_device device);
tn_cu_result cuDeviceTotalMem_v2(size_t *bytes, tn_cu_device device)
{
    size_t left;
    (void)device;
    ENTER(false);
    sim_memory_info(&left, bytes);
    return leave(0);
}

EXPORT tn_cu_result cuDeviceGetAttribute(int *value, int attribute,
                                         tn_cu_device device);
tn_cu_result cuDeviceGetAttribute(int *value, int attribute,
                                  tn_cu_device device)
{
    static const int values[][2] = {{TN_CU_MAX_THREADS_PER_BLOCK, 1024},
                                    {TN_CU_SHARED_PER_BLOCK, 49152},
                                    {TN_CU_MULTIPROCESSORS, 2},
                                    {TN_CU_MAJOR, 7},
                                    {TN_CU_MINOR, 5}};
    ENTER(false);
    *value = attribute == TN_CU_PCI_BUS ? device : 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i][0] == attribute)
            *value = values[i][1];
    return leave(0);
}

/* NVRTC opens whatever is called libcuda.so.1 and calls this. */
EXPORT tn_cu_result cuGetExportTable(const void **table,
                                     const tn_cu_uuid *uuid);
tn_cu_result cuGetExportTable(const void **table, const tn_cu_uuid *uuid)
{
    (void)uuid;
    *table = NULL;
    return TN_CU_NOT_FOUND;
}

/* ---- contexts ----------------------------------------------------------- */

EXPORT tn_cu_result cuDevicePrimaryCtxRetain(tn_cu_context *context,
                                             tn_cu_device device);
tn_cu_result cuDevicePrimaryCtxRetain(tn_cu_context *context,
                                      tn_cu_device device)
{
    ENTER(false);
    *context = &contexts[device];
    contexts[device].retained++;
    return leave(0);
}

EXPORT tn_cu_result cuDevicePrimaryCtxRelease_v2(tn_cu_device device);
tn_cu_result cuDevicePrimaryCtxRelease_v2(tn_cu_device device)
{
    ENTER(false);
    if (!contexts[device].retained)
        return leave(TN_CU_INVALID_CONTEXT);
    contexts[device].retained--;
    return leave(0);
}

EXPORT tn_cu_result cuCtxSetCurrent(tn_cu_context context);
tn_cu_result cuCtxSetCurrent(tn_cu_context context)
{
    ENTER(false);
    current = context;
    return leave(context ? sticky : 0);
}

/* ---- memory ------------------------------------------------------------- */

EXPORT tn_cu_result cuMemGetInfo_v2(size_t *left, size_t *total);
tn_cu_result cuMemGetInfo_v2(size_t *left, size_t *total)
{
    ENTER(true);
    sim_memory_info(left, total);
    return leave(0);
}

EXPORT tn_cu_result cuMemAlloc_v2(tn_cu_pointer *pointer, size_t bytes);
tn_cu_result cuMemAlloc_v2(tn_cu_pointer *pointer, size_t bytes)
{
    ENTER(true);
    return leave(sim_memory_alloc(bytes, pointer));
}

EXPORT tn_cu_result cuMemFree_v2(tn_cu_pointer pointer);
tn_cu_result cuMemFree_v2(tn_cu_pointer pointer)
{
    ENTER(true);
    run_all();
    return leave(pointer ? sim_memory_free(pointer) : 0);
}

/* From pageable memory: the driver has taken the bytes when it returns. */
static tn_cu_result copy_in(tn_cu_pointer dst, const void *src, size_t bytes,
                            struct CUstream_st *stream)
{
    work w = {.kind = COPY_IN, .dst = dst, .bytes = bytes};
    w.host = malloc(bytes + 1);
    if (!w.host)
        return TN_CU_OUT_OF_MEMORY;
    memcpy(w.host, src, bytes);
    tn_cu_result error = give(stream, &w);
    if (error)
        free(w.host);
    return error;
}

EXPORT tn_cu_result cuMemcpyHtoDAsync_v2(tn_cu_pointer dst, const void *src,
                                         size_t bytes, tn_cu_stream stream);
tn_cu_result cuMemcpyHtoDAsync_v2(tn_cu_pointer dst, const void *src,
                                  size_t bytes, tn_cu_stream stream)
{
    ENTER(true);
    return leave(copy_in(dst, src, bytes, stream));
}

EXPORT tn_cu_result cuMemcpyDtoHAsync_v2(void *dst, tn_cu_pointer src,
                                         size_t bytes, tn_cu_stream stream);
tn_cu_result cuMemcpyDtoHAsync_v2(void *dst, tn_cu_pointer src, size_t bytes,
                                  tn_cu_stream stream)
{
    ENTER(true);
    return leave(give(stream, &(work){.kind = COPY_OUT,
                                      .src = src,
                                      .host = dst,
                                      .bytes = bytes}));
}

EXPORT tn_cu_result cuMemcpyDtoDAsync_v2(tn_cu_pointer dst, tn_cu_pointer src,
                                         size_t bytes, tn_cu_stream stream);
tn_cu_result cuMemcpyDtoDAsync_v2(tn_cu_pointer dst, tn_cu_pointer src,
                                  size_t bytes, tn_cu_stream stream)
{
    ENTER(true);
    return leave(give(stream, &(work){.kind = COPY_ON,
                                      .dst = dst,
                                      .src = src,
                                      .bytes = bytes}));
}

EXPORT tn_cu_result cuMemcpy2DAsync_v2(const tn_cu_rectangle *r,
                                       tn_cu_stream stream);
tn_cu_result cuMemcpy2DAsync_v2(const tn_cu_rectangle *r, tn_cu_stream stream)
{
    tn_cu_result error = 0;
    ENTER(true);
    if (r->src_pitch < r->width || r->dst_pitch < r->width)
        return leave(TN_CU_INVALID_VALUE);
    for (size_t row = 0; row < r->height && !error; row++) {
        work w = {.kind = r->dst_type == TN_CU_HOST ? COPY_OUT : COPY_ON,
                  .dst = r->dst_device + row * r->dst_pitch,
                  .src = r->src_device + row * r->src_pitch,
                  .bytes = r->width};
        if (r->dst_type == TN_CU_HOST)
            w.host = (char *)r->dst_host + row * r->dst_pitch;
        error = r->src_type == TN_CU_HOST
                    ? copy_in(w.dst,
                              (const char *)r->src_host + row * r->src_pitch,
                              r->width, stream)
                    : give(stream, &w);
    }
    return leave(error);
}

EXPORT tn_cu_result cuMemsetD8Async(tn_cu_pointer pointer, unsigned char value,
                                    size_t bytes, tn_cu_stream stream);
tn_cu_result cuMemsetD8Async(tn_cu_pointer pointer, unsigned char value,
                             size_t bytes, tn_cu_stream stream)
{
    ENTER(true);
    return leave(give(stream, &(work){.kind = FILL,
                                      .dst = pointer,
                                      .value = value,
                                      .bytes = bytes}));
}

/* ---- streams and events ------------------------------------------------- */

EXPORT tn_cu_result cuStreamCreate(tn_cu_stream *out, unsigned flags);
tn_cu_result cuStreamCreate(tn_cu_stream *out, unsigned flags)
{
    (void)flags;
    ENTER(true);
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        return leave(TN_CU_OUT_OF_MEMORY);
    s->last = &s->first;
    s->next = streams;
    streams = s;
    *out = s;
    return leave(0);
}

EXPORT tn_cu_result cuStreamDestroy_v2(tn_cu_stream stream);
tn_cu_result cuStreamDestroy_v2(tn_cu_stream stream)
{
    ENTER(false);
    run_stream(stream, NULL, 0);
    while (stream->first) {
        work *w = stream->first;
        stream->first = w->next;
        work_free(w);
    }
    for (struct CUstream_st **s = &streams; *s; s = &(*s)->next)
        if (*s == stream) {
            *s = stream->next;
            break;
        }
    free(stream);
    return leave(0);
}

EXPORT tn_cu_result cuStreamSynchronize(tn_cu_stream stream);
tn_cu_result cuStreamSynchronize(tn_cu_stream stream)
{
    ENTER(true);
    run_stream(stream, NULL, 0);
    return leave(sticky);
}

EXPORT tn_cu_result cuEventCreate(tn_cu_event *event, unsigned flags);
tn_cu_result cuEventCreate(tn_cu_event *event, unsigned flags)
{
    (void)flags;
    ENTER(true);
    *event = calloc(1, sizeof **event);
    return leave(*event ? 0 : TN_CU_OUT_OF_MEMORY);
}

EXPORT tn_cu_result cuEventDestroy_v2(tn_cu_event event);
tn_cu_result cuEventDestroy_v2(tn_cu_event event)
{
    ENTER(false);
    for (struct CUstream_st *s = streams; s; s = s->next)
        for (work *w = s->first; w; w = w->next)
            if (w->event == event && w->kind == RECORD)
                w->event = NULL;
            else if (w->event == event) { /* what is waited for is known */
                run_stream(event->stream, event, w->mark);
                w->event = NULL;
            }
    free(event);
    return leave(0);
}

EXPORT tn_cu_result cuEventRecord(tn_cu_event event, tn_cu_stream stream);
tn_cu_result cuEventRecord(tn_cu_event event, tn_cu_stream stream)
{
    ENTER(true);
    event->stream = stream;
    event->recorded++;
    return leave(give(stream, &(work){.kind = RECORD,
                                      .event = event,
                                      .mark = event->recorded}));
}

EXPORT tn_cu_result cuEventQuery(tn_cu_event event);
tn_cu_result cuEventQuery(tn_cu_event event)
{
    ENTER(true);
    /* Asked again and again, it must come: a real device goes on by itself. */
    bool done = event->done >= event->recorded;
    if (!done && event->stream && event->stream->first) {
        work *w = event->stream->first;
        event->stream->first = w->next;
        if (!event->stream->first)
            event->stream->last = &event->stream->first;
        run_work(w);
        work_free(w);
    }
    return leave(sticky ? sticky : done ? 0 : TN_CU_NOT_READY);
}

EXPORT tn_cu_result cuStreamWaitEvent(tn_cu_stream stream, tn_cu_event event,
                                      unsigned flags);
tn_cu_result cuStreamWaitEvent(tn_cu_stream stream, tn_cu_event event,
                               unsigned flags)
{
    (void)flags;
    ENTER(true);
    if (event->done >= event->recorded)
        return leave(0);
    return leave(give(stream, &(work){.kind = WAIT,
                                      .event = event,
                                      .mark = event->recorded}));
}

/* ---- modules and launches ----------------------------------------------- */

EXPORT tn_cu_result cuModuleLoadData(tn_cu_module *module, const void *image);
tn_cu_result cuModuleLoadData(tn_cu_module *module, const void *image)
{
    ENTER(true);
    struct CUmod_st *m = calloc(1, sizeof *m);
    if (!m)
        return leave(TN_CU_OUT_OF_MEMORY);
    if (memcmp(image, "\177ELF", 4) == 0)
        sim_say("machine code: the simulated device takes PTX alone");
    else
        m->module = ptx_load(image);
    if (!m->module) {
        free(m);
        return leave(TN_CU_INVALID_PTX);
    }
    *module = m;
    return leave(0);
}

EXPORT tn_cu_result cuModuleUnload(tn_cu_module module);
tn_cu_result cuModuleUnload(tn_cu_module module)
{
    ENTER(false);
    run_all();
    ptx_free(module->module);
    free(module);
    return leave(0);
}

EXPORT tn_cu_result cuModuleGetFunction(tn_cu_function *function,
                                        tn_cu_module module, const char *name);
tn_cu_result cuModuleGetFunction(tn_cu_function *function, tn_cu_module module,
                                 const char *name)
{
    ENTER(true);
    const ptx_kernel *kernel = ptx_find(module->module, name);
    struct CUfunc_st *f = kernel ? malloc(sizeof *f) : NULL;
    if (!f)
        return leave(kernel ? TN_CU_OUT_OF_MEMORY : TN_CU_NOT_FOUND);
    f->kernel = kernel;
    f->older = functions;
    functions = f;
    *function = f;
    return leave(0);
}

static bool launch_is_possible(unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz)
{
    bool possible = gx && gx <= 0x7fffffff && gy == 1 && gz == 1 && bx &&
                    bx <= 1024 && by == 1 && bz == 1;
    if (!possible)
        sim_say("a launch of %u x %u x %u groups of %u x %u x %u", gx, gy, gz,
                bx, by, bz);
    return possible;
}

EXPORT tn_cu_result cuLaunchKernel(tn_cu_function function, unsigned gx,
                                   unsigned gy, unsigned gz, unsigned bx,
                                   unsigned by, unsigned bz, unsigned shared,
                                   tn_cu_stream stream, void **parameters,
                                   void **extra);
tn_cu_result cuLaunchKernel(tn_cu_function function, unsigned gx, unsigned gy,
                            unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, tn_cu_stream stream,
                            void **parameters, void **extra)
{
    size_t count;
    const size_t *offset, *bytes;
    ENTER(true);
    if (extra || shared || !launch_is_possible(gx, gy, gz, bx, by, bz))
        return leave(TN_CU_INVALID_VALUE);
    size_t total = ptx_parameters(function->kernel, &count, &offset, &bytes);
    work w = {.kind = LAUNCH,
              .launch = {.kernel = function->kernel, .grid = gx, .block = bx}};
    if (total > 4096) { /* of CUDA before 12.1 */
        sim_say("%zu bytes of parameters", total);
        return leave(TN_CU_INVALID_VALUE);
    }
    unsigned char *values = malloc(total + 1);
    if (!values)
        return leave(TN_CU_OUT_OF_MEMORY);
    for (size_t i = 0; i < count; i++)
        memcpy(values + offset[i], parameters[i], bytes[i]);
    w.launch.parameters = values;
    tn_cu_result error = give(stream, &w);
    if (error)
        free(values);
    return leave(error);
}
