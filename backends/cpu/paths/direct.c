/* direct.c: programs of one instruction over contiguous operands, such as a +
 * b, and programs that fill a tensor with a scalar. An input may also be a
 * scalar, one row that is broadcast to all rows, or one scalar per row. Most
 * programs in eager code are of this kind. They run without blocks, so that
 * small ones start fast. */
#include <string.h>

#include "../program/program.h"

#define TASK_ELEMENTS 65536 /* elements that one task computes */
/* With shorter rows, one call for each row would take too long. */
#define MIN_ROW 64

/* Sets *type to the register type of a dtype in which programs compute without
 * conversion. Returns false for all other dtypes. */
static bool type_as_stored(tn_dtype dtype, uint8_t *type)
{
    switch (dtype) {
    case TN_F32:
        *type = CPU_F32;
        return true;
    case TN_F64:
        *type = CPU_F64;
        return true;
    case TN_I32:
        *type = CPU_I32;
        return true;
    case TN_I64:
        *type = CPU_I64;
        return true;
    default:
        return false;
    }
}

/* Sets direct->in[i] to the source of input i: an operand that is loaded
 * without an index, a parameter or a constant. Returns false if the instruction
 * `value`, which computes the input, is none of these. */
static bool read_input(cpu_direct *direct, uint32_t i,
                       const tn_program *program, uint32_t value)
{
    const tn_kernel_ins *ins = &program->ins[value];
    direct->in[i].operand = TN_CPU_NONE;
    if (ins->op == TN_K_LOAD) {
        direct->in[i].operand = (uint32_t)ins->imm.i;
        return ins->a == TN_NONE && ins->b == TN_NONE && ins->c == TN_NONE &&
               type_as_stored(program->operand[ins->imm.i].dtype,
                              &direct->in[i].type);
    }
    if (!type_as_stored(ins->dtype, &direct->in[i].type))
        return false;
    direct->in[i].is_param = ins->op == TN_K_PARAM;
    direct->in[i].number = (uint32_t)ins->imm.i;
    if (ins->op == TN_K_CONST)
        tn__cpu_number_store(&direct->in[i].constant, direct->in[i].type,
                             (tn_number){.i = ins->imm.i});
    return ins->op == TN_K_CONST || ins->op == TN_K_PARAM;
}

/* Returns whether the program is a STORE of a scalar, or of the result of one
 * instruction of the list below. The inputs must be loads, parameters or
 * constants. Sets built->direct. */
static bool recognise(tn_built *built, const tn_program *program)
{
    const tn_kernel_ins *store = NULL, *work = NULL;
    cpu_direct direct = {.run = NULL};
    uint8_t result;
    uint32_t result_value = TN_NONE;
    if (built->has_rows)
        return false;
    for (uint32_t i = 0; i < program->ins_count; i++) {
        const tn_kernel_ins *ins = &program->ins[i];
        if (ins->op == TN_K_CONST || ins->op == TN_K_PARAM ||
            ins->op == TN_K_LOAD)
            continue;
        if (ins->op == TN_K_STORE ? store != NULL : work != NULL)
            return false;
        if (ins->op == TN_K_STORE) {
            store = ins;
        } else {
            work = ins;
            result_value = i;
        }
    }
    if (!store ||
        !type_as_stored(program->operand[store->imm.i].dtype, &result))
        return false;
    direct.out = (uint32_t)store->imm.i;
    if (!work) {
        if (program->ins[store->a].op == TN_K_LOAD ||
            program->ins[store->a].dtype !=
                program->operand[store->imm.i].dtype ||
            !read_input(&direct, 0, program, store->a))
            return false;
        direct.run = built->routines->fill[result];
        direct.fills = true;
        direct.allowed = direct.in_count = 1;
        built->direct = direct;
        return true;
    }
    if (store->a != result_value || work->a == TN_NONE ||
        program->operand[store->imm.i].dtype != work->dtype)
        return false;
    const uint32_t value[3] = {work->a, work->b, work->c};
    for (; direct.in_count < 3 && value[direct.in_count] != TN_NONE;
         direct.in_count++)
        if (!read_input(&direct, direct.in_count, program,
                        value[direct.in_count]))
            return false;
    switch (work->op) {
    case TN_K_ADD:
    case TN_K_SUB:
    case TN_K_MUL:
    case TN_K_DIV:
    case TN_K_MIN:
    case TN_K_MAX:
    case TN_K_FMA:
    case TN_K_NEG:
    case TN_K_ABS:
    case TN_K_SQRT:
        direct.run = built->routines->op[work->op][result];
        break;
    case TN_K_CAST:
        direct.run = built->routines->cast[direct.in[0].type][result];
        if (direct.in[0].operand == TN_CPU_NONE) {
            direct.convert = direct.run;
            direct.run = built->routines->fill[result];
            direct.fills = true;
        }
        break;
    default:
        return false;
    }
    direct.allowed = direct.convert ? 1 : tn__cpu_scalar_allowed(work->op);
    built->direct = direct;
    return direct.run != NULL;
}

