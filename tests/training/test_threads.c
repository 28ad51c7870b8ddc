/* test_threads.c: eight threads train eight models at once, each with its own
 * scopes, gradients, errors and a loader with two workers. Each must get the
 * result of a thread that trains alone. Before that, threads create the first
 * optimizer of each kind at the same time. */
#include <base/platform.h>
#include <tenon/tenon.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "../tap.h"

enum { THREADS = 8, STEPS = 30 };

typedef struct job {
    uint64_t seed;
    float loss[STEPS];
    char error[200];
} job;

static void *train(void *argument)
{
    job *j = argument;
    tn_scope *scope = tn_scope_open();
    tn_manual_seed(j->seed);
    tn_module *net = tn_nn_sequential(
        tn_nn_conv2d(1, 4, 3, .padding = 1), tn_nn_relu(),
        tn_nn_max_pool2d(2), tn_nn_flatten(), tn_nn_linear(64, 10));
    tn_optim *optim =
        tn_optim_sgd(tn_parameters(net), .lr = 0.05, .momentum = 0.9);
    tn_tensor *x = tn_randn(tn_dims(64, 1, 8, 8));
    tn_tensor *y = tn_randint(0, 10, tn_dims(64));
    tn_loader *loader = tn_loader_new(tn_dataset_from_tensors(x, y),
                                      .batch_size = 16, .shuffle = true,
                                      .seed = j->seed, .workers = 2);
    int step = 0;
    while (step < STEPS && !tn_error())
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *loss =
                tn_cross_entropy(tn_forward(net, batch.x), batch.y);
            tn_optim_zero_grad(optim);
            tn_backward(loss);
            tn_optim_step(optim);
            if (step < STEPS)
                j->loss[step++] = (float)tn_item(loss);
        }
    snprintf(j->error, sizeof j->error, "%s", tn_error() ? tn_error() : "");
    tn_error_clear();
    tn_scope_close(scope);
    return NULL;
}

/* ---- the first optimizer of a kind --------------------------------------- */

/* A thread that creates an optimizer sleeps in each allocation, so that the
 * others run while it defines the kernels. Under sanitizers, which have their
 * own malloc, no thread sleeps. */
static _Thread_local bool is_making;

#if !defined(TN__ASAN) && !defined(TN__TSAN) && defined(__GLIBC__)
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);

static void pause_if_making(void)
{
    if (is_making)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

void *malloc(size_t bytes)
{
    pause_if_making();
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    pause_if_making();
    return __libc_calloc(count, bytes);
}
#endif

#define MAKER(rule)                                                           \
    static tn_optim *rule(tn_parameter_list *list)                            \
    {                                                                         \
        return tn_optim_##rule(list);                                         \
    }
MAKER(sgd)
MAKER(adam)
MAKER(adamw)
MAKER(rmsprop)
MAKER(adagrad)
MAKER(adadelta)
MAKER(adamax)
MAKER(nadam)
MAKER(radam)
MAKER(asgd)
MAKER(rprop)

static tn_optim *(*const makers[])(tn_parameter_list *list) = {
    sgd,      adam,   adamw, rmsprop, adagrad, adadelta,
    adamax,   nadam,  radam, asgd,    rprop};
enum { RULES = sizeof makers / sizeof *makers, MAKING = 4 };

static atomic_int arrived;
static _Atomic int refused[RULES];
static char refusal[RULES][200];

/* The first optimizer of a kind defines its kernels. All threads wait for each
 * other before each kind, so that none finds them already defined. */
static void *make_first(void *argument)
{
    (void)argument;
    tn_scope *scope = tn_scope_open();
    tn_tensor *p = tn_requires_grad(tn_zeros(tn_dims(2)));
    tn_parameter_list *list = tn_parameters_from(&p, 1);
    for (int r = 0; r < RULES; r++) {
        atomic_fetch_add(&arrived, 1);
        while (atomic_load(&arrived) < MAKING * (r + 1))
            sched_yield();
        is_making = true;
        const tn_optim *made = makers[r](list);
        is_making = false;
        if (!made && atomic_fetch_add(&refused[r], 1) == 0)
            snprintf(refusal[r], sizeof refusal[r], "%s", tn_error());
        tn_error_clear();
    }
    tn_scope_close(scope);
    return NULL;
}

static void test_first(void)
{
    pthread_t thread[MAKING];
    for (int i = 0; i < MAKING; i++)
        if (pthread_create(&thread[i], NULL, make_first, NULL) != 0)
            bail_out("no thread to be had");
    for (int i = 0; i < MAKING; i++)
        pthread_join(thread[i], NULL);
    for (int r = 0; r < RULES; r++)
        is_str(refusal[r], "", "rule %d: %d threads make the first optimizer",
               r, MAKING);
}

int main(void)
{
    plan_later();
    test_first();
    static job together[THREADS], alone[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        together[i].seed = alone[i].seed = (uint64_t)i + 1;
        if (pthread_create(&thread[i], NULL, train, &together[i]) != 0)
            bail_out("no thread to be had");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        train(&alone[i]);
        is_str(together[i].error, "", "model %d trains without an error", i);
        ok(memcmp(together[i].loss, alone[i].loss, sizeof alone[i].loss) == 0,
           "model %d has the losses, bit for bit, of training alone", i);
        ok(alone[i].loss[STEPS - 1] < alone[i].loss[0],
           "model %d learned: %.4f to %.4f", i, (double)alone[i].loss[0],
           (double)alone[i].loss[STEPS - 1]);
    }
    return done_testing();
}
