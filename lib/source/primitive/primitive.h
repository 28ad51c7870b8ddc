/* primitive.h: what the files that plan and print primitives share. */
#ifndef TN_LIB_SOURCE_PRIMITIVE_H
#define TN_LIB_SOURCE_PRIMITIVE_H

#include <base/error.h>
#include <source/plan/launch_space.h>
#include <source/text_head.h>
#include <kernel/ssa.h>
#include <kernel/type.h>

enum { TN__MATMUL, TN__SCATTER, TN__SCAN, TN__SORT, TN__CONV };

/* The contents of tn_plan.variant. */
typedef struct tn__variant {
    unsigned primitive, dtype, ndim, kind; /* kind: reduction, conv, or 0 */
    bool is_wide, in_buffer;
    unsigned flags; /* specific to the primitive, at most 15 */
    uint32_t group;
} tn__variant;

enum { TN__OPERANDS = 4 }; /* the greatest number of operands */

/* A plan being made, with the iteration space of its outer dimensions. A line
 * is the elements along the inner dimension. */
typedef struct tn__primitive {
    const tn_target *target;
    tn_plan *plan;
    tn__variant v;
    uint32_t operands;
    int64_t extent[TN_MAX_NDIM], stride[TN__OPERANDS][TN_MAX_NDIM];
    int64_t offset[TN__OPERANDS];
    uint32_t ndim;
    int64_t reach; /* greatest distance, in elements, along the inner
                    * dimensions */
    tn__launch_space outer;
    uint64_t argument[48];
    uint32_t argument_count;
} tn__primitive;

tn__variant tn__variant_unpack(uint64_t word);

void tn__primitive_init(tn__primitive *p, const tn_target *target,
                        tn_plan *plan, unsigned primitive, uint32_t dtype);
/* Appends the extents, without dimension `without`. */
void tn__primitive_extents(tn__primitive *p, const int64_t *extent,
                           uint32_t ndim, uint32_t without);
/* Appends an operand over these extents. Dimension `without` is the inner one,
 * with `length` elements of the operand along it. */
void tn__primitive_operand(tn__primitive *p, const tn_strided *s,
                           uint32_t without, int64_t length);
void tn__primitive_buffer(tn__primitive *p, tn_buffer *buffer);
/* Appends an argument word that is specific to the primitive. */
void tn__primitive_argument(tn__primitive *p, int64_t word);
/* Merges the outer dimensions and decides on 32 or 64-bit indices. longest: the
 * greatest count besides the number of points. */
void tn__primitive_space(tn__primitive *p, int64_t longest);
/* Completes the plan. groups: how many work-groups have work; the plan has at
 * most per_unit for each compute unit. */
tn_status tn__primitive_end(tn__primitive *p, int64_t groups, int64_t per_unit);
/* The same where each work-item processes one line. */
tn_status tn__primitive_end_lines(tn__primitive *p);
bool tn__primitive_is_chunked(const tn__primitive *p);

/* The register type in which a dtype is computed. */
static inline tn_dtype tn__primitive_type(unsigned dtype)
{
    return tn__register_type((tn_dtype)dtype);
}

/* ---- by tiles (tile.cl): products and convolutions --------------------- */

#define TN__SIDE 16 /* a work-group has SIDE x SIDE work-items */

enum { TN__LARGE = 4 }; /* a flag of matmul and conv */

/* Sums of a work-item along each side of its tile. 4 (TN__LARGE) if there are
 * enough such tiles for the device, since each product then reads shared memory
 * half as often; else 1. */
int64_t tn__tile_sums(const tn_target *target, int64_t matrices, int64_t m,
                      int64_t n);

/* ---- sorted positions (print_sort.c), for scatter --------------------- */

/* Indices and their positions in the line, sorted stably by the indices' lowest
 * digits. Both are in scratch memory as [line][rank]: an index as 64 bits with
 * the sign bit inverted, a position as 32 or 64 bits. Lines are sorted in
 * batches. */
typedef struct tn__sorted {
    bool is_ready;             /* this step finds them sorted; else it is a step
                                * of the sort */
    bool is_wide;              /* positions have 64 bits */
    int64_t first_line, lines; /* lines of this step's batch */
    int64_t keys, positions;   /* offsets in scratch memory, in units of 8
                                * bytes */
    uint32_t steps;            /* of the whole plan */
    uint64_t scratch_bytes;
} tn__sorted;

/* Plans step plan->step. For each batch of lines come the steps of the sort,
 * then one step for the caller. s has no outputs. digits: the number of low
 * 8-bit digits to sort by. at_once: one batch has all lines. */
tn_status tn__plan_sorted(const tn_target *target, const tn_sort_args *s,
                          uint32_t digits, bool at_once, tn_plan *plan,
                          tn__sorted *out);

/* ---- texts: the definitions before them -------------------------------- */

void tn__define_sums(tn__text *text, const tn__variant *v, const char *type);
void tn__define_matmul(tn__text *text, const tn__variant *v);
/* Returns the name of the text that follows. */
const char *tn__define_scatter(tn__text *text, const tn__variant *v,
                               const char *type);
const char *tn__define_scan(tn__text *text, const tn__variant *v,
                            const char *type);
/* Returns the name of the text that follows conv.cl. */
const char *tn__define_conv(tn__text *text, const tn__variant *v);
/* Returns the name of the text that follows sort.cl. */
const char *tn__define_sort(tn__text *text, const tn__variant *v);

#endif
