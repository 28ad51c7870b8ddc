/* Tests broadcast operands, and operands of separate contiguous rows, which the
 * cpu plugin reads in place. Results are bit-identical to those of the
 * interpreter, or of a plain loop, for every instruction set. */
#include "cpu_plugin.h"
#include "cpu_program.h"
#include "cpu_values.h"
#include "kernel/kernel.h"

/* Computes y - z + x, where x has the shape (rows, length), y is a broadcast
 * row and z a broadcast column. Long rows are divided into blocks, in each of
 * which z is one number. If is_column is set, y is a column, too, so both
 * operands of the difference are one number. */
static void test_broadcast(const char *isa, bool is_column)
{
    static const int64_t lengths[] = {3,   63,  64,  65,   100,
                                      511, 512, 513, 4100, 5001};
    builder b = {.program.size = 0};
    for (int k = 0; k < 4; k++)
        operand(&b, TN_F32, k < 3 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                TN_LEVEL_ELEM, 0);
    for (int k = 0; k < 3; k++)
        add(&b, TN_K_LOAD, TN_F32, NONE, NONE, k, 0);
    add(&b, TN_K_SUB, TN_F32, 1, 2, 0, 0);
    add(&b, TN_K_ADD, TN_F32, 3, 0, 0, 0);
    add(&b, TN_K_STORE, TN_F32, 4, NONE, 3, 0);
    stage(&b, (const int[]){0, 1, 2, 3, 4, 5, NONE}, (const int[]){NONE});
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK)
        bail_out("%s", failure);
    bool same = true;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        enum { ROWS = 70 };
        int64_t n = lengths[i], extent[2] = {ROWS, n};
        int64_t whole[2] = {n, 1}, row[2] = {0, 1}, column[2] = {1, 0};
        int64_t size = is_column ? ROWS : n;
        float *x, *y, *z, *out;
        size_t bytes = ROWS * (size_t)n * sizeof *x;
        tn_buffer *buffer[4] = {
            buffer_new(bytes, &x), buffer_new((size_t)size * sizeof *y, &y),
            buffer_new(ROWS * sizeof *z, &z), buffer_new(bytes, &out)};
        fill(x, TN_F32, ROWS * n);
        fill(y, TN_F32, size);
        fill(z, TN_F32, ROWS);
        tn_launch_operand at[4] = {{.buffer = buffer[0], .stride = whole},
                                   {.buffer = buffer[1],
                                    .stride = is_column ? column : row},
                                   {.buffer = buffer[2], .stride = column},
                                   {.buffer = buffer[3], .stride = whole}};
        tn_launch launch = {.size = sizeof launch, .outer_ndim = 2,
                            .extent = extent, .operand = at};
        if (cpu->launch(queue, built, &launch) != TN_OK)
            bail_out("%s", failure);
        for (int64_t k = 0; k < ROWS * n; k++) {
            float sum = y[is_column ? k / n : k % n] - z[k / n];
            sum += x[k];
            same = same && memcmp(&sum, &out[k], sizeof sum) == 0;
        }
        for (int k = 0; k < 4; k++)
            buffer_drop(buffer[k]);
    }
    cpu->program_free(device, built);
    ok(same, "%s: a %s less a column, plus a matrix", isa,
       is_column ? "column" : "row");
}

/* Computes sum(max(x * w, x)) of one long row, which several threads share. w
 * is a short row, as long as a block, that is broadcast along the long one. The
 * result must equal that for a w with all elements in memory. */
