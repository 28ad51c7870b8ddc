/* tenon_scale_model.h: predicts the time and the memory of a training step on many
 * GPUs. docs/scale.md has the formulas with their constants, and how far they
 * agree with measurements.
 *
 * Units: seconds, bytes, bytes per second and direction. */
#ifndef TN_TOOLS_TENON_SCALE_MODEL_H
#define TN_TOOLS_TENON_SCALE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* A cluster: nodes of `node` GPUs each. */
typedef struct scale_machine {
    int node;
    double inside, between;  /* bandwidth of a GPU: within its node, to others */
    double inside_hop, between_hop; /* latency of a step of a collective */
    double launch;           /* of a collective */
    double memory;           /* bandwidth of a GPU's memory, for the optimizer */
    double busy;             /* share of a collective's time that is lost to
                                computing: 1 where the processors that compute
                                also move the data */
    double jitter;           /* standard deviation of a rank's compute time, as
                                a share of it */
} scale_machine;

/* One step of one GPU. */
typedef struct scale_step {
    double forward, backward; /* time of compute alone */
    double activations;      /* memory of temporary tensors */
    int units;               /* parts that are sent or gathered as one, in the
                                order of the forward pass: tensors, or layers */
    double *elements;        /* owned array: parameters of each */
    double weight, gradient; /* bytes of each parameter on the link and in memory */
    double state;            /* bytes of each parameter for the optimizer: master
                                weights and moments */
    double copies;           /* how often DDP and ZeRO-1 read or write a gradient
                                beside the collective: into a bucket, and to
                                divide it */
} scale_step;

typedef enum scale_way {
    SCALE_DDP,   /* everything on each GPU; all_reduce of gradients */
    SCALE_ZERO1, /* optimizer states sharded: reduce_scatter, all_gather */
    SCALE_FSDP,  /* all sharded; units gathered in forward and backward */
    SCALE_HSDP,  /* the same within `shard` GPUs, all_reduce across them */
    SCALE_WAYS
} scale_way;

typedef struct scale_choice {
    scale_way way;
    bool flat;      /* one ring over all GPUs; else within nodes, then between */
    double bucket;  /* bytes, of DDP and ZeRO-1 */
    int prefetch;   /* units that FSDP gathers ahead */
    int shard;      /* of HSDP */
} scale_choice;

typedef struct scale_result {
    double step, compute;    /* time; that of compute alone */
    double exposed;          /* time that communication adds */
    double waiting;          /* time that stragglers add */
    double memory;           /* bytes of a GPU */
} scale_result;

/* The time of a collective of `bytes` (the whole vector) over n GPUs. */
double scale_all_reduce(const scale_machine *m, bool flat, double bytes, int n);
double scale_reduce_scatter(const scale_machine *m, bool flat, double bytes,
                            int n);

scale_result scale_predict(const scale_machine *m, const scale_step *s,
                           const scale_choice *choice, int n);

#endif
