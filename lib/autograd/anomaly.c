/* anomaly.c: finds the operator that produced the first NaN, as PyTorch's
 * anomaly mode does.
 *
 * Only the results of operators that the program calls are checked. An operator
 * may call other operators, which may compute a NaN that does not reach its
 * result. In backward, only the final gradients of each recorded call are
 * checked, for the same reason. */
#include <math.h>
#include <string.h>
#include <base/context.h>
#include <tenon/ops.h>

#include <autograd/node.h>


bool tn_anomaly_mode(void)
{
    return tn__me.modes.anomaly;
}

bool tn_anomaly_mode_set(bool on)
{
    bool was = tn__me.modes.anomaly;
    tn__me.modes.anomaly = tn__me.modes.watched = on;
    return was;
}

bool tn__anomaly_begin(void)
{
    bool was = tn__me.modes.watched;
    tn__me.modes.watched = false;
    return was;
}

void tn__anomaly_end(bool was_watched)
{
    tn__me.modes.watched = was_watched;
}

/* ---- checking ----------------------------------------------------------- */

/* Returns the index of the first element of x that is NaN, or -1 if none is.
 * The operators called here are not recorded for backward, and their errors are
 * discarded. */
static int64_t first_nan(tn_tensor *x)
{
    if (!x || !tn_dtype_is_floating(x->dtype) || !x->numel)
        return -1;
    tn__error before;
    tn__error_hide(&before);
    bool watched = tn__anomaly_begin(), mode = tn_grad_mode_set(false);
    tn_scope *scope = tn_scope_open();
    if (tn_dtype_bytes(x->dtype) == 1) /* no operator computes in float8 */
        x = tn_to_dtype(x, TN_F32);
    tn_tensor *is_nan = tn_flatten(tn_isnan(x));
    int64_t at = -1;
    if (tn_item_int(tn_any(is_nan)) == 1)
        at = tn_item_int(tn_argmax(tn_to_dtype(is_nan, TN_U8)));
    tn_scope_close(scope);
    tn_grad_mode_set(mode);
    tn__anomaly_end(watched);
    tn__error_restore(&before);
    return at;
}

/* Appends x's shape and the position of element `at`, for example
 * "(2, 3) is NaN at (0, 1)". */
static void add_place(tn__text *text, const tn_tensor *x, int64_t at)
{
    int64_t position[TN_MAX_NDIM];
    for (int d = x->ndim - 1; d >= 0; d--) {
        position[d] = at % x->shape[d];
        at /= x->shape[d];
    }
    tn__text_add_shape(text, x->ndim, x->shape);
    tn__text_add(text, " is NaN at ");
    tn__text_add_shape(text, x->ndim, position);
}

/* ---- forward ------------------------------------------------------------ */

static bool is_nan_number(const tn_value *v)
{
    return (v->kind == TN_VALUE_FLOAT ||
            (v->kind == TN_VALUE_NUMBER && v->count == TN_SCALAR_FLOAT)) &&
           isnan(v->of.f);
}

/* Returns whether the call has written its results into x's memory. */
static bool is_written(const tn__call *call, const tn_tensor *x)
{
    bool written = false;
    for (int o = 0; call->into && o < call->into_count; o++)
        written |= x->storage == call->into[o]->storage;
    return written;
}

/* Returns the first tensor argument that contains a NaN, or NULL if none does.
 * Sets *argument to the index of the argument, *at to the index of the NaN, and
 * *index to the tensor's index in the list if the argument is a list of
 * tensors, else to -1. */
static tn_tensor *find_source(const tn__call *call, int *argument, int *index,
                              int64_t *at)
{
    for (int i = 0; i < call->op->arg_count; i++) {
        const tn_value *v = &call->value[i];
        bool list = v->kind == TN_VALUE_TENSORS;
        int count = list ? v->count : v->kind == TN_VALUE_TENSOR;
        for (int k = 0; k < count; k++) {
            tn_tensor *x = list ? v->of.tensors[k] : v->of.tensor;
            if (is_written(call, x))
                continue;
            *at = first_nan(x);
            *argument = i;
            *index = list ? k : -1;
            if (*at >= 0)
                return x;
        }
    }
    return NULL;
}

static void add_source(tn__text *text, const tn_tensor *source, int64_t at)
{
    add_place(text, source, at);
    const char *in = tn_path_text(source->made_in);
    if (source->made_by)
        tn__text_add(text, "; it was made by %s%s%s", source->made_by,
                     *in ? " in " : "", in);
}

static tn_status watch(const tn__call *call, tn_tensor *const *out, int count)
{
    int o = 0, argument, index;
    int64_t at = -1, source_at;
    while (o < count && (at = first_nan(out[o])) < 0)
        o++;
    if (o == count)
        return TN_OK;
    for (int i = 0; i < call->op->arg_count; i++)
        if (is_nan_number(&call->value[i]))
            return TN_OK;
    tn__text text = {0};
    char which[16] = "";
    tn_tensor *source = find_source(call, &argument, &index, &source_at);
    if (source) {
        add_source(&text, source, source_at);
        if (index >= 0)
            snprintf(which, sizeof which, "[%d]", index);
        tn__fail(TN_ERR_NAN, "%s: {%s%s} %s", call->op->name,
                 call->op->arg[argument].name, which,
                 text.data ? text.data : "is NaN");
    } else {
        tn__text_add(&text, count > 1 ? "result %d " : "the result ", o);
        add_place(&text, out[o], at);
        if (!call->into)
            tn__text_add(&text, ", and no argument is");
        tn__fail(TN_ERR_NAN, "%s: %s", call->op->name,
                 text.data ? text.data : "the result is NaN");
    }
    tn__text_release(&text);
    return TN_ERR_NAN;
}

/* ---- backward ----------------------------------------------------------- */

/* Returns the name of the argument as which the input tensor with index `port`
 * of the call was passed. */
static const char *port_name(const tn__node *node, int port)
{
    const tn__plan *plan = node->plan;
    int p = node->port_count == plan->port_count ? port : 0;
    return plan->op->arg[plan->port_arg[p]].name;
}

tn_status tn__anomaly_check(const tn__node *node, tn_tensor *const *g,
                            tn_tensor *const *out)
{
    int64_t at = -1;
    int p = 0, o = 0;
    if (TN__LIKELY(!tn__me.modes.anomaly))
        return TN_OK;
    while (p < node->port_count && (at = first_nan(out[p])) < 0)
        p++;
    if (p == node->port_count)
        return TN_OK;
    tn__text text = {0};
    int64_t given_at = -1;
    while (o < node->out_count && (given_at = first_nan(g[o])) < 0)
        o++;
    if (o < node->out_count) {
        tn__text_add(&text, "the incoming gradient ");
        add_place(&text, g[o], given_at);
        tn__fail(TN_ERR_NAN, "%s", text.data ? text.data : "the gradient is "
                                                           "NaN");
    } else {
        add_place(&text, out[p], at);
        tn__fail(TN_ERR_NAN, "the gradient of {%s} %s, and the incoming "
                 "gradient is not", port_name(node, p),
                 text.data ? text.data : "is NaN");
    }
    tn__text_release(&text);
    return TN_ERR_NAN;
}

__attribute__((constructor)) static void install_hooks(void)
{
    tn__hooks.watch = watch;
}
