/* instance.c: instances of a program, which several threads run at the same
 * time. A replay changes its commands (memory of inputs and outputs) and its
 * arena, so each thread needs its own; all else is shared. */
#include <compile/instance.h>

#include <base/memory.h>
#include <base/object.h>

#include <string.h>

bool tn__replayed_is_shared(const tn__replayed *p)
{
    return !p->written_count && !p->record->host_count && !p->record->segments;
}

/* The arena of the program, and where that of the instance begins instead. */
typedef struct move_arena {
    const tn_buffer *buffer;
    int64_t low, high; /* of the program's arena, in bytes of the buffer */
    tn_buffer *to;
    int64_t shift;     /* in bytes */
} move_arena;

/* Moves operands of a copied command from the program's arena to the
 * instance's. The moves of the program that are in the command are those of the
 * instance, in its own command. */
static void adopt(tn__replayed *instance, const tn__replayed *program,
                  const tn__command *from, tn__command *to,
                  const move_arena *arena)
{
    tn__access x[TN__ACCESS_MAX], y[TN__ACCESS_MAX];
    /* only lists the operands */
    const int count =
        tn__command_accesses((tn__command *)(uintptr_t)from, x);
    tn__command_accesses(to, y);
    for (int i = 0; i < count; i++) {
        bool moves = false;
        for (size_t m = 0; m < program->move_count; m++) {
            if (program->move[m].buffer != x[i].buffer)
                continue;
            instance->move[m].buffer = y[i].buffer;
            instance->move[m].offset = y[i].offset;
            moves = true;
        }
        const int64_t at = *y[i].offset * (int64_t)y[i].unit;
        if (moves || !arena->to || *y[i].buffer != arena->buffer ||
            at < arena->low || at >= arena->high)
            continue;
        *y[i].buffer = arena->to;
        *y[i].offset += arena->shift / (int64_t)y[i].unit;
    }
}

static bool copy_commands(tn__replayed *instance, const tn__replayed *program,
                          const move_arena *arena)
{
    tn__record *record = instance->record;
    for (const tn__command *p = program->record->first; p; p = p->next) {
        tn__command *copy = tn__command_copy(p);
        if (!copy)
            return false;
        *record->last = copy;
        record->last = &copy->next;
        record->count++;
        for (const tn__command *q = p; q; q = q->with, copy = copy->with)
            adopt(instance, program, q, copy, arena);
    }
    return true;
}

static bool copy_record(tn__replayed *instance, const tn__replayed *program)
{
    const tn__record *from = program->record;
    tn__record *to = tn__calloc(1, sizeof *to);
    if (!to)
        return false;
    instance->record = to;
    to->device = from->device;
    to->recorder = from->recorder;
    to->replayer = from->replayer;
    to->drop = from->drop;
    to->last = &to->first;
    to->draws = tn__calloc(from->draw_count + 1, sizeof *to->draws);
    if (!to->draws)
        return false;
    if (from->draw_count)
        memcpy(to->draws, from->draws, from->draw_count * sizeof *to->draws);
    to->draw_count = from->draw_count;
    return true;
}

static bool make(tn__replayed *instance, const tn__replayed *program,
                 bool arena)
{
    move_arena move = {0};
    const int64_t bytes = (int64_t)program->arena_bytes;
    instance->move =
        tn__calloc(program->move_count + 1, sizeof *instance->move);
    if (!instance->move || !copy_record(instance, program))
        return false;
    if (program->move_count)
        memcpy(instance->move, program->move,
               program->move_count * sizeof *instance->move);
    if (arena && bytes) {
        instance->arena = tn__tensor_new(program->record->device, TN_U8, 1,
                                         &bytes, "compiled_run");
        if (!instance->arena)
            return false;
        const tn__block *to = instance->arena->storage->block;
        move = (move_arena){program->base.buffer, program->base.offset,
                            program->base.offset + bytes, to->buffer,
                            (int64_t)to->offset - program->base.offset};
        instance->base = (tn__arena_base){to->buffer, (int64_t)to->offset};
    }
    if (!copy_commands(instance, program, &move))
        return false;
    if (arena)
        tn__record_instantiate(instance->record, NULL);
    return true;
}

static void instance_free(tn__replayed *instance)
{
    if (!instance)
        return;
    tn__record_free(instance->record);
    tn__free(instance->move);
    tn__unref(instance->arena);
    tn__free(instance);
}

/* Returns an instance of a program, for another thread: it has commands and an
 * arena of its own, and shares constants, prepared weights and everything else
 * with the program, which must live longer. Without `arena` it cannot run, but
 * instances can be made of it. The program, which may be an instance, does not
 * run meanwhile. Returns NULL with the error recorded if memory runs out. */
static tn__replayed *instance_of(const tn__replayed *program, bool arena)
{
    tn__replayed *instance = tn__calloc(1, sizeof *instance);
    if (!instance)
        return NULL;
    *instance = *program;
    instance->record = NULL;
    instance->move = NULL;
    instance->arena = NULL;
    if (!make(instance, program, arena)) {
        instance_free(instance);
        return NULL;
    }
    return instance;
}

/* ---- taking instances ---------------------------------------------------- */

bool tn__instances_open(tn__instances *all, tn__replayed *program)
{
    *all = (tn__instances){.program = program};
    if (!tn__replayed_is_shared(program))
        return true;
    all->pattern = instance_of(program, false);
    return all->pattern != NULL;
}

tn__replayed *tn__instance_take(tn__instances *all)
{
    tn__replayed *taken = all->program;
    all->program = NULL;
    if (taken)
        return taken;
    if (all->count)
        return all->free[--all->count];
    /* Room for all instances, so that tn__instance_give cannot fail. */
    while (all->room <= all->made)
        if (!tn__grow(&all->free, &all->room, all->room,
                      sizeof *all->free))
            return NULL;
    taken = instance_of(all->pattern, true);
    all->made += taken != NULL;
    return taken;
}

void tn__instance_give(tn__instances *all, tn__replayed *instance)
{
    if (instance->record == instance->capture->record)
        all->program = instance;
    else
        all->free[all->count++] = instance;
}

void tn__instances_release(tn__instances *all)
{
    for (size_t i = 0; i < all->count; i++)
        instance_free(all->free[i]);
    instance_free(all->pattern);
    tn__free(all->free);
    *all = (tn__instances){0};
}
