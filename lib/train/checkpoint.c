/* checkpoint.c: a training run in one safetensors file.
 *
 * Loading has two halves. The first reads and checks everything and changes
 * nothing; the second copies, and begins with the optimizer, whose own loading
 * is whole or not at all. After that only the device can fail. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/checkpoint.h>
#include <tenon/io.h>
#include <tenon/ops.h>
#include <tenon/random.h>

static const char module_prefix[] = "module.", optim_prefix[] = "optim.";
static const char loader_key[] = "loader", schedule_key[] = "schedule";

enum { TEXT_BYTES = 128, MOST_TEXTS = 6 };

static tn_status check_arguments(const char *call, const char *path,
                                 const tn_checkpoint *checkpoint)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!path || !checkpoint)
        return tn_error_set(TN_ERR_ARGUMENT, "%s: %s is NULL", call,
                            path ? "checkpoint" : "path");
    if (checkpoint->size < sizeof *checkpoint)
        return tn_error_set(TN_ERR_ARGUMENT,
                            "%s: size is %zu; set it to sizeof(tn_checkpoint)",
                            call, checkpoint->size);
    return TN_OK;
}

/* ---- saving ------------------------------------------------------------- */

/* Tensors under names: counted first, then gathered. */
typedef struct gather {
    const char *prefix;
    size_t name_bytes;
    int count;
    tn_tensor **tensor; /* NULL while they are counted */
    const char **name;
    char *next_name;
} gather;

static void gather_one(const char *name, tn_tensor *x, void *context)
{
    gather *g = context;
    size_t prefix = strlen(g->prefix), length = strlen(name) + 1;
    if (g->tensor) {
        memcpy(g->next_name, g->prefix, prefix);
        memcpy(g->next_name + prefix, name, length);
        g->name[g->count] = g->next_name;
        g->tensor[g->count] = x;
        g->next_name += prefix + length;
    }
    g->count++;
    g->name_bytes += prefix + length;
}

/* All tensors of c; the optimizer's text, malloc'ed, or NULL. */
static char *gather_all(gather *g, const tn_checkpoint *c,
                        const tn_parameter_list *state)
{
    g->count = 0;
    g->prefix = module_prefix;
    for (int i = 0; i < tn_parameters_count(state); i++)
        gather_one(tn_parameters_name(state, i), tn_parameters_at(state, i),
                   g);
    g->prefix = optim_prefix;
    return c->optim ? tn_optim_state(c->optim, gather_one, g) : NULL;
}

static const tn_object_class list_class = {sizeof list_class,
                                           "checkpoint's list",
                                           sizeof(tn_object), NULL};

/* Room for what was counted, owned by the open scope. */
static bool make_room(gather *g)
{
    size_t count = (size_t)g->count;
    char *room = tn_object_new(&list_class,
                               count * 2 * sizeof(void *) + g->name_bytes);
    if (!room)
        return false;
    g->tensor = (tn_tensor **)(void *)(room + sizeof(tn_object));
    g->name = (const char **)(g->tensor + count);
    g->next_name = (char *)(g->name + count);
    return true;
}

typedef struct texts {
    const char *pair[MOST_TEXTS][2];
    char text[MOST_TEXTS][TEXT_BYTES];
    int count;
} texts;

static char *add_text(texts *t, const char *key)
{
    t->pair[t->count][0] = key;
    t->pair[t->count][1] = t->text[t->count];
    return t->text[t->count++];
}

static void write_texts(texts *t, const tn_checkpoint *c,
                        const char *optim_text)
{
    snprintf(add_text(t, "step"), TEXT_BYTES, "%" PRId64, c->step);
    tn_rng_state rng = tn_rng_state_get();
    snprintf(add_text(t, "random"), TEXT_BYTES, "%" PRIu64 " %" PRIu64,
             rng.seed, rng.call);
    if (c->loader) {
        tn_loader_state s = tn_loader_state_get(c->loader);
        snprintf(add_text(t, loader_key), TEXT_BYTES,
                 "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64,
                 s.seed, s.epoch, s.batch, s.batch_size, s.sample_count);
    }
    if (c->schedule)
        snprintf(add_text(t, schedule_key), TEXT_BYTES, "%" PRId64,
                 tn_schedule_steps(c->schedule));
    if (c->module)
        snprintf(add_text(t, "module"), TEXT_BYTES, "1");
    if (optim_text) {
        t->pair[t->count][0] = "optim.optimizer";
        t->pair[t->count++][1] = optim_text;
    }
}

