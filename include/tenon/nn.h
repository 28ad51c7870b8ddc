/* <tenon/nn.h>: layers, and models made of them.
 *
 * A module is a struct whose first member is a tn_module. Its children,
 * parameters and buffers are registered under names. By these a model is
 * traversed, moved and saved, and an error has a path ("features.3: conv2d:
 * ...").
 *
 *     struct net { tn_module base; tn_module *conv, *fc; };
 *
 *     static tn_tensor *net_forward(tn_module *self, tn_tensor *x)
 *     {
 *         struct net *net = (struct net *)self;
 *         x = tn_relu(tn_forward(net->conv, x));
 *         return tn_forward(net->fc, tn_flatten(x, .start_dim = 1));
 *     }
 *     static const tn_module_class net_class = {
 *         .size = sizeof net_class, .name = "Net",
 *         .bytes = sizeof(struct net), .forward = net_forward};
 *
 *     struct net *net = tn_module_new(&net_class);
 *     net->conv = tn_module_add(&net->base, "conv", tn_nn_conv2d(1, 16, 3));
 *     net->fc = tn_module_add(&net->base, "fc", tn_nn_linear(16 * 36, 10));
 *
 * or, if the layers form a sequence,
 *
 *     tn_module *net = tn_nn_sequential(tn_nn_linear(784, 128), tn_nn_relu(),
 *                                       tn_nn_linear(128, 10));
 *
 * Layers, parameter names and the distributions of initial values are
 * PyTorch's. The random numbers come from Tenon's generator (tn_manual_seed).
 *
 * Threads: Several threads may run one model at once while no thread changes
 * it. Changes are a step of an optimizer, tn_module_load, tn_module_to, and
 * running a layer with statistics (batch norm) in training mode. Building,
 * traversing and registering belong to one thread at a time. Each thread has
 * its own module path, and its own random numbers for dropout.
 */
#ifndef TENON_NN_H
#define TENON_NN_H

#include <tenon/hook.h>
#include <tenon/options.h>
#include <tenon/parameters.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- modules ------------------------------------------------------------ */

typedef struct tn_module tn_module;

typedef struct tn_module_class {
    size_t size;       /* of this struct */
    const char *name;  /* "Linear" */
    size_t bytes;      /* of an instance: sizeof(struct net) */
    /* Called by tn_forward. For a module with one input and one output; NULL if
     * the class has a forward_list. */
    tn_tensor *(*forward)(tn_module *self, tn_tensor *input);
    /* Writes the text between the parentheses of a printed module,
     * "in_features=3, out_features=4", into text, of size room. May be NULL. */
    void (*describe)(const tn_module *self, char *text, size_t room);
    /* Frees what the instance holds, except registered objects. May be NULL. */
    void (*release)(tn_module *self);
    /* In place of forward, for several inputs or outputs. in[] has an element
     * for each input of the signature, NULL where an optional one was left out.
     * Sets out[0] .. out[out_count - 1], owned by the open scope; an output that
     * stays NULL means failure. out_count is the number of outputs that the
     * caller wants, at least 1: the others need not be computed. */
    void (*forward_list)(tn_module *self, tn_tensor *const *in, int in_count,
                         tn_tensor **out, int out_count);
    /* The names of inputs and outputs, with '?' after an input that may be left
     * out: "x, memory, mask? -> y, weights". At most TN_MODULE_VALUES each.
     * NULL: one input and one output. */
    const char *signature;
    /* Called by tn_module_clone for the copy self, whose members are those of
     * from, bit by bit, with pointers to registered objects replaced. It copies
     * or keeps what release would free a second time. Required if there is a
     * release. */
    tn_status (*clone)(tn_module *self, const tn_module *from);
} tn_module_class;
#define TN_MODULE_VALUES 16

/* Closed: a module's own members follow it. */
struct tn_module {
    tn_object object;
    const tn_module_class *type;
    struct tn_module_tree *tree; /* registered objects; internal */
    bool training;               /* set by tn_module_train */
};

