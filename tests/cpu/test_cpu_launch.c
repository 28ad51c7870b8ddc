/* Launches that are too large for the random programs: rows of many chunks,
 * columns, rows that all threads share, groups in many tasks. The result must
 * be the interpreter's, bit by bit, on every instruction set. */
#include <math.h>

#include "cpu_plugin.h"
#include "cpu_program.h"
#include "kernel/kernel.h"

/* ---- programs ----------------------------------------------------------- */

/* out = reduce(x) */
static const tn_program *reduction(builder *b, tn_dtype dtype, unsigned kind)
{
    memset(b, 0, sizeof *b);
    bool arg = kind >= TN_REDUCE_ARGMAX;
    operand(b, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, arg ? TN_I64 : dtype, TN_OPERAND_WRITE, TN_LEVEL_ROW, 0);
    add(b, TN_K_LOAD, dtype, NONE, NONE, 0, 0);
    add(b, TN_K_REDUCE, arg ? TN_I64 : dtype, 0, NONE, 0, kind);
    add(b, TN_K_STORE, arg ? TN_I64 : dtype, 1, NONE, 1, 0);
    b->ins[1].level = b->ins[2].level = TN_LEVEL_ROW;
    stage(b, (const int[]){0, 1, NONE}, (const int[]){2, NONE});
    return finish(b);
}

/* d = x - max(x); out = d * d / sum(d * d): values cross two reductions.
 * type: of the register; integers take the difference. */
static const tn_program *normal(builder *b, tn_dtype dtype, tn_dtype type)
{
    memset(b, 0, sizeof *b);
    operand(b, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, dtype, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(b, TN_K_LOAD, type, NONE, NONE, 0, 0);
    add(b, TN_K_REDUCE, type, 0, NONE, 0, TN_REDUCE_MAX);
    add(b, TN_K_SUB, type, 0, 1, 0, 0);
    add(b, TN_K_MUL, type, 2, 2, 0, 0);
    add(b, TN_K_REDUCE, type, 3, NONE, 0, TN_REDUCE_SUM);
    add(b, type == TN_I32 ? TN_K_SUB : TN_K_DIV, type, 3, 4, 0, 0);
    add(b, TN_K_STORE, type, 5, NONE, 1, 0);
    b->ins[1].level = b->ins[4].level = TN_LEVEL_ROW;
    stage(b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 2, 3, 4, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 2, 3, 5, 6, NONE}, (const int[]){NONE});
    return finish(b);
}

/* m = max(x); out = (x - m) * sum((x - m) * x): factors of which one is less a
 * number of the row, and what is made of x and it again. */
static const tn_program *covariance(builder *b, tn_dtype dtype)
{
    memset(b, 0, sizeof *b);
    operand(b, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, dtype, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(b, TN_K_LOAD, dtype, NONE, NONE, 0, 0);
    add(b, TN_K_REDUCE, dtype, 0, NONE, 0, TN_REDUCE_MAX);
    add(b, TN_K_SUB, dtype, 0, 1, 0, 0);
    add(b, TN_K_MUL, dtype, 2, 0, 0, 0);
    add(b, TN_K_REDUCE, dtype, 3, NONE, 0, TN_REDUCE_SUM);
    add(b, TN_K_MUL, dtype, 2, 4, 0, 0);
    add(b, TN_K_STORE, dtype, 5, NONE, 1, 0);
    b->ins[1].level = b->ins[4].level = TN_LEVEL_ROW;
    stage(b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 2, 3, 4, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 2, 5, 6, NONE}, (const int[]){NONE});
    return finish(b);
}

/* out = (x - sum(x * x)) * x: no reduction reads x itself, and both stages read
 * it where it lies, as a gradient of softmax does. */
