/* plain.h: prints and parses numbers in the C locale and rounds to nearest,
 * whatever locale and rounding mode the program has set. */
#ifndef TN_LIB_BASE_PLAIN_H
#define TN_LIB_BASE_PLAIN_H

#include <base/fpu.h>

#include <stdarg.h>
#include <stddef.h>

/* Work as snprintf and vsnprintf. */
int tn__plain_print(char *out, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int tn__plain_vprint(char *out, size_t room, const char *format, va_list args);

/* Work as strtod and strtof. */
double tn__read_double(const char *text, char **end);
float tn__read_float(const char *text, char **end);

#endif
