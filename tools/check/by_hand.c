/* by_hand.c: opens a plugin directly, without libtenon's plugin loader, and
 * gives it a host table whose functions record what the plugin does. */
#include "by_hand.h"

#include <tenon/error.h>

#include <dlfcn.h>
#include <fenv.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/fpu.h"
#include "base/thread.h"
#include "device/cache.h"
#include "source/source.h"
#include "kernel/kernel.h"

/* The functions of the plugin table that a plugin may leave NULL. */
#define OPTIONAL_MAP(X)                                                        \
    X(buffer_map)                                                              \
    X(buffer_wrap) X(event_open) X(event_close) X(event_record) X(event_query) \
        X(queue_wait) X(extension) X(host_alloc) X(host_free) \
        X(event_open_timed) X(event_elapsed)

static const char *(*chosen_option)(const char *key);
static bool may_interpret;
static atomic_llong interpreted, shared;
static uint32_t most_items; /* maximum work-group size; 0 means the device's
                               limit */
static _Thread_local char failure[512];

/* ---- the host table ----------------------------------------------------- */

static tn_status host_fail(tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(failure, sizeof failure, format, args);
    va_end(args);
    return code;
}

static void host_log(int level, const char *format, ...)
{
    (void)level;
    (void)format;
}

static tn_status host_interpret(const tn_program *program,
                                const tn_launch *launch, void *const *memory,
                                tn_fault *fault)
{
    if (!may_interpret)
        return host_fail(TN_ERR_UNSUPPORTED,
                         "only the plugin reference may call the host's "
                         "interpreter");
    interpreted++;
    return tn__interpret(program, launch, memory, fault);
}

static const char *host_option(const char *key)
{
    return chosen_option ? chosen_option(key) : NULL;
}

static const void *host_extension(const char *name, uint32_t version)
{
    (void)name;
    (void)version;
    return NULL;
}

/* If `status` is a failure of a core function, copies the core's message to the
 * host table's function `fail`, so that by_hand_failure() returns it. Returns
 * `status`. */
static tn_status told(tn_status status)
{
    if (!status)
        return TN_OK;
    host_fail(status, "%s", tn_error());
    tn_error_clear();
    return status;
}

static tn_status host_plan_program(const tn_target *target,
                                   const tn_program *program,
                                   const tn_launch *launch, tn_plan *plan)
{
    tn_target small = *target;
    if (most_items > 0 && most_items < small.group_limit)
        small.group_limit = most_items;
    const tn_status status =
        told(tn__source_host.plan_program(&small, program, launch, plan));
    shared += status == TN_OK && plan->step == 0 && plan->step_count > 1;
    return status;
}

