/* rows.c: the loops of a printed program over rows, stages and elements.
 *
 * TN_TARGET_CHUNKED: a work-item has whole rows with all 16 lanes of their
 * sums in an array; a compiler makes vectors of the innermost loop. Else: a
 * row belongs to a team of slots * 16 work-items, a lane of a chunk to each;
 * where memory is contiguous across rows, of slots * 4, four lanes to each; a
 * short one to one work-item; or (split.c) a share of it does. Bits are the same:
 * the order of a fold depends on the row alone. */
#include <stdio.h>

#include <kernel/device/print.h>

/* ---- reductions ----------------------------------------------------------------- */

static bool is_arg(const tn_kernel_ins *ins)
{
    return ins->sub == TN_REDUCE_ARGMAX || ins->sub == TN_REDUCE_ARGMIN;
}

static const char *folded_type(const tn__device_printer *p, uint32_t i)
{
    return tn__device_dtype(p->ins[p->ins[i].a].dtype);
}

/* tk_<this>: the type of what is folded. */
static void accumulator_type(const tn__device_printer *p, uint32_t i,
                             char out[16])
{
    snprintf(out, 16, "%s%s", is_arg(&p->ins[i]) ? "arg_" : "",
             folded_type(p, i));
}

static void fold_name(const tn__device_printer *p, uint32_t i, char out[32])
{
    static const char *const name[TN_REDUCE_END] = {
        [TN_REDUCE_SUM] = "add",       [TN_REDUCE_PROD] = "mul",
        [TN_REDUCE_MAX] = "max",       [TN_REDUCE_MIN] = "min",
        [TN_REDUCE_ARGMAX] = "argmax", [TN_REDUCE_ARGMIN] = "argmin",
    };
    snprintf(out, 32, "tk_%s_%s", name[p->ins[i].sub], folded_type(p, i));
}

/* The least (greatest) value of a type. */
static const char *lowest(unsigned dtype, bool highest)
{
    switch (dtype) {
    case TN_F32:
        return highest ? "tk_of_bits_f32(0x7f800000)"
                       : "tk_of_bits_f32(0xff800000)";
    case TN_F64:
        return highest ? "tk_of_bits_f64(0x7ff0000000000000)"
                       : "tk_of_bits_f64(0xfff0000000000000)";
    case TN_I32:
        return highest ? "2147483647" : "(-2147483647 - 1)";
    case TN_I64:
        return highest ? "(tk_i64)0x7fffffffffffffff"
                       : "(-(tk_i64)0x7fffffffffffffff - 1)";
    default:
        return highest ? "1" : "0";
    }
}

/* What is folded in for nothing, and (empty) what nothing at all gives: they
 * differ in the sign of 0. */
static void neutral(const tn__device_printer *p, uint32_t i, bool empty,
                    char out[64])
{
    const tn_kernel_ins *ins = &p->ins[i];
    unsigned dtype = p->ins[ins->a].dtype;
    const char *value;
    switch (ins->sub) {
    case TN_REDUCE_SUM:
        value = empty || (dtype != TN_F32 && dtype != TN_F64) ? "0"
                : dtype == TN_F32                             ? "-0.0f"
                                                              : "-0.0";
        break;
    case TN_REDUCE_PROD:
        value = "1";
        break;
    case TN_REDUCE_MAX:
        value = lowest(dtype, false);
        break;
    case TN_REDUCE_MIN:
        value = lowest(dtype, true);
        break;
    default:
        snprintf(out, 64, "tk_arg_at_%s(0, -1)", folded_type(p, i));
        return;
    }
    snprintf(out, 64, "%s", value);
}

/* Lanes that a work-item accumulates, in an array unless it is one. */
static uint32_t lanes_of(const tn__device_printer *p)
{
    return p->chunked ? TN_LANES : p->class.lanes;
}

/* Do several work-items share a row? */
static bool has_team(const tn__device_printer *p)
{
    return !p->chunked && tn__device_team(&p->class) > 1;
}

