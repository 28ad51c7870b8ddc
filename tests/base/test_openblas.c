/* Tests that the library makes OpenBLAS use the fastest kernels for the
 * processor. */
#include "base/openblas.h"
#include "base/platform.h"
#include "tap.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Stores the name of the kernels that OpenBLAS chooses in a new process; ""
 * without OpenBLAS. */
static void kernels(const char *coretype, char *name, size_t room)
{
    int ends[2];
    *name = 0;
    if (pipe(ends))
        return;
    if (!fork()) {
        if (coretype)
            setenv("OPENBLAS_CORETYPE", coretype, 1);
        else
            unsetenv("OPENBLAS_CORETYPE");
        void *library = tn__openblas();
        void *symbol = library ? dlsym(library, "openblas_get_corename") : NULL;
        char *(*corename)(void);
        memcpy(&corename, &symbol, sizeof symbol);
        const char *it = symbol ? corename() : "";
        const char *now = getenv("OPENBLAS_CORETYPE");
        bool kept = coretype ? now && !strcmp(now, coretype) : !now;
        it = kept ? it : "the environment changed";
        _exit(write(ends[1], it, strlen(it)) < 0);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], name, room - 1);
    name[got > 0 ? got : 0] = 0;
    close(ends[0]);
    wait(NULL);
}

int main(void)
{
    char name[64], forced[64];
    kernels(NULL, name, sizeof name);
    if (!*name) {
        skip(2, "no libopenblas.so.0 that names its kernels");
        return done_testing();
    }
    printf("# vectors %d, kernels %s\n", (int)tn__processor_vectors(), name);
    /* Kernels with narrower vectors than AVX-512 (all), or than AVX2 (from the
     * third on). OpenBLAS falls back to them on processors that it does not
     * know. */
    static const char *const narrower[] = {"Haswell", "Zen", "Sandybridge",
                                           "Nehalem", "Prescott", "generic"};
    size_t first = tn__processor_vectors() == TN__AVX512 ? 0
                   : tn__processor_vectors() == TN__AVX2 ? 2
                                                         : 6;
    bool narrow = false;
    for (size_t k = first; k < sizeof narrower / sizeof *narrower; k++)
        narrow |= !strcmp(name, narrower[k]);
    ok(!narrow, "kernels as wide as the processor's vectors: %s", name);
    kernels("Nehalem", forced, sizeof forced);
#if defined(__x86_64__)
    ok(!strcmp(forced, "Nehalem"), "OPENBLAS_CORETYPE is respected: %s",
       forced);
#else
    ok(*forced, "OPENBLAS_CORETYPE is left alone");
#endif
    return done_testing();
}
