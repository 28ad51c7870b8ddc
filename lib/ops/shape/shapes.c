/* shapes.c: reshaping, repetition, flips and rotations (PyTorch's reshape_as,
 * repeat, repeat_interleave, roll, rot90, flip and others), composed of views,
 * copies and concatenations. */
#include <base/memory.h>
#include <ops/engine/native.h>

static tn_dims_list size_of(const tn_tensor *x)
{
    tn_dims_list size = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        size.dim[d] = x->shape[d];
    return size;
}

static tn_tensor *join(tn_tensor *const *part, int count, int dim)
{
    const tn_value value[] = {tn__value_tensors(part, count),
                              tn__value_int(dim)};
    return tn__row(TN__OP_ID_CAT, value, 2);
}

/* ---- reshaping ----------------------------------------------------------- */

tn_status tn__run_ravel(tn__call *call)
{
    return tn__give(call, tn_reshape(tn__call_tensor(call, 0), tn_dims(-1)));
}

tn_status tn__run_view_as(tn__call *call)
{
    return tn__give(call, tn_view(tn__call_tensor(call, 0),
                                  size_of(tn__call_tensor(call, 1))));
}

tn_status tn__run_reshape_as(tn__call *call)
{
    return tn__give(call, tn_reshape(tn__call_tensor(call, 0),
                                     size_of(tn__call_tensor(call, 1))));
}

tn_status tn__run_expand_as(tn__call *call)
{
    return tn__give(call, tn_expand(tn__call_tensor(call, 0),
                                    size_of(tn__call_tensor(call, 1))));
}

tn_status tn__run_unflatten(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_UNFLATTEN_INPUT);
    const tn_dims_list *sizes = call->value[TN__ARG_UNFLATTEN_SIZES].of.dims;
    int dim = tn__call_dim(call, TN__ARG_UNFLATTEN_DIM, x->ndim);
    if (dim < 0)
        return TN_ERR_ARGUMENT;
    char text[TN__SHAPE_TEXT];
    int64_t known = 1;
    int unknown = -1;
    tn_dims_list shape = {0, {0}};
    if (x->ndim == 0 || sizes->count == 0 ||
        x->ndim - 1 + sizes->count > TN_MAX_NDIM)
        return tn__fail(TN_ERR_SHAPE, "unflatten: {sizes} has %d numbers, "
                        "which replace {dim} %d of %d dimensions; expected at "
                        "least one, and a result of at most %d dimensions",
                        sizes->count, dim, x->ndim, TN_MAX_NDIM);
    for (int d = 0; d < dim; d++)
        shape.dim[shape.count++] = x->shape[d];
    for (int k = 0; k < sizes->count; k++) {
        if (sizes->dim[k] == -1)
            unknown = shape.count;
        else
            known = tn__size_mul(known, sizes->dim[k]);
        shape.dim[shape.count++] = sizes->dim[k];
    }
    for (int d = dim + 1; d < x->ndim; d++)
        shape.dim[shape.count++] = x->shape[d];
    if (unknown >= 0 && known > 0) {
        shape.dim[unknown] = x->shape[dim] / known;
        known *= shape.dim[unknown];
    }
    if (known != x->shape[dim])
        return tn__fail(TN_ERR_SHAPE, "unflatten: {sizes} is %s; expected "
                        "numbers whose product is the size of {dim} %d, %lld",
                        tn__shape_text(text, sizes->count, sizes->dim), dim,
                        (long long)x->shape[dim]);
    return tn__give(call, tn_reshape(x, shape));
}