void tn__device_reduce(tn__device_printer *p, uint32_t i)
{
    char fold[32], target[32];
    fold_name(p, i, fold);
    snprintf(target, sizeof target, lanes_of(p) > 1 ? "acc%u[l]" : "acc%u", i);
    if (is_arg(&p->ins[i]))
        tn__device_line(p, "%s = %s(%s, tk_arg_at_%s(v%u, k));", target, fold,
                        target, folded_type(p, i), p->ins[i].a);
    else
        tn__device_line(p, "%s = %s(%s, v%u);", target, fold, target,
                        p->ins[i].a);
}

/* ---- a stage ----------------------------------------------------------------------- */

typedef struct stage_walk {
    const tn_kernel_stage *stage;
    const bool *needed; /* by instruction, in its elem part */
    uint32_t used;      /* operands that the elem part has a place of */
    bool reduces, does; /* anything at all */
    bool numbers;       /* the element's number k, besides */
} stage_walk;

static stage_walk look_at(const tn__device_printer *p, uint32_t s)
{
    const tn_kernel_stage *stage = &p->program->stage[s];
    const bool *needed = p->elem_needed + (size_t)s * p->program->ins_count;
    uint32_t end = stage->elem_first + stage->elem_count;
    stage_walk walk = {
        .stage = stage,
        .needed = needed,
        .used = tn__device_operands_of(p, needed, stage->elem_first, end) &
                ~p->cached};
    for (uint32_t at = stage->elem_first; at < end; at++) {
        uint32_t i = p->program->order[at];
        bool reduce = p->ins[i].op == TN_K_REDUCE && p->needed[i];
        walk.reduces = walk.reduces || reduce;
        walk.numbers = walk.numbers || (reduce && is_arg(&p->ins[i])) ||
                       (p->faults && p->ins[i].op == TN_K_LOAD);
        walk.does = walk.does || reduce || p->ins[i].op == TN_K_STORE ||
                    (p->faults && p->ins[i].op == TN_K_LOAD);
    }
    return walk;
}

bool tn__device_reduces(const tn__device_printer *p, uint32_t s)
{
    return look_at(p, s).reduces;
}

/* The next REDUCE of the stage that is needed, from order[*at] on. */
static bool next_reduce(const tn__device_printer *p, const stage_walk *walk,
                        uint32_t *at, uint32_t *i)
{
    uint32_t end = walk->stage->elem_first + walk->stage->elem_count;
    for (; *at < end; ++*at) {
        *i = p->program->order[*at];
        if (p->ins[*i].op == TN_K_REDUCE && p->needed[*i]) {
            ++*at;
            return true;
        }
    }
    return false;
}

static void print_list(tn__device_printer *p, const stage_walk *walk)
{
    const tn_kernel_stage *stage = walk->stage;
    p->position = "(tk_i64)row * TK_WORD(1) + k";
    p->local_stage = (uint32_t)(stage - p->program->stage);
    const bool *needed = p->needed;
    p->needed = walk->needed;
    tn__device_list(p, p->program->order, stage->elem_first,
                    stage->elem_first + stage->elem_count);
    p->needed = needed;
}

/* here<k> of element k in a chunk */
static void print_here(tn__device_printer *p, const char *k, const char *chunk)
{
    for (uint32_t o = 0; o < p->program->operand_count; o++)
        if (p->cached >> o & 1)
            tn__device_line(p, "const tk_i32 here%u = TK_CACHED(%s, %s);", o,
                            k, chunk);
}

/* Element k of the row. */
static void print_element(tn__device_printer *p, const stage_walk *walk)
{
    tn__device_point(p, "k", walk->used, "at", "row", p->class.outer,
                     p->class.row, 0);
    if (p->terms == 0 && !walk->numbers)
        tn__device_line(p, "(void)k;");
    print_here(p, "k", "TK_SLOT");
    p->local = p->cached;
    print_list(p, walk);
    p->local = 0;
}

/* The elements of a row (a share of it), some at once: neighbouring work-items
 * have neighbouring vectors. */
static void print_vectors(tn__device_printer *p, const stage_walk *walk)
{
    char head[120];
    const uint32_t size = p->class.vector;
    snprintf(head, sizeof head,
             "for (tk_idx i = %sTK_ITEM * %u; i < mine; i += TK_TEAM * %u) ",
             p->class.split ? "begin + " : "", size, size);
    tn__device_open(p, head);
    tn__device_point(p, "i", walk->used, "from", "row", p->class.outer,
                     p->class.row, 0);
    print_here(p, "i", "i / TK_CHUNK");
    p->vectors = tn__device_vectors_of(p, walk->used) | p->cached;
    tn__device_vectors_open(p, walk->used);
    if (walk->numbers)
        tn__device_line(p, "const tk_idx k = i + l;");
    print_list(p, walk);
    tn__device_vectors_close(p);
    tn__device_close(p);
}

