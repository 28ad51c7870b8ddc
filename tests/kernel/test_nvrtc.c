/* NVRTC compiles each kernel source that a CUDA device may get (those of
 * test_print.c), for five architectures, to PTX and machine code, without any
 * message. No device is needed.
 *
 * Optimized one by one, as for a device, they would take 80 ms each, half an
 * hour of processor time in all. So sources are joined (joined.h), and NVRTC
 * and its assembler do not optimize (--Ofast-compile=max). Errors in the
 * source, features that an architecture lacks, and too much shared memory are
 * found without optimization, too. A program compiled for sm_XX has both PTX
 * and machine code. Sources with vectors are also compiled to optimized PTX, to
 * check that the vectors remain.
 *
 * The oldest architecture, which supports least, gets half of the sources. Each
 * of the four others gets a quarter, so that every source is compiled. `make
 * check-long` compiles all sources for all architectures, in three times the
 * time.
 *
 *   TENON_TEST_LONG      set: every source for every architecture
 *   TENON_TEST_PROGRAMS  random programs (100)
 *   TENON_CUDA           folder of the CUDA toolkit (configure --with-cuda)
 */
#include "joined.h"

#include <dlfcn.h>
#include <time.h>

#include "../tap.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/thread.h"

enum { MOST = 128 }; /* most sources in a joined file; 256 and 512 take as long
                      * in all */

/* ---- NVRTC --------------------------------------------------------------- */

typedef struct nvrtc {
    int (*arch_count)(int *count);
    int (*archs)(int *archs);
    int (*create)(void **program, const char *text, const char *name,
                  int headers, const char *const *header,
                  const char *const *header_name);
    int (*compile)(void *program, int count, const char *const *option);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *log);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *ptx);
    int (*code_size)(void *program, size_t *size);
    int (*code)(void *program, char *code);
    int (*destroy)(void **program);
} nvrtc;

static nvrtc rtc;

static bool symbol(void *library, const char *name, void *out)
{
    void *found = dlsym(library, name);
    memcpy(out, &found, sizeof found);
    return found != NULL;
}

static bool nvrtc_open(void)
{
    const struct {
        const char *name;
        void *field;
    } of[] = {{"nvrtcGetNumSupportedArchs", &rtc.arch_count},
              {"nvrtcGetSupportedArchs", &rtc.archs},
              {"nvrtcCreateProgram", &rtc.create},
              {"nvrtcCompileProgram", &rtc.compile},
              {"nvrtcGetProgramLogSize", &rtc.log_size},
              {"nvrtcGetProgramLog", &rtc.log},
              {"nvrtcGetPTXSize", &rtc.ptx_size},
              {"nvrtcGetPTX", &rtc.ptx},
              {"nvrtcGetCUBINSize", &rtc.code_size},
              {"nvrtcGetCUBIN", &rtc.code},
              {"nvrtcDestroyProgram", &rtc.destroy}};
    char path[4096];
    const char *folder = getenv("TENON_CUDA");
    snprintf(path, sizeof path, "%s/lib64/libnvrtc.so",
             folder ? folder : TENON_CUDA_FOLDER);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    /* NVRTC loads a second library, libnvrtc-builtins, from the loader's search
     * path. */
    snprintf(path, sizeof path, "%s/lib64/libnvrtc-builtins.so",
             folder ? folder : TENON_CUDA_FOLDER);
    dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libnvrtc.so", RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
    for (size_t i = 0; all && i < sizeof of / sizeof *of; i++)
        all = symbol(library, of[i].name, of[i].field);
    return all;
}

static bool nvrtc_knows(int arch)
{
    int archs[64], count = 0;
    if (rtc.arch_count(&count) || count > 64 || rtc.archs(archs))
        return false;
    for (int i = 0; i < count; i++)
        if (archs[i] == arch)
            return true;
    return false;
}

/* A target of the compiler. */
typedef struct build {
    char arch[16];  /* sm_XX: PTX and machine code; compute_XX: PTX only */
    bool optimizes; /* optimize as the plugin does
                     * (backends/cuda/cuda_compile.c) */
} build;

