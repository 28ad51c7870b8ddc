/* checkpoint.c: saves and loads the state of a training run (module, optimizer,
 * averages, loader, schedule, random numbers) in one safetensors file.
 *
 * A part is one of these objects. Loading has two phases. The first reads and
 * checks everything and changes nothing. It needs host memory for all tensors
 * of the module. The second phase copies the state to the objects. It begins
 * with the optimizer, because loading it either succeeds completely or changes
 * nothing. After that only an error of the device can make loading fail. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/checkpoint.h>
#include <tenon/io.h>
#include <tenon/random.h>

static const char module_prefix[] = "module.", optim_prefix[] = "optim.",
                  average_prefix[] = "average.";
static const char loader_key[] = "loader", schedule_key[] = "schedule",
                  scaler_key[] = "scaler", average_key[] = "average.updates",
                  values_key[] = "values";

enum { TEXT_BYTES = 160, MAX_TEXTS = 9, MAX_VALUES = 6 };
/* The size of the oldest tn_checkpoint, which ended before the field scaler. */
enum { MIN_SIZE = offsetof(tn_checkpoint, scaler) };

static tn_status check_arguments(const char *call, const char *path,
                                 const tn_checkpoint *checkpoint)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!path || !checkpoint)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, path ? "checkpoint" : "path", "%s is NULL",
            path ? "checkpoint" : "path");
    if (checkpoint->size < MIN_SIZE)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "checkpoint",
            "size is %zu; set it to sizeof(tn_checkpoint)", checkpoint->size);
    if (checkpoint->size > offsetof(tn_checkpoint, value_count) &&
        (checkpoint->value_count < 0 || checkpoint->value_count > MAX_VALUES ||
         (checkpoint->value_count && !checkpoint->values)))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "checkpoint",
            "value_count is %lld, values is %s: at most %d values are saved",
            (long long)checkpoint->value_count,
            checkpoint->values ? "given" : "NULL", MAX_VALUES);
    return TN_OK;
}

/* Copies the caller's struct, which may be of an older and thus shorter
 * version. Missing fields are NULL or 0. */
static tn_checkpoint known_part(const tn_checkpoint *theirs)
{
    tn_checkpoint c = {.size = 0};
    memcpy(&c, theirs, theirs->size < sizeof c ? theirs->size : sizeof c);
    return c;
}

/* Checks that each part of a checkpoint is NULL or an object of the right
 * kind. */
