/* isa.h: for files that are compiled once for each instruction set, with
 * -DTN_CPU_SET=v3 and the like. */
#ifndef TN_CPU_ISA_H
#define TN_CPU_ISA_H

/* The user's -O2 follows our -O3 on the command line, and gcc's -O2 vectorises
 * few loops. -O0 is respected: someone is debugging. TN_CPU_PLAIN: a set for
 * completeness, small rather than fast. */
#if defined(__OPTIMIZE__) && !defined(__clang__) && !defined(TN_CPU_PLAIN)
#pragma GCC optimize("O3")
#endif

/* TN_CPU_SPARE: a set that machine code complements. Its table starts as a copy
 * of the next narrower set's. What machine code does better (pairs of
 * operations, functions of float32 only) and rare loops stay as copied and are
 * not compiled. */
#ifdef TN_CPU_SPARE
enum { TN_CPU_IS_SPARE = 1 };
#else
enum { TN_CPU_IS_SPARE = 0 };
#endif
#define RARE(loop) (TN_CPU_IS_SPARE ? NULL : (loop))
/* Overwrites a row of the table, indexed by type, with the loops that are not
 * NULL. */
#define FILL_ROW(T, row, ...)                                                 \
    {                                                                         \
        T *const own[] = {__VA_ARGS__};                                       \
        for (size_t own_i = 0; own_i < sizeof own / sizeof *own; own_i++)     \
            if (own[own_i])                                                   \
                (row)[own_i] = own[own_i];                                    \
    }

#define TN_CPU_JOIN_(a, b) a##__##b
#define TN_CPU_JOIN(a, b) TN_CPU_JOIN_(a, b)
#define TN_CPU_NAME(name) TN_CPU_JOIN(name, TN_CPU_SET)

/* A loop whose iterations touch only element i of each array. An output may be
 * an input, which must not prevent vectorisation. */
#if defined(__clang__)
#define EACH(i, n)                                                            \
    _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < n; \
                                                        i++)
#else
#define EACH(i, n) _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#endif

/* Bytes of the widest vector of the set. */
#if defined(__AVX512F__)
#define TN_CPU_VECTOR 64
#elif defined(__AVX__)
#define TN_CPU_VECTOR 32
#else
#define TN_CPU_VECTOR 16
#endif

#endif
