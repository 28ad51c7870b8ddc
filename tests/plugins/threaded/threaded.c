/* threaded.c: a plugin for an asynchronous device. Each queue has a thread,
 * which runs the queue's commands in order; objects that a command uses stay
 * alive until it is done. The plugin passes every check, since it computes with
 * the reference plugin's loops. Tests put faults into it (lies.txt). */
#include "../../../plugins/reference/reference.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* One mutex for all data, and one condition variable, signalled after every
 * change: this device tests the order of work, not speed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;

struct tn_plugin_device {
    char unused;
};

typedef struct memory {
    struct tn_buffer base;
    int uses; /* number of pending commands that use the buffer */
} memory;

struct tn_built {
    const tn_program *program; /* owned by the library; valid until
                                * program_free */
    int uses;
};

/* A position in a queue, which an event recorded. */
typedef struct mark {
    bool is_reached;
    int holders; /* number of references to the event: its owner's, and one for
                    each command that uses it */
} mark;

struct tn_event {
    mark *last; /* NULL: never recorded */
};

enum { COPY, LAUNCH, MATMUL, SCATTER, SCAN, SORT, RECORD, WAIT };

typedef struct command {
    struct command *next;
    int kind;
    uint64_t tag;
    mark *mark;
    tn_built *built;
    tn_launch launch;
    union {
        tn_copy_args copy;
        tn_matmul_args matmul;
        tn_scatter_args scatter;
        tn_scan_args scan;
        tn_sort_args sort;
    } args;
    uint32_t buffer_count;
    tn_buffer *buffer[]; /* followed by the arrays that launch points to */
} command;

struct tn_queue {
    pthread_t thread;
    command *first, **last;
    bool works, closes;
    tn_fault fault; /* the first fault since the last sync; code TN_OK: none */
};

static tn_status made(const void *object)
{
    return object ? TN_OK : reference_host->fail(TN_ERR_MEMORY, "no memory");
}

/* ---- running commands ---------------------------------------------------- */

static tn_status run_copy(const tn_copy_args *c)
{
    unsigned char *dst = c->direction == TN_COPY_TO_HOST
                             ? c->host
                             : c->dst->data + c->dst_offset;
    const unsigned char *src = c->direction == TN_COPY_TO_DEVICE
                                   ? c->host
                                   : c->src->data + c->src_offset;
    for (uint64_t row = 0; row < c->rows; row++)
        memmove(dst + row * c->dst_pitch, src + row * c->src_pitch,
                (size_t)c->bytes);
    return TN_OK;
}

static tn_status run_launch(const command *c, tn_fault *fault)
{
    const uint32_t count = c->built->program->operand_count;
    void **at = calloc(count + 1, sizeof *at);
    if (!at)
        return TN_ERR_MEMORY;
    for (uint32_t k = 0; k < count; k++)
        if (c->launch.operand[k].buffer)
            at[k] = c->launch.operand[k].buffer->data;
    tn_status status =
        reference_host->interpret(c->built->program, &c->launch, at, fault);
    free(at);
    return status;
}

static tn_status run(const command *c, tn_fault *fault)
{
    switch (c->kind) {
    case COPY:
        return run_copy(&c->args.copy);
    case LAUNCH:
        return run_launch(c, fault);
    case MATMUL:
        return reference_matmul(&c->args.matmul);
    case SCATTER:
        return reference_scatter(&c->args.scatter, fault);
    case SCAN:
        return reference_scan(&c->args.scan);
    case SORT:
        return reference_sort(&c->args.sort);
    default:
        return TN_OK;
    }
}

/* ---- the queue's thread; these functions need the lock ------------------- */

static void drop_mark(mark *m)
{
    if (m && --m->holders == 0)
        free(m);
}

static void finish(tn_queue *queue, command *c, tn_status status,
                   const tn_fault *fault)
{
    if (status != TN_OK && queue->fault.code == TN_OK) {
        queue->fault = *fault;
        queue->fault.code = status;
        queue->fault.tag = c->tag;
    }
    if (c->kind == RECORD)
        c->mark->is_reached = true;
    drop_mark(c->mark);
    for (uint32_t k = 0; k < c->buffer_count; k++)
        ((memory *)c->buffer[k])->uses--;
    if (c->built)
        c->built->uses--;
    free(c);
    queue->works = false;
    pthread_cond_broadcast(&bell);
}

