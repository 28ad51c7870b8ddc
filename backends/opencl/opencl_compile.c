/* opencl_compile.c: from a text to a program, through the core's disk cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "opencl.h"

/* ---- failures ----------------------------------------------------------- */

static char *build_log(const tn_plugin_device *device, cl_program program)
{
    size_t bytes = 0;
    cl_device_id id = device->listed->device;
    if (cl.GetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, 0, NULL,
                               &bytes))
        return NULL;
    char *log = calloc(1, bytes + 1);
    if (log && cl.GetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, bytes,
                                      log, NULL))
        log[0] = 0;
    return log;
}

/* The text, and under it what the compiler said, in a file that is left for
 * whoever reports it; "" if there is no place for one. */
static void source_save(char *path, size_t room, const tn_source *source,
                        const char *log)
{
    const char *folder = getenv("TMPDIR");
    int length = snprintf(path, room, "%s/tenon-opencl-XXXXXX.cl",
                          folder && *folder == '/' ? folder : "/tmp");
    int fd = length > 0 && (size_t)length < room ? mkstemps(path, 3) : -1;
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        if (fd >= 0)
            close(fd);
        path[0] = 0;
        return;
    }
    fprintf(file, "%s\n/* %s */\n", source->text, log);
    fclose(file);
}

/* Each word of the first line that speaks of an error; else the first. */
static const char *first_error(const char *log)
{
    const char *error = strstr(log, "error:");
    const char *line = error ? error : log;
    while (line > log && line[-1] != '\n')
        line--;
    return line + strspn(line, " \t\r\n");
}

static tn_status build_failed(const tn_plugin_device *device,
                              cl_program program, const tn_source *source,
                              cl_int error)
{
    char path[512];
    char *log = program ? build_log(device, program) : NULL;
    const char *words = log && *log ? log : "the compiler says nothing";
    const char *line = first_error(words);
    source_save(path, sizeof path, source, words);
    tn__host->log(1, "opencl: building %s for %s: %s", source->kernel,
                  device->listed->info.name, words);
    tn_status status = tn__host->fail(
        TN_ERR_BUILD, "clBuildProgram: %s: %.*s%s%s",
        tn__opencl_error_name(error), (int)strcspn(line, "\r\n"), line,
        *path ? "; the program and what the compiler says of it are in " : "",
        path);
    free(log);
    return status;
}

/* ---- the cache ---------------------------------------------------------- */

/* All that a binary depends on. */
char *tn__opencl_cache_key(const tn_plugin_device *device,
                           const tn_source *source, size_t *bytes)
{
    const tn_opencl_listed *l = device->listed;
    static const char form[] = "opencl 2\n%s\n%s\n%s\n%s\n%s\n";
    int head = snprintf(NULL, 0, form, l->platform_name, l->device_name,
                        l->device_version, l->driver_version, device->options);
    *bytes = (size_t)head + (size_t)source->text_bytes;
    char *key = malloc(*bytes + 1);
    if (key) {
        snprintf(key, (size_t)head + 1, form, l->platform_name, l->device_name,
                 l->device_version, l->driver_version, device->options);
        memcpy(key + head, source->text, (size_t)source->text_bytes);
    }
    return key;
}

typedef struct reload {
    const tn_plugin_device *device;
    cl_program program;
} reload;

/* The stored binary as a program; 0: the driver does not want it. */
static uint32_t binary_load(void *context, const void *value, uint64_t bytes)
{
    reload *r = context;
    cl_device_id id = r->device->listed->device;
    const unsigned char *binary = value;
    size_t length = (size_t)bytes;
    cl_int state, error;
    cl_program program = cl.CreateProgramWithBinary(
        r->device->context, 1, &id, &length, &binary, &state, &error);
    if (error)
        return 0;
    if (state ||
        cl.BuildProgram(program, 1, &id, r->device->options, NULL, NULL)) {
        cl.ReleaseProgram(program);
        return 0;
    }
    r->program = program;
    return 1;
}

static void binary_store(const char *key, size_t key_bytes, cl_program program)
{
    size_t bytes = 0;
    if (cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes,
                          &bytes, NULL) ||
        !bytes)
        return;
    unsigned char *binary = malloc(bytes);
    if (binary && !cl.GetProgramInfo(program, CL_PROGRAM_BINARIES,
                                     sizeof binary, &binary, NULL))
        tn__host->cache_write(key, key_bytes, binary, bytes);
    free(binary);
}

/* ---- both --------------------------------------------------------------- */

static double seconds_since(const struct timespec *begun)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begun->tv_sec) +
           (double)(now.tv_nsec - begun->tv_nsec) * 1e-9;
}

static tn_status compile_text(const tn_plugin_device *device,
                              const tn_source *source, cl_program *out)
{
    cl_int error;
    cl_device_id id = device->listed->device;
    const char *text = source->text;
    size_t length = (size_t)source->text_bytes;
    cl_program program = cl.CreateProgramWithSource(device->context, 1, &text,
                                                    &length, &error);
    if (!error)
        error = cl.BuildProgram(program, 1, &id, device->options, NULL, NULL);
    if (!error) {
        *out = program;
        return TN_OK;
    }
    tn_status status = build_failed(device, program, source, error);
    if (program)
        cl.ReleaseProgram(program);
    return status;
}

/* Drivers keep caches of their own, and not every
 * one bears two compilers of the same program: PoCL before 6.0 writes a file
 * of its anew by removing it first, so that the other process reads none and
 * fails, or keeps a binary that lacks it. */
int32_t tn__opencl_text_lock(const tn_source *source)
{
    return TN_HAS(tn_host, tn__host, cache_release)
               ? tn__host->cache_hold(source->text,
                                      (uint64_t)source->text_bytes)
               : -1;
}

void tn__opencl_text_unlock(int32_t hold)
{
    if (hold >= 0)
        tn__host->cache_release(hold);
}

tn_status tn__opencl_compile(const tn_plugin_device *device,
                             const tn_source *source, cl_program *out)
{
    struct timespec begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    int32_t hold = tn__opencl_text_lock(source);
    size_t key_bytes = 0;
    char *key = TN_HAS(tn_host, tn__host, cache_write) && tn__host->cache_read
                    ? tn__opencl_cache_key(device, source, &key_bytes)
                    : NULL;
    reload r = {.device = device};
    bool kept = key && tn__host->cache_read(key, key_bytes, binary_load, &r);
    tn_status status = TN_OK;
    if (kept)
        *out = r.program;
    else
        status = compile_text(device, source, out);
    if (!status && !kept && key)
        binary_store(key, key_bytes, *out);
    tn__opencl_text_unlock(hold);
    free(key);
    if (!status)
        tn__host->log(3, "opencl: %s: %s in %.1f ms", source->kernel,
                      kept ? "read" : "compiled", 1e3 * seconds_since(&begun));
    return status;
}
