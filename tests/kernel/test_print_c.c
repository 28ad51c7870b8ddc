/* Tests the C source that is printed for small functions, and which functions
 * are rejected. tests/cpu/test_cpu_math.c checks that their results have the
 * right bits. */
#include "../tap.h"
#include <tenon/base.h>

#include "base/memory.h"
#include "kernel/print_c.h"
#include "kernel/ssa.h"

#define ARG(type) {TN_K_ARG, type, TN_LEVEL_ELEM, 0, TN_NONE, TN_NONE,      \
                   TN_NONE, {.i = 0}}

static tn_kernel_fn function(const char *name, const tn_kernel_ins *ins,
                             uint32_t count, tn_dtype type)
{
    return (tn_kernel_fn){.name = name, .arg_count = 1, .ins_count = count,
                          .arg_dtype = {(uint8_t)type}, .result = count - 1,
                          .dtype = type, .ins = ins};
}

static void test_line(void)
{
    const tn_kernel_ins ins[] = {
        ARG(TN_F32),
        {TN_K_CONST, TN_F32, TN_LEVEL_UNIFORM, 0, TN_NONE, TN_NONE, TN_NONE,
         {.f = 0.1}},
        {TN_K_FMA, TN_F32, TN_LEVEL_ELEM, 0, 0, 1, 0, {.i = 0}}};
    tn_kernel_fn fn = function("f_f32", ins, 3, TN_F32);
    char *text = tn__fn_print_c(&fn, true);
    is_str(text,
           "FN float f_f32(float a0)\n"
           "{\n"
           "    float v0 = a0;\n"
           "    float v1 = 0x1.99999ap-4f;\n"
           "    float v2 = fmaf(v0, v1, v0);\n"
           "    return v2;\n"
           "}\n\n"
           "RUN void run_f_f32(void *out, const void *a, const void *b,\n"
           "    const void *c, int64_t n)\n"
           "{\n"
           "    float *o = out;\n"
           "    const float *x = a;\n"
           "    (void)b;\n"
           "    (void)c;\n"
           "    n = WHOLE(run_f_f32, sizeof *o, sizeof *x, 0, 0);\n"
           "    EACH(i, n)\n"
           "        o[i] = f_f32(x[i]);\n"
           "}\n\n",
           "a body is printed as one definition for each instruction");
    tn__free(text);
}

static void test_constants(void)
{
    static const struct {
        int64_t value;
        tn_dtype type;
        const char *want;
    } facts[] = {{INT64_MIN, TN_I64, "v1 = INT64_MIN;"},
                 {-1, TN_I64, "v1 = INT64_C(-1);"},
                 {INT32_MIN, TN_I32, "v1 = INT32_MIN;"},
                 {0xffffffff, TN_I32, "v1 = -1;"}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        uint8_t type = (uint8_t)facts[i].type;
        const tn_kernel_ins ins[] = {
            ARG(type),
            {TN_K_CONST, type, TN_LEVEL_UNIFORM, 0, TN_NONE, TN_NONE, TN_NONE,
             {.i = facts[i].value}}};
        tn_kernel_fn fn = function("f", ins, 2, facts[i].type);
        char *text = tn__fn_print_c(&fn, true);
        ok(text && strstr(text, facts[i].want), "%" PRId64 " is printed as %s",
           facts[i].value, facts[i].want);
        tn__free(text);
    }
}

/* where(0 < x, from_bits(~bits(k * x)), other): bits() must map all NaNs to the
 * same bits, unless k * x is NaN only where x is NaN, and the result there is x
 * (other is 0, the index of x). */
static void test_bits(void)
{
    static const struct {
        double k;
        uint32_t other;
        const char *want;
    } facts[] = {{2, 0, "v5 = (int32_t)bits_f32(v4);"},
                 {0, 0, "v5 = bitcast_i32(v4);"},
                 {2, 7, "v5 = bitcast_i32(v4);"}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        tn_kernel_ins ins[] = {
            ARG(TN_F32),
            {TN_K_CONST, TN_F32, TN_LEVEL_UNIFORM, 0, TN_NONE, TN_NONE,
             TN_NONE, {.f = 0}},
            {TN_K_LT, TN_BOOL, TN_LEVEL_ELEM, 0, 1, 0, TN_NONE, {.i = 0}},
            {TN_K_CONST, TN_F32, TN_LEVEL_UNIFORM, 0, TN_NONE, TN_NONE,
             TN_NONE, {.f = facts[i].k}},
            {TN_K_MUL, TN_F32, TN_LEVEL_ELEM, 0, 0, 3, TN_NONE, {.i = 0}},
            {TN_K_BITCAST, TN_I32, TN_LEVEL_ELEM, 0, 4, TN_NONE, TN_NONE,
             {.i = 0}},
            {TN_K_NOT, TN_I32, TN_LEVEL_ELEM, 0, 5, TN_NONE, TN_NONE,
             {.i = 0}},
            {TN_K_BITCAST, TN_F32, TN_LEVEL_ELEM, 0, 6, TN_NONE, TN_NONE,
             {.i = 0}},
            {TN_K_SELECT, TN_F32, TN_LEVEL_ELEM, 0, 2, 7, facts[i].other,
             {.i = 0}}};
        tn_kernel_fn fn = function("f", ins, 9, TN_F32);
        bool marked = tn__fn_mark_nans(&fn, ins);
        char *text = tn__fn_print_c(&fn, false);
        ok(marked && text && strstr(text, facts[i].want), "%s", facts[i].want);
        tn__free(text);
    }
}

