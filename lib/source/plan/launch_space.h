/* launch_space.h: the iteration space of a launch, in which adjacent dimensions
 * are merged where possible, and the size of work-groups. It is used for
 * programs and for primitives (matrix products, scans, sorts). */
#ifndef TN_LIB_SOURCE_LAUNCH_SPACE_H
#define TN_LIB_SOURCE_LAUNCH_SPACE_H

#include <source/source.h>

/* Some of the dimensions of a launch, at least one. Adjacent dimensions are
 * merged if the strides of all operands allow it. */
typedef struct tn__launch_space {
    uint32_t ndim;
    int64_t extent[2 * TN_MAX_NDIM];
    int64_t stride[TN_PLAN_BUFFERS][2 * TN_MAX_NDIM];
    int64_t count; /* product of the extents */
} tn__launch_space;

/* Makes the space of the dimensions from `first` up to but not including `end`
 * of the launch. Of the launch's operands, only the strides are read. */
void tn__launch_space_init(tn__launch_space *s, const tn_launch *launch,
                           uint32_t operands, uint32_t first, uint32_t end);

/* Moves dimension `from` so that it becomes dimension `to`. The dimensions in
 * between move by one. */
void tn__launch_space_move(tn__launch_space *s, uint32_t operands,
                           uint32_t from, uint32_t to);

/* Returns the largest distance of an accessed element from the operand's first
 * element, in elements. */
int64_t tn__strides_reach(const int64_t *extent, const int64_t *stride,
                          uint32_t ndim);
/* If all sizes are less than this, indices fit in 32 bits even after a loop has
 * added its step to them. */
#define TN__NARROW_LIMIT ((int64_t)1 << 30)

/* Returns the number of work-items of a work-group, a power of two that is at
 * most 256. */
uint32_t tn__target_group(const tn_target *target);

/* Sets the argument words tag, launch and room, which a kernel needs to report
 * faults (fault.cl). */
void tn__fault_words(uint64_t word[3], const tn_target *target, uint64_t tag);

static inline int64_t tn__min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t tn__divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
