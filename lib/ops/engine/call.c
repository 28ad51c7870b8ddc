/* call.c: runs a call of an operator: checks the values, runs the operator,
 * lets autograd record the call, and gives the outputs to the open scope. Every
 * call takes this path.
 *
 * Generated functions pass values that have the right number and kinds. The
 * short path, run_plain, confirms this with one test for each value. Calls with
 * defaults to fill in, with an int in place of a list, or with mistakes go
 * through tn__values_normalise. */
#include <base/context.h>
#include <base/fpu.h>
#include <base/error.h>
#include <base/memory.h>
#include <base/platform.h>
#include <base/timeline.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/space.h>
#include <ops/table.h>
#include <stdio.h>
#include <string.h>
#include <tenon/ops.h>

/* ---- running a call ------------------------------------------------------ */

/* Checks that no tensor of the call has been freed and that all tensors are on
 * one device. Sets *requires_grad to whether one of them requires a gradient,
 * and *largest to the number of elements of the largest tensor. The values have
 * been converted to the kinds of the arguments. */
static tn_status check_tensors(const tn_op *op, const tn_value *value,
                               bool *requires_grad, int64_t *largest)
{
    tn_device *device = NULL;
    bool grad = false;
    int64_t most = 0;
    for (int i = 0; i < op->arg_count; i++) {
        tn_tensor *const *x = &value[i].of.tensor;
        int count = 1;
        if (value[i].kind == TN_VALUE_TENSORS) {
            x = value[i].of.tensors;
            count = value[i].count;
        } else if (value[i].kind != TN_VALUE_TENSOR) {
            continue;
        }
        for (int k = 0; k < count; k++) {
            if (TN__UNLIKELY(!tn__tensor_is_live(x[k])))
                return tn__fail_dead(
                    op, i, value[i].kind == TN_VALUE_TENSORS ? k : -1, x[k]);
            tn_device *own = x[k]->storage->device;
            grad |= tn__tensor_tracks(x[k]);
            most = x[k]->numel > most ? x[k]->numel : most;
            if (TN__UNLIKELY(device && own != device))
                return tn__fail_devices(op, value);
            device = own;
        }
    }
    *requires_grad = grad;
    *largest = most;
    return TN_OK;
}

/* Runs a composite in a scope of its own, which frees the intermediate tensors.
 * Autograd records the operators that the composite calls. */
static tn_status run_composite(tn__call *call)
{
    tn_scope *scope = tn_scope_open();
    if (!scope)
        return TN_ERR_MEMORY;
    tn_status status =
        call->op->widen ? tn__run_wide(call) : call->op->run(call);
    if (status < 0)
        call->out_count = 0; /* the scope that is closed
                              * below frees the outputs */
    else
        for (int i = 0; i < call->out_count; i++)
            tn__ref(call->out[i]);
    tn_scope_close(scope);
    return status;
}

static bool is_recording(void)
{
    return tn__me.native_depth == 0 && tn__hooks.recording && tn__hooks.recording();
}

/* If autograd does not record the call, sets the flag `apart` of outputs that
 * share memory with an input. A write into these outputs then does not change
 * the gradient history of the input. */
static void mark_detached(tn__call *call)
{
    if (call->into || (call->op->differentiable && is_recording()))
        return;
    for (int i = 0; i < call->op->arg_count; i++) {
        const tn_tensor *x = tn__call_tensor(call, i);
        for (int o = 0; x && o < call->out_count; o++)
            if (call->out[o] != x && call->out[o]->storage == x->storage)
                call->out[o]->apart = true;
    }
}

/* Rejects tensors with more than 2^56 elements, over which a device cannot
 * iterate. A view made by expand may have more elements. View operators accept
 * such a view. reshape accepts it too, and checks its iteration space when it
 * copies. */
