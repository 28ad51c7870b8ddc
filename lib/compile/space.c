/* space.c: iteration spaces of launches. The core merges the dimensions of each
 * launch as far as its operands allow, so two launches over the same elements can
 * have different dimensions. Here they get common ones. */
#include <compile/space.h>

#include <base/memory.h>
#include <device/work.h>

#include <string.h>

static int64_t bytes_of(const tn__part_operand *o)
{
    return (int64_t)tn_dtype_bytes((tn_dtype)o->dtype);
}

bool tn__part_of_step(const tn__capture *capture, const tn__step *step,
                      tn__part *part, tn__cut *cut, const char **why)
{
    const tn__command *command = step->command;
    *why = NULL;
    if (command->kind != TN__WORK_LAUNCH)
        return *why = "it is not an element-wise or row kernel", false;
    const tn_launch *launch = &command->args.launch;
    const tn_program *program = command->program;
    const int ndim = (int)(launch->outer_ndim + launch->row_ndim);
    *part = (tn__part){.command = command,
                       .kernel = tn__program_kernel(program),
                       .operand_count = (int)program->operand_count};
    *cut = (tn__cut){.has_row = part->kernel->has_row};
    int from[TN_MAX_NDIM];
    for (int d = 0; d < ndim; d++) {
        if (launch->extent[d] == 1)
            continue;
        if (launch->extent[d] == 0)
            return *why = "it has no elements", false;
        from[cut->ndim] = d;
        cut->outer_ndim += d < (int)launch->outer_ndim;
        cut->extent[cut->ndim++] = launch->extent[d];
    }
    if (cut->has_row && cut->outer_ndim == cut->ndim)
        return *why = "its rows have one element", false;
    part->operand = tn__calloc((size_t)part->operand_count + 1,
                               sizeof *part->operand);
    if (!part->operand)
        return false;
    uint32_t use = step->first_use;
    for (int k = 0; k < part->operand_count; k++) {
        const tn_kernel_operand *kind = &program->operand[k];
        const tn_launch_operand *given = &launch->operand[k];
        tn__part_operand *to = &part->operand[k];
        to->dtype = kind->dtype;
        to->level = kind->level;
        to->writes = kind->access == TN_OPERAND_WRITE;
        for (int d = 0; d < cut->ndim; d++)
            to->stride[d] = given->stride[from[d]];
        if (kind->access == TN_OPERAND_OFFSET) {
            to->value = -1;
            to->from = given->offset;
            continue;
        }
        for (uint32_t i = 0; i < kind->index_count; i++) {
            const int64_t reach = (given->index_extent[i] - 1) *
                                  given->index_stride[i] * bytes_of(to);
            to->index_low += reach < 0 ? reach : 0;
            to->index_high += reach > 0 ? reach : 0;
        }
        to->indexed = kind->index_count > 0;
        const tn__use *of = &capture->use[use++];
        to->value = of->value;
        to->from = given->offset * of->access.unit -
                   capture->value[of->value].origin;
    }
    return true;
}

/* Reads the dimensions of a space from the last to the first, piece by piece. */
typedef struct reader {
    const tn__cut *cut;
    int at;            /* the dimension that is read; -1 at the end */
    int64_t left;      /* what is left of it */
    int64_t taken;     /* what was taken of it */
} reader;

static reader read_from(const tn__cut *cut)
{
    const int last = cut->ndim - 1;
    return (reader){cut, last, last >= 0 ? cut->extent[last] : 1, 1};
}

/* Takes a piece of size `size`, and stores what it is a piece of at position d
 * of the refinement. */
static void take(reader *r, int64_t size, tn__refinement *by, int d)
{
    by->of[d] = r->at;
    by->times[d] = r->taken;
    r->taken *= size;
    r->left /= size;
    if (r->left > 1)
        return;
    r->at--;
    r->left = r->at >= 0 ? r->cut->extent[r->at] : 1;
    r->taken = 1;
}

/* Returns whether the reader is exactly at the boundary between outer and row
 * dimensions. */
static bool at_rows(const reader *r)
{
    return r->cut->has_row && r->at == r->cut->outer_ndim - 1 && r->taken == 1;
}

