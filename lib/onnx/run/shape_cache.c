/* shape_cache.c: caches results that depend on the shapes of inputs alone; see
 * shape_cache.h. */
#include <base/library_lock.h>
#include <onnx/run/shape_cache.h>

#include <stdlib.h>
#include <string.h>

enum {
    MAX_ENTRIES = 8,         /* cached sets of input shapes */
    MAX_BYTES = 16 * 1048576 /* of the cached results for one set */
};

static void entry_free(tn__onnx_shape_cache *k, const tn__onnx_graph *g)
{
    for (int i = 0; i < g->slot_count && k->value; i++) {
        tn_drop(k->value[i].device);
        tn_drop(k->value[i].host);
    }
    free(k->value);
    free(k->skip);
    free(k);
}

static void forget(tn__onnx_model *m)
{
    while (m->shape_cache) {
        tn__onnx_shape_cache *next = m->shape_cache->next;
        entry_free(m->shape_cache, m->graph);
        m->shape_cache = next;
    }
}

/* Stores the ranks and sizes of the inputs in key. Returns the number of
 * integers, or -1 if there are too many. */
static int make_key(tn_tensor *const *in, int in_count, int64_t *key)
{
    int n = 0;
    for (int i = 0; i < in_count; i++) {
        const int ndim = in[i] ? tn_tensor_ndim(in[i]) : 0;
        if (n + 1 + ndim > TN__ONNX_KEY)
            return -1;
        key[n++] = in[i] ? ndim : -1;
        for (int j = 0; j < ndim; j++)
            key[n++] = tn_tensor_size(in[i], j);
    }
    return n;
}

void tn__onnx_shape_cache_begin(tn__onnx_run *run, const tn__onnx_graph *g,
                                tn_tensor *const *in, int in_count)
{
    tn__onnx_model *m = run->model;
    int64_t key[TN__ONNX_KEY];
    const int count = make_key(in, in_count, key);
    if (count < 0)
        return;
    tn__library_lock();
    tn__onnx_shape_cache *k = m->shape_cache;
    while (k && (k->device != run->device || k->key_count != count ||
                 memcmp(k->key, key, (size_t)count * sizeof *key) != 0))
        k = k->next;
    if (k)
        k->references++;
    tn__library_unlock();
    run->cached = k;
    if (k)
        return;
    k = calloc(1, sizeof *k);
    if (!k)
        return;
    k->device = run->device;
    k->key_count = count;
    memcpy(k->key, key, (size_t)count * sizeof *key);
    k->value = calloc((size_t)g->slot_count + 1, sizeof *k->value);
    k->skip = calloc((size_t)g->node_count + 1, sizeof *k->skip);
    run->record = k;
    if (!k->value || !k->skip) {
        entry_free(k, g);
        run->record = NULL;
    }
}

void tn__onnx_shape_cache_add(tn__onnx_shape_cache *k,
                              const tn__onnx_node *node, int i,
                              const tn__onnx_value *slot)
{
    int64_t bytes = k->bytes;
    for (int j = 0; j < node->out_count; j++) {
        const tn__onnx_value *v =
            node->out[j] >= 0 ? &slot[node->out[j]] : NULL;
        if (!v)
            continue;
        if (!v->fixed || !tn__onnx_tensor_of(v))
            return;
        bytes += tn__onnx_bytes_of(tn__onnx_tensor_of(v));
    }
    if (bytes > MAX_BYTES)
        return;
    k->bytes = bytes;
    k->skip[i] = true;
    for (int j = 0; j < node->out_count; j++) {
        if (node->out[j] < 0)
            continue;
        tn__onnx_value *v = &k->value[node->out[j]];
        *v = slot[node->out[j]];
        tn_keep(v->device);
        tn_keep(v->host);
    }
}

void tn__onnx_shape_cache_end(tn__onnx_run *run, const tn__onnx_graph *g,
                              bool succeeded)
{
    tn__onnx_model *m = run->model;
    tn__onnx_shape_cache *unused = NULL;
    tn__library_lock();
    if (run->cached)
        run->cached->references--;
    if (run->record && succeeded) {
        run->record->next = m->shape_cache;
        m->shape_cache = run->record;
        m->forget = forget;
        run->record = NULL;
        /* if there are too many records, frees the oldest that no run uses */
        int count = 0;
        tn__onnx_shape_cache **last = NULL;
        for (tn__onnx_shape_cache **k = &m->shape_cache; *k; k = &(*k)->next)
            if (++count > 1 && !(*k)->references)
                last = k;
        if (count > MAX_ENTRIES && last) {
            unused = *last;
            *last = unused->next;
        }
    }
    tn__library_unlock();
    if (unused)
        entry_free(unused, g);
    if (run->record)
        entry_free(run->record, g);
    run->cached = run->record = NULL;
}
