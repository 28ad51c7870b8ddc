/* program.c: makes a program of a capture: fuses launches, places temporary
 * values in an arena, and lists the operands that move from replay to replay. */
#include <compile/program.h>

#include <compile/arena.h>
#include <compile/donate.h>
#include <compile/epilogue.h>
#include <compile/fuse.h>
#include <compile/list.h>
#include <compile/passes.h>
#include <compile/report.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>
#include <ops/random/random.h>

#include <assert.h>
#include <string.h>

/* A program that is being made. */
typedef struct building {
    tn__replayed *program;
    tn__capture *capture;
    tn__lifetime *life; /* life[v]: of value v, if it is a temporary */
    tn__command_span *span; /* span[v]: of value v, if it is an input or output;
                             * owned */
    tn__move *place;    /* operands in temporaries, which get their memory when the
                         * arena exists; owned */
    size_t place_count, place_room;
    tn__entries entries;        /* the commands that are not yet in the program */
    tn__command *first, **last; /* the commands of the program, in order */
    size_t count;
    tn__text report;
} building;

/* Notes where the operands of a command are, and how long they live. `alone` is
 * false if the command is a part of a list. */
static bool place_uses(building *b, const tn__entry *entry, bool alone)
{
    for (uint32_t i = 0; i < entry->use_count; i++) {
        const tn__access *access = &entry->use[i].access;
        const uint32_t value = entry->use[i].value;
        const tn__captured_value *v = &b->capture->value[value];
        tn__move move = {access->buffer, access->offset, access->unit, value,
                         *access->offset * access->unit - v->origin};
        if (v->kind == TN__VALUE_TEMPORARY) {
            tn__lifetime *life = &b->life[value];
            if (!life->bytes)
                life->first = b->count;
            life->bytes = v->bytes ? (uint64_t)v->bytes : 1;
            life->last = b->count;
            if (!tn__grow(&b->place, &b->place_room, b->place_count,
                          sizeof *b->place))
                return false;
            b->place[b->place_count++] = move;
        } else if (!tn__value_is_fixed(v->kind)) {
            tn__replayed *p = b->program;
            if (!tn__grow(&p->move, &p->move_room, p->move_count,
                          sizeof *p->move))
                return false;
            p->move[p->move_count++] = move;
            entry->command->moves = true;
            tn__span_note(&b->span[value], v, b->count, entry,
                          alone ? entry->command : NULL);
        }
    }
    return true;
}

/* Takes the commands out of the entries, in order. Those of a list become one
 * command. */
static bool append_commands(building *b)
{
    for (size_t i = 0; i < b->entries.count; i++, b->count++) {
        tn__entry *first = b->entries.entry[i];
        tn__command **last = b->last;
        if (first->with)
            tn__report_list(&b->report, first);
        for (tn__entry *e = first; e; e = e->with) {
            if (!place_uses(b, e, !first->with))
                return false;
            *last = e->command;
            last = &e->command->with;
            e->command = NULL;
        }
        b->last = &(*b->last)->next;
    }
    return true;
}

/* Takes the command of a step out of the capture and adds it. */
static bool add_step(building *b, size_t s)
{
    tn__step *step = &b->capture->step[s];
    uint32_t value[TN__ACCESS_MAX];
    tn__command *command = step->command;
    for (uint32_t u = 0; u < step->use_count; u++)
        value[u] = b->capture->use[step->first_use + u].value;
    step->command = NULL;
    return tn__entries_add(&b->entries, command, value);
}

static bool add_group(building *b, tn__group *group)
{
    uint32_t value[TN__ACCESS_MAX];
    tn__command *command = NULL;
    if (group->after) {
        command = tn__epilogue_command(b->capture, group,
                                       b->capture->record->device, value);
        if (!command && tn__error_pending())
            return false;
        if (!command) {
            tn__group *after = group->after;
            group->after = NULL;
            const bool done =
                add_group(b, group) && add_group(b, after);
            group->after = after;
            return done;
        }
    }
    if (group->count > 1) {
        tn__part *part[TN__MERGE_MAX_PARTS];
        for (int p = 0; p < group->count; p++)
            part[p] = &group->part[p];
        tn__cut_coarsen(&group->cut, part, group->count);
        command = tn__group_command(b->capture, group,
                                    b->capture->record->device, value);
        if (!command && tn__error_pending())
            return false;
    }
    tn__report_group(&b->report, b->capture, group, command,
                     b->entries.count);
    if (command && !group->after)
        command->path = b->capture->step[group->step[0]].command->path;
    if (command)
        return tn__entries_add(&b->entries, command, value);
    for (int p = 0; p < group->count; p++)
        if (!add_step(b, group->step[p]))
            return false;
    return true;
}

