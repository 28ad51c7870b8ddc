/* tiles.c: element programs whose operands are contiguous along different
 * dimensions, as in the copy of a transposed matrix. Work-items that are
 * neighbours along one of the two touch elements far apart along the other, so
 * a group takes a square of both: it loads the operands that are contiguous
 * along the second innermost dimension as they lie, stores them to local
 * memory, and goes on from there with neighbours along the innermost one.
 *
 * Elements have no order, so the plan may exchange dimensions: the innermost is
 * the one along which outputs are contiguous. Programs that may fault report
 * their elements by number; they are left alone. */
#include <stdio.h>

#include <source/print.h>
#include <source/launch_space.h>

/* ---- plans -------------------------------------------------------------- */

/* Shorter dimensions leave most of a square idle. */
#define LEAST_EXTENT 16
#define WIDE 64 /* the side of a square, where memory allows it */
#define NARROW 32

static bool is_element(const tn_kernel_operand *operand)
{
    return operand->access != TN_OPERAND_OFFSET && operand->index_count == 0;
}

/* A dimension of at least LEAST_EXTENT along which operand k is contiguous;
 * ndim if there is none. */
static uint32_t contiguous(const tn__device_space *s, uint32_t k)
{
    uint32_t d = 0;
    while (d < s->ndim &&
           (s->stride[k][d] != 1 || s->extent[d] < LEAST_EXTENT))
        d++;
    return d;
}

/* The dimension along which the outputs are contiguous, if it is one. */
static uint32_t inner_of(const tn_program *program, const tn__device_space *s)
{
    uint32_t inner = s->ndim;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        if (program->operand[k].access != TN_OPERAND_WRITE)
            continue;
        const uint32_t d = contiguous(s, k);
        if (d == s->ndim || (inner != s->ndim && d != inner))
            return s->ndim;
        inner = d;
    }
    return inner;
}

void tn__device_find_tiles(tn__device_class *class, const tn_program *program,
                           const tn_target *target, tn__device_space *s)
{
    const uint32_t ndim = s->ndim;
    if (ndim < 2 || tn__device_may_fault(program))
        return;
    const uint32_t inner = inner_of(program, s);
    uint32_t other = ndim, transposed = 0, bytes = 0;
    for (uint32_t k = 0; inner < ndim && k < program->operand_count; k++) {
        const tn_kernel_operand *operand = &program->operand[k];
        if (!is_element(operand) || operand->access != TN_OPERAND_READ ||
            s->stride[k][inner] == 0 || s->stride[k][inner] == 1)
            continue;
        const uint32_t d = contiguous(s, k);
        if (d == ndim || (other != ndim && d != other))
            continue;
        other = d;
        transposed |= 1u << k;
        bytes += (uint32_t)tn_dtype_bytes((tn_dtype)operand->dtype);
    }
    uint32_t side = NARROW;
    if (transposed && s->extent[inner] >= WIDE && s->extent[other] >= WIDE &&
        WIDE * (WIDE + 4) * bytes <= target->local_bytes / 4 * 3)
        side = WIDE;
    if (!transposed || class->group < side ||
        side * (side + 4) * bytes > target->local_bytes)
        return;
    /* Their order: others, other, inner. */
    tn__device_space_move(s, program->operand_count, inner, ndim - 1);
    tn__device_space_move(s, program->operand_count,
                          other > inner ? other - 1 : other, ndim - 2);
    class->tile = side;
    class->transposed = transposed;
}

int64_t tn__device_tile_count(const tn__device_class *class,
                              const tn__device_space *s)
{
    const int64_t width = s->extent[s->ndim - 1],
                  height = s->extent[s->ndim - 2];
    if (s->count == 0)
        return 0;
    return s->count / (width * height) *
           tn__device_divide_up(width, class->tile) *
           tn__device_divide_up(height, class->tile);
}

/* ---- texts -------------------------------------------------------------- */

static unsigned bytes_of(const tn__device_printer *p, uint32_t k)
{
    return (unsigned)tn_dtype_bytes((tn_dtype)p->program->operand[k].dtype);
}

/* From one row of a square to the next, so that those of a column begin at
 * different banks of 4 bytes. */
static unsigned pitch_of(const tn__device_printer *p, uint32_t k)
{
    const unsigned bytes = bytes_of(p, k);
    return p->class.tile + (bytes < 4 ? 4 / bytes : 1);
}

static void print_local(tn__device_printer *p, uint32_t transposed)
{
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (transposed >> k & 1)
            tn__device_line(p, "TK_SHARED(tk_s_%s, local%u, %u);",
                            tn__device_dtype(p->program->operand[k].dtype), k,
                            p->class.tile * pitch_of(p, k));
}

/* A square of each turned operand, to local memory. Work-items beyond its
 * edges load the edge again, so that no load waits for a condition, and all are
 * under way before the first is stored. */
