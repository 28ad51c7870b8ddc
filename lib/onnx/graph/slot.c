/* slot.c: gives the values of a graph their slots. A value of an enclosing
 * graph gets a slot of its own in the subgraph that uses it. */
#include <onnx/graph/scope.h>

#include <stdlib.h>
#include <string.h>

/* ---- problems ------------------------------------------------------------ */

void *tn__onnx_no_memory(void)
{
    tn_error_set(TN_ERR_MEMORY, "onnx_open: out of memory");
    return NULL;
}

bool tn__onnx_node_malformed(tn__onnx_builder *b, const tn__onnx_node *node,
                             const char *what)
{
    tn_error_refuse_argument(TN_ERR_FORMAT, b->reader.call, "path",
                             "%s: node \"%.80s\" (%.60s): %s", b->reader.path,
                             node->name, node->op, what);
    return false;
}

bool tn__onnx_value_malformed(tn__onnx_builder *b, const char *name,
                              const char *what)
{
    tn_error_refuse_argument(TN_ERR_FORMAT, b->reader.call, "path",
                             "%s: value \"%.120s\": %s", b->reader.path, name,
                             what);
    return false;
}

/* ---- slots --------------------------------------------------------------- */

int tn__onnx_slot_new(tn__onnx_builder *b, tn__onnx_scope *s, const char *name)
{
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_slots *all = s->slots;
    if (g->slot_count >= TN__ONNX_MAX_NODES) {
        tn__onnx_malformed(&b->reader,
                           "the graph has more than a million values");
        return -1;
    }
    if (g->slot_count == all->room) {
        const int room = all->room ? all->room * 2 : 64;
        const char **text =
            tn__onnx_alloc(b->reader.arena, (size_t)room, sizeof *text);
        unsigned char *use = realloc(all->use, (size_t)room);
        all->use = use ? use : all->use;
        int *from = realloc(all->from, (size_t)room * sizeof *from);
        all->from = from ? from : all->from;
        if (!text || !use || !from) {
            tn__onnx_no_memory();
            return -1;
        }
        if (g->slot_count) /* memcpy does not allow NULL, which the lists are at
                              first */
            memcpy(text, g->slot_name, (size_t)g->slot_count * sizeof *text);
        memset(use + all->room, 0, (size_t)(room - all->room));
        g->slot_name = text;
        all->use = use;
        all->room = room;
    }
    if (tn__onnx_names_find(&s->names, name) >= 0) {
        tn__onnx_value_malformed(b, name,
                                 "two nodes or tensors have this name");
        return -1;
    }
    if (!tn__onnx_names_add(&s->names, name, g->slot_count))
        return -1;
    g->slot_name[g->slot_count] = name;
    all->from[g->slot_count] = -1;
    return g->slot_count++;
}

/* Finds a value in the enclosing graphs, and makes a slot for it in this
 * graph. */
static int capture(tn__onnx_builder *b, tn__onnx_scope *s, const char *name)
{
    tn__onnx_scope *parent = (tn__onnx_scope *)s->names.parent;
    if (!parent)
        return -1;
    const int from = tn__onnx_slot_find(b, parent, name);
    if (from < 0)
        return from;
    tn__onnx_graph *g = s->names.graph;
    tn__onnx_slots *all = s->slots;
    if (g->capture_count == all->capture_room) {
        const int room = all->capture_room ? all->capture_room * 2 : 16;
        int *to = tn__onnx_alloc(b->reader.arena, (size_t)room, sizeof *to);
        int *source = tn__onnx_alloc(b->reader.arena, (size_t)room,
                                     sizeof *source);
        if (!to || !source)
            return -1;
        if (g->capture_count) {
            memcpy(to, g->capture, (size_t)g->capture_count * sizeof *to);
            memcpy(source, g->capture_from,
                   (size_t)g->capture_count * sizeof *source);
        }
        g->capture = to;
        g->capture_from = source;
        all->capture_room = room;
    }
    const int slot = tn__onnx_slot_new(b, s, name);
    if (slot < 0)
        return -1;
    g->capture[g->capture_count] = slot;
    g->capture_from[g->capture_count++] = from;
    all->from[slot] = from;
    return slot;
}

int tn__onnx_slot_find(tn__onnx_builder *b, tn__onnx_scope *s,
                       const char *name)
{
    const int slot = tn__onnx_names_find(&s->names, name);
    return slot != -1 ? slot : capture(b, s, name);
}

void tn__onnx_slot_note(tn__onnx_slots *slots, int slot, unsigned char use)
{
    slots->use[slot] |= use;
    if (slots->from[slot] >= 0)
        tn__onnx_slot_note(slots->parent, slots->from[slot], use);
}
