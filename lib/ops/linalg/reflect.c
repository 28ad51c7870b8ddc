/* reflect.c: QR factorisation, and products with Q, on the host. Q is a product
 * of Householder reflections. Up to sixteen of them are applied at once, as I -
 * V T V^T (Schreiber and Van Loan, "A storage-efficient WY representation for
 * products of Householder transformations", 1989). So all work except that on
 * narrow panels is matrix products by BLAS. */
#include <ops/linalg/lapack.h>

enum { BLOCK = 16 };

/* Returns the width of the blocks into which `count` reflections are split. The
 * blocks are about equal and have at most BLOCK reflections: 17 are split into
 * 9 and 8. */
static int width_of(int count)
{
    int blocks = (count + BLOCK - 1) / BLOCK;
    return blocks ? (count + blocks - 1) / blocks : 1;
}

typedef struct work {
    const tn__lapack *lapack;
    bool single;
    size_t element;
    char *v, *t, *dots, *w, *tw; /* matrices in the caller's workspace */
} work;

int64_t tn__reflect_workspace(int m, int columns)
{
    return BLOCK * ((int64_t)m + 2 * BLOCK + 2 * ((int64_t)columns + 1));
}

static work begin(const tn__lapack *lapack, bool single, int m, int columns,
                  void *room)
{
    work k = {.lapack = lapack, .single = single,
              .element = single ? sizeof(float) : sizeof(double), .v = room};
    size_t line = BLOCK * k.element;
    k.t = k.v + (size_t)m * line;
    k.dots = k.t + BLOCK * line;
    k.w = k.dots + BLOCK * line;
    k.tw = k.w + ((size_t)columns + 1) * line;
    return k;
}

static double get(const work *k, const void *list, int i)
{
    return k->single ? (double)((const float *)list)[i]
                     : ((const double *)list)[i];
}

static void set(const work *k, void *list, int i, double x)
{
    if (k->single)
        ((float *)list)[i] = (float)x;
    else
        ((double *)list)[i] = x;
}

/* Computes V and T of `count` reflections. Column j of V is column j of a below
 * the diagonal, with 1 on the diagonal and 0 above. */
static void form(const work *k, int m, int count, const void *a, int lda,
                 const void *tau)
{
    size_t from = (size_t)lda * k->element, to = (size_t)m * k->element;
    for (int j = 0; j < count; j++) {
        char *v = k->v + (size_t)j * to;
        size_t head = (size_t)(j + 1) * k->element;
        memset(v, 0, head);
        set(k, v, j, 1);
        memcpy(v + head, (const char *)a + (size_t)j * from + head, to - head);
    }
    tn__gemm(k->lapack, k->single, "T", "N", count, count, m, 1, k->v, m, k->v,
             m, 0, k->dots, BLOCK);
    double t[BLOCK][BLOCK] = {{0}}; /* t[column][row] holds the matrix T */
    for (int j = 0; j < count; j++) {
        double by = get(k, tau, j);
        for (int p = 0; p < j; p++) {
            double dot = -by * get(k, k->dots, j * BLOCK + p);
            for (int i = 0; i <= p; i++)
                t[j][i] += t[p][i] * dot;
        }
        t[j][j] = by;
        for (int i = 0; i < count; i++)
            set(k, k->t, j * BLOCK + i, t[j][i]);
    }
}

/* Replaces c, with m rows, by (I - V T V^T) c if op is "N", or by (I - V T^T
 * V^T) c if op is "T". */
static void apply(const work *k, const char *op, int m, int count, int columns,
                  void *c, int ldc)
{
    tn__gemm(k->lapack, k->single, "T", "N", count, columns, m, 1, k->v, m, c,
             ldc, 0, k->w, BLOCK);
    tn__gemm(k->lapack, k->single, op, "N", count, columns, count, 1, k->t,
             BLOCK, k->w, BLOCK, 0, k->tw, BLOCK);
    tn__gemm(k->lapack, k->single, "N", "N", m, columns, count, -1, k->v, m,
             k->tw, BLOCK, 1, c, ldc);
}

static char *at(const work *k, const void *a, int lda, int i, int j)
{
    size_t place = (size_t)j * (size_t)lda + (size_t)i;
    return (char *)(uintptr_t)a + place * k->element;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

void tn__reflect(const tn__lapack *lapack, bool single, int m, int count,
                 const void *a, int lda, const void *tau, int columns, void *c,
                 int ldc, bool from_unit, void *room)
{
    const work k = begin(lapack, single, m, columns, room);
    int block = width_of(count), last = (count + block - 1) / block - 1;
    for (int i = last; i >= 0; i--) {
        int first = i * block, rows = m - first;
        int width = least(block, count - first);
        /* Columns of the identity that no reflection has changed yet are
         * skipped. */
        int skip = from_unit ? least(first, columns) : 0;
        form(&k, rows, width, at(&k, a, lda, first, first), lda,
             at(&k, tau, 1, first, 0));
        apply(&k, "N", rows, width, columns - skip,
              at(&k, c, ldc, first, skip), ldc);
    }
}

void tn__qr(const tn__lapack *lapack, bool single, int m, int n, void *a,
            void *tau, void *room)
{
    const work k = begin(lapack, single, m, n, room);
    int count = least(m, n), block = width_of(count), panel = BLOCK, info = 0;
    for (int first = 0; first < count; first += block) {
        int width = least(block, count - first), rows = m - first;
        int rest = n - first - width;
        void *corner = at(&k, a, m, first, first);
        void *by = at(&k, tau, 1, first, 0);
        lapack->geqrf[single](&rows, &width, corner, &m, by, k.tw, &panel,
                              &info);
        if (rest == 0)
            break;
        form(&k, rows, width, corner, m, by);
        apply(&k, "T", rows, width, rest, at(&k, a, m, first, first + width),
              m);
    }
}
