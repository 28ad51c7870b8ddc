/* cudnn.h: cuDNN's backend interface, opened at the first convolution
 * (driver.c). Types and numbers are those of cudnn_graph.h, cuDNN 9;
 * tests/cuda/declarations.c holds them against NVIDIA's own header.
 * Enumerations are ints there. */
#ifndef TN_CUDA_CUDNN_H
#define TN_CUDA_CUDNN_H

#include "driver.h"

typedef int tn_dnn_status; /* cudnnStatus_t; 0: success */
typedef struct cudnnContext *tn_dnn_handle;
typedef void *tn_dnn_descriptor; /* cudnnBackendDescriptor_t */

/* cudnnDataType_t, cudnnConvolutionMode_t, cudnnBackendHeurMode_t,
 * cudnnBackendNumericalNote_t */
enum { TN_DNN_FLOAT = 0, TN_DNN_DOUBLE = 1, TN_DNN_HALF = 2, TN_DNN_BF16 = 9 };
enum { TN_DNN_CROSS_CORRELATION = 1 };
enum { TN_DNN_HEUR_FALLBACK = 2, TN_DNN_HEUR_A = 3 };
enum { TN_DNN_TENSOR_CORE = 0, TN_DNN_DOWN_CONVERTS = 1,
       TN_DNN_REDUCED_SUMS = 2, TN_DNN_NONDETERMINISTIC = 4,
       TN_DNN_NOTES = 16 /* room for them */ };

/* cudnnBackendDescriptorType_t */
enum { TN_DNN_CONV = 1, TN_DNN_ENGINE = 2, TN_DNN_CONFIG = 3, TN_DNN_HEUR = 4,
       TN_DNN_PLAN = 5, TN_DNN_OP_FORWARD = 10, TN_DNN_OP_WEIGHT = 11,
       TN_DNN_OP_INPUT = 12, TN_DNN_GRAPH = 15, TN_DNN_PACK = 16,
       TN_DNN_TENSOR = 17 };

/* cudnnBackendAttributeType_t: of what the pointer points to. */
enum { TN_DNN_IS_HANDLE = 0, TN_DNN_IS_DATA_TYPE = 1, TN_DNN_IS_INT64 = 3,
       TN_DNN_IS_FLOAT = 4, TN_DNN_IS_DOUBLE = 5, TN_DNN_IS_POINTER = 6,
       TN_DNN_IS_CONV_MODE = 7, TN_DNN_IS_HEUR_MODE = 8, TN_DNN_IS_NOTE = 11,
       TN_DNN_IS_DESCRIPTOR = 15 };

/* cudnnBackendAttributeName_t */
enum {
    TN_DNN_CONV_COMPUTE = 100,
    TN_DNN_CONV_MODE = 101,
    TN_DNN_CONV_DILATIONS = 102,
    TN_DNN_CONV_STRIDES = 103,
    TN_DNN_CONV_BEHIND = 104,
    TN_DNN_CONV_BEFORE = 105,
    TN_DNN_CONV_NDIM = 106,
    TN_DNN_HEUR_MODE = 200,
    TN_DNN_HEUR_GRAPH = 201,
    TN_DNN_HEUR_RESULTS = 202,
    TN_DNN_CONFIG_ENGINE = 300,
    TN_DNN_PLAN_HANDLE = 400,
    TN_DNN_PLAN_CONFIG = 401,
    TN_DNN_PLAN_WORKSPACE = 402,
    TN_DNN_FORWARD_ALPHA = 700,
    TN_DNN_FORWARD_BETA = 701,
    TN_DNN_FORWARD_CONV = 702,
    TN_DNN_FORWARD_W = 703,
    TN_DNN_FORWARD_X = 704,
    TN_DNN_FORWARD_Y = 705,
    TN_DNN_INPUT_ALPHA = 706,
    TN_DNN_INPUT_BETA = 707,
    TN_DNN_INPUT_CONV = 708,
    TN_DNN_INPUT_W = 709,
    TN_DNN_INPUT_DX = 710,
    TN_DNN_INPUT_DY = 711,
    TN_DNN_WEIGHT_ALPHA = 712,
    TN_DNN_WEIGHT_BETA = 713,
    TN_DNN_WEIGHT_CONV = 714,
    TN_DNN_WEIGHT_DW = 715,
    TN_DNN_WEIGHT_X = 716,
    TN_DNN_WEIGHT_DY = 717,
    TN_DNN_GRAPH_HANDLE = 800,
    TN_DNN_GRAPH_OPS = 801,
    TN_DNN_TENSOR_ALIGN = 900,
    TN_DNN_TENSOR_DTYPE = 901,
    TN_DNN_TENSOR_SIZES = 902,
    TN_DNN_TENSOR_STRIDES = 903,
    TN_DNN_TENSOR_ID = 906,
    TN_DNN_PACK_IDS = 1000,
    TN_DNN_PACK_POINTERS = 1001,
    TN_DNN_PACK_WORKSPACE = 1003,
    TN_DNN_ENGINE_NOTES = 1303
};

/* name of the field, symbol, parameters */
#define TN_DNN_MAP(X)                                                         \
    X(handle_create, cudnnCreate, (tn_dnn_handle *handle))                    \
    X(handle_destroy, cudnnDestroy, (tn_dnn_handle handle))                   \
    X(stream_set, cudnnSetStream,                                             \
      (tn_dnn_handle handle, tn_cu_stream stream))                            \
    X(create, cudnnBackendCreateDescriptor,                                   \
      (int type, tn_dnn_descriptor *descriptor))                              \
    X(destroy, cudnnBackendDestroyDescriptor, (tn_dnn_descriptor descriptor)) \
    X(finalize, cudnnBackendFinalize, (tn_dnn_descriptor descriptor))         \
    X(set, cudnnBackendSetAttribute,                                          \
      (tn_dnn_descriptor descriptor, int name, int type, int64_t count,       \
       const void *elements))                                                 \
    X(get, cudnnBackendGetAttribute,                                          \
      (tn_dnn_descriptor descriptor, int name, int type, int64_t wanted,      \
       int64_t *count, void *elements))                                       \
    X(execute, cudnnBackendExecute,                                           \
      (tn_dnn_handle handle, tn_dnn_descriptor plan, tn_dnn_descriptor pack))

typedef struct tn_dnn {
#define TN_DNN_FIELD(field, symbol, parameters)                               \
    tn_dnn_status(*field) parameters;
    TN_DNN_MAP(TN_DNN_FIELD)
} tn_dnn;

extern tn_dnn tn__dnn;

/* NULL once tn__dnn is filled, else why that cannot be. */
const char *tn__cuda_dnn_open(void);

#endif
