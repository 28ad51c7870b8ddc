/* compile_program.c: from a program's instructions to a flat list of block
 * operations.
 *
 * Values become slots: one value for the launch, for each row or for each
 * element, by the part of their instruction. An operand with fewer values than
 * its part is passed as one value if the routine accepts that. Otherwise it is
 * broadcast into a block ahead of the part. Functions without a printed routine
 * are inlined. Loops are in compile_loops.c. */
#include <stdlib.h>
#include <string.h>

#include "compile_program.h"
#include "../run/plan.h"

/* A printed function takes about as long as this many operations on a block in
 * L1. */
#define FUNCTION_WORK 8

static bool is_single(const compiler *c, uint32_t slot)
{
    return c->level != CPU_UNIFORM &&
           c->code->slot[slot].space <= CPU_UNIFORM;
}

static bool is_row(const compiler *c, uint32_t slot)
{
    return c->level == CPU_ELEM && c->code->slot[slot].space == CPU_ROW;
}

/* ---- instructions -------------------------------------------------------- */

static cpu_op *result_add(compiler *c, frame *f, uint32_t number,
                          unsigned code)
{
    uint8_t type = tn__cpu_type_of(f->ins[number].dtype);
    uint32_t out = tn__cpu_slot_add(c, c->level, tn__cpu_type_bytes[type]);
    tn__cpu_value_set(c, f, number, out);
    cpu_op *op = tn__cpu_op_add(c, &c->body, code);
    op->out = out;
    op->type = type;
    if (c->depth == 0 && c->status == TN_OK)
        c->producer[out] = c->body.count;
    return op;
}

static tn_cpu_run *routine_for(const compiler *c, const frame *f,
                               const tn_kernel_ins *ins)
{
    uint8_t type = tn__cpu_type_of(ins->dtype);
    uint8_t from =
        ins->a == TN_NONE ? type : tn__cpu_type_of(f->ins[ins->a].dtype);
    switch (ins->op) {
    case TN_K_CAST:
        return c->routines->cast[from][type];
    case TN_K_NARROW:
        return type == CPU_I64 || type == CPU_F64
                   ? c->routines->cast[type][type]
                   : c->routines->narrow[ins->sub];
    case TN_K_EQ:
    case TN_K_NE:
    case TN_K_LT:
    case TN_K_LE:
    case TN_K_BITCAST:
    case TN_K_PHILOX:
        return c->routines->op[ins->op][from];
    default:
        return c->routines->op[ins->op][type];
    }
}

/* PHILOX of slot[0], where slot[0] is 1 + the argument of an earlier PHILOX:
 * makes that one return both values. A normal random number takes two draws of
 * one counter. */
static bool join_pair(compiler *c, frame *f, uint32_t number, tn_cpu_run *run,
                      const uint32_t *slot)
{
    const tn_kernel_ins *add = &f->ins[f->ins[number].a];
    if (add->op != TN_K_ADD || c->depth > 0 || c->code->hoisted)
        return false;
    const tn_kernel_ins *one = &f->ins[add->b];
    if (one->op != TN_K_CONST || one->imm.i != 1)
        return false;
    uint32_t base = tn__cpu_value_slot(c, f, add->a);
    for (uint32_t i = c->body.count; i-- > 0;) {
        cpu_op *op = &c->body.op[i];
        if (op->code == CPU_END)
            return false;
        if (op->code != CPU_RUN || op->run != run || op->scalar != 6 ||
            op->row || op->a != base || op->b != slot[1] || op->c != slot[2])
            continue;
        uint32_t out = tn__cpu_slot_add(c, c->level, 4);
        op->code = CPU_PAIR;
        op->where = out;
        tn__cpu_value_set(c, f, number, out);
        return true;
    }
    return false;
}

