/* chain.c: finds operations of arithmetic that run as one, tile by tile
 * (routines_chain.c): what one of them makes the next one has in registers, and
 * a block of values is read and written once for all.
 *
 * They stay operations of the list, side by side; the first knows how many they
 * are and the steps they come to. What none but they read has no block. Others
 * may be written where an operand ends, element for element, tile by tile as
 * block by block. */
#include <stdlib.h>
#include <string.h>

#include "compile.h"

enum {
    MOST = 12,  /* operations of a chain */
    AHEAD = 64, /* operations among which more are looked for */
    STEPS_OF_ONE = 3
};
/* Each may be asked for ahead. */
_Static_assert(MOST * (STEPS_OF_ONE + 2) < TN_CPU_STEPS, "room for the steps");
_Static_assert(MOST <= TN_CPU_SCRATCH, "room for what is kept");

/* What a chain can do: the step for x op y, and for y op x. SELECT's is for
 * mask ? y : x, and mask ? x : y. */
static const struct {
    uint8_t op, step, turned;
} known[] = {
    {TN_K_ADD, TN_CPU_STEP_ADD, TN_CPU_STEP_ADD},
    {TN_K_SUB, TN_CPU_STEP_SUB, TN_CPU_STEP_FROM},
    {TN_K_MUL, TN_CPU_STEP_MUL, TN_CPU_STEP_MUL},
    {TN_K_DIV, TN_CPU_STEP_DIV, TN_CPU_STEP_INTO},
    {TN_K_MIN, TN_CPU_STEP_MIN, TN_CPU_STEP_MIN},
    {TN_K_MAX, TN_CPU_STEP_MAX, TN_CPU_STEP_MAX},
    {TN_K_LT, TN_CPU_STEP_LT, TN_CPU_STEP_GT},
    {TN_K_LE, TN_CPU_STEP_LE, TN_CPU_STEP_GE},
    {TN_K_SELECT, TN_CPU_STEP_PICK, TN_CPU_STEP_OTHER},
    {TN_K_ABS, TN_CPU_STEP_ABS, TN_CPU_STEP_ABS},
    {TN_K_NEG, TN_CPU_STEP_NEG, TN_CPU_STEP_NEG},
};
enum { KNOWN = sizeof known / sizeof *known };

typedef struct chainer {
    const tn_cpu_routines *routines;
    cpu_code *code;
    uint32_t *reader; /* of each slot: operations that read it */
    bool *late;       /* made by an operation that comes after the chain */
    const cpu_part *part;
    cpu_op *order; /* the part as it will be */
    bool *taken;
    size_t step_room;
    tn_status status;
} chainer;

/* The row of known[], or KNOWN. Of floats alone: doubles are not worth as much
 * code again. */
static int row_of(const chainer *c, const cpu_op *op)
{
    if (op->code != CPU_RUN || op->flags & CPU_FACTORS)
        return KNOWN;
    for (int k = 0; k < KNOWN; k++)
        if (op->run == c->routines->op[known[k].op][CPU_F32])
            return k;
    return KNOWN;
}

static unsigned kind_of(const chainer *c, const cpu_op *op)
{
    int k = row_of(c, op);
    return k < KNOWN ? known[k].op : TN_K_END;
}

static bool is_compare(unsigned kind)
{
    return kind == TN_K_LT || kind == TN_K_LE;
}

static bool is_unary(unsigned kind)
{
    return kind == TN_K_ABS || kind == TN_K_NEG;
}

static bool is_plain_load(const cpu_op *op)
{
    return op->code == CPU_LOAD && op->a == TN_CPU_NONE &&
           op->b == TN_CPU_NONE && op->c == TN_CPU_NONE;
}

static bool reads(const cpu_op *op, uint32_t slot)
{
    return op->a == slot || op->b == slot || op->c == slot;
}

static bool is_late(const chainer *c, const cpu_op *op)
{
    const uint32_t read[3] = {op->a, op->b, op->c};
    for (int j = 0; j < 3; j++)
        if (read[j] != TN_CPU_NONE && c->late[read[j]])
            return true;
    return false;
}

