/* module.c: the module of a model, and the public calls of <tenon/onnx.h>. */
#include <base/nearest.h>
#include <onnx/run/shape_cache.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct net {
    tn_module base;
    tn__onnx_model *model; /* kept */
    tn_onnx_observer observe;
    void *context;
    int64_t max_iterations;
    tn_tensor *weight[]; /* registered parameters and buffers; each clone has
                            its own */
} net;

/* ---- running ------------------------------------------------------------- */

static const char run_call[] = "onnx_run";

__attribute__((format(printf, 3, 4)))
static bool refuse_input(const tn__onnx_port *port, tn_status code,
                         const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    tn_error_refuse_argument(code, run_call, "in", "input \"%.80s\" %s",
                             port->name, text);
    return false;
}

static bool check_input(const tn__onnx_run *run, const tn__onnx_port *port,
                        const tn_tensor *x)
{
    const tn__onnx_type type = tn__onnx_type_of(port->type);
    const tn_dtype dtype = tn_tensor_dtype(x);
    tn_device *device = tn_tensor_device(x);
    if (port->type && dtype != type.dtype)
        return refuse_input(
            port, TN_ERR_DTYPE, "is %s, but the model needs %s%s%s",
            tn_dtype_name(dtype), tn_dtype_name(type.dtype),
            type.narrow ? " for " : "", type.narrow ? type.name : "");
    if (device != run->device)
        return refuse_input(
            port, TN_ERR_DEVICE, "is on %s, but the model is on %s: use tn_to",
            tn_device_name(device), tn_device_name(run->device));
    if (port->ndim >= 0 && tn_tensor_ndim(x) != port->ndim)
        return refuse_input(port, TN_ERR_SHAPE,
                            "has %d dimensions, but the model needs %d",
                            tn_tensor_ndim(x), port->ndim);
    for (int i = 0; i < port->ndim; i++)
        if (port->shape[i] >= 0 && tn_tensor_size(x, i) != port->shape[i])
            return refuse_input(
                port, TN_ERR_SHAPE,
                "has size %lld in dimension %d, but the model needs %lld",
                (long long)tn_tensor_size(x, i), i, (long long)port->shape[i]);
    return true;
}

/* Returns the device of a run, which is that of the parameters. */
static tn_device *device_of(const net *self, tn_tensor *const *in, int in_count)
{
    if (self->model->weight_count)
        return tn_tensor_device(self->weight[0]);
    for (int i = 0; i < in_count; i++)
        if (in[i])
            return tn_tensor_device(in[i]);
    return self->model->device;
}

static bool set_inputs(const tn__onnx_run *run, const tn__onnx_graph *g,
                       tn__onnx_value *slot, tn_tensor *const *in, int in_count)
{
    for (int i = 0; i < g->input_count; i++) {
        const tn__onnx_port *port = &g->input[i];
        tn_tensor *x = i < in_count ? in[i] : NULL;
        if (!x && port->has_default)
            continue;
        if (!x)
            return refuse_input(port, TN_ERR_ARGUMENT,
                                "is missing and has no default");
        if (!check_input(run, port, x))
            return false;
        slot[port->slot] = tn__onnx_lend(
            run, x,
            port->type ? port->type
                       : tn__onnx_type_from_dtype(tn_tensor_dtype(x)));
        slot[port->slot].fixed_shape = true;
    }
    return true;
}

/* Runs the model and stores the results, which the open scope owns. */
static bool run_net(net *self, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count)
{
    TN__ROUND_NEAREST;
    const tn__onnx_graph *g = self->model->graph;
    if (tn_error())
        return false;
    tn_device *before = tn_device_current();
    tn__onnx_run run = {
        .model = self->model, .weight = self->weight,
        .device = device_of(self, in, in_count), .host = self->model->host,
        .training = self->base.training, .iterations = self->max_iterations,
        .observe = self->observe, .context = self->context};
    if (!run.device)
        return false;
    tn__onnx_shape_cache_begin(&run, g, in, in_count);
    tn__onnx_value *slot = tn__onnx_slots_new(&run, g);
    if (!slot) {
        tn__onnx_shape_cache_end(&run, g, false);
        return false;
    }
    if (before != run.device)
        tn_device_set(run.device);
    bool fine = set_inputs(&run, g, slot, in, in_count) &&
                tn__onnx_run_graph(&run, g, slot);
    for (int i = 0; i < out_count && fine; i++) {
        tn_tensor *x = tn__onnx_tensor_of(&slot[g->output[i].slot]);
        /* the caller must not get the tensor of a weight or an input itself */
        out[i] = tn_tensor_device(x) == run.device ? tn_scope_adopt(tn_keep(x))
                                                   : tn_to(x, run.device);
        fine = out[i] != NULL;
    }
    tn__onnx_slots_free(g, slot);
    tn__onnx_shape_cache_end(&run, g, fine);
    if (before != run.device)
        tn_device_set(before);
    return fine;
}

