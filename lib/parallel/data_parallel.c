/* data_parallel.c: a module that runs another on several devices of one process.
 *
 * The caller's thread cuts the inputs, copies the model and concatenates the
 * outputs; all that is recorded by autograd, so that one backward pass goes through
 * all devices and adds the gradients in its own, fixed order. Only the forward of
 * the parts runs in threads. */
#include <parallel/parallel.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autocast.h>
#include <tenon/device.h>
#include <tenon/ops.h>

enum { DEVICES = 64 };

typedef struct parallel {
    tn_module base;
    tn_module *module; /* registered */
    int count;
    tn_device *device[DEVICES];
} parallel;

/* ---- one part ------------------------------------------------------------- */

typedef struct part {
    tn_module *module;    /* owned by the caller's scope */
    tn_device *device;
    tn_tensor *in[TN_MODULE_VALUES]; /* owned by the caller's scope */
    int in_count;
    tn_tensor *out[TN_MODULE_VALUES]; /* kept */
    int out_count;
    tn_rng_state random;
    bool grad, anomaly, started;
    tn_dtype autocast;
    tn_status status;
    char *message;        /* owned; of the thread's error */
    pthread_t thread;
} part;

static void run_part(part *p)
{
    tn_scope *scope = tn_scope_open();
    tn_device_set(p->device);
    tn_rng_restore(p->random);
    p->status = tn_forward_list(p->module, p->in, p->in_count, p->out,
                                p->out_count);
    for (int o = 0; o < p->out_count; o++)
        tn_keep(p->out[o]);
    if (p->status < 0 && tn_error())
        p->message = strdup(tn_error());
    tn_scope_close(scope);
}

static void *run_thread(void *context)
{
    part *p = context;
    tn_grad_mode_set(p->grad);
    tn_anomaly_mode_set(p->anomaly);
    tn_autocast_set(p->autocast);
    run_part(p);
    return NULL;
}

/* Runs all parts: the first in this thread. */
static tn_status run_parts(part *parts, int count)
{
    for (int i = 1; i < count; i++)
        parts[i].started = pthread_create(&parts[i].thread, NULL, run_thread,
                                          &parts[i]) == 0;
    tn_device *before = tn_device_current();
    run_part(&parts[0]);
    for (int i = 1; i < count; i++)
        if (!parts[i].started)
            run_part(&parts[i]); /* no thread is left: one after the other */
    tn_device_set(before);
    tn_status status = parts[0].status;
    for (int i = 1; i < count; i++) {
        if (parts[i].started)
            pthread_join(parts[i].thread, NULL);
        if (status < 0 || parts[i].status >= 0)
            continue;
        status = parts[i].status;
        if (!tn_error())
            tn_error_set(status, "data_parallel: part %d on %s: %s", i,
                         tn_device_name(parts[i].device),
                         parts[i].message ? parts[i].message : "it failed");
    }
    return status < 0 ? status : TN_OK;
}

/* ---- inputs --------------------------------------------------------------- */

/* Returns the size of dimension 0 that all inputs have, or -1. */
static int64_t rows_of(tn_tensor *const *in, int count)
{
    int64_t rows = -1;
    int first = 0;
    for (int i = 0; i < count; i++) {
        if (!in[i])
            continue;
        const tn_given given[] = {{"input", in[first]}, {"input", in[i]}};
        if (tn_tensor_ndim(in[i]) == 0) {
            tn_error_refuse(TN_ERR_SHAPE, "data_parallel", &given[1], 1,
                            "input %d has no dimension 0 along which it could be "
                            "cut", i);
            return -1;
        }
        if (rows >= 0 && rows != tn_tensor_size(in[i], 0)) {
            tn_error_refuse(TN_ERR_SHAPE, "data_parallel", given, 2,
                            "input %d has %" PRId64 " rows, input %d has %" PRId64
                            ": all inputs are cut along dimension 0", first, rows,
                            i, tn_tensor_size(in[i], 0));
            return -1;
        }
        if (rows < 0) {
            rows = tn_tensor_size(in[i], 0);
            first = i;
        }
    }
    return rows < 0 ? 0 : rows;
}

