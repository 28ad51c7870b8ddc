/* checkpoint_load.c: loads what checkpoint.c saved.
 *
 * Loading has two phases. The first reads and checks everything and changes
 * nothing. It needs host memory for all tensors of the module, and once more
 * for the largest tensor. The second phase exchanges the contents of the
 * tensors with what was read, so that a failure of a device can be undone. Then
 * it loads the optimizer, which either succeeds completely or changes nothing.
 * After that nothing can fail. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>
#include <tenon/random.h>
#include <train/checkpoint_parts.h>

/* ---- the phase that changes nothing -------------------------------------- */

static const tn_object_class data_class = {
    sizeof data_class, "checkpoint's data", sizeof(tn_object), NULL};

typedef struct loaded {
    const char *path;
    tn_safetensors *file, *module, *optim, *averages;
    tn_parameter_list *state; /* the module's parameters and buffers; NULL if
                                 there is no module */
    char *data; /* contents of all tensors to load, owned by the open scope.
                   Once a tensor has been loaded, its former contents */
    char *spare; /* room for the contents of one tensor */
    int exchanged; /* number of tensors that are loaded */
    int passed;    /* number of tensors whose former contents undo has
                      restored */
    int64_t step;
    tn_schedule_state schedule;
    tn_rng_state rng;
    tn_loader_state loader;
    tn_loader_position position;
    bool seeks; /* the position is what counts: the file has no state of this
                   loader alone */
    tn_grad_scaler_state scaler;
    int64_t updates;
    uint64_t values[TN__CHECKPOINT_VALUES]; /* the doubles' bits */
} loaded;

