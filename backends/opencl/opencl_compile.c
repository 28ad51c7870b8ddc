/* opencl_compile.c: builds an OpenCL program from the source of a kernel.
 * Binaries are stored in the core's disk cache. */
#include <stdio.h>
#include <stdlib.h>

#include "opencl.h"

/* ---- failures ------------------------------------------------------------ */

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

static tn_status build_failed(const tn_build *build,
                              const tn_plugin_device *device,
                              cl_program program, cl_int error)
{
    char compiler[96];
    char *log = program ? build_log(device, program) : NULL;
    snprintf(compiler, sizeof compiler, "clBuildProgram: %s",
             tn__opencl_error_name(error));
    tn_status status = tn__build_failed(build, compiler, log);
    free(log);
    return status;
}

/* ---- binaries ------------------------------------------------------------ */

void tn__opencl_cache_head(const tn_plugin_device *device, char *out,
                           size_t out_bytes)
{
    const tn_opencl_listed *l = device->listed;
    snprintf(out, out_bytes, "opencl 2\n%s\n%s\n%s\n%s\n%s\n", l->platform_name,
             l->device_name, l->device_version, l->driver_version,
             device->options);
}

typedef struct building {
    tn_build build;
    const tn_plugin_device *device;
    cl_program program; /* the built program */
} building;

/* Loads a binary from the disk cache as a program. Returns 1 on success, or 0
 * if the driver rejects the binary. */
static uint32_t binary_load(void *context, const void *value, uint64_t bytes)
{
    building *b = context;
    cl_device_id id = b->device->listed->device;
    const unsigned char *binary = value;
    size_t length = (size_t)bytes;
    cl_int state, error;
    cl_program program = cl.CreateProgramWithBinary(
        b->device->context, 1, &id, &length, &binary, &state, &error);
    if (error)
        return 0;
    if (state ||
        cl.BuildProgram(program, 1, &id, b->device->options, NULL, NULL)) {
        cl.ReleaseProgram(program);
        return 0;
    }
    b->program = program;
    return 1;
}

/* Reads the binary of a program from the driver. *out stays empty if the driver
 * does not return one. */
static void binary_read(cl_program program, tn_binary *out)
{
    size_t bytes = 0;
    if (cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes,
                          &bytes, NULL) ||
        !bytes)
        return;
    unsigned char *binary = malloc(bytes);
    if (binary && !cl.GetProgramInfo(program, CL_PROGRAM_BINARIES,
                                     sizeof binary, &binary, NULL))
        *out = (tn_binary){binary, bytes};
    else
        free(binary);
}

/* ---- compiling ----------------------------------------------------------- */

static tn_status compile_text(void *context, tn_binary *binary)
{
    building *b = context;
    cl_int error;
    cl_device_id id = b->device->listed->device;
    const char *text = b->build.source->text;
    size_t length = (size_t)b->build.source->text_bytes;
    cl_program program = cl.CreateProgramWithSource(b->device->context, 1,
                                                    &text, &length, &error);
    if (!error)
        error =
            cl.BuildProgram(program, 1, &id, b->device->options, NULL, NULL);
    if (!error) {
        b->program = program;
        if (binary)
            binary_read(program, binary);
        return TN_OK;
    }
    tn_status status = build_failed(&b->build, b->device, program, error);
    if (program)
        cl.ReleaseProgram(program);
    return status;
}

/* Acquires a lock for this source that only one process can hold. Drivers have
 * caches of their own, and some fail if two processes compile the same program.
 * PoCL before 6.0 removes a cache file before it writes the file again, so
 * another process may read an incomplete cache. */
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
    char head[TN_OPENCL_HEAD];
    building b = {.build = {.plugin = "opencl",
                            .suffix = ".cl",
                            .device_name = device->listed->info.name,
                            .key_head = head,
                            .source = source,
                            .load = binary_load,
                            .compile = compile_text,
                            .context = &b},
                  .device = device};
    tn__opencl_cache_head(device, head, sizeof head);
    int32_t hold = tn__opencl_text_lock(source);
    tn_status status = tn__build(&b.build);
    tn__opencl_text_unlock(hold);
    *out = b.program;
    return status;
}
