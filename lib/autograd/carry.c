/* carry.c: tensors that a loop passes from one step to the next. */
#include <base/error.h>
#include <base/object.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

tn_status tn_scope_carry_tensors(tn_scope *scope, tn_tensor **const *variables,
                                 int count)
{
    if (tn_error())
        return TN_ERR_STATE;
    if (!scope || !variables)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, "scope_carry", scope ? "variables" : "scope",
            "%s is NULL", scope ? "variables" : "scope");
    for (int i = 0; i < count; i++) {
        if (!variables[i])
            return tn_error_refuse_argument(TN_ERR_ARGUMENT, "scope_carry",
                                            "variables",
                                            "the address of variable %d is "
                                            "NULL",
                                            i + 1);
        tn_tensor *x = *variables[i];
        if (!x)
            continue;
        if (!tn_object_check_kind(x, "tensor", "scope_carry", "variables"))
            return tn_error_code();
        if (tn_tensor_requires_grad(x))
            x = tn_detach(x);
        if (!x)
            return tn_error_code();
        tn_status status = tn__scope_carry(scope, variables[i], x);
        if (status < 0)
            return status;
        *variables[i] = x;
    }
    return TN_OK;
}
