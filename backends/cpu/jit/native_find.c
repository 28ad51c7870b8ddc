/* native_find.c: finds operations of a part that can run as one, in registers.
 *
 * The operations of a part are taken in their order. What machine code can do,
 * and hangs on nothing that hangs on what it has made outside, joins; what
 * reads its results waits behind it, and so do stores and reductions; all else
 * goes before it. A sum, product or extreme of what it makes or reads is made
 * with it, where rows are long. */
#include <stdlib.h>
#include <string.h>

#include "../program/compile_program.h"

typedef struct finder {
    cpu_code *code;
    const tn_program *program;
    cpu_op *rebuilt; /* the code's operations as they will be */
    uint32_t rebuilt_count;
    uint32_t *maker;   /* of each slot: 1 + the operation that fills it with
                          what has fewer values */
    uint32_t *node;    /* of each slot that a segment made */
    uint32_t *segment; /* 1 + which */
    bool *deferred;    /* of each slot: made behind the segment at hand */
    uint32_t *joined, joined_count;   /* operations, in order */
    uint32_t *waiting, waiting_count; /* behind it */
    cpu_segment *current;
    size_t node_room;
    uint64_t exp;  /* hash of the function that has code of its own; 0 */
    uint8_t width; /* bytes of the segment's registers; 0: not known yet */
    bool keep;     /* code for groups of whole rows */
    tn_status status;
} finder;

static void no_memory(finder *f)
{
    if (f->status == TN_OK)
        f->status = tn__cpu_host->fail(TN_ERR_MEMORY,
                                       "program: out of memory while building");
}

/* ---- nodes ------------------------------------------------------------- */

