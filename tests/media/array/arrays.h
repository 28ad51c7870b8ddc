/* arrays.h: functions that the tests of arrays share. */
#ifndef TN_TESTS_MEDIA_ARRAYS_H
#define TN_TESTS_MEDIA_ARRAYS_H

#include <sys/stat.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "../../tap.h"

/* A folder for the files of a test, which is removed at its end. */
static char folder[64];

static inline void remove_folder(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (*folder && system(command) != 0)
        note("%s remains", folder);
}

static inline void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/tenon-arrays.XXXXXX");
    if (!mkdtemp(folder))
        bail_out("no temporary folder");
    atexit(remove_folder);
}

/* Returns the path of a file in the folder, in memory of its own. */
static inline const char *in_folder(const char *name)
{
    static char path[8][256];
    static int next;
    char *at = path[next++ % 8];
    snprintf(at, sizeof path[0], "%s/%s", folder, name);
    return at;
}

/* Returns the folder in which the files of make_arrays.py are unpacked. */
static inline const char *golden(const char *name)
{
    static char path[8][1024];
    static int next;
    char *at = path[next++ % 8];
    const char *build = getenv("top_builddir");
    snprintf(at, sizeof path[0], "%s/tests/media/array/arrays/%s",
             build ? build : ".", name);
    return at;
}

static inline char *read_all(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || fstat(fileno(file), &info) < 0)
        bail_out("cannot read %s", path);
    char *data = malloc((size_t)info.st_size + 1);
    if (!data)
        bail_out("no memory");
    *bytes = fread(data, 1, (size_t)info.st_size, file);
    data[*bytes] = 0;
    fclose(file);
    return data;
}

static inline void write_all(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes)
        bail_out("cannot write %s", path);
    fclose(file);
}

/* Checks that the pending error has the code and a part of its message, and
 * clears it. */
#define refused(code, part, ...)                                               \
    refused_at(TAP_HERE, code, part, __VA_ARGS__)
TAP_PRINTF(5, 6)
static inline bool refused_at(const char *file, int line, tn_status code,
                              const char *part, const char *format, ...)
{
    const char *message = tn_error();
    const bool fine = message && tn_error_code() == code &&
                      strstr(message, part) && !strchr(message, '\n');
    va_list args;
    va_start(args, format);
    tap_result(fine, file, line, part, format, args);
    va_end(args);
    if (!fine)
        note("%s: %s", tn_status_name(tn_error_code()),
             message ? message : "(no error)");
    tn_error_clear();
    return fine;
}

#endif
