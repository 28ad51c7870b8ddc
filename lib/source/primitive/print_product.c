/* print_product.c: plans and prints matrix products. Convolutions share the
 * functions for tiles and sums. */
#include <stdlib.h>
#include <string.h>

#include <base/fpu.h>
#include <source/primitive/primitive.h>

enum { B_UNIT = 1, PACKED = 2 }; /* values of tn__variant.flags, besides
                                  * TN__LARGE */

/* Returns the bits of alpha or beta, converted to the register type, as an
 * argument word. */
static int64_t scalar_word(tn_dtype dtype, double x)
{
    float single;
    int64_t word = 0;
    switch (dtype) {
    case TN_F64:
        memcpy(&word, &x, sizeof word);
        return word;
    case TN_BOOL:
        return x != 0;
    case TN_I64:
    case TN_I32:
    case TN_I16:
    case TN_I8:
    case TN_U8:
        return (int64_t)x;
    default:
        single = tn__fpu_single(x);
        memcpy(&word, &single, sizeof single);
        return word & 0xffffffff;
    }
}

/* Sizes in matmul.cl. With TN_TARGET_CHUNKED, a tile has ROWS rows. If b is
 * packed (copied to a contiguous buffer), a work-item packs DEPTH rows of b at
 * a time and computes blocks of HEIGHT x WIDTH elements of c. In float32 the
 * packed part of b has 128 KiB and the sums of a block have 64 KiB, so they fit
 * into the L2 cache. */
#define ROWS 4
#define COLUMNS 16 /* number of columns of a tile if b is not packed */
#define DEPTH 256
#define HEIGHT 128
#define WIDTH 128
/* Blocks of c are made small enough that each compute unit has at least this
 * many blocks. This is also the largest number of work-groups for each compute
 * unit, each of which has its own scratch memory. */
#define ITEMS_PER_UNIT 8

int64_t tn__tile_sums(const tn_target *target, int64_t matrices, int64_t m,
                      int64_t n)
{
    enum { LARGEST = 4 };
    const int64_t side = TN__SIDE * LARGEST;
    const int64_t tiles =
        matrices * tn__divide_up(m, side) * tn__divide_up(n, side);
    return m > side / 2 && n > side / 2 && tiles >= 2 * target->units ? LARGEST
                                                                      : 1;
}

/* Returns the number of columns of a tile if b is packed. 4 x 32 floats or 4 x
 * 16 doubles take half of the AVX-512 registers. */
static int64_t packed_columns(unsigned dtype)
{
    return tn_dtype_bytes(tn__primitive_type(dtype)) == 8 ? 16 : 32;
}

/* Returns whether to pack b. Packing costs as much time as computing a few rows
 * of c. */
static bool is_packed(const tn_matmul_args *m, bool unit)
{
    const int64_t bytes = m->k * m->n * (int64_t)tn_dtype_bytes(m->c.dtype);
    return unit ? m->m > ROWS && m->n > COLUMNS && bytes > 256 << 10
                : m->m > 4 * ROWS;
}

/* Chooses the largest size of blocks with which each compute unit has at least
 * ITEMS_PER_UNIT blocks. Returns the number of blocks. */
static int64_t block_choose(const tn__primitive *p, const tn_matmul_args *m,
                            int64_t columns, int64_t *height, int64_t *width)
{
    const int64_t least = p->target->units * ITEMS_PER_UNIT;
    int64_t count;
    *height = HEIGHT;
    *width = WIDTH;
    while ((count = p->outer.count * tn__divide_up(m->m, *height) *
                    tn__divide_up(m->n, *width)) < least &&
           (*height > 4 * ROWS || *width > columns))
        if (*width > columns && *width >= *height)
            *width /= 2;
        else
            *height /= 2;
    return count;
}

