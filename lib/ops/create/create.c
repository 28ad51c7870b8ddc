/* create.c: operators that make new tensors (PyTorch's full, zeros_like,
 * arange, rand, eye and others). Their kernels read no tensor. The iteration
 * space has the shape of the new tensor. */
#include <math.h>
#include <ops/engine/define.h>
#include <ops/engine/native.h>
#include <ops/random/random.h>

static int arg_named(const tn_op *op, const char *name)
{
    for (int i = 0; i < op->arg_count; i++)
        if (strcmp(op->arg[i].name, name) == 0)
            return i;
    return -1;
}

/* Finds the shape, dtype and device of the new tensor from the arguments of the
 * call. If the operator has an argument `input`, its shape, dtype and device
 * are used where the call gives none. An operator may have the argument
 * `count`, or `n` and `m`, in place of `size`. */
static tn_status plan(const tn__call *call, tn__shape *shape, tn_dtype *dtype,
                      tn_device **device)
{
    const tn_op *op = call->op;
    int size = arg_named(op, "size"), count = arg_named(op, "count");
    int input = arg_named(op, "input"), n = arg_named(op, "n");
    shape->ndim = 0;
    *dtype = tn_default_dtype();
    *device = NULL;
    if (input >= 0) {
        const tn_tensor *x = tn__call_tensor(call, input);
        shape->ndim = x->ndim;
        memcpy(shape->dim, x->shape, x->ndim * sizeof x->shape[0]);
        *dtype = x->dtype;
        *device = x->storage->device;
    }
    if (size >= 0) {
        const tn_dims_list *dims = call->value[size].of.dims;
        shape->ndim = dims->count;
        for (int d = 0; d < dims->count; d++)
            shape->dim[d] = dims->dim[d];
    } else if (count >= 0) {
        shape->ndim = 1;
        shape->dim[0] = tn__call_int(call, count);
    } else if (n >= 0) {
        shape->ndim = 2;
        shape->dim[0] = tn__call_int(call, n);
        shape->dim[1] = tn__call_int(call, n + 1);
    }
    int given_dtype = arg_named(op, "dtype"), given = arg_named(op, "device");
    if (given_dtype >= 0 && tn__call_has(call, given_dtype))
        *dtype = (tn_dtype)tn__call_int(call, given_dtype);
    if (given >= 0 && tn__call_has(call, given))
        *device = call->value[given].of.device;
    if (!*device)
        *device = tn_device_current();
    return *device ? TN_OK : tn_error_code();
}

/* Returns the dtype of the result of full without an argument dtype. This dtype
 * follows from the kind of the number. */
static tn_dtype number_dtype(const tn_value *v)
{
    return v->count == TN_SCALAR_INT    ? TN_I64
           : v->count == TN_SCALAR_BOOL ? TN_BOOL
                                        : tn_default_dtype();
}

tn_status tn__run_empty(tn__call *call)
{
    tn__shape shape;
    tn_dtype dtype;
    tn_device *device;
    tn_status status = plan(call, &shape, &dtype, &device);
    if (status < 0)
        return status;
    tn_tensor *x = tn__tensor_new(device, dtype, shape.ndim, shape.dim,
                                  call->op->name);
    if (!x)
        return tn_error_code();
    call->out[call->out_count++] = x;
    return TN_OK;
}

/* Stores in param[] the values of the kernel's parameters, in the kernel's
 * order, and returns their number. */
static int take_numbers(const tn__call *call, const tn__op_entry *entry,
                        tn_number *param)
{
    int count = 0;
    for (int i = 0; i < call->op->arg_count; i++) {
        if (call->op->role[i] != TN__ROLE_PARAM)
            continue;
        if (entry->param_float[count])
            param[count].f = tn__call_float(call, i);
        else
            param[count].i = tn__call_int(call, i);
        count++;
    }
    if (entry->draws) {
        tn_rng_state draw = tn__random_draw();
        param[count++].i = (int64_t)draw.seed;
        param[count++].i = (int64_t)draw.call;
    }
    return count;
}

