/* class.h: the class of a launch: everything about its shape and strides on
 * which the printed source text depends. Plan and text must agree on the
 * class. */
#ifndef TN_LIB_SOURCE_CLASS_H
#define TN_LIB_SOURCE_CLASS_H

#include <source/source.h>

struct tn__launch_space;

/* The class of a launch is everything that the text depends on besides the
 * program and the target. It is packed into tn_plan.variant. A program has rows
 * if it reduces over rows or has a result per row. Otherwise it is pointwise:
 * it only has elements.
 *
 * A chunk is TN_CHUNK elements of a row. A lane is one of the TN_LANES
 * accumulators of a reduction. A team is the work-items that share a row. */
typedef struct tn__launch_class {
    bool is_rows;      /* true if the program has rows */
    uint32_t outer;    /* number of merged dimensions over the elements, or over
                        * the rows */
    uint32_t row;      /* number of merged dimensions within a row; 0 if
                        * pointwise */
    bool is_wide;      /* true if indices need 64 bits */
    bool in_buffer;    /* true if the argument words are in a buffer */
    bool is_unit;      /* true if all innermost strides are 0 or 1 */
    uint32_t zero;     /* if is_unit, bit k is set if operand k has stride 0 */
    bool is_short;     /* true if a team reduces the whole row in one step,
                        * without a tree of chunks */
    uint32_t slots;    /* number of chunks that a team reduces at once. It is 0
                        * with TN_TARGET_CHUNKED, where one work-item processes
                        * a row. */
    /* Number of lanes per work-item, and so of independent loads per loop step.
     * With 1, neighbouring work-items have neighbouring lanes. With 4 (memory
     * is contiguous across rows) or 16 (short rows), neighbouring work-items
     * have neighbouring rows. */
    uint32_t lanes;
    bool cached;       /* true if a team first copies the operands that several
                        * stages load to local memory (row_cache.c) */
    /* For a pointwise program: side of the square tile of elements that a
     * work-group processes; 0 without tiles. The work-group loads the operands
     * of `transposed`, which are contiguous along the second innermost
     * dimension, through local memory. */
    uint32_t tile;
    uint32_t transposed; /* bit k is set if operand k is loaded so; is_unit is
                          * false then */
    uint32_t group;    /* number of work-items in a work-group */
    uint32_t vector;   /* Number of elements that a work-item processes at once,
                        * 1 without vectors. Each contiguous operand then takes
                        * one load or store of at most 16 bytes. */
    bool distinct;     /* true if no output shares its buffer with another
                        * operand */
    /* If several work-groups share a row, 1 + the step of the plan; else 0.
     * With split rows, is_short means that each work-group has one span (slots
     * * TN_CHUNK elements) of its row. */
    uint32_t split;
} tn__launch_class;

uint64_t tn__launch_class_pack(const tn__launch_class *class);
tn__launch_class tn__launch_class_unpack(uint64_t variant);

/* Return the number of work-items that share a chunk, and that share a row (a
 * team). */
static inline uint32_t tn__launch_class_width(const tn__launch_class *class)
{
    return TN_LANES / class->lanes;
}

static inline uint32_t tn__launch_class_team(const tn__launch_class *class)
{
    return class->slots * tn__launch_class_width(class);
}

/* Indices of the argument words. */
typedef struct tn__launch_words {
    uint32_t count, length;     /* count: number of elements or rows; length:
                                 * elements of a row */
    uint32_t extent;            /* extents of the outer dimensions, then of the
                                 * row's */
    uint32_t offset[TN_PLAN_BUFFERS];
    uint32_t stride[TN_PLAN_BUFFERS]; /* the first of an operand's strides, in
                                       * the order of the extents */
    uint32_t index_stride[TN_PLAN_BUFFERS];
    uint32_t index_extent[TN_PLAN_BUFFERS];
    uint32_t param;
    uint32_t tag, launch, room; /* words for fault reports */
    uint32_t share, shares;     /* split rows: elements of a work-group's share,
                                 * and shares of a row */
    uint32_t total;
} tn__launch_words;

