/* fuse.c: decides which launches become one (fusion).
 *
 * Two groups of launches can be fused if
 *   - they iterate over the same elements (space.h),
 *   - memory that one of them writes and the other uses is used element by
 *     element: element e of the space reads and writes the same bytes in both,
 *   - no third group must run between them,
 *   - the fused kernel has not more operands and parameters than a kernel can
 *     have, and it does not compute more again than it saves memory traffic.
 * Steps are considered in windows of at most WINDOW steps, because the set of
 * all predecessors of each group is stored. */
#include <compile/fuse.h>

#include <base/error.h>
#include <base/memory.h>
#include <device/work.h>

#include <string.h>

enum { WINDOW = 2048 };

/* A set of groups of a window, as bits. */
typedef uint64_t *set;

typedef struct fusion {
    const tn__capture *capture;
    size_t first, count;  /* the window: steps first .. first + count */
    size_t words;         /* of a set */
    tn__group **group;    /* group[i]: the group of step first + i, or NULL if it
                           * was fused into another one; owned */
    size_t *home;         /* home[i]: the group that contains step first + i */
    set before;           /* before[i]: the groups that must run before group i */
    bool *dead;           /* dead[i]: nothing reads what step first + i writes */
    struct value_use *use; /* the uses of all values, owned */
    size_t *use_of;       /* those of value v are use[use_of[v] .. use_of[v + 1]);
                           * owned */
} fusion;

static set before_of(const fusion *f, size_t i)
{
    return f->before + i * f->words;
}

static bool has(const uint64_t *s, size_t i)
{
    return s[i / 64] >> i % 64 & 1;
}

static void put(uint64_t *s, size_t i)
{
    s[i / 64] |= (uint64_t)1 << i % 64;
}

/* ---- dependencies --------------------------------------------------------- */

static bool overlap(const tn__access *x, const tn__access *y)
{
    return x->low < y->high && y->low < x->high;
}

/* One use of a value by a step. */
typedef struct value_use {
    uint32_t value, use;
    size_t step;
} value_use;

/* Lists the uses of all steps, ordered by value and then by step. */
static bool list_uses(fusion *f)
{
    const tn__capture *c = f->capture;
    f->use_of = tn__calloc(c->value_count + 2, sizeof *f->use_of);
    f->use = tn__calloc(c->use_count + 1, sizeof *f->use);
    if (!f->use_of || !f->use)
        return false;
    /* use_of[v + 1] is first where the next use of v is put. */
    for (size_t u = 0; u < c->use_count; u++)
        if (c->use[u].value + 2 <= c->value_count)
            f->use_of[c->use[u].value + 2]++;
    for (size_t v = 0; v < c->value_count; v++)
        f->use_of[v + 1] += f->use_of[v];
    for (size_t s = 0; s < c->step_count; s++)
        for (uint32_t u = 0; u < c->step[s].use_count; u++) {
            const uint32_t use = c->step[s].first_use + u;
            const uint32_t value = c->use[use].value;
            f->use[f->use_of[value + 1]++] = (value_use){value, use, s};
        }
    return true;
}

static bool in_window(const fusion *f, size_t step)
{
    return step >= f->first && step < f->first + f->count;
}

/* Fills in before[]: a step must run after each earlier step that uses the same
 * memory, if one of the two writes it. */
static void find_dependencies(fusion *f)
{
    const value_use *list = f->use;
    for (size_t i = 0; i < f->capture->use_count; i++)
        for (size_t j = i; j-- > 0 && list[j].value == list[i].value &&
                           in_window(f, list[j].step);) {
            if (!in_window(f, list[i].step))
                break;
            const tn__access *x = &f->capture->use[list[i].use].access;
            const tn__access *y = &f->capture->use[list[j].use].access;
            if ((x->writes || y->writes) && list[i].step != list[j].step &&
                overlap(x, y) && !f->dead[list[i].step - f->first] &&
                !f->dead[list[j].step - f->first])
                put(before_of(f, list[i].step - f->first),
                    list[j].step - f->first);
        }
    for (size_t i = 0; i < f->count; i++)
        for (size_t j = 0; j < i; j++)
            if (has(before_of(f, i), j))
                for (size_t w = 0; w < f->words; w++)
                    before_of(f, i)[w] |= before_of(f, j)[w];
}

