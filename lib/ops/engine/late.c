/* late.c: index errors that an asynchronous device reports after the operator
 * has returned. When work is submitted, a description of it is stored
 * (tn__deferred_error). When the device reports an error, the message is made
 * from this description.
 *
 * The tensors may have been freed by then, so they cannot be looked up.
 * Instead, when the work is submitted, its index tensor is matched with an
 * argument of the running calls. The match is by memory, by the argument that a
 * composite has declared with tn__call_set_indices, or by dtype if only one
 * argument holds integers. */
#include <base/context.h>
#include <base/guard.h>
#include <ops/engine/late.h>
#include <ops/engine/mistakes.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ------------------------------------------------------------ */

/* Finds the element of the argument that is `away` elements in memory from the
 * element at coordinates 0, and stores its coordinates in place[]. The
 * dimension with the largest stride is resolved first. Returns false if there
 * is no such element. */
static bool find_place(const tn__deferred_error *late, int64_t away,
                       int64_t place[TN_MAX_NDIM])
{
    bool done[TN_MAX_NDIM] = {false};
    /* If a stride is negative, the element with the lowest address has other
     * coordinates than 0. The distance is then measured from that element. */
    for (int d = 0; d < late->of_ndim; d++)
        if (late->of_stride[d] < 0)
            away -= (late->of_shape[d] - 1) * late->of_stride[d];
    for (int k = 0; k < late->of_ndim; k++) {
        int most = -1;
        for (int d = 0; d < late->of_ndim; d++)
            if (!done[d] && (most < 0 || llabs(late->of_stride[d]) >
                                             llabs(late->of_stride[most])))
                most = d;
        int64_t stride = late->of_stride[most], size = late->of_shape[most];
        int64_t at = stride && size > 1 ? away / llabs(stride) : 0;
        if (away < 0 || at >= size)
            return false;
        away -= at * llabs(stride);
        place[most] = stride < 0 ? size - 1 - at : at;
        done[most] = true;
    }
    return away == 0;
}

static tn_status report(const tn__deferred_error *late, const tn_fault *fault,
                        const char *name, const char *suffix)
{
    char text[TN__SHAPE_TEXT], shape[TN__SHAPE_TEXT], inner[80] = "";
    if (fault->extent == TN__GUARD_EXTENT)
        return tn__fail_guard(name, late->kernel, fault, late->ndim,
                              late->extent, suffix);
    tn__error_index at =
        tn__error_index_in(fault->index, late->low, fault->extent,
                           fault->position, late->ndim, late->extent);
    if (!late->op)
        return tn__fail_outside(
            TN_ERR_INDEX, at,
            "%s: index %lld at position %s is outside [0, %lld)%s", name,
            (long long)at.value, tn__shape_text(text, at.ndim, at.position),
            (long long)at.bound, suffix);
    if (at.value < 0) /* at.value was a negative index, to which the operator
                         added the size. at.low is minus the size, so the sum is
                         the caller's index. */
        at.value += at.low;
    int64_t away = late->base;
    for (int d = 0; d < late->ndim; d++)
        away += at.position[d] * late->step[d];
    if (strcmp(late->op, name) != 0)
        snprintf(inner, sizeof inner, "%s: ", late->op);
    tn__shape_text(shape, late->of_ndim, late->of_shape);
    at.ndim = late->is_placed && find_place(late, away, at.position)
                  ? late->of_ndim : 0;
    if (at.ndim || !late->of_ndim)
        tn__fail_outside(
            TN_ERR_INDEX, at,
            "%s: %s%s %lld at position %s of %s is outside [%lld, %lld)%s",
            name, inner, late->argument, (long long)at.value,
            tn__shape_text(text, at.ndim, at.position), shape,
            (long long)at.low, (long long)at.bound, suffix);
    else
        tn__fail_outside(
            TN_ERR_INDEX, at,
            "%s: %s%s %lld, somewhere in %s, is outside [%lld, %lld)%s", name,
            inner, late->argument, (long long)at.value, shape,
            (long long)at.low, (long long)at.bound, suffix);
    tn__error_facts *facts = tn__error_within(tn__me.location.running);
    if (facts && !*inner) {
        facts->argument = late->argument;
        facts->odd = 0;
        facts->tensor_count = 1;
        facts->tensor[0] = (struct tn__error_tensor){
            .argument = late->argument, .index = -1, .dtype = late->dtype,
            .ndim = late->of_ndim, .device = late->device};
        memcpy(facts->tensor[0].shape, late->of_shape, sizeof late->of_shape);
    }
    return TN_ERR_INDEX;
}

