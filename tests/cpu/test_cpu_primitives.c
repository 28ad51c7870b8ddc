/* Compares matrix products, scatters, sorts and copies of the CPU plugin with
 * plain loops. Products are of small integers, so that every order of summation
 * gives the same result and no tolerance is needed. */
#include <math.h>

#include "cpu_plugin.h"

/* ---- numbers in any dtype ----------------------------------------------- */

static size_t dtype_bytes(tn_dtype dtype)
{
    switch (dtype) {
#define BYTES(name, code, text, bytes, kind, reg)                             \
    case TN_##name:                                                           \
        return bytes;
        TN_DTYPE_MAP(BYTES)
#undef BYTES
    default:
        return 0;
    }
}

/* Integers of at most 11 bits are exact in every dtype but float8 and bfloat16,
 * for which the tests use smaller numbers. */
static uint16_t half_of(int x, int mantissa, int bias)
{
    if (x == 0)
        return 0;
    int magnitude = abs(x), exponent = 0;
    while (magnitude >> (exponent + 1))
        exponent++;
    int fraction = (magnitude << mantissa >> exponent) - (1 << mantissa);
    return (uint16_t)((x < 0 ? 0x8000 : 0) |
                      (exponent + bias) << mantissa | fraction);
}

static void put(void *memory, tn_dtype dtype, int64_t i, double x)
{
    switch (dtype) {
    case TN_F32:
        ((float *)memory)[i] = (float)x;
        return;
    case TN_F64:
        ((double *)memory)[i] = x;
        return;
    case TN_F16:
        ((uint16_t *)memory)[i] = half_of((int)x, 10, 15);
        return;
    case TN_BF16:
        ((uint16_t *)memory)[i] = half_of((int)x, 7, 127);
        return;
    case TN_I64:
        ((int64_t *)memory)[i] = (int64_t)x;
        return;
    case TN_I32:
        ((int32_t *)memory)[i] = (int32_t)x;
        return;
    case TN_I16:
        ((int16_t *)memory)[i] = (int16_t)x;
        return;
    default: /* I8, U8, BOOL */
        ((uint8_t *)memory)[i] = (uint8_t)(int)x;
    }
}

/* ---- products ----------------------------------------------------------- */

typedef struct product_case {
    int64_t batch, m, n, k;
    int layout; /* bits 0 to 2: a, b, c is transposed; 8: rows have gaps; 16:
                 * all columns have a stride of 2 */
    double alpha, beta;
} product_case;

static const product_case products[] = {
    {1, 1, 1, 1, 0, 1, 0},       {1, 3, 5, 7, 0, 1, 0},
    {3, 17, 33, 9, 1, 1, 0},     {2, 33, 17, 40, 2, 2, 1},
    {1, 64, 64, 64, 4, 1, 3},    {1, 70, 65, 300, 7, 1, 0},
    {1, 300, 200, 100, 8, 1, 1}, {1, 40, 50, 60, 16, 1, 0},
    {4, 31, 29, 30, 31, 1, 1},   {1, 1, 500, 300, 0, 1, 0},
    {1, 500, 1, 300, 2, 1, 0},   {1, 257, 1, 64, 3, 1, 1},
    {2, 5, 6, 0, 0, 1, 2},       {1, 0, 4, 3, 0, 1, 0},
    {1, 400, 390, 50, 5, 1, 0},  {1, 3, 70, 450, 0, 1, 0},
    {1, 20, 300, 1100, 0, 1, 0}, {1, 1100, 290, 21, 1, 1, 1},
    {1, 33, 270, 1100, 8, 1, 1}, {1, 5, 64, 64, 2, 1, 0},
    {1, 200, 19, 33, 4, 1, 0},   {1, 1, 33, 130, 2, 2, 3}};

static void lay_out(tn_strided *view, int64_t batch, int64_t rows,
                    int64_t columns, bool transposed, int layout,
                    int64_t *elements)
{
    int64_t step = layout & 16 ? 2 : 1, gap = layout & 8 ? 3 : 0;
    int64_t inner = transposed ? rows : columns;
    int64_t outer = transposed ? columns : rows;
    int64_t pitch = inner * step + gap;
    view->ndim = 3;
    view->offset = 2;
    view->stride[0] = outer * pitch;
    view->stride[transposed ? 2 : 1] = pitch;
    view->stride[transposed ? 1 : 2] = step;
    *elements = 2 + batch * outer * pitch + 1;
}

