/* fills.c: fills only what is read before it is written.
 *
 * The gradient of a tensor of which the function uses slices is filled with zeros,
 * and then each slice is copied or added to its part. If the parts are the whole
 * tensor, the fill is replaced by one fill for each part that is read first. Such a
 * fill iterates over the elements of the step that reads it, so the two become one
 * launch, which computes 0 + x without reading the zeros. */
#include <compile/passes.h>

#include <compile/space.h>
#include <base/memory.h>
#include <device/work.h>

#include <string.h>

/* How many parts a filled value has, at most. */
enum { MAX_PARTS = 32 };

/* The elements of a value that a step uses. */
typedef struct part {
    size_t step;
    bool reads;
    tn__cut cut;
    tn__part_operand place;
} part;

/* Returns whether a step fills all bytes of a range with one number. */
static bool is_fill(const tn__capture *c, const tn__step *step)
{
    const tn__command *command = step->command;
    if (step->removed || command->kind != TN__WORK_LAUNCH || command->draw ||
        command->late_count || step->use_count != 1)
        return false;
    const tn__kernel *kernel = tn__program_kernel(command->program);
    const tn_launch *launch = &command->args.launch;
    const tn__access *access = &c->use[step->first_use].access;
    int64_t bytes = access->unit;
    for (uint32_t d = 0; d < launch->outer_ndim + launch->row_ndim; d++)
        bytes *= launch->extent[d];
    return kernel->input_count == 0 && kernel->output_count == 1 &&
           !kernel->has_row && bytes > 0 &&
           bytes == access->high - access->low;
}

/* Returns whether different elements of the space are different elements of
 * memory: each stride, in ascending order, is larger than the largest distance that
 * those before it give. */
static bool is_injective(const tn__cut *cut, const tn__part_operand *o)
{
    bool taken[TN_MAX_NDIM] = {false};
    int64_t reach = 0;
    for (int n = 0; n < cut->ndim; n++) {
        int next = -1;
        for (int d = 0; d < cut->ndim; d++)
            if (!taken[d] && (next < 0 || o->stride[d] < o->stride[next]))
                next = d;
        if (o->stride[next] <= reach)
            return false;
        taken[next] = true;
        reach += o->stride[next] * (cut->extent[next] - 1);
    }
    return true;
}

static int64_t elements_of(const tn__cut *cut)
{
    int64_t count = 1;
    for (int d = 0; d < cut->ndim; d++)
        count *= cut->extent[d];
    return count;
}

/* Describes what a copy of rows writes of a value, in elements of `unit` bytes. */
static bool part_of_copy(const tn__capture *c, const tn__step *step, uint32_t v,
                         uint32_t unit, part *to)
{
    const tn_copy_args *args = &step->command->args.copy;
    const tn__use *use = &c->use[step->first_use]; /* the destination is first */
    if (use->value != v || c->use[step->first_use + 1].value == v ||
        args->bytes % unit || (args->rows > 1 && args->dst_pitch % unit))
        return false;
    to->reads = false;
    to->place = (tn__part_operand){.value = v, .writes = true};
    to->place.from = use->access.low - c->value[v].origin;
    to->cut = (tn__cut){.ndim = 2, .outer_ndim = 2};
    to->cut.extent[0] = (int64_t)args->rows;
    to->cut.extent[1] = (int64_t)(args->bytes / unit);
    to->place.stride[0] = (int64_t)(args->dst_pitch / unit);
    to->place.stride[1] = 1;
    return true;
}

/* Describes what a launch uses of a value. All its operands there have to be the
 * same elements. */
static bool part_of_launch(const tn__capture *c, const tn__step *step, uint32_t v,
                           uint32_t unit, part *to)
{
    tn__part all;
    const char *why;
    if (!tn__part_of_step(c, step, &all, &to->cut, &why))
        return false;
    bool found = false, same = true, writes = false;
    for (int k = 0; k < all.operand_count && same; k++) {
        const tn__part_operand *o = &all.operand[k];
        if (o->value != v)
            continue;
        same = !o->indexed && (o->level == TN_LEVEL_ELEM || !to->cut.has_row) &&
               tn_dtype_bytes((tn_dtype)o->dtype) == unit &&
               (!found || tn__same_map(&to->cut, &to->place, o));
        to->place = *o;
        to->reads |= !o->writes;
        writes |= o->writes;
        found = true;
    }
    tn__free(all.operand);
    return same && writes && !(to->cut.has_row && to->reads);
}