static void count_readers(chainer *c)
{
    for (uint32_t i = 0; i < c->code->op_count; i++) {
        const cpu_op *op = &c->code->op[i];
        const uint32_t read[3] = {op->a, op->b, op->c};
        for (int j = 0; j < 3; j++)
            if (read[j] != TN_CPU_NONE && (j < 1 || read[j] != read[0]) &&
                (j < 2 || read[j] != read[1]))
                c->reader[read[j]]++;
    }
}

/* ---- steps ------------------------------------------------------------- */

/* The chain under way: operations, and for each where its value is read. */
typedef struct chain {
    cpu_op *op;
    uint32_t count;
    int8_t scratch[MOST]; /* where a value is kept; -1: in its slot */
    int scratch_count;
} chain;

static uint32_t operand_of(const cpu_op *op, uint32_t operand)
{
    return operand == 0 ? op->a : operand == 1 ? op->b : op->c;
}

/* The program's operand that the part loads slot from, or stores it to. */
static uint8_t find_memory(const chainer *c, uint32_t slot)
{
    for (uint32_t i = 0; i < c->part->count; i++) {
        const cpu_op *op = &c->code->op[c->part->first + i];
        if ((op->code == CPU_LOAD && op->out == slot) ||
            (op->code == CPU_STORE && op->a == slot))
            return (uint8_t)op->index;
    }
    return CPU_NO_MEMORY;
}

static void add_step(chainer *c, chain *h, unsigned code, unsigned kind,
                     uint32_t op, uint32_t operand)
{
    cpu_code *to = c->code;
    if (to->step_count == c->step_room) {
        size_t wanted = c->step_room ? 2 * c->step_room : 32;
        cpu_step *grown = realloc(to->step, wanted * sizeof *grown);
        if (!grown) {
            c->status = tn__cpu_host->fail(
                TN_ERR_MEMORY, "program: out of memory while building");
            return;
        }
        to->step = grown;
        c->step_room = wanted;
    }
    uint8_t memory = CPU_NO_MEMORY;
    if (kind == CPU_STEP_OPERAND)
        memory = find_memory(c, operand_of(&h->op[op], operand));
    else if (code == TN_CPU_STEP_KEEP && kind == CPU_STEP_RESULT)
        memory = find_memory(c, h->op[op].out);
    to->step[to->step_count++] =
        (cpu_step){.code = (uint8_t)code, .kind = (uint8_t)kind,
                   .op = (uint8_t)op, .operand = (uint8_t)operand,
                   .memory = memory};
    h->op->steps++;
}

/* The operation of the chain, before `end`, that makes slot; count: none. */
static uint32_t maker(const chain *h, uint32_t slot, uint32_t end)
{
    for (uint32_t k = 0; k < end; k++)
        if (h->op[k].out == slot)
            return k;
    return h->count;
}

/* A step whose operand is number `operand` of operation j. */
static void add_operand(chainer *c, chain *h, unsigned code, uint32_t j,
                        uint32_t operand)
{
    uint32_t by = maker(h, operand_of(&h->op[j], operand), j);
    if (by == h->count)
        add_step(c, h, code, CPU_STEP_OPERAND, j, operand);
    else if (h->scratch[by] >= 0)
        add_step(c, h, code, CPU_STEP_SCRATCH, by, (uint32_t)h->scratch[by]);
    else
        add_step(c, h, code, CPU_STEP_RESULT, by, 0);
}

/* Will operation k read slot from elsewhere than what is held, which it is? */
static bool wants_again(const chainer *c, const cpu_op *op, uint32_t slot)
{
    unsigned kind = kind_of(c, op);
    if (kind == TN_K_SELECT)
        return op->a == slot;
    return op->a == op->b && kind != TN_K_MUL && !is_unary(kind);
}

/* A value that is read again is kept: in its slot if others read it, too, else
 * in scratch. */
