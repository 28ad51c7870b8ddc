/* native_uses.c: analyses the nodes of a body before its code is generated.
 * Finds the last reader of each node, and the nodes that have one value for a
 * whole row. Also builds a body that computes two vectors at a time. */
#include <string.h>

#include "native_code.h"

static void note_use(emitter *m, uint32_t node, uint32_t by)
{
    if (node != TN_NONE && (m->last[node] == TN_NONE || m->last[node] < by))
        m->last[node] = by;
}

bool tn__jit_is_made(const emitter *m, uint32_t result)
{
    return !(m->options->folds && m->native->folded[result]);
}

void tn__jit_find_last(emitter *m)
{
    const cpu_native *n = m->native;
    memset(m->last, 0xff, n->node_count * sizeof *m->last);
    for (uint32_t i = 0; i < n->result_count; i++)
        if (tn__jit_is_made(m, i))
            note_use(m, n->result[i], n->node_count);
    for (uint32_t i = 0; m->options->folds && i < n->fold_count; i++)
        note_use(m, n->fold[i], n->node_count);
    for (uint32_t i = n->node_count; i-- > 0;) {
        const cpu_node *node = tn__jit_node_of(m, i);
        if (m->last[i] == TN_NONE || node->op == TN_K_LOAD ||
            node->op == TN_K_CONST)
            continue;
        note_use(m, node->a, i);
        note_use(m, node->b, i);
        note_use(m, node->c, i);
    }
}

void tn__jit_find_fixed(emitter *m)
{
    for (uint32_t i = 0; i < m->native->node_count; i++) {
        const cpu_node *n = tn__jit_node_of(m, i);
        const uint32_t read[3] = {n->a, n->b, n->c};
        m->fixed[i] =
            n->type != CPU_BOOL &&
            (tn__jit_is_single(m, i) || (n->op != TN_K_LOAD && m->hoists));
        for (int j = 0; j < 3; j++)
            if (read[j] != TN_NONE)
                m->fixed[i] = m->fixed[i] && m->fixed[read[j]];
    }
}

bool tn__jit_is_ahead(const emitter *m, uint32_t node)
{
    return m->fixed[node] && !tn__jit_is_single(m, node) &&
           m->last[node] != TN_NONE;
}

bool tn__jit_is_wanted(const emitter *m, uint32_t node)
{
    bool wanted = m->last[node] == m->native->node_count;
    for (uint32_t i = node + 1; i < m->native->node_count; i++)
        wanted = wanted || (m->last[i] != TN_NONE && !m->fixed[i] &&
                            tn__jit_reads(tn__jit_node_of(m, i), node));
    return wanted;
}

void tn__jit_pair(emitter *m, cpu_native *both, const cpu_native *one,
                  uint32_t *map)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < one->node_count; i++) {
        cpu_node n = one->node[i];
        const uint32_t read[3] = {n.a, n.b, n.c};
        bool varies =
            n.op == TN_K_LOAD && !(m->options->single >> n.number & 1);
        for (int j = 0; j < 3; j++)
            varies = varies || (read[j] != TN_NONE &&
                                map[2 * read[j]] != map[2 * read[j] + 1]);
        for (uint32_t turn = 0; turn < 2; turn++) {
            map[2 * i + turn] = count;
            if (turn < 1 && !varies)
                continue;
            uint32_t *const to[3] = {&n.a, &n.b, &n.c};
            for (int j = 0; j < 3; j++)
                if (read[j] != TN_NONE)
                    *to[j] = map[2 * read[j] + turn];
            m->turn[count] = varies ? (uint8_t)turn : 0;
            both->node[count++] = n;
        }
    }
    both->node_count = count;
    for (uint32_t r = 0; r < one->result_count; r++)
        for (uint32_t turn = 0; turn < 2; turn++)
            both->result[turn * one->result_count + r] =
                map[2 * one->result[r] + turn];
    both->result_count = 2 * one->result_count;
}
