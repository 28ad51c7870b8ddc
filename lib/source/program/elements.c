/* elements.c: prints the loop over the elements of a pointwise program (without
 * reductions and results per row).
 *
 * With TN_TARGET_CHUNKED, a work-item has contiguous elements, and the compiler
 * vectorizes the innermost loop. Otherwise neighbouring work-items have
 * neighbouring elements. If the alignment allows it, they have neighbouring
 * vectors. */
#include <stdio.h>

#include <source/program/printer.h>

void tn__print_share(tn__printer *p)
{
    tn__print_line(p, "const tk_idx items = TK_GROUPS * TK_GROUP_SIZE;");
    if (p->class.is_rows)
        tn__print_line(p, "const tk_idx share = (count + items - 1) / items;");
    else /* rounds up to a multiple of 16 elements, so that `share` consists of
          * whole vectors */
        tn__print_line(p, "const tk_idx share = "
                          "((count + items - 1) / items + 15) / 16 * 16;");
    tn__print_line(p, "tk_idx first = share * "
                      "(TK_GROUP * TK_GROUP_SIZE + TK_LOCAL);");
    tn__print_line(p, "const tk_idx end = "
                      "first + share < count ? first + share : count;");
}

/* Prints a loop over runs, which are elements that are adjacent along the
 * innermost dimension. The coordinates are computed by divisions only once for
 * each run. */
static void print_runs(tn__printer *p, uint32_t used)
{
    uint32_t last = p->class.outer - 1;
    tn__print_open(p, "while (first < end) ");
    tn__print_point_offsets(p, "first", used, "from", NULL, 0, last + 1,
                            1u << last);
    tn__print_line(p, "tk_idx run = (tk_idx)TK_WORD(%u) - c%u;",
                   p->words.extent + last, last);
    tn__print_line(p, "run = run < end - first ? run : end - first;");
    tn__print_open(p, "for (tk_idx j = 0; j < run; j++) ");
    tn__print_step_offsets(p, used, "j");
    tn__print_elem_statements(p, "(tk_i64)first + j");
    tn__print_close(p);
    tn__print_line(p, "first += run;");
    tn__print_close(p);
}

/* Prints the loop for work-items that process class.vector elements at once. */
static void print_by_vectors(tn__printer *p, uint32_t used)
{
    uint32_t size = p->class.vector;
    char head[160];
    p->vectors = tn__vectors_of(p, used);
    tn__print_vector_types(p, p->vectors);
    snprintf(head, sizeof head,
             "for (tk_idx i = %u * (TK_GROUP * TK_GROUP_SIZE + TK_LOCAL); "
             "i < count; i += %u * (TK_GROUPS * TK_GROUP_SIZE)) ",
             size, size);
    tn__print_open(p, head);
    tn__print_point_offsets(p, "i", used, "from", NULL, 0, p->class.outer, 0);
    tn__print_vectors_open(p, used);
    tn__print_elem_statements(p, "(tk_i64)i + l");
    tn__print_vectors_close(p);
    tn__print_close(p);
}

void tn__print_elements(tn__printer *p)
{
    const tn_kernel_stage *stage = &p->program->stage[0];
    uint32_t used = tn__operands_of(p, p->stage_live, stage->elem_first,
                                    stage->elem_first + stage->elem_count);
    tn__print_line(p, "const tk_idx count = (tk_idx)TK_WORD(%u);",
                   p->words.count);
    if (p->chunked)
        tn__print_share(p);
    if (p->chunked && p->class.outer > 1) {
        print_runs(p, used);
        return;
    }
    if (p->class.tile) {
        tn__print_tiles(p, used);
        return;
    }
    if (p->class.vector > 1) {
        print_by_vectors(p, used);
        return;
    }
    if (p->chunked)
        tn__print_open(p, "for (tk_idx i = first; i < end; i++) ");
    else
        tn__print_open(p,
                       "for (tk_idx i = TK_GROUP * TK_GROUP_SIZE + TK_LOCAL; "
                       "i < count; i += TK_GROUPS * TK_GROUP_SIZE) ");
    tn__print_point_offsets(p, "i", used, "at", NULL, 0, p->class.outer, 0);
    tn__print_elem_statements(p, "(tk_i64)i");
    tn__print_close(p);
}
