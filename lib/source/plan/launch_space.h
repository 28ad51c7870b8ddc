/* launch_space.h: iteration spaces after merging, and how many work-items run them:
 * what plans of programs and of primitives share. */
#ifndef TN_LIB_KERNEL_DEVICE_SPACE_H
#define TN_LIB_KERNEL_DEVICE_SPACE_H

#include <source/source.h>

/* Some dimensions of a launch, neighbours merged where all operands allow it;
 * at least one. */
typedef struct tn__device_space {
    uint32_t ndim;
    int64_t extent[2 * TN_MAX_NDIM];
    int64_t stride[TN_PLAN_BUFFERS][2 * TN_MAX_NDIM];
    int64_t count; /* of points */
} tn__device_space;

/* Dimensions first .. end of the launch; of its operands, only strides are
 * looked at. */
void tn__device_space_init(tn__device_space *s, const tn_launch *launch,
                           uint32_t operands, uint32_t first, uint32_t end);

/* Dimension `from` becomes dimension `to`; those between move by one. */
void tn__device_space_move(tn__device_space *s, uint32_t operands,
                           uint32_t from, uint32_t to);

/* How far from where it begins an operand is touched. */
int64_t tn__device_reach(const int64_t *extent, const int64_t *stride,
                         uint32_t ndim);
/* Below this, numbers and what a loop adds to them fit 32 bits. */
#define TN__DEVICE_NARROW ((int64_t)1 << 30)

/* Work-items of a group that is no single one: a power of two. */
uint32_t tn__device_group(const tn_target *target);

/* The words tag, launch and room of a launch that may fault. */
void tn__device_fault_words(uint64_t word[3], const tn_target *target,
                            uint64_t tag);

static inline int64_t tn__device_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t tn__device_divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif
