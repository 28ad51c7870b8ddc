/* access.c: lists the memory that a recorded command reads and writes. For
 * strided operands the range from the first to the last element counts, also if
 * the operand does not contain all of it. */
#include <device/access.h>
#include <device/work.h>

enum { READS = 1, WRITES = 2 };

typedef struct list {
    tn__access *access;
    int count;
} list;

/* Adds an operand with these sizes and strides, in elements of `unit` bytes. */
static void add(list *l, tn_buffer *const *buffer, const int64_t *offset,
                uint32_t unit, int how, uint32_t ndim, const int64_t *extent,
                const int64_t *stride)
{
    int64_t low = 0, high = 1;
    if (!*buffer)
        return;
    for (uint32_t d = 0; d < ndim; d++) {
        const int64_t reach = (extent[d] - 1) * stride[d];
        if (extent[d] == 0)
            high = low; /* no elements */
        else if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    for (uint32_t d = 0; d < ndim; d++)
        if (extent[d] == 0)
            low = high = 0;
    l->access[l->count++] = (tn__access){
        /* A record owns its commands, which it allocated itself. */
        (tn_buffer **)(uintptr_t)buffer, (int64_t *)(uintptr_t)offset, unit,
        how & READS, how & WRITES, (*offset + low) * unit,
        (*offset + high) * unit};
}

static void add_strided(list *l, const tn_strided *x, int how, uint32_t ndim,
                        const int64_t *extent)
{
    if (x->buffer)
        add(l, &x->buffer, &x->offset, (uint32_t)tn_dtype_bytes((tn_dtype)x->dtype),
            how, ndim, extent, x->stride);
}

static void list_launch(list *l, const tn__command *command)
{
    const tn_launch *launch = &command->args.launch;
    const tn_program *program = command->program;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_kernel_operand *kind = &program->operand[k];
        const tn_launch_operand *operand = &launch->operand[k];
        int64_t extent[TN_MAX_NDIM + 3], stride[TN_MAX_NDIM + 3];
        uint32_t ndim = 0;
        if (kind->access == TN_OPERAND_OFFSET)
            continue;
        /* A number for each row exists also if the rows have no elements: the
         * sum of no elements is written. */
        const uint32_t dims =
            launch->outer_ndim +
            (kind->level == TN_LEVEL_ROW ? 0 : launch->row_ndim);
        for (; ndim < dims; ndim++) {
            extent[ndim] = launch->extent[ndim];
            stride[ndim] = operand->stride[ndim];
            /* A reduction writes its result for an empty row, too. */
            if (ndim >= launch->outer_ndim && !extent[ndim] && !stride[ndim])
                extent[ndim] = 1;
        }
        for (uint32_t i = 0; i < kind->index_count; i++, ndim++) {
            extent[ndim] = operand->index_extent[i];
            stride[ndim] = operand->index_stride[i];
        }
        add(l, &operand->buffer, &operand->offset,
            (uint32_t)tn_dtype_bytes((tn_dtype)kind->dtype),
            kind->access == TN_OPERAND_WRITE ? WRITES : READS, ndim, extent,
            stride);
    }
}

/* Copies the batch sizes and two more sizes to extent. */
static uint32_t put_sizes(int64_t *extent, uint32_t batch_ndim,
                          const int64_t *batch, int64_t rows, int64_t columns)
{
    for (uint32_t d = 0; d < batch_ndim; d++)
        extent[d] = batch[d];
    extent[batch_ndim] = rows;
    extent[batch_ndim + 1] = columns;
    return batch_ndim + 2;
}

static void list_matmul(list *l, const tn_matmul_args *p)
{
    int64_t a[TN_MAX_NDIM + 2], b[TN_MAX_NDIM + 2], c[TN_MAX_NDIM + 2];
    put_sizes(a, p->batch_ndim, p->batch, p->m, p->k);
    put_sizes(b, p->batch_ndim, p->batch, p->k, p->n);
    const uint32_t ndim = put_sizes(c, p->batch_ndim, p->batch, p->m, p->n);
    add_strided(l, &p->a, READS, ndim, a);
    add_strided(l, &p->b, READS, ndim, b);
    add_strided(l, &p->c, p->beta != 0 ? READS | WRITES : WRITES, ndim, c);
}

