/* Launches of programs that move data, with or without an index: permuted
 * views, indices that several blocks share, indices out of range, and results
 * that are stored and read again. */
#include "cpu_plugin.h"
#include "cpu_program.h"
#include "cpu_values.h"
#include "kernel/kernel.h"

/* ---- programs ----------------------------------------------------------- */

/* Computes out = table[index], or twice that. */
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

/* Computes out = x. */
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

/* Copies a view of 3 dimensions and checks the result. order[] is the order
 * of the dimensions in the input's memory; NULL: the input is broadcast
 * along the last dimension. The output has a gap of step - 1 elements after
 * each element. */
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
        x[i] = (uint8_t)random_below(120); /* so that no element is NaN in any
                                            * dtype */
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

/* across: the index is transposed in memory, so the launch uses square
 * tiles. */
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
           "an index outside is told by launch%s",
           across ? ", by tiles" : "an index outside is reported by launch%s");
    is_int(cpu->queue_sync(queue, &fault), TN_ERR_INDEX, "and by queue_sync");
    is_int(fault.position, 200 * COLUMNS + 77, "the lowest position of them");
    is_int(fault.index, -7, "with its index");
    is_int(fault.extent, TABLE, "and the bound");
    is_int(fault.operand, 1, "and the operand");
    is_int((int64_t)fault.tag, 77, "and the launch's tag");
    is_int(cpu->queue_sync(queue, &fault), TN_OK, "it is reported once");
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

/* Computes out = table[p, index[q]], or twice that. Offset q depends on the
 * dimensions in `mask`, offset p on the others, so blocks share indices.
 * PADDED: indices are consecutive except at both ends, as for reflection
 * padding. NEAR: indices rise and fall by steps of 0 to 4; if `outside`, many
 * are out of range. */
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

/* Computes y = -x; z = f16(y * y) * y + x. A stored result is read again after
 * a step for which there is no machine code. */
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
       "%s: a result that is stored and read again", isa);
    cpu->program_free(device, built);
    for (int k = 0; k < 3; k++)
        buffer_drop(at[k].buffer);
}

/* Tests programs of a later version: an unknown instruction, an unknown
 * reduction, or an unknown instruction in a function. */
static void test_unknown(void)
{
    builder b;
    tn_built *built = NULL;
    copy(&b, TN_F32, TN_F32);
    b.ins[0].op = TN_K_END;
    is_int(cpu->program_build(device, &b.program, &built), TN_ERR_UNSUPPORTED,
           "an unknown instruction is refused");
    is_str(failure,
           "program: unknown instruction; libtenon and the plugin must have "
           "the same version",
           "and the message says why");
    copy(&b, TN_F32, TN_F32);
    b.ins[1].op = TN_K_REDUCE;
    b.ins[1].sub = TN_REDUCE_END;
    is_int(cpu->program_build(device, &b.program, &built), TN_ERR_UNSUPPORTED,
           "an unknown reduction is refused");
    const tn_kernel_ins later = {.op = TN_K_END, .dtype = TN_F32};
    const tn_kernel_fn fn = {.name = "later", .ins = &later, .ins_count = 1,
                             .arg_count = 1, .dtype = TN_F32};
    copy(&b, TN_F32, TN_F32);
    b.program.fn = &fn;
    b.program.fn_count = 1;
    is_int(cpu->program_build(device, &b.program, &built), TN_ERR_UNSUPPORTED,
           "an unknown instruction in a function is refused");
    ok(!built, "and nothing is built");
}

static void test_set(const char *isa, int threads)
{
    (void)threads;
    test_copies(isa);
    test_unknown();
    test_shared(isa);
    test_stored_and_read(isa);
    for (int twice = 0; twice < 2; twice++) {
        test_faults(false, twice);
        test_faults(true, twice);
    }
}

int main(void)
{
    plan_later();
    random_state = 3;
    plugin_load();
    plugin_each(test_set);
    ok(!plugin_open("v9"), "an unknown instruction set is refused");
#if defined(__x86_64__)
    is_str(failure, "cpu: isa=v9 is unknown: use generic, v3, v3-nojit, v4 or "
           "v4-nojit",
           "the message names the sets that were built");
#else
    is_str(failure, "cpu: isa=v9 is unknown: use generic",
           "the message names the sets that were built");
#endif
    return done_testing();
}
