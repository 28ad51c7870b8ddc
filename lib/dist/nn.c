/* nn.c: collectives as operators that autograd records.
 *
 * All are linear, so that the backward pass of each is again one of them: the
 * gradients can be differentiated any number of times. They are one registered
 * operator. A group cannot be an argument of an operator, so the call hands it and
 * the options over beside the arguments, and each recorded call keeps its own. */
#include <dist/dist.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/op_register.h>
#include <tenon/ops.h>

typedef struct twin {
    const char *call;  /* "dist_nn_all_reduce" */
    uint32_t kind;     /* TN_COMM_... */
    tn_group *group;   /* kept in a recorded call */
    int root;
    char reduce[32];
    bool staging;
    char label[64];
} twin;

/* What the operator's forward is to do, while it is called. */
static _Thread_local const twin *current;

/* ---- forward -------------------------------------------------------------- */

static tn_tensor *in_place(const twin *t, tn_tensor *x)
{
    x = tn_clone(tn_contiguous(x));
    tn_status status =
        t->kind == TN_COMM_ALL_REDUCE
            ? tn_dist_all_reduce(x, t->group, .reduce = t->reduce,
                                 .staging = t->staging, .label = t->label)
            : tn_dist_broadcast(x, t->root, t->group, .staging = t->staging,
                                .label = t->label);
    return status == TN_OK ? x : NULL;
}

static tn_tensor *run(const twin *t, tn_tensor *x)
{
    switch (t->kind) {
    case TN_COMM_REDUCE_SCATTER:
        return tn_dist_reduce_scatter(tn_contiguous(x), t->group,
                                      .reduce = t->reduce, .staging = t->staging,
                                      .label = t->label);
    case TN_COMM_ALL_GATHER:
        return tn_dist_all_gather(tn_contiguous(x), t->group,
                                  .staging = t->staging, .label = t->label);
    case TN_COMM_ALL_TO_ALL:
        return tn_dist_all_to_all(tn_contiguous(x), t->group,
                                  .staging = t->staging, .label = t->label);
    default:
        return in_place(t, x);
    }
}

static bool has_gradient(const twin *t)
{
    return strcmp(t->reduce, "product") && strcmp(t->reduce, "min") &&
           strcmp(t->reduce, "max");
}

static tn_status forward(tn_op_context *call, tn_tensor **out)
{
    const twin *t = current;
    if (!t)
        return tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, "dist_nn", NULL, "the operator has no group: call "
            "tn_dist_nn_all_reduce or its like");
    if (tn_op_context_needs_grad(call, 0) && !has_gradient(t))
        return tn_error_refuse_argument(
            TN_ERR_UNSUPPORTED, "dist_nn", "reduce",
            ".reduce = \"%s\" has no gradient: use \"sum\" or \"mean\", or pass "
            "tn_detach(input)", t->reduce);
    twin *own = tn_op_context_data(call);
    *own = *t;
    own->group = tn_keep(t->group);
    out[0] = run(t, tn_op_context_tensor(call, 0));
    return out[0] ? TN_OK : tn_error_code();
}

/* ---- backward ------------------------------------------------------------- */

static tn_tensor *call_twin(const twin *t, tn_tensor *input);

/* Zeros, but recorded: the ranks must agree on the collectives of a further
 * backward pass. A product with 0 would keep NaN. */
static tn_tensor *zero_unless(bool keep, tn_tensor *g)
{
    if (keep)
        return g;
    tn_tensor *zeros = tn_full_like(g, 0);
    return tn_masked_fill_scalar(g, tn_eq(zeros, zeros), 0);
}

static tn_tensor *transposed(const twin *t, tn_tensor *g)
{
    twin back = *t;
    switch (t->kind) {
    case TN_COMM_REDUCE_SCATTER:
        back.kind = TN_COMM_ALL_GATHER;
        g = call_twin(&back, g);
        return strcmp(t->reduce, "mean")
                   ? g
                   : tn_mul_scalar(g, 1.0 / tn_group_size(t->group));
    case TN_COMM_ALL_GATHER:
        back.kind = TN_COMM_REDUCE_SCATTER;
        memcpy(back.reduce, "sum", 4);
        return call_twin(&back, g);
    case TN_COMM_BROADCAST:
        back.kind = TN_COMM_ALL_REDUCE;
        memcpy(back.reduce, "sum", 4);
        return zero_unless(tn_group_rank(t->group) == t->root,
                           call_twin(&back, g));
    default:
        return call_twin(&back, g);
    }
}

