/* autocast.c: runs every operator under autocast.
 *
 *     autocast [DIR [EVERY]]      every EVERYth (1) float32 sample of each file
 *
 * A float32 sample runs under TN_AUTOCAST, with gradients, and a second time
 * without it, on inputs that were converted to the dtype that the operator
 * table has for autocast. Both must give identical bits, and the results must
 * have that dtype. A composite operator without an autocast dtype only has to
 * run and to give gradients of its inputs' dtype, because the operators that it
 * calls have their own rules. Prints counts. */
#include "golden.h"

#include <ops/engine/ops.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RESULTS = 96 };

static tn_dtype lower;

/* Returns x converted to the half type, as a leaf. */
static tn_tensor *rounded(tn_tensor *x)
{
    return x && tn_tensor_dtype(x) == TN_F32 ? tn_to_dtype(x, lower) : x;
}

/* Compares x and y after converting them to float32. */
static bool same(tn_tensor *x, tn_tensor *y)
{
    size_t bytes = (size_t)tn_tensor_numel(x) * sizeof(double);
    double *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    bool equal = a && b && tn_tensor_numel(x) == tn_tensor_numel(y) &&
                 !tn_tensor_to_array(tn_to_dtype(x, TN_F64), a, bytes) &&
                 !tn_tensor_to_array(tn_to_dtype(y, TN_F64), b, bytes);
    for (int64_t i = 0; equal && i < tn_tensor_numel(x); i++)
        equal = a[i] == b[i] || (a[i] != a[i] && b[i] != b[i]);
    free(a);
    free(b);
    return equal;
}

static struct counts {
    long same, parts, refused, failed; /* numbers of samples */
    long lower;                        /* number of results in the half type */
} counts;

static void fail(const char *name, size_t number, const char *what)
{
    if (counts.failed++ < 40)
        printf("# %s, sample %zu: %s\n", name, number, what);
}

static void one_sample(tn_safetensors *file, const json_t *json,
                       const char *name, size_t number, void *context)
{
    (void)context;
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    if (!dtype || strcmp(dtype, "float32") != 0)
        return;
    const tn_op *op = tn_op_find(name);
    /* a sample of linalg.pinv with two matrices uses their product
     * (op_file.c) */
    bool parts = (op->sort == TN__OP_COMPOSITE && !op->autocast) ||
                 (strcmp(name, "linalg.pinv") == 0 &&
                  json_array_size(json_object_get(json, "args")) == 2);
    tn_tensor *got[MOST_RESULTS], *want[MOST_RESULTS];
    char why[400] = "";
    tn_rng_state start = tn_rng_snapshot();
    int wanted = op_sample_results(
        file, json, name, op->autocast == TN__AUTOCAST_LOWER ? rounded : NULL,
        want, MOST_RESULTS, why, sizeof why);
    if (wanted < 0) {
        counts.refused++;
        return;
    }
    tn_rng_restore(start);
    int filled = -1;
    TN_AUTOCAST(lower)
        filled = op_sample_results(file, json, name, NULL, got, MOST_RESULTS,
                                   why, sizeof why);
    if (op->autocast == TN__AUTOCAST_F32_NOT_F16 && lower == TN_F16) {
        if (filled >= 0)
            fail(name, number, "is not refused");
        counts.refused++;
        return;
    }
    if (filled != wanted) {
        fail(name, number, why[0] ? why : "another number of results");
        return;
    }
    size_t outs = json_array_size(json_object_get(json, "outs"));
    for (int i = 0; i < wanted; i++) {
        bool is_out = (size_t)i < outs; /* integer arguments may follow the
                                         * outputs */
        tn_dtype is = tn_tensor_dtype(got[i]), was = tn_tensor_dtype(want[i]);
        counts.lower += is == lower;
        if (!is_out && tn_dtype_is_floating(is) && is != TN_F32) {
            fail(name, number, "a gradient is not float32");
            return;
        }
        if (parts)
            continue;
        if (is_out && is != was) {
            fail(name, number, "a result has another dtype");
            return;
        }
        if (!same(got[i], want[i])) {
            fail(name, number, is_out ? "a result differs"
                                      : "a gradient differs");
            return;
        }
    }
    *(parts ? &counts.parts : &counts.same) += 1;
}

int main(int argc, char **argv)
{
    size_t every = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 3;
    bool failed = false;
    printf("1..2\n");
    for (int k = 0; k < 2; k++) {
        lower = k ? TN_BF16 : TN_F16;
        counts = (struct counts){0};
        if (!golden_each_sample(argc > 1 ? argv[1] : NULL, every, one_sample,
                                NULL))
            return 1;
        bool good = !counts.failed && counts.same && counts.lower;
        printf("%s %d - autocast to %s: %ld samples have the bits of one in "
               "the dtypes asked for, %ld run by their parts, %ld results in "
               "the half type, %ld refused, %ld failed\n",
               good ? "ok" : "not ok", k + 1, tn_dtype_name(lower),
               counts.same, counts.parts, counts.lower, counts.refused,
               counts.failed);
        failed = failed || !good;
    }
    return failed;
}
