/* class.h: what plans and texts of programs agree upon. */
#ifndef TN_LIB_KERNEL_DEVICE_CLASS_H
#define TN_LIB_KERNEL_DEVICE_CLASS_H

#include "kernel/device.h"

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
    uint32_t group;    /* work-items of a group */
    uint32_t vector;   /* elements that a work-item takes at once, each
                        *   operand that is side by side with one load or
                        *   store of at most 16 bytes; 1: one by one */
} tn__device_class;

tn__device_class tn__device_class_unpack(uint64_t variant);

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
    uint32_t total;
} tn__device_words;

/* False if there are more than a plan has room for. */
bool tn__device_words_init(tn__device_words *words, const tn_program *program,
                           const tn__device_class *class);

/* Does a LOAD of the program raise index faults? */
bool tn__device_may_fault(const tn_program *program);

/* Does operand k lie side by side along the innermost dimension? */
bool tn__device_is_side_by_side(const tn_program *program,
                                const tn__device_class *class, uint32_t k);

/* A part of lib/kernel/device by its file's name; NULL if there is none. */
const char *tn__device_part(const char *name);

#endif
