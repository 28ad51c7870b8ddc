/* Compares optimizers, with all their options, with PyTorch's formulas,
 * computed in double for each element. Tests the arguments that each optimizer
 * rejects. */
#include <math.h>
#include <tenon/tenon.h>
#include "tap.h"

static const float start[] = {1, -2, 0.5f};
static const double slope[] = {0.3, -1.5, 2};

static tn_tensor *parameter(void)
{
    return tn_requires_grad(tn_tensor_from_array(start, TN_F32, tn_dims(3)));
}

/* Returns the gradient of step t, starting at 1; its sign changes at some
 * steps. */
static double gradient(double slope_now, int t, double p)
{
    return slope_now * (t % 3 == 0 ? -t : t) - 0.5 * p;
}

/* Parameter and state of one element, as PyTorch's single-tensor step changes
 * them. */
typedef struct cell {
    double p, a, b, c, memory;
} cell;
typedef void (*step_fn)(cell *x, double g, int t);

static void follow(const char *name, tn_parameter_list *list, tn_optim *optim,
                   step_fn step, cell first)
{
    tn_tensor *p = tn_parameters_at(list, 0);
    cell x[3] = {first, first, first};
    for (int i = 0; i < 3; i++)
        x[i].p = (double)start[i];
    for (int t = 1; t <= 6; t++) {
        float now[3], g[3];
        tn_tensor_to_array(p, now, sizeof now);
        for (int i = 0; i < 3; i++) {
            g[i] = (float)gradient(slope[i], t, (double)now[i]);
            step(&x[i], gradient(slope[i], t, x[i].p), t);
        }
        tn_tensor_set_grad(p, tn_tensor_from_array(g, TN_F32, tn_dims(3)));
        is_int(tn_optim_step(optim), TN_OK, "%s: step %d", name, t);
    }
    float got[3] = {0};
    tn_tensor_to_array(p, got, sizeof got);
    /* six steps of about ten float32 roundings each */
    for (int i = 0; i < 3; i++)
        is_double_near((double)got[i], x[i].p, 1e-5 + 1e-5 * fabs(x[i].p),
                       "%s: element %d", name, i);
}

#define FOLLOW(name, make, step, ...)                                         \
    do {                                                                      \
        tn_tensor *p = parameter();                                           \
        tn_parameter_list *list = tn_parameters_from(&p, 1);                  \
        follow(name, list, make, step, (cell){__VA_ARGS__});                  \
    } while (0)

static void rmsprop_plain(cell *x, double g, int t)
{
    (void)t;
    g = -g + 0.1 * x->p;
    x->a = 0.9 * x->a + 0.1 * g * g;
    x->p -= 0.05 * g / (sqrt(x->a) + 1e-3);
}

static void rmsprop_momentum(cell *x, double g, int t)
{
    (void)t;
    x->a = 0.99 * x->a + 0.01 * g * g;
    x->b = 0.7 * x->b + g / (sqrt(x->a) + 1e-8);
    x->p -= 0.01 * x->b;
}

static void rmsprop_centered(cell *x, double g, int t)
{
    (void)t;
    x->a = 0.8 * x->a + 0.2 * g * g;
    x->b += 0.2 * (g - x->b);
    x->p -= 0.01 * g / (sqrt(x->a - x->b * x->b) + 1e-8);
}

static void adagrad(cell *x, double g, int t)
{
    g = -g + 0.2 * x->p;
    x->a += g * g;
    x->p -= 0.1 / (1 + (t - 1) * 0.5) * g / (sqrt(x->a) + 1e-10);
}

static void adadelta(cell *x, double g, int t)
{
    (void)t;
    g += 0.2 * x->p;
    x->a = 0.7 * x->a + 0.3 * g * g;
    double d = sqrt(x->b + 1e-3) / sqrt(x->a + 1e-3) * g;
    x->b = 0.7 * x->b + 0.3 * d * d;
    x->p -= 0.5 * d;
}

static void adamax(cell *x, double g, int t)
{
    g += 0.2 * x->p;
    x->a += 0.2 * (g - x->a);
    x->b = fmax(0.5 * x->b, fabs(g) + 1e-8);
    x->p -= 0.02 / (1 - pow(0.8, t)) * x->a / x->b;
}

