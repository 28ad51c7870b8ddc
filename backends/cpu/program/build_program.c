/* build_program.c: compiles a program to four forms (program.h): for rows that
 * fit a block, for longer rows, for rows of contiguous subrows, and for blocks
 * that share indices. The shapes of a launch decide which form runs. */
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* Returns whether the program computes rows: it has several stages (passes over
 * the rows), scalars per row or a reduction. */
static bool has_rows(const tn_program *program)
{
    if (program->stage_count != 1 || program->stage[0].row_count > 0)
        return true;
    for (uint32_t i = 0; i < program->ins_count; i++)
        if (program->ins[i].op == TN_K_REDUCE)
            return true;
    return false;
}

/* Returns whether the operation reads the slot. */
static bool reads(const cpu_code *code, const cpu_op *op, uint32_t slot)
{
    const cpu_segment *s =
        op->code == CPU_NATIVE ? code->segment[op->index] : NULL;
    for (uint32_t i = 0; s && i < s->native.operand_count; i++)
        if (s->operand[i].wide == slot)
            return true;
    return op->a == slot || op->b == slot || op->c == slot;
}

/* Returns whether the operation writes the slot. */
static bool makes(const cpu_code *code, const cpu_op *op, uint32_t slot)
{
    const cpu_segment *s =
        op->code == CPU_NATIVE ? code->segment[op->index] : NULL;
    for (uint32_t i = 0; s && i < s->native.result_count; i++)
        if (s->result[i] == slot)
            return true;
    return op->out == slot;
}

/* Returns the index of the last operation before operation `before` that writes
 * the slot, or TN_CPU_NONE. */
static uint32_t maker(const cpu_code *code, uint32_t slot, uint32_t before)
{
    while (before-- > 0)
        if (makes(code, &code->op[before], slot))
            return before;
    return TN_CPU_NONE;
}

/* Returns the number of the operation that reads the slot if operation `by` reads
 * it. A product may be left to the reduction that follows it, which then reads the
 * product's operands. */
static uint32_t reader(const cpu_code *code, uint32_t by)
{
    const cpu_op *op = &code->op[by];
    const bool waits = op->code == CPU_RUN &&
                       (op->flags & (RUN_FACTORS | RUN_COLUMNS));
    return waits ? by + op->jump : by;
}

/* Returns a bit mask of the operands (tensors) whose loaded values operation
 * `from` or a later one reads. A load need not copy: the value may still be in
 * the tensor's memory, which must not change before that read. */
static uint32_t read_from(const cpu_code *code, uint32_t from)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        uint32_t last = i;
        for (uint32_t j = i; op->code == CPU_LOAD && j < code->op_count; j++)
            if (reads(code, &code->op[j], op->out) && reader(code, j) > last)
                last = reader(code, j);
        if (op->code == CPU_LOAD && (last >= from || op->a != TN_CPU_NONE))
            bits |= UINT32_C(1) << op->index;
    }
    return bits;
}

/* Adds to read_after_write what one form of the program reads. */
static void add_read_after_write(tn_built *b, const cpu_code *code)
{
    for (uint32_t k = 0; code->loop_depth > 0 && k < b->operand_count; k++)
        b->read_after_write[k] = UINT32_MAX;
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        uint32_t at = i;
        if (op->code != CPU_STORE)
            continue;
        if (op->flags & STORE_DIRECT) {
            at = maker(code, op->a, i);
            at += at != TN_CPU_NONE && (code->op[at].code == CPU_RUN ||
                                        code->op[at].code == CPU_NATIVE);
        }
        b->read_after_write[op->index] |=
            at == TN_CPU_NONE ? UINT32_MAX : read_from(code, at);
    }
}

/* Sets read_after_write[k], for each output k, to a bit mask of the operands
 * that the program still reads after it has written an element of k, in any of its
 * forms. In an in-place update, such as an optimizer's step, output k and an input
 * are the same memory. If that input's bit is not set, the update needs no copy.
 * A program over rows runs its stages one after the other, and each of them loads
 * a block before it stores one, so the order of the operations decides, too.
 * Routines and machine code (RUN, NATIVE) may write a result over an operand
 * that they read for the last time. Mathematical functions may not. */
static void find_read_after_write(tn_built *b)
{
    const cpu_code *form[] = {&b->kept, &b->streamed, &b->by_subrows};
    for (uint32_t k = 0; k < b->operand_count; k++)
        b->read_after_write[k] = b->hoisted.op ? UINT32_MAX : 0;
    for (size_t f = 0; f < sizeof form / sizeof *form; f++)
        add_read_after_write(b, form[f]);
}

/* Adds the operands of scalars per row that a part of the code loads to those that
 * are loaded after stores to `stored`, and its stores to `stored`. */