/* ---- whether two groups can be fused --------------------------------------- */

/* Returns whether some other group must run between groups x and y. */
static bool something_between(const fusion *f, size_t x, size_t y)
{
    for (size_t g = 0; g < f->count; g++)
        if (g != x && g != y && f->group[g] &&
            ((has(before_of(f, y), g) && has(before_of(f, g), x)) ||
             (has(before_of(f, x), g) && has(before_of(f, g), y))))
            return true;
    return false;
}

static int64_t bytes_of(const tn__part_operand *o)
{
    return (int64_t)tn_dtype_bytes((tn_dtype)o->dtype);
}

/* Checks all pairs of operands of two parts over a common space. Returns why the
 * parts cannot be fused, or NULL. Adds to *shared the bytes per element of
 * operands that both parts use. */
static const char *check_operands(const tn__cut *cut, const tn__part *x,
                                  const tn__part *y, int64_t *shared)
{
    for (int i = 0; i < x->operand_count; i++)
        for (int k = 0; k < y->operand_count; k++) {
            const tn__part_operand *p = &x->operand[i], *q = &y->operand[k];
            if (!tn__operands_overlap(cut, p, q))
                continue;
            const bool same = tn__same_map(cut, p, q) && p->dtype == q->dtype;
            if ((p->writes || q->writes) && !same)
                return "it uses other elements than the other one writes";
            *shared += same ? bytes_of(p) : 0;
        }
    return NULL;
}

/* Returns a rough cost of a kernel, in instructions per element. */
static int64_t cost_of(const tn__kernel *kernel)
{
    int64_t cost = 0;
    for (uint32_t i = 0; i < kernel->ins_count; i++)
        switch (kernel->ins[i].op) {
        case TN_K_LOAD: case TN_K_CONST: case TN_K_PARAM: case TN_K_OFFSET:
            break;
        case TN_K_CALL: case TN_K_PHILOX:
            cost += 16;
            break;
        case TN_K_LOOP:
            cost += 1000;
            break;
        case TN_K_DIV: case TN_K_SQRT: case TN_K_REM:
            cost += 4;
            break;
        default:
            cost++;
        }
    return cost;
}

/* Returns in how many stages a program loads operand k for each element. */
static int stages_with(const tn_program *program, int k)
{
    int count = 0;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        const tn_kernel_stage *stage = &program->stage[s];
        for (uint32_t i = 0; i < stage->elem_count; i++) {
            const tn_kernel_ins *ins =
                &program->ins[program->order[stage->elem_first + i]];
            if (ins->op == TN_K_LOAD && ins->imm.i == k) {
                count++;
                break;
            }
        }
    }
    return count;
}

/* A kernel that works on rows reads an operand in several stages. Returns how
 * many instructions per element more are executed if the operand is computed in
 * each of these stages. */
static int64_t computed_again(const tn__cut *cut, const tn__group *producer,
                              const tn__group *consumer)
{
    int64_t cost = 0;
    int most = 1;
    for (int p = 0; p < producer->count; p++)
        cost += cost_of(producer->part[p].kernel);
    for (int c = 0; c < consumer->count; c++) {
        const tn__part *reader = &consumer->part[c];
        if (!reader->kernel->has_row)
            continue;
        for (int k = 0; k < reader->kernel->input_count; k++)
            for (int p = 0; p < producer->count; p++)
                for (int o = producer->part[p].kernel->input_count;
                     o < producer->part[p].operand_count; o++) {
                    const int stages =
                        tn__operands_overlap(cut, &producer->part[p].operand[o],
                                         &reader->operand[k])
                            ? stages_with(reader->command->program, k) : 0;
                    most = stages > most ? stages : most;
                }
    }
    return cost * (most - 1);
}

