/* test_shared.c: tests what the headers allow threads to share: one model in
 * eight threads at once, which read its parameters, print it, run it, and add
 * to the gradients of the same leaves; one custom operator, one data set, one
 * safetensors file. Also run under the thread sanitizer. */
#include <tenon/tenon.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "../tap.h"

enum { THREADS = 8, TURNS = 20 };

static struct shared {
    tn_module *net;
    tn_tensor *x, *table;
    tn_dataset *set;
    tn_safetensors *file;
    char *text;
    double loss;
} shared;

static tn_tensor *loss_of(void)
{
    tn_tensor *y = tn_forward(shared.net, shared.x);
    return tn_mean(tn_square(y));
}

/* Makes the same calls in each thread, and records failures. */
static void *use(void *argument)
{
    char *wrong = argument;
    for (int turn = 0; turn < TURNS && !*wrong; turn++) {
        tn_scope *scope = tn_scope_open();
        tn_tensor *loss = loss_of();
        if (tn_item(loss) != shared.loss)
            snprintf(wrong, 200, "another loss: %s", tn_error());
        if (tn_backward(loss) < 0)
            snprintf(wrong, 200, "backward: %s", tn_error());
        char *text = tn_tensor_text(shared.table);
        if (!text || strcmp(text, shared.text) != 0)
            snprintf(wrong, 200, "another text: %s", tn_error());
        free(text);
        tn_tensor *kept = tn_keep(shared.table), *field[TN_MAX_FIELDS];
        const int64_t index[] = {1, 0, 2};
        if (tn_dataset_batch(shared.set, index, 3, field) != 2 ||
            tn_item_int(tn_select(field[1], 0, 0)) != 1)
            snprintf(wrong, 200, "another batch: %s", tn_error());
        tn_tensor *read = tn_safetensors_tensor(shared.file, "table");
        if (tn_item(tn_equal(read, kept)) != 1)
            snprintf(wrong, 200, "another file: %s", tn_error());
        char line[60];
        snprintf(line, sizeof line, "add_%llu_%d(x) = x + %d",
                 (unsigned long long)(uintptr_t)argument, turn, turn);
        const tn_op *op = tn_op_define(line);
        tn_tensor *sum = tn_op_apply(op, &kept, NULL);
        if (tn_item(tn_select(tn_select(sum, 0, 0), 0, 0)) != turn)
            snprintf(wrong, 200, "another operator: %s", tn_error());
        tn_drop(kept);
        tn_scope_close(scope);
    }
    return NULL;
}

int main(void)
{
    plan_later();
    tn_manual_seed(1);
    char path[] = "/tmp/tenon-shared.XXXXXX";
    close(mkstemp(path));
    shared.net = tn_nn_sequential(tn_nn_linear(4, 8), tn_nn_tanh(),
                                  tn_nn_linear(8, 1));
    shared.x = tn_randn(tn_dims(16, 4));
    shared.table = tn_reshape(tn_arange(0, 12, 1, .dtype = TN_F32),
                              tn_dims(4, 3));
    shared.set = tn_dataset_from_tensors(
        shared.table, tn_arange(0, 4, 1, .dtype = TN_I64));
    const char *name = "table";
    tn_safetensors_save(path, &name, &shared.table, 1, NULL, 0);
    shared.file = tn_safetensors_open(path);
    shared.text = tn_tensor_text(shared.table);
    shared.loss = tn_item(loss_of());
    if (tn_error())
        bail_out("%s", tn_error());

    tn_parameter_list *parameters = tn_parameters(shared.net);
    tn_tensor *weight = tn_parameters_at(parameters, 0);
    tn_backward(loss_of());
    tn_tensor *once = tn_clone(tn_tensor_grad(weight));
    tn_module_zero_grad(shared.net);

    pthread_t thread[THREADS];
    char wrong[THREADS][200] = {{0}};
    for (int t = 0; t < THREADS; t++)
        pthread_create(&thread[t], NULL, use, wrong[t]);
    for (int t = 0; t < THREADS; t++) {
        pthread_join(thread[t], NULL);
        is_str(wrong[t], "", "thread %d", t);
    }
    tn_tensor *all = tn_div_scalar(tn_tensor_grad(weight), THREADS * TURNS);
    ok(tn_item(tn_allclose(all, once, .rtol = 1e-5)) == 1,
       "the gradients of all threads are in one sum");
    ok(!tn_error(), "without an error: %s", tn_error() ? tn_error() : "none");
    free(shared.text);
    unlink(path);
    return done_testing();
}
