/* native_find.c: finds operations of a program that can run together as one
 * piece of machine code, a segment (native_find.h).
 *
 * Operations are visited in order. An operation that machine code supports
 * joins the current segment, unless it reads a value that is computed after the
 * segment. Operations that read the segment's results run after it, as do
 * stores and reductions. All other operations run before it. If rows are long,
 * the segment also computes sums, products, minima and maxima of its values and
 * operands. */
#include <stdlib.h>
#include <string.h>

#include "native_find.h"

static bool begin(native_finder *f)
{
    cpu_code *code = f->code;
    cpu_segment **grown =
        realloc(code->segment, (code->segment_count + 1u) * sizeof *grown);
    if (grown)
        code->segment = grown;
    f->current = grown ? calloc(1, sizeof *f->current) : NULL;
    if (!f->current) {
        tn__cpu_find_no_memory(f);
        return false;
    }
    f->current->native.set = f->set;
    f->node_room = 0;
    f->width = 0;
    f->joined_count = f->waiting_count = 0;
    memset(f->deferred, 0, code->slot_count * sizeof *f->deferred);
    return true;
}

/* Returns whether machine code may support an operation. If the operation calls
 * a function, join() decides, because an instruction of the function may have
 * no support. */
static bool is_known(const cpu_op *op)
{
    return op->code == CPU_MATH ||
           (op->code == CPU_RUN && op->kernel != 0 &&
            tn__cpu_native_supports(op->kernel, op->type, op->from));
}

/* Adds operation `number` to the current segment. Returns false if machine code
 * does not support it, or if the segment has reached its limits of nodes or
 * operands, or computes in another width. */
static bool join(native_finder *f, uint32_t number)
{
    const cpu_op *op = &f->code->op[number];
    if (!is_known(op) || !(f->current || begin(f)))
        return false;
    cpu_native *n = &f->current->native;
    uint32_t nodes = n->node_count, operands = n->operand_count;
    uint8_t width = f->width;
    const uint32_t slot[3] = {op->a, op->b, op->c};
    uint32_t operand[3] = {TN_NONE, TN_NONE, TN_NONE}, node = 0;
    uint32_t count = op->code == CPU_MATH
                         ? f->program->fn[op->index].arg_count
                         : tn__cpu_find_operand_count(op->kernel);
    for (uint32_t i = 0; i < count && node != TN_NONE; i++) {
        unsigned type = tn__cpu_find_operand_type(f, op, i);
        node = operand[i] = tn__cpu_find_fits(f, type)
                                ? tn__cpu_find_slot_node(f, type, slot[i])
                                : TN_NONE;
    }
    if (node != TN_NONE)
        node = op->code == CPU_MATH
                   ? tn__cpu_find_function_node(f, &f->program->fn[op->index],
                                                operand)
                   : tn__cpu_find_instruction_node(f, op->kernel, op->type,
                                                   op->from, operand);
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

static bool is_joined(const native_finder *f, uint32_t number)
{
    for (uint32_t i = 0; i < f->joined_count; i++)
        if (f->joined[i] == number)
            return true;
    return false;
}

/* If the operation is a reduction of floats and its input is computed or loaded
 * by the segment, returns the node of that input. Otherwise returns TN_NONE. */
static uint32_t folded_node(const native_finder *f, const cpu_op *op)
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
static int readers(const native_finder *f, uint32_t slot)
{
    int by = BY_NONE;
    for (uint32_t i = 0; i < f->code->op_count; i++) {
        const cpu_op *op = &f->code->op[i];
        if ((op->a != slot && op->b != slot && op->c != slot) ||
            is_joined(f, i))
            continue;
        if (op->jump == 0)
            return BY_OTHER;
        by = BY_FOLD; /* op is a reduction that the segment computes */
    }
    return by;
}

/* Returns whether exactly one operation reads a slot. */
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

/* Returns whether the only operation that reads a slot's value is a STORE.
 * Machine code can then write the value to the operand by non-temporal
 * stores. */
static bool is_stored_alone(const native_finder *f, uint32_t slot)
{
    const cpu_code *code = f->code;
    uint32_t i = 0;
    while (i < code->op_count &&
           (code->op[i].code != CPU_STORE || code->op[i].a != slot))
        i++;
    return i < code->op_count && (code->op[i].flags & STORE_DIRECT) &&
           is_read_once(code, slot);
}

/* If rows are longer than a block, makes the input of a reduction an operand of
 * the segment, so that the segment computes the reduction. If rows fit a block,
 * a segment that only reduces is slower than a routine. */
static void join_fold(native_finder *f, const cpu_op *op)
{
    const cpu_reduce *reduce = &f->code->reduce[op->index];
    if (!f->keep && reduce->kind <= TN_REDUCE_MIN && reduce->type == CPU_F32 &&
        !f->deferred[op->a] && (f->current || begin(f)) &&
        tn__cpu_find_fits(f, CPU_F32))
        tn__cpu_find_slot_node(f, CPU_F32, op->a);
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

/* Finds the row reductions that the segment computes (folds) and its results
 * (the values that operations outside the segment read). Returns false if there
 * are too many results, or if the segment would not be faster than one routine
 * for each operation. */
static bool find_results(native_finder *f)
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
    /* A segment of a single operation is not faster than its routine. */
    return f->joined_count + n->fold_count > 1 || f->joined_count == 0 ||
           f->code->op[f->joined[0]].code == CPU_MATH ||
           is_stored_alone(f, f->code->op[f->joined[0]].out);
}

/* Ends the current segment: appends it to the new list of operations, and after
 * it the operations that read its results. */
static void end(native_finder *f)
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

/* Sets *made if the operation reads a value that the current segment computes,
 * *deferred if it reads a value of an operation that runs after the segment. */
static void classify_reads(const native_finder *f, const cpu_op *op, bool *made,
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

static cpu_part find_part(native_finder *f, cpu_part part)
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
            if (op->where != TN_CPU_NONE) /* PAIR computes two values and writes
                                           * a second slot */
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

static cpu_part keep_part(native_finder *f, cpu_part part)
{
    cpu_part rebuilt = {f->rebuilt_count, part.count};
    memcpy(f->rebuilt + f->rebuilt_count, f->code->op + part.first,
           part.count * sizeof *f->rebuilt);
    f->rebuilt_count += part.count;
    return rebuilt;
}

/* Updates flags of operations after all segments are found. Operations in
 * segments no longer read BROADCAST and FILL operations, and segments now
 * compute some of the stored values. */
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
    /* Code with loops is not changed: in a new list of operations the distances
     * of its jumps would be wrong. */
    if (code->loop_depth > 0)
        return TN_OK;
    size_t slots = code->slot_count + 1u, ops = code->op_count + 1u;
    native_finder f = {.code = code,
                       .program = program,
                       .exp = hash_of(routines, "exp_f32"),
                       .set = routines->native,
                       .keep = keep};
    /* The new list has no more operations than the old one, plus one segment
     * for each reduction. */
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
        tn__cpu_find_no_memory(&f);
    }
    free(f.rebuilt);
    free(f.maker);
    free(f.deferred);
    return f.status;
}
