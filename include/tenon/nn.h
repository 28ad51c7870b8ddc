/* <tenon/nn.h>: layers, and models made of them.
 *
 * A module is a struct whose first member is a tn_module. Its children,
 * parameters and buffers are registered under names. Models are traversed,
 * moved and saved by these names. An error message begins with the path of
 * names to the module that failed ("features.3: conv2d: ...").
 *
 *     struct net { tn_module base; tn_module *conv, *fc; };
 *
 *     static tn_tensor *net_forward(tn_module *self, tn_tensor *x)
 *     {
 *         struct net *net = (struct net *)self;
 *         x = tn_relu(tn_forward(net->conv, x));
 *         return tn_forward(net->fc, tn_flatten(x, .start_dim = 1));
 *     }
 *     static const tn_module_class net_class =
 *         TN_MODULE_CLASS(struct net, "Net", .forward = net_forward);
 *
 *     static tn_module *net_new(void)
 *     {
 *         struct net *net = tn_module_new(&net_class);
 *         TN_MODULE_ADD(net, conv, tn_nn_conv2d(1, 16, 3));
 *         TN_MODULE_ADD(net, fc, tn_nn_linear(16 * 36, 10));
 *         return (tn_module *)net;
 *     }
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
 * its own module path, and its own random numbers for dropout. */
#ifndef TENON_NN_H
#define TENON_NN_H

#include <tenon/compile.h>
#include <tenon/hook.h>
#include <tenon/options.h>
#include <tenon/parameters.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- modules ------------------------------------------------------------ */

typedef struct tn_module tn_module;

typedef struct tn_module_class {
    size_t size;       /* sizeof(tn_module_class) */
    const char *name;  /* "Linear" */
    size_t bytes;      /* size of an instance: sizeof(struct net) */
    /* Called by tn_forward. For a module with one input and one output; NULL if
     * the class has a forward_list. */
    tn_tensor *(*forward)(tn_module *self, tn_tensor *input);
    /* Writes what a printed module has between its parentheses, "in_features=3,
     * out_features=4", into text, which holds room bytes. May be NULL. */
    void (*describe)(const tn_module *self, char *text, size_t room);
    /* Frees what the instance holds, except registered objects. May be NULL. */
    void (*release)(tn_module *self);
    /* Called instead of forward for a module with several inputs or outputs.
     * in[] has an element for each input of the signature; it is NULL if an
     * optional input was left out. out[] has an element for each output, NULL
     * at first. The function sets them to tensors owned by the open scope. The
     * caller needs the first out_count outputs, at least 1. If one of these
     * stays NULL, the forward has failed. Further outputs need not be
     * computed. */
    void (*forward_list)(tn_module *self, tn_tensor *const *in, int in_count,
                         tn_tensor **out, int out_count);
    /* The names of inputs and outputs, with '?' after an input that may be left
     * out: "x, memory, mask? -> y, weights". At most TN_MODULE_VALUES inputs
     * and as many outputs. NULL means one input and one output. */
    const char *signature;
    /* Called by tn_module_clone after it has copied the members of from to self
     * bit by bit and replaced pointers to registered objects. For everything
     * that release frees, the function must give self a copy or a reference of
     * its own. Required if there is a release. */
    tn_status (*clone)(tn_module *self, const tn_module *from);
    /* For a module that is used as a parametrization (nn_parametrize.h): sets
     * out[i], for each required input i, to a tensor from which forward computes
     * value. If out[0] stays NULL, there is no such tensor. May be NULL. */
    tn_status (*right_inverse)(tn_module *self, tn_tensor *value,
                               tn_tensor **out);
} tn_module_class;
#define TN_MODULE_VALUES 16
/* Initialises the tn_module_class of modules of type, whose first member is a
 * tn_module. The other arguments are members: .forward, .signature ... In C++
 * it requires C++20. */
#define TN_MODULE_CLASS(type, label, ...)                                     \
    {.size = sizeof(tn_module_class), .name = label, .bytes = sizeof(type),   \
     __VA_ARGS__}