/* Returns 1 if the operand is contiguous in row-major order, 0 if it is one
 * scalar (all strides are 0), and -1 for all other strides. */
static int shape_of(const tn_launch *launch, const int64_t *stride)
{
    int64_t expected = 1;
    bool flat = true, single = true;
    for (uint32_t d = launch->outer_ndim + launch->row_ndim; d-- > 0;) {
        int64_t extent = launch->extent[d];
        if (extent == 1)
            continue;
        flat = flat && stride[d] == expected;
        single = single && stride[d] == 0;
        expected *= extent;
    }
    return flat ? 1 : single ? 0 : -1;
}

/* Returns the length of a row if all rows of the operand are the same memory.
 * If each row of the operand is one scalar, returns the row length and sets
 * *is_number to true. Returns 0 otherwise. */
static int64_t row_of(const tn_launch *launch, const int64_t *stride,
                      bool *is_number)
{
    uint32_t d = launch->outer_ndim + launch->row_ndim;
    int64_t length = 1, expected = 1;
    while (d > 0 && launch->extent[d - 1] == 1)
        d--;
    *is_number = d > 0 && stride[d - 1] == 0;
    for (; d > 0 && (launch->extent[d - 1] == 1 ||
                     stride[d - 1] == (*is_number ? 0 : length));
         d--)
        length *= launch->extent[d - 1];
    while (d-- > 0) {
        if (launch->extent[d] == 1)
            continue;
        if (stride[d] != (*is_number ? expected : 0))
            return 0;
        expected *= launch->extent[d];
    }
    return length;
}

/* Computes elements [first, first + count) and stores them at `out`. */
static void run_some(const cpu_pass *p, void *out, int64_t first, int64_t count)
{
    size_t at = (size_t)first;
    if (p->length == 0) {
        p->run(out, p->in[0] + at * p->bytes[0], p->in[1] + at * p->bytes[1],
               p->in[2] + at * p->bytes[2], count, p->scalar);
        return;
    }
    size_t row = at / (size_t)p->length, column = at % (size_t)p->length;
    for (char *to = out; count > 0; row++, column = 0) {
        int64_t n = tn__cpu_min(p->length - (int64_t)column, count);
        p->run(to, p->in[0] + row * p->row_bytes[0] + column * p->bytes[0],
               p->in[1] + row * p->row_bytes[1] + column * p->bytes[1],
               p->in[2] + row * p->row_bytes[2] + column * p->bytes[2], n,
               p->scalar);
        to += (size_t)n * p->out_bytes;
        count -= n;
    }
}

/* Computes elements [first, end) in pieces of 4 KiB in a buffer, and copies
 * each piece to the output by non-temporal stores. Adding 2^24 floats takes 3.6
 * ms, 4.0 ms with a buffer of 2 KiB and 4.3 ms with 8 KiB (Zen 5, 2026-11). */
static void run_streamed(const cpu_pass *p, int64_t first, int64_t end)
{
    _Alignas(64) uint64_t block[512];
    int64_t step = (int64_t)(sizeof block / p->out_bytes);
    for (; first < end; first += step) {
        int64_t n = tn__cpu_min(step, end - first);
        run_some(p, block, first, n);
        p->stream(p->out + (size_t)first * p->out_bytes, block,
                  n * (int64_t)p->out_bytes, 0);
    }
    p->fence();
}

void tn__cpu_pass_task(const cpu_pass *p, int64_t i)
{
    int64_t first = i * TASK_ELEMENTS;
    int64_t count = tn__cpu_min(TASK_ELEMENTS, p->count - first);
    unsigned fpu = tn__cpu_fpu_set();
    if (p->stream)
        run_streamed(p, first, first + count);
    else
        run_some(p, p->out + (size_t)first * p->out_bytes, first, count);
    tn__cpu_fpu_restore(fpu);
}

static void run_task(void *context, int64_t i)
{
    tn__cpu_pass_task(context, i);
}

/* Sets the fields for inputs that repeat: along a row (one scalar per row), or
 * from row to row (all rows of the output use the same row of the input).
 * shape[i] is the result of shape_of() for input i. Returns false if the inputs
 * have different row lengths, or if rows are short. */
static bool set_rows(cpu_pass *p, const cpu_direct *direct, const tn_launch *launch,
                     const int shape[3])
{
    for (uint32_t i = 0; i < direct->in_count; i++) {
        bool is_number;
        if (shape[i] >= 0)
            continue;
        int64_t length = row_of(
            launch, launch->operand[direct->in[i].operand].stride, &is_number);
        if (length < MIN_ROW || (p->length > 0 && p->length != length) ||
            p->in[i] == p->out)
            return false;
        p->length = length;
        p->row_bytes[i] = is_number ? p->bytes[i] : 0;
        if (is_number) {
            p->bytes[i] = 0;
            p->scalar |= 1u << i;
        }
    }
    for (uint32_t i = 0; i < 3; i++)
        if (i >= direct->in_count || shape[i] >= 0)
            p->row_bytes[i] = (size_t)p->length * p->bytes[i];
    return true;
}

