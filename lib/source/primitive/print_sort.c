/* print_sort.c: plans and prints sorts (sort, topk, kthvalue and the like). A
 * line is the elements that are sorted together.
 *
 * A short line, or several, is sorted by one work-group. A long line is divided
 * into blocks, one for each work-group, and sorted by a stable radix sort. It
 * has a pass for each 8-bit digit of the key, the lowest first, and each pass
 * has three launches (sort_count.cl, sort_sum.cl, sort_move.cl).
 *
 * If only a small part of a line is selected (topk), the radix sort comes after
 * a selection. Histograms of the digits, the highest first, give the key of the
 * last selected element. Then one pass selects the elements with lower keys and
 * as many with equal keys as needed. Only these are sorted.
 *
 * Lines are processed in batches. Scratch memory has two copies of the keys and
 * positions of a batch. */
#include <source/primitive/primitive.h>

/* the kernels, as values of tn__variant.kind */
enum { MERGE, FEW, GROUP, COUNT, SUM, MOVE };
enum { SMALL = 1 }; /* a value of tn__variant.flags, for the kernel GROUP: the
                     * work-group has only SMALL_GROUP work-items */
enum { WANTS_OUT = 1, WANTS_INDEX = 2 };
enum { DIGIT, WITH_PREFIX, COMPARED }; /* what a launch counts or sorts by:
                                        * values of TK_MODE in sort.cl */

/* Longest line for sort_few.cl. The limit is an estimate, not measured: finding
 * the rank of an element among FEW_MOST elements takes FEW_MOST loads, while
 * the radix sort of a work-group takes about 100 instructions for every four
 * bits. */
#define FEW_MOST 64
#define SMALL_GROUP 64
#define SMALL_EACH 4
/* Number of elements of a work-item. The 4-byte keys of 256 work-items are then
 * 12 KiB, of the 32 KiB of local memory that every work-group has. */
#define EACH 12
#define ELEMENTS ((int64_t)1 << 23) /* largest number of elements of a batch */
#define GROUPS_PER_UNIT 16 /* work-groups for each compute unit, of which three
                            * run at once (limited by registers) */
#define FEW_BLOCKS 16      /* largest number of blocks whose counts one
                            * work-item adds; if there are more, a work-group
                            * adds them */

static unsigned bits_of(unsigned dtype)
{
    return dtype == TN_BOOL ? 1
                            : 8 * (unsigned)tn_dtype_bytes((tn_dtype)dtype);
}

static bool has_wide_keys(const tn__variant *v)
{
    return v->is_wide || bits_of(v->dtype) > 32;
}

/* Returns how many elements a work-item processes at once. */
static int64_t elements_per_item(const tn__variant *v)
{
    return v->flags & SMALL ? SMALL_EACH : has_wide_keys(v) ? EACH / 2 : EACH;
}

/* How a line is divided into blocks, one for each work-group: the number of
 * blocks and the elements of a block. */
typedef struct blocks {
    int64_t count, length;
} blocks;

/* What all launches (steps) of a sort share. */
typedef struct work {
    tn__primitive *p;
    int64_t length, keep, lines, lines_at_once;
    int64_t group_elements; /* number of elements that a work-group can hold at
                             * once */
    bool last_only;
    bool at_once;           /* true if one batch has all lines */
    bool keeps_keys;        /* true if the results stay in scratch memory, for a
                             * scatter */
    uint32_t passes, steps; /* steps: number of launches for each batch */
    blocks all, kept;       /* all: how a line is divided into blocks; kept: how
                             * the selected elements of a line are divided */
    bool selects;
    /* Offsets in scratch memory, in units of 8 bytes. */
    int64_t keys[2], positions[2], table, totals, end;
} work;

/* What differs from launch to launch. These are arguments of sort.cl. */
typedef struct step {
    unsigned kind;
    int64_t first_line, lines, count, first_rank, keep;
    blocks blocks;
    int from, to; /* which copy of keys and positions in scratch memory is read
                   * and written; -1 for the tensors */
    int shift, mode, known;
} step;

static blocks divide_into_blocks(const work *w, int64_t count)
{
    const tn_target *target = w->p->target;
    const int64_t tiles = tn__divide_up(count, w->group_elements);
    const int64_t groups =
        GROUPS_PER_UNIT * (int64_t)(target->units ? target->units : 1);
    const int64_t each = tn__divide_up(tiles * w->lines_at_once, groups);
    blocks b = {.length = tn__min_i64(each, tiles) * w->group_elements};
    b.count = tn__divide_up(count, b.length);
    return b;
}

