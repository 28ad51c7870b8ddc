/* printer.h: the state of printing a program as source code, and the functions
 * that the printing files share. A program runs in stages; a stage has an elem
 * part, which runs for each element, and a row part, which runs once per
 * row. */
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
    uint32_t stage; /* stage that a step with split rows runs
                     * (tn__split_stage) */
    int depth; /* number of open blocks, for the indentation */

    const tn_kernel_ins *ins; /* instructions of the program or of a function */
    const bool *live;         /* live[i]: instruction i is live in the list
                               * being printed */
    const bool *stage_live;   /* stage_live[s * ins_count + i]: instruction i is
                               * live in the elem part of stage s */
    const char *position;     /* C expression of the element's row-major index,
                               * for fault reports */
    uint32_t order_index;     /* index of the instruction in the list being
                               * printed */
    uint32_t used_dims;       /* bits of the dimensions whose coordinates the
                               * last offsets used */
    bool in_row_part;         /* true in a row part, which all work-items of a
                               * team run */
    uint32_t vectors;         /* bit k is set if operand k's elements are in the
                               * vector x<k> */
    uint32_t local;           /* bit k is set if operand k's element is
                               * local<k>[here<k>] */
    uint32_t cached;          /* bit k is set if operand k's row is in local
                               * memory */
    /* An instruction whose value is kept in local memory; TN_NONE if there is
     * none. Stage saved_stage writes the value over the row of operand
     * saved_operand, which nothing reads any more. Later stages load the value
     * from there. */
    uint32_t saved, saved_stage, saved_operand;
    uint32_t local_stage; /* stage whose elem part is being printed */
} tn__printer;

TN__PRINTF(2, 3)
void tn__print_line(tn__printer *p, const char *format, ...);

/* print_program.c: prints a program as source code. */
tn_status tn__print_program(const tn_target *target, const tn_program *program,
                            const tn_plan *plan, tn_source *source);

/* value.c: writes the right side of the definition of instruction i to out. */
void tn__print_value(tn__printer *p, char *out, size_t room, uint32_t i);

/* liveness.c finds the live instructions of a program or a function. The caller
 * allocates the marks. A program has marks[0][i] for instruction i in the whole
 * program, marks[1 + s][i] for the elem part of stage s, then one more row as
 * scratch space. A function has marks[0][i] and one row of scratch space. */
void tn__liveness_function(const tn_kernel_fn *fn, bool *marks);
/* Marks the live instructions of the program and of each stage's elem part,
 * which may list more instructions than its stores and reductions read. Returns
 * false if memory runs out. */
bool tn__liveness_program(tn__printer *p, bool *marks);
/* Marks the live instructions of the elem part of stage s if the value of
 * instruction `available` need not be computed. */
void tn__liveness_stage(tn__printer *p, uint32_t s, uint32_t available,
                        bool *marks);

/* row_cache.c: finds a call (the exponential of a softmax) whose value a
 * reduction uses, a later stage uses again, and local memory can hold in place
 * of the call's argument. Sets saved, saved_stage and saved_operand. */
void tn__cache_find_saved(tn__printer *p, bool *marks);

/* Prints the instructions order[first .. end) as statements. If order is NULL,
 * the list is all instructions of a function. The offset of operand k is the
 * variable at<k>. */
void tn__print_statements(tn__printer *p, const uint32_t *order, uint32_t first,
                          uint32_t end);

/* elements.c: prints the loop over the elements of a pointwise program. */
void tn__print_elements(tn__printer *p);
/* vectors.c: returns the operands among `used` of which a work-item processes
 * class.vector elements at once; declares their types tk_v_<dtype>. */
uint32_t tn__vectors_of(const tn__printer *p, uint32_t used);
void tn__print_vector_types(tn__printer *p, uint32_t operands);
/* Opens the loop over the elements l of a vector. Before the loop, the operands
 * p->vectors are loaded from offset from<k>; those of p->cached are loaded from
 * local memory at here<k>. In the loop, the other operands have the offset
 * at<k>. tn__print_vectors_close stores the vectors that were written. */
void tn__print_vectors_open(tn__printer *p, uint32_t used);
void tn__print_vectors_close(tn__printer *p);
/* statements.c: prints the statements of one element. */
void tn__print_elem_statements(tn__printer *p, const char *position);

/* tiles.c: prints the loop over square tiles of elements. `used` has the
 * operands that need an offset. */
void tn__print_tiles(tn__printer *p, uint32_t used);

/* tn__print_open prints a line that ends in an opening brace; tn__print_close
 * prints the closing brace. */
void tn__print_open(tn__printer *p, const char *head);
void tn__print_close(tn__printer *p);

/* offsets.c: returns the operands, one bit each, whose offset the live
 * instructions among order[first .. end) need. */
uint32_t tn__operands_of(const tn__printer *p, const bool *live, uint32_t first,
                         uint32_t end);

/* Returns the C type of operand k's offset. OFFSET operands have 64 bits in
 * every class. */
const char *tn__offset_type(const tn__printer *p, uint32_t k);

/* Declares the offsets name<k> of the operands `used` at the point with index
 * `number` of the dimensions first .. first + ndim. The offsets start at
 * start<k>, or at the operand's offset if `start` is NULL. Before them, this
 * declares the coordinates c<d> that they use, and those in `wanted`.
 * p->used_dims is set to all these dimensions. */
void tn__print_point_offsets(tn__printer *p, const char *number, uint32_t used,
                             const char *name, const char *start,
                             uint32_t first, uint32_t ndim, uint32_t wanted);

/* Declares the offsets name<k> where the coordinates c<d> of the dimensions
 * first .. end are already declared. */
void tn__print_offsets(tn__printer *p, uint32_t used, const char *name,
                       const char *start, uint32_t first, uint32_t end);

/* Declares at<k> as from<k> + number * (stride of the innermost dimension). */
void tn__print_step_offsets(tn__printer *p, uint32_t used, const char *number);

/* For TN_TARGET_CHUNKED: declares [first, end), this work-item's share of
 * `count` elements or rows. */
void tn__print_share(tn__printer *p);

/* rows.c: prints the definitions before the kernel, then the loops over rows
 * and stages. */
void tn__print_rows_head(tn__printer *p);
void tn__print_rows(tn__printer *p);
/* liveness.c: whether the elem part of stage s computes a live reduction. */
bool tn__stage_reduces(const tn__printer *p, uint32_t s);
/* reduce.c: prints the statement of REDUCE i. */
void tn__print_reduce(tn__printer *p, uint32_t i);

#endif
