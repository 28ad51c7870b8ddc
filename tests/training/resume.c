/* resume.c: a training run that can be killed at any step and resumed, for
 * test_resume.sh.
 *
 *     resume FILE            trains to the end, from FILE if it exists; prints
 *                            a hash of weights, state and the sum of losses
 *     resume FILE STEP       the same, but kills itself in step STEP
 *
 * It has shuffled batches from two workers, random noise on the samples,
 * dropout in the model, a schedule and momentum: any state that is not restored
 * changes the hash. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { EPOCHS = 4, SAMPLES = 250, BATCH = 16, SAVE_EVERY = 3 };

/* Returns sample i: a random point of one of four clusters, different each
 * time. */
static int get(void *context, int64_t i, tn_tensor **fields)
{
    (void)context;
    tn_tensor *center = tn_full(tn_dims(8), (double)(i % 4));
    fields[0] = tn_add(center, tn_randn(tn_dims(8)));
    fields[1] = tn_full(TN_SCALAR, (double)(i % 4), .dtype = TN_I64);
    return fields[0] && fields[1] ? 2 : tn_error_code();
}

static const tn_dataset_class clouds = {sizeof clouds, SAMPLES, get, NULL};

/* Returns the FNV-1a hash of a file's bytes. */
static uint64_t hash_file(const char *path)
{
    uint64_t hash = 0xcbf29ce484222325u;
    FILE *file = fopen(path, "rb");
    for (int c; file && (c = getc(file)) != EOF;)
        hash = (hash ^ (uint64_t)c) * 0x100000001b3u;
    if (file)
        fclose(file);
    return hash;
}

int main(int argc, char **argv)
{
    const char *path = argv[1];
    int64_t fatal = argc > 2 ? atoll(argv[2]) : -1;
    tn_manual_seed(7);
    tn_module *net = tn_nn_sequential(tn_nn_linear(8, 32), tn_nn_relu(),
                                      tn_nn_dropout(0.3), tn_nn_linear(32, 4));
    tn_checkpoint run = {
        sizeof run,
        .module = net,
        .optim = tn_optim_adam(tn_parameters(net), .lr = 0.01),
        .loader = tn_loader_new(tn_dataset_new(&clouds, NULL),
                                .batch_size = BATCH, .shuffle = true,
                                .seed = 3, .workers = 2)};
    run.schedule = tn_schedule_exponential_lr(run.optim, 0.99);
    if (access(path, R_OK) == 0)
        tn_checkpoint_load(path, &run);
    else
        tn_checkpoint_save(path, &run);
    int64_t first = run.step;
    while (tn_loader_snapshot(run.loader).epoch < EPOCHS && !tn_error()) {
        TN_EACH_BATCH(batch, run.loader) {
            tn_tensor *loss =
                tn_cross_entropy(tn_forward(net, batch.x), batch.y);
            tn_optim_zero_grad(run.optim);
            tn_backward(loss);
            if (run.step == fatal)
                raise(SIGKILL);
            tn_optim_step(run.optim);
            tn_schedule_step(run.schedule);
            if (++run.step % SAVE_EVERY == 0)
                tn_checkpoint_save(path, &run);
        }
    }
    tn_checkpoint_save(path, &run);
    if (tn_error())
        return fprintf(stderr, "resume: %s\n", tn_error()), 1;
    printf("steps %lld to %lld\n", (long long)first, (long long)run.step);
    printf("hash %016llx\n", (unsigned long long)hash_file(path));
    return 0;
}
