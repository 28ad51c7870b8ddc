/* native_code.c: generates the machine code of a body, a list of SSA nodes
 * (native_body.h), for one set of options.
 *
 * The code is a loop over vectors of 64 bytes. It may process several rows or
 * chunks at the same time, which are called copies. A value stays in a register
 * from its definition to its last use, or is spilled to the stack if no
 * register is free. A value that is the same for a whole row has a register
 * during the whole loop, or instructions broadcast it from memory. Results are
 * stored after all operands are loaded, because results may overwrite operands.
 * The elements after the last whole vector are processed under a mask. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "native_code.h"

static uint8_t *pin_of(emitter *m, uint32_t copy, uint32_t node)
{
    /* A constant has one register for all copies (rows or chunks that the loop
     * processes at the same time). */
    uint32_t of = tn__jit_node_of(m, node)->op == TN_K_CONST ? 0 : copy;
    return &m->pin[of * m->native->node_count + node];
}

static void make_result(emitter *m, uint32_t result, const uint32_t keep[3])
{
    const cpu_native *n = m->native;
    uint32_t node = n->result[result];
    result %= m->results;
    unsigned from = tn__jit_need(m, node, keep), mask = m->tail ? TAIL : 0;
    unsigned type = tn__jit_node_of(m, node)->type;
    if (type != CPU_BOOL) {
        x86_source to = tn__jit_block(m, n->operand_count + result, type);
        bool streamed = (m->options->streamed >> result & 1) && !m->tail;
        tn__jit_emit_masked(m, tn__jit_floats(m, streamed ? 0x2b : 0x11), mask,
                            false, from, 0, to, X86_NO_IMM);
        to.memory.disp += m->options->ahead;
        if ((m->options->prefetch_operands >> (n->operand_count + result) &
             1) &&
            !m->tail)
            tn__x86_prefetch(&m->x, X86_TO_WRITE, &to.memory);
        return;
    }
    x86_form form = {(uint8_t)from, X86_128, true, 16};
    x86_source ones = {.is_memory = true, .memory = {POOL, X86_NO_INDEX, 1, 0}};
    tn__x86_vector(&m->x, (x86_op){1, 3, 0x6f, false}, form, SCRATCH, 0, &ones,
                   X86_NO_IMM); /* VMOVDQU8 */
    x86_source to = tn__jit_block(m, n->operand_count + result, type);
    if (mask) {
        form = (x86_form){(uint8_t)mask, X86_128, false, 16};
        tn__x86_vector(&m->x, (x86_op){1, 3, 0x7f, false}, form, SCRATCH, 0,
                       &to, X86_NO_IMM);
    } else if (m->wide) { /* VMOVQ */
        form = (x86_form){0, X86_128, false, 8};
        tn__x86_vector(&m->x, (x86_op){1, 1, 0xd6, true}, form, SCRATCH, 0, &to,
                       X86_NO_IMM);
    } else {
        form = (x86_form){0, X86_128, false, 16};
        tn__x86_vector(&m->x, (x86_op){1, 0, 0x11, false}, form, SCRATCH, 0,
                       &to, X86_NO_IMM);
    }
}

static int32_t lanes_of(const emitter *m)
{
    return m->wide ? 8 : 16;
}

/* Generates the code of nodes (SSA instructions). The loop processes several
 * rows at the same time; this is the code for row m->copy of them. If `ahead`
 * is true, generates the nodes that are computed before the loop. Otherwise
 * generates the nodes in the loop, for `turns` vectors. */
static void make_nodes(emitter *m, bool ahead, uint32_t turns)
{
    const cpu_native *n = m->native;
    int32_t disp = m->disp;
    memset(m->spill, 0xff, n->node_count * sizeof *m->spill);
    memset(m->holder, 0xff, sizeof m->holder);
    for (uint32_t i = 0; i < n->node_count; i++)
        m->reg[i] =
            ahead && tn__jit_is_ahead(m, i) ? NO_REGISTER
                                            : *pin_of(m, m->copy, i);
    for (m->at = 0; m->at < n->node_count; m->at++) {
        const cpu_node *node = tn__jit_node_of(m, m->at);
        uint8_t pin = *pin_of(m, m->copy, m->at);
        if (m->last[m->at] == TN_NONE || node->op == TN_K_LOAD ||
            node->op == TN_K_CONST || tn__jit_is_ahead(m, m->at) != ahead ||
            m->turn[m->at] >= turns)
            continue;
        m->disp = disp + m->turn[m->at] * lanes_of(m);
        tn__jit_make_node(m);
        if (ahead && pin != NO_REGISTER)
            tn__jit_move(m, pin, m->reg[m->at]);
    }
    m->disp = disp;
}

