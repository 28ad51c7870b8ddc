/* window.c: which groups must run before which. */
#include <compile/window.h>

#include <base/memory.h>

bool tn__window_list_uses(tn__window *f)
{
    const tn__capture *c = f->capture;
    f->use_of = tn__calloc(c->value_count + 3, sizeof *f->use_of);
    f->use = tn__calloc(c->use_count + 1, sizeof *f->use);
    if (!f->use_of || !f->use)
        return false;
    /* use_of[v + 1] is first where the next use of v is put. */
    for (size_t s = 0; s < c->step_count; s++)
        for (uint32_t u = 0; u < c->step[s].use_count; u++)
            f->use_of[c->use[c->step[s].first_use + u].value + 2]++;
    for (size_t v = 0; v < c->value_count; v++)
        f->use_of[v + 1] += f->use_of[v];
    for (size_t s = 0; s < c->step_count; s++)
        for (uint32_t u = 0; u < c->step[s].use_count; u++) {
            const uint32_t use = c->step[s].first_use + u;
            const uint32_t value = c->use[use].value;
            f->use[f->use_of[value + 1]++] = (tn__value_use){value, use, s};
            f->use_count++;
        }
    return true;
}

/* Fills in before[]: a step must run after each earlier step that uses the same
 * memory, if one of the two writes it. */
void tn__window_find_dependencies(tn__window *f)
{
    const tn__value_use *list = f->use;
    for (size_t i = 0; i < f->use_count; i++)
        for (size_t j = i; j-- > 0 && list[j].value == list[i].value &&
                           tn__window_has(f, list[j].step);) {
            if (!tn__window_has(f, list[i].step))
                break;
            const tn__access *x = &f->capture->use[list[i].use].access;
            const tn__access *y = &f->capture->use[list[j].use].access;
            if ((x->writes || y->writes) && list[i].step != list[j].step &&
                tn__accesses_overlap(x, y) &&
                !f->dead[list[i].step - f->first] &&
                !f->dead[list[j].step - f->first])
                tn__set_put(tn__window_before(f, list[i].step - f->first),
                            list[j].step - f->first);
        }
    for (size_t i = 0; i < f->count; i++) {
        const tn__command *after = f->capture->step[f->first + i].after;
        for (size_t j = 0; j < i && after && !f->dead[i]; j++)
            if (f->capture->step[f->first + j].command == after && !f->dead[j])
                tn__set_put(tn__window_before(f, i), j);
    }
    for (size_t i = 0; i < f->count; i++)
        for (size_t j = 0; j < i; j++)
            if (tn__must_run_before(f, j, i))
                for (size_t w = 0; w < f->words; w++)
                    tn__window_before(f, i)[w] |= tn__window_before(f, j)[w];
}

bool tn__window_between(const tn__window *f, size_t x, size_t y)
{
    for (size_t g = 0; g < f->count; g++)
        if (g != x && g != y && f->group[g] &&
            ((tn__must_run_before(f, x, g) && tn__must_run_before(f, g, y)) ||
             (tn__must_run_before(f, y, g) && tn__must_run_before(f, g, x))))
            return true;
    return false;
}

void tn__window_replace(tn__window *f, size_t x, size_t y, tn__group *whole)
{
    tn__group_free(f->group[x]);
    tn__group_free(f->group[y]);
    f->group[x] = NULL;
    f->group[y] = whole;
    for (size_t i = 0; i < f->count; i++)
        if (f->home[i] == x)
            f->home[i] = y;
    for (size_t w = 0; w < f->words; w++)
        tn__window_before(f, y)[w] |= tn__window_before(f, x)[w];
    tn__window_before(f, y)[x / 64] &= ~((uint64_t)1 << x % 64);
    tn__window_before(f, y)[y / 64] &= ~((uint64_t)1 << y % 64);
    for (size_t g = 0; g < f->count; g++) {
        if (g == y || !f->group[g] ||
            !(tn__must_run_before(f, x, g) ||
              tn__must_run_before(f, y, g)))
            continue;
        tn__set_put(tn__window_before(f, g), y);
        for (size_t w = 0; w < f->words; w++)
            tn__window_before(f, g)[w] |= tn__window_before(f, y)[w];
    }
}
