/* train.c: the training loop.
 *
 * The losses of an epoch are added up on the device (a tn_metric_mean). They
 * are read only at checkpoints and at the end of the epoch, so a step does not
 * wait for the device. A checkpoint is written between optimizer steps, when
 * there are no accumulated gradients. It contains values[] below, which a
 * resumed run needs to continue with the same results. */
#include <train/train_batch.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autocast.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <tenon/train.h>
#include <unistd.h>

enum { FIRST_EPOCH, BEST, SINCE_BEST, LOSS_SUM, LOSS_COUNT, VALUES };

typedef struct run {
    tn_train_options o;
    tn_train_state s;
    tn_loader *loader;
    tn_parameter_list *parameters;
    tn_metric *mean;    /* losses since the last fold_losses */
    int64_t mean_count; /* number of samples in mean */
    double values[VALUES];
    const char *phase; /* "validation", or NULL in a training step */
    tn__train_bar bar;
    double start_s;    /* of the epoch */
} run;

static void call_back(tn_train_callback callback, run *r)
{
    if (callback && !tn_error())
        callback(&r->s, r->o.context);
}

/* ---- checkpoints --------------------------------------------------------- */

/* Moves the losses from the device to values[]. A resumed run starts with these
 * values and an empty mean. An uninterrupted run does so at each checkpoint,
 * too, and therefore gives bit-identical results. */
static void fold_losses(run *r)
{
    if (r->mean_count == 0)
        return;
    r->values[LOSS_SUM] += tn_metric_value(r->mean) * (double)r->mean_count;
    r->values[LOSS_COUNT] += (double)r->mean_count;
    r->mean_count = 0;
    tn_metric_reset(r->mean);
}

static tn_checkpoint parts(run *r)
{
    return (tn_checkpoint){.size = sizeof(tn_checkpoint),
                           .module = r->s.module,
                           .optim = r->s.optim,
                           .loader = r->loader,
                           .schedule = r->o.schedule,
                           .step = r->s.step,
                           .scaler = r->o.scaler,
                           .average = r->o.average,
                           .values = r->values,
                           .value_count = VALUES};
}

static void save(run *r)
{
    if (!r->o.last || tn_error())
        return;
    fold_losses(r);
    r->values[BEST] = r->s.best;
    r->values[SINCE_BEST] = (double)r->s.epochs_since_best;
    tn_checkpoint all = parts(r);
    tn_checkpoint_save(r->o.last, &all);
}

static void load(run *r)
{
    if (!r->o.resume || access(r->o.last, F_OK) != 0)
        return;
    r->phase = "resume";
    tn_checkpoint all = parts(r);
    tn_checkpoint_load(r->o.last, &all);
    r->s.step = all.step;
    r->s.best = r->values[BEST];
    r->s.epochs_since_best = (int64_t)r->values[SINCE_BEST];
}

/* ---- steps --------------------------------------------------------------- */

static void clip(run *r)
{
    bool norm = !tn_is_none_float(r->o.clip_norm),
         value = !tn_is_none_float(r->o.clip_value);
    if (!norm && !value)
        return;
    if (r->o.scaler)
        tn_grad_scaler_unscale(r->o.scaler, r->s.optim);
    if (norm && !tn_error())
        tn_clip_grad_norm(r->parameters, r->o.clip_norm);
    if (value && !tn_error())
        tn_clip_grad_value(r->parameters, r->o.clip_value);
}

static void optimize(run *r)
{
    clip(r);
    if (r->o.scaler) {
        if (!tn_error() && tn_grad_scaler_step(r->o.scaler, r->s.optim) >= 0)
            tn_grad_scaler_update(r->o.scaler);
    } else {
        tn_optim_step(r->s.optim);
    }
    if (tn_error())
        return;
    r->s.step++;
    if (r->o.average)
        tn_average_update(r->o.average);
    if (r->o.schedule_per_step && !tn_error())
        tn_schedule_step(r->o.schedule);
}

/* Returns the number of batches in the optimizer step to which the batch
 * belongs. The last step of an epoch may have fewer. */
static int64_t group_size(const run *r, const tn_batch *batch)
{
    int64_t first = batch->index - batch->index % r->o.accumulate;
    int64_t rest = tn_loader_count(r->loader) - first;
    return rest < r->o.accumulate ? rest : r->o.accumulate;
}

