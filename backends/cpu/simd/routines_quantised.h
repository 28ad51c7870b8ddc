/* routines_quantised.h: the types of the loops that multiply by block-quantised
 * weights (ext/cpu_quantised.c). <tenon/plugin_extensions.h> defines their
 * arithmetic. "Token" means a row of the input, "row" a row of the weight. */
#ifndef TN_CPU_ROUTINES_QUANTISED_H
#define TN_CPU_ROUTINES_QUANTISED_H

#include <stdint.h>

/* A block format. A part is the elements of a block that share a scale. */
typedef struct tn_cpu_blocks {
    uint32_t code; /* the format's code in TN_BLOCK_MAP */
    int32_t elements, bytes, part;
} tn_cpu_blocks;

/* One product. The input has been rounded to integers: for each token, r has k
 * integers, s has k / elements scales, and sums has k / part sums of
 * integers. */
typedef struct tn_cpu_quantised {
    const tn_cpu_blocks *format;
    int64_t m, n, k;
    const uint8_t *w;
    int64_t row_bytes; /* distance from one row of w to the next */
    const int8_t *r;
    const float *s;
    const int16_t *sums;
    const unsigned char *arranged; /* the tokens in the order that `arrange`
                                      makes; NULL if arranged_bytes is 0 */
    int64_t arranged_bytes;        /* of a token */
    float *out;
    int64_t out_step; /* distance from one token's results to the next */
} tn_cpu_quantised;

typedef struct tn_cpu_quantised_routines {
    /* Rounds a token. */
    void (*round)(const tn_cpu_blocks *format, const float *x, int64_t k,
                  int8_t *r, float *s, int16_t *sums);
    /* Returns the bytes of a token in the order in which `multiply` reads it,
     * or 0 if it reads r, s and sums. */
    int64_t (*arranged_bytes)(const tn_cpu_blocks *format, int64_t m,
                              int64_t k);
    void (*arrange)(const tn_cpu_quantised *p, int64_t token, void *to);
    /* Computes end - first rows of the result. Which rows these are depends on
     * the implementation: rows first to end - 1, or others. If calls with
     * adjacent ranges cover 0 to n, and each range begins at a multiple of 16,
     * each row is computed exactly once. */
    int64_t (*scratch_bytes)(const tn_cpu_blocks *format, int64_t m,
                             int64_t k);
    /* Computes the results of end - first rows. These are rows first to end - 1
     * or others. Calls with all ranges from 0 to n, each of which begins at a
     * multiple of 16, compute each row once. */
    void (*multiply)(const tn_cpu_quantised *p, int64_t first, int64_t end,
                     void *scratch);
} tn_cpu_quantised_routines;

#endif