/* Closed: a module's own members follow it. */
struct tn_module {
    tn_object object;
    const tn_module_class *type;
    struct tn_module_tree *tree; /* registered objects; internal */
    bool training;               /* set by tn_module_train */
};

/* Makes a zeroed instance of type, in training mode, owned by the open scope.
 * tn_module_new_with allocates `extra` more bytes after the instance. Returns
 * NULL with TN_ERR_MEMORY if memory runs out, TN_ERR_ARGUMENT if type has no
 * name or does not have exactly one of forward and forward_list, and
 * TN_ERR_FORMAT if its signature is malformed. */
TN_API void *tn_module_new(const tn_module_class *type);
TN_API void *tn_module_new_with(const tn_module_class *type, size_t extra);

/* Registers child under name ("fc1") and holds a reference to it. A name is
 * unique within its module and contains no dots. Returns child. Returns NULL if
 * an argument is NULL, and NULL with TN_ERR_ARGUMENT for an invalid name or
 * more than 128 nested modules. */
TN_API void *tn_module_add(tn_module *module, const char *name,
                           tn_module *child);
/* Registers value as a parameter (which then requires a gradient) or as a
 * buffer, and holds a reference to it. Returns value. Do not call it for an
 * optional parameter that is absent, such as a bias. */
TN_API tn_tensor *tn_module_add_parameter(tn_module *module, const char *name,
                                          tn_tensor *value);
TN_API tn_tensor *tn_module_add_buffer(tn_module *module, const char *name,
                                       tn_tensor *value);
/* In the function that makes a module of your own, these register a child, a
 * parameter or a buffer under the name of a member of self, and store it there.
 * self points to your struct. It may be NULL, as tn_module_new returns it on
 * failure; then nothing happens.
 *
 *     TN_MODULE_ADD(net, conv, tn_nn_conv2d(1, 16, 3));
 *     net->conv = tn_module_add(&net->base, "conv", tn_nn_conv2d(1, 16, 3));
 *
 * do the same. If value is NULL or is rejected, the member is NULL and the
 * error is pending. */
#define TN_MODULE_ADD(self, member, ...)                                      \
    TN__MODULE_SET(self, member, tn_module_add, __VA_ARGS__)
#define TN_MODULE_ADD_PARAMETER(self, member, ...)                            \
    TN__MODULE_SET(self, member, tn_module_add_parameter, __VA_ARGS__)
#define TN_MODULE_ADD_BUFFER(self, member, ...)                               \
    TN__MODULE_SET(self, member, tn_module_add_buffer, __VA_ARGS__)
