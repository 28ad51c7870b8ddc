/* fuse.c: decides which launches become one (fusion).
 *
 * Two groups of launches can be fused if
 *   - they iterate over the same elements (space.h),
 *   - memory that one of them writes and the other uses is used element by
 *     element: element e of the space reads and writes the same bytes in both,
 *   - no third group must run between them,
 *   - the fused kernel has not more operands and parameters than a kernel can
 *     have, and it does not compute more again than it saves memory traffic
 *     (fit.c).
 * Steps are considered in windows of at most WINDOW steps, because the set of
 * all predecessors of each group is stored. */
#include <compile/epilogue.h>
#include <compile/window.h>

#include <base/memory.h>

#include <string.h>

enum { WINDOW = 2048 };
/* The bytes of launches that are fused only to save a launch, at most: a GPU with
 * 1 TB/s needs 1 us for them, less than for the launch. If temporary values then
 * need too much memory, half of that is tried, and so on. */
enum { SMALL_BYTES = 1024 * 1024 };
/* How many groups of a window are given up to save memory, at most. */
enum { MAX_RETRIES = 64 };
/* The colour of a step that is not fused. */
enum { ALONE = 1 };

/* Copies a group with its parts over a finer space. Returns NULL if memory runs
 * out. */
static tn__group *group_refined(const tn__group *g, const tn__cut *cut,
                                const tn__refinement *by)
{
    tn__group *copy = tn__alloc(sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *g;
    copy->count = 0;
    copy->cut = *cut;
    for (int p = 0; p < g->count; p++) {
        const size_t bytes =
            (size_t)(g->part[p].operand_count + 1) * sizeof *g->part[p].operand;
        tn__part_operand *operand = tn__alloc(bytes);
        if (!operand) {
            tn__group_free(copy);
            return NULL;
        }
        memcpy(operand, g->part[p].operand, bytes);
        copy->part[p].operand = operand;
        copy->count++;
        tn__part_refine(&copy->part[p], cut, by);
    }
    return copy;
}

/* ---- fusing ---------------------------------------------------------------- */

/* Moves the parts of y behind those of x, and frees y. */
static void append_parts(tn__group *x, tn__group *y)
{
    for (int p = 0; p < y->count; p++) {
        x->step[x->count] = y->step[p];
        x->part[x->count++] = y->part[p];
    }
    tn__free(y);
}

/* Finds the operand that groups p and q share, and orders the elements of one of
 * them, which has no rows, as those of the other one. */
static bool align_spaces(const tn__group *p, const tn__group *q, tn__cut *cut,
                         tn__refinement *of_p, tn__refinement *of_q)
{
    const tn__group *const target[2] = {p, q}, *const moved[2] = {q, p};
    tn__refinement *const of[2] = {of_q, of_p}, *const same[2] = {of_p, of_q};
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < target[way]->count; i++)
            for (int k = 0; k < moved[way]->count; k++) {
                const tn__part *x = &target[way]->part[i];
                const tn__part *y = &moved[way]->part[k];
                for (int a = 0; a < x->operand_count; a++)
                    for (int b = 0; b < y->operand_count; b++) {
                        if (x->operand[a].value < 0 ||
                            x->operand[a].value != y->operand[b].value ||
                            x->operand[a].from != y->operand[b].from ||
                            !tn__cut_align(&target[way]->cut,
                                           x->operand[a].stride,
                                           &moved[way]->cut,
                                           y->operand[b].stride, of[way]))
                            continue;
                        *cut = target[way]->cut;
                        for (int d = 0; d < cut->ndim; d++) {
                            same[way]->of[d] = d;
                            same[way]->times[d] = 1;
                        }
                        return true;
                    }
            }
    return false;
}

/* Fuses groups x and y over a common space if possible. Sets *why to the reason
 * if not. Returns false if memory runs out. */