static void compile_run(compiler *c, frame *f, uint32_t number)
{
    const tn_kernel_ins *ins = &f->ins[number];
    tn_cpu_run *run = routine_for(c, f, ins);
    if (!run) {
        c->status = tn__cpu_host->fail(
            TN_ERR_UNSUPPORTED, "program: instruction %u has no routine for "
                                "register type %u",
            ins->op, ins->dtype);
        return;
    }
    uint32_t slot[3] = {TN_CPU_NONE, TN_CPU_NONE, TN_CPU_NONE};
    const uint32_t value[3] = {ins->a, ins->b, ins->c};
    unsigned single = 0, row = 0;
    for (unsigned i = 0; i < 3; i++)
        if (value[i] != TN_NONE) {
            slot[i] = tn__cpu_value_slot(c, f, value[i]);
            single |= (unsigned)is_single(c, slot[i]) << i;
            row |= (unsigned)is_row(c, slot[i]) << i;
        }
    if (ins->op == TN_K_FMA && ((single | row) & 3) == 1) { /* xy = yx */
        uint32_t swap = slot[0];
        slot[0] = slot[1];
        slot[1] = swap;
        single = (single & 4) | (single & 1) << 1;
        row = (row & 4) | (row & 1) << 1;
    }
    unsigned allowed = tn__cpu_scalar_allowed(ins->op);
    if (allowed == 3 && ((single | row) & 3) == 3)
        allowed = single & 1 ? 1 : 2;
    unsigned scalar = single & allowed;
    row &= allowed;
    uint32_t narrow[3];
    for (unsigned i = 0; i < 3; i++) {
        narrow[i] = slot[i];
        if (!(scalar >> i & 1))
            slot[i] = tn__cpu_whole(c, slot[i], row >> i & 1);
    }
    if (ins->op == TN_K_PHILOX && scalar == 6 && !row &&
        join_pair(c, f, number, run, slot))
        return;
    cpu_op *op = result_add(c, f, number, CPU_RUN);
    op->run = run;
    op->kernel = ins->op;
    op->from = ins->a == TN_NONE ? op->type
                                 : tn__cpu_type_of(f->ins[ins->a].dtype);
    op->scalar = (uint8_t)scalar;
    op->row = (uint8_t)row;
    op->allowed = (uint8_t)tn__cpu_scalar_allowed(ins->op);
    op->a = slot[0];
    op->b = slot[1];
    op->c = slot[2];
    memcpy(op->narrow, narrow, sizeof op->narrow);
}

static void compile_reduce(compiler *c, frame *f, uint32_t number)
{
    const tn_kernel_ins *ins = &f->ins[number];
    cpu_code *code = c->code;
    uint32_t in = tn__cpu_whole_value(c, f, ins->a);
    if (!tn__cpu_grow(c, &code->reduce, &c->reduce_room, code->reduce_count,
              sizeof *code->reduce))
        return;
    uint32_t out = tn__cpu_slot_add(
        c, CPU_ROW, tn__cpu_type_bytes[tn__cpu_type_of(ins->dtype)]);
    f->narrow[number] = out;
    cpu_op *op = tn__cpu_op_add(c, &c->body, CPU_REDUCE);
    op->a = in;
    op->narrow[1] = op->narrow[2] = TN_CPU_NONE;
    op->index = code->reduce_count;
    code->reduce[code->reduce_count++] =
        (cpu_reduce){.kind = ins->sub,
                     .type = tn__cpu_type_of(f->ins[ins->a].dtype),
                     .in = in,
                     .out = out};
}

static void compile_store(compiler *c, frame *f, uint32_t number)
{
    const tn_kernel_ins *ins = &f->ins[number];
    uint32_t slot = tn__cpu_whole_value(c, f, ins->a);
    if (c->status < 0)
        return;
    tn_dtype stored = c->program->operand[ins->imm.i].dtype;
    bool same = stored == TN_F32 || stored == TN_F64 || stored == TN_I32 ||
                stored == TN_I64 || stored == TN_BOOL;
    cpu_op *op = tn__cpu_op_add(c, &c->body, CPU_STORE);
    op->a = slot;
    op->index = (uint32_t)ins->imm.i;
    if (same && c->level == CPU_ELEM && c->producer[slot] > 0) {
        const cpu_op *by = &c->body.op[c->producer[slot] - 1];
        if (by->code == CPU_RUN || by->code == CPU_MATH ||
            (by->code == CPU_LOAD && by->a != TN_CPU_NONE))
            op->flags = by->code == CPU_MATH ? STORE_DIRECT | STORE_CHUNKED
                                             : STORE_DIRECT;
        c->producer[slot] = 0; /* one store only */
    }
}

