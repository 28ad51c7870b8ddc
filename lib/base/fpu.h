/* fpu.h: sets the floating-point state in which results are bit-exact: round to
 * nearest, keep subnormal numbers, do not trap. A function that computes on the
 * cpu sets this state on every thread it uses and restores the caller's state
 * afterwards. The caller's state can differ: a program linked with -ffast-math,
 * or the interpreter of another language, may flush subnormal numbers to
 * zero. */
#ifndef TN_LIB_BASE_FPU_H
#define TN_LIB_BASE_FPU_H

#include <stdint.h>

/* The control word of a thread's floating-point unit. */
typedef uint64_t tn__fpu_state;

static inline tn__fpu_state tn__fpu_read(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr();
#elif defined(__aarch64__)
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state) : : "memory");
    return state;
#else
    return 0;
#endif
}

/* Returns whether this is the bit-exact state. Ignores the exception flags. */
static inline int tn__fpu_is_plain(tn__fpu_state state)
{
#if defined(__x86_64__)
    return (state & ~(tn__fpu_state)0x3f) == 0x1f80;
#else
    return state == 0;
#endif
}

static inline void tn__fpu_restore(tn__fpu_state state)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((uint32_t)state);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(state) : "memory");
#else
    (void)state;
#endif
}

/* Sets the bit-exact state. Returns the previous state, for tn__fpu_restore. */
static inline tn__fpu_state tn__fpu_set(void)
{
    tn__fpu_state before = tn__fpu_read();
#if defined(__x86_64__)
    tn__fpu_restore(0x1f80); /* mask all exceptions, and turn DAZ and FTZ off */
#else
    tn__fpu_restore(0);
#endif
    return before;
}

/* Rounds x to float, to nearest, whatever rounding mode the caller has set.
 * `volatile` keeps the compiler from moving the conversion out from between the
 * two changes of state. */
static inline float tn__fpu_single(double x)
{
    volatile double from = x;
    tn__fpu_state before = tn__fpu_set();
    volatile float single = (float)from;
    tn__fpu_restore(before);
    return single;
}

#endif
