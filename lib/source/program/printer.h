/* printer.h: the state of printing a program as source code, and the functions
 * that the printing files share. A program runs in stages. Each stage has two
 * lists of instructions. Those of its elem part run for each element of a row,
 * those of its row part once for each row. */
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
    uint32_t stage; /* if several work-groups share a row, the program has
                     * several launches: the stage that this launch runs
                     * (tn__split_stage) */
    int depth; /* number of open blocks, which gives the indentation */

    const tn_kernel_ins *ins; /* instructions of the program, or of the function
                               * that is being printed */
    const bool *live;         /* live[i] is true if instruction i of the list
                               * that is being printed is needed (live) */
    const bool *stage_live;   /* stage_live[s * ins_count + i] is true if
                               * instruction i is live (needed) among the
                               * instructions that stage s runs per element */
    const char *position;     /* C expression for the row-major index of the
                               * element, for fault reports */
    uint32_t order_index;     /* index of the current instruction in the list
                               * that is being printed */
    uint32_t used_dims;       /* bit d is set if the offsets printed last use
                               * the coordinate of dimension d */
    bool in_row_part;         /* true while the instructions per row are
                               * printed, which all work-items of a team run */
    uint32_t vectors;         /* bit k is set if operand k is loaded as a vector
                               * x<k>, so that its element is x<k>.e[l] */
    uint32_t local;           /* bit k is set if operand k is read from local
                               * memory, where its element is
                               * local<k>[here<k>] */
    uint32_t cached;          /* bit k is set if the row of operand k is in
                               * local memory */
    /* An instruction whose value for each element is saved in local memory;
     * TN_NONE if there is none. Stage saved_stage writes it over the row of
     * operand saved_operand, which nothing reads after that. Later stages load
     * it from there. */
    uint32_t saved, saved_stage, saved_operand;
    uint32_t local_stage; /* stage whose instructions per element are being
                           * printed */
} tn__printer;

TN__PRINTF(2, 3)
void tn__print_line(tn__printer *p, const char *format, ...);

/* Prints a program as source code (print_program.c). */
tn_status tn__print_program(const tn_target *target, const tn_program *program,
                            const tn_plan *plan, tn_source *source);

/* Writes the right side of the definition of instruction i to `out`
 * (value.c). */
void tn__print_value(tn__printer *p, char *out, size_t room, uint32_t i);

/* Find the live instructions of a function or a program (liveness.c). The
 * caller allocates the array `marks`. For a function it is marks[2][ins_count]:
 * marks[0][i] is set if instruction i is live, and marks[1] is scratch space.
 * For a program it is marks[stage_count + 2][ins_count]: marks[0] is for the
 * whole program, marks[1 + s] for the instructions per element of stage s, and
 * the last is scratch space. */
void tn__liveness_function(const tn_kernel_fn *fn, bool *marks);
/* Marks the instructions of the program that are needed (live), and those that
 * each stage needs per element. A stage may list instructions on which none of
 * its stores and reductions depends. Returns false if memory runs out. */
bool tn__liveness_program(tn__printer *p, bool *marks);
/* Finds again which instructions stage s needs per element (live ones), given
 * that the value of instruction `available` need not be computed. */
void tn__liveness_stage(tn__printer *p, uint32_t s, uint32_t available,
                        bool *marks);

/* Looks for a function call (such as the exponential in softmax) whose value is
 * used by a reduction and again by a later stage, and which can be saved in
 * local memory in place of the call's argument. Sets saved, saved_stage and
 * saved_operand (row_cache.c). */
void tn__cache_find_saved(tn__printer *p, bool *marks);

/* Prints the instructions from order[first] up to but not including order[end]
 * as statements. If `order` is NULL, the list is the instructions of a
 * function. In the printed code, the offset of operand k is the variable
 * at<k>. */
void tn__print_statements(tn__printer *p, const uint32_t *order, uint32_t first,
                          uint32_t end);

/* Prints the loop over the elements of a pointwise program (elements.c). */
void tn__print_elements(tn__printer *p);
/* tn__vectors_of returns those operands of `used` whose elements a work-item
 * loads or stores as vectors of class.vector elements. tn__print_vector_types
 * declares the types of these vectors, tk_v_<dtype> (vectors.c). */
uint32_t tn__vectors_of(const tn__printer *p, uint32_t used);
void tn__print_vector_types(tn__printer *p, uint32_t operands);
/* Prints the loads of vectors and the beginning of the loop over their elements
 * l. The operands in p->vectors are loaded from offset from<k>, the operands in
 * p->cached from local memory at here<k>. In the loop, the other operands have
 * the offset at<k>. tn__print_vectors_close ends the loop and stores the
 * vectors that were written. */
void tn__print_vectors_open(tn__printer *p, uint32_t used);
void tn__print_vectors_close(tn__printer *p);
/* Prints the statements for one element (statements.c). */
void tn__print_elem_statements(tn__printer *p, const char *position);

/* Prints the loop over square tiles of elements (tiles.c). `used` has the
 * operands whose offset is needed. */
void tn__print_tiles(tn__printer *p, uint32_t used);

/* tn__print_open prints `head` with an opening brace and indents what follows.
 * tn__print_close prints the closing brace. */
void tn__print_open(tn__printer *p, const char *head);
void tn__print_close(tn__printer *p);

/* Returns the operands whose offset is needed by the live instructions from
 * order[first] up to but not including order[end]. Bit k is for operand k
 * (offsets.c). */
uint32_t tn__operands_of(const tn__printer *p, const bool *live, uint32_t first,
                         uint32_t end);

/* Returns the C type of operand k's offset. An operand whose offset is itself
 * the result (TN_OPERAND_OFFSET) always has 64 bits. */
const char *tn__offset_type(const tn__printer *p, uint32_t k);

/* Prints declarations of the offsets name<k> of the operands in `used`, at the
 * point with row-major index `number` in the dimensions from first up to first
 * + ndim. An offset starts with start<k>, or with the operand's own offset if
 * `start` is NULL. Before that, prints declarations of the coordinates c<d>
 * that are needed or are in `wanted`, and sets p->used_dims to these
 * dimensions. */
void tn__print_point_offsets(tn__printer *p, const char *number, uint32_t used,
                             const char *name, const char *start,
                             uint32_t first, uint32_t ndim, uint32_t wanted);

/* Prints declarations of the offsets name<k>, where the coordinates c<d> of the
 * dimensions from first up to but not including end are already declared. */
void tn__print_offsets(tn__printer *p, uint32_t used, const char *name,
                       const char *start, uint32_t first, uint32_t end);

/* Prints declarations of at<k> as from<k> + number * (innermost stride). */
void tn__print_step_offsets(tn__printer *p, uint32_t used, const char *number);

/* For TN_TARGET_CHUNKED: prints declarations of `first` and `end`, the range of
 * the `count` elements or rows that this work-item processes. */
void tn__print_share(tn__printer *p);

/* tn__print_rows_head prints the definitions before the kernel, tn__print_rows
 * the loops over rows and stages (rows.c). */
void tn__print_rows_head(tn__printer *p);
void tn__print_rows(tn__printer *p);
/* Returns whether stage s computes a reduction over the elements of a row whose
 * result is needed (liveness.c). */
bool tn__stage_reduces(const tn__printer *p, uint32_t s);
/* Prints the statement that adds an element to the reduction i (reduce.c). */
void tn__print_reduce(tn__printer *p, uint32_t i);

#endif
