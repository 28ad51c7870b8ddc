/* gradcheck.c: checks gradients against central finite differences.
 *
 * The whole Jacobian is compared, element by element. The step and the
 * tolerances are the defaults of PyTorch's gradcheck. */
#include <math.h>
#include <string.h>

#include <autograd/node.h>

static const double eps = 1e-6, atol = 1e-5, rtol = 1e-3;

struct check {
    const char *name; /* name of the public function, for messages */
    tn_gradcheck_fn fn;
    void *context;
    tn_tensor *const *input;
    int count;
    int64_t out_numel;
    double *analytic; /* owned: the Jacobian, analytic[out_numel][in_numel] */
    int64_t in_numel; /* number of elements of all inputs that require a
                         gradient */
};

/* Calls fn and copies the out_numel elements of its output to out. */
static tn_status evaluate(const struct check *check, double *out)
{
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_tensor *y = check->fn(check->input, check->count, check->context);
    tn_status status = TN_OK;
    if (y)
        status = tn_tensor_to_array(y, out,
                                    (size_t)check->out_numel * sizeof *out);
    else
        status = tn_error_code();
    tn_scope_close(scope);
    return status;
}

/* Computes row j of the Jacobian by backward: the gradient of element j of
 * y. */
static tn_status analytic_row(struct check *check, tn_tensor *y, int64_t j,
                              double *cotangent, tn_tensor **wanted,
                              tn_tensor **grad, int wanted_count)
{
    tn_dims_list shape = {y->ndim, {0}};
    memcpy(shape.dim, y->shape, y->ndim * sizeof y->shape[0]);
    memset(cotangent, 0, (size_t)y->numel * sizeof *cotangent);
    cotangent[j] = 1;
    tn_tensor *g = tn_tensor_from_array(cotangent, TN_F64, shape);
    if (!g)
        return tn_error_code();
    tn_status status =
        tn_grad(y, wanted, wanted_count, grad, .gradient = g,
                .retain_graph = true, .allow_unused = true);
    double *row = check->analytic + j * check->in_numel;
    for (int i = 0; i < wanted_count && status >= 0; i++) {
        int64_t numel = wanted[i]->numel;
        if (grad[i])
            status = tn_tensor_to_array(grad[i], row,
                                        (size_t)numel * sizeof *row);
        else
            memset(row, 0, (size_t)numel * sizeof *row);
        row += numel;
    }
    return status;
}

static tn_status analytic(struct check *check, tn_tensor *y,
                          tn_tensor **wanted, int wanted_count)
{
    size_t cells = (size_t)(y->numel * check->in_numel);
    check->analytic = tn__calloc(cells, sizeof(double));
    double *cotangent = tn__calloc((size_t)y->numel, sizeof(double));
    tn_tensor **grad = tn__calloc((size_t)wanted_count, sizeof *grad);
    tn_status status =
        check->analytic && cotangent && grad ? TN_OK : TN_ERR_MEMORY;
    /* If y does not depend on the inputs, the Jacobian stays zero. */
    for (int64_t j = 0; j < y->numel && status >= 0 && y->requires_grad; j++) {
        tn_scope *scope = tn_scope_open();
        status = scope ? analytic_row(check, y, j, cotangent, wanted, grad,
                                      wanted_count)
                       : TN_ERR_MEMORY;
        tn_scope_close(scope);
    }
    tn__free(cotangent);
    tn__free(grad);
    return status;
}

static tn_status compare(const struct check *check, int input, int64_t element,
                         int64_t column, const double *up, const double *down)
{
    for (int64_t j = 0; j < check->out_numel; j++) {
        double a = check->analytic[j * check->in_numel + column];
        double n = (up[j] - down[j]) / (2 * eps);
        if (!(fabs(a - n) <= atol + rtol * fabs(n)))
            return tn__fail(TN_ERR_INTERNAL,
                            "%s: {inputs:input} %d, element %lld: output "
                            "element %lld has derivative %.9g, but differences "
                            "give %.9g", check->name, input, (long long)element,
                            (long long)j, a, n);
    }
    return TN_OK;
}

/* Computes the Jacobian's columns for one input by finite differences and
 * compares them. Each element of the input is changed by +eps and by -eps. */
