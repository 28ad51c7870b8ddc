/* text.c: growing strings. If memory runs out, later calls do nothing and
 * tn__text_finish reports the error once, so callers need not check each
 * call. */
#include <base/error.h>
#include <base/memory.h>
#include <base/plain.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Grows the buffer so that it can hold `more` further bytes and the NUL.
 * Returns false if memory runs out. */
static bool text_reserve(tn__text *text, size_t more)
{
    if (text->failed)
        return false;
    size_t need = text->length + more + 1;
    if (need <= text->room)
        return true;
    size_t room = text->room ? text->room * 2 : 64;
    if (room < need)
        room = need;
    char *data = tn__realloc(text->data, room);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->room = room;
    return true;
}

void tn__text_add_bytes(tn__text *text, const char *data, size_t length)
{
    if (!text_reserve(text, length))
        return;
    if (length)
        memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = 0;
}

void tn__text_add(tn__text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = tn__plain_vprint(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && text_reserve(text, (size_t)length)) {
        tn__plain_vprint(text->data + text->length, (size_t)length + 1, format,
                   again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void tn__text_add_shape(tn__text *text, int ndim, const int64_t *shape)
{
    tn__text_add(text, "(");
    for (int i = 0; i < ndim; i++)
        tn__text_add(text, "%s%" PRId64, i ? ", " : "", shape[i]);
    tn__text_add(text, ndim == 1 ? ",)" : ")");
}

char *tn__text_finish(tn__text *text)
{
    if (text_reserve(text, 0) && !text->length)
        text->data[0] = 0;
    char *data = text->data;
    if (text->failed) {
        tn__free(data);
        data = NULL;
        /* this has no effect if the failed allocation has recorded an error
         * already */
        tn__fail(TN_ERR_MEMORY, "out of memory for a string");
    }
    *text = (tn__text){0};
    return data;
}

void tn__text_release(tn__text *text)
{
    tn__free(text->data);
    *text = (tn__text){0};
}

int tn_format(char *text, size_t room, const char *format, ...)
{
    if ((!text && room) || !format) {
        tn__fail(TN_ERR_ARGUMENT, "format: {%s} is NULL",
                 format ? "text" : "format");
        return -1;
    }
    va_list args;
    va_start(args, format);
    const int length = tn__plain_vprint(text, room, format, args);
    va_end(args);
    return length;
}