/* A zeroed instance of type, in training mode, owned by the open scope. _with
 * adds `extra` bytes after it. NULL: TN_ERR_MEMORY; TN_ERR_ARGUMENT if type has
 * no name, or not one of forward and forward_list; TN_ERR_FORMAT if its
 * signature is malformed. */
TN_API void *tn_module_new(const tn_module_class *type);
TN_API void *tn_module_new_with(const tn_module_class *type, size_t extra);

/* Registers child under name ("fc1"; unique, without dots) and keeps it.
 * Returns child. NULL if an argument is NULL, and TN_ERR_ARGUMENT for an
 * invalid name or more than 128 nested modules. */
TN_API void *tn_module_add(tn_module *module, const char *name,
                           tn_module *child);
/* Registers value as a parameter (which then requires a gradient) or as a
 * buffer, and keeps it. Returns value. An optional parameter that is absent (a
 * bias) is not registered. */
TN_API tn_tensor *tn_module_add_parameter(tn_module *module, const char *name,
                                          tn_tensor *value);
TN_API tn_tensor *tn_module_add_buffer(tn_module *module, const char *name,
                                       tn_tensor *value);

/* Runs the module. Errors inside it begin with its path: "encoder.3.fc: linear:
 * ...". The result is its output, the first if there are several, owned by the
 * open scope. In C, tn_forward is a macro that accepts several inputs:
 *
 *     tn_tensor *y = tn_forward(net, x);
 *     tn_tensor *z = tn_forward(cross, y, memory);
 *
 * NULL if module or a required input is NULL; TN_ERR_ARGUMENT if module is no
 * module, or for more or fewer inputs than it has. NULL for an optional input
 * leaves it out, unless an error is pending. */
TN_API tn_tensor *tn_forward(tn_module *module, tn_tensor *input);

/* The same with count inputs, and for several outputs: the first out_count are
 * stored in out[]. If that fails, with the status of the error, they are NULL.
 *
 *     tn_tensor *out[2];
 *     tn_forward_list(lstm, (tn_tensor *[]){x, h, c}, 3, out, 2);
 *
 * A module of a class of your own with two inputs and outputs:
 *
 *     static void cross_forward(tn_module *self, tn_tensor *const *in,
 *                               int in_count, tn_tensor **out, int out_count)
 *     {
 *         struct cross *cross = (struct cross *)self;
 *         tn_tensor *memory = tn_forward(cross->norm, in[1]);
 *         out[0] = tn_add(in[0], tn_forward(cross->fc, memory));
 *         if (out_count > 1)
 *             out[1] = memory;
 *     }
 *     static const tn_module_class cross_class = {
 *         .size = sizeof cross_class, .name = "Cross",
 *         .bytes = sizeof(struct cross), .forward_list = cross_forward,
 *         .signature = "x, memory -> y, memory"}; */
TN_API tn_status tn_forward_list(tn_module *module, tn_tensor *const *inputs,
                                 int count, tn_tensor **out, int out_count);

/* tn_forward with a list of inputs that ends with TN_INPUTS_END, which the
 * macro makes. */
TN_API tn_tensor *tn_forward_inputs(tn_module *module,
                                    tn_tensor *const *inputs);
#define TN_INPUTS_END ((tn_tensor *)~(uintptr_t)0)

/* Text of a class's signature, "x, memory, mask? -> y"; for a class without one
 * "input -> output". NULL for NULL. Lent. */
TN_API const char *tn_module_signature(const tn_module *module);

