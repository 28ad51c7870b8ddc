/* order.c: puts the groups of a window into an order in which they can run.
 *
 * Several orders are tried, and the one that needs least memory for temporary
 * values at one time is taken. No simple rule is best for all programs: the order
 * of the function is good for most of them, since it uses a value soon after it
 * was computed, but a fused group stands for steps from several places. */
#include <compile/window.h>

#include <base/error.h>
#include <base/memory.h>

#include <string.h>

/* Of the groups that can run next, which one is the first? */
enum {
    BY_LAST_STEP,  /* whose last step was recorded first */
    BY_FIRST_STEP, /* whose first step was recorded first */
    BY_MEMORY,     /* which frees most, less what it needs */
    FREEING_FIRST, /* which frees more than it needs; else BY_LAST_STEP */
    RULES
};

typedef struct scheduler {
    const tn__window *window;
    size_t left;      /* number of groups */
    size_t *waits;    /* waits[g]: how many groups must run before g */
    size_t *order, *best;
    /* The temporary values that group g uses in memory are value[value_of[g] ..
     * value_of[g + 1]). */
    uint32_t *value;
    size_t *value_of;
    size_t *users;    /* users[v]: how many groups use value v */
    size_t *left_users; /* those that have not run */
    uint64_t peak;
} scheduler;

static bool is_live(const tn__window *f, size_t g)
{
    return f->group[g] && !f->dead[g];
}

/* Adds the values of group g. A value that only one fused group uses has no
 * memory. */
static size_t add_values(const tn__window *f, size_t g, uint32_t *value)
{
    const tn__capture *c = f->capture;
    size_t count = 0;
    for (int p = 0; p < f->group[g]->count; p++) {
        const tn__step *step = &c->step[f->group[g]->step[p]];
        for (uint32_t u = 0; u < step->use_count; u++) {
            const uint32_t v = c->use[step->first_use + u].value;
            bool known = c->value[v].kind != TN__VALUE_TEMPORARY;
            for (size_t i = 0; i < count && !known; i++)
                known = value[i] == v;
            if (!known)
                value[count++] = v;
        }
    }
    return count;
}

static void find_values(scheduler *s)
{
    const tn__window *f = s->window;
    size_t count = 0;
    for (size_t g = 0; g < f->count; g++) {
        s->value_of[g] = count;
        if (!is_live(f, g))
            continue;
        count += add_values(f, g, s->value + count);
        for (size_t i = s->value_of[g]; i < count; i++)
            s->users[s->value[i]]++;
    }
    s->value_of[f->count] = count;
    for (size_t g = 0; g < f->count; g++)
        for (size_t i = s->value_of[g]; i < s->value_of[g + 1]; i++)
            if (s->users[s->value[i]] == 1 && f->group[g]->count > 1)
                s->users[s->value[i]] = 0;
}

/* Returns the bytes that group g needs, in *needs, and those that are not needed
 * after it, in *frees. */
static void change_of(const scheduler *s, size_t g, int64_t *needs,
                      int64_t *frees)
{
    *needs = *frees = 0;
    for (size_t i = s->value_of[g]; i < s->value_of[g + 1]; i++) {
        const uint32_t v = s->value[i];
        const int64_t bytes = s->window->capture->value[v].bytes;
        if (s->users[v] && s->left_users[v] == s->users[v])
            *needs += bytes;
        if (s->users[v] && s->left_users[v] == 1)
            *frees += bytes;
    }
}

static int64_t rank(const scheduler *s, size_t g, int rule)
{
    int64_t needs, frees;
    if (rule == BY_LAST_STEP)
        return (int64_t)g;
    if (rule == BY_FIRST_STEP)
        return (int64_t)s->window->group[g]->step[0];
    change_of(s, g, &needs, &frees);
    if (rule == BY_MEMORY)
        return needs - frees;
    return needs < frees ? needs - frees : (int64_t)g;
}

