/* epilogue.c: joins a step that is a product, a convolution or an attention
 * with the group of launches that reads its result.
 *
 * They can be joined if
 *   - each element of the group's space reads one element of the result, and
 *     the dimensions of the space are those of the result or parts of them
 *     (space.h); so the launch can run for each block of the result;
 *   - the group writes no memory that the step reads, and uses the memory that
 *     the step writes only element by element;
 *   - no third group must run between them.
 * If only the group reads the result, the step writes it to the memory of one
 * of the launch's outputs, and the launch works in place. So the result needs
 * no memory. */
#include <compile/epilogue.h>

#include <base/memory.h>
#include <device/registry.h>
#include <device/work.h>

#include <string.h>

/* The result of a step. */
typedef struct result {
    uint8_t kind;            /* TN_EPILOGUE_... */
    const tn_strided *view;  /* in the step's command */
    tn__part_operand operand;
    tn__cut cut;             /* dimensions of the result, without size 1 */
    uint8_t dim[TN_MAX_NDIM]; /* dimension d of the cut is dim[d] of the
                               * result */
} result;

static void set_sizes(result *r, int ndim, const int64_t *extent)
{
    for (int d = 0; d < ndim; d++) {
        if (extent[d] == 1)
            continue;
        r->dim[r->cut.ndim] = (uint8_t)d;
        r->operand.stride[r->cut.ndim] = r->view->stride[d];
        r->cut.extent[r->cut.ndim++] = extent[d];
    }
    r->cut.outer_ndim = r->cut.ndim;
}

static void set_matrices(result *r, const tn_strided *c, uint32_t batch_ndim,
                         const int64_t *batch, int64_t m, int64_t n)
{
    int64_t extent[TN_MAX_NDIM + 2];
    memcpy(extent, batch, batch_ndim * sizeof *extent);
    extent[batch_ndim] = m;
    extent[batch_ndim + 1] = n;
    r->view = c;
    set_sizes(r, (int)batch_ndim + 2, extent);
}

/* Describes the result of a step's command. Returns false if the command has
 * none that a launch can be joined with. */
static bool find_result(const tn__capture *c, const tn__step *step, result *r)
{
    const tn__command *command = step->command;
    *r = (result){.kind = TN_EPILOGUE_END};
    switch (command->kind) {
    case TN__WORK_MATMUL: {
        const tn_matmul_args *p = &command->args.matmul;
        r->kind = TN_EPILOGUE_MATMUL;
        set_matrices(r, &p->c, p->batch_ndim, p->batch, p->m, p->n);
        break;
    }
    case TN__WORK_PRODUCT: {
        const tn_product_args *p = &command->args.product;
        r->kind = TN_EPILOGUE_PRODUCT;
        set_matrices(r, &p->c, p->batch_ndim, p->batch, p->m, p->n);
        break;
    }
    case TN__WORK_QUANTISED_PRODUCT: {
        const tn_quantised_product_args *p = &command->args.quantised_product;
        if (!p->a.buffer)
            return false;
        r->kind = TN_EPILOGUE_QUANTISED_PRODUCT;
        set_matrices(r, &p->c, 0, NULL, p->m, p->n);
        break;
    }
    case TN__WORK_CONV: {
        const tn_conv_args *p = &command->args.conv;
        const int64_t extent[4] = {p->count, p->out_channels, p->out_size[0],
                                   p->out_size[1]};
        if (p->kind != TN_CONV_FORWARD)
            return false;
        r->kind = TN_EPILOGUE_CONV;
        r->view = &p->out;
        set_sizes(r, 4, extent);
        break;
    }
    case TN__WORK_ATTENTION: {
        const tn_attention_args *p = &command->args.attention;
        const int64_t extent[4] = {p->batch, p->heads, p->queries, p->values};
        if (p->kind != TN_ATTENTION_FORWARD)
            return false;
        r->kind = TN_EPILOGUE_ATTENTION;
        r->view = &p->out;
        set_sizes(r, 4, extent);
        break;
    }
    default:
        return false;
    }
    for (int d = 0; d < r->cut.ndim; d++)
        if (r->cut.extent[d] == 0)
            return false;
    r->operand.dtype = (uint8_t)r->view->dtype;
    r->operand.writes = true;
    for (uint32_t u = 0; u < step->use_count; u++) {
        const tn__use *use = &c->use[step->first_use + u];
        if (use->access.buffer != &r->view->buffer)
            continue;
        r->operand.value = use->value;
        r->operand.from = r->view->offset * use->access.unit -
                          c->value[use->value].origin;
        return true;
    }
    return false;
}

