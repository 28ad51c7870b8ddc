/* onnx.h: declarations that the folders of this library share: element types,
 * the memory of a model, and graphs.
 *
 * A graph is made when a model is opened and does not change afterwards. Its
 * values are numbered: slot i of a run holds value i. */
#ifndef TN_ONNX_ONNX_H
#define TN_ONNX_ONNX_H

#include <tenon/onnx.h>
#include <tenon/ops.h>

/* ---- types of elements --------------------------------------------------- */

/* Columns: name and code in TensorProto.DataType; ONNX's name; Tenon's dtype;
 * bits of an element in raw data; and, for an unsigned type that is stored in a
 * wider dtype, its number of bits (0 for other types). */
#define TN__ONNX_TYPE_MAP(X)                                                  \
    X(FLOAT, 1, "float32", TN_F32, 32, 0)                                     \
    X(UINT8, 2, "uint8", TN_U8, 8, 0)                                         \
    X(INT8, 3, "int8", TN_I8, 8, 0)                                           \
    X(UINT16, 4, "uint16", TN_I32, 16, 16)                                    \
    X(INT16, 5, "int16", TN_I16, 16, 0)                                       \
    X(INT32, 6, "int32", TN_I32, 32, 0)                                       \
    X(INT64, 7, "int64", TN_I64, 64, 0)                                       \
    X(STRING, 8, "string", TN_DTYPE_NONE, 0, 0)                               \
    X(BOOL, 9, "bool", TN_BOOL, 8, 0)                                         \
    X(FLOAT16, 10, "float16", TN_F16, 16, 0)                                  \
    X(DOUBLE, 11, "float64", TN_F64, 64, 0)                                   \
    X(UINT32, 12, "uint32", TN_I64, 32, 32)                                   \
    X(UINT64, 13, "uint64", TN_I64, 64, 64)                                   \
    X(COMPLEX64, 14, "complex64", TN_DTYPE_NONE, 0, 0)                        \
    X(COMPLEX128, 15, "complex128", TN_DTYPE_NONE, 0, 0)                      \
    X(BFLOAT16, 16, "bfloat16", TN_BF16, 16, 0)                               \
    X(F8E4M3FN, 17, "float8e4m3fn", TN_F8E4M3, 8, 0)                          \
    X(F8E4M3FNUZ, 18, "float8e4m3fnuz", TN_DTYPE_NONE, 0, 0)                  \
    X(F8E5M2, 19, "float8e5m2", TN_F8E5M2, 8, 0)                              \
    X(F8E5M2FNUZ, 20, "float8e5m2fnuz", TN_DTYPE_NONE, 0, 0)                  \
    X(UINT4, 21, "uint4", TN_U8, 4, 0)                                        \
    X(INT4, 22, "int4", TN_I8, 4, 0)                                          \
    X(F4E2M1, 23, "float4e2m1", TN_DTYPE_NONE, 0, 0)                          \
    X(F8E8M0, 24, "float8e8m0", TN_DTYPE_NONE, 0, 0)

enum {
    TN__ONNX_NONE = 0,
#define TN__ONNX_TYPE_ENUM(name, code, text, dtype, bits, narrow)             \
    TN__ONNX_##name = code,
    TN__ONNX_TYPE_MAP(TN__ONNX_TYPE_ENUM)
#undef TN__ONNX_TYPE_ENUM
};

typedef struct tn__onnx_type {
    const char *name;
    tn_dtype dtype;   /* TN_DTYPE_NONE if not supported */
    int bits;
    int narrow;
} tn__onnx_type;
/* Returns the description of a code. For an unknown code the name is "unknown"
 * and the dtype is TN_DTYPE_NONE. */
tn__onnx_type tn__onnx_type_of(int code);
/* Returns the code of the element type whose tensors have this dtype. */
int tn__onnx_type_from_dtype(tn_dtype dtype);

/* ---- memory of a model --------------------------------------------------- */

