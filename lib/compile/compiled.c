/* compiled.c: <tenon/compile.h>: captures a function, finds the program for a
 * call's inputs, and replays it. */
#include <compile/check.h>
#include <compile/program.h>
#include <compile/instance.h>

#include <base/context.h>
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <base/object.h>
#include <base/options.h>
#include <base/platform.h>
#include <tenon/autograd.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Calls with other work than the call before, until the function counts as one
 * that cannot be compiled. */
enum { MAX_ATTEMPTS = 4 };
/* Numbers that the key of a plan has at most: see make_key. */
enum { MAX_KEY = 8 + TN_COMPILE_MAX_INPUTS * (4 + 2 * TN_MAX_NDIM) };

/* A program for one combination of inputs and modes. */
typedef struct plan {
    struct plan *next;
    int64_t *key; /* owned */
    size_t key_count;
    /* The last capture before that of the program. Its memory is released. A
     * later capture is compared with it. */
    tn__capture *reference;
    tn__replayed *program; /* owned; NULL until two captures were equal */
    tn__instances instances; /* of the program of a frozen function */
    /* Whether uses of input i are known to be of the input, because two captures
     * with other memory in its place were equal. Else the function may have
     * reached the same memory through its context, and a call with other memory
     * is captured once more. */
    bool moved[TN_COMPILE_MAX_INPUTS];
    const tn__storage *seen[TN_COMPILE_MAX_INPUTS]; /* of the last capture; only
                                                     * compared */
    int attempts;
    int64_t used; /* the number of the last call that used the plan */
} plan;

struct tn_compiled {
    tn__object object;
    tn_compile_fn fn;
    void *context;
    void *kept; /* an object, one reference; or NULL */
    char *name; /* owned */
    int64_t plan_limit, check_every;
    double memory;
    uint64_t donate;
    bool fuse, freeze, off;
    plan *plans; /* list, owned */
    plan *last;  /* the plan that ran last; NULL if it was freed */
    /* Whether a thread runs the function alone. Replays of a frozen function
     * may run at the same time: `replays` is how many do. The lock guards both,
     * and in frozen functions also the rest while `running` is false. */
    _Atomic bool running;
    int64_t replays;
    tn__lock lock;
    pthread_cond_t idle; /* running or replays has changed */
    tn_compiled_counts counts;
};

static void plan_free(plan *p)
{
    tn__instances_release(&p->instances);
    tn__capture_free(p->reference);
    tn__replayed_free(p->program);
    tn__free(p->key);
    tn__free(p);
}

static void free_plans(tn_compiled *c)
{
    for (plan *p = c->plans, *next; p; p = next) {
        next = p->next;
        plan_free(p);
    }
    c->plans = c->last = NULL;
}

static void destroy(tn__object *object)
{
    tn_compiled *c = (tn_compiled *)object;
    free_plans(c);
    tn_drop(c->kept);
    tn__free(c->name);
    tn__lock_destroy(&c->lock);
    pthread_cond_destroy(&c->idle);
    tn__object_free(c, sizeof *c);
}

static const tn__class compiled_class = {.name = "compiled function",
                                         .destroy = destroy};

/* ---- making ------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_compile, "compile", "fn, context", TN_COMPILE_OPTIONS_LIST)

/* Reads TENON_COMPILE. */
static tn_status read_mode(tn_compiled *c)
{
    const char *mode = tn__env("TENON_COMPILE");
    if (!mode || !*mode || strcmp(mode, "on") == 0)
        return TN_OK;
    if (strcmp(mode, "check") == 0)
        c->check_every = 1;
    else if (strcmp(mode, "off") == 0)
        c->off = true;
    else
        return tn__fail(TN_ERR_ARGUMENT, "compile: TENON_COMPILE is \"%s\"; "
                        "expected on, off or check", mode);
    return TN_OK;
}

