/* blocks.h: the block formats of GGUF files. A block stores 32 or 256 numbers
 * as small integers with common scales. */
#ifndef TN_LIB_KERNEL_BLOCKS_H
#define TN_LIB_KERNEL_BLOCKS_H

#include <stdint.h>

enum {
    TN__BLOCK_MOST = 256, /* largest number of elements in a block */
    TN__BLOCK_PARTS = 16, /* largest number of parts of a block */
    TN__BLOCK_LEAST = 32  /* smallest number of elements in a block */
};

/* A block, unpacked. Element i belongs to part p = i / (elements / parts), and
 * its value is d * scale[p] * q[i] + e * min[p]. */
typedef struct tn__unpacked {
    float d, e;
    int8_t q[TN__BLOCK_MOST];
    int32_t scale[TN__BLOCK_PARTS], min[TN__BLOCK_PARTS];
} tn__unpacked;

typedef struct tn__block_format {
    const char *name;
    uint32_t code; /* TN_BLOCK plus GGUF's code of the type */
    int elements, bytes, parts;
    int has_min; /* 1 if the format has minima, so that e may differ from 0 */
    void (*unpack)(const uint8_t *block, tn__unpacked *out);
} tn__block_format;

/* Returns the format of this name, or NULL. */
const tn__block_format *tn__block_format_find(const char *name);

/* Dequantises `count` blocks to float32. */
void tn__blocks_dequantize(const tn__block_format *format,
                           const uint8_t *blocks, int64_t count, float *out);

/* A row of activations, rounded to 8 bits in blocks as long as the format's. */
typedef struct tn__rounded_row {
    int8_t *r; /* the rounded values, one for each element */
    float *s;  /* the scales, one for each block */
} tn__rounded_row;
void tn__row_round(const tn__block_format *format, const float *x, int64_t k,
                   tn__rounded_row *out);
/* Returns the dot product of a row of weights and a rounded row. */
float tn__row_product(const tn__block_format *format, const uint8_t *blocks,
                      const tn__rounded_row *row, int64_t k);

#endif
