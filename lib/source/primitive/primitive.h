/* primitive.h: plans and prints primitives (matrix products, scatters, scans,
 * sorts, convolutions) for devices that compile source. */
#ifndef TN_LIB_SOURCE_PRIMITIVE_H
#define TN_LIB_SOURCE_PRIMITIVE_H

#include <base/error.h>
#include <source/plan/launch_space.h>
#include <source/text_head.h>
#include <kernel/ssa.h>
#include <kernel/type.h>

enum { TN__MATMUL, TN__SCATTER, TN__SCAN, TN__SORT, TN__CONV };

/* The fields that are packed into tn_plan.variant. */
typedef struct tn__variant {
    /* kind: the kind of scatter, scan, sort or convolution; 0 for others. */
    unsigned primitive, dtype, ndim, kind;
    bool is_wide, in_buffer;
    unsigned flags; /* flags whose meaning depends on the primitive, at most
                     * 15 */
    uint32_t group;
} tn__variant;

enum { TN__OPERANDS = 4 }; /* largest number of operands of a primitive */

/* A plan under construction, with the iteration space of its outer dimensions.
 * The inner dimension is the one along which the primitive scans, sorts or
 * scatters. A line is the elements along the inner dimension for one point of
 * the outer dimensions. */
typedef struct tn__primitive {
    const tn_target *target;
    tn_plan *plan;
    tn__variant v;
    uint32_t operands;
    int64_t extent[TN_MAX_NDIM], stride[TN__OPERANDS][TN_MAX_NDIM];
    int64_t offset[TN__OPERANDS];
    uint32_t ndim;
    int64_t reach; /* largest distance between accessed elements along the inner
                    * dimension, in elements */
    tn__launch_space outer;
    uint64_t argument[48];
    uint32_t argument_count;
} tn__primitive;

tn__variant tn__variant_unpack(uint64_t word);

void tn__primitive_init(tn__primitive *p, const tn_target *target,
                        tn_plan *plan, unsigned primitive, uint32_t dtype);
/* Adds the extents of all dimensions except the inner dimension `without`. */
void tn__primitive_extents(tn__primitive *p, const int64_t *extent,
                           uint32_t ndim, uint32_t without);
/* Adds an operand. Its dimensions have the extents that were added with
 * tn__primitive_extents. `without` is the inner dimension, along which `length`
 * elements of the operand are accessed. */
void tn__primitive_operand(tn__primitive *p, const tn_strided *s,
                           uint32_t without, int64_t length);
void tn__primitive_buffer(tn__primitive *p, tn_buffer *buffer);
/* Adds an argument word that only this primitive has. */
void tn__primitive_argument(tn__primitive *p, int64_t word);
/* Merges the outer dimensions and decides between 32-bit and 64-bit indices.
 * `longest` is the largest bound of an index, apart from the number of
 * points. */
void tn__primitive_space(tn__primitive *p, int64_t longest);
/* Completes the plan. `groups` is the number of work-groups that have work, and
 * per_unit the largest number of work-groups for each compute unit. */
tn_status tn__primitive_end(tn__primitive *p, int64_t groups, int64_t per_unit);
/* Completes a plan in which each line (the elements along the inner dimension)
 * belongs to one work-item. */
tn_status tn__primitive_end_lines(tn__primitive *p);
bool tn__primitive_is_chunked(const tn__primitive *p);

/* Returns the register type in which values of a dtype are computed. */
static inline tn_dtype tn__primitive_type(unsigned dtype)
{
    return tn__register_type((tn_dtype)dtype);
}

/* ---- matrix products and convolutions by tiles (tile.cl) ----------------- */

#define TN__SIDE 16 /* a work-group has TN__SIDE x TN__SIDE work-items */

enum { TN__LARGE = 4 }; /* a flag of matmul and conv (tn__variant.flags): each
                         * work-item computes 4 x 4 sums of a tile, not one */

/* Returns how many sums a work-item computes along each side of its tile: 4, so
 * 4 x 4 sums, if there are enough tiles of that size to use the whole device,
 * else 1. With 4, each multiplication reads local memory half as often. */
int64_t tn__tile_sums(const tn_target *target, int64_t matrices, int64_t m,
                      int64_t n);

/* ---- sorted indices (print_sort.c), for scatter ---------------------- */

/* Indices of a scatter and their positions in the line, sorted by the lowest
 * digits of the indices; equal indices keep their order. Both are in scratch
 * memory, as keys[line][rank] and positions[line][rank]. A key is an index as
 * 64 bits with the sign bit inverted. A position has 32 or 64 bits. The lines
 * are sorted in batches. */
typedef struct tn__sorted {
    bool is_ready;             /* true if this launch uses the sorted indices;
                                * false if this launch is still a part of the
                                * sort */
    bool is_wide;              /* true if positions have 64 bits */
    int64_t first_line, lines; /* first line, and number of lines, of the batch
                                * of this launch */
    int64_t keys, positions;   /* offsets in scratch memory, in units of 8
                                * bytes */
    uint32_t steps;            /* number of launches of the whole plan, sort
                                * included */
    uint64_t scratch_bytes;
} tn__sorted;

/* Plans launch number plan->step of a scatter that sorts its indices first. A
 * line is the elements along the dimension of the scatter. For each batch of
 * lines, the sort has several launches, which this function plans. One launch
 * that uses the sorted indices follows, which the caller plans. `s` describes
 * the sort; its fields for the results are not used. `digits` is the number of
 * 8-bit digits to sort by, from the lowest. If at_once is set, one batch has
 * all lines. */
tn_status tn__plan_sorted(const tn_target *target, const tn_sort_args *s,
                          uint32_t digits, bool at_once, tn_plan *plan,
                          tn__sorted *out);

/* ---- printing: each kernel's source begins with definitions -------------- */

void tn__define_sums(tn__text *text, const tn__variant *v, const char *type);
void tn__define_matmul(tn__text *text, const tn__variant *v);
/* Prints the definitions of a scatter. Returns the name of the .cl file that
 * follows them. */
const char *tn__define_scatter(tn__text *text, const tn__variant *v,
                               const char *type);
const char *tn__define_scan(tn__text *text, const tn__variant *v,
                            const char *type);
/* Prints the definitions of a convolution. Returns the name of the .cl file
 * that follows conv.cl. */
const char *tn__define_conv(tn__text *text, const tn__variant *v);
/* Prints the definitions of a sort. Returns the name of the .cl file that
 * follows sort.cl. */
const char *tn__define_sort(tn__text *text, const tn__variant *v);

#endif
