/* evaluate.c: the loss and metrics of a model over a loader's batches, and the
 * code that a step of training and a step of evaluation share. */
#include <train/train_batch.h>

#include <math.h>
#include <stdlib.h>
#include <tenon/autocast.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>
#include <time.h>
#include <unistd.h>

/* ---- the progress bar ---------------------------------------------------- */

double tn__train_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void tn__train_bar_begin(tn__train_bar *bar, bool wanted, tn_loader *loader,
                         const char *label)
{
    bar->shown = wanted && isatty(STDERR_FILENO) == 1;
    bar->note[0] = '\0';
    bar->read_s = tn__train_now_s();
    if (bar->shown)
        tn_progress_begin(&bar->bar, stderr, tn_loader_count(loader), label);
}

void tn__train_bar_step(tn__train_bar *bar, tn_tensor *loss)
{
    static const double interval_s = 0.1;
    if (!bar->shown)
        return;
    const double now = tn__train_now_s();
    if (loss && now - bar->read_s >= interval_s) {
        bar->read_s = now;
        tn_format(bar->note, sizeof bar->note, "loss %.4g", tn_item(loss));
    }
    tn_progress_step(&bar->bar, bar->note);
}

/* ---- one batch ----------------------------------------------------------- */

tn_tensor *tn__train_output(tn_module *module, const tn_batch *batch,
                            tn_train_forward forward, void *context)
{
    return forward ? forward(module, batch, context)
                   : tn_forward(module, batch->x);
}

tn_tensor *tn__train_loss(tn_tensor *out, const tn_batch *batch,
                          tn_train_loss loss, void *context)
{
    tn_tensor *x = out ? loss(out, batch, context) : NULL;
    if (x && tn_tensor_numel(x) != 1) {
        tn_error_set(TN_ERR_SHAPE,
                     "the loss has %lld elements: return one number, with "
                     "tn_mean() or a reduction",
                     (long long)tn_tensor_numel(x));
        return NULL;
    }
    if (!x)
        tn_error_set(TN_ERR_ARGUMENT, "%s returned NULL without an error",
                     out ? "loss" : "forward");
    return x;
}

/* Adds a batch's loss, weighted by its number of samples. */
void tn__train_add_loss(tn_metric *mean, tn_tensor *loss, const tn_batch *batch)
{
    tn_tensor *one = tn_reshape(tn_detach(loss), TN_SCALAR);
    tn_metric_update(mean, one, tn_full_like(one, (double)batch->count));
}

void tn__train_update(tn_metric *const *metrics, tn_tensor *out,
                      const tn_batch *batch)
{
    for (int i = 0; metrics && metrics[i] && !tn_error(); i++)
        tn_metric_update(metrics[i], out, batch->y);
}

void tn__train_reset(tn_metric *const *metrics)
{
    for (int i = 0; metrics && metrics[i] && !tn_error(); i++)
        tn_metric_reset(metrics[i]);
}

tn_dtype tn__train_cast(tn_dtype wanted)
{
    return wanted ? wanted : tn_autocast_dtype();
}

/* ---- evaluation ---------------------------------------------------------- */

/* The training modes of a module and of all modules below it, in the order of
 * tn_module_walk. A layer that the caller has set to eval mode stays in it. */
typedef struct modes {
    bool *training; /* owned */
    size_t count, at;
} modes;

static void count_module(tn_module *module, const char *path, void *context)
{
    (void)module, (void)path;
    ((modes *)context)->count++;
}

static void save_mode(tn_module *module, const char *path, void *context)
{
    (void)path;
    modes *m = context;
    m->training[m->at++] = module->training;
}

static void restore_mode(tn_module *module, const char *path, void *context)
{
    (void)path;
    modes *m = context;
    module->training = m->training[m->at++];
}

/* Sets all modules to eval mode. Returns false with TN_ERR_MEMORY if memory runs
 * out; nothing is changed then. */
static bool begin_eval(tn_module *module, modes *m)
{
    *m = (modes){0};
    tn_module_walk(module, count_module, m);
    m->training = malloc(m->count * sizeof *m->training);
    if (!m->training) {
        tn_error_refuse_argument(TN_ERR_MEMORY, "evaluate", NULL,
                                 "out of memory for %zu modules",
                                 m->count);
        return false;
    }
    tn_module_walk(module, save_mode, m);
    tn_module_train(module, false);
    return true;
}

static void end_eval(tn_module *module, modes *m)
{
    m->at = 0;
    tn_module_walk(module, restore_mode, m);
    free(m->training);
}

double tn__train_evaluate(tn_module *module, tn_loader *loader,
                          const tn_evaluate_options *o, tn__train_bar *bar)
{
    modes before;
    if (!begin_eval(module, &before))
        return NAN;
    tn_scope *scope = tn_scope_open();
    tn_metric *mean = tn_metric_mean();
    tn__train_reset(o->metrics);
    TN_NO_GRAD
    {
        TN_EACH_BATCH(batch, loader) {
            tn_tensor *out = NULL, *loss = NULL;
            TN_AUTOCAST(tn__train_cast(o->autocast))
            {
                out = tn__train_output(module, &batch, o->forward, o->context);
                if (o->loss)
                    loss = tn__train_loss(out, &batch, o->loss, o->context);
            }
            if (loss)
                tn__train_add_loss(mean, loss, &batch);
            tn__train_update(o->metrics, out, &batch);
            if (bar && !tn_error())
                tn__train_bar_step(bar, loss);
        }
    }
    end_eval(module, &before);
    double value = o->loss ? tn_metric_value(mean) : 0;
    tn_scope_close(scope);
    return tn_error() ? NAN : value;
}

TN_OPTIONS_TYPE(tn_evaluate, "evaluate", "module, loader",
                TN_EVALUATE_OPTIONS_LIST)

double tn_evaluate_with(tn_module *module, tn_loader *loader,
                        const tn_evaluate_options *options)
{
    tn_evaluate_options o;
    if (tn_error() ||
        !tn_object_check_kind(module, "module", "evaluate", "module") ||
        !tn_object_check_kind(loader, "loader", "evaluate", "loader") ||
        tn_options_take(tn_evaluate_type(), &o, options) < 0)
        return NAN;
    if (!o.loss && !(o.metrics && o.metrics[0])) {
        tn_error_refuse_argument(TN_ERR_ARGUMENT, "evaluate", "loss",
                                 "nothing to compute: give loss or metrics");
        return NAN;
    }
    tn__train_bar bar;
    tn__train_bar_begin(&bar, o.progress, loader, "evaluation");
    double value = tn__train_evaluate(module, loader, &o, &bar);
    if (!o.loss && !tn_error())
        value = tn_metric_value(o.metrics[0]);
    if (bar.shown) {
        tn_format(bar.note, sizeof bar.note, "%s %.4g",
                  o.loss ? "loss" : tn_metric_name(o.metrics[0]), value);
        tn_progress_end(&bar.bar, tn_error() ? NULL : bar.note);
    }
    return value;
}