/* Counts the numbers of two groups, equal ones once (fuse_command.c). */
static int count_params(const tn__group *x, const tn__group *y)
{
    const tn__command *from[2 * TN__MERGE_MAX_PARTS];
    int parts = 0, count = 0;
    for (int p = 0; p < x->count; p++)
        from[parts++] = x->part[p].command;
    for (int p = 0; p < y->count; p++)
        from[parts++] = y->part[p].command;
    for (int p = 0; p < parts; p++)
        for (uint32_t i = 0; i < from[p]->program->param_count; i++) {
            bool known = false;
            for (int q = 0; q <= p && !known &&
                            tn__command_param_is_constant(from[p], i); q++)
                for (uint32_t k = 0; k < (q < p ? from[q]->program->param_count
                                                : i) && !known; k++)
                    known =
                        tn__command_param_is_constant(from[q], k) &&
                        from[q]->program->param_dtype[k] ==
                            from[p]->program->param_dtype[i] &&
                        memcmp(&from[q]->args.launch.param[k],
                               &from[p]->args.launch.param[i],
                               sizeof(tn_number)) == 0;
            count += !known;
        }
    return count;
}

static int count_draws(const tn__group *g)
{
    int count = 0;
    for (int p = 0; p < g->count; p++)
        count += g->part[p].command->draw != 0;
    return count;
}

static int count_late(const tn__group *g)
{
    int count = 0;
    for (int p = 0; p < g->count; p++)
        count += (int)g->part[p].command->late_count;
    return count;
}

static bool in_groups(const tn__group *x, const tn__group *y, size_t step)
{
    for (int p = 0; p < x->count; p++)
        if (x->step[p] == step)
            return true;
    for (int p = 0; p < y->count; p++)
        if (y->step[p] == step)
            return true;
    return false;
}

/* Returns whether a step outside of the groups reads an output of theirs. */
static bool is_read_outside(const fusion *f, const tn__group *x,
                            const tn__group *y, const tn__part_operand *o)
{
    if (f->capture->value[o->value].kind != TN__VALUE_TEMPORARY)
        return true;
    for (size_t u = f->use_of[o->value]; u < f->use_of[o->value + 1]; u++)
        if (f->capture->use[f->use[u].use].access.reads &&
            !in_groups(x, y, f->use[u].step))
            return true;
    return false;
}

/* Counts the different inputs, and the outputs, that a fusion of x and y would
 * have at most. */
static void count_operands(const fusion *f, const tn__cut *cut,
                           const tn__group *x, const tn__group *y, int *inputs,
                           int *outputs)
{
    const tn__part_operand *seen[2 * TN__MERGE_MAX_PARTS *
                                 TN__KERNEL_MAX_INPUTS];
    const tn__part *part[2 * TN__MERGE_MAX_PARTS];
    int parts = 0, seen_count = 0;
    for (int p = 0; p < x->count; p++)
        part[parts++] = &x->part[p];
    for (int p = 0; p < y->count; p++)
        part[parts++] = &y->part[p];
    *outputs = 0;
    for (int p = 0; p < parts; p++)
        for (int k = 0; k < part[p]->operand_count; k++) {
            const tn__part_operand *o = &part[p]->operand[k];
            bool known = false;
            /* An operand that an earlier part writes is no input. */
            for (int q = 0; q < p && !known && !o->writes; q++)
                for (int i = part[q]->kernel->input_count;
                     i < part[q]->operand_count && !known; i++)
                    known = tn__operands_overlap(cut, &part[q]->operand[i], o);
            for (int i = 0; i < seen_count && !known; i++)
                known = seen[i]->writes == o->writes &&
                        seen[i]->level == o->level && tn__same_map(cut, seen[i], o);
            if (!known && (!o->writes || is_read_outside(f, x, y, o)))
                seen[seen_count++] = o;
        }
    *inputs = 0;
    for (int i = 0; i < seen_count; i++) {
        *inputs += !seen[i]->writes;
        *outputs += seen[i]->writes;
    }
}

/* Returns why groups x and y over a common space cannot be fused, or NULL if they
 * can. x runs before y. */
