/* define.c: operators that a program defines as a kernel source (tn_op_define),
 * and kernels that are not in the operator table but run like operators
 * (tn__apply_kernel). */
#include <base/error.h>
#include <base/lock.h>
#include <base/memory.h>
#include <ops/engine/define.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/space.h>
#include <ops/table.h>
#include <string.h>

/* ---- tn_op_define -------------------------------------------------------- */

/* An operator together with everything that its tn_op points to. */
typedef struct user_op {
    tn_op op;
    tn__op_rare rare;
    struct tn__op_cache cache;
    tn_op_arg arg[TN__OP_MAX_ARGS];
    tn_value fallback[TN__OP_MAX_ARGS];
    char role[TN__OP_MAX_ARGS + 1];
} user_op;

/* The maximum number of arguments. The key of a call has 64 bits, four for each
 * argument, four for the dtype of the results and a leading 1. */
#define USER_MAX_ARGS 14

static user_op *user_make(const char *text)
{
    user_op *own = tn__calloc(1, sizeof *own);
    char *kept = own ? tn__strdup(text) : NULL;
    const tn__def *def = kept ? tn__def_parse(kept, "op_define") : NULL;
    if (!def)
        goto fail;
    int inputs = tn__def_input_count(def), params = tn__def_param_count(def);
    int count = 0;
    if (inputs + params > USER_MAX_ARGS) {
        tn__fail(TN_ERR_UNSUPPORTED, "%s: more than %d inputs and parameters",
                 tn__def_name(def), USER_MAX_ARGS);
        goto fail;
    }
    if (tn__def_type_count(def)) {
        tn__fail(TN_ERR_UNSUPPORTED, "%s: operators of a program have no "
                 "`type` parameters; write the dtype in the source, as in "
                 "f32(x)", tn__def_name(def));
        goto fail;
    }
    for (int i = 0; i < inputs; i++) {
        const char *name = tn__def_input_name(def, i);
        if (tn__def_input_is_offset(def, i))
            continue;
        own->role[count] = TN__ROLE_OPERAND;
        own->arg[count++] =
            (tn_op_arg){name, 1u << TN_VALUE_TENSOR, false, false,
                        sizeof(tn_op_arg), NULL};
    }
    own->op.tensor_count = (uint8_t)count;
    if (!count) {
        tn__fail(TN_ERR_ARGUMENT, "%s: an operator must have a tensor argument",
                 tn__def_name(def));
        goto fail;
    }
    for (int i = 0; i < params; i++) {
        own->role[count] = TN__ROLE_PARAM;
        own->arg[count++] = (tn_op_arg){tn__def_param_name(def, i),
                                        1u << TN_VALUE_FLOAT, false, false,
                                        sizeof(tn_op_arg), NULL};
    }
    own->cache.def = def;
    own->op.name = tn__def_name(def);
    own->op.rare = &own->rare;
    own->rare.signature = own->op.kernel = kept;
    own->op.doc = "An operator of the program's own.";
    own->op.sort = TN__OP_KERNEL;
    own->op.differentiable = true;
    own->op.arg_count = (uint8_t)count;
    own->op.arg = own->arg;
    own->op.fallback = own->fallback;
    own->op.run = tn__run_kernel;
    own->op.with_arg = own->op.rows = own->op.keepdim = -1;
    own->op.role = own->role;
    own->op.cache = &own->cache;
    return own;

fail:
    tn__def_drop(def);
    tn__free(kept);
    tn__free(own);
    return NULL;
}

const tn_op *tn_op_define(const char *text)
{
    if (!text)
        return tn__fail_null(TN_ERR_ARGUMENT, "op_define: text is NULL");
    user_op *own = user_make(text);
    if (!own)
        return NULL;
    if (tn__op_user_add(&own->op, "op_define") >= 0)
        return &own->op;
    tn__def_drop(own->cache.def);
    tn__free((char *)(uintptr_t)own->op.kernel);
    tn__free(own);
    return NULL;
}

const tn_op *tn_op_define_once(const char *text, const tn_op **op)
{
    static tn__lock once = TN__LOCK_INIT;
    if (!op)
        return tn__fail_null(TN_ERR_ARGUMENT, "op_define_once: op is NULL");
    const tn_op *found = __atomic_load_n(op, __ATOMIC_ACQUIRE);
    if (found)
        return found;
    tn__lock_take(&once);
    found = __atomic_load_n(op, __ATOMIC_RELAXED);
    if (!found) {
        found = tn_op_define(text);
        __atomic_store_n(op, found, __ATOMIC_RELEASE);
    }
    tn__lock_give(&once);
    return found;
}

/* ---- tn__apply_kernel ---------------------------------------------------- */

/* An operator that represents a kernel when autograd records a call of
 * tn__apply_kernel. Its arguments are the kernel's inputs. There is one such
 * operator for each recorded kernel. They are never freed, because they are
 * few. */
typedef struct apply_op {
    tn_op op;
    const tn__kernel *kernel;
    struct apply_op *next;
    struct tn__op_cache cache;
    tn_op_arg arg[TN__KERNEL_MAX_INPUTS];
} apply_op;

