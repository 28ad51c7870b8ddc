/* math_table.c: the mathematical functions (exp, sin, erf ...) for one
 * instruction set. Their C code is generated at build time
 * (build-aux/print_math.c). This file has the loop around the generated code,
 * and the table of mathematical functions. */
#include "isa.h"
#include "math_ops.h"
#include "math_table.h"

/* The generated loops process whole vectors only, which makes their code three
 * times smaller. The values after the last whole vector are processed as one
 * more vector, padded with copies of the last value. */
#if defined(__FMA__) || defined(__aarch64__)
enum { LANES = TN_CPU_VECTOR / 4 };
#else
/* Without FMA instructions, fma() is a function call, so loops are not
 * vectorised. */
enum { LANES = 1 };
#endif

static __attribute__((noinline)) void
run_rest(tn_cpu_math *run, char *out, const void *const *in, int64_t n,
         size_t out_bytes, const size_t *in_bytes)
{
    double memory[4][LANES]; /* for the values after the last whole vector;
                              * large enough for the widest type */
    size_t rest = (size_t)n % LANES, done = (size_t)n - rest;
    for (int k = 0; k < 3; k++) {
        char *to = (char *)memory[k];
        size_t bytes = in_bytes[k];
        if (bytes == 0)
            continue;
        memcpy(to, (const char *)in[k] + done * bytes, rest * bytes);
        for (size_t i = rest; i < LANES; i++)
            memcpy(to + i * bytes, to + (rest - 1) * bytes, bytes);
    }
    run(memory[3], memory[0], memory[1], memory[2], LANES);
    memcpy(out + done * out_bytes, memory[3], rest * out_bytes);
}

static inline __attribute__((always_inline)) int64_t
whole_vectors(tn_cpu_math *run, void *out, const void *a, const void *b,
              const void *c, int64_t n, size_t out_bytes, size_t a_bytes,
              size_t b_bytes, size_t c_bytes)
{
    if (n % LANES != 0)
        run_rest(run, out, (const void *const[]){a, b, c}, n, out_bytes,
                 (const size_t[]){a_bytes, b_bytes, c_bytes});
    return n & ~(int64_t)(LANES - 1);
}
#define WHOLE(run, ...) whole_vectors(run, out, a, b, c, n, __VA_ARGS__)

/* Loops of math_routines.inc that are not compiled leave unused variables. */
#pragma GCC diagnostic ignored "-Wunused-variable"
#define run_exp_f32 run_any_exp_f32
#include "math_routines.inc"
#undef run_exp_f32

/* Computes exp of float32 (elementary.def) as exp(r) times a power of two.
 * Usually all results of a block are normal numbers. They are then computed
 * without special cases. The results are bit-identical to those of the general
 * loop. This was tested for every float32 x. */
RUN void run_exp_f32(void *out, const void *a, const void *b, const void *c,
                        int64_t n)
{
    /* 87: if |x| <= 87, exp(x) is a normal number. */
    enum { BLOCK = 128, WIDEST = 0x42ae0000 };
    for (int64_t i = 0, m; i < n; i += m) {
        const float *x = (const float *)a + i;
        float *o = (float *)out + i;
        m = n - i < BLOCK ? n - i : BLOCK;
        uint32_t most = 0;
        EACH(k, m)
        {
            uint32_t u = bits_f32(x[k]) & 0x7fffffffu;
            most = u > most ? u : most;
        }
        if (m % LANES != 0 || most > WIDEST) {
            run_any_exp_f32(o, x, b, c, m);
            continue;
        }
        EACH(k, m)
        {
            float t = fmaf(x[k], 0x1.715476p+0f, 0x1.8p+23f);
            float whole = t - 0x1.8p+23f;
            float r = fmaf(whole, -0x1.62e43p-1f, x[k]);
            r = fmaf(whole, 0x1.05c61p-29f, r);
            float p = fmaf(0x1.9e0c28p-13f, r, 0x1.6d4372p-10f);
            p = fmaf(p, r, 0x1.111306p-7f);
            p = fmaf(p, r, 0x1.5554fp-5f);
            p = fmaf(p, r, 0x1.555554p-3f);
            p = fmaf(p, r, 0x1p-1f);
            p = fmaf(r * r, p, r) + 1;
            o[k] = p * float_of((bits_f32(t) - (0x4b400000u - 127u)) << 23);
        }
    }
}

/* The generic set has no loops for functions that use float64, which would add
 * 70 KB. Programs run these rare functions instruction by instruction, which
 * takes little longer (1.25 times for lgamma of float32), because most of their
 * time is calls of fma(). */
const tn_cpu_math_entry TN_CPU_NAME(tn__cpu_math)[] = {
#if !defined(TN_CPU_SPARE)
    TN_CPU_MATH_F32_ROWS
#endif
    TN_CPU_MATH_I64_ROWS
#if !defined(TN_CPU_PLAIN)
    TN_CPU_MATH_F64_ROWS
#endif
};
const uint32_t TN_CPU_NAME(tn__cpu_math_count) =
    sizeof TN_CPU_NAME(tn__cpu_math) / sizeof *TN_CPU_NAME(tn__cpu_math);
