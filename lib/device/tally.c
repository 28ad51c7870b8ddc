/* tally.c: counts the bytes, operations and instructions of device work, for a
 * trace. An operation is one arithmetic instruction of the kernel language on
 * one element. A multiply-add is two operations. The instructions of called
 * functions (exp, erf) are included. A value that is the same along a dimension
 * (broadcast) is counted once, not for each index.
 *
 * The number of instructions is in units of one instruction on four-byte
 * values. An instruction on eight-byte values counts as two, and a multiply-add
 * as one. Instructions are not counted for matrix products, convolutions and
 * attention, where the number depends on the algorithm. The count is a lower
 * bound: for a loop that ends when all elements are done, only the test of the
 * first iteration is counted. */
#include <device/tally.h>

#include <base/timeline.h>

#include <string.h>

static double bytes_of(uint32_t dtype)
{
    return (double)tn_dtype_bytes((tn_dtype)dtype);
}

/* Returns the cost of an instruction on values of that type: 2 for eight bytes,
 * else 1. */
static double width_of(uint32_t dtype)
{
    return dtype == TN_F64 || dtype == TN_I64 ? 2 : 1;
}

static double product(const int64_t *extent, uint32_t count)
{
    double n = 1;
    for (uint32_t d = 0; d < count; d++)
        n *= (double)extent[d];
    return n;
}

/* Returns the number of distinct elements that an operand has in the iteration
 * space. A dimension of stride 0 repeats the same elements. */
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

/* ---- programs ------------------------------------------------------------ */

/* Numbers of operations, instructions and multiplications of some work. */
typedef struct work {
    double operations, instructions, multiplies;
} work;

static void add(work *sum, work more, double times)
{
    sum->operations += times * more.operations;
    sum->instructions += times * more.instructions;
    sum->multiplies += times * more.multiplies;
}

/* A launch that is being counted. along[i] says along which dimensions the
 * value of instruction i changes: bit d is set for dimension d, and LOOPED is
 * set if the value changes between iterations of a loop. Along other dimensions
 * the value is computed only once. For instructions beyond MAX_INS, their level
 * (element or row) gives the dimensions. */
enum { MAX_INS = 2048 };
#define LOOPED (1u << 31)
typedef struct counted {
    const tn_program *program;
    const tn_launch *launch;
    /* Bit sets: the dimensions across rows, and all dimensions. */
    uint32_t rows, all;
    uint32_t along[MAX_INS];
} counted;

static uint32_t along_of(const counted *c, uint32_t number)
{
    const tn_kernel_ins *ins = &c->program->ins[number];
    if (number < MAX_INS)
        return c->along[number];
    return LOOPED | (ins->level == TN_LEVEL_ELEM  ? c->all
                     : ins->level == TN_LEVEL_ROW ? c->rows
                                                  : 0);
}

static uint32_t find_along(const counted *c, const tn_kernel_ins *ins)
{
    static const uint8_t operands[] = {
#define OPERANDS(name, operands, text) operands,
        TN_KERNEL_MAP(OPERANDS)
#undef OPERANDS
    };
    const uint32_t of[] = {ins->a, ins->b, ins->c};
    bool loops = ins->op == TN_K_LOOP || ins->op == TN_K_CARRY;
    uint32_t along = loops ? LOOPED : 0;
    for (int k = 0; k < operands[ins->op] && ins->op != TN_K_LOOP; k++)
        along |= of[k] == TN_NONE ? 0 : along_of(c, of[k]);
    if (ins->op == TN_K_LOAD || ins->op == TN_K_OFFSET) {
        const int64_t *stride = c->launch->operand[ins->imm.i].stride;
        for (uint32_t d = 0; c->all >> d; d++)
            along |= stride[d] != 0 ? 1u << d : 0;
    }
    return ins->op == TN_K_REDUCE ? along & c->rows : along;
}

/* Sets along[] for all instructions. The pass is repeated until nothing
 * changes, because the variables of a loop depend on later instructions. */
static void find_all_along(counted *c)
{
    uint32_t count =
        c->program->ins_count < MAX_INS ? c->program->ins_count : MAX_INS;
    memset(c->along, 0, count * sizeof *c->along);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t along = find_along(c, &c->program->ins[i]);
            changed = changed || along != c->along[i];
            c->along[i] = along;
        }
    }
}

/* Returns how often an instruction is executed in the launch. `rounds` is the
 * number of iterations of the loop that contains it, or 1. */
static double times_of(const counted *c, uint32_t number, double rounds)
{
    const tn_kernel_ins *ins = &c->program->ins[number];
    /* A reduction is executed once for each element of its row, although its
     * result does not change along the row. */
    uint32_t along = ins->op == TN_K_REDUCE
                         ? along_of(c, ins->a) | (c->all & ~c->rows)
                         : along_of(c, number);
    double n = along & LOOPED ? rounds : 1;
    for (uint32_t d = 0; c->all >> d; d++)
        if (along >> d & 1)
            n *= (double)c->launch->extent[d];
    return n;
}

