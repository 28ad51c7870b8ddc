/* checkpoint.c: saves the state of a training run (module, optimizer, averages,
 * loader, schedule, random numbers) in one safetensors file. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>
#include <tenon/random.h>
#include <train/checkpoint_parts.h>

enum { TEXT_BYTES = 160, MAX_TEXTS = 10 };
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
        (checkpoint->value_count < 0 ||
         checkpoint->value_count > TN__CHECKPOINT_VALUES ||
         (checkpoint->value_count && !checkpoint->values)))
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call, "checkpoint",
            "value_count is %lld, values is %s: at most %d values are saved",
            (long long)checkpoint->value_count,
            checkpoint->values ? "given" : "NULL", TN__CHECKPOINT_VALUES);
    return TN_OK;
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

tn_status tn__checkpoint_check(const char *call, const char *path,
                               const tn_checkpoint *theirs, tn_checkpoint *c)
{
    tn_status status = check_arguments(call, path, theirs);
    if (status < 0)
        return status;
    *c = (tn_checkpoint){.size = 0};
    memcpy(c, theirs, theirs->size < sizeof *c ? theirs->size : sizeof *c);
    status = check_kinds(call, c);
    if (status == TN_OK && tn_average_is_swapped(c->average))
        return tn_error_refuse_argument(
            TN_ERR_STATE, call, "checkpoint",
            "the module holds the averages: call tn_average_swap first");
    return status;
}

/* ---- saving ------------------------------------------------------------- */

/* A list of tensors and their names. The tensors are visited twice: the first
 * time they are counted, the second time they are added to the list. */
typedef struct gather {
    const char *prefix; /* precedes the names of the current part */
    size_t name_bytes;  /* size of all names */
    int count;
    tn_tensor **tensor; /* NULL while tensors are counted */
    const char **name;
    char *next_name; /* where the next name is written */
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
 * in tensors, as a string that the caller frees, or NULL. */
static char *gather_all(gather *g, const tn_checkpoint *c,
                        const tn_parameter_list *state)
{
    g->count = 0;
    g->prefix = TN__MODULE_PREFIX;
    for (int i = 0; i < tn_parameters_count(state); i++)
        gather_one(tn_parameters_name(state, i), tn_parameters_at(state, i), g);
    g->prefix = TN__AVERAGE_PREFIX;
    for (int i = 0; i < tn_average_count(c->average); i++)
        gather_one(tn_average_name(c->average, i), tn_average_at(c->average, i),
                   g);
    g->prefix = TN__OPTIM_PREFIX;
    return c->optim ? tn_optim_state(c->optim, gather_one, g) : NULL;
}

static const tn_object_class list_class = {
    sizeof list_class, "checkpoint's list", sizeof(tn_object), NULL};

/* Allocates the list for the tensors that were counted. The open scope owns
 * it. */
static bool make_room(gather *g)
{
    size_t count = (size_t)g->count;
    char *room =
        tn_object_new(&list_class, count * 2 * sizeof(void *) + g->name_bytes);
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
        snprintf(add_text(t, TN__LOADER_KEY), TEXT_BYTES,
                 "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64,
                 s.seed, s.epoch, s.batch, s.batch_size, s.sample_count);
        /* The same for loaders of any number of processes. */
        tn_loader_position at = tn_loader_tell(c->loader);
        snprintf(add_text(t, TN__POSITION_KEY), TEXT_BYTES,
                 "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %" PRId64,
                 at.seed, at.epoch, at.sample, at.sample_count, at.unit);
    }
    if (c->schedule) { /* the best metric is written as the integer of its
                          bits */
        tn_schedule_state s = tn_schedule_snapshot(c->schedule);
        snprintf(add_text(t, TN__SCHEDULE_KEY), TEXT_BYTES,
                 "%" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64, s.steps,
                 s.bad_steps, s.cooldown, bits_of(s.best));
    }
    if (c->scaler) { /* doubles are written as their bits in hexadecimal,
                        because decimal points depend on the locale */
        tn_grad_scaler_state s = tn_grad_scaler_snapshot(c->scaler);
        snprintf(add_text(t, TN__SCALER_KEY), TEXT_BYTES,
                 "%" PRId64 " %" PRId64 " %" PRIx64 " %" PRIx64 " %" PRIx64,
                 s.growth_interval, s.growth_tracker, bits_of(s.scale),
                 bits_of(s.growth_factor), bits_of(s.backoff_factor));
    }
    if (c->average)
        snprintf(add_text(t, TN__AVERAGE_KEY), TEXT_BYTES, "%" PRId64,
                 tn_average_updates(c->average));
    if (c->value_count) {
        char *text = add_text(t, TN__VALUES_KEY);
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

/* Calls write with what is to be saved. `call` is the public function. */
static tn_status write_all(const char *call, const char *path,
                           const tn_checkpoint *checkpoint,
                           tn_checkpoint_writer write, void *context)
{
    tn_checkpoint c;
    tn_status status = tn__checkpoint_check(call, path, checkpoint, &c);
    if (status < 0)
        return status;
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
        status = write(context, all.name, all.tensor, all.count,
                       (const char *const(*)[2])metadata.pair, metadata.count);
    }
    free(optim_text);
    tn_scope_close(scope);
    return tn_error() ? tn_error_code() : status;
}

tn_status tn_checkpoint_write(const tn_checkpoint *checkpoint,
                              tn_checkpoint_writer write, void *context)
{
    if (!write)
        return tn_error_refuse_argument(TN_ERR_ARGUMENT, "checkpoint_write",
                                        "write", "write is NULL");
    return write_all("checkpoint_write", "", checkpoint, write, context);
}

static tn_status write_file(void *path, const char *const *names,
                            tn_tensor *const *tensors, int count,
                            const char *const (*metadata)[2],
                            int metadata_count)
{
    tn_status status = tn_safetensors_save(path, names, tensors, count,
                                           metadata, metadata_count);
    tn_error_rename("safetensors_save", "checkpoint_save",
                    tn_error_code() == TN_ERR_IO ? "path" : "checkpoint");
    return status;
}

tn_status tn_checkpoint_save(const char *path, const tn_checkpoint *checkpoint)
{
    return write_all("checkpoint_save", path, checkpoint, write_file,
                     (void *)(uintptr_t)path);
}
