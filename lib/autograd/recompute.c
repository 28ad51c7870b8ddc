/* recompute.c: tn_recompute, as torch.utils.checkpoint in PyTorch: runs a
 * function, and runs it again in backward instead of storing the values that
 * its gradient needs.
 *
 * A tn__rerun describes one call of tn_recompute. In the first run the
 * operators record nodes as usual, but each value that a node would save only
 * gets an index in the rerun. When a gradient first needs such a value, the
 * function runs again on the inputs stored in the rerun. The second run saves
 * its values in the same order, so they get the same indices and are stored in
 * the rerun. The graph of the second run is discarded. Backward walks only the
 * graph of the first run, so hooks, tn_grad and higher derivatives work as
 * usual. If the function itself calls tn_recompute, the inputs of the inner
 * call are such values too, which the second run of the outer function
 * recomputes. */
#include <base/context.h>

#include <autograd/rerun.h>

/* ---- reruns ------------------------------------------------------------- */

static void rerun_destroy(tn__object *object)
{
    tn__rerun *rerun = (tn__rerun *)object;
    for (int i = 0; i < rerun->input_count; i++)
        tn__saved_value_release(&rerun->input[i].saved);
    for (uint32_t i = 0; i < rerun->count; i++)
        tn__saved_value_release(&rerun->entry[i].saved);
    tn__free(rerun->input);
    tn__free(rerun->entry);
    tn__lock_destroy(&rerun->lock);
    if (rerun->release)
        rerun->release(rerun->context);
    tn__object_free(rerun, sizeof *rerun);
}

static const tn__class rerun_class = {.name = "recomputed call",
                                      .destroy = rerun_destroy};

static tn_status run_again(tn__rerun *rerun);

static tn__rerun *rerun_new(tn_tensor *const *inputs, int count)
{
    tn__rerun *rerun = tn__calloc(1, sizeof *rerun);
    if (!rerun)
        return NULL;
    tn__object_init(&rerun->object, &rerun_class);
    tn__lock_init(&rerun->lock);
    rerun->run_again = run_again;
    rerun->input = tn__calloc((size_t)count + 1, sizeof *rerun->input);
    bool saved = rerun->input != NULL;
    for (int i = 0; saved && i < count; i++) {
        rerun->input[i].requires_grad = tn_tensor_requires_grad(inputs[i]);
        uint32_t version = atomic_load(&inputs[i]->storage->version);
        saved = tn__saved_value_set(&rerun->input[i].saved, inputs[i], version);
        rerun->input_count = i + 1;
    }
    if (saved)
        return rerun;
    tn__unref(rerun);
    return NULL;
}

/* ---- running again ------------------------------------------------------ */

/* Returns a stored input as a new leaf, which starts the second run's graph. */
static tn_tensor *open_input(const struct tn__rerun_input *input)
{
    tn_tensor *value = tn__saved_value_get(&input->saved, "recompute");
    tn_tensor *x = value ? tn__tensor_alias(value) : NULL;
    if (!x || !tn__scope_own(x))
        return NULL;
    if (!input->requires_grad)
        return x;
    tn__node *leaf = tn__node_leaf();
    tn_status status = leaf ? tn__tensor_set_node(x, leaf, 0) : TN_ERR_MEMORY;
    tn__unref(leaf);
    return status < 0 ? NULL : x;
}

/* Adds to the pending error's message that it occurred in the second run. */
static void report_rerun(tn_status status)
{
    if (tn__error_pending())
        tn__error_prefix("recompute: when the function ran again for the "
                         "gradient");
    else
        tn__fail(status, "recompute: the function returned %s, without an "
                         "error message, when it ran again for the gradient: "
                         "both runs must do the same",
                 tn_status_name(status));
}

static tn_status check_run(const struct tn__run *run)
{
    const tn__rerun *rerun = run->rerun;
    if (run->failed)
        return TN_ERR_MEMORY;
    if (run->next == rerun->count)
        return TN_OK;
    return tn__fail(TN_ERR_STATE,
                    "recompute: the function saved %u values when it ran "
                    "again, %u the first time: it must do the same each time",
                    run->next, rerun->count);
}

