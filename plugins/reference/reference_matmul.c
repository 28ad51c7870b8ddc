/* reference_matmul.c: the primitive matmul, c = alpha * a @ b + beta * c for a
 * batch of matrices.
 *
 * Each sum over k is computed in increasing order of k by fused multiply-adds:
 * in float for f32 and narrower floats, in double for f64, and in wrapping
 * 64-bit integers for all other dtypes. (Summing f32 in double would be more
 * exact, but would differ more from all other devices.)
 *
 * A row of c is computed at a time, by adding a[i][k] * b[k][j] to all sums
 * sum[j] for each k. So each sum has that order, and a compiler can vectorise
 * the loop over j. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

/* An array of numbers in the type in which products are computed. It holds the
 * sums of one row of c, or a copy of b. */
typedef union vector {
    double *f64;
    float *f32;
    uint64_t *u64;
    void *any;
} vector;

static void set(vector to, tn_dtype dtype, int64_t i, tn_number x)
{
    if (dtype == TN_F64)
        to.f64[i] = x.f;
    else if (reference_is_float(dtype))
        to.f32[i] = (float)x.f;
    else
        to.u64[i] = (uint64_t)x.i;
}

/* Computes sum[j] = fma(x, b[from + j], sum[j]) for j < n. */
static void add_multiple(vector sum, vector b, int64_t from, tn_dtype dtype,
                         tn_number x, int64_t n)
{
    if (dtype == TN_F64) {
        for (int64_t j = 0; j < n; j++)
            sum.f64[j] = fma(x.f, b.f64[from + j], sum.f64[j]);
    } else if (reference_is_float(dtype)) {
        float xf = (float)x.f;
        for (int64_t j = 0; j < n; j++)
            sum.f32[j] = fmaf(xf, b.f32[from + j], sum.f32[j]);
    } else if (dtype == TN_BOOL) {
        for (int64_t j = 0; j < n; j++)
            sum.u64[j] |= (uint64_t)x.i & b.u64[from + j];
    } else {
        for (int64_t j = 0; j < n; j++)
            sum.u64[j] += (uint64_t)x.i * b.u64[from + j];
    }
}

/* Returns alpha * sum[j] + beta * c. If beta is 0, c is not used, since it may
 * be NaN. Each operation is rounded. */
static tn_number blend(const tn_matmul_args *mm, vector sum, int64_t j,
                       tn_number c)
{
    tn_dtype dtype = mm->c.dtype;
    if (dtype == TN_F64) {
        double x = mm->alpha * sum.f64[j];
        return (tn_number){.f = mm->beta != 0 ? x + mm->beta * c.f : x};
    }
    if (reference_is_float(dtype)) {
        float x = (float)mm->alpha * sum.f32[j];
        float y = (float)mm->beta * (float)c.f;
        return (tn_number){.f = mm->beta != 0 ? x + y : x};
    }
    if (dtype == TN_BOOL)
        return (tn_number){.i = (mm->alpha != 0 && sum.u64[j]) || c.i};
    uint64_t alpha = (uint64_t)(int64_t)mm->alpha;
    uint64_t beta = (uint64_t)(int64_t)mm->beta;
    return (tn_number){
        .i = (int64_t)(alpha * sum.u64[j] + beta * (uint64_t)c.i)};
}

/* Computes one matrix of the batch. a, b and c are the offsets in memory at
 * which the matrices begin. */
static void multiply(const tn_matmul_args *mm, int64_t a, int64_t b, int64_t c,
                     vector sum, vector packed)
{
    uint32_t row = mm->batch_ndim, column = row + 1;
    for (int64_t k = 0; k < mm->k; k++)
        for (int64_t j = 0; j < mm->n; j++)
            set(packed, mm->b.dtype, k * mm->n + j,
                reference_load(&mm->b, b + k * mm->b.stride[row] +
                                           j * mm->b.stride[column]));
    for (int64_t i = 0; i < mm->m; i++) {
        for (int64_t j = 0; j < mm->n; j++)
            /* .i = 0 also sets .f to 0.0, whose bits are all 0. */
            set(sum, mm->c.dtype, j, (tn_number){.i = 0});
        for (int64_t k = 0; k < mm->k; k++)
            add_multiple(sum, packed, k * mm->n, mm->c.dtype,
                         reference_load(&mm->a, a + i * mm->a.stride[row] +
                                                    k * mm->a.stride[column]),
                         mm->n);
        for (int64_t j = 0; j < mm->n; j++) {
            int64_t at = c + i * mm->c.stride[row] + j * mm->c.stride[column];
            tn_number old = {.i = 0};
            if (mm->beta != 0)
                old = reference_load(&mm->c, at);
            reference_store(&mm->c, at, blend(mm, sum, j, old));
        }
    }
}

tn_status reference_matmul(const tn_matmul_args *mm)
{
    int64_t point[TN_MAX_NDIM] = {0};
    if (reference_numel(mm->batch, mm->batch_ndim) == 0 || mm->m == 0 ||
        mm->n == 0)
        return TN_OK;
    vector sum = {.any = calloc((size_t)mm->n, sizeof(double))};
    vector packed = {.any =
                         calloc((size_t)(mm->k * mm->n) + 1, sizeof(double))};
    tn_status status = TN_OK;
    if (sum.any && packed.any)
        do
            multiply(mm, reference_offset(&mm->a, point, mm->batch_ndim),
                     reference_offset(&mm->b, point, mm->batch_ndim),
                     reference_offset(&mm->c, point, mm->batch_ndim), sum,
                     packed);
        while (reference_next(point, mm->batch, mm->batch_ndim));
    else
        status = reference_host->fail(TN_ERR_MEMORY, "matmul: out of memory");
    free(sum.any);
    free(packed.any);
    return status;
}