static int64_t at(const tn_strided *view, int64_t batch, int64_t i, int64_t j)
{
    return view->offset + batch * view->stride[0] + i * view->stride[1] +
           j * view->stride[2];
}

/* Compares the product with sums of integers. The gaps between rows must not be
 * written. */
static bool product_is_right(tn_dtype dtype, const product_case *p)
{
    tn_matmul_args m = {.size = sizeof m, .batch_ndim = 1,
                        .batch = {p->batch}, .m = p->m, .n = p->n, .k = p->k,
                        .alpha = p->alpha, .beta = p->beta};
    tn_strided *views[3] = {&m.a, &m.b, &m.c};
    int64_t elements[3], rows[3] = {p->m, p->k, p->m};
    int64_t columns[3] = {p->k, p->n, p->n};
    int range = dtype == TN_BOOL ? 2 : 3;
    void *memory[3];
    double *value[3];
    for (int v = 0; v < 3; v++) {
        lay_out(views[v], p->batch, rows[v], columns[v], p->layout >> v & 1,
                p->layout, &elements[v]);
        views[v]->dtype = dtype;
        views[v]->buffer = buffer_new(
            (size_t)elements[v] * dtype_bytes(dtype), &memory[v]);
        value[v] = malloc((size_t)elements[v] * sizeof(double));
        if (!value[v])
            bail_out("out of memory");
        for (int64_t i = 0; i < elements[v]; i++) {
            value[v][i] = (double)random_below(range);
            put(memory[v], dtype, i, value[v][i]);
        }
    }
    if (cpu->matmul(queue, &m) != TN_OK)
        bail_out("%s", failure);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                double sum = 0, *c = &value[2][at(&m.c, b, i, j)];
                for (int64_t k = 0; k < p->k; k++)
                    sum += value[0][at(&m.a, b, i, k)] *
                           value[1][at(&m.b, b, k, j)];
                sum = p->alpha * sum + p->beta * *c;
                *c = dtype == TN_BOOL ? sum > 0 : sum;
            }
    size_t bytes = (size_t)elements[2] * dtype_bytes(dtype);
    void *expected = calloc(bytes, 1);
    if (!expected)
        bail_out("out of memory");
    for (int64_t i = 0; i < elements[2]; i++)
        put(expected, dtype, i, value[2][i]);
    bool same = memcmp(expected, memory[2], bytes) == 0;
    if (!same)
        note("dtype %u, batch %d of (%d, %d, %d), layout %d", dtype,
             (int)p->batch, (int)p->m, (int)p->n, (int)p->k, p->layout);
    free(expected);
    for (int v = 0; v < 3; v++) {
        free(value[v]);
        buffer_drop(views[v]->buffer);
    }
    return same;
}

static void test_products(const char *isa)
{
    static const struct {
        tn_dtype dtype;
        const char *name;
    } dtypes[] = {{TN_F32, "f32"}, {TN_F64, "f64"}, {TN_F16, "f16"},
                  {TN_I32, "i32"}, {TN_I64, "i64"}, {TN_U8, "u8"},
                  {TN_BOOL, "bool"}};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        bool right = true;
        for (size_t i = 0; i < sizeof products / sizeof *products; i++)
            right = product_is_right(dtypes[d].dtype, &products[i]) && right;
        ok(right, "%s: %s products, any strides, alpha, beta, batch", isa,
           dtypes[d].name);
    }
}

/* Multiplies random floats. The bits of a row of c must not depend on the other
 * rows of a. A product with a single row is an exception, because it is
 * computed as dot products. */
static void test_product_rows(void)
{
    enum { M = 300, N = 133, K = 500 };
    float *a, *b, *c, *all = malloc(M * N * 4);
    tn_buffer *buffers[3] = {buffer_new(M * K * 4, &a),
                             buffer_new(K * N * 4, &b),
                             buffer_new(M * N * 4, &c)};
    if (!all)
        bail_out("out of memory");
    for (int i = 0; i < M * K; i++)
        a[i] = (float)random_below(1000) / 7;
    for (int i = 0; i < K * N; i++)
        b[i] = (float)random_below(1000) / 7;
    for (int turned = 0; turned < 2; turned++) {
        static const int64_t heights[] = {M, 64, 17, 7, 2, 1};
        bool same = true;
        for (int h = 0; h < 6 - turned; h++) {
            const int64_t first = M - heights[h];
            tn_matmul_args m = {.size = sizeof m, .m = heights[h], .n = N,
                                .k = K, .alpha = 1};
            m.a = (tn_strided){buffers[0], first * K, TN_F32, 2, {K, 1}};
            m.b = (tn_strided){buffers[1], 0, TN_F32, 2, {N, 1}};
            if (turned) {
                m.b.stride[0] = 1;
                m.b.stride[1] = K;
            }
            m.c = (tn_strided){buffers[2], 0, TN_F32, 2, {N, 1}};
            if (cpu->matmul(queue, &m) != TN_OK)
                bail_out("%s", failure);
            if (h == 0)
                memcpy(all, c, M * N * 4);
            same = same && memcmp(all + first * N, c,
                                  (size_t)(heights[h] * N) * 4) == 0;
        }
        ok(same, "rows have the same bits with 299 others and with none%s",
           turned ? " (one), columns of neighbours" : "");
    }
    free(all);
    for (int i = 0; i < 3; i++)
        buffer_drop(buffers[i]);
}

