/* tap.h: checks for test programs, reported in the Test Anything Protocol.
 *
 *   int main(void)
 *   {
 *       plan_later();
 *       is_int(tn_dtype_size(TN_F16), 2, "a half takes two bytes");
 *       ok(tn_error() == NULL, "no error is pending");
 *       return done_testing();
 *   }
 *
 * A description states the fact that holds when the check passes. Each check
 * returns whether it passed. A failed check prints its file and line and the
 * values, and the program goes on:
 *
 *   not ok 1 - a half takes two bytes
 *   #   at tests/base/test_dtype.c:12: tn_dtype_size(TN_F16)
 *   # got 4, want 2
 *
 * The checks are macros, which receive the file and line. They evaluate each
 * argument once. done_testing prints the number of checks, so there is no plan
 * to update when a check is added. Call them from one thread. */
#ifndef TN_TESTS_TAP_H
#define TN_TESTS_TAP_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAP_PRINTF(f, a) __attribute__((format(printf, f, a)))

static int tap_count, tap_failed;

/* The arguments that a check's macro adds: file and line. */
#define TAP_HERE __FILE__, __LINE__

/* Prints file and line, with the path from the source folder. __FILE__ may be a
 * path from the build folder (../tests/ops/test_x.c) or an absolute one. text:
 * the checked expression, or NULL. */
static inline void tap_print_place(const char *file, int line, const char *text)
{
    const char *path = file;
    for (const char *p = file; (p = strstr(p, "tests/")); p++)
        if (p == file || p[-1] == '/')
            path = p;
    printf("#   at %s:%d%s%s\n", path, line, text ? ": " : "",
           text ? text : "");
}

/* Ends the program. For cases in which later checks would be meaningless. */
#define bail_out(...)                                                          \
    (tap_print_place(TAP_HERE, NULL), tap_bail_out(__VA_ARGS__))
TAP_PRINTF(1, 2)
__attribute__((noreturn)) static inline void tap_bail_out(const char *format,
                                                          ...)
{
    va_list args;
    va_start(args, format);
    fputs("Bail out! ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    fflush(stdout);
    exit(99);
}

/* Without `make all` there is no plugin, and every check would fail. Bails out
 * with one line instead. */
static inline void tap_find_plugin(void)
{
    const char *folder = getenv("TENON_PLUGIN_PATH");
    const char *device = getenv("TENON_DEVICE");
    if (!folder || strchr(folder, ':') || !device || strcmp(device, "cpu") != 0)
        return;
    char path[4096];
    snprintf(path, sizeof path, "%s/tn_cpu.so", folder);
    FILE *plugin = fopen(path, "rb");
    if (!plugin)
        tap_bail_out("no plugin %s: run `make` first", path);
    fclose(plugin);
}

/* Opens the output. It is line-buffered, so that it is complete up to a crash.
 * done_testing prints the plan. */
static inline void plan_later(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap_count = tap_failed = 0;
    tap_find_plugin();
}

/* Returns whether this process runs a case. TENON_TEST_PART=2/8 makes it the
 * second of eight processes that share the cases of a long program. By default
 * it runs all of them. */
static inline bool in_part(long number)
{
    const char *part = getenv("TENON_TEST_PART");
    long which, of;
    char rest;
    if (!part)
        return true;
    if (sscanf(part, "%ld/%ld%c", &which, &of, &rest) != 2 || which < 1 ||
        which > of)
        tap_bail_out("TENON_TEST_PART=%s is not of the form 2/8", part);
    return number % of == which - 1;
}

/* Prints a line of explanation into the test's log. */
TAP_PRINTF(1, 2) static inline void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("# ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

/* Prints a description: one line without '#', which TAP reserves for
 * directives. */
static inline void tap_print_name(const char *format, va_list args)
{
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    for (const char *c = text; *c; c++) {
        if (*c == '\n')
            fputs("\\n", stdout);
        else if (*c == '#')
            fputs("\\#", stdout);
        else
            putchar(*c);
    }
}

/* Prints the result of a check and, if it failed, file and line. The macros
 * below pass the text of the checked expression. */
static inline bool tap_result(bool passed, const char *file, int line,
                              const char *text, const char *format,
                              va_list args)
{
    printf("%sok %d - ", passed ? "" : "not ", ++tap_count);
    tap_print_name(format, args);
    putchar('\n');
    if (!passed) {
        tap_failed++;
        tap_print_place(file, line, text);
    }
    return passed;
}

/* Passes if condition holds. */
#define ok(condition, ...)                                                     \
    tap_ok(TAP_HERE, #condition, (condition), __VA_ARGS__)
TAP_PRINTF(5, 6)
static inline bool tap_ok(const char *file, int line, const char *text,
                          bool condition, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tap_result(condition, file, line, text, format, args);
    va_end(args);
    return condition;
}

/* Passes if two integers are equal. */
#define is_int(got, want, ...)                                                 \
    tap_is_int(TAP_HERE, #got, (got), (want), __VA_ARGS__)
TAP_PRINTF(6, 7)
static inline bool tap_is_int(const char *file, int line, const char *text,
                              int64_t got, int64_t want, const char *format,
                              ...)
{
    va_list args;
    va_start(args, format);
    bool passed = tap_result(got == want, file, line, text, format, args);
    va_end(args);
    if (!passed)
        note("got %" PRId64 ", want %" PRId64, got, want);
    return passed;
}

/* Passes if two strings are equal. NULL equals only NULL. */
#define is_str(got, want, ...)                                                 \
    tap_is_str(TAP_HERE, #got, (got), (want), __VA_ARGS__)
TAP_PRINTF(6, 7)
static inline bool tap_is_str(const char *file, int line, const char *text,
                              const char *got, const char *want,
                              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool same = got && want ? strcmp(got, want) == 0 : got == want;
    tap_result(same, file, line, text, format, args);
    va_end(args);
    if (!same) {
        note("got  %s", got ? got : "(NULL)");
        note("want %s", want ? want : "(NULL)");
    }
    return same;
}

/* Passes if |got - want| <= tolerance, if both are NaN, or if both are the same
 * infinity. */
#define is_double_near(got, want, tolerance, ...)                              \
    tap_is_double_near(TAP_HERE, #got, (got), (want), (tolerance), __VA_ARGS__)
TAP_PRINTF(7, 8)
static inline bool tap_is_double_near(const char *file, int line,
                                      const char *text, double got, double want,
                                      double tolerance, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool near = isnan(want)   ? isnan(got)
                : isinf(want) ? isinf(got) && signbit(got) == signbit(want)
                              : fabs(got - want) <= tolerance;
    tap_result(near, file, line, text, format, args);
    va_end(args);
    if (!near)
        note("got %.17g, want %.17g within %g", got, want, tolerance);
    return near;
}

/* Reports `count` checks that cannot run, and the reason. */
static inline void skip(int count, const char *why)
{
    for (int i = 0; i < count; i++)
        printf("ok %d # SKIP %s\n", ++tap_count, why);
}

/* Prints the number of checks. Returns the exit status of the program. */
static inline int done_testing(void)
{
    printf("1..%d\n", tap_count);
    fflush(stdout);
    return tap_failed != 0;
}

#endif