tn_status tn_checkpoint_save(const char *path, const tn_checkpoint *checkpoint)
{
    tn_status status = check_arguments("checkpoint_save", path, checkpoint);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    tn_parameter_list *state = tn_module_state(checkpoint->module);
    gather all = {0};
    free(gather_all(&all, checkpoint, state));
    char *optim_text = NULL;
    if (!tn_error() && make_room(&all))
        optim_text = gather_all(&all, checkpoint, state);
    if (!tn_error()) {
        texts metadata = {.count = 0};
        write_texts(&metadata, checkpoint, optim_text);
        tn_safetensors_save(path, all.name, all.tensor, all.count,
                            (const char *const (*)[2])metadata.pair,
                            metadata.count);
    }
    free(optim_text);
    tn_scope_close(scope);
    return tn_error_code();
}

/* ---- loading: the half that changes nothing ----------------------------- */

typedef struct loaded {
    const char *path;
    tn_safetensors *file, *module, *optim;
    tn_parameter_list *state; /* of the module; NULL for none */
    int64_t step, schedule_steps;
    tn_rng_state rng;
    tn_loader_state loader;
} loaded;

/* Whole numbers that a text holds, as many as wanted and nothing behind them. */
static tn_status read_numbers(const loaded *l, const char *key, int count,
                              uint64_t *out)
{
    const char *at = tn_safetensors_metadata(l->file, key);
    for (int i = 0; at && i < count; i++) {
        char *end;
        bool negative = at[strspn(at, " ")] == '-';
        out[i] = negative ? (uint64_t)strtoll(at, &end, 10)
                          : (uint64_t)strtoull(at, &end, 10);
        at = end == at ? NULL : end;
    }
    if (at && !*at)
        return TN_OK;
    return tn_error_set(TN_ERR_FORMAT,
                        "checkpoint_load %s: no \"%s\" in its metadata: not "
                        "written by tn_checkpoint_save",
                        l->path, key);
}

/* Is a part in both, or in neither? */
static tn_status check_part(const loaded *l, const char *part, bool wanted,
                            bool found)
{
    if (wanted == found)
        return TN_OK;
    return tn_error_set(TN_ERR_ARGUMENT,
                        found ? "checkpoint_load %s: the file has a %s, the "
                                "checkpoint has none"
                              : "checkpoint_load %s: the file has no %s",
                        l->path, part);
}

static tn_status check_parts(const loaded *l, const tn_checkpoint *c)
{
    const tn_safetensors *file = l->file;
    const struct {
        const char *name;
        bool wanted, found;
    } part[] = {
        {"module", c->module, tn_safetensors_metadata(file, "module")},
        {"state of an optimizer", c->optim,
         tn_safetensors_metadata(file, "optim.optimizer")},
        {"loader", c->loader, tn_safetensors_metadata(file, loader_key)},
        {"schedule", c->schedule, tn_safetensors_metadata(file, schedule_key)},
    };
    tn_status status = TN_OK;
    for (size_t i = 0; i < sizeof part / sizeof *part && status == TN_OK; i++)
        status = check_part(l, part[i].name, part[i].wanted, part[i].found);
    return status;
}

static tn_status check_tensor(const loaded *l, int i)
{
    const char *name = tn_parameters_name(l->state, i);
    tn_tensor *x = tn_parameters_at(l->state, i);
    if (!tn_safetensors_has(l->module, name))
        return tn_error_set(TN_ERR_ARGUMENT,
                            "checkpoint_load %s: the file's module has no "
                            "\"%s\"",
                            l->path, name);
    tn_tensor *y = tn_safetensors_tensor(l->module, name);
    if (!y)
        return tn_error_code();
    bool same = tn_tensor_dtype(x) == tn_tensor_dtype(y) &&
                tn_tensor_ndim(x) == tn_tensor_ndim(y);
    for (int d = 0; same && d < tn_tensor_ndim(x); d++)
        same = tn_tensor_shape(x)[d] == tn_tensor_shape(y)[d];
    if (same)
        return TN_OK;
    return tn_error_set(TN_ERR_SHAPE,
                        "checkpoint_load %s: \"%s\" has another shape or "
                        "dtype in the file (%s, %d dimensions, %lld elements) "
                        "than in the module (%s, %d, %lld)",
                        l->path, name, tn_dtype_name(tn_tensor_dtype(y)),
                        tn_tensor_ndim(y), (long long)tn_tensor_numel(y),
                        tn_dtype_name(tn_tensor_dtype(x)), tn_tensor_ndim(x),
                        (long long)tn_tensor_numel(x));
}