/* Equal rows of a, and equal columns of b, give equal results at any position
 * and for any tiling of the product. */
static void test_product_cuts(void)
{
    static const int64_t sizes[][3] = {{129, 300, 600}, {257, 300, 600},
                                       {300, 129, 600}, {300, 257, 600},
                                       {97, 161, 2000}, {2, 2, 600}};
    for (int turned = 0; turned < 2; turned++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            float *a, *b, *c;
            tn_matmul_args args = {.size = sizeof args, .m = m, .n = n, .k = k,
                                   .alpha = 1};
            args.a = (tn_strided){buffer_new((size_t)(m * k) * 4, &a), 0,
                                  TN_F32, 2, {k, 1}};
            args.b = (tn_strided){buffer_new((size_t)(k * n) * 4, &b), 0,
                                  TN_F32, 2, {n, 1}};
            args.c = (tn_strided){buffer_new((size_t)(m * n) * 4, &c), 0,
                                  TN_F32, 2, {n, 1}};
            if (turned) {
                args.b.stride[0] = 1;
                args.b.stride[1] = k;
            }
            for (int64_t p = 0; p < k; p++) {
                float x = (float)random_below(1000) / 7;
                float y = (float)random_below(1000) / 7;
                for (int64_t i = 0; i < m; i++)
                    a[i * k + p] = x;
                for (int64_t j = 0; j < n; j++)
                    b[p * args.b.stride[0] + j * args.b.stride[1]] = y;
            }
            if (cpu->matmul(queue, &args) != TN_OK)
                bail_out("%s", failure);
            int64_t others = 0;
            for (int64_t i = 0; i < m * n; i++)
                others += c[i] != c[0];
            ok(others == 0, "(%d, %d, %d)%s of equal rows and columns: %d "
               "others", (int)m, (int)n, (int)k,
               turned ? ", columns of neighbours" : "", (int)others);
            buffer_drop(args.a.buffer);
            buffer_drop(args.b.buffer);
            buffer_drop(args.c.buffer);
        }
}

/* Strides may be negative or 0, and batches may share an operand. c is NaN
 * before the product; with beta 0 it must not be read. */