static const tn_program *moment(builder *b, tn_dtype dtype)
{
    memset(b, 0, sizeof *b);
    operand(b, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, dtype, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(b, TN_K_LOAD, dtype, NONE, NONE, 0, 0);
    add(b, TN_K_MUL, dtype, 0, 0, 0, 0);
    add(b, TN_K_REDUCE, dtype, 1, NONE, 0, TN_REDUCE_SUM);
    add(b, TN_K_SUB, dtype, 0, 2, 0, 0);
    add(b, TN_K_MUL, dtype, 3, 0, 0, 0);
    add(b, TN_K_STORE, dtype, 4, NONE, 1, 0);
    b->ins[2].level = TN_LEVEL_ROW;
    stage(b, (const int[]){0, 1, 2, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 3, 4, 5, NONE}, (const int[]){NONE});
    return finish(b);
}

/* out = max(x) * sum(x) * min(x), each in a stage of its own that only folds. */
static const tn_program *folds_alone(builder *b)
{
    memset(b, 0, sizeof *b);
    operand(b, TN_F32, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, TN_F32, TN_OPERAND_WRITE, TN_LEVEL_ROW, 0);
    add(b, TN_K_LOAD, TN_F32, NONE, NONE, 0, 0);
    add(b, TN_K_REDUCE, TN_F32, 0, NONE, 0, TN_REDUCE_MAX);
    add(b, TN_K_REDUCE, TN_F32, 0, NONE, 0, TN_REDUCE_SUM);
    add(b, TN_K_REDUCE, TN_F32, 0, NONE, 0, TN_REDUCE_MIN);
    add(b, TN_K_MUL, TN_F32, 1, 2, 0, 0);
    add(b, TN_K_MUL, TN_F32, 4, 3, 0, 0);
    add(b, TN_K_STORE, TN_F32, 5, NONE, 1, 0);
    for (int i = 1; i < 7; i++)
        b->ins[i].level = TN_LEVEL_ROW;
    stage(b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 2, NONE}, (const int[]){NONE});
    stage(b, (const int[]){0, 3, NONE}, (const int[]){4, 5, 6, NONE});
    return finish(b);
}

