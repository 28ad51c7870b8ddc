/* bytes.c: converts sizes in bytes to strings and back. */
#include <base/bytes.h>

#include <base/plain.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* Parses a size such as "512M", "4GiB" or "1000000". Returns -1 if the text is
 * not a size. */
int64_t tn__bytes_parse(const char *text)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return -1;
    unsigned long long number = strtoull(text, &end, 10);
    int shift = 0;
    switch (toupper((unsigned char)*end)) {
    case 'K':
        shift = 10;
        break;
    case 'M':
        shift = 20;
        break;
    case 'G':
        shift = 30;
        break;
    case 'T':
        shift = 40;
        break;
    }
    if (shift)
        end += 1 + (end[1] == 'i');
    if (*end == 'B')
        end++;
    if (*end || number > (unsigned long long)INT64_MAX >> shift)
        return -1;
    return (int64_t)(number << shift);
}

/* Writes a size as a string, such as "4.00 GiB". */
const char *tn__bytes_text(char out[TN__BYTES_TEXT], uint64_t bytes)
{
    static const char unit[] = "KMGTPE";
    if (bytes < 1024) {
        snprintf(out, 32, "%u bytes", (unsigned)bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    int i = 0;
    while (value >= 1024 && i < 5) {
        value /= 1024;
        i++;
    }
    tn__plain_print(out, 32, "%.2f %ciB", value, unit[i]);
    return out;
}