static tn_status run_again(tn__rerun *rerun)
{
    tn_scope *scope = tn_scope_open();
    tn_tensor **input = tn__calloc((size_t)(rerun->input_count +
                                            rerun->out_count) + 1,
                                   sizeof *input);
    tn_status status = scope && input ? TN_OK : TN_ERR_MEMORY;
    for (int i = 0; i < rerun->input_count && status >= 0; i++) {
        input[i] = open_input(&rerun->input[i]);
        if (!input[i])
            status = tn_error_code();
    }
    if (status >= 0) {
        struct tn__run run = {.rerun = rerun, .again = true};
        struct tn__run *outer = tn__me.recompute;
        tn_rng_state rng = tn_rng_snapshot();
        bool mode = tn_grad_mode_set(true);
        tn_dtype autocast = tn__autocast_swap(rerun->autocast);
        if (rerun->preserve_rng)
            tn_rng_restore(rerun->rng);
        tn__me.recompute = &run;
        status = rerun->run(input, rerun->input_count,
                            input + rerun->input_count, rerun->out_count,
                            rerun->context);
        tn__me.recompute = outer;
        if (rerun->preserve_rng)
            tn_rng_restore(rng);
        tn_grad_mode_set(mode);
        tn__autocast_swap(autocast);
        tn__autocast_forget(); /* autocast's cache refers to the second run's
                                  graph, which is freed */
        if (run.differs) /* fill_value has recorded the error */
            status = TN_ERR_STATE;
        else if (status < 0 || tn__error_pending())
            report_rerun(status < 0 ? status : tn_error_code());
        else
            status = check_run(&run);
    }
    tn_scope_close(scope);
    tn__free(input);
    return tn__error_pending() ? tn_error_code() : status;
}

/* ---- the call ----------------------------------------------------------- */

/* Runs fn in its own scope. Only the outputs outlive that scope. */
static tn_status call(tn_recompute_fn fn, void *context,
                      tn_tensor *const *inputs, int count,
                      tn_tensor **outputs, int out_count)
{
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    for (int o = 0; o < out_count; o++)
        outputs[o] = NULL;
    tn_status status = fn(inputs, count, outputs, out_count, context);
    for (int o = 0; o < out_count && status >= 0; o++)
        if (!outputs[o])
            status = tn__error_pending()
                         ? tn_error_code()
                         : tn__fail(TN_ERR_ARGUMENT,
                                    "recompute: {fn:the function} left output "
                                    "%d NULL", o);
    for (int o = 0; o < out_count && status >= 0; o++)
        if (!tn__tensor_check(outputs[o], "recompute", "an output"))
            status = tn_error_code();
    if (status < 0 && !tn__error_pending())
        tn__fail(status, "recompute: the function failed without an error");
    if (status >= 0)
        tn__scope_results(scope, (void *const *)outputs, out_count);
    else
        tn_scope_close(scope);
    return status;
}

static tn_status check(tn_recompute_fn fn, tn_tensor *const *inputs, int count,
                       tn_tensor *const *outputs, int out_count)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!fn || (count && !inputs) || !outputs)
        return tn__fail(TN_ERR_ARGUMENT, "recompute: {%s} is NULL",
                        !fn ? "fn" : outputs ? "inputs" : "outputs");
    if (count < 0 || out_count < 1)
        return tn__fail(TN_ERR_ARGUMENT,
                        "recompute: {count:}%d inputs and %d outputs are "
                        "given; expected at least 0 and 1", count, out_count);
    for (int i = 0; i < count; i++) {
        char argument[32];
        snprintf(argument, sizeof argument, "inputs[%d]", i);
        if (!tn__tensor_check(inputs[i], "recompute", argument))
            return tn_error_code();
    }
    return TN_OK;
}

static tn_status run_first(tn__rerun *rerun, tn_tensor *const *inputs,
                           tn_tensor **outputs)
{
    struct tn__run run = {.rerun = rerun}, *outer = tn__me.recompute;
    tn__me.recompute = &run;
    tn_status status = call(rerun->run, rerun->context, inputs,
                            rerun->input_count, outputs, rerun->out_count);
    tn__me.recompute = outer;
    rerun->complete = true;
    return status;
}

TN_OPTIONS_TYPE(tn_recompute, "recompute",
                "fn, context, inputs, count, outputs, out_count",
                TN_RECOMPUTE_OPTIONS_LIST)

tn_status tn_recompute_with(tn_recompute_fn fn, void *context,
                            tn_tensor *const *inputs, int count,
                            tn_tensor **outputs, int out_count,
                            const tn_recompute_options *options)
{
    tn_recompute_options o;
    if (tn_options_take(tn_recompute_type(), &o, options) < 0)
        return TN_ERR_ARGUMENT;
    tn_status status = check(fn, inputs, count, outputs, out_count);
    tn__rerun *rerun = NULL;
    if (status >= 0 && tn_grad_mode()) {
        rerun = rerun_new(inputs, count);
        status = rerun ? TN_OK : tn_error_code();
    }
    if (rerun) {
        rerun->run = fn;
        rerun->context = context;
        rerun->release = o.release;
        rerun->preserve_rng = o.preserve_rng;
        rerun->rng = tn_rng_snapshot();
        rerun->autocast = tn__me.modes.autocast;
        rerun->out_count = out_count;
        status = run_first(rerun, inputs, outputs);
        tn__unref(rerun);
        return status;
    }
    if (status >= 0)
        status = call(fn, context, inputs, count, outputs, out_count);
    if (o.release)
        o.release(context);
    return status;
}
