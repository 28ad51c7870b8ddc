/* neighbours.c: fuses small launches that share no memory, such as the counters
 * of the batches in all batch normalizations of a network. Nothing is saved but
 * launches, which is most of what a small launch costs. A large launch would gain
 * nothing, and the values that it reads would be needed for longer. */
#include <compile/window.h>

/* How many groups are tried for each group. */
enum { TRIES = 32 };

static int64_t elements_of(const tn__group *g)
{
    int64_t count = 1;
    for (int d = 0; d < g->cut.ndim; d++)
        count *= g->cut.extent[d];
    return count;
}

static bool is_small(const tn__window *f, size_t i)
{
    const tn__group *g = f->group[i];
    int64_t bytes = 0;
    if (!g || f->dead[i] || !g->can_fuse)
        return false;
    for (int p = 0; p < g->count; p++)
        for (int k = 0; k < g->part[p].operand_count; k++) {
            const tn__part_operand *o = &g->part[p].operand[k];
            int64_t of_operand = (int64_t)tn_dtype_bytes((tn_dtype)o->dtype);
            for (int d = 0; d < g->cut.ndim; d++)
                of_operand *= o->stride[d] ? g->cut.extent[d] : 1;
            bytes += of_operand;
        }
    return bytes <= f->small_bytes;
}

/* Returns whether x and y can be one launch without that others have to wait for
 * it: nothing between them needs x, so that x can run as late as y, or y needs
 * nothing between them, so that it can run as early as x. */
static bool are_near(const tn__window *f, size_t x, size_t y)
{
    bool late = true, early = true;
    for (size_t g = x + 1; g < y && (late || early); g++) {
        late = late && !(f->group[g] && tn__must_run_before(f, x, g));
        early = early && !(f->group[g] && tn__must_run_before(f, g, y));
    }
    return late || early;
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
            if (!are_near(f, x, y))
                continue;
            if (!tn__try_fusion(f, x, y, TN__FUSE_APART))
                return false;
        }
    }
    return true;
}