tn_status tn__run_sum_to_size(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_SUM_TO_SIZE_INPUT);
    const tn_dims_list *size = call->value[TN__ARG_SUM_TO_SIZE_SIZE].of.dims;
    int lead = x->ndim - size->count;
    tn_dims_list over = {0, {0}};
    bool fits = lead >= 0;
    for (int d = 0; d < x->ndim && fits; d++) {
        int64_t kept = d < lead ? 1 : size->dim[d - lead];
        fits = kept == 1 || kept == x->shape[d];
        if (d < lead || (kept == 1 && x->shape[d] != 1))
            over.dim[over.count++] = d;
    }
    char a[TN__SHAPE_TEXT], b[TN__SHAPE_TEXT];
    if (!fits)
        return tn__fail(TN_ERR_SHAPE, "sum_to_size: {size} %s does not "
                        "broadcast to the shape of {input}, %s",
                        tn__shape_text(a, size->count, size->dim),
                        tn__shape_text(b, x->ndim, x->shape));
    /* For a 0-d result sum is called even if x is 0-d, so that integers become
     * int64. */
    if (over.count || !size->count)
        x = tn_sum(x, .dims = tn__marked(over), .keepdim = true);
    return tn__give(call, tn_reshape(x, *size));
}

/* ---- the order of dimensions ---- */

tn_status tn__run_movedim(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_MOVEDIM_INPUT);
    const tn_dims_list *from = call->value[TN__ARG_MOVEDIM_SOURCE].of.dims;
    const tn_dims_list *to = call->value[TN__ARG_MOVEDIM_DESTINATION].of.dims;
    tn_dims_list order = {x->ndim, {0}};
    uint32_t moved = 0, taken = 0;
    if (from->count != to->count)
        return tn__fail(TN_ERR_ARGUMENT, "movedim: {source} has %d dimensions "
                        "and {destination} %d; expected the same number",
                        from->count, to->count);
    for (int k = 0; k < from->count; k++) {
        int a = tn__shape_dim(x->ndim, from->dim[k]);
        int b = tn__shape_dim(x->ndim, to->dim[k]);
        if (a < 0 || b < 0)
            return tn__fail_dim("movedim",
                                a < 0 ? "source:source dim"
                                      : "destination:destination dim",
                                a < 0 ? from->dim[k] : to->dim[k], x->ndim);
        if (moved >> a & 1 || taken >> b & 1)
            return tn__fail(TN_ERR_ARGUMENT, "movedim: {%s:dim} %d is given "
                            "twice", moved >> a & 1 ? "source" : "destination",
                            moved >> a & 1 ? a : b);
        moved |= 1u << a;
        taken |= 1u << b;
        if (x->ndim)
            order.dim[b] = a;
    }
    for (int d = 0, a = 0; d < x->ndim; d++) {
        if (taken >> d & 1)
            continue;
        while (moved >> a & 1)
            a++;
        order.dim[d] = a++;
    }
    return tn__give(call, tn_permute(x, order));
}

tn_status tn__run_adjoint(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    if (x->ndim < 2)
        return tn__fail(TN_ERR_SHAPE, "adjoint: {input} has %d dimensions; a "
                        "matrix has 2", x->ndim);
    return tn__give(call, tn_transpose(x, -1, -2));
}

tn_status tn__run_reverse_dims(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    tn_dims_list order = {x->ndim, {0}};
    for (int d = 0; d < x->ndim; d++)
        order.dim[d] = x->ndim - 1 - d;
    return tn__give(call, tn_permute(x, order));
}

/* ---- repetition ---------------------------------------------------------- */

/* Returns x repeated `times` times along dim. If `each` is true, every slice is
 * repeated in its place. Else whole copies of x follow one another. */
static tn_tensor *repeated(tn_tensor *x, int dim, int64_t times, bool each)
{
    tn_dims_list size = size_of(x), wide = {x->ndim + 1, {0}};
    int at = each ? dim + 1 : dim;
    if (x->ndim == TN_MAX_NDIM) {
        tn__fail(TN_ERR_SHAPE, "repeat: {input} has %d dimensions; expected "
                 "fewer", x->ndim);
        return NULL;
    }
    for (int d = 0; d <= x->ndim; d++)
        wide.dim[d] = d == at ? times : x->shape[d > at ? d - 1 : d];
    size.dim[dim] = tn__size_mul(size.dim[dim], times);
    return tn_reshape(tn_expand(tn_unsqueeze(x, at), wide), size);
}