static void test_product_strides(const char *isa)
{
    enum { ROOM = 1 << 18, MIDDLE = ROOM / 2 };
    float *memory[3];
    tn_buffer *buffers[3];
    int wrong = 0;
    for (int v = 0; v < 3; v++)
        buffers[v] = buffer_new(ROOM * 4, &memory[v]);
    for (int i = 0; i < ROOM; i++)
        for (int v = 0; v < 2; v++)
            memory[v][i] = (float)random_below(5) - 2;
    for (int round = 0; round < 300; round++) {
        static const int64_t depths[] = {1, 3, 40, 191, 192, 193, 400};
        const int64_t size[3] = {1 + random_below(20), 1 + random_below(70),
                                 depths[random_below(7)]};
        const int64_t rows[2] = {size[0], size[2]};
        const int64_t columns[2] = {size[2], size[1]};
        tn_matmul_args m = {.size = sizeof m, .batch_ndim = 2,
                            .batch = {1 + random_below(2), 1 + random_below(3)},
                            .m = size[0], .n = size[1], .k = size[2],
                            .alpha = (double)(1 + random_below(2))};
        tn_strided *views[2] = {&m.a, &m.b};
        for (int v = 0; v < 2; v++) {
            const int64_t sign = random_below(3) ? 1 : -1;
            const bool turned = random_below(2);
            int64_t inner = random_below(8) ? sign : 0;
            int64_t outer = random_below(8)
                                ? sign * (turned ? rows[v] : columns[v])
                                : 0;
            *views[v] = (tn_strided){buffers[v], MIDDLE, TN_F32, 4, {0}};
            views[v]->stride[0] = random_below(2) * 7;
            views[v]->stride[1] = random_below(3) * rows[v] * columns[v] / 2;
            views[v]->stride[2] = turned ? inner : outer;
            views[v]->stride[3] = turned ? outer : inner;
        }
        const int64_t matrix = size[0] * size[1], all = m.batch[1] * matrix;
        const bool turned = random_below(2);
        m.c = (tn_strided){buffers[2], 0, TN_F32, 4,
                           {all, matrix, turned ? 1 : size[1],
                            turned ? size[0] : 1}};
        for (int64_t i = 0; i < m.batch[0] * all; i++)
            memory[2][i] = NAN;
        if (cpu->matmul(queue, &m) != TN_OK)
            bail_out("%s", failure);
        for (int64_t e = 0; e < m.batch[0] * all; e++) {
            const int64_t at[4] = {e / all, e / matrix % m.batch[1],
                                   e / size[1] % size[0], e % size[1]};
            const float *a = memory[0] + MIDDLE + at[0] * m.a.stride[0] +
                             at[1] * m.a.stride[1] + at[2] * m.a.stride[2];
            const float *b = memory[1] + MIDDLE + at[0] * m.b.stride[0] +
                             at[1] * m.b.stride[1] + at[3] * m.b.stride[3];
            double sum = 0;
            for (int64_t p = 0; p < size[2]; p++)
                sum += (double)(a[p * m.a.stride[3]] * b[p * m.b.stride[2]]);
            wrong += memory[2][at[0] * all + at[1] * matrix +
                               at[2] * m.c.stride[2] +
                               at[3] * m.c.stride[3]] != m.alpha * sum;
        }
    }
    ok(wrong == 0, "%s: 300 products of any strides: %d elements wrong", isa,
       wrong);
    for (int v = 0; v < 3; v++)
        buffer_drop(buffers[v]);
}

/* Multiplies random floats. The bits must not depend on the number of
 * threads. */
static void test_product_threads(void)
{
    enum { M = 300, N = 500, K = 200 };
    tn_matmul_args m = {.size = sizeof m, .m = M, .n = N, .k = K, .alpha = 1};
    float *a, *b, *c, *first = malloc(M * N * 4);
    m.a = (tn_strided){buffer_new(M * K * 4, &a), 0, TN_F32, 2, {K, 1}};
    m.b = (tn_strided){buffer_new(K * N * 4, &b), 0, TN_F32, 2, {N, 1}};
    m.c = (tn_strided){buffer_new(M * N * 4, &c), 0, TN_F32, 2, {N, 1}};
    if (!first)
        bail_out("out of memory");
    for (int i = 0; i < M * K; i++)
        a[i] = (float)random_below(1000) / 7;
    for (int i = 0; i < K * N; i++)
        b[i] = (float)random_below(1000) / 7;
    bool same = true;
    for (int threads = 1; threads <= 7; threads += 3) {
        tn_set_num_threads(threads);
        if (cpu->matmul(queue, &m) != TN_OK)
            bail_out("%s", failure);
        if (threads == 1)
            memcpy(first, c, M * N * 4);
        same = same && memcmp(first, c, M * N * 4) == 0;
    }
    ok(same, "a product has the same bits with 1, 4 and 7 threads");
    free(first);
    buffer_drop(m.a.buffer);
    buffer_drop(m.b.buffer);
    buffer_drop(m.c.buffer);
}

/* ---- scatter ------------------------------------------------------------ */

static double folded(unsigned reduce, double old, double x)
{
    switch (reduce) {
    case TN_SCATTER_SET:
        return x;
    case TN_SCATTER_ADD:
        return old + x;
    case TN_SCATTER_MUL:
        return old * x;
    case TN_SCATTER_MIN:
        return old < x ? old : x;
    default:
        return old > x ? old : x;
    }
}

/* Scatters src (R, C) into an output with `to` positions along dim and a row
 * stride of `step` elements. float32 is summed in a fixed order. */
