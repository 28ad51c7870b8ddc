/* stage.c: prints the loop of a stage over the elements of a row. A stage
 * without a reduction loops over vectors of elements, other stages over chunks
 * of TN_CHUNK elements and, in each, over the TN_LANES partial results (lanes).
 */
#include <stdio.h>

#include <source/program/rows.h>

static void print_list(tn__printer *p, const tn__stage_use *use)
{
    const tn_kernel_stage *stage = use->stage;
    p->position = "(tk_i64)row * TK_WORD(1) + k";
    p->local_stage = (uint32_t)(stage - p->program->stage);
    const bool *live = p->live;
    p->live = use->live;
    tn__print_statements(p, p->program->order, stage->elem_first,
                         stage->elem_first + stage->elem_count);
    p->live = live;
}

/* Prints the statements for element k of the row. */
static void print_element(tn__printer *p, const tn__stage_use *use)
{
    tn__print_point_offsets(p, "k", use->used, "at", "row", p->class.outer,
                            p->class.row, 0);
    if (p->used_dims == 0 && !use->needs_index)
        tn__print_line(p, "(void)k;");
    tn__cache_positions(p, use->cached, "k", "TK_SLOT");
    p->local = use->cached;
    print_list(p, use);
    p->local = 0;
}

/* Prints a loop over the elements of a row, or of a share of it, in vectors.
 * Neighbouring work-items have neighbouring vectors. */
static void print_vectors(tn__printer *p, const tn__stage_use *use)
{
    char head[120];
    const uint32_t size = p->class.vector;
    snprintf(head, sizeof head,
             "for (tk_idx i = %sTK_ITEM * %u; i < mine; i += TK_TEAM * %u) ",
             p->class.split ? "begin + " : "", size, size);
    tn__print_open(p, head);
    tn__print_point_offsets(p, "i", use->used, "from", "row", p->class.outer,
                            p->class.row, 0);
    tn__cache_positions(p, use->cached, "i", "i / TK_CHUNK");
    p->vectors = tn__vectors_of(p, use->used) | use->cached;
    tn__print_vectors_open(p, use->used);
    if (use->needs_index)
        tn__print_line(p, "const tk_idx k = i + l;");
    print_list(p, use);
    tn__print_vectors_close(p);
    tn__print_close(p);
}

/* Compilers unroll a reduction loop four times, so that four loads are executed
 * at once. If an element takes at most CHEAP_INSTRUCTIONS instructions, the
 * loop is unrolled eight times. */
#define CHEAP_INSTRUCTIONS 12

static bool is_cheap(const tn__printer *p, const tn__stage_use *use)
{
    uint32_t end = use->stage->elem_first + use->stage->elem_count, taken = 0;
    for (uint32_t at = use->stage->elem_first; at < end; at++) {
        const uint32_t i = p->program->order[at];
        const unsigned op = p->ins[i].op;
        if (!use->live[i])
            continue;
        if (op == TN_K_CALL || op == TN_K_LOOP || op == TN_K_PHILOX)
            return false;
        taken++;
    }
    return taken <= CHEAP_INSTRUCTIONS;
}

/* Prints a loop over the lanes l (partial results) of the work-item, with the
 * statements for the lane's next element k. */
static void print_lanes(tn__printer *p, const tn__stage_use *use, bool guarded)
{
    tn__text_add(&p->body, "#pragma unroll\n");
    tn__print_open(p, "for (tk_i32 l = 0; l < TK_LANES / TK_WIDTH; l++) ");
    tn__print_line(p, "const tk_idx k = j + l * TK_WIDTH;");
    if (guarded)
        tn__print_open(p, "if (k < most) ");
    print_element(p, use);
    if (guarded)
        tn__print_close(p);
    tn__print_close(p);
}

/* Prints the loop for work-items that have several lanes (partial results):
 * first the iterations in which all lanes have an element, so that loads need
 * no condition, then the last one. */
static void print_rounds(tn__printer *p, const tn__stage_use *use)
{
    tn__print_line(p, "const tk_i32 rounds = most > chunk "
                      "? (tk_i32)(most - chunk) / TK_LANES : 0;");
    if (is_cheap(p, use) && p->class.lanes < TN_LANES)
        tn__text_add(&p->body, "#pragma unroll 4\n");
    tn__print_open(p, "for (tk_i32 r = 0; r < rounds; r++) ");
    tn__print_line(p, "const tk_idx j = chunk + TK_LANE + r * TK_LANES;");
    print_lanes(p, use, false);
    tn__print_close(p);
    tn__print_line(p, "const tk_idx j = chunk + TK_LANE + rounds * TK_LANES;");
    print_lanes(p, use, true);
}

/* Prints one pass over a span: the chunks of TN_CHUNK elements that are reduced
 * at once. That is one chunk, or the chunks of a team (the work-items that
 * share a row). */
static void print_span(tn__printer *p, const tn__stage_use *use)
{
    const char *begin = p->class.split ? "begin + " : "";
    tn__reduce_accumulators(p, use);
    if (p->chunked) {
        tn__print_line(p, "const tk_idx left = length - span * TK_CHUNK;");
        tn__print_line(p, "const tk_idx most = "
                          "left < TK_CHUNK ? left : TK_CHUNK;");
        tn__print_open(p, "for (tk_idx j = 0; j < most; j += TK_LANES) ");
        tn__print_line(p, "const tk_idx here = "
                          "most - j < TK_LANES ? most - j : TK_LANES;");
        tn__print_open(p, "for (tk_idx l = 0; l < here; l++) ");
        tn__print_line(p, "const tk_idx k = span * TK_CHUNK + j + l;");
        print_element(p, use);
        tn__print_close(p);
        tn__print_close(p);
    } else {
        tn__print_line(p,
                       "const tk_idx chunk = "
                       "%s(span * TK_SLOTS + TK_SLOT) * TK_CHUNK;",
                       begin);
        tn__print_line(p, "const tk_idx most = chunk + TK_CHUNK < mine "
                          "? chunk + TK_CHUNK : mine;");
    }
    if (!p->chunked && p->class.lanes > 1) {
        print_rounds(p, use);
    } else if (!p->chunked) {
        if (is_cheap(p, use))
            tn__print_line(p, "#pragma unroll 8");
        tn__print_open(p, "for (tk_idx k = chunk + TK_LANE; k < most; "
                          "k += TK_LANES) ");
        print_element(p, use);
        tn__print_close(p);
    }
    tn__reduce_combine(p, use);
}

static void print_reducing(tn__printer *p, const tn__stage_use *use)
{
    tn__reduce_sums(p, use);
    tn__print_line(p, "span = 0;");
    if (p->class.is_short)
        tn__print_open(p, "if (length > 0) ");
    else if (p->class.split)
        tn__print_open(p, "for (; begin + span * TK_SLOTS * TK_CHUNK < end; "
                          "span++) ");
    else
        tn__print_open(p, p->chunked
                              ? "for (; span * TK_CHUNK < length; span++) "
                              : "for (; span * TK_SLOTS * TK_CHUNK < length; "
                                "span++) ");
    print_span(p, use);
    tn__print_close(p);
}

void tn__stage_elems(tn__printer *p, const tn__stage_use *use)
{
    if (!use->has_effect)
        return;
    if (use->reduces) {
        print_reducing(p, use);
        return;
    }
    if (!p->chunked) {
        print_vectors(p, use);
        return;
    }
    tn__print_open(p, "for (tk_idx k = 0; k < length; k++) ");
    print_element(p, use);
    tn__print_close(p);
}
