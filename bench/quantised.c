/* quantised.c: products with weights in the block formats of GGUF files, one
 * row and 128 rows at a time, compared with the speed at which one thread reads
 * memory.
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

/* Returns the seconds of the fastest of several products. */
static double time_of(tn_tensor *x, tn_tensor *w, const char *format)
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        tn_scope *scope = tn_scope_open();
        const double start = now();
        tn_tensor *y = format ? tn_quantized_linear(x, w, format, NULL)
                              : tn_linear(x, w, NULL);
        tn_device_synchronize(NULL);
        const double seconds = now() - start;
        if (!y) {
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
    tn_tensor *one = tn_randn(tn_dims(1, columns));
    tn_tensor *many = tn_randn(tn_dims(128, columns));
    const double alone = time_of(one, w, format);
    const double together = time_of(many, w, format);
    printf("%-8s 1 row: %6.1f GB/s (%3.0f %% of reading)   128 rows: %7.1f "
           "GFLOP/s\n", name, 1e-9 * bytes / alone,
           100 * bytes / alone / read,
           2e-9 * 128 * (double)rows * (double)columns / together);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int elements, bytes, scale; /* scale: where a block's d is */
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
    tn_tensor *plain = tn_randn(tn_dims(rows, columns));
    void *data = plain ? tn_tensor_data(plain) : NULL;
    if (!data) {
        fprintf(stderr, "%s\n", tn_error());
        return 1;
    }
    const double bytes = 4. * (double)rows * (double)columns;
    const double read = read_speed(data, (size_t)bytes);
    printf("reading memory: %.1f GB/s; %lld x %lld, %d threads\n", 1e-9 * read,
           (long long)rows, (long long)columns, tn_num_threads());
    measure("float32", NULL, plain, bytes, rows, columns, read);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        const int64_t row = columns / formats[f].elements * formats[f].bytes;
        tn_scope *inner = tn_scope_open();
        tn_tensor *w = tn_randint(0, 256, tn_dims(rows, row), .dtype = TN_U8);
        unsigned char *at = w ? tn_tensor_data(w) : NULL;
        for (int64_t i = 0; at && i < rows * row; i += formats[f].bytes)
            memcpy(at + i + formats[f].scale, "\0\x20\0\x20", /* d, m: 1/128 */
                   formats[f].scale ? 2 : 4);
        measure(formats[f].name, formats[f].name, w,
                (double)rows * (double)row, rows, columns, read);
        tn_scope_close(inner);
    }
    tn_scope_close(scope);
    return 0;
}
