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
    /* Frees the object's memory; its count has reached 0. Must not recurse
     * without bound: see tn__unref. */
    void (*destroy)(tn__object *object);
} tn__class;

struct tn__object {
    const tn__class *type;
    _Atomic int32_t references;
    _Atomic int32_t kept;    /* of references: those from tn_keep */
    /* The thread whose scope owns it, or NULL; changed by that thread alone. */
    _Atomic(struct tn__state *) owner;
    union {
        struct {
            uint32_t slot; /* where in its thread's list of objects */
            uint32_t mark; /* TN__OBJECT_MARK while it lives */
        };
        tn__object *next_dead; /* once nobody holds it */
    } place;
};

/* What else a caller may hand to keep and drop (a device, an operator) does not
 * have it there, nor has an object's memory after its end. */
#define TN__OBJECT_MARK 0x6e6f6e74u

/* A new object starts with one reference, owned by nobody. */
void tn__object_init(tn__object *object, const tn__class *type);
/* Gives the caller's reference to the innermost scope of this thread. Returns
 * object; on failure drops it, records TN_ERR_MEMORY and returns NULL. */
void *tn__scope_own(void *object);

/* tn_scope_result for several results, NULLs among them welcome. False, with
 * nothing done, if scope is NULL or not open in this thread. */
bool tn__scope_hand_on(tn_scope *scope, void *const *objects, int count);

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
