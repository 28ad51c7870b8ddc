/* isa.c: finds the instruction sets that this machine supports, and makes the
 * table of routines of each. */
#include <pthread.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "../cpu.h"
#include "../jit/native_body.h"
#include "math_table.h"

/* The number of functions that fill a table, one in each routines_*.c file. */
enum { FILLS = 16 };

typedef struct set {
    const char *name, *needs;
    uint8_t native; /* what the JIT compiler generates (native_body.h) */
    bool available;
    void (*fill[FILLS])(tn_cpu_routines *table);
    const tn_cpu_math_entry *math;
    const uint32_t *math_count;
    tn_cpu_routines table;
} set;

#define SET(isa, name, native, needs)                                         \
    {name, needs, native, false,                                              \
     {tn__cpu_arith__##isa, tn__cpu_random__##isa, tn__cpu_convert__##isa,    \
      tn__cpu_move__##isa, tn__cpu_reduce__##isa, tn__cpu_gemm__##isa,        \
      tn__cpu_conv__##isa, tn__cpu_winograd__##isa, tn__cpu_pool__##isa,      \
      tn__cpu_pair__##isa, tn__cpu_scan__##isa, tn__cpu_attention__##isa,     \
      tn__cpu_order__##isa, tn__cpu_lapack__##isa, tn__cpu_quantised__##isa,  \
      tn__cpu_rows__##isa},                                                   \
     tn__cpu_math__##isa, &tn__cpu_math_count__##isa, {0}}

#define AVX2 "AVX2, FMA and F16C"
#define AVX512 "AVX-512 F, BW, CD, DQ and VL"
#define RUNS ", or a system that runs code made at run time"

/* The instruction sets, from the plainest to the best one. The last one that is
 * available is the default. Each set of x86-64 is listed without and with the
 * JIT compiler (native_body.h). */
static set sets[] = {
    SET(generic, "generic", CPU_NATIVE_NONE, "nothing"),
#if defined(__x86_64__)
    SET(v3, "v3-nojit", CPU_NATIVE_NONE, AVX2),
    SET(v3, "v3", CPU_NATIVE_AVX2, AVX2 RUNS),
    SET(v4, "v4-nojit", CPU_NATIVE_NONE, AVX512),
    SET(v4, "v4", CPU_NATIVE_AVX512, AVX512 RUNS),
#endif
};
enum { SET_COUNT = sizeof sets / sizeof *sets, V3 = 1, V4 = 3 };
static pthread_once_t sets_once = PTHREAD_ONCE_INIT;

/* Returns whether the processor has enhanced REP MOVSB and STOSB (CPUID leaf 7,
 * EBX bit 9). */
#if defined(__x86_64__)
static bool has_strings(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 9 & 1);
}
#endif

#if defined(__x86_64__)
/* CPUID leaf 1, ECX bit 29. clang 14 does not know the name "f16c". */
static bool has_half_conversions(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}
#endif

static bool is_available(const set *s)
{
    if (s->native != CPU_NATIVE_NONE && !tn__cpu_native_available())
        return false;
#if defined(__x86_64__)
    if (s - sets >= V3 &&
        !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
          has_half_conversions() && __builtin_cpu_supports("bmi2")))
        return false;
    if (s - sets >= V4 && !(__builtin_cpu_supports("avx512f") &&
                            __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512cd") &&
                            __builtin_cpu_supports("avx512dq") &&
                            __builtin_cpu_supports("avx512vl")))
        return false;
#endif
    return true;
}

static void detect(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    /* A function that fills a table is compiled for that table's instruction
     * set and may use its instructions. Therefore tables of sets that are not
     * available stay empty. */
    for (int i = 0; i < SET_COUNT; i++) {
        set *s = &sets[i];
        s->available = is_available(s);
#if defined(__x86_64__)
        s->table.strings = has_strings();
        if (!s->available)
            continue;
        /* The tables of v4 begin as copies of v3's table. Loops that are not
         * compiled for v4 (TN_CPU_SPARE, isa.h) stay those of v3. */
        if (i >= V4) {
            s->table = sets[V3].table;
            s->table.narrower = &sets[V3].table;
        }
#endif
        s->table.isa = s->name;
        s->table.native = s->native;
        s->table.family = tn__cpu_family_here();
        for (int f = 0; f < FILLS; f++)
            s->fill[f](&s->table);
        s->table.math = s->math;
        s->table.math_count = *s->math_count;
    }
}

const tn_cpu_math_entry *tn__cpu_math_find(const tn_cpu_routines *routines,
                                           uint64_t hash)
{
    for (; routines; routines = routines->narrower)
        for (uint32_t i = 0; i < routines->math_count; i++)
            if (routines->math[i].hash == hash)
                return &routines->math[i];
    return NULL;
}

const tn_cpu_routines *tn__cpu_routines_for(const char *name)
{
    pthread_once(&sets_once, detect);
    for (int i = SET_COUNT; i-- > 0;) {
        if (name ? strcmp(name, sets[i].name) != 0 : !sets[i].available)
            continue;
        if (sets[i].available)
            return &sets[i].table;
        tn__cpu_host->fail(TN_ERR_NO_DEVICE,
                           "cpu: this machine lacks %s, which isa=%s needs",
                           sets[i].needs, name);
        return NULL;
    }
    tn__cpu_host->fail(TN_ERR_ARGUMENT, "cpu: isa=%s is unknown: use generic%s",
                       name,
                       SET_COUNT > 1 ? ", v3, v3-nojit, v4 or v4-nojit" : "");
    return NULL;
}
