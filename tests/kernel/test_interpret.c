/* Tests the interpreter: reductions, stages, loops, function calls, indexed
 * loads and their faults, strides, and storage types. */
#include <fenv.h>

#include "../tap.h"
#include "base/fpu.h"
#include "base/memory.h"
#include "kernel/reduction.h"
#include "kernel/kernel.h"
#include <tenon/base.h>

#define NO TN_NONE

static bool same_float(double x, double y)
{
    return isnan(x) || isnan(y) ? isnan(x) && isnan(y)
                                : x == y && !signbit(x) == !signbit(y);
}

static bool is_float_type(tn_dtype dtype)
{
    return dtype == TN_F32 || dtype == TN_F64;
}

/* ---- reductions ---------------------------------------------------------- */

/* Sums a row in the order that plugin_program.h defines, as a plain loop. */
static float naive_sum(const float *x, int64_t count)
{
    static float chunk[64][TN_LANES];
    int64_t chunks = (count + TN_CHUNK - 1) / TN_CHUNK;
    if (count == 0)
        return 0;
    for (int64_t k = 0; k < count; k++) {
        float *lane = &chunk[k / TN_CHUNK][k % TN_LANES];
        *lane = k % TN_CHUNK < TN_LANES ? x[k] : *lane + x[k];
    }
    for (int64_t c = 0; c < chunks; c++) {
        int64_t left = count - c * TN_CHUNK;
        for (int half = TN_LANES / 2; half > 0; half /= 2)
            for (int i = 0; i < half && i + half < left; i++)
                chunk[c][i] += chunk[c][i + half];
    }
    for (int64_t apart = 1; apart < chunks; apart *= 2)
        for (int64_t c = 0; c + apart < chunks; c += 2 * apart)
            chunk[c][0] += chunk[c + apart][0];
    return chunk[0][0];
}

static void test_sum_order(void)
{
    enum { MOST = 40000 };
    static float x[MOST];
    uint32_t state = 1;
    for (int i = 0; i < MOST; i++) {
        state = state * 1664525 + 1013904223;
        x[i] = ldexpf((float)(int32_t)state, (int)(state >> 8 & 31) - 40);
    }
    int64_t different = 0, tried = 0;
    for (int64_t count = 0; count <= MOST; count++) {
        /* tests all short rows, and lengths near multiples of the chunk size */
        if (count > 300 && (count + 34) % TN_CHUNK > 68)
            continue;
        tn__reduction fold;
        tn__reduction_init(&fold);
        for (int64_t i = 0; i < count; i++)
            tn__reduction_add(&fold, TN_REDUCE_SUM, TN_F32,
                              (tn_number){.f = x[i]});
        double got = tn__reduction_result(&fold, TN_REDUCE_SUM, TN_F32).f;
        different += got != (double)naive_sum(x, count);
        tried++;
    }
    is_int(different, 0, "SUM keeps the fixed order for %" PRId64 " lengths",
           tried);
    float forward = 0;
    for (int i = 0; i < MOST; i++)
        forward += x[i];
    ok(forward != naive_sum(x, MOST), "which is not the plain order");
}

static tn_number fold_of(unsigned kind, tn_dtype dtype, const tn_number *x,
                         int count)
{
    tn__reduction fold;
    tn__reduction_init(&fold);
    for (int i = 0; i < count; i++)
        tn__reduction_add(&fold, kind, dtype, x[i]);
    return tn__reduction_result(&fold, kind, dtype);
}

