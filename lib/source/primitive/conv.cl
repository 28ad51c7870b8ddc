/* conv.cl: a convolution and its two gradients as tiled matrix products c = a *
 * b (implicit GEMM). The loads compute the address of each element of a window,
 * so the windows are not unfolded in memory. The product sums over k, and for
 * the gradients over a second index f:
 *
 *            rows  columns j       k              index f      a, b, c
 *   FORWARD  o     (n, y, x)       (c, ky, kx)                 weight, in, out
 *   INPUT    c     (n, y', x')     (o)            (ky, kx)     weight, out, in
 *   WEIGHT   o     (c, ky, kx)     (y, x)         (n)          out, in, weight
 *
 * b is the tensor over which the windows slide. The coordinate in b is a linear
 * function of j, k and f; elements outside of b are 0. For INPUT with stride
 * `step`, row y of the result is y' * step + phase, where the phase (0 to step
 * - 1) is an outer dimension. So all elements of a tile use the same elements
 * of the window. There is one matrix product for each group and phase.
 *
 * The results are bit-identical to im2col with a matrix product
 * (lib/ops/nn/columns.c): the sum over k is a chain of fma in rising order,
 * beginning with 0. The sum over f has the order of REDUCE for one chunk
 * (plugin_program.h). */
#define TK_M ((tk_idx)TK_OWN(0))
#define TK_N ((tk_idx)TK_OWN(1))
#define TK_K ((tk_idx)TK_OWN(2))
#define TK_F ((tk_idx)TK_OWN(3))
#define TK_F_FAST ((tk_idx)TK_OWN(4))
#define TK_K_DIGITS(k)                                                        \
    tk_digits_of((k), (tk_idx)TK_OWN(5), (tk_idx)TK_OWN(6))
#define TK_J_DIGITS(j)                                                        \
    tk_digits_of((j), (tk_idx)TK_OWN(7), (tk_idx)TK_OWN(8))
#define TK_AT_DIGITS(d, first)                                                \
    ((d).slow * (tk_idx)TK_OWN(first) +                                       \
     (d).middle * (tk_idx)TK_OWN(first + 1) +                                 \
     (d).fast * (tk_idx)TK_OWN(first + 2))
#define TK_INSIDE(h, w)                                                       \
    ((h) >= 0 && (h) < (tk_idx)TK_OWN(28) && (w) >= 0 &&                      \
     (w) < (tk_idx)TK_OWN(29))

/* An index that combines several dimensions, such as (n, y, x), and their
 * three coordinates, called digits: index = (slow * (extent of middle) +
 * middle) * (extent of fast) + fast. */
typedef struct tk_digits {
    tk_idx slow, middle, fast;
} tk_digits;
TK_FN tk_digits tk_digits_of(tk_idx number, tk_idx middle, tk_idx fast)
{
    tk_digits d;
    d.fast = number % fast;
    d.middle = number / fast % middle;
    d.slow = number / fast / middle;
    return d;
}

/* Adds TK_SIDE to the index whose digits are d. Argument words 38 to 40 are the
 * digits of TK_SIDE. */
#define TK_ADVANCE(d)                                                         \
    {                                                                         \
        d.fast += (tk_idx)TK_OWN(40);                                         \
        d.middle += (tk_idx)TK_OWN(39);                                       \
        d.slow += (tk_idx)TK_OWN(38);                                         \
        if (d.fast >= (tk_idx)TK_OWN(6)) {                                    \
            d.fast -= (tk_idx)TK_OWN(6);                                      \
            d.middle++;                                                       \
        }                                                                     \
        if (d.middle >= (tk_idx)TK_OWN(5)) {                                  \
            d.middle -= (tk_idx)TK_OWN(5);                                    \
            d.slow++;                                                         \
        }                                                                     \
    }

/* The file that follows, tile.cl or conv_fold.cl, uses the macros below. */
#define TK_NAME tn_conv
#if defined TK_BIAS
#define TK_EXTRA_BUFFERS TK_G const TK_STORED *bias,
#elif defined TK_LANE_TILES
#define TK_EXTRA_BUFFERS TK_G TK_VALUE *scratch,
#else
#define TK_EXTRA_BUFFERS
#endif
#ifdef TK_LANE_TILES
#define TK_SHARES (TK_F < 16 ? TK_F : 16)
#else
#define TK_SHARES 1
#endif

/* At the beginning of a tile: computes, for each column of the tile that this
 * work-item has, its offset and its coordinates in b. */