static int64_t reserve(work *w, int64_t count, int64_t bytes)
{
    const int64_t at = w->end;
    w->end += tn__divide_up(count * bytes, 8);
    return at;
}

/* Chooses the batches, the launches and the offsets of all arrays in scratch
 * memory. */
static void plan_memory(work *w)
{
    const tn__variant *v = &w->p->v;
    const int64_t key_bytes = bits_of(v->dtype) > 32 ? 8 : 4;
    const int64_t place_bytes = v->is_wide ? 8 : 4;
    w->lines_at_once = w->at_once          ? w->lines
                       : w->length < ELEMENTS ? ELEMENTS / w->length
                                              : 1;
    w->lines_at_once = tn__min_i64(w->lines_at_once, w->lines);
    w->selects = !w->keeps_keys && (w->last_only || w->keep <= w->length / 4);
    w->all = divide_into_blocks(w, w->length);
    w->kept = divide_into_blocks(w, w->keep);
    const int64_t held = w->selects ? w->keep : w->length;
    const uint32_t between = w->keeps_keys ? w->passes : w->passes - 1;
    uint32_t halves = between > 2 ? 2 : between;
    w->steps = 3 * w->passes;
    if (w->selects) { /* For each digit, two launches find that digit of the
                       * last selected element's key. A further pass then
                       * selects the elements. */
        const bool is_one_group = w->keep <= w->group_elements;
        w->steps = 2 * w->passes + 3;
        halves = w->last_only ? 0 : is_one_group || w->passes == 1 ? 1 : 2;
        if (!w->last_only)
            w->steps += is_one_group ? 1 : 3 * w->passes;
    }
    for (uint32_t h = 0; h < halves; h++) {
        w->keys[h] = reserve(w, w->lines_at_once * held, key_bytes);
        w->positions[h] = reserve(w, w->lines_at_once * held, place_bytes);
    }
    const int64_t rows = w->lines_at_once * 256;
    const int64_t most =
        w->all.count > w->kept.count ? w->all.count : w->kept.count;
    w->table = reserve(w, rows * most, place_bytes);
    w->totals =
        reserve(w, rows * (w->selects ? w->passes + 1 : 1), place_bytes);
}

/* Describes launch `at` of a radix sort, which has three launches for each
 * digit, the lowest first. It sorts `count` elements, which are in the input
 * tensor if `from` is -1, else in the first copy in scratch memory. */
static void sort_step(const work *w, step *s, uint32_t at, int from)
{
    const uint32_t pass = at / 3;
    const bool is_first = pass == 0;
    const bool is_last = !w->keeps_keys && pass + 1 == w->passes;
    s->kind = COUNT + at % 3;
    s->shift = 8 * (int)pass;
    s->mode = DIGIT;
    s->from = is_first ? from : (int)(pass - 1 + (from < 0 ? 0 : 1)) % 2;
    s->to = is_last ? -1 : s->from < 0 ? 0 : 1 - s->from;
    s->keep = is_last ? w->keep : s->count;
}

static step step_at(const work *w, uint32_t number)
{
    uint32_t at = number % w->steps;
    step s = {.count = w->length, .keep = w->keep, .blocks = w->all,
              .from = -1, .to = -1};
    s.first_line = number / w->steps * w->lines_at_once;
    s.lines = tn__min_i64(w->lines_at_once, w->lines - s.first_line);
    if (!w->selects) {
        sort_step(w, &s, at, -1);
        return s;
    }
    if (at < 2 * w->passes) {
        s.kind = at % 2 ? SUM : COUNT;
        s.mode = WITH_PREFIX;
        s.known = (int)(at / 2);
        s.shift = 8 * (int)(w->passes - 1 - at / 2);
        return s;
    }
    at -= 2 * w->passes;
    if (at < 3) {
        s.kind = COUNT + at;
        s.mode = COMPARED;
        s.known = (int)w->passes;
        s.first_rank = w->last_only ? w->keep - 1 : 0;
        s.to = w->last_only ? -1 : 0;
        return s;
    }
    s.count = w->keep;
    s.blocks = w->kept;
    if (w->keep <= w->group_elements) {
        s.kind = GROUP;
        s.from = 0;
    } else {
        sort_step(w, &s, at - 3, 0);
    }
    return s;
}