static tn_status check_kinds(const char *call, const tn_checkpoint *c)
{
    const struct {
        const void *object;
        const char *kind, *name;
    } part[] = {{c->module, "module", "module"},
                {c->optim, "optimizer", "optim"},
                {c->loader, "loader", "loader"},
                {c->schedule, "schedule", "schedule"},
                {c->scaler, "gradient scaler", "scaler"},
                {c->average, "average", "average"}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (part[i].object &&
            !tn_object_check_kind(part[i].object, part[i].kind, call,
                                  part[i].name))
            return tn_error_code();
    return TN_OK;
}

/* ---- saving ------------------------------------------------------------- */

/* A list of tensors and their names. The tensors are visited twice: the first
 * time they are counted, the second time they are added to the list. */
typedef struct gather {
    const char *prefix;  /* precedes the names of the current part */
    size_t name_bytes;   /* size of all names */
    int count;
    tn_tensor **tensor;  /* NULL while tensors are counted */
    const char **name;
    char *next_name;     /* where the next name is written */
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

/* Visits all tensors of checkpoint c. Returns the optimizer's state that is not
 * in tensors, as a text that the caller frees, or NULL. */
static char *gather_all(gather *g, const tn_checkpoint *c,
                        const tn_parameter_list *state)
{
    g->count = 0;
    g->prefix = module_prefix;
    for (int i = 0; i < tn_parameters_count(state); i++)
        gather_one(tn_parameters_name(state, i), tn_parameters_at(state, i),
                   g);
    g->prefix = average_prefix;
    for (int i = 0; i < tn_average_count(c->average); i++)
        gather_one(tn_average_name(c->average, i),
                   tn_average_at(c->average, i), g);
    g->prefix = optim_prefix;
    return c->optim ? tn_optim_state(c->optim, gather_one, g) : NULL;
}

static const tn_object_class list_class = {sizeof list_class,
                                           "checkpoint's list",
                                           sizeof(tn_object), NULL};

/* Allocates the list for the tensors that were counted. The open scope owns
 * it. */
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
    const char *pair[MAX_TEXTS][2];
    char text[MAX_TEXTS][TEXT_BYTES];
    int count;
} texts;

static char *add_text(texts *t, const char *key)
{
    t->pair[t->count][0] = key;
    t->pair[t->count][1] = t->text[t->count];
    return t->text[t->count++];
}

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void write_texts(texts *t, const tn_checkpoint *c,
                        const char *optim_text)
{
    snprintf(add_text(t, "step"), TEXT_BYTES, "%" PRId64, c->step);
    tn_rng_state rng = tn_rng_snapshot();
    snprintf(add_text(t, "random"), TEXT_BYTES, "%" PRIu64 " %" PRIu64,
             rng.seed, rng.call);
    if (c->loader) {
        tn_loader_state s = tn_loader_snapshot(c->loader);
        snprintf(add_text(t, loader_key), TEXT_BYTES,
                 "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64,
                 s.seed, s.epoch, s.batch, s.batch_size, s.sample_count);
    }
    if (c->schedule) { /* the best metric is written as the integer of its
                          bits */
        tn_schedule_state s = tn_schedule_snapshot(c->schedule);
        snprintf(add_text(t, schedule_key), TEXT_BYTES,
                 "%" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64, s.steps,
                 s.bad_steps, s.cooldown, bits_of(s.best));
    }
    if (c->scaler) { /* doubles are written as their bits in hexadecimal,
                        because decimal points depend on the locale */
        tn_grad_scaler_state s = tn_grad_scaler_snapshot(c->scaler);
        snprintf(add_text(t, scaler_key), TEXT_BYTES,
                 "%" PRId64 " %" PRId64 " %" PRIx64 " %" PRIx64 " %" PRIx64,
                 s.growth_interval, s.growth_tracker, bits_of(s.scale),
                 bits_of(s.growth_factor), bits_of(s.backoff_factor));
    }
    if (c->average)
        snprintf(add_text(t, average_key), TEXT_BYTES, "%" PRId64,
                 tn_average_updates(c->average));
    if (c->value_count) {
        char *text = add_text(t, values_key);
        for (int64_t i = 0, at = 0; i < c->value_count; i++)
            at += snprintf(text + at, TEXT_BYTES - (size_t)at, "%s%" PRIu64,
                           i ? " " : "", bits_of(c->values[i]));
    }
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
    tn_checkpoint c = known_part(checkpoint);
    status = check_kinds("checkpoint_save", &c);
    if (status < 0)
        return status;
    if (tn_average_is_swapped(c.average))
        return tn_error_refuse_argument(
            TN_ERR_STATE, "checkpoint_save", "checkpoint",
            "the module holds the averages: call tn_average_swap first");
    tn_scope *scope = tn_scope_open();
    tn_parameter_list *state = c.module ? tn_module_state(c.module) : NULL;
    gather all = {0};
    free(gather_all(&all, &c, state));
    char *optim_text = NULL;
    if (!tn_error() && make_room(&all))
        optim_text = gather_all(&all, &c, state);
    if (!tn_error()) {
        texts metadata = {.count = 0};
        write_texts(&metadata, &c, optim_text);
        tn_safetensors_save(path, all.name, all.tensor, all.count,
                            (const char *const (*)[2])metadata.pair,
                            metadata.count);
        tn_error_rename("safetensors_save", "checkpoint_save",
                        tn_error_code() == TN_ERR_IO ? "path" : "checkpoint");
    }
    free(optim_text);
    tn_scope_close(scope);
    return tn_error_code();
}

/* ---- loading: the phase that changes nothing ---------------------------- */

typedef struct loaded {
    const char *path;
    tn_safetensors *file, *module, *optim, *averages;
    tn_parameter_list *state; /* the module's parameters and buffers; NULL if
                                 there is no module */
    char *data; /* contents of all tensors to load, owned by the open scope */
    int64_t step;
    tn_schedule_state schedule;
    tn_rng_state rng;
    tn_loader_state loader;
    tn_grad_scaler_state scaler;
    int64_t updates;
    uint64_t values[MAX_VALUES]; /* the doubles' bits */
} loaded;

/* A group of tensors to load: the module's tensors, or their averages. */
typedef struct section {
    const char *what;
    tn_safetensors *file;
    const tn_parameter_list *list; /* the module's parameters and buffers */
    const tn_average *average; /* if not NULL, the averages of the list's
                                  tensors are loaded */
} section;

enum { MODULE, AVERAGES, SECTIONS };

static section section_of(const loaded *l, const tn_checkpoint *c, int which)
{
    return which == MODULE
               ? (section){"module", l->module, l->state, NULL}
               : (section){"running average", l->averages, NULL, c->average};
}

static int section_count(const section *p)
{
    return p->average ? tn_average_count(p->average)
                      : tn_parameters_count(p->list);
}

static tn_tensor *section_tensor(const section *p, int i)
{
    return p->average ? tn_average_at(p->average, i)
                      : tn_parameters_at(p->list, i);
}

static const char *section_name(const section *p, int i)
{
    return p->average ? tn_average_name(p->average, i)
                      : tn_parameters_name(p->list, i);
}

/* Reads `count` integers from the metadata text `key`, which must not contain
 * anything else. */
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
    return tn_error_refuse_argument(
        TN_ERR_FORMAT, "checkpoint_load", "path",
        "%s: no \"%s\" in its metadata: not written by tn_checkpoint_save",
        l->path, key);
}

