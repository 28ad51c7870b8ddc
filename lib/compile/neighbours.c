/* neighbours.c: fuses small launches that share no memory, such as the counters
 * of the batches in all batch normalizations of a network. Nothing is saved but
 * launches, which is most of what a small launch costs. A large launch would gain
 * nothing, and the values that it reads would be needed for longer. */
#include <compile/window.h>

/* The bytes that a small group uses. At 50 GB/s, an A100 needs as long for them
 * as for a launch. */
enum { SMALL_BYTES = 256 * 1024 };
/* How many groups are tried for each group. */
enum { TRIES = 32 };

static int64_t elements_of(const tn__group *g)
{
    int64_t count = 1;
    for (int d = 0; d < g->cut.ndim; d++)
        count *= g->cut.extent[d];
    return count;
}

/* Returns the bytes that a group reads and writes, at most. */
static int64_t bytes_of(const tn__group *g)
{
    int64_t bytes = 0;
    for (int p = 0; p < g->count; p++)
        for (int k = 0; k < g->part[p].operand_count; k++) {
            const tn__part_operand *o = &g->part[p].operand[k];
            int64_t of_operand = (int64_t)tn_dtype_bytes((tn_dtype)o->dtype);
            for (int d = 0; d < g->cut.ndim; d++)
                of_operand *= o->stride[d] ? g->cut.extent[d] : 1;
            bytes += of_operand;
        }
    return bytes;
}

static bool is_small(const tn__window *f, size_t i)
{
    return f->group[i] && !f->dead[i] && f->group[i]->can_fuse &&
           bytes_of(f->group[i]) <= SMALL_BYTES;
}

bool tn__fuse_neighbours(tn__window *f)
{
    for (size_t y = 1; y < f->count; y++) {
        int tries = 0;
        for (size_t x = y; x-- > 0 && is_small(f, y) && tries < TRIES;) {
            if (!is_small(f, x) ||
                f->group[x]->cut.has_row != f->group[y]->cut.has_row ||
                elements_of(f->group[x]) != elements_of(f->group[y]))
                continue;
            tries++;
            if (!tn__try_fusion(f, x, y, TN__FUSE_APART))
                return false;
        }
    }
    return true;
}