static void train_batch(run *r, const tn_batch *batch)
{
    int64_t group = group_size(r, batch), at = batch->index % r->o.accumulate;
    tn_tensor *out, *loss;
    r->s.batch = batch;
    call_back(r->o.on_step_begin, r);
    if (at == 0)
        tn_optim_zero_grad(r->s.optim);
    TN_AUTOCAST(tn__train_cast(r->o.autocast))
    {
        out = tn__train_output(r->s.module, batch, r->o.forward, r->o.context);
        loss = tn__train_loss(out, batch, r->o.loss, r->o.context);
    }
    if (!loss || tn_error())
        return;
    tn__train_add_loss(r->mean, loss, batch);
    r->mean_count += batch->count;
    if (!r->o.validation) {
        TN_NO_GRAD
        {
            tn__train_update(r->o.metrics, out, batch);
        }
    }
    tn_tensor *scaled = group > 1 ? tn_div_scalar(loss, (double)group) : loss;
    if (r->o.scaler)
        scaled = tn_grad_scaler_scale(r->o.scaler, scaled);
    if (tn_backward(scaled) == TN_OK && at == group - 1)
        optimize(r);
    r->s.batch_loss = loss;
    call_back(r->o.on_step_end, r);
    if (!tn_error())
        tn__train_bar_step(&r->bar, r->s.batch_loss);
    r->s.batch_loss = NULL;
}

/* Returns whether a checkpoint may follow this batch: a step ends with it, and
 * the epoch does not. The end of an epoch has a checkpoint of its own. */
static bool between_steps(const run *r, const tn_batch *batch)
{
    return batch->index % r->o.accumulate == r->o.accumulate - 1 &&
           batch->index + 1 < tn_loader_count(r->loader);
}

/* Runs the steps of an epoch. Returns false if it was left before its end. */
static bool train_steps(run *r)
{
    bool whole = true;
    TN_EACH_BATCH(batch, r->loader) {
        train_batch(r, &batch);
        r->s.batch = NULL;
        bool between = !tn_error() && between_steps(r, &batch);
        whole = !between || !r->s.stop;
        if (between && (r->s.stop || (r->o.checkpoint_every != TN_NONE_INT &&
                                      r->s.step % r->o.checkpoint_every == 0)))
            save(r);
        if (!whole)
            break;
    }
    r->s.batch = NULL;
    return whole && !tn_error();
}

/* ---- epochs -------------------------------------------------------------- */

/* Writes "epoch 3/10 validation". */
static void put_label(const run *r, char *out, size_t room, const char *part)
{
    snprintf(out, room, "epoch %" PRId64 "/%" PRId64 "%s", r->s.epoch + 1,
             r->s.epochs, part);
}

/* Its bar is drawn over that of the epoch, whose last line replaces both. */
static void validate(run *r)
{
    if (!r->o.validation || tn_error())
        return;
    tn_evaluate_options o = TN_EVALUATE_OPTIONS;
    o.forward = r->o.forward;
    o.loss = r->o.loss;
    o.context = r->o.context;
    o.metrics = r->o.metrics;
    o.autocast = r->o.autocast;
    tn__train_bar bar;
    char label[64];
    put_label(r, label, sizeof label, " validation");
    tn__train_bar_begin(&bar, r->o.progress, r->o.validation, label);
    r->s.validation_loss =
        tn__train_evaluate(r->s.module, r->o.validation, &o, &bar);
}

/* Compares the monitored value with the best one. If it is better, saves the
 * weights. */
static void judge(run *r)
{
    r->s.monitored = r->o.monitor      ? tn_metric_value(r->o.monitor)
                     : r->o.validation ? r->s.validation_loss
                                       : r->s.loss;
    if (tn_error())
        return;
    double gain =
        r->o.maximize ? r->s.monitored - r->s.best : r->s.best - r->s.monitored;
    bool better =
        isnan(r->s.best) ? !isnan(r->s.monitored) : gain > r->o.min_delta;
    r->s.epochs_since_best = better ? 0 : r->s.epochs_since_best + 1;
    if (better)
        r->s.best = r->s.monitored;
    if (better && r->o.best)
        tn_module_save(r->s.module, r->o.best);
}

/* Writes "  name 0.1234" to the log. */
static void log_number(const run *r, const char *name, double number)
{
    char text[40];
    tn_format(text, sizeof text, "%.4f", number);
    fprintf(r->o.log, "  %s %s", name, text);
}