/* Returns x repeated along dimension *d and the following ones. All are
 * repeated at once, so that the gradient is one sum. Each repeated dimension
 * needs one new dimension, so at most TN_MAX_NDIM - x->ndim dimensions are
 * repeated. Sets *d to the first dimension that is left. */
static tn_tensor *repeated_from(tn_tensor *x, int *d, const tn_dims_list *times)
{
    tn_dims_list size = size_of(x), apart = {0, {0}}, wide = {0, {0}};
    int spare = TN_MAX_NDIM - x->ndim, next = x->ndim;
    if (spare == 0) {
        tn__fail(TN_ERR_SHAPE, "repeat: {input} has %d dimensions; expected "
                 "fewer", x->ndim);
        return NULL;
    }
    for (int k = 0; k < x->ndim; k++) {
        bool repeats = k >= *d && times->dim[k] != 1;
        if (repeats && spare == 0 && next == x->ndim)
            next = k;
        if (repeats && spare > 0) {
            spare--;
            apart.dim[apart.count++] = 1;
            wide.dim[wide.count++] = times->dim[k];
            size.dim[k] = tn__size_mul(size.dim[k], times->dim[k]);
        }
        apart.dim[apart.count++] = x->shape[k];
        wide.dim[wide.count++] = x->shape[k];
    }
    *d = next;
    return tn_reshape(tn_expand(tn_reshape(x, apart), wide), size);
}

static tn_status repeat(tn__call *call, tn_tensor *x,
                        const tn_dims_list *times)
{
    char text[TN__SHAPE_TEXT];
    tn_dims_list size = {times->count, {0}};
    int lead = times->count - x->ndim;
    if (lead < 0)
        return tn__fail(TN_ERR_SHAPE, "%s: {%s} has %d numbers for a tensor "
                        "of %d dimensions; expected at least one for each",
                        call->op->name, call->op->arg[1].name, times->count,
                        x->ndim);
    for (int d = 0; d < times->count; d++) {
        size.dim[d] = d < lead ? 1 : x->shape[d - lead];
        if (times->dim[d] < 0)
            return tn__fail(TN_ERR_ARGUMENT, "%s: {%s} is %s; expected only "
                            "numbers of at least 0", call->op->name,
                            call->op->arg[1].name,
                            tn__shape_text(text, times->count, times->dim));
    }
    x = tn_reshape(x, size);
    bool copied = false;
    for (int d = 0; x && d < times->count;) {
        if (times->dim[d] == 1) {
            d++;
            continue;
        }
        x = repeated_from(x, &d, times);
        copied = true;
    }
    return tn__give(call, copied ? x : tn_clone(x));
}

tn_status tn__run_repeat(tn__call *call)
{
    return repeat(call, tn__call_tensor(call, TN__ARG_REPEAT_INPUT),
                  call->value[TN__ARG_REPEAT_REPEATS].of.dims);
}

tn_status tn__run_tile(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_TILE_INPUT);
    const tn_dims_list *given = call->value[TN__ARG_TILE_DIMS].of.dims;
    tn_dims_list times = *given;
    int lead = x->ndim - given->count;
    if (lead > 0) {
        times.count = x->ndim;
        for (int d = 0; d < x->ndim; d++)
            times.dim[d] = d < lead ? 1 : given->dim[d - lead];
    }
    return repeat(call, x, &times);
}

/* Returns the dimension along which repeat_interleave works. If the argument is
 * absent, *x is flattened. */
static int interleaved_dim(const tn__call *call, int arg, tn_tensor **x)
{
    if (!tn__call_has(call, arg) || (*x)->ndim == 0) {
        *x = tn_reshape(*x, tn_dims(-1));
        return *x ? 0 : -1;
    }
    return tn__call_dim(call, arg, (*x)->ndim);
}

