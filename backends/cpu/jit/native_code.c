/* native_code.c: generates the machine code of a body, a list of SSA nodes
 * (native_body.h), for one set of options.
 *
 * The code is a loop over steps of 64 bytes. It may process several rows or
 * chunks at the same time, which are called copies. A value stays in a register
 * from its definition to its last use, or is spilled to the stack if no
 * register is free. A value that is the same for a whole row has a register
 * during the whole loop, or instructions broadcast it from memory. Results are
 * stored after all operands are loaded, because results may overwrite operands.
 * The elements after the last whole step are processed under a mask. */
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

/* Returns whether the current vector is the first of a step. */
static bool begins_step(const emitter *m)
{
    return m->disp / tn__jit_lanes(m) % (int32_t)tn__jit_halves(m) == 0;
}

static void make_result(emitter *m, uint32_t result, const uint32_t keep[3])
{
    const cpu_native *n = m->native;
    uint32_t node = n->result[result];
    result %= m->results;
    unsigned from = tn__jit_need(m, node, keep);
    unsigned type = tn__jit_node_of(m, node)->type;
    x86_source to = tn__jit_block(m, n->operand_count + result, type);
    if (type == CPU_BOOL) {
        tn__jit_store_bool(m, from, to);
        return;
    }
    tn__jit_store(m, from, to, m->options->streamed >> result & 1);
    to.memory.disp += m->options->ahead;
    if ((m->options->prefetch_operands >> (n->operand_count + result) & 1) &&
        begins_step(m) && !m->tail)
        tn__x86_prefetch(&m->x, X86_TO_WRITE, &to.memory);
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
        m->reg[i] = ahead && tn__jit_is_ahead(m, i) ? NO_REGISTER
                                                    : *pin_of(m, m->copy, i);
    for (m->at = 0; m->at < n->node_count; m->at++) {
        const cpu_node *node = tn__jit_node_of(m, m->at);
        uint8_t pin = *pin_of(m, m->copy, m->at);
        if (m->last[m->at] == TN_NONE || node->op == TN_K_LOAD ||
            node->op == TN_K_CONST || tn__jit_is_ahead(m, m->at) != ahead ||
            m->turn[m->at] >= turns)
            continue;
        m->disp = disp + m->turn[m->at] * tn__jit_lanes(m);
        tn__jit_make_node(m);
        if (ahead && pin != NO_REGISTER)
            tn__jit_move(m, pin, m->reg[m->at]);
    }
    m->disp = disp;
}

enum { LINE = 64 };

/* Generates the prefetch for the step that begins at element INDEX + disp: 64
 * bytes of the memory at cpu_native_call.prefetch. */
static void emit_prefetch(emitter *m, int32_t disp)
{
    int32_t copies = m->options->copies;
    int32_t step = disp / tn__jit_lanes(m) / (int32_t)tn__jit_halves(m);
    x86_memory prefetch = {PREFETCH_AT, X86_NO_INDEX, 1,
                           (step * copies + (int32_t)m->copy) * LINE};
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
        m->disp = disp + m->turn[i] * tn__jit_lanes(m);
        if (!begins_step(m))
            continue;
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
        m->stack = m->target->buffer;
        for (uint32_t i = 0; m->options->prefetch && !tail && i < turns; i++) {
            m->disp = disp + (int32_t)i * tn__jit_lanes(m);
            if (begins_step(m))
                emit_prefetch(m, m->disp);
        }
        m->disp = disp;
        if (m->options->prefetch_operands && !tail)
            emit_operand_prefetches(m, turns);
        make_nodes(m, false, turns);
        for (uint32_t i = 0; m->options->folds && i < n->fold_count; i++)
            tn__jit_make_fold(m, i, none);
        for (uint32_t i = 0; i < turns * m->results; i++) {
            m->disp = disp + (int32_t)(i / m->results) * tn__jit_lanes(m);
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
    uint32_t left = m->pins, next = m->target->registers;
    bool enough = true;
    if (m->options->folds)
        next -= n->fold_count * m->options->copies * tn__jit_halves(m);
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
        m->stack = m->target->buffer;
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
    enum {
        JA = 0x87,
        JBE = 0x86,
        JE = 0x84,
        JLE = 0x8e,
        SUB = 0x29,
        TEST = 0x85,
        XOR = 0x31
    };
    x86 *x = &m->x;
    int32_t lanes = tn__jit_lanes(m);
    const uint32_t halves = tn__jit_halves(m);
    x86_memory count = {ARGUMENTS, X86_NO_INDEX, 1,
                        offsetof(cpu_native_call, n)};
    tn__x86_memory(x, LOAD, COUNT, &count);
    tn__x86_alu(x, XOR, INDEX, INDEX);
    for (uint32_t u = unroll * halves;; u = halves) {
        make_compare(m, lanes * (int32_t)u);
        size_t over = tn__x86_jump(x, JA), top = x->count;
        uint32_t turns = u % m->turns == 0 ? m->turns : 1;
        for (uint32_t i = 0; i < u; i += turns)
            make_body(m, false, turns, (int32_t)i * lanes);
        if (m->options->prefetch)
            tn__x86_add(x, PREFETCH_AT,
                        (int32_t)(u / halves * m->options->copies * LINE));
        tn__x86_add(x, INDEX, lanes * (int32_t)u);
        make_compare(m, lanes * (int32_t)u);
        tn__x86_jump_back(x, JBE, top);
        tn__x86_jump_here(x, over);
        if (u == halves)
            break;
    }
    tn__x86_alu(x, SUB, COUNT, INDEX); /* COUNT = remaining elements */
    size_t done = tn__x86_jump(x, JE);
    size_t half = 0;
    tn__jit_begin_tail(m);
    for (uint32_t i = 0; i < halves; i++) {
        if (i > 0) { /* Do any elements belong to the second vector? */
            x86_memory first = {COUNT, X86_NO_INDEX, 1, -lanes};
            tn__x86_memory(x, LEA, SCRATCH_POINTER, &first);
            tn__x86_alu(x, TEST, SCRATCH_POINTER, SCRATCH_POINTER);
            half = tn__x86_jump(x, JLE);
        }
        make_body(m, true, 1, (int32_t)i * lanes);
    }
    if (half > 0)
        tn__x86_jump_here(x, half);
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
    m->pool_count = 0;
    memset(m->pinned, 0, sizeof m->pinned);
    m->spilled = false;
    m->stack = m->target->buffer;
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
    tn__jit_pool_begin(m);
    uint32_t size = m->wide ? 8 : 4, entry = m->target->entry;
    for (uint32_t i = 0; i < m->pool_count; i++)
        for (uint32_t k = 0; k == 0 || k < entry; k += size) {
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
    uint32_t most = m->target->pins;
    uint32_t folds =
        m->options->folds
            ? m->native->fold_count * m->options->copies * tn__jit_halves(m)
            : 0;
    tn__jit_find_last(m);
    m->hoists = true;
    m->pins = folds < most ? most - folds : 0;
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
    uint32_t turns = native->set == CPU_NATIVE_AVX512 && options->copies == 1 &&
                             !options->folds && native->node_count > SMALL &&
                             native->node_count <= PAIRED &&
                             2 * native->result_count <= TN_CPU_NATIVE_RESULTS
                         ? 2
                         : 1;
    size_t nodes = turns * native->node_count + 1u;
    cpu_native both = *native;
    emitter m = {.options = options,
                 .target = tn__jit_target_of(native->set),
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
    m.x.vex = m.target->vex;
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
