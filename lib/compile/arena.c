/* arena.c: places temporary values in one block of memory: one after the other,
 * each at the lowest place that no value has during its lifetime. Which order needs
 * least memory depends on the program, so several are tried. */
#include <compile/arena.h>

#include <base/memory.h>

#include <stdlib.h>

static uint64_t rounded(uint64_t bytes, uint64_t align)
{
    return (bytes + align - 1) / align * align;
}

static bool meet(const tn__lifetime *x, const tn__lifetime *y)
{
    return x->bytes && y->bytes && x->first <= y->last && y->first <= x->last;
}

/* The values in the order in which they are placed. */
static int larger_first(const void *a, const void *b)
{
    const tn__lifetime *x = *(tn__lifetime *const *)a;
    const tn__lifetime *y = *(tn__lifetime *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

static uint64_t steps_of(const tn__lifetime *x)
{
    return x->last - x->first + 1;
}

static int longer_first(const void *a, const void *b)
{
    const tn__lifetime *x = *(tn__lifetime *const *)a;
    const tn__lifetime *y = *(tn__lifetime *const *)b;
    return steps_of(x) != steps_of(y) ? (steps_of(x) < steps_of(y) ? 1 : -1)
                                      : larger_first(a, b);
}

static int more_first(const void *a, const void *b)
{
    const tn__lifetime *x = *(tn__lifetime *const *)a;
    const tn__lifetime *y = *(tn__lifetime *const *)b;
    const double of_x = (double)x->bytes * (double)steps_of(x);
    const double of_y = (double)y->bytes * (double)steps_of(y);
    return of_x != of_y ? (of_x < of_y ? 1 : -1) : larger_first(a, b);
}

static int earlier_first(const void *a, const void *b)
{
    const tn__lifetime *x = *(tn__lifetime *const *)a;
    const tn__lifetime *y = *(tn__lifetime *const *)b;
    return x->first != y->first ? (x->first > y->first ? 1 : -1)
                                : larger_first(a, b);
}

static int lower_first(const void *a, const void *b)
{
    const tn__lifetime *x = *(tn__lifetime *const *)a;
    const tn__lifetime *y = *(tn__lifetime *const *)b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Places order[at]. order[0 .. at) are placed; `near` has room for them. */
static void place(tn__lifetime **order, size_t at, tn__lifetime **near,
                  uint64_t align)
{
    tn__lifetime *x = order[at];
    size_t count = 0;
    for (size_t i = 0; i < at; i++)
        if (meet(order[i], x))
            near[count++] = order[i];
    if (count)
        qsort(near, count, sizeof *near, lower_first);
    x->place = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t end = near[i]->place + rounded(near[i]->bytes, align);
        if (near[i]->place >= x->place + rounded(x->bytes, align))
            break;
        x->place = end > x->place ? end : x->place;
    }
}

/* Returns the largest total size of the values that live in one step. */
static uint64_t largest_total(const tn__lifetime *value, size_t count,
                              uint64_t align, bool *failed)
{
    size_t last = 0;
    for (size_t v = 0; v < count; v++)
        last = value[v].bytes && value[v].last > last ? value[v].last : last;
    int64_t *change = tn__calloc(last + 2, sizeof *change);
    *failed = !change;
    if (!change)
        return 0;
    for (size_t v = 0; v < count; v++) {
        const int64_t bytes = (int64_t)rounded(value[v].bytes, align);
        change[value[v].bytes ? value[v].first : 0] += bytes;
        change[value[v].bytes ? value[v].last + 1 : 0] -= bytes;
    }
    int64_t now = 0, most = 0;
    for (size_t s = 0; s <= last; s++) {
        now += change[s];
        most = now > most ? now : most;
    }
    tn__free(change);
    return (uint64_t)most;
}

/* Places all values in one order, and returns the size of the arena. */
static uint64_t place_all(tn__lifetime **order, size_t count, uint64_t align,
                          int (*compare)(const void *, const void *))
{
    uint64_t arena = 0;
    qsort(order, count, sizeof *order, compare);
    for (size_t v = 0; v < count; v++) {
        place(order, v, order + count, align);
        const uint64_t end =
            order[v]->place + rounded(order[v]->bytes, align);
        arena = end > arena ? end : arena;
    }
    return arena;
}

bool tn__arena_plan(tn__lifetime *value, size_t count, uint64_t align,
                    uint64_t *arena, uint64_t *bound)
{
    static int (*const compare[])(const void *, const void *) = {
        larger_first, more_first, longer_first, earlier_first};
    enum { ORDERS = sizeof compare / sizeof *compare };
    bool failed;
    *bound = largest_total(value, count, align, &failed);
    tn__lifetime **order = tn__calloc(2 * count + 1, sizeof *order);
    if (failed || !order) {
        tn__free(order);
        return false;
    }
    size_t used = 0;
    for (size_t v = 0; v < count; v++) {
        value[v].place = 0;
        if (value[v].bytes)
            order[used++] = &value[v];
    }
    int best = 0, last = 0;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < ORDERS && least > *bound; i++) {
        *arena = place_all(order, used, align, compare[i]);
        best = *arena < least ? i : best;
        least = *arena < least ? *arena : least;
        last = i;
    }
    if (best != last)
        *arena = place_all(order, used, align, compare[best]);
    tn__free(order);
    return true;
}

bool tn__arena_overlaps(const tn__lifetime *value, size_t count)
{
    for (size_t v = 0; v < count; v++)
        for (size_t w = 0; w < v; w++)
            if (meet(&value[v], &value[w]) &&
                value[v].place < value[w].place + value[w].bytes &&
                value[w].place < value[v].place + value[v].bytes)
                return true;
    return false;
}