static bool fuse_over(tn__window *f, size_t x, size_t y, const tn__cut *cut,
                      const tn__refinement *of_x, const tn__refinement *of_y,
                      bool apart, const char **why, tn__cost *cost)
{
    tn__group *first = group_refined(f->group[x], cut, of_x);
    tn__group *second = first ? group_refined(f->group[y], cut, of_y) : NULL;
    if (!second) {
        tn__group_free(first);
        return false;
    }
    *why = tn__fusion_refused(f, first, second, cut, apart, cost);
    if (*why) {
        tn__group_free(first);
        tn__group_free(second);
        return true;
    }
    first->colour = first->colour ? first->colour : second->colour;
    append_parts(first, second);
    first->refused = NULL;
    tn__window_replace(f, x, y, first);
    return true;
}

/* Returns whether the elements of g can be the rows of another group: it neither
 * draws random numbers, which depend on the position of each element, nor reads
 * by index. */
static bool can_run_per_row(const tn__group *g)
{
    for (int p = 0; p < g->count; p++)
        for (int k = 0; k < g->part[p].operand_count; k++)
            if (g->part[p].operand[k].value < 0 ||
                g->part[p].operand[k].indexed)
                return false;
    return !g->cut.has_row;
}

/* The elements of both groups are taken in their order; then those of one in
 * another order; then those of one as the rows of the other one. */
static bool try_fusion(tn__window *f, size_t x, size_t y, int how)
{
    if (x == y || !f->group[x] || !f->group[y] || f->dead[x] || f->dead[y])
        return true;
    if (tn__must_run_before(f, y, x)) {
        const size_t swapped = x;
        x = y;
        y = swapped;
    }
    const tn__group *p = f->group[x], *q = f->group[y];
    const size_t producer = p->step[p->count - 1];
    const char *why = "they iterate over other elements";
    const bool apart = how == TN__FUSE_APART;
    bool done = true;
    tn__cost cost = {0};
    tn__cut cut;
    tn__refinement of_p, of_q;
    if (!p->can_fuse || !q->can_fuse) {
        why = p->can_fuse ? q->refused : p->refused;
    } else if (p->colour && q->colour && p->colour != q->colour) {
        why = "what it reads would be kept for too long";
    } else if (tn__window_between(f, x, y)) {
        why = "other work has to run between them";
    } else {
        if (tn__cut_refine(&p->cut, &q->cut, &cut, &of_p, &of_q))
            done = fuse_over(f, x, y, &cut, &of_p, &of_q, apart, &why,
                             &cost);
        if (done && why && align_spaces(p, q, &cut, &of_p, &of_q))
            done = fuse_over(f, x, y, &cut, &of_p, &of_q, apart, &why,
                             &cost);
        else if (done && why && can_run_per_row(q) &&
                 tn__cut_refine_rows(&p->cut, &q->cut, &cut, &of_p, &of_q))
            done = fuse_over(f, x, y, &cut, &of_p, &of_q, apart, &why,
                             &cost);
        else if (done && why && can_run_per_row(p) &&
                 tn__cut_refine_rows(&q->cut, &p->cut, &cut, &of_q, &of_p))
            done = fuse_over(f, x, y, &cut, &of_p, &of_q, apart, &why,
                             &cost);
    }
    if (done && why && how == TN__FUSE_CONSUMER &&
        !f->group[y]->refused) {
        f->group[y]->refused = why;
        f->group[y]->cost = cost;
        f->group[y]->refused_step = producer;
    }
    return done;
}

/* Returns whether a group reads what a product, a convolution or an attention
 * computes, which it may join (epilogue.c). */
static bool may_join_product(const tn__window *f, size_t g)
{
    const tn__capture *c = f->capture;
    for (int p = 0; f->group[g] && p < f->group[g]->count; p++) {
        const tn__step *step = &c->step[f->group[g]->step[p]];
        for (uint32_t u = 0; u < step->use_count; u++) {
            const uint32_t v = c->use[step->first_use + u].value;
            for (size_t i = f->use_of[v]; i < f->use_of[v + 1]; i++)
                if (c->use[f->use[i].use].access.writes &&
                    tn__step_can_join(c, &c->step[f->use[i].step]))
                    return true;
        }
    }
    return false;
}

/* Fuses each step with the steps that wrote what it reads, then steps that read
 * the same memory or write interleaved parts of it, then small steps. */