enum { LINE = 64 };

/* Generates the prefetch for the vector that begins at element INDEX + disp: 64
 * bytes of the memory at cpu_native_call.prefetch. */
static void emit_prefetch(emitter *m, int32_t disp)
{
    int32_t copies = m->options->copies;
    x86_memory prefetch = {PREFETCH_AT, X86_NO_INDEX, 1,
                           (disp / lanes_of(m) * copies + (int32_t)m->copy) *
                               LINE};
    tn__x86_prefetch(&m->x, X86_SECOND, &prefetch);
}

/* Generates prefetches for `turns` vectors of the current copy, of the operands
 * that options->prefetch_operands selects. They are options->ahead bytes ahead
 * of the loads. */
static void emit_operand_prefetches(emitter *m, uint32_t turns)
{
    int32_t disp = m->disp;
    for (uint32_t i = 0; i < m->native->node_count; i++) {
        const cpu_node *node = tn__jit_node_of(m, i);
        if (node->op != TN_K_LOAD || m->last[i] == TN_NONE ||
            !(m->options->prefetch_operands >> node->number & 1) ||
            m->turn[i] >= turns)
            continue;
        m->disp = disp + m->turn[i] * lanes_of(m);
        x86_source from = tn__jit_block(m, node->number, node->type);
        from.memory.disp += m->options->ahead;
        tn__x86_prefetch(&m->x, X86_FIRST, &from.memory);
    }
    m->disp = disp;
}

/* Generates the body of the loop. For each row that the loop processes at the
 * same time, it computes `turns` vectors: all nodes, reductions and results.
 * The first vector begins at element INDEX + disp. */
static void make_body(emitter *m, bool tail, uint32_t turns, int32_t disp)
{
    const cpu_native *n = m->native;
    const uint32_t none[3] = {TN_NONE, TN_NONE, TN_NONE};
    m->tail = tail;
    m->disp = disp;
    for (m->copy = 0; m->copy < m->options->copies; m->copy++) {
        int32_t stack = m->stack;
        m->stack = 0;
        for (uint32_t i = 0; m->options->prefetch && !tail && i < turns; i++)
            emit_prefetch(m, disp + (int32_t)i * lanes_of(m));
        if (m->options->prefetch_operands && !tail)
            emit_operand_prefetches(m, turns);
        make_nodes(m, false, turns);
        for (uint32_t i = 0; m->options->folds && i < n->fold_count; i++)
            tn__jit_make_fold(m, i, none);
        for (uint32_t i = 0; i < turns * m->results; i++) {
            m->disp = disp + (int32_t)(i / m->results) * lanes_of(m);
            if (tn__jit_is_made(m, i))
                make_result(m, i, none);
        }
        m->disp = disp;
        m->stack = stack > m->stack ? stack : m->stack;
    }
}

/* Generates code that loads constants of exp into the `left` free registers
 * below register `next`. If all 14 constants were read from memory, they would
 * take seven cycles for each vector, because the processor can read two
 * operands in a cycle. */
static void pin_exp(emitter *m, uint32_t left, uint32_t next)
{
    bool any = false;
    for (uint32_t i = 0; i < m->native->node_count; i++)
        any = any ||
              (tn__jit_node_of(m, i)->op == TN_K_CALL && m->last[i] != TN_NONE);
    memset(m->exp_pin, NO_REGISTER, sizeof m->exp_pin);
    for (int i = 0; any && i < EXP_NUMBERS && left > 0; i++, left--) {
        m->exp_pin[i] = (uint8_t)--next;
        m->pinned[next] = true;
        tn__jit_broadcast(m, next, tn__jit_constant(m, tn__jit_exp_number(i)));
    }
}

/* Reserves registers that keep their value during the whole loop (pins): first
 * for nodes computed before the loop, then for constants, then for operands
 * with one value for each row. Returns false if there are too few registers for
 * the nodes computed before the loop. */