/* Accumulators as they begin: values, or arrays of lanes. */
static void print_accumulators(tn__device_printer *p, const stage_walk *walk)
{
    char type[16], none[64];
    uint32_t at = walk->stage->elem_first, i;
    while (next_reduce(p, walk, &at, &i)) {
        accumulator_type(p, i, type);
        neutral(p, i, false, none);
        if (lanes_of(p) > 1) {
            tn__device_line(p, "tk_%s acc%u[%u];", type, i, lanes_of(p));
            tn__device_line(p, "for (tk_i32 l = 0; l < %u; l++)", lanes_of(p));
            tn__device_line(p, "    acc%u[l] = %s;", i, none);
        } else {
            tn__device_line(p, "tk_%s acc%u = %s;", type, i, none);
        }
    }
}

/* From accumulators to one value each, and with them into the trees. */
static void print_folds(tn__device_printer *p, const stage_walk *walk)
{
    char type[16], fold[32], one[32];
    uint32_t at = walk->stage->elem_first, i;
    while (next_reduce(p, walk, &at, &i)) {
        accumulator_type(p, i, type);
        fold_name(p, i, fold);
        snprintf(one, sizeof one, lanes_of(p) > 1 ? "acc%u[0]" : "acc%u", i);
        if (lanes_of(p) > 1)
            tn__device_line(p, "TK_FOLD_LANES(%s, acc%u, %u)", fold, i,
                            lanes_of(p));
        if (has_team(p))
            tn__device_line(p, "TK_FOLD_TEAM(%s, %s, shared_%s)", fold, one,
                            type);
        if (p->class.is_short)
            tn__device_line(p, "sum%u = %s;", i, one);
        else
            tn__device_line(p, "TK_TREE_PUSH(%s, tree%u, span, %s)", fold, i,
                            one);
    }
}

static void print_sums(tn__device_printer *p, const stage_walk *walk)
{
    char type[16], none[64];
    uint32_t at = walk->stage->elem_first, i;
    while (next_reduce(p, walk, &at, &i)) {
        accumulator_type(p, i, type);
        neutral(p, i, true, none);
        tn__device_line(p, "tk_%s sum%u = %s;", type, i, none);
        if (!p->class.is_short)
            tn__device_line(p, "tk_%s tree%u[TK_LEVELS];", type, i);
    }
}

/* The value of REDUCE i. */
static void print_result(tn__device_printer *p, uint32_t i)
{
    if (is_arg(&p->ins[i]))
        tn__device_line(p, "const tk_i64 v%u = sum%u.k < 0 ? 0 : sum%u.k;", i,
                        i, i);
    else
        tn__device_line(p, "const tk_%s v%u = sum%u;",
                        tn__device_dtype(p->ins[i].dtype), i, i);
}

static void print_results(tn__device_printer *p, const stage_walk *walk)
{
    char fold[32];
    uint32_t at = walk->stage->elem_first, i;
    while (next_reduce(p, walk, &at, &i)) {
        fold_name(p, i, fold);
        if (!p->class.is_short)
            tn__device_line(p, "TK_TREE_TOP(%s, tree%u, span, sum%u)", fold, i,
                            i);
        if (!p->class.split) {
            print_result(p, i);
            continue;
        }
        tn__device_line(p, "if (active && TK_ITEM == 0)");
        tn__device_line(p, "    part%u[share] = sum%u;", i, i);
    }
}

/* The same of a stage that earlier steps have run, of all shares. */
static void print_shares(tn__device_printer *p, const stage_walk *walk)
{
    char type[16], fold[32], none[64];
    uint32_t at = walk->stage->elem_first, i;
    while (next_reduce(p, walk, &at, &i)) {
        accumulator_type(p, i, type);
        fold_name(p, i, fold);
        neutral(p, i, false, none);
        tn__device_line(p, "tk_%s sum%u;", type, i);
        tn__device_line(p, "TK_FOLD_SHARES(tk_%s, %s, %s, part%u, shares, "
                           "shared_%s, sum%u)",
                        type, fold, none, i, type, i);
        print_result(p, i);
    }
}

