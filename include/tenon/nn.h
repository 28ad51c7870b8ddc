/* <tenon/nn.h>: layers, and models made of them.
 *
 * A module is a struct that begins with a tn_module; children, parameters and
 * buffers are registered under names, so that a model can be walked, moved,
 * saved and its errors told by path ("features.3: conv2d: ...").
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
 *         sizeof net_class, "Net", sizeof(struct net), net_forward};
 *
 *     struct net *net = tn_module_new(&net_class);
 *     net->conv = tn_module_add(&net->base, "conv", tn_nn_conv2d(1, 16, 3));
 *     net->fc = tn_module_add(&net->base, "fc", tn_nn_linear(16 * 36, 10));
 *
 * or, where one layer follows another,
 *
 *     tn_module *net = tn_nn_sequential(tn_nn_linear(784, 128), tn_nn_relu(),
 *                                       tn_nn_linear(128, 10));
 *
 * Layers, their parameters' names and their initial values are PyTorch's; the
 * numbers come from Tenon's generator (tn_manual_seed).
 *
 * Threads: Several threads may run one model at once as long as nobody changes
 * it: no step of an optimizer, no tn_module_load or _to, and no layer in
 * training mode that keeps statistics (batch norm). Building, walking and
 * registering belong to one thread at a time. Each thread has its own path and
 * its own random numbers for dropout.
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
    size_t bytes;      /* of an instance */
    /* What tn_forward calls. */
    tn_tensor *(*forward)(tn_module *self, tn_tensor *input);
    /* Writes what stands between the parentheses when a model is printed:
     * "in_features=3, out_features=4". May be NULL. */
    void (*describe)(const tn_module *self, char *text, size_t room);
    /* Gives back what the instance holds besides what was registered. May be
     * NULL. */
    void (*release)(tn_module *self);
} tn_module_class;

/* Closed: a module's own fields stand behind it. */
struct tn_module {
    tn_object object;
    const tn_module_class *type;
    struct tn_module_tree *tree; /* what was registered: the library's */
    bool training;               /* set by tn_module_train */
};

/* A zeroed instance of type, in training mode, owned by the open scope; _with:
 * and `extra` bytes behind it. */
TN_API void *tn_module_new(const tn_module_class *type);
TN_API void *tn_module_new_with(const tn_module_class *type, size_t extra);

/* Registers child under name ("fc1": no dots, not used before) and keeps it.
 * Returns child, of whatever type you have it. NULL if any argument is, and
 * where more than 128 modules would lie within each other. */
TN_API void *tn_module_add(tn_module *module, const char *name,
                           tn_module *child);
/* Registers value as a parameter (it will require gradients) or as a buffer
 * and keeps it. Returns value. A parameter that is left out (NULL, as a bias)
 * needs no registration. */
TN_API tn_tensor *tn_module_add_parameter(tn_module *module, const char *name,
                                          tn_tensor *value);
TN_API tn_tensor *tn_module_add_buffer(tn_module *module, const char *name,
                                       tn_tensor *value);

/* Runs the module. An error that arises within begins with the module's path:
 * "encoder.3.fc: linear: ...". NULL if module or input is; TN_ERR_ARGUMENT if
 * module is none. */
TN_API tn_tensor *tn_forward(tn_module *module, tn_tensor *input);

/* ---- hooks ---------------------------------------------------------------
 * Called around the forward and the backward of a module:
 *
 *                               input           output           may replace
 *   forward_pre_hook            what goes in    NULL             input
 *   forward_hook                what went in    what comes out   output
 *   full_backward_pre_hook      NULL            its gradient     output's
 *   full_backward_hook          its gradient    its gradient     input's
 *
 *     // halves what the encoder passes on to the layers below it
 *     static tn_tensor *halve(tn_module *module, tn_tensor *grad_input,
 *                             tn_tensor *grad_output, void *context)
 *     {
 *         return tn_mul_scalar(grad_input, 0.5);
 *     }
 *     tn_module_register_full_backward_hook(net->encoder, halve, NULL);
 *
 * All tensors are lent. Returns another to take its place (a gradient: of the
 * same shape, dtype and device), or NULL to leave it; an error recorded
 * meanwhile (tn_error_set) ends the forward or the walk, and its message begins
 * with the module's path. Hooks of a kind run in the order of registration and
 * belong to the module; the handle, for tn_hook_remove, to the open scope. A
 * context is lent. Of a module with several inputs or outputs hooks see the
 * first, which is query, tgt or input1; a tensor that is given for several
 * inputs at once is one.
 *
 * Gradients pass the hooks that the module had when it ran while recording, in
 * tn_backward and tn_grad, each run of the module by itself: the gradient of
 * the input is that of this run alone, whatever else the tensor is used for. If
 * the input requires none, the full backward hook gets NULL for it and must
 * return NULL (else TN_ERR_STATE). tn_grad runs it where the walk leads through
 * the input. Source: torch.nn.Module.register_forward_pre_hook,
 * register_forward_hook, register_full_backward_pre_hook,
 * register_full_backward_hook. */
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