#define TK_TILE_BEGIN                                                         \
    const tk_idx phase_h = matrix / (tk_idx)TK_OWN(31) % (tk_idx)TK_OWN(30);  \
    const tk_idx phase_w = matrix % (tk_idx)TK_OWN(31);                       \
    const tk_digits first_a = TK_K_DIGITS(j), first_b = TK_K_DIGITS(i);       \
    tk_idx at_j[TK_EACH], h_j[TK_EACH], w_j[TK_EACH];                         \
    for (tk_i32 e = 0; e < TK_EACH; e++) {                                    \
        const tk_idx to = column + e * TK_SIDE;                               \
        const tk_digits d = TK_J_DIGITS(to < TK_N ? to : 0);                  \
        at_j[e] = at_b + d.slow * (tk_idx)TK_OWN(17);                         \
        h_j[e] = d.middle * (tk_idx)TK_OWN(22);                               \
        w_j[e] = d.fast * (tk_idx)TK_OWN(25);                                 \
    }

/* The product of a gradient is also summed over a second index f (see above).
 * Computes what a given f adds to the offset in a, and to the offset and
 * coordinates in b. */
#define TK_F_BEGIN(f)                                                         \
    const tk_idx f_slow = (f) / TK_F_FAST, f_fast = (f) % TK_F_FAST;          \
    const tk_idx f_a = at_a + f_slow * (tk_idx)TK_OWN(13) +                   \
                       f_fast * (tk_idx)TK_OWN(14);                           \
    const tk_idx f_b = f_slow * (tk_idx)TK_OWN(16);                           \
    const tk_idx f_h = phase_h + (tk_idx)TK_OWN(26) +                         \
                       f_slow * (tk_idx)TK_OWN(21);                           \
    const tk_idx f_w = phase_w + (tk_idx)TK_OWN(27) +                         \
                       f_fast * (tk_idx)TK_OWN(24);                           \
    tk_digits k_a = first_a, k_b = first_b;

#define TK_LOAD_A(e, i, k)                                                    \
    TK_FROM(a[f_a + (i) * (tk_idx)TK_OWN(9) + TK_AT_DIGITS(k_a, 10)])
#define TK_LOAD_B(e, k, j)                                                    \
    tk_window_element(b, at_j[e] + f_b + k_b.slow * (tk_idx)TK_OWN(15),       \
                      start_h + h_j[e] + k_b.middle * (tk_idx)TK_OWN(20),     \
                      start_w + w_j[e] + k_b.fast * (tk_idx)TK_OWN(23),       \
                      (tk_idx)TK_OWN(28), (tk_idx)TK_OWN(29),                 \
                      (tk_idx)TK_OWN(18), (tk_idx)TK_OWN(19))
TK_FN TK_VALUE tk_window_element(TK_G const TK_STORED *b, tk_idx at, tk_idx h,
                                 tk_idx w, tk_idx height, tk_idx width,
                                 tk_idx down, tk_idx across)
{
    return h >= 0 && h < height && w >= 0 && w < width
               ? TK_FROM(b[at + h * down + w * across])
               : (TK_VALUE)0;
}
#define TK_NEXT                                                               \
    TK_ADVANCE(k_a)                                                           \
    TK_ADVANCE(k_b)

#ifdef TK_REDUCED

/* For one lane: sums over every 16th index f, beginning with f = lane. (A lane
 * is one of 16 partial sums.) If there is no such index, the sum is -0, which
 * leaves another sum unchanged when it is added. */
#define TK_LANE_BEGIN(lane)                                                   \
    for (tk_i32 y = 0; y < TK_EACH; y++)                                      \
        for (tk_i32 x = 0; x < TK_EACH; x++)                                  \
            total[y][x] = -(TK_VALUE)0;                                       \
    for (tk_idx f = (lane); f < TK_F; f += 16) {                              \
        TK_F_BEGIN(f)                                                         \
        TK_STEPS_BEGIN
#define TK_LANE_END                                                           \
        for (tk_i32 y = 0; y < TK_EACH; y++)                                  \
            for (tk_i32 x = 0; x < TK_EACH; x++)                              \
                total[y][x] = TK_PLUS(total[y][x], TK_OF_WINDOW(y, x));       \
    }

#ifdef TK_LANE_TILES

/* Each lane (partial sum) has a tile of its own. conv_fold.cl then adds the
 * lanes. */
