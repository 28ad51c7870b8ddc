/* sparse.c: products of a sparse matrix with rows of a tensor.
 *
 * Rows are sorted into buckets by their number of terms. The rows of a bucket
 * are padded to one length, a multiple of four, and the device computes four
 * terms of all its rows in one kernel. Four terms at a time are 5 to 7 times as
 * fast on the cpu device as a reduction over each row (256 channels, 16 terms).
 * Lengths above 16 are powers of 2, so padding at most doubles the work. */
#include <media/vision/sparse.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <media/vision/boxes.h>

bool tn__sparse_init(tn__sparse *m)
{
    *m = (tn__sparse){.row_room = 256, .room = 4096};
    m->start = calloc((size_t)m->row_room + 1, sizeof *m->start);
    m->column = malloc((size_t)m->room * sizeof *m->column);
    m->weight = malloc((size_t)m->room * sizeof *m->weight);
    if (m->start && m->column && m->weight)
        return true;
    tn__sparse_fini(m);
    return false;
}

void tn__sparse_fini(tn__sparse *m)
{
    free(m->start);
    free(m->column);
    free(m->weight);
    *m = (tn__sparse){0};
}

static bool grow(void *array, int64_t room, size_t size)
{
    void **at = array, *p = realloc(*at, (size_t)room * size);
    if (p)
        *at = p;
    return p != NULL;
}

static bool reserve(tn__sparse *m, int64_t rows, int64_t terms)
{
    if (rows > m->row_room) {
        const int64_t room = 2 * rows;
        if (!grow(&m->start, room + 1, sizeof *m->start))
            return false;
        m->row_room = room;
    }
    if (terms > m->room) {
        const int64_t room = 2 * terms;
        if (!grow(&m->column, room, sizeof *m->column) ||
            !grow(&m->weight, room, sizeof *m->weight))
            return false;
        m->room = room;
    }
    return true;
}

bool tn__sparse_add(tn__sparse *m, int64_t column, double weight)
{
    if (m->rows == 0 && m->open == 0)
        m->start[0] = 0;
    const int64_t n = m->start[m->rows] + m->open;
    if (n == m->room && !reserve(m, m->rows, n + 1))
        return false;
    m->column[n] = column;
    m->weight[n] = weight;
    m->open++;
    return true;
}

bool tn__sparse_end_row(tn__sparse *m)
{
    if (m->rows == 0)
        m->start[0] = 0;
    if (!reserve(m, m->rows + 1, 0))
        return false;
    m->start[m->rows + 1] = m->start[m->rows] + m->open;
    m->rows++;
    m->open = 0;
    return true;
}

bool tn__sparse_transpose(const tn__sparse *m, int64_t columns,
                          tn__sparse *out)
{
    const int64_t terms = m->rows ? m->start[m->rows] : 0;
    if (!reserve(out, columns, terms)) {
        tn_error_set(TN_ERR_MEMORY, "roi_align: out of memory");
        return false;
    }
    /* First counts the terms of each column. Then start[c] becomes the position
     * at which the next term of column c is stored, and at the end the position
     * at which column c + 1 begins. */
    memset(out->start, 0, ((size_t)columns + 1) * sizeof *out->start);
    for (int64_t i = 0; i < terms; i++)
        out->start[m->column[i]]++;
    int64_t sum = 0;
    for (int64_t c = 0; c <= columns; c++) {
        const int64_t count = out->start[c];
        out->start[c] = sum;
        sum += count;
    }
    for (int64_t r = 0; r < m->rows; r++)
        for (int64_t i = m->start[r]; i < m->start[r + 1]; i++) {
            const int64_t to = out->start[m->column[i]]++;
            out->column[to] = r;
            out->weight[to] = m->weight[i];
        }
    memmove(out->start + 1, out->start, (size_t)columns * sizeof *out->start);
    out->start[0] = 0;
    out->rows = columns;
    out->open = 0;
    return true;
}

/* ---- buckets --------------------------------------------------------------- */

enum { BUCKETS = 64 };

/* Returns the length to which a row of n terms is padded: 0, 4, 8, 12, 16, 32
 * and so on. */