static tn_status check_options(tn_compile_fn fn, const tn_compile_options *o)
{
    if (!fn)
        return tn__fail(TN_ERR_ARGUMENT, "compile: {fn} is NULL");
    if (o->plans < 1)
        return tn__fail(TN_ERR_ARGUMENT, "compile: {plans} is %" PRId64
                        "; expected at least 1", o->plans);
    if (o->check_every < 0)
        return tn__fail(TN_ERR_ARGUMENT, "compile: {check_every} is %" PRId64
                        "; expected at least 0", o->check_every);
    if (!(o->memory >= 0 && o->memory < (double)INT64_MAX))
        return tn__fail(TN_ERR_ARGUMENT, "compile: {memory} is %g; expected a "
                        "part of what the function needs, below 1, or a number "
                        "of bytes", o->memory);
    return TN_OK;
}

tn_compiled *tn_compile_with(tn_compile_fn fn, void *context,
                             const tn_compile_options *options)
{
    tn_compile_options o;
    if (tn__error_pending() ||
        tn_options_take(tn_compile_type(), &o, options) < 0 ||
        check_options(fn, &o) < 0)
        return NULL;
    tn_compiled *c = tn__calloc(1, sizeof *c);
    if (!c)
        return NULL;
    tn__object_init(&c->object, &compiled_class);
    tn__lock_init(&c->lock);
    pthread_cond_init(&c->idle, NULL);
    c->fn = fn;
    c->context = context;
    c->plan_limit = o.plans;
    c->check_every = o.check_every;
    c->fuse = o.fuse;
    c->freeze = o.freeze;
    c->memory = o.memory;
    c->donate = o.donate;
    c->name = tn__strdup(o.name ? o.name : "compiled function");
    c->kept = o.keep ? tn_keep(o.keep) : NULL;
    if (!c->name || (o.keep && !c->kept) || read_mode(c) < 0) {
        tn__unref(c);
        return NULL;
    }
    return tn__scope_own(c);
}

/* ---- guards -------------------------------------------------------------- */

/* Writes what a program depends on to key: the modes, the device, and dtype,
 * shape, strides and shared memory of the inputs. Returns how many numbers it
 * wrote. */
static size_t make_key(const tn_device *device, tn_tensor *const *in,
                       int in_count, int out_count, int64_t *key)
{
    size_t n = 0;
    key[n++] = device->id;
    key[n++] = in_count;
    key[n++] = out_count;
    key[n++] = tn__me.modes.not_recording;
    key[n++] = tn__me.modes.autocast;
    key[n++] = tn__me.modes.dtype;
    key[n++] = tn__me.modes.relaxed;
    for (int i = 0; i < in_count; i++) {
        const tn_tensor *x = in[i];
        key[n++] = x->dtype | x->ndim << 8;
        for (int d = 0; d < x->ndim; d++) {
            key[n++] = x->shape[d];
            key[n++] = x->stride[d];
        }
        /* Inputs of one storage: the first of them, and the distance. */
        int same = 0;
        while (in[same]->storage != x->storage)
            same++;
        key[n++] = same;
        if (same < i)
            key[n++] =
                x->offset * (int64_t)tn_dtype_bytes(x->dtype) -
                in[same]->offset * (int64_t)tn_dtype_bytes(in[same]->dtype);
    }
    return n;
}

/* Returns the recording that decides whether a plan is for the present state of the
 * optimizers that it steps; NULL if there is none yet. */
static const tn__record *record_of(const plan *p)
{
    return p->program     ? p->program->capture->record
           : p->reference ? p->reference->record
                          : NULL;
}

/* Finds the plan of a key whose recording is current. A step that trains other
 * parameters has a plan of its own. */
static plan *find_plan(const tn_compiled *c, const int64_t *key, size_t count)
{
    for (plan *p = c->plans; p; p = p->next) {
        const tn__record *record = record_of(p);
        if (p->key_count == count &&
            memcmp(p->key, key, count * sizeof *key) == 0 &&
            (!record || tn__record_is_current(record)))
            return p;
    }
    return NULL;
}