tn_status tn__run_create(tn__call *call)
{
    const tn_op *op = call->op;
    tn__shape shape;
    tn_dtype dtype;
    tn_device *device;
    tn_status status = plan(call, &shape, &dtype, &device);
    if (status < 0)
        return status;
    int dtype_arg = arg_named(op, "dtype"), fill = arg_named(op, "fill_value");
    if (fill >= 0 && arg_named(op, "input") < 0 &&
        !tn__call_has(call, dtype_arg))
        dtype = number_dtype(&call->value[fill]);
    if (fill >= 0 && tn__check_fits(op->name, "fill_value",
                                    &call->value[fill], dtype) < 0)
        return TN_ERR_ARGUMENT;

    /* Computes the key of the kernel (define.h) as if the caller had given the
     * dtype, so that there is one kernel for each dtype. */
    tn_value value[TN__OP_MAX_ARGS];
    uint64_t key = 1;
    for (int i = 0; i < op->arg_count; i++) {
        value[i] = i == dtype_arg ? tn__value_dtype(dtype) : call->value[i];
        if (value[i].kind == TN_VALUE_TENSOR)
            value[i] = tn__value_none(); /* the kernel does not read this
                                          * argument */
        uint64_t code = 0;
        if (op->role[i] == TN__ROLE_PARAM)
            code = (uint64_t)(value[i].kind == TN_VALUE_NUMBER
                                  ? TN__KEY_NUMBER + value[i].count
                              : value[i].kind == TN_VALUE_FLOAT
                                  ? TN__KEY_NUMBER + TN_SCALAR_FLOAT
                                  : TN__KEY_NUMBER);
        else if (op->role[i] == TN__ROLE_DTYPE)
            code = dtype;
        if (op->role[i] != TN__ROLE_NONE)
            key = key << 4 | code;
    }
    key <<= 4; /* the last 4 bits are the code of an output dtype: none here */
    tn__op_entry *entry = tn__op_entry_find(op->cache, key);
    if (!entry)
        entry = tn__op_entry_make(op, value, TN_DTYPE_NONE, key);
    if (!entry)
        return tn_error_code();

    tn_tensor *x = tn__tensor_new(device, dtype, shape.ndim, shape.dim,
                                  tn__op_outer(op->name));
    if (!x)
        return tn_error_code();
    call->out[call->out_count++] = x;
    tn__space space;
    tn__space_begin(&space, &shape, 0, false);
    for (int k = 0; k < entry->kernel->input_count; k++)
        tn__space_add_number(&space, &shape, 0, false);
    tn__space_add_out(&space, &shape, 0, false, false, x);
    tn_number param[TN__KERNEL_MAX_PARAMS];
    take_numbers(call, entry, param);
    return tn__kernel_launch(device, entry->kernel, &space, param, op->name);
}

/* ---- operators composed of others ---------------------------------------- */

static tn_status give(tn__call *call, tn_tensor *out)
{
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    return TN_OK;
}

/* Returns argument i, which is a dtype. If it is absent, returns `dtype`. */
static tn_value dtype_or(const tn__call *call, int i, tn_dtype dtype)
{
    return tn__call_has(call, i) ? call->value[i] : tn__value_dtype(dtype);
}

/* Rejects a sequence of numbers, which rise or fall from first to last, if its
 * integer dtype does not have all of them. */
static tn_status check_ends(double count, double first, double last,
                            const tn_value *dtype)
{
    tn_status status = TN_OK;
    for (int i = 0; i < 2 && i < count && status >= 0; i++) {
        const tn_value number = {TN_VALUE_NUMBER, TN_SCALAR_FLOAT,
                                 {.f = i ? last : first}};
        status = tn__check_fits(tn__op_outer(""),
                                i ? "end:the last number"
                                  : "start:the first number",
                                &number, (tn_dtype)dtype->of.i);
    }
    return status;
}

