/* modes.h: compares what a program computes under process-wide settings that must
 * not change results: a locale with a decimal comma, a rounding mode, flushing of
 * subnormals, the umask. Each is set in a process of its own before the first
 * call. A test calls test_modes with a function that computes, and that passes
 * its results to record_bytes, record_text and record_tensor. Every process must add the
 * same. (tests/training/local.mk builds the locale.) */
#ifndef TN_TESTS_MODES_H
#define TN_TESTS_MODES_H

#include <tenon/tenon.h>

#include <fenv.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fpu.h"
#include "tap.h"

typedef struct result {
    const char *what;
    uint64_t hash;
} result;

enum { MOST = 40 };
static result results[MOST];
static int record_count;
static char scratch_file[64]; /* of a file that the function may write */

static inline void record_bytes(const char *what, const void *bytes, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    results[record_count++] = (result){what, hash};
}

static inline void record_text(const char *what, const char *text)
{
    record_bytes(what, text ? text : "", text ? strlen(text) : 0);
}

static inline void record_tensor(const char *what, tn_tensor *x)
{
    float value[4096];
    const int64_t n = tn_tensor_numel(x);
    if (n > 4096 || tn_tensor_to_array(tn_to_dtype(x, TN_F32), value,
                                       (size_t)n * sizeof *value) < 0)
        record_text(what, tn_error());
    else
        record_bytes(what, value, (size_t)n * sizeof *value);
}

static inline void record_file(const char *what)
{
    static char bytes[1 << 20];
    FILE *file = fopen(scratch_file, "rb");
    const size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    record_bytes(what, bytes, n);
    if (file)
        fclose(file);
}

static inline void write_file(const char *text)
{
    FILE *file = fopen(scratch_file, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

/* ---- settings ------------------------------------------------------------ */

static void plain(void) {}
static void comma(void)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/tests/locale",
             getenv("top_builddir") ? getenv("top_builddir") : ".");
    setenv("LOCPATH", folder, 1);
    if (!setlocale(LC_ALL, "de_DE.UTF-8") ||
        strcmp(localeconv()->decimal_point, ",") != 0)
        _exit(7);
}
static void upward(void) { fesetround(FE_UPWARD); }
static void downward(void) { fesetround(FE_DOWNWARD); }
static void toward_zero(void) { fesetround(FE_TOWARDZERO); }
static void flush(void)
{
#if defined(__x86_64__)
    tn__fpu_restore(tn__fpu_read() | 0x8040); /* sets the bits FTZ and DAZ */
#elif defined(__aarch64__)
    tn__fpu_restore(tn__fpu_read() | 1u << 24);
#endif
}
static void closed(void) { umask(077); }

static const struct {
    const char *name;
    void (*set)(void);
} modes[] = {{"a plain process", plain}, {"a decimal comma", comma},
             {"rounding upward", upward}, {"rounding downward", downward},
             {"rounding toward zero", toward_zero},
             {"subnormals switched off", flush}, {"another umask", closed}};
enum { MODES = sizeof modes / sizeof *modes };

/* Returns the results with this setting, from a process of its own. */
static inline int in_mode(int mode, void (*compute)(void), result *out)
{
    int ends[2], status = -1;
    if (pipe(ends))
        bail_out("no pipe");
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        modes[mode].set();
        const int round = fegetround();
        tn_manual_seed(7);
        compute();
        if (tn_error())
            fprintf(stderr, "# %s: %s\n", modes[mode].name, tn_error());
        if (fegetround() != round || record_count > MOST)
            _exit(8);
        const ssize_t n = write(ends[1], results, sizeof results);
        _exit(n == sizeof results && !tn_error() ? 0 : 9);
    }
    close(ends[1]);
    const bool whole =
        read(ends[0], out, sizeof results) == (ssize_t)sizeof results;
    close(ends[0]);
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return whole || code ? code : 10;
}

static inline void compare(int mode, const result *got, const result *wanted)
{
    char differs[600] = "";
    size_t at = 0;
    for (int i = 0; i < MOST && wanted[i].what; i++)
        if (got[i].hash != wanted[i].hash && at + 60 < sizeof differs)
            at += (size_t)snprintf(differs + at, sizeof differs - at, "%s%s",
                                   at ? ", " : "", wanted[i].what);
    is_str(differs, "", "%s changes nothing", modes[mode].name);
}

static inline void test_modes(void (*compute)(void))
{
    result wanted[MOST], got[MOST];
    snprintf(scratch_file, sizeof scratch_file, "/tmp/tenon-modes.%ld", (long)getpid());
    is_int(in_mode(0, compute, wanted), 0, "a plain process computes all of it");
    for (int m = 1; m < MODES; m++) {
        const int status = in_mode(m, compute, got);
        if (status == 7)
            skip(1, "the locale de_DE.UTF-8 is not available");
        else if (is_int(status, 0, "%s: every result was computed",
                        modes[m].name))
            compare(m, got, wanted);
    }
    unlink(scratch_file);
}

#endif