/* out = x * x, and its sum, which nobody reads: x may end where out is made. */
static const tn_program *squares(builder *b)
{
    memset(b, 0, sizeof *b);
    operand(b, TN_U8, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, TN_F32, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(b, TN_K_LOAD, TN_I32, NONE, NONE, 0, 0);
    add(b, TN_K_CAST, TN_F32, 0, NONE, 0, 0);
    add(b, TN_K_MUL, TN_F32, 1, 1, 0, 0);
    add(b, TN_K_REDUCE, TN_F32, 2, NONE, 0, TN_REDUCE_SUM);
    add(b, TN_K_STORE, TN_F32, 2, NONE, 1, 0);
    b->ins[3].level = TN_LEVEL_ROW;
    stage(b, (const int[]){0, 1, 2, 3, 4, NONE}, (const int[]){NONE});
    return finish(b);
}

/* out = a ^ ~b: random words of counters x * x + x and one more, which one
 * operation draws; the second is read first. */
static const tn_program *random_pair(builder *b)
{
    memset(b, 0, sizeof *b);
    operand(b, TN_I64, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, TN_I64, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(b, TN_K_CONST, TN_I64, NONE, NONE, 1, 0);
    add(b, TN_K_LOAD, TN_I64, NONE, NONE, 0, 0);
    add(b, TN_K_MUL, TN_I64, 1, 1, 0, 0);
    add(b, TN_K_ADD, TN_I64, 2, 1, 0, 0);
    add(b, TN_K_ADD, TN_I64, 3, 0, 0, 0);
    add(b, TN_K_PHILOX, TN_I32, 3, 0, 0, 0);
    add(b, TN_K_PHILOX, TN_I32, 4, 0, 0, 0);
    add(b, TN_K_NOT, TN_I32, 6, NONE, 0, 0);
    add(b, TN_K_XOR, TN_I32, 5, 7, 0, 0);
    add(b, TN_K_CAST, TN_I64, 8, NONE, 0, 0);
    add(b, TN_K_STORE, TN_I64, 9, NONE, 1, 0);
    b->ins[0].level = TN_LEVEL_UNIFORM;
    b->ins[5].c = b->ins[6].c = 0;
    b->order[b->program.order_count++] = 0;
    b->program.uniform_count = 1;
    stage(b, (const int[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, NONE},
          (const int[]){NONE});
    return finish(b);
}

/* out = table[index], or twice that */
static const tn_program *gather(builder *b, bool twice)
{
    memset(b, 0, sizeof *b);
    operand(b, TN_I64, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, TN_F32, TN_OPERAND_READ, TN_LEVEL_ELEM, 1);
    operand(b, TN_F32, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(b, TN_K_LOAD, TN_I64, NONE, NONE, 0, 0);
    add(b, TN_K_LOAD, TN_F32, 0, NONE, 1, 0);
    if (twice)
        add(b, TN_K_ADD, TN_F32, 1, 1, 0, 0);
    add(b, TN_K_STORE, TN_F32, twice ? 2 : 1, NONE, 2, 0);
    stage(b, (const int[]){0, 1, 2, twice ? 3 : NONE, NONE},
          (const int[]){NONE});
    return finish(b);
}

/* out = x */
static const tn_program *copy(builder *b, tn_dtype dtype, tn_dtype type)
{
    memset(b, 0, sizeof *b);
    operand(b, dtype, TN_OPERAND_READ, TN_LEVEL_ELEM, 0);
    operand(b, dtype, TN_OPERAND_WRITE, TN_LEVEL_ELEM, 0);
    add(b, TN_K_LOAD, type, NONE, NONE, 0, 0);
    add(b, TN_K_STORE, type, 0, NONE, 1, 0);
    stage(b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    return finish(b);
}

/* ---- launches ----------------------------------------------------------- */

/* `columns`: the row dimension comes first in memory. `width`: it stands
 * between two others, the last of which is so wide: windows of an image. */
typedef struct shape {
    int64_t rows, length;
    bool columns;
    int64_t width;
} shape;

static size_t dtype_bytes(tn_dtype dtype)
{
    return dtype == TN_U8 ? 1 : dtype == TN_F32 ? 4 : 8;
}

/* What a float is now and then, and what it is else; both NaN: any number. */
static double rare = NAN, usual = NAN;

static void fill(void *memory, tn_dtype dtype, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double x = (double)(int64_t)random_bits() * 0x1p-62;
        bool is_rare = random_below(700) == 0;
        x = isnan(usual) ? x : usual;
        x = is_rare && !(isnan(rare) && isnan(usual)) ? rare : x;
        if (dtype == TN_U8)
            ((uint8_t *)memory)[i] = (uint8_t)random_bits();
        else if (dtype == TN_F32)
            ((float *)memory)[i] = (float)x;
        else if (dtype == TN_F64)
            ((double *)memory)[i] = x;
        else
            ((int64_t *)memory)[i] = (int64_t)random_bits();
    }
}

/* All NaNs are equal. */
static bool same_bits(tn_dtype dtype, const void *got, const void *want,
                      int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const char *g = got, *w = want;
        size_t bytes = dtype_bytes(dtype);
        bool both_nan =
            dtype == TN_F32
                ? isnan(((const float *)got)[i]) &&
                      isnan(((const float *)want)[i])
                : dtype == TN_F64 && isnan(((const double *)got)[i]) &&
                      isnan(((const double *)want)[i]);
        if (!both_nan && memcmp(g + bytes * (size_t)i, w + bytes * (size_t)i,
                                bytes) != 0)
            return false;
    }
    return true;
}

/* Runs on the plugin and on the interpreter; true if the bits are equal. */
static bool agrees(const tn_program *program, shape s)
{
    tn_dtype in = program->operand[0].dtype, out = program->operand[1].dtype;
    bool per_row = program->operand[1].level == TN_LEVEL_ROW;
    int64_t count = s.rows * s.length, results = per_row ? s.rows : count;
    size_t bytes = (size_t)results * dtype_bytes(out);
    void *x, *y, *expected = malloc(bytes);
    tn_buffer *buffer[2] = {
        buffer_new((size_t)count * dtype_bytes(in), &x),
        buffer_new(bytes, &y)};
    if (!expected)
        bail_out("out of memory");
    fill(x, in, count);

    int64_t w = s.width > 0 ? s.width : 1;
    int64_t extent[3] = {s.rows / w, s.length};
    int64_t stride[3] = {s.columns ? 1 : s.length, s.columns ? s.rows : 1};
    int64_t row_stride[3] = {w, 0};
    if (s.width > 0) {
        memcpy(extent + 1, (int64_t[]){w, s.length}, 2 * sizeof *extent);
        memcpy(stride, (int64_t[]){w * s.length, 1, w}, sizeof stride);
        row_stride[1] = 1;
    }
    tn_launch_operand operand[2] = {
        {.buffer = buffer[0], .stride = stride},
        {.buffer = buffer[1], .stride = per_row ? row_stride : stride}};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1 + (s.width > 0),
                        .row_ndim = 1, .extent = extent, .operand = operand};
    tn_built *built;
    tn_fault fault = {.size = sizeof fault};
    if (cpu->program_build(device, program, &built) != TN_OK ||
        cpu->launch(queue, built, &launch) != TN_OK)
        bail_out("%s", failure);
    cpu->program_free(device, built);
    void *memory[2] = {x, expected};
    if (tn__interpret(program, &launch, memory, &fault) != TN_OK)
        bail_out("the interpreter failed");
    bool same = same_bits(out, y, expected, results);
    if (!same)
        note("%lld x %lld%s, width %lld differs", (long long)s.rows,
             (long long)s.length, s.columns ? " columns" : "",
             (long long)s.width);
    free(expected);
    buffer_drop(buffer[0]);
    buffer_drop(buffer[1]);
    return same;
}

/* Around the borders of blocks, chunks, tiles, segments and tasks. */
static const shape shapes[] = {
    {1, 300001, false, 0}, {3, 263000, false, 0}, {8, 132097, false, 0},
    {30, 5000, false, 0},  {5000, 10, false, 0},  {40, 1025, false, 0},
    {1, 1, false, 0},      {300, 64, false, 0},   {90, 130, false, 0},
    {70, 1024, false, 0},  {40, 3136, false, 0},  {70, 2099, true, 0},
    {3, 90001, true, 0},   {4, 66000, true, 0},   {2000, 40, true, 0},
    {130, 1030, true, 0},  {257, 17, true, 0},    {5, 16, true, 0},
    {40000, 4, false, 8},  {9000, 9, false, 20},  {700, 32, false, 7},
    {1500, 2, false, 3}};

static bool all_agree(const tn_program *program)
{
    bool same = true;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        same = agrees(program, shapes[i]) && same;
    return same;
}

static void test_reductions(const char *isa, int threads)
{
    static const char *const names[] = {"sum", "prod",   "max",
                                        "min", "argmax", "argmin"};
    builder b;
    for (unsigned kind = 0; kind < TN_REDUCE_END; kind++)
        ok(all_agree(reduction(&b, TN_F32, kind)),
           "%s, %d threads: f32 %s over rows and columns", isa, threads,
           names[kind]);
    static const double specials[][2] = {
        {0.0, -0.0}, {-0.0, 0.0}, {NAN, 1.5}, {INFINITY, -INFINITY}};
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        rare = specials[i][0];
        usual = specials[i][1];
        bool same = true;
        for (unsigned kind = TN_REDUCE_SUM; kind <= TN_REDUCE_ARGMAX; kind++)
            same = all_agree(reduction(&b, TN_F32, kind)) && same;
        ok(same, "%s: folds of %g, rarely %g", isa, usual, rare);
    }
    rare = usual = NAN;
    ok(all_agree(reduction(&b, TN_I64, TN_REDUCE_SUM)),
       "%s, %d threads: i64 sum", isa, threads);
    ok(all_agree(normal(&b, TN_F32, TN_F32)),
       "%s, %d threads: f32 over two reductions", isa, threads);
    ok(all_agree(normal(&b, TN_F64, TN_F64)),
       "%s, %d threads: f64 over two reductions", isa, threads);
    ok(all_agree(normal(&b, TN_U8, TN_I32)),
       "%s, %d threads: u8 over two reductions", isa, threads);
    ok(all_agree(moment(&b, TN_F32)) && all_agree(moment(&b, TN_F64)),
       "%s, %d threads: what two stages read where it lies", isa, threads);
    ok(all_agree(covariance(&b, TN_F32)) && all_agree(covariance(&b, TN_F64)),
       "%s, %d threads: sums of products of differences", isa, threads);
    ok(all_agree(squares(&b)), "%s, %d threads: what is stored and summed", isa,
       threads);
    ok(all_agree(folds_alone(&b)), "%s, %d threads: stages that only fold", isa,
       threads);
    ok(all_agree(random_pair(&b)), "%s, %d threads: two random words", isa,
       threads);
}

/* The copy of a view of 3 dimensions: order[] of the input's memory, or one
 * value for each of its rows, to every step-th element of the output's. */
static bool copies(tn_dtype dtype, tn_dtype type, int64_t bytes,
                   const int64_t extent[3], const int *order, int64_t step)
{
    int64_t count = extent[0] * extent[1] * extent[2];
    int64_t in[3], out[3] = {extent[1] * extent[2] * step, extent[2] * step,
                             step};
    for (int64_t d = 3, size = 1; order && d-- > 0; size *= extent[order[d]])
        in[order[d]] = size;
    if (!order) {
        in[0] = extent[1];
        in[1] = 1;
        in[2] = 0;
    }
    uint8_t *x, *y;
    tn_buffer *buffer[2] = {buffer_new((size_t)(count * bytes), &x),
                            buffer_new((size_t)(count * step * bytes), &y)};
    for (int64_t i = 0; i < count * bytes; i++)
        x[i] = (uint8_t)random_below(120); /* no NaN of any dtype */
    memset(y, 0xaa, (size_t)(count * step * bytes));
    tn_launch_operand at[2] = {{.buffer = buffer[0], .stride = in},
                               {.buffer = buffer[1], .stride = out}};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 3,
                        .extent = extent, .operand = at};
    builder b;
    tn_built *built;
    if (cpu->program_build(device, copy(&b, dtype, type), &built) != TN_OK ||
        cpu->launch(queue, built, &launch) != TN_OK)
        bail_out("%s", failure);
    cpu->program_free(device, built);
    bool same = true;
    for (int64_t i = 0; i < count; i++) {
        int64_t p = i / (extent[1] * extent[2]), q = i / extent[2] % extent[1];
        int64_t from = p * in[0] + q * in[1] + i % extent[2] * in[2];
        same = same && memcmp(y + i * step * bytes, x + from * bytes,
                              (size_t)bytes) == 0;
        for (int64_t k = 1; k < step; k++)
            same = same && y[(i * step + k) * bytes] == 0xaa;
    }
    buffer_drop(buffer[0]);
    buffer_drop(buffer[1]);
    return same;
}