/* ---- hooks ---------------------------------------------------------------
 * Functions that are called before and after a module's forward and backward:
 *
 *                               input argument  output argument  replaces
 *   forward_pre_hook            input           NULL             input
 *   forward_hook                input           output           output
 *   full_backward_pre_hook      NULL            output gradient  the latter
 *   full_backward_hook          input gradient  output gradient  the former
 *
 *     // halves what the encoder passes on to the layers below it
 *     static tn_tensor *halve(tn_module *module, tn_tensor *grad_input,
 *                             tn_tensor *grad_output, void *context)
 *     {
 *         return tn_mul_scalar(grad_input, 0.5);
 *     }
 *     tn_module_register_full_backward_hook(net->encoder, halve, NULL);
 *
 * All tensors are lent. A hook returns a replacement (for a gradient: of the
 * same shape, dtype and device), or NULL for none. To fail, it records an error
 * (tn_error_set); that ends the forward or backward pass, and the message
 * begins with the module's path. Hooks of a kind run in the order of
 * registration. The module owns the hook; the open scope owns the handle, which
 * tn_hook_remove accepts. The context is lent. For a module with several inputs
 * or outputs, these hooks get the first: query, tgt or input1. If one tensor is
 * given for several inputs, they count as one. A list hook gets all.
 *
 * A backward pass (tn_backward, tn_grad) calls the hooks that the module had
 * when it ran while recording. It does so separately for each run of the
 * module: the input gradient is that of this run only, even if the tensor is
 * used elsewhere. If the input requires no gradient, the full backward hook
 * gets NULL for it and must return NULL (else TN_ERR_STATE). tn_grad calls it
 * only if the input is on the way to one of its inputs. Source:
 * torch.nn.Module.register_forward_pre_hook, register_forward_hook,
 * register_full_backward_pre_hook, register_full_backward_hook. */
typedef tn_tensor *(*tn_module_hook)(tn_module *module, tn_tensor *input,
                                     tn_tensor *output, void *context);
TN_API tn_hook *tn_module_register_forward_pre_hook(tn_module *module,
                                                    tn_module_hook hook,
                                                    void *context);
TN_API tn_hook *tn_module_register_forward_hook(tn_module *module,
                                                tn_module_hook hook,
                                                void *context);
TN_API tn_hook *tn_module_register_full_backward_pre_hook(tn_module *module,
                                                          tn_module_hook hook,
                                                          void *context);
TN_API tn_hook *tn_module_register_full_backward_hook(tn_module *module,
                                                      tn_module_hook hook,
                                                      void *context);

/* A forward hook that gets all inputs and outputs of its module. An optional
 * input that was left out is NULL. The hook replaces a tensor by assigning to
 * inputs[i] (before forward) or outputs[i] (after it). Before forward,
 * output_count is 0. To fail, it records an error; a negative status without
 * one is TN_ERR_STATE. Everything else as above. A backward hook sees the
 * gradients of the first input and output; tn_tensor_register_hook (hook.h) has
 * those of any tensor. */
typedef tn_status (*tn_module_list_hook)(tn_module *module,
                                         tn_tensor **inputs, int input_count,
                                         tn_tensor **outputs, int output_count,
                                         void *context);
TN_API tn_hook *
tn_module_register_forward_pre_list_hook(tn_module *module,
                                         tn_module_list_hook hook,
                                         void *context);
TN_API tn_hook *
tn_module_register_forward_list_hook(tn_module *module,
                                     tn_module_list_hook hook, void *context);

/* Switches recomputation for module (recompute.h). While recording, tn_forward
 * then saves the module's input only, and runs the module again in the backward
 * pass. Gradients have the same bits and less memory is needed. Buffers that
 * forward changes (running averages of batch norm) change twice. Returns
 * module. */
TN_API void *tn_module_set_recompute(tn_module *module, bool on);

/* For a module whose forward has arguments that are not tensors, in a function
 * of its own. Between tn_module_begin and tn_module_end a module runs as in
 * tn_forward. begin sets inputs[] to the count tensors to use: those given, or
 * replacements from hooks; all NULL if a hook failed or inputs[0] was NULL.
 * inputs[] must be valid until end. end moves out[0] .. out[count - 1] to the
 * caller's scope and returns true. If one of them is NULL it sets all to NULL
 * and returns false.
 *
 *     tn_tensor *in[] = {x}, *out;
 *     tn_module_call call = tn_module_begin(net, in, 1);
 *     out = tn_roll(in[0], tn_dims(shift));
 *     tn_module_end(net, &call, &out, 1);
 *     return out;
 *
 * Closed; the members are for the library's use. */