static void compile_list(compiler *c, frame *f, const uint32_t *list,
                         uint32_t count);

static void compile_call(compiler *c, frame *f, uint32_t number)
{
    const tn_kernel_ins *ins = &f->ins[number];
    const tn_kernel_fn *fn = &c->program->fn[ins->imm.i];
    const uint32_t value[3] = {ins->a, ins->b, ins->c};
    uint32_t argument[3] = {TN_CPU_NONE, TN_CPU_NONE, TN_CPU_NONE};
    const tn_cpu_math_entry *entry = tn__cpu_math_find(c->routines, fn->hash);
    if (entry) {
        for (uint32_t a = 0; a < fn->arg_count; a++)
            argument[a] = tn__cpu_whole_value(c, f, value[a]);
        cpu_op *op = result_add(c, f, number, CPU_MATH);
        op->math = entry->run;
        op->index = (uint32_t)ins->imm.i;
        op->a = argument[0];
        op->b = argument[1];
        op->c = argument[2];
        return;
    }
    for (uint32_t a = 0; a < fn->arg_count; a++)
        argument[a] = tn__cpu_value_slot(c, f, value[a]);
    uint32_t *map = malloc(2 * (size_t)fn->ins_count * sizeof *map);
    if (!map) {
        c->status = tn__cpu_host->fail(TN_ERR_MEMORY,
                                       "program: out of memory while building");
        return;
    }
    memset(map, 0xff, 2 * (size_t)fn->ins_count * sizeof *map); /* NONE */
    frame body = {.ins = fn->ins, .narrow = map, .wide = map + fn->ins_count,
                  .argument = argument};
    compile_list(c, &body, NULL, fn->ins_count);
    if (c->status == TN_OK)
        tn__cpu_value_set(c, f, number,
                          tn__cpu_value_slot(c, &body, fn->result));
    free(map);
}

/* ---- parts --------------------------------------------------------------- */

static void compile_instruction(compiler *c, frame *f, uint32_t number)
{
    const tn_kernel_ins *ins = &f->ins[number];
    cpu_op *op;
    switch (ins->op) {
    case TN_K_CONST:
        f->narrow[number] = tn__cpu_slot_constant(c, ins);
        return;
    case TN_K_ARG:
        tn__cpu_value_set(c, f, number, f->argument[ins->imm.i]);
        return;
    case TN_K_PARAM:
    case TN_K_ROWLEN:
        op = result_add(c, f, number,
                        ins->op == TN_K_PARAM ? CPU_PARAM : CPU_ROWLEN);
        op->index = ins->op == TN_K_PARAM ? (uint32_t)ins->imm.i : 0;
        op->run = c->routines->fill[op->type];
        return;
    case TN_K_LOAD: {
        uint32_t a = tn__cpu_whole_value(c, f, ins->a),
                 b = tn__cpu_whole_value(c, f, ins->b);
        uint32_t third = tn__cpu_whole_value(c, f, ins->c);
        op = result_add(c, f, number, CPU_LOAD);
        op->a = a;
        op->b = b;
        op->c = third;
        op->index = (uint32_t)ins->imm.i;
        op->flags = ins->sub & TN_LOAD_ZERO ? LOAD_ZERO : 0;
        uint32_t number_of = c->body.count;
        if (c->code->hoisted && a != TN_CPU_NONE && c->status == TN_OK) {
            uint32_t where = tn__cpu_slot_add(c, c->level, 8);
            c->body.op[number_of - 1].where = where;
        }
        return;
    }
    case TN_K_OFFSET:
        op = result_add(c, f, number, CPU_OFFSET);
        op->index = (uint32_t)ins->imm.i;
        return;
    case TN_K_STORE:
        compile_store(c, f, number);
        return;
    case TN_K_CALL:
        compile_call(c, f, number);
        return;
    case TN_K_REDUCE:
        compile_reduce(c, f, number);
        return;
    case TN_K_WHILE: {
        uint32_t condition = tn__cpu_whole_value(c, f, ins->a);
        op = tn__cpu_op_add(c, &c->body, CPU_WHILE);
        op->a = condition;
        op->b = c->loop[c->depth - 1].mask;
        op->index = c->depth - 1;
        return;
    }
    case TN_K_ENDLOOP:
        tn__cpu_compile_end(c, f);
        return;
    default:
        compile_run(c, f, number);
    }
}

