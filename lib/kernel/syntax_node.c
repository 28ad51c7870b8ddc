/* syntax_node.c: makes the nodes of syntax trees. */
#include <string.h>

#include <kernel/parse.h>

tn__node *tn__node_new(tn__parser *parser, enum tn__node_kind kind,
                       const tn__token *at, tn__node *const *kid,
                       uint32_t count)
{
    tn__node *node = tn__arena_take(parser->arena, sizeof *node);
    if (!node)
        return NULL;
    node->kind = (uint8_t)kind;
    node->line = at->line;
    node->column = at->column;
    node->count = count;
    if (count) {
        node->kid = tn__arena_take(parser->arena, count * sizeof *node->kid);
        if (!node->kid)
            return NULL;
        memcpy(node->kid, kid, count * sizeof *node->kid);
    }
    for (uint32_t i = 0; i < count; i++)
        if (kid[i]->depth >= node->depth)
            node->depth = (uint16_t)(kid[i]->depth + 1);
    if (node->depth > TN__MAX_DEPTH) {
        tn__parser_fail(parser, at,
                        "an expression deeper than %d levels: name parts of it "
                        "by let",
                        TN__MAX_DEPTH);
        return NULL;
    }
    return node;
}

int tn__node_values(const tn__node *node)
{
    switch (node->kind) {
    case TN__NODE_LIST:
        return (int)node->count;
    case TN__NODE_LOOP:
        return (int)node->integer;
    case TN__NODE_BLOCK:
        return tn__node_values(node->kid[node->count - 1]);
    default:
        return 1;
    }
}

tn__node *tn__node_single(tn__parser *parser, tn__node *node)
{
    if (node && tn__node_values(node) != 1) {
        tn__parser_fail(
            parser, node,
            "a loop of %d values needs names: let (a, b) = loop(...)",
            tn__node_values(node));
        return NULL;
    }
    return node;
}

bool tn__node_add(tn__parser *parser, tn__nodes *list, tn__node *node)
{
    if (!node)
        return false;
    if (list->count == list->room) {
        uint32_t room = list->room ? 2 * list->room : 4;
        tn__node **grown = tn__arena_take(parser->arena, room * sizeof *grown);
        if (!grown)
            return false;
        if (list->count)
            memcpy(grown, list->node, list->count * sizeof *grown);
        list->node = grown;
        list->room = room;
    }
    list->node[list->count++] = node;
    return true;
}
