/* scope.c: scopes, which own the objects that calls make, and free them when
 * they are closed.
 *
 * The scopes of a thread nest. One array of the thread has the objects of all
 * its scopes. A scope is a contiguous part of that array and is stored as the
 * index at which the part begins. So opening a scope costs a few stores, and
 * passing objects to the outer scope needs no memory.
 *
 * A tn_scope * is not an address but a number that is never used twice. So a
 * scope that was closed, or that belongs to another thread, is detected without
 * access to freed memory. The numbers are odd, unlike addresses of objects. */
#include <base/context.h>
#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>
#include <base/state.h>

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* If the root scope has more objects than this, the log warns that the program
 * probably forgot to open a scope. */
#define ROOT_LIMIT 100000
#define HANDLE_RANGE 1048576 /* number of scope handles that a thread reserves
                              * at a time */

static _Atomic uint64_t handle_ranges;

static bool is_scope_handle(const void *pointer)
{
    return (uintptr_t)pointer & 1;
}

/* Checks an argument of tn_keep, tn_drop and similar calls. Records an error
 * and returns false if it is not a live object. */
static bool is_object(const tn__object *object, const char *what,
                      const char *argument)
{
    bool aligned = (uintptr_t)object % _Alignof(tn__object) == 0;
    return TN__LIKELY(aligned && object->mark == TN__OBJECT_MARK) ||
           tn__object_refuse(object, NULL, what, argument);
}

static uint64_t handle_make(tn__state *state)
{
    if (state->next_handle == state->last_handle) {
        uint64_t range = atomic_fetch_add(&handle_ranges, 1);
        state->next_handle = range * HANDLE_RANGE;
        state->last_handle = state->next_handle + HANDLE_RANGE;
    }
    return state->next_handle++ * 2 + 1;
}

/* Opens a scope by appending a frame to the thread's array of scopes. The root
 * scope is frame 0, which is made when it is first needed. */
static bool frame_push(tn__state *state, uint64_t handle, const void *opener)
{
    if (TN__UNLIKELY(state->frame_count == state->frame_room)) {
        size_t room = state->frame_room ? state->frame_room * 2 : 16;
        tn__frame *frame = tn__memory_take(room * sizeof *frame, false);
        if (!frame) {
            tn__fail(TN_ERR_MEMORY, "out of memory for a scope");
            return false;
        }
        if (state->frame_count)
            memcpy(frame, state->frame, state->frame_count * sizeof *frame);
        free(state->frame);
        state->frame = frame;
        state->frame_room = room;
    }
    state->frame[state->frame_count++] =
        (tn__frame){.handle = handle,
                    .first = state->item_count,
                    .opener = opener,
                    .path = tn__me.location.path};
    return true;
}

static bool root_made(tn__state *state)
{
    return TN__LIKELY(state->frame_count) || frame_push(state, 0, NULL);
}

static void item_push(tn__state *state, tn__object *object)
{
    object->slot = (uint32_t)state->item_count;
    atomic_store_explicit(&object->owner, state, memory_order_relaxed);
    state->item[state->item_count++] = object;
}

static bool item_room(tn__state *state)
{
    if (TN__LIKELY(state->item_count < state->item_room))
        return true;
    size_t room = state->item_room ? state->item_room * 2 : 256;
    if (room > UINT32_MAX) {
        tn__fail(TN_ERR_MEMORY, "a thread's scopes own 2^31 objects, the "
                 "maximum: close scopes that are not needed");
        return false;
    }
    tn__object **item = tn__memory_take(room * sizeof(tn__object *), false);
    if (!item) {
        tn__fail(TN_ERR_MEMORY, "out of memory for the objects of a scope");
        return false;
    }
    if (state->item_count)
        memcpy(item, state->item, state->item_count * sizeof *item);
    free(state->item);
    state->item = item;
    state->item_room = room;
    return true;
}

static void root_grows(tn__state *state)
{
    if (state->root_logged || state->frame_count > 1)
        return;
    state->root_logged = true;
    tn__log(1,
            "the root scope of a thread holds more than %d objects: a loop "
            "without a scope? Put each step into TN_SCOPE(step) { ... }, or "
            "between tn_scope_open() and tn_scope_close(). tn_scope_carry() "
            "passes state to the next step",
            ROOT_LIMIT);
}