static bool make_pins(emitter *m)
{
    const cpu_native *n = m->native;
    uint32_t left = m->pins, next = VECTORS;
    bool enough = true;
    if (m->options->folds)
        next -= n->fold_count * m->options->copies;
    memset(m->pin, NO_REGISTER, (size_t)n->node_count * m->options->copies);
    for (int turn = 0; turn < 3; turn++)
        for (m->copy = 0; m->copy < m->options->copies; m->copy++)
            for (uint32_t i = 0; i < n->node_count; i++) {
                uint8_t *pin = pin_of(m, m->copy, i),
                        op = tn__jit_node_of(m, i)->op;
                int kind = op == TN_K_CONST ? 1 : op == TN_K_LOAD ? 2 : 0;
                if (kind != turn || !m->fixed[i] || m->last[i] == TN_NONE ||
                    *pin != NO_REGISTER || !tn__jit_is_wanted(m, i))
                    continue;
                enough = enough && (kind > 0 || left > 0);
                if (left == 0)
                    continue;
                *pin = (uint8_t)--next;
                m->pinned[next] = true;
                left--;
                if (kind == 1)
                    tn__jit_broadcast(m, next, tn__jit_single_of(m, i));
            }
    pin_exp(m, left, next);
    return enough;
}

/* Generates the code before the loop: it loads operands that have one value for
 * the row into their pinned registers, and computes the nodes that do not
 * change in the loop. */
static void load_pins(emitter *m)
{
    m->tail = false;
    for (m->copy = 0; m->copy < m->options->copies; m->copy++) {
        for (uint32_t i = 0; i < m->native->node_count; i++)
            if (tn__jit_node_of(m, i)->op == TN_K_LOAD &&
                *pin_of(m, m->copy, i) != NO_REGISTER)
                tn__jit_broadcast(m, *pin_of(m, m->copy, i),
                                  tn__jit_single_of(m, i));
        int32_t stack = m->stack;
        m->stack = 0;
        make_nodes(m, true, 1);
        m->stack = stack > m->stack ? stack : m->stack;
    }
}

/* Generates code that compares INDEX + lanes with COUNT, to find whether
 * another full vector is left. RCX receives the sum. */
static void make_compare(emitter *m, int32_t lanes)
{
    enum { CMP = 0x39 };
    x86_memory next = {INDEX, X86_NO_INDEX, 1, lanes};
    tn__x86_memory(&m->x, LEA, RCX, &next);
    tn__x86_alu(&m->x, CMP, RCX, COUNT);
}

static void patch(x86 *x, size_t at, int32_t number)
{
    if (!x->failed)
        memcpy(x->at + at, &number, sizeof number);
}

static void make_loop(emitter *m, uint32_t unroll)
{
    enum { JA = 0x87, JE = 0x84, JMP = 0xe9, SUB = 0x29, XOR = 0x31 };
    x86 *x = &m->x;
    int32_t lanes = lanes_of(m);
    x86_memory count = {ARGUMENTS, X86_NO_INDEX, 1,
                        offsetof(cpu_native_call, n)};
    tn__x86_memory(x, LOAD, COUNT, &count);
    tn__x86_alu(x, XOR, INDEX, INDEX);
    for (uint32_t u = unroll;; u = 1) {
        make_compare(m, lanes * (int32_t)u);
        size_t over = tn__x86_jump(x, JA), top = x->count;
        uint32_t turns = u > 1 ? m->turns : 1;
        for (uint32_t i = 0; i < u; i += turns)
            make_body(m, false, turns, (int32_t)i * lanes);
        if (m->options->prefetch)
            tn__x86_add(x, PREFETCH_AT,
                        (int32_t)(u * m->options->copies * LINE));
        tn__x86_add(x, INDEX, lanes * (int32_t)u);
        make_compare(m, lanes * (int32_t)u);
        tn__x86_jump_back(x, 0x86, top); /* JBE */
        tn__x86_jump_here(x, over);
        if (u == 1)
            break;
    }
    tn__x86_alu(x, SUB, COUNT, INDEX); /* COUNT = remaining elements */
    size_t done = tn__x86_jump(x, JE);
    static const uint8_t bits[] = {
        0xba, 0xff, 0xff, 0xff, 0xff,  /* mov edx, -1 */
        0xc4, 0xe2, 0x48, 0xf5, 0xd2}; /* bzhi edx, edx, esi */
    for (size_t i = 0; i < sizeof bits; i++)
        tn__x86_byte(x, bits[i]);
    tn__x86_mask_of(x, TAIL, RDX);
    make_body(m, true, 1, 0);
    tn__x86_jump_here(x, done);
}

static void load_pointers(emitter *m)
{
    for (uint32_t i = 0; i < m->pointers; i++) {
        x86_memory from = tn__jit_argument(m, 0, i);
        tn__x86_memory(&m->x, LOAD, tn__jit_pointer_register[i], &from);
    }
}

/* Generates the code that advances all pointers to the next row and jumps to
 * `top` if rows are left. */