static void test_folds(void)
{
    const tn_number f[] = {{.f = 1}, {.f = 5}, {.f = -2}, {.f = 5}, {.f = -2}};
    ok(fold_of(TN_REDUCE_SUM, TN_F32, f, 5).f == 7, "SUM");
    ok(fold_of(TN_REDUCE_PROD, TN_F32, f, 5).f == 100, "PROD");
    ok(fold_of(TN_REDUCE_MAX, TN_F32, f, 5).f == 5, "MAX");
    ok(fold_of(TN_REDUCE_MIN, TN_F32, f, 5).f == -2, "MIN");
    is_int(fold_of(TN_REDUCE_ARGMAX, TN_F32, f, 5).i, 1, "the first greatest");
    is_int(fold_of(TN_REDUCE_ARGMIN, TN_F32, f, 5).i, 2, "the first least");
    const tn_number n[] = {{.f = 1}, {.f = NAN}, {.f = 9}, {.f = NAN}};
    ok(isnan(fold_of(TN_REDUCE_MAX, TN_F64, n, 4).f), "NaN wins MAX");
    ok(isnan(fold_of(TN_REDUCE_MIN, TN_F64, n, 4).f), "NaN wins MIN");
    is_int(fold_of(TN_REDUCE_ARGMAX, TN_F64, n, 4).i, 1, "the first NaN");
    is_int(fold_of(TN_REDUCE_ARGMIN, TN_F64, n, 4).i, 1, "the first NaN");
    const tn_number z[] = {{.f = -0.0}, {.f = 0.0}};
    ok(same_float(fold_of(TN_REDUCE_MAX, TN_F32, z, 2).f, 0.0), "-0 < +0");
    is_int(fold_of(TN_REDUCE_ARGMAX, TN_F32, z, 2).i, 0,
           "-0 equals +0 for ARGMAX");
    ok(same_float(fold_of(TN_REDUCE_SUM, TN_F32, z, 1).f, -0.0),
       "the SUM of -0 alone is -0");
    const tn_number i[] = {{.i = INT32_MAX}, {.i = 2}};
    is_int(fold_of(TN_REDUCE_SUM, TN_I32, i, 2).i, INT32_MIN + 1,
           "an i32 SUM wraps");
    is_int(fold_of(TN_REDUCE_PROD, TN_I32, i, 2).i, -2, "an i32 PROD wraps");
    const tn_number b[] = {{.i = 0}, {.i = 1}};
    is_int(fold_of(TN_REDUCE_MAX, TN_BOOL, b, 2).i, 1, "MAX of bool is any");
    is_int(fold_of(TN_REDUCE_MIN, TN_BOOL, b, 2).i, 0, "MIN of bool is all");

    ok(same_float(fold_of(TN_REDUCE_SUM, TN_F32, NULL, 0).f, 0.0),
       "an empty SUM is +0");
    ok(fold_of(TN_REDUCE_PROD, TN_F32, NULL, 0).f == 1, "an empty PROD is 1");
    ok(fold_of(TN_REDUCE_MAX, TN_F32, NULL, 0).f == -INFINITY, "empty MAX");
    ok(fold_of(TN_REDUCE_MIN, TN_F64, NULL, 0).f == INFINITY, "empty MIN");
    is_int(fold_of(TN_REDUCE_MAX, TN_I32, NULL, 0).i, INT32_MIN, "i32 MAX");
    is_int(fold_of(TN_REDUCE_MIN, TN_I64, NULL, 0).i, INT64_MAX, "i64 MIN");
    is_int(fold_of(TN_REDUCE_MAX, TN_BOOL, NULL, 0).i, 0, "empty any");
    is_int(fold_of(TN_REDUCE_MIN, TN_BOOL, NULL, 0).i, 1, "empty all");
    is_int(fold_of(TN_REDUCE_ARGMAX, TN_F32, NULL, 0).i, 0, "empty ARGMAX");
    is_int(fold_of(TN_REDUCE_SUM, TN_I64, NULL, 0).i, 0, "empty i64 SUM");
    is_int(fold_of(TN_REDUCE_PROD, TN_I64, NULL, 0).i, 1, "empty i64 PROD");
}

/* ---- programs ---------------------------------------------------------- */

enum { U = TN_LEVEL_UNIFORM, R = TN_LEVEL_ROW, E = TN_LEVEL_ELEM };

/* The parts of a program that a test sets; the rest is computed from them. */
typedef struct small_program {
    tn_kernel_ins ins[24];
    tn_kernel_operand operand[4];
    uint32_t order[32];
    tn_kernel_stage stage[3];
    uint32_t ins_count, operand_count, uniform_count, stage_count;
    const tn_kernel_fn *fn;
} small_program;

static tn_status run(const small_program *p, tn_launch *launch, void **memory,
                     tn_fault *fault)
{
    tn_program program = {
        .size = sizeof program,
        .ins_count = p->ins_count,
        .operand_count = p->operand_count,
        .fn_count = p->fn ? 1 : 0,
        .stage_count = p->stage_count,
        .order_count = 32,
        .uniform_count = p->uniform_count,
        .ins = p->ins,
        .operand = p->operand,
        .fn = p->fn,
        .stage = p->stage,
        .order = p->order,
    };
    launch->size = sizeof *launch;
    return tn__interpret(&program, launch, memory, fault);
}