/* Returns whether the result is large enough for non-temporal stores:
 * stream_bytes, or half of it if the program has machine code. Machine code
 * uses such stores without a buffer (cut_plan.c), so the launch is then left to
 * it. */
static bool is_streamed(const tn_built *built, int64_t bytes)
{
    int64_t part = built->kept.segment_count > 0 ? 2 : 1;
    return bytes >= built->stream_bytes / part;
}

void tn__cpu_pass_point(cpu_pass *p, const tn_built *built,
                        const tn_launch *launch)
{
    const cpu_direct *direct = &built->direct;
    const tn_launch_operand *to = &launch->operand[direct->out];
    p->out = tn__cpu_at(to->buffer, to->offset,
                        tn__cpu_dtype_bytes[built->operand[direct->out].dtype]);
    for (uint32_t i = 0; i < direct->in_count; i++) {
        const uint32_t k = direct->in[i].operand;
        if (k != TN_CPU_NONE) {
            const tn_launch_operand *from = &launch->operand[k];
            p->in[i] =
                tn__cpu_at(from->buffer, from->offset,
                           tn__cpu_dtype_bytes[built->operand[k].dtype]);
        } else if (direct->in[i].is_param) {
            tn__cpu_number_store(&p->number[i], direct->in[i].type,
                                 launch->param[direct->in[i].number]);
            p->in[i] = (const char *)&p->number[i];
        } else {
            p->in[i] = (const char *)&direct->in[i].constant;
        }
    }
    for (uint32_t i = direct->in_count; i < 3; i++)
        p->in[i] = p->in[0];
    if (direct->convert) {
        unsigned fpu = tn__cpu_fpu_set();
        direct->convert(&p->value, p->in[0], p->in[0], p->in[0], 1, 0);
        tn__cpu_fpu_restore(fpu);
        p->in[0] = (const char *)&p->value;
    }
}

bool tn__cpu_pass_plan(cpu_pass *p, const tn_built *built,
                       const tn_launch *launch)
{
    const cpu_direct *direct = &built->direct;
    const tn_launch_operand *to = &launch->operand[direct->out];
    int shapes[3];
    bool rows = false;
    if (shape_of(launch, to->stride) != 1)
        return false;
    bool in_place = false;
    tn__cpu_pass_point(p, built, launch);
    p->run = direct->run;
    p->scalar = 0;
    p->length = 0;
    p->stream = NULL;
    p->fence = NULL;
    p->tasks = 0;
    p->count =
        tn__cpu_numel(launch->extent, launch->outer_ndim + launch->row_ndim);
    p->out_bytes = tn__cpu_dtype_bytes[built->operand[direct->out].dtype];
    for (uint32_t i = 0; i < direct->in_count; i++) {
        uint32_t k = direct->in[i].operand;
        int shape = 0;
        p->bytes[i] = 0;
        if (k != TN_CPU_NONE) {
            const tn_launch_operand *from = &launch->operand[k];
            p->bytes[i] = tn__cpu_dtype_bytes[built->operand[k].dtype];
            shape = from->stride == to->stride
                        ? 1
                        : shape_of(launch, from->stride);
            in_place = in_place || p->in[i] == p->out;
        }
        shapes[i] = shape;
        rows = rows || shape < 0;
        if (shape == 0 && p->count != 1) {
            p->scalar |= 1u << i;
            p->bytes[i] = 0;
        }
    }
    for (uint32_t i = direct->in_count; i < 3; i++)
        p->bytes[i] = 0;
    if (rows && !set_rows(p, direct, launch, shapes))
        return false;
    if ((p->scalar & ~direct->allowed) || (p->scalar & 3) == 3)
        return false;
    if (p->count == 0)
        return true;
    if (!in_place && is_streamed(built, p->count * (int64_t)p->out_bytes)) {
        if (built->kept.segment_count > 0)
            return false;
        p->stream = built->routines->stream;
        p->fence = built->routines->fence;
    } else if (direct->fills && p->count > TASK_ELEMENTS) {
        p->run =
            tn__cpu_fill_for(built->routines, (int64_t)p->out_bytes, p->count);
    }
    p->tasks = (p->count + TASK_ELEMENTS - 1) / TASK_ELEMENTS;
    return true;
}

static bool launch_direct(tn_built *built, const tn_launch *launch,
                          tn_status *status)
{
    (void)status;
    /* not initialised, because clearing all of it takes longer than a short
     * addition */
    cpu_pass p;
    if (!tn__cpu_pass_plan(&p, built, launch))
        return false;
    if (p.tasks == 1)
        tn__cpu_pass_task(&p, 0);
    else if (p.tasks > 1)
        tn__cpu_host->parallel_for(p.tasks, run_task, &p);
    return true;
}

const cpu_path tn__cpu_path_direct = {
    .name = "direct", .recognise = recognise, .launch = launch_direct};
