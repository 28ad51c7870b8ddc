/* bytes.h: converts sizes in bytes to strings and back. */
#ifndef TN_LIB_BASE_BYTES_H
#define TN_LIB_BASE_BYTES_H

#include <stdint.h>

/* Writes a size as a string, such as "10.00 MiB", and returns `out`. */
#define TN__BYTES_TEXT 32
const char *tn__bytes_text(char out[TN__BYTES_TEXT], uint64_t bytes);
/* Parses a size such as "512M" or "4GiB". Returns a negative number if the text
 * is not a size. */
int64_t tn__bytes_parse(const char *text);

#endif