/* ---- the class ----------------------------------------------------------- */

static void net_forward(tn_module *self, tn_tensor *const *in, int in_count,
                        tn_tensor **out, int out_count)
{
    net *n = (net *)self;
    const int count = n->model->graph->output_count;
    const int given = n->model->graph->input_count;
    for (int i = given; i < in_count; i++)
        if (in[i]) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, run_call, "in",
                                     "too many inputs: the model has %d "
                                     "inputs",
                                     given);
            return;
        }
    if (out_count > count) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, run_call, "out",
                                 "too many outputs: the model has %d "
                                 "outputs",
                                 count);
        return;
    }
    tn_tensor *result[TN_MODULE_VALUES] = {NULL};
    if (run_net(n, in, in_count < given ? in_count : given, result, out_count))
        memcpy(out, result, (size_t)out_count * sizeof *out);
}

static void net_describe(const tn_module *self, char *text, size_t room)
{
    const tn__onnx_model *m = ((const net *)self)->model;
    snprintf(text, room, "graph=%s, nodes=%lld, opset=%lld",
             m->graph->name, (long long)m->nodes, (long long)m->opset);
}

static void net_release(tn_module *self)
{
    tn__onnx_model_drop(((net *)self)->model);
}

static tn_status net_clone(tn_module *self, const tn_module *from)
{
    tn__onnx_model *m = ((const net *)from)->model;
    __atomic_add_fetch(&m->references, 1, __ATOMIC_RELAXED);
    ((net *)self)->model = m;
    return TN_OK;
}

#define INPUTS "input1, input2?, input3?, input4?, input5?, input6?, "         \
               "input7?, input8?, input9?, input10?, input11?, input12?, "     \
               "input13?, input14?, input15?, input16?"
#define OUTPUTS "output1, output2, output3, output4, output5, output6, "       \
                "output7, output8, output9, output10, output11, output12, "    \
                "output13, output14, output15, output16"
static const tn_module_class net_class =
    TN_MODULE_CLASS(net, "Onnx", .forward_list = net_forward,
                    .signature = INPUTS " -> " OUTPUTS,
                    .describe = net_describe, .release = net_release,
                    .clone = net_clone);

/* ---- parameters ---------------------------------------------------------- */

/* A child module for one part of a dotted name, such as "encoder" of
 * "encoder.weight". It has no forward pass. */
static tn_tensor *group_forward(tn_module *self, tn_tensor *input)
{
    tn_error_set(TN_ERR_UNSUPPORTED,
                 "%s: this module only contains parameters of an ONNX model; "
                 "run the model",
                 self->type->name);
    (void)input;
    return NULL;
}
static const tn_module_class group_class =
    TN_MODULE_CLASS(tn_module, "Parameters", .forward = group_forward);

/* Modules limit the length of names. Longer names are cut and get a number.
 * tf2onnx makes such names: it joins those of all nodes that it fuses. */
enum { MAX_NAME = 120 };

/* Returns whether a weight's name can be a path: it has no empty part, and none
 * of its leading parts is the name of another weight. */
static bool is_path(const tn__onnx_names *whole, const char *name)
{
    char part[MAX_NAME + 1];
    if (strlen(name) > MAX_NAME)
        return false;
    int depth = 0;
    for (const char *p = name; *p; depth++) {
        const size_t length = strcspn(p, ".");
        p += length;
        if (!length || depth > 60)
            return false;
        if (*p == '.') {
            snprintf(part, sizeof part, "%.*s", (int)(p - name), name);
            if (tn__onnx_names_find(whole, part) >= 0 || !p[1])
                return false;
            p++;
        }
    }
    return depth > 0;
}

