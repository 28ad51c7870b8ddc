/* tally.c: bytes and operations of each primitive. An operation is one
 * arithmetic instruction of the kernel language on one element, those of the
 * functions that a program calls (exp, erf) included; a multiply-add is two. */
#include "device/tally.h"

#include "base/timeline.h"

static double bytes_of(uint32_t dtype)
{
    return (double)tn_dtype_bytes((tn_dtype)dtype);
}

static double product(const int64_t *extent, uint32_t count)
{
    double n = 1;
    for (uint32_t d = 0; d < count; d++)
        n *= (double)extent[d];
    return n;
}

/* The elements of an operand over that space: dimensions along which it does
 * not move repeat them. */
static double elements(const int64_t *extent, const int64_t *stride,
                       uint32_t count)
{
    double n = 1;
    for (uint32_t d = 0; d < count; d++)
        if (extent[d] == 0 || stride[d] != 0)
            n *= (double)extent[d];
    return n;
}

static double strided(const tn_strided *x, const int64_t *extent)
{
    return x->buffer ? elements(extent, x->stride, x->ndim) * bytes_of(x->dtype)
                     : 0;
}

/* ---- programs -------------------------------------------------------------- */

static double cost(const tn_program *program, const tn_kernel_ins *ins)
{
    switch (ins->op) {
    case TN_K_CONST:
    case TN_K_PARAM:
    case TN_K_ARG:
    case TN_K_LOAD:
    case TN_K_STORE:
    case TN_K_OFFSET:
    case TN_K_ROWLEN:
    case TN_K_LOOP:
    case TN_K_CARRY:
    case TN_K_ENDLOOP:
        return 0;
    case TN_K_FMA:
        return 2;
    case TN_K_CALL: {
        /* Functions call those with lower numbers: it ends. */
        const tn_kernel_fn *called = &program->fn[ins->imm.i];
        double sum = 0;
        for (uint32_t i = 0; i < called->ins_count; i++)
            sum += cost(program, &called->ins[i]);
        return sum;
    }
    default:
        return 1;
    }
}

/* Rounds of a loop whose bound the launch knows; 1 of another. */
static double rounds_of(const tn_program *program, const tn_launch *launch,
                        const tn_kernel_ins *loop)
{
    const tn_kernel_ins *bound = &program->ins[loop->a];
    int64_t n = bound->op == TN_K_CONST   ? bound->imm.i
                : bound->op == TN_K_PARAM ? launch->param[bound->imm.i].i
                                          : 1;
    return n > 0 ? (double)n : 0;
}

void tn__tally_launch(tn_device *device, const tn_program *program,
                      const tn_launch *launch)
{
    uint32_t ndim = launch->outer_ndim + launch->row_ndim;
    double rows = product(launch->extent, launch->outer_ndim);
    double all = product(launch->extent, ndim);
    double bytes = 0, operations = 0, rounds = 1;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_kernel_operand *operand = &program->operand[k];
        if (operand->access == TN_OPERAND_OFFSET)
            continue;
        double n = elements(launch->extent, launch->operand[k].stride, ndim);
        /* Read by index: where, is not known; each element finds one. */
        if (operand->index_count)
            n = operand->level == TN_LEVEL_ROW ? rows : all;
        bytes += n * bytes_of(operand->dtype);
    }
    uint32_t loop_end = 0;
    for (uint32_t i = 0; i < program->ins_count; i++) {
        const tn_kernel_ins *ins = &program->ins[i];
        if (ins->op == TN_K_LOOP) {
            rounds = rounds_of(program, launch, ins);
            loop_end = (uint32_t)ins->imm.i;
        } else if (i > loop_end) {
            rounds = 1;
        }
        double n = ins->level == TN_LEVEL_ELEM  ? all
                   : ins->level == TN_LEVEL_ROW ? rows
                                                : 1;
        /* A reduction has the level of its value and the work of its row. */
        if (ins->op == TN_K_REDUCE)
            n = all;
        operations += rounds * n * cost(program, ins);
    }
    tn__timeline_count(device, bytes, operations);
}

/* ---- the other primitives ---------------------------------------------------- */

void tn__tally_product(tn_device *device, const tn_product_args *args)
{
    double batch = product(args->batch, args->batch_ndim);
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    double in = batch * (m + n) * k * bytes_of(args->a.dtype);
    double out = batch * m * n * bytes_of(args->c.dtype);
    if (args->aux.buffer)
        out += args->aux.dtype == TN_U8 ? out / 8 : out;
    tn__timeline_count(device, in + out, 2 * batch * m * n * k);
}

