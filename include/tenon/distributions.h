/* <tenon/distributions.h>: probability distributions, for policies, variational
 * autoencoders and Bayesian models.
 *
 *     tn_distribution *q = tn_distribution_normal(mean, tn_exp(log_std));
 *     tn_tensor *z = tn_distribution_rsample(q, TN_SCALAR);
 *     tn_tensor *kl = tn_distribution_kl(q, prior);
 *
 * A distribution holds parameters, which broadcast against each other. Their
 * common shape is the batch shape. Results are differentiable in parameters and
 * values. The elements of parameters and values are not checked, because that
 * would wait for the device. If they are out of range, the formulas are
 * evaluated anyway and may give NaN (as PyTorch with validate_args=False). The
 * formulas are those of torch.distributions. As there, probabilities are
 * clamped to [eps, 1 - eps] before a logarithm, where eps is the machine
 * epsilon of their dtype.
 *
 * Threads: A distribution does not change. Any thread may use it, if it may use
 * its tensors (<tenon/tensor.h>). */
#ifndef TENON_DISTRIBUTIONS_H
#define TENON_DISTRIBUTIONS_H

#include <tenon/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_distribution tn_distribution;

/* ---- making ----------------------------------------------------------------
 * Parameters are tensors of a floating-point dtype on one device. A
 * distribution holds references to them. The open scope owns the distribution.
 * Returns NULL with TN_ERR_DTYPE if a parameter is not floating-point,
 * TN_ERR_SHAPE if they do not broadcast, TN_ERR_DEVICE if they are on several
 * devices, and TN_ERR_ARGUMENT if the wrong number of parameters is given. */

/* The normal distribution with mean loc and standard deviation scale, which is
 * above 0. Source: Normal. */
TN_API tn_distribution *tn_distribution_normal(tn_tensor *loc,
                                               tn_tensor *scale);
/* The uniform distribution over [low, high). Source: Uniform. */
TN_API tn_distribution *tn_distribution_uniform(tn_tensor *low,
                                                tn_tensor *high);
/* The Bernoulli distribution: 1 with probability probs, or 1 / (1 +
 * exp(-logits)), else 0. Exactly one of probs and logits is given, the other
 * one is NULL. Values have the parameter's dtype. Source: Bernoulli. */
TN_API tn_distribution *tn_distribution_bernoulli(tn_tensor *probs,
                                                  tn_tensor *logits);
/* The categorical distribution: i with probability probs[..., i] / sum(probs),
 * or softmax(logits)[..., i]. Exactly one of probs and logits is given, with
 * the shape (..., K). The batch shape is (...). Values are integers from 0 to K
 * - 1; samples are int64. Source: Categorical. */
TN_API tn_distribution *tn_distribution_categorical(tn_tensor *probs,
                                                    tn_tensor *logits);

/* ---- using -----------------------------------------------------------------
 * Results are owned by the open scope. On failure they are NULL, with the error
 * of the operator that failed. */

/* Draws values of shape (sample_shape..., batch shape...); TN_SCALAR as
 * sample_shape draws one value for each element of the batch. No gradient is
 * recorded. Fails with TN_ERR_SHAPE for too many dimensions. For a categorical
 * distribution it waits for the device. */
TN_API tn_tensor *tn_distribution_sample(const tn_distribution *distribution,
                                         tn_dims_list sample_shape);
/* Draws as tn_distribution_sample, but as loc + scale * noise (the
 * reparametrisation), so the result is differentiable in the parameters. Fails
 * with TN_ERR_UNSUPPORTED for discrete distributions. */
TN_API tn_tensor *tn_distribution_rsample(const tn_distribution *distribution,
                                          tn_dims_list sample_shape);
/* The logarithm of the density (or probability) of value, which broadcasts
 * against the batch shape. Fails with TN_ERR_DTYPE if value has a
 * floating-point dtype and the distribution is categorical. */
TN_API tn_tensor *tn_distribution_log_prob(const tn_distribution *distribution,
                                           tn_tensor *value);
/* The entropy in nats. The result has the batch shape. */
TN_API tn_tensor *tn_distribution_entropy(const tn_distribution *distribution);
/* The Kullback-Leibler divergence KL(p || q), the mean of log(p / q) under p.
 * Fails with TN_ERR_UNSUPPORTED if p and q are of different kinds. */
TN_API tn_tensor *tn_distribution_kl(const tn_distribution *p,
                                     const tn_distribution *q);

#ifdef __cplusplus
}
#endif
#endif