static void write_log(run *r)
{
    if (!r->o.log || tn_error())
        return;
    if (r->bar.shown) /* clear the progress bar's line before writing */
        fputs("\r\033[K", stderr);
    fprintf(r->o.log, "epoch %*" PRId64 "/%" PRId64, r->s.epochs > 9 ? 2 : 1,
            r->s.epoch + 1, r->s.epochs);
    log_number(r, "loss", r->s.loss);
    if (r->o.validation)
        log_number(r, "validation", r->s.validation_loss);
    for (int i = 0; r->o.metrics && r->o.metrics[i] && !tn_error(); i++)
        if (strcmp(tn_metric_name(r->o.metrics[i]), "confusion") != 0)
            log_number(r, tn_metric_name(r->o.metrics[i]),
                       tn_metric_value(r->o.metrics[i]));
    char seconds[40];
    tn_format(seconds, sizeof seconds, "%.1f", tn__train_now_s() - r->start_s);
    fprintf(r->o.log, "  (%s s)\n", seconds);
    fflush(r->o.log);
}

static void end_epoch(run *r)
{
    r->phase = r->o.validation ? "validation" : "end";
    fold_losses(r);
    r->s.loss = r->values[LOSS_SUM] / r->values[LOSS_COUNT];
    r->values[LOSS_SUM] = r->values[LOSS_COUNT] = 0;
    bool swapped =
        r->o.average && !tn_error() && tn_average_swap(r->o.average) == TN_OK;
    validate(r);
    if (!tn_error())
        judge(r);
    if (swapped && !tn_error())
        tn_average_swap(r->o.average);
    if (!tn_error())
        r->phase = "end";
    if (r->o.schedule && !r->o.schedule_per_step && !tn_error()) {
        if (tn_schedule_metric_mode(r->o.schedule))
            tn_schedule_step_metric(r->o.schedule, r->s.monitored);
        else
            tn_schedule_step(r->o.schedule);
    }
    call_back(r->o.on_epoch_end, r);
    write_log(r);
    save(r);
}

static void run_epoch(run *r)
{
    r->phase = NULL;
    char label[64];
    put_label(r, label, sizeof label, "");
    r->start_s = tn__train_now_s();
    tn__train_bar_begin(&r->bar, r->o.progress, r->loader, label);
    if (!r->o.validation)
        tn__train_reset(r->o.metrics);
    tn_module_train(r->s.module, true);
    call_back(r->o.on_epoch_begin, r);
    bool whole = train_steps(r);
    if (whole)
        end_epoch(r);
    if (r->bar.shown && (!r->o.log || !whole)) {
        tn_format(r->bar.note, sizeof r->bar.note, "loss %.4g", r->s.loss);
        tn_progress_end(&r->bar.bar, r->bar.note);
    }
}

static bool goes_on(const run *r)
{
    return !tn_error() && !r->s.stop && r->s.epoch < r->s.epochs &&
           (r->o.patience == TN_NONE_INT ||
            r->s.epochs_since_best < r->o.patience);
}

static int64_t epoch_of(const run *r)
{
    return (int64_t)tn_loader_snapshot(r->loader).epoch -
           (int64_t)r->values[FIRST_EPOCH];
}

static void run_all(run *r)
{
    r->mean = tn_metric_mean();
    r->parameters = tn_parameters(r->s.module);
    r->values[FIRST_EPOCH] = (double)tn_loader_snapshot(r->loader).epoch;
    load(r);
    for (r->s.epoch = epoch_of(r); goes_on(r); r->s.epoch = epoch_of(r)) {
        tn_scope *scope = tn_scope_open();
        run_epoch(r);
        tn_scope_close(scope);
        if (tn_error())
            return;
    }
}

/* ---- the call ------------------------------------------------------------ */

static tn_status refuse(const char *argument, const char *why)
{
    return tn_error_refuse_argument(TN_ERR_ARGUMENT, "train", argument, "%s",
                                    why);
}

static tn_status check_at_least(const char *argument, double value,
                                double least)
{
    return value >= least
               ? TN_OK
               : tn_error_refuse_argument(
                     TN_ERR_ARGUMENT, "train", argument,
                     "%s is %.15g; expected at least %g", argument, value,
                     least);
}

