/* check_lapack.c: checks the extension "lapack". A factorisation may not be
 * unique, so results are checked by their properties: the product of the
 * factors is the matrix, and factors are triangular or orthogonal. */
#include "check_lapack.h"

#include <math.h>
#include <string.h>

static operand a, b, c, values, pivots, info;
static double was_a[OPERAND_POINTS], was_b[OPERAND_POINTS];
static tn_lapack_args args;
static int64_t batch, m, n, sides, least;

/* Returns the index in value[] of row i, column j of matrix k of the batch. */
static int64_t place(const operand *o, int64_t k, int64_t i, int64_t j)
{
    return (k * o->extent[1] + j) * o->extent[2] + i;
}

static double at(const operand *o, int64_t k, int64_t i, int64_t j)
{
    return o->value[place(o, k, i, j)].f;
}

static bool has(uint32_t flag)
{
    return args.flags & flag;
}

/* ---- the matrices ------------------------------------------------------- */

/* Returns a random element (i, j) in [-1, 1]. If the matrix must be well
 * conditioned, diagonal elements are larger. For SOLVE the antidiagonal
 * elements are larger instead, so that pivoting exchanges rows. */
static double any_number(const operand *o, int64_t i, int64_t j)
{
    double x = (double)random_between(&now.source, -999, 999) / 1000;
    bool far = o == &a && (args.kind == TN_LAPACK_CHOLESKY ||
                           args.kind == TN_LAPACK_TRIANGLE ||
                           args.kind == TN_LAPACK_SOLVE);
    bool here = args.kind == TN_LAPACK_SOLVE ? i + j == n - 1 : i == j;
    return far && here ? x + 2 * (double)n : x;
}

static void fill(operand *o, double *was)
{
    bool same = o == &a && (args.kind == TN_LAPACK_CHOLESKY ||
                            args.kind == TN_LAPACK_EIGH);
    for (int64_t p = 0; p < o->count; p++) {
        int64_t i = p % o->extent[2], j = p / o->extent[2] % o->extent[1];
        int64_t mirror = p + (i - j) * (o->extent[2] - 1);
        tn_number x = {.f = any_number(o, i, j)};
        if (same && i < j)
            x.f = was[mirror];
        x = operand_rounded(o->view.dtype, x);
        was[p] = x.f;
        operand_store(o, operand_offset(o, p), x);
    }
    operand_read(o);
}

/* Lays out an operand column-major. If by_rows is true, which means that the
 * device accepts row-major matrices, chooses row-major in half of the cases. */
static void lay_out(operand *o, tn_dtype dtype, int64_t columns, int64_t rows,
                    bool by_rows)
{
    operand_init_dense(o, dtype, 3, (int64_t[]){batch, columns, rows});
    if (by_rows && random_chance(&now.source, 50)) {
        o->view.stride[1] = 1;
        o->view.stride[2] = columns;
        operand_read(o);
    }
}

/* Chooses the arguments of a random case: many small matrices or a few larger
 * ones. */
static void any_case(bool by_rows)
{
    const bool many = random_chance(&now.source, 50);
    const int64_t most = many ? 7 : 20;
    args = (tn_lapack_args){.size = sizeof args,
                            .kind = random_below(&now.source, 7),
                            .flags = random_below(&now.source,
                                                  by_rows ? 32 : 16),
                            .batch = many ? random_between(&now.source, 16, 24)
                                          : random_between(&now.source, 1, 3),
                            .m = random_between(&now.source, 1, most),
                            .n = random_between(&now.source, 1, most),
                            .sides = random_between(&now.source, 1, 6)};
    const uint32_t kind = args.kind;
    if (kind != TN_LAPACK_LU && kind != TN_LAPACK_QR && kind != TN_LAPACK_SVD)
        args.m = args.n;
    if (kind == TN_LAPACK_SVD && args.m < args.n)
        args.m = args.n;
    batch = args.batch, m = args.m, n = args.n;
    least = m < n ? m : n;
    if (kind == TN_LAPACK_QR || kind == TN_LAPACK_SVD)
        args.sides = random_chance(&now.source, 50) ? least : m;
    if (kind == TN_LAPACK_QR && random_chance(&now.source, 20))
        args.sides = 0;
    sides = args.sides;
    const bool single = random_chance(&now.source, 50);
    const tn_dtype dtype = single ? TN_F32 : TN_F64;
    const bool right = kind == TN_LAPACK_TRIANGLE, tall = kind >= TN_LAPACK_QR;
    lay_out(&a, dtype, n, m, by_rows);
    lay_out(&b, dtype, right ? n : sides ? sides : 1,
            right  ? sides
            : tall ? m
                   : n,
            by_rows);
    lay_out(&c, dtype, n, n, by_rows);
    operand_init_dense(&values, dtype, 2, (int64_t[]){batch, n});
    operand_init_dense(&pivots, TN_I32, 2, (int64_t[]){batch, least});
    operand_init_dense(&info, TN_I32, 1, &batch);
    fill(&a, was_a);
    fill(&b, was_b);
}