tn_status tn__run_arange(tn__call *call)
{
    enum {
        start = TN__ARG_ARANGE_START,
        end = TN__ARG_ARANGE_END,
        step = TN__ARG_ARANGE_STEP
    };
    double a = tn__call_float(call, start), b = tn__call_float(call, end);
    double s = tn__call_float(call, step);
    bool whole = true;
    for (int i = start; i <= step; i++)
        whole = whole && call->value[i].count != TN_SCALAR_FLOAT;
    if (s == 0 || isnan(s) || isnan(a) || isnan(b))
        return tn__fail(TN_ERR_ARGUMENT, "arange: {step} is %g, {start} %g "
                        "and {end} %g; expected a {step} other than 0, and no "
                        "NaN", s, a, b);
    /* If all three numbers are integers, end - start is computed in int64,
     * because a double cannot represent every integer above 2^53. */
    int64_t span = 0, by = whole ? tn__call_int(call, step) : 1;
    bool exact = whole && !__builtin_sub_overflow(tn__call_int(call, end),
                                                  tn__call_int(call, start),
                                                  &span);
    tn_value dtype = dtype_or(call, TN__ARG_ARANGE_DTYPE, whole ? TN_I64
                                                    : tn_default_dtype());
    double ratio = exact ? (double)span / (double)by : (b - a) / s;
    if (isnan(ratio) || isinf(a) || isinf(b))
        return tn__fail(TN_ERR_ARGUMENT, "arange: {start} is %g and {end} %g; "
                        "expected finite numbers", a, b);
    if (ratio < 0)
        return tn__fail(TN_ERR_ARGUMENT,
                        "arange: {step} %g leads from {start} %g away from "
                        "{end} %g: change its sign", s, a, b);
    double count = exact && by != -1 /* span / -1 may overflow */
                       ? (double)(span / by + (span % by != 0))
                       : ceil(ratio);
    if (count > 0x1p62)
        return tn__fail(TN_ERR_ARGUMENT, "arange: {step} %g from {start} %g "
                        "to {end} %g makes %g numbers, too many for a tensor",
                        s, a, b, count);
    if (!whole && !tn_dtype_is_floating((tn_dtype)dtype.of.i)) {
        a = trunc(a); /* as in PyTorch, start and step are truncated after
                         `count` has been computed */
        s = trunc(s);
    }
    /* int64 has all integers from start to end, but a double has not */
    if (!(whole && dtype.of.i == TN_I64) &&
        check_ends(count, a, a + (count - 1) * s, &dtype) < 0)
        return TN_ERR_ARGUMENT;
    tn_value value[] = {
        tn__value_int((int64_t)count),
        whole ? tn__value_int(tn__call_int(call, start)) : tn__value_float(a),
        whole ? tn__value_int(tn__call_int(call, step)) : tn__value_float(s),
        dtype, call->value[TN__ARG_ARANGE_DEVICE]};
    return give(call, tn__op_run1(&tn__op_table[whole ? TN__OP_ID_ARANGE_INT
                                                : TN__OP_ID_ARANGE_FLOAT],
                                  value, 5));
}

tn_status tn__run_arange_to(tn__call *call)
{
    tn_value value[] = {tn__value_none(), call->value[TN__ARG_ARANGE_TO_END],
                        tn__value_none(),
                        call->value[TN__ARG_ARANGE_TO_DTYPE],
                        call->value[TN__ARG_ARANGE_TO_DEVICE]};
    return give(call, tn__op_run1(&tn__op_table[TN__OP_ID_ARANGE], value, 5));
}

