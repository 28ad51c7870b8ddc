/* Tests products of rows with rows, such as x W^T of a layer. A row of the
 * result must be bit-identical alone and among other rows, for all numbers of
 * threads, and in all instruction sets with fma. Each element must be near the
 * sum in double. Relaxed products of bfloat16 have bits of their own on a
 * processor that has dot products. */
#include <math.h>

#include "cpu_plugin.h"

enum { MOST = 300 }; /* rows of a */

static const struct shape {
    int64_t m, n, k, gap; /* gap: unused elements between rows of b */
} shapes[] = {
    {9, 2, 17, 0},    {5, 3, 16, 0},     {130, 17, 31, 3}, {7, 64, 64, 0},
    {MOST, 25, 768, 0}, {9, 1000, 1024, 0}, {6, 13, 1100, 8}, {3, 600, 3001, 0},
    {5, 30, 1030, 1},   {6, 20, 27, 0},
    {5, 7, 77, 2},      {19, 20, 1100, 3},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static double value_at(const void *memory, tn_dtype dtype, int64_t i)
{
    if (dtype == TN_F32)
        return (double)((const float *)memory)[i];
    const unsigned code = ((const uint16_t *)memory)[i];
    if (dtype == TN_BF16) {
        const uint32_t bits = (uint32_t)code << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        return (double)x;
    }
    const int exponent = code >> 10 & 31;
    const double size = ldexp((code & 1023) + (exponent ? 1024 : 0),
                              (exponent ? exponent : 1) - 25);
    return code & 0x8000 ? -size : size;
}

/* Fills memory with numbers between -2 and 2; some float16 are subnormal. */
static void fill(void *memory, tn_dtype dtype, int64_t elements)
{
    for (int64_t i = 0; i < elements; i++) {
        const int64_t sign = random_below(2) << 15;
        if (dtype == TN_F32)
            ((float *)memory)[i] = (float)random_below(4001) / 1000 - 2;
        else if (dtype == TN_F16)
            ((uint16_t *)memory)[i] =
                (uint16_t)(sign | random_below(16 << 10));
        else
            ((uint16_t *)memory)[i] =
                (uint16_t)(sign | (120 + random_below(8)) << 7 |
                           random_below(128));
    }
}

static tn_matmul_args args_of(const struct shape *s, tn_dtype dtype,
                              uint64_t flags, void *memory[3])
{
    tn_matmul_args m = {.size = sizeof m, .m = s->m, .n = s->n, .k = s->k,
                        .alpha = 1, .flags = flags};
    tn_strided *views[3] = {&m.a, &m.b, &m.c};
    const int64_t stride[3][2] = {{s->k, 1}, {1, s->k + s->gap}, {s->n, 1}};
    const int64_t elements[3] = {s->m * s->k, s->n * (s->k + s->gap),
                                 s->m * s->n};
    for (int v = 0; v < 3; v++) {
        const size_t bytes = (size_t)elements[v] * (dtype == TN_F32 ? 4 : 2);
        *views[v] = (tn_strided){.buffer = buffer_new(bytes, &memory[v]),
                                 .dtype = dtype, .ndim = 2,
                                 .stride = {stride[v][0], stride[v][1]}};
        if (v < 2)
            fill(memory[v], dtype, elements[v]);
    }
    return m;
}

static void multiply(const tn_matmul_args *m)
{
    if (cpu->matmul(queue, m) != TN_OK)
        bail_out("%s", failure);
}

/* Returns whether every 7th element is near the sum in double. */
static bool is_near(const tn_matmul_args *m, void *const memory[3])
{
    const tn_dtype dtype = (tn_dtype)m->c.dtype;
    for (int64_t e = 0; e < m->m * m->n; e += 7) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < m->k; p++) {
            const double x =
                value_at(memory[0], dtype, e / m->n * m->k + p) *
                value_at(memory[1], dtype, e % m->n * m->b.stride[1] + p);
            sum += x;
            size += fabs(x);
        }
        const double got = value_at(memory[2], dtype, e);
        const double unit = dtype == TN_F32   ? 0
                            : dtype == TN_F16 ? 0x1p-11
                                              : 0x1p-8;
        if (!(fabs(got - sum) <= 1e-6 * size + unit * fabs(sum) + 0x1p-24)) {
            note("(%d, %d, %d): element %d is %g, expected %g", (int)m->m,
                 (int)m->n, (int)m->k, (int)e, got, sum);
            return false;
        }
    }
    return true;
}