static void nadam_step(cell *x, double g, int t, double eps)
{
    double mu = 0.8 * (1 - 0.5 * pow(0.96, t * 0.1));
    double next = 0.8 * (1 - 0.5 * pow(0.96, (t + 1) * 0.1));
    x->memory *= mu;
    x->a += 0.2 * (g - x->a);
    x->b = 0.9 * x->b + 0.1 * g * g;
    double q = sqrt(x->b / (1 - pow(0.9, t))) + eps;
    x->p -= 0.02 * (1 - mu) / (1 - x->memory) * g / q;
    x->p -= 0.02 * next / (1 - x->memory * next) * x->a / q;
}

static void nadam_decoupled(cell *x, double g, int t)
{
    x->p *= 1 - 0.02 * 0.3;
    nadam_step(x, g, t, 1e-8);
}

static void nadam_coupled(cell *x, double g, int t)
{
    nadam_step(x, g + 0.3 * x->p, t, 0.5);
}

static void nadam_maximize(cell *x, double g, int t)
{
    nadam_step(x, -g, t, 0.5);
}

static void radam(cell *x, double g, int t)
{
    x->p *= 1 - 0.02 * 0.3;
    x->a += 0.2 * (g - x->a);
    x->b = 0.9 * x->b + 0.1 * g * g;
    double power = pow(0.9, t), limit = 2 / 0.1 - 1;
    double rho = limit - 2 * t * power / (1 - power);
    double rate = 0.02 * x->a / (1 - pow(0.8, t));
    if (rho > 5)
        rate *= sqrt((rho - 4) * (rho - 2) * limit /
                     ((limit - 4) * (limit - 2) * rho)) *
                sqrt(1 - power) / (sqrt(x->b) + 1e-8);
    x->p -= rate;
}

static void asgd(cell *x, double g, int t)
{
    g += 0.1 * x->p;
    double eta = t == 1 ? 0.05 : x->memory;
    x->p = x->p * (1 - 0.1 * eta) - eta * g;
    x->memory = 0.05 / pow(1 + 0.1 * 0.05 * t, 0.5);
}

static void rprop(cell *x, double g, int t)
{
    (void)t;
    double turn = g * x->a;
    double eta = turn > 0 ? 1.5 : turn < 0 ? 0.4 : 1;
    x->b = fmin(fmax(x->b * eta, 0.01), 0.06);
    if (turn < 0)
        g = 0;
    x->a = g;
    x->p -= x->b * (g > 0 ? 1 : g < 0 ? -1 : 0);
}

static void test_options(void)
{
    FOLLOW("RMSprop, decay, maximize",
           tn_optim_rmsprop(list, .lr = 0.05, .alpha = 0.9, .eps = 1e-3,
                            .weight_decay = 0.1, .maximize = true),
           rmsprop_plain, 0);
    FOLLOW("RMSprop, momentum", tn_optim_rmsprop(list, .momentum = 0.7),
           rmsprop_momentum, 0);
    FOLLOW("RMSprop, centered",
           tn_optim_rmsprop(list, .alpha = 0.8, .centered = true),
           rmsprop_centered, 0);
    FOLLOW("Adagrad, decays, a first sum, maximize",
           tn_optim_adagrad(list, .lr = 0.1, .lr_decay = 0.5,
                            .weight_decay = 0.2,
                            .initial_accumulator_value = 0.5,
                            .maximize = true),
           adagrad, .a = 0.5);
    FOLLOW("Adadelta, decay",
           tn_optim_adadelta(list, .lr = 0.5, .rho = 0.7, .eps = 1e-3,
                             .weight_decay = 0.2),
           adadelta, 0);
    FOLLOW("Adamax, decay",
           tn_optim_adamax(list, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.5,
                           .weight_decay = 0.2),
           adamax, 0);
    FOLLOW("NAdam, decoupled decay",
           tn_optim_nadam(list, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.9,
                          .momentum_decay = 0.1, .weight_decay = 0.3,
                          .decoupled_weight_decay = true),
           nadam_decoupled, .memory = 1);
    /* A large eps makes the step depend on the size of the gradient, which
     * NAdam otherwise cancels. */
    FOLLOW("NAdam, decay, large eps",
           tn_optim_nadam(list, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.9,
                          .momentum_decay = 0.1, .weight_decay = 0.3,
                          .eps = 0.5),
           nadam_coupled, .memory = 1);
    FOLLOW("NAdam, maximize, large eps",
           tn_optim_nadam(list, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.9,
                          .momentum_decay = 0.1, .eps = 0.5, .maximize = true),
           nadam_maximize, .memory = 1);
    FOLLOW("RAdam, decoupled decay, rectified",
           tn_optim_radam(list, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.9,
                          .weight_decay = 0.3, .decoupled_weight_decay = true),
           radam, 0);
    FOLLOW("ASGD, decays",
           tn_optim_asgd(list, .lr = 0.05, .lambd = 0.1, .alpha = 0.5,
                         .weight_decay = 0.1),
           asgd, 0);
    FOLLOW("Rprop, bounds",
           tn_optim_rprop(list, .lr = 0.05, .eta_minus = 0.4, .eta_plus = 1.5,
                          .step_min = 0.01, .step_max = 0.06),
           rprop, .b = 0.05);
}

