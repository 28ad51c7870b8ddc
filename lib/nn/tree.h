/* tree.h: a module's tree: the list of its registered entries, which are its
 * named children, parameters and buffers.
 *
 * Entries are reference-counted objects. */
#ifndef TN_LIB_NN_TREE_H
#define TN_LIB_NN_TREE_H

#include <stdatomic.h>
#include <tenon/nn.h>

/* Largest nesting depth of modules. It limits the stack that recursive
 * functions over modules use. */
enum { TN__NN_MAX_DEPTH = 128 };

enum tn__nn_kind {
    TN__NN_CHILD,
    TN__NN_PARAMETER,
    TN__NN_BUFFER,
    TN__NN_COMPUTED /* a parameter or buffer that a tn__nn_source computes */
};

typedef struct tn__nn_entry {
    tn_object object;
    struct tn__nn_entry *next; /* counted reference */
    enum tn__nn_kind kind;
    void *value;               /* the tn_module, the tn_tensor or, for a
                                * computed entry, the tn__nn_source; counted
                                * reference */
    char name[];
} tn__nn_entry;

struct tn_module_tree {
    tn_object object;
    tn__nn_entry *first, *last;
    const char *name;  /* name in the parent, owned by the parent's entry; NULL
                          for a root */
    const tn_module *parent; /* the module to which this module was added last;
                                NULL for a root */
    _Atomic(const tn_path *) path; /* path of its last call, reused while it is
                                      called from the same path */
    struct tn__nn_hook *hook; /* first hook (nn_hooks.c); counted reference */
    struct tn__nn_compiled *compiled; /* how tn_forward runs (nn_compile.c); counted
                                         reference; NULL: directly */
    bool recompute;
    uint16_t computed;        /* number of computed entries */
    uint32_t bindings;        /* number of times that an entry became computed,
                                 or stopped being computed */
    _Atomic(tn_module *) spare; /* a copy of the instance for a call, or NULL;
                                   owned (computed.c) */
    tn_module *self;          /* the instance of which a call uses copies */
    size_t bytes;             /* size of the instance */
    uint8_t inputs, required; /* numbers of inputs and of required inputs */
    uint8_t outputs;          /* number of outputs */
    const char *input_name[]; /* interned, because errors hold them */
};

extern const tn_object_class tn__nn_module_class;

/* Whether a class struct has a member. A class compiled with older headers may
 * lack newer members. */
#define TN__NN_HAS(type, member)                                               \
    ((type)->size >= offsetof(tn_module_class, member) + sizeof(type)->member)

/* Returns name i of a list of names ("x, memory"), interned (stored once,
 * forever). */
const char *tn__nn_name(const char *names, int i);

/* Returns the class's signature, or "input -> output" if it has none. */
const char *tn__nn_signature(const tn_module_class *type);

/* Runs the module's forward or forward_list, through tn_recompute if
 * recomputation is on for the module. The caller has set outputs[] to NULL. */
void tn__nn_forward(tn_module *module, tn_tensor *const *inputs,
                    tn_tensor **outputs, int out_count);

/* Returns "relu", "gelu" or "gelu_tanh" if the module is that activation and
 * may be fused with the layer before it: it has no hooks and is not recomputed.
 * Else returns NULL (nn_activation.c). */
const char *tn__nn_activation_of(const tn_module *module);
/* Returns whether this layer can be fused with an activation after it: it must
 * be a Linear without hooks and recomputation (nn_linear.c).
 * tn__nn_linear_activate runs both as the forward of the Linear. */
bool tn__nn_linear_can_activate(const tn_module *module,
                                const tn_tensor *input);
tn_tensor *tn__nn_linear_activate(tn_module *module, tn_tensor *input,
                                  const char *activation);

/* Run the forward hooks of a module (nn_hooks.c). They may replace elements of
 * inputs[] or outputs[]. A replacement of inputs[0] is also stored in other
 * elements that are the same tensor. Return false if a hook failed. */