/* Frees the plans whose recording can never be current again. */
static void free_old_plans(tn_compiled *c)
{
    for (plan **at = &c->plans; *at;) {
        plan *p = *at;
        const tn__record *record = record_of(p);
        if (record && tn__record_is_over(record)) {
            *at = p->next;
            c->last = c->last == p ? NULL : c->last;
            plan_free(p);
            if (tn__log_enabled(2))
                tn__log(2, "%s: an optimizer has got other groups or another "
                        "state: it is captured again", c->name);
        } else {
            at = &p->next;
        }
    }
}

/* Says in the log which guard made a new capture necessary. */
static void log_miss(const tn_compiled *c, const int64_t *key)
{
    static const char *const guard[] = {
        "another device", "another number of inputs",
        "another number of outputs", "the mode no_grad", "autocast",
        "the default dtype", "relaxed mode"};
    const plan *p = c->last;
    if (!tn__log_enabled(2) || !p)
        return;
    size_t at = 0;
    while (at < p->key_count && p->key[at] == key[at])
        at++;
    tn__log(2, "%s: no program fits, since the last one is for %s: it is "
            "captured again", c->name,
            at < sizeof guard / sizeof *guard ? guard[at]
            : at == p->key_count && record_of(p) &&
                    !tn__record_is_current(record_of(p))
                ? "other trained parameters (tn_tensor_set_requires_grad)"
                : "other dtypes, shapes or strides of its inputs");
}

static void evict(tn_compiled *c)
{
    plan **oldest = NULL;
    int64_t count = 0;
    for (plan **p = &c->plans; *p; p = &(*p)->next, count++)
        if (!oldest || (*p)->used < (*oldest)->used)
            oldest = p;
    if (count < c->plan_limit || !oldest)
        return;
    plan *gone = *oldest;
    *oldest = gone->next;
    if (c->last == gone)
        c->last = NULL;
    plan_free(gone);
    c->counts.evictions++;
    if (tn__log_enabled(2))
        tn__log(2, "%s: a program is freed, to make room for one of %" PRId64,
                c->name, c->plan_limit);
}

static plan *add_plan(tn_compiled *c, const int64_t *key, size_t count)
{
    log_miss(c, key);
    free_old_plans(c);
    evict(c);
    plan *p = tn__calloc(1, sizeof *p);
    int64_t *own = p ? tn__alloc(count * sizeof *own) : NULL;
    if (!own) {
        tn__free(p);
        return NULL;
    }
    memcpy(own, key, count * sizeof *own);
    p->key = own;
    p->key_count = count;
    p->next = c->plans;
    return c->plans = p;
}

/* Returns whether the program can be replayed with these inputs, or has to be
 * captured once more because of an input's memory. */
static bool inputs_are_known(const plan *p, tn_tensor *const *in, int in_count)
{
    for (int i = 0; i < in_count; i++)
        if (!p->moved[i] && p->seen[i] != in[i]->storage)
            return false;
    return true;
}

/* Returns whether all tensors that the program uses besides its inputs still
 * exist: those that the function made and kept, and those of its context. If
 * one does not, as after tn_optim_zero_grad or tn_module_to, a replay would use
 * memory that the function does not use any more. `saved` counts the references
 * of recordings. Tables are constants, which only recordings may have. Also
 * returns false if a frozen value was changed. */
static bool fixed_values_exist(const plan *p)
{
    const tn__capture *capture = p->program->capture;
    for (size_t v = 0; v < capture->value_count; v++) {
        const tn__captured_value *value = &capture->value[v];
        if (tn__value_is_fixed(value->kind) && !value->table &&
            atomic_load(&value->storage->references) <=
                atomic_load(&value->storage->saved))
            return false;
        if (value->frozen &&
            atomic_load(&value->storage->version) != value->version)
            return false;
    }
    return true;
}

/* Checks that no input is memory that the program also reaches through the
 * function's context, if one of the two is written. */