#define PLAN(name)                                                            \
    static tn_status host_plan_##name(const tn_target *target,                \
                                      const tn_##name##_args *args,           \
                                      tn_plan *plan)                          \
    {                                                                         \
        return told(tn__source_host.plan_##name(target, args, plan));       \
    }
PLAN(matmul)
PLAN(scatter)
PLAN(scan)
PLAN(sort)
PLAN(attention)
PLAN(conv)

static tn_status host_print_text(const tn_target *target, const tn_plan *plan,
                                 const char *kernel, const char *text,
                                 tn_source *source)
{
    return told(tn__source_host.print_text(target, plan, kernel, text, source));
}

/* The host table. It is followed by unused space, because a caller may set a
 * larger size in by_hand_how. */
static struct {
    tn_host table;
    unsigned char more[256];
} host = {
    .table =
        {
            .fail = host_fail,
            .log = host_log,
            .parallel_for = tn__parallel_for,
            .interpret = host_interpret,
            .option = host_option,
            .extension = host_extension,
            .plan_program = host_plan_program,
            .plan_matmul = host_plan_matmul,
            .plan_scatter = host_plan_scatter,
            .plan_scan = host_plan_scan,
            .plan_sort = host_plan_sort,
            .plan_attention = host_plan_attention,
            .plan_conv = host_plan_conv,
            .print_text = host_print_text,
            .print = tn__print,
            .print_free = tn__print_free,
            .fault_read = tn__fault_read,
            .cache_read = tn__cache_read,
            .cache_write = tn__cache_write,
            .cache_hold = tn__cache_hold,
            .cache_release = tn__cache_release,
        },
};

const char *by_hand_failure(void)
{
    return failure;
}

void by_hand_forget(void)
{
    failure[0] = 0;
}

int64_t by_hand_shared(void)
{
    return shared;
}

int64_t by_hand_interpreted(void)
{
    return interpreted;
}

/* ---- masks -------------------------------------------------------------- */

static const char *const optional[] = {
#define NAME(slot) #slot,
    OPTIONAL_MAP(NAME)
#undef NAME
#define NAME(id, text) text,
        TN_EXTENSION_MAP(NAME)
#undef NAME
            NULL};

const char *by_hand_optional(int i)
{
    return optional[i];
}

static bool is_named(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

bool by_hand_is_optional(const char *slot, size_t length)
{
    for (int i = 0; optional[i]; i++)
        if (is_named(optional[i], slot, length))
            return true;
    return false;
}

static bool has_name(const char *mask, const char *name)
{
    while (*mask) {
        size_t length = strcspn(mask, ",");
        if (is_named(name, mask, length))
            return true;
        mask += length + (mask[length] == ',');
    }
    return false;
}

static const tn_plugin *opened;
static const char *masked_names;

static const void *seen_extension(const char *name, uint32_t version)
{
    return has_name(masked_names, name) ? NULL
                                        : opened->extension(name, version);
}

/* Returns a copy of the plugin's table. The functions that the mask names are
 * NULL in the copy. how->wrap may have replaced other functions. */
static const tn_plugin *seen(const tn_plugin *plugin, const by_hand_how *how)
{
    static tn_plugin copy;
    const char *mask = how->mask ? how->mask : "";
    copy = (tn_plugin){.size = 0};
    memcpy(&copy, plugin,
           plugin->size < sizeof copy ? plugin->size : sizeof copy);
    opened = plugin;
    masked_names = mask;
    if (copy.extension)
        copy.extension = seen_extension;
#define MASK(slot)                                                             \
    if (has_name(mask, #slot))                                                 \
        copy.slot = NULL;
    OPTIONAL_MAP(MASK)
#undef MASK
    if (how->wrap)
        how->wrap(&copy);
    return &copy;
}

/* ---- opening ------------------------------------------------------------ */

bool by_hand_load(by_hand *h, const by_hand_how *how)
{
    *h = (by_hand){.plugin = NULL};
    void *file = dlopen(how->path, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        host_fail(TN_ERR_PLUGIN, "%s", dlerror());
        return false;
    }
    const tn_plugin *(*entry)(const tn_host *);
    void *symbol = dlsym(file, "tenon_plugin_v1");
    if (!symbol) {
        host_fail(TN_ERR_PLUGIN, "the plugin has no symbol tenon_plugin_v1");
        return false;
    }
    /* ISO C does not allow converting the object pointer from dlsym to a
     * function pointer. POSIX guarantees that copying its bytes works. */
    memcpy(&entry, &symbol, sizeof entry);
    chosen_option = how->option;
    may_interpret = !how->no_interpreter;
    most_items = how->group;
    host.table.plugin_path = how->path;
    host.table.abi_major = how->host_major ? how->host_major : TN_ABI_MAJOR;
    host.table.abi_minor = TN_ABI_MINOR;
    host.table.size = how->host_size ? how->host_size : sizeof(tn_host);
    by_hand_forget();
    const tn_plugin *plugin =
        entry(how->wrap_host ? how->wrap_host(&host.table, host.table.size)
                             : &host.table);
    if (plugin)
        h->plugin = seen(plugin, how);
    return h->plugin != NULL;
}

bool by_hand_open_device(by_hand *h, uint32_t device)
{
    h->info = (tn_device_info){.size = sizeof h->info};
    return h->plugin->device_info(device, &h->info) == TN_OK &&
           h->plugin->device_open(device, &h->device) == TN_OK &&
           h->plugin->queue_open(h->device, &h->queue) == TN_OK;
}

bool by_hand_open(by_hand *h, const by_hand_how *how)
{
    return by_hand_load(h, how) && by_hand_open_device(h, how->device);
}

void by_hand_close(by_hand *h)
{
    h->plugin->queue_close(h->queue);
    h->plugin->device_close(h->device);
}

void by_hand_fpu(bool hostile)
{
    fesetenv(FE_DFL_ENV);
    if (!hostile)
        return;
    fesetround(FE_UPWARD);
#if defined(__x86_64__)
    tn__fpu_restore(tn__fpu_read() | 0x8040); /* set the bits FTZ and DAZ */
#elif defined(__aarch64__)
    tn__fpu_restore(tn__fpu_read() | 1 << 24); /* set the bit FZ */
#endif
}

uint64_t by_hand_fpu_bits(void)
{
#if defined(__x86_64__)
    return tn__fpu_read() & ~UINT64_C(0x3f); /* without the exception flags */
#else
    return tn__fpu_read();
#endif
}

tn_status by_hand_copy(const by_hand *h, tn_buffer *buffer, uint64_t from,
                       void *memory, size_t bytes, bool to_device)
{
    tn_copy_args copy = {
        .size = sizeof copy,
        .direction = to_device ? TN_COPY_TO_DEVICE : TN_COPY_TO_HOST,
        .dst = to_device ? buffer : NULL,
        .src = to_device ? NULL : buffer,
        .dst_offset = to_device ? from : 0,
        .src_offset = to_device ? 0 : from,
        .host = memory,
        .bytes = bytes,
        .rows = 1,
    };
    tn_status status = h->plugin->copy(h->queue, &copy);
    tn_fault fault = {.size = sizeof fault};
    tn_status done = h->plugin->queue_sync(h->queue, &fault);
    return status != TN_OK ? status : done;
}
