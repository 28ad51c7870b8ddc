/* print_scatter.c: plans and prints scatters (scatter_add, index_add and the
 * gradients of gathers).
 *
 * A line is the elements along the dimension of the scatter. If several
 * elements have the same destination, they are combined in the order of their
 * positions in the line. There are three kernels:
 *
 *   - scatter.cl: a work-item has a line.
 *   - scatter_shared.cl: a work-group has a line and holds the line of dst in
 *     local memory, if that fits and the line is contiguous.
 *   - scatter_sorted.cl: the indices are sorted first (print_sort.c). Then a
 *     team of work-items has all elements of one destination, in their order,
 *     for the neighbouring lines that have the same indices. This kernel is
 *     used if there are few different lines of indices, as in the gradient of
 *     an embedding. */
#include <string.h>

#include <source/primitive/primitive.h>

/* Values of tn__variant.flags. SORTED selects scatter_sorted.cl, and SHARED
 * without SORTED selects scatter_shared.cl. LARGE gives scatter_shared.cl twice
 * as much local memory for dst. */
enum { SORTED = 1, WIDE_POSITIONS = 2, NARROW = 4, SHARED = 2, LARGE = 4 };

/* Limits for choosing a kernel. They follow from estimates, not measurements:
 * with one work-item for a line, each index takes about 1 us; sorting a few
 * indices takes about 30 us. */
#define SHORT_LINE 64
#define LINES_PER_UNIT 64
/* In scatter_sorted.cl, a work-item processes EACH columns (neighbouring lines
 * with the same indices) and loads AHEAD indices at a time, before it uses the
 * first. If there are fewer than EACH columns, it processes one and loads
 * NARROW_AHEAD indices at a time (flag NARROW). */
#define EACH 4
#define AHEAD 2
#define NARROW_AHEAD 8
#define TEAM 32
/* Sizes of scatter_shared.cl. */
#define SHARED_EACH 4
#define SHARED_SLOTS 2048
#define SHARED_BYTES 16384 /* bytes of dst in local memory; twice as many with
                            * LARGE */
#define SHARED_SPARSE 4 /* scatter_shared.cl is used only if dst has at most
                         * this many elements for each index, because it loads
                         * and stores all of dst */
#define SHARED_ALONE 16384 /* scatter_shared.cl is used only if a line has at
                            * most this many indices, or if there are enough
                            * lines to use most of the device */

/* Returns the strides that give the row-major index of an element in the
 * scatter, for fault reports. */
static tn_strided point_positions(const tn_scatter_args *s)
{
    tn_strided at = {.offset = 0};
    int64_t behind = 1;
    for (uint32_t d = s->ndim; d-- > 0; behind *= s->extent[d])
        at.stride[d] = behind;
    return at;
}

/* ---- one line for each work-item or work-group --------------------------- */

/* Plans scatter.cl if `flags` is 0, or scatter_shared.cl if it contains
 * SHARED. */
static tn_status plan_lines(const tn_target *target, const tn_scatter_args *s,
                            unsigned flags, tn_plan *plan)
{
    tn__primitive p;
    const int64_t length = s->extent[s->dim];
    const tn_strided position = point_positions(s);
    tn__primitive_init(&p, target, plan, TN__SCATTER, s->dst.dtype);
    p.v.kind = s->reduce;
    plan->flags = TN_PLAN_FAULTS;
    tn__primitive_extents(&p, s->extent, s->ndim, s->dim);
    tn__primitive_operand(&p, &s->dst, s->dim, s->dst_extent);
    tn__primitive_operand(&p, &s->index, s->dim, length);
    tn__primitive_operand(&p, &s->src, s->dim, length);
    tn__primitive_operand(&p, &position, s->dim, length);
    tn__primitive_buffer(&p, s->dst.buffer);
    tn__primitive_buffer(&p, s->index.buffer);
    tn__primitive_buffer(&p, s->src.buffer);
    tn__primitive_space(&p, length);
    tn__primitive_argument(&p, length);
    tn__primitive_argument(&p, s->index.stride[s->dim]);
    tn__primitive_argument(&p, s->src.stride[s->dim]);
    tn__primitive_argument(&p, s->dst.stride[s->dim]);
    tn__primitive_argument(&p, s->dst_extent);
    tn__primitive_argument(&p, position.stride[s->dim]);
    if (length == 0)
        p.outer.count = 0;
    tn__fault_words(p.argument + p.argument_count, target, s->tag);
    p.argument_count += 3;
    p.v.flags = flags;
    if (!flags)
        return tn__primitive_end_lines(&p);
    p.v.group = tn__target_group(target);
    return tn__primitive_end(&p, p.outer.count, 16);
}

