/* <tenon/autocast.h>: operators that choose their dtype.
 *
 * In a half type, products are several times as fast and activations take half
 * the memory; sums, norms and losses want float32. With autocast on, each
 * operator takes the dtype that suits it, whatever its tensors have:
 *
 *     TN_AUTOCAST(TN_BF16) {
 *         loss = tn_cross_entropy(tn_forward(net, x), y);
 *     }
 *     tn_backward(loss);
 *     tn_optim_step(opt);
 *
 * Parameters stay float32, and so do their gradients. With TN_F16, small
 * gradients would become 0: see <tenon/grad_scaler.h>.
 *
 * Which operator takes what is told by docs/operators.md for each, and is
 * PyTorch's list for CUDA; where that has no word, its list for the CPU:
 *
 *   the half type   matmul and its relatives, linear, convolutions, attention,
 *                   prelu, recurrent cells and layers
 *   float32         softmax, losses, norms, exp, log, pow and others whose
 *                   values or sums outgrow a half; what LAPACK computes
 *   the widest      of what is given, and of the half type: cat, addcmul, dot,
 *                   scatter_add and others of several tensors
 *
 * All others take what comes. float64 and whole numbers stay as they are; so
 * do calls in place, and those into a given tensor. A dtype given to an
 * operator (tn_sum(x, .dtype = TN_F16)) holds. Losses that take the result of
 * a sigmoid (tn_binary_cross_entropy) are refused in float16, where their
 * gradient has no room.
 *
 * Source: torch.autocast.
 *
 * Threads: The mode is the calling thread's; a new thread begins without it.
 */
#ifndef TENON_AUTOCAST_H
#define TENON_AUTOCAST_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The half type of the calling thread's autocast; TN_DTYPE_NONE where it is
 * off, as it is at the start. Cannot fail. */
TN_API tn_dtype tn_autocast_dtype(void);
/* Switches it: TN_F16, TN_BF16, or TN_DTYPE_NONE for off. Returns what it was.
 * TN_ERR_DTYPE, with nothing changed, for other dtypes. A backward walk runs
 * with it off, in the dtypes of the forward; what tn_recompute runs again has
 * it as the first time. Parameters converted for one operator are stored for
 * the next until it is switched off, the parameter changes, or a backward walk
 * begins. */
TN_API tn_dtype tn_autocast_set(tn_dtype dtype);
/* A region with autocast to dtype (base.h): TN_AUTOCAST(TN_BF16) { ... }, or
 * TN_AUTOCAST_HERE(TN_BF16); to the end of the block. Regions nest. */
#ifndef __cplusplus
static inline tn_region tn_autocast_begin(tn_dtype dtype)
{
    tn_region region = {(int)tn_autocast_set(dtype), true};
    return region;
}
static inline void tn_autocast_end(tn_region *region)
{
    tn_autocast_set((tn_dtype)region->was);
}
#define TN_AUTOCAST(dtype)                                                    \
    TN__REGION(tn_autocast_, tn_autocast_begin(dtype), tn_autocast_end)
#define TN_AUTOCAST_HERE(dtype)                                               \
    TN__REGION_HERE(tn_autocast_, tn_autocast_begin(dtype), tn_autocast_end)
#else
typedef tn_region_of<tn_dtype, tn_autocast_set> tn_autocast;
#define TN_AUTOCAST(dtype) TN__REGION(tn_autocast_, tn_autocast, dtype)
#define TN_AUTOCAST_HERE(dtype)                                               \
    TN__REGION_HERE(tn_autocast_, tn_autocast, dtype)
#endif

#ifdef __cplusplus
}
#endif
#endif
