/* lbfgs.c: limited-memory BFGS (J. Nocedal, "Updating quasi-Newton matrices
 * with limited storage", 1980), as torch.optim.LBFGS without a line search.
 *
 * All parameters are treated as one long vector. The inverse Hessian is
 * approximated from the latest pairs (s, y) of a step s and the change y of the
 * gradient along it. */
#include <optim/lbfgs.h>

#include <math.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

static void history_release(void *object)
{
    tn__lbfgs *p = object;
    tn_drop(p->direction);
    tn_drop(p->grad);
    for (int i = 0; i < p->capacity; i++) {
        tn_drop(p->ring[i].y);
        tn_drop(p->ring[i].s);
    }
}

static const tn_object_class history_class = {
    sizeof history_class, "LBFGS history", sizeof(tn__lbfgs), history_release};

/* Stores x in *slot, with a reference, and drops the tensor that was there. */
static void replace(tn_tensor **slot, tn_tensor *x)
{
    tn_keep(x);
    tn_drop(*slot);
    *slot = x;
}

/* ---- one long vector ---------------------------------------------------- */

static tn_tensor *flat(tn_tensor *x)
{
    return tn_reshape(x, tn_dims(-1));
}

/* An array of tensors, one for each parameter, owned by the open scope. */
typedef struct parts {
    tn_object object;
    tn_tensor *part[];
} parts;

static const tn_object_class parts_class = {sizeof parts_class, "pieces",
                                            sizeof(parts), NULL};

/* Returns all gradients as one vector, with zeros for parameters without a
 * gradient. */
static tn_tensor *gather_grad(const tn__optim_group *group)
{
    int count = tn_parameters_count(group->parameters);
    tn_scope *scope = tn_scope_open();
    parts *all = tn_object_new(&parts_class, (size_t)count * sizeof *all->part);
    for (int i = 0; all && i < count; i++) {
        tn_tensor *p = tn_parameters_at(group->parameters, i);
        tn_tensor *g = tn_tensor_grad(p);
        all->part[i] = flat(g ? g : tn_zeros_like(p));
    }
    return tn_scope_result(scope, all ? tn_cat(all->part, count, 0) : NULL);
}

/* Adds t * direction to the parameters. */
static tn_status move(const tn__optim_group *group, double t,
                      tn_tensor *direction)
{
    int64_t at = 0;
    for (int i = 0; i < tn_parameters_count(group->parameters); i++) {
        tn_tensor *p = tn_parameters_at(group->parameters, i);
        tn_dims_list shape = {.count = tn_tensor_ndim(p)};
        for (int k = 0; k < shape.count; k++)
            shape.dim[k] = tn_tensor_shape(p)[k];
        tn_tensor *part = tn_reshape(
            tn_narrow(direction, 0, at, tn_tensor_numel(p)), shape);
        if (!tn_add_(p, part, .alpha = t))
            return tn_error_code();
        at += tn_tensor_numel(p);
    }
    return TN_OK;
}

static double dot(tn_tensor *x, tn_tensor *y)
{
    return tn_item(tn_vecdot(x, y));
}

static double largest(tn_tensor *x)
{
    return tn_item(tn_max(tn_abs(x)));
}

static tn_tensor *add_scaled(tn_tensor *x, double factor, tn_tensor *y)
{
    return tn_add(x, y, .alpha = factor);
}

/* ---- the direction ------------------------------------------------------ */

/* Adds the pair of the last step to the ring buffer, if the curvature y . s
 * along it is positive. */
static void add_pair(tn__lbfgs *p, tn_tensor *grad)
{
    tn_tensor *y = add_scaled(grad, -1, p->grad);
    tn_tensor *s = tn_mul_scalar(p->direction, p->t);
    double ys = dot(y, s);
    if (!(ys > 1e-10))
        return;
    int at = (p->first + p->count) % p->capacity;
    if (p->count == p->capacity)
        p->first = (p->first + 1) % p->capacity;
    else
        p->count++;
    replace(&p->ring[at].y, y);
    replace(&p->ring[at].s, s);
    p->ring[at].rho = 1 / ys;
    p->scale = ys / dot(y, y);
}

/* Turns q, minus the gradient, into the search direction: minus the inverse
 * Hessian times the gradient, by Nocedal's two-loop recursion. Called for pair
 * i = count - 1, the newest. Each recursive call handles one pair in both loops:
 * the first loop on the way down, the second on the way back. q is changed in
 * place, because vectors of all parameters exceed the caches. */
static void two_loops(tn__lbfgs *p, tn_tensor *q, int i)
{
    if (i < 0) {
        tn_mul_scalar_(q, p->scale);
        return;
    }
    const tn__lbfgs_pair *one = tn__lbfgs_pair_at(p, i);
    double al = dot(one->s, q) * one->rho;
    tn_add_(q, one->y, .alpha = -al);
    two_loops(p, q, i - 1);
    double be = dot(one->y, q) * one->rho;
    tn_add_(q, one->s, .alpha = al - be);
}

/* ---- a step ------------------------------------------------------------- */

/* Runs one iteration. Returns true if it changed the parameters. */
static bool iterate(tn__lbfgs *p, const tn__optim_group *group, tn_tensor *grad,
                    double loss)
{
    const tn_optim_lbfgs_options *o = &group->optim->options.lbfgs;
    tn_scope *scope = tn_scope_open();
    bool first = p->iterations == 0, moved = false;
    if (!first)
        add_pair(p, grad);
    tn_tensor *direction = tn_neg(grad);
    two_loops(p, direction, p->count - 1);
    double slope = dot(grad, direction);
    if (!tn_error()) {
        double lr = group->rates.lr;
        p->t = first ? fmin(1, 1 / tn_item(tn_sum(tn_abs(grad)))) * lr : lr;
        p->iterations++;
        p->loss = loss;
        replace(&p->direction, direction);
        replace(&p->grad, grad);
        moved = slope <= -o->tolerance_change &&
                move(group, p->t, direction) == TN_OK;
    }
    tn_scope_close(scope);
    return moved && !tn_error();
}