/* Returns the flags for scatter_shared.cl, or 0 if it should not be used. A
 * line of dst must fit into local memory, lines must be contiguous, and there
 * must be enough of them. */
static unsigned shared_flags(const tn_target *target, const tn_scatter_args *s)
{
    const int64_t units = target->units ? target->units : 1;
    const int64_t length = s->extent[s->dim], group = tn__target_group(target);
    const int64_t bytes =
        s->dst_extent * (int64_t)tn_dtype_bytes(s->dst.dtype);
    const unsigned flags = SHARED | (bytes > SHARED_BYTES ? LARGE : 0);
    const int64_t room = flags & LARGE ? 2 * SHARED_BYTES : SHARED_BYTES;
    int64_t lines = 1;
    for (uint32_t d = 0; d < s->ndim; d++)
        lines *= d == s->dim ? 1 : s->extent[d];
    const bool is_busy = lines * 4 >= units || length <= SHARED_ALONE;
    const bool is_contiguous =
        s->index.stride[s->dim] == 1 && s->dst.stride[s->dim] == 1;
    return is_busy && is_contiguous && length >= SHORT_LINE && bytes <= room &&
                   s->dst_extent <= SHARED_SPARSE * length &&
                   room + 4 * SHARED_SLOTS + 16 * group + 8 <=
                       (int64_t)target->local_bytes
               ? flags
               : 0;
}

/* ---- scatter_sorted.cl --------------------------------------------------- */

/* The scatter with its dimensions reordered. First come the dimensions along
 * which the indices differ, then the dimensions along which lines have the same
 * indices, then the dimension of the scatter. */
typedef struct reordered {
    uint32_t ndim;
    /* keys: number of points of the dimensions along which indices differ.
     * width: number of points of the dimensions along which lines have the same
     * indices */
    int64_t extent[TN_MAX_NDIM], keys, width;
    tn_strided dst, index, src, position;
    bool rises; /* true if the row-major index rises with the index of the
                 * line */
} reordered;

static void reorder_dimension(reordered *a, const tn_scatter_args *s,
                              uint32_t d, const tn_strided *position)
{
    const uint32_t to = a->ndim++;
    a->extent[to] = s->extent[d];
    a->dst.stride[to] = s->dst.stride[d];
    a->index.stride[to] = s->index.stride[d];
    a->src.stride[to] = s->src.stride[d];
    a->position.stride[to] = position->stride[d];
}

static reordered reorder(const tn_scatter_args *s)
{
    const tn_strided position = point_positions(s);
    reordered a = {.dst = s->dst,
                   .index = s->index,
                   .src = s->src,
                   .keys = 1,
                   .width = 1,
                   .rises = true};
    for (uint32_t d = 0; d < s->ndim; d++)
        if (d != s->dim && s->index.stride[d] != 0) {
            a.keys *= s->extent[d];
            a.rises = a.rises && d < s->dim;
            reorder_dimension(&a, s, d, &position);
        }
    for (uint32_t d = 0; d < s->ndim; d++)
        if (d != s->dim && s->index.stride[d] == 0) {
            a.width *= s->extent[d];
            reorder_dimension(&a, s, d, &position);
        }
    reorder_dimension(&a, s, s->dim, &position);
    return a;
}