static int64_t padded(int64_t n)
{
    int64_t length = (n + 3) / 4 * 4;
    if (n > 16)
        for (length = 32; length < n; length *= 2)
            ;
    return length;
}

static int bucket_of(int64_t n)
{
    if (n <= 16)
        return (int)((n + 3) / 4);
    int b = 5;
    for (int64_t length = 32; length < n; length *= 2)
        b++;
    return b;
}

/* The operands of a kernel for one bucket: tensors (length, rows, 1) of columns
 * and weights, of which term t is [t]. weight is NULL for maxima. */
typedef struct bucket {
    int64_t length, rows;
    tn_tensor *column, *weight;
} bucket;

/* Makes the operands for the rows of m in a bucket. A row is padded with its
 * first column and weight 0. */
static bool make_bucket(const tn__sparse *m, const int64_t *row, bucket *b,
                        bool has_weights, tn_dtype dtype, tn_device *device)
{
    const size_t count = (size_t)(b->length * b->rows);
    int64_t *column = malloc((count + 1) * sizeof *column);
    double *weight = has_weights ? malloc((count + 1) * sizeof *weight) : NULL;
    const bool fine = column && (weight || !has_weights);
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "roi: out of memory");
    for (int64_t r = 0; fine && r < b->rows; r++) {
        const int64_t from = m->start[row[r]], n = m->start[row[r] + 1] - from;
        for (int64_t t = 0; t < b->length; t++) {
            const int64_t at = from + (t < n ? t : 0);
            column[t * b->rows + r] = m->column[at];
            if (weight)
                weight[t * b->rows + r] = t < n ? m->weight[at] : 0;
        }
    }
    const tn_dims_list shape = tn_dims(b->length, b->rows, 1);
    if (fine) {
        b->column = tn__box_tensor(column, TN_I64, shape, device);
        if (weight)
            b->weight = tn_to_dtype(tn__box_tensor(weight, TN_F64, shape,
                                                   device),
                                    dtype);
    }
    free(column);
    free(weight);
    return fine && b->column && (b->weight || !has_weights);
}

#define TERM(n) "weighted(x[c" #n "], w" #n ")"
/* Returns the sums of the rows of a bucket: (rows, C). x is (C, columns). */
static tn_tensor *sum_bucket(const bucket *b, tn_tensor *x)
{
    static const tn_op *op;
    const char *text = "media_sum_4(x, c0, w0, c1, w1, c2, w2, c3, w3) = "
                       "(" TERM(0) " + " TERM(1) ") + "
                       "(" TERM(2) " + " TERM(3) ")";
    tn_tensor *sum = NULL;
    for (int64_t t = 0; t < b->length; t += 4) {
        tn_tensor *in[9] = {x};
        for (int k = 0; k < 4; k++) {
            in[1 + 2 * k] = tn_select(b->column, 0, t + k);
            in[2 + 2 * k] = tn_select(b->weight, 0, t + k);
        }
        tn_tensor *part = tn__box_apply(text, &op, in, NULL);
        sum = sum ? tn_add_(sum, part) : part;
        if (!sum)
            return NULL;
    }
    return sum;
}

#define STEP(n)                                                               \
    "let v" #n " = x[c" #n "]; let up" #n " = v" #n " > best" #n "; "
#define NEXT(n, m)                                                            \
    "let best" #m " = where(up" #n ", v" #n ", best" #n "); "                 \
    "let at" #m " = where(up" #n ", c" #n ", at" #n "); "
