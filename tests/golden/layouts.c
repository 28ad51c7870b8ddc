/* layouts.c: runs every operator on inputs with other strides.
 *
 *     layouts [DIR [EVERY]]   every EVERYth (1) sample of each file in DIR/ops
 *
 * A sample of tests/golden runs with contiguous inputs, then with the same
 * values in other layouts. Outputs and gradients must be bit-identical; if the
 * device's matrix product or convolution ran, which may sum in any order, they
 * must be within the operator's tolerance. Prints one TAP line for each layout,
 * with counts. A call that is rejected with contiguous inputs is skipped; a
 * call that is rejected only in another layout is a failure. */
#include "golden.h"
#include "vendor.h"

#include <base/object.h>
#include <device/device.h>
#include <same_bits.h>
#include <stdlib.h>
#include <string.h>
#include <tensor/tensor.h>

enum { MOST_RESULTS = 96 };

/* ---- layouts ------------------------------------------------------------- */

/* Copies x into a view, with these strides and this offset, of a tensor of
 * `room` elements. Returns the view. */
static tn_tensor *placed(tn_tensor *x, int64_t room, const int64_t *stride,
                         int64_t offset)
{
    tn_tensor *base = tn_full(tn_dims(room), 0.0,
                              .dtype = tn_tensor_dtype(x),
                              .device = tn_tensor_device(x));
    if (!x || !base)
        return NULL;
    tn_tensor *view = tn__scope_own(tn__tensor_view(
        base, x->dtype, x->ndim, x->shape, stride, offset));
    TN_NO_GRAD {
        if (!tn_copy_(view, x))
            view = NULL;
    }
    return view;
}

static tn_tensor *contiguous(tn_tensor *x)
{
    return tn_clone(x);
}

/* Returns x in column-major order: the first dimension is innermost, as in
 * Fortran. */
static tn_tensor *transposed(tn_tensor *x)
{
    int64_t stride[TN_MAX_NDIM], room = 1;
    for (int d = 0; x && d < x->ndim; d++) {
        stride[d] = room;
        room *= x->shape[d];
    }
    return x ? placed(x, room, stride, 0) : NULL;
}

/* Returns x as every second element of rows with a gap, from an odd offset. */
static tn_tensor *strided(tn_tensor *x)
{
    int64_t stride[TN_MAX_NDIM], room = 2;
    for (int d = x ? x->ndim - 1 : -1; d >= 0; d--) {
        stride[d] = room;
        room = room * x->shape[d] + 3;
    }
    return x ? placed(x, room + 1, stride, 1) : NULL;
}

/* Returns x with negative strides. */
static tn_tensor *backwards(tn_tensor *x)
{
    int64_t stride[TN_MAX_NDIM], room = 1, offset = 0;
    for (int d = x ? x->ndim - 1 : -1; d >= 0; d--) {
        stride[d] = -room;
        offset += x->shape[d] ? (x->shape[d] - 1) * room : 0;
        room *= x->shape[d];
    }
    return x ? placed(x, room, stride, offset) : NULL;
}

static const struct {
    const char *name;
    tn_tensor *(*make)(tn_tensor *x);
} layouts[] = {{"transposed", transposed},
               {"strided, at an offset", strided},
               {"backwards (negative strides)", backwards}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* ---- comparison ---------------------------------------------------------- */

typedef struct tally {
    long same, close, failed, refused;
} tally;

static tally tallies[LAYOUTS];
static long about_memory_samples; /* number of skipped samples */

static void compare(const char *name, size_t number, int k, tn_tensor **want,
                    int want_count, tn_tensor **got, int got_count)
{
    bool same = got_count == want_count, close = same;
    char why[256] = "another number of results";
    for (int i = 0; i < want_count && close; i++) {
        bool bits = same_bits(want[i], got[i]);
        same = same && bits;
        if (bits)
            continue;
        snprintf(why, sizeof why, "result %d has other bits", i);
        close = vendor_sums > 0 &&
                golden_equal(got[i], want[i],
                             tolerance_for(name, tn_tensor_dtype(want[i])),
                             why, sizeof why);
    }
    if (same)
        tallies[k].same++;
    else if (close)
        tallies[k].close++;
    else if (tallies[k].failed++ < 20)
        printf("# %s: %s, sample %zu: %s\n", layouts[k].name, name, number,
               why);
}

/* Operators whose result depends on the layout, or that reject some layouts. */
static const char *const about_memory[] = {"as_strided", "as_strided_copy",
                                           "as_strided_scatter", "view",
                                           "view_as", "view_copy"};

static bool is_about_memory(const char *name)
{
    for (size_t i = 0; i < sizeof about_memory / sizeof *about_memory; i++)
        if (strcmp(name, about_memory[i]) == 0)
            return true;
    return false;
}

/* ---- loop over samples --------------------------------------------------- */

static void one_sample(tn_safetensors *file, const json_t *json,
                       const char *name, size_t number, void *context)
{
    (void)context;
    if (is_about_memory(name)) {
        about_memory_samples++;
        return;
    }
    tn_tensor *want[MOST_RESULTS];
    char why[400] = "";
    vendor_sums = 0;
    tn_rng_state start = tn_rng_snapshot();
    int count = op_sample_results(file, json, name, contiguous, want,
                                  MOST_RESULTS, why, sizeof why);
    tn_error_clear();
    for (int k = 0; k < LAYOUTS; k++) {
        tn_tensor *got[MOST_RESULTS];
        if (count < 0) {
            tallies[k].refused++;
            continue;
        }
        tn_rng_restore(start);
        int filled = op_sample_results(file, json, name, layouts[k].make, got,
                                       MOST_RESULTS, why, sizeof why);
        if (filled < 0 && tallies[k].failed++ < 20)
            printf("# %s: %s, sample %zu: %s\n", layouts[k].name, name,
                   number, why);
        if (filled >= 0)
            compare(name, number, k, want, count, got, filled);
        tn_error_clear();
    }
}

int main(int argc, char **argv)
{
    size_t every = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 1;
    tn_device *device = tn_device_current();
    if (!device) {
        printf("Bail out! %s\n", tn_error());
        return 1;
    }
    vendor_watch(device);
    if (!golden_each_sample(argc > 1 ? argv[1] : NULL, every, one_sample,
                            NULL))
        return 1;
    vendor_leave();
    printf("# %ld samples left out, of operators that are about memory:",
           about_memory_samples);
    for (size_t i = 0; i < sizeof about_memory / sizeof *about_memory; i++)
        printf(" %s", about_memory[i]);
    printf("\n1..%d\n", LAYOUTS);
    long failed = 0;
    for (int k = 0; k < LAYOUTS; k++) {
        const tally *t = &tallies[k];
        failed += t->failed + (t->same == 0);
        printf("%s %d - %s: %s inputs: %ld samples with equal bits, %ld with "
               "the vendor's sums within tolerance, %ld failed, %ld refused "
               "when contiguous too\n",
               t->failed || !t->same ? "not ok" : "ok", k + 1,
               tn_device_name(device), layouts[k].name, t->same, t->close,
               t->failed, t->refused);
    }
    return failed > 0;
}
