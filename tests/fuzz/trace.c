/* trace.c: fuzzes the trace files that `tenon trace --summary` reads. The first
 * byte selects --by. */
#include <fcntl.h>

#include "../../tools/tenon_trace.h"
#include "fuzz.h"

const char fuzz_target[] = "trace";

/* Redirects stdout and stderr to the descriptors out and error. */
static void point(int out, int error)
{
    fflush(stdout);
    fflush(stderr);
    if (dup2(out, STDOUT_FILENO) < 0 || dup2(error, STDERR_FILENO) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *const by[] = {"op", "module", "shapes"};
    static int nowhere = -1, out, error;
    char path[32];
    if (nowhere < 0) {
        nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        out = dup(STDOUT_FILENO);
        error = dup(STDERR_FILENO);
    }
    if (!size)
        return 0;
    int fd = fuzz_file(data + 1, size - 1, path);
    point(nowhere, nowhere);
    const int status = tenon_trace(
        4, (char *[]){"--summary", path, "--by", by[data[0] % 3]});
    point(out, error);
    fuzz_check(status == 0 || status == 1, "it is added up, or refused");
    close(fd);
    return 0;
}