static tn_status check_values(const tn_train_options *o, tn_loader *loader)
{
    bool listed = !o->monitor;
    for (int i = 0; o->metrics && o->metrics[i]; i++)
        listed = listed || o->metrics[i] == o->monitor;
    return !o->loss ? refuse("loss", "loss is NULL: give a function that "
                                     "returns one number")
           : o->epochs < 1 ? check_at_least("epochs", (double)o->epochs, 1)
           : o->accumulate < 1
               ? check_at_least("accumulate", (double)o->accumulate, 1)
           : o->patience != TN_NONE_INT && o->patience < 1
               ? check_at_least("patience", (double)o->patience, 1)
           : o->checkpoint_every != TN_NONE_INT && o->checkpoint_every < 1
               ? check_at_least("checkpoint_every", (double)o->checkpoint_every,
                                1)
           : !(o->min_delta >= 0) ? check_at_least("min_delta", o->min_delta, 0)
           : !listed ? refuse("monitor", "monitor is not an element of metrics")
           : o->validation == loader
               ? refuse("validation",
                        "validation is the training loader: make another one "
                        "with tn_loader_new()")
               : TN_OK;
}

/* Checks a schedule that watches a metric. It can step only once per epoch, and
 * its mode must agree with `maximize` on which values are better. */
static tn_status check_schedule(const tn_train_options *o)
{
    const char *mode = tn_schedule_metric_mode(o->schedule);
    if (!mode)
        return TN_OK;
    return o->schedule_per_step
               ? refuse(
                     "schedule_per_step",
                     "the schedule watches a metric, which is computed after "
                     "an epoch: leave schedule_per_step out")
           : (strcmp(mode, "max") == 0) != o->maximize
               ? refuse("schedule",
                        o->maximize ? "the schedule's mode is \"min\", but "
                                      "maximize is true: make it with mode "
                                      "\"max\""
                                    : "the schedule's mode is \"max\", but "
                                      "maximize is false: give maximize, or "
                                      "make it with mode \"min\"")
               : TN_OK;
}

static bool is_kind_or_null(const void *object, const char *kind,
                            const char *argument)
{
    return !object || tn_object_check_kind(object, kind, "train", argument);
}

TN_OPTIONS_TYPE(tn_train, "train", "module, optim, loader",
                TN_TRAIN_OPTIONS_LIST)

static tn_status take_options(tn_train_options *o, tn_loader *loader,
                              const tn_train_options *options)
{
    if (tn_options_take(tn_train_type(), o, options) < 0)
        return tn_error_code();
    const tn_option_need need[] = {
        {"maximize", o->monitor, "without monitor", "give monitor"},
        {"min_delta", o->patience != TN_NONE_INT || o->best,
         "without patience or best", "give patience"},
        {"checkpoint_every", o->last, "without last", "give last"},
        {"resume", o->last, "without last", "give last"},
        {"schedule_per_step", o->schedule, "without schedule",
         "give schedule"}};
    if (tn_options_check_needs(tn_train_type(), o, need, 5) < 0 ||
        check_values(o, loader) < 0 ||
        !is_kind_or_null(o->validation, "loader", "validation") ||
        !is_kind_or_null(o->monitor, "metric", "monitor") ||
        !is_kind_or_null(o->scaler, "gradient scaler", "scaler") ||
        !is_kind_or_null(o->schedule, "schedule", "schedule") ||
        !is_kind_or_null(o->average, "average", "average") ||
        check_schedule(o) < 0)
        return tn_error_code();
    return TN_OK;
}

/* Prefixes the message of the pending error with the epoch and step. */
static void name_place(const run *r)
{
    if (r->phase)
        tn_error_prefix("train: epoch %" PRId64 ", %s", r->s.epoch + 1,
                        r->phase);
    else
        tn_error_prefix("train: epoch %" PRId64 ", step %" PRId64,
                        r->s.epoch + 1, r->s.step + 1);
}

tn_status tn_train_with(tn_module *module, tn_optim *optim, tn_loader *loader,
                        const tn_train_options *options)
{
    if (tn_error())
        return TN_ERR_STATE;
    run r = {.s = {.size = sizeof r.s,
                   .module = module,
                   .optim = optim,
                   .loss = NAN,
                   .validation_loss = NAN,
                   .monitored = NAN,
                   .best = NAN}};
    if (!tn_object_check_kind(module, "module", "train", "module") ||
        !tn_object_check_kind(optim, "optimizer", "train", "optim") ||
        !tn_object_check_kind(loader, "loader", "train", "loader") ||
        take_options(&r.o, loader, options) < 0)
        return tn_error_code();
    r.loader = loader;
    r.s.epochs = r.o.epochs;
    bool training = module->training;
    tn_scope *scope = tn_scope_open();
    run_all(&r);
    tn_module_train(module, training);
    if (tn_error())
        name_place(&r);
    tn_scope_close(scope);
    return tn_error_code();
}