static void make_next(emitter *m, size_t top)
{
    enum { JNE = 0x85 };
    x86 *x = &m->x;
    uint32_t each = tn__jit_per_copy(m), all = each * m->options->copies;
    for (uint32_t i = 0; i < all; i++) {
        x86_memory next = {
            ARGUMENTS, X86_NO_INDEX, 1,
            (int32_t)(offsetof(cpu_native_call, next) + 8 * (i % each))};
        x86_memory at = tn__jit_argument(m, 0, i);
        if (i < m->pointers) {
            tn__x86_memory(x, ADD, tn__jit_pointer_register[i], &next);
        } else {
            tn__x86_memory(x, LOAD, SCRATCH_POINTER, &next);
            tn__x86_memory(x, ADD_TO, SCRATCH_POINTER, &at);
        }
    }
    x86_memory prefetch = {ARGUMENTS, X86_NO_INDEX, 1,
                           offsetof(cpu_native_call, prefetch_next)};
    if (m->options->prefetch)
        tn__x86_memory(x, ADD, PREFETCH_AT, &prefetch);
    x86_memory lines = {ARGUMENTS, X86_NO_INDEX, 1,
                        offsetof(cpu_native_call, lines)};
    tn__x86_memory(x, 0xff, 1, &lines); /* dec */
    tn__x86_jump_back(x, JNE, top);
}

/* Generates the code that, with the option `parts`, advances ARGUMENTS to the
 * next cpu_native_call of the array and jumps to `top`. After the last one the
 * code continues below. */
static void make_next_part(emitter *m, size_t top)
{
    enum { JE = 0x84, JNE = 0x85 };
    x86 *x = &m->x;
    x86_memory lines = {ARGUMENTS, X86_NO_INDEX, 1,
                        offsetof(cpu_native_call, lines)};
    tn__x86_memory(x, 0xff, 1, &lines); /* dec */
    size_t done = tn__x86_jump(x, JE);
    tn__x86_add(x, ARGUMENTS, sizeof(cpu_native_call));
    load_pointers(m);
    /* This jump is always taken. The addition to ARGUMENTS set the flags, and
     * its result, an address, is not 0. */
    tn__x86_jump_back(x, JNE, top);
    tn__x86_jump_here(x, done);
}

/* The registers of the first three pointers need not be saved, because the
 * System V ABI lets a callee overwrite them. */
enum { FREE_POINTERS = 3 };

/* Generates the whole function. Returns false if there are too few registers
 * for the nodes computed before the loop. */
static bool make_all(emitter *m, uint32_t unroll)
{
    x86 *x = &m->x;
    uint32_t all = tn__jit_per_copy(m) * m->options->copies;
    uint32_t most = POINTERS - m->options->prefetch;
    m->pointers = all < most ? all : most;
    m->pool_count = m->wide ? POOL_ONES / 2 : POOL_ONES;
    for (uint32_t i = 0; i < m->pool_count; i++)
        m->pool[i] = UINT64_C(0x0101010101010101) >> (m->wide ? 0 : 32);
    memset(m->pinned, 0, sizeof m->pinned);
    m->spilled = false;
    m->stack = 0;
    x->count = 0;
    m->rare_count = 0;
    for (uint32_t i = FREE_POINTERS; i < m->pointers; i++)
        tn__x86_push(x, tn__jit_pointer_register[i]);
    if (m->options->prefetch) {
        x86_memory prefetch = {ARGUMENTS, X86_NO_INDEX, 1,
                               offsetof(cpu_native_call, prefetch)};
        tn__x86_push(x, PREFETCH_AT);
        tn__x86_memory(x, LOAD, PREFETCH_AT, &prefetch);
    }
    tn__x86_add(x, RSP, 0);
    size_t frame = x->count;
    load_pointers(m);
    tn__x86_byte(x, 0x4c); /* lea r11, [rip + pool]: the address of the
                            * constants */
    tn__x86_byte(x, 0x8d);
    tn__x86_byte(x, 0x1d);
    tn__x86_word(x, 0);
    size_t pool = x->count;
    if (!make_pins(m))
        return false;
    if (m->options->parts)
        tn__jit_begin_folds(m);
    size_t top = x->count;
    load_pins(m);
    if (m->options->folds && !m->options->parts)
        tn__jit_begin_folds(m);
    make_loop(m, unroll);
    if (m->options->parts)
        make_next_part(m, top);
    if (m->options->folds)
        tn__jit_end_folds(m);
    if (!m->options->parts)
        make_next(m, top);
    patch(x, frame - 4, -m->stack);
    tn__x86_add(x, RSP, m->stack);
    if (m->options->prefetch)
        tn__x86_pop(x, PREFETCH_AT);
    for (uint32_t i = m->pointers; i-- > FREE_POINTERS;)
        tn__x86_pop(x, tn__jit_pointer_register[i]);
    tn__x86_byte(x, 0xc5); /* vzeroupper */
    tn__x86_byte(x, 0xf8);
    tn__x86_byte(x, 0x77);
    tn__x86_byte(x, 0xc3);
    tn__jit_make_rare(m);
    while (x->count % 64 != 0 && !x->failed)
        tn__x86_byte(x, 0xcc);
    patch(x, pool - 4, (int32_t)(x->count - pool));
    for (uint32_t i = 0; i < m->pool_count; i++) {
        tn__x86_word(x, (uint32_t)m->pool[i]);
        if (m->wide)
            tn__x86_word(x, (uint32_t)(m->pool[i] >> 32));
    }
    return true;
}

