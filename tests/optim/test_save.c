/* Tests parameter groups, and optimizer state in files: resumed training gives
 * identical bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "tap.h"

static char path[] = "/tmp/tenon-test-optim-XXXXXX";

static tn_tensor *matrix(float shift)
{
    float start[] = {1, -2, 0.5f, 3, 0.25f, -1};
    for (int i = 0; i < 6; i++)
        start[i] += shift;
    return tn_requires_grad(tn_tensor_from_array(start, TN_F32,
                                                 tn_dims(2, 3)));
}

/* ---- all optimizers ------------------------------------------------------ */

static tn_optim *sgd(tn_parameter_list *list)
{
    return tn_optim_sgd(list, .lr = 0.1);
}
static tn_optim *sgd_momentum(tn_parameter_list *list)
{
    return tn_optim_sgd(list, .lr = 0.1, .momentum = 0.9, .dampening = 0.1);
}
static tn_optim *adam(tn_parameter_list *list)
{
    return tn_optim_adam(list, .lr = 0.1);
}
static tn_optim *adamw_amsgrad(tn_parameter_list *list)
{
    return tn_optim_adamw(list, .lr = 0.1, .amsgrad = true);
}
static tn_optim *rmsprop(tn_parameter_list *list)
{
    return tn_optim_rmsprop(list, .momentum = 0.5, .centered = true);
}
static tn_optim *adagrad(tn_parameter_list *list)
{
    return tn_optim_adagrad(list, .lr_decay = 0.1);
}
static tn_optim *adadelta(tn_parameter_list *list)
{
    return tn_optim_adadelta(list);
}
static tn_optim *adamax(tn_parameter_list *list)
{
    return tn_optim_adamax(list);
}
static tn_optim *nadam(tn_parameter_list *list)
{
    return tn_optim_nadam(list);
}
static tn_optim *radam(tn_parameter_list *list)
{
    return tn_optim_radam(list);
}
static tn_optim *asgd(tn_parameter_list *list)
{
    return tn_optim_asgd(list, .lr = 0.1, .t0 = 2);
}
static tn_optim *rprop(tn_parameter_list *list)
{
    return tn_optim_rprop(list);
}
static tn_optim *muon(tn_parameter_list *list)
{
    return tn_optim_muon(list, .lr = 0.1);
}
static tn_optim *adafactor(tn_parameter_list *list)
{
    return tn_optim_adafactor(list, .lr = 0.1);
}
static tn_optim *lion(tn_parameter_list *list)
{
    return tn_optim_lion(list, .lr = 0.1);
}
static tn_optim *lars(tn_parameter_list *list)
{
    return tn_optim_lars(list, .lr = 3);
}
static tn_optim *lamb(tn_parameter_list *list)
{
    return tn_optim_lamb(list, .lr = 0.1);
}

static const struct {
    const char *name;
    tn_optim *(*make)(tn_parameter_list *list);
} rules[] = {
    {"SGD", sgd},           {"SGD, momentum", sgd_momentum},
    {"Adam", adam},         {"AdamW, amsgrad", adamw_amsgrad},
    {"RMSprop", rmsprop},   {"Adagrad", adagrad},
    {"Adadelta", adadelta}, {"Adamax", adamax},
    {"NAdam", nadam},       {"RAdam", radam},
    {"ASGD", asgd},         {"Rprop", rprop},
    {"Muon", muon},         {"Adafactor", adafactor},
    {"Lion", lion},         {"LARS", lars},
    {"LAMB", lamb},
};

/* A training run with two parameter groups; the last parameter has no gradient
 * before step 4. */
typedef struct run {
    tn_tensor *p[3];
    tn_optim *optim;
} run;

static run start(tn_optim *(*make)(tn_parameter_list *list), float shift)
{
    run r = {.p = {matrix(shift), matrix(2 * shift + 1), matrix(-1)}};
    r.optim = make(tn_parameters_from(&r.p[0], 1));
    tn_optim_add_group(r.optim, tn_parameters_from(&r.p[1], 2), .lr = 0.02,
                       .weight_decay = 0.1);
    return r;
}