static void test_copies(const char *isa)
{
    static const int order[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int64_t extent[][3] = {
        {1, 1, 1}, {3, 70, 45}, {2, 300, 515}, {70, 3, 1}, {1, 640, 256},
        {1, 1, 70000}};
    static const struct {
        tn_dtype dtype, type;
        int64_t bytes;
    } dtypes[] = {{TN_F32, TN_F32, 4}, {TN_I64, TN_I64, 8},
                  {TN_F16, TN_F32, 2}, {TN_U8, TN_I32, 1}};
    for (size_t t = 0; t < 4; t++) {
        bool same = true;
        for (size_t e = 0; e < sizeof extent / sizeof *extent; e++)
            for (size_t o = 0; o < 7; o++)
                for (int64_t step = 1; step < 3; step++)
                    same = copies(dtypes[t].dtype, dtypes[t].type,
                                  dtypes[t].bytes, extent[e],
                                  o < 6 ? order[o] : NULL, step) &&
                           same;
        ok(same, "%s: views of %lld bytes an element are copied", isa,
           (long long)dtypes[t].bytes);
    }
}

/* A row less a column, plus x (rows, length): blocks end where rows do, if
 * those are long, and a column is one number there. is_column: so is the row,
 * and an operation has one number on either side. */
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

/* sum(max(x * w, x)) of one long row, which threads share: w is the same short
 * row again and again, as long as a block, and the same written out. */
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

/* Columns whose lines are taken where they lie: out = sum((x - m) * g * r) over
 * the first dimension, with x's lines apart, g's without a gap, and a number m
 * and r for each line, next to each other or not; or of another form. */
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
    bool turned = form == NUMBERS_FIRST; /* (x - r) * m * g */
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
    ok(same, "%s: columns of lines that lie apart, numbers of each, form %d",
       isa, form);
}