void tn__tally_matmul(tn_device *device, const tn_matmul_args *args)
{
    double batch = product(args->batch, args->batch_ndim);
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    const int64_t *e = args->batch;
    uint32_t dims = args->batch_ndim;
    double a = elements(e, args->a.stride, dims) * m * k;
    double b = elements(e, args->b.stride, dims) * k * n;
    double c = batch * m * n * (args->beta != 0 ? 2 : 1);
    tn__timeline_count(device, (a + b + c) * bytes_of(args->c.dtype),
                       2 * batch * m * n * k);
}

void tn__tally_scatter(tn_device *device, const tn_scatter_args *args)
{
    double n = product(args->extent, args->ndim);
    double bytes = strided(&args->index, args->extent) +
                   strided(&args->src, args->extent);
    double touches = args->reduce == TN_SCATTER_SET ? 1 : 2;
    tn__timeline_count(device, bytes + touches * n * bytes_of(args->dst.dtype),
                       args->reduce == TN_SCATTER_SET ? 0 : n);
}

void tn__tally_scan(tn_device *device, const tn_scan_args *args)
{
    tn__timeline_count(device,
                       strided(&args->in, args->extent) +
                           strided(&args->out, args->extent) +
                           strided(&args->out_index, args->extent),
                       product(args->extent, args->ndim));
}

void tn__tally_sort(tn_device *device, const tn_sort_args *args)
{
    /* Comparisons hang on the method; bytes do not. */
    double rows = args->ndim ? product(args->extent, args->ndim - 1) : 1;
    double kept = rows * (double)args->keep;
    double bytes = strided(&args->in, args->extent);
    if (args->out.buffer)
        bytes += kept * bytes_of(args->out.dtype);
    if (args->out_index.buffer)
        bytes += kept * bytes_of(args->out_index.dtype);
    tn__timeline_count(device, bytes, 0);
}

void tn__tally_copy(tn_device *device, const tn_copy_args *args)
{
    tn__timeline_count(device, 2 * (double)args->bytes * (double)args->rows, 0);
}

void tn__tally_conv(tn_device *device, const tn_conv_args *args)
{
    double count = (double)args->count, taps = product(args->kernel, 2);
    double ins = (double)args->in_channels, outs = (double)args->out_channels;
    double in = count * ins * product(args->in_size, 2);
    double out = count * outs * product(args->out_size, 2);
    double each = taps * ins / (double)args->groups;
    tn__timeline_count(device,
                       (in + out + outs * each) * bytes_of(args->out.dtype),
                       2 * out * each);
}

void tn__tally_pool(tn_device *device, const tn_pool_args *args)
{
    double planes = (double)args->count * (double)args->channels;
    double in = planes * product(args->in_size, 2);
    double out = planes * product(args->out_size, 2);
    double bytes = (in + out) * bytes_of(args->out.dtype);
    if (args->index.buffer)
        bytes += out * bytes_of(args->index.dtype);
    tn__timeline_count(device, bytes, out * product(args->kernel, 2));
}

/* Two products of (queries, keys), five backward, as if nothing were masked. */
void tn__tally_attention(tn_device *device, const tn_attention_args *args)
{
    double pairs = (double)args->queries * (double)args->keys *
                   (double)args->batch * (double)args->heads;
    double q = (double)args->batch * (double)args->heads *
               (double)args->queries;
    double k = (double)args->batch * (double)args->kv_heads *
               (double)args->keys;
    double size = (double)(args->features + args->values);
    bool back = args->kind == TN_ATTENTION_BACKWARD;
    tn__timeline_count(device, (back ? 2 : 1) * (q + k) * size *
                       bytes_of(args->q.dtype) + 4 * q,
                       (back ? 5 : 2) * pairs * size);
}

/* Operations hang on the method; matrices are read and written. */
void tn__tally_lapack(tn_device *device, const tn_lapack_args *args)
{
    double m = (double)args->m, n = (double)args->n;
    double each = m * n + (double)args->sides * (m > n ? m : n);
    tn__timeline_count(device,
                       2 * (double)args->batch * each *
                           bytes_of(args->a.dtype),
                       0);
}