static void train(run *r, int from, int to)
{
    for (int t = from; t < to; t++) {
        for (int i = 0; i < (t < 4 ? 2 : 3); i++) {
            float g[6], now[6];
            tn_tensor_to_array(r->p[i], now, sizeof now);
            for (int k = 0; k < 6; k++)
                g[k] = now[k] * (float)(k - 2) + (float)(t % 3 - 1);
            tn_tensor_set_grad(
                r->p[i], tn_tensor_from_array(g, TN_F32, tn_dims(2, 3)));
        }
        tn_optim_step(r->optim);
    }
}

/* ---- LBFGS -------------------------------------------------------------- */

typedef struct valley {
    tn_tensor *p[2];
    tn_optim *optim;
} valley;

static double descend(void *context)
{
    valley *v = context;
    tn_optim_zero_grad(v->optim);
    tn_tensor *a = v->p[0], *b = v->p[1];
    tn_tensor *loss =
        tn_add(tn_sum(tn_square(tn_sub(b, tn_square(a)))),
               tn_mul_scalar(tn_sum(tn_square(tn_rsub_scalar(a, 1))), 0.25));
    tn_backward(loss);
    return tn_item(loss);
}

static valley valley_start(float shift, int history)
{
    valley v = {.p = {matrix(shift), matrix(-shift)}};
    v.optim = tn_optim_lbfgs(tn_parameters_from(v.p, 2), .lr = 0.1,
                             .max_iter = 3, .history_size = history);
    return v;
}

/* Saves before the first step, while the ring buffer of past steps fills, and
 * after it has wrapped around. */
static void test_lbfgs(void)
{
    for (int stop = 0; stop < 5; stop++) {
        valley one = valley_start(0, 4), two = valley_start(3, 4);
        for (int t = 0; t < stop; t++)
            tn_optim_step_closure(one.optim, descend, &one);
        for (int t = 0; t < 2; t++)
            tn_optim_step_closure(two.optim, descend, &two);
        is_int(tn_optim_save(one.optim, path), TN_OK, "LBFGS: saved");
        is_int(tn_optim_load(two.optim, path), TN_OK, "LBFGS: loaded");
        float now[6], want[6], got[6];
        TN_NO_GRAD {
            for (int i = 0; i < 2; i++) {
                tn_tensor_to_array(one.p[i], now, sizeof now);
                tn_tensor_set_array(two.p[i], now, sizeof now);
            }
        }
        for (int t = 0; t < 4; t++) {
            tn_optim_step_closure(one.optim, descend, &one);
            tn_optim_step_closure(two.optim, descend, &two);
        }
        for (int i = 0; i < 2; i++) {
            tn_tensor_to_array(one.p[i], want, sizeof want);
            tn_tensor_to_array(two.p[i], got, sizeof got);
            ok(memcmp(got, want, sizeof got) == 0 && isfinite(want[0]),
               "LBFGS: parameter %d has the same bits after step %d", i, stop);
        }
        ok(!tn_error(), "LBFGS: %s", tn_error() ? tn_error() : "no error");
        tn_error_clear();
    }
    valley small = valley_start(0, 2);
    is_int(tn_optim_load(small.optim, path), TN_ERR_ARGUMENT,
           "LBFGS: a longer history is refused");
    ok(strstr(tn_error(), ": the file has a history of 4 steps, but "
                          "history_size is 2"),
       "%s", tn_error());
    tn_error_clear();
    tn_tensor *p = matrix(0);
    is_int(tn_optim_load(tn_optim_lbfgs(tn_parameters_from(&p, 1)), path),
           TN_ERR_ARGUMENT, "LBFGS: other parameters are refused");
    tn_error_clear();
}