/* From now on tn_forward of module keeps its input alone while gradients are
 * recorded, and runs again when one asks (recompute.h): gradients with the same
 * bits for less memory. Buffers that its forward changes (the running averages
 * of batch norm) change twice. Returns module. */
TN_API void *tn_module_set_recompute(tn_module *module, bool on);

/* For modules with other inputs and outputs, whose own function runs them: what
 * lies between begin and end is run as by tn_forward, on the count tensors that
 * begin leaves in inputs[]: those that were there or what hooks gave instead,
 * and NULL, all of them, where one failed or inputs[0] was. end hands on out[0]
 * .. out[count - 1], and is true; if one of them is NULL it sets all to NULL
 * and is false.
 *
 *     tn_tensor *in[] = {a, b}, *out;
 *     tn_module_call call = tn_module_begin(net, in, 2);
 *     out = tn_bilinear(in[0], in[1], net->weight, NULL);
 *     tn_module_end(net, &call, &out, 1);
 *     return out;
 *
 * Closed; what it holds is the library's. */
typedef struct tn_module_call {
    tn_scope *scope;
    const tn_path *path;      /* of the thread, before */
    const tn_module *running; /* before */
    tn_tensor *input;         /* the first, as forward gets it: lent */
    struct tn__nn_passage *passage; /* owned by scope; NULL: gradients pass
                                       unseen */
} tn_module_call;
TN_API tn_module_call tn_module_begin(tn_module *module, tn_tensor **inputs,
                                      int count);
TN_API bool tn_module_end(tn_module *module, tn_module_call *call,
                          tn_tensor **out, int count);

/* What is registered under name, by a path ("conv.weight") from module; NULL
 * (TN_ERR_ARGUMENT) if nothing is. Lent. */
TN_API tn_module *tn_module_child(const tn_module *module, const char *path);
TN_API tn_tensor *tn_module_parameter(const tn_module *module, const char *path);
TN_API tn_tensor *tn_module_buffer(const tn_module *module, const char *path);
/* Calls visit for module and all below it, parents first; path is "" for
 * module itself. */
TN_API void tn_module_walk(tn_module *module,
                           void (*visit)(tn_module *module, const char *path,
                                         void *context),
                           void *context);

/* Training mode on or off, for module and all below it (dropout, batch norm).
 * Returns module. */
TN_API void *tn_module_train(tn_module *module, bool on);
#define tn_module_eval(module) tn_module_train(module, false)

/* Moves parameters and buffers to device, and forgets gradients. The tensors
 * stay the same objects, so pointers to them (a module's own, an optimizer's)
 * stay good. Returns module; NULL, with nothing moved, on failure. */
TN_API void *tn_module_to(tn_module *module, tn_device *device);

/* Forgets the gradients of all parameters. */
TN_API void tn_module_zero_grad(tn_module *module);

/* Elements in all parameters. */
TN_API int64_t tn_module_parameter_count(const tn_module *module);

/* Writes the tree as PyTorch prints it. */
TN_API tn_status tn_module_print(FILE *file, const tn_module *module);

/* The parameters of a module and all below it, each once, in the order of
 * registration: what optimizers take. Owned by the open scope; keeps the
 * tensors. NULL for NULL. */
TN_API tn_parameter_list *tn_parameters(tn_module *module);

/* Its parameters and its buffers: what tn_module_save writes, in the same
 * order. As tn_parameters else. */
TN_API tn_parameter_list *tn_module_state(tn_module *module);

/* ---- weights in files -------------------------------------------------------- */

/* Writes parameters and buffers to a safetensors file under their paths. */
TN_API tn_status tn_module_save(const tn_module *module, const char *path);
/* Reads them back in place. Every name must be there, with its shape and dtype,
 * and no other: else nothing is changed, and the error tells the names. */
TN_API tn_status tn_module_load(tn_module *module, const char *path);

/* ---- layers --------------------------------------------------------------------
 * Each makes a module owned by the open scope, on the current device. Shapes
 * are in the operator of the same name in <tenon/ops.h>. More of them, by
 * family: nn_activation.h, nn_attention.h, nn_conv.h, nn_embedding.h,
 * nn_norm.h, nn_recurrent.h. */

