/* build_source.c: builds a kernel from its source: loads the binary from the
 * disk cache, or calls the driver's compiler. If a source does not compile,
 * records an error and saves the source. */
#include "shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds_since(const struct timespec *begun)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begun->tv_sec) +
           (double)(now.tv_nsec - begun->tv_nsec) * 1e-9;
}

tn_status tn__build(const tn_build *b)
{
    struct timespec begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    size_t key_bytes = 0;
    char *key = tn__cache_key(b->key_head, b->source->text,
                              b->source->text_bytes, &key_bytes);
    tn_binary binary = {.bytes = NULL};
    tn_status status = TN_OK;
    bool cached =
        key && tn__host->cache_read(key, key_bytes, b->load, b->context);
    if (!cached)
        status = b->compile(b->context, key ? &binary : NULL);
    if (!status && binary.bytes)
        tn__host->cache_write(key, key_bytes, binary.bytes, binary.count);
    free(binary.bytes);
    free(key);
    if (!status)
        tn__host->log(3, "%s: %s: %s in %.1f ms", b->plugin, b->source->kernel,
                      cached ? "read" : "compiled",
                      1e3 * seconds_since(&begun));
    return status;
}

/* Saves the source, followed by the compiler's output, to a file, so that a
 * user can report the failure. Writes the file's path to path, or "" if the
 * file cannot be created. */
static void source_save(char *path, size_t path_bytes, const tn_build *b,
                        const char *log)
{
    const char *folder = getenv("TMPDIR");
    int length = snprintf(path, path_bytes, "%s/tenon-%s-XXXXXX%s",
                          folder && *folder == '/' ? folder : "/tmp", b->plugin,
                          b->suffix);
    int fd = length > 0 && (size_t)length < path_bytes
                 ? mkstemps(path, (int)strlen(b->suffix))
                 : -1;
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        if (fd >= 0)
            close(fd);
        path[0] = 0;
        return;
    }
    fprintf(file, "%s\n/* %s */\n", b->source->text, log);
    fclose(file);
}

/* Returns the line of a compiler's output that best describes an error: the
 * first line with "error:", otherwise the first with "error", otherwise the
 * first line. */
static const char *first_error(const char *log)
{
    const char *line = strstr(log, "error:");
    if (!line)
        line = strstr(log, "error");
    if (!line)
        line = log;
    while (line > log && line[-1] != '\n')
        line--;
    return line + strspn(line, " \t\r\n");
}

tn_status tn__build_failed(const tn_build *b, const char *compiler,
                           const char *log)
{
    char path[512];
    if (!log || !*log)
        log = "the compiler gives no output";
    const char *line = first_error(log);
    source_save(path, sizeof path, b, log);
    tn__host->log(1, "%s: building %s for %s: %s", b->plugin, b->source->kernel,
                  b->device_name, log);
    return tn__host->fail(
        TN_ERR_BUILD, "%s: %.*s%s%s", compiler, (int)strcspn(line, "\r\n"),
        line, *path ? "; the source and the compiler's output are in " : "",
        path);
}