tn_status tn__run_repeat_interleave(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_REPEAT_INTERLEAVE_INPUT);
    int64_t times = tn__call_int(call, TN__ARG_REPEAT_INTERLEAVE_REPEATS);
    int dim = interleaved_dim(call, TN__ARG_REPEAT_INTERLEAVE_DIM, &x);
    if (dim < 0)
        return tn_error_code();
    if (times < 0)
        return tn__fail(TN_ERR_ARGUMENT, "repeat_interleave: {repeats} is "
                        "%lld; expected at least 0", (long long)times);
    return tn__give(call, repeated(x, dim, times, true));
}

/* Returns a tensor that has each number k in [0, count) times[k] times, in
 * ascending order. */
static tn_tensor *spread_numbers(const int64_t *times, int64_t count,
                                 tn_device *device)
{
    int64_t total = 0, at = 0;
    for (int64_t k = 0; k < count; k++) {
        if (times[k] < 0) {
            tn__fail(TN_ERR_ARGUMENT, "repeat_interleave: {repeats}[%lld] is "
                     "%lld; expected at least 0", (long long)k,
                     (long long)times[k]);
            return NULL;
        }
        if (__builtin_add_overflow(total, times[k], &total) ||
            total > INT32_MAX) {
            tn__fail(TN_ERR_ARGUMENT, "repeat_interleave: {repeats} add up to "
                     "more than 2^31, the limit");
            return NULL;
        }
    }
    /* The device memory is allocated before the host memory is filled, because
     * the device may have too little. */
    tn_tensor *out = tn_empty(tn_dims(total), .dtype = TN_I64,
                              .device = device);
    size_t bytes = (size_t)total * sizeof(int64_t);
    int64_t *number = out ? tn__alloc(bytes ? bytes : 1) : NULL;
    if (!number)
        return NULL;
    for (int64_t k = 0; k < count; k++)
        for (int64_t i = 0; i < times[k]; i++)
            number[at++] = k;
    tn_status status = tn_tensor_set_array(out, number, bytes);
    tn__free(number);
    return status < 0 ? NULL : out;
}

tn_status tn__run_repeat_interleave_by(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_REPEAT_INTERLEAVE_BY_INPUT);
    tn_tensor *by =
        tn__call_tensor(call, TN__ARG_REPEAT_INTERLEAVE_BY_REPEATS);
    int dim = interleaved_dim(call, TN__ARG_REPEAT_INTERLEAVE_BY_DIM, &x);
    if (dim < 0)
        return tn_error_code();
    int64_t count = x->shape[dim];
    char text[TN__SHAPE_TEXT];
    if (by->ndim > 1 || (by->numel != 1 && by->numel != count))
        return tn__fail(TN_ERR_SHAPE, "repeat_interleave: {repeats} has shape "
                        "%s; expected one number, or one for each of the %lld "
                        "elements of the dimension",
                        tn__shape_text(text, by->ndim, by->shape),
                        (long long)count);
    by = tn_contiguous(tn_to_dtype(
        tn_expand(tn_reshape(by, tn_dims(-1)), tn_dims(count)), TN_I64));
    size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *times = by ? tn__alloc(bytes ? bytes : 1) : NULL;
    tn_tensor *number = NULL;
    if (times && tn_tensor_to_array(by, times, bytes) >= 0)
        number = spread_numbers(times, count, x->storage->device);
    tn__free(times);
    return tn__give(call, tn_index_select(x, dim, number));
}

/* ---- flips, rolls and rotations ------------------------------------------ */

