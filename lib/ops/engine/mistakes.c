/* mistakes.c: error messages about mistakes of callers. A message names the
 * operator, the values that are wrong, and a call that mends the mistake if
 * there is one. */
#include <base/context.h>
#include <base/guard.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/register.h>
#include <string.h>
#include <tenon/ops.h>

const char *tn__shape_text(char text[TN__SHAPE_TEXT], int ndim,
                           const int64_t *shape)
{
    tn__text grown = {0};
    tn__text_add_shape(&grown, ndim, shape);
    snprintf(text, TN__SHAPE_TEXT, "%s", grown.data ? grown.data : "(?)");
    tn__text_release(&grown);
    return text;
}

const char *tn__op_outer(const char *name)
{
    for (const tn__running_op *d = tn__me.location.running; d; d = d->outer) {
        /* `running` is the first member of tn__call, so d points to a call. */
        if (tn__op_rule(((const tn__call *)(const void *)d)->op))
            break;
        name = d->name;
    }
    return name;
}

tn_status tn__fail_dim(const char *name, const char *argument, int64_t dim,
                       int ndim)
{
    int count = ndim ? ndim : 1;
    const char *shown = strchr(argument, ':');
    return tn__fail_outside(
        TN_ERR_ARGUMENT,
        (tn__error_index){TN__INDEX_GIVEN, dim, -count, count, 0, {0}},
        "%s: {%.*s:%s} %lld is outside [%d, %d]", name,
        shown ? (int)(shown - argument) : 40, argument,
        shown ? shown + 1 : argument, (long long)dim, -count, count - 1);
}

/* Appends one tensor to a message: "other (2, 3) is on cpu". */
static void add_place(tn__text *text, const char *name, int number,
                      bool is_at_fault, const tn_tensor *x)
{
    char shape[TN__SHAPE_TEXT];
    tn__text_add(text, "%s{%s%s", text->length ? ", " : "",
                 is_at_fault ? "!" : "", name);
    if (number >= 0)
        tn__text_add(text, "[%d]", number);
    tn__text_add(text, "} %s is on %s",
                 tn__shape_text(shape, x->ndim, x->shape),
                 x->storage->device->name);
}

/* Returns the device to which a message suggests to move the other tensors. It
 * is the device of the first tensor that requires a gradient, since a moved
 * copy of that tensor would no longer be trained. If there is none, it is the
 * device of the first tensor. */
static const tn_device *home_of(const tn_op *op, const tn_value *value)
{
    const tn_device *first = NULL;
    for (int i = 0; i < op->arg_count; i++) {
        bool list = value[i].kind == TN_VALUE_TENSORS;
        int count = list ? value[i].count : value[i].kind == TN_VALUE_TENSOR;
        for (int k = 0; k < count; k++) {
            const tn_tensor *x =
                list ? value[i].of.tensors[k] : value[i].of.tensor;
            if (!tn__tensor_is_live(x))
                continue;
            if (x->requires_grad)
                return x->storage->device;
            first = first ? first : x->storage->device;
        }
    }
    return first;
}

tn_status tn__fail_devices(const tn_op *op, const tn_value *value)
{
    tn__text places = {0};
    const tn_device *home = home_of(op, value);
    char mend[160] = "";
    for (int i = 0; i < op->arg_count; i++) {
        bool list = value[i].kind == TN_VALUE_TENSORS;
        int count = list ? value[i].count : value[i].kind == TN_VALUE_TENSOR;
        for (int k = 0; k < count; k++) {
            const tn_tensor *x =
                list ? value[i].of.tensors[k] : value[i].of.tensor;
            if (!tn__tensor_is_live(x))
                continue;
            bool first = x->storage->device != home && !mend[0];
            add_place(&places, op->arg[i].name, list ? k : -1, first, x);
            if (!first)
                continue;
            char number[16] = "";
            if (list)
                snprintf(number, sizeof number, "[%d]", k);
            snprintf(mend, sizeof mend, "tn_to(%s%s, tn_device_open(\"%s\"))",
                     op->arg[i].name, number, home->name);
        }
    }
    tn__text_add(&places, "; move one with %s", mend);
    tn__fail_marked(TN_ERR_DEVICE, op->name,
                    places.data ? places.data : "tensors are on two devices");
    tn__text_release(&places);
    return TN_ERR_DEVICE;
}