/* ---- the description of submitted work ----------------------------------- */

static bool holds_indices(const tn_tensor *x)
{
    return x && !tn_dtype_is_floating(x->dtype) && x->dtype != TN_BOOL;
}

/* Returns the index of the argument of the call that has the storage and dtype
 * of `of`. If there is none but exactly one argument holds integers, returns
 * that argument and sets *guessed. Else returns -1. */
static int argument_with(const tn__call *call, const tn_tensor *of,
                         bool *guessed)
{
    int only = -1, count = 0;
    for (int i = 0; i < call->op->arg_count; i++) {
        const tn_tensor *x = tn__call_tensor(call, i);
        if (!holds_indices(x))
            continue;
        if (x->storage == of->storage && x->dtype == of->dtype)
            return i;
        only = i;
        count++;
    }
    *guessed = count == 1;
    return *guessed ? only : -1;
}

static void note_argument(tn__deferred_error *late, const tn_tensor *index,
                          const int64_t *step)
{
    const tn_tensor *of = index;
    bool guessed = false;
    for (const tn__running_op *d = tn__me.location.running; d; d = d->outer) {
        /* `running` is the first member of tn__call, so d points to a call. */
        const tn__call *call = (const void *)d;
        int at = call->index_arg >= 0 ? call->index_arg
                                 : argument_with(call, of, &guessed);
        if (at < 0)
            continue;
        if (call->index_arg >= 0)
            late->low = call->index_low;
        of = call->value[at].of.tensor;
        late->op = d->name;
        late->argument = call->op->arg[at].name;
    }
    /* If the index tensor was computed from the argument, the index tensor is a
     * new dense tensor with its elements in the order of the argument. */
    bool own = of->storage == index->storage;
    late->is_placed = late->op && !guessed;
    late->base = own ? index->offset - of->offset : index->offset;
    memcpy(late->step, step, late->ndim * sizeof *step);
    late->dtype = of->dtype;
    late->device = of->storage->device->name;
    late->of_ndim = of->ndim;
    memcpy(late->of_shape, of->shape, of->ndim * sizeof *of->shape);
    int64_t dense = 1;
    for (int d = of->ndim; d-- > 0; dense *= of->shape[d])
        late->of_stride[d] = own ? of->stride[d] : dense;
}

const tn__deferred_error *
tn__late_of_kernel(tn__deferred_error *late, const tn__kernel *kernel,
                   const tn__space *space)
{
    const tn__operand *index = NULL;
    int many = 0;
    bool asks = false;
    for (int k = 0; k < kernel->input_count; k++) {
        const tn__operand *o = &space->operand[k];
        asks |= kernel->input[k].index_count > 0;
        if (kernel->input[k].index_count || !holds_indices(o->tensor))
            continue;
        index = o;
        many++;
    }
    if (!asks)
        return NULL;
    late->report = report;
    late->kernel = kernel;
    late->op = NULL;
    late->low = 0;
    late->ndim = space->outer_ndim + space->row_ndim;
    memcpy(late->extent, space->extent, late->ndim * sizeof *space->extent);
    if (many == 1)
        note_argument(late, index->tensor, index->stride);
    return late;
}

const tn__deferred_error *tn__late_of_index(tn__deferred_error *late,
                                            const tn_tensor *index)
{
    late->report = report;
    late->kernel = NULL;
    late->op = NULL;
    late->low = 0;
    late->ndim = index->ndim;
    memcpy(late->extent, index->shape, index->ndim * sizeof *index->shape);
    note_argument(late, index, index->stride);
    return late;
}

