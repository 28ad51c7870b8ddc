/* recompute.c: computes temporary values again instead of keeping them from the
 * forward pass to the backward pass (as torch.utils.checkpoint, but value by value
 * and without a mark in the program).
 *
 * Where most memory is needed, the values that are not used at that place, but
 * before and after it, are candidates. A candidate is computed again right before
 * its next use: by a copy of the launch that computed it, from values that are still
 * there and have not changed, or by a short chain of such launches. The candidate
 * that frees most memory for the bytes that the chain reads and writes is taken
 * first, until the target is reached. The copies give the same bits, random numbers
 * included, since they draw from the same seed.
 *
 * A minimum cut through the place of the peak, as in PyTorch's partitioner, finds the
 * smallest set of values to keep there. It does not see what the values that are
 * computed again need elsewhere, so it would compute the whole forward pass of a
 * residual network at the beginning of the backward pass. Here the lifetimes of all
 * values are found again after each change. */
#include <compile/passes.h>

#include <base/memory.h>
#include <device/work.h>

#include <string.h>

/* The launches of a chain, at most. */
enum { MAX_CHAIN = 6 };
/* A value that is at most this part of the candidate may be kept for the chain. */
enum { SMALL_PART = 16 };

typedef struct life {
    bool used, again;   /* again: it is a value that is computed again */
    size_t first, last; /* the steps that use it */
    size_t before, next; /* the last use before the peak, and the first one
                          * behind it */
    size_t writer;
    int writers;        /* how many operands write it */
} life;

typedef struct search {
    tn__capture *capture;
    life *life;         /* of each value; owned */
    size_t life_room;
    int64_t *change;    /* change of the total size at each step; owned */
    size_t change_room;
    size_t peak_at;
    uint64_t peak;
} search;

/* The launches that compute a value again, in their order. */
typedef struct chain {
    size_t step[MAX_CHAIN];
    int count;
    size_t at;            /* the step before which they run */
    size_t before;        /* the last use of the value before the peak */
    int64_t cost, kept;   /* bytes that they use, and that are kept for them */
    int64_t small;        /* the bytes of a value that may be kept */
} chain;

static bool is_temporary(const search *s, uint32_t v)
{
    return s->capture->value[v].kind == TN__VALUE_TEMPORARY;
}

/* Finds the lifetimes and the peak. */
static bool find_lives(search *s)
{
    const tn__capture *c = s->capture;
    while (s->life_room < c->value_count + 1)
        if (!tn__grow(&s->life, &s->life_room, s->life_room, sizeof *s->life))
            return false;
    while (s->change_room < c->step_count + 1)
        if (!tn__grow(&s->change, &s->change_room, s->change_room,
                      sizeof *s->change))
            return false;
    for (size_t v = 0; v < c->value_count; v++)
        s->life[v] = (life){.again = c->value[v].again};
    memset(s->change, 0, (c->step_count + 1) * sizeof *s->change);
    for (size_t i = 0; i < c->step_count; i++)
        for (uint32_t u = 0; u < c->step[i].use_count; u++) {
            const tn__use *use = &c->use[c->step[i].first_use + u];
            life *l = &s->life[use->value];
            l->first = l->used ? l->first : i;
            l->last = i;
            l->used = true;
            l->writers += use->access.writes;
            l->writer = use->access.writes ? i : l->writer;
        }
    for (size_t v = 0; v < c->value_count; v++)
        if (s->life[v].used && is_temporary(s, (uint32_t)v)) {
            s->change[s->life[v].first] += c->value[v].bytes;
            s->change[s->life[v].last + 1] -= c->value[v].bytes;
        }
    int64_t now = 0;
    s->peak = 0;
    for (size_t i = 0; i < c->step_count; i++) {
        now += s->change[i];
        if ((uint64_t)now > s->peak) {
            s->peak = (uint64_t)now;
            s->peak_at = i;
        }
    }
    return true;
}

/* Finds the uses of each value before and behind the peak. A value that is used
 * at the peak has `next` 0. */
static void find_gaps(search *s)
{
    const tn__capture *c = s->capture;
    for (size_t i = 0; i < c->step_count; i++)
        for (uint32_t u = 0; u < c->step[i].use_count; u++) {
            life *l = &s->life[c->use[c->step[i].first_use + u].value];
            if (i <= s->peak_at)
                l->before = i;
            else if (!l->next && l->before < s->peak_at)
                l->next = i;
        }
}

static bool is_repeatable(const tn__step *step)
{
    return !step->removed && step->command->kind == TN__WORK_LAUNCH &&
           !step->command->late_count;
}

static bool in_chain(const chain *x, size_t step)
{
    for (int i = 0; i < x->count; i++)
        if (x->step[i] == step)
            return true;
    return false;
}

/* Adds the launch that computes value v, and those that it needs, to the
 * chain. */