bool tn__cut_refine(const tn__cut *x, const tn__cut *y, tn__cut *fine,
                    tn__refinement *of_x, tn__refinement *of_y)
{
    reader rx = read_from(x), ry = read_from(y);
    tn__refinement bx, by;
    int64_t size[TN_MAX_NDIM];
    int count = 0, rows = -1;
    while (rx.at >= 0 && ry.at >= 0) {
        const int64_t piece = rx.left < ry.left ? rx.left : ry.left;
        if (rx.left % piece || ry.left % piece || count == TN_MAX_NDIM)
            return false;
        take(&rx, piece, &bx, count);
        take(&ry, piece, &by, count);
        size[count++] = piece;
        if (at_rows(&rx) || at_rows(&ry)) {
            if (x->has_row && y->has_row && !(at_rows(&rx) && at_rows(&ry)))
                return false;
            rows = count;
        }
    }
    if (rx.at >= 0 || ry.at >= 0)
        return false;
    *fine = (tn__cut){.ndim = count, .has_row = x->has_row || y->has_row};
    fine->outer_ndim = fine->has_row ? count - rows : count;
    for (int d = 0; d < count; d++) {
        const int k = count - 1 - d; /* the pieces begin with the last one */
        fine->extent[d] = size[k];
        of_x->of[d] = bx.of[k];
        of_x->times[d] = bx.times[k];
        of_y->of[d] = by.of[k];
        of_y->times[d] = by.times[k];
    }
    return true;
}

bool tn__cut_refine_rows(const tn__cut *x, const tn__cut *y, tn__cut *fine,
                         tn__refinement *of_x, tn__refinement *of_y)
{
    tn__cut outer = *x;
    outer.ndim = x->outer_ndim;
    outer.has_row = false;
    if (!x->has_row || y->has_row ||
        !tn__cut_refine(&outer, y, fine, of_x, of_y) ||
        fine->ndim + x->ndim - x->outer_ndim > TN_MAX_NDIM)
        return false;
    fine->has_row = true;
    for (int d = x->outer_ndim; d < x->ndim; d++) {
        const int at = fine->ndim++;
        fine->extent[at] = x->extent[d];
        of_x->of[at] = d;
        of_x->times[at] = 1;
        of_y->of[at] = -1;
    }
    return true;
}

/* Returns whether the pieces of dimension i of y cover it without gaps: sorted by
 * distance, each begins where the one before ends. */
static bool pieces_cover(const tn__cut *x, const tn__refinement *by, int i,
                         int64_t extent)
{
    int64_t covered = 1;
    for (bool found = true; found && covered < extent;) {
        found = false;
        for (int d = 0; d < x->ndim && !found; d++)
            if (by->of[d] == i && by->times[d] == covered) {
                covered *= x->extent[d];
                found = true;
            }
    }
    return covered == extent;
}

bool tn__cut_align(const tn__cut *x, const int64_t *xs, const tn__cut *y,
                   const int64_t *ys, tn__refinement *of_y)
{
    int64_t all_x = 1, all_y = 1;
    for (int d = 0; d < x->ndim; d++)
        all_x *= x->extent[d];
    for (int i = 0; i < y->ndim; i++)
        all_y *= y->extent[i];
    if (all_x != all_y || y->has_row)
        return false;
    for (int d = 0; d < x->ndim; d++) {
        int found = -1;
        for (int i = 0; i < y->ndim && found < 0; i++) {
            if (xs[d] <= 0 || ys[i] <= 0 || xs[d] % ys[i])
                continue;
            const int64_t times = xs[d] / ys[i];
            if (times * x->extent[d] <= y->extent[i])
                found = i;
        }
        if (found < 0)
            return false;
        of_y->of[d] = found;
        of_y->times[d] = xs[d] / ys[found];
    }
    for (int i = 0; i < y->ndim; i++)
        if (!pieces_cover(x, of_y, i, y->extent[i]))
            return false;
    return true;
}

void tn__part_refine(tn__part *part, const tn__cut *fine,
                     const tn__refinement *by)
{
    for (int d = 0; d < fine->ndim; d++)
        part->per_row |= by->of[d] < 0;
    for (int k = 0; k < part->operand_count; k++) {
        int64_t stride[TN_MAX_NDIM];
        for (int d = 0; d < fine->ndim; d++)
            stride[d] = by->of[d] < 0 ? 0
                                      : part->operand[k].stride[by->of[d]] *
                                            by->times[d];
        if (part->per_row)
            part->operand[k].level = TN_LEVEL_ROW;
        memcpy(part->operand[k].stride, stride,
               (size_t)fine->ndim * sizeof *stride);
    }
}

/* ---- operands ------------------------------------------------------------ */

/* Sets *low and *high to the bytes that an operand uses. */
static void span(const tn__cut *cut, const tn__part_operand *o, int64_t *low,
                 int64_t *high)
{
    *low = o->from + o->index_low;
    *high = o->from + o->index_high;
    for (int d = 0; d < cut->ndim; d++) {
        const int64_t reach = (cut->extent[d] - 1) * o->stride[d] * bytes_of(o);
        *low += reach < 0 ? reach : 0;
        *high += reach > 0 ? reach : 0;
    }
    *high += bytes_of(o);
}

