/* object.c: destroys reference-counted objects.
 *
 * A destructor drops the references that its object holds, which may bring
 * other objects to a count of 0. If their destructors ran at once, a chain of a
 * million autograd nodes would need a million stack frames. So these objects
 * are put in a list, and are destroyed when the outermost destructor has
 * returned. */
#include <base/object.h>
#include <base/context.h>

void tn__object_init(tn__object *object, const tn__class *type)
{
    object->type = type;
    atomic_store_explicit(&object->references, 1, memory_order_relaxed);
    atomic_store_explicit(&object->kept, 0, memory_order_relaxed);
    atomic_store_explicit(&object->owner, NULL, memory_order_relaxed);
    object->slot = 0;
    object->mark = TN__OBJECT_MARK;
}

static void destroy(tn__object *object)
{
    object->mark = TN__OBJECT_DEAD;
    if (tn__me.destroying) {
        object->next_dead = tn__me.waiting;
        tn__me.waiting = object;
        return;
    }
    tn__me.destroying = true;
    for (;;) {
        object->type->destroy(object);
        object = tn__me.waiting;
        if (!object)
            break;
        tn__me.waiting = object->next_dead;
    }
    tn__me.destroying = false;
}

void tn__unref(void *pointer)
{
    tn__object *object = pointer;
    if (!object)
        return;
    /* If the count is 1, this thread has the only reference and no other thread
     * can change the count. So no atomic read-modify-write instruction is
     * needed. */
    if (atomic_load_explicit(&object->references, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&object->references, 1,
                                  memory_order_acq_rel) == 1)
        destroy(object);
}
