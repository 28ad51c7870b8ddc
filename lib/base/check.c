/* check.c: checks that a pointer argument is a live object of the expected
 * kind, and records an error that says what it is instead. */
#include <base/error.h>
#include <base/state.h>

#include <stdio.h>
#include <string.h>

/* Returns the article for a kind of object: "a" for "tensor", "an" for
 * "optimizer". */
static const char *article(const char *kind)
{
    return strchr("aeiou", kind[0]) ? "an" : "a";
}

static const char *kind_of(const tn__object *object, const tn__class *type)
{
    const char *name = type->name_of ? type->name_of(object) : type->name;
    return name && *name ? name : "object";
}

bool tn_object_check_kind(const void *object, const char *kind,
                          const char *call, const char *argument)
{
    const tn__object *o = object;
    if (o && kind && (uintptr_t)o % _Alignof(tn__object) == 0 &&
        o->mark == TN__OBJECT_MARK) {
        /* Compares the addresses of the names first: the linker usually merges
         * equal string literals, so equal names usually have the same address.
         */
        if (o->type->name == kind || strcmp(kind_of(o, o->type), kind) == 0)
            return true;
    }
    return tn__object_refuse(object, kind, call, argument);
}

static void refuse_gone(const tn__object *object, const char *call,
                        const char *argument)
{
    char story[512];
    tn__lifetime_describe(object, story, sizeof story);
    if (*story)
        tn__fail(TN_ERR_STATE,
                 "%s: {%s} was freed: %s; tn_keep() makes an object outlive "
                 "its scope",
                 call, argument, story);
    else
        tn__fail(TN_ERR_STATE,
                 "%s: {%s} was freed: its scope was closed or it was dropped; "
                 "tn_keep() makes an object outlive its scope "
                 "(TENON_DEBUG=scopes reports which scope freed it)",
                 call, argument);
}

bool tn__object_refuse(const void *pointer, const char *wanted,
                       const char *call, const char *argument)
{
    const tn__object *object = pointer;
    const char *kind = NULL;
    bool gone = false;
    call = call ? call : "object_check";
    argument = argument ? argument : "object";
    if (!object) {
        tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is NULL", call, argument);
        return false;
    }
    if ((uintptr_t)object % 2 != 0)
        kind = "scope"; /* the handle of a scope is an odd number, not an
                         * address */
    else if ((uintptr_t)object % _Alignof(tn__object) == 0) {
        gone = object->mark == TN__OBJECT_DEAD;
        if (gone && object->type == &tn__class_dead)
            kind = kind_of(object, object->was);
        else if (gone) /* the object's destructor is running now */
            kind = wanted ? wanted : "object";
        else if (object->mark == TN__OBJECT_MARK)
            kind = kind_of(object, object->type);
    }
    if (gone && (!wanted || strcmp(kind, wanted) == 0))
        refuse_gone(object, call, argument);
    else if (kind)
        tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is %s %s%s, not %s %s", call,
                 argument, article(kind), kind, gone ? " that was freed" : "",
                 article(wanted ? wanted : "object"),
                 wanted ? wanted : "object");
    else
        tn__fail(TN_ERR_ARGUMENT,
                 "%s: {%s} is not %s %s%s: it is a device, an operator or memory "
                 "of the program", call, argument,
                 article(wanted ? wanted : "object"),
                 wanted ? wanted : "object",
                 wanted ? ", nor another object that scopes own"
                        : " that scopes own");
    return false;
}