static tn_status check_aliases(const tn_compiled *c, const plan *p,
                               tn_tensor *const *in, int in_count)
{
    const tn__capture *capture = p->program->capture;
    for (int i = 0; i < in_count; i++)
        for (int k = 0; k < in_count && in[i]->storage->wrapped; k++)
            if (in[i]->storage != in[k]->storage &&
                tn__storages_overlap(in[i]->storage, in[k]->storage))
                return tn__fail(TN_ERR_STATE, "compiled_run: {in}[%d] and in[%d] "
                                "wrap the same memory (tn_tensor_wrap): make one "
                                "of them a view of the other, or copy it "
                                "(tn_clone)", i, k);
    for (size_t v = 0; v < capture->value_count; v++) {
        const tn__captured_value *value = &capture->value[v];
        if (!tn__value_is_fixed(value->kind))
            continue;
        for (int i = 0; i < in_count; i++) {
            if (!tn__storages_overlap(in[i]->storage, value->storage))
                continue;
            bool written = value->written;
            for (size_t w = 0; w < p->program->written_count; w++) {
                const tn__captured_value *of =
                    &capture->value[p->program->written[w]];
                written |= of->kind == TN__VALUE_INPUT &&
                           tn__storages_overlap(in[of->index]->storage,
                                                value->storage);
            }
            if (written)
                return tn__fail(TN_ERR_STATE,
                                "compiled_run: {in}[%d] is memory that %s also "
                                "uses through its context and writes: pass a "
                                "copy (tn_clone)", i, c->name);
        }
    }
    return TN_OK;
}

/* ---- capture and replay -------------------------------------------------- */

/* Handles a capture that is not equal to the last one. Takes over the
 * capture. */
static tn_status differs(const tn_compiled *c, plan *p, tn__capture *capture,
                         int difference, char *text)
{
    tn_status status = TN_OK;
    if (difference == TN__NUMBERS_DIFFER)
        status = tn__fail(TN_ERR_STATE, "%s: %s: a replay would repeat the old "
                          "number: pass tn_late_number(&x), which each replay "
                          "reads again", c->name, text ? text : "");
    else if (++p->attempts >= MAX_ATTEMPTS)
        status = tn__fail(TN_ERR_STATE, "%s: %d calls with equal inputs did "
                          "different work, so no program can stand for them: "
                          "%s", c->name, MAX_ATTEMPTS, text ? text : "");
    else if (tn__log_enabled(2))
        tn__log(2, "%s: captured again: %s", c->name, text ? text : "");
    tn__free(text);
    tn__capture_free(p->reference);
    tn__capture_release_memory(capture, false);
    p->reference = capture;
    return status;
}

/* Calls the function and records it, and makes a program if the last call did
 * the same. */
static tn_status run_captured(tn_compiled *c, plan *p, tn_device *device,
                              tn_tensor *const *in, int in_count,
                              tn_tensor **out, int out_count)
{
    /* A program that a guard refuses is no failed attempt. */
    if (p->program)
        p->attempts = 0;
    tn__capture *capture = tn__capture_call(c->name, device, c->fn, c->context,
                                            in, in_count, out, out_count);
    if (!capture)
        return tn_error_code();
    c->counts.captures++;
    tn_status status = TN_OK;
    char *text = NULL;
    const int difference =
        p->reference ? tn__captures_compare(p->reference, capture, &text)
                     : TN__CAPTURES_DIFFER;
    for (int i = 0; i < in_count; i++) {
        p->moved[i] = difference == TN__CAPTURES_EQUAL &&
                      (p->moved[i] || p->seen[i] != in[i]->storage);
        p->seen[i] = in[i]->storage;
    }
    /* A program whose kept values are gone is made again. */
    if (p->program &&
        (difference != TN__CAPTURES_EQUAL || !fixed_values_exist(p) ||
         !tn__record_is_current(p->program->capture->record))) {
        tn__instances_release(&p->instances);
        tn__replayed_free(p->program);
        p->program = NULL;
    }
    if (!p->reference) {
        tn__capture_release_memory(capture, false);
        p->reference = capture;
    } else if (difference != TN__CAPTURES_EQUAL) {
        status = differs(c, p, capture, difference, text);
    } else if (p->program) {
        tn__capture_free(capture);
    } else {
        p->program = tn__replayed_make(
            capture,
            &(tn__replay_options){c->fuse, c->freeze, c->memory, c->donate},
            c->name);
        const bool made =
            p->program && (!c->freeze ||
                           tn__instances_open(&p->instances, p->program));
        status = made ? TN_OK : tn_error_code();
        if (status < 0) {
            tn__replayed_free(p->program);
            p->program = NULL;
        }
    }
    if (status < 0)
        tn__clear_outputs(out, out_count);
    return status;
}

