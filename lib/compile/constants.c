/* constants.c: makes the calls of a frozen function whose results never change.
 *
 * Constants are the tensors of the function's context that it does not write,
 * and what is computed from constants alone: scale and shift of a batch norm, a
 * cast or concatenated weight. The same commands compute them as in every other
 * call, so the bits are the same. A call without inputs, such as a fill, stays
 * in the program, because the launch that reads it does it for less than a
 * read. */
#include <compile/freeze.h>
#include <compile/passes.h>

#include <base/memory.h>
#include <base/object.h>

typedef struct search {
    tn__capture *capture;
    bool *step;  /* step[s]: step s is made once */
    bool *value; /* value[v]: value v is a constant */
    bool *used;  /* used[v]: a step that stays has used value v */
} search;

/* Memory of the program can change without a call of Tenon. */
static bool is_frozen(const tn__captured_value *v)
{
    return v->kind == TN__VALUE_EXTERNAL && !v->written && !v->storage->wrapped;
}

/* Returns whether each run of a step's command does the same work. */
static bool repeats(const tn__capture *c, const tn__step *step)
{
    bool reads = false;
    for (uint32_t u = 0; u < step->use_count; u++)
        reads |= c->use[step->first_use + u].access.reads;
    return reads && !step->removed && !step->after && !step->command->draw &&
           !step->command->late_count;
}

static bool stays(const search *f, const tn__step *step)
{
    for (uint32_t u = 0; u < step->use_count; u++) {
        const tn__use *use = &f->capture->use[step->first_use + u];
        /* What is written after another step has read it cannot be written
         * earlier. */
        if (!f->value[use->value] ||
            (use->access.writes && f->used[use->value]))
            return true;
    }
    return false;
}

/* Takes steps and values out of the sets that cannot be constant, once for all
 * steps in their order. Returns whether there were any. */
static bool narrow(search *f)
{
    const tn__capture *c = f->capture;
    bool changed = false;
    for (size_t v = 0; v < c->value_count; v++)
        f->used[v] = false;
    for (size_t s = 0; s < c->step_count; s++) {
        const tn__step *step = &c->step[s];
        if (f->step[s] && stays(f, step)) {
            f->step[s] = false;
            changed = true;
        }
        for (uint32_t u = 0; u < step->use_count && !f->step[s]; u++) {
            const tn__use *use = &c->use[step->first_use + u];
            f->used[use->value] = true;
            changed |= use->access.writes && f->value[use->value];
            f->value[use->value] &= !use->access.writes;
        }
    }
    return changed;
}

static void find(search *f)
{
    tn__capture *c = f->capture;
    for (size_t v = 0; v < c->value_count; v++) {
        tn__captured_value *value = &c->value[v];
        value->frozen = is_frozen(value);
        if (value->frozen)
            value->version = atomic_load(&value->storage->version);
        f->value[v] = value->frozen || value->kind == TN__VALUE_TEMPORARY;
    }
    for (size_t s = 0; s < c->step_count; s++)
        f->step[s] = repeats(c, &c->step[s]);
    while (narrow(f))
        ;
}

/* Moves a temporary value to memory of its own, which it keeps if other steps
 * read it. */
static tn_tensor *give_memory(const search *f, uint32_t v)
{
    tn__capture *c = f->capture;
    tn__captured_value *value = &c->value[v];
    const int64_t bytes = value->bytes;
    tn_tensor *x = tn__tensor_new(c->record->device, TN_U8, 1, &bytes,
                                  "compiled_run");
    if (!x)
        return NULL;
    const tn__block *block = x->storage->block;
    const int64_t shift = (int64_t)block->offset - value->origin;
    tn__value_move(c, v, v, shift, block->buffer);
    value->origin = (int64_t)block->offset;
    if (f->used[v]) {
        value->kind = TN__VALUE_CONSTANT;
        value->storage = x->storage;
        value->written = false;
    }
    return x;
}

/* Gives memory to the values that steps of the set write. */
static bool give_all_memory(const search *f, tn__constants *made,
                            tn__constants *kept)
{
    const tn__capture *c = f->capture;
    bool done = true;
    for (size_t s = 0; s < c->step_count && done; s++)
        for (uint32_t u = 0; u < c->step[s].use_count && f->step[s]; u++) {
            const tn__use *use = &c->use[c->step[s].first_use + u];
            if (!use->access.writes || !f->value[use->value])
                continue;
            tn__constants *to = f->used[use->value] ? kept : made;
            f->value[use->value] = false; /* has memory */
            done = tn__grow(&to->tensor, &to->room, to->count,
                            sizeof *to->tensor);
            tn_tensor *x = done ? give_memory(f, use->value) : NULL;
            if (!x)
                return false;
            to->tensor[to->count++] = x;
            to->bytes += x->storage->bytes;
        }
    return done;
}

/* Makes the calls of the set, and removes their steps. */
static bool run(const search *f, int64_t *calls)
{
    tn__capture *c = f->capture;
    tn__record record = {.device = c->record->device,
                         .recorder = "compiled_run",
                         .replayer = "compiled_run"};
    record.last = &record.first;
    for (size_t s = 0; s < c->step_count; s++) {
        if (!f->step[s])
            continue;
        *record.last = c->step[s].command;
        record.last = &c->step[s].command->next;
        tn__step_remove(&c->step[s]);
        ++*calls;
    }
    *record.last = NULL;
    return tn__record_run(&record, NULL) >= 0;
}

bool tn__pass_constants(tn__capture *c, tn__constants *constants)
{
    search f = {c, tn__calloc(c->step_count + 1, sizeof *f.step),
                tn__calloc(c->value_count + 1, sizeof *f.value),
                tn__calloc(c->value_count + 1, sizeof *f.used)};
    tn__constants made = {0};
    bool done = f.step && f.value && f.used;
    if (done) {
        find(&f);
        done = give_all_memory(&f, &made, constants) &&
               run(&f, &constants->calls);
    }
    tn__constants_release(&made);
    tn__free(f.step);
    tn__free(f.value);
    tn__free(f.used);
    return done;
}

void tn__constants_release(tn__constants *constants)
{
    for (size_t i = 0; i < constants->count; i++)
        tn__unref(constants->tensor[i]);
    tn__free(constants->tensor);
    *constants = (tn__constants){0};
}
