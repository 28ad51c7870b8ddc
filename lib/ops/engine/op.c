/* op.c: the public functions that return attributes of an operator (tn_op_name
 * ...) and that call one (tn_op_call, tn_call). */
#include <base/error.h>
#include <base/memory.h>
#include <ops/engine/define.h>
#include <ops/table.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <string.h>

/* ---- attributes of an operator ------------------------------------------- */

const char *tn_op_name(const tn_op *op)
{
    return op ? op->name : NULL;
}

const char *tn_op_doc(const tn_op *op)
{
    return op ? op->doc : NULL;
}

/* Adds "name(input, other=None, alpha=1)" to text. */
static void add_signature(tn__text *text, const tn_op *op)
{
    tn__text_add(text, "%s(", op->name);
    for (int i = 0; i < op->arg_count; i++) {
        const tn_op_arg *arg = &op->arg[i];
        tn__text_add(text, "%s%s%s%s", i ? ", " : "", arg->name,
                     arg->fallback   ? "="
                     : arg->optional ? "=None"
                                     : "",
                     arg->fallback ? arg->fallback : "");
    }
    tn__text_add(text, ")");
}

const char *tn_op_signature(const tn_op *op)
{
    /* The signatures of the table would be 30 KB, and few programs read them.
     * Each is made when it is first read, and stays until the process ends. */
    static _Atomic(char *) made[TN__OP_COUNT];
    if (!op || op->id < 0 || op->id >= TN__OP_COUNT)
        return op ? op->rare->signature : NULL;
    char *known = atomic_load_explicit(&made[op->id], memory_order_acquire);
    if (known)
        return known;
    tn__text text = {0};
    add_signature(&text, op);
    char *own = tn__text_finish(&text);
    if (own && !atomic_compare_exchange_strong(&made[op->id], &known, own)) {
        tn__free(own);
        return known;
    }
    return own;
}

const char *tn_op_kernel(const tn_op *op)
{
    return op ? op->kernel : NULL;
}

int tn_op_arg_count(const tn_op *op)
{
    return op ? op->arg_count : 0;
}

const tn_op_arg *tn_op_arg_at(const tn_op *op, int i)
{
    return op && i >= 0 && i < op->arg_count ? &op->arg[i] : NULL;
}

bool tn_op_is_differentiable(const tn_op *op)
{
    return op && op->differentiable;
}

/* ---- calling an operator ------------------------------------------------- */

int tn_op_call(const tn_op *op, const tn_value *values, int count,
               tn_tensor **out, int room)
{
    if (!op)
        return tn__fail(TN_ERR_ARGUMENT, "op_call: op is NULL");
    return tn__op_run_given(op, values, count, out, room);
}

tn_status tn_op_call_into(const tn_op *op, const tn_value *values, int count,
                          tn_tensor *const *out, int out_count)
{
    if (!op)
        return tn__fail(TN_ERR_ARGUMENT, "op_call_into: op is NULL");
    if (!out)
        return tn__fail(TN_ERR_ARGUMENT, "%s: out is NULL", op->name);
    if (op->inplace)
        return tn__fail(TN_ERR_ARGUMENT, "%s: writes into {%s}; call it with "
                        "tn_op_call", op->name, op->arg[0].name);
    return tn__op_run_into(op, values, count, out, out_count);
}

tn_tensor *tn_call(const char *name, tn_tensor *first, ...)
{
    if (!name)
        return tn__fail_null(TN_ERR_ARGUMENT, "call: name is NULL");
    const tn_op *op = tn_op_find(name);
    if (!op)
        return tn__fail_null(TN_ERR_ARGUMENT, "call: no operator is named %s",
                             name);
    tn_value value[TN__OP_MAX_ARGS];
    va_list args;
    va_start(args, first);
    for (int i = 0; i < op->tensor_count; i++)
        value[i] =
            tn__value_tensor(i ? va_arg(args, tn_tensor *) : first);
    va_end(args);
    return tn__op_run1(op, value, op->tensor_count);
}

tn_tensor *tn_op_apply(const tn_op *op, tn_tensor *const *tensors,
                       const double *numbers)
{
    if (!op)
        return tn__fail_null(TN_ERR_ARGUMENT, "op_apply: op is NULL");
    if (op->tensor_count && !tensors)
        return tn__fail_null(TN_ERR_ARGUMENT, "%s: tensors is NULL", op->name);
    tn_value value[TN__OP_MAX_ARGS];
    for (int i = 0; i < op->arg_count; i++) {
        uint32_t kinds = op->arg[i].kinds;
        value[i] = kinds >> TN_VALUE_TENSOR & 1
                       ? tn__value_tensor(*tensors++)
                   : !numbers ? tn__value_none() /* an absent value means the
                                                  * default */
                   : kinds >> TN_VALUE_NUMBER & 1 || kinds >> TN_VALUE_FLOAT & 1
                       ? tn__value_float(*numbers++)
                   : kinds >> TN_VALUE_INT & 1
                       ? tn__value_int((int64_t)*numbers++)
                       : tn__value_none();
    }
    return tn__op_run1(op, value, op->arg_count);
}
