/* collective.c: the public collectives: their checks, and what they pass on. */
#include <dist/dist.h>

#include <inttypes.h>
#include <string.h>
#include <tenon/autograd.h>
#include <tenon/ops.h>

/* The options of all collectives. */
typedef struct common {
    const char *reduce; /* NULL: the collective has no reduction */
    bool staging;
    const char *label;
    tn_work **work;
} common;

static bool check_tensor(tn_tensor *x, const char *call, const char *argument)
{
    if (!tn_object_check_kind(x, "tensor", call, argument))
        return false;
    const tn_given given = {argument, x};
    if (!tn_tensor_is_contiguous(x))
        tn_error_refuse(TN_ERR_ARGUMENT, call, &given, 1,
                        "%s is not contiguous: pass tn_contiguous(%s)", argument,
                        argument);
    else if (tn_grad_mode() && tn_tensor_requires_grad(x))
        tn_error_refuse(TN_ERR_STATE, call, &given, 1,
                        "%s requires a gradient, and collectives are not "
                        "recorded: call it within TN_NO_GRAD, or pass "
                        "tn_detach(%s)", argument, argument);
    else
        return true;
    return false;
}

static bool read_reduction(const char *call, const common *o, tn_tensor *x,
                           tn__dist_call *out)
{
    static const struct {
        const char *name;
        uint32_t reduce;
        bool mean;
    } table[] = {{"sum", TN_COMM_SUM, false}, {"mean", TN_COMM_SUM, true},
                 {"product", TN_COMM_PRODUCT, false},
                 {"min", TN_COMM_MIN, false}, {"max", TN_COMM_MAX, false}};
    const tn_dtype dtype = tn_tensor_dtype(x);
    const tn_given given = {"x", x};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].name, o->reduce))
            continue;
        out->reduce = table[i].reduce;
        out->mean = table[i].mean;
        if (dtype == TN_F8E4M3 || dtype == TN_F8E5M2)
            tn_error_refuse(TN_ERR_DTYPE, call, &given, 1, "%s is not reduced: "
                            "convert it by tn_to_dtype", tn_dtype_name(dtype));
        else if (out->mean && !tn_dtype_is_floating(dtype))
            tn_error_refuse(TN_ERR_DTYPE, call, &given, 1,
                            "the mean of %s is not an integer: use \"sum\", or "
                            "convert it by tn_to_dtype", tn_dtype_name(dtype));
        else
            return true;
        return false;
    }
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, "reduce", ".reduce is \"%s\": "
                             "expected sum, mean, product, min or max", o->reduce);
    return false;
}

/* Runs a collective, or begins it if the caller wants a handle. */
static tn_status run(tn_group *group, const common *o, tn__dist_call *call)
{
    if (tn_error())
        return tn__dist_give_up(group, call->call);
    call->staging = o->staging;
    call->label = o->label;
    if (!o->work) {
        tn_scope *scope = tn_scope_open();
        tn_work *work = tn__dist_work_begin(group, call);
        tn_status status = work ? tn_work_wait(work) : tn_error_code();
        tn_scope_close(scope);
        return status;
    }
    tn_work *work = tn__dist_work_begin(group, call);
    if (!work)
        return tn_error_code();
    *o->work = work;
    return TN_OK;
}

static bool check_root(const tn_group *group, int root, const char *call,
                       const char *argument)
{
    if (root >= 0 && root < group->count)
        return true;
    tn_error_refuse_argument(TN_ERR_ARGUMENT, call, argument,
                             "%s is %d: %s has the ranks 0 to %d", argument, root,
                             group->name, (int)group->count - 1);
    return false;
}

/* ---- in place ------------------------------------------------------------- */

TN_OPTIONS_TYPE(tn_dist_all_reduce, "dist_all_reduce", "x, group",
                TN__DIST_REDUCE_LIST)

