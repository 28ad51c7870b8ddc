/* <tenon/onnx.h>: ONNX models.
 *
 * An ONNX file becomes a module. It runs on every device and is trained like
 * any other module.
 *
 *     tn_module *net = tn_onnx_open("model.onnx");
 *     tn_tensor *y = tn_forward(net, x);
 *
 * or, with several inputs and outputs,
 *
 *     tn_tensor *out[2];
 *     tn_onnx_run(net, (tn_tensor *[]){x, state}, 2, out, 2);
 *
 * Operators are those of ai.onnx, opsets 7 to 23, and some of com.microsoft
 * (docs/onnx.md lists them). Strings, sequences, optional values, sparse
 * tensors and functions that a model defines are rejected by name.
 *
 * Dtypes: Tenon has no uint16, uint32, uint64 and 4-bit integers. Such values
 * are tensors of the next wider dtype: uint16 is int32, uint32 and uint64 are
 * int64, uint4 is uint8, int4 is int8. Results are reduced to the range of the
 * ONNX type. uint64 numbers from 2^63 on are rejected.
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
 *   device          where the parameters go; default: the current device
 *   trainable       whether the parameters require gradients
 *   max_iterations  the largest number of iterations of all Loop and Scan nodes
 *                   in one run. A run that needs more fails with
 *                   TN_ERR_ARGUMENT
 *
 * The floating-point initialisers, and Constant nodes with several floating-point
 * numbers, are the parameters of the module, under their names in the file:
 * "encoder.weight" is the parameter weight of the child encoder. Names that
 * cannot be paths ("a..b", or "a" beside "a.b") have '/' in place of their dots;
 * names above 120 bytes are cut and end in "~" and a number. Other initialisers
 * are constants. What depends on constants alone is computed now, and what
 * depends on the shapes of the inputs alone (most integer arithmetic of exported
 * models) is computed on the host.
 *
 * External data is read from files in the folder of path, not through links and
 * not from other folders. All files are closed when the call returns.
 *
 * The open scope owns the result. Returns NULL with TN_ERR_IO if a file cannot
 * be read, TN_ERR_FORMAT if it is no valid model (the message has the node or
 * tensor), TN_ERR_UNSUPPORTED if operators, attributes or dtypes are not
 * supported (the message has the first; tn_onnx_check reports all), or
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

/* Runs the model on its first in_count inputs and stores its first out_count
 * outputs in out[]. tn_forward and tn_forward_list do the same for up to
 * TN_MODULE_VALUES inputs and outputs. An input may be NULL, or left out at the
 * end, if it has an initialiser as its default (is_optional). Inputs must be on
 * the device of the parameters.
 *
 * The open scope owns the results. On failure the elements of out[] are NULL.
 * Fails with TN_ERR_ARGUMENT if net is no ONNX model, or a count is wrong, with
 * TN_ERR_DTYPE or TN_ERR_SHAPE if an input does not fit its description, and
 * with the errors of operators. Their messages begin with the operator and the
 * name of the node. */
TN_API tn_status tn_onnx_run(tn_module *net, tn_tensor *const *in, int in_count,
                             tn_tensor **out, int out_count);

/* ---- descriptions -------------------------------------------------------- */

/* An input or an output. What it points to is lent by the model. */
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

/* Return the number of inputs and outputs. 0 for NULL or a module that is no
 * ONNX model. */
TN_API int tn_onnx_input_count(const tn_module *net);
TN_API int tn_onnx_output_count(const tn_module *net);
/* Fill the first info->size bytes of *info for input or output i. Set
 * info->size = sizeof *info first. Fail with TN_ERR_ARGUMENT if net is no ONNX
 * model, or info is NULL or its size invalid, and with TN_ERR_INDEX if there is
 * no such input or output. */
TN_API tn_status tn_onnx_input(const tn_module *net, int i,
                               tn_onnx_value_info *info);
TN_API tn_status tn_onnx_output(const tn_module *net, int i,
                                tn_onnx_value_info *info);

/* A model as a whole. What it points to is lent by the model. */
typedef struct tn_onnx_sizes {
    size_t size;            /* sizeof(tn_onnx_sizes) */
    const char *producer;   /* "pytorch 2.4.0"; "" if the file does not say */
    const char *graph;      /* name of the graph */
    int64_t ir_version, opset; /* opset: of ai.onnx */
    int64_t nodes;          /* all nodes, also those of subgraphs */
    int64_t folded_nodes;   /* nodes that were computed when it was opened */
    int64_t parameters;     /* elements of all parameters */
    int64_t parameter_bytes;
    int64_t constant_bytes; /* of other initialisers and computed constants */
} tn_onnx_sizes;
/* Fills the first sizes->size bytes of *sizes. Set sizes->size = sizeof *sizes
 * first. Fails with TN_ERR_ARGUMENT. */
TN_API tn_status tn_onnx_info(const tn_module *net, tn_onnx_sizes *sizes);

/* ---- nodes --------------------------------------------------------------- */

/* A node. What it points to is lent during the call that gets it. */
typedef struct tn_onnx_node_info {
    size_t size;         /* sizeof(tn_onnx_node_info) */
    const char *name;    /* "" if it has none */
    const char *op;      /* "Conv" */
    const char *domain;  /* "" for ai.onnx */
    const char *problem; /* tn_onnx_check: why the node is not supported */
    const char *const *output; /* the names of its outputs */
    int output_count;
} tn_onnx_node_info;

/* Calls report for each node of the file that is not supported. problem says
 * why. Runs nothing, and reads no weights. Returns the number of these nodes, or
 * a negative status if the file cannot be read (TN_ERR_IO) or is no valid model
 * (TN_ERR_FORMAT). report may be NULL. */
TN_API int64_t tn_onnx_check(const char *path,
                             void (*report)(const tn_onnx_node_info *node,
                                            void *context),
                             void *context);

/* An operator that is supported, as it is in the opsets `since` to `until`. What
 * it points to is valid until the process ends. */
typedef struct tn_onnx_op_info {
    size_t size;        /* sizeof(tn_onnx_op_info) */
    const char *domain; /* "" for ai.onnx */
    const char *name;   /* "Conv" */
    int since, until;
    const char *attributes; /* "axis:int=0 mode:string! ...": names, types and
                               defaults; '!' if it must be given */
} tn_onnx_op_info;
/* Fills the first info->size bytes of *info for operator i. An operator that
 * changed occurs several times. Set info->size = sizeof *info first. Returns
 * false, without an error, after the last one, and false with TN_ERR_ARGUMENT if
 * info is NULL or its size invalid. */
TN_API bool tn_onnx_op(int i, tn_onnx_op_info *info);

/* Calls observe after each node of a run, also in subgraphs, with the outputs
 * of the node: to compare them, or to measure times. An output that the model
 * does not use may be NULL. Nodes that were computed before (constants,
 * arithmetic of shapes) are not observed. observe is NULL for none. context is
 * lent. Fails with TN_ERR_ARGUMENT if net is no ONNX model. */
typedef void (*tn_onnx_observer)(const tn_onnx_node_info *node,
                                 tn_tensor *const *outputs, void *context);
TN_API tn_status tn_onnx_observe(tn_module *net, tn_onnx_observer observe,
                                 void *context);

/* ---- files of one tensor ------------------------------------------------- */

/* Reads a TensorProto from a file (input_0.pb of ONNX's test data) to the
 * current device. The open scope owns the result. Returns NULL with TN_ERR_IO,
 * TN_ERR_FORMAT, TN_ERR_UNSUPPORTED for an element type that is not supported,
 * or TN_ERR_MEMORY. */
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
