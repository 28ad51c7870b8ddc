/* The generated C of the cpu plugin's mathematical functions is compared with
 * the kernel bodies that it was generated from. Each common function has one
 * version for the generic instruction set and one for the others, and where
 * possible one without float64. All give results bit-identical to the
 * interpreter's, for every instruction set. */
#include "../tap.h"
#include <tenon/base.h>

#include "../../backends/cpu/simd/math_table.h"
#include "isa_here.h"
#include "kernel/kernel.h"

enum { COUNT = 4099 }; /* not a multiple of a vector's length, so that loops
                        * have a remainder */

static const struct set {
    const char *name;
    const tn_cpu_math_entry *math;
    const uint32_t *count;
} sets[] = {
#define SET(isa) {#isa, tn__cpu_math__##isa, &tn__cpu_math_count__##isa},
    SET(generic)
#if defined(__x86_64__)
    SET(v3) SET(v4)
#endif
#undef SET
};

static uint64_t random_state = 20261121;

static uint64_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545f4914f6cdd1dull;
}

static double random_unit(void) /* returns a number in [-1, 1) */
{
    return (double)(int64_t)random_bits() * 0x1p-63;
}

/* Fills with common magnitudes only: up to 84, and some values of 87 and
 * -87. */
static void fill_usual(void *array, tn_dtype type)
{
    for (int i = 0; i < COUNT; i++) {
        double d = random_unit() * exp2(6.4 - fabs(random_unit()) * 20);
        if (i % 64 < 4)
            d = i % 2 ? 87 : -87;
        float f = (float)d;
        if (type == TN_F64)
            memcpy((char *)array + 8 * i, &d, 8);
        else
            memcpy((char *)array + 4 * i, &f, 4);
    }
}

/* Fills with arbitrary bits, small numbers, numbers of any magnitude, and
 * special values, in turn. */
static void fill(void *array, tn_dtype type)
{
    static const double edge[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN,
                                  0x1p-149, 0x1p-1074, 0x1p127, 0x1p1023, 2};
    for (int i = 0; i < COUNT; i++) {
        uint64_t bits = random_bits();
        double d = random_unit();
        if (i % 4 == 1)
            d = d * 12;
        else if (i % 4 == 2)
            d = (bits & 1 ? 1 : -1) * exp2(d * 100);
        else if (i % 4 == 3)
            d = edge[bits % (sizeof edge / sizeof *edge)];
        float f = (float)d;
        if (i % 4 == 0) {
            memcpy(&d, &bits, sizeof d);
            memcpy(&f, &bits, sizeof f);
        }
        if (type == TN_F64)
            memcpy((char *)array + 8 * i, &d, 8);
        else
            memcpy((char *)array + 4 * i, &f, 4);
    }
}

static bool same(const void *a, const void *b, int i, tn_dtype type)
{
    if (type == TN_F64) {
        const double *x = a, *y = b;
        return !memcmp(x + i, y + i, 8) || (isnan(x[i]) && isnan(y[i]));
    }
    const float *x = a, *y = b;
    return !memcmp(x + i, y + i, 4) || (isnan(x[i]) && isnan(y[i]));
}

/* Stores the interpreter's results for this function in out. */
static bool interpret(const tn_kernel_fn *fn, double (*in)[COUNT], void *out)
{
    static const char *const args[] = {"", "x", "x, y", "x, y, z"};
    static const int64_t stride[1] = {1}, extent[1] = {COUNT};
    char text[160];
    tn_dtype dtype[3] = {fn->dtype, fn->dtype, fn->dtype};
    int length = (int)(strrchr(fn->name, '_') - fn->name);
    snprintf(text, sizeof text, "f(%s) = %.*s(%s)", args[fn->arg_count],
             length, fn->name, args[fn->arg_count]);
    tn__def *def = tn__def_parse(text, "test");
    const tn__kernel *kernel = def ? tn__def_kernel(def, dtype) : NULL;
    const tn_program *program = kernel ? tn__kernel_program(kernel) : NULL;
    if (!program)
        return false;
    tn_launch_operand operand[4] = {{.stride = stride}, {.stride = stride},
                                    {.stride = stride}, {.stride = stride}};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                        .extent = extent, .operand = operand};
    void *memory[4] = {in[0], in[1], in[2], in[2]};
    memory[fn->arg_count] = out;
    tn_fault fault = {.size = sizeof fault};
    return tn__interpret(program, &launch, memory, &fault) == TN_OK;
}

static bool has_f64(const tn_kernel_fn *fn)
{
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].dtype == TN_F64)
            return true;
    return false;
}

static bool has_i64(const tn_kernel_fn *fn)
{
    for (uint32_t i = 0; i < fn->ins_count; i++)
        if (fn->ins[i].dtype == TN_I64)
            return true;
    return false;
}

static const tn_cpu_math_entry *find(const struct set *set, uint64_t hash)
{
    for (uint32_t i = 0; i < *set->count; i++)
        if (set->math[i].hash == hash)
            return &set->math[i];
    return NULL;
}

static void test_function(const tn_kernel_fn *fn,
                          void (*make)(void *, tn_dtype))
{
    static double in[3][COUNT], want[COUNT], got[COUNT];
    for (uint32_t k = 0; k < fn->arg_count; k++)
        make(in[k], fn->dtype);
    if (!ok(interpret(fn, in, want), "%s is interpreted", fn->name)) {
        note("%s", tn_error());
        tn_error_clear();
        return;
    }
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        const tn_cpu_math_entry *entry = find(&sets[s], fn->hash);
        if (s == 0 && sizeof sets > sizeof *sets && has_f64(fn)) {
            ok(!entry, "%s is left out of generic", fn->name);
            continue;
        }
        /* v4 uses v3's functions if the JIT compiler supports them. */
        if (!strcmp(sets[s].name, "v4") && !has_f64(fn) &&
            !has_i64(fn)) {
            ok(!entry, "%s is left out of v4", fn->name);
            continue;
        }
        if (!ok(entry && !strcmp(entry->name, fn->name),
                "%s is printed for %s", fn->name, sets[s].name))
            continue;
        if (!is_here(sets[s].name)) {
            skip(1, "this machine cannot run the set");
            continue;
        }
        entry->run(got, in[0], in[1], in[2], COUNT);
        int wrong = -1, i;
        for (i = 0; i < COUNT && wrong < 0; i++)
            if (!same(want, got, i, fn->dtype))
                wrong = i;
        is_int(wrong, -1, "%s on %s gives the interpreter's bits", fn->name,
               sets[s].name);
    }
}

int main(void)
{
    plan_later();
    note("seed %" PRIu64, random_state);
    int count = tn__math_fn_count();
    ok(count > 0, "there are functions");
    for (int i = 0; i < count; i++)
        if (!tn__math_fn_is_rare(i)) {
            test_function(tn__math_fn_at(i), fill);
            test_function(tn__math_fn_at(i), fill_usual);
        }
    return done_testing();
}
