/* native_find_nodes.c: turns the operations of a segment into nodes, the SSA
 * instructions that the JIT compiler translates (native_body.h). */
#include <stdlib.h>
#include <string.h>

#include "native_find.h"

void tn__cpu_find_no_memory(native_finder *f)
{
    if (f->status == TN_OK)
        f->status = tn__cpu_host->fail(TN_ERR_MEMORY,
                                       "program: out of memory while building");
}

static uint32_t add_node(native_finder *f, cpu_node node)
{
    cpu_native *n = &f->current->native;
    if (n->node_count == f->node_room) {
        size_t room = f->node_room ? 2 * f->node_room : 32;
        cpu_node *grown = realloc(n->node, room * sizeof *grown);
        if (!grown) {
            tn__cpu_find_no_memory(f);
            return TN_NONE;
        }
        n->node = grown;
        f->node_room = room;
    }
    if (n->node_count == TN_CPU_NATIVE_NODES)
        return TN_NONE;
    n->node[n->node_count] = node;
    return n->node_count++;
}

bool tn__cpu_find_fits(native_finder *f, unsigned type)
{
    uint8_t bytes = tn__cpu_type_bytes[type];
    if (bytes == 1)
        return true;
    if (f->width == 0)
        f->width = bytes;
    return f->width == bytes;
}

static uint32_t constant_node(native_finder *f, unsigned type,
                              const void *value)
{
    const cpu_native *n = &f->current->native;
    cpu_node node = {.op = TN_K_CONST,
                     .type = (uint8_t)type,
                     .a = TN_NONE,
                     .b = TN_NONE,
                     .c = TN_NONE};
    memcpy(&node.bits, value, tn__cpu_type_bytes[type]);
    for (uint32_t i = 0; i < n->node_count; i++)
        if (n->node[i].op == TN_K_CONST && n->node[i].type == type &&
            n->node[i].bits == node.bits)
            return i;
    return add_node(f, node);
}

/* Returns the dtype in memory of the tensor that is loaded to a slot, if
 * machine code can convert it to the slot's register type. Otherwise returns
 * 0. */
static uint8_t stored_dtype(const native_finder *f, unsigned type,
                            uint32_t slot)
{
    const cpu_code *code = f->code;
    for (uint32_t i = 0; tn__cpu_type_bytes[type] == 4 && i < code->op_count;
         i++) {
        const cpu_op *op = &code->op[i];
        if (op->code == CPU_LOAD && op->out == slot && op->a == TN_CPU_NONE) {
            uint8_t dtype = f->program->operand[op->index].dtype;
            return tn__cpu_native_converts(dtype) > 0 ? dtype : 0;
        }
    }
    return 0;
}

static uint32_t operand_node(native_finder *f, unsigned type, uint32_t wide,
                             uint32_t narrow)
{
    cpu_segment *s = f->current;
    cpu_native *n = &s->native;
    for (uint32_t i = 0; i < n->node_count; i++)
        if (n->node[i].op == TN_K_LOAD && n->node[i].type == type &&
            s->operand[n->node[i].number].wide == wide &&
            s->operand[n->node[i].number].narrow == narrow)
            return i;
    if (n->operand_count == TN_CPU_NATIVE_OPERANDS)
        return TN_NONE;
    s->operand[n->operand_count] =
        (cpu_native_operand){wide, narrow, tn__cpu_type_bytes[type], false};
    n->stored[n->operand_count] =
        wide == TN_CPU_NONE ? 0 : stored_dtype(f, type, wide);
    return add_node(f, (cpu_node){.op = TN_K_LOAD,
                                  .type = (uint8_t)type,
                                  .a = TN_NONE,
                                  .b = TN_NONE,
                                  .c = TN_NONE,
                                  .number = n->operand_count++});
}

uint32_t tn__cpu_find_slot_node(native_finder *f, unsigned type, uint32_t slot)
{
    const cpu_code *code = f->code;
    if (f->segment[slot] == code->segment_count + 1u)
        return f->node[slot];
    uint32_t narrow = slot;
    if (f->maker[slot] > 0) /* a BROADCAST or FILL writes the slot, so its value
                             * is a scalar */
        narrow = code->op[f->maker[slot] - 1].a;
    const cpu_slot *from = &code->slot[narrow];
    if (from->space == CPU_CONSTANT)
        return constant_node(f, type, code->constant + from->offset);
    if (from->space == CPU_UNIFORM)
        return operand_node(f, type, TN_CPU_NONE, narrow);
    if (from->space == CPU_ROW)
        return operand_node(f, type, slot, narrow);
    return operand_node(f, type, slot, TN_CPU_NONE);
}

uint32_t tn__cpu_find_operand_count(unsigned op)
{
#define COUNT(name, operands, text) [TN_K_##name] = operands,
    static const uint8_t count[] = {TN_KERNEL_MAP(COUNT)};
#undef COUNT
    return count[op];
}