/* Checks that a part is in both the file and the checkpoint struct, or in
 * neither. */
static tn_status check_part(const loaded *l, const char *part, bool wanted,
                            bool found)
{
    if (wanted == found)
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_ARGUMENT, "checkpoint_load", "path",
        found ? "%s: the file has a %s, the checkpoint has none"
              : "%s: the file has no %s",
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
        {"scaler", c->scaler, tn_safetensors_metadata(file, scaler_key)},
        {"running average", c->average,
         tn_safetensors_metadata(file, average_key)},
        {"list of values", c->value_count,
         tn_safetensors_metadata(file, values_key)},
    };
    tn_status status = TN_OK;
    for (size_t i = 0; i < sizeof part / sizeof *part && status == TN_OK; i++)
        status = check_part(l, part[i].name, part[i].wanted, part[i].found);
    return status;
}

static tn_status check_tensor(const loaded *l, const section *p, int i)
{
    const char *name = section_name(p, i);
    tn_tensor *x = section_tensor(p, i);
    if (!tn_safetensors_has(p->file, name))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "checkpoint_load", "path",
            "%s: the file's %s has no \"%s\"", l->path, p->what, name);
    tn_dtype dtype = tn_safetensors_dtype(p->file, name);
    int ndim = tn_safetensors_ndim(p->file, name);
    const int64_t *shape = tn_safetensors_shape(p->file, name);
    bool same = tn_tensor_dtype(x) == dtype && tn_tensor_ndim(x) == ndim;
    int64_t numel = 1;
    for (int d = 0; d < ndim; d++) {
        same = same && tn_tensor_shape(x)[d] == shape[d];
        numel *= shape[d];
    }
    if (same)
        return TN_OK;
    return tn_error_refuse_argument(
        TN_ERR_SHAPE, "checkpoint_load", "path",
        "%s: \"%s\" has another shape or dtype in the file (%s, %d dimensions, "
        "%lld elements) than in the %s (%s, %d, %lld)",
        l->path, name, dtype ? tn_dtype_name(dtype) : "unsupported dtype", ndim,
        (long long)numel, p->what, tn_dtype_name(tn_tensor_dtype(x)),
        tn_tensor_ndim(x), (long long)tn_tensor_numel(x));
}