/* Returns the number of work-groups that have work in this launch. */
static int64_t groups_of(const tn__primitive *p, const step *s)
{
    const int64_t rows = s->lines * 256;
    switch (s->kind) {
    case FEW:
        return tn__divide_up(s->lines, p->v.group / s->count);
    case COUNT:
    case MOVE:
        return s->lines * s->blocks.count;
    case SUM:
        return s->blocks.count > FEW_BLOCKS ? rows : rows / p->v.group;
    default:
        return s->lines;
    }
}

static tn_status end(const work *w, const tn_sort_args *args, const step *s)
{
    tn__primitive *p = w->p;
    const uint32_t last = args->ndim - 1;
    const int64_t word[] = {
        w->length,
        args->in.stride[last],
        args->out.stride[last],
        args->out_index.stride[last],
        args->flags & TN_SORT_DESCENDING
            ? (int64_t)(UINT64_MAX >> (64 - bits_of(p->v.dtype)))
            : 0,
        (args->out.buffer ? WANTS_OUT : 0) |
            (args->out_index.buffer ? WANTS_INDEX : 0),
        s->first_line,
        s->lines,
        s->count,
        s->first_rank,
        s->keep,
        s->blocks.count,
        s->blocks.length,
        s->from < 0 ? -1 : w->keys[s->from],
        s->from < 0 ? -1 : w->positions[s->from],
        s->to < 0 ? -1 : w->keys[s->to],
        s->to < 0 ? -1 : w->positions[s->to],
        w->table,
        w->totals,
        s->shift,
        s->mode,
        s->known};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        tn__primitive_argument(p, word[i]);
    p->v.kind = s->kind;
    if (s->kind == SUM) /* sort_sum.cl does not depend on the dtype, so one
                         * kernel is enough */
        p->v.dtype = TN_I32;
    tn_status status = tn__primitive_end(p, groups_of(p, s), 32);
    p->plan->flags |= TN_PLAN_SCRATCH;
    p->plan->scratch_bytes = s->kind == MERGE ? p->plan->group_count * 2 *
                                                    (uint64_t)w->length *
                                                    (p->v.is_wide ? 8 : 4)
                                              : 8 * (uint64_t)w->end;
    return status;
}

/* Begins a plan. at_once is the number of lines that one batch must have, even
 * if they have more than ELEMENTS elements. */
static work begin(tn__primitive *p, const tn_target *target,
                  const tn_sort_args *s, int64_t at_once, tn_plan *plan)
{
    const uint32_t last = s->ndim - 1;
    const int64_t length = s->extent[last];
    tn__primitive_init(p, target, plan, TN__SORT, s->in.dtype);
    tn__primitive_extents(p, s->extent, s->ndim, last);
    tn__primitive_operand(p, &s->in, last, length);
    tn__primitive_operand(p, s->out.buffer ? &s->out : &s->in, last, length);
    tn__primitive_operand(p, s->out_index.buffer ? &s->out_index : &s->in, last,
                          length);
    tn__primitive_buffer(p, s->in.buffer);
    tn__primitive_buffer(p, s->out.buffer);
    tn__primitive_buffer(p, s->out_index.buffer);
    tn__primitive_space(p, at_once * length);
    p->v.group = tn__primitive_is_chunked(p) ? 1 : tn__target_group(target);
    return (work){.p = p,
                  .length = length,
                  .lines = p->outer.count,
                  .keep = tn__min_i64(s->keep, length),
                  .last_only = s->flags & TN_SORT_LAST,
                  .group_elements = elements_per_item(&p->v) * p->v.group,
                  .passes = (bits_of(s->in.dtype) + 7) / 8};
}

tn_status tn__plan_sorted(const tn_target *target, const tn_sort_args *s,
                          uint32_t digits, bool at_once, tn_plan *plan,
                          tn__sorted *out)
{
    tn__primitive p;
    int64_t lines = 1;
    for (uint32_t d = 0; at_once && d + 1 < s->ndim; d++)
        lines *= s->extent[d];
    work w = begin(&p, target, s, lines, plan);
    w.keeps_keys = true;
    w.at_once = at_once;
    w.passes = digits;
    plan_memory(&w);
    const uint32_t number = plan->step / (w.steps + 1) * w.steps;
    const uint32_t at = plan->step % (w.steps + 1), half = (digits - 1) % 2;
    *out =
        (tn__sorted){.is_ready = at == w.steps,
                     .is_wide = p.v.is_wide,
                     .first_line = plan->step / (w.steps + 1) * w.lines_at_once,
                     .keys = w.keys[half],
                     .positions = w.positions[half],
                     .steps = (w.steps + 1) *
                              (uint32_t)tn__divide_up(w.lines, w.lines_at_once),
                     .scratch_bytes = 8 * (uint64_t)w.end};
    out->lines = tn__min_i64(w.lines_at_once, w.lines - out->first_line);
    plan->step_count = out->steps;
    if (out->is_ready)
        return TN_OK;
    const step now = step_at(&w, number + at);
    return end(&w, s, &now);
}

