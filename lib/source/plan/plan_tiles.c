/* plan_tiles.c: decides whether a pointwise program works on square tiles
 * (tiles.c), as for the copy of a transposed matrix. */
#include <base/error.h>
#include <source/plan/class.h>
#include <source/plan/launch_space.h>

/* Along a shorter dimension, most of a tile would be unused. */
#define LEAST_EXTENT 16
#define WIDE 64 /* side of a tile in elements if local memory is large enough,
                 * else NARROW */
#define NARROW 32

static bool is_element(const tn_kernel_operand *operand)
{
    return operand->access != TN_OPERAND_OFFSET && operand->index_count == 0;
}

/* Returns the first dimension of at least LEAST_EXTENT elements along which
 * operand k is contiguous. Returns ndim if there is none. */
static uint32_t contiguous(const tn__launch_space *s, uint32_t k)
{
    uint32_t d = 0;
    while (d < s->ndim &&
           (s->stride[k][d] != 1 || s->extent[d] < LEAST_EXTENT))
        d++;
    return d;
}

/* Returns the dimension along which all outputs are contiguous; ndim if there
 * is none. */
static uint32_t inner_of(const tn_program *program, const tn__launch_space *s)
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

void tn__tiles_choose(tn__launch_class *class, const tn_program *program,
                      const tn_target *target, tn__launch_space *s)
{
    const uint32_t ndim = s->ndim;
    if (ndim < 2 || tn__program_may_fault(program))
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
    /* Reorders the dimensions: all others first, then `other`, and `inner`
     * last. */
    tn__launch_space_move(s, program->operand_count, inner, ndim - 1);
    tn__launch_space_move(s, program->operand_count,
                          other > inner ? other - 1 : other, ndim - 2);
    class->tile = side;
    class->transposed = transposed;
}

int64_t tn__tiles_count(const tn__launch_class *class,
                        const tn__launch_space *s)
{
    const int64_t width = s->extent[s->ndim - 1],
                  height = s->extent[s->ndim - 2];
    if (s->count == 0)
        return 0;
    return s->count / (width * height) * tn__divide_up(width, class->tile) *
           tn__divide_up(height, class->tile);
}