static void compile_list(compiler *c, frame *f, const uint32_t *list,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count && c->status == TN_OK; i++) {
        uint32_t number = list ? list[i] : i;
        if (f->done && f->done[number])
            continue;
        if (f->done && c->keep)
            f->done[number] = true;
        if (f->ins[number].op == TN_K_LOOP) {
            uint32_t carries = tn__cpu_compile_loop(c, f, list, i, count);
            for (uint32_t j = 1; f->done && c->keep && j <= carries; j++)
                f->done[list[i + j]] = true;
            i += carries;
        } else {
            compile_instruction(c, f, number);
        }
    }
}

/* Is it one arithmetic operation on loaded values and numbers of rows? Then a
 * later stage recomputes it (usually in a fused pair) instead of keeping a
 * block for it. */
static bool is_cheap(const compiler *c, uint32_t number)
{
    const tn_kernel_ins *all = c->main.ins, *ins = &all[number];
    if ((ins->op != TN_K_ADD && ins->op != TN_K_SUB && ins->op != TN_K_MUL) ||
        (ins->dtype != TN_F32 && ins->dtype != TN_F64))
        return false;
    const uint32_t value[2] = {ins->a, ins->b};
    for (int i = 0; i < 2; i++) {
        const tn_kernel_ins *of = &all[value[i]];
        bool is_block = c->main.wide[value[i]] != TN_CPU_NONE;
        if (is_block && (of->op != TN_K_LOAD || of->a != TN_NONE))
            return false;
    }
    return true;
}

static void need(bool *needed, const tn_kernel_ins *ins)
{
    const uint32_t value[3] = {ins->a, ins->b, ins->c};
    for (int i = 0; i < 3; i++)
        if (value[i] != TN_NONE)
            needed[value[i]] = true;
}

/* In a later stage's list, marks cheap values that the stage needs for
 * recomputation. */
static void make_again(compiler *c, const uint32_t *list, uint32_t count)
{
    bool *needed = calloc(c->program->ins_count + 1u, sizeof *needed);
    if (!needed) {
        c->status = tn__cpu_host->fail(TN_ERR_MEMORY,
                                       "program: out of memory while building");
        return;
    }
    for (uint32_t i = count; i-- > 0;) {
        bool again = c->main.done[list[i]] && needed[list[i]] &&
                     is_cheap(c, list[i]);
        if (again)
            c->main.done[list[i]] = false;
        if (!c->main.done[list[i]])
            need(needed, &c->main.ins[list[i]]);
    }
    free(needed);
}

/* Compiles a part: appends its operations, and what they need ahead, to the
 * code. */
static cpu_part compile_part(compiler *c, unsigned level, uint32_t first,
                             uint32_t count)
{
    cpu_code *code = c->code;
    c->level = (uint8_t)level;
    c->prologue.count = c->body.count = 0;
    if (code->slot_count > 0) {
        memset(c->producer, 0, code->slot_count * sizeof *c->producer);
        if (level == CPU_ELEM)
            memset(c->spread, 0xff, code->slot_count * sizeof *c->spread);
    }
    if (level == CPU_ELEM && !c->keep) /* no value outlives its part */
        memset(c->main.wide, 0xff,
               c->program->ins_count * sizeof *c->main.wide);
    if (level == CPU_ELEM && c->keep && !c->code->hoisted)
        make_again(c, c->program->order + first, count);
    compile_list(c, &c->main, c->program->order + first, count);

    cpu_part part = {code->op_count, 0};
    op_list *const lists[] = {&c->prologue, &c->body};
    for (int l = 0; l < 2; l++)
        for (uint32_t i = 0; i < lists[l]->count && c->status == TN_OK; i++) {
            if (!tn__cpu_grow(c, &code->op, &c->op_room, code->op_count,
                      sizeof *code->op))
                continue;
            cpu_op *op = &code->op[code->op_count++];
            *op = lists[l]->op[i];
            code->work += op->code == CPU_MATH ? FUNCTION_WORK : 1;
            if (op->code == CPU_BROADCAST && c->wanted[op->out])
                op->flags = BROADCAST_NEEDED;
            if (op->code == CPU_RUN || op->code == CPU_MATH) {
                /* An absent operand may be any pointer. */
                op->b = op->b == TN_CPU_NONE ? op->a : op->b;
                op->c = op->c == TN_CPU_NONE ? op->a : op->c;
            }
        }
    part.count = code->op_count - part.first;
    return part;
}