/* A work-item's loads wait for memory, and its lane folds one element after the
 * other: compilers unroll such a loop four times, which is four loads at once.
 * Eight are, where an element takes few instructions. */
#define FEW 12

static bool takes_little(const tn__device_printer *p, const stage_walk *walk)
{
    uint32_t end = walk->stage->elem_first + walk->stage->elem_count, taken = 0;
    for (uint32_t at = walk->stage->elem_first; at < end; at++) {
        const uint32_t i = p->program->order[at];
        const unsigned op = p->ins[i].op;
        if (!walk->needed[i])
            continue;
        if (op == TN_K_CALL || op == TN_K_LOOP || op == TN_K_PHILOX)
            return false;
        taken++;
    }
    return taken <= FEW;
}

/* Element k of the row, which is of lane l of those that a work-item has. */
static void print_lanes(tn__device_printer *p, const stage_walk *walk,
                        bool guarded)
{
    tn__text_add(&p->body, "#pragma unroll\n");
    tn__device_open(p, "for (tk_i32 l = 0; l < TK_LANES / TK_WIDTH; l++) ");
    tn__device_line(p, "const tk_idx k = j + l * TK_WIDTH;");
    if (guarded)
        tn__device_open(p, "if (k < most) ");
    print_element(p, walk);
    if (guarded)
        tn__device_close(p);
    tn__device_close(p);
}

/* Several lanes to a work-item: rounds that are whole, whose loads need no
 * condition, and the last one. */
static void print_rounds(tn__device_printer *p, const stage_walk *walk)
{
    tn__device_line(p, "const tk_i32 rounds = most > chunk "
                       "? (tk_i32)(most - chunk) / TK_LANES : 0;");
    if (takes_little(p, walk) && p->class.lanes < TN_LANES)
        tn__text_add(&p->body, "#pragma unroll 4\n");
    tn__device_open(p, "for (tk_i32 r = 0; r < rounds; r++) ");
    tn__device_line(p, "const tk_idx j = chunk + TK_LANE + r * TK_LANES;");
    print_lanes(p, walk, false);
    tn__device_close(p);
    tn__device_line(p, "const tk_idx j = chunk + TK_LANE + rounds * TK_LANES;");
    print_lanes(p, walk, true);
}

/* One pass over the chunks that are folded at once: one, or a team's. */
static void print_span(tn__device_printer *p, const stage_walk *walk)
{
    const char *begin = p->class.split ? "begin + " : "";
    print_accumulators(p, walk);
    if (p->chunked) {
        tn__device_line(p, "const tk_idx left = length - span * TK_CHUNK;");
        tn__device_line(p, "const tk_idx most = "
                           "left < TK_CHUNK ? left : TK_CHUNK;");
        tn__device_open(p, "for (tk_idx j = 0; j < most; j += TK_LANES) ");
        tn__device_line(p, "const tk_idx here = "
                           "most - j < TK_LANES ? most - j : TK_LANES;");
        tn__device_open(p, "for (tk_idx l = 0; l < here; l++) ");
        tn__device_line(p, "const tk_idx k = span * TK_CHUNK + j + l;");
        print_element(p, walk);
        tn__device_close(p);
        tn__device_close(p);
    } else {
        tn__device_line(p, "const tk_idx chunk = "
                           "%s(span * TK_SLOTS + TK_SLOT) * TK_CHUNK;", begin);
        tn__device_line(p, "const tk_idx most = chunk + TK_CHUNK < mine "
                           "? chunk + TK_CHUNK : mine;");
    }
    if (!p->chunked && p->class.lanes > 1) {
        print_rounds(p, walk);
    } else if (!p->chunked) {
        if (takes_little(p, walk))
            tn__device_line(p, "#pragma unroll 8");
        tn__device_open(p, "for (tk_idx k = chunk + TK_LANE; k < most; "
                           "k += TK_LANES) ");
        print_element(p, walk);
        tn__device_close(p);
    }
    print_folds(p, walk);
}

