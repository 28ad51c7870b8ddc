/* class.h: the class of a launch: everything about its shape and strides on
 * which the printed kernel source depends. Launches of the same class use the
 * same compiled kernel. */
#ifndef TN_LIB_SOURCE_CLASS_H
#define TN_LIB_SOURCE_CLASS_H

#include <source/source.h>

struct tn__launch_space;

/* The class of a launch is everything on which the kernel source depends
 * besides the program and the target device. It is packed into tn_plan.variant.
 * A program has rows if it reduces over rows or has a result per row. Otherwise
 * it is pointwise.
 *
 * A chunk is TN_CHUNK elements of a row. A lane is one of the TN_LANES partial
 * results of a reduction: element k of a chunk is in lane k % TN_LANES. A team
 * is the work-items that share a row. */
typedef struct tn__launch_class {
    bool is_rows;      /* true if the program has rows */
    uint32_t outer;    /* number of merged dimensions across the rows or, if
                        * pointwise, of all elements */
    uint32_t row;      /* number of merged dimensions within a row; 0 if
                        * pointwise */
    bool is_wide;      /* true if indices need 64 bits */
    bool in_buffer;    /* true if the argument words are in a buffer instead of
                        * the kernel's parameters */
    bool is_unit;      /* true if all innermost strides are 0 or 1 */
    uint32_t zero;     /* if is_unit is set, bit k is set if operand k has
                        * innermost stride 0 */
    bool is_short;     /* true if a row has so few chunks of TN_CHUNK elements
                        * that a team (the work-items that share a row) reduces
                        * all of them at once */
    /* Number of chunks of TN_CHUNK elements that a team (the work-items that
     * share a row) reduces at once. 0 with TN_TARGET_CHUNKED, where a row
     * belongs to one work-item. */
    uint32_t slots;
    /* Number of lanes (partial results of a reduction) that a work-item has. A
     * work-item has as many independent loads. If it is 1, neighbouring
     * work-items have neighbouring lanes. If it is 4 (memory is contiguous from
     * row to row) or 16 (short rows), neighbouring work-items have neighbouring
     * rows. */
    uint32_t lanes;
    bool cached;       /* true if the work-items that share a row first copy the
                        * operands that several stages load into local memory
                        * (row_cache.c) */
    /* For a pointwise program: a work-group processes square tiles of `tile` x
     * `tile` elements; 0 if it has no tiles. Operands that are contiguous along
     * the second innermost dimension are loaded through local memory. */
    uint32_t tile;
    uint32_t transposed; /* bit k is set if operand k is loaded through local
                          * memory for a tile; is_unit is false then */
    uint32_t group;    /* number of work-items in a work-group */
    uint32_t vector;   /* Number of elements that a work-item processes at once;
                        * 1 without vectors. Each contiguous operand is loaded
                        * or stored by one access of at most 16 bytes. */
    bool distinct;     /* true if no output shares its buffer with another
                        * operand */
    /* 0 if each row belongs to one work-group. If several work-groups share a
     * row, 1 + the index of the launch within the plan. Then is_short means
     * that a work-group has at most slots * TN_CHUNK elements of a row. */
    uint32_t split;
} tn__launch_class;

uint64_t tn__launch_class_pack(const tn__launch_class *class);
tn__launch_class tn__launch_class_unpack(uint64_t variant);

/* Return the number of work-items that share a chunk, and the number that share
 * a row (a team). */
static inline uint32_t tn__launch_class_width(const tn__launch_class *class)
{
    return TN_LANES / class->lanes;
}

static inline uint32_t tn__launch_class_team(const tn__launch_class *class)
{
    return class->slots * tn__launch_class_width(class);
}

/* For each argument of the kernel, its index in the array of 64-bit argument
 * words. */
typedef struct tn__launch_words {
    uint32_t count, length;     /* index of the number of elements or rows
                                 * (count), and of the number of elements of a
                                 * row (length) */
    uint32_t extent;            /* index of the first extent. First come the
                                 * extents of the dimensions across rows, then
                                 * the extents of the dimensions within a row */
    uint32_t offset[TN_PLAN_BUFFERS];
    uint32_t stride[TN_PLAN_BUFFERS]; /* index of the first stride of each
                                       * operand; its further strides follow, in
                                       * the order of the extents */
    uint32_t index_stride[TN_PLAN_BUFFERS];
    uint32_t index_extent[TN_PLAN_BUFFERS];
    uint32_t param;
    uint32_t tag, launch, room; /* arguments of fault reports (fault.cl) */
    uint32_t share, shares;     /* If several work-groups share a row: number of
                                 * elements that one work-group gets (a share),
                                 * and number of shares of a row. */
    uint32_t total;
} tn__launch_words;