/* A step of Muon is nearly an orthogonal matrix for any gradient. */
static void test_muon(void)
{
    float rows[] = {3, 0, 0, 4, 0, 0}, now[6];
    tn_tensor *p = tn_requires_grad(tn_zeros(tn_dims(3, 2)));
    tn_optim *optim = tn_optim_muon(tn_parameters_from(&p, 1), .lr = 1);
    tn_tensor_set_grad(p, tn_tensor_from_array(rows, TN_F32, tn_dims(3, 2)));
    is_int(tn_optim_step(optim), TN_OK, "Muon: a step");
    tn_tensor_to_array(p, now, sizeof now);
    /* five iterations bring singular values into [0.5, 1.5] (Jordan); the step
     * is scaled by lr sqrt(3 / 2) */
    for (int i = 0; i < 6; i++) {
        double size = fabs((double)now[i]) / sqrt(1.5);
        if (rows[i] != 0)
            ok(size > 0.5 && size < 1.5 && now[i] < 0,
               "Muon: element %d decreases by about 1: %g", i, (double)now[i]);
        else
            ok(size < 0.02, "Muon: element %d does not change: %g", i,
               (double)now[i]);
    }
}

static tn_optim *adafactor_of(tn_parameter_list *list)
{
    return tn_optim_adafactor(list, .lr = 0.5);
}
static tn_optim *lars_of(tn_parameter_list *list)
{
    return tn_optim_lars(list, .lr = 10);
}
static tn_optim *lamb_of(tn_parameter_list *list)
{
    return tn_optim_lamb(list, .lr = 0.1);
}
static tn_optim *lion_of(tn_parameter_list *list)
{
    return tn_optim_lion(list, .lr = 0.1);
}

/* Tests optimizers that need norms, for parameters with any number of
 * dimensions, of half types and without elements, and for a gradient of 0. */
static void test_shapes(void)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16, TN_F64};
    tn_optim *(*const make[])(tn_parameter_list *) = {adafactor_of, lars_of,
                                                      lamb_of, lion_of};
    static const char *const name[] = {"Adafactor", "LARS", "LAMB", "Lion"};
    for (int rule = 0; rule < 4; rule++) {
        for (int d = 0; d < 4; d++) {
            const tn_dtype dtype = dtypes[d];
            tn_tensor *p[] = {
                tn_requires_grad(tn_ones(TN_SCALAR, .dtype = dtype)),
                tn_requires_grad(tn_ones(tn_dims(2, 3, 4), .dtype = dtype)),
                tn_requires_grad(tn_ones(tn_dims(3, 0), .dtype = dtype)),
                tn_requires_grad(tn_ones(tn_dims(3, 2), .dtype = dtype))};
            tn_optim *optim = make[rule](tn_parameters_from(p, 4));
            for (int i = 0; i < 4; i++)
                tn_tensor_set_grad(p[i], tn_full_like(p[i], i < 3 ? 200 : 0));
            is_int(tn_optim_step(optim), TN_OK, "%s of %s: a step%s%s",
                   name[rule], tn_dtype_name(dtype), tn_error() ? ": " : "",
                   tn_error() ? tn_error() : "");
            tn_optim_step(optim);
            for (int i = 0; i < 2; i++)
                ok(tn_item(tn_max(tn_to_dtype(p[i], TN_F64))) < 1,
                   "%s of %s: parameter %d falls", name[rule],
                   tn_dtype_name(dtype), i);
            ok(tn_item(tn_max(tn_to_dtype(p[3], TN_F64))) == 1,
               "%s of %s: a gradient of zeros changes nothing", name[rule],
               tn_dtype_name(dtype));
            ok(tn_tensor_dtype(p[0]) == dtype && !tn_error(), "no error");
            tn_error_clear();
        }
    }
}