static void test_scatter(uint32_t dim, int64_t C, tn_dtype dtype, int64_t to,
                         int64_t step)
{
    enum { R = 300 };
    tn_scatter_args s = {.size = sizeof s, .ndim = 2, .dim = dim,
                         .extent = {R, C}, .dst_extent = to, .tag = 5};
    int64_t *index, results = (dim == 0 ? to : R) * step;
    void *src, *dst;
    const size_t room = (size_t)(R * C) * 8;
    s.index = (tn_strided){buffer_new(room, &index), 0, TN_I64, 2, {C, 1}};
    s.src = (tn_strided){buffer_new(room, &src), 0, dtype, 2, {C, 1}};
    s.dst = (tn_strided){buffer_new((size_t)results * 8, &dst), 0, dtype, 2,
                         {step, 1}};
    double *x = malloc(room);
    double *y = malloc((size_t)results * sizeof *y);
    void *expected = calloc((size_t)results, 8);
    if (!x || !y || !expected)
        bail_out("out of memory");
    bool right = true;
    for (unsigned reduce = 0; reduce < TN_SCATTER_END; reduce++) {
        s.reduce = reduce;
        for (int64_t i = 0; i < R * C; i++) {
            index[i] = random_below(to);
            x[i] = reduce == TN_SCATTER_MUL ? 1 : (double)random_below(9);
            put(src, dtype, i, x[i]);
        }
        for (int64_t i = 0; i < results; i++) {
            y[i] = (double)(i % 5);
            put(dst, dtype, i, y[i]);
        }
        for (int64_t i = 0; i < R * C; i++) {
            int64_t at = dim == 0 ? index[i] * step + i % C
                                  : i / C * step + index[i];
            y[at] = folded(reduce, y[at], x[i]);
        }
        if (cpu->scatter(queue, &s) != TN_OK)
            bail_out("%s", failure);
        for (int64_t i = 0; i < results; i++)
            put(expected, dtype, i, y[i]);
        right = right && memcmp(dst, expected,
                                (size_t)results * dtype_bytes(dtype)) == 0;
    }
    ok(right, "scatter of %" PRId64 " columns along dimension %u of dtype %u: "
       "all reductions, rows %" PRId64 " apart", C, dim, dtype, step);

    index[70 * C + 11] = to;
    index[69 * C + 9] = -1;
    tn_fault fault = {.size = sizeof fault};
    is_int(cpu->scatter(queue, &s), TN_ERR_INDEX,
           "an index outside is reported");
    cpu->queue_sync(queue, &fault);
    ok(fault.position == 69 * C + 9 && fault.index == -1 &&
           fault.extent == to && fault.tag == 5,
       "the lowest position of them, with its index, bound and tag");
    free(x);
    free(y);
    free(expected);
    buffer_drop(s.index.buffer);
    buffer_drop(s.src.buffer);
    buffer_drop(s.dst.buffer);
}

/* The indices form a row of several blocks and a remainder. Two of them, in
 * different blocks, are out of range. All other elements must be added. */
static void test_scatter_outside(int64_t n, int64_t first, int64_t second,
                                 int64_t src_stride)
{
    float *src, *dst;
    int64_t *index, wrong = 0;
    tn_scatter_args s = {.size = sizeof s, .ndim = 1, .reduce = TN_SCATTER_ADD,
                         .extent = {n}, .dst_extent = n, .tag = 7};
    s.index =
        (tn_strided){buffer_new((size_t)n * 8, &index), 0, TN_I64, 1, {1}};
    s.src = (tn_strided){buffer_new((size_t)n * 8, &src), 0, TN_F32, 1,
                         {src_stride}};
    s.dst = (tn_strided){buffer_new((size_t)n * 4, &dst), 0, TN_F32, 1, {1}};
    for (int64_t i = 0; i < 2 * n; i++)
        src[i] = (float)(i + 1);
    for (int64_t i = 0; i < n; i++) {
        index[i] = n - 1 - i;
        dst[i] = 1;
    }
    index[first] = -5;
    index[second] = n;
    tn_fault fault = {.size = sizeof fault};
    const tn_status status = cpu->scatter(queue, &s);
    cpu->queue_sync(queue, &fault);
    for (int64_t i = 0; i < n; i++) {
        const bool arrives = i != first && i != second;
        wrong += dst[n - 1 - i] != (arrives ? 1 + src[i * src_stride] : 1);
    }
    ok(status == TN_ERR_INDEX && fault.position == first && wrong == 0,
       "of %d points, with sources at a stride of %d, all but two outside the "
       "range are added",
       (int)n, (int)src_stride);
    buffer_drop(s.index.buffer);
    buffer_drop(s.src.buffer);
    buffer_drop(s.dst.buffer);
}

