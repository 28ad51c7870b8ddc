/* cudnn.h: declares the backend interface of cuDNN and the functions of
 * cudnn.c. cuda_driver.c opens cuDNN when it is first needed. No header of
 * NVIDIA is used. The constants are those of cudnn_graph.h of cuDNN 9. A
 * comment at each group of constants names NVIDIA's type, an enumeration, which
 * is declared as int here. tests/cuda/declarations.c compares all of them with
 * NVIDIA's header. */
#ifndef TN_CUDA_CUDNN_H
#define TN_CUDA_CUDNN_H

#include <stdbool.h>

#include "cuda.h"

typedef int tn_dnn_status; /* cudnnStatus_t; 0 is success */
typedef struct cudnnContext *tn_dnn_handle;
typedef void *tn_dnn_descriptor; /* cudnnBackendDescriptor_t */

/* Values of cudnnDataType_t. Then values of cudnnConvolutionMode_t and
 * cudnnBackendHeurMode_t, and values of cudnnBackendNumericalNote_t. */
enum { TN_DNN_FLOAT = 0, TN_DNN_DOUBLE = 1, TN_DNN_HALF = 2,
       TN_DNN_INT32 = 4, TN_DNN_BF16 = 9, TN_DNN_BOOLEAN = 11 };
enum { TN_DNN_CROSS_CORRELATION = 1, TN_DNN_HEUR_FALLBACK = 2,
       TN_DNN_HEUR_A = 3 };
enum { TN_DNN_TENSOR_CORE = 0, TN_DNN_DOWN_CONVERTS = 1,
       TN_DNN_REDUCED_SUMS = 2, TN_DNN_NONDETERMINISTIC = 4,
       TN_DNN_NOTES = 16 /* maximum number of notes that are read */ };

/* Values of cudnnPointwiseMode_t, and values of cudnnReduceTensorOp_t. */
enum { TN_DNN_ADD = 0, TN_DNN_MUL = 1, TN_DNN_DIV = 6, TN_DNN_SUB = 9,
       TN_DNN_EXP = 13, TN_DNN_LOG = 15, TN_DNN_GREATER_EQUAL = 303,
       TN_DNN_INDEX = 501, TN_DNN_SELECT = 601 };
enum { TN_DNN_SUM = 0, TN_DNN_MAX = 3 };

/* Values of cudnnBackendDescriptorType_t, the types of descriptors. */
enum { TN_DNN_POINT = 0, TN_DNN_CONV = 1, TN_DNN_ENGINE = 2,
       TN_DNN_CONFIG = 3, TN_DNN_HEUR = 4, TN_DNN_PLAN = 5,
       TN_DNN_OP_FORWARD = 10, TN_DNN_OP_WEIGHT = 11, TN_DNN_OP_INPUT = 12,
       TN_DNN_OP_POINT = 13, TN_DNN_GRAPH = 15, TN_DNN_PACK = 16,
       TN_DNN_TENSOR = 17, TN_DNN_PRODUCT = 18, TN_DNN_OP_PRODUCT = 19,
       TN_DNN_REDUCE = 21, TN_DNN_OP_REDUCE = 22, TN_DNN_OP_RESHAPE = 31 };

/* Values of cudnnBackendAttributeType_t, the types of an attribute's
 * elements. */
enum { TN_DNN_IS_HANDLE = 0, TN_DNN_IS_DATA_TYPE = 1, TN_DNN_IS_BOOL = 2,
       TN_DNN_IS_INT64 = 3, TN_DNN_IS_FLOAT = 4, TN_DNN_IS_DOUBLE = 5,
       TN_DNN_IS_POINTER = 6, TN_DNN_IS_CONV_MODE = 7,
       TN_DNN_IS_HEUR_MODE = 8, TN_DNN_IS_NOTE = 11,
       TN_DNN_IS_POINT_MODE = 14, TN_DNN_IS_DESCRIPTOR = 15,
       TN_DNN_IS_REDUCE_MODE = 18 };

