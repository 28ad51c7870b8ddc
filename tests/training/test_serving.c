/* test_serving.c: four threads run one model at once, as a server does. Each
 * result is bit-identical to the result in a single thread, and an error is
 * reported only in its thread. docs/threading.md has the program. */
#include <tenon/tenon.h>

#include <pthread.h>

#include "../tap.h"

enum { THREADS = 4, REQUESTS = 60, SIZE = 16 };

static tn_module *model;
static float want[REQUESTS][10];

/* Returns request i: a batch of 1 to 4 images. */
static tn_tensor *request(int i)
{
    tn_manual_seed((uint64_t)i);
    return tn_randn(tn_dims(1 + i % 4, 1, SIZE, SIZE));
}

static bool answer(int i, float out[10])
{
    tn_scope *scope = tn_scope_open();
    bool good = false;
    TN_NO_GRAD
    {
        tn_tensor *y = tn_softmax(tn_forward(model, request(i)), 1);
        good = tn_tensor_to_array(tn_contiguous(tn_select(y, 0, 0)), out,
                                  10 * sizeof *out) == TN_OK;
    }
    tn_scope_close(scope);
    return good;
}

static void *serve(void *argument)
{
    int first = *(int *)argument, wrong = 0;
    for (int k = 0; k < REQUESTS; k++) {
        int i = (first + k) % REQUESTS;
        float got[10];
        if (i % 7 == first % 7) { /* a request that fails */
            tn_scope *scope = tn_scope_open();
            wrong += tn_forward(model, tn_ones(tn_dims(2, 3))) != NULL ||
                     !tn_error() || !strstr(tn_error(), "0: conv2d: ");
            tn_error_clear();
            tn_scope_close(scope);
        }
        wrong += !answer(i, got) || memcmp(got, want[i], sizeof got) != 0;
    }
    *(int *)argument = wrong + (tn_error() != NULL) + (int)tn_scope_count();
    return NULL;
}

int main(void)
{
    tn_manual_seed(1);
    model = tn_module_eval(tn_nn_sequential(
        tn_nn_conv2d(1, 8, 3, .padding = 1), tn_nn_batch_norm2d(8),
        tn_nn_relu(), tn_nn_max_pool2d(2), tn_nn_flatten(), tn_nn_dropout(0.5),
        tn_nn_linear(8 * SIZE * SIZE / 4, 10)));
    for (int i = 0; i < REQUESTS; i++)
        if (!answer(i, want[i]))
            bail_out("%s", tn_error());
    pthread_t thread[THREADS];
    int at[THREADS];
    for (int t = 0; t < THREADS; t++) {
        at[t] = t * 11;
        if (pthread_create(&thread[t], NULL, serve, &at[t]) != 0)
            bail_out("no thread");
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        is_int(at[t], 0, "thread %d: all answers are right, nothing is left",
               t);
    }
    is_str(tn_error(), NULL, "no error came to this thread");
    return done_testing();
}
