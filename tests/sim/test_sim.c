/* The simulated driver: instructions that have a meaning of PTX's own against
 * its manual, and seeded bugs, each of which it must find. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "sim.h"

#define DECLARE(field, symbol, parameters) tn_cu_result symbol parameters;
TN_CUDA_DRIVER_MAP(DECLARE)
#undef DECLARE
void sim_said(char *out, size_t room);
size_t sim_live(void);
void sim_mend(void);

static tn_cu_stream stream;

/* Fails the test program: what must not fail here has. */
static void must(tn_cu_result error, const char *what)
{
    char said[2048];
    if (!error)
        return;
    sim_said(said, sizeof said);
    bail_out("%s: error %d: %s", what, error, said);
}
#define MUST(call) must(call, #call)

/* A kernel whose body reads %a, %b, %c (64 bits) and leaves %d. */
static const char form[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry f(.param .u64 p0, .param .u64 a, .param .u64 b,\n"
    " .param .u64 c)\n{\n"
    ".reg .b64 %%rd<9>;\n.reg .b64 %%a, %%b, %%c, %%d;\n.reg .pred %%p<4>;\n"
    ".shared .align 4 .b8 s[64];\n"
    "ld.param.u64 %%rd1, [p0];\nld.param.u64 %%a, [a];\n"
    "ld.param.u64 %%b, [b];\nld.param.u64 %%c, [c];\nmov.u64 %%d, 0;\n"
    "%s\nst.global.u64 [%%rd1], %%d;\nret;\n}\n";

static tn_cu_function kernel_of(const char *body, tn_cu_module *module)
{
    char text[4096];
    tn_cu_function f;
    snprintf(text, sizeof text, form, body);
    must(cuModuleLoadData(module, text), body);
    MUST(cuModuleGetFunction(&f, *module, "f"));
    return f;
}

/* Runs a body over so many threads; what the stream ends with. */
static tn_cu_result run(const char *body, unsigned threads, uint64_t a,
                        uint64_t b, uint64_t c, uint64_t *d)
{
    tn_cu_module module;
    tn_cu_pointer out;
    tn_cu_function f = kernel_of(body, &module);
    MUST(cuMemAlloc_v2(&out, 8));
    void *parameters[] = {&out, &a, &b, &c};
    MUST(cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, stream, parameters,
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
        {"mul.hi.u32 %d, %a, %b;", 0xffffffffu, 0xffffffffu, 0, 0xfffffffeu},
        {"mul.hi.s64 %d, %a, %b;", ~0ull, 2, 0, ~0ull},
        {"mul.wide.s32 %d, %a, %b;", 0xffffffffu, 3, 0, (uint64_t)-3},
        {"mul.wide.u32 %d, %a, %b;", 0xffffffffu, 3, 0, 0x2fffffffdu},
        {"mad.lo.s32 %d, %a, %b, %c;", 0x80000000u, 2, 5, 5},
        {"div.s32 %d, %a, %b;", (uint32_t)-7, 2, 0, (uint32_t)-3},
        {"rem.s32 %d, %a, %b;", (uint32_t)-7, 2, 0, (uint32_t)-1},
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
        tn_cu_result error = run(cases[i].body, 1, cases[i].a, cases[i].b,
                                 cases[i].c, &d);
        /* what is narrower leaves the rest of the register as it was */
        ok(!error && (d == cases[i].d ||
                      (d & 0xffffffffu) == cases[i].d),
           "%s of %llx %llx %llx: %llx", cases[i].body,
           (unsigned long long)cases[i].a, (unsigned long long)cases[i].b,
           (unsigned long long)cases[i].c, (unsigned long long)d);
    }
}

/* ---- seeded bugs -------------------------------------------------------- */

static const struct {
    const char *bug, *body;
    unsigned threads;
    tn_cu_result error;
    const char *says;
} bugs[] = {
    {"a write past the end", "st.global.u32 [%rd1+8], 1;", 1,
     TN_CU_ILLEGAL_ADDRESS, "at 8 in a block of 8"},
    {"a write before the beginning", "st.global.u32 [%rd1+-4], 1;", 1,
     TN_CU_ILLEGAL_ADDRESS, "a write of 4 bytes"},
    {"a read that ends past the end", "ld.global.u64 %d, [%rd1+8];", 1,
     TN_CU_ILLEGAL_ADDRESS, "a read of 8 bytes"},
    {"a host's pointer", "ld.global.u64 %d, [%a];", 1, TN_CU_ILLEGAL_ADDRESS,
     "which is no device memory"},
    {"a null pointer", "ld.global.u64 %d, [%b];", 1, TN_CU_ILLEGAL_ADDRESS,
     "which is no device memory"},
    {"a misaligned read", "ld.global.u32 %d, [%rd1+2];", 1,
     TN_CU_MISALIGNED_ADDRESS, "is misaligned"},
    {"a misaligned vector", "ld.global.v2.u32 {%b, %c}, [%rd1+4];", 1,
     TN_CU_MISALIGNED_ADDRESS, "is misaligned"},
    {"a write beyond shared memory", "st.shared.u32 [s+64], 1;", 1,
     TN_CU_ILLEGAL_ADDRESS, "of 64 bytes of shared memory"},
    {"a barrier that half of the group reaches",
     "mov.u32 %b, %tid.x;setp.lt.u32 %p1, %b, 2;@%p1 bra $out;bar.sync 0;"
     "$out:",
     4, TN_CU_LAUNCH_FAILED, "not all threads of a group reach"},
    {"two barriers for one",
     "mov.u32 %b, %tid.x;setp.lt.u32 %p1, %b, 2;@%p1 bra $two;bar.sync 0;"
     "bra $out;$two: bar.sync 0;$out:",
     4, TN_CU_LAUNCH_FAILED, "not all threads of a group reach"},
};

static void test_bugs(void)
{
    static uint64_t on_host;
    char said[2048];
    uint64_t d;
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs; i++) {
        sim_said(said, sizeof said);
        tn_cu_result error = run(bugs[i].body, bugs[i].threads,
                                 (uint64_t)(uintptr_t)&on_host, 0, 0, &d);
        sim_said(said, sizeof said);
        ok(error == bugs[i].error && strstr(said, bugs[i].says) &&
               strstr(said, "in f, line "),
           "%s: error %d, %s", bugs[i].bug, error, said);
    }
}

static void test_memory(void)
{
    char said[2048];
    uint64_t d = 0, seven = 7;
    tn_cu_pointer one, two;
    MUST(cuMemAlloc_v2(&one, 8));
    MUST(cuMemFree_v2(one));
    is_int(cuMemFree_v2(one), TN_CU_INVALID_VALUE, "a second free");
    MUST(cuMemAlloc_v2(&two, 8));
    ok(one != two, "an address is not given out again");
    MUST(cuMemcpyHtoDAsync_v2(one, &seven, 8, stream));
    is_int(cuStreamSynchronize(stream), TN_CU_ILLEGAL_ADDRESS,
           "a copy to freed memory");
    is_int(cuMemFree_v2(two), TN_CU_ILLEGAL_ADDRESS,
           "after a fault every call returns it");
    sim_said(said, sizeof said);
    ok(strstr(said, "in a freed block"), "said: %s", said);
    sim_mend();
    MUST(cuMemcpyHtoDAsync_v2(two, &seven, 8, stream));
    MUST(cuMemcpyDtoHAsync_v2(&d, two, 8, stream));
    is_int((int64_t)d, 0, "a copy is not there before it was waited for");
    MUST(cuStreamSynchronize(stream));
    is_int((int64_t)d, 7, "and is then");
    MUST(cuMemFree_v2(two));
}

static void test_events(void)
{
    tn_cu_stream other;
    tn_cu_event event;
    tn_cu_pointer p;
    uint64_t seven = 7, before = 0, after = 0;
    MUST(cuStreamCreate(&other, TN_CU_NON_BLOCKING));
    MUST(cuEventCreate(&event, TN_CU_NO_TIMING));
    MUST(cuMemAlloc_v2(&p, 8));
    MUST(cuMemcpyHtoDAsync_v2(p, &seven, 8, stream));
    MUST(cuEventRecord(event, stream));
    MUST(cuMemcpyDtoHAsync_v2(&before, p, 8, other));
    MUST(cuStreamSynchronize(other));
    ok(before != 7, "another stream that does not wait sees old data");
    MUST(cuStreamWaitEvent(other, event, 0));
    MUST(cuMemcpyDtoHAsync_v2(&after, p, 8, other));
    MUST(cuStreamSynchronize(other));
    is_int((int64_t)after, 7, "one that waits for the event sees new data");
    is_int(cuEventQuery(event), 0, "the event is done");
    MUST(cuEventDestroy_v2(event));
    MUST(cuStreamDestroy_v2(other));
    MUST(cuMemFree_v2(p));
}

static void test_refusals(void)
{
    char said[2048], text[4096];
    tn_cu_module module;
    tn_cu_function f = kernel_of("", &module);
    sim_said(said, sizeof said);
    is_int(cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, stream, NULL, NULL),
           TN_CU_INVALID_VALUE, "a group of 2048 threads");
    is_int(cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
           TN_CU_INVALID_VALUE, "a launch of nothing");
    MUST(cuModuleUnload(module));
    snprintf(text, sizeof text, form, "wmma.load %d, %a;");
    is_int(cuModuleLoadData(&module, text), TN_CU_INVALID_PTX,
           "an instruction that is unknown");
    sim_said(said, sizeof said);
    ok(strstr(said, "line 16: an instruction that the simulator does not "
                    "know: 'wmma.load'"),
       "said: %s", said);
    MUST(cuCtxSetCurrent(NULL));
    is_int(cuStreamSynchronize(stream), TN_CU_INVALID_CONTEXT,
           "a call without a context");
}

int main(void)
{
    tn_cu_context context;
    plan_later();
    is_int(cuMemAlloc_v2(&(tn_cu_pointer){0}, 8), 3, "a call before cuInit");
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, TN_CU_NON_BLOCKING));
    test_instructions();
    test_bugs();
    test_memory();
    test_events();
    test_refusals();
    MUST(cuStreamDestroy_v2(stream));
    is_int((int64_t)sim_live(), 0, "nothing is left on the device");
    return done_testing();
}
