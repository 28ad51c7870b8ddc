/* holders.c: finds which operators and modules hold the most memory, for
 * out-of-memory errors. The origin of a block is the operator and module that
 * allocated it. The sizes of used blocks above 1 KiB are added up for each
 * origin. */
#include <device/memory/allocator.h>

#include <stdio.h>
#include <string.h>
#include <tenon/error.h>

/* ORIGINS is the largest number of different origins that are added up. Further
 * origins are ignored, so that nothing is allocated when memory has run out.
 * SHOWN is the number of origins in the message. */
enum { ORIGINS = 64, SHOWN = 3 };

typedef struct origin {
    const char *made_by;
    const tn_path *made_in;
    uint64_t bytes;
    int64_t count;
} origin;

static void count(origin *list, int *filled, const tn__block *block)
{
    for (int i = 0; i < *filled; i++)
        if (list[i].made_by == block->made_by &&
            list[i].made_in == block->made_in) {
            list[i].bytes += block->bytes;
            list[i].count++;
            return;
        }
    if (*filled < ORIGINS)
        list[(*filled)++] = (origin){block->made_by, block->made_in,
                                     block->bytes, 1};
}

static origin *largest(origin *list, int filled)
{
    origin *best = NULL;
    for (int i = 0; i < filled; i++)
        if (list[i].bytes && (!best || list[i].bytes > best->bytes))
            best = &list[i];
    return best;
}

void tn__holders_text(const tn__allocator *a, char *text, size_t room)
{
    origin list[ORIGINS];
    int filled = 0;
    size_t used = 0;
    text[0] = 0;
    for (const tn__slab *slab = a->slabs; slab; slab = slab->next)
        for (const tn__block *b = slab->first; b; b = b->next_in_slab)
            if (b->used && b->made_by)
                count(list, &filled, b);
    origin *best;
    for (int k = 0; k < SHOWN && (best = largest(list, filled)); k++) {
        char size[TN__BYTES_TEXT];
        const char *path = tn_path_text(best->made_in);
        int length = snprintf(
            text + used, room - used, "%s%s by %s%s%s (%lld)",
            k ? ", " : "; largest holders: ",
            tn__bytes_text(size, best->bytes), best->made_by,
            path && *path ? " in " : "", path ? path : "",
            (long long)best->count);
        if (length < 0 || (size_t)length >= room - used) {
            text[used] = 0; /* this origin does not fit into the message and is
                             * removed */
            return;
        }
        used += (size_t)length;
        best->bytes = 0;
    }
}