tn__lbfgs *tn__lbfgs_new(int capacity)
{
    tn__lbfgs *p =
        tn_object_new(&history_class, (size_t)capacity * sizeof *p->ring);
    if (p) {
        p->capacity = capacity;
        p->scale = 1;
    }
    return p;
}

static tn__lbfgs *history_of(tn_optim *optim)
{
    if (!optim->history)
        optim->history =
            tn_keep(tn__lbfgs_new(optim->options.lbfgs.history_size));
    return optim->history;
}

/* Returns the current gradient as one vector, and its largest magnitude. NULL
 * on failure. */
static tn_tensor *gather_now(const tn__optim_group *group, double *out_largest)
{
    tn_tensor *grad = NULL;
    tn_scope *scope = tn_scope_open();
    TN_NO_GRAD {
        grad = gather_grad(group);
        *out_largest = largest(grad);
    }
    grad = tn_scope_result(scope, grad);
    return tn_error() ? NULL : grad;
}

/* Returns whether to stop: the gradient, the last step, or the last change of
 * the loss is below its tolerance. */
static bool has_converged(const tn__lbfgs *p, const tn_optim_lbfgs_options *o,
                          double loss, double steepest)
{
    double change = 0;
    TN_NO_GRAD {
        change = p->t * largest(p->direction);
    }
    return steepest <= o->tolerance_grad || change <= o->tolerance_change ||
           fabs(loss - p->loss) < o->tolerance_change;
}

static double step(tn_optim *optim, tn_optim_closure closure, void *context)
{
    const tn_optim_lbfgs_options *o = &optim->options.lbfgs;
    const tn__optim_group *group = optim->first;
    tn_scope *scope = tn_scope_open();
    tn__lbfgs *p = history_of(optim);
    double steepest = 0, first_loss = p ? closure(context) : NAN;
    double loss = first_loss;
    tn_tensor *grad = p && !tn_error() ? gather_now(group, &steepest) : NULL;
    bool done = !grad || steepest <= o->tolerance_grad;
    int evaluations = 1;
    for (int i = 1; !done; i++) {
        bool moved = false;
        TN_NO_GRAD {
            moved = iterate(p, group, grad, loss);
        }
        if (!moved || i == o->max_iter)
            break;
        tn_scope *inner = tn_scope_open();
        loss = closure(context);
        grad = tn_error() ? NULL : gather_now(group, &steepest);
        grad = tn_scope_result(inner, grad);
        evaluations++;
        done = !grad || evaluations >= o->max_eval ||
               has_converged(p, o, loss, steepest);
    }
    tn_scope_close(scope);
    return tn_error() ? NAN : first_loss;
}

static tn_status check_uniform(const tn_parameter_list *list, const char *call)
{
    const tn_tensor *first = tn_parameters_at(list, 0);
    for (int i = 1; i < tn_parameters_count(list); i++) {
        const tn_tensor *p = tn_parameters_at(list, i);
        if (tn_tensor_dtype(p) != tn_tensor_dtype(first) ||
            tn_tensor_device(p) != tn_tensor_device(first))
            return tn_error_refuse_argument(
                TN_ERR_DTYPE, call, "parameters",
                "parameter \"%s\" (%s on %s) does not have the dtype and "
                "device of \"%s\" (%s on %s)",
                tn_parameters_name(list, i), tn_dtype_name(tn_tensor_dtype(p)),
                tn_device_name(tn_tensor_device(p)),
                tn_parameters_name(list, 0),
                tn_dtype_name(tn_tensor_dtype(first)),
                tn_device_name(tn_tensor_device(first)));
    }
    return TN_OK;
}

static tn__optim_rule lbfgs = {
    .name = "optim_lbfgs", .closure = step, .accepts = check_uniform};

TN_OPTIONS_TYPE(tn_optim_lbfgs, "optim_lbfgs", "parameters",
                TN_OPTIM_LBFGS_OPTIONS_LIST)

/* Checks an option that counts iterations or pairs. */
static bool is_positive(const char *option, int number)
{
    if (number >= 1)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, "optim_lbfgs", option,
                             "%s is %d; expected at least 1", option, number);
    return false;
}

tn_optim *tn_optim_lbfgs_with(tn_parameter_list *parameters,
                              const tn_optim_lbfgs_options *options)
{
    tn_optim_lbfgs_options o;
    if (tn_options_take(tn_optim_lbfgs_type(), &o, options) < 0)
        return NULL;
    if (o.max_eval == TN_NONE_INT)
        o.max_eval = (int64_t)o.max_iter * 5 / 4;
    if (!tn__optim_check("optim_lbfgs", "lr", o.lr, 1e300) ||
        !is_positive("max_iter", o.max_iter) ||
        !is_positive("history_size", o.history_size) ||
        !tn__optim_check("optim_lbfgs", "max_eval", (double)o.max_eval,
                         0x1p31) ||
        !tn__optim_check("optim_lbfgs", "tolerance_grad", o.tolerance_grad,
                         1e300) ||
        !tn__optim_check("optim_lbfgs", "tolerance_change", o.tolerance_change,
                         1e300) ||
        !tn__optim_check("optim_lbfgs", "history_size", o.history_size, 1000))
        return NULL;
    tn_optim *optim = tn__optim_new(&lbfgs, parameters, o.lr, 0, 0);
    if (optim)
        optim->options.lbfgs = o;
    return optim;
}