bool tn__nn_hooks_before(tn_module *module, tn_module_call *call,
                         tn_tensor **inputs, int count);
bool tn__nn_hooks_after(tn_module *module, const tn_module_call *call,
                        tn_tensor **outputs, int count);

/* The beginning of the object that tn_module_compile makes (nn_compile.c). `run`
 * runs the module. in[] has an element for each input of the signature. Stores the
 * outputs in out[]. Returns false on failure, with all outputs NULL. */
typedef struct tn__nn_compiled {
    tn_object object;
    bool (*run)(tn_module *module, tn_tensor *const *in, tn_tensor **out,
                int out_count);
} tn__nn_compiled;
/* Runs a module directly. Arguments and results are those of
 * tn__nn_compiled.run. */
bool tn__nn_run(tn_module *module, tn_tensor **in, tn_tensor **out,
                int out_count);

/* Makes a zeroed instance of module's class and size, without entries. The open
 * scope owns it. */
tn_module *tn__nn_module_like(const tn_module *module);
/* Registers value without checks. Returns false if memory runs out. */
bool tn__nn_add_entry(tn_module *module, const char *name,
                      enum tn__nn_kind kind, void *value);
/* Returns the entry whose name is the first `length` bytes of name, or NULL. */
tn__nn_entry *tn__nn_find(const tn_module *module, const char *name,
                          size_t length);
/* Removes an entry of module from its list. If `last`, appends it again. */
void tn__nn_unlink(tn_module *module, tn__nn_entry *entry, bool last);

/* ---- computed parameters (computed.c) ------------------------------------ */

/* Computes a parameter or buffer of another module from tensors. It is the
 * value of that module's entry. The members of the module's instance that
 * pointed to the tensor point to the source, so that a use of the instance
 * itself is an error. A forward runs on a copy of the instance, whose members
 * point to the computed tensor. */
typedef struct tn__nn_source {
    tn_module base;
    tn_tensor *(*compute)(struct tn__nn_source *source);
    tn_dims_list shape;                    /* of the value */
    int count;                             /* number of originals */
    tn_tensor *original[TN_MODULE_VALUES]; /* registered in a module */
} tn__nn_source;

/* Returns the value, owned by the open scope, or NULL with an error. */
tn_tensor *tn__nn_compute(tn__nn_source *source);
/* Returns the instance on which to call the module's forward: the module
 * itself, or a copy with computed tensors, which tn__nn_release ends. Returns
 * NULL with an error recorded if a value cannot be computed. If `shown` is
 * true, zeros take the place of the computed values. */
tn_module *tn__nn_materialize(tn_module *module, bool shown);
void tn__nn_release(tn_module *module, tn_module *copy);
/* Frees a copy, which may be NULL, and the spare copy of a module (module.c). */
void tn__nn_free_copy(tn_module *copy);
void tn__nn_drop_spare(struct tn_module_tree *tree);
/* tn__nn_bind turns an entry with a tensor into one that `source` computes.
 * tn__nn_can_bind returns false with an error recorded if that is impossible,
 * because no member of the instance points to this tensor alone. */
bool tn__nn_can_bind(const tn_module *module, const tn__nn_entry *entry,
                     const char *what);
void tn__nn_bind(tn_module *module, tn__nn_entry *entry, tn__nn_source *source);
/* Turns a computed entry back into one with a tensor, and moves it to the end
 * of the list. */
void tn__nn_unbind(tn_module *module, tn__nn_entry *entry, enum tn__nn_kind kind,
                   tn_tensor *value);
/* Returns module's own entry `name` if it is a parameter, a buffer, or computed.
 * If there is none, records an error. */
tn__nn_entry *tn__nn_tensor_entry(const tn_module *module, const char *name,
                                  const char *what);
