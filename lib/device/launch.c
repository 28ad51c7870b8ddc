/* launch.c: work for a device: the plugin's calls with order, tags and words.
 *
 * A synchronous device is called as it is: no lock, no tag. For the others
 * the queue's lock makes the order, and a tag brings an operator's name back
 * from a failure that is told later. */
#include <device/lane.h>
#include <device/recorder.h>
#include <device/registry.h>

#include <base/guard.h>
#include <base/memory.h>
#include <base/platform.h>
#include <base/timeline.h>
#include <device/tally.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How far back a late failure can be named; and told in full, counted in
 * launches that can find an index outside. */
#define NAMES 4096
#define LATE 256

/* Built programs: open addressing by the program's address. Readers take no
 * lock: an entry's `built` is there before its key. A table that is full is
 * replaced by a greater one and kept, for readers may still be in it. */
typedef struct built_entry {
    _Atomic(const tn_program *) key;
    _Atomic(tn_built *) built;
} built_entry;

typedef struct built_table {
    struct built_table *smaller; /* the one before, kept */
    size_t mask, used;
    built_entry entry[];
} built_table;

struct tn__work {
    _Atomic(built_table *) built;
    pthread_mutex_t build_lock;
    /* The rest is under the queue's lock. */
    uint64_t next_tag;
    const char *name[NAMES]; /* of launch tag % NAMES; lent for ever */
    uint64_t late_count;
    tn__late late_of[LATE];  /* the last of them, in turn */
    tn_status late;          /* a failure that nobody was told of yet, */
    tn_fault late_fault;
    tn__error late_error; /*   and the plugin's words */
    tn__lane *lane;       /* owned; NULL: no trace has run */
};

struct tn__work *tn__work_make(void)
{
    struct tn__work *work = tn__calloc(1, sizeof *work);
    if (work)
        pthread_mutex_init(&work->build_lock, NULL);
    return work;
}

static size_t slot_of(const tn_program *program, size_t mask)
{
    uint64_t hash = (uint64_t)(uintptr_t)program * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32) & mask;
}

static tn_built *built_find(built_table *table, const tn_program *program)
{
    if (!table)
        return NULL;
    for (size_t i = slot_of(program, table->mask);; i = (i + 1) & table->mask) {
        built_entry *e = &table->entry[i];
        const tn_program *key =
            atomic_load_explicit(&e->key, memory_order_acquire);
        if (key == program)
            return atomic_load_explicit(&e->built, memory_order_relaxed);
        if (!key)
            return NULL;
    }
}

static void built_put(built_table *table, const tn_program *program,
                      tn_built *built)
{
    size_t i = slot_of(program, table->mask);
    while (atomic_load_explicit(&table->entry[i].key, memory_order_relaxed))
        i = (i + 1) & table->mask;
    atomic_store_explicit(&table->entry[i].built, built, memory_order_relaxed);
    atomic_store_explicit(&table->entry[i].key, program, memory_order_release);
    table->used++;
}

/* A table with room for one more; NULL if memory runs out. */
static built_table *built_room(struct tn__work *work)
{
    built_table *old = atomic_load_explicit(&work->built, memory_order_relaxed);
    if (old && old->used * 2 <= old->mask)
        return old;
    size_t count = old ? (old->mask + 1) * 2 : 64;
    built_table *table =
        tn__calloc(1, sizeof *table + count * sizeof(built_entry));
    if (!table)
        return NULL;
    table->smaller = old;
    table->mask = count - 1;
    for (size_t i = 0; old && i <= old->mask; i++) {
        const tn_program *key =
            atomic_load_explicit(&old->entry[i].key, memory_order_relaxed);
        if (key)
            built_put(table, key,
                      atomic_load_explicit(&old->entry[i].built,
                                           memory_order_relaxed));
    }
    atomic_store_explicit(&work->built, table, memory_order_release);
    return table;
}

/* Words for a failure of the plugin, unless an error was pending before. */
static tn_status told(tn_device *device, const char *what, tn_status status,
                      bool was_pending)
{
    if (was_pending)
        return status;
    tn__error error;
    tn__error_take(&error);
    if (error.code)
        return tn__fail(status, "%s: %s: %s", what, device->name, error.text);
    return tn__fail(status, "%s: %s reports %s without a reason", what,
                    device->name, tn_status_name(status));
}

