/* space.h: the iteration spaces of launches, and a common space of several. */
#ifndef TN_LIB_COMPILE_SPACE_H
#define TN_LIB_COMPILE_SPACE_H

#include <compile/capture.h>

/* An operand of a launch over the space of its group. */
typedef struct tn__part_operand {
    int64_t value; /* number of the captured value; -1 for an operand of which
                    * only offsets are used */
    int64_t from;  /* where element 0 is, in bytes from the value's origin; for
                    * an operand of offsets, the offset */
    uint8_t dtype, level;
    bool writes;
    bool indexed;  /* which bytes an element reads depends on values, too */
    int64_t index_low, index_high; /* how far an index can move the read, in
                                    * bytes */
    int64_t stride[TN_MAX_NDIM]; /* in elements, for each dimension of the
                                  * space */
} tn__part_operand;

/* A launch, as a part of a group of launches that become one. */
typedef struct tn__part {
    const tn__command *command;
    const tn__kernel *kernel;
    tn__part_operand *operand; /* owned; the inputs, then the outputs */
    int operand_count;
    bool per_row; /* the kernel has no rows, and runs once per row of the group's
                   * space */
} tn__part;

/* An iteration space without dimensions of size 1: outer dimensions, then row
 * dimensions. */
typedef struct tn__cut {
    int ndim, outer_ndim;
    bool has_row;
    int64_t extent[TN_MAX_NDIM];
} tn__cut;

/* Describes the launch of a step as a part with its space. Returns false if the
 * launch cannot become part of a group, and sets *why to the reason, which has
 * static lifetime; if memory runs out, the error is recorded. */
bool tn__part_of_step(const tn__capture *capture, const tn__step *step,
                      tn__part *part, tn__cut *cut, const char **why);

/* How the dimensions of a space are cut into those of a finer one: dimension d of
 * the finer space is a piece of dimension of[d], with `times` elements between
 * neighbours. of[d] is -1 if the space has one element for all of dimension d. */
typedef struct tn__refinement {
    int of[TN_MAX_NDIM];
    int64_t times[TN_MAX_NDIM];
} tn__refinement;

/* Finds the coarsest space that refines both x and y, with the rows of the space
 * that has rows. Returns false if there is none. */
bool tn__cut_refine(const tn__cut *x, const tn__cut *y, tn__cut *fine,
                    tn__refinement *of_x, tn__refinement *of_y);
/* Finds the coarsest space that refines x, which has rows, and whose outer
 * dimensions refine y, which has none: an element of y is a row of x. Returns
 * false if there is none. */
bool tn__cut_refine_rows(const tn__cut *x, const tn__cut *y, tn__cut *fine,
                         tn__refinement *of_x, tn__refinement *of_y);
/* Describes the dimensions of y, which has no rows, as pieces in the order of x:
 * element e of x and the element of y that uses the same bytes of a common operand
 * become one. xs and ys are that operand's strides in x and y. Returns false if
 * the elements of y are not those of x in another order, or if a dimension of y
 * would be cut otherwise than x is. */
bool tn__cut_align(const tn__cut *x, const int64_t *xs, const tn__cut *y,
                   const int64_t *ys, tn__refinement *of_y);
/* Changes the strides of a part's operands to those of the finer space. A part
 * that has one element for each row of it becomes one that runs per row. */
void tn__part_refine(tn__part *part, const tn__cut *fine,
                     const tn__refinement *by);

/* Returns whether two operands are the same bytes at each element of the space.
 * Operands that are read by index are not. */
bool tn__same_map(const tn__cut *cut, const tn__part_operand *x,
                  const tn__part_operand *y);
/* Returns whether two operands use memory that overlaps, at any two elements of the
 * space. If one of them is read by index, or has elements of another size, the
 * ranges from their first to their last bytes count. */
bool tn__operands_overlap(const tn__cut *cut, const tn__part_operand *x,
                          const tn__part_operand *y);

/* Merges neighbouring dimensions of the space where the strides of all operands
 * of the parts allow it. */
void tn__cut_coarsen(tn__cut *cut, tn__part *const *part, int count);

#endif
