/* Reductions over rows that are too large for the random programs: rows of many
 * chunks, columns, rows that all threads share, and several outer dimensions in
 * many tasks. Results are bit-identical to the interpreter's for every
 * instruction set. The interpreter takes most of the time, so it runs once for
 * all sets. */
#include "cpu_plugin.h"
#include "cpu_program.h"
#include "cpu_values.h"
#include "kernel/kernel.h"

/* ---- programs ----------------------------------------------------------- */

/* Computes out = reduce(x). */
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

/* Computes d = x - max(x); out = d * d / sum(d * d): values are used across two
 * reductions. `type` is the type of registers; for integer types a difference
 * replaces the quotient. */
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

/* Computes m = max(x); out = (x - m) * sum((x - m) * x). The difference, which
 * has one m for each row, is recomputed from x in the second stage. */
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

/* Computes out = (x - sum(x * x)) * x, as a gradient of softmax does. No
 * reduction reads x itself, and both stages read x in place. */
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

/* Computes out = max(x) * sum(x) * min(x), with a stage for each reduction that
 * does nothing else. */
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

/* Computes out = x * x, and its sum, which is not used. out may share x's
 * memory. */
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

/* Computes out = a ^ ~b for two random words, of the counters x * x + x and the
 * one after it. One operation generates both words; the program uses the second
 * first. */
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

/* ---- launches ----------------------------------------------------------- */

/* rows reductions of `length` elements. If `columns` is set, the reductions are
 * interleaved in memory (the row dimension has stride 1). If `width` is not 0,
 * the row dimension is between two others, of which the last has `width`
 * elements, like windows of an image. */
typedef struct shape {
    int64_t rows, length;
    bool columns;
    int64_t width;
} shape;

