/* test_handler.c: tests error handlers: which of them are called, when, and how
 * often. */
#include <tenon/tenon.h>

#include <pthread.h>
#include <stdatomic.h>

#include "../tap.h"

static atomic_int calls;
static char message[300];
static tn_status code;
static pthread_t thread;
static int marker;

static void hear(tn_status status, const char *text, void *context)
{
    atomic_fetch_add(&calls, 1);
    snprintf(message, sizeof message, "%s", text);
    code = status;
    thread = pthread_self();
    ok(context == &marker, "the handler gets its context");
    ok(tn_error_code() == status,
       "the error is pending while the handler runs");
    tn_matmul(tn_ones(tn_dims(2, 3)), tn_ones(tn_dims(2, 3)));
}

static void *fail_elsewhere(void *argument)
{
    (void)argument;
    tn_reshape(tn_ones(tn_dims(6)), tn_dims(4));
    tn_error_clear();
    return NULL;
}

static int torn(void *context, int64_t i, tn_tensor **field)
{
    (void)context, (void)i, (void)field;
    return tn_error_set(TN_ERR_IO, "sample %d is torn", (int)i);
}

int main(void)
{
    plan_later();
    tn_ones(tn_dims(1)); /* so that the device is open before the test */
    tn_error_handler_set(hear, &marker);

    tn_matmul(tn_ones(tn_dims(2, 3)), tn_ones(tn_dims(2, 3)));
    is_int(calls, 1, "an error is reported once");
    is_int(code, TN_ERR_SHAPE, "with its code");
    ok(strncmp(message, "matmul", 6) == 0, "and in words: %s", message);
    ok(pthread_equal(thread, pthread_self()), "in the thread where it arises");
    tn_relu(NULL);
    tn_sum(tn_matmul(tn_ones(tn_dims(2, 3)), tn_ones(tn_dims(2, 3))));
    is_int(calls, 1, "errors that follow from it are not reported");
    tn_error_clear();

    tn_nn_linear(-1, 2);
    is_int(calls, 2, "the next error is reported");
    tn_error_clear();
    tn_error_set(TN_ERR_STATE, "of my own");
    is_int(calls, 3, "a user-defined error is reported, too");
    is_str(message, "of my own", "with its message");
    tn_error_clear();

    pthread_t other;
    pthread_create(&other, NULL, fail_elsewhere, NULL);
    pthread_join(other, NULL);
    is_int(calls, 4, "an error of another thread is reported, too");
    ok(pthread_equal(thread, other), "the handler runs in that thread");

    static const tn_dataset_class set = {sizeof set, 8, torn, NULL};
    tn_loader *loader =
        tn_loader_new(tn_dataset_new(&set, NULL), .batch_size = 8, .workers = 1);
    TN_EACH_BATCH(batch, loader)
        ;
    ok(tn_error() != NULL, "a worker's error reaches the loop");
    is_int(calls, 5, "and is reported once, by the worker");
    tn_error_clear();

    /* Errors that are handled internally while a device is searched do not call
     * the handler. */
    tn_device_open("auto");
    tn_load_report();
    tn_tensor *x = tn_rand(tn_dims(1, 8, 16, 16));
    tn_conv2d(x, tn_rand(tn_dims(8, 8, 3, 3)), NULL);
    tn_linalg_det(tn_rand(tn_dims(4, 4)));
    ok(!tn_error(), "these calls succeed: %s", tn_error() ? tn_error() : "yes");
    is_int(calls, 5, "failed tries are not reported");

    tn_error_handler_set(NULL, NULL);
    tn_nn_linear(-1, 2);
    is_int(calls, 5, "nothing is reported after the handler is removed");
    tn_error_clear();
    return done_testing();
}
