/* op.c: the public functions that call an operator (tn_op_call, tn_call). */
#include <base/error.h>
#include <ops/engine/define.h>
#include <ops/table.h>
#include <stdarg.h>
#include <string.h>

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
