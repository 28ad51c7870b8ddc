/* Printed kernels compile without a word: as OpenCL C 1.2 and 3.0 by clang, as
 * CUDA C by NVRTC for five architectures. Neither needs a device.
 *
 *   TENON_TEST_TEXTS     how many of the texts each compiler gets (50; 0: all)
 *   TENON_TEST_PART      "1/4": of these, each fourth from the second on
 *   TENON_TEST_PROGRAMS  random programs for each target (100)
 *   TENON_CUDA           folder of the CUDA toolkit (configure --with-cuda) */
#include "printed.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"
#include "kernel/device.h"
#include "kernel/kernel.h"
#include <tenon/base.h>

static printed_list list;
static int most = 50; /* texts for each compiler; 0: all */
static int part, parts = 1;

static tn_target target_of(uint32_t flags)
{
    return (tn_target){.size = sizeof(tn_target), .flags = flags, .units = 2,
                       .group_limit = 256, .argument_room = 1024,
                       .fault_room = 4096, .local_bytes = 32768};
}

static void print_all(void)
{
    int programs = 100, rows = 0;
    if (getenv("TENON_TEST_PROGRAMS"))
        programs = atoi(getenv("TENON_TEST_PROGRAMS"));
    const tn_target cpu = target_of(TN_TARGET_F64 | TN_TARGET_CHUNKED |
                                    TN_TARGET_EXACT_DIVIDE);
    const tn_target gpu = target_of(TN_TARGET_F64 | TN_TARGET_EXACT_DIVIDE);
    const tn_target cores =
        target_of(TN_TARGET_F64 | TN_TARGET_EXACT_DIVIDE | TN_TARGET_MMA);
    const tn_target poor = target_of(TN_TARGET_F64);
    const tn_target poorest = target_of(0);
    printed_rows(&list, &cpu, &rows);
    int of_cpu = rows;
    printed_rows(&list, &gpu, &rows);
    ok(of_cpu > 0 && rows == 2 * of_cpu, "%d rows of the table are printed",
       of_cpu);
    int texts = list.count;
    note("%d texts of %d kernels of rows", texts, list.asked);
    printed_primitives(&list, &cpu);
    printed_primitives(&list, &gpu);
    printed_primitives(&list, &cores);
    note("%d texts of primitives", list.count - texts);
    texts = list.count;
    printed_random(&list, &cpu, 1, programs);
    printed_random(&list, &gpu, 1, programs);
    printed_random(&list, &poor, 1, programs / 4);
    printed_random(&list, &poorest, 1, programs / 4);
    note("%d texts of random programs", list.count - texts);
    is_int(list.failed, 0, "each of %d plans has its text: %d of them",
           list.asked, list.count);
}

/* A gradient of 16 x 9 weights is one tile; 64 images are 16 lanes of it. */
static void small_weights_fill_the_device(void)
{
    tn_target target = target_of(TN_TARGET_EXACT_DIVIDE);
    const tn_strided view = {.dtype = TN_F32};
    const tn_conv_args c = {
        .size = sizeof c, .kind = TN_CONV_WEIGHT, .groups = 1, .count = 64,
        .in_channels = 1, .out_channels = 16, .in_size = {8, 8},
        .kernel = {3, 3}, .out_size = {6, 6}, .stride = {1, 1},
        .dilation = {1, 1}, .in = view, .weight = view, .out = view};
    tn_plan plan = {.size = sizeof plan};
    target.units = 132;
    const tn_status status = tn__plan_conv(&target, &c, &plan);
    ok(status == TN_OK && plan.group_count == 16 && plan.step_count == 2 &&
           plan.scratch_bytes == 16 * 16 * 9 * sizeof(float),
       "a gradient of few weights is %d groups, by %d bytes of sums",
       (int)plan.group_count, (int)plan.scratch_bytes);
}

/* Every so many-th text is in the sample, and of these every so many-th in this
 * part of it. */
static int sample(void)
{
    return most < 1 || list.count <= most ? 1 : (list.count + most - 1) / most;
}

static int first(void)
{
    return part * sample();
}

static int stride(void)
{
    return parts * sample();
}

/* The sanitizers watch what they load, too, and NVRTC leaks. */
static bool is_watched(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

/* ---- clang ------------------------------------------------------------------ */

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) == EOF || fclose(f) != 0)
        bail_out("cannot write %s", path);
}

/* What the compiler says of the file, up to room; "" if nothing. */
static void compile(const char *standard, const char *path, char *out,
                    size_t room)
{
    char command[512];
    snprintf(command, sizeof command,
             "clang -x cl -cl-std=%s -fsyntax-only -Wall -Wextra %s 2>&1",
             standard, path);
    FILE *pipe = popen(command, "r");
    if (!pipe)
        bail_out("cannot run clang");
    size_t length = fread(out, 1, room - 1, pipe);
    out[length] = 0;
    int status = pclose(pipe);
    if (status != 0 && length == 0)
        snprintf(out, room, "status %d", status);
}

static void test_clang(const char *standard)
{
    char folder[] = "printed-XXXXXX", path[64], said[2000];
    int compiled = 0, bad = 0;
    if (!mkdtemp(folder))
        bail_out("cannot make a folder");
    snprintf(path, sizeof path, "%s/kernel.cl", folder);
    for (int i = first(); i < list.count && bad < 3; i += stride()) {
        if (list.item[i].flags & TN_TARGET_MMA) /* CUDA C */
            continue;
        compiled++;
        write_file(path, list.item[i].text);
        compile(standard, path, said, sizeof said);
        if (!*said)
            continue;
        note("%s: %s", list.item[i].what, said);
        bad++;
    }
    unlink(path);
    rmdir(folder);
    ok(compiled > 0 && bad == 0,
       "clang -cl-std=%s: nothing to say of %d of %d texts", standard,
       compiled, list.count);
}

