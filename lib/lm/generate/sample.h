/* sample.h: chooses a token from logits. */
#ifndef TN_LIB_LM_GENERATE_SAMPLE_H
#define TN_LIB_LM_GENERATE_SAMPLE_H

#include <tenon/lm.h>

/* The options of a request, with copies of its lists. */
typedef struct tn__lm_sampler {
    tn_lm_batch_add_options o;
    int64_t vocab;
    uint64_t random;  /* state of the request's own generator */
    int32_t *made;    /* owned; number of times that each token has been
                         generated */
    bool *prompted;   /* owned; whether each token is in the prompt */
    double *logit;    /* owned; scratch */
    int32_t *heap;    /* owned; scratch */
    tn_lm_bias *bias; /* owned */
    int64_t *stop;    /* owned; all stop sequences, concatenated */
    int *stop_length; /* owned */
} tn__lm_sampler;

/* Checks the options and copies what they point to. Records an error of `call`.
 * tn__lm_sampler_fini must follow, also after a failure. */
bool tn__lm_sampler_init(tn__lm_sampler *sampler,
                         const tn_lm_batch_add_options *options, int64_t vocab,
                         const int64_t *prompt, int64_t count,
                         const char *call);
/* Frees the memory. May be called again. The numbers in sampler->o stay
 * valid. */
void tn__lm_sampler_fini(tn__lm_sampler *sampler);
/* Chooses a token. Stores its log-probability according to the unmodified
 * logits. Returns -1 if the logits are not finite or if bias excludes every
 * token. */
int64_t tn__lm_sample(tn__lm_sampler *sampler, const float *logits,
                      double *logprob);
/* Returns whether the `count` tokens end with a stop sequence. */
bool tn__lm_stops(const tn__lm_sampler *sampler, const int64_t *ids,
                  int64_t count);
/* Returns log(sum(exp(logits))). */
double tn__lm_log_sum(const float *logits, int64_t count);

#endif
