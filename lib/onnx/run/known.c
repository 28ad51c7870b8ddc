/* known.c: caches results that depend on the shapes of inputs alone; see
 * known.h. */
#include <onnx/run/known.h>

#include <stdlib.h>
#include <string.h>

enum {
    MAX_KNOWN = 8,            /* cached sets of input shapes */
    MAX_BYTES = 16 * 1048576  /* of the cached results for one set */
};

static void known_free(tn__onnx_known *k, const tn__onnx_graph *g)
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
    while (m->known) {
        tn__onnx_known *next = m->known->next;
        known_free(m->known, m->graph);
        m->known = next;
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

void tn__onnx_known_begin(tn__onnx_run *run, const tn__onnx_graph *g,
                          tn_tensor *const *in, int in_count)
{
    tn__onnx_model *m = run->model;
    int64_t key[TN__ONNX_KEY];
    const int count = make_key(in, in_count, key);
    if (count < 0)
        return;
    pthread_mutex_lock(&m->lock);
    tn__onnx_known *k = m->known;
    while (k && (k->device != run->device || k->key_count != count ||
                 memcmp(k->key, key, (size_t)count * sizeof *key) != 0))
        k = k->next;
    if (k)
        k->references++;
    pthread_mutex_unlock(&m->lock);
    run->known = k;
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
    run->fresh = k;
    if (!k->value || !k->skip) {
        known_free(k, g);
        run->fresh = NULL;
    }
}

void tn__onnx_known_add(tn__onnx_known *k, const tn__onnx_node *node, int i,
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

void tn__onnx_known_end(tn__onnx_run *run, const tn__onnx_graph *g,
                        bool succeeded)
{
    tn__onnx_model *m = run->model;
    tn__onnx_known *unused = NULL;
    pthread_mutex_lock(&m->lock);
    if (run->known)
        run->known->references--;
    if (run->fresh && succeeded) {
        run->fresh->next = m->known;
        m->known = run->fresh;
        m->forget = forget;
        run->fresh = NULL;
        /* if there are too many records, frees the oldest that no run uses */
        int count = 0;
        tn__onnx_known **last = NULL;
        for (tn__onnx_known **k = &m->known; *k; k = &(*k)->next)
            if (++count > 1 && !(*k)->references)
                last = k;
        if (count > MAX_KNOWN && last) {
            unused = *last;
            *last = unused->next;
        }
    }
    pthread_mutex_unlock(&m->lock);
    if (unused)
        known_free(unused, g);
    if (run->fresh)
        known_free(run->fresh, g);
    run->known = run->fresh = NULL;
}
