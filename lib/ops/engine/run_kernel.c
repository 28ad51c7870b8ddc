/* run_kernel.c: runs calls of KERNEL operators: broadcasts the inputs, promotes
 * their dtypes, makes the outputs and launches the kernel.
 *
 * Most calls are element-wise over contiguous operands of one shape. run_flat
 * makes their outputs and launches the kernel over one dimension. It allocates
 * nothing besides the outputs and takes no lock. run_space runs all other
 * calls: it builds an iteration space first. */
#include <base/error.h>
#include <base/platform.h>
#include <ops/engine/define.h>
#include <ops/engine/mistakes.h>
#include <ops/random/random.h>
#include <ops/engine/space.h>
#include <ops/table.h>
#include <string.h>
#include <tenon/ops.h>

/* The tensors and numbers among the arguments of a call, each in the order of
 * the arguments. */
typedef struct operands {
    tn_tensor *tensor[TN__KERNEL_MAX_INPUTS];
    int count;
    const tn_value *number[TN__KERNEL_MAX_PARAMS];
    int number_count;
    uint64_t key; /* the key of the call, by which its kernel is found
                     (TN__KEY_NUMBER) */
    bool flat;    /* all tensors are contiguous and have the same shape */
} operands;

static bool is_default(const tn_value *v, const tn_value *fallback)
{
    return v->kind == fallback->kind && v->count == fallback->count &&
           v->of.i == fallback->of.i;
}

/* Returns whether the call can read a late number (tn_late_number): no function
 * has looked at its numbers to select the kernel. */
static bool takes_late(const tn__call *call)
{
    return call->op->run == tn__run_kernel &&
           call->op->name == call->running.name;
}

/* Collects the tensors and numbers of a call in *of, and computes the key. */
static inline tn_status gather(const tn__call *call, operands *of)
{
    const tn_op *op = call->op;
    const tn_tensor *first = NULL;
    uint64_t key = 1; /* a leading 1, so that keys of different lengths
                         differ */
    bool flat = true;
    int count = 0, number_count = 0;
    for (int i = 0; i < op->arg_count; i++) {
        const tn_value *v = &call->value[i];
        char role = op->role[i];
        if (role == TN__ROLE_NONE)
            continue;
        uint64_t code = 0;
        if (v->kind == TN_VALUE_TENSOR) {
            tn_tensor *x = v->of.tensor;
            if (TN__UNLIKELY(count == TN__KERNEL_MAX_INPUTS))
                return tn__fail(TN_ERR_UNSUPPORTED,
                                "%s: the call has more than %d tensors",
                                op->name,
                                TN__KERNEL_MAX_INPUTS);
            of->tensor[count++] = x;
            code = x->dtype;
            if (!first)
                first = x;
            else
                flat &= x->ndim == first->ndim &&
                        memcmp(x->shape, first->shape,
                               x->ndim * sizeof x->shape[0]) == 0;
            flat &= x->contiguous;
        } else if (role == TN__ROLE_DTYPE) {
            code = v->kind == TN_VALUE_NONE ? 0 : (uint64_t)v->of.i;
        } else if (v->kind != TN_VALUE_NONE &&
                   !(i == op->with_arg && is_default(v, &op->fallback[i]))) {
            if (TN__UNLIKELY(v->kind == TN_VALUE_NUMBER &&
                             v->count == TN_SCALAR_LATE && !takes_late(call)))
                return tn__fail_late(op, i);
            int kind = v->kind == TN_VALUE_NUMBER
                           ? v->count == TN_SCALAR_LATE ? TN_SCALAR_FLOAT
                                                        : v->count
                       : v->kind == TN_VALUE_FLOAT ? TN_SCALAR_FLOAT
                       : v->kind == TN_VALUE_BOOL  ? TN_SCALAR_BOOL
                                                   : TN_SCALAR_INT;
            code = (uint64_t)(TN__KEY_NUMBER + kind);
            of->number[number_count++] = v;
        }
        key = key << 4 | code;
    }
    of->count = count;
    of->number_count = number_count;
    of->key = key;
    of->flat = flat && count > 0;
    return TN_OK;
}