tn_status tn_dist_all_reduce_with(tn_tensor *x, tn_group *group,
                                  const tn_dist_all_reduce_options *options)
{
    tn_dist_all_reduce_options o;
    tn__dist_call call = {.call = "dist_all_reduce", .kind = TN_COMM_ALL_REDUCE,
                          .root = -1, .in = x, .out = x};
    if (tn_options_take(tn_dist_all_reduce_type(), &o, options) < 0 ||
        !check_tensor(x, call.call, "x") ||
        !tn__dist_group_check(group, call.call))
        return tn_error_code();
    const common c = {o.reduce, o.staging, o.label, o.work};
    if (!read_reduction(call.call, &c, x, &call))
        return tn_error_code();
    call.count = (uint64_t)tn_tensor_numel(x);
    return run(group, &c, &call);
}

TN_OPTIONS_TYPE(tn_dist_broadcast, "dist_broadcast", "x, root, group",
                TN__DIST_MOVE_LIST)

tn_status tn_dist_broadcast_with(tn_tensor *x, int root, tn_group *group,
                                 const tn_dist_broadcast_options *options)
{
    tn_dist_broadcast_options o;
    tn__dist_call call = {.call = "dist_broadcast", .kind = TN_COMM_BROADCAST,
                          .root = root, .in = x, .out = x};
    if (tn_options_take(tn_dist_broadcast_type(), &o, options) < 0 ||
        !check_tensor(x, call.call, "x") ||
        !tn__dist_group_check(group, call.call) ||
        !check_root(group, root, call.call, "root"))
        return tn_error_code();
    call.count = (uint64_t)tn_tensor_numel(x);
    return run(group, &(common){NULL, o.staging, o.label, o.work}, &call);
}

TN_OPTIONS_TYPE(tn_dist_send, "dist_send", "x, to, group", TN__DIST_MOVE_LIST)
TN_OPTIONS_TYPE(tn_dist_recv, "dist_recv", "x, from, group", TN__DIST_MOVE_LIST)

static tn_status pass(tn__dist_call *call, tn_tensor *x, tn_group *group,
                      const common *o, const char *argument)
{
    if (!check_tensor(x, call->call, "x") ||
        !tn__dist_group_check(group, call->call) ||
        !check_root(group, call->root, call->call, argument))
        return tn_error_code();
    if (call->root == group->rank)
        return tn_error_refuse_argument(
            TN_ERR_ARGUMENT, call->call, argument,
            "rank %d of %s is this process", call->root, group->name);
    call->count = (uint64_t)tn_tensor_numel(x);
    return run(group, o, call);
}

tn_status tn_dist_send_with(tn_tensor *x, int to, tn_group *group,
                            const tn_dist_send_options *options)
{
    tn_dist_send_options o;
    tn__dist_call call = {.call = "dist_send", .kind = TN_COMM_SEND, .root = to,
                          .in = x};
    if (tn_options_take(tn_dist_send_type(), &o, options) < 0)
        return tn_error_code();
    return pass(&call, x, group, &(common){NULL, o.staging, o.label, o.work},
                "to");
}

tn_status tn_dist_recv_with(tn_tensor *x, int from, tn_group *group,
                            const tn_dist_recv_options *options)
{
    tn_dist_recv_options o;
    tn__dist_call call = {.call = "dist_recv", .kind = TN_COMM_RECV,
                          .root = from, .out = x};
    if (tn_options_take(tn_dist_recv_type(), &o, options) < 0)
        return tn_error_code();
    return pass(&call, x, group, &(common){NULL, o.staging, o.label, o.work},
                "from");
}

TN_OPTIONS_TYPE(tn_dist_barrier, "dist_barrier", "group", TN__DIST_MOVE_LIST)

tn_status tn_dist_barrier_with(tn_group *group,
                               const tn_dist_barrier_options *options)
{
    tn_dist_barrier_options o;
    tn__dist_call call = {.call = "dist_barrier", .kind = TN_COMM_BARRIER,
                          .root = -1};
    if (tn_options_take(tn_dist_barrier_type(), &o, options) < 0 ||
        !tn__dist_group_check(group, call.call))
        return tn_error_code();
    return run(group, &(common){NULL, o.staging, o.label, o.work}, &call);
}

/* ---- with a result -------------------------------------------------------- */

