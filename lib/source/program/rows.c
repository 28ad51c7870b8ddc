/* rows.c: prints the loops over rows and stages. stage.c prints the loops over
 * the elements of a row.
 *
 * With TN_TARGET_CHUNKED, each row belongs to one work-item, which has all 16
 * lanes (partial results) in an array; the compiler vectorizes the innermost
 * loop. Otherwise rows are assigned in one of these ways:
 *
 *   - A row belongs to a team of slots * 16 work-items, each of which has one
 *     lane of a chunk.
 *   - If memory is contiguous from row to row, a team has slots * 4 work-items
 *     with four lanes each.
 *   - A short row belongs to one work-item.
 *   - If several work-groups share a row (row_split.c), each work-group assigns
 *     its part of the row in one of the ways above.
 *
 * Results are bit-identical in all these ways, since the order of a reduction
 * depends only on the row. */
#include <source/program/rows.h>

static bool part_stores(const tn__printer *p, uint32_t first, uint32_t count)
{
    for (uint32_t at = first; at < first + count; at++)
        if (p->ins[p->program->order[at]].op == TN_K_STORE &&
            p->live[p->program->order[at]])
            return true;
    return false;
}

/* Prints a barrier if one is needed. A work-item sees what other work-items of
 * its team have stored only after a barrier. It must also not overwrite what
 * the other work-items have yet to read. */
static void print_barrier(tn__printer *p, bool is_needed)
{
    if (is_needed && tn__printer_has_team(p))
        tn__print_line(p, "TK_BARRIER();");
}

static void print_row_part(tn__printer *p, const tn_kernel_stage *stage)
{
    p->position = "(tk_i64)row * TK_WORD(1)";
    p->in_row_part = true;
    tn__print_statements(p, p->program->order, stage->row_first,
                         stage->row_first + stage->row_count);
    p->in_row_part = false;
}

static void print_stages(tn__printer *p)
{
    const tn_program *program = p->program;
    bool stored = false;
    for (uint32_t s = 0; s < program->stage_count; s++) {
        const tn_kernel_stage *stage = &program->stage[s];
        tn__stage_use use = tn__stage_find_use(p, s);
        print_barrier(p, stored);
        stored = part_stores(p, stage->elem_first, stage->elem_count);
        tn__stage_elems(p, &use);
        if (use.reduces)
            tn__reduce_results(p, &use);
        if (stage->row_count == 0)
            continue;
        bool begins = p->ins[program->order[stage->row_first]].op == TN_K_STORE;
        /* a store prints its own barrier */
        print_barrier(p, stored && !begins);
        stored = part_stores(p, stage->row_first, stage->row_count);
        print_row_part(p, stage);
    }
    print_barrier(p, stored);
}

/* Prints one launch of a program whose rows are shared by several work-groups.
 * It needs no barriers between stages, since a work-item reads only what it or
 * an earlier launch wrote. */
static void print_step(tn__printer *p)
{
    const tn_program *program = p->program;
    for (uint32_t s = 0; s < p->stage; s++) {
        const tn__stage_use use = tn__stage_find_use(p, s);
        tn__reduce_shares(p, &use);
        print_row_part(p, &program->stage[s]);
    }
    if (p->stage == program->stage_count)
        return;
    const tn__stage_use use = tn__stage_find_use(p, p->stage);
    tn__stage_elems(p, &use);
    tn__reduce_results(p, &use);
}

/* What the instructions per row and per element of the program use, so that
 * only the variables that are needed are declared. */
typedef struct rows_use {
    uint32_t in_rows, in_elems; /* operands that are used per row and per
                                 * element; bit k is for operand k */
    uint32_t in_vectors;        /* operands that are used per element and loaded
                                 * as vectors; bit k is for operand k */
    bool row_stores, elems, reduces;
    bool folds; /* true if this launch combines partial results of a row that
                 * earlier launches stored */
} rows_use;

static rows_use find_rows_use(const tn__printer *p)
{
    rows_use rows = {.in_rows = 0};
    for (uint32_t s = 0; s < p->program->stage_count; s++) {
        const tn_kernel_stage *stage = &p->program->stage[s];
        tn__stage_use use = tn__stage_find_use(p, s);
        const bool split = p->class.split;
        rows.folds = rows.folds || (split && s < p->stage && use.reduces);
        if (!split || s == p->stage) {
            rows.in_elems |= use.used;
            rows.elems = rows.elems || use.has_effect;
            rows.reduces = rows.reduces || use.reduces;
            if (use.has_effect && !use.reduces)
                rows.in_vectors |= tn__vectors_of(p, use.used);
        }
        if (split && s >= p->stage)
            continue;
        rows.in_rows |= tn__operands_of(p, p->live, stage->row_first,
                                        stage->row_first + stage->row_count);
        rows.row_stores = rows.row_stores ||
                          part_stores(p, stage->row_first, stage->row_count);
    }
    return rows;
}

