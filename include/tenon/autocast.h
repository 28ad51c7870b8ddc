/* <tenon/autocast.h>: automatic mixed precision.
 *
 * With half types (float16, bfloat16), matrix products are several times as
 * fast and activations need half the memory. Sums, norms and losses need
 * float32. While autocast is on, each operator computes in the dtype that suits
 * it, whatever the dtypes of its tensors:
 *
 *     TN_AUTOCAST(TN_BF16) {
 *         loss = tn_cross_entropy(tn_forward(net, x), y);
 *     }
 *     tn_backward(loss);
 *     tn_optim_step(opt);
 *
 * Parameters and their gradients stay float32. With TN_F16, small gradients
 * would underflow to 0: use <tenon/grad_scaler.h>.
 *
 * docs/operators.md gives the dtype for each operator. It follows PyTorch's
 * list for CUDA. Operators that this list lacks follow PyTorch's list for the
 * CPU:
 *
 *   the half type   matmul and similar products, linear, convolutions,
 *                   attention, prelu, recurrent cells and layers
 *   float32         softmax, losses, norms, exp, log, pow and others whose
 *                   values or sums exceed the range of a half type; operators
 *                   that use LAPACK
 *   the widest      of the inputs' dtypes and the half type: cat, addcmul, dot,
 *                   scatter_add and others of several tensors
 *
 * All other operators keep the dtypes of their inputs. float64 and integer
 * tensors are not converted. In-place operators, and operators with a given
 * output, convert nothing. An explicit dtype (tn_sum(x, .dtype = TN_F16)) is
 * used. A loss that takes the result of a sigmoid (tn_binary_cross_entropy) is
 * rejected in float16, because its gradient exceeds float16's range.
 *
 * Source: torch.autocast.
 *
 * Threads: The mode belongs to the calling thread; it is off in a new thread.
 */
#ifndef TENON_AUTOCAST_H
#define TENON_AUTOCAST_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the half type of the calling thread's autocast, or TN_DTYPE_NONE if
 * autocast is off, as it is at first. Cannot fail. */
TN_API tn_dtype tn_autocast_dtype(void);
/* Switches autocast to TN_F16 or TN_BF16, or off with TN_DTYPE_NONE. Returns
 * the previous dtype. Records TN_ERR_DTYPE, with nothing changed, for other
 * dtypes. A backward pass runs with autocast off, in the dtypes of the forward
 * pass. The second run of a function by tn_recompute uses the mode of its first
 * run. The converted copy of a parameter is cached until autocast is switched
 * off, the parameter changes, or a backward pass begins. */
TN_API tn_dtype tn_autocast_set(tn_dtype dtype);
/* A region with autocast to dtype (base.h). Regions nest.
 *
 *     TN_AUTOCAST(TN_BF16) {         // the statement that follows
 *         loss = tn_cross_entropy(tn_forward(net, x), y);
 *     }
 *     TN_AUTOCAST_HERE(TN_BF16);     // the rest of the block
 */
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
