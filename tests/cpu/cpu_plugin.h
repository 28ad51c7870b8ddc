/* cpu_plugin.h: opens the CPU plugin directly, without libtenon, with a chosen
 * instruction set, for the tests of this folder. */
#ifndef TN_TESTS_CPU_PLUGIN_H
#define TN_TESTS_CPU_PLUGIN_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "base/thread.h"
#include <tenon/base.h>
#include <tenon/plugin.h>

static const char *chosen_isa; /* the value of option("isa") */
static const char *chosen_stream;
static const char *chosen_winograd;
static _Thread_local char failure[512];

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

static const char *host_option(const char *key)
{
    return strcmp(key, "isa") == 0        ? chosen_isa
           : strcmp(key, "stream") == 0   ? chosen_stream
           : strcmp(key, "winograd") == 0 ? chosen_winograd
                                          : NULL;
}

static const tn_host host = {
    .size = sizeof host,
    .abi_major = TN_ABI_MAJOR,
    .abi_minor = TN_ABI_MINOR,
    .plugin_path = "",
    .fail = host_fail,
    .log = host_log,
    .parallel_for = tn__parallel_for,
    .option = host_option,
};

static const tn_plugin *cpu; /* the plugin's function table */
static tn_plugin_device *device;
static tn_queue *queue;

static void plugin_load(void)
{
    char path[4096];
    const char *folder = getenv("TENON_PLUGIN_PATH");
    snprintf(path, sizeof path, "%s/tn_cpu.so", folder ? folder : ".");
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const tn_plugin *(*entry)(const tn_host *) = NULL;
    if (file)
        *(void **)&entry = dlsym(file, "tenon_plugin_v1");
    cpu = entry ? entry(&host) : NULL;
    if (!cpu)
        bail_out("%s", file ? failure : dlerror());
}

/* Opens the plugin. Returns false if this machine lacks the instruction set. */
static bool plugin_open(const char *isa)
{
    chosen_isa = isa;
    if (cpu->device_open(0, &device) != TN_OK)
        return false;
    if (cpu->queue_open(device, &queue) != TN_OK)
        bail_out("%s", failure);
    return true;
}

static void plugin_close(void)
{
    cpu->queue_close(queue);
    cpu->device_close(device);
}

/* Calls `test` for each instruction set, twice for those with a JIT compiler.
 * The plugin is opened alternately with 3 threads and with 1 thread. With 1
 * thread all stores are non-temporal. If `closes` is set, closes the plugin
 * after each call. */
enum { TURNS = 7 };

static inline void plugin_turns(void (*test)(const char *isa, int threads),
                                bool closes)
{
    static const char *const isas[TURNS] = {
        "generic", "v3-nojit", "v3", "v3", "v4-nojit", "v4", "v4"};
    for (int i = 0; i < TURNS; i++) {
        const int threads = i % 2 ? 1 : 3;
        chosen_stream = i % 2 ? "0" : NULL;
        if (!plugin_open(isas[i])) {
            skip(1, failure);
            continue;
        }
        tn_set_num_threads(threads);
        test(isas[i], threads);
        if (closes)
            plugin_close();
    }
    chosen_stream = NULL;
}

static inline void plugin_each(void (*test)(const char *isa, int threads))
{
    plugin_turns(test, true);
}

/* Allocates a buffer of the device and stores the address of its memory. */
static tn_buffer *buffer_new(size_t bytes, void *pointer)
{
    tn_buffer *buffer;
    void *memory;
    if (cpu->buffer_alloc(device, bytes, &buffer) != TN_OK ||
        cpu->buffer_map(device, buffer, &memory) != TN_OK)
        bail_out("%s", failure);
    memcpy(pointer, &memory, sizeof memory);
    return buffer;
}

static void buffer_drop(tn_buffer *buffer)
{
    cpu->buffer_free(device, buffer);
}

/* Pseudo-random numbers (splitmix64: Steele, Lea, Flood 2014). */
static uint64_t random_state;

static uint64_t random_bits(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static int64_t random_below(int64_t bound)
{
    return (int64_t)(random_bits() % (uint64_t)bound);
}

#endif
