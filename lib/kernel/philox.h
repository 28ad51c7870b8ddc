/* philox.h: Philox4x32-10, a counter-based random number generator, which makes
 * all random numbers (as in PyTorch on CUDA). Source: Salmon, Moraes, Dror,
 * Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#ifndef TN_LIB_KERNEL_PHILOX_H
#define TN_LIB_KERNEL_PHILOX_H

#include <stdint.h>

/* Returns one 32-bit word of the generator's 128-bit output for this counter
 * and key. `word` is 0 to 3. */
static inline uint32_t tn__philox(uint64_t counter_low, uint64_t counter_high,
                                  uint64_t key, unsigned word)
{
    uint32_t x[4] = {(uint32_t)counter_low, (uint32_t)(counter_low >> 32),
                     (uint32_t)counter_high, (uint32_t)(counter_high >> 32)};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * x[0];
        uint64_t p1 = (uint64_t)0xCD9E8D57u * x[2];
        x[0] = (uint32_t)(p1 >> 32) ^ x[1] ^ k0;
        x[1] = (uint32_t)p1;
        x[2] = (uint32_t)(p0 >> 32) ^ x[3] ^ k1;
        x[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u; /* the golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    return x[word];
}

#endif