static void print_reducing(tn__device_printer *p, const stage_walk *walk)
{
    print_sums(p, walk);
    tn__device_line(p, "span = 0;");
    if (p->class.is_short)
        tn__device_open(p, "if (length > 0) ");
    else if (p->class.split)
        tn__device_open(p, "for (; begin + span * TK_SLOTS * TK_CHUNK < end; "
                           "span++) ");
    else
        tn__device_open(p, p->chunked
                               ? "for (; span * TK_CHUNK < length; span++) "
                               : "for (; span * TK_SLOTS * TK_CHUNK < length; "
                                 "span++) ");
    print_span(p, walk);
    tn__device_close(p);
}

static void print_elem_part(tn__device_printer *p, const stage_walk *walk)
{
    if (!walk->does)
        return;
    if (walk->reduces) {
        print_reducing(p, walk);
        return;
    }
    if (!p->chunked) {
        print_vectors(p, walk);
        return;
    }
    tn__device_open(p, "for (tk_idx k = 0; k < length; k++) ");
    print_element(p, walk);
    tn__device_close(p);
}

/* ---- rows ---------------------------------------------------------------------------- */

static bool part_stores(const tn__device_printer *p, uint32_t first,
                        uint32_t count)
{
    for (uint32_t at = first; at < first + count; at++)
        if (p->ins[p->program->order[at]].op == TN_K_STORE &&
            p->needed[p->program->order[at]])
            return true;
    return false;
}

/* Work-items of a team see each other's stores only behind a barrier, and
 * must not read what another has overwritten. */
static void print_barrier(tn__device_printer *p, bool needed)
{
    if (needed && has_team(p))
        tn__device_line(p, "TK_BARRIER();");
}

static void print_row_part(tn__device_printer *p, const tn_kernel_stage *stage)
{
    p->position = "(tk_i64)row * TK_WORD(1)";
    p->in_row_part = true;
    tn__device_list(p, p->program->order, stage->row_first,
                    stage->row_first + stage->row_count);
    p->in_row_part = false;
}

static void print_stages(tn__device_printer *p)
{
    const tn_program *program = p->program;
    bool stored = false;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        const tn_kernel_stage *stage = &program->stage[s];
        stage_walk walk = look_at(p, s);
        print_barrier(p, stored);
        stored = part_stores(p, stage->elem_first, stage->elem_count);
        print_elem_part(p, &walk);
        if (walk.reduces)
            print_results(p, &walk);
        if (stage->row_count == 0)
            continue;
        bool begins = p->ins[program->order[stage->row_first]].op == TN_K_STORE;
        print_barrier(p, stored && !begins); /* a store brings its own */
        stored = part_stores(p, stage->row_first, stage->row_count);
        print_row_part(p, stage);
    }
    print_barrier(p, stored);
}

/* A step whose rows are split. No barriers: a work-item meets in memory what
 * it has read or written there itself, or what earlier steps have. */
static void print_step(tn__device_printer *p)
{
    const tn_program *program = p->program;
    for (uint32_t s = 0; s < p->stage; s++) {
        const stage_walk walk = look_at(p, s);
        print_shares(p, &walk);
        print_row_part(p, &program->stage[s]);
    }
    if (p->stage == program->stage_count)
        return;
    const stage_walk walk = look_at(p, p->stage);
    print_elem_part(p, &walk);
    print_results(p, &walk);
}

static void print_shared(tn__device_printer *p)
{
    bool seen[2 * TN_DTYPE_END] = {false};
    char type[16];
    if (!has_team(p))
        return;
    for (uint32_t i = 0; i < p->program->ins_count; i++) {
        const tn_kernel_ins *ins = &p->ins[i];
        if (ins->op != TN_K_REDUCE || !p->needed[i])
            continue;
        bool *known = &seen[2 * p->ins[ins->a].dtype + is_arg(ins)];
        accumulator_type(p, i, type);
        if (!*known)
            tn__device_line(p, "TK_SHARED(tk_%s, shared_%s, %u);", type, type,
                            p->class.group);
        *known = true;
    }
}

/* ---- rows in local memory ------------------------------------------------- */

