/* test_checkpoint.c: tests what a checkpoint restores, and that a rejected
 * checkpoint changes nothing. tests/training/test_resume.sh kills whole
 * runs. */
#include <tenon/tenon.h>

#include <unistd.h>

#include "../tap.h"

static char path[64], other[64];

static tn_checkpoint make(int64_t width, uint64_t seed)
{
    tn_manual_seed(seed);
    tn_module *net = tn_nn_sequential(tn_nn_linear(3, width), tn_nn_relu(),
                                      tn_nn_linear(width, 2));
    tn_dataset *set = tn_dataset_from_tensors(
        tn_randn(tn_dims(20, 3)), tn_randint(0, 2, tn_dims(20)));
    tn_checkpoint all = {
        sizeof all, .module = net,
        .optim = tn_optim_adam(tn_parameters(net), .lr = 0.1),
        .loader = tn_loader_new(set, .batch_size = 4, .shuffle = true,
                                .seed = seed)};
    all.schedule = tn_schedule_exponential_lr(all.optim, 0.9);
    return all;
}

static void train(tn_checkpoint *all, int steps)
{
    TN_EACH_BATCH(batch, all->loader) {
        tn_optim_zero_grad(all->optim);
        tn_backward(tn_cross_entropy(tn_forward(all->module, batch.x),
                                     batch.y));
        tn_optim_step(all->optim);
        tn_schedule_step(all->schedule);
        all->step++;
        if (--steps == 0) {
            tn_checkpoint_save(path, all);
            break;
        }
    }
}

static char *content(const char *name, size_t *bytes)
{
    FILE *file = fopen(name, "rb");
    char *data = calloc(1, 1 << 16);
    if (!file || !data)
        bail_out("cannot read %s", name);
    *bytes = fread(data, 1, 1 << 16, file);
    fclose(file);
    return data;
}

/* Returns whether two checkpoint files have the same bytes. */
static bool same_files(const char *a, const char *b)
{
    size_t a_bytes, b_bytes;
    char *x = content(a, &a_bytes), *y = content(b, &b_bytes);
    bool same = a_bytes == b_bytes && memcmp(x, y, a_bytes) == 0;
    free(x);
    free(y);
    return same;
}

static void test_round(void)
{
    tn_checkpoint all = make(4, 1);
    train(&all, 3);
    ok(!tn_error(), "three steps and a checkpoint");
    tn_rng_state rng = tn_rng_snapshot();
    tn_checkpoint copy = make(4, 2);
    is_int(tn_checkpoint_load(path, &copy), TN_OK, "the checkpoint is loaded");
    is_int(copy.step, 3, "the program's number comes back");
    is_int(tn_loader_snapshot(copy.loader).batch, 3,
           "the loader is in the middle of its epoch");
    is_int((int64_t)tn_loader_snapshot(copy.loader).seed, 1,
           "the loader has its seed");
    is_int(tn_schedule_steps(copy.schedule), 3, "the schedule continues");
    ok(tn_optim_lr(copy.optim) == tn_optim_lr(all.optim),
       "with the learning rate");
    ok(rng.seed == tn_rng_snapshot().seed &&
           rng.call == tn_rng_snapshot().call,
       "and so do random numbers");
    is_int(tn_checkpoint_save(other, &copy), TN_OK, "saved again");
    ok(same_files(path, other), "it is the same file, byte for byte");

    tn_checkpoint weights = {sizeof weights, .module = all.module, .step = -5};
    tn_checkpoint_save(other, &weights);
    weights.step = 0;
    is_int(tn_checkpoint_load(other, &weights), TN_OK, "parts may be left out");
    is_int(weights.step, -5, "a step may be any number");
    tn_checkpoint rest = {sizeof rest, .optim = all.optim,
                          .loader = all.loader};
    is_int(tn_checkpoint_save(other, &rest), TN_OK, "the module too");
    is_int(tn_checkpoint_load(other, &rest), TN_OK, "there and back");
}

/* Checks that loading fails with this error; path is a checkpoint of make(4,
 * ...). */
static void refused(tn_checkpoint all, tn_status code, const char *message)
{
    char before[80], after[80], want[300];
    snprintf(before, sizeof before, "%s.before", other);
    snprintf(after, sizeof after, "%s.after", other);
    snprintf(want, sizeof want, "checkpoint_load: %s: %s", path, message);
    tn_checkpoint_save(before, &all);
    is_int(tn_checkpoint_load(path, &all), code, "refused: %s", message);
    is_str(tn_error(), want, "and the message says so");
    tn_error_clear();
    tn_checkpoint_save(after, &all);
    ok(same_files(before, after), "with nothing changed");
    unlink(before);
    unlink(after);
}