static uint64_t hash_of(uint64_t hash, const void *memory, size_t bytes)
{
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

/* Runs all shapes. Stores whether all are near and equal to rows computed
 * alone. Returns a hash of the bits of the results. */
static uint64_t run(tn_dtype dtype, uint64_t flags, bool *near, bool *alone)
{
    uint64_t hash = 14695981039346656037u;
    const size_t size = dtype == TN_F32 ? 4 : 2;
    random_state = 5;
    for (int i = 0; i < SHAPES; i++) {
        void *memory[3];
        tn_matmul_args m = args_of(&shapes[i], dtype, flags, memory);
        const size_t bytes = (size_t)(m.m * m.n) * size;
        char *whole = malloc(bytes);
        if (!whole)
            bail_out("out of memory");
        multiply(&m);
        *near = is_near(&m, memory) && *near;
        memcpy(whole, memory[2], bytes);
        memset(memory[2], 0xff, bytes);
        m.m = 1;
        for (int64_t r = 0; r < shapes[i].m; r++) {
            multiply(&m);
            m.a.offset += m.k;
            m.c.offset += m.n;
        }
        *alone = memcmp(whole, memory[2], bytes) == 0 && *alone;
        hash = hash_of(hash, whole, bytes);
        free(whole);
        buffer_drop(m.a.buffer);
        buffer_drop(m.b.buffer);
        buffer_drop(m.c.buffer);
    }
    return hash;
}

static uint64_t relaxed; /* the hash of relaxed products with dot products */
static uint64_t first[3]; /* the hash of the instruction set v3, for each dtype;
                             0 if it was not run */

static void test(const char *isa, int threads)
{
    static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
    for (int d = 0; d < 3; d++) {
        bool near = true, alone = true;
        const uint64_t hash = run(dtypes[d], 0, &near, &alone);
        ok(near, "%s, %d threads, dtype %d: near the sums in double", isa,
           threads, dtypes[d]);
        ok(alone, "%s, %d threads, dtype %d: a row alone has the bits of the "
                  "whole", isa, threads, dtypes[d]);
#if defined(__x86_64__)
        if (strcmp(isa, "generic") == 0)
            continue; /* it has no fma */
#endif
        if (!first[d])
            first[d] = hash;
        ok(hash == first[d], "%s, %d threads, dtype %d: the bits of the other "
                             "instruction sets", isa, threads, dtypes[d]);
    }
    bool near = true, alone = true;
    const uint64_t hash = run(TN_BF16, TN_MATMUL_RELAXED, &near, &alone);
    ok(near, "%s, %d threads, relaxed: near the sums in double", isa, threads);
    ok(alone, "%s, %d threads, relaxed: a row alone has the bits of the whole",
       isa, threads);
    bool dots = false;
#if defined(__x86_64__)
    dots = strncmp(isa, "v4", 2) == 0 && __builtin_cpu_supports("avx512bf16");
    if (strcmp(isa, "generic") == 0)
        return;
#endif
    if (dots && !relaxed)
        relaxed = hash;
    ok(hash == (dots ? relaxed : first[2]),
       "%s, %d threads, relaxed: %s", isa, threads,
       dots ? "the bits of the dot products" : "the bits of products that are "
                                               "not");
}

int main(void)
{
    plan_later();
    plugin_load();
    plugin_each(test);
    return done_testing();
}