typedef struct tn_module_call {
    tn_scope *scope;
    const tn_path *path;      /* of the thread, before the call */
    const tn_module *running; /* before the call */
    tn_tensor **inputs;       /* after hooks: lent */
    int count;                /* of them */
    struct tn__nn_passage *passage; /* owned by scope; NULL: no backward
                                       hooks */
} tn_module_call;
TN_API tn_module_call tn_module_begin(tn_module *module, tn_tensor **inputs,
                                      int count);
TN_API bool tn_module_end(tn_module *module, tn_module_call *call,
                          tn_tensor **out, int count);

/* The child, parameter or buffer with this path ("conv.weight") below module.
 * NULL (TN_ERR_ARGUMENT) if there is none. Lent. */
TN_API tn_module *tn_module_child(const tn_module *module, const char *path);
TN_API tn_tensor *tn_module_parameter(const tn_module *module, const char *path);
TN_API tn_tensor *tn_module_buffer(const tn_module *module, const char *path);
/* Calls visit for module and all modules below it, parents first. path is ""
 * for module itself. */
TN_API void tn_module_walk(tn_module *module,
                           void (*visit)(tn_module *module, const char *path,
                                         void *context),
                           void *context);

/* Sets training mode (dropout, batch norm) for module and all modules below it.
 * Returns module. */
TN_API void *tn_module_train(tn_module *module, bool on);
#define tn_module_eval(module) tn_module_train(module, false)

/* Moves parameters and buffers to device, and converts those with a floating
 * dtype to dtype; integers keep theirs. One of the two may be left out.
 * Gradients are removed. The tensors stay the same objects, so pointers to them
 * (of the module, of an optimizer) stay valid; an optimizer's state is not
 * converted, so make the optimizer afterwards. Returns module; NULL, with
 * nothing changed, on failure: TN_ERR_ARGUMENT if neither is given,
 * TN_ERR_DTYPE if dtype is not floating, TN_ERR_STATE if a buffer is the result
 * of a recorded operator, TN_ERR_MEMORY. Source: torch.nn.Module.to. */
#define TN_MODULE_TO_OPTIONS_LIST(X)                                          \
    X(tn_device *, device, NULL)                                              \
    X(tn_dtype, dtype, TN_DTYPE_NONE)
TN_OPTIONS_STRUCT(tn_module_to, TN_MODULE_TO_OPTIONS_LIST);
#define TN_MODULE_TO_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_module_to, TN_MODULE_TO_OPTIONS_LIST)
TN_API void *tn_module_to_with(tn_module *module,
                               const tn_module_to_options *options);

/* Sets whether the parameters of module and all modules below it require
 * gradients; false freezes them. Returns module. */
TN_API void *tn_module_set_requires_grad(tn_module *module, bool on);

/* A deep copy of module, owned by the open scope: of the modules below it,
 * their parameters, buffers and modes (training, recompute, requires_grad).
 * What is shared within module is shared within the copy. The copy has no
 * gradients and no hooks. Members of the instance that point to a registered
 * module, parameter or buffer, or into the instance itself, point to the copy's;
 * all others are copied bit by bit. NULL: TN_ERR_UNSUPPORTED if a class has a
 * release but no clone, TN_ERR_MEMORY. Source: copy.deepcopy. */
TN_API void *tn_module_clone(const tn_module *module);

