/* test_events.c: event files are read back as curves, a full disk loses no
 * earlier value, and wrong arguments are rejected. */
#include <tenon/curves.h>
#include <tenon/events.h>
#include <tenon/tenon.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../tap.h"

static int find(const tn_curves *curves, const char *tag)
{
    for (int i = 0; i < tn_curves_count(curves); i++)
        if (strcmp(tn_curves_tag(curves, i), tag) == 0)
            return i;
    return -1;
}

static void test_scalars(void)
{
    tn_scope *scope = tn_scope_open();
    tn_events *events = tn_events_open("run");
    ok(tn_events_path(events) &&
           strstr(tn_events_path(events), "run/events.out.tfevents."),
       "the file has TensorBoard's name");
    for (int64_t step = 0; step < 100; step++) {
        tn_events_scalar(events, "loss/train", 1.0 / (double)(step + 1), step);
        if (step % 10 == 0)
            tn_events_scalar(events, "acc", (double)step, step);
    }
    tn_events_scalar(events, "odd", NAN, INT64_MAX);
    tn_events_scalar(events, "odd", INFINITY, 0);
    is_str(tn_error(), NULL, "all is written");
    tn_curves *curves = tn_curves_new();
    is_int(tn_curves_add(curves, "run", "first"), TN_OK,
           "a folder is read while the file is open");
    is_int(tn_curves_count(curves), 3, "three curves");
    int i = find(curves, "loss/train");
    is_int(tn_curves_length(curves, i), 100, "with all points");
    is_str(tn_curves_run(curves, i), "first", "and the name of the run");
    ok(tn_curves_steps(curves, i)[99] == 99 &&
           tn_curves_values(curves, i)[3] == 0.25 &&
           tn_curves_times(curves, i)[0] > 1.7e9,
       "steps, values and times are right");
    i = find(curves, "odd");
    ok(isnan(tn_curves_values(curves, i)[0]) &&
           isinf(tn_curves_values(curves, i)[1]) &&
           tn_curves_steps(curves, i)[0] == (double)INT64_MAX,
       "NAN, infinity and a large step");
    tn_scope_close(scope);

    /* a second process or start continues the curves */
    scope = tn_scope_open();
    events = tn_events_open("run");
    tn_events_scalar(events, "acc", 7, 100);
    curves = tn_curves_new();
    tn_curves_add(curves, "run", NULL);
    is_int(tn_curves_length(curves, find(curves, "acc")), 11,
           "two files of one folder are one curve");
    is_str(tn_curves_run(curves, 0), "run", "named like its folder");
    tn_scope_close(scope);
}

static void test_others(void)
{
    tn_scope *scope = tn_scope_open();
    tn_events *events = tn_events_open("other");
    tn_events_text(events, "note", "# Heading\n\u00e9", 1);
    tn_events_histogram(events, "w", tn_randn(tn_dims(20, 30)), 2);
    tn_events_histogram(events, "zeros", tn_zeros(tn_dims(3), .dtype = TN_I32),
                        2);
    tn_events_histogram(
        events, "wide",
        tn_tensor_from_array((double[]){-1e30, 0, 1e-15, 1e30}, TN_F64,
                             tn_dims(4)),
        2);
    tn_events_hyperparameters(
        events,
        (tn_hyperparameter[]){{"lr", 0.1, NULL}, {"optim", 0, "sgd"}}, 2,
        (const char *[]){"loss"}, 1);
    tn_events_scalar(events, "loss", 1, 0);
    tn_events_image(events, "grey", tn_rand(tn_dims(1, 4, 6)), 3);
    tn_events_image(events, "color", tn_zeros(tn_dims(3, 2, 2), .dtype = TN_U8),
                    3);
    if (tn_error_code() == TN_ERR_UNSUPPORTED)
        tn_error_clear(); /* built without libpng */
    is_str(tn_error(), NULL, "images, texts, histograms and hyperparameters are written");
    tn_curves *curves = tn_curves_new();
    tn_curves_add(curves, "other", NULL);
    is_int(tn_curves_count(curves), 1, "and are no curves");
    tn_scope_close(scope);
}

static tn_tensor *loss(tn_tensor *out, const tn_batch *batch, void *context)
{
    (void)context;
    return tn_mse_loss(out, batch->y);
}
static void epoch_end(tn_train_state *state, void *context)
{
    tn_events_epoch(context, state);
}

static void test_epoch(void)
{
    tn_scope *scope = tn_scope_open();
    tn_events *events = tn_events_open("train");
    tn_module *net = tn_nn_linear(3, 1);
    tn_dataset *set = tn_dataset_from_tensors(tn_randn(tn_dims(8, 3)),
                                              tn_randn(tn_dims(8, 1)));
    tn_train(net, tn_optim_sgd(tn_parameters(net), .lr = 0.01),
             tn_loader_new(set, .batch_size = 4), .epochs = 3, .loss = loss,
             .validation = tn_loader_new(set), .progress = false,
             .on_epoch_end = epoch_end, .context = events);
    is_str(tn_error(), NULL, "tn_train writes epochs");
    tn_curves *curves = tn_curves_new();
    tn_curves_add(curves, "train", NULL);
    const char *tags[] = {"loss/train", "loss/validation", "monitored", "lr"};
    for (int i = 0; i < 4; i++)
        ok(tn_curves_length(curves, find(curves, tags[i])) == 3 &&
               tn_curves_steps(curves, find(curves, tags[i]))[2] == 3,
           "%s has three", tags[i]);
    ok(tn_curves_values(curves, find(curves, "lr"))[0] == (double)0.01f,
       "with the learning rate");
    tn_scope_close(scope);
}