tn_status tn__run_eye(tn__call *call)
{
    int64_t n = tn__call_int(call, TN__ARG_EYE_N), m = n;
    if (tn__call_has(call, TN__ARG_EYE_M))
        m = tn__call_int(call, TN__ARG_EYE_M);
    if (n < 0 || m < 0)
        return tn__fail(TN_ERR_ARGUMENT, "eye: {n} is %lld and {m} %lld; "
                        "expected 0 or greater for both", (long long)n,
                        (long long)m);
    tn_dims_list size = tn_dims(n, m);
    tn_value value[] = {tn__value_dims(&size), call->value[TN__ARG_EYE_DTYPE],
                        call->value[TN__ARG_EYE_DEVICE]};
    tn_scope *scope = tn_scope_open();
    tn_tensor *x =
        scope ? tn__op_run1(&tn__op_table[TN__OP_ID_ZEROS], value, 3) : NULL;
    tn_tensor *ones = x ? tn_diagonal(x) : NULL;
    tn_status status = ones ? tn__fill(ones, 1, "eye") : tn_error_code();
    if (status >= 0)
        status = give(call, tn__ref(x));
    tn_scope_close(scope);
    return status;
}

tn_status tn__run_randint(tn__call *call)
{
    int64_t low = tn__call_int(call, TN__ARG_RANDINT_LOW);
    int64_t high = tn__call_int(call, TN__ARG_RANDINT_HIGH);
    uint64_t range = (uint64_t)high - (uint64_t)low; /* at most 2^64 - 1 */
    if (high <= low)
        return tn__fail(TN_ERR_ARGUMENT,
                        "randint: {low} is %lld and {high} %lld; expected "
                        "{low} below {high}", (long long)low, (long long)high);
    tn_value value[] = {call->value[TN__ARG_RANDINT_SIZE],
                        tn__value_int(low), tn__value_int((int64_t)range),
                        dtype_or(call, TN__ARG_RANDINT_DTYPE, TN_I64),
                        call->value[TN__ARG_RANDINT_DEVICE]};
    tn_dtype dtype = (tn_dtype)value[3].of.i;
    int64_t least = 0, most = 1; /* of bool */
    if ((tn__int_limits(dtype, &least, &most) || dtype == TN_BOOL) &&
        (low < least || high - 1 > most))
        return tn__fail(TN_ERR_ARGUMENT, "randint: the numbers in [%lld, %lld) "
                        "do not all fit into {dtype} %s, [%lld, %lld]",
                        (long long)low, (long long)high, tn_dtype_name(dtype),
                        (long long)least, (long long)most);
    /* Up to a range of 2^53 the remainder of 62 random bits is uniform enough:
     * the relative error of a probability is at most 2^-9. */
    int row = range >> 53 ? TN__OP_ID_RANDINT_WIDE : TN__OP_ID_RANDINT_BELOW;
    return give(call, tn__op_run1(&tn__op_table[row], value, 5));
}

/* ---- linspace and logspace ----------------------------------------------- */

/* Runs linspace, and logspace with a base. As in PyTorch, integer results start
 * and end at integers. */
static tn_status give_even(tn__call *call, double start, double end,
                           const double *base)
{
    enum {
        steps = TN__ARG_LINSPACE_STEPS,
        dtype = TN__ARG_LINSPACE_DTYPE,
        device = TN__ARG_LINSPACE_DEVICE
    };
    int64_t count = tn__call_int(call, steps);
    tn_value as = dtype_or(call, base ? dtype + 1 : dtype,
                           tn_default_dtype());
    if (count < 0)
        return tn__fail(TN_ERR_ARGUMENT, "%s: {steps} is %lld; expected 0 or "
                        "greater", tn__op_outer(call->op->name),
                        (long long)count);
    if (!tn_dtype_is_floating((tn_dtype)as.of.i)) {
        start = trunc(start);
        end = trunc(end);
        if (check_ends((double)count, base ? pow(*base, start) : start,
                       base ? pow(*base, end) : end, &as) < 0)
            return TN_ERR_ARGUMENT;
    }
    if (!base) {
        const tn_value value[] = {tn__value_int(count), tn__value_float(start),
                                  tn__value_float(end), as,
                                  call->value[device]};
        return give(call, tn__op_run1(&tn__op_table[TN__OP_ID_LINSPACE_DRAW],
                                      value, 5));
    }
    const tn_value value[] = {tn__value_int(count), tn__value_float(start),
                              tn__value_float(end), tn__value_float(*base), as,
                              call->value[device + 1]};
    return give(call, tn__op_run1(&tn__op_table[TN__OP_ID_LOGSPACE_DRAW],
                                  value, 6));
}