static void load_transposed(tn__device_printer *p, uint32_t transposed)
{
    const uint32_t last = p->class.outer - 1, side = p->class.tile;
    const uint32_t rounds = side * side / p->class.group;
    for (uint32_t k = 0; k < p->program->operand_count; k++) {
        if (!(transposed >> k & 1))
            continue;
        const char *dtype = tn__device_dtype(p->program->operand[k].dtype);
        tn__device_line(p, "tk_s_%s x%u[%u];", dtype, k, rounds);
        tn__text_add(&p->body, "#pragma unroll\n");
        tn__device_open(p, "for (tk_i32 r = 0; r < TK_ROUNDS; r++) ");
        tn__device_line(p, "const tk_idx line = "
                           "top + x < lines ? top + x : lines - 1;");
        tn__device_line(p, "tk_idx column = left + y + r * TK_STEP;");
        tn__device_line(p, "column = column < columns ? column : columns - 1;");
        tn__device_line(p,
                        "x%u[r] = p%u[from%u + line + "
                        "column * (tk_idx)TK_WORD(%u)];",
                        k, k, k, p->words.stride[k] + last);
        tn__device_close(p);
    }
    tn__text_add(&p->body, "#pragma unroll\n");
    tn__device_open(p, "for (tk_i32 r = 0; r < TK_ROUNDS; r++) ");
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (transposed >> k & 1)
            tn__device_line(p, "local%u[(y + r * TK_STEP) * %u + x] = x%u[r];",
                            k, pitch_of(p, k), k);
    tn__device_close(p);
}

static void print_square(tn__device_printer *p, uint32_t used,
                         uint32_t transposed)
{
    const uint32_t last = p->class.outer - 1;
    tn__text_add(&p->body, "#pragma unroll\n");
    tn__device_open(p, "for (tk_i32 r = 0; r < TK_ROUNDS; r++) ");
    tn__device_line(p, "const tk_idx c%u = top + y + r * TK_STEP;", last - 1);
    tn__device_line(p, "const tk_idx c%u = left + x;", last);
    tn__device_line(p, "if (c%u >= lines || c%u >= columns)", last - 1, last);
    tn__device_line(p, "    continue;");
    tn__device_offsets(p, used & ~transposed, "at", "from", last - 1, last + 1);
    for (uint32_t k = 0; k < p->program->operand_count; k++)
        if (transposed >> k & 1)
            tn__device_line(p,
                            "const tk_i32 here%u = "
                            "x * %u + y + r * TK_STEP;",
                            k, pitch_of(p, k));
    p->local = transposed;
    tn__device_elem_statements(p, "0");
    p->local = 0;
    tn__device_close(p);
}

void tn__device_tiles(tn__device_printer *p, uint32_t used)
{
    const uint32_t last = p->class.outer - 1, side = p->class.tile;
    const uint32_t transposed = p->class.transposed & used;
    print_local(p, transposed);
    tn__text_add(&p->body, "#define TK_SIDE %u\n#define TK_STEP %u\n"
                           "#define TK_ROUNDS (TK_SIDE / TK_STEP)\n",
                 side, p->class.group / side);
    tn__device_line(p, "const tk_idx lines = (tk_idx)TK_WORD(%u);",
                    p->words.extent + last - 1);
    tn__device_line(p, "const tk_idx columns = (tk_idx)TK_WORD(%u);",
                    p->words.extent + last);
    tn__device_line(p, "const tk_idx high = (lines + TK_SIDE - 1) / TK_SIDE;");
    tn__device_line(p, "const tk_idx wide = (columns + TK_SIDE - 1) / TK_SIDE;");
    tn__device_line(p, "const tk_idx tiles = "
                       "count / (lines * columns) * high * wide;");
    tn__device_line(p, "const tk_i32 x = TK_LOCAL %% TK_SIDE, "
                       "y = TK_LOCAL / TK_SIDE;");
    tn__device_open(p, "for (tk_idx tile = TK_GROUP; tile < tiles; "
                       "tile += TK_GROUPS) ");
    tn__device_line(p, "const tk_idx left = tile %% wide * TK_SIDE;");
    tn__device_line(p, "const tk_idx top = tile / wide %% high * TK_SIDE;");
    tn__device_line(p, "const tk_idx matrix = tile / wide / high;");
    if (last > 1)
        tn__device_point_offsets(p, "matrix", used, "from", NULL, 0, last - 1,
                                 0);
    else
        tn__device_offsets(p, used, "from", NULL, 0, 0);
    tn__device_line(p, "(void)matrix;");
    load_transposed(p, transposed);
    tn__device_line(p, "TK_BARRIER();");
    print_square(p, used, transposed);
    tn__device_line(p, "TK_BARRIER();");
    tn__device_close(p);
}
