/* openblas.c: loads OpenBLAS so that it uses the best kernels for the
 * processor.
 *
 * An OpenBLAS that does not recognise the processor uses kernels for processors
 * of 2004. For example, version 0.3.21 (Debian 12) runs its SSE3 kernels
 * ("Prescott") on an Emerald Rapids Xeon, where they take 3 to 4 times as long
 * as its AVX-512 kernels. OpenBLAS chooses its kernels when it is loaded, and
 * the environment variable OPENBLAS_CORETYPE overrides the choice. So this file
 * loads OpenBLAS and queries which kernels it uses. If the processor supports
 * better ones, the file sets that variable and loads OpenBLAS again. A value
 * that the user has set is not changed. */
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

/* Returns the name of better kernels than `taken` that the processor supports;
 * NULL if there are none. */
static const char *better_kernels(const char *taken)
{
    /* OpenBLAS's names of x86-64 kernels that do not use AVX2. */
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

/* Loads the library again with other kernels, whose name can only be passed in
 * the environment. Changing the environment is not safe if another thread calls
 * getenv at the same time: before glibc 2.41, that thread may read freed
 * memory. A program with such threads should start with OPENBLAS_CORETYPE
 * set. */
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
