/* random_layout.h: chooses the iteration space of a random program and the
 * strides and memory of its operands. */
#ifndef TN_CHECK_RANDOM_LAYOUT_H
#define TN_CHECK_RANDOM_LAYOUT_H

#include "random_program.h"
#include "random_source.h"

/* Chooses the extents of the iteration space. If `rows` is true, some of its
 * dimensions may be reduced (row dimensions). */
void random_layout_extents(random_source *r, random_case *c, bool rows);
/* Replaces the extents, so that the iteration space has several contiguous rows
 * of at least 64 elements. */
void random_layout_long_rows(random_source *r, random_case *c);
/* Replaces the extents, so that the iteration space has at most three rows of a
 * few thousand elements. */
void random_layout_rows_of_chunks(random_source *r, random_case *c);
/* Chooses operands and their strides, and allocates and fills their memory.
 * Returns false if memory runs out. */
bool random_layout_operands(random_source *r, random_case *c, bool rows);

/* Allocates and fills the memory of operand k, with a margin on both sides that
 * no launch may write. Returns false if memory runs out. */
bool random_layout_memory(random_source *r, random_case *c, uint32_t k);
/* Fills memory with random numbers of dtype. */
void random_layout_fill(random_source *r, tn_dtype dtype, unsigned char *data,
                        size_t bytes);
/* Stores one number, converted to dtype. */
void random_layout_store(tn_dtype dtype, unsigned char *at, tn_number x);

#endif
