/* tensor_errors.c: adds the shapes and dtypes of tensors to the details of
 * errors, and records errors for programs and libraries that use Tenon. */
#include <tensor/tensor.h>

#include <base/context.h>
#include <base/error.h>
#include <string.h>

void tn__error_add_tensor(tn__error_facts *facts, const char *argument,
                          int index, const tn_tensor *x)
{
    struct tn__error_tensor *to = &facts->tensor[facts->tensor_count++];
    to->argument = argument;
    to->index = index;
    to->dtype = x->dtype;
    to->ndim = x->ndim;
    memcpy(to->shape, x->shape, x->ndim * sizeof x->shape[0]);
    to->device = x->storage->device->name;
    to->made_by = x->made_by;
    to->made_in = x->made_in;
    to->of = x;
    to->storage = x->storage;
    to->requires_grad = x->requires_grad;
}

/* Records an error with a message that begins with the name of a function, and
 * returns the error's details. No error may be pending before. If name is NULL,
 * records the error without it and returns NULL. */
static tn__error_facts *refuse(tn_status code, const char *name,
                               const char *format, va_list args)
{
    tn__fail_va(code, format ? format : tn_status_name(code), args);
    if (!name)
        return NULL;
    tn__error_prefix("%s", name);
    tn__error_facts *facts = tn__error_within(tn__me.location.running);
    facts->called = facts->op = name;
    return facts;
}

tn_status tn_error_refuse_argument(tn_status code, const char *name,
                                   const char *argument, const char *format,
                                   ...)
{
    if (tn__error_pending())
        return code;
    va_list args;
    va_start(args, format);
    tn__error_facts *facts = refuse(code, name, format, args);
    va_end(args);
    if (facts)
        facts->argument = argument;
    return code;
}

tn_status tn_error_refuse(tn_status code, const char *name,
                          const tn_given *given, int count,
                          const char *format, ...)
{
    if (tn__error_pending())
        return code;
    va_list args;
    va_start(args, format);
    tn__error_facts *facts = refuse(code, name, format, args);
    va_end(args);
    if (!facts)
        return code;
    for (int i = 0; given && i < count; i++) {
        if (i == 0)
            facts->argument = given[i].argument;
        if (!given[i].argument || !tn__tensor_is_live(given[i].tensor) ||
            facts->tensor_count == TN_ERROR_TENSORS)
            continue;
        if (i == 0)
            facts->odd = 0;
        tn__error_add_tensor(facts, given[i].argument, -1, given[i].tensor);
    }
    return code;
}

void tn_tensor_set_maker(tn_tensor *x, const char *name)
{
    if (tn__tensor_check(x, "tensor_set_maker", "x") && name && *name)
        x->made_by = tn_path_text(tn_path_join(NULL, name));
}

void tn_error_rename(const char *from, const char *call, const char *argument)
{
    if (!from || !call) {
        tn__fail(TN_ERR_ARGUMENT, "error_rename: {%s} is NULL",
                 from ? "call" : "from");
        return;
    }
    tn__error_facts *facts = tn__error_is_from(from)
                                 ? tn__error_within(tn__me.location.running)
                                 : NULL;
    if (!facts || (facts->op && strcmp(facts->op, from) != 0))
        return;
    tn__error_attribute(call);
    /* if the error names neither operator nor argument, nothing is added */
    if (facts->op || argument)
        facts->called = facts->op = call;
    if (argument)
        facts->argument = argument;
}
