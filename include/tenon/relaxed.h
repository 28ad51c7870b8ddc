/* <tenon/relaxed.h>: products by the machine's own dot products.
 *
 * Products of bfloat16 matrices multiply and add in float32, so that a result
 * has the same bits with every instruction set. Many processors multiply pairs
 * of bfloat16 numbers in one instruction, which is up to twice as fast, but
 * rounds differently and takes subnormal numbers as 0. In relaxed mode a device
 * may use it:
 *
 *     TN_RELAXED(true) {
 *         y = tn_forward(net, x);       // the parameters are bfloat16
 *     }
 *
 * On one machine, results do not depend on the number of threads, and the
 * result of a row not on the other rows. They differ between machines. Only
 * products of bfloat16 are affected, and only where the device has such an
 * instruction: the cpu with AVX-512 BF16. Everywhere else the bits are those of
 * the mode off. Products on GPUs are of this kind with the mode off, too.
 *
 * Source: none; compare torch.set_float32_matmul_precision.
 *
 * Threads: The mode belongs to the calling thread; it is off in a new thread.
 */
#ifndef TENON_RELAXED_H
#define TENON_RELAXED_H

#include <tenon/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns whether the calling thread's relaxed mode is on. Cannot fail. */
TN_API bool tn_relaxed(void);
/* Switches relaxed mode on or off. Returns the previous mode. A backward pass
 * uses the mode of the thread that calls tn_backward. Cannot fail. */
TN_API bool tn_relaxed_set(bool on);
/* A region with relaxed mode on or off (base.h). Regions nest.
 *
 *     TN_RELAXED(true) { y = tn_matmul(a, b); }   // the statement that follows
 *     TN_RELAXED_HERE(true);                      // the rest of the block
 */
#ifndef __cplusplus
static inline tn_region tn_relaxed_begin(bool on)
{
    tn_region region = {tn_relaxed_set(on), true};
    return region;
}
static inline void tn_relaxed_end(tn_region *region)
{
    tn_relaxed_set(region->was != 0);
}
#define TN_RELAXED(on)                                                        \
    TN__REGION(tn_relaxed_, tn_relaxed_begin(on), tn_relaxed_end)
#define TN_RELAXED_HERE(on)                                                   \
    TN__REGION_HERE(tn_relaxed_, tn_relaxed_begin(on), tn_relaxed_end)
#else
typedef tn_region_of<bool, tn_relaxed_set> tn_relaxed_region;
#define TN_RELAXED(on) TN__REGION(tn_relaxed_, tn_relaxed_region, on)
#define TN_RELAXED_HERE(on)                                                   \
    TN__REGION_HERE(tn_relaxed_, tn_relaxed_region, on)
#endif

#ifdef __cplusplus
}
#endif
#endif