static void test_softmax(void)
{
    /* e = x - rmax(x); e * (1 / rsum(e)): three stages, two of which compute
     * e */
    const small_program p = {
        .ins = {{TN_K_LOAD, TN_F32, E, 0, NO, NO, NO, {.i = 0}},
                {TN_K_REDUCE, TN_F32, R, TN_REDUCE_MAX, 0, NO, NO, {.i = 0}},
                {TN_K_SUB, TN_F32, E, 0, 0, 1, NO, {.i = 0}},
                {TN_K_REDUCE, TN_F32, R, TN_REDUCE_SUM, 2, NO, NO, {.i = 0}},
                {TN_K_DIV, TN_F32, E, 0, 2, 3, NO, {.i = 0}},
                {TN_K_STORE, TN_F32, E, 0, 4, NO, NO, {.i = 1}},
                {TN_K_STORE, TN_F32, R, 0, 3, NO, NO, {.i = 2}}},
        .ins_count = 7,
        .operand = {{TN_F32, TN_OPERAND_READ, E, 0},
                    {TN_F32, TN_OPERAND_WRITE, E, 0},
                    {TN_F32, TN_OPERAND_WRITE, R, 0}},
        .operand_count = 3,
        .order = {0, 1, 0, 2, 3, 6, 0, 2, 4, 5},
        .stage = {{0, 2, 2, 0}, {2, 3, 5, 1}, {6, 4, 10, 0}},
        .stage_count = 3,
    };
    /* rows are the columns of x, read backwards; y is contiguous */
    float x[6] = {1, 10, 2, 20, 3, 40}, y[6], s[2] = {0};
    const int64_t extent[] = {2, 3}, x_stride[] = {1, -2}, y_stride[] = {3, 1},
                  s_stride[] = {1, 0};
    const tn_launch_operand operand[] = {{.offset = 4, .stride = x_stride},
                                         {.stride = y_stride},
                                         {.stride = s_stride}};
    tn_launch launch = {
        .outer_ndim = 1, .row_ndim = 1, .extent = extent, .operand = operand};
    void *memory[] = {x, y, s};
    is_int(run(&p, &launch, memory, NULL), TN_OK, "a staged program runs");
    ok(s[0] == -3 && s[1] == -50, "a row value is stored once a row");
    const float want[] = {-0.0f, 1.0f / 3, 2.0f / 3, -0.0f, 0.4f, 0.6f};
    int same = 0;
    for (int i = 0; i < 6; i++)
        same += same_float((double)y[i], (double)want[i]);
    is_int(same, 6,
           "later stages see the row values of earlier ones, through "
           "negative and transposed strides");

    const int64_t empty[] = {2, 0}, none[] = {0, 3};
    s[0] = s[1] = 7;
    launch.extent = empty;
    is_int(run(&p, &launch, memory, NULL), TN_OK, "empty rows run");
    ok(s[0] == 0 && s[1] == 0, "their sum is 0");
    s[0] = 7;
    launch.extent = none;
    is_int(run(&p, &launch, memory, NULL), TN_OK, "no rows run");
    ok(s[0] == 7, "and store nothing");
}