/* What several stages load, as far as they need it, unless it is one element. */
static uint32_t find_cached(const tn__device_printer *p)
{
    uint32_t before = 0, cached = 0;
    for (uint32_t s = 0; p->class.cached && s < p->program->stage_count; s++) {
        const uint32_t used = look_at(p, s).used;
        cached |= before & used;
        before |= used;
    }
    if (p->kept != TN_NONE)
        cached |= 1u << p->kept_operand;
    return cached & tn__device_cached(p->program) & ~p->class.zero;
}

static void print_cache(tn__device_printer *p)
{
    const uint32_t size =
        TN__CACHED_CHUNK * p->class.group / TN_LANES / p->class.vector;
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        const char *dtype = tn__device_dtype(p->program->operand[k].dtype);
        if (!(p->cached >> k & 1))
            continue;
        tn__device_line(p, "TK_SHARED(tk_v_%s, vectors%u, %u);", dtype, k, size);
        tn__device_line(p, "TK_S tk_s_%s *const local%u = "
                           "(TK_S tk_s_%s *)vectors%u;", dtype, k, dtype, k);
    }
}

/* A team's row to local memory, when all have done with the one before. */
static void fill_cache(tn__device_printer *p)
{
    tn__device_line(p, "TK_BARRIER();");
    const uint32_t size = p->class.vector;
    char head[120];
    snprintf(head, sizeof head,
             "for (tk_idx i = TK_ITEM * %u; i < mine; i += TK_TEAM * %u) ",
             size, size);
    tn__text_add(&p->body, "#pragma unroll 8\n");
    tn__device_open(p, head);
    tn__device_point(p, "i", p->cached, "at", "row", p->class.outer,
                     p->class.row, 0);
    print_here(p, "i", "i / TK_CHUNK");
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        const char *dtype = tn__device_dtype(p->program->operand[k].dtype);
        if (p->cached >> k & 1)
            tn__device_line(p, "*(TK_S tk_v_%s *)(local%u + here%u) = "
                               "*(TK_G const tk_v_%s *)(p%u + at%u);",
                            dtype, k, k, dtype, k, k);
    }
    tn__device_close(p);
    tn__device_line(p, "TK_BARRIER();");
}

/* ---- rows, once more -------------------------------------------------------- */

/* What of a row's variables anything uses. */
typedef struct rows_walk {
    uint32_t in_rows, in_elems; /* operands */
    uint32_t in_vectors;        /* of those of elements */
    bool row_stores, elems, reduces;
    bool folds; /* what groups left of their shares of a row */
} rows_walk;

static rows_walk look_at_rows(const tn__device_printer *p)
{
    rows_walk rows = {.in_rows = 0};
    for (uint32_t s = 0; s < p->program->stage_count; s++) {
        const tn_kernel_stage *stage = &p->program->stage[s];
        stage_walk walk = look_at(p, s);
        const bool split = p->class.split;
        rows.folds = rows.folds || (split && s < p->stage && walk.reduces);
        if (!split || s == p->stage) {
            rows.in_elems |= walk.used;
            rows.elems = rows.elems || walk.does;
            rows.reduces = rows.reduces || walk.reduces;
            if (walk.does && !walk.reduces)
                rows.in_vectors |= tn__device_vectors_of(p, walk.used);
        }
        if (split && s >= p->stage)
            continue;
        rows.in_rows |=
            tn__device_operands_of(p, p->needed, stage->row_first,
                                   stage->row_first + stage->row_count);
        rows.row_stores = rows.row_stores ||
                          part_stores(p, stage->row_first, stage->row_count);
    }
    return rows;
}

/* Rows by teams: a group takes as many rows as it has teams; those beyond the
 * last take part in barriers, and in nothing else. */
static void open_team_rows(tn__device_printer *p, const rows_walk *rows)
{
    tn__device_open(p, "for (tk_idx first = TK_GROUP * TK_TEAMS; "
                       "first < count; first += TK_GROUPS * TK_TEAMS) ");
    tn__device_line(p, "tk_idx row = first + TK_ROW;");
    tn__device_line(p, "const tk_bool active = row < count;");
    tn__device_line(p, "row = active ? row : 0;");
    if (rows->row_stores)
        tn__device_line(p, "const tk_bool writes = active && TK_ITEM == 0;");
    if (rows->elems)
        tn__device_line(p, "const tk_idx mine = active ? length : 0;");
}

