/* Runs kernels with deliberate mistakes. The simulated driver must detect each
 * one and name it, and must report nothing for the correct version. */
#include "bugs.h"

/* Registers of the kernels: %rd1 and %a are the address of block, %b that of
 * blank, and %c another address or 0. */
enum { NOTHING, THE_HOST, THE_FREED, THE_REMOTE };

#define TID "mov.u32 %rd2, %tid.x;mul.wide.u32 %rd3, %rd2, 4;mov.u64 %rd4, s;" \
            "add.u64 %rd3, %rd3, %rd4;"
#define HALF TID "setp.lt.u32 %p1, %rd2, 2;"

static const struct {
    const char *bug, *wrong, *right;
    unsigned threads;
    int c;
    tn_cu_result error;
    const char *says;
} kernels[] = {
    {"a write past the end", "st.global.u32 [%rd1+64], 1;",
     "st.global.u32 [%rd1+60], 1;", 1, 0, TN_CU_ILLEGAL_ADDRESS,
     "at 64 in a block of 64"},
    {"a write before the beginning", "st.global.u32 [%rd1+-4], 1;",
     "st.global.u32 [%rd1+0], 1;", 1, 0, TN_CU_ILLEGAL_ADDRESS,
     "a write of 4 bytes"},
    {"a read past the end", "ld.global.u64 %d, [%rd1+64];",
     "ld.global.u64 %d, [%rd1+56];", 1, 0, TN_CU_ILLEGAL_ADDRESS,
     "a read of 8 bytes"},
    {"a vector whose second half is past the end",
     "add.u64 %rd2, %rd1, 64;ld.global.v2.u64 {%rd3, %d}, [%rd2];",
     "add.u64 %rd2, %rd1, 48;ld.global.v2.u64 {%rd3, %d}, [%rd2];", 1, 0,
     TN_CU_ILLEGAL_ADDRESS, "at 64 in a block of 64"},
    {"one thread too many",
     "mov.u32 %rd2, %tid.x;mul.wide.u32 %rd3, %rd2, 4;"
     "add.u64 %rd3, %rd3, %rd1;st.global.u32 [%rd3], 1;",
     "mov.u32 %rd2, %tid.x;setp.lt.u32 %p1, %rd2, 16;"
     "mul.wide.u32 %rd3, %rd2, 4;add.u64 %rd3, %rd3, %rd1;"
     "@%p1 st.global.u32 [%rd3], 1;",
     17, 0, TN_CU_ILLEGAL_ADDRESS, "thread 16 of group 0"},
    {"a host's pointer", "ld.global.u64 %d, [%c];",
     "ld.global.u64 %d, [%a];", 1, THE_HOST, TN_CU_ILLEGAL_ADDRESS,
     "which is no device memory"},
    {"a null pointer", "ld.global.u64 %d, [%c];",
     "setp.ne.u64 %p1, %c, 0;@%p1 ld.global.u64 %d, [%c];", 1, NOTHING,
     TN_CU_ILLEGAL_ADDRESS, "which is no device memory"},
    {"a read of freed memory", "ld.global.u32 %d, [%c];",
     "ld.global.u32 %d, [%a];", 1, THE_FREED, TN_CU_ILLEGAL_ADDRESS,
     "in a freed block"},
    {"a write to freed memory", "st.global.u32 [%c], 1;",
     "st.global.u32 [%a], 1;", 1, THE_FREED, TN_CU_ILLEGAL_ADDRESS,
     "in a freed block"},
    {"another device's memory", "ld.global.u32 %d, [%c];",
     "ld.global.u32 %d, [%a];", 1, THE_REMOTE, TN_CU_ILLEGAL_ADDRESS,
     "of device 1 by a kernel on device 0"},
    {"a misaligned read", "ld.global.u32 %d, [%rd1+2];",
     "ld.global.u16 %d, [%rd1+2];", 1, 0, TN_CU_MISALIGNED_ADDRESS,
     "is misaligned"},
    {"a misaligned write", "st.global.u64 [%rd1+4], 1;",
     "st.global.u32 [%rd1+4], 1;", 1, 0, TN_CU_MISALIGNED_ADDRESS,
     "a write of 8 bytes"},
    {"a misaligned vector", "ld.global.v2.u32 {%rd2, %d}, [%rd1+4];",
     "ld.global.v2.u32 {%rd2, %d}, [%rd1+8];", 1, 0,
     TN_CU_MISALIGNED_ADDRESS, "is misaligned"},
    {"a misaligned atom", "atom.global.add.u32 %d, [%rd1+2], 1;",
     "atom.global.add.u32 %d, [%rd1+4], 1;", 1, 0, TN_CU_MISALIGNED_ADDRESS,
     "is misaligned"},
    {"a misaligned access of shared memory", "st.shared.u32 [s+6], 1;",
     "st.shared.u32 [s+4], 1;", 1, 0, TN_CU_MISALIGNED_ADDRESS,
     "is misaligned"},
    {"a read of what was never written", "ld.global.u32 %d, [%b];",
     "st.global.u32 [%b], 7;ld.global.u32 %d, [%b];", 1, 0, SIM_FOUND,
     "4 bytes that nothing has written"},
    {"a read of what was written in half",
     "st.global.u32 [%b], 7;ld.global.u64 %d, [%b];",
     "st.global.u64 [%b], 7;ld.global.u64 %d, [%b];", 1, 0, SIM_FOUND,
     "8 bytes that nothing has written"},
    {"a count that begins nowhere", "atom.global.add.u32 %d, [%b], 1;",
     "st.global.u32 [%b], 0;atom.global.add.u32 %d, [%b], 1;", 1, 0,
     SIM_FOUND, "that nothing has written"},
    {"shared memory taken for zero", "ld.shared.u32 %d, [s];",
     "st.shared.u32 [s], 0;ld.shared.u32 %d, [s];", 1, 0, SIM_FOUND,
     "of shared memory, which nothing has written"},
    {"local memory taken for zero", "ld.local.u32 %d, [l+4];",
     "st.local.u64 [l], 0;ld.local.u32 %d, [l+4];", 1, 0, SIM_FOUND,
     "local memory that nothing has written"},
    {"a write beyond shared memory", "st.shared.u32 [s+64], 1;",
     "st.shared.u32 [s+60], 1;", 1, 0, TN_CU_ILLEGAL_ADDRESS,
     "of 64 bytes of shared memory"},
    {"a write beyond local memory", "st.local.u32 [l+64], 1;",
     "st.local.u32 [l+60], 1;", 1, 0, TN_CU_ILLEGAL_ADDRESS,
     "of 64 bytes of local memory"},
    {"two threads write one place", TID "st.shared.u32 [s], %rd2;",
     TID "st.shared.u32 [%rd3], %rd2;", 4, 0, SIM_FOUND, "a race"},
    {"places that overlap",
     TID "mul.wide.u32 %rd3, %rd2, 2;add.u64 %rd3, %rd3, %rd4;"
         "st.shared.u16 [%rd3], %rd2;st.shared.u8 [%rd3+2], %rd2;",
     TID "mul.wide.u32 %rd3, %rd2, 4;add.u64 %rd3, %rd3, %rd4;"
         "st.shared.u16 [%rd3], %rd2;st.shared.u8 [%rd3+2], %rd2;",
     4, 0, SIM_FOUND, "a race"},
    {"a read of a neighbour's without a barrier",
     TID "st.shared.u32 [%rd3], 0;bar.sync 0;st.shared.u32 [%rd3], 1;"
         "xor.b32 %rd2, %rd2, 1;"
         "mul.wide.u32 %rd3, %rd2, 4;add.u64 %rd3, %rd3, %rd4;"
         "ld.shared.u32 %rd5, [%rd3];",
     TID "st.shared.u32 [%rd3], 1;bar.sync 0;xor.b32 %rd2, %rd2, 1;"
         "mul.wide.u32 %rd3, %rd2, 4;add.u64 %rd3, %rd3, %rd4;"
         "ld.shared.u32 %rd5, [%rd3];",
     4, 0, SIM_FOUND, "a race"},
    {"a write after a neighbour's read without a barrier",
     TID "st.shared.u32 [%rd3], 1;bar.sync 0;ld.shared.u32 %rd5, [s];"
         "st.shared.u32 [%rd3], 2;",
     TID "st.shared.u32 [%rd3], 1;bar.sync 0;ld.shared.u32 %rd5, [s];"
         "bar.sync 0;st.shared.u32 [%rd3], 2;",
     4, 0, SIM_FOUND, "a race"},
    {"a sum by halves with one barrier too few",
     TID "st.shared.u32 [%rd3], 1;bar.sync 0;setp.lt.u32 %p1, %rd2, 2;"
         "@%p1 ld.shared.u32 %rd5, [%rd3];@%p1 ld.shared.u32 %rd6, [%rd3+8];"
         "@%p1 st.shared.u32 [%rd3], 2;setp.lt.u32 %p1, %rd2, 1;"
         "@%p1 ld.shared.u32 %rd6, [%rd3+4];",
     TID "st.shared.u32 [%rd3], 1;bar.sync 0;setp.lt.u32 %p1, %rd2, 2;"
         "@%p1 ld.shared.u32 %rd5, [%rd3];@%p1 ld.shared.u32 %rd6, [%rd3+8];"
         "@%p1 st.shared.u32 [%rd3], 2;bar.sync 0;setp.lt.u32 %p1, %rd2, 1;"
         "@%p1 ld.shared.u32 %rd6, [%rd3+4];",
     4, 0, SIM_FOUND, "a race"},
    {"a count that is read while others count",
     TID "st.shared.u32 [s], 0;atom.shared.add.u32 %rd5, [s], 1;",
     TID "setp.eq.u32 %p1, %rd2, 0;@%p1 st.shared.u32 [s], 0;bar.sync 0;"
         "atom.shared.add.u32 %rd5, [s], 1;bar.sync 0;"
         "ld.shared.u32 %rd5, [s];",
     4, 0, SIM_FOUND, "a race"},
    {"a barrier that half of the group reaches",
     HALF "@%p1 bra $out;bar.sync 0;$out:",
     HALF "@%p1 bra $out;mov.u64 %rd5, 1;$out:bar.sync 0;", 4, 0,
     TN_CU_LAUNCH_FAILED, "not all threads of a group reach"},
    {"a barrier that some have left before", HALF "@%p1 ret;bar.sync 0;",
     HALF "bar.sync 0;@%p1 ret;", 4, 0, TN_CU_LAUNCH_FAILED,
     "not all threads of a group reach"},
    {"two barriers for one",
     HALF "@%p1 bra $two;bar.sync 0;bra $out;$two: bar.sync 0;$out:",
     HALF "@%p1 bra $two;mov.u64 %rd5, 1;$two: bar.sync 0;", 4, 0,
     TN_CU_LAUNCH_FAILED, "not all threads of a group reach"},
    {"as many barriers as the thread's number",
     TID "$loop: bar.sync 0;sub.u32 %rd2, %rd2, 1;setp.ge.s32 %p1, %rd2, 0;"
         "@%p1 bra $loop;",
     TID "mov.u32 %rd2, 3;$loop: bar.sync 0;sub.u32 %rd2, %rd2, 1;"
         "setp.ge.s32 %p1, %rd2, 0;@%p1 bra $loop;",
     4, 0, TN_CU_LAUNCH_FAILED, "not all threads of a group reach"},
};