static void find_row_reads(tn_built *b, const cpu_code *code, cpu_part part,
                           uint32_t *stored)
{
    for (uint32_t i = part.first; i < part.first + part.count; i++) {
        const cpu_op *op = &code->op[i];
        if (op->code == CPU_STORE)
            *stored |= UINT32_C(1) << op->index;
        for (uint32_t k = 0; op->code == CPU_LOAD && k < b->operand_count; k++)
            if (*stored >> k & 1)
                b->row_read_after_write[k] |= UINT32_C(1) << op->index;
    }
}

/* Sets row_read_after_write[k], for each output k, to a bit mask of the operands
 * that the program loads after it has stored to k, in any of its forms. A group of
 * rows loads and stores its own scalars, stage after stage. */
static void find_row_read_after_write(tn_built *b)
{
    const cpu_code *form[] = {&b->kept, &b->streamed, &b->by_subrows};
    memset(b->row_read_after_write, 0,
           b->operand_count * sizeof *b->row_read_after_write);
    for (size_t f = 0; f < sizeof form / sizeof *form; f++) {
        uint32_t stored = 0;
        for (uint32_t s = 0; s < form[f]->stage_count; s++) {
            find_row_reads(b, form[f], form[f]->stage[s].elem, &stored);
            find_row_reads(b, form[f], form[f]->stage[s].row, &stored);
        }
    }
}

/* Compiles the code for rows that are too long for a block, usually to machine
 * code in `streamed`. The exception is a program whose reductions of columns
 * can read the factors of products in place. There `streamed` calls routines,
 * because machine code would first write the products to a block. The program
 * in machine code is then only in by_subrows. */
static tn_status compile_streamed(const tn_program *program, tn_built *b)
{
    tn_cpu_routines plain = *b->routines;
    plain.native = CPU_NATIVE_NONE;
    tn_status status =
        tn__cpu_compile(program, &plain, false, false, &b->streamed);
    if (status < 0 || !b->routines->native)
        return status;
    if (!b->streamed.folds_columns)
        tn__cpu_code_release(&b->streamed);
    cpu_code *code = b->streamed.folds_columns ? &b->by_subrows : &b->streamed;
    return tn__cpu_compile(program, b->routines, false, false, code);
}

tn_status tn__cpu_build(const tn_plugin_device *device,
                        const tn_program *program, tn_built **built)
{
    if (program->operand_count > TN_CPU_MAX_OPERANDS)
        return tn__cpu_host->fail(TN_ERR_UNSUPPORTED,
                                  "program: %u operands exceed the limit of %d",
                                  program->operand_count, TN_CPU_MAX_OPERANDS);
    if (!tn_program_is_known(program))
        return tn__cpu_host->fail(TN_ERR_UNSUPPORTED,
                                  "program: unknown instruction; libtenon and "
                                  "the plugin must have the same version");
    tn_built *b = calloc(1, sizeof *b);
    size_t bytes = program->operand_count * sizeof *b->operand;
    if (b) {
        b->operand = malloc(bytes + 1);
        b->read_after_write =
            malloc(program->operand_count * sizeof *b->read_after_write + 1);
        b->row_read_after_write = malloc(
            program->operand_count * sizeof *b->row_read_after_write + 1);
    }
    if (!b || !b->operand || !b->read_after_write ||
        !b->row_read_after_write) {
        if (b) {
            free(b->operand);
            free(b->read_after_write);
            free(b->row_read_after_write);
        }
        free(b);
        return tn__cpu_host->fail(TN_ERR_MEMORY,
                                  "program: out of memory while building");
    }
    memcpy(b->operand, program->operand, bytes);
    b->operand_count = program->operand_count;
    b->routines = device->routines;
    b->stream_bytes = device->stream_bytes;
    b->has_rows = has_rows(program);
    unsigned fpu = tn__cpu_fpu_set(); /* the compiler rounds constants to f32,
                                       * in the rounding mode of programs */
    tn_status status =
        tn__cpu_compile(program, b->routines, true, false, &b->kept);
    if (status == TN_OK)
        status = b->has_rows ? compile_streamed(program, b)
                             : tn__cpu_compile(program, b->routines, true,
                                               true, &b->hoisted);
    tn__cpu_fpu_restore(fpu);
    if (status < 0) {
        tn__cpu_built_free(b);
        return status;
    }
    find_read_after_write(b);
    find_row_read_after_write(b);
    *built = b;
    return TN_OK;
}

void tn__cpu_built_free(tn_built *built)
{
    if (!built)
        return;
    tn__cpu_code_release(&built->kept);
    tn__cpu_code_release(&built->streamed);
    tn__cpu_code_release(&built->by_subrows);
    tn__cpu_code_release(&built->hoisted);
    for (int t = 0; t <= TN_CPU_TAPS; t++)
        tn__cpu_built_free(atomic_load(&built->row_taps.written[t]));
    free(built->operand);
    free(built->read_after_write);
    free(built->row_read_after_write);
    free(built);
}