/* Copies the code to its own pages, which are first writable and then
 * executable, never both. Returns false if out of memory. */
static bool place(const x86 *x, cpu_native_variant *variant)
{
    variant->bytes = x->count;
    variant->pages = mmap(NULL, x->count, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (variant->pages == MAP_FAILED)
        return false;
    memcpy(variant->pages, x->at, x->count);
    if (mprotect(variant->pages, x->count, PROT_READ | PROT_EXEC) != 0) {
        munmap(variant->pages, x->count);
        return false;
    }
    memcpy(&variant->run, &variant->pages, sizeof variant->run);
    return true;
}

/* Generates the code with as many pinned registers (held during the whole loop)
 * as possible: halves their number until the other values need no stack.
 * Returns false if that needs fewer than `least` pinned registers. */
static bool make_code(emitter *m, uint32_t unroll, uint32_t least)
{
    enum { PINS = 18 };
    uint32_t folds = m->options->folds ? m->native->fold_count : 0;
    tn__jit_find_last(m);
    m->hoists = true;
    m->pins = folds * m->options->copies < PINS
                  ? PINS - folds * m->options->copies
                  : 0;
    for (;; m->pins /= 2) {
        tn__jit_find_fixed(m);
        bool made = make_all(m, unroll);
        if (m->x.failed || (made && (!m->spilled || m->pins == 0)))
            return true;
        if (!made)
            m->hoists = false;
        if (m->pins / 2 < least)
            return false;
    }
}

bool tn__cpu_native_make(const cpu_native *native, cpu_native_variant *variant)
{
    enum { SMALL = 24, PAIRED = 160, PAIR_PINS = 4 };
    const cpu_native_options *options = &variant->options;
    uint32_t turns = options->copies == 1 && !options->folds &&
                             native->node_count > SMALL &&
                             native->node_count <= PAIRED &&
                             2 * native->result_count <= TN_CPU_NATIVE_RESULTS
                         ? 2
                         : 1;
    size_t nodes = turns * native->node_count + 1u;
    cpu_native both = *native;
    emitter m = {.options = options,
                 .wide = native->wide,
                 .results = native->result_count,
                 .pool_room = 64};
    m.last = malloc(nodes * sizeof *m.last);
    m.reg = malloc(nodes);
    m.spill = malloc(nodes * sizeof *m.spill);
    m.pin = malloc(nodes * options->copies);
    m.pool = malloc(m.pool_room * sizeof *m.pool);
    m.fixed = malloc(nodes * sizeof *m.fixed);
    m.turn = calloc(nodes, sizeof *m.turn);
    both.node = malloc(nodes * sizeof *both.node);
    bool made = m.last && m.reg && m.spill && m.pin && m.pool && m.fixed &&
                m.turn && both.node;
    if (made) {
        bool paired = false;
        if (turns > 1) {
            m.native = &both;
            m.turns = turns;
            tn__jit_pair(&m, &both, native, m.last);
            paired = make_code(&m, turns, PAIR_PINS);
        }
        if (!paired) {
            m.native = native;
            m.turns = 1;
            memset(m.turn, 0, nodes * sizeof *m.turn);
            bool unrolls = options->copies == 1 && native->node_count <= SMALL;
            make_code(&m, unrolls ? 2 : 1, 0);
        }
        made = !m.x.failed && place(&m.x, variant);
    }
    free(both.node);
    free(m.turn);
    free(m.fixed);
    free(m.last);
    free(m.reg);
    free(m.spill);
    free(m.pin);
    free(m.pool);
    free(m.rare);
    free(m.x.at);
    return made;
}