bool tn__step_can_join(const tn__capture *capture, const tn__step *step)
{
    result r;
    return find_result(capture, step, &r);
}

/* ---- whether a step and a group can be joined ---------------------------- */

/* Returns an operand of a group over a finer space. */
static tn__part_operand refined(const tn__part_operand *o, const tn__cut *fine,
                                const tn__refinement *by)
{
    tn__part_operand to = *o;
    for (int d = 0; d < fine->ndim; d++)
        to.stride[d] = o->stride[by->of[d]] * by->times[d];
    return to;
}

static bool overlap(const tn__access *x, const tn__access *y)
{
    return x->low < y->high && y->low < x->high;
}

/* Returns whether a group writes memory that a step uses otherwise than as its
 * result, or uses other memory that the step writes. */
static bool collide(const tn__capture *c, const tn__step *step,
                    const result *r, const tn__group *g)
{
    for (uint32_t u = 0; u < step->use_count; u++) {
        const tn__use *x = &c->use[step->first_use + u];
        const bool is_result = x->access.buffer == &r->view->buffer;
        for (int p = 0; p < g->count; p++) {
            const tn__step *other = &c->step[g->step[p]];
            for (uint32_t v = 0; v < other->use_count && !is_result; v++) {
                const tn__use *y = &c->use[other->first_use + v];
                if (x->value == y->value && overlap(&x->access, &y->access) &&
                    (x->access.writes || y->access.writes))
                    return true;
            }
        }
    }
    return false;
}

/* Returns whether all operands of a group in the memory of the result, over the
 * finer space, are the result, element by element, and one of them reads it. */
static bool uses_match(const result *r, const tn__group *g,
                       const tn__cut *fine, const tn__refinement *of_result,
                       const tn__refinement *of_group)
{
    const tn__part_operand whole = refined(&r->operand, fine, of_result);
    bool reads = false;
    for (int p = 0; p < g->count; p++)
        for (int k = 0; k < g->part[p].operand_count; k++) {
            const tn__part_operand o =
                refined(&g->part[p].operand[k], fine, of_group);
            if (!tn__operands_overlap(fine, &whole, &o))
                continue;
            if (!tn__same_map(fine, &whole, &o) || o.dtype != whole.dtype ||
                o.level != TN_LEVEL_ELEM)
                return false;
            reads |= !o.writes;
        }
    return reads;
}

/* Finds a space of the group that consists of the dimensions of the result or
 * parts of them: the group's elements in their order, or in that of the
 * result. */
static bool find_space(const result *r, const tn__group *g, tn__cut *fine,
                       tn__refinement *of_result, tn__refinement *of_group)
{
    if (tn__cut_refine(&r->cut, &g->cut, fine, of_result, of_group) &&
        uses_match(r, g, fine, of_result, of_group))
        return true;
    *fine = r->cut;
    for (int d = 0; d < fine->ndim; d++) {
        of_result->of[d] = d;
        of_result->times[d] = 1;
    }
    for (int p = 0; p < g->count; p++)
        for (int k = 0; k < g->part[p].operand_count; k++) {
            const tn__part_operand *o = &g->part[p].operand[k];
            if (o->value == r->operand.value && o->from == r->operand.from &&
                tn__cut_align(&r->cut, r->operand.stride, &g->cut, o->stride,
                              of_group) &&
                uses_match(r, g, fine, of_result, of_group))
                return true;
        }
    return false;
}

/* ---- the order of groups ------------------------------------------------- */

