/* capture.c: runs a function and records the device work that it submits, then
 * finds out which values the work reads and writes. */
#include <compile/capture.h>

#include <base/context.h>
#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>
#include <tenon/autograd.h>

#include <stdlib.h>
#include <string.h>

/* ---- values -------------------------------------------------------------- */

/* The memory of a kept storage, for a search by address. */
typedef struct memory {
    const tn_buffer *buffer;
    int64_t from, until; /* in bytes of the buffer */
    size_t kept;         /* number in record->kept */
    int64_t value;       /* number of the storage's current value, or -1 */
} memory;

static int by_address(const void *a, const void *b)
{
    const memory *x = a, *y = b;
    if (x->buffer != y->buffer)
        return (uintptr_t)x->buffer < (uintptr_t)y->buffer ? -1 : 1;
    return (x->from > y->from) - (x->from < y->from);
}

/* Returns the memory that contains this byte of the buffer. */
static memory *memory_at(memory *all, size_t count, const tn_buffer *buffer,
                         int64_t at)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const memory key = {.buffer = buffer, .from = at};
        if (by_address(&all[middle], &key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    memory *found = low ? &all[low - 1] : NULL;
    return found && found->buffer == buffer && at >= found->from &&
                   at <= found->until
               ? found
               : NULL;
}

/* Returns the number of the first input with this storage, or -1. */
static int input_of(const tn__storage *storage, tn_tensor *const *in,
                    int in_count)
{
    for (int i = 0; i < in_count; i++)
        if (in[i]->storage == storage)
            return i;
    return -1;
}

/* Appends a value of a kept storage. Its kind is known when the recording has
 * ended. */
static bool value_add(tn__capture *c, tn__storage *storage, int64_t *number)
{
    if (!tn__grow(&c->value, &c->value_room, c->value_count, sizeof *c->value))
        return false;
    *number = (int64_t)c->value_count;
    c->value[c->value_count++] = (tn__captured_value){
        .kind = TN__VALUE_TEMPORARY,
        .storage = storage,
        .table = storage->table,
        .bytes = (int64_t)storage->bytes,
        .origin = (int64_t)storage->block->offset};
    return true;
}

static bool uses_of_command(tn__capture *c, tn__command *command, memory *all,
                            size_t count)
{
    tn__access access[TN__ACCESS_MAX];
    tn__step *step = &c->step[c->step_count++];
    *step = (tn__step){.command = command,
                       .what = command->what,
                       .first_use = (uint32_t)c->use_count};
    const int accesses = tn__command_accesses(command, access);
    for (int i = 0; i < accesses; i++) {
        memory *m = memory_at(all, count, *access[i].buffer, access[i].low);
        if (!m) {
            tn__fail(TN_ERR_STATE, "%s uses memory that belongs to no tensor "
                     "of the recording; this is a fault of the library: report "
                     "it", command->what);
            return false;
        }
        if (m->value < 0 &&
            !value_add(c, c->record->kept[m->kept].object, &m->value))
            return false;
        if (!tn__grow(&c->use, &c->use_room, c->use_count, sizeof *c->use))
            return false;
        c->value[m->value].written |= access[i].writes;
        c->use[c->use_count++] = (tn__use){access[i], (uint32_t)m->value};
        step->use_count++;
    }
    return true;
}

/* Fills in step[], use[] and value[]. `all` has the memory of each kept storage,
 * in the order of addresses. */
static bool find_uses(tn__capture *c, memory *all, size_t count)
{
    const tn__record *record = c->record;
    size_t reuse = 0;
    for (tn__command *p = record->first; p; p = p->next) {
        for (; reuse < record->reuse_count &&
               record->reuses[reuse].at <= (int64_t)c->step_count;
             reuse++)
            for (size_t m = 0; m < count; m++)
                if (all[m].kept == record->reuses[reuse].kept)
                    all[m].value = -1;
        if (!uses_of_command(c, p, all, count))
            return false;
    }
    for (; reuse < record->reuse_count; reuse++)
        for (size_t m = 0; m < count; m++)
            if (all[m].kept == record->reuses[reuse].kept)
                all[m].value = -1;
    return true;
}

/* Finds the kind of each storage's last value. Earlier values are
 * temporary. */
static bool find_kinds(tn__capture *c, memory *all, size_t count,
                       tn_tensor *const *in, int in_count,
                       tn_tensor *const *out, int out_count)
{
    for (size_t m = 0; m < count; m++) {
        const struct tn__kept *kept = &c->record->kept[all[m].kept];
        tn__storage *storage = kept->object;
        const int input = input_of(storage, in, in_count);
        const int output = input_of(storage, out, out_count);
        if (all[m].value < 0 && output >= 0 &&
            !value_add(c, storage, &all[m].value))
            return false;
        if (all[m].value < 0)
            continue;
        tn__captured_value *value = &c->value[all[m].value];
        if (input >= 0) {
            value->kind = TN__VALUE_INPUT;
            value->index = input;
            value->origin +=
                in[input]->offset * (int64_t)tn_dtype_bytes(in[input]->dtype);
        } else if (kept->made && output >= 0) {
            value->kind = TN__VALUE_OUTPUT;
        } else if (!kept->made) {
            value->kind = TN__VALUE_EXTERNAL;
        } else if (atomic_load(&storage->references) > 1) {
            value->kind = TN__VALUE_KEPT;
        }
    }
    return true;
}

/* Describes an output as a view of a value. */
static bool describe_output(tn__capture *c, memory *all, size_t count,
                            tn_tensor *const *in, int in_count,
                            const tn_tensor *x)
{
    tn__output *to = &c->output[c->output_count++];
    int64_t value = -1;
    for (size_t m = 0; m < count && value < 0; m++)
        if (c->record->kept[all[m].kept].object == (void *)x->storage)
            value = all[m].value;
    const int input = input_of(x->storage, in, in_count);
    if (value < 0) { /* no command uses the storage */
        if (!value_add(c, x->storage, &value))
            return false;
        c->value[value].kind = input >= 0 ? TN__VALUE_INPUT
                                          : TN__VALUE_EXTERNAL;
        if (input >= 0) {
            c->value[value].index = input;
            c->value[value].origin +=
                in[input]->offset * (int64_t)tn_dtype_bytes(in[input]->dtype);
        }
    }
    if (tn__value_is_fixed(c->value[value].kind) &&
        !(to->base = tn__tensor_alias(x)))
        return false;
    if (to->base)
        atomic_fetch_add(&x->storage->saved, 1);
    to->value = (uint32_t)value;
    to->dtype = x->dtype;
    to->ndim = x->ndim;
    to->from = (int64_t)x->storage->block->offset - c->value[value].origin +
               x->offset * (int64_t)tn_dtype_bytes(x->dtype);
    memcpy(to->shape, x->shape, sizeof *x->shape * x->ndim);
    memcpy(to->stride, x->stride, sizeof *x->stride * x->ndim);
    return true;
}

/* Rejects tensors that wrap the same memory: a program would take them for
 * different memory. */
static bool check_wrapped(const tn__record *record)
{
    for (size_t i = 0; i < record->kept_count; i++) {
        const tn__storage *x = record->kept[i].object;
        for (size_t k = 0; k < record->kept_count && x->wrapped; k++)
            if (k != i && tn__storages_overlap(x, record->kept[k].object)) {
                tn__fail(TN_ERR_STATE, "%s: two tensors of the function wrap the "
                         "same memory (tn_tensor_wrap): make one of them a view "
                         "of the other, or copy it (tn_clone)",
                         record->recorder);
                return false;
            }
    }
    return true;
}

/* Finds the values of a finished recording. */
static bool analyse(tn__capture *c, tn_tensor *const *in, int in_count,
                    tn_tensor *const *out, int out_count)
{
    const tn__record *record = c->record;
    memory *all = tn__calloc(record->kept_count + 1, sizeof *all);
    c->step_room = (size_t)record->count + 1;
    c->step = tn__calloc(c->step_room, sizeof *c->step);
    c->output = tn__calloc((size_t)out_count + 1, sizeof *c->output);
    bool done = all && c->step && c->output && check_wrapped(record);
    for (size_t i = 0; done && i < record->kept_count; i++) {
        const tn__storage *storage = record->kept[i].object;
        const int64_t from = (int64_t)storage->block->offset;
        all[i] = (memory){storage->block->buffer, from,
                          from + (int64_t)storage->bytes, i, -1};
    }
    if (done)
        qsort(all, record->kept_count, sizeof *all, by_address);
    done = done && find_uses(c, all, record->kept_count) &&
           find_kinds(c, all, record->kept_count, in, in_count, out, out_count);
    for (int o = 0; done && o < out_count; o++)
        done = describe_output(c, all, record->kept_count, in, in_count,
                               out[o]);
    tn__free(all);
    return done;
}

/* ---- the call ------------------------------------------------------------ */

static tn_status check_outputs(const char *name, const tn_device *device,
                               tn_tensor *const *out, int out_count)
{
    for (int o = 0; o < out_count; o++) {
        if (!out[o])
            return tn__fail(TN_ERR_ARGUMENT,
                            "%s: the function has not set out[%d]", name, o);
        if (!tn__tensor_is_live(out[o]))
            return tn__fail(TN_ERR_ARGUMENT,
                            "%s: out[%d] of the function is not a live tensor: "
                            "it was freed, perhaps by a scope of the function",
                            name, o);
        if (out[o]->storage->device != device)
            return tn__fail(TN_ERR_DEVICE,
                            "%s: out[%d] of the function is on %s, the inputs "
                            "are on %s", name, o, out[o]->storage->device->name,
                            device->name);
        if (out[o]->requires_grad && tn_grad_mode())
            return tn__fail(TN_ERR_STATE,
                            "%s: out[%d], made by %s, requires a gradient, "
                            "which a replay would not record: call within "
                            "TN_NO_GRAD, or return tn_detach(out[%d]) if the "
                            "function has called tn_backward", name, o,
                            out[o]->made_by ? out[o]->made_by : "the program",
                            o);
    }
    return TN_OK;
}

/* Runs fn in a scope of its own, so that its temporary tensors are freed. Stores
 * in out[] a new view of each output, with one reference that no scope owns. On
 * failure out[] is all NULL. */
static tn_status run_in_scope(const char *name, const tn_device *device,
                              tn_compile_fn fn, void *context,
                              tn_tensor *const *in, int in_count,
                              tn_tensor **out, int out_count)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *made[TN_COMPILE_MAX_OUTPUTS] = {NULL};
    tn_status status =
        scope ? fn(in, in_count, made, out_count, context) : tn_error_code();
    tn__clear_outputs(out, out_count);
    if (status < 0 && !tn__error_pending())
        tn__fail(status, "%s: the function failed without a reason", name);
    if (!tn__error_pending())
        check_outputs(name, device, made, out_count);
    for (int o = 0; o < out_count && !tn__error_pending(); o++)
        out[o] = tn__tensor_alias(made[o]);
    for (int o = 0; o < out_count && tn__error_pending(); o++) {
        tn__unref(out[o]);
        out[o] = NULL;
    }
    tn_scope_close(scope);
    return tn__error_pending() ? tn_error_code() : TN_OK;
}

