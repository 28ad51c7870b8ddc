/* cublaslt.h: declares the functions, types and constants of cuBLASLt, so that
 * the plugin builds without the CUDA toolkit. cuda_driver.c opens the library
 * at the first matrix product. The values are those of cublasLt.h, cublas_api.h
 * and library_types.h of CUDA 11 and later. A comment at each group of
 * constants names NVIDIA's type, an enumeration, which is declared as int here.
 * tests/cuda/declarations.c compares all of them with the toolkit's headers. */
#ifndef TN_CUDA_CUBLASLT_H
#define TN_CUDA_CUBLASLT_H

#include "cuda_driver.h"

typedef int tn_lt_status; /* cublasStatus_t; 0 is success */
typedef struct cublasLtContext *tn_lt_handle;
typedef struct tn_lt_opaque *tn_lt_operation; /* cublasLtMatmulDesc_t */
typedef struct tn_lt_opaque *tn_lt_layout;    /* cublasLtMatrixLayout_t */
typedef struct tn_lt_opaque *tn_lt_preference;

/* The struct cublasLtMatmulAlgo_t, whose contents are private to cuBLASLt. */
typedef struct tn_lt_algorithm {
    uint64_t data[8];
} tn_lt_algorithm;

typedef struct tn_lt_found {
    tn_lt_algorithm algorithm;
    size_t workspace_bytes;
    tn_lt_status state;
    float waves;
    int reserved[4];
} tn_lt_found;

/* The cublasStatus_t values that this plugin distinguishes. */
enum { TN_LT_NOT_INITIALIZED = 1, TN_LT_ALLOC_FAILED = 3,
       TN_LT_INVALID_VALUE = 7, TN_LT_NOT_SUPPORTED = 15 };

/* Values of cudaDataType. */
enum { TN_LT_R_32F = 0, TN_LT_R_64F = 1, TN_LT_R_16F = 2, TN_LT_R_16BF = 14,
       TN_LT_R_E4M3 = 28, TN_LT_R_E5M2 = 29 };

/* Values of cublasComputeType_t. 32F multiplies in full float32 precision. TF32
 * (19 bits) is used only if the option `tf32` requests it. */
enum { TN_LT_COMPUTE_32F = 68, TN_LT_COMPUTE_64F = 70,
       TN_LT_COMPUTE_TF32 = 77 };

/* Attributes of an operation (cublasLtMatmulDescAttributes_t). TRANSPOSE_A and
 * TRANSPOSE_B are int32_t, EPILOGUE is uint32_t and AUX_LD is int64_t. The
 * others are device pointers. */
enum { TN_LT_TRANSPOSE_A = 3, TN_LT_TRANSPOSE_B = 4, TN_LT_EPILOGUE = 7,
       TN_LT_BIAS_POINTER = 8, TN_LT_AUX_POINTER = 11, TN_LT_AUX_LD = 12,
       TN_LT_SCALE_A = 17, TN_LT_SCALE_B = 18 };
/* Attributes of a matrix layout (cublasLtMatrixLayoutAttribute_t). BATCH_COUNT
 * is int32_t and BATCH_STRIDE is int64_t. */
enum { TN_LT_BATCH_COUNT = 5, TN_LT_BATCH_STRIDE = 6 };
/* Attributes of a preference (cublasLtMatmulPreferenceAttributes_t).
 * MAX_WORKSPACE is uint64_t, the others are uint32_t. */
enum { TN_LT_MAX_WORKSPACE = 1, TN_LT_REDUCTIONS = 3, TN_LT_ALIGN_A = 5,
       TN_LT_ALIGN_B = 6, TN_LT_ALIGN_C = 7, TN_LT_ALIGN_D = 8 };
/* Values of cublasOperation_t. */
enum { TN_LT_PLAIN = 0, TN_LT_TRANSPOSED = 1 };

/* CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: partial sums over k are added in
 * float32, never in the dtype of the output. */
enum { TN_LT_REDUCE_WIDE = 2 };

/* Values of cublasLtEpilogue_t, the operations on the result before it is
 * stored. BIAS, one of RELU and GELU, and KEEP may be combined. KEEP also
 * stores the values that the gradient of the activation needs. The bias has one
 * element for each row of cuBLASLt's column-major matrix, which is a column of
 * Tenon's row-major matrix. GELU is the tanh approximation. */
enum { TN_LT_EPILOGUE_NONE = 1, TN_LT_RELU = 2, TN_LT_BIAS = 4,
       TN_LT_GELU = 32, TN_LT_KEEP = 128, TN_LT_RELU_BACK = 8 | 128,
       TN_LT_GELU_BACK = 64 | 128, TN_LT_SUMS_A = 256, TN_LT_SUMS_B = 512 };

/* The functions of cuBLASLt, each as X(name of the field, symbol,
 * parameters). */
#define TN_LT_MAP(X)                                                          \
    X(create, cublasLtCreate, (tn_lt_handle *handle))                         \
    X(destroy, cublasLtDestroy, (tn_lt_handle handle))                        \
    X(operation_create, cublasLtMatmulDescCreate,                             \
      (tn_lt_operation *operation, int compute, int scale))                   \
    X(operation_set, cublasLtMatmulDescSetAttribute,                          \
      (tn_lt_operation operation, int attribute, const void *value,           \
       size_t bytes))                                                         \
    X(operation_destroy, cublasLtMatmulDescDestroy,                           \
      (tn_lt_operation operation))                                            \
    X(layout_create, cublasLtMatrixLayoutCreate,                              \
      (tn_lt_layout *layout, int type, uint64_t rows, uint64_t columns,       \
       int64_t ld))                                                           \
    X(layout_set, cublasLtMatrixLayoutSetAttribute,                           \
      (tn_lt_layout layout, int attribute, const void *value, size_t bytes))  \
    X(layout_destroy, cublasLtMatrixLayoutDestroy, (tn_lt_layout layout))     \
    X(preference_create, cublasLtMatmulPreferenceCreate,                      \
      (tn_lt_preference *preference))                                         \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                   \
      (tn_lt_preference preference, int attribute, const void *value,         \
       size_t bytes))                                                         \
    X(preference_destroy, cublasLtMatmulPreferenceDestroy,                    \
      (tn_lt_preference preference))                                          \
    X(choose, cublasLtMatmulAlgoGetHeuristic,                                 \
      (tn_lt_handle handle, tn_lt_operation operation, tn_lt_layout a,        \
       tn_lt_layout b, tn_lt_layout c, tn_lt_layout d,                        \
       tn_lt_preference preference, int wanted, tn_lt_found *found,           \
       int *count))                                                           \
    X(matmul, cublasLtMatmul,                                                 \
      (tn_lt_handle handle, tn_lt_operation operation, const void *alpha,     \
       const void *a, tn_lt_layout a_layout, const void *b,                   \
       tn_lt_layout b_layout, const void *beta, const void *c,                \
       tn_lt_layout c_layout, void *d, tn_lt_layout d_layout,                 \
       const tn_lt_algorithm *algorithm, void *workspace,                     \
       size_t workspace_bytes, tn_cu_stream stream))

typedef struct tn_lt {
#define TN_LT_FIELD(field, symbol, parameters) tn_lt_status(*field) parameters;
    TN_LT_MAP(TN_LT_FIELD)
} tn_lt;

extern tn_lt tn__lt;

#endif
