/* interpret.c: runs a program over host memory, one scalar at a time, as
 * plugin_program.h defines it. It is the reference that every device is
 * compared with, so it is simple rather than fast. It shares the definition of
 * each instruction with constant folding (eval.c).
 *
 * Rows are processed in row-major order. For each row, each stage loops over
 * all elements and computes again what it needs. Memory is allocated only at
 * the start of a launch. */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include <base/fpu.h>
#include <base/memory.h>
#include <kernel/reduction.h>
#include <kernel/narrow_float.h>
#include <kernel/kernel.h>

static _Atomic int64_t interpret_count;

int64_t tn__interpret_count(void)
{
    return interpret_count;
}

/* ---- memory ------------------------------------------------------------ */

/* Loads element i of an array of dtype. memcpy is used because it allows any
 * alignment and respects C's aliasing rules. */
static tn_number load_element(tn_dtype dtype, const void *memory, int64_t i)
{
    const char *at = memory;
    union {
        float f32;
        double f64;
        uint16_t half;
        int64_t i64;
        int32_t i32;
        int16_t i16;
        int8_t i8;
        uint8_t u8;
    } x;
    switch (dtype) {
    case TN_F32:
        memcpy(&x.f32, at + 4 * i, 4);
        return (tn_number){.f = x.f32};
    case TN_F64:
        memcpy(&x.f64, at + 8 * i, 8);
        return (tn_number){.f = x.f64};
    case TN_F16:
    case TN_BF16:
        memcpy(&x.half, at + 2 * i, 2);
        return (tn_number){.f = tn__narrow_decode(dtype, x.half)};
    case TN_F8E4M3:
    case TN_F8E5M2:
        memcpy(&x.u8, at + i, 1);
        return (tn_number){.f = tn__narrow_decode(dtype, x.u8)};
    case TN_I64:
        memcpy(&x.i64, at + 8 * i, 8);
        return (tn_number){.i = x.i64};
    case TN_I32:
        memcpy(&x.i32, at + 4 * i, 4);
        return (tn_number){.i = x.i32};
    case TN_I16:
        memcpy(&x.i16, at + 2 * i, 2);
        return (tn_number){.i = x.i16};
    case TN_I8:
        memcpy(&x.i8, at + i, 1);
        return (tn_number){.i = x.i8};
    case TN_U8:
        memcpy(&x.u8, at + i, 1);
        return (tn_number){.i = x.u8};
    default:
        assert(dtype == TN_BOOL);
        memcpy(&x.u8, at + i, 1);
        return (tn_number){.i = x.u8 != 0};
    }
}

static void store_element(tn_dtype dtype, void *memory, int64_t i,
                          tn_number value)
{
    char *at = memory;
    float f32;
    uint16_t half;
    uint8_t byte;
    int32_t i32;
    int16_t i16;
    switch (dtype) {
    case TN_F32:
        f32 = (float)value.f;
        memcpy(at + 4 * i, &f32, 4);
        return;
    case TN_F64:
        memcpy(at + 8 * i, &value.f, 8);
        return;
    case TN_F16:
    case TN_BF16:
        half = (uint16_t)tn__narrow_encode(dtype, (float)value.f);
        memcpy(at + 2 * i, &half, 2);
        return;
    case TN_F8E4M3:
    case TN_F8E5M2:
        byte = (uint8_t)tn__narrow_encode(dtype, (float)value.f);
        memcpy(at + i, &byte, 1);
        return;
    case TN_I64:
        memcpy(at + 8 * i, &value.i, 8);
        return;
    case TN_I32:
        i32 = (int32_t)(uint32_t)value.i;
        memcpy(at + 4 * i, &i32, 4);
        return;
    case TN_I16:
        i16 = (int16_t)(uint16_t)value.i;
        memcpy(at + 2 * i, &i16, 2);
        return;
    default: /* I8, U8, and BOOL, which is stored as a byte 0 or 1 */
        byte = (uint8_t)value.i;
        memcpy(at + i, &byte, 1);
        return;
    }
}

/* ---- running a program --------------------------------------------------- */

/* The values of a list of instructions, which is either the program or the body
 * of a function. */
typedef struct frame {
    const tn_kernel_ins *ins;
    tn_number *value; /* value[i] is the value of instruction i */
    tn_number *next;  /* next[i]: for a CARRY (a variable of a loop), its value
                       * in the next iteration */
} frame;