/* Replaces the record's commands by those of the program, and frees the rest. */
static void replace_commands(building *b)
{
    tn__record *record = b->capture->record;
    for (size_t s = 0; s < b->capture->step_count; s++)
        tn__free(b->capture->step[s].command);
    record->first = b->first;
    record->last = b->first ? b->last : &record->first;
    record->count = (int64_t)b->count;
}

/* Makes the arena and puts the temporary values into it. */
static bool make_arena(building *b)
{
    tn__replayed *p = b->program;
    tn_device *device = b->capture->record->device;
    const uint64_t align = device->align > 64 ? device->align : 64;
    if (!tn__arena_plan(b->life, b->capture->value_count, align,
                        &p->arena_bytes, &p->bound_bytes))
        return false;
    for (size_t v = 0; v < b->capture->value_count; v++)
        if (b->capture->value[v].kind == TN__VALUE_TEMPORARY &&
            !b->capture->value[v].again)
            p->eager_bytes += (uint64_t)b->capture->value[v].bytes;
    if (!p->arena_bytes)
        return true;
    const int64_t bytes = (int64_t)p->arena_bytes;
    p->arena = tn__tensor_new(device, TN_U8, 1, &bytes, "compile");
    if (!p->arena)
        return false;
    assert(!tn__arena_overlaps(b->life, b->capture->value_count));
    p->base = (tn__arena_base){p->arena->storage->block->buffer,
                               (int64_t)p->arena->storage->block->offset};
    for (size_t i = 0; i < b->place_count; i++) {
        const tn__move *m = &b->place[i];
        const tn__block *block = p->arena->storage->block;
        *m->buffer = block->buffer;
        *m->offset = ((int64_t)(block->offset + b->life[m->value].place) +
                      m->from) / m->unit;
    }
    return true;
}

/* Releases the record's references to all storages but the external ones, and
 * lists those that the program writes. */
static bool keep_externals(building *b)
{
    tn__capture *c = b->capture;
    tn__replayed *p = b->program;
    p->written = tn__calloc(c->value_count + 1, sizeof *p->written);
    p->outputs = tn__calloc(c->value_count + 1, sizeof *p->outputs);
    if (!p->written || !p->outputs)
        return false;
    for (size_t v = 0; v < c->value_count; v++) {
        tn__captured_value *value = &c->value[v];
        if (value->kind == TN__VALUE_OUTPUT) {
            value->index = (int)p->output_count;
            p->outputs[p->output_count++] = (uint32_t)v;
        } else if (value->kind != TN__VALUE_TEMPORARY && value->written) {
            p->written[p->written_count++] = (uint32_t)v;
        }
    }
    tn__capture_release_memory(c, true);
    return true;
}

/* Computes values again, if the temporary values need more than `memory` bytes, or,
 * if it is below 1, more than this part of what the recorded calls need. Lowers
 * *limit to what they need then. */
static bool recompute(building *b, double memory, uint64_t *limit)
{
    const double bytes =
        memory < 1 ? memory * (double)b->program->peak_bytes : memory;
    const bool done = tn__pass_recompute(b->capture, (uint64_t)bytes,
                                         &b->program->recomputed);
    uint64_t reached = tn__capture_peak(b->capture);
    reached = reached < (uint64_t)bytes ? (uint64_t)bytes : reached;
    *limit = reached < *limit ? reached : *limit;
    tn__lifetime *life =
        done ? tn__calloc(b->capture->value_count + 1, sizeof *life) : NULL;
    if (!life)
        return false;
    tn__free(b->life);
    b->life = life;
    return true;
}