static void test_loop(void)
{
    /* Computes Fibonacci numbers until a exceeds x: the carried values are
     * swapped. The loop ends at a different round for each element, and the
     * last round must not change the values. */
    const small_program p = {
        .ins = {{TN_K_CONST, TN_I64, U, 0, NO, NO, NO, {.i = 20}},
                {TN_K_CONST, TN_I64, U, 0, NO, NO, NO, {.i = 0}},
                {TN_K_CONST, TN_I64, U, 0, NO, NO, NO, {.i = 1}},
                {TN_K_LOAD, TN_I64, E, 0, NO, NO, NO, {.i = 0}},
                {TN_K_LOOP, TN_I64, E, 0, 0, NO, NO, {.i = 11}},
                {TN_K_CARRY, TN_I64, E, 0, 1, 6, NO, {.i = 0}},
                {TN_K_CARRY, TN_I64, E, 0, 2, 8, NO, {.i = 0}},
                {TN_K_CARRY, TN_I64, E, 0, 1, 4, NO, {.i = 0}},
                {TN_K_ADD, TN_I64, E, 0, 5, 6, NO, {.i = 0}},
                {TN_K_LE, TN_BOOL, E, 0, 6, 3, NO, {.i = 0}},
                {TN_K_WHILE, TN_BOOL, E, 0, 9, NO, NO, {.i = 0}},
                {TN_K_ENDLOOP, TN_I64, E, 0, NO, NO, NO, {.i = 0}},
                {TN_K_STORE, TN_I64, E, 0, 5, NO, NO, {.i = 1}},
                {TN_K_STORE, TN_I64, E, 0, 7, NO, NO, {.i = 2}}},
        .ins_count = 14,
        .operand = {{TN_I64, TN_OPERAND_READ, E, 0},
                    {TN_I64, TN_OPERAND_WRITE, E, 0},
                    {TN_I64, TN_OPERAND_WRITE, E, 0}},
        .operand_count = 3,
        .order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13},
        .uniform_count = 3,
        .stage = {{3, 11, 14, 0}},
        .stage_count = 1,
    };
    int64_t x[4] = {0, 1, 10, 100000}, y[4], rounds[4];
    const int64_t extent[] = {4}, stride[] = {1};
    const tn_launch_operand operand[] = {
        {.stride = stride}, {.stride = stride}, {.stride = stride}};
    tn_launch launch = {.outer_ndim = 1, .extent = extent, .operand = operand};
    void *memory[] = {x, y, rounds};
    is_int(run(&p, &launch, memory, NULL), TN_OK, "a loop runs");
    is_int(y[0], 0, "no round: the value before the loop");
    is_int(y[1], 1, "the greatest Fibonacci number up to 1");
    is_int(y[2], 8, "up to 10");
    is_int(y[3], 6765, "20 rounds at most");
    is_int(rounds[2], 5, "the number of the last round that counted");
    is_int(rounds[3], 19, "rounds count from 0");
}

/* Makes each allocation of a run fail in turn. */
static void test_memory(const small_program *p, tn_launch *launch,
                        void **memory)
{
    int64_t live = tn__memory_live(), before = tn__memory_count();
    run(p, launch, memory, NULL);
    int64_t count = tn__memory_count() - before;
    int refused = 0;
    for (int64_t n = 1; n <= count; n++) {
        tn__memory_fail_at(n);
        refused += run(p, launch, memory, NULL) == TN_ERR_MEMORY;
        tn__memory_fail_at(0);
    }
    ok(count > 0 && refused == count,
       "each of %" PRId64 " allocations that fails is TN_ERR_MEMORY", count);
    is_int(tn_error_code(), TN_ERR_MEMORY, "and recorded");
    tn_error_clear();
    is_int(tn__memory_live(), live, "nothing leaks");
}

static void test_call(void)
{
    static const tn_kernel_ins body[] = {
        {TN_K_ARG, TN_F32, E, 0, NO, NO, NO, {.i = 0}},
        {TN_K_ARG, TN_F32, E, 0, NO, NO, NO, {.i = 1}},
        {TN_K_CONST, TN_F32, U, 0, NO, NO, NO, {.f = 3}},
        {TN_K_FMA, TN_F32, E, 0, 0, 2, 1, {.i = 0}}};
    const tn_kernel_fn fn = {.name = "f",
                             .arg_count = 2,
                             .ins_count = 4,
                             .arg_dtype = {TN_F32, TN_F32},
                             .result = 3,
                             .dtype = TN_F32,
                             .ins = body};
    const small_program p = {
        .ins = {{TN_K_LOAD, TN_F32, E, 0, NO, NO, NO, {.i = 0}},
                {TN_K_PARAM, TN_F32, U, 0, NO, NO, NO, {.i = 0}},
                {TN_K_CALL, TN_F32, E, 0, 0, 1, NO, {.i = 0}},
                {TN_K_CALL, TN_F32, E, 0, 2, 0, NO, {.i = 0}},
                {TN_K_STORE, TN_F32, E, 0, 3, NO, NO, {.i = 1}}},
        .ins_count = 5,
        .operand = {{TN_F32, TN_OPERAND_READ, E, 0},
                    {TN_F32, TN_OPERAND_WRITE, E, 0}},
        .operand_count = 2,
        .order = {1, 0, 2, 3, 4},
        .uniform_count = 1,
        .stage = {{1, 4, 5, 0}},
        .stage_count = 1,
        .fn = &fn,
    };
    float x = 2, y = 0;
    const tn_number param[] = {{.f = 0.1}};
    const tn_launch_operand operand[] = {{.stride = NULL}, {.stride = NULL}};
    tn_launch launch = {.operand = operand, .param = param};
    void *memory[] = {&x, &y};
    is_int(run(&p, &launch, memory, NULL), TN_OK, "no dimension is one point");
    test_memory(&p, &launch, memory);
    ok(y == fmaf(6 + 0.1f, 3, 2), "calls nest their values; parameters are "
                                  "rounded to their type");
}