/* Reads a late number, and lets the recording that is being made read it again at
 * each replay. */
static __attribute__((noinline, cold)) void
take_late(tn__call *call, const tn__op_entry *entry, int p, const double *from)
{
    if (entry->param_float[p])
        call->param_storage[p].f = *from;
    else
        call->param_storage[p].i = (int64_t)*from;
    tn__record_late((uint32_t)p, from);
}

static inline void take_params(tn__call *call, const operands *of,
                               const tn__op_entry *entry)
{
    int count = of->number_count;
    for (int p = 0; p < count; p++) {
        const tn_value *v = of->number[p];
        if (TN__UNLIKELY(v->kind == TN_VALUE_NUMBER &&
                         v->count == TN_SCALAR_LATE)) {
            take_late(call, entry, p, (const double *)(intptr_t)v->of.i);
            continue;
        }
        bool is_float =
            v->kind == TN_VALUE_FLOAT ||
            (v->kind == TN_VALUE_NUMBER && v->count == TN_SCALAR_FLOAT);
        if (entry->param_float[p])
            call->param_storage[p].f = is_float ? v->of.f : (double)v->of.i;
        else
            call->param_storage[p].i = is_float ? (int64_t)v->of.f : v->of.i;
    }
    if (TN__UNLIKELY(entry->draws)) {
        tn_rng_state draw = tn__random_draw();
        call->param_storage[count++].i = (int64_t)draw.seed;
        call->param_storage[count++].i = (int64_t)draw.call;
    }
    call->param = call->param_storage;
    call->param_count = count;
}

static inline tn_built *built_on(tn__op_entry *entry, tn_device *device)
{
    tn_built *built =
        atomic_load_explicit(&entry->built[device->id], memory_order_acquire);
    if (TN__UNLIKELY(!built)) {
        built = tn__device_built(device, entry->program);
        if (built)
            atomic_store_explicit(&entry->built[device->id], built,
                                  memory_order_release);
    }
    return built;
}

/* ---- the short path ------------------------------------------------------ */

static tn_status run_flat(tn__call *call, const operands *of,
                          tn__op_entry *entry)
{
    static const int64_t one = 1;
    const tn_tensor *first = of->tensor[0];
    tn_device *device = first->storage->device;
    tn_launch_operand operand[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS];
    int count = of->count;
    tn_built *built = built_on(entry, device);
    if (TN__UNLIKELY(!built))
        return tn_error_code();
    for (int o = 0; o < entry->out_count; o++) {
        tn_tensor *out = call->into ? tn__ref(call->into[o])
                                    : tn__tensor_new_like(
                                          first, entry->kernel->out[o].dtype);
        if (TN__UNLIKELY(!out))
            return TN_ERR_MEMORY;
        call->out[call->out_count++] = out;
        operand[count + o] = (tn_launch_operand){
            tn__tensor_buffer(out), tn__tensor_buffer_offset(out), &one, NULL,
            NULL};
    }
    for (int k = 0; k < count; k++)
        operand[k] = (tn_launch_operand){tn__tensor_buffer(of->tensor[k]),
                                         tn__tensor_buffer_offset(
                                             of->tensor[k]),
                                         &one, NULL, NULL};
    if (first->numel == 0)
        return TN_OK;
    tn_launch launch = {sizeof launch, 1, 0, 0, &first->numel, operand,
                        call->param, 0};
    tn_fault fault;
    return tn__device_launch(device, entry->program, built, &launch,
                             call->op->name, NULL, &fault);
}

/* ---- the path over an iteration space ------------------------------------ */

/* Returns the dtype to which tensor k is converted before the kernel runs. As
 * in PyTorch, a 0-d tensor does not affect the dtype of the result if a tensor
 * with dimensions has the same category (integer, float). The kernel language
 * does not know this rule, so the 0-d tensor is converted to the dtype of the
 * tensors with dimensions. Other tensors are not converted. */
