/* Each allocation of an optimizer fails in turn: the call must report an error
 * and leak nothing. */
#include <base/memory.h>
#include <math.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "tap.h"

static char path[] = "/tmp/tenon-test-memory-XXXXXX";

typedef struct problem {
    tn_tensor *p[2];
    tn_optim *optim;
} problem;

static double closure(void *context)
{
    problem *at = context;
    tn_tensor *loss = tn_add(tn_sum(tn_square(at->p[0])),
                             tn_sum(tn_square(at->p[1])));
    tn_optim_zero_grad(at->optim);
    tn_backward(loss);
    return tn_item(loss);
}

static void use(problem *at, tn_optim *optim)
{
    at->optim = optim;
    tn_optim_step_closure(optim, closure, at);
    tn_optim_step_closure(optim, closure, at);
}

static void adam(problem *at)
{
    tn_optim *optim = tn_optim_adam(tn_parameters_from(&at->p[0], 1));
    if (optim)
        tn_optim_add_group(optim, tn_parameters_from(&at->p[1], 1), .lr = 1);
    tn_schedule *schedule = tn_schedule_exponential_lr(optim, 0.5);
    use(at, optim);
    tn_clip_grad_norm(tn_parameters_from(at->p, 2), 0.5);
    if (schedule)
        tn_schedule_step(schedule);
    tn_optim_save(optim, path);
    tn_optim_load(optim, path);
}

static void muon(problem *at)
{
    use(at, tn_optim_muon(tn_parameters_from(at->p, 2)));
}

static void adafactor(problem *at)
{
    tn_optim *optim = tn_optim_adafactor(tn_parameters_from(at->p, 2));
    tn_schedule *all[2] = {
        tn_schedule_exponential_lr(optim, 0.5),
        tn_schedule_linear_lr(optim)};
    tn_schedule *both = tn_schedule_sequential_lr(optim, all, 2,
                                                  (int64_t[]){1});
    tn_schedule_reduce_lr_on_plateau(optim);
    use(at, optim);
    if (both)
        tn_schedule_step(both);
    tn_optim_save(optim, path);
    tn_optim_load(optim, path);
}

static void layerwise(problem *at)
{
    use(at, tn_optim_lars(tn_parameters_from(&at->p[0], 1)));
    use(at, tn_optim_lamb(tn_parameters_from(at->p, 2)));
}

static void lbfgs(problem *at)
{
    use(at, tn_optim_lbfgs(tn_parameters_from(at->p, 2), .max_iter = 3,
                           .history_size = 2, .lr = 0.3));
    tn_optim_save(at->optim, path);
    tn_optim_load(at->optim, path);
}

static tn_status run(void (*body)(problem *at))
{
    tn_scope *scope = tn_scope_open();
    problem at = {.p = {NULL}};
    for (int i = 0; i < 2; i++)
        at.p[i] = tn_requires_grad(tn_ones(tn_dims(2, 3)));
    if (!tn_error())
        body(&at);
    tn_status status = tn_error_code();
    tn_scope_close(scope);
    return status;
}

static void test_failing(const char *name, void (*body)(problem *at))
{
    is_int(run(body), TN_OK, "%s: works%s%s", name, tn_error() ? ": " : "",
           tn_error() ? tn_error() : "");
    tn_error_clear();
    int failures = 0, wrong = 0, left = 0;
    for (int n = 1; n < 20000; n++) {
        int64_t before = tn__memory_count(), objects = tn_scope_count();
        tn__memory_fail_at(n);
        tn_status status = run(body);
        bool reached = status < 0 || tn__memory_count() - before >= n;
        tn__memory_fail_at(0);
        tn_error_clear();
        if (!reached)
            break;
        failures++;
        wrong += status != TN_ERR_MEMORY;
        left += tn_scope_count() != objects;
    }
    ok(failures > 0, "%s: %d allocations were made to fail", name, failures);
    is_int(wrong, 0, "%s: each gave an error", name);
    is_int(left, 0, "%s: none left an object behind", name);
    int64_t live = tn__memory_live();
    is_int(run(body), TN_OK, "%s: works again", name);
    is_int(tn__memory_live(), live, "%s: and leaves no memory", name);
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    int fd = mkstemp(path);
    if (fd < 0)
        bail_out("no room for a file in /tmp");
    close(fd);
    test_failing("Adam", adam);
    test_failing("Muon", muon);
    test_failing("Adafactor", adafactor);
    test_failing("LARS and LAMB", layerwise);
    test_failing("LBFGS", lbfgs);
    unlink(path);
    return done_testing();
}
