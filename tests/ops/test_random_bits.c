/* test_random_bits.c: tests that a seed determines random numbers. They are
 * bit-identical on reference and on cpu, for every instruction set of this
 * machine and 1, 2 and 7 threads.
 *
 * A process can open a device only once, so each combination runs in a new
 * process of this program, which prints a hash. */
#include <tenon/tenon.h>

#include <unistd.h>

#include "tap.h"

enum { COUNT = 300001 };

static uint64_t hash_more(uint64_t hash, tn_tensor *x)
{
    size_t bytes =
        (size_t)tn_tensor_numel(x) * tn_dtype_bytes(tn_tensor_dtype(x));
    unsigned char *data = malloc(bytes + 1);
    if (!data || tn_tensor_to_array(x, data, bytes) < 0)
        exit(3);
    for (size_t i = 0; i < bytes; i++) /* FNV-1a */
        hash = (hash ^ data[i]) * 1099511628211u;
    free(data);
    return hash;
}

/* Draws each kind of random number, and again at a later position of the
 * stream. */
static int print_hash(void)
{
    uint64_t hash = 14695981039346656037u;
    tn_manual_seed(42);
    for (int round = 0; round < 2; round++) {
        hash = hash_more(hash, tn_rand(tn_dims(COUNT)));
        hash = hash_more(hash, tn_randn(tn_dims(3, COUNT / 3)));
        hash = hash_more(hash, tn_randn(tn_dims(1001), .dtype = TN_F64));
        hash = hash_more(hash, tn_randint(-5, 1000, tn_dims(COUNT)));
        hash = hash_more(hash, tn_dropout(tn_ones(tn_dims(COUNT)), 0.3, true));
    }
    if (tn_error())
        return fprintf(stderr, "%s\n", tn_error()), 3;
    printf("%016" PRIx64 "\n", hash);
    return 0;
}

/* Stores the hash that a process with these settings prints. Returns false if
 * it could not run. */
static bool hash_of(const char *self, const char *device, const char *isa,
                    int threads, char hash[32])
{
    char command[1200];
    snprintf(command, sizeof command,
             "TENON_DEVICE=%s TENON_CPU_ISA=%s TENON_NUM_THREADS=%d '%s' "
             "--hash 2>/dev/null",
             device, isa, threads, self);
    FILE *pipe = popen(command, "r");
    bool read = pipe && fscanf(pipe, "%31s", hash) == 1;
    return pipe && pclose(pipe) == 0 && read;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--hash") == 0)
        return print_hash();
    plan_later();
    char want[32] = "", got[32] = "";
    if (!hash_of(argv[0], "reference", "", 1, want))
        bail_out("reference draws no numbers");
    note("reference: %s", want);
    if (hash_of(argv[0], "opencl", "", 1, got))
        is_str(got, want, "opencl: the reference's bits");
    else
        skip(1, "no OpenCL device");
    const char *const isas[] = {"generic", "v3-nojit", "v3", "v4-nojit", "v4"};
    const int threads[] = {1, 2, 7};
    for (int i = 0; i < 5; i++) {
        for (int t = 0; t < 3; t++) {
            if (hash_of(argv[0], "cpu", isas[i], threads[t], got))
                is_str(got, want, "cpu, %s, %d threads: the reference's bits",
                       isas[i], threads[t]);
            else if (i == 0)
                ok(false, "cpu, generic draws no numbers");
            else
                skip(1, "this machine lacks the instruction set");
        }
    }
    return done_testing();
}
