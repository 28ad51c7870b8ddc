/* template_arena.c: the memory of a rendering, its limits and its error.
 *
 * An error leaves by longjmp from any depth, so all memory is in one arena,
 * which the end of the rendering frees. */
#include <lm/template/template.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tn__jinja_block {
    struct tn__jinja_block *next;
    size_t used, room;
    max_align_t memory[];
};

void tn__jinja_fail(tn__jinja *j, tn_status code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    j->code = code;
    vsnprintf(j->message, sizeof j->message, format, arguments);
    va_end(arguments);
    longjmp(j->failed, 1);
}

void *tn__jinja_allocate(tn__jinja *j, size_t count, size_t bytes)
{
    struct tn__jinja_block *b = j->blocks;
    if (count > TN__JINJA_MOST_MEMORY / bytes)
        tn__jinja_fail(j, TN_ERR_MEMORY, "the template needs more than %d MiB",
                       TN__JINJA_MOST_MEMORY >> 20);
    size_t need = count * bytes;
    need = (need + sizeof(max_align_t) - 1) / sizeof(max_align_t) *
           sizeof(max_align_t);
    if (!b || b->room - b->used < need) {
        const size_t room = need > 65536 ? need : 65536;
        if (room > TN__JINJA_MOST_MEMORY - j->memory)
            tn__jinja_fail(j, TN_ERR_MEMORY, "the template needs more than %d "
                           "MiB",
                           TN__JINJA_MOST_MEMORY >> 20);
        b = malloc(sizeof *b + room);
        if (!b)
            tn__jinja_fail(j, TN_ERR_MEMORY, "out of memory");
        *b = (struct tn__jinja_block){j->blocks, 0, room};
        j->blocks = b;
        j->memory += room;
    }
    void *memory = (char *)b->memory + b->used;
    b->used += need;
    return memset(memory, 0, need);
}

void tn__jinja_free(tn__jinja *j)
{
    while (j->blocks) {
        struct tn__jinja_block *next = j->blocks->next;
        free(j->blocks);
        j->blocks = next;
    }
}

void tn__jinja_step(tn__jinja *j, size_t count)
{
    if (count > (size_t)(TN__JINJA_MOST_STEPS - j->steps))
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED, "the template takes more than %d "
                       "steps",
                       TN__JINJA_MOST_STEPS);
    j->steps += (int64_t)count;
}

void tn__jinja_enter(tn__jinja *j)
{
    if (++j->depth > TN__JINJA_MOST_DEPTH)
        tn__jinja_fail(j, TN_ERR_UNSUPPORTED, "the template is nested more "
                       "than %d deep",
                       TN__JINJA_MOST_DEPTH);
}

void tn__jinja_leave(tn__jinja *j)
{
    j->depth--;
}