/* Scatters each row of src to the row that its index selects. */
static void test_scatter_rows(void)
{
    enum { R = 1500, C = 200, TO = 37 }; /* several blocks of rows */
    float *src, *dst, want[TO * C];
    int64_t *index;
    tn_scatter_args s = {.size = sizeof s, .ndim = 2, .dim = 0,
                         .extent = {R, C}, .dst_extent = TO, .tag = 6};
    s.index = (tn_strided){buffer_new(R * 8, &index), 0, TN_I64, 2, {1, 0}};
    s.src = (tn_strided){buffer_new(R * C * 4, &src), 0, TN_F32, 2, {C, 1}};
    s.dst = (tn_strided){buffer_new(TO * C * 4, &dst), 0, TN_F32, 2, {C, 1}};
    bool right = true;
    for (unsigned reduce = 0; reduce < TN_SCATTER_END; reduce++) {
        s.reduce = reduce;
        for (int64_t i = 0; i < R; i++)
            index[i] = random_below(TO);
        for (int64_t i = 0; i < R * C; i++)
            src[i] = (float)random_below(1000) / 1003;
        for (int64_t i = 0; i < TO * C; i++)
            want[i] = dst[i] = (float)(i % 5);
        for (int64_t i = 0; i < R * C; i++) {
            float *to = want + index[i / C] * C + i % C;
            *to = reduce == TN_SCATTER_ADD   ? *to + src[i]
                  : reduce == TN_SCATTER_MUL ? *to * src[i]
                                             : (float)folded(reduce, *to,
                                                             src[i]);
        }
        if (cpu->scatter(queue, &s) != TN_OK)
            bail_out("%s", failure);
        right = right && memcmp(dst, want, sizeof want) == 0;
    }
    ok(right, "rows that share an index: all reductions, in rising order");
    index[70] = TO;
    index[69] = -1;
    tn_fault fault = {.size = sizeof fault};
    is_int(cpu->scatter(queue, &s), TN_ERR_INDEX,
           "an index outside is reported");
    cpu->queue_sync(queue, &fault);
    ok(fault.position == 69 * C && fault.index == -1 && fault.tag == 6,
       "with the position of the first of its row");
    buffer_drop(s.index.buffer);
    buffer_drop(s.src.buffer);
    buffer_drop(s.dst.buffer);
}

/* ---- sort --------------------------------------------------------------- */

/* Compares a and b: negative if a sorts before b. NaN is largest, -0 equals
 * +0. */
