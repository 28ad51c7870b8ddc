/* optim_file.c: checks eight steps of an optimizer: the parameters and the loss
 * after each.
 *
 * All files minimise the same function, 0.5 * sum((p0 - target0)^2) + mean((p1
 * - target1)^4). The file's metadata has the optimizer and its arguments by
 * PyTorch's names. */
#include "golden.h"
#include "optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tn_optim *optimizer_of(tn_safetensors *file, tn_parameter_list *list)
{
    const char *text = tn_safetensors_metadata(file, "args");
    json_t *args = json_loads(text ? text : "{}", 0, NULL);
    tn_optim *optim = optimizer_make(
        tn_safetensors_metadata(file, "optimizer"), list, args);
    json_decref(args);
    return optim;
}

/* ---- the minimised function ---------------------------------------------- */

typedef struct problem {
    tn_tensor *p[2], *target[2];
    tn_optim *optim;
} problem;

static tn_tensor *loss_of(const problem *at)
{
    tn_tensor *first = tn_square(tn_sub(at->p[0], at->target[0]));
    tn_tensor *second = tn_square(tn_sub(at->p[1], at->target[1]));
    return tn_add(tn_mul_scalar(tn_sum(first), 0.5),
                  tn_mean(tn_square(second)));
}

static double closure(void *context)
{
    problem *at = context;
    tn_optim_zero_grad(at->optim);
    tn_tensor *loss = loss_of(at);
    tn_backward(loss);
    return tn_item(loss);
}

/* LBFGS uses differences of gradients. Once the loss has fallen to 1e-4 of the
 * first loss, these are mostly rounding errors, and its iterates diverge
 * (PyTorch's differ by up to 1.4e-2 from the same algorithm in float64). Then
 * only the loss is compared, with a tolerance of 1e-6 of the first loss. */
static bool is_at_minimum(tn_safetensors *file, double want, double first)
{
    return strcmp(tn_safetensors_metadata(file, "optimizer"), "LBFGS") == 0 &&
           want <= 1e-4 * first;
}

static bool loss_near(double got, double want, tolerance within)
{
    if (isnan(got) || isinf(got) || isinf(want))
        return got == want;
    return fabs(got - want) <= within.absolute + within.relative * fabs(want);
}

/* Makes one step. Returns whether the loss and the parameters equal
 * PyTorch's. */
static bool check_step(verdict *v, tn_safetensors *file, problem *at, int step,
                       double want, double first)
{
    tolerance within = tolerance_for("optimizer", tn_tensor_dtype(at->p[0]));
    double loss = tn_optim_step_closure(at->optim, closure, at);
    if (tn_error()) {
        verdict_fail(v, "step %d: %s", step, tn_error());
        return false;
    }
    bool at_minimum = is_at_minimum(file, want, first);
    if (at_minimum ? !(loss <= 2 * want + 1e-6 * first)
                   : !loss_near(loss, want, within)) {
        verdict_fail(v, "loss of step %d is %.9g, wanted %.9g", step, loss,
                     want);
        return false;
    }
    for (int i = 0; i < 2 && !at_minimum; i++) {
        char key[32], why[300];
        snprintf(key, sizeof key, "p%d.step%d", i, step);
        if (!golden_equal(at->p[i], golden_tensor(file, key, NULL), within,
                          why, sizeof why)) {
            verdict_fail(v, "%s: %s", key, why);
            return false;
        }
    }
    return true;
}

verdict optim_file_run(tn_safetensors *file)
{
    verdict v = {0};
    problem at = {.target = {golden_tensor(file, "target0", NULL),
                             golden_tensor(file, "target1", NULL)}};
    for (int i = 0; i < 2; i++)
        at.p[i] = tn_requires_grad(
            tn_clone(golden_tensor(file, i ? "p1.start" : "p0.start", NULL)));
    at.optim = optimizer_of(file, tn_parameters_from(at.p, 2));
    if (!at.optim && !tn_error()) {
        v.unsupported = 1;
        snprintf(v.detail, sizeof v.detail, "no such optimizer or argument");
        return v;
    }
    /* The list contains Infinity, which is not valid JSON, so its numbers are
     * parsed one by one. */
    const char *losses = tn_safetensors_metadata(file, "losses");
    char *next = (char *)(losses + strspn(losses, "[ "));
    double first = strtod(next, NULL);
    bool same = true;
    for (int step = 0; same && *next && *next != ']'; step++) {
        double want = strtod(next, &next);
        same = check_step(&v, file, &at, step, want, first);
        next += strspn(next, ", ");
    }
    v.passed = !v.failed;
    return v;
}
