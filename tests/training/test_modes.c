/* test_modes.c: process-wide settings must not change results: a locale with a
 * decimal comma, a rounding mode, flushing of subnormals, the umask. Each is
 * set in a process of its own before the first call. What that process
 * computes, prints and writes must have the same bytes as without the setting.
 * (tests/training/local.mk builds the locale.) */
#include <tenon/tenon.h>

#include <fenv.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kernel/printed.h"
#include "../tap.h"
#include "base/fpu.h"

typedef struct result {
    const char *what;
    uint64_t hash;
} result;

enum { MOST = 40 };
static result results[MOST];
static int count;
static char path[64];

static void add_bytes(const char *what, const void *bytes, size_t n)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    results[count++] = (result){what, hash};
}

static void add_text(const char *what, const char *text)
{
    add_bytes(what, text ? text : "", text ? strlen(text) : 0);
}

static void add_tensor(const char *what, tn_tensor *x)
{
    float value[4096];
    const int64_t n = tn_tensor_numel(x);
    if (n > 4096 || tn_tensor_to_array(tn_to_dtype(x, TN_F32), value,
                                       (size_t)n * sizeof *value) < 0)
        add_text(what, tn_error());
    else
        add_bytes(what, value, (size_t)n * sizeof *value);
}

static void add_file(const char *what)
{
    static char bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    add_bytes(what, bytes, n);
    if (file)
        fclose(file);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

/* ---- compared results ---------------------------------------------------- */

static void texts(void)
{
    int rows = 0;
    printed_list list = {0};
    const tn_target target = printed_target(TN_TARGET_F64);
    printed_rows(&list, &target, &rows);
    printed_primitives(&list, &target);
    uint64_t all = 0;
    for (int i = 0; i < list.count; i++) {
        add_text("kernel texts", list.item[i].text);
        all = all * 31 + results[--count].hash;
    }
    printed_release(&list);
    add_bytes("kernel texts", &all, sizeof all);
}

static void definitions(void)
{
    tn_tensor *x = tn_linspace(-3, 3, 101);
    const tn_op *op =
        tn_op_define("modes(x; a) = x * a + 1.1e-3 / (2.7 + x * x)");
    add_tensor("an operator of its own",
               tn_op_apply(op, &x, (double[]){0.3}));
    add_tensor("composites", tn_add(tn_logspace(-2, 1.5, 101, 10),
                                    tn_celu(x, .alpha = 0.7)));
    add_tensor("constants", tn_arange(0, 10.1, 0.1));
    add_tensor("quantiles", tn_quantile_scalar(x, 0.37));
    add_tensor("distances", tn_cdist(tn_reshape(tn_narrow(x, 0, 0, 20),
                                                tn_dims(10, 2)),
                                     tn_reshape(tn_narrow(x, 0, 20, 20),
                                                tn_dims(10, 2))));
    add_tensor("images", tn_interpolate(
        tn_reshape(tn_narrow(x, 0, 0, 100), tn_dims(1, 1, 10, 10)),
        tn_dims(7, 13), .mode = "bicubic"));
}

static void printing(void)
{
    char *text = tn_tensor_text(tn_mul_scalar(tn_randn(tn_dims(5, 7)), 1e3));
    add_text("tensors in print", text);
    free(text);
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(4, 8), tn_nn_batch_norm1d(8, .momentum = 0.25),
        tn_nn_leaky_relu(0.125), tn_nn_dropout(0.5),
        tn_nn_layer_norm(tn_dims(8), .eps = 1.5e-5));
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    tn_module_print(file, net);
    fclose(file);
    add_text("modules in print", text);
    free(text);
    if (tn_error()) /* the following calls clear the error */
        bail_out("%s", tn_error());
    tn_dropout(tn_ones(tn_dims(2)), 1.5, true);
    add_text("errors of operators", tn_error());
    tn_error_clear();
    tn_nn_dropout(1.5);
    add_text("errors of layers", tn_error());
    tn_error_clear();
}

static void reading(void)
{
    write_file("1.5,2.25,0\n-0.1,1e-3,1\n16777217.5,3.3333333333333333,1\n");
    tn_tensor *x = tn_csv_load(path);
    add_tensor("numbers of a CSV file", x);
}

/* Computes random numbers and the initial values of layers. */
static void initial_values(void)
{
    static const char *const names[] = {"conv2d", "lstm", "embedding",
                                        "an encoder layer"};
    tn_module *net[] = {tn_nn_conv2d(3, 4, 3), tn_nn_lstm(3, 5),
                        tn_nn_embedding(7, 3),
                        tn_nn_transformer_encoder_layer(8, 2)};
    for (int i = 0; i < 4; i++)
        add_tensor(names[i], tn_parameters_at(tn_parameters(net[i]), 0));
    add_tensor("normal", tn_normal(tn_zeros(tn_dims(99)), tn_ones(tn_dims(99))));
    add_tensor("bernoulli", tn_bernoulli(tn_full(tn_dims(99), 0.3)));
    add_tensor("randperm", tn_randperm(99));
    add_tensor("dropout", tn_dropout(tn_ones(tn_dims(99)), 0.3, true));
}

typedef struct fit {
    tn_optim *optim;
    tn_module *net;
    tn_tensor *x, *y;
} fit;

static double closure(void *context)
{
    const fit *f = context;
    tn_optim_zero_grad(f->optim);
    tn_tensor *loss = tn_mse_loss(tn_forward(f->net, f->x), f->y);
    tn_backward(loss);
    return tn_item(loss);
}

