/* gguf_types.h: the types that tensors of GGUF files may have. */
#ifndef TN_LIB_LM_GGUF_TYPES_H
#define TN_LIB_LM_GGUF_TYPES_H

#include <tenon/types.h>

/* All types: GGUF's name and number, elements and bytes of a block, and the
 * dtype or block code by which Tenon reads it, or TN_DTYPE_NONE if Tenon does
 * not read it. The sizes of types that are not read are needed, too: a file may
 * contain such a tensor, and its offset and size are checked. Source:
 * GGML_QUANT_SIZES in gguf-py. */
#define TN__GGUF_TYPE_MAP(X)                                                  \
    X(F32, 0, 1, 4, TN_F32)                                                   \
    X(F16, 1, 1, 2, TN_F16)                                                   \
    X(Q4_0, 2, 32, 18, TN_BLOCK + 2)                                          \
    X(Q4_1, 3, 32, 20, TN_BLOCK + 3)                                          \
    X(Q5_0, 6, 32, 22, TN_BLOCK + 6)                                          \
    X(Q5_1, 7, 32, 24, TN_BLOCK + 7)                                          \
    X(Q8_0, 8, 32, 34, TN_BLOCK + 8)                                          \
    X(Q8_1, 9, 32, 36, TN_DTYPE_NONE)                                         \
    X(Q2_K, 10, 256, 84, TN_DTYPE_NONE)                                       \
    X(Q3_K, 11, 256, 110, TN_DTYPE_NONE)                                      \
    X(Q4_K, 12, 256, 144, TN_BLOCK + 12)                                      \
    X(Q5_K, 13, 256, 176, TN_BLOCK + 13)                                      \
    X(Q6_K, 14, 256, 210, TN_BLOCK + 14)                                      \
    X(Q8_K, 15, 256, 292, TN_DTYPE_NONE)                                      \
    X(IQ2_XXS, 16, 256, 66, TN_DTYPE_NONE)                                    \
    X(IQ2_XS, 17, 256, 74, TN_DTYPE_NONE)                                     \
    X(IQ3_XXS, 18, 256, 98, TN_DTYPE_NONE)                                    \
    X(IQ1_S, 19, 256, 50, TN_DTYPE_NONE)                                      \
    X(IQ4_NL, 20, 32, 18, TN_DTYPE_NONE)                                      \
    X(IQ3_S, 21, 256, 110, TN_DTYPE_NONE)                                     \
    X(IQ2_S, 22, 256, 82, TN_DTYPE_NONE)                                      \
    X(IQ4_XS, 23, 256, 136, TN_DTYPE_NONE)                                    \
    X(I8, 24, 1, 1, TN_I8)                                                    \
    X(I16, 25, 1, 2, TN_I16)                                                  \
    X(I32, 26, 1, 4, TN_I32)                                                  \
    X(I64, 27, 1, 8, TN_I64)                                                  \
    X(F64, 28, 1, 8, TN_F64)                                                  \
    X(IQ1_M, 29, 256, 56, TN_DTYPE_NONE)                                      \
    X(BF16, 30, 1, 2, TN_BF16)                                                \
    X(TQ1_0, 34, 256, 54, TN_DTYPE_NONE)                                      \
    X(TQ2_0, 35, 256, 66, TN_DTYPE_NONE)                                      \
    X(MXFP4, 39, 32, 17, TN_DTYPE_NONE)

typedef struct tn__gguf_type {
    const char *name;
    uint32_t number, elements, bytes;
    tn_dtype dtype;
} tn__gguf_type;

#endif
