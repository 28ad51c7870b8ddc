/* <tenon/onnx.h>: opens, runs and trains ONNX models.
 *
 * tn_onnx_open makes a module from an ONNX file. The module runs on every
 * device and can be trained like any other module.
 *
 *     tn_module *net = tn_onnx_open("model.onnx");
 *     tn_tensor *y = tn_forward(net, x);
 *
 * or, with several inputs and outputs,
 *
 *     tn_tensor *out[2];
 *     tn_onnx_run(net, (tn_tensor *[]){x, state}, 2, out, 2);
 *
 * Supported operators: those of ai.onnx in opsets 7 to 23, and some of
 * com.microsoft (docs/onnx.md lists them), and functions that a model defines.
 * Strings, sequences, optional values and sparse tensors are rejected with an
 * error that names them.
 *
 * Dtypes: Tenon has no uint16, uint32, uint64 and 4-bit integers. It stores
 * such values in a wider dtype: uint16 as int32, uint32 and uint64 as int64,
 * uint4 as uint8, and int4 as int8. Results of integer operators wrap around to
 * the range of the ONNX type. uint64 numbers of 2^63 and above in a file are
 * rejected.
 *
 * Link with `pkg-config --libs tenon-onnx`.
 *
 * Threads: Several threads may run one model at once while no thread changes
 * it. tn_onnx_observe changes it. */
#ifndef TENON_ONNX_H
#define TENON_ONNX_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models -------------------------------------------------------------- */

/* Opens the model in the file path, in evaluation mode.
 *
 *   device          device of the parameters; default: the current device
 *   trainable       whether the parameters require gradients
 *   max_iterations  the largest number of iterations of all Loop and Scan nodes
 *                   in one run. A run that needs more fails with
 *                   TN_ERR_ARGUMENT
 *
 * Parameters: floating-point initialisers, and Constant nodes with more than
 * one floating-point number, become parameters of the module. They keep their
 * names: "encoder.weight" is the parameter weight of the child module encoder.
 * If a name cannot be such a path ("a..b", or "a" if there is also "a.b"), its
 * dots become '/'. A name of more than 120 bytes is shortened and ends in "~"
 * and a number. Other initialisers are constants, and so are the Constant nodes
 * of functions and subgraphs, and the scales of integer weights: in
 * QuantizeLinear and DequantizeLinear, and in Cast, Sub, Mul and Div.
 *
 * This call computes the nodes whose inputs are constants. A run computes on
 * the host what depends only on the shapes of the inputs, as most integer
 * arithmetic of exported models does.
 *
 * External data must be in regular files in the folder of path. Symbolic links
 * and other folders are rejected.
 *
 * On the cpu, an aligned initialiser of 1 MB or more is not copied: the file
 * stays mapped while the model lives. The mapping is private: training changes
 * memory, not the file. While the model lives, do not write to the file or
 * truncate it: reading a mapped page past the end of a file ends the process
 * (SIGBUS). To replace the file, rename a new one over it.
 *
 * The open scope owns the result. Returns NULL with TN_ERR_IO if a file cannot
 * be read; TN_ERR_FORMAT if it is not a valid model (the message names the node
 * or tensor); TN_ERR_UNSUPPORTED if an operator, attribute or dtype is not
 * supported (the message names the first one, tn_onnx_check reports all); or
 * TN_ERR_MEMORY if memory runs out. */
#define TN_ONNX_OPEN_OPTIONS_LIST(X)                                          \
    X(tn_device *, device, NULL)                                              \
    X(bool, trainable, false)                                                 \
    X(int64_t, max_iterations, 1000000)
TN_OPTIONS_STRUCT(tn_onnx_open, TN_ONNX_OPEN_OPTIONS_LIST);
#define TN_ONNX_OPEN_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_onnx_open, TN_ONNX_OPEN_OPTIONS_LIST)
TN_API tn_module *tn_onnx_open_with(const char *path,
                                    const tn_onnx_open_options *options);

/* Runs the model. in[] has its first in_count inputs. out[] receives its first
 * out_count outputs. tn_forward and tn_forward_list do the same for up to
 * TN_MODULE_VALUES inputs and outputs. An input that has a default
 * (is_optional) may be NULL, or be left out at the end. Inputs must be on the
 * device of the parameters.
 *
 * The open scope owns the results. On failure the elements of out[] are NULL.
 * Fails with TN_ERR_ARGUMENT if net is not an ONNX model or a count is wrong;
 * with TN_ERR_DTYPE, TN_ERR_SHAPE or TN_ERR_DEVICE if an input does not match
 * its description; and with the errors of operators, whose messages name the
 * operator and the node. */
TN_API tn_status tn_onnx_run(tn_module *net, tn_tensor *const *in, int in_count,
                             tn_tensor **out, int out_count);

/* ---- descriptions -------------------------------------------------------- */

/* An input or an output. Its pointers are valid while the model lives. */
typedef struct tn_onnx_value_info {
    size_t size;           /* sizeof(tn_onnx_value_info) */
    const char *name;
    const char *type;      /* ONNX's name of the element type: "uint16" */
    tn_dtype dtype;        /* the dtype of the tensor: TN_I32 for "uint16" */
    int ndim;              /* -1 if the file does not say */
    const int64_t *shape;  /* ndim sizes; -1 for a dynamic one */
    const char *const *dim_name; /* ndim names of dynamic sizes ("batch"), or
                                    NULL */
    bool is_optional;      /* an input that has a default */
} tn_onnx_value_info;

