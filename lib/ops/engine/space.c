/* space.c: builds iteration spaces, as PyTorch's TensorIterator does, and
 * launches kernels over them. An operand becomes a list of strides. Before a
 * launch, dimensions are merged where the strides of all operands allow it.
 *
 * Only adjacent dimensions are merged, which does not change the row-major
 * index of any point. So the position of an invalid element can be reported in
 * the caller's coordinates, and the elements of a row stay in order. */
#include <base/guard.h>
#include <ops/engine/late.h>
#include <ops/engine/mistakes.h>
#include <ops/engine/space.h>
#include <string.h>

/* ---- building a space ---------------------------------------------------- */

void tn__space_begin(tn__space *space, const tn__shape *shape, uint32_t rows,
                     bool has_row)
{
    int at = 0;
    for (int d = 0; d < shape->ndim; d++)
        if (!(rows >> d & 1))
            space->extent[at++] = shape->dim[d];
    space->outer_ndim = at;
    for (int d = 0; d < shape->ndim; d++)
        if (rows >> d & 1)
            space->extent[at++] = shape->dim[d];
    if (has_row && at == space->outer_ndim && at < TN_MAX_NDIM)
        space->extent[at++] = 1;
    space->row_ndim = at - space->outer_ndim;
    space->operand_count = 0;
    space->flags = 0;
}

int64_t tn__space_row_numel(const tn__space *space)
{
    return tn__shape_numel(space->row_ndim, space->extent + space->outer_ndim);
}

tn__operand *tn__space_add_bare(tn__space *space, tn_tensor *x)
{
    tn__operand *operand = &space->operand[space->operand_count++];
    operand->tensor = x;
    operand->offset = 0;
    for (int d = 0; d < space->outer_ndim + space->row_ndim; d++)
        operand->stride[d] = 0;
    return operand;
}

/* Copies stride[], which has the strides in the order of the dimensions of
 * shape, to operand->stride, in the order of the space: first the outer
 * dimensions, then the row dimensions. */
static void place(tn__operand *operand, const tn__shape *shape, uint32_t rows,
                  const int64_t *stride)
{
    int at = 0;
    for (int d = 0; d < shape->ndim; d++)
        if (!(rows >> d & 1))
            operand->stride[at++] = stride[d];
    for (int d = 0; d < shape->ndim; d++)
        if (rows >> d & 1)
            operand->stride[at++] = stride[d];
}

void tn__space_add_indexed(tn__space *space, const tn__shape *shape,
                           uint32_t rows, tn_tensor *x, int indices)
{
    int64_t stride[TN_MAX_NDIM];
    int ndim = x->ndim - indices, add = shape->ndim - ndim;
    for (int d = 0; d < shape->ndim; d++)
        stride[d] = d < add || x->shape[d - add] == 1 ? 0 : x->stride[d - add];
    tn__operand *operand = tn__space_add_bare(space, x);
    place(operand, shape, rows, stride);
    for (int i = 0; i < indices; i++) {
        operand->index_stride[i] = x->stride[ndim + i];
        operand->index_extent[i] = x->shape[ndim + i];
    }
}

void tn__space_add(tn__space *space, const tn__shape *shape, uint32_t rows,
                   tn_tensor *x)
{
    tn__space_add_indexed(space, shape, rows, x, 0);
}

void tn__space_add_guarded(tn__space *space, const tn__shape *shape,
                           uint32_t rows, tn_tensor *x)
{
    tn__space_add_indexed(space, shape, rows, x, 0);
    tn__operand *operand = &space->operand[space->operand_count - 1];
    operand->index_stride[0] = 0;
    operand->index_extent[0] = TN__GUARD_EXTENT;
}

void tn__space_add_number(tn__space *space, const tn__shape *shape,
                          uint32_t rows, bool within_row)
{
    int64_t stride[TN_MAX_NDIM], step = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        bool counts = !within_row || rows >> d & 1;
        stride[d] = counts ? step : 0;
        if (counts)
            step = tn__size_mul(step, shape->dim[d]);
    }
    place(tn__space_add_bare(space, NULL), shape, rows, stride);
}

void tn__space_out_shape(const tn__shape *shape, uint32_t rows, bool keep,
                         tn__shape *out)
{
    out->ndim = 0;
    for (int d = 0; d < shape->ndim; d++) {
        bool row = rows >> d & 1;
        if (!row || keep)
            out->dim[out->ndim++] = row ? 1 : shape->dim[d];
    }
}

