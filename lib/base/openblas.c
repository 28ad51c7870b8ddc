/* openblas.c: see openblas.h.
 *
 * An OpenBLAS that is older than the processor takes it for one of 2004: that
 * of Debian 12 (0.3.21) runs its SSE3 kernels ("Prescott") on an Emerald Rapids
 * Xeon, 3 to 4 times slower than its AVX-512 ones. It reads the name of its
 * kernels from the environment once, when it is loaded; so it is asked which it
 * took, and if the processor can do better it is loaded again with better ones
 * named. What the user names in OPENBLAS_CORETYPE stands. */
#include <base/error.h>
#include <base/openblas.h>
#include <base/platform.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *openblas;
static pthread_once_t openblas_once = PTHREAD_ONCE_INIT;

static bool find(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The kernels that OpenBLAS should run in place of those it took; NULL where
 * these are right. */
static const char *better_kernels(const char *taken)
{
    /* Without AVX2: all that it may take on x86-64 before Haswell. */
    static const char *const sse_or_avx[] = {
        "Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Sandybridge",
        "Atom", "Nano", "Opteron", "Opteron_SSE3", "Barcelona", "Bobcat",
        "Bulldozer", "Piledriver", "Steamroller", "Excavator", "generic",
    };
    tn__vectors there = tn__processor_vectors();
    bool narrow = there >= TN__AVX512 &&
                  (!strcmp(taken, "Haswell") || !strcmp(taken, "Zen"));
    for (size_t k = 0; there >= TN__AVX2 && k < sizeof sse_or_avx /
                                                    sizeof *sse_or_avx; k++)
        narrow = narrow || !strcmp(taken, sse_or_avx[k]);
    if (!narrow)
        return NULL;
    return there >= TN__AVX512 ? "SkylakeX" : "Haswell";
}

/* OpenBLAS has no other way to be told. Another thread may be in getenv: glibc
 * leaves the first array of names where it was, and moves one that the program
 * itself has made longer (before 2.41 such a thread may read what is freed). A
 * program with such threads names OPENBLAS_CORETYPE itself before it starts. */
static void *open_again(void *library, const char *taken, const char *kernels)
{
    tn__log(2, "OpenBLAS took its %s kernels for this processor: loaded again "
            "with %s", taken, kernels);
    dlclose(library);
    setenv("OPENBLAS_CORETYPE", kernels, 1);
    library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    unsetenv("OPENBLAS_CORETYPE");
    return library;
}

static void open_once(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    char *(*corename)(void);
    void (*set_threads)(int);
    if (library && !getenv("OPENBLAS_CORETYPE") &&
        find(library, "openblas_get_corename", &corename)) {
        char taken[32] = "";
        strncat(taken, corename(), sizeof taken - 1);
        const char *kernels = better_kernels(taken);
        if (kernels)
            library = open_again(library, taken, kernels);
    }
    if (library && find(library, "openblas_set_num_threads", &set_threads))
        set_threads(1);
    openblas = library;
}

void *tn__openblas(void)
{
    pthread_once(&openblas_once, open_once);
    return openblas;
}