typedef struct run {
    const tn_program *program;
    const tn_launch *launch;
    void *const *memory;
    frame main;
    frame *fn;      /* the values of each function's body. One frame for each
                     * function is enough, since functions do not recurse */
    tn__reduction
        /* state of each reduction; for instruction i it is
         * reduction[reduction_of[i]] */
        *reduction;
    uint32_t *reduction_of;
    /* Offset in each operand of the current row (row_at) and of the current
     * element (elem_at), in elements. `position` is the row-major index of the
     * current element. */
    int64_t *row_at, *elem_at;
    const int64_t *at; /* row_at while a stage runs its instructions per row,
                        * elem_at while it runs its instructions per element */
    int64_t position;
    int64_t row_length;
    const tn_number *arg; /* arguments of the function that is running */
    tn_fault fault;       /* the first fault; its code is TN_OK if there was
                           * none yet */
} run;

static void raise_index(run *r, uint32_t operand, uint32_t dim, int64_t index,
                        int64_t extent)
{
    /* Keeps the fault of the element that comes first. Rows run in rising
     * order, but a later stage may find a fault at an earlier element of the
     * row. */
    if (r->fault.code != TN_OK && r->fault.position <= r->position)
        return;
    r->fault = (tn_fault){
        .size = sizeof r->fault,
        .code = TN_ERR_INDEX,
        .tag = r->launch->tag,
        .operand = operand,
        .dim = dim,
        .index = index,
        .extent = extent,
        .position = r->position,
    };
}

static tn_number run_load(run *r, const frame *f, const tn_kernel_ins *ins)
{
    uint32_t k = (uint32_t)ins->imm.i;
    const tn_launch_operand *operand = &r->launch->operand[k];
    const uint32_t index[3] = {ins->a, ins->b, ins->c};
    int64_t at = r->at[k];
    for (uint32_t d = 0; d < 3; d++) {
        if (index[d] == TN_NONE)
            continue;
        int64_t i = f->value[index[d]].i;
        if (i < 0 || i >= operand->index_extent[d]) {
            if (!(ins->sub & TN_LOAD_ZERO))
                raise_index(r, k, d, i, operand->index_extent[d]);
            bool is_float = ins->dtype == TN_F32 || ins->dtype == TN_F64;
            return is_float ? (tn_number){.f = 0} : (tn_number){.i = 0};
        }
        at += i * operand->index_stride[d];
    }
    return load_element(r->program->operand[k].dtype, r->memory[k], at);
}

static bool run_list(run *r, frame *f, const uint32_t *order, uint32_t first,
                     uint32_t end);

static tn_number run_call(run *r, const frame *f, const tn_kernel_ins *ins)
{
    const tn_kernel_fn *fn = &r->program->fn[ins->imm.i];
    const uint32_t operand[3] = {ins->a, ins->b, ins->c};
    tn_number arg[3];
    for (uint32_t i = 0; i < fn->arg_count; i++)
        arg[i] = f->value[operand[i]];

    const tn_number *callers = r->arg;
    frame *body = &r->fn[ins->imm.i];
    r->arg = arg;
    run_list(r, body, NULL, 0, fn->ins_count);
    r->arg = callers;
    return body->value[fn->result];
}

static tn_number operand(const frame *f, uint32_t number)
{
    return number == TN_NONE ? (tn_number){.i = 0} : f->value[number];
}

static void run_instruction(run *r, frame *f, uint32_t number)
{
    const tn_kernel_ins *ins = &f->ins[number];
    tn_number *value = &f->value[number];
    switch (ins->op) {
    case TN_K_PARAM: {
        tn_kernel_ins constant = *ins;
        constant.op = TN_K_CONST;
        memcpy(&constant.imm, &r->launch->param[ins->imm.i],
               sizeof constant.imm);
        tn_number none = {.i = 0};
        *value = tn__kernel_eval(&constant, none, none, none, TN_DTYPE_NONE);
        return;
    }
    case TN_K_ARG:
        *value = r->arg[ins->imm.i];
        return;
    case TN_K_LOAD:
        *value = run_load(r, f, ins);
        return;
    case TN_K_OFFSET:
        value->i = r->at[ins->imm.i];
        return;
    case TN_K_STORE:
        store_element(r->program->operand[ins->imm.i].dtype,
                      r->memory[ins->imm.i], r->at[ins->imm.i],
                      f->value[ins->a]);
        return;
    case TN_K_CALL:
        *value = run_call(r, f, ins);
        return;
    case TN_K_ROWLEN:
        value->i = r->row_length;
        return;
    case TN_K_REDUCE:
        tn__reduction_add(&r->reduction[r->reduction_of[number]], ins->sub,
                          f->ins[ins->a].dtype, f->value[ins->a]);
        return;
    default: {
        tn_dtype a_dtype =
            ins->a == TN_NONE ? TN_DTYPE_NONE : f->ins[ins->a].dtype;
        *value = tn__kernel_eval(ins, operand(f, ins->a), operand(f, ins->b),
                                 operand(f, ins->c), a_dtype);
        return;
    }
    }
}

