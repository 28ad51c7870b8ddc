/* Transposes matrices by square tiles, and copies rows, for every
 * instruction set. Tests all small sizes, and that nothing outside the
 * result is written. */
#include "../tap.h"
#include <tenon/base.h>

#include "../../backends/cpu/simd/routines.h"
#include "isa_here.h"

enum { MOST = 37, GAP = 11, STEP = MOST + GAP };

static uint8_t in[8 * STEP * STEP];
static _Alignas(64) uint8_t out[8 * STEP * STEP];

/* Returns how many bytes of the output differ from the transposed matrix
 * (columns, rows), surrounded by zeros. out_step and in_step are the row
 * strides of output and input. */
static int64_t wrong_bytes(size_t bytes, int64_t rows, int64_t columns,
                           int64_t out_step, int64_t in_step)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < STEP * STEP; i++) {
        int64_t c = i / out_step, r = i % out_step;
        for (size_t b = 0; b < bytes; b++) {
            uint8_t want = c < columns && r < rows
                               ? in[(size_t)(r * in_step + c) * bytes + b]
                               : 0;
            wrong += out[(size_t)i * bytes + b] != want;
        }
    }
    return wrong;
}

/* Transposes two contiguous rows, or two columns, whose elements are
 * interleaved in the result. Returns the number of wrong bytes. */
static int64_t wrong_pairs(const tn_cpu_routines *r, size_t bytes)
{
    int64_t wrong = 0;
    for (int64_t n = 1; n <= MOST; n++) {
        memset(out, 0, sizeof out);
        r->transpose[bytes](out, 2, in, STEP, 2, n, 0);
        wrong += wrong_bytes(bytes, 2, n, 2, STEP);
        memset(out, 0, sizeof out);
        r->transpose[bytes](out, STEP, in, 2, n, 2, 0);
        wrong += wrong_bytes(bytes, n, 2, STEP, 2);
    }
    return wrong;
}

/* Copies three rows of each length, with and without gaps between rows. Returns
 * the number of wrong bytes. */
static int64_t wrong_rows(const tn_cpu_routines *r)
{
    enum { LONGEST = 1100 };
    int64_t wrong = 0;
    for (int64_t n = 1; n <= LONGEST; n++)
        for (int64_t gap = 0; gap < 2; gap++) {
            const int64_t step = n + 3 * gap;
            memset(out, 0, sizeof out);
            r->copy_rows((char *)out + 1, step, (const char *)in + 5, n, 3, n);
            for (int64_t i = 0; i < 4 * (LONGEST + 3); i++) {
                int64_t row = (i - 1) / step, at = (i - 1) % step;
                wrong += out[i] != (i > 0 && row < 3 && at < n
                                        ? in[5 + row * n + at]
                                        : 0);
            }
        }
    return wrong;
}

static void test_set(const char *isa, void (*fill)(tn_cpu_routines *))
{
    tn_cpu_routines r = {0};
    if (!is_here(isa)) {
        skip(1, "this machine cannot run the set");
        return;
    }
    fill(&r);
    for (size_t bytes = 1; bytes <= 8; bytes *= 2) {
        int64_t wrong = 0;
        for (int64_t rows = 1; rows <= MOST; rows++)
            for (int64_t columns = 1; columns <= MOST; columns++) {
                memset(out, 0, sizeof out);
                r.transpose[bytes](out, STEP, in, STEP, rows, columns,
                                   (int)(columns % 2));
                if (r.fence)
                    r.fence();
                wrong += wrong_bytes(bytes, rows, columns, STEP, STEP);
            }
        is_int(wrong, 0, "%s: matrices of %d bytes an element", isa,
               (int)bytes);
        is_int(wrong_pairs(&r, bytes), 0, "%s: pairs of %d bytes", isa,
               (int)bytes);
    }
    is_int(wrong_rows(&r), 0, "%s: rows of up to 1100 bytes", isa);
}

int main(void)
{
    plan_later();
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(1 + i * 7 % 251);
    test_set("generic", tn__cpu_move__generic);
#if defined(__x86_64__)
    test_set("v3", tn__cpu_move__v3);
    test_set("v4", tn__cpu_move__v4);
#endif
    return done_testing();
}
