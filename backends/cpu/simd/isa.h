/* isa.h: macros for files that are compiled once for each instruction set. The
 * compiler option -DTN_CPU_SET=v3, for example, selects the set v3. */
#ifndef TN_CPU_ISA_H
#define TN_CPU_ISA_H

/* This plugin is built with -O3, but a user's -O2 follows it on the command
 * line and replaces it. gcc vectorises few loops with -O2, so this pragma
 * selects O3 again. -O0 stays in force for debugging. TN_CPU_PLAIN is defined
 * for the set `generic`, which is optimised for size. */
#if defined(__OPTIMIZE__) && !defined(__clang__) && !defined(TN_CPU_PLAIN)
#pragma GCC optimize("O3")
#endif

/* TN_CPU_SPARE is defined for v4, whose loops the JIT compiler mostly replaces.
 * Its table begins as a copy of v3's table. Some entries stay copies and are
 * not compiled again: rare loops, and loops that machine code replaces (pairs
 * of operations, functions of float32). RARE(loop) is NULL for v4, so that the
 * table keeps v3's loop. */
#ifdef TN_CPU_SPARE
enum { TN_CPU_IS_SPARE = 1 };
#else
enum { TN_CPU_IS_SPARE = 0 };
#endif
#define RARE(loop) (TN_CPU_IS_SPARE ? NULL : (loop))
/* Sets the entries of one row of the table, by register type. Loops that are
 * NULL leave the entry unchanged. */
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
 * the same array as an input. The pragma tells the compiler that this does not
 * prevent vectorisation. */
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
