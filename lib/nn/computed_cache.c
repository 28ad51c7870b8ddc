/* computed_cache.c: computes the value of a parameter, and caches it within a
 * region TN_PARAMETRIZE_CACHED. */
#include <nn/tree.h>

#include <tenon/nn.h>

/* A value that was computed in a region TN_PARAMETRIZE_CACHED. */
typedef struct cached {
    tn_object object;
    struct cached *next;   /* counted reference */
    tn__nn_source *source; /* counted reference */
    tn_tensor *value;      /* counted reference */
} cached;

static void cached_release(void *object)
{
    cached *c = object;
    tn_drop(c->next);
    tn_drop(c->source);
    tn_drop(c->value);
}

static const tn_object_class cached_class = {
    sizeof cached_class, "computed parameter", sizeof(cached), cached_release};

static _Thread_local struct {
    bool on;
    cached *first; /* counted reference */
} cache;

bool tn_parametrize_cache_set(bool on)
{
    bool before = cache.on;
    cache.on = on;
    if (!on) {
        tn_drop(cache.first);
        cache.first = NULL;
    }
    return before;
}

static bool remember(tn__nn_source *source, tn_tensor *value)
{
    tn_scope *scope = tn_scope_open();
    cached *c = tn_object_new(&cached_class, 0);
    if (c) {
        c->next = cache.first;
        c->source = tn_keep(source);
        c->value = tn_keep(value);
        cache.first = tn_keep(c);
    }
    tn_scope_close(scope);
    return c;
}

tn_tensor *tn__nn_compute(tn__nn_source *source)
{
    if (tn_error())
        return NULL;
    for (const cached *c = cache.first; c; c = c->next)
        if (c->source == source)
            return c->value;
    tn_tensor *value = source->compute(source);
    if (value && cache.on && !remember(source, value))
        return NULL;
    return value;
}