static bool steps_conflict(const tn__capture *c, size_t s, size_t t)
{
    const tn__step *x = &c->step[s], *y = &c->step[t];
    for (uint32_t u = 0; u < x->use_count; u++)
        for (uint32_t v = 0; v < y->use_count; v++) {
            const tn__use *a = &c->use[x->first_use + u];
            const tn__use *b = &c->use[y->first_use + v];
            if (a->value == b->value && overlap(&a->access, &b->access) &&
                (a->access.writes || b->access.writes))
                return true;
        }
    return false;
}

/* Returns whether two groups have to stay in their order. */
static bool conflict(const tn__capture *c, const tn__group *x,
                     const tn__group *y)
{
    for (const tn__group *g = x; g; g = g->after)
        for (const tn__group *h = y; h; h = h->after)
            for (int p = 0; p < g->count; p++)
                for (int q = 0; q < h->count; q++)
                    if (steps_conflict(c, g->step[p], h->step[q]))
                        return true;
    return false;
}

/* Moves groups x and y, x < y, next to each other: what y depends on in between
 * goes before x, the rest stays behind y. Returns false, and moves nothing, if
 * that is impossible or memory runs out. */
static bool bring_together(const tn__capture *c, tn__group **group, size_t x,
                           size_t y)
{
    const size_t between = y - x - 1;
    if (!between)
        return true;
    tn__group **first = tn__alloc(2 * between * sizeof *first);
    if (!first)
        return false;
    tn__group **last = first + between;
    size_t needed = 0, others = 0;
    bool done = true;
    for (size_t g = y; --g > x && done;) {
        bool before = conflict(c, group[g], group[y]);
        for (size_t n = 0; n < needed && !before; n++)
            before = conflict(c, group[g], first[n]);
        if (before)
            first[needed++] = group[g];
        else
            last[others++] = group[g];
        done = !before || !conflict(c, group[x], group[g]);
    }
    if (done) {
        tn__group *const step = group[x], *const reader = group[y];
        size_t to = x;
        /* Both lists begin with the last group. */
        while (needed > 0)
            group[to++] = first[--needed];
        group[to++] = step;
        group[to++] = reader;
        while (others > 0)
            group[to++] = last[--others];
    }
    tn__free(first);
    return done;
}

/* The largest distance of two groups that are joined. */
enum { REACH = 64 };

/* A device with the extension "launch-list" prepares launches once, but not
 * those that are joined. Preparing takes as long as an element-wise launch of
 * some thousand elements, so smaller ones stay alone: an mlp of one row takes
 * 2.3 us instead of 2.6. */
enum { LEAST = 2048 };

static bool is_worth_joining(const tn_device *device, const result *r)
{
    int64_t count = 1;
    for (int d = 0; d < r->cut.ndim; d++)
        count *= r->cut.extent[d];
    return count >= LEAST || !atomic_load(&device->launch_list);
}

/* Joins group y with the nearest group before it whose result it reads. */
static void join(const tn__capture *c, const tn_epilogue_extension *extension,
                 tn_device *device, tn__grouping *grouping, size_t y)
{
    tn__group *g = grouping->group[y];
    for (size_t x = y; x-- > 0 && y - x <= REACH;) {
        tn__group *work = grouping->group[x];
        result r;
        tn__cut fine;
        tn__refinement of_result, of_group;
        if (work->count != 1 || work->after || work->can_fuse ||
            !find_result(c, &c->step[work->step[0]], &r) ||
            !is_worth_joining(device, &r) ||
            !find_space(&r, g, &fine, &of_result, &of_group) ||
            collide(c, &c->step[work->step[0]], &r, g) ||
            extension->takes(device->handle, r.kind) != TN_OK ||
            !bring_together(c, grouping->group, x, y))
            continue;
        for (int p = 0; p < g->count; p++)
            tn__part_refine(&g->part[p], &fine, &of_group);
        g->cut = fine;
        for (int d = 0; d < fine.ndim; d++)
            work->after_of[d] = r.dim[of_result.of[d]];
        /* Other groups may have moved before both. */
        while (grouping->group[x] != work)
            x++;
        work->after = g;
        g->refused = NULL;
        memmove(&grouping->group[x + 1], &grouping->group[x + 2],
                (grouping->count - x - 2) * sizeof *grouping->group);
        grouping->count--;
        return;
    }
}