/* Finds an order by one rule. Returns its peak, or UINT64_MAX if there is no
 * order. */
static uint64_t find_order(scheduler *s, int rule)
{
    const tn__window *f = s->window;
    int64_t live = 0, peak = 0;
    for (size_t g = 0; g < f->count; g++) {
        s->waits[g] = 0;
        for (size_t b = 0; b < f->count && f->group[g]; b++)
            s->waits[g] += f->group[b] && b != g &&
                           tn__must_run_before(f, b, g);
        if (!f->group[g])
            s->waits[g] = SIZE_MAX;
    }
    memcpy(s->left_users, s->users,
           f->capture->value_count * sizeof *s->users);
    for (size_t at = 0; at < s->left; at++) {
        size_t next = f->count;
        int64_t best = 0, needs, frees;
        for (size_t g = 0; g < f->count; g++) {
            if (s->waits[g])
                continue;
            const int64_t of_g = rank(s, g, rule);
            if (next == f->count || of_g < best) {
                next = g;
                best = of_g;
            }
        }
        if (next == f->count)
            return UINT64_MAX;
        change_of(s, next, &needs, &frees);
        live += needs;
        peak = live > peak ? live : peak;
        live -= frees;
        for (size_t i = s->value_of[next]; i < s->value_of[next + 1]; i++)
            if (s->users[s->value[i]])
                s->left_users[s->value[i]]--;
        s->order[at] = next;
        s->waits[next] = SIZE_MAX;
        for (size_t g = 0; g < f->count; g++)
            s->waits[g] -= f->group[g] && s->waits[g] != SIZE_MAX &&
                           tn__must_run_before(f, next, g);
    }
    return (uint64_t)peak;
}

static void scheduler_release(scheduler *s)
{
    tn__free(s->waits);
    tn__free(s->order);
    tn__free(s->best);
    tn__free(s->value);
    tn__free(s->value_of);
    tn__free(s->users);
    tn__free(s->left_users);
}

static bool scheduler_init(scheduler *s, const tn__window *f)
{
    const size_t values = f->capture->value_count + 1;
    *s = (scheduler){.window = f, .peak = UINT64_MAX};
    for (size_t g = 0; g < f->count; g++)
        s->left += f->group[g] != NULL;
    s->waits = tn__calloc(f->count + 1, sizeof *s->waits);
    s->order = tn__calloc(f->count + 1, sizeof *s->order);
    s->best = tn__calloc(f->count + 1, sizeof *s->best);
    s->value = tn__calloc(f->capture->use_count + 1, sizeof *s->value);
    s->value_of = tn__calloc(f->count + 2, sizeof *s->value_of);
    s->users = tn__calloc(values, sizeof *s->users);
    s->left_users = tn__calloc(values, sizeof *s->left_users);
    if (!s->waits || !s->order || !s->best || !s->value || !s->value_of ||
        !s->users || !s->left_users)
        return false;
    find_values(s);
    return true;
}

bool tn__window_order(const tn__window *f, int fusion, size_t *order,
                      uint64_t *peak)
{
    scheduler s;
    bool done = scheduler_init(&s, f);
    const int rules = fusion == TN__FUSE_NOTHING ? BY_LAST_STEP + 1 : RULES;
    for (int rule = 0; rule < rules && done; rule++) {
        const uint64_t of_rule = find_order(&s, rule);
        if (of_rule >= s.peak)
            continue;
        s.peak = of_rule;
        memcpy(s.best, s.order, s.left * sizeof *s.order);
    }
    if (done && s.peak == UINT64_MAX && s.left) {
        tn__fail(TN_ERR_STATE, "compile: fused launches depend on each other; "
                 "this is a fault of the library: report it, and compile with "
                 ".fuse = false");
        done = false;
    }
    if (done && s.left)
        memcpy(order, s.best, s.left * sizeof *order);
    *peak = s.left ? s.peak : 0;
    scheduler_release(&s);
    return done;
}