/* Reads a result from the device into value[], and leaves memory[] as it was.
 * Then memory[] can still be compared with the device's memory, to find writes
 * outside the result. */
static void look(operand *o)
{
    static unsigned char before[OPERAND_ROOM];
    memcpy(before, o->memory, o->bytes);
    if (operand_succeeded(by_hand_copy(now.device, o->view.buffer, 0, o->memory,
                                       o->bytes, false),
                          "a copy to the host"))
        operand_read(o);
    memcpy(o->memory, before, o->bytes);
}

/* ---- what has to hold --------------------------------------------------- */

static int64_t differs(double x, double y)
{
    const double step = a.view.dtype == TN_F32 ? 0x1p-13 : 0x1p-40;
    return !(fabs(x - y) <= step * (double)(m + n) * (1 + fabs(y)));
}

/* Returns element (i, j) of matrix k of a, read as an upper or lower triangular
 * matrix. If `unit` is true, its diagonal is 1. */
static double triangle(int64_t k, int64_t i, int64_t j, bool upper, bool unit)
{
    if (i == j && unit)
        return 1;
    return (upper ? i <= j : i >= j) ? at(&a, k, i, j) : 0;
}

/* Returns how many inner products of two columns of x are wrong. The columns
 * must be orthonormal. */
static int64_t skewed(const operand *x, int64_t k, int64_t rows,
                      int64_t columns)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = 0; j < columns; j++) {
            double dot = 0;
            for (int64_t q = 0; q < rows; q++)
                dot += at(x, k, q, i) * at(x, k, q, j);
            wrong += differs(dot, i == j);
        }
    return wrong;
}

/* Returns element (i, j) of the product of the factors of matrix k. */
static double product(int64_t k, int64_t i, int64_t j)
{
    const bool upper = has(TN_LAPACK_UPPER);
    double sum = 0;
    int64_t end = args.kind == TN_LAPACK_QR || args.kind == TN_LAPACK_LU ? least
                                                                         : n;
    for (int64_t q = 0; q < end; q++) {
        double value = values.value[k * n + q].f;
        switch (args.kind) {
        case TN_LAPACK_CHOLESKY:
            sum += upper ? triangle(k, q, i, true, false) *
                               triangle(k, q, j, true, false)
                         : triangle(k, i, q, false, false) *
                               triangle(k, j, q, false, false);
            break;
        case TN_LAPACK_LU:
            sum += triangle(k, i, q, false, true) *
                   triangle(k, q, j, true, false);
            break;
        case TN_LAPACK_QR:
            sum += at(&b, k, i, q) * triangle(k, q, j, true, false);
            break;
        case TN_LAPACK_EIGH:
            sum += at(&a, k, i, q) * value * at(&a, k, j, q);
            break;
        default:
            sum += at(&b, k, i, q) * value * at(&c, k, q, j);
        }
    }
    return sum;
}

/* Sets row[i] to the original index of the row that is at position i after all
 * row exchanges of the pivots. */
static void exchange(int64_t k, int64_t *row)
{
    for (int64_t i = 0; i < m; i++)
        row[i] = i;
    for (int64_t i = 0; i < least; i++) {
        int64_t other = pivots.value[k * least + i].i - 1, kept = row[i];
        if (other < i || other >= m)
            continue;
        row[i] = row[other];
        row[other] = kept;
    }
}

