/* backward.c: tn_backward and tn_grad. Checks their arguments and returns their
 * results; backward_walk.c computes the gradients. */
#include <string.h>
#include <tenon/ops.h>

#include <base/timeline.h>

#include <autograd/backward.h>

static tn_status refuse_mismatch(const char *name, const tn_tensor *gradient,
                                 const tn_tensor *root)
{
    tn__text text = {0};
    tn__text_add(&text, "{gradient} is ");
    tn__text_add(&text, "%s ", tn_dtype_name(gradient->dtype));
    tn__text_add_shape(&text, gradient->ndim, gradient->shape);
    tn__text_add(&text, " on %s, {root} %s ", gradient->storage->device->name,
                 tn_dtype_name(root->dtype));
    tn__text_add_shape(&text, root->ndim, root->shape);
    tn__text_add(&text, " on %s: they must be the same",
                 root->storage->device->name);
    char *message = tn__text_finish(&text);
    tn_status code = gradient->storage->device != root->storage->device
                         ? TN_ERR_DEVICE
                     : gradient->dtype != root->dtype ? TN_ERR_DTYPE
                                                      : TN_ERR_SHAPE;
    if (message)
        tn__fail_marked(code, name, message);
    tn__free(message);
    return tn_error_code();
}

/* Checks that a backward pass can start at root with this gradient. */
static tn_status check_root(const char *name, tn_tensor *root,
                            const tn_tensor *gradient)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__tensor_check(root, name, "root") ||
        (gradient && !tn__tensor_check(gradient, name, "gradient")))
        return tn_error_code();
    if (tn__tensor_refresh(root) < 0)
        return tn_error_code();
    if (!root->requires_grad)
        return tn__fail(TN_ERR_STATE,
                        "%s: {root} does not require a gradient: none of the "
                        "tensors it was made from does, or it was made while "
                        "recording was off",
                        name);
    if (gradient &&
        (!tn__shape_equal(gradient->ndim, gradient->shape, root->ndim,
                          root->shape) ||
         gradient->dtype != root->dtype ||
         gradient->storage->device != root->storage->device))
        return refuse_mismatch(name, gradient, root);
    if (!gradient && root->numel != 1) {
        tn__text text = {0};
        tn__text_add_shape(&text, root->ndim, root->shape);
        char *shape = tn__text_finish(&text);
        if (shape)
            tn__fail(TN_ERR_SHAPE,
                     "%s: {root} has shape %s and no gradient is given: reduce "
                     "it to one element (tn_sum, tn_mean), or pass .gradient",
                     name, shape);
        tn__free(shape);
        return tn_error_code();
    }
    return TN_OK;
}

TN_OPTIONS_TYPE(tn_backward, "backward", "root", TN_BACKWARD_OPTIONS_LIST)

tn_status tn_backward_with(tn_tensor *root, const tn_backward_options *options)
{
    tn_backward_options o;
    if (tn_options_take(tn_backward_type(), &o, options) < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check_root("backward", root, o.gradient);
    if (status < 0)
        return status;
    struct tn__job job = {.retain = o.retain_graph || o.create_graph,
                          .create = o.create_graph};
    tn__span span;
    tn__span_begin(&span);
    status = tn__job_run(&job, root, o.gradient);
    tn__span_end(&span, "range", "backward", NULL);
    return status;
}

/* Returns whether elements of x share memory, as in an expanded gradient. */
static bool is_expanded(const tn_tensor *x)
{
    for (int d = 0; d < x->ndim; d++)
        if (x->stride[d] == 0 && x->shape[d] > 1)
            return true;
    return false;
}

/* Gives a result of tn_grad to the open scope. If another scope owns the tensor
 * already, the caller gets an alias. An expanded tensor is copied, so that the
 * caller can write each of its elements. */
static tn_tensor *own_result(tn_tensor *result)
{
    if (is_expanded(result)) {
        tn_tensor *whole = tn_contiguous(result);
        tn__unref(result);
        return whole;
    }
    if (!atomic_load(&result->object.owner))
        return tn__scope_own(result);
    tn_tensor *alias = tn__tensor_alias(result);
    if (alias && result->requires_grad && result->grad &&
        tn__tensor_set_node(alias, result->grad->node, result->grad->index) <
            0) {
        tn__unref(alias);
        alias = NULL;
    }
    tn__unref(result);
    return alias ? tn__scope_own(alias) : NULL;
}

static tn_status check_inputs(tn_tensor *const *input, int count)
{
    for (int i = 0; i < count; i++) {
        char argument[32];
        snprintf(argument, sizeof argument, "inputs[%d]", i);
        if (!tn__tensor_check(input[i], "grad", argument))
            return tn_error_code();
        if (tn__tensor_refresh(input[i]) < 0)
            return tn_error_code();
        if (!input[i]->requires_grad)
            return tn__fail(TN_ERR_STATE,
                            "grad: {inputs:input} %d does not require a "
                            "gradient: mark it with tn_requires_grad() before "
                            "it is used", i);
    }
    return TN_OK;
}

/* Stores the results of tn_grad in out[]. Takes over the references in
 * job->result, also on failure. */
static tn_status return_results(struct tn__job *job, tn_tensor **out,
                                bool allow_unused)
{
    tn_status status = TN_OK;
    for (int i = 0; i < job->input_count && status >= 0; i++)
        if (!job->result[i] && !allow_unused)
            status = tn__fail(TN_ERR_STATE,
                              "grad: {inputs:input} %d was not used to make "
                              "{root}: pass .allow_unused = true to get NULL "
                              "for it", i);
    for (int i = 0; i < job->input_count; i++) {
        tn_tensor *result = job->result[i];
        if (!result)
            continue;
        job->result[i] = status >= 0 ? own_result(result) : NULL;
        if (status < 0)
            tn__unref(result);
        else if (!job->result[i])
            status = TN_ERR_MEMORY;
    }
    if (status >= 0)
        memcpy(out, job->result,
               (size_t)job->input_count * sizeof(tn_tensor *));
    return status;
}

TN_OPTIONS_TYPE(tn_grad, "grad", "root, inputs, count, out",
                TN_GRAD_OPTIONS_LIST)

tn_status tn_grad_with(tn_tensor *root, tn_tensor *const *inputs, int count,
                       tn_tensor **out, const tn_grad_options *options)
{
    tn_grad_options o;
    if (tn_options_take(tn_grad_type(), &o, options) < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check_root("grad", root, o.gradient);
    if (status < 0)
        return status;
    if (!inputs || !out)
        return tn__fail(TN_ERR_ARGUMENT, "grad: {%s} is NULL",
                        inputs ? "out" : "inputs");
    if (count < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "grad: {count:}%d inputs: at least one is needed",
                        count);
    if (check_inputs(inputs, count) < 0)
        return tn_error_code();
    struct tn__job job = {.retain = o.retain_graph || o.create_graph,
                          .create = o.create_graph,
                          .input = inputs,
                          .input_count = count};
    job.result = tn__calloc((size_t)count, sizeof(tn_tensor *));
    if (!job.result)
        return TN_ERR_MEMORY;
    status = tn__job_run(&job, root, o.gradient);
    if (status >= 0)
        status = return_results(&job, out, o.allow_unused);
    else
        for (int i = 0; i < count; i++)
            tn__unref(job.result[i]);
    tn__free(job.result);
    return status;
}
