/* tree.h: the tree of named entries that modules register.
 *
 * Entries are counted objects in a list. All memory of a model is allocated
 * through the library. */
#ifndef TN_LIB_NN_TREE_H
#define TN_LIB_NN_TREE_H

#include <stdatomic.h>
#include <tenon/nn.h>

/* Greatest nesting depth of modules. Functions that descend into modules are
 * recursive, and stacks are finite. */
enum { TN__NN_MAX_DEPTH = 128 };

enum tn__nn_kind { TN__NN_CHILD, TN__NN_PARAMETER, TN__NN_BUFFER };

typedef struct tn__nn_entry {
    tn_object object;
    struct tn__nn_entry *next; /* kept */
    enum tn__nn_kind kind;
    void *value;               /* kept: a tn_module or a tn_tensor */
    char name[];
} tn__nn_entry;

struct tn_module_tree {
    tn_object object;
    tn__nn_entry *first, *last;
    const char *name;  /* its name in the parent: lent by the parent's entry;
                          NULL for a root */
    const tn_module *parent; /* the last to which it was added; NULL for a
                                root */
    _Atomic(const tn_path *) path; /* path of its last call, reused while it is
                                      called from the same path */
    struct tn__nn_hook *hook; /* kept: the first hook (nn_hooks.c) */
    bool recompute;
    size_t bytes;             /* of the instance */
    uint8_t inputs, required; /* of the class's signature: all inputs, and */
    uint8_t outputs;          /* those that must be given; outputs */
    const char *input_name[]; /* of each input; interned: errors keep them */
};

/* Whether the class, perhaps of older headers, has a member. */
#define TN__NN_HAS(type, member)                                               \
    ((type)->size >= offsetof(tn_module_class, member) + sizeof(type)->member)

/* Name number i of a list of names, interned. */
const char *tn__nn_name(const char *names, int i);

/* The class's signature; "input -> output" if it has none. */
const char *tn__nn_signature(const tn_module_class *type);

/* Runs the module's forward or forward_list, through tn_recompute if the module
 * is set so. The outputs are NULL at first. */
void tn__nn_forward(tn_module *module, tn_tensor *const *inputs,
                    tn_tensor **outputs, int out_count);

/* "relu", "gelu" or "gelu_tanh" if the module is that activation and may be
 * fused into another layer: it has no hooks and is not recomputed. Else NULL
 * (nn_activation.c). */
const char *tn__nn_activation_of(const tn_module *module);
/* May this layer and an activation after it be one operator? It must be a
 * Linear without hooks and recomputation (nn_linear.c). tn__nn_linear_activate
 * runs both as the Linear's forward. */
bool tn__nn_linear_can_activate(const tn_module *module,
                                const tn_tensor *input);
tn_tensor *tn__nn_linear_activate(tn_module *module, tn_tensor *input,
                                  const char *activation);

/* Run the hooks of a module that has some (nn_hooks.c). They may replace
 * elements of inputs[] or outputs[]; inputs[0] also where the same tensor occurs
 * again. False if a hook failed. */
bool tn__nn_hooks_before(tn_module *module, tn_module_call *call,
                         tn_tensor **inputs, int count);
bool tn__nn_hooks_after(tn_module *module, const tn_module_call *call,
                        tn_tensor **outputs, int count);

/* A zeroed instance like module, without entries. Owned by the open scope. */
tn_module *tn__nn_module_like(const tn_module *module);
/* Registers value, which is not checked. False: TN_ERR_MEMORY. */
bool tn__nn_add_entry(tn_module *module, const char *name,
                      enum tn__nn_kind kind, void *value);

/* A module of this class that holds count objects of a kind ("module", or
 * "tensor" for parameters), named by their numbers. Errors name the call `what`
 * and its argument. */
tn_module *tn__nn_holder(const tn_module_class *type, void *const *objects,
                         int count, const char *kind, const char *what,
                         const char *argument);

/* Sees the calls of this thread's modules (summary.c). Sequentials fuse nothing
 * while there is one. */
typedef struct tn__nn_watcher {
    void (*begins)(struct tn__nn_watcher *self, const tn_module *module);
    /* Outputs are NULL if the call failed. */
    void (*ended)(struct tn__nn_watcher *self, const tn_module *module,
                  tn_tensor *const *in, int in_count, tn_tensor *const *out,
                  int out_count);
} tn__nn_watcher;
/* Sets the watcher, NULL for none, and returns the one before. */
tn__nn_watcher *tn__nn_watch(tn__nn_watcher *watcher);
bool tn__nn_is_watched(void);

/* The multiply-adds of a MultiheadAttention for these inputs, without those of
 * its output projection, which is a module; 0 for another module
 * (nn_attention.c). */
int64_t tn__nn_attention_multiply_adds(const tn_module *module,
                                       tn_tensor *const *in, int in_count);

/* any if it is a module; else NULL with an error that names the call `what`. */
tn_module *tn__nn_module(const tn_module *any, const char *what);
/* Is it a module of class a or b (b may be NULL)? If not, records an error. */
bool tn__nn_is_kind(tn_module *any, const tn_module_class *a,
                    const tn_module_class *b, const char *what);
/* Is x not NULL? If not, records "forward: input is NULL". */
bool tn__nn_not_null(const void *x, const char *what, const char *argument);
/* Is it a live tensor? If not, records an error. */
bool tn__nn_tensor(const tn_tensor *x, const char *what, const char *argument);

/* "(2, 3)", for messages; "none" of NULL. Returns text. */
enum { TN__NN_SHAPE_TEXT = 200 };
const char *tn__nn_shape_text(char text[TN__NN_SHAPE_TEXT], const tn_tensor *x);

/* The same, but NULL is allowed; and for the masks of attention. */
bool tn__nn_tensor_or_null(const tn_tensor *x, const char *what,
                           const char *argument);
bool tn__nn_check_masks(const tn_nn_attention_masks *masks, const char *what,
                        const char *argument);

/* Longest path of a module in bytes. Longer paths are rejected when they are
 * registered or walked. */
enum { TN__NN_PATH_BYTES = 512 };

/* A module's parameters and buffers with their paths, as tn_safetensors_save
 * takes them: a shared tensor once for each path. Owned by the open scope; lends
 * the tensors. */
typedef struct tn__nn_state {
    tn_object object;
    int count;
    tn_tensor **tensor;
    const char **name;
    char *names; /* where the next name goes */
} tn__nn_state;
tn__nn_state *tn__nn_state_of(tn_module *module);

/* Calls visit for each tensor of `kinds` (bits 1 << kind) in module, in order
 * of registration, depth first. Stops at the first status that is not TN_OK and
 * returns it. */
tn_status tn__nn_walk_tensors(tn_module *module, unsigned kinds,
                              tn_status (*visit)(tn_tensor *x,
                                                 const char *path,
                                                 void *context),
                              void *context);

#endif
