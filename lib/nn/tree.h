/* tree.h: what modules register: a tree of named entries.
 *
 * Entries are counted objects in a list; nothing here allocates in another
 * way, so a model's memory is all the library's to account for. */
#ifndef TN_LIB_NN_TREE_H
#define TN_LIB_NN_TREE_H

#include <stdatomic.h>
#include <tenon/nn.h>

/* Modules that may lie within each other: what goes through them calls itself, and
 * stacks are finite. */
enum { TN__NN_DEEPEST = 128 };

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
    const char *name;  /* under which this module's parent has it: lent by the
                          parent's entry; NULL for a root */
    const tn_module *parent; /* the last that took it; NULL for a root */
    _Atomic(const tn_path *) path; /* of its last run: where it is run from the
                                      same place again, nothing is looked up */
    struct tn__nn_hook *hook; /* kept: the first, in order (nn_hooks.c) */
    bool recompute;
};

/* The module's forward, recomputed if it is set so. */
tn_tensor *tn__nn_forward(tn_module *module, tn_tensor *input);

/* "relu", "gelu", "gelu_tanh", or NULL: what a layer does to each element, if
 * that may be done elsewhere: it has no hooks and is not recomputed
 * (nn_activation.c). */
const char *tn__nn_activation_of(const tn_module *module);
/* May this layer and such an activation behind it be one operator (nn_linear.c): is
 * it a Linear whose own output nobody asked to see? Then that, as its forward. */
bool tn__nn_linear_can_activate(const tn_module *module,
                                const tn_tensor *input);
tn_tensor *tn__nn_linear_activate(tn_module *module, tn_tensor *input,
                                  const char *activation);

/* Hooks of a module that has some (nn_hooks.c): before its forward, on inputs[0]
 * and where that stands again; false where one failed. After it, on its first
 * output: returns that or what takes its place, NULL where one failed. */
bool tn__nn_hooks_before(tn_module *module, tn_module_call *call,
                         tn_tensor **inputs, int count);
tn_tensor *tn__nn_hooks_after(tn_module *module, const tn_module_call *call,
                              tn_tensor *output);

/* any, if it is a module; else NULL, told in the name of `what`. */
tn_module *tn__nn_module(const tn_module *any, const char *what);
/* Is it a module of one of these classes (b may be NULL)? Else an error. */
bool tn__nn_is_kind(tn_module *any, const tn_module_class *a,
                    const tn_module_class *b, const char *what);
/* Is x there? Else an error: "forward: input is NULL". */
bool tn__nn_given(const void *x, const char *what, const char *argument);
/* Is it a tensor? Else an error: "forward: input was freed: ...". */
bool tn__nn_tensor(const tn_tensor *x, const char *what, const char *argument);

/* "(2, 3)", for messages; "none" of NULL. Returns text. */
enum { TN__NN_SHAPE_TEXT = 200 };
const char *tn__nn_shape_text(char text[TN__NN_SHAPE_TEXT], const tn_tensor *x);

/* The same, but NULL is no error; of the masks of attention. */
bool tn__nn_no_or_tensor(const tn_tensor *x, const char *what,
                         const char *argument);
bool tn__nn_masks(const tn_nn_attention_masks *masks, const char *what,
                  const char *argument);

/* Longest path of a model: deeper or longer names are refused when they are
 * registered or walked. */
enum { TN__NN_PATH_BYTES = 512 };

/* Calls visit for each tensor of kinds (bits 1 << kind) below module, in the
 * order of registration, depth first. Stops at, and returns, the first status
 * that is not TN_OK. */
tn_status tn__nn_walk_tensors(tn_module *module, unsigned kinds,
                              tn_status (*visit)(tn_tensor *x,
                                                 const char *path,
                                                 void *context),
                              void *context);

#endif