void tn__space_add_out(tn__space *space, const tn__shape *shape, uint32_t rows,
                       bool is_row, bool keep, tn_tensor *out)
{
    int64_t stride[TN_MAX_NDIM];
    int at = 0;
    for (int d = 0; d < shape->ndim; d++) {
        bool gone = is_row && rows >> d & 1;
        stride[d] = gone ? 0 : out->stride[at];
        at += !gone || keep;
    }
    place(tn__space_add_bare(space, out), shape, rows, stride);
}

/* Returns whether two views of one storage have an element in common. Two
 * columns of a matrix, for example, have none.
 *
 * Both views are described on one grid, whose axes are the distinct strides of
 * the two, largest first. On this grid each view is a box with size[view][i]
 * points along axis i, and at[i] is the position of b's first element in the
 * box of a.
 *
 * If the smaller strides of a box together span less than the next larger
 * stride, the views have an element in common if and only if the boxes
 * intersect. If they span more, the function returns true without a further
 * check. */
static bool boxes_intersect(const tn_tensor *a, const tn_tensor *b)
{
    if (a->offset > b->offset)
        return boxes_intersect(b, a);
    int64_t step[2 * TN_MAX_NDIM], size[2][2 * TN_MAX_NDIM];
    int64_t at[2 * TN_MAX_NDIM], rest = b->offset - a->offset;
    const tn_tensor *const both[] = {a, b};
    int count = 0;
    for (int t = 0; t < 2; t++)
        for (int d = 0; d < both[t]->ndim; d++) {
            int64_t stride = both[t]->stride[d];
            if (both[t]->shape[d] == 1)
                continue;
            int i = count;
            while (i > 0 && step[i - 1] <= stride)
                i--; /* moves entries back, so that step[] stays in descending
                        order */
            if (i == count || step[i] != stride) {
                for (int k = count++; k > i; k--) {
                    step[k] = step[k - 1];
                    size[0][k] = size[0][k - 1];
                    size[1][k] = size[1][k - 1];
                }
                step[i] = stride;
                size[0][i] = size[1][i] = 1;
            }
            if (stride <= 0 || size[t][i] != 1)
                return true;
            size[t][i] = both[t]->shape[d];
        }
    for (int i = 0; i < count; i++) {
        at[i] = rest / step[i];
        rest %= step[i];
    }
    bool apart = rest != 0;
    int64_t reach = rest; /* the largest distance in elements that the axes
                             after i span. On a grid it is less than step[i]. */
    for (int i = count - 1; i >= 0; i--) {
        if (reach >= step[i])
            return true;
        int64_t end = at[i] + size[1][i];
        reach += ((end > size[0][i] ? end : size[0][i]) - 1) * step[i];
        apart |= at[i] >= size[0][i];
    }
    return !apart;
}

bool tn__tensor_overlaps(const tn_tensor *written, const tn_tensor *read)
{
    if (written->storage != read->storage || !written->numel || !read->numel)
        return false;
    if (written->offset == read->offset && written->dtype == read->dtype &&
        tn__shape_equal(written->ndim, written->shape, read->ndim,
                        read->shape) &&
        tn__shape_equal(written->ndim, written->stride, read->ndim,
                        read->stride))
        return false;
    int64_t wlow, whigh, rlow, rhigh;
    tn__shape_span(written->ndim, written->shape, written->stride, &wlow,
                   &whigh);
    tn__shape_span(read->ndim, read->shape, read->stride, &rlow, &rhigh);
    int64_t wbytes = (int64_t)tn_dtype_bytes(written->dtype);
    int64_t rbytes = (int64_t)tn_dtype_bytes(read->dtype);
    if ((written->offset + wlow) * wbytes >=
            (read->offset + rhigh + 1) * rbytes ||
        (read->offset + rlow) * rbytes >=
            (written->offset + whigh + 1) * wbytes)
        return false;
    return written->dtype != read->dtype || boxes_intersect(written, read);
}

/* ---- merging dimensions -------------------------------------------------- */

typedef struct merged {
    int outer_ndim, row_ndim;
    int64_t extent[TN_MAX_NDIM];
    int64_t stride[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS][TN_MAX_NDIM];
} merged;

/* Returns whether dimension d of the space can be merged with the merged
 * dimension `last`: for every operand, stride[last] = stride[d] * extent[d]. */
static bool continues(const merged *m, const tn__space *space, int last, int d)
{
    for (int k = 0; k < space->operand_count; k++)
        if (m->stride[k][last] !=
            space->operand[k].stride[d] * space->extent[d])
            return false;
    return true;
}

