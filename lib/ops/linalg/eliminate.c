/* eliminate.c: LU factorisation and triangular solves on the host. The columns
 * are halved recursively, down to FEW columns (eliminate.inc). All other work
 * is matrix products by BLAS. OpenBLAS's own routines (0.3.21) are not used,
 * because they multiply narrow blocks. */
#include <float.h>
#include <math.h>
#include <ops/linalg/lapack.h>
#include <string.h>

#define FEW 4

#define real float
#define whole int32_t
#define NAME(x) x##_f32
#define ABS(x) fabsf(x)
#define LEAST FLT_MIN
#include <ops/linalg/eliminate.inc>
#undef real
#undef whole
#undef NAME
#undef ABS
#undef LEAST

#define real double
#define whole int64_t
#define NAME(x) x##_f64
#define ABS(x) fabs(x)
#define LEAST DBL_MIN
#include <ops/linalg/eliminate.inc>

typedef struct work {
    const tn__lapack *lapack;
    const tn__triangle *t;
    bool single, pivot;
} work;

/* Names the variant of a function of eliminate.inc that is compiled for the
 * dtype of w. */
#define BY_TYPE(w, function) ((w)->single ? function##_f32 : function##_f64)

/* Returns the address of the element in row i and column j of a. */
static char *at(const work *w, const void *a, int lda, int i, int j)
{
    size_t place = (size_t)j * (size_t)lda + (size_t)i;
    return (char *)(uintptr_t)a + place * (w->single ? 4 : 8);
}

/* Returns about half of n, as a multiple of FEW that is less than n. n is
 * greater than FEW. */
static int half(int n)
{
    return (n / 2 + FEW - 1) / FEW * FEW;
}

/* Computes c -= a op(b), where op is "N" (none) or "T" (transpose). */
static void subtract(const work *w, const char *op, int m, int n, int k,
                     const void *a, int lda, const void *b, int ldb, void *c,
                     int ldc)
{
    tn__gemm(w->lapack, w->single, "N", op, m, n, k, -1, a, lda, b, ldb, 1, c,
             ldc);
}

/* Solves X T = B for X, which replaces B in b. a holds T as w->t describes. */
static void right(const work *w, int m, int n, const void *a, void *b, int ldb)
{
    const tn__triangle *t = w->t;
    if (n <= FEW) {
        BY_TYPE(w, right_few)(t, m, n, a, b, ldb);
        return;
    }
    int h = half(n), rest = n - h;
    const char *op = t->transposed ? "T" : "N";
    const void *corner = at(w, a, t->lda, h, h);
    const void *beside = t->upper != t->transposed ? at(w, a, t->lda, 0, h)
                                               : at(w, a, t->lda, h, 0);
    void *far = at(w, b, ldb, 0, h);
    if (t->upper) {
        right(w, m, h, a, b, ldb);
        subtract(w, op, m, rest, h, b, ldb, beside, t->lda, far, ldb);
        right(w, m, rest, corner, far, ldb);
    } else {
        right(w, m, rest, corner, far, ldb);
        subtract(w, op, m, h, rest, far, ldb, beside, t->lda, b, ldb);
        right(w, m, h, a, b, ldb);
    }
}

/* Solves L X = B for X, which replaces B in b. L is the unit lower triangle in
 * a. a and b are columns of the same matrix, with m rows. */
static void left(const work *w, int m, int n, const void *a, void *b, int lda)
{
    if (m <= FEW) {
        BY_TYPE(w, left_few)(m, n, a, b, lda);
        return;
    }
    int h = half(m), rest = m - h;
    void *below = at(w, b, lda, h, 0);
    left(w, h, n, a, b, lda);
    subtract(w, "N", rest, n, h, at(w, a, lda, h, 0), lda, b, lda, below, lda);
    left(w, rest, n, at(w, a, lda, h, h), below, lda);
}

static int lu(const work *w, int m, int n, void *a, int lda, int *pivots)
{
    int least = m < n ? m : n;
    if (n <= FEW)
        return BY_TYPE(w, few_columns)(w->pivot, m, n, a, lda, pivots);
    int h = least <= FEW ? least : half(least), rest = n - h, low = m - h;
    void *beside = at(w, a, lda, 0, h), *below = at(w, a, lda, h, 0);
    void *corner = at(w, a, lda, h, h);
    int info = lu(w, m, h, a, lda, pivots);
    BY_TYPE(w, exchange)(rest, beside, lda, pivots, h);
    left(w, h, rest, a, beside, lda);
    if (low == 0)
        return info;
    subtract(w, "N", low, rest, h, below, lda, beside, lda, corner, lda);
    int more = lu(w, low, rest, corner, lda, pivots + h);
    BY_TYPE(w, exchange)(h, below, lda, pivots + h, least - h);
    for (int i = h; i < least; i++)
        pivots[i] += h;
    return info ? info : more ? more + h : 0;
}

int tn__lu(const tn__lapack *lapack, bool single, bool pivot, int m, int n,
           void *a, int *pivots)
{
    const work w = {.lapack = lapack, .single = single, .pivot = pivot};
    return lu(&w, m, n, a, m, pivots);
}

void tn__solve_right(const tn__lapack *lapack, bool single,
                     const tn__triangle *t, int m, int n, const void *a,
                     void *b)
{
    const work w = {.lapack = lapack, .single = single, .t = t};
    if (m) /* the reference BLAS rejects a leading dimension of 0 */
        right(&w, m, n, a, b, m);
}
