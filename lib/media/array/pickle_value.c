/* pickle_value.c: the values that a pickle makes, and their memory. */
#include <media/array/pickle.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tn__pickle_block {
    struct tn__pickle_block *next;
    size_t used, room;
    max_align_t memory[];
} block;

void *tn__pickle_alloc(tn__pickle *pickle, uint64_t count, size_t bytes)
{
    enum { ROOM = 1 << 16 };
    uint64_t need;
    if (__builtin_mul_overflow(count, bytes, &need) || need > SIZE_MAX / 2)
        return tn__array_no_memory(pickle->call), NULL;
    need = (need + sizeof(max_align_t)) / sizeof(max_align_t) *
           sizeof(max_align_t);
    pickle->used_bytes += need;
    if (pickle->most_bytes && pickle->used_bytes > pickle->most_bytes)
        return tn__pickle_fail(pickle, TN_ERR_FORMAT,
                               "its values need more than %llu bytes of "
                               "memory",
                               (unsigned long long)pickle->most_bytes);
    block *b = pickle->block;
    if (!b || b->room - b->used < need) {
        const size_t room = need > ROOM ? (size_t)need : ROOM;
        b = malloc(sizeof *b + room);
        if (!b)
            return tn__array_no_memory(pickle->call), NULL;
        *b = (block){.next = pickle->block, .room = room};
        pickle->block = b;
    }
    void *memory = (char *)b->memory + b->used;
    b->used += (size_t)need;
    return memset(memory, 0, (size_t)need);
}

tn__pickle_value *tn__pickle_new(tn__pickle *pickle, tn__pickle_kind kind)
{
    if (++pickle->value_count > TN__PICKLE_MOST_VALUES)
        return tn__pickle_fail(pickle, TN_ERR_FORMAT,
                               "more than %d values", TN__PICKLE_MOST_VALUES);
    tn__pickle_value *value = tn__pickle_alloc(pickle, 1, sizeof *value);
    if (value)
        value->kind = kind;
    return value;
}

tn__pickle_value *tn__pickle_new_text(tn__pickle *pickle, tn__pickle_kind kind,
                                      const void *text, size_t bytes)
{
    tn__pickle_value *value = tn__pickle_new(pickle, kind);
    char *copy = value ? tn__pickle_alloc(pickle, bytes + 1, 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, text, bytes);
    value->text = copy;
    value->bytes = bytes;
    return value;
}

void *tn__pickle_fail(tn__pickle *pickle, tn_status code, const char *format,
                      ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char place[60] = "";
    if (pickle->p)
        snprintf(place, sizeof place, "at byte %zu of its pickle: ",
                 (size_t)(pickle->p - pickle->start));
    tn_error_refuse_argument(code, pickle->call, NULL, "%s: %s%s",
                             pickle->what, place, text);
    return NULL;
}

void tn__pickle_close(tn__pickle *pickle)
{
    for (block *b = pickle->block, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(pickle->bucket);
    free(pickle->stack);
    free(pickle->memo);
    free(pickle->mark);
    *pickle = (tn__pickle){0};
}