static __attribute__((noinline, cold)) tn_status
check_spans(const tn__call *call)
{
    const tn_op *op = call->op;
    if (op->view || op->id == TN__OP_ID_RESHAPE)
        return TN_OK;
    for (int i = 0; i < op->arg_count; i++) {
        const tn_value *v = &call->value[i];
        int count = v->kind == TN_VALUE_TENSORS ? v->count
                                                : v->kind == TN_VALUE_TENSOR;
        for (int k = 0; k < count; k++) {
            const tn_tensor *x = v->kind == TN_VALUE_TENSOR ? v->of.tensor
                                                            : v->of.tensors[k];
            if (TN__UNLIKELY(x->numel > TN__SIZE_SPAN))
                return tn__space_check(op->name, op->arg[i].name, x->ndim,
                                       x->shape);
        }
    }
    return TN_OK;
}

static tn_status run_native(tn__call *call, int64_t largest)
{
    if (TN__UNLIKELY(largest > TN__SIZE_SPAN) && check_spans(call) < 0)
        return tn_error_code();
    tn__me.native_depth++;
    tn_status status = call->op->run(call);
    tn__me.native_depth--;
    if (tn__me.native_depth == 0 && status >= 0)
        mark_detached(call);
    return status;
}

/* Checks a call that writes into given tensors (in place, or with out=): no
 * error is pending, no tensor has been freed, the operator supports it, and no
 * gradient would be lost. */
static tn_status check_write(const tn_op *op, tn_tensor *const *into,
                             int into_count, bool requires_grad)
{
    if (tn__error_pending())
        return TN_ERR_STATE;
    for (int i = 0; i < into_count; i++)
        if (!tn__tensor_check(into[i], op->name, "out"))
            return tn_error_code();
    if (op->inplace)
        return tn__me.native_depth == 0 && tn__hooks.check_inplace
                   ? tn__hooks.check_inplace(op, into[0], requires_grad)
                   : TN_OK;
    if (op->sort != TN__OP_KERNEL || op->creates)
        return tn__fail(TN_ERR_UNSUPPORTED,
                        "%s: results cannot be written into given tensors; "
                        "copy them with tn_copy_",
                        op->name);
    for (int i = 0; i < into_count; i++)
        requires_grad |= tn__tensor_tracks(into[i]);
    if (requires_grad && is_recording())
        return tn__fail(TN_ERR_STATE,
                        "%s: a result written into a given tensor has no "
                        "gradient; use TN_NO_GRAD or take the new tensor",
                        op->name);
    return TN_OK;
}

static void drop_outputs(tn__call *call)
{
    for (int i = 0; i < call->out_count; i++)
        tn__unref(call->out[i]);
}

/* Checks that the arguments in op->floats are floating-point and that a mask is
 * bool. */
static __attribute__((noinline)) tn_status
check_dtypes(const tn__call *call)
{
    const tn_op *op = call->op;
    const tn_tensor *mask = op->mask ? tn__call_tensor(call, op->mask - 1)
                                     : NULL;
    if (mask && mask->dtype != TN_BOOL)
        return tn__fail(TN_ERR_DTYPE, "%s: {%s} is %s; convert it to bool with "
                        "tn_to_dtype", op->name, op->arg[op->mask - 1].name,
                        tn_dtype_name(mask->dtype));
    for (int i = 0; op->floats >> i; i++) {
        const tn_tensor *x =
            op->floats >> i & 1 ? tn__call_tensor(call, i) : NULL;
        if (x && !tn_dtype_is_floating(x->dtype))
            return tn__fail(TN_ERR_DTYPE,
                            "%s: {%s} is %s; expected a floating-point dtype; "
                            "convert it with tn_to_dtype", op->name,
                            op->arg[i].name, tn_dtype_name(x->dtype));
    }
    return TN_OK;
}

/* Rejects a late number (tn_late_number) in a call that autograd records while a
 * program is captured: the gradient would use the number of the capture. */
static __attribute__((noinline, cold)) tn_status
refuse_late(const tn__call *call)
{
    for (int i = 0; i < call->op->arg_count; i++)
        if (call->value[i].kind == TN_VALUE_NUMBER &&
            call->value[i].count == TN_SCALAR_LATE)
            return tn__fail(TN_ERR_UNSUPPORTED,
                            "%s: {%s} is a late number, and the gradient would "
                            "not read it again: multiply by a tensor instead, "
                            "which the program fills (tn_fill_scalar_)",
                            call->op->name, call->op->arg[i].name);
    return TN_OK;
}