static tn_status run_replayed(tn_compiled *c, plan *p, tn_tensor *const *in,
                              int in_count, tn_tensor **out, int out_count)
{
    tn_status status = check_aliases(c, p, in, in_count);
    if (status < 0)
        return status;
    c->counts.replays++;
    if (c->check_every && c->counts.replays % c->check_every == 0) {
        c->counts.checks++;
        return tn__check_replay(c->name, p->program, p->reference, c->fn,
                                c->context, in, in_count, out, out_count);
    }
    return tn__replayed_run(p->program, in, c->donate, out);
}

/* Whether a plan's program can be replayed with these inputs. */
static bool is_ready(const plan *p, tn_tensor *const *in, int in_count)
{
    return p && p->program && inputs_are_known(p, in, in_count) &&
           fixed_values_exist(p);
}

static tn_status run_plan(tn_compiled *c, tn_device *device,
                          tn_tensor *const *in, int in_count, tn_tensor **out,
                          int out_count)
{
    int64_t key[MAX_KEY];
    if (c->off)
        return tn__compiled_call(c->name, device, c->fn, c->context, in,
                                 in_count, out, out_count);
    if (tn_anomaly_mode())
        return tn__fail(TN_ERR_STATE, "compiled_run: anomaly mode checks results "
                        "on the host, which a replay would not do: switch it "
                        "off, or set TENON_COMPILE=off");
    const size_t count = make_key(device, in, in_count, out_count, key);
    plan *p = find_plan(c, key, count);
    if (!p && !(p = add_plan(c, key, count)))
        return TN_ERR_MEMORY;
    p->used = c->counts.calls + 1;
    c->last = p;
    return is_ready(p, in, in_count)
               ? run_replayed(c, p, in, in_count, out, out_count)
               : run_captured(c, p, device, in, in_count, out, out_count);
}

/* Replays a frozen function, at the same time as other threads, if its program
 * is ready for these inputs. Returns 1 if it did, 0 if the function has to run
 * alone, or a negative status. The caller holds the lock, which is released
 * during the replay. */
static int replay_shared(tn_compiled *c, tn_device *device,
                         tn_tensor *const *in, int in_count, tn_tensor **out,
                         int out_count)
{
    int64_t key[MAX_KEY];
    if (!c->freeze || c->off || c->check_every || tn_anomaly_mode())
        return 0;
    plan *p = find_plan(c, key, make_key(device, in, in_count, out_count, key));
    if (!is_ready(p, in, in_count) || !tn__replayed_is_shared(p->program))
        return 0;
    tn__replayed *instance = tn__instance_take(&p->instances);
    if (!instance)
        return tn_error_code();
    p->used = ++c->counts.calls;
    c->counts.replays++;
    c->last = p;
    c->replays++;
    tn__lock_give(&c->lock);
    tn_status status = check_aliases(c, p, in, in_count);
    status = status < 0 ? status
                        : tn__replayed_run(instance, in, c->donate, out);
    tn__lock_take(&c->lock);
    tn__instance_give(&p->instances, instance);
    c->counts.calls -= status < 0;
    c->replays--;
    pthread_cond_broadcast(&c->idle);
    return status < 0 ? status : 1;
}

/* Whether a call waits for those of other threads. The function may call
 * itself, which is an error: then it cannot wait. */
static bool waits(const tn_compiled *c)
{
    return c->freeze && !c->off && !tn__me.recording;
}

/* Begins to run alone: waits for the replays of a frozen function. Returns
 * false if the function runs in another thread, or in this one. */
static bool begin_alone(tn_compiled *c)
{
    while (waits(c) && (c->running || c->replays))
        tn__lock_wait(&c->lock, &c->idle);
    return !c->replays && !atomic_exchange(&c->running, true);
}

