/* recompute.c: functions whose saved values are made again.
 *
 * While such a function runs, the calls in it leave nodes as ever, but each
 * value that they would save gets only a number in the function's rerun. When
 * a gradient asks for the first of them, the function runs again on the inputs
 * that the rerun kept, and what is saved then, in the same order, fills the
 * rerun; the graph of the second run is thrown away. So the gradient is that
 * of the first graph: parameters, hooks, tn_grad and higher derivatives need
 * nothing of their own, and a function within a function has its inputs among
 * the values that the outer one makes again. */
#include <base/context.h>
#include <base/lock.h>
#include <ops/engine/mistakes.h>
#include <string.h>
#include <tenon/random.h>
#include <tenon/recompute.h>

#include <autograd/node.h>

struct input {
    tn__held held;
    bool requires_grad;
};

struct tn__rerun {
    tn__object object;
    tn_recompute_fn run;
    void *context;
    void (*release)(void *context);
    bool preserve_rng;
    tn_rng_state rng;
    tn_dtype autocast;     /* as it was at the first run */
    int input_count, out_count;
    struct input *input;
    bool complete;         /* the first run is over */
    tn__lock lock;  /* guards what follows, after the first run */
    bool made;             /* the second run is over */
    uint32_t count;        /* values saved by the first run */
    size_t room;
    struct entry {
        tn__held held;     /* filled by the second run */
        bool wanted;       /* a node still holds the number */
        tn_dtype dtype;    /* of the first run's value, as the rest */
        const tn_device *device;
        tn__shape shape;
    } *entry;
};

/* What this thread is running: the innermost function of the kind. */
struct tn__run {
    tn__rerun *rerun;
    bool again;
    uint32_t next;         /* the second run: number of the next value */
    bool failed;           /*   memory ran out for one, */
    bool differs;          /*   or it is not what it was: the error tells */
};

/* ---- frames ------------------------------------------------------------- */

static void rerun_destroy(tn__object *object)
{
    tn__rerun *rerun = (tn__rerun *)object;
    for (int i = 0; i < rerun->input_count; i++)
        tn__held_release(&rerun->input[i].held);
    for (uint32_t i = 0; i < rerun->count; i++)
        tn__held_release(&rerun->entry[i].held);
    tn__free(rerun->input);
    tn__free(rerun->entry);
    tn__lock_destroy(&rerun->lock);
    if (rerun->release)
        rerun->release(rerun->context);
    tn__object_free(rerun, sizeof *rerun);
}

static const tn__class rerun_class = {.name = "recomputed call",
                                      .destroy = rerun_destroy};

static tn__rerun *rerun_new(tn_tensor *const *inputs, int count)
{
    tn__rerun *rerun = tn__calloc(1, sizeof *rerun);
    if (!rerun)
        return NULL;
    tn__object_init(&rerun->object, &rerun_class);
    tn__lock_init(&rerun->lock);
    rerun->input = tn__calloc((size_t)count + 1, sizeof *rerun->input);
    bool held = rerun->input != NULL;
    for (int i = 0; held && i < count; i++) {
        rerun->input[i].requires_grad = tn_tensor_requires_grad(inputs[i]);
        uint32_t version = atomic_load(&inputs[i]->storage->version);
        held = tn__held_set(&rerun->input[i].held, inputs[i], version);
        rerun->input_count = i + 1;
    }
    if (held)
        return rerun;
    tn__unref(rerun);
    return NULL;
}

/* ---- saving ------------------------------------------------------------- */

/* The first run: a number. */
static bool take_number(tn__rerun *rerun, tn__held *held, const tn_tensor *x)
{
    if (!tn__grow(&rerun->entry, &rerun->room, rerun->count,
                  sizeof *rerun->entry))
        return false;
    struct entry *entry = &rerun->entry[rerun->count];
    *entry = (struct entry){.wanted = true,
                            .dtype = x->dtype,
                            .device = x->storage->device,
                            .shape.ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++)
        entry->shape.dim[d] = x->shape[d];
    held->rerun = tn__ref(rerun);
    held->version = rerun->count++;
    return true;
}