static tn_status check_module(const loaded *l)
{
    tn_status status = TN_OK;
    int count = tn_parameters_count(l->state);
    for (int i = 0; i < count && status == TN_OK; i++)
        status = check_tensor(l, i);
    if (status == TN_OK && tn_safetensors_count(l->module) != count)
        status = tn_error_set(TN_ERR_ARGUMENT,
                              "checkpoint_load %s: the file's module has %d "
                              "tensors, the checkpoint's %d",
                              l->path, tn_safetensors_count(l->module), count);
    return status;
}

/* Would the loader take the state? It is asked, and set back. */
static tn_status check_loader(const loaded *l, tn_loader *loader)
{
    tn_loader_state before = tn_loader_state_get(loader);
    tn_status status = tn_loader_state_set(loader, l->loader);
    return status == TN_OK ? tn_loader_state_set(loader, before) : status;
}

static tn_status read_schedule(loaded *l)
{
    uint64_t steps = 0;
    tn_status status = read_numbers(l, schedule_key, 1, &steps);
    l->schedule_steps = (int64_t)steps;
    if (status == TN_OK && l->schedule_steps < 0)
        status = tn_error_set(TN_ERR_FORMAT,
                              "checkpoint_load %s: a schedule of %lld steps",
                              l->path, (long long)l->schedule_steps);
    return status;
}

static tn_status read_loader(loaded *l, tn_loader *loader)
{
    uint64_t n[5] = {0};
    tn_status status = read_numbers(l, loader_key, 5, n);
    l->loader = (tn_loader_state){n[0], n[1], (int64_t)n[2], (int64_t)n[3],
                                  (int64_t)n[4]};
    return status == TN_OK ? check_loader(l, loader) : status;
}

static tn_status read_file(loaded *l, const tn_checkpoint *c)
{
    l->file = tn_safetensors_open(l->path);
    l->module = tn_safetensors_part(l->file, module_prefix);
    l->optim = tn_safetensors_part(l->file, optim_prefix);
    l->state = tn_module_state(c->module);
    if (tn_error())
        return tn_error_code();
    uint64_t step = 0, random[2] = {0};
    tn_status status = read_numbers(l, "step", 1, &step);
    if (status == TN_OK)
        status = read_numbers(l, "random", 2, random);
    l->step = (int64_t)step;
    l->rng = (tn_rng_state){random[0], random[1]};
    if (status == TN_OK)
        status = check_parts(l, c);
    if (status == TN_OK && c->schedule)
        status = read_schedule(l);
    if (status == TN_OK && c->loader)
        status = read_loader(l, c->loader);
    return status == TN_OK ? check_module(l) : status;
}

/* ---- loading: the half that copies -------------------------------------- */

static tn_status copy_module(const loaded *l)
{
    int count = tn_parameters_count(l->state);
    for (int i = 0; i < count; i++) {
        tn_tensor *x = tn_parameters_at(l->state, i);
        tn_tensor *y = tn_safetensors_tensor(l->module,
                                             tn_parameters_name(l->state, i));
        if (!tn_copy_(x, tn_to(y, tn_tensor_device(x))))
            return tn_error_code();
    }
    return TN_OK;
}

static tn_status take_all(const loaded *l, const tn_checkpoint *c)
{
    tn_status status =
        c->optim ? tn_optim_load_part(c->optim, l->optim) : TN_OK;
    TN_NO_GRAD {
        if (status == TN_OK)
            status = copy_module(l);
    }
    if (status == TN_OK && c->schedule)
        status = tn_schedule_set_steps(c->schedule, l->schedule_steps);
    if (status == TN_OK && c->loader)
        status = tn_loader_state_set(c->loader, l->loader);
    if (status == TN_OK)
        tn_rng_state_set(l->rng);
    return status;
}

tn_status tn_checkpoint_load(const char *path, tn_checkpoint *checkpoint)
{
    tn_status status = check_arguments("checkpoint_load", path, checkpoint);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    loaded l = {.path = path};
    status = read_file(&l, checkpoint);
    if (status == TN_OK)
        status = take_all(&l, checkpoint);
    if (status == TN_OK)
        checkpoint->step = l.step;
    tn_scope_close(scope);
    return status;
}