static tn_status check_tensors(const loaded *l, section p)
{
    tn_status status = TN_OK;
    int count = section_count(&p);
    for (int i = 0; i < count && status == TN_OK; i++)
        status = check_tensor(l, &p, i);
    if (status == TN_OK && tn_safetensors_count(p.file) != count)
        status = tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "checkpoint_load", "path",
            "%s: the file's %s has %d tensors, the checkpoint's %d", l->path,
            p.what, tn_safetensors_count(p.file), count);
    return status;
}

static size_t section_bytes(const section *p, int i)
{
    const tn_tensor *x = section_tensor(p, i);
    return (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
}

/* Calls visit(section, i, data) for each tensor to load, where data is the
 * address of its contents in l->data. */
static tn_status each_tensor(const loaded *l, const tn_checkpoint *c,
                             tn_status (*visit)(const section *p, int i,
                                                char *data))
{
    tn_status status = TN_OK;
    char *data = l->data;
    for (int k = 0; k < SECTIONS; k++) {
        section p = section_of(l, c, k);
        int count = section_count(&p);
        for (int i = 0; i < count && status == TN_OK; i++) {
            status = visit(&p, i, data);
            data += section_bytes(&p, i);
        }
    }
    return status;
}

static tn_status read_tensor(const section *p, int i, char *data)
{
    return tn_safetensors_read(p->file, section_name(p, i), data,
                               section_bytes(p, i));
}

static tn_status read_tensors(loaded *l, const tn_checkpoint *c)
{
    size_t bytes = 0; /* cannot overflow, because tensors of this size are in
                         memory */
    for (int k = 0; k < SECTIONS; k++) {
        section p = section_of(l, c, k);
        for (int i = 0; i < section_count(&p); i++)
            bytes += section_bytes(&p, i);
    }
    char *room = tn_object_new(&list_class, bytes);
    if (!room)
        return tn_error_code();
    l->data = room + sizeof(tn_object);
    return each_tensor(l, c, read_tensor);
}

/* Checks that the loader accepts the state in the file, by restoring it and
 * then the loader's old state. */
static tn_status check_loader(const loaded *l, tn_loader *loader)
{
    tn_loader_state before = tn_loader_snapshot(loader);
    tn_status status = tn_loader_restore(loader, l->loader);
    return status == TN_OK ? tn_loader_restore(loader, before) : status;
}

/* Reads the schedule's state, and checks that the schedule accepts it by
 * restoring it and then the old state. */
static tn_status read_schedule(loaded *l, tn_schedule *schedule)
{
    uint64_t n[4] = {0};
    tn_status status = read_numbers(l, schedule_key, 4, n);
    if (status < 0)
        return status;
    l->schedule =
        (tn_schedule_state){(int64_t)n[0], (int64_t)n[1], (int64_t)n[2], 0};
    memcpy(&l->schedule.best, &n[3], sizeof l->schedule.best);
    tn_schedule_state before = tn_schedule_snapshot(schedule);
    status = tn_schedule_restore(schedule, l->schedule);
    return status == TN_OK ? tn_schedule_restore(schedule, before) : status;
}

static tn_status read_scaler(loaded *l)
{
    tn_grad_scaler_state *s = &l->scaler;
    const char *text = tn_safetensors_metadata(l->file, scaler_key);
    int end = 0;
    uint64_t scale, growth, backoff;
    if (sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64
               "%n", &s->growth_interval, &s->growth_tracker, &scale, &growth,
               &backoff, &end) != 5 || text[end])
        return tn_error_refuse_argument(
            TN_ERR_FORMAT, "checkpoint_load", "path",
            "%s: \"%s\" in its metadata is not a scaler's state", l->path,
            scaler_key);
    memcpy(&s->scale, &scale, sizeof s->scale);
    memcpy(&s->growth_factor, &growth, sizeof s->growth_factor);
    memcpy(&s->backoff_factor, &backoff, sizeof s->backoff_factor);
    /* Checks that a scaler accepts the state, by restoring it in a new scaler,
     * which the scope frees. */
    tn_grad_scaler *probe = tn_grad_scaler_new();
    return probe ? tn_grad_scaler_restore(probe, *s) : tn_error_code();
}