/* Computes the index of each argument word. Returns false if the launch needs
 * more words than a plan can have. */
bool tn__launch_words_init(tn__launch_words *words, const tn_program *program,
                           const tn__launch_class *class);

/* Checks that no two flags of a target contradict each other. */
tn_status tn__target_check(const tn_target *target);

/* Returns whether the instruction reports an index that is out of range. */
bool tn__ins_faults(const tn_kernel_ins *ins);

/* Returns whether any instruction of the program reports indices out of
 * range. */
bool tn__program_may_fault(const tn_program *program);

/* Returns whether operand k is contiguous along the innermost dimension. */
bool tn__operand_is_contiguous(const tn_program *program,
                               const tn__launch_class *class, uint32_t k);

/* If a row is copied to local memory: the distance in elements from one chunk
 * of TN_CHUNK elements to the next. It is padded by TN_LANES elements, so that
 * elements with the same index in different chunks are in different banks. */
#define TN__CACHED_CHUNK (TN_CHUNK + TN_LANES)

/* Decides whether rows of `length` elements are first copied to local memory,
 * and sets class->cached (plan_cache.c). Work-groups are small then, so that
 * some can load while others compute. A quarter of local memory is left for
 * reductions. */
void tn__cache_choose(tn__launch_class *class, const tn_program *program,
                      const tn_target *target, int64_t length);

/* Returns the operands that several stages load per element without an index.
 * Bit k is for operand k. */
uint32_t tn__cache_candidates(const tn_program *program);

/* Returns the number of work-groups that is enough to hide the latency of
 * memory. */
int64_t tn__target_max_groups(const tn_target *target);

/* Chooses how many work-items share a row, and sets class->lanes and
 * class->slots accordingly. Also decides whether rows are copied to local
 * memory (team.c). */
void tn__launch_class_set_team(tn__launch_class *class,
                               const tn_program *program,
                               const tn_target *target,
                               const struct tn__launch_space *outer,
                               const struct tn__launch_space *row);
/* Makes work-groups smaller if there would be too few full ones to use all
 * compute units. */
void tn__launch_class_shrink_groups(tn__launch_class *class,
                                    const tn_target *target, int64_t count);

/* Decides whether a pointwise program works on square tiles; if so, sets
 * class->tile and class->transposed, and makes the dimensions of the tile the
 * two innermost ones of the space (plan_tiles.c). */
void tn__tiles_choose(tn__launch_class *class, const tn_program *program,
                      const tn_target *target, struct tn__launch_space *space);
/* Returns the number of tiles in the iteration space, if the class has
 * tiles. */
int64_t tn__tiles_count(const tn__launch_class *class,
                        const struct tn__launch_space *space);

/* Decides whether several work-groups share each of `count` rows of `length`
 * elements (row_split.c). Returns how many elements of a row each work-group
 * gets if the launch should have about `groups` work-groups. Returns 0 if rows
 * are not shared. */
int64_t tn__split_share(const tn_program *program,
                        const tn__launch_class *class, int64_t groups,
                        int64_t count, int64_t length);

/* For a plan in which several work-groups share a row, and which therefore has
 * several launches, called steps: tn__split_steps returns their number.
 * tn__split_stage returns the stage whose instructions per element a step runs,
 * or stage_count for a last step that stores values per row. */
uint32_t tn__split_steps(const tn_program *program);
uint32_t tn__split_stage(const tn_program *program, uint32_t step);

/* For a plan in which several work-groups share a row: lists the instructions
 * of the launch that runs `stage`. The list has the instructions per row of all
 * earlier stages, without stores, then the instructions per element of `stage`.
 * If `stage` is stage_count, lists the instructions per row of all stages.
 * `order` has space for order_count indices. Returns the length of the list. */
uint32_t tn__split_order(const tn_program *program, uint32_t stage,
                         uint32_t *order);

/* Returns how many REDUCE instructions come before `reduce` in the program. For
 * any other instruction, returns the number of all REDUCEs. If several
 * work-groups share a row, share s is the part of the row of one of them. The
 * partial results are in scratch memory as partial[reduce][row][s],
 * TN__SPLIT_BYTES each. */
uint32_t tn__split_reduce_index(const tn_program *program, uint32_t reduce);
#define TN__SPLIT_BYTES 16 /* size in bytes of the largest partial result: an
                            * f64 or i64 with its index */
#define TN__SPLIT_RUN 8    /* largest number of work-groups' partial results of
                            * a row that one work-item combines */

#endif
