/* tap.h: what a test program says, in the Test Anything Protocol.
 *
 *   int main(void)
 *   {
 *       plan_later();
 *       is_int(tn_dtype_size(TN_F16), 2, "a half takes two bytes");
 *       ok(tn_error() == NULL, "no error is pending");
 *       return done_testing();
 *   }
 *
 * A description states the fact that holds when the test passes. Every check
 * returns whether it passed; a failed one prints what it got and wanted, and
 * the program goes on. Everything after plan_later counts by itself, so tests
 * may be added without a plan to keep level. Call from one thread.
 */
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

/* Ends the program: nothing after this point would mean anything. */
TAP_PRINTF(1, 2)
__attribute__((noreturn)) static inline void bail_out(const char *format, ...)
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

/* A test that runs before `make all` has no device to run on: one line says so,
 * instead of as many failures as there are checks. */
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
        bail_out("no plugin %s: run `make` first", path);
    fclose(plugin);
}

/* Opens the output; the number of tests is told by done_testing. Unbuffered
 * lines: what was printed before a crash is seen. */
static inline void plan_later(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap_count = tap_failed = 0;
    tap_find_plugin();
}

/* Whether a case is for this process: TENON_TEST_PART=2/8 is the second of eight
 * processes that share the cases of a long program. All are, by default. */
static inline bool in_part(long number)
{
    const char *part = getenv("TENON_TEST_PART");
    long which, of;
    char rest;
    if (!part)
        return true;
    if (sscanf(part, "%ld/%ld%c", &which, &of, &rest) != 2 || which < 1 ||
        which > of)
        bail_out("TENON_TEST_PART=%s is not like 2/8", part);
    return number % of == which - 1;
}

/* A line of explanation, shown in the log of the test. */
TAP_PRINTF(1, 2) static inline void note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("# ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

/* A description is one line without '#', which TAP keeps for directives. */
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

static inline bool tap_result(bool passed, const char *format, va_list args)
{
    printf("%sok %d - ", passed ? "" : "not ", ++tap_count);
    tap_print_name(format, args);
    putchar('\n');
    if (!passed)
        tap_failed++;
    return passed;
}

/* True when condition holds. */
TAP_PRINTF(2, 3)
static inline bool ok(bool condition, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tap_result(condition, format, args);
    va_end(args);
    return condition;
}

TAP_PRINTF(3, 4)
static inline bool is_int(int64_t got, int64_t want, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool passed = tap_result(got == want, format, args);
    va_end(args);
    if (!passed)
        note("got %" PRId64 ", want %" PRId64, got, want);
    return passed;
}

/* Equal texts; NULL equals NULL alone. */
TAP_PRINTF(3, 4)
static inline bool is_str(const char *got, const char *want,
                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool same = got && want ? strcmp(got, want) == 0 : got == want;
    tap_result(same, format, args);
    va_end(args);
    if (!same) {
        note("got  %s", got ? got : "(NULL)");
        note("want %s", want ? want : "(NULL)");
    }
    return same;
}

/* |got - want| <= tolerance; NaN is near NaN, an infinity near itself. */
TAP_PRINTF(4, 5)
static inline bool is_double_near(double got, double want, double tolerance,
                                  const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool near = isnan(want)   ? isnan(got)
                : isinf(want) ? isinf(got) && signbit(got) == signbit(want)
                              : fabs(got - want) <= tolerance;
    tap_result(near, format, args);
    va_end(args);
    if (!near)
        note("got %.17g, want %.17g within %g", got, want, tolerance);
    return near;
}

/* Counts as count tests that could not be run, and says why. */
static inline void skip(int count, const char *why)
{
    for (int i = 0; i < count; i++)
        printf("ok %d # SKIP %s\n", ++tap_count, why);
}

/* Tells how many tests there were; the value for main to return. */
static inline int done_testing(void)
{
    printf("1..%d\n", tap_count);
    fflush(stdout);
    return tap_failed != 0;
}

#endif