static tn__replayed *finish(building *b, const tn__replay_options *options,
                            const char *name)
{
    const bool fuse = options->fuse;
    const double memory = options->memory;
    tn__grouping grouping = {NULL, 0};
    if (!b->program || !b->life)
        return NULL;
    b->program->recorded = (int64_t)b->capture->step_count;
    b->program->peak_bytes = tn__capture_peak(b->capture);
    bool done =
        !options->freeze ||
        tn__pass_constants(b->capture, &b->program->constants);
    if (fuse && done) {
        b->program->repeats = tn__pass_repeats(b->capture);
        b->program->copies = tn__pass_copies(b->capture);
        b->program->fills = tn__pass_fills(b->capture);
    }
    uint64_t limit = b->program->peak_bytes;
    done = done && !tn__error_pending() &&
                (memory <= 0 || recompute(b, memory, &limit)) &&
                tn__group_steps(b->capture, fuse, limit, &grouping);
    if (done && fuse)
        tn__join_epilogues(b->capture, b->capture->record->device, &grouping);
    for (size_t g = 0; g < grouping.count && done; g++)
        done = add_group(b, grouping.group[g]);
    if (done && fuse)
        tn__entries_gather(&b->entries, b->capture);
    /* The passes may have added values. */
    b->span = done ? tn__calloc(b->capture->value_count + 1, sizeof *b->span)
                   : NULL;
    done = b->span && append_commands(b);
    if (done && options->freeze)
        done = tn__prepare_weights(b->capture->record->device, b->first,
                                   b->capture, &b->program->prepared);
    if (b->capture->step)
        replace_commands(b);
    tn__grouping_release(&grouping);
    if (!done || !make_arena(b))
        return NULL;
    /* The memory of inputs and outputs is still that of the capture. */
    tn__record_instantiate(b->capture->record, NULL);
    if (!keep_externals(b))
        return NULL;
    tn__replayed *p = b->program;
    tn__donate(p, b->span, options->donate);
    tn__report_donors(&b->report, p);
    p->launches = tn__record_calls(b->capture->record);
    if (!tn__report_memory(&b->report, b->capture, b->life))
        return NULL;
    p->text = tn__report_finish(&b->report, name, p);
    return p->text && tn__report_write(p->text, name) >= 0 ? p : NULL;
}

tn__replayed *tn__replayed_make(tn__capture *capture,
                                const tn__replay_options *options,
                                const char *name)
{
    building b = {.capture = capture,
                  .program = tn__calloc(1, sizeof *b.program),
                  .life = tn__calloc(capture->value_count + 1, sizeof *b.life)};
    b.last = &b.first;
    if (b.program)
        *b.program = (tn__replayed){.capture = capture,
                                    .record = capture->record};
    tn__replayed *made = finish(&b, options, name);
    if (!made && b.program)
        tn__replayed_free(b.program);
    else if (!made)
        tn__capture_free(capture);
    tn__entries_release(&b.entries);
    tn__text_release(&b.report);
    tn__free(b.life);
    tn__free(b.span);
    tn__free(b.place);
    return made;
}

void tn__replayed_free(tn__replayed *p)
{
    if (!p)
        return;
    tn_device *device = p->capture->record->device;
    tn__capture_free(p->capture);
    tn__prepared_release(device, &p->prepared);
    tn__constants_release(&p->constants);
    tn__free(p->move);
    tn__free(p->written);
    tn__free(p->outputs);
    tn__free(p->text);
    tn__unref(p->arena);
    tn__free(p);
}

/* ---- replay ---------------------------------------------------------------- */

static void draw(uint64_t *seed, uint64_t *call)
{
    const tn_rng_state drawn = tn__random_draw();
    *seed = drawn.seed;
    *call = drawn.call;
}

/* Makes the memory of the outputs: made[i] for the i-th OUTPUT value. It is that of
 * a donated input if that is large enough; then bit i of *lent is set. */