/* Gives the outputs to the open scope. */
static tn_status own_outputs(tn_tensor **out, int out_count)
{
    tn_status status = TN_OK;
    for (int o = 0; o < out_count; o++)
        if (status < 0)
            tn__unref(out[o]);
        else if (!tn__scope_own(out[o]))
            status = TN_ERR_MEMORY;
    if (status < 0)
        tn__clear_outputs(out, out_count);
    return status;
}

tn_status tn__compiled_call(const char *name, tn_device *device,
                            tn_compile_fn fn, void *context,
                            tn_tensor *const *in, int in_count, tn_tensor **out,
                            int out_count)
{
    tn_status status = run_in_scope(name, device, fn, context, in, in_count,
                                    out, out_count);
    return status < 0 ? status : own_outputs(out, out_count);
}

tn__capture *tn__capture_call(const char *name, tn_device *device,
                              tn_compile_fn fn, void *context,
                              tn_tensor *const *in, int in_count,
                              tn_tensor **out, int out_count)
{
    tn__capture *c = tn__calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->record = tn__record_begin(device, "compiled_run", "compiled_run",
                                 tn__tensor_recorded_drop);
    if (!c->record) {
        tn__free(c);
        return NULL;
    }
    tn_status status = run_in_scope(name, device, fn, context, in, in_count,
                                    out, out_count);
    tn__record_end(c->record);
    bool done = status >= 0 && analyse(c, in, in_count, out, out_count);
    done = done && own_outputs(out, out_count) >= 0;
    if (done)
        return c;
    for (int o = 0; o < out_count && status >= 0 && out[o]; o++)
        tn__unref(out[o]);
    tn__clear_outputs(out, out_count);
    tn__capture_free(c);
    return NULL;
}

void tn__capture_release_memory(tn__capture *c, bool kept)
{
    tn__record *record = c->record;
    size_t left = 0;
    for (size_t i = 0; i < record->kept_count; i++) {
        bool external = false;
        for (size_t v = 0; v < c->value_count && !external; v++)
            external = (c->value[v].kind == TN__VALUE_EXTERNAL ||
                        (kept && c->value[v].kind == TN__VALUE_KEPT)) &&
                       c->value[v].storage == record->kept[i].object;
        if (external)
            record->kept[left++] = record->kept[i];
        else
            record->drop(record->kept[i].object);
    }
    record->kept_count = left;
}

void tn__capture_free(tn__capture *c)
{
    if (!c)
        return;
    for (size_t o = 0; o < c->output_count; o++)
        if (c->output[o].base) {
            atomic_fetch_sub(&c->output[o].base->storage->saved, 1);
            tn__unref(c->output[o].base);
        }
    tn__record_free(c->record);
    tn__free(c->step);
    tn__free(c->use);
    tn__free(c->value);
    tn__free(c->output);
    tn__free(c);
}