/* A module like module that shares all its modes, hooks, buffers and parameters,
 * but values[i] in place of parameter i of tn_parameters(module); count is the
 * number of these. With names, values[i] is used for the parameter or buffer
 * with the path names[i], and the others are module's own. values may be results
 * of operators, through which gradients pass. module itself does not change; the
 * new module is owned by the open scope. NULL: TN_ERR_ARGUMENT for a value that
 * is NULL, another count, or a name that module does not have; TN_ERR_SHAPE if
 * the shapes of a value and a parameter differ; and as tn_module_clone.
 *
 *     // one step of gradient descent that can be differentiated
 *     for (int i = 0; i < count; i++)
 *         fast[i] = tn_sub(tn_parameters_at(list, i),
 *                          tn_mul_scalar(grad[i], 0.1));
 *     tn_tensor *y = tn_functional_call(net, fast, count, x);
 *
 * tn_functional_call(module, values, count, inputs ...) is tn_forward of it.
 * Source: torch.func.functional_call. */
#define TN_MODULE_SUBSTITUTE_OPTIONS_LIST(X)                                  \
    X(const char *const *, names, NULL)
TN_OPTIONS_STRUCT(tn_module_substitute, TN_MODULE_SUBSTITUTE_OPTIONS_LIST);
#define TN_MODULE_SUBSTITUTE_OPTIONS                                          \
    TN_OPTIONS_DEFAULTS(tn_module_substitute,                                 \
                        TN_MODULE_SUBSTITUTE_OPTIONS_LIST)
TN_API tn_module *
tn_module_substitute_with(tn_module *module, tn_tensor *const *values,
                          int count,
                          const tn_module_substitute_options *options);

/* Removes the gradients of all parameters. */
TN_API void tn_module_zero_grad(tn_module *module);

/* The number of elements in all parameters. */
TN_API int64_t tn_module_parameter_count(const tn_module *module);

/* Writes the module tree as PyTorch prints it. TN_ERR_IO if that fails. */
TN_API tn_status tn_module_print(FILE *file, const tn_module *module);

/* What tn_summary adds up. A tensor that is shared counts once. */
typedef struct tn_summary_totals {
    size_t size;                  /* of this struct */
    int64_t parameters;           /* elements */
    int64_t trainable;            /* of these, those that require gradients */
    int64_t parameter_bytes, buffer_bytes;
    int64_t output_bytes;         /* of the modules that call no other */
    int64_t multiply_adds;
} tn_summary_totals;

/* Runs module once on zeros of this shape, in evaluation mode and without
 * recording, and writes a table to file: a line for each module that was run,
 * with the shape of its output, its own parameters, and the multiply-adds of
 * convolutions and of linear, bilinear, recurrent and attention layers (those of
 * other operators are not counted).
 *
 *   dtype    of the zeros: TN_I64 for a module that begins with an embedding.
 *            None: that of the first parameter, or the default dtype
 *   inputs, input_count   the inputs to run on; shape is not used then
 *   totals   set to the totals; file may be NULL then
 *
 *     tn_summary(stdout, net, tn_dims(1, 3, 32, 32));
 *
 * The errors are those of tn_forward; TN_ERR_IO if the table cannot be
 * written. */
#define TN_SUMMARY_OPTIONS_LIST(X)                                            \
    X(tn_dtype, dtype, TN_DTYPE_NONE)                                         \
    X(tn_tensor *const *, inputs, NULL)                                       \
    X(int, input_count, 0)                                                    \
    X(tn_summary_totals *, totals, NULL)
TN_OPTIONS_STRUCT(tn_summary, TN_SUMMARY_OPTIONS_LIST);
#define TN_SUMMARY_OPTIONS                                                    \
    TN_OPTIONS_DEFAULTS(tn_summary, TN_SUMMARY_OPTIONS_LIST)
TN_API tn_status tn_summary_with(FILE *file, tn_module *module,
                                 tn_dims_list shape,
                                 const tn_summary_options *options);

/* The parameters of a module and all modules below it, each once, in the order
 * of registration; an optimizer accepts them. Owned by the open scope; keeps
 * the tensors. NULL for NULL. */
TN_API tn_parameter_list *tn_parameters(tn_module *module);

/* The same with the buffers: what tn_module_save writes, in the same order. */
TN_API tn_parameter_list *tn_module_state(tn_module *module);

/* ---- weights in files --------------------------------------------------- */

/* Writes parameters and buffers, named by their paths, to a safetensors file.
 * Atomic, with the errors of tn_safetensors_save (io.h). */
