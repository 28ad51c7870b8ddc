/* walk.c: the priority queue of a backward pass, ordered by the sequence number
 * of the nodes.
 *
 * A call has a greater sequence number than all calls whose outputs it used. So
 * when the queued node with the largest number is taken out, all calls that
 * contribute to its output gradients have already run. No pass that counts
 * dependencies is needed. The queue holds only nodes that have received a
 * gradient: one node at a time for a chain of a million calls. */
#include <string.h>

#include <autograd/walk.h>

/* Entries for calls with one output come from a pool, because nearly all calls
 * have one output. */
static tn__pool slot_pool = {"slot", sizeof(tn__slot) + sizeof(tn_tensor *),
                             0};

static size_t hash(const tn__node *node)
{
    return (size_t)((uint64_t)(uintptr_t)node * 0x9e3779b97f4a7c15u >> 32);
}

static size_t bucket_of(const tn__walk *walk, const tn__node *node)
{
    return hash(node) & (walk->bucket_count - 1);
}

static bool grow_buckets(tn__walk *walk)
{
    size_t count = walk->bucket_count ? 2 * walk->bucket_count : 64;
    tn__slot **bucket = tn__calloc(count, sizeof *bucket);
    if (!bucket)
        return false;
    tn__free(walk->bucket);
    walk->bucket = bucket;
    walk->bucket_count = count;
    for (size_t i = 0; i < walk->count; i++) {
        tn__slot *slot = walk->heap[i];
        size_t at = bucket_of(walk, slot->node);
        slot->next = bucket[at];
        bucket[at] = slot;
    }
    return true;
}

static void sift_up(tn__walk *walk, size_t i)
{
    tn__slot *slot = walk->heap[i];
    for (; i > 0; i = (i - 1) / 2) {
        tn__slot *parent = walk->heap[(i - 1) / 2];
        if (parent->priority >= slot->priority)
            break;
        walk->heap[i] = parent;
    }
    walk->heap[i] = slot;
}

static void sift_down(tn__walk *walk, size_t i)
{
    tn__slot *slot = walk->heap[i];
    for (size_t child; (child = 2 * i + 1) < walk->count; i = child) {
        if (child + 1 < walk->count &&
            walk->heap[child + 1]->priority > walk->heap[child]->priority)
            child++;
        if (slot->priority >= walk->heap[child]->priority)
            break;
        walk->heap[i] = walk->heap[child];
    }
    walk->heap[i] = slot;
}

static tn__slot *slot_new(tn__node *node, uint64_t priority)
{
    int out_count = node->op ? node->out_count : 1;
    tn__slot *slot =
        out_count <= 1
            ? tn__pool_take(&slot_pool)
            : tn__alloc(sizeof *slot + (size_t)out_count * sizeof slot->g[0]);
    if (!slot)
        return NULL;
    slot->node = tn__ref(node);
    slot->priority = priority;
    slot->out_count = out_count;
    for (int o = 0; o < out_count; o++)
        slot->g[o] = NULL;
    return slot;
}

void tn__slot_free(tn__slot *slot)
{
    for (int o = 0; o < slot->out_count; o++)
        tn__unref(slot->g[o]);
    tn__unref(slot->node);
    if (slot->out_count <= 1)
        tn__pool_give(&slot_pool, slot);
    else
        tn__free(slot);
}

tn__slot *tn__walk_find(const tn__walk *walk, const tn__node *node)
{
    if (!walk->count)
        return NULL;
    tn__slot *slot = walk->bucket[bucket_of(walk, node)];
    while (slot && slot->node != node)
        slot = slot->next;
    return slot;
}

static tn__slot *find_or_queue(tn__walk *walk, tn__node *node,
                               uint64_t priority)
{
    tn__slot *slot = tn__walk_find(walk, node);
    if (slot)
        return slot;
    if (walk->count >= walk->bucket_count && !grow_buckets(walk))
        return NULL;
    if (!tn__grow(&walk->heap, &walk->room, walk->count, sizeof *walk->heap))
        return NULL;
    slot = slot_new(node, priority);
    if (!slot)
        return NULL;
    size_t at = bucket_of(walk, node);
    slot->next = walk->bucket[at];
    walk->bucket[at] = slot;
    walk->heap[walk->count++] = slot;
    sift_up(walk, walk->count - 1);
    return slot;
}

/* A call's priority is twice its sequence number, so that a leaf can be queued
 * between two calls. */
tn__slot *tn__walk_slot(tn__walk *walk, tn__node *node)
{
    return find_or_queue(walk, node, 2 * node->sequence);
}

tn__slot *tn__walk_slot_after(tn__walk *walk, tn__node *leaf,
                              const tn__node *last)
{
    return find_or_queue(walk, leaf, 2 * last->sequence - 1);
}

tn__slot *tn__walk_next(tn__walk *walk)
{
    if (!walk->count)
        return NULL;
    tn__slot *first = walk->heap[0];
    walk->heap[0] = walk->heap[--walk->count];
    if (walk->count)
        sift_down(walk, 0);
    tn__slot **link = &walk->bucket[bucket_of(walk, first->node)];
    while (*link != first)
        link = &(*link)->next;
    *link = first->next;
    return first;
}

void tn__walk_release(tn__walk *walk)
{
    for (size_t i = 0; i < walk->count; i++)
        tn__slot_free(walk->heap[i]);
    tn__free(walk->heap);
    tn__free(walk->bucket);
}

/* ---- sets of nodes ------------------------------------------------------ */

/* A set is a hash table with open addressing that is at most half full. */

static void insert(const tn__node **table, size_t room, const tn__node *node)
{
    size_t at = hash(node) & (room - 1);
    while (table[at])
        at = (at + 1) & (room - 1);
    table[at] = node;
}

bool tn__node_set_add(tn__node_set *set, const tn__node *node)
{
    if (2 * set->count >= set->room) {
        size_t room = set->room ? 2 * set->room : 64;
        const tn__node **table = tn__calloc(room, sizeof *table);
        if (!table)
            return false;
        for (size_t i = 0; i < set->room; i++)
            if (set->node[i])
                insert(table, room, set->node[i]);
        tn__free(set->node);
        set->node = table;
        set->room = room;
    }
    insert(set->node, set->room, node);
    set->count++;
    return true;
}

bool tn__node_set_has(const tn__node_set *set, const tn__node *node)
{
    if (!set->room)
        return false;
    size_t at = hash(node) & (set->room - 1);
    while (set->node[at] && set->node[at] != node)
        at = (at + 1) & (set->room - 1);
    return set->node[at] != NULL;
}

void tn__node_set_release(tn__node_set *set)
{
    tn__free(set->node);
}
