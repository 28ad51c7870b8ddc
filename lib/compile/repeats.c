/* repeats.c: removes steps that repeat an earlier one (common subexpressions).
 *
 * Step y repeats step x if both do the same work with the same numbers, read the
 * same bytes, and nothing has written these bytes since x. The results of y must be
 * temporary values that no other step writes. Their uses then read the results of
 * x, which nothing may overwrite before.
 *
 * Fills are not removed: a fill that is fused with the step that reads it needs
 * no memory, which is cheaper than memory that is kept from an earlier one. */
#include <compile/passes.h>

#include <device/work.h>

static const tn__use *use_of(const tn__capture *c, size_t step, uint32_t u)
{
    return &c->use[c->step[step].first_use + u];
}

/* Returns whether operand u of steps x and y reads the same bytes with the same
 * content. */
static bool reads_same(const tn__capture *c, size_t x, size_t y, uint32_t u)
{
    const tn__use *p = use_of(c, x, u), *q = use_of(c, y, u);
    return p->value == q->value && p->access.low == q->access.low &&
           p->access.high == q->access.high &&
           !tn__value_is_used(c, p->value, p->access.low, p->access.high, x,
                              y - 1, c->step_count, false);
}

/* Returns whether the uses of result u of step y can be uses of that of x. */
static bool can_replace(const tn__capture *c, size_t x, size_t y, uint32_t u)
{
    const tn__use *p = use_of(c, x, u), *q = use_of(c, y, u);
    const int64_t low = q->access.low, high = q->access.high;
    const int64_t shift = p->access.low - low;
    tn__step_range span;
    return p->value != q->value &&
           c->value[q->value].kind == TN__VALUE_TEMPORARY &&
           tn__value_span(c, q->value, &span) && span.first == y &&
           tn__value_fits(c, q->value, p->value, low, high, shift) &&
           !tn__value_is_used(c, q->value, low, high, y, span.last, y, false) &&
           !tn__value_is_used(c, p->value, p->access.low, p->access.high, x,
                              span.last, x, false);
}

static bool repeats(const tn__capture *c, size_t x, size_t y)
{
    const tn__step *p = &c->step[x], *q = &c->step[y];
    if (p->removed || p->use_count != q->use_count ||
        p->command->kind != q->command->kind || p->command->draw ||
        p->command->late_count || !tn__steps_are_equal(c, p, q))
        return false;
    uint32_t reads = 0, writes = 0;
    for (uint32_t u = 0; u < q->use_count; u++) {
        const tn__access *a = &use_of(c, y, u)->access;
        if ((a->reads && a->writes) ||
            !(a->writes ? can_replace(c, x, y, u) : reads_same(c, x, y, u)))
            return false;
        reads += a->reads;
        writes += a->writes;
    }
    return reads && writes;
}

void tn__pass_repeats(tn__capture *c)
{
    for (size_t y = 1; y < c->step_count; y++) {
        const tn__step *step = &c->step[y];
        if (step->removed || step->command->draw || step->command->late_count)
            continue;
        size_t x = 0;
        while (x < y && !repeats(c, x, y))
            x++;
        if (x == y)
            continue;
        for (uint32_t u = 0; u < step->use_count; u++) {
            const tn__use *p = use_of(c, x, u), *q = use_of(c, y, u);
            if (q->access.writes)
                tn__value_move(c, q->value, p->value,
                               p->access.low - q->access.low,
                               *p->access.buffer);
        }
        tn__step_remove(&c->step[y]);
    }
}