static tn_status differences(const struct check *check, int input,
                             int64_t first_column, double *x, double *up,
                             double *down)
{
    tn_tensor *tensor = check->input[input];
    size_t bytes = (size_t)tensor->numel * sizeof *x;
    tn_status status = tn_tensor_to_array(tensor, x, bytes);
    for (int64_t e = 0; e < tensor->numel && status >= 0; e++) {
        double was = x[e];
        x[e] = was + eps;
        status = tn_tensor_set_array(tensor, x, bytes);
        if (status >= 0)
            status = evaluate(check, up);
        x[e] = was - eps;
        if (status >= 0)
            status = tn_tensor_set_array(tensor, x, bytes);
        if (status >= 0)
            status = evaluate(check, down);
        x[e] = was;
        if (status >= 0)
            status = tn_tensor_set_array(tensor, x, bytes);
        if (status >= 0)
            status = compare(check, input, e, first_column + e, up, down);
    }
    return status;
}

static tn_status numeric(const struct check *check)
{
    int64_t column = 0;
    tn_status status = TN_OK;
    double *out =
        tn__calloc((size_t)(2 * check->out_numel), sizeof(double));
    double *x = tn__calloc((size_t)check->in_numel, sizeof(double));
    if (!out || !x)
        status = TN_ERR_MEMORY;
    for (int i = 0; i < check->count && status >= 0; i++) {
        if (!check->input[i]->requires_grad)
            continue;
        status = differences(check, i, column, x, out, out + check->out_numel);
        column += check->input[i]->numel;
    }
    tn__free(out);
    tn__free(x);
    return status;
}

static tn_status check_inputs(struct check *check, tn_tensor **wanted,
                              int *wanted_count)
{
    for (int i = 0; i < check->count; i++) {
        tn_tensor *x = check->input[i];
        char argument[32];
        snprintf(argument, sizeof argument, "inputs[%d]", i);
        if (!tn__tensor_check(x, check->name, argument))
            return tn_error_code();
        if (!x->requires_grad)
            continue;
        if (x->dtype != TN_F64 || !tn_tensor_is_leaf(x))
            return tn__fail(TN_ERR_ARGUMENT,
                            "%s: {inputs:input} %d must be a float64 leaf, not "
                            "a %s%s: differences need its precision",
                            check->name, i, tn_dtype_name(x->dtype),
                            tn_tensor_is_leaf(x) ? "" : " made by an operator");
        wanted[(*wanted_count)++] = x;
        check->in_numel += x->numel;
    }
    if (!*wanted_count)
        return tn__fail(TN_ERR_ARGUMENT,
                        "%s: none of the %d {inputs} requires a gradient",
                        check->name, check->count);
    return TN_OK;
}

/* Calls fn, computes the Jacobian by backward, and compares it with finite
 * differences. */
static tn_status check_output(struct check *check, bool may_be_constant)
{
    tn_tensor **wanted = tn__calloc((size_t)check->count + 1, sizeof *wanted);
    int wanted_count = 0;
    if (!wanted)
        return TN_ERR_MEMORY;
    tn_status status = check_inputs(check, wanted, &wanted_count);
    tn_tensor *y = NULL;
    if (status >= 0) {
        y = check->fn(check->input, check->count, check->context);
        if (y && !tn__tensor_check(y, check->name, "fn's output"))
            y = NULL;
        status = y ? TN_OK : tn_error_code();
    }
    if (y && y->dtype != TN_F64)
        status = tn__fail(TN_ERR_DTYPE, "%s: {fn} returns a tensor of %s; "
                          "expected float64", check->name,
                          tn_dtype_name(y->dtype));
    else if (y && !y->requires_grad && !may_be_constant)
        status = tn__fail(TN_ERR_STATE,
                          "%s: the output of {fn} does not require a gradient: "
                          "compute it from the inputs by operators, with "
                          "recording on", check->name);
    if (status >= 0) {
        check->out_numel = y->numel;
        status = analytic(check, y, wanted, wanted_count);
    }
    if (status >= 0)
        status = numeric(check);
    tn__free(check->analytic);
    tn__free(wanted);
    return status;
}