static void end_alone(tn_compiled *c)
{
    tn__lock_take(&c->lock);
    atomic_store(&c->running, false);
    pthread_cond_broadcast(&c->idle);
    tn__lock_give(&c->lock);
}

/* Takes the memory of donated inputs away. */
static void use_up(const tn_compiled *c, tn_tensor *const *in, int in_count)
{
    for (int i = 0; i < in_count; i++)
        if (c->donate >> i & 1 && tn__tensor_is_live(in[i]))
            tn__tensor_use_up(in[i]);
}

/* Runs the function, with in and out that do not overlap. */
static tn_status run(tn_compiled *c, tn_device *device, tn_tensor *const *in,
                     int in_count, tn_tensor **out, int out_count)
{
    tn__lock_take(&c->lock);
    while (waits(c) && c->running)
        tn__lock_wait(&c->lock, &c->idle);
    int done = c->running ? 0
                          : replay_shared(c, device, in, in_count, out,
                                          out_count);
    const bool alone = !done && begin_alone(c);
    tn__lock_give(&c->lock);
    if (done) {
        use_up(c, in, in_count);
        return done < 0 ? (tn_status)done : TN_OK;
    }
    if (!alone)
        return tn__fail(TN_ERR_STATE, "compiled_run: {compiled} is already "
                        "running in another thread: make one compiled "
                        "function for each thread");
    const tn_status status =
        run_plan(c, device, in, in_count, out, out_count);
    if (status >= 0)
        c->counts.calls++;
    use_up(c, in, in_count);
    end_alone(c);
    return status;
}

/* ---- public -------------------------------------------------------------- */

static tn_status check_run(const tn_compiled *c, tn_tensor *const *in,
                           int in_count, tn_tensor **out, int out_count)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__object_check(c, &compiled_class, "compiled_run", "compiled"))
        return tn_error_code();
    if (in_count < 0 || in_count > TN_COMPILE_MAX_INPUTS)
        return tn__fail(TN_ERR_ARGUMENT, "compiled_run: {in_count} is %d; "
                        "expected 0 to %d", in_count, TN_COMPILE_MAX_INPUTS);
    if (out_count < 0 || out_count > TN_COMPILE_MAX_OUTPUTS)
        return tn__fail(TN_ERR_ARGUMENT, "compiled_run: {out_count} is %d; "
                        "expected 0 to %d", out_count, TN_COMPILE_MAX_OUTPUTS);
    if (in_count && !in)
        return tn__fail(TN_ERR_ARGUMENT, "compiled_run: {in} is NULL");
    if (out_count && !out)
        return tn__fail(TN_ERR_ARGUMENT, "compiled_run: {out} is NULL");
    for (int i = 0; i < in_count; i++) {
        char argument[24];
        snprintf(argument, sizeof argument, "in[%d]", i);
        if (!tn__tensor_check(in[i], "compiled_run", argument))
            return tn_error_code();
        if (in[i]->storage->device != in[0]->storage->device)
            return tn__fail(TN_ERR_DEVICE, "compiled_run: {in}[%d] is on %s, "
                            "in[0] is on %s: move it there with tn_to()", i,
                            in[i]->storage->device->name,
                            in[0]->storage->device->name);
        if (tn_grad_mode() && tn__tensor_tracks(in[i]))
            return tn__fail(TN_ERR_STATE, "compiled_run: {in}[%d] requires a "
                            "gradient, which a replay would not record: call "
                            "within TN_NO_GRAD, or let the function use the "
                            "tensor through its context", i);
    }
    for (int i = 0; i < in_count; i++) {
        bool alone = atomic_load(&in[i]->storage->references) == 1;
        for (int k = 0; k < in_count && alone; k++)
            alone = k == i || in[k]->storage != in[i]->storage;
        if (c->donate >> i & 1 && !alone)
            return tn__fail(TN_ERR_STATE, "compiled_run: {in}[%d] is donated, but "
                            "other tensors use its memory: drop them, or donate "
                            "a copy (tn_clone)", i);
    }
    if (tn__me.recording)
        return tn__fail(TN_ERR_STATE, "compiled_run: work is being recorded: "
                        "call it outside of tn_graph_record and of other "
                        "compiled functions");
    return TN_OK;
}

