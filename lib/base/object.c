/* object.c: the ends of counted objects.
 *
 * An object that dies gives back those it holds, and these may die in turn: a
 * chain of a million nodes must not need a million stack frames. So only the
 * outermost death runs at once; those it causes wait in a list of the thread.
 */
#include <base/object.h>
#include <base/platform.h>

static TN__HOT_TLS tn__object *waiting;
static TN__HOT_TLS bool destroying;

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
    if (destroying) {
        object->next_dead = waiting;
        waiting = object;
        return;
    }
    destroying = true;
    for (;;) {
        object->type->destroy(object);
        object = waiting;
        if (!object)
            break;
        waiting = object->next_dead;
    }
    destroying = false;
}

void tn__unref(void *pointer)
{
    tn__object *object = pointer;
    if (!object)
        return;
    /* The last holder needs no locked instruction: nobody else is there to
     * count. */
    if (atomic_load_explicit(&object->references, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&object->references, 1,
                                  memory_order_acq_rel) == 1)
        destroy(object);
}