/* Runs a call whose values have been converted to the kinds of the arguments,
 * and lets autograd record it. Stores the outputs in call->out and their number
 * in call->out_count. */
static tn_status run_checked(tn__call *call, tn_tensor *const *into,
                             int into_count, bool requires_grad,
                             int64_t largest)
{
    const tn_op *op = call->op;
    tn_status status;
    if (TN__UNLIKELY(op->floats | op->mask)) {
        status = check_dtypes(call);
        if (status < 0)
            return status;
    }
    if (TN__UNLIKELY(op->inplace)) {
        into = &call->value[0].of.tensor;
        into_count = 1;
    }
    tn__call_begin(call, into, into_count);
    if (TN__UNLIKELY(op->inplace))
        call->records = requires_grad && op->differentiable && is_recording();
    if (TN__UNLIKELY(into != NULL)) {
        status = check_write(op, into, into_count, requires_grad);
        if (status < 0)
            return status;
    }
    status = op->sort == TN__OP_KERNEL      ? op->run(call)
             : op->sort == TN__OP_COMPOSITE ? run_composite(call)
                                            : run_native(call, largest);
    if (TN__UNLIKELY(status < 0)) {
        tn__unref(call->original);
        tn__unref(call->context);
        drop_outputs(call);
        return status;
    }
    if (TN__UNLIKELY(into != NULL))
        for (int i = 0; i < into_count; i++)
            tn__tensor_changed(into[i]);
    if (TN__UNLIKELY(status == TN__DONE))
        return TN__DONE;
    if (requires_grad && call->op->sort != TN__OP_COMPOSITE &&
        call->op->differentiable && call->out_count && is_recording()) {
        status = TN__UNLIKELY(tn__me.recording != NULL) ? refuse_late(call)
                                                        : TN_OK;
        if (TN__LIKELY(status >= 0))
            status = tn__hooks.record(call);
        if (TN__UNLIKELY(call->original != NULL))
            tn__unref(call->original);
        if (TN__UNLIKELY(status < 0))
            drop_outputs(call);
    }
    if (TN__UNLIKELY(call->context != NULL))
        tn__unref(call->context);
    return status;
}

/* Gives the outputs to the open scope if they are new tensors. Tensors that the
 * caller gave for the results keep their owner. */
static tn_status own_outputs(tn__call *call)
{
    if (call->into) {
        drop_outputs(call);
        return TN_OK;
    }
    for (int i = 0; i < call->out_count; i++) {
        call->out[i]->made_by = call->running.name;
        if (TN__UNLIKELY(!tn__scope_own(call->out[i]))) {
            /* The scope already owns the outputs with smaller indices. */
            for (int k = i + 1; k < call->out_count; k++)
                tn__unref(call->out[k]);
            return TN_ERR_MEMORY;
        }
    }
    return TN_OK;
}

static __attribute__((noinline, cold)) tn_status
refuse(const tn__call *call, const tn_value *value, int count,
       tn_status status)
{
    tn__call_failed(call, value, count);
    return status;
}

static __attribute__((noinline, cold)) tn_status watch(const tn__call *call)
{
    if (call->running.outer || call->op->creates ||
        call->op->id == TN__OP_ID_EMPTY)
        return TN_OK;
    return call->into ? tn__hooks.watch(call, call->into, call->into_count)
                      : tn__hooks.watch(call, call->out, call->out_count);
}

static tn_status run_as_given(tn__call *call, tn_tensor *const *into,
                              int into_count)
{
    bool requires_grad = false;
    int64_t largest = 0;
    tn_status status =
        check_tensors(call->op, call->value, &requires_grad, &largest);
    if (TN__UNLIKELY(call->op->need_count) && status >= 0)
        status = tn__check_needs(call->op, call->value);
    if (TN__LIKELY(status >= 0))
        status = run_checked(call, into, into_count, requires_grad, largest);
    if (TN__LIKELY(status == TN_OK))
        status = own_outputs(call);
    if (TN__UNLIKELY(tn__me.modes.watched) && status >= 0)
        status = watch(call);
    if (TN__UNLIKELY(status < 0))
        return refuse(call, call->value, call->op->arg_count, status);
    return TN_OK;
}

static tn_status run_new(tn__call *call)
{
    return run_as_given(call, NULL, 0);
}