tn_built *tn__device_built(tn_device *device, const tn_program *program)
{
    struct tn__work *work = device->work;
    tn_built *built = built_find(
        atomic_load_explicit(&work->built, memory_order_acquire), program);
    if (TN__LIKELY(built != NULL))
        return built;
    if (tn__device_check_program(device, program))
        return NULL;
    pthread_mutex_lock(&work->build_lock);
    built = built_find(atomic_load(&work->built), program);
    built_table *table = built ? NULL : built_room(work);
    if (table) {
        bool was_pending = tn__error_pending();
        tn__span span;
        tn__span_begin(&span);
        tn_status status =
            device->plugin->program_build(device->handle, program, &built);
        tn__span_end(&span, "build", "program_build", NULL);
        if (status || !built) {
            built = NULL;
            told(device, "program_build", status ? status : TN_ERR_INTERNAL,
                 was_pending);
        } else {
            built_put(table, program, built);
        }
    }
    pthread_mutex_unlock(&work->build_lock);
    return built;
}

/* ---- order and tags ----------------------------------------------------- */

/* Enters the queue: for an asynchronous device under its lock, with a tag. */
static uint64_t enter(tn_device *device, const char *what)
{
    if (TN__LIKELY(device->synchronous))
        return 0;
    pthread_mutex_lock(&device->queue_lock);
    struct tn__work *work = device->work;
    uint64_t tag = ++work->next_tag;
    /* The operator that the program knows, if one is running. */
    const char *called = tn__here_called();
    work->name[tag % NAMES] = called ? called : what;
    return tag;
}

static uint64_t begin_queued(tn_device *device, const char *what)
{
    struct tn__work *work = device->work;
    uint64_t tag = enter(device, what);
    if (tn__timeline_is_live())
        tn__lane_begin(&work->lane, device, work->name[tag % NAMES]);
    return tag;
}

/* Enters to give work, whose time a trace may want. */
static inline uint64_t begin(tn_device *device, const char *what)
{
    return TN__LIKELY(device->synchronous) ? 0 : begin_queued(device, what);
}

static void leave(tn_device *device)
{
    if (!device->synchronous)
        pthread_mutex_unlock(&device->queue_lock);
}

static const char *name_of(tn_device *device, uint64_t tag)
{
    const struct tn__work *work = device->work;
    if (!tag || tag > work->next_tag || work->next_tag - tag >= NAMES)
        return NULL;
    return work->name[tag % NAMES];
}

/* Within enter and leave. */
static void remember(tn_device *device, uint64_t tag, const tn__late *late)
{
    struct tn__work *work = device->work;
    if (TN__LIKELY(!late || !tag))
        return;
    tn__late *slot = &work->late_of[work->late_count++ % LATE];
    *slot = *late;
    slot->tag = tag;
    slot->path = tn__here.path;
}

static const tn__late *late_of(tn_device *device, uint64_t tag)
{
    const struct tn__work *work = device->work;
    for (int i = 0; tag && i < LATE; i++)
        if (work->late_of[i].tag == tag)
            return &work->late_of[i];
    return NULL;
}

/* The plugin's queue_sync; what was done till then goes into the trace. */
static tn_status sync_plugin(tn_device *device, tn_fault *fault)
{
    tn__lane *lane = device->work->lane;
    tn__lane_mark(lane);
    tn_status status = device->plugin->queue_sync(device->queue, fault);
    tn__lane_write(lane);
    return status;
}

/* queue_sync, or what a sync before this one kept back. */
static tn_status sync_queue(tn_device *device, tn_fault *fault,
                            bool was_pending)
{
    struct tn__work *work = device->work;
    tn_status status = sync_plugin(device, fault);
    if (TN__LIKELY(device->synchronous || !work->late))
        return status;
    status = work->late;
    *fault = work->late_fault;
    if (!was_pending)
        tn__error_put(&work->late_error);
    work->late = TN_OK;
    return status;
}

/* The pending error is of the operator called name, and of none that runs now,
 * which has nothing to add. */
static tn_status was_of(const char *name, tn_status status)
{
    static const tn__doing over = {NULL, NULL};
    tn__error_facts *facts = tn__error_within(tn__here.doing);
    if (facts && name) {
        facts->called = facts->op = name;
        facts->doing = &over;
    }
    return status;
}

/* Waits, within enter and leave. The failure may be that of work given long
 * ago: it is that work's name that is told. */