static void test_repeated(const char *isa)
{
    static const int64_t lines[] = {128, 128, 100, 100};
    static const int64_t lengths[] = {1024, 3072, 5120, 6144};
    builder b = {.program.size = 0};
    for (int k = 0; k < 3; k++)
        operand(&b, TN_F32, k < 2 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                k < 2 ? TN_LEVEL_ELEM : TN_LEVEL_ROW, 0);
    for (int k = 0; k < 2; k++)
        add(&b, TN_K_LOAD, TN_F32, NONE, NONE, k, 0);
    add(&b, TN_K_MUL, TN_F32, 0, 1, 0, 0);
    add(&b, TN_K_MAX, TN_F32, 2, 0, 0, 0);
    add(&b, TN_K_REDUCE, TN_F32, 3, NONE, 0, TN_REDUCE_SUM);
    add(&b, TN_K_STORE, TN_F32, 4, NONE, 2, 0);
    b.ins[4].level = b.ins[5].level = TN_LEVEL_ROW;
    stage(&b, (const int[]){0, 1, 2, 3, 4, NONE}, (const int[]){5, NONE});
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK)
        bail_out("%s", failure);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int64_t n = lengths[i], count = lines[i] * n;
        int64_t extent[3] = {1, lines[i], n}, whole[3] = {count, n, 1};
        int64_t again[3] = {0, 0, 1}, one[3] = {1, 0, 0};
        float *x, *w, *out;
        tn_buffer *buffer[3] = {buffer_new((size_t)count * sizeof *x, &x),
                                buffer_new((size_t)count * sizeof *w, &w),
                                buffer_new(2 * sizeof *out, &out)};
        fill(x, TN_F32, count);
        fill(w, TN_F32, n);
        for (int64_t k = n; k < count; k++)
            w[k] = w[k % n];
        for (int k = 0; k < 2; k++) {
            tn_launch_operand at[3] = {
                {.buffer = buffer[0], .stride = whole},
                {.buffer = buffer[1], .stride = k ? whole : again},
                {.buffer = buffer[2], .offset = k, .stride = one}};
            tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                                .row_ndim = 2, .extent = extent,
                                .operand = at};
            if (cpu->launch(queue, built, &launch) != TN_OK)
                bail_out("%s", failure);
        }
        ok(memcmp(&out[0], &out[1], sizeof *out) == 0,
           "%s: a row of %d, %d times", isa, (int)n, (int)lines[i]);
        for (int k = 0; k < 3; k++)
            buffer_drop(buffer[k]);
    }
    cpu->program_free(device, built);
}

/* Computes out = sum((x - m) * g * r) over the first dimension. Rows of x are
 * contiguous but separate, g is contiguous, and m and r are one number for each
 * row, with a stride of 1 or more. Other forms leave out a factor or exchange m
 * and r. */
enum { ALL, NO_SCALE, NO_SCALE_NOR_LESS, NO_LESS, NUMBERS_FIRST, FORMS };

static void test_lines(const char *isa, int form)
{
    static const int64_t widths[] = {63, 64, 65, 255, 257, 600, 1025};
    static const int64_t heights[] = {1, 17, 300, 1100};
    builder b = {.program.size = 0};
    for (int k = 0; k < 5; k++)
        operand(&b, TN_F32, k < 4 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                k < 4 ? TN_LEVEL_ELEM : TN_LEVEL_ROW, 0);
    for (int k = 0; k < 4; k++)
        add(&b, TN_K_LOAD, TN_F32, NONE, NONE, k, 0);
    bool turned = form == NUMBERS_FIRST; /* computes (x - r) * m * g */
    bool scaled = form != NO_SCALE && form != NO_SCALE_NOR_LESS;
    bool is_less = form != NO_LESS && form != NO_SCALE_NOR_LESS;
    add(&b, TN_K_SUB, TN_F32, 0, turned ? 3 : 1, 0, 0);
    add(&b, TN_K_MUL, TN_F32, is_less ? 4 : 0, turned ? 1 : 2, 0, 0);
    add(&b, TN_K_MUL, TN_F32, 5, turned ? 2 : 3, 0, 0);
    add(&b, TN_K_REDUCE, TN_F32, scaled ? 6 : 5, NONE, 0, TN_REDUCE_SUM);
    add(&b, TN_K_STORE, TN_F32, 7, NONE, 4, 0);
    b.ins[7].level = b.ins[8].level = TN_LEVEL_ROW;
    stage(&b,
          (const int[]){0, 1, 2, 3, 4, 5, scaled ? 6 : 7, scaled ? 7 : NONE,
                        NONE},
          (const int[]){8, NONE});
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK)
        bail_out("%s", failure);
    enum { WIDTHS = sizeof widths / sizeof *widths, HEIGHTS = 4 };
    bool same = true;
    for (int i = 0; i < WIDTHS * HEIGHTS; i++) {
        int64_t w = widths[i % WIDTHS], h = heights[i / WIDTHS];
        int64_t extent[2] = {w, h}, apart[2] = {1, w + 5}, flat[2] = {1, w};
        int64_t each[2] = {0, 1}, sparse[2] = {0, 2}, result[2] = {1, 0};
        const int64_t count[5] = {h * (w + 5), h, h * w, 2 * h, w};
        const int64_t *const stride[5] = {apart, each, flat, sparse, result};
        tn_launch_operand at[5] = {{.buffer = NULL}};
        void *memory[5], *got = NULL;
        for (int k = 0; k < 5; k++) {
            at[k].buffer = buffer_new((size_t)count[k] * sizeof(float),
                                      &memory[k]);
            at[k].stride = stride[k];
            fill(memory[k], TN_F32, count[k]);
        }
        tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                            .row_ndim = 1, .extent = extent, .operand = at};
        tn_fault fault = {.size = sizeof fault};
        if (cpu->launch(queue, built, &launch) != TN_OK)
            bail_out("%s", failure);
        got = memory[4];
        if (!(memory[4] = malloc((size_t)w * sizeof(float))))
            bail_out("out of memory");
        if (tn__interpret(&b.program, &launch, memory, &fault) != TN_OK)
            bail_out("the interpreter failed");
        if (!same_bits(TN_F32, got, memory[4], w)) {
            note("%lld lines of %lld differ", (long long)h, (long long)w);
            same = false;
        }
        free(memory[4]);
        for (int k = 0; k < 5; k++)
            buffer_drop(at[k].buffer);
    }
    cpu->program_free(device, built);
    ok(same,
       "%s: columns of separate contiguous rows, with a number for each, form "
       "%d",
       isa, form);
}