/* Runs a call while autocast is on. A composite without the line `autocast` in
 * the operator table runs unchanged. Autocast then applies to the operators
 * that it calls. */
static __attribute__((noinline)) tn_status run_autocast(tn__call *call)
{
    const tn_op *op = call->op;
    if (!op->autocast && op->sort == TN__OP_COMPOSITE && !op->widen)
        return run_new(call);
    tn_dtype lower = tn__autocast_swap(TN_DTYPE_NONE);
    tn_status status = op->autocast ? tn__autocast_run(call, lower, run_new)
                                    : run_new(call);
    tn__autocast_swap(lower);
    return status;
}

static inline tn_status run_values(tn__call *call, tn_tensor *const *into,
                                   int into_count)
{
    if (TN__UNLIKELY(tn__me.modes.autocast) && !into && !call->op->inplace)
        return run_autocast(call);
    return run_as_given(call, into, into_count);
}

static __attribute__((noinline)) tn_status
normalise_and_run(tn__call *call, int count, tn_tensor *const *into,
                  int into_count)
{
    tn_value value[TN__OP_MAX_ARGS];
    tn_dims_list dims[TN__OP_MAX_ARGS];
    tn_status status =
        tn__values_normalise(call->op, call->value, count, value, dims);
    if (status < 0)
        return refuse(call, call->value, count, status);
    call->value = value;
    return run_values(call, into, into_count);
}

/* The kinds of values that need no further check, except that a tensor must not
 * be NULL. */
#define PLAIN_KINDS                                                           \
    (1u << TN_VALUE_TENSOR | 1u << TN_VALUE_NUMBER | 1u << TN_VALUE_INT |     \
     1u << TN_VALUE_FLOAT | 1u << TN_VALUE_BOOL)

static inline tn_status run_plain(tn__call *call, int count,
                                  tn_tensor *const *into, int into_count)
{
    const tn_op *op = call->op;
    bool plain = count == op->arg_count;
    for (int i = 0; plain && i < count; i++) {
        const tn_value *v = &call->value[i];
        plain = (op->arg[i].kinds & PLAIN_KINDS) >> v->kind & 1 &&
                (v->kind != TN_VALUE_TENSOR || v->of.tensor) &&
                (v->kind != TN_VALUE_NUMBER || v->count != TN_SCALAR_LATE);
    }
    return TN__LIKELY(plain)
               ? run_values(call, into, into_count)
               : normalise_and_run(call, count, into, into_count);
}

/* Writes the shapes and dtypes of the tensors of a call into text, as "(2, 3)
 * float32, (3) float32". */
static void add_shapes(char *text, size_t room, const tn_value *value,
                       int count)
{
    char shape[TN__SHAPE_TEXT];
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        bool list = value[i].kind == TN_VALUE_TENSORS;
        tn_tensor *const *x =
            list ? value[i].of.tensors : &value[i].of.tensor;
        int tensors = list                                ? value[i].count
                      : value[i].kind == TN_VALUE_TENSOR ? 1
                                                          : 0;
        for (int k = 0; k < tensors && used < room; k++)
            used += (size_t)snprintf(
                text + used, room - used, "%s%s %s", used ? ", " : "",
                tn__shape_text(shape, x[k]->ndim, x[k]->shape),
                tn_dtype_name(x[k]->dtype));
    }
}

/* Runs a call and adds it to the trace that is being recorded. */
static __attribute__((noinline, cold)) tn_status
run_timed(tn__call *call, int count, tn_tensor *const *into, int into_count)
{
    char shapes[TN__SHAPE_TEXT] = "";
    const tn_value *value = call->value; /* saved, because run_plain may replace
                                            call->value */
    tn__span span;
    tn__span_begin(&span);
    tn_status status = run_plain(call, count, into, into_count);
    if (span.trace && status >= 0)
        add_shapes(shapes, sizeof shapes, value, count);
    tn__span_end(&span, "op", call->op->name, shapes);
    return status;
}

/* Runs a call from beginning to end. If `given` is true, the values come from
 * the program (tn_op_call) and are checked first. */