static void test_full_disk(void)
{
    tn_scope *scope = tn_scope_open();
    tn_events *events = tn_events_open("full");
    tn_events_scalar(events, "loss", 1, 0);
    struct stat before, after;
    stat(tn_events_path(events), &before);
    struct rlimit limit, old;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = (rlim_t)before.st_size + 20; /* half a record */
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    const tn_status status = tn_events_scalar(events, "loss", 2, 1);
    setrlimit(RLIMIT_FSIZE, &old);
    is_int(status, TN_ERR_IO, "a file that may not grow is an error");
    ok(tn_error() && strstr(tn_error(), tn_events_path(events)),
       "that has the path");
    tn_error_clear();
    stat(tn_events_path(events), &after);
    is_int(after.st_size, before.st_size, "the file is cut back");
    tn_events_scalar(events, "loss", 3, 2);
    tn_curves *curves = tn_curves_new();
    tn_curves_add(curves, "full", NULL);
    ok(tn_curves_length(curves, 0) == 2 && tn_curves_values(curves, 0)[1] == 3,
       "and goes on with the next value");
    tn_scope_close(scope);
}

/* Passes if the call failed with the code and a message that has the text. */
static void refused(tn_status got, tn_status code, const char *text)
{
    ok(got == code && tn_error() && strstr(tn_error(), text),
       "refused with \"%s\": %s", text, tn_error() ? tn_error() : "no error");
    tn_error_clear();
}

static void test_refused(void)
{
    tn_scope *scope = tn_scope_open();
    tn_events *events = tn_events_open("wrong");
    tn_tensor *x = tn_ones(tn_dims(2));
    ok(!tn_events_open(NULL), "no folder");
    tn_error_clear();
    ok(!tn_events_open("no/such/parent"), "a folder without its parent");
    tn_error_clear();
    is_str(tn_events_path(NULL), NULL, "no events have no path");
    const tn_status argument = TN_ERR_ARGUMENT;
    refused(tn_events_scalar(NULL, "a", 1, 0), argument, "events is NULL");
    refused(tn_events_scalar((tn_events *)x, "a", 1, 0), argument, "a tensor");
    refused(tn_events_scalar(events, NULL, 1, 0), argument, "tag is NULL");
    refused(tn_events_scalar(events, "", 1, 0), argument, "0 bytes");
    refused(tn_events_scalar(events, "\xff", 1, 0), argument, "UTF-8");
    refused(tn_events_scalar(events, "\xed\xa0\x80", 1, 0), argument, "UTF-8");
    refused(tn_events_scalar(events, "\xe2\x82", 1, 0), argument, "UTF-8");
    refused(tn_events_scalar(events, "a", 1, -1), argument, "step is -1");
    refused(tn_events_text(events, "a", NULL, 0), argument, "text is NULL");
    refused(tn_events_text(events, "a", "\xc0\x80", 0), argument, "UTF-8");
    refused(tn_events_histogram(events, "a", NULL, 0), argument,
            "values is NULL");
    refused(tn_events_histogram(events, "a", tn_zeros(tn_dims(0)), 0), argument,
            "no elements");
    refused(tn_events_histogram(events, "a", tn_full(tn_dims(2), (double)NAN), 0),
            argument, "element 0 of values is NAN");
    refused(tn_events_image(events, "a", NULL, 0), argument, "image is NULL");
    refused(tn_events_image(events, "a", tn_zeros(tn_dims(2, 4, 4)), 0),
            TN_ERR_SHAPE, "1, 3 or 4 channels");
    refused(tn_events_image(events, "a", tn_zeros(tn_dims(4, 4)), 0),
            TN_ERR_SHAPE, "channels, height");
    refused(tn_events_image(events, "a",
                            tn_zeros(tn_dims(1, 4, 4), .dtype = TN_I64), 0),
            TN_ERR_DTYPE, "image is int64");
    refused(tn_events_epoch(events, NULL), argument, "state is NULL");
    tn_hyperparameter twice[2] = {{"lr", 1, NULL}, {"lr", 2, NULL}};
    refused(tn_events_hyperparameters(events, twice, 2, NULL, 0), argument,
            "parameters[1]");
    refused(tn_events_hyperparameters(events, NULL, 1, NULL, 0), argument,
            "parameters is NULL");
    refused(tn_events_hyperparameters(events, twice, -1, NULL, 0), argument,
            "count is -1");
    refused(tn_events_hyperparameters(events, twice, 1, NULL, 2), argument,
            "metrics is NULL");
    tn_error_set(TN_ERR_IO, "before");
    is_int(tn_events_scalar(events, "a", 1, 0), TN_ERR_STATE,
           "nothing is written while an error is pending");
    tn_error_clear();
    tn_scope_close(scope);
}

int main(void)
{
    char folder[] = "/tmp/test_events.XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) < 0)
        bail_out("no folder in /tmp");
    test_scalars();
    test_others();
    test_epoch();
    test_full_disk();
    test_refused();
    if (chdir("/tmp") == 0) {
        char line[100];
        snprintf(line, sizeof line, "rm -rf %s", folder);
        if (system(line) != 0)
            fprintf(stderr, "# %s stays\n", folder);
    }
    return done_testing();
}