/* Rows that lie in lines, apart or not, such as channels of images: m = max(x);
 * out = (x - m) * g * sum((x - m) * g). */
static void test_row_lines(const char *isa, int threads)
{
    /* channels, lines, elements of a line */
    static const int64_t sizes[][3] = {{5, 32, 1024}, {3, 8, 3136},
                                       {2, 7, 1500},  {4, 3, 2000},
                                       {3, 9, 515},   {2, 100, 2700}};
    builder b = {.program.size = 0};
    for (int k = 0; k < 3; k++)
        operand(&b, TN_F32, k < 2 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                TN_LEVEL_ELEM, 0);
    add(&b, TN_K_LOAD, TN_F32, NONE, NONE, 0, 0);
    add(&b, TN_K_REDUCE, TN_F32, 0, NONE, 0, TN_REDUCE_MAX);
    add(&b, TN_K_SUB, TN_F32, 0, 1, 0, 0);
    add(&b, TN_K_LOAD, TN_F32, NONE, NONE, 1, 0);
    add(&b, TN_K_MUL, TN_F32, 2, 3, 0, 0);
    add(&b, TN_K_REDUCE, TN_F32, 4, NONE, 0, TN_REDUCE_SUM);
    add(&b, TN_K_MUL, TN_F32, 4, 5, 0, 0);
    add(&b, TN_K_STORE, TN_F32, 6, NONE, 2, 0);
    b.ins[1].level = b.ins[5].level = TN_LEVEL_ROW;
    stage(&b, (const int[]){0, 1, NONE}, (const int[]){NONE});
    stage(&b, (const int[]){0, 2, 3, 4, 5, NONE}, (const int[]){NONE});
    stage(&b, (const int[]){0, 2, 3, 4, 6, 7, NONE}, (const int[]){NONE});
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK)
        bail_out("%s", failure);
    bool same = true;
    for (size_t i = 0; i < 8 * sizeof sizes / sizeof *sizes; i++) {
        int64_t c = sizes[i / 8][0], n = sizes[i / 8][1];
        int64_t run = sizes[i / 8][2];
        int64_t extent[3] = {c, n, run}, flat[3] = {n * run, run, 1};
        int64_t apart[3] = {run, c * run, 1};
        tn_launch_operand at[3] = {{.buffer = NULL}};
        void *memory[3], *got = NULL;
        for (int k = 0; k < 3; k++) {
            at[k].buffer =
                buffer_new((size_t)(c * n * run) * sizeof(float), &memory[k]);
            at[k].stride = i >> k & 1 ? apart : flat;
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
        for (int k = 0; k < 3; k++)
            buffer_drop(at[k].buffer);
    }
    cpu->program_free(device, built);
    ok(same, "%s, %d threads: rows that lie in lines", isa, threads);
}