static tn_dtype promoted(const operands *of, int k)
{
    const tn_tensor *x = of->tensor[k];
    tn_dtype wide = TN_DTYPE_NONE;
    if (x->ndim > 0)
        return x->dtype;
    for (int i = 0; i < of->count; i++)
        if (of->tensor[i]->ndim > 0)
            wide = wide ? tn_dtype_promote(wide, of->tensor[i]->dtype)
                        : of->tensor[i]->dtype;
    bool floating = tn_dtype_is_floating(x->dtype);
    if (!wide || wide == TN_BOOL || x->dtype == TN_BOOL ||
        tn_dtype_is_floating(wide) != floating)
        return x->dtype;
    return wide;
}

/* Calls the operator again with 0-d tensors converted to their promoted dtype.
 * Returns 0, without a call, if no tensor needs a conversion. */
static int run_converted(tn__call *call, const operands *of)
{
    tn_value value[TN__OP_MAX_ARGS];
    bool any = false;
    int k = 0;
    for (int i = 0; i < call->op->arg_count; i++) {
        value[i] = call->value[i];
        if (call->op->role[i] != TN__ROLE_OPERAND ||
            value[i].kind != TN_VALUE_TENSOR)
            continue;
        tn_dtype dtype = promoted(of, k++);
        if (dtype == value[i].of.tensor->dtype)
            continue;
        value[i] = tn__value_tensor(tn_to_dtype(value[i].of.tensor, dtype));
        if (!value[i].of.tensor)
            return tn_error_code();
        any = true;
    }
    if (!any)
        return 0;
    /* The inner call has recorded its results and given them to the scope. The
     * outer call only passes them on. */
    call->out_count = tn__op_run(call->op, value, call->op->arg_count,
                                 call->out, TN__OP_MAX_OUTPUTS);
    if (call->out_count < 0) {
        tn_status status = call->out_count;
        call->out_count = 0;
        return status;
    }
    return TN__DONE;
}

/* Sets bit d of *mask if dimension d of the broadcast shape is a row
 * dimension. */
static tn_status row_mask(const tn__call *call, int ndim, uint32_t *mask)
{
    const tn_op *op = call->op;
    const tn_value *v = op->rows >= 0 ? &call->value[op->rows] : NULL;
    *mask = 0;
    if (v && v->kind == TN_VALUE_INT) {
        int dim = tn__call_dim(call, op->rows, ndim);
        if (dim < 0)
            return TN_ERR_ARGUMENT;
        *mask = 1u << dim;
    } else if (v && v->kind == TN_VALUE_DIMS && v->of.dims->count > 0) {
        for (int i = 0; i < v->of.dims->count; i++) {
            int dim = tn__shape_dim(ndim, v->of.dims->dim[i]);
            if (dim < 0)
                return tn__fail_dim(op->name, op->arg[op->rows].name,
                                    v->of.dims->dim[i], ndim);
            if (*mask >> dim & 1)
                return tn__fail(TN_ERR_ARGUMENT, "%s: {%s:dim} %d is given "
                                "twice", op->name, op->arg[op->rows].name, dim);
            *mask |= 1u << dim;
        }
    } else if (op->rows < 0 && op->cache->def) {
        /* An operator made by tn_op_define reduces the last dimension. */
        *mask = ndim ? 1u << (ndim - 1) : 0;
    } else {
        *mask = (1u << ndim) - 1;
    }
    *mask &= (1u << ndim) - 1; /* a 0-d tensor accepts dim 0, although its shape
                                  has no dimension */
    return TN_OK;
}

/* Returns how many of the last dimensions of input k the kernel addresses by
 * index. */
static int indices_of(const tn__kernel *kernel, int k)
{
    return kernel->input[k].guarded ? 0 : kernel->input[k].index_count;
}

/* Sets *shape to the shape to which the inputs broadcast, without the last
 * dimensions of inputs that the kernel addresses by index. */