/* Whoever computes the gradient reads memory by the first run's shape. */
static bool is_as_before(const struct entry *entry, const tn_tensor *x)
{
    return x->dtype == entry->dtype && x->storage->device == entry->device &&
           tn__shape_equal(x->ndim, x->shape, entry->shape.ndim,
                           entry->shape.dim);
}

/* The second run: the value of the next number. */
static bool give_value(struct tn__run *run, tn_tensor *x, uint32_t version)
{
    uint32_t number = run->next++;
    if (number >= run->rerun->count)
        return true;
    struct entry *entry = &run->rerun->entry[number];
    if (!is_as_before(entry, x)) {
        char now[TN__SHAPE_TEXT], then[TN__SHAPE_TEXT];
        run->differs = true;
        tn__fail(TN_ERR_STATE,
                 "recompute: value %u that the function saves is %s %s on %s "
                 "when it runs again, %s %s on %s the first time: it must do "
                 "the same each time",
                 number, tn__shape_text(now, x->ndim, x->shape),
                 tn_dtype_name(x->dtype), x->storage->device->name,
                 tn__shape_text(then, entry->shape.ndim, entry->shape.dim),
                 tn_dtype_name(entry->dtype), entry->device->name);
        return false;
    }
    if (!entry->wanted)
        return true;
    struct tn__run *outer = tn__me.recompute;
    tn__me.recompute = NULL; /* a value as any other */
    bool held = tn__held_set(&entry->held, x, version);
    tn__me.recompute = outer;
    run->failed |= !held;
    return held;
}

bool tn__rerun_saves(tn__held *held, tn_tensor *x, uint32_t version,
                     bool *keep)
{
    struct tn__run *run = tn__me.recompute;
    *keep = !run || run->again; /* the second run may walk its own graph */
    if (!run)
        return true;
    return run->again ? give_value(run, x, version)
                      : take_number(run->rerun, held, x);
}

void tn__rerun_forget(tn__rerun *rerun, uint32_t number)
{
    tn__held held = {NULL, NULL, 0};
    tn__lock_take(&rerun->lock);
    struct entry *entry = &rerun->entry[number];
    entry->wanted = false;
    held = entry->held;
    entry->held = (tn__held){NULL, NULL, 0};
    tn__lock_give(&rerun->lock);
    tn__held_release(&held);
}

/* ---- running again ------------------------------------------------------ */

/* The inputs as leaves of a graph of their own. */
static tn_tensor *open_input(const struct input *input)
{
    tn_tensor *value = tn__held_get(&input->held, "recompute");
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

/* Puts in front of the pending error that it arose in the second run. */
static void tell_again(tn_status status)
{
    if (tn__error_pending())
        tn__error_prefix("recompute: when the function ran again for the "
                         "gradient");
    else
        tn__fail(status, "recompute: the function failed when it ran again "
                         "for the gradient");
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
        struct tn__run run = {.rerun = rerun, .again = true}, *outer = tn__me.recompute;
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
        tn__autocast_forget(); /* it led to the graph that goes */
        if (run.differs) /* the error says it all */
            status = TN_ERR_STATE;
        else if (status < 0 || tn__error_pending())
            tell_again(status < 0 ? status : tn_error_code());
        else
            status = check_run(&run);
    }
    tn_scope_close(scope);
    tn__free(input);
    return tn__error_pending() ? tn_error_code() : status;
}

const tn__held *tn__rerun_value(tn__rerun *rerun, uint32_t number)
{
    if (!rerun->complete)
        return tn__fail_null(TN_ERR_STATE,
                             "recompute: a gradient was asked for inside the "
                             "function of what it has made itself");
    tn__lock_take(&rerun->lock);
    tn_status status = TN_OK;
    if (!rerun->made) {
        status = run_again(rerun);
        rerun->made = status >= 0;
    }
    const tn__held *held = &rerun->entry[number].held;
    tn__lock_give(&rerun->lock);
    return status < 0 ? NULL : held;
}

/* ---- the call ----------------------------------------------------------- */

/* fn in a scope of its own: only the outputs outlive it. */
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
        tn__fail(status, "recompute: the function failed");
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
                        "recompute: {count:}%d inputs and %d outputs: there "
                        "must be an output", count, out_count);
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