/* across: the index lies transposed in memory, as if each of its columns were
 * a row: such launches go by tiles. */
static void test_faults(bool across, bool twice)
{
    enum { ROWS = 400, COLUMNS = 500, COUNT = ROWS * COLUMNS, TABLE = 1000 };
    int64_t *index, extent[2] = {ROWS, COLUMNS}, one[1] = {1};
    int64_t along[2] = {COLUMNS, 1}, zero[2] = {0, 0};
    int64_t stride[2] = {across ? 1 : COLUMNS, across ? ROWS : 1};
    int64_t table_extent[1] = {TABLE};
    float *table, *out;
    tn_buffer *buffer[3] = {buffer_new(COUNT * 8, &index),
                            buffer_new(TABLE * 4, &table),
                            buffer_new(COUNT * 4, &out)};
    for (int64_t i = 0; i < COUNT; i++)
        index[i] = random_below(TABLE);
    for (int i = 0; i < TABLE; i++)
        table[i] = (float)i;
    index[300 * stride[0] + 2 * stride[1]] = TABLE;
    index[200 * stride[0] + 77 * stride[1]] = -7;
    index[200 * stride[0] + 78 * stride[1]] = TABLE;
    tn_launch_operand operand[3] = {
        {.buffer = buffer[0], .stride = stride},
        {.buffer = buffer[1], .stride = zero, .index_stride = one,
         .index_extent = table_extent},
        {.buffer = buffer[2], .stride = along}};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 2,
                        .extent = extent, .operand = operand, .tag = 77};
    builder b;
    tn_built *built;
    tn_fault fault = {.size = sizeof fault};
    if (cpu->program_build(device, gather(&b, twice), &built) != TN_OK)
        bail_out("%s", failure);
    is_int(cpu->launch(queue, built, &launch), TN_ERR_INDEX,
           "an index outside is told by launch%s", across ? ", by tiles" : "");
    is_int(cpu->queue_sync(queue, &fault), TN_ERR_INDEX, "and by queue_sync");
    is_int(fault.position, 200 * COLUMNS + 77, "the lowest position of them");
    is_int(fault.index, -7, "with its index");
    is_int(fault.extent, TABLE, "and the bound");
    is_int(fault.operand, 1, "and the operand");
    is_int((int64_t)fault.tag, 77, "and the launch's tag");
    is_int(cpu->queue_sync(queue, &fault), TN_OK, "it is told once");
    bool right = true;
    for (int64_t i = 0; i < COUNT; i++) {
        int64_t x = index[i / COLUMNS * stride[0] + i % COLUMNS * stride[1]];
        float want = (uint64_t)x < TABLE ? (float)(twice ? 2 * x : x) : 0;
        right = right && out[i] == want;
    }
    ok(right, "the other elements are right, those outside read 0");
    cpu->program_free(device, built);
    for (int i = 0; i < 3; i++)
        buffer_drop(buffer[i]);
}