static bool add_weight(net *n, const tn__onnx_names *whole,
                       tn__onnx_names *groups, tn_module **group, int *count,
                       int i)
{
    tn__onnx_model *m = n->model;
    tn__onnx_weight *w = &m->weight[i];
    const size_t room = strlen(w->name) + 1;
    char *name = tn__onnx_alloc(&m->arena, room + 1, 1);
    if (!name)
        return false;
    memcpy(name, w->name, room);
    tn_module *at = &n->base;
    const char *last = name;
    if (is_path(whole, name)) {
        for (char *p = strchr(name, '.'); p; p = strchr(p + 1, '.')) {
            *p = '\0';
            const int known = tn__onnx_names_find(groups, name);
            if (known >= 0) {
                at = group[known];
            } else {
                char *key = tn__onnx_alloc(&m->arena, room, 1);
                tn_module *child = tn_module_new(&group_class);
                if (!key || !tn_module_add(at, last, child))
                    return false;
                memcpy(key, name, strlen(name) + 1);
                if (!tn__onnx_names_add(groups, key, *count))
                    return false;
                group[(*count)++] = at = child;
            }
            *p = '.';
            last = p + 1;
        }
    } else {
        for (char *p = name; *p; p++)
            *p = *p == '.' ? '/' : *p;
        if (!*name)
            memcpy(name, "/", 2);
        if (room > MAX_NAME + 1)
            snprintf(name + MAX_NAME - 10, 12, "~%d", i);
    }
    n->weight[i] = w->is_buffer ? tn_module_add_buffer(at, last, w->tensor)
                                : tn_module_add_parameter(at, last, w->tensor);
    return n->weight[i] != NULL;
}

static bool add_weights(net *n)
{
    tn__onnx_model *m = n->model;
    tn__onnx_names whole = {0}, groups = {0};
    size_t parts = 0;
    bool fine = true;
    for (int i = 0; i < m->weight_count && fine; i++) {
        fine = tn__onnx_names_add(&whole, m->weight[i].name, i);
        for (const char *p = m->weight[i].name; *p; p++)
            parts += *p == '.';
    }
    tn_module **group = malloc((parts + 1) * sizeof(tn_module *));
    int count = 0;
    for (int i = 0; i < m->weight_count && fine && group; i++)
        fine = add_weight(n, &whole, &groups, group, &count, i);
    if (!group)
        tn_error_set(TN_ERR_MEMORY, "onnx_open: out of memory");
    for (int i = 0; i < m->weight_count && fine; i++) {
        const tn_tensor *x = m->weight[i].tensor;
        m->parameters += m->weight[i].is_buffer ? 0 : tn_tensor_numel(x);
        m->parameter_bytes +=
            m->weight[i].is_buffer
                ? 0
                : tn_tensor_numel(x) *
                      (int64_t)tn_dtype_bytes(tn_tensor_dtype(x));
        /* the module owns it now */
        tn_drop(m->weight[i].tensor);
        m->weight[i].tensor = NULL;
    }
    fine = fine && group;
    free(group);
    tn__onnx_names_free(&whole);
    tn__onnx_names_free(&groups);
    return fine;
}

/* ---- opening ------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_onnx_open, "onnx_open", "path", TN_ONNX_OPEN_OPTIONS_LIST)

static const char open_call[] = "onnx_open";

/* Reads the file. Returns NULL with an error. */
static tn__onnx_model *read_model(tn__onnx_builder *b, const char *path,
                                  tn_device *device, const char *call)
{
    if (!path) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "path", "path is NULL");
        return NULL;
    }
    tn__onnx_model *m = tn__onnx_model_new();
    if (!m)
        return NULL;
    m->device = device;
    m->host = device;
    if (device && strcmp(tn_device_name(device), "cpu") != 0 &&
        tn_device_is_available("cpu"))
        m->host = tn_device_open("cpu");
    b->model = m;
    b->reader = (tn__onnx_reader){.call = call, .path = path,
                                  .arena = &m->arena, .maps = !b->checks};
    const bool fine =
        tn__onnx_file_open(&b->reader.file, AT_FDCWD, path, true, call) &&
        tn__onnx_build(b);
    tn__onnx_names_free(&b->function_names);
    tn__onnx_reader_close(&b->reader);
    if (fine)
        return m;
    tn__onnx_model_drop(m);
    return NULL;
}