static const char *check_fusion(const fusion *f, const tn__group *x,
                                const tn__group *y, const tn__cut *cut)
{
    int64_t shared = 0;
    int inputs, outputs;
    bool rows_x = false, rows_y = false, wired = false;
    for (int p = 0; p < x->count; p++)
        for (int q = 0; q < y->count; q++) {
            const char *why = check_operands(cut, &x->part[p], &y->part[q],
                                             &shared);
            if (why)
                return why;
        }
    for (int p = 0; p < x->count; p++)
        rows_x |= x->part[p].kernel->has_row;
    for (int q = 0; q < y->count; q++)
        rows_y |= y->part[q].kernel->has_row;
    for (int p = 0; p < x->count; p++)
        for (int q = 0; q < y->count; q++)
            for (int i = x->part[p].kernel->input_count;
                 i < x->part[p].operand_count; i++)
                for (int k = 0; k < y->part[q].kernel->input_count; k++)
                    wired |= tn__operands_overlap(cut, &x->part[p].operand[i],
                                              &y->part[q].operand[k]);
    if (rows_x && rows_y && wired)
        return "both work on rows";
    if (!shared)
        return "they share no memory";
    if (x->count + y->count > TN__MERGE_MAX_PARTS)
        return "the fused kernel would have too many parts";
    if (count_params(x, y) > TN__KERNEL_MAX_PARAMS ||
        count_late(x) + count_late(y) > TN__LATE_MAX)
        return "the fused kernel would have too many numbers";
    if (count_draws(x) + count_draws(y) > 1)
        return "both draw random numbers";
    count_operands(f, cut, x, y, &inputs, &outputs);
    if (inputs > TN__KERNEL_MAX_INPUTS || outputs > TN__KERNEL_MAX_OUTPUTS)
        return "the fused kernel would have too many operands";
    if (rows_y && wired && computed_again(cut, x, y) > 2 * shared)
        return "its rows would be computed several times";
    return NULL;
}

static void group_free(tn__group *g)
{
    if (!g)
        return;
    for (int p = 0; p < g->count && g->can_fuse; p++)
        tn__free(g->part[p].operand);
    group_free(g->after);
    tn__free(g);
}

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
            group_free(copy);
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