TN_API tn_status tn_module_save(const tn_module *module, const char *path);

/* A pair of beginnings of names: a tensor of a file whose name begins with from
 * has to in its place in the module. to NULL: the tensor is left out. Closed. */
typedef struct tn_rename {
    const char *from, *to;
} tn_rename;

/* Reads them back in place, to the devices of the module's tensors.
 *
 *   strict  true: the file must have exactly the module's names, shapes and
 *           dtypes. false: names that one side alone has are skipped, and
 *           dtypes converted; shapes must match
 *   rename  a list of pairs that ends with {NULL}; for each name in the file,
 *           the first pair that fits is used
 *   report  set to what differs, with strict = false also if nothing fails;
 *           NULL if the file could not be read. Owned by the open scope
 *
 *     tn_module_report *report;
 *     tn_module_load(net, "resnet50.safetensors", .strict = false,
 *                    .rename = (tn_rename[]){{"module.", ""},
 *                                            {"classifier.", NULL}, {NULL}},
 *                    .report = &report);
 *
 * On failure nothing is changed. If names, shapes or dtypes differ, the error
 * (TN_ERR_ARGUMENT, TN_ERR_SHAPE, TN_ERR_DTYPE: that of the first difference)
 * lists all of them, as far as 1600 bytes reach. TN_ERR_ARGUMENT also if two
 * names in the file become one. Else as tn_safetensors_open (io.h). Source:
 * torch.nn.Module.load_state_dict. */
typedef struct tn_module_report tn_module_report;
#define TN_MODULE_LOAD_OPTIONS_LIST(X)                                        \
    X(bool, strict, true)                                                     \
    X(const tn_rename *, rename, NULL)                                        \
    X(tn_module_report **, report, NULL)
TN_OPTIONS_STRUCT(tn_module_load, TN_MODULE_LOAD_OPTIONS_LIST);
#define TN_MODULE_LOAD_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_module_load, TN_MODULE_LOAD_OPTIONS_LIST)
TN_API tn_status tn_module_load_with(tn_module *module, const char *path,
                                     const tn_module_load_options *options);

/* A difference between a file and a module. */
enum {
    TN_LOAD_MISSING,    /* the file lacks a tensor of the module */
    TN_LOAD_UNEXPECTED, /* the module lacks a tensor of the file */
    TN_LOAD_SHAPE,      /* the shapes differ */
    TN_LOAD_DTYPE       /* the dtypes differ */
};
typedef struct tn_load_difference {
    size_t size;         /* of this struct */
    int32_t kind;        /* TN_LOAD_... */
    const char *name;    /* in the module; NULL if unexpected */
    const char *in_file; /* in the file; NULL if missing */
    const char *nearest; /* the most similar name that only the other side has,
                            by edit distance; NULL: none is similar */
    const char *text;    /* the difference as a sentence */
} tn_load_difference;

/* The number of differences; difference i, in the order of the module's names,
 * then of the file's; and all their texts, a line each. Lent by the report; NULL
 * if i is out of range. Cannot fail. */
TN_API int tn_module_report_count(const tn_module_report *report);
TN_API const tn_load_difference *
tn_module_report_at(const tn_module_report *report, int i);
TN_API const char *tn_module_report_text(const tn_module_report *report);

/* ---- layers ---------------------------------------------------------------
 * Each returns a module owned by the open scope, with its parameters on the
 * current device. Shapes are documented with the operator of the same name in
 * <tenon/ops.h>. NULL: TN_ERR_ARGUMENT or TN_ERR_SHAPE for a size or an option
 * that is not allowed, TN_ERR_MEMORY. More layers: nn_layers.h,
 * nn_activation.h, nn_attention.h, nn_container.h, nn_conv.h, nn_embedding.h,
 * nn_loss.h, nn_norm.h, nn_recurrent.h. Other initial values: nn_init.h. */