#define APPLY_BUCKETS 256
static tn__lock lock = TN__LOCK_INIT;
static _Atomic(apply_op *) applied[APPLY_BUCKETS];

static apply_op *apply_find(const tn__kernel *kernel)
{
    apply_op *a = atomic_load_explicit(&applied[kernel->key[0] % APPLY_BUCKETS],
                                       memory_order_acquire);
    while (a && a->kernel != kernel)
        a = a->next;
    return a;
}

static const tn__op_rare no_rare;

static const tn_op *apply_op_of(const tn__kernel *kernel, const char *what)
{
    apply_op *a = apply_find(kernel);
    if (a)
        return &a->op;
    tn__lock_take(&lock);
    a = apply_find(kernel);
    if (!a && (a = tn__calloc(1, sizeof *a))) {
        a->kernel = kernel;
        for (int k = 0; k < kernel->input_count; k++)
            a->arg[k] = (tn_op_arg){kernel->input[k].name,
                                    1u << TN_VALUE_TENSOR, true, false,
                                    sizeof(tn_op_arg), NULL};
        a->op = (tn_op){.id = -1, .sort = TN__OP_KERNEL,
                        .differentiable = true, .name = what,
                        .arg_count = (uint8_t)kernel->input_count,
                        .arg = a->arg, .with_arg = -1, .rows = -1,
                        .keepdim = -1, .role = "", .rare = &no_rare,
                        .cache = &a->cache};
        _Atomic(apply_op *) *bucket = &applied[kernel->key[0] % APPLY_BUCKETS];
        a->next = atomic_load_explicit(bucket, memory_order_relaxed);
        atomic_store_explicit(bucket, a, memory_order_release);
    }
    tn__lock_give(&lock);
    return a ? &a->op : NULL;
}

static tn_status apply_space(const tn__kernel *kernel,
                             tn_tensor *const *input, tn__call *call,
                             const char *what)
{
    tn__shape *shape = &call->shape_storage;
    const char *name[TN__KERNEL_MAX_INPUTS];
    tn_device *device = NULL;
    for (int k = 0; k < kernel->input_count; k++) {
        name[k] = kernel->input[k].name;
        if (input[k])
            device = input[k]->storage->device;
    }
    for (int k = 0; k < kernel->input_count; k++)
        if (input[k] && !tn__shape_broadcast(shape, input[k]->ndim,
                                             input[k]->shape))
            return tn__fail_broadcast(what, kernel->input_count, name, input);
    if (!device)
        return tn__fail(TN_ERR_INTERNAL, "%s: no input of the kernel is a tensor, so it has no device", what);
    uint32_t rows = call->row_dims;
    tn__space space;
    tn__space_begin(&space, shape, rows, kernel->has_row);
    for (int k = 0; k < kernel->input_count; k++)
        if (input[k])
            tn__space_add(&space, shape, rows, input[k]);
        else
            tn__space_add_number(&space, shape, rows,
                                 strcmp(name[k], "position") == 0);
    for (int o = 0; o < kernel->output_count; o++) {
        bool row = kernel->has_row && kernel->out[o].level != TN_LEVEL_ELEM;
        tn__shape own;
        tn__space_out_shape(shape, row ? rows : 0, true, &own);
        tn_tensor *out = tn__tensor_new(device, kernel->out[o].dtype, own.ndim,
                                        own.dim, what);
        if (!out)
            return tn_error_code();
        call->out[call->out_count++] = out;
        tn__space_add_out(&space, shape, rows, row, true, out);
    }
    return tn__kernel_launch(device, kernel, &space, call->param, what);
}

tn_status tn__apply_kernel(const tn__kernel *kernel, tn_tensor *const *input,
                           const tn_number *param, const tn__shape *shape,
                           uint32_t row_dims, const char *what,
                           tn_tensor **out)
{
    tn_value value[TN__KERNEL_MAX_INPUTS];
    bool grad = false;
    for (int k = 0; k < kernel->input_count; k++) {
        value[k] = tn__value_optional(input[k]);
        grad = grad || (input[k] && tn__tensor_tracks(input[k]));
    }
    tn__call call;
    tn__call_begin(&call, NULL, 0);
    call.value = value;
    call.out = out;
    call.kernel = kernel;
    call.param = param;
    call.param_count = kernel->param_count;
    call.row_dims = row_dims;
    call.shape = &call.shape_storage;
    call.shape_storage.ndim = shape ? shape->ndim : 0;
    for (int d = 0; d < call.shape_storage.ndim; d++)
        call.shape_storage.dim[d] = shape->dim[d];
    tn_status status = apply_space(kernel, input, &call, what);
    if (status >= 0 && grad && tn__hooks.recording && tn__hooks.recording()) {
        call.op = apply_op_of(kernel, what);
        status = call.op ? tn__hooks.record(&call) : TN_ERR_MEMORY;
    }
    int owned = 0;
    while (status >= 0 && owned < call.out_count)
        if (!tn__scope_own(out[owned++]))
            status = TN_ERR_MEMORY;
    for (; owned < call.out_count; owned++)
        tn__unref(out[owned]);
    for (int o = 0; status < 0 && o < call.out_count; o++)
        out[o] = NULL; /* because some callers check the outputs, not the
                          status */
    return status;
}