/* Replaces a string in the file by another of the same length. */
static void put_in_file(const char *text, const char *other_text)
{
    static char whole[1 << 16];
    FILE *f = fopen(path, "r+");
    size_t count = fread(whole, 1, sizeof whole, f), length = strlen(text);
    size_t at = 0;
    while (at + length <= count && memcmp(whole + at, text, length) != 0)
        at++;
    if (ok(at + length <= count && strlen(other_text) == length,
           "the file has %s", text)) {
        fseek(f, (long)at, SEEK_SET);
        fwrite(other_text, 1, length, f);
    }
    fclose(f);
}

static void test_mistakes(void)
{
    tn_checkpoint all = make(4, 1), wrong = make(5, 3);
    train(&all, 2);
    refused(wrong, TN_ERR_SHAPE,
            "\"0.weight\" has another shape or dtype in the file (float32, 2 "
            "dimensions, 12 elements) than in the module (float32, 2, 15)");
    wrong = make(4, 3);
    wrong.module = tn_nn_sequential(tn_nn_linear(3, 4), tn_nn_relu());
    refused(wrong, TN_ERR_ARGUMENT,
            "the file's module has 4 tensors, but the checkpoint's has 2");
    wrong.module = tn_nn_sequential(
        tn_nn_linear(3, 4), tn_nn_linear(4, 4), tn_nn_linear(4, 2));
    refused(wrong, TN_ERR_ARGUMENT, "the file's module has no \"1.weight\"");
    wrong = make(4, 3);
    wrong.optim = NULL;
    refused(wrong, TN_ERR_ARGUMENT,
            "the file has a state of an optimizer, the checkpoint has none");
    wrong = make(4, 3);
    wrong.loader = NULL;
    refused(wrong, TN_ERR_ARGUMENT,
            "the file has a loader, the checkpoint has none");
    tn_checkpoint less = all;
    less.schedule = NULL;
    tn_checkpoint_save(path, &less);
    refused(make(4, 3), TN_ERR_ARGUMENT, "the file has no schedule");

    tn_checkpoint_save(path, &all);
    tn_checkpoint bad = make(4, 3);
    bad.loader = tn_loader_new(
        tn_dataset_from_tensors(tn_zeros(tn_dims(20, 3)), NULL),
        .batch_size = 5);
    ok(tn_checkpoint_load(path, &bad) < 0, "another loader is refused");
    is_str(tn_error(),
           "checkpoint_load: the state is of 20 samples in "
           "batches of 4, but the loader has 20 in batches of 5; "
           "expected the same",
           "and the message says so");
    tn_error_clear();
    bad = make(4, 3);
    bad.optim = tn_optim_sgd(tn_parameters(bad.module), .lr = 0.1);
    bad.schedule = tn_schedule_exponential_lr(bad.optim, 0.9);
    char want[200];
    snprintf(want, sizeof want,
             "checkpoint_load: %s: the file has the state of optim_adam; "
             "expected optim_sgd",
             path);
    ok(tn_checkpoint_load(path, &bad) < 0, "another optimizer is refused");
    is_str(tn_error(), want, "and the message says so");
    tn_error_clear();

    put_in_file("\\\"rule\\\":\\\"optim_adam\\\"",
                "\\\"rule\\\":\\\"Adam\\\"      ");
    refused(make(4, 3), TN_ERR_ARGUMENT,
            "the state of Adam is of an earlier version of Tenon: continue "
            "with that version, or save only the weights with it "
            "(tn_module_save) and start a new optim_adam");

    tn_module_save(all.module, path);
    refused(make(4, 3), TN_ERR_FORMAT,
            "its metadata has no \"step\"; expected a file of "
            "tn_checkpoint_save");
    ok(tn_checkpoint_save(NULL, &all) < 0, "no path is refused");
    is_str(tn_error(), "checkpoint_save: path is NULL", "and is reported");
    is_int(tn_checkpoint_save(path, &all), TN_ERR_STATE,
           "nothing is written while an error is pending");
    tn_error_clear();
    tn_checkpoint unset = {.module = all.module};
    ok(tn_checkpoint_load(path, &unset) < 0, "an unset size is refused");
    is_str(tn_error(),
           "checkpoint_load: size is 0; set it to "
           "sizeof(tn_checkpoint)",
           "and is reported");
    tn_error_clear();
}

int main(void)
{
    plan_later();
    snprintf(path, sizeof path, "checkpoint-%ld.tmp", (long)getpid());
    snprintf(other, sizeof other, "checkpoint-%ld.other.tmp", (long)getpid());
    test_round();
    test_mistakes();
    unlink(path);
    unlink(other);
    return done_testing();
}
