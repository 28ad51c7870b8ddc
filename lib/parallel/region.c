/* region.c: parts of a tensor: see region.h. */
#include <parallel/region.h>

#include <stdlib.h>

int64_t tn__sizes_numel(int ndim, const int64_t *shape)
{
    int64_t numel = 1;
    bool none = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return -1;
        none |= shape[i] == 0;
    }
    for (int i = 0; i < ndim && !none; i++)
        if (__builtin_mul_overflow(numel, shape[i], &numel) ||
            numel > INT64_MAX / 16)
            return -1;
    return none ? 0 : numel;
}

bool tn__region_make(tn__region *r, int ndim, const int64_t *shape,
                     const int64_t *offset, const int64_t *extent, bool flat)
{
    if (ndim < 0 || ndim > TN_MAX_NDIM)
        return false;
    const int64_t numel = tn__sizes_numel(ndim, shape);
    if (numel < 0)
        return false;
    r->ndim = flat ? 1 : ndim;
    for (int i = 0; i < r->ndim; i++) {
        r->shape[i] = flat ? numel : shape[i];
        r->offset[i] = offset[i];
        r->extent[i] = extent[i];
        if (offset[i] < 0 || extent[i] < 0 || extent[i] > r->shape[i] ||
            offset[i] > r->shape[i] - extent[i])
            return false;
    }
    return true;
}

int64_t tn__region_numel(const tn__region *r)
{
    return tn__sizes_numel(r->ndim, r->extent);
}

/* ---- runs ----------------------------------------------------------------- */

/* The current run: elements begin .. begin + length - 1 of the whole, which are
 * at `local` in the block. */
typedef struct runs {
    const tn__region *region;
    int outer;                   /* dimensions over which runs are counted */
    int64_t index[TN_MAX_NDIM];  /* of the current run in the block */
    int64_t begin, length, local;
    bool more;
} runs;

static void find_begin(runs *r)
{
    const tn__region *g = r->region;
    r->begin = 0;
    for (int i = 0; i < g->ndim; i++)
        r->begin = r->begin * g->shape[i] + g->offset[i] +
                   (i < r->outer ? r->index[i] : 0);
}

static void runs_begin(runs *r, const tn__region *region)
{
    *r = (runs){.region = region, .length = 1, .outer = region->ndim};
    while (r->outer > 0) {
        const int i = --r->outer;
        r->length *= region->extent[i];
        if (region->extent[i] != region->shape[i])
            break;
    }
    r->more = tn__region_numel(region) > 0;
    if (r->more)
        find_begin(r);
}

static void runs_next(runs *r)
{
    int i = r->outer;
    while (--i >= 0 && ++r->index[i] == r->region->extent[i])
        r->index[i] = 0;
    r->more = i >= 0;
    r->local += r->length;
    if (r->more)
        find_begin(r);
}

bool tn__region_overlap(const tn__region *a, const tn__region *b,
                        tn__region_visit visit, void *context)
{
    runs x, y;
    runs_begin(&x, a);
    runs_begin(&y, b);
    while (x.more && y.more) {
        const int64_t begin = x.begin > y.begin ? x.begin : y.begin;
        const int64_t x_end = x.begin + x.length, y_end = y.begin + y.length;
        const int64_t end = x_end < y_end ? x_end : y_end;
        if (begin < end &&
            !visit(context, x.local + begin - x.begin,
                   y.local + begin - y.begin, end - begin))
            return false;
        if (x_end < y_end)
            runs_next(&x);
        else
            runs_next(&y);
    }
    return true;
}

/* ---- tiling --------------------------------------------------------------- */

/* Moves heap[i] down to its place: the run that begins first is heap[0]. */
static void sift(runs *heap, size_t count, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t c = 2 * i + 1; c <= 2 * i + 2; c++)
            if (c < count && heap[c].begin < heap[least].begin)
                least = c;
        if (least == i)
            return;
        const runs moved = heap[i];
        heap[i] = heap[least];
        heap[least] = moved;
        i = least;
    }
}

/* There are at most as many runs as elements in the files. */
tn__tiling tn__regions_tile(const tn__region *const *region, size_t count,
                            int64_t numel, int64_t *at)
{
    runs *heap = malloc((count ? count : 1) * sizeof *heap);
    if (!heap)
        return TN__TILING_NO_MEMORY;
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        runs_begin(&heap[left], region[i]);
        left += heap[left].more;
    }
    for (size_t i = left / 2; i-- > 0;)
        sift(heap, left, i);
    tn__tiling result = TN__TILING_EXACT;
    int64_t end = 0;
    while (left && heap[0].begin == end) {
        end += heap[0].length;
        runs_next(&heap[0]);
        if (!heap[0].more)
            heap[0] = heap[--left];
        sift(heap, left, 0);
    }
    if (left)
        result = heap[0].begin < end ? TN__TILING_OVERLAP : TN__TILING_GAP;
    else if (end != numel)
        result = TN__TILING_GAP;
    *at = left && heap[0].begin < end ? heap[0].begin : end;
    free(heap);
    return result;
}
