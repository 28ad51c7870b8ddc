/* routines_pair.c: pairs of arithmetic operations in one pass (fuse.c). Each
 * operation rounds its result. The first result stays in a register. An operand
 * that is one value is copied to all lanes of a vector, which the loop then
 * reads at each step. */
#include "routines.h"
#include "vector.h"

#if defined(TN_CPU_SPARE)
void TN_CPU_NAME(tn__cpu_pair)(tn_cpu_routines *table)
{
    (void)table;
}
#else

#define PAIR(name, T, LOOSE, expression)                                      \
    static void name(void *out, const void *pa, const void *pb,               \
                     const void *pc, int64_t n, unsigned scalar)              \
    {                                                                         \
        enum { L = sizeof(LOOSE) / sizeof(T) };                               \
        const T *in[3] = {pa, pb, pc};                                        \
        T fixed[3][L], *o = out;                                              \
        int64_t step[3], i = 0;                                               \
        for (int k = 0; k < 3; k++) {                                         \
            step[k] = scalar >> k & 1 ? 0 : L;                                \
            if (step[k])                                                      \
                continue;                                                     \
            for (int l = 0; l < L; l++)                                       \
                fixed[k][l] = *in[k];                                         \
            in[k] = fixed[k];                                                 \
        }                                                                     \
        const T *a = in[0], *b = in[1], *c = in[2];                           \
        _Pragma("GCC unroll 2") for (; i + L <= n; i += L)                    \
        {                                                                     \
            LOOSE x = *(const LOOSE *)a, y = *(const LOOSE *)b;               \
            LOOSE z = *(const LOOSE *)c;                                      \
            *(LOOSE *)(o + i) = expression;                                   \
            a += step[0];                                                     \
            b += step[1];                                                     \
            c += step[2];                                                     \
        }                                                                     \
        _Pragma("GCC unroll 1") for (; i < n; i++)                            \
        {                                                                     \
            T x = *a, y = *b, z = *c;                                         \
            o[i] = expression;                                                \
            a += step[0] > 0;                                                 \
            b += step[1] > 0;                                                 \
            c += step[2] > 0;                                                 \
        }                                                                     \
    }

#define PAIRS(name, T, LOOSE, first)                                          \
    PAIR(name##_add, T, LOOSE, first + z)                                     \
    PAIR(name##_sub, T, LOOSE, first - z)                                     \
    PAIR(name##_from, T, LOOSE, z - first)                                    \
    PAIR(name##_mul, T, LOOSE, first * z)
#define ALL(suffix, T)                                                        \
    PAIRS(add_##suffix, T, loose_##suffix, (x + y))                           \
    PAIRS(sub_##suffix, T, loose_##suffix, (x - y))                           \
    PAIRS(mul_##suffix, T, loose_##suffix, (x * y))
ALL(f32, float)
ALL(f64, double)

void TN_CPU_NAME(tn__cpu_pair)(tn_cpu_routines *table)
{
#define LIST(name) {name##_add, name##_sub, name##_from, name##_mul}
#define SET(type, suffix)                                                     \
    {                                                                         \
        static tn_cpu_run *const pair[3][4] = {                               \
            LIST(add_##suffix), LIST(sub_##suffix), LIST(mul_##suffix)};      \
        table->pair[type] = pair;                                             \
    }
    SET(CPU_F32, f32)
    SET(CPU_F64, f64)
}
#endif