static uint32_t add_node(finder *f, cpu_node node)
{
    cpu_native *n = &f->current->native;
    if (n->node_count == f->node_room) {
        size_t room = f->node_room ? 2 * f->node_room : 32;
        cpu_node *grown = realloc(n->node, room * sizeof *grown);
        if (!grown) {
            no_memory(f);
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

/* Is a value of this type as wide as the others of the segment? */
static bool fits(finder *f, unsigned type)
{
    uint8_t bytes = tn__cpu_type_bytes[type];
    if (bytes == 1)
        return true;
    if (f->width == 0)
        f->width = bytes;
    return f->width == bytes;
}

static uint32_t constant_node(finder *f, unsigned type, const void *value)
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

static uint32_t operand_node(finder *f, unsigned type, uint32_t wide,
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
    return add_node(f, (cpu_node){.op = TN_K_LOAD,
                                  .type = (uint8_t)type,
                                  .a = TN_NONE,
                                  .b = TN_NONE,
                                  .c = TN_NONE,
                                  .number = n->operand_count++});
}

/* What is in a slot. */
static uint32_t slot_node(finder *f, unsigned type, uint32_t slot)
{
    const cpu_code *code = f->code;
    if (f->segment[slot] == code->segment_count + 1u)
        return f->node[slot];
    uint32_t narrow = slot;
    if (f->maker[slot] > 0) /* SPREAD or FILL */
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

/* How many of a, b, c an instruction has. */
static uint32_t operand_count(unsigned op)
{
#define COUNT(name, operands, text) [TN_K_##name] = operands,
    static const uint8_t count[] = {TN_KERNEL_MAP(COUNT)};
#undef COUNT
    return count[op];
}

/* where(a < b, a, b) is one instruction, and so is where(a < b, b, a): of either
 * zero, and of NaN and a number, both take the second. 0: it is neither. */
static unsigned minmax_of(const finder *f, const uint32_t operand[3])
{
    const cpu_node *less = &f->current->native.node[operand[0]];
    if (less->op != TN_K_LT || (less->from != CPU_F32 && less->from != CPU_F64))
        return 0;
    return less->a == operand[1] && less->b == operand[2]   ? TN_K_MIN
           : less->a == operand[2] && less->b == operand[1] ? TN_K_MAX
                                                            : 0;
}

static uint32_t instruction_node(finder *f, unsigned op, unsigned type,
                                 unsigned from, const uint32_t operand[3])
{
    if (!tn__cpu_native_supports(op, type, from) || !fits(f, type) ||
        !fits(f, from))
        return TN_NONE;
    uint32_t count = operand_count(op);
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

/* The body of a function, for arguments that are nodes. */
static uint32_t function_node(finder *f, const tn_kernel_fn *fn,
                              const uint32_t argument[3])
{
    if (fn->hash == f->exp)
        return fits(f, CPU_F32) ? add_node(f, (cpu_node){.op = TN_K_CALL,
                                                         .type = CPU_F32,
                                                         .from = CPU_F32,
                                                         .a = argument[0],
                                                         .b = TN_NONE,
                                                         .c = TN_NONE})
                                : TN_NONE;
    uint32_t *map = malloc((fn->ins_count + 1u) * sizeof *map);
    uint32_t result = map ? 0 : TN_NONE;
    if (!map)
        no_memory(f);
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
            result = fits(f, type) ? constant_node(f, type, bytes) : TN_NONE;
            break;
        case TN_K_ARG:
            result = argument[ins->imm.i];
            break;
        case TN_K_CALL:
            result = function_node(f, &f->program->fn[ins->imm.i], operand);
            break;
        default:
            result = instruction_node(f, ins->op, type, from, operand);
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

/* The types of an operation's operands. */
static unsigned operand_type(const finder *f, const cpu_op *op, uint32_t i)
{
    if (op->code == CPU_MATH)
        return tn__cpu_type_of(f->program->fn[op->index].arg_dtype[i]);
    if (op->kernel == TN_K_SELECT)
        return i == 0 ? CPU_BOOL : op->type;
    return op->from;
}

/* ---- segments ---------------------------------------------------------- */

static bool begin(finder *f)
{
    cpu_code *code = f->code;
    cpu_segment **grown =
        realloc(code->segment, (code->segment_count + 1u) * sizeof *grown);
    if (grown)
        code->segment = grown;
    f->current = grown ? calloc(1, sizeof *f->current) : NULL;
    if (!f->current) {
        no_memory(f);
        return false;
    }
    f->node_room = 0;
    f->width = 0;
    f->joined_count = f->waiting_count = 0;
    memset(f->deferred, 0, code->slot_count * sizeof *f->deferred);
    return true;
}

/* A function may still turn out to hold what is not. */
static bool is_known(const cpu_op *op)
{
    return op->code == CPU_MATH ||
           (op->code == CPU_RUN && op->kernel != 0 &&
            tn__cpu_native_supports(op->kernel, op->type, op->from));
}

/* Makes the operation part of the segment, if that can be. */
static bool join(finder *f, uint32_t number)
{
    const cpu_op *op = &f->code->op[number];
    if (!is_known(op) || !(f->current || begin(f)))
        return false;
    cpu_native *n = &f->current->native;
    uint32_t nodes = n->node_count, operands = n->operand_count;
    uint8_t width = f->width;
    const uint32_t slot[3] = {op->a, op->b, op->c};
    uint32_t operand[3] = {TN_NONE, TN_NONE, TN_NONE}, node = 0;
    uint32_t count = op->code == CPU_MATH ? f->program->fn[op->index].arg_count
                                          : operand_count(op->kernel);
    for (uint32_t i = 0; i < count && node != TN_NONE; i++) {
        unsigned type = operand_type(f, op, i);
        node = operand[i] =
            fits(f, type) ? slot_node(f, type, slot[i]) : TN_NONE;
    }
    if (node != TN_NONE)
        node =
            op->code == CPU_MATH
                ? function_node(f, &f->program->fn[op->index], operand)
                : instruction_node(f, op->kernel, op->type, op->from, operand);
    if (node == TN_NONE) {
        n->node_count = nodes;
        n->operand_count = operands;
        f->width = width;
        return false;
    }
    f->node[op->out] = node;
    f->segment[op->out] = f->code->segment_count + 1u;
    f->joined[f->joined_count++] = number;
    return true;
}

static bool is_joined(const finder *f, uint32_t number)
{
    for (uint32_t i = 0; i < f->joined_count; i++)
        if (f->joined[i] == number)
            return true;
    return false;
}

/* A reduction that waits, of a value that the segment has: its node. */
static uint32_t folded_node(const finder *f, const cpu_op *op)
{
    const cpu_native *n = &f->current->native;
    if (op->code != CPU_REDUCE || f->width != 4)
        return TN_NONE;
    const cpu_reduce *reduce = &f->code->reduce[op->index];
    if (reduce->kind > TN_REDUCE_MIN || reduce->type != CPU_F32)
        return TN_NONE;
    if (f->segment[op->a] == f->code->segment_count + 1u)
        return f->node[op->a];
    for (uint32_t i = 0; i < n->node_count; i++)
        if (n->node[i].op == TN_K_LOAD && n->node[i].type == CPU_F32 &&
            f->current->operand[n->node[i].number].wide == op->a)
            return i;
    return TN_NONE;
}

enum { BY_NONE, BY_FOLD, BY_OTHER };
static int readers(const finder *f, uint32_t slot)
{
    int by = BY_NONE;
    for (uint32_t i = 0; i < f->code->op_count; i++) {
        const cpu_op *op = &f->code->op[i];
        if ((op->a != slot && op->b != slot && op->c != slot) ||
            is_joined(f, i))
            continue;
        if (op->jump == 0)
            return BY_OTHER;
        by = BY_FOLD; /* a reduction that this segment takes */
    }
    return by;
}

/* Is a value there for one reader alone? */
static bool is_read_once(const cpu_code *code, uint32_t slot)
{
    uint32_t reads = 0;
    for (uint32_t i = 0; i < code->op_count; i++)
        reads += code->op[i].a == slot || code->op[i].b == slot ||
                 code->op[i].c == slot;
    for (uint32_t k = 0; k < code->segment_count; k++)
        for (uint32_t i = 0; i < code->segment[k]->native.operand_count; i++)
            reads += code->segment[k]->operand[i].wide == slot;
    return reads == 1;
}

/* Is a value stored, and read by nothing else? Where results go past the
 * caches, code stores them as it makes them. */
static bool is_stored_alone(const finder *f, uint32_t slot)
{
    const cpu_code *code = f->code;
    uint32_t i = 0;
    while (i < code->op_count &&
           (code->op[i].code != CPU_STORE || code->op[i].a != slot))
        i++;
    return i < code->op_count && (code->op[i].flags & STORE_DIRECT) &&
           is_read_once(code, slot);
}

/* Of streamed rows: makes the value of a reduction part of a segment, so that
 * all folds go the same way, over lines (native_run.c). Where rows are kept what
 * folds alone is faster by its routine: layer_norm of 2048 x 512 took 157 us so,
 * 147 without (Zen 5). */
static void join_fold(finder *f, const cpu_op *op)
{
    const cpu_reduce *reduce = &f->code->reduce[op->index];
    if (!f->keep && reduce->kind <= TN_REDUCE_MIN && reduce->type == CPU_F32 &&
        !f->deferred[op->a] && (f->current || begin(f)) && fits(f, CPU_F32))
        slot_node(f, CPU_F32, op->a);
}

static uint32_t work_of(const cpu_native *n)
{
    enum { EXP = 20 };
    uint32_t work = 0;
    for (uint32_t i = 0; i < n->node_count; i++)
        if (n->node[i].op != TN_K_LOAD && n->node[i].op != TN_K_CONST)
            work += n->node[i].op == TN_K_CALL ? EXP : 1;
    return work;
}

/* What is read of it outside, and what it folds; false where that is more than
 * it can have, or not worth it. */
static bool find_results(finder *f)
{
    cpu_segment *s = f->current;
    cpu_native *n = &s->native;
    for (uint32_t i = 0; i < f->waiting_count; i++) {
        cpu_op *op = &f->code->op[f->waiting[i]];
        uint32_t node = folded_node(f, op);
        if (node == TN_NONE || n->fold_count == TN_CPU_NATIVE_FOLDS)
            continue;
        n->fold[n->fold_count] = node;
        n->fold_kind[n->fold_count] = f->code->reduce[op->index].kind;
        s->reduce[n->fold_count++] = op->index;
        op->jump = f->code->segment_count + 1u;
    }
    for (uint32_t i = 0; i < f->joined_count; i++) {
        uint32_t slot = f->code->op[f->joined[i]].out;
        int by = readers(f, slot);
        if (by == BY_NONE)
            continue;
        if (n->result_count + n->fold_count == TN_CPU_NATIVE_RESULTS)
            return false;
        n->result[n->result_count] = f->node[slot];
        n->folded[n->result_count] = by == BY_FOLD;
        s->result[n->result_count++] = slot;
    }
    n->wide = f->width == 8;
    s->work = work_of(n);
    /* Of operations one alone is as fast by its routine. */
    return f->joined_count + n->fold_count > 1 || f->joined_count == 0 ||
           f->code->op[f->joined[0]].code == CPU_MATH ||
           is_stored_alone(f, f->code->op[f->joined[0]].out);
}

/* Ends the segment at hand: it, and what waits behind it. */
static void end(finder *f)
{
    cpu_code *code = f->code;
    if (!f->current)
        return;
    bool is_one = f->current->native.node_count > 0 && find_results(f) &&
                  f->joined_count + f->current->native.fold_count > 0;
    if (is_one) {
        f->rebuilt[f->rebuilt_count++] = (cpu_op){.code = CPU_NATIVE,
                                                  .out = TN_CPU_NONE,
                                                  .a = TN_CPU_NONE,
                                                  .b = TN_CPU_NONE,
                                                  .c = TN_CPU_NONE,
                                                  .where = TN_CPU_NONE,
                                                  .index = code->segment_count};
        code->segment[code->segment_count++] = f->current;
    } else {
        tn__cpu_native_release(&f->current->native);
        free(f->current);
    }
    uint32_t j = is_one ? f->joined_count : 0, w = 0;
    while (j < f->joined_count || w < f->waiting_count) {
        bool first = w == f->waiting_count ||
                     (j < f->joined_count && f->joined[j] < f->waiting[w]);
        cpu_op *op = &code->op[first ? f->joined[j++] : f->waiting[w++]];
        if (!is_one) {
            op->jump = 0;
            if (op->out != TN_CPU_NONE)
                f->segment[op->out] = 0;
        }
        f->rebuilt[f->rebuilt_count++] = *op;
    }
    f->current = NULL;
}

/* What an operation reads: is any of it made by the segment, or behind it? */
static void classify_reads(const finder *f, const cpu_op *op, bool *made,
                           bool *deferred)
{
    const uint32_t read[3] = {op->a, op->b, op->c};
    *made = *deferred = false;
    for (int j = 0; f->current && j < 3; j++)
        if (read[j] != TN_CPU_NONE) {
            *made |= f->segment[read[j]] == f->code->segment_count + 1u;
            *deferred |= f->deferred[read[j]];
        }
}

static cpu_part find_part(finder *f, cpu_part part)
{
    cpu_part rebuilt = {f->rebuilt_count, 0};
    for (uint32_t i = part.first; i < part.first + part.count; i++) {
        cpu_op *op = &f->code->op[i];
        bool made, deferred;
        classify_reads(f, op, &made, &deferred);
        if (op->code == CPU_BROADCAST || op->code == CPU_FILL)
            f->maker[op->out] = i + 1;
        if (!deferred && join(f, i))
            continue;
        if (f->current && is_known(op) && (made || deferred)) {
            end(f);
            if (join(f, i))
                continue;
        }
        if (op->code == CPU_REDUCE)
            join_fold(f, op);
        if (f->current && (made || deferred || op->code == CPU_STORE ||
                           op->code == CPU_REDUCE)) {
            f->waiting[f->waiting_count++] = i;
            if (op->out != TN_CPU_NONE)
                f->deferred[op->out] = true;
            if (op->where != TN_CPU_NONE) /* PAIR makes two */
                f->deferred[op->where] = true;
        } else {
            f->rebuilt[f->rebuilt_count++] = *op;
        }
    }
    end(f);
    for (uint32_t i = part.first; i < part.first + part.count; i++)
        if (f->code->op[i].out != TN_CPU_NONE)
            f->maker[f->code->op[i].out] = 0;
    rebuilt.count = f->rebuilt_count - rebuilt.first;
    return rebuilt;
}

static cpu_part keep_part(finder *f, cpu_part part)
{
    cpu_part rebuilt = {f->rebuilt_count, part.count};
    memcpy(f->rebuilt + f->rebuilt_count, f->code->op + part.first,
           part.count * sizeof *f->rebuilt);
    f->rebuilt_count += part.count;
    return rebuilt;
}

/* Fewer read what is spread and filled, and stores have other makers. */
static void update_flags(cpu_code *code)
{
    for (uint32_t i = 0; i < code->op_count; i++) {
        cpu_op *op = &code->op[i];
        if (op->code == CPU_STORE && (op->flags & STORE_DIRECT)) {
            uint32_t by = i;
            while (by > 0 && code->op[by].out != op->a)
                by--;
            if (code->op[by].out != op->a) {
                op->flags &= (uint16_t)~STORE_CHUNKED;
                if (is_read_once(code, op->a))
                    op->flags |= STORE_STREAMED;
            }
        }
        if (op->code != CPU_BROADCAST && op->code != CPU_FILL)
            continue;
        bool wanted = false, read = false;
        for (uint32_t j = i + 1; j < code->op_count; j++) {
            const cpu_op *by = &code->op[j];
            const uint32_t slot[3] = {by->a, by->b, by->c};
            for (int k = 0; k < 3; k++)
                if (slot[k] == op->out) {
                    read = true;
                    wanted =
                        wanted || by->code != CPU_RUN || !(by->row >> k & 1);
                }
        }
        if (op->code == CPU_BROADCAST)
            op->flags = wanted ? BROADCAST_NEEDED : 0;
        else if (!read)
            op->code = CPU_NOP;
    }
}

static uint64_t hash_of(const tn_cpu_routines *routines, const char *name)
{
    for (; routines; routines = routines->narrower)
        for (uint32_t i = 0; i < routines->math_count; i++)
            if (strcmp(routines->math[i].name, name) == 0)
                return routines->math[i].hash;
    return 0;
}

tn_status tn__cpu_find_native(const tn_program *program,
                              const tn_cpu_routines *routines, bool keep,
                              cpu_code *code)
{
    if (code->loop_depth > 0) /* jumps count operations */
        return TN_OK;
    size_t slots = code->slot_count + 1u, ops = code->op_count + 1u;
    finder f = {.code = code,
                .program = program,
                .exp = hash_of(routines, "exp_f32"),
                .keep = keep};
    /* a segment that only folds is one more; of each reduction at most */
    f.rebuilt = malloc((ops + code->reduce_count) * sizeof *f.rebuilt);
    f.maker = calloc(3 * slots + 2 * ops, sizeof *f.maker);
    f.deferred = calloc(slots, sizeof *f.deferred);
    if (f.rebuilt && f.maker && f.deferred) {
        f.node = f.maker + slots;
        f.segment = f.node + slots;
        f.joined = f.segment + slots;
        f.waiting = f.joined + ops;
        code->uniform = keep_part(&f, code->uniform);
        for (uint32_t s = 0; s < code->stage_count; s++) {
            code->stage[s].elem = find_part(&f, code->stage[s].elem);
            code->stage[s].row = keep_part(&f, code->stage[s].row);
        }
        cpu_op *before = code->op;
        code->op = f.rebuilt;
        code->op_count = f.rebuilt_count;
        f.rebuilt = before;
        update_flags(code);
    } else {
        no_memory(&f);
    }
    free(f.rebuilt);
    free(f.maker);
    free(f.deferred);
    return f.status;
}
