/* parallel.h: what the files of this room share. */
#ifndef TN_LIB_PARALLEL_PARALLEL_H
#define TN_LIB_PARALLEL_PARALLEL_H

#include <tenon/parallel.h>
#include <tenon/autograd.h>
#include <tenon/random.h>

/* The numbers of the shards of this rank, and what the tree over all needs. */
typedef struct tn__shards {
    int64_t count;  /* of a batch */
    int64_t first;  /* of this rank */
    int64_t own;    /* of each rank */
    int32_t ranks;
    int64_t nodes;  /* the most that a rank has left when its own are added */
} tn__shards;

/* A vector of numbers that is added over the shards: the gradients of some
 * parameters, buffers, or losses. Shard g's leaf is node[g]; adding two
 * neighbours leaves the sum in the lower one. */
typedef struct tn__bucket {
    tn_group *group;     /* lent */
    const tn__shards *shards; /* lent */
    tn_device *device;
    tn_dtype dtype;
    int64_t numel;
    char label[64];
    bool staging;
    tn_dtype wire;       /* in which it is sent: dtype, or a half type */
    tn_tensor **node;    /* owned array of shards->count; kept, or NULL */
    tn_tensor **spare;   /* owned array; kept vectors that are not in use */
    int spares, room;
    tn_tensor *shared;   /* kept; the vector of this rank's first shard, if it is
                            in memory that the engine moves without copies */
    tn_tensor *gathered; /* kept; only if the ranks' nodes are not single */
    tn_tensor *rounded;  /* kept; only if wire differs: the node that was sent */
    tn_work *work;       /* kept; NULL: not sent */
    bool sent;
} tn__bucket;

void tn__shards_init(tn__shards *shards, int64_t count, const tn_group *group);

/* Initialises *bucket. Its memory is made when it is needed. */
tn_status tn__bucket_init(tn__bucket *bucket, tn_group *group,
                          const tn__shards *shards, tn_device *device,
                          tn_dtype dtype, int64_t numel, const char *label,
                          bool staging);
/* Called once, when numel is final: takes memory that the engine moves without
 * copies for the vector that it will add to those of other ranks. A collective. */
tn_status tn__bucket_share(tn__bucket *bucket);
void tn__bucket_fini(tn__bucket *bucket);
/* Returns the vector of a shard, with undefined elements if it is new. Lent. */
tn_tensor *tn__bucket_leaf(tn__bucket *bucket, int64_t shard);
/* The leaf is complete: adds what can be added now. */
tn_status tn__bucket_add(tn__bucket *bucket, int64_t shard);
/* All leaves of this rank are complete: begins the exchange. */
tn_status tn__bucket_send(tn__bucket *bucket);
/* Waits, and returns the sum over all shards. Lent until tn__bucket_clear. */
tn_tensor *tn__bucket_sum(tn__bucket *bucket);
/* Ends the step, also after a failure. */
void tn__bucket_clear(tn__bucket *bucket);

/* A parameter, or a buffer of a floating-point dtype, in a pack. */
typedef struct tn__ddp_entry {
    struct tn_ddp *ddp;
    tn_tensor *tensor;    /* kept */
    const char *name;     /* lent by ddp->state */
    tn_hook *hook;        /* kept; NULL for a buffer */
    int pack;
    int64_t offset, numel;
    bool fired;           /* the gradient of this shard is in the pack */
    bool used;            /* in a shard of this rank; of a buffer: changed */
    int arrived;          /* how many gradients came before, in the first step */
} tn__ddp_entry;

typedef struct tn__ddp_pack {
    tn__bucket bucket;
    int first, count;     /* its entries: order[first] ... */
    int missing;          /* those that have not fired in this shard */
} tn__ddp_pack;

/* A buffer of any dtype. */
typedef struct tn__ddp_saved {
    tn_tensor *tensor;    /* kept */
    tn_tensor *before;    /* kept: its values when the step began */
    tn_tensor *after;     /* kept; of an integer dtype: after the last shard that
                             counted. NULL before the first */
    bool has_after;       /* in this step */
} tn__ddp_saved;

struct tn_ddp {
    tn_object object;
    tn_group *group;      /* kept */
    tn_parameter_list *state; /* kept */
    tn__shards shards;
    bool staging;
    bool first_buffers;   /* .buffers = "first" */
    tn_dtype reduce_dtype;
    int64_t bucket_bytes;
    tn__ddp_entry *entry; /* owned: parameters, then buffers */
    int entries, parameters;
    int *order;           /* owned: the entries as packs have them */
    bool ordered;         /* by arrival */
    int arrivals;
    tn__ddp_pack *pack;   /* owned: of parameters, then of buffers */
    int packs, gradient_packs;
    tn__ddp_saved *saved; /* owned */
    int saves;
    tn__bucket facts;     /* used and changed of each entry, loss, weight, number
                             of shards with a weight that is not 1 */
    bool has_facts;
    double *fact;         /* owned: of the current shard, then of the step */
    uint64_t seed, step;
    tn_rng_state before;  /* of the step */
    int64_t shard;        /* -1: outside of a step */
    double weight;        /* of the current shard */
    bool has_gradient;    /* one has arrived in the current shard */
    int next;             /* the next pack of this shard that is closed */
    double loss;
};

/* ---- packs.c: the vectors ------------------------------------------------- */

/* Divides the entries into packs. */
tn_status tn__ddp_make_packs(tn_ddp *ddp);
/* At the end of the first step: all ranks change to the order in which gradients
 * have arrived on rank 0, and take memory that the engine moves without copies. */
tn_status tn__ddp_learn_order(tn_ddp *ddp);
/* The elements of an entry in a vector. */
tn_tensor *tn__ddp_part(const tn__ddp_entry *e, tn_tensor *vector);
/* Puts values into the current shard's vector; NULL: zeros. */
tn_status tn__ddp_put(tn__ddp_entry *e, tn_tensor *values);

/* ---- buffers.c: the buffers of a model in a step -------------------------- */

/* Notes the buffers of net that are not parameters; adds entries for those of a
 * floating-point dtype. */
tn_status tn__ddp_find_buffers(tn_ddp *ddp, const tn_parameter_list *parameters);
/* Copies the buffers to what they were when the step began, or back. */
tn_status tn__ddp_copy_buffers(tn_ddp *ddp, bool restore);
/* Puts the buffers into the current shard's vectors. */
tn_status tn__ddp_put_buffers(tn_ddp *ddp);
/* Gives the buffers what the step makes of them, when those of floating-point
 * dtypes that shards changed have their mean. */
tn_status tn__ddp_end_buffers(tn_ddp *ddp);
/* Whether list has x. */
bool tn__ddp_is_listed(const tn_parameter_list *list, const tn_tensor *x);
tn__ddp_entry *tn__ddp_add_entry(tn_ddp *ddp, tn_tensor *x, const char *name);

/* ---- of a tn_ddp ---------------------------------------------------------- */

/* What the random numbers of the shards depend on. tn__ddp_counters returns
 * whether no step is under way. */
bool tn__ddp_check(const tn_ddp *ddp, const char *call);
bool tn__ddp_counters(tn_ddp *ddp, uint64_t *seed, uint64_t *step);
void tn__ddp_set_counters(tn_ddp *ddp, uint64_t seed, uint64_t step);

#endif