/* Adafactor's state has other shapes than its parameter. */
static void test_factors(void)
{
    tn_tensor *p[3] = {matrix(0), tn_requires_grad(tn_ones(tn_dims(4))),
                       tn_requires_grad(tn_ones(tn_dims(2, 3, 4)))};
    tn_optim *optim = tn_optim_adafactor(tn_parameters_from(p, 3));
    for (int i = 0; i < 3; i++)
        tn_tensor_set_grad(p[i], tn_full_like(p[i], 0.5));
    tn_optim_step(optim);
    is_int(tn_optim_save(optim, path), TN_OK, "Adafactor: saved");
    tn_safetensors *file = tn_safetensors_open(path);
    is_int(tn_safetensors_count(file), 5, "Adafactor: five tensors");
    const int64_t *shape = tn_safetensors_shape(file, "0.2.col_var");
    ok(shape && shape[0] == 2 && shape[1] == 1 && shape[2] == 4,
       "Adafactor: one value for each column");
    ok(tn_safetensors_has(file, "0.1.variance") &&
           !tn_safetensors_has(file, "0.1.row_var"),
       "Adafactor: a vector has no rows");
    is_int(tn_optim_load(optim, path), TN_OK, "Adafactor: loaded");
    tn_tensor *q[3] = {p[0], p[1],
                       tn_requires_grad(tn_ones(tn_dims(2, 3, 5)))};
    tn_optim *other = tn_optim_adafactor(tn_parameters_from(q, 3));
    ok(tn_optim_load(other, path) < 0, "Adafactor: another shape is refused");
    is_int(tn_error_code(), TN_ERR_SHAPE, "with TN_ERR_SHAPE");
    tn_error_clear();
}

static void test_same_bits(void)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const char *name = rules[i].name;
        float saved[3][6], want[6], got[6];
        run one = start(rules[i].make, 0), two = start(rules[i].make, 5);
        train(&one, 0, 3);
        is_int(tn_optim_save(one.optim, path), TN_OK, "%s: saved", name);
        for (int k = 0; k < 3; k++)
            tn_tensor_to_array(one.p[k], saved[k], sizeof saved[k]);
        tn_optim_set_lr(one.optim, tn_optim_lr(one.optim));
        tn_optim_group_set_lr(one.optim, 1, 0.02);
        train(&one, 3, 7);

        train(&two, 0, 5); /* so that its state differs before loading */
        tn_optim_set_lr(two.optim, 77);
        is_int(tn_optim_load(two.optim, path), TN_OK, "%s: loaded", name);
        TN_NO_GRAD {
            for (int k = 0; k < 3; k++)
                tn_tensor_set_array(two.p[k], saved[k], sizeof saved[k]);
        }
        tn_optim_zero_grad(two.optim);
        ok(tn_optim_lr(two.optim) == tn_optim_lr(one.optim) &&
               tn_optim_group_lr(two.optim, 1) == 0.02,
           "%s: the learning rates are the file's", name);
        train(&two, 3, 7);
        for (int k = 0; k < 3; k++) {
            tn_tensor_to_array(one.p[k], want, sizeof want);
            tn_tensor_to_array(two.p[k], got, sizeof got);
            ok(memcmp(got, want, sizeof got) == 0 && isfinite(want[0]),
               "%s: parameter %d has the same bits", name, k);
        }
        ok(!tn_error(), "%s: %s", name, tn_error() ? tn_error() : "no error");
        tn_error_clear();
    }
}

/* ---- saved state --------------------------------------------------------- */

static void ignore(const char *name, tn_tensor *x, void *context)
{
    (void)name, (void)x, (void)context;
}

/* An optimizer without momentum saves a momentum of 0. */
static void test_no_momentum(void)
{
    static const struct {
        const char *name;
        tn_optim *(*make)(tn_parameter_list *list);
    } without[] = {{"SGD", sgd},   {"Adagrad", adagrad}, {"Adadelta", adadelta},
                   {"ASGD", asgd}, {"Rprop", rprop},
                   {"Adafactor", adafactor}};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        tn_tensor *p = matrix(0);
        tn_optim *optim = without[i].make(tn_parameters_from(&p, 1));
        char *state = optim ? tn_optim_state(optim, ignore, NULL) : NULL;
        ok(state && strstr(state, "\"momentum\":0.0,"),
           "%s: has no momentum: %s", without[i].name,
           state ? state : tn_error());
        free(state);
        tn_error_clear();
    }
}

/* ---- parameter groups ---------------------------------------------------- */