/* Runs a kernel body in one thread block and returns the stream's error. */
static tn_cu_result run(const char *body, unsigned threads, int c)
{
    const tn_cu_pointer others[] = {0, (uintptr_t)eight, freed, remote};
    tn_cu_module module;
    tn_cu_pointer third = others[c];
    tn_cu_function f = kernel_of(body, &module);
    void *parameters[] = {&block, &block, &blank, &third};
    tn_cu_result error =
        cuLaunchKernel(f, 1, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
    if (!error)
        error = cuStreamSynchronize(stream);
    sim_mend();
    MUST(cuModuleUnload(module));
    return error;
}

static void test_kernels(void)
{
    char said[4096];
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        begin();
        tn_cu_result error =
            run(kernels[i].wrong, kernels[i].threads, kernels[i].c);
        ok(is_found(error, kernels[i].error, kernels[i].says, said,
                    sizeof said) &&
               strstr(said, "in f, line "),
           "%s: error %d: %s", kernels[i].bug, error, said);
        begin();
        error = run(kernels[i].right, kernels[i].threads, kernels[i].c);
        ok(is_found(error, 0, NULL, said, sizeof said),
           "and done right: %d %s", error, said);
    }
}

int main(void)
{
    plan_later();
    setenv("TENON_SIM_DEVICES", "3", 1);
    unsetenv("TENON_SIM_SEED");
    open_all();
    note("%zu bugs", sizeof kernels / sizeof *kernels);
    test_kernels();
    return done_testing();
}