static tn_status wait_told(tn_device *device, const char *what)
{
    tn_fault fault = {.size = sizeof fault};
    bool was_pending = tn__error_pending();
    tn_status status = sync_queue(device, &fault, was_pending);
    if (TN__LIKELY(!status))
        return TN_OK;
    const char *name = name_of(device, fault.tag);
    const tn__late *late = late_of(device, fault.tag);
    if (status == TN_ERR_INDEX && fault.code == TN_ERR_INDEX && !was_pending) {
        tn_error_clear();
        if (late) {
            char told[160];
            snprintf(told, sizeof told, " (told by %s when %s was waited for)",
                     what, device->name);
            const tn_path *here = tn_path_enter(late->path);
            late->tell(late, &fault, name ? name : what, told);
            tn_path_enter(here);
            return was_of(name, tn_error_code());
        }
        if (fault.extent == TN__GUARD_EXTENT)
            return was_of(name,
                          tn__fail(TN_ERR_ARGUMENT, "%s: %s at element %"
                                   PRId64 " of a launch (told by %s when %s "
                                   "was waited for)", name ? name : what,
                                   fault.index == TN__GUARD_ZERO
                                       ? "division by zero"
                                   : fault.index == TN__GUARD_NEGATIVE
                                       ? "a negative number"
                                       : "a number outside [0, 1]",
                                   fault.position, what, device->name));
        /* Of its coordinates only the element's number is known by now. */
        tn__fail_outside(
            TN_ERR_INDEX,
            (tn__error_index){
                true, fault.index, 0, fault.extent, 1, {fault.position}},
            "%s: index %" PRId64 " is outside of [0, %" PRId64
            ") (told by %s when %s was waited for)",
            name ? name : what, fault.index, fault.extent, what, device->name);
        return was_of(name, TN_ERR_INDEX);
    }
    return told(device, name ? name : what, status, was_pending);
}

void tn__work_drain(tn_device *device)
{
    if (device->synchronous)
        return;
    struct tn__work *work = device->work;
    pthread_mutex_lock(&device->queue_lock);
    tn_fault fault = {.size = sizeof fault};
    tn__error before;
    tn__error_take(&before);
    tn_status status = sync_plugin(device, &fault);
    if (status && !work->late) {
        work->late = status;
        work->late_fault = fault;
        tn__error_take(&work->late_error);
    }
    tn__error_put(&before);
    pthread_mutex_unlock(&device->queue_lock);
}

/* Leaves. While a trace runs what was given to an asynchronous device gets its
 * time from events, or is waited for, so that its time is in the span of whoever
 * gave it. */
static tn_status leave_after(tn_device *device, const char *what,
                             tn_status status)
{
    if (tn__timeline_is_live() && !device->synchronous && !status &&
        !tn__lane_end(device->work->lane))
        status = wait_told(device, what);
    leave(device);
    return status;
}

/* Leaves, and what was given is done. */
static tn_status leave_waited(tn_device *device, const char *what)
{
    if (tn__timeline_is_live())
        tn__lane_end(device->work->lane);
    tn_status status = wait_told(device, what);
    leave(device);
    return status;
}

/* After the plugin's status: an index fault is handed to the caller, without
 * the plugin's words; the rest is told. */
static tn_status finish(tn_device *device, const char *what, tn_status status,
                        bool was_pending, tn_fault *fault)
{
    if (TN__LIKELY(!status))
        return TN_OK;
    if (status != TN_ERR_INDEX || !fault)
        return told(device, what, status, was_pending);
    *fault = (tn_fault){.size = sizeof *fault};
    sync_queue(device, fault, was_pending);
    if (fault->code != TN_ERR_INDEX) {
        fault->code = TN_ERR_INDEX;
        fault->operand = TN_NONE;
    }
    if (!was_pending)
        tn_error_clear();
    return TN_ERR_INDEX;
}

/* The status of work that was given, which a recording takes too. */
static tn_status recorded(tn_device *device, int kind, const void *args,
                          size_t bytes, const char *what, tn_status status)
{
    return TN__LIKELY(!tn__recording) || status
               ? status
               : tn__record_work(device, kind, args, bytes, what);
}

tn_status tn__device_launch(tn_device *device, const tn_program *program,
                            tn_built *built, tn_launch *launch,
                            const char *what, const tn__late *late,
                            tn_fault *fault)
{
    bool was_pending = tn__error_pending();
    launch->tag = begin(device, what);
    remember(device, launch->tag, late);
    tn_status status = device->plugin->launch(device->queue, built, launch);
    status = finish(device, what, status, was_pending, fault);
    if (tn__timeline_is_live())
        tn__tally_launch(device, program, launch);
    status = leave_after(device, what, status);
    return TN__LIKELY(!tn__recording) || status
               ? status
               : tn__record_launch(device, program, built, launch, what);
}