/* What the shares of a row come to, for each reduction that a step makes or
 * reads. */
static void print_parts(tn__device_printer *p)
{
    char type[16];
    for (uint32_t i = 0; i < p->program->ins_count; i++) {
        if (p->ins[i].op != TN_K_REDUCE || !p->needed[i])
            continue;
        accumulator_type(p, i, type);
        tn__device_line(p,
                        "TK_G tk_%s *const part%u = (TK_G tk_%s *)(scratch + "
                        "%u * (tk_idx)TK_WORD(%u) * shares) + row * shares;",
                        type, i, type,
                        tn__split_part(p->program, i) * TN__SPLIT_BYTES / 8,
                        p->words.count);
    }
}

/* A group has a share of each row of a block of TK_TEAMS, or is the block's
 * only one. */
static void open_split_row(tn__device_printer *p, const rows_walk *rows)
{
    const bool alone = p->stage == p->program->stage_count;
    if (!alone || rows->folds)
        tn__device_line(p, "const tk_idx shares = (tk_idx)TK_WORD(%u);",
                        p->words.shares);
    tn__device_line(p, "tk_idx row = TK_GROUP%s * TK_TEAMS + TK_ROW;",
                    alone ? "" : " / shares");
    tn__device_line(p, "const tk_bool active = row < count;");
    tn__device_line(p, "row = active ? row : 0;");
    if (alone && rows->row_stores)
        tn__device_line(p, "const tk_bool writes = active && TK_ITEM == 0;");
    if (rows->elems) {
        tn__device_line(p, "const tk_idx share = TK_GROUP %% shares;");
        tn__device_line(p, "const tk_idx begin = share * (tk_idx)TK_WORD(%u);",
                        p->words.share);
        tn__device_line(p, "tk_idx end = begin + (tk_idx)TK_WORD(%u);",
                        p->words.share);
        tn__device_line(p, "end = end < length ? end : length;");
        tn__device_line(p, "const tk_idx mine = active ? end : 0;");
    }
    if (rows->reduces || rows->folds)
        print_parts(p);
    else if (tn__split_part(p->program, TN_NONE) > 0)
        tn__device_line(p, "(void)scratch;");
}

void tn__device_rows_head(tn__device_printer *p)
{
    if (!p->chunked) {
        tn__text_add(&p->body,
                     "#define TK_SLOTS %u\n#define TK_WIDTH %u\n"
                     "#define TK_TEAMS %u\n",
                     p->class.slots, tn__device_width(&p->class),
                     p->class.group / tn__device_team(&p->class));
        if (p->class.lanes > 1)
            tn__text_add(&p->body, "#define TK_COLUMNS 1\n");
    }
    tn__text_add(&p->body, "%s", tn__device_part("rows.cl"));
}

void tn__device_rows(tn__device_printer *p)
{
    p->cached = find_cached(p);
    rows_walk rows = look_at_rows(p);
    print_shared(p);
    if (!p->chunked) {
        tn__device_vector_types(p, p->cached | rows.in_vectors);
    }
    print_cache(p);
    tn__device_line(p, "const tk_idx count = (tk_idx)TK_WORD(%u);",
                    p->words.count);
    if (rows.elems)
        tn__device_line(p, "const tk_idx length = (tk_idx)TK_WORD(%u);",
                        p->words.length);
    if (p->chunked) {
        tn__device_share(p);
        tn__device_open(p, "for (tk_idx row = first; row < end; row++) ");
    } else if (p->class.split) {
        open_split_row(p, &rows);
    } else {
        open_team_rows(p, &rows);
    }
    tn__device_point(p, "row", rows.in_rows | rows.in_elems | p->cached, "row",
                     NULL, 0, p->class.outer, 0);
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (rows.in_rows >> k & 1)
            tn__device_line(p, "const %s at%u = row%u;",
                            tn__device_place_type(p, k), k, k);
    if (rows.reduces)
        tn__device_line(p, "tk_idx span;");
    if (p->class.split) {
        print_step(p);
        return;
    }
    if (p->cached)
        fill_cache(p);
    print_stages(p);
    tn__device_close(p);
}
