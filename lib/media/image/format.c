/* format.c: functions that all formats use: messages of errors, the limit of
 * memory, growing memory. */
#include <media/image/format.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>

tn_status tn__because(tn__why *why, tn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    return code;
}

bool tn__growing_add(tn__growing *out, const void *data, size_t count)
{
    if (out->room - out->count < count) {
        const size_t room = (out->room + count) * 2;
        unsigned char *more =
            room > out->room ? realloc(out->data, room) : NULL;
        if (!more)
            return false;
        out->data = more;
        out->room = room;
    }
    if (count)
        memcpy(out->data + out->count, data, count);
    out->count += count;
    return true;
}

size_t tn__tensor_pixel(const tn__request *request, int channels)
{
    return (size_t)(request->channels ? request->channels : channels) *
           request->dtype_bytes;
}

tn_status tn__check_memory(int64_t width, int64_t height,
                           size_t bytes_per_pixel, size_t bytes_per_column,
                           tn__why *why)
{
    const int64_t limit = tn_unpack_limit();
    int64_t bytes, column;
    if (limit < 0)
        return tn__because(why, (tn_status)limit, "the limit is invalid");
    if (__builtin_mul_overflow(height, (int64_t)bytes_per_pixel, &column) ||
        __builtin_add_overflow(column, (int64_t)bytes_per_column, &column) ||
        __builtin_mul_overflow(width, column, &bytes))
        return tn__because(why, TN_ERR_FORMAT,
                           "%lld x %lld pixels are more than memory can hold",
                           (long long)width, (long long)height);
    if (limit && bytes > limit)
        return tn__because(why, TN_ERR_FORMAT,
                           "its %lld x %lld pixels would take %lld bytes, more "
                           "than the limit of %lld: raise tn_unpack_limit_set",
                           (long long)width, (long long)height,
                           (long long)bytes, (long long)limit);
    return TN_OK;
}
