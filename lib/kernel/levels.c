/* levels.c: finds whether each output of a definition has one value per
 * element, one per row, or one in all (its level). This follows from the marks
 * ": row" and the reductions in the source. A gradient written by hand needs
 * the levels before anything is typed. */
#include <string.h>

#include <kernel/def.h>

static uint8_t highest(const uint8_t *level, int count)
{
    uint8_t most = TN_LEVEL_UNIFORM;
    for (int i = 0; i < count; i++)
        most = level[i] > most ? level[i] : most;
    return most;
}

static void find_levels(const tn__def *def, const tn__node *node, uint8_t *slot,
                        uint8_t *out);

static uint8_t find_level(const tn__def *def, const tn__node *node,
                          uint8_t *slot)
{
    uint8_t level[TN__KERNEL_MAX_OUTPUTS];
    find_levels(def, node, slot, level);
    return highest(level, tn__node_values(node));
}

static void find_block_levels(const tn__def *def, const tn__node *node,
                              uint8_t *slot, uint8_t *out)
{
    const tn__node *value = node->kid[node->count - 1];
    uint8_t condition = TN_LEVEL_UNIFORM;
    for (uint32_t i = 0; i + 1 < node->count; i++) {
        const tn__node *kid = node->kid[i];
        if (kid->kind == TN__NODE_WHILE)
            condition = find_level(def, kid->kid[0], slot);
        else
            find_levels(def, kid->kid[0], slot, &slot[kid->slot]);
    }
    find_levels(def, value, slot, out);
    for (int i = 0; i < tn__node_values(value); i++)
        out[i] = condition > out[i] ? condition : out[i];
}

/* Finds the level of a loop's variables: per element, per row or once. All have
 * the same level. The body is visited twice, because a variable's new value may
 * raise the level of the next iteration. */
static void find_loop_levels(const tn__def *def, const tn__node *node,
                             uint8_t *slot, uint8_t *out)
{
    int count = (int)node->integer;
    uint8_t level = TN_LEVEL_UNIFORM;
    slot[node->slot] = TN_LEVEL_UNIFORM;
    for (int i = 0; i < count; i++) {
        uint8_t first = find_level(def, node->kid[1 + i]->kid[0], slot);
        level = first > level ? first : level;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < count; i++)
            slot[node->kid[1 + i]->slot] = level;
        uint8_t body = find_level(def, node->kid[1 + count], slot);
        level = body > level ? body : level;
    }
    memset(out, level, (size_t)count);
}

static void find_levels(const tn__def *def, const tn__node *node, uint8_t *slot,
                        uint8_t *out)
{
    int ignored;
    if (node->kind == TN__NODE_BLOCK) {
        find_block_levels(def, node, slot, out);
        return;
    }
    if (node->kind == TN__NODE_LOOP) {
        find_loop_levels(def, node, slot, out);
        return;
    }
    uint8_t level = TN_LEVEL_UNIFORM;
    for (uint32_t i = 0; i < node->count; i++) {
        uint8_t of_kid = find_level(def, node->kid[i], slot);
        if (node->kind == TN__NODE_LIST)
            out[i] = of_kid;
        level = of_kid > level ? of_kid : level;
    }
    if (node->kind == TN__NODE_LIST)
        return;
    if (node->kind == TN__NODE_NAME || node->kind == TN__NODE_LOAD)
        level = slot[node->slot] > level ? slot[node->slot] : level;
    if (node->kind == TN__NODE_CALL) {
        enum tn__builtin builtin = tn__builtin_find(node->name, &ignored);
        if (builtin >= TN__BUILTIN_rsum && builtin < TN__BUILTIN_END)
            level = TN_LEVEL_ROW;
    }
    *out = level;
}

void tn__def_levels(const tn__def *def, uint8_t *level)
{
    uint8_t slot[TN__MAX_SLOTS + TN__KERNEL_MAX_OUTPUTS] = {0};
    for (int i = 0; i < def->input_count; i++)
        slot[i] = def->input[i].row ? TN_LEVEL_ROW : TN_LEVEL_ELEM;
    find_levels(def, def->body, slot, level);
}
