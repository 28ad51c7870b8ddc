/* location.c: the running operator, and the paths of modules
 * ("encoder.layers.0").
 *
 * Each path is stored once and never freed, since tensors and errors may refer
 * to it after the model was freed. A program has only as many paths as it has
 * different modules, so this takes little memory. */
#include <base/context.h>
#include <base/lock.h>
#include <base/state.h>

#include <string.h>

const char *tn__outermost_op(void)
{
    const char *name = NULL;
    for (const tn__running_op *d = tn__me.location.running; d; d = d->outer)
        name = d->name;
    return name;
}

struct tn_path {
    const tn_path *outer;
    tn_path *next; /* next path in the same bucket of the hash table */
    size_t name;   /* where the module's own name begins in `text` */
    char text[];   /* the whole path, such as "encoder.layers.0" */
};

#define BUCKETS 1024
static tn_path *bucket[BUCKETS];
static tn__lock lock = TN__LOCK_INIT;

static size_t hash(const tn_path *outer, const char *name)
{
    uint64_t h = (uint64_t)(uintptr_t)outer ^ 0xcbf29ce484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return (size_t)(h >> 20) % BUCKETS;
}

static tn_path *make(const tn_path *outer, const char *name)
{
    size_t before = outer ? strlen(outer->text) + 1 : 0;
    size_t length = strlen(name) + 1;
    /* Allocates memory that leak tests do not count, since a path is never
     * freed. */
    tn_path *path = tn__memory_take(sizeof *path + before + length, false);
    if (!path)
        return NULL;
    path->outer = outer;
    path->name = before;
    if (before) {
        memcpy(path->text, outer->text, before - 1);
        path->text[before - 1] = '.';
    }
    memcpy(path->text + before, name, length);
    return path;
}

const tn_path *tn_path_join(const tn_path *outer, const char *name)
{
    if (!name || !*name)
        return outer;
    size_t at = hash(outer, name);
    tn__lock_take(&lock);
    tn_path *path = bucket[at];
    while (path &&
           (path->outer != outer || strcmp(path->text + path->name, name) != 0))
        path = path->next;
    if (!path && (path = make(outer, name))) {
        path->next = bucket[at];
        bucket[at] = path;
    }
    tn__lock_give(&lock);
    return path ? path : outer;
}

const tn_path *tn_path_enter(const tn_path *path)
{
    const tn_path *before = tn__me.location.path;
    tn__me.location.path = path;
    return before;
}

const tn_path *tn_path_current(void)
{
    return tn__me.location.path;
}

const tn_path *tn_path_outer(const tn_path *path)
{
    return path ? path->outer : NULL;
}

const char *tn_path_text(const tn_path *path)
{
    return path ? path->text : "";
}