#define TN_NN_LINEAR_OPTIONS_LIST(X) X(bool, bias, true)
TN_OPTIONS_STRUCT(tn_nn_linear, TN_NN_LINEAR_OPTIONS_LIST);
#define TN_NN_LINEAR_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_nn_linear, TN_NN_LINEAR_OPTIONS_LIST)
/* y = x weight^T + bias: (..., in) to (..., out). Parameters: weight (out, in),
 * bias (out). Source: torch.nn.Linear. */
TN_API tn_module *tn_nn_linear_with(int64_t in_features, int64_t out_features,
                                    const tn_nn_linear_options *options);

/* In training mode, sets elements to 0 with probability p and scales the others
 * by 1 / (1 - p). Source: torch.nn.Dropout. */
TN_API tn_module *tn_nn_dropout(double p);

/* A sequence of modules, named "0", "1", ... The macro counts them. It runs its
 * children in the order of registration, also those that tn_module_append and
 * tn_module_add add. Source: torch.nn.Sequential. */
TN_API tn_module *tn_nn_sequential_with(tn_module *const *modules, int count);

#ifndef __cplusplus
#define tn_forward(module, ...)                                               \
    tn_forward_inputs(module, (tn_tensor *[]){__VA_ARGS__, TN_INPUTS_END})
#define tn_functional_call(module, values, count, ...)                        \
    tn_forward(tn_module_substitute_with(module, values, count, NULL),        \
               __VA_ARGS__)
#define tn_module_substitute(...)                                             \
    TN_CALL_3(tn_module_substitute, __VA_ARGS__, )
#define tn_module_load(...) TN_CALL_2(tn_module_load, __VA_ARGS__, )
#define tn_summary(...) TN_CALL_3(tn_summary, __VA_ARGS__, )
#define tn_module_to(...) TN_CALL_1(tn_module_to, __VA_ARGS__, )
#define tn_nn_linear(...) TN_CALL_2(tn_nn_linear, __VA_ARGS__, )
#define tn_nn_sequential(...)                                                 \
    tn_nn_sequential_with(                                                    \
        (tn_module *[]){__VA_ARGS__},                                         \
        (int)(sizeof((tn_module *[]){__VA_ARGS__}) / sizeof(tn_module *)))
#else
} /* extern "C" */
template <typename... Inputs>
inline tn_tensor *tn_forward(tn_module *module, tn_tensor *first,
                             tn_tensor *second, Inputs... others)
{
    tn_tensor *list[] = {first, second, others..., TN_INPUTS_END};
    return tn_forward_inputs(module, list);
}
TN_OVERLOAD_2(tn_status, tn_module_load, tn_module *, const char *)
TN_OVERLOAD_1(void *, tn_module_to, tn_module *)
TN_OVERLOAD_3(tn_status, tn_summary, FILE *, tn_module *, tn_dims_list)
TN_OVERLOAD_3(tn_module *, tn_module_substitute, tn_module *,
              tn_tensor *const *, int)
template <typename... Inputs>
inline tn_tensor *tn_functional_call(tn_module *module,
                                     tn_tensor *const *values, int count,
                                     Inputs... inputs)
{
    return tn_forward(tn_module_substitute_with(module, values, count, nullptr),
                      inputs...);
}
TN_OVERLOAD_2(tn_module *, tn_nn_linear, int64_t, int64_t)
template <typename... Modules>
inline tn_module *tn_nn_sequential(Modules... modules)
{
    tn_module *list[] = {modules...};
    return tn_nn_sequential_with(list, (int)sizeof...(modules));
}
extern "C" {
#endif

#ifdef __cplusplus
}
#endif

#include <tenon/nn_activation.h>
#include <tenon/nn_attention.h>
#include <tenon/nn_container.h>
#include <tenon/nn_conv.h>
#include <tenon/nn_embedding.h>
#include <tenon/nn_init.h>
#include <tenon/nn_layers.h>
#include <tenon/nn_loss.h>
#include <tenon/nn_norm.h>
#include <tenon/nn_recurrent.h>

#endif