static void list_product(list *l, const tn_product_args *p)
{
    int64_t a[TN_MAX_NDIM + 2], b[TN_MAX_NDIM + 2], c[TN_MAX_NDIM + 2];
    put_sizes(a, p->batch_ndim, p->batch, p->m, p->k);
    put_sizes(b, p->batch_ndim, p->batch, p->k, p->n);
    const uint32_t ndim = put_sizes(c, p->batch_ndim, p->batch, p->m, p->n);
    add_strided(l, &p->a, READS, ndim, a);
    add_strided(l, &p->b, READS, ndim, b);
    add_strided(l, &p->c, WRITES, ndim, c);
    const bool sums = p->epilogue & TN_PRODUCT_SUMS;
    add_strided(l, &p->bias, sums ? WRITES : READS, 1, sums ? &p->m : &p->n);
    const int aux = p->epilogue & TN_PRODUCT_KEEP ? WRITES : READS;
    if (p->epilogue & TN_PRODUCT_RELU && p->aux.buffer) {
        int64_t bytes = TN_PRODUCT_MASK(p->n) * p->m;
        const int64_t one = 1;
        for (uint32_t d = 0; d < p->batch_ndim; d++)
            bytes *= p->batch[d];
        add(l, &p->aux.buffer, &p->aux.offset, 1, aux, 1, &bytes, &one);
    } else {
        add_strided(l, &p->aux, aux, ndim, c);
    }
    add_strided(l, &p->scale_a, READS, 0, NULL);
    add_strided(l, &p->scale_b, READS, 0, NULL);
}

static void list_scatter(list *l, const tn_scatter_args *p)
{
    int64_t extent[TN_MAX_NDIM];
    for (uint32_t d = 0; d < p->ndim; d++)
        extent[d] = d == p->dim ? p->dst_extent : p->extent[d];
    add_strided(l, &p->dst, READS | WRITES, p->ndim, extent);
    add_strided(l, &p->index, READS, p->ndim, p->extent);
    add_strided(l, &p->src, READS, p->ndim, p->extent);
}

static void list_scan(list *l, const tn_scan_args *p)
{
    add_strided(l, &p->in, READS, p->ndim, p->extent);
    add_strided(l, &p->out, WRITES, p->ndim, p->extent);
    add_strided(l, &p->out_index, WRITES, p->ndim, p->extent);
}

static void list_sort(list *l, const tn_sort_args *p)
{
    add_strided(l, &p->in, READS, p->ndim, p->extent);
    int64_t extent[TN_MAX_NDIM];
    for (uint32_t d = 0; d < p->ndim; d++)
        extent[d] = d + 1 == p->ndim && p->keep < p->extent[d] ? p->keep
                                                               : p->extent[d];
    add_strided(l, &p->out, WRITES, p->ndim, extent);
    add_strided(l, &p->out_index, WRITES, p->ndim, extent);
}

static void list_conv(list *l, const tn_conv_args *p)
{
    const int64_t in[4] = {p->count, p->in_channels, p->in_size[0],
                           p->in_size[1]};
    const int64_t weight[4] = {p->out_channels, p->in_channels / p->groups,
                               p->kernel[0], p->kernel[1]};
    const int64_t out[4] = {p->count, p->out_channels, p->out_size[0],
                            p->out_size[1]};
    add_strided(l, &p->in, p->kind == TN_CONV_INPUT ? WRITES : READS, 4, in);
    add_strided(l, &p->weight, p->kind == TN_CONV_WEIGHT ? WRITES : READS, 4,
                weight);
    add_strided(l, &p->out, p->kind == TN_CONV_FORWARD ? WRITES : READS, 4,
                out);
    add_strided(l, &p->bias, READS, 1, &p->out_channels);
}

static void list_pool(list *l, const tn_pool_args *p)
{
    const int64_t in[4] = {p->count, p->channels, p->in_size[0], p->in_size[1]};
    const int64_t out[4] = {p->count, p->channels, p->out_size[0],
                            p->out_size[1]};
    const bool back = p->kind == TN_POOL_MAX_BACK || p->kind == TN_POOL_AVG_BACK;
    add_strided(l, &p->in, back ? READS | WRITES : READS, 4, in);
    add_strided(l, &p->out, back ? READS : WRITES, 4, out);
    add_strided(l, &p->index, back ? READS : WRITES, 4, out);
}

