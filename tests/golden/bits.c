/* bits.c: checks that every operator gives results bit-identical to the
 * reference plugin's.
 *
 *     bits [DEVICE [DIR [EVERY [SIZES]]]]   every EVERYth (1) sample of each
 *                                           file in DIR/ops, on DEVICE (cpu)
 *
 * A sample of tests/golden runs on `reference` and on the device. Outputs and
 * gradients must be bit-identical; all NaNs are equal. Other bits are allowed
 * for two causes: the device used its own matrix product, convolution or
 * attention, which may sum in any order; or other_bits.def lists the operator
 * with a reason. Results must then be within the operator's tolerance or, if
 * the tolerance is a distance from the float64 result, within that distance of
 * each other.
 *
 * Each sample runs again with inputs of which a dimension is empty or has size
 * 1. If one device rejects such a call, the other must reject it, too. Prints a
 * TAP line for each of these sizes, and before them the operators whose bits
 * differ, with the cause, and the number of kernel sources that a device which
 * compiles source would compile for all samples (census.c). */
#include "census.h"
#include "golden.h"
#include "vendor.h"

#include <base/object.h>
#include <device/device.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/tensor.h>

enum { MOST_RESULTS = 96 };

static const struct {
    const char *op, *reason;
} others[] = {
#define OTHER_BITS(op, reason) {op, reason},
#define OTHER_SUMS(op, dtype, relative, absolute, reason)
#include "other_bits.def"
#undef OTHER_BITS
#undef OTHER_SUMS
    {NULL, NULL},
};

static const struct {
    const char *op;
    tn_dtype dtype;
    tolerance within;
} sums[] = {
#define OTHER_BITS(op, reason)
#define OTHER_SUMS(op, dtype, relative, absolute, reason)                     \
    {op, dtype, {relative, absolute}},
#include "other_bits.def"
#undef OTHER_BITS
#undef OTHER_SUMS
    {NULL, TN_DTYPE_NONE, {0, 0}},
};

/* ---- sizes of inputs ----------------------------------------------------- */

static tn_tensor *cut(tn_tensor *x, int dim, int64_t size)
{
    int ndim = tn_tensor_ndim(x);
    dim = dim < 0 ? ndim - 1 : dim;
    if (ndim == 0 || tn_tensor_size(x, dim) <= size)
        return tn_clone(x);
    return tn_clone(tn_narrow(x, dim, 0, size));
}

static tn_tensor *first_empty(tn_tensor *x)
{
    return cut(x, 0, 0);
}

static tn_tensor *last_empty(tn_tensor *x)
{
    return cut(x, -1, 0);
}

static tn_tensor *first_one(tn_tensor *x)
{
    return cut(x, 0, 1);
}

static tn_tensor *last_one(tn_tensor *x)
{
    return cut(x, -1, 1);
}

/* Inputs are used unchanged, and with a dimension that is empty or has size
 * 1. */
