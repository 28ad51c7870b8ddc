/* primitive.h: plans and prints primitives (matrix products, scatters, scans,
 * sorts, convolutions). */
#ifndef TN_LIB_SOURCE_PRIMITIVE_H
#define TN_LIB_SOURCE_PRIMITIVE_H

#include <base/error.h>
#include <source/plan/launch_space.h>
#include <source/text_head.h>
#include <kernel/ssa.h>
#include <kernel/type.h>

enum { TN__MATMUL, TN__SCATTER, TN__SCAN, TN__SORT, TN__CONV };

/* The fields packed into tn_plan.variant. */
typedef struct tn__variant {
    unsigned primitive, dtype, ndim, kind; /* kind is the kind of a reduction or
                                            * conv, or 0 */
    bool is_wide, in_buffer;
    unsigned flags; /* flags of the primitive, at most 15 */
    uint32_t group;
} tn__variant;

enum { TN__OPERANDS = 4 }; /* most operands of a primitive */

/* A plan under construction, with the iteration space of its outer dimensions.
 * A line is the elements along the inner dimension: the dimension along which
 * the primitive scans, sorts or scatters. */
typedef struct tn__primitive {
    const tn_target *target;
    tn_plan *plan;
    tn__variant v;
    uint32_t operands;
    int64_t extent[TN_MAX_NDIM], stride[TN__OPERANDS][TN_MAX_NDIM];
    int64_t offset[TN__OPERANDS];
    uint32_t ndim;
    int64_t reach; /* greatest distance between accessed elements along the
                    * inner dimensions, in elements */
    tn__launch_space outer;
    uint64_t argument[48];
    uint32_t argument_count;
} tn__primitive;

tn__variant tn__variant_unpack(uint64_t word);

void tn__primitive_init(tn__primitive *p, const tn_target *target,
                        tn_plan *plan, unsigned primitive, uint32_t dtype);
/* Appends the extents of all dimensions except `without`. */
void tn__primitive_extents(tn__primitive *p, const int64_t *extent,
                           uint32_t ndim, uint32_t without);
/* Appends an operand over these extents. Dimension `without` is the inner
 * dimension, along which `length` elements of the operand are accessed. */
void tn__primitive_operand(tn__primitive *p, const tn_strided *s,
                           uint32_t without, int64_t length);
void tn__primitive_buffer(tn__primitive *p, tn_buffer *buffer);
/* Appends an argument word that is specific to the primitive. */
void tn__primitive_argument(tn__primitive *p, int64_t word);
/* Merges the outer dimensions and chooses 32 or 64-bit indices. `longest` is
 * the greatest count besides the number of points. */
void tn__primitive_space(tn__primitive *p, int64_t longest);
/* Completes the plan. `groups` is the number of work-groups that have work; the
 * plan has at most per_unit work-groups for each compute unit. */
tn_status tn__primitive_end(tn__primitive *p, int64_t groups, int64_t per_unit);
/* Completes a plan in which each work-item processes one line. */
tn_status tn__primitive_end_lines(tn__primitive *p);
bool tn__primitive_is_chunked(const tn__primitive *p);

/* Returns the register type in which a dtype is computed. */
static inline tn_dtype tn__primitive_type(unsigned dtype)
{
    return tn__register_type((tn_dtype)dtype);
}

/* ---- by tiles (tile.cl): products and convolutions --------------------- */

#define TN__SIDE 16 /* a work-group has SIDE x SIDE work-items */

enum { TN__LARGE = 4 }; /* flag of matmul and conv: tn__tile_sums returned 4 */

/* Returns how many sums a work-item has along each side of its tile. With 4
 * (TN__LARGE) each product reads shared memory half as often. 4 is returned if
 * there are enough such tiles for the device, else 1. */
int64_t tn__tile_sums(const tn_target *target, int64_t matrices, int64_t m,
                      int64_t n);

/* ---- sorted positions (print_sort.c), for scatter --------------------- */

/* Indices and their positions in the line, sorted stably by the indices' lowest
 * digits. They are in scratch memory as keys[line][rank] and
 * positions[line][rank]: an index as 64 bits with the sign bit inverted, a
 * position as 32 or 64 bits. Lines are sorted in batches. */
typedef struct tn__sorted {
    bool is_ready;             /* true if this step finds them sorted; else this
                                * is a step of the sort */
    bool is_wide;              /* true if positions have 64 bits */
    int64_t first_line, lines; /* first line and number of lines of this step's
                                * batch */
    int64_t keys, positions;   /* offsets in scratch memory, in units of 8
                                * bytes */
    uint32_t steps;            /* number of steps of the whole plan */
    uint64_t scratch_bytes;
} tn__sorted;

/* Plans step plan->step. For each batch of lines come the steps of the sort,
 * then one step for the caller. `s` has no outputs. `digits` is the number of
 * low 8-bit digits to sort by. With at_once, one batch has all lines. */
tn_status tn__plan_sorted(const tn_target *target, const tn_sort_args *s,
                          uint32_t digits, bool at_once, tn_plan *plan,
                          tn__sorted *out);

/* ---- texts: the definitions before them -------------------------------- */

void tn__define_sums(tn__text *text, const tn__variant *v, const char *type);
void tn__define_matmul(tn__text *text, const tn__variant *v);
/* Prints the definitions of a scatter. Returns the name of the .cl file that
 * follows them. */
const char *tn__define_scatter(tn__text *text, const tn__variant *v,
                               const char *type);
const char *tn__define_scan(tn__text *text, const tn__variant *v,
                            const char *type);
/* Prints the definitions of a conv. Returns the name of the .cl file that
 * follows conv.cl. */
const char *tn__define_conv(tn__text *text, const tn__variant *v);
/* Prints the definitions of a sort. Returns the name of the .cl file that
 * follows sort.cl. */
const char *tn__define_sort(tn__text *text, const tn__variant *v);

#endif