/* Tests rows that consist of several contiguous segments, such as a channel of
 * several images, with or without gaps between: m = max(x); out = (x - m) * g *
 * sum((x - m) * g) + w, where w is one number for each segment. */
static void test_row_lines(const char *isa, int threads)
{
    /* {number of channels, segments of a channel, elements of a segment} */
    static const int64_t sizes[][3] = {{5, 32, 1024}, {3, 8, 3136},
                                       {2, 7, 1500},  {4, 3, 2000},
                                       {3, 9, 515},   {2, 100, 2700}};
    builder b = {.program.size = 0};
    for (int k = 0; k < 4; k++)
        operand(&b, TN_F32, k != 2 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                TN_LEVEL_ELEM, 0);
    add(&b, TN_K_LOAD, TN_F32, NONE, NONE, 0, 0);
    add(&b, TN_K_REDUCE, TN_F32, 0, NONE, 0, TN_REDUCE_MAX);
    add(&b, TN_K_SUB, TN_F32, 0, 1, 0, 0);
    add(&b, TN_K_LOAD, TN_F32, NONE, NONE, 1, 0);
    add(&b, TN_K_MUL, TN_F32, 2, 3, 0, 0);
    add(&b, TN_K_REDUCE, TN_F32, 4, NONE, 0, TN_REDUCE_SUM);
    add(&b, TN_K_MUL, TN_F32, 4, 5, 0, 0);
    add(&b, TN_K_LOAD, TN_F32, NONE, NONE, 3, 0);
    add(&b, TN_K_ADD, TN_F32, 6, 7, 0, 0);
    add(&b, TN_K_STORE, TN_F32, 8, NONE, 2, 0);
    b.ins[1].level = b.ins[5].level = TN_LEVEL_ROW;
    stage(&b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    stage(&b, (const int[]){0, 2, 3, 4, 5, NONE}, (const int[]){NONE});
    stage(&b, (const int[]){0, 2, 3, 4, 6, 7, 8, 9, NONE}, (const int[]){NONE});
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK)
        bail_out("%s", failure);
    bool same = true;
    for (size_t i = 0; i < 8 * sizeof sizes / sizeof *sizes; i++) {
        int64_t c = sizes[i / 8][0], n = sizes[i / 8][1];
        int64_t run = sizes[i / 8][2];
        int64_t extent[3] = {c, n, run}, flat[3] = {n * run, run, 1};
        int64_t apart[3] = {run, c * run, 1}, each[3] = {i % 3 ? 0 : n, 1, 0};
        tn_launch_operand at[4] = {{.buffer = NULL}};
        void *memory[4], *got = NULL;
        for (int k = 0; k < 4; k++) {
            at[k].buffer =
                buffer_new((size_t)(c * n * run) * sizeof(float), &memory[k]);
            at[k].stride = k == 3 ? each : i >> k & 1 ? apart : flat;
            fill(memory[k], TN_F32, c * n * run);
        }
        tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                            .row_ndim = 2, .extent = extent, .operand = at};
        tn_fault fault = {.size = sizeof fault};
        if (cpu->launch(queue, built, &launch) != TN_OK)
            bail_out("%s", failure);
        got = memory[2];
        if (!(memory[2] = malloc((size_t)(c * n * run) * sizeof(float))))
            bail_out("out of memory");
        if (tn__interpret(&b.program, &launch, memory, &fault) != TN_OK)
            bail_out("the interpreter failed");
        if (!same_bits(TN_F32, got, memory[2], c * n * run)) {
            note("%d rows of %d lines of %d, form %d, differ", (int)c, (int)n,
                 (int)run, (int)(i % 8));
            same = false;
        }
        free(memory[2]);
        for (int k = 0; k < 4; k++)
            buffer_drop(at[k].buffer);
    }
    cpu->program_free(device, built);
    ok(same, "%s, %d threads: separate contiguous rows", isa, threads);
}

