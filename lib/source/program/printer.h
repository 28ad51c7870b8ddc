/* print.h: what the files that print programs share. */
#ifndef TN_LIB_KERNEL_DEVICE_PRINT_H
#define TN_LIB_KERNEL_DEVICE_PRINT_H

#include <base/error.h>
#include <source/plan/class.h>
#include <source/text_head.h>

typedef struct tn__device_printer {
    const tn_program *program;
    tn__device_class class;
    tn__device_words words;
    tn__text body;
    bool chunked, faults;
    uint32_t stage; /* of a step whose rows are split: tn__split_stage */
    int depth; /* of blocks being printed */

    const tn_kernel_ins *ins; /* of the program, or of a function */
    const bool *live;         /* by instruction: here */
    const bool *stage_live;   /* in each stage's elem part */
    const char *position;     /* C for where a fault would be */
    uint32_t order_index;     /* in the list being printed */
    uint32_t used_dims;       /* dimensions whose coordinates are used */
    bool in_row_part;         /* a row's, which a whole team runs */
    uint32_t vectors;         /* operands of which x<k> has the elements, */
    uint32_t local;           /*   and local<k> at here<k> */
    uint32_t cached;          /* operands of rows in local memory */
    /* An instruction that a stage computes and later ones load (TN_NONE: none)
     * from the local memory of an operand, which they have no more need of. */
    uint32_t saved, saved_stage, saved_operand;
    uint32_t local_stage; /* whose elem part is being printed */
} tn__device_printer;

TN__PRINTF(2, 3)
void tn__device_line(tn__device_printer *p, const char *format, ...);

/* print_program.c: the text of a program. */
tn_status tn__print_program(const tn_target *target, const tn_program *program,
                            const tn_plan *plan, tn_source *source);

/* value.c: the right side of the definition of instruction i. */
void tn__device_value(tn__device_printer *p, char *out, size_t room,
                      uint32_t i);

/* liveness.c. Marks of a program are one for each instruction, then as many for
 * each stage's elem part, then room for as many; those of a function are one
 * for each, then room for as many. */
void tn__liveness_function(const tn_kernel_fn *fn, bool *marks);
/* What the program needs at all, and what of that each stage's elem part does:
 * a part may list more than its own stores and reductions read. False if memory
 * runs out. */
bool tn__liveness_program(tn__device_printer *p, bool *marks);
/* What the elem part of stage s needs, where instruction `given` is there. */
void tn__liveness_stage(tn__device_printer *p, uint32_t s, uint32_t available,
                        bool *marks);

/* row_cache.c: the call that is computed for a reduction and again for a later
 * stage, as the exponential of a softmax: its value replaces in local memory
 * what it was computed from. */
void tn__cache_find_saved(tn__device_printer *p, bool *marks);

/* order[first .. end) as statements (order NULL: a function's own). Operand
 * k's place is a variable at<k>. */
void tn__device_statements(tn__device_printer *p, const uint32_t *order,
                           uint32_t first, uint32_t end);

/* elements.c: the loop over elements. */
void tn__device_elements(tn__device_printer *p);
/* Of operands, those of which a work-item takes class.vector elements at once;
 * their types tk_v_<dtype>. */
uint32_t tn__device_vectors_of(const tn__device_printer *p, uint32_t used);
void tn__device_vector_types(tn__device_printer *p, uint32_t operands);
/* A vector of elements l, each of them the block between: loads the operands
 * p->vectors at from<k> (of p->cached from local memory, at here<k>), gives the
 * others at<k>, and stores in the end. */
void tn__device_vectors_open(tn__device_printer *p, uint32_t used);
void tn__device_vectors_close(tn__device_printer *p);
/* The statements of one element. */
void tn__device_elem_statements(tn__device_printer *p, const char *position);

/* tiles.c: the loop over squares of elements, of which operands `used` have a
 * place. */
void tn__device_tiles(tn__device_printer *p, uint32_t used);

/* A line with an opening brace, and what closes it. */
void tn__device_open(tn__device_printer *p, const char *head);
void tn__device_close(tn__device_printer *p);

/* Operands, one bit each, that needed instructions of order[first .. end) have
 * a place of. */
uint32_t tn__device_operands_of(const tn__device_printer *p, const bool *live,
                                uint32_t first, uint32_t end);

/* C's type of places: OFFSET operands are 64 bits wide for any class. */
const char *tn__device_offset_type(const tn__device_printer *p, uint32_t k);

/* The places name<k> of the operands `used` at point `number` of dimensions
 * first .. first + ndim, from start<k> on (NULL: the operand's offset), after
 * the coordinates c<d> that they hang on and those in `wanted`. p->terms tells
 * which those were. */
void tn__device_point_offsets(tn__device_printer *p, const char *number,
                              uint32_t used, const char *name,
                              const char *start, uint32_t first, uint32_t ndim,
                              uint32_t wanted);

/* The same at coordinates c<d> that stand before: dimensions first .. end. */
void tn__device_offsets(tn__device_printer *p, uint32_t used, const char *name,
                        const char *start, uint32_t first, uint32_t end);

/* at<k> = from<k> + number * the stride of the innermost dimension. */
void tn__device_step_offsets(tn__device_printer *p, uint32_t used,
                             const char *number);

/* CHUNKED: [first, end), this work-item's share of `count` things. */
void tn__device_share(tn__device_printer *p);

/* rows.c: what stands before the kernel, and the loops over rows and stages. */
void tn__device_rows_head(tn__device_printer *p);
void tn__device_rows(tn__device_printer *p);
/* stage.c: does the elem part of stage s make a reduction that is needed? */
bool tn__device_reduces(const tn__device_printer *p, uint32_t s);
/* reduce.c: the statement of REDUCE i. */
void tn__device_reduce(tn__device_printer *p, uint32_t i);

#endif