tn_module *tn_onnx_open_with(const char *path,
                             const tn_onnx_open_options *options)
{
    TN__ROUND_NEAREST; /* constants are folded */
    tn_onnx_open_options o;
    if (tn_options_take(tn_onnx_open_type(), &o, options) < 0 || tn_error())
        return NULL;
    if (o.max_iterations < 0) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, open_call, "max_iterations",
                                 ".max_iterations is %lld; it must not be "
                                 "negative", (long long)o.max_iterations);
        return NULL;
    }
    tn_device *device = o.device ? o.device : tn_device_current();
    if (!device)
        return NULL;
    tn__onnx_builder b = {0};
    tn__onnx_model *m = read_model(&b, path, device, open_call);
    if (!m)
        return NULL;
    tn__onnx_fold(m);
    tn_scope *scope = tn_scope_open();
    net *n = scope ? tn_module_new_with(&net_class,
                                        (size_t)m->weight_count *
                                            sizeof(tn_tensor *))
                   : NULL;
    if (!n) {
        tn__onnx_model_drop(m);
        tn_scope_close(scope);
        return NULL;
    }
    n->model = m;
    n->max_iterations = o.max_iterations;
    const bool fine = add_weights(n) && !tn_error();
    if (fine && !o.trainable)
        tn_module_set_requires_grad(&n->base, false);
    if (fine)
        tn_module_eval(&n->base);
    return tn_scope_result(scope, fine ? n : NULL);
}

int64_t tn_onnx_check(const char *path,
                      void (*report)(const tn_onnx_node_info *node,
                                     void *context),
                      void *context)
{
    if (tn_error())
        return tn_error_code();
    tn__onnx_builder b = {.checks = true, .report = report, .context = context};
    tn__onnx_model *m = read_model(&b, path, NULL, "onnx_check");
    if (!m)
        return tn_error_code();
    tn__onnx_model_drop(m);
    return b.problems;
}

/* ---- public calls on a model --------------------------------------------- */

static net *net_of(const tn_module *module, const char *call)
{
    if (call && !tn_object_check_kind(module, "module", call, "net"))
        return NULL;
    if (module && module->type == &net_class)
        return (net *)(uintptr_t)module;
    if (call)
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "net",
                                 "net is not an ONNX model: open one with "
                                 "tn_onnx_open");
    return NULL;
}

tn_status tn_onnx_run(tn_module *module, tn_tensor *const *in, int in_count,
                      tn_tensor **out, int out_count)
{
    for (int i = 0; i < out_count && out; i++)
        out[i] = NULL;
    net *n = net_of(module, run_call);
    if (!n)
        return tn_error_code();
    const tn__onnx_graph *g = n->model->graph;
    if ((!in && in_count) || (!out && out_count) || in_count < 0 ||
        in_count > g->input_count || out_count < 0 ||
        out_count > g->output_count)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, run_call, NULL,
            "%d inputs and %d outputs were passed, but the model has %d and %d",
            in_count, out_count, g->input_count, g->output_count);
    for (int i = 0; i < in_count; i++)
        if (in[i] && !tn_object_check_kind(in[i], "tensor", run_call, "in"))
            return tn_error_code();
    tn_tensor **inputs =
        calloc((size_t)in_count + (size_t)out_count + 1, sizeof *inputs);
    if (!inputs)
        return tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
    if (in_count)
        memcpy(inputs, in, (size_t)in_count * sizeof *inputs);
    tn_tensor **result = inputs + in_count;
    bool fine = !tn_error();
    if (fine && in_count && in_count <= TN_MODULE_VALUES && in[0]) {
        tn_module_call call = tn_module_begin(module, inputs, in_count);
        fine = inputs[0] && run_net((net *)call.self, inputs, in_count, result,
                                    out_count);
        fine = tn_module_end(module, &call, result, out_count) && fine;
    } else if (fine) {
        fine = run_net(n, inputs, in_count, result, out_count);
    }
    if (fine && out_count)
        memcpy(out, result, (size_t)out_count * sizeof *out);
    free(inputs);
    if (fine)
        return TN_OK;
    return tn_error_code() ? tn_error_code() : TN_ERR_INTERNAL;
}

