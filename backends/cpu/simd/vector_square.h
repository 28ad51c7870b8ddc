/* vector_square.h: transposes a square of rows in registers. */
#ifndef TN_CPU_VECTOR_SQUARE_H
#define TN_CPU_VECTOR_SQUARE_H

#include "vector_ops.h"

/* Indices of shuffles that exchange groups of `width` elements between two
 * vectors x and y of N elements. Element i of LOW_N_width is x[i] if i & width
 * is 0, else y[i - width]. Element i of HIGH_N_width is x[i + width] if i &
 * width is 0, else y[i]. */
#define LOW_2_1 0, 2
#define HIGH_2_1 1, 3
#define LOW_4_2 0, 1, 4, 5
#define HIGH_4_2 2, 3, 6, 7
#define LOW_4_1 0, 4, 2, 6
#define HIGH_4_1 1, 5, 3, 7
#define LOW_8_4 0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_8_4 4, 5, 6, 7, 12, 13, 14, 15
#define LOW_8_2 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_8_2 2, 3, 10, 11, 6, 7, 14, 15
#define LOW_8_1 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_8_1 1, 9, 3, 11, 5, 13, 7, 15
#define LOW_16_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_16_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW_16_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_16_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_16_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_16_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_16_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_16_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31

/* Exchanges groups of `width` elements between row i and row i + width of a
 * square of N rows. Doing this for each width 1, 2, 4 ... N / 2 transposes the
 * square. */
#define EXCHANGE(V, I, N, width)                                              \
    _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) if (!(i & width))    \
    {                                                                         \
        V x = row[i], y = row[i + width];                                     \
        row[i] = SHUFFLE(V, I, x, y, LOW_##N##_##width);                      \
        row[i + width] = SHUFFLE(V, I, x, y, HIGH_##N##_##width);             \
    }
#define SQUARE_2(V, I) EXCHANGE(V, I, 2, 1)
#define SQUARE_4(V, I) EXCHANGE(V, I, 4, 2) EXCHANGE(V, I, 4, 1)
#define SQUARE_8(V, I)                                                        \
    EXCHANGE(V, I, 8, 4) EXCHANGE(V, I, 8, 2) EXCHANGE(V, I, 8, 1)
#define SQUARE_16(V, I)                                                       \
    EXCHANGE(V, I, 16, 8)                                                     \
    EXCHANGE(V, I, 16, 4) EXCHANGE(V, I, 16, 2) EXCHANGE(V, I, 16, 1)

#endif
