/* walk.h: the priority queue of a backward pass. It holds the nodes that have
 * received gradients for their outputs. The node of the latest call is taken
 * out first. */
#ifndef TN_LIB_AUTOGRAD_WALK_H
#define TN_LIB_AUTOGRAD_WALK_H

#include <autograd/node.h>

/* An entry of the queue: a node and the sums of the gradients that its outputs
 * have received so far. */
typedef struct tn__slot {
    struct tn__slot *next; /* next entry in the same hash bucket */
    tn__node *node;        /* owned reference */
    uint64_t priority;     /* the entry with the highest
                            * priority is taken first */
    int out_count;         /* number of elements of g */
    tn_tensor *g[];        /* owned references: the gradient of each output;
                            * NULL if it has received none */
} tn__slot;

typedef struct tn__walk {
    tn__slot **heap;       /* all entries, as a max-heap by priority */
    size_t count, room;    /* number of entries, and space in the array */
    tn__slot **bucket;     /* hash table that finds the entry of a node */
    size_t bucket_count;   /* number of hash buckets, a power of two */
} tn__walk;

/* Returns the entry of node, and adds one if the queue has none. Later calls
 * have a higher priority; leaves come after all calls. Returns NULL if memory
 * runs out. */
tn__slot *tn__walk_slot(tn__walk *walk, tn__node *node);
/* Returns the entry of node, or NULL if the queue has none. */
tn__slot *tn__walk_find(const tn__walk *walk, const tn__node *node);
/* Returns the entry of a leaf. If the queue has none, adds one that comes
 * directly after the call `last`. Returns NULL if memory runs out. */
tn__slot *tn__walk_slot_after(tn__walk *walk, tn__node *leaf,
                              const tn__node *last);
/* Removes the entry with the highest priority and returns it, or NULL if the
 * queue is empty. The caller frees it with tn__slot_free. */
tn__slot *tn__walk_next(tn__walk *walk);
void tn__slot_free(tn__slot *slot);
/* Frees the queue and all entries in it. */
void tn__walk_release(tn__walk *walk);

/* Returns whether this thread is in a backward pass of tn_grad, which may
 * return the gradients of non-leaf tensors. */
bool tn__walk_captures(void);

/* A hash set of nodes. */
typedef struct tn__node_set {
    const tn__node **node; /* the hash table; free entries are NULL */
    size_t count, room;    /* entries in use, and entries of the table: 0 or a
                              power of two */
} tn__node_set;
bool tn__node_set_add(tn__node_set *set, const tn__node *node);
bool tn__node_set_has(const tn__node_set *set, const tn__node *node);
void tn__node_set_release(tn__node_set *set);

#endif
