/* class.h: the class of a launch, on which its plan and its printed text
 * agree. */
#ifndef TN_LIB_SOURCE_CLASS_H
#define TN_LIB_SOURCE_CLASS_H

#include <source/source.h>

struct tn__launch_space;

/* The class of a launch: everything that the text depends on besides the
 * program and the target. It is packed into tn_plan.variant.
 *
 * A chunk is TN_CHUNK elements of a row. A team is the work-items that share a
 * row. A lane is one of the TN_LANES accumulators of a reduction. */
typedef struct tn__launch_class {
    bool is_rows;      /* the program has rows, not elements alone */
    uint32_t outer;    /* merged dimensions of the elements, or of the rows */
    uint32_t row;      /* merged dimensions within a row; 0 without rows */
    bool is_wide;      /* indices need 64 bits */
    bool in_buffer;    /* the argument words are in a buffer */
    bool is_unit;      /* all innermost strides are 0 or 1 */
    uint32_t zero;     /* is_unit: operands whose stride is 0, one bit each */
    bool is_short;     /* a team reduces the whole row in one step, without a
                        * tree of chunks */
    uint32_t slots;    /* chunks that a team reduces at once. 0 with
                        * TN_TARGET_CHUNKED: one work-item processes a row */
    uint32_t lanes;    /* lanes per work-item, and so independent loads per loop
                        * step. 1: neighbouring work-items have neighbouring
                        * lanes. 4 (memory is contiguous across rows) or 16
                        * (short rows): neighbouring work-items have
                        * neighbouring rows */
    bool cached;       /* a team first copies the operands that several stages
                        * load to local memory (row_cache.c) */
    uint32_t tile;     /* without rows: side of the square tile of a work-group,
                        * which loads the `transposed` operands through local
                        * memory, along the second innermost dimension; 0: no
                        * tiles */
    uint32_t transposed; /* operands, one bit each; is_unit is false then */
    uint32_t group;    /* work-items of a work-group */
    uint32_t vector;   /* elements that a work-item processes at once. Each
                        * contiguous operand then takes one load or store of at
                        * most 16 bytes. 1: no vectors */
    bool distinct;     /* no output shares its buffer with another operand */
    uint32_t split;    /* 0, or 1 + the plan's step where several work-groups
                        * share a row; is_short then means that each has one
                        * span of its row */
} tn__launch_class;

uint64_t tn__launch_class_pack(const tn__launch_class *class);
tn__launch_class tn__launch_class_unpack(uint64_t variant);

/* Work-items that share a chunk, and work-items that share a row (a team). */
static inline uint32_t tn__launch_class_width(const tn__launch_class *class)
{
    return TN_LANES / class->lanes;
}

static inline uint32_t tn__launch_class_team(const tn__launch_class *class)
{
    return class->slots * tn__launch_class_width(class);
}

/* Positions among the argument words. */
typedef struct tn__launch_words {
    uint32_t count, length;     /* elements or rows; elements of a row */
    uint32_t extent;            /* of the outer dimensions, then of the row's */
    uint32_t offset[TN_PLAN_BUFFERS];
    uint32_t stride[TN_PLAN_BUFFERS]; /* the first one; order as in extent */
    uint32_t index_stride[TN_PLAN_BUFFERS];
    uint32_t index_extent[TN_PLAN_BUFFERS];
    uint32_t param;
    uint32_t tag, launch, room; /* of fault reports */
    uint32_t share, shares;     /* split rows: elements of a share, shares of a
                                 * row */
    uint32_t total;
} tn__launch_words;

/* False if the launch needs more words than a plan holds. */
bool tn__launch_words_init(tn__launch_words *words, const tn_program *program,
                           const tn__launch_class *class);

/* Rejects a target whose flags contradict each other. */
tn_status tn__target_check(const tn_target *target);

/* Whether the instruction reports indices that are out of range. */
bool tn__ins_faults(const tn_kernel_ins *ins);

/* Whether any instruction of the program does. */
bool tn__program_may_fault(const tn_program *program);

/* Whether operand k is contiguous along the innermost dimension. */
bool tn__operand_is_contiguous(const tn_program *program,
                               const tn__launch_class *class, uint32_t k);

/* Elements from one chunk of a cached row to the next in local memory: padded,
 * so that chunks begin at different banks. */
#define TN__CACHED_CHUNK (TN_CHUNK + TN_LANES)

/* plan_cache.c: chooses to copy rows of `length` elements to local memory if
 * they fit. Work-groups are small then, so that some load while others compute.
 * A quarter of local memory stays free for reductions. */
void tn__cache_choose(tn__launch_class *class, const tn_program *program,
                      const tn_target *target, int64_t length);

/* Operands, one bit each, that the elem parts of several stages load without an
 * index. */
uint32_t tn__cache_candidates(const tn_program *program);

/* The number of work-groups that hides the latency of memory. */
int64_t tn__target_max_groups(const tn_target *target);

/* team.c: sets lanes and slots of a class, or that its rows are cached. */
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
/* The number of tiles in the space of such a class. */
int64_t tn__tiles_count(const tn__launch_class *class,
                        const struct tn__launch_space *space);

/* row_split.c: how many elements of a row a work-group gets if the device
 * should have `groups` work-groups and there are `count` rows. 0: rows are not
 * split. */
int64_t tn__split_share(const tn_program *program,
                        const tn__launch_class *class, int64_t groups,
                        int64_t count, int64_t length);

/* The steps of a plan whose rows are split; and the stage whose elem part a
 * step runs (stage_count: none, it runs the row parts with their stores). */
uint32_t tn__split_steps(const tn_program *program);
uint32_t tn__split_stage(const tn_program *program, uint32_t step);

/* Lists the instructions of such a step: the row parts before the stage without
 * their stores, then the elem part of the stage; or all row parts. order has
 * room for order_count numbers. Returns how many it lists. */
uint32_t tn__split_order(const tn_program *program, uint32_t stage,
                         uint32_t *order);

/* The index of a REDUCE among the program's REDUCEs; for another instruction,
 * how many there are. The partial values of a row's shares are adjacent in
 * scratch memory, row after row, TN__SPLIT_BYTES each. */
uint32_t tn__split_reduce_index(const tn_program *program, uint32_t reduce);
#define TN__SPLIT_BYTES 16 /* the widest: an f64 or i64 with its index */
#define TN__SPLIT_RUN 8    /* shares that one work-item reduces */

#endif