/* Values of cudnnBackendAttributeName_t, the attributes of descriptors. */
enum { TN_DNN_POINT_MODE = 0, TN_DNN_POINT_COMPUTE = 1, TN_DNN_POINT_AXIS = 9,
       TN_DNN_POINT_DESC = 750, TN_DNN_POINT_X = 751, TN_DNN_POINT_B = 752,
       TN_DNN_POINT_Y = 753, TN_DNN_POINT_T = 758, TN_DNN_CONV_COMPUTE = 100,
       TN_DNN_CONV_MODE = 101, TN_DNN_CONV_DILATIONS = 102,
       TN_DNN_CONV_STRIDES = 103, TN_DNN_CONV_PAD_AFTER = 104,
       TN_DNN_CONV_PAD_BEFORE = 105, TN_DNN_CONV_NDIM = 106,
       TN_DNN_HEUR_MODE = 200, TN_DNN_HEUR_GRAPH = 201,
       TN_DNN_HEUR_RESULTS = 202, TN_DNN_CONFIG_ENGINE = 300,
       TN_DNN_PLAN_HANDLE = 400, TN_DNN_PLAN_CONFIG = 401,
       TN_DNN_PLAN_WORKSPACE = 402, TN_DNN_FORWARD_ALPHA = 700,
       TN_DNN_FORWARD_BETA = 701, TN_DNN_FORWARD_CONV = 702,
       TN_DNN_FORWARD_W = 703, TN_DNN_FORWARD_X = 704, TN_DNN_FORWARD_Y = 705,
       TN_DNN_INPUT_ALPHA = 706, TN_DNN_INPUT_BETA = 707,
       TN_DNN_INPUT_CONV = 708, TN_DNN_INPUT_W = 709, TN_DNN_INPUT_DX = 710,
       TN_DNN_INPUT_DY = 711, TN_DNN_WEIGHT_ALPHA = 712,
       TN_DNN_WEIGHT_BETA = 713, TN_DNN_WEIGHT_CONV = 714,
       TN_DNN_WEIGHT_DW = 715, TN_DNN_WEIGHT_X = 716, TN_DNN_WEIGHT_DY = 717,
       TN_DNN_GRAPH_HANDLE = 800, TN_DNN_GRAPH_OPS = 801,
       TN_DNN_TENSOR_ALIGN = 900, TN_DNN_TENSOR_DTYPE = 901,
       TN_DNN_TENSOR_SIZES = 902, TN_DNN_TENSOR_STRIDES = 903,
       TN_DNN_TENSOR_ID = 906, TN_DNN_TENSOR_IS_VIRTUAL = 907,
       TN_DNN_TENSOR_IS_BY_VALUE = 908, TN_DNN_PACK_IDS = 1000,
       TN_DNN_PACK_POINTERS = 1001, TN_DNN_PACK_WORKSPACE = 1003,
       TN_DNN_ENGINE_INDEX = 1301, TN_DNN_ENGINE_NOTES = 1303,
       TN_DNN_PRODUCT_COMPUTE = 1500,
       TN_DNN_PRODUCT_A = 1520, TN_DNN_PRODUCT_B = 1521,
       TN_DNN_PRODUCT_C = 1522, TN_DNN_PRODUCT_DESC = 1523,
       TN_DNN_REDUCE_MODE = 1600, TN_DNN_REDUCE_COMPUTE = 1601,
       TN_DNN_REDUCE_X = 1610, TN_DNN_REDUCE_Y = 1611,
       TN_DNN_REDUCE_DESC = 1612, TN_DNN_RESHAPE_X = 2200,
       TN_DNN_RESHAPE_Y = 2201 };

/* The functions of cuDNN, each as X(name of the field, symbol, parameters). */
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
    size_t (*version)(void); /* returns 91900 for version 9.19.0 */
} tn_dnn;

extern tn_dnn tn__dnn;

/* ---- graphs (cudnn.c) ---------------------------------------------------- */

#define TN_DNN_MAX_DESCRIPTORS 96 /* maximum number of descriptors in a graph */
#define TN_DNN_MAX_OPS 32

