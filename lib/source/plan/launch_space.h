/* launch_space.h: iteration spaces, in which adjacent dimensions are merged,
 * and the size of work-groups. Plans of programs and of primitives share
 * them. */
#ifndef TN_LIB_SOURCE_LAUNCH_SPACE_H
#define TN_LIB_SOURCE_LAUNCH_SPACE_H

#include <source/source.h>

/* Some dimensions of a launch, at least one. Adjacent dimensions are merged
 * where all operands allow it. */
typedef struct tn__launch_space {
    uint32_t ndim;
    int64_t extent[2 * TN_MAX_NDIM];
    int64_t stride[TN_PLAN_BUFFERS][2 * TN_MAX_NDIM];
    int64_t count; /* number of points */
} tn__launch_space;

/* Makes the space of dimensions first .. end of the launch. Only the strides of
 * its operands are read. */
void tn__launch_space_init(tn__launch_space *s, const tn_launch *launch,
                           uint32_t operands, uint32_t first, uint32_t end);

/* Moves dimension `from` to position `to`; the dimensions between shift by
 * one. */
void tn__launch_space_move(tn__launch_space *s, uint32_t operands,
                           uint32_t from, uint32_t to);

/* Returns the greatest distance, in elements, of an accessed element from the
 * operand's first element. */
int64_t tn__strides_reach(const int64_t *extent, const int64_t *stride,
                          uint32_t ndim);
/* If sizes are below this limit, indices and the steps that a loop adds to them
 * fit 32 bits. */
#define TN__NARROW_LIMIT ((int64_t)1 << 30)

/* Returns the number of work-items of a work-group: a power of two, at most
 * 256. */
uint32_t tn__target_group(const tn_target *target);

/* Fills the argument words tag, launch and room of a launch that may fault. */
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