/* Returns the index of the i-th instruction that runs. `order` lists the
 * indices of a program's instructions. It is NULL for a function, whose
 * instructions run in the order of their indices. */
static uint32_t number_at(const uint32_t *order, uint32_t i)
{
    return order ? order[i] : i;
}

/* Runs the loop whose LOOP instruction is order[first]. Returns the index of
 * its ENDLOOP in `order`. If a WHILE is false, the loop ends and the new values
 * of that iteration are dropped. */
static uint32_t run_loop(run *r, frame *f, const uint32_t *order,
                         uint32_t first)
{
    uint32_t number = number_at(order, first);
    const tn_kernel_ins *loop = &f->ins[number];
    uint32_t body = first + 1, end = first;
    while (number_at(order, end) != (uint32_t)loop->imm.i)
        end++;
    for (; f->ins[number_at(order, body)].op == TN_K_CARRY; body++) {
        uint32_t carry = number_at(order, body);
        f->value[carry] = f->value[f->ins[carry].a];
    }
    int64_t rounds = f->value[loop->a].i;
    for (int64_t i = 0; i < rounds; i++) {
        f->value[number].i = i;
        if (!run_list(r, f, order, body, end))
            break;
        /* Reads all new values before it sets any, since the new value of one
         * variable may be the old value of another. */
        for (uint32_t j = first + 1; j < body; j++) {
            uint32_t carry = number_at(order, j);
            f->next[carry] = f->value[f->ins[carry].b];
        }
        for (uint32_t j = first + 1; j < body; j++) {
            uint32_t carry = number_at(order, j);
            f->value[carry] = f->next[carry];
        }
    }
    return end;
}

/* Runs the instructions from order[first] up to but not including order[end].
 * If the condition of a WHILE is false, stops there and returns false. */
static bool run_list(run *r, frame *f, const uint32_t *order, uint32_t first,
                     uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        uint32_t number = number_at(order, i);
        const tn_kernel_ins *ins = &f->ins[number];
        if (ins->op == TN_K_LOOP)
            i = run_loop(r, f, order, i);
        else if (ins->op == TN_K_WHILE && !f->value[ins->a].i)
            return false;
        else if (ins->op != TN_K_WHILE)
            run_instruction(r, f, number);
    }
    return true;
}

/* Advances point[] to the next index, in row-major order, over `ndim`
 * dimensions, of which `first` is the outermost. Updates the offset at[k] of
 * each operand k. */
static void step(const run *r, uint32_t first, uint32_t ndim, int64_t *point,
                 int64_t *at)
{
    const int64_t *extent = r->launch->extent;
    for (uint32_t d = first + ndim; d-- > first;) {
        bool wraps = ++point[d] == extent[d];
        int64_t moved = wraps ? 1 - extent[d] : 1;
        for (uint32_t k = 0; k < r->program->operand_count; k++)
            at[k] += moved * r->launch->operand[k].stride[d];
        if (!wraps)
            return;
        point[d] = 0;
    }
}

/* Runs a stage's instructions per element for all elements of one row.
 * r->row_at has the offsets of the row. */
static void run_elements(run *r, const tn_kernel_stage *stage, int64_t row)
{
    uint32_t first = stage->elem_first, end = first + stage->elem_count;
    int64_t point[TN_MAX_NDIM * 2] = {0};
    memcpy(r->elem_at, r->row_at,
           r->program->operand_count * sizeof *r->elem_at);
    r->at = r->elem_at;
    for (int64_t k = 0; k < r->row_length; k++) {
        r->position = row * r->row_length + k;
        run_list(r, &r->main, r->program->order, first, end);
        step(r, r->launch->outer_ndim, r->launch->row_ndim, point, r->elem_at);
    }
    r->at = r->row_at;
    r->position = row * r->row_length;
}