/* Replaces groups x and y by `whole`, as group y. */
static void replace(fusion *f, size_t x, size_t y, tn__group *whole)
{
    group_free(f->group[x]);
    group_free(f->group[y]);
    f->group[x] = NULL;
    f->group[y] = whole;
    for (size_t i = 0; i < f->count; i++)
        if (f->home[i] == x)
            f->home[i] = y;
    for (size_t w = 0; w < f->words; w++)
        before_of(f, y)[w] |= before_of(f, x)[w];
    before_of(f, y)[x / 64] &= ~((uint64_t)1 << x % 64);
    before_of(f, y)[y / 64] &= ~((uint64_t)1 << y % 64);
    for (size_t g = 0; g < f->count; g++) {
        if (g == y || !f->group[g] ||
            !(has(before_of(f, g), x) || has(before_of(f, g), y)))
            continue;
        put(before_of(f, g), y);
        for (size_t w = 0; w < f->words; w++)
            before_of(f, g)[w] |= before_of(f, y)[w];
    }
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

/* Fuses groups x and y over a common space if check_fusion allows it. Sets *why to
 * the reason if not. Returns false if memory runs out. */
static bool fuse_over(fusion *f, size_t x, size_t y, const tn__cut *cut,
                      const tn__refinement *of_x, const tn__refinement *of_y,
                      const char **why)
{
    tn__group *first = group_refined(f->group[x], cut, of_x);
    tn__group *second = first ? group_refined(f->group[y], cut, of_y) : NULL;
    if (!second) {
        group_free(first);
        return false;
    }
    *why = check_fusion(f, first, second, cut);
    if (*why) {
        group_free(first);
        group_free(second);
        return true;
    }
    append_parts(first, second);
    first->refused = NULL;
    replace(f, x, y, first);
    return true;
}

/* Fuses groups x and y if that is possible, first with the elements of both in
 * their order, then with those of one in another order. Returns false if memory
 * runs out. */
static bool try_fusion(fusion *f, size_t x, size_t y, bool reports)
{
    if (x == y || !f->group[x] || !f->group[y] || f->dead[x] || f->dead[y])
        return true;
    if (has(before_of(f, x), y)) {
        const size_t swapped = x;
        x = y;
        y = swapped;
    }
    const tn__group *p = f->group[x], *q = f->group[y];
    const size_t producer = p->step[p->count - 1];
    const char *why = "they iterate over other elements";
    bool done = true;
    tn__cut cut;
    tn__refinement of_p, of_q;
    if (!p->can_fuse || !q->can_fuse) {
        why = p->can_fuse ? q->refused : p->refused;
    } else if (something_between(f, x, y)) {
        why = "other work has to run between them";
    } else {
        if (tn__cut_refine(&p->cut, &q->cut, &cut, &of_p, &of_q))
            done = fuse_over(f, x, y, &cut, &of_p, &of_q, &why);
        if (done && why && align_spaces(p, q, &cut, &of_p, &of_q))
            done = fuse_over(f, x, y, &cut, &of_p, &of_q, &why);
    }
    if (done && why && reports && !f->group[y]->refused) {
        f->group[y]->refused = why;
        f->group[y]->refused_step = producer;
    }
    return done;
}

/* Fuses each step with the steps that wrote what it reads, then steps that read
 * the same memory. */
static bool fuse_all(fusion *f)
{
    const value_use *list = f->use;
    const size_t total = f->capture->use_count;
    bool done = true;
    /* The producer of a use is the last earlier use that writes. */
    for (size_t i = 0; i < total && done; i++) {
        const tn__access *x = &f->capture->use[list[i].use].access;
        for (size_t j = i; x->reads && done && j-- > 0 &&
                           in_window(f, list[i].step) &&
                           list[j].value == list[i].value &&
                           in_window(f, list[j].step);) {
            const tn__access *y = &f->capture->use[list[j].use].access;
            if (!y->writes || !overlap(x, y) || list[j].step == list[i].step)
                continue;
            done = try_fusion(f, f->home[list[j].step - f->first],
                              f->home[list[i].step - f->first], true);
            break;
        }
    }
    for (size_t i = 1; i < total && done; i++)
        if (list[i].value == list[i - 1].value &&
            in_window(f, list[i].step) && in_window(f, list[i - 1].step) &&
            f->capture->use[list[i].use].access.reads &&
            f->capture->use[list[i - 1].use].access.reads)
            done = try_fusion(f, f->home[list[i - 1].step - f->first],
                              f->home[list[i].step - f->first], false);
    return done;
}

/* ---- the groups of a window ------------------------------------------------ */

static bool make_groups(fusion *f, bool fuse)
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
            fuse && !f->dead[i] &&
            tn__part_of_step(f->capture, &f->capture->step[f->first + i],
                             &g->part[0], &g->cut, &why);
        g->refused = why;
        g->refused_step = f->first + i;
        if (fuse && !f->dead[i] && !g->can_fuse && !why)
            return false;
    }
    return true;
}

/* Appends the groups of a window in an order in which they can run: of the
 * groups that can run next, the one with the lowest index is first. */
static bool append_in_order(fusion *f, tn__grouping *grouping)
{
    size_t left = 0;
    for (size_t g = 0; g < f->count; g++)
        left += f->group[g] != NULL;
    for (; left > 0; left--) {
        size_t next = f->count;
        for (size_t g = 0; g < f->count && next == f->count; g++) {
            bool ready = f->group[g] != NULL;
            for (size_t b = 0; b < f->count && ready; b++)
                ready = !(f->group[b] && b != g && has(before_of(f, g), b));
            if (ready)
                next = g;
        }
        if (next == f->count) {
            tn__fail(TN_ERR_STATE, "compile: fused launches depend on each "
                     "other; this is a fault of the library: report it, and "
                     "compile with .fuse = false");
            return false;
        }
        if (f->dead[next])
            group_free(f->group[next]);
        else
            grouping->group[grouping->count++] = f->group[next];
        f->group[next] = NULL;
    }
    return true;
}