static bool add_to_chain(const search *s, uint32_t v, chain *x)
{
    const tn__capture *c = s->capture;
    const life *l = &s->life[v];
    const tn__step *step = &c->step[l->writer];
    if (!is_temporary(s, v) || l->writers != 1 || l->first != l->writer ||
        !is_repeatable(step))
        return false;
    for (uint32_t u = 0; u < step->use_count; u++) {
        const tn__use *use = &c->use[step->first_use + u];
        const life *of = &s->life[use->value];
        x->cost += use->access.high - use->access.low;
        if (use->access.writes) {
            /* All that the launch writes is written once more. */
            if (!is_temporary(s, use->value) || of->writers != 1 ||
                of->first != l->writer)
                return false;
            continue;
        }
        const bool same = !tn__value_is_used(
            c, use->value, use->access.low, use->access.high, l->writer,
            x->at - 1, c->step_count, false);
        if (same && (!is_temporary(s, use->value) || of->last >= x->at))
            continue;
        if (same && c->value[use->value].bytes <= x->small) {
            x->kept += c->value[use->value].bytes;
            continue;
        }
        if (in_chain(x, of->writer) && of->writers == 1)
            continue;
        if (x->count == MAX_CHAIN || !add_to_chain(s, use->value, x))
            return false;
    }
    if (x->count == MAX_CHAIN)
        return false;
    x->step[x->count++] = l->writer;
    return true;
}

/* Finds the best candidate at the peak. */
static bool find_best(const search *s, uint32_t *best, chain *of_best)
{
    const tn__capture *c = s->capture;
    double most = 0;
    for (size_t v = 0; v < c->value_count; v++) {
        const life *l = &s->life[v];
        if (!l->used || l->again || !is_temporary(s, (uint32_t)v) ||
            !l->next || l->first >= s->peak_at)
            continue;
        chain x = {.at = l->next, .before = l->before,
                   .small = c->value[v].bytes / SMALL_PART};
        if (!add_to_chain(s, (uint32_t)v, &x))
            continue;
        const double score = (double)(c->value[v].bytes - x.kept) /
                             (double)(x.cost + 1);
        if (score <= most)
            continue;
        most = score;
        *best = (uint32_t)v;
        *of_best = x;
    }
    return most > 0;
}

/* ---- the change ------------------------------------------------------------ */

/* Returns the command after which the chain runs: without it, its launches would be
 * fused with those that compute the value first. It is the last one after the gap
 * begins that is not a launch, so that it is in no way of another fusion; if there
 * is none, the last one. */
static const tn__command *command_before(const tn__capture *c, const chain *x)
{
    const tn__command *last = NULL;
    for (size_t i = x->at; i-- > x->before + 1;) {
        if (c->step[i].removed)
            continue;
        last = last ? last : c->step[i].command;
        if (c->step[i].command->kind != TN__WORK_LAUNCH)
            return c->step[i].command;
    }
    return last;
}

/* Returns the number of the value that stands for value v from now on. */
static bool value_again(tn__capture *c, uint32_t v, uint32_t *again)
{
    if (!tn__grow(&c->value, &c->value_room, c->value_count, sizeof *c->value))
        return false;
    *again = (uint32_t)c->value_count;
    c->value[c->value_count] = c->value[v];
    c->value[c->value_count++].again = true;
    return true;
}

/* Inserts a copy of step `from` before step `at`. map[v] is the value that is used
 * instead of value v. */
static bool insert_copy(tn__capture *c, size_t from, size_t at,
                        const tn__command *after, uint32_t *map)
{
    const tn__command *old = c->step[from].command;
    tn__access access[TN__ACCESS_MAX];
    uint32_t value[TN__ACCESS_MAX];
    const tn__step *step = &c->step[from];
    tn__command *command = tn__command_launch(old->program, old->built,
                                              &old->args.launch, old->what);
    if (!command)
        return false;
    command->draw = old->draw;
    command->draw_at = old->draw_at;
    const int count = tn__command_accesses(command, access);
    for (int i = 0; i < count; i++) {
        const uint32_t v = c->use[step->first_use + (uint32_t)i].value;
        if (access[i].writes && !value_again(c, v, &map[v])) {
            tn__free(command);
            return false;
        }
        value[i] = map[v];
    }
    return tn__step_insert(c, at, command, after, value);
}

/* Lets value v be computed again by the chain. */
static bool apply(tn__capture *c, uint32_t v, const chain *x)
{
    const size_t values = c->value_count;
    const tn__command *after = command_before(c, x);
    uint32_t *map = tn__alloc((values + 1) * sizeof *map);
    bool done = map != NULL;
    for (size_t i = 0; i < values && done; i++)
        map[i] = (uint32_t)i;
    for (int i = 0; i < x->count && done; i++)
        done = insert_copy(c, x->step[i], x->at + (size_t)i, after, map);
    for (size_t s = x->at + (size_t)x->count; s < c->step_count && done; s++)
        for (uint32_t u = 0; u < c->step[s].use_count; u++) {
            tn__use *use = &c->use[c->step[s].first_use + u];
            use->value = use->value == v ? map[v] : use->value;
        }
    tn__free(map);
    return done;
}

bool tn__pass_recompute(tn__capture *capture, uint64_t target, int64_t *count)
{
    search s = {.capture = capture};
    bool done = find_lives(&s);
    *count = 0;
    while (done && s.peak > target) {
        uint32_t best = 0;
        chain x = {.count = 0};
        find_gaps(&s);
        if (!find_best(&s, &best, &x))
            break;
        done = apply(capture, best, &x) && find_lives(&s);
        *count += x.count;
    }
    tn__free(s.life);
    tn__free(s.change);
    return done;
}