static void list_attention(list *l, const tn_attention_args *p)
{
    const bool back = p->kind == TN_ATTENTION_BACKWARD;
    const int64_t q[4] = {p->batch, p->heads, p->queries, p->features};
    const int64_t k[4] = {p->batch, p->kv_heads, p->keys, p->features};
    const int64_t v[4] = {p->batch, p->kv_heads, p->keys, p->values};
    const int64_t out[4] = {p->batch, p->heads, p->queries, p->values};
    const int64_t mask[4] = {p->batch, p->heads, p->queries, p->keys};
    const int64_t rows = p->batch * p->heads * p->queries, one = 1;
    add_strided(l, &p->q, READS, 4, q);
    add_strided(l, &p->k, READS, 4, k);
    add_strided(l, &p->v, READS, 4, v);
    add_strided(l, &p->mask, READS, 4, mask);
    add_strided(l, &p->out, back ? READS : WRITES, 4, out);
    add(l, &p->lse.buffer, &p->lse.offset, sizeof(float),
        back ? READS : WRITES, 1, &rows, &one);
    if (!back)
        return;
    add_strided(l, &p->g, READS, 4, out);
    add_strided(l, &p->dq, READS | WRITES, 4, q);
    add_strided(l, &p->dk, READS | WRITES, 4, k);
    add_strided(l, &p->dv, READS | WRITES, 4, v);
}

/* The matrices of a factorisation are (matrices, columns, rows). */
static void list_lapack(list *l, const tn_lapack_args *p)
{
    const int how = READS | WRITES;
    const bool triangle = p->kind == TN_LAPACK_TRIANGLE;
    const bool square = triangle || p->kind == TN_LAPACK_SOLVE ||
                        p->kind == TN_LAPACK_CHOLESKY ||
                        p->kind == TN_LAPACK_EIGH;
    const int64_t a[3] = {p->batch, p->n, square ? p->n : p->m};
    const int64_t b[3] = {p->batch, triangle ? p->n : p->sides,
                          triangle                     ? p->sides
                          : p->kind == TN_LAPACK_SOLVE ? p->n
                                                       : p->m};
    const int64_t c[3] = {p->batch, p->n, p->n};
    const int64_t rows[2] = {p->batch, p->n};
    const int64_t pivots[2] = {p->batch, p->m && p->m < p->n ? p->m : p->n};
    add_strided(l, &p->a, how, 3, a);
    add_strided(l, &p->b, how, 3, b);
    add_strided(l, &p->c, how, 3, c);
    add_strided(l, &p->values, how, 2, rows);
    add_strided(l, &p->pivots, how, 2, pivots);
    add_strided(l, &p->info, how, 1, &p->batch);
}

static void list_quantised(list *l, const tn_quantised_product_args *p)
{
    const int64_t a[2] = {p->m, p->k}, b[2] = {p->n, p->b.stride[0]};
    const int64_t c[2] = {p->a.buffer ? p->m : p->n,
                          p->a.buffer ? p->n : p->k};
    add_strided(l, &p->a, READS, 2, a);
    add_strided(l, &p->b, READS, 2, b);
    add_strided(l, &p->c, WRITES, 2, c);
}

static void list_copy(list *l, const tn_copy_args *p)
{
    const int64_t extent[2] = {(int64_t)p->rows, (int64_t)p->bytes};
    const int64_t to[2] = {p->rows > 1 ? (int64_t)p->dst_pitch : 0, 1};
    const int64_t from[2] = {p->rows > 1 ? (int64_t)p->src_pitch : 0, 1};
    add(l, &p->dst, (const int64_t *)&p->dst_offset, 1, WRITES, 2, extent, to);
    add(l, &p->src, (const int64_t *)&p->src_offset, 1, READS, 2, extent, from);
}

int tn__command_accesses(tn__command *command,
                         tn__access access[TN__ACCESS_MAX])
{
    list l = {access, 0};
    switch (command->kind) {
    case TN__WORK_LAUNCH: list_launch(&l, command); break;
    case TN__WORK_COPY: list_copy(&l, &command->args.copy); break;
    case TN__WORK_MATMUL: list_matmul(&l, &command->args.matmul); break;
    case TN__WORK_SCATTER: list_scatter(&l, &command->args.scatter); break;
    case TN__WORK_SCAN: list_scan(&l, &command->args.scan); break;
    case TN__WORK_SORT: list_sort(&l, &command->args.sort); break;
    case TN__WORK_CONV: list_conv(&l, &command->args.conv); break;
    case TN__WORK_POOL: list_pool(&l, &command->args.pool); break;
    case TN__WORK_PRODUCT: list_product(&l, &command->args.product); break;
    case TN__WORK_ATTENTION: list_attention(&l, &command->args.attention); break;
    case TN__WORK_LAPACK: list_lapack(&l, &command->args.lapack); break;
    default: list_quantised(&l, &command->args.quantised_product); break;
    }
    if (command->after)
        list_launch(&l, command->after);
    return l.count;
}
