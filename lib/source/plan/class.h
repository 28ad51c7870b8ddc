/* class.h: what plans and texts of programs agree upon. */
#ifndef TN_LIB_KERNEL_DEVICE_CLASS_H
#define TN_LIB_KERNEL_DEVICE_CLASS_H

#include <source/source.h>

struct tn__device_space;

/* The class of a launch: all that a text depends on besides the program and
 * the target. Packed into tn_plan.variant. */
typedef struct tn__device_class {
    bool is_rows;      /* stages over rows, not elements alone */
    uint32_t outer;    /* dimensions after merging: of elements, or of rows; */
    uint32_t row;      /*   of a row's elements (0 without rows) */
    bool is_wide;      /* indices need 64 bits */
    bool in_buffer;    /* the words come in a buffer */
    bool is_unit;      /* innermost strides are all 0 or 1, */
    uint32_t zero;     /*   and these operands' are 0 (one bit each) */
    bool is_short;     /* rows that a team folds at once: no tree */
    uint32_t slots;    /* chunks that a team folds at once; 0: TN_TARGET_CHUNKED,
                        *   where a work-item takes a row */
    uint32_t lanes;    /* that one work-item accumulates, as many independent
                        *   loads for each step of its loop: 1, and neighbouring
                        *   work-items have neighbouring lanes; or 4 where
                        *   memory is contiguous across rows, 16 where rows are
                        *   short, and they have neighbouring rows */
    bool cached;       /* a team copies what several stages load of its row to
                        *   local memory first: row_cache.c */
    uint32_t tile;     /* of elements: a group takes squares of this side, and
                        *   loads the operands `turned` through local memory,
                        *   along the second innermost dimension; 0: it does
                        *   not */
    uint32_t transposed; /* one bit each; is_unit is false then */
    uint32_t group;    /* work-items of a group */
    uint32_t vector;   /* elements that a work-item takes at once, each
                        *   operand that is side by side with one load or
                        *   store of at most 16 bytes; 1: one by one */
    bool distinct;     /* what is written lies in no other operand's buffer */
    uint32_t split;    /* rows over several groups: 1 + the plan's step; else
                        *   0. is_short: a group has one span of its row */
} tn__device_class;

uint64_t tn__device_class_pack(const tn__device_class *class);
tn__device_class tn__device_class_unpack(uint64_t variant);

/* Work-items that share a chunk, and those that share a row: a team. */
static inline uint32_t tn__device_width(const tn__device_class *class)
{
    return TN_LANES / class->lanes;
}

static inline uint32_t tn__device_team(const tn__device_class *class)
{
    return class->slots * tn__device_width(class);
}

/* Where things stand among the argument words. */
typedef struct tn__device_words {
    uint32_t count, length;     /* elements, or rows; elements of a row */
    uint32_t extent;            /* outer, then row */
    uint32_t offset[TN_PLAN_BUFFERS];
    uint32_t stride[TN_PLAN_BUFFERS]; /* the first: outer, then row */
    uint32_t index_stride[TN_PLAN_BUFFERS];
    uint32_t index_extent[TN_PLAN_BUFFERS];
    uint32_t param;
    uint32_t tag, launch, room; /* of faults */
    uint32_t share, shares;     /* split: elements of a share, shares of a row */
    uint32_t total;
} tn__device_words;

/* False if there are more than a plan has room for. */
bool tn__device_words_init(tn__device_words *words, const tn_program *program,
                           const tn__device_class *class);

/* Are these flags that go together? */
tn_status tn__device_check_target(const tn_target *target);

/* Does the instruction report an index that is out of range? */
bool tn__device_faults(const tn_kernel_ins *ins);

/* Does any of the program? */
bool tn__device_may_fault(const tn_program *program);

/* Does operand k lie side by side along the innermost dimension? */
bool tn__device_is_contiguous(const tn_program *program,
                              const tn__device_class *class, uint32_t k);

/* Elements of a chunk of a cached row in local memory: chunks begin at different
 * banks. */
#define TN__CACHED_CHUNK (TN_CHUNK + TN_LANES)

/* plan_cache.c: rows of `length` that fit local memory are read once. Their groups
 * are small, so that while some compute others load; the rest of local memory
 * is what reductions have need of. */
void tn__cache_choose(tn__device_class *class, const tn_program *program,
                      const tn_target *target, int64_t length);

/* Operands, one bit each, that the elem parts of several stages load with no
 * index. */
uint32_t tn__cache_candidates(const tn_program *program);

/* As many groups as hide the memory's latency. */
int64_t tn__device_max_groups(const tn_target *target);

/* team.c: the lanes and slots of a class, or its cached rows. */
void tn__device_size_team(tn__device_class *class, const tn_program *program,
                          const tn_target *target,
                          const struct tn__device_space *outer,
                          const struct tn__device_space *row);
/* Smaller groups where whole ones would leave units idle. */
void tn__device_shrink_groups(tn__device_class *class, const tn_target *target,
                              int64_t count);

/* plan_tiles.c: does the class have tiles? Then the iteration space comes back with
 * its two innermost dimensions those of the tiles. */
void tn__device_find_tiles(tn__device_class *class, const tn_program *program,
                           const tn_target *target,
                           struct tn__device_space *space);
/* Tiles of a space of such a class. */
int64_t tn__device_tile_count(const tn__device_class *class,
                              const struct tn__device_space *space);

/* row_split.c: how many elements of a row a group has where a device should have
 * so many groups and there are `count` rows; 0: a row is not split. */
int64_t tn__split_share(const tn_program *program,
                        const tn__device_class *class, int64_t groups,
                        int64_t count, int64_t length);

/* The steps of a plan whose rows are split; the stage whose elem part a step
 * runs (stage_count: none, the row parts store). */
uint32_t tn__split_steps(const tn_program *program);
uint32_t tn__split_stage(const tn_program *program, uint32_t step);

/* What such a step lists: row parts before the stage, without their stores,
 * and its elem part; or all row parts. Room for order_count; returns how
 * many. */
uint32_t tn__split_order(const tn_program *program, uint32_t stage,
                         uint32_t *order);

/* The number of a REDUCE among the program's (of an instruction that is none:
 * how many there are). Its shares' values lie one after the other in scratch,
 * row by row, with TN__SPLIT_BYTES of room for each. */
uint32_t tn__split_reduce_index(const tn_program *program, uint32_t reduce);
#define TN__SPLIT_BYTES 16 /* the widest: an f64 or i64 and its place */
#define TN__SPLIT_RUN 8    /* shares that a work-item folds by itself */

#endif