/* out = table[p, index[q]], or twice that: the point's coordinates are in q
 * where `mask` has a bit, else in p, so blocks share their indices. PADDED: they
 * follow each other but for some at the ends; NEAR: up and down again by steps
 * of 0 to 4, and where one is outside, many are. */
enum { MIXED, PADDED, NEAR };

static bool shares(unsigned mask, bool twice, bool outside, int kind)
{
    enum { DIMS = 3, TABLE = 90 };
    static const int64_t extent[DIMS] = {13, 91, 57};
    int64_t p_stride[DIMS] = {0}, q_stride[DIMS] = {0}, whole[DIMS];
    int64_t p_count = TABLE, q_count = 1, count = 1, one[1] = {1};
    int64_t table_extent[1] = {TABLE}, want = INT64_MAX;
    for (int d = DIMS; d-- > 0; count *= extent[d]) {
        whole[d] = count;
        int64_t *size = mask >> d & 1 ? &q_count : &p_count;
        (mask >> d & 1 ? q_stride : p_stride)[d] = *size;
        *size *= extent[d];
    }
    int64_t *index;
    float *table, *out;
    tn_buffer *buffer[3] = {buffer_new((size_t)q_count * 8, &index),
                            buffer_new((size_t)p_count * 4, &table),
                            buffer_new((size_t)count * 4, &out)};
    for (int64_t i = 0; i < q_count; i++)
        index[i] = i % 7 ? (i + random_below(2)) % TABLE
                         : random_below(TABLE);
    for (int64_t i = 0; kind == PADDED && i < q_count; i++)
        index[i] = i < 2 ? 2 - i : i < 55 ? i - 2 : (109 - i) % TABLE;
    for (int64_t i = 0; kind == NEAR && i < q_count; i++) {
        int64_t k = i % 64, step = i / 128 % 9;
        k = (i & 64 ? 64 - k : k) * step / 2;
        index[i] = k < TABLE ? k : outside && step > 6 ? -1 : TABLE - 1;
    }
    fill(table, TN_F32, p_count);
    if (outside) {
        index[q_count - 2] = TABLE;
        index[q_count / 2] = -1;
    }
    tn_launch_operand at[3] = {
        {.buffer = buffer[0], .stride = q_stride},
        {.buffer = buffer[1], .stride = p_stride, .index_stride = one,
         .index_extent = table_extent},
        {.buffer = buffer[2], .stride = whole}};
    tn_launch launch = {.size = sizeof launch, .outer_ndim = DIMS,
                        .extent = extent, .operand = at};
    builder b;
    tn_built *built;
    tn_fault fault = {.size = sizeof fault};
    if (cpu->program_build(device, gather(&b, twice), &built) != TN_OK)
        bail_out("%s", failure);
    tn_status status = cpu->launch(queue, built, &launch);
    cpu->queue_sync(queue, &fault);
    bool right = status == (outside ? TN_ERR_INDEX : TN_OK);
    for (int64_t i = 0; i < count; i++) {
        int64_t p = 0, q = 0;
        for (int d = 0; d < DIMS; d++) {
            int64_t k = i / whole[d] % extent[d];
            p += k * p_stride[d];
            q += k * q_stride[d];
        }
        bool inside = (uint64_t)index[q] < TABLE;
        float x = inside ? table[p + index[q]] : 0;
        x = twice ? x + x : x;
        right = right && memcmp(&x, &out[i], sizeof x) == 0;
        want = !inside && i < want ? i : want;
    }
    right = right && (!outside || fault.position == want);
    cpu->program_free(device, built);
    for (int i = 0; i < 3; i++)
        buffer_drop(buffer[i]);
    return right;
}

static void test_shared(const char *isa)
{
    for (int outside = 0; outside < 2; outside++)
        for (int twice = 0; twice < 2; twice++) {
            bool right = true;
            for (unsigned mask = 1; mask < 8; mask++)
                for (int kind = MIXED; kind <= NEAR; kind++)
                    if (kind != PADDED || mask == 4)
                        right = shares(mask, twice, outside, kind) && right;
            ok(right, "%s: indices shared along dimensions%s%s", isa,
               twice ? ", in a formula" : "",
               outside ? ", with one outside" : "");
        }
}