tn_status tn__run_linspace(tn__call *call)
{
    return give_even(call, tn__call_float(call, TN__ARG_LINSPACE_START),
                     tn__call_float(call, TN__ARG_LINSPACE_END), NULL);
}

tn_status tn__run_logspace(tn__call *call)
{
    double base = tn__call_float(call, TN__ARG_LOGSPACE_BASE);
    return give_even(call, tn__call_float(call, TN__ARG_LOGSPACE_START),
                     tn__call_float(call, TN__ARG_LOGSPACE_END), &base);
}

/* Reads the number in argument i. If the argument is a tensor, its element is
 * read back from the device. */
static tn_status read_number(const tn__call *call, int i, double *number)
{
    tn_tensor *x = tn__call_tensor(call, i);
    char text[TN__SHAPE_TEXT];
    if (!x) {
        *number = tn__call_float(call, i);
        return TN_OK;
    }
    if (x->numel != 1)
        return tn__fail(TN_ERR_SHAPE, "%s: {%s} has shape %s; expected a "
                        "tensor of one element", tn__op_outer(call->op->name),
                        call->op->arg[i].name,
                        tn__shape_text(text, x->ndim, x->shape));
    return tn_tensor_to_array(tn_to_dtype(tn_detach(x), TN_F64), number,
                              sizeof *number);
}

static tn_status give_even_between(tn__call *call, const double *base)
{
    double start, end;
    tn_status status =
        read_number(call, TN__ARG_LINSPACE_BETWEEN_START, &start);
    if (status >= 0)
        status = read_number(call, TN__ARG_LINSPACE_BETWEEN_END, &end);
    return status < 0 ? status : give_even(call, start, end, base);
}

tn_status tn__run_linspace_between(tn__call *call)
{
    return give_even_between(call, NULL);
}

tn_status tn__run_logspace_between(tn__call *call)
{
    double base = tn__call_float(call, TN__ARG_LOGSPACE_BETWEEN_BASE);
    return give_even_between(call, &base);
}

/* Makes a random permutation by sorting random keys. Equal keys, which occur
 * with a probability of about n^2 / 2^62, keep their order. */
tn_status tn__run_randperm(tn__call *call)
{
    int64_t n = tn__call_int(call, TN__ARG_RANDPERM_N);
    tn_dims_list size = {1, {n}};
    tn_value dtype = dtype_or(call, TN__ARG_RANDPERM_DTYPE, TN_I64);
    if (n < 0)
        return tn__fail(TN_ERR_ARGUMENT, "randperm: {n} is %lld; expected 0 "
                        "or greater", (long long)n);
    const tn_value last = tn__value_number(tn_num(n - (n > 0)));
    if (tn__check_fits("randperm", "n:the last number", &last,
                       (tn_dtype)dtype.of.i) < 0)
        return TN_ERR_ARGUMENT;
    tn_value value[] = {tn__value_dims(&size), tn__value_int(0),
                        tn__value_int(INT64_C(1) << 62),
                        tn__value_dtype(TN_I64),
                        call->value[TN__ARG_RANDPERM_DEVICE]};
    tn_tensor *order = tn_argsort(
        tn__op_run1(&tn__op_table[TN__OP_ID_RANDINT_BELOW], value, 5), 0,
        false);
    return give(call, dtype.of.i == TN_I64
                          ? order : tn_to_dtype(order, (tn_dtype)dtype.of.i));
}
