/* host.c: the host table, which contains the functions that the core offers to
 * plugins.
 *
 * A host function has no argument that says which plugin calls it, but the
 * options of a device belong to one plugin. So each plugin gets its own
 * function `option`, from an array of small functions that differ only in the
 * plugin's index. */
#include <device/cache.h>
#include <device/registry.h>

#include <base/memory.h>
#include <base/plain.h>
#include <base/platform.h>
#include <base/thread.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static tn_status host_fail(tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    /* The program's error handler must not run here: the core rewords this
     * error or drops it after the plugin's function returns. */
    tn__handler_mute();
    tn__fail_va(code, format, args);
    tn__handler_unmute();
    va_end(args);
    return code;
}

static void host_log(int level, const char *format, ...)
{
    if (!tn__log_enabled(level))
        return;
    char line[TN__ERROR_BYTES];
    va_list args;
    va_start(args, format);
    tn__plain_vprint(line, sizeof line, format, args);
    va_end(args);
    tn__log(level, "%s", line);
}

static _Atomic(tn__host_interpret *) interpreter;

void tn__host_set_interpret(tn__host_interpret *interpret)
{
    atomic_store(&interpreter, interpret);
}

static tn_status host_interpret(const tn_program *program,
                                const tn_launch *launch, void *const *memory,
                                tn_fault *fault)
{
    tn__host_interpret *interpret = atomic_load(&interpreter);
    if (!interpret)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "the host has no interpreter of programs");
    if (program->size < TN_PROGRAM_SIZE_1_0 ||
        launch->size < TN_LAUNCH_SIZE_1_0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "interpret: tn_program.size is %u and tn_launch.size "
                        "%u; expected at least %u and %u; set them to "
                        "sizeof(tn_program) and sizeof(tn_launch)",
                        program->size, launch->size, TN_PROGRAM_SIZE_1_0,
                        TN_LAUNCH_SIZE_1_0);
    return interpret(program, launch, memory, fault);
}

static const tn_host *_Atomic source;

void tn__host_set_source(const tn_host *functions)
{
    atomic_store(&source, functions);
}

static const void *host_extension(const char *name, uint32_t version)
{
    (void)name;
    (void)version;
    return NULL; /* ABI 1.0 has no host extensions */
}

const char *tn__option_value(const tn__plugin *plugin, const char *key)
{
    for (tn__option *o = atomic_load(&plugin->options); o; o = o->next)
        if (!strcmp(o->key, key))
            return o->value;
    return NULL;
}

/* Returns the value of option `key` of plugin i: the value that was set for the
 * plugin, else the value of the environment variable TENON_<PLUGIN>_<KEY>.
 * TENON_DETERMINISTIC sets `deterministic` of all plugins. */
static const char *option_of(int i, const char *key)
{
    const tn__plugin *plugin = tn__registry_at(i);
    const char *value = tn__option_value(plugin, key);
    if (value)
        return value;
    char name[128];
    int length = snprintf(name, sizeof name, "TENON_%s_%s", plugin->name, key);
    if (length < 0 || (size_t)length >= sizeof name)
        return NULL;
    for (char *c = name; *c; c++)
        *c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c)
                                        : '_';
    value = tn__env(name);
    if (!value && strcmp(key, "deterministic") == 0)
        value = tn__env("TENON_DETERMINISTIC");
    return value;
}

bool tn__option_set(tn__plugin *plugin, const char *key, const char *value)
{
    tn__option *option = tn__calloc(1, sizeof *option);
    char *key_copy = tn__strdup(key), *value_copy = tn__strdup(value);
    if (!option || !key_copy || !value_copy) {
        tn__free(option);
        tn__free(key_copy);
        tn__free(value_copy);
        return false;
    }
    *option = (tn__option){atomic_load(&plugin->options), key_copy,
                           value_copy};
    atomic_store(&plugin->options, option);
    return true;
}

#define EACH(X)                                                               \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)       \
    X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24)   \
    X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define OPTION(i)                                                             \
    static const char *option_##i(const char *key)                           \
    {                                                                         \
        return option_of(i, key);                                             \
    }
EACH(OPTION)
#define NAME(i) option_##i,
static const char *(*const options[])(const char *key) = {EACH(NAME)};
_Static_assert(sizeof options / sizeof *options == TN__MAX_PLUGINS,
               "one option function for each plugin");

void tn__host_fill(tn__plugin *plugin, int i)
{
    plugin->host = (tn_host){
        .size = sizeof(tn_host),
        .abi_major = TN_ABI_MAJOR,
        .abi_minor = TN_ABI_MINOR,
        .plugin_path = plugin->path,
        .fail = host_fail,
        .log = host_log,
        .parallel_for = tn__parallel_for,
        .interpret = host_interpret,
        .option = options[i],
        .extension = host_extension,
        .cache_read = tn__cache_read,
        .cache_write = tn__cache_write,
        .cache_hold = tn__cache_hold,
        .cache_release = tn__cache_release,
    };
    const tn_host *printer = atomic_load(&source);
    if (!printer)
        return;
    plugin->host.plan_program = printer->plan_program;
    plugin->host.plan_matmul = printer->plan_matmul;
    plugin->host.plan_scatter = printer->plan_scatter;
    plugin->host.plan_scan = printer->plan_scan;
    plugin->host.plan_sort = printer->plan_sort;
    plugin->host.print = printer->print;
    plugin->host.print_free = printer->print_free;
    plugin->host.fault_read = printer->fault_read;
    plugin->host.plan_attention = printer->plan_attention;
    plugin->host.plan_conv = printer->plan_conv;
    plugin->host.print_text = printer->print_text;
}