static bool group_window(const tn__capture *capture, size_t first, size_t count,
                         bool fuse, bool *dead, tn__grouping *grouping)
{
    fusion f = {.capture = capture, .first = first, .count = count,
                .words = (count + 63) / 64, .dead = dead + first};
    f.group = tn__calloc(count + 1, sizeof *f.group);
    f.home = tn__calloc(count + 1, sizeof *f.home);
    f.before = tn__calloc(count * f.words + 1, sizeof *f.before);
    bool done = f.group && f.home && f.before && make_groups(&f, fuse) &&
                list_uses(&f);
    if (done)
        find_dependencies(&f);
    done = done && (!fuse || fuse_all(&f)) && append_in_order(&f, grouping);
    for (size_t i = 0; i < count && f.group; i++)
        group_free(f.group[i]);
    tn__free(f.group);
    tn__free(f.home);
    tn__free(f.before);
    tn__free(f.use);
    tn__free(f.use_of);
    return done;
}

/* ---- dead steps ------------------------------------------------------------ */

/* Finds the steps whose results nothing reads: from the last step to the first,
 * a step is needed if it writes an output, an external value or an input, or
 * memory that a needed later step reads. Steps that can fail by an index stay,
 * since the error is an effect. */
static bool can_fail(const tn__step *step)
{
    if (step->command->kind == TN__WORK_SCATTER)
        return true;
    if (step->command->kind != TN__WORK_LAUNCH)
        return false;
    const tn_program *program = step->command->program;
    for (uint32_t k = 0; k < program->operand_count; k++)
        if (program->operand[k].index_count)
            return true;
    return false;
}

static bool find_dead(const tn__capture *c, bool *dead)
{
    /* read[v]: the range of value v that a needed later step reads. */
    struct range {
        int64_t low, high;
    } *read = tn__calloc(c->value_count + 1, sizeof *read);
    if (!read)
        return false;
    for (size_t s = c->step_count; s-- > 0;) {
        const tn__step *step = &c->step[s];
        bool needed = can_fail(step) || !step->use_count;
        for (uint32_t u = 0; u < step->use_count && !needed; u++) {
            const tn__use *use = &c->use[step->first_use + u];
            const struct range *r = &read[use->value];
            needed = use->access.writes &&
                     (c->value[use->value].kind != TN__VALUE_TEMPORARY ||
                      (use->access.low < r->high && r->low < use->access.high));
        }
        dead[s] = !needed;
        for (uint32_t u = 0; u < step->use_count && needed; u++) {
            const tn__use *use = &c->use[step->first_use + u];
            struct range *r = &read[use->value];
            if (!use->access.reads)
                continue;
            if (r->low == r->high)
                *r = (struct range){use->access.low, use->access.high};
            r->low = use->access.low < r->low ? use->access.low : r->low;
            r->high = use->access.high > r->high ? use->access.high : r->high;
        }
    }
    tn__free(read);
    return true;
}

bool tn__group_steps(const tn__capture *capture, bool fuse,
                     tn__grouping *grouping)
{
    const size_t count = capture->step_count;
    bool *dead = tn__calloc(count + 1, sizeof *dead);
    *grouping = (tn__grouping){
        .group = tn__calloc(count + 1, sizeof *grouping->group)};
    bool done = dead && grouping->group && find_dead(capture, dead);
    for (size_t first = 0; first < count && done; first += WINDOW)
        done = group_window(capture, first,
                            count - first < WINDOW ? count - first : WINDOW,
                            fuse, dead, grouping);
    tn__free(dead);
    return done;
}

void tn__grouping_release(tn__grouping *grouping)
{
    for (size_t g = 0; g < grouping->count; g++)
        group_free(grouping->group[g]);
    tn__free(grouping->group);
    *grouping = (tn__grouping){NULL, 0};
}
