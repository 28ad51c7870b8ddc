/* walk.h: the pending part of a backward walk: nodes that cotangents have
 * reached, taken out in falling order. */
#ifndef TN_LIB_AUTOGRAD_WALK_H
#define TN_LIB_AUTOGRAD_WALK_H

#include <autograd/node.h>

/* A node that waits for its turn, with its cotangents. */
typedef struct tn__slot {
    struct tn__slot *next; /* in its bucket */
    tn__node *node;        /* counted */
    uint64_t priority;     /* the greatest comes first */
    int out_count;
    tn_tensor *g[];        /* counted, NULL where none has come */
} tn__slot;

typedef struct tn__walk {
    tn__slot **heap; /* the greatest priority first */
    size_t count, room;
    tn__slot **bucket;     /* by node */
    size_t bucket_count;   /* a power of two */
} tn__walk;

/* The slot of node, made and queued if it has none: a call by its sequence, a
 * leaf behind all calls. NULL if memory runs out. */
tn__slot *tn__walk_slot(tn__walk *walk, tn__node *node);
/* The slot of node; NULL if it has none. Cannot fail. */
tn__slot *tn__walk_find(const tn__walk *walk, const tn__node *node);
/* The same, a leaf that has none queued right behind the call `last`. */
tn__slot *tn__walk_slot_after(tn__walk *walk, tn__node *leaf,
                              const tn__node *last);
/* Takes the slot of the greatest priority out; NULL when none is left. The caller
 * frees it. */
tn__slot *tn__walk_next(tn__walk *walk);
void tn__slot_free(tn__slot *slot);
/* Frees all that is still pending. */
void tn__walk_release(tn__walk *walk);

/* Does this thread walk for tn_grad, which hands out what reaches a node? */
bool tn__walk_captures(void);

/* A set of nodes, for the ways that lead to an input of tn_grad. */
typedef struct tn__node_set {
    const tn__node **node;
    size_t count, room;    /* room: 0 or a power of two */
} tn__node_set;
bool tn__node_set_add(tn__node_set *set, const tn__node *node);
bool tn__node_set_has(const tn__node_set *set, const tn__node *node);
void tn__node_set_release(tn__node_set *set);
/* The nodes that the thread's walk is to reach, while the gradient of a node
 * runs; NULL: all. */

#endif