tn_status tn__fail_numbers(const tn_op *op)
{
    return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is a number and no other "
                    "argument is a tensor; make one a tensor with tn_full",
                    op->name, op->arg[0].name);
}

tn_status tn__fail_dead(const tn_op *op, int i, int k, const tn_tensor *x)
{
    char argument[80];
    if (k < 0)
        snprintf(argument, sizeof argument, "%s", op->arg[i].name);
    else
        snprintf(argument, sizeof argument, "%s[%d]", op->arg[i].name, k);
    tn__object_refuse(x, tn__tensor_class.name, op->name, argument);
    return tn_error_code();
}

static const char *kind_name(int kind)
{
    static const char *const name[] = {
        "nothing", "a tensor", "tensors",  "a number", "an int",  "a float",
        "a bool",  "sizes",    "floats", "a string", "a dtype", "a device"};
    return kind >= 0 && kind <= TN_VALUE_DEVICE ? name[kind] : "no value";
}

tn_status tn__fail_kind(const tn_op *op, int i, const tn_value *v)
{
    tn__text wanted = {0};
    for (int k = TN_VALUE_TENSOR; k <= TN_VALUE_DEVICE; k++)
        if (op->arg[i].kinds >> k & 1)
            tn__text_add(&wanted, "%s%s", wanted.length ? " or " : "",
                         kind_name(k));
    tn__fail(TN_ERR_ARGUMENT, "%s: {%s} takes %s, not %s", op->name,
             op->arg[i].name, wanted.data ? wanted.data : "nothing",
             kind_name(v->kind));
    tn__text_release(&wanted);
    return TN_ERR_ARGUMENT;
}

tn_status tn__fail_dtypes(const tn_op *op, const tn_value *value)
{
    tn__error error;
    tn__text given = {0};
    if (tn_error_code() != TN_ERR_DTYPE)
        return tn_error_code();
    tn__error_take(&error);
    /* skips the line and column ("1:5: ") at which the parser found the error
     * in the kernel's source */
    const char *why = strstr(error.text, ": ");
    /* The message names op even if another operator called it, because the
     * arguments in the message are those of op. */
    bool within = tn__me.location.running && tn__me.location.running->outer;
    const char *name = within ? op->name : tn__op_outer(op->name);
    for (int i = 0; i < op->arg_count; i++)
        if (op->role[i] == TN__ROLE_OPERAND &&
            value[i].kind == TN_VALUE_TENSOR)
            tn__text_add(&given, "%s{%s} is %s", given.length ? ", " : "",
                         op->arg[i].name,
                         tn_dtype_name(value[i].of.tensor->dtype));
    tn__text_add(&given, "%s; convert with tn_to_dtype", why ? why : "");
    tn__fail_marked(TN_ERR_DTYPE, name, given.data ? given.data : "");
    tn__text_release(&given);
    return TN_ERR_DTYPE;
}

tn_status tn__fail_late(const tn_op *op, int i)
{
    return tn__fail(TN_ERR_UNSUPPORTED, "%s: {%s} cannot be a late number, "
                    "because this operator is not one kernel for all numbers: "
                    "multiply or add a tensor with the number instead",
                    op->name, op->arg[i].name);
}

tn_status tn__fail_left_out(const tn_op *op, int i)
{
    char pending[400];
    snprintf(pending, sizeof pending, "%s", tn_error());
    return tn__fail(TN_ERR_STATE, "%s: {%s} is NULL or left out while an "
                    "error is pending: %s", op->name, op->arg[i].name, pending);
}

tn_status tn__fail_broadcast(const char *name, int count,
                             const char *const *names,
                             tn_tensor *const *tensor)
{
    tn__text text = {0};
    char shape[TN__SHAPE_TEXT];
    tn__text_add(&text, "shapes do not broadcast: ");
    const size_t front = text.length;
    for (int i = 0; i < count; i++)
        if (tensor[i])
            tn__text_add(&text, "%s{%s} %s", text.length > front ? ", " : "",
                         names[i],
                         tn__shape_text(shape, tensor[i]->ndim,
                                        tensor[i]->shape));
    tn__fail_marked(TN_ERR_SHAPE, name, text.data ? text.data : "");
    tn__text_release(&text);
    return TN_ERR_SHAPE;
}