static bool fuse_all(tn__window *f, int fusion)
{
    const tn__value_use *list = f->use;
    const size_t total = f->use_count;
    bool done = true;
    /* The producer of a use is the last earlier use that writes. */
    for (size_t i = 0; i < total && done; i++) {
        const tn__access *x = &f->capture->use[list[i].use].access;
        for (size_t j = i; x->reads && done && j-- > 0 &&
                           tn__window_has(f, list[i].step) &&
                           list[j].value == list[i].value &&
                           tn__window_has(f, list[j].step);) {
            const tn__access *y = &f->capture->use[list[j].use].access;
            if (!y->writes || !tn__accesses_overlap(x, y) ||
                list[j].step == list[i].step)
                continue;
            done = try_fusion(f, f->home[list[j].step - f->first],
                                  f->home[list[i].step - f->first],
                                  TN__FUSE_CONSUMER);
            break;
        }
    }
    for (size_t i = 1; i < total && done && fusion > TN__FUSE_CHAINS; i++) {
        if (list[i].value != list[i - 1].value ||
            !tn__window_has(f, list[i].step) ||
            !tn__window_has(f, list[i - 1].step))
            continue;
        const tn__access *x = &f->capture->use[list[i - 1].use].access;
        const tn__access *y = &f->capture->use[list[i].use].access;
        const size_t first = f->home[list[i - 1].step - f->first];
        const size_t second = f->home[list[i].step - f->first];
        if (x->reads && y->reads)
            done = try_fusion(f, first, second, TN__FUSE_SIBLING);
        else if (x->writes && y->writes && tn__accesses_overlap(x, y) &&
                 !may_join_product(f, first) && !may_join_product(f, second))
            done = try_fusion(f, first, second, TN__FUSE_APART);
    }
    return done && (fusion < TN__FUSE_SMALL || tn__fuse_neighbours(f, try_fusion));
}

/* ---- the groups of a window ------------------------------------------------ */

static bool make_groups(tn__window *f, bool fuse)
{
    for (size_t i = 0; i < f->count; i++) {
        tn__group *g = tn__calloc(1, sizeof *g);
        if (!g)
            return false;
        f->group[i] = g;
        f->home[i] = i;
        g->step[0] = f->first + i;
        g->count = 1;
        const char *why = NULL;
        g->can_fuse =
            fuse && !f->dead[i] && f->colour[i] != ALONE &&
            tn__part_of_step(f->capture, &f->capture->step[f->first + i],
                             &g->part[0], &g->cut, &why);
        if (f->colour[i] == ALONE)
            why = "fused, it would need more memory at one time";
        g->colour = f->colour[i];
        g->refused = why;
        g->refused_step = f->first + i;
        if (fuse && !f->dead[i] && !g->can_fuse && !why)
            return false;
    }
    return true;
}

static void free_groups(tn__window *f)
{
    for (size_t i = 0; i < f->count; i++) {
        tn__group_free(f->group[i]);
        f->group[i] = NULL;
    }
}

/* Moves the groups to the grouping, in this order. */
static void append_groups(tn__window *f, const size_t *order, size_t count,
                          tn__grouping *grouping)
{
    for (size_t i = 0; i < count; i++) {
        if (f->dead[order[i]])
            tn__group_free(f->group[order[i]]);
        else
            grouping->group[grouping->count++] = f->group[order[i]];
        f->group[order[i]] = NULL;
    }
}

/* Finds the group that has steps before and behind step `at` and the longest way
 * between them: the values that it reads are kept for it. Returns the number of
 * groups if there is none. */
static size_t find_split(const tn__window *f, size_t at)
{
    size_t found = f->count, longest = 0;
    for (size_t g = 0; g < f->count; g++) {
        size_t before = 0, behind = SIZE_MAX;
        if (!f->group[g] || f->dead[g])
            continue;
        for (int p = 0; p < f->group[g]->count; p++) {
            const size_t step = f->group[g]->step[p] - f->first;
            if (step < at)
                before = step + 1 > before ? step + 1 : before;
            else
                behind = step < behind ? step : behind;
        }
        if (before && behind != SIZE_MAX && behind - before >= longest) {
            longest = behind - before;
            found = g;
        }
    }
    return found;
}