/* Prints the beginning of the loop over rows. A work-group has as many rows at
 * a time as it has teams. A team that has no row left takes part in barriers
 * only. */
static void open_team_rows(tn__printer *p, const rows_use *rows)
{
    tn__print_open(p, "for (tk_idx first = TK_GROUP * TK_TEAMS; "
                      "first < count; first += TK_GROUPS * TK_TEAMS) ");
    tn__print_line(p, "tk_idx row = first + TK_ROW;");
    tn__print_line(p, "const tk_bool active = row < count;");
    tn__print_line(p, "row = active ? row : 0;");
    if (rows->row_stores)
        tn__print_line(p, "const tk_bool writes = active && TK_ITEM == 0;");
    if (rows->elems)
        tn__print_line(p, "const tk_idx mine = active ? length : 0;");
}

/* Prints the beginning of a launch in which several work-groups share a row. A
 * work-group processes its part (share) of each of TK_TEAMS rows or, in the
 * last launch, the whole rows. */
static void open_split_row(tn__printer *p, const rows_use *rows)
{
    const bool alone = p->stage == p->program->stage_count;
    if (!alone || rows->folds)
        tn__print_line(p, "const tk_idx shares = (tk_idx)TK_WORD(%u);",
                       p->words.shares);
    tn__print_line(p, "tk_idx row = TK_GROUP%s * TK_TEAMS + TK_ROW;",
                   alone ? "" : " / shares");
    tn__print_line(p, "const tk_bool active = row < count;");
    tn__print_line(p, "row = active ? row : 0;");
    if (alone && rows->row_stores)
        tn__print_line(p, "const tk_bool writes = active && TK_ITEM == 0;");
    if (rows->elems) {
        tn__print_line(p, "const tk_idx share = TK_GROUP %% shares;");
        tn__print_line(p, "const tk_idx begin = share * (tk_idx)TK_WORD(%u);",
                       p->words.share);
        tn__print_line(p, "tk_idx end = begin + (tk_idx)TK_WORD(%u);",
                       p->words.share);
        tn__print_line(p, "end = end < length ? end : length;");
        tn__print_line(p, "const tk_idx mine = active ? end : 0;");
    }
    if (rows->reduces || rows->folds)
        tn__reduce_parts(p);
    else if (tn__split_reduce_index(p->program, TN_NONE) > 0)
        tn__print_line(p, "(void)scratch;");
}

void tn__print_rows_head(tn__printer *p)
{
    if (!p->chunked) {
        tn__text_add(&p->body,
                     "#define TK_SLOTS %u\n#define TK_WIDTH %u\n"
                     "#define TK_TEAMS %u\n",
                     p->class.slots, tn__launch_class_width(&p->class),
                     p->class.group / tn__launch_class_team(&p->class));
        if (p->class.lanes > 1)
            tn__text_add(&p->body, "#define TK_COLUMNS 1\n");
    }
    tn__text_add(&p->body, "%s", tn__source_text("rows.cl"));
}

void tn__print_rows(tn__printer *p)
{
    p->cached = tn__cache_operands(p);
    rows_use rows = find_rows_use(p);
    tn__reduce_memory(p);
    if (!p->chunked)
        tn__print_vector_types(p, p->cached | rows.in_vectors);
    tn__cache_memory(p);
    tn__print_line(p, "const tk_idx count = (tk_idx)TK_WORD(%u);",
                   p->words.count);
    if (rows.elems)
        tn__print_line(p, "const tk_idx length = (tk_idx)TK_WORD(%u);",
                       p->words.length);
    if (p->chunked) {
        tn__print_share(p);
        tn__print_open(p, "for (tk_idx row = first; row < end; row++) ");
    } else if (p->class.split) {
        open_split_row(p, &rows);
    } else {
        open_team_rows(p, &rows);
    }
    tn__print_point_offsets(p, "row", rows.in_rows | rows.in_elems | p->cached,
                            "row", NULL, 0, p->class.outer, 0);
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (rows.in_rows >> k & 1)
            tn__print_line(p, "const %s at%u = row%u;", tn__offset_type(p, k),
                           k, k);
    if (rows.reduces)
        tn__print_line(p, "tk_idx span;");
    if (p->class.split) {
        print_step(p);
        return;
    }
    if (p->cached)
        tn__cache_fill(p);
    print_stages(p);
    tn__print_close(p);
}