tn_status tn__run_flip(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_FLIP_INPUT);
    const tn_dims_list *dims = call->value[TN__ARG_FLIP_DIMS].of.dims;
    tn_tensor back = {.storage = x->storage, .dtype = x->dtype,
                      .ndim = x->ndim, .offset = x->offset};
    memcpy(back.shape, x->shape, x->ndim * sizeof x->shape[0]);
    memcpy(back.stride, x->stride, x->ndim * sizeof x->stride[0]);
    uint32_t seen = 0;
    for (int k = 0; k < dims->count; k++) {
        int d = tn__shape_dim(x->ndim, dims->dim[k]);
        if (d < 0)
            return tn__fail_dim("flip", "dims:dim", dims->dim[k], x->ndim);
        if (seen >> d & 1)
            return tn__fail(TN_ERR_ARGUMENT, "flip: {dims:dim} %d is given "
                            "twice", d);
        seen |= 1u << d;
        if (x->ndim == 0 || x->shape[d] == 0)
            continue;
        back.offset += (x->shape[d] - 1) * x->stride[d];
        back.stride[d] = -x->stride[d];
    }
    tn_tensor *out = tn__tensor_new(x->storage->device, x->dtype, x->ndim,
                                    x->shape, "flip");
    if (!out)
        return tn_error_code();
    call->out[call->out_count++] = out;
    return tn__copy_into(out, &back, "flip");
}

/* Runs fliplr and flipud, which flip dimension dim. */
static tn_status flip_along(tn__call *call, int dim)
{
    tn_tensor *x = tn__call_tensor(call, 0);
    if (x->ndim <= dim)
        return tn__fail(TN_ERR_SHAPE, "%s: {input} has %d dimensions; "
                        "expected at least %d", call->op->name, x->ndim, dim + 1);
    return tn__give(call, tn_flip(x, tn_dims(dim)));
}

tn_status tn__run_fliplr(tn__call *call)
{
    return flip_along(call, 1);
}

tn_status tn__run_flipud(tn__call *call)
{
    return flip_along(call, 0);
}

static tn_tensor *rolled(tn_tensor *x, int64_t shift, int64_t given)
{
    int dim = tn__shape_dim(x->ndim, given);
    if (dim < 0) {
        tn__fail_dim("roll", "dims:dim", given, x->ndim);
        return NULL;
    }
    int64_t size = x->ndim ? x->shape[dim] : 1;
    if (size == 0 || shift % size == 0)
        return x;
    int64_t start = (size - shift % size) % size;
    tn_tensor *part[] = {tn_narrow(x, dim, start, size - start),
                         tn_narrow(x, dim, 0, start)};
    return part[0] && part[1] ? join(part, 2, dim) : NULL;
}

tn_status tn__run_roll(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_ROLL_INPUT), *out = x;
    const tn_dims_list *shifts = call->value[TN__ARG_ROLL_SHIFTS].of.dims;
    const tn_dims_list none = {0, {0}};
    const tn_dims_list *dims = tn__call_has(call, TN__ARG_ROLL_DIMS)
                                   ? call->value[TN__ARG_ROLL_DIMS].of.dims
                                   : &none;
    if (dims->count == 0 && shifts->count == 1) {
        out = tn_reshape(x, tn_dims(-1));
        if (out)
            out = tn_reshape(rolled(out, shifts->dim[0], 0), size_of(x));
    } else if (dims->count != shifts->count) {
        return tn__fail(TN_ERR_ARGUMENT, "roll: {shifts} has %d numbers and "
                        "{dims} %d; expected one for each dimension",
                        shifts->count, dims->count);
    }
    for (int k = 0; k < dims->count && out; k++)
        out = rolled(out, shifts->dim[k], dims->dim[k]);
    return tn__give(call, out == x ? tn_clone(x) : out);
}