void *tn__scope_own(void *pointer)
{
    tn__object *object = pointer;
    if (!object)
        return NULL;
    tn__state *state = tn__state_get();
    if (TN__UNLIKELY(!state || !root_made(state) || !item_room(state))) {
        tn__unref(object);
        return NULL;
    }
    item_push(state, object);
    if (tn__lifetimes_are_traced())
        tn__lifetime_begin(object);
    if (TN__UNLIKELY(state->item_count -
                         state->frame[state->frame_count - 1].hole_count >
                     ROOT_LIMIT))
        root_grows(state);
    return object;
}

/* Returns the scope that contains the object at index `slot` of the array.
 * Usually it is the innermost scope. */
static tn__frame *frame_of(tn__state *state, size_t slot)
{
    tn__frame *frame = &state->frame[state->frame_count - 1];
    while (frame->first > slot)
        frame--;
    return frame;
}

/* Moves the objects of the innermost scope together, so that the NULLs of
 * removed objects disappear from the array. */
static void frame_compact(tn__state *state)
{
    tn__frame *frame = &state->frame[state->frame_count - 1];
    size_t to = frame->first;
    for (size_t from = to; from < state->item_count; from++) {
        tn__object *object = state->item[from];
        if (!object)
            continue;
        object->slot = (uint32_t)to;
        state->item[to++] = object;
    }
    state->item_count = to;
    frame->hole_count = 0;
}

/* Removes an object from its scope; the scope's reference passes to the caller.
 * The object is replaced by NULL in the array, called a hole. Holes at the end
 * of the innermost scope's part are removed at once. Other holes are removed
 * when half of that part are holes. So a loop that makes an object and drops
 * the previous one needs little memory. */
static void item_remove(tn__state *state, tn__object *object)
{
    size_t slot = object->slot;
    assert(slot < state->item_count && state->item[slot] == object);
    tn__frame *frame = frame_of(state, slot);
    atomic_store_explicit(&object->owner, NULL, memory_order_relaxed);
    state->item[slot] = NULL;
    frame->hole_count++;
    if (frame != &state->frame[state->frame_count - 1])
        return;
    while (state->item_count > frame->first &&
           !state->item[state->item_count - 1]) {
        state->item_count--;
        frame->hole_count--;
    }
    if (frame->hole_count > 16 &&
        frame->hole_count * 2 > state->item_count - frame->first)
        frame_compact(state);
}

/* Removes the records of tn_scope_carry that belong to the scopes in frame
 * `floor` and later frames, with their references. The scope of every record is
 * open, or is the root scope, whose handle is 0. */
static void carried_pop(tn__state *state, size_t floor)
{
    for (size_t i = state->carried_count; i-- > 0;) {
        struct tn__carried record = state->carried[i];
        size_t frame = 0;
        while (frame < floor && state->frame[frame].handle != record.frame)
            frame++;
        if (frame < floor)
            continue;
        state->carried[i] = state->carried[--state->carried_count];
        tn__unref(record.object);
    }
    if (floor == 0) {
        free(state->carried);
        state->carried = NULL;
        state->carried_room = 0;
    }
}

/* Closes all scopes in frame `floor` and later frames and frees their objects,
 * the youngest first. A destructor may add objects to the scope, or open and
 * close scopes, so each step reads the thread's state again. */
static void frames_pop(tn__state *state, size_t floor)
{
    size_t first = state->frame[floor].first;
    bool traced = tn__lifetimes_are_traced();
    while (state->item_count > first) {
        tn__object *object = state->item[--state->item_count];
        if (!object)
            continue;
        atomic_store_explicit(&object->owner, NULL, memory_order_relaxed);
        bool mine =
            traced && tn__release_begin(TN__RELEASED_BY_SCOPE,
                                        frame_of(state, state->item_count));
        tn__unref(object);
        if (TN__UNLIKELY(mine))
            tn__release_end();
    }
    if (TN__UNLIKELY(state->carried != NULL))
        carried_pop(state, floor);
    state->frame_count = floor;
    if (floor && state->frame[floor - 1].hole_count > 16 &&
        state->frame[floor - 1].hole_count * 2 >
            state->item_count - state->frame[floor - 1].first)
        frame_compact(state);
}

void tn__scope_release_all(tn__state *state)
{
    if (state->frame_count)
        frames_pop(state, 0);
}