static void test_indices(void)
{
    /* y = x[i, j], z = x[i, j; 0] (0 if out of range), o = offset */
    const small_program p = {
        .ins = {{TN_K_LOAD, TN_I64, E, 0, NO, NO, NO, {.i = 0}},
                {TN_K_OFFSET, TN_I64, E, 0, NO, NO, NO, {.i = 2}},
                {TN_K_LOAD, TN_I32, E, 0, 0, 1, NO, {.i = 1}},
                {TN_K_LOAD, TN_I32, E, TN_LOAD_ZERO, 1, 0, NO, {.i = 1}},
                {TN_K_SUB, TN_I32, E, 0, 2, 3, NO, {.i = 0}},
                {TN_K_STORE, TN_I32, E, 0, 4, NO, NO, {.i = 3}}},
        .ins_count = 6,
        .operand = {{TN_I64, TN_OPERAND_READ, E, 0},
                    {TN_I8, TN_OPERAND_READ, E, 2},
                    {0, TN_OPERAND_OFFSET, E, 0},
                    {TN_I16, TN_OPERAND_WRITE, E, 0}},
        .operand_count = 4,
        .order = {0, 1, 2, 3, 4, 5},
        .stage = {{0, 6, 6, 0}},
        .stage_count = 1,
    };
    int64_t i[5] = {0, 1, 2, -1, 7};
    int8_t x[6] = {10, 11, 12, 20, 21, 22}; /* 2 x 3 */
    int16_t y[5] = {0};
    const int64_t extent[] = {5}, one[] = {1}, zero[] = {0}, back[] = {-1};
    const int64_t x_index[] = {3, 1}, x_extent[] = {2, 3};
    const tn_launch_operand operand[] = {
        {.stride = one},
        {.stride = zero, .index_stride = x_index, .index_extent = x_extent},
        {.offset = 2, .stride = back},
        {.stride = one}};
    tn_launch launch = {
        .outer_ndim = 1, .extent = extent, .operand = operand, .tag = 77};
    void *memory[] = {i, x, NULL, y};
    tn_fault fault = {.size = sizeof fault};
    is_int(run(&p, &launch, memory, &fault), TN_ERR_INDEX, "an index fault");
    is_int(fault.code, TN_ERR_INDEX, "its code");
    is_int(fault.position, 2, "the first position that faults");
    is_int(fault.operand, 1, "the operand");
    is_int(fault.dim, 0, "the first index that is outside");
    is_int(fault.index, 2, "its value");
    is_int(fault.extent, 2, "the bound");
    is_int(fault.tag, 77, "the launch's tag");
    is_int(y[0], 12 - 0, "x[0, 2] - x[2, 0; 0]");
    is_int(y[1], 21 - 21, "x[1, 1] - x[1, 1; 0]");
    is_int(y[2], 0 - 12, "an index outside reads 0");
    is_int(y[4], 0, "elements after a fault are computed too");
    const int64_t two[] = {2};
    launch.extent = two;
    is_int(run(&p, &launch, memory, &fault), TN_OK,
           "no fault where only TN_LOAD_ZERO is outside");
}