static tn_status cut_inputs(part *parts, int count, tn_tensor *const *in,
                            int in_count, int64_t rows)
{
    int64_t begin = 0;
    for (int p = 0; p < count; p++) {
        const int64_t size = rows / count + (p < rows % count);
        parts[p].in_count = in_count;
        for (int i = 0; i < in_count; i++) {
            if (!in[i])
                continue;
            parts[p].in[i] = tn_to(tn_narrow(in[i], 0, begin, size),
                                   parts[p].device);
            if (!parts[p].in[i])
                return tn_error_code();
        }
        begin += size;
    }
    return TN_OK;
}

/* ---- copies of the model -------------------------------------------------- */

static tn_status check_devices(const tn_parameter_list *state,
                               tn_device *device)
{
    for (int i = 0; i < tn_parameters_count(state); i++) {
        tn_tensor *x = tn_parameters_at(state, i);
        if (tn_tensor_device(x) != device)
            return tn_error_refuse(
                TN_ERR_DEVICE, "data_parallel", &(tn_given){"net", x}, 1,
                "%s is on %s, devices[0] is %s: move net by tn_module_to",
                tn_parameters_name(state, i), tn_device_name(tn_tensor_device(x)),
                tn_device_name(device));
    }
    return TN_OK;
}

/* Returns a copy of net with its state on device. Parameters are recorded copies,
 * or themselves if they are there; buffers are always copies. */
static tn_module *replicate(tn_module *net, tn_parameter_list *state,
                            const tn_parameter_list *parameters,
                            tn_device *device)
{
    const int count = tn_parameters_count(state);
    tn_tensor **value = calloc((size_t)count + 1, sizeof *value);
    const char **name = calloc((size_t)count + 1, sizeof *name);
    tn_module *copy = NULL;
    bool good = value && name;
    if (!good)
        tn_error_refuse_argument(TN_ERR_MEMORY, "data_parallel", NULL,
                                 "out of memory");
    for (int i = 0; i < count && good; i++) {
        tn_tensor *x = tn_parameters_at(state, i);
        const bool moves = tn_tensor_device(x) != device;
        name[i] = tn_parameters_name(state, i);
        value[i] = moves ? tn_to(x, device)
                   : tn__ddp_is_listed(parameters, x) ? x : tn_clone(x);
        good = value[i] != NULL;
    }
    if (good)
        copy = tn_module_substitute(net, value, count, .names = name);
    free(value);
    free(name);
    return copy;
}

/* ---- forward -------------------------------------------------------------- */

/* A seed of its own for each part (splitmix64). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static tn_status make_parts(const parallel *self, part *parts, int count,
                            int out_count)
{
    tn_parameter_list *state = tn_module_state(self->module);
    tn_parameter_list *parameters = tn_parameters(self->module);
    tn_rng_state random = tn_rng_snapshot();
    if (!state || !parameters ||
        check_devices(state, self->device[0]) != TN_OK)
        return tn_error_code();
    for (int p = 0; p < count; p++) {
        parts[p] = (part){
            .device = self->device[p], .out_count = out_count,
            .random = {.seed = mix(random.seed +
                                   mix(random.call + mix((uint64_t)p)))},
            .grad = tn_grad_mode(), .anomaly = tn_anomaly_mode(),
            .autocast = tn_autocast_dtype()};
        parts[p].module = p == 0 ? self->module
                                 : replicate(self->module, state, parameters,
                                             self->device[p]);
        if (!parts[p].module)
            return tn_error_code();
    }
    return TN_OK;
}

/* Concatenates output o of all parts on the first device. Outputs without
 * dimensions become a vector. */
static tn_tensor *gather(part *parts, int count, int o)
{
    tn_tensor *all[DEVICES];
    for (int p = 0; p < count; p++) {
        tn_tensor *x = tn_to(parts[p].out[o], parts[0].device);
        all[p] = tn_tensor_ndim(x) == 0 && count > 1 ? tn_unsqueeze(x, 0) : x;
        if (!all[p])
            return NULL;
    }
    return count == 1 ? all[0] : tn_cat(all, count, 0);
}