static bool make_outputs(const tn__replayed *p, tn_tensor *const *in,
                         uint64_t donated, tn_tensor **made, uint64_t *lent)
{
    for (size_t i = 0; i < p->output_count; i++) {
        const tn__captured_value *v = &p->capture->value[p->outputs[i]];
        const int64_t bytes = v->bytes;
        const tn_tensor *donor = p->donor[i] && donated >> (p->donor[i] - 1) & 1
                                     ? in[p->donor[i] - 1]
                                     : NULL;
        if (donor && donor->offset == 0 && !donor->storage->wrapped &&
            donor->storage->bytes >= (uint64_t)bytes) {
            if (!(made[i] = tn__tensor_alias(donor)))
                return false;
            *lent |= UINT64_C(1) << i;
            continue;
        }
        made[i] = tn__tensor_new(p->capture->record->device, TN_U8, 1, &bytes,
                                 "compiled_run");
        if (!made[i])
            return false;
    }
    return true;
}

/* Returns the tensor in whose memory value v, an input or output, is. *from is
 * where the value begins in the tensor's buffer, in bytes. */
static const tn_tensor *memory_of(const tn__replayed *p, uint32_t v,
                                  tn_tensor *const *in,
                                  tn_tensor *const *made, int64_t *from)
{
    const tn__captured_value *value = &p->capture->value[v];
    if (value->kind == TN__VALUE_INPUT) {
        const tn_tensor *x = in[value->index];
        *from = (int64_t)x->storage->block->offset +
                x->offset * (int64_t)tn_dtype_bytes(x->dtype);
        return x;
    }
    *from = (int64_t)made[value->index]->storage->block->offset;
    return made[value->index];
}

static void move_operands(tn__replayed *p, tn_tensor *const *in,
                          tn_tensor *const *made)
{
    for (size_t i = 0; i < p->move_count; i++) {
        const tn__move *m = &p->move[i];
        int64_t from;
        const tn_tensor *x = memory_of(p, m->value, in, made, &from);
        *m->buffer = x->storage->block->buffer;
        *m->offset = (from + m->from) / m->unit;
    }
}

/* Returns output o as a new tensor with one reference. */
static tn_tensor *output_view(const tn__replayed *p, size_t o,
                              tn_tensor *const *in, tn_tensor *const *made)
{
    const tn__output *out = &p->capture->output[o];
    const tn__captured_value *value = &p->capture->value[out->value];
    const int64_t bytes = (int64_t)tn_dtype_bytes(out->dtype);
    if (tn__value_is_fixed(value->kind))
        return tn__tensor_view(out->base, out->dtype, out->ndim, out->shape,
                               out->stride, out->from / bytes);
    int64_t from;
    const tn_tensor *x = memory_of(p, out->value, in, made, &from);
    return tn__tensor_view(
        x, out->dtype, out->ndim, out->shape, out->stride,
        (from - (int64_t)x->storage->block->offset + out->from) / bytes);
}

tn_status tn__replayed_run(tn__replayed *p, tn_tensor *const *in,
                           uint64_t donated, tn_tensor **out)
{
    tn_tensor *made[TN_COMPILE_MAX_OUTPUTS] = {NULL};
    const size_t count = p->capture->output_count;
    tn__clear_outputs(out, (int)count);
    uint64_t lent = 0;
    bool done = make_outputs(p, in, donated, made, &lent);
    if (done) {
        move_operands(p, in, made);
        /* A launch that the device has prepared for other results than its inputs
         * cannot write into its inputs. */
        if (lent != p->lent)
            tn__record_instantiate(p->record, NULL);
        p->lent = lent;
        done = tn__record_run(p->record, draw) >= 0;
    }
    for (size_t i = 0; i < p->written_count; i++) {
        const tn__captured_value *value = &p->capture->value[p->written[i]];
        tn__storage *storage = value->kind == TN__VALUE_INPUT
                                   ? in[value->index]->storage
                                   : value->storage;
        atomic_fetch_add_explicit(&storage->version, 1, memory_order_relaxed);
    }
    for (size_t o = 0; o < count && done; o++)
        done = (out[o] = output_view(p, o, in, made)) != NULL;
    for (size_t o = 0; o < count && done; o++)
        if (!tn__scope_own(out[o])) {
            out[o] = NULL;
            done = false;
        }
    for (size_t o = 0; o < count && !done; o++)
        out[o] = NULL;
    for (size_t i = 0; i < p->output_count; i++)
        tn__unref(made[i]);
    return done ? TN_OK : tn_error_code();
}