tn_scope *tn__scope_open_at(const void *opener)
{
    tn__state *state = tn__state_get();
    if (!state || !root_made(state))
        return NULL;
    uint64_t handle = handle_make(state);
    if (!frame_push(state, handle, opener))
        return NULL;
    return (tn_scope *)(uintptr_t)handle;
}

tn_scope *tn_scope_open(void)
{
    /* Between the steps of a program, no call of the library is underway in this
     * thread. So a thread that was cancelled may end here. */
    const tn__state *state = tn__me.state;
    if ((!state || state->frame_count <= 1) && !tn__me.location.running)
        pthread_testcancel();
    return tn__scope_open_at(__builtin_return_address(0));
}

/* Returns the open scope with this handle. Records TN_ERR_STATE and returns
 * NULL if no such scope is open in this thread. */
static tn__frame *frame_find(const tn_scope *scope, const char *what)
{
    tn__state *state = tn__me.state;
    uintptr_t handle = (uintptr_t)scope;
    if (state)
        for (size_t i = state->frame_count; i-- > 1;)
            if ((uintptr_t)state->frame[i].handle == handle)
                return &state->frame[i];
    return tn__fail_null(TN_ERR_STATE,
                         "%s: this scope is not open in this thread: it was "
                         "closed already (with a scope around it, perhaps), "
                         "or another thread opened it",
                         what);
}

void tn_scope_close(tn_scope *scope)
{
    if (!scope)
        return;
    tn__frame *frame = frame_find(scope, "scope_close");
    if (frame) {
        tn__state *state = tn__me.state;
        frames_pop(state, (size_t)(frame - state->frame));
    }
}

bool tn__scope_results(tn_scope *scope, void *const *objects, int count)
{
    if (!scope)
        return false;
    tn__frame *frame = frame_find(scope, "scope_result");
    if (!frame)
        return false;
    tn__state *state = tn__me.state;
    size_t first = frame->first, floor = (size_t)(frame - state->frame);
    /* Results that this scope (or a scope inside it) owns are moved to the
     * start of the scope's part of the array. Then that start becomes the end
     * of the outer scope's part, so the outer scope owns them. */
    size_t moved = 0;
    for (int i = 0; i < count; i++) {
        tn__object *object = objects[i];
        if (!object || atomic_load_explicit(&object->owner,
                                            memory_order_relaxed) != state)
            continue;
        size_t slot = object->slot;
        if (slot < first + moved)
            /* The object belongs to an outer scope, or was moved already. */
            continue;
        tn__object *other = state->item[first + moved];
        state->item[slot] = other;
        if (other)
            other->slot = (uint32_t)slot;
        state->item[first + moved] = object;
        object->slot = (uint32_t)(first + moved);
        moved++;
    }
    frame->first += moved;
    frames_pop(state, floor);
    return true;
}

void *tn_scope_result(tn_scope *scope, void *result)
{
    if (result && !is_object(result, "scope_result", "result")) {
        tn_scope_close(scope);
        return NULL;
    }
    return tn__scope_results(scope, &result, 1) ? result : NULL;
}

static struct tn__carried *carried_find(tn__state *state, uint64_t frame,
                                        const void *where)
{
    for (size_t i = 0; i < state->carried_count; i++)
        if (state->carried[i].frame == frame &&
            state->carried[i].where == where)
            return &state->carried[i];
    return NULL;
}

static bool carried_room(tn__state *state)
{
    if (state->carried_count < state->carried_room)
        return true;
    size_t room = state->carried_room ? state->carried_room * 2 : 8;
    struct tn__carried *carried =
        tn__memory_take(room * sizeof *carried, false);
    if (!carried) {
        tn__fail(TN_ERR_MEMORY, "out of memory for a scope");
        return false;
    }
    if (state->carried_count)
        memcpy(carried, state->carried,
               state->carried_count * sizeof *carried);
    free(state->carried);
    state->carried = carried;
    state->carried_room = room;
    return true;
}

