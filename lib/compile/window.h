/* window.h: a run of steps with their groups, and which of them must run before
 * which. */
#ifndef TN_LIB_COMPILE_WINDOW_H
#define TN_LIB_COMPILE_WINDOW_H

#include <compile/fuse.h>

/* A set of groups of a window, as bits. */
typedef uint64_t *tn__set;

/* One use of a value by a step. */
typedef struct tn__value_use {
    uint32_t value, use;
    size_t step;
} tn__value_use;

typedef struct tn__window {
    const tn__capture *capture;
    size_t first, count;  /* the window: steps first .. first + count */
    size_t words;         /* of a set */
    tn__group **group;    /* group[i]: the group of step first + i, or NULL if it
                           * was fused into another one; owned */
    int64_t small_bytes;  /* groups that use at most so many bytes are fused also
                           * if they share no memory */
    size_t *home;         /* home[i]: the group that contains step first + i */
    tn__set before;       /* before[i]: the groups that run before group i */
    bool *dead;           /* dead[i]: nothing reads what step first + i writes */
    tn__value_use *use;   /* the uses of all values, owned */
    size_t use_count;
    size_t *use_of;       /* those of value v are use[use_of[v] .. use_of[v + 1]);
                           * owned */
} tn__window;

static inline bool tn__set_has(const uint64_t *s, size_t i)
{
    return s[i / 64] >> i % 64 & 1;
}

static inline void tn__set_put(uint64_t *s, size_t i)
{
    s[i / 64] |= (uint64_t)1 << i % 64;
}

static inline tn__set tn__window_before(const tn__window *f, size_t i)
{
    return f->before + i * f->words;
}

/* Returns whether group x must run before group y. */
static inline bool tn__must_run_before(const tn__window *f, size_t x, size_t y)
{
    return tn__set_has(tn__window_before(f, y), x);
}

static inline bool tn__window_has(const tn__window *f, size_t step)
{
    return step >= f->first && step < f->first + f->count;
}

static inline bool tn__accesses_overlap(const tn__access *x,
                                        const tn__access *y)
{
    return x->low < y->high && y->low < x->high;
}

/* Lists the uses of all steps, ordered by value and then by step. Records an
 * error and returns false if memory runs out. */
bool tn__window_list_uses(tn__window *f);
/* Fills in before[]. */
void tn__window_find_dependencies(tn__window *f);
/* Returns whether some other group must run between groups x and y. */
bool tn__window_between(const tn__window *f, size_t x, size_t y);
/* Replaces groups x and y by `whole`, as group y. */
void tn__window_replace(tn__window *f, size_t x, size_t y, tn__group *whole);
/* Which groups are fused. Each constant includes those before it. */
enum {
    TN__FUSE_NOTHING,
    TN__FUSE_CHAINS,   /* groups with those that compute what they read */
    TN__FUSE_SIBLINGS, /* groups that read the same memory */
    TN__FUSE_SMALL,    /* small groups that share no memory */
    TN__FUSE_LEVELS = TN__FUSE_SMALL + 6 /* larger ones */
};

/* order.c: stores in order[] the indices of all groups in an order in which they
 * can run, and in *peak the largest total size of temporary values that exist at
 * one time. If nothing is fused, the order is that of the function. Records an
 * error and returns false if memory runs out. */
bool tn__window_order(const tn__window *f, int fusion, size_t *order,
                      uint64_t *peak);

/* fit.c: returns why groups x and y over a common space cannot be fused, or NULL
 * if they can. x runs before y. If `apart` is true, they need not share memory. */
const char *tn__fusion_refused(const tn__window *f, const tn__group *x,
                               const tn__group *y, const tn__cut *cut,
                               bool apart);
/* neighbours.c: fuses small groups that share no memory, to save their launches.
 * Returns false if memory runs out. */
bool tn__fuse_neighbours(tn__window *f);
/* fuse.c: fuses groups x and y if that is possible. `how` says what is wanted.
 * Returns false if memory runs out. */
enum {
    TN__FUSE_CONSUMER, /* the reason goes into the report if it is not possible */
    TN__FUSE_SIBLING,
    TN__FUSE_APART     /* the groups need not share memory */
};
bool tn__try_fusion(tn__window *f, size_t x, size_t y, int how);
/* dead.c: sets dead[s] for each step s whose results nothing reads. Records an
 * error and returns false if memory runs out. */
bool tn__find_dead(const tn__capture *capture, bool *dead);

#endif