tn_status tn__fail_index(const char *name, const char *argument,
                         const tn_fault *fault, int ndim,
                         const int64_t *extent)
{
    char text[TN__SHAPE_TEXT];
    tn__error_index at = tn__error_index_in(fault->index, 0, fault->extent,
                                            fault->position, ndim, extent);
    if (argument)
        return tn__fail_outside(
            TN_ERR_INDEX, at,
            "%s: {%s} %lld at position %s is outside [0, %lld)",
            tn__op_outer(name), argument, (long long)fault->index,
            tn__shape_text(text, ndim, at.position), (long long)fault->extent);
    at.given = TN__INDEX_IN_SPACE;
    return tn__fail_outside(
        TN_ERR_INDEX, at, "%s: index %lld at position %s is outside [0, %lld)",
        tn__op_outer(name), (long long)fault->index,
        tn__shape_text(text, ndim, at.position), (long long)fault->extent);
}

tn_status tn__fail_guard(const char *name, const tn__kernel *kernel,
                         const tn_fault *fault, int ndim,
                         const int64_t *extent, const char *suffix)
{
    char text[TN__SHAPE_TEXT];
    tn__error_index at = tn__error_index_in(0, 0, 0, fault->position, ndim,
                                            extent);
    bool zero = fault->index == TN__GUARD_ZERO;
    if (fault->operand >= (uint32_t)kernel->input_count)
        return tn__fail(TN_ERR_ARGUMENT, "%s: %san element is %s at position "
                        "%s%s", name, zero ? "division by zero: " : "",
                        zero ? "0" : "outside [0, 1]",
                        tn__shape_text(text, ndim, at.position), suffix);
    const char *input = kernel->input[fault->operand].name;
    return tn__fail(TN_ERR_ARGUMENT, "%s: %s{%s} is %s at position %s%s",
                    name, zero ? "division by zero: " : "",
                    input, tn__guard_text(fault->index),
                    tn__shape_text(text, ndim, at.position), suffix);
}

tn_status tn__report_indices(const tn__call *call, const char *name,
                             const char *argument, tn_tensor *x, int64_t low,
                             int64_t bound)
{
    tn__error before;
    if (tn_error_code() != TN_ERR_INDEX || !tn__error_within(&call->running))
        return tn_error_code();
    tn__error_hide(&before);
    tn_scope *scope = tn_scope_open();
    tn_status status =
        x && scope ? tn__check_indices(name, argument, -1, x, low, bound)
                   : TN_OK;
    tn_scope_close(scope);
    if (status != TN_ERR_INDEX)
        tn__error_restore(&before);
    return TN_ERR_INDEX;
}

tn_status tn__check_indices(const char *name, const char *argument, int number,
                            tn_tensor *x, int64_t low, int64_t bound)
{
    char text[TN__SHAPE_TEXT], which[16] = "";
    if (x->numel == 0)
        return TN_OK;
    tn_tensor *greatest = NULL;
    int64_t least = tn_item_int(tn_aminmax(x, &greatest));
    int64_t most = tn_item_int(greatest);
    if (tn__error_pending())
        return tn_error_code();
    if (least >= low && most < bound)
        return TN_OK;
    int64_t place = tn_item_int(most >= bound ? tn_argmax(x) : tn_argmin(x));
    tn__error_index at =
        tn__error_index_in(most >= bound ? most : least, low, bound, place,
                           x->ndim, x->shape);
    if (number >= 0)
        snprintf(which, sizeof which, "[%d]", number);
    return tn__fail_outside(
        TN_ERR_INDEX, at,
        "%s: {%s%s} %lld at position %s is outside [%lld, %lld)", name,
        argument, which, (long long)at.value,
        tn__shape_text(text, x->ndim, at.position), (long long)low,
        (long long)bound);
}
