/* categories.c: maps names of categories to codes 0, 1 and so on, in the order
 * in which the names first appear. So new names do not change the codes of old
 * ones. */
#include <io/csv.h>

#include <base/error.h>
#include <base/hash.h>
#include <base/memory.h>
#include <base/object.h>
#include <string.h>

struct tn_categories {
    tn__object object;
    char **name; /* owned, as is each name */
    size_t count, room;
    /* A hash table with open addressing. An entry is the code of a name plus 1,
     * or 0 if the entry is free. The size of the table is a power of two and at
     * least twice the number of names. */
    uint32_t *slot; /* owned */
    size_t slots;
};

static void destroy(tn__object *object)
{
    tn_categories *c = (tn_categories *)object;
    for (size_t i = 0; i < c->count; i++)
        tn__free(c->name[i]);
    tn__free(c->name);
    tn__free(c->slot);
    tn__object_free(c, sizeof *c);
}

static const tn__class categories_class = {.name = "categories",
                                           .destroy = destroy};

tn_categories *tn_categories_new(void)
{
    tn_categories *c = tn__calloc(1, sizeof *c);
    if (!c)
        return NULL;
    tn__object_init(&c->object, &categories_class);
    return tn__scope_own(c);
}

bool tn__categories_check(const tn_categories *c, const char *call)
{
    return tn__object_check(c, &categories_class, call, "categories");
}

int64_t tn_categories_count(const tn_categories *c)
{
    return tn__object_has(c, &categories_class, "categories_count",
                          "categories")
               ? (int64_t)c->count
               : 0;
}

const char *tn_categories_name(const tn_categories *c, int64_t i)
{
    if (!tn__object_has(c, &categories_class, "categories_name",
                        "categories") ||
        i < 0 || (size_t)i >= c->count)
        return NULL;
    return c->name[i];
}

/* Returns the index of a name in the hash table, or the free index where it
 * must be added. */
static size_t slot_of(const tn_categories *c, const char *name, size_t count)
{
    uint64_t hash[2] = {0, 0};
    tn__hash_bytes(hash, name, count);
    tn__hash_finish(hash);
    const size_t mask = c->slots - 1;
    for (size_t at = hash[0] & mask;; at = (at + 1) & mask) {
        const char *other = c->slot[at] ? c->name[c->slot[at] - 1] : NULL;
        if (!other || (strncmp(other, name, count) == 0 && !other[count]))
            return at;
    }
}

static void fill_slots(tn_categories *c)
{
    memset(c->slot, 0, c->slots * sizeof *c->slot);
    for (size_t i = 0; i < c->count; i++)
        c->slot[slot_of(c, c->name[i], strlen(c->name[i]))] =
            (uint32_t)i + 1;
}

static bool grow_slots(tn_categories *c)
{
    size_t slots = c->slots ? c->slots * 2 : 16;
    void *slot = tn__alloc(slots * sizeof *c->slot);
    if (!slot)
        return false;
    tn__free(c->slot);
    c->slot = slot;
    c->slots = slots;
    fill_slots(c);
    return true;
}

int64_t tn__categories_add(tn_categories *c, const char *name, size_t count)
{
    if (c->slots < 2 * (c->count + 1) && !grow_slots(c))
        return TN_ERR_MEMORY;
    size_t at = slot_of(c, name, count);
    if (c->slot[at])
        return c->slot[at] - 1;
    if (c->count >= UINT32_MAX - 1)
        return tn__fail(TN_ERR_MEMORY,
                        "categories: there are more than %u names",
                        UINT32_MAX - 1);
    if (!tn__grow(&c->name, &c->room, c->count, sizeof *c->name))
        return TN_ERR_MEMORY;
    char *own = tn__alloc(count + 1);
    if (!own)
        return TN_ERR_MEMORY;
    memcpy(own, name, count);
    own[count] = '\0';
    c->name[c->count] = own;
    c->slot[at] = (uint32_t)++c->count;
    return (int64_t)c->count - 1;
}

void tn__categories_truncate(tn_categories *c, int64_t count)
{
    if (c->count == (size_t)count)
        return;
    while (c->count > (size_t)count)
        tn__free(c->name[--c->count]);
    fill_slots(c);
}