static tn_status plan_sorted_step(const tn_target *target,
                                  const tn_scatter_args *s, const reordered *a,
                                  const tn__sorted *sorted, uint32_t digits,
                                  tn_plan *plan)
{
    tn__primitive p;
    const uint32_t last = a->ndim - 1;
    const int64_t length = a->extent[last];
    tn__primitive_init(&p, target, plan, TN__SCATTER, s->dst.dtype);
    plan->step_count = sorted->steps;
    plan->flags = TN_PLAN_FAULTS | TN_PLAN_SCRATCH;
    plan->scratch_bytes = sorted->scratch_bytes;
    tn__primitive_extents(&p, a->extent, a->ndim, last);
    tn__primitive_operand(&p, &a->dst, last, s->dst_extent);
    tn__primitive_operand(&p, &a->index, last, length);
    tn__primitive_operand(&p, &a->src, last, length);
    tn__primitive_operand(&p, &a->position, last, length);
    tn__primitive_buffer(&p, s->dst.buffer);
    tn__primitive_buffer(&p, s->src.buffer);
    const bool narrow = a->width < EACH;
    const int64_t each = narrow ? 1 : EACH, group = tn__target_group(target);
    int64_t team = 1;
    while (team < TEAM && team < group && team * each < a->width)
        team *= 2;
    const int64_t tiles = tn__divide_up(a->width, team * each);
    const int64_t tasks = sorted->lines * length * tiles;
    tn__primitive_space(&p, tasks);
    p.v.group = (uint32_t)group;
    p.v.kind = s->reduce;
    p.v.flags =
        SORTED | (sorted->is_wide ? WIDE_POSITIONS : 0) | (narrow ? NARROW : 0);
    const int64_t word[] = {
        length, a->src.stride[last], a->dst.stride[last], s->dst_extent,
        (int64_t)(UINT64_MAX >> (64 - 8 * digits)), sorted->first_line,
        sorted->lines, a->width, team, a->position.stride[last], sorted->keys,
        sorted->positions};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        tn__primitive_argument(&p, word[i]);
    tn__fault_words(p.argument + p.argument_count, target, s->tag);
    p.argument_count += 3;
    return tn__primitive_end(&p, tn__divide_up(tasks, group / team), 64);
}

static tn_status plan_sorted(const tn_target *target, const tn_scatter_args *s,
                             const reordered *a, tn_plan *plan)
{
    tn_sort_args sort = {.size = sizeof sort, .ndim = a->ndim,
                         .keep = s->extent[s->dim], .in = a->index,
                         .tag = s->tag};
    tn__sorted sorted;
    uint32_t digits = 1;
    memcpy(sort.extent, a->extent, sizeof sort.extent);
    /* Lines that have the same indices are sorted once, as one line. */
    for (uint32_t d = 0; d + 1 < a->ndim; d++)
        if (a->index.stride[d] == 0)
            sort.extent[d] = 1;
    while (digits < 8 && (s->dst_extent - 1) >> 8 * digits)
        digits++;
    const tn_status status =
        tn__plan_sorted(target, &sort, digits, !a->rises, plan, &sorted);
    return status || !sorted.is_ready
               ? status
               : plan_sorted_step(target, s, a, &sorted, digits, plan);
}

tn_status tn__plan_scatter(const tn_target *target, const tn_scatter_args *s,
                           tn_plan *plan)
{
    const int64_t units = target->units ? target->units : 1;
    const reordered a = reorder(s);
    if (target->flags & TN_TARGET_CHUNKED || s->extent[s->dim] < SHORT_LINE ||
        a.width == 0 || a.keys == 0 || s->dst_extent == 0)
        return plan_lines(target, s, 0, plan);
    const unsigned flags = a.width == 1 ? shared_flags(target, s) : 0;
    return flags || a.keys > LINES_PER_UNIT * units
               ? plan_lines(target, s, flags, plan)
               : plan_sorted(target, s, &a, plan);
}

/* ---- printing ------------------------------------------------------------ */

const char *tn__define_scatter(tn__text *text, const tn__variant *v,
                               const char *type)
{
    static const char *const name[TN_SCATTER_END] = {"set", "add", "mul",
                                                     "min", "max"};
    if (v->kind == TN_SCATTER_SET)
        tn__text_add(text, "#define TK_COMBINE(old, x) (x)\n");
    else
        tn__text_add(text, "#define TK_COMBINE(old, x) tk_%s_%s((old), (x))\n",
                     name[v->kind], type);
    if (!v->flags)
        return "scatter.cl";
    if (!(v->flags & SORTED)) {
        tn__text_add(text,
                     "#define TK_SIZE %u\n#define TK_EACH %d\n"
                     "#define TK_ROOM %d\n#define TK_SLOTS %d\n",
                     v->group, SHARED_EACH,
                     (v->flags & LARGE ? 2 : 1) * SHARED_BYTES /
                         (int)tn_dtype_bytes((tn_dtype)v->dtype),
                     SHARED_SLOTS);
        return "scatter_shared.cl";
    }
    tn__text_add(text,
                 "#define TK_POSITION tk_u%d\n#define TK_EACH %d\n"
                 "#define TK_AHEAD %d\n",
                 v->flags & WIDE_POSITIONS ? 64 : 32,
                 v->flags & NARROW ? 1 : EACH,
                 v->flags & NARROW ? NARROW_AHEAD : AHEAD);
    return "scatter_sorted.cl";
}