tn_status tn__device_matmul(tn_device *device, tn_matmul_args *matmul,
                            const char *what)
{
    bool was_pending = tn__error_pending();
    matmul->tag = begin(device, what);
    tn_status status = device->plugin->matmul(device->queue, matmul);
    status = finish(device, what, status, was_pending, NULL);
    if (tn__timeline_is_live())
        tn__tally_matmul(device, matmul);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_MATMUL, matmul, sizeof *matmul, what, status);
}

tn_status tn__device_scatter(tn_device *device, tn_scatter_args *scatter,
                             const char *what, const tn__late *late,
                             tn_fault *fault)
{
    bool was_pending = tn__error_pending();
    scatter->tag = begin(device, what);
    remember(device, scatter->tag, late);
    tn_status status = device->plugin->scatter(device->queue, scatter);
    status = finish(device, what, status, was_pending, fault);
    if (tn__timeline_is_live())
        tn__tally_scatter(device, scatter);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_SCATTER, scatter, sizeof *scatter, what, status);
}

tn_status tn__device_scan(tn_device *device, tn_scan_args *scan,
                          const char *what)
{
    bool was_pending = tn__error_pending();
    scan->tag = begin(device, what);
    tn_status status = device->plugin->scan(device->queue, scan);
    status = finish(device, what, status, was_pending, NULL);
    if (tn__timeline_is_live())
        tn__tally_scan(device, scan);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_SCAN, scan, sizeof *scan, what, status);
}

tn_status tn__device_sort(tn_device *device, tn_sort_args *sort,
                          const char *what)
{
    bool was_pending = tn__error_pending();
    sort->tag = begin(device, what);
    tn_status status = device->plugin->sort(device->queue, sort);
    status = finish(device, what, status, was_pending, NULL);
    if (tn__timeline_is_live())
        tn__tally_sort(device, sort);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_SORT, sort, sizeof *sort, what, status);
}

tn_status tn__device_conv(tn_device *device, tn_conv_args *conv,
                          const char *what)
{
    const tn_conv_extension *extension =
        atomic_load_explicit(&device->conv, memory_order_acquire);
    if (!extension)
        return TN_ERR_UNSUPPORTED;
    bool was_pending = tn__error_pending();
    conv->tag = begin(device, what);
    tn_status status = extension->run(device->queue, conv);
    if (tn__timeline_is_live() && status != TN_ERR_UNSUPPORTED)
        tn__tally_conv(device, conv);
    status = status == TN_ERR_UNSUPPORTED
                 ? tn__extension_declined(device, what, was_pending)
                 : finish(device, what, status, was_pending, NULL);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_CONV, conv, sizeof *conv, what, status);
}

tn_status tn__device_pool(tn_device *device, tn_pool_args *pool,
                          const char *what)
{
    const tn_pool_extension *extension =
        atomic_load_explicit(&device->pool, memory_order_acquire);
    if (!extension)
        return TN_ERR_UNSUPPORTED;
    bool was_pending = tn__error_pending();
    pool->tag = begin(device, what);
    tn_status status = extension->run(device->queue, pool);
    if (tn__timeline_is_live() && status != TN_ERR_UNSUPPORTED)
        tn__tally_pool(device, pool);
    status = status == TN_ERR_UNSUPPORTED
                 ? tn__extension_declined(device, what, was_pending)
                 : finish(device, what, status, was_pending, NULL);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_POOL, pool, sizeof *pool, what, status);
}

bool tn__device_attention_fits(tn_device *device,
                               const tn_attention_args *attention)
{
    const tn_attention_extension *extension =
        atomic_load_explicit(&device->attention, memory_order_acquire);
    if (!extension)
        return false;
    bool was_pending = tn__error_pending();
    tn_status status = extension->fits(device->handle, attention);
    if (status)
        tn__extension_declined(device, "scaled_dot_product_attention",
                               was_pending);
    return !status;
}

tn_status tn__device_attention(tn_device *device, tn_attention_args *attention,
                               const char *what)
{
    const tn_attention_extension *extension =
        atomic_load_explicit(&device->attention, memory_order_acquire);
    if (!extension)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "%s: %s has not the extension attention, or no more",
                        what, device->name);
    bool was_pending = tn__error_pending();
    attention->tag = begin(device, what);
    tn_status status = extension->run(device->queue, attention);
    if (tn__timeline_is_live())
        tn__tally_attention(device, attention);
    status = finish(device, what, status, was_pending, NULL);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_ATTENTION, attention, sizeof *attention,
                    what, status);
}