/* y = -x; z = f16(y * y) * y + x: what is stored is read again behind a step
 * that has no machine code. */
static void test_stored_and_read(const char *isa)
{
    enum { COUNT = 5000 };
    builder b = {.program.size = 0};
    for (int k = 0; k < 3; k++)
        operand(&b, TN_F32, k < 1 ? TN_OPERAND_READ : TN_OPERAND_WRITE,
                TN_LEVEL_ELEM, 0);
    add(&b, TN_K_LOAD, TN_F32, NONE, NONE, 0, 0);
    add(&b, TN_K_NEG, TN_F32, 0, NONE, 0, 0);
    add(&b, TN_K_MUL, TN_F32, 1, 1, 0, 0);
    add(&b, TN_K_NARROW, TN_F32, 2, NONE, 0, TN_F16);
    add(&b, TN_K_MUL, TN_F32, 3, 1, 0, 0);
    add(&b, TN_K_ADD, TN_F32, 4, 0, 0, 0);
    add(&b, TN_K_STORE, TN_F32, 1, NONE, 1, 0);
    add(&b, TN_K_STORE, TN_F32, 5, NONE, 2, 0);
    stage(&b, (const int[]){0, 1, 2, 3, 4, 5, 6, 7, NONE},
          (const int[]){NONE});
    tn_built *built;
    if (cpu->program_build(device, finish(&b), &built) != TN_OK)
        bail_out("%s", failure);
    int64_t extent[1] = {COUNT}, stride[1] = {1};
    tn_launch_operand at[3] = {{.buffer = NULL}};
    void *memory[3], *got[3];
    for (int k = 0; k < 3; k++) {
        at[k] = (tn_launch_operand){.stride = stride};
        at[k].buffer = buffer_new(COUNT * sizeof(float), &memory[k]);
        got[k] = memory[k];
    }
    fill(memory[0], TN_F32, COUNT);
    float want[2][COUNT];
    memory[1] = want[0];
    memory[2] = want[1];
    tn_launch launch = {.size = sizeof launch, .outer_ndim = 1,
                        .extent = extent, .operand = at};
    tn_fault fault = {.size = sizeof fault};
    if (cpu->launch(queue, built, &launch) != TN_OK)
        bail_out("%s", failure);
    if (tn__interpret(&b.program, &launch, memory, &fault) != TN_OK)
        bail_out("the interpreter failed");
    ok(same_bits(TN_F32, got[1], want[0], COUNT) &&
           same_bits(TN_F32, got[2], want[1], COUNT),
       "%s: what is stored, and read again", isa);
    cpu->program_free(device, built);
    for (int k = 0; k < 3; k++)
        buffer_drop(at[k].buffer);
}

int main(void)
{
    static const char *const isas[] = {"generic", "v3", "v4", "jit",
                                       "jit"};
    plan_later();
    random_state = 3;
    plugin_load();
    for (int i = 0; i < 5; i++) {
        chosen_stream = i % 2 ? "0" : NULL;
        if (!plugin_open(isas[i])) {
            skip(1, failure);
            continue;
        }
        tn_set_num_threads(i % 2 ? 1 : 3);
        test_reductions(isas[i], i % 2 ? 1 : 3);
        test_copies(isas[i]);
        test_broadcast(isas[i], false);
        test_broadcast(isas[i], true);
        test_repeated(isas[i]);
        for (int form = 0; form < FORMS; form++)
            test_lines(isas[i], form);
        test_row_lines(isas[i], i % 2 ? 1 : 3);
        test_shared(isas[i]);
        test_stored_and_read(isas[i]);
        for (int twice = 0; twice < 2; twice++) {
            test_faults(false, twice);
            test_faults(true, twice);
        }
        plugin_close();
    }
    chosen_stream = NULL;
    tn_set_num_threads(3);
    if (plugin_open("jit")) {
        test_row_lines("jit", 3);
        plugin_close();
    } else {
        skip(1, failure);
    }
    ok(!plugin_open("v9"), "an unknown instruction set is refused");
    is_str(failure,
#if defined(__x86_64__)
           "cpu: isa=v9 is none of the sets built: generic, v3, v4, jit",
#else
           "cpu: isa=v9 is none of the sets built: generic",
#endif
           "with those there are");
    return done_testing();
}
