/* quantised.c: products with weights in the block formats of GGUF files, one
 * row, four and 128 rows at a time, on the device of TENON_DEVICE. They are
 * compared with the speed at which one thread reads the CPU's memory, or at
 * which another device copies in its own.
 *
 * bench/quantised [ROWS COLUMNS]     (of the weight; 16384 x 4096 by default)
 *
 * The weight should be larger than the caches, so that a product with one row
 * reads it from memory. Set TENON_NUM_THREADS=1 for figures of one thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <time.h>

enum { ROUNDS = 7 };

/* Products that are submitted before the device is waited for. A GPU computes
 * one in less time than a wait takes. */
static int calls = 1;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the bytes per second at which a loop reads memory. */
static double read_speed(const uint64_t *data, size_t bytes)
{
    double best = 0;
    volatile uint64_t sink;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t sum[32] = {0};
        const double start = now();
        for (size_t i = 0; i + 32 <= bytes / 8; i += 32)
            for (int l = 0; l < 32; l++)
                sum[l] += data[i + (size_t)l];
        const double speed = (double)bytes / (now() - start);
        for (int l = 1; l < 32; l++)
            sum[0] += sum[l];
        sink = sum[0];
        (void)sink;
        best = speed > best ? speed : best;
    }
    return best;
}

/* Returns the bytes per second that a copy of x reads and writes. */
static double copy_speed(tn_tensor *x, double bytes)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        tn_scope *scope = tn_scope_open();
        tn_device_synchronize(NULL);
        const double start = now();
        for (int i = 0; i < calls; i++)
            tn_clone(x);
        tn_device_synchronize(NULL);
        const double speed = 2 * bytes * calls / (now() - start);
        tn_scope_close(scope);
        best = speed > best ? speed : best;
    }
    return best;
}

/* Returns the seconds of the fastest of several products. */
static double time_of(tn_tensor *x, tn_tensor *w, const char *format)
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        tn_scope *scope = tn_scope_open();
        tn_device_synchronize(NULL);
        const double start = now();
        for (int i = 0; i < calls; i++)
            if (format)
                tn_quantized_linear(x, w, format, NULL);
            else
                tn_linear(x, w, NULL);
        tn_device_synchronize(NULL);
        const double seconds = (now() - start) / calls;
        if (tn_error()) {
            fprintf(stderr, "%s\n", tn_error());
            exit(1);
        }
        tn_scope_close(scope);
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void measure(const char *name, const char *format, tn_tensor *w,
                    double bytes, int64_t rows, int64_t columns, double read)
{
    tn_tensor *many = tn_randn(tn_dims(128, columns));
    const double alone = time_of(tn_narrow(many, 0, 0, 1), w, format);
    const double four = time_of(tn_narrow(many, 0, 0, 4), w, format);
    const double together = time_of(many, w, format);
    printf("%-8s 1 row: %6.1f GB/s (%3.0f %% of reading)   4 rows: %6.1f GB/s"
           "   128 rows: %7.1f GFLOP/s\n", name, 1e-9 * bytes / alone,
           100 * bytes / alone / read, 1e-9 * bytes / four,
           2e-9 * 128 * (double)rows * (double)columns / together);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int elements, bytes, scale; /* scale: offset of d, the scale, in a
                                       block */
    } formats[] = {{"Q8_0", 32, 34, 0},     {"Q4_0", 32, 18, 0},
                   {"Q4_1", 32, 20, 0},     {"Q5_0", 32, 22, 0},
                   {"Q5_1", 32, 24, 0},     {"Q4_K", 256, 144, 0},
                   {"Q5_K", 256, 176, 0},   {"Q6_K", 256, 210, 208}};
    const int64_t rows = argc > 2 ? atoll(argv[1]) : 16384;
    const int64_t columns = argc > 2 ? atoll(argv[2]) : 4096;
    if (rows < 1 || columns < 256 || columns % 256) {
        fprintf(stderr, "usage: quantised [ROWS COLUMNS], COLUMNS a multiple "
                        "of 256\n");
        return 1;
    }
    tn_scope *scope = tn_scope_open();
    tn_device *device = tn_device_current(), *cpu = tn_device_open("cpu");
    const char *name = tn_device_name(device);
    const bool is_cpu = name && strncmp(name, "cpu", 3) == 0;
    tn_tensor *plain = tn_randn(tn_dims(rows, columns));
    if (!plain) {
        fprintf(stderr, "%s\n", tn_error());
        return 1;
    }
    calls = is_cpu ? 1 : 20;
    const double bytes = 4. * (double)rows * (double)columns;
    const double read = is_cpu
                            ? read_speed(tn_tensor_data(plain), (size_t)bytes)
                            : copy_speed(plain, bytes);
    printf("%s: %s memory: %.1f GB/s; %lld x %lld, %d threads\n", name,
           is_cpu ? "reading" : "copying", 1e-9 * read, (long long)rows,
           (long long)columns, tn_num_threads());
    measure("float32", NULL, plain, bytes, rows, columns, read);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const int64_t row = columns / formats[f].elements * formats[f].bytes;
        tn_scope *inner = tn_scope_open();
        tn_tensor *w = tn_randint(0, 256, tn_dims(rows, row), .dtype = TN_U8,
                                  .device = cpu);
        unsigned char *at = w ? tn_tensor_data(w) : NULL;
        for (int64_t i = 0; at && i < rows * row; i += formats[f].bytes)
            memcpy(at + i + formats[f].scale, "\0\x20\0\x20", /* d, m: 1/128 */
                   formats[f].scale ? 2 : 4);
        measure(formats[f].name, formats[f].name, tn_to(w, device),
                (double)rows * (double)row, rows, columns, read);
        tn_scope_close(inner);
    }
    tn_scope_close(scope);
    return 0;
}