static double after_step(tn_optim *optim, tn_tensor *p)
{
    tn_tensor_set_grad(p, tn_ones(tn_dims(2, 3)));
    tn_optim_step(optim);
    return tn_item(tn_narrow(tn_narrow(p, 0, 0, 1), 1, 0, 1));
}

static void test_groups(void)
{
    tn_tensor *p[4] = {matrix(0), matrix(0), matrix(0), matrix(0)};
    tn_optim *optim = tn_optim_sgd(tn_parameters_from(&p[0], 1), .lr = 0.5,
                                   .weight_decay = 0.25);
    is_int(tn_optim_add_group(optim, tn_parameters_from(&p[1], 1)), TN_OK,
           "a group as the first");
    is_int(tn_optim_add_group(optim, tn_parameters_from(&p[2], 1),
                              .lr = 0.125, .weight_decay = 1),
           TN_OK, "a group with rates of its own");
    is_int(tn_optim_add_group(optim, tn_parameters_from(&p[3], 1),
                              .weight_decay = 0),
           TN_OK, "a group without decay");
    is_int(tn_optim_group_count(optim), 4, "four groups");
    double want[] = {1 - 0.5 * 1.25, 1 - 0.5 * 1.25, 1 - 0.125 * 2, 1 - 0.5};
    for (int i = 0; i < 4; i++)
        is_double_near(after_step(optim, p[i]), want[i], 1e-6,
                       "group %d has its own options", i);
    tn_optim_zero_grad(optim);
    ok(!tn_tensor_grad(p[3]), "zero_grad reaches every group");
    tn_optim_set_lr(optim, 0.75);
    is_double_near(tn_optim_group_lr(optim, 2), 0.75, 0,
                   "set_lr reaches every group");
}

/* ---- errors -------------------------------------------------------------- */

static void is_refused(bool refused, tn_status code, const char *text,
                       const char *fact)
{
    ok(refused, "%s is refused", fact);
    is_int(tn_error_code(), code, "with %s", tn_status_name(code));
    const char *begin = "optim_load: /";
    if (tn_error() && strncmp(tn_error(), begin, strlen(begin)) == 0)
        is_str(strchr(tn_error() + strlen(begin), ':') + 2, text,
               "and its message");
    else
        is_str(tn_error(), text, "and its message");
    tn_error_clear();
}

/* The parameter's elements share memory (a broadcast view), so no step can
 * change it in place. */
static void test_refused_step(void)
{
    tn_tensor *p = tn_requires_grad(
        tn_expand(tn_zeros(tn_dims(1)), tn_dims(4)));
    tn_tensor_set_grad(p, tn_ones(tn_dims(4)));
    tn_optim *optim = tn_optim_adam(tn_parameters_from(&p, 1));
    const bool failed = !optim || tn_optim_step(optim) < 0;
    ok(failed,
       "a step of a parameter whose elements share memory is refused: %s",
       tn_error() ? tn_error() : "(done)");
    tn_error_clear();
    char *state = optim ? tn_optim_state(optim, ignore, NULL) : NULL;
    ok(!optim || (state && strstr(state, "\"steps\":[0]")),
       "and is not counted");
    free(state);
    tn_error_clear();
}