static void keep_value(chainer *c, chain *h, uint32_t j)
{
    uint32_t slot = h->op[j].out, inside = 0;
    bool again = false;
    for (uint32_t k = j + 1; k < h->count; k++) {
        if (!reads(&h->op[k], slot))
            continue;
        inside++;
        again = again || k > j + 1 || wants_again(c, &h->op[k], slot);
    }
    if (inside < c->reader[slot]) {
        h->scratch[j] = -1;
        add_step(c, h, TN_CPU_STEP_KEEP, CPU_STEP_RESULT, j, 0);
        return;
    }
    c->code->slot[slot].space = CPU_NOWHERE;
    if (!again)
        return;
    h->scratch[j] = (int8_t)h->scratch_count++;
    add_step(c, h, TN_CPU_STEP_KEEP, CPU_STEP_SCRATCH, j,
             (uint32_t)h->scratch[j]);
}

/* The steps of operation j: what is held is loaded if it is none of its
 * operands. */
static void make_step(chainer *c, chain *h, uint32_t j)
{
    const cpu_op *op = &h->op[j];
    int k = row_of(c, op);
    uint32_t at[2] = {0, 1}; /* of x op y: which operands these are */
    if (known[k].op == TN_K_SELECT) {
        at[0] = 2;
        at[1] = 1;
    }
    bool is_held[2];
    for (int i = 0; i < 2; i++)
        is_held[i] = j > 0 && h->op[j - 1].out == operand_of(op, at[i]);
    bool turned = is_held[1] && !is_held[0];
    if (!is_held[0] && !turned)
        add_operand(c, h, TN_CPU_STEP_LOAD, j, at[0]);
    if (is_unary(known[k].op))
        add_step(c, h, known[k].step, CPU_STEP_NONE, j, 0);
    else if (op->a == op->b && known[k].op == TN_K_MUL)
        add_step(c, h, TN_CPU_STEP_SQUARE, CPU_STEP_NONE, j, 0);
    else
        add_operand(c, h, turned ? known[k].turned : known[k].step, j,
                    turned ? at[0] : at[1]);
    if (known[k].op == TN_K_SELECT && c->status == TN_OK)
        c->code->step[c->code->step_count - 1].mask =
            (uint8_t)h->scratch[maker(h, op->a, j)];
}

static void make_steps(chainer *c, chain *h)
{
    h->op->chain = (uint8_t)h->count;
    h->op->index = c->code->step_count;
    for (uint32_t j = 0; j < h->count; j++) {
        make_step(c, h, j);
        keep_value(c, h, j);
    }
    add_step(c, h, TN_CPU_STEP_END, CPU_STEP_NONE, 0, 0);
}

/* ---- the list ---------------------------------------------------------- */

/* How many of the operations may be a chain: masks stay within it, for they are
 * no booleans, and come from there. */
static uint32_t whole_masks(const chainer *c, const cpu_op *found,
                            uint32_t count)
{
    for (uint32_t j = 0; j < count; j++) {
        uint32_t inside = 0;
        for (uint32_t k = j + 1; k < count; k++)
            inside += kind_of(c, &found[k]) == TN_K_SELECT &&
                      found[k].a == found[j].out;
        if (is_compare(kind_of(c, &found[j])) &&
            inside < c->reader[found[j].out])
            return whole_masks(c, found, j);
    }
    return count;
}

static bool has_mask(const chainer *c, const cpu_op *found, uint32_t count,
                     const cpu_op *op)
{
    if (kind_of(c, op) != TN_K_SELECT)
        return true;
    for (uint32_t j = 0; j < count; j++)
        if (found[j].out == op->a)
            return op->b != op->c && is_compare(kind_of(c, &found[j]));
    return false;
}

/* What is stored ends a chain: what is loaded after it, tile by tile, from where
 * another array has the same place within a page would wait for the store. NAdam
 * took 7.0 ms so in place of 4.0 (4 x 1048576, Zen 5). */
static bool is_stored(const chainer *c, uint32_t slot)
{
    for (uint32_t i = 0; i < c->part->count; i++) {
        const cpu_op *op = &c->code->op[c->part->first + i];
        if (op->code == CPU_STORE && op->a == slot)
            return true;
    }
    return false;
}

