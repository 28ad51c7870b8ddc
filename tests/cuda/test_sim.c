/* Compares instructions with special semantics in the simulated driver with
 * NVIDIA's PTX manual. */
#include "calls.h"

#include <math.h>

static tn_cu_stream stream;

/* Runs a kernel body and returns the stream's error. */
static tn_cu_result run(const char *body, uint64_t a, uint64_t b, uint64_t c,
                        uint64_t *d)
{
    tn_cu_module module;
    tn_cu_pointer out;
    tn_cu_function f = kernel_of(body, &module);
    MUST(cuMemAlloc_v2(&out, 8));
    void *parameters[] = {&out, &a, &b, &c};
    MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters,
                        NULL));
    tn_cu_result error = cuStreamSynchronize(stream);
    if (!error)
        error = cuMemcpyDtoHAsync_v2(d, out, 8, stream);
    if (!error)
        error = cuStreamSynchronize(stream);
    sim_mend();
    MUST(cuMemFree_v2(out));
    MUST(cuModuleUnload(module));
    return error;
}

/* ---- instructions ------------------------------------------------------- */

static uint64_t f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#define QUIET 0x7fc00000u

static void test_instructions(void)
{
    const struct {
        const char *body;
        uint64_t a, b, c, d;
    } cases[] = {
        {"shl.b32 %d, %a, %b;", 1, 31, 0, 0x80000000u},
        {"shl.b32 %d, %a, %b;", 1, 32, 0, 0},
        {"shr.u32 %d, %a, %b;", 0x80000000u, 32, 0, 0},
        {"shr.s32 %d, %a, %b;", 0x80000000u, 99, 0, 0xffffffffu},
        {"shr.u64 %d, %a, %b;", 1ull << 63, 63, 0, 1},
        {"shr.s64 %d, %a, %b;", 1ull << 63, 64, 0, ~0ull},
        {"shf.l.wrap.b32 %d, %a, %b, %c;", 0x80000001u, 0x40000000u, 33,
         0x80000001u},
        {"shf.r.wrap.b32 %d, %a, %b, %c;", 2, 1, 1, 0x80000001u},
        {"bfe.u32 %d, %a, %b, %c;", 0x12345678u, 8, 8, 0x56},
        {"bfe.u32 %d, %a, %b, %c;", 0x12345678u, 32, 8, 0},
        {"bfe.u32 %d, %a, %b, %c;", 0x12345678u, 0, 32, 0x12345678u},
        {"bfi.b32 %d, %a, %b, %c, 8;", 0x1ff, 0x12345678u, 8, 0x1234ff78u},
        {"bfi.b32 %d, %a, %b, %c, 99;", 0x1ff, 0x12345678u, 28, 0xf2345678u},
        {"bfi.b32 %d, %a, %b, %c, 8;", 0x1ff, 0x12345678u, 32, 0x12345678u},
        {"prmt.b32 %d, %a, %b, 0x5410;", 0x33221100u, 0x77665544u, 0,
         0x55441100u},
        {"prmt.b32 %d, %a, %b, 0x0008;", 0x80, 0, 0, 0x808080ffu},
        {"dp4a.s32.s32 %d, %a, %b, %c;", 0x80ff027fu, 0x80057f81u, 1,
         (uint32_t)(16384 - 5 + 254 - 127 * 127 + 1)},
        {"mul.hi.u32 %d, %a, %b;", 0xffffffffu, 0xffffffffu, 0, 0xfffffffeu},
        {"mul.hi.s64 %d, %a, %b;", ~0ull, 2, 0, ~0ull},
        {"mul.wide.s32 %d, %a, %b;", 0xffffffffu, 3, 0, (uint64_t)-3},
        {"mul.wide.u32 %d, %a, %b;", 0xffffffffu, 3, 0, 0x2fffffffdu},
        {"mad.lo.s32 %d, %a, %b, %c;", 0x80000000u, 2, 5, 5},
        {"div.s32 %d, %a, %b;", (uint32_t)-7, 2, 0, (uint32_t)-3},
        {"rem.s32 %d, %a, %b;", (uint32_t)-7, 2, 0, (uint32_t)-1},
        {"div.u16 %d, %a, %b;", 0xffff, 2, 0, 0x7fff},
        {"div.s16 %d, %a, %b;", 0x8000, 0xffff, 0, 0x8000},
        {"rem.s16 %d, %a, %b;", (uint16_t)-7, 2, 0, 0xffff},
        {"rem.u16 %d, %a, %b;", 0xffff, 10, 0, 5},
        {"div.u64 %d, %a, %b;", ~0ull, 10, 0, 1844674407370955161u},
        {"min.s32 %d, %a, %b;", (uint32_t)-1, 1, 0, (uint32_t)-1},
        {"min.u32 %d, %a, %b;", (uint32_t)-1, 1, 0, 1},
        {"min.f32 %d, %a, %b;", QUIET, f32(2.f), 0, f32(2.f)},
        {"max.f32 %d, %a, %b;", f32(-0.f), f32(0.f), 0, f32(0.f)},
        {"min.f32 %d, %a, %b;", f32(0.f), f32(-0.f), 0, f32(-0.f)},
        {"copysign.f32 %d, %a, %b;", f32(-1.f), f32(3.f), 0, f32(-3.f)},
        {"neg.f64 %d, %a;", f64(0.0), 0, 0, f64(-0.0)},
        {"abs.f32 %d, %a;", f32(-2.f), 0, 0, f32(2.f)},
        {"fma.rn.f32 %d, %a, %b, %c;", f32(0x1.000002p0f), f32(0x1.000002p0f),
         f32(-0x1.000004p0f), f32(0x1p-46f)},
        {"div.rn.f32 %d, %a, %b;", f32(1.f), f32(3.f), 0, 0x3eaaaaabu},
        {"sqrt.rn.f32 %d, %a;", f32(2.f), 0, 0, 0x3fb504f3u},
        {"ex2.approx.ftz.f32 %d, %a;", f32(-3.f), 0, 0, f32(0.125f)},
        {"ex2.approx.ftz.f32 %d, %a;", f32(-HUGE_VALF), 0, 0, 0},
        {"mul.rn.f32 %d, %a, %b;", 0x00800000u, f32(0.5f), 0, 0x00400000u},
        {"cvt.rzi.s32.f32 %d, %a;", f32(3e9f), 0, 0, 0x7fffffffu},
        {"cvt.rzi.s32.f32 %d, %a;", QUIET, 0, 0, 0},
        {"cvt.rzi.s64.f64 %d, %a;", f64(-1e30), 0, 0, 1ull << 63},
        {"cvt.rni.f32.f32 %d, %a;", f32(2.5f), 0, 0, f32(2.f)},
        {"cvt.rn.f32.f64 %d, %a;", f64(0x1.0000010000001p0), 0, 0,
         f32(0x1.000002p0f)},
        {"cvt.rn.f32.u64 %d, %a;", ~0ull, 0, 0, f32(0x1p64f)},
        {"cvt.s16.s8 %d, %a;", 0x80, 0, 0, 0xff80},
        {"setp.lt.f32 %p1, %a, %b;selp.u64 %d, 1, 2, %p1;", QUIET, 0, 0, 2},
        {"setp.ltu.f32 %p1, %a, %b;selp.u64 %d, 1, 2, %p1;", QUIET, 0, 0, 1},
        {"setp.ne.f32 %p1, %a, %b;selp.u64 %d, 1, 2, %p1;", QUIET, 0, 0, 2},
        {"setp.neu.f32 %p1, %a, %b;selp.u64 %d, 1, 2, %p1;", QUIET, 0, 0, 1},
        {"setp.num.f64 %p1, %a, %b;selp.u64 %d, 1, 2, %p1;", 0, 0, 0, 1},
        {"setp.lt.s32 %p1, %a, %b;@!%p1 mov.u64 %d, 7;", 1, 0, 0, 7},
        {"{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %a; mov.b64 %d, {hi, lo}; }",
         0x1111111122222222u, 0, 0, 0x2222222211111111u},
        {"st.shared.u8 [s+3], %a;ld.shared.s8 %d, [s+3];", 0x90, 0, 0,
         (uint64_t)-112},
        {"st.global.u64 [%rd1], %a;atom.global.add.u32 %b, [%rd1], 5;"
         "ld.global.u64 %d, [%rd1];",
         7, 0, 0, 12},
        {"st.global.u64 [%rd1], %a;atom.global.cas.b32 %d, [%rd1], 7, 9;"
         "ld.global.u32 %b, [%rd1];add.u64 %d, %d, %b;",
         7, 0, 0, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t d = 0;
        tn_cu_result error = run(cases[i].body, cases[i].a, cases[i].b,
                                 cases[i].c, &d);
        /* a narrower result does not change the upper bits of the register */
        ok(!error && (d == cases[i].d ||
                      (d & 0xffffffffu) == cases[i].d),
           "%s of %llx %llx %llx: %llx", cases[i].body,
           (unsigned long long)cases[i].a, (unsigned long long)cases[i].b,
           (unsigned long long)cases[i].c, (unsigned long long)d);
    }
}

int main(void)
{
    tn_cu_context context;
    plan_later();
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, TN_CU_NON_BLOCKING));
    test_instructions();
    return done_testing();
}