static tn_status broadcast(const tn__call *call, const operands *of,
                           const tn__op_entry *entry, tn__shape *shape)
{
    shape->ndim = 0;
    for (int k = 0; k < entry->kernel->input_count; k++) {
        int arg = entry->input_arg[k];
        if (arg < 0)
            continue;
        const tn_tensor *x = call->value[arg].of.tensor;
        int indices = indices_of(entry->kernel, k);
        if (TN__UNLIKELY(x->ndim < indices)) {
            char text[TN__SHAPE_TEXT];
            return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s, but is read "
                            "with %d indices; expected at least as many "
                            "dimensions", call->op->name,
                            call->op->arg[arg].name,
                            tn__shape_text(text, x->ndim, x->shape), indices);
        }
        if (tn__shape_broadcast(shape, x->ndim - indices, x->shape))
            continue;
        const char *name[TN__KERNEL_MAX_INPUTS];
        int count = 0;
        for (int i = 0; i < call->op->arg_count; i++)
            if (call->op->role[i] == TN__ROLE_OPERAND &&
                call->value[i].kind == TN_VALUE_TENSOR)
                name[count++] = call->op->arg[i].name;
        return tn__fail_broadcast(call->op->name, count, name, of->tensor);
    }
    return TN_OK;
}

/* Returns the tensor for output o: a new tensor, or the tensor that the caller
 * gave (out=) if it has the right shape. */
static tn_tensor *output(tn__call *call, int o, tn_device *device,
                         tn_dtype dtype, const tn__shape *shape)
{
    if (!call->into)
        return tn__tensor_new(device, dtype, shape->ndim, shape->dim,
                              call->op->name);
    tn_tensor *x = call->into[o];
    char want[TN__SHAPE_TEXT], have[TN__SHAPE_TEXT];
    if (!tn__shape_equal(x->ndim, x->shape, shape->ndim, shape->dim))
        return tn__fail_null(TN_ERR_SHAPE,
                             "%s: the result has shape %s, but the tensor to "
                             "write it into has %s", call->op->name,
                             tn__shape_text(want, shape->ndim, shape->dim),
                             tn__shape_text(have, x->ndim, x->shape));
    return tn__ref(x);
}

/* Checks that each input which the kernel declares as one value per row has
 * size 1 in the row dimensions. */
static tn_status check_row_inputs(const tn__call *call,
                                  const tn__op_entry *entry, int ndim,
                                  uint32_t mask)
{
    for (int k = 0; k < entry->kernel->input_count; k++) {
        int arg = entry->input_arg[k];
        if (arg < 0 || entry->kernel->input[k].level == TN_LEVEL_ELEM)
            continue;
        const tn_tensor *x = call->value[arg].of.tensor;
        for (int d = 0; d < x->ndim; d++) {
            char text[TN__SHAPE_TEXT];
            if (x->shape[d] == 1 || !(mask >> (ndim - x->ndim + d) & 1))
                continue;
            return tn__fail(TN_ERR_SHAPE, "%s: {%s} %s must have size 1 along "
                            "{dim} %d", call->op->name, call->op->arg[arg].name,
                            tn__shape_text(text, x->ndim, x->shape), d);
        }
    }
    return TN_OK;
}

