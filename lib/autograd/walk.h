/* walk.h: the queue of a backward walk: nodes that have received cotangents,
 * taken out in descending order. */
#ifndef TN_LIB_AUTOGRAD_WALK_H
#define TN_LIB_AUTOGRAD_WALK_H

#include <autograd/node.h>

/* A queued node with its cotangents. */
typedef struct tn__slot {
    struct tn__slot *next; /* in its bucket */
    tn__node *node;        /* counted */
    uint64_t priority;     /* the highest comes first */
    int out_count;
    tn_tensor *g[];        /* counted; NULL: none received */
} tn__slot;

typedef struct tn__walk {
    tn__slot **heap;       /* a max-heap by priority */
    size_t count, room;
    tn__slot **bucket;     /* hash table by node */
    size_t bucket_count;   /* a power of two */
} tn__walk;

/* The slot of node, made and queued if it has none. A call's priority follows
 * its sequence; leaves come after all calls. NULL if memory runs out. */
tn__slot *tn__walk_slot(tn__walk *walk, tn__node *node);
/* The slot of node, or NULL. Cannot fail. */
tn__slot *tn__walk_find(const tn__walk *walk, const tn__node *node);
/* The slot of a leaf, queued directly after the call `last` if it has none. */
tn__slot *tn__walk_slot_after(tn__walk *walk, tn__node *leaf,
                              const tn__node *last);
/* Removes and returns the slot with the highest priority; NULL if the queue is
 * empty. The caller frees it. */
tn__slot *tn__walk_next(tn__walk *walk);
void tn__slot_free(tn__slot *slot);
/* Frees all slots that are still queued. */
void tn__walk_release(tn__walk *walk);

/* Is this thread's walk one of tn_grad, which returns cotangents of inner
 * nodes? */
bool tn__walk_captures(void);

/* A set of nodes, for the nodes that lead to an input of tn_grad. */
typedef struct tn__node_set {
    const tn__node **node;
    size_t count, room;    /* room: 0 or a power of two */
} tn__node_set;
bool tn__node_set_add(tn__node_set *set, const tn__node *node);
bool tn__node_set_has(const tn__node_set *set, const tn__node *node);
void tn__node_set_release(tn__node_set *set);

#endif