/* Finds the indices of the argument words. Returns false if the launch needs
 * more words than a plan holds. */
bool tn__launch_words_init(tn__launch_words *words, const tn_program *program,
                           const tn__launch_class *class);

/* Checks that the flags of a target do not contradict each other. */
tn_status tn__target_check(const tn_target *target);

/* Whether the instruction reports indices that are out of range. */
bool tn__ins_faults(const tn_kernel_ins *ins);

/* Whether any instruction of the program reports such indices. */
bool tn__program_may_fault(const tn_program *program);

/* Whether operand k is contiguous along the innermost dimension. */
bool tn__operand_is_contiguous(const tn_program *program,
                               const tn__launch_class *class, uint32_t k);

/* Distance in elements from one chunk of a cached row to the next in local
 * memory. It is padded, so that chunks begin at different banks. */
#define TN__CACHED_CHUNK (TN_CHUNK + TN_LANES)

/* plan_cache.c: decides to copy rows of `length` elements to local memory if
 * they fit. Work-groups are small then, so that some load while others compute.
 * A quarter of local memory stays free for reductions. */
void tn__cache_choose(tn__launch_class *class, const tn_program *program,
                      const tn_target *target, int64_t length);

/* Returns the operands that the elem parts of several stages load without an
 * index, one bit each. */
uint32_t tn__cache_candidates(const tn_program *program);

/* Returns the number of work-groups that hides the latency of memory. */
int64_t tn__target_max_groups(const tn_target *target);

/* team.c: sets lanes and slots of a class, or that its rows are copied to local
 * memory. */
void tn__launch_class_set_team(tn__launch_class *class,
                               const tn_program *program,
                               const tn_target *target,
                               const struct tn__launch_space *outer,
                               const struct tn__launch_space *row);
/* Makes work-groups smaller where full ones would leave compute units idle. */
void tn__launch_class_shrink_groups(tn__launch_class *class,
                                    const tn_target *target, int64_t count);

/* plan_tiles.c: sets `tile` and `transposed` if the class has tiles. The two
 * innermost dimensions of the space are then those of the tiles. */
void tn__tiles_choose(tn__launch_class *class, const tn_program *program,
                      const tn_target *target, struct tn__launch_space *space);
/* Returns the number of tiles in the space of such a class. */
int64_t tn__tiles_count(const tn__launch_class *class,
                        const struct tn__launch_space *space);

/* row_split.c: returns how many elements of a row a work-group gets, if the
 * device should have `groups` work-groups and there are `count` rows. Returns 0
 * if rows are not split. */
int64_t tn__split_share(const tn_program *program,
                        const tn__launch_class *class, int64_t groups,
                        int64_t count, int64_t length);

/* tn__split_steps returns the number of steps of a plan whose rows are split.
 * tn__split_stage returns the stage whose elem part a step runs. It is
 * stage_count for the step that runs the row parts with their stores
 * instead. */
uint32_t tn__split_steps(const tn_program *program);
uint32_t tn__split_stage(const tn_program *program, uint32_t step);

/* Lists the instructions of the step that runs `stage`: the row parts before
 * the stage without their stores, then the elem part of the stage. If stage is
 * stage_count, lists all row parts. `order` has room for order_count numbers.
 * Returns how many are listed. */
uint32_t tn__split_order(const tn_program *program, uint32_t stage,
                         uint32_t *order);

/* Returns the index of a REDUCE among the program's REDUCEs. For any other
 * instruction, returns the number of REDUCEs. The partial values are in scratch
 * memory as partial[reduce][row][share], TN__SPLIT_BYTES each. */
uint32_t tn__split_reduce_index(const tn_program *program, uint32_t reduce);
#define TN__SPLIT_BYTES 16 /* size of the widest partial value: an f64 or i64
                            * with its index */
#define TN__SPLIT_RUN 8    /* number of shares that one work-item reduces */

#endif
