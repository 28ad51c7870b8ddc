/* tiles.c: prints loops over square tiles, for pointwise programs whose
 * operands are contiguous along different dimensions, as in the copy of a
 * transposed matrix.
 *
 * Neighbouring work-items should access neighbouring addresses. If work-items
 * are neighbours along the innermost dimension, they access addresses that are
 * far apart in an operand that is contiguous along the second innermost
 * dimension. So a work-group processes a square tile over these two dimensions.
 * It first loads operands that are contiguous along the second innermost
 * dimension into local memory, with work-items that are neighbours along that
 * dimension. Then it computes with work-items that are neighbours along the
 * innermost dimension.
 *
 * Elements may be computed in any order, so the plan exchanges dimensions where
 * needed: the dimension along which the outputs are contiguous becomes the
 * innermost one. Programs that may report faults have no tiles, because a fault
 * is reported with the row-major index of the element. */
#include <stdio.h>

#include <source/program/printer.h>

static unsigned bytes_of(const tn__printer *p, uint32_t k)
{
    return (unsigned)tn_dtype_bytes((tn_dtype)p->program->operand[k].dtype);
}

/* Returns the distance in elements from one row of a tile to the next in local
 * memory. It is padded so that the elements of a column are in different banks
 * of 4 bytes. */
static unsigned pitch_of(const tn__printer *p, uint32_t k)
{
    const unsigned bytes = bytes_of(p, k);
    return p->class.tile + (bytes < 4 ? 4 / bytes : 1);
}

static void print_local(tn__printer *p, uint32_t transposed)
{
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (transposed >> k & 1)
            tn__print_line(p, "TK_SHARED(tk_s_%s, local%u, %u);",
                           tn__source_dtype(p->program->operand[k].dtype), k,
                           p->class.tile * pitch_of(p, k));
}

/* Prints the loads of a tile of each transposed operand into local memory. At
 * the edge, work-items outside the tensor load the elements at the edge again.
 * So no load depends on a condition, and all loads are issued before the first
 * store. */
static void load_transposed(tn__printer *p, uint32_t transposed)
{
    const uint32_t last = p->class.outer - 1, side = p->class.tile;
    const uint32_t rounds = side * side / p->class.group;
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        if (!(transposed >> k & 1))
            continue;
        const char *dtype = tn__source_dtype(p->program->operand[k].dtype);
        tn__print_line(p, "tk_s_%s x%u[%u];", dtype, k, rounds);
        tn__text_add(&p->body, "#pragma unroll\n");
        tn__print_open(p, "for (tk_i32 r = 0; r < TK_ROUNDS; r++) ");
        tn__print_line(p, "const tk_idx line = "
                          "top + x < lines ? top + x : lines - 1;");
        tn__print_line(p, "tk_idx column = left + y + r * TK_STEP;");
        tn__print_line(p, "column = column < columns ? column : columns - 1;");
        tn__print_line(p,
                       "x%u[r] = p%u[from%u + line + "
                       "column * (tk_idx)TK_WORD(%u)];",
                       k, k, k, p->words.stride[k] + last);
        tn__print_close(p);
    }
    tn__text_add(&p->body, "#pragma unroll\n");
    tn__print_open(p, "for (tk_i32 r = 0; r < TK_ROUNDS; r++) ");
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (transposed >> k & 1)
            tn__print_line(p, "local%u[(y + r * TK_STEP) * %u + x] = x%u[r];",
                           k, pitch_of(p, k), k);
    tn__print_close(p);
}

static void print_square(tn__printer *p, uint32_t used, uint32_t transposed)
{
    const uint32_t last = p->class.outer - 1;
    tn__text_add(&p->body, "#pragma unroll\n");
    tn__print_open(p, "for (tk_i32 r = 0; r < TK_ROUNDS; r++) ");
    tn__print_line(p, "const tk_idx c%u = top + y + r * TK_STEP;", last - 1);
    tn__print_line(p, "const tk_idx c%u = left + x;", last);
    tn__print_line(p, "if (c%u >= lines || c%u >= columns)", last - 1, last);
    tn__print_line(p, "    continue;");
    tn__print_offsets(p, used & ~transposed, "at", "from", last - 1, last + 1);
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (transposed >> k & 1)
            tn__print_line(p,
                           "const tk_i32 here%u = "
                           "x * %u + y + r * TK_STEP;",
                           k, pitch_of(p, k));
    p->local = transposed;
    tn__print_elem_statements(p, "0");
    p->local = 0;
    tn__print_close(p);
}

void tn__print_tiles(tn__printer *p, uint32_t used)
{
    const uint32_t last = p->class.outer - 1, side = p->class.tile;
    const uint32_t transposed = p->class.transposed & used;
    print_local(p, transposed);
    tn__text_add(&p->body, "#define TK_SIDE %u\n#define TK_STEP %u\n"
                           "#define TK_ROUNDS (TK_SIDE / TK_STEP)\n",
                 side, p->class.group / side);
    tn__print_line(p, "const tk_idx lines = (tk_idx)TK_WORD(%u);",
                   p->words.extent + last - 1);
    tn__print_line(p, "const tk_idx columns = (tk_idx)TK_WORD(%u);",
                   p->words.extent + last);
    tn__print_line(p, "const tk_idx high = (lines + TK_SIDE - 1) / TK_SIDE;");
    tn__print_line(p, "const tk_idx wide = (columns + TK_SIDE - 1) / TK_SIDE;");
    tn__print_line(p, "const tk_idx tiles = "
                      "count / (lines * columns) * high * wide;");
    tn__print_line(p, "const tk_i32 x = TK_LOCAL %% TK_SIDE, "
                      "y = TK_LOCAL / TK_SIDE;");
    tn__print_open(p, "for (tk_idx tile = TK_GROUP; tile < tiles; "
                      "tile += TK_GROUPS) ");
    tn__print_line(p, "const tk_idx left = tile %% wide * TK_SIDE;");
    tn__print_line(p, "const tk_idx top = tile / wide %% high * TK_SIDE;");
    tn__print_line(p, "const tk_idx matrix = tile / wide / high;");
    if (last > 1)
        tn__print_point_offsets(p, "matrix", used, "from", NULL, 0, last - 1,
                                0);
    else
        tn__print_offsets(p, used, "from", NULL, 0, 0);
    tn__print_line(p, "(void)matrix;");
    load_transposed(p, transposed);
    tn__print_line(p, "TK_BARRIER();");
    print_square(p, used, transposed);
    tn__print_line(p, "TK_BARRIER();");
    tn__print_close(p);
}