/* Recognises a SELECT that one MINPS or MAXPS instruction computes. Returns
 * TN_K_MIN for where(a < b, a, b), TN_K_MAX for where(a < b, b, a), and 0 for
 * others. Instruction and expression agree: both return the second operand if
 * both operands are zeros or one is NaN. */
static unsigned minmax_of(const native_finder *f, const uint32_t operand[3])
{
    const cpu_node *less = &f->current->native.node[operand[0]];
    if (less->op != TN_K_LT || (less->from != CPU_F32 && less->from != CPU_F64))
        return 0;
    return less->a == operand[1] && less->b == operand[2]   ? TN_K_MIN
           : less->a == operand[2] && less->b == operand[1] ? TN_K_MAX
                                                            : 0;
}

uint32_t tn__cpu_find_instruction_node(native_finder *f, unsigned op,
                                       unsigned type, unsigned from,
                                       const uint32_t operand[3])
{
    if (!tn__cpu_native_supports(op, type, from) ||
        !tn__cpu_find_fits(f, type) || !tn__cpu_find_fits(f, from))
        return TN_NONE;
    uint32_t count = tn__cpu_find_operand_count(op);
    for (uint32_t i = 0; i < count; i++)
        if (operand[i] == TN_NONE)
            return TN_NONE;
    unsigned minmax = op == TN_K_SELECT ? minmax_of(f, operand) : 0;
    if (minmax)
        return add_node(f, (cpu_node){.op = (uint8_t)minmax,
                                      .type = (uint8_t)type,
                                      .from = (uint8_t)type,
                                      .sub = CPU_SECOND,
                                      .a = operand[1],
                                      .b = operand[2],
                                      .c = TN_NONE});
    return add_node(f, (cpu_node){.op = (uint8_t)op,
                                  .type = (uint8_t)type,
                                  .from = (uint8_t)from,
                                  .a = operand[0],
                                  .b = count > 1 ? operand[1] : TN_NONE,
                                  .c = count > 2 ? operand[2] : TN_NONE});
}

/* Inlines the instructions of a function whose arguments are nodes. The
 * function exp_f32 becomes one CALL node instead. */
uint32_t tn__cpu_find_function_node(native_finder *f, const tn_kernel_fn *fn,
                                    const uint32_t argument[3])
{
    if (fn->hash == f->exp)
        return tn__cpu_find_fits(f, CPU_F32)
                   ? add_node(f, (cpu_node){.op = TN_K_CALL,
                                            .type = CPU_F32,
                                            .from = CPU_F32,
                                            .a = argument[0],
                                            .b = TN_NONE,
                                            .c = TN_NONE})
                   : TN_NONE;
    uint32_t *map = malloc((fn->ins_count + 1u) * sizeof *map);
    uint32_t result = map ? 0 : TN_NONE;
    if (!map)
        tn__cpu_find_no_memory(f);
    for (uint32_t i = 0; result != TN_NONE && i < fn->ins_count; i++) {
        const tn_kernel_ins *ins = &fn->ins[i];
        const uint32_t value[3] = {ins->a, ins->b, ins->c};
        uint8_t type = tn__cpu_type_of(ins->dtype), from = type;
        uint32_t operand[3] = {TN_NONE, TN_NONE, TN_NONE};
        uint8_t bytes[8];
        for (int j = 0; j < 3; j++)
            if (value[j] != TN_NONE)
                operand[j] = map[value[j]];
        if (ins->a != TN_NONE)
            from = tn__cpu_type_of(fn->ins[ins->a].dtype);
        switch (ins->op) {
        case TN_K_CONST:
            tn__cpu_number_store(bytes, type, (tn_number){.i = ins->imm.i});
            result = tn__cpu_find_fits(f, type) ? constant_node(f, type, bytes)
                                                : TN_NONE;
            break;
        case TN_K_ARG:
            result = argument[ins->imm.i];
            break;
        case TN_K_CALL:
            result = tn__cpu_find_function_node(f, &f->program->fn[ins->imm.i],
                                                operand);
            break;
        default:
            result =
                tn__cpu_find_instruction_node(f, ins->op, type, from, operand);
            if (result != TN_NONE && ins->op == TN_K_BITCAST)
                f->current->native.node[result].sub = ins->sub;
        }
        map[i] = result;
    }
    if (result != TN_NONE)
        result = map[fn->result];
    free(map);
    return result;
}

unsigned tn__cpu_find_operand_type(const native_finder *f, const cpu_op *op,
                                   uint32_t i)
{
    if (op->code == CPU_MATH)
        return tn__cpu_type_of(f->program->fn[op->index].arg_dtype[i]);
    if (op->kernel == TN_K_SELECT)
        return i == 0 ? CPU_BOOL : op->type;
    return op->from;
}