/* The chain that begins at operation i of the part, and ahead of it the loads it
 * wants; returns how many operations those are. */
static uint32_t find_chain(chainer *c, uint32_t i, cpu_op *to)
{
    const cpu_part *part = c->part;
    cpu_op *op = c->code->op + part->first, found[MOST];
    uint32_t count = 0, put = 0, number[MOST], most = MOST;
    for (uint32_t j = i; j < part->count && j < i + AHEAD; j++) {
        if (c->taken[j])
            continue;
        if (count < most && row_of(c, &op[j]) < KNOWN &&
            op[j].early == op[i].early && !is_late(c, &op[j]) &&
            has_mask(c, found, count, &op[j])) {
            number[count] = j;
            found[count++] = op[j];
            c->taken[j] = true;
            if (is_stored(c, op[j].out))
                most = count;
        } else if (is_plain_load(&op[j]) && count < most) {
            to[put++] = op[j];
            c->taken[j] = true;
        } else {
            if (op[j].out != TN_CPU_NONE)
                c->late[op[j].out] = true;
            if (op[j].code == CPU_PAIR)
                c->late[op[j].where] = true;
        }
    }
    for (uint32_t j = i; j < part->count && j < i + AHEAD; j++) {
        if (op[j].out != TN_CPU_NONE)
            c->late[op[j].out] = false;
        if (op[j].code == CPU_PAIR)
            c->late[op[j].where] = false;
    }
    uint32_t whole = whole_masks(c, found, count);
    whole = whole > 0 ? whole : 1;
    for (; count > whole; count--)
        c->taken[number[count - 1]] = false;
    memcpy(to + put, found, count * sizeof *found);
    chain h = {.op = to + put, .count = count};
    if (count > 1)
        make_steps(c, &h);
    return put + count;
}

static void chain_part(chainer *c, const cpu_part *part)
{
    cpu_op *op = c->code->op + part->first;
    uint32_t count = 0;
    c->part = part;
    memset(c->taken, 0, part->count * sizeof *c->taken);
    for (uint32_t i = 0; i < part->count; i++) {
        if (c->taken[i])
            continue;
        if (row_of(c, &op[i]) < KNOWN &&
            kind_of(c, &op[i]) != TN_K_SELECT)
            count += find_chain(c, i, c->order + count);
        else
            c->order[count++] = op[i];
    }
    memcpy(op, c->order, part->count * sizeof *op);
    uint32_t chains = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        bool is_chain = op[i].chain > 0;
        chains += is_chain;
        c->code->one_pass = c->code->one_pass && chains < 2 &&
                            (is_chain || is_plain_load(&op[i]) ||
                             op[i].code == CPU_STORE);
        i += is_chain ? op[i].chain - 1u : 0;
    }
}

tn_status tn__cpu_find_chains(const tn_cpu_routines *routines, cpu_code *code)
{
    if (code->loop_depth > 0) /* jumps count operations */
        return TN_OK;
    code->one_pass = code->stage_count == 1 && code->reduce_count == 0;
    size_t slots = code->slot_count + 1u, ops = code->op_count + 1u;
    chainer c = {.routines = routines, .code = code, .status = TN_OK,
                 .reader = calloc(slots, sizeof *c.reader),
                 .late = calloc(slots, sizeof *c.late),
                 .order = malloc(ops * sizeof *c.order),
                 .taken = malloc(ops * sizeof *c.taken)};
    if (!c.reader || !c.late || !c.order || !c.taken)
        c.status = tn__cpu_host->fail(TN_ERR_MEMORY,
                                      "program: out of memory while building");
    else
        count_readers(&c);
    for (uint32_t s = 0; s < code->stage_count && c.status == TN_OK; s++)
        if (!routines->pair || !tn__cpu_is_update(code, &code->stage[s].elem))
            chain_part(&c, &code->stage[s].elem);
        else
            code->one_pass = false;
    free(c.reader);
    free(c.late);
    free(c.order);
    free(c.taken);
    return c.status;
}