static int compile(void *program, const build *b)
{
    char option[64];
    snprintf(option, sizeof option, "--gpu-architecture=%s", b->arch);
    const char *const options[] = {option, "--fmad=false", "--prec-div=true",
                                   "--prec-sqrt=true", "--ftz=false",
                                   "--Ofast-compile=max"};
    const int count = sizeof options / sizeof *options;
    return rtc.compile(program, b->optimizes ? count - 1 : count, options);
}

/* Returns whether this NVRTC supports all these options. CUDA 13 does. */
static bool nvrtc_is_fast(void)
{
    const build b = {.arch = "sm_75"};
    void *program = NULL;
    if (rtc.create(&program, "", "empty.cu", 0, NULL, NULL))
        return false;
    const bool knows = compile(program, &b) == 0;
    rtc.destroy(&program);
    return knows;
}

/* Returns PTX or machine code, followed by a 0 byte; NULL if there is none. The
 * caller frees it. */
static char *take(void *program, int (*size_of)(void *, size_t *),
                  int (*get)(void *, char *), size_t *size)
{
    char *bytes = NULL;
    if (size_of(program, size) == 0 && *size > 1)
        bytes = calloc(1, *size + 1);
    if (bytes && get(program, bytes) != 0) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

/* ---- a joined file ------------------------------------------------------- */

/* Returns whether the kernel should load vectors: on a GPU each work-item loads
 * 16 contiguous bytes at once. (If argument words are in a buffer, reading them
 * looks like loads, too, and some of those kernels load single elements.) */
static bool has_vectors(const printed *p)
{
    return strstr(p->text, "aligned(16))") && strstr(p->text, "words.w[i]");
}

/* Returns whether the kernel's PTX loads or stores vectors. */
static bool moves_vectors(const char *entry)
{
    static const char *const whole[] = {".v4.f32", ".v4.u32", ".v4.b32",
                                        ".v2.f64", ".v2.u64", ".v2.b64"};
    const char *end = strstr(entry, "\n}\n");
    const size_t bytes = end ? (size_t)(end - entry) : strlen(entry);
    /* if no load is left, the compiler has removed all as unused */
    bool moves = !memmem(entry, bytes, "ld.global", strlen("ld.global"));
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        moves = moves || memmem(entry, bytes, whole[i], strlen(whole[i]));
    return moves;
}

/* Checks that the compiled file contains each source's kernel. `said` is empty
 * if so. */
static void look(const joined *part, int count, const build *b, void *program,
                 char *said, size_t room)
{
    size_t size = 0, code_bytes = 0;
    char *ptx = take(program, rtc.ptx_size, rtc.ptx, &size);
    char *code = take(program, rtc.code_size, rtc.code, &code_bytes);
    for (int i = 0; i < count && !said[0]; i++) {
        char name[64], wanted[96];
        joined_name(name, sizeof name, &part[i], i);
        snprintf(wanted, sizeof wanted, ".entry %s(", name);
        const char *entry = ptx ? strstr(ptx, wanted) : NULL;
        snprintf(wanted, sizeof wanted, ".text.%s", name);
        if (!entry)
            snprintf(said, room, "no PTX");
        else if (b->optimizes && !moves_vectors(entry))
            snprintf(said, room, "vectors became single elements");
        else if (b->arch[0] == 's' &&
                 (!code || !memmem(code, code_bytes, wanted,
                                   strlen(wanted) + 1)))
            snprintf(said, room, "no machine code");
    }
    free(ptx);
    free(code);
}

/* Compiles these sources together. Returns whether there were no messages;
 * otherwise they are in `said`. */
static bool is_silent(const joined *part, int count, const build *b,
                      char *said, size_t room)
{
    void *program = NULL;
    size_t size = 0;
    char *text = joined_text(part, count);
    if (rtc.create(&program, text, "unit.cu", 0, NULL, NULL) != 0)
        bail_out("nvrtcCreateProgram fails");
    const int status = compile(program, b);
    said[0] = 0;
    if (rtc.log_size(program, &size) == 0 && size > 1) {
        char *log = take(program, rtc.log_size, rtc.log, &size);
        snprintf(said, room, "%s", log ? log : "NVRTC keeps its log");
        free(log);
    } else if (status != 0) {
        snprintf(said, room, "status %d", status);
    } else {
        look(part, count, b, program, said, room);
    }
    rtc.destroy(&program);
    tn__free(text);
    return !said[0];
}

typedef struct unit {
    const joined *part;
    const build *build;
    int count, bad;  /* bad: number of sources with a message */
    char said[2000]; /* message of the first of them, or of the joined file */
} unit;

/* If a joined file causes a message, compiles its sources one by one to find
 * the cause. */
static void unit_compile(void *context, int64_t i)
{
    unit *u = (unit *)context + i;
    char said[sizeof u->said / 2], together[sizeof u->said / 2];
    u->bad = 0;
    u->said[0] = 0;
    if (is_silent(u->part, u->count, u->build, together, sizeof together))
        return;
    for (int p = 0; p < u->count; p++)
        if (!is_silent(&u->part[p], 1, u->build, said, sizeof said) &&
            u->bad++ == 0)
            snprintf(u->said, sizeof u->said, "%s: %s",
                     u->part[p].from->what, said);
    if (u->bad == 0) { /* no source alone causes a message, so the joining
                        * does */
        u->bad = u->count;
        snprintf(u->said, sizeof u->said, "%s and %d texts more, together: %s",
                 u->part[0].from->what, u->count - 1, together);
    }
}

/* ---- tests --------------------------------------------------------------- */

/* Compiles these sources in joined files. Returns how many sources cause a
 * message. */
static int compile_all(const printed *item, int count, const build *b,
                       int *unit_count, double *seconds)
{
    unit *units = calloc((size_t)count + 1, sizeof *units);
    joined *part = joined_sort(item, count);
    int bad = 0, failed = 0;
    if (!units)
        bail_out("out of memory");
    *unit_count = 0;
    for (int i = 0; i < count; i += units[(*unit_count)++].count)
        units[*unit_count] = (unit){
            .part = &part[i], .build = b,
            .count = joined_fit(&part[i], count - i, MOST)};
    const clock_t begun = clock();
    tn__parallel_for(*unit_count, unit_compile, units);
    *seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
    for (int u = 0; u < *unit_count; u++) {
        bad += units[u].bad;
        if (units[u].bad && ++failed <= 3)
            note("%s, %d of %d texts: %s", b->arch, units[u].bad,
                 units[u].count, units[u].said);
    }
    free(part);
    free(units);
    return bad;
}

/* Chooses every SHARE-th source for which `wanted` is true (NULL: of all),
 * starting at index `first`; every second one if first is HALF; all of them if
 * TENON_TEST_LONG is set. The caller frees the list. */
enum { SHARE = 4, HALF = -1 };
static printed *choose(const printed_list *list, int first,
                       bool (*wanted)(const printed *), int *count)
{
    printed *some = calloc((size_t)list->count + 1, sizeof *some);
    if (!some)
        bail_out("out of memory");
    const int share = getenv("TENON_TEST_LONG") ? 1 : first == HALF ? 2 : SHARE;
    int seen = 0;
    *count = 0;
    for (int i = 0; i < list->count; i++)
        if (!wanted || wanted(&list->item[i]))
            if ((seen++ - first) % share == 0)
                some[(*count)++] = list->item[i];
    return some;
}

static void test_arch(const printed_list *list, int arch, int first)
{
    build b = {.optimizes = false};
    int units, count;
    double seconds;
    snprintf(b.arch, sizeof b.arch, "sm_%d", arch);
    if (!nvrtc_knows(arch)) {
        skip(1, "this NVRTC does not know the architecture");
        return;
    }
    printed *some = choose(list, first, NULL, &count);
    const int bad = compile_all(some, count, &b, &units, &seconds);
    ok(count > 0 && bad == 0,
       "NVRTC, %s: PTX and machine code of %d of %d texts without a word "
       "(%d units, %.0f s of a core)", b.arch, count, list->count, units,
       seconds);
    free(some);
}

static void test_vectors(const printed_list *list)
{
    static const build b = {.arch = "compute_75", .optimizes = true};
    int count, units;
    double seconds;
    printed *some = choose(list, 0, has_vectors, &count);
    const int bad = compile_all(some, count, &b, &units, &seconds);
    ok(count > 0 && bad == 0,
       "NVRTC, optimizing: %d texts that move 16 bytes at once do (%d units, "
       "%.0f s of a core)", count, units, seconds);
    free(some);
}

/* Adds a line to one source's kernel in a joined file; the message must name
 * that source. */
static void test_names(const printed_list *list, const char *line,
                       const char *what)
{
    static const build b = {.arch = "sm_75"};
    enum { BAD = 1, COUNT = 3 };
    printed some[COUNT];
    char *spoilt = NULL;
    memcpy(some, list->item, sizeof some);
    const char *text = some[BAD].text;
    const char *body = strstr(text, "TK_KERNEL tn_");
    body = body ? strstr(body, "\n{\n") : NULL;
    if (!body || asprintf(&spoilt, "%.*s\n{\n%s%s", (int)(body - text), text,
                          line, body + 3) < 0)
        bail_out("%s has no kernel", some[BAD].what);
    some[BAD].text = spoilt;
    some[BAD].what = "the bad one";
    joined *part = joined_sort(some, COUNT);
    unit u = {.part = part, .count = joined_fit(part, COUNT, MOST),
              .build = &b};
    unit_compile(&u, 0);
    if (!ok(u.count == COUNT && u.bad == 1 &&
                strncmp(u.said, "the bad one: ", 13) == 0,
            "%s is found in a unit of %d texts, and its text named", what,
            COUNT))
        note("%d bad of %d: %s", u.bad, u.count, u.said);
    free(part);
    free(spoilt);
}

static void print_for(printed_list *list, uint32_t flags)
{
    const tn_target target = printed_target(flags);
    const char *programs = getenv("TENON_TEST_PROGRAMS");
    int rows = 0;
    printed_rows(list, &target, &rows);
    printed_primitives(list, &target);
    printed_random(list, &target, 1, programs ? atoi(programs) : 100);
    printed_shared(list, &target, 1, 12);
}

/* Returns whether a sanitizer runs: it would also report leaks of NVRTC. */
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

int main(void)
{
    static const int archs[] = {75, 80, 90, 100, 120};
    enum { ARCHS = sizeof archs / sizeof *archs };
    plan_later();
    const char *missing =
        is_watched()          ? "NVRTC is left out under sanitizers"
        : !nvrtc_open()       ? "no NVRTC in " TENON_CUDA_FOLDER
                                " or among the system's libraries"
        : !nvrtc_is_fast()    ? "this NVRTC does not know --Ofast-compile=max"
                              : NULL;
    if (missing) {
        skip(ARCHS + 5, missing);
        return done_testing();
    }
    printed_list list = {0};
    uint32_t flags = 0;
    for (int a = 0; a < ARCHS; a++) {
        const uint32_t own = TN_TARGET_F64 | TN_TARGET_EXACT_DIVIDE |
                             (archs[a] >= 80 ? TN_TARGET_MMA : 0);
        if (own != flags) { /* the flags differ from those of the source
                             * before */
            printed_release(&list);
            list = (printed_list){0};
            print_for(&list, flags = own);
            is_int(list.failed, 0, "every text is printed");
        }
        if (a == 0) {
            test_names(&list, "    int unused;\n", "a warning");
            test_names(&list, "    missing();\n", "an error");
            test_vectors(&list);
        }
        test_arch(&list, archs[a], a == 0 ? HALF : a % SHARE);
    }
    printed_release(&list);
    return done_testing();
}