#define TN__MODULE_SET(self, member, add, ...)                                \
    do {                                                                      \
        if (self)                                                             \
            (self)->member = TN__MODULE_AS((self)->member)                    \
                add((tn_module *)(self), #member, __VA_ARGS__);               \
    } while (0)
#ifndef __cplusplus
#define TN__MODULE_AS(member)
#else
#define TN__MODULE_AS(member) (decltype(member))
#endif

/* Runs the module. The message of an error inside the module begins with the
 * module's path: "encoder.3.fc: linear: ...". Returns the first output of the
 * module, owned by the open scope. In C, tn_forward is a macro that accepts
 * several inputs:
 *
 *     tn_tensor *y = tn_forward(net, x);
 *     tn_tensor *z = tn_forward(cross, y, memory);
 *
 * Passing NULL for an optional input leaves it out, unless an error is pending.
 * Returns NULL if module or a required input is NULL, and NULL with
 * TN_ERR_ARGUMENT if module is not a module or the number of inputs does not
 * fit its signature. */
TN_API tn_tensor *tn_forward(tn_module *module, tn_tensor *input);

/* Runs the module on count inputs and stores its first out_count outputs in
 * out[]. On failure these are set to NULL, and the status of the error is
 * returned.
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
 *         out[1] = memory;
 *     }
 *     static const tn_module_class cross_class =
 *         TN_MODULE_CLASS(struct cross, "Cross",
 *                         .forward_list = cross_forward,
 *                         .signature = "x, memory -> y, memory"); */
TN_API tn_status tn_forward_list(tn_module *module, tn_tensor *const *inputs,
                                 int count, tn_tensor **out, int out_count);

/* What the macro tn_forward calls: runs module on a list of inputs that ends
 * with TN_INPUTS_END, which the macro appends. */
TN_API tn_tensor *tn_forward_inputs(tn_module *module,
                                    tn_tensor *const *inputs);
#define TN_INPUTS_END ((tn_tensor *)~(uintptr_t)0)

/* Returns the signature of the module's class, "x, memory, mask? -> y", or
 * "input -> output" if the class has none. Returns NULL if module is NULL. The
 * result is lent: valid while module lives. */
TN_API const char *tn_module_signature(const tn_module *module);

/* ---- hooks ---------------------------------------------------------------
 * Functions that are called before and after a module's forward and backward:
 *
 *                               input argument  output argument  replaces
 *   forward_pre_hook            input           NULL             input
 *   forward_hook                input           output           output
 *   full_backward_pre_hook      NULL            output gradient  output grad.
 *   full_backward_hook          input gradient  output gradient  input grad.
 *
 *     // halves what the encoder passes on to the layers below it
 *     static tn_tensor *halve(tn_module *module, tn_tensor *grad_input,
 *                             tn_tensor *grad_output, void *context)
 *     {
 *         return tn_mul_scalar(grad_input, 0.5);
 *     }
 *     tn_module_register_full_backward_hook(net->encoder, halve, NULL);
 *
 * All tensors are lent. A hook returns a replacement, or NULL to replace
 * nothing. The replacement of a gradient has the same shape, dtype and device.
 * To fail, a hook records an error (tn_error_set). That ends the forward or
 * backward pass, and the message begins with the module's path. Hooks of one
 * kind run in the order of registration. The module owns the hook. The open
 * scope owns the returned handle, which tn_hook_remove accepts. The context is
 * lent. If a module has several inputs or outputs, these hooks get the first
 * one (query, tgt or input1); a list hook gets all. If one tensor is given for
 * several inputs, they count as one input.
 *
 * A backward pass (tn_backward, tn_grad) calls the backward hooks that the
 * module had when its forward was recorded. It calls them once for each run of
 * the module. The input gradient is that of this run only, even if the input
 * tensor is used elsewhere. If the input requires no gradient, a full backward
 * hook gets NULL for it and must return NULL (else TN_ERR_STATE). tn_grad calls
 * the hook only if the module's input depends on one of the tensors that
 * tn_grad differentiates by. Source: torch.nn.Module.register_forward_pre_hook,
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

/* A forward hook that gets all inputs and outputs of its module. An optional
 * input that was left out is NULL. The hook replaces a tensor by assigning to
 * inputs[i] (before forward) or outputs[i] (after it). Before forward,
 * output_count is 0. To fail, the hook records an error; if it returns a
 * negative status without one, the error is TN_ERR_STATE. Ownership and order
 * are those of the hooks above.
 *
 * The backward list hooks get the gradients of all inputs and outputs, and
 * replace one by assigning to outputs[i] (before the backward of the module;
 * input_count is 0) or inputs[i] (after it). A gradient is NULL if the backward
 * pass does not need it or the input requires none; a tensor that is given for
 * several inputs has its gradient at the first of them. */
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
TN_API tn_hook *tn_module_register_full_backward_pre_list_hook(
    tn_module *module, tn_module_list_hook hook, void *context);
TN_API tn_hook *
tn_module_register_full_backward_list_hook(tn_module *module,
                                           tn_module_list_hook hook,
                                           void *context);

/* Switches recomputation (gradient checkpointing, recompute.h) on or off for
 * module. While recording, tn_forward then saves only the module's input, and
 * the backward pass runs the module again. This needs less memory, and the
 * gradients are bit-identical. Buffers that forward changes (running averages
 * of batch norm) change twice. Returns module. */
TN_API void *tn_module_set_recompute(tn_module *module, bool on);

/* tn_module_begin and tn_module_end are for a module whose forward has
 * arguments that are not tensors, so that tn_forward cannot call it. Code
 * between tn_module_begin and tn_module_end runs as the forward of the module
 * does within tn_forward: with its path in error messages, and with its hooks.
 * tn_module_begin runs the hooks before forward; they may replace elements of
 * inputs[]. It sets all elements to NULL if a hook failed or inputs[0] was
 * NULL. inputs[] must be valid until tn_module_end. tn_module_end moves out[0]
 * .. out[count - 1] to the caller's scope and returns true. If one of them is
 * NULL, it sets all of them to NULL and returns false.
 *
 *     tn_tensor *in[] = {x}, *out;
 *     tn_module_call call = tn_module_begin(net, in, 1);
 *     struct net *self = (struct net *)call.self;
 *     out = tn_roll(tn_linear(in[0], self->weight, NULL), tn_dims(shift));
 *     tn_module_end(net, &call, &out, 1);
 *     return out;
 *
 * Closed; the members other than self are for the library's use. */
typedef struct tn_module_call {
    tn_scope *scope;
    const tn_path *path;      /* the thread's module path before the call */
    const tn_module *running; /* the module that called this one, or NULL */
    tn_tensor **inputs;       /* inputs, perhaps replaced by hooks; lent */
    int count;                /* number of inputs */
    struct tn__nn_passage *passage; /* for backward hooks, or NULL; owned by
                                       scope */
    tn_module *self; /* the instance whose members the call uses: the module, or
                        a copy of it until tn_module_end, if a parameter is
                        parametrized or pruned (nn_parametrize.h) */
} tn_module_call;
TN_API tn_module_call tn_module_begin(tn_module *module, tn_tensor **inputs,
                                      int count);
TN_API bool tn_module_end(tn_module *module, tn_module_call *call,
                          tn_tensor **out, int count);

/* Returns the child, parameter or buffer with this path ("conv.weight") below
 * module. It is lent: valid while its owner lives. A parametrized or pruned
 * parameter or buffer is computed; the open scope owns it. Returns NULL with
 * TN_ERR_ARGUMENT if there is none. */
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

/* Options of tn_module_compile: plans, check_every, fuse and freeze of
 * tn_compile, and
 *   off   true runs the module as it is again */
#define TN_MODULE_COMPILE_OPTIONS_LIST(X)                                     \
    X(int64_t, plans, 8)                                                      \
    X(int64_t, check_every, 0)                                                \
    X(bool, fuse, true)                                                       \
    X(bool, off, false)                                                       \
    X(bool, freeze, false)
TN_OPTIONS_STRUCT(tn_module_compile, TN_MODULE_COMPILE_OPTIONS_LIST);
#define TN_MODULE_COMPILE_OPTIONS                                             \
    TN_OPTIONS_DEFAULTS(tn_module_compile, TN_MODULE_COMPILE_OPTIONS_LIST)
/* Lets tn_forward(module, ...) run through a compiled function (compile.h) from
 * now on, with the same bits. What the forwards of the module and of those below it
 * do besides calling Tenon happens in the first calls only. A call is captured again
 * if a mode (tn_module_train), or a parameter or buffer of the module was replaced.
 * Members of the instance that are C values are part of the program: call
 * tn_module_compile again after changing one. Calls within another compiled
 * function, or while a graph is recorded, become a part of it.
 *
 * For inference: tn_forward fails with TN_ERR_STATE if a gradient would be
 * needed. Call it within TN_NO_GRAD, and compile training as a whole
 * (tn_compile_step). It also fails if a module has a hook, which a replay would
 * not call, if another thread is running the module, or, with .freeze, if a
 * module is in training mode.
 *
 * Fails with TN_ERR_ARGUMENT for a bad argument or option, TN_ERR_MEMORY, or
 * TN_ERR_STATE while an error is pending. Source: torch.nn.Module.compile. */
TN_API tn_status tn_module_compile_with(tn_module *module,
                                        const tn_module_compile_options *options);
/* Returns the compiled function that the last call of module used, for its counts
 * and its text. It is lent, until the module's next call. Returns NULL, without an
 * error, if the module is not compiled or was not called since. */
TN_API tn_compiled *tn_module_compiled(const tn_module *module);
/* Makes a program for inference of a module that is called with one input and
 * returns one output: a frozen function (compile.h), which the open scope owns
 * and which keeps the module. It is ready for inputs with the dtype, shape and
 * device of `example`; other inputs are captured at their first calls. It stays a
 * program of evaluation mode if the module is trained later.
 *
 *     tn_module_eval(net);
 *     tn_compiled *frozen = tn_freeze(net, tn_zeros(tn_dims(1, 3, 224, 224)));
 *     tn_compiled_run(frozen, &image, 1, &scores, 1);
 *
 * Runs the module twice. Returns NULL with TN_ERR_STATE if a module is in
 * training mode (tn_module_eval) or has a hook, with TN_ERR_ARGUMENT if example
 * is NULL, and as the module and tn_compiled_run fail. For modules that need
 * several inputs use tn_module_compile(net, .freeze = true). Source:
 * torch.jit.freeze. */
TN_API tn_compiled *tn_freeze(tn_module *net, tn_tensor *example);

/* Moves parameters and buffers to device, and converts floating-point ones to
 * dtype; integer tensors keep their dtype. Either option may be left out.
 * Gradients are removed. The tensors stay the same objects, so pointers to them
 * in the module and in optimizers stay valid. The state of an optimizer is not
 * converted, so make the optimizer afterwards. Returns module. On failure,
 * nothing is changed and the result is NULL, with TN_ERR_ARGUMENT if neither
 * option is given, TN_ERR_DTYPE if dtype is not a floating-point dtype,
 * TN_ERR_STATE if a buffer is the result of a recorded operator, or
 * TN_ERR_MEMORY if memory runs out. Source: torch.nn.Module.to. */
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

/* Makes a deep copy of module, owned by the open scope. It has copies of the
 * modules below it, of their parameters and buffers, and the same modes
 * (training, recompute, requires_grad). A parameter that two modules share is
 * shared in the copy too. The copy has no gradients and no hooks. Members of an
 * instance that point to a registered module, parameter or buffer, or into the
 * instance itself, point to those of the copy. All other members are copied bit
 * by bit. Returns NULL with TN_ERR_UNSUPPORTED if a class has a release but no
 * clone, or with TN_ERR_MEMORY if memory runs out. Source: copy.deepcopy. */
TN_API void *tn_module_clone(const tn_module *module);

/* Returns a copy of module that uses values[i] in place of parameter i of
 * tn_parameters(module), where count is the number of parameters. The copy
 * shares the buffers, and has the same modes and hooks. With names, values[i]
 * replaces the parameter or buffer with the path names[i], and the copy shares
 * the other tensors with module. values may be results of operators; gradients
 * pass to their inputs. module itself does not change. The open scope owns the
 * copy. Returns NULL with TN_ERR_ARGUMENT if a value is NULL, count is wrong or
 * module lacks a name, with TN_ERR_SHAPE if the shapes of a value and a
 * parameter differ, and for the reasons of tn_module_clone.
 *
 *     // one step of gradient descent that can be differentiated
 *     for (int i = 0; i < count; i++)
 *         fast[i] = tn_sub(tn_parameters_at(list, i),
 *                          tn_mul_scalar(grad[i], 0.1));
 *     tn_tensor *y = tn_functional_call(net, fast, count, x);
 *
 * tn_functional_call(module, values, count, inputs ...) is tn_forward of the
 * copy. Source: torch.func.functional_call. */
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

/* Returns the number of elements in all parameters of module. */
TN_API int64_t tn_module_parameter_count(const tn_module *module);

/* Writes the module tree as PyTorch prints it. TN_ERR_IO if writing fails. */
TN_API tn_status tn_module_print(FILE *file, const tn_module *module);

/* The totals of tn_summary. A tensor that is shared counts once. */
typedef struct tn_summary_totals {
    size_t size;                  /* sizeof(tn_summary_totals) */
    int64_t parameters;           /* elements of all parameters */
    int64_t trainable;            /* elements that require gradients */
    int64_t parameter_bytes, buffer_bytes;
    int64_t output_bytes;         /* outputs of modules that call no other */
    int64_t multiply_adds;
} tn_summary_totals;

/* Runs module once on zeros of this shape, in evaluation mode and without
 * recording, and writes a table to file: a line for each module that was run,
 * with the shape of its output, its own parameters, and the multiply-adds of
 * convolutions and of linear, bilinear, recurrent and attention layers. Other
 * operators are not counted.
 *
 *   dtype    dtype of the zeros; TN_I64 for a module that begins with an
 *            embedding. Default: that of the first parameter, else the
 *            default dtype
 *   inputs, input_count   inputs to run on instead of zeros; shape is ignored
 *   totals   if given, it is set to the totals, and file may be NULL
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

/* Makes a list of the parameters of a module and all modules below it, for an
 * optimizer. They are in the order of registration, and a shared parameter is
 * listed once. Frozen parameters (tn_module_set_requires_grad) are listed, too;
 * an optimizer skips those without a gradient. The open scope owns the list,
 * which holds references to the tensors. Returns NULL if module is NULL. */
TN_API tn_parameter_list *tn_parameters(tn_module *module);

/* Makes a list of the parameters and buffers, as tn_module_save writes them and
 * in the same order. Otherwise like tn_parameters. */
TN_API tn_parameter_list *tn_module_state(tn_module *module);

/* ---- weights in files --------------------------------------------------- */

/* Writes parameters and buffers, named by their paths, to a safetensors file.
 * The file is replaced atomically. The errors are those of tn_safetensors_save
 * (io.h). */
TN_API tn_status tn_module_save(const tn_module *module, const char *path);

/* Renames tensors of a file: in a name that begins with from, this prefix is
 * replaced by to. If to is NULL, the tensor is skipped. Closed. */
typedef struct tn_rename {
    const char *from, *to;
} tn_rename;

/* Reads parameters and buffers from a safetensors file into the existing
 * tensors of module, on their devices.
 *
 *   strict  true: the file must have exactly the module's names, shapes and
 *           dtypes. false: tensors that only the file or only the module has
 *           are skipped, and dtypes are converted; shapes must match
 *   rename  a list that ends with {NULL, NULL}; for each name in the file, the
 *           first element whose prefix fits is used
 *   report  set to a list of the differences, also on success if strict is
 *           false; set to NULL if the file could not be read. Owned by the
 *           open scope
 *
 *     tn_module_report *report;
 *     tn_module_load(net, "resnet50.safetensors", .strict = false,
 *                    .rename = (tn_rename[]){{"module.", ""},
 *                                            {"classifier.", NULL},
 *                                            {NULL, NULL}},
 *                    .report = &report);
 *
 * On failure nothing is changed. If names, shapes or dtypes differ, the error
 * is TN_ERR_ARGUMENT, TN_ERR_SHAPE or TN_ERR_DTYPE, depending on the first
 * difference. Its message lists all differences, cut at 1600 bytes.
 * TN_ERR_ARGUMENT also if rename gives two tensors of the file the same name.
 * Other errors are those of tn_safetensors_open (io.h). Source:
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

/* Kinds of difference between a file and a module. */
enum {
    TN_LOAD_MISSING,    /* the file lacks a tensor of the module */
    TN_LOAD_UNEXPECTED, /* the module lacks a tensor of the file */
    TN_LOAD_SHAPE,      /* the shapes differ */
    TN_LOAD_DTYPE       /* the dtypes differ */
};
typedef struct tn_load_difference {
    size_t size;         /* sizeof(tn_load_difference) */
    int32_t kind;        /* TN_LOAD_... */
    const char *name;    /* its name in the module; NULL if unexpected */
    const char *in_file; /* its name in the file; NULL if missing */
    const char *nearest; /* for a missing name, the most similar unexpected one,
                            and vice versa; NULL if none is similar */
    const char *text;    /* the difference as a sentence */
} tn_load_difference;

/* Return the number of differences, difference i, and a string with all
 * differences, one on each line, without a newline after the last. The order is
 * that of the module's names, followed by that of the file's. The report owns
 * the results. If i is out of range, the result is NULL. Cannot fail. */
TN_API int tn_module_report_count(const tn_module_report *report);
TN_API const tn_load_difference *
tn_module_report_at(const tn_module_report *report, int i);
TN_API const char *tn_module_report_text(const tn_module_report *report);

/* ---- layers ---------------------------------------------------------------
 * Each function returns a module owned by the open scope, with its parameters
 * on the current device. Shapes are documented with the operator of the same
 * name in <tenon/ops.h>. Returns NULL with TN_ERR_ARGUMENT or TN_ERR_SHAPE for
 * a size or an option that is not allowed, with TN_ERR_MEMORY if memory runs
 * out. More layers: nn_layers.h, nn_activation.h, nn_attention.h,
 * nn_container.h, nn_conv.h, nn_embedding.h, nn_loss.h, nn_norm.h,
 * nn_recurrent.h. Other initial values: nn_init.h. */

#define TN_NN_LINEAR_OPTIONS_LIST(X) X(bool, bias, true)
TN_OPTIONS_STRUCT(tn_nn_linear, TN_NN_LINEAR_OPTIONS_LIST);
#define TN_NN_LINEAR_OPTIONS                                                  \
    TN_OPTIONS_DEFAULTS(tn_nn_linear, TN_NN_LINEAR_OPTIONS_LIST)
/* y = x weight^T + bias, from x (..., in) to y (..., out). Parameters: weight
 * (out, in), bias (out). Source: torch.nn.Linear. */
TN_API tn_module *tn_nn_linear_with(int64_t in_features, int64_t out_features,
                                    const tn_nn_linear_options *options);

/* In training mode, sets elements to 0 with probability p and scales the others
 * by 1 / (1 - p). Source: torch.nn.Dropout. */
TN_API tn_module *tn_nn_dropout(double p);

/* A module that runs its children one after another, each on the output of the
 * one before. They are named "0", "1", ... tn_module_append adds one more, and
 * tn_module_add one with a name:
 *
 *     tn_module *net = tn_nn_sequential();
 *     tn_module_add(net, "backbone", backbone);
 *     tn_module_add(net, "head", tn_nn_linear(128, 10));
 *
 * The macro counts the arguments. Source: torch.nn.Sequential. */
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
#define tn_module_compile(...) TN_CALL_1(tn_module_compile, __VA_ARGS__, )
#define tn_nn_linear(...) TN_CALL_2(tn_nn_linear, __VA_ARGS__, )
/* The first element is not used. It keeps the array from being empty, which C
 * does not allow, if the macro has no arguments. */
#define tn_nn_sequential(...)                                                 \
    tn_nn_sequential_with(                                                    \
        (tn_module *[]){NULL, __VA_ARGS__} + 1,                               \
        (int)(sizeof((tn_module *[]){NULL, __VA_ARGS__}) /                    \
              sizeof(tn_module *)) - 1)
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
TN_OVERLOAD_1(tn_status, tn_module_compile, tn_module *)
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
    tn_module *list[] = {nullptr, modules...};
    return tn_nn_sequential_with(list + 1, (int)sizeof...(modules));
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
#include <tenon/nn_parametrize.h>
#include <tenon/nn_prune.h>
#include <tenon/nn_recurrent.h>

#endif
