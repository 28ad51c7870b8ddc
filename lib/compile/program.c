/* program.c: makes a program of a capture: fuses launches, places temporary
 * values in an arena, and lists the operands that move from replay to replay. */
#include <compile/program.h>

#include <compile/arena.h>
#include <compile/fuse.h>
#include <compile/report.h>

#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>
#include <ops/random/random.h>

#include <string.h>

/* A program that is being made. */
typedef struct building {
    tn__replayed *program;
    tn__capture *capture;
    tn__lifetime *life; /* life[v]: of value v, if it is a temporary */
    tn__move *place;    /* operands in temporaries, which get their memory when the
                         * arena exists; owned */
    size_t place_count, place_room;
    tn__command *first, **last; /* the commands of the program, in order */
    size_t count;
    tn__text report;
} building;

/* Appends a command, which the program takes over, also on failure. value[i] is
 * the value of its i-th access. */
static bool append_command(building *b, tn__command *command,
                           const uint32_t *value)
{
    tn__access access[TN__ACCESS_MAX];
    const int accesses = tn__command_accesses(command, access);
    command->next = NULL;
    *b->last = command;
    b->last = &command->next;
    for (int i = 0; i < accesses; i++) {
        const tn__captured_value *v = &b->capture->value[value[i]];
        tn__move move = {access[i].buffer, access[i].offset, access[i].unit,
                         value[i],
                         *access[i].offset * access[i].unit - v->origin};
        if (v->kind == TN__VALUE_TEMPORARY) {
            tn__lifetime *life = &b->life[value[i]];
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
            command->moves = true;
        }
    }
    b->count++;
    return true;
}

/* Takes the command of a step out of the capture and appends it. */
static bool append_step(building *b, size_t s)
{
    tn__step *step = &b->capture->step[s];
    uint32_t value[TN__ACCESS_MAX];
    tn__command *command = step->command;
    for (uint32_t u = 0; u < step->use_count; u++)
        value[u] = b->capture->use[step->first_use + u].value;
    step->command = NULL;
    return append_command(b, command, value);
}

static bool append_group(building *b, tn__group *group)
{
    uint32_t value[TN__ACCESS_MAX];
    tn__command *command = NULL;
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
    tn__report_group(&b->report, b->capture, group, command, b->count);
    if (command)
        return append_command(b, command, value);
    for (int p = 0; p < group->count; p++)
        if (!append_step(b, group->step[p]))
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
        if (b->capture->value[v].kind == TN__VALUE_TEMPORARY)
            p->eager_bytes += (uint64_t)b->capture->value[v].bytes;
    if (!p->arena_bytes)
        return true;
    const int64_t bytes = (int64_t)p->arena_bytes;
    p->arena = tn__tensor_new(device, TN_U8, 1, &bytes, "compile");
    if (!p->arena)
        return false;
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

static tn__replayed *finish(building *b, bool fuse, const char *name)
{
    tn__grouping grouping = {NULL, 0};
    bool done = b->program && b->life && tn__group_steps(b->capture, fuse,
                                                         &grouping);
    for (size_t g = 0; g < grouping.count && done; g++)
        done = append_group(b, grouping.group[g]);
    if (b->capture->step)
        replace_commands(b);
    tn__grouping_release(&grouping);
    done = done && make_arena(b) && keep_externals(b);
    if (!done)
        return NULL;
    tn__replayed *p = b->program;
    p->recorded = (int64_t)b->capture->step_count;
    tn__record_instantiate(b->capture->record, NULL);
    p->launches = tn__record_calls(b->capture->record);
    if (!tn__report_memory(&b->report, b->capture, b->life))
        return NULL;
    p->text = tn__report_finish(&b->report, name, p);
    return p->text && tn__report_write(p->text, name) >= 0 ? p : NULL;
}

tn__replayed *tn__replayed_make(tn__capture *capture, bool fuse,
                                const char *name)
{
    building b = {.capture = capture,
                  .program = tn__calloc(1, sizeof *b.program),
                  .life = tn__calloc(capture->value_count + 1, sizeof *b.life)};
    b.last = &b.first;
    if (b.program)
        b.program->capture = capture;
    tn__replayed *made = finish(&b, fuse, name);
    if (!made && b.program)
        tn__replayed_free(b.program);
    else if (!made)
        tn__capture_free(capture);
    tn__text_release(&b.report);
    tn__free(b.life);
    tn__free(b.place);
    return made;
}

void tn__replayed_free(tn__replayed *p)
{
    if (!p)
        return;
    tn__capture_free(p->capture);
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

/* Makes the memory of the outputs: made[i] for the i-th OUTPUT value. */
static bool make_outputs(const tn__replayed *p, tn_tensor **made)
{
    for (size_t i = 0; i < p->output_count; i++) {
        const tn__captured_value *v = &p->capture->value[p->outputs[i]];
        const int64_t bytes = v->bytes;
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
                           tn_tensor **out)
{
    tn_tensor *made[TN_COMPILE_MAX_OUTPUTS] = {NULL};
    const size_t count = p->capture->output_count;
    memset(out, 0, count * sizeof *out);
    bool done = make_outputs(p, made);
    if (done) {
        move_operands(p, in, made);
        done = tn__record_run(p->capture->record, draw) >= 0;
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
