/* isa.h: macros for files that are compiled once for each instruction set, with
 * -DTN_CPU_SET=v3 and the like. */
#ifndef TN_CPU_ISA_H
#define TN_CPU_ISA_H

/* A user's -O2 follows this plugin's -O3 on the command line, and gcc's -O2
 * vectorises few loops, so this pragma asks for O3 again. -O0 stays in force
 * for debugging. TN_CPU_PLAIN is defined for the set `generic`, which is built
 * for small size rather than speed. */
#if defined(__OPTIMIZE__) && !defined(__clang__) && !defined(TN_CPU_PLAIN)
#pragma GCC optimize("O3")
#endif

/* TN_CPU_SPARE is defined for a set that the JIT compiler complements (v4). Its
 * table starts as a copy of the next narrower set's. Entries for rare loops,
 * and for what machine code does better (pairs of operations, functions of
 * float32 alone), stay copies and are not compiled again. RARE(loop) marks such
 * loops. */
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

/* A loop whose iterations access only element i of each array. An output may be
 * an input, so the compiler is told that this does not prevent
 * vectorisation. */
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