static bool find_part(const tn__capture *c, size_t s, uint32_t v, uint32_t unit,
                      part *to)
{
    const tn__step *step = &c->step[s];
    *to = (part){.step = s};
    return (step->command->kind == TN__WORK_LAUNCH
                ? part_of_launch(c, step, v, unit, to)
            : step->command->kind == TN__WORK_COPY
                ? part_of_copy(c, step, v, unit, to)
                : false) &&
           is_injective(&to->cut, &to->place);
}

/* Returns whether two parts have a common element. */
static bool parts_overlap(const part *x, const part *y)
{
    /* Both as operands over one space: first the dimensions of x, then those
     * of y. */
    tn__cut both = {.ndim = x->cut.ndim + y->cut.ndim};
    tn__part_operand p = x->place, q = y->place;
    if (both.ndim > TN_MAX_NDIM)
        return true;
    memset(p.stride, 0, sizeof p.stride);
    memset(q.stride, 0, sizeof q.stride);
    for (int d = 0; d < both.ndim; d++) {
        const int of_y = d - x->cut.ndim;
        both.extent[d] = of_y < 0 ? x->cut.extent[d] : y->cut.extent[of_y];
        if (of_y < 0)
            p.stride[d] = x->place.stride[d];
        else
            q.stride[d] = y->place.stride[of_y];
    }
    return tn__operands_overlap(&both, &p, &q);
}

/* Finds the parts of the filled value that later steps use, which have to be all
 * of it before another step uses the value. Returns their number; 0 if they are
 * not. */
static int find_parts(const tn__capture *c, size_t fill, part *all)
{
    const tn__use *filled = &c->use[c->step[fill].first_use];
    const uint32_t v = filled->value, unit = filled->access.unit;
    int64_t left = (filled->access.high - filled->access.low) / unit;
    int count = 0;
    for (size_t s = fill + 1; s < c->step_count; s++) {
        if (!tn__value_is_used(c, v, filled->access.low, filled->access.high, s,
                               s, c->step_count, true))
            continue;
        part *x = &all[count];
        if (count == MAX_PARTS || !find_part(c, s, v, unit, x))
            return 0;
        const tn__access *a = NULL;
        for (uint32_t u = 0; u < c->step[s].use_count; u++)
            if (c->use[c->step[s].first_use + u].value == v)
                a = &c->use[c->step[s].first_use + u].access;
        bool apart = a->low >= filled->access.low &&
                     a->high <= filled->access.high;
        for (int i = 0; i < count && apart; i++)
            apart = !parts_overlap(&all[i], x);
        left -= elements_of(&x->cut);
        if (!apart || left < 0)
            return 0;
        count++;
        if (left == 0)
            return count;
    }
    return 0;
}

/* Inserts a fill of a part before the step that reads it. */
static bool insert_fill(tn__capture *c, size_t fill, const part *x)
{
    static const int64_t one[1] = {1}, none[1] = {0};
    const tn__command *old = c->step[fill].command;
    const uint32_t v = c->use[c->step[fill].first_use].value;
    tn_launch_operand operand = old->args.launch.operand[0];
    const int64_t unit = (int64_t)c->use[c->step[fill].first_use].access.unit;
    operand.offset = (x->place.from + c->value[v].origin) / unit;
    operand.stride = x->cut.ndim ? x->place.stride : none;
    tn_launch launch = old->args.launch;
    launch.outer_ndim = x->cut.ndim ? (uint32_t)x->cut.ndim : 1;
    launch.row_ndim = 0;
    launch.extent = x->cut.ndim ? x->cut.extent : one;
    launch.operand = &operand;
    tn__command *command =
        tn__command_launch(old->program, old->built, &launch, old->what);
    if (command)
        command->path = old->path;
    return command && tn__step_insert(c, x->step, command, NULL, &v);
}

int64_t tn__pass_fills(tn__capture *c)
{
    part all[MAX_PARTS];
    int64_t removed = 0;
    for (size_t s = 0; s < c->step_count; s++) {
        const int count = is_fill(c, &c->step[s]) ? find_parts(c, s, all) : 0;
        if (count < 2)
            continue;
        /* The last one first, so that the others keep their numbers. */
        for (int i = count; i-- > 0;)
            if (all[i].reads && !insert_fill(c, s, &all[i]))
                return removed;
        tn__step_remove(&c->step[s]);
        removed++;
    }
    return removed;
}
