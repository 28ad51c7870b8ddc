/* user_object.c: reference-counted objects of programs and libraries that are
 * built on Tenon (tn_object_class).
 *
 * A pointer to the user's class is stored in memory in front of the object,
 * where the library finds it when it destroys the object. */
#include <base/error.h>
#include <base/memory.h>
#include <base/object.h>

#include <stddef.h>
#include <stdint.h>

typedef struct user_block {
    const tn_object_class *type; /* class of the object; the first member, since
                                  * quarantine.c reads it */
    size_t bytes;                /* size of the whole block in bytes */
    _Alignas(max_align_t) unsigned char object[];
} user_block;

_Static_assert(sizeof(tn_object) == sizeof(tn__object),
               "base.h reserves the size of an object");

static user_block *block_of(const tn__object *object)
{
    return (user_block *)((char *)(uintptr_t)object -
                          offsetof(user_block, object));
}

static void destroy(tn__object *object)
{
    user_block *block = block_of(object);
    if (block->type->release)
        block->type->release(object);
    tn__object_free(object, block->bytes);
}

static const char *name_of(const tn__object *object)
{
    return block_of(object)->type->name;
}

static const tn__class user_class = {.name = "object",
                                     .destroy = destroy,
                                     .name_of = name_of,
                                     .front = offsetof(user_block, object)};

void *tn_object_new(const tn_object_class *type, size_t extra)
{
    if (!type || type->bytes < sizeof(tn_object))
        return tn__fail_null(TN_ERR_ARGUMENT,
                             "object_new: the class is NULL, or its bytes are "
                             "fewer than those of a tn_object");
    size_t bytes;
    if (__builtin_add_overflow(sizeof(user_block) + type->bytes, extra,
                               &bytes))
        return tn__fail_null(TN_ERR_MEMORY,
                             "object_new: {extra} is %zu, which exceeds "
                             "the address space", extra);
    user_block *block = tn__calloc(1, bytes);
    if (!block)
        return NULL;
    block->type = type;
    block->bytes = bytes;
    tn__object_init((tn__object *)block->object, &user_class);
    return tn__scope_own(block->object);
}

/* Returns whether `object` is a live object of a user's class. It is inline
 * because every use of a module or an optimizer calls it. */
static inline bool is(const void *object, const tn_object_class *type)
{
    return tn__object_is(object, &user_class) && block_of(object)->type == type;
}

bool tn_object_is(const void *object, const tn_object_class *type)
{
    return is(object, type);
}

bool tn_object_check(const void *object, const tn_object_class *type,
                     const char *call, const char *argument)
{
    return is(object, type) ||
           tn__object_refuse(object, type ? type->name : NULL, call, argument);
}
