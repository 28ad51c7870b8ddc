/* lanes.c: measures how many lanes (partial sums) a sum should have. plugin.h
 * fixes the order of a reduction by TN_LANES. This number limits how well each
 * instruction set can vectorise the reduction. This program measures the loops
 * that the CPU plugin would use, for the lane count and vector width that it is
 * compiled for:
 *
 *     for isa in "-mavx2 -DWIDTH=32" "-mavx512f -DWIDTH=64"; do
 *         for lanes in 16 32 64; do
 *             gcc -O3 $isa -DLANES=$lanes -o lanes bench/lanes.c && ./lanes
 *         done
 *     done
 *
 * It prints one line with picoseconds per element, the minimum over many
 * rounds. docs/decisions.md has the decision. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef LANES
#define LANES 32
#endif
#ifndef WIDTH
#define WIDTH 16
#endif
#define CHUNK 1024
#define COLUMNS 64 /* adjacent columns that are summed together */

typedef float vec __attribute__((vector_size(WIDTH), aligned(4)));
enum { PER = WIDTH / 4, VECS = LANES / PER };

static float fold_lanes(float *lane, int count)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half && i + half < count; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Sums at most one chunk of contiguous memory. */
static float sum_chunk(const float *x, int n)
{
    float lane[LANES];
    if (n < LANES) {
        /* Starts from -0.0, the only neutral element of addition: -0.0 + x is
         * bit-identical to x for every x, while 0.0 + -0.0 is 0.0. */
        for (int i = 0; i < LANES; i++)
            lane[i] = -0.0f;
        memcpy(lane, x, (size_t)n * sizeof *x);
        return fold_lanes(lane, LANES);
    }
    vec acc[VECS];
#pragma GCC unroll 16
    for (int v = 0; v < VECS; v++)
        acc[v] = *(const vec *)(x + v * PER);
    int k = LANES;
    for (; k + LANES <= n; k += LANES)
#pragma GCC unroll 16
        for (int v = 0; v < VECS; v++)
            acc[v] += *(const vec *)(x + k + v * PER);
    memcpy(lane, acc, sizeof lane);
    for (int i = 0; k + i < n; i++)
        lane[i] += x[k + i];
    return fold_lanes(lane, LANES);
}

static float sum_row(const float *x, long n)
{
    float part[CHUNK];
    long chunks = 0;
    for (long k = 0; k < n; k += CHUNK) {
        /* Adds chunk sums pairwise in their order, like a binary counter. */
        float s = sum_chunk(x + k, (int)(n - k < CHUNK ? n - k : CHUNK));
        long at = chunks++;
        int depth = 0;
        for (; at & 1; at >>= 1)
            s = part[depth++] + s;
        part[depth] = s;
    }
    float s = 0;
    int first = 1, depth = 0;
    for (long left = chunks; left; left >>= 1, depth++)
        if (left & 1) {
            s = first ? part[depth] : part[depth] + s;
            first = 0;
        }
    return s;
}

/* Sums COLUMNS adjacent columns over at most one chunk of rows. The lanes of
 * all columns stay in L1. */
static void sum_columns(const float *x, long pitch, int n, float *out)
{
    float lane[LANES][COLUMNS];
    int have = n < LANES ? n : LANES;
    for (int l = 0; l < have; l++)
        memcpy(lane[l], x + l * pitch, sizeof lane[l]);
    for (int k = LANES; k < n; k++) {
        float *acc = lane[k % LANES];
        const float *row = x + k * pitch;
        for (int c = 0; c < COLUMNS; c++)
            acc[c] += row[c];
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half && l + half < have; l++)
            for (int c = 0; c < COLUMNS; c++)
                lane[l][c] += lane[l + half][c];
    memcpy(out, lane[0], sizeof lane[0]);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_rows(const float *x, float *out, long rows, long n)
{
    double best = 1e9;
    long repeat = 4000000 / (rows * n) + 1;
    for (int round = 0; round < 15; round++) {
        double start = seconds();
        for (long r = 0; r < repeat; r++)
            for (long i = 0; i < rows; i++)
                out[i] = sum_row(x + i * n, n);
        double t = (seconds() - start) / (double)(repeat * rows * n);
        best = t < best ? t : best;
    }
    return best * 1e12;
}

static double time_columns(const float *x, float *out, long n, long columns)
{
    double best = 1e9;
    long repeat = 4000000 / (columns * n) + 1;
    for (int round = 0; round < 15; round++) {
        double start = seconds();
        for (long r = 0; r < repeat; r++)
            for (long k = 0; k < n; k += CHUNK)
                for (long c = 0; c < columns; c += COLUMNS)
                    sum_columns(x + k * columns + c, columns,
                                (int)(n - k < CHUNK ? n - k : CHUNK), out + c);
        double t = (seconds() - start) / (double)(repeat * columns * n);
        best = t < best ? t : best;
    }
    return best * 1e12;
}

int main(void)
{
    static const long row[][2] = {{1, 1 << 24}, {16, 1024}, {128, 128},
                                  {128, 64},    {1024, 10}, {16, 1000}};
    static const long column[][2] = {{4096, 4096}, {128, 64}, {64, 1024},
                                     {10, 1024}};
    size_t count = (size_t)1 << 24;
    float *x = malloc(count * sizeof *x), *out = malloc(count / 16);
    if (!x || !out)
        return 1;
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(i % 1000) - 499.5f;
    printf("lanes %2d width %d |", LANES, WIDTH);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        printf(" %ldx%ld %.0f", row[i][0], row[i][1],
               time_rows(x, out, row[i][0], row[i][1]));
    printf(" | columns");
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        printf(" %ldx%ld %.0f", column[i][0], column[i][1],
               time_columns(x, out, column[i][0], column[i][1]));
    printf(" | check %g\n", (double)out[0]);
    free(x);
    free(out);
    return 0;
}
