/* routines_lapack.c: factorisations of small matrices (torch.linalg), with one
 * matrix in each lane of a vector. Most of the time of a small matrix is square
 * roots, quotients and the ends of short columns. Here 4 to 16 matrices are
 * computed by the same instructions. Nothing is summed across lanes. */
#include <float.h>
#include <tenon/plugin.h>

#include "routines.h"
#include "vector.h"
#include "vector_ops.h"

/* The code for each type has about 8 KB. To save space, AVX-512 has no float64
 * code: v3's code is used, with half as many lanes. */
#if !defined(TN_CPU_PLAIN)
#define WITH_F32 1
#if !defined(__AVX512F__)
#define WITH_F64 1
#endif
#endif

/* A few loops do nearly all the work. They are marked HOT and optimised for
 * speed, the other code for size. */
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC optimize("Os")
#define HOT __attribute__((optimize("O2")))
#else
#define HOT
#endif
#define ALWAYS inline __attribute__((always_inline))

/* maximum number of sweeps of Jacobi's methods, which converge after 6 to 10 */
enum { SWEEPS = 40 };

#if defined(__AVX512F__)
#define ANY(mask)                                                             \
    (_mm512_test_epi32_mask((__m512i)(mask), (__m512i)(mask)) != 0)
#define ROOT_32(x) ((vec_f32)_mm512_sqrt_ps(x))
#define ROOT_64(x) ((vec_f64)_mm512_sqrt_pd(x))
#elif defined(__AVX2__)
#define ANY(mask) (!_mm256_testz_si256((__m256i)(mask), (__m256i)(mask)))
#define ROOT_32(x) ((vec_f32)_mm256_sqrt_ps(x))
#define ROOT_64(x) ((vec_f64)_mm256_sqrt_pd(x))
#elif defined(__aarch64__)
#define ANY(mask) (vmaxvq_u32((uint32x4_t)(mask)) != 0)
#define ROOT_32(x) vsqrtq_f32(x)
#define ROOT_64(x) vsqrtq_f64(x)
#else
#define TN_CPU_ROOT(name, V, root)                                            \
    static inline __attribute__((unused)) V name(V x)                         \
    {                                                                         \
        for (unsigned l = 0; l < sizeof x / sizeof x[0]; l++)                 \
            x[l] = root(x[l]);                                                \
        return x;                                                             \
    }
TN_CPU_ROOT(root_32, vec_f32, __builtin_sqrtf)
TN_CPU_ROOT(root_64, vec_f64, __builtin_sqrt)
static inline __attribute__((unused)) int any_of(vec_i32 x)
{
    int any = 0;
    for (unsigned l = 0; l < sizeof x / sizeof x[0]; l++)
        any |= x[l];
    return any != 0;
}
#define ANY(mask) any_of((vec_i32)(mask))
#define ROOT_32(x) root_32(x)
#define ROOT_64(x) root_64(x)
#endif

#ifdef WITH_F32
#define real float
#define V vec_f32
#define I vec_i32
#define NAME(x) x##_f32
#define FMA(x, y, z) TN_CPU_FMA_F32(x, y, z)
#define ROOT(x) ROOT_32(x)
#define SIGN INT32_MIN
#define ONE 0x3f800000
#define NEAR 0x5f375a86
#define LEAST 0x00800000
#define EPSILON FLT_EPSILON
#include "lapack_loops.inc"
#undef real
#undef V
#undef I
#undef NAME
#undef FMA
#undef ROOT
#undef SIGN
#undef ONE
#undef NEAR
#undef LEAST
#undef EPSILON

#endif

#ifdef WITH_F64
#define real double
#define V vec_f64
#define I vec_i64
#define NAME(x) x##_f64
#define FMA(x, y, z) TN_CPU_FMA_F64(x, y, z)
#define ROOT(x) ROOT_64(x)
#define SIGN INT64_MIN
#define ONE 0x3ff0000000000000
#define NEAR 0x5fe6eb50c7b537a9
#define LEAST 0x0010000000000000
#define EPSILON DBL_EPSILON
#include "lapack_loops.inc"

void TN_CPU_NAME(tn__cpu_lapack_f64)(const tn_cpu_lapack_work *work)
{
    run_f64(work);
}
#endif

void TN_CPU_NAME(tn__cpu_lapack)(tn_cpu_routines *table)
{
    (void)table;
#ifdef WITH_F32
    table->lapack[CPU_F32] = run_f32;
    table->lapack_lanes[CPU_F32] = TN_CPU_VECTOR / 4;
#endif
#if defined(WITH_F64)
    table->lapack[CPU_F64] = TN_CPU_NAME(tn__cpu_lapack_f64);
    table->lapack_lanes[CPU_F64] = TN_CPU_VECTOR / 8;
#elif defined(__AVX512F__)
    table->lapack[CPU_F64] = tn__cpu_lapack_f64__v3;
    table->lapack_lanes[CPU_F64] = 4;
#endif
}
