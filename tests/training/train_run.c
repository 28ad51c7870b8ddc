/* train_run.c: runs tn_train with every kind of state, for test_train.sh, which
 * kills and resumes it.
 *
 *     train_run CHECKPOINT [STEP]     kills itself in STEP
 *
 * Prints the steps that it ran, and a hash of the weights and averages. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

static int64_t first_step = -1, fatal_step = -1;

static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_cross_entropy(out, batch->y);
}

static void on_step_end(tn_train_state *state, void *context)
{
    (void)context;
    if (first_step < 0)
        first_step = state->step;
    if (state->step == fatal_step)
        raise(SIGKILL);
}

static uint64_t hash(uint64_t h, tn_tensor *x)
{
    static unsigned char bytes[1 << 16];
    size_t count =
        (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
    tn_tensor_to_array(x, bytes, count);
    for (size_t i = 0; i < count; i++)
        h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    fatal_step = argc > 2 ? atoi(argv[2]) : -1;
    tn_manual_seed(7);
    tn_tensor *x = tn_randn(tn_dims(203, 6));
    tn_tensor *y = tn_to_dtype(tn_gt_scalar(tn_sum(x, .dim = 1), 0.3), TN_I64);
    tn_dataset *all = tn_dataset_from_tensors(x, y);
    tn_loader *loader =
        tn_loader_new(tn_dataset_range(all, 0, 150), .batch_size = 8,
                      .shuffle = true, .seed = 3);
    tn_loader *held =
        tn_loader_new(tn_dataset_range(all, 150, 203), .batch_size = 16);
    tn_module *net =
        tn_nn_sequential(tn_nn_linear(6, 16), tn_nn_batch_norm1d(16),
                         tn_nn_relu(), tn_nn_dropout(0.2), tn_nn_linear(16, 2));
    tn_optim *opt = tn_optim_adamw(tn_parameters(net), .lr = 0.02);
    tn_average *average = tn_average_new(net, .decay = 0.9);
    tn_metric *f1 = tn_metric_f1(2);
    tn_train(net, opt, loader, .epochs = 9, .loss = loss, .validation = held,
             .metrics = (tn_metric *[]){f1, NULL}, .monitor = f1,
             .maximize = true, .patience = 4, .accumulate = 2,
             .autocast = TN_BF16,
             .scaler = tn_grad_scaler_new(.growth_interval = 5), .clip_norm = 1,
             .schedule = tn_schedule_exponential_lr(opt, 0.9),
             .average = average, .last = argv[1], .resume = true,
             .checkpoint_every = 3, .on_step_end = on_step_end, .log = stdout);
    uint64_t h = 14695981039346656037u;
    tn_parameter_list *state = tn_module_state(net);
    for (int i = 0; i < tn_parameters_count(state); i++)
        h = hash(hash(h, tn_parameters_at(state, i)),
                 tn_average_at(average, i));
    if (tn_error())
        return fprintf(stderr, "%s\n", tn_error()), 1;
    printf("from %lld\n%016llx\n", (long long)first_step,
           (unsigned long long)h);
    return 0;
}