static void forward(tn_module *module, tn_tensor *const *in, int in_count,
                    tn_tensor **out, int out_count)
{
    const parallel *self = (const parallel *)module;
    const int64_t rows = rows_of(in, in_count);
    if (rows < 0)
        return;
    const int count = rows < 1 ? 1 : rows < self->count ? (int)rows : self->count;
    part *parts = calloc((size_t)count, sizeof *parts);
    if (!parts) {
        tn_error_refuse_argument(TN_ERR_MEMORY, "data_parallel", NULL,
                                 "out of memory");
        return;
    }
    const tn_rng_state random = tn_rng_snapshot();
    tn_status status = make_parts(self, parts, count, out_count);
    if (status == TN_OK)
        status = cut_inputs(parts, count, in, in_count, rows);
    if (status == TN_OK)
        status = run_parts(parts, count);
    /* One call of the caller's generator, however many the parts made. */
    tn_rng_restore((tn_rng_state){random.seed, random.call + 1});
    for (int o = 0; o < out_count && status == TN_OK; o++)
        out[o] = gather(parts, count, o);
    for (int p = 0; p < count; p++) {
        for (int o = 0; o < out_count; o++)
            tn_scope_adopt(parts[p].out[o]);
        free(parts[p].message);
    }
    free(parts);
}

/* ---- making it ------------------------------------------------------------ */

static void describe(const tn_module *module, char *text, size_t room)
{
    const parallel *self = (const parallel *)module;
    size_t used = 0;
    for (int i = 0; i < self->count && used < room; i++) {
        const int n = snprintf(text + used, room - used, "%s%s", i ? ", " : "",
                               tn_device_name(self->device[i]));
        used += n > 0 ? (size_t)n : 0;
    }
}

/* A class for each signature. They live until the process ends, because modules
 * point to them. */
typedef struct class_of {
    tn_module_class type;
    struct class_of *next;
    char signature[];
} class_of;
static class_of *classes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const tn_module_class *class_for(const char *signature)
{
    pthread_mutex_lock(&lock);
    class_of *c = classes;
    while (c && strcmp(c->signature, signature) != 0)
        c = c->next;
    const size_t bytes = strlen(signature) + 1;
    if (!c && (c = calloc(1, sizeof *c + bytes)) != NULL) {
        memcpy(c->signature, signature, bytes);
        c->type = (tn_module_class)TN_MODULE_CLASS(
            parallel, "DataParallel", .forward_list = forward,
            .signature = c->signature, .describe = describe);
        c->next = classes;
        classes = c;
    }
    pthread_mutex_unlock(&lock);
    if (!c)
        tn_error_refuse_argument(TN_ERR_MEMORY, "data_parallel", NULL,
                                 "out of memory");
    return c ? &c->type : NULL;
}

tn_module *tn_data_parallel(tn_module *net, tn_device *const *devices, int count)
{
    static const char call[] = "data_parallel";
    if (!tn_object_check_kind(net, "module", call, "net") || tn_error())
        return NULL;
    if (!devices || count < 1 || count > DEVICES) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, call,
                                 devices ? "count" : "devices",
                                 devices ? "count is %d: expected 1 to %d"
                                         : "devices is NULL",
                                 count, (int)DEVICES);
        return NULL;
    }
    for (int i = 0; i < count; i++)
        if (!devices[i]) {
            tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "devices",
                                     "devices[%d] is NULL: open it by "
                                     "tn_device_open", i);
            return NULL;
        }
    tn_scope *scope = tn_scope_open();
    const tn_module_class *type = class_for(tn_module_signature(net));
    parallel *self = NULL;
    if (type && check_devices(tn_module_state(net), devices[0]) == TN_OK)
        self = tn_module_new(type);
    if (self) {
        self->count = count;
        memcpy(self->device, devices, sizeof *devices * (size_t)count);
        TN_MODULE_ADD(self, module, net);
        if (!self->module)
            self = NULL;
    }
    return tn_scope_result(scope, self);
}
