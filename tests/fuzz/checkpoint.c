/* checkpoint.c: fuzzes headers of checkpoints, which are followed by the
 * tensors of a valid one. A rejected checkpoint changes nothing. After an
 * accepted one the training run continues, and a valid checkpoint still
 * loads. */
#include <tenon/tenon.h>

#include "fuzz.h"

const char fuzz_target[] = "checkpoint";

enum { MOST = 1 << 16 };

static tn_checkpoint all;
static tn_tensor *samples;
static uint8_t good[MOST];
static size_t good_bytes, header_bytes;

static void step(void)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor *loss = tn_mean(tn_square(tn_forward(all.module, samples)));
    tn_optim_zero_grad(all.optim);
    tn_backward(loss);
    tn_optim_step(all.optim);
    tn_schedule_step(all.schedule);
    tn_scope_close(scope);
}

static void start(void)
{
    static const char path[] = "fuzz-checkpoint.ckpt";
    tn_scope *scope = tn_scope_open();
    samples = tn_keep(tn_ones(tn_dims(4, 3)));
    tn_module *net = tn_keep(tn_nn_linear(3, 2));
    all = (tn_checkpoint){
        .size = sizeof all, .module = net,
        .optim = tn_keep(tn_optim_adam(tn_parameters(net))),
        .loader = tn_keep(tn_loader_new(
            tn_dataset_from_tensors(samples, NULL), .batch_size = 2,
            .shuffle = true)),
        .scaler = tn_keep(tn_grad_scaler_new()),
        .average = tn_keep(tn_average_new(net))};
    all.schedule = tn_keep(tn_schedule_exponential_lr(all.optim, 0.99));
    step();
    tn_checkpoint_save(path, &all);
    fuzz_accepted();
    FILE *file = fopen(path, "rb");
    good_bytes = file ? fread(good, 1, sizeof good, file) : 0;
    fuzz_check(good_bytes > 8 && good_bytes < sizeof good, "it is small");
    fclose(file);
    unlink(path);
    uint64_t header;
    memcpy(&header, good, sizeof header);
    header_bytes = (size_t)header;
    tn_scope_close(scope);
}

/* Returns a hash of all state that a load may change. */
static uint64_t state(void)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    tn_scope *scope = tn_scope_open();
    tn_parameter_list *list = tn_module_state(all.module);
    for (int i = 0; i < tn_parameters_count(list); i++) {
        float value[16];
        tn_tensor *x = tn_parameters_at(list, i);
        const size_t bytes = (size_t)tn_tensor_numel(x) * sizeof *value;
        fuzz_check(bytes <= sizeof value, "weights are few");
        tn_tensor_to_array(x, value, bytes);
        for (size_t k = 0; k < bytes; k++)
            hash = (hash ^ ((const uint8_t *)value)[k]) * 0x100000001b3u;
    }
    const tn_loader_state at = tn_loader_snapshot(all.loader);
    const tn_rng_state random = tn_rng_snapshot();
    tn_scope_close(scope);
    return hash ^ (uint64_t)at.epoch * 11 ^ (uint64_t)at.batch * 13 ^
           (uint64_t)tn_schedule_steps(all.schedule) * 17 ^
           (uint64_t)random.seed * 3 ^ (uint64_t)random.call * 5 ^
           (uint64_t)all.step * 19;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t file[2 * MOST];
    char path[32];
    if (!all.size)
        start();
    if (size > MOST)
        return 0;
    const uint64_t header = size;
    memcpy(file, &header, sizeof header);
    memcpy(file + 8, data, size);
    memcpy(file + 8 + size, good + 8 + header_bytes,
           good_bytes - 8 - header_bytes);
    int fd = fuzz_file(file, size + good_bytes - header_bytes, path);
    const uint64_t before = state();
    if (tn_checkpoint_load(path, &all) < 0) {
        fuzz_refused();
        fuzz_check(state() == before, "a failed load changes nothing");
    } else {
        fuzz_accepted();
        step();
        if (tn_error()) /* the file may set an invalid learning rate, for
                         * example */
            fuzz_refused();
        int other = fuzz_file(good, good_bytes, path);
        fuzz_check(tn_checkpoint_load(path, &all) >= 0,
                   "the true one loads after it");
        close(other);
    }
    close(fd);
    return 0;
}
