/* random_layout.h: the iteration space and the operands of a random case. */
#ifndef TN_CHECK_RANDOM_LAYOUT_H
#define TN_CHECK_RANDOM_LAYOUT_H

#include "random_program.h"
#include "random_source.h"

/* Sets extents. rows: there may be row dimensions. */
void random_layout_extents(random_source *r, random_case *c, bool rows);
/* Instead sets several contiguous rows of 64 elements or more. */
void random_layout_long_rows(random_source *r, random_case *c);
/* Instead sets up to three rows of some thousand elements. */
void random_layout_rows_of_chunks(random_source *r, random_case *c);
/* Sets operands, strides and memory. False: memory ran out. */
bool random_layout_operands(random_source *r, random_case *c, bool rows);

/* Allocates and fills memory for operand k: all that its strides reach, and a
 * margin on both sides that no launch may write. False: memory ran out. */
bool random_layout_memory(random_source *r, random_case *c, uint32_t k);
/* Numbers of dtype, tame or wild. */
void random_layout_fill(random_source *r, tn_dtype dtype, unsigned char *data,
                        size_t bytes);
/* One number, rounded and narrowed to dtype. */
void random_layout_store(tn_dtype dtype, unsigned char *at, tn_number x);

#endif