tn_status tn_compiled_run(tn_compiled *c, tn_tensor *const *in, int in_count,
                          tn_tensor **out, int out_count)
{
    tn_status status = check_run(c, in, in_count, out, out_count);
    if (status < 0) {
        if (out && out_count <= TN_COMPILE_MAX_OUTPUTS)
            tn__clear_outputs(out, out_count);
        return status;
    }
    tn_device *device =
        in_count ? in[0]->storage->device : tn_device_current();
    tn_tensor *given[TN_COMPILE_MAX_INPUTS]; /* in and out may be one array */
    if (in_count)
        memcpy(given, in, (size_t)in_count * sizeof *in);
    tn__clear_outputs(out, out_count);
    tn__ref(c); /* the function may drop it */
    const bool grad_mode = tn_grad_mode_set(tn_grad_mode() && !c->freeze);
    status = device ? run(c, device, given, in_count, out, out_count)
                    : tn_error_code();
    tn_grad_mode_set(grad_mode);
    tn__unref(c);
    return status;
}

tn_scalar tn_late_number(const double *x)
{
    if (!x)
        tn__fail(TN_ERR_ARGUMENT, "late_number: {x} is NULL");
    tn_scalar late = {.kind = TN_SCALAR_LATE, .value.i = (int64_t)(intptr_t)x};
    return late;
}

tn_status tn_compiled_reset(tn_compiled *c)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    if (!tn__object_check(c, &compiled_class, "compiled_reset", "compiled"))
        return tn_error_code();
    tn__lock_take(&c->lock);
    const bool alone = begin_alone(c);
    tn__lock_give(&c->lock);
    if (!alone)
        return tn__fail(TN_ERR_STATE, "compiled_reset: {compiled} is running");
    free_plans(c);
    end_alone(c);
    return TN_OK;
}

tn_status tn_compiled_read_counts(const tn_compiled *c,
                                  tn_compiled_counts *counts)
{
    if (!tn__object_check(c, &compiled_class, "compiled_read_counts",
                          "compiled"))
        return tn_error_code();
    if (!counts || !counts->size)
        return tn__fail(TN_ERR_ARGUMENT, counts
                            ? "compiled_read_counts: {counts}->size is 0; set "
                              "it to sizeof(tn_compiled_counts)"
                            : "compiled_read_counts: {counts} is NULL");
    tn__lock *lock = (tn__lock *)(uintptr_t)&c->lock;
    tn__lock_take(lock);
    tn_compiled_counts now = c->counts;
    now.size = sizeof now;
    for (const plan *p = c->plans; p; p = p->next)
        now.plans += p->program != NULL;
    const tn__replayed *program = c->last ? c->last->program : NULL;
    if (program) {
        now.recorded = program->recorded;
        now.launches = program->launches;
        now.arena_bytes = (int64_t)program->arena_bytes;
        now.bound_bytes = (int64_t)program->bound_bytes;
        now.eager_bytes = (int64_t)program->eager_bytes;
        now.peak_bytes = (int64_t)program->peak_bytes;
        now.constants = program->constants.calls;
        now.constant_bytes = (int64_t)program->constants.bytes;
        now.prepared = (int64_t)program->prepared.count;
        now.prepared_bytes = (int64_t)program->prepared.bytes;
    }
    tn__lock_give(lock);
    const size_t size = counts->size;
    memset(counts, 0, size);
    memcpy(counts, &now, size < sizeof now ? size : sizeof now);
    counts->size = size;
    return TN_OK;
}

const char *tn_compiled_text(tn_compiled *c)
{
    if (tn__error_pending() ||
        !tn__object_check(c, &compiled_class, "compiled_text", "compiled"))
        return NULL;
    if (!c->last || !c->last->program)
        return tn__fail_null(TN_ERR_STATE, "compiled_text: {compiled:}no "
                             "program exists yet: two equal calls of "
                             "tn_compiled_run make one");
    return c->last->program->text;
}