static void test_storage(void)
{
    /* float64 values converted to float32 and stored as each floating-point
     * dtype, then read back */
    static const tn_dtype dtypes[] = {TN_F32,    TN_F64,    TN_F16, TN_BF16,
                                      TN_F8E4M3, TN_F8E5M2, TN_I64, TN_I32,
                                      TN_I16,    TN_I8,     TN_U8,  TN_BOOL};
    static const uint8_t reg[] = {TN_F32, TN_F64, TN_F32, TN_F32,
                                  TN_F32, TN_F32, TN_I64, TN_I32,
                                  TN_I32, TN_I32, TN_I32, TN_BOOL};
    for (int t = 0; t < 12; t++) {
        bool is_float = is_float_type(reg[t]);
        small_program p = {
            .ins = {{TN_K_LOAD, TN_F64, E, 0, NO, NO, NO, {.i = 0}},
                    {TN_K_CAST, reg[t], E, 0, 0, NO, NO, {.i = 0}},
                    {TN_K_STORE, reg[t], E, 0, 1, NO, NO, {.i = 1}}},
            .ins_count = 3,
            .operand = {{TN_F64, TN_OPERAND_READ, E, 0},
                        {(uint8_t)dtypes[t], TN_OPERAND_WRITE, E, 0}},
            .operand_count = 2,
            .order = {0, 1, 2},
            .stage = {{0, 3, 3, 0}},
            .stage_count = 1,
        };
        double x[3] = {1.75, -3, 96}, back[3] = {0};
        char stored[24];
        const int64_t extent[] = {3}, stride[] = {1};
        const tn_launch_operand operand[] = {{.stride = stride},
                                             {.stride = stride}};
        tn_launch launch = {
            .row_ndim = 1, .extent = extent, .operand = operand};
        void *out[] = {x, stored}, *in[] = {stored, back};
        run(&p, &launch, out, NULL);
        p.ins[0].dtype = reg[t];
        p.ins[1].dtype = p.ins[2].dtype = TN_F64;
        p.operand[0].dtype = (uint8_t)dtypes[t];
        p.operand[1].dtype = TN_F64;
        run(&p, &launch, in, NULL);
        double minus_three = dtypes[t] == TN_U8     ? 253
                             : dtypes[t] == TN_BOOL ? 1
                                                    : -3;
        ok(back[0] == (is_float ? 1.75 : 1) && back[1] == minus_three &&
               back[2] == (dtypes[t] == TN_BOOL ? 1 : 96),
           "dtype %u is stored and read back", dtypes[t]);
    }
}

static void test_fpu(void)
{
    tn__fpu_state before = tn__fpu_read();
    fesetround(FE_UPWARD);
    tn__fpu_state odd = tn__fpu_read();
#if defined(__x86_64__)
    odd |= 0x8040; /* sets the control bits FTZ and DAZ */
    tn__fpu_restore(odd);
#endif
    const small_program p = {
        .ins = {{TN_K_LOAD, TN_F32, E, 0, NO, NO, NO, {.i = 0}},
                {TN_K_LOAD, TN_F32, E, 0, NO, NO, NO, {.i = 1}},
                {TN_K_MUL, TN_F32, E, 0, 0, 1, NO, {.i = 0}},
                {TN_K_STORE, TN_F32, E, 0, 2, NO, NO, {.i = 2}}},
        .ins_count = 4,
        .operand = {{TN_F32, TN_OPERAND_READ, E, 0},
                    {TN_F32, TN_OPERAND_READ, E, 0},
                    {TN_F32, TN_OPERAND_WRITE, E, 0}},
        .operand_count = 3,
        .order = {0, 1, 2, 3},
        .stage = {{0, 4, 4, 0}},
        .stage_count = 1,
    };
    float x[2] = {0x1p-140f, 0.1f}, y[2] = {0.5f, 0.1f}, z[2] = {0};
    const int64_t extent[] = {2}, stride[] = {1};
    const tn_launch_operand operand[] = {
        {.stride = stride}, {.stride = stride}, {.stride = stride}};
    tn_launch launch = {.outer_ndim = 1, .extent = extent, .operand = operand};
    void *memory[] = {x, y, z};
    run(&p, &launch, memory, NULL);
    bool kept = tn__fpu_read() == odd;
    tn__fpu_restore(before);
    fesetround(FE_TONEAREST);
    ok(z[0] == 0x1p-141f, "subnormals are kept where the caller flushes them");
    ok(z[1] == 0.1f * 0.1f, "rounding is to nearest where the caller's is not");
    ok(kept, "the caller's floating-point state is put back");
}

int main(void)
{
    plan_later();
    test_sum_order();
    test_folds();
    test_softmax();
    test_loop();
    test_call();
    test_indices();
    test_storage();
    test_fpu();
    ok(tn__interpret_count() > 0, "runs of the interpreter are counted");
    return done_testing();
}