void tn__join_epilogues(const tn__capture *capture, tn_device *device,
                        tn__grouping *grouping)
{
    const tn_epilogue_extension *extension =
        atomic_load_explicit(&device->epilogue, memory_order_acquire);
    tn__error before;
    if (!extension)
        return;
    tn__error_hide(&before);
    for (size_t y = 1; y < grouping->count; y++)
        if (grouping->group[y]->can_fuse) {
            const size_t count = grouping->count;
            join(capture, extension, device, grouping, y);
            y -= count - grouping->count;
        }
    /* What a plugin does not take, and what finds no memory, is not joined. */
    tn_error_clear();
    tn__error_restore(&before);
}

/* ---- the command --------------------------------------------------------- */

/* Returns whether steps outside of the group and its epilogue use a value. */
static bool is_used_outside(const tn__capture *c, const tn__group *group,
                            uint32_t value)
{
    for (size_t s = 0; s < c->step_count; s++) {
        bool inside = s == group->step[0];
        for (int p = 0; p < group->after->count; p++)
            inside |= s == group->after->step[p];
        for (uint32_t u = 0; u < c->step[s].use_count && !inside; u++)
            if (c->use[c->step[s].first_use + u].value == value)
                return true;
    }
    return false;
}

/* Whether a value has the memory that the device allocated for it, which has
 * the alignment of all such memory. */
static bool is_own_memory(const tn__captured_value *v)
{
    return v->kind == TN__VALUE_TEMPORARY || v->kind == TN__VALUE_OUTPUT;
}

/* Lets the command write its result to the memory of an output of the launch,
 * if only the launch reads the result. `at` is the result among the `count`
 * accesses of the command, and `operand` among the after_count accesses of the
 * launch, which follow. */
static void work_in_place(const tn__capture *c, const tn__group *group,
                          const result *r, tn__access *access, int count,
                          int at, int operand, int after_count,
                          uint32_t *value)
{
    const tn__command *after = c->step[group->step[0]].command->after;
    const uint32_t operands = after->program->operand_count;
    if (c->value[value[at]].kind != TN__VALUE_TEMPORARY || access[at].reads ||
        is_used_outside(c, group, value[at]))
        return;
    for (int p = 0; p < group->after->count; p++)
        if (group->after->part[p].kernel->has_row)
            return;
    for (int i = 0; i < count + after_count; i++)
        if (i != at && value[i] == value[at] &&
            (i < count || access[i].writes ||
             *access[i].offset != *access[at].offset))
            return;
    const tn_launch_operand *read = NULL;
    for (uint32_t k = 0; k < operands; k++)
        if (access[operand].buffer == &after->args.launch.operand[k].buffer)
            read = &after->args.launch.operand[k];
    for (int o = count; o < count + after_count; o++) {
        const tn_launch_operand *output = NULL;
        uint8_t dtype = 0;
        for (uint32_t k = 0; k < operands; k++)
            if (access[o].buffer == &after->args.launch.operand[k].buffer) {
                output = &after->args.launch.operand[k];
                dtype = after->program->operand[k].dtype;
            }
        bool alone = access[o].writes && is_own_memory(&c->value[value[o]]) &&
                     dtype == r->operand.dtype && read && output &&
                     memcmp(output->stride, read->stride,
                            (size_t)group->after->cut.ndim *
                                sizeof *read->stride) == 0;
        const int64_t from =
            *access[o].offset * access[o].unit - c->value[value[o]].origin;
        alone = alone && (from - r->operand.from) % 64 == 0;
        for (int i = 0; i < count + after_count && alone; i++)
            alone = i == o || value[i] != value[o];
        if (!alone)
            continue;
        const uint32_t old = value[at];
        for (int i = 0; i < count + after_count; i++)
            if (value[i] == old) {
                *access[i].buffer = *access[o].buffer;
                *access[i].offset = *access[o].offset;
                value[i] = value[o];
            }
        return;
    }
}