/* An arena owns all memory of a graph and frees it at once. */
typedef struct tn__onnx_arena {
    struct tn__onnx_block *block;
} tn__onnx_arena;
/* Returns zeroed memory for count elements of `bytes` bytes, or NULL with
 * TN_ERR_MEMORY. */
void *tn__onnx_alloc(tn__onnx_arena *arena, size_t count, size_t bytes);
void tn__onnx_arena_free(tn__onnx_arena *arena);

/* ---- values -------------------------------------------------------------- */

/* A value of a run, or a constant of a graph. Values of shape arithmetic are on
 * the host, and other values are on the device of the run. A constant may be on
 * both. If the device is the host, `device` and `host` are the same tensor. */
typedef struct tn__onnx_value {
    tn_tensor *device, *host; /* owned: kept */
    int type;                 /* TN__ONNX_... */
    bool fixed;               /* depends on nothing but the shapes of inputs */
    bool fixed_shape;         /* its shape does */
    bool lends_device, lends_host; /* during a run: the value borrows this
                                      tensor and does not own it */
} tn__onnx_value;

/* ---- graphs -------------------------------------------------------------- */

typedef struct tn__onnx_graph tn__onnx_graph;

enum { /* AttributeProto.AttributeType */
    TN__ONNX_A_FLOAT = 1, TN__ONNX_A_INT = 2, TN__ONNX_A_STRING = 3,
    TN__ONNX_A_TENSOR = 4, TN__ONNX_A_GRAPH = 5, TN__ONNX_A_FLOATS = 6,
    TN__ONNX_A_INTS = 7, TN__ONNX_A_STRINGS = 8
};
typedef struct tn__onnx_attr {
    const char *name;
    int type; /* TN__ONNX_A_... */
    int64_t i;
    float f;
    const char *s;
    int64_t count; /* of the elements of ints, floats or strings */
    int64_t *ints;
    float *floats;
    const char **strings;
    tn__onnx_value tensor; /* on the host */
    tn__onnx_graph *graph;
} tn__onnx_attr;

typedef struct tn__onnx_node {
    const char *name, *op, *domain, *overload;
    const struct tn__onnx_op *row;
    int in_count, out_count;
    int *in, *out;      /* slots; -1 if left out */
    int *dead;          /* slots that no node after this one uses */
    int dead_count;
    const char **out_name;
    int attr_count;
    tn__onnx_attr *attrs;         /* as in the file */
    const tn__onnx_attr **attr;   /* in the order of the row; NULL if left
                                     out */
    /* Number of values of the enclosing graph that the subgraphs of this node
     * use. Their slots follow the node's own inputs in `in`. */
    int capture_count;
    int64_t version; /* the opset of the node's domain */
    tn_tensor *prepared[2]; /* owned; what row->prepare made, or NULL */
    bool is_folded;
    bool is_inlined; /* comes from a function of the model */
} tn__onnx_node;

/* A named input or output. */
typedef struct tn__onnx_port {
    const char *name;
    int slot, type;
    int ndim; /* -1: not given */
    int64_t *shape;
    const char **dim_name;
    bool has_default;
} tn__onnx_port;

typedef struct tn__onnx_constant {
    int slot;
    int parameter; /* index among the model's parameters, or -1 */
} tn__onnx_constant;

struct tn__onnx_graph {
    const char *name;
    int input_count, output_count, node_count, slot_count, constant_count;
    tn__onnx_port *input, *output;
    tn__onnx_node *node;
    tn__onnx_constant *constant;
    tn__onnx_value *value; /* slot_count values; set for constants only */
    const char **slot_name;
    bool *slot_used;       /* for each slot, whether a node or an output uses
                              it */
    /* For a subgraph: slot capture[i] holds the value that slot capture_from[i]
     * of the enclosing graph holds. */
    int capture_count;
    int *capture;
    int *capture_from;
    tn__onnx_graph *parent;
    tn__onnx_graph *next; /* links all graphs of the model */
    int node_room; /* capacity of node[] */
};

#endif