tn_status tn_onnx_observe(tn_module *module, tn_onnx_observer observe,
                          void *context)
{
    net *n = net_of(module, "onnx_observe");
    if (!n)
        return tn_error_code();
    n->observe = observe;
    n->context = context;
    return TN_OK;
}

int tn_onnx_input_count(const tn_module *module)
{
    const net *n = net_of(module, NULL);
    return n ? n->model->graph->input_count : 0;
}

int tn_onnx_output_count(const tn_module *module)
{
    const net *n = net_of(module, NULL);
    return n ? n->model->graph->output_count : 0;
}

/* Copies the first *size bytes of `from` to out, a struct whose first member is
 * its size. */
static tn_status fill(const char *call, const char *argument, void *out,
                      const void *full, size_t bytes)
{
    size_t size = 0;
    if (out)
        memcpy(&size, out, sizeof size);
    if (size < sizeof size || size > bytes)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, argument,
            out ? "its member size is invalid: set it to the size of the "
                  "struct" : "is NULL");
    memcpy(out, full, size);
    memcpy(out, &size, sizeof size);
    return TN_OK;
}

static tn_status describe(const char *call, const tn__onnx_port *port,
                          int count, int i, tn_onnx_value_info *info)
{
    if (i < 0 || i >= count)
        return tn_error_refuse_argument(TN_ERR_INDEX, call, "i",
                                        "i is %d; expected at least 0 and less "
                                        "than %d",
                                        i, count);
    const tn__onnx_type type = tn__onnx_type_of(port[i].type);
    const tn_onnx_value_info full = {
        .size = sizeof full, .name = port[i].name, .type = type.name,
        .dtype = type.dtype, .ndim = port[i].ndim, .shape = port[i].shape,
        .dim_name = port[i].dim_name, .is_optional = port[i].has_default};
    return fill(call, "info", info, &full, sizeof full);
}

tn_status tn_onnx_input(const tn_module *module, int i,
                        tn_onnx_value_info *info)
{
    const net *n = net_of(module, "onnx_input");
    return n ? describe("onnx_input", n->model->graph->input,
                        n->model->graph->input_count, i, info)
             : tn_error_code();
}

tn_status tn_onnx_output(const tn_module *module, int i,
                         tn_onnx_value_info *info)
{
    const net *n = net_of(module, "onnx_output");
    return n ? describe("onnx_output", n->model->graph->output,
                        n->model->graph->output_count, i, info)
             : tn_error_code();
}

bool tn_onnx_op(int i, tn_onnx_op_info *info)
{
    const tn__onnx_op *row = tn__onnx_op_at(i);
    tn_onnx_op_info full = {.size = sizeof full};
    if (row) {
        full.domain = row->domain ? row->domain : "";
        full.name = row->name;
        full.since = row->since;
        full.until = row->until       ? row->until
                     : *full.domain   ? row->since
                                      : TN__ONNX_LAST_OPSET;
        full.attributes = row->attributes ? row->attributes : "";
    }
    return fill("onnx_op", "info", info, &full, sizeof full) == TN_OK && row;
}

tn_status tn_onnx_info(const tn_module *module, tn_onnx_sizes *sizes)
{
    const net *n = net_of(module, "onnx_info");
    if (!n)
        return tn_error_code();
    const tn__onnx_model *m = n->model;
    const tn_onnx_sizes full = {
        .size = sizeof full, .producer = m->producer, .graph = m->graph->name,
        .ir_version = m->ir_version, .opset = m->opset, .nodes = m->nodes,
        .folded_nodes = m->folded, .parameters = m->parameters,
        .parameter_bytes = m->parameter_bytes,
        .constant_bytes = m->constant_bytes};
    return fill("onnx_info", "sizes", sizes, &full, sizeof full);
}