/* After a grouping that needs too much memory when group `at` runs: lets the next
 * one split a group there, or keep the steps of group `at` single. Returns false
 * if there is nothing to try. */
static bool give_up_fusion(tn__window *f, size_t at)
{
    const size_t split = find_split(f, at);
    const size_t given = split < f->count ? split : at;
    if (f->group[given]->count == 1 || f->retries == MAX_RETRIES)
        return false;
    f->retries++;
    for (int p = 0; p < f->group[given]->count; p++) {
        const size_t step = f->group[given]->step[p] - f->first;
        f->colour[step] = split == f->count ? ALONE
                          : step < at       ? 2 * f->retries
                                            : 2 * f->retries + 1;
    }
    return true;
}

/* Groups the steps of a window. If the temporary values then need more than `limit`
 * bytes at one time, a fusion is given up, or, if there is none to give up, *level,
 * which says what is fused, is lowered: *fits is false, and the caller tries
 * again. */
static bool group_window(tn__window *f, int *level, uint64_t limit,
                         tn__grouping *grouping, bool *fits)
{
    size_t *order = tn__calloc(f->count + 1, sizeof *order), left = 0, at = 0;
    uint64_t peak = 0;
    const bool fuse = *level != TN__FUSE_NOTHING;
    f->small_bytes = SMALL_BYTES >> (TN__FUSE_LEVELS - 1 - *level);
    memset(f->before, 0, f->count * f->words * sizeof *f->before);
    bool done = order && make_groups(f, fuse);
    if (done)
        tn__window_find_dependencies(f);
    done = done && (!fuse || fuse_all(f, *level)) &&
           tn__window_order(f, *level, order, &peak, &at);
    *fits = peak <= limit || !fuse;
    for (size_t i = 0; i < f->count && done; i++)
        left += f->group[i] != NULL;
    if (done && *fits)
        append_groups(f, order, left, grouping);
    else if (done && !give_up_fusion(f, at))
        --*level;
    free_groups(f);
    tn__free(order);
    return done;
}

static bool group_steps(const tn__capture *capture, size_t first, size_t count,
                        bool fuse, uint64_t limit, bool *dead,
                        tn__grouping *grouping)
{
    tn__window f = {.capture = capture, .first = first, .count = count,
                    .words = (count + 63) / 64, .dead = dead + first};
    f.group = tn__calloc(count + 1, sizeof *f.group);
    f.home = tn__calloc(count + 1, sizeof *f.home);
    f.colour = tn__calloc(count + 1, sizeof *f.colour);
    f.before = tn__calloc(count * f.words + 1, sizeof *f.before);
    bool done = f.group && f.home && f.colour && f.before &&
                tn__window_list_uses(&f);
    int level = fuse ? TN__FUSE_LEVELS - 1 : TN__FUSE_NOTHING;
    for (bool fits = false; done && !fits;)
        done = group_window(&f, &level, limit, grouping, &fits);
    tn__free(f.group);
    tn__free(f.home);
    tn__free(f.colour);
    tn__free(f.before);
    tn__free(f.use);
    tn__free(f.use_of);
    return done;
}

bool tn__group_steps(const tn__capture *capture, bool fuse, uint64_t limit,
                     tn__grouping *grouping)
{
    const size_t steps = capture->step_count;
    bool *dead = tn__calloc(steps + 1, sizeof *dead);
    *grouping = (tn__grouping){
        .group = tn__calloc(steps + 1, sizeof *grouping->group)};
    bool done = dead && grouping->group && tn__find_dead(capture, dead);
    for (size_t first = 0; first < steps && done; first += WINDOW)
        done = group_steps(capture, first,
                           steps - first < WINDOW ? steps - first : WINDOW,
                           fuse, limit, dead, grouping);
    tn__free(dead);
    return done;
}

void tn__grouping_release(tn__grouping *grouping)
{
    for (size_t g = 0; g < grouping->count; g++)
        tn__group_free(grouping->group[g]);
    tn__free(grouping->group);
    *grouping = (tn__grouping){NULL, 0};
}
