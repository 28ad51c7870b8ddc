/* Compiled where a CUDA toolkit is: the plugin's own declarations of the
 * driver, of NVRTC, cuBLASLt and cuSOLVER say what the toolkit's headers say. */
#include <cublasLt.h>
#include <cuda.h>
#include <cusolverDn.h>
#include <nvrtc.h>

#include "../../backends/cuda/cublaslt.h"
#include "../../backends/cuda/cusolver.h"
#include "../../backends/cuda/driver.h"

#define SAME(ours, theirs) _Static_assert((ours) == (int)(theirs), #theirs)
SAME(TN_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(TN_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(TN_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(TN_CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME(TN_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(TN_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(TN_CU_NO_BINARY, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(TN_CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(TN_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(TN_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(TN_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(TN_CU_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(TN_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(TN_CU_HOST, CU_MEMORYTYPE_HOST);
SAME(TN_CU_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(TN_CU_MAX_THREADS_PER_BLOCK, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(TN_CU_SHARED_PER_BLOCK,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
SAME(TN_CU_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(TN_CU_COMPUTE_MODE, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME(TN_CU_PCI_BUS, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME(TN_CU_PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME(TN_CU_PCI_DOMAIN, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME(TN_CU_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(TN_CU_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(TN_CU_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(TN_CU_NO_TIMING, CU_EVENT_DISABLE_TIMING);

#define PLACE(ours, theirs)                                                   \
    _Static_assert(offsetof(tn_cu_rectangle, ours) ==                         \
                       offsetof(CUDA_MEMCPY2D, theirs),                       \
                   #theirs)
PLACE(src_x, srcXInBytes);
PLACE(src_type, srcMemoryType);
PLACE(src_host, srcHost);
PLACE(src_device, srcDevice);
PLACE(src_pitch, srcPitch);
PLACE(dst_x, dstXInBytes);
PLACE(dst_type, dstMemoryType);
PLACE(dst_host, dstHost);
PLACE(dst_device, dstDevice);
PLACE(dst_pitch, dstPitch);
PLACE(width, WidthInBytes);
PLACE(height, Height);
_Static_assert(sizeof(tn_cu_rectangle) == sizeof(CUDA_MEMCPY2D), "size");
_Static_assert(sizeof(tn_cu_pointer) == sizeof(CUdeviceptr), "pointer");
_Static_assert(sizeof(CUresult) == sizeof(int), "CUresult is an int");
_Static_assert(sizeof(CUdevice_attribute) == sizeof(int), "an int too");
_Static_assert(sizeof(nvrtcResult) == sizeof(int), "an int too");

/* Every function is there under its symbol. Enumerations are int here, so the
 * types are not the same to a compiler, and are not compared. */
#define DECLARED(field, symbol, parameters)                                   \
    _Static_assert(sizeof(&symbol) == sizeof(tn__cu.field), #symbol);
TN_CUDA_DRIVER_MAP(DECLARED)
#undef DECLARED
#define DECLARED(field, symbol, parameters)                                   \
    _Static_assert(sizeof(&symbol) == sizeof(tn__nvrtc.field), #symbol);
TN_NVRTC_MAP(DECLARED)
#undef DECLARED

/* ---- cuBLASLt ------------------------------------------------------------ */

SAME(TN_LT_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED);
SAME(TN_LT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(TN_LT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
SAME(TN_LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
SAME(TN_LT_R_32F, CUDA_R_32F);
SAME(TN_LT_R_64F, CUDA_R_64F);
SAME(TN_LT_R_16F, CUDA_R_16F);
SAME(TN_LT_R_16BF, CUDA_R_16BF);
SAME(TN_LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(TN_LT_COMPUTE_64F, CUBLAS_COMPUTE_64F);
SAME(TN_LT_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(TN_LT_TURN_A, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(TN_LT_TURN_B, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(TN_LT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
SAME(TN_LT_BATCH_STRIDE, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
SAME(TN_LT_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(TN_LT_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(TN_LT_ALIGN_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(TN_LT_ALIGN_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(TN_LT_ALIGN_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(TN_LT_ALIGN_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
SAME(TN_LT_PLAIN, CUBLAS_OP_N);
SAME(TN_LT_TURNED, CUBLAS_OP_T);
SAME(TN_LT_R_E4M3, CUDA_R_8F_E4M3);
SAME(TN_LT_R_E5M2, CUDA_R_8F_E5M2);
SAME(TN_LT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(TN_LT_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(TN_LT_AUX_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
SAME(TN_LT_AUX_LD, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
SAME(TN_LT_SCALE_A, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
SAME(TN_LT_SCALE_B, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
SAME(TN_LT_EPILOGUE_NONE, CUBLASLT_EPILOGUE_DEFAULT);
SAME(TN_LT_RELU, CUBLASLT_EPILOGUE_RELU);
SAME(TN_LT_BIAS, CUBLASLT_EPILOGUE_BIAS);
SAME(TN_LT_RELU | TN_LT_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
SAME(TN_LT_RELU | TN_LT_KEEP, CUBLASLT_EPILOGUE_RELU_AUX);
SAME(TN_LT_RELU | TN_LT_KEEP | TN_LT_BIAS, CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
SAME(TN_LT_GELU, CUBLASLT_EPILOGUE_GELU);
SAME(TN_LT_GELU | TN_LT_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS);
SAME(TN_LT_GELU | TN_LT_KEEP, CUBLASLT_EPILOGUE_GELU_AUX);
SAME(TN_LT_GELU | TN_LT_KEEP | TN_LT_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
SAME(TN_LT_RELU_BACK, CUBLASLT_EPILOGUE_DRELU);
SAME(TN_LT_GELU_BACK, CUBLASLT_EPILOGUE_DGELU);
SAME(TN_LT_SUMS_A, CUBLASLT_EPILOGUE_BGRADA);
SAME(TN_LT_SUMS_B, CUBLASLT_EPILOGUE_BGRADB);
SAME(TN_LT_REDUCE_WIDE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
_Static_assert(sizeof(cublasStatus_t) == sizeof(int), "cublasStatus_t is an int");
_Static_assert(sizeof(tn_lt_algorithm) == sizeof(cublasLtMatmulAlgo_t), "size");
_Static_assert(sizeof(tn_lt_found) == sizeof(cublasLtMatmulHeuristicResult_t),
               "size");
_Static_assert(offsetof(tn_lt_found, workspace_bytes) ==
                   offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize),
               "workspaceSize");
_Static_assert(offsetof(tn_lt_found, state) ==
                   offsetof(cublasLtMatmulHeuristicResult_t, state),
               "state");
#define DECLARED(field, symbol, parameters)                                   \
    _Static_assert(sizeof(&symbol) == sizeof(tn__lt.field), #symbol);
TN_LT_MAP(DECLARED)
#undef DECLARED

/* ---- cuSOLVER, and its cuBLAS -------------------------------------------- */

SAME(TN_SOLVER_ALLOC_FAILED, CUSOLVER_STATUS_ALLOC_FAILED);
SAME(TN_BLAS_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
SAME(TN_SOLVER_LOWER, CUBLAS_FILL_MODE_LOWER);
SAME(TN_SOLVER_UPPER, CUBLAS_FILL_MODE_UPPER);
SAME(TN_SOLVER_PLAIN, CUBLAS_OP_N);
SAME(TN_SOLVER_TURNED, CUBLAS_OP_T);
SAME(TN_SOLVER_LEFT, CUBLAS_SIDE_LEFT);
SAME(TN_SOLVER_RIGHT, CUBLAS_SIDE_RIGHT);
SAME(TN_SOLVER_ANY_DIAGONAL, CUBLAS_DIAG_NON_UNIT);
SAME(TN_SOLVER_UNIT, CUBLAS_DIAG_UNIT);
SAME(TN_SOLVER_VALUES, CUSOLVER_EIG_MODE_NOVECTOR);
SAME(TN_SOLVER_VECTORS, CUSOLVER_EIG_MODE_VECTOR);
_Static_assert(sizeof(cusolverStatus_t) == sizeof(int), "an int");

/* Calls with arguments of our types: pointers to numbers are void there, so
 * theirs take them, and a parameter more or less is an error. */
#define CALLED(symbol, ...)                                                   \
    _Static_assert(sizeof(symbol(__VA_ARGS__)) == sizeof(int), #symbol)
static void *p;
static int i;
#define BOTH(before, behind, ...)                                              \
    CALLED(before##D##behind, __VA_ARGS__);                                   \
    CALLED(before##S##behind, __VA_ARGS__)
CALLED(cusolverDnCreate, p);
CALLED(cusolverDnDestroy, p);
CALLED(cusolverDnSetStream, p, p);
CALLED(cublasCreate_v2, p);
CALLED(cublasDestroy_v2, p);
CALLED(cublasSetStream_v2, p, p);
BOTH(cusolverDn, potrf_bufferSize, p, i, i, p, i, p);
BOTH(cusolverDn, potrf, p, i, i, p, i, p, i, p);
BOTH(cusolverDn, getrf_bufferSize, p, i, i, p, i, p);
BOTH(cusolverDn, getrf, p, i, i, p, i, p, p, p);
BOTH(cusolverDn, getrs, p, i, i, i, p, i, p, p, i, p);
BOTH(cusolverDn, geqrf_bufferSize, p, i, i, p, i, p);
BOTH(cusolverDn, geqrf, p, i, i, p, i, p, p, i, p);
BOTH(cusolverDn, orgqr_bufferSize, p, i, i, i, p, i, p, p);
BOTH(cusolverDn, orgqr, p, i, i, i, p, i, p, p, i, p);
BOTH(cusolverDn, syevd_bufferSize, p, i, i, i, p, i, p, p);
BOTH(cusolverDn, syevd, p, i, i, i, p, i, p, p, i, p);
BOTH(cusolverDn, gesvd_bufferSize, p, i, i, p);
BOTH(cusolverDn, gesvd, p, i, i, i, i, p, i, p, p, i, p, i, p, i, p, p);
BOTH(cublas, trsm_v2, p, i, i, i, i, i, i, p, p, i, p, i);