/* The operands that are read. The third of a binary operation is not. */
static int operands(const cpu_op *op)
{
    return op->code == CPU_RUN && op->allowed == 3 ? 2 : 3;
}

/* Finds loads whose values only reductions read, or only operations that can
 * run row by row, and marks their readers. */
static void mark_loads(compiler *c)
{
    /* bits beside the flags */
    enum { BY_FOLD = 1 << 16, BY_RUN = 2 << 16, BY_OTHER = 4 << 16,
           AS_BLOCK = 8 << 16 };
    cpu_code *code = c->code;
    uint32_t *use = c->producer; /* of each slot: its readers, later the
                                    flags */
    if (code->slot_count > 0)
        memset(use, 0, code->slot_count * sizeof *use);
    code->folds_loads = code->folds_columns = true;
    for (uint32_t i = 0; i < code->op_count; i++) {
        const cpu_op *op = &code->op[i];
        const uint32_t read[3] = {op->a, op->b, op->c};
        for (int j = 0; j < operands(op); j++)
            if (read[j] != TN_CPU_NONE)
                use[read[j]] |= op->code == CPU_REDUCE && j == 0 ? BY_FOLD
                                : op->code == CPU_REDUCE ? BY_RUN
                                : op->code != CPU_RUN      ? BY_OTHER
                                : op->allowed >> j & 1     ? BY_RUN
                                                       : BY_RUN | AS_BLOCK;
        const cpu_segment *s =
            op->code == CPU_NATIVE ? code->segment[op->index] : NULL;
        for (uint32_t j = 0; s && j < s->native.operand_count; j++)
            if (s->operand[j].wide != TN_CPU_NONE)
                use[s->operand[j].wide] |= BY_RUN;
    }
    for (uint32_t i = 0; i < code->op_count; i++) {
        cpu_op *op = &code->op[i];
        bool elem = op->out != TN_CPU_NONE &&
                    code->slot[op->out].space == CPU_ELEM;
        bool plain = elem && op->code == CPU_LOAD && op->a == TN_CPU_NONE &&
                     op->b == TN_CPU_NONE && op->c == TN_CPU_NONE;
        unsigned by = plain ? use[op->out] : 0;
        unsigned also = by & ~(unsigned)AS_BLOCK;
        unsigned flag = by == BY_FOLD                 ? LOAD_FOLDED
                        : also == (BY_FOLD | BY_RUN)  ? LOAD_FOLDED | LOAD_LENT
                        : by == BY_RUN                ? LOAD_LENT | LOAD_SINGLE
                        : by == (BY_RUN | AS_BLOCK) ? LOAD_LENT
                                                      : 0;
        op->flags |= (uint16_t)flag;
        if (elem)
            use[op->out] = flag;
        if (elem && flag != LOAD_FOLDED)
            code->folds_loads = false;
        if (elem && !plain && !(op->code == CPU_RUN && op->flags & RUN_COLUMNS))
            code->folds_columns = false;
        const uint32_t read[3] = {op->a, op->b, op->c};
        for (int j = 0; j < operands(op); j++) {
            if (read[j] == TN_CPU_NONE ||
                code->slot[read[j]].space != CPU_ELEM)
                continue;
            if (op->code == CPU_REDUCE && j == 0)
                op->flags = (uint16_t)(use[read[j]] & LOAD_FOLDED);
            else if ((op->code == CPU_RUN || op->code == CPU_REDUCE) &&
                     (use[read[j]] & LOAD_LENT))
                op->lent |= (uint8_t)(1 << j);
        }
        cpu_segment *s =
            op->code == CPU_NATIVE ? code->segment[op->index] : NULL;
        for (uint32_t j = 0; s && j < s->native.operand_count; j++)
            s->operand[j].lent = s->operand[j].wide != TN_CPU_NONE &&
                                 (use[s->operand[j].wide] & LOAD_LENT);
        if (s)
            code->folds_loads = code->folds_columns = false;
    }
}

