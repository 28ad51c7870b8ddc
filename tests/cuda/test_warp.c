/* Compares warp-level matrix instructions and asynchronous copies of the
 * simulated driver with the layouts of NVIDIA's manual (PTX ISA 8, "Matrix
 * Fragments for mma.m16n8k16", "ldmatrix", "cp.async"). Wrong uses must be
 * detected. */
#include "calls.h"

#include "../../lib/kernel/narrow_float.h"

enum { LANES = 32 };

static tn_cu_stream stream;

/* A kernel in which thread t reads the words a[8 t] ... a[8 t + 7] and writes
 * d[8 t] ... d[8 t + 7]. Registers: %r0 to %r15, %f0 to %f7; %q is the thread's
 * address in a, %u its address in d, %t the thread's index. s is 1 KiB of
 * shared memory. */
static const char form[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry f(.param .u64 a, .param .u64 d)\n{\n"
    ".reg .b64 %%q, %%u, %%rd<4>;\n.reg .b32 %%r<16>, %%t;\n"
    ".reg .f32 %%f<8>;\n.reg .pred %%p<2>;\n"
    ".shared .align 16 .b8 s[1024];\n"
    "ld.param.u64 %%q, [a];\nld.param.u64 %%u, [d];\n"
    "mov.u32 %%t, %%tid.x;\nmul.wide.u32 %%rd0, %%t, 32;\n"
    "add.s64 %%q, %%q, %%rd0;\nadd.s64 %%u, %%u, %%rd0;\n%s\nret;\n}\n";

/* Runs a kernel body and returns the stream's error. */
static tn_cu_result run(const char *body, unsigned threads,
                        uint32_t a[LANES][8], uint32_t d[LANES][8])
{
    char text[4096];
    tn_cu_module module;
    tn_cu_function f;
    tn_cu_pointer from, to;
    enum { BYTES = LANES * 32 };
    snprintf(text, sizeof text, form, body);
    must(cuModuleLoadData(&module, text), body);
    MUST(cuModuleGetFunction(&f, module, "f"));
    MUST(cuMemAlloc_v2(&from, BYTES));
    MUST(cuMemAlloc_v2(&to, BYTES));
    MUST(cuMemsetD8Async(to, 0, BYTES, stream));
    MUST(cuMemcpyHtoDAsync_v2(from, a, BYTES, stream));
    void *parameters[] = {&from, &to};
    MUST(cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, stream, parameters,
                        NULL));
    tn_cu_result error = cuStreamSynchronize(stream);
    if (!error)
        error = cuMemcpyDtoHAsync_v2(d, to, BYTES, stream);
    if (!error)
        error = cuStreamSynchronize(stream);
    sim_mend();
    MUST(cuMemFree_v2(from));
    MUST(cuMemFree_v2(to));
    MUST(cuModuleUnload(module));
    return error;
}

/* Returns small numbers without an order, which float16 represents exactly. */
static float number(int i)
{
    return (float)(i * 37 % 23 - 11) / 8;
}

static uint32_t two(tn_dtype dtype, float low, float high)
{
    return tn__narrow_encode(dtype, high) << 16 |
           tn__narrow_encode(dtype, low);
}

static const char load_all[] =
    "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%q];\n"
    "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%q+16];\n";
static const char store_four[] =
    "st.global.v4.u32 [%u], {%r8, %r9, %r10, %r11};\n";

static void test_mma(tn_dtype dtype, const char *name)
{
    uint32_t a[LANES][8], d[LANES][8];
    char body[1024];
    int wrong = 0;
    for (int t = 0; t < LANES; t++) {
        const int g = t / 4, c = t % 4 * 2;
        for (int n = 0; n < 4; n++) { /* A[i][k] = number(16 i + k) */
            const int i = g + n % 2 * 8, k = c + n / 2 * 8;
            a[t][n] = two(dtype, number(16 * i + k), number(16 * i + k + 1));
        }
        for (int n = 0; n < 2; n++) { /* B[k][j] = number(8 k + j) */
            const int k = c + n * 8;
            a[t][4 + n] = two(dtype, number(8 * k + g), number(8 * k + 8 + g));
        }
        a[t][6] = a[t][7] = 0;
    }
    snprintf(body, sizeof body,
             "%smov.f32 %%f0, 0f3F800000;\nmov.f32 %%f1, 0f40000000;\n"
             "mov.f32 %%f2, 0f40400000;\nmov.f32 %%f3, 0f40800000;\n"
             "mma.sync.aligned.m16n8k16.row.col.f32.%s.%s.f32 "
             "{%%f4, %%f5, %%f6, %%f7}, {%%r0, %%r1, %%r2, %%r3}, "
             "{%%r4, %%r5}, {%%f0, %%f1, %%f2, %%f3};\n"
             "st.global.v4.f32 [%%u], {%%f4, %%f5, %%f6, %%f7};\n",
             load_all, name, name);
    is_int(run(body, LANES, a, d), 0, "mma of %s runs", name);
    for (int t = 0; t < LANES; t++)
        for (int n = 0; n < 4; n++) {
            const int i = t / 4 + n / 2 * 8, j = t % 4 * 2 + n % 2;
            float want = (float)(n + 1), got;
            for (int k = 0; k < 16; k++)
                want += number(16 * i + k) * number(8 * k + j);
            memcpy(&got, &d[t][n], sizeof got);
            wrong += got != want;
        }
    is_int(wrong, 0, "and gives the product of its fragments, added");
}

static void test_ldmatrix(bool turned)
{
    uint32_t a[LANES][8], d[LANES][8];
    char body[1024];
    int wrong = 0;
    /* lane t supplies the address of row t % 8 of matrix t / 8, whose element e
     * is 8 t + e */
    for (int t = 0; t < LANES; t++)
        for (int n = 0; n < 8; n++)
            a[t][n] = (uint32_t)(8 * t + 2 * n) |
                      (uint32_t)(8 * t + 2 * n + 1) << 16;
    snprintf(body, sizeof body,
             "%smul.lo.u32 %%r12, %%t, 16;\nmov.u64 %%rd1, s;\n"
             "cvt.u64.u32 %%rd2, %%r12;\nadd.s64 %%rd1, %%rd1, %%rd2;\n"
             "st.shared.v4.u32 [%%rd1], {%%r0, %%r1, %%r2, %%r3};\n"
             "bar.sync 0;\ncvt.u32.u64 %%r12, %%rd1;\n"
             "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 "
             "{%%r8, %%r9, %%r10, %%r11}, [%%r12];\n%s",
             load_all, turned ? ".trans" : "", store_four);
    is_int(run(body, LANES, a, d), 0, "ldmatrix%s runs",
           turned ? ".trans" : "");
    for (int t = 0; t < LANES; t++)
        for (int n = 0; n < 4; n++)
            for (int h = 0; h < 2; h++) {
                const int row = turned ? t % 4 * 2 + h : t / 4;
                const int column = turned ? t / 4 : t % 4 * 2 + h;
                wrong += (d[t][n] >> 16 * h & 0xffff) !=
                         (uint32_t)(8 * (8 * n + row) + column);
            }
    is_int(wrong, 0, "each lane gets its two elements of each matrix");
}

/* Copies to shared memory, and reads back what another thread copied. */
#define COPY(size, end)                                                       \
    "mul.lo.u32 %r12, %t, 16;\nmov.u32 %r13, " size ";\n"                  \
    "cp.async.cg.shared.global [%r12], [%q], 16, %r13;\n" end              \
    "xor.b32 %r12, %r12, 16;\ncvt.u64.u32 %rd2, %r12;\n"                  \
    "mov.u64 %rd1, s;\nadd.s64 %rd1, %rd1, %rd2;\n"                       \
    "ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%rd1];\n"
#define DONE                                                                  \
    "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\n"

static void test_copies(void)
{
    static const struct {
        const char *body, *what;
        bool runs, zeros;
    } cases[] = {
        {COPY("16", DONE), "cp.async, committed and waited for", true, false},
        {COPY("0", DONE), "of no bytes: zeros", true, true},
        {COPY("16", "cp.async.commit_group;\ncp.async.wait_group 1;\n"
                    "bar.sync 0;\n"),
         "a wait that leaves one group under way", false, false},
        {COPY("16", "cp.async.wait_group 0;\nbar.sync 0;\n"),
         "a wait for what was not committed", false, false},
        {COPY("16", "cp.async.commit_group;\ncp.async.wait_group 0;\n"),
         "no barrier after the wait", false, false},
        {"mov.u32 %r12, 0;\nmul.lo.u32 %r12, %t, 16;\nmov.u32 %r13, 16;\n"
         "cp.async.cg.shared.global [%r12], [%q], 16, %r13;\n",
         "a copy that nothing waits for", false, false},
        {"mov.u32 %r12, 8;\nmov.u32 %r13, 16;\n"
         "cp.async.cg.shared.global [%r12], [%q], 16, %r13;\n" DONE,
         "a misaligned copy", false, false},
    };
    uint32_t a[LANES][8], d[LANES][8];
    char body[1024];
    for (int t = 0; t < LANES; t++)
        for (int n = 0; n < 8; n++)
            a[t][n] = (uint32_t)(8 * t + n + 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int wrong = 0;
        snprintf(body, sizeof body, "%s%s", cases[i].body,
                 cases[i].runs ? store_four : "");
        tn_cu_result error = run(body, LANES, a, d);
        for (int t = 0; t < LANES && cases[i].runs; t++)
            for (int n = 0; n < 4; n++)
                wrong += d[t][n] != (cases[i].zeros ? 0 : a[t ^ 1][n]);
        ok(cases[i].runs ? !error && !wrong : error != 0, "%s%s",
           cases[i].what, cases[i].runs ? "" : " is found");
    }
}

static void test_shuffle(void)
{
    uint32_t a[LANES][8] = {{0}}, d[LANES][8];
    char body[1024];
    int wrong = 0;
    snprintf(body, sizeof body,
             "shfl.sync.bfly.b32 %%r8, %%t, 5, 31, -1;\nmov.u32 %%r9, 0;\n"
             "mov.u32 %%r10, 0;\nmov.u32 %%r11, 0;\n%s", store_four);
    is_int(run(body, LANES, a, d), 0, "shfl.bfly runs");
    for (uint32_t t = 0; t < LANES; t++)
        wrong += d[t][0] != (t ^ 5);
    is_int(wrong, 0, "each lane has that of the other");
    snprintf(body, sizeof body,
             "setp.eq.u32 %%p0, %%t, 3;\n"
             "@%%p0 ret;\nshfl.sync.bfly.b32 %%r8, %%t, 5, 31, -1;\n");
    ok(run(body, LANES, a, d) != 0, "a lane that has ended is missed");
    ok(run(body, 16, a, d) != 0, "and so is half of a warp");
}

int main(void)
{
    tn_cu_context context;
    plan_later();
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, TN_CU_NON_BLOCKING));
    test_mma(TN_F16, "f16");
    test_mma(TN_BF16, "bf16");
    test_ldmatrix(false);
    test_ldmatrix(true);
    test_copies();
    test_shuffle();
    return done_testing();
}