/* Computes d = x - max(x), then q = d * g, multiplied by g `more` times, and
 * out = q * sum(q) + max(x). The data are columns, so the maximum and the sum
 * are one number for each column. If more is 0, every stage reads the columns
 * again; otherwise a block stores them. */
static void test_columns(const char *isa, int more)
{
    static const int64_t widths[] = {5, 63, 64, 65, 127, 129, 600, 1025};
    static const int64_t heights[] = {33, 64, 300};
    builder b = {.program.size = 0};
    for (int k = 0; k < 3; k++)
        operand(&b, TN_F32, k < 2 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                TN_LEVEL_ELEM, 0);
    int list[MAX_INS + 1], count = 0, last = 4;
    add(&b, TN_K_LOAD, TN_F32, NONE, NONE, 0, 0);
    add(&b, TN_K_REDUCE, TN_F32, 0, NONE, 0, TN_REDUCE_MAX);
    add(&b, TN_K_SUB, TN_F32, 0, 1, 0, 0);
    add(&b, TN_K_LOAD, TN_F32, NONE, NONE, 1, 0);
    add(&b, TN_K_MUL, TN_F32, 2, 3, 0, 0);
    for (int i = 0; i < more; i++)
        last = (int)add(&b, TN_K_MUL, TN_F32, last, 3, 0, 0);
    int sum = (int)add(&b, TN_K_REDUCE, TN_F32, last, NONE, 0, TN_REDUCE_SUM);
    int scaled = (int)add(&b, TN_K_MUL, TN_F32, last, sum, 0, 0);
    int moved = (int)add(&b, TN_K_ADD, TN_F32, scaled, 1, 0, 0);
    int store = (int)add(&b, TN_K_STORE, TN_F32, moved, NONE, 2, 0);
    b.ins[1].level = b.ins[sum].level = TN_LEVEL_ROW;
    stage(&b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    for (int k = 0; k <= last; k++)
        if (k != 1)
            list[count++] = k;
    list[count] = sum;
    list[count + 1] = NONE;
    stage(&b, list, (const int[]){NONE});
    list[count] = scaled;
    list[count + 1] = moved;
    list[count + 2] = store;
    list[count + 3] = NONE;
    stage(&b, list, (const int[]){NONE});
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK)
        bail_out("%s", failure);
    enum { WIDTHS = sizeof widths / sizeof *widths, HEIGHTS = 3 };
    bool same = true;
    for (int i = 0; i < WIDTHS * HEIGHTS; i++) {
        int64_t w = widths[i % WIDTHS], h = heights[i / WIDTHS];
        int64_t extent[2] = {w, h}, apart[2] = {1, w + 5}, flat[2] = {1, w};
        const int64_t *const stride[3] = {apart, flat, flat};
        const int64_t room = h * (w + 5);
        tn_launch_operand at[3] = {{.buffer = NULL}};
        void *memory[3], *got = NULL;
        for (int k = 0; k < 3; k++) {
            at[k].buffer =
                buffer_new((size_t)room * sizeof(float), &memory[k]);
            at[k].stride = stride[k];
            fill(memory[k], TN_F32, room);
        }
        tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                            .row_ndim = 1, .extent = extent, .operand = at};
        tn_fault fault = {.size = sizeof fault};
        if (cpu->launch(queue, built, &launch) != TN_OK)
            bail_out("%s", failure);
        got = memory[2];
        if (!(memory[2] = malloc((size_t)room * sizeof(float))))
            bail_out("out of memory");
        if (tn__interpret(&b.program, &launch, memory, &fault) != TN_OK)
            bail_out("the interpreter failed");
        if (!same_bits(TN_F32, got, memory[2], h * w)) {
            note("%lld columns of %lld differ", (long long)w, (long long)h);
            same = false;
        }
        free(memory[2]);
        for (int k = 0; k < 3; k++)
            buffer_drop(at[k].buffer);
    }
    cpu->program_free(device, built);
    ok(same, "%s: columns with numbers of their own, %s", isa,
       more ? "kept" : "read again");
}

static void test_set(const char *isa, int threads)
{
    test_columns(isa, 0);
    test_columns(isa, 7);
    test_broadcast(isa, false);
    test_broadcast(isa, true);
    test_repeated(isa);
    for (int form = 0; form < FORMS; form++)
        test_lines(isa, form);
    test_row_lines(isa, threads);
}

int main(void)
{
    plan_later();
    random_state = 3;
    plugin_load();
    plugin_each(test_set);
    tn_set_num_threads(3);
    if (plugin_open(NULL)) { /* runs without non-temporal stores */
        test_row_lines("best", 3);
        plugin_close();
    } else {
        skip(1, failure);
    }
    return done_testing();
}