/* Returns the entry's tensor, or its computed value. */
tn_tensor *tn__nn_value_of(const tn__nn_entry *entry);
/* Returns whether the tensors have one shape, dtype and device. If not, records
 * an error that calls x `name`. */
bool tn__nn_same_kind(const tn_tensor *x, const tn_tensor *other,
                      const char *what, const char *name);

/* Makes a module of this class that holds count objects of one kind ("module",
 * or "tensor" for parameters), named "0", "1", ... Errors name the call `what`
 * and its argument. */
tn_module *tn__nn_holder(const tn_module_class *type, void *const *objects,
                         int count, const char *kind, const char *what,
                         const char *argument);

/* Callbacks for the module calls of this thread (summary.c). Sequentials fuse
 * no layers while a watcher is set. */
typedef struct tn__nn_watcher {
    void (*begins)(struct tn__nn_watcher *self, const tn_module *module);
    /* Elements of out[] are NULL if the call failed. */
    void (*ended)(struct tn__nn_watcher *self, const tn_module *module,
                  tn_tensor *const *in, int in_count, tn_tensor *const *out,
                  int out_count);
} tn__nn_watcher;
/* Sets this thread's watcher, or removes it if watcher is NULL. Returns the
 * previous one. */
tn__nn_watcher *tn__nn_watch(tn__nn_watcher *watcher);
bool tn__nn_is_watched(void);

/* Returns the multiply-adds of a MultiheadAttention for these inputs, or 0 for
 * another module (nn_attention.c). Those of its output projection are not
 * included, because that is a module of its own. */
int64_t tn__nn_attention_multiply_adds(const tn_module *module,
                                       tn_tensor *const *in, int in_count);

/* Returns any if it is a module, else NULL with an error that names the call
 * `what`. */
tn_module *tn__nn_module(const tn_module *any, const char *what);
/* Returns whether any is a module of class a or b (b may be NULL). If not,
 * records an error. */
bool tn__nn_is_kind(tn_module *any, const tn_module_class *a,
                    const tn_module_class *b, const char *what);
/* Returns whether x is not NULL. If it is, records an error such as "forward:
 * input is NULL". */
bool tn__nn_not_null(const void *x, const char *what, const char *argument);
/* Returns whether x is a live tensor. If not, records an error. */
bool tn__nn_tensor(const tn_tensor *x, const char *what, const char *argument);

/* Writes the shape of x, "(2, 3)", or "none" for NULL, into text for a message.
 * Returns text. */
enum { TN__NN_SHAPE_TEXT = 200 };
const char *tn__nn_shape_text(char text[TN__NN_SHAPE_TEXT], const tn_tensor *x);

/* Return whether x is NULL or a live tensor, and whether each mask is. If not,
 * they record an error. */
bool tn__nn_tensor_or_null(const tn_tensor *x, const char *what,
                           const char *argument);
bool tn__nn_check_masks(const tn_nn_attention_masks *masks, const char *what,
                        const char *argument);

/* Longest path of a module in bytes. Longer paths are rejected when they are
 * registered or walked. */
enum { TN__NN_PATH_BYTES = 512 };

/* A module's parameters and buffers with their paths, for tn_safetensors_save.
 * A shared tensor is listed under each of its paths. The open scope owns the
 * struct, which does not hold references to the tensors. */
typedef struct tn__nn_state {
    tn_object object;
    int count;
    tn_tensor **tensor;
    const char **name;
    char *names; /* position at which the next name is written */
} tn__nn_state;
tn__nn_state *tn__nn_state_of(tn_module *module);

/* Calls visit for each tensor of `kinds` (bits 1 << enum tn__nn_kind) in module
 * and the modules below it, in order of registration, depth first. Stops at the
 * first status that is not TN_OK and returns it. */
tn_status tn__nn_walk_tensors(tn_module *module, unsigned kinds,
                              tn_status (*visit)(tn_tensor *x,
                                                 const char *path,
                                                 void *context),
                              void *context);

#endif