static inline tn_status run(tn__call *call, int count, bool given,
                            tn_tensor *const *into, int into_count)
{
    call->running.name = call->op->name;
    call->running.outer = tn__me.location.running;
    call->index_arg = -1;
    tn__me.location.running = &call->running;
    const tn__fpu_state fpu = tn__fpu_read();
    if (TN__UNLIKELY(!tn__fpu_is_plain(fpu)))
        tn__fpu_set(); /* sets the floating-point mode, so that C code gives the
                        * same results in all threads */
    tn_status status =
        given ? tn__values_check(call->op, call->value, count) : TN_OK;
    if (TN__LIKELY(status >= 0))
        status = tn__timeline_is_live()
                     ? run_timed(call, count, into, into_count)
                     : run_plain(call, count, into, into_count);
    else
        refuse(call, call->value, call->value ? count : 0, status);
    tn__me.location.running = call->running.outer;
    if (TN__UNLIKELY(!tn__fpu_is_plain(fpu)))
        tn__fpu_restore(fpu);
    return status;
}

static inline int run_outputs(const tn_op *op, const tn_value *value,
                              int count, bool given, tn_tensor **out, int room)
{
    tn_tensor *made[TN__OP_MAX_OUTPUTS];
    tn__call call;
    call.op = op;
    call.value = value;
    call.out = made;
    if (TN__UNLIKELY(!out && room > 0))
        return tn__fail(TN_ERR_ARGUMENT, "%s: out is NULL", op->name);
    tn_status status = run(&call, count, given, NULL, 0);
    if (status < 0)
        return status;
    if (call.out_count > room)
        return tn__fail(TN_ERR_ARGUMENT, "%s: %d results do not fit into an "
                        "output array of %d",
                        op->name, call.out_count, room);
    for (int i = 0; i < call.out_count; i++)
        out[i] = made[i];
    return call.out_count;
}

int tn__op_run(const tn_op *op, const tn_value *value, int count,
               tn_tensor **out, int room)
{
    return run_outputs(op, value, count, false, out, room);
}

int tn__op_run_given(const tn_op *op, const tn_value *value, int count,
                     tn_tensor **out, int room)
{
    return run_outputs(op, value, count, true, out, room);
}

tn_tensor *tn__op_run1(const tn_op *op, const tn_value *value, int count)
{
    tn_tensor *made[TN__OP_MAX_OUTPUTS];
    tn__call call;
    call.op = op;
    call.value = value;
    call.out = made;
    return TN__LIKELY(run(&call, count, false, NULL, 0) >= 0) ? made[0] : NULL;
}

tn_tensor *tn__op_run_unary(tn_tensor *x, const tn_op *op)
{
    const tn_value value[] = {tn__value_tensor(x)};
    return tn__op_run1(op, value, 1);
}

tn_tensor *tn__op_run_binary(tn_tensor *x, tn_tensor *y, const tn_op *op)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_tensor(y)};
    return tn__op_run1(op, value, 2);
}

tn_tensor *tn__op_run_number(tn_tensor *x, tn_scalar y, const tn_op *op)
{
    const tn_value value[] = {tn__value_tensor(x), tn__value_number(y)};
    return tn__op_run1(op, value, 2);
}

tn_tensor *tn__op_run_number_first(tn_scalar x, tn_tensor *y, const tn_op *op)
{
    const tn_value value[] = {tn__value_number(x), tn__value_tensor(y)};
    return tn__op_run1(op, value, 2);
}

tn_tensor *tn__op_run_outputs(const tn_op *op, const tn_value *value,
                              int count, tn_tensor **const *others,
                              int other_count)
{
    tn_tensor *made[TN__OP_MAX_OUTPUTS];
    if (tn__op_run(op, value, count, made, TN__OP_MAX_OUTPUTS) < 0)
        return NULL;
    for (int i = 0; i < other_count; i++)
        if (others[i])
            *others[i] = made[i + 1];
    return made[0];
}

tn_status tn__op_run_into(const tn_op *op, const tn_value *value, int count,
                          tn_tensor *const *into, int into_count)
{
    tn_tensor *made[TN__OP_MAX_OUTPUTS];
    tn__call call;
    call.op = op;
    call.value = value;
    call.out = made;
    return run(&call, count, true, into, into_count);
}