static int order_of(float a, float b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

/* Tests numbers of which one in `nan` is NaN. If `nan` is 1, all are NaN. */
static void test_sort_of(int64_t count, int64_t keep, bool descending,
                         int64_t nan)
{
    enum { LINES = 2 };
    float *in, *out;
    int64_t *place;
    size_t all = (size_t)(LINES * count);
    tn_sort_args s = {.size = sizeof s, .ndim = 2,
                      .flags = descending ? TN_SORT_DESCENDING : 0,
                      .extent = {LINES, count}, .keep = keep};
    s.in = (tn_strided){buffer_new(all * 4, &in), 0, TN_F32, 2, {count, 1}};
    s.out = (tn_strided){buffer_new(all * 4, &out), 0, TN_F32, 2, {count, 1}};
    s.out_index = (tn_strided){buffer_new(all * 8, &place), 0, TN_I64, 2,
                               {count, 1}};
    for (size_t i = 0; i < all; i++) {
        in[i] = (float)random_below(count) - (float)(count / 2);
        in[i] = random_below(nan) == 0 ? NAN : in[i];
        in[i] = in[i] == 0 && random_below(2) ? -0.0f : in[i];
    }
    bool *seen = calloc(all, 1), ordered = true, stable = true, values = true;
    if (!seen || cpu->sort(queue, &s) != TN_OK)
        bail_out("%s", failure);
    for (int64_t l = 0; l < LINES; l++)
        for (int64_t k = 0; k < keep; k++) {
            int64_t here = l * count + k, from = l * count + place[here];
            values = values && !seen[from] &&
                     memcmp(&out[here], &in[from], 4) == 0;
            seen[from] = true;
            if (k == 0)
                continue;
            int way = order_of(out[here - 1], out[here]);
            ordered = ordered && (descending ? way >= 0 : way <= 0);
            stable = stable && (way != 0 || place[here - 1] < place[here]);
        }
    /* The elements that are not returned must not sort before the last one
     * returned. */
    for (int64_t l = 0; l < LINES && keep > 0; l++)
        for (int64_t i = 0; i < count; i++) {
            int64_t last = l * count + keep - 1;
            int way = order_of(out[last], in[l * count + i]);
            way = descending ? -way : way;
            if (!seen[l * count + i])
                ordered = ordered &&
                          (way < 0 || (way == 0 && place[last] < i));
        }
    ok(ordered && stable && values,
       "%lld of %lld in %s order: values and places, equals as they came",
       (long long)keep, (long long)count, descending ? "falling" : "rising");
    s.flags |= TN_SORT_LAST;
    int64_t last = keep - 1, want[LINES] = {place[last], place[count + last]};
    place[last] = place[count + last] = -1;
    out[last] = out[count + last] = 0.125f;
    if (cpu->sort(queue, &s) != TN_OK)
        bail_out("%s", failure);
    bool same = true;
    for (int64_t l = 0; l < LINES; l++)
        same = same && place[l * count + last] == want[l] &&
               memcmp(&out[l * count + last], &in[l * count + want[l]], 4) == 0;
    ok(same, "the last of them alone");
    free(seen);
    buffer_drop(s.in.buffer);
    buffer_drop(s.out.buffer);
    buffer_drop(s.out_index.buffer);
}

static void test_sort(int64_t count, int64_t keep, bool descending)
{
    test_sort_of(count, keep, descending, 50);
}

/* Tests 64-bit integers whose range fits in 32 bits, or exceeds them. */
static void test_sort_i64(int64_t count, uint64_t range, bool descending)
{
    int64_t *in, *out, *place;
    size_t all = (size_t)count;
    tn_sort_args s = {.size = sizeof s, .ndim = 1,
                      .flags = descending ? TN_SORT_DESCENDING : 0,
                      .extent = {count}, .keep = count};
    s.in = (tn_strided){buffer_new(all * 8, &in), 0, TN_I64, 1, {1}};
    s.out = (tn_strided){buffer_new(all * 8, &out), 0, TN_I64, 1, {1}};
    s.out_index = (tn_strided){buffer_new(all * 8, &place), 0, TN_I64, 1, {1}};
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = (uint64_t)random_below(1 << 30) << 34 |
                        (uint64_t)random_below(1 << 30) << 4;
        in[i] = (int64_t)(bits % range) - 1000;
    }
    in[count / 2] = (int64_t)(range - 1001); /* the largest number; another
                                              * element is the smallest */
    in[count / 3] = -1000;
    if (cpu->sort(queue, &s) != TN_OK)
        bail_out("%s", failure);
    bool right = true;
    for (int64_t k = 0; k < count; k++) {
        right = right && out[k] == in[place[k]];
        if (k > 0)
            right = right && (out[k - 1] == out[k]
                                  ? place[k - 1] < place[k]
                                  : (out[k - 1] > out[k]) == descending);
    }
    ok(right, "%lld numbers of 64 bits within %llx in %s order",
       (long long)count, (unsigned long long)range,
       descending ? "falling" : "rising");
    for (int64_t k = 1; k <= count; k += count / 5) {
        int64_t want = place[k - 1];
        s.flags |= TN_SORT_LAST;
        s.keep = k;
        place[k - 1] = out[k - 1] = -5000;
        if (cpu->sort(queue, &s) != TN_OK)
            bail_out("%s", failure);
        right = right && place[k - 1] == want && out[k - 1] == in[want];
    }
    ok(right, "some of them alone");
    buffer_drop(s.in.buffer);
    buffer_drop(s.out.buffer);
    buffer_drop(s.out_index.buffer);
}

/* The first `few` elements equal those of a complete sort. Values include the
 * limits of int32. */
static void test_few_i32(int64_t count, int64_t few, bool descending)
{
    int32_t *in;
    int64_t *all, *some;
    tn_sort_args s = {.size = sizeof s, .ndim = 1,
                      .flags = descending ? TN_SORT_DESCENDING : 0,
                      .extent = {count}, .keep = count};
    s.in = (tn_strided){buffer_new((size_t)count * 4, &in), 0, TN_I32, 1, {1}};
    tn_buffer *whole = buffer_new((size_t)count * 8, &all);
    tn_buffer *part = buffer_new((size_t)count * 8, &some);
    for (int64_t i = 0; i < count; i++)
        in[i] = random_below(40) == 0   ? INT32_MIN
                : random_below(40) == 0 ? INT32_MAX
                                        : (int32_t)random_below(900) - 450;
    s.out_index = (tn_strided){whole, 0, TN_I64, 1, {1}};
    tn_status status = cpu->sort(queue, &s);
    s.out_index.buffer = part;
    s.keep = few;
    if (status != TN_OK || cpu->sort(queue, &s) != TN_OK)
        bail_out("%s", failure);
    ok(memcmp(all, some, (size_t)few * 8) == 0,
       "the first %lld of %lld whole numbers in %s order", (long long)few,
       (long long)count, descending ? "falling" : "rising");
    buffer_drop(s.in.buffer);
    buffer_drop(whole);
    buffer_drop(part);
}

