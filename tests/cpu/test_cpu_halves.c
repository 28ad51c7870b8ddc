/* Conversions between float16 and float32, by the processor's instructions or
 * by bit arithmetic, give the same bits in each instruction set of the cpu
 * plugin. Each float16 value, the numbers halfway between two of them and
 * their neighbours are converted, with NaN of various bits among them. */
#include <tenon/tenon.h>

#include "../plugins/folder.h"
#include "../tap.h"
#include "isa_here.h"

enum { VALUES = 1 << 16, INFINITY_BITS = 0x7c00, EACH = 5 };

static const char *isa;
static uint16_t half[VALUES];
static uint32_t wide[VALUES], near[EACH * VALUES];
static uint16_t rounded[EACH * VALUES];

static uint64_t hash(uint64_t h, const void *memory, size_t bytes)
{
    const uint8_t *at = memory; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ at[i]) * 1099511628211u;
    return h;
}

static bool convert(const void *from, tn_dtype dtype, int64_t count, void *to,
                    tn_dtype into)
{
    tn_tensor *x =
        tn_to_dtype(tn_tensor_from_array(from, dtype, tn_dims(count)), into);
    return tn_tensor_to_array(x, to,
                              (size_t)count * tn_dtype_bytes(into)) >= 0;
}

/* Returns whether a float16, or the number halfway between it and the next one,
 * is rounded correctly. Values of one sign are consecutive in their bits. */
static bool is_nearest(uint32_t h)
{
    const uint16_t *to = rounded + EACH * h;
    const uint32_t next = h + 1, even = h & 1 ? next : h;
    return to[0] == h && to[1] == even && to[2] == h && to[3] == next;
}

/* Prints a hash of all results, and what is wrong with them. */
static void convert_all(void)
{
    setenv("TENON_CPU_ISA", isa, 1);
    tn_scope *scope = tn_scope_open();
    for (uint32_t h = 0; h < VALUES; h++)
        half[h] = (uint16_t)h;
    bool done = convert(half, TN_F16, VALUES, wide, TN_F32);
    for (uint32_t h = 0; h < VALUES; h++) {
        uint32_t *at = near + EACH * h, middle = wide[h];
        if ((h & 0x7fff) < INFINITY_BITS - 1) {
            float a, b, sum;
            memcpy(&a, &wide[h], 4);
            memcpy(&b, &wide[h + 1], 4);
            sum = (a + b) / 2;
            memcpy(&middle, &sum, 4);
        }
        at[0] = wide[h];
        at[1] = middle;
        at[2] = middle - 1; /* the neighbours of the middle */
        at[3] = middle + 1;
        at[4] = h % 7 ? h << 16 | (h ^ 0x5a5a) : 0x7f800001 + h * 97;
    }
    done = done && convert(near, TN_F32, EACH * VALUES, rounded, TN_F16);
    int wrong = 0;
    for (uint32_t h = 0; h < VALUES; h++)
        wrong += (h & 0x7fff) < INFINITY_BITS - 1 && !is_nearest(h);
    uint64_t bits = hash(14695981039346656037u, wide, sizeof wide);
    bits = hash(bits, rounded, sizeof rounded);
    printf("%d wrong, bits %016llx %s", wrong, (unsigned long long)bits,
           done ? "" : tn_error());
    tn_scope_close(scope);
}

int main(void)
{
    static const char *const sets[] = {"generic", "v3-nojit", "v3", "v4-nojit",
                                       "v4"};
    static char first[65536];
    plan_later();
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        isa = sets[i];
        if (!is_here(isa)) {
            skip(1, isa);
            continue;
        }
        const char *now = in_child(convert_all);
        if (i == 0) {
            snprintf(first, sizeof first, "%s", now);
            ok(strncmp(now, "0 wrong", 7) == 0,
               "%s: rounded to the nearest float16", isa);
            note("%s", now);
        }
        is_str(now, first, "%s: the bits of the generic set", isa);
    }
    return done_testing();
}