/* Computes the maxima of the rows of a bucket, and their columns. */
static bool max_bucket(const bucket *b, tn_tensor *x, tn_tensor *out[2])
{
    static const tn_op *op;
    const char *text =
        "media_max_4(best0, at0, x, c0, c1, c2, c3) = " STEP(0) NEXT(0, 1)
        STEP(1) NEXT(1, 2) STEP(2) NEXT(2, 3) STEP(3)
        "(where(up3, v3, best3), where(up3, c3, at3))";
    if (!tn_op_define_once(text, &op))
        return false;
    tn_device *device = tn_tensor_device(x);
    const tn_dims_list one = tn_dims(1, 1);
    out[0] = tn_full(one, -INFINITY, .dtype = tn_tensor_dtype(x),
                     .device = device);
    out[1] = tn_full(one, -1, .dtype = TN_I64, .device = device);
    for (int64_t t = 0; t < b->length; t += 4) {
        tn_tensor *in[7] = {out[0], out[1], x};
        tn_value value[7];
        for (int k = 0; k < 4; k++)
            in[3 + k] = tn_select(b->column, 0, t + k);
        for (int k = 0; k < 7; k++) {
            if (!in[k])
                return false;
            value[k] = (tn_value){.kind = TN_VALUE_TENSOR,
                                  .of.tensor = in[k]};
        }
        if (tn_op_call(op, value, 7, out, 2) < 0)
            return false;
    }
    return true;
}

/* Computes the sums of all rows, or (with `max`) the maxima and their columns.
 */
static bool each_bucket(const tn__sparse *m, tn_tensor *x, bool max,
                        tn_tensor *out[2])
{
    tn_device *device = tn_tensor_device(x);
    const tn_dtype dtype = tn_tensor_dtype(x);
    const int64_t channels = tn_tensor_size(x, 1);
    int64_t first[BUCKETS + 1] = {0}, next[BUCKETS];
    int64_t *row = malloc(((size_t)m->rows + 1) * sizeof *row),
            *place = malloc(((size_t)m->rows + 1) * sizeof *place);
    tn_tensor *part[2][BUCKETS] = {{NULL}};
    int count = 0;
    bool fine = row && place;
    if (!fine)
        tn_error_set(TN_ERR_MEMORY, "roi: out of memory");
    for (int64_t r = 0; fine && r < m->rows; r++)
        first[bucket_of(m->start[r + 1] - m->start[r]) + 1]++;
    for (int b = 0; b < BUCKETS; b++)
        next[b] = first[b + 1] += first[b];
    for (int64_t r = m->rows - 1; fine && r >= 0; r--) {
        const int64_t at = --next[bucket_of(m->start[r + 1] - m->start[r])];
        row[at] = r;
        place[r] = at;
    }
    tn_tensor *turned = tn_transpose(x, 0, 1);
    for (int i = 0; i < BUCKETS && fine; i++) {
        bucket b = {.rows = first[i + 1] - first[i]};
        if (b.rows == 0)
            continue;
        const int64_t r = row[first[i]];
        b.length = padded(m->start[r + 1] - m->start[r]);
        if (b.length == 0) {
            const tn_dims_list shape = tn_dims(b.rows, channels);
            part[0][count] = tn_zeros(shape, .dtype = dtype, .device = device);
            part[1][count] = max ? tn_full(shape, -1, .dtype = TN_I64,
                                           .device = device)
                                 : NULL;
        } else if (!make_bucket(m, row + first[i], &b, !max, dtype, device)) {
            fine = false;
        } else if (max) {
            tn_tensor *best[2] = {NULL};
            fine = max_bucket(&b, turned, best);
            part[0][count] = best[0];
            part[1][count] = best[1];
        } else {
            part[0][count] = sum_bucket(&b, turned);
        }
        fine = fine && part[0][count];
        count++;
    }
    tn_tensor *order = NULL;
    if (fine && count > 1)
        order = tn__box_tensor(place, TN_I64, tn_dims(m->rows), device);
    for (int o = 0; o < 1 + max && fine; o++) {
        out[o] = count > 1 ? tn_index_select(tn_cat(part[o], count, 0), 0,
                                             order)
                           : part[o][0];
        fine = out[o] != NULL;
    }
    free(row);
    free(place);
    return fine;
}

tn_tensor *tn__sparse_multiply(const tn__sparse *m, tn_tensor *x)
{
    tn_tensor *out[2];
    return each_bucket(m, x, false, out) ? out[0] : NULL;
}

bool tn__sparse_max(const tn__sparse *m, tn_tensor *x, tn_tensor *out[2])
{
    return each_bucket(m, x, true, out);
}
