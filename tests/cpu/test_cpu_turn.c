/* Matrices turned over by the cpu plugin's squares, for every instruction set:
 * all small sizes, and nothing beside them is written. */
#include "../tap.h"
#include <tenon/base.h>

#include "../../backends/cpu/routines.h"
#include "isa_here.h"

enum { MOST = 37, GAP = 11, STEP = MOST + GAP };

static uint8_t in[8 * STEP * STEP];
static _Alignas(64) uint8_t out[8 * STEP * STEP];

/* Bytes of out that are not the matrix (columns, rows) among zeros. */
static int64_t wrong_bytes(size_t bytes, int64_t rows, int64_t columns)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < STEP * STEP; i++) {
        int64_t c = i / STEP, r = i % STEP;
        for (size_t b = 0; b < bytes; b++) {
            uint8_t want = c < columns && r < rows
                               ? in[(size_t)(r * STEP + c) * bytes + b]
                               : 0;
            wrong += out[(size_t)i * bytes + b] != want;
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
                r.turn[bytes](out, STEP, in, STEP, rows, columns,
                              (int)(columns % 2));
                if (r.fence)
                    r.fence();
                wrong += wrong_bytes(bytes, rows, columns);
            }
        is_int(wrong, 0, "%s: matrices of %d bytes an element", isa,
               (int)bytes);
    }
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
