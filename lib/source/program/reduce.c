/* reduce.c: prints reductions: their types, the functions that combine two
 * values, neutral values, what each work-item accumulates, and how a team
 * combines these values in the order that rows.cl defines. */
#include <stdio.h>

#include <source/program/rows.h>

/* ---- types and functions ----------------------------------------------- */

static const char *operand_type(const tn__printer *p, uint32_t i)
{
    return tn__source_dtype(p->ins[p->ins[i].a].dtype);
}

/* Writes the suffix of an accumulator's type to `out`; the type is
 * tk_<suffix>. */
static void accumulator_type(const tn__printer *p, uint32_t i, char out[16])
{
    snprintf(out, 16, "%s%s", tn__reduce_is_arg(&p->ins[i]) ? "arg_" : "",
             operand_type(p, i));
}

static void combine_name(const tn__printer *p, uint32_t i, char out[32])
{
    static const char *const name[TN_REDUCE_END] = {
        [TN_REDUCE_SUM] = "add",       [TN_REDUCE_PROD] = "mul",
        [TN_REDUCE_MAX] = "max",       [TN_REDUCE_MIN] = "min",
        [TN_REDUCE_ARGMAX] = "argmax", [TN_REDUCE_ARGMIN] = "argmin",
    };
    snprintf(out, 32, "tk_%s_%s", name[p->ins[i].sub], operand_type(p, i));
}

/* Returns the lowest or, if `highest` is set, the highest value of a type as C
 * code. */
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

/* Writes the value with which a reduction starts or, if `empty` is set, the
 * result for an empty row. The two differ in the sign of zero. */
static void neutral(const tn__printer *p, uint32_t i, bool empty, char out[64])
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
        snprintf(out, 64, "tk_arg_at_%s(0, -1)", operand_type(p, i));
        return;
    }
    snprintf(out, 64, "%s", value);
}

/* Returns how many partial results (lanes) of a reduction a work-item
 * accumulates. If there are several, they are in an array. */
static uint32_t lanes_of(const tn__printer *p)
{
    return p->chunked ? TN_LANES : p->class.lanes;
}

void tn__print_reduce(tn__printer *p, uint32_t i)
{
    char fold[32], target[32];
    combine_name(p, i, fold);
    snprintf(target, sizeof target, lanes_of(p) > 1 ? "acc%u[l]" : "acc%u", i);
    if (tn__reduce_is_arg(&p->ins[i]))
        tn__print_line(p, "%s = %s(%s, tk_arg_at_%s(v%u, k));", target, fold,
                       target, operand_type(p, i), p->ins[i].a);
    else
        tn__print_line(p, "%s = %s(%s, v%u);", target, fold, target,
                       p->ins[i].a);
}

/* ---- reductions of a stage --------------------------------------------- */

/* Finds the next live REDUCE of a stage, beginning at order[*at]. */
static bool next_reduce(const tn__printer *p, const tn__stage_use *use,
                        uint32_t *at, uint32_t *i)
{
    uint32_t end = use->stage->elem_first + use->stage->elem_count;
    for (; *at < end; ++*at) {
        *i = p->program->order[*at];
        if (p->ins[*i].op == TN_K_REDUCE && p->live[*i]) {
            ++*at;
            return true;
        }
    }
    return false;
}

void tn__reduce_accumulators(tn__printer *p, const tn__stage_use *use)
{
    char type[16], none[64];
    uint32_t at = use->stage->elem_first, i;
    while (next_reduce(p, use, &at, &i)) {
        accumulator_type(p, i, type);
        neutral(p, i, false, none);
        if (lanes_of(p) > 1) {
            tn__print_line(p, "tk_%s acc%u[%u];", type, i, lanes_of(p));
            tn__print_line(p, "for (tk_i32 l = 0; l < %u; l++)", lanes_of(p));
            tn__print_line(p, "    acc%u[l] = %s;", i, none);
        } else {
            tn__print_line(p, "tk_%s acc%u = %s;", type, i, none);
        }
    }
}