static const struct {
    const char *name;
    tn_tensor *(*make)(tn_tensor *x);
} sizes[] = {{"as PyTorch called it", tn_clone},
             {"first dimensions empty", first_empty},
             {"last dimensions empty", last_empty},
             {"first dimensions of size 1", first_one},
             {"last dimensions of size 1", last_one}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static tn_device *reference;
static struct tally {
    long same, close_enough, failed, refused;
} tallies[SIZES];
static int size_now, size_count = SIZES; /* index of the current size, and
                                          * number of sizes */

/* ---- comparison ---------------------------------------------------------- */

/* Returns the elements in row-major order; the caller frees them. */
static char *bytes_of(tn_tensor *x, size_t bytes)
{
    char *data = malloc(bytes + 1);
    if (data && tn_tensor_to_array(tn_contiguous(x), data, bytes) < 0) {
        free(data);
        return NULL;
    }
    return data;
}

static bool same_element(tn_dtype dtype, const char *a, const char *b)
{
    size_t size = tn_dtype_bytes(dtype);
    if (memcmp(a, b, size) == 0)
        return true;
    double x = tn__element_double(dtype, a), y = tn__element_double(dtype, b);
    return x != x && y != y;
}

/* Writes a description of the difference; "" if there is none. */
static void difference(tn_tensor *got, tn_tensor *want, char *why, size_t room)
{
    tn_dtype dtype = want->dtype;
    size_t size = tn_dtype_bytes(dtype), bytes = (size_t)want->numel * size;
    *why = 0;
    if (got->dtype != dtype ||
        !tn__shape_equal(got->ndim, got->shape, want->ndim, want->shape)) {
        snprintf(why, room, "another shape or dtype");
        return;
    }
    char *g = bytes_of(got, bytes), *w = bytes_of(want, bytes);
    if (!g || !w)
        snprintf(why, room, "%s", tn_error() ? tn_error() : "no memory");
    for (int64_t i = 0; g && w && !*why && i < want->numel; i++) {
        const char *x = g + (size_t)i * size, *y = w + (size_t)i * size;
        if (!same_element(dtype, x, y))
            snprintf(why, room, "element %lld is %.9g, the reference's %.9g",
                     (long long)i, tn__element_double(dtype, x),
                     tn__element_double(dtype, y));
    }
    free(g);
    free(w);
}

static const char *reason_for(const char *op)
{
    for (int i = 0; others[i].op; i++)
        if (strcmp(others[i].op, op) == 0)
            return others[i].reason;
    return vendor_sums ? "a sum in the device's own order" : NULL;
}

static tolerance within_for(const char *op, tn_dtype dtype)
{
    for (int i = 0; vendor_sums && sums[i].op; i++)
        if (strcmp(sums[i].op, op) == 0 && sums[i].dtype == dtype)
            return sums[i].within;
    return tolerance_for(op, dtype);
}

/* Prints one line for each operator, at its first sample with a difference. */
static void tell(const char *op, size_t number, const char *why,
                 const char *cause)
{
    static char last[64];
    if (cause && strcmp(last, op) == 0)
        return;
    printf("# %s, sample %zu, %s: %s%s%s\n", op, number,
           sizes[size_now].name, why, cause ? "; cause: " : "",
           cause ? cause : "");
    snprintf(last, sizeof last, "%s", op);
}

static void compare(const char *op, size_t number, tn_tensor **got,
                    int got_count, tn_tensor **want, int want_count)
{
    char why[256] = "another number of results", text[256];
    bool bits = got_count == want_count, near = bits;
    const char *cause = reason_for(op);
    for (int i = 0; i < want_count && near; i++) {
        difference(got[i], want[i], text, sizeof text);
        if (!*text)
            continue;
        if (bits)
            snprintf(why, sizeof why, "result %d: %.200s", i, text);
        bits = false;
        near = cause &&
               (golden_equal(got[i], want[i],
                             within_for(op, tn_tensor_dtype(want[i])), text,
                             sizeof text) ||
                golden_rounds(got[i], want[i], text, sizeof text));
    }
    tallies[size_now].same += bits;
    tallies[size_now].close_enough += !bits && near;
    tallies[size_now].failed += !near;
    if (!bits)
        tell(op, number, why, near ? cause : NULL);
}

/* ---- loop over samples --------------------------------------------------- */

/* Computes a sample's results on a device, with the same random numbers on each
 * device. */
static int run_on(tn_device *device, tn_safetensors *file, const json_t *json,
                  const char *op, tn_tensor **out, char *why, size_t room)
{
    tn_device_set(device);
    tn_manual_seed(17);
    int count = op_sample_results(file, json, op, sizes[size_now].make, out,
                                  MOST_RESULTS, why, room);
    /* Waits, so that failures of asynchronous work belong to this sample. */
    if (tn_device_synchronize(device) < 0 && count >= 0) {
        snprintf(why, room, "%s", tn_error());
        count = -1;
    }
    tn_error_clear();
    return count;
}

/* Runs a sample on reference and on the device. Both must succeed or both
 * reject. */
static void one_size(tn_safetensors *file, const json_t *json, const char *op,
                     size_t number, tn_device *device)
{
    tn_tensor *want[MOST_RESULTS], *got[MOST_RESULTS];
    char why[400] = "", reason[400] = "";
    int wanted = run_on(reference, file, json, op, want, reason, sizeof reason);
    vendor_sums = 0;
    int count = run_on(device, file, json, op, got, why, sizeof why);
    tn_device_set(reference);
    if (wanted >= 0 && count >= 0) {
        compare(op, number, got, count, want, wanted);
    } else if (wanted < 0 && count < 0) {
        tallies[size_now].refused++;
    } else {
        tallies[size_now].failed++;
        printf("# %s, sample %zu, %s: refused by %s alone: %s\n", op, number,
               sizes[size_now].name, count < 0 ? "the device" : "the reference",
               count < 0 ? why : reason);
    }
    tn_error_clear();
}

static void one_sample(tn_safetensors *file, const json_t *json,
                       const char *op, size_t number, void *context)
{
    for (size_now = 0; size_now < size_count; size_now++) {
        tn_scope *scope = tn_scope_open();
        one_size(file, json, op, number, context);
        tn_scope_close(scope);
    }
}

int main(int argc, char **argv)
{
    size_t every = argc > 3 ? (size_t)strtoul(argv[3], NULL, 10) : 1;
    if (argc > 4)
        size_count = atoi(argv[4]);
    reference = tn_device_open("reference");
    tn_device *device = tn_device_open(argc > 1 ? argv[1] : "cpu");
    if (!reference || !device) {
        printf("Bail out! %s\n", tn_error());
        return 1;
    }
    census_watch(reference);
    vendor_watch(device);
    if (!golden_each_sample(argc > 2 ? argv[2] : NULL, every, one_sample,
                            device))
        return 1;
    vendor_leave();
    census_print();
    census_leave();
    long failed = 0;
    printf("1..%d\n", size_count);
    for (int k = 0; k < size_count; k++) {
        const struct tally *t = &tallies[k];
        bool good = !t->failed && t->same;
        failed += !good;
        printf("%s %d - %s, %s: %ld samples with the reference's bits, %ld "
               "within tolerance for a known cause, %ld failed, %ld refused "
               "on both\n",
               good ? "ok" : "not ok", k + 1, tn_device_name(device),
               sizes[k].name, t->same, t->close_enough, t->failed, t->refused);
    }
    printf("# %lld programs went through a compiler\n",
           (long long)tn_programs_compiled());
    return failed > 0;
}