tn_status tn__device_product(tn_device *device, tn_product_args *product,
                             const char *what)
{
    const tn_product_extension *extension =
        atomic_load_explicit(&device->product, memory_order_acquire);
    if (!extension)
        return TN_ERR_UNSUPPORTED;
    bool was_pending = tn__error_pending();
    product->tag = begin(device, what);
    tn_status status = extension->run(device->queue, product);
    if (tn__timeline_is_live() && status != TN_ERR_UNSUPPORTED)
        tn__tally_product(device, product);
    status = status == TN_ERR_UNSUPPORTED
                 ? tn__extension_declined(device, what, was_pending)
                 : finish(device, what, status, was_pending, NULL);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_PRODUCT, product, sizeof *product, what,
                    status);
}

bool tn__device_lapack_fits(tn_device *device, const tn_lapack_args *lapack,
                            const char *what, bool *by_rows)
{
    const tn_lapack_extension *extension =
        atomic_load_explicit(&device->lapack, memory_order_acquire);
    if (!extension)
        return false;
    bool was_pending = tn__error_pending();
    *by_rows = extension->flags & TN_LAPACK_BY_ROWS;
    tn_status status = extension->fits(device->handle);
    if (!status && TN_HAS(tn_lapack_extension, extension, takes) &&
        extension->takes)
        status = extension->takes(device->handle, lapack);
    if (status)
        tn__extension_declined(device, what, was_pending);
    return !status;
}

tn_status tn__device_lapack(tn_device *device, tn_lapack_args *lapack,
                            const char *what)
{
    const tn_lapack_extension *extension =
        atomic_load_explicit(&device->lapack, memory_order_acquire);
    if (!extension)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "%s: %s has not the extension lapack, or no more",
                        what, device->name);
    bool was_pending = tn__error_pending();
    lapack->tag = begin(device, what);
    tn_status status = extension->run(device->queue, lapack);
    if (tn__timeline_is_live())
        tn__tally_lapack(device, lapack);
    status = finish(device, what, status, was_pending, NULL);
    status = leave_after(device, what, status);
    return recorded(device, TN__PIECE_LAPACK, lapack, sizeof *lapack, what,
                    status);
}

tn_status tn_device_synchronize(tn_device *device)
{
    if (!device)
        device = tn_device_current();
    if (!device)
        return tn_error_code();
    enter(device, "device_synchronize");
    tn_status status = wait_told(device, "device_synchronize");
    leave(device);
    return status;
}

/* ---- copies -------------------------------------------------------------- */

/* The copy; with the host it is done when this returns, for the memory there
 * is the caller's. */
static tn_status copy_now(tn_device *device, tn_copy_args *copy,
                          const char *what)
{
    copy->size = sizeof *copy;
    copy->rows = 1;
    if (!copy->bytes)
        return TN_OK;
    bool was_pending = tn__error_pending();
    copy->tag = begin(device, what);
    tn_status status = device->plugin->copy(device->queue, copy);
    if (tn__timeline_is_live())
        tn__tally_copy(device, copy);
    if (status)
        told(device, what, status, was_pending);
    else if (!device->synchronous && copy->host)
        return leave_waited(device, what);
    return leave_after(device, what, status);
}

tn_status tn__device_copy_again(tn_device *device, tn_copy_args *copy,
                                const char *what)
{
    tn_status status = copy_now(device, copy, what);
    return recorded(device, TN__PIECE_COPY, copy, sizeof *copy, what, status);
}

tn_status tn__device_replay(tn_device *device,
                            const tn_graph_replay_extension *extension,
                            tn_recorded *work)
{
    static const char what[] = "graph_replay";
    bool was_pending = tn__error_pending();
    uint64_t tag = begin(device, what);
    tn_status status = extension->run(device->queue, work, tag);
    /* Of which launch a fault is, a device that waits for each has yet to say. */
    status = status == TN_ERR_INDEX
                 ? wait_told(device, what)
                 : finish(device, what, status, was_pending, NULL);
    return leave_after(device, what, status);
}