void tn__reduce_combine(tn__printer *p, const tn__stage_use *use)
{
    char type[16], fold[32], one[32];
    uint32_t at = use->stage->elem_first, i;
    while (next_reduce(p, use, &at, &i)) {
        accumulator_type(p, i, type);
        combine_name(p, i, fold);
        snprintf(one, sizeof one, lanes_of(p) > 1 ? "acc%u[0]" : "acc%u", i);
        if (lanes_of(p) > 1)
            tn__print_line(p, "TK_COMBINE_LANES(%s, acc%u, %u)", fold, i,
                           lanes_of(p));
        if (tn__printer_has_team(p))
            tn__print_line(p, "TK_COMBINE_TEAM(%s, %s, shared_%s)", fold, one,
                           type);
        if (p->class.is_short)
            tn__print_line(p, "sum%u = %s;", i, one);
        else
            tn__print_line(p, "TK_TREE_PUSH(%s, tree%u, span, %s)", fold, i,
                           one);
    }
}

void tn__reduce_sums(tn__printer *p, const tn__stage_use *use)
{
    char type[16], none[64];
    uint32_t at = use->stage->elem_first, i;
    while (next_reduce(p, use, &at, &i)) {
        accumulator_type(p, i, type);
        neutral(p, i, true, none);
        tn__print_line(p, "tk_%s sum%u = %s;", type, i, none);
        if (!p->class.is_short)
            tn__print_line(p, "tk_%s tree%u[TK_LEVELS];", type, i);
    }
}

/* Prints the declaration of the value of REDUCE i. */
static void print_result(tn__printer *p, uint32_t i)
{
    if (tn__reduce_is_arg(&p->ins[i]))
        tn__print_line(p, "const tk_i64 v%u = sum%u.k < 0 ? 0 : sum%u.k;", i, i,
                       i);
    else
        tn__print_line(p, "const tk_%s v%u = sum%u;",
                       tn__source_dtype(p->ins[i].dtype), i, i);
}

void tn__reduce_results(tn__printer *p, const tn__stage_use *use)
{
    char fold[32];
    uint32_t at = use->stage->elem_first, i;
    while (next_reduce(p, use, &at, &i)) {
        combine_name(p, i, fold);
        if (!p->class.is_short)
            tn__print_line(p, "TK_TREE_TOP(%s, tree%u, span, sum%u)", fold, i,
                           i);
        if (!p->class.split) {
            print_result(p, i);
            continue;
        }
        tn__print_line(p, "if (active && TK_ITEM == 0)");
        tn__print_line(p, "    part%u[share] = sum%u;", i, i);
    }
}

void tn__reduce_shares(tn__printer *p, const tn__stage_use *use)
{
    char type[16], fold[32], none[64];
    uint32_t at = use->stage->elem_first, i;
    while (next_reduce(p, use, &at, &i)) {
        accumulator_type(p, i, type);
        combine_name(p, i, fold);
        neutral(p, i, false, none);
        tn__print_line(p, "tk_%s sum%u;", type, i);
        tn__print_line(p,
                       "TK_COMBINE_SHARES(tk_%s, %s, %s, part%u, shares, "
                       "shared_%s, sum%u)",
                       type, fold, none, i, type, i);
        print_result(p, i);
    }
}

/* ---- reductions of a program ------------------------------------------- */

void tn__reduce_memory(tn__printer *p)
{
    bool seen[2 * TN_DTYPE_END] = {false};
    char type[16];
    if (!tn__printer_has_team(p))
        return;
    for (uint32_t i = 0; i < p->program->ins_count; i++) {
        const tn_kernel_ins *ins = &p->ins[i];
        if (ins->op != TN_K_REDUCE || !p->live[i])
            continue;
        bool *known = &seen[2 * p->ins[ins->a].dtype + tn__reduce_is_arg(ins)];
        accumulator_type(p, i, type);
        if (!*known)
            tn__print_line(p, "TK_SHARED(tk_%s, shared_%s, %u);", type, type,
                           p->class.group);
        *known = true;
    }
}

void tn__reduce_parts(tn__printer *p)
{
    char type[16];
    for (uint32_t i = 0; i < p->program->ins_count; i++) {
        if (p->ins[i].op != TN_K_REDUCE || !p->live[i])
            continue;
        accumulator_type(p, i, type);
        tn__print_line(p,
                       "TK_G tk_%s *const part%u = (TK_G tk_%s *)(scratch + "
                       "%u * (tk_idx)TK_WORD(%u) * shares) + row * shares;",
                       type, i, type,
                       tn__split_reduce_index(p->program, i) * TN__SPLIT_BYTES /
                           8,
                       p->words.count);
    }
}
