/* plain.c: prints and parses numbers in the C locale and rounds to nearest,
 * whatever the program has set. */
#include <base/plain.h>

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t plain;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* The locale and rounding mode of the calling thread, which are restored
 * afterwards. On x86 the C library may use the rounding mode of the x87 unit or
 * of the SSE unit, so both are set. */
typedef struct modes {
    locale_t locale;
    int rounding;
    tn__fpu_state fpu;
} modes;

static modes enter(void)
{
    pthread_once(&once, make_plain);
    modes before = {.rounding = fegetround(), .fpu = tn__fpu_read()};
    if (plain)
        before.locale = uselocale(plain);
    if (before.rounding != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    tn__fpu_set();
    return before;
}

static void leave(modes before)
{
    if (plain)
        uselocale(before.locale);
    if (before.rounding != FE_TONEAREST)
        fesetround(before.rounding);
    tn__fpu_restore(before.fpu);
}

int tn__plain_vprint(char *out, size_t room, const char *format, va_list args)
{
    const modes before = enter();
    const int length = vsnprintf(out, room, format, args);
    leave(before);
    return length;
}

int tn__plain_print(char *out, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = tn__plain_vprint(out, room, format, args);
    va_end(args);
    return length;
}

double tn__read_double(const char *text, char **end)
{
    const modes before = enter();
    const double x = strtod(text, end);
    leave(before);
    return x;
}

float tn__read_float(const char *text, char **end)
{
    const modes before = enter();
    const float x = strtof(text, end);
    leave(before);
    return x;
}