tn_status tn__device_copy_in(tn_device *device, tn__block *dst,
                             uint64_t dst_offset, const void *src,
                             uint64_t bytes)
{
    if (TN__UNLIKELY(tn__recording != NULL) &&
        tn__record_refuse_host(device, "copy to the device"))
        return TN_ERR_STATE;
    if (device->host_visible && device->synchronous) {
        if (bytes)
            memcpy((char *)dst->host + dst_offset, src, bytes);
        return TN_OK;
    }
    /* `host` is read only in this direction; one field serves both. */
    tn_copy_args copy = {.direction = TN_COPY_TO_DEVICE,
                         .dst = dst->buffer,
                         .host = (void *)(uintptr_t)src,
                         .dst_offset = dst->offset + dst_offset,
                         .bytes = bytes};
    return copy_now(device, &copy, "copy to the device");
}

tn_status tn__device_copy_out(tn_device *device, void *dst, tn__block *src,
                              uint64_t src_offset, uint64_t bytes)
{
    if (TN__UNLIKELY(tn__recording != NULL) &&
        tn__record_refuse_host(device, "copy to the host"))
        return TN_ERR_STATE;
    if (device->host_visible && device->synchronous) {
        if (bytes)
            memcpy(dst, (const char *)src->host + src_offset, bytes);
        return TN_OK;
    }
    tn_copy_args copy = {.direction = TN_COPY_TO_HOST,
                         .src = src->buffer,
                         .host = dst,
                         .src_offset = src->offset + src_offset,
                         .bytes = bytes};
    return copy_now(device, &copy, "copy to the host");
}

/* Through memory of the host, a piece at a time. */
static tn_status copy_staged(tn_device *to, tn__block *dst, uint64_t dst_offset,
                             tn_device *from, tn__block *src,
                             uint64_t src_offset, uint64_t bytes)
{
    enum { PIECE = 4 << 20 };
    void *stage = tn__alloc(bytes < PIECE ? (size_t)bytes : PIECE);
    if (!stage)
        return TN_ERR_MEMORY;
    tn_status status = TN_OK;
    for (uint64_t done = 0; done < bytes && !status; done += PIECE) {
        uint64_t piece = bytes - done < PIECE ? bytes - done : PIECE;
        status =
            tn__device_copy_out(from, stage, src, src_offset + done, piece);
        if (!status)
            status =
                tn__device_copy_in(to, dst, dst_offset + done, stage, piece);
    }
    tn__free(stage);
    return status;
}

/* By the plugin, from device to device. Both wait: src may be given to others
 * of its device when this returns. */
static tn_status copy_peer(tn_device *to, tn__block *dst, uint64_t dst_offset,
                           tn_device *from, tn__block *src,
                           uint64_t src_offset, uint64_t bytes)
{
    static const char what[] = "copy between devices";
    tn_copy_args copy = {.direction = TN_COPY_PEER,
                         .dst = dst->buffer,
                         .src = src->buffer,
                         .dst_offset = dst->offset + dst_offset,
                         .src_offset = src->offset + src_offset,
                         .bytes = bytes};
    tn_status status = tn__record_refuse_host(to, what);
    if (!status)
        status = tn__record_refuse_host(from, what);
    if (!status)
        status = tn_device_synchronize(from);
    if (!status)
        status = copy_now(to, &copy, what);
    return status ? status : tn_device_synchronize(to);
}

tn_status tn__device_copy(tn_device *to, tn__block *dst, uint64_t dst_offset,
                          tn_device *from, tn__block *src, uint64_t src_offset,
                          uint64_t bytes)
{
    if (to == from) {
        tn_copy_args copy = {.direction = TN_COPY_ON_DEVICE,
                             .dst = dst->buffer,
                             .src = src->buffer,
                             .dst_offset = dst->offset + dst_offset,
                             .src_offset = src->offset + src_offset,
                             .bytes = bytes};
        return tn__device_copy_again(to, &copy, "copy on the device");
    }
    if (to->plugin == from->plugin && to->info.caps & TN_CAP_PEER)
        return copy_peer(to, dst, dst_offset, from, src, src_offset, bytes);
    /* What one side can read or write in place needs no stage. A device's
     * memory is only looked at when its work is done. */
    if (from->host_visible) {
        tn_status status = tn_device_synchronize(from);
        return status
                   ? status
                   : tn__device_copy_in(to, dst, dst_offset,
                                        (char *)src->host + src_offset, bytes);
    }
    if (to->host_visible) {
        tn_status status = tn_device_synchronize(to);
        return status
                   ? status
                   : tn__device_copy_out(from, (char *)dst->host + dst_offset,
                                         src, src_offset, bytes);
    }
    return copy_staged(to, dst, dst_offset, from, src, src_offset, bytes);
}
