/* text.c: TfIdfVectorizer for integers: counts sequences of numbers (n-grams).
 * The host counts. */
#include <onnx/ops/ops.h>

#include <stdlib.h>
#include <string.h>

enum { LONGEST, SKIPS, SHORTEST, MODE, COUNTS, INDEXES, POOL, WEIGHTS };

/* Adds 1 to the count of each n-gram of the pool that occurs in x[0..length].
 * Consecutive elements of an n-gram are `skip` + 1 positions apart in x. */
static void count_grams(const tn__onnx_call *c, const int64_t *x,
                        int64_t length, int64_t n, int64_t skip,
                        const int64_t *pool, int64_t pool_count,
                        const int64_t *index, double *out)
{
    (void)c;
    const int64_t reach = (n - 1) * (skip + 1) + 1;
    for (int64_t i = 0; i + reach <= length; i++)
        for (int64_t j = 0; j < pool_count; j++) {
            int64_t k = 0;
            while (k < n && x[i + k * (skip + 1)] == pool[j * n + k])
                k++;
            if (k == n)
                out[index[j]]++;
        }
}

/* Checks the attributes. Returns the number of columns of the result, or -1
 * with an error. */
static int64_t check(tn__onnx_call *c)
{
    const tn__onnx_attr *const *a = c->attr;
    const tn__onnx_attr *counts = a[COUNTS], *indexes = a[INDEXES],
                        *pool = a[POOL];
    const int64_t longest = a[LONGEST]->i, shortest = a[SHORTEST]->i;
    int64_t columns = 0, grams = 0;
    bool fine = shortest >= 1 && longest >= shortest && longest <= 1 << 10 &&
                a[SKIPS]->i >= 0 && a[SKIPS]->i <= 1 << 10 &&
                counts->count >= 1 && counts->count <= 1 << 10;
    /* the n-grams of n numbers begin at counts[n - 1] in the pool */
    for (int64_t n = 1; n <= counts->count && fine; n++) {
        const int64_t from = counts->ints[n - 1],
                      to = n < counts->count ? counts->ints[n] : pool->count;
        fine = from >= 0 && from <= to && to <= pool->count &&
               (to - from) % n == 0;
        grams += fine ? (to - from) / n : 0;
    }
    fine = fine && counts->ints[0] == 0 && grams == indexes->count &&
           (!a[WEIGHTS] || a[WEIGHTS]->count == indexes->count);
    for (int64_t i = 0; i < indexes->count && fine; i++) {
        fine = indexes->ints[i] >= 0 && indexes->ints[i] < 1 << 24;
        columns = indexes->ints[i] >= columns ? indexes->ints[i] + 1 : columns;
    }
    if (fine)
        return columns;
    tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                    "ngram_counts must hold increasing indices into "
                    "pool_int64s, which has %lld numbers; ngram_indexes and "
                    "weights one number for each n-gram; and min_gram_length "
                    "(%lld) must be 1 to max_gram_length (%lld)",
                    (long long)pool->count, (long long)shortest,
                    (long long)longest);
    return -1;
}

static void vectorize(tn__onnx_call *c, const int64_t *x, int64_t rows,
                      int64_t length, int64_t columns, double *out)
{
    const tn__onnx_attr *counts = c->attr[COUNTS], *pool = c->attr[POOL];
    const int64_t *index = c->attr[INDEXES]->ints;
    const char *mode = tn__onnx_string(c, MODE);
    for (int64_t n = 1, at = 0; n <= counts->count; n++) {
        const int64_t from = counts->ints[n - 1],
                      to = n < counts->count ? counts->ints[n] : pool->count,
                      grams = (to - from) / n;
        /* an n-gram of a single number has no skips between elements */
        const int64_t skips = n > 1 ? tn__onnx_int(c, SKIPS) : 0;
        for (int64_t r = 0; r < rows && n >= tn__onnx_int(c, SHORTEST) &&
                            n <= tn__onnx_int(c, LONGEST);
             r++)
            for (int64_t skip = 0; skip <= skips; skip++)
                count_grams(c, x + r * length, length, n, skip,
                            pool->ints + from, grams, index + at,
                            out + r * columns);
        at += grams;
    }
    const tn__onnx_attr *weights = c->attr[WEIGHTS];
    const bool idf = strcmp(mode, "TF") != 0;
    for (int64_t i = 0; i < c->attr[INDEXES]->count && idf; i++)
        for (int64_t r = 0; r < rows; r++) {
            double *y = &out[r * columns + index[i]];
            const double weight = weights ? (double)weights->floats[i] : 1;
            *y = (strcmp(mode, "IDF") == 0 ? *y > 0 : *y) * weight;
        }
}

static void tf_idf(tn__onnx_call *c)
{
    const tn_tensor *x = c->x[0];
    const int ndim = tn_tensor_ndim(x);
    const char *mode = tn__onnx_string(c, MODE);
    if (!c->attr[POOL]) {
        tn__onnx_refuse(c, TN_ERR_UNSUPPORTED,
                        "pool_strings is not supported; only pool_int64s is");
        return;
    }
    if (ndim < 1 || ndim > 2 || tn_tensor_numel(x) > INT32_MAX ||
        (strcmp(mode, "TF") != 0 && strcmp(mode, "IDF") != 0 &&
         strcmp(mode, "TFIDF") != 0)) {
        tn__onnx_refuse(c, TN_ERR_ARGUMENT,
                        "X has %d dimensions and mode is \"%.40s\"; X must "
                        "have 1 or 2, and mode must be TF, IDF or TFIDF",
                        ndim, mode);
        return;
    }
    const int64_t columns = check(c);
    const int64_t rows = ndim == 2 ? tn_tensor_size(x, 0) : 1,
                  length = tn_tensor_size(x, -1);
    if (columns < 0 || !tn__onnx_may_make(c, tn_dims(rows, columns)))
        return;
    if (!tn__onnx_fits(c, rows * columns))
        return;
    int64_t *numbers =
        malloc(((size_t)tn_tensor_numel(x) + 1) * sizeof *numbers);
    double *out = rows <= INT32_MAX / (columns + 1)
                      ? calloc((size_t)(rows * columns) + 1, sizeof *out)
                      : NULL;
    if (!numbers || !out) {
        tn_error_set(TN_ERR_MEMORY, "onnx_run: out of memory");
    } else if (tn__onnx_ints(c, 0, numbers, (int)tn_tensor_numel(x)) >= 0) {
        vectorize(c, numbers, rows, length, columns, out);
        tn_tensor *y = tn_tensor_from_array(
            out, TN_F64, ndim == 2 ? tn_dims(rows, columns) : tn_dims(columns));
        c->y[0] = tn_to_dtype(y, TN_F32);
        c->y_type[0] = TN__ONNX_FLOAT;
    }
    free(numbers);
    free(out);
}

static const tn__onnx_op rows[] = {
    {.name = "TfIdfVectorizer", .since = 9, .min_in = 1, .max_in = 1,
     .max_out = 1,
     .attributes = "max_gram_length:int! max_skip_count:int! "
                   "min_gram_length:int! mode:string! ngram_counts:ints! "
                   "ngram_indexes:ints! pool_int64s:ints weights:floats",
     .run = tf_idf, .host = 1},
};
const tn__onnx_family tn__onnx_grams = TN__ONNX_FAMILY(rows);
