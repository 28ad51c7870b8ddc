/* random_layout.h: the part of a random case that no instruction tells. */
#ifndef TN_CHECK_RANDOM_LAYOUT_H
#define TN_CHECK_RANDOM_LAYOUT_H

#include "random_program.h"
#include "random_source.h"

/* Extents; with rows: there are row dimensions, or may be. */
void random_layout_extents(random_source *r, random_case *c, bool rows);
/* Instead: several rows of 64 elements and more, one behind the other. */
void random_layout_long_rows(random_source *r, random_case *c);
/* Instead: up to three rows of some thousand elements. */
void random_layout_rows_of_chunks(random_source *r, random_case *c);
/* Operands, strides and memory. False: memory ran out. */
bool random_layout_operands(random_source *r, random_case *c, bool rows);

/* Memory for operand k, filled: all that its strides can reach, and a margin
 * on both sides that no launch may touch. False: memory ran out. */
bool random_layout_memory(random_source *r, random_case *c, uint32_t k);
/* Numbers of dtype, tame or wild. */
void random_layout_fill(random_source *r, tn_dtype dtype, unsigned char *data,
                        size_t bytes);
/* One number, rounded and narrowed to dtype. */
void random_layout_store(tn_dtype dtype, unsigned char *at, tn_number x);

#endif