static void run_stage(run *r, const tn_kernel_stage *stage, int64_t row)
{
    const tn_program *program = r->program;
    const uint32_t *elem = program->order + stage->elem_first;
    for (uint32_t i = 0; i < stage->elem_count; i++)
        if (program->ins[elem[i]].op == TN_K_REDUCE)
            tn__reduction_init(&r->reduction[r->reduction_of[elem[i]]]);
    if (stage->elem_count > 0)
        run_elements(r, stage, row);
    for (uint32_t i = 0; i < stage->elem_count; i++) {
        const tn_kernel_ins *ins = &program->ins[elem[i]];
        if (ins->op == TN_K_REDUCE)
            r->main.value[elem[i]] =
                tn__reduction_result(&r->reduction[r->reduction_of[elem[i]]],
                                     ins->sub, program->ins[ins->a].dtype);
    }
    run_list(r, &r->main, program->order, stage->row_first,
             stage->row_first + stage->row_count);
}

static int64_t product(const int64_t *extent, uint32_t from, uint32_t count)
{
    int64_t numel = 1;
    for (uint32_t d = from; d < from + count; d++)
        numel *= extent[d];
    return numel;
}

static void run_rows(run *r)
{
    const tn_program *program = r->program;
    const tn_launch *launch = r->launch;
    int64_t rows = product(launch->extent, 0, launch->outer_ndim);
    int64_t point[TN_MAX_NDIM * 2] = {0};

    r->row_length =
        product(launch->extent, launch->outer_ndim, launch->row_ndim);
    run_list(r, &r->main, program->order, 0, program->uniform_count);
    for (uint32_t k = 0; k < program->operand_count; k++)
        r->row_at[k] = launch->operand[k].offset;
    for (int64_t row = 0; row < rows; row++) {
        r->at = r->row_at;
        r->position = row * r->row_length;
        for (uint32_t s = 0; s < program->stage_count; s++)
            run_stage(r, &program->stage[s], row);
        step(r, 0, launch->outer_ndim, point, r->row_at);
    }
}

/* Allocates the memory that is needed to run this program. */
static bool run_init(run *r, const tn_program *program)
{
    size_t values = program->ins_count, reductions = 0;
    for (uint32_t i = 0; i < program->fn_count; i++)
        values += program->fn[i].ins_count;
    for (uint32_t n = 0; n < program->ins_count; n++)
        reductions += program->ins[n].op == TN_K_REDUCE;

    tn_number *value = tn__calloc(2 * values, sizeof *value);
    r->main.value = value; /* the frames of the functions use the rest of this
                            * memory */
    r->fn = tn__calloc(program->fn_count, sizeof *r->fn);
    r->reduction = tn__calloc(reductions, sizeof *r->reduction);
    r->reduction_of = tn__calloc(program->ins_count, sizeof *r->reduction_of);
    r->row_at =
        tn__calloc(2 * (size_t)program->operand_count, sizeof *r->row_at);
    if (!value || !r->fn || !r->reduction || !r->reduction_of || !r->row_at)
        return false;

    r->elem_at = r->row_at + program->operand_count;
    r->main.ins = program->ins;
    r->main.next = value + values;
    size_t used = program->ins_count;
    for (uint32_t i = 0; i < program->fn_count; i++) {
        r->fn[i].ins = program->fn[i].ins;
        r->fn[i].value = value + used;
        r->fn[i].next = value + values + used;
        used += program->fn[i].ins_count;
    }
    uint32_t next_reduction = 0;
    for (uint32_t n = 0; n < program->ins_count; n++)
        if (program->ins[n].op == TN_K_REDUCE)
            r->reduction_of[n] = next_reduction++;
    return true;
}

static void run_fini(run *r)
{
    tn__free(r->main.value);
    tn__free(r->fn);
    tn__free(r->reduction);
    tn__free(r->reduction_of);
    tn__free(r->row_at);
}

void tn__fault_fill(tn_fault *to, const tn_fault *from)
{
    uint32_t size = to->size;
    if (size > sizeof *to)
        size = sizeof *to;
    if (size > sizeof to->size)
        memcpy((char *)to + sizeof to->size,
               (const char *)from + sizeof from->size,
               size - sizeof to->size);
}

tn_status tn__interpret(const tn_program *program, const tn_launch *launch,
                        void *const *memory, tn_fault *fault)
{
    run r = {.program = program, .launch = launch, .memory = memory};
    tn_status status = TN_ERR_MEMORY;
    interpret_count++;
    if (run_init(&r, program)) {
        tn__fpu_state before = tn__fpu_set();
        run_rows(&r);
        tn__fpu_restore(before);
        status = r.fault.code;
        if (status != TN_OK && fault)
            tn__fault_fill(fault, &r.fault);
    }
    run_fini(&r);
    return status;
}