/* ---- LBFGS -------------------------------------------------------------- */

typedef struct bowl {
    tn_tensor *p, *scale;
    tn_optim *optim;
    int looks;
    bool fails;
} bowl;

static double look(void *context)
{
    bowl *b = context;
    b->looks++;
    if (b->fails) {
        tn_error_set(TN_ERR_IO, "the data are gone");
        return NAN;
    }
    tn_optim_zero_grad(b->optim);
    tn_tensor *loss = tn_sum(tn_mul(b->scale, tn_square(b->p)));
    tn_backward(loss);
    return tn_item(loss);
}

static void test_lbfgs(void)
{
    float scales[] = {1, 5, 20};
    bowl b = {.p = parameter(),
              .scale = tn_tensor_from_array(scales, TN_F32, tn_dims(3))};
    tn_parameter_list *list = tn_parameters_from(&b.p, 1);
    b.optim = tn_optim_lbfgs(list, .max_iter = 40);
    int64_t before = tn_scope_count();
    double first = tn_optim_step_closure(b.optim, look, &b);
    is_int(tn_scope_count(), before, "LBFGS: a step leaves no object behind");
    is_double_near(first, 26, 1e-5, "LBFGS: gives the first loss");
    ok(look(&b) < 1e-8, "LBFGS: one step finds the bottom of a bowl");
    ok(b.looks < 40, "LBFGS: it stops at the minimum: %d evaluations", b.looks);

    ok(tn_optim_step(b.optim) < 0, "LBFGS without a closure");
    is_str(tn_error(),
           "optim_step: a step of optim_lbfgs evaluates the loss several "
           "times: call tn_optim_step_closure",
           "is refused");
    tn_error_clear();
    ok(tn_optim_add_group(b.optim, list) < 0, "LBFGS: a second group");
    is_str(tn_error(), "optim_add_group: optim_lbfgs supports only one group "
           "of parameters",
           "is refused");
    tn_error_clear();
    b.fails = true;
    ok(isnan(tn_optim_step_closure(b.optim, look, &b)),
       "LBFGS: a loss that fails");
    is_str(tn_error(), "the data are gone", "fails the step");
    tn_error_clear();

    b.fails = false;
    b.optim = tn_optim_sgd(list, .lr = 0.01);
    b.looks = 0;
    ok(tn_optim_step_closure(b.optim, look, &b) >= 0 && b.looks == 1,
       "other rules evaluate once");
}

/* ---- errors -------------------------------------------------------------- */

