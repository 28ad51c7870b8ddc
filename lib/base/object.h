/* object.h: reference-counted objects and the scopes that own them.
 *
 * Every object that a program can keep or drop begins with a tn__object. Its
 * field `references` counts the references to it: one from the scope that owns
 * it, one for each tn_keep, and one from each object of the library that refers
 * to it (a view refers to its storage, an autograd node to its saved
 * tensors). */
#ifndef TN_LIB_BASE_OBJECT_H
#define TN_LIB_BASE_OBJECT_H

#include <stdatomic.h>
#include <tenon/base.h>

typedef struct tn__object tn__object;

typedef struct tn__class {
    const char *name; /* name of the class in messages, such as "tensor" */
    /* Destroys an object whose count has reached 0, and frees its memory with
     * tn__object_free or tn__pool_give_object. It may drop other objects with
     * tn__unref, which does not recurse. */
    void (*destroy)(tn__object *object);
    /* The fields below may be NULL or 0. */
    /* Returns the name of the object's kind, for a class whose objects are of
     * several kinds. */
    const char *(*name_of)(const tn__object *object);
    /* Sets *out_made_by and *out_made_in to the operator and module that made
     * the object, for a class whose objects store them. */
    void (*origin)(const tn__object *object, const char **out_made_by,
                   const tn_path **out_made_in);
    size_t front; /* number of bytes that precede the object in its memory
                   * block */
} tn__class;

struct tn__object {
    const tn__class *type; /* class of the object; tn__class_dead after it was
                            * freed */
    union {
        struct {
            _Atomic int32_t references;
            _Atomic int32_t kept; /* how many of the references are from
                                   * tn_keep */
        };
        const tn__class *was; /* class that the object had before it was
                               * freed */
    };
    union {
        /* State of the thread whose scope owns the object; NULL if no scope
         * does. Only that thread writes the field. */
        _Atomic(struct tn__state *) owner;
        tn__object *next_dead; /* next object in a list of freed objects */
    };
    uint32_t slot; /* index of the object in the owning thread's array of
                    * objects */
    uint32_t mark; /* TN__OBJECT_MARK while the object is alive, TN__OBJECT_DEAD
                    * after it was freed */
};

/* Values of tn__object.mark. A program may pass another struct by mistake, such
 * as a device or an operator. Those structs have neither value at the offset of
 * `mark`. */
#define TN__OBJECT_MARK 0x6e6f6e74u
#define TN__OBJECT_DEAD 0x64616564u

/* ---- freed objects and objects of another kind ------------------------------
 *
 * The header of a freed object stays in memory, so that a later use of the
 * pointer is detected. The thread that freed the object puts its memory into a
 * queue, the quarantine. The memory is reused or released only after that
 * thread has freed TN__QUARANTINE_LEAST more objects of the same kind. When a
 * thread ends, its queues are handed over to the process. With
 * TENON_DEBUG=scopes, no memory is reused (lifetime.c). */
enum { TN__QUARANTINE_LEAST = 64 };
extern const tn__class tn__class_dead;

/* Returns whether `object` is a live object of this class; false for NULL. It
 * is inline because every call checks every argument with it. */
static inline bool tn__object_is(const void *object, const tn__class *type)
{
    return object &&
           ((uintptr_t)object & (_Alignof(tn__object) - 1)) == 0 &&
           ((const tn__object *)object)->type == type;
}
/* Records an error that says why `object` is not a live object of the class
 * named `wanted`: "optim_step: optim is NULL", "... was freed: ...", or "... is
 * a tensor, not an optimizer". Returns false. */
bool tn__object_refuse(const void *object, const char *wanted,
                       const char *call, const char *argument);
/* Checks an argument of a call. Returns whether it is a live object of this
 * class, and records an error if not. */
static inline bool tn__object_check(const void *object, const tn__class *type,
                                    const char *call, const char *argument)
{
    return __builtin_expect(tn__object_is(object, type), 1) ||
           tn__object_refuse(object, type->name, call, argument);
}
/* Checks the object of a call that reads an attribute. Returns whether it is a
 * live object of this class. Records an error if not, unless it is NULL:
 * reading an attribute of NULL is allowed. */
static inline bool tn__object_has(const void *object, const tn__class *type,
                                  const char *call, const char *argument)
{
    return __builtin_expect(tn__object_is(object, type), 1) ||
           (object && tn__object_refuse(object, type->name, call, argument));
}

/* Frees the memory of a destroyed object, a block of `bytes` bytes from
 * tn__alloc or tn__calloc. A class's destroy calls this last. */
void tn__object_free(void *object, size_t bytes);

/* True if TENON_DEBUG=scopes is set: where each object was made and why it was
 * freed is recorded. */
extern _Atomic bool tn__lifetimes_traced;
static inline bool tn__lifetimes_are_traced(void)
{
    return __builtin_expect(
        atomic_load_explicit(&tn__lifetimes_traced, memory_order_relaxed), 0);
}

/* Initialises an object with one reference, which no scope owns. */
void tn__object_init(tn__object *object, const tn__class *type);
/* Hands the caller's reference over to the innermost scope of this thread, and
 * returns the object. If memory runs out, drops the reference, records
 * TN_ERR_MEMORY and returns NULL. */
void *tn__scope_own(void *object);

/* Opens a scope as tn_scope_open does, for a function that opens one on behalf
 * of its caller. `opener` is the code address of that caller, which
 * TENON_DEBUG=scopes reports. */
tn_scope *tn__scope_open_at(const void *opener);

/* Closes a scope and passes several objects to the outer scope, as
 * tn_scope_result does for one object. Entries of `objects` may be NULL. Does
 * nothing and returns false if the scope is NULL or is not open in this
 * thread. */
bool tn__scope_results(tn_scope *scope, void *const *objects, int count);

/* Moves object to the scope around `scope`, which must be the innermost one, and
 * drops what the last call for the same variable `where` moved there. Does
 * nothing if `scope` does not own object. */
tn_status tn__scope_carry(tn_scope *scope, const void *where, void *object);

/* Frees everything that this thread has, as if the thread ended: closes all its
 * scopes, even the root scope, and empties its free lists. For leak tests. */
void tn__state_end(void);

/* Adds a reference to an object, which may be NULL, and returns the object. It
 * is inline because every operator calls it. */
static inline void *tn__ref(void *object)
{
    if (object)
        atomic_fetch_add_explicit(&((tn__object *)object)->references, 1,
                                  memory_order_relaxed);
    return object;
}
/* Drops a reference to an object, which may be NULL, and destroys the object
 * when the count reaches 0. Does not recurse: if a destructor is running, the
 * object is destroyed when that destructor has returned. */
void tn__unref(void *object);

#endif
