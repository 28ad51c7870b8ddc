/* printer.h: what the files that print programs share. */
#ifndef TN_LIB_SOURCE_PRINTER_H
#define TN_LIB_SOURCE_PRINTER_H

#include <base/error.h>
#include <source/plan/class.h>
#include <source/text_head.h>

typedef struct tn__printer {
    const tn_program *program;
    tn__launch_class class;
    tn__launch_words words;
    tn__text body;
    bool chunked, faults;
    uint32_t stage; /* the stage of a step whose rows are split
                     * (tn__split_stage) */
    int depth; /* open blocks: the indentation */

    const tn_kernel_ins *ins; /* of the program or of a function */
    const bool *live;         /* by instruction, in the list being printed */
    const bool *stage_live;   /* the same for the elem part of each stage */
    const char *position;     /* C expression: the element's position, for fault
                               * reports */
    uint32_t order_index;     /* index in the list being printed */
    uint32_t used_dims;       /* dimensions whose coordinates the last offsets
                               * used */
    bool in_row_part;         /* in the row part, which all of a team runs */
    uint32_t vectors;         /* operands whose elements are in the vectors
                               * x<k> */
    uint32_t local;           /* operands whose element is local<k>[here<k>] */
    uint32_t cached;          /* operands whose rows are in local memory */
    /* An instruction whose value stage saved_stage writes to the local memory
     * of an operand that nothing reads any more. Later stages load it from
     * there. TN_NONE: none. */
    uint32_t saved, saved_stage, saved_operand;
    uint32_t local_stage; /* the stage whose elem part is being printed */
} tn__printer;

TN__PRINTF(2, 3)
void tn__print_line(tn__printer *p, const char *format, ...);

/* print_program.c: prints a program. */
tn_status tn__print_program(const tn_target *target, const tn_program *program,
                            const tn_plan *plan, tn_source *source);

/* value.c: writes the right side of the definition of instruction i to out. */
void tn__print_value(tn__printer *p, char *out, size_t room, uint32_t i);

/* liveness.c. The marks of a program: one for each instruction; then as many
 * for the elem part of each stage; then as many of scratch space. The marks of
 * a function: one for each instruction, then as many of scratch space. */
void tn__liveness_function(const tn_kernel_fn *fn, bool *marks);
/* Marks the live instructions of the program and of each stage's elem part,
 * which may list more than its own stores and reductions read. False if memory
 * runs out. */
bool tn__liveness_program(tn__printer *p, bool *marks);
/* Marks the live instructions of the elem part of stage s if the value of
 * instruction `available` need not be computed. */
void tn__liveness_stage(tn__printer *p, uint32_t s, uint32_t available,
                        bool *marks);

/* row_cache.c: finds a call whose value a reduction uses and a later stage uses
 * again (the exponential of a softmax), and that can replace its argument in
 * local memory. Sets saved, saved_stage and saved_operand. */
void tn__cache_find_saved(tn__printer *p, bool *marks);

/* Prints order[first .. end) as statements. order NULL: all instructions of a
 * function. The offset of operand k is the variable at<k>. */
void tn__print_statements(tn__printer *p, const uint32_t *order, uint32_t first,
                          uint32_t end);

/* elements.c: the loop over the elements of a program without rows. */
void tn__print_elements(tn__printer *p);
/* vectors.c: operands among `used` of which a work-item processes class.vector
 * elements at once; the declaration of their types tk_v_<dtype>. */
uint32_t tn__vectors_of(const tn__printer *p, uint32_t used);
void tn__print_vector_types(tn__printer *p, uint32_t operands);
/* Opens the loop over the elements l of a vector. Before it, the operands
 * p->vectors are loaded at from<k> (those of p->cached from local memory, at
 * here<k>). In it, the other operands have the offset at<k>. Closing it stores
 * the vectors that were written. */
void tn__print_vectors_open(tn__printer *p, uint32_t used);
void tn__print_vectors_close(tn__printer *p);
/* statements.c: the statements of one element. */
void tn__print_elem_statements(tn__printer *p, const char *position);

/* tiles.c: the loop over square tiles of elements. `used`: the operands that
 * need an offset. */
void tn__print_tiles(tn__printer *p, uint32_t used);

/* Prints a line that ends in an opening brace; prints the closing one. */
void tn__print_open(tn__printer *p, const char *head);
void tn__print_close(tn__printer *p);

/* offsets.c: operands, one bit each, whose offset the live instructions among
 * order[first .. end) need. */
uint32_t tn__operands_of(const tn__printer *p, const bool *live, uint32_t first,
                         uint32_t end);

/* The C type of operand k's offset. OFFSET operands have 64 bits in every
 * class. */
const char *tn__offset_type(const tn__printer *p, uint32_t k);

/* Declares the offsets name<k> of the operands `used` at point `number` of the
 * dimensions first .. first + ndim. They start at start<k> (NULL: the operand's
 * offset). Before them it declares the coordinates c<d> that they use, and
 * those in `wanted`; p->used_dims is set to all of these. */
void tn__print_point_offsets(tn__printer *p, const char *number, uint32_t used,
                             const char *name, const char *start,
                             uint32_t first, uint32_t ndim, uint32_t wanted);

/* The same where the coordinates c<d> of the dimensions first .. end exist. */
void tn__print_offsets(tn__printer *p, uint32_t used, const char *name,
                       const char *start, uint32_t first, uint32_t end);

/* Declares at<k> = from<k> + number * the stride of the innermost dimension. */
void tn__print_step_offsets(tn__printer *p, uint32_t used, const char *number);

/* TN_TARGET_CHUNKED: declares [first, end), this work-item's share of
 * `count`. */
void tn__print_share(tn__printer *p);

/* rows.c: the definitions before the kernel; the loops over rows and stages. */
void tn__print_rows_head(tn__printer *p);
void tn__print_rows(tn__printer *p);
/* liveness.c: whether the elem part of stage s computes a live reduction. */
bool tn__stage_reduces(const tn__printer *p, uint32_t s);
/* reduce.c: prints the statement of REDUCE i. */
void tn__print_reduce(tn__printer *p, uint32_t i);

#endif