#define TK_SUMS_BEGIN                                                         \
    (void)c;                                                                  \
    (void)at_c;                                                               \
    const tk_idx share = tile / across / down / (tk_idx)TK_WORD(0);           \
    TK_VALUE total[TK_EACH][TK_EACH];                                         \
    TK_LANE_BEGIN(share)
#define TK_SUMS_END TK_LANE_END

#else

/* Computes the 16 lanes (partial sums) one after the other, in bit-reversed
 * order. So two lanes that are added come one after the other, then two pairs
 * that are added, and so on. partial[b] is the sum of 2^b lanes that waits for
 * its partner. */
#define TK_SUMS_BEGIN                                                         \
    TK_VALUE total[TK_EACH][TK_EACH], partial[4][TK_EACH][TK_EACH];           \
    for (tk_i32 reversed = 0; reversed < 16; reversed++) {                    \
        TK_LANE_BEGIN((reversed & 1) << 3 | (reversed & 2) << 1 |             \
                      (reversed & 4) >> 1 | reversed >> 3)
#define TK_SUMS_END                                                           \
        TK_LANE_END                                                           \
        tk_bool rises = 1;                                                    \
        for (tk_i32 b = 0; b < 4; b++) {                                      \
            const tk_bool meets = rises && (reversed >> b & 1);               \
            for (tk_i32 y = 0; y < TK_EACH; y++)                              \
                for (tk_i32 x = 0; x < TK_EACH; x++)                          \
                    if (meets)                                                \
                        total[y][x] = TK_PLUS(partial[b][y][x], total[y][x]); \
                    else if (rises)                                           \
                        partial[b][y][x] = total[y][x];                       \
            rises = meets;                                                    \
        }                                                                     \
    }

#endif
#define TK_SUM total

#else

#define TK_SUMS_BEGIN                                                         \
    TK_F_BEGIN(0)                                                             \
    TK_STEPS_BEGIN
#define TK_SUMS_END
#define TK_SUM sum

#endif

#ifdef TK_PHASES

/* If no window of this phase (position modulo the stride) has an element for
 * index f, or the element is outside of b, nothing is added. */
#define TK_STEPS_BEGIN                                                        \
    const tk_idx start_h = f_h / (tk_idx)TK_OWN(30);                          \
    const tk_idx start_w = f_w / (tk_idx)TK_OWN(31);                          \
    const tk_idx depth = start_h * (tk_idx)TK_OWN(30) == f_h &&               \
                                 start_w * (tk_idx)TK_OWN(31) == f_w          \
                             ? TK_K                                           \
                             : 0;
#define TK_DEPTH depth
#define TK_OF_WINDOW(y, x)                                                    \
    (TK_INSIDE(start_h + h_j[x], start_w + w_j[x]) ? sum[y][x] : (TK_VALUE)0)

#else

#define TK_STEPS_BEGIN const tk_idx start_h = f_h, start_w = f_w;
#define TK_DEPTH TK_K
#define TK_OF_WINDOW(y, x) sum[y][x]

#endif

#ifdef TK_LANE_TILES
#define TK_COLUMN_BEGIN(j)
#else
#define TK_COLUMN_BEGIN(j)                                                    \
    const tk_digits d = TK_J_DIGITS(j);                                       \
    const tk_idx in_c = at_c + TK_AT_DIGITS(d, 35);                           \
    const tk_bool is_c =                                                      \
        d.middle * (tk_idx)TK_OWN(30) + phase_h < (tk_idx)TK_OWN(32) &&       \
        d.fast * (tk_idx)TK_OWN(31) + phase_w < (tk_idx)TK_OWN(33);
#endif
#ifdef TK_BIAS
#define TK_ADD_BIAS(i, sum)                                                   \
    TK_PLUS((sum), TK_FROM(bias[(tk_idx)TK_OWN(41) +                          \
                                (matrix * TK_M + (i)) * (tk_idx)TK_OWN(42)]))
#else
#define TK_ADD_BIAS(i, sum) (sum)
#endif
#ifdef TK_LANE_TILES
#define TK_STORE(i, j, sum)                                                   \
    scratch[((share * (tk_idx)TK_WORD(0) + matrix) * TK_M + (i)) * TK_N +     \
            (j)] = (sum);
#else
#define TK_STORE(i, j, sum)                                                   \
    if (is_c)                                                                 \
        c[in_c + (i) * (tk_idx)TK_OWN(34)] = TK_TO(TK_ADD_BIAS(i, sum));
#endif