static void test_mistakes(void)
{
    tn_tensor *p = matrix(0), *q = matrix(1);
    tn_parameter_list *list = tn_parameters_from(&p, 1);
    tn_optim *optim = tn_optim_adam(list);
    is_refused(tn_optim_add_group(optim, list) < 0, TN_ERR_ARGUMENT,
               "optim_add_group: parameter \"0\" is in another group already",
               "a parameter in two groups");
    is_refused(tn_optim_add_group(optim, NULL) < 0, TN_ERR_ARGUMENT,
               "optim_add_group: parameters is NULL", "a group of nothing");
    is_refused(tn_optim_add_group(optim, tn_parameters_from(&q, 1),
                                  .lr = -1) < 0,
               TN_ERR_ARGUMENT, "optim_add_group: lr is -1; expected at least "
                                "0",
               "a negative rate");
    is_int(tn_optim_group_count(optim), 1, "no group was added");
    is_refused(isnan(tn_optim_group_lr(optim, 1)), TN_ERR_ARGUMENT,
               "optim_group_lr: group is 1; expected less than 1",
               "a group that is not there");

    after_step(optim, p);
    is_int(tn_optim_save(optim, path), TN_OK, "saved");
    is_refused(tn_optim_load(tn_optim_adamw(list), path) < 0, TN_ERR_ARGUMENT,
               "the file has the state of optim_adam; expected optim_adamw",
               "another rule");
    is_refused(tn_optim_load(tn_optim_adam(list, .amsgrad = true), path) < 0,
               TN_ERR_ARGUMENT, "the file has no \"0.0.max_exp_avg_sq\"",
               "another variant");
    static const char *const old[][2] = {
        {"optimizer", "{\"groups\":[],\"rule\":\"SGD\"}"}};
    char aged[] = "/tmp/tenon-test-aged-XXXXXX";
    close(mkstemp(aged));
    const char *const names[] = {"p"};
    is_int(tn_safetensors_save(aged, names, &p, 1, old, 1), TN_OK,
           "as an earlier version saved it");
    is_refused(tn_optim_load(tn_optim_sgd(list), aged) < 0, TN_ERR_ARGUMENT,
               "the state of SGD is of an earlier version of Tenon: continue "
               "with that version, or save only the weights with it "
               "(tn_module_save) and start a new optim_sgd",
               "an earlier version's state");
    unlink(aged);
    tn_tensor *two[] = {p, q};
    is_refused(tn_optim_load(tn_optim_adam(tn_parameters_from(two, 2)),
                             path) < 0,
               TN_ERR_ARGUMENT, "group 0 has 2 parameters, but 1 in the file",
               "another number of parameters");
    tn_optim *grouped = tn_optim_adam(list);
    tn_optim_add_group(grouped, tn_parameters_from(&q, 1));
    is_refused(tn_optim_load(grouped, path) < 0, TN_ERR_ARGUMENT,
               "the file has 1 groups, but the optimizer has 2",
               "another number of groups");
    tn_tensor *long_one = tn_requires_grad(tn_zeros(tn_dims(7)));
    tn_optim *other = tn_optim_adam(tn_parameters_from(&long_one, 1));
    is_refused(tn_optim_load(other, path) < 0, TN_ERR_SHAPE,
               "\"0.0.exp_avg\" has another shape or dtype than its parameter",
               "another shape");
    const char *const metadata[][2] = {
        {"optimizer", "{\"rule\":\"optim_adam\",\"groups\":[{\"lr\":1e999}]}"}};
    const char *const endless[][2] = {
        {"optimizer",
         "{\"rule\":\"optim_adam\",\"groups\":[{\"lr\":1,\"initial_lr\":1,"
         "\"momentum\":0,\"weight_decay\":0,\"memory\":[0],"
         "\"steps\":[9223372036854775807]}]}"}};
    const char *name = "x";
    tn_safetensors_save(path, &name, &q, 1, metadata, 1);
    is_refused(tn_optim_load(optim, path) < 0, TN_ERR_FORMAT,
               "no \"optimizer\" in its metadata: not written by "
               "tn_optim_save",
               "a number that is none");
    tn_safetensors_save(path, &name, &q, 1, endless, 1);
    is_refused(tn_optim_load(optim, path) < 0, TN_ERR_FORMAT,
               "\"steps\" holds a value that is not a count",
               "a number of steps with no next");
    tn_safetensors_save(path, &name, &q, 1, NULL, 0);
    is_refused(tn_optim_load(optim, path) < 0, TN_ERR_FORMAT,
               "no \"optimizer\" in its metadata: not written by "
               "tn_optim_save",
               "a file of something else");
    tn_error_set(TN_ERR_IO, "a batch is gone");
    is_int(tn_optim_save(optim, path), TN_ERR_STATE,
           "nothing is saved while an error is pending");
    tn_error_clear();
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
    test_same_bits();
    test_factors();
    test_lbfgs();
    test_no_momentum();
    test_groups();
    test_refused_step();
    test_mistakes();
    unlink(path);
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