/* Returns the cost of an instruction that is not a function call. `in` is the
 * type of its first operand. */
static work cost(const tn_kernel_ins *ins, uint32_t in)
{
    /* PHILOX is the cost of one random 32-bit word. Philox4x32-10 makes four
     * words in ten rounds, each of which has two 64-bit products (four
     * instructions) and four exclusive ors. */
    enum { PRODUCTS = 10 * 2 * 2 / 4, PHILOX = PRODUCTS + 10 * 4 / 4 };
    double width = width_of(ins->dtype) > width_of(in) ? width_of(ins->dtype)
                                                       : width_of(in);
    switch (ins->op) {
    case TN_K_CONST:
    case TN_K_PARAM:
    case TN_K_ARG:
    case TN_K_LOAD:
    case TN_K_STORE:
    case TN_K_OFFSET:
    case TN_K_ROWLEN:
    case TN_K_BITCAST:
    case TN_K_LOOP:
    case TN_K_CARRY:
    case TN_K_ENDLOOP:
        return (work){0, 0, 0};
    case TN_K_FMA:
        return (work){2, width, width};
    case TN_K_PHILOX:
        return (work){PHILOX, PHILOX, PRODUCTS};
    case TN_K_MUL:
    case TN_K_MULHI:
    case TN_K_DIV:
        return (work){1, width, width};
    default:
        return (work){1, width, 0};
    }
}

/* Returns the number of iterations of a loop: its bound if that is a constant
 * or a parameter of the launch, else 1. */
static double rounds_of(const counted *c, const tn_kernel_ins *ins,
                        uint32_t loop)
{
    const tn_kernel_ins *bound = &ins[ins[loop].a];
    int64_t n = bound->op == TN_K_CONST   ? bound->imm.i
                : bound->op == TN_K_PARAM ? c->launch->param[bound->imm.i].i
                                          : 1;
    return n > 0 ? (double)n : 0;
}

/* Returns the total work of the instructions from `first` up to but not
 * including `end`, times `rounds`. For the body of a function, that is the work
 * for one element. */
static work sum_of(const counted *c, const tn_kernel_ins *ins, uint32_t first,
                   uint32_t end, double rounds)
{
    bool is_program = ins == c->program->ins;
    work sum = {0, 0, 0};
    for (uint32_t i = first; i < end; i++) {
        if (ins[i].op == TN_K_LOOP) {
            uint32_t last = (uint32_t)ins[i].imm.i, asked = i + 1;
            while (asked < last && ins[asked].op != TN_K_WHILE)
                asked++;
            /* A loop with a stop condition may end at its first test, so only
             * one iteration is counted, up to the test. */
            double more = asked < last ? 1 : rounds_of(c, ins, i);
            add(&sum, sum_of(c, ins, i + 1, asked, rounds * more), 1);
            i = last;
            continue;
        }
        work one;
        if (ins[i].op == TN_K_CALL) {
            /* A function calls only functions with lower indices, so this
             * recursion ends. */
            const tn_kernel_fn *called = &c->program->fn[ins[i].imm.i];
            one = sum_of(c, called->ins, 0, called->ins_count, 1);
        } else {
            bool has = ins[i].a != TN_NONE && ins[i].op >= TN_K_REDUCE;
            one = cost(&ins[i], has ? ins[ins[i].a].dtype : ins[i].dtype);
        }
        add(&sum, one, is_program ? times_of(c, i, rounds) : rounds);
    }
    return sum;
}

void tn__tally_launch(tn_device *device, const tn_program *program,
                      const tn_launch *launch)
{
    uint32_t ndim = launch->outer_ndim + launch->row_ndim;
    double rows = product(launch->extent, launch->outer_ndim);
    double all = product(launch->extent, ndim), bytes = 0;
    for (uint32_t k = 0; k < program->operand_count; k++) {
        const tn_kernel_operand *operand = &program->operand[k];
        if (operand->access == TN_OPERAND_OFFSET)
            continue;
        double n = elements(launch->extent, launch->operand[k].stride, ndim);
        /* The operand is read by index. Which elements are read is not known,
         * so one read is counted for each point. */
        if (operand->index_count)
            n = operand->level == TN_LEVEL_ROW ? rows : all;
        bytes += n * bytes_of(operand->dtype);
    }
    counted c = {.program = program, .launch = launch};
    c.rows = (1u << launch->outer_ndim) - 1;
    c.all = (1u << ndim) - 1;
    find_all_along(&c);
    work sum = sum_of(&c, program->ins, 0, program->ins_count, 1);
    tn__timeline_count(device, bytes, sum.operations);
    tn__timeline_count_instructions(sum.instructions, sum.multiplies);
}