#define REFUSED(make, code, text)                                             \
    do {                                                                      \
        ok(!(make), "refused: " #make);                                       \
        is_int(tn_error_code(), code, "with %s", tn_status_name(code));       \
        is_str(tn_error(), text, "and its message");                          \
        tn_error_clear();                                                     \
    } while (0)

static void test_mistakes(void)
{
    tn_tensor *p = parameter();
    tn_tensor *wide =
        tn_requires_grad(tn_zeros(tn_dims(3), .dtype = TN_F64));
    tn_tensor *two[] = {p, wide};
    tn_parameter_list *list = tn_parameters_from(&p, 1);
    REFUSED(tn_optim_rmsprop(list, .momentum = -1), TN_ERR_ARGUMENT,
            "optim_rmsprop: momentum is -1; expected at least 0");
    REFUSED(tn_optim_adagrad(list, .lr_decay = -0.5), TN_ERR_ARGUMENT,
            "optim_adagrad: lr_decay is -0.5; expected at least 0");
    REFUSED(tn_optim_adadelta(list, .rho = 1), TN_ERR_ARGUMENT,
            "optim_adadelta: rho is 1; expected at least 0 and below 1");
    REFUSED(tn_optim_adamax(list, .beta2 = 1), TN_ERR_ARGUMENT,
            "optim_adamax: beta2 is 1; expected at least 0 and below 1");
    REFUSED(tn_optim_nadam(list, .momentum_decay = NAN), TN_ERR_ARGUMENT,
            "optim_nadam: momentum_decay is nan; expected at least 0");
    REFUSED(tn_optim_radam(list, .lr = -1e-3), TN_ERR_ARGUMENT,
            "optim_radam: lr is -0.001; expected at least 0");
    REFUSED(tn_optim_asgd(list, .weight_decay = -1), TN_ERR_ARGUMENT,
            "optim_asgd: weight_decay is -1; expected at least 0");
    REFUSED(tn_optim_rprop(list, .eta_minus = 1.5), TN_ERR_ARGUMENT,
            "optim_rprop: eta_minus is 1.5, eta_plus 1.2; expected eta_minus "
            "in (0, 1) and eta_plus above 1");
    REFUSED(tn_optim_muon(list), TN_ERR_SHAPE,
            "optim_muon: parameter \"0\" has 1 dimension; Muon supports only "
            "matrices: give other parameters to tn_optim_adamw");
    REFUSED(tn_optim_adafactor(list, .beta2_decay = 0.5), TN_ERR_ARGUMENT,
            "optim_adafactor: beta2_decay is 0.5; expected at most 0");
    REFUSED(tn_optim_adafactor(list, .d = 0.5), TN_ERR_ARGUMENT,
            "optim_adafactor: d is 0.5; expected at least 1");
    REFUSED(tn_optim_adafactor(list, .eps1 = -1), TN_ERR_ARGUMENT,
            "optim_adafactor: eps1 is -1; expected at least 0");
    REFUSED(tn_optim_lion(list, .beta2 = 1), TN_ERR_ARGUMENT,
            "optim_lion: beta2 is 1; expected at least 0 and below 1");
    REFUSED(tn_optim_lars(list, .trust_coefficient = -1), TN_ERR_ARGUMENT,
            "optim_lars: trust_coefficient is -1; expected at least 0");
    REFUSED(tn_optim_lamb(list, .eps = NAN), TN_ERR_ARGUMENT,
            "optim_lamb: eps is nan; expected at least 0");
    REFUSED(tn_optim_lbfgs(list, .history_size = -1), TN_ERR_ARGUMENT,
            "optim_lbfgs: history_size is -1; expected at least 1");
    REFUSED(tn_optim_lbfgs(list, .history_size = 0), TN_ERR_ARGUMENT,
            "optim_lbfgs: history_size is 0; expected at least 1");
    REFUSED(tn_optim_lbfgs(list, .max_iter = 0), TN_ERR_ARGUMENT,
            "optim_lbfgs: max_iter is 0; expected at least 1");
    ok(!tn_optim_lbfgs(tn_parameters_from(two, 2)), "LBFGS of two dtypes");
    ok(tn_error() && strstr(tn_error(), "optim_lbfgs: parameter \"1\" (float64 on "),
       "is refused: %s", tn_error());
    tn_error_clear();
    REFUSED(tn_optim_rprop(tn_parameters_from(NULL, 0)), TN_ERR_ARGUMENT,
            "optim_rprop: the parameter list is empty");
}

int main(void)
{
    plan_later();
    if (!tn_device_current())
        bail_out("%s", tn_error());
    test_options();
    test_muon();
    test_shapes();
    test_lbfgs();
    test_mistakes();
    ok(tn_error() == NULL, "no error is left%s%s", tn_error() ? ": " : "",
       tn_error() ? tn_error() : "");
    return done_testing();
}