static tn_status read_updates(loaded *l)
{
    uint64_t updates = 0;
    tn_status status = read_numbers(l, average_key, 1, &updates);
    l->updates = (int64_t)updates;
    if (status == TN_OK && l->updates < 0)
        status = tn_error_refuse_argument(
            TN_ERR_FORMAT, "checkpoint_load", "path",
            "%s: an average of %lld updates", l->path, (long long)l->updates);
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
    l->averages = tn_safetensors_part(l->file, average_prefix);
    l->state = c->module ? tn_module_state(c->module) : NULL;
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
        status = read_schedule(l, c->schedule);
    if (status == TN_OK && c->loader)
        status = read_loader(l, c->loader);
    if (status == TN_OK && c->scaler)
        status = read_scaler(l);
    if (status == TN_OK && c->average)
        status = read_updates(l);
    if (status == TN_OK && c->value_count)
        status = read_numbers(l, values_key, (int)c->value_count, l->values);
    for (int k = 0; k < SECTIONS && status == TN_OK; k++)
        status = check_tensors(l, section_of(l, c, k));
    return status == TN_OK ? read_tensors(l, c) : status;
}

/* ---- loading: the phase that copies ------------------------------------- */

static tn_status copy_tensor(const section *p, int i, char *data)
{
    return tn_tensor_set_array(section_tensor(p, i), data, section_bytes(p, i));
}

static tn_status apply_all(const loaded *l, const tn_checkpoint *c)
{
    tn_status status =
        c->optim ? tn_optim_load_part(c->optim, l->optim) : TN_OK;
    if (status == TN_OK)
        status = each_tensor(l, c, copy_tensor);
    if (status == TN_OK && c->schedule)
        status = tn_schedule_restore(c->schedule, l->schedule);
    if (status == TN_OK && c->loader)
        status = tn_loader_restore(c->loader, l->loader);
    if (status == TN_OK && c->scaler)
        status = tn_grad_scaler_restore(c->scaler, l->scaler);
    if (status == TN_OK && c->average)
        status = tn_average_set_updates(c->average, l->updates);
    if (status == TN_OK)
        tn_rng_restore(l->rng);
    return status;
}

/* If loading a part has recorded an error, replaces the name of the function
 * that failed by checkpoint_load, which the program called. Names the argument
 * at fault: `checkpoint` if the state does not fit its objects, else `path`. */
static void rename_error(void)
{
    static const char *const part[] = {
        "safetensors_open",    "safetensors_tensor", "optim_load_part",
        "schedule_restore",    "loader_restore",     "grad_scaler_restore",
        "average_set_updates",
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        tn_error_rename(part[i], "checkpoint_load",
                        tn_error_code() == TN_ERR_UNSUPPORTED ||
                                tn_error_code() == TN_ERR_STATE
                            ? "checkpoint"
                            : "path");
}

tn_status tn_checkpoint_load(const char *path, tn_checkpoint *checkpoint)
{
    tn_status status = check_arguments("checkpoint_load", path, checkpoint);
    if (status < 0)
        return status;
    tn_checkpoint c = known_part(checkpoint);
    status = check_kinds("checkpoint_load", &c);
    if (status < 0)
        return status;
    if (tn_average_is_swapped(c.average))
        return tn_error_refuse_argument(
            TN_ERR_STATE, "checkpoint_load", "checkpoint",
            "the module holds the averages: call tn_average_swap first");
    tn_scope *scope = tn_scope_open();
    loaded l = {.path = path};
    status = read_file(&l, &c);
    if (status == TN_OK)
        status = apply_all(&l, &c);
    if (status == TN_OK)
        checkpoint->step = l.step;
    if (status == TN_OK && c.value_count)
        memcpy(checkpoint->values, l.values,
               (size_t)c.value_count * sizeof(double));
    rename_error();
    tn_scope_close(scope);
    return status;
}
