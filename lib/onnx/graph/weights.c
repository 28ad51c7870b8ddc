/* weights.c: makes tensors of initialisers and of Constant nodes. Those that
 * are trained become parameters of the module. */
#include <onnx/graph/scope.h>

#include <string.h>

/* An initialiser with one of these uses is a constant. */
enum { NOT_TRAINED = TN__ONNX_USED_ON_HOST | TN__ONNX_USED_AS_CONSTANT };

static tn_tensor *make_on(tn__onnx_builder *b, const tn__onnx_tensor *t,
                          tn_device *device)
{
    tn_device *before = tn_device_current();
    tn_tensor *x = NULL;
    if (tn_device_set(device) < 0)
        return NULL;
    TN_SCOPE(own) {
        x = tn_keep(tn__onnx_tensor_make(&b->reader, t));
    }
    tn_device_set(before);
    return x;
}

/* Constants of at most this many elements are also stored on the host, because
 * shape arithmetic runs there. */
enum { SMALL = 1024 };

static void add_weight(tn__onnx_builder *b, tn__onnx_scope *s, int slot,
                       const char *name, tn_tensor *x, int type)
{
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_model *m = b->model;
    g->constant[g->constant_count++] =
        (tn__onnx_constant){slot, m->weight_count};
    m->weight[m->weight_count++] = (tn__onnx_weight){
        .name = name, .tensor = x,
        .is_buffer = s->slots->use[slot] & TN__ONNX_USED_AS_BUFFER};
    g->value[slot].type = type;
    g->value[slot].fixed_shape = true;
}

bool tn__onnx_constants_take(tn__onnx_builder *b, tn__onnx_scope *s)
{
    tn__onnx_graph *g = s->names.graph;
    for (int i = 0; i < g->node_count && !g->parent; i++) {
        tn__onnx_node *n = &g->node[i];
        if (!n->row || n->is_inlined || strcmp(n->op, "Constant") != 0 ||
            n->attr_count != 1 || n->out_count != 1 || n->out[0] < 0)
            continue;
        tn__onnx_value *v = &n->attrs[0].tensor;
        tn_tensor *x = v->host;
        if (!tn_dtype_is_floating(tn_tensor_dtype(x)) ||
            tn_tensor_numel(x) < 2 ||
            s->slots->use[n->out[0]] & NOT_TRAINED)
            continue;
        if (b->model->device != b->model->host) {
            TN_SCOPE(own) {
                x = tn_keep(tn_to(x, b->model->device));
            }
            if (!x)
                return false;
            tn_drop(v->host);
        }
        v->host = NULL; /* the weight owns the tensor now */
        add_weight(b, s, n->out[0], n->out_name[0], x, v->type);
        n->is_folded = true;
    }
    return true;
}

bool tn__onnx_initialiser_read(tn__onnx_builder *b, tn__onnx_scope *s,
                               const tn__onnx_tensor *t, int slot)
{
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_model *m = b->model;
    const tn__onnx_type type = tn__onnx_type_of(t->type);
    const bool is_weight = tn_dtype_is_floating(type.dtype) && !g->parent &&
                           !(s->slots->use[slot] & NOT_TRAINED);
    tn__onnx_value *v = &g->value[slot];
    if (is_weight) {
        tn_tensor *x = make_on(b, t, m->device);
        if (x)
            add_weight(b, s, slot, t->name, x, t->type);
        return x != NULL;
    }
    v->type = t->type;
    g->constant[g->constant_count++] = (tn__onnx_constant){slot, -1};
    v->fixed = v->fixed_shape = true;
    if (m->host != m->device && t->numel <= SMALL) {
        v->host = make_on(b, t, m->host);
        return v->host != NULL;
    }
    v->device = make_on(b, t, m->device);
    if (m->host == m->device)
        v->host = tn_keep(v->device);
    return v->device != NULL;
}