tn_status tn__plan_matmul(const tn_target *target, const tn_matmul_args *m,
                          tn_plan *plan)
{
    tn__primitive p;
    uint32_t row = m->batch_ndim, column = row + 1;
    const tn_strided *const operand[3] = {&m->a, &m->b, &m->c};
    const int64_t size[3][2] = {{m->m, m->k}, {m->k, m->n}, {m->m, m->n}};
    tn__primitive_init(&p, target, plan, TN__MATMUL, m->c.dtype);
    int64_t matrices = 1;
    for (uint32_t d = 0; d < m->batch_ndim; d++)
        matrices *= p.extent[d] = m->batch[d];
    p.ndim = m->batch_ndim;
    for (int o = 0; o < 3; o++) {
        tn__primitive_operand(&p, operand[o], TN_NONE, 0);
        tn__primitive_buffer(&p, operand[o]->buffer);
        int64_t reach = llabs(operand[o]->offset) +
                        tn__strides_reach(size[o], operand[o]->stride + row, 2);
        p.reach = reach > p.reach ? reach : p.reach;
    }
    const bool chunked = tn__primitive_is_chunked(&p);
    const bool unit = m->b.stride[column] == 1;
    const bool packed = chunked && is_packed(m, unit);
    const int64_t each =
        chunked ? 1 : tn__tile_sums(target, matrices, m->m, m->n);
    int64_t tile_m = chunked ? ROWS : TN__SIDE * each;
    int64_t tile_n = packed    ? packed_columns(m->c.dtype)
                     : chunked ? COLUMNS
                               : TN__SIDE * each;
    int64_t across = tn__divide_up(m->n, tile_n);
    int64_t down = tn__divide_up(m->m, tile_m);
    tn__primitive_space(&p, across * down);
    if (p.outer.count * across * down >= TN__NARROW_LIMIT ||
        m->k >= TN__NARROW_LIMIT)
        p.v.is_wide = true;
    p.v.flags = (unit ? B_UNIT : 0) | (packed ? PACKED : 0) |
                (each > 1 ? TN__LARGE : 0);
    tn__primitive_argument(&p, m->m);
    tn__primitive_argument(&p, m->n);
    tn__primitive_argument(&p, m->k);
    for (int o = 0; o < 3; o++) {
        tn__primitive_argument(&p, operand[o]->stride[row]);
        tn__primitive_argument(&p, operand[o]->stride[column]);
    }
    tn__primitive_argument(&p, scalar_word(m->c.dtype, m->alpha));
    tn__primitive_argument(&p, scalar_word(m->c.dtype, m->beta));
    tn__primitive_argument(&p, m->beta != 0);
    p.v.group = chunked ? 1 : TN__SIDE * TN__SIDE;
    if (!packed)
        return tn__primitive_end(&p, p.outer.count * across * down, 64);
    int64_t height, width;
    int64_t blocks = block_choose(&p, m, tile_n, &height, &width);
    tn__primitive_argument(&p, height);
    tn__primitive_argument(&p, width);
    plan->flags |= TN_PLAN_SCRATCH;
    tn_status status = tn__primitive_end(&p, blocks, ITEMS_PER_UNIT);
    plan->scratch_bytes =
        plan->group_count * (uint64_t)((DEPTH + height) * width) *
        tn_dtype_bytes(tn__primitive_type(m->c.dtype));
    return status;
}

/* ---- printing ------------------------------------------------------------ */

void tn__define_sums(tn__text *text, const tn__variant *v, const char *type)
{
    tn__text_add(text,
                 "#define TK_SIDE %d\n#define TK_EACH %d\n"
                 "#define TK_SCALE(x, y) tk_mul_%s((x), (y))\n"
                 "#define TK_PLUS(x, y) tk_add_%s((x), (y))\n",
                 TN__SIDE, v->flags & TN__LARGE ? 4 : 1, type, type);
    if (tn__is_float(tn__primitive_type(v->dtype)))
        tn__text_add(text,
                     "#define TK_MULTIPLY_ADD(x, y, sum) "
                     "tk_fma_%s((x), (y), (sum))\n"
                     "#define TK_SCALAR(i) tk_of_bits_%s(TK_OWN(i))\n", type,
                     type);
    else
        tn__text_add(text,
                     "#define TK_MULTIPLY_ADD(x, y, sum) "
                     "tk_add_%s(tk_mul_%s((x), (y)), (sum))\n"
                     "#define TK_SCALAR(i) ((tk_%s)TK_OWN(i))\n", type, type,
                     type);
}

void tn__define_matmul(tn__text *text, const tn__variant *v)
{
    if (v->flags & B_UNIT)
        tn__text_add(text, "#define TK_B_UNIT 1\n");
    if (v->flags & PACKED)
        tn__text_add(text,
                     "#define TK_PACKED 1\n#define TK_COLUMNS %d\n"
                     "#define TK_DEPTH %d\n",
                     (int)packed_columns(v->dtype), DEPTH);
    tn__text_add(text, "#define TK_ROWS %d\n", ROWS);
}
