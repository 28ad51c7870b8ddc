/* vector.h: types and operations of the widest float and double vectors of an
 * instruction set. They are for loops with many vectors in registers, because a
 * compiler's own vectorisation would move some of them to the stack. Files that
 * are compiled once for each set include this header. */
#ifndef TN_CPU_VECTOR_H
#define TN_CPU_VECTOR_H

#include "isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef float vec_f32 __attribute__((vector_size(TN_CPU_VECTOR)));
typedef double vec_f64 __attribute__((vector_size(TN_CPU_VECTOR)));
/* Vectors in memory. They need only the alignment of their elements, and may
 * alias any type. */
typedef float loose_f32 __attribute__((vector_size(TN_CPU_VECTOR),
                                       aligned(4), may_alias));
typedef double loose_f64 __attribute__((vector_size(TN_CPU_VECTOR),
                                        aligned(8), may_alias));

/* x * y + z, rounded once if the set has fma. */
#if defined(__AVX512F__)
#define TN_CPU_FMA_F32(x, y, z) _mm512_fmadd_ps(x, y, z)
#define TN_CPU_FMA_F64(x, y, z) _mm512_fmadd_pd(x, y, z)
#elif defined(__FMA__)
#define TN_CPU_FMA_F32(x, y, z) _mm256_fmadd_ps(x, y, z)
#define TN_CPU_FMA_F64(x, y, z) _mm256_fmadd_pd(x, y, z)
#elif defined(__aarch64__)
#define TN_CPU_FMA_F32(x, y, z) vfmaq_f32(z, x, y)
#define TN_CPU_FMA_F64(x, y, z) vfmaq_f64(z, x, y)
#else
#define TN_CPU_FMA_F32(x, y, z) ((x) * (y) + (z))
#define TN_CPU_FMA_F64(x, y, z) ((x) * (y) + (z))
#endif

/* Returns the sum of the lanes: adds lane i + half to lane i, and repeats this
 * with half as many lanes until one is left. */
#if defined(__AVX512F__)
#define TN_CPU_SUM_F32(x) _mm512_reduce_add_ps(x)
#define TN_CPU_SUM_F64(x) _mm512_reduce_add_pd(x)
#else
#define TN_CPU_SUM(name, T, VEC)                                              \
    static inline T name(VEC x)                                               \
    {                                                                         \
        T lane[TN_CPU_VECTOR / sizeof(T)];                                    \
        __builtin_memcpy(lane, &x, sizeof x);                                 \
        for (unsigned half = sizeof lane / sizeof *lane / 2; half > 0;        \
             half /= 2)                                                       \
            for (unsigned l = 0; l < half; l++)                               \
                lane[l] += lane[l + half];                                    \
        return lane[0];                                                       \
    }
TN_CPU_SUM(tn_cpu_sum_f32, float, vec_f32)
TN_CPU_SUM(tn_cpu_sum_f64, double, vec_f64)
#define TN_CPU_SUM_F32(x) tn_cpu_sum_f32(x)
#define TN_CPU_SUM_F64(x) tn_cpu_sum_f64(x)
#endif

/* Makes the compiler load x to a register, and only once. Otherwise gcc loads x
 * at each use, and a load that crosses cache lines costs as much as two. */
#if defined(__x86_64__)
#define TN_CPU_HOLD(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define TN_CPU_HOLD(x) __asm__("" : "+w"(x))
#else
#define TN_CPU_HOLD(x) (void)(x)
#endif

/* Hides from the compiler how a pointer was computed. The compiler then
 * increments the pointer instead of computing each address from an index. */
#define TN_CPU_STEP(p) __asm__("" : "+r"(p))

/* Number of rows of a tile: the part of a matrix product or convolution whose
 * sums stay in registers. The sums of a row are two vectors. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define TN_CPU_TILE_ROWS 8 /* the set has 32 vector registers */
#else
#define TN_CPU_TILE_ROWS 6 /* the set has 16 vector registers */
#endif

/* Number of vectors of pixels that filter_plane() (conv_loops.inc) processes at
 * once. Each vector has three sums in registers. */
#define TN_CPU_PLANE_LINES (TN_CPU_TILE_ROWS / 2)

/* TN_CPU_EVENS_...(a, b) selects every second element of 2 * L - 1 elements,
 * where L is the number of lanes. a has the first L elements and b the last L,
 * so nothing beyond the last element is read. TN_CPU_EVENS is not defined if
 * the compiler has no shuffles. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define TN_CPU_EVENS 1
#if TN_CPU_VECTOR == 64
/* Vectors of half the width, and TN_CPU_HALF_EVENS_..., which selects every
 * second element of such vectors in the same way. */
typedef float half_f32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double half_f64 __attribute__((vector_size(32), aligned(8),
                                       may_alias));
#define TN_CPU_HALF_EVENS_F32(a, b)                                           \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define TN_CPU_HALF_EVENS_F64(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
#define TN_CPU_EVENS_F32(a, b)                                                \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23,  \
                            25, 27, 29, 31)
#define TN_CPU_EVENS_F64(a, b)                                                \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#elif TN_CPU_VECTOR == 32
#define TN_CPU_EVENS_F32(a, b)                                                \
    __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define TN_CPU_EVENS_F64(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
#else
#define TN_CPU_EVENS_F32(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
#define TN_CPU_EVENS_F64(a, b) __builtin_shufflevector(a, b, 0, 3)
#endif
#endif
#endif

#endif
