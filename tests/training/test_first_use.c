/* test_first_use.c: tests the first work of a process when memory runs out.
 *
 * In a child process for each case, the n-th allocation of the whole process
 * fails, alone or with the next hundred, while the device is opened, kernels
 * are compiled and a step is trained. The failure must be reported, and the
 * same work must succeed afterwards. Most initialisation runs once in a
 * process, so no failure may be cached.
 *
 *   TENON_TEST_LONG   set: every allocation, not one of a few
 *   TENON_TEST_ALLOC  only that allocation, in this process: for a debugger */
#include <tenon/tenon.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MALLOC_FAULTS_IN_LIBRARIES
#include "../malloc_faults.h"
#include "../tap.h"

enum { SECONDS = 60, SOME = 400, LASTING = 100 };

/* Outcomes of a child process. */
enum { WORKED, REFUSED, WRONG_CODE, WRONG_RESULT, FAILS_LATER, ENDS };
static const char *const meaning[] = {
    "worked",          "was refused",      "was refused with a wrong code",
    "was wrong",       "failed for good",  "crashed or hung"};

/* Runs operators of each kind of kernel, a derived gradient, a layer and an
 * optimizer. */
static double work(void)
{
    double result = -1;
    tn_scope *scope = tn_scope_open();
    tn_manual_seed(3);
    tn_module *net = tn_nn_sequential(tn_nn_conv2d(1, 2, 3), tn_nn_gelu(),
                                      tn_nn_flatten(), tn_nn_linear(72, 3));
    tn_optim *optim = tn_optim_adam(tn_parameters(net), .lr = 0.1);
    tn_tensor *x = tn_randn(tn_dims(2, 1, 8, 8));
    for (int i = 0; i < 2; i++) {
        tn_optim_zero_grad(optim);
        tn_tensor *y = tn_softmax(tn_forward(net, x), 1);
        tn_tensor *loss =
            tn_add(tn_mean(tn_square(tn_sub(y, tn_flip(y, tn_dims(1))))),
                   tn_sum(tn_sort(tn_exp(y), 1, false, NULL)));
        tn_backward(loss);
        tn_optim_step(optim);
        result = tn_item(loss);
    }
    tn_scope_close(scope);
    return result;
}

static double expected;

static int child_works(int64_t n, int64_t many)
{
    alarm(SECONDS);
    atomic_store(&malloc_many, many);
    malloc_fail_at(n);
    const double result = work();
    malloc_fail_at(0);
    const tn_status code = tn_error_code();
    if (code && code != TN_ERR_MEMORY)
        fprintf(stderr, "# allocation %lld: %s\n", (long long)n, tn_error());
    tn_error_clear();
    if (!code && result != expected)
        return WRONG_RESULT;
    const double again = work();
    if (again != expected) {
        fprintf(stderr, "# allocation %lld, later: %s\n", (long long)n,
                tn_error() ? tn_error() : "another result");
        return FAILS_LATER;
    }
    return code == TN_ERR_MEMORY ? REFUSED : code ? WRONG_CODE : WORKED;
}

static int try_child(int64_t n, int64_t many)
{
    int status = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(child_works(n, many));
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : ENDS;
    if (code == ENDS)
        fprintf(stderr, "# allocation %lld: signal %d\n", (long long)n,
                WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return code < ENDS ? code : ENDS;
}

/* Measures the number of allocations and the right result in a child, because
 * this process must not open a device. */
static bool measure(int64_t *count)
{
    int pipes[2];
    if (pipe(pipes) < 0)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        const int64_t before = malloc_count();
        const double result = work();
        const int64_t made = malloc_count() - before;
        if (tn_error())
            fprintf(stderr, "# %s\n", tn_error());
        const bool good =
            !tn_error() &&
            write(pipes[1], &result, sizeof result) == sizeof result &&
            write(pipes[1], &made, sizeof made) == sizeof made;
        _exit(!good);
    }
    close(pipes[1]);
    const bool good = read(pipes[0], &expected, sizeof expected) > 0 &&
                      read(pipes[0], count, sizeof *count) > 0;
    close(pipes[0]);
    waitpid(child, NULL, 0);
    return good;
}

static void walk(int64_t count, int64_t step, int64_t many)
{
    int64_t ended[ENDS + 1] = {0}, tries = 0;
    for (int64_t n = 1; n <= count; n += step, tries++)
        ended[try_child(n, many)]++;
    note("%lld of %lld allocations, %lld at a time: %lld refused",
         (long long)tries, (long long)count, (long long)many,
         (long long)ended[REFUSED]);
    for (int how = WRONG_CODE; how <= ENDS; how++)
        is_int(ended[how], 0, "%lld at a time: no first use %s", (long long)many,
               meaning[how]);
    ok(ended[REFUSED] > tries / 4, "%lld at a time: many are needed",
       (long long)many);
}

int main(void)
{
    plan_later();
    const char *device = getenv("TENON_DEVICE");
    if (!MALLOC_FAULTS) {
        skip(1, "sanitizers have a malloc of their own");
    } else if (device && strncmp(device, "cpu", 3) != 0 &&
               strncmp(device, "reference", 9) != 0) {
        skip(1, "drivers have first uses of their own");
    } else {
        int64_t count = 0;
        const bool measured = measure(&count);
        ok(measured && count > 100, "%lld allocations of a first use",
           (long long)count);
        const char *alone = getenv("TENON_TEST_ALLOC");
        if (alone)
            return child_works(atoll(alone), 1);
        const bool all = getenv("TENON_TEST_LONG");
        const int64_t step = all ? 1 : 1 + count / SOME;
        walk(count, step, 1);
        walk(count, step, LASTING);
    }
    return done_testing();
}