static tn_status run_space(tn__call *call, const operands *of,
                           tn__op_entry *entry)
{
    const tn_op *op = call->op;
    const tn__kernel *kernel = entry->kernel;
    tn__shape *shape = &call->shape_storage;
    tn_status status = broadcast(call, of, entry, shape);
    if (status < 0)
        return status;
    uint32_t mask = 0;
    if (kernel->has_row || op->rows >= 0) {
        status = row_mask(call, shape->ndim, &mask);
        if (status >= 0)
            status = check_row_inputs(call, entry, shape->ndim, mask);
        if (status < 0)
            return status;
    }
    call->shape = shape;
    call->row_dims = mask;

    tn__space space;
    tn__space_begin(&space, shape, mask, kernel->has_row);
    if (op->nonempty && tn__space_row_numel(&space) == 0)
        return tn__fail(TN_ERR_SHAPE, "%s: {%s:}a dimension of size 0 has no "
                        "element to select", op->name,
                        op->arg[0].name);
    for (int k = 0; k < kernel->input_count; k++) {
        int arg = entry->input_arg[k];
        if (arg >= 0 && kernel->input[k].guarded)
            tn__space_add_guarded(&space, shape, mask,
                                  call->value[arg].of.tensor);
        else if (arg >= 0)
            tn__space_add_indexed(&space, shape, mask,
                                  call->value[arg].of.tensor,
                                  indices_of(kernel, k));
        else
            tn__space_add_number(&space, shape, mask,
                                 arg == TN__INPUT_POSITION);
    }
    bool keep = op->keepdim >= 0 && call->value[op->keepdim].of.i;
    for (int o = 0; o < kernel->output_count; o++) {
        bool row = kernel->has_row && kernel->out[o].level != TN_LEVEL_ELEM;
        tn__shape own;
        tn__space_out_shape(shape, row ? mask : 0, keep, &own);
        tn_tensor *out = output(call, o, of->tensor[0]->storage->device,
                                kernel->out[o].dtype, &own);
        if (!out)
            return tn_error_code();
        call->out[call->out_count++] = out;
        tn__space_add_out(&space, shape, mask, row, keep, out);
    }
    return tn__kernel_launch(of->tensor[0]->storage->device, kernel, &space,
                             call->param, op->name);
}

/* ---- writing into given tensors ------------------------------------------ */

/* Returns whether several elements of x have the same address because a stride
 * is 0, as after expand. Other overlaps are not found. */
static bool repeats(const tn_tensor *x)
{
    bool repeated = false;
    for (int d = 0; d < x->ndim; d++) {
        if (x->shape[d] == 0)
            return false;
        repeated |= x->stride[d] == 0 && x->shape[d] > 1;
    }
    return repeated;
}

/* Returns whether writing result o could overwrite elements of the operand x
 * that are read later. If x and the result are the same view, a kernel normally
 * reads each element just before it overwrites it, and never again. This does
 * not hold if the kernel reads an input by index, or if the result has one
 * value per row. */
static bool collides(const tn__call *call, const tn__op_entry *entry, int o,
                     const tn_tensor *x)
{
    const tn_tensor *out = call->into[o];
    if (x->storage != out->storage)
        return false;
    bool apart = entry->kernel->has_row &&
                 entry->kernel->out[o].level != TN_LEVEL_ELEM;
    for (int k = 0; k < entry->kernel->input_count; k++)
        apart |= indices_of(entry->kernel, k) > 0;
    return tn__tensor_overlaps(out, x) || (apart && out->offset == x->offset);
}

/* Checks the tensors that the caller gave for the results (out=): there is one
 * for each result, it is on the device of the inputs, and it overlaps neither
 * an input nor another result in memory. */
static tn_status check_into(const tn__call *call, const operands *of,
                            const tn__op_entry *entry)
{
    char text[TN__SHAPE_TEXT];
    const char *name = call->op->name;
    const tn__kernel *kernel = entry->kernel;
    const tn_device *device = of->tensor[0]->storage->device;
    if (call->into_count != kernel->output_count)
        return tn__fail(TN_ERR_ARGUMENT, "%s: the operator has %d results, but "
                        "%d output tensors are given", name,
                        kernel->output_count, call->into_count);
    for (int o = 0; o < call->into_count; o++) {
        const tn_tensor *x = call->into[o];
        if (x->storage->device != device)
            return tn__fail(TN_ERR_DEVICE,
                            "%s: the output tensor is on %s, the inputs are on "
                            "%s: create it there, or move the inputs with "
                            "tn_to()",
                            name, x->storage->device->name, device->name);
        if (repeats(x))
            return tn__fail(TN_ERR_STATE,
                            "%s: several elements of the output tensor, %s, "
                            "share memory; pass its tn_clone() instead",
                            name, tn__shape_text(text, x->ndim, x->shape));
        for (int k = 0; k < of->count; k++)
            if (collides(call, entry, o, of->tensor[k]))
                return tn__fail(TN_ERR_STATE,
                                "%s: the output tensor partly overlaps an "
                                "input; pass a tn_clone() of the input",
                                name);
        for (int k = 0; k < o; k++)
            if (x->storage == call->into[k]->storage && x->numel &&
                (x->offset == call->into[k]->offset ||
                 tn__tensor_overlaps(x, call->into[k])))
                return tn__fail(TN_ERR_STATE,
                                "%s: results %d and %d would be written into "
                                "the same memory", name, k, o);
        if (kernel->output_count > 1 && x->dtype != kernel->out[o].dtype)
            return tn__fail(TN_ERR_DTYPE,
                            "%s: result %d is %s, but the tensor to write it "
                            "into is %s", name, o,
                            tn_dtype_name(kernel->out[o].dtype),
                            tn_dtype_name(x->dtype));
    }
    return TN_OK;
}