/* ---- copies ------------------------------------------------------------- */

static void test_copy(void)
{
    char *memory, host_rows[] = "abcdefghijkl", back[13] = "............";
    tn_buffer *buffer = buffer_new(64, &memory);
    memset(memory, '-', 64);
    tn_copy_args in = {.size = sizeof in, .direction = TN_COPY_TO_DEVICE,
                       .dst = buffer, .host = host_rows, .dst_offset = 1,
                       .bytes = 3, .rows = 3, .dst_pitch = 5, .src_pitch = 4};
    is_int(cpu->copy(queue, &in), TN_OK, "rows are scattered");
    memory[16] = 0;
    is_str(memory, "-abc--efg--ijk--", "by their pitches");
    tn_copy_args out = {.size = sizeof out, .direction = TN_COPY_TO_HOST,
                        .src = buffer, .host = back, .src_offset = 1,
                        .bytes = 2, .rows = 2, .dst_pitch = 3,
                        .src_pitch = 5};
    is_int(cpu->copy(queue, &out), TN_OK, "rows come out");
    is_str(back, "ab.ef.......", "by their pitches");
    buffer_drop(buffer);
}

int main(void)
{
    static const char *const isas[] = {"generic", "v3", "v4"};
    plan_later();
    random_state = 11;
    plugin_load();
    for (int i = 0; i < 3; i++) {
        if (!plugin_open(isas[i])) {
            skip(1, failure);
            continue;
        }
        tn_set_num_threads(i % 2 ? 1 : 3);
        test_products(isas[i]);
        test_product_strides(isas[i]);
        test_scatter(0, 200, TN_F32, 37, 200);
        test_scatter(1, 200, TN_F32, 37, 37);
        test_scatter(0, 200, TN_I64, 37, 200);
        test_scatter(1, 200, TN_F16, 37, 37);
        test_scatter(0, 200, TN_I16, 37, 200);
        test_scatter(0, 200, TN_F32, 100, 256);
        test_scatter(0, 200, TN_F64, 100, 256);
        test_scatter(0, 200, TN_I16, 150, 512);
        test_scatter(1, 1, TN_F32, 37, 41);
        test_scatter(1, 1, TN_I16, 37, 41);
        /* several blocks and a remainder */
        test_scatter(1, 600, TN_F32, 601, 640);
        test_scatter(1, 527, TN_I32, 30, 30);
        test_scatter(1, 272, TN_F64, 272, 272);
        test_scatter_outside(600, 300, 595, 1);
        test_scatter_outside(600, 0, 511, 0);
        test_scatter_outside(257, 255, 256, 2);
        test_scatter_outside(15, 0, 14, 1);
        test_scatter_rows();
        test_sort(30, 30, false);
        test_sort(500, 500, true);
        test_sort(5000, 5000, false);
        test_sort(5001, 5001, true);
        test_sort(600001, 600001, false); /* the sorted items take 4.6 MiB */
        test_sort(20000, 20000, false);
        for (int k = 0; k < 4; k++) {
            test_sort_i64(k & 1 ? 20000 : 700, 1000, k & 2);
            test_sort_i64(k & 1 ? 20000 : 700, (uint64_t)1 << 32, k & 2);
            test_sort_i64(k & 1 ? 20000 : 700, ((uint64_t)1 << 32) + 1, k & 2);
            test_sort_i64(k & 1 ? 20000 : 700, (uint64_t)1 << 62, k & 2);
        }
        test_sort(20000, 9000, true);
        test_sort(20000, 1500, true);
        test_few_i32(3001, 300, true);
        test_few_i32(3001, 20, false);
        test_sort(3000, 7, true);
        for (int nan = 1; nan < 4; nan++) {
            test_sort_of(64, 7, nan & 1, nan);
            test_sort_of(257, 32, nan & 1, nan);
            test_sort_of(1000, 10, nan & 1, 1000);
            test_sort_of(8192 + nan % 2, 31, nan & 1, nan);
        }
        test_sort(3000, 100, false);
        plugin_close();
    }
    if (!plugin_open(NULL))
        bail_out("%s", failure);
    test_product_rows();
    test_product_cuts();
    test_product_threads();
    test_copy();
    plugin_close();
    return done_testing();
}
