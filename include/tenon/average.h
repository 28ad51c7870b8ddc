/* <tenon/average.h>: a model's averaged weights, which often do better than its
 * last ones.
 *
 *     tn_average *average = tn_average_new(net, .decay = 0.999);
 *     ...
 *         tn_optim_step(opt);
 *         tn_average_update(average);
 *     ...
 *     tn_average_swap(average);              // the averages stand in net
 *     accuracy = evaluate(net);              // or tn_module_save(net, path)
 *     tn_average_swap(average);              // net goes on where it was
 *
 * With a decay it is the exponential moving average (EMA) of the weights:
 * average = decay average + (1 - decay) weights. Without, their mean since the
 * start: stochastic weight averaging (arXiv:1803.05407). <tenon/checkpoint.h>
 * saves it with the rest of a run. Source: torch.optim.swa_utils.AveragedModel
 * with get_ema_multi_avg_fn and get_swa_multi_avg_fn.
 *
 * Threads: An average, with its model, belongs to one thread at a time.
 */
#ifndef TENON_AVERAGE_H
#define TENON_AVERAGE_H

#include <tenon/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_average tn_average;

/* decay: in [0, 1); none: the mean of all updates. use_buffers: averages
 * buffers too (the statistics of batch norm); otherwise, and where they are
 * integers, an update copies them. */
#define TN_AVERAGE_NEW_OPTIONS_LIST(X)                                        \
    X(double, decay, TN_NONE_FLOAT) /* none: the mean */                      \
    X(bool, use_buffers, false)
TN_OPTIONS_STRUCT(tn_average_new, TN_AVERAGE_NEW_OPTIONS_LIST);
#define TN_AVERAGE_NEW_OPTIONS                                                \
    TN_OPTIONS_DEFAULTS(tn_average_new, TN_AVERAGE_NEW_OPTIONS_LIST)
/* Averages of module's parameters, in their dtypes: at first copies of them.
 * Owned by the open scope; keeps the module's tensors, lives beside them on
 * their devices. NULL: for NULL; TN_ERR_ARGUMENT. */
TN_API tn_average *tn_average_new_with(tn_module *module,
                                       const tn_average_new_options *options);

/* Takes the weights as they are now into the average; the first update copies
 * them. TN_ERR_STATE while they are swapped; TN_ERR_DEVICE if the module was
 * moved since. Refused while an error is pending. */
TN_API tn_status tn_average_update(tn_average *average);

/* Exchanges weights and averages, without a copy: tensors stay the same
 * objects. Gradients are forgotten. Refused while an error is pending. */
TN_API tn_status tn_average_swap(tn_average *average);
/* Do the averages stand in the module? Cannot fail. */
TN_API bool tn_average_is_swapped(const tn_average *average);

/* How many updates it has seen; 0 for NULL. */
TN_API int64_t tn_average_updates(const tn_average *average);
/* For training that is taken up again. TN_ERR_ARGUMENT if count is negative. */
TN_API tn_status tn_average_set_updates(tn_average *average, int64_t count);

/* The averages: as many as tn_module_state has, in its order, with its names;
 * lent, NULL outside. While they are swapped these are the weights. Cannot
 * fail. */
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