static int64_t factored(int64_t k)
{
    const bool half = args.kind == TN_LAPACK_CHOLESKY;
    int64_t row[20], wrong = info.value[k].i != 0;
    exchange(k, row);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t from = args.kind == TN_LAPACK_LU ? row[i] : i;
            double was = was_a[place(&a, k, from, j)];
            if (half && (has(TN_LAPACK_UPPER) ? i > j : i < j))
                wrong += at(&a, k, i, j) != (has(TN_LAPACK_ALONE) ? 0 : was);
            if (args.kind == TN_LAPACK_QR && has(TN_LAPACK_ALONE) && i > j)
                wrong += at(&a, k, i, j) != 0;
            wrong += differs(product(k, i, j), was);
        }
    for (int64_t i = 1; i < n && args.kind >= TN_LAPACK_EIGH; i++) {
        double step = values.value[k * n + i].f - values.value[k * n + i - 1].f;
        wrong += args.kind == TN_LAPACK_EIGH ? step < 0 : step > 0;
    }
    return wrong;
}

/* Multiplies matrix k of a, as it was before the call, by the solution. Returns
 * how many elements differ from the right-hand side. */
static int64_t solved(int64_t k)
{
    const bool right = args.kind == TN_LAPACK_TRIANGLE;
    int64_t wrong = 0;
    for (int64_t i = 0; i < (right ? sides : n); i++)
        for (int64_t j = 0; j < (right ? n : sides); j++) {
            double sum = 0;
            for (int64_t q = 0; q < n; q++) {
                int64_t r = right ? q : i, s = right ? j : q;
                int64_t from = has(TN_LAPACK_TURNED) ? s : r;
                int64_t to = has(TN_LAPACK_TURNED) ? r : s;
                double x = right ? at(&b, k, i, q) : at(&b, k, q, j);
                sum += x * (right ? triangle(k, from, to, has(TN_LAPACK_UPPER),
                                             has(TN_LAPACK_UNIT))
                                  : was_a[place(&a, k, from, to)]);
            }
            wrong += differs(sum, was_b[place(&b, k, i, j)]);
        }
    return wrong;
}

static int64_t looked(int64_t k)
{
    const bool vectors = has(TN_LAPACK_VECTORS);
    switch (args.kind) {
    case TN_LAPACK_SOLVE:
    case TN_LAPACK_TRIANGLE:
        return solved(k);
    case TN_LAPACK_QR:
        return sides ? factored(k) + skewed(&b, k, m, sides) : 0;
    case TN_LAPACK_EIGH:
        return vectors ? factored(k) + skewed(&a, k, n, n) : 0;
    case TN_LAPACK_SVD:
        return vectors ? factored(k) + skewed(&b, k, m, sides) +
                             skewed(&c, k, n, n)
                       : 0;
    default:
        return factored(k);
    }
}

/* ---- a case ------------------------------------------------------------- */

static void point(void)
{
    const bool vectors = has(TN_LAPACK_VECTORS);
    const bool svd = args.kind == TN_LAPACK_SVD;
    args.a = a.view, args.info = info.view;
    if (svd ? vectors : args.kind != TN_LAPACK_EIGH && sides)
        args.b = b.view;
    if (svd && vectors)
        args.c = c.view;
    if (args.kind >= TN_LAPACK_EIGH)
        args.values = values.view;
    if (args.kind == TN_LAPACK_LU || args.kind == TN_LAPACK_SOLVE)
        args.pivots = pivots.view;
}

tn_status lapack_case(const tn_lapack_extension *lapack, int64_t *wrong)
{
    operand *const all[] = {&a, &b, &c, &values, &pivots, &info};
    const bool by_rows = lapack->flags & TN_LAPACK_BY_ROWS;
    any_case(by_rows);
    for (int i = 0; i < 6; i++)
        operand_send(all[i]);
    point();
    operand_enter();
    tn_status status = lapack->fits(now.device->device);
    if (!status && TN_HAS(tn_lapack_extension, lapack, takes) && lapack->takes)
        status = lapack->takes(now.device->device, &args);
    if (!status && args.kind == TN_LAPACK_SOLVE) {
        args.kind = TN_LAPACK_LU;
        status = lapack->run(now.device->queue, &args);
        args.kind = TN_LAPACK_SOLVE;
    }
    if (!status)
        status = lapack->run(now.device->queue, &args);
    operand_leave();
    for (int i = 0; i < 6 && !status; i++)
        look(all[i]);
    for (int64_t k = 0; k < batch && !status; k++)
        *wrong += looked(k);
    for (int i = 0; i < 6; i++)
        *wrong += operand_receive(all[i]);
    return status;
}
