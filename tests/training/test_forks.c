/* test_forks.c: forks a process, and cancels a thread, while other threads are
 * in every kind of call. A child may use the cpu, with the same results as its
 * parent; a device with a driver must reject every call. A cancelled thread
 * must hold no lock.
 *
 *   TENON_TEST_FORKS  forks for each kind of call (20) */
#include <base/platform.h>
#include <tenon/tenon.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../tap.h"

enum { SECONDS = 60, CANCELS = 60 };

static char path[] = "/tmp/tenon-forks.XXXXXX";
static atomic_bool stop;
static atomic_int turns;

/* ---- kinds of calls ------------------------------------------------------ */

static int sample(void *context, int64_t i, tn_tensor **field)
{
    (void)context;
    field[0] = tn_full(tn_dims(4), (double)i);
    return 1;
}

static void loads(void)
{
    static const tn_dataset_class set = {sizeof set, 64, sample, NULL};
    tn_loader *loader =
        tn_loader_new(tn_dataset_new(&set, NULL), .batch_size = 8, .workers = 2);
    TN_EACH_BATCH(batch, loader)
        break;
}

static void defines(void)
{
    static atomic_int number;
    char text[80];
    const int n = atomic_fetch_add(&number, 1);
    snprintf(text, sizeof text, "forked_%d(x) = x + %d", n, n);
    tn_tensor *x = tn_ones(tn_dims(8));
    tn_op_apply(tn_op_define(text), &x, NULL);
}

static void multiplies(void)
{
    tn_tensor *x = tn_ones(tn_dims(200, 200));
    tn_sum(tn_relu(tn_matmul(x, x)));
}

static double trains(void)
{
    tn_manual_seed(1);
    tn_module *net = tn_nn_sequential(tn_nn_linear(8, 16), tn_nn_tanh(),
                                      tn_nn_linear(16, 1));
    tn_optim *optim = tn_optim_adam(tn_parameters(net), .lr = 0.01);
    tn_tensor *x = tn_randn(tn_dims(32, 8));
    double loss = -1;
    for (int i = 0; i < 3; i++) {
        tn_optim_zero_grad(optim);
        tn_tensor *l = tn_mean(tn_square(tn_forward(net, x)));
        loss = tn_item(l);
        tn_backward(l);
        tn_optim_step(optim);
    }
    return loss;
}

static void train_only(void)
{
    trains();
}

static void opens(void)
{
    tn_device_open("reference");
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory(NULL, &stats);
    tn_cache_empty(NULL);
    const char *name = "x";
    tn_tensor *x = tn_ones(tn_dims(100));
    tn_safetensors_save(path, &name, &x, 1, NULL, 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} kind[] = {{"loaders", loads},         {"definitions", defines},
            {"products", multiplies},   {"training", train_only},
            {"devices and files", opens}};
enum { KINDS = sizeof kind / sizeof *kind };

static void *work(void *argument)
{
    const int k = *(int *)argument;
    while (!atomic_load(&stop)) {
        tn_scope *scope = tn_scope_open();
        kind[k].run();
        tn_scope_close(scope);
        atomic_fetch_add(&turns, 1);
    }
    return NULL;
}

/* ---- the child ----------------------------------------------------------- */

static double expected, expected_on_cpu;

/* Returns whether a device with a driver rejects a call, and reports why. */
static bool is_refused(void)
{
    tn_ones(tn_dims(4));
    const bool told = tn_error() && strstr(tn_error(), "forked");
    if (!told)
        fprintf(stderr, "# child: %s\n", tn_error() ? tn_error() : "no error");
    tn_error_clear();
    return told;
}

/* Does everything that a child may do. Returns 0 if all is right. */
static int child_works(void)
{
    alarm(SECONDS);
    tn_error_clear();
    const char *name = tn_device_name(tn_device_current());
    if (strncmp(name, "cuda", 4) == 0 || strncmp(name, "opencl", 6) == 0) {
        if (!is_refused())
            return 2;
        tn_device_set(tn_device_open("cpu"));
        expected = expected_on_cpu;
    }
    const double loss = trains();
    for (int k = 0; k < KINDS; k++)
        kind[k].run();
    if (tn_error())
        fprintf(stderr, "# child: %s\n", tn_error());
    return tn_error() ? 3 : loss == expected ? 0 : 4;
}

/* Forks and returns the exit status of the child; -1 if it hung. */
static int try_fork(void)
{
    int status = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(child_works());
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void pause_for(long microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static void test_forks(int k, int forks)
{
#ifdef TN__ASAN
    skip(1, "a fork leaves the address sanitizer's own locks held");
    return;
#endif
    enum { THREADS = 2 };
    pthread_t thread[THREADS];
    int wrong = 0, last = 0;
    atomic_store(&stop, false);
    atomic_store(&turns, 0);
    for (int t = 0; t < THREADS; t++)
        pthread_create(&thread[t], NULL, work, &k);
    while (atomic_load(&turns) < THREADS)
        pause_for(1000);
    for (int i = 0; i < forks; i++) {
        pause_for(100 + i * 137 % 2000);
        const int status = try_fork();
        wrong += status != 0;
        last = status ? status : last;
    }
    atomic_store(&stop, true);
    for (int t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    ok(wrong == 0, "%d forks beside %s: %d children wrong (status %d)", forks,
       kind[k].name, wrong, last);
}

/* ---- cancellation -------------------------------------------------------- */

static void test_cancel(int k)
{
    bool joined = true;
    int cancelled = 0;
    atomic_store(&stop, false);
    for (int i = 0; i < CANCELS && joined; i++) {
        void *end = NULL;
        pthread_t thread;
        pthread_create(&thread, NULL, work, &k);
        pause_for(200 + i * 137 % 3000);
        pthread_cancel(thread); /* the thread ends where it opens a scope */
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += SECONDS;
        joined = pthread_timedjoin_np(thread, &end, &until) == 0;
        cancelled += end == PTHREAD_CANCELED;
    }
    alarm(SECONDS);
    const double loss = joined ? trains() : -1;
    for (int other = 0; other < KINDS && joined; other++)
        kind[other].run();
    alarm(0);
    ok(joined && loss == expected && !tn_error(),
       "%d threads cancelled in %s hold nothing: %s", CANCELS, kind[k].name,
       tn_error() ? tn_error() : "no error");
    is_int(cancelled, CANCELS, "and all of them ended because of it");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    const char *text = getenv("TENON_TEST_FORKS");
    const int forks = text ? atoi(text) : 20;
    close(mkstemp(path));
    tn_device *own = tn_device_current();
    tn_device_set(tn_device_open("cpu"));
    expected_on_cpu = trains();
    tn_device_set(own);
    expected = trains();
    for (int k = 0; k < KINDS; k++)
        test_forks(k, forks);
    for (int k = 0; k < KINDS; k++)
        test_cancel(k);
    unlink(path);
    return done_testing();
}