tn_status tn__run_rot90(tn__call *call)
{
    tn_tensor *x = tn__call_tensor(call, TN__ARG_ROT90_INPUT);
    tn_dims_list dims = tn_dims(0, 1);
    if (tn__call_has(call, TN__ARG_ROT90_DIMS))
        dims = *call->value[TN__ARG_ROT90_DIMS].of.dims;
    int64_t turns = tn__call_int(call, TN__ARG_ROT90_K) % 4;
    if (dims.count != 2 || x->ndim < 2)
        return tn__fail(TN_ERR_ARGUMENT, "rot90: {dims} has %d numbers for a "
                        "tensor of %d dimensions; expected two numbers, and at "
                        "least two dimensions", dims.count, x->ndim);
    int64_t a = dims.dim[0], b = dims.dim[1];
    switch ((turns + 4) % 4) {
    case 1:
        return tn__give(call, tn_transpose(tn_flip(x, tn_dims(b)), a, b));
    case 2:
        return tn__give(call, tn_flip(x, dims));
    case 3:
        return tn__give(call, tn_transpose(tn_flip(x, tn_dims(a)), a, b));
    default:
        return tn__give(call, tn_clone(x));
    }
}

/* ---- block matrices and Cartesian products ------------------------------- */

tn_status tn__run_block_diag(tn__call *call)
{
    tn_tensor *const *x = call->value[0].of.tensors;
    int count = call->value[0].count;
    int64_t width = 0, left = 0;
    tn_dtype dtype = count ? x[0]->dtype : TN_F32;
    for (int k = 0; k < count; k++) {
        if (x[k]->ndim > 2)
            return tn__fail(TN_ERR_SHAPE, "block_diag: {tensors[%d]} has %d "
                            "dimensions; at most 2", k, x[k]->ndim);
        width = tn__size_add(
            width, x[k]->ndim ? x[k]->shape[x[k]->ndim - 1] : 1);
        dtype = tn_dtype_promote(dtype, x[k]->dtype);
    }
    if (count < 1 || !dtype)
        return tn__fail(TN_ERR_ARGUMENT, "block_diag: {tensors} %s",
                        count ? "have no common dtype; convert them with "
                                "tn_to_dtype"
                              : "is an empty list; expected at least one "
                                "tensor");
    tn_tensor **band = tn__alloc_many(count, sizeof *band);
    if (!band)
        return TN_ERR_MEMORY;
    tn_status status = TN_OK;
    for (int k = 0; k < count && status >= 0; k++) {
        int64_t rows = x[k]->ndim > 1 ? x[k]->shape[0] : 1;
        int64_t columns = x[k]->ndim ? x[k]->shape[x[k]->ndim - 1] : 1;
        tn_device *device = x[k]->storage->device;
        tn_tensor *part[] = {
            tn_zeros(tn_dims(rows, left), .dtype = dtype, .device = device),
            tn_reshape(x[k], tn_dims(rows, columns)),
            tn_zeros(tn_dims(rows, width - left - columns), .dtype = dtype,
                     .device = device)};
        band[k] = part[0] && part[1] && part[2] ? join(part, 3, 1) : NULL;
        status = band[k] ? TN_OK : tn_error_code();
        left += columns;
    }
    if (status >= 0)
        status = tn__give(call, join(band, count, 0));
    tn__free(band);
    return status;
}

tn_status tn__run_cartesian_prod(tn__call *call)
{
    int count = call->value[0].count;
    tn_tensor *grid[TN__OP_MAX_OUTPUTS];
    const tn_value lists[] = {call->value[0], tn__value_string("ij")};
    int made = tn__op_run(&tn__op_table[TN__OP_ID_MESHGRID], lists, 2, grid,
                          TN__OP_MAX_OUTPUTS);
    if (made < 0)
        return made;
    for (int k = 0; k < made; k++) {
        grid[k] = tn_reshape(grid[k], tn_dims(-1));
        if (!grid[k])
            return tn_error_code();
    }
    if (count == 1)
        return tn__give(call, grid[0]);
    const tn_value value[] = {tn__value_tensors(grid, made),
                              tn__value_int(1)};
    return tn__give(call, tn__row(TN__OP_ID_STACK, value, 2));
}