static tn_status backward(tn_op_context *call, tn_tensor *const *grad,
                          tn_tensor **out)
{
    out[0] = transposed(tn_op_context_data(call), grad[0]);
    return out[0] ? TN_OK : tn_error_code();
}

static void release(void *data)
{
    tn_drop(((twin *)data)->group);
}

/* ---- calls ---------------------------------------------------------------- */

static const tn_op *op;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void define(void)
{
    op = tn_op_register(&(tn_op_rule){
        .size = sizeof(tn_op_rule),
        .signature = "dist_nn(input)",
        .doc = "a collective of <tenon/dist.h> that differentiates",
        .forward = forward,
        .backward = backward,
        .bytes = sizeof(twin),
        .release = release});
}

static tn_tensor *call_twin(const twin *t, tn_tensor *input)
{
    const tn_value value = {.kind = TN_VALUE_TENSOR, .of.tensor = input};
    const twin *before = current;
    tn_tensor *out = NULL;
    current = t;
    tn_status status = tn_op_call(op, &value, 1, &out, 1);
    current = before;
    return status < 0 ? NULL : out;
}

static tn_tensor *begin(twin *t, tn_tensor *input, tn_group *group,
                        const char *reduce, bool staging, const char *label)
{
    const bool pending = tn_error() != NULL;
    if (!tn__dist_group_check(group, t->call))
        return NULL;
    if (pending) { /* the others wait for this call */
        tn__dist_give_up(group, t->call);
        return NULL;
    }
    if (!tn_object_check_kind(input, "tensor", t->call, "input"))
        return NULL;
    t->group = group;
    t->staging = staging;
    strncpy(t->label, label ? label : "", sizeof t->label - 1);
    if (reduce)
        strncpy(t->reduce, reduce, sizeof t->reduce - 1);
    if (pthread_once(&once, define) != 0 || !op)
        return NULL;
    tn_tensor *out = call_twin(t, input);
    tn_error_rename("dist_nn", t->call, "input");
    return out;
}

#define TWIN(name, KIND, options, root_of, reduce_of)                         \
    static const char call[] = "dist_nn_" #name;                              \
    tn_dist_nn_##name##_options o;                                            \
    twin t = {.call = call, .kind = TN_COMM_##KIND, .root = root_of};         \
    if (tn_options_take(tn_dist_nn_##name##_type(), &o, options) < 0)         \
        return NULL;                                                          \
    return begin(&t, input, group, reduce_of, o.staging, o.label)

TN_OPTIONS_TYPE(tn_dist_nn_all_reduce, "dist_nn_all_reduce", "input, group",
                TN__DIST_NN_REDUCE_LIST)
TN_OPTIONS_TYPE(tn_dist_nn_reduce_scatter, "dist_nn_reduce_scatter",
                "input, group", TN__DIST_NN_REDUCE_LIST)
TN_OPTIONS_TYPE(tn_dist_nn_all_gather, "dist_nn_all_gather", "input, group",
                TN__DIST_NN_LIST)
TN_OPTIONS_TYPE(tn_dist_nn_broadcast, "dist_nn_broadcast", "input, root, group",
                TN__DIST_NN_LIST)
TN_OPTIONS_TYPE(tn_dist_nn_all_to_all, "dist_nn_all_to_all", "input, group",
                TN__DIST_NN_LIST)

tn_tensor *
tn_dist_nn_all_reduce_with(tn_tensor *input, tn_group *group,
                           const tn_dist_nn_all_reduce_options *options)
{
    TWIN(all_reduce, ALL_REDUCE, options, -1, o.reduce);
}

tn_tensor *
tn_dist_nn_reduce_scatter_with(tn_tensor *input, tn_group *group,
                               const tn_dist_nn_reduce_scatter_options *options)
{
    TWIN(reduce_scatter, REDUCE_SCATTER, options, -1, o.reduce);
}

tn_tensor *
tn_dist_nn_all_gather_with(tn_tensor *input, tn_group *group,
                           const tn_dist_nn_all_gather_options *options)
{
    TWIN(all_gather, ALL_GATHER, options, -1, NULL);
}

tn_tensor *
tn_dist_nn_broadcast_with(tn_tensor *input, int root, tn_group *group,
                          const tn_dist_nn_broadcast_options *options)
{
    TWIN(broadcast, BROADCAST, options, root, NULL);
}

tn_tensor *
tn_dist_nn_all_to_all_with(tn_tensor *input, tn_group *group,
                           const tn_dist_nn_all_to_all_options *options)
{
    TWIN(all_to_all, ALL_TO_ALL, options, -1, NULL);
}