static void quasi_newton(void)
{
    tn_module *net = tn_nn_sequential(tn_nn_linear(4, 6), tn_nn_tanh(),
                                      tn_nn_linear(6, 1));
    tn_parameter_list *parameters = tn_parameters(net);
    fit f = {tn_optim_lbfgs(parameters, .lr = 0.3, .max_iter = 6), net,
             tn_randn(tn_dims(20, 4)), tn_randn(tn_dims(20, 1))};
    for (int i = 0; i < 2; i++)
        tn_optim_step_closure(f.optim, closure, &f);
    add_tensor("a training by LBFGS", tn_parameters_at(parameters, 0));
}

static void training(void)
{
    tn_module *net = tn_nn_sequential(
        tn_nn_linear(8, 16), tn_nn_batch_norm1d(16), tn_nn_gelu(),
        tn_nn_dropout(0.2), tn_nn_layer_norm(tn_dims(16)),
        tn_nn_linear(16, 3));
    tn_parameter_list *parameters = tn_parameters(net);
    tn_optim *optim[] = {
        tn_optim_sgd(parameters, .lr = 0.1, .momentum = 0.9,
                     .weight_decay = 1e-3),
        tn_optim_adam(parameters, .lr = 1e-2),
        tn_optim_adamw(parameters, .lr = 1e-2),
        tn_optim_rmsprop(parameters, .lr = 1e-2),
        tn_optim_nadam(parameters, .lr = 1e-2)};
    tn_tensor *x = tn_randn(tn_dims(32, 8));
    tn_tensor *y = tn_randint(0, 3, tn_dims(32));
    tn_average *average = tn_average_new(net, .decay = 0.99);
    for (size_t o = 0; o < sizeof optim / sizeof *optim; o++) {
        tn_schedule *schedule = tn_schedule_cosine_annealing_lr(optim[o], 10);
        for (int i = 0; i < 4; i++) {
            tn_optim_zero_grad(optim[o]);
            tn_backward(tn_cross_entropy(tn_forward(net, x), y));
            tn_clip_grad_norm(parameters, 0.7);
            tn_optim_step(optim[o]);
            tn_schedule_step(schedule);
            tn_average_update(average);
        }
        add_tensor("a training", tn_parameters_at(parameters, 0));
    }
    tn_checkpoint checkpoint = {.size = sizeof checkpoint, .module = net,
                                .optim = optim[1], .average = average,
                                .scaler = tn_grad_scaler_new()};
    tn_checkpoint_save(path, &checkpoint);
    add_file("a checkpoint");
    if (tn_checkpoint_load(path, &checkpoint) < 0)
        add_text("its loading", tn_error());
}

/* ---- settings ------------------------------------------------------------ */

static void plain(void) {}
static void comma(void)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/tests/locale",
             getenv("top_builddir") ? getenv("top_builddir") : ".");
    setenv("LOCPATH", folder, 1);
    if (!setlocale(LC_ALL, "de_DE.UTF-8") ||
        strcmp(localeconv()->decimal_point, ",") != 0)
        _exit(7);
}
static void upward(void) { fesetround(FE_UPWARD); }
static void downward(void) { fesetround(FE_DOWNWARD); }
static void toward_zero(void) { fesetround(FE_TOWARDZERO); }
static void flush(void)
{
#if defined(__x86_64__)
    tn__fpu_restore(tn__fpu_read() | 0x8040); /* sets the bits FTZ and DAZ */
#elif defined(__aarch64__)
    tn__fpu_restore(tn__fpu_read() | 1u << 24);
#endif
}
static void closed(void) { umask(077); }

static const struct {
    const char *name;
    void (*set)(void);
} modes[] = {{"a plain process", plain}, {"a decimal comma", comma},
             {"rounding upward", upward}, {"rounding downward", downward},
             {"rounding toward zero", toward_zero},
             {"subnormals switched off", flush}, {"another umask", closed}};
enum { MODES = sizeof modes / sizeof *modes };

/* Returns the results with this setting, from a process of its own. */
static int in_mode(int mode, result *out)
{
    int ends[2], status = -1;
    if (pipe(ends))
        bail_out("no pipe");
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        modes[mode].set();
        const int round = fegetround();
        tn_manual_seed(7);
        texts();
        definitions();
        printing();
        reading();
        initial_values();
        quasi_newton();
        training();
        if (tn_error())
            fprintf(stderr, "# %s: %s\n", modes[mode].name, tn_error());
        if (fegetround() != round || count > MOST)
            _exit(8);
        const ssize_t n = write(ends[1], results, sizeof results);
        _exit(n == sizeof results && !tn_error() ? 0 : 9);
    }
    close(ends[1]);
    const bool whole =
        read(ends[0], out, sizeof results) == (ssize_t)sizeof results;
    close(ends[0]);
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return whole || code ? code : 10;
}

static void compare(int mode, const result *got, const result *wanted)
{
    char differs[600] = "";
    size_t at = 0;
    for (int i = 0; i < MOST && wanted[i].what; i++)
        if (got[i].hash != wanted[i].hash && at + 60 < sizeof differs)
            at += (size_t)snprintf(differs + at, sizeof differs - at, "%s%s",
                                   at ? ", " : "", wanted[i].what);
    is_str(differs, "", "%s changes nothing", modes[mode].name);
}

int main(void)
{
    plan_later();
    result wanted[MOST], got[MOST];
    snprintf(path, sizeof path, "/tmp/tenon-modes.%ld", (long)getpid());
    is_int(in_mode(0, wanted), 0, "a plain process computes all of it");
    for (int m = 1; m < MODES; m++) {
        const int status = in_mode(m, got);
        if (status == 7)
            skip(1, "the locale de_DE.UTF-8 is not available");
        else if (is_int(status, 0, "%s: every result was computed",
                        modes[m].name))
            compare(m, got, wanted);
    }
    unlink(path);
    return done_testing();
}