/* Makes the result: the input's shape with another dimension 0. */
static tn_tensor *result_of(tn_tensor *input, int64_t rows)
{
    const int ndim = tn_tensor_ndim(input);
    tn_dims_list shape = tn_dims_from_array(tn_tensor_shape(input), ndim);
    shape.dim[0] = rows;
    tn_device *before = tn_device_current();
    tn_device_set(tn_tensor_device(input));
    tn_tensor *out = tn_empty(shape, .dtype = tn_tensor_dtype(input));
    tn_device_set(before);
    return out;
}

/* The input of n slices, if slices, or the result's. */
static tn_tensor *make(tn__dist_call *call, tn_tensor *input, tn_group *group,
                       const common *o)
{
    if (!check_tensor(input, call->call, "input") ||
        !tn__dist_group_check(group, call->call) ||
        (o->reduce && !read_reduction(call->call, o, input, call)))
        return NULL;
    const tn_given given = {"input", input};
    const bool sliced = call->kind != TN_COMM_ALL_GATHER;
    const int64_t rows = tn_tensor_ndim(input) ? tn_tensor_size(input, 0) : -1;
    if (rows < 0 || (sliced && rows % group->count)) {
        tn_error_refuse(TN_ERR_SHAPE, call->call, &given, 1,
                        rows < 0 ? "input has no dimension 0"
                                 : "dimension 0 of input is %" PRId64 ": expected "
                                   "a multiple of the %d ranks of %s",
                        rows, (int)group->count, group->name);
        return NULL;
    }
    tn_scope *scope = tn_scope_open();
    tn_tensor *out = result_of(input, call->kind == TN_COMM_ALL_GATHER
                                          ? rows * group->count
                                      : call->kind == TN_COMM_ALL_TO_ALL
                                          ? rows
                                          : rows / group->count);
    out = tn_scope_result(scope, out);
    if (!out)
        return NULL;
    call->in = input;
    call->out = out;
    call->root = -1;
    call->count = (uint64_t)tn_tensor_numel(input);
    if (sliced)
        call->count /= (uint64_t)group->count;
    return run(group, o, call) == TN_OK ? out : NULL;
}

TN_OPTIONS_TYPE(tn_dist_reduce_scatter, "dist_reduce_scatter", "input, group",
                TN__DIST_REDUCE_LIST)

tn_tensor *
tn_dist_reduce_scatter_with(tn_tensor *input, tn_group *group,
                            const tn_dist_reduce_scatter_options *options)
{
    tn_dist_reduce_scatter_options o;
    tn__dist_call call = {.call = "dist_reduce_scatter",
                          .kind = TN_COMM_REDUCE_SCATTER};
    if (tn_options_take(tn_dist_reduce_scatter_type(), &o, options) < 0)
        return NULL;
    return make(&call, input, group,
                &(common){o.reduce, o.staging, o.label, o.work});
}

TN_OPTIONS_TYPE(tn_dist_all_gather, "dist_all_gather", "input, group",
                TN__DIST_MOVE_LIST)

tn_tensor *tn_dist_all_gather_with(tn_tensor *input, tn_group *group,
                                   const tn_dist_all_gather_options *options)
{
    tn_dist_all_gather_options o;
    tn__dist_call call = {.call = "dist_all_gather", .kind = TN_COMM_ALL_GATHER};
    if (tn_options_take(tn_dist_all_gather_type(), &o, options) < 0)
        return NULL;
    return make(&call, input, group, &(common){NULL, o.staging, o.label, o.work});
}

TN_OPTIONS_TYPE(tn_dist_all_to_all, "dist_all_to_all", "input, group",
                TN__DIST_MOVE_LIST)

tn_tensor *tn_dist_all_to_all_with(tn_tensor *input, tn_group *group,
                                   const tn_dist_all_to_all_options *options)
{
    tn_dist_all_to_all_options o;
    tn__dist_call call = {.call = "dist_all_to_all", .kind = TN_COMM_ALL_TO_ALL};
    if (tn_options_take(tn_dist_all_to_all_type(), &o, options) < 0)
        return NULL;
    return make(&call, input, group, &(common){NULL, o.staging, o.label, o.work});
}