/* A group of tensors to load: the module's tensors, or their averages. */
typedef struct section {
    const char *what;
    tn_safetensors *file;
    const tn_parameter_list *list; /* the module's parameters and buffers */
    const tn_average *average;     /* if not NULL, the averages of the list's
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

/* Reads `count` integers from the metadata string `key`, which must not contain
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
        "%s: its metadata has no \"%s\"; expected a file of tn_checkpoint_save",
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
        {"loader", c->loader,
         tn_safetensors_metadata(file, TN__LOADER_KEY) ||
             tn_safetensors_metadata(file, TN__POSITION_KEY)},
        {"schedule", c->schedule,
         tn_safetensors_metadata(file, TN__SCHEDULE_KEY)},
        {"scaler", c->scaler, tn_safetensors_metadata(file, TN__SCALER_KEY)},
        {"running average", c->average,
         tn_safetensors_metadata(file, TN__AVERAGE_KEY)},
        {"list of values", c->value_count,
         tn_safetensors_metadata(file, TN__VALUES_KEY)},
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
            "%s: the file's %s has %d tensors, but the checkpoint's has %d",
            l->path,
            p.what, tn_safetensors_count(p.file), count);
    return status;
}

static size_t section_bytes(const section *p, int i)
{
    const tn_tensor *x = section_tensor(p, i);
    return (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
}

/* Calls visit(l, section, i, data) for each tensor to load, where data is the
 * address of its contents in l->data, until a visit fails. */
static tn_status each_tensor(loaded *l, const tn_checkpoint *c,
                             tn_status (*visit)(loaded *l, const section *p,
                                                int i, char *data))
{
    tn_status status = TN_OK;
    char *data = l->data;
    for (int k = 0; k < SECTIONS; k++) {
        section p = section_of(l, c, k);
        int count = section_count(&p);
        for (int i = 0; i < count && status == TN_OK; i++) {
            status = visit(l, &p, i, data);
            data += section_bytes(&p, i);
        }
    }
    return status;
}

static tn_status read_tensor(loaded *l, const section *p, int i, char *data)
{
    (void)l;
    return tn_safetensors_read(p->file, section_name(p, i), data,
                               section_bytes(p, i));
}

static tn_status read_tensors(loaded *l, const tn_checkpoint *c)
{
    size_t bytes = 0, most = 0; /* cannot overflow, because tensors of this size
                                   are in memory */
    for (int k = 0; k < SECTIONS; k++) {
        section p = section_of(l, c, k);
        for (int i = 0; i < section_count(&p); i++) {
            const size_t one = section_bytes(&p, i);
            bytes += one;
            most = one > most ? one : most;
        }
    }
    char *room = tn_object_new(&data_class, bytes + most);
    if (!room)
        return tn_error_code();
    l->data = room + sizeof(tn_object);
    l->spare = l->data + bytes;
    return each_tensor(l, c, read_tensor);
}

/* Checks that the loader accepts the state in the file, by restoring it and
 * then the loader's old state. */
static tn_status set_loader(const loaded *l, tn_loader *loader)
{
    return l->seeks ? tn_loader_seek(loader, l->position)
                    : tn_loader_restore(loader, l->loader);
}

static tn_status check_loader(const loaded *l, tn_loader *loader)
{
    const tn_loader_position position = tn_loader_tell(loader);
    const tn_loader_state before = tn_loader_snapshot(loader);
    tn_status status = set_loader(l, loader);
    if (status < 0)
        return status;
    return before.batch_size ? tn_loader_restore(loader, before)
                             : tn_loader_seek(loader, position);
}

/* Reads the schedule's state, and checks that the schedule accepts it by
 * restoring it and then the old state. */
static tn_status read_schedule(loaded *l, tn_schedule *schedule)
{
    uint64_t n[4] = {0};
    tn_status status = read_numbers(l, TN__SCHEDULE_KEY, 4, n);
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
    const char *text = tn_safetensors_metadata(l->file, TN__SCALER_KEY);
    int end = 0;
    uint64_t scale, growth, backoff;
    if (sscanf(text,
               "%" SCNd64 " %" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 "%n",
               &s->growth_interval, &s->growth_tracker, &scale, &growth,
               &backoff, &end) != 5 ||
        text[end])
        return tn_error_refuse_argument(
            TN_ERR_FORMAT, "checkpoint_load", "path",
            "%s: \"%s\" in its metadata is not a scaler's state", l->path,
            TN__SCALER_KEY);
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
    tn_status status = read_numbers(l, TN__AVERAGE_KEY, 1, &updates);
    l->updates = (int64_t)updates;
    if (status == TN_OK && l->updates < 0)
        status = tn_error_refuse_argument(
            TN_ERR_FORMAT, "checkpoint_load", "path",
            "%s: the file has an average of %lld updates",
            l->path, (long long)l->updates);
    return status;
}

static tn_status read_loader(loaded *l, tn_loader *loader)
{
    uint64_t n[5] = {0};
    const bool has_state = tn_safetensors_metadata(l->file, TN__LOADER_KEY);
    tn_status status =
        has_state ? read_numbers(l, TN__LOADER_KEY, 5, n) : TN_OK;
    l->loader = (tn_loader_state){n[0], n[1], (int64_t)n[2], (int64_t)n[3],
                                  (int64_t)n[4]};
    l->seeks = status == TN_OK && l->loader.batch_size == 0;
    if (l->seeks)
        status = read_numbers(l, TN__POSITION_KEY, 5, n);
    l->position = (tn_loader_position){n[0], n[1], (int64_t)n[2], (int64_t)n[3],
                                       (int64_t)n[4]};
    return status == TN_OK ? check_loader(l, loader) : status;
}

static tn_status read_file(loaded *l, const tn_checkpoint *c)
{
    l->module = tn_safetensors_part(l->file, TN__MODULE_PREFIX);
    l->optim = tn_safetensors_part(l->file, TN__OPTIM_PREFIX);
    l->averages = tn_safetensors_part(l->file, TN__AVERAGE_PREFIX);
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
        status =
            read_numbers(l, TN__VALUES_KEY, (int)c->value_count, l->values);
    for (int k = 0; k < SECTIONS && status == TN_OK; k++)
        status = check_tensors(l, section_of(l, c, k));
    return status == TN_OK ? read_tensors(l, c) : status;
}

/* ---- the phase that copies ----------------------------------------------- */

static tn_status exchange_tensor(loaded *l, const section *p, int i,
                                 char *data)
{
    tn_tensor *x = section_tensor(p, i);
    const size_t bytes = section_bytes(p, i);
    tn_status status = tn_tensor_to_array(x, l->spare, bytes);
    if (status < 0)
        return status;
    l->exchanged++; /* even if the next call fails: it may have copied a part */
    status = tn_tensor_set_array(x, data, bytes);
    memcpy(data, l->spare, bytes);
    return status;
}

/* Copies the old contents back to the tensor that was loaded last. (Tensors may
 * share memory, so they are restored in the opposite order.) */
static tn_status restore_tensor(loaded *l, const section *p, int i, char *data)
{
    return ++l->passed == l->exchanged
               ? tn_tensor_set_array(section_tensor(p, i), data,
                                     section_bytes(p, i))
               : TN_OK;
}

/* If loading a part has recorded an error, replaces the name of the function
 * that failed by checkpoint_load, which the program called. Names the argument
 * at fault: `checkpoint` if the state does not fit its objects, else `path`. */
static void rename_error(void)
{
    static const char *const part[] = {
        "safetensors_open",    "safetensors_tensor", "optim_load_part",
        "schedule_restore",    "loader_restore",     "grad_scaler_restore",
        "loader_seek",
        "average_set_updates",
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        tn_error_rename(part[i], "checkpoint_load",
                        tn_error_code() == TN_ERR_UNSUPPORTED ||
                                tn_error_code() == TN_ERR_STATE
                            ? "checkpoint"
                            : "path");
}

/* Copies the old contents back to the tensors that were loaded, and then sets
 * the pending error again, since no call works while one is pending. */
static tn_status undo(loaded *l, const tn_checkpoint *c)
{
    static const char call[] = "checkpoint_load: ";
    char message[2048];
    rename_error();
    const tn_status code = tn_error_code();
    const tn_error_details *info = tn_error_info();
    const char *argument = info ? info->argument : NULL;
    const char *lost = "";
    snprintf(message, sizeof message, "%s", tn_error());
    const char *text = strncmp(message, call, sizeof call - 1) == 0
                           ? message + sizeof call - 1
                           : message;
    tn_error_clear();
    for (; l->exchanged; l->exchanged--) {
        l->passed = 0;
        if (each_tensor(l, c, restore_tensor) < 0)
            lost = "; the old weights are lost";
        tn_error_clear();
    }
    return argument ? tn_error_refuse_argument(code, "checkpoint_load",
                                               argument, "%s%s", text, lost)
                    : tn_error_set(code, "%s%s", message, lost);
}

static tn_status apply_all(loaded *l, const tn_checkpoint *c)
{
    tn_status status = each_tensor(l, c, exchange_tensor);
    if (status == TN_OK && c->optim)
        status = tn_optim_load_part(c->optim, l->optim);
    if (status < 0)
        return l->exchanged ? undo(l, c) : status;
    if (c->schedule)
        status = tn_schedule_restore(c->schedule, l->schedule);
    if (status == TN_OK && c->loader)
        status = set_loader(l, c->loader);
    if (status == TN_OK && c->scaler)
        status = tn_grad_scaler_restore(c->scaler, l->scaler);
    if (status == TN_OK && c->average)
        status = tn_average_set_updates(c->average, l->updates);
    if (status == TN_OK)
        tn_rng_restore(l->rng);
    return status;
}

/* Loads a file, or opens that at path. */
static tn_status load(tn_safetensors *file, const char *path,
                      tn_checkpoint *checkpoint)
{
    tn_checkpoint c;
    tn_status status =
        tn__checkpoint_check("checkpoint_load", path, checkpoint, &c);
    if (status < 0)
        return status;
    tn_scope *scope = tn_scope_open();
    loaded l = {.path = path,
                .file = file ? file : tn_safetensors_open(path)};
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

tn_status tn_checkpoint_load(const char *path, tn_checkpoint *checkpoint)
{
    return load(NULL, path, checkpoint);
}

tn_status tn_checkpoint_load_part(tn_safetensors *part,
                                  tn_checkpoint *checkpoint)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!tn_object_check_kind(part, "safetensors file", "checkpoint_load_part",
                              "part"))
        return tn_error_code();
    tn_status status = load(part, tn_safetensors_path(part), checkpoint);
    tn_error_rename("checkpoint_load", "checkpoint_load_part", "part");
    return status;
}