static int merge_range(merged *m, const tn__space *space, int from, int to,
                       int at)
{
    int first = at;
    for (int d = from; d < to; d++) {
        if (space->extent[d] == 1)
            continue;
        if (at > first && continues(m, space, at - 1, d)) {
            m->extent[at - 1] *= space->extent[d];
        } else {
            m->extent[at++] = space->extent[d];
        }
        for (int k = 0; k < space->operand_count; k++)
            m->stride[k][at - 1] = space->operand[k].stride[d];
    }
    return at;
}

static void merge(merged *m, const tn__space *space)
{
    int ndim = space->outer_ndim + space->row_ndim;
    int at = merge_range(m, space, 0, space->outer_ndim, 0);
    m->outer_ndim = at;
    at = merge_range(m, space, space->outer_ndim, ndim, at);
    /* merge_range drops dimensions of size 1. If it has dropped all row
     * dimensions, one of size 1 is added again, because the kernel expects a
     * row. */
    if (space->row_ndim && at == m->outer_ndim) {
        m->extent[at] = 1;
        for (int k = 0; k < space->operand_count; k++)
            m->stride[k][at] = 0;
        at++;
    }
    m->row_ndim = at - m->outer_ndim;
}

/* Returns the number of elements of the space. Sets *writes to whether the
 * kernel writes at least one output element. It writes none if an outer
 * dimension has size 0, or if rows are empty and no output has one value per
 * row. */
static int64_t space_size(const tn__kernel *kernel, const tn__space *space,
                          bool *writes)
{
    bool row = false;
    for (int o = 0; o < kernel->output_count; o++)
        row |= kernel->out[o].level != TN_LEVEL_ELEM;
    int64_t all = 1;
    int d = 0;
    for (; d < space->outer_ndim; d++)
        all = tn__size_mul(all, space->extent[d]);
    const int64_t outer = all;
    for (; d < space->outer_ndim + space->row_ndim; d++)
        all = tn__size_mul(all, space->extent[d]);
    *writes = (row ? outer : all) != 0;
    return all;
}

tn_status tn__space_check(const char *name, const char *what, int ndim,
                          const int64_t *shape)
{
    int64_t all = 1;
    char text[TN__SHAPE_TEXT];
    for (int d = 0; d < ndim; d++)
        all = tn__size_mul(all, shape[d]);
    if (TN__LIKELY(all <= TN__SIZE_SPAN))
        return TN_OK;
    return tn__fail(TN_ERR_SHAPE,
                    what ? "%s: {%s:}an operand of shape %s has more than 2^56 "
                           "numbers, the limit of devices"
                         : "%s: %s %s has more than 2^56 numbers, the limit of "
                           "devices",
                    tn__op_outer(name), what ? what : "an iteration over",
                    tn__shape_text(text, ndim, shape));
}

tn_status tn__kernel_launch(tn_device *device, const tn__kernel *kernel,
                            tn__space *space, const tn_number *param,
                            const char *what)
{
    bool writes;
    const int64_t all = space_size(kernel, space, &writes);
    if (!writes)
        return TN_OK;
    if (TN__UNLIKELY(all > TN__SIZE_SPAN))
        return tn__space_check(what, NULL, space->outer_ndim + space->row_ndim,
                               space->extent);
    const tn_program *program = tn__kernel_program(kernel);
    tn_built *built = program ? tn__device_built(device, program) : NULL;
    if (!built)
        return tn_error_code();
    merged m;
    merge(&m, space);
    tn_launch_operand operand[TN__KERNEL_MAX_INPUTS + TN__KERNEL_MAX_OUTPUTS];
    for (int k = 0; k < space->operand_count; k++) {
        const tn__operand *of = &space->operand[k];
        operand[k] = (tn_launch_operand){
            of->tensor ? tn__tensor_buffer(of->tensor) : NULL,
            of->offset + (of->tensor ? tn__tensor_buffer_offset(of->tensor) : 0),
            m.stride[k], of->index_stride, of->index_extent};
    }
    tn_launch launch = {sizeof launch, (uint32_t)m.outer_ndim,
                        (uint32_t)m.row_ndim, space->flags, m.extent, operand,
                        param, 0};
    tn_fault fault = {.size = sizeof fault};
    tn__deferred_error late;
    tn_status status = tn__device_launch(
        device, program, built, &launch, what,
        device->synchronous ? NULL : tn__late_of_kernel(&late, kernel, space),
        &fault);
    if (status == TN_ERR_INDEX && fault.extent == TN__GUARD_EXTENT)
        return tn__fail_guard(tn__op_outer(what), kernel, &fault,
                              space->outer_ndim + space->row_ndim,
                              space->extent, "");
    if (status == TN_ERR_INDEX)
        return tn__fail_index(what, NULL, &fault,
                              space->outer_ndim + space->row_ndim,
                              space->extent);
    return status;
}
