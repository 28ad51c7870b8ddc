/* object.h: counted objects and the scopes that own them.
 *
 * Everything a user can keep or drop begins with a tn__object. `references`
 * counts all holders: the owning scope (one), each tn_keep, and other objects
 * inside the library (a view holds its storage, a node its saved tensors).
 */
#ifndef TN_LIB_BASE_OBJECT_H
#define TN_LIB_BASE_OBJECT_H

#include <stdatomic.h>
#include <tenon/base.h>

typedef struct tn__object tn__object;

typedef struct tn__class {
    const char *name; /* "tensor": for messages */
    /* Frees the object's memory with tn__object_free or
     * tn__pool_give_object; its count has reached 0. Must not recurse without
     * bound: see tn__unref. */
    void (*destroy)(tn__object *object);
    /* The rest may be left out. */
    /* Of a class that stands for many: what this object is. */
    const char *(*name_of)(const tn__object *object);
    /* What made it and in which module, where the object knows. */
    void (*origin)(const tn__object *object, const char **out_made_by,
                   const tn_path **out_made_in);
    size_t front; /* bytes of the object's block that stand before it */
} tn__class;

struct tn__object {
    const tn__class *type; /* tn__class_dead once its memory awaits reuse */
    union {
        struct {
            _Atomic int32_t references;
            _Atomic int32_t kept; /* of references: those from tn_keep */
        };
        const tn__class *was; /* of what is gone */
    };
    union {
        /* The thread whose scope owns it, or NULL; changed by that thread
         * alone. */
        _Atomic(struct tn__state *) owner;
        tn__object *next_dead; /* once nobody holds it */
    };
    uint32_t slot; /* where in its thread's list of objects */
    uint32_t mark; /* TN__OBJECT_MARK while it lives, TN__OBJECT_DEAD after */
};

/* What else a caller may hand to keep and drop (a device, an operator) has
 * neither there. */
#define TN__OBJECT_MARK 0x6e6f6e74u
#define TN__OBJECT_DEAD 0x64616564u

/* ---- what is gone or of another kind --------------------------------------
 *
 * The memory of a dead object keeps its header, so that a use of it is told
 * from one of a live object: it waits in a queue of the thread in which it died
 * and is used again or freed once TN__QUARANTINE_LEAST others of its kind have died
 * there after it. A thread that ends leaves its queues to the process. Under
 * TENON_DEBUG=scopes nothing is used again (lifetime.c). */
enum { TN__QUARANTINE_LEAST = 64 };
extern const tn__class tn__class_dead;

/* Is it a live object of this class? False for NULL. Inline: one comparison on
 * the path of every call. */
static inline bool tn__object_is(const void *object, const tn__class *type)
{
    return object &&
           ((uintptr_t)object & (_Alignof(tn__object) - 1)) == 0 &&
           ((const tn__object *)object)->type == type;
}
/* Records why it is none: "optim_step: optim is NULL", "is gone: ...", "is a
 * tensor, not an optimizer". wanted: the name of the class. Returns false. */
bool tn__object_refuse(const void *object, const char *wanted,
                       const char *call, const char *argument);
/* For arguments: a live object of this class, or false and an error. */
static inline bool tn__object_check(const void *object, const tn__class *type,
                                    const char *call, const char *argument)
{
    return __builtin_expect(tn__object_is(object, type), 1) ||
           tn__object_refuse(object, type->name, call, argument);
}
/* For attributes: the same, but nothing is recorded for NULL. */
static inline bool tn__object_has(const void *object, const tn__class *type,
                                  const char *call, const char *argument)
{
    return __builtin_expect(tn__object_is(object, type), 1) ||
           (object && tn__object_refuse(object, type->name, call, argument));
}

/* The end of a destroy whose object tn__alloc or tn__calloc gave, in a block of
 * so many bytes. */
void tn__object_free(void *object, size_t bytes);

/* TENON_DEBUG=scopes: what is known of each object that is gone. */
extern _Atomic bool tn__lifetimes_traced;
static inline bool tn__lifetimes_are_traced(void)
{
    return __builtin_expect(
        atomic_load_explicit(&tn__lifetimes_traced, memory_order_relaxed), 0);
}

/* A new object starts with one reference, owned by nobody. */
void tn__object_init(tn__object *object, const tn__class *type);
/* Gives the caller's reference to the innermost scope of this thread. Returns
 * object; on failure drops it, records TN_ERR_MEMORY and returns NULL. */
void *tn__scope_own(void *object);

/* tn_scope_open for a function that opens one for its caller, at that address:
 * told under TENON_DEBUG=scopes. */
tn_scope *tn__scope_open_at(const void *opener);

/* tn_scope_result for several results, NULLs among them welcome. False, with
 * nothing done, if scope is NULL or not open in this thread. */
bool tn__scope_results(tn_scope *scope, void *const *objects, int count);

/* Ends what base holds for this thread, as the thread's end does: closes its
 * scopes, the root scope too, and empties its free lists. For tests that look
 * for leaks. */
void tn__state_end(void);

/* NULL is welcome in both. Inline: they are on every operator's path. */
static inline void *tn__ref(void *object)
{
    if (object)
        atomic_fetch_add_explicit(&((tn__object *)object)->references, 1,
                                  memory_order_relaxed);
    return object;
}
/* Destroys at 0. Chains (node -> node -> ...) do not recurse: a destroy that
 * runs inside another is put off until that one returns. */
void tn__unref(void *object);

#endif