/* ---- work other than programs -------------------------------------------- */

void tn__tally_product(tn_device *device, const void *given)
{
    const tn_product_args *args = given;
    double batch = product(args->batch, args->batch_ndim);
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    double in = batch * (m + n) * k * bytes_of(args->a.dtype);
    double out = batch * m * n * bytes_of(args->c.dtype);
    if (args->aux.buffer)
        out += args->aux.dtype == TN_U8 ? out / 8 : out;
    tn__timeline_count(device, in + out, 2 * batch * m * n * k);
}

void tn__tally_quantised_product(tn_device *device, const void *given)
{
    const tn_quantised_product_args *args = given;
    double m = (double)args->m, n = (double)args->n, k = (double)args->k;
    double bytes = n * (double)args->b.stride[0] +
                   4 * (args->a.buffer ? m * (k + n) : n * k);
    tn__timeline_count(device, bytes, 2 * m * n * k);
}

void tn__tally_matmul(tn_device *device, const void *given)
{
    const tn_matmul_args *args = given;
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

void tn__tally_scatter(tn_device *device, const void *given)
{
    const tn_scatter_args *args = given;
    double n = product(args->extent, args->ndim);
    double bytes = strided(&args->index, args->extent) +
                   strided(&args->src, args->extent);
    double touches = args->reduce == TN_SCATTER_SET ? 1 : 2;
    tn__timeline_count(device, bytes + touches * n * bytes_of(args->dst.dtype),
                       args->reduce == TN_SCATTER_SET ? 0 : n);
    if (args->reduce != TN_SCATTER_SET)
        tn__timeline_count_instructions(n * width_of(args->dst.dtype), 0);
}

void tn__tally_scan(tn_device *device, const void *given)
{
    const tn_scan_args *args = given;
    double n = product(args->extent, args->ndim);
    tn__timeline_count(device,
                       strided(&args->in, args->extent) +
                           strided(&args->out, args->extent) +
                           strided(&args->out_index, args->extent),
                       n);
    tn__timeline_count_instructions(n * width_of(args->in.dtype), 0);
}

void tn__tally_sort(tn_device *device, const void *given)
{
    const tn_sort_args *args = given;
    /* Only bytes are counted, since the number of comparisons depends on the
     * algorithm. */
    double rows = args->ndim ? product(args->extent, args->ndim - 1) : 1;
    double kept = rows * (double)args->keep;
    double bytes = strided(&args->in, args->extent);
    if (args->out.buffer)
        bytes += kept * bytes_of(args->out.dtype);
    if (args->out_index.buffer)
        bytes += kept * bytes_of(args->out_index.dtype);
    tn__timeline_count(device, bytes, 0);
}

void tn__tally_copy(tn_device *device, const void *given)
{
    const tn_copy_args *args = given;
    tn__timeline_count(device, 2 * (double)args->bytes * (double)args->rows, 0);
}

void tn__tally_conv(tn_device *device, const void *given)
{
    const tn_conv_args *args = given;
    double count = (double)args->count, taps = product(args->kernel, 2);
    double ins = (double)args->in_channels, outs = (double)args->out_channels;
    double in = count * ins * product(args->in_size, 2);
    double out = count * outs * product(args->out_size, 2);
    double each = taps * ins / (double)args->groups;
    tn__timeline_count(device,
                       (in + out + outs * each) * bytes_of(args->out.dtype),
                       2 * out * each);
}

void tn__tally_pool(tn_device *device, const void *given)
{
    const tn_pool_args *args = given;
    double planes = (double)args->count * (double)args->channels;
    double in = planes * product(args->in_size, 2);
    double out = planes * product(args->out_size, 2);
    double bytes = (in + out) * bytes_of(args->out.dtype);
    if (args->index.buffer)
        bytes += out * bytes_of(args->index.dtype);
    double operations = out * product(args->kernel, 2);
    tn__timeline_count(device, bytes, operations);
    tn__timeline_count_instructions(operations * width_of(args->out.dtype), 0);
}

/* Counts the operations of two matrix products of queries x keys in the forward
 * pass, and of five in the backward pass. Masks are ignored. */
void tn__tally_attention(tn_device *device, const void *given)
{
    const tn_attention_args *args = given;
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

/* Counts the bytes of the matrices, each of which is read once and written
 * once. Operations are not counted, since they depend on the algorithm. */
void tn__tally_lapack(tn_device *device, const void *given)
{
    const tn_lapack_args *args = given;
    double m = (double)args->m, n = (double)args->n;
    double each = m * n + (double)args->sides * (m > n ? m : n);
    tn__timeline_count(device,
                       2 * (double)args->batch * each *
                           bytes_of(args->a.dtype),
                       0);
}
