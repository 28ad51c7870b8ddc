/* text.c: checks of names in files. */
#include <media/array/text.h>

#include <media/array/host.h>
#include <stdlib.h>
#include <string.h>

bool tn__array_is_utf8(const char *text, size_t bytes)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + bytes;
    while (p < end) {
        static const uint32_t least[] = {1, 0x80, 0x800, 0x10000};
        const int more = *p < 0x80             ? 0
                         : (*p & 0xe0) == 0xc0 ? 1
                         : (*p & 0xf0) == 0xe0 ? 2
                         : (*p & 0xf8) == 0xf0 ? 3
                                               : -1;
        if (more < 0 || more >= end - p)
            return false;
        uint32_t code = more ? *p & (0x3fu >> more) : *p;
        for (int i = 1; i <= more; i++) {
            if ((p[i] & 0xc0) != 0x80)
                return false;
            code = code << 6 | (p[i] & 0x3fu);
        }
        if (code < least[more] || code > 0x10ffff ||
            (code >= 0xd800 && code < 0xe000))
            return false;
        p += more + 1;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

tn_status tn__array_check_unique(const char *const *names, int count,
                                 const char *call)
{
    const char **sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    if (!sorted)
        return tn__array_no_memory(call);
    for (int i = 0; i < count; i++)
        sorted[i] = names[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    tn_status status = TN_OK;
    for (int i = 1; i < count && status == TN_OK; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            status = tn_error_refuse_argument(
                TN_ERR_ARGUMENT, call, "names",
                "the name \"%s\" is given twice", sorted[i]);
    free(sorted);
    return status;
}
