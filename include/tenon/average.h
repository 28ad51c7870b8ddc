/* <tenon/average.h>: averages of a model's weights over training, which often
 * generalise better than the last weights.
 *
 *     tn_average *average = tn_average_new(net, .decay = 0.999);
 *     ...
 *         tn_optim_step(opt);
 *         tn_average_update(average);
 *     ...
 *     tn_average_swap(average);              // net has the averages
 *     accuracy = evaluate(net);              // or tn_module_save(net, path)
 *     tn_average_swap(average);              // net has its weights again
 *
 * With a decay the average is the exponential moving average (EMA) of the
 * weights: average = decay * average + (1 - decay) * weights. Without a decay
 * it is the mean of the weights at all updates: stochastic weight averaging
 * (SWA, arXiv:1803.05407). <tenon/checkpoint.h> saves the averages with the
 * rest of a run. Source: torch.optim.swa_utils.AveragedModel with
 * get_ema_multi_avg_fn and get_swa_multi_avg_fn.
 *
 * Threads: An average and its model belong to one thread at a time.
 */
#ifndef TENON_AVERAGE_H
#define TENON_AVERAGE_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_average tn_average;

/* Options of tn_average_new:
 *   decay         in [0, 1); without it, the average is the mean of all updates
 *   use_buffers   averages floating-point buffers, too (the statistics of batch
 *                 norm); otherwise an update copies buffers. Integer buffers
 *                 are always copied. */
#define TN_AVERAGE_NEW_OPTIONS_LIST(X)                                        \
    X(double, decay, TN_NONE_FLOAT)                                           \
    X(bool, use_buffers, false)
TN_OPTIONS_STRUCT(tn_average_new, TN_AVERAGE_NEW_OPTIONS_LIST);
#define TN_AVERAGE_NEW_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_average_new, TN_AVERAGE_NEW_OPTIONS_LIST)
/* Makes averages of the module's parameters, in their dtypes and on their
 * devices. The initial values are copies of the parameters. The open scope owns
 * the result, which holds references to the module's tensors. Returns NULL with
 * TN_ERR_ARGUMENT if module is NULL or an option is invalid, or with
 * TN_ERR_MEMORY if memory runs out. */
TN_API tn_average *tn_average_new_with(tn_module *module,
                                       const tn_average_new_options *options);

/* Adds the current weights to the average; the first update copies the weights.
 * Fails with TN_ERR_STATE while the averages are swapped in or an error is
 * pending, and with TN_ERR_DEVICE if the module has moved to another device. */
TN_API tn_status tn_average_update(tn_average *average);

/* Exchanges weights and averages without a copy; the tensors stay the same
 * objects. Removes gradients. Fails with TN_ERR_STATE while an error is
 * pending. */
TN_API tn_status tn_average_swap(tn_average *average);
/* Returns whether the averages are swapped into the module. Cannot fail. */
TN_API bool tn_average_is_swapped(const tn_average *average);

/* Returns the number of updates, or 0 for NULL. Cannot fail. */
TN_API int64_t tn_average_updates(const tn_average *average);
/* Sets the number of updates, to resume training. Fails with TN_ERR_ARGUMENT if
 * count is negative. */
TN_API tn_status tn_average_set_updates(tn_average *average, int64_t count);

/* Return the number of averages, average i, and its name as in tn_module_state,
 * or NULL if i is out of range. Tensor and name are lent: valid while average
 * lives. While the averages are swapped into the module, tn_average_at returns
 * the weights. Cannot fail. */
TN_API int tn_average_count(const tn_average *average);
TN_API tn_tensor *tn_average_at(const tn_average *average, int i);
TN_API const char *tn_average_name(const tn_average *average, int i);

#ifndef __cplusplus
#define tn_average_new(...) TN_CALL_1(tn_average_new, __VA_ARGS__, )
#else
} /* extern "C" */
TN_OVERLOAD_1(tn_average *, tn_average_new, tn_module *)
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