/* ---- NVRTC ------------------------------------------------------------------- */

typedef struct nvrtc {
    int (*create)(void **program, const char *text, const char *name,
                  int headers, const char *const *header,
                  const char *const *header_name);
    int (*compile)(void *program, int count, const char *const *option);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *log);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *ptx);
    int (*destroy)(void **program);
} nvrtc;

static bool symbol(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

static bool nvrtc_open(nvrtc *n)
{
    char path[4096];
    const char *folder = getenv("TENON_CUDA");
    snprintf(path, sizeof path, "%s/lib64/libnvrtc.so",
             folder ? folder : TENON_CUDA_FOLDER);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    /* NVRTC looks for its second file where the loader does. */
    snprintf(path, sizeof path, "%s/lib64/libnvrtc-builtins.so",
             folder ? folder : TENON_CUDA_FOLDER);
    dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libnvrtc.so", RTLD_NOW | RTLD_LOCAL);
    return library && symbol(library, "nvrtcCreateProgram", &n->create) &&
           symbol(library, "nvrtcCompileProgram", &n->compile) &&
           symbol(library, "nvrtcGetProgramLogSize", &n->log_size) &&
           symbol(library, "nvrtcGetProgramLog", &n->log) &&
           symbol(library, "nvrtcGetPTXSize", &n->ptx_size) &&
           symbol(library, "nvrtcGetPTX", &n->ptx) &&
           symbol(library, "nvrtcDestroyProgram", &n->destroy);
}

/* Where a GPU's elements lie side by side, work-items take 16 bytes at once. */
static bool has_vectors(const printed *p)
{
    return strstr(p->text, "aligned(16))") != NULL;
}

/* Does the program read and write memory 16 bytes at once? */
static bool moves_vectors(const nvrtc *n, void *program)
{
    size_t size = 0;
    char *ptx = NULL;
    if (n->ptx_size(program, &size) == 0)
        ptx = malloc(size + 1);
    if (!ptx || n->ptx(program, ptx) != 0)
        bail_out("nvrtcGetPTX");
    ptx[size] = 0;
    static const char *const whole[] = {".v4.f32", ".v4.u32", ".v4.b32",
                                        ".v2.f64", ".v2.u64", ".v2.b64"};
    bool moves = !strstr(ptx, "ld.global"); /* compilers drop what is unused */
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        moves = moves || strstr(ptx, whole[i]);
    free(ptx);
    return moves;
}

/* True if NVRTC takes the text for this architecture without a word. */
static bool nvrtc_accepts(const nvrtc *n, const printed *p, const char *arch)
{
    char option[64], log[16000] = "";
    snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
    const char *options[] = {option, "--fmad=false"};
    void *program = NULL;
    size_t size = 0;
    if (n->create(&program, p->text, "kernel.cu", 0, NULL, NULL) != 0)
        bail_out("nvrtcCreateProgram fails");
    int status = n->compile(program, 2, options);
    if (n->log_size(program, &size) == 0 && size > 1 && size <= sizeof log)
        n->log(program, log);
    bool moves = status != 0 || !has_vectors(p) || moves_vectors(n, program);
    n->destroy(&program);
    if (!moves)
        note("%s, %s: vectors became single elements", p->what, arch);
    if (status == 0 && size <= 1)
        return moves;
    note("%s, %s: status %d, %zu bytes of log: %s", p->what, arch, status,
         size, log);
    return false;
}

static void test_nvrtc(void)
{
    static const char *const arch[] = {"compute_75", "compute_80",
                                       "compute_90", "compute_100",
                                       "compute_120"};
    nvrtc n;
    if (is_watched()) {
        skip(5, "NVRTC is left out under sanitizers");
        return;
    }
    if (!nvrtc_open(&n)) {
        skip(5, "no NVRTC in " TENON_CUDA_FOLDER
                " or among the system's libraries");
        return;
    }
    for (int a = 0; a < 5; a++) {
        int compiled = 0, bad = 0;
        for (int i = first(); i < list.count && bad < 3; i += stride()) {
            const uint32_t flags = list.item[i].flags;
            if (!(flags & TN_TARGET_F64) || (flags & TN_TARGET_MMA && a == 0))
                continue; /* tensor cores' are for 8.0 and later */
            compiled++;
            bad += !nvrtc_accepts(&n, &list.item[i], arch[a]);
        }
        ok(compiled > 0 && bad == 0,
           "NVRTC, %s: PTX of %d of %d texts without a word", arch[a],
           compiled, list.count);
    }
}

int main(void)
{
    plan_later();
    if (getenv("TENON_TEST_TEXTS"))
        most = atoi(getenv("TENON_TEST_TEXTS"));
    const char *of = getenv("TENON_TEST_PART");
    if (of && (sscanf(of, "%d/%d", &part, &parts) != 2 || part < 0 ||
               part >= parts))
        bail_out("TENON_TEST_PART=%s is not like 1/4", of);
    ok(tn__math_fn_count() > 0, "functions of the language take part");
    print_all();
    small_weights_fill_the_device();
    if (system("clang --version >/dev/null 2>&1") == 0) {
        test_clang("CL1.2");
        test_clang("CL3.0");
    } else {
        skip(2, "clang is not installed");
    }
    test_nvrtc();
    printed_release(&list);
    return done_testing();
}