tn_status tn__scope_carry(tn_scope *scope, const void *where, void *pointer)
{
    tn__object *object = pointer;
    tn__frame *frame = frame_find(scope, "scope_carry");
    if (!frame)
        return tn_error_code();
    tn__state *state = tn__me.state;
    if (frame != &state->frame[state->frame_count - 1])
        return tn__fail(TN_ERR_STATE,
                        "scope_carry: a scope inside this one is open: close "
                        "it first");
    if (atomic_load_explicit(&object->owner, memory_order_relaxed) != state ||
        object->slot < frame->first)
        return TN_OK; /* an outer scope owns the object, or tn_keep keeps it */
    uint64_t outer = frame[-1].handle;
    struct tn__carried *record = carried_find(state, outer, where);
    if (!record && !carried_room(state))
        return tn_error_code();
    /* Exchanges the object with the first one of the scope, and moves the
     * border between the scopes after it. The object is then the last one of
     * the outer scope. */
    tn__object *other = state->item[frame->first];
    state->item[object->slot] = other;
    if (other)
        other->slot = object->slot;
    state->item[frame->first] = object;
    object->slot = (uint32_t)frame->first++;
    tn__ref(object);
    tn__object *before = NULL;
    if (record)
        before = record->object;
    else
        record = &state->carried[state->carried_count++];
    *record = (struct tn__carried){where, object, outer};
    if (!before)
        return TN_OK;
    size_t first = frame[-1].first;
    if (atomic_load_explicit(&before->owner, memory_order_relaxed) == state &&
        before->slot >= first && before->slot < frame->first) {
        item_remove(state, before);
        tn__unref(before);
    }
    tn__unref(before);
    return TN_OK;
}

void tn_object_set_maker(void *object, const char *name)
{
    if (!object)
        tn__object_refuse(object, NULL, "object_set_maker", "object");
    else if (is_object(object, "object_set_maker", "object") && name && *name &&
             tn__lifetimes_are_traced())
        tn__lifetime_made_by(object, tn_path_text(tn_path_join(NULL, name)));
}

void *tn_keep(void *pointer)
{
    tn__object *object = pointer;
    if (!object)
        return NULL;
    if (is_scope_handle(object))
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "keep: this is a scope; keep the objects in it");
    if (!is_object(object, "keep", "object"))
        return NULL;
    tn__ref(object);
    atomic_fetch_add_explicit(&object->kept, 1, memory_order_relaxed);
    return object;
}

static bool kept_take(tn__object *object)
{
    int32_t kept = atomic_load_explicit(&object->kept, memory_order_relaxed);
    while (kept > 0)
        if (atomic_compare_exchange_weak_explicit(&object->kept, &kept,
                                                  kept - 1,
                                                  memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void drop(tn__object *object)
{
    bool mine =
        tn__lifetimes_are_traced() &&
        tn__release_begin(TN__RELEASED_BY_DROP, NULL);
    tn__unref(object);
    if (mine)
        tn__release_end();
}

void tn_drop(void *pointer)
{
    tn__object *object = pointer;
    if (!object)
        return;
    if (is_scope_handle(object)) {
        tn__fail(TN_ERR_ARGUMENT,
                 "drop: this is a scope; close it with tn_scope_close()");
        return;
    }
    if (!is_object(object, "drop", "object"))
        return;
    if (kept_take(object)) {
        drop(object);
        return;
    }
    tn__state *state = tn__me.state;
    if (state && atomic_load_explicit(&object->owner,
                                      memory_order_relaxed) == state) {
        item_remove(state, object);
        drop(object);
        return;
    }
    tn__fail(TN_ERR_STATE,
             "drop: the object is not kept, and no open scope of this thread "
             "owns it; call tn_drop() once for each tn_keep()");
}

void *tn_scope_adopt(void *pointer)
{
    tn__object *object = pointer;
    if (!object)
        return NULL;
    if (!is_scope_handle(object) && !is_object(object, "scope_adopt", "object"))
        return NULL;
    if (is_scope_handle(object) || !kept_take(object))
        return tn__fail_null(TN_ERR_STATE,
                             "scope_adopt: this object is not kept: only "
                             "objects from tn_keep() can be given to a scope");
    if (!atomic_load_explicit(&object->owner, memory_order_relaxed))
        return tn__scope_own(object);
    tn__unref(object);
    return object;
}

int64_t tn_scope_count(void)
{
    tn__state *state = tn__me.state;
    if (!state)
        return 0;
    size_t holes = 0;
    for (size_t i = 0; i < state->frame_count; i++)
        holes += state->frame[i].hole_count;
    return (int64_t)(state->item_count - holes);
}
