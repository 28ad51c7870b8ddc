/* platform.cl: hides the differences between OpenCL C (1.2 and later), CUDA C
 * (NVRTC) and C11. All other kernel source is the same for the three. It uses
 * no templates, switch, goto, array initializers or program-scope variables. It
 * declares local arrays only at the top level of a kernel. Pointers to buffers
 * have the qualifier TK_G, pointers to local memory TK_S.
 *
 * These macros are defined before this file where they apply:
 *   TK_PLAIN         the source is C11: a work-group is one work-item, and its
 *                    index is a parameter of the kernel
 *   TK_F64           double precision is used
 *   TK_EXACT_DIVIDE  / and sqrt of floats are correctly rounded
 *   TK_WIDE          indices need 64 bits */
#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)

#pragma OPENCL FP_CONTRACT OFF
#ifdef TK_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define TK_KERNEL __kernel void
#define TK_FN static inline __attribute__((unused))
#define TK_G __global
#define TK_S __local
#define TK_RESTRICT restrict
#define TK_SHARED(type, name, count) __local type name[count]
/* orders the accesses of a work-group to local and global memory */
#define TK_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define TK_LOCAL ((tk_i32)get_local_id(0))
#define TK_GROUP_SIZE ((tk_i32)get_local_size(0))
#define TK_GROUP ((tk_idx)get_group_id(0))
#define TK_GROUPS ((tk_idx)get_num_groups(0))

typedef char tk_i8;
typedef uchar tk_u8;
typedef short tk_i16;
typedef ushort tk_u16;
typedef int tk_i32;
typedef uint tk_u32;
typedef long tk_i64;
typedef ulong tk_u64;
typedef float tk_f32;
typedef bool tk_bool;

#define tk_bits_f32(x) as_int(x)
#define tk_of_bits_f32(i) as_float((tk_i32)(i))
#define tk_fma_f32(x, y, z) fma((x), (y), (z))
#define tk_add_f32(x, y) ((x) + (y))
#define tk_sub_f32(x, y) ((x) - (y))
#define tk_mul_f32(x, y) ((x) * (y))
/* Rounds to an integer. All numbers of at least 2^23 (for f64, 2^52) are
 * integers already. The test is needed because of PoCL: when its compiler folds
 * constants, floor, ceil and trunc are undefined for NaN, and rint for
 * infinities too. */
#define TK_ROUNDING(name, T, most)                                            \
    TK_FN tk_##T tk_##name##_##T(tk_##T x)                                    \
    {                                                                         \
        return fabs(x) < most ? name(x) : x;                                  \
    }
TK_ROUNDING(floor, f32, 0x1p23f)
TK_ROUNDING(ceil, f32, 0x1p23f)
TK_ROUNDING(trunc, f32, 0x1p23f)
TK_ROUNDING(rint, f32, 0x1p23f)
#define tk_device_divide(x, y) ((x) / (y))
#define tk_device_sqrt(x) sqrt(x)

#ifdef TK_F64
typedef double tk_f64;
#define tk_bits_f64(x) as_long(x)
#define tk_of_bits_f64(i) as_double((tk_i64)(i))
#define tk_fma_f64(x, y, z) fma((x), (y), (z))
#define tk_add_f64(x, y) ((x) + (y))
#define tk_sub_f64(x, y) ((x) - (y))
#define tk_mul_f64(x, y) ((x) * (y))
#define tk_div_f64(x, y) ((x) / (y))
#define tk_sqrt_f64(x) sqrt(x)
TK_ROUNDING(floor, f64, 0x1p52)
TK_ROUNDING(ceil, f64, 0x1p52)
TK_ROUNDING(trunc, f64, 0x1p52)
TK_ROUNDING(rint, f64, 0x1p52)
#endif

#define tk_compare_exchange(p, old, new)                                      \
    atomic_cmpxchg((volatile TK_G tk_u32 *)(p), (old), (new))
