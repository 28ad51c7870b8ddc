/* parallel.h: what the files of this room share. */
#ifndef TN_LIB_PARALLEL_PARALLEL_H
#define TN_LIB_PARALLEL_PARALLEL_H

#include <tenon/parallel.h>

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
    tn_tensor **node;    /* owned array of shards->count; kept, or NULL */
    tn_tensor **spare;   /* owned array; kept vectors that are not in use */
    int spares, room;
    tn_tensor *shared;   /* kept; the vector of this rank's first shard, if it is
                            in memory that the engine moves without copies */
    tn_tensor *gathered; /* kept; only if the ranks' nodes are not single */
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

/* ---- of a tn_ddp ---------------------------------------------------------- */

/* What the random numbers of the shards depend on. tn__ddp_counters returns
 * whether no step is under way. */
bool tn__ddp_check(const tn_ddp *ddp, const char *call);
bool tn__ddp_counters(tn_ddp *ddp, uint64_t *seed, uint64_t *step);
void tn__ddp_set_counters(tn_ddp *ddp, uint64_t seed, uint64_t step);

#endif
