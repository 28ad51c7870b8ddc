/* <tenon/distributions.h>: probability distributions, for policies, variational
 * autoencoders and Bayesian models.
 *
 *     tn_distribution *q = tn_distribution_normal(mean, tn_exp(log_std));
 *     tn_tensor *z = tn_distribution_rsample(q, TN_SCALAR);
 *     tn_tensor *kl = tn_distribution_kl(q, prior);
 *
 * A distribution holds parameters, which broadcast against each other. Their
 * common shape is the batch shape. Results are differentiable in parameters and
 * values. Parameters and values are not checked element by element, which would
 * wait for the device: outside of their range results are NaN or as the formulas
 * give them (PyTorch with validate_args=False). Formulas, and the clamping of
 * probabilities to [eps, 1 - eps] of their dtype before a logarithm, are those of
 * torch.distributions.
 *
 * Threads: A distribution does not change. Any thread may use it, as far as its
 * tensors may be shared (<tenon/tensor.h>).
 */
#ifndef TENON_DISTRIBUTIONS_H
#define TENON_DISTRIBUTIONS_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_distribution tn_distribution;

/* ---- making ----------------------------------------------------------------
 * Parameters are tensors of a floating dtype on one device, which the
 * distribution keeps. Each distribution is owned by the open scope. NULL:
 * TN_ERR_DTYPE for another dtype; TN_ERR_SHAPE if they do not broadcast;
 * TN_ERR_DEVICE; TN_ERR_ARGUMENT. */

/* The normal distribution with mean loc and standard deviation scale, which is
 * above 0. Source: Normal. */
TN_API tn_distribution *tn_distribution_normal(tn_tensor *loc,
                                               tn_tensor *scale);
/* The uniform distribution over [low, high). Source: Uniform. */
TN_API tn_distribution *tn_distribution_uniform(tn_tensor *low,
                                                tn_tensor *high);
/* 1 with probability probs, or 1 / (1 + exp(-logits)), else 0. Exactly one of
 * probs and logits is given, the other one is NULL. Values have the parameter's
 * dtype. Source: Bernoulli. */
TN_API tn_distribution *tn_distribution_bernoulli(tn_tensor *probs,
                                                  tn_tensor *logits);
/* i with probability probs[..., i] / sum(probs), or softmax(logits)[..., i].
 * Exactly one of probs and logits is given: (..., K), at least 1-dimensional. The
 * batch shape is (...). Values are integers from 0 to K - 1; samples are int64.
 * Source: Categorical. */
TN_API tn_distribution *tn_distribution_categorical(tn_tensor *probs,
                                                    tn_tensor *logits);

/* ---- using -----------------------------------------------------------------
 * Results are owned by the open scope. NULL: the errors of the operators. */

/* Draws values of shape sample_shape + batch shape; TN_SCALAR for one of each.
 * Records no gradient. TN_ERR_SHAPE for too many dimensions. For a categorical
 * distribution it waits for the device. */
TN_API tn_tensor *tn_distribution_sample(const tn_distribution *distribution,
                                         tn_dims_list sample_shape);
/* The same by the reparametrisation loc + scale * noise: differentiable in the
 * parameters. TN_ERR_UNSUPPORTED for discrete distributions. */
TN_API tn_tensor *tn_distribution_rsample(const tn_distribution *distribution,
                                          tn_dims_list sample_shape);
/* The logarithm of the density (or probability) of value, which broadcasts
 * against the batch shape. TN_ERR_DTYPE if value is floating, for a categorical
 * distribution. */
TN_API tn_tensor *tn_distribution_log_prob(const tn_distribution *distribution,
                                           tn_tensor *value);
/* The entropy in nats, of the batch shape. */
TN_API tn_tensor *tn_distribution_entropy(const tn_distribution *distribution);
/* The Kullback-Leibler divergence of q from p, the mean of log(p / q) under p.
 * TN_ERR_UNSUPPORTED if they are of different kinds. */
TN_API tn_tensor *tn_distribution_kl(const tn_distribution *p,
                                     const tn_distribution *q);

#ifdef __cplusplus
}
#endif
#endif