static tn_status run_check(struct check *check, bool may_be_constant)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (check->count < 0 || (check->count && !check->input) || !check->fn)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {fn} or {inputs} is NULL, or the "
                        "count is negative", check->name);
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    bool mode = tn_grad_mode_set(true);
    tn_status status = check_output(check, may_be_constant);
    tn_grad_mode_set(mode);
    tn_scope_close(scope);
    return status;
}

tn_status tn_gradcheck(tn_gradcheck_fn fn, tn_tensor *const *inputs, int count,
                       void *context)
{
    struct check check = {.name = "gradcheck",
                          .fn = fn,
                          .context = context,
                          .input = inputs,
                          .count = count};
    return run_check(&check, false);
}

/* ---- second order ------------------------------------------------------- */

/* The context of a function that returns the gradient of one input of fn. Its
 * arguments are the inputs of fn, then the gradient of its output. Checking the
 * gradient of this function checks second derivatives of fn. */
struct second {
    tn_gradcheck_fn fn;
    void *context;
    int which; /* number of the input */
};

static tn_tensor *first_gradient(tn_tensor *const *inputs, int count,
                                 void *context)
{
    const struct second *second = context;
    tn_tensor *y = second->fn(inputs, count - 1, second->context);
    tn_tensor *x = inputs[second->which], *grad = NULL;
    tn_status status =
        tn_grad(y, &x, 1, &grad, .gradient = inputs[count - 1],
                .create_graph = true, .allow_unused = true);
    if (status < 0)
        return NULL;
    if (grad)
        return grad;
    double zero = 0; /* y does not depend on x */
    return tn_tensor_from_array(&zero, TN_F64, TN_SCALAR);
}

/* Returns a gradient for y. Its elements are pseudorandom numbers in [-1, 1),
 * the same in each run. */
static tn_tensor *cotangent_like(const tn_tensor *y)
{
    double *data = tn__calloc((size_t)y->numel, sizeof *data);
    if (!data)
        return NULL;
    uint64_t state = 12345; /* Knuth's MMIX linear congruential generator */
    for (int64_t i = 0; i < y->numel; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (double)(int64_t)state * 0x1p-63;
    }
    tn_dims_list shape = {y->ndim, {0}};
    memcpy(shape.dim, y->shape, y->ndim * sizeof y->shape[0]);
    tn_tensor *v = tn_tensor_from_array(data, TN_F64, shape);
    tn__free(data);
    return tn_requires_grad(v);
}

static tn_status check_second(struct second *second, tn_tensor *const *inputs,
                              tn_tensor **all, int count)
{
    tn_tensor *y = second->fn(inputs, count, second->context);
    if (!y || !tn__tensor_check(y, "gradgradcheck", "fn's output"))
        return tn_error_code();
    memcpy(all, inputs, (size_t)count * sizeof *all);
    all[count] = cotangent_like(y);
    if (!all[count])
        return tn_error_code();
    tn_status status = TN_OK;
    for (int i = 0; i < count && status >= 0; i++) {
        if (!inputs[i] || !inputs[i]->requires_grad)
            continue;
        second->which = i;
        struct check check = {.name = "gradgradcheck",
                              .fn = first_gradient,
                              .context = second,
                              .input = all,
                              .count = count + 1};
        status = run_check(&check, true);
    }
    return status;
}

tn_status tn_gradgradcheck(tn_gradcheck_fn fn, tn_tensor *const *inputs,
                           int count, void *context)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (count < 1 || !inputs || !fn)
        return tn__fail(TN_ERR_ARGUMENT,
                        "gradgradcheck: {fn} or {inputs} is NULL, or there "
                        "are no inputs");
    for (int i = 0; i < count; i++) {
        char argument[32];
        snprintf(argument, sizeof argument, "inputs[%d]", i);
        if (!tn__tensor_check(inputs[i], "gradgradcheck", argument))
            return tn_error_code();
    }
    tn_tensor **all = tn__calloc((size_t)count + 1, sizeof *all);
    tn_scope *scope = all ? tn_scope_open() : NULL;
    struct second second = {fn, context, 0};
    tn_status status = TN_ERR_MEMORY;
    if (scope) {
        bool mode = tn_grad_mode_set(true);
        status = check_second(&second, inputs, all, count);
        tn_grad_mode_set(mode);
    }
    tn_scope_close(scope);
    tn__free(all);
    return status;
}