static void *work(void *context)
{
    tn_queue *queue = context;
    /* A thread inherits the rounding mode of its creator. */
    fesetenv(FE_DFL_ENV);
    pthread_mutex_lock(&lock);
    while (queue->first || !queue->closes) {
        command *c = queue->first;
        if (!c) {
            pthread_cond_wait(&bell, &lock);
            continue;
        }
        queue->first = c->next;
        if (!queue->first)
            queue->last = &queue->first;
        queue->works = true;
        while (c->kind == WAIT && c->mark && !c->mark->is_reached)
            pthread_cond_wait(&bell, &lock);
        pthread_mutex_unlock(&lock);
        tn_fault fault = {.size = sizeof fault};
        tn_status status = run(c, &fault);
        pthread_mutex_lock(&lock);
        finish(queue, c, status, &fault);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static tn_status queue_open(tn_plugin_device *device, tn_queue **out)
{
    (void)device;
    sigset_t all, before;
    tn_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        return made(NULL);
    queue->last = &queue->first;
    queue->fault.size = sizeof queue->fault;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&queue->thread, NULL, work, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(queue);
        return reference_host->fail(TN_ERR_MEMORY, "no thread for a queue");
    }
    *out = queue;
    return TN_OK;
}

static void queue_close(tn_queue *queue)
{
    pthread_mutex_lock(&lock);
    queue->closes = true;
    pthread_cond_broadcast(&bell);
    pthread_mutex_unlock(&lock);
    pthread_join(queue->thread, NULL);
    free(queue);
}

static tn_status queue_sync(tn_queue *queue, tn_fault *fault)
{
    pthread_mutex_lock(&lock);
    while (queue->first || queue->works)
        pthread_cond_wait(&bell, &lock);
    tn_fault first = queue->fault;
    queue->fault.code = TN_OK;
    pthread_mutex_unlock(&lock);
    if (first.code == TN_OK)
        return TN_OK;
    if (fault)
        tn_struct_copy(fault, &first);
    return first.code == TN_ERR_INDEX ? first.code
                                      : reference_host->fail(first.code,
                                                             "work failed");
}

/* ---- submitting commands ------------------------------------------------- */

static command *command_new(int kind, uint64_t tag, size_t buffers,
                            size_t more)
{
    command *c = calloc(1, sizeof *c + buffers * sizeof c->buffer[0] + more);
    if (c) {
        c->kind = kind;
        c->tag = tag;
    }
    return c;
}

static tn_status give(tn_queue *queue, command *c)
{
    pthread_mutex_lock(&lock);
    for (uint32_t k = 0; k < c->buffer_count; k++)
        ((memory *)c->buffer[k])->uses++;
    if (c->built)
        c->built->uses++;
    *queue->last = c;
    queue->last = &c->next;
    pthread_cond_broadcast(&bell);
    pthread_mutex_unlock(&lock);
    return TN_OK;
}

/* Submits a command whose arguments contain no pointers to copy. */
static tn_status give_flat(tn_queue *queue, int kind, const void *args,
                           size_t known, uint64_t tag, tn_buffer *x,
                           tn_buffer *y, tn_buffer *z)
{
    tn_buffer *const all[] = {x, y, z};
    command *c = command_new(kind, tag, 3, 0);
    if (!c)
        return made(NULL);
    uint32_t size = (uint32_t)known;
    memcpy(&c->args, &size, sizeof size);
    tn_struct_copy(&c->args, args);
    for (int k = 0; k < 3; k++)
        if (all[k])
            c->buffer[c->buffer_count++] = all[k];
    return give(queue, c);
}

static tn_status unknown(void)
{
    return reference_host->fail(TN_ERR_UNSUPPORTED,
                                "a kind or a flag of a later version");
}

static tn_status copy(tn_queue *queue, const tn_copy_args *c)
{
    if (!tn_copy_is_known(c))
        return unknown();
    return give_flat(queue, COPY, c, sizeof *c, c->tag, c->dst, c->src, NULL);
}

static tn_status matmul(tn_queue *queue, const tn_matmul_args *a)
{
    return give_flat(queue, MATMUL, a, sizeof *a, a->tag, a->a.buffer,
                     a->b.buffer, a->c.buffer);
}

static tn_status scatter(tn_queue *queue, const tn_scatter_args *a)
{
    if (!tn_scatter_is_known(a))
        return unknown();
    return give_flat(queue, SCATTER, a, sizeof *a, a->tag, a->dst.buffer,
                     a->index.buffer, a->src.buffer);
}

static tn_status scan(tn_queue *queue, const tn_scan_args *a)
{
    if (!tn_scan_is_known(a))
        return unknown();
    return give_flat(queue, SCAN, a, sizeof *a, a->tag, a->in.buffer,
                     a->out.buffer, a->out_index.buffer);
}

static tn_status sort(tn_queue *queue, const tn_sort_args *a)
{
    if (!tn_sort_is_known(a))
        return unknown();
    return give_flat(queue, SORT, a, sizeof *a, a->tag, a->in.buffer,
                     a->out.buffer, a->out_index.buffer);
}

static void *keep(unsigned char **at, const void *from, size_t bytes)
{
    void *to = *at;
    if (bytes)
        memcpy(to, from, bytes);
    *at += (bytes + 7) & ~(size_t)7;
    return to;
}

static tn_status launch(tn_queue *queue, tn_built *built, const tn_launch *l)
{
    const tn_program *p = built->program;
    const size_t word = sizeof(int64_t), count = p->operand_count;
    const size_t ndim = (l->outer_ndim + l->row_ndim) * word;
    size_t more = count * sizeof *l->operand + p->param_count * word + ndim;
    for (size_t k = 0; k < count; k++)
        more += ndim + 2 * p->operand[k].index_count * word;
    command *c = command_new(LAUNCH, l->tag, count, more);
    if (!c)
        return made(NULL);
    unsigned char *at = (unsigned char *)(c->buffer + count);
    c->launch.size = sizeof c->launch;
    tn_struct_copy(&c->launch, l);
    tn_launch_operand *operand =
        keep(&at, l->operand, count * sizeof *operand);
    c->launch.operand = operand;
    c->launch.extent = keep(&at, l->extent, ndim);
    c->launch.param = keep(&at, l->param, p->param_count * word);
    for (size_t k = 0; k < count; k++) {
        const size_t indices = p->operand[k].index_count * word;
        operand[k].stride = keep(&at, operand[k].stride, ndim);
        operand[k].index_stride = keep(&at, operand[k].index_stride, indices);
        operand[k].index_extent = keep(&at, operand[k].index_extent, indices);
        if (operand[k].buffer)
            c->buffer[c->buffer_count++] = operand[k].buffer;
    }
    c->built = built;
    return give(queue, c);
}

/* ---- events ------------------------------------------------------------- */

static tn_status event_open(tn_plugin_device *device, tn_event **out)
{
    (void)device;
    return made(*out = calloc(1, sizeof **out));
}

static void event_close(tn_event *event)
{
    pthread_mutex_lock(&lock);
    drop_mark(event->last);
    pthread_mutex_unlock(&lock);
    free(event);
}

static tn_status event_record(tn_queue *queue, tn_event *event)
{
    command *c = command_new(RECORD, 0, 0, 0);
    mark *m = calloc(1, sizeof *m);
    if (!c || !m) {
        free(c);
        free(m);
        return made(NULL);
    }
    m->holders = 2;
    c->mark = m;
    pthread_mutex_lock(&lock);
    drop_mark(event->last);
    event->last = m;
    pthread_mutex_unlock(&lock);
    return give(queue, c);
}

static tn_status queue_wait(tn_queue *queue, tn_event *event)
{
    command *c = command_new(WAIT, 0, 0, 0);
    if (!c)
        return made(NULL);
    pthread_mutex_lock(&lock);
    c->mark = event->last;
    if (c->mark)
        c->mark->holders++;
    pthread_mutex_unlock(&lock);
    return give(queue, c);
}

static tn_status event_query(tn_event *event, uint32_t *done)
{
    pthread_mutex_lock(&lock);
    *done = !event->last || event->last->is_reached;
    pthread_mutex_unlock(&lock);
    return TN_OK;
}

/* ---- the device --------------------------------------------------------- */

static tn_status device_count(uint32_t *count)
{
    *count = 1;
    return TN_OK;
}

static tn_status device_info(uint32_t i, tn_device_info *info)
{
    (void)i;
    tn_device_info mine = {
        .size = sizeof mine,
        .kind = TN_KIND_SIMULATED,
        .caps = TN_CAP_ASYNC | TN_CAP_BIT_EXACT,
        .align = 64,
        .register_types = 1u << TN_F32 | 1u << TN_F64 | 1u << TN_I32 |
                          1u << TN_I64 | 1u << TN_BOOL,
        .storage_types = (1u << TN_DTYPE_END) - 2,
        .name = "a thread for each queue",
        .uid = "threaded"};
    tn_struct_copy(info, &mine);
    return TN_OK;
}

static tn_status device_open(uint32_t i, tn_plugin_device **device)
{
    (void)i;
    return made(*device = calloc(1, sizeof **device));
}

static void device_close(tn_plugin_device *device)
{
    free(device);
}

static tn_status buffer_alloc(tn_plugin_device *device, uint64_t bytes,
                              tn_buffer **out)
{
    (void)device;
    memory *m = calloc(1, sizeof *m);
    void *data = NULL;
    if (!m || posix_memalign(&data, 64, bytes ? (size_t)bytes : 1) != 0) {
        free(m);
        return made(NULL);
    }
    m->base.data = data;
    *out = &m->base;
    return TN_OK;
}

/* Waits until no pending command uses the object with this counter. */
static void wait_for(const int *uses)
{
    pthread_mutex_lock(&lock);
    while (*uses > 0)
        pthread_cond_wait(&bell, &lock);
    pthread_mutex_unlock(&lock);
}

static void buffer_free(tn_plugin_device *device, tn_buffer *buffer)
{
    (void)device;
    memory *m = (memory *)buffer;
    wait_for(&m->uses);
    free(m->base.data);
    free(m);
}

static tn_status program_build(tn_plugin_device *device,
                               const tn_program *program, tn_built **out)
{
    (void)device;
    tn_built *built = calloc(1, sizeof *built);
    if (built)
        built->program = program;
    *out = built;
    return made(built);
}

static void program_free(tn_plugin_device *device, tn_built *built)
{
    (void)device;
    wait_for(&built->uses);
    free(built);
}

/* ---- an extension that declines ----------------------------------------- */

static tn_status conv(tn_queue *queue, const tn_conv_args *args)
{
    (void)queue;
    (void)args;
    return reference_host->fail(TN_ERR_UNSUPPORTED, "conv: not on threads");
}

static const void *extension(const char *name, uint32_t version)
{
    static const tn_conv_extension table = {.size = sizeof table, .run = conv};
    return version == 1 && strcmp(name, "conv") == 0 ? &table : NULL;
}

static const tn_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .name = "threaded",
    .version = "1",
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .queue_open = queue_open,
    .queue_close = queue_close,
    .queue_sync = queue_sync,
    .copy = copy,
    .program_build = program_build,
    .program_free = program_free,
    .launch = launch,
    .matmul = matmul,
    .scatter = scatter,
    .scan = scan,
    .sort = sort,
    .event_open = event_open,
    .event_close = event_close,
    .event_record = event_record,
    .event_query = event_query,
    .queue_wait = queue_wait,
    .extension = extension,
};

const tn_plugin *tenon_plugin_v1(const tn_host *host)
{
    reference_host = host;
    if (host->abi_major != TN_ABI_MAJOR) {
        host->fail(TN_ERR_PLUGIN, "threaded: ABI version %u, not %u",
                   TN_ABI_MAJOR, host->abi_major);
        return NULL;
    }
    return &plugin;
}
