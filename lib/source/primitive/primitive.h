/* primitive.h: what the files that plan and print primitives share. */
#ifndef TN_LIB_KERNEL_DEVICE_PRIMITIVE_H
#define TN_LIB_KERNEL_DEVICE_PRIMITIVE_H

#include <base/error.h>
#include <source/plan/launch_space.h>
#include <source/text_head.h>
#include <kernel/ssa.h>
#include <kernel/type.h>

enum { TN__MATMUL, TN__SCATTER, TN__SCAN, TN__SORT, TN__CONV };

/* What tn_plan.variant says. */
typedef struct tn__variant {
    unsigned primitive, dtype, ndim, kind; /* kind: reduction, of conv, or 0 */
    bool is_wide, in_buffer;
    unsigned flags; /* of the primitive's own, 15 at most */
    uint32_t group;
} tn__variant;

enum { TN__OPERANDS = 4 }; /* the most that a primitive has */

/* A plan in the making: the outer space of its operands. */
typedef struct tn__primitive {
    const tn_target *target;
    tn_plan *plan;
    tn__variant v;
    uint32_t operands;
    int64_t extent[TN_MAX_NDIM], stride[TN__OPERANDS][TN_MAX_NDIM];
    int64_t offset[TN__OPERANDS];
    uint32_t ndim;
    int64_t reach; /* greatest, of what lies along the inner dimensions */
    tn__device_space outer;
    uint64_t argument[48];
    uint32_t argument_count;
} tn__primitive;

tn__variant tn__variant_unpack(uint64_t word);

void tn__primitive_init(tn__primitive *j, const tn_target *target,
                        tn_plan *plan, unsigned primitive, uint32_t dtype);
/* Extents without dimension `but`. */
void tn__primitive_extents(tn__primitive *j, const int64_t *extent,
                           uint32_t ndim, uint32_t without);
/* An operand over the job's extents, without dimension `but`, along which
 * `length` of its elements lie. */
void tn__primitive_operand(tn__primitive *j, const tn_strided *s,
                           uint32_t without, int64_t length);
void tn__primitive_buffer(tn__primitive *j, tn_buffer *buffer);
/* The next of the primitive's own argument words. */
void tn__primitive_argument(tn__primitive *j, int64_t word);
/* The outer space, and with it the width of numbers. longest: what is counted
 * besides its points. */
void tn__primitive_space(tn__primitive *j, int64_t longest);
/* The plan itself. groups: as many as the work would keep busy. */
tn_status tn__primitive_end(tn__primitive *j, int64_t groups, int64_t per_unit);
/* The same of work-items that are each a line's. */
tn_status tn__primitive_end_lines(tn__primitive *j);
bool tn__primitive_is_chunked(const tn__primitive *j);

/* What a dtype is computed in. */
static inline tn_dtype tn__primitive_type(unsigned dtype)
{
    return tn__register_type((tn_dtype)dtype);
}

/* ---- by tiles (tile.cl): products and convolutions ---------------------- */

#define TN__SIDE 16 /* SIDE x SIDE work-items are a group */

enum { TN__LARGE = 4 }; /* a flag of both */

/* Sums of a work-item along each side of its tile: 4 (TN__LARGE), where tiles
 * are enough for the device nevertheless, since shared memory is read half as
 * often for a product then; else 1. */
int64_t tn__tile_sums(const tn_target *target, int64_t matrices, int64_t m,
                      int64_t n);

/* ---- sorted places (print_sort.c), for scatter -------------------------------- */

/* The lines of a space, some at a time: indices and their places in the line,
 * in the order of the indices' lowest digits, places rising where those are
 * equal. Both lie in the scratch memory, [line][place in the order]: the index
 * as 64 bits with the sign bit turned, the place as 32 bits or 64. */
typedef struct tn__sorted {
    bool is_ready;             /* at this step; else the step is the sort's */
    bool is_wide;              /* places are of 64 bits */
    int64_t first_line, lines; /* of this step */
    int64_t keys, places;      /* where they lie, in words of 8 bytes */
    uint32_t steps;            /* in all */
    uint64_t scratch_bytes;
} tn__sorted;

/* Step plan->step: of a batch of lines the sort's steps, then one that is the
 * caller's, who finds lines sorted then. s has neither output; digits: of 8
 * bits, so many of the lowest are sorted by; at_once: all lines are a batch. */
tn_status tn__plan_sorted(const tn_target *target, const tn_sort_args *s,
                          uint32_t digits, bool at_once, tn_plan *plan,
                          tn__sorted *out);

/* ---- texts: what stands before them ------------------------------------- */

void tn__define_sums(tn__text *text, const tn__variant *v, const char *type);
void tn__define_matmul(tn__text *text, const tn__variant *v);
/* The part that is the text. */
const char *tn__define_scatter(tn__text *text, const tn__variant *v,
                               const char *type);
const char *tn__define_scan(tn__text *text, const tn__variant *v,
                            const char *type);
/* The part that goes behind conv.cl. */
const char *tn__define_conv(tn__text *text, const tn__variant *v);
/* The part that goes behind sort.cl. */
const char *tn__define_sort(tn__text *text, const tn__variant *v);

#endif