#define TN_NN_LINEAR_OPTIONS_LIST(X) X(bool, bias, true)
TN_OPTIONS_STRUCT(tn_nn_linear, TN_NN_LINEAR_OPTIONS_LIST);
#define TN_NN_LINEAR_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_nn_linear, TN_NN_LINEAR_OPTIONS_LIST)
/* y = x weight^T + bias: (..., in) to (..., out). Source: torch.nn.Linear. */
TN_API tn_module *tn_nn_linear_with(int64_t in_features, int64_t out_features,
                                    const tn_nn_linear_options *options);

/* A number holds for both axes, a list has one for each: (h, w).
 * padding_mode: "zeros", or one of tn_pad's: "reflect", "replicate",
 * "circular". */
#define TN_NN_CONV2D_OPTIONS_LIST(X)                                           \
    X(int64_t, stride, 1)                                                      \
    X(tn_dims_list, strides, TN_NONE_DIMS)                                     \
    X(int64_t, padding, 0)                                                     \
    X(tn_dims_list, paddings, TN_NONE_DIMS)                                    \
    X(bool, padding_same, false) /* as much as keeps the size; stride 1 */     \
    X(int64_t, dilation, 1)                                                    \
    X(tn_dims_list, dilations, TN_NONE_DIMS)                                   \
    X(int64_t, groups, 1)                                                      \
    X(bool, bias, true)                                                        \
    X(const char *, padding_mode, "zeros")                                     \
    X(tn_dims_list, kernel_sizes, TN_NONE_DIMS) /* kernel_size: TN_NONE_INT */
TN_OPTIONS_STRUCT(tn_nn_conv2d, TN_NN_CONV2D_OPTIONS_LIST);
#define TN_NN_CONV2D_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_nn_conv2d, TN_NN_CONV2D_OPTIONS_LIST)
/* (N, in, H, W) to (N, out, H', W'). Source: torch.nn.Conv2d. */
TN_API tn_module *tn_nn_conv2d_with(int64_t in_channels, int64_t out_channels,
                                    int64_t kernel_size,
                                    const tn_nn_conv2d_options *options);

#define TN_NN_MAX_POOL2D_OPTIONS_LIST(X)                                      \
    X(int64_t, stride, TN_NONE_INT) /* none: kernel_size */                   \
    X(int64_t, padding, 0)                                                    \
    X(int64_t, dilation, 1)                                                   \
    X(bool, ceil_mode, false)
TN_OPTIONS_STRUCT(tn_nn_max_pool2d, TN_NN_MAX_POOL2D_OPTIONS_LIST);
#define TN_NN_MAX_POOL2D_OPTIONS                                              \
    TN_OPTIONS_DEFAULTS(tn_nn_max_pool2d, TN_NN_MAX_POOL2D_OPTIONS_LIST)
/* Source: torch.nn.MaxPool2d. */
TN_API tn_module *tn_nn_max_pool2d_with(
    int64_t kernel_size, const tn_nn_max_pool2d_options *options);

/* (N, ...) to (N, product of the rest). Source: torch.nn.Flatten. */
TN_API tn_module *tn_nn_flatten(void);

/* Zeroes elements with probability p while training. Source:
 * torch.nn.Dropout. */
TN_API tn_module *tn_nn_dropout(double p);

/* Modules one after another, named "0", "1", ...; the macro counts them.
 * Source: torch.nn.Sequential. */
TN_API tn_module *tn_nn_sequential_with(tn_module *const *modules, int count);

#ifndef __cplusplus
#define tn_nn_linear(...) TN_CALL_2(tn_nn_linear, __VA_ARGS__, )
#define tn_nn_conv2d(...) TN_CALL_3(tn_nn_conv2d, __VA_ARGS__, )
#define tn_nn_max_pool2d(...) TN_CALL_1(tn_nn_max_pool2d, __VA_ARGS__, )
#define tn_nn_sequential(...)                                                 \
    tn_nn_sequential_with(                                                    \
        (tn_module *[]){__VA_ARGS__},                                         \
        (int)(sizeof((tn_module *[]){__VA_ARGS__}) / sizeof(tn_module *)))
#else
} /* extern "C" */
TN_OVERLOAD_2(tn_module *, tn_nn_linear, int64_t, int64_t)
TN_OVERLOAD_3(tn_module *, tn_nn_conv2d, int64_t, int64_t, int64_t)
TN_OVERLOAD_1(tn_module *, tn_nn_max_pool2d, int64_t)
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
#include <tenon/nn_conv.h>
#include <tenon/nn_embedding.h>
#include <tenon/nn_norm.h>
#include <tenon/nn_recurrent.h>

#endif
