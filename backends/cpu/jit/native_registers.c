/* native_registers.c: register allocation. A node's value is in memory, in a
 * register or on the stack. The functions of this file move values between
 * these places. */
#include "native_code.h"

/* ---- registers ----------------------------------------------------------- */

const cpu_node *tn__jit_node_of(const emitter *m, uint32_t node)
{
    return &m->native->node[node];
}

bool tn__jit_is_mask(const emitter *m, uint32_t node)
{
    return tn__jit_node_of(m, node)->type == CPU_BOOL && !m->target->vex;
}

bool tn__jit_is_single(const emitter *m, uint32_t node)
{
    const cpu_node *n = tn__jit_node_of(m, node);
    return n->op == TN_K_CONST ||
           (n->op == TN_K_LOAD && (m->options->single >> n->number & 1));
}

bool tn__jit_reads(const cpu_node *n, uint32_t node)
{
    return n->op != TN_K_LOAD && n->op != TN_K_CONST &&
           (n->a == node || n->b == node || n->c == node);
}

static uint32_t next_use(const emitter *m, uint32_t node)
{
    uint32_t i = m->at + 1;
    while (i < m->native->node_count && i < m->last[node] &&
           !tn__jit_reads(tn__jit_node_of(m, i), node))
        i++;
    return i;
}

static x86_memory stack_at(int32_t offset)
{
    return (x86_memory){RSP, X86_NO_INDEX, 1, offset};
}

static void evict(emitter *m, uint32_t place)
{
    uint32_t node = m->holder[place];
    const cpu_node *n = tn__jit_node_of(m, node);
    bool again = n->op == TN_K_CONST || n->op == TN_K_LOAD;
    if (!again && m->spill[node] == NO_SPILL) {
        m->spill[node] = m->stack;
        m->stack += m->target->bytes;
        x86_memory to = stack_at(m->spill[node]);
        x86_source memory = {.is_memory = true, .memory = to};
        if (tn__jit_is_mask(m, node))
            tn__x86_mask_store(&m->x, m->reg[node], &to);
        else
            tn__jit_emit(m, (x86_op){1, 0, 0x11, false}, m->reg[node], 0,
                         memory, X86_NO_IMM);
        m->spilled = true;
    }
    m->reg[node] = NO_REGISTER;
    m->holder[place] = TN_NONE;
}

unsigned tn__jit_take(emitter *m, uint32_t node, const uint32_t keep[3])
{
    bool mask = tn__jit_is_mask(m, node);
    uint32_t first = mask ? VECTORS + 1 : FIRST_VALUE;
    uint32_t end = mask ? VECTORS + 1 + MASKS : m->target->registers;
    uint32_t best = TN_NONE, furthest = 0;
    for (uint32_t p = first; p < end; p++) {
        uint32_t held = m->holder[p];
        if (!mask && m->pinned[p])
            continue;
        if (held == TN_NONE) {
            best = p;
            break;
        }
        if (held == keep[0] || held == keep[1] || held == keep[2])
            continue;
        uint32_t use = next_use(m, held);
        if (best == TN_NONE || use > furthest) {
            best = p;
            furthest = use;
        }
    }
    if (m->holder[best] != TN_NONE)
        evict(m, best);
    m->holder[best] = node;
    m->reg[node] = (uint8_t)(mask ? best - VECTORS : best);
    return m->reg[node];
}

x86_source tn__jit_single_of(emitter *m, uint32_t node)
{
    const cpu_node *n = tn__jit_node_of(m, node);
    if (n->op == TN_K_CONST)
        return tn__jit_constant(m, n->bits);
    return (x86_source){
        .is_memory = true,
        .is_broadcast = true,
        .memory = {(uint8_t)tn__jit_pointer(m, m->copy, n->number),
                   X86_NO_INDEX, 1, 0}};
}

void tn__jit_load_single(emitter *m, unsigned to, uint32_t node)
{
    const cpu_node *n = tn__jit_node_of(m, node);
    if (n->op == TN_K_LOAD && tn__jit_is_stored(m, n->number))
        tn__jit_load_stored(m, to, n);
    else
        tn__jit_broadcast(m, to, tn__jit_single_of(m, node));
}

unsigned tn__jit_need(emitter *m, uint32_t node, const uint32_t keep[3])
{
    if (m->reg[node] != NO_REGISTER)
        return m->reg[node];
    const cpu_node *n = tn__jit_node_of(m, node);
    unsigned to = tn__jit_take(m, node, keep);
    x86_memory memory = stack_at(m->spill[node]);
    x86_source source = {.is_memory = true, .memory = memory};
    if (n->op == TN_K_CONST && n->type == CPU_BOOL) {
        tn__jit_logic(m, n->bits ? KXNOR : KXOR, to, to, to);
    } else if (n->op == TN_K_LOAD && n->type == CPU_BOOL) {
        tn__jit_load_bool(m, to, n);
    } else if (tn__jit_is_single(m, node)) {
        tn__jit_load_single(m, to, node);
    } else if (n->op == TN_K_LOAD && tn__jit_is_stored(m, n->number)) {
        tn__jit_load_stored(m, to, n);
    } else if (n->op == TN_K_LOAD) {
        tn__jit_load(m, to, tn__jit_block(m, n->number, n->type));
    } else if (tn__jit_is_mask(m, node)) {
        tn__x86_mask_load(&m->x, to, &memory);
    } else {
        tn__jit_emit(m, (x86_op){1, 0, 0x10, false}, to, 0, source, X86_NO_IMM);
    }
    return to;
}

x86_source tn__jit_source_of(emitter *m, uint32_t node, const uint32_t keep[3])
{
    const cpu_node *n = tn__jit_node_of(m, node);
    if (m->reg[node] == NO_REGISTER && tn__jit_is_single(m, node) &&
        n->type != CPU_BOOL &&
        !(n->op == TN_K_LOAD &&
          (m->target->vex || tn__jit_is_stored(m, n->number))))
        return tn__jit_single_of(m, node);
    return tn__jit_in(tn__jit_need(m, node, keep));
}

void tn__jit_release(emitter *m, uint32_t node)
{
    if (node == TN_NONE || m->last[node] > m->at || m->reg[node] == NO_REGISTER)
        return;
    uint32_t place = m->reg[node] + (tn__jit_is_mask(m, node) ? VECTORS : 0u);
    if (place < VECTORS && m->pinned[place])
        return;
    m->holder[place] = TN_NONE;
    m->reg[node] = NO_REGISTER;
}