tn_status tn__plan_sort(const tn_target *target, const tn_sort_args *s,
                        tn_plan *plan)
{
    tn__primitive p;
    work w = begin(&p, target, s, 1, plan);
    const int64_t length = w.length;
    step only = {.lines = w.keep > 0 ? w.lines : 0, .count = length,
                 .keep = w.keep, .from = -1, .to = -1};
    if (tn__primitive_is_chunked(&p)) {
        only.kind = MERGE;
    } else if (length <= FEW_MOST && length <= p.v.group) {
        only.kind = FEW;
        only.count = length > 0 ? length : 1;
    } else if (length <= w.group_elements) {
        only.kind = GROUP;
        only.first_rank = w.last_only ? w.keep - 1 : 0;
        if (length <= SMALL_EACH * SMALL_GROUP && p.v.group > SMALL_GROUP) {
            p.v.flags = SMALL;
            p.v.group = SMALL_GROUP;
        }
    } else if (only.lines > 0) {
        plan_memory(&w);
        only = step_at(&w, plan->step);
        plan->step_count =
            w.steps * (uint32_t)tn__divide_up(w.lines, w.lines_at_once);
    }
    return end(&w, s, &only);
}

/* ---- printing ------------------------------------------------------------ */

/* Prints the conversion of an element to its key, an unsigned integer that is
 * ordered as the values are. The bits of a float are a sign and a magnitude. A
 * signed integer only needs its sign bit inverted. */
static void define_keys(tn__text *text, unsigned dtype)
{
    static const uint64_t infinity[TN_DTYPE_END] = {
        [TN_F64] = 0x7ff0000000000000,
        [TN_F32] = 0x7f800000,
        [TN_F16] = 0x7c00,
        [TN_BF16] = 0x7f80,
        [TN_F8E4M3] = 0x7e,
        [TN_F8E5M2] = 0x7c};
    const unsigned bits = bits_of(dtype);
    const unsigned long long sign = 1ull << (bits - 1), all = sign | (sign - 1);
    tn__text_add(text, "#define TK_BITS %u\ntypedef tk_u%d tk_keys;\n", bits,
                 bits > 32 ? 64 : 32);
    if (dtype == TN_F32 || dtype == TN_F64)
        tn__text_add(text, "#define TK_CODE(s) ((tk_keys)tk_bits_%s(s))\n",
                     tn__source_dtype(dtype));
    else if (dtype == TN_BOOL)
        tn__text_add(text, "#define TK_CODE(s) ((tk_keys)((s) != 0))\n");
    else
        tn__text_add(text, "#define TK_CODE(s) ((tk_keys)(s) & 0x%llxu)\n",
                     all);
    if (infinity[dtype])
        tn__text_add(text,
                     "TK_FN tk_keys tk_order(tk_keys code)\n{\n"
                     "    const tk_keys magnitude = code & 0x%llxu;\n"
                     "    const tk_keys key = code > 0x%llxu ? ~code & 0x%llxu "
                     ": code | 0x%llxu;\n"
                     "    return magnitude > 0x%llxu ? 0x%llxu : key;\n}\n"
                     "#define TK_ORDER(s) tk_order(TK_CODE(s))\n",
                     sign - 1, sign, all, sign,
                     (unsigned long long)infinity[dtype], all);
    else
        tn__text_add(text, "#define TK_ORDER(s) (TK_CODE(s) ^ 0x%llxu)\n",
                     dtype == TN_BOOL || dtype == TN_U8 ? 0 : sign);
}

const char *tn__define_sort(tn__text *text, const tn__variant *v)
{
    static const char *const part[] = {
        [MERGE] = "sort_merge.cl", [FEW] = "sort_few.cl",
        [GROUP] = "sort_group.cl", [COUNT] = "sort_count.cl",
        [SUM] = "sort_sum.cl",     [MOVE] = "sort_move.cl"};
    define_keys(text, v->dtype);
    tn__text_add(text,
                 "#define TK_SIZE %u\n#define TK_EACH %d\n"
                 "#define TK_STAGED tk_u%d\n#define TK_FEW_BLOCKS %d\n",
                 v->group, (int)elements_per_item(v),
                 has_wide_keys(v) ? 64 : 32, FEW_BLOCKS);
    return part[v->kind];
}