/* A graph of cuDNN operations under construction. `status` is the first error.
 * After an error no more functions of cuDNN are called. */
typedef struct tn_dnn_graph {
    tn_dnn_status status;
    int descriptor_count, op_count;
    tn_dnn_descriptor descriptors[TN_DNN_MAX_DESCRIPTORS]; /* owned */
    /* those descriptors that are operations */
    tn_dnn_descriptor op[TN_DNN_MAX_OPS];
} tn_dnn_graph;

/* Creates a descriptor that the graph owns. The caller then sets its attributes
 * and calls tn__dnn_end. */
tn_dnn_descriptor tn__dnn_begin(tn_dnn_graph *graph, int type);
void tn__dnn_set(tn_dnn_graph *graph, tn_dnn_descriptor descriptor, int name,
                 int type, int64_t count, const void *elements);
void tn__dnn_set_int(tn_dnn_graph *graph, tn_dnn_descriptor descriptor,
                     int name, int type, int value);
void tn__dnn_set_descriptor(tn_dnn_graph *graph, tn_dnn_descriptor descriptor,
                            int name, tn_dnn_descriptor other);
void tn__dnn_end(tn_dnn_graph *graph, tn_dnn_descriptor descriptor);
/* Ends a descriptor and appends it to the graph's operations. */
void tn__dnn_end_op(tn_dnn_graph *graph, tn_dnn_descriptor op);

/* How a tensor of a graph is stored. STORED: in memory on the device. VIRTUAL:
 * not at all, because it exists only between two operations. BY_VALUE: as a
 * scalar on the host. */
typedef enum {
    TN_DNN_STORED,
    TN_DNN_VIRTUAL = TN_DNN_TENSOR_IS_VIRTUAL,
    TN_DNN_BY_VALUE = TN_DNN_TENSOR_IS_BY_VALUE
} tn_dnn_storage;
/* Describes a tensor of four dimensions and finishes its descriptor. */
tn_dnn_descriptor tn__dnn_tensor(tn_dnn_graph *graph, int type,
                                 const int64_t *size, const int64_t *stride,
                                 int64_t id, int64_t align,
                                 tn_dnn_storage place);

/* ---- plans --------------------------------------------------------------- */

/* A computation that needs a plan. A plan is an engine of cuDNN that computes a
 * graph. Problems with equal keys share a plan. The key is a struct without
 * padding, because its bytes are compared. Its size is a multiple of 8 bytes.
 * describe builds the graph for a key. */
typedef struct tn_dnn_problem {
    const void *key;
    size_t bytes;
    void (*describe)(tn_dnn_graph *graph, const void *key);
    /* minimum version of cuDNN; no plan is made with an older one */
    size_t min_version;
    /* bytes of scratch memory that precede the plan's workspace */
    uint64_t scratch_bytes;
    uint64_t workspace_limit; /* maximum size of the plan's workspace in
                                 bytes */
    /* mask of notes (1 << note); an engine that has one of them is rejected */
    unsigned refused_notes;
    const char *name;         /* name of the computation, for the log */
    const int64_t *size;      /* four extents, for the log */
} tn_dnn_problem;

typedef struct tn_dnn_plan tn_dnn_plan;

/* Returns the queue's plan for a problem and allocates the plan's workspace.
 * The first call for a problem makes the plan, unless the queue's work is being
 * captured as a graph. If there is no plan, sets *why to the reason and returns
 * NULL. */
const tn_dnn_plan *tn__dnn_plan(tn_queue *queue, const tn_dnn_problem *problem,
                                const char **why);
/* Runs a plan. pointers[i] is the address of the tensor with id ids[i]. */
tn_dnn_status tn__dnn_plan_run(tn_queue *queue, const tn_dnn_plan *plan,
                               int64_t count, const int64_t *ids,
                               void *const *pointers);
/* Records the error that tn__dnn_plan_run returned, and returns its Tenon
 * status. */
tn_status tn__dnn_failed(const tn_queue *queue, tn_dnn_status status);

#endif