/* Sizes just below and above those of blocks, chunks, tiles and tasks. */
static const shape shapes[] = {
    {1, 300001, false, 0}, {3, 263000, false, 0}, {8, 132097, false, 0},
    {30, 5000, false, 0},  {5000, 10, false, 0},  {40, 1025, false, 0},
    {1, 1, false, 0},      {300, 64, false, 0},   {90, 130, false, 0},
    {70, 1024, false, 0},  {40, 3136, false, 0},  {70, 2099, true, 0},
    {3, 90001, true, 0},   {4, 66000, true, 0},   {2000, 40, true, 0},
    {130, 1030, true, 0},  {257, 17, true, 0},    {5, 16, true, 0},
    {40000, 4, false, 8},  {9000, 9, false, 20},  {700, 32, false, 7},
    {1500, 2, false, 3}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The arguments of a launch of a program for one shape. */
typedef struct work {
    tn_launch launch;
    tn_launch_operand operand[2];
    int64_t extent[3], stride[3], row_stride[3];
    size_t bytes[2];
    int64_t results;
    void *input, *expected; /* owned by this struct */
} work;

static void work_init(work *k, const tn_program *program, shape s)
{
    tn_dtype in = program->operand[0].dtype, out = program->operand[1].dtype;
    bool per_row = program->operand[1].level == TN_LEVEL_ROW;
    int64_t count = s.rows * s.length, w = s.width > 0 ? s.width : 1;
    *k = (work){.extent = {s.rows / w, s.length},
                .stride = {s.columns ? 1 : s.length, s.columns ? s.rows : 1},
                .row_stride = {w, 0},
                .results = per_row ? s.rows : count};
    k->bytes[0] = (size_t)count * dtype_bytes(in);
    k->bytes[1] = (size_t)k->results * dtype_bytes(out);
    if (s.width > 0) {
        memcpy(k->extent + 1, (int64_t[]){w, s.length}, 2 * sizeof *k->extent);
        memcpy(k->stride, (int64_t[]){w * s.length, 1, w}, sizeof k->stride);
        k->row_stride[1] = 1;
    }
    k->operand[0].stride = k->stride;
    k->operand[1].stride = per_row ? k->row_stride : k->stride;
    k->launch = (tn_launch){.size = sizeof k->launch,
                            .outer_ndim = 1 + (s.width > 0), .row_ndim = 1,
                            .extent = k->extent, .operand = k->operand};
    k->input = malloc(k->bytes[0]);
    k->expected = malloc(k->bytes[1]);
    if (!k->input || !k->expected)
        bail_out("out of memory");
    fill(k->input, in, count);
    void *memory[2] = {k->input, k->expected};
    tn_fault fault = {.size = sizeof fault};
    if (tn__interpret(program, &k->launch, memory, &fault) != TN_OK)
        bail_out("the interpreter failed");
}

/* Returns whether the device's results are bit-identical to the
 * interpreter's. */
static bool agrees(work *k, tn_built *built, const tn_program *program,
                   shape s)
{
    void *x, *y;
    k->operand[0].buffer = buffer_new(k->bytes[0], &x);
    k->operand[1].buffer = buffer_new(k->bytes[1], &y);
    memcpy(x, k->input, k->bytes[0]);
    if (cpu->launch(queue, built, &k->launch) != TN_OK)
        bail_out("%s", failure);
    bool same = same_bits(program->operand[1].dtype, y, k->expected,
                          k->results);
    if (!same)
        note("%lld x %lld%s, width %lld differs", (long long)s.rows,
             (long long)s.length, s.columns ? " columns" : "",
             (long long)s.width);
    buffer_drop(k->operand[0].buffer);
    buffer_drop(k->operand[1].buffer);
    return same;
}

/* The instruction sets of this machine; one occurs a second time, with
 * non-temporal stores. */
typedef struct set {
    const char *isa;
    int threads;
    tn_plugin_device *device;
    tn_queue *queue;
} set;
static set sets[TURNS];
static int set_count;

static void open_set(const char *isa, int threads)
{
    sets[set_count++] = (set){isa, threads, device, queue};
}

/* Runs all sets with 3 threads first, then all with 1, because a change of the
 * number restarts threads. */
static void check(const tn_program *program, const char *what)
{
    work works[SHAPES];
    for (int i = 0; i < SHAPES; i++)
        work_init(&works[i], program, shapes[i]);
    for (int threads = 3; threads > 0; threads -= 2) {
        tn_set_num_threads(threads);
        for (const set *t = sets; t < sets + set_count; t++) {
            tn_built *built;
            bool same = true;
            if (t->threads != threads)
                continue;
            device = t->device;
            queue = t->queue;
            if (cpu->program_build(device, program, &built) != TN_OK)
                bail_out("%s", failure);
            for (int i = 0; i < SHAPES; i++)
                same = agrees(&works[i], built, program, shapes[i]) && same;
            cpu->program_free(device, built);
            ok(same, "%s, %d threads: %s", t->isa, threads, what);
        }
    }
    for (int i = 0; i < SHAPES; i++) {
        free(works[i].input);
        free(works[i].expected);
    }
}

static void test_reductions(void)
{
    static const char *const names[] = {"sum", "prod",   "max",
                                        "min", "argmax", "argmin"};
    static const double specials[][2] = {
        {0.0, -0.0}, {-0.0, 0.0}, {NAN, 1.5}, {INFINITY, -INFINITY}};
    char what[80];
    builder b;
    for (unsigned kind = 0; kind < TN_REDUCE_END; kind++) {
        snprintf(what, sizeof what, "f32 %s over rows and columns",
                 names[kind]);
        check(reduction(&b, TN_F32, kind), what);
    }
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        for (unsigned kind = TN_REDUCE_SUM; kind <= TN_REDUCE_ARGMAX; kind++) {
            rare = specials[i][0];
            usual = specials[i][1];
            snprintf(what, sizeof what, "%s of %g, rarely %g", names[kind],
                     usual, rare);
            check(reduction(&b, TN_F32, kind), what);
        }
    rare = usual = NAN;
    check(reduction(&b, TN_I64, TN_REDUCE_SUM), "i64 sum");
}

int main(void)
{
    builder b;
    plan_later();
    random_state = 3;
    plugin_load();
    plugin_turns(open_set, false);
    test_reductions();
    check(normal(&b, TN_F32, TN_F32), "f32 over two reductions");
    check(normal(&b, TN_F64, TN_F64), "f64 over two reductions");
    check(normal(&b, TN_U8, TN_I32), "u8 over two reductions");
    check(moment(&b, TN_F32), "what two stages read where it lies");
    check(moment(&b, TN_F64), "what two stages of f64 read where it lies");
    check(covariance(&b, TN_F32), "sums of products of differences");
    check(covariance(&b, TN_F64), "f64 sums of products of differences");
    check(squares(&b), "what is stored and summed");
    check(folds_alone(&b), "stages that only fold");
    check(random_pair(&b), "two random words");
    while (set_count-- > 0) {
        device = sets[set_count].device;
        queue = sets[set_count].queue;
        plugin_close();
    }
    return done_testing();
}