/* Makes the launch of an epilogue that is one step, over the group's space. */
static tn__command *launch_again(const tn__capture *capture,
                                 const tn__group *group,
                                 uint32_t value[TN__ACCESS_MAX])
{
    static const int64_t one[1] = {1}, none[1] = {0};
    const tn__step *step = &capture->step[group->step[0]];
    const tn__command *from = step->command;
    const tn__cut *cut = &group->cut;
    tn_launch_operand operand[TN__ACCESS_MAX];
    for (int k = 0; k < group->part[0].operand_count; k++) {
        operand[k] = from->args.launch.operand[k];
        operand[k].stride =
            cut->ndim ? group->part[0].operand[k].stride : none;
    }
    tn_launch launch = {
        .size = sizeof launch,
        .outer_ndim = cut->ndim ? (uint32_t)cut->outer_ndim : 1,
        .row_ndim = (uint32_t)(cut->ndim - cut->outer_ndim),
        .flags = from->args.launch.flags,
        .extent = cut->ndim ? cut->extent : one,
        .operand = operand,
        .param = from->args.launch.param};
    tn__command *command =
        tn__command_launch(from->program, from->built, &launch, from->what);
    if (command) {
        command->draw = from->draw;
        command->draw_at = from->draw_at;
        memcpy(command->late, from->late, sizeof command->late);
        command->late_count = from->late_count;
    }
    for (uint32_t u = 0; u < step->use_count; u++)
        value[u] = capture->use[step->first_use + u].value;
    return command;
}

/* Finds the result among the accesses of a command, of which `count` are those
 * of the work and the rest those of the launch, which follow. Returns false if
 * it is not in both. */
static bool find_both(const tn__command *after, const result *r,
                      const tn__access *access, int count, int after_count,
                      const uint32_t *value, int *at, int *operand,
                      uint32_t *number)
{
    *at = *operand = -1;
    for (int i = 0; i < count; i++)
        if (access[i].buffer == &r->view->buffer)
            *at = i;
    for (uint32_t k = 0; k < after->program->operand_count; k++)
        for (int i = count; i < count + after_count && *at >= 0; i++)
            if (access[i].buffer == &after->args.launch.operand[k].buffer &&
                access[i].reads && value[i] == value[*at] &&
                *access[i].offset == *access[*at].offset) {
                *operand = i;
                *number = k;
            }
    return *operand >= 0;
}

tn__command *tn__epilogue_command(const tn__capture *capture,
                                  const tn__group *group, tn_device *device,
                                  uint32_t value[TN__ACCESS_MAX])
{
    tn__step *step = &capture->step[group->step[0]];
    tn__command *command = step->command;
    tn__access access[2 * TN__ACCESS_MAX];
    uint32_t after_value[TN__ACCESS_MAX];
    result r;
    int at, operand;
    uint32_t number;
    tn__command *after =
        group->after->count > 1
            ? tn__group_command(capture, group->after, device, after_value)
            : launch_again(capture, group->after, after_value);
    if (!after)
        return NULL;
    const int count = tn__command_accesses(command, access);
    const int after_count = tn__command_accesses(after, access + count);
    for (int i = 0; i < count; i++)
        value[i] = capture->use[step->first_use + (uint32_t)i].value;
    for (int i = 0; i < after_count && count + i < TN__ACCESS_MAX; i++)
        value[count + i] = after_value[i];
    if (count + after_count > TN__ACCESS_MAX ||
        !find_result(capture, step, &r) ||
        !find_both(after, &r, access, count, after_count, value, &at, &operand,
                   &number)) {
        tn__command_free(after);
        return NULL;
    }
    tn__command_join(command, after, r.kind, number, group->after_of);
    work_in_place(capture, group, &r, access, count, at, operand, after_count,
                  value);
    step->command = NULL;
    return command;
}