/* Returns whether a result of dtype `from` may be stored as dtype `to`. As in
 * PyTorch, the category (bool, integer, float) must not become lower. */
static bool can_store(tn_dtype from, tn_dtype to)
{
    bool from_float = tn_dtype_is_floating(from);
    return !(from_float && !tn_dtype_is_floating(to)) &&
           !(from != TN_BOOL && to == TN_BOOL);
}

/* ---- finding the kernel and running the call ----------------------------- */

static tn__op_entry *find_entry(const tn__call *call, uint64_t key,
                                tn_dtype out_dtype)
{
    tn__op_entry *entry = tn__op_entry_find(call->op->cache, key);
    if (TN__LIKELY(entry != NULL))
        return entry;
    return tn__op_entry_make(call->op, call->value, out_dtype, key);
}

static tn_status run_call(tn__call *call)
{
    operands of;
    tn_status status = gather(call, &of);
    if (TN__UNLIKELY(status < 0))
        return status;
    if (TN__UNLIKELY(of.count == 0))
        return tn__fail_numbers(call->op);
    if (TN__UNLIKELY(!of.flat && of.count > 1 && !call->into)) {
        int done = run_converted(call, &of);
        if (done != TN_OK)
            return done;
    }
    tn__op_entry *entry = find_entry(call, of.key << 4, TN_DTYPE_NONE);
    if (TN__UNLIKELY(!entry))
        return tn_error_code();
    bool flat = of.flat && entry->pointwise;
    if (TN__UNLIKELY(call->into != NULL)) {
        status = check_into(call, &of, entry);
        if (status < 0)
            return status;
        tn_tensor *x = call->into[0];
        tn_dtype made = entry->kernel->out[0].dtype;
        if (made != x->dtype) {
            if (!can_store(made, x->dtype))
                return tn__fail(TN_ERR_DTYPE,
                                "%s: a result of %s cannot be written into a "
                                "tensor of %s; convert the inputs with "
                                "tn_to_dtype",
                                call->op->name, tn_dtype_name(made),
                                tn_dtype_name(x->dtype));
            entry = find_entry(call, of.key << 4 | x->dtype, x->dtype);
            if (!entry)
                return tn_error_code();
        }
        if (call->records) {
            call->kernel = entry->kernel;
            status = tn__hooks.keep_original(call);
            if (status < 0)
                return status;
        }
        for (int o = 0; o < call->into_count; o++)
            flat = flat && call->into[o]->contiguous &&
                   tn__shape_equal(call->into[o]->ndim, call->into[o]->shape,
                                   of.tensor[0]->ndim, of.tensor[0]->shape);
    }
    if (of.number_count || entry->draws)
        take_params(call, &of, entry);
    call->kernel = entry->kernel;
    if (TN__LIKELY(flat)) {
        status = run_flat(call, &of, entry);
        if (call->op->differentiable && of.tensor[0]) {
            call->shape_storage.ndim = of.tensor[0]->ndim;
            for (int d = 0; d < of.tensor[0]->ndim; d++)
                call->shape_storage.dim[d] = of.tensor[0]->shape[d];
            call->shape = &call->shape_storage;
        }
        return status;
    }
    return run_space(call, &of, entry);
}

tn_status tn__run_kernel(tn__call *call)
{
    const tn_status status = run_call(call);
    if (TN__UNLIKELY(tn__me.recording != NULL))
        tn__record_late_begin(); /* a call without elements launches nothing */
    return status;
}