/* Hoisted code: marks values that do not depend on a load by an index. A store
 * is never hoistable: it runs for each block. Returns whether there is such a
 * load with hoistable indices. */
static bool mark_hoistable(compiler *c)
{
    cpu_code *code = c->code;
    uint32_t *from_index = c->producer; /* of each slot */
    bool found = false;
    if (code->slot_count > 0)
        memset(from_index, 0, code->slot_count * sizeof *from_index);
    for (uint32_t i = 0; i < code->op_count; i++) {
        cpu_op *op = &code->op[i];
        const uint32_t read[3] = {op->a, op->b, op->c};
        bool hoistable = op->out != TN_CPU_NONE;
        for (int j = 0; j < 3; j++)
            hoistable =
                hoistable && (read[j] == TN_CPU_NONE || !from_index[read[j]]);
        op->hoistable = hoistable;
        bool indexed = op->code == CPU_LOAD && op->a != TN_CPU_NONE;
        found = found || (indexed && hoistable);
        if (op->out != TN_CPU_NONE)
            from_index[op->out] = !hoistable || indexed;
        if (op->code == CPU_STORE && !from_index[op->a])
            op->flags &= (uint16_t)~STORE_DIRECT;
    }
    return found && code->op_count <= TN_CPU_HOIST_OPS &&
           code->slot_count <= TN_CPU_HOIST_SLOTS && code->loop_depth == 0;
}

tn_status tn__cpu_compile(const tn_program *program,
                          const tn_cpu_routines *routines, bool keep,
                          bool hoisted, cpu_code *code)
{
    compiler c = {.program = program, .routines = routines, .keep = keep,
                  .code = code};
    size_t values = program->ins_count;
    *code = (cpu_code){.stage_count = program->stage_count,
                       .hoisted = hoisted};
    c.main.ins = program->ins;
    c.main.narrow = malloc(values * sizeof(uint32_t) + 1);
    c.main.wide = malloc(values * sizeof(uint32_t) + 1);
    c.main.done = calloc(values + 1, sizeof(bool));
    code->stage = calloc(program->stage_count + 1u, sizeof *code->stage);
    if (!c.main.narrow || !c.main.wide || !c.main.done || !code->stage) {
        c.status = tn__cpu_host->fail(TN_ERR_MEMORY,
                                      "program: out of memory while building");
    } else {
        memset(c.main.narrow, 0xff, values * sizeof(uint32_t));
        memset(c.main.wide, 0xff, values * sizeof(uint32_t));
        code->uniform =
            compile_part(&c, CPU_UNIFORM, 0, program->uniform_count);
        for (uint32_t s = 0; s < program->stage_count; s++) {
            const tn_kernel_stage *stage = &program->stage[s];
            cpu_stage *out = &code->stage[s];
            out->reduce_first = code->reduce_count;
            out->elem = compile_part(&c, CPU_ELEM, stage->elem_first,
                                     stage->elem_count);
            out->reduce_count = code->reduce_count - out->reduce_first;
            out->row = compile_part(&c, CPU_ROW, stage->row_first,
                                    stage->row_count);
        }
        if (c.status == TN_OK)
            c.status = routines->native && !hoisted
                           ? tn__cpu_find_native(program, routines, keep, code)
                           : tn__cpu_fuse(routines, code);
        if (c.status == TN_OK) {
            mark_loads(&c);
            if (hoisted && !mark_hoistable(&c))
                tn__cpu_code_release(code);
            else
                c.status = tn__cpu_place_slots(code);
        }
    }
    free(c.main.narrow);
    free(c.main.wide);
    free(c.main.done);
    free(c.prologue.op);
    free(c.body.op);
    free(c.spread);
    free(c.filled);
    free(c.producer);
    free(c.wanted);
    if (c.status < 0)
        tn__cpu_code_release(code);
    return c.status;
}