#define tk_fetch_increment(p) atomic_inc((volatile TK_G tk_u32 *)(p))
#define tk_local_increment(p) atomic_inc((volatile TK_S tk_u32 *)(p))
#define tk_local_min(p, x) atomic_min((volatile TK_S tk_u32 *)(p), (x))

#elif defined(TK_PLAIN)

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>

#define TK_KERNEL static void
#ifdef __GNUC__
#define TK_FN static inline __attribute__((unused))
#else
#define TK_FN static inline
#endif
#define TK_G
#define TK_S
#define TK_SHARED(type, name, count) type name[count]
#define TK_BARRIER() ((void)0)
#define TK_LOCAL 0
#define TK_GROUP_SIZE 1
#define TK_GROUP ((tk_idx)group)
#define TK_GROUPS ((tk_idx)groups)

typedef int8_t tk_i8;
typedef uint8_t tk_u8;
typedef int16_t tk_i16;
typedef uint16_t tk_u16;
typedef int32_t tk_i32;
typedef uint32_t tk_u32;
typedef int64_t tk_i64;
typedef uint64_t tk_u64;
typedef float tk_f32;
typedef double tk_f64;
typedef _Bool tk_bool;

#define TK_REINTERPRET(T, I)                                                  \
    TK_FN tk_##I tk_bits_##T(tk_##T x)                                        \
    {                                                                         \
        union { tk_##T x; tk_##I i; } u;                                      \
        u.x = x;                                                              \
        return u.i;                                                           \
    }                                                                         \
    TK_FN tk_##T tk_of_bits_##T(tk_i64 i)                                     \
    {                                                                         \
        union { tk_##T x; tk_##I i; } u;                                      \
        u.i = (tk_##I)i;                                                      \
        return u.x;                                                           \
    }
TK_REINTERPRET(f32, i32)
TK_REINTERPRET(f64, i64)
#define tk_fma_f32(x, y, z) fmaf((x), (y), (z))
#define tk_add_f32(x, y) ((x) + (y))
#define tk_sub_f32(x, y) ((x) - (y))
#define tk_mul_f32(x, y) ((x) * (y))
#define tk_floor_f32(x) floorf(x)
#define tk_ceil_f32(x) ceilf(x)
#define tk_trunc_f32(x) truncf(x)
#define tk_rint_f32(x) rintf(x)
#define tk_device_divide(x, y) ((x) / (y))
#define tk_device_sqrt(x) sqrtf(x)
#define tk_fma_f64(x, y, z) fma((x), (y), (z))
#define tk_add_f64(x, y) ((x) + (y))
#define tk_sub_f64(x, y) ((x) - (y))
#define tk_mul_f64(x, y) ((x) * (y))
#define tk_div_f64(x, y) ((x) / (y))
#define tk_sqrt_f64(x) sqrt(x)
#define tk_floor_f64(x) floor(x)
#define tk_ceil_f64(x) ceil(x)
#define tk_trunc_f64(x) trunc(x)
#define tk_rint_f64(x) rint(x)

TK_FN tk_u32 tk_compare_exchange(tk_u32 *p, tk_u32 old, tk_u32 value)
{
    atomic_compare_exchange_strong((_Atomic tk_u32 *)p, &old, value);
    return old;
}
#define tk_fetch_increment(p) atomic_fetch_add((_Atomic tk_u32 *)(p), 1u)
#define tk_local_increment(p) (++*(p)) /* no atomic needed: a work-group is one
                                        * work-item */

#else /* CUDA C */

#define TK_KERNEL extern "C" __global__ void
#define TK_FN static __device__ __forceinline__ __attribute__((unused))
#define TK_G
#define TK_S
#define TK_RESTRICT __restrict__
#define TK_SHARED(type, name, count) __shared__ type name[count]
#define TK_BARRIER() __syncthreads()
#define TK_LOCAL ((tk_i32)threadIdx.x)
#define TK_GROUP_SIZE ((tk_i32)blockDim.x)
#define TK_GROUP ((tk_idx)blockIdx.x)
#define TK_GROUPS ((tk_idx)gridDim.x)

typedef signed char tk_i8;
typedef unsigned char tk_u8;
typedef short tk_i16;
typedef unsigned short tk_u16;
typedef int tk_i32;
typedef unsigned tk_u32;
typedef long long tk_i64;
typedef unsigned long long tk_u64;
typedef float tk_f32;
typedef bool tk_bool;

/* These intrinsics are never contracted to fma or relaxed, whatever options the
 * compiler gets. */
#define tk_bits_f32(x) __float_as_int(x)
#define tk_of_bits_f32(i) __int_as_float((tk_i32)(i))
#define tk_fma_f32(x, y, z) __fmaf_rn((x), (y), (z))
#define tk_add_f32(x, y) __fadd_rn((x), (y))
#define tk_sub_f32(x, y) __fsub_rn((x), (y))
#define tk_mul_f32(x, y) __fmul_rn((x), (y))
#define tk_floor_f32(x) floorf(x)
#define tk_ceil_f32(x) ceilf(x)
#define tk_trunc_f32(x) truncf(x)
#define tk_rint_f32(x) rintf(x)
#define tk_device_divide(x, y) __fdiv_rn((x), (y))
#define tk_device_sqrt(x) __fsqrt_rn(x)

typedef double tk_f64;
#define tk_bits_f64(x) __double_as_longlong(x)
#define tk_of_bits_f64(i) __longlong_as_double((tk_i64)(i))
#define tk_fma_f64(x, y, z) __fma_rn((x), (y), (z))
#define tk_add_f64(x, y) __dadd_rn((x), (y))
#define tk_sub_f64(x, y) __dsub_rn((x), (y))
#define tk_mul_f64(x, y) __dmul_rn((x), (y))
#define tk_div_f64(x, y) __ddiv_rn((x), (y))
#define tk_sqrt_f64(x) __dsqrt_rn(x)
#define tk_floor_f64(x) floor(x)
#define tk_ceil_f64(x) ceil(x)
#define tk_trunc_f64(x) trunc(x)
#define tk_rint_f64(x) rint(x)

/* Conversions from f32 to f16, rounded to nearest even, and back. A NaN gives
 * whichever NaN the device chooses. */
#define TK_HALVES 1
TK_FN tk_u32 tk_half_of_f32(tk_f32 x)
{
    tk_u16 code;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(x));
    return code;
}
TK_FN tk_f32 tk_f32_of_half(tk_u32 code)
{
    tk_f32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((tk_u16)code));
    return x;
}

/* Minimum and maximum as one instruction, with -0 < +0. If one argument is NaN,
 * the result may be either argument. */
#define TK_ORDERED_ZEROS 1
#define TK_CHOICE(name, instruction, T, C)                                    \
    TK_FN tk_##T tk_##name##_##T(tk_##T x, tk_##T y)                          \
    {                                                                         \
        tk_##T z;                                                             \
        asm(instruction " %0, %1, %2;" : "=" C(z) : C(x), C(y));              \
        return z;                                                             \
    }
TK_CHOICE(lesser, "min.f32", f32, "f")
TK_CHOICE(greater, "max.f32", f32, "f")
TK_CHOICE(lesser, "min.f64", f64, "d")
TK_CHOICE(greater, "max.f64", f64, "d")
#undef TK_CHOICE

#define tk_compare_exchange(p, old, new) atomicCAS((p), (old), (new))
#define tk_fetch_increment(p) atomicAdd((p), 1u)
#define tk_local_increment(p) atomicAdd((p), 1u)
#define tk_local_min(p, x) atomicMin((p), (x))

#endif

#ifdef TK_WIDE
typedef tk_i64 tk_idx;
#else
typedef tk_i32 tk_idx;
#endif