bool tn__same_map(const tn__cut *cut, const tn__part_operand *x,
                     const tn__part_operand *y)
{
    return !x->indexed && !y->indexed && x->value == y->value &&
           x->from == y->from &&
           bytes_of(x) == bytes_of(y) &&
           memcmp(x->stride, y->stride,
                  (size_t)cut->ndim * sizeof *x->stride) == 0;
}

/* A term of the distance between an element of x and one of y: a multiple of
 * `stride`, from `least` to `most` times. */
typedef struct term {
    int64_t stride, least, most;
} term;

static void add_term(term *all, int *count, int64_t stride, int64_t extent,
                     bool negative)
{
    const bool down = (stride < 0) != negative;
    const int64_t size = stride < 0 ? -stride : stride;
    int at = 0;
    if (size == 0 || extent == 1)
        return;
    while (at < *count && all[at].stride != size)
        at++;
    if (at == *count)
        all[(*count)++] = (term){size, 0, 0};
    all[at].least -= down ? extent - 1 : 0;
    all[at].most += down ? 0 : extent - 1;
}

/* Returns whether terms from `at` on, the largest stride first, can have the sum
 * `distance`. *tries limits the work; when it is 0, the answer is true. */
static bool can_reach(const term *all, int count, int at, int64_t distance,
                      int *tries)
{
    if (at == count)
        return distance == 0;
    int64_t low = 0, high = 0; /* what the terms after this one can give */
    for (int i = at + 1; i < count; i++) {
        low += all[i].least * all[i].stride;
        high += all[i].most * all[i].stride;
    }
    const int64_t stride = all[at].stride;
    /* The smallest multiple with distance - multiple * stride <= high. */
    const int64_t need = distance - high;
    int64_t times = need >= 0 ? (need + stride - 1) / stride : -(-need / stride);
    times = times > all[at].least ? times : all[at].least;
    for (; times <= all[at].most && distance - times * stride >= low; times++) {
        if (*tries <= 0)
            return true;
        --*tries;
        if (can_reach(all, count, at + 1, distance - times * stride, tries))
            return true;
    }
    return false;
}

/* Returns whether an element of x can be an element of y. The elements have the same
 * size. */
static bool meet(const tn__cut *cut, const tn__part_operand *x,
                 const tn__part_operand *y)
{
    enum { TRIES = 256 };
    term all[2 * TN_MAX_NDIM];
    int count = 0, tries = TRIES;
    if ((y->from - x->from) % bytes_of(x))
        return true;
    for (int d = 0; d < cut->ndim; d++) {
        add_term(all, &count, x->stride[d], cut->extent[d], false);
        add_term(all, &count, y->stride[d], cut->extent[d], true);
    }
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && all[k - 1].stride < all[k].stride; k--) {
            const term smaller = all[k - 1];
            all[k - 1] = all[k];
            all[k] = smaller;
        }
    return can_reach(all, count, 0, (y->from - x->from) / bytes_of(x), &tries);
}

bool tn__operands_overlap(const tn__cut *cut, const tn__part_operand *x,
                          const tn__part_operand *y)
{
    int64_t xl, xh, yl, yh;
    if (x->value < 0 || x->value != y->value)
        return false;
    span(cut, x, &xl, &xh);
    span(cut, y, &yl, &yh);
    return xl < yh && yl < xh &&
           (x->indexed || y->indexed || bytes_of(x) != bytes_of(y) ||
            meet(cut, x, y));
}

/* ---- coarser spaces ------------------------------------------------------ */

/* Returns whether dimension d + 1 continues dimension d for all operands. */
static bool continues(const tn__cut *cut, tn__part *const *part, int count,
                      int d)
{
    if (d + 1 == cut->outer_ndim && cut->has_row)
        return false;
    for (int p = 0; p < count; p++)
        for (int k = 0; k < part[p]->operand_count; k++) {
            const int64_t *stride = part[p]->operand[k].stride;
            if (stride[d] != stride[d + 1] * cut->extent[d + 1])
                return false;
        }
    return true;
}

void tn__cut_coarsen(tn__cut *cut, tn__part *const *part, int count)
{
    for (int d = 0; d + 1 < cut->ndim;) {
        if (!continues(cut, part, count, d)) {
            d++;
            continue;
        }
        cut->extent[d + 1] *= cut->extent[d];
        for (int e = d; e + 1 < cut->ndim; e++)
            cut->extent[e] = cut->extent[e + 1];
        for (int p = 0; p < count; p++)
            for (int k = 0; k < part[p]->operand_count; k++) {
                int64_t *stride = part[p]->operand[k].stride;
                for (int e = d; e + 1 < cut->ndim; e++)
                    stride[e] = stride[e + 1];
            }
        cut->ndim--;
        cut->outer_ndim -= d < cut->outer_ndim;
    }
}
