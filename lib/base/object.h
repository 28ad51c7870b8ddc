/* object.h: reference-counted objects and the scopes that own them.
 *
 * Everything a program can keep or drop begins with a tn__object. The field
 * `references` counts all holders: the owning scope counts one, each tn_keep
 * counts one, and so does each other object of the library that holds this
 * object (a view holds its storage, an autograd node its saved tensors). */
#ifndef TN_LIB_BASE_OBJECT_H
#define TN_LIB_BASE_OBJECT_H

#include <stdatomic.h>
#include <tenon/base.h>

typedef struct tn__object tn__object;

typedef struct tn__class {
    const char *name; /* name in messages, such as "tensor" */
    /* Destroys an object whose count has reached 0, and frees the object's
     * memory with tn__object_free or tn__pool_give_object. Must not recurse
     * without bound; tn__unref defers nested destroys. */
    void (*destroy)(tn__object *object);
    /* The members from here on are optional. */
    /* Returns the name of this object's kind, for a class that has several
     * kinds. */
    const char *(*name_of)(const tn__object *object);
    /* Sets the operator and the module that made the object, if it stores
     * them. */
    void (*origin)(const tn__object *object, const char **out_made_by,
                   const tn_path **out_made_in);
    size_t front; /* number of bytes of the object's memory block before the
                   * object */
} tn__class;

struct tn__object {
    const tn__class *type; /* class of the object; tn__class_dead while in
                            * quarantine */
    union {
        struct {
            _Atomic int32_t references;
            _Atomic int32_t kept; /* number of references from tn_keep */
        };
        const tn__class *was; /* the object's former class, while in
                               * quarantine */
    };
    union {
        /* The state of the thread whose scope owns the object, or NULL. Only
         * that thread writes it. */
        _Atomic(struct tn__state *) owner;
        tn__object *next_dead; /* next in a list of dead objects, once the count
                                * is 0 */
    };
    uint32_t slot; /* index in the owning thread's array of objects */
    uint32_t mark; /* TN__OBJECT_MARK while the object is alive, then
                    * TN__OBJECT_DEAD */
};

/* Values of tn__object.mark. Other structs that a caller may pass by mistake (a
 * device, an operator) have neither value at that offset. */
#define TN__OBJECT_MARK 0x6e6f6e74u
#define TN__OBJECT_DEAD 0x64616564u

/* ---- dead objects and objects of another kind -------------------------------
 *
 * A dead object keeps its header, so that its use is detected. Its memory waits
 * in a queue (a quarantine) of the thread that freed it. It is reused or freed
 * once TN__QUARANTINE_LEAST later objects of its kind have been freed by that
 * thread. The queues of a thread that ends pass to the process. Under
 * TENON_DEBUG=scopes no memory is reused (lifetime.c). */
enum { TN__QUARANTINE_LEAST = 64 };
extern const tn__class tn__class_dead;

/* Whether `object` is a live object of this class; false for NULL. Inline,
 * because every call does this for every argument. */
static inline bool tn__object_is(const void *object, const tn__class *type)
{
    return object &&
           ((uintptr_t)object & (_Alignof(tn__object) - 1)) == 0 &&
           ((const tn__object *)object)->type == type;
}
/* Records why `object` is not a live object of the class named `wanted`:
 * "optim_step: optim is NULL", "... was freed: ...", or "... is a tensor, not
 * an optimizer". Returns false. */
bool tn__object_refuse(const void *object, const char *wanted,
                       const char *call, const char *argument);
/* Checks an argument of a call. Returns true for a live object of this class;
 * else false with an error. */
static inline bool tn__object_check(const void *object, const tn__class *type,
                                    const char *call, const char *argument)
{
    return __builtin_expect(tn__object_is(object, type), 1) ||
           tn__object_refuse(object, type->name, call, argument);
}
/* Checks the object whose attribute is read. Returns true for a live object of
 * this class; else false. NULL gives no error; any other pointer does. */
static inline bool tn__object_has(const void *object, const tn__class *type,
                                  const char *call, const char *argument)
{
    return __builtin_expect(tn__object_is(object, type), 1) ||
           (object && tn__object_refuse(object, type->name, call, argument));
}

/* Frees a destroyed object whose memory is from tn__alloc or tn__calloc, in a
 * block of `bytes` bytes. This is the last call of a class's destroy. */
void tn__object_free(void *object, size_t bytes);

/* Whether the origin and the end of each object are recorded
 * (TENON_DEBUG=scopes). */
extern _Atomic bool tn__lifetimes_traced;
static inline bool tn__lifetimes_are_traced(void)
{
    return __builtin_expect(
        atomic_load_explicit(&tn__lifetimes_traced, memory_order_relaxed), 0);
}

/* Initialises an object with one reference and no owner. */
void tn__object_init(tn__object *object, const tn__class *type);
/* Gives the caller's reference to the innermost scope of this thread. Returns
 * object. On failure drops the reference, records TN_ERR_MEMORY and returns
 * NULL. */
void *tn__scope_own(void *object);

/* Opens a scope as tn_scope_open does, for a function that opens it on behalf
 * of its caller. `opener` is the caller's code address, which
 * TENON_DEBUG=scopes reports. */
tn_scope *tn__scope_open_at(const void *opener);

/* Closes a scope and passes several results to the outer scope, as
 * tn_scope_result does for one. Results may be NULL. Returns false with no
 * effect if scope is NULL or not open in this thread. */
bool tn__scope_results(tn_scope *scope, void *const *objects, int count);

/* Moves object to the scope around `scope`, which must be the innermost one, and
 * drops what the last call for the same variable `where` moved there. Does
 * nothing if `scope` does not own object. */
tn_status tn__scope_carry(tn_scope *scope, const void *where, void *object);

/* Frees this thread's state, as the end of the thread does: closes the thread's
 * scopes, the root scope too, and empties the free lists. For leak tests. */
void tn__state_end(void);

/* tn__ref adds a reference and tn__unref drops one. They accept NULL. tn__ref
 * is inline, because every operator calls it. */
static inline void *tn__ref(void *object)
{
    if (object)
        atomic_fetch_add_explicit(&((tn__object *)object)->references, 1,
                                  memory_order_relaxed);
    return object;
}
/* Drops a reference, and destroys the object when the count reaches 0. Chains
 * (node -> node -> ...) do not recurse: a destroy within another destroy is
 * deferred until the outer one returns. */
void tn__unref(void *object);

#endif
