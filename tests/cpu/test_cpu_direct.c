/* Differences of a matrix and a row or column that is broadcast, on either side
 * of the operator. Tasks and memory pages end within rows; results are stored
 * with and without non-temporal stores; The test covers every instruction set.
 * It also tests fills, large enough for string instructions (rep stosb) and
 * smaller ones. */
#include "cpu_plugin.h"
#include "cpu_program.h"

enum { WHOLE, ROW, COLUMN, KINDS, PLANES = 2, ROWS = 35 };
static const char *const kinds[] = {"a matrix", "a row", "a column"};

/* Sets the strides of an operand for the dimensions (PLANES, ROWS, 1, n). */
static void strides_of(int kind, int64_t n, int64_t stride[4])
{
    stride[0] = kind == WHOLE ? ROWS * n : kind == ROW ? 0 : ROWS;
    stride[1] = kind == WHOLE ? n : kind == ROW ? 0 : 1;
    stride[2] = 7;
    stride[3] = kind == COLUMN ? 0 : 1;
}

static float value_of(int kind, const float *x, int64_t n, int64_t k)
{
    return x[kind == WHOLE ? k : kind == ROW ? k % n : k / n];
}

static bool is_difference(tn_built *built, int left, int right, int64_t n)
{
    int64_t extent[4] = {PLANES, ROWS, 1, n}, count = PLANES * ROWS * n;
    int64_t stride[3][4];
    float *at[3];
    tn_buffer *buffer[3];
    tn_launch_operand operand[3];
    for (int k = 0; k < 3; k++) {
        int kind = k == 0 ? left : k == 1 ? right : WHOLE;
        strides_of(kind, n, stride[k]);
        buffer[k] = buffer_new((size_t)count * sizeof(float), &at[k]);
        operand[k] = (tn_launch_operand){.buffer = buffer[k],
                                         .stride = stride[k]};
        for (int64_t j = 0; j < count; j++)
            at[k][j] = (float)random_below(100000) / 7;
    }
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 4,
                        .extent = extent, .operand = operand};
    if (cpu->launch(queue, built, &launch) != TN_OK)
        bail_out("%s", failure);
    bool same = true;
    for (int64_t k = 0; k < count; k++) {
        float want = value_of(left, at[0], n, k);
        want -= value_of(right, at[1], n, k);
        same = same && memcmp(&want, &at[2][k], sizeof want) == 0;
    }
    for (int k = 0; k < 3; k++)
        buffer_drop(buffer[k]);
    return same;
}

static void test_set(const char *isa)
{
    static const int64_t lengths[] = {3, 63, 64, 100, 1024, 5001};
    builder b = {.program.size = 0};
    for (int k = 0; k < 3; k++)
        operand(&b, TN_F32, k < 2 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                TN_LEVEL_ELEM, 0);
    for (int k = 0; k < 2; k++)
        add(&b, TN_K_LOAD, TN_F32, NONE, NONE, k, 0);
    add(&b, TN_K_SUB, TN_F32, 0, 1, 0, 0);
    add(&b, TN_K_STORE, TN_F32, 2, NONE, 2, 0);
    stage(&b, (const int[]){0, 1, 2, 3, NONE}, (const int[]){NONE});
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK)
        bail_out("%s", failure);
    for (int left = 0; left < KINDS; left++)
        for (int right = 0; right < KINDS; right++) {
            bool same = true;
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
                same &= is_difference(built, left, right, lengths[i]);
            ok(same, "%s%s: %s less %s", isa,
               chosen_stream ? ", past the caches" : "", kinds[left],
               kinds[right]);
        }
    cpu->program_free(device, built);
}

/* Fills `count` elements from an odd offset with a scalar, or with an operand
 * of strides 0. Checks that all of them are written, and nothing before or
 * after. */
static bool is_filled(tn_dtype dtype, size_t bytes, bool repeats, int64_t first,
                      int64_t count)
{
    enum { BEYOND = 64 };
    /* a value whose bytes all differ */
    const uint64_t bits = UINT64_C(0x4009b97c3e81a5d2);
    int64_t stride[2] = {0, 1};
    char *at[2];
    tn_buffer *buffer[2];
    for (int k = 0; k < 2; k++) {
        buffer[k] =
            buffer_new((size_t)(first + count + BEYOND) * bytes, &at[k]);
        memset(at[k], 0x55, (size_t)(first + count + BEYOND) * bytes);
    }
    memcpy(at[0], &bits, bytes);
    builder b = {.program.size = 0};
    tn_launch_operand of[2] = {{.buffer = buffer[0], .stride = stride},
                               {.buffer = buffer[1],
                                .offset = first,
                                .stride = stride + 1}};
    if (repeats) {
        operand(&b, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
        add(&b, TN_K_LOAD, dtype, NONE, NONE, 0, 0);
    } else {
        int64_t number = (int64_t)bits;
        double x;
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        x = narrow;
        memcpy(&number, dtype == TN_F32 ? (void *)&x : (void *)&number, 8);
        if (dtype == TN_I32)
            number = (int32_t)bits;
        add(&b, TN_K_CONST, dtype, NONE, NONE, number, 0);
    }
    operand(&b, dtype, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(&b, TN_K_STORE, dtype, 0, NONE, repeats, 0);
    stage(&b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                        .extent = &count, .operand = of + !repeats};
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK ||
        cpu->launch(queue, built, &launch) != TN_OK)
        bail_out("%s", failure);
    cpu->program_free(device, built);
    bool right = true;
    for (int64_t k = 0; k < first + count + BEYOND; k++) {
        const bool inside = k >= first && k < first + count;
        const char *is = at[1] + k * (int64_t)bytes;
        for (size_t i = 0; i < bytes; i++)
            right &= is[i] == (inside ? at[0][i] : 0x55);
    }
    for (int k = 0; k < 2; k++)
        buffer_drop(buffer[k]);
    return right;
}

static void test_fills(const char *isa)
{
    enum { MUCH = 1 << 20 }; /* above the limit for string instructions in
                              * fill.c */
    static const struct {
        tn_dtype dtype;
        int64_t bytes;
    } of[] = {{TN_F32, 4}, {TN_F64, 8}, {TN_I32, 4}, {TN_I64, 8}, {TN_I8, 1}};
    bool right = true;
    for (size_t d = 0; d < sizeof of / sizeof *of; d++)
        for (int64_t first = 0; first < 4; first++)
            for (int64_t more = -1; more < 12; more += 3)
                for (int repeats = of[d].bytes == 1; repeats < 2; repeats++)
                    right &= is_filled(of[d].dtype, (size_t)of[d].bytes,
                                       repeats, first,
                                       MUCH / of[d].bytes + more);
    ok(right, "%s%s: much filled with one number", isa,
       chosen_stream ? ", past the caches" : "");
}

int main(void)
{
    static const char *const isas[] = {"generic", "v3-nojit", "v3",
                                       "v4-nojit", "v4"};
    plan_later();
    random_state = 5;
    plugin_load();
    for (int i = 0; i < 10; i++) {
        chosen_stream = i % 2 ? "0" : NULL;
        if (!plugin_open(isas[i / 2])) {
            skip(1, failure);
            continue;
        }
        tn_set_num_threads(i % 2 ? 1 : 3);
        test_set(isas[i / 2]);
        test_fills(isas[i / 2]);
        plugin_close();
    }
    return done_testing();
}