/* from_bits(bits(x) & mask): if the mask keeps all bits but the sign, the
 * result is NaN where x is, so bits() need not map all NaNs to the same
 * bits. */
static void test_sign(void)
{
    static const struct {
        int64_t mask;
        const char *want;
    } facts[] = {{0x7fffffff, "v1 = (int32_t)bits_f32(v0);"},
                 {0x7ffffffe, "v1 = bitcast_i32(v0);"}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        tn_kernel_ins ins[] = {
            ARG(TN_F32),
            {TN_K_BITCAST, TN_I32, TN_LEVEL_ELEM, 0, 0, TN_NONE, TN_NONE,
             {.i = 0}},
            {TN_K_CONST, TN_I32, TN_LEVEL_UNIFORM, 0, TN_NONE, TN_NONE,
             TN_NONE, {.i = facts[i].mask}},
            {TN_K_AND, TN_I32, TN_LEVEL_ELEM, 0, 1, 2, TN_NONE, {.i = 0}},
            {TN_K_BITCAST, TN_F32, TN_LEVEL_ELEM, 0, 3, TN_NONE, TN_NONE,
             {.i = 0}}};
        tn_kernel_fn fn = function("f", ins, 5, TN_F32);
        bool marked = tn__fn_mark_nans(&fn, ins);
        char *text = tn__fn_print_c(&fn, false);
        ok(marked && text && strstr(text, facts[i].want), "%s", facts[i].want);
        tn__free(text);
    }
}

/* from_bits(~bits(a * (a + 2))) * a for a = where(2 < y, 2, y): 0 * inf, which
 * is NaN, cannot occur if y is |x|. */
static void test_clamped(void)
{
    static const struct {
        uint8_t op;
        const char *want;
    } facts[] = {{TN_K_ABS, "v7 = (int32_t)bits_f32(v6);"},
                 {TN_K_NEG, "v7 = bitcast_i32(v6);"},
                 {TN_K_SQRT, "v7 = bitcast_i32(v6);"}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        tn_kernel_ins ins[] = {
            ARG(TN_F32),
            {facts[i].op, TN_F32, TN_LEVEL_ELEM, 0, 0, TN_NONE, TN_NONE,
             {.i = 0}},
            {TN_K_CONST, TN_F32, TN_LEVEL_UNIFORM, 0, TN_NONE, TN_NONE,
             TN_NONE, {.f = 2}},
            {TN_K_LT, TN_BOOL, TN_LEVEL_ELEM, 0, 2, 1, TN_NONE, {.i = 0}},
            {TN_K_SELECT, TN_F32, TN_LEVEL_ELEM, 0, 3, 2, 1, {.i = 0}},
            {TN_K_ADD, TN_F32, TN_LEVEL_ELEM, 0, 4, 2, TN_NONE, {.i = 0}},
            {TN_K_MUL, TN_F32, TN_LEVEL_ELEM, 0, 4, 5, TN_NONE, {.i = 0}},
            {TN_K_BITCAST, TN_I32, TN_LEVEL_ELEM, 0, 6, TN_NONE, TN_NONE,
             {.i = 0}},
            {TN_K_NOT, TN_I32, TN_LEVEL_ELEM, 0, 7, TN_NONE, TN_NONE,
             {.i = 0}},
            {TN_K_BITCAST, TN_F32, TN_LEVEL_ELEM, 0, 8, TN_NONE, TN_NONE,
             {.i = 0}},
            {TN_K_MUL, TN_F32, TN_LEVEL_ELEM, 0, 9, 4, TN_NONE, {.i = 0}}};
        tn_kernel_fn fn = function("f", ins, 11, TN_F32);
        bool marked = tn__fn_mark_nans(&fn, ins);
        char *text = tn__fn_print_c(&fn, false);
        ok(marked && text && strstr(text, facts[i].want), "%s", facts[i].want);
        tn__free(text);
    }
    static const char *const names[] = {"gelu", "gelu_slope"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *text = tn__fn_print_c(tn__math_fn(names[i], TN_F32), true);
        ok(text && !strstr(text, "bitcast_i32"), "%s reinterprets bits",
           names[i]);
        tn__free(text);
    }
}

static void test_refused(void)
{
    const tn_kernel_ins ins[] = {
        ARG(TN_F32),
        {TN_K_NARROW, TN_F32, TN_LEVEL_ELEM, TN_F16, 0, TN_NONE, TN_NONE,
         {.i = 0}}};
    tn_kernel_fn fn = function("f_f32", ins, 2, TN_F32);
    ok(!tn__fn_print_c(&fn, true), "NARROW has no C");
    is_int(tn_error_code(), TN_ERR_UNSUPPORTED, "and is refused as such");
    tn_error_clear();
}

/* Each allocation fails in turn: the result is the source, or NULL with an
 * error, and nothing leaks. */
static void test_memory(void)
{
    const tn_kernel_fn *fn = tn__math_fn("exp", TN_F32);
    int64_t live = tn__memory_live(), n;
    bool refused = true;
    char *text = NULL;
    for (n = 1; !text && n < 100; n++) {
        tn__memory_fail_at(n);
        text = tn__fn_print_c(fn, true);
        if (!text)
            refused = refused && tn_error_code() == TN_ERR_MEMORY;
        tn_error_clear();
    }
    tn__memory_fail_at(0);
    ok(text && n > 2 && refused, "without memory there is no text but an error");
    tn__free(text);
    is_int(tn__memory_live(), live, "and nothing is left behind");
}

int main(void)
{
    plan_later();
    test_line();
    test_constants();
    test_bits();
    test_sign();
    test_clamped();
    test_refused();
    test_memory();
    return done_testing();
}