/* Return the number of inputs and outputs, or 0 if net is NULL or not an ONNX
 * model. */
TN_API int tn_onnx_input_count(const tn_module *net);
TN_API int tn_onnx_output_count(const tn_module *net);
/* Fill the first info->size bytes of *info for input or output i. Set
 * info->size = sizeof *info first. Fail with TN_ERR_ARGUMENT if net is not an
 * ONNX model, or if info is NULL or its size is invalid; with TN_ERR_INDEX if
 * there is no such input or output. */
TN_API tn_status tn_onnx_input(const tn_module *net, int i,
                               tn_onnx_value_info *info);
TN_API tn_status tn_onnx_output(const tn_module *net, int i,
                                tn_onnx_value_info *info);

/* A model as a whole. Its pointers are valid while the model lives. */
typedef struct tn_onnx_sizes {
    size_t size;            /* sizeof(tn_onnx_sizes) */
    const char *producer;   /* "pytorch 2.4.0"; "" if the file does not say */
    const char *graph;      /* name of the graph */
    int64_t ir_version, opset; /* opset: of ai.onnx */
    int64_t nodes;          /* number of nodes, with those of subgraphs */
    int64_t folded_nodes;   /* number of nodes that tn_onnx_open computed */
    int64_t parameters;     /* number of elements in all parameters */
    int64_t parameter_bytes;
    int64_t constant_bytes; /* size of other initialisers and folded nodes */
} tn_onnx_sizes;
/* Fills the first sizes->size bytes of *sizes. Set sizes->size = sizeof *sizes
 * first. Fails with TN_ERR_ARGUMENT if net is not an ONNX model, or if sizes is
 * NULL or its size is invalid. */
TN_API tn_status tn_onnx_info(const tn_module *net, tn_onnx_sizes *sizes);

/* ---- nodes --------------------------------------------------------------- */

/* A node. It and its pointers are valid only during the callback that gets
 * it. */
typedef struct tn_onnx_node_info {
    size_t size;         /* sizeof(tn_onnx_node_info) */
    const char *name;    /* "" if it has none */
    const char *op;      /* "Conv" */
    const char *domain;  /* "" for ai.onnx */
    const char *problem; /* why the node is not supported (tn_onnx_check) */
    const char *const *output; /* the names of its outputs */
    int output_count;
} tn_onnx_node_info;

/* Calls report for each node of the file that is not supported; node->problem
 * says why. report may be NULL. Runs no node and reads no weights. Returns the
 * number of these nodes, or a negative status: TN_ERR_IO if the file cannot be
 * read, TN_ERR_FORMAT if it is not a valid model, TN_ERR_MEMORY. */
TN_API int64_t tn_onnx_check(const char *path,
                             void (*report)(const tn_onnx_node_info *node,
                                            void *context),
                             void *context);

/* A supported operator, as opsets `since` to `until` define it. Its pointers
 * are valid until the process ends. */
typedef struct tn_onnx_op_info {
    size_t size;        /* sizeof(tn_onnx_op_info) */
    const char *domain; /* "" for ai.onnx */
    const char *name;   /* "Conv" */
    int since, until;
    const char *attributes; /* "axis:int=0 mode:string! ...": names, types and
                               defaults; '!' marks a required attribute */
} tn_onnx_op_info;
/* Fills the first info->size bytes of *info for operator i, counted from 0. Set
 * info->size = sizeof *info first. An operator that changed between opsets
 * occurs several times. Returns false without an error after the last operator.
 * Returns false with TN_ERR_ARGUMENT if info is NULL or its size is invalid. */
TN_API bool tn_onnx_op(int i, tn_onnx_op_info *info);

/* Sets a function that each run calls after each node, also in subgraphs. It
 * gets the outputs of the node, for example to compare them or to measure
 * times. An output that the model does not use may be NULL. Nodes whose results
 * are already known (constants, shape arithmetic) are not observed. observe is
 * NULL to remove the function. context must stay valid until then. Fails with
 * TN_ERR_ARGUMENT if net is not an ONNX model. */
typedef void (*tn_onnx_observer)(const tn_onnx_node_info *node,
                                 tn_tensor *const *outputs, void *context);
TN_API tn_status tn_onnx_observe(tn_module *net, tn_onnx_observer observe,
                                 void *context);

/* ---- files of one tensor ------------------------------------------------- */

/* Loads a file that contains one TensorProto, such as input_0.pb in ONNX's test
 * data, to the current device. The open scope owns the result. Returns NULL
 * with TN_ERR_IO if the file cannot be read, TN_ERR_FORMAT if it is not a valid
 * TensorProto, TN_ERR_UNSUPPORTED if its element type is not supported, or
 * TN_ERR_MEMORY if memory runs out. */
TN_API tn_tensor *tn_onnx_tensor_load(const char *path);

#ifndef __cplusplus
#define tn_onnx_open(...) TN_CALL_1(tn_onnx_open, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_module *, tn_onnx_open, const char *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
